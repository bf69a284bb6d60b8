//! Asynchronous copies: their completion signals may be ones that a dispatch completed on, whose times the copy — done by
//! a kernel of the runtime's own — is about to overwrite.

use std::ffi::c_void;

use hsa_sys::raw::{
    hsa_agent_t, hsa_amd_copy_direction_t, hsa_amd_sdma_engine_id_t, hsa_dim3_t, hsa_pitched_ptr_t, hsa_signal_t,
    hsa_status_t,
};

use super::original;
use crate::entry::guard;
use crate::session;

fn before(signal: hsa_signal_t) {
    guard((), || {
        if let Some(session) = session::current().filter(|_| signal.handle != 0) {
            session.pending.before_reuse(signal.handle);
            if let Some(capture) = &session.capture {
                capture.copies.starts(signal.handle);
            }
        }
    });
}

pub(super) unsafe extern "C" fn memory_async_copy(
    to: *mut c_void,
    to_agent: hsa_agent_t,
    from: *const c_void,
    from_agent: hsa_agent_t,
    size: usize,
    dependencies: u32,
    dependency: *const hsa_signal_t,
    completion: hsa_signal_t,
) -> hsa_status_t {
    before(completion);
    original!(amd.hsa_amd_memory_async_copy_fn(
        to,
        to_agent,
        from,
        from_agent,
        size,
        dependencies,
        dependency,
        completion
    ))
}

pub(super) unsafe extern "C" fn memory_async_copy_on_engine(
    to: *mut c_void,
    to_agent: hsa_agent_t,
    from: *const c_void,
    from_agent: hsa_agent_t,
    size: usize,
    dependencies: u32,
    dependency: *const hsa_signal_t,
    completion: hsa_signal_t,
    engine: hsa_amd_sdma_engine_id_t,
    force: bool,
) -> hsa_status_t {
    before(completion);
    original!(amd.hsa_amd_memory_async_copy_on_engine_fn(
        to,
        to_agent,
        from,
        from_agent,
        size,
        dependencies,
        dependency,
        completion,
        engine,
        force
    ))
}

pub(super) unsafe extern "C" fn memory_async_copy_rect(
    to: *const hsa_pitched_ptr_t,
    to_offset: *const hsa_dim3_t,
    from: *const hsa_pitched_ptr_t,
    from_offset: *const hsa_dim3_t,
    range: *const hsa_dim3_t,
    agent: hsa_agent_t,
    direction: hsa_amd_copy_direction_t,
    dependencies: u32,
    dependency: *const hsa_signal_t,
    completion: hsa_signal_t,
) -> hsa_status_t {
    before(completion);
    original!(amd.hsa_amd_memory_async_copy_rect_fn(
        to,
        to_offset,
        from,
        from_offset,
        range,
        agent,
        direction,
        dependencies,
        dependency,
        completion
    ))
}
