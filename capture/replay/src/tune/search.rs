//! Successive halving: every configuration is measured a few times, and only those that may still be the best are measured
//! more.
//!
//! Source of the idea: K. Jamieson and A. Talwalkar, "Non-stochastic Best Arm Identification and Hyperparameter Optimization"
//! (2016). Here nothing is given up only for its rank: it has to be slower beyond what its times leave in doubt.

use super::rerun::{Rerun, paired_rerun};
use super::{Best, Config, Journal, Outcome, Runner};
use crate::error::Result;
use crate::stats::Summary;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Repetitions of every configuration, to begin with.
    pub first: u32,
    /// Repetitions of each that is not given up.
    pub repetitions: u32,
    /// True when those that cannot be the best are given up.
    pub halving: bool,
    /// Which relative half-width of the median's interval is enough.
    pub target: Option<f64>,
    /// True for a part of a search: the whole one chooses, and measures what it lacks.
    pub part: bool,
}

/// A configuration, and what came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The configuration.
    pub config: Config,
    /// All its times together, or why it has none; `None` when it never ran.
    pub outcome: Option<Outcome>,
    /// The round after which it was given up.
    pub given_up: Option<u32>,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Searched {
    /// Every configuration, by its number.
    pub trials: Vec<Trial>,
    /// The best one; `None` when none was measured.
    pub best: Option<Best>,
}

/// How far a search is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The configuration that ran last.
    pub config: usize,
    /// Repetitions that are done.
    pub done: u64,
    /// How many there will be, if half of the configurations are given up after each round.
    pub expected: u64,
}

impl Trial {
    /// What its times say.
    pub fn summary(&self) -> Option<&Summary> {
        self.outcome.as_ref().and_then(Outcome::times).map(|(_, summary)| summary)
    }

    /// Its times.
    pub fn gpu_ns(&self) -> &[u64] {
        self.outcome.as_ref().and_then(Outcome::times).map_or(&[], |(gpu_ns, _)| gpu_ns)
    }

    /// True for one that was measured and not given up.
    pub(crate) fn is_rival(&self) -> bool {
        self.given_up.is_none() && self.summary().is_some()
    }

    /// How many repetitions are missing.
    fn wants(&self, target: u32, plan: &Plan) -> u32 {
        let failed = self.outcome.is_some() && self.summary().is_none();
        let enough = plan.target.is_some_and(|sure| self.summary().is_some_and(|s| s.is_as_sure_as(sure)));
        if failed || enough || self.given_up.is_some() {
            return 0;
        }
        target.saturating_sub(u32::try_from(self.gpu_ns().len()).unwrap_or(u32::MAX))
    }
}

/// Runs configurations, of which the first is the captured one, until the best of them is known, and then those two in turns.
/// What the journal has is not run again. When the captured configuration fails, the search ends: there is nothing to compare
/// with.
///
/// # Errors
/// When the journal cannot be written, or is of other configurations.
pub fn search(
    configs: Vec<(Config, Option<Outcome>)>,
    plan: &Plan,
    runner: &mut dyn Runner,
    journal: &mut Journal,
    progress: &mut dyn FnMut(Progress),
) -> Result<Searched> {
    let mut trials = Vec::new();
    for (config, outcome) in configs {
        if let Some(outcome) = &outcome
            && journal.recorded(&config, 0)?.is_none()
        {
            journal.add(&config, 0, outcome)?;
        }
        trials.push(Trial { config, outcome, given_up: None });
    }
    let in_rounds = plan.halving || plan.target.is_some();
    let mut target = if in_rounds { plan.first.min(plan.repetitions) } else { plan.repetitions };
    let (mut done, mut round) = (0, 0);
    loop {
        for number in 0..trials.len() {
            let expected = done + expected(&trials, target, plan) + turns(&trials, plan);
            let Some(trial) = trials.get_mut(number) else { break };
            let missing = trial.wants(target, plan);
            if missing == 0 {
                continue;
            }
            let outcome = match journal.recorded(&trial.config, round)? {
                Some(outcome) => outcome,
                None => {
                    let merged = journal.merged(&trial.config, trial.gpu_ns().len(), missing);
                    let outcome = merged.unwrap_or_else(|| runner.run(&trial.config, missing));
                    journal.add(&trial.config, round, &outcome)?;
                    outcome
                }
            };
            trial.outcome = Some(together(trial.gpu_ns(), outcome));
            done += u64::from(missing);
            progress(Progress { config: number, done, expected });
            if number == 0 && trial.summary().is_none() {
                return Ok(Searched { trials, best: None });
            }
        }
        if target >= plan.repetitions {
            break;
        }
        if plan.halving {
            give_up(&mut trials, round);
        }
        // A single configuration is compared with the captured one only: both are measured to the end.
        let rivals = trials.iter().skip(1).filter(|trial| trial.is_rival()).count();
        let doubled = target.max(1).saturating_mul(2).min(plan.repetitions);
        target = if rivals <= 1 && !plan.part { plan.repetitions } else { doubled };
        round += 1;
    }
    if plan.part {
        return Ok(Searched { trials, best: None });
    }
    let expected = done + turns(&trials, plan);
    let best = confirmed(&mut trials, plan, round + 1, runner, journal, &mut |config| {
        done += 1;
        progress(Progress { config, done, expected: expected.max(done) });
    })?;
    Ok(Searched { trials, best })
}

