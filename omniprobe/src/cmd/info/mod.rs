//! `omniprobe info`: what is in a capture.

mod region;

use anyhow::Result;
use clap::Args;
use logdur_capture::{Dispatch, End, Placed, Reader};
use logdur_captured::region::Region;
use logdur_captured::{CapturedDispatch, lacks, packet, symbol};
use logdur_system::text;
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use crate::captured::{self, Captured, ending};
use crate::headings;
use crate::output::{demangled, lines};
use crate::region::RegionArgs;

/// What is shown.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    captured: Captured,
    #[command(flatten)]
    region: RegionArgs,
    /// Print one JSON object.
    #[arg(long, help_heading = headings::GENERAL)]
    json: bool,
    /// Print one JSON object with a row for each kernel and geometry, as the report of LLVM's record and replay has them.
    #[arg(long, conflicts_with = "json", help_heading = headings::GENERAL)]
    llvm: bool,
}

/// Says what is in a capture.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let reader = options.captured.open()?;
    if let Some(region) = options.region.of(&reader)? {
        options.captured.last_of_region()?;
        match options.json {
            true => lines([region::as_json(&reader, &region)?.to_string()])?,
            false => lines(region::text(&reader, &region)?)?,
        }
        return Ok(options.captured.status(&reader, Exit::Success));
    }
    // A capture without dispatches has a session all the same.
    let has_none = reader.dispatches().is_empty();
    let dispatches = if has_none { Vec::new() } else { options.captured.dispatches(&reader)? };
    let rows = rows(&reader, dispatches);
    if options.llvm {
        lines([as_records(&reader, &rows).to_string()])?;
    } else if options.json {
        lines([as_json(&reader, &rows).to_string()])?;
    } else {
        lines(as_text(&reader, &rows))?;
    }
    Ok(options.captured.status(&reader, met(&rows)))
}

/// Everything that is in a capture, as `--json` prints it, and the status of damage.
pub(crate) fn described(reader: &Reader) -> (Value, Exit) {
    let rows = rows(reader, reader.dispatches());
    (as_json(reader, &rows), captured::damage(reader).unwrap_or(met(&rows)))
}

/// The status of damage that only the dispatches have met.
fn met(rows: &[Row<'_>]) -> Exit {
    if rows.iter().any(|row| row.is_damaged) { Exit::Corrupt } else { Exit::Success }
}

fn rows<'r>(reader: &'r Reader, dispatches: impl IntoIterator<Item = &'r Placed<Dispatch>>) -> Vec<Row<'r>> {
    dispatches.into_iter().map(|dispatch| Row::of(reader, dispatch)).collect()
}

/// A dispatch, as it is shown.
struct Row<'r> {
    dispatch: &'r Dispatch,
    kernel: String,
    geometry: String,
    /// Bytes that were captured before the kernel.
    bytes: u64,
    /// What the capture does not have of it.
    lacks: Vec<String>,
    obstacles: Vec<String>,
    qualified: Vec<String>,
    /// True if what it refers to is damaged.
    is_damaged: bool,
}

impl<'r> Row<'r> {
    fn of(reader: &'r Reader, dispatch: &'r Placed<Dispatch>) -> Row<'r> {
        let kernel = demangled(symbol(reader, dispatch));
        let (mut obstacles, mut qualified) = (Vec::new(), Vec::new());
        let mut is_damaged = false;
        match CapturedDispatch::of(reader, dispatch) {
            Ok(captured) => (obstacles, qualified) = (captured.obstacles(), captured.qualified()),
            Err(error) => {
                is_damaged = Exit::from(&error) == Exit::Corrupt;
                obstacles.push(format!("{:#}", anyhow::Error::from(error)));
            }
        }
        // What the dispatch has is shown, also if other parts are missing.
        let shape = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
        let packet = packet(dispatch);
        let geometry = format!("{} by {}", shape(packet.grid_size()), shape(packet.workgroup_size().map(u32::from)));
        let before = dispatch.before.and_then(|before| reader.snapshot(before).ok());
        let bytes = before.map_or(0, |before| before.ranges().iter().map(|range| range.end - range.start).sum());
        Row { lacks: lacks(reader, dispatch), dispatch, kernel, geometry, bytes, obstacles, qualified, is_damaged }
    }

    /// True when the capture has all that a replay needs.
    fn is_complete(&self) -> bool {
        self.lacks.is_empty() && self.dispatch.before.is_some()
    }

    /// `None` for one that has no times, as one that did not end.
    fn duration_ns(&self) -> Option<u64> {
        let Dispatch { start_ns, end_ns, .. } = *self.dispatch;
        Some(end_ns.saturating_sub(start_ns)).filter(|_| start_ns != 0 && end_ns != 0)
    }
}

