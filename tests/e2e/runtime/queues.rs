//! Queues under producers of every habit: no packet is lost, executed twice, or changed but for the completion signal of a
//! kernel that has none. Each program passes without the library first.
//!
//! What a library that watches queues in place has to keep, and the test of it:
//!
//! | # | invariant | tests |
//! |---|---|---|
//! | 1 | a packet is published once, in order; never past an invalid slot | `producers_*` (a word for each packet), `a_ring_that_stays_full_*` |
//! | 2 | nothing of a packet changes but what may | `packets_of_every_type_*` |
//! | 3 | several producers, any order, holes: no doorbell is lost | `producers_*`; models of every interleaving: `queue::turn::model`, `pending::model` |
//! | 4 | write indices are those of an unwatched queue | `producers_*` (every reservation is checked by the program) |
//! | 5 | small rings, wrap-around of slots | `producers_*` (64 slots); indices near 2^63: no test, the runtime has no way to start there |
//! | 6 | doorbells too low, repeated, out of order | `producers_*`; too high: `emulator::a_doorbell_that_is_rung_too_far_*`, without the library |
//! | 7 | a foreign write of the write index: bypassed once and for ever | `neighbours::a_producer_that_writes_*` |
//! | 8 | queues destroyed while others ring, with packets in flight; addresses that come again | `neighbours::queues_come_and_go_*` |
//! | 9 | the values of the application's signals | `app_signals::*` |
//! | 10 | times that the application reads are the log's | `app_signals::*`, `durations::an_application_reads_*` |
//! | 11 | one signal for many packets, queues, barriers, copies; destroyed after the wait | `app_signals::*` |
//! | 12 | no signal of ours left: no wait | `neighbours::where_the_runtime_makes_no_signals_*` |
//! | 13 | every dispatch is one record | every test here (`Log::account`, the emulator's packet trace) |
//! | 14 | ends of processes, forks, restarts, the HIP runtime unloaded | `guest::*`, `crash::*` |
//! | 15 | tables of all sizes | unit tests of `hsa-sys` and `hsa`; no test here |
//! | 16 | other tools above and below | `neighbours::another_tool_*` |
//! | 17, 18 | swapped and instrumented kernels | no test here |
//! | 19 | a panic in a hook: the call is forwarded | unit tests of `entry`; no test here |

use std::collections::{BTreeMap, BTreeSet};

use crate::support::compare::Random;
use crate::support::harness::{self, Outcome, Run};
use crate::support::log::Log;
use crate::support::versions;

/// Nanoseconds of a tick of the emulated clock.
const TICK_NS: u64 = 10;

/// The rows of a run have the durations that the emulator measured, each as often. The tolerance is that of the runtime, whose
/// idea of the clocks is young in so short a program.
pub(crate) fn durations_are_the_traces(run: &Outcome, log: &Log) {
    if harness::on_hardware() {
        return;
    }
    // The runtime's own kernels are of no queue of the application's.
    let ours: BTreeSet<&str> = log.rows.iter().map(|r| r.text("kernelObject")).collect();
    let object = |p: &serde_json::Value| p["kernelObject"].as_u64().map(|o| format!("{o:#x}"));
    let dispatches = run.trace().into_iter().filter(|p| object(p).is_some_and(|o| ours.contains(o.as_str())));
    let mut measured: Vec<u64> =
        dispatches.map(|p| (p["endTicks"].as_u64().unwrap() - p["startTicks"].as_u64().unwrap()) * TICK_NS).collect();
    let mut logged: Vec<u64> = log.rows.iter().map(|r| r.number("durationNs")).collect();
    measured.sort_unstable();
    logged.sort_unstable();
    assert_eq!(logged.len(), measured.len(), "rows and kernels that were executed");
    for (logged, measured) in logged.iter().zip(&measured) {
        assert!(logged.abs_diff(*measured) <= TICK_NS + measured / 200, "{logged} ns logged, {measured} ns measured");
    }
}

