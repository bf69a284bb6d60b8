//! `omniprobe doctor --self-test`: what it finds on the emulated GPU, and when that is not as hardware should be.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::harness::{self, built};
use crate::support::versions;

/// The report of all checks, and the status of the command.
fn report(arch: &str, variables: &[(&str, &str)]) -> (Value, i32) {
    report_of(&[], arch, variables)
}

/// The same, with options.
fn report_of(options: &[&str], arch: &str, variables: &[(&str, &str)]) -> (Value, i32) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(built("omniprobe"));
    command.args(["doctor", "--self-test", "--json", "--time-limit", "100"]).args(options).args(harness::rocm_option());
    command.arg("--report").arg(folder.path());
    if !harness::on_hardware() {
        command.args(["--emulate", arch]).env("KFDEMU_LOG", folder.path().join("kfdemu.log"));
    }
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{said}"));
    let written = std::fs::read_to_string(folder.path().join("report.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), value);
    let shown = std::fs::read_to_string(folder.path().join("report.txt")).unwrap();
    let library = value["library"].as_str().unwrap_or("not decided, because not all checks were selected");
    assert!(shown.contains(&format!("library: {library}\n")), "{shown}");
    (value, output.status.code().unwrap())
}

/// The names of the checks that ended in a way.
fn names<'a>(report: &'a Value, verdict: &str) -> Vec<&'a str> {
    let checks = report["checks"].as_array().unwrap().iter();
    checks.filter(|check| check["verdict"] == verdict).map(|check| check["name"].as_str().unwrap()).collect()
}

fn figure<'a>(report: &'a Value, check: &str, part: &str, name: &str) -> &'a Value {
    let found = report["checks"].as_array().unwrap().iter().find(|c| c["name"] == check).unwrap();
    &found["figures"][part][name]
}

/// Runs the checks with a variable of the emulated GPU: exactly `failing` fails, and the library is `library` then.
fn only(variables: &[(&str, &str)], failing: &str, library: &str) -> Value {
    let (report, status) = report(&harness::arch(), variables);
    assert_eq!(names(&report, "failed"), [failing], "{report:#}");
    assert_eq!((status, report["library"].as_str()), (3, Some(library)), "{report:#}");
    report
}

/// What the library is where packets must not be held: its intercept queues work with some runtimes only.
fn instead() -> &'static str {
    if versions::intercept_queues_work() { "fallback" } else { "off" }
}

#[test]
fn every_check_holds_on_every_processor() {
    let mut archs = harness::archs();
    if !harness::on_hardware() && versions::hip() >= (6, 0) {
        archs.push("gfx942".to_owned());
    }
    if !harness::on_hardware() && versions::knows_gfx950() {
        archs.push("gfx950".to_owned());
    }
    for arch in archs {
        let (report, status) = report(&arch, &[]);
        assert_eq!(names(&report, "held").len(), 15, "{report:#}");
        assert_eq!((status, report["library"].as_str()), (0, Some("in place")), "{report:#}");
        assert_eq!(figure(&report, "rows", "empty", "rows"), 10_000);
        assert_eq!(figure(&report, "placement", "third", "placed"), "exact");
        let gpu = &figure(&report, "identity", "agents", "gpus")[0];
        assert_eq!(
            (gpu["name"].as_str(), gpu["emulated"].as_bool()),
            (Some(arch.as_str()), Some(!harness::on_hardware()))
        );
    }
}

#[test]
fn the_report_has_nothing_private_in_it() {
    let name = "a-name-that-no-other-machine-has";
    let (report, _) = report(&harness::arch(), &[("USER", name), ("LOGNAME", name), ("HOSTNAME", name)]);
    let text = report.to_string();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for private in [name, host.trim(), "/tmp/", "omniprobe-"] {
        assert!(!text.contains(private), "{private}: {text}");
    }
}

#[test]
fn times_that_never_come_fail_the_check_of_rows() {
    if !harness::on_hardware() {
        let report = only(&[("KFDEMU_TIMES", "none")], "rows", "in place");
        assert_eq!(figure(&report, "rows", "empty", "rows_without_times"), 10_000);
        // What would be wrong without times is not asked.
        assert!(names(&report, "not-run").contains(&"clocks"), "{report:#}");
    }
}

#[test]
fn times_that_are_swapped_fail_the_check_of_rows() {
    if !harness::on_hardware() {
        only(&[("KFDEMU_TIMES", "swapped")], "rows", "in place");
    }
}

#[test]
fn times_that_come_after_the_value_fail_the_check_of_order() {
    if !harness::on_hardware() {
        let report = only(&[("KFDEMU_TIMES", "late")], "order", "in place");
        assert!(names(&report, "not-run").contains(&"rows"), "{report:#}");
    }
}

#[test]
fn packets_that_are_taken_too_early_fail_the_check_of_holding_and_the_library_must_not_hold() {
    if !harness::on_hardware() {
        only(&[("KFDEMU_FETCH", "ahead")], "hold", instead());
    }
}

#[test]
fn slots_that_stay_valid_fail_the_check_of_the_read_index() {
    if !harness::on_hardware() {
        only(&[("KFDEMU_READ_INDEX", "valid")], "read-index", instead());
    }
}

