//! The emulator's own log: faults and everything that is not implemented, one line each.

use std::fmt::Display;
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
