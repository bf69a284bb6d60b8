//! Executables: their kernels have addresses from the moment they are frozen until they are destroyed.

use std::ffi::c_char;
use std::sync::Arc;

use hsa::{Api, Executable};
use hsa_sys::raw::{
    self, hsa_agent_t, hsa_code_object_reader_t, hsa_code_object_t, hsa_executable_t, hsa_loaded_code_object_t,
    hsa_status_t,
};
use logdur_intercept::calls;
use logdur_intercept::guard_large;
use logdur_system::lock;

use super::original;
use crate::code::{CodeContents, Object, Objects};
use crate::session::{self, Session};

pub(super) unsafe extern "C" fn load_agent_code_object(
    executable: hsa_executable_t,
    agent: hsa_agent_t,
    reader: hsa_code_object_reader_t,
    options: *const c_char,
    loaded: *mut hsa_loaded_code_object_t,
) -> hsa_status_t {
    let before = handles(executable);
    let status = original!(core.hsa_executable_load_agent_code_object_fn(executable, agent, reader, options, loaded));
    code_came(status, executable, &before, true)
}

pub(super) unsafe extern "C" fn load_program_code_object(
    executable: hsa_executable_t,
    reader: hsa_code_object_reader_t,
    options: *const c_char,
    loaded: *mut hsa_loaded_code_object_t,
) -> hsa_status_t {
    let before = handles(executable);
    let status = original!(core.hsa_executable_load_program_code_object_fn(executable, reader, options, loaded));
    code_came(status, executable, &before, false)
}

/// The way of HSA 1.0, with what `hsa_code_object_deserialize` has made.
pub(super) unsafe extern "C" fn load_code_object(
    executable: hsa_executable_t,
    agent: hsa_agent_t,
    code: hsa_code_object_t,
    options: *const c_char,
) -> hsa_status_t {
    let before = handles(executable);
    let status = original!(core.hsa_executable_load_code_object_fn(executable, agent, code, options));
    code_came(status, executable, &before, agent.handle != 0)
}

/// The code objects that an executable has.
fn handles(executable: hsa_executable_t) -> Vec<u64> {
    guard_large(Vec::new(), || {
        let found = calls::get().and_then(|api| api.loader().ok()?.code_objects(Executable(executable.handle)).ok());
        found.unwrap_or_default()
    })
}

/// Something may have been loaded into an executable, for an agent or for none.
fn code_came(status: hsa_status_t, executable: hsa_executable_t, before: &[u64], for_agent: bool) -> hsa_status_t {
    let is_loaded = status == raw::HSA_STATUS_SUCCESS && for_agent;
    guard_large((), || {
        let (Some(session), Some(api)) = (session::current(), calls::get()) else { return };
        if !is_loaded {
            // A call that fails may leave something behind, too.
            let new = handles(executable).into_iter().filter(|handle| !before.contains(handle));
            return new.for_each(|handle| session.code.without_agent(Executable(executable.handle), handle));
        }
        session.swapper.iter().for_each(|swapper| swapper.watch(&session.interceptor));
        // What cannot be looked at here is looked at again when the executable is frozen, and missed there.
        if let Err(error) = look(session, api, Executable(executable.handle)) {
            ::log::debug!("executable {:#x}: {error}", executable.handle);
        }
    });
    status
}

/// Looks at the code objects of an executable that are new: at all of their bytes if one is to be swapped or captured, for rows
/// at what describes their kernels.
fn look(session: &'static Session, api: &Api, executable: Executable) -> hsa::Result<()> {
    let part = match (&session.capture, &session.swapper) {
        (None, None) if !session.log.has_rows() && session.control.is_none() => return Ok(()),
        (None, None) => CodeContents::Descriptions,
        _ => CodeContents::All,
    };
    for (object, bytes) in session.code.look(api, executable, part)? {
        if let Some(capture) = &session.capture {
            capture.loaded(&session.interceptor, executable, &object, &bytes);
        }
    }
    Ok(())
}

