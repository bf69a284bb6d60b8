//! Swaps and captures at once, while more code is loaded: by the program, by HIP, at run time, for two GPUs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use logdur_capture::{Id, Reader};
use serde_json::Value;

use crate::replay::verify::{all_passed, increment, json, on_file, tool};
use crate::support::captures::{Captured, Demand};
use crate::support::harness::{self, Outcome, Run, built};

/// What `together` may do after its first kernel was swapped, and the kernels of its own that it launches then, with the number
/// of launches.
const STAGES: [(&str, &[(&str, usize)]); 4] = [
    ("module", &[("first", 8), ("increment", 8)]),
    ("compiled", &[("first", 8), ("late", 4)]),
    ("own", &[("first", 8)]),
    ("gpus", &[("first", 16)]),
];

/// A run of `together` with a cache of code for all of its kernels, and what it captured.
fn captured(mode: &str, stages: &[&str]) -> (Outcome, PathBuf) {
    let run = Run::hip("together").args(stages);
    let cache = run.file("cache");
    fs::create_dir(&cache).unwrap();
    for (name, options) in [("together", "-O2 -DOTHER"), ("kernels", "-O1")] {
        fs::copy(harness::hip_object(name, &harness::arch(), options), cache.join(format!("{name}.hsaco"))).unwrap();
    }
    let (indexes, file) = (run.file("indexes"), run.file("run.ldcap"));
    let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes);
    // What hiprtc makes of a kernel may differ from what the compiler made.
    let run = run.env("LOGDUR_KERNEL_CACHE_ORIGINAL", "all");
    let run = run.env("LOGDUR_KERNEL_CACHE_MODE", mode).env("LOGDUR_CAPTURE", &file);
    let run = run.env("LOGDUR_CAPTURE_DISPATCHES", "1-100");
    let gpus = [&*harness::arch(); 2].join(",");
    let run = if stages.contains(&"gpus") { run.env("KFDEMU_GPUS", gpus) } else { run };
    (run.watched().passed(), file)
}

/// Runs a tool on a capture, with its result as JSON or in words.
fn told(name: &str, file: &Path, options: &[&str]) -> Outcome {
    on_file(Run::new(built("omniprobe")), name, file, &harness::arch(), options)
}

/// Everything was captured of every dispatch, and so many of the program's own were replaced.
fn assert_whole(run: &Outcome, file: &Path, kernels: &[(&str, usize)], is_swapped: impl Fn(usize) -> bool, what: &str) {
    let log = run.log();
    let said = |text: &str| log.notices.iter().find(|notice| notice.contains(text));
    for text in ["in a way that is not seen", "cannot be replayed", "not captured:", "incomplete"] {
        assert!(said(text).is_none(), "{what}: {:?}", said(text));
    }
    let reader = Reader::open(file).unwrap();
    assert_eq!(reader.dispatches().len(), log.rows.len(), "{what}");
    let mut launches = BTreeMap::<&str, Vec<bool>>::new();
    for dispatch in reader.dispatches() {
        let kernel = dispatch.replaced_kernel.unwrap_or(dispatch.kernel);
        let kernel = reader.records().kernels.iter().find(|k| k.id == kernel).unwrap();
        let ids = [Some(dispatch.code_object), dispatch.replaced, Some(kernel.code_object)];
        assert!(ids.iter().flatten().all(|id: &Id| !id.is_none()), "{what}: {dispatch:?}");
        launches.entry(&kernel.symbol).or_default().push(dispatch.replaced.is_some());
    }
    for (kernel, count) in kernels {
        let expected: Vec<bool> = (0..*count).map(&is_swapped).collect();
        assert_eq!(launches[kernel], expected, "{what}: {kernel}: {:#?}", log.notices);
    }
    let looked = told("fsck", file, &[]);
    assert!(looked.status.success(), "{what}: {}", looked.stdout);
    let info = json(&told("info", file, &["--json"]));
    for dispatch in info["dispatches"].as_array().unwrap() {
        let geometry = dispatch["geometry"].as_str().unwrap();
        let is_whole = dispatch["complete"] == true && geometry.contains("x1 by ") && dispatch["bytes"] != 0;
        assert!(is_whole, "{what}: {dispatch:#}");
    }
}

