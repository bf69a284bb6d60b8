//! The column `tid`: which thread of the application asked for what a row is of.

use std::collections::BTreeSet;

use super::unwritable::recovered;
use crate::support::harness::Run;
use crate::support::log::{Log, Row};

/// The numbers that the program prints of its threads.
fn printed(stdout: &str) -> Vec<u64> {
    stdout.lines().filter_map(|line| line.strip_prefix("thread ")?.parse().ok()).collect()
}

/// Which of the program's threads has launched a kernel: its grid says it.
fn launcher(row: &Row) -> usize {
    row.text("grid").split('x').next().unwrap().parse::<usize>().unwrap() / 64 - 1
}

fn wrong<'a>(log: &'a Log, threads: &[u64]) -> Vec<&'a Row> {
    let is_wrong = |row: &&&Row| row.text("tid") != threads[launcher(row)].to_string();
    log.rows_of("marked").iter().filter(is_wrong).copied().collect()
}

#[test]
fn each_dispatch_names_the_thread_that_launched_it_also_where_threads_share_a_queue_and_ring_for_each_other() {
    for plan in ["1 200", "6 200", "12 60"] {
        let run = Run::hip("launched_by").args(plan.split(' ')).watched().passed();
        let (threads, log) = (printed(&run.stdout), run.log());
        assert!(log.rows_of("marked").len() >= 200, "{plan}");
        assert_eq!(wrong(&log, &threads).len(), 0, "{plan}: {threads:?} {:?}", wrong(&log, &threads).first());
    }
}

#[test]
fn queues_of_the_runtime_that_intercept_packets_have_the_right_thread_or_none() {
    let run = Run::hip("launched_by").args(["6", "100"]).env("LOGDUR_QUEUE_MODE", "intercept").watched().passed();
    let (threads, log) = (printed(&run.stdout), run.log());
    let wrong = wrong(&log, &threads);
    assert!(log.rows_of("marked").len() == 600 && wrong.iter().all(|row| row.text("tid").is_empty()), "{wrong:?}");
}

#[test]
fn with_as_many_hardware_queues_as_streams_the_queue_tells_streams_apart() {
    let run = Run::hip("launched_by").args(["6", "20"]).env("GPU_MAX_HW_QUEUES", "8").watched().passed();
    let log = run.log();
    let of_thread = |thread: usize| -> BTreeSet<u64> {
        let rows = log.rows_of("marked").into_iter().filter(|row| launcher(row) == thread);
        rows.map(|row| row.number("queue")).collect()
    };
    let queues: Vec<BTreeSet<u64>> = (0..6).map(of_thread).collect();
    let shared: Vec<u64> =
        queues[0].iter().filter(|queue| queues.iter().all(|own| own.contains(queue))).copied().collect();
    assert!(shared.len() == 1 && queues.iter().all(|own| own.len() == 2), "{queues:?}");
    let all: BTreeSet<u64> = queues.iter().flatten().copied().collect();
    assert_eq!(all.len(), 7, "a queue of each thread's own stream, and one of the stream of all: {queues:?}");
}

#[test]
fn each_copy_names_the_thread_that_asked_for_it() {
    let run = Run::hip("launched_by").args(["2", "4"]).env("LOGDUR_COPIES", "1").watched().passed();
    let (threads, log) = (printed(&run.stdout), run.log());
    let copies: Vec<&Row> = log.rows.iter().filter(|row| row.text("kind") == "copy").collect();
    for copier in &threads[2..] {
        let is_its = |row: &&&Row| row.text("tid") == copier.to_string();
        assert!(copies.iter().filter(is_its).count() > 0, "{copier}: {copies:?}");
    }
    assert!(copies.iter().all(|row| row.number("tid") != 0), "{copies:?}");
}

#[test]
fn a_row_that_is_recovered_from_the_records_has_its_thread() {
    let run = Run::hip("launched_by").args(["4", "50"]);
    let records = run.file("records");
    std::fs::create_dir(&records).unwrap();
    let run = run.env("LOGDUR_RECORDS", records).env("LOGDUR_LOG_LOCATION", "/dev/full").watched().passed();
    let (threads, log) = (printed(&run.stdout), recovered(&run, &run.folder.path().join("late.csv")));
    assert!(log.rows_of("marked").len() == 200 && wrong(&log, &threads).is_empty(), "{threads:?} {:?}", log.rows);
}
