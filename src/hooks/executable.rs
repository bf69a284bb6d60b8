//! Executables: their kernels have addresses from the moment they are frozen until they are destroyed.

use std::ffi::c_char;

use hsa::{Api, Executable};
use hsa_sys::raw::{
    self, hsa_agent_t, hsa_code_object_reader_t, hsa_executable_t, hsa_loaded_code_object_t, hsa_status_t,
};

use super::original;
use crate::calls;
use crate::entry::guard;
use crate::session::{self, Session};

pub(super) unsafe extern "C" fn load_agent_code_object(
    executable: hsa_executable_t,
    agent: hsa_agent_t,
    reader: hsa_code_object_reader_t,
    options: *const c_char,
    loaded: *mut hsa_loaded_code_object_t,
) -> hsa_status_t {
    let mut ours = hsa_loaded_code_object_t::default();
    // An application need not want to know.
    let to = if loaded.is_null() { &raw mut ours } else { loaded };
    let status = original!(core.hsa_executable_load_agent_code_object_fn(executable, agent, reader, options, to));
    if status == raw::HSA_STATUS_SUCCESS {
        guard((), || {
            let Some(session) = session::current() else { return };
            // SAFETY: the runtime has written the handle there.
            let handle = unsafe { to.read() }.handle;
            if let Some(capture) = &session.capture {
                capture.loaded(session, Executable(executable.handle), agent.handle, handle);
            }
            if let Some(swapper) = &session.swapper {
                swapper.watch(session);
                swapper.loaded(session, Executable(executable.handle), agent.handle, handle);
            }
        });
    }
    status
}

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
        for agent in loader.agents(executable)? {
            kernels.extend(api.kernels(executable, agent)?);
        }
        ::log::debug!("executable {:#x}: {} kernels", executable.0, kernels.len());
        session.kernels.loaded(executable, &kernels);
        if let Some(capture) = &session.capture {
            capture.frozen(session, executable, &kernels);
        }
        if let Some(swapper) = &session.swapper {
            swapper.frozen(session, executable, &kernels);
        }
    }
    Ok(())
}

pub(super) unsafe extern "C" fn destroy(executable: hsa_executable_t) -> hsa_status_t {
    // Before the addresses can be used again.
    guard((), || {
        if let Some(session) = session::current() {
            session.kernels.destroyed(Executable(executable.handle));
            session.swapper.iter().for_each(|s| s.destroyed(Executable(executable.handle)));
            let capture = session.capture.iter();
            capture.for_each(|c| c.memory_leaves(|memory| memory.unloaded(Executable(executable.handle))));
        }
    });
    original!(core.hsa_executable_destroy_fn(executable))
}
