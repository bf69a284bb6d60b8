//! How totals are shown: a table that fits the terminal, one JSON object, or comma-separated values.

use std::io::{self, IsTerminal};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};
use logdur_report::against::Change;
use logdur_report::rows::{Process, UNKNOWN, size_text};
use logdur_report::short::all_shortened;
use logdur_report::summary::{By, CopyGroup, GpuTime, Group, MOST_SHAPES, RangeGroup, Shape, Totals};
use serde_json::json;

use super::Shown;
use super::stacks::Stacks;
use crate::output::lines;

/// Columns that a name has at least.
const SHORTEST_NAME: usize = 24;

/// Prints totals as the options say.
///
/// # Errors
/// When standard output cannot be written.
pub(super) fn totals(totals: &mut Totals, shown: &Shown) -> Result<()> {
    shown.arrange(&mut totals.groups);
    let stacks = Stacks::of(&totals.groups);
    if shown.json {
        return lines([serde_json::to_string(&stacks.in_json(totals)?).context("the summary as JSON")?]);
    }
    if shown.csv {
        return lines(csv(&totals.groups, shown.by.into(), &stacks));
    }
    let width = if shown.full_names { usize::MAX } else { width(&io::stdout()) };
    lines(table(totals, shown.by.into(), width))
}

/// The columns of a terminal. Anything else, like a file or a pipe, has room for all.
pub(crate) fn width(to: &(impl IsTerminal + AsRawFd)) -> usize {
    let mut size = MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: the kernel writes a `winsize`, which the pointer has room for, or fails.
    let result = unsafe { libc::ioctl(to.as_raw_fd(), libc::TIOCGWINSZ, size.as_mut_ptr()) };
    // SAFETY: all zeroes is a value of the struct, should the call have failed.
    let columns = unsafe { size.assume_init() }.ws_col;
    if result == 0 && columns > 0 && to.is_terminal() { columns.into() } else { usize::MAX }
}

/// The table of groups, then a line for each GPU.
pub(super) fn table(totals: &Totals, by: By, width: usize) -> Vec<String> {
    let is_replaced = totals.groups.iter().any(|group| group.replaced > 0);
    let mut header = vec![
        Title("total", 0),
        Title("share", 0),
        Title("calls", 0),
        Title("mean", 3),
        Title("median", 1),
        Title("min", 5),
        Title("max", 4),
        Title("p95", 6),
        Title("stddev", 7),
    ];
    header.extend(is_replaced.then_some(Title("replaced", 2)));
    header.push(if by == By::Shape { Title("grid / workgroup", 0) } else { Title("shapes", 8) });
    let row = |group: &Group| {
        let d = &group.durations;
        let mut cells = vec![time(d.total_ns as f64), format!("{:.1}%", 100.0 * group.share), group.calls.to_string()];
        let times = [d.mean_ns, d.median_ns, d.min_ns as f64, d.max_ns as f64, d.p95_ns as f64];
        cells.extend(times.map(|ns| if d.timed == 0 { "-".to_owned() } else { time(ns) }));
        cells.push(if d.timed < 2 { "-".to_owned() } else { time(d.stddev_ns) });
        cells.extend(is_replaced.then(|| group.replaced.to_string()));
        cells.push(shapes(&group.shapes, by));
        cells
    };
    let rows: Vec<Vec<String>> = totals.groups.iter().map(row).collect();
    let stacks = Stacks::of(&totals.groups);
    let process = |group: &Group| Process { rank: group.rank, pid: group.pid };
    let are_shared = totals.groups.iter().any(|group| totals.groups.first().map(process) != Some(process(group)));
    let names = totals.groups.iter().map(|group| match by {
        By::Queue if are_shared => format!("{} {}", process(group).name(), named(group, by)),
        By::Site if are_shared => format!("{} {}", process(group).name(), stacks.named(group)),
        By::Site => stacks.named(group),
        _ => named(group, by),
    });
    let what = match by {
        By::Kernel | By::Shape => "kernel",
        By::Queue => "queue",
        By::Gpu => "gpu",
        By::Process => "process",
        By::Rank => "rank",
        By::Site => "kernel <- where it is launched from",
        By::Log => "log",
    };
    let mut all = aligned(&header, &rows, what, names, width);
    if !totals.gpus.is_empty() {
        all.push(String::new());
    }
    let are_several = totals.gpus.len() > 1;
    all.extend(totals.gpus.iter().map(|time| gpu(time, are_several)));
    all.extend(totals.copies.iter().map(copies));
    all.extend(totals.ranges.iter().take(MOST_RANGES).map(range));
    let others = totals.ranges.len().saturating_sub(MOST_RANGES);
    all.extend((others > 0).then(|| format!("{others} other names of ranges: --json shows all")));
    all
}

