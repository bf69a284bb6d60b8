//! A profiler's trace of an application, as PyTorch's profiler (Kineto) writes it, with the rows of logs added to it.
//!
//! Source of the format: "Trace Event Format", google.github.io/trace-viewer, and what Kineto writes: `ts` and `dur` are microseconds, since
//! `baseTimeNanoseconds` where that is there, else since 1970; a call that launches kernels is an event of the category `cuda_runtime` or
//! `cuda_driver` whose arguments have a `correlation`; an arrow from it to a kernel is a flow `ac2g` with this number.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::rows::Kind;
use crate::timeline::{Slice, Timeline, Track};

/// Times before this many microseconds since 1970 are of another clock: it is the year 2001.
const SINCE_1970: f64 = 1e15;
/// How well the clocks of a trace and of a log agree, in nanoseconds.
const CLOCKS_NS: u64 = 5000;
/// What processes of rows are called begins so.
const OWN: &str = "logdur: ";

/// Why a trace cannot be added to.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It is compressed.
    #[error("expected JSON, found a file that gzip compressed: gunzip it first")]
    Compressed,
    /// It is no trace.
    #[error("expected a trace of Chrome's format, an object with `traceEvents`, found: {0}")]
    NoTrace(#[from] serde_json::Error),
    /// Its times cannot be compared with those of a log.
    #[error(
        "expected `baseTimeNanoseconds`, or times since 1970, as PyTorch's profiler writes them, found times that begin at {0} us: \
         when that was is not known"
    )]
    OtherClock(f64),
    /// It has no event with a time.
    #[error("expected events with times, found none")]
    NoTimes,
    /// It has rows.
    #[error("expected a trace without rows of a log, found process {0:?}")]
    HasRows(String),
}

/// A trace as it was read.
pub struct Profile<'p> {
    /// Everything but the events.
    rest: Map<String, Value>,
    events: Vec<&'p RawValue>,
    /// The time of `ts: 0`, in nanoseconds since 1970.
    base: i128,
    /// Calls that launch kernels, by their starts.
    launches: Vec<Launch>,
    /// Of each launch, the last end of it and all before.
    ends: Vec<u64>,
    /// Numbers of their threads.
    tids: BTreeSet<u64>,
    /// Numbers of processes.
    pids: BTreeSet<u64>,
    has_kernels: bool,
}

/// A call that launches kernels.
#[derive(Debug)]
struct Launch {
    start: u64,
    end: u64,
    ts: f64,
    pid: Value,
    tid: Value,
    correlation: u64,
    external: Option<u64>,
}

/// What was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Rows.
    pub rows: u64,
    /// Dispatches among them.
    pub dispatches: u64,
    /// Dispatches with an arrow from the call that launched them.
    pub linked: u64,
}

/// The members of an event that matter here.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(default)]
    ph: &'a str,
    #[serde(default, borrow)]
    cat: Option<&'a RawValue>,
    #[serde(default, borrow)]
    name: Option<&'a RawValue>,
    ts: Option<f64>,
    dur: Option<f64>,
    #[serde(default)]
    pid: Value,
    #[serde(default)]
    tid: Value,
    #[serde(default, borrow)]
    args: Option<&'a RawValue>,
}

/// The arguments of a launch, or of what names a process.
#[derive(Default, Deserialize)]
struct Arguments {
    correlation: Option<u64>,
    #[serde(rename = "External id")]
    external: Option<u64>,
    name: Option<String>,
}

fn text(raw: Option<&RawValue>) -> &str {
    raw.map_or("", |raw| raw.get().trim_matches('"'))
}

