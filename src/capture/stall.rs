//! Bringing queues to rest, and letting them go on.
//!
//! The queue of a dispatch that is to be captured is held by a number: packets from there on are not published. The others
//! are paused. The application goes on reserving and writing packets, and waits for nothing but what it waits for anyway.
//!
//! # Threads
//! The capture thread.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa_sys::abi::aql::{PacketType, vendor};
use logdur_intercept::blocks::RecordRef;
use logdur_intercept::lifetime;
use logdur_intercept::lock;
use logdur_intercept::queue::{NO_HOLD, Queue, Ring, inplace};
use logdur_intercept::reaper;
use logdur_journal::{Record, State, Times};

use super::copies::{Copies, value};
use super::hold::Patience;
use crate::session::Session;

/// How long to sleep between two looks.
pub(super) const LOOK: Duration = Duration::from_micros(50);

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
            // The runtime's intercept queues cannot be; what is in flight of them is waited for.
            if let Some(ring) = &queue.ring {
                ring.paused.store(true, Ordering::Release);
            }
            self.paused.push(queue);
        }
    }

    fn queues(&self) -> impl Iterator<Item = &'static Queue> {
        std::iter::once(self.target).chain(self.paused.iter().copied())
    }

    /// Waits until nothing of these queues is in flight, and no copy. They are looked at twice: what has ended after its first
    /// look may have let something begin that had been looked at before, and shows in how far queues have come.
    pub(super) fn drain(&self, copies: &Copies, end: Instant) -> Result<(), Expired> {
        let mut patience = Patience::until(end);
        let mut before = None;
        loop {
            reaper::look(&self.session.interceptor, lifetime::access());
            let now: Option<Vec<Rest>> = self.queues().map(Rest::of).collect();
            let at_rest = now.is_some() && copies.are_at_rest();
            if at_rest && now == before {
                return Ok(());
            }
            before = now.filter(|_| at_rest);
            if patience.is_over(self.session, copies) {
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
        if let Some(ring) = &self.target.ring {
            ring.hold.store(NO_HOLD, Ordering::Release);
        }
        for ring in self.paused.iter().filter_map(|queue| queue.ring.as_ref()) {
            ring.paused.store(false, Ordering::Release);
        }
        self.queues().for_each(|queue| inplace::publish_ready(&self.session.interceptor, queue));
        self.session.interceptor.reaper.wake();
    }
}

/// How far a queue has come when everything that was published is complete, as far as it can be seen, or waits behind a
/// barrier for signals that nothing decrements while queues are at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rest {
    /// The first packet that the packet processor has not taken.
    next: u64,
    in_flight: usize,
}

impl Rest {
    /// Of a queue that is at rest.
    fn of(queue: &Queue) -> Option<Rest> {
        if queue.gone.load(Ordering::Acquire) {
            return Some(Rest { next: u64::MAX, in_flight: 0 });
        }
        // A thread that published when the queue was paused may not have seen it: what that published is seen here, and no thread
        // publishes any more. An intercept queue's publisher is given packets once, and must find the lock free.
        if queue.ring.is_some() && !queue.publisher.pass() {
            return None;
        }
        let next = queue.ring.as_ref().map_or(0, Ring::first_not_taken);
        let behind = queue.ring.as_ref().map_or(Some(0), behind_barrier)?;
        let in_flight = in_flight(queue);
        // The application's signals have been decremented for what has ended, but for what is kept from it.
        let told = queue.forwarding.load(Ordering::Acquire) as usize <= behind + lock(&queue.deferred).len();
        (in_flight == behind && told).then_some(Rest { next, in_flight })
    }
}

/// Dispatches that have been published and no record says are complete.
fn in_flight(queue: &Queue) -> usize {
    let mut at = *lock(&queue.reaped);
    let mut count = 0;
    while let Some(record) = at.record() {
        match record.state() {
            State::Free => break,
            State::InFlight => count += 1,
            State::Done | State::Logged => {}
        }
        at.advance();
    }
    count
}

/// How far a queue has come: the first packet that was not taken, and its dispatches in flight. `None` while its lock is taken.
pub(super) fn progress(queue: &Queue) -> Option<(u64, usize)> {
    let mut next = None;
    if queue.gone.load(Ordering::Acquire) {
        return Some((u64::MAX, 0));
    }
    // With the lock, so that the queue is not destroyed meanwhile.
    queue.publisher.work(|_| next = Some(queue.ring.as_ref().map_or(0, Ring::first_not_taken)));
    Some((next?, in_flight(queue)))
}

/// Dispatches that the packet processor has not come to, since it waits at a barrier before them; `None` when it has packets
/// to process.
fn behind_barrier(ring: &Ring) -> Option<usize> {
    let (next, end) = (ring.first_not_taken(), ring.published.load(Ordering::Acquire));
    if next >= end {
        return Some(0);
    }
    let header = ring.slot(next).load_header();
    let packet = ring.slot(next).read();
    // While the packet processor has not gone on, no producer writes the slot: this is the packet that it is at.
    if ring.first_not_taken() != next {
        return None;
    }
    // SAFETY: the packet waits for these signals, and is not complete.
    let value = |signal| unsafe { value(signal) };
    let mut waits = packet.dependencies().into_iter().filter(|&signal| signal != 0).map(|signal| value(signal) != 0);
    let waits = match PacketType::of(header) {
        PacketType::BarrierAnd => waits.any(|waits| waits),
        PacketType::BarrierOr => waits.all(|waits| waits),
        PacketType::VendorSpecific if packet.is_extended_dispatch() => {
            packet.dependency() != 0 && value(packet.dependency()) != 0
        }
        PacketType::VendorSpecific if packet.setup() as u8 == vendor::BARRIER_VALUE => {
            let (signal, wanted, mask, condition) = packet.barrier_value();
            signal != 0 && !is_met(value(signal) & mask, wanted, condition)
        }
        _ => false,
    };
    let is_dispatch = |index: &u64| ring.slot(*index).is_dispatch(ring.slot(*index).load_header());
    waits.then(|| (next..end).filter(is_dispatch).count())
}

/// The condition of AMD's barrier-value packet. Source: `hsa_signal_condition_t`.
fn is_met(value: i64, wanted: i64, condition: u32) -> bool {
    match condition {
        0 => value == wanted,
        1 => value != wanted,
        2 => value < wanted,
        _ => value >= wanted,
    }
}

/// True when the packet processor has taken all packets before one: it waits at no barrier on its way there. Also when the queue
/// is gone.
pub(super) fn has_reached(queue: &Queue, index: u64) -> bool {
    let Some(ring) = &queue.ring else { return true };
    // With the lock, so that the queue is not destroyed meanwhile. If another thread has it, the next look tells.
    let mut reached = queue.gone.load(Ordering::Acquire);
    if !reached {
        queue.publisher.work(|_| reached = ring.first_not_taken() >= index);
    }
    reached
}

/// The next record that a queue's publisher is going to use.
pub(super) fn next_record(session: &Session, queue: &Queue, deadline: Instant) -> Result<RecordRef, Expired> {
    loop {
        let mut found = None;
        queue.publisher.work(|publisher| found = Some(publisher.next_record(&session.interceptor, queue)));
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
        inplace::publish_ready(&session.interceptor, queue);
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
