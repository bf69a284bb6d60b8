//! Queues whose packets are seen, in one of two ways.
//!
//! A way of seeing packets brings the packets of a queue, in their order and each once, to
//! `Publisher::observe` before the GPU can see them; everything else is common to all ways. The way
//! is chosen when the queue is created, for all its life.

pub mod combining_lock;
mod completed;
mod hold;
pub mod inplace;
mod intercept;
mod rest;
mod ring;
pub mod unseen;

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use hsa::{Api, OwnSignal, Wanted, Way};
use hsa_sys::raw::{hsa_agent_t, hsa_queue_t, hsa_queue_type32_t};
use logdur_settings::QueueMode;

use crate::blocks::{Blocks, Cursor, Spare};
use crate::cache_line::OwnLine;
use crate::interceptor::Interceptor;
use crate::lock::lock;
use crate::reaper::Forward;

pub(crate) use completed::Completed;
pub use completed::Work;
pub use hold::Hold;
pub use rest::Rest;
pub use ring::Ring;

use combining_lock::CombiningLock;

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

/// A queue that is seen. It is freed some time after it is gone: see [`Queues`].
pub struct Queue {
    /// The queue as the application knows it; null before it is created and after it is destroyed.
    pub handle: AtomicPtr<hsa_queue_t>,
    /// The runtime's number of it.
    pub id: AtomicU64,
    /// Position of its agent in the interceptor's list.
    pub agent: usize,
    /// True once the runtime has destroyed the queue.
    pub gone: AtomicBool,
    /// The publisher's next block.
    pub spare: OwnLine<Spare>,
    /// Present when the queue is watched in place.
    pub ring: Option<Ring>,
    /// False for one of records of completed work that came in no packet.
    pub has_packets: bool,
    /// What the thread that publishes packets works with.
    pub publisher: OwnLine<CombiningLock<Publisher>>,
    /// The first record that the reaper has not finished with.
    pub reaped: OwnLine<Mutex<Cursor>>,
    /// The first record whose row is not written.
    pub logged: Mutex<Cursor>,
    /// Packets in flight on signals of ours that stand in for the application's.
    pub forwarding: AtomicU32,
    /// Signals that the reaper has given back for this queue's next packets.
    pub returned: OwnLine<Mutex<Vec<OwnSignal>>>,
    /// A dispatch is being captured: the application is not told of its end before that of the capture. Changed under the
    /// lock of `kept`.
    pub defers_completions: AtomicBool,
    /// What it is not told yet.
    pub deferred: Mutex<Vec<Forward>>,
}

/// What the thread that publishes a queue's packets works with.
pub struct Publisher {
    /// The next free record.
    pub free: Cursor,
    /// Signals ready for use.
    pub stash: Vec<OwnSignal>,
    /// In place: where the slots end that are known to be consumed.
    pub room: u64,
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
            has_packets: true,
            publisher: OwnLine(CombiningLock::new(Publisher { free: start, stash: Vec::new(), room: 0 })),
            reaped: OwnLine(Mutex::new(start)),
            logged: Mutex::new(start),
            forwarding: AtomicU32::new(0),
            returned: OwnLine::default(),
            defers_completions: AtomicBool::new(false),
            deferred: Mutex::default(),
        }
    }

    /// Where the queue's `amd_queue_t` is; of use to its publisher only.
    pub fn address(&self) -> u64 {
        self.handle.load(Ordering::Relaxed).expose_provenance() as u64
    }

    /// Learns the runtime's number of the queue, before its first packet.
    pub fn numbered(&self, id: u64) {
        self.id.store(id, Ordering::Relaxed);
        lock(&self.logged).block.get().assign(id, self.agent);
    }
}

/// How long a queue that is gone stays in memory: a thread that rings the doorbell of a queue which another thread destroys finds
/// it as it was. That is an error of the application, and without the library mostly does no harm.
const LATE: Duration = Duration::from_secs(10);

/// The queues of the process that may still have rows to come.
///
/// References to queues are `'static`. A hook on the application's thread uses the queue of its call, which the application has not
/// destroyed. All other code takes a [`Lease`]: no queue is freed while one exists.
#[derive(Default)]
pub struct Queues {
    list: RwLock<Vec<&'static Queue>>,
    leases: Arc<AtomicUsize>,
    /// Those that are in the list no more, the oldest first. In place only: the runtime may call back for its intercept queues at
    /// any time.
    retired: Mutex<VecDeque<(Instant, &'static Queue)>>,
}

/// As long as this is there, no queue is freed that was in the list when it was taken.
pub struct Lease(Arc<AtomicUsize>);

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// The queues as they were at one moment.
pub struct All {
    queues: Vec<&'static Queue>,
    _lease: Lease,
}

impl Deref for All {
    type Target = [&'static Queue];

    fn deref(&self) -> &[&'static Queue] {
        &self.queues
    }
}

impl Queues {
    /// A queue to come, in the list already: packets may pass as soon as the runtime has created it.
    fn enter(&self, blocks: &Blocks, agent: usize, ring: Option<Ring>) -> &'static Queue {
        let queue: &'static Queue = Box::leak(Box::new(Queue::new(blocks, agent, ring)));
        let mut list = self.list.write().unwrap_or_else(|e| e.into_inner());
        list.push(queue);
        self.free(Instant::now());
        queue
    }

