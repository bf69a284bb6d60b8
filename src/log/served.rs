//! A log on a file system of another machine, as NFS. One thread makes the calls. Other threads wait for its answer in bounded time.
//!
//! Until the thread answers, the lines that it was given are neither given up nor written again. If the process ends before, the log may
//! have them or not, as after a crash: their rows are in the records.
//!
//! # Threads
//! The one that holds the writer's lock asks; the thread of the file answers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use logdur_intercept::thread;
use logdur_system::lock;

use super::file::LogFile;
use super::sink::{Patience, Unwritten};

/// How long the first answer is waited for, while the runtime starts.
const FIRST: Duration = Duration::from_secs(1);
/// How long any answer is waited for at least: a server is no memory.
const LEAST: Duration = Duration::from_millis(20);
const STACK: usize = 256 << 10;

/// A regular file, as it is known without a look at it.
#[derive(Debug)]
pub(crate) struct ServedFile {
    path: PathBuf,
    calls: Arc<Calls>,
    /// What a file gets behind the header if it has to begin anew, and how much of that the thread knows.
    preamble: (Vec<u8>, usize),
    /// How many bytes the thread has been given to write, if it has not answered yet.
    asked: Option<usize>,
    /// As the last answer has it.
    length: u64,
    began_anew: bool,
}

#[derive(Debug, Default)]
struct Calls {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Asked(Call),
    /// The thread makes the calls.
    Busy,
    Answered(Answer),
}

/// What the thread is to write; it only looks at the file if that is nothing.
#[derive(Debug)]
struct Call {
    /// More of the preamble.
    remembered: Vec<u8>,
    lines: Vec<u8>,
}

#[derive(Debug)]
struct Answer {
    written: Result<(), Unwritten>,
    length: u64,
    began_anew: bool,
}

impl ServedFile {
    /// Lets a thread open a file. The second value says whether it could.
    ///
    /// # Errors
    /// When the system has no thread left.
    pub(super) fn start(file: LogFile) -> io::Result<(ServedFile, io::Result<()>)> {
        let calls = Arc::new(Calls::default());
        let (path, of_thread) = (file.path.clone(), calls.clone());
        thread::spawn("logdur-file", STACK, move || run(&of_thread, file))?;
        let (preamble, asked) = ((Vec::new(), 0), None);
        let mut served = ServedFile { path, calls, preamble, asked, length: 0, began_anew: false };
        let opened = served.write(&[], Patience::of(FIRST, FIRST)).map_err(|unwritten| unwritten.error);
        Ok((served, opened))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn preamble(&self) -> &[u8] {
        &self.preamble.0
    }

    pub(super) fn remember(&mut self, lines: &[u8]) {
        self.preamble.0.extend_from_slice(lines);
    }

    /// True while the thread has lines to write.
    pub(super) fn is_writing(&self) -> bool {
        self.asked.is_some_and(|bytes| bytes > 0)
    }

    /// True if others have deleted or shortened the file since that was asked last, as far as it is known by now.
    pub(super) fn began_anew(&mut self) -> bool {
        if self.length > 0 && !self.is_writing() {
            // An error is told when there is something to write.
            let _ = self.write(&[], Patience::none());
        }
        std::mem::take(&mut self.began_anew)
    }

    /// Has whole lines written, which begin with those that the thread has already if it [is writing](Self::is_writing).
    ///
    /// # Errors
    /// When they are not written whole, or not yet.
    pub(super) fn write(&mut self, lines: &[u8], patience: Patience) -> Result<(), Unwritten> {
        let until = patience.until.max(Instant::now() + LEAST);
        let (mut before, mut has_looked) = (0, false);
        loop {
            if let Some(bytes) = self.asked {
                let Some(answer) = self.calls.answer(until) else {
                    let error = io::Error::new(io::ErrorKind::TimedOut, "its file system has not answered yet");
                    return Err(Unwritten { error, before });
                };
                self.asked = None;
                self.length = answer.length;
                self.began_anew |= answer.began_anew;
                // An error of a look is one of the lines, too, if there are any: they are tried all the same.
                match answer.written {
                    Ok(()) => before += bytes,
                    Err(Unwritten { error, before: some }) if bytes > 0 || lines.is_empty() => {
                        return Err(Unwritten { error, before: before + some });
                    }
                    Err(_) => {}
                }
                has_looked = true;
            }
            let left = lines.get(before..).unwrap_or_default();
            if left.is_empty() && has_looked {
                return Ok(());
            }
            self.ask(left.to_vec());
        }
    }

    fn ask(&mut self, lines: Vec<u8>) {
        let (preamble, known) = &mut self.preamble;
        let remembered = preamble.get(*known..).unwrap_or_default().to_vec();
        *known = preamble.len();
        self.asked = Some(lines.len());
        self.calls.set(State::Asked(Call { remembered, lines }));
    }
}

impl Calls {
    fn set(&self, state: State) {
        *lock(&self.state) = state;
        self.changed.notify_all();
    }

    /// What the thread has answered until a moment.
    fn answer(&self, until: Instant) -> Option<Answer> {
        let mut state = lock(&self.state);
        loop {
            match std::mem::take(&mut *state) {
                State::Answered(answer) => return Some(answer),
                other => *state = other,
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What the thread is asked for next.
    fn next(&self) -> Call {
        let mut state = lock(&self.state);
        loop {
            match std::mem::replace(&mut *state, State::Busy) {
                State::Asked(call) => return call,
                other => *state = other,
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn run(calls: &Calls, mut file: LogFile) {
    thread::wake_without_preempting();
    loop {
        let Call { remembered, lines } = calls.next();
        file.preamble.extend_from_slice(&remembered);
        let written = if lines.is_empty() {
            file.begin().map_err(|error| Unwritten { error, before: 0 })
        } else {
            file.write(&lines, Patience::none())
        };
        let began_anew = std::mem::take(&mut file.began_anew);
        calls.set(State::Answered(Answer { written, length: file.length(), began_anew }));
    }
}

#[cfg(test)]
mod tests {
    use logdur_journal::lines::{Format, Lines};

    use super::super::sink::Header;
    use super::*;

    #[test]
    fn lines_that_a_thread_writes_are_in_the_file_once_and_a_file_that_others_delete_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv");
        let header = Header::of_file(Lines::of(Format::Csv), b"header\n".to_vec());
        let (mut served, opened) = ServedFile::start(LogFile::new(path.clone(), header, true)).unwrap();
        opened.unwrap();
        served.remember(b"agent\n");
        let patience = || Patience::of(Duration::from_secs(60), Duration::from_secs(60));
        let mut lines = b"first\n".to_vec();
        // Its answer may come behind the patience: then what follows begins with it.
        let written = match served.write(&lines, Patience::none()) {
            Ok(()) => lines.len(),
            Err(unwritten) => unwritten.before,
        };
        lines.extend_from_slice(b"second\n");
        served.write(&lines[written..], patience()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "header\nfirst\nsecond\n");
        assert_eq!((served.length(), served.is_writing()), (path.metadata().unwrap().len(), false));
        std::fs::remove_file(&path).unwrap();
        served.write(b"third\n", patience()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "header\nagent\nthird\n");
        assert!(served.began_anew() && !served.began_anew());
        drop(folder);
        let unwritten = served.write(b"kept\n", patience()).unwrap_err();
        assert_eq!((unwritten.before, unwritten.error.kind()), (0, io::ErrorKind::NotFound));
    }
}
