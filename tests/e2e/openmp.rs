//! OpenMP's offloading, whose runtime loads code in its own way, has a heap in the GPU's memory and copies behind kernels.

use std::fs;

use logdur_capture::Reader;

use crate::bed::{self, Outcome, Run};
use crate::replay::{json, on_file};

/// What LLVM's own recording of one region has, at least: the heap of the device.
const HEAP: u64 = 512 << 20;

/// A run on two GPUs, captured.
fn captured() -> (Outcome, std::path::PathBuf) {
    let arch = bed::arch();
    let run = Run::new(bed::openmp("regions", "-O2")).env("OMP_TARGET_OFFLOAD", "MANDATORY");
    let run = if bed::on_hardware() { run } else { run.env("KFDEMU_GPUS", format!("{arch},{arch}")) };
    let file = run.file("run.ldcap");
    (run.env("LOGDUR_CAPTURE", &file).watched().passed(), file)
}

#[test]
fn target_regions_are_logged_as_they_were_and_captured_whole_and_small() {
    let (run, file) = captured();
    let log = run.log();
    let said = log.notices.iter().find(|n| n.ends_with(" losses")).unwrap();
    assert!(said.ends_with(" 0 not captured, 0 losses"), "{:?}", log.notices);
    if !bed::on_hardware() {
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
        assert!(ranges.iter().map(|(_, length)| length).sum::<u64>() > HEAP, "{}", dispatch.id);
    }
    assert!(fs::metadata(&file).unwrap().len() < HEAP / 100);
    let looked = on_file(Run::new(bed::built("omniprobe")), "fsck", &file, "", &["--json"]);
    let report = json(&looked);
    assert_eq!((looked.status.code(), report["lacks"].as_array().map(Vec::len)), (Some(0), Some(0)), "{report}");
}

#[test]
fn target_regions_replay_as_the_application_got_them_with_the_runtime_and_without() {
    let (_run, file) = captured();
    let arch = bed::arch();
    let verify = |options: &[&str]| {
        let outcome = on_file(Run::new(bed::built("omniprobe")), "verify", &file, &arch, options);
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
    for name in &regions[..bed::count(1, regions.len())] {
        verify(&["--kernel", &format!("_{name}_"), "--json"]);
    }
}