#[test]
fn code_that_is_loaded_after_a_swap_is_captured_and_swapped_and_both_kernels_of_a_dispatch_are_replayed() {
    for (mode, is_swapped) in [("swap", (|_| true) as fn(usize) -> bool), ("alternate", |n| n % 2 == 1)] {
        for (stage, kernels) in STAGES {
            if stage == "gpus" && harness::on_hardware() {
                continue;
            }
            let what = format!("{mode} {stage}");
            let (run, file) = captured(mode, &[stage]);
            let dispatches = run.log().rows.len();
            let is_swapped = |n: usize| is_swapped(if stage == "gpus" { n % 8 } else { n });
            assert_whole(&run, &file, kernels, is_swapped, &what);
            for options in [&["--hsaco", "captured"], &["--hsaco", "original"]] {
                let options = [&["--json", "--backend", "emu"], &options[..]].concat();
                let verified = told("verify", &file, &options);
                assert!(verified.status.success(), "{what} {options:?}: {}{}", verified.stdout, verified.stderr);
                all_passed(&verified, dispatches, &format!("{what} {options:?}"));
            }
        }
    }
}

#[test]
fn modules_whose_kernels_were_swapped_are_unloaded_while_other_swapped_kernels_are_dispatched() {
    let rounds = harness::count(10, 200);
    for mode in ["swap", "alternate"] {
        let run = Run::hip("unloading").env("TEST_ROUNDS", rounds.to_string());
        let cache = run.file("cache");
        fs::create_dir(&cache).unwrap();
        for (name, options) in [("unloading", "-O2 -DOTHER"), ("kernels", "-O1")] {
            fs::copy(harness::hip_object(name, &harness::arch(), options), cache.join(format!("{name}.hsaco")))
                .unwrap();
        }
        let indexes = run.file("indexes");
        let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes);
        let run = run.env("LOGDUR_KERNEL_CACHE_MODE", mode).watched().passed();
        let log = run.log();
        log.account();
        for kernel in ["increment", "first"] {
            let rows = log.rows.iter().filter(|row| row.text("kernel") == kernel);
            let swapped: Vec<bool> = rows.map(|row| !row.text("replaced").is_empty()).collect();
            let (all, count) = (swapped.len(), swapped.iter().filter(|swapped| **swapped).count());
            let expected = if mode == "swap" { all } else { all / 2 };
            assert_eq!(count, expected, "{mode}, {kernel}: {:#?}", log.notices);
            assert!(kernel == "first" || all == 4 * rounds, "{mode}, {kernel}: {all} rows");
        }
    }
}

#[test]
fn all_of_it_at_once_is_captured_and_replayed_under_the_runtime() {
    let stages = if harness::on_hardware() {
        &["module", "compiled", "own"][..]
    } else {
        &["module", "compiled", "own", "gpus"]
    };
    let (run, file) = captured("alternate", stages);
    let verified = told("verify", &file, &["--json"]);
    assert!(verified.status.success(), "{}{}", verified.stdout, verified.stderr);
    all_passed(&verified, run.log().rows.len(), "all at once");
}

