//! Rows of copies against the times that the runtime gives the application.

use std::collections::BTreeMap;

use crate::support::harness::Run;
use crate::support::log::{Log, Row};

/// Bytes, start and end of the lines "copy BYTES START END".
fn given(stdout: &str) -> Vec<[u64; 3]> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("copy "));
    let numbers = |line: &str| line.split(' ').map(|word| word.parse().unwrap()).collect::<Vec<u64>>();
    lines.map(|line| numbers(line).try_into().unwrap()).collect()
}

fn counted(numbers: impl Iterator<Item = u64>) -> BTreeMap<u64, usize> {
    numbers.fold(BTreeMap::new(), |mut all, number| {
        *all.entry(number).or_default() += 1;
        all
    })
}

fn copies(log: &Log) -> Vec<&Row> {
    log.rows.iter().filter(|row| row.text("kind") == "copy").collect()
}

#[test]
fn each_copy_is_a_row_with_its_bytes_its_direction_and_the_times_that_the_runtime_gives_the_application() {
    let count = 10;
    let run = || Run::hsa("copy_times").args(["own", &count.to_string()]);
    let bare = run().watched().passed();
    assert_eq!(copies(&bare.log()).len(), 0, "rows without LOGDUR_COPIES");
    let watched = run().env("LOGDUR_COPIES", "1").watched().passed();
    let log = watched.log();
    let rows = copies(&log);
    let mut expected = given(&watched.stdout);
    let mut found: Vec<[u64; 3]> =
        rows.iter().map(|row| ["bytes", "startNs", "endNs"].map(|c| row.number(c))).collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!((expected.len(), found.len()), (4 * count, 4 * count));
    // The runtime corrects its clock now and then: two readings at different times differ by the drift.
    let is_near = |a: u64, b: u64, ns: u64| a.abs_diff(b) <= ns;
    for ([bytes, start, end], [bytes_given, start_given, end_given]) in found.into_iter().zip(expected) {
        let is_same = bytes == bytes_given && is_near(start, start_given, 1_000);
        assert!(
            is_same && is_near(end - start, end_given - start_given, 10),
            "{bytes} bytes at {start}, {start_given}"
        );
    }
    let directions = |name: &str| rows.iter().filter(|row| row.kernel() == name).count();
    assert_eq!(
        ["copy from host to GPU 0", "copy within GPU 0", "copy from GPU 0 to host"].map(directions),
        [count, count, 2 * count]
    );
    for row in &rows {
        assert!(row.number("dispatch") <= row.number("startNs"), "{row:?}");
        let empty = ["queue", "grid", "workgroup", "kernelObject", "flags", "vgprs"].map(|column| row.text(column));
        assert_eq!((empty, row.text("agent")), ([""; 6], "0"));
    }
    assert_eq!(log.account()["seen"], log.rows.len() as u64);
}

#[test]
fn a_program_that_has_the_runtime_take_no_times_of_copies_gets_rows_with_times_all_the_same() {
    let count = 5;
    let run = Run::hsa("copy_times").args(["off", &count.to_string()]).env("LOGDUR_COPIES", "1").watched().passed();
    let log = run.log();
    assert_eq!(copies(&log).len(), 4 * count);
    for row in copies(&log) {
        assert!(row.number("durationNs") > 0 && row.flags().is_empty(), "{row:?}");
    }
}

#[test]
fn a_filter_of_kernels_leaves_copies_and_json_has_them_too() {
    let run = Run::hsa("copy_times").args(["own", "2"]).env("LOGDUR_COPIES", "1");
    let run = run.env("LOGDUR_LOG_FILTER", "^nothing$").env("LOGDUR_LOG_FORMAT", "json").watched().passed();
    let rows: Vec<serde_json::Value> =
        run.read("log.csv").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rows: Vec<_> = rows.iter().filter(|row| row.get("kernel").is_some()).collect();
    let given: BTreeMap<u64, usize> = counted(given(&run.stdout).into_iter().map(|[bytes, ..]| bytes));
    assert_eq!(counted(rows.iter().map(|row| row["bytes"].as_u64().unwrap())), given);
    assert!(rows.iter().all(|row| row["kind"] == "copy" && row["grid"].is_null()), "{rows:?}");
}
