//! The file through which the library sends notices for the user to `omniprobe` (see [`Interceptor::hello`]).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use logdur_journal::Records;
use logdur_journal::names::one_line;
use logdur_journal::trust::mistrust;
use logdur_settings::{Interceptor, LOG_AT, NO_RECORDS, RECORDS_AT, to_line};

use super::Sink;

/// Tells that the library was loaded, whether its log can be written, where that is, and where the records are, or why they end
/// with the process.
pub(super) fn say(
    settings: &Interceptor,
    problem: Option<&str>,
    sink: &Sink,
    records: &Records,
    no_file: Option<&str>,
) {
    let Some(path) = &settings.hello else { return };
    let pid = std::process::id();
    let mut text = format!("{pid} {}\n", problem.map_or("ok".to_owned(), one_line)).into_bytes();
    if let Some(path) = sink.path() {
        text.extend_from_slice(format!("{pid} {LOG_AT} {} ", sink.length()).as_bytes());
        text.extend_from_slice(&to_line(path));
        text.push(b'\n');
    }
    if let Some(path) = records.path() {
        text.extend_from_slice(format!("{pid} {RECORDS_AT} ").as_bytes());
        text.extend_from_slice(&to_line(path));
        text.push(b'\n');
    }
    if let Some(reason) = no_file {
        text.extend_from_slice(format!("{pid} {NO_RECORDS} {}\n", one_line(reason)).as_bytes());
    }
    append(path, &text);
}

/// Adds a line.
pub(crate) fn add(path: &Path, line: &str) {
    append(path, format!("{} {line}\n", std::process::id()).as_bytes());
}

fn append(path: &Path, text: &[u8]) {
    if let Ok(mut file) = open(path) {
        // Lost if the file cannot be written; then omniprobe says that the library was not loaded, and which file.
        let _ = file.write_all(text);
    }
}

/// Opens the file that `omniprobe` has made. A link, a pipe or another user's file in its place is nothing to write to.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
    let file = options.open(path)?;
    match mistrust(&file.metadata()?) {
        Some(reason) => Err(io::Error::other(reason)),
        None => Ok(file),
    }
}
