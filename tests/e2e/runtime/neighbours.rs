//! Beside others: tools that watch queues themselves, producers that go around the runtime, and queues, signals and
//! runtimes that come and go. Each program passes without the library first.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::runtime::queues::durations_are_the_traces;
use crate::support::harness::{self, Outcome, Run, built};
use crate::support::versions;

/// Runs with tools in the order in which the runtime loads them: a later one is called by the application first.
fn with_tools(run: Run, tools: &[&Path]) -> Outcome {
    let list = tools.iter().map(|t| t.to_str().unwrap()).collect::<Vec<_>>().join(" ");
    let mut command = run.command();
    command.env("HSA_TOOLS_LIB", list).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
    command.env("LOGDUR_LOG_LOCATION", run.file("log.csv")).env("TOOL_COUNT", run.file("count"));
    run.finish(command).passed()
}

/// Runs programs beside another tool, above and below it: the same number of dispatches for both.
fn beside(tool: &str, programs: &[(&str, &str, u64)]) {
    let (tool, ours) = (harness::library(tool), built("liblogdur.so"));
    for &(program, arguments, dispatches) in programs {
        let run = || Run::hsa(program).args(arguments.split(' '));
        let counted = |run: &Outcome| run.read("count").trim().parse::<u64>().unwrap();
        assert_eq!(counted(&with_tools(run(), &[&tool])), dispatches, "the tool alone: {program} {arguments}");
        for tools in [[tool.as_path(), &ours], [ours.as_path(), &tool]] {
            let run = with_tools(run(), &tools);
            let log = run.log();
            assert_eq!((counted(&run), log.account()["logged"]), (dispatches, dispatches), "{program} {arguments}");
            assert!(log.rows.iter().all(|r| r.flags().is_empty()), "{program} {arguments}");
            durations_are_the_traces(&run, &log);
        }
    }
}

#[test]
fn another_tool_on_the_runtimes_intercept_queues_counts_the_same() {
    // Rings that are never full: the intercept queues of the older runtimes fail then, on their own.
    beside(
        "tool_intercept.cpp",
        &[
            ("producers", "packets=200 slots=1024", 200),
            ("producers", "packets=50 slots=1024 threads=3 signal=mixed", 150),
            ("signals", "own 40", 40),
            ("signals", "shared 80", 80),
            ("packets", "all 256", 115 - 1),
        ],
    );
}

#[test]
fn another_tool_with_a_write_index_of_its_own_counts_the_same() {
    beside(
        "tool_inplace.cpp",
        &[
            ("producers", "packets=2000 slots=64", 2000),
            ("producers", "packets=500 slots=64 threads=3", 1500),
            ("producers", "packets=500 slots=64 threads=2 batch=16 ring=late index=cas", 1000),
            ("producers", "packets=300 slots=64 threads=2 signal=mixed", 600),
            ("signals", "rearm 40", 40),
            ("packets", "all", 115 - 1),
        ],
    );
}

#[test]
fn a_ring_in_the_gpus_memory_is_watched_beside_a_tool_with_a_write_index_of_its_own() {
    // The runtime's variable came with ROCm 7.
    if versions::hip() < (7, 0) {
        return;
    }
    let (tool, ours) = (harness::library("tool_inplace.cpp"), built("liblogdur.so"));
    for (program, arguments, dispatches) in [
        ("producers", "packets=500 slots=64 threads=3", 1500),
        ("producers", "packets=300 slots=64 threads=2 batch=16 ring=late signal=mixed", 600),
        ("signals", "rearm 40", 40),
    ] {
        for (tools, is_told) in [([tool.as_path(), &ours], true), ([ours.as_path(), &tool], false)] {
            let run = Run::hsa(program).args(arguments.split(' ')).env("HSA_ALLOCATE_QUEUE_DEV_MEM", "1");
            let run = with_tools(run, &tools);
            let log = run.log();
            let counted = run.read("count").trim().parse::<u64>().unwrap();
            assert_eq!((counted, log.account()["logged"]), (dispatches, dispatches), "{program} {arguments}");
            let told = log.notices.iter().filter(|n| n.contains("another tool reads it there")).count();
            assert_eq!(told > 0, is_told, "{:?}", log.notices);
        }
    }
}

