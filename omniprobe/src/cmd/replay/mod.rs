//! `omniprobe replay` and `omniprobe verify`: captured dispatches, alone and again.

pub(super) mod show;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use logdur_replay::{COMPARED, CapturedDispatch, Exit};

use super::lines;
use super::worker::{self, TargetArgs, VariantArgs};
use crate::help;

/// How dispatches are replayed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    variant: VariantArgs,
    /// How often each dispatch runs.
    #[arg(short, long, value_name = "N", default_value_t = COMPARED, value_parser = clap::value_parser!(u32).range(1..), help_heading = help::REPLAY)]
    repetitions: u32,
    /// Write the buffers that the first repetition changed into this folder.
    #[arg(long, value_name = "DIR", help_heading = help::GENERAL)]
    save_output: Option<PathBuf>,
    /// A qualified PASS is no success: status 9.
    #[arg(long, help_heading = help::COMPARISON)]
    strict: bool,
}

/// What `replay` can do without.
#[derive(Args, Clone, Debug)]
pub(crate) struct Unverified {
    #[command(flatten)]
    options: Options,
    /// Compare nothing.
    #[arg(long, help_heading = help::COMPARISON)]
    no_verify: bool,
}

/// Replays dispatches, and compares the first repetitions.
///
/// # Errors
/// As for [`verify`].
pub(crate) fn run(Unverified { options, no_verify }: &Unverified) -> Result<Exit> {
    let verified = if *no_verify { 0 } else { options.repetitions.min(COMPARED) };
    worker::each(&options.target, &options.variant, |captured| replay(options, verified, captured))
}

/// Replays dispatches, and compares every repetition.
///
/// # Errors
/// When the capture cannot be read, or this program not be started again.
pub(crate) fn verify(options: &Options) -> Result<Exit> {
    worker::each(&options.target, &options.variant, |captured| replay(options, options.repetitions, captured))
}

/// Replays a dispatch, and compares so many repetitions.
fn replay(options: &Options, verified: u32, captured: &CapturedDispatch<'_>) -> Result<Exit> {
    let how = logdur_replay::Options {
        repetitions: options.repetitions,
        verified,
        setup: options.target.setup(),
        variant: options.variant.variant(),
        save: options.save_output.clone(),
    };
    let report = logdur_replay::replay(captured, &how)?;
    let status = report.exit(options.strict);
    if options.target.json {
        lines([show::json(&report, options.target.attempt, status).to_string()])?;
    } else {
        lines(show::text(&report, options.target.attempt, options.variant.folders()))?;
    }
    Ok(status)
}
