//! Queues: created so that their packets are seen, forgotten when destroyed.

use std::ffi::c_void;

use hsa_sys::abi::queue_description::{self, QueueDescription};
use hsa_sys::raw::{self, hsa_agent_t, hsa_queue_t, hsa_queue_type32_t, hsa_status_t};
use logdur_intercept::calls;
use logdur_intercept::watch::{self, Request, inplace};
use logdur_intercept::{guard, guard_large, interceptor};

use super::{later, original};

pub(super) unsafe extern "C" fn create(
    agent: hsa_agent_t,
    size: u32,
    kind: hsa_queue_type32_t,
    callback: hsa::QueueErrorCallback,
    data: *mut c_void,
    private_segment_size: u32,
    group_segment_size: u32,
    queue: *mut *mut hsa_queue_t,
) -> hsa_status_t {
    let request = Request { agent, size, kind, callback, data, private_segment_size, group_segment_size };
    let watched = guard_large(None, || {
        // The runtime alone handles queues of other agents than GPUs, and calls that it will refuse.
        let interceptor = interceptor::active()?;
        let position = interceptor.agent_position(agent.handle).filter(|_| !queue.is_null())?;
        if !interceptor.start() {
            return None;
        }
        Some((interceptor, calls::get()?, position))
    });
    let made = watched.and_then(|(interceptor, api, position)| {
        // SAFETY: the arguments are those of our caller, who calls `hsa_queue_create`.
        guard_large(None, || unsafe { watch::create(interceptor, api, position, request) })
    });
    if let Some(made) = made {
        // SAFETY: the caller passed a place for the queue; it was checked to be one.
        unsafe { queue.write(made) };
        return raw::HSA_STATUS_SUCCESS;
    }
    let status = original!(core.hsa_queue_create_fn(
        agent,
        size,
        kind,
        callback,
        data,
        private_segment_size,
        group_segment_size,
        queue
    ));
    if let Some((interceptor, api, position)) = watched.filter(|_| status == raw::HSA_STATUS_SUCCESS) {
        // SAFETY: the runtime has written the queue that it made.
        let made = unsafe { queue.read() };
        // SAFETY: the queue is what the runtime made of our caller's arguments.
        let seen = guard_large(made, || unsafe { watch::created(interceptor, api, position, request, made) });
        // SAFETY: the caller's place for the queue.
        unsafe { queue.write(seen) };
    }
    status
}

/// Several queues at once, as HIP of ROCm 10 makes its own. What the runtime could not create is null.
pub(super) unsafe extern "C" fn create_described(
    agent: hsa_agent_t,
    descriptions: *mut QueueDescription,
    count: u32,
) -> hsa_status_t {
    type Create = unsafe extern "C" fn(hsa_agent_t, *mut QueueDescription, u32) -> hsa_status_t;
    let Some(original) = later::QUEUE_CREATE.original() else { return raw::HSA_STATUS_ERROR_NOT_INITIALIZED };
    // SAFETY: the entry's function has this type (see the source of `QueueDescription`).
    let original: Create = unsafe { std::mem::transmute(original) };
    // SAFETY: the caller passes as many descriptions.
    let at = |n: u32| unsafe { descriptions.add(n as usize) };
    let watched = guard_large(None, || {
        let interceptor = interceptor::active()?;
        let position = interceptor.agent_position(agent.handle).filter(|_| !descriptions.is_null())?;
        // A later version may have another size. Its queues are watched from their first packet on.
        // SAFETY: every version begins with its number.
        let known = |n| unsafe { at(n).cast::<u16>().read() } == queue_description::VERSION;
        if !(0..count).all(known) || !interceptor.start() {
            return None;
        }
        Some((interceptor, calls::get()?, position))
    });
    if watched.is_some() {
        // The runtime leaves them as they are if it refuses the whole call.
        for n in 0..count {
            // SAFETY: the field is inside the caller's description.
            let queue = unsafe { &raw mut (*at(n)).queue };
            // SAFETY: as above; the runtime writes the same.
            unsafe { queue.write(std::ptr::null_mut()) };
        }
    }
    // SAFETY: the arguments are the caller's own, passed on.
    let status = unsafe { original(agent, descriptions, count) };
    if let Some((interceptor, api, position)) = watched {
        for n in 0..count {
            // SAFETY: the caller's description, which the runtime has completed.
            let QueueDescription { queue: made, engine, .. } = unsafe { at(n).read() };
            if made.is_null() {
                continue;
            }
            guard_large((), || {
                if engine != queue_description::engine::COMPUTE {
                    inplace::not_of_dispatches(made);
                    interceptor.notice_once(
                        "user-copies",
                        "the application has queues of copy engines of its own (hsa_amd_queue_create): what they copy has no \
                         rows, and captures do not see it",
                    );
                    return;
                }
                // SAFETY: the runtime has just created the queue, and our caller does not have it yet.
                let packets = unsafe { made.read() }.size;
                // SAFETY: as above.
                unsafe { watch::created_in_place(interceptor, api, position, packets, made) };
            });
        }
    }
    status
}

