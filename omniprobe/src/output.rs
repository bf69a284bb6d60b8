//! Standard output and standard error, and names as they are written there. Nothing else in this program writes to either: a stream
//! that is closed or full ends no run.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use logdur_journal::names;
use logdur_system::text;

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
    taken(write())
}

/// Bytes on standard output, as they are. It is no error when the reader closes it.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    taken(out.write_all(bytes).and_then(|()| out.flush()))
}

/// What the stream of results made of them.
fn taken(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("writing to standard output"),
    }
}

/// Says something on stderr. Control characters are escaped, and only the first line begins at the margin: a name in the text can
/// neither command the terminal nor look like another message.
pub(crate) fn tell(text: impl Display) {
    aside(format!("omniprobe: {}\n", message(&text.to_string())).as_bytes());
}

/// Bytes on stderr, as they are. If stderr does not take them, there is nowhere else to say so.
pub(crate) fn aside(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
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
        Some(inner) => all + &text::escaped(inner) + part.get(inner.len()..).unwrap_or_default(),
        None => all + &text::escaped(part),
    })
}

/// A path as a part of a line: line breaks are escaped, too.
pub(crate) fn file(path: &Path) -> String {
    text::escaped(&path.display().to_string())
}

/// A kernel's name as people write it.
pub(crate) fn demangled(name: &str) -> String {
    text::one_line(&names::demangle(name))
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
