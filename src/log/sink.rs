//! Where lines go.
//!
//! A sink writes whole lines only. Files are opened for appending and written in few, large calls, so that several processes can share
//! them. Pipes get pieces that Linux writes atomically. Nothing here waits longer than its caller's [`Patience`]: a pipe without a
//! reader and a full disk are errors, and the lines are written later.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use logdur_journal::lines::Lines;
use logdur_journal::quiet::Quiet;
use logdur_settings::{Interceptor, LogLocation};

use crate::descriptors;
use crate::guarded::Guarded;
use crate::process::with_marks;
use crate::records::format;

/// What a pipe takes without letting others in between. Source: POSIX `PIPE_BUF`, on Linux.
const PIPE_PIECE: usize = 4096;
const FILE_PIECE: usize = 64 << 10;
/// How long the lock for the header is waited for: a stopped process may hold it.
const HEADER_WAIT: Duration = Duration::from_secs(1);

/// Reasons why a log cannot be opened now that may go away: a pipe that has no reader yet, no room, no descriptor.
const PASSING: &[i32] = &[
    libc::ENXIO,
    libc::EPIPE,
    libc::ENOSPC,
    libc::EDQUOT,
    libc::EFBIG,
    libc::EIO,
    libc::EAGAIN,
    libc::EINTR,
    libc::EMFILE,
    libc::ENFILE,
    libc::ENOMEM,
    libc::EBADF,
    libc::ESTALE,
];

/// An open log.
#[derive(Debug)]
pub(crate) enum Sink {
    /// A copy of the application's standard output: what the application opens as descriptor 1 later is not written to.
    Console(Console),
    /// A file, a named pipe or a device.
    File(LogFile),
    Nowhere,
}

#[derive(Debug)]
pub(crate) struct Console {
    stdout: Guarded,
    header: Header,
}

#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    /// Absent while it cannot be opened.
    open: Option<Guarded>,
    header: Header,
    /// False where the process has few descriptors: then it is open only while it is written.
    stays_open: bool,
}

/// The first line. A log that is a regular file gets it when it is opened, another before its first line.
#[derive(Debug)]
struct Header {
    text: String,
    written: usize,
}

/// How long a write may wait for a reader that is slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Without any progress.
    pub(crate) stall: Duration,
    /// In all.
    pub(crate) until: Instant,
}

/// Why lines could not be written, and how many bytes of them are in the log all the same.
#[derive(Debug)]
pub(crate) struct Unwritten {
    pub(crate) error: io::Error,
    pub(crate) before: usize,
}

impl Patience {
    /// Waits for nothing.
    pub(crate) fn none() -> Patience {
        Patience { stall: Duration::ZERO, until: Instant::now() }
    }

    /// Waits for progress, but no longer than `total` in all.
    pub(crate) fn of(stall: Duration, total: Duration) -> Patience {
        Patience { stall, until: Instant::now() + total }
    }

    fn left(&self) -> Duration {
        self.stall.min(self.until.saturating_duration_since(Instant::now()))
    }
}

