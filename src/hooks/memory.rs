//! Memory that the application allocates, locks, maps and frees, for captures; signals are memory, too.

use std::ffi::{c_int, c_void};

use hsa::AgentKind;
use hsa_sys::raw::{
    HSA_STATUS_SUCCESS, hsa_agent_t, hsa_amd_ipc_memory_t, hsa_amd_memory_access_desc_t, hsa_amd_memory_pool_t,
    hsa_amd_memory_type_t, hsa_amd_svm_attribute_pair_t, hsa_amd_vmem_alloc_handle_t, hsa_region_t, hsa_signal_t,
    hsa_signal_value_t, hsa_status_t,
};
use logdur_intercept::calls;
use logdur_intercept::guard;
use logdur_intercept::interceptor;

use super::original;
use crate::capture::{Capture, Memory};
use crate::session;

fn with(body: impl FnOnce(&Capture)) {
    guard((), || {
        if let Some(capture) = session::current().and_then(|s| s.capture) {
            body(capture);
        }
    });
}

/// Tells of memory that is new, if the runtime's call has succeeded.
fn entered(status: hsa_status_t, body: impl FnOnce(&mut Memory)) -> hsa_status_t {
    if status == HSA_STATUS_SUCCESS {
        with(|capture| capture.memory(body));
    }
    status
}

/// Memory is about to go: not while it is being read.
fn leaving(body: impl FnOnce(&mut Memory)) {
    with(|capture| capture.memory_leaves(body));
}

/// Memory is about to be others' as well: before they have it.
fn shared(memory: *mut c_void) {
    with(|capture| capture.memory(|all| all.shared(address(memory))));
}

/// What the runtime has written to a place of the caller's.
fn written<T: Copy>(to: *mut T) -> T {
    // SAFETY: the runtime's call has succeeded, and has written there.
    unsafe { to.read() }
}

fn address<T>(pointer: *mut T) -> u64 {
    pointer.addr() as u64
}

pub(super) unsafe extern "C" fn pool_allocate(
    pool: hsa_amd_memory_pool_t,
    size: usize,
    flags: u32,
    memory: *mut *mut c_void,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_memory_pool_allocate_fn(pool, size, flags, memory));
    entered(status, |all| {
        if let Some(api) = calls::get() {
            all.allocated(api, pool.handle, address(written(memory)), size as u64);
        }
    })
}

pub(super) unsafe extern "C" fn pool_free(memory: *mut c_void) -> hsa_status_t {
    leaving(|all| all.freed(address(memory)));
    original!(amd.hsa_amd_memory_pool_free_fn(memory))
}

pub(super) unsafe extern "C" fn allocate(region: hsa_region_t, size: usize, memory: *mut *mut c_void) -> hsa_status_t {
    let status = original!(core.hsa_memory_allocate_fn(region, size, memory));
    entered(status, |all| {
        if let Some(api) = calls::get() {
            all.allocated(api, region.handle, address(written(memory)), size as u64);
        }
    })
}

pub(super) unsafe extern "C" fn free(memory: *mut c_void) -> hsa_status_t {
    leaving(|all| all.freed(address(memory)));
    original!(core.hsa_memory_free_fn(memory))
}

pub(super) unsafe extern "C" fn agents_allow_access(
    count: u32,
    agents: *const hsa_agent_t,
    flags: *const u32,
    memory: *const c_void,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_agents_allow_access_fn(count, agents, flags, memory));
    entered(status, |all| {
        // SAFETY: the runtime's call has succeeded: the list has so many agents.
        let agents = (0..count as usize).map(|n| unsafe { agents.wrapping_add(n).read() }.handle);
        all.allowed(memory.addr() as u64, agents.collect());
    })
}

