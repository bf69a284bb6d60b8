//! Where lines go.
//!
//! Only whole lines are written. A file is opened for appending and written in few, large calls, so that several
//! processes can share it; a pipe gets pieces that the kernel keeps together.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use logdur_journal::lines::Lines;
use logdur_journal::quiet::Quiet;
use logdur_settings::{Interceptor, LogLocation};

use crate::records::format;

/// What a pipe takes without letting others in between. Source: POSIX `PIPE_BUF`, on Linux.
const PIPE_PIECE: usize = 4096;
const FILE_PIECE: usize = 64 << 10;
/// How long the lock for the header is waited for: a stopped process may hold it.
const HEADER_WAIT: Duration = Duration::from_secs(1);

/// An open log.
#[derive(Debug)]
pub(crate) enum Sink {
    /// A copy of the application's standard output: what the application opens as descriptor 1 later is not written to.
    Console(File),
    File(File, PathBuf),
    Nowhere,
}

/// Why lines could not be written, and how many bytes of them are in the log all the same.
pub(crate) struct Unwritten {
    pub(crate) error: io::Error,
    pub(crate) before: usize,
}

impl Sink {
    /// Opens a location and writes `header` if it is empty. If that fails, nothing will be written: the reason is
    /// returned, for whoever can still be told.
    pub(crate) fn open(settings: &Interceptor) -> (Sink, Option<String>) {
        let header = Lines::of(format(settings)).header();
        match &settings.log_location {
            LogLocation::Nowhere => (Sink::Nowhere, None),
            LogLocation::Console => match console(&header) {
                Ok(sink) => (sink, None),
                Err(error) => (Sink::Nowhere, Some(format!("standard output cannot be written: {error}"))),
            },
            LogLocation::File(path) => {
                // The application may go to another folder.
                let path = with_pid(path);
                let path = std::path::absolute(&path).unwrap_or(path);
                match file(&path, &header) {
                    Ok(sink) => (sink, None),
                    Err(error) => {
                        (Sink::Nowhere, Some(format!("the log {} cannot be written: {error}", path.display())))
                    }
                }
            }
        }
    }

    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, Sink::Nowhere)
    }

    /// The file that is written to.
    pub(crate) fn path(&self) -> Option<&Path> {
        if let Sink::File(_, path) = self { Some(path) } else { None }
    }

    /// How long the file is.
    pub(crate) fn length(&self) -> u64 {
        if let Sink::File(file, _) = self { file.metadata().map_or(0, |m| m.len()) } else { 0 }
    }

    /// Writes whole lines.
    ///
    /// # Errors
    /// When they cannot be written whole.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), Unwritten> {
        let (file, size) = match self {
            Sink::Nowhere => return Ok(()),
            Sink::Console(file) => (file, PIPE_PIECE),
            Sink::File(file, _) => (file, FILE_PIECE),
        };
        let _quiet = Quiet::new();
        let mut before = 0;
        for piece in pieces(lines, size) {
            write_all(file, piece, &mut before).map_err(|error| Unwritten { error, before })?;
        }
        Ok(())
    }
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

fn console(header: &str) -> io::Result<Sink> {
    // SAFETY: duplicates a descriptor number; no memory is involved.
    let copy: RawFd = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and nobody else has it.
    let mut sink = Sink::Console(unsafe { File::from_raw_fd(copy) });
    sink.write(header.as_bytes()).map_err(|e| e.error)?;
    Ok(sink)
}

fn file(path: &Path, header: &str) -> io::Result<Sink> {
    let _quiet = Quiet::new();
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    if header.is_empty() || !file.metadata()?.is_file() {
        return Ok(Sink::File(file, path.to_owned()));
    }
    // Of several processes that begin together one writes the header.
    let locked = lock(&file);
    if file.metadata()?.len() == 0 {
        file.write_all(header.as_bytes())?;
    }
    if locked {
        // SAFETY: the descriptor is open.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
    }
    Ok(Sink::File(file, path.to_owned()))
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

/// Replaces every `%p` by the process id.
fn with_pid(path: &Path) -> PathBuf {
    let pid = std::process::id().to_string();
    let mut bytes = Vec::new();
    let mut rest = path.as_os_str().as_bytes();
    while let Some(at) = rest.windows(2).position(|w| w == b"%p") {
        bytes.extend_from_slice(&rest[..at]);
        bytes.extend_from_slice(pid.as_bytes());
        rest = &rest[at + 2..];
    }
    bytes.extend_from_slice(rest);
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// Writes everything, counting it in `done`; waits for a reader if the descriptor does not.
fn write_all(file: &mut File, mut bytes: &[u8], done: &mut usize) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                *done += written;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut wait = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
                // SAFETY: one `pollfd`, which the kernel writes during the call.
                unsafe { libc::poll(&mut wait, 1, -1) };
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_process_id_takes_the_place_of_every_percent_p() {
        let pid = std::process::id();
        assert_eq!(with_pid(Path::new("a%p/b%p.c%d")), PathBuf::from(format!("a{pid}/b{pid}.c%d")));
    }

    #[test]
    fn a_reader_that_has_gone_does_not_kill_the_writer() {
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: both descriptors were just made.
        let [reader, writer] = ends.map(|end| unsafe { File::from_raw_fd(end) });
        drop(reader);
        // As in a C program: Rust's tests ignore the signal.
        // SAFETY: restores the default action.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let error = Sink::Console(writer).write(b"line\n").err().unwrap();
        assert_eq!(error.error.kind(), io::ErrorKind::BrokenPipe);
    }
}
