//! `omniprobe export LOG... --parquet FILE`: rows as columns with types.

use std::io::BufWriter;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use logdur_report::export::Exporter;
use logdur_system::output::{Output, Readers};
use omniprobe_exit::Exit;

use crate::input::{self, Which, Wholeness};
use crate::output::{file, tell};

/// Which logs, and where the columns go.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Logs, in CSV or JSON; `-` is the standard input.
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    #[command(flatten)]
    which: Which,
    /// The file, in Apache Parquet's format. An existing file is replaced.
    #[arg(long, value_name = "FILE")]
    parquet: PathBuf,
}

/// Writes the rows of logs.
///
/// # Errors
/// When a file cannot be read or written, or is no log.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let logs = options.which.of_all(input::logs(&options.logs)?)?;
    let path = file(&options.parquet);
    let context = || path.clone();
    let output = Output::begin(&options.parquet, Readers::Those, &input::paths(&logs))?;
    let mut exporter = Exporter::new(BufWriter::new(output.file())).with_context(context)?;
    let mut whole = Wholeness::default();
    for log in &logs {
        whole.read(log, |name, log| exporter.read(name, log))?;
    }
    let exported = exporter.finish().with_context(context)?;
    if let Some(first) = &exported.first_unreadable {
        tell(format_args!("{} lines are no rows; the first: {first}", exported.unreadable));
    }
    if exported.rows == 0 {
        return Ok(whole.status(input::nothing(&logs)));
    }
    output.finish()?;
    tell(format_args!("{path}: {} rows", exported.rows));
    Ok(whole.status(Exit::Success))
}
