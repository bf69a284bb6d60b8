//! The captures of a run: how much they grow, while the application waits and its terminal is quiet, and which of them were left
//! unfinished.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use indicatif::ProgressBar;
use logdur_capture::{End, Reader, numbered};
use logdur_system::text::shell_word;

use crate::output::tell;
use crate::{input, progress};

/// Between two looks at the files.
const LOOK: Duration = Duration::from_millis(250);
/// When the files have not grown for so long, the terminal is the application's again.
const PAUSE: Duration = Duration::from_secs(1);
/// Times of files are behind the clock by up to a tick of the kernel.
const CLOCK: Duration = Duration::from_millis(20);

/// Shows how captures grow, until it is dropped.
pub(crate) struct Watch {
    ended: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Of the files that processes make of a path: a file, a name with marks, or a folder.
    pub(crate) fn begin(path: PathBuf) -> Watch {
        let (ended, told) = channel();
        // Without the thread, nothing is shown.
        let thread = std::thread::Builder::new().spawn(move || follow(&path, &told)).ok();
        Watch { ended: Some(ended), thread }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ended = None;
        // A thread that panicked has said so.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn follow(path: &Path, ended: &Receiver<()>) {
    let mut shown: Option<ProgressBar> = None;
    let mut last = (bytes(path), Instant::now());
    loop {
        let goes_on = ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout);
        let now = bytes(path);
        if now > last.0 {
            let bar = shown.get_or_insert_with(|| progress::growth("{bytes} captured", last.0));
            bar.set_position(now);
            bar.tick();
            last = (now, Instant::now());
        } else if last.1.elapsed() > PAUSE
            && let Some(bar) = shown.take_if(|bar| !bar.is_hidden())
        {
            bar.finish_and_clear();
        }
        if !goes_on {
            shown.iter().for_each(ProgressBar::finish_and_clear);
            return;
        }
    }
}

/// Bytes of the files of a path; 0 if there are none.
fn bytes(path: &Path) -> u64 {
    files(path).iter().map(|file| file.metadata().map_or(0, |metadata| metadata.len())).sum()
}

/// The files that processes have made of a path: all of a folder, the file itself, or those that its marks stand for.
fn files(path: &Path) -> Vec<PathBuf> {
    match path.read_dir() {
        Ok(files) => files.flatten().map(|file| file.path()).collect(),
        Err(_) => input::logs(&[path.to_owned()]).into_iter().flatten().map(|file| file.path).collect(),
    }
}

/// Names the captures that were written since `start` and are not finished: a process that is killed cannot say so.
pub(crate) fn tell_unfinished(path: &Path, start: SystemTime) {
    let mut all = files(path);
    if !path.is_dir() {
        // A number is what `%p` stands for, too.
        all.extend(files(&numbered(path, "%p")));
    }
    all.sort();
    for file in all {
        let is_older = |changed: SystemTime| changed + CLOCK < start;
        if file.metadata().and_then(|metadata| metadata.modified()).is_ok_and(is_older) {
            continue;
        }
        // What is no capture is not ours, and of a damaged one the tools that read it say what is wrong.
        let Ok(reader) = Reader::open(&file) else { continue };
        if matches!(reader.end(), End::Unfinished { .. }) {
            let dispatches = reader.dispatches().iter().filter(|dispatch| !reader.is_unended(dispatch)).count();
            let (what, option) = match reader.records().steps.len() {
                0 => (format!("{dispatches} dispatches"), ""),
                steps => (format!("{steps} steps of a region"), " --region"),
            };
            let word = shell_word(&file);
            tell(format_args!(
                "{}: not finished, its process was killed or still runs: {what} are whole so far; `omniprobe info {word}{option}` lists \
                 them",
                file.display()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_name_with_marks_are_counted_together() {
        let folder = tempfile::tempdir().unwrap();
        for (name, size) in [("a.1.ldcap", 10), ("a.22.ldcap", 5), ("b.1.ldcap", 100)] {
            std::fs::write(folder.path().join(name), vec![0; size]).unwrap();
        }
        let of = |name: &str| bytes(&folder.path().join(name));
        assert_eq!([of("a.%p.ldcap"), of("b.1.ldcap"), of("none"), of("none.%p"), of("")], [15, 100, 0, 0, 115]);
    }
}
