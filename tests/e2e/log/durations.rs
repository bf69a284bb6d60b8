//! Rows and their times: every dispatch, with the times that the application itself reads.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::harness::{self, Run};
use crate::support::log::{Log, Row};
use crate::support::versions;

/// A line "ticks START END NS_START NS_END" of the program.
struct Times {
    ticks: (u64, u64),
    ns: (u64, u64),
}

fn times(stdout: &str) -> Vec<Times> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("ticks "));
    lines
        .map(|line| {
            let n: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            Times { ticks: (n[0], n[1]), ns: (n[2], n[3]) }
        })
        .collect()
}

/// Nanoseconds of a tick of a 100 MHz counter, the slowest of the GPUs.
const TICK_NS: f64 = 10.0;

fn assert_same_time(row: &Row, app: &Times) {
    let (start, end) = (row.number("startNs") as f64, row.number("endNs") as f64);
    let far = |a: f64, b: f64| (a - b).abs() > TICK_NS.max(2e-5 * (app.ns.1 - app.ns.0) as f64) + 1.0;
    assert!(!far(end - start, (app.ns.1 - app.ns.0) as f64), "{row:?}, the application reads {:?}", app.ns);
    // The runtime corrects its clock now and then: two readings at different times differ by the drift.
    assert!((start - app.ns.0 as f64).abs() < 50_000.0, "{row:?}, the application reads {:?}", app.ns);
}

fn ran_in_order(log: &Log) {
    for row in &log.rows {
        assert!(row.number("dispatch") <= row.number("startNs"), "started before it was dispatched: {row:?}");
        assert!(row.number("startNs") < row.number("endNs"), "{row:?}");
        assert_eq!(row.number("durationNs"), row.number("endNs") - row.number("startNs"), "{row:?}");
    }
}

#[test]
fn every_kernel_of_a_hip_program_is_a_row_and_its_output_is_unchanged() {
    for arch in harness::archs() {
        let bare = Run::hip("vectors").arch(&arch).bare().passed();
        let watched = Run::hip("vectors").arch(&arch).watched().passed();
        assert_eq!((&watched.stdout, &watched.stderr), (&bare.stdout, &bare.stderr), "with the library on {arch}");
        let log = watched.log();
        for kernel in ["vector_add(float const*, float const*, float*, int)", "saxpy_loop(", "reduce("] {
            assert_eq!(log.rows_of(kernel).len(), 1, "rows of {kernel} on {arch}");
        }
        assert_eq!(log.rows_of("__amd_rocclr_").len(), versions::kernels_of_hip_in_vectors(), "on {arch}");
        assert_eq!(log.account()["seen"], versions::kernels_of_vectors());
        let reduce = log.rows_of("reduce(")[0];
        let columns = ["grid", "workgroup", "ldsBytes", "scratchBytes", "agent", "flags"];
        assert_eq!(columns.map(|c| reduce.text(c)), ["100096x1x1", "256x1x1", "1024", "0", "0", ""]);
        assert_eq!(reduce.number("kernargBytes"), versions::kernarg_bytes(20));
        assert!(reduce.text("kernelObject").starts_with("0x"));
        ran_in_order(&log);
        if !harness::on_hardware() {
            assert!(log.agents[0].starts_with(&format!("0: {arch}, ")) && log.agents[0].ends_with(" (emulated)"));
        }
    }
}

#[test]
fn durations_are_those_that_the_gpu_measured() {
    let watched = Run::hip("vectors").watched().passed();
    let log = watched.log();
    for packet in watched.trace().iter().filter(|p| p["type"] == "KernelDispatch") {
        let object = format!("{:#x}", packet["kernelObject"].as_u64().unwrap());
        let Some(row) = log.rows.iter().find(|r| r.text("kernelObject") == object) else { continue };
        let ticks = packet["endTicks"].as_u64().unwrap() - packet["startTicks"].as_u64().unwrap();
        let measured = ticks as f64 * TICK_NS;
        let logged = row.number("durationNs") as f64;
        assert!((logged - measured).abs() <= TICK_NS.max(2e-5 * measured), "{row:?}: the GPU says {ticks} ticks");
    }
}

