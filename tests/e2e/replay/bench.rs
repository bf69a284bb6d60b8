//! `omniprobe bench`: nothing is measured that was not verified, and what is said of times follows from how they were taken.

use serde_json::Value;

use crate::replay::verify::{increment, json, tool};
use crate::support::harness::{self, Outcome};

/// The first kernel of two or one.
fn side(said: &Value) -> &Value {
    said["sides"].get(0).unwrap_or_else(|| panic!("no sides: {said:#}"))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn measured(options: &[&str]) -> (Value, Outcome) {
    let outcome = tool("bench", &increment(&harness::arch()), &[options, &["--json"]].concat());
    (json(&outcome), outcome)
}

#[test]
fn the_numbers_are_those_of_the_runs_that_are_listed() {
    let (said, outcome) = measured(&["-r", "21"]);
    assert_eq!(outcome.status.code(), Some(0), "{said:#}");
    let side = side(&said);
    assert_eq!(side["result"], "PASS", "{said:#}");
    let mut runs: Vec<u64> = side["gpu_ns"].as_array().unwrap().iter().map(|ns| ns.as_u64().unwrap()).collect();
    runs.sort_unstable();
    assert_eq!((runs.len(), &side["gpu"]["runs"]), (21, &21.into()), "{said:#}");
    assert_eq!(number(&side["gpu"]["median_ns"]), runs[10] as f64, "{said:#}");
    assert_eq!((&side["gpu"]["min_ns"], &side["gpu"]["p95_ns"]), (&runs[0].into(), &runs[19].into()), "{said:#}");
    let (low, high) = (number(&side["gpu"]["low_ns"]), number(&side["gpu"]["high_ns"]));
    assert!(low <= runs[10] as f64 && runs[10] as f64 <= high, "{said:#}");
    assert_eq!(said["emulated"], !harness::on_hardware());
}

#[test]
fn only_what_the_kernel_changes_is_put_back_unless_all_is_asked_for() {
    // 256 words are incremented: one page.
    let (dirty, _) = measured(&["-r", "2"]);
    assert_eq!((&dirty["restore"], &dirty["restored_bytes"]), (&"dirty".into(), &4096.into()), "{dirty:#}");
    let (full, _) = measured(&["-r", "2", "--restore", "full"]);
    assert_eq!(full["restored_bytes"], full["bytes"], "{full:#}");
    assert_eq!(full["bytes"], 12000, "{full:#}");
    // Nothing is put back: it increments what it has incremented, and only the first run was compared.
    let (none, outcome) = measured(&["-r", "2", "--restore", "none"]);
    assert_eq!((&none["restored_bytes"], outcome.status.code()), (&0.into(), Some(0)), "{none:#}");
}

#[test]
fn a_kernel_that_computes_something_else_is_not_measured_unless_that_is_asked_for() {
    let arch = harness::arch();
    let mut captured = increment(&arch);
    captured.buffers[0].after[4] ^= 1;
    let outcome = tool("bench", &captured, &["--json"]);
    let said = json(&outcome);
    assert_eq!((outcome.status.code(), &side(&said)["result"]), (Some(6), &"FAIL".into()), "{said:#}");
    assert!(side(&said)["gpu"].is_null() && side(&said)["gpu_ns"].as_array().unwrap().is_empty(), "{said:#}");
    let outcome = tool("bench", &captured, &["--no-verify", "-r", "3"]);
    assert_eq!(outcome.status.code(), Some(0), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("FAIL") && outcome.stdout.contains("GPU median"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("too few runs to be sure"), "{}", outcome.stdout);
}

#[test]
fn two_kernels_are_measured_in_turns_and_emulation_has_no_verdict() {
    let files =
        ["-O3", "-O1"].map(|level| harness::hip_object("kernels", &harness::arch(), level).display().to_string());
    let (said, outcome) = measured(&["-r", "12", "--compare", &files[0], &files[1]]);
    assert_eq!(outcome.status.code(), Some(0), "{said:#}");
    let sides = said["sides"].as_array().unwrap();
    assert!(sides.len() == 2 && sides.iter().all(|s| s["result"] == "PASS" && s["gpu"]["runs"] == 12), "{said:#}");
    assert_eq!(said["compared"]["pairs"], 12, "{said:#}");
    let verdict = said["compared"]["verdict"].as_str().unwrap();
    assert_eq!(verdict == "no verdict, it is emulated", !harness::on_hardware(), "{said:#}");
}

#[test]
fn it_ends_when_the_median_is_known_well_enough() {
    // The emulated GPU alone counts instructions: the same in every run.
    let (said, _) = measured(&["--backend", "emu", "--target-ci", "1%"]);
    assert_eq!(side(&said)["gpu"]["runs"], 10, "{said:#}");
    let (said, _) = measured(&["--backend", "emu", "-r", "25"]);
    assert_eq!((&side(&said)["gpu"]["runs"], &side(&said)["gpu"]["mad_ns"]), (&25.into(), &0.0.into()), "{said:#}");
}

#[test]
fn caches_are_filled_with_something_else_before_each_run_where_there_are_any() {
    let (said, outcome) = measured(&["-r", "3", "--cache-state", "cold"]);
    assert_eq!((&said["cache_state"], outcome.status.code()), (&"cold".into(), Some(0)), "{said:#}");
    let outcome = tool("bench", &increment(&harness::arch()), &["--backend", "emu", "--cache-state", "cold"]);
    assert_eq!(outcome.status.code(), Some(7), "{}{}", outcome.stdout, outcome.stderr);
}