#[test]
fn where_a_second_record_describes_a_packets_kernel_none_is_replaced_and_a_notice_says_so() {
    let (tool, ours) = (harness::library("tool_processor.cpp"), built("liblogdur.so"));
    let cache = tempfile::tempdir().unwrap();
    std::fs::copy(harness::kernels(&harness::arch()), cache.path().join("kernels.hsaco")).unwrap();
    for (target, said) in [
        ("", "the code object that runs is among those that fit"),
        ("amdgcn-amd-amdhsa--gfx1250", "stays as it is: gfx1250 has a second record of each packet's kernel"),
        ("amdgcn-amd-amdhsa--gfx1251", "stays as it is: gfx1251 has a second record of each packet's kernel"),
    ] {
        let run = Run::hsa("signals").args(["none", "5"]).env("LOGDUR_KERNEL_CACHE", cache.path());
        let run = if target.is_empty() { run } else { run.env("TOOL_TARGET", target) };
        let log = with_tools(run.env("XDG_CACHE_HOME", cache.path()), &[&tool, &ours]).log();
        let about = |notice: &&String| notice.starts_with("cache: increment on agent") && notice.contains(said);
        assert_eq!(log.notices.iter().filter(about).count(), 1, "{target}: {:?}", log.notices);
        assert_eq!(log.rows_of("increment").len(), 5, "{target}");
    }
}

#[test]
fn another_tool_of_either_kind_leaves_a_hip_program_alone() {
    let bare = Run::hip("vectors").bare().passed();
    let kernels = versions::kernels_of_vectors();
    for tool in ["tool_intercept.cpp", "tool_inplace.cpp"] {
        let (tool, ours) = (harness::library(tool), built("liblogdur.so"));
        for tools in [[tool.as_path(), &ours], [ours.as_path(), &tool]] {
            let run = with_tools(Run::hip("vectors"), &tools);
            assert_eq!(run.stdout, bare.stdout);
            assert_eq!(
                (run.log().account()["logged"], run.read("count").trim()),
                (kernels, kernels.to_string().as_str()),
                "{tools:?}"
            );
        }
    }
}

#[test]
fn where_the_runtime_makes_no_signals_dispatches_pass_without_times_and_nothing_waits() {
    let (tool, ours) = (harness::library("tool_no_signals.cpp"), built("liblogdur.so"));
    for made in ["0", "100"] {
        let run = Run::hsa("signals").args(["none", "2000"]).env("TOOL_SIGNALS", made);
        let run = with_tools(run, &[&tool, &ours]);
        let log = run.log();
        assert_eq!((log.account()["seen"], log.account()["logged"]), (2000, 2000), "{made}");
        let without = log.rows.iter().filter(|r| r.flags() == "no-times").count() as u64;
        assert_eq!(log.account().get("no-times").copied(), Some(without).filter(|&n| n > 0), "{made}");
        assert_eq!(without == 2000, made == "0", "{without} of 2000 without times");
        assert_eq!(log.notices.iter().any(|n| n.starts_with("dispatches pass without times")), without > 0, "{made}");
    }
}

#[test]
fn a_library_that_is_preloaded_too_is_there_once() {
    let run = Run::hip("vectors");
    let mut command = run.command();
    let mut preload = built("liblogdur.so").into_os_string();
    if !harness::on_hardware() {
        preload = format!("{} {}", built("libkfdemu.so").display(), built("liblogdur.so").display()).into();
    }
    command.env("LD_PRELOAD", preload).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
    command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("LOGDUR_LOG_LOCATION", run.file("log.csv"));
    let run = run.finish(command).passed();
    let log = run.log();
    assert_eq!((log.account()["logged"], log.accounts.len()), (versions::kernels_of_vectors(), 1));
    assert_eq!(run.stderr, Run::hip("vectors").bare().passed().stderr);
}

#[test]
fn a_producer_that_writes_the_index_and_the_doorbell_itself_is_left_alone_for_ever_and_counted() {
    for (mode, seen) in [("always", 0), ("after", 150), ("between", 10)] {
        Run::hsa("foreign").args([mode]).bare().passed();
        let watched = Run::hsa("foreign").args([mode]).watched().passed();
        let log = watched.log();
        let account = log.account();
        assert_eq!((account["seen"], account["bypassed-queues"]), (seen, 1), "{mode}");
        // The barrier packet at the end may or may not have been released when the queue is destroyed.
        assert!([300, 301].contains(&(seen + account["unseen-packets"])), "{mode}: {account:?}");
        assert_eq!(log.notices.len(), if seen == 0 { 2 } else { 1 }, "{mode}: {:?}", log.notices);
        assert!(log.notices[0].contains(&format!("from number {seen} on")), "{mode}: {:?}", log.notices);
    }
}

/// A file that has or uses the runtime, which has another name there, as in Python's wheels.
fn with_renamed_runtime(file: &Path, to: &Path) {
    const NAMES: [&[u8]; 2] = [b"libhsa-runtime64.so.1\0", b"libhsa-runtime64-1.so\0"];
    let mut bytes = std::fs::read(file).unwrap();
    let length = NAMES[0].len();
    let found: Vec<usize> = (0..bytes.len() - length).filter(|&at| bytes[at..].starts_with(NAMES[0])).collect();
    assert!(!found.is_empty(), "{} does not name the runtime", file.display());
    found.into_iter().for_each(|at| bytes[at..at + length].copy_from_slice(NAMES[1]));
    std::fs::write(to, bytes).unwrap();
    std::fs::set_permissions(to, file.metadata().unwrap().permissions()).unwrap();
}

