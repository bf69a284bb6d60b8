//! An analysed dispatch as text.

use logdur_analysis::operations::Group;
use logdur_analysis::roofline::Point;
use logdur_observe::Analysis;
use logdur_observe::peak::Peak;
use logdur_observe::report::{Instruction, LocatedFinding, Report, file_name};

use super::request::Analysed;
use crate::listing::calls;
use crate::output::demangled;

/// Blocks, lines and parts that a summary shows.
const SHOWN: usize = 10;

/// The lines of a summary; with `annotate`, the code behind them.
pub(super) fn text(analysed: &Analysed, annotate: bool) -> Vec<String> {
    let Analysed { dispatch, observed, report, wanted } = analysed;
    let mut all =
        vec![format!("dispatch {dispatch}: {} on {}", demangled(&observed.code.kernel.name), observed.device.product)];
    if let Some((_, place)) = &observed.replaced {
        all.push(format!("  the kernel of {place} in the place of the application's"));
    }
    let (workgroups, total) = report.workgroups;
    if workgroups < total {
        all.push(format!("  {workgroups} of {total} workgroups were observed: totals are of these"));
    }
    all.extend(observed.fault.iter().map(|fault| format!("  ended early: {fault}")));
    all.extend(observed.qualified.iter().map(|why| format!("  qualified: {why}")));
    let worst = report.worst();
    for worst in worst.iter().take(3) {
        all.push(format!("  {}", worst.text));
    }
    if wanted.analyses(Analysis::Mix) {
        all.extend(mix(report));
    }
    all.extend(roofline(report));
    if wanted.analyses(Analysis::Occupancy) {
        all.extend(occupancy(report));
    }
    if wanted.analyses(Analysis::Lines) {
        all.extend(memory(report));
    }
    if wanted.analyses(Analysis::Lds) && report.totals.lds.accesses > 0 {
        let lds = &report.totals.lds;
        all.push(format!(
            "  LDS: {} accesses, {} conflict cycles, {:.2} an access",
            lds.accesses,
            lds.conflicts,
            lds.conflicts as f64 / lds.accesses as f64
        ));
    }
    if wanted.analyses(Analysis::Blocks) {
        all.extend(blocks(report));
    }
    if wanted.analyses(Analysis::Heat) {
        all.extend(heat(report));
    }
    if !wanted.checks.is_empty() {
        all.extend(findings(analysed));
    }
    if annotate {
        all.extend(listing(report));
    }
    all
}

fn mix(report: &Report) -> Vec<String> {
    let totals = &report.totals;
    let groups: Vec<String> = Group::ALL
        .iter()
        .filter_map(|group| Some((group, totals.groups.get(group).filter(|count| **count > 0)?)))
        .map(|(group, count)| format!("{} {}", group.word(), percent(*count, totals.executions)))
        .collect();
    let mut all = vec![format!("  {} wave instructions: {}", totals.executions, groups.join(", "))];
    if totals.vector.1 > 0 {
        all.push(format!("  active lanes of vector instructions: {}", percent(totals.vector.0, 64 * totals.vector.1)));
    }
    if report.elsewhere > 0 {
        all.push(format!("  {} wave instructions in other code objects are not listed", report.elsewhere));
    }
    for (of, flops) in &totals.flops {
        let by =
            |bytes: u64| if bytes == 0 { "–".to_owned() } else { format!("{:.3}", *flops as f64 / bytes as f64) };
        let mut line = format!("  {} {flops} operations", of.word());
        if totals.lines.executions > 0 {
            line += &format!("; {} per byte that lanes ask for", by(totals.lines.asked));
        }
        if let Some(footprint) = totals.footprint {
            line += &format!(", {} per byte of memory that is touched", by(footprint));
        }
        all.push(line);
    }
    all
}

/// The kernel's operations below the published peaks.
pub(super) fn roofline(report: &Report) -> Vec<String> {
    let Some((peaks, points)) = &report.roofline else { return Vec::new() };
    let tera = |value: f64| value / 1e12;
    let line = |point: &Point| {
        let unit = if point.matrix { " of matrix instructions" } else { "" };
        let limit = match point.is_bound_by_memory() {
            true => format!("memory limits to {:.2}", tera(point.roof())),
            false => "memory is no limit".to_owned(),
        };
        format!(
            "  roofline: {}{unit}: {:.3} operations per byte; by the published peaks of {} ({} TFLOP/s, {} TB/s) {limit}",
            point.of.word(),
            point.intensity,
            peaks.product,
            tera(point.peak),
            tera(peaks.bandwidth)
        )
    };
    points.iter().map(line).collect()
}

