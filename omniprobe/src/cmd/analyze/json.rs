//! An analysed dispatch as a JSON object.

use logdur_analysis::blocks::Block;
use logdur_analysis::operations::Group;
use logdur_observe::counts::Count;
use logdur_observe::finding::Position;
use logdur_observe::lds::Lds;
use logdur_observe::lines::Lines;
use logdur_observe::peak::{Most, Peak};
use logdur_observe::report::{Instruction, LocatedFinding, RegionHeat, Report, Source};
use logdur_observe::{Analysis, Wanted};
use omniprobe_exit::Exit;
use serde_json::{Map, Value, json};

use super::request::Analysed;
use crate::listing::frames;

/// The object of a dispatch.
pub(super) fn object(analysed: &Analysed, end: Exit) -> Value {
    let Analysed { dispatch, observed, report, wanted } = analysed;
    let (workgroups, total) = report.workgroups;
    let mut object = json!({
        "dispatch": dispatch,
        "kernel": observed.code.kernel.name,
        "code": observed.code.id.to_string(),
        "replaced": observed.replaced.as_ref().map(|(_, place)| place),
        "device": observed.device.product,
        "processor": report.processor,
        "workgroups": workgroups,
        "workgroups_total": total,
        "status": end.word(),
        "qualified": observed.qualified,
        "fault": observed.fault.as_ref().map(ToString::to_string),
        "host_ns": observed.host_ns,
        "totals": totals(report, wanted),
        "instructions": report.instructions.iter().filter(|inst| is_told(inst)).map(instruction).collect::<Vec<_>>(),
        "lines": report.lines.iter().map(|line| {
            let mut object = json!({ "source": source(Some(&line.source)) });
            merge(&mut object, counts(wanted, &line.count));
            merge(&mut object, accesses(line.lines.as_ref(), line.lds.as_ref()));
            object
        }).collect::<Vec<_>>(),
        "findings": report.findings.iter().map(|found| finding(report, found)).collect::<Vec<_>>(),
        "findings_dropped": report.dropped,
    });
    if let Some(looked) = &report.between {
        object["race"] = json!({ "not_judged": looked.not_judged, "pages_for_one_looked_at": looked.share });
    }
    if wanted.analyses(Analysis::Blocks) {
        object["blocks"] = blocks(report);
    }
    if wanted.analyses(Analysis::Heat) {
        object["heat"] = heat(report);
    }
    if let Some((peaks, points)) = &report.roofline {
        object["roofline"] = json!({
            "published_peaks_of": peaks.product, "bytes_per_second": peaks.bandwidth,
            "points": points.iter().map(|point| json!({
                "type": point.of.word(), "matrix": point.matrix, "operations_per_byte": point.intensity,
                "peak": point.peak, "ridge": point.ridge, "roof": point.roof(),
            })).collect::<Vec<_>>(),
        });
    }
    if let Some(occupancy) = report.occupancy.as_ref().filter(|_| wanted.analyses(Analysis::Occupancy)) {
        object["occupancy"] = json!({
            "waves": occupancy.waves, "most": occupancy.most,
            "limits": occupancy.limits.iter().map(|(limit, waves)| json!({ "resource": limit.word(), "waves": waves })).collect::<Vec<_>>(),
        });
        if let Some(peak) = &report.peak {
            object["occupancy"]["registers"] = registers(peak);
        }
    }
    object
}

fn blocks(report: &Report) -> Value {
    let block = |block: &Block| {
        json!({
            "start": block.start, "end": block.end, "instructions": block.instructions, "executions": block.executions,
            "lanes": block.lanes, "empty": block.empty, "active": block.active(),
            "edges": block.edges.iter().map(|(to, count)| json!({ "to": to, "count": count })).collect::<Vec<_>>(),
        })
    };
    report.blocks.iter().map(block).collect()
}

fn heat(report: &Report) -> Value {
    let heat = |heat: &RegionHeat| {
        json!({
            "buffer": heat.region.name, "address": heat.region.range.start,
            "bytes": heat.region.range.end - heat.region.range.start, "part": heat.part, "parts": heat.parts,
            "accessed": heat.cells.iter().map(|(offset, cell)| json!({
                "offset": offset, "reads": cell.reads, "writes": cell.writes,
                "first_workgroup": cell.first, "last_workgroup": cell.last,
            })).collect::<Vec<_>>(),
        })
    };
    report.heat.iter().map(heat).collect()
}

fn registers(peak: &Peak) -> Value {
    let most = |most: &Most| json!({ "live": most.registers, "address": (most.registers > 0).then_some(most.address) });
    json!({
        "vgprs": most(&peak.vgprs), "agprs": most(&peak.agprs), "sgprs": most(&peak.sgprs),
        "allocated_vgprs": peak.allocated.vgprs, "allocated_sgprs": peak.allocated.sgprs,
        "enough_vgprs": peak.needed, "waves_with_enough": peak.waves,
    })
}

