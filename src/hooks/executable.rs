//! Executables: their kernels have addresses from the moment they are frozen until they are destroyed.

use std::ffi::c_char;

use hsa::{Api, Executable};
use hsa_sys::raw::{self, hsa_executable_t, hsa_status_t};

use super::original;
use crate::calls;
use crate::entry::guard;
use crate::session::{self, Session};

pub(super) unsafe extern "C" fn freeze(executable: hsa_executable_t, options: *const c_char) -> hsa_status_t {
    let status = original!(core.hsa_executable_freeze_fn(executable, options));
    if status == raw::HSA_STATUS_SUCCESS {
        guard((), || {
            if let (Some(session), Some(api)) = (session::current(), calls::get()) {
                frozen(session, api, Executable(executable.handle));
            }
        });
    }
    status
}

fn frozen(session: &Session, api: &Api, executable: Executable) {
    if let Err(error) = enter(session, api, executable) {
        session.notice(format!("the kernels of an executable have no names: {error}"));
    }
}

fn enter(session: &Session, api: &Api, executable: Executable) -> hsa::Result<()> {
    let loader = api.loader()?;
    // Those that were loaded before the hook was there. Old loaders cannot say, and have none.
    let others = loader.executables(api).unwrap_or_default();
    for executable in others.into_iter().chain([executable]) {
        if session.kernels.knows(executable) {
            continue;
        }
        let mut kernels = Vec::new();
        for agent in loader.agents(api, executable)? {
            kernels.extend(api.kernels(executable, agent)?);
        }
        ::log::debug!("executable {:#x}: {} kernels", executable.0, kernels.len());
        session.kernels.loaded(executable, kernels);
    }
    Ok(())
}

pub(super) unsafe extern "C" fn destroy(executable: hsa_executable_t) -> hsa_status_t {
    // Before the addresses can be used again.
    guard((), || {
        if let Some(session) = session::current() {
            session.kernels.destroyed(Executable(executable.handle));
        }
    });
    original!(core.hsa_executable_destroy_fn(executable))
}