#[test]
fn an_application_reads_the_same_times_from_its_own_signals_as_the_log_has() {
    for mode in ["own", "rearm"] {
        let run = Run::hsa("signals").args([mode, "40"]).env("LOGDUR_LOG", "trace").watched().passed();
        let (log, app) = (run.log(), times(&run.stdout));
        assert_eq!((log.account()["seen"], app.len()), (40, 40), "{mode}");
        let mut rows: Vec<&Row> = log.rows.iter().collect();
        rows.sort_by_key(|r| r.number("id"));
        for (row, app) in rows.iter().zip(&app) {
            assert_same_time(row, app);
        }
        // The diagnostics have the raw ticks.
        let diagnostics = std::fs::read_dir(run.folder.path()).unwrap().flatten().map(|f| f.path());
        let diagnostics = diagnostics.filter(|p| p.file_name().unwrap().to_string_lossy().starts_with("logdur."));
        let text: String = diagnostics.map(|p| std::fs::read_to_string(p).unwrap()).collect();
        for (row, app) in rows.iter().zip(&app) {
            let expected = format!("dispatch {} ran from tick {} to {}", row.number("id"), app.ticks.0, app.ticks.1);
            assert!(text.contains(&expected), "{mode}: no line {expected:?}");
        }
    }
}

#[test]
fn dispatches_without_signals_are_timed_and_the_application_sees_none_of_it() {
    let run = Run::hsa("signals").args(["none", "800"]).watched().passed();
    let log = run.log();
    assert_eq!((log.account()["seen"], log.rows_of("increment").len()), (800, 800));
    assert!(log.rows.iter().all(|r| r.flags().is_empty()));
    ran_in_order(&log);
}

#[test]
fn a_signal_that_several_dispatches_share_is_decremented_by_each_and_each_has_its_times() {
    let run = Run::hsa("signals").args(["shared", "400"]).watched().passed();
    let log = run.log();
    assert_eq!(log.account()["seen"], 400);
    assert!(
        log.rows.iter().all(|r| r.flags().is_empty()),
        "{:?}",
        log.rows.iter().map(Row::flags).collect::<BTreeSet<_>>()
    );
    ran_in_order(&log);
    let ends: BTreeSet<u64> = log.rows.iter().map(|r| r.number("endNs")).collect();
    assert_eq!(ends.len(), 400, "some rows have the times of others");
}

#[test]
fn rows_are_all_there_whether_or_not_the_runtime_is_shut_down() {
    for mode in ["none", "own", "shared"] {
        for last in [[].as_slice(), &["noshutdown"]] {
            let run = Run::hsa("signals").args([mode, "200"]).args(last).watched().passed();
            let log = run.log();
            assert_eq!(log.account()["logged"], 200, "{mode} {last:?}");
            assert!(log.rows.iter().all(|r| r.flags().is_empty()), "{mode} {last:?}");
        }
    }
}

#[test]
fn times_of_rows_are_wall_times_by_the_line_of_both_clocks() {
    let wall = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    let before = wall();
    let run = Run::hip("vectors").watched().passed();
    let after = wall();
    let text = run.read("log.csv");
    let pair = text.lines().find_map(|line| line.strip_prefix("# clocks: systemNs=")).unwrap();
    let (system, of_day) = pair.split_once(" wallNs=").unwrap();
    let distance: i64 = of_day.parse::<i64>().unwrap() - system.parse::<i64>().unwrap();
    for row in &run.log().rows {
        let dispatched = row.number("dispatch") as i64 + distance;
        assert!((before..after).contains(&dispatched), "{row:?}: {dispatched} is not in {before}..{after}");
    }
}