fn as_text(reader: &Reader, rows: &[Row<'_>]) -> Vec<String> {
    let records = reader.records();
    let (major, minor) = reader.header().version;
    let mut all = vec![format!("format {}.{}, {}", major, minor, ending(reader.end()))];
    for s in reader.sessions() {
        let said = format!("process {} on {}: {} {}", s.pid, s.host, s.exe, s.arguments.join(" "));
        all.push(text::escaped(said.trim_end()));
        all.push(format!("captured by {}, runtime {}", s.tool_version, s.runtime_version));
    }
    for a in records.agents.iter().filter(|a| !a.isa.is_empty()) {
        all.push(format!("agent {}: {} {}{}", a.id, a.isa, a.product, if a.emulated { " [emulated]" } else { "" }));
        if !a.bdf.is_empty() {
            let node = a.driver_node.map_or_else(String::new, |node| format!(", node {node} of the driver"));
            let visible = if a.visible.is_empty() { String::new() } else { format!(", with {}", a.visible) };
            let said = format!("    {}, bus {}, partition {}{node}{visible}", a.uuid, a.bdf, a.partition);
            all.push(text::escaped(&said));
        }
    }
    for c in &records.code_objects {
        all.push(format!("code object {}: {} bytes, {} {}", c.id, c.size, c.isa, c.uri).trim_end().to_owned());
    }
    for row in rows {
        let d = row.dispatch;
        let held = if d.held_ns == 0 { String::new() } else { format!(" (held for {} ns)", d.held_ns) };
        all.push(format!(
            "dispatch {}: {}, occurrence {}, grid {}, {}{held}, scope {}, {} bytes before{}",
            d.id,
            row.kernel,
            d.occurrence,
            row.geometry,
            row.duration_ns().map_or_else(|| "no times".to_owned(), |ns| format!("{ns} ns")),
            d.scope,
            row.bytes,
            match d.after {
                Some(_) => " and after",
                None if reader.is_unended(d) => ", did not end while it was captured",
                None => ", nothing after",
            },
        ));
        if let Some(replaced) = d.replaced {
            all.push(format!("    ran {} in the place of {replaced}", d.code_object));
        }
        all.extend(row.obstacles.iter().map(|text| format!("    cannot be replayed: {text}")));
        let is_said = |text: &&String| row.obstacles.iter().chain(&row.qualified).any(|said| said.ends_with(*text));
        let more = row.lacks.iter().filter(|text| !is_said(text));
        all.extend(more.map(|text| format!("    lacks: {text}")));
        all.extend(row.qualified.iter().map(|text| format!("    qualified: {text}")));
    }
    let complete = rows.iter().filter(|row| row.is_complete()).count();
    let lost = reader.lost_dispatches();
    if !reader.problems().is_empty() {
        all.push(format!(
            "damaged in {} places; the records of {lost} dispatches cannot be read",
            reader.problems().len()
        ));
    }
    let (count, regions) = (rows.len() as u64 + lost, Region::numbers(reader));
    all.push(if count == 0 && !regions.is_empty() {
        "no dispatch was captured alone".to_owned()
    } else {
        format!("{complete} of {count} dispatches have all that a replay needs")
    });
    for number in regions {
        all.push(match Region::of(reader, Some(number)) {
            Ok(region) => region::headline(&region),
            Err(error) => format!("region {number} cannot be replayed: {error}"),
        });
    }
    for note in reader.notes() {
        let about = note.dispatch.map_or_else(String::new, |d| format!(" (dispatch {d})"));
        all.push(format!("note {} {}{about}: {}", note.severity, note.code, note.text));
    }
    all
}

/// A row for each kernel with one grid, workgroup and LDS, in the order of the first of its dispatches, which names it and has its time.
/// Source: LLVM's `offload/plugins-nextgen/common/src/RecordReplay.cpp`, where these make an instance of a kernel, and whose report has a
/// name, the kernel, its time and how often it was met.
fn as_records(reader: &Reader, rows: &[Row<'_>]) -> Value {
    let key = |row: &Row<'_>| {
        let packet = packet(row.dispatch);
        (symbol(reader, row.dispatch), packet.grid_size(), packet.workgroup_size(), packet.group_segment_size())
    };
    let mut instances: Vec<(&Row<'_>, u64)> = Vec::new();
    for row in rows {
        match instances.iter_mut().find(|(first, _)| key(first) == key(row)) {
            Some((_, occurrences)) => *occurrences += 1,
            None => instances.push((row, 1)),
        }
    }
    let instance = |(first, occurrences): &(&Row<'_>, u64)| {
        json!({
            "name": format!("dispatch-{}", first.dispatch.id), "kernel": symbol(reader, first.dispatch),
            "time_ns": first.duration_ns(), "occurrences": occurrences,
        })
    };
    json!({ "total_instances": instances.len(), "instances": instances.iter().map(instance).collect::<Vec<_>>() })
}

fn as_json(reader: &Reader, rows: &[Row<'_>]) -> Value {
    let records = reader.records();
    let dispatches: Vec<Value> = rows
        .iter()
        .map(|row| {
            let d = row.dispatch;
            json!({
                "dispatch": d.id, "kernel": row.kernel, "occurrence": d.occurrence, "geometry": row.geometry,
                "duration_ns": row.duration_ns(), "held_ns": d.held_ns, "scope": d.scope.to_string(), "bytes": row.bytes,
                "after": d.after.is_some(), "ended": !reader.is_unended(d), "code_object": d.code_object.to_string(),
                "replaced": d.replaced.map(|id| id.to_string()),
                "complete": row.is_complete(), "lacks": row.lacks, "obstacles": row.obstacles,
                "qualified": row.qualified,
                // Its name in the first releases, which versions promise to keep.
                "weaknesses": row.qualified,
            })
        })
        .collect();
    let notes: Vec<Value> = reader
        .notes()
        .iter()
        .map(|n| json!({ "severity": n.severity.to_string(), "code": n.code, "text": n.text, "dispatch": n.dispatch }))
        .collect();
    let sessions: Vec<Value> = reader
        .sessions()
        .iter()
        .map(|s| json!({ "pid": s.pid, "host": s.host, "exe": s.exe, "arguments": s.arguments }))
        .collect();
    let agents: Vec<Value> = records
        .agents
        .iter()
        .map(|a| {
            json!({
                "id": a.id, "isa": a.isa, "product": a.product, "emulated": a.emulated, "uuid": a.uuid, "bdf": a.bdf,
                "partition": a.partition, "driver_node": a.driver_node, "visible": a.visible,
            })
        })
        .collect();
    let code: Vec<Value> = records
        .code_objects
        .iter()
        .map(|c| json!({ "id": c.id.to_string(), "size": c.size, "isa": c.isa, "uri": c.uri }))
        .collect();
    json!({
        "format": reader.header().version,
        "finished": *reader.end() == End::Finished,
        "problems": reader.problems().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "lost_dispatches": reader.lost_dispatches(),
        "regions": Region::numbers(reader), "sessions": sessions, "agents": agents, "code_objects": code, "dispatches": dispatches, "notes": notes,
    })
}
