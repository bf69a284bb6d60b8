//! A log that cannot be written: a full disk, a limit, a pipe without a reader or with a slow one, descriptors that the
//! application closes. Rows wait in the records, and no thread waits for the log.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use logdur_capture::Reader;

use crate::support::harness::{self, Outcome, Run, built};
use crate::support::log::Log;

/// Dispatches of a run: their rows take more than a pipe holds.
pub(super) const MANY: u64 = 2000;
/// Bytes of a file, more than the records of that many dispatches take.
pub(super) const LIMIT: u64 = 8 << 20;
/// No run of these waits for anything: a fraction of this is what a busy machine needs.
pub(super) const SOON: Duration = Duration::from_secs(60);

/// A run with its records in a folder of its own.
pub(super) fn run() -> Run {
    let run = Run::hsa("signals").args(["none", &MANY.to_string()]);
    let records = run.file("records");
    fs::create_dir(&records).unwrap();
    run.env("LOGDUR_RECORDS", records)
}

pub(super) fn records_in(run: &Outcome) -> Vec<PathBuf> {
    let folder = run.folder.path().join("records");
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// The records that a run left, put into a log.
pub(super) fn recovered(run: &Outcome, log: &Path) -> Log {
    let [left] = &records_in(run)[..] else { panic!("expected one file of records, found {:?}", records_in(run)) };
    let output = Command::new(built("omniprobe")).arg("log").arg(left).arg("-l").arg(log).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    without_cut_rows(&fs::read_to_string(log).unwrap())
}

/// A log in text that was completed. A row that was cut is completed if the clocks of the host are still compared alike, else told and
/// written anew.
pub(super) fn without_cut_rows(text: &str) -> Log {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_told = |n: usize| lines.get(n + 1).is_some_and(|next| next.contains("the line before is not whole"));
    Log::parse(&(0..lines.len()).filter(|&n| !is_told(n)).map(|n| lines[n]).collect::<String>())
}

pub(super) fn has_every_row(log: &Log) {
    let mut ids: Vec<u64> = log.rows.iter().map(|row| row.number("id")).collect();
    ids.sort_unstable();
    assert!(ids.iter().copied().eq(0..MANY), "{} rows: {ids:?}", ids.len());
    assert_eq!(log.account()["logged"], MANY);
}

/// What the library and `omniprobe` say on stderr: some runtimes warn there of signals of their own.
fn said(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.starts_with("logdur:") || line.starts_with("omniprobe:")).collect()
}

/// A pipe with a name.
pub(super) fn pipe(path: PathBuf) -> PathBuf {
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Opens a pipe for reading, before it has a writer.
pub(super) fn reader(pipe: impl AsRef<OsStr>) -> File {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(Path::new(&pipe)).unwrap();
    // SAFETY: takes the flag back; no memory is involved.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) };
    file
}

#[test]
fn a_pipe_that_nobody_reads_keeps_omniprobe_for_a_moment_and_its_rows_in_the_records() {
    // One that nobody opens, one whose reader takes nothing, and a standard output that is closed.
    for (name, opened) in [("unread", false), ("stopped", true)] {
        let run = run();
        let location = pipe(run.file(name));
        let held = opened.then(|| reader(&location));
        let start = Instant::now();
        let run = run.probed(&["-l", name]).passed();
        assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
        let [left] = &records_in(&run)[..] else { panic!("{:?}", records_in(&run)) };
        assert!(
            run.stderr.contains(&format!("`omniprobe log {} -l LOG` writes them", left.display())),
            "{}",
            run.stderr
        );
        drop(held);
    }
    let run = run();
    let (closed, writer) = std::io::pipe().unwrap();
    drop(closed);
    let device = if harness::on_hardware() { Vec::new() } else { vec!["--emulate".to_owned(), harness::arch()] };
    let mut command = run.omniprobe();
    command.args(device).arg("--").arg(run.command().get_program()).args(["none", "300"]);
    let output = command.stdout(writer).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("300 rows of process ") && said.contains("-l LOG` writes them"), "{said}");
}

