//! What kernels take while a client of `control` asks.
//!
//! # Threads
//! The thread that writes rows adds; the *control* thread asks.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use logdur_system::lock;

/// So many spans of time are merged.
const MOST_SPANS: usize = 4096;

/// The totals of all who ask.
#[derive(Default)]
pub(crate) struct Totals {
    asking: AtomicUsize,
    of: Mutex<BTreeMap<u64, Sums>>,
}

/// What is added up for one of them.
pub(crate) struct Sums {
    since: Instant,
    kernels: HashMap<u32, Sum>,
    /// By the position of the agent.
    busy: BTreeMap<usize, Spans>,
}

/// What the dispatches of a kernel took, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) total: u64,
    pub(crate) longest: u64,
}

/// What there is to say at some moment.
pub(crate) struct Told {
    pub(crate) elapsed: u64,
    pub(crate) busy: u64,
    pub(crate) gpus: u64,
    /// By the number of the kernel, the longest total first.
    pub(crate) kernels: Vec<(u32, Sum)>,
}

impl Totals {
    /// True while somebody asks.
    #[inline]
    pub(crate) fn are_asked_for(&self) -> bool {
        self.asking.load(Ordering::Relaxed) > 0
    }

    /// A dispatch has run on an agent, in nanoseconds.
    pub(crate) fn add(&self, kernel: u32, agent: usize, (start, end): (u64, u64)) {
        if !self.are_asked_for() {
            return;
        }
        for sums in lock(&self.of).values_mut() {
            let took = end.saturating_sub(start);
            let sum = sums.kernels.entry(kernel).or_default();
            sum.count += 1;
            sum.total += took;
            sum.longest = sum.longest.max(took);
            sums.busy.entry(agent).or_default().add(start, end);
        }
    }

    /// What there is for one who asks: from the first question on.
    pub(crate) fn told(&self, asker: u64) -> Told {
        let mut of = lock(&self.of);
        let sums = of.entry(asker).or_insert_with(|| {
            self.asking.fetch_add(1, Ordering::Relaxed);
            Sums { since: Instant::now(), kernels: HashMap::new(), busy: BTreeMap::new() }
        });
        let mut kernels: Vec<(u32, Sum)> = sums.kernels.iter().map(|(number, sum)| (*number, *sum)).collect();
        kernels.sort_unstable_by_key(|(number, sum)| (std::cmp::Reverse(sum.total), *number));
        Told {
            elapsed: sums.since.elapsed().as_nanos() as u64,
            busy: sums.busy.values_mut().map(Spans::length).sum(),
            gpus: sums.busy.len() as u64,
            kernels,
        }
    }

    /// One who asked has gone.
    pub(crate) fn forget(&self, asker: u64) {
        if lock(&self.of).remove(&asker).is_some() {
            self.asking.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Spans of time that may overlap.
#[derive(Default)]
struct Spans(Vec<(u64, u64)>);

impl Spans {
    fn add(&mut self, start: u64, end: u64) {
        let Spans(spans) = self;
        // Mostly one behind the other.
        match spans.last_mut() {
            Some((first, last)) if *first <= start && start <= *last => *last = end.max(*last),
            _ => spans.push((start, end.max(start))),
        }
        if spans.len() >= 2 * MOST_SPANS {
            self.merge();
            let Spans(spans) = self;
            // The oldest ones become one of the same length, which no later one overlaps.
            if spans.len() >= MOST_SPANS {
                let old: u64 = spans.drain(..MOST_SPANS / 2).map(|(start, end)| end - start).sum();
                spans.insert(0, (0, old));
            }
        }
    }

    fn merge(&mut self) {
        let Spans(spans) = self;
        spans.sort_unstable();
        spans.dedup_by(|next, kept| {
            let overlap = next.0 <= kept.1;
            if overlap {
                kept.1 = kept.1.max(next.1);
            }
            overlap
        });
    }

    /// How much time they cover together.
    fn length(&mut self) -> u64 {
        self.merge();
        self.0.iter().map(|(start, end)| end - start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_added_up_for_each_who_asks_from_the_first_question_on() {
        let totals = Totals::default();
        totals.add(1, 0, (0, 100));
        assert!(totals.told(7).kernels.is_empty());
        totals.add(1, 0, (200, 300));
        assert!(totals.told(8).kernels.is_empty());
        totals.add(2, 1, (250, 500));
        totals.add(1, 0, (290, 310));
        let told = totals.told(7);
        let sum = |count, total, longest| Sum { count, total, longest };
        assert_eq!(told.kernels, [(2, sum(1, 250, 250)), (1, sum(2, 120, 100))]);
        assert_eq!((told.busy, told.gpus), (110 + 250, 2));
        assert_eq!(totals.told(8).kernels, [(2, sum(1, 250, 250)), (1, sum(1, 20, 20))]);
        totals.forget(7);
        totals.forget(8);
        totals.forget(8);
        totals.add(1, 0, (600, 700));
        assert!(totals.told(7).kernels.is_empty());
    }

    #[test]
    fn spans_that_overlap_count_once_however_many_there_are_and_in_whatever_order_they_come() {
        let mut spans = Spans::default();
        for (start, end) in [(10, 20), (15, 18), (5, 12), (40, 30), (19, 25)] {
            spans.add(start, end);
        }
        assert_eq!(spans.length(), 20);
        let mut many = Spans::default();
        const GAPS: u64 = 5 * MOST_SPANS as u64;
        for at in (0..GAPS).flat_map(|pair| [2 * pair + 1, 2 * pair]) {
            many.add(1_000_000 + 10 * at, 1_000_000 + 10 * at + 5);
        }
        assert!(many.0.len() < 2 * MOST_SPANS);
        assert_eq!(many.length(), 2 * GAPS * 5);
    }
}