fn merge(object: &mut Value, more: Value) {
    if let (Value::Object(object), Value::Object(more)) = (object, more) {
        object.extend(more);
    }
}

fn is_told(inst: &Instruction) -> bool {
    inst.count.executions > 0 || inst.lines.is_some() || inst.lds.is_some()
}

fn totals(report: &Report, wanted: &Wanted) -> Value {
    let totals = &report.totals;
    let mut object = json!({});
    if wanted.analyses(Analysis::Mix) || wanted.analyses(Analysis::Blocks) {
        let groups =
            Group::ALL.iter().filter_map(|group| Some((group.word().to_owned(), json!(totals.groups.get(group)?))));
        let flops = totals.flops.iter().map(|(of, flops)| (of.word().to_owned(), json!(flops)));
        merge(
            &mut object,
            json!({
                "instructions": totals.executions,
                "vector_lanes": totals.vector.0,
                "vector_instructions": totals.vector.1,
                "groups": groups.collect::<Map<_, _>>(),
                "flops": flops.collect::<Map<_, _>>(),
                "footprint_bytes": totals.footprint,
            }),
        );
    }
    let lines = (totals.lines.executions > 0).then_some(&totals.lines);
    let lds = (totals.lds.accesses > 0).then_some(&totals.lds);
    merge(&mut object, accesses(lines, lds));
    object
}

fn source(source: Option<&Source>) -> Value {
    source.map_or(Value::Null, |source| json!({ "file": source.file, "line": source.line, "text": source.text.as_ref().map(|_| source.shown()) }))
}

fn counts(wanted: &Wanted, count: &Count) -> Value {
    if !wanted.analyses(Analysis::Mix) && !wanted.analyses(Analysis::Blocks) {
        return json!({});
    }
    json!({ "executions": count.executions, "lanes": count.lanes, "empty": count.empty })
}

fn accesses(lines: Option<&Lines>, lds: Option<&Lds>) -> Value {
    let mut object = json!({});
    if let Some(lines) = lines {
        object["memory"] = json!({
            "executions": lines.executions, "scratch": lines.scratch, "lanes": lines.lanes, "asked_bytes": lines.asked,
            "bytes": lines.bytes, "l1_lines": lines.l1, "l1_least": lines.l1_least, "l2_lines": lines.l2, "l2_least": lines.l2_least,
        });
    }
    if let Some(lds) = lds {
        object["lds"] = json!({
            "accesses": lds.accesses, "lanes": lds.lanes, "bytes": lds.bytes, "conflicts": lds.conflicts, "worst": lds.worst,
        });
    }
    object
}

fn instruction(inst: &Instruction) -> Value {
    let mut object = json!({
        "address": inst.address, "text": inst.text, "function": inst.function, "source": source(inst.source.as_ref()),
        "column": column(inst), "frames": frames(&inst.frames),
        "group": inst.group.word(), "executions": inst.count.executions, "lanes": inst.count.lanes,
        "empty": inst.count.empty, "taken": inst.count.taken,
    });
    if let Some((of, flops)) = inst.flops {
        object["flops"] = json!({ of.word(): flops });
    }
    merge(&mut object, accesses(inst.lines.as_ref(), inst.lds.as_ref()));
    object
}

fn column(inst: &Instruction) -> Option<u64> {
    Some(inst.column).filter(|column| *column > 0)
}

fn place(place: &Position) -> Value {
    json!({ "workgroup": place.workgroup, "wave": place.wave, "lane": place.lane })
}

fn finding(report: &Report, found: &LocatedFinding) -> Value {
    let inst = |at: Option<usize>| at.and_then(|at| report.instructions.get(at));
    let about = |inst: Option<&Instruction>, pc: u64| match inst {
        Some(inst) => json!({
            "address": inst.address, "text": inst.text, "source": source(inst.source.as_ref()), "column": column(inst),
            "frames": frames(&inst.frames),
        }),
        None => json!({ "pc": pc }),
    };
    let finding = &found.finding;
    json!({
        "check": found.key.check.word(),
        "what": found.key.what,
        "detail": finding.detail,
        "instruction": about(inst(found.at), found.key.pc),
        "place": place(&finding.place),
        "address": finding.address,
        "memory": found.named,
        "other": finding.other.map(|other| json!({
            "instruction": about(inst(found.other), other.pc), "workgroup": other.workgroup, "wave": other.wave,
            "lane": other.lane,
        })),
        "count": finding.count,
    })
}
