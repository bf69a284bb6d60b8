//! Any bytes as a profiler's trace: it is refused, or written again with all of its events before those of a log.

#![no_main]

use libfuzzer_sys::fuzz_target;
use logdur_report::Log;
use logdur_report::profile::Profile;
use logdur_report::timeline::Timeline;
use logdur_report::wall::to_wall;
use serde_json::Value;

const LOG: &str = "kernel,dispatch,startNs,endNs,pid\n# clocks: systemNs=1 wallNs=1700000000000000001\n\"f\",1,2,3,7\n";

fuzz_target!(|bytes: &[u8]| {
    let Ok(profile) = Profile::of(bytes) else { return };
    let mut timeline = Timeline::default();
    timeline.read("fuzzed", &mut Log::new(LOG.as_bytes())).expect("a log");
    let mut tracks = timeline.tracks();
    to_wall(&mut tracks, &timeline.logs, &timeline.clocks).expect("it has clocks");
    let mut written = Vec::new();
    let added = profile.write(&timeline, &tracks, &mut written).expect("memory can be written");
    assert_eq!((added.rows, added.dispatches), (1, 1));
    // Numbers that are no doubles are kept as they are written, and cannot be read.
    let (Ok(old), Ok(new)) = (serde_json::from_slice::<Value>(bytes), serde_json::from_slice::<Value>(&written)) else {
        return;
    };
    let [old, new] = [&old, &new].map(|all| all["traceEvents"].as_array().expect("events"));
    assert!(new.starts_with(old) && new.len() >= old.len() + 3);
});
