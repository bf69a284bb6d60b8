//! `omniprobe extract`: code objects and buffers of a capture, as files.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use logdur_replay::verify::Rule;
use logdur_replay::{CapturedDispatch, Exit, extract};

use super::captured::Captured;
use super::{file, lines, progress};

/// What is written, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    captured: Captured,
    /// The folder for the files.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Element type of a buffer, like `out=f32`, which becomes a NumPy file. Repeat it for more buffers.
    #[arg(long = "type", value_name = "NAME=TYPE")]
    types: Vec<Rule>,
    /// Also write memory that no argument and no variable names.
    #[arg(long)]
    all: bool,
    /// Write only code objects.
    #[arg(long)]
    code: bool,
}

/// Writes files, and prints their names.
///
/// # Errors
/// When the capture is damaged, or a file cannot be written.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let reader = options.captured.open()?;
    let dispatches = if options.code { Vec::new() } else { options.captured.dispatches(&reader)? };
    let code_objects = &reader.records().code_objects;
    let count = code_objects.len() + dispatches.len();
    let bar = progress::bar("{pos} of {len} code objects and dispatches", count as u64)?;
    let mut files = Vec::new();
    for object in code_objects {
        files.push(extract::code_object(&reader, object.id, &options.output)?);
        bar.inc(1);
    }
    for dispatch in dispatches {
        let captured = CapturedDispatch::of(&reader, dispatch)?;
        files.extend(extract::memory(&captured, &options.types, options.all, &options.output)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    lines(files.iter().map(|path| file(path)))?;
    Ok(Exit::Success)
}
