//! `--markers`: ranges and marks of ROCTx as rows, and as tracks of a timeline.

use crate::cli::trace::decoded;
use crate::support::harness::Run;
use crate::support::log::{Log, Row};
use crate::support::versions;

/// What the program marks in order, with the kind of each row. `None` stands for the end of a range that never comes.
const MARKED: &[(&str, &str)] = &[
    ("before the runtime", "mark"),
    ("=an \"inner\", quoted range", "range"),
    ("on a thread", "mark"),
    ("of a thread", "range"),
    ("_Z5acrossv", "range"),
    ("an outer range", "range"),
    ("never ended", "range"),
];

fn markers(log: &Log) -> Vec<&Row> {
    let is_marker = |row: &&Row| matches!(row.text("kind"), "range" | "mark");
    let mut rows: Vec<&Row> = log.rows.iter().filter(is_marker).collect();
    rows.sort_by_key(|row| row.number("id"));
    rows
}

fn times(row: &Row) -> (u64, u64) {
    (row.number("startNs"), row.number("endNs"))
}

#[test]
fn ranges_and_marks_are_rows_that_contain_the_kernels_between_their_calls() {
    let run = Run::hip("markers").probed(&["--markers", "-l", "log.csv"]).passed();
    let log = run.log();
    let rows = markers(&log);
    let found: Vec<(&str, &str)> = rows.iter().map(|row| (row.kernel(), row.text("kind"))).collect();
    assert_eq!(found, MARKED, "{}", run.stderr);
    let row = |name: &str| *rows.iter().find(|row| row.kernel() == name).unwrap();
    let kernel = |name: &str| log.rows.iter().find(|row| row.kernel().starts_with(name)).unwrap();
    let contains = |range: &Row, kernel: &Row| {
        let ((start, end), (first, last)) = (times(range), (kernel.number("dispatch"), kernel.number("endNs")));
        start <= first && last <= end
    };
    let (outer, inner) = (row("an outer range"), row("=an \"inner\", quoted range"));
    assert!(contains(outer, kernel("outer(")) && contains(outer, kernel("inner(")), "{outer:?}");
    assert!(contains(inner, kernel("inner(")) && !contains(inner, kernel("outer(")), "{inner:?}");
    let mark = times(row("on a thread"));
    let across = times(row("_Z5acrossv"));
    assert!(mark.0 == mark.1 && across.0 <= mark.0 && mark.0 <= across.1, "{mark:?} {across:?}");
    let thread = |name: &str| row(name).number("tid");
    let pid = outer.number("pid");
    assert_eq!((thread("an outer range"), thread("never ended")), (pid, pid));
    assert!(thread("of a thread") != pid && thread("of a thread") == thread("_Z5acrossv"));
    let ended = row("never ended");
    assert_eq!((ended.flags(), ended.text("endNs")), ("incomplete", ""));
    for row in rows {
        let empty = ["dispatch", "agent", "queue", "grid", "kernelObject", "bytes", "vgprs"].map(|c| row.text(c));
        assert_eq!(empty, [""; 7], "{row:?}");
    }
    assert_eq!(log.account()["seen"], log.rows.len() as u64);
    assert!(run.stdout.contains("levels 0 1 1 0 0 0\n"), "{}", run.stdout);
}

#[test]
fn a_library_of_roctx_behind_ours_sees_and_returns_what_it_would_without_us() {
    if versions::roctx().is_none() {
        println!("not run: this ROCm has no libroctx64.so.4");
        return;
    }
    let bare = Run::hip("markers").bare().passed();
    let watched = Run::hip("markers").probed(&["--markers", "-l", "log.csv"]).passed();
    assert!(!bare.stdout.contains("traced 0"), "{}", bare.stdout);
    assert_eq!(bare.stdout, watched.stdout);
    assert_eq!(markers(&watched.log()).len(), MARKED.len());
}

#[test]
fn a_program_without_a_gpu_runs_and_a_run_without_markers_has_no_rows_of_them() {
    let run = Run::hip("markers").probed(&["-l", "log.csv"]).passed();
    let log = run.log();
    assert!(log.rows.len() >= 2 && markers(&log).is_empty(), "{:?}", log.rows);
    let mut command = std::process::Command::new(crate::support::harness::built("omniprobe"));
    let output = command.args(["--markers", "--", "true"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_timeline_has_a_track_for_each_thread_that_marks_and_flows_from_doorbells_to_kernels() {
    let run = Run::hip("markers");
    let trace = run.file("run.pftrace");
    let run = run.probed(&["--markers", "-l", "log.csv", "--trace", trace.to_str().unwrap()]).passed();
    let (all, log) = (decoded(&trace), run.log());
    let slices = all["slices"].as_array().unwrap();
    for row in markers(&log).iter().filter(|row| !row.text("endNs").is_empty()) {
        let (start, end) = times(row);
        let track = format!("thread {}", row.number("tid"));
        let process = format!("pid {}", row.number("pid"));
        let list = if row.text("kind") == "mark" { all["instants"].as_array().unwrap() } else { slices };
        let is_it = |s: &&serde_json::Value| {
            let times = (s[1].as_u64().unwrap(), s[2].as_u64().unwrap());
            s[0] == row.kernel()
                && times == (start, end)
                && s[4] == process.as_str()
                && s[3].as_str().unwrap().starts_with(&track)
        };
        assert_eq!(list.iter().filter(is_it).count(), 1, "{row:?}: {list:?}");
    }
    let kernels: Vec<&Row> = log.rows.iter().filter(|row| row.text("kind") == "dispatch").collect();
    let flows = all["flows"].as_array().unwrap();
    assert_eq!(flows.len(), kernels.len());
    for row in kernels {
        let flow = serde_json::json!([row.kernel(), row.number("dispatch"), row.number("startNs")]);
        assert!(flows.contains(&flow), "{row:?}: {flows:?}");
    }
}

#[test]
fn totals_have_ranges_beside_kernels() {
    let run = Run::hip("markers").probed(&["--markers", "--stats", "-l", "log.csv"]).passed();
    assert!(run.stderr.contains("range an outer range: 1 calls in "), "{}", run.stderr);
    let row = run.stderr.lines().find(|line| line.ends_with("outer(int*)")).unwrap_or_default();
    assert!(row.contains(" 1 "), "{}", run.stderr);
}
