//! Where lines go, or the chunks of a log in records.
//!
//! A sink writes whole lines only, or whole chunks. Files are opened for appending and written in few, large calls, so that several processes can share
//! them. Pipes get pieces that Linux writes atomically, or lines that are longer than that while no other process writes. Nothing here waits longer than its caller's [`Patience`]: a pipe without a
//! reader and a full disk are errors, and the lines are written later.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use logdur_journal::appended;
use logdur_journal::lines::Lines;
use logdur_settings::{Interceptor, LogLocation};
use logdur_system::path::Target;
use logdur_system::signals::Quiet;

use super::writer::format;
use crate::descriptors;
use crate::guarded::Guarded;
use crate::process::with_marks;

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
    /// Which of the application's descriptors it was at first: standard output, mostly.
    number: RawFd,
    /// Its name, if it is not the standard output.
    path: Option<PathBuf>,
    stdout: Guarded,
    header: Header,
}

#[derive(Debug)]
pub(crate) struct LogFile {
    path: PathBuf,
    /// Absent while it cannot be opened.
    open: Option<Guarded>,
    header: Header,
    /// Lines that a regular file gets behind the header if it has to begin anew: what does not repeat.
    preamble: Vec<u8>,
    /// Length of a regular file when it was last written.
    length: u64,
    /// The file was deleted or shortened by others since it was asked.
    began_anew: bool,
    /// False where the process has few descriptors: then it is open only while it is written.
    stays_open: bool,
}

