//! Queues: created so that their packets are seen, forgotten when destroyed.

use std::ffi::c_void;

use hsa_sys::raw::{self, hsa_agent_t, hsa_queue_t, hsa_queue_type32_t, hsa_status_t};

use super::original;
use crate::calls;
use crate::entry::guard;
use crate::queue::{self, Request};
use crate::session::{self, Session};

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
    let made = guard(None, || {
        let session = session::active()?;
        // Queues of anything but a GPU, and a call that the runtime will refuse, are the runtime's own business.
        let position = session.agent_position(agent.handle).filter(|_| !queue.is_null())?;
        // SAFETY: the arguments are those of our caller, who calls `hsa_queue_create`.
        unsafe { make(session, position, request) }
    });
    if let Some(made) = made {
        // SAFETY: the caller passed a place for the queue; it was checked to be one.
        unsafe { queue.write(made) };
        return raw::HSA_STATUS_SUCCESS;
    }
    original!(core.hsa_queue_create_fn(
        agent,
        size,
        kind,
        callback,
        data,
        private_segment_size,
        group_segment_size,
        queue
    ))
}

/// Creates a queue that is seen; `None` when the application has to do with the runtime's plain one.
///
/// # Safety
/// The request must be that of a caller of `hsa_queue_create`.
unsafe fn make(session: &'static Session, position: usize, request: Request) -> Option<*mut hsa_queue_t> {
    session.reaper.start(session);
    session.log.start(session);
    // SAFETY: the caller's promise.
    match unsafe { queue::create(session, calls::get()?, position, request) } {
        Ok(made) => Some(made),
        Err(error) => {
            session.notice(format!(
                "dispatches of a queue of agent {position} ({} packets) pass unseen: {error}",
                request.size
            ));
            None
        }
    }
}

pub(super) unsafe extern "C" fn destroy(queue: *mut hsa_queue_t) -> hsa_status_t {
    let seen = guard(None, || session::current()?.queues.find(queue));
    let status = original!(core.hsa_queue_destroy_fn(queue));
    if status == raw::HSA_STATUS_SUCCESS {
        guard((), || {
            if let (Some(session), Some(seen)) = (session::current(), seen) {
                queue::destroyed(session, seen);
            }
        });
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
