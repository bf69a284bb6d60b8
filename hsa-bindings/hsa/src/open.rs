//! Opening a runtime in a program of our own.

use std::path::Path;

use hsa_sys::raw::{AmdExtTable, CoreApiTable};
use libloading::os::unix::{Library, RTLD_NOW};

use crate::{Api, HsaError, Result};

/// Fills the entries of a table from the exports of a library that have their names.
macro_rules! load {
    ($library:ident, $table:expr; $($entry:ident = $symbol:literal),* $(,)?) => {
        $(
            // SAFETY: the runtime's export of this name has the type of the table's entry: the table is declared with
            // `decltype` of the function (`hsa_api_trace.h`).
            $table.$entry = unsafe { $library.get($symbol) }.ok().map(|symbol| *symbol);
        )*
    };
}

impl Api {
    /// Opens `libhsa-runtime64.so.1` (or the library at `path`) and takes its functions. The library stays open for the
    /// life of the process. The runtime is not started.
    ///
    /// # Errors
    /// What the dynamic loader says.
    pub fn open(path: Option<&Path>) -> Result<Api> {
        let name = path.unwrap_or(Path::new("libhsa-runtime64.so.1"));
        // SAFETY: the runtime's initialisers have no preconditions.
        let library = unsafe { Library::open(Some(name), RTLD_NOW) }.map_err(|e| HsaError::Open(e.to_string()))?;
        let mut api = Api { core: CoreApiTable::default(), amd: AmdExtTable::default() };
        load!(library, api.core;
            hsa_init_fn = b"hsa_init\0",
            hsa_shut_down_fn = b"hsa_shut_down\0",
            hsa_system_get_info_fn = b"hsa_system_get_info\0",
            hsa_iterate_agents_fn = b"hsa_iterate_agents\0",
            hsa_agent_get_info_fn = b"hsa_agent_get_info\0",
        );
        let _stays_open = library.into_raw();
        Ok(api)
    }
}
