//! Where lines go, or the chunks of a log in records.
//!
//! A sink writes whole lines only, or whole chunks. Files are opened for appending and written in few, large calls, so that several processes can share
//! them. Pipes get pieces that Linux writes atomically, or lines that are longer than that while no other process writes. Nothing here waits longer than its caller's [`Patience`]: a pipe without a
//! reader and a full disk are errors, and the lines are written later.

use std::cell::Cell;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use logdur_journal::lines::Lines;
use logdur_settings::{Interceptor, LogLocation};
use logdur_system::network;
use logdur_system::path::Target;

use super::file::LogFile;
use super::served::ServedFile;
use super::writer::format;
use crate::descriptors;
use crate::guarded::Guarded;
use crate::process::with_marks;

/// What a pipe takes without letting others in between. Source: POSIX `PIPE_BUF`, on Linux.
const PIPE_PIECE: usize = 4096;
const FILE_PIECE: usize = 64 << 10;
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
    /// A file on a network.
    Served(ServedFile),
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

/// The first line. A log that is a regular file gets it when it is opened, another before its first line.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) text: Vec<u8>,
    pub(super) lines: Lines,
    pub(super) written: usize,
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

impl Header {
    fn of_console(lines: Lines, text: Vec<u8>) -> Header {
        Header { text, lines, written: 0, in_line: false, after: None, is_due: false }
    }

    /// A header that is written at once.
    pub(super) fn of_file(lines: Lines, text: Vec<u8>) -> Header {
        Header { is_due: true, ..Header::of_console(lines, text) }
    }
}

