//! Logs as subcommands read them.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use logdur_report::{LastRun, Log};
use logdur_rocprof::database;
use logdur_rocprof::trace::{self, Table};
pub(crate) use logdur_system::marks::has_marks;
use logdur_system::marks::made_of;
use omniprobe_exit::Exit;

use super::kind::{self, Kind};
use super::progress;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// A log, and where in it the rows begin that are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    /// `-` is the standard input.
    pub(crate) path: PathBuf,
    /// What of it is read: all by default.
    pub(crate) run: LastRun,
}

impl Position {
    /// The beginning of a log.
    pub(crate) fn beginning(path: &Path) -> Position {
        Position { path: path.to_owned(), run: LastRun::default() }
    }

    /// The last run in it.
    ///
    /// # Errors
    /// When the log cannot be read twice, or not at all.
    pub(crate) fn last(self) -> Result<Position> {
        let name = super::output::file(&self.path);
        if !self.path.metadata().is_ok_and(|data| data.is_file()) {
            bail!("--last: expected a file, which can be read twice, found {name}");
        }
        let file = File::open(&self.path).with_context(|| name.clone())?;
        let found = logdur_report::last_run(&mut Log::new(BufReader::with_capacity(PIECE, file)));
        match found.with_context(|| kind::named(&self.path, Kind::Log))? {
            Some(run) => Ok(Position { run, ..self }),
            None => {
                super::output::tell(format_args!("{name}: no line tells its runs apart: all rows are taken"));
                Ok(self)
            }
        }
    }
}

/// Which rows of logs.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Which {
    /// Of a log with several runs of `omniprobe`, take the rows of the last one only.
    #[arg(long)]
    last: bool,
}

impl Which {
    /// What of a log is read.
    ///
    /// # Errors
    /// When the last run cannot be found.
    pub(crate) fn of(self, log: Position) -> Result<Position> {
        if self.last { log.last() } else { Ok(log) }
    }

    /// What of logs is read.
    ///
    /// # Errors
    /// As above.
    pub(crate) fn of_all(self, logs: Vec<Position>) -> Result<Vec<Position>> {
        logs.into_iter().map(|log| self.of(log)).collect()
    }
}

/// The status of logs together: one that lacks rows is enough.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wholeness {
    lacks_rows: bool,
}

impl Wholeness {
    /// Reads a log: see [`read`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn read<E: std::error::Error + Send + Sync + 'static>(
        &mut self,
        log: &Position,
        with: impl FnOnce(&str, &mut Log<Box<dyn BufRead>>) -> Result<(), E>,
    ) -> Result<()> {
        self.lacks_rows |= read(log, with)? == Exit::Corrupt;
        Ok(())
    }

    /// The status of an end that would be `end` with all rows. What says that something was found stays.
    pub(crate) fn status(self, end: Exit) -> Exit {
        match end {
            Exit::Success | Exit::NothingToCompare | Exit::Inconclusive if self.lacks_rows => Exit::Corrupt,
            end => end,
        }
    }
}

/// Says that logs have no row to show.
pub(crate) fn nothing(logs: &[Position]) -> Exit {
    let names: Vec<String> = logs.iter().map(|log| super::output::file(&log.path)).collect();
    super::output::tell(format_args!("{}: no rows", names.join(", ")));
    Exit::NothingToCompare
}

/// The files of logs.
pub(crate) fn paths(logs: &[Position]) -> Vec<&Path> {
    logs.iter().map(|log| log.path.as_path()).collect()
}

/// Opens logs at their beginning. If a path has marks and no file has exactly this name, it stands for every file that a process
/// made from it, sorted by name.
///
/// # Errors
/// When there are none of those, or the folder cannot be read.
pub(crate) fn logs(paths: &[PathBuf]) -> Result<Vec<Position>> {
    let mut all = Vec::new();
    for path in paths {
        match made_of(path)? {
            Some(found) => all.extend(found.iter().map(|path| Position::beginning(path))),
            None => all.push(Position::beginning(path)),
        }
    }
    Ok(all)
}

