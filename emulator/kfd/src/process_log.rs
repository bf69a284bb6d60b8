//! The emulator's own log: faults and everything that is not implemented, one line each.

use std::fmt::{self, Display};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use crate::lock;

enum Sink {
    None,
    Stderr,
    File(File),
}

/// Where lines go, and which have been written already.
pub(crate) struct ProcessLog {
    sink: Sink,
    written: Mutex<Vec<String>>,
}

/// Room for a line about a fault, which may not allocate.
const LINE: usize = 512;

/// Says on stderr, wherever the log is, what may end the process, and that it is no fault of the application.
fn tell_own_fault(what: fmt::Arguments<'_>) {
    let mut line = [0; LINE];
    let mut rest = &mut line[..LINE - 1];
    let begin = "libkfdemu.so, the emulated GPU, has failed by a fault of its own, not of the application";
    // What does not fit is left out.
    let _ = write!(rest, "kfdemu[{}]: {begin}: {what}", std::process::id());
    let length = LINE - 1 - rest.len();
    line[length] = b'\n';
    // SAFETY: writes bytes of `line`; a closed or full stderr is only an error code.
    unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), length + 1) };
}

/// Says that the system gives no more memory, without asking for any.
pub(crate) fn tell_no_memory(bytes: usize) {
    tell_own_fault(format_args!("the system gives it no {bytes} bytes of memory"));
}

/// Panics are told, too.
pub(crate) fn tell_panics() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let what = info.payload_as_str().unwrap_or("a panic without words");
        tell_own_fault(format_args!("{what}, in thread {} at {place}", thread.name().unwrap_or("of the application")));
    }));
}

/// Different lines that are remembered in order not to repeat them.
const REMEMBERED: usize = 1000;

impl ProcessLog {
    /// A log into the named place; stderr when none is named or it cannot be opened.
    pub(crate) fn open(place: Option<&Path>) -> ProcessLog {
        let sink = match place.map(|p| (p, p.to_str())) {
            None | Some((_, Some("stderr"))) => Sink::Stderr,
            Some((_, Some("none"))) => Sink::None,
            Some((path, _)) => OpenOptions::new().create(true).append(true).open(path).map_or(Sink::Stderr, Sink::File),
        };
        ProcessLog { sink, written: Mutex::new(Vec::new()) }
    }

    /// Writes a line; errors are ignored: there is no other place for them.
    pub(crate) fn line(&self, text: impl Display) {
        let line = format!("kfdemu[{}]: {text}\n", std::process::id());
        match &self.sink {
            Sink::None => {}
            Sink::Stderr => {
                // SAFETY: writes the bytes of `line`; a closed or full stderr is only an error code.
                unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
            }
            Sink::File(file) => drop((&*file).write_all(line.as_bytes())),
        }
    }

    /// Writes a line that has not been written before.
    pub(crate) fn once(&self, text: impl Display) {
        let text = text.to_string();
        let mut written = lock(&self.written);
        if written.len() < REMEMBERED && !written.contains(&text) {
            self.line(&text);
            written.push(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_fault_of_our_own_names_the_library_and_what_happened_on_stderr() {
        let mut told = tempfile();
        // SAFETY: descriptors of this test.
        let stderr = unsafe { libc::dup(libc::STDERR_FILENO) };
        // SAFETY: as above.
        unsafe { libc::dup2(told.as_raw_fd(), libc::STDERR_FILENO) };
        tell_no_memory(4096);
        let long = "x".repeat(2 * LINE);
        tell_own_fault(format_args!("{long}"));
        // SAFETY: as above.
        unsafe { libc::dup2(stderr, libc::STDERR_FILENO) };
        let mut text = String::new();
        std::io::Seek::rewind(&mut told).expect("a file");
        std::io::Read::read_to_string(&mut told, &mut text).expect("text");
        let said = "libkfdemu.so, the emulated GPU, has failed by a fault of its own, not of the application: the system gives it no 4096 bytes";
        assert!(text.contains(said) && text.ends_with("xxx\n") && text.lines().count() >= 2, "{text}");
    }

    fn tempfile() -> File {
        // SAFETY: makes a file without a name.
        let number = unsafe { libc::memfd_create(c"told".as_ptr(), libc::MFD_CLOEXEC) };
        assert!(number >= 0);
        // SAFETY: the descriptor was just made, and no other code has it.
        unsafe { std::os::fd::FromRawFd::from_raw_fd(number) }
    }
}
