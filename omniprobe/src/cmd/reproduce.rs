//! `omniprobe reproduce`: a captured dispatch as a stand-alone HIP program.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use logdur_captured::reproduce::{self, Reproduced};
use logdur_captured::symbol;
use omniprobe_exit::Exit;

use crate::captured::{Captured, taken};
use crate::output::{demangled, file, lines, tell};

/// Which dispatch, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    captured: Captured,
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
    let dispatch = options.captured.one(&reader)?;
    reproduce::has_memory(dispatch)?;
    let captured = taken(&reader, dispatch)?;
    let kernel = demangled(symbol(&reader, dispatch));
    let Reproduced { files, doubts } = reproduce::reproduce(&captured, &kernel, &options.output)?;
    for doubt in doubts {
        tell(format_args!("dispatch {}: {doubt}", dispatch.id));
    }
    lines(files.iter().map(|path| file(path)))?;
    Ok(options.captured.status(&reader, Exit::Success))
}
