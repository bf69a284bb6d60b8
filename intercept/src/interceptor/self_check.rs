//! A look at the first dispatches on a runtime that is newer than all that were tested: whether their times can be times at all.
//!
//! That packets are taken which were not published is found on every runtime, where they are published.
//!
//! # Threads
//! The reaper.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many dispatches are looked at.
const DISPATCHES: u32 = 64;
/// How many of them may end before they start: hardware writes such times now and then.
const TOLERATED: u32 = DISPATCHES / 2;

/// What is left to look at, and what was found.
#[derive(Default)]
pub(crate) struct SelfCheck {
    left: AtomicU32,
    reversed: AtomicU32,
}

impl SelfCheck {
    /// The next dispatches are looked at.
    pub(crate) fn begin(&self) {
        self.reversed.store(0, Ordering::Relaxed);
        self.left.store(DISPATCHES, Ordering::Relaxed);
    }

    /// Looks at the times of a dispatch that is complete, in ticks; the reason if this runtime's are no times.
    #[inline]
    pub(crate) fn refuses(&self, start: u64, end: u64) -> Option<String> {
        if self.left.load(Ordering::Relaxed) == 0 { None } else { self.look(start, end) }
    }

    #[cold]
    fn look(&self, start: u64, end: u64) -> Option<String> {
        let left = self.left.load(Ordering::Relaxed) - 1;
        let reversed = self.reversed.load(Ordering::Relaxed) + u32::from(end < start);
        self.reversed.store(reversed, Ordering::Relaxed);
        let refused = reversed > TOLERATED;
        self.left.store(if refused { 0 } else { left }, Ordering::Relaxed);
        refused.then(|| format!("of the first {} dispatches, {reversed} end before they start", DISPATCHES - left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_reversed_now_and_then_are_tolerated_and_those_that_mostly_are_refused_once() {
        let check = SelfCheck::default();
        assert_eq!(check.refuses(2, 1), None, "it has not begun");
        check.begin();
        assert!((0..1000).all(|n| check.refuses(10, if n % 3 == 0 { 9 } else { 10 }).is_none()));
        let check = SelfCheck::default();
        check.begin();
        let said: Vec<String> = (0..1000).filter_map(|_| check.refuses(2, 1)).collect();
        assert_eq!(said, ["of the first 33 dispatches, 33 end before they start"]);
    }
}
