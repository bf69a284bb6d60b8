//! Tells features that hold queues whether all published packets are complete.
//!
//! # Threads
//! Threads of features. A queue is not destroyed while its lock is held, so its memory is read under the lock.

use std::sync::atomic::Ordering;

use hsa::Api;
use hsa_sys::abi::aql::{PacketType, vendor};
use hsa_sys::abi::signal::Signal;
use logdur_journal::State;
use logdur_system::lock;

use super::ring::HeldBack;
use super::{Queue, Ring};

/// How far a queue has come when everything that was published is complete, as far as it can be seen, or waits behind a
/// barrier for signals that nothing decrements while queues are at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The first packet that the packet processor has not taken.
    next: u64,
    in_flight: usize,
}

impl Rest {
    /// Of a queue that is destroyed, or being destroyed.
    const GONE: Rest = Rest { next: u64::MAX, in_flight: 0 };
}

impl Queue {
    /// How far a queue has come that is held or paused; `None` if it is not at rest.
    pub fn rest(&self) -> Option<Rest> {
        if self.gone.load(Ordering::Acquire) {
            return Some(Rest::GONE);
        }
        let (mut next, mut behind) = (0, Some(0));
        if let Some(ring) = &self.ring {
            // A thread that published when the queue was paused may not have seen it: what that published is seen here, and no thread
            // publishes any more. What threads flag meanwhile is done when the queue goes on.
            let mut seen = None;
            self.publisher.work(|_| seen = Some((ring.first_not_taken(), behind_barrier(ring))));
            match seen {
                Some(seen) => (next, behind) = seen,
                // The queue is being destroyed, and its memory may be gone.
                None => return self.is_destroyed().then_some(Rest::GONE),
            }
        }
        let behind = behind?;
        let in_flight = self.in_flight();
        // The application's signals have been decremented for what has ended, but for what is kept from it.
        let told = self.forwarding.load(Ordering::Acquire) as usize <= behind + lock(&self.deferred).len();
        (in_flight == behind && told).then_some(Rest { next, in_flight })
    }

    /// True as soon as the last owner destroys the queue: what was in flight is never complete.
    pub fn is_destroyed(&self) -> bool {
        self.publisher.is_closed()
    }

    /// True when everything is complete that was ever published of the queue, no packet waits at a barrier, and no other library has
    /// written the queue's index. Also when the queue is gone. False if that cannot be known, as for an intercept queue.
    pub fn is_idle(&self, api: &Api) -> bool {
        if !self.has_packets || self.gone.load(Ordering::Acquire) {
            return true;
        }
        let Some(ring) = &self.ring else { return false };
        let mut idle = false;
        self.publisher.work(|_| {
            let end = ring.published.load(Ordering::Acquire);
            let is_ours = !ring.bypassed.load(Ordering::Acquire) && ring.real_index(api) == end;
            idle = is_ours && ring.first_not_taken() == end;
        });
        idle && self.in_flight() == 0
    }

    /// How far the queue has come: the first packet that was not taken, and its dispatches in flight. `None` while its lock is
    /// taken.
    pub fn progress(&self) -> Option<(u64, usize)> {
        let mut next = None;
        if self.gone.load(Ordering::Acquire) {
            return Some((u64::MAX, 0));
        }
        self.publisher.work(|_| next = Some(self.ring.as_ref().map_or(0, Ring::first_not_taken)));
        Some((next?, self.in_flight()))
    }

    /// True if something in progress on this queue may wait for a packet that a feature holds on the other queue. Packets before one
    /// with the barrier bit do not wait for it. `None` while a lock is taken.
    pub fn may_wait_for(&self, other: &Queue) -> Option<bool> {
        let may_be_waited_for = match other.held_back()? {
            HeldBack::Nothing => false,
            HeldBack::Ordered => !std::ptr::eq(self, other),
            HeldBack::Unordered => true,
        };
        Some(may_be_waited_for && self.is_under_way()?)
    }

