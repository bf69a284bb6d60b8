//! tinygrad, which opens the driver's devices itself: queues of its own, with AQL packets, PM4 commands and copy packets, and no HSA runtime.

use std::path::{Path, PathBuf};

use crate::support::harness::{self, Run};

/// The environment of Python that has tinygrad: that of the pseudocode.
fn environment() -> PathBuf {
    let pseudocode = std::env::var_os("LOGDUR_TEST_PSEUDOCODE").expect("cargo xtask test sets LOGDUR_TEST_PSEUDOCODE");
    // lib/python3.x/site-packages/tinygrad/runtime/autogen/amd
    Path::new(&pseudocode).ancestors().nth(7).unwrap().to_owned()
}

/// LLVM 22 as a library: tinygrad compiles kernels with it.
fn llvm() -> PathBuf {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/llvm-22/lib"];
    let found = folders.iter().map(|folder| Path::new(folder).join("libLLVM.so.22.1")).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("libLLVM.so.22.1 is in none of {folders:?}"))
}

/// Runs tinygrad's AMD backend with a script of `tests`.
fn run(script: &str, gpus: &str, arguments: &[&str]) -> Run {
    // Relative to `tests` if it is ours.
    let script = harness::root().join("tests").join(script);
    let run = Run::new(environment().join("bin/python")).args([script]).args(arguments).env("KFDEMU_GPUS", gpus);
    let cache = run.file("cache.db");
    // What it does on the processor is compiled by a program.
    let run = run.env("DEV", "AMD:LLVM").env("LLVM_PATH", llvm()).env("CC", "clang-19");
    run.env("CACHEDB", cache).env("PARALLEL", "0")
}

/// Operators, each compared with NumPy.
fn operators_on(gpus: &str, variables: &[(&str, &str)]) {
    if harness::on_hardware() {
        return;
    }
    let names = run("suites/tinygrad/operators.py", gpus, &[]).bare();
    let names: Vec<&str> = names.stdout.lines().collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names.iter().take(harness::count(6, names.len())) {
        let run = run("suites/tinygrad/operators.py", gpus, &[name]);
        let outcome = variables.iter().fold(run, |run, (name, value)| run.env(name, value)).bare();
        let said = outcome.stdout.lines().any(|line| line == format!("passed {name} on AMD"));
        let log = outcome.read("kfdemu.log");
        assert!(outcome.status.success() && said, "{gpus} {name}: {}\n{}\n{log}", outcome.stdout, outcome.stderr);
        assert!(!log.contains("not implemented"), "{gpus} {name}: {log}");
        let kernels = outcome.trace().iter().filter(|packet| packet["type"] == "KernelDispatch").count();
        assert!(kernels > 0, "{gpus} {name}: no kernel ran on the GPU");
    }
}

#[test]
fn operators_of_tinygrad_compute_what_numpy_computes_by_packets_for_all_dies() {
    operators_on("gfx942", &[]);
}

#[test]
fn operators_of_tinygrad_compute_what_numpy_computes_by_commands_on_one_partition() {
    // A partition of one die has a queue of PM4 commands alone.
    operators_on("gfx942:cpx", &[]);
}

#[test]
fn operators_of_tinygrad_compute_what_numpy_computes_on_mi350() {
    operators_on("gfx950", &[]);
}

/// The tests that tinygrad's source comes with, as they are.
fn own_tests_on(gpus: &str) {
    if harness::on_hardware() {
        return;
    }
    let script = environment().join("test/test_tiny.py");
    let outcome = run(&script.to_string_lossy(), gpus, &["-v"]).bare();
    let log = outcome.read("kfdemu.log");
    assert!(outcome.status.success(), "{gpus}: {}\n{}\n{log}", outcome.stdout, outcome.stderr);
    let passed = outcome.stderr.lines().filter(|line| line.ends_with("... ok")).count();
    // Two are of images, which only OpenCL's device has.
    let skipped = outcome.stderr.lines().filter(|line| line.contains("... skipped")).count();
    assert!(passed > 15 && skipped <= 2, "{gpus}: {}", outcome.stderr);
    assert!(!log.contains("not implemented"), "{gpus}: {log}");
    let kernels = outcome.trace().iter().filter(|packet| packet["type"] == "KernelDispatch").count();
    assert!(kernels > 50, "{gpus}: {kernels} kernels ran on the GPU");
}

#[test]
fn tests_of_tinygrad_pass_as_they_are_by_packets_for_all_dies() {
    own_tests_on("gfx942");
}

#[test]
fn tests_of_tinygrad_pass_as_they_are_by_commands_on_one_partition() {
    own_tests_on("gfx942:cpx");
}

#[test]
fn counters_that_tinygrads_profiler_reads_are_those_of_the_sizes_of_its_kernels() {
    if harness::on_hardware() {
        return;
    }
    let counters = "SQ_WAVES,SQ_WAVES_EQ_64,SQ_WAVES_LT_64,SQ_WAVES_LT_16,SQ_ITEMS";
    for gpus in ["gfx942:mi300x", "gfx950"] {
        let run = run("programs/tinygrad/counters.py", gpus, &[]).env("PROFILE", "1").env("PMC", "1");
        let outcome = run.env("PMC_COUNTERS", counters).bare();
        let log = outcome.read("kfdemu.log");
        let said = outcome.stdout.contains("passed counters on AMD");
        assert!(outcome.status.success() && said, "{gpus}: {}\n{}\n{log}", outcome.stdout, outcome.stderr);
    }
}