fn occupancy(report: &Report) -> Vec<String> {
    let Some(occupancy) = &report.occupancy else { return Vec::new() };
    let limited: Vec<&str> = occupancy.limited_by().map(|limit| limit.word()).collect();
    let why = if limited.is_empty() { String::new() } else { format!(", limited by {}", limited.join(" and ")) };
    let mut all = vec![format!("  occupancy: {} of {} waves a SIMD{why}", occupancy.waves, occupancy.most)];
    all.extend(report.peak.as_ref().map(|peak| registers(report, peak)));
    all
}

/// The most live registers, and what would be enough.
fn registers(report: &Report, peak: &Peak) -> String {
    let at = report.instructions.iter().find(|inst| inst.address == peak.vgprs.address);
    let place = at.map_or_else(String::new, |inst| format!(" at {}", inst.place()));
    let accumulation = match peak.agprs.registers {
        0 => String::new(),
        live => format!(" and {live} accumulation registers"),
    };
    let waves = report.occupancy.as_ref().map_or(0, |occupancy| occupancy.waves);
    let enough = match (peak.needed < peak.allocated.vgprs, peak.waves > waves) {
        (false, _) => String::new(),
        (true, false) => format!("; {} vector registers are enough", peak.needed),
        (true, true) => format!("; {} vector registers are enough, and give {} waves", peak.needed, peak.waves),
    };
    format!(
        "  registers: {} vector and {} scalar allocated, at most {} vector{place}{accumulation} and {} scalar live{enough}",
        peak.allocated.vgprs, peak.allocated.sgprs, peak.vgprs.registers, peak.sgprs.registers
    )
}

fn memory(report: &Report) -> Vec<String> {
    let lines = &report.totals.lines;
    if lines.executions == 0 {
        return Vec::new();
    }
    vec![format!(
        "  memory: {} accesses, {} distinct bytes; {} L1 lines where {} are enough, {} L2 lines where {} are enough",
        lines.executions, lines.bytes, lines.l1, lines.l1_least, lines.l2, lines.l2_least
    )]
}

fn blocks(report: &Report) -> Vec<String> {
    let mut executed: Vec<_> = report.blocks.iter().filter(|block| block.executions > 0).collect();
    let never = report.blocks.len() - executed.len();
    executed.sort_by_key(|block| std::cmp::Reverse(block.executions * block.instructions));
    let mut all = vec![format!("  blocks: {} executed, {never} never", executed.len())];
    for block in executed.iter().take(SHOWN) {
        let at = report.instructions.iter().find(|inst| inst.address == block.start);
        // Without a source line, the place is the address.
        let place =
            at.filter(|inst| inst.source.is_some()).map_or_else(String::new, |inst| format!(" {}", inst.place()));
        let empty = if block.empty > 0 { format!(", {} times without a lane", block.empty) } else { String::new() };
        all.push(format!(
            "    {:#x}..{:#x}{place}: {} × {} instructions, {:.0}% of lanes active{empty}",
            block.start,
            block.end,
            block.executions,
            block.instructions,
            100.0 * block.active()
        ));
    }
    all
}

fn heat(report: &Report) -> Vec<String> {
    let mut all = Vec::new();
    for heat in &report.heat {
        let shared = heat.cells.iter().filter(|(_, cell)| cell.is_shared()).count();
        let (reads, writes) = heat.cells.iter().fold((0, 0), |(r, w), (_, cell)| (r + cell.reads, w + cell.writes));
        all.push(format!(
            "  {}: {} of {} parts of {} bytes accessed, {shared} by several workgroups; {reads} reads, {writes} writes",
            heat.region.name,
            heat.cells.len(),
            heat.parts,
            heat.part
        ));
    }
    all
}

