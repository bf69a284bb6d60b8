//! `-t records`: a log that nobody formats while the application runs. What reads logs reads it, with the rows that a log in text has.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use logdur_journal::lines::{Format, Lines};

use crate::support::harness::{self, Outcome, Run, built};
use crate::support::log::{COLUMNS, Log};

use super::crash;
use super::unwritable::{LIMIT, MANY, SOON, has_every_row, pipe, reader, records_in, run};

/// Columns in which two runs differ: times, addresses, and numbers that the system gives.
const OF_A_RUN: &[&str] =
    &["dispatch", "startNs", "endNs", "durationNs", "id", "queue", "kernelObject", "pid", "tid", "site"];

/// A subcommand of `omniprobe`.
fn omniprobe(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let output = Command::new(built("omniprobe")).args(arguments.iter().map(|argument| argument.as_ref())).output();
    output.unwrap()
}

/// What it prints, once it has worked.
pub(super) fn printed(arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> String {
    let output = omniprobe(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A log in records, as text.
pub(super) fn text(log: &Path) -> String {
    assert!(fs::read(log).unwrap().starts_with(b"LDROWS\r\n"), "{}", log.display());
    printed(&[&"log", &log])
}

/// The log of a run that wrote records.
fn log_of(run: &Outcome) -> Log {
    Log::parse(&text(&run.folder.path().join("log.csv")))
}

/// The columns of a log's rows in which runs do not differ, sorted.
fn lasting(log: &Log) -> Vec<Vec<String>> {
    let columns = COLUMNS.iter().filter(|column| !OF_A_RUN.contains(column));
    let mut rows: Vec<Vec<String>> =
        log.rows.iter().map(|row| columns.clone().map(|column| row.text(column).to_owned()).collect()).collect();
    rows.sort();
    rows
}

#[test]
fn rows_are_those_of_a_log_in_text_whatever_is_logged() {
    for (program, options) in [
        ("streams", &["--names", "both", "--copies"][..]),
        ("markers", &["--markers", "--log-exclude", "^outer"]),
        ("vectors", &["--stacks", "kernel=.*"]),
    ] {
        let of = |format: &str| {
            let options = [options, &["-l", "log.csv", "-t", format]].concat();
            Run::hip(program).env("PMI_RANK", "3").probed(&options).passed()
        };
        let (csv, records) = (of("csv"), of("records"));
        let (expected, found) = (csv.log(), log_of(&records));
        assert_eq!(lasting(&found), lasting(&expected), "{program}");
        let sums = |log: &Log| {
            let mut account = log.account().clone();
            account.remove("pid");
            account
        };
        assert_eq!(sums(&found), sums(&expected), "{program}");
        for row in found.rows.iter().filter(|row| row.flags().is_empty()) {
            assert_eq!(row.number("endNs") - row.number("startNs"), row.number("durationNs"), "{row:?}");
            assert!(row.text("kind") != "dispatch" || row.number("dispatch") <= row.number("startNs"), "{row:?}");
            assert!(row.text("kind") == "range" || row.text("kind") == "mark" || row.number("tid") > 0, "{row:?}");
        }
        let lines = |text: &str| {
            let mut begins: Vec<String> = text
                .lines()
                .filter(|line| line.starts_with('#'))
                .map(|line| line.split([':', ' ']).take(2).collect::<Vec<_>>().join(" "))
                .collect();
            begins.sort();
            begins
        };
        let in_text = text(&records.folder.path().join("log.csv"));
        assert_eq!(lines(&in_text), lines(&csv.read("log.csv")), "{program}");
    }
}

#[test]
fn a_log_in_records_is_shorter_by_half_and_takes_no_more_than_a_hundred_bytes_a_dispatch() {
    let of = |format: &str| {
        let run = Run::hsa("rate").args(["held", "1", "64", "3"]).env("LOGDUR_LOG_FORMAT", format).watched();
        assert!(run.status.success(), "{}", run.stderr);
        run
    };
    let (csv, records) = (of("csv"), of("records"));
    let size = |run: &Outcome| run.folder.path().join("log.csv").metadata().unwrap().len();
    let rows = log_of(&records).rows.len() as u64;
    assert!(rows > 10_000 && rows == csv.log().rows.len() as u64, "{rows}");
    assert!(size(&records) < 100 * rows && 2 * size(&records) < size(&csv), "{} {}", size(&records), size(&csv));
}

#[test]
fn all_that_reads_logs_reads_records() {
    let run = Run::hip("streams").probed(&["-t", "records", "-l", "log.csv", "--stats", "--trace", "t.json"]).passed();
    assert!(run.stderr.contains("kernel"), "{}", run.stderr);
    let log = run.folder.path().join("log.csv");
    let csv = run.folder.path().join("same.csv");
    assert_eq!(printed(&[&"log", &log, &"-l", &csv]), "");
    assert_eq!(fs::read_to_string(&csv).unwrap(), text(&log));
    // They are named in what is shown.
    let same = |arguments: &[&str]| {
        let of = |log: &Path| {
            let mut all: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&arguments[0], &log];
            all.extend(arguments[1..].iter().map(|argument| argument as &dyn AsRef<std::ffi::OsStr>));
            printed(&all)
        };
        let (found, expected) = (of(&log), of(&csv));
        assert!(!expected.is_empty());
        assert_eq!(found.replace("log.csv", "same.csv"), expected, "{arguments:?}");
    };
    for by in ["kernel", "shape", "queue", "gpu"] {
        same(&["summary", "--csv", "--by", by]);
    }
    same(&["summary", "--json", "--last"]);
    let made = |log: &Path, arguments: &[&str], name: &str| {
        let to = run.folder.path().join(name);
        let mut all: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&arguments[0], &log];
        all.extend(arguments[1..].iter().map(|argument| argument as &dyn AsRef<std::ffi::OsStr>));
        all.push(&to);
        printed(&all);
        let bytes = fs::read(&to).unwrap();
        fs::remove_file(to).unwrap();
        bytes
    };
    for (arguments, name) in
        [(["export", "--parquet"], "rows.parquet"), (["export", "--csv"], "rows.csv"), (["trace", "-o"], "rows.json")]
    {
        let (found, expected) = (made(&log, &arguments, name), made(&csv, &arguments, name));
        assert!(!expected.is_empty() && found == expected, "{arguments:?}");
    }
    for format in ["json", "csv-safe"] {
        let text = printed(&[&"log", &log, &"-t", &format]);
        let path = run.folder.path().join(format);
        fs::write(&path, text).unwrap();
        let totals = |log: &Path| printed(&[&"summary", &log, &"--csv"]);
        assert_eq!(totals(&path), totals(&csv), "{format}");
    }
}

#[test]
fn a_process_that_is_killed_at_any_moment_leaves_each_row_once_in_its_log_and_its_records() {
    if harness::on_hardware() {
        return;
    }
    let (mut instants, mut recovered) = (crash::Instants(0x1234_5678_9abc), 0);
    for _ in 0..harness::count(12, 100) {
        let run = crash::endless("kill", 64).env("LOGDUR_LOG_FORMAT", "records");
        let outcome = crash::killed(run, instants.next(Duration::from_millis(80)));
        let (folder, log) = (outcome.folder.path().join("records"), outcome.folder.path().join("log.csv"));
        let left = crash::records_in(&folder);
        // What it leaves is the same in text and in records.
        let (late, as_csv) = (outcome.folder.path().join("late"), outcome.folder.path().join("late.csv"));
        printed(&[&"log", &left[0], &"-l", &late]);
        printed(&[&"log", &left[0], &"-t", &"csv", &"-l", &as_csv]);
        let rows =
            |text: &str| text.lines().filter(|line| line.starts_with('"')).map(str::to_owned).collect::<Vec<_>>();
        let expected = fs::read_to_string(&as_csv).unwrap();
        assert_eq!(rows(&expected), rows(&text(&late)));
        recovered += rows(&expected).len();
        crash::omniprobe_log(&left, Some(&log));
        crash::assert_no_row_is_missing(&log_of(&outcome), &outcome.read("trace.json"));
        let whole = fs::read(&log).unwrap();
        crash::omniprobe_log(&left, Some(&log));
        assert_eq!(fs::read(&log).unwrap(), whole, "nothing is written twice");
    }
    assert!(recovered > 0, "no process left a row that was not written");
}

#[test]
fn a_log_that_is_cut_or_damaged_is_read_and_what_is_missing_is_counted() {
    let run = Run::hsa("signals").args(["none", "2000"]).env("LOGDUR_LOG_FORMAT", "records").watched().passed();
    let log = run.folder.path().join("log.csv");
    let whole = fs::read(&log).unwrap();
    let rows = |text: &[u8]| String::from_utf8_lossy(text).lines().filter(|line| line.starts_with('"')).count();
    assert_eq!(rows(text(&log).as_bytes()), 2000);
    for (damage, told) in [
        ((|bytes: &mut Vec<u8>| bytes.truncate(bytes.len() / 2)) as fn(&mut Vec<u8>), "before the end"),
        (
            |bytes| {
                let at = bytes.len() / 2;
                bytes[at] ^= 1
            },
            "the checksum of a chunk",
        ),
    ] {
        let mut bytes = whole.clone();
        damage(&mut bytes);
        fs::write(&log, bytes).unwrap();
        let output = omniprobe(&[&"log", &log]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(told) && !output.status.success(), "{said}");
        let there = rows(&output.stdout);
        assert!(there < 2000);
        let output = omniprobe(&[&"summary", &log]);
        let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(told), "{said}");
        // The account is behind what is damaged, and gone with what is cut off.
        let missing = format!("{} rows are missing", 2000 - there);
        assert!(said.contains(&missing) || told == "before the end", "{said}");
    }
}

