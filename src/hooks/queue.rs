//! Queues: created so that their packets are seen, forgotten when destroyed.

use std::ffi::c_void;

use hsa_sys::raw::{self, hsa_agent_t, hsa_queue_t, hsa_queue_type32_t, hsa_status_t};

use super::original;
use crate::calls;
use crate::entry::guard;
use crate::queue::{self, Request, inplace};
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
        // Queues of anything but a GPU, and a call that the runtime will refuse, are the runtime's own business.
        let session = session::active()?;
        let position = session.agent_position(agent.handle).filter(|_| !queue.is_null())?;
        session.reaper.start(session);
        session.log.start(session);
        session.capture.iter().for_each(|capture| capture.start(session));
        Some((session, calls::get()?, position))
    });
    let made = watched.and_then(|(session, api, position)| {
        // SAFETY: the arguments are those of our caller, who calls `hsa_queue_create`.
        guard(None, || unsafe { queue::create(session, api, position, request) })
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
        let seen = guard(made, || unsafe { queue::created(session, api, position, request, made) });
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
            let (Some(position), Some(api)) = (session.agent_position(agent.handle), calls::get()) else { return };
            session.reaper.start(session);
            session.log.start(session);
            // SAFETY: the runtime has written the queue that it made.
            let made = unsafe { queue.read() };
            // SAFETY: our caller does not have the queue yet.
            unsafe { queue::created_by_tool(session, api, position, size, made) };
        });
    }
    status
}

pub(super) unsafe extern "C" fn destroy(queue: *mut hsa_queue_t) -> hsa_status_t {
    let last = guard(None, || {
        let session = session::current()?;
        let seen = session.queues.find(queue)?;
        inplace::close(seen, queue, session).then_some((session, seen))
    });
    let status = original!(core.hsa_queue_destroy_fn(queue));
    if let Some((session, seen)) = last {
        guard((), || queue::destroyed(session, seen));
    }
    status
}

/// Times stay on for queues that are seen; an application that turns them off would not read them anyway.
pub(super) unsafe extern "C" fn set_profiler_enabled(queue: *mut hsa_queue_t, enable: i32) -> hsa_status_t {
    let seen = guard(false, || session::active().is_some_and(|s| s.queues.find(queue).is_some()));
    if seen && enable == 0 {
        return raw::HSA_STATUS_SUCCESS;
    }
    original!(amd.hsa_amd_profiling_set_profiler_enabled_fn(queue, enable))
}
