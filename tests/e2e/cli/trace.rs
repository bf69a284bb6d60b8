//! `omniprobe trace` and `--trace`: timelines as Perfetto's own decoder reads them, against the rows.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::harness::{self, Run, built};
use crate::support::log::Log;

/// Prints the events of a trace, as JSON: slices with their names, tracks and arguments, and counters.
const DECODE: &str = r#"
import json, sys
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
trace = Trace()
trace.ParseFromString(open(sys.argv[1], "rb").read())
names, tracks, open_slices, slices, counters, instants, doorbells, flows = {}, {}, {}, [], [], [], {}, []
for packet in trace.packet:
    for name in packet.interned_data.event_names:
        names[name.iid] = name.name
    if packet.HasField("track_descriptor"):
        d = packet.track_descriptor
        tracks[d.uuid] = (d.name, tracks[d.parent_uuid][0] if d.parent_uuid else None, d.HasField("counter"))
    if packet.HasField("track_event"):
        e = packet.track_event
        name, parent, counts = tracks[e.track_uuid]
        if e.type == TrackEvent.TYPE_SLICE_BEGIN:
            arguments = {a.name: a.string_value or a.uint_value for a in e.debug_annotations}
            assert not counts
            for flow in e.terminating_flow_ids:
                flows.append([names[e.name_iid], *doorbells.pop((flow, e.name_iid)), packet.timestamp])
            open_slices.setdefault(e.track_uuid, []).append((packet.timestamp, names[e.name_iid], arguments))
        elif e.type == TrackEvent.TYPE_SLICE_END:
            start, kernel, arguments = open_slices[e.track_uuid].pop()
            slices.append([kernel, start, packet.timestamp, name, parent, arguments])
        elif e.type == TrackEvent.TYPE_INSTANT:
            for flow in e.flow_ids:
                assert name.endswith(" doorbells") and (flow, e.name_iid) not in doorbells
                doorbells[flow, e.name_iid] = [packet.timestamp]
            if not e.flow_ids:
                instants.append([names[e.name_iid], packet.timestamp, packet.timestamp, name, parent])
        elif e.type == TrackEvent.TYPE_COUNTER:
            assert counts
            counters.append([parent, packet.timestamp, e.counter_value])
assert not any(open_slices.values()) and not doorbells
json.dump({"slices": slices, "counters": counters, "instants": instants, "flows": flows}, sys.stdout)
"#;

pub(crate) fn decoded(trace: &Path) -> Value {
    let python = harness::root().join("target/xtask/triton/bin/python");
    let output = Command::new(python).args(["-c", DECODE]).arg(trace).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Kernel, start and end of each row.
fn intervals(log: &Log) -> BTreeSet<(String, u64, u64)> {
    log.rows.iter().map(|row| (row.kernel().to_owned(), row.number("startNs"), row.number("endNs"))).collect()
}

fn written(log: &Path, output: &Path) -> std::process::Output {
    let mut command = Command::new(built("omniprobe"));
    command.arg("trace").arg(log).arg("-o").arg(output).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn perfetto_reads_every_row_on_the_track_of_its_queue() {
    let run = Run::hip("streams").watched().passed();
    let trace = run.folder.path().join("log.pftrace");
    let output = written(&run.folder.path().join("log.csv"), &trace);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (log, all) = (run.log(), decoded(&trace));
    let slices = all["slices"].as_array().unwrap();
    let found =
        slices.iter().map(|s| (s[0].as_str().unwrap().to_owned(), s[1].as_u64().unwrap(), s[2].as_u64().unwrap()));
    assert_eq!(found.collect::<BTreeSet<_>>(), intervals(&log));
    assert_eq!(slices.len(), log.rows.len());
    for row in &log.rows {
        let times = (json!(row.number("startNs")), json!(row.number("endNs")));
        let of_row = slices.iter().filter(|s| s[0] == row.kernel() && (&s[1], &s[2]) == (&times.0, &times.1));
        let track = format!("queue {}", row.text("queue"));
        let shape = format!("{} / {}", row.text("grid"), row.text("workgroup"));
        let delay = row.number("startNs") - row.number("dispatch");
        let is_right = |s: &&Value| {
            let name = s[3].as_str().unwrap();
            let on_track = name == track || name.starts_with(&format!("{track} ("));
            on_track && s[5]["grid / workgroup"] == shape.as_str() && s[5]["doorbell to start (ns)"] == delay
        };
        assert!(of_row.clone().any(|s| is_right(&s)), "{row:?}: {:?}", of_row.collect::<Vec<_>>());
    }
    let counters = all["counters"].as_array().unwrap();
    let most = counters.iter().map(|c| c[2].as_u64().unwrap()).max();
    assert!(most >= Some(1) && counters.last().unwrap()[2] == 0, "{most:?}");
}

#[test]
fn a_run_leaves_a_timeline_of_every_process_and_keeps_no_rows() {
    let run = Run::hip("vectors");
    let trace = run.file("run.json");
    let run = run.probed(&["--trace", trace.to_str().unwrap(), "--stats"]).passed();
    let kernels = crate::support::versions::kernels_of_vectors();
    assert!(run.stderr.contains(&format!("run.json: {kernels} rows on ")), "{}", run.stderr);
    assert!(run.stderr.contains(&format!(": {kernels} dispatches in ")), "{}", run.stderr);
    let all: Value = serde_json::from_str(&fs::read_to_string(&trace).unwrap()).unwrap();
    let slices = all["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X");
    let names: Vec<&str> = slices.map(|e| e["name"].as_str().unwrap()).collect();
    assert!(names.len() as u64 == kernels && names.iter().any(|name| name.starts_with("reduce(")), "{names:?}");
}

#[test]
fn a_timeline_of_nothing_and_one_in_no_known_format_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log.csv");
    fs::write(&log, "kernel,dispatch,startNs,endNs\n\"f\",1,,\n").unwrap();
    let output = written(&log, &folder.path().join("t.pftrace"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(11) && said.contains("no row with times"), "{said}");
    let output = written(&log, &folder.path().join("t.svg"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("ends with .pftrace or .json"), "{said}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
