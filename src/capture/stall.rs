//! Bringing queues to rest, and letting them go on.
//!
//! The queue of a dispatch that is to be captured is held by a number: packets from there on are not published. The others
//! are paused. The application goes on reserving and writing packets, and waits for nothing but what it waits for anyway.
//!
//! # Threads
//! The capture thread.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa_sys::abi::aql::PacketType;
use logdur_journal::{Record, State, Times};

use super::copies::value;
use crate::blocks::RecordRef;
use crate::exit;
use crate::queue::{NO_HOLD, Queue, Ring, inplace};
use crate::reaper;
use crate::session::{Session, lock};

/// How long to sleep between two looks.
const LOOK: Duration = Duration::from_micros(50);

/// The time is over, or the queue is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expired;

/// Queues at rest; they go on when this is dropped.
pub(super) struct Stalled {
    session: &'static Session,
    /// That of the dispatch.
    target: &'static Queue,
    paused: Vec<&'static Queue>,
}

impl Stalled {
    /// The queue of a packet that is held, which has been told so already.
    pub(super) fn with(session: &'static Session, target: &'static Queue) -> Stalled {
        Stalled { session, target, paused: Vec::new() }
    }

    /// Pauses other queues where they are.
    pub(super) fn pause(&mut self, others: impl Iterator<Item = &'static Queue>) {
        for queue in others {
            let Some(ring) = &queue.ring else { continue };
            ring.paused.store(true, Ordering::Release);
            self.paused.push(queue);
        }
    }

    fn queues(&self) -> impl Iterator<Item = &'static Queue> {
        std::iter::once(self.target).chain(self.paused.iter().copied())
    }

    /// Waits until nothing of these queues is in flight.
    pub(super) fn drain(&self, deadline: Instant) -> Result<(), Expired> {
        loop {
            reaper::look(self.session, exit::access());
            if self.queues().all(is_idle) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Expired);
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        if let Some(ring) = &self.target.ring {
            ring.hold.store(NO_HOLD, Ordering::Release);
        }
        for ring in self.paused.iter().filter_map(|queue| queue.ring.as_ref()) {
            ring.paused.store(false, Ordering::Release);
        }
        self.queues().for_each(|queue| inplace::go_on(self.session, queue));
        self.session.reaper.wake();
    }
}

/// True when everything that was published is complete, as far as it can be seen, or waits behind a barrier for signals
/// that nothing decrements while queues are at rest.
fn is_idle(queue: &Queue) -> bool {
    if queue.gone.load(Ordering::Acquire) {
        return true;
    }
    // Whoever published when the queue was paused may not have seen it: what that published is seen here, and nobody
    // publishes any more.
    if !queue.publisher.pass() {
        return false;
    }
    let behind = queue.ring.as_ref().map_or(Some(0), behind_barrier);
    behind == Some(in_flight(queue))
}

/// Dispatches that have been published and no record says are complete.
fn in_flight(queue: &Queue) -> usize {
    let mut at = *lock(&queue.reaped);
    let mut count = 0;
    while let Some(record) = at.record() {
        match record.record().state() {
            State::Free => break,
            State::InFlight => count += 1,
            State::Done | State::Logged => {}
        }
        at.advance();
    }
    count
}

/// Dispatches that the packet processor has not come to, since it waits at a barrier before them; `None` when it has packets
/// to process.
fn behind_barrier(ring: &Ring) -> Option<usize> {
    let (next, end) = (ring.read_index(), ring.published.load(Ordering::Acquire));
    if next >= end {
        return Some(0);
    }
    let header = ring.slot(next).load_header();
    let mut waits = ring.slot(next).read().dependencies().into_iter().filter(|&s| s != 0).map(|s| value(s) != 0);
    let waits = match PacketType::of(header) {
        PacketType::BarrierAnd => waits.any(|waits| waits),
        PacketType::BarrierOr => waits.all(|waits| waits),
        _ => false,
    };
    let is_dispatch = |index: &u64| PacketType::of(ring.slot(*index).load_header()) == PacketType::KernelDispatch;
    waits.then(|| (next..end).filter(is_dispatch).count())
}

/// The next record that a queue's publisher is going to use.
pub(super) fn next_record(session: &Session, queue: &Queue, deadline: Instant) -> Result<RecordRef, Expired> {
    loop {
        let mut found = None;
        queue.publisher.work(|publisher| found = Some(publisher.next_record(session, queue)));
        match found {
            Some(record) => return Ok(record),
            None if Instant::now() >= deadline => return Err(Expired),
            None => std::thread::sleep(LOOK),
        }
    }
}

/// Publishes the packet that a queue is held at, and no more.
pub(super) fn publish_one(
    session: &'static Session,
    queue: &'static Queue,
    ring: &Ring,
    deadline: Instant,
) -> Result<(), Expired> {
    let index = ring.hold.load(Ordering::Acquire);
    ring.hold.store(index + 1, Ordering::Release);
    loop {
        inplace::go_on(session, queue);
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
