//! Copies. Their completion signals may be ones that a dispatch completed on, whose times the copy — done by a kernel of the
//! runtime's own — is about to overwrite. While memory is captured, none begins.

use std::ffi::c_void;

use hsa_sys::raw::{
    HSA_AMD_SDMA_ENGINE_0, HSA_AMD_SDMA_ENGINE_1, hsa_agent_t, hsa_amd_copy_direction_t, hsa_amd_sdma_engine_id_t,
    hsa_dim3_t, hsa_pitched_ptr_t, hsa_signal_t, hsa_status_t, hsaHostToDevice,
};
use logdur_intercept::guard;

use super::original;
use crate::capture::{Engine, Inside, Path, copied_by_a_kernel};
use crate::session::{self, Session};

/// What a copy is asked for with.
struct Asked {
    /// So many signals that have to be 0 first.
    count: u32,
    dependency: *const hsa_signal_t,
    completion: hsa_signal_t,
}

impl Asked {
    /// The copy is about to be asked for.
    ///
    /// # Safety
    /// The application's promise: so many signals are there.
    unsafe fn before(&self, engine: impl Fn(&Session) -> Option<Engine>) {
        guard((), || {
            if let Some(session) = session::current().filter(|_| self.completion.handle != 0) {
                session.interceptor.signal_reused(self.completion.handle);
                if let Some(capture) = &session.capture {
                    let count = if self.dependency.is_null() { 0 } else { self.count as usize };
                    // SAFETY: the caller's promise.
                    let dependencies = (0..count).map(|n| unsafe { self.dependency.wrapping_add(n).read() }.handle);
                    let dependencies = dependencies.filter(|&handle| handle != 0).collect();
                    capture.copies.starts(self.completion.handle, dependencies, engine(session));
                }
            }
        });
    }
}

/// The engine that the runtime chooses by the agents of the two sides.
fn by_agents(session: &Session, to: hsa_agent_t, from: hsa_agent_t, size: usize) -> Option<Engine> {
    let is_gpu = |agent: &hsa_agent_t| session.interceptor.agent_position(agent.handle).is_some();
    let (gpu, path) = match (is_gpu(&to), is_gpu(&from)) {
        (true, true) if to.handle == from.handle && copied_by_a_kernel(size) => (to, Path::Within),
        (true, true) if to.handle == from.handle => (to, Path::ToHost),
        // Between GPUs there are others.
        (true, true) | (false, false) => return None,
        (true, false) => (to, Path::ToGpu),
        (false, true) => (from, Path::ToHost),
    };
    Some(Engine::of(gpu.handle, path))
}

/// Says that this thread copies until it is dropped.
fn copying() -> Option<Inside<'static>> {
    guard(None, || Some(session::current()?.capture.as_ref()?.copies.inside()))
}

pub(super) unsafe extern "C" fn memory_copy(to: *mut c_void, from: *const c_void, size: usize) -> hsa_status_t {
    let _copying = copying();
    original!(core.hsa_memory_copy_fn(to, from, size))
}

pub(super) unsafe extern "C" fn memory_fill(to: *mut c_void, value: u32, count: usize) -> hsa_status_t {
    let _copying = copying();
    original!(amd.hsa_amd_memory_fill_fn(to, value, count))
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
    let asked = Asked { count: dependencies, dependency, completion };
    // SAFETY: the application's promise to the runtime.
    unsafe { asked.before(|session| by_agents(session, to_agent, from_agent, size)) };
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
    let asked = Asked { count: dependencies, dependency, completion };
    // SAFETY: the application's promise to the runtime.
    unsafe {
        asked.before(|session| {
            let gpu = by_agents(session, to_agent, from_agent, size)?.gpu;
            // As the runtime numbers them.
            let path = match engine {
                HSA_AMD_SDMA_ENGINE_0 => Path::ToGpu,
                HSA_AMD_SDMA_ENGINE_1 => Path::ToHost,
                other => Path::Sdma(other.0),
            };
            Some(Engine::of(gpu, path))
        })
    };
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
    let path = if direction == hsaHostToDevice { Path::ToGpu } else { Path::ToHost };
    let engine = Engine::of(agent.handle, path);
    let asked = Asked { count: dependencies, dependency, completion };
    // SAFETY: the application's promise to the runtime.
    unsafe { asked.before(|_| Some(engine)) };
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
