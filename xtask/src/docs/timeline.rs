//! The picture of a run: an SVG with a bar for each row of a log, a lane for each queue.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result, bail};
use logdur_system::text::html;
use serde_json::Value;

use crate::shell::root;

/// The log that the picture is drawn from: rows of JSON, as `omniprobe -t json` writes them.
pub(super) const LOG: &str = "docs/example/pipeline.jsonl";
/// The commands that wrote the log, in a folder with the sources of `docs/example`.
const COMMANDS: &[&str] = &[
    "hipcc --offload-arch=gfx90a -O3 pipeline.hip -o pipeline",
    "hipcc --cuda-device-only --no-gpu-bundle-output -c --offload-arch=gfx90a -O3 -DFASTER pipeline.hip -o faster/smooth.hsaco",
    "omniprobe --emulate gfx90a -t json -l log -c faster -k smooth --cache-mode alternate -- ./pipeline",
    "grep startNs log > pipeline.jsonl",
];

/// Colours that are told apart without seeing red and green (Okabe and Ito).
const COLOURS: &[&str] = &["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];
/// Sizes in pixels.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 34.0;
const LANE: f64 = 40.0;
const BAR: f64 = 28.0;
const BELOW: f64 = 74.0;

/// One row of the log.
struct Row {
    kernel: String,
    start: u64,
    end: u64,
    lane: (u64, u64),
    replaced: bool,
}

impl Row {
    /// `None` for lines that are not rows: notices and the account.
    fn parse(line: &str) -> Result<Option<Row>> {
        let value: Value = serde_json::from_str(line).with_context(|| format!("expected an object, found {line:?}"))?;
        let Some(kernel) = value["kernel"].as_str() else { return Ok(None) };
        let number = |name: &str| value[name].as_u64().with_context(|| format!("expected {name} in {line:?}"));
        let replaced = value["replaced"].as_str().is_some_and(|hash| !hash.is_empty());
        let (start, end, lane) = (number("startNs")?, number("endNs")?, (number("agent")?, number("queue")?));
        Ok(Some(Row { kernel: kernel.to_owned(), start, end, lane, replaced }))
    }
}

/// The picture of the log of the documents.
///
/// # Errors
/// When the log cannot be read.
pub(super) fn picture() -> Result<String> {
    let text = fs::read_to_string(root().join(LOG)).context(LOG)?;
    draw(&text).context(LOG)
}

/// The picture of a log.
fn draw(log: &str) -> Result<String> {
    let rows: Vec<Row> = log.lines().filter_map(|line| Row::parse(line).transpose()).collect::<Result<_>>()?;
    let (Some(first), Some(last)) = (rows.iter().map(|r| r.start).min(), rows.iter().map(|r| r.end).max()) else {
        bail!("expected rows, found none");
    };
    let span = last.saturating_sub(first).max(1) as f64;
    let scale = (WIDTH - LEFT - RIGHT) / span;
    let kernels: BTreeSet<&str> = rows.iter().map(|r| r.kernel.as_str()).collect();
    let lanes: BTreeSet<(u64, u64)> = rows.iter().map(|r| r.lane).collect();
    let bottom = TOP + LANE * lanes.len() as f64;
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>{} dispatches of {} kernels in {} queues</title>\n\
         <desc>Drawn by `cargo xtask docs` from {LOG}, which these commands made: {}.</desc>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>",
        bottom + BELOW,
        rows.len(),
        kernels.len(),
        lanes.len(),
        html(&COMMANDS.join("; ")),
    );
    axis(&mut svg, span, bottom);
    for (place, (agent, queue)) in lanes.iter().enumerate() {
        let middle = TOP + LANE * (place as f64 + 0.5) + 4.0;
        let name = if lanes.iter().any(|lane| lane.0 != *agent) {
            format!("GPU {agent}, {queue}")
        } else {
            format!("queue {queue}")
        };
        let _ = writeln!(svg, "<text x=\"{:.1}\" y=\"{middle:.1}\" text-anchor=\"end\">{name}</text>", LEFT - 12.0);
    }
    for row in &rows {
        let place = lanes.iter().position(|lane| *lane == row.lane).unwrap_or_default() as f64;
        let x = LEFT + row.start.saturating_sub(first) as f64 * scale;
        let width = (row.end.saturating_sub(row.start) as f64 * scale).max(1.0);
        let y = TOP + LANE * place + (LANE - BAR) / 2.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" {}><title>{}: {} ns</title></rect>",
            style(&kernels, row),
            html(&row.kernel),
            row.end.saturating_sub(row.start),
        );
    }
    legend(&mut svg, &rows, &kernels, bottom + 44.0);
    svg += "</svg>\n";
    Ok(svg)
}