impl Sink {
    /// Opens a location and writes the header if it is an empty file. A log that cannot be opened is described in the
    /// second value. It is tried again if the reason may go away; otherwise the sink is nowhere. `keep` lets it have a
    /// descriptor of its own.
    pub(crate) fn open(settings: &Interceptor, keep: bool) -> (Sink, Option<String>) {
        let header = Header { text: Lines::of(format(settings)).header(), written: 0 };
        match &settings.log_location {
            LogLocation::Nowhere => (Sink::Nowhere, None),
            LogLocation::Console => {
                match (if keep { Guarded::duplicate } else { Guarded::borrow })(libc::STDOUT_FILENO) {
                    Ok(stdout) => (Sink::Console(Console { stdout, header }), None),
                    Err(error) => (Sink::Nowhere, Some(format!("standard output cannot be written: {error}"))),
                }
            }
            LogLocation::File(path) => {
                // The application may go to another folder.
                let path = with_marks(path);
                let path = std::path::absolute(&path).unwrap_or(path);
                let mut file = LogFile { path, open: None, header, stays_open: keep };
                let problem =
                    |file: &LogFile, error| format!("the log {} cannot be written: {error}", file.path.display());
                let opened = file.open().map(drop);
                file.rest();
                match opened {
                    Ok(()) => (Sink::File(file), None),
                    Err(error) if is_passing(&error) => {
                        // A named pipe that no reader has opened yet is not reported.
                        let told = error.raw_os_error() != Some(libc::ENXIO);
                        let problem = told.then(|| problem(&file, error));
                        (Sink::File(file), problem)
                    }
                    Err(error) => (Sink::Nowhere, Some(problem(&file, error))),
                }
            }
        }
    }

    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, Sink::Nowhere)
    }

    /// The file that is written to.
    pub(crate) fn path(&self) -> Option<&Path> {
        if let Sink::File(file) = self { Some(&file.path) } else { None }
    }

    /// How long the file is.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Sink::File(LogFile { open: Some(open), .. }) if open.is_ours() => open.length(),
            Sink::File(file) => file.path.metadata().map_or(0, |m| m.len()),
            Sink::Console(_) | Sink::Nowhere => 0,
        }
    }

    /// True while a thread that runs beside the application had better not open the log.
    pub(crate) fn must_wait(&self) -> bool {
        matches!(self, Sink::File(file) if !file.stays_open) && !descriptors::may_borrow_one()
    }

    /// Writes whole lines.
    ///
    /// # Errors
    /// When they cannot be written whole.
    pub(crate) fn write(&mut self, lines: &[u8], patience: Patience) -> Result<(), Unwritten> {
        let written = self.write_open(lines, patience);
        if let Sink::File(file) = self {
            file.rest();
        }
        written
    }

    fn write_open(&mut self, lines: &[u8], patience: Patience) -> Result<(), Unwritten> {
        let _quiet = Quiet::new();
        let opened = match self {
            Sink::Nowhere => return Ok(()),
            Sink::Console(console) => console.open().map(|()| (&console.stdout, &mut console.header)),
            Sink::File(file) => file.open(),
        };
        let (to, header) = opened.map_err(|error| Unwritten { error, before: 0 })?;
        let size = if to.may_block() { PIPE_PIECE } else { FILE_PIECE };
        let rest = &header.text.as_bytes()[header.written..];
        write_all(to, rest, &mut header.written, patience).map_err(|error| Unwritten { error, before: 0 })?;
        let mut before = 0;
        for piece in pieces(lines, size) {
            write_all(to, piece, &mut before, patience).map_err(|error| Unwritten { error, before })?;
        }
        Ok(())
    }
}

impl Console {
    /// Sees to it that the descriptor is the application's first standard output.
    fn open(&mut self) -> io::Result<()> {
        if !self.stdout.is_ours() {
            if !self.stdout.is_same_as(libc::STDOUT_FILENO) {
                return Err(io::Error::from_raw_os_error(libc::EBADF));
            }
            self.stdout = Guarded::duplicate(libc::STDOUT_FILENO)?;
        }
        Ok(())
    }
}

impl LogFile {
    /// Closes the file, where the process has few descriptors. A pipe's reader would take that for the end.
    fn rest(&mut self) {
        let stays_open = self.stays_open;
        self.open = self.open.take().filter(|open| stays_open || open.may_block());
    }

    /// Opens the file, unless it is open. Of a regular file that is empty it writes the header.
    fn open(&mut self) -> io::Result<(&Guarded, &mut Header)> {
        let open = match self.open.take().filter(Guarded::is_ours) {
            Some(open) => open,
            None => {
                let open = open_log(&self.path, self.header.text.as_bytes())?;
                // A pipe's new reader gets it, too.
                self.header.written = if open.may_block() { 0 } else { self.header.text.len() };
                open
            }
        };
        Ok((self.open.insert(open), &mut self.header))
    }
}