/// A queue that an application or another tool creates to see packets itself: they pass here first.
pub(super) unsafe extern "C" fn intercept_create(
    agent: hsa_agent_t,
    size: u32,
    kind: hsa_queue_type32_t,
    callback: hsa::QueueErrorCallback,
    data: *mut c_void,
    private_segment_size: u32,
    group_segment_size: u32,
    queue: *mut *mut hsa_queue_t,
) -> hsa_status_t {
    let status = original!(amd.hsa_amd_queue_intercept_create_fn(
        agent,
        size,
        kind,
        callback,
        data,
        private_segment_size,
        group_segment_size,
        queue
    ));
    if status == raw::HSA_STATUS_SUCCESS {
        guard_large((), || {
            let Some(interceptor) = interceptor::active() else { return };
            let (Some(position), Some(api)) = (interceptor.agent_position(agent.handle), calls::get()) else {
                return;
            };
            if !interceptor.start() {
                return;
            }
            // SAFETY: the runtime has written the queue that it made.
            let made = unsafe { queue.read() };
            // SAFETY: our caller does not have the queue yet.
            unsafe { watch::created_in_place(interceptor, api, position, size, made) };
        });
    }
    status
}

pub(super) unsafe extern "C" fn destroy(queue: *mut hsa_queue_t) -> hsa_status_t {
    let last = guard_large(None, || {
        let interceptor = interceptor::current()?;
        inplace::forget(interceptor, queue);
        let (seen, lease) = interceptor.queues.find(queue)?;
        inplace::close(seen, queue, interceptor).then_some((interceptor, seen, lease))
    });
    let status = original!(core.hsa_queue_destroy_fn(queue));
    if let Some((interceptor, seen, lease)) = last {
        guard_large((), || watch::destroyed(interceptor, seen));
        drop(lease);
    }
    status
}

/// Times stay on for queues that are seen; an application that turns them off would not read them anyway.
pub(super) unsafe extern "C" fn set_profiler_enabled(queue: *mut hsa_queue_t, enable: i32) -> hsa_status_t {
    let seen = guard(false, || interceptor::active().is_some_and(|i| i.queues.find(queue).is_some()));
    if seen && enable == 0 {
        return raw::HSA_STATUS_SUCCESS;
    }
    original!(amd.hsa_amd_profiling_set_profiler_enabled_fn(queue, enable))
}

/// A queue of the runtime's that several callers share: each has a handle of its own, with indices of its own, and the packets
/// are in another queue.
pub(super) unsafe extern "C" fn counted_acquire(
    agent: hsa_agent_t,
    kind: hsa_queue_type32_t,
    priority: i32,
    callback: hsa::QueueErrorCallback,
    data: *mut c_void,
    flags: u64,
    queue: *mut *mut hsa_queue_t,
) -> hsa_status_t {
    type Acquire = unsafe extern "C" fn(
        hsa_agent_t,
        hsa_queue_type32_t,
        i32,
        hsa::QueueErrorCallback,
        *mut c_void,
        u64,
        *mut *mut hsa_queue_t,
    ) -> hsa_status_t;
    let Some(original) = later::COUNTED_ACQUIRE.original() else { return raw::HSA_STATUS_ERROR_NOT_INITIALIZED };
    // SAFETY: the entry's function has this type (`hsa_ext_amd.h` of ROCm 7.14).
    let original: Acquire = unsafe { std::mem::transmute(original) };
    // SAFETY: the arguments are the caller's own, passed on.
    let status = unsafe { original(agent, kind, priority, callback, data, flags, queue) };
    if status == raw::HSA_STATUS_SUCCESS {
        guard_large((), || {
            let Some(interceptor) = interceptor::active() else { return };
            let why = "several callers share a queue of hsa_amd_counted_queue_acquire";
            // SAFETY: the runtime has written the queue that it gives out.
            let handle = unsafe { queue.read() };
            // SAFETY: the hook of the queue's release calls `forget` first.
            unsafe { inplace::leave_alone(interceptor, handle, why.to_owned()) };
            interceptor.notice_once(
                "counted",
                "dispatches of queues of hsa_amd_counted_queue_acquire pass unseen: several callers share such a queue",
            );
        });
    }
    status
}

pub(super) unsafe extern "C" fn counted_release(queue: *mut hsa_queue_t) -> hsa_status_t {
    guard_large((), || interceptor::current().into_iter().for_each(|interceptor| inplace::forget(interceptor, queue)));
    let Some(original) = later::COUNTED_RELEASE.original() else { return raw::HSA_STATUS_ERROR_NOT_INITIALIZED };
    // SAFETY: the entry's function has this type (`hsa_ext_amd.h` of ROCm 7.14).
    let original: unsafe extern "C" fn(*mut hsa_queue_t) -> hsa_status_t = unsafe { std::mem::transmute(original) };
    // SAFETY: the argument is the caller's own, passed on.
    unsafe { original(queue) }
}
