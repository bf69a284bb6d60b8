//! What the newest runtimes do, by stand-ins of ours: queues that are made another way, rings in the GPU's memory, doorbells, indices
//! and packets that no hook sees. In each case every dispatch has a row, or the account says how many have none and why.

use std::collections::BTreeSet;

use super::queues::late_queues;
use crate::support::harness::{self, Run};
use crate::support::log::Log;
use crate::support::versions;

#[test]
fn where_only_functions_of_a_later_runtime_make_queues_every_dispatch_is_a_row_and_a_notice_names_the_step() {
    // Older layouts have other entries there.
    if versions::hip() < (5, 6) {
        return;
    }
    let log = late_queues("only").env("TEST_STEP", "0x2a").watched().passed().log();
    assert_eq!((log.rows.len(), count(&log, "logged")), (20, 20), "{:?}", log.notices);
    let named = log.notices.iter().filter(|n| n.contains("up to step 0x2a of its extension table (known: 0x12)"));
    assert_eq!(named.count(), 1, "{:?}", log.notices);
}

#[test]
fn queues_of_hsa_amd_queue_create_are_watched_several_of_one_call_and_copy_engines_are_left_alone() {
    if versions::hip() < (5, 6) {
        return;
    }
    let (tool, ours) = (harness::library("tool_later.cpp"), harness::built("liblogdur.so"));
    let tools = format!("{} {}", tool.display(), ours.display());
    let run = || Run::hsa("described_queues").args(["20"]).env("TEST_LATER", &tool);
    run().env("HSA_TOOLS_LIB", &tool).bare().passed();
    for (step, mode) in [("0x10", "auto"), ("0x12", "intercept"), ("0x2a", "inplace")] {
        let run = run().env("HSA_TOOLS_LIB", &tools).env("TEST_STEP", step).env("LOGDUR_QUEUE_MODE", mode);
        let log = run.watched().passed().log();
        assert_eq!((log.rows.len(), count(&log, "logged")), (60, 60), "{step}: {:?}", log.notices);
        assert!(log.rows.iter().all(|row| row.flags().is_empty()), "{step}");
        let queues: BTreeSet<_> = log.rows.iter().map(|row| row.text("queue").to_owned()).collect();
        assert_eq!(queues.len(), 3, "{step}");
        let copies = |n: &&String| n.contains("queues of copy engines of its own (hsa_amd_queue_create)");
        assert_eq!(log.notices.iter().filter(copies).count(), 1, "{step}: {:?}", log.notices);
        // The hook has seen them being created, and none of them was written around or counted.
        assert!(!log.notices.iter().any(|n| n.contains("functions that are not known")), "{step}: {:?}", log.notices);
        assert_eq!(count(&log, "unseen-packets"), 0, "{step}");
    }
    // A runtime before that step has no such entry, whatever is behind its table.
    let run = run().env("HSA_TOOLS_LIB", &tools).env("TEST_STEP", "0x0f").watched().passed();
    assert_eq!(run.log().rows.len(), 60, "watched from the first packet on");
}

#[test]
fn on_a_runtime_newer_than_the_tested_ones_times_that_are_none_end_the_log_with_one_notice_and_an_account() {
    if versions::hip() < (5, 6) || harness::on_hardware() {
        return;
    }
    const DISPATCHES: u64 = 400;
    let (tool, ours) = (harness::library("tool_later.cpp"), harness::built("liblogdur.so"));
    for (step, times, refused) in [("8", "swapped", false), ("0x2a", "swapped", true), ("0x2a", "written", false)] {
        let run = Run::hsa("paced").args([&DISPATCHES.to_string(), "1"]).env("TEST_STEP", step);
        let run = run.env("HSA_TOOLS_LIB", format!("{} {}", tool.display(), ours.display()));
        let log = run.env("KFDEMU_TIMES", times).watched().passed().log();
        let told =
            log.notices.iter().filter(|n| n.contains("newer than all that were tested, and of the first 33")).count();
        assert_eq!(told, usize::from(refused), "{step} {times}: {:?}", log.notices);
        let (logged, not_recorded) = (count(&log, "logged"), count(&log, "not-recorded"));
        assert_eq!(count(&log, "seen"), DISPATCHES, "{step} {times}");
        assert_eq!(logged + not_recorded, DISPATCHES, "{step} {times}");
        assert_eq!(not_recorded > 0, refused, "{step} {times}: {:?}", log.account());
    }
}

