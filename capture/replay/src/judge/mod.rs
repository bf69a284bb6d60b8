//! Decides from replays whether a kernel computes the same as the application's own kernel.
//!
//! Replays of the application's kernel and of the judged kernel alternate, and the application's kernel runs first and last: a drift
//! affects both. Elements in which replays of the application's kernel differ are masked. A kernel passes if its replays leave the
//! application's values, within the tolerance, and in masked elements values that the application's kernel was seen to compute
//! ([`RULE`]).
//!
//! If it does not pass, more replays of both kernels tell whether that is chance. The score of a replay is how many of its values are
//! outside of those that the first replays of the application's kernel computed, and how far. A kernel fails if its scores are larger
//! with a probability of chance below [`CHANCE`], counted exactly ([`chance::of_ranks`]). There are two scores at each of three sizes.
//! So of 1,000 dispatches whose kernel is replaced by itself at most one fails, for every distribution and number of values. Without
//! such a decision, the result is inconclusive.
//!
//! All replays of the application's kernel may agree on a value that the recording does not have. If they agree on all values, that
//! kernel is not reproduced. If they differ anywhere, chance may have made the recorded value, and the result is inconclusive. The
//! judged kernel fails there by its scores only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use logdur_captured::verify::{Buffer, BufferReport, Judged, Mask, Overall, Score, Verdict, chance};

use crate::error::Result;
use crate::placed::Pages;

/// How masked values are judged, in words.
const RULE: &str = "a masked value has to be one that the application's kernel computed, or, of numbers, no further outside of the \
                        smallest and largest of these than they are apart, and the tolerance; fewer than 1 of 1000 dispatches fails by \
                        chance";

/// The accepted probability that a dispatch fails by chance.
const CHANCE: f64 = 0.001;
/// How many replays of each kernel are scored, one time after the other until it is decided. As many of the application's own
/// before them are what they are compared with, but for the first time: then one is.
const SIZES: [usize; 3] = [8, 16, 32];
/// The probability that is enough at one size, for one of two scores.
const ENOUGH: f64 = CHANCE / (2.0 * SIZES.len() as f64);
/// Replays of the application's own kernel before it is said that it does not do again what it did, where no two of them
/// differ in a way that could explain it.
const AGREEING: usize = 256;
/// For so long they are made, after the first.
const SHORTLY: Duration = Duration::from_secs(2);
/// For so long it is tried to decide.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most bytes of results that are kept. Beyond it, no more replays are made.
const KEPT: usize = 2 << 30;
/// Names of buffers that are given at most.
const SHOWN: usize = 3;

/// Replays kernels, and compares the memory that they leave.
pub(crate) trait Replays {
    /// Replays the application's own kernel.
    ///
    /// # Errors
    /// What a replay ends with.
    fn own(&mut self) -> Result<Pages>;

    /// Replays the kernel that is judged in its place.
    ///
    /// # Errors
    /// As for [`own`](Replays::own).
    fn other(&mut self) -> Result<Pages>;

    /// Compares what they left with what the application's dispatch left.
    ///
    /// # Errors
    /// When the capture is damaged.
    fn compare(&self, own: &[Pages], other: &[Pages], judged: Judged) -> Result<Vec<BufferReport>>;

    /// Compares each of `runs` with what `reference` left.
    ///
    /// # Errors
    /// As for [`compare`](Replays::compare).
    fn scores(&self, reference: &[Pages], runs: &[Pages]) -> Result<Vec<Score>>;
}

/// What replays of a kernel left. Pages that are as the first one left them are kept once.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelRuns {
    pub(crate) runs: Vec<Pages>,
    bytes: usize,
}

impl KernelRuns {
    /// Adds what a run left, like that of the first or of another kernel.
    pub(crate) fn push(&mut self, mut pages: Pages, like: Option<&Pages>) {
        for (page, bytes) in &mut pages {
            match like.or(self.runs.first()).and_then(|first| first.get(page)) {
                Some(same) if same == bytes => *bytes = Arc::clone(same),
                _ => self.bytes += bytes.len(),
            }
        }
        self.runs.push(pages);
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Whose kernel is judged.
    pub(crate) judged: Judged,
    /// Replays of it, at least.
    pub(crate) repetitions: usize,
    /// The share of what is written that may be masked.
    pub(crate) mask_limit: f64,
}

/// What was found.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    pub(crate) overall: Overall,
    pub(crate) buffers: Vec<BufferReport>,
    /// Why a PASS says less than it could, or why nothing can be said; one line each.
    pub(crate) qualified: Vec<String>,
}

