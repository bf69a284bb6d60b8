//! Counts packets that pass unseen, and tells the user why if all dispatches of a process did.
//!
//! # Threads
//! Those that create and destroy queues, and the one that ends the runtime or the process.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use hsa::Api;
use hsa_sys::raw::hsa_queue_t;
use logdur_journal::account::Event;
use logdur_system::lock;

use super::Interceptor;

/// What tools do that write packets themselves, and how they are told not to.
const WRITTEN_AROUND: &str = "code of the process writes the queue's index or doorbell without the runtime's functions; \
                              DEBUG_CLR_DIRECT_DOORBELL=0 and ROCPROFILER_QUEUE_INTERPOSITION=0 stop HIP and the ROCm \
                              profiler from that";

/// A queue that is not watched.
struct UnwatchedQueue {
    handle: *mut hsa_queue_t,
    why: String,
    /// The write index up to which its packets are counted.
    counted: u64,
}

// SAFETY: the queue is used by the runtime's functions only, which any thread may call.
unsafe impl Send for UnwatchedQueue {}

/// The queues that are not watched, and what became of their packets.
#[derive(Default)]
pub struct Unseen(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    unwatched: Vec<UnwatchedQueue>,
    /// There was one, at any time.
    had_queues: bool,
    /// Why packets passed unseen.
    reasons: BTreeSet<String>,
    /// How many queues had such packets.
    queues: u64,
}

impl Unseen {
    /// A queue is not watched: its packets are counted when it is destroyed, or at the end.
    ///
    /// # Safety
    /// `handle` must be a queue of the runtime, and [`Unseen::close`] be called before it is destroyed.
    pub(crate) unsafe fn enter(&self, handle: *mut hsa_queue_t, why: String) {
        let mut counts = lock(&self.0);
        counts.had_queues = true;
        counts.unwatched.push(UnwatchedQueue { handle, why, counted: 0 });
    }

    /// True if there has been a queue that is not watched, or packets have passed unseen.
    pub fn had_queues(&self) -> bool {
        let counts = lock(&self.0);
        counts.had_queues || counts.queues > 0
    }

    /// A queue is about to be destroyed.
    pub(crate) fn close(&self, interceptor: &Interceptor, handle: *const hsa_queue_t) {
        let mut counts = lock(&self.0);
        if let Some(at) = counts.unwatched.iter().position(|queue| queue.handle.cast_const() == handle) {
            let mut unwatched = counts.unwatched.swap_remove(at);
            counts.look(interceptor, &mut unwatched);
        }
    }

    /// Packets of a queue that was watched until others wrote around the library; `first` if they are its first.
    pub(crate) fn written_around(&self, interceptor: &Interceptor, packets: u64, first: bool) {
        lock(&self.0).add(interceptor, packets, first, WRITTEN_AROUND);
    }

    /// Counts what has passed until now on queues that were never watched. The runtime must be up.
    pub(crate) fn count(&self, interceptor: &Interceptor) {
        let mut counts = lock(&self.0);
        let mut unwatched = std::mem::take(&mut counts.unwatched);
        unwatched.iter_mut().for_each(|queue| counts.look(interceptor, queue));
        counts.unwatched = unwatched;
    }

    /// Notes why no dispatch was seen, if packets passed unseen: in the log, and for `omniprobe`.
    pub fn tell(&self, interceptor: &Interceptor) {
        let packets = interceptor.records.header().events()[Event::UnseenPacket as usize];
        if packets == 0 || interceptor.records.header().next_id().load(Ordering::Relaxed) != 0 {
            return;
        }
        let counts = lock(&self.0);
        let reasons: Vec<&str> = counts.reasons.iter().map(String::as_str).collect();
        let text = format!(
            "0 dispatches were seen, although {packets} packets passed on {} queues: {}",
            counts.queues,
            reasons.join("; ")
        );
        drop(counts);
        if interceptor.notice_once("nothing-seen", &text) {
            interceptor.tell(&text);
        }
    }
}

impl Counts {
    /// Counts the packets that were written to a queue since it was last looked at.
    fn look(&mut self, interceptor: &Interceptor, queue: &mut UnwatchedQueue) {
        // SAFETY: the caller of `enter` promised that the queue is not destroyed before it is closed.
        let Some(written) = (unsafe { written(interceptor.api(), queue.handle) }) else { return };
        let counted = std::mem::replace(&mut queue.counted, written);
        self.add(interceptor, written.saturating_sub(counted), counted == 0, &queue.why);
    }

    fn add(&mut self, interceptor: &Interceptor, packets: u64, first: bool, why: &str) {
        if packets == 0 {
            return;
        }
        interceptor.records.header().count(Event::UnseenPacket, packets);
        self.queues += u64::from(first);
        if !self.reasons.contains(why) {
            self.reasons.insert(why.to_owned());
        }
    }
}

/// How many packets were written to a queue, by the runtime or the tool below.
///
/// # Safety
/// The queue must be alive.
unsafe fn written(api: &Api, handle: *const hsa_queue_t) -> Option<u64> {
    // SAFETY: the caller's promise.
    api.core.hsa_queue_load_write_index_relaxed_fn.map(|load| unsafe { load(handle) })
}