/// A run with rings in the GPU's memory. The runtime's own variable for it came with ROCm 7.
fn in_gpu_memory(run: Run) -> Option<Run> {
    (versions::hip() >= (7, 0)).then(|| run.env("HSA_ALLOCATE_QUEUE_DEV_MEM", "1"))
}

/// What is said of a queue whose packets come by another way.
fn is_about_blindness(notice: &&String) -> bool {
    notice.contains("are written around the runtime's functions")
}

/// A count of the account; none is 0.
fn count(log: &Log, name: &str) -> u64 {
    log.account().get(name).copied().unwrap_or(0)
}

/// Nothing was lost and nothing was said.
fn has_all_rows(log: &Log, rows: u64) {
    assert_eq!((count(log, "logged"), log.rows.len() as u64), (rows, rows), "{:?} {:?}", log.account(), log.notices);
    assert_eq!((count(log, "unseen-packets"), count(log, "bypassed-queues")), (0, 0), "{:?}", log.notices);
    assert!(!log.notices.iter().any(|notice| is_about_blindness(&notice)), "{:?}", log.notices);
}

#[test]
fn a_ring_in_the_gpus_memory_loses_no_row_whatever_signals_and_producers_it_has() {
    for mode in ["none", "own", "shared", "rearm"] {
        let Some(run) = in_gpu_memory(Run::hsa("signals").args([mode, "200"])) else { return };
        has_all_rows(&run.watched().passed().log(), 200);
    }
    for plan in [
        &["threads=3", "packets=400", "fill=backward", "batch=7"][..],
        &["threads=2", "packets=400", "fill=holes", "batch=8", "ring=reverse", "signal=mixed"],
        &["threads=2", "packets=400", "index=cas", "ring=twice", "signal=own"],
        &["packets=400", "index=store", "ring=early"],
    ] {
        let threads = if plan[0].starts_with("threads") { plan[0]["threads=".len()..].parse().unwrap() } else { 1 };
        let Some(run) = in_gpu_memory(Run::hsa("producers").args(plan)) else { return };
        let log = run.watched().passed().log();
        assert_eq!(log.rows_of("tally").len(), 400 * threads, "{plan:?}: {:?}", log.notices);
        assert_eq!(count(&log, "unseen-packets"), 0, "{plan:?}: {:?}", log.notices);
    }
}

#[test]
fn omniprobe_leaves_rings_where_the_application_wants_them() {
    let Some(run) = in_gpu_memory(Run::hsa("signals").args(["none", "40"])) else { return };
    let log = run.file("log.csv");
    has_all_rows(&run.probed(&["-l", log.to_str().unwrap()]).passed().log(), 40);
}

