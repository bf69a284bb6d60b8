//! Standard output, and names as they are written there.

use std::io::{self, Write};

use anyhow::{Context, Result};
use logdur_journal::names;

/// Lines on standard output. Whoever closes it has seen enough.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn lines(lines: impl IntoIterator<Item = String>) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let write = || {
        for line in lines {
            writeln!(out, "{line}")?;
        }
        out.flush()
    };
    match write() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("writing to standard output"),
    }
}

/// A kernel's name as people write it.
pub(crate) fn demangled(name: &str) -> String {
    names::one_line(&names::demangle(name))
}
