//! `omniprobe log`: rows as text, of logs in records, and of the records of processes that could not write them.

mod left;

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use logdur_journal::lines::{Format, Lines};
use logdur_journal::recover::{self, Missing, Written};
use logdur_journal::snapshot::Snapshot;
use logdur_journal::{appended, packed};
use logdur_settings::{self as settings, Value};
use logdur_system::text::shell_word;
use omniprobe_exit::Exit;

use crate::hello::Left;
use crate::kind::{self, Kind};
use crate::output::{file, tell};

/// Which records, and where their rows go.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Logs in records (-t records), or files of records that processes have left (`logdur.PID.records`), which the line `# records:` of
    /// a log names.
    #[arg(required_unless_present_any = ["list", "clean"], value_name = "FILE")]
    files: Vec<PathBuf>,
    /// List this user's files of records: the process, whether it still runs, and how many rows its log lacks.
    #[arg(long, conflicts_with_all = ["files", "log_location", "log_format", "clean"])]
    list: bool,
    /// Remove the files of records of processes that have ended and whose logs are complete. Name the others.
    #[arg(long, conflicts_with_all = ["files", "log_location", "log_format"])]
    clean: bool,
    /// Append the rows to this log [default: print them].
    #[arg(short, long, value_name = "WHERE")]
    log_location: Option<PathBuf>,
    /// How rows are written [default: csv, or as the process wrote them].
    #[arg(short = 't', long, value_name = "FORMAT", value_parser = logdur_settings::Format::WORDS)]
    log_format: Option<String>,
}

/// Prints or appends what the files have. They stay as they are.
///
/// # Errors
/// When a file is none of records, or the log cannot be written.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    if options.list {
        return left::list();
    }
    if options.clean {
        return left::clean();
    }
    let (mut format, mut end) = (None, Exit::Success);
    for path in &options.files {
        if kind::is_packed(path) {
            let form = asked(options)?.unwrap_or(Format::Csv);
            same(&mut format, form, path)?;
            if converted(path, form, options.log_location.as_deref(), path == &options.files[0])? == Exit::Corrupt {
                end = Exit::Corrupt;
            }
            continue;
        }
        let snapshot = read(path)?;
        if !snapshot.problems.is_empty() {
            end = Exit::Corrupt;
        }
        let own = snapshot.origin.as_ref();
        let of_process = || own.map_or(Format::Csv, |own| own.format).shown(options.log_location.is_none());
        let chosen = asked(options)?.unwrap_or_else(of_process);
        same(&mut format, chosen, path)?;
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
    Ok(end)
}

/// The form of rows that is asked for.
fn asked(options: &Options) -> Result<Option<Format>> {
    let parsed = options.log_format.as_deref().map(|word| settings::Format::parse(word.as_ref()));
    Ok(parsed.transpose().map_err(anyhow::Error::msg)?.map(format))
}

/// What a setting stands for.
pub(crate) fn format(setting: settings::Format) -> Format {
    match setting {
        settings::Format::Csv => Format::Csv,
        settings::Format::CsvSafe => Format::CsvSafe,
        settings::Format::Json => Format::Json,
        settings::Format::Records => Format::Records,
    }
}

/// Sees to it that all rows have one form.
fn same(format: &mut Option<Format>, chosen: Format, path: &Path) -> Result<()> {
    match format.replace(chosen) {
        Some(before) if before != chosen => {
            bail!("{}: its rows are {chosen:?}, those before are {before:?}: choose one with -t", path.display())
        }
        _ => Ok(()),
    }
}

/// Prints the rows and lines of a log in records as text, or appends them to a log.
fn converted(path: &Path, form: Format, log: Option<&Path>, is_first: bool) -> Result<Exit> {
    let name = file(path);
    if form == Format::Records {
        bail!("{name}: expected another format with -t, since this is a log in records");
    }
    let (lines, mut end) = (Lines::of(form), Exit::Success);
    let mut from = BufReader::with_capacity(PIECE, File::open(path).with_context(|| name.clone())?);
    let mut to: Box<dyn Write> = match log {
        None => Box::new(io::stdout().lock()),
        Some(log) => {
            let to = appended::open_log(log, lines, false, libc::O_CLOEXEC);
            Box::new(to.with_context(|| format!("writing the log {}", log.display()))?)
        }
    };
    let has_header = match log {
        None => !is_first,
        Some(log) => log.metadata().is_ok_and(|data| data.len() > 0),
    };
    let header = if has_header { String::new() } else { lines.header() };
    let damage = |text: &str| {
        end = Exit::Corrupt;
        tell(format_args!("{name}: {text}"));
    };
    to.write_all(header.as_bytes())
        .and_then(|()| packed::print(&mut from, lines, &mut to, damage))
        .with_context(|| format!("writing the rows of {name}"))?;
    Ok(end)
}

/// After a run: writes what the process that left a file of records could not write, and removes the file.
///
/// # Errors
/// When the file cannot be read, or the log cannot be written; then the file stays.
pub(crate) fn finish(left: &Left, child: u32, status: ExitStatus) -> Result<()> {
    let path = &left.path;
    if !path.exists() {
        let runs = || Path::new("/proc").join(left.process.to_string()).exists();
        if !left.in_order && !left.is_told && !runs() {
            tell(format_args!(
                "process {} ended abruptly, and its records are gone ({}): rows that were not in its log are lost",
                left.process,
                path.display()
            ));
        }
        return Ok(());
    }
    let snapshot = read(path)?;
    if snapshot.is_alive() {
        tell(format_args!("process {} still runs: its records are in {}", snapshot.pid, path.display()));
        return Ok(());
    }
    if let Some(origin) = snapshot.origin.as_ref().filter(|_| !snapshot.is_complete()) {
        let how = (snapshot.pid == child).then(|| ended(status, left.in_order));
        let missing = recover::missing(&snapshot, origin.format, how.as_deref());
        let kept = || {
            let (rows, pid, path) = (missing.rows(), snapshot.pid, shell_word(path));
            format!(
                "{rows} rows of process {pid} are not in its log, but in its records: `omniprobe log {path} -l LOG` writes them"
            )
        };
        match &origin.log {
            Some(log) => _ = append(&missing, log, true).with_context(kept)?,
            None => console().and_then(|console| missing.give(&console, STALL)).with_context(kept)?,
        }
    }
    if !snapshot.problems.is_empty() {
        bail!("{}: kept, because it is damaged", file(path));
    }
    std::fs::remove_file(path).with_context(|| format!("removing {}", path.display()))
}

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// How long the reader of standard output may take nothing: people look at pages of it.
const STALL: Duration = Duration::from_secs(60);

fn console() -> io::Result<File> {
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}

fn read(path: &Path) -> Result<Snapshot> {
    let snapshot = Snapshot::read(path).with_context(|| kind::named(path, Kind::Records))?;
    for problem in &snapshot.problems {
        tell(format_args!("{}: {problem}", path.display()));
    }
    let without = snapshot.without_record();
    if without > 0 {
        let damaged = if snapshot.problems.is_empty() { "" } else { ", or their records are damaged" };
        tell(format_args!(
            "{}: {without} of {} dispatches have no row: their packets were never given to the GPU{damaged}",
            file(path),
            snapshot.seen
        ));
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

fn ended(status: ExitStatus, in_order: bool) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}"),
        (None, code) if in_order => {
            format!("ended with status {} and could not write its log whole", code.unwrap_or_default())
        }
        (None, code) => format!("ended with status {} and no regard for destructors", code.unwrap_or_default()),
    }
}
