//! `omniprobe export LOG... --parquet|--csv|--rocpd|--into FILE`: rows as columns with types, in one log in the order of their starts, as
//! rocprofiler-sdk's database, or in a profiler's trace.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use logdur_report::columns::Rows;
use logdur_report::export::Exporter;
use logdur_report::profile::{Added, Profile};
use logdur_report::rows::Process;
use logdur_report::table::Table;
use logdur_report::timeline::Timeline;
use logdur_report::wall::to_wall;
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
    /// With --into: where the trace goes.
    #[arg(short, long, value_name = "FILE", requires = "into")]
    output: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
struct To {
    /// The file, in Apache Parquet's format. An existing file is replaced.
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// The file, a log in CSV with the rows of all logs in the order in which they began; rows without times are last. An existing file is
    /// replaced.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The file, a database of rocpd (SQLite, schema version 3), as rocprofiler-sdk's tools read it. An existing file is replaced.
    #[arg(long, value_name = "FILE")]
    rocpd: Option<PathBuf>,
    /// A trace of PyTorch's profiler (Kineto) in Chrome's format, which the rows are added to: those of its process, at the times at which
    /// they ran, with arrows from the calls that launched them. It is replaced, unless -o names another file.
    #[arg(long, value_name = "TRACE.json")]
    into: Option<PathBuf>,
}

/// Writes the rows of logs.
///
/// # Errors
/// When a file cannot be read or written, or is no log.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let logs = options.which.of_all(input::logs(&options.logs)?)?;
    match &options.to {
        To { parquet: Some(path), .. } => parquet(path, &logs),
        To { csv: Some(path), .. } => csv(path, &logs),
        To { rocpd: Some(path), .. } => rocpd(path, &logs),
        To { into: Some(path), .. } => into(path, options.output.as_deref().unwrap_or(path), &logs),
        To { parquet: None, csv: None, rocpd: None, into: None } => {
            bail!("expected --parquet, --csv, --rocpd or --into")
        }
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

fn csv(path: &Path, logs: &[Position]) -> Result<Exit> {
    let output = Output::begin(path, Readers::Those, &input::paths(logs))?;
    let (mut table, mut whole) = (Table::default(), Wholeness::default());
    for log in logs {
        whole.read(log, |name, log| table.read(name, log))?;
    }
    let read = table.write(&mut BufWriter::new(output.file())).with_context(|| file(path))?;
    finish(path, logs, output, &read, read.rows, whole)
}

/// Writes the rows of logs as a database.
///
/// # Errors
/// When a log cannot be read, or the database cannot be written.
pub(crate) fn rocpd(path: &Path, logs: &[Position]) -> Result<Exit> {
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

/// Adds rows to a profiler's trace.
fn into(trace: &Path, path: &Path, logs: &[Position]) -> Result<Exit> {
    let named = || file(trace);
    let bytes = std::fs::read(trace).with_context(named)?;
    let profile = Profile::of(&bytes).with_context(named)?;
    let mut inputs = input::paths(logs);
    inputs.extend((path != trace).then_some(trace));
    let output = Output::begin(path, Readers::Those, &inputs)?;
    let (mut timeline, mut whole) = (Timeline::default(), Wholeness::default());
    // Processes that the trace is not of.
    let others = RefCell::new(BTreeSet::new());
    for log in logs {
        whole.read(log, |name, log| {
            let is_of = |process: Process| {
                let is_of = process.pid.is_some_and(|pid| profile.pids().contains(&pid));
                others.borrow_mut().extend(process.pid.filter(|_| !is_of));
                is_of
            };
            timeline.read_of(name, log, is_of)
        })?;
    }
    let mut tracks = timeline.tracks();
    let others = others.into_inner();
    if tracks.is_empty() && !others.is_empty() {
        let words = |pids: &BTreeSet<u64>| pids.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        bail!("{}: expected rows of process {}, found rows of {}", named(), words(profile.pids()), words(&others));
    }
    if tracks.is_empty() {
        return Ok(whole.status(input::nothing(logs)));
    }
    to_wall(&mut tracks, &timeline.logs, &timeline.clocks)?;
    let mut to = BufWriter::new(output.file());
    let written = profile.write(&timeline, &tracks, &mut to).and_then(|added| to.flush().map(|()| added));
    let Added { rows, dispatches, linked } = written.with_context(|| file(path))?;
    drop(to);
    output.finish()?;
    if timeline.without_times > 0 {
        tell(format_args!("{} rows without times are left out", timeline.without_times));
    }
    tell(format_args!(
        "{}: {rows} rows added; {linked} of {dispatches} dispatches are linked to their launches",
        file(path)
    ));
    Ok(whole.status(Exit::Success))
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
