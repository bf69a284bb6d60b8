//! Where handlers write.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use logdur_journal::appended;
use logdur_settings::LogLocation;

use crate::guarded::Guarded;
use crate::process::with_marks;

/// What a pipe that can be written takes without waiting. Source: POSIX `PIPE_BUF`, on Linux.
const PIPE_PIECE: usize = 4096;
/// How long a reader is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the settings say, and the standard output that the process was started with.
pub(super) struct OutputTarget {
    location: LogLocation,
    stdout: Option<Guarded>,
}

/// An open output.
pub(super) enum Output {
    Console(Option<Guarded>),
    File(PathBuf, Option<Guarded>),
    Nowhere,
}

impl OutputTarget {
    pub(super) fn new(location: &LogLocation) -> OutputTarget {
        let console = *location == LogLocation::Console;
        let stdout = console.then(|| Guarded::duplicate(libc::STDOUT_FILENO).ok()).flatten();
        let location = match location {
            // The application may go to another folder before the first report.
            LogLocation::File(path) => {
                let path = with_marks(path);
                LogLocation::File(std::path::absolute(&path).unwrap_or(path))
            }
            other => other.clone(),
        };
        OutputTarget { location, stdout }
    }

    /// Nothing is opened before it is written to.
    pub(super) fn open(&self) -> Output {
        match &self.location {
            LogLocation::Console => {
                Output::Console(self.stdout.as_ref().and_then(|stdout| Guarded::duplicate(stdout.number()).ok()))
            }
            LogLocation::File(path) => Output::File(path.clone(), None),
            LogLocation::Nowhere => Output::Nowhere,
        }
    }
}

impl Output {
    /// The file.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Output::File(path, _) => Some(path),
            Output::Nowhere => Some(Path::new("/dev/null")),
            Output::Console(_) => None,
        }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Output::Nowhere => Ok(()),
            Output::Console(None) => Err(io::ErrorKind::NotFound.into()),
            Output::Console(Some(stdout)) if stdout.is_ours() => write_patiently(stdout, bytes),
            Output::Console(Some(_)) => Err(io::Error::other("standard output is another file now")),
            Output::File(path, file) => {
                let open = match file.take().filter(Guarded::is_ours) {
                    Some(open) => open,
                    None => open(path)?,
                };
                write_patiently(file.insert(open), bytes)
            }
        }
    }
}

/// Opens a file for appending. A named pipe without a reader is an error: waves would wait for the reader.
fn open(path: &Path) -> io::Result<Guarded> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    Guarded::of(&appended::open(path, false, flags)?)
}

/// Writes to what may have a slow reader. The drain thread must not wait for one that reads nothing: waves would wait with it.
fn write_patiently(to: &Guarded, bytes: &[u8]) -> io::Result<()> {
    if !to.may_block() {
        return to.write_all(bytes);
    }
    if !to.take_turn(Instant::now() + PATIENCE) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let mut pieces = bytes.chunks(PIPE_PIECE);
    let written =
        pieces.try_for_each(
            |piece| {
                if to.wait(PATIENCE) { to.write_all(piece) } else { Err(io::ErrorKind::TimedOut.into()) }
            },
        );
    to.end_turn();
    written
}
