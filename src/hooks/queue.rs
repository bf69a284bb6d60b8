//! Queues: created so that their packets are seen, forgotten when destroyed.

use std::ffi::c_void;

use hsa_sys::raw::{self, hsa_agent_t, hsa_queue_t, hsa_queue_type32_t, hsa_status_t};
use logdur_intercept::calls;
use logdur_intercept::guard;
use logdur_intercept::queue::{self, Request, inplace};

use super::{later, original};
use crate::session;

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
    let watched = guard(None, || {
        // The runtime alone handles queues of other agents than GPUs, and calls that it will refuse.
        let session = session::active()?;
        let position = session.interceptor.agent_position(agent.handle).filter(|_| !queue.is_null())?;
        if !session.interceptor.start() {
            return None;
        }
        Some((session, calls::get()?, position))
    });
    let made = watched.and_then(|(session, api, position)| {
        // SAFETY: the arguments are those of our caller, who calls `hsa_queue_create`.
        guard(None, || unsafe { queue::create(&session.interceptor, api, position, request) })
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
    if let Some((session, api, position)) = watched.filter(|_| status == raw::HSA_STATUS_SUCCESS) {
        // SAFETY: the runtime has written the queue that it made.
        let made = unsafe { queue.read() };
        // SAFETY: the queue is what the runtime made of our caller's arguments.
        let seen = guard(made, || unsafe { queue::created(&session.interceptor, api, position, request, made) });
        // SAFETY: the caller's place for the queue.
        unsafe { queue.write(seen) };
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
        guard((), || {
            let Some(session) = session::active() else { return };
            let (Some(position), Some(api)) = (session.interceptor.agent_position(agent.handle), calls::get()) else {
                return;
            };
            if !session.interceptor.start() {
                return;
            }
            // SAFETY: the runtime has written the queue that it made.
            let made = unsafe { queue.read() };
            // SAFETY: our caller does not have the queue yet.
            unsafe { queue::created_by_tool(&session.interceptor, api, position, size, made) };
        });
    }
    status
}

pub(super) unsafe extern "C" fn destroy(queue: *mut hsa_queue_t) -> hsa_status_t {
    let last = guard(None, || {
        let session = session::current()?;
        inplace::forget(&session.interceptor, queue);
        let (seen, lease) = session.interceptor.queues.find(queue)?;
        inplace::close(seen, queue, &session.interceptor).then_some((session, seen, lease))
    });
    let status = original!(core.hsa_queue_destroy_fn(queue));
    if let Some((session, seen, lease)) = last {
        guard((), || queue::destroyed(&session.interceptor, seen));
        drop(lease);
    }
    status
}

/// Times stay on for queues that are seen; an application that turns them off would not read them anyway.
pub(super) unsafe extern "C" fn set_profiler_enabled(queue: *mut hsa_queue_t, enable: i32) -> hsa_status_t {
    let seen = guard(false, || session::active().is_some_and(|s| s.interceptor.queues.find(queue).is_some()));
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
        guard((), || {
            let Some(session) = session::active() else { return };
            let why = "several callers share a queue of hsa_amd_counted_queue_acquire";
            // SAFETY: the runtime has written the queue that it gives out.
            let handle = unsafe { queue.read() };
            // SAFETY: the hook of the queue's release calls `forget` first.
            unsafe { inplace::leave_alone(&session.interceptor, handle, why.to_owned()) };
            session.interceptor.notice_once(
                "counted",
                "dispatches of queues of hsa_amd_counted_queue_acquire pass unseen: several callers share such a queue",
            );
        });
    }
    status
}

pub(super) unsafe extern "C" fn counted_release(queue: *mut hsa_queue_t) -> hsa_status_t {
    guard((), || session::current().into_iter().for_each(|session| inplace::forget(&session.interceptor, queue)));
    let Some(original) = later::COUNTED_RELEASE.original() else { return raw::HSA_STATUS_ERROR_NOT_INITIALIZED };
    // SAFETY: the entry's function has this type (`hsa_ext_amd.h` of ROCm 7.14).
    let original: unsafe extern "C" fn(*mut hsa_queue_t) -> hsa_status_t = unsafe { std::mem::transmute(original) };
    // SAFETY: the argument is the caller's own, passed on.
    unsafe { original(queue) }
}
