//! Processes that end or fork in unusual ways, beside dispatches and captures: as without the library, and no row is lost.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

use logdur_capture::Reader;

use crate::support::harness::{Outcome, Run, built};
use crate::support::log::Log;

/// Dispatches of a run, at least.
const COUNT: usize = 100;

/// How processes end, and whether the library hears of it.
const WAYS: [(&str, bool); 12] = [
    ("thread-exit", true),
    ("thread-_exit", false),
    ("thread-quick_exit", false),
    ("thread-shut_down", true),
    ("handler-exit", true),
    ("main-quick_exit", false),
    ("main-abort", false),
    ("dispatching-exit", true),
    ("dispatching-_exit", false),
    ("fork-exit", true),
    ("fork-_exit", true),
    ("fork-exec", true),
];

fn run(way: &str) -> Run {
    let run = Run::hsa("ends").args([way, &COUNT.to_string()]);
    let records = run.file("records");
    fs::create_dir(&records).unwrap();
    run.env("LOGDUR_RECORDS", records)
}

/// The log, with the rows that the process could not write.
fn whole_log(run: &Outcome, way: &str, hears: bool) -> Log {
    let records = run.folder.path().join("records");
    let left: Vec<PathBuf> = fs::read_dir(records).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty() || !hears, "{way} left {left:?}");
    let log = run.folder.path().join("log.csv");
    if let [left] = &left[..] {
        let output = Command::new(built("omniprobe")).arg("log").arg(left).arg("-l").arg(&log).output().unwrap();
        assert!(output.status.success(), "{way}: {}", String::from_utf8_lossy(&output.stderr));
    }
    run.log()
}

#[test]
fn a_process_that_ends_or_forks_in_an_unusual_way_does_so_as_without_the_library_and_no_row_is_lost() {
    for (way, hears) in WAYS {
        let bare = run(way).bare();
        let status = (bare.status.code(), bare.status.signal());
        if !matches!(status, (Some(7), None) | (None, Some(libc::SIGABRT))) {
            // A runtime that does not stand this has no example to give.
            continue;
        }
        for captures in [false, true] {
            let run = run(way);
            let file = run.file("one.ldcap");
            let run = if captures {
                run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_DISPATCHES", "1,50,99")
            } else {
                run
            };
            let run = run.watched();
            let what = format!("{way}, captures: {captures}: {}{}", run.stdout, run.stderr);
            assert_eq!((run.status.code(), run.status.signal()), status, "{what}");
            assert_eq!(run.stdout, bare.stdout, "{what}");
            let log = whole_log(&run, way, hears);
            let account = log.account();
            // What another thread dispatches while the process ends may never reach the GPU.
            let submitted = account["seen"] - account.get("not-submitted").copied().unwrap_or(0);
            assert!(log.rows.len() >= COUNT && submitted == log.rows.len() as u64, "{what}: {account:?}");
            if captures {
                let reader = Reader::open(&file).unwrap();
                let problems = reader.problems();
                assert!(problems.is_empty(), "{what}: {problems:?}");
                let captured = reader.dispatches().iter().filter(|dispatch| dispatch.after.is_some()).count();
                assert!(captured > 0, "{what}: {:?}", log.notices);
            }
        }
    }
}

#[test]
fn the_end_of_a_process_with_a_log_allocates_nothing_on_the_applications_heap() {
    for count in [1_u64, 3000] {
        let run = Run::hsa("late_memory").args([count.to_string()]).watched().passed();
        assert_eq!(run.log().account()["logged"], count);
        let late: Vec<&str> = run.stderr.lines().filter(|line| line.starts_with("late:")).collect();
        // The program's own is seen.
        assert!(late.iter().any(|line| line.contains(" late_memory ")), "{late:?}");
        let ours: Vec<&&str> = late.iter().filter(|line| line.contains("liblogdur")).collect();
        assert!(ours.is_empty(), "{count}: {ours:#?}");
    }
}