/// Runs a check and those that it needs on an emulated GPU with some variables: it alone fails, for a reason with `why` in it.
fn fails(check: &str, variables: &[(&str, &str)], why: &str) {
    if harness::on_hardware() {
        return;
    }
    let (report, status) = report_of(&["--checks", check], &harness::arch(), variables);
    assert_eq!((names(&report, "failed"), status), (vec![check], 3), "{report:#}");
    let failed = report["checks"].as_array().unwrap().iter().find(|c| c["name"] == check).unwrap();
    assert!(failed["reasons"].to_string().contains(why), "{why}: {failed:#}");
    assert!(!failed["consequence"].as_str().unwrap().is_empty());
    assert_eq!(names(&report, "not-run"), [""; 0], "{report:#}");
}

#[test]
fn times_that_end_when_queues_are_mapped_anew_fail_the_check_of_the_latch() {
    fails("latch", &[("KFDEMU_TIMES", "until-remap")], "after other queues were made and destroyed has no times");
}

#[test]
fn times_of_a_clock_that_is_ahead_fail_the_check_of_clocks() {
    fails("clocks", &[("KFDEMU_TIMES", "ahead")], "outside of what the host saw");
}

#[test]
fn a_queue_that_stops_under_load_fails_the_check_of_costs() {
    fails("cost", &[("KFDEMU_INJECT", "invalid-packet@queue3:500")], "stopped a queue");
}

#[test]
fn completions_that_come_late_fail_the_check_of_signals() {
    fails("signals", &[("KFDEMU_INJECT", "delay:250ms@0+")], "ms after the kernel may end");
}

#[test]
fn scratch_that_is_too_small_fails_the_check_of_scratch() {
    fails("scratch", &[("KFDEMU_SCRATCH", "half")], "its process");
}

#[test]
fn copy_engines_that_lose_completions_fail_the_check_of_reading() {
    fails("reading", &[("KFDEMU_SDMA", "lose:2")], "the copy engine lost its completion");
}

#[test]
fn a_stopped_queue_beside_the_captured_one_fails_the_check_of_captures() {
    fails("capture", &[("KFDEMU_INJECT", "invalid-packet@queue3:100")], "stopped a queue");
}

#[test]
fn faults_that_are_not_reported_fail_the_check_of_placement() {
    fails("placement", &[("KFDEMU_FAULTS", "silent")], "a read of address 0 is not reported");
}

#[test]
fn a_tool_with_a_write_index_of_its_own_fails_the_check_of_bypasses() {
    let (tool, first) = (harness::library("tool_inplace.cpp"), harness::library("tools_first.c"));
    let variables = [("TEST_FIRST_TOOL", tool.to_str().unwrap()), ("LD_PRELOAD", first.to_str().unwrap())];
    fails("bypass", &variables, "written around the runtime's functions");
}

#[test]
fn a_library_that_cannot_be_loaded_fails_the_check_of_loading_and_is_off() {
    if harness::on_hardware() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["omniprobe", "libkfdemu.so"] {
        std::fs::copy(built(name), folder.path().join(name)).unwrap();
    }
    std::fs::write(folder.path().join("liblogdur.so"), "no library").unwrap();
    let mut command = Command::new(folder.path().join("omniprobe"));
    command.args(["doctor", "--self-test", "--json", "--time-limit", "100", "--emulate", &harness::arch()]);
    let output = command.args(harness::rocm_option()).stdin(Stdio::null()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(names(&report, "failed"), ["loading"], "{report:#}");
    assert_eq!((output.status.code(), report["library"].as_str()), (Some(3), Some("off")));
    assert!(names(&report, "not-run").contains(&"rows"), "{report:#}");
}

#[test]
fn where_packets_must_not_be_held_and_intercept_queues_fail_the_library_is_off() {
    if harness::on_hardware() {
        return;
    }
    let (report, _) = report_of(&["--checks", "rows"], &harness::arch(), &[("KFDEMU_FETCH", "ahead")]);
    let works = figure(&report, "identity", "queue", "intercept_queues_work") == true;
    assert_eq!(works, versions::intercept_queues_work(), "{report:#}");
    let said = if works { "LOGDUR_QUEUE_MODE=intercept" } else { "do not load the library" };
    assert_eq!(report["library"], instead(), "{report:#}");
    assert!(report["library_reasons"].to_string().contains(said), "{report:#}");
}

#[test]
fn what_is_only_unkind_fails_no_check() {
    if harness::on_hardware() {
        return;
    }
    let unkind = [("KFDEMU_READ_INDEX", "lazy"), ("KFDEMU_CLOCK", "25MHz+200ppm"), ("KFDEMU_BAR", "small")];
    let (report, status) = report(&harness::arch(), &unkind);
    assert_eq!((status, names(&report, "held").len()), (0, 15), "{report:#}");
    assert_ne!(figure(&report, "read-index", "slots", "packets_behind_when_busy"), 0);
    assert_eq!(figure(&report, "reading", "copies", "host_reads_gpu_memory"), false);
}

#[test]
fn a_gpu_that_is_not_there_is_said_and_nothing_else_is_asked() {
    if harness::on_hardware() {
        return;
    }
    let mut command = Command::new(built("omniprobe"));
    command.args(["doctor", "--self-test", "--json"]).args(harness::rocm_option()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(names(&report, "failed"), ["identity"], "{report:#}");
    assert_eq!(names(&report, "not-run").len(), 14);
    assert_eq!((output.status.code(), report["library"].as_str()), (Some(3), Some("off")));
}
