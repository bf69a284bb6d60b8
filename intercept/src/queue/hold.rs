//! Holding a queue: packets are reserved and written, and not published.
//!
//! # Threads
//! A feature holds and pauses; publishers look before each pass. A thread that publishes when a hold begins may not have seen it:
//! [`Queue::rest`](super::Queue::rest) waits for such a thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// No packet is held: none ever has this number.
const NONE: u64 = u64::MAX;

/// What of a queue is not published.
#[derive(Debug)]
pub struct Hold {
    /// The first packet that is held; those behind it are, too.
    first: AtomicU64,
    /// Nothing is published, wherever the hold begins.
    paused: AtomicBool,
    /// The last packet that was held, and is not to be held again.
    passed: AtomicU64,
}

impl Default for Hold {
    fn default() -> Hold {
        Hold { first: AtomicU64::new(NONE), paused: AtomicBool::new(false), passed: AtomicU64::new(NONE) }
    }
}

impl Hold {
    /// Holds the queue at a packet.
    pub fn begin(&self, packet: u64) {
        self.first.store(packet, Ordering::Release);
    }

    /// Holds the queue at the packet behind the one that it is held at, which is the result.
    pub fn step(&self) -> u64 {
        let packet = self.first.load(Ordering::Acquire);
        self.first.store(packet.saturating_add(1), Ordering::Release);
        packet
    }

    /// Holds no packet any more.
    pub fn end(&self) {
        self.first.store(NONE, Ordering::Release);
    }

    /// Says that a packet is not to be held again.
    pub fn pass(&self, packet: u64) {
        self.passed.store(packet, Ordering::Release);
    }

    /// True for the last packet that [`Hold::pass`] was called with.
    pub fn has_passed(&self, packet: u64) -> bool {
        self.passed.load(Ordering::Acquire) == packet
    }

    /// Publishes nothing until [`Hold::resume`].
    pub fn pause(&self) {
        self.paused.store(true, Ordering::Release);
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.paused.store(false, Ordering::Release);
    }

    /// Where packets end that may be published.
    pub(super) fn limit(&self) -> u64 {
        if self.paused.load(Ordering::Acquire) { 0 } else { self.first.load(Ordering::Acquire) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_published_up_to_the_held_one_and_none_of_a_queue_that_is_paused() {
        let hold = Hold::default();
        assert_eq!(hold.limit(), u64::MAX);
        hold.begin(7);
        assert_eq!(hold.limit(), 7);
        assert_eq!((hold.step(), hold.limit()), (7, 8));
        hold.pause();
        assert_eq!(hold.limit(), 0);
        hold.resume();
        assert_eq!(hold.limit(), 8);
        hold.pass(7);
        hold.end();
        assert_eq!((hold.limit(), hold.has_passed(7), hold.has_passed(8)), (u64::MAX, true, false));
    }
}
