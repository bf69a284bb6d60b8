//! What instructions of captured dispatches do, against what their kernels are known to do.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::{self, Outcome, Run, built};

/// A capture of all kernels of a program.
fn captured(program: &str, options: &str) -> (Outcome, PathBuf) {
    let run = Run::new(harness::hip_optimized(program, options));
    let file = run.file("a.ldcap");
    let path = file.to_string_lossy().into_owned();
    let outcome = run.probed(&["--capture", &path, "-l", "/dev/null"]).passed();
    (outcome, file)
}

/// Analyses a capture: the status, an object for each dispatch, and what was said on stderr.
fn analyzed(file: &PathBuf, options: &[&str]) -> (i32, Vec<Value>, String) {
    let run = Run::new(built("omniprobe"));
    let mut command = Command::new(built("omniprobe"));
    command.arg("analyze").arg(file).arg("--json").args(options).stdin(Stdio::null()).env_remove("LD_PRELOAD");
    let outcome = run.finish(command);
    let objects = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (outcome.status.code().unwrap(), objects, outcome.stderr)
}

fn of<'o>(objects: &'o [Value], kernel: &str) -> &'o Value {
    let is = |o: &&Value| o["kernel"].as_str().unwrap().contains(kernel);
    objects.iter().find(is).unwrap_or_else(|| panic!("no {kernel}"))
}

/// The source line whose text contains a mark.
fn line<'o>(object: &'o Value, mark: &str) -> &'o Value {
    let is = |line: &&Value| line["source"]["text"].as_str().is_some_and(|text| text.contains(mark));
    object["lines"].as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("no {mark}: {}", object["lines"]))
}

/// What a check found: its words, and the texts of the source lines.
fn found(object: &Value, check: &str) -> Vec<(String, String)> {
    let findings = object["findings"].as_array().unwrap().iter().filter(|f| f["check"] == check);
    let text = |f: &Value| f["instruction"]["source"]["text"].as_str().unwrap_or_default().to_owned();
    findings.map(|f| (f["what"].as_str().unwrap().to_owned(), text(f))).collect()
}

#[test]
fn cache_lines_bank_conflicts_and_lanes_of_known_kernels_are_counted_by_source_line() {
    let (_kept, file) = captured("analyzed", "-O3 -g");
    let (status, all, said) = analyzed(&file, &[]);
    assert_eq!(status, 0, "{said}");

    // 1024 work-items, 16 waves: 64 words 16 bytes apart are in 16 lines of 64 bytes, and 256 bytes would fill 4.
    let strided = of(&all, "strided");
    let load = &line(strided, "strided load")["memory"];
    assert_eq!((&load["executions"], &load["bytes"]), (&16.into(), &(16 * 256).into()));
    assert_eq!((&load["l1_lines"], &load["l1_least"]), (&(16 * 16).into(), &(16 * 4).into()));
    let store = &line(strided, "row store")["memory"];
    assert_eq!((&store["l1_lines"], &store["l1_least"]), (&(16 * 4).into(), &(16 * 4).into()));

    // Four workgroups of 16 waves. A column of an unpadded tile is in one bank: each half of a wave needs 32 cycles. With
    // two rows of a tile in a wave, its lanes read two columns, the lower half one and the upper half the other.
    let conflicts = |kernel| line(of(&all, kernel), "column read")["lds"].clone();
    assert_eq!(
        (&conflicts("transposedP")["conflicts"], &conflicts("transposedP")["accesses"]),
        (&(64 * 62).into(), &64.into())
    );
    assert_eq!(conflicts("transposed_padded")["conflicts"], 0);
    assert_eq!(line(of(&all, "transposedP"), "row write")["lds"]["conflicts"], 0);

    // 16 waves, of which a quarter of the lanes do ten multiply-adds.
    let divergent = of(&all, "divergent");
    assert_eq!(divergent["totals"]["flops"]["f32"], 16 * 16 * 10 * 2);
    let is_fma =
        |i: &&Value| i["text"].as_str().unwrap().starts_with("v_f") || i["text"].as_str().unwrap().starts_with("v_mac");
    let (mut executions, mut lanes) = (0, 0);
    for inst in divergent["instructions"].as_array().unwrap().iter().filter(is_fma) {
        executions += inst["executions"].as_u64().unwrap();
        lanes += inst["lanes"].as_u64().unwrap();
    }
    assert_eq!((executions, lanes), (16 * 10, 16 * 16 * 10));
    let total: u64 =
        divergent["instructions"].as_array().unwrap().iter().map(|i| i["executions"].as_u64().unwrap()).sum();
    assert_eq!(divergent["totals"]["instructions"], total);
    let blocks = divergent["blocks"].as_array().unwrap();
    assert!(blocks.iter().any(|b| b["active"] == 0.25 && b["executions"].as_u64().unwrap() >= 16), "{blocks:?}");
}

#[test]
fn each_check_finds_its_error_and_is_silent_on_the_other_kernels() {
    let (_kept, file) = captured("analyzed", "-O3 -g");
    let (status, all, said) = analyzed(&file, &["--check", "all"]);
    assert_eq!(status, 6, "{said}");
    let races = found(of(&all, "without_barrier"), "race");
    assert!(races.iter().any(|(_, text)| text.contains("words[255 - threadIdx.x]")), "{races:?}");
    let uninitialised = found(of(&all, "unwritten"), "init");
    assert!(uninitialised.iter().any(|(what, _)| what.contains("address")), "{uninitialised:?}");
    for kernel in ["strided", "transposedP", "transposed_padded", "divergent"] {
        assert_eq!(of(&all, kernel)["findings"], Value::Array(Vec::new()), "{kernel}");
    }
    assert_eq!(found(of(&all, "without_barrier"), "wait"), []);
}
