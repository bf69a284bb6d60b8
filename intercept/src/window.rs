//! Which dispatches are recorded, where not all of them are.
//!
//! # Threads
//! Publishers look, any thread changes a condition.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

/// The window in which dispatches are recorded.
#[derive(Debug)]
pub struct Window {
    /// How many conditions are not met.
    unmet: AtomicU32,
    /// Which numbers a dispatch can have.
    numbers: RangeInclusive<u64>,
    /// How many more dispatches are recorded.
    left: AtomicI64,
}

impl Window {
    /// A window for dispatches with these numbers, and for so many of them. So many conditions are not met yet.
    pub fn new(numbers: RangeInclusive<u64>, most: u64, unmet: u32) -> Window {
        let left = i64::try_from(most).unwrap_or(i64::MAX);
        Window { unmet: AtomicU32::new(unmet), numbers, left: AtomicI64::new(left) }
    }

    /// True if a dispatch with this number is recorded now.
    #[inline]
    pub fn has(&self, number: u64) -> bool {
        self.unmet.load(Ordering::Relaxed) == 0
            && self.numbers.contains(&number)
            && self.left.load(Ordering::Relaxed) > 0
    }

    /// The same for a dispatch that is recorded if so: it counts.
    #[inline]
    pub(crate) fn takes(&self, number: u64) -> bool {
        self.has(number) && self.left.fetch_sub(1, Ordering::Relaxed) > 0
    }

    /// A condition is met that was not, or is not met any more.
    pub fn changes(&self, is_met: bool) {
        if is_met {
            self.unmet.fetch_sub(1, Ordering::Relaxed);
        } else {
            self.unmet.fetch_add(1, Ordering::Relaxed);
        }
    }
}