/// The first line. A log that is a regular file gets it when it is opened, another before its first line.
#[derive(Debug)]
struct Header {
    text: Vec<u8>,
    lines: Lines,
    written: usize,
    /// The last line behind it is not whole yet.
    in_line: bool,
    /// How much this process had written in all when the log was written last; `None` before that, or if it is not known.
    after: Option<u64>,
    /// False on the console until there is a dispatch.
    is_due: bool,
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
        let lines = Lines::of(format(settings));
        let header =
            Header { text: lines.header().into_bytes(), lines, written: 0, in_line: false, after: None, is_due: false };
        match &settings.log_location {
            LogLocation::Nowhere => (Sink::Nowhere, None),
            LogLocation::Console => Sink::console(libc::STDOUT_FILENO, None, header, keep),
            LogLocation::File(path) => {
                let path = with_marks(path);
                // What is open already is used as it is: to open it again would write over what is there.
                if let Ok(Target::Descriptor(number)) = Target::of(&path) {
                    let path = (number != libc::STDOUT_FILENO).then_some(path);
                    return Sink::console(number, path, header, keep);
                }
                // The application may go to another folder.
                let path = std::path::absolute(&path).unwrap_or(path);
                let header = Header { is_due: true, ..header };
                let mut file = LogFile {
                    path,
                    open: None,
                    header,
                    preamble: Vec::new(),
                    length: 0,
                    began_anew: false,
                    stays_open: keep,
                };
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

    fn console(number: RawFd, path: Option<PathBuf>, header: Header, keep: bool) -> (Sink, Option<String>) {
        if header.lines.are_packed() {
            let text = format!(
                "a log in records needs a file or a named pipe of its own, which {} names; it does not go to what is open already: there are \
                 no rows",
                Interceptor::log_location
            );
            return (Sink::Nowhere, Some(text));
        }
        match (if keep { Guarded::duplicate } else { Guarded::borrow })(number) {
            Ok(stdout) => (Sink::Console(Console { number, path, stdout, header }), None),
            Err(error) => {
                let name = path.map_or("standard output".to_owned(), |path| path.display().to_string());
                (Sink::Nowhere, Some(format!("{name} cannot be written: {error}")))
            }
        }
    }

    /// From here on there are rows: the console gets the header before the next line.
    pub(crate) fn begin(&mut self) {
        if let Sink::Console(console) = self {
            console.header.is_due = true;
        }
    }

    /// False for a console that is to get nothing but notices yet.
    pub(crate) fn has_begun(&self) -> bool {
        if let Sink::Console(console) = self { console.header.is_due } else { true }
    }

    pub(crate) fn is_nowhere(&self) -> bool {
        matches!(self, Sink::Nowhere)
    }

    /// The file that is written to.
    pub(crate) fn path(&self) -> Option<&Path> {
        if let Sink::File(file) = self { Some(&file.path) } else { None }
    }

    /// What the process's records name as its log; `None` for the standard output.
    pub(crate) fn name(&self) -> Option<&Path> {
        if let Sink::Console(console) = self { console.path.as_deref() } else { self.path() }
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
            let has_gone = written.as_ref().is_err_and(|unwritten| unwritten.error.kind() == io::ErrorKind::BrokenPipe);
            if has_gone && file.header.lines.are_packed() {
                // The next reader needs what stands at the beginning.
                file.open = None;
            }
            file.rest();
        }
        written
    }

    /// Keeps lines for a file that has to begin anew.
    pub(crate) fn remember(&mut self, lines: &[u8]) {
        if let Sink::File(file) = self {
            file.preamble.extend_from_slice(lines);
        }
    }

    /// What was remembered.
    pub(crate) fn preamble(&self) -> &[u8] {
        if let Sink::File(file) = self { &file.preamble } else { &[] }
    }

    /// Looks at a regular file before it is written: true if others have deleted or shortened it since the last look. It begins anew,
    /// or will.
    pub(crate) fn began_anew(&mut self) -> bool {
        let Sink::File(file) = self else { return false };
        if file.length > 0 {
            // An error is told when there is something to write.
            let _ = file.open();
            file.rest();
        }
        std::mem::take(&mut file.began_anew)
    }

    fn write_open(&mut self, lines: &[u8], patience: Patience) -> Result<(), Unwritten> {
        let is_console = matches!(self, Sink::Console(_));
        let opened = match self {
            Sink::Nowhere => return Ok(()),
            Sink::Console(console) => console.open().map(|()| (&console.stdout, &mut console.header)),
            Sink::File(file) => file.open(),
        };
        let (to, header) = opened.map_err(|error| Unwritten { error, before: 0 })?;
        if !to.take_turn(patience.until) {
            return Err(Unwritten { error: io::Error::from_raw_os_error(libc::EAGAIN), before: 0 });
        }
        // The application's last line may lack its end.
        let written = write_lines(to, header, lines, is_console && !header.in_line, patience);
        let before = written.as_ref().err().map_or(lines.len(), |unwritten| unwritten.before);
        if before > 0 {
            header.in_line = !header.lines.end_before(lines, before);
        }
        header.after = if is_console { written_by_process() } else { None };
        // The turn lasts while a line is not whole: nobody else can write to a pipe that is full.
        if !header.in_line {
            to.end_turn();
        }
        written
    }
}

/// Writes lines behind what is left of the header.
fn write_lines(
    to: &Guarded,
    header: &mut Header,
    lines: &[u8],
    begins_line: bool,
    patience: Patience,
) -> Result<(), Unwritten> {
    let size = if to.may_block() { PIPE_PIECE } else { FILE_PIECE };
    let pieces = |left, size| pieces(header.lines, left, size);
    // What a pipe or a terminal has got last cannot be read: an empty line is no harm.
    let is_in_line = || {
        if to.may_block() { header.after.is_none() || header.after != written_by_process() } else { to.is_in_line() }
    };
    let ends_line = Cell::new(begins_line && is_in_line());
    // With the end of the line before it, in one piece: nothing comes between.
    let write = |piece: &[u8], done: &mut usize| {
        if !ends_line.take() {
            return write_all(to, piece, done, patience);
        }
        let mut all = 0;
        let written = write_all(to, &[b"\n", piece].concat(), &mut all, patience);
        *done += all.saturating_sub(1);
        written
    };
    let rest = if header.is_due { &header.text[header.written..] } else { &[] };
    if !rest.is_empty() {
        write(rest, &mut header.written).map_err(|error| Unwritten { error, before: 0 })?;
    }
    let mut before = 0;
    let (size_of_first, mut left) = (size - usize::from(ends_line.get()), lines);
    if let Some(piece) = pieces(left, size_of_first).next() {
        write(piece, &mut before).map_err(|error| Unwritten { error, before })?;
        left = &left[piece.len()..];
    }
    for piece in pieces(left, size) {
        write(piece, &mut before).map_err(|error| Unwritten { error, before })?;
    }
    Ok(())
}

/// How many bytes this process, with the children that it has waited for, has passed to writing system calls.
fn written_by_process() -> Option<u64> {
    // Source: proc_pid_io(5).
    let io = std::fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar: "))?.parse().ok()
}

impl Console {
    /// Sees to it that the descriptor is the application's first standard output.
    fn open(&mut self) -> io::Result<()> {
        if !self.stdout.is_ours() {
            if !self.stdout.is_same_as(self.number) {
                return Err(io::Error::from_raw_os_error(libc::EBADF));
            }
            self.stdout = Guarded::duplicate(self.number)?;
        }
        Ok(())
    }
}

impl LogFile {
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

fn is_passing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WriteZero || error.raw_os_error().is_some_and(|number| PASSING.contains(&number))
}

/// Cuts lines into pieces of whole lines, each of at most `size` bytes if its lines allow.
fn pieces(form: Lines, mut lines: &[u8], size: usize) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        if lines.is_empty() {
            return None;
        }
        let (piece, rest) = lines.split_at(form.piece(lines, size));
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
        // What is ready takes a page without waiting, even if the descriptor is one that waits.
        let most = if to.may_block() { bytes.len().min(PIPE_PIECE) } else { bytes.len() };
        match to.write(&bytes[..most]) {
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
    use std::os::fd::OwnedFd;

    use logdur_journal::lines::Format;

    use super::*;

    fn csv() -> Lines {
        Lines::of(Format::Csv)
    }

    fn pipe() -> (File, Sink) {
        let (reader, writer) = io::pipe().unwrap();
        let [reader, writer] = [OwnedFd::from(reader), writer.into()].map(File::from);
        let header = Header { text: Vec::new(), lines: csv(), written: 0, in_line: false, after: None, is_due: true };
        (reader, Sink::Console(Console { number: 1, path: None, stdout: Guarded::of(&writer).unwrap(), header }))
    }

    /// Waits until nobody can read what `writer` writes: children that other tests start have the reader's
    /// descriptor as well, until they run their program or end.
    fn wait_for_the_last_reader(writer: RawFd) {
        let mut wait = libc::pollfd { fd: writer, events: 0, revents: 0 };
        // SAFETY: one `pollfd`, which the kernel writes during the call.
        assert_eq!(unsafe { libc::poll(&mut wait, 1, -1) }, 1);
        assert_eq!(wait.revents, libc::POLLERR);
    }

    #[test]
    fn lines_that_are_longer_than_a_pipe_takes_at_once_are_whole_when_processes_share_it() {
        const LINES: usize = 40;
        const LONG: usize = 6000;
        let (mut reader, mut sink) = pipe();
        let children = (b'a'..=b'd').map(|name| {
            // SAFETY: the child writes to the pipe and ends.
            match unsafe { libc::fork() } {
                0 => {
                    let line = [[name].repeat(LONG), vec![b'\n']].concat();
                    let patience = || Patience::of(Duration::from_secs(20), Duration::from_secs(20));
                    let done = (0..LINES).all(|_| sink.write(&line, patience()).is_ok());
                    // SAFETY: ends the child, without what the test's process does at its end.
                    unsafe { libc::_exit(i32::from(!done)) }
                }
                child => child,
            }
        });
        let children: Vec<libc::pid_t> = children.collect();
        drop(sink);
        let mut text = String::new();
        io::Read::read_to_string(&mut reader, &mut text).unwrap();
        for child in children {
            let mut status = 1;
            // SAFETY: the child is ours, and the status is written during the call.
            assert_eq!((unsafe { libc::waitpid(child, &mut status, 0) }, status), (child, 0));
        }
        let is_whole = |line: &&str| line.len() == LONG && line.bytes().all(|byte| byte == line.as_bytes()[0]);
        let lines = || text.lines().filter(|line| !line.is_empty());
        assert_eq!((lines().count(), lines().filter(is_whole).count()), (4 * LINES, 4 * LINES));
    }

    #[test]
    fn rows_on_a_pipe_begin_a_line_whatever_the_application_has_written_there() {
        let (mut reader, mut sink) = pipe();
        let Sink::Console(Console { stdout, .. }) = &sink else { unreachable!() };
        let place = format!("/proc/self/fd/{}", stdout.number());
        let mut theirs = std::fs::OpenOptions::new().write(true).open(place).unwrap();
        io::Write::write_all(&mut theirs, b"dots...").unwrap();
        sink.write(b"\"f\",1\n\"g\",2\n", Patience::none()).unwrap();
        io::Write::write_all(&mut theirs, b"more ").unwrap();
        sink.write(b"\"h\",3\n", Patience::none()).unwrap();
        drop((theirs, sink));
        let mut text = String::new();
        io::Read::read_to_string(&mut reader, &mut text).unwrap();
        // Other tests of this process write as well: then there are empty lines.
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(lines, ["dots...", "\"f\",1", "\"g\",2", "more ", "\"h\",3"]);
    }

    #[test]
    fn a_log_that_others_delete_or_shorten_begins_anew_with_what_stands_at_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv");
        let header =
            Header { text: b"header\n".to_vec(), lines: csv(), written: 0, in_line: false, after: None, is_due: true };
        let (open, preamble, length) = (None, Vec::new(), 0);
        let file = LogFile { path: path.clone(), open, header, preamble, length, began_anew: false, stays_open: true };
        let mut sink = Sink::File(file);
        sink.remember(b"agent\n");
        for harm in [|path: &Path| std::fs::remove_file(path).unwrap(), |path: &Path| drop(File::create(path).unwrap())]
        {
            sink.write(b"before\n", Patience::none()).unwrap();
            assert!(!sink.began_anew());
            harm(&path);
            assert!(sink.began_anew() && !sink.began_anew());
            sink.write(b"after\n", Patience::none()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "header\nagent\nafter\n");
        }
        // Where there is no folder, lines are kept until there is one.
        drop(folder);
        assert!(sink.began_anew());
        assert_eq!(sink.write(b"kept\n", Patience::none()).unwrap_err().before, 0);
    }

