//! `omniprobe summary LOG...`: totals per kernel, and how two runs compare.

mod show;
mod stacks;

use std::io;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use logdur_report::Row;
use logdur_report::against::{Change, Run};
use logdur_report::summary::{By, Group, Summary, Totals};
use omniprobe_exit::Exit;

use crate::input::{self, Position, Which, Wholeness};
use crate::output::{aside, printable, tell};

pub(crate) use show::{Title, aligned, time, width};

/// Which logs, and how they are shown.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Logs, in CSV or JSON; `-` is the standard input.
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    shown: Shown,
    /// Compare the medians of the logs with those of BASELINE, kernel by kernel.
    #[arg(long, value_name = "BASELINE", conflicts_with_all = ["by", "sort"])]
    against: Option<PathBuf>,
    /// With --against: status 6 if a kernel is slower by more than this, with a confidence of 95 %.
    #[arg(long, value_name = "PERCENT", requires = "against", value_parser = percent)]
    fail_above: Option<f64>,
}

/// How totals are shown.
#[derive(Args, Clone, Debug)]
struct Shown {
    /// What rows are grouped by.
    #[arg(long, value_name = "WHAT", default_value = "kernel")]
    by: Grouping,
    /// What groups are sorted by, the largest first.
    #[arg(long, value_name = "COLUMN", default_value = "total")]
    sort: Column,
    /// Show the first N groups only.
    #[arg(long, value_name = "N")]
    top: Option<usize>,
    /// Do not shorten names.
    #[arg(long)]
    full_names: bool,
    /// Print one JSON object; names are whole.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print comma-separated values; the first columns are those of rocprofv3's kernel statistics.
    #[arg(long, conflicts_with = "against")]
    csv: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Grouping {
    Kernel,
    Shape,
    Queue,
    Gpu,
    Process,
    Rank,
    /// The kernel, and where in the application it is launched from: of logs with --stacks.
    Site,
    Log,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Column {
    Total,
    Calls,
    Mean,
    Median,
    Max,
    Stddev,
    Name,
}

/// A percentage with or without its sign, as a part.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent / 100.0),
        _ => Err("expected a percentage of at least 0, like 5%".to_owned()),
    }
}

/// Prints the totals of logs, or how they compare.
///
/// # Errors
/// When a file cannot be read, or is no log.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let mut runs = [Run::default(), Run::default()];
    let [baseline, new] = &mut runs;
    let compare = options.against.is_some();
    let mut summary = Summary::new(options.shown.by.into());
    let logs = options.which.of_all(input::logs(&options.logs)?)?;
    let mut whole = Wholeness::default();
    for log in &logs {
        read(log, &mut whole, &mut summary, |row, _| {
            if compare {
                new.add(row);
            }
        })?;
    }
    let mut totals = summary.totals();
    warn(&totals);
    let Some(path) = &options.against else {
        show::totals(&mut totals, &options.shown)?;
        return Ok(whole.status(if totals.rows.rows == 0 { input::nothing(&logs) } else { Exit::Success }));
    };
    let mut before = Summary::new(By::Kernel);
    for log in &options.which.of_all(input::logs(std::slice::from_ref(path))?)? {
        read(log, &mut whole, &mut before, |row, _| baseline.add(row))?;
    }
    let before = before.totals();
    warn(&before);
    let emulated = [&totals, &before].iter().any(|t| t.gpus.iter().any(|gpu| gpu.name.ends_with("(emulated)")));
    let changes = baseline.against(new);
    show::changes(&changes, emulated, &options.shown)?;
    Ok(whole.status(judged(&changes, emulated, options.fail_above)))
}

/// The status of a comparison.
fn judged(changes: &[Change], emulated: bool, fail_above: Option<f64>) -> Exit {
    let both = changes.iter().filter(|change| change.ratio.is_some()).count();
    match fail_above {
        _ if both == 0 => Exit::NothingToCompare,
        Some(_) if emulated => Exit::Inconclusive,
        Some(part) if changes.iter().any(|change| change.exceeds(part)) => Exit::Mismatch,
        _ => Exit::Success,
    }
}

/// Says on stderr what the totals lack.
fn warn(totals: &Totals) {
    let rows = &totals.rows;
    if let Some(first) = &rows.first_unreadable {
        tell(format_args!("{} lines are no rows; the first: {first}", rows.unreadable));
    }
    if rows.without_times + rows.reversed > 0 {
        tell(format_args!(
            "{} of {} rows have no times, {} end before they start: they count as calls only",
            rows.without_times, rows.rows, rows.reversed
        ));
    }
    let count = |name: &str| totals.accounts.get(name).copied().unwrap_or(0);
    let filtered = count("filtered");
    if filtered > 0 {
        tell(format_args!("{filtered} of {} dispatches are not in the logs: a filter kept them out", count("seen")));
    }
    let outside = count("outside");
    if outside > 0 {
        tell(format_args!(
            "{outside} of {} dispatches are not in the logs: they were outside of --when",
            count("seen")
        ));
    }
}

/// Adds a log's rows, of which `also` sees each.
fn read(log: &Position, whole: &mut Wholeness, summary: &mut Summary, also: impl FnMut(&Row<'_>, usize)) -> Result<()> {
    whole.read(log, |name, log| summary.read(name, log, also))
}

/// After a run: prints on stderr the totals of what was appended to its logs.
///
/// # Errors
/// When a log cannot be read.
pub(crate) fn after_run(logs: &[Position]) -> Result<()> {
    let mut summary = Summary::new(By::Kernel);
    for log in logs {
        read(log, &mut Wholeness::default(), &mut summary, |_, _| ())?;
    }
    let totals = summary.totals();
    warn(&totals);
    let width = show::width(&io::stderr());
    let lines = show::table(&totals, By::Kernel, width);
    lines.iter().for_each(|line| aside(format!("{}\n", printable(line)).as_bytes()));
    Ok(())
}

impl Shown {
    /// Sorts groups, and keeps the first.
    fn arrange(&self, groups: &mut Vec<Group>) {
        let number = |group: &Group| match self.sort {
            Column::Total => group.durations.total_ns as f64,
            Column::Calls => group.calls as f64,
            Column::Mean => group.durations.mean_ns,
            Column::Median => group.durations.median_ns,
            Column::Max => group.durations.max_ns as f64,
            Column::Stddev => group.durations.stddev_ns,
            Column::Name => 0.0,
        };
        match self.sort {
            Column::Name => groups.sort_by(|a, b| a.name.cmp(&b.name)),
            _ => groups.sort_by(|a, b| number(b).total_cmp(&number(a))),
        }
        groups.truncate(self.top.unwrap_or(usize::MAX));
    }
}

impl From<Grouping> for By {
    fn from(grouping: Grouping) -> By {
        match grouping {
            Grouping::Kernel => By::Kernel,
            Grouping::Shape => By::Shape,
            Grouping::Queue => By::Queue,
            Grouping::Gpu => By::Gpu,
            Grouping::Process => By::Process,
            Grouping::Rank => By::Rank,
            Grouping::Site => By::Site,
            Grouping::Log => By::Log,
        }
    }
}
