//! Whether durations have one middle or two: Hartigan's dip test.
//!
//! The dip is how far the samples' distribution is, at the least, from every one with a single mode. Of skewed ones it is as
//! small as of symmetric ones, and a few outliers hardly change it. It is compared with the dips of as many samples of a
//! uniform distribution, which has the largest of all with a single mode.
//!
//! Source: J. A. Hartigan and P. M. Hartigan, "The Dip Test of Unimodality", Annals of Statistics 13 (1985).

use super::{Random, Sorted};

/// Fewer samples are never called bimodal.
const LEAST: usize = 10;
/// Of more samples, so many evenly spaced ones are looked at: their dip is not larger by chance.
const MOST: usize = 500;
/// How many uniform samples the dip is compared with, and how many of them may have one as large: 1 %.
const DRAWN: usize = 1000;
const AS_LARGE: usize = 10;
/// Any number; always the same, so that answers are.
const SEED: u64 = 0x0064_6970;
/// By how much of the median the middle 80 % have to spread, so that two middles matter.
const SPREAD: f64 = 0.05;

/// True when durations have two middles, so that their median says little: the dip test's p is below 1 %, the middle 80 %
/// spread over more than 5 % of the median, and there are ten at least.
pub(crate) fn is_bimodal(durations: &[u64]) -> bool {
    let sorted = Sorted::of(durations);
    let n = sorted.0.len();
    if n < LEAST || !spreads(&sorted).unwrap_or(false) {
        return false;
    }
    let kept: Vec<f64> = match n <= MOST {
        true => sorted.0.iter().map(|d| *d as f64).collect(),
        false => (0..MOST).filter_map(|i| sorted.rank(i * (n - 1) / (MOST - 1))).map(|d| d as f64).collect(),
    };
    let found = of_sorted(&kept);
    let mut random = Random::new(SEED);
    let mut uniform = vec![0.0; kept.len()];
    let mut as_large = 0;
    for _ in 0..DRAWN {
        uniform.iter_mut().for_each(|x| *x = random.unit());
        uniform.sort_unstable_by(f64::total_cmp);
        as_large += usize::from(of_sorted(&uniform) >= found);
        if as_large >= AS_LARGE {
            return false;
        }
    }
    true
}

fn spreads(sorted: &Sorted) -> Option<bool> {
    let n = sorted.0.len();
    let [low, high] = [n / 10, n - 1 - n / 10].map(|rank| sorted.rank(rank));
    Some((high? - low?) as f64 > SPREAD * sorted.median()?)
}

/// A sample: where it is, and how many there are up to it.
#[derive(Clone, Copy)]
struct Point {
    x: f64,
    rank: f64,
}

/// The distribution is followed from both ends towards its steepest part: below that by its greatest convex minorant, above
/// by its least concave majorant. Ranks are counted; a step of the distribution is 1.
fn of_sorted(samples: &[f64]) -> f64 {
    let points: Vec<Point> = samples.iter().enumerate().map(|(i, x)| Point { x: *x, rank: i as f64 }).collect();
    let mut part = points.as_slice();
    let mut dip: f64 = if samples.is_empty() { 0.0 } else { 1.0 };
    loop {
        let (minorant, majorant) = (hull(part, 1.0), hull(part, -1.0));
        // Where the two are farthest apart, and the knots of both around that.
        let mut widest = (0.0, part.len(), part.len());
        for knot in &minorant {
            let distance = height(&majorant, *knot) - knot.rank + 1.0;
            if distance > widest.0
                && let Some(next) = majorant.iter().find(|other| other.rank >= knot.rank)
            {
                widest = (distance, knot.rank as usize, next.rank as usize);
            }
        }
        for knot in &majorant {
            let distance = knot.rank - height(&minorant, *knot) + 1.0;
            if distance > widest.0
                && let Some(last) = minorant.iter().rev().find(|other| other.rank <= knot.rank)
            {
                widest = (distance, last.rank as usize, knot.rank as usize);
            }
        }
        let (distance, low, high) = widest;
        if distance <= dip {
            break;
        }
        // How far the distribution is from either where they are left.
        for point in part.iter().filter(|p| p.rank <= low as f64) {
            dip = dip.max(point.rank - height(&minorant, *point) + 1.0);
        }
        for point in part.iter().filter(|p| p.rank >= high as f64) {
            dip = dip.max(height(&majorant, *point) - point.rank + 1.0);
        }
        match points.get(low..=high) {
            Some(inner) if inner.len() < part.len() => part = inner,
            _ => break,
        }
    }
    dip / (2 * samples.len().max(1)) as f64
}

/// The corners of the convex hull's lower side, or with -1 of its upper side.
fn hull(points: &[Point], side: f64) -> Vec<Point> {
    let mut corners: Vec<Point> = Vec::new();
    for point in points {
        while let [.., a, b] = corners.as_slice() {
            let turn = (b.x - a.x) * (point.rank - a.rank) - (point.x - a.x) * (b.rank - a.rank);
            if side * turn > 0.0 {
                break;
            }
            corners.pop();
        }
        corners.push(*point);
    }
    corners
}

