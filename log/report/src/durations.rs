//! Durations, whole: every different value with how often it occurred.

use crate::pairs::Pairs;

/// Values that are gathered before they are sorted in, at least.
const BATCH: usize = 1 << 14;

/// Durations in nanoseconds. GPUs count in ticks of 10 to 40 ns, so that the values of many dispatches are few.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    /// Different values in ascending order, and how often each occurred.
    sorted: Pairs,
    /// How many different values there are.
    different: usize,
    /// Values that are not sorted in yet.
    batch: Vec<u64>,
}

/// What durations come to, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// How many there are.
    pub count: u64,
    /// Their sum.
    pub total: u64,
    /// Their mean.
    pub mean: f64,
    /// The middle one, or the mean of the middle two.
    pub median: f64,
    /// The smallest.
    pub min: u64,
    /// The largest.
    pub max: u64,
    /// The 95th percentile: the smallest value that at least 95 % do not exceed.
    pub p95: u64,
    /// Standard deviation of the sample (n - 1); 0 for one value.
    pub stddev: f64,
}

impl Durations {
    /// Adds one.
    pub fn add(&mut self, duration: u64) {
        self.batch.push(duration);
        // The more there is to merge with, the more is gathered first: each value is moved a few times, not hundreds.
        if self.batch.len() >= BATCH.max(self.different / 4) {
            self.sort_in();
        }
    }

    fn sort_in(&mut self) {
        self.batch.sort_unstable();
        let mut merged = Merged::default();
        let mut old = self.sorted.iter().peekable();
        for &value in &self.batch {
            while let Some((before, count)) = old.next_if(|(before, _)| *before <= value) {
                merged.add(before, count);
            }
            merged.add(value, 1);
        }
        old.for_each(|(value, count)| merged.add(value, count));
        (self.sorted, self.different) = merged.end();
        self.batch.clear();
    }

    /// Adds all of others.
    pub(crate) fn merge(&mut self, mut other: Durations) {
        if !self.batch.is_empty() {
            self.sort_in();
        }
        let mut merged = Merged::default();
        let mut old = self.sorted.iter().peekable();
        for (value, count) in other.values() {
            while let Some((before, count)) = old.next_if(|(before, _)| *before <= value) {
                merged.add(before, count);
            }
            merged.add(value, count);
        }
        old.for_each(|(value, count)| merged.add(value, count));
        (self.sorted, self.different) = merged.end();
    }

    /// Every different value in ascending order, and how often it occurred.
    pub fn values(&mut self) -> impl Iterator<Item = (u64, u64)> {
        if !self.batch.is_empty() {
            self.sort_in();
        }
        self.sorted.iter()
    }

    /// What they come to; zeroes if there are none.
    pub fn statistics(&mut self) -> Statistics {
        let mut found = Statistics { min: u64::MAX, ..Statistics::default() };
        for (value, n) in self.values() {
            found.count += n;
            found.total = found.total.saturating_add(value.saturating_mul(n));
            (found.min, found.max) = (found.min.min(value), value);
        }
        if found.count == 0 {
            return Statistics::default();
        }
        let (count, mean) = (found.count, found.total as f64 / found.count as f64);
        let mut squares = 0.0;
        // By rank, which is the number of values before: the middle two, and the 95th percentile.
        let ranks = [(count - 1) / 2, count / 2, (count * 95).div_ceil(100) - 1];
        let mut at_rank = [0; 3];
        let mut before = 0;
        for (value, n) in self.values() {
            squares += (value as f64 - mean).powi(2) * n as f64;
            for (rank, at) in ranks.iter().zip(&mut at_rank) {
                if (before..before + n).contains(rank) {
                    *at = value;
                }
            }
            before += n;
        }
        let [low, high, p95] = at_rank;
        let stddev = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        Statistics { mean, median: (low as f64 + high as f64) / 2.0, p95, stddev, ..found }
    }
}

/// Values that come in ascending order, equal ones counted together.
#[derive(Default)]
struct Merged {
    done: Pairs,
    different: usize,
    /// The last value, and how often it occurred so far.
    last: Option<(u64, u64)>,
}

impl Merged {
    fn add(&mut self, value: u64, count: u64) {
        match &mut self.last {
            Some((last, counted)) if *last == value => *counted += count,
            last => {
                if let Some((before, counted)) = last.replace((value, count)) {
                    self.done.push(before, counted);
                    self.different += 1;
                }
            }
        }
    }

    /// All of them, and how many differ.
    fn end(mut self) -> (Pairs, usize) {
        if let Some((last, counted)) = self.last {
            self.done.push(last, counted);
            self.different += 1;
        }
        self.done.end();
        (self.done, self.different)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_the_sorted_values() {
        // Mean, median and standard deviation as Python's `statistics` has them.
        let mut some = Durations::default();
        [400, 100, 250, 100, 1000, 330, 330].into_iter().for_each(|d| some.add(d));
        let found = some.statistics();
        assert_eq!((found.count, found.total, found.min, found.max, found.p95), (7, 2510, 100, 1000, 1000));
        assert!(
            (found.mean - 358.571_428_571).abs() < 1e-6 && (found.stddev - 305.582_971_353).abs() < 1e-6,
            "{found:?}"
        );
        assert!((found.median - 330.0).abs() < 1e-9);
        let [mut one, mut two] = [Durations::default(), Durations::default()];
        [400, 100, 330].into_iter().for_each(|d| one.add(d));
        [250, 100, 1000, 330].into_iter().for_each(|d| two.add(d));
        one.merge(two);
        one.merge(Durations::default());
        assert_eq!(one.statistics(), found);
        some.add(0);
        assert!((some.statistics().median - 290.0).abs() < 1e-9);
        assert_eq!(Durations::default().statistics(), Statistics::default());
    }

    #[test]
    fn values_that_come_in_any_order_and_in_many_batches_are_all_there() {
        let mut many = Durations::default();
        let count = 5 * BATCH as u64 + 3;
        (0..count).for_each(|i| many.add(i * 7919 % 1000));
        let values: Vec<(u64, u64)> = many.values().collect();
        assert_eq!(values.len(), 1000);
        assert!(values.is_sorted() && values.iter().map(|(_, n)| n).sum::<u64>() == count);
    }
}
