//! `omniprobe export LOG... --parquet|--rocpd FILE`: rows as columns with types, or as rocprofiler-sdk's database.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use logdur_report::columns::Rows;
use logdur_report::export::Exporter;
use logdur_rocprof::write::Writer;
use logdur_system::output::{Output, Readers};
use omniprobe_exit::Exit;

use crate::input::{self, Position, Which, Wholeness};
use crate::output::{file, tell};
use crate::private_folder::PrivateFolder;

/// Which logs, and where their rows go.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Logs, in CSV or JSON, databases of rocpd, and tables `kernel_trace.csv` of rocprofv3; `-` is the standard input.
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    to: To,
}

#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
struct To {
    /// The file, in Apache Parquet's format. An existing file is replaced.
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// The file, a database of rocpd (SQLite, schema version 3), as rocprofiler-sdk's tools read it. An existing file is replaced.
    #[arg(long, value_name = "FILE")]
    rocpd: Option<PathBuf>,
}

/// Writes the rows of logs.
///
/// # Errors
/// When a file cannot be read or written, or is no log.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let logs = options.which.of_all(input::logs(&options.logs)?)?;
    match &options.to {
        To { parquet: Some(path), .. } => parquet(path, &logs),
        To { rocpd: Some(path), .. } => rocpd(path, &logs),
        To { parquet: None, rocpd: None } => bail!("expected --parquet or --rocpd"),
    }
}

fn parquet(path: &Path, logs: &[Position]) -> Result<Exit> {
    let shown = file(path);
    let context = || shown.clone();
    let output = Output::begin(path, Readers::Those, &input::paths(logs))?;
    let mut exporter = Exporter::new(BufWriter::new(output.file())).with_context(context)?;
    let mut whole = Wholeness::default();
    for log in logs {
        whole.read(log, |name, log| exporter.read(name, log))?;
    }
    let exported = exporter.finish().with_context(context)?;
    finish(path, logs, output, &exported, exported.rows, whole)
}

fn rocpd(path: &Path, logs: &[Position]) -> Result<Exit> {
    let shown = file(path);
    let mut output = Output::begin(path, Readers::Those, &input::paths(logs))?;
    // SQLite needs a name.
    let folder = PrivateFolder::new()?;
    let database = folder.path().join("rocpd.db");
    let mut writer = Writer::new(&database).with_context(|| shown.clone())?;
    let mut whole = Wholeness::default();
    for log in logs {
        whole.read(log, |name, log| writer.read(name, log))?;
    }
    let written = writer.finish().with_context(|| shown.clone())?;
    io::copy(&mut File::open(&database)?, &mut output).with_context(|| shown.clone())?;
    if written.without_times > 0 {
        tell(format_args!("{shown}: {} rows without start or end are left out", written.without_times));
    }
    finish(path, logs, output, &written.read, written.rows, whole)
}

/// Gives the file its name if there are rows.
fn finish(path: &Path, logs: &[Position], output: Output, read: &Rows, rows: u64, whole: Wholeness) -> Result<Exit> {
    if let Some(first) = &read.first_unreadable {
        tell(format_args!("{} lines are no rows; the first: {first}", read.unreadable));
    }
    if rows == 0 {
        return Ok(whole.status(input::nothing(logs)));
    }
    output.finish()?;
    tell(format_args!("{}: {rows} rows", file(path)));
    Ok(whole.status(Exit::Success))
}
