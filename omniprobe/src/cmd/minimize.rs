//! `omniprobe minimize`: the fewest dispatches and bytes of a capture that still show what `omniprobe verify` finds.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use logdur_capture::Reader;
use logdur_captured::region::Region;
use logdur_captured::{CapturedError, fewest};
use omniprobe_exit::Exit;
use serde_json::Value;

use crate::captured::{opened, seconds};
use crate::exit::Failure;
use crate::headings;
use crate::output::{file, lines, tell};
use crate::private_folder::PrivateFolder;
use crate::region::SourceArgs;

/// Pieces of memory that are tried at a time.
const PIECES: u64 = 64;
/// Memory is not divided into smaller pieces.
const SMALLEST: u64 = 256;

/// What is made smaller, and for how long.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    source: SourceArgs,
    /// The capture that is written. After each step it is a whole one, and shows what was found.
    #[arg(short, long, value_name = "FILE", help_heading = headings::GENERAL)]
    output: PathBuf,
    /// Seconds after which the smallest capture so far is the result.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "300", help_heading = headings::REPLAY)]
    time: Duration,
    /// Options of `omniprobe verify` with which it finds a mismatch or a fault.
    #[arg(last = true, value_name = "OPTIONS OF VERIFY")]
    verify: Vec<OsString>,
}

/// How a verification has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    status: Exit,
    /// Of a fault: what it said, without addresses and numbers. Another one is not what is looked for.
    what: String,
    /// The same with them.
    whole: String,
}

impl Shown {
    /// True for the same end. With `exact`, a fault is at the same address, too: memory that is zeroed makes others of its kind.
    fn is_like(&self, wanted: &Shown, exact: bool) -> bool {
        (self.status, &self.what) == (wanted.status, &wanted.what) && (!exact || self.whole == wanted.whole)
    }
}

/// Makes a capture smaller.
///
/// # Errors
/// When the capture cannot be read, nothing is wrong with it, or files cannot be written.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let reader = options.source.captured.open()?;
    let is_region = options.source.region.asked().is_some()
        || (reader.dispatches().is_empty() && !reader.records().regions.is_empty());
    let same = |a: &Path, b: &Path| matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b);
    if same(&options.source.captured.file, &options.output) {
        let (what, expected) = ("-o".to_owned(), "another file than the capture".to_owned());
        return Err(CapturedError::Usage { what, expected, found: file(&options.output) }.into());
    }
    let folder = options.output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let work = Work {
        options,
        region: if is_region { options.source.region.asked().or(Some(None)) } else { None },
        folder: PrivateFolder::new_in(folder)?,
        end: Instant::now() + options.time,
    };
    let wanted = work.verified(&options.source.captured.file)?;
    let shows = [Exit::Mismatch, Exit::Fault, Exit::Timeout];
    if !shows.contains(&wanted.status) {
        let (text, exit) = match wanted.status {
            Exit::Success => {
                ("expected a mismatch or a fault, found that all passes".to_owned(), Exit::NothingToCompare)
            }
            other => (format!("expected a mismatch or a fault, found: {}\n{}", other.word(), wanted.whole), other),
        };
        return Err(Failure { exit, text: format!("{}: {text}", file(&options.source.captured.file)) }.into());
    }
    match work.region {
        Some(number) => of_region(&work, &reader, number, &wanted)?,
        None => of_dispatches(&work, &reader, &wanted)?,
    }
    if !options.output.exists() {
        let text = format!("{}: nothing smaller shows it", file(&options.source.captured.file));
        return Err(Failure { exit: Exit::Inconclusive, text }.into());
    }
    lines([file(&options.output)])?;
    if work.is_over() {
        let seconds = options.time.as_secs_f64();
        tell(format_args!("ended after {seconds} s; a longer --time may leave out more"));
    }
    Ok(Exit::Success)
}

/// A search for a smaller capture.
struct Work<'o> {
    options: &'o Options,
    /// The region that is asked for.
    region: Option<Option<u64>>,
    folder: PrivateFolder,
    end: Instant,
}

