//! Any bytes as a log: each line is read, or said to be unreadable, and totals are made of what there is.

#![no_main]

use libfuzzer_sys::fuzz_target;
use logdur_report::{By, LastRun, Log, Summary};

fuzz_target!(|bytes: &[u8]| {
    let mut summary = Summary::new(By::Shape);
    let from = bytes.first().copied().unwrap_or(0).into();
    let mut log = Log::new(bytes).of_run(LastRun { from, pids: Vec::new() });
    if summary.read("fuzzed", &mut log, |_, _| ()).is_ok() {
        let totals = summary.totals();
        let calls: u64 = totals.groups.iter().map(|group| group.calls).sum();
        assert_eq!(calls, totals.rows.rows);
        assert!(totals.gpus.iter().all(|gpu| gpu.busy_ns <= gpu.span_ns && gpu.longest_gap_ns <= gpu.idle_ns));
    }
});
