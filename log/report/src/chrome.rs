//! A timeline as Chrome's trace events in JSON. Source: "Trace Event Format", google.github.io/trace-viewer.

use std::io::{self, Write};

use serde_json::json;

use crate::rows::Kind;
use crate::timeline::{Timeline, Track};

/// Writes the timeline. Times are microseconds, with three digits behind the point. A process is a GPU or
/// a process of a log, a thread a track.
///
/// # Errors
/// When it cannot be written.
pub fn write(timeline: &Timeline, tracks: &[Track], to: &mut impl Write) -> io::Result<()> {
    to.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
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
                Kind::Dispatch => ("kernel", json!({ "shape": shape, "replaced": slice.replaced, "delayNs": delay })),
                Kind::Copy { bytes } => ("copy", json!({ "bytes": bytes, "delayNs": delay })),
                Kind::Range { .. } => ("range", json!({})),
                Kind::Mark { .. } => ("mark", json!({})),
            };
            let mut event = json!({
                "ph": "X", "pid": process, "tid": thread, "ts": micros(start), "dur": micros(end - start),
                "name": timeline.kernels.get(slice.kernel as usize), "cat": category, "args": arguments,
            });
            if matches!(slice.kind, Kind::Mark { .. }) {
                // An instant event of its thread.
                (event["ph"], event["s"]) = ("i".into(), "t".into());
            }
            put(event)?;
        }
    }
    to.write_all(b"\n]}\n")
}
