//! Queues whose packets are seen: what is kept of each, and how far it has come.

pub mod combining_lock;
#[cfg(test)]
mod fake_ring;
mod hold;
mod noted;
mod reservers;
mod rest;
mod ring;
mod shadow;
mod sites;

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use hsa::OwnSignal;
use hsa_sys::raw::hsa_queue_t;

use crate::blocks::{Blocks, Cursor, Spare};
use crate::cache_line::OwnLine;
use logdur_system::lock;

pub use hold::Hold;
pub(crate) use noted::Noted;
pub use rest::Rest;
pub use ring::{Memory, Ring};

use combining_lock::CombiningLock;

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

/// An application's signal that one of ours stood in for.
pub struct Forward {
    pub(crate) signal: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// What the thread that publishes a queue's packets works with.
pub struct Publisher {
    /// The next free record.
    pub free: Cursor,
    /// How many records were used.
    pub records: u64,
    /// Signals ready for use.
    pub stash: Vec<OwnSignal>,
    /// In place: where the slots end that are known to be consumed.
    pub room: u64,
    /// The kernel of the last dispatch.
    pub(crate) kernel: LastKernel,
}

/// The kernel that was looked up last: applications repeat kernels.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastKernel {
    /// How often the numbers of kernels had changed before.
    pub(crate) changes: u64,
    /// The address of its descriptor, which may be another kernel's after a change.
    pub(crate) object: u64,
    pub(crate) number: u32,
}

/// What is known of a packet besides what is in it; zeros where it is not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asker {
    /// The number of the thread that has reserved it.
    pub(crate) thread: u32,
    /// The number of the place that it is launched from.
    pub(crate) site: u32,
}

impl Queue {
    /// A queue at its place in memory: threads of the application may have no room for a second one on their stacks.
    #[inline(never)]
    fn leaked(blocks: &Blocks, agent: usize, ring: Option<Ring>, has_packets: bool) -> Option<&'static Queue> {
        let start = Cursor::start(blocks.take()?);
        Some(Box::leak(Box::new(Queue {
            handle: AtomicPtr::default(),
            id: AtomicU64::new(0),
            agent,
            gone: AtomicBool::new(false),
            spare: OwnLine::default(),
            ring,
            has_packets,
            publisher: OwnLine(CombiningLock::new(Publisher {
                free: start,
                records: 0,
                stash: Vec::new(),
                room: 0,
                kernel: LastKernel::default(),
            })),
            reaped: OwnLine(Mutex::new(start)),
            logged: Mutex::new(start),
            forwarding: AtomicU32::new(0),
            returned: OwnLine::default(),
            defers_completions: AtomicBool::new(false),
            deferred: Mutex::default(),
        })))
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
/// How many queues that are gone stay in memory at most, of an application that creates and destroys them all the time.
const MOST_RETIRED: usize = 512;

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
    /// A queue to come, in the list already: packets may pass as soon as the runtime has created it. `None` if the system has no memory
    /// for its records.
    pub(crate) fn enter(&self, blocks: &Blocks, agent: usize, ring: Option<Ring>) -> Option<&'static Queue> {
        let queue = Queue::leaked(blocks, agent, ring, true)?;
        let mut list = self.list.write().unwrap_or_else(|e| e.into_inner());
        list.push(queue);
        self.free(Instant::now());
        Some(queue)
    }

    /// Records of completed work of an agent that came in no packet; they have the number 0 for a queue.
    pub(crate) fn enter_without_packets(&self, blocks: &Blocks, agent: usize) -> Option<&'static Queue> {
        let queue = Queue::leaked(blocks, agent, None, false)?;
        queue.numbered(0);
        self.list.write().unwrap_or_else(|e| e.into_inner()).push(queue);
        Some(queue)
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

    /// Frees the queues that have been gone for long, and the oldest of too many. The caller has locked the list for writing: no lease of it begins.
    fn free(&self, now: Instant) {
        let mut retired = lock(&self.retired);
        while let Some(&(since, queue)) = retired.front()
            && (now.saturating_duration_since(since) >= LATE || retired.len() > MOST_RETIRED)
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use logdur_journal::Records;

    #[test]
    fn queues_that_are_gone_are_freed_later_and_not_while_a_list_that_may_have_them_is_used() {
        let blocks = Blocks::new(Box::leak(Box::new(Records::private())), u64::MAX).unwrap();
        let queues = Queues::default();
        let old = queues.enter(&blocks, 0, None).unwrap();
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

    #[test]
    fn of_queues_that_come_and_go_fast_only_the_last_ones_stay_in_memory() {
        let blocks = Blocks::new(Box::leak(Box::new(Records::private())), u64::MAX).unwrap();
        let queues = Queues::default();
        let since = Instant::now();
        for _ in 0..MOST_RETIRED + 100 {
            let queue = queues.enter(&blocks, 0, None).unwrap();
            blocks.give_back(lock(&queue.logged).block);
            queues.remove(queue);
            lock(&queues.retired).push_back((since, queue));
        }
        queues.free(since);
        assert_eq!(lock(&queues.retired).len(), MOST_RETIRED);
    }
}
