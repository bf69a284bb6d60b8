//! Durations, whole: every different value with how often it occurred.

/// Values that are gathered before they are sorted in, at least.
const BATCH: usize = 1 << 14;

/// Durations in nanoseconds. GPUs count in ticks of 10 to 40 ns, so that the values of many dispatches are few.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    /// Different values in ascending order, and how often each occurred.
    sorted: Vec<(u64, u64)>,
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
        if self.batch.len() >= BATCH.max(self.sorted.len() / 2) {
            self.sort_in();
        }
    }

    fn sort_in(&mut self) {
        self.batch.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(self.sorted.len() + 64);
        let mut push = |value: u64, count: u64| match merged.last_mut() {
            Some((last, counted)) if *last == value => *counted += count,
            _ => merged.push((value, count)),
        };
        let mut old = self.sorted.iter().copied().peekable();
        for &value in &self.batch {
            while let Some((before, count)) = old.next_if(|(before, _)| *before <= value) {
                push(before, count);
            }
            push(value, 1);
        }
        old.for_each(|(value, count)| push(value, count));
        self.sorted = merged;
        self.batch.clear();
    }

    /// Every different value in ascending order, and how often it occurred.
    pub fn values(&mut self) -> &[(u64, u64)] {
        if !self.batch.is_empty() {
            self.sort_in();
        }
        &self.sorted
    }

    /// What they come to; zeroes if there are none.
    pub fn statistics(&mut self) -> Statistics {
        let values = self.values();
        let count: u64 = values.iter().map(|(_, n)| n).sum();
        let (Some(&(min, _)), Some(&(max, _))) = (values.first(), values.last()) else {
            return Statistics::default();
        };
        let total = values.iter().fold(0u64, |sum, (value, n)| sum.saturating_add(value.saturating_mul(*n)));
        let mean = total as f64 / count as f64;
        let squares: f64 = values.iter().map(|(value, n)| (*value as f64 - mean).powi(2) * *n as f64).sum();
        let stddev = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        let median = (at_rank(values, (count - 1) / 2) as f64 + at_rank(values, count / 2) as f64) / 2.0;
        let p95 = at_rank(values, (count * 95).div_ceil(100) - 1);
        Statistics { count, total, mean, median, min, max, p95, stddev }
    }
}

/// The value that `rank` others precede.
fn at_rank(values: &[(u64, u64)], rank: u64) -> u64 {
    let mut before = 0;
    let at = values.iter().find(|(_, count)| {
        before += count;
        before > rank
    });
    at.or(values.last()).map_or(0, |(value, _)| *value)
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
        some.add(0);
        assert!((some.statistics().median - 290.0).abs() < 1e-9);
        assert_eq!(Durations::default().statistics(), Statistics::default());
    }

    #[test]
    fn values_that_come_in_any_order_and_in_many_batches_are_all_there() {
        let mut many = Durations::default();
        let count = 5 * BATCH as u64 + 3;
        (0..count).for_each(|i| many.add(i * 7919 % 1000));
        let values = many.values();
        assert_eq!(values.len(), 1000);
        assert!(values.is_sorted() && values.iter().map(|(_, n)| n).sum::<u64>() == count);
    }
}