/// The runtime that a program uses.
fn runtime_of(program: &Path) -> PathBuf {
    let list = Command::new("ldd").arg(program).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let line = list.lines().find(|line| line.contains("libhsa-runtime64.so.1 => ")).expect(&list);
    line.split_whitespace().nth(2).unwrap().into()
}

#[test]
fn a_runtime_under_another_name_is_the_runtime() {
    let program = harness::hsa("foreign");
    let folder = tempfile::tempdir().unwrap();
    let renamed = folder.path().join("foreign");
    with_renamed_runtime(&program, &renamed);
    with_renamed_runtime(&runtime_of(&program), &folder.path().join("libhsa-runtime64-1.so"));
    let run = || Run::new(renamed.clone()).args(["after"]).env("LD_LIBRARY_PATH", folder.path());
    run().bare().passed();
    // Indices that are written around the runtime's functions are found only where those are known to be the runtime's own.
    let log = run().watched().passed().log();
    assert_eq!((log.account()["seen"], log.account()["bypassed-queues"]), (150, 1), "{:?}", log.notices);
}

#[test]
fn of_two_runtimes_in_a_process_the_first_is_watched_and_the_other_named() {
    let (second, ours) = (harness::library("tool_second.cpp"), built("liblogdur.so"));
    let run = Run::hsa("two_runtimes").args(["20"]).env("TEST_SECOND", &second).env("TEST_TOOL", &ours);
    let log = with_tools(run, &[&second, &ours]).log();
    assert_eq!(log.account()["logged"], 60, "{:?}", log.notices);
    let named = |notice: &&String| notice.starts_with("the process has two HSA runtimes: dispatches of ");
    let notices: Vec<_> = log.notices.iter().filter(named).collect();
    let [notice] = notices.as_slice() else { panic!("{:?}", log.notices) };
    assert!(notice.contains("libhsa-runtime64.so") && notice.contains("LD_PRELOAD="), "{notice}");
}

/// What is said of a process whose dispatches all pass unseen.
const NOTHING_SEEN: &str = "0 dispatches were seen, although ";

#[test]
fn a_process_whose_dispatches_all_pass_unseen_is_told_why_and_what_to_set() {
    let run = Run::hsa("foreign").args(["always"]);
    let log = run.file("log.csv");
    let run = run.probed(&["-l", log.to_str().unwrap()]).passed();
    let log = run.log();
    let notice = log.notices.last().unwrap();
    assert!(notice.starts_with(NOTHING_SEEN) && notice.contains("DEBUG_CLR_DIRECT_DOORBELL=0"), "{notice}");
    assert!(notice.contains(&format!("{} packets passed on 1 queues", log.account()["unseen-packets"])), "{notice}");
    assert!(run.stderr.contains(notice), "{}", run.stderr);
    // A read index that lags does not change the count.
    let late = Run::hsa("foreign").args(["after"]).env("KFDEMU_READ_INDEX", "lazy").watched().passed().log();
    assert_eq!(late.account()["seen"] + late.account()["unseen-packets"], 301);
}

#[test]
fn a_process_that_has_queues_and_dispatches_nothing_is_told_nothing() {
    for mode in ["none", "between"] {
        let log = Run::hsa("foreign").args([mode]).watched().passed().log();
        assert!(!log.notices.iter().any(|notice| notice.starts_with(NOTHING_SEEN)), "{mode}: {:?}", log.notices);
    }
}

/// Dispatches that `churn` says it has launched.
fn launched(run: &Outcome) -> u64 {
    run.stdout.lines().find_map(|l| l.strip_prefix("dispatches ")).unwrap().parse().unwrap()
}

#[test]
fn queues_come_and_go_while_others_launch_and_every_dispatch_is_a_row() {
    for mode in ["drained", "running", "ringing"] {
        let run = || {
            let run = Run::hsa("churn").args([&harness::count(100, 1000).to_string(), mode]);
            let run = run.env("KFDEMU_TRACE", "/dev/null");
            match versions::waits_without_interrupts() {
                Some((name, value)) => run.env(name, value),
                None => run,
            }
        };
        let bare = run().bare().passed();
        let watched = run().watched().passed();
        assert_eq!(watched.stderr, bare.stderr, "{mode}");
        let log = watched.log();
        assert_eq!(log.account()["logged"], launched(&watched), "{mode}");
        let incomplete = log.rows.iter().filter(|r| r.flags() == "incomplete").count();
        let complete = log.rows.iter().filter(|r| r.flags().is_empty()).count();
        assert_eq!(complete + incomplete, log.rows.len(), "{mode}");
        // Four packets of each queue may be in flight when it is destroyed.
        let at_most = if mode == "drained" { 0 } else { 4 * harness::count(100, 1000) };
        assert!(incomplete <= at_most, "{mode}: {incomplete} rows are incomplete");
    }
}
