//! The pipe, or the file, through which the library sends notices for the user to `omniprobe` (see [`Interceptor::hello`]).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use logdur_journal::Records;
use logdur_settings::{HelloLine, Interceptor};
use logdur_system::signals::Quiet;
use logdur_system::text::one_line;
use logdur_system::trust::{mistrust, user};

use super::Sink;

/// How often it is tried to write to a pipe that is full, and how long each attempt waits: a stopped `omniprobe` reads nothing.
const ATTEMPTS: (u32, Duration) = (200, Duration::from_millis(1));

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
    let loaded = problem.map_or(HelloLine::Loaded, |problem| HelloLine::Notice(one_line(problem)));
    let log = sink.path().map(|path| HelloLine::Log { length: sink.length(), path: path.to_owned() });
    let kept = records.path().map(|path| HelloLine::Records(path.to_owned()));
    let not_kept = no_file.map(|reason| HelloLine::NoRecords(one_line(reason)));
    let lines: Vec<HelloLine> = [Some(loaded), log, kept, not_kept].into_iter().flatten().collect();
    add(path, &lines);
}

/// Adds lines. What cannot be written is lost; then omniprobe says that the library was not loaded, and which file.
pub(crate) fn add(path: &Path, lines: &[HelloLine]) {
    let _quiet = Quiet::new();
    let process = std::process::id();
    if let Ok(mut file) = open(path) {
        // Each by itself: a pipe takes a short one at once, whoever else writes.
        let _ = lines.iter().try_for_each(|line| write(&mut file, &line.to_bytes(process)));
    }
}

fn write(file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
    let (attempts, pause) = ATTEMPTS;
    for _ in 0..attempts {
        match file.write(bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(pause),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if bytes.is_empty() {
            return Ok(());
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Opens what `omniprobe` has made. A link, another user's pipe or another user's file in its place is nothing to write to.
fn open(path: &Path) -> io::Result<File> {
    // Descriptors of other processes are links.
    let follow = if path.starts_with("/proc") { 0 } else { libc::O_NOFOLLOW };
    let mut options = OpenOptions::new();
    options.append(true).custom_flags(follow | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC);
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    let is_our_pipe = metadata.file_type().is_fifo() && metadata.uid() == user();
    match mistrust(&metadata).filter(|_| !is_our_pipe) {
        Some(reason) => Err(io::Error::other(reason)),
        None => Ok(file),
    }
}
