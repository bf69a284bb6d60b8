//! `omniprobe bench`: how long captured dispatches take.

mod passes;
mod pmc;
mod region;
mod show;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use logdur_captured::CapturedDispatch;
use logdur_replay::bench::{self, Restore};
use logdur_replay::{Replacement, Setup, Variant};
use omniprobe_exit::Exit;

use crate::captured::share;
use crate::find;
use crate::headings;
use crate::output::lines;
use crate::region::{OrderArgs, RegionArgs};
use crate::worker::{self, TargetArgs, VariantArgs};

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
    target: TargetArgs,
    #[command(flatten)]
    region: RegionArgs,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    variant: VariantArgs,
    /// Runs that count; with --target-ci, at most [default: 30, or 2000 with --target-ci].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = headings::MEASUREMENT)]
    repetitions: Option<u32>,
    /// Runs before these, which do not count.
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = headings::MEASUREMENT)]
    warm_up: u32,
    /// Stop when half of the 95 % confidence interval of the median is at most this part of the median, like 1%.
    #[arg(long, value_name = "P%", value_parser = share, conflicts_with = "region", help_heading = headings::MEASUREMENT)]
    target_ci: Option<f64>,
    /// What is restored between runs: the memory that the kernel changes, all captured memory, or nothing.
    #[arg(long, value_name = "dirty|full|none", default_value = "dirty", value_parser = str::parse::<Restore>, help_heading = headings::MEASUREMENT)]
    restore: Restore,
    /// Content of the caches when a run begins.
    #[arg(long, value_name = "STATE", value_enum, default_value = "warm", help_heading = headings::MEASUREMENT)]
    cache_state: CacheState,
    /// Measure the kernels of two files in alternation, and report the faster one. `captured` means the kernel that ran,
    /// `original` the application's own.
    #[arg(long, value_names = ["A", "B"], num_args = 2, conflicts_with_all = ["hsaco", "cache", "region"], help_heading = headings::VARIANT)]
    compare: Option<Vec<PathBuf>>,
    /// Count with the counters of the hardware, too, by their names in rocprofiler-sdk: rocprofv3 runs replays, in as many passes as the
    /// counters need. On the emulated GPU, those are counted that it has exactly.
    #[arg(long, value_name = "COUNTER", value_delimiter = ',', value_parser = pmc::name, conflicts_with = "region", help_heading = headings::MEASUREMENT)]
    pmc: Vec<String>,
    /// Launches of each pass that count.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..), requires = "pmc", help_heading = headings::MEASUREMENT)]
    pmc_runs: u32,
    /// Where a replay under a profiler says how it has ended, and which kernel it runs.
    #[arg(long, hide = true, num_args = 2)]
    pass: Option<Vec<PathBuf>>,
    /// Also measure a kernel that computes something else.
    #[arg(long, help_heading = headings::MEASUREMENT)]
    no_verify: bool,
}

/// Measures dispatches.
///
/// # Errors
/// When the capture cannot be read, or this program not be started again; when a counter is not known.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    if options.region.asked().is_some() {
        return region::run(options);
    }
    if options.target.device.is_emulated() {
        pmc::check(&options.pmc)?;
    } else if !options.pmc.is_empty() && options.pass.is_none() {
        find::profiler(options.target.device.rocm())?;
    }
    worker::each(&options.target, &options.variant, |captured| measure(options, captured))
}

fn measure(options: &Options, captured: &CapturedDispatch<'_>) -> Result<Exit> {
    let variant = options.variant.variant();
    let of_file = |path: &PathBuf| Variant { replacements: vec![Replacement::of_all(path)], ..variant.clone() };
    let variants = match &options.compare {
        Some(files) => files.iter().map(of_file).collect(),
        None => vec![variant],
    };
    let how = bench::Options {
        setup: Setup { counted: true, ..options.target.setup() },
        variants,
        warm_up: options.warm_up,
        repetitions: options.repetitions.unwrap_or(if options.target_ci.is_some() { MOST } else { RUNS }),
        target: options.target_ci,
        restore: options.restore,
        cold: options.cache_state == CacheState::Cold,
        allow_mismatch: options.no_verify,
    };
    let of_pass = bench::Options { repetitions: options.pmc_runs, ..how.clone() };
    if let Some(pass) = &options.pass {
        return passes::run_one(captured, &of_pass, pass);
    }
    let counters = pmc::count(captured, &options.target, &of_pass, &options.pmc)?;
    let report = bench::bench(captured, &how)?;
    if options.target.json {
        lines([show::json(&report, &how, &counters, options.target.device.attempt).to_string()])?;
    } else {
        lines(show::text(&report, &how, &counters, options.target.device.attempt))?;
    }
    let ended = if options.no_verify { Exit::Success } else { show::status(&report) };
    if ended != Exit::Success || options.pmc.is_empty() {
        return Ok(ended);
    }
    Ok(counters.told(captured.dispatch.id))
}