impl Work<'_> {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// The option for the region.
    fn region_word(&self) -> Option<String> {
        self.region.map(|number| number.map_or("--region".to_owned(), |number| format!("--region={number}")))
    }

    /// This program as another subcommand on a capture.
    fn command(&self, subcommand: &str, capture: &Path) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe().context("where this program is")?);
        command.args([subcommand, "--quiet"]).arg(capture).args(self.region_word());
        command.args(self.options.source.device.place_words()).stdin(Stdio::null());
        Ok(command)
    }

    /// What a verification finds.
    fn verified(&self, capture: &Path) -> Result<Shown> {
        let mut command = self.command("verify", capture)?;
        let output = command.arg("--json").args(&self.options.verify).output().context("starting a verification")?;
        let status = output.status.code().and_then(|code| u8::try_from(code).ok());
        let status = Exit::ALL.iter().copied().find(|exit| Some(*exit as u8) == status);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let errors: Vec<String> = errors.filter_map(|object| Some(object["error"].as_str()?.to_owned())).collect();
        let Some(status) = status.filter(|status| !matches!(status, Exit::Usage)) else {
            let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Failure { exit: Exit::Usage, text: format!("omniprobe verify: {text}") }.into());
        };
        let what = errors.iter().map(|error| without_numbers(error)).collect::<Vec<_>>().join("\n");
        Ok(Shown { status, what, whole: errors.join("\n") })
    }

    /// Writes a smaller capture, and takes it if it shows what is wanted.
    fn tried(&self, from: &Path, words: &[String], wanted: &Shown) -> Result<bool> {
        self.tried_as(from, words, wanted, false)
    }

    /// The same. `exact` is as for [`Shown::is_like`].
    fn tried_as(&self, from: &Path, words: &[String], wanted: &Shown, exact: bool) -> Result<bool> {
        let candidate = self.folder.path().join("candidate.ldcap");
        let mut command = self.command("trim", from)?;
        let trimmed = command.args(words).arg("-o").arg(&candidate).output().context("starting a trim")?;
        // Without what others left, a dispatch may not run at all.
        if !trimmed.status.success() || !self.verified(&candidate)?.is_like(wanted, exact) {
            return Ok(false);
        }
        let bytes = fs::metadata(&candidate).map_or(0, |about| about.len());
        let output = &self.options.output;
        fs::rename(&candidate, output).with_context(|| format!("writing {}", file(output)))?;
        let dispatches = opened(output).map_or(0, |reader| dispatches(&reader));
        tell(format_args!("{}: {dispatches} dispatches, {bytes} bytes: {}", file(output), wanted.status.word()));
        Ok(true)
    }

    /// The dispatch that a bisection names, to be tried first.
    fn suspect(&self, wanted: &Shown) -> Option<u64> {
        let bisect = match wanted.status {
            Exit::Fault => "--bisect=fault",
            _ => "--bisect=difference",
        };
        let mut command = self.command("verify", &self.options.source.captured.file).ok()?;
        let output = command.args(["--json", bisect]).args(&self.options.verify).output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut found = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        found.find_map(|object| object["first"]["dispatch"].as_u64())
    }

    /// True if other kernels are compared with the application's own.
    fn has_other_kernels(&self) -> bool {
        let words = self.options.verify.iter().map(|word| word.to_string_lossy());
        words.into_iter().any(|word| ["--hsaco", "--cache"].iter().any(|option| word.starts_with(option)))
    }
}

/// How many dispatches a capture has, those of regions included.
fn dispatches(reader: &Reader) -> usize {
    reader.dispatches().len() + reader.records().steps.iter().filter(|step| step.dispatch.is_some()).count()
}

/// What a fault is: without its address and what is near that, and without numbers.
fn without_numbers(text: &str) -> String {
    let what = text.split_once(" at ").map_or(text, |(what, _)| what);
    let words = what.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    words.map(|word| if word.starts_with(|c: char| c.is_ascii_digit()) { "#" } else { word }).collect()
}

fn keep(ids: impl IntoIterator<Item = u64>) -> Vec<String> {
    ids.into_iter().flat_map(|id| ["--keep".to_owned(), format!("dispatches:{id}")]).collect()
}

/// Single dispatches depend on no other: one that shows it is enough.
fn of_dispatches(work: &Work<'_>, reader: &Reader, wanted: &Shown) -> Result<()> {
    for dispatch in work.options.source.captured.dispatches(reader)? {
        if work.is_over() || work.tried(&work.options.source.captured.file, &keep([dispatch.id]), wanted)? {
            break;
        }
    }
    Ok(())
}

fn of_region(work: &Work<'_>, reader: &Reader, number: Option<u64>, wanted: &Shown) -> Result<()> {
    let region = Region::of(reader, number)?;
    let capture = &work.options.source.captured.file;
    if wanted.status == Exit::Mismatch && !work.has_other_kernels() {
        return own_differs(work, &region, wanted);
    }
    let ids: Vec<u64> = region.dispatches().map(|(_, dispatch)| dispatch.id).collect();
    let suspect = work.suspect(wanted);
    let is_one = match suspect {
        Some(suspect) => work.tried(capture, &keep([suspect]), wanted)?,
        None => false,
    };
    if !is_one {
        let mut failed = None;
        let mut shows = |set: &BTreeSet<usize>| {
            let ids: Vec<u64> = set.iter().filter_map(|at| ids.get(*at)).copied().collect();
            let answer = if work.is_over() { Ok(None) } else { work.tried(capture, &keep(ids), wanted).map(Some) };
            Ok::<_, Infallible>(answer.unwrap_or_else(|error| {
                failed = Some(error);
                None
            }))
        };
        let Ok(_) = fewest(ids.len(), &mut shows);
        failed.map_or(Ok(()), Err)?;
    }
    if !work.options.output.exists() {
        return Ok(());
    }
    match wanted.status {
        Exit::Mismatch => bytes(work, wanted, false),
        // Its dispatch has another number than before.
        Exit::Fault => bytes(work, &work.verified(&work.options.output)?, true),
        _ => Ok(()),
    }
}

