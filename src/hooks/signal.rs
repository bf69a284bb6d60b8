//! Signals: a store to a doorbell publishes packets; times are read before a signal is gone.

use std::mem;

use hsa_sys::raw::{
    HSA_STATUS_ERROR_NOT_INITIALIZED, HSA_STATUS_SUCCESS, hsa_amd_ipc_signal_t, hsa_signal_t, hsa_signal_value_t,
    hsa_status_t,
};
use logdur_intercept::watch::inplace;
use logdur_intercept::{guard, interceptor};

use super::{later, original};
use crate::session;

/// Stores, one function for each way; on a doorbell all of them ring, the silent ones too.
macro_rules! store_hooks {
    ($($hook:ident $store_fn:ident),*) => {
        $(pub(super) unsafe extern "C" fn $hook(signal: hsa_signal_t, value: hsa_signal_value_t) {
            if !inplace::rang(signal, value) {
                reused(signal);
                original!(core.$store_fn(signal, value) else ());
            }
        })*
    };
}

store_hooks! {
    store_relaxed hsa_signal_store_relaxed_fn, store_screlease hsa_signal_store_screlease_fn,
    silent_store_relaxed hsa_signal_silent_store_relaxed_fn, silent_store_screlease hsa_signal_silent_store_screlease_fn
}

fn reused(signal: hsa_signal_t) {
    guard((), || {
        let Some(session) = session::current() else { return };
        if let Some(capture) = &session.capture {
            capture.copies.reused(signal.handle);
        }
        if let Some(copies) = &session.copies {
            copies.leaves(&session.interceptor, signal.handle);
        }
    });
}

pub(super) unsafe extern "C" fn destroy(signal: hsa_signal_t) -> hsa_status_t {
    guard((), || {
        if let Some(session) = session::current() {
            session.interceptor.signal_destroyed(signal.handle);
            session.copies.iter().for_each(|copies| copies.leaves(&session.interceptor, signal.handle));
            if let Some(capture) = &session.capture {
                capture.copies.destroyed(signal.handle);
                // Its memory stays the runtime's.
                capture.memory(|all| all.freed(signal.handle));
            }
        }
    });
    original!(core.hsa_signal_destroy_fn(signal))
}

pub(super) unsafe extern "C" fn get_event_id(signal: hsa_signal_t, event: *mut u32) -> hsa_status_t {
    let Some(original) = later::EVENT_ID.original() else { return HSA_STATUS_ERROR_NOT_INITIALIZED };
    // SAFETY: the entry's function has this type (`hsa_ext_amd.h` of rocm-systems, 2026).
    let original: unsafe extern "C" fn(hsa_signal_t, *mut u32) -> hsa_status_t = unsafe { mem::transmute(original) };
    // SAFETY: the arguments are the caller's own, passed on.
    let status = unsafe { original(signal, event) };
    if status == HSA_STATUS_SUCCESS {
        guard((), || {
            let Some(interceptor) = interceptor::current() else { return };
            // SAFETY: the runtime has written the event.
            interceptor.signal_event_given(signal.handle, unsafe { event.read() });
        });
    }
    status
}

pub(super) unsafe extern "C" fn ipc_create(signal: hsa_signal_t, handle: *mut hsa_amd_ipc_signal_t) -> hsa_status_t {
    let status = original!(amd.hsa_amd_ipc_signal_create_fn(signal, handle));
    if status == HSA_STATUS_SUCCESS {
        shared_with_others(signal);
    }
    status
}

pub(super) unsafe extern "C" fn ipc_attach(
    handle: *const hsa_amd_ipc_signal_t,
    signal: *mut hsa_signal_t,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_ipc_signal_attach_fn(handle, signal));
    if status == HSA_STATUS_SUCCESS {
        // SAFETY: the runtime has written the signal.
        shared_with_others(unsafe { signal.read() });
    }
    status
}

fn shared_with_others(signal: hsa_signal_t) {
    guard((), || {
        if let Some(interceptor) = interceptor::current() {
            interceptor.signal_shared_with_others(signal.handle);
        }
    });
}