/// Judges a kernel. `own` are replays of the application's own that were made before; there are more afterwards.
///
/// # Errors
/// What a replay ends with; when the capture is damaged.
pub(crate) fn judge(
    replays: &mut impl Replays,
    own: &mut KernelRuns,
    other: &mut KernelRuns,
    plan: &Plan,
) -> Result<Judgement> {
    let mut bench = PairedReplays { replays, own, other, plan };
    match plan.judged {
        Judged::Own => bench.more(plan.repetitions, 0)?,
        Judged::Other => bench.more(plan.repetitions + 1, plan.repetitions)?,
    }
    let start = Instant::now();
    for size in SIZES {
        let reports = bench.compare()?;
        let found = Differences::of(&reports, plan);
        if !found.wrong {
            return Ok(bench.ended(reports));
        }
        // What is masked beyond the limit cannot pass any more: a little longer, it may fail.
        let is_worth_it = start.elapsed() < PATIENCE && (!found.is_over || size <= SIZES[1]);
        if !bench.has_room() || size != SIZES[0] && !is_worth_it {
            break;
        }
        if found.unreproduced > 0 && !bench.varies(size)? {
            return Ok(bench.ended(bench.compare()?));
        }
        if plan.judged == Judged::Other {
            bench.more(compared_with(size) + size + 1, size)?;
            if bench.is_other(size)? {
                let reports = bench.compare()?.into_iter().map(BufferReport::of_another).collect();
                return Ok(bench.ended(reports));
            }
        }
    }
    let reports = bench.compare()?;
    let found = Differences::of(&reports, plan);
    Ok(bench.undecided(reports, &found))
}

/// How many replays of the application's own kernel the others are compared with.
fn compared_with(size: usize) -> usize {
    if size == SIZES[0] { 1 } else { size / 2 }
}

/// What reports say, in short.
struct Differences {
    /// Elements in which the application's kernel does not do again what it did.
    unreproduced: u64,
    /// The results differ.
    wrong: bool,
    /// More is masked than the limit allows.
    is_over: bool,
}

impl Differences {
    fn of(reports: &[BufferReport], plan: &Plan) -> Differences {
        let failing = || reports.iter().filter(|report| report.verdict.is_failure());
        let unreproduced = |report: &BufferReport| match plan.judged {
            Judged::Own => report.mismatches + report.outside,
            Judged::Other => report.unreproduced,
        };
        Differences {
            unreproduced: failing().map(unreproduced).sum(),
            wrong: failing().next().is_some(),
            is_over: Mask::of(reports).share() > plan.mask_limit,
        }
    }
}

struct PairedReplays<'a, R> {
    replays: &'a mut R,
    own: &'a mut KernelRuns,
    other: &'a mut KernelRuns,
    plan: &'a Plan,
}