/// How many repetitions the best configuration and the captured one have in turns.
fn turns(trials: &[Trial], plan: &Plan) -> u64 {
    if trials.len() > 1 && !plan.part { 2 * u64::from(plan.repetitions) } else { 0 }
}

/// Measures the best configuration and the captured one in turns. One that fails then is not the best: the next best has its
/// turns. `None` without a best one, or when the captured one fails.
fn confirmed(
    trials: &mut [Trial],
    plan: &Plan,
    round: u32,
    runner: &mut dyn Runner,
    journal: &mut Journal,
    ran: &mut dyn FnMut(usize),
) -> Result<Option<Best>> {
    while let Some(best) = Best::of(trials) {
        let pair =
            [trials.first(), trials.get(best.number)].map(|trial| trial.filter(|trial| trial.summary().is_some()));
        let [Some(captured), Some(rival)] = pair else { break };
        if best.number == captured.config.number {
            return Ok(Some(best));
        }
        let pair = [&captured.config, &rival.config];
        match paired_rerun(pair, plan.repetitions, round, runner, journal, &mut || ran(best.number))? {
            Rerun::Paired(turns) => return Ok(Some(Best { turns, ..best })),
            Rerun::Failed(number, outcome) => {
                trials.iter_mut().filter(|t| t.config.number == number).for_each(|t| t.outcome = Some(outcome.clone()));
            }
        }
    }
    Ok(None)
}

/// Earlier times and those of another round; another result replaces them.
fn together(earlier: &[u64], outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Measured { gpu_ns, .. } => Outcome::measured([earlier, &gpu_ns].concat()),
        other => other,
    }
}

/// Gives up those whose median is in the worse half, if they can be told apart from the best: their interval begins above the
/// end of the best one's. Of three times the interval is from the shortest to the longest: each of two configurations that are
/// the same is given up with a chance of one in twenty (3!·3!/6!), and then the other one stays. The captured configuration
/// stays.
fn give_up(trials: &mut [Trial], round: u32) {
    let mut rivals: Vec<&mut Trial> = trials.iter_mut().filter(|trial| trial.is_rival()).collect();
    let median = |trial: &Trial| trial.summary().map_or(f64::INFINITY, |s| s.median_ns);
    rivals.sort_by(|a, b| median(a).total_cmp(&median(b)));
    let Some(best) = rivals.first().and_then(|best| best.summary()).map(|s| s.high_ns) else { return };
    let better = rivals.len().div_ceil(2);
    for trial in rivals.into_iter().skip(better) {
        if trial.config.number != 0 && trial.summary().is_some_and(|s| s.low_ns > best) {
            trial.given_up = Some(round);
        }
    }
}

/// How many repetitions there may still be.
fn expected(trials: &[Trial], target: u32, plan: &Plan) -> u64 {
    let missing = |target: u32| trials.iter().map(|trial| u64::from(trial.wants(target, plan))).sum::<u64>();
    let now = missing(target);
    let (mut later, mut share, mut reached) = (0, 1, target.max(1));
    while reached < plan.repetitions {
        let next = reached.saturating_mul(2).min(plan.repetitions);
        share *= if plan.halving { 2 } else { 1 };
        later += (missing(next) - missing(reached)) / share;
        reached = next;
    }
    now + later
}