    /// Records of completed work of an agent that came in no packet; they have the number 0 for a queue.
    fn enter_without_packets(&self, blocks: &Blocks, agent: usize) -> &'static Queue {
        let queue: &'static Queue =
            Box::leak(Box::new(Queue { has_packets: false, ..Queue::new(blocks, agent, None) }));
        queue.numbered(0);
        self.list.write().unwrap_or_else(|e| e.into_inner()).push(queue);
        queue
    }

    /// The queues, as they are now.
    pub fn all(&self) -> All {
        let list = self.list.read().unwrap_or_else(|e| e.into_inner());
        All { queues: list.clone(), _lease: self.lease() }
    }

    /// Keeps the queues that are in the list, and those that the caller uses already.
    pub fn lease(&self) -> Lease {
        self.leases.fetch_add(1, Ordering::Relaxed);
        Lease(self.leases.clone())
    }

    /// The queue with a handle.
    pub fn find(&self, handle: *mut hsa_queue_t) -> Option<(&'static Queue, Lease)> {
        let list = self.list.read().unwrap_or_else(|e| e.into_inner());
        let found = list.iter().find(|q| q.handle.load(Ordering::Acquire) == handle)?;
        Some((found, self.lease()))
    }

    /// Drops a queue that is gone and whose rows are all written.
    pub fn remove(&self, queue: &'static Queue) {
        let mut list = self.list.write().unwrap_or_else(|e| e.into_inner());
        let before = list.len();
        list.retain(|q| !std::ptr::eq(*q, queue));
        if list.len() < before && queue.ring.is_some() {
            lock(&self.retired).push_back((Instant::now(), queue));
        }
    }

    /// Frees the queues that have been gone for long. The caller has locked the list for writing: no lease of it begins.
    fn free(&self, now: Instant) {
        let mut retired = lock(&self.retired);
        while let Some(&(since, queue)) = retired.front()
            && now.saturating_duration_since(since) >= LATE
            // The last use of each lease is before this.
            && self.leases.load(Ordering::Acquire) == 0
        {
            retired.pop_front();
            // SAFETY: the queue was leaked by `enter`, and is in no list. No lease is left that could be older than its removal.
            // Its handle and its doorbell were removed from the maps of the hooks when it was destroyed.
            drop(unsafe { Box::from_raw(std::ptr::from_ref(queue).cast_mut()) });
        }
    }
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
    let Err(refusal) = (unsafe { inplace::watch(interceptor, api, agent, handle) }) else { return handle };
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

/// Makes another tool's intercept queue known.
///
/// # Safety
/// `handle` must be a queue that the runtime has just created, and that no thread uses yet.
pub unsafe fn created_by_tool(
    interceptor: &'static Interceptor,
    api: &Api,
    agent: usize,
    size: u32,
    handle: *mut hsa_queue_t,
) {
    // SAFETY: the caller's promise.
    if let Err(refusal) = unsafe { inplace::watch(interceptor, api, agent, handle) } {
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
    // After that: then the publisher's last block may be given to others.
    queue.gone.store(true, Ordering::Release);
    interceptor.signals.give_back(&mut lock(&queue.returned));
    interceptor.reaper.look_now();
    // Its blocks are for others, even if it never had a row.
    interceptor.ports.records_changed();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use logdur_journal::Records;

    #[test]
    fn queues_that_are_gone_are_freed_later_and_not_while_a_list_that_may_have_them_is_used() {
        let blocks = Blocks::new(Box::leak(Box::new(Records::private())), u64::MAX);
        let queues = Queues::default();
        let old = queues.enter(&blocks, 0, None);
        let handle = std::ptr::without_provenance_mut(0x1000);
        old.handle.store(handle, Ordering::Release);
        let all = queues.all();
        queues.remove(old);
        assert!(queues.find(handle).is_none() && all.len() == 1);
        // One of the runtime's intercept queues stays.
        assert!(lock(&queues.retired).is_empty());
        let since = Instant::now();
        lock(&queues.retired).push_back((since, old));
        let left = |seconds: u64| {
            queues.free(since + Duration::from_secs(seconds));
            lock(&queues.retired).len()
        };
        assert_eq!(left(20), 1, "a list is used");
        let target = queues.lease();
        drop(all);
        assert_eq!((left(20), old.agent), (1, 0), "a dispatch waits");
        drop(target);
        assert_eq!((left(1), left(20)), (1, 0));
    }
}
