//! `omniprobe extract`: code objects and buffers of a capture, as files.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use logdur_captured::verify::Rule;
use logdur_captured::{CapturedDispatch, CapturedError, extract};
use logdur_replay::region;
use omniprobe_exit::Exit;

use crate::captured::taken;
use crate::exit;
use crate::output::{file, lines, tell};
use crate::progress;
use crate::region::{SourceArgs, in_order};

/// What is written, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    source: SourceArgs,
    /// The folder for the files; of a region, the capture that is written: one with the dispatch of --dispatch alone, whose memory
    /// before and after is that of a replay.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Element type of a buffer, like `out=f32`, which becomes a NumPy file. Repeat it for more buffers.
    #[arg(long = "type", value_name = "NAME=TYPE", conflicts_with = "region")]
    types: Vec<Rule>,
    /// Also write memory that no argument and no variable names.
    #[arg(long, conflicts_with = "region")]
    all: bool,
    /// Refused, with the reason.
    #[arg(long, hide = true)]
    concurrent: bool,
    /// Write only code objects.
    #[arg(long, conflicts_with = "region")]
    code: bool,
}

/// Writes files, and prints their names.
///
/// # Errors
/// When the capture is damaged, or a file cannot be written.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    in_order(options.concurrent, "extract", "the memory before a dispatch is what all steps before it have left")?;
    if options.source.region.asked().is_some() {
        return of_region(options);
    }
    let reader = options.source.captured.open()?;
    let dispatches = if options.code { Vec::new() } else { options.source.captured.dispatches(&reader)? };
    let code_objects = &reader.records().code_objects;
    let count = code_objects.len() + dispatches.len();
    let bar = progress::bar("{pos} of {len} code objects and dispatches", count as u64)?;
    let mut files = Vec::new();
    let mut status = Exit::Success;
    // What is whole is written, whatever is damaged beside it.
    let mut failed = |what: String, error: anyhow::Error| {
        let exit = exit::of(&error);
        if !matches!(exit, Exit::Corrupt | Exit::Incomplete) {
            return Err(error);
        }
        bar.suspend(|| tell(format_args!("{what}: {error:#}")));
        status = if status == Exit::Success { exit } else { status };
        Ok(())
    };
    for object in code_objects {
        match extract::code_object(&reader, object.id, &options.output) {
            Ok(file) => files.push(file),
            Err(error) => failed(format!("code object {}", object.id), error.into())?,
        }
        bar.inc(1);
    }
    for dispatch in dispatches {
        let memory = |captured: CapturedDispatch<'_>| {
            Ok(extract::memory(&captured, &options.types, options.all, &options.output)?)
        };
        match taken(&reader, dispatch).and_then(memory) {
            Ok(written) => files.extend(written),
            Err(error) => failed(format!("dispatch {}", dispatch.id), error)?,
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    lines(files.iter().map(|path| file(path)))?;
    Ok(options.source.captured.status(&reader, status))
}

/// Replays a region up to a dispatch, and writes that one as a capture of its own.
fn of_region(options: &Options) -> Result<Exit> {
    if options.source.captured.last_of_region()?.is_none() {
        let (what, expected) = ("--region".to_owned(), "a dispatch of the region, by --dispatch N".to_owned());
        return Err(CapturedError::Usage { what, expected, found: "none".to_owned() }.into());
    }
    let parts = options.source.parts();
    parts.each(
        |region| vec![region.whole()],
        |part| {
            region::extract(part, &options.source.device.setup(), &options.output)?;
            lines([file(&options.output)])?;
            Ok(Exit::Success)
        },
    )
}