pub(super) unsafe extern "C" fn freeze(executable: hsa_executable_t, options: *const c_char) -> hsa_status_t {
    let status = original!(core.hsa_executable_freeze_fn(executable, options));
    if status == raw::HSA_STATUS_SUCCESS {
        guard_large((), || {
            if let (Some(session), Some(api)) = (session::current(), calls::get()) {
                frozen(session, api, Executable(executable.handle));
            }
        });
    }
    status
}

fn frozen(session: &'static Session, api: &Api, executable: Executable) {
    if let Err(error) = enter(session, api, executable) {
        session.interceptor.notice(format!("the kernels of an executable have no names: {error}"));
    }
}

fn enter(session: &'static Session, api: &Api, executable: Executable) -> hsa::Result<()> {
    // A thread whose executable another thread is entering waits until that is done: the first dispatch is swapped and
    // captured like later ones. A thread that destroys an executable waits before the runtime frees it.
    let leaving = lock(&session.code.leaving);
    // Those that were loaded before the hook was there, or past it. Old loaders cannot say, and have none.
    let others = api.loader()?.executables(api).unwrap_or_default();
    let is_other =
        |other: &Executable| *other != executable && !leaving.contains(other) && !session.kernels.knows(*other);
    for other in others.into_iter().filter(is_other) {
        // What is not frozen yet may get more code, and is entered when it is frozen.
        let entered = api.is_frozen(other).and_then(|is| if is { enter_one(session, api, other) } else { Ok(()) });
        if let Err(error) = entered {
            ::log::debug!("executable {:#x}: {error}", other.0);
        }
    }
    if session.kernels.knows(executable) { Ok(()) } else { enter_one(session, api, executable) }
}

fn enter_one(session: &'static Session, api: &Api, executable: Executable) -> hsa::Result<()> {
    let mut kernels = Vec::new();
    for agent in api.loader()?.agents(&session.code.handles(api, executable)?)? {
        kernels.extend(api.kernels(executable, agent)?);
    }
    ::log::debug!("executable {:#x}: {} kernels", executable.0, kernels.len());
    let code = code_of(session, api, executable);
    let objects = Objects::new(&code);
    objects.name(&mut kernels);
    for kernel in &mut kernels {
        kernel.kernarg_size = objects.kernarg_size(kernel);
    }
    // In the order of the objects: a code object has many kernels.
    let names: Vec<String> = code.iter().map(|object| object.name(api)).collect();
    session.kernels.loaded(executable, &kernels, |kernel| {
        let of = objects.of_kernel(kernel).and_then(|of| code.iter().position(|object| Arc::ptr_eq(object, of)));
        (objects.registers(kernel), of.and_then(|at| names.get(at).cloned()).unwrap_or_default())
    });
    if let Some(capture) = &session.capture {
        capture.frozen(&session.interceptor, executable, &kernels, &objects);
    }
    if let Some(swapper) = &session.swapper {
        swapper.frozen(&session.interceptor, executable, &kernels, &objects);
    }
    Ok(())
}

/// The code objects of an executable that is frozen.
fn code_of(session: &'static Session, api: &Api, executable: Executable) -> Vec<Arc<Object>> {
    if let Err(error) = look(session, api, executable) {
        ::log::debug!("executable {:#x}: {error}", executable.0);
    }
    session.code.take(executable)
}

pub(super) unsafe extern "C" fn destroy(executable: hsa_executable_t) -> hsa_status_t {
    let gone = Executable(executable.handle);
    // Before the addresses can be used again.
    let session = guard_large(None, || {
        let session = session::current()?;
        let mut leaving = lock(&session.code.leaving);
        leaving.push(gone);
        session.kernels.destroyed(gone);
        // It may never have been frozen.
        session.code.destroyed(gone);
        session.swapper.iter().for_each(|swapper| swapper.destroyed(&session.interceptor, gone));
        drop(leaving);
        session.capture.iter().for_each(|capture| capture.memory_leaves(|memory| memory.unloaded(gone)));
        Some(session)
    });
    let status = original!(core.hsa_executable_destroy_fn(executable));
    guard_large((), || {
        let Some(session) = session else { return };
        let mut leaving = lock(&session.code.leaving);
        // Another executable may have the handle already, and be leaving as well.
        if let Some(at) = leaving.iter().position(|other| *other == gone) {
            leaving.swap_remove(at);
        }
    });
    status
}