#[test]
fn a_full_device_leaves_every_row_in_the_records() {
    let run = run().env("LOGDUR_LOG_LOCATION", "/dev/full").watched().passed();
    assert_eq!(said(&run.stderr), [] as [&str; 0]);
    let log = recovered(&run, &run.folder.path().join("late.csv"));
    has_every_row(&log);
    // The process ended in order, so that it could read the clocks.
    assert!(!log.account().contains_key("times-lost"), "{:?}", log.account());
}

#[test]
fn omniprobe_says_how_many_rows_a_full_device_kept_from_the_log_and_how_to_get_them() {
    let run = run().probed(&["-l", "/dev/full"]).passed();
    let [left] = &records_in(&run)[..] else { panic!("{:?}", records_in(&run)) };
    let said = format!("{MANY} rows of process ");
    let command = format!("`omniprobe log {} -l LOG` writes them", left.display());
    assert!(run.stderr.contains(&said) && run.stderr.contains(&command), "{}", run.stderr);
    has_every_row(&recovered(&run, &run.folder.path().join("late.csv")));
}

/// Two places where no file of records can be made, and a part of the reason that is told.
const NO_FILE: [(&str, &str); 2] = [("/nonexistent/folder", "No such file"), ("", "LOGDUR_RECORDS is empty")];

#[test]
fn rows_that_neither_the_log_nor_a_file_of_records_can_have_are_counted_on_stderr() {
    for (records, reason) in NO_FILE {
        let run = Run::hsa("signals").args(["none", "300"]).env("LOGDUR_RECORDS", records);
        let run = run.env("LOGDUR_LOG_LOCATION", "/dev/full").watched().passed();
        let [line] = said(&run.stderr)[..] else { panic!("{}", run.stderr) };
        let begin = "logdur: 300 rows are lost: the log /dev/full: No space left on device";
        assert!(line.starts_with(begin) && line.contains(reason), "{line}");
    }
    let log = "/nonexistent/folder/log.csv";
    let run = Run::hsa("signals").args(["none", "300"]).env("LOGDUR_LOG_LOCATION", log).watched().passed();
    let begin = format!("logdur: 300 rows are lost: the log {log} cannot be written: No such file");
    assert!(matches!(said(&run.stderr)[..], [line] if line.starts_with(&begin)), "{}", run.stderr);
}

#[test]
fn omniprobe_counts_the_rows_that_are_lost_and_names_processes_that_ended_before_they_could() {
    for (records, reason) in NO_FILE {
        let run = |program: &str, mode| Run::hsa(program).args([mode, "300"]).env("LOGDUR_RECORDS", records);
        let orderly = run("signals", "none").probed(&["-l", "/dev/full"]).passed().stderr;
        let begin = "omniprobe: 300 rows are lost: the log /dev/full: No space left on device";
        assert!(orderly.contains(begin) && orderly.contains(reason) && !orderly.contains("abruptly"), "{orderly}");
        let abrupt = run("endless", "_exit").probed(&["-l", "/dev/full"]).passed().stderr;
        assert!(abrupt.contains("ended abruptly and had no file of records") && abrupt.contains(reason), "{abrupt}");
        let whole = run("signals", "none").probed(&["-l", "log.csv"]).passed();
        assert_eq!((said(&whole.stderr), whole.log().rows.len()), (Vec::new(), 300));
    }
}

#[test]
fn rows_beyond_the_limit_of_records_are_counted_where_the_rest_is() {
    // A block of records takes 40 KiB.
    let run = run().env("LOGDUR_RECORDS_MAX", "1K").env("LOGDUR_LOG_LOCATION", "/dev/full").watched().passed();
    let [left] = &records_in(&run)[..] else { panic!("{:?}", records_in(&run)) };
    let shown = Command::new(built("omniprobe")).arg("log").arg(left).output().unwrap();
    let log = Log::parse(&String::from_utf8(shown.stdout).unwrap());
    let account = log.account();
    let unwritten = account.get("unwritten").copied().unwrap_or(0);
    assert!(unwritten > 0 && unwritten + account["logged"] == MANY, "{account:?}");
    assert_eq!(log.rows.len() as u64, account["logged"]);
}

