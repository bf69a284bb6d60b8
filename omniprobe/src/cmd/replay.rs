//! `omniprobe replay`: captured dispatches run again, alone; the first repetitions are compared.

use anyhow::Result;
use clap::Args;
use logdur_replay::COMPARED;
use omniprobe_exit::Exit;

use super::verify;
use crate::headings;

/// What `replay` can do without.
#[derive(Args, Clone, Debug)]
// The group of the options that are flattened here has the same name.
#[group(skip)]
pub(crate) struct Options {
    #[command(flatten)]
    options: verify::Options,
    /// Compare nothing.
    #[arg(long, help_heading = headings::COMPARISON)]
    no_verify: bool,
}

/// Replays dispatches, and compares the first repetitions.
///
/// # Errors
/// When the capture cannot be read, or this program not be started again.
pub(crate) fn run(Options { options, no_verify }: &Options) -> Result<Exit> {
    let verified = if *no_verify { 0 } else { options.repetitions.min(COMPARED) };
    verify::with(options, verified)
}
