//! `omniprobe analyze`: what the instructions of captured dispatches do, seen on the emulated GPU.

mod against;
mod application;
mod html;
mod json;
mod request;
mod show;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use against::Against;
use anyhow::{Context, Result};
pub(crate) use application::Exact;
use clap::Args;
use clap::builder::PossibleValuesParser;
use logdur_analysis::forms::{Form, heatmap};
use logdur_captured::{Bounds, CapturedError};
use logdur_observe::{Analysis, Analyzer, Check, Sample, Wanted};
use logdur_system::output::{Output, Readers};
use omniprobe_exit::Exit;
pub(crate) use request::NO_LIMIT;
use request::Request;
pub(crate) use request::counted;
pub(crate) use show::finding_text;

use crate::alone;
use crate::captured::{Captured, seconds, share, taken};
use crate::exit;
use crate::headings;
use crate::output::{file, lines, tell};
use crate::region::RegionArgs;
use crate::results;
use crate::worker::VariantArgs;

/// Which dispatches are analysed, for what, and how that is shown.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    captured: Captured,
    #[command(flatten)]
    region: RegionArgs,
    #[command(flatten)]
    variant: VariantArgs,
    /// What is analysed [default: all, or nothing if --check or -a is given].
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = words(Analysis::ALL, Analysis::word), help_heading = headings::ANALYSIS, long_help = choice("What is analysed [default: all, or nothing if --check or -a is given]", Analysis::ALL, Analysis::word, Analysis::says))]
    what: Vec<String>,
    /// What is checked; `all` is every check. A finding makes the status 6.
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = words(Check::ALL, Check::word), help_heading = headings::ANALYSIS, long_help = choice("What is checked. A finding makes the status 6", Check::ALL, Check::word, Check::says))]
    check: Vec<String>,
    /// Print the report that this analyzer of instrumented kernels prints, too, as this analysis counts it.
    #[arg(short, long, value_name = "NAME", value_delimiter = ',', value_parser = words(Analyzer::ALL, Analyzer::word), help_heading = headings::ANALYSIS, long_help = choice("Print the report that this analyzer of instrumented kernels prints, too, as this analysis counts it", Analyzer::ALL, Analyzer::word, Analyzer::says))]
    analyzers: Vec<String>,
    /// An option of the analyzers: page=BYTES, a power of two.
    #[arg(long, value_name = "KEY=VALUE", requires = "analyzers", help_heading = headings::ANALYSIS)]
    analyzer_option: Vec<String>,
    /// Observe only so many workgroups, or such a part of them, evenly spread. All of them run.
    #[arg(long, value_name = "N|P%", value_parser = sample, help_heading = headings::ANALYSIS)]
    workgroups: Option<Sample>,
    /// The dispatch may access only so many bytes of an allocation, from an argument or an address on, and what other arguments
    /// point to. For memory that the application divides itself; `--check memory` reports other accesses. Repeat it for more parts.
    #[arg(long, value_name = "NAME[+OFFSET]=BYTES", help_heading = headings::ANALYSIS)]
    bounds: Vec<Bounds>,
    /// Analyse the same dispatches of this capture, too, as the application ran them, and print the numbers of both. The capture itself
    /// is compared with what --hsaco and --workgroup make of it.
    #[arg(long, value_name = "FILE", help_heading = headings::ANALYSIS)]
    against: Option<PathBuf>,
    /// Print the code with counts in the margin.
    #[arg(long, help_heading = headings::GENERAL)]
    annotate: bool,
    /// Print one JSON object for each dispatch, one a line.
    #[arg(long, help_heading = headings::GENERAL)]
    json: bool,
    /// Write all dispatches into this page of HTML, too: the code with heat colours, and pictures of the buffers.
    #[arg(long, value_name = "FILE", help_heading = headings::GENERAL)]
    html: Option<PathBuf>,
    /// Seconds that a dispatch may take [default: no limit].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, help_heading = headings::REPLAY)]
    timeout: Option<Duration>,
}

