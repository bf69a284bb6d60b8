//! `omniprobe bench`: how long captured dispatches take.

mod show;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use logdur_replay::bench::{self, Restore};
use logdur_replay::{Case, Exit, Replacement, Setup, Variant};

use super::captured::share;
use super::lines;
use super::worker::{self, On, Other};
pub(super) use show::{compared, compared_json};

/// Runs that count, unless a target says when it is enough.
const RUNS: u32 = 30;
/// With a target, runs at most.
const MOST: u32 = 2000;

/// What is in the caches when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CacheState {
    /// What the last run and the restoring left.
    Warm,
    /// Something else.
    Cold,
}

/// How dispatches are measured.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    other: Other,
    /// Runs that count; with --target-ci, at most.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: Option<u32>,
    /// Runs before those.
    #[arg(long, value_name = "N", default_value_t = 3)]
    warm_up: u32,
    /// Enough is known when half of the 95 % interval of the median is no more than this, like 1%.
    #[arg(long, value_name = "P%", value_parser = share)]
    target_ci: Option<f64>,
    /// What is put back between runs: what the kernel changes, all captured memory, or nothing.
    #[arg(long, value_name = "dirty|full|none", default_value = "dirty", value_parser = str::parse::<Restore>)]
    restore: Restore,
    /// What is in the caches when a run begins.
    #[arg(long, value_name = "STATE", value_enum, default_value = "warm")]
    cache_state: CacheState,
    /// Measure the kernels of two files in turns, and say whether one is faster. `captured` is the kernel that ran, `original`
    /// the application's own.
    #[arg(long, value_names = ["A", "B"], num_args = 2, conflicts_with_all = ["hsaco", "cache"])]
    compare: Option<Vec<PathBuf>>,
    /// Measure a kernel that computes something else, too.
    #[arg(long)]
    no_verify: bool,
}

/// Measures dispatches.
///
/// # Errors
/// When the capture cannot be read, or this program not be started again.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    worker::each(&options.on, &options.other, |case| measure(options, case))
}

fn measure(options: &Options, case: &Case<'_>) -> Result<Exit> {
    let variant = options.other.variant();
    let of_file = |path: &PathBuf| Variant { replacements: vec![Replacement::of_all(path)], ..variant.clone() };
    let variants = match &options.compare {
        Some(files) => files.iter().map(of_file).collect(),
        None => vec![variant],
    };
    let how = bench::Options {
        setup: Setup { counted: true, ..options.on.setup() },
        variants,
        warm_up: options.warm_up,
        repetitions: options.repetitions.unwrap_or(if options.target_ci.is_some() { MOST } else { RUNS }),
        target: options.target_ci,
        restore: options.restore,
        cold: options.cache_state == CacheState::Cold,
        whatever: options.no_verify,
    };
    let report = bench::bench(case, &how)?;
    if options.on.json {
        lines([show::json(&report, &how, options.on.attempt).to_string()])?;
    } else {
        lines(show::text(&report, &how, options.on.attempt))?;
    }
    Ok(if options.no_verify { Exit::Success } else { report.exit() })
}