#[test]
fn dispatches_beyond_the_limit_of_records_run_and_are_counted_while_the_queue_is_held() {
    // Three times as many dispatches are in flight at once: no row of them can be written meanwhile.
    const IN_FLIGHT: u64 = 12288;
    let run = Run::hsa("rate").args(["held", "1", "64", "1"]).env("LOGDUR_RECORDS_MAX", "1K").watched();
    assert!(run.status.success(), "{}", run.stderr);
    if !harness::on_hardware() {
        // The runtime itself copies code by a larger one.
        let ran = run.trace().iter().filter(|packet| packet["grid"] == serde_json::json!([64, 1, 1])).count();
        assert_eq!(ran as u64, 3 * IN_FLIGHT);
    }
    let log = run.log();
    let account = log.account();
    let passed = account.get("not-recorded").copied().unwrap_or(0);
    assert_eq!((log.rows.len() as u64, account["seen"]), (account["logged"], 3 * IN_FLIGHT));
    assert!(passed > IN_FLIGHT && passed + account["logged"] == 3 * IN_FLIGHT, "{account:?}");
    assert!(log.notices.iter().any(|notice| notice.contains("LOGDUR_RECORDS_MAX")), "{:?}", log.notices);
}

#[test]
fn a_limit_of_the_size_of_files_ends_no_process_and_loses_no_row() {
    let run = Run::hsa("limited").args([MANY, LIMIT].map(|n| n.to_string()));
    let (log, records) = (run.file("log.csv"), run.file("records"));
    fs::create_dir(&records).unwrap();
    // An earlier run has left room for a part of the rows, the last of which is cut.
    let earlier = Run::hsa("signals").args(["none", "1"]).watched().passed().read("log.csv");
    let header = earlier.split_inclusive('\n').next().unwrap();
    let line = format!("# {}\n", "earlier ".repeat(1000));
    let lines = (LIMIT as usize - (MANY as usize * 50)) / line.len();
    fs::write(&log, header.to_owned() + &line.repeat(lines)).unwrap();
    let run = run.env("LOGDUR_RECORDS", records).watched().passed();
    assert_eq!(log.metadata().unwrap().len(), LIMIT);
    has_every_row(&recovered(&run, &log));
}

#[test]
fn limits_of_files_and_memory_end_no_application_and_what_they_leave_no_room_for_is_off_by_name() {
    // Less than the beginning of a capture, and enough for what the program prints.
    let run = Run::hsa("limited").args(["20", "4096"]);
    let (cache, indexes) = (run.file("cache"), run.file("indexes"));
    fs::create_dir(&cache).unwrap();
    fs::copy(harness::hip_object("kernels", &harness::arch(), "-O1"), cache.join("kernels.hsaco")).unwrap();
    let capture = run.file("one.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &capture).env("LOGDUR_KERNEL_CACHE", cache).env("XDG_CACHE_HOME", indexes);
    // The emulated GPU writes files as well.
    let run = run.env("KFDEMU_LOG", "/dev/null").env("KFDEMU_TRACE", "/dev/null").watched().passed();
    assert!(Reader::open(&capture).unwrap().dispatches().is_empty(), "{}", run.stderr);

    let limited = |kibibytes: u32, captures: bool| {
        let script = format!("ulimit -c 0; ulimit -d {kibibytes}; exec {} none 20", harness::hsa("signals").display());
        let run = Run::new("/bin/sh".into()).args(["-c", &script]);
        let capture = run.file("one.ldcap");
        if captures { run.env("LOGDUR_CAPTURE", capture) } else { run }.watched()
    };
    // What the runtime and the emulated GPU need is different in each version.
    let enough = (24_000..400_000).step_by(4_000).find(|limit| limited(*limit, false).status.success()).unwrap();
    let run = limited(enough + 4_000, true).passed();
    let log = run.log();
    assert_eq!(log.rows.len(), 20, "{:?}", log.notices);
    assert!(log.notices.iter().any(|notice| notice.contains("nothing more is captured")), "{:?}", log.notices);
}

#[test]
fn a_pipe_without_a_reader_holds_up_neither_the_start_nor_the_end() {
    let run = run();
    let pipe = pipe(run.file("pipe"));
    let start = Instant::now();
    let run = run.env("LOGDUR_LOG_LOCATION", &pipe).watched().passed();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    has_every_row(&recovered(&run, &run.folder.path().join("late.csv")));
}

#[test]
fn a_reader_of_a_pipe_gets_the_header_and_every_row() {
    let run = run();
    let pipe = pipe(run.file("pipe"));
    let mut reader = reader(&pipe);
    // Until this is dropped the pipe does not end.
    let held = OpenOptions::new().write(true).open(&pipe).unwrap();
    let thread = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).map(|_| text)
    });
    let run = run.env("LOGDUR_LOG_LOCATION", &pipe).watched().passed();
    drop(held);
    has_every_row(&Log::parse(&thread.join().unwrap().unwrap()));
    assert_eq!(records_in(&run), Vec::<PathBuf>::new());
}