pub(super) unsafe extern "C" fn vmem_set_access(
    memory: *mut c_void,
    size: usize,
    access: *const hsa_amd_memory_access_desc_t,
    count: usize,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_vmem_set_access_fn(memory, size, access, count));
    entered(status, |all| {
        for n in 0..count {
            // SAFETY: the runtime's call has succeeded: the list has so many entries.
            let access = unsafe { access.wrapping_add(n).read() };
            let agent = access.agent_handle.handle;
            let is_gpu = interceptor::current().is_some_and(|interceptor| interceptor.agent_position(agent).is_some());
            all.allowed_in(address(memory), size as u64, agent, is_gpu);
        }
    })
}

pub(super) unsafe extern "C" fn lock(
    host: *mut c_void,
    size: usize,
    agents: *mut hsa_agent_t,
    count: c_int,
    gpu: *mut *mut c_void,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_memory_lock_fn(host, size, agents, count, gpu));
    entered(status, |all| all.locked(address(host), address(written(gpu)), size as u64))
}

pub(super) unsafe extern "C" fn lock_to_pool(
    host: *mut c_void,
    size: usize,
    agents: *mut hsa_agent_t,
    count: c_int,
    pool: hsa_amd_memory_pool_t,
    flags: u32,
    gpu: *mut *mut c_void,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_memory_lock_to_pool_fn(host, size, agents, count, pool, flags, gpu));
    entered(status, |all| all.locked(address(host), address(written(gpu)), size as u64))
}

pub(super) unsafe extern "C" fn unlock(host: *mut c_void) -> hsa_status_t {
    leaving(|all| all.unlocked(address(host)));
    original!(amd.hsa_amd_memory_unlock_fn(host))
}

pub(super) unsafe extern "C" fn svm_attributes_set(
    memory: *mut c_void,
    size: usize,
    attributes: *mut hsa_amd_svm_attribute_pair_t,
    count: usize,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_svm_attributes_set_fn(memory, size, attributes, count));
    entered(status, |all| all.managed(address(memory), size as u64))
}

pub(super) unsafe extern "C" fn ipc_create(
    memory: *mut c_void,
    size: usize,
    handle: *mut hsa_amd_ipc_memory_t,
) -> hsa_status_t {
    shared(memory);
    original!(amd.hsa_amd_ipc_memory_create_fn(memory, size, handle))
}

pub(super) unsafe extern "C" fn export_dmabuf(
    memory: *const c_void,
    size: usize,
    descriptor: *mut c_int,
    offset: *mut u64,
) -> hsa_status_t {
    shared(memory.cast_mut());
    original!(amd.hsa_amd_portable_export_dmabuf_fn(memory, size, descriptor, offset))
}

pub(super) unsafe extern "C" fn export_dmabuf_v2(
    memory: *const c_void,
    size: usize,
    descriptor: *mut c_int,
    offset: *mut u64,
    flags: u64,
) -> hsa_status_t {
    shared(memory.cast_mut());
    original!(amd.hsa_amd_portable_export_dmabuf_v2_fn(memory, size, descriptor, offset, flags))
}

pub(super) unsafe extern "C" fn ipc_attach(
    handle: *const hsa_amd_ipc_memory_t,
    size: usize,
    count: u32,
    agents: *const hsa_agent_t,
    memory: *mut *mut c_void,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_ipc_memory_attach_fn(handle, size, count, agents, memory));
    if status != HSA_STATUS_SUCCESS {
        return status;
    }
    let mut given = (0..count as usize).map(|n| {
        // SAFETY: the runtime's call has succeeded: the list has so many agents.
        unsafe { agents.wrapping_add(n).read() }.handle
    });
    // The runtime is asked before the memory's lock is taken.
    let all = calls::get().and_then(|api| api.agents().ok()).unwrap_or_default();
    let mut gpus = all.iter().filter(|a| a.kind == AgentKind::Gpu).map(|a| a.handle);
    // Without a list, all can.
    let reads = if count == 0 { gpus.next() } else { given.find(|agent| gpus.clone().any(|gpu| gpu == *agent)) };
    entered(status, |all| all.attached(address(written(memory)), size as u64, reads))
}