impl<R: Replays> PairedReplays<'_, R> {
    /// Alternates replays of both kernels up to this number; the application's own is last.
    fn more(&mut self, own: usize, other: usize) -> Result<()> {
        while self.own.runs.len() < own || self.other.runs.len() < other {
            // As many of its own are ahead as there are going to be more of them.
            let ahead = self.own.runs.len() > self.other.runs.len() || self.own.runs.len() >= own;
            if ahead && self.other.runs.len() < other {
                let pages = self.replays.other()?;
                self.other.push(pages, self.own.runs.first());
            } else {
                let pages = self.replays.own()?;
                self.own.push(pages, None);
            }
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.own.bytes + self.other.bytes < KEPT
    }

    fn compare(&self) -> Result<Vec<BufferReport>> {
        self.replays.compare(&self.own.runs, &self.other.runs, self.plan.judged)
    }

    /// True when replays of the application's own kernel differ from each other anywhere. Where they agree, another value in
    /// the recording proves nothing then: tickets that waves draw may come in one order in every replay, and in another while the
    /// machine was busy; of a clock's value, the upper half.
    fn varies(&mut self, size: usize) -> Result<bool> {
        let (start, mut replays) = (Instant::now(), compared_with(size) + size);
        loop {
            self.more(replays, 0)?;
            let mut runs = self.own.runs.iter();
            let first = runs.next();
            if runs.any(|run| Some(run) != first) {
                return Ok(true);
            }
            if replays >= AGREEING || start.elapsed() > SHORTLY || !self.has_room() {
                return Ok(false);
            }
            replays = (2 * replays).min(AGREEING);
        }
    }

    /// True when the kernel that is judged differs from the application's by more than chance.
    fn is_other(&self, size: usize) -> Result<bool> {
        let (first, rest) = self.own.runs.split_at_checked(compared_with(size)).unwrap_or_default();
        let own = self.replays.scores(first, rest)?;
        let other = self.replays.scores(first, &self.other.runs)?;
        let chance = |of: fn(&Score) -> f64| {
            let [own, other] = [&own, &other].map(|scores| scores.iter().map(of).collect::<Vec<f64>>());
            chance::of_ranks(&own, &other)
        };
        Ok(chance(|score| score.count as f64) <= ENOUGH || chance(|score| score.excess) <= ENOUGH)
    }

    fn ended(&self, reports: Vec<BufferReport>) -> Judgement {
        let mask = Mask::of(&reports);
        let overall = Overall::of(&reports, self.plan.judged, self.plan.mask_limit);
        let mut qualified = Vec::new();
        if mask.masked > 0 {
            let replays = self.own.runs.len();
            qualified.push(format!("{mask}: {replays} replays of the application's own kernel differ there"));
        }
        if mask.masked > 0 && self.plan.judged == Judged::Other {
            qualified.push(format!("rule: {RULE}"));
        }
        if overall == Overall::Inconclusive {
            qualified.push(self.advice());
        }
        let stacks = reports.iter().filter(|report| report.verdict == Verdict::Stacks);
        qualified.extend(stacks.map(|report| {
            let Buffer { name, start, end, .. } = &report.buffer;
            format!(
                "{name} at {start:#x}, {} bytes, left out: dead memory once the kernel has ended; {} of {} written bytes are masked. Every \
                 other byte was compared",
                end - start,
                report.masked,
                report.changed
            )
        }));
        let hosts = reports.iter().filter(|report| report.verdict == Verdict::ChangedByHost);
        qualified.extend(hosts.map(|report| {
            format!("{}: changed by the host meanwhile, not by the kernel, as far as replays show", report.buffer.name)
        }));
        let unknown: Vec<&str> =
            reports.iter().filter(|of| of.verdict == Verdict::NoReference).map(|of| &*of.buffer.name).collect();
        if overall == Overall::Pass && !unknown.is_empty() {
            let more = if unknown.len() > SHOWN { ", ..." } else { "" };
            let names = unknown.get(..SHOWN).unwrap_or(&unknown).join(", ");
            qualified.push(format!(
                "{} buffers are not compared, as the capture does not have them at the end: {names}{more}",
                unknown.len()
            ));
        }
        Judgement { overall, buffers: reports, qualified }
    }

    fn undecided(&self, mut reports: Vec<BufferReport>, found: &Differences) -> Judgement {
        if found.wrong {
            for report in reports.iter_mut().filter(|report| report.verdict.is_failure()) {
                report.verdict = Verdict::Undecided;
            }
        }
        let mut judgement = self.ended(reports);
        if found.wrong {
            let [own, other] = [&self.own, &self.other].map(|left| left.runs.len());
            let line = match self.plan.judged {
                _ if found.unreproduced > 0 => format!(
                    "{own} replays of the application's own kernel agree in {} elements with each other and not with what the \
                     application got; elsewhere they differ from each other, so that this may be chance",
                    found.unreproduced
                ),
                Judged::Own => format!("{own} replays of the application's own kernel differ"),
                Judged::Other => {
                    format!(
                        "{other} replays computed something else now and then, as it may be by chance beside {own} of the application's own kernel"
                    )
                }
            };
            judgement.qualified.push(line);
        }
        judgement
    }

    /// What to do about a kernel that is not deterministic.
    fn advice(&self) -> String {
        format!(
            "the application's own kernel is not deterministic: give a tolerance (--tol), make more replays (--repetitions), have \
             it compute in a fixed order, or allow more than {} % to be masked (--mask-limit)",
            100.0 * self.plan.mask_limit
        )
    }
}

#[cfg(test)]
mod tests;
