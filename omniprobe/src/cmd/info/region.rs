//! The regions of a capture, and the steps of one as a table.

use anyhow::Result;
use logdur_capture::{Evidence, Placed, Reader, Step, StepKind};
use logdur_captured::region::Region;
use logdur_captured::{packet, symbol};
use serde_json::{Value, json};

use crate::output::demangled;
use crate::region::{brought_json, decided};

/// A step, as it is shown.
struct Row<'r> {
    step: &'r Placed<Step>,
    what: String,
    grid: String,
    /// Bytes that are written before it.
    delta: u64,
    evidence: &'static str,
}

fn evidence(step: &Step) -> &'static str {
    match step.evidence {
        _ if step.delta.is_none() => "-",
        Evidence::Idle => "idle",
        Evidence::Page => "page",
        Evidence::Either => "either",
        Evidence::Other(_) => "not known",
    }
}

fn rows<'r>(reader: &'r Reader, region: &Region<'r>) -> Result<Vec<Row<'r>>> {
    let mut rows = Vec::new();
    for step in &region.steps {
        let mut grid = "-".to_owned();
        let what = match (step.kind, &step.dispatch) {
            (StepKind::Dispatch, Some(dispatch)) => {
                let shape = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
                let packet = packet(dispatch);
                grid = format!("{} by {}", shape(packet.grid_size()), shape(packet.workgroup_size().map(u32::from)));
                format!("dispatch {} {}", dispatch.id, demangled(symbol(reader, dispatch)))
            }
            (StepKind::Copy, _) if step.bytes == 0 => match step.evidence {
                Evidence::Either => "changed while the dispatch before it ran, by it or by the host".to_owned(),
                _ => "changed by the host".to_owned(),
            },
            (StepKind::Copy, _) => format!("copy of {} bytes from {:#x} to {:#x}", step.bytes, step.from, step.to),
            (StepKind::Fill, _) => {
                format!("fill of {} bytes at {:#x} with {:#x}", step.bytes, step.to, step.value.value)
            }
            (StepKind::Barrier, _) => "barrier".to_owned(),
            (StepKind::Vendor | StepKind::Dispatch | StepKind::Other(_), _) => "vendor's packet".to_owned(),
        };
        let delta = step.delta.map(|delta| reader.snapshot(delta)).transpose()?;
        let ranges = delta.map_or_else(Vec::new, |delta| delta.ranges());
        let delta = ranges.iter().map(|range| range.end - range.start).sum();
        rows.push(Row { step, what, grid, delta, evidence: evidence(step) });
    }
    Ok(rows)
}

/// How a region is, in a line.
pub(super) fn headline(region: &Region<'_>) -> String {
    let record = region.record;
    let dispatches = region.dispatches().count();
    let ends = match region.end {
        None => "no end".to_owned(),
        Some(end) if end.is_complete => "complete".to_owned(),
        Some(end) => format!("not complete: {}", end.reason),
    };
    let after = if region.whole().reference.is_some() { "with" } else { "without" };
    format!(
        "region {}: {}, scope {}, {} steps, {dispatches} dispatches, {} checkpoints, {ends}, {after} the memory at its end",
        record.id,
        record.trigger,
        record.scope,
        region.count(),
        region.checkpoints.len()
    )
}

/// The lines for people.
pub(super) fn text(reader: &Reader, region: &Region<'_>) -> Result<Vec<String>> {
    let mut all = vec![headline(region)];
    all.push(format!("{:>6} {:>6} {:>12} {:>9}  {:<28} what", "step", "queue", "delta", "evidence", "grid"));
    let brought = region.brought();
    for row in rows(reader, region)? {
        let Row { step, what, grid, delta, evidence } = row;
        let more = brought.iter().filter(|(at, _)| *at == step.sequence);
        all.extend(
            more.map(|(_, bytes)| {
                format!("{:>6} host: {bytes} bytes of GPUs were copied to it before it rang for:", "")
            }),
        );
        all.push(format!("{:>6} {:>6} {delta:>12} {evidence:>9}  {grid:<28} {what}", step.sequence, step.queue));
        if region.checkpoints.iter().any(|checkpoint| checkpoint.sequence == step.sequence) {
            all.push(format!("{:>6} checkpoint", ""));
        }
    }
    all.extend(decided(&brought));
    all.extend(region.qualified().into_iter().map(|why| format!("qualified: {why}")));
    Ok(all)
}

/// An object for programs.
pub(super) fn as_json(reader: &Reader, region: &Region<'_>) -> Result<Value> {
    let step = |row: Row<'_>| {
        json!({
            "step": row.step.sequence, "what": row.what, "grid": row.grid, "delta_bytes": row.delta,
            "evidence": row.evidence, "queue": row.step.queue, "index": row.step.index,
            "dispatch": row.step.dispatch.as_ref().map(|dispatch| dispatch.id), "held_ns": row.step.held_ns, "ranges": row.step.ranges,
        })
    };
    let steps: Vec<Value> = rows(reader, region)?.into_iter().map(step).collect();
    let checkpoints: Vec<u64> = region.checkpoints.iter().map(|checkpoint| checkpoint.sequence).collect();
    Ok(json!({
        "region": region.record.id, "trigger": region.record.trigger, "scope": region.record.scope.to_string(),
        "steps": steps, "checkpoints": checkpoints, "ended": region.end.is_some(),
        "complete": region.end.is_some_and(|end| end.is_complete),
        "reason": region.end.map(|end| end.reason.clone()),
        "brought_to_host": brought_json(&region.brought()),
        "reference": region.whole().reference.is_some(), "qualified": region.qualified(),
    }))
}