#[test]
fn what_a_dispatch_demands_and_a_capture_lacks_is_named_by_fsck_and_info() {
    let whole = increment(&harness::arch());
    let looked = tool("fsck", &whole, &[]);
    assert!(looked.status.success(), "{}", looked.stdout);
    let lacking = [
        (Captured { without: Some(Demand::Kernel), ..whole.clone() }, "kernel 0"),
        (Captured { without: Some(Demand::Code), ..whole.clone() }, "code object"),
        (Captured { without: Some(Demand::Before), ..whole.clone() }, "memory before the kernel"),
        (Captured { without: Some(Demand::Buffers), ..whole.clone() }, "the memory that arg0 points to, 0x"),
        (Captured { kernarg: Vec::new(), ..whole.clone() }, "arguments from byte 0 to byte 8"),
        (Captured { grid: 0, ..whole.clone() }, "a grid or a workgroup of size 0"),
    ];
    for (captured, what) in lacking {
        let looked = tool("fsck", &captured, &[]);
        assert_eq!(looked.status.code(), Some(9), "{what}: {}", looked.stdout);
        assert!(looked.stdout.contains("dispatch 7: ") && looked.stdout.contains(what), "{}", looked.stdout);
        let info = tool("info", &captured, &[]);
        assert!(info.stdout.contains(what), "{what}: {}", info.stdout);
        assert!(info.stdout.contains("0 of 1 dispatches have all that a replay needs"), "{}", info.stdout);
        let said = json(&tool("info", &captured, &["--json"]));
        let lacks: Vec<&Value> = said["dispatches"][0]["lacks"].as_array().unwrap().iter().collect();
        assert!(lacks.iter().any(|lack| lack.as_str().unwrap().contains(what)), "{what}: {said:#}");
        let geometry = if captured.grid == 0 { "grid 0x1x1 by 64x1x1" } else { "grid 256x1x1 by 64x1x1" };
        assert!(info.stdout.contains(geometry), "{}", info.stdout);
    }
}

#[test]
fn of_a_dispatch_whose_kernel_was_swapped_either_is_replayed_and_told_and_the_one_that_ran_is_the_reference() {
    let arch = harness::arch();
    let other = harness::hip_object("swaps", &arch, "-DOTHER -O3");
    let run = Run::hip("swaps").args(["plain", "wider"]);
    let (cache, indexes, file) = (run.file("cache"), run.file("indexes"), run.file("run.ldcap"));
    fs::create_dir(&cache).unwrap();
    fs::copy(&other, cache.join("o.hsaco")).unwrap();
    let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes).env("LOGDUR_CAPTURE", &file);
    let run = run.watched().passed();
    assert!(run.stdout.starts_with("plain other\nwider original\n"), "{}", run.stdout);
    let ran = Id::of(&fs::read(&other).unwrap()).to_string();
    let file_option = format!("all={}", other.display());
    let third = format!("all={}", harness::hip_object("swaps", &arch, "-DOTHER -O2").display());
    let reference = format!("; the reference is {ran}, which ran in the place of the application's own");
    let its_own = "this is the kernel that ran in the place of the application's own".to_owned();
    // The two kernels compute something else.
    let cases: [(&[&str], &str, i32, &str, String); 5] = [
        (&[], "PASS", 0, "captured", its_own.clone()),
        (&["--hsaco", "captured"], "PASS", 0, "captured", its_own.clone()),
        (&["--hsaco", &file_option], "PASS", 0, "captured", its_own),
        (&["--hsaco", "original"], "FAIL", 6, "original", format!("this is the application's own kernel{reference}")),
        (
            &["--hsaco", &third],
            "PASS",
            0,
            "other",
            format!("this is neither of the two kernels of the dispatch{reference}"),
        ),
    ];
    for backend in [&[][..], &["--backend", "emu"]] {
        for (options, result, status, replays, said) in &cases {
            let options = [&["--kernel", "^plain$"], *options, backend].concat();
            let outcome = told("verify", &file, &options);
            assert_eq!(outcome.status.code(), Some(*status), "{options:?}: {}{}", outcome.stdout, outcome.stderr);
            assert_eq!(outcome.stdout.lines().last(), Some(*result), "{options:?}: {}", outcome.stdout);
            assert!(outcome.stdout.contains(said), "{options:?}: {}", outcome.stdout);
            let as_json = json(&told("verify", &file, &[&options[..], &["--json"]].concat()));
            assert_eq!((&as_json["replays"], &as_json["ran_instead"]), (&(*replays).into(), &ran.as_str().into()));
        }
        // Of a dispatch that was not swapped, nothing of the sort is said.
        let options = [&["--kernel", "^wider$"], backend].concat();
        let outcome = told("verify", &file, &options);
        assert!(outcome.status.success() && !outcome.stdout.contains("in the place of"), "{}", outcome.stdout);
    }
}
