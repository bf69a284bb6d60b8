//! Writes that fail: the capture ends, says so in itself, and stays readable.

use std::cell::Cell;
use std::io;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use logdur_capture::{CaptureError, Options, Reader, Severity, Storage, Writer};

use crate::harness::{self, Numbers};

/// A disk with so much room, which gives back what is truncated.
#[derive(Debug)]
struct Disk {
    bytes: Vec<u8>,
    room: usize,
    /// How much a failing write leaves behind.
    torn: usize,
    refuses_truncation: bool,
    writes: Rc<Cell<usize>>,
}

impl Storage for &mut Disk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.writes.set(self.writes.get() + 1);
        let free = self.room.saturating_sub(self.bytes.len());
        if bytes.len() <= free {
            self.bytes.extend_from_slice(bytes);
            return Ok(());
        }
        let torn = free.min(self.torn);
        self.bytes.extend_from_slice(&bytes[..torn]);
        Err(io::Error::from_raw_os_error(28))
    }
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        if self.refuses_truncation {
            return Err(io::Error::other("not today"));
        }
        self.bytes.truncate(length as usize);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Captures dispatches until that fails: how many were committed, and the error.
fn capture(writer: &mut Writer<impl Storage>, numbers: &mut Numbers) -> (u64, CaptureError) {
    let mut parent = None;
    for number in 0..1000 {
        let attempt = (|| {
            let mut snapshot = writer.snapshot(parent);
            snapshot.bytes(0x5000_0000, &numbers.bytes(3000))?;
            let id = snapshot.finish()?;
            parent = Some(id);
            writer.dispatch(&harness::dispatch(number, logdur_capture::Id::default(), id, id))
        })();
        if let Err(error) = attempt {
            return (number, error);
        }
    }
    panic!("the disk is never full");
}

#[test]
fn when_a_write_fails_the_capture_ends_with_a_note_and_says_why_once() {
    let mut seen_note = 0;
    for room in (0..30_000).step_by(harness::count(997, 13)) {
        for (torn, refuses_truncation) in [(0, false), (usize::MAX, false), (usize::MAX, true)] {
            let writes = Rc::new(Cell::new(0));
            let mut disk = Disk { bytes: Vec::new(), room, torn, refuses_truncation, writes: writes.clone() };
            let mut writer = match Writer::new(&mut disk, &harness::options(1)) {
                Ok(writer) => writer,
                Err(CaptureError::Write { end: 0, .. }) if room < 128 => continue,
                Err(other) => panic!("{other:?}"),
            };
            let (committed, error) = capture(&mut writer, &mut Numbers(8));
            assert!(matches!(error, CaptureError::Write { .. }), "{error:?}");
            let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            assert!(why.contains("No space left"), "{why}");
            // From then on nothing is tried.
            let before = writes.get();
            assert!(writer.has_stopped());
            assert!(matches!(writer.freed(1), Err(CaptureError::Stopped)));
            assert!(matches!(writer.snapshot(None).bytes(0, &[1, 2, 3]), Err(CaptureError::Stopped)));
            assert!(matches!(writer.finish(), Err(CaptureError::Stopped)));
            assert_eq!(writes.get(), before, "written after the end");

            let reader = Reader::new(disk.bytes).unwrap();
            assert_eq!(reader.dispatches().len() as u64, committed);
            assert!(reader.dispatches().iter().all(|d| reader.snapshot(d.after.unwrap()).is_ok()));
            if let Some(note) = reader.notes().last() {
                assert_eq!((note.code.as_str(), note.severity), ("write-failed", Severity::Stop));
                assert!(note.text.contains("No space left"), "{}", note.text);
                seen_note += 1;
            }
        }
    }
    assert!(seen_note > 5, "a note was written {seen_note} times");
}

#[test]
fn dispatches_stay_readable_when_the_index_of_a_finished_file_finds_no_room() {
    const DISPATCHES: u64 = 40;
    let written = |room: usize| {
        let mut disk =
            Disk { bytes: Vec::new(), room, torn: usize::MAX, refuses_truncation: false, writes: Rc::default() };
        let mut writer = Writer::new(&mut disk, &harness::options(1)).unwrap();
        let mut numbers = Numbers(8);
        for number in 0..DISPATCHES {
            let mut snapshot = writer.snapshot(None);
            snapshot.bytes(0x5000_0000, &numbers.bytes(300)).unwrap();
            let id = snapshot.finish().unwrap();
            writer.dispatch(&harness::dispatch(number, logdur_capture::Id::default(), id, id)).unwrap();
        }
        let records = writer.bytes() as usize;
        let finished = writer.finish().is_ok();
        (disk.bytes, records, finished)
    };
    let (whole, records, finished) = written(usize::MAX);
    assert!(finished && whole.len() > records);
    for room in (records..whole.len()).step_by(harness::count(37, 1)) {
        let (bytes, _, finished) = written(room);
        assert!(!finished, "{room} of {} bytes", whole.len());
        let reader = Reader::new(bytes).unwrap();
        assert_eq!(reader.dispatches().len() as u64, DISPATCHES, "room for {room} of {} bytes", whole.len());
    }
}

/// Set in the process whose files may not grow: where it captures to.
const ROLE: &str = "LOGDUR_TEST_LIMITED_TO";

/// Captures until the limit of the size of files, at which a signal kills.
fn capture_within_a_limit(path: &Path) {
    let limit = libc::rlimit { rlim_cur: 100_000, rlim_max: 100_000 };
    let mut writer = Writer::create(path, &Options::default()).unwrap();
    // The application may set it at any time.
    // SAFETY: the limit is read during the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    let (committed, error) = capture(&mut writer, &mut Numbers(8));
    let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(why.contains("100000 bytes (RLIMIT_FSIZE)"), "{why}");
    println!("alive after {committed}");
}

#[test]
fn at_the_limit_of_the_size_of_files_the_application_lives_and_the_capture_is_readable() {
    if let Some(path) = std::env::var_os(ROLE) {
        return capture_within_a_limit(path.as_ref());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("limited.ldcap");
    let story = "full_disk::at_the_limit_of_the_size_of_files_the_application_lives_and_the_capture_is_readable";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", story, "--nocapture"]).env(ROLE, &path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}: {text}", output.status);
    let committed: usize =
        text.split("alive after ").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    let reader = Reader::open(&path).unwrap();
    assert!(committed > 10);
    assert_eq!(reader.dispatches().len(), committed);
    assert!(std::fs::metadata(&path).unwrap().len() <= 100_000);
}

#[test]
fn a_file_that_cannot_be_made_is_named() {
    let error = Writer::create(Path::new("/no/such/folder/a.ldcap"), &Options::default()).unwrap_err();
    assert!(error.to_string().contains("/no/such/folder/a.ldcap"), "{error}");
}
