//! Analysed dispatches as one page of HTML that needs nothing else: summaries, code with heat colours, pictures of the buffers.

use std::fmt::Write as _;

use logdur_observe::Analysis;
use logdur_observe::report::{Instruction, RegionHeat, Report, file_name};
use logdur_system::text::html;

use super::request::Analysed;
use super::show;
use crate::output::demangled;

/// Columns of the picture of a buffer.
const COLUMNS: u64 = 256;

const HEAD: &str = "<!DOCTYPE html>
<html lang=\"en\"><meta charset=\"utf-8\"><title>omniprobe analyze</title>
<style>
body { font: 14px sans-serif; margin: 2em; max-width: 100em }
pre, td { font: 12px monospace; white-space: pre-wrap }
table { border-collapse: collapse }
th { text-align: left; padding-right: 1em }
td { padding: 0 1em 0 0 }
td.n { text-align: right }
tr.source td { color: #555; padding-top: .5em }
svg { display: block; border: 1px solid #999; margin: .2em 0 1em }
</style>
";

/// The page.
pub(super) fn page(all: &[Analysed]) -> String {
    let mut page = HEAD.to_owned();
    for analysed in all {
        let Analysed { dispatch, observed, report, wanted } = analysed;
        // Writing to a string cannot fail.
        let _ = writeln!(page, "<h1>{}, dispatch {dispatch}</h1>", html(&demangled(&observed.code.kernel.name)));
        let _ = writeln!(page, "<pre>{}</pre>", html(&show::text(analysed, false).join("\n")));
        if wanted.analyses(Analysis::Heat) {
            report.heat.iter().for_each(|heat| picture(&mut page, heat));
        }
        roofline(&mut page, report);
        code(&mut page, report);
    }
    page
}

/// A colour from white to red, on a logarithmic scale: where the share of the hottest is small, it can still be told from none.
fn colour(value: u64, most: u64) -> String {
    if value == 0 || most == 0 {
        return "#fff".to_owned();
    }
    let part = ((value as f64).ln_1p() / (most as f64).ln_1p()).clamp(0.0, 1.0);
    let rest = (235.0 * (1.0 - part)) as u8;
    format!("#ff{rest:02x}{rest:02x}")
}

/// A buffer as a strip: its bytes from left to right, redder where more accesses go.
fn picture(page: &mut String, heat: &RegionHeat) {
    let bytes = heat.region.range.end - heat.region.range.start;
    let mut columns = [0u64; COLUMNS as usize];
    for (offset, cell) in &heat.cells {
        let column = u128::from(*offset) * u128::from(COLUMNS) / u128::from(bytes.max(1));
        if let Some(column) = columns.get_mut(column as usize) {
            *column += cell.reads + cell.writes;
        }
    }
    let most = columns.iter().copied().max().unwrap_or_default();
    let _ = writeln!(page, "<div>{}: {bytes} bytes</div><svg width=\"1024\" height=\"24\">", html(&heat.region.name));
    for (n, value) in columns.iter().enumerate().filter(|(_, value)| **value > 0) {
        let _ = writeln!(
            page,
            "<rect x=\"{}\" width=\"4\" height=\"24\" fill=\"{}\"><title>{value} accesses from byte {:#x} on</title></rect>",
            4 * n,
            colour(*value, most),
            n as u64 * bytes / COLUMNS
        );
    }
    page.push_str("</svg>\n");
}

/// Octaves of operations per byte that are drawn, from the first to the last.
const OCTAVES: (f64, f64) = (-6.0, 12.0);
/// Octaves of operations in a second below the highest peak.
const DEPTH: f64 = 16.0;

/// The roofs of the published peaks, and the kernel's points, on logarithmic scales.
fn roofline(page: &mut String, report: &Report) {
    let Some((peaks, points)) = &report.roofline else { return };
    let highest = points.iter().map(|point| point.peak).fold(0.0, f64::max);
    let x =
        |intensity: f64| 640.0 * (intensity.log2().clamp(OCTAVES.0, OCTAVES.1) - OCTAVES.0) / (OCTAVES.1 - OCTAVES.0);
    let y = |operations: f64| 10.0 + 220.0 * ((highest / operations).log2() / DEPTH).clamp(0.0, 1.0);
    let tera = |value: f64| value / 1e12;
    let _ = writeln!(
        page,
        "<div>roofline by the published peaks of {} ({} TB/s): operations in a second over operations per byte, both logarithmic</div>\
         <svg class=\"roof\" width=\"640\" height=\"240\">",
        html(peaks.product),
        tera(peaks.bandwidth)
    );
    for point in points {
        let (left, right) = (OCTAVES.0.exp2(), OCTAVES.1.exp2());
        let corners = [(left, left * peaks.bandwidth), (point.ridge, point.peak), (right, point.peak)];
        let corners: Vec<String> =
            corners.iter().map(|(at, operations)| format!("{:.1},{:.1}", x(*at), y(*operations))).collect();
        let name = format!("{}{}", point.of.word(), if point.matrix { ", matrix instructions" } else { "" });
        let _ = writeln!(
            page,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"#36c\"><title>{name}: {} TFLOP/s</title></polyline>\
             <circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"5\" fill=\"#c33\"><title>{name}: {:.3} operations per byte</title></circle>",
            corners.join(" "),
            tera(point.peak),
            x(point.intensity),
            y(point.roof()),
            point.intensity
        );
    }
    page.push_str("</svg>\n");
}

/// What an instruction costs beyond what it had to: lines and conflict cycles.
fn waste(inst: &Instruction) -> u64 {
    let lines = inst.lines.map_or(0, |lines| lines.l1 - lines.l1_least.min(lines.l1));
    lines + inst.lds.map_or(0, |lds| lds.conflicts)
}

/// The code: executions coloured by how many, lines and conflicts by what they waste.
fn code(page: &mut String, report: &Report) {
    let most = report.instructions.iter().map(|inst| inst.count.executions).max().unwrap_or_default();
    let worst = report.instructions.iter().map(waste).max().unwrap_or_default();
    page.push_str(
        "<table><tr><th>executions</th><th>lanes</th><th>L1 lines</th><th>least</th><th>conflicts</th><th>address</th><th></th></tr>\n",
    );
    let mut last = None;
    for inst in &report.instructions {
        let here = inst.source.as_ref().map(|of| (&of.file, of.line, show::place(inst)));
        if let Some(of) = inst.source.as_ref().filter(|_| here != last) {
            let _ = writeln!(
                page,
                "<tr class=\"source\"><td colspan=\"6\"></td><td>{}:{} {}</td></tr>",
                html(file_name(&of.file)),
                of.line,
                html(of.shown())
            );
            if inst.frames.len() > 1 {
                let calls = html(&show::place(inst));
                let _ = writeln!(page, "<tr class=\"source\"><td colspan=\"6\"></td><td>{calls}</td></tr>");
            }
        }
        last = here;
        let number = |value: Option<u64>| value.filter(|v| *v > 0).map_or_else(String::new, |value| value.to_string());
        let lanes = match inst.count.executions {
            0 => String::new(),
            executions => format!("{:.0}%", 100.0 * inst.count.lanes as f64 / (64 * executions) as f64),
        };
        let hot = colour(waste(inst), worst);
        let label = inst.label.map_or_else(String::new, |label| format!("L{label}: "));
        let _ = writeln!(
            page,
            "<tr><td class=\"n\" style=\"background:{}\">{}</td><td class=\"n\">{lanes}</td>\
             <td class=\"n\" style=\"background:{hot}\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\" style=\"background:{hot}\">{}</td><td>{:#x}</td><td>{label}{}</td></tr>",
            colour(inst.count.executions, most),
            number(Some(inst.count.executions)),
            number(inst.lines.map(|lines| lines.l1)),
            number(inst.lines.map(|lines| lines.l1_least)),
            number(inst.lds.map(|lds| lds.conflicts)),
            inst.address,
            html(&inst.text)
        );
    }
    page.push_str("</table>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_grow_with_the_value() {
        assert_eq!((colour(0, 9), colour(9, 9)), ("#fff".to_owned(), "#ff0000".to_owned()));
        assert_ne!(colour(1, 1000), colour(0, 1000));
    }
}
