//! `omniprobe trim`: some dispatches of a capture as a capture of their own.

use std::ops::Range;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use logdur_capture::{FileStorage, Reader};
use logdur_captured::region::{CapturedPart, Part, Region};
use logdur_captured::{CapturedError, symbol};
use logdur_replay::region::{self, Kept, Trimmed};
use logdur_system::output::{Output, Readers};
use omniprobe_exit::Exit;

use crate::captured::taken;
use crate::headings;
use crate::keep::{Keep, keep, kept};
use crate::output::{file, lines, tell};
use crate::region::{RegionArgs, SourceArgs};

/// What is kept, and where.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    source: SourceArgs,
    /// Keep these dispatches: `dispatches:N-M`, `kernel:REGEX`, `kernel:REGEX@N-M` (the Nth to Mth of these kernels), as triggers of
    /// --when; behind a comma, what has to be so, too. Repeat it to keep more.
    #[arg(long, value_name = "WHICH", value_parser = keep, required = true, help_heading = headings::DISPATCHES)]
    keep: Vec<Keep>,
    /// The capture that is written.
    #[arg(short, long, value_name = "FILE", help_heading = headings::GENERAL)]
    output: PathBuf,
    /// Memory that is filled with zeros.
    #[arg(long, hide = true, value_name = "FIRST-END", value_parser = addresses)]
    zero: Vec<Range<u64>>,
}

/// Addresses, in hexadecimal digits.
fn addresses(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = text.split_once('-').and_then(|(start, end)| Some(number(start)?..number(end)?));
    range.filter(|range| range.start < range.end).ok_or_else(|| format!("expected FIRST-END, found {text:?}"))
}

impl Options {
    /// The same for the only region of the capture.
    fn of_only_region(&self) -> Options {
        let source = SourceArgs { region: RegionArgs::only(), ..self.source.clone() };
        Options { source, ..self.clone() }
    }

    /// The words of what is kept.
    fn words(&self) -> String {
        self.keep.iter().map(|keep| keep.text.as_str()).collect::<Vec<_>>().join(" or ")
    }

    /// The steps that are kept of a region.
    fn of(&self, region: &Region<'_>) -> Result<Kept> {
        let all: Vec<(u64, u64, &str)> =
            region.dispatches().map(|(step, dispatch)| (step, dispatch.id, symbol(region.reader, dispatch))).collect();
        let named: Vec<(u64, &str)> = all.iter().map(|(_, id, symbol)| (*id, *symbol)).collect();
        let is_kept = kept(&self.keep, &named)?;
        let steps = all.iter().zip(is_kept).filter(|(_, kept)| *kept).map(|((step, ..), _)| *step).collect();
        Ok(Kept { steps, zeroed: self.zero.clone(), words: self.words() })
    }
}

/// The part of a region that has what is kept.
fn spanned(region: &Region<'_>, kept: &Kept) -> Vec<Part> {
    let ends = kept.steps.first().zip(kept.steps.last());
    ends.map(|(first, last)| region.spanning(*first, *last)).into_iter().collect()
}

/// Writes the capture, and prints its name.
///
/// # Errors
/// When the capture is damaged, nothing of it is kept, a region cannot be replayed, or the file cannot be written.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    if options.source.region.asked().is_some() {
        return of_region(options);
    }
    // Only regions are replayed.
    if options.source.device.worker().is_some() {
        return of_region(&options.of_only_region());
    }
    let reader = options.source.captured.open()?;
    if reader.dispatches().is_empty() && !reader.records().regions.is_empty() {
        drop(reader);
        return of_region(&options.of_only_region());
    }
    of_dispatches(options, &reader)
}

fn of_dispatches(options: &Options, reader: &Reader) -> Result<Exit> {
    if !options.zero.is_empty() {
        let (expected, found) = ("a region, by --region".to_owned(), "single dispatches".to_owned());
        return Err(CapturedError::Usage { what: "--zero".to_owned(), expected, found }.into());
    }
    let dispatches = options.source.captured.dispatches(reader)?;
    let named: Vec<(u64, &str)> = dispatches.iter().map(|d| (d.id, symbol(reader, d))).collect();
    let is_kept = kept(&options.keep, &named)?;
    let chosen = dispatches.iter().zip(is_kept).filter(|(_, kept)| *kept).map(|(dispatch, _)| *dispatch);
    let chosen = chosen.map(|dispatch| taken(reader, dispatch)).collect::<Result<Vec<_>>>()?;
    let output = Output::begin(&options.output, Readers::Owner, &[reader.path()])?;
    logdur_captured::trim(reader, &chosen, FileStorage::of(output.file().try_clone()?))?;
    output.finish()?;
    lines([file(&options.output)])?;
    tell(format_args!("{}: {} of {} dispatches", file(&options.output), chosen.len(), dispatches.len()));
    Ok(options.source.captured.status(reader, Exit::Success))
}

/// Replays a region, and writes what is kept of it.
fn of_region(options: &Options) -> Result<Exit> {
    let parts = options.source.parts();
    if options.source.device.worker().is_none() {
        // A rule that selects nothing is told before a process is started.
        let reader = options.source.captured.open()?;
        options.source.region.of(&reader)?.map_or(Ok(()), |region| options.of(&region).map(drop))?;
    }
    let all = |region: &Region<'_>| options.of(region).map_or_else(|_| Vec::new(), |kept| spanned(region, &kept));
    parts.each(all, |part| write(options, part))
}

fn write(options: &Options, part: &CapturedPart<'_>) -> Result<Exit> {
    let kept = options.of(part.region)?;
    let output = Output::begin(&options.output, Readers::Owner, &[&options.source.captured.file])?;
    let storage = FileStorage::of(output.file().try_clone()?);
    let Trimmed { dispatches, memory, has_reference, fault } =
        region::trim(part, &options.source.device.setup(), &kept, storage)?;
    output.finish()?;
    lines([file(&options.output)])?;
    let all = part.region.dispatches().count();
    let end = match (&fault, has_reference) {
        (Some(fault), _) => format!("the last one does not end in a replay: {fault}"),
        (None, true) => "the memory at the end is the application's".to_owned(),
        (None, false) => "the memory at the end is that of a replay".to_owned(),
    };
    let name = file(&options.output);
    tell(format_args!("{name}: {dispatches} of {all} dispatches, {memory} bytes of memory, {end}"));
    Ok(Exit::Success)
}