impl Sink {
    /// Opens a location and writes the header if it is an empty file. A log that cannot be opened is described in the
    /// second value. It is tried again if the reason may go away; otherwise the sink is nowhere. `keep` lets it have a
    /// descriptor of its own.
    pub(crate) fn open(settings: &Interceptor, keep: bool) -> (Sink, Option<String>) {
        let lines = Lines::of(format(settings));
        let text = lines.header().into_bytes();
        match &settings.log_location {
            LogLocation::Nowhere => (Sink::Nowhere, None),
            LogLocation::Console => Sink::console(libc::STDOUT_FILENO, None, Header::of_console(lines, text), keep),
            LogLocation::File(path) => {
                let path = with_marks(path);
                // What is open already is used as it is: to open it again would write over what is there.
                if let Ok(Target::Descriptor(number)) = Target::of(&path) {
                    let path = (number != libc::STDOUT_FILENO).then_some(path);
                    return Sink::console(number, path, Header::of_console(lines, text), keep);
                }
                // The application may go to another folder.
                let path = std::path::absolute(&path).unwrap_or(path);
                let file = LogFile::new(path.clone(), Header::of_file(lines, text), keep);
                let problem = |error| format!("the log {} cannot be written: {error}", path.display());
                let is_file = path.metadata().map_or(true, |about| about.is_file());
                let (sink, opened) = if keep && is_file && network::has_path(&path) {
                    match ServedFile::start(file) {
                        Ok((file, opened)) => (Sink::Served(file), opened),
                        // It has no rows; the process has no thread left for others either.
                        Err(error) => return (Sink::Nowhere, Some(problem(error))),
                    }
                } else {
                    let mut file = file;
                    let opened = file.begin();
                    (Sink::File(file), opened)
                };
                match opened {
                    Ok(()) => (sink, None),
                    Err(error) if is_passing(&error) => {
                        // A named pipe that no reader has opened yet is not reported.
                        let told = error.raw_os_error() != Some(libc::ENXIO);
                        (sink, told.then(|| problem(error)))
                    }
                    Err(error) => (Sink::Nowhere, Some(problem(error))),
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
        match self {
            Sink::File(file) => Some(&file.path),
            Sink::Served(file) => Some(file.path()),
            Sink::Console(_) | Sink::Nowhere => None,
        }
    }

    /// What the process's records name as its log; `None` for the standard output.
    pub(crate) fn name(&self) -> Option<&Path> {
        if let Sink::Console(console) = self { console.path.as_deref() } else { self.path() }
    }

    /// How long the file is, or was when its server has told last.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Sink::File(file) => file.length(),
            Sink::Served(file) => file.length(),
            Sink::Console(_) | Sink::Nowhere => 0,
        }
    }

    /// True while a thread that runs beside the application had better not open the log.
    pub(crate) fn must_wait(&self) -> bool {
        matches!(self, Sink::File(file) if !file.stays_open) && !descriptors::may_borrow_one()
    }

    /// True while the first lines that are not written yet may be in the log, or may come there at any time.
    pub(crate) fn is_writing(&self) -> bool {
        matches!(self, Sink::Served(file) if file.is_writing())
    }

    /// Writes whole lines.
    ///
    /// # Errors
    /// When they cannot be written whole.
    pub(crate) fn write(&mut self, lines: &[u8], patience: Patience) -> Result<(), Unwritten> {
        match self {
            Sink::Nowhere => Ok(()),
            Sink::Console(console) => console.write(lines, patience),
            Sink::File(file) => file.write(lines, patience),
            Sink::Served(file) => file.write(lines, patience),
        }
    }

    /// Keeps lines for a file that has to begin anew.
    pub(crate) fn remember(&mut self, lines: &[u8]) {
        match self {
            Sink::File(file) => file.preamble.extend_from_slice(lines),
            Sink::Served(file) => file.remember(lines),
            Sink::Console(_) | Sink::Nowhere => {}
        }
    }

    /// What was remembered.
    pub(crate) fn preamble(&self) -> &[u8] {
        match self {
            Sink::File(file) => &file.preamble,
            Sink::Served(file) => file.preamble(),
            Sink::Console(_) | Sink::Nowhere => &[],
        }
    }

    /// Looks at a regular file before it is written: true if others have deleted or shortened it since the last look. It begins anew,
    /// or will.
    pub(crate) fn began_anew(&mut self) -> bool {
        match self {
            Sink::File(file) => file.began_anew(),
            Sink::Served(file) => file.began_anew(),
            Sink::Console(_) | Sink::Nowhere => false,
        }
    }
}

/// Writes lines to what is open, as one of those that share it.
pub(super) fn write_to(
    to: &Guarded,
    header: &mut Header,
    lines: &[u8],
    is_console: bool,
    patience: Patience,
) -> Result<(), Unwritten> {
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

    fn write(&mut self, lines: &[u8], patience: Patience) -> Result<(), Unwritten> {
        self.open().map_err(|error| Unwritten { error, before: 0 })?;
        write_to(&self.stdout, &mut self.header, lines, true, patience)
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WriteZero | io::ErrorKind::TimedOut)
        || error.raw_os_error().is_some_and(|number| PASSING.contains(&number))
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
    use std::fs::File;
    use std::os::fd::{AsRawFd, OwnedFd};

    use logdur_journal::lines::Format;

    use super::*;

    fn csv() -> Lines {
        Lines::of(Format::Csv)
    }

    fn pipe() -> (File, Sink) {
        let (reader, writer) = io::pipe().unwrap();
        let [reader, writer] = [OwnedFd::from(reader), writer.into()].map(File::from);
        let header = Header::of_file(csv(), Vec::new());
        (reader, Sink::Console(Console { number: 1, path: None, stdout: Guarded::of(&writer).unwrap(), header }))
    }

    /// Waits until a pipe has no reader. Children of other tests have the reader's descriptor, too, until they run their program.
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
        let file = LogFile::new(path.clone(), Header::of_file(csv(), b"header\n".to_vec()), true);
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
        let mut sink = Sink::File(LogFile::new(path.clone(), Header::of_file(lines, Vec::new()), true));
        sink.remember(&chunk("names"));
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
