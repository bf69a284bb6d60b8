//! Logs and records on a file system that another process keeps, as a network's is kept by another machine: it answers nothing for a
//! while, or takes no more bytes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::harness::{self, Outcome, Run};
use crate::support::log::Log;

use super::crash::records_in;
use super::records::{printed, text};
use super::unwritable::without_cut_rows;

/// Dispatches of a run: its queue is held by a barrier three times, and filled meanwhile.
const ALL: usize = 3 * 12288;

/// A run whose log is on such a file system.
struct Served {
    run: Outcome,
    /// What the file system had got when the run had ended.
    log: PathBuf,
    /// Folders in which its records may be.
    records: [PathBuf; 2],
}

/// Runs a program whose log is on a file system that `does` something behind so many bytes, and whose records are there or in memory.
/// Only the server measures time: it fails a program that does not end.
fn served(does: &str, bytes: u64, format: &str, are_records_there: bool) -> Served {
    let run = Run::new("/usr/bin/unshare".into());
    let [mount, copies, memory] = ["served", "copies", "memory"].map(|name| run.file(name));
    for folder in [&mount, &copies, &memory] {
        fs::create_dir(folder).unwrap();
    }
    let (server, program) = (harness::loading("served_files"), harness::hsa("rate"));
    let run = run.args(["--user", "--map-root-user", "--mount"]).args([&server, &mount, &copies]);
    let run = run.args([does, &bytes.to_string()]).args([&program]).args(["held", "1", "64", "1"]);
    let named = if are_records_there { &mount } else { &memory };
    let run = run.env("LOGDUR_RECORDS", named).env("XDG_RUNTIME_DIR", &memory).env("LOGDUR_LOG_FORMAT", format);
    let run = run.env("LOGDUR_LOG_LOCATION", mount.join("log")).watched();
    assert!(run.status.success() && !run.stdout.contains("FAIL"), "{}{}", run.stdout, run.stderr);
    Served { run, log: copies.join("log"), records: [copies, memory] }
}

impl Served {
    /// Writes what the records have into the log; its rows.
    fn completed(&self) -> Log {
        let left: Vec<PathBuf> = self.records.iter().flat_map(|folder| left_in(folder)).collect();
        let [left] = &left[..] else { panic!("{left:?}: {}", self.run.stderr) };
        printed(&[&"log", left, &"-l", &self.log]);
        let is_packed = fs::read(&self.log).unwrap().starts_with(b"LDROWS");
        if is_packed { Log::parse(&text(&self.log)) } else { without_cut_rows(&fs::read_to_string(&self.log).unwrap()) }
    }
}

/// The files of records in a folder.
fn left_in(folder: &Path) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "records");
    records_in(folder).into_iter().filter(is_one).collect()
}

/// Each dispatch has one row.
fn is_whole(log: &Log) {
    let mut ids: Vec<u64> = log.rows.iter().map(|row| row.number("id")).collect();
    ids.sort_unstable();
    assert_eq!(ids.len(), ALL);
    assert!(ids.iter().copied().eq(0..ALL as u64));
    assert_eq!(log.account()["logged"], ALL as u64);
}

#[test]
fn a_log_on_a_file_system_that_stops_to_answer_keeps_nobody_waiting_and_its_records_have_what_it_lacks() {
    // Behind its beginning, in the middle of the first rows, and later.
    for (bytes, format) in [(1, "records"), (100_000, "records"), (800_000, "records"), (1, "csv"), (1_000_000, "csv")]
    {
        let served = served("stalls", bytes, format, false);
        is_whole(&served.completed());
    }
}

#[test]
fn a_log_over_its_quota_loses_no_row() {
    for (bytes, format) in [(10, "records"), (700_000, "records"), (700_000, "csv")] {
        let served = served("quota", bytes, format, false);
        assert!(fs::metadata(&served.log).unwrap().len() <= bytes);
        is_whole(&served.completed());
    }
}

#[test]
fn records_are_not_mapped_where_a_dispatch_would_wait_for_a_server() {
    let served = served("stalls", 700_000, "records", true);
    assert_eq!(left_in(&served.records[0]), Vec::<PathBuf>::new());
    let log = served.completed();
    is_whole(&log);
    let told = |notice: &String| notice.contains("on a network") && notice.contains("LOGDUR_RECORDS");
    assert!(log.notices.iter().any(told), "{:?}", log.notices);
}
