//! A kernel and its replacement, compared by the durations of their dispatches.
//!
//! Medians, since durations have long tails. Each median's confidence interval comes from the ranks of the samples and
//! assumes nothing of their distribution; the ratio's is what the two allow together, so that it is wider than it would
//! have to be.

use std::collections::BTreeMap;

/// The most durations that are kept of each side of a comparison; of more, a random choice.
const MOST: usize = 1 << 16;

/// Standard deviations on both sides that hold 97.5 % of a normal distribution: two intervals hold together for 95 %.
const DEVIATIONS: f64 = 2.241_4;

/// The verdict of a comparison of times that are no hardware's.
pub(crate) const EMULATED: &str = "emulated time, no verdict";

/// Durations in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    kept: Vec<u64>,
    seen: u64,
    random: u64,
}

impl Samples {
    /// Adds a duration.
    pub fn add(&mut self, duration: u64) {
        self.seen += 1;
        if self.kept.len() < MOST {
            self.kept.push(duration);
            return;
        }
        // A linear congruential generator (Knuth's constants): what is kept only has to be independent of durations.
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let place = ((u128::from(self.random) * u128::from(self.seen)) >> 64) as usize;
        if let Some(old) = self.kept.get_mut(place) {
            *old = duration;
        }
    }

    /// Adds what others kept of their durations.
    pub fn merge(&mut self, other: &Samples) {
        other.kept.iter().for_each(|duration| self.add(*duration));
        self.seen += other.seen - other.kept.len() as u64;
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.seen
    }

    /// The median, and where it is with a confidence of 97.5 %, if there are enough.
    pub fn median(&self) -> Option<(f64, Option<(f64, f64)>)> {
        let mut sorted = self.kept.clone();
        sorted.sort_unstable();
        let n = sorted.len();
        let at = |i: usize| sorted.get(i).map(|&d| d as f64);
        let median = (at(n.checked_sub(1)? / 2)? + at(n / 2)?) / 2.0;
        let below = (n as f64 - DEVIATIONS * (n as f64).sqrt()) / 2.0;
        let interval = || {
            let rank = (below.floor() as usize).checked_sub(1).filter(|_| below >= 1.0)?;
            Some((at(rank)?, at(n - 1 - rank)?))
        };
        Some((median, interval()))
    }
}

/// The ratio of two medians, and where it is with a confidence of at least 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The two medians in nanoseconds.
    pub medians: [f64; 2],
    /// The second by the first.
    pub ratio: f64,
    /// Where the ratio is; `None` if there are too few durations to say.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    /// Of the medians of `second` and of `first`; `None` if one has no durations.
    pub fn of(first: &Samples, second: &Samples) -> Option<Ratio> {
        let ((one, one_within), (other, other_within)) = (first.median()?, second.median()?);
        let interval = one_within.zip(other_within).map(|(o, r)| (r.0 / o.1, r.1 / o.0));
        Some(Ratio {
            medians: [one, other],
            ratio: other / one,
            interval: interval.filter(|(low, high)| low.is_finite() && high.is_finite()),
        })
    }

    /// What follows from it.
    pub fn verdict(&self, emulated: bool) -> &'static str {
        match self.interval {
            _ if emulated => EMULATED,
            None => "too few dispatches",
            Some((_, high)) if high < 1.0 => "faster",
            Some((low, _)) if low > 1.0 => "slower",
            Some(_) => "no difference shown",
        }
    }
}

/// What was dispatched: work-items of the grid and of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// In x, y and z.
    pub grid: [u32; 3],
    /// In x, y and z.
    pub workgroup: [u16; 3],
}

/// Of which dispatches durations are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Subject {
    /// Demangled name of the kernel.
    pub kernel: String,
    /// Position of the agent.
    pub agent: usize,
    /// Its shape.
    pub shape: Shape,
}

/// Durations of kernels and of what replaced them.
#[derive(Debug, Default)]
pub struct Comparisons(BTreeMap<Subject, Sides>);

#[derive(Debug, Default)]
struct Sides {
    original: Samples,
    /// By hash.
    replaced: BTreeMap<String, Samples>,
}

/// How a kernel and one replacement compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Of what.
    pub subject: Subject,
    /// Short hash of the replacement.
    pub replaced: String,
    /// Dispatches of the original, and of the replacement.
    pub counts: [u64; 2],
    /// The replacement's durations by the original's.
    pub ratio: Ratio,
}

