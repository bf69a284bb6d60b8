//! The application's own signals: their values and times are what they are without the library, whatever the application
//! does with them, and the log has the same times.

use std::collections::BTreeSet;

use crate::bed::{self, Outcome, Run};
use crate::queues::durations_are_the_traces;

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
    if !bed::on_hardware() {
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
    same_times("values", bed::count(24, 200));
}

#[test]
fn a_signal_on_several_packets_and_queues_has_the_times_of_the_kernel_that_ended_last() {
    same_times("shared", bed::count(8, 60));
}

#[test]
fn who_sees_a_packet_complete_sees_the_signals_of_all_before_it() {
    let run = || Run::hsa("app_signals").args(["behind", &bed::count(100, 1000).to_string()]);
    run().bare().passed();
    let log = run().watched().passed().log();
    assert_eq!(log.account()["logged"] as usize, 4 * bed::count(100, 1000));
    assert!(log.rows.iter().all(|r| r.flags().is_empty()));
}

#[test]
fn a_signal_that_is_armed_again_at_once_in_any_way_loses_no_time() {
    same_times("reuse", bed::count(300, 5000));
}

#[test]
fn a_signal_that_is_destroyed_at_once_loses_no_time() {
    same_times("destroy", bed::count(300, 5000));
}

#[test]
fn a_signal_in_turn_for_kernels_copies_and_barriers_loses_no_time() {
    same_times("copies", bed::count(100, 1000));
}

#[test]
fn a_signal_that_other_processes_may_wait_for_is_decremented_as_ever() {
    let run = Run::hsa("app_signals").args(["ipc", "1"]).bare().passed();
    if run.stdout.contains("no IPC signals") {
        return;
    }
    same_times("ipc", bed::count(50, 500));
}

#[test]
fn times_are_in_a_signal_when_its_value_changes() {
    same_times("times", bed::count(300, 5000));
}
