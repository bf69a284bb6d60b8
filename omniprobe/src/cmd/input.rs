//! Logs as subcommands read them.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use logdur_report::Log;

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
    result.with_context(|| name)
}