#[test]
fn kernels_of_a_ring_in_the_gpus_memory_are_captured() {
    let Some(run) = in_gpu_memory(Run::hsa("in_vram").args(["3"])) else { return };
    let capture = run.file("a.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &capture).env("LOGDUR_CAPTURE_DISPATCHES", "1-3");
    let log = run.watched().passed().log();
    assert!(log.notices.iter().any(|n| n.ends_with(" 0 not captured, 0 losses")), "{:?}", log.notices);
}

#[test]
fn producers_that_go_around_a_ring_in_the_gpus_memory_lose_no_packet_and_are_told() {
    for mode in ["always", "after", "between"] {
        let Some(run) = in_gpu_memory(Run::hsa("foreign").args([mode])) else { return };
        let log = run.watched().passed().log();
        assert_eq!(count(&log, "seen") + count(&log, "unseen-packets"), 301, "{mode}: {:?}", log.account());
        assert_eq!(count(&log, "seen"), log.rows.len() as u64, "{mode}");
        assert_eq!(log.notices.iter().filter(is_about_blindness).count(), 1, "{mode}: {:?}", log.notices);
    }
}

#[test]
fn a_doorbell_that_is_written_directly_is_told_with_its_variable_or_costs_no_row() {
    let log = Run::hsa("foreign").args(["doorbell"]).watched().passed().log();
    assert_eq!(count(&log, "seen") + count(&log, "unseen-packets"), 301, "{:?}", log.account());
    assert_eq!(log.notices.iter().filter(is_about_blindness).count(), 1, "{:?}", log.notices);
    if count(&log, "seen") == 0 {
        assert!(log.notices.iter().any(|n| n.contains("DEBUG_CLR_DIRECT_DOORBELL=0")), "{:?}", log.notices);
    }
    // The GPU sees a ring in its memory by us alone.
    let Some(run) = in_gpu_memory(Run::hsa("foreign").args(["doorbell"])) else { return };
    has_all_rows(&run.watched().passed().log(), 300);
}

#[test]
fn slots_that_are_reserved_by_a_counter_of_the_producers_are_seen_when_it_stores_the_index() {
    has_all_rows(&Run::hsa("foreign").args(["private"]).watched().passed().log(), 300);
    let Some(run) = in_gpu_memory(Run::hsa("foreign").args(["private"])) else { return };
    has_all_rows(&run.watched().passed().log(), 300);
}

#[test]
fn packets_that_a_kernel_writes_are_rows_unless_it_writes_the_index_too() {
    let variants = |mode: &str| {
        let run = Run::hsa("resident").args([mode, "20"]);
        [Some(run), in_gpu_memory(Run::hsa("resident").args([mode, "20"]))].into_iter().flatten()
    };
    for mode in ["after", "before"] {
        for run in variants(mode) {
            let log = run.watched().passed().log();
            assert_eq!(log.rows_of("tally").len(), 20, "{mode}: {:?}", log.notices);
            assert_eq!(count(&log, "unseen-packets"), 0, "{mode}: {:?}", log.notices);
        }
    }
    for run in variants("around") {
        let log = run.watched().passed().log();
        assert_eq!(log.rows_of("tally").len() as u64 + count(&log, "unseen-packets"), 20, "{:?}", log.account());
        assert_eq!(log.notices.iter().filter(is_about_blindness).count(), 1, "{:?}", log.notices);
    }
}

#[test]
fn who_waits_for_the_drivers_event_of_a_signal_gets_it_although_another_signal_stands_in() {
    if versions::hip() < (5, 6) {
        return;
    }
    let (tool, ours) = (harness::library("tool_later.cpp"), harness::built("liblogdur.so"));
    let run = || Run::hsa("signal_event").args(["40"]).env("TEST_LATER", &tool);
    run().env("HSA_TOOLS_LIB", &tool).bare().passed();
    let watched = || run().env("HSA_TOOLS_LIB", format!("{} {}", tool.display(), ours.display()));
    has_all_rows(&watched().watched().passed().log(), 80);
    let Some(run) = in_gpu_memory(watched()) else { return };
    has_all_rows(&run.watched().passed().log(), 80);
}

#[test]
fn queues_that_serve_one_stream_after_another_have_a_row_for_each_dispatch_and_no_stream() {
    const ROUNDS: usize = 5;
    const STREAMS: usize = 9;
    let log = Run::hip("recycled").args([ROUNDS.to_string()]).watched().passed().log();
    let rows = log.rows_of("add(");
    assert_eq!(rows.len(), ROUNDS * STREAMS, "{:?}", log.notices);
    // Fewer queues than streams were there: a row says which queue it was, and of streams nothing.
    let queues: BTreeSet<_> = rows.iter().map(|row| row.text("queue")).collect();
    assert!(queues.len() < ROUNDS * STREAMS, "{queues:?}");
    assert_eq!(count(&log, "seen"), log.rows.len() as u64);
}

#[test]
fn an_application_goes_on_with_its_own_signals_when_the_self_check_ends_the_log() {
    if versions::hip() < (5, 6) || harness::on_hardware() {
        return;
    }
    let (tool, ours) = (harness::library("tool_later.cpp"), harness::built("liblogdur.so"));
    for mode in ["auto", "intercept"] {
        let run = Run::hip("recycled").args(["60"]).env("TEST_STEP", "0x2a").env("KFDEMU_TIMES", "swapped");
        let run = run.env("HSA_TOOLS_LIB", format!("{} {}", tool.display(), ours.display()));
        let log = run.env("LOGDUR_QUEUE_MODE", mode).watched().passed().log();
        let (logged, not_recorded) = (count(&log, "logged"), count(&log, "not-recorded"));
        assert!(logged > 32 && not_recorded > 0, "{mode}: {:?} {:?}", log.account(), log.notices);
        assert_eq!(logged + not_recorded, count(&log, "seen"), "{mode}: {:?}", log.account());
    }
}
