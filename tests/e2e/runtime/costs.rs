//! What the library does on the application's threads when kernels are launched: no allocation and no system call for a
//! dispatch. Measured times are the business of `cargo xtask bench`.

use std::collections::BTreeMap;

use crate::support::harness::{self, Outcome, Run, built};
use crate::support::versions;

/// Dispatches that the programs have counted.
const DISPATCHES: u64 = 10_000;
/// Records that are allocated together, on the thread that needs the first of them, when rows are not written fast enough
/// for their memory to come back.
const RECORDS_OF_A_BLOCK: u64 = 256;

/// The line "calls NAME=NUMBER ..." of `count_calls.c`; `None` where the kernel has no way to count.
fn calls(run: &Outcome) -> Option<BTreeMap<String, u64>> {
    let line = run.stdout.lines().find_map(|line| line.strip_prefix("calls ")).expect("a line of calls");
    if line == "unavailable" {
        eprintln!("skipped: this system has no syscall user dispatch");
        return None;
    }
    let pairs = line.split(' ').filter_map(|word| word.split_once('='));
    Some(pairs.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
}

fn counted(run: Run, watched: bool) -> Outcome {
    let mut preload = harness::library("count_calls.c").into_os_string();
    if !harness::on_hardware() {
        preload.push(" ");
        preload.push(built("libkfdemu.so"));
    }
    let run = run.env("LD_PRELOAD", preload).env("KFDEMU_TRACE", "/dev/null");
    if watched { run.watched().passed() } else { run.bare().passed() }
}

/// What a run with the library did more than the one without may; the numbers if it is more than it may do. On a `shared` signal the
/// reaper tells of completions: it is woken, too, whenever it had told of all.
fn too_much(before: &BTreeMap<String, u64>, with: &BTreeMap<String, u64>, waits: bool, shared: bool) -> Option<String> {
    // What the library itself allocates or frees, by the address of the caller; and all that it has others allocate.
    let blocks = DISPATCHES / RECORDS_OF_A_BLOCK + 4;
    let mut limits =
        vec![("library", blocks), ("allocations", before["allocations"] + blocks), ("frees", before["frees"] + blocks)];
    if !waits {
        // The allocator may ask the kernel for more; the reaper, if it sleeps, is woken once in ten milliseconds.
        limits.push(("others", before["others"] + with["library"] + 2));
        let told_of_all = if shared { DISPATCHES / 50 } else { 0 };
        limits.push(("wakes", before["wakes"] + 1 + with["ms"] / 10 + told_of_all));
    }
    let over = limits.into_iter().find(|(name, most)| with[*name] > *most);
    over.map(|(name, most)| format!("{name}: at most {most} expected, without {before:?}, with {with:?}"))
}

/// A cache with the kernels of the programs, compiled otherwise.
fn replacements() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let object = harness::hip_object("kernels", &harness::arch(), "-O1");
    std::fs::copy(object, folder.path().join("kernels.hsaco")).unwrap();
    folder
}

#[test]
fn a_dispatch_costs_the_application_no_allocation_and_no_system_call() {
    /// While the library's threads get no processor, the application's makes what it needs itself: on a busy machine one
    /// of so many runs is left to them.
    const RUNS: usize = 8;
    let cache = replacements();
    let in_cache = |run: Run| run.env("LOGDUR_KERNEL_CACHE", cache.path()).env("XDG_CACHE_HOME", cache.path());
    let programs: [&dyn Fn() -> Run; 5] = [
        &|| Run::hsa("steady").args(["none"]),
        &|| Run::hsa("steady").args(["own"]),
        &|| Run::hsa("steady").args(["shared"]),
        &|| Run::hip("steady_hip"),
        // Swapped.
        &|| in_cache(Run::hsa("steady").args(["none"])),
    ];
    for (n, program) in programs.into_iter().enumerate() {
        let waits = versions::waits_while_it_launches() && n == 3;
        let (shared, swaps) = (n == 2, n == 4);
        let mut over = Vec::new();
        while over.len() < RUNS {
            let bare = counted(program(), false);
            let watched = counted(program(), true);
            let (Some(before), Some(with)) = (calls(&bare), calls(&watched)) else { return };
            let log = watched.log();
            assert_eq!(log.account()["logged"], 4 * DISPATCHES, "program {n}");
            assert!(log.rows.iter().all(|row| row.text("replaced").is_empty() != swaps), "program {n}");
            let Some(what) = too_much(&before, &with, waits, shared) else { break };
            over.push(what);
        }
        assert!(over.len() < RUNS, "program {n}:\n{}", over.join("\n"));
    }
}

#[test]
fn the_threads_of_the_library_sleep_while_nothing_is_dispatched() {
    for dispatches in ["0", "5000"] {
        let run = Run::hsa("idle").args([dispatches]).watched().passed();
        assert_eq!(run.stdout.lines().next(), Some("runs 0"), "after {dispatches} dispatches");
    }
}

#[test]
fn the_library_takes_no_processor_from_a_thread_that_runs_unless_the_application_waits_for_it() {
    // Source: sched(7).
    let policies = [
        ("the application", libc::SCHED_OTHER),
        ("the log", libc::SCHED_BATCH),
        ("the reaper", libc::SCHED_BATCH),
        ("the reaper that is waited for", libc::SCHED_OTHER),
    ];
    let run = Run::hsa("idle").args(["0"]).watched().passed();
    let found: Vec<&str> = run.stdout.lines().filter(|line| line.starts_with("policy")).collect();
    assert_eq!(found, policies.map(|(thread, policy)| format!("policy of {thread}: {policy}")));
}
