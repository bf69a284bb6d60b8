//! The application's own signals: the application finds the values and times that it finds without the library, and the
//! log has the same times.

use std::collections::BTreeSet;

use crate::runtime::queues::durations_are_the_traces;
use crate::support::harness::{self, Outcome, Run};

/// The lines "done START END" of the program: raw ticks of each kernel, as the application reads them.
fn done(run: &Outcome) -> Vec<(u64, u64)> {
    let lines = run.stdout.lines().filter_map(|line| line.strip_prefix("done ")?.split_once(' '));
    lines.map(|(start, end)| (start.parse().unwrap(), end.parse().unwrap())).collect()
}

/// Raw ticks of each dispatch, from the library's diagnostics.
fn logged(run: &Outcome) -> Vec<(u64, u64)> {
    let files = std::fs::read_dir(run.folder.path()).unwrap().flatten().map(|f| f.path());
    let files = files.filter(|p| p.file_name().unwrap().to_string_lossy().starts_with("logdur."));
    let text: String = files.map(|p| std::fs::read_to_string(p).unwrap()).collect();
    let lines = text.lines().filter_map(|line| line.split_once(" ran from tick ")?.1.split_once(" to "));
    let number = |text: &str| text.split_whitespace().next().unwrap().parse().unwrap();
    lines.map(|(start, end)| (number(start), number(end))).collect()
}

/// Raw ticks of each kernel of the program, from the emulator's packet trace. The runtime's own kernels are larger.
fn measured(run: &Outcome) -> Vec<(u64, u64)> {
    let kernels = run.trace().into_iter().filter(|p| p["grid"] == serde_json::json!([64, 1, 1]));
    kernels.map(|p| (p["startTicks"].as_u64().unwrap(), p["endTicks"].as_u64().unwrap())).collect()
}

/// Runs a mode of `app_signals` without the library and with it: what the application reads, what the GPU measured and
/// what the log has are the same.
fn same_times(mode: &str, count: usize) -> Outcome {
    let run = || Run::hsa("app_signals").args([mode, &count.to_string()]);
    let bare = run().bare().passed();
    let watched = run().env("LOGDUR_LOG", "trace").watched().passed();
    assert_eq!(done(&watched).len(), done(&bare).len(), "{mode}");
    let set = |ticks: Vec<(u64, u64)>| ticks.into_iter().collect::<BTreeSet<_>>();
    if !harness::on_hardware() {
        for run in [&bare, &watched] {
            assert_eq!(
                set(done(run)),
                set(measured(run)),
                "{mode}: what the application reads and what the GPU measured"
            );
        }
    }
    let log = watched.log();
    assert_eq!(log.account()["logged"] as usize, done(&watched).len(), "{mode}");
    assert_eq!(set(logged(&watched)), set(done(&watched)), "{mode}: what the log has and what the application reads");
    let flagged = log.rows.iter().find(|r| !r.flags().is_empty());
    assert!(flagged.is_none(), "{mode}: {flagged:?}");
    durations_are_the_traces(&watched, &log);
    watched
}

#[test]
fn a_signal_of_any_value_goes_down_by_one_for_each_kernel() {
    same_times("values", harness::count(24, 200));
}

#[test]
fn a_signal_on_several_packets_and_queues_has_the_times_of_the_kernel_that_ended_last() {
    same_times("shared", harness::count(8, 60));
}

#[test]
fn who_sees_a_packet_complete_sees_the_signals_of_all_before_it() {
    let run = || Run::hsa("app_signals").args(["behind", &harness::count(100, 1000).to_string()]);
    run().bare().passed();
    let log = run().watched().passed().log();
    assert_eq!(log.account()["logged"] as usize, 4 * harness::count(100, 1000));
    assert!(log.rows.iter().all(|r| r.flags().is_empty()));
}

#[test]
fn a_signal_that_is_armed_again_at_once_in_any_way_loses_no_time() {
    same_times("reuse", harness::count(300, 5000));
}

#[test]
fn a_signal_that_is_destroyed_at_once_loses_no_time() {
    same_times("destroy", harness::count(300, 5000));
}

#[test]
fn a_signal_of_another_process_is_completed_by_a_kernel_and_by_the_host() {
    Run::hsa("attached_signal").bare().passed();
    let log = Run::hsa("attached_signal").watched().passed().log();
    log.account();
    let rows: Vec<_> = log.rows.iter().map(|row| (row.kernel(), row.flags())).collect();
    assert_eq!(rows, [("increment", "")]);
}

#[test]
fn a_signal_in_turn_for_kernels_copies_and_barriers_loses_no_time() {
    same_times("copies", harness::count(100, 1000));
}

#[test]
fn a_signal_that_other_processes_may_wait_for_is_decremented_as_ever() {
    let run = Run::hsa("app_signals").args(["ipc", "1"]).bare().passed();
    if run.stdout.contains("no IPC signals") {
        return;
    }
    same_times("ipc", harness::count(50, 500));
}

#[test]
fn times_are_in_a_signal_when_its_value_changes() {
    same_times("times", harness::count(300, 5000));
}

/// Runs a plan of `shared_signal`, which checks the signal's values and times, on some threads; each dispatch has its row.
fn share(plan: &str, threads: usize, queues: usize, count: usize, wait: &str) {
    let numbers = [threads, queues, count].map(|n| n.to_string());
    let [threads_text, queues_text, count_text] = numbers.each_ref().map(String::as_str);
    let arguments = [plan, threads_text, queues_text, count_text, wait];
    let run = Run::hsa("shared_signal").args(arguments).env("KFDEMU_TRACE", "/dev/null").watched().passed();
    let log = run.log();
    let dispatches = threads * count;
    assert_eq!(
        (log.account()["logged"] as usize, log.rows_of("tally").len()),
        (dispatches, dispatches),
        "{arguments:?}"
    );
    // A barrier packet or a copy may overwrite the times of a dispatch on the same signal, or one of them only.
    let overwritten = ["shared-signal", "shared-signal|end-before-start"];
    let may_have = |flags: &str| flags.is_empty() || plan == "mixed" && overwritten.contains(&flags);
    let flagged = log.rows.iter().find(|r| !may_have(r.flags()));
    assert!(flagged.is_none(), "{arguments:?}: {flagged:?}");
}

#[test]
fn a_signal_that_many_threads_share_goes_down_by_one_for_each_dispatch() {
    for (threads, queues, count) in [(2, 1, 400), (16, 1, 50), (16, 16, 50), (64, 4, 10)] {
        for wait in ["blocked", "active"] {
            share("rush", threads, queues, harness::count(count, 20 * count), wait);
        }
    }
}

#[test]
fn threads_that_wait_for_each_others_dispatches_on_one_signal_go_on_in_every_round() {
    for (threads, queues) in [(1, 1), (2, 2), (4, 1), (8, 8)] {
        share("rounds", threads, queues, harness::count(10, 200), "blocked");
        share("rounds", threads, queues, harness::count(10, 200), "active");
    }
}

#[test]
fn a_shared_signal_is_destroyed_as_soon_as_its_last_dispatch_is_complete() {
    for (threads, queues) in [(2, 1), (4, 4)] {
        share("fresh", threads, queues, harness::count(20, 500), "blocked");
    }
}

#[test]
fn barriers_and_copies_decrement_the_signal_that_dispatches_share() {
    share("mixed", 4, 4, harness::count(10, 300), "blocked");
    share("mixed", 8, 2, harness::count(10, 300), "active");
}
