//! The probability that one of two groups of runs has the larger scores by chance.
//!
//! If both groups run the same kernel, each choice of `m` out of `n + m` runs is equally likely. So the probability can be counted
//! exactly, for every kind and distribution of scores. It holds for the whole dispatch, however many elements a score covers.

/// The probability that `m` runs that are drawn from all have a sum of ranks that is as large as that of `other`. Runs of
/// the same score share the mean of their ranks (the exact Wilcoxon-Mann-Whitney test of one side, with ties).
pub fn of_ranks(own: &[f64], other: &[f64]) -> f64 {
    let (m, n) = (other.len(), own.len() + other.len());
    let mut all: Vec<(f64, bool)> = own.iter().map(|s| (*s, false)).chain(other.iter().map(|s| (*s, true))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Twice the ranks, since the mean of two of them may be a half.
    let mut ranks: Vec<usize> = Vec::with_capacity(n);
    let mut observed = 0;
    for tied in all.chunk_by(|a, b| a.0.total_cmp(&b.0).is_eq()) {
        let rank = 2 * ranks.len() + tied.len() + 1;
        observed += rank * tied.iter().filter(|(_, is_other)| *is_other).count();
        ranks.extend(std::iter::repeat_n(rank, tied.len()));
    }
    // How many ways there are to draw so many runs with such a sum.
    let most = ranks.iter().rev().take(m).sum::<usize>();
    let mut ways = vec![vec![0.0f64; most + 1]; m + 1];
    if let Some(none) = ways.first_mut().and_then(|of_none| of_none.first_mut()) {
        *none = 1.0;
    }
    for rank in ranks {
        for drawn in (1..=m).rev() {
            let (fewer, now) = ways.split_at_mut(drawn);
            let (Some(fewer), Some(now)) = (fewer.last(), now.first_mut()) else { continue };
            for (to, from) in now.iter_mut().skip(rank).zip(fewer.iter()) {
                *to += from;
            }
        }
    }
    let Some(of_m) = ways.last() else { return 1.0 };
    let as_large: f64 = of_m.iter().skip(observed).sum();
    as_large / of_m.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By going through all ways.
    fn counted(own: &[f64], other: &[f64]) -> f64 {
        let all = [own, other].concat();
        let rank = |s: f64| {
            let below = all.iter().filter(|x| **x < s).count() as f64;
            below + (all.iter().filter(|x| **x == s).count() as f64 + 1.0) / 2.0
        };
        let ranks: Vec<f64> = all.iter().map(|s| rank(*s)).collect();
        let observed: f64 = ranks[own.len()..].iter().sum();
        let (mut as_large, mut total) = (0, 0);
        for drawn in (0u32..1 << all.len()).filter(|d| d.count_ones() as usize == other.len()) {
            let sum: f64 = ranks.iter().enumerate().filter(|(n, _)| drawn >> n & 1 == 1).map(|(_, r)| r).sum();
            total += 1;
            as_large += u32::from(sum >= observed - 1e-9);
        }
        f64::from(as_large) / f64::from(total)
    }

    #[test]
    fn the_probability_is_that_of_all_ways_to_draw_the_runs() {
        let infinite = f64::INFINITY;
        let groups: [(&[f64], &[f64]); 6] = [
            (&[1.0, 2.0, 3.0], &[4.0, 5.0]),
            (&[0.0; 5], &[0.0; 4]),
            (&[0.0, 0.0, 0.0, 1.0], &[0.0, 2.0, 2.0]),
            (&[5.0, 1.0, 3.0, 3.0], &[3.0, 0.0, 7.0, 3.0]),
            (&[infinite, 1.0, 2.0], &[infinite, infinite]),
            (&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0]),
        ];
        for (own, other) in groups {
            let (found, expected) = (of_ranks(own, other), counted(own, other));
            assert!((found - expected).abs() < 1e-12, "{own:?} {other:?}: {found} {expected}");
        }
        assert_eq!(of_ranks(&[0.0; 8], &[1.0; 8]), 1.0 / 12_870.0);
    }
}