/// The log of a run whose rows waited in its records.
fn recovered(run: &Outcome, log: &Path) -> Log {
    let [left] = &records_in(run)[..] else { panic!("expected one file of records, found {:?}", records_in(run)) };
    printed(&[&"log", left, &"-l", &log]);
    Log::parse(&text(log))
}

#[test]
fn a_full_device_and_a_limit_of_files_lose_no_row_and_keep_nobody_waiting() {
    let start = Instant::now();
    let full = run().env("LOGDUR_LOG_FORMAT", "records").env("LOGDUR_LOG_LOCATION", "/dev/full").watched().passed();
    has_every_row(&recovered(&full, &full.folder.path().join("late")));

    let run = Run::hsa("limited").args([MANY, LIMIT].map(|n| n.to_string())).env("LOGDUR_LOG_FORMAT", "records");
    let (log, records) = (run.file("log.csv"), run.file("records"));
    fs::create_dir(&records).unwrap();
    // An earlier run has left room for a part of the rows, the last chunk of which is cut.
    let earlier = Run::hsa("signals").args(["none", "2000"]).env("LOGDUR_LOG_FORMAT", "records").watched().passed();
    let mut chunks = fs::read(earlier.folder.path().join("log.csv")).unwrap();
    let long = "earlier ".repeat((LIMIT as usize - MANY as usize * 20 - chunks.len()) / 8);
    Lines::of(Format::Records).notice(&mut chunks, &long);
    fs::write(&log, chunks).unwrap();
    let run = run.env("LOGDUR_RECORDS", records).watched().passed();
    assert_eq!(log.metadata().unwrap().len(), LIMIT);
    let [left] = &records_in(&run)[..] else { panic!("{:?}", records_in(&run)) };
    printed(&[&"log", left, &"-l", &log]);
    let all = text(&log);
    assert_eq!(all.lines().filter(|line| line.starts_with('"')).count(), 2000 + MANY as usize);
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}

