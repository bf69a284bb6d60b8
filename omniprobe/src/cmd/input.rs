//! Logs as subcommands read them.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use logdur_report::Log;

use super::kind::{self, Kind};
use super::progress;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// A log, and where in it the rows begin that are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    /// `-` is the standard input.
    pub(crate) path: PathBuf,
    /// Rows before this byte are another run's.
    pub(crate) from: u64,
}

impl Position {
    /// The beginning of a log.
    pub(crate) fn beginning(path: &Path) -> Position {
        Position { path: path.to_owned(), from: 0 }
    }
}

/// The marks that a process replaces in the names of its files: its id, its rank and its host.
const MARKS: &[&[u8]] = &[b"%p", b"%r", b"%h"];

/// True for a path whose name each process makes its own.
pub(crate) fn has_marks(path: &Path) -> bool {
    path.as_os_str().as_bytes().windows(2).any(|mark| MARKS.contains(&mark))
}

/// Opens logs at their beginning. If a path has marks and no file has exactly this name, it stands for every file that a process
/// made from it, sorted by name.
///
/// # Errors
/// When there are none of those, or the folder cannot be read.
pub(crate) fn logs(paths: &[PathBuf]) -> Result<Vec<Position>> {
    let mut all = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default();
        if !has_marks(Path::new(name)) || path.exists() {
            all.push(Position::beginning(path));
            continue;
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let failed = || format!("{}: expected a folder", folder.display());
        let mut found = Vec::new();
        for entry in folder.read_dir().with_context(failed)? {
            let entry = entry.with_context(failed)?;
            if is_of(name.as_bytes(), entry.file_name().as_bytes()) {
                found.push(Position::beginning(&entry.path()));
            }
        }
        if found.is_empty() {
            bail!("{}: expected logs of processes, found none", path.display());
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        all.append(&mut found);
    }
    Ok(all)
}

/// True for a name that a process can have made of a name with marks. Ids and ranks are digits.
fn is_of(pattern: &[u8], name: &[u8]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [b'%', mark @ (b'p' | b'r' | b'h'), rest @ ..] => {
            let fits = |byte: &u8| *mark == b'h' || byte.is_ascii_digit();
            let longest = name.iter().take_while(|byte| fits(byte)).count();
            (1..=longest).any(|end| name.get(end..).is_some_and(|name| is_of(rest, name)))
        }
        [first, rest @ ..] => name.split_first().is_some_and(|(byte, name)| byte == first && is_of(rest, name)),
    }
}

/// Opens a log, and gives its name and its lines to `with`.
///
/// # Errors
/// When it cannot be read, or is no log.
pub(crate) fn read<E: std::error::Error + Send + Sync + 'static>(
    log: &Position,
    with: impl FnOnce(&str, &mut Log<Box<dyn BufRead>>) -> Result<(), E>,
) -> Result<()> {
    let opened = |input: Box<dyn BufRead>| Log::new(input).appended_after(log.from);
    if log.path == Path::new("-") {
        let name = "standard input";
        return with(name, &mut opened(Box::new(io::stdin().lock()))).context(name);
    }
    let name = log.path.display().to_string();
    let file = File::open(&log.path).with_context(|| name.clone())?;
    let metadata = file.metadata().with_context(|| name.clone())?;
    if metadata.is_dir() {
        bail!("{name}: expected a log, found a folder");
    }
    // Braces would be a template's.
    let shown = name.replace(['{', '}'], "");
    let bar = progress::bar(&format!("{{bytes}} of {{total_bytes}} of {shown}"), metadata.len())?;
    let input = BufReader::with_capacity(PIECE, bar.wrap_read(file));
    let result = with(&name, &mut opened(Box::new(input)));
    bar.finish_and_clear();
    result.with_context(|| kind::named(&log.path, Kind::Log))
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