    #[test]
    fn pieces_are_whole_lines() {
        let cut = |text: &'static str, size| {
            pieces(csv(), text.as_bytes(), size).map(|p| std::str::from_utf8(p).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(cut("ab\ncd\nef\n", 6), ["ab\ncd\n", "ef\n"]);
        assert_eq!(cut("abcdefgh\nij\n", 4), ["abcdefgh\n", "ij\n"]);
        assert_eq!(cut("", 4), Vec::<&str>::new());
    }

    #[test]
    fn a_reader_that_has_gone_does_not_kill_the_writer() {
        let (reader, mut sink) = pipe();
        let Sink::Console(Console { stdout, .. }) = &sink else { unreachable!() };
        drop(reader);
        wait_for_the_last_reader(stdout.number());
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
            // The first piece ends the line before it, and has one of these less.
            is_passing(&unwritten.error) && unwritten.before > 0 && (unwritten.before + 8) % PIPE_PIECE == 0,
            "{unwritten:?}"
        );
        drop(reader);
    }

    #[test]
    fn each_reader_of_a_pipe_gets_the_names_that_its_chunks_need() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reader = || {
            let mut options = std::fs::OpenOptions::new();
            std::os::unix::fs::OpenOptionsExt::custom_flags(options.read(true), libc::O_NONBLOCK).open(&path).unwrap()
        };
        let lines = Lines::of(Format::Records);
        let chunk = |text: &str| {
            let mut chunk = Vec::new();
            lines.notice(&mut chunk, text);
            chunk
        };
        let header = Header { text: Vec::new(), lines, written: 0, in_line: false, after: None, is_due: true };
        let (open, preamble, length) = (None, chunk("names"), 0);
        let mut sink = Sink::File(LogFile {
            path: path.clone(),
            open,
            header,
            preamble,
            length,
            began_anew: false,
            stays_open: true,
        });
        let [one, other] = ["one", "other"].map(chunk);
        let has = |mut reader: File, rows: &[u8]| {
            let mut bytes = vec![0; 4096];
            let count = io::Read::read(&mut reader, &mut bytes).unwrap();
            assert_eq!(&bytes[..count], [&chunk("names")[..], rows].concat());
        };
        let first = reader();
        sink.write(&one, Patience::none()).unwrap();
        let writer = File::options().write(true).open(&path).unwrap();
        has(first, &one);
        wait_for_the_last_reader(writer.as_raw_fd());
        assert_eq!(sink.write(&other, Patience::none()).unwrap_err().error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(sink.write(&other, Patience::none()).unwrap_err().error.raw_os_error(), Some(libc::ENXIO));
        let second = reader();
        sink.write(&other, Patience::none()).unwrap();
        has(second, &other);
    }
}
