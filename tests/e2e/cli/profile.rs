//! `omniprobe export --into` and `trace --clock wall`: rows at the time of day, among the calls that a profiler recorded.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::harness::{Run, built};

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Status and errors of `omniprobe` with some arguments.
fn omniprobe(arguments: &[&Path]) -> (Option<i32>, String) {
    let output = Command::new(built("omniprobe")).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn rows_are_added_to_a_profilers_trace_behind_the_calls_that_launched_them() {
    let run = Run::hip("profiled");
    let [trace, merged, wall] = ["profile.json", "merged.json", "wall.json"].map(|name| run.file(name));
    let run = run.args([&trace]).watched().passed();
    let folder = run.folder.path();
    let log = folder.join("log.csv");
    let export = |to: &Path, more: &[&Path]| {
        omniprobe(&[&["export".as_ref(), log.as_path(), "--into".as_ref(), to], more].concat())
    };
    let before = fs::read(&trace).unwrap();
    let (status, said) = export(&trace, &["-o".as_ref(), &merged]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("rows added; 8 of "), "{said}");
    assert_eq!(fs::read(&trace).unwrap(), before);
    // Everything that was there still is, in its order.
    let (old, new) = (json(&trace), json(&merged));
    let [old_events, events] = [&old, &new].map(|all| all["traceEvents"].as_array().unwrap());
    assert!(events.starts_with(old_events) && new["schemaVersion"] == 1);
    let added = &events[old_events.len()..];
    let of_phase = |phase: &str| added.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let kernels: Vec<_> =
        of_phase("X").into_iter().filter(|event| event["name"].as_str().unwrap().starts_with("step(")).collect();
    assert_eq!(kernels.len(), 8);
    for kernel in kernels {
        let workgroups =
            kernel["args"]["shape"].as_str().unwrap().split('x').next().unwrap().parse::<u64>().unwrap() / 64;
        assert_eq!((&kernel["cat"], &kernel["args"]["External id"]), (&"kernel".into(), &workgroups.into()));
        assert_eq!(kernel["args"]["correlation"], 100 + workgroups);
        let is_launch =
            |event: &&Value| event["args"]["correlation"] == 100 + workgroups && event["cat"] == "cuda_runtime";
        let launch = old_events.iter().find(is_launch).unwrap();
        let times = [launch, kernel].map(|event| event["ts"].as_f64().unwrap());
        assert!(times[0] < times[1] && times[1] - times[0] < 60e6, "{launch} {kernel}");
        // The arrow.
        let to = of_phase("f").into_iter().find(|flow| flow["ts"] == kernel["ts"]).unwrap();
        let from = of_phase("s").into_iter().find(|flow| flow["id"] == to["id"]).unwrap();
        assert_eq!([&from["ts"], &from["tid"]], [&launch["ts"], &launch["tid"]]);
    }
    // The same moments as a timeline of its own.
    let (status, said) =
        omniprobe(&["trace".as_ref(), &log, "-o".as_ref(), &wall, "--clock".as_ref(), "wall".as_ref()]);
    assert_eq!(status, Some(0), "{said}");
    let timeline = json(&wall);
    let starts = |all: &Value, events: &[Value]| -> Vec<i64> {
        let base = all["baseTimeNanoseconds"].as_i64().unwrap();
        let rows = events.iter().filter(|event| event["name"].as_str().is_some_and(|name| name.starts_with("step(")));
        rows.map(|event| base + (event["ts"].as_f64().unwrap() * 1000.0).round() as i64).collect()
    };
    assert_eq!(starts(&new, added), starts(&timeline, timeline["traceEvents"].as_array().unwrap()));
    // Without another name the trace is replaced, once.
    assert_eq!(export(&trace, &[]).0, Some(0));
    assert_eq!(fs::read(&trace).unwrap(), fs::read(&merged).unwrap());
    let (status, said) = export(&trace, &[]);
    assert!(status == Some(1) && said.contains("expected a trace without rows of a log"), "{said}");
}

#[test]
fn a_trace_that_rows_cannot_be_added_to_is_refused_by_name_and_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let [log, trace] = ["log.csv", "trace.json"].map(|name| folder.path().join(name));
    let row = "kernel,dispatch,startNs,endNs,pid\n\"f\",1,2,3,77\n";
    let event =
        |pid: u32, ts: &str| format!(r#"{{"ph":"X","cat":"cpu_op","name":"a","pid":{pid},"tid":1,"ts":{ts},"dur":1}}"#);
    let of = |base: &str, event: &str| format!("{{{base}\"traceEvents\":[{event}]}}").into_bytes();
    let base = "\"baseTimeNanoseconds\":1000000000000000000,";
    let clocks = format!("{row}# clocks: systemNs=1 wallNs=1000000000000000001\n");
    for (log_text, bytes, expected) in [
        (&clocks[..], b"\x1f\x8b\x08rest".to_vec(), "gunzip it first"),
        (&clocks, b"[]".to_vec(), "an object with `traceEvents`"),
        (&clocks, b"{\"a\":1}".to_vec(), "an object with `traceEvents`"),
        (&clocks, of("", ""), "expected events with times, found none"),
        (&clocks, of("", &event(77, "12.5")), "found times that begin at 12.5 us"),
        (&clocks, of(base, &event(78, "12.5")), "expected rows of process 78, found rows of 77"),
        (row, of(base, &event(77, "12.5")), "expected a line \"# clocks:\""),
    ] {
        fs::write(&log, log_text).unwrap();
        fs::write(&trace, &bytes).unwrap();
        let (status, said) = omniprobe(&["export".as_ref(), &log, "--into".as_ref(), &trace]);
        assert!(
            status == Some(1) && said.contains(expected) && said.contains("trace.json") | said.contains("log.csv"),
            "{expected}: {said}"
        );
        assert_eq!(fs::read(&trace).unwrap(), bytes, "{expected}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}