#[test]
fn rows_that_nothing_can_keep_are_counted_as_those_of_a_log_in_text() {
    let run = Run::hsa("signals").args(["none", "300"]).env("LOGDUR_RECORDS", "").env("LOGDUR_LOG_FORMAT", "records");
    let run = run.env("LOGDUR_LOG_LOCATION", "/dev/full").watched().passed();
    assert!(
        run.stderr.contains("logdur: 300 rows are lost: the log /dev/full: No space left on device"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_reader_of_a_pipe_gets_every_row_of_a_log_in_records() {
    let run = run().env("LOGDUR_LOG_FORMAT", "records");
    let pipe = pipe(run.file("pipe"));
    let mut reader = reader(&pipe);
    // Until this is dropped the pipe does not end.
    let held = OpenOptions::new().write(true).open(&pipe).unwrap();
    let thread = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        reader.read_to_end(&mut bytes).map(|_| bytes)
    });
    let run = run.env("LOGDUR_LOG_LOCATION", &pipe).watched().passed();
    drop(held);
    let log = run.folder.path().join("read");
    fs::write(&log, thread.join().unwrap().unwrap()).unwrap();
    has_every_row(&Log::parse(&text(&log)));
    assert_eq!(records_in(&run), Vec::<PathBuf>::new());
}

#[test]
fn processes_share_a_log_and_each_row_names_its_own() {
    let run = Run::hsa("signals").args(["none", "200"]);
    let log = run.file("shared");
    let mut children: Vec<_> = (0..4)
        .map(|rank| {
            let mut command = run.command();
            command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
            command
                .env("LOGDUR_LOG_LOCATION", &log)
                .env("LOGDUR_LOG_FORMAT", "records")
                .env("PMI_RANK", rank.to_string());
            command.stdout(std::process::Stdio::null()).spawn().unwrap()
        })
        .collect();
    let pids: Vec<u64> = children.iter().map(|child| child.id().into()).collect();
    children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
    let text = text(&log);
    let log = Log::parse(&text);
    for (rank, pid) in pids.iter().enumerate() {
        let rows = log.rows.iter().filter(|row| row.number("pid") == *pid && row.number("rank") == rank as u64);
        assert_eq!(rows.filter(|row| row.kernel().starts_with("increment")).count(), 200, "{rank}");
        assert!(text.contains(&format!("# account: pid={pid} seen=200 logged=200\n")), "{text}");
    }
}

#[test]
fn what_cannot_work_is_refused_before_the_application_starts() {
    let refused = |options: &[&str], told: &str| {
        let run = Run::hsa("signals").args(["none", "3"]);
        fs::write(run.file("log.csv"), "kernel,dispatch\n").unwrap();
        let run = run.probed(options);
        assert!(!run.status.success() && run.stdout.is_empty(), "{options:?}: {}", run.stdout);
        assert!(run.stderr.contains(told), "{options:?}: {}", run.stderr);
    };
    let place = "-t records: expected a file or a named pipe of its own";
    refused(&["-t", "records"], place);
    refused(&["-t", "records", "-l", "/dev/stdout"], place);
    refused(&["-t", "records", "-l", "log.csv"], "expected a log in records or an empty file, found a log in text");
    refused(&["-t", "records", "--csv-safe", "-l", "log"], "cannot be used with");
    // Without omniprobe, the application runs, and that there are no rows is said.
    let run = Run::hsa("signals").args(["none", "3"]).env("LOGDUR_LOG_FORMAT", "records");
    let run = run.env("LOGDUR_LOG_LOCATION", "console").watched().passed();
    assert!(run.stderr.contains("logdur: ") && run.stderr.contains("needs a file or a named pipe"), "{}", run.stderr);
    // A log in text is not made of one in records.
    let run = Run::hsa("signals").args(["none", "3"]).probed(&["-t", "records", "-l", "log.csv"]).passed();
    let again = omniprobe(&[&"log", &run.folder.path().join("log.csv"), &"-l", &run.folder.path().join("log.csv")]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("found a log in records"), "{again:?}");
}

/// A run of many dispatches at once, whose records are in a file system in memory with so many KiB, and their log there or not.
/// Returns the log's copy, and rows that are said to be lost.
fn in_small_memory(kibibytes: u32, is_log_there: bool) -> (Outcome, PathBuf, u64) {
    let run = Run::new("/usr/bin/unshare".into());
    let (small, outside) = (run.file("small"), run.file("outside"));
    for folder in [&small, &outside] {
        fs::create_dir(folder).unwrap();
    }
    let log = if is_log_there { &small } else { &outside }.join("log");
    // The file system is gone when the script ends.
    let script = format!(
        "mount -t tmpfs -o size={kibibytes}k none {small} && LOGDUR_LOG_LOCATION={log} {program} held 1 64 1 && \
         {{ [ -z \"$(ls {small})\" ] || cp -p {small}/* {outside}; }}",
        small = small.display(),
        log = log.display(),
        outside = outside.display(),
        program = harness::hsa("rate").display(),
    );
    let run = run.args(["--user", "--map-root-user", "--mount", "/bin/sh", "-c", &script]);
    let run = run.env("LOGDUR_LOG_FORMAT", "records").env("LOGDUR_RECORDS", &small);
    let run = run.watched();
    assert!(run.status.success(), "{}", run.stderr);
    let lost = run.stderr.lines().find_map(|line| line.strip_prefix("logdur: ")?.split_once(" rows are lost: "));
    let lost = lost.map_or(0, |(rows, _)| rows.parse().unwrap());
    (run, outside.join("log"), lost)
}

#[test]
fn a_small_file_system_in_memory_keeps_nobody_waiting_and_each_dispatch_is_in_the_log_or_counted() {
    // Three times as many dispatches as are in flight at once, whose records take a MiB.
    const ALL: usize = 3 * 12288;
    let start = Instant::now();
    let (_run, log, lost) = in_small_memory(512, false);
    let log = Log::parse(&text(&log));
    assert_eq!((log.rows.len(), log.account()["logged"], lost), (ALL, ALL as u64, 0));
    assert!(log.notices.iter().any(|notice| notice.contains("No space left on device")), "{:?}", log.notices);

    let (run, log, lost) = in_small_memory(512, true);
    let left = fs::read_dir(log.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let left: Vec<PathBuf> = left.filter(|path| path.extension().is_some_and(|name| name == "records")).collect();
    let [left] = &left[..] else { panic!("{left:?}: {}", run.stderr) };
    let late = log.with_extension("late");
    fs::copy(&log, &late).unwrap();
    printed(&[&"log", left, &"-l", &late]);
    let rows = Log::parse(&text(&late)).rows.len();
    assert!(lost > 0 && rows > 0 && rows as u64 + lost == ALL as u64, "{rows} {lost}");
    assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
}
