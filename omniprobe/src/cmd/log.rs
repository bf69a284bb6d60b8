//! `omniprobe log`: the rows that processes could not write, from their records.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Context, Result, bail};
use logdur_journal::lines::Format;
use logdur_journal::names::shell_word;
use logdur_journal::recover::{self, Missing, Written};
use logdur_journal::snapshot::Snapshot;
use logdur_replay::Exit;

use crate::LogOptions;
use crate::cmd::kind::{self, Kind};
use crate::cmd::tell;

/// Prints or appends what the files have. They stay as they are.
///
/// # Errors
/// When a file is none of records, or the log cannot be written.
pub(crate) fn run(options: &LogOptions) -> Result<Exit> {
    if options.list {
        return super::left::list();
    }
    if options.clean {
        return super::left::clean();
    }
    let mut format = None;
    for path in &options.files {
        let snapshot = read(path)?;
        let own = snapshot.origin.as_ref();
        let chosen = match options.log_format.as_deref() {
            Some("json") => Format::Json,
            Some("csv-safe") => Format::CsvSafe,
            Some(_) => Format::Csv,
            None => own.map_or(Format::Csv, |o| o.format),
        };
        if let Some(before) = format.replace(chosen)
            && before != chosen
        {
            bail!("{}: its rows are {chosen:?}, those before are {before:?}: choose one with -t", path.display());
        }
        let missing = recover::missing(&snapshot, chosen, None);
        match &options.log_location {
            Some(_) if snapshot.is_alive() => {
                bail!(
                    "{}: process {} still runs, and writes its rows itself; without -l they are shown as they are now",
                    path.display(),
                    snapshot.pid
                )
            }
            Some(log) => {
                let log = std::path::absolute(log)?;
                let written = append(&missing, &log, own.is_some_and(|o| o.log.as_ref() == Some(&log)))?;
                tell(format_args!("{}: {}", path.display(), described(written, &log)));
            }
            None => missing
                .print(&mut io::stdout().lock(), path == &options.files[0])
                .context("writing to standard output")?,
        }
    }
    Ok(Exit::Success)
}

/// After a run: writes what the process that left a file of records could not write, and removes the file.
///
/// # Errors
/// When the file cannot be read, or the log cannot be written; then the file stays.
pub(crate) fn finish(path: &Path, pid: u32, status: ExitStatus) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    let snapshot = read(path)?;
    if snapshot.is_alive() {
        tell(format_args!("process {} still runs: its records are in {}", snapshot.pid, path.display()));
        return Ok(());
    }
    if let Some(origin) = snapshot.origin.as_ref().filter(|_| !snapshot.is_complete()) {
        let how = (snapshot.pid == pid).then(|| ended(status));
        let missing = recover::missing(&snapshot, origin.format, how.as_deref());
        let kept = || {
            let (rows, pid, path) = (missing.rows(), snapshot.pid, shell_word(path));
            format!(
                "{rows} rows of process {pid} are not in its log, but in its records: `omniprobe log {path} -l LOG` writes them"
            )
        };
        match &origin.log {
            Some(log) => _ = append(&missing, log, true).with_context(kept)?,
            None => missing.print(&mut io::stdout().lock(), false).with_context(kept)?,
        }
    }
    std::fs::remove_file(path).with_context(|| format!("removing {}", path.display()))
}

fn read(path: &Path) -> Result<Snapshot> {
    let snapshot = Snapshot::read(path).with_context(|| kind::named(path, Kind::Records))?;
    for problem in &snapshot.problems {
        tell(format_args!("{}: {problem}", path.display()));
    }
    Ok(snapshot)
}

fn append(missing: &Missing, log: &Path, own: bool) -> Result<Written> {
    missing.append(log, own).with_context(|| format!("writing the log {}", log.display()))
}

fn described(written: Written, log: &Path) -> String {
    let completed = if written.completed { ", one of them completed" } else { "" };
    format!("{} rows appended to {}{completed}, {} were there", written.rows, log.display(), written.there)
}

fn ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, code) => format!("ended with status {} and no regard for destructors", code.unwrap_or_default()),
    }
}
