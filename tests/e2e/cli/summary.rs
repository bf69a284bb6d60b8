//! `omniprobe summary` and `--stats`: totals against those that a reader of CSV adds up.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::harness::{self, Run, built};
use crate::support::log::{Log, Row};

fn summary(logs: &[&Path], options: &[&str]) -> Output {
    let mut command = Command::new(built("omniprobe"));
    command.arg("summary").args(logs).args(options).stdin(Stdio::null());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(logs: &[&Path], options: &[&str]) -> Value {
    let output = summary(logs, &[options, &["--json"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Calls and the sum of durations by what `key` gives of a row, as the rows of a log have them.
fn added<K: Ord>(log: &Log, key: impl Fn(&Row) -> K) -> BTreeMap<K, (u64, u64)> {
    let mut all = BTreeMap::new();
    for row in &log.rows {
        let (calls, total) = all.entry(key(row)).or_insert((0, 0));
        *calls += 1;
        *total += row.number("durationNs");
    }
    all
}

fn calls_and_total(group: &Value) -> (u64, u64) {
    (group["calls"].as_u64().unwrap(), group["totalNs"].as_u64().unwrap())
}

#[test]
fn totals_are_those_of_the_rows_whatever_they_are_grouped_by() {
    let run = Run::hip("streams").watched().passed();
    let (path, log) = (run.folder.path().join("log.csv"), run.log());
    let groups = |by: &str| json(&[&path], &["--by", by])["groups"].as_array().unwrap().clone();

    let kernels: BTreeMap<String, _> =
        groups("kernel").iter().map(|g| (g["name"].as_str().unwrap().to_owned(), calls_and_total(g))).collect();
    assert_eq!(kernels, added(&log, |row| row.kernel().to_owned()));
    let queues: BTreeMap<u64, _> =
        groups("queue").iter().map(|g| (g["queue"].as_u64().unwrap(), calls_and_total(g))).collect();
    assert_eq!(queues, added(&log, |row| row.number("queue")));
    let shapes = groups("shape");
    let expected =
        added(&log, |row| (row.kernel().to_owned(), row.text("grid").to_owned(), row.text("workgroup").to_owned()));
    assert_eq!(shapes.len(), expected.len());
    let mut sums: Vec<_> = shapes.iter().map(calls_and_total).collect();
    let mut wanted: Vec<_> = expected.into_values().collect();
    sums.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(sums, wanted);

    let gpu = &json(&[&path], &[])["gpus"][0];
    let number = |column| log.rows.iter().map(move |row: &Row| row.number(column));
    let span = number("endNs").max().unwrap() - number("startNs").min().unwrap();
    assert_eq!((gpu["spanNs"].as_u64(), gpu["calls"].as_u64()), (Some(span), Some(log.rows.len() as u64)));
    assert_eq!(gpu["busyNs"].as_u64().unwrap() + gpu["idleNs"].as_u64().unwrap(), span);
}

#[test]
fn both_formats_and_several_files_are_added_up() {
    let csv = Run::hip("vectors").watched().passed();
    let both = Run::hip("vectors").env("LOGDUR_LOG_FORMAT", "json").watched().passed();
    let paths = [&csv, &both].map(|run| run.folder.path().join("log.csv"));
    let rows = csv.log().rows.len() as u64;
    let all = json(&[&paths[0], &paths[1]], &[]);
    assert_eq!((all["rows"].as_u64(), all["unreadable"].as_u64()), (Some(2 * rows), Some(0)));
    assert_eq!(all["accounts"]["seen"].as_u64(), Some(2 * rows));
    for group in all["groups"].as_array().unwrap() {
        assert_eq!(group["calls"].as_u64().unwrap() % 2, 0, "{group}");
    }
    let logs = json(&[&paths[0], &paths[1]], &["--by", "log"]);
    assert_eq!(logs["groups"].as_array().unwrap().len(), 2);
}

#[test]
fn csv_has_the_columns_of_rocprofv3_first_and_a_reader_takes_every_name() {
    let run = Run::hip("memory").watched().passed();
    let path = run.folder.path().join("log.csv");
    let output = summary(&[&path], &["--csv"]);
    let mut reader = csv::Reader::from_reader(output.stdout.as_slice());
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let statistics = ["Name", "Calls", "TotalDurationNs", "AverageNs", "Percentage", "MinNs", "MaxNs", "StdDev"];
    assert!(header.iter().map(String::as_str).take(8).eq(statistics), "{header:?}");
    let names: BTreeMap<String, u64> =
        reader.records().map(|r| r.unwrap()).map(|r| (r[0].to_owned(), r[1].parse().unwrap())).collect();
    let expected: BTreeMap<String, u64> =
        added(&run.log(), |row| row.kernel().to_owned()).into_iter().map(|(name, (calls, _))| (name, calls)).collect();
    assert_eq!(names, expected);
}

#[test]
fn stats_are_printed_behind_what_the_application_said_and_its_log_is_the_same_as_ever() {
    let run = Run::hip("vectors").probed(&["--stats"]).passed();
    assert!(!run.stdout.contains("kernel,dispatch"), "{}", run.stdout);
    let kernels = crate::support::versions::kernels_of_vectors();
    assert!(
        run.stderr.contains("reduce(") && run.stderr.contains(&format!(": {kernels} dispatches in ")),
        "{}",
        run.stderr
    );

    // A log that has rows of an earlier run, and one for each process.
    let earlier = Run::hip("vectors").watched().passed();
    let log = earlier.folder.path().join("log.csv");
    let run = Run::hip("vectors").probed(&["--stats", "-l", log.to_str().unwrap()]).passed();
    assert!(run.stderr.contains(&format!(": {kernels} dispatches in ")), "{}", run.stderr);
    assert_eq!(fs::read_to_string(&log).unwrap().matches("reduce(").count(), 2);
    let folder = tempfile::tempdir().unwrap();
    let pattern = folder.path().join("rows.%p.csv");
    let run = Run::hip("vectors").probed(&["--stats", "-l", pattern.to_str().unwrap()]).passed();
    assert!(run.stderr.contains(&format!(": {kernels} dispatches in ")), "{}", run.stderr);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let outside = folder.path().join("outside.csv");
    let run = Run::hip("vectors").env("LOGDUR_LOG_LOCATION", &outside).probed(&["--stats"]).passed();
    assert!(run.stderr.contains(&format!(": {kernels} dispatches in ")), "{}", run.stderr);
    assert_eq!(fs::read_to_string(&outside).unwrap().matches("reduce(").count(), 1);
    let refused = Run::hip("vectors").probed(&["--stats", "-l", "console"]);
    assert!(refused.status.code() == Some(1) && refused.stderr.contains("expected -l FILE"), "{}", refused.stderr);
}

#[test]
fn what_is_no_row_is_counted_and_what_is_no_log_is_refused_by_name() {
    let run = Run::hip("vectors").watched().passed();
    let log = run.read("log.csv");
    let cut = run.folder.path().join("cut.csv");
    let rows = log.lines().filter(|line| line.starts_with('"')).count();
    let end = log.find("\n# account").unwrap();
    fs::write(&cut, &log[..end - 60]).unwrap();
    let output = summary(&[&cut], &["--json"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((all["rows"].as_u64(), all["unreadable"].as_u64()), (Some(rows as u64 - 1), Some(1)));
    let said = text(&output.stderr);
    assert!(said.contains("1 lines are no rows") && said.contains(&format!("{}:", cut.display())), "{said}");

    let output = summary(&[&built("omniprobe")], &[]);
    assert!(
        output.status.code() == Some(1) && text(&output.stderr).contains("expected a header"),
        "{:?}",
        output.status
    );
    let empty = run.folder.path().join("empty.csv");
    fs::write(&empty, "").unwrap();
    assert_eq!(summary(&[&empty], &[]).status.code(), Some(11));
}

/// A log of `count` dispatches of each kernel, whose durations spread by some percent around the given ones.
fn made(path: &Path, product: &str, count: u64, kernels: &[(&str, u64)]) {
    let mut text = format!("kernel,dispatch,startNs,endNs\n# agent 0: gfx90a, {product}\n");
    for (name, duration) in kernels {
        for i in 0..count {
            let start = 1_000_000 * i;
            text += &format!("\"{name}\",{start},{start},{}\n", start + duration + duration * (i * 7919 % 100) / 2000);
        }
    }
    fs::write(path, text).unwrap();
}

#[test]
fn a_slower_kernel_fails_the_comparison_and_noise_or_emulated_times_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    made(&path("old.csv"), "MI210", 200, &[("f(int)", 10_000), ("g(int)", 5_000), ("gone()", 10)]);
    made(&path("same.csv"), "MI210", 200, &[("f(int)", 10_020), ("g(int)", 5_000), ("gone()", 10)]);
    made(&path("slow.csv"), "MI210", 200, &[("f(int)", 11_500), ("g(int)", 5_000), ("new()", 10)]);
    made(&path("few.csv"), "MI210", 3, &[("f(int)", 11_500)]);
    made(&path("emulated.csv"), "MI210 (emulated)", 200, &[("f(int)", 11_500)]);
    made(&path("other.csv"), "MI210", 200, &[("h()", 11_500)]);
    let baseline = path("old.csv");
    for (name, limit, status) in [
        ("same.csv", "5%", 0),
        ("slow.csv", "5%", 6),
        ("slow.csv", "20", 0),
        ("few.csv", "5%", 0),
        ("emulated.csv", "5%", 10),
        ("other.csv", "5%", 11),
    ] {
        let output = summary(&[&path(name)], &["--against", baseline.to_str().unwrap(), "--fail-above", limit]);
        assert_eq!(output.status.code(), Some(status), "{name}: {}{}", text(&output.stdout), text(&output.stderr));
    }
    let all = json(&[&path("slow.csv")], &["--against", baseline.to_str().unwrap()]);
    let verdict = |kernel: &str| {
        let kernels = all["kernels"].as_array().unwrap();
        kernels.iter().find(|k| k["kernel"] == kernel).unwrap()["verdict"].as_str().unwrap().to_owned()
    };
    assert_eq!((verdict("f(int)").as_str(), verdict("g(int)").as_str()), ("slower", "no difference shown"));
    assert_eq!((verdict("new()").as_str(), verdict("gone()").as_str()), ("only in the log", "only in the baseline"));
    let output = summary(&[&path("slow.csv")], &["--fail-above", "5%"]);
    assert_eq!(output.status.code(), Some(1), "{}", harness::root().display());
}

#[test]
fn different_kernels_of_one_name_are_kept_apart_by_their_code_objects_and_the_same_one_twice_is_not() {
    let object = |options: &str| harness::hip_object("twin_kernel", &harness::arch(), options);
    let (three, five) = (object("-DN=3"), object("-DN=5"));
    let names = |files: &[&Path], format: &str| -> Vec<(String, u64)> {
        let run = Run::hip("twins").args(files).env("LOGDUR_LOG_FORMAT", format).watched().passed();
        let path = run.folder.path().join("log.csv");
        let said = json(&[&path], &[]);
        let groups = said["groups"].as_array().unwrap().iter();
        let mut all: Vec<(String, u64)> = groups
            .map(|group| (group["name"].as_str().unwrap().to_owned(), group["calls"].as_u64().unwrap()))
            .collect();
        all.retain(|(name, _)| !name.starts_with("__amd_rocclr_"));
        // A timeline names them alike.
        let trace = run.folder.path().join("trace.json");
        let made = Command::new(built("omniprobe")).arg("trace").arg(&path).arg("-o").arg(&trace).output().unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        let shown = fs::read_to_string(&trace).unwrap();
        assert!(all.iter().all(|(name, _)| shown.contains(&format!("\"name\":\"{name}\""))), "{all:?} in {shown}");
        all.sort();
        all
    };
    for format in ["csv", "json"] {
        let found = names(&[&three, &five], format);
        let is_told = |name: &str| name.starts_with("twin [") && name.ends_with(']');
        assert!(found.len() == 2 && found.iter().all(|(name, calls)| is_told(name) && *calls == 2), "{found:?}");
    }
    assert_eq!(names(&[&three, &three], "csv"), [("twin".to_owned(), 4)]);
}

#[test]
fn rows_that_are_appended_to_a_log_of_an_earlier_version_are_read_by_their_own_header() {
    let run = Run::hip("vectors");
    let path = run.file("log.csv");
    fs::write(&path, "kernel,dispatch,startNs,endNs\n\"old\",1,2,5\n").unwrap();
    let run = run.watched().passed();
    let said = json(&[&path], &[]);
    let rows = run.read("log.csv").lines().filter(|line| line.starts_with('"')).count() as u64;
    assert!(rows > 1 && said["rows"] == rows && said["unreadable"] == 0, "{said}");
}
