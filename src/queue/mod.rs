//! Queues whose packets are seen, whatever the way.
//!
//! A way of seeing packets creates the queue and brings its packets, in their order and each once, to
//! [`Publisher::observe`](crate::dispatch) before the GPU can see them; everything else is common to all ways.

mod intercept;

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};

use hsa::OwnSignal;
use hsa_sys::raw::{hsa_agent_t, hsa_queue_t, hsa_queue_type32_t};

use crate::blocks::{Blocks, Cursor};
use crate::session::{Session, lock};

pub(crate) use intercept::create;

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
    /// Dispatch packets that passed; written by the publisher only.
    pub(crate) seen: AtomicU64,
    /// How many of them the account has; written by whoever writes the log.
    counted: AtomicU64,
    /// True once the runtime has destroyed the queue.
    pub(crate) gone: AtomicBool,
    pub(crate) publisher: Mutex<Publisher>,
    /// The first record that the reaper has not finished with.
    pub(crate) reaped: Mutex<Cursor>,
    /// The first record whose row is not written.
    pub(crate) logged: Mutex<Cursor>,
    /// Signals that the reaper has given back for this queue's next packets.
    pub(crate) returned: Mutex<Vec<OwnSignal>>,
}

/// What the thread that publishes a queue's packets works with.
pub(crate) struct Publisher {
    /// The next free record.
    pub(crate) free: Cursor,
    /// Signals ready for use.
    pub(crate) stash: Vec<OwnSignal>,
}

impl Queue {
    fn new(blocks: &Blocks, agent: usize) -> Queue {
        let start = Cursor::start(blocks.take());
        Queue {
            handle: AtomicPtr::default(),
            id: AtomicU64::new(0),
            agent,
            seen: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            gone: AtomicBool::new(false),
            publisher: Mutex::new(Publisher { free: start, stash: Vec::new() }),
            reaped: Mutex::new(start),
            logged: Mutex::new(start),
            returned: Mutex::default(),
        }
    }

    /// How many dispatch packets have passed since the last call.
    pub(crate) fn newly_seen(&self) -> u64 {
        let seen = self.seen.load(Ordering::Relaxed);
        seen - self.counted.swap(seen, Ordering::Relaxed)
    }
}

/// The queues of the process that may still have rows to come.
#[derive(Default)]
pub(crate) struct Queues(RwLock<Vec<&'static Queue>>);

impl Queues {
    /// A queue to come, in the list already: packets may pass as soon as the runtime has created it.
    fn enter(&self, blocks: &Blocks, agent: usize) -> &'static Queue {
        let queue: &'static Queue = Box::leak(Box::new(Queue::new(blocks, agent)));
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

/// The runtime has destroyed a queue: what is not complete will not be, and its signals are for others.
pub(crate) fn destroyed(session: &Session, queue: &'static Queue) {
    queue.gone.store(true, Ordering::Release);
    queue.handle.store(std::ptr::null_mut(), Ordering::Release);
    // Not waited for: whoever destroys a queue that another thread publishes on loses a few signals, no more.
    if let Ok(mut publisher) = queue.publisher.try_lock() {
        session.signals.give_back(&mut publisher.stash);
    }
    session.signals.give_back(&mut lock(&queue.returned));
    session.reaper.look_now();
}
