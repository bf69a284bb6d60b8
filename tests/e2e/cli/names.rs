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
fn rows_have_mangled_names_or_both_where_that_is_asked_for_and_everything_that_reads_them_goes_on() {
    let program = harness::hip_optimized("named", "-O3 -std=c++20");
    let kernels = listed(&program, &[]);
    let chosen = kernels.keys().find(|symbol| of_llvm(symbol).contains("main::'lambda'(int)")).unwrap();
    let own = format!("^{}$", regex::escape(&of_llvm(chosen)));
    for (format, which) in [("csv", "mangled"), ("csv", "both"), ("json", "mangled"), ("json", "both")] {
        let run = Run::new(program.clone()).probed(&["-l", "log", "-t", format, "--names", which]).passed();
        let log = run.folder.path().join("log");
        let output = |arguments: &[&str]| {
            let output =
                Command::new(built("omniprobe")).args(arguments).current_dir(run.folder.path()).output().unwrap();
            assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap()
        };
        output(&["export", "log", "--csv", "rows.csv"]);
        let mut reader =
            csv::ReaderBuilder::new().comment(Some(b'#')).from_path(run.folder.path().join("rows.csv")).unwrap();
        let header = reader.headers().unwrap().clone();
        let at = |name: &str| header.iter().position(|column| column == name).unwrap();
        let rows = reader.records().map(|row| row.unwrap());
        let rows: Vec<[String; 2]> =
            rows.map(|row| ["kernel", "symbol"].map(|name| row[at(name)].to_owned())).collect();
        let of_program: Vec<&[String; 2]> =
            rows.iter().filter(|[kernel, _]| !kernel.starts_with("__amd_rocclr_")).collect();
        assert!(of_program.len() >= kernels.len(), "{format} {which}: {}", std::fs::read_to_string(&log).unwrap());
        for [kernel, symbol] in &of_program {
            match which {
                "mangled" => assert!(kernels.contains_key(kernel) && symbol.is_empty(), "{kernel} {symbol}"),
                _ => assert!(kernels.contains_key(symbol) && *kernel == of_llvm(symbol), "{kernel} {symbol}"),
            }
        }
        // What reads the log shows the same names.
        let shown = |symbol: &String| if which == "mangled" { symbol.clone() } else { of_llvm(symbol) };
        let names: BTreeSet<String> = kernels.keys().map(shown).collect();
        let summary: Value = serde_json::from_str(&output(&["summary", "log", "--json"])).unwrap();
        let groups =
            summary["groups"].as_array().unwrap().iter().map(|group| group["name"].as_str().unwrap().to_owned());
        let groups: BTreeSet<String> = groups.filter(|name| !name.starts_with("__amd_rocclr_")).collect();
        assert_eq!(groups, names, "{format} {which}");
        output(&["trace", "log", "-o", "run.json"]);
        let trace = std::fs::read_to_string(run.folder.path().join("run.json")).unwrap();
        let trace: Value = serde_json::from_str(&trace).unwrap();
        let events = trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["cat"] == "kernel");
        let slices: BTreeSet<&str> = events.map(|event| event["name"].as_str().unwrap()).collect();
        assert!(names.iter().all(|name| slices.contains(name.as_str())), "{slices:?}");
    }
    // Filters take every name, whichever the rows have; what is no choice is said.
    let run = Run::new(program.clone()).env("LOGDUR_NAMES", "mangled").env("LOGDUR_LOG_FILTER", own);
    let log = run.watched().passed().log();
    assert_eq!(log.rows.iter().map(|row| row.kernel()).collect::<Vec<_>>(), [chosen]);
    let log = Run::new(program).env("LOGDUR_NAMES", "pretty").watched().passed().log();
    assert!(log.of_program().iter().all(|row| row.kernel() == of_llvm(row.kernel()) && row.text("symbol").is_empty()));
    assert!(
        log.notices.iter().any(|notice| notice.contains("LOGDUR_NAMES") && notice.contains("pretty")),
        "{:?}",
        log.notices
    );
}

#[test]
fn kernels_of_rocprim_have_the_names_of_llvm() {
    let kernels = listed(&harness::hip("primitives"), &[]);
    assert!(kernels.len() > 10, "{kernels:#?}");
    for (symbol, name) in kernels {
        assert_eq!(name, of_llvm(&symbol), "{symbol}");
    }
}
