//! Statistics of durations: medians and their confidence, bimodality, and paired comparisons.
//!
//! Durations have long tails, so all statistics use ranks: medians, median deviations, sign tests. Random draws have a fixed seed: the
//! same durations always give the same numbers.
//!
//! This module gives the confidence of each number, and no number for too few samples. It never drops a sample, and never assumes that
//! durations are normally distributed.

mod bootstrap;
mod dip;
mod pairs;
mod random;

use serde::{Deserialize, Serialize};

pub use bootstrap::Ratio;
pub(crate) use bootstrap::ratio_of_medians;
pub(crate) use dip::is_bimodal;
pub use pairs::{Pairs, pairs};
pub(crate) use random::Random;

/// With fewer samples no interval between two of them holds the median with 95 %: all are on one side of it with a
/// probability of 2 · 2⁻ⁿ.
pub(crate) const LEAST_FOR_INTERVAL: usize = 6;

/// Durations, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How many there are.
    pub runs: usize,
    /// The shortest.
    pub min_ns: u64,
    /// The middle one, or the mean of the two in the middle.
    pub median_ns: f64,
    /// The median of their distances from the median, not scaled.
    pub mad_ns: f64,
    /// The shortest that at least 95 % are not longer than (nearest rank).
    pub p95_ns: u64,
    /// The mean.
    pub mean_ns: f64,
    /// Where the median is with a confidence of 95 %, see [`Summary::is_sure`].
    pub low_ns: f64,
    /// The other end of that.
    pub high_ns: f64,
    /// True when they have two middles: see `is_bimodal`.
    pub bimodal: bool,
}

impl Summary {
    /// Of durations in any order; `None` of none.
    pub fn of(durations: &[u64]) -> Option<Summary> {
        let sorted = Sorted::of(durations);
        let (low_ns, high_ns) = bootstrap::interval_of_median(&sorted)?;
        Some(Summary {
            runs: durations.len(),
            min_ns: sorted.rank(0)?,
            median_ns: sorted.median()?,
            mad_ns: mad(durations)?,
            p95_ns: sorted.rank((durations.len() * 95).div_ceil(100).saturating_sub(1))?,
            mean_ns: durations.iter().map(|d| *d as f64).sum::<f64>() / durations.len() as f64,
            low_ns,
            high_ns,
            bimodal: is_bimodal(durations),
        })
    }

    /// True when the interval holds what it promises; of fewer samples it is from the shortest to the longest at most.
    pub fn is_sure(&self) -> bool {
        self.runs >= LEAST_FOR_INTERVAL
    }

    /// Half the interval's width by the median: 0.01 says that the median is known to 1 %.
    pub(crate) fn relative_half_width(&self) -> f64 {
        match (self.high_ns - self.low_ns) / 2.0 {
            0.0 => 0.0,
            half => half / self.median_ns,
        }
    }

    /// True when the median is known at least as well as `target`, a relative half-width.
    pub(crate) fn is_as_sure_as(&self, target: f64) -> bool {
        self.is_sure() && self.relative_half_width() <= target
    }
}

/// The middle of durations; of an even number, the mean of the two in the middle.
pub fn median(durations: &[u64]) -> Option<f64> {
    Sorted::of(durations).median()
}

/// The median of the durations' distances from their median, not scaled.
pub fn mad(durations: &[u64]) -> Option<f64> {
    let middle = median(durations)?;
    let mut distances: Vec<f64> = durations.iter().map(|d| (*d as f64 - middle).abs()).collect();
    distances.sort_unstable_by(f64::total_cmp);
    middle_of(&distances)
}

/// The middle of sorted numbers.
fn middle_of(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let (below, above) = (sorted.get(n.checked_sub(1)? / 2)?, sorted.get(n / 2)?);
    Some((below + above) / 2.0)
}

/// Durations in order.
struct Sorted(Vec<u64>);

impl Sorted {
    fn of(durations: &[u64]) -> Sorted {
        let mut sorted = durations.to_vec();
        sorted.sort_unstable();
        Sorted(sorted)
    }

    fn rank(&self, rank: usize) -> Option<u64> {
        self.0.get(rank).copied()
    }

    fn median(&self) -> Option<f64> {
        let n = self.0.len();
        Some((self.rank(n.checked_sub(1)? / 2)? as f64 + self.rank(n / 2)? as f64) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// python3 -c "print([(i * 7919 + 13) % 997 + 1000 for i in range(20)])"
    const TWENTY: [u64; 20] = [
        1013, 1953, 1896, 1839, 1782, 1725, 1668, 1611, 1554, 1497, 1440, 1383, 1326, 1269, 1212, 1155, 1098, 1041,
        1981, 1924,
    ];

    #[test]
    fn numbers_are_those_of_numpy() {
        // import numpy as np; x = np.array([(i * 7919 + 13) % 997 + 1000 for i in range(20)])
        // x.min(), np.median(x), np.median(abs(x - np.median(x))), np.percentile(x, 95, method='inverted_cdf'), x.mean()
        let s = Summary::of(&TWENTY).unwrap();
        assert_eq!((s.runs, s.min_ns, s.p95_ns), (20, 1013, 1953));
        assert_eq!((s.median_ns, s.mad_ns, s.mean_ns), (1525.5, 285.0, 1518.35));
    }

    #[test]
    fn of_one_sample_everything_is_that_and_nothing_is_sure() {
        let s = Summary::of(&[7]).unwrap();
        assert_eq!(
            (s.min_ns, s.median_ns, s.mad_ns, s.p95_ns, s.mean_ns, s.low_ns, s.high_ns),
            (7, 7., 0., 7, 7., 7., 7.)
        );
        assert!(!s.is_sure() && !s.is_as_sure_as(1.0) && !s.bimodal);
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn a_median_is_as_sure_as_asked_when_enough_samples_are_close() {
        let close: Vec<u64> = (0..9).map(|i| 1000 + i).collect();
        let s = Summary::of(&close).unwrap();
        assert!(s.is_as_sure_as(0.01) && !s.is_as_sure_as(0.0001), "{}", s.relative_half_width());
        assert!(!Summary::of(&close[..5]).unwrap().is_as_sure_as(0.01));
        assert_eq!(Summary::of(&[0; 9]).unwrap().relative_half_width(), 0.0);
    }

    #[test]
    fn a_summary_is_the_same_after_json() {
        let s = Summary::of(&TWENTY).unwrap();
        assert_eq!(serde_json::from_str::<Summary>(&serde_json::to_string(&s).unwrap()).unwrap(), s);
    }
}