/// Names of ranges that a table shows.
const MOST_RANGES: usize = 10;

/// Ranges of one name in a line.
fn range(ranges: &RangeGroup) -> String {
    let d = &ranges.durations;
    let [total, mean, longest] = [d.total_ns as f64, d.mean_ns, d.max_ns as f64].map(time);
    format!("range {}: {} calls in {total}, mean {mean}, longest {longest}", ranges.name, ranges.calls)
}

/// Copies from somewhere to somewhere in a line.
fn copies(copies: &CopyGroup) -> String {
    let d = &copies.durations;
    let [median, longest] = [d.median_ns, d.max_ns as f64].map(time);
    format!(
        "{}: {} copies of {} in {}, {}/s, median {median}, longest {longest}",
        copies.name,
        copies.calls,
        size(copies.bytes as f64),
        time(d.total_ns as f64),
        size(copies.bytes_per_second),
    )
}

/// Bytes in three digits of the unit that people would choose.
fn size(bytes: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let step = units.iter().scan(bytes, |left, unit| {
        let here = (*left, *unit);
        *left /= 1024.0;
        Some(here)
    });
    let (value, unit) = step.into_iter().find(|(value, _)| *value < 1000.0).unwrap_or((bytes / 1024f64.powi(4), "TiB"));
    let digits = match value {
        _ if unit == "B" => 0,
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

fn named(group: &Group, by: By) -> String {
    match (by, group.agent, group.queue) {
        (By::Queue, Some(agent), Some(queue)) => format!("gpu {agent} queue {queue}"),
        (By::Gpu, Some(agent), _) => format!("gpu {agent}"),
        (By::Process | By::Rank, ..) => Process { rank: group.rank, pid: group.pid }.name(),
        _ => group.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| "(unknown)".to_owned()),
    }
}

fn shapes(shapes: &[Shape], by: By) -> String {
    match shapes {
        [] => UNKNOWN.to_owned(),
        [(grid, workgroup)] => format!("{}/{}", size_text(*grid), size_text(*workgroup)),
        _ if by == By::Shape => String::new(),
        several if several.len() >= MOST_SHAPES => format!("{MOST_SHAPES}+"),
        several => several.len().to_string(),
    }
}

/// A column's title, and how soon it is left out where there is no room: the greatest first, and 0 never.
pub(crate) struct Title(pub(crate) &'static str, pub(crate) u8);

/// Right-aligned columns, and a name at the end that has the rest of the width. What has no room is left out, and named.
pub(crate) fn aligned(
    header: &[Title],
    rows: &[Vec<String>],
    what: &str,
    names: impl Iterator<Item = String>,
    width: usize,
) -> Vec<String> {
    let columns = |at: usize, title: &str| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([title.len()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = header.iter().enumerate().map(|(at, Title(title, _))| columns(at, title)).collect();
    let mut shown: Vec<usize> = (0..header.len()).collect();
    let taken = |shown: &[usize]| shown.iter().map(|at| widths[*at] + 2).sum::<usize>();
    let mut left_out: Vec<&str> = Vec::new();
    while taken(&shown).saturating_add(SHORTEST_NAME) > width
        && let Some(at) = (0..shown.len()).max_by_key(|at| header[shown[*at]].1).filter(|at| header[shown[*at]].1 > 0)
    {
        left_out.push(header[shown.remove(at)].0);
    }
    let left = width.saturating_sub(taken(&shown)).max(SHORTEST_NAME);
    let line = |cells: &[&str], name: &str| {
        let cells =
            shown.iter().map(|at| format!("{:>1$}  ", cells.get(*at).copied().unwrap_or_default(), widths[*at]));
        cells.collect::<String>() + name
    };
    let titles: Vec<&str> = header.iter().map(|title| title.0).collect();
    let mut all = vec![line(&titles, what)];
    let names = all_shortened(&names.collect::<Vec<String>>(), left);
    let of_row = |(row, name): (&Vec<String>, String)| line(&row.iter().map(String::as_str).collect::<Vec<_>>(), &name);
    all.extend(rows.iter().zip(names).map(of_row));
    if !left_out.is_empty() {
        all.push(format!("(no room for {}; omniprobe summary --full-names shows all)", left_out.join(", ")));
    }
    all
}

/// A GPU's time in a line. Its place on the bus tells it from others of its kind.
fn gpu(gpu: &GpuTime, are_several: bool) -> String {
    let place = if are_several { gpu.bdf.as_str() } else { "" };
    let about: Vec<&str> = [gpu.name.as_str(), place].into_iter().filter(|text| !text.is_empty()).collect();
    let name = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    if gpu.calls == 0 {
        return format!("gpu {}{name}: no dispatches", gpu.agent);
    }
    let part = if gpu.span_ns == 0 { 0.0 } else { 100.0 * gpu.busy_ns as f64 / gpu.span_ns as f64 };
    let mut text = format!(
        "gpu {}{name}: {} dispatches in {}, busy {} ({part:.1}%), idle {} in {} gaps (longest {})",
        gpu.agent,
        gpu.calls,
        time(gpu.span_ns as f64),
        time(gpu.busy_ns as f64),
        time(gpu.idle_ns as f64),
        gpu.gaps,
        time(gpu.longest_gap_ns as f64),
    );
    text += &format!(", concurrency {:.2}", gpu.concurrency);
    if let (Some(median), Some(p95)) = (gpu.delay_median_ns, gpu.delay_p95_ns) {
        text += &format!(", doorbell to start: median {}, p95 {}", time(median), time(p95 as f64));
    }
    text
}

/// Nanoseconds in three digits of the unit that people would choose.
pub(crate) fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ..1e3 => return format!("{ns:.0} ns"),
        ..1e6 => (ns / 1e3, "µs"),
        ..1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = match value {
        ..10.0 => 2,
        ..100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// rocprofv3's columns of `kernel_stats.csv`, then ours.
fn csv(groups: &[Group], by: By, stacks: &Stacks) -> Vec<String> {
    let titles = [
        "Name",
        "Calls",
        "TotalDurationNs",
        "AverageNs",
        "Percentage",
        "MinNs",
        "MaxNs",
        "StdDev",
        "MedianNs",
        "P95Ns",
        "Timed",
        "Replaced",
        "Agent",
        "Queue",
        "Process",
        "Rank",
        "Grid",
        "Workgroup",
    ];
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut all = vec![titles.map(quoted).join(",")];
    for group in groups {
        let d = &group.durations;
        let number = |n: Option<u64>| n.map(|n| n.to_string()).unwrap_or_default();
        let (grid, workgroup) = match group.shapes.as_slice() {
            [(grid, workgroup)] => (size_text(*grid), size_text(*workgroup)),
            _ => Default::default(),
        };
        let cells = [
            quoted(&if by == By::Site { stacks.named(group) } else { group.name.clone().unwrap_or_default() }),
            group.calls.to_string(),
            d.total_ns.to_string(),
            format!("{:.3}", d.mean_ns),
            format!("{:.4}", 100.0 * group.share),
            d.min_ns.to_string(),
            d.max_ns.to_string(),
            format!("{:.3}", d.stddev_ns),
            format!("{:.1}", d.median_ns),
            d.p95_ns.to_string(),
            d.timed.to_string(),
            group.replaced.to_string(),
            number(group.agent),
            number(group.queue),
            number(group.pid),
            number(group.rank),
            grid,
            workgroup,
        ];
        all.push(cells.join(","));
    }
    all
}

/// Prints how runs compare: the largest change first.
///
/// # Errors
/// When standard output cannot be written.
pub(super) fn changes(changes: &[Change], emulated: bool, shown: &Shown) -> Result<()> {
    let mut sorted: Vec<&Change> = changes.iter().collect();
    sorted.sort_by(|a, b| {
        let distance = |change: &Change| change.ratio.map_or(f64::NEG_INFINITY, |r| r.ratio.ln().abs());
        distance(b).total_cmp(&distance(a)).then_with(|| a.kernel.cmp(&b.kernel))
    });
    sorted.truncate(shown.top.unwrap_or(usize::MAX));
    let verdict = |change: &Change| match (change.counts, &change.ratio) {
        ([0, _], _) => "only in the log",
        ([_, 0], _) => "only in the baseline",
        (_, Some(ratio)) => ratio.verdict(emulated),
        (_, None) => "no times",
    };
    if shown.json {
        let change = |change: &&Change| {
            let [baseline, log] = change.counts;
            json!({
                "kernel": change.kernel, "counts": { "baseline": baseline, "log": log },
                "mediansNs": change.ratio.map(|r| json!({ "baseline": r.medians[0], "log": r.medians[1] })),
                "ratio": change.ratio.map(|r| r.ratio), "interval": change.ratio.and_then(|r| r.interval),
                "verdict": verdict(change),
            })
        };
        let all = json!({ "kernels": sorted.iter().map(change).collect::<Vec<_>>() });
        return lines([all.to_string()]);
    }
    let row = |change: &&Change| {
        let dash = || "-".to_owned();
        let [baseline, log] = change.counts;
        let medians = change.ratio.map(|ratio| ratio.medians.map(time));
        let [before, after] = medians.unwrap_or_else(|| [dash(), dash()]);
        let interval = change.ratio.and_then(|r| r.interval);
        vec![
            change.ratio.map_or_else(dash, |r| format!("{:.3}", r.ratio)),
            interval.map_or_else(dash, |(low, high)| format!("{low:.3}..{high:.3}")),
            before,
            after,
            format!("{baseline}/{log}"),
            verdict(change).to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = sorted.iter().map(row).collect();
    let header = [
        Title("ratio", 0),
        Title("95% interval", 3),
        Title("baseline", 1),
        Title("log", 1),
        Title("calls", 2),
        Title("verdict", 0),
    ];
    let width = if shown.full_names { usize::MAX } else { width(&io::stdout()) };
    lines(aligned(&header, &rows, "kernel", sorted.iter().map(|change| change.kernel.clone()), width))
}

#[cfg(test)]
mod tests {
    use logdur_report::Log;
    use logdur_report::summary::Summary;

    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let shown = [0.0, 999.0, 1000.0, 12_345.0, 123_456.0, 1.5e6, 2.5e10].map(time);
        assert_eq!(shown, ["0 ns", "999 ns", "1.00 µs", "12.3 µs", "123 µs", "1.50 ms", "25.0 s"]);
    }

    #[test]
    fn columns_are_right_aligned_and_names_have_the_rest() {
        let rows = [vec!["1".to_owned(), "22".to_owned()], vec!["333".to_owned(), "4".to_owned()]];
        let names = ["f", "g"].map(str::to_owned);
        let header = [Title("a", 0), Title("b", 1)];
        let table = aligned(&header, &rows, "kernel", names.clone().into_iter(), 80);
        assert_eq!(table, ["  a   b  kernel", "  1  22  f", "333   4  g"]);
        // With little room, the most important ones are there.
        let table = aligned(&header, &rows, "kernel", names.into_iter(), 30);
        assert_eq!(
            table,
            ["  a  kernel", "  1  f", "333  g", "(no room for b; omniprobe summary --full-names shows all)"]
        );
    }

    #[test]
    fn a_table_fits_a_terminal_of_sixty_columns_and_sizes_that_the_log_does_not_say_are_no_zeroes() {
        let text = "kernel,startNs,endNs,replaced\n\"a kernel with a long name that has no end\",1000,2345678,1\n\
                    \"another kernel with a name\",3000000,3000900,\n";
        let of = |by: By| {
            let mut summary = Summary::new(by);
            summary.read("a.csv", &mut Log::new(text.as_bytes()), |_, _| ()).unwrap();
            summary.totals()
        };
        for width in [50, 60, 80, 100, 132] {
            let table = table(&of(By::Kernel), By::Kernel, width);
            assert!(table.iter().take(3).all(|line| line.chars().count() <= width), "{width}: {table:#?}");
            assert!(["total", "share", "calls"].iter().all(|title| table[0].contains(title)), "{table:#?}");
        }
        let (kernels, shapes) = (table(&of(By::Kernel), By::Kernel, 200), table(&of(By::Shape), By::Shape, 200));
        for line in kernels[1..3].iter().chain(&shapes[1..3]) {
            assert!(line.contains("    -  ") && !line.contains("0x0"), "{line}");
        }
    }
}