#[test]
fn a_reader_that_reads_nothing_does_not_keep_the_process_from_ending_and_the_rest_is_in_the_records() {
    let run = run();
    let pipe = pipe(run.file("pipe"));
    let mut reader = reader(&pipe);
    let start = Instant::now();
    let run = run.env("LOGDUR_LOG_LOCATION", &pipe).watched().passed();
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let [left] = &records_in(&run)[..] else { panic!("{:?}", records_in(&run)) };
    let late = Command::new(built("omniprobe")).arg("log").arg(left).output().unwrap();
    let late = String::from_utf8(late.stdout).unwrap();
    let rows = |text: &str| text.split_inclusive('\n').filter(|l| l.starts_with('"')).map(str::to_owned).collect();
    let (early, late): (BTreeSet<String>, BTreeSet<String>) = (rows(&text), rows(&late));
    assert!(!early.is_empty() && (early.len() as u64) < MANY, "{} rows were in the pipe", early.len());
    assert_eq!(early.union(&late).count() as u64, MANY);
}

#[test]
fn an_application_that_closes_descriptors_and_opens_files_in_their_place_finds_its_own_bytes_in_them() {
    let run = Run::hsa("descriptors");
    let folder = run.file("own");
    fs::create_dir(&folder).unwrap();
    let run = run.args([OsStr::new("500"), folder.as_os_str()]);
    let (cache, capture, indexes) = (run.file("cache"), run.file("one.ldcap"), run.file("indexes"));
    fs::create_dir(&cache).unwrap();
    let object = harness::hip_object("kernels", &harness::arch(), "-O1");
    fs::copy(&object, cache.join("kernels.hsaco")).unwrap();
    let run = run.env("LOGDUR_CAPTURE", &capture).env("LOGDUR_CAPTURE_DISPATCHES", "1,2,600,700");
    let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes).env("LOGDUR_LOG", "debug");
    let mut command = run.command();
    // The emulated device's own files are not guarded.
    command.env_remove("KFDEMU_TRACE").env("HSA_TOOLS_LIB", built("liblogdur.so"));
    command.env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1").env("LOGDUR_LOG_LOCATION", run.file("log.csv"));
    let run = run.finish(command).passed();
    let own: Vec<String> =
        fs::read_dir(folder).unwrap().map(|file| fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let foreign = own.iter().find(|text| *text != "mine\n");
    assert!(own.len() > 900 && foreign.is_none(), "{} files, one with {:.200?}", own.len(), foreign);
    // The log, diagnostics, the capture, the watch.
    assert!(run.stdout.starts_with("4 closed\n"), "{}", run.stdout);
    let log = run.log();
    assert_eq!(log.account()["logged"], 1000);
    let reader = Reader::open(&capture).unwrap();
    let whole = reader.dispatches().iter().filter(|dispatch| dispatch.after.is_some()).count();
    assert_eq!((whole, reader.problems().len()), (4, 0), "{:?}", log.notices);
}
