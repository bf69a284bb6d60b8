//! Simulated kernels of random numbers: how often one fails when it replaces itself, and whether a wrong one fails.

use logdur_captured::verify::{Buffer, ComparedBytes, Comparison, Stored, Tolerance, Type};

use super::*;
use crate::stats::Random;

const START: u64 = 0x1000;
const EXACT: Tolerance = Tolerance { abs: None, rel: None, ulp: None };

/// What a kernel writes: of the number of its run in time, and of chance.
type Kernel = fn(u64, &mut Random) -> Vec<f32>;

/// A dispatch of kernels.
struct Simulated {
    own: Kernel,
    other: Kernel,
    buffer: Buffer,
    expected: Vec<u8>,
    random: Random,
    time: u64,
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

impl Simulated {
    fn new(own: Kernel, other: Kernel, element_type: Type, seed: u64) -> Simulated {
        let mut random = Random::new(seed);
        let expected = bytes(&own(0, &mut random));
        let end = START + expected.len() as u64;
        let buffer = Buffer { name: "out".to_owned(), start: START, end, element_type, tolerance: EXACT };
        Simulated { own, other, buffer, expected, random, time: 1000 }
    }

    fn run(&mut self, kernel: Kernel) -> Pages {
        self.time += 1;
        Pages::from([(START, bytes(&kernel(self.time, &mut self.random)).into())])
    }
}

fn left(runs: &[Pages]) -> Vec<&[u8]> {
    runs.iter().filter_map(|run| run.get(&START).map(|bytes| &**bytes)).collect()
}

impl Replays for Simulated {
    fn own(&mut self) -> Result<Pages> {
        Ok(self.run(self.own))
    }

    fn other(&mut self) -> Result<Pages> {
        Ok(self.run(self.other))
    }

    fn compare(&self, own: &[Pages], other: &[Pages], judged: Judged) -> Result<Vec<BufferReport>> {
        let before = vec![0xff; self.expected.len()];
        let mut comparison = Comparison::new(self.buffer.clone());
        let (own, other) = (left(own), left(other));
        comparison.take(&ComparedBytes {
            address: START,
            before: &before,
            expected: &self.expected,
            own: &own,
            other: &other,
            stored: Stored::Words(1),
        });
        Ok(vec![comparison.finish(judged)])
    }

