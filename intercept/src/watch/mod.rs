//! Watching queues, in one of two ways.
//!
//! A way of seeing packets brings the packets of a queue, in their order and each once, to
//! `Publisher::observe` before the GPU can see them; everything else is common to all ways. The way
//! is chosen when the queue is created, for all its life.

mod completed;
pub mod inplace;
mod intercept;
mod nearest;

use std::sync::atomic::Ordering;

use hsa::{Api, Wanted, Way};
use hsa_sys::raw::{hsa_agent_t, hsa_queue_t, hsa_queue_type32_t};
use logdur_settings::QueueMode;

use crate::interceptor::Interceptor;
use crate::queue::Queue;
use logdur_system::lock;

pub use completed::Work;

/// What `hsa_queue_create` is called with.
#[derive(Clone, Copy)]
pub struct Request {
    /// The agent that processes the packets.
    pub agent: hsa_agent_t,
    /// How many packets the queue holds.
    pub size: u32,
    /// `hsa_queue_type_t`.
    pub kind: hsa_queue_type32_t,
    /// What the runtime calls for errors of the queue.
    pub callback: hsa::QueueErrorCallback,
    /// What the callback is given.
    pub data: *mut std::ffi::c_void,
    /// Bytes of scratch memory a work-item, as a hint.
    pub private_segment_size: u32,
    /// Bytes of LDS a workgroup, as a hint.
    pub group_segment_size: u32,
}

/// How a queue's packets are to be seen; `refused` if it cannot be watched in place.
fn way(interceptor: &Interceptor, api: &Api, refused: bool) -> Way {
    let wanted = match interceptor.queue_mode {
        QueueMode::Auto => Wanted::Either,
        QueueMode::Inplace => Wanted::InPlace,
        QueueMode::Intercept => Wanted::Intercept,
    };
    let way = hsa::way(wanted, refused, api.intercept_queues_work());
    if wanted == Wanted::Intercept && way == Way::InPlace {
        interceptor.notice_once(
            "intercept",
            "LOGDUR_QUEUE_MODE=intercept: the intercept queues of this version of the runtime are known to fail when \
             they are full; queues are watched in place",
        );
    }
    way
}

/// Creates a queue in place of the runtime's function, if that is the way; `None` if that is not the way or it failed.
///
/// # Safety
/// The request must be that of a caller of `hsa_queue_create`.
pub unsafe fn create(
    interceptor: &'static Interceptor,
    api: &Api,
    agent: usize,
    request: Request,
) -> Option<*mut hsa_queue_t> {
    if way(interceptor, api, false) != Way::Intercept {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { intercept::create(interceptor, api, agent, request) }
        .inspect_err(|e| unseen(interceptor, agent, request.size, e))
        .ok()
}

/// Sees to it that a queue that the runtime has just created is seen, and returns the queue that the application gets.
///
/// # Safety
/// The request must be that of a caller of `hsa_queue_create`, and `handle` what the runtime made of it.
pub unsafe fn created(
    interceptor: &'static Interceptor,
    api: &Api,
    agent: usize,
    request: Request,
    handle: *mut hsa_queue_t,
) -> *mut hsa_queue_t {
    if way(interceptor, api, false) == Way::Intercept {
        // It was tried, and has failed.
        // SAFETY: the caller's promise.
        unsafe { inplace::leave_alone(interceptor, handle, "the runtime made no intercept queue".to_owned()) };
        return handle;
    }
    // SAFETY: the application does not have the queue yet.
    let Err(refusal) = (unsafe { inplace::watch(interceptor, api, agent, handle, true) }) else { return handle };
    let mut why = refusal.to_string();
    if way(interceptor, api, true) == Way::Intercept {
        // SAFETY: the caller's promise.
        match unsafe { intercept::create(interceptor, api, agent, request) } {
            Ok(instead) => {
                // SAFETY: no other thread has the queue that the runtime made first.
                let _ = unsafe { api.destroy_queue(handle) };
                return instead;
            }
            Err(error) => why = error.to_string(),
        }
    }
    unseen(interceptor, agent, request.size, &why);
    // SAFETY: the caller's promise.
    unsafe { inplace::leave_alone(interceptor, handle, why) };
    handle
}

/// Sees to it that a queue is seen, in place or not at all: another tool's intercept queue, or one of a runtime whose intercept
/// queues do not work.
///
/// # Safety
/// `handle` must be a queue that the runtime has just created, and that no thread uses yet.
pub unsafe fn created_in_place(
    interceptor: &'static Interceptor,
    api: &Api,
    agent: usize,
    size: u32,
    handle: *mut hsa_queue_t,
) {
    // SAFETY: the caller's promise.
    if let Err(refusal) = unsafe { inplace::watch(interceptor, api, agent, handle, true) } {
        unseen(interceptor, agent, size, &refusal);
        // SAFETY: the caller's promise.
        unsafe { inplace::leave_alone(interceptor, handle, refusal.to_string()) };
    }
}

fn unseen(interceptor: &Interceptor, agent: usize, size: u32, reason: &dyn std::fmt::Display) {
    interceptor.notice(format!("dispatches of a queue of agent {agent} ({size} packets) pass unseen: {reason}"));
}

/// The runtime has destroyed a queue: what is not complete will not be, and its signals are for others.
pub fn destroyed(interceptor: &Interceptor, queue: &'static Queue) {
    queue.handle.store(std::ptr::null_mut(), Ordering::Release);
    queue.publisher.close(|publisher| {
        interceptor.signals.give_back(&mut publisher.stash);
        publisher.free = interceptor.blocks.nowhere();
    });
    queue.ring.iter().for_each(|ring| ring.destroyed(interceptor.api()));
    // After that: then the publisher's last block may be given to others.
    queue.gone.store(true, Ordering::Release);
    interceptor.signals.give_back(&mut lock(&queue.returned));
    interceptor.reaper.look_now();
    // Its blocks are for others, even if it never had a row.
    interceptor.records_changed();
}

impl Interceptor {
    /// Counts what has passed unseen until now. The runtime must be up.
    pub fn count_unseen(&'static self) {
        self.queues.all().iter().for_each(|queue| inplace::count_unseen(self, queue));
        self.unseen.count(self);
    }
}