/// The word for all rows of a table.
const ALL: &str = "all";

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
        return share(text).ok().filter(|part| *part <= 1.0).map(Sample::LaneAccess).ok_or_else(refuse);
    }
    text.parse().ok().filter(|count| *count > 0).map(Sample::Count).ok_or_else(refuse)
}

/// Bytes of a page of `Heatmap`, from the options of analyzers.
fn page(options: &[String]) -> Result<u64> {
    let mut page = None;
    for option in options {
        page = Some(
            option
                .strip_prefix("page=")
                .with_context(|| format!("--analyzer-option {option}: an exact analysis has the option page=BYTES"))?,
        );
    }
    heatmap::page(page).map_err(anyhow::Error::msg)
}

impl Options {
    /// What is asked of each dispatch.
    fn request(&self) -> Result<Request> {
        let checks = chosen(&self.check, Check::ALL, Check::word);
        let analyzers = chosen(&self.analyzers, Analyzer::ALL, Analyzer::word);
        let analyses = match self.what.as_slice() {
            [] if checks.is_empty() && analyzers.is_empty() => Analysis::ALL.to_vec(),
            asked => chosen(asked, Analysis::ALL, Analysis::word),
        };
        if !self.bounds.is_empty() && !checks.contains(&Check::Memory) {
            let (what, expected) = ("--bounds".to_owned(), "--check memory with it".to_owned());
            return Err(CapturedError::Usage { what, expected, found: "no such check".to_owned() }.into());
        }
        Ok(Request {
            wanted: Wanted { analyses, checks, page: None },
            bounds: self.bounds.clone(),
            analyzers,
            page: page(&self.analyzer_option)?,
            sample: self.workgroups.unwrap_or_default(),
            limit: self.timeout.unwrap_or(NO_LIMIT),
            variant: self.variant.variant(),
            form: if self.json { Form::Json } else { Form::Text },
            annotate: self.annotate,
        })
    }
}

/// Analyses dispatches.
///
/// # Errors
/// When the capture cannot be read, has no such dispatch, or a file is for none of them.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let request = options.request()?;
    let reader = alone::reader(&options.captured, &options.region)?;
    let dispatches = options.captured.dispatches(&reader)?;
    options.variant.is_used(&options.captured.file, &reader, &dispatches)?;
    let against = options.against.as_deref().map(Against::open).transpose()?;
    let inputs: Vec<&Path> = [Some(reader.path()), options.against.as_deref()]
        .into_iter()
        .flatten()
        .chain(options.variant.files())
        .collect();
    let html = options.html.as_deref().map(|path| Output::begin(path, Readers::Those, &inputs)).transpose()?;
    let (mut ends, mut all) = (Vec::new(), Vec::new());
    for dispatch in dispatches {
        let analysed = taken(&reader, dispatch).and_then(|captured| request.analyse(&captured));
        let end = match analysed {
            Ok(analysed) => {
                let end = analysed.exit();
                lines(request.shown(&analysed))?;
                if let (Some(against), Some(path)) = (&against, &options.against) {
                    match against.analyse(&request, &reader, dispatch) {
                        Ok(other) if options.json => lines([against::json(&analysed, &other).to_string()])?,
                        Ok(other) => lines(against::text(&analysed, &other, path))?,
                        Err(error) => {
                            ends.push(exit::of(&error) as u8);
                            tell(format_args!("dispatch {}: {error:#}", dispatch.id));
                        }
                    }
                }
                if options.html.is_some() {
                    all.push(analysed);
                }
                end
            }
            Err(error) => {
                let end = exit::of(&error);
                if options.json {
                    lines([results::error(dispatch.id, &error, end).to_string()])?;
                }
                tell(format_args!("dispatch {}: {error:#}", dispatch.id));
                end
            }
        };
        ends.push(end as u8);
    }
    if let (Some(mut html), Some(path)) = (html, &options.html) {
        html.write_all(html::page(&all).as_bytes()).with_context(|| format!("writing {}", file(path)))?;
        html.finish()?;
    }
    ends.extend(options.captured.damage(&reader).map(|exit| exit as u8));
    ends.extend(against.and_then(|against| against.damage()).map(|exit| exit as u8));
    std::process::exit(Exit::of_all(ends).into())
}
