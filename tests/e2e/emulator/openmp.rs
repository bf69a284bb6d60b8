//! OpenMP's offloading, whose runtime loads code in its own way, has a heap in the GPU's memory and copies behind kernels.

use std::fs;
use std::path::PathBuf;

use logdur_capture::Reader;

use crate::replay::verify::{ended, json, on_file};
use crate::support::harness::{self, Outcome, Run};

/// What LLVM's own recording of one region has, at least: the heap of the device.
const HEAP: u64 = 512 << 20;

/// A run on two GPUs, captured.
fn captured() -> (Outcome, PathBuf) {
    let arch = harness::arch();
    let run = Run::new(harness::openmp("regions", "-O2")).env("OMP_TARGET_OFFLOAD", "MANDATORY");
    let run = if harness::on_hardware() { run } else { run.env("KFDEMU_GPUS", format!("{arch},{arch}")) };
    let file = run.file("run.ldcap");
    (run.env("LOGDUR_CAPTURE", &file).watched().passed(), file)
}

#[test]
fn target_regions_are_logged_as_they_were_and_captured_whole_and_small() {
    let (run, file) = captured();
    let log = run.log();
    let said = log.notices.iter().find(|n| n.ends_with(" losses")).unwrap();
    assert!(said.ends_with(" 0 not captured, 0 losses"), "{:?}", log.notices);
    if !harness::on_hardware() {
        // Ten that are of one device, and one of each; the runtime's own copies are none.
        assert_eq!(log.rows.len(), 12);
    }
    // Names and arguments are of the code objects.
    for row in &log.rows {
        assert!(row.text("kernel").starts_with("__omp_offloading_"), "{}", row.text("kernel"));
        assert!(row.number("kernargBytes") >= 8, "{}", row.text("kernel"));
    }
    let reader = Reader::open(&file).unwrap();
    // The second launch of one geometry on the same GPU is none of the first.
    let different: std::collections::BTreeSet<_> =
        log.rows.iter().map(|r| ["agent", "kernel", "grid", "workgroup"].map(|c| r.text(c))).collect();
    assert_eq!(reader.dispatches().len(), different.len());
    // Each has the heap, before and after, and all together are a hundredth of one.
    for dispatch in reader.dispatches() {
        let ranges = reader.snapshot(dispatch.before.unwrap()).unwrap().ranges();
        assert!(ranges.iter().map(|range| range.end - range.start).sum::<u64>() > HEAP, "{}", dispatch.id);
    }
    assert!(fs::metadata(&file).unwrap().len() < HEAP / 100);
    let looked = on_file(Run::new(harness::built("omniprobe")), "fsck", &file, "", &["--json"]);
    let report = json(&looked);
    assert_eq!((looked.status.code(), report["lacks"].as_array().map(Vec::len)), (Some(0), Some(0)), "{report}");
}

#[test]
fn target_regions_replay_as_the_application_got_them_with_the_runtime_and_without() {
    let (_run, file) = captured();
    let arch = harness::arch();
    let verify = |options: &[&str]| {
        let outcome = on_file(Run::new(harness::built("omniprobe")), "verify", &file, &arch, options);
        let results: Vec<serde_json::Value> =
            outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(!results.is_empty(), "{}", outcome.stderr);
        for result in &results {
            assert_eq!(result["result"], "PASS", "{options:?}: {result:#}{}", outcome.stderr);
            assert_eq!(result["qualified"], serde_json::json!([]), "{options:?}");
        }
        results.len()
    };
    let all = Reader::open(&file).unwrap().dispatches().len();
    // Each has half a gigabyte of memory: some in a process.
    let regions = ["main", "scaled", "reduced", "declared", "limited", "deferred", "everywhere"];
    let verified = regions.map(|name| verify(&["--backend", "emu", "--kernel", &format!("_{name}_"), "--json"]));
    assert_eq!(verified.iter().sum::<usize>(), all);
    for name in &regions[..harness::count(1, regions.len())] {
        verify(&["--kernel", &format!("_{name}_"), "--json"]);
    }
}

/// The regions compiled at other levels than the program: a program whose image has them, and an image of its own.
fn recompiled() -> [PathBuf; 2] {
    [harness::openmp("regions", "-O3"), harness::openmp_object("regions", "-O2", "-O1")]
}

#[test]
fn regions_compiled_at_another_level_take_the_place_of_the_programs_and_share_its_variables() {
    for file in recompiled() {
        let run = Run::new(harness::openmp("regions", "-O2")).env("OMP_TARGET_OFFLOAD", "MANDATORY");
        let cache = run.file("cache");
        fs::create_dir(&cache).unwrap();
        fs::copy(&file, cache.join("regions")).unwrap();
        let indexes = run.file("indexes");
        let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes).watched().passed();
        let log = run.log();
        assert!(log.rows.len() >= 11, "{:#?}", log.rows);
        let own: Vec<&str> =
            log.rows.iter().filter(|row| row.text("replaced").is_empty()).map(|row| row.kernel()).collect();
        assert!(own.is_empty(), "{}: {own:?} {:#?}", file.display(), log.notices);
        // One region writes what the next one reads; both are other code than the host's copies know.
        let shared = log.notices.iter().find(|n| n.contains("_declared_") && n.contains("variables: shared "));
        assert!(shared.is_some_and(|n| n.contains("weights") && n.contains("total")), "{:#?}", log.notices);
    }
}

#[test]
fn regions_compiled_at_another_level_compute_what_the_application_got() {
    let (_run, file) = captured();
    let arch = harness::arch();
    for (n, other) in recompiled().into_iter().enumerate() {
        let replaced = format!("all={}", other.display());
        let verify = |options: &[&str]| {
            let options = [&["--hsaco", &replaced, "--json"][..], options].concat();
            let outcome = on_file(Run::new(harness::built("omniprobe")), "verify", &file, &arch, &options);
            let results: Vec<serde_json::Value> =
                outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert!(!results.is_empty(), "{}", outcome.stderr);
            for result in &results {
                assert_eq!(result["result"], "PASS", "{options:?}: {result:#}{}", outcome.stderr);
            }
            results.len()
        };
        // Each has half a gigabyte of memory: some in a process.
        let regions = ["main", "scaled", "reduced", "declared", "limited", "deferred", "everywhere"];
        let some = regions.into_iter().skip(n).step_by(harness::count(2, 1));
        for name in some {
            verify(&["--backend", "emu", "--kernel", &format!("_{name}_")]);
        }
        verify(&["--kernel", ["_declared_", "_reduced_"][n]]);
    }

    // One that computes something else is told, with the first element of the variable.
    let wrong = format!("all={}", harness::openmp("regions", "-O3 -DADDED=1").display());
    let options = ["--backend", "emu", "--kernel", "_declared_", "--hsaco", &wrong];
    let outcome = on_file(Run::new(harness::built("omniprobe")), "verify", &file, &arch, &options);
    ended(&outcome, "FAIL", 6);
    assert!(outcome.stdout.contains("weights") && outcome.stdout.contains("64 elements differ"), "{}", outcome.stdout);
}
