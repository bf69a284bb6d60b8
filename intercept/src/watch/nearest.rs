//! Queues by an address that each has one of, found by one load: in front of the map that has all of them.
//!
//! # Threads
//! Any. The queue that came last has a place that several would have.
//!
//! # Ordering
//! A queue is stored with release when it is whole, and leaves when it is destroyed; it is freed long after that.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::queue::Queue;

/// A power of two of places.
const PLACES: usize = 64;

/// The queues.
pub(super) struct Nearest([AtomicPtr<Queue>; PLACES]);

impl Nearest {
    pub(super) const fn new() -> Nearest {
        Nearest([const { AtomicPtr::new(ptr::null_mut()) }; PLACES])
    }

    #[inline]
    fn place(&self, address: u64) -> &AtomicPtr<Queue> {
        // Fibonacci hashing: the upper bits of the product depend on all lower ones. Addresses are mostly 64 bytes apart.
        let hash = (address >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        &self.0[hash as usize % PLACES]
    }

    /// The queue of an address, if it has its place. `of` says which address a queue has.
    #[inline]
    pub(super) fn get(&self, address: u64, of: impl FnOnce(&Queue) -> Option<u64>) -> Option<&'static Queue> {
        // SAFETY: a place holds null or a queue that is in the map, too: it leaves both when it is destroyed, and is freed long after.
        let queue = unsafe { self.place(address).load(Ordering::Acquire).as_ref() }?;
        (of(queue) == Some(address)).then_some(queue)
    }

    pub(super) fn enter(&self, address: u64, queue: &'static Queue) {
        self.place(address).store(ptr::from_ref(queue).cast_mut(), Ordering::Release);
    }

    pub(super) fn leave(&self, address: u64, queue: &Queue) {
        let queue = ptr::from_ref(queue).cast_mut();
        let _ = self.place(address).compare_exchange(queue, ptr::null_mut(), Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::blocks::Blocks;
    use crate::queue::Queues;
    use logdur_journal::Records;

    #[test]
    fn a_queue_is_found_by_its_own_address_until_it_leaves_and_one_that_shares_its_place_takes_no_other() {
        let blocks = Blocks::new(Box::leak(Box::new(Records::private())), u64::MAX).unwrap();
        let queues = Queues::default();
        let nearest = Nearest::new();
        let queue_at = |address: u64| {
            let queue = queues.enter(&blocks, 0, None).unwrap();
            queue.handle.store(ptr::without_provenance_mut(address as usize), Ordering::Release);
            nearest.enter(address, queue);
            queue
        };
        let found =
            |address: u64| nearest.get(address, |queue| Some(queue.handle.load(Ordering::Relaxed).addr() as u64));
        let is = |found: Option<&'static Queue>, queue: &'static Queue| found.is_some_and(|q| ptr::eq(q, queue));
        let first = queue_at(64);
        assert!(is(found(64), first) && found(128).is_none());
        let other = (2..).map(|n| n * 64).find(|&address| ptr::eq(nearest.place(address), nearest.place(64))).unwrap();
        assert!(found(other).is_none());
        let second = queue_at(other);
        assert!(is(found(other), second) && found(64).is_none(), "the map has it");
        nearest.leave(64, first);
        assert!(is(found(other), second));
        nearest.leave(other, second);
        assert!(found(other).is_none());
    }
}
