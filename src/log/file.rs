//! A log that is a file, a named pipe or a device.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use logdur_journal::appended;
use logdur_journal::lines::Lines;
use logdur_system::signals::Quiet;

use super::sink::{Header, Patience, Unwritten, write_to};
use crate::guarded::Guarded;

/// How long the lock for the header is waited for: a stopped process may hold it.
const HEADER_WAIT: Duration = Duration::from_secs(1);

/// The log, while it is open and while it is not.
#[derive(Debug)]
pub(crate) struct LogFile {
    pub(super) path: PathBuf,
    /// Absent while it cannot be opened.
    pub(super) open: Option<Guarded>,
    pub(super) header: Header,
    /// Lines that a regular file gets behind the header if it has to begin anew: what does not repeat.
    pub(super) preamble: Vec<u8>,
    /// Length of a regular file when it was last written.
    pub(super) length: u64,
    /// The file was deleted or shortened by others since it was asked.
    pub(super) began_anew: bool,
    /// False where the process has few descriptors: then it is open only while it is written.
    pub(super) stays_open: bool,
}

impl LogFile {
    /// A log that is not opened yet.
    pub(super) fn new(path: PathBuf, header: Header, stays_open: bool) -> LogFile {
        LogFile { path, open: None, header, preamble: Vec::new(), length: 0, began_anew: false, stays_open }
    }

    /// Opens it, and writes the header if it is an empty file.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        let opened = self.open().map(drop);
        self.rest();
        opened
    }

    /// How long it is.
    pub(super) fn length(&self) -> u64 {
        match &self.open {
            Some(open) if open.is_ours() => open.length(),
            _ => self.path.metadata().map_or(0, |about| about.len()),
        }
    }

    /// Looks at a regular file before it is written: true if others have deleted or shortened it since the last look. It begins anew,
    /// or will.
    pub(super) fn began_anew(&mut self) -> bool {
        if self.length > 0 {
            // An error is told when there is something to write.
            let _ = self.begin();
        }
        std::mem::take(&mut self.began_anew)
    }

    /// Writes whole lines.
    pub(super) fn write(&mut self, lines: &[u8], patience: Patience) -> Result<(), Unwritten> {
        let written = match self.open() {
            Ok((to, header)) => write_to(to, header, lines, false, patience),
            Err(error) => Err(Unwritten { error, before: 0 }),
        };
        let has_gone = written.as_ref().is_err_and(|unwritten| unwritten.error.kind() == io::ErrorKind::BrokenPipe);
        if has_gone && self.header.lines.are_packed() {
            // The next reader needs what stands at the beginning.
            self.open = None;
        }
        self.rest();
        written
    }

    /// Closes the file, where the process has few descriptors. A pipe's reader would take that for the end.
    fn rest(&mut self) {
        self.length = self.open.as_ref().filter(|open| open.is_ours()).map_or(self.length, Guarded::length);
        let stays_open = self.stays_open;
        self.open = self.open.take().filter(|open| stays_open || open.may_block());
    }

    /// Opens the file, unless it is open. A regular file that is empty gets the header.
    fn open(&mut self) -> io::Result<(&Guarded, &mut Header)> {
        let (length, mut is_deleted) = (self.length, false);
        let is_whole = |open: &Guarded| open.may_block() || open.length() >= length;
        let is_there = |open: &Guarded| {
            is_deleted = !open.may_block() && open.is_deleted();
            !is_deleted
        };
        let open = match self.open.take().filter(Guarded::is_ours).filter(is_there).filter(is_whole) {
            Some(open) => open,
            None => {
                let text = self.header.text.as_slice();
                // An earlier version has other columns.
                let is_other =
                    length == 0 && appended::header(&self.path).is_some_and(|first| !text.starts_with(&first));
                let open =
                    open_log(&self.path, self.header.lines, (text, is_other), &self.preamble).inspect_err(|_| {
                        // What it had is gone, whenever it can be opened again.
                        self.began_anew |= is_deleted;
                    })?;
                self.began_anew |= is_deleted || !is_whole(&open);
                if self.header.lines.are_packed() && open.may_block() {
                    // A pipe's new reader has no names.
                    self.header.text.clone_from(&self.preamble);
                }
                // A pipe's new reader gets it, too.
                self.header.written = if open.may_block() { 0 } else { self.header.text.len() };
                open
            }
        };
        Ok((self.open.insert(open), &mut self.header))
    }
}

/// Opens a log. A regular file that is empty gets the header and the lines behind it; one that begins with another header gets this one, too.
fn open_log(path: &Path, lines: Lines, (header, is_other): (&[u8], bool), preamble: &[u8]) -> io::Result<Guarded> {
    let _quiet = Quiet::new();
    // A named pipe that has no reader would be waited for, and so would a terminal's line.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
    let mut file = appended::open_log(path, lines, false, flags)?;
    if header.len() + preamble.len() == 0 || !file.metadata()?.is_file() {
        return Guarded::of(&file);
    }
    // Of several processes that begin together one writes the header.
    let locked = lock(&file);
    if file.metadata()?.len() == 0
        && let Err(error) = file.write_all(header).and_then(|()| file.write_all(preamble))
    {
        // Half a header would keep the next one from being written.
        let _ = file.set_len(0);
        return Err(error);
    }
    if is_other {
        file.write_all(header)?;
    }
    let guarded = Guarded::of(&file);
    if locked {
        // The lock belongs to what both descriptors share, and does not go with the one.
        // SAFETY: the descriptor is open.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
    }
    guarded
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
