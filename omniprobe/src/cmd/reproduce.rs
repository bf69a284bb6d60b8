//! `omniprobe reproduce`: a captured dispatch, or steps of a region, as a stand-alone HIP program.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use logdur_capture::Reader;
use logdur_captured::region::CapturedPart;
use logdur_captured::reproduce::{self, Reproduced};
use logdur_captured::symbol;
use omniprobe_exit::Exit;

use crate::captured::{Captured, taken};
use crate::output::{demangled, file, lines, tell};
use crate::region::{self, RegionArgs};

/// Which dispatch, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    captured: Captured,
    #[command(flatten)]
    region: RegionArgs,
    /// The folder for the program, a new or an empty one.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

/// Writes the program, and prints its files. What it recreates in part only is told on stderr.
///
/// # Errors
/// When the capture is damaged or lacks something, HIP cannot recreate the dispatch, or a file cannot be written.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let reader = options.captured.open()?;
    let Some(region) = options.region.of(&reader)? else {
        let dispatch = options.captured.one(&reader)?;
        reproduce::has_memory(dispatch)?;
        let captured = taken(&reader, dispatch)?;
        let kernel = demangled(symbol(&reader, dispatch));
        let written = reproduce::reproduce(&captured, &kernel, &options.output)?;
        return ended(options, &reader, &format!("dispatch {}", dispatch.id), written);
    };
    let part = region::parts(options.captured.last_of_region()?, &region, |region| vec![region.whole()])?;
    let part = part.first().copied().context("a region without steps")?;
    let captured = CapturedPart::of(&region, part)?;
    let written = reproduce::reproduce_part(&captured, &demangled, &options.output)?;
    ended(options, &reader, &region::name(region.record.id, &part), written)
}

/// Tells what a program recreates in part only, and prints its files.
fn ended(options: &Options, reader: &Reader, what: &str, written: Reproduced) -> Result<Exit> {
    for doubt in written.doubts {
        tell(format_args!("{what}: {doubt}"));
    }
    lines(written.files.iter().map(|path| file(path)))?;
    Ok(options.captured.status(reader, Exit::Success))
}