/// Runs a plan of `producers` without the library and with it.
fn produce(plan: &str) {
    let run = || Run::hsa("producers").args(plan.split(' '));
    let number = |name: &str, default: u64| {
        plan.split(' ')
            .rev()
            .find_map(|o| o.strip_prefix(name)?.strip_prefix('='))
            .map_or(default, |n| n.parse().unwrap())
    };
    let total = number("threads", 1) * number("packets", 1000);
    run().bare().passed();
    let watched = run().watched().passed();
    let log = watched.log();
    assert_eq!(log.account()["seen"], total, "{plan}: {:?}", log.notices);
    assert_eq!(log.rows_of("tally").len() as u64, total, "{plan}");
    let flagged = log.rows.iter().find(|r| !r.flags().is_empty());
    assert!(flagged.is_none(), "{plan}: {flagged:?}");
    durations_are_the_traces(&watched, &log);
}

#[test]
fn producers_that_reserve_before_there_is_room_lose_nothing() {
    for plan in ["packets=2000", "threads=2 packets=1000", "threads=4 packets=500", "threads=8 packets=200"] {
        produce(plan);
    }
}

#[test]
fn producers_that_reserve_with_every_function_of_the_runtime_get_indices_of_their_own() {
    for index in ["cas", "store"] {
        for shape in ["packets=1000", "threads=3 packets=400", "threads=2 packets=500 batch=7 ring=late"] {
            produce(&format!("index={index} {shape}"));
        }
    }
}

#[test]
fn producers_that_ring_before_a_packet_is_written_do_not_hang() {
    for shape in
        ["", " threads=4", " batch=5", " batch=64", " fill=backward batch=8", " fill=holes batch=8", " index=cas"]
    {
        produce(&format!("ring=early packets=500{shape}"));
    }
}

#[test]
fn producers_that_ring_once_a_batch_do_not_hang() {
    for shape in [
        "batch=2",
        "batch=7 threads=4",
        "batch=63",
        "batch=64",
        "batch=64 threads=3",
        "batch=64 fill=backward",
        "batch=4096 slots=4096 packets=9000",
    ] {
        produce(&format!("ring=late packets=500 {shape}"));
    }
}

#[test]
fn producers_that_ring_out_of_order_too_low_or_twice_lose_nothing() {
    for ring in ["reverse", "twice"] {
        for shape in ["batch=4", "batch=16 threads=3", "batch=64 fill=backward threads=2"] {
            produce(&format!("ring={ring} packets=400 {shape}"));
        }
    }
}

#[test]
fn producers_that_leave_holes_for_another_thread_to_fill_do_not_hang() {
    for ring in ["each", "late", "never", "reverse"] {
        produce(&format!("fill=holes batch=6 threads=2 packets=400 ring={ring}"));
        produce(&format!("fill=holes batch=64 packets=700 ring={ring}"));
    }
}

#[test]
fn producers_that_never_ring_are_covered_by_the_doorbells_of_others() {
    for shape in ["threads=2", "threads=4 batch=3", "threads=2 batch=64", "threads=4 index=cas"] {
        produce(&format!("ring=never packets=300 {shape}"));
    }
}

#[test]
fn producers_with_signals_of_their_own_shared_or_mixed_see_each_decremented_once_for_a_packet() {
    for signal in ["own", "shared", "mixed"] {
        for shape in
            ["threads=1", "threads=3 batch=4 ring=late", "threads=2 fill=holes batch=6", "threads=2 ring=early"]
        {
            produce(&format!("signal={signal} packets=300 {shape}"));
        }
    }
}