/// Opens a log, and gives its name and its lines to `with`. The status says whether all rows were there that its accounts have.
///
/// # Errors
/// When it cannot be read, or is no log.
fn read<E: std::error::Error + Send + Sync + 'static>(
    log: &Position,
    with: impl FnOnce(&str, &mut Log<Box<dyn BufRead>>) -> Result<(), E>,
) -> Result<Exit> {
    let opened = |input: Box<dyn BufRead>| Log::new(input).of_run(log.run.clone());
    if log.path == Path::new("-") {
        let name = "standard input";
        let mut lines = opened(Box::new(io::stdin().lock()));
        with(name, &mut lines).context(name)?;
        return Ok(doubts(name, &lines, log));
    }
    let name = log.path.display().to_string();
    let file = File::open(&log.path).with_context(|| name.clone())?;
    let metadata = file.metadata().with_context(|| name.clone())?;
    if metadata.is_dir() {
        bail!("{name}: expected a log, found a folder");
    }
    if let Some(input) = rocprofilers(&log.path).with_context(|| name.clone())? {
        let mut lines = opened(input);
        with(&name, &mut lines).with_context(|| name.clone())?;
        return Ok(doubts(&name, &lines, log));
    }
    // Braces would be a template's.
    let shown = name.replace(['{', '}'], "");
    let bar = progress::bar(&format!("{{bytes}} of {{total_bytes}} of {shown}"), metadata.len())?;
    let input = BufReader::with_capacity(PIECE, bar.wrap_read(file));
    let mut lines = opened(Box::new(input));
    let result = with(&name, &mut lines);
    bar.finish_and_clear();
    result.with_context(|| kind::named(&log.path, Kind::Log))?;
    Ok(doubts(&name, &lines, log))
}

/// The lines of a file of rocprofiler-sdk's; `None` if it is none.
fn rocprofilers(path: &Path) -> Result<Option<Box<dyn BufRead>>> {
    if !path.is_file() {
        return Ok(None);
    }
    if kind::of(path) == Some(Kind::Database) {
        return Ok(Some(Box::new(database::open(path)?)));
    }
    Ok(match Table::of_file(path)? {
        None => None,
        Some(Table::Sums) => {
            bail!(
                "this table of rocprofv3 has sums; expected one with a row for each kernel, as `kernel_trace.csv` has"
            )
        }
        Some(table) => Some(Box::new(trace::open(path, table)?)),
    })
}

/// Says what a log lacks, and that it has more than one run.
fn doubts<R: BufRead>(name: &str, lines: &Log<R>, log: &Position) -> Exit {
    if lines.missing() > 0 {
        let missing = lines.missing();
        super::output::tell(format_args!(
            "{name}: {missing} rows are missing that were written, as the accounts in it say"
        ));
    }
    if lines.runs() > 1 && log.run == LastRun::default() {
        let runs = lines.runs();
        super::output::tell(format_args!(
            "{name}: {runs} runs in this log, taken together; --last takes the last one only"
        ));
    }
    if lines.missing() > 0 { Exit::Corrupt } else { Exit::Success }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_marks_stands_for_the_logs_of_a_job() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["log.0.a-1.csv", "log.11.b.csv", "log.x.b.csv", "log.0.csv", "log.1.a.csv.old", "log.%r.%p.csv"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let found = |name: &str| {
            let found = logs(&[folder.path().join(name)]).map_err(|error| error.to_string())?;
            Ok::<_, String>(found.into_iter().map(|log| log.path.file_name().unwrap().to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(found("log.%r.%h.csv").unwrap(), ["log.0.a-1.csv", "log.11.b.csv"]);
        // A file of this name is meant itself, and so is one that is not there and has no marks.
        assert_eq!(found("log.%r.%p.csv").unwrap(), ["log.%r.%p.csv"]);
        assert_eq!(found("absent.csv").unwrap(), ["absent.csv"]);
        assert!(found("other.%r").unwrap_err().ends_with("other.%r: expected logs of processes, found none"));
    }
}
