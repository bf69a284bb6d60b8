//! Parts of a run: only what is dispatched while conditions are met has rows and is captured.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use logdur_capture::Reader;

use crate::support::harness::{self, Outcome, Run, built};
use crate::support::log::Log;

/// The kernels of `regions`, and how often each is dispatched.
const KERNELS: [(&str, usize); 5] = [("before", 3), ("in_step", 10), ("between", 5), ("profiled", 4), ("after", 1)];

/// How many rows each of them has.
fn rows(log: &Log) -> Vec<(&'static str, usize)> {
    let count = |&(kernel, _): &(&'static str, usize)| (kernel, log.rows_of(&format!("{kernel}(")).len());
    KERNELS.iter().map(count).filter(|(_, count)| *count > 0).collect()
}

/// A run by `omniprobe`, and its log.
fn probed(options: &[&str]) -> (Outcome, Log) {
    let outcome = Run::hip("regions").probed(&[&["-l", "log.csv"], options].concat()).passed();
    let log = outcome.log();
    (outcome, log)
}

#[test]
fn only_what_is_dispatched_while_all_conditions_are_met_has_rows_and_the_others_are_counted() {
    for (when, expected) in [
        ("range:step", vec![("in_step", 10)]),
        ("range:step@2-3", vec![("in_step", 4)]),
        ("range:step@5+", vec![("in_step", 2)]),
        ("range:whole", KERNELS.to_vec()),
        ("range:whole@1,range:step@2", vec![("in_step", 2)]),
        ("profiler", vec![("profiled", 4)]),
        ("kernel:in_step@3-4", vec![("in_step", 2)]),
        ("kernel:^before@3+,count:4", vec![("before", 1), ("in_step", 2), ("between", 1)]),
        ("kernel:^in_step@10+", vec![("in_step", 1), ("between", 1), ("profiled", 4), ("after", 1)]),
        ("kernel:before@1+,count:1", vec![("before", 1)]),
        ("seconds:0+", KERNELS.to_vec()),
        ("range:step,range:step@1", vec![("in_step", 2)]),
    ] {
        let (outcome, log) = probed(&["--when", when]);
        assert_eq!(rows(&log), expected, "{when}");
        let account = log.account();
        let outside = account.get("outside").copied().unwrap_or(0);
        assert_eq!(account["logged"] + outside, account["seen"], "{when}: {account:?}");
        assert!(!outcome.stderr.contains("LOGDUR_WHEN"), "{when}: {}", outcome.stderr);
    }
}

#[test]
fn dispatches_are_chosen_by_the_numbers_that_rows_have() {
    let all: BTreeMap<u64, String> =
        probed(&[]).1.rows.iter().map(|row| (row.number("id"), row.kernel().to_owned())).collect();
    for (when, first, last) in
        [("dispatches:4-9", 4, 9), ("dispatches:4+,dispatches:0-5", 4, 5), ("dispatches:7", 7, 7)]
    {
        let (_, log) = probed(&["--when", when]);
        let found: BTreeMap<u64, String> =
            log.rows.iter().map(|row| (row.number("id"), row.kernel().to_owned())).collect();
        assert_eq!(found, all.range(first..=last).map(|(id, kernel)| (*id, kernel.clone())).collect(), "{when}");
    }
}

#[test]
fn the_variable_alone_does_the_same_with_the_library_of_ranges_in_the_process_and_says_so_without() {
    let run = Run::hip("regions").env("LOGDUR_WHEN", "range:step@4");
    let mut command = run.command();
    let mut preload = built("liblogdur_markers.so").into_os_string();
    if !harness::on_hardware() {
        preload.push(":");
        preload.push(built("libkfdemu.so"));
    }
    command.env("LD_PRELOAD", preload).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
    command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("LOGDUR_LOG_LOCATION", run.file("log.csv"));
    assert_eq!(rows(&run.finish(command).passed().log()), [("in_step", 2)]);
    let without = Run::hip("regions").env("LOGDUR_WHEN", "range:step@4").watched().passed();
    let said = "LOGDUR_WHEN: range:step@4: liblogdur_markers.so is not in the process (LD_PRELOAD), which sees ranges";
    assert!(without.log().notices.iter().any(|notice| notice == said), "{:?}", without.log().notices);
}

#[test]
fn conditions_that_were_never_met_are_said_where_the_user_looks() {
    for (when, said) in [
        ("range:none", "range:none: no range none has begun"),
        ("range:step@9", "range:step@9: 5 ranges step have begun"),
        ("range:early", "range:early: one range early has begun"),
        ("dispatches:9000+", "dispatches:9000+: there were "),
        ("kernel:in_step@99", "kernel:in_step@99: 10 kernels with a name like in_step were dispatched"),
        ("kernel:none@1", "kernel:none@1: no kernel with a name like none was dispatched"),
        ("seconds:9000+", "seconds:9000+: the process ended after "),
        ("profiler,range:step", "all "),
        ("file:/none/of/these", "file:/none/of/these: /none/of/these was not there"),
    ] {
        let (outcome, log) = probed(&["--when", when]);
        assert_eq!(log.rows.len(), 0, "{when}");
        assert!(outcome.stderr.contains(&format!("omniprobe: LOGDUR_WHEN: {said}")), "{when}: {}", outcome.stderr);
    }
    let no_regex = Run::hip("regions").probed(&["--when", "kernel:(@3"]);
    let expected = "--when: kernel:(@3: expected a regular expression, found \"(\"";
    assert!(no_regex.stderr.contains(expected), "{}", no_regex.stderr);
    for wrong in ["range", "dispatches:9-1", "seconds:x", "now"] {
        let outcome = Run::hip("regions").probed(&["--when", wrong]);
        assert_eq!(outcome.status.code(), Some(1));
        let expected = format!(
            "--when: expected dispatches:N-M, kernel:REGEX@N-M, count:N, seconds:A-B, range:NAME, range:NAME@N-M, profiler, file:PATH or signal, with commas between triggers, found {wrong:?}"
        );
        assert!(outcome.stderr.contains(&expected), "{wrong}: {}", outcome.stderr);
    }
}

#[test]
fn copies_and_ranges_have_rows_in_the_window_only() {
    let kinds = |log: &Log| {
        let mut kinds: Vec<String> = log.rows.iter().map(|row| row.text("kind").to_owned()).collect();
        kinds.sort();
        kinds
    };
    let (_, log) = probed(&["--copies", "--markers", "--when", "range:step@1"]);
    assert_eq!(kinds(&log), ["dispatch", "dispatch", "range"]);
    let (_, log) = probed(&["--copies", "--markers"]);
    assert!(kinds(&log).iter().filter(|kind| *kind == "range").count() == 7, "{:?}", kinds(&log));
}

#[test]
fn captures_take_what_is_dispatched_in_the_window() {
    let run = Run::hip("regions");
    let file = run.file("a.ldcap");
    let options = ["--when", "range:step@3", "--capture", file.to_str().unwrap(), "--capture-dispatches", "1-9"];
    let _outcome = run.probed(&options).passed();
    let reader = Reader::open(&file).unwrap();
    let symbol = |id| reader.records().kernels.iter().find(|kernel| kernel.id == id).unwrap().symbol.clone();
    let kernels: Vec<String> = reader.dispatches().iter().map(|dispatch| symbol(dispatch.kernel)).collect();
    assert_eq!(kernels.len(), 2, "{kernels:?}");
    assert!(kernels.iter().all(|name| name.contains("in_step")), "{kernels:?}");
}

#[test]
fn kernels_are_swapped_outside_of_the_window_too() {
    let run = Run::hip("swaps").args(["plain", "tiled"]);
    let (cache, indexes) = (run.file("cache"), run.file("indexes"));
    fs::create_dir(&cache).unwrap();
    fs::copy(harness::hip_object("swaps", &harness::arch(), "-DOTHER -O3"), cache.join("k.hsaco")).unwrap();
    let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes);
    let outcome = run.env("LOGDUR_WHEN", "dispatches:1000+").watched().passed();
    assert_eq!(outcome.stdout, "plain other\ntiled other\nPASS\n");
    assert_eq!((outcome.log().rows.len(), outcome.log().account().get("outside").is_some()), (0, true));
}

