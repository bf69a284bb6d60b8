//! `omniprobe analyze`: what the instructions of captured dispatches do, seen on the emulated GPU.

mod html;
mod json;
mod show;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use logdur_observe::heat::Region;
use logdur_observe::report::Report;
use logdur_observe::{Analysis, Check, Sample, Session, Wanted};
use logdur_replay::{CapturedDispatch, Exit, Observed, Setup, emulated_processor, named, observed};

use super::captured::{Captured, seconds, share};
use super::worker::VariantArgs;
use super::{file, lines, tell};
use crate::{exit, help};

/// Which dispatches are analysed, for what, and how that is shown.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    captured: Captured,
    #[command(flatten)]
    variant: VariantArgs,
    /// What is analysed [default: all, or nothing if --check is given].
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = words(Analysis::ALL, Analysis::word), help_heading = help::ANALYSIS, long_help = choice("What is analysed [default: all, or nothing if --check is given]", Analysis::ALL, Analysis::word, Analysis::says))]
    what: Vec<String>,
    /// What is checked; `all` is every check. A finding makes the status 6.
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = words(Check::ALL, Check::word), help_heading = help::ANALYSIS, long_help = choice("What is checked. A finding makes the status 6", Check::ALL, Check::word, Check::says))]
    check: Vec<String>,
    /// Observe only so many workgroups, or such a part of them, evenly spread. All of them run.
    #[arg(long, value_name = "N|P%", value_parser = sample, help_heading = help::ANALYSIS)]
    workgroups: Option<Sample>,
    /// Print the code with counts in the margin.
    #[arg(long, help_heading = help::GENERAL)]
    annotate: bool,
    /// Print one JSON object for each dispatch, one a line.
    #[arg(long, help_heading = help::GENERAL)]
    json: bool,
    /// Write all dispatches into this page of HTML, too: the code with heat colours, and pictures of the buffers.
    #[arg(long, value_name = "FILE", help_heading = help::GENERAL)]
    html: Option<PathBuf>,
    /// Seconds that a dispatch may take [default: no limit].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = help::REPLAY)]
    timeout: Option<Duration>,
}

/// The word for all rows of a table.
const ALL: &str = "all";
/// Longer than anybody waits.
const NO_LIMIT: Duration = Duration::from_secs(1 << 30);

fn words<T: Copy>(table: &'static [T], word: fn(T) -> &'static str) -> PossibleValuesParser {
    PossibleValuesParser::new(table.iter().map(|row| word(*row)).chain([ALL]))
}

/// The help of an option that chooses rows of a table.
fn choice<T: Copy>(what: &str, table: &[T], word: fn(T) -> &'static str, says: fn(T) -> &'static str) -> String {
    let rows = table.iter().map(|row| format!("  {:<10} {}", word(*row), says(*row)));
    [format!("{what}:")].into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}

fn chosen<T: Copy>(asked: &[String], table: &[T], word: fn(T) -> &'static str) -> Vec<T> {
    let is_asked = |row: &&T| asked.iter().any(|asked| asked == ALL || asked == word(**row));
    table.iter().filter(is_asked).copied().collect()
}

fn sample(text: &str) -> Result<Sample, String> {
    let refuse = || format!("expected a number of workgroups or a part like 5%, found {text:?}");
    if text.ends_with('%') {
        return share(text).ok().filter(|part| *part <= 1.0).map(Sample::Part).ok_or_else(refuse);
    }
    text.parse().ok().filter(|count| *count > 0).map(Sample::Count).ok_or_else(refuse)
}

/// An analysed dispatch.
struct Analysed {
    dispatch: u64,
    observed: Observed,
    report: Report,
    wanted: Wanted,
}

impl Analysed {
    /// Its status: what ended it too early, else 6 for findings.
    fn exit(&self) -> Exit {
        match (&self.observed.fault, self.report.findings.is_empty()) {
            (Some(_), _) => Exit::Fault,
            (None, false) => Exit::Mismatch,
            (None, true) => Exit::Success,
        }
    }
}

/// Analyses dispatches.
///
/// # Errors
/// When the capture cannot be read, has no such dispatch, or a file is for none of them.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let reader = options.captured.open()?;
    let dispatches = options.captured.dispatches(&reader)?;
    options.variant.is_used(&options.captured.file, &reader, &dispatches)?;
    let (mut ends, mut all) = (Vec::new(), Vec::new());
    for dispatch in dispatches {
        let analysed = CapturedDispatch::of(&reader, dispatch).map_err(Into::into).and_then(|c| analyse(&c, options));
        let end = match analysed {
            Ok(analysed) => {
                let end = analysed.exit();
                if options.json {
                    lines([json::object(&analysed, end).to_string()])?;
                } else {
                    lines(show::text(&analysed, options.annotate))?;
                }
                if options.html.is_some() {
                    all.push(analysed);
                }
                end
            }
            Err(error) => {
                let end = exit::of(&error);
                if options.json {
                    lines([super::replay::show::error(dispatch.id, &error, end).to_string()])?;
                }
                tell(format_args!("dispatch {}: {error:#}", dispatch.id));
                end
            }
        };
        ends.push(end as u8);
    }
    if let Some(path) = &options.html {
        std::fs::write(path, html::page(&all)).with_context(|| format!("writing {}", file(path)))?;
    }
    std::process::exit(Exit::of_all(ends).into())
}

/// Where code was loaded: kernels read constants there.
fn code_of(captured: &CapturedDispatch<'_>) -> Vec<Range<u64>> {
    captured.all_loaded.iter().map(|loaded| loaded.base..loaded.base.saturating_add(loaded.size)).collect()
}

fn analyse(captured: &CapturedDispatch<'_>, options: &Options) -> Result<Analysed> {
    let checks = chosen(&options.check, Check::ALL, Check::word);
    let analyses = match options.what.as_slice() {
        [] if checks.is_empty() => Analysis::ALL.to_vec(),
        asked => chosen(asked, Analysis::ALL, Analysis::word),
    };
    let wanted = Wanted { analyses, checks };
    let regions = named(captured)?.into_iter().map(|named| Region { name: named.name, range: named.range }).collect();
    let sample = options.workgroups.unwrap_or_default();
    let session =
        Arc::new(Session::new(emulated_processor(captured)?, wanted.clone(), sample, regions, code_of(captured)));
    let setup = Setup { limit: Some(options.timeout.unwrap_or(NO_LIMIT)), ..Setup::default() };
    let observed = observed(captured, &setup, &options.variant.variant(), session.clone())?;
    let place = format!("code object {}", observed.code.id);
    let report = Report::of(&place, &observed.code.bytes, observed.moved, &session.take(), session.regions())
        .map_err(logdur_replay::ReplayError::from)?;
    if let Some(problem) = &report.problem {
        tell(format_args!("{place}: source lines: {problem}"));
    }
    Ok(Analysed { dispatch: captured.dispatch.id, observed, report, wanted })
}