/// Of a hull's side at a point of it or between two.
fn height(corners: &[Point], at: Point) -> f64 {
    let next = corners.partition_point(|corner| corner.rank < at.rank);
    match (next.checked_sub(1).and_then(|last| corners.get(last)), corners.get(next)) {
        (Some(a), Some(b)) if b.x > a.x => a.rank + (b.rank - a.rank) * (at.x - a.x) / (b.x - a.x),
        (_, Some(corner)) | (Some(corner), None) => corner.rank,
        (None, None) => at.rank,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dip of samples in any order: from 1/(2n) to 1/4; 0 of none.
    fn dip(samples: &[u64]) -> f64 {
        of_sorted(&Sorted::of(samples).0.iter().map(|d| *d as f64).collect::<Vec<_>>())
    }

    #[test]
    fn dips_are_those_of_the_package_diptest() {
        // import numpy as np, diptest; diptest.dipstat(np.sort(np.array(x, dtype=float)))
        let of = |n: u64, f: fn(u64) -> u64| dip(&(0..n).map(f).collect::<Vec<_>>());
        let cases = [
            (of(20, |i| (i * 7919 + 13) % 997 + 1000), 0.03731596828992072),
            (of(10, |i| if i < 5 { 100 } else { 200 }), 0.25),
            (of(30, |i| i * i), 0.016666666666666666),
            (of(50, |i| i * i % 101), 0.05111111111111111),
            (of(40, |i| i * i * i % 7), 0.2),
            (of(60, |i| (((i as f64).cos() * 1000.0) as i64 + 2000) as u64), 0.07439211181313422),
            (of(200, |i| (i * 2654435761 % (1 << 32)) >> 20), 0.005001619170984455),
            (of(40, |i| i * 37 % 50 + if i % 3 == 0 { 300 } else { 0 }), 0.14651162790697675),
            (of(41, |i| i * 37 % 50 + 400 * (i % 3)), 0.14997276523633724),
            (of(32, |i| if i < 30 { 1000 + i * 37 % 50 } else { 9000 + 500 * (i - 30) }), 0.03365384615384615),
        ];
        for (number, (found, expected)) in cases.into_iter().enumerate() {
            assert!((found - expected).abs() < 1e-12, "{number}: {found} {expected}");
        }
        assert_eq!((dip(&[]), dip(&[5]), dip(&[5; 10])), (0.0, 0.5, 0.05));
    }

    /// A normal distribution, as far as twelve uniform ones make one.
    fn normal(random: &mut Random, mean: f64, deviation: f64) -> u64 {
        (mean + deviation * ((0..12).map(|_| random.unit()).sum::<f64>() - 6.0)) as u64
    }

    /// Of 20 times `n` samples, how often they are called bimodal.
    fn flagged(n: usize, sample: impl Fn(&mut Random, usize) -> u64) -> usize {
        let mut random = Random::new(n as u64);
        (0..20).filter(|_| is_bimodal(&(0..n).map(|i| sample(&mut random, i)).collect::<Vec<_>>())).count()
    }

    #[test]
    fn one_middle_is_one_however_skewed_and_whatever_lies_far_out() {
        for n in [10, 20, 60] {
            assert!(flagged(n, |r, _| normal(r, 1e5, 2e4)) <= 1);
            assert!(flagged(n, |r, _| (1e5 - 5e4 * (1.0 - r.unit()).ln()) as u64) <= 1, "exponential");
            assert!(flagged(n, |r, i| if i % 10 == 0 { 900_000 } else { normal(r, 1e5, 1e3) }) <= 1, "outliers");
        }
    }

    #[test]
    fn two_middles_are_found_when_each_has_enough() {
        for n in [20, 60] {
            assert_eq!(flagged(n, |r, i| normal(r, if i % 2 == 0 { 1e5 } else { 1.5e5 }, 3e3)), 20, "{n}");
        }
        assert_eq!(flagged(60, |r, i| normal(r, if i % 4 == 0 { 1e5 } else { 1.5e5 }, 3e3)), 20);
    }

    #[test]
    fn of_very_many_samples_evenly_spaced_ones_are_enough() {
        let mut random = Random::new(3);
        let mut of = |apart: f64| {
            is_bimodal(&(0..5000).map(|i| normal(&mut random, 1e5 + f64::from(i % 2) * apart, 5e3)).collect::<Vec<_>>())
        };
        assert!(of(5e4) && !of(0.0));
    }

    #[test]
    fn a_handful_is_never_bimodal_and_neither_are_middles_that_nearly_agree() {
        assert!(!is_bimodal(&[1, 1, 1, 1, 9, 9, 9, 9, 9]));
        assert_eq!(flagged(40, |r, i| normal(r, if i % 2 == 0 { 1e5 } else { 1.02e5 }, 1e2)), 0);
    }
}