    fn scores(&self, reference: &[Pages], runs: &[Pages]) -> Result<Vec<Score>> {
        let before = vec![0xff; self.expected.len()];
        let own = left(reference);
        let stored = Stored::Words(1);
        let piece =
            ComparedBytes { address: START, before: &before, expected: &self.expected, own: &own, other: &[], stored };
        let score = |value: &[u8]| {
            let mut score = Score::default();
            score.take(&self.buffer, &piece, value);
            score
        };
        Ok(left(runs).into_iter().map(score).collect())
    }
}

fn judged(own: Kernel, other: Kernel, element_type: Type, seed: u64) -> Overall {
    let mut replays = Simulated::new(own, other, element_type, seed);
    let plan = Plan { judged: Judged::Other, repetitions: 3, mask_limit: 0.5 };
    judge(&mut replays, &mut KernelRuns::default(), &mut KernelRuns::default(), &plan).unwrap().overall
}

fn fixed(_: u64, _: &mut Random) -> Vec<f32> {
    (0..64u16).map(f32::from).collect()
}

/// The first `count` of [`fixed`]'s are drawn.
fn with(count: usize, random: &mut Random, mut draw: impl FnMut(&mut Random) -> f32) -> Vec<f32> {
    let mut all = fixed(0, random);
    all.iter_mut().take(count).for_each(|value| *value = draw(random));
    all
}

/// Sums of numbers of different sizes, in whatever order they come.
fn sum(random: &mut Random) -> f32 {
    let mut terms: [f32; 12] = std::array::from_fn(|n| (n as f32 + 0.1) * 10f32.powi(n as i32 % 5));
    for n in (1..terms.len()).rev() {
        terms.swap(n, random.below(n as u64 + 1) as usize);
    }
    terms.iter().sum()
}

fn sums(_: u64, random: &mut Random) -> Vec<f32> {
    with(16, random, sum)
}

fn many_sums(_: u64, random: &mut Random) -> Vec<f32> {
    (0..300).map(|_| sum(random)).collect()
}

fn seldom(_: u64, random: &mut Random) -> Vec<f32> {
    with(64, random, |random| if random.below(100) == 0 { 2.0 } else { 1.0 })
}

fn very_seldom(_: u64, random: &mut Random) -> Vec<f32> {
    with(64, random, |random| if random.below(2000) == 0 { 2.0 } else { 1.0 })
}

fn heavy_tails(_: u64, random: &mut Random) -> Vec<f32> {
    with(20, random, |random| ((random.unit() - 0.5) * std::f64::consts::PI).tan() as f32)
}

fn either(_: u64, random: &mut Random) -> Vec<f32> {
    with(20, random, |random| random.below(2) as f32)
}

/// Everything at once is another, every fifth time.
fn together(_: u64, random: &mut Random) -> Vec<f32> {
    let other = random.below(5) == 0;
    with(30, random, |_| if other { 7.0 } else { 8.0 })
}

fn clock(time: u64, random: &mut Random) -> Vec<f32> {
    with(8, random, |_| time as f32)
}

fn drawn(_: u64, random: &mut Random) -> Vec<f32> {
    with(30, random, |random| random.unit() as f32)
}

const KERNELS: [(&str, Kernel); 11] = [
    ("tickets", tickets),
    ("long clock", long_clock),
    ("sums", sums),
    ("many sums", many_sums),
    ("seldom", seldom),
    ("very seldom", very_seldom),
    ("heavy tails", heavy_tails),
    ("either", either),
    ("together", together),
    ("clock", clock),
    ("drawn", drawn),
];

fn count(short: u64, full: u64) -> u64 {
    if std::env::var_os("LOGDUR_TEST_FULL").is_some() { full } else { short }
}

#[test]
fn a_kernel_fails_in_its_own_place_by_chance_in_fewer_than_one_of_a_thousand_dispatches() {
    let dispatches = count(10, 3000);
    let mut failed = Vec::new();
    let mut total = 0.0;
    for (name, kernel) in KERNELS {
        for element_type in [Type::F32, Type::Bits(4)] {
            for seed in 0..dispatches {
                total += 1.0;
                let overall = judged(kernel, kernel, element_type, seed);
                if matches!(overall, Overall::Fail | Overall::NotReproduced) {
                    failed.push((name, element_type, seed, overall));
                }
            }
        }
    }
    // Of so many by chance no more, but once in ten thousand such tests.
    let expected: f64 = total * CHANCE;
    assert!((failed.len() as f64) < expected + 4.0 * expected.sqrt() + 1.0, "{} of {total}: {failed:?}", failed.len());
}

#[test]
fn a_deterministic_kernel_in_its_own_place_passes() {
    assert!((0..20).all(|seed| judged(fixed, fixed, Type::F32, seed) == Overall::Pass));
    let mut replays = Simulated::new(fixed, fixed, Type::F32, 1);
    let plan = Plan { judged: Judged::Other, repetitions: 3, mask_limit: 0.01 };
    let (mut own, mut other) = (KernelRuns::default(), KernelRuns::default());
    judge(&mut replays, &mut own, &mut other, &plan).unwrap();
    // The application's own first and last. What is the same is kept once.
    assert_eq!((own.runs.len(), other.runs.len(), own.bytes, other.bytes), (4, 3, 256, 0));
}

#[test]
fn garbage_in_masked_elements_fails_whatever_the_application_computes_there() {
    fn garbage(time: u64, random: &mut Random) -> Vec<f32> {
        with(16, random, |random| random.unit() as f32 * 1e9 + time as f32)
    }
    fn one_of_them(_: u64, random: &mut Random) -> Vec<f32> {
        let mut all = sums(0, random);
        all[random.below(16) as usize] = -1e9;
        all
    }
    fn not_a_number(_: u64, random: &mut Random) -> Vec<f32> {
        let mut all = sums(0, random);
        all[3] = f32::NAN;
        all
    }
    fn nothing(_: u64, random: &mut Random) -> Vec<f32> {
        with(16, random, |_| 0.0)
    }
    for (name, kernel) in [("garbage", garbage as Kernel), ("one", one_of_them), ("NaN", not_a_number), ("0", nothing)]
    {
        for element_type in [Type::F32, Type::Bits(4)] {
            // Of bits, one value that is unseen among many that are is not much: it is not called a PASS.
            let least = if element_type == Type::Bits(4) && ["one", "NaN"].contains(&name) {
                Overall::Inconclusive
            } else {
                Overall::Fail
            };
            for seed in 0..10 {
                let overall = judged(sums, kernel, element_type, seed);
                assert!(overall == Overall::Fail || overall == least, "{name} {element_type} {seed}: {overall}");
            }
        }
    }
}

#[test]
fn a_kernel_that_is_sometimes_wrong_never_passes_once_it_was_seen() {
    fn half(_: u64, random: &mut Random) -> Vec<f32> {
        let wrong = random.below(2) == 0;
        with(1, random, |_| if wrong { 5.0 } else { 0.0 })
    }
    fn now_and_then(_: u64, random: &mut Random) -> Vec<f32> {
        let wrong = random.below(10) == 0;
        with(1, random, |_| if wrong { 5.0 } else { 0.0 })
    }
    let of_half = (0..20).map(|seed| judged(fixed, half, Type::F32, seed)).filter(|o| *o == Overall::Fail).count();
    assert!(of_half >= 14, "{of_half}");
    // Nine times of ten: it may not have been seen in three replays.
    let all: Vec<Overall> = (0..40).map(|seed| judged(fixed, now_and_then, Type::F32, seed)).collect();
    let seen = all.iter().filter(|overall| **overall != Overall::Pass).count();
    assert!((3..25).contains(&seen) && all.iter().all(|o| *o != Overall::NotReproduced), "{all:?}");
}

#[test]
fn a_recording_that_is_not_reproduced_is_told_whichever_kernel_is_judged() {
    fn other(_: u64, random: &mut Random) -> Vec<f32> {
        with(2, random, |_| 9.0)
    }
    let mut replays = Simulated::new(fixed, fixed, Type::F32, 1);
    replays.own = other;
    let plan = |judged| Plan { judged, repetitions: 3, mask_limit: 0.01 };
    let mut found = |judged| {
        let (mut own, mut other) = (KernelRuns::default(), KernelRuns::default());
        let judgement = judge(&mut replays, &mut own, &mut other, &plan(judged)).unwrap();
        (judgement.overall, judgement.buffers[0].verdict)
    };
    assert_eq!(found(Judged::Own), (Overall::Fail, Verdict::NotReproduced));
    assert_eq!(found(Judged::Other), (Overall::NotReproduced, Verdict::NotReproduced));
}

#[test]
fn more_than_the_limit_that_is_masked_is_inconclusive_and_less_qualifies() {
    let of = |mask_limit| {
        let mut replays = Simulated::new(sums, sums, Type::F32, 5);
        let plan = Plan { judged: Judged::Own, repetitions: 3, mask_limit };
        judge(&mut replays, &mut KernelRuns::default(), &mut KernelRuns::default(), &plan).unwrap()
    };
    let over = of(0.01);
    assert_eq!(over.overall, Overall::Inconclusive);
    assert!(over.qualified.iter().any(|line| line.contains("--tol") && line.contains("--mask-limit")), "{over:?}");
    let under = of(0.5);
    assert_eq!(under.overall, Overall::Pass);
    assert!(under.qualified[0].contains("of 256 written bytes are masked"), "{:?}", under.qualified);
}

/// Tickets of which some came in one order in the recording, and come in another in every replay.
fn tickets(time: u64, random: &mut Random) -> Vec<f32> {
    let mut all = with(1, random, |random| random.below(2) as f32);
    if time == 0 {
        all.swap(40, 41);
    }
    all
}

/// The halves of a clock's value.
fn long_clock(time: u64, random: &mut Random) -> Vec<f32> {
    let mut all = with(1, random, |_| time as f32);
    all[1] = if time == 0 { 3.0 } else { 4.0 };
    all
}

#[test]
fn what_a_recording_has_by_chance_and_no_replay_repeats_fails_no_kernel_but_one_that_computes_something_else() {
    fn found(own: Kernel, other: Kernel, judged: Judged, element_type: Type, seed: u64) -> Judgement {
        let mut replays = Simulated::new(own, other, element_type, seed);
        let plan = Plan { judged, repetitions: 3, mask_limit: 0.5 };
        judge(&mut replays, &mut KernelRuns::default(), &mut KernelRuns::default(), &plan).unwrap()
    }
    for own in [tickets as Kernel, long_clock] {
        for element_type in [Type::F32, Type::Bits(4)] {
            for judged in [Judged::Own, Judged::Other] {
                let its_own = found(own, own, judged, element_type, 7);
                assert_eq!((its_own.overall, its_own.buffers[0].verdict), (Overall::Inconclusive, Verdict::Undecided));
                let said = its_own.qualified.iter().any(|line| line.contains("elements with each other and not with"));
                assert!(said, "{:?}", its_own.qualified);
            }
        }
    }
    // What the application got is as right as what the replays agree on.
    fn as_recorded(_: u64, random: &mut Random) -> Vec<f32> {
        tickets(0, random)
    }
    fn garbage_there(_: u64, random: &mut Random) -> Vec<f32> {
        let mut all = tickets(1, random);
        all[40] = 1e6;
        all
    }
    fn garbage_elsewhere(_: u64, random: &mut Random) -> Vec<f32> {
        let mut all = tickets(1, random);
        all[50] = 1e6;
        all
    }
    fn nothing(_: u64, random: &mut Random) -> Vec<f32> {
        with(64, random, |_| f32::from_bits(u32::MAX))
    }
    assert_eq!(found(tickets, as_recorded, Judged::Other, Type::F32, 3).overall, Overall::Inconclusive);
    for (kernel, verdict) in [
        (garbage_there as Kernel, Verdict::Mismatch),
        (garbage_elsewhere, Verdict::Mismatch),
        (nothing, Verdict::NothingWritten),
    ] {
        let failed = found(tickets, kernel, Judged::Other, Type::F32, 3);
        assert_eq!((failed.overall, failed.buffers[0].verdict), (Overall::Fail, verdict));
        assert!(failed.buffers[0].first.is_some());
    }
}