    fn held_back(&self) -> Option<HeldBack> {
        let Some(ring) = self.ring.as_ref().filter(|_| !self.gone.load(Ordering::Acquire)) else {
            return Some(HeldBack::Nothing);
        };
        let mut held_back = None;
        self.publisher.work(|_| held_back = Some(ring.held_back()));
        held_back
    }

    /// True when the packet processor has not taken all that was published, or a dispatch is in flight.
    fn is_under_way(&self) -> Option<bool> {
        let published = self.ring.as_ref().map_or(0, |ring| ring.published.load(Ordering::Acquire));
        self.progress().map(|(next, in_flight)| next < published || in_flight > 0)
    }

    /// True when the packet processor has taken all packets before one: it waits at no barrier on its way there. Also when the
    /// queue is gone. False while its lock is taken.
    pub fn has_reached(&self, packet: u64) -> bool {
        let Some(ring) = &self.ring else { return true };
        let mut reached = self.gone.load(Ordering::Acquire);
        if !reached {
            self.publisher.work(|_| reached = ring.first_not_taken() >= packet);
        }
        reached
    }

    /// Dispatches that have been published and no record says are complete.
    fn in_flight(&self) -> usize {
        let mut at = *lock(&self.reaped);
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
    // SAFETY: the packet waits for these signals and is not complete: the application may not destroy them before that.
    let value = |signal| unsafe { Signal::from_handle(signal) }.value.load(Ordering::Acquire);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::fake_ring::FakeRing;

    const DISPATCH: u32 = 2;
    const BARRIER_AND: u32 = 3;
    const BARRIER_OR: u32 = 5;
    /// Where the first two of a barrier's signals are, in words of 32 bits: HSA specification, section 2.9.8.
    const SIGNALS: [usize; 2] = [2, 4];

    fn signal(value: i64) -> Box<Signal> {
        // SAFETY: the structure is of atomic integers only, of which zeros are a value.
        let signal: Box<Signal> = Box::new(unsafe { std::mem::MaybeUninit::zeroed().assume_init() });
        signal.value.store(value, Ordering::Relaxed);
        signal
    }

    /// How many dispatches wait behind a barrier, with two behind it, that waits for signals of these values.
    fn behind(kind: u32, values: [i64; 2]) -> Option<usize> {
        let signals = values.map(signal);
        let mut words = [[0; 16], [0; 16], [0; 16], [0; 16]];
        words[0][0] = kind;
        for (signal, at) in signals.iter().zip(SIGNALS) {
            let handle = std::ptr::from_ref(&**signal).expose_provenance() as u64;
            (words[0][at], words[0][at + 1]) = (handle as u32, (handle >> 32) as u32);
        }
        (words[1][0], words[2][0]) = (DISPATCH, DISPATCH);
        let fake = FakeRing::of(words);
        fake.ring.published.store(3, Ordering::Relaxed);
        behind_barrier(&fake.ring)
    }

    #[test]
    fn dispatches_wait_behind_a_barrier_while_its_signals_do_not_let_it_go() {
        assert_eq!(behind(BARRIER_AND, [1, 0]), Some(2));
        assert_eq!(behind(BARRIER_AND, [0, 0]), None, "the packet processor goes on");
        assert_eq!(behind(BARRIER_OR, [1, 1]), Some(2));
        assert_eq!(behind(BARRIER_OR, [1, 0]), None);
        assert_eq!(behind(DISPATCH, [1, 1]), None, "a dispatch waits for no signal");
    }

    #[test]
    fn a_ring_whose_packets_were_all_taken_has_no_dispatch_behind_a_barrier() {
        let fake = FakeRing::of([[1; 16]; 4]);
        fake.ring.published.store(3, Ordering::Relaxed);
        assert_eq!(behind_barrier(&fake.ring), Some(0));
    }

    #[test]
    fn the_conditions_of_a_barrier_on_a_value_are_those_of_signals() {
        let met = |value| [0, 1, 2, 3].map(|condition| is_met(value, 5, condition));
        assert_eq!(met(4), [false, true, true, false]);
        assert_eq!(met(5), [true, false, false, true]);
        assert_eq!(met(6), [false, true, false, true]);
    }
}
