//! How sure a median is, by drawing from the samples again and again (Efron's bootstrap, percentile method).

use super::{Random, Sorted};

/// How often is drawn.
pub(crate) const RESAMPLES: usize = 1000;

/// Any number; always the same, so that numbers are.
const SEED: u64 = 0x6c6f_6764_7572;

/// Ranks, among [`RESAMPLES`] sorted medians, of the ends of 95 %.
const ENDS: [usize; 2] = [RESAMPLES * 25 / 1000 - 1, RESAMPLES * 975 / 1000 - 1];

/// One median by another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The ratio.
    pub value: f64,
    /// Where it is with a confidence of 95 %.
    pub low: f64,
    /// The other end of that.
    pub high: f64,
}

/// Where the median is with a confidence of 95 %.
pub(super) fn interval_of_median(sorted: &Sorted) -> Option<(f64, f64)> {
    let mut random = Random::new(SEED);
    let mut drawn = Vec::new();
    ends((0..RESAMPLES).map(|_| resampled(sorted, &mut random, &mut drawn)).collect())
}

/// The median of durations by the median of others; `None` when there are none, or it is not finite.
pub(crate) fn ratio_of_medians(durations: &[u64], of: &[u64]) -> Option<Ratio> {
    let (above, below) = (Sorted::of(durations), Sorted::of(of));
    let mut random = Random::new(SEED);
    let mut drawn = Vec::new();
    let mut ratio = || Some(resampled(&above, &mut random, &mut drawn)? / resampled(&below, &mut random, &mut drawn)?);
    let (low, high) = ends((0..RESAMPLES).map(|_| ratio()).collect())?;
    let ratio = Ratio { value: above.median()? / below.median()?, low, high };
    [ratio.value, low, high].iter().all(|number| number.is_finite()).then_some(ratio)
}

/// The median of as many samples as there are, drawn with replacement. Ranks are drawn, since samples are sorted.
fn resampled(sorted: &Sorted, random: &mut Random, ranks: &mut Vec<usize>) -> Option<f64> {
    let n = sorted.0.len();
    ranks.clear();
    ranks.extend((0..n).map(|_| random.below(n as u64) as usize));
    if n == 0 {
        return None;
    }
    let (below, middle, _) = ranks.select_nth_unstable(n / 2);
    let high = sorted.rank(*middle)? as f64;
    if n % 2 == 1 {
        return Some(high);
    }
    let low = sorted.rank(below.iter().copied().max()?)? as f64;
    Some((low + high) / 2.0)
}

fn ends(medians: Option<Vec<f64>>) -> Option<(f64, f64)> {
    let mut medians = medians?;
    medians.sort_unstable_by(f64::total_cmp);
    let [low, high] = ENDS.map(|rank| medians.get(rank).copied());
    Some((low?, high?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(durations: &[u64]) -> (f64, f64) {
        interval_of_median(&Sorted::of(durations)).unwrap()
    }

    #[test]
    fn ends_are_the_ranks_that_the_bootstraps_exact_distribution_has() {
        // The median of n = 2m + 1 draws from n sorted samples is at most the k-th when at least m + 1 draws are.
        // from scipy.stats import binom; import numpy as np
        // for n in (15, 31, 101):
        //     cdf = binom.sf(n // 2, n, np.arange(1, n + 1) / n)
        //     print(n, np.searchsorted(cdf, .025) + 1, np.searchsorted(cdf, .975) + 1)
        for (n, low, high) in [(15, 4.0, 12.0), (31, 11.0, 21.0), (101, 41.0, 61.0)] {
            let ranks: Vec<u64> = (1..=n).collect();
            let (l, h) = interval(&ranks);
            // A thousand draws may miss a rank.
            assert!((l - low).abs() <= 1.0 && (h - high).abs() <= 1.0, "{n}: {l} {h}");
            assert_eq!((l, h), interval(&ranks));
        }
    }

    #[test]
    fn a_ratio_of_medians_lies_in_its_interval_and_that_of_the_same_samples_holds_one() {
        let slow: Vec<u64> = (0..40).map(|i| 1000 + i * 7 % 40).collect();
        let fast: Vec<u64> = slow.iter().map(|d| d / 2).collect();
        let half = ratio_of_medians(&fast, &slow).unwrap();
        assert!(half.low <= half.value && half.value <= half.high, "{half:?}");
        assert!(0.49 < half.low && half.high < 0.51, "{half:?}");
        let same = ratio_of_medians(&slow, &slow).unwrap();
        assert!(same.value == 1.0 && same.low < 1.0 && same.high > 1.0, "{same:?}");
    }

    #[test]
    fn a_ratio_to_nothing_is_none() {
        assert_eq!(ratio_of_medians(&[1, 2], &[]), None);
        assert_eq!(ratio_of_medians(&[1, 2], &[0, 0]), None);
        assert_eq!(ratio_of_medians(&[], &[1]), None);
    }

    #[test]
    fn intervals_hold_the_true_median_about_as_often_as_they_say() {
        // Exponential durations: far from normal. Their median is ln 2 of the mean.
        let mut random = Random::new(7);
        let mut exponential = || (-1e6 * (1.0 - random.unit()).ln()) as u64;
        let rounds = 300;
        let held = (0..rounds).filter(|_| {
            let (low, high) = interval(&(0..25).map(|_| exponential()).collect::<Vec<_>>());
            let median = 1e6 * std::f64::consts::LN_2;
            low <= median && median <= high
        });
        assert!(held.count() >= rounds * 91 / 100);
    }
}
