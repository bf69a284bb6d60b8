//! Compares two measured alternately, pair by pair: a disturbance affects both of a pair.

use super::middle_of;

/// What pairs say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pairs {
    /// How many there are.
    pub count: usize,
    /// The median of the second by the first.
    pub ratio: f64,
    /// How likely a difference in signs at least this uneven is, if neither is shorter: see `sign_test`.
    pub p: f64,
}

/// Of pairs of durations; `None` when there is none whose first is not 0.
pub fn pairs(durations: &[(u64, u64)]) -> Option<Pairs> {
    let mut ratios: Vec<f64> = durations
        .iter()
        .filter(|(first, _)| *first != 0)
        .map(|(first, second)| *second as f64 / *first as f64)
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    Some(Pairs { count: durations.len(), ratio: middle_of(&ratios)?, p: sign_test(durations) })
}

/// The exact two-sided sign test: how likely it is, if each of both is shorter as often, that one of them is the shorter one
/// at least as often as here. Pairs of equals do not count; 1 when there are no others.
pub(crate) fn sign_test(durations: &[(u64, u64)]) -> f64 {
    let shorter = durations.iter().filter(|(first, second)| first < second).count();
    let longer = durations.iter().filter(|(first, second)| first > second).count();
    let n = (shorter + longer) as f64;
    // Sums binomial coefficients by 2ⁿ, as logarithms: a thousand pairs are too many for the powers themselves.
    let mut term = -n * std::f64::consts::LN_2;
    let mut sum = 0.0;
    for i in 0..=shorter.min(longer) {
        sum += term.exp();
        term += ((n - i as f64) / (i as f64 + 1.0)).ln();
    }
    (2.0 * sum).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs(shorter: usize, longer: usize, ties: usize) -> f64 {
        sign_test(&[vec![(1, 2); shorter], vec![(2, 1); longer], vec![(3, 3); ties]].concat())
    }

    #[test]
    fn p_values_are_those_of_scipy() {
        // from scipy.stats import binomtest; [binomtest(a, a + b).pvalue for a, b in cases]
        for (shorter, longer, p) in [
            (10, 0, 0.001953125),
            (8, 2, 0.109375),
            (3, 17, 0.0025768280029296875),
            (5, 5, 1.0),
            (5, 4, 1.0),
            (480, 620, 2.7131381093006878e-5),
            (900, 1100, 8.45708953550381e-6),
        ] {
            let found = signs(shorter, longer, 3);
            assert!((found / p - 1.0).abs() < 1e-9, "{shorter} {longer}: {found}");
        }
        assert_eq!(signs(0, 0, 5), 1.0);
    }

    #[test]
    fn the_ratio_of_pairs_is_not_moved_by_what_disturbs_both() {
        // Pairs drift by a factor of ten, the second is always half the first.
        let drifting: Vec<(u64, u64)> = (0..21).map(|i| (1000 + i * 450, 500 + i * 225)).collect();
        let found = pairs(&drifting).unwrap();
        assert_eq!((found.count, found.ratio), (21, 0.5));
        assert!(found.p < 1e-5);
        assert_eq!(pairs(&[]), None);
        assert_eq!(pairs(&[(0, 1)]), None);
    }
}
