//! `omniprobe verify`: captured dispatches run again, alone, and each repetition is compared.

mod bisect;
mod region;
mod show;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use logdur_captured::CapturedDispatch;
use logdur_captured::verify::Overall;
use logdur_replay::{COMPARED, Report};
use omniprobe_exit::Exit;

use self::bisect::Bisect;
use crate::headings;
use crate::output::lines;
use crate::region::{OrderArgs, RegionArgs};
use crate::worker::{self, TargetArgs, VariantArgs};

/// How dispatches are replayed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(super) target: TargetArgs,
    #[command(flatten)]
    region: RegionArgs,
    #[command(flatten)]
    order: OrderArgs,
    #[command(flatten)]
    pub(super) variant: VariantArgs,
    /// How often each dispatch runs.
    #[arg(short, long, value_name = "N", default_value_t = COMPARED, value_parser = clap::value_parser!(u32).range(1..), help_heading = headings::REPLAY)]
    pub(super) repetitions: u32,
    #[command(flatten)]
    bisection: Bisection,
    /// Write the buffers that the first repetition changed into this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "region", help_heading = headings::GENERAL)]
    save_output: Option<PathBuf>,
    /// A qualified PASS is no success: status 9.
    #[arg(long, help_heading = headings::COMPARISON)]
    strict: bool,
}

/// Which dispatch of a region is looked for.
#[derive(Args, Clone, Debug)]
pub(crate) struct Bisection {
    /// Name the first dispatch of a region whose output differs with other kernels, that writes a value that is not a number (`nan`) or
    /// infinity (`inf`), that ends with a fault, or in which a check of `omniprobe analyze` finds something, by its name.
    #[arg(long, value_name = "difference|nan|inf|fault|CHECK", value_parser = bisect::parse, num_args = 0..=1, default_missing_value = "difference", requires = "region", help_heading = headings::COMPARISON)]
    bisect: Option<Bisect>,
    /// With --bisect: name the first dispatch that computes something else from the same than that of this other capture. Dispatches are
    /// aligned by the names of their kernels, and compared argument by argument.
    #[arg(long, value_name = "FILE", requires = "bisect", help_heading = headings::COMPARISON)]
    against: Option<PathBuf>,
    /// With --bisect and --backend emu: name the first dispatch that computes something else from the same than on this processor.
    /// --hsaco and --cache give code for it, where the application's own does not run on it.
    #[arg(long, value_name = "PROCESSOR", value_parser = bisect::processor, requires = "bisect", conflicts_with = "against", help_heading = headings::COMPARISON)]
    against_processor: Option<String>,
    /// Where what each step changes is written to.
    #[arg(long, hide = true, value_name = "FILE")]
    trace_to: Option<PathBuf>,
    /// Where what each step of the other capture changes is.
    #[arg(long, hide = true, value_name = "FILE")]
    trace_of: Option<PathBuf>,
}

/// Replays dispatches, and compares every repetition.
///
/// # Errors
/// When the capture cannot be read, or this program not be started again.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    with(options, options.repetitions)
}

/// Replays dispatches, or a region, and compares so many repetitions.
///
/// # Errors
/// As for [`run`].
pub(super) fn with(options: &Options, verified: u32) -> Result<Exit> {
    if let Some(bisect) = options.bisection.bisect {
        options.order.in_order("--bisect", "the first dispatch that is wrong is the first in their order")?;
        return bisect::run(options, bisect);
    }
    if options.region.asked().is_some() {
        return region::run(options, verified);
    }
    worker::each(&options.target, &options.variant, |captured| replay(options, verified, captured))
}

/// Replays a dispatch, and compares so many repetitions.
///
/// # Errors
/// When it cannot be replayed, or the result not be printed.
fn replay(options: &Options, verified: u32, captured: &CapturedDispatch<'_>) -> Result<Exit> {
    let how = logdur_replay::Options {
        repetitions: options.repetitions,
        verified,
        setup: options.target.setup(),
        variant: options.variant.variant(),
        save: options.save_output.clone(),
    };
    let report = logdur_replay::replay(captured, &how)?;
    let status = status(&report, options.strict);
    if options.target.json {
        lines([show::json(&report, options.target.device.attempt, status).to_string()])?;
    } else {
        lines(show::text(&report, options.target.device.attempt, options.variant.folders()))?;
    }
    Ok(status)
}

/// The status of a replay. With `strict`, a result that says less than it could is no success.
fn status(report: &Report, strict: bool) -> Exit {
    match report.overall {
        Some(Overall::Pass) if strict && !report.qualified.is_empty() => Exit::Incomplete,
        overall => overall.map_or(Exit::Success, Exit::from),
    }
}
