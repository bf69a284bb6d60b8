//! `omniprobe doctor --self-test`: what it finds on the emulated GPU, and when that is not as hardware should be.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::bed::{self, built};
use crate::versions;

/// The report of the checks, and the status of the command.
fn report(arch: &str, variables: &[(&str, &str)]) -> (Value, i32) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(built("omniprobe"));
    command.args(["doctor", "--self-test", "--json", "--time-limit", "100"]).args(bed::rocm_option());
    command.arg("--report").arg(folder.path());
    if !bed::on_hardware() {
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
    assert!(shown.contains(&format!("library: {}\n", value["library"].as_str().unwrap())), "{shown}");
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
    let (report, status) = report(&bed::arch(), variables);
    assert_eq!(names(&report, "failed"), [failing], "{report:#}");
    assert_eq!((status, report["library"].as_str()), (3, Some(library)), "{report:#}");
    report
}

#[test]
fn every_check_holds_on_every_processor() {
    let mut archs = bed::archs();
    if !bed::on_hardware() && versions::hip() >= (6, 0) {
        archs.push("gfx942".to_owned());
    }
    for arch in archs {
        let (report, status) = report(&arch, &[]);
        assert_eq!(names(&report, "held").len(), 15, "{report:#}");
        assert_eq!((status, report["library"].as_str()), (0, Some("in place")), "{report:#}");
        assert_eq!(figure(&report, "rows", "empty", "rows"), 10_000);
        assert_eq!(figure(&report, "placement", "third", "placed"), "exact");
        let gpu = &figure(&report, "identity", "agents", "gpus")[0];
        assert_eq!((gpu["name"].as_str(), gpu["emulated"].as_bool()), (Some(arch.as_str()), Some(!bed::on_hardware())));
    }
}

#[test]
fn the_report_has_nothing_private_in_it() {
    let name = "a-name-that-nobody-else-has";
    let (report, _) = report(&bed::arch(), &[("USER", name), ("LOGNAME", name), ("HOSTNAME", name)]);
    let text = report.to_string();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for private in [name, host.trim(), "/tmp/", "omniprobe-"] {
        assert!(!text.contains(private), "{private}: {text}");
    }
}

#[test]
fn times_that_never_come_fail_the_check_of_rows() {
    if !bed::on_hardware() {
        let report = only(&[("KFDEMU_TIMES", "none")], "rows", "in place");
        assert_eq!(figure(&report, "rows", "empty", "rows_without_times"), 10_000);
        // What would be wrong without times is not asked.
        assert!(names(&report, "not-run").contains(&"clocks"), "{report:#}");
    }
}

#[test]
fn times_that_are_swapped_fail_the_check_of_rows() {
    if !bed::on_hardware() {
        only(&[("KFDEMU_TIMES", "swapped")], "rows", "in place");
    }
}

#[test]
fn times_that_come_after_the_value_fail_the_check_of_order() {
    if !bed::on_hardware() {
        let report = only(&[("KFDEMU_TIMES", "late")], "order", "in place");
        assert!(names(&report, "not-run").contains(&"rows"), "{report:#}");
    }
}

#[test]
fn packets_that_are_taken_too_early_fail_the_check_of_holding_and_the_library_must_not_hold() {
    if !bed::on_hardware() {
        only(&[("KFDEMU_FETCH", "ahead")], "hold", "fallback");
    }
}

#[test]
fn slots_that_stay_valid_fail_the_check_of_the_read_index() {
    if !bed::on_hardware() {
        only(&[("KFDEMU_READ_INDEX", "valid")], "read-index", "fallback");
    }
}

#[test]
fn what_is_only_unkind_fails_no_check() {
    if bed::on_hardware() {
        return;
    }
    let unkind = [("KFDEMU_READ_INDEX", "lazy"), ("KFDEMU_CLOCK", "25MHz+200ppm"), ("KFDEMU_BAR", "small")];
    let (report, status) = report(&bed::arch(), &unkind);
    assert_eq!((status, names(&report, "held").len()), (0, 15), "{report:#}");
    assert_ne!(figure(&report, "read-index", "slots", "packets_behind_when_busy"), 0);
    assert_eq!(figure(&report, "reading", "copies", "host_reads_gpu_memory"), false);
}

#[test]
fn a_gpu_that_is_not_there_is_said_and_nothing_else_is_asked() {
    if bed::on_hardware() {
        return;
    }
    let mut command = Command::new(built("omniprobe"));
    command.args(["doctor", "--self-test", "--json"]).args(bed::rocm_option()).stdin(Stdio::null());
    let output = command.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(names(&report, "failed"), ["identity"], "{report:#}");
    assert_eq!(names(&report, "not-run").len(), 14);
    assert_eq!((output.status.code(), report["library"].as_str()), (Some(3), Some("off")));
}