impl<'p> Profile<'p> {
    /// Of the bytes of a file.
    ///
    /// # Errors
    /// When it is no trace, or its clock is not known.
    pub fn of(bytes: &'p [u8]) -> Result<Profile<'p>, ProfileError> {
        if bytes.starts_with(&[0x1f, 0x8b]) {
            return Err(ProfileError::Compressed);
        }
        let (events, rest) = members(bytes)?;
        let base = rest.get("baseTimeNanoseconds").and_then(Value::as_u64);
        let mut profile = Profile {
            rest,
            events,
            base: base.unwrap_or(0).into(),
            launches: Vec::new(),
            ends: Vec::new(),
            tids: BTreeSet::new(),
            pids: BTreeSet::new(),
            has_kernels: false,
        };
        let mut first = f64::INFINITY;
        for raw in &profile.events {
            let event: Event<'_> = serde_json::from_str(raw.get())?;
            let arguments = || -> Arguments {
                event.args.and_then(|args| serde_json::from_str(args.get()).ok()).unwrap_or_default()
            };
            if event.ph == "M" {
                let name = if text(event.name) == "process_name" { arguments().name } else { None };
                if let Some(name) = name.filter(|name| name.starts_with(OWN)) {
                    return Err(ProfileError::HasRows(name));
                }
                continue;
            }
            let Some(ts) = event.ts else { continue };
            first = first.min(ts);
            let category = text(event.cat);
            profile.has_kernels |= category == "kernel";
            // Numbers of GPUs are no processes.
            if !matches!(category, "kernel" | "gpu_memcpy" | "gpu_memset" | "gpu_user_annotation") {
                profile.pids.extend(event.pid.as_u64());
            }
            if event.ph != "X" || !matches!(category, "cuda_runtime" | "cuda_driver") {
                continue;
            }
            let Arguments { correlation: Some(correlation), external, .. } = arguments() else { continue };
            let (start, end) = (profile.wall(ts), profile.wall(ts + event.dur.unwrap_or(0.0)));
            let launch = Launch { start, end, ts, pid: event.pid, tid: event.tid, correlation, external };
            profile.tids.extend(launch.tid.as_u64());
            profile.launches.push(launch);
        }
        match base {
            None if first == f64::INFINITY => return Err(ProfileError::NoTimes),
            None if first < SINCE_1970 => return Err(ProfileError::OtherClock(first)),
            _ => {}
        }
        profile.launches.sort_by_key(|launch| launch.start);
        let last = |end: &mut u64, launch: &Launch| {
            *end = launch.end.max(*end);
            Some(*end)
        };
        profile.ends = profile.launches.iter().scan(0, last).collect();
        Ok(profile)
    }

    /// Numbers of the processes that it is of.
    pub fn pids(&self) -> &BTreeSet<u64> {
        &self.pids
    }

    fn wall(&self, ts: f64) -> u64 {
        u64::try_from(self.base + (ts * 1000.0).round() as i128).unwrap_or(0)
    }

    fn ts(&self, wall: u64) -> f64 {
        (i128::from(wall) - self.base) as f64 / 1000.0
    }

    /// The call in which a doorbell was rung. By a thread that is known it is the innermost one, which may have ended a little
    /// before, since the doorbell is rung at its end and clocks are compared. Else none, if several threads were in one.
    fn launch(&self, dispatch: u64, thread: Option<u64>) -> Option<&Launch> {
        // A trace may number threads as it likes.
        let thread = thread.filter(|tid| self.tids.contains(tid));
        let mut at = self.launches.partition_point(|launch| launch.start <= dispatch);
        let earliest = dispatch.saturating_sub(if thread.is_some() { CLOCKS_NS } else { 0 });
        let mut found = None;
        while let Some(before) = at.checked_sub(1).filter(|before| self.ends[*before] >= earliest) {
            at = before;
            let launch = &self.launches[at];
            if launch.end < earliest {
                continue;
            }
            if thread.is_none() {
                if found.replace(launch).is_some() {
                    return None;
                }
            } else if launch.tid.as_u64() == thread {
                return Some(launch);
            }
        }
        found
    }

    /// Writes the trace with the rows of a timeline, whose times are nanoseconds since 1970: a process for each GPU, a thread for each
    /// track. The category of a dispatch is `kernel` if the trace has no kernels of its own.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, timeline: &Timeline, tracks: &[Track], to: &mut impl Write) -> io::Result<Added> {
        to.write_all(b"{\n")?;
        for (name, value) in &self.rest {
            writeln!(to, "{}: {value},", Value::from(name.as_str()))?;
        }
        to.write_all(b"\"traceEvents\": [\n")?;
        for (n, event) in self.events.iter().enumerate() {
            write!(to, "{}{}", if n == 0 { "" } else { ",\n" }, event.get())?;
        }
        let mut is_first = self.events.is_empty();
        let mut put = |event: Value| write!(to, "{}{event}", if std::mem::take(&mut is_first) { "" } else { ",\n" });
        let mut added = Added::default();
        let mut process = String::new();
        for (thread, track) in tracks.iter().enumerate() {
            let owner = format!("{OWN}{}", timeline.owner_name(track));
            if owner != process {
                process.clone_from(&owner);
                put(json!({"ph": "M", "pid": owner, "name": "process_name", "args": {"name": owner}}))?;
            }
            put(
                json!({"ph": "M", "pid": owner, "tid": thread, "name": "thread_name", "args": {"name": track.name()}}),
            )?;
            for slice in &track.slices {
                self.put(timeline, slice, (&owner, thread), &mut added, &mut put)?;
            }
        }
        to.write_all(b"\n]}\n")?;
        Ok(added)
    }