pub(super) unsafe extern "C" fn ipc_detach(memory: *mut c_void) -> hsa_status_t {
    leaving(|all| all.freed(address(memory)));
    original!(amd.hsa_amd_ipc_memory_detach_fn(memory))
}

pub(super) unsafe extern "C" fn vmem_handle_create(
    pool: hsa_amd_memory_pool_t,
    size: usize,
    kind: hsa_amd_memory_type_t,
    flags: u64,
    handle: *mut hsa_amd_vmem_alloc_handle_t,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_vmem_handle_create_fn(pool, size, kind, flags, handle));
    entered(status, |all| {
        if let Some(api) = calls::get() {
            all.handle_created(api, pool.handle, written(handle).handle);
        }
    })
}

pub(super) unsafe extern "C" fn vmem_import_shareable_handle(
    descriptor: c_int,
    handle: *mut hsa_amd_vmem_alloc_handle_t,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_vmem_import_shareable_handle_fn(descriptor, handle));
    entered(status, |all| {
        let handle = written(handle);
        if let Some((api, pool)) = calls::get().and_then(|api| Some((api, api.pool_of_handle(handle)?))) {
            all.handle_created(api, pool, handle.handle);
        }
    })
}

pub(super) unsafe extern "C" fn vmem_retain_alloc_handle(
    handle: *mut hsa_amd_vmem_alloc_handle_t,
    mapped: *mut c_void,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_vmem_retain_alloc_handle_fn(handle, mapped));
    entered(status, |all| all.handle_of(address(mapped), written(handle).handle))
}

pub(super) unsafe extern "C" fn interop_map_buffer(
    count: u32,
    agents: *mut hsa_agent_t,
    buffer: c_int,
    flags: u32,
    size: *mut usize,
    memory: *mut *mut c_void,
    metadata_size: *mut usize,
    metadata: *mut *const c_void,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_interop_map_buffer_fn(
        count,
        agents,
        buffer,
        flags,
        size,
        memory,
        metadata_size,
        metadata
    ));
    if status != HSA_STATUS_SUCCESS {
        return status;
    }
    // SAFETY: the runtime's call has succeeded: the list has so many agents.
    let reads = (count > 0).then(|| unsafe { agents.read() }.handle);
    entered(status, |all| all.attached(address(written(memory)), written(size) as u64, reads))
}

pub(super) unsafe extern "C" fn interop_unmap_buffer(memory: *mut c_void) -> hsa_status_t {
    leaving(|all| all.freed(address(memory)));
    original!(amd.hsa_amd_interop_unmap_buffer_fn(memory))
}

pub(super) unsafe extern "C" fn vmem_map(
    memory: *mut c_void,
    size: usize,
    offset: usize,
    handle: hsa_amd_vmem_alloc_handle_t,
    flags: u64,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_vmem_map_fn(memory, size, offset, handle, flags));
    entered(status, |all| all.mapped(handle.handle, offset as u64, address(memory), size as u64))
}

pub(super) unsafe extern "C" fn vmem_unmap(memory: *mut c_void, size: usize) -> hsa_status_t {
    leaving(|all| all.freed(address(memory)));
    original!(amd.hsa_amd_vmem_unmap_fn(memory, size))
}

pub(super) unsafe extern "C" fn signal_create(
    value: hsa_signal_value_t,
    count: u32,
    consumers: *const hsa_agent_t,
    signal: *mut hsa_signal_t,
) -> hsa_status_t {
    let status = original!(core.hsa_signal_create_fn(value, count, consumers, signal));
    entered(status, |all| all.signal(written(signal).handle))
}

pub(super) unsafe extern "C" fn amd_signal_create(
    value: hsa_signal_value_t,
    count: u32,
    consumers: *const hsa_agent_t,
    attributes: u64,
    signal: *mut hsa_signal_t,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_signal_create_fn(value, count, consumers, attributes, signal));
    entered(status, |all| all.signal(written(signal).handle))
}
