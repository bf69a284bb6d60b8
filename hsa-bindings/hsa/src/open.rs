//! Opening a runtime in a program of our own.

use std::path::Path;

use hsa_sys::raw::{AmdExtTable, CoreApiTable, ImageExtTable};
use libloading::os::unix::{Library, RTLD_NOW};

use crate::{Api, HsaError, Result};

/// Fills the entries of a table from the exports of a library: an entry is called as its function, with `_fn` behind it.
macro_rules! load {
    ($library:ident, $table:expr; $($entry:ident),* $(,)?) => {
        $(
            let name = stringify!($entry);
            let name = name.strip_suffix("_fn").unwrap_or(name);
            // SAFETY: the runtime's export of this name has the type of the table's entry: the table is declared with
            // `decltype` of the function (`hsa_api_trace.h`).
            $table.$entry = unsafe { $library.get(name.as_bytes()) }.ok().map(|symbol| *symbol);
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
        let mut api =
            Api { core: CoreApiTable::default(), amd: AmdExtTable::default(), image: ImageExtTable::default() };
        load!(library, api.core;
            hsa_init_fn,
            hsa_shut_down_fn,
            hsa_system_get_info_fn,
            hsa_system_get_major_extension_table_fn,
            hsa_iterate_agents_fn,
            hsa_agent_get_info_fn,
            hsa_agent_iterate_isas_fn,
            hsa_isa_get_info_alt_fn,
            hsa_queue_create_fn,
            hsa_queue_destroy_fn,
            hsa_queue_add_write_index_screlease_fn,
            hsa_queue_load_read_index_scacquire_fn,
            hsa_signal_load_scacquire_fn,
            hsa_signal_create_fn,
            hsa_signal_destroy_fn,
            hsa_signal_store_screlease_fn,
            hsa_code_object_reader_create_from_memory_fn,
            hsa_code_object_reader_destroy_fn,
            hsa_executable_create_alt_fn,
            hsa_executable_load_agent_code_object_fn,
            hsa_executable_freeze_fn,
            hsa_executable_destroy_fn,
            hsa_executable_iterate_agent_symbols_fn,
            hsa_executable_symbol_get_info_fn,
        );
        load!(library, api.amd;
            hsa_amd_agent_iterate_memory_pools_fn,
            hsa_amd_memory_pool_get_info_fn,
            hsa_amd_agent_memory_pool_get_info_fn,
            hsa_amd_memory_pool_allocate_fn,
            hsa_amd_memory_pool_free_fn,
            hsa_amd_vmem_address_reserve_fn,
            hsa_amd_vmem_handle_create_fn,
            hsa_amd_vmem_map_fn,
            hsa_amd_vmem_set_access_fn,
            hsa_amd_agents_allow_access_fn,
            hsa_amd_memory_async_copy_fn,
            hsa_amd_memory_fill_fn,
            hsa_amd_signal_create_fn,
            hsa_amd_profiling_set_profiler_enabled_fn,
            hsa_amd_profiling_get_dispatch_time_fn,
            hsa_amd_profiling_convert_tick_to_system_domain_fn,
            hsa_amd_pointer_info_fn,
            hsa_amd_queue_cu_set_mask_fn,
            hsa_amd_queue_set_priority_fn,
            hsa_amd_register_system_event_handler_fn,
        );
        let _stays_open = library.into_raw();
        Ok(api)
    }
}
