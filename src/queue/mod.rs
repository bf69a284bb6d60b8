//! Queues whose packets are seen, whatever the way.
//!
//! A way of seeing packets brings the packets of a queue, in their order and each once, to
//! [`Publisher::observe`](crate::dispatch) before the GPU can see them; everything else is common to all ways. The way
//! is chosen when the queue is created, for all its life.

pub(crate) mod inplace;
mod intercept;
mod ring;
mod turn;

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

use hsa::{Api, OwnSignal};
use hsa_sys::raw::{hsa_agent_t, hsa_queue_t, hsa_queue_type32_t};
use logdur_settings::QueueMode;

use crate::blocks::{Blocks, Cursor, Spare};
use crate::cache_line::OwnLine;
use crate::reaper::Forward;
use crate::session::{Session, lock};

pub(crate) use ring::{NO_HOLD, Ring};

use turn::Turn;

/// What `hsa_queue_create` is called with.
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub(crate) agent: hsa_agent_t,
    pub(crate) size: u32,
    pub(crate) kind: hsa_queue_type32_t,
    pub(crate) callback: hsa::QueueErrorCallback,
    pub(crate) data: *mut std::ffi::c_void,
    pub(crate) private_segment_size: u32,
    pub(crate) group_segment_size: u32,
}

/// A queue that is seen. It is never freed: a late caller may still refer to it.
pub(crate) struct Queue {
    /// The queue as the application knows it; null before it is created and after it is destroyed.
    pub(crate) handle: AtomicPtr<hsa_queue_t>,
    /// The runtime's number of it.
    pub(crate) id: AtomicU64,
    /// Position of its agent in the session's list.
    pub(crate) agent: usize,
    /// True once the runtime has destroyed the queue.
    pub(crate) gone: AtomicBool,
    /// The publisher's next block.
    pub(crate) spare: OwnLine<Spare>,
    /// Present when the queue is watched in place.
    pub(crate) ring: Option<Ring>,
    pub(crate) publisher: OwnLine<Turn<Publisher>>,
    /// The first record that the reaper has not finished with.
    pub(crate) reaped: OwnLine<Mutex<Cursor>>,
    /// The first record whose row is not written.
    pub(crate) logged: Mutex<Cursor>,
    /// Packets in flight on signals of ours that stand in for the application's.
    pub(crate) forwarding: AtomicU32,
    /// Signals that the reaper has given back for this queue's next packets.
    pub(crate) returned: OwnLine<Mutex<Vec<OwnSignal>>>,
    /// A dispatch is being captured: the application is not told of its end before that of the capture. Changed under the
    /// lock of `kept`.
    pub(crate) keeps: AtomicBool,
    /// What it is not told yet.
    pub(crate) kept: Mutex<Vec<Forward>>,
}

/// What the thread that publishes a queue's packets works with.
pub(crate) struct Publisher {
    /// The next free record.
    pub(crate) free: Cursor,
    /// Signals ready for use.
    pub(crate) stash: Vec<OwnSignal>,
    /// In place: where the slots end that are known to be consumed.
    pub(crate) room: u64,
}

impl Queue {
    fn new(blocks: &Blocks, agent: usize, ring: Option<Ring>) -> Queue {
        let start = Cursor::start(blocks.take());
        Queue {
            handle: AtomicPtr::default(),
            id: AtomicU64::new(0),
            agent,
            gone: AtomicBool::new(false),
            spare: OwnLine::default(),
            ring,
            publisher: OwnLine(Turn::new(Publisher { free: start, stash: Vec::new(), room: 0 })),
            reaped: OwnLine(Mutex::new(start)),
            logged: Mutex::new(start),
            forwarding: AtomicU32::new(0),
            returned: OwnLine::default(),
            keeps: AtomicBool::new(false),
            kept: Mutex::default(),
        }
    }

    /// Where the queue's `amd_queue_t` is; of use to its publisher only.
    pub(crate) fn address(&self) -> u64 {
        self.handle.load(Ordering::Relaxed).expose_provenance() as u64
    }

    /// Learns the runtime's number of the queue, before its first packet.
    pub(crate) fn numbered(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
        lock(&self.logged).block.get().assign(id, self.agent);
    }
}