/// The colour of a kernel; a replacement has a dark outline.
fn style(kernels: &BTreeSet<&str>, row: &Row) -> String {
    let place = kernels.iter().position(|kernel| *kernel == row.kernel).unwrap_or_default();
    let outline = if row.replaced { " stroke=\"#000000\" stroke-width=\"2\"" } else { "" };
    format!("fill=\"{}\"{outline}", COLOURS[place % COLOURS.len()])
}

/// Times below the lanes: 4 to 10 marks at round numbers of milliseconds.
fn axis(svg: &mut String, span: f64, bottom: f64) {
    let milliseconds = span / 1e6;
    let magnitude = 10f64.powf((milliseconds / 4.0).log10().floor());
    let step =
        [5.0, 2.0, 1.0].iter().map(|n| n * magnitude).find(|step| milliseconds / step >= 4.0).unwrap_or(magnitude);
    // Rounded, so that no mark is named 0.30000000000000004.
    let marks = (0..=10).map(|n| (f64::from(n) * step * 1e6).round() / 1e6);
    for at in marks.take_while(|at| *at <= milliseconds) {
        let x = LEFT + at / milliseconds * (WIDTH - LEFT - RIGHT);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#dddddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555555\">{at} ms</text>",
            bottom + 16.0
        );
    }
}

/// Each kernel's colour with its number of dispatches and their median.
fn legend(svg: &mut String, rows: &[Row], kernels: &BTreeSet<&str>, y: f64) {
    let _ = writeln!(svg, "<text x=\"{LEFT}\" y=\"20\" font-weight=\"bold\">Each bar is one row of the log</text>");
    let mut x = LEFT;
    for kernel in kernels {
        for replaced in [false, true] {
            let of: Vec<&Row> = rows.iter().filter(|row| row.kernel == *kernel && row.replaced == replaced).collect();
            let Some(one) = of.first() else { continue };
            let mut durations: Vec<u64> = of.iter().map(|row| row.end.saturating_sub(row.start)).collect();
            durations.sort_unstable();
            let median = durations[durations.len() / 2] as f64 / 1e6;
            let what = if replaced { ", swapped" } else { "" };
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{:.1}\" width=\"14\" height=\"14\" {}/>\
                 <text x=\"{}\" y=\"{:.1}\">{}{what}</text>\
                 <text x=\"{}\" y=\"{:.1}\" fill=\"#555555\">{} dispatches, median {median:.1} ms</text>",
                y - 12.0,
                style(kernels, one),
                x + 20.0,
                y,
                html(kernel),
                x + 20.0,
                y + 17.0,
                of.len(),
            );
            x += 215.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_bar_of_its_length_in_the_lane_of_its_queue() {
        let row = |kernel: &str, start: u64, end: u64, queue: u64, replaced: &str| {
            format!(
                "{{\"kernel\":\"{kernel}\",\"startNs\":{start},\"endNs\":{end},\"agent\":0,\"queue\":{queue},\"replaced\":\"{replaced}\"}}\n"
            )
        };
        let log = row("a<b>", 1000, 2000, 1, "") + "{\"notice\":\"x\"}\n" + &row("c", 2000, 11000, 2, "1234");
        let svg = draw(&log).expect("two rows");
        assert!(svg.contains("<title>2 dispatches of 2 kernels in 2 queues</title>"), "{svg}");
        assert!(svg.contains("x=\"90.0\" y=\"40.0\" width=\"85.0\"") && svg.contains("a&lt;b&gt;: 1000 ns"), "{svg}");
        assert!(svg.contains("x=\"175.0\" y=\"80.0\" width=\"765.0\"") && svg.contains("stroke=\"#000000\""), "{svg}");
        assert!(draw("{\"notice\":\"x\"}\n").is_err() && draw("kernel,dispatch\n").is_err());
    }
}