/// What the application's own kernels leave is not what the application got. A replay of what is left out would have the same error in its
/// memory, so that only what is before a checkpoint, or behind one, is left out.
fn own_differs(work: &Work<'_>, region: &Region<'_>, wanted: &Shown) -> Result<()> {
    tell(
        "the application's own kernels do not leave what the application got: only whole parts between checkpoints are left out",
    );
    for part in region.parts() {
        let ids = region.dispatches().filter(|(step, _)| (part.first..=part.last).contains(step));
        let ids: Vec<u64> = ids.map(|(_, dispatch)| dispatch.id).collect();
        if work.is_over() || work.tried(&work.options.source.captured.file, &keep(ids), wanted)? {
            break;
        }
    }
    Ok(())
}

/// Fills memory with zeros that nothing shows to be needed. `exact` is as for [`Shown::is_like`].
fn bytes(work: &Work<'_>, wanted: &Shown, exact: bool) -> Result<()> {
    let mut size = u64::MAX;
    let mut needed: Option<Vec<Range<u64>>> = None;
    while size > SMALLEST && !work.is_over() {
        let reader = opened(&work.options.output)?;
        let ids: Vec<u64> = reader.records().steps.iter().filter_map(|step| Some(step.dispatch.as_ref()?.id)).collect();
        let ranges = match needed.take() {
            Some(ranges) => ranges,
            None => all_ranges(&reader)?,
        };
        let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        size = (total / PIECES).min(size / 2).max(SMALLEST).next_power_of_two();
        let pieces: Vec<Range<u64>> = ranges.iter().flat_map(|range| cut(range, size)).collect();
        if pieces.is_empty() {
            break;
        }
        // The candidates are made of what is there now.
        let from = work.folder.path().join("from.ldcap");
        fs::copy(&work.options.output, &from).with_context(|| format!("copying {}", file(&work.options.output)))?;
        let mut failed = None;
        let mut shows = |set: &BTreeSet<usize>| {
            if work.is_over() {
                return Ok::<_, Infallible>(None);
            }
            let mut words = keep(ids.iter().copied());
            let zeros = pieces.iter().enumerate().filter(|(at, _)| !set.contains(at)).map(|(_, piece)| piece);
            words.extend(zeros.flat_map(|piece| ["--zero".to_owned(), format!("{:x}-{:x}", piece.start, piece.end)]));
            Ok(work.tried_as(&from, &words, wanted, exact).map_or_else(
                |error| {
                    failed = Some(error);
                    None
                },
                Some,
            ))
        };
        // Nothing at all may be needed, which is one try.
        let none = matches!(shows(&BTreeSet::new()), Ok(Some(true)));
        let left = if none { BTreeSet::new() } else { fewest(pieces.len(), &mut shows).unwrap_or_default() };
        failed.map_or(Ok(()), Err)?;
        needed = Some(left.iter().filter_map(|at| pieces.get(*at)).cloned().collect());
    }
    Ok(())
}

/// The memory that dispatches of a region begin with.
fn all_ranges(reader: &Reader) -> Result<Vec<Range<u64>>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for delta in reader.records().steps.iter().filter_map(|step| step.delta) {
        all.extend(reader.snapshot(delta).map_err(CapturedError::from)?.ranges());
    }
    all.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in all {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    Ok(joined)
}

/// Cuts memory at multiples of a size.
fn cut(range: &Range<u64>, size: u64) -> Vec<Range<u64>> {
    let first = range.start / size;
    let pieces =
        (first..range.end.div_ceil(size)).map(|at| (at * size).max(range.start)..((at + 1) * size).min(range.end));
    pieces.filter(|piece| piece.start < piece.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_the_same_whatever_their_addresses() {
        let at = |address: &str| {
            without_numbers(&format!("step 3: GPU fault: page not present at {address}, 4 bytes behind x"))
        };
        assert_eq!(at("0x7f00"), at("0x9"));
        assert_ne!(at("0x1"), without_numbers("step 3: GPU fault: illegal instruction at 0x1, 4 bytes behind x"));
    }

    #[test]
    fn memory_is_cut_without_gaps() {
        assert_eq!(cut(&(0x1010..0x1210), 0x100), [0x1010..0x1100, 0x1100..0x1200, 0x1200..0x1210]);
    }
}
