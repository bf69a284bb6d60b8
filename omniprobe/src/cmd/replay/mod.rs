//! `omniprobe replay` and `omniprobe verify`: captured dispatches, alone and again.

pub(super) mod show;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use logdur_replay::{COMPARED, Case, Exit, ReplayError};

use super::lines;
use super::worker::{self, On, Other};

/// How dispatches are replayed.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    on: On,
    #[command(flatten)]
    other: Other,
    /// How often each is run.
    #[arg(short, long, value_name = "N", default_value_t = COMPARED, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    /// Do not compare what is written.
    #[arg(long)]
    no_verify: bool,
    /// Write what the first repetition left in each buffer that it changed.
    #[arg(long, value_name = "DIR")]
    save_output: Option<PathBuf>,
    /// A PASS that is qualified is none.
    #[arg(long)]
    strict: bool,
    /// Every repetition is compared, not only the first.
    #[arg(skip)]
    compare_all: bool,
}

impl Options {
    /// The same for `verify`, which compares every repetition.
    ///
    /// # Errors
    /// When nothing is to be compared.
    pub(crate) fn verifying(self) -> Result<Options> {
        if self.no_verify {
            let (expected, found) = ("replay, which need not compare".to_owned(), "verify".to_owned());
            return Err(ReplayError::Usage { what: "--no-verify".to_owned(), expected, found }.into());
        }
        Ok(Options { compare_all: true, ..self })
    }
}

/// Replays dispatches.
///
/// # Errors
/// When the capture cannot be read, or this program not be started again.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    worker::each(&options.on, &options.other, |case| replay(options, case))
}

fn replay(options: &Options, case: &Case<'_>) -> Result<Exit> {
    let how = logdur_replay::Options {
        repetitions: options.repetitions,
        verified: match options.no_verify {
            true => 0,
            false if options.compare_all => options.repetitions,
            false => options.repetitions.min(COMPARED),
        },
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
