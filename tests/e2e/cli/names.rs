//! Names of kernels: the same ones everywhere, and those of LLVM.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::harness::{self, Run, built};

/// What `llvm-cxxfilt-19` makes of a symbol.
fn of_llvm(symbol: &str) -> String {
    let output = Command::new("llvm-cxxfilt-19").arg(symbol).output().unwrap();
    let name = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    // It leaves the dots of a pack whose declaration is in the symbol.
    if symbol.contains("TpTnT") { name.replace("...", "") } else { name }
}

/// The kernels of a file for the processor that is tested, their symbols with what `cache ls` calls them.
fn listed(file: &Path, filter: &[&str]) -> BTreeMap<String, String> {
    let arch = harness::arch();
    let output = Command::new(built("omniprobe"))
        .args(["cache", "ls", "--json", "--arch", &arch])
        .args(filter)
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| (text(&line, "kernel"), text(&line, "demangled"))).collect()
}

#[test]
fn kernels_have_the_names_of_llvm_in_the_log_in_filters_and_in_the_cache() {
    let program = harness::hip_optimized("named", "-O3 -std=c++20");
    let kernels = listed(&program, &[]);
    assert!(kernels.len() >= 12, "{kernels:#?}");
    for (symbol, name) in &kernels {
        assert_eq!(*name, of_llvm(symbol), "{symbol}");
        let own = format!("^{}$", regex::escape(name));
        assert_eq!(listed(&program, &["-k", &own]), BTreeMap::from([(symbol.clone(), name.clone())]));
    }
    let names: BTreeSet<&str> = kernels.values().map(String::as_str).collect();

    let log = Run::new(program.clone()).watched().passed().log();
    let rows: BTreeSet<&str> = log.of_program().iter().map(|row| row.kernel()).collect();
    assert_eq!(rows, names);

    // A filter of the log takes what the log says.
    let lambda = names.iter().find(|name| name.contains("main::'lambda'(int)")).unwrap();
    let run = Run::new(program).env("LOGDUR_LOG_FILTER", format!("^{}$", regex::escape(lambda)));
    let log = run.watched().passed().log();
    assert_eq!(log.rows.iter().map(|row| row.kernel()).collect::<Vec<_>>(), [*lambda]);
}

#[test]
fn kernels_of_rocprim_have_the_names_of_llvm() {
    let kernels = listed(&harness::hip("primitives"), &[]);
    assert!(kernels.len() > 10, "{kernels:#?}");
    for (symbol, name) in kernels {
        assert_eq!(name, of_llvm(&symbol), "{symbol}");
    }
}
