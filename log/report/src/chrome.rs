//! A timeline as Chrome's trace events in JSON. Source: "Trace Event Format", google.github.io/trace-viewer.

use std::io::{self, Write};

use serde_json::json;

use crate::rows::Kind;
use crate::timeline::{Timeline, Track};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Writes the timeline. Times are microseconds, with three digits behind the point. If they are `wall` times, they are since
/// `baseTimeNanoseconds`, which is since 1970: a double has no room for all of it. A process is a GPU or a process of a log, a thread a
/// track.
///
/// # Errors
/// When it cannot be written.
pub fn write(timeline: &Timeline, tracks: &[Track], wall: bool, to: &mut impl Write) -> io::Result<()> {
    let starts = tracks.iter().filter_map(|track| track.slices.first());
    let first = starts.map(|slice| slice.dispatch.unwrap_or(slice.times.0)).min().filter(|_| wall);
    let base = first.unwrap_or(0) / SECOND * SECOND;
    let of_base = if wall { format!("\"baseTimeNanoseconds\":{base},") } else { String::new() };
    writeln!(to, "{{\"displayTimeUnit\":\"ns\",{of_base}\"traceEvents\":[")?;
    let mut first = true;
    let mut put = |event: serde_json::Value| {
        let separator = if std::mem::take(&mut first) { "" } else { ",\n" };
        write!(to, "{separator}{event}")
    };
    let micros = |ns: u64| ns as f64 / 1000.0;
    let mut process = 0;
    for (thread, track) in tracks.iter().enumerate() {
        let before = thread.checked_sub(1).and_then(|before| tracks.get(before));
        if before.is_none_or(|before| !before.is_beside(track)) {
            process += 1;
            let name = timeline.owner_name(track);
            put(json!({ "ph": "M", "pid": process, "name": "process_name", "args": { "name": name } }))?;
        }
        let name = track.name();
        put(json!({ "ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": { "name": name } }))?;
        for slice in &track.slices {
            let (start, end) = slice.times;
            let delay = slice.dispatch.map(|dispatch| start - dispatch);
            let shape = timeline.shapes.get(slice.shape as usize).filter(|shape| !shape.is_empty());
            let (category, arguments) = match slice.kind {
                Kind::Dispatch => {
                    let replaced = slice.replaced;
                    ("kernel", json!({ "shape": shape, "replaced": replaced, "delayNs": delay, "tid": slice.thread }))
                }
                Kind::Copy { bytes } => ("copy", json!({ "bytes": bytes, "delayNs": delay, "tid": slice.thread })),
                Kind::Range => ("range", json!({})),
                Kind::Mark => ("mark", json!({})),
            };
            let mut event = json!({
                "ph": "X", "pid": process, "tid": thread, "ts": micros(start - base), "dur": micros(end - start),
                "name": timeline.kernels.get(slice.kernel as usize), "cat": category, "args": arguments,
            });
            if slice.kind == Kind::Mark {
                // An instant event of its thread.
                (event["ph"], event["s"]) = ("i".into(), "t".into());
            }
            put(event)?;
        }
    }
    to.write_all(b"\n]}\n")
}
