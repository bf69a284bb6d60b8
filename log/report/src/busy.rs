//! When a GPU was busy: the union of the intervals of its dispatches, which come in any order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::pairs::Pairs;

/// Intervals that are sorted at a time.
const BATCH: usize = 1 << 18;

/// Intervals in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Busy {
    /// Runs of intervals, starts and lengths, in each of which none meets another.
    runs: Vec<Pairs>,
    /// Starts and ends.
    batch: Vec<(u64, u64)>,
    sum: u64,
}

/// What the intervals come to, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// From the first start to the last end.
    pub span: u64,
    /// When at least one kernel ran.
    pub busy: u64,
    /// The sum of the intervals; divided by `busy` it is the mean number of kernels that ran at once.
    pub sum: u64,
    /// Times between kernels.
    pub gaps: u64,
    /// The longest time between kernels.
    pub longest_gap: u64,
}

impl Busy {
    /// Adds an interval. One of no length counts as a place where the GPU was, and one that ends before it starts as none.
    pub fn add(&mut self, start: u64, end: u64) {
        let Some(length) = end.checked_sub(start) else { return };
        self.sum = self.sum.saturating_add(length);
        self.batch.push((start, end));
        if self.batch.len() >= BATCH {
            self.end_run();
        }
    }

    fn end_run(&mut self) {
        self.batch.sort_unstable();
        let (mut run, mut union) = (Pairs::default(), Union::default());
        for &interval in &self.batch {
            union.add(interval, |(start, end)| run.push(start, end - start));
        }
        union.end(|(start, end)| run.push(start, end - start));
        run.end();
        self.runs.push(run);
        self.batch.clear();
    }

    /// What they come to.
    pub fn usage(&mut self) -> Usage {
        if !self.batch.is_empty() {
            self.end_run();
        }
        let mut usage = Usage { sum: self.sum, ..Usage::default() };
        let (mut first, mut last) = (None, None);
        let mut take = |(start, end): (u64, u64)| {
            if let Some(before) = last.replace(end) {
                let gap = start - before;
                usage.gaps += 1;
                usage.longest_gap = usage.longest_gap.max(gap);
            }
            first.get_or_insert(start);
            usage.busy += end - start;
        };
        let mut runs: Vec<_> = self.runs.iter().map(Pairs::iter).collect();
        let mut next: BinaryHeap<_> =
            runs.iter_mut().enumerate().filter_map(|(i, run)| run.next().map(|of_run| Reverse((of_run, i)))).collect();
        let mut union = Union::default();
        while let Some(Reverse(((start, length), i))) = next.pop() {
            union.add((start, start + length), &mut take);
            next.extend(runs.get_mut(i).and_then(Iterator::next).map(|of_run| Reverse((of_run, i))));
        }
        union.end(&mut take);
        usage.span = first.zip(last).map_or(0, |(first, last)| last - first);
        usage
    }
}

/// Intervals in the order of their starts, those that meet made one.
#[derive(Default)]
struct Union(Option<(u64, u64)>);

impl Union {
    fn add(&mut self, (start, end): (u64, u64), done: impl FnOnce((u64, u64))) {
        match &mut self.0 {
            Some((_, last)) if start <= *last => *last = end.max(*last),
            open => _ = open.replace((start, end)).map(done),
        }
    }

    fn end(self, done: impl FnOnce((u64, u64))) {
        self.0.map(done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(intervals: &[(u64, u64)]) -> Usage {
        let mut busy = Busy::default();
        intervals.iter().for_each(|&(start, end)| busy.add(start, end));
        busy.usage()
    }

    #[test]
    fn the_union_and_its_gaps_do_not_depend_on_the_order() {
        let expected = Usage { span: 90, busy: 60, sum: 80, gaps: 2, longest_gap: 20 };
        assert_eq!(of(&[(10, 30), (20, 50), (60, 70), (90, 100), (60, 70)]), expected);
        assert_eq!(of(&[(90, 100), (60, 70), (20, 50), (10, 30), (60, 70)]), expected);
        assert_eq!(of(&[]), Usage::default());
    }

    #[test]
    fn intervals_of_no_length_are_places_and_reversed_ones_are_none() {
        assert_eq!(of(&[(5, 5), (9, 9)]), Usage { span: 4, busy: 0, sum: 0, gaps: 1, longest_gap: 4 });
        assert_eq!(of(&[(9, 5)]), Usage::default());
    }

    #[test]
    fn an_interval_of_many_seconds_is_whole() {
        let long = 10 * u64::from(u32::MAX) + 7;
        assert_eq!(
            of(&[(1 << 40, (1 << 40) + long)]),
            Usage { span: long, busy: long, sum: long, gaps: 0, longest_gap: 0 }
        );
    }

    #[test]
    fn an_interval_of_all_times_costs_no_more_memory_than_another() {
        let all = Usage { span: u64::MAX, busy: u64::MAX, sum: u64::MAX, gaps: 0, longest_gap: 0 };
        assert_eq!(of(&[(0, u64::MAX)]), all);
        assert_eq!(of(&[(7, 9), (0, u64::MAX), (u64::MAX - 1, u64::MAX)]), all);
        // Between others and behind them.
        let (long, last) = (1 << 40, u64::MAX - 3);
        assert_eq!(
            of(&[(last, u64::MAX), (5, 10), (20, 20 + long), (30 + long, 31 + long)]),
            Usage { span: u64::MAX - 5, busy: 9 + long, sum: 9 + long, gaps: 3, longest_gap: last - 31 - long }
        );
    }

    #[test]
    fn many_runs_are_one_union() {
        let mut busy = Busy::default();
        let count = 3 * BATCH as u64 + 11;
        // Interleaved: each run covers the whole time.
        for i in 0..count {
            let at = i * 7919 % count;
            busy.add(at * 10, at * 10 + 4);
        }
        let found = busy.usage();
        assert_eq!(
            found,
            Usage { span: count * 10 - 6, busy: count * 4, sum: count * 4, gaps: count - 1, longest_gap: 6 }
        );
    }
}
