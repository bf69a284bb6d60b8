//! `omniprobe replay` and `omniprobe verify`: captured dispatches, alone and again.

pub(super) mod show;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use logdur_replay::{COMPARED, Case, Exit};

use super::lines;
use super::worker::{self, On, Other};
use crate::help;

/// How dispatches are replayed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    other: Other,
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
    worker::each(&options.on, &options.other, |case| replay(options, verified, case))
}

/// Replays dispatches, and compares every repetition.
///
/// # Errors
/// When the capture cannot be read, or this program not be started again.
pub(crate) fn verify(options: &Options) -> Result<Exit> {
    worker::each(&options.on, &options.other, |case| replay(options, options.repetitions, case))
}

/// Replays a dispatch, and compares so many repetitions.
fn replay(options: &Options, verified: u32, case: &Case<'_>) -> Result<Exit> {
    let how = logdur_replay::Options {
        repetitions: options.repetitions,
        verified,
        setup: options.on.setup(),
        variant: options.other.variant(),
        save: options.save_output.clone(),
    };
    let report = logdur_replay::replay(case, &how)?;
    let status = report.exit(options.strict);
    if options.on.json {
        lines([show::json(&report, options.on.attempt, status).to_string()])?;
    } else {
        lines(show::text(&report, options.on.attempt))?;
    }
    Ok(status)
}