fn open_log(path: &Path, header: &[u8]) -> io::Result<Guarded> {
    let _quiet = Quiet::new();
    // A named pipe that has no reader would be waited for, and so would a terminal's line.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let mut file = OpenOptions::new().append(true).create(true).custom_flags(flags).open(path)?;
    if header.is_empty() || !file.metadata()?.is_file() {
        return Guarded::of(&file);
    }
    // Of several processes that begin together one writes the header.
    let locked = lock(&file);
    if file.metadata()?.len() == 0
        && let Err(error) = file.write_all(header)
    {
        // Half a header would keep the next one from being written.
        let _ = file.set_len(0);
        return Err(error);
    }
    let guarded = Guarded::of(&file);
    if locked {
        // The lock belongs to what both descriptors share, and does not go with the one.
        // SAFETY: the descriptor is open.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
    }
    guarded
}

fn is_passing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WriteZero || error.raw_os_error().is_some_and(|number| PASSING.contains(&number))
}

/// Cuts lines into pieces of whole lines, each of at most `size` bytes if its lines allow.
fn pieces(mut lines: &[u8], size: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let ends = |bytes: &[u8]| bytes.iter().rposition(|&b| b == b'\n').map(|at| at + 1);
        let end = match lines.len() {
            0 => return None,
            length if length <= size => length,
            _ => ends(&lines[..size])
                .or_else(|| lines.iter().position(|&b| b == b'\n').map(|at| at + 1))
                .unwrap_or(lines.len()),
        };
        let (piece, rest) = lines.split_at(end);
        lines = rest;
        Some(piece)
    })
}

fn lock(file: &File) -> bool {
    let start = Instant::now();
    loop {
        // SAFETY: the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return true;
        }
        if start.elapsed() > HEADER_WAIT || io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Writes everything, counting it in `done`; waits for a slow reader as long as there is patience.
fn write_all(to: &Guarded, mut bytes: &[u8], done: &mut usize, patience: Patience) -> io::Result<()> {
    while !bytes.is_empty() {
        // The application's standard output may be a descriptor that waits.
        if to.may_block() && !to.wait(Duration::ZERO) && !to.wait(patience.left()) {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        match to.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                *done += written;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // Another writer was faster.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !patience.left().is_zero() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::FromRawFd;

    use super::*;

    fn pipe() -> (File, Sink) {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: both descriptors were just made.
        let [reader, writer] = ends.map(|end| unsafe { File::from_raw_fd(end) });
        let header = Header { text: String::new(), written: 0 };
        (reader, Sink::Console(Console { stdout: Guarded::of(&writer).unwrap(), header }))
    }

    #[test]
    fn pieces_are_whole_lines() {
        let cut = |text: &'static str, size| {
            pieces(text.as_bytes(), size).map(|p| std::str::from_utf8(p).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(cut("ab\ncd\nef\n", 6), ["ab\ncd\n", "ef\n"]);
        assert_eq!(cut("abcdefgh\nij\n", 4), ["abcdefgh\n", "ij\n"]);
        assert_eq!(cut("", 4), Vec::<&str>::new());
    }

    #[test]
    fn a_reader_that_has_gone_does_not_kill_the_writer() {
        let (reader, mut sink) = pipe();
        drop(reader);
        // As in a C program: Rust's tests ignore the signal.
        // SAFETY: restores the default action.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let error = sink.write(b"line\n", Patience::none()).err().unwrap();
        assert_eq!(error.error.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_reader_that_does_not_read_is_not_waited_for_and_gets_whole_pieces() {
        let (reader, mut sink) = pipe();
        let lines = b"0123456\n".repeat(20_000);
        let unwritten = sink.write(&lines, Patience::none()).unwrap_err();
        assert!(
            is_passing(&unwritten.error) && unwritten.before > 0 && unwritten.before % PIPE_PIECE == 0,
            "{unwritten:?}"
        );
        drop(reader);
    }
}