/// The queues of the process that may still have rows to come.
#[derive(Default)]
pub(crate) struct Queues(RwLock<Vec<&'static Queue>>);

impl Queues {
    /// A queue to come, in the list already: packets may pass as soon as the runtime has created it.
    fn enter(&self, blocks: &Blocks, agent: usize, ring: Option<Ring>) -> &'static Queue {
        let queue: &'static Queue = Box::leak(Box::new(Queue::new(blocks, agent, ring)));
        self.0.write().unwrap_or_else(|e| e.into_inner()).push(queue);
        queue
    }

    /// The queues, as they are now.
    pub(crate) fn all(&self) -> Vec<&'static Queue> {
        self.0.read().unwrap_or_else(|e| e.into_inner()).clone()
    }

    /// The queue with a handle.
    pub(crate) fn find(&self, handle: *mut hsa_queue_t) -> Option<&'static Queue> {
        self.all().into_iter().find(|q| q.handle.load(Ordering::Acquire) == handle)
    }

    /// Drops a queue that is gone and whose rows are all written.
    pub(crate) fn remove(&self, queue: &'static Queue) {
        self.0.write().unwrap_or_else(|e| e.into_inner()).retain(|q| !std::ptr::eq(*q, queue));
    }
}

/// True when a queue has to be created as one of the runtime's intercept queues.
fn wants_intercept(session: &Session, api: &Api) -> bool {
    let wanted = session.queue_mode == QueueMode::Intercept;
    if wanted && !api.intercept_queues_work() {
        session.notice_once(
            "intercept",
            "LOGDUR_QUEUE_MODE=intercept: the intercept queues of this version of the runtime are known to fail when \
             they are full; queues are watched in place",
        );
        return false;
    }
    wanted
}

/// Creates a queue in place of the runtime's function, if that is the way; `None` if that is not the way or it failed.
///
/// # Safety
/// The request must be that of a caller of `hsa_queue_create`.
pub(crate) unsafe fn create(
    session: &'static Session,
    api: &Api,
    agent: usize,
    request: Request,
) -> Option<*mut hsa_queue_t> {
    if !wants_intercept(session, api) {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { intercept::create(session, api, agent, request) }
        .inspect_err(|e| unseen(session, agent, request.size, e))
        .ok()
}

/// Sees to it that a queue that the runtime has just created is seen, and returns the queue that the application gets.
///
/// # Safety
/// The request must be that of a caller of `hsa_queue_create`, and `handle` what the runtime made of it.
pub(crate) unsafe fn created(
    session: &'static Session,
    api: &Api,
    agent: usize,
    request: Request,
    handle: *mut hsa_queue_t,
) -> *mut hsa_queue_t {
    if wants_intercept(session, api) {
        // It was tried, and has failed.
        return handle;
    }
    // SAFETY: the application does not have the queue yet.
    let Err(refusal) = (unsafe { inplace::watch(session, api, agent, handle) }) else { return handle };
    if session.queue_mode == QueueMode::Auto && api.intercept_queues_work() {
        // SAFETY: the caller's promise.
        match unsafe { intercept::create(session, api, agent, request) } {
            Ok(instead) => {
                // SAFETY: nobody else has the queue that the runtime made first.
                let _ = unsafe { api.destroy_queue(handle) };
                return instead;
            }
            Err(error) => unseen(session, agent, request.size, &error),
        }
    } else {
        unseen(session, agent, request.size, &refusal);
    }
    handle
}

/// Makes another tool's intercept queue known.
///
/// # Safety
/// `handle` must be a queue that the runtime has just created, and that nobody uses yet.
pub(crate) unsafe fn created_by_tool(
    session: &'static Session,
    api: &Api,
    agent: usize,
    size: u32,
    handle: *mut hsa_queue_t,
) {
    // SAFETY: the caller's promise.
    if let Err(refusal) = unsafe { inplace::watch(session, api, agent, handle) } {
        unseen(session, agent, size, &refusal);
    }
}

fn unseen(session: &Session, agent: usize, size: u32, reason: &dyn std::fmt::Display) {
    session.notice(format!("dispatches of a queue of agent {agent} ({size} packets) pass unseen: {reason}"));
}

/// The runtime has destroyed a queue: what is not complete will not be, and its signals are for others.
pub(crate) fn destroyed(session: &Session, queue: &'static Queue) {
    queue.handle.store(std::ptr::null_mut(), Ordering::Release);
    queue.publisher.close(|publisher| {
        session.signals.give_back(&mut publisher.stash);
        publisher.free = session.blocks.nowhere();
    });
    // After that: then the publisher's last block may be given to others.
    queue.gone.store(true, Ordering::Release);
    session.signals.give_back(&mut lock(&queue.returned));
    session.reaper.look_now();
    // Its blocks are for others, even if it never had a row.
    session.log.wake();
}