impl Comparisons {
    /// Adds the duration of a dispatch; `replaced` is the short hash of what ran in the kernel's place, or empty.
    pub fn add(&mut self, subject: Subject, replaced: &str, duration: u64) {
        let sides = self.0.entry(subject).or_default();
        if replaced.is_empty() {
            sides.original.add(duration);
        } else if let Some(samples) = sides.replaced.get_mut(replaced) {
            samples.add(duration);
        } else {
            sides.replaced.entry(replaced.to_owned()).or_default().add(duration);
        }
    }

    /// Every comparison of which both sides were dispatched.
    pub fn all(&self) -> Vec<Comparison> {
        let of = |subject: &Subject, sides: &Sides, hash: &String, samples: &Samples| {
            Some(Comparison {
                subject: subject.clone(),
                replaced: hash.clone(),
                counts: [sides.original.count(), samples.count()],
                ratio: Ratio::of(&sides.original, samples)?,
            })
        };
        let pairs = self.0.iter().flat_map(|(subject, sides)| sides.replaced.iter().map(move |r| (subject, sides, r)));
        pairs.filter_map(|(subject, sides, (hash, samples))| of(subject, sides, hash, samples)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject {
        Subject { kernel: "k".to_owned(), agent: 0, shape: Shape { grid: [64, 1, 1], workgroup: [64, 1, 1] } }
    }

    fn compared(original: impl Iterator<Item = u64>, replaced: impl Iterator<Item = u64>) -> Comparison {
        let mut all = Comparisons::default();
        original.for_each(|d| all.add(subject(), "", d));
        replaced.for_each(|d| all.add(subject(), "abc", d));
        all.all().remove(0)
    }

    #[test]
    fn a_replacement_that_takes_half_the_time_is_faster_and_the_ratio_says_by_how_much() {
        let half = compared((0..100).map(|i| 1000 + i), (0..50).map(|i| 500 + i));
        assert_eq!((half.counts, half.ratio.medians), ([100, 50], [1049.5, 524.5]));
        let (low, high) = half.ratio.interval.unwrap();
        assert!(
            low < half.ratio.ratio && half.ratio.ratio < high && (0.49..0.51).contains(&half.ratio.ratio),
            "{half:?}"
        );
        assert_eq!((half.ratio.verdict(false), half.ratio.verdict(true)), ("faster", "emulated time, no verdict"));
        let slower = compared((0..50).map(|i| 500 + i), (0..100).map(|i| 1000 + i));
        assert_eq!(slower.ratio.verdict(false), "slower");
    }

    #[test]
    fn samples_of_one_distribution_show_no_difference_and_a_handful_says_nothing() {
        let spread = |seed: u64| (0..200).map(move |i| 1000 + (i * 7919 + seed) % 500);
        assert_eq!(compared(spread(1), spread(5)).ratio.verdict(false), "no difference shown");
        let few = compared([10, 11, 12].into_iter(), [1, 2, 3].into_iter());
        assert_eq!((few.ratio.interval, few.ratio.verdict(false)), (None, "too few dispatches"));
    }

    #[test]
    fn only_kernels_of_which_both_sides_ran_are_compared() {
        let mut all = Comparisons::default();
        all.add(subject(), "", 5);
        assert_eq!(all.all(), []);
        all.add(subject(), "abc", 0);
        all.add(subject(), "def", 5);
        assert_eq!(all.all().iter().map(|c| c.replaced.as_str()).collect::<Vec<_>>(), ["abc", "def"]);
    }

    #[test]
    fn intervals_hold_the_true_ratio_at_least_as_often_as_they_say() {
        // Exponential durations: far from normal.
        let mut random = 1u64;
        let mut exponential = |mean: f64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (-mean * ((random >> 11) as f64 / (1u64 << 53) as f64 + 1e-18).ln()) as u64
        };
        let rounds = 1000;
        let held = (0..rounds).filter(|_| {
            let original: Vec<u64> = (0..40).map(|_| exponential(1e6)).collect();
            let replaced: Vec<u64> = (0..40).map(|_| exponential(8e5)).collect();
            let (low, high) = compared(original.into_iter(), replaced.into_iter()).ratio.interval.unwrap();
            low <= 0.8 && 0.8 <= high
        });
        assert!(held.count() >= rounds * 95 / 100);
    }

    #[test]
    fn of_very_many_durations_a_random_choice_is_kept() {
        let mut samples = Samples::default();
        (0..4 * MOST as u64).for_each(|d| samples.add(d));
        let (median, interval) = samples.median().unwrap();
        assert_eq!((samples.count(), samples.kept.len()), (4 * MOST as u64, MOST));
        assert!((median - 2.0 * MOST as f64).abs() < 0.05 * MOST as f64 && interval.is_some(), "{median}");
    }
}