    fn put(
        &self,
        timeline: &Timeline,
        slice: &Slice,
        (pid, tid): (&str, usize),
        added: &mut Added,
        put: &mut impl FnMut(Value) -> io::Result<()>,
    ) -> io::Result<()> {
        let (start, end) = slice.times;
        let mut arguments = Map::new();
        let shape = timeline.shapes.get(slice.shape as usize).filter(|shape| !shape.is_empty());
        arguments.extend(shape.map(|shape| ("shape".to_owned(), shape.as_str().into())));
        arguments.extend(slice.dispatch.map(|dispatch| ("delayNs".to_owned(), (start - dispatch).into())));
        let category = match slice.kind {
            Kind::Dispatch if self.has_kernels => "logdur",
            Kind::Dispatch => "kernel",
            Kind::Copy { bytes } => {
                arguments.insert("bytes".to_owned(), bytes.into());
                if self.has_kernels { "logdur" } else { "gpu_memcpy" }
            }
            Kind::Range | Kind::Mark => "user_annotation",
        };
        let launch =
            slice.dispatch.filter(|_| slice.kind == Kind::Dispatch).and_then(|time| self.launch(time, slice.thread));
        if let Some(launch) = launch {
            arguments.insert("correlation".to_owned(), launch.correlation.into());
            arguments.extend(launch.external.map(|id| ("External id".to_owned(), id.into())));
        }
        let (ts, name) = (self.ts(start), timeline.kernels.get(slice.kernel as usize));
        put(json!({
            "ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": (end - start) as f64 / 1000.0,
            "args": arguments,
        }))?;
        added.rows += 1;
        added.dispatches += u64::from(slice.kind == Kind::Dispatch);
        if let Some(launch) = launch {
            // Its own numbers: the trace may have arrows of these launches to kernels of its own.
            let (id, flow) = (format!("logdur {}", added.linked), "logdur");
            added.linked += 1;
            let Launch { ts: from, pid: of, tid: thread, .. } = launch;
            put(json!({"ph": "s", "id": id, "cat": flow, "name": flow, "pid": of, "tid": thread, "ts": from}))?;
            put(json!({"ph": "f", "bp": "e", "id": id, "cat": flow, "name": flow, "pid": pid, "tid": tid, "ts": ts}))?;
        }
        Ok(())
    }
}

/// The events of a trace, as they are written, and its other members.
fn members(bytes: &[u8]) -> Result<(Vec<&RawValue>, Map<String, Value>), serde_json::Error> {
    let mut members: BTreeMap<String, &RawValue> = serde_json::from_slice(bytes)?;
    let missing = || serde::de::Error::missing_field("traceEvents");
    let events = members.remove("traceEvents").ok_or_else(missing)?;
    let rest = members.into_iter().map(|(name, raw)| Ok((name, serde_json::from_str(raw.get())?)));
    Ok((serde_json::from_str(events.get())?, rest.collect::<Result<_, serde_json::Error>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doorbell_belongs_to_the_innermost_call_of_its_thread_or_to_the_one_that_has_just_ended() {
        let call = |tid: u64, ts: u64, dur: u64, correlation: u64| {
            json!({"ph": "X", "cat": "cuda_runtime", "pid": 1, "tid": tid, "ts": ts, "dur": dur,
                "args": {"correlation": correlation}})
        };
        let events = [call(7, 100, 50, 1), call(7, 110, 20, 2), call(8, 100, 200, 3), call(7, 400, 10, 4)];
        let trace = json!({"baseTimeNanoseconds": 1_000_000, "traceEvents": events}).to_string();
        let profile = Profile::of(trace.as_bytes()).unwrap();
        let of = |microseconds: u64, thread: Option<u64>| {
            profile.launch(1_000_000 + microseconds * 1000, thread).map(|launch| launch.correlation)
        };
        assert_eq!([105, 120, 140].map(|at| of(at, Some(7))), [Some(1), Some(2), Some(1)]);
        assert_eq!([154, 156, 399, 414, 416].map(|at| of(at, Some(7))), [Some(1), None, None, Some(4), None]);
        assert_eq!([105, 250].map(|at| of(at, Some(8))), [Some(3), Some(3)]);
        // Without a thread, and with one that the trace numbers otherwise.
        for thread in [None, Some(9)] {
            assert_eq!([99, 105, 250, 405, 414].map(|at| of(at, thread)), [None, None, Some(3), Some(4), None]);
        }
    }
}