/// A program that waits for a line before each launch, run by `omniprobe`.
struct Steps {
    child: Child,
    launched: usize,
}

/// How long something may take that takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

impl Steps {
    fn launch(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.launched += 1;
        std::thread::sleep(Duration::from_millis(20));
    }

    fn signal(&self) {
        // SAFETY: the child has not been waited for.
        unsafe { libc::kill(self.child.id() as libc::pid_t, libc::SIGUSR2) };
    }
}

#[test]
fn a_signal_to_omniprobe_begins_the_window_and_the_next_one_ends_it_and_none_reaches_the_application() {
    const MOST: usize = 400;
    let run = Run::hip("swaps").args(["-w"]).args(vec!["plain"; MOST]);
    let log = run.file("log.csv");
    let mut command = run.omniprobe();
    command.args(["--when", "signal", "-l"]).arg(&log);
    if !harness::on_hardware() {
        command.args(["--emulate", &harness::arch()]);
    }
    command.arg("--").arg(run.command().get_program()).arg("-w").args(vec!["plain"; MOST]);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut steps = Steps { child, launched: 0 };
    let written = || fs::read_to_string(&log).unwrap_or_default().matches("\n\"plain").count();
    for _ in 0..5 {
        steps.launch();
    }
    assert_eq!(written(), 0);
    steps.signal();
    let start = Instant::now();
    while written() == 0 {
        assert!(start.elapsed() < PATIENCE, "no row after the signal");
        steps.launch();
    }
    steps.signal();
    // Until a launch has no row.
    let before = steps.launched;
    while steps.launched < before + 50 {
        steps.launch();
    }
    drop(steps.child.stdin.take());
    let _status = steps.child.wait().unwrap();
    let logged = Log::parse(&fs::read_to_string(&log).unwrap()).rows_of("plain").len();
    assert!(0 < logged && logged < steps.launched - 5 - 25, "{logged} of {}", steps.launched);
}

#[test]
fn a_window_that_opens_and_closes_under_producers_of_every_kind_loses_no_dispatch_and_no_signal() {
    for (program, arguments) in [
        ("producers", "packets=20000 slots=64 threads=3 signal=mixed"),
        ("producers", "packets=20000 slots=256 threads=2 batch=16 ring=late index=cas signal=shared"),
        ("signals", "rearm 20000"),
        ("churn", "60 running"),
    ] {
        let run = Run::hsa(program).args(arguments.split(' ')).env("KFDEMU_TRACE", "/dev/null");
        let file = run.file("go");
        let run = run.env("LOGDUR_WHEN", format!("file:{}", file.display()));
        let ended = AtomicBool::new(false);
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    fs::write(&file, "").unwrap();
                    std::thread::sleep(Duration::from_millis(30));
                    fs::remove_file(&file).unwrap();
                    std::thread::sleep(Duration::from_millis(30));
                }
            });
            let outcome = run.watched();
            ended.store(true, Ordering::Relaxed);
            outcome.passed()
        });
        let log = outcome.log();
        let account = log.account();
        assert!(account["logged"] > 0 && account["outside"] > 0, "{program} {arguments}: {account:?}");
    }
}
