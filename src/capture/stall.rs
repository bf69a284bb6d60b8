//! Bringing queues to rest, and letting them go on.
//!
//! The queue of a dispatch that is to be captured is held by a number: packets from there on are not published. The others
//! are paused. The application goes on reserving and writing packets, and waits for nothing but what it waits for anyway.
//!
//! # Threads
//! The capture thread.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use logdur_intercept::Interceptor;
use logdur_intercept::blocks::RecordRef;
use logdur_intercept::lifetime;
use logdur_intercept::queue::{Queue, Rest, Ring};
use logdur_intercept::reaper;
use logdur_intercept::watch::inplace;
use logdur_journal::{Record, Times};

use super::copies::Copies;
use super::hold::Patience;

/// How long to sleep between two looks.
pub(super) const LOOK: Duration = Duration::from_micros(50);

/// The time is over, or the queue is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expired;

/// Queues at rest; they go on when this is dropped.
pub(super) struct Stalled {
    interceptor: &'static Interceptor,
    /// That of the dispatch, if there is one.
    target: Option<&'static Queue>,
    paused: Vec<&'static Queue>,
}

impl Stalled {
    /// The queue of a packet that is held, which has been told so already.
    pub(super) fn with(interceptor: &'static Interceptor, target: &'static Queue) -> Stalled {
        Stalled { interceptor, target: Some(target), paused: Vec::new() }
    }

    /// No queue yet.
    pub(super) fn without_target(interceptor: &'static Interceptor) -> Stalled {
        Stalled { interceptor, target: None, paused: Vec::new() }
    }

    /// Pauses other queues where they are.
    pub(super) fn pause(&mut self, others: impl Iterator<Item = &'static Queue>) {
        for queue in others {
            // The runtime's intercept queues cannot be; what is in flight of them is waited for.
            if let Some(ring) = &queue.ring {
                ring.hold.pause();
            }
            self.paused.push(queue);
        }
    }

    fn queues(&self) -> impl Iterator<Item = &'static Queue> {
        self.target.into_iter().chain(self.paused.iter().copied())
    }

    /// Waits until nothing of these queues is in flight, and no copy. They are looked at twice: what has ended after its first
    /// look may have let something begin that had been looked at before, and shows in how far queues have come.
    pub(super) fn drain(&self, copies: &Copies, mut patience: Patience) -> Result<(), Expired> {
        let mut before = None;
        loop {
            reaper::look(self.interceptor, lifetime::access());
            let now: Option<Vec<Rest>> = self.queues().map(Queue::rest).collect();
            let at_rest = now.is_some() && copies.are_at_rest();
            if at_rest && now == before {
                return Ok(());
            }
            before = now.filter(|_| at_rest);
            if patience.is_over(self.interceptor, copies) {
                return Err(Expired);
            }
            if !at_rest {
                std::thread::sleep(LOOK);
            }
        }
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        if let Some(ring) = self.target.and_then(|target| target.ring.as_ref()) {
            ring.hold.end();
        }
        for ring in self.paused.iter().filter_map(|queue| queue.ring.as_ref()) {
            ring.hold.resume();
        }
        self.queues().for_each(|queue| inplace::publish_ready(self.interceptor, queue));
        self.interceptor.reaper.wake();
    }
}

/// The next record that a queue's publisher is going to use.
pub(super) fn next_record(interceptor: &Interceptor, queue: &Queue, deadline: Instant) -> Result<RecordRef, Expired> {
    loop {
        match queue.next_record(interceptor) {
            Some(record) => return Ok(record),
            None if Instant::now() >= deadline => return Err(Expired),
            None => std::thread::sleep(LOOK),
        }
    }
}

/// Publishes the packet that a queue is held at, and no more.
pub(super) fn publish_one(
    interceptor: &'static Interceptor,
    queue: &'static Queue,
    ring: &Ring,
    deadline: Instant,
) -> Result<(), Expired> {
    let index = ring.hold.step();
    loop {
        inplace::publish_ready(interceptor, queue);
        if ring.published.load(Ordering::Acquire) > index {
            return Ok(());
        }
        if Instant::now() >= deadline || queue.gone.load(Ordering::Acquire) {
            return Err(Expired);
        }
        std::thread::sleep(LOOK);
    }
}

/// When a dispatch ran, in ticks of its GPU, if its record still says so.
pub(super) fn times(record: &Record, times: &Times, id: u64) -> Option<(u64, u64)> {
    let both = (times.start.load(Ordering::Acquire), times.end.load(Ordering::Acquire));
    (record.id.load(Ordering::Acquire) == id && both.1 != 0).then_some(both)
}
