//! `omniprobe log --list` and `--clean`: the files of records of this user.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use logdur_journal::left;
use logdur_journal::lines::Format;
use logdur_journal::recover;
use logdur_journal::snapshot::Snapshot;
use logdur_settings::{Interceptor, RecordsLocation};
use logdur_system::text::shell_word;
use logdur_system::trust::mistrust;
use omniprobe_exit::Exit;

use crate::output::{file, lines, tell};

/// A file of records.
struct Left {
    path: PathBuf,
    pid: u32,
    is_alive: bool,
    /// Rows that the log lacks.
    rows: usize,
    is_damaged: bool,
    bytes: u64,
    log: Option<PathBuf>,
}

/// Lists the files.
///
/// # Errors
/// When standard output cannot be written.
pub(super) fn list() -> Result<Exit> {
    let mut all =
        vec![format!("{:>8}  {:<7}  {:>9}  {:>9}  {:<24}  {}", "process", "state", "rows", "KiB", "log", "file")];
    all.extend(found()?.iter().map(|left| {
        let state = if left.is_alive { "runs" } else { "ended" };
        let log = left.log.as_ref().map_or("standard output".to_owned(), |log| file(log));
        let (pid, rows, size) = (left.pid, left.rows, left.bytes.div_ceil(1024));
        format!("{pid:>8}  {state:<7}  {rows:>9}  {size:>9}  {log:<24}  {}", file(&left.path))
    }));
    if all.len() == 1 {
        tell("no process of this user has left a file of records");
        return Ok(Exit::Success);
    }
    lines(all)?;
    Ok(Exit::Success)
}

/// Removes the files of processes that have ended and owe no row. Names those that are kept.
///
/// # Errors
/// When a file cannot be removed.
pub(super) fn clean() -> Result<Exit> {
    for left in found()? {
        let (path, pid) = (file(&left.path), left.pid);
        if left.is_alive {
            tell(format_args!("{path}: kept, process {pid} still runs"));
        } else if left.is_damaged {
            tell(format_args!("{path}: kept, it is damaged: `omniprobe log` shows what can be read"));
        } else if left.rows > 0 {
            let rows = left.rows;
            let word = shell_word(&left.path);
            tell(format_args!(
                "{path}: kept, the log of process {pid} lacks {rows} rows: `omniprobe log {word} -l LOG` writes them"
            ));
        } else {
            fs::remove_file(&left.path).with_context(|| format!("removing {path}"))?;
            lines([format!("{}: removed", file(&left.path))])?;
        }
    }
    Ok(Exit::Success)
}

/// The files of this user, in the folders where processes make them. Files that cannot be read are named on stderr.
fn found() -> Result<Vec<Left>> {
    let (settings, _) = Interceptor::from(|name| std::env::var_os(name));
    let folders = match settings.records {
        RecordsLocation::Folder(folder) => vec![folder],
        RecordsLocation::Nowhere => bail!("{} is empty: no process makes a file of records", Interceptor::records),
        RecordsLocation::Default => left::default_folders(),
    };
    let mut all = Vec::new();
    for folder in folders {
        let paths = match left::in_folder(&folder) {
            Ok(paths) => paths,
            Err(error) => {
                tell(format_args!("{}: {error}", folder.display()));
                continue;
            }
        };
        for path in paths {
            match read(&path) {
                Ok(left) => all.extend(left),
                Err(error) => tell(format_args!("{error:#}")),
            }
        }
    }
    Ok(all)
}

/// What is in a file; nothing if it is another user's.
fn read(path: &Path) -> Result<Option<Left>> {
    let data = path.symlink_metadata().with_context(|| path.display().to_string())?;
    if mistrust(&data).is_some() {
        return Ok(None);
    }
    let snapshot = Snapshot::read(path).with_context(|| path.display().to_string())?;
    let origin = snapshot.origin.as_ref();
    let missing = recover::missing(&snapshot, origin.map_or(Format::Csv, |origin| origin.format), None);
    let log = origin.and_then(|origin| origin.log.clone());
    Ok(Some(Left {
        path: path.to_owned(),
        pid: snapshot.pid,
        is_alive: snapshot.is_alive(),
        rows: log.as_deref().map_or_else(|| missing.rows(), |log| missing.rows_not_in(log)),
        is_damaged: !snapshot.problems.is_empty(),
        bytes: data.len(),
        log,
    }))
}
