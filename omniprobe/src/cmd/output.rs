//! Standard output, and names as they are written there.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use logdur_journal::names;

/// Lines on standard output, with control characters escaped: names of files and of kernels are others' data. It is no error when
/// the reader closes it.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn lines(lines: impl IntoIterator<Item = String>) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let write = || {
        for line in lines {
            writeln!(out, "{}", printable(&line))?;
        }
        out.flush()
    };
    match write() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("writing to standard output"),
    }
}

/// Says something on stderr. Control characters are escaped, and only the first line begins at the margin: a name in the text can
/// neither command the terminal nor look like another message.
pub(crate) fn tell(text: impl Display) {
    eprintln!("omniprobe: {}", message(&text.to_string()));
}

fn message(text: &str) -> String {
    let text = printable(text.trim_end());
    let indented = |line: &str| if line.starts_with(' ') { line.to_owned() } else { format!("    {line}") };
    let mut lines = text.split('\n');
    let first = lines.next().unwrap_or_default().to_owned();
    std::iter::once(first).chain(lines.map(indented)).collect::<Vec<_>>().join("\n")
}

/// A text for a terminal: control characters are escaped, but for tabs and line breaks.
pub(crate) fn printable(text: &str) -> String {
    let kept = ['\t', '\n'];
    text.split_inclusive(kept).fold(String::with_capacity(text.len()), |all, part| match part.strip_suffix(kept) {
        Some(inner) => all + &names::escaped(inner) + part.get(inner.len()..).unwrap_or_default(),
        None => all + &names::escaped(part),
    })
}

/// A path as a part of a line: line breaks are escaped, too.
pub(crate) fn file(path: &Path) -> String {
    names::escaped(&path.display().to_string())
}

/// A kernel's name as people write it.
pub(crate) fn demangled(name: &str) -> String {
    names::one_line(&names::demangle(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_message_neither_commands_the_terminal_nor_looks_like_another_message() {
        let name = "a\x1b[2Jb\r\nomniprobe: PASS\u{202e}";
        assert_eq!(message(name), "a\\u001b[2Jb\\u000d\n    omniprobe: PASS\\u202e");
    }
}