fn findings(analysed: &Analysed) -> Vec<String> {
    let report = &analysed.report;
    let checks: Vec<&str> = analysed.wanted.checks.iter().map(|check| check.word()).collect();
    let mut all = match report.findings.len() {
        0 => vec![format!("  checks: nothing found ({})", checks.join(", "))],
        count => vec![format!("  checks: {count} findings ({})", checks.join(", "))],
    };
    if let Some(looked) = report.between.filter(|looked| looked.not_judged > 0) {
        all.push(format!(
            "    race: {} accesses of memory behind atomics or coherent loads were not judged: what these return may order workgroups",
            looked.not_judged
        ));
    }
    if let Some(looked) = report.between.filter(|looked| looked.share > 1) {
        all.push(format!("    race: between workgroups, one of {} pages of memory was looked at", looked.share));
    }
    all.extend(report.findings.iter().flat_map(|found| finding(report, found)));
    if report.dropped > 0 {
        all.push(format!("    and {} more", report.dropped));
    }
    all
}

/// What checks have found in a dispatch, a few lines each.
pub(crate) fn finding_text(report: &Report) -> Vec<String> {
    report.findings.iter().flat_map(|found| finding(report, found)).collect()
}

/// The place of an instruction; of inlined code, that of each call, the innermost first.
pub(super) fn place(inst: &Instruction) -> String {
    calls(&inst.frames).unwrap_or_else(|| inst.place())
}

fn finding(report: &Report, found: &LocatedFinding) -> Vec<String> {
    let inst = |at: Option<usize>, pc: u64| match at.and_then(|at| report.instructions.get(at)) {
        Some(inst) => format!("{}: {}", place(inst), inst.text),
        None => format!("{pc:#x}"),
    };
    let finding = &found.finding;
    let [x, y, z] = finding.place.workgroup;
    let lane = |lane: Option<u8>| lane.map_or_else(String::new, |lane| format!(", lane {lane}"));
    let mut all = vec![
        format!("    {}: {}", found.key.check.word(), found.key.what),
        format!("      {}", inst(found.at, found.key.pc)),
    ];
    let named = found.named.clone().or_else(|| finding.address.map(|address| format!("{address:#x}")));
    let detail: Vec<String> = named.into_iter().chain(Some(finding.detail.clone())).filter(|d| !d.is_empty()).collect();
    all.push(format!(
        "      {} times; first in workgroup {x},{y},{z}, wave {}{}{}",
        finding.count,
        finding.place.wave,
        lane(finding.place.lane),
        if detail.is_empty() { String::new() } else { format!(": {}", detail.join(", ")) }
    ));
    if let Some(other) = &finding.other {
        let place = format!("wave {}{}: {}", other.wave, lane(other.lane), inst(found.other, other.pc));
        all.push(match other.workgroup {
            None => format!("      after {place}"),
            Some([x, y, z]) => format!("      and workgroup {x},{y},{z}, {place}"),
        });
    }
    all
}

/// The code with counts in the margin, source lines above their instructions.
fn listing(report: &Report) -> Vec<String> {
    let mut all = vec![format!("  {:>12} {:>6} {:>9} {:>9}", "executions", "lanes", "L2 lines", "conflicts")];
    let (mut function, mut source) = (None, None);
    for inst in &report.instructions {
        if function != Some(&inst.function) {
            all.push(format!(
                "  {}:",
                inst.function.as_deref().map_or_else(|| "between functions".to_owned(), demangled)
            ));
            function = Some(&inst.function);
            source = None;
        }
        if let Some(label) = inst.label {
            all.push(format!("  L{label}:"));
        }
        let here = inst.source.as_ref().map(|source| (&source.file, source.line, place(inst)));
        if let Some(of) = inst.source.as_ref().filter(|_| here != source) {
            all.push(format!("  {:>40}; {}:{} {}", "", file_name(&of.file), of.line, of.shown()));
            if inst.frames.len() > 1 {
                all.push(format!("  {:>40}; {}", "", place(inst)));
            }
            source = here;
        }
        all.push(format!("  {} {:#08x}  {}", margin(inst), inst.address, inst.text));
    }
    all
}

/// The counts of an instruction; dots where there is nothing.
fn margin(inst: &Instruction) -> String {
    let count = &inst.count;
    let number =
        |value: Option<u64>| value.filter(|v| *v > 0).map_or_else(|| "·".to_owned(), |value| value.to_string());
    let lanes = if count.executions == 0 { "·".to_owned() } else { percent(count.lanes, 64 * count.executions) };
    format!(
        "{:>12} {lanes:>6} {:>9} {:>9}",
        number(Some(count.executions)),
        number(inst.lines.map(|lines| lines.l2)),
        number(inst.lds.map(|lds| lds.conflicts))
    )
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_owned() } else { format!("{:.1}%", 100.0 * part as f64 / whole as f64) }
}
