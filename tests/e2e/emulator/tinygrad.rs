//! tinygrad, which opens the driver's devices itself: queues of its own, with AQL packets, PM4 commands and copy packets, and no HSA runtime.

use std::path::{Path, PathBuf};

use crate::support::harness::{self, Run};

/// The environment of Python that has tinygrad: that of the pseudocode.
fn python() -> PathBuf {
    let pseudocode = std::env::var_os("LOGDUR_TEST_PSEUDOCODE").expect("cargo xtask test sets LOGDUR_TEST_PSEUDOCODE");
    // lib/python3.x/site-packages/tinygrad/runtime/autogen/amd
    Path::new(&pseudocode).ancestors().nth(7).unwrap().join("bin/python")
}

/// LLVM 22 as a library: tinygrad compiles kernels with it.
fn llvm() -> PathBuf {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/llvm-22/lib"];
    let found = folders.iter().map(|folder| Path::new(folder).join("libLLVM.so.22.1")).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("libLLVM.so.22.1 is in none of {folders:?}"))
}

/// Runs tinygrad's AMD backend with a script of `tests`.
fn run(script: &str, gpus: &str, arguments: &[&str]) -> Run {
    let script = harness::root().join("tests").join(script);
    let run = Run::new(python()).args([script]).args(arguments).env("KFDEMU_GPUS", gpus);
    let cache = run.file("cache.db");
    run.env("DEV", "AMD:LLVM").env("LLVM_PATH", llvm()).env("CACHEDB", cache).env("PARALLEL", "0")
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