#[test]
fn producers_of_any_habits_together_lose_nothing() {
    let mut random = Random::of("habits");
    for _ in 0..harness::count(20, 1000) {
        let mut pick = |all: &[&'static str]| all[random.below(all.len())];
        let (threads, batch, slots) = (
            pick(&["1", "2", "3", "4", "8"]),
            pick(&["1", "2", "3", "6", "7", "16", "63", "64"]),
            pick(&["64", "128", "4096"]),
        );
        let (index, ring) = (pick(&["add", "cas", "store"]), pick(&["each", "early", "late", "twice", "reverse"]));
        let signal = pick(&["none", "own", "shared", "mixed"]);
        let product: usize = [threads, batch].map(|n| n.parse::<usize>().unwrap()).iter().product();
        // A producer that reserves when there is room again waits for holes that no other may be left to fill.
        let stuck = index != "add" && product > slots.parse().unwrap();
        let fill = if ring == "early" || stuck { "forward" } else { pick(&["forward", "backward", "holes"]) };
        produce(&format!(
            "threads={threads} packets=200 batch={batch} slots={slots} index={index} ring={ring} fill={fill} signal={signal}"
        ));
    }
}

#[test]
fn a_ring_that_stays_full_loses_nothing() {
    let packets = harness::count(20_000, 100_000);
    // Several times: where rows are written together, and where blocks of records end, is not the same in two runs.
    for _ in 0..harness::count(6, 50) {
        let run = Run::hsa("producers").args([format!("packets={packets}"), "slots=4096".to_owned()]);
        // The trace of so many packets would take longer than they do.
        let watched = run.env("KFDEMU_TRACE", "/dev/null").watched().passed();
        let log = watched.log();
        assert_eq!((log.account()["logged"], log.rows_of("tally").len()), (packets as u64, packets));
        assert!(log.rows.iter().all(|r| r.flags().is_empty()));
    }
}

/// The sixteen dwords of each packet that a program says it has sent, by its index in the queue.
fn sent(stdout: &str) -> BTreeMap<u64, String> {
    let lines = stdout.lines().filter_map(|line| line.strip_prefix("sent ")?.split_once(' '));
    lines.map(|(index, words)| (index.parse().unwrap(), words.to_owned())).collect()
}

/// Compares what was sent with what the GPU took: bit for bit without the library; with it, but for the completion signal
/// of kernels that have none.
fn assert_taken_as_sent(run: &Outcome, watched: bool) -> usize {
    const SIGNAL: std::ops::Range<usize> = 14 * 8..16 * 8;
    let sent = sent(&run.stdout);
    let taken: BTreeMap<u64, (String, bool)> = run
        .trace()
        .iter()
        // The producer's own mark at byte 52.
        .filter(|p| p["words"].as_str().unwrap()[13 * 8..14 * 8] == *"c0ffee00")
        .map(|p| {
            let words = p["words"].as_str().unwrap().to_owned();
            (p["packet"].as_u64().unwrap(), (words, p["type"] == "KernelDispatch"))
        })
        .collect();
    for (index, (words, dispatch)) in &taken {
        let mut expected = sent[index].clone();
        if watched && *dispatch && expected[SIGNAL].bytes().all(|b| b == b'0') {
            assert!(words[SIGNAL].bytes().any(|b| b != b'0'), "packet {index} was given no signal: {words}");
            expected.replace_range(SIGNAL, &words[SIGNAL]);
        }
        assert_eq!(words, &expected, "packet {index}, watched: {watched}");
    }
    taken.len()
}

#[test]
fn packets_of_every_type_reach_the_gpu_bit_for_bit() {
    if harness::on_hardware() {
        return;
    }
    for arch in harness::archs() {
        let bare = Run::hsa("packets").arch(&arch).args(["all"]).bare().passed();
        let watched = Run::hsa("packets").arch(&arch).args(["all"]).watched().passed();
        let count = sent(&bare.stdout).len();
        assert!(count > 170, "only {count} packets");
        assert_eq!([assert_taken_as_sent(&bare, false), assert_taken_as_sent(&watched, true)], [count; 2]);
        let log = watched.log();
        // The runtime's own queue has packets as well.
        let ours = |p: &serde_json::Value| p["words"].as_str().unwrap()[13 * 8..14 * 8] == *"c0ffee00";
        let types = |run: &Outcome| run.trace().iter().filter(|p| p["type"] == "KernelDispatch" && ours(p)).count();
        assert_eq!((log.rows.len(), types(&watched)), (types(&bare), types(&bare)));
        assert_eq!(watched.trace().len(), bare.trace().len(), "packets more or less than the application sent");
    }
}

#[test]
fn a_packet_that_the_gpu_does_not_know_is_the_same_error_as_without_the_library() {
    let said = |run: Outcome| run.stdout.lines().filter(|l| !l.starts_with("sent ")).collect::<Vec<_>>().join("\n");
    let bare = said(Run::hsa("packets").args(["agent"]).bare().passed());
    let watched = Run::hsa("packets").args(["agent"]).watched().passed();
    assert_eq!(watched.log().rows_of("empty").len(), 1);
    assert_eq!(said(watched), bare);
}

#[test]
fn kernels_that_run_at_the_same_time_still_do() {
    let plans: [&[&str]; 8] = [
        &["queue", "2"],
        &["queue", "12"],
        &["queue", "6", "signal"],
        &["queues", "2"],
        &["queues", "8"],
        &["queues", "4", "signal"],
        &["behind", "30"],
        &["behind", "30", "signal"],
    ];
    for plan in plans {
        Run::hsa("overlap").args(plan).bare().passed();
        let watched = Run::hsa("overlap").args(plan).watched().passed();
        let log = watched.log();
        assert_eq!(log.account()["logged"], log.rows_of("meet").len() as u64 + log.rows_of("tally").len() as u64);
        durations_are_the_traces(&watched, &log);
        // Each overlaps with each that waits with it, or with the long one.
        let span = |r: &&crate::support::log::Row| (r.number("startNs"), r.number("endNs"));
        let long: Vec<(u64, u64)> = log.rows_of("meet").iter().map(span).collect();
        let all = log.rows.iter().map(|r| span(&r));
        for (start, end) in all {
            assert!(long.iter().all(|l| start <= l.1 && l.0 <= end), "{plan:?}: {start}..{end} and {long:?}");
        }
    }
}

/// A run of `late_queues` below a tool that adds later entries to the runtime's table.
pub(crate) fn late_queues(mode: &str) -> Run {
    let (tool, ours) = (harness::library("tool_later.cpp"), harness::built("liblogdur.so"));
    let run = Run::hsa("late_queues").args([mode, "20"]).env("TEST_LATER", &tool);
    run.env("HSA_TOOLS_LIB", format!("{} {}", tool.display(), ours.display()))
}

#[test]
fn a_queue_of_an_unknown_function_is_watched_from_its_first_packet_on() {
    let log = late_queues("created").watched().passed().log();
    assert_eq!(log.rows.len(), 21, "{:?}", log.notices);
    assert!(log.rows.iter().all(|row| row.flags().is_empty()));
}

#[test]
fn a_queue_of_an_unknown_function_that_was_used_is_left_alone_with_a_notice() {
    let log = late_queues("used").watched().passed().log();
    assert!(log.notices.iter().any(|n| n.contains("pass unseen: it was used before")), "{:?}", log.notices);
    assert_eq!(log.rows.len(), 1, "the last queue's");
}

#[test]
fn counted_queues_of_a_later_runtime_are_named_and_left_alone() {
    // Older layouts have other entries there.
    if versions::hip() < (5, 6) {
        return;
    }
    let log = late_queues("counted").watched().passed().log();
    assert!(log.notices.iter().any(|n| n.contains("hsa_amd_counted_queue_acquire pass unseen")), "{:?}", log.notices);
    assert_eq!(log.rows.len(), 1, "the last queue's");
}
