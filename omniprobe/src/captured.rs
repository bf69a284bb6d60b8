//! What the tools that read captures have in common: the file, which of its dispatches, and how they end.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use logdur_capture::{CaptureError, Dispatch, End, Placed, Reader};
use logdur_captured::{CapturedDispatch, CapturedError, symbol};
use logdur_journal::names;
use logdur_system::text::shell_word;
use omniprobe_exit::Exit;
use regex::Regex;

use super::exit::Failure;
use super::kind::{self, Kind};
use super::output::{demangled, tell};
use crate::headings;

/// What runs captured dispatches, or reads their code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// The ROCm runtime, on a GPU that it has.
    Rocm,
    /// The emulated GPU, without any runtime.
    Emu,
}

/// Where the contents of a capture are that it does not have.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct StoreArgs {
    /// Look for contents in this store before the one that the capture names.
    #[arg(long, value_name = "DIR", help_heading = headings::GENERAL)]
    capture_store: Option<PathBuf>,
}

impl StoreArgs {
    /// As options again.
    pub(crate) fn words(&self) -> Vec<OsString> {
        self.capture_store.iter().flat_map(|store| ["--capture-store".into(), store.into()]).collect()
    }

    /// Opens a capture.
    ///
    /// # Errors
    /// When it cannot be read, or the store is not there: which file, and why.
    pub(crate) fn opened(&self, file: &Path) -> Result<Reader> {
        let mut reader = opened(file)?;
        if let Some(store) = &self.capture_store {
            store.read_dir().with_context(|| format!("--capture-store {}", store.display()))?;
            reader.look_in(store);
        }
        Ok(reader)
    }

    /// Opens a capture; what is wrong with it is said on stderr.
    ///
    /// # Errors
    /// As for [`StoreArgs::opened`].
    pub(crate) fn open(&self, file: &Path) -> Result<Reader> {
        let reader = self.opened(file)?;
        tell_damage(&super::output::file(file), &reader, true);
        Ok(reader)
    }
}

/// A capture, and which of its dispatches.
#[derive(Args, Clone, Debug)]
pub(crate) struct Captured {
    /// The capture.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Only dispatches of kernels with a matching name: mangled, demangled, or without arguments.
    #[arg(short, long, value_name = "REGEX", help_heading = headings::DISPATCHES)]
    kernel: Option<Regex>,
    /// Only the dispatch with this number, the `id` of its row. Repeat it for more dispatches.
    #[arg(short, long, value_name = "N", help_heading = headings::DISPATCHES)]
    dispatch: Vec<u64>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

impl Captured {
    /// Opens the capture; what is wrong with it is said on stderr.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(crate) fn open(&self) -> Result<Reader> {
        self.store.open(&self.file)
    }

    /// Opens the capture in a process whose parent has said what is wrong with it.
    ///
    /// # Errors
    /// As for [`Captured::open`].
    pub(crate) fn reopened(&self) -> Result<Reader> {
        self.store.opened(&self.file)
    }

    /// True for a kernel that is asked for, and a dispatch of it; one without a number, if none is asked for by its number.
    pub(crate) fn wants(&self, symbol: &str, dispatch: Option<u64>) -> bool {
        let numbered = self.dispatch.is_empty() || dispatch.is_some_and(|id| self.dispatch.contains(&id));
        numbered && self.is_named(symbol)
    }

    /// True for a kernel of a name that is asked for, and for each if none is.
    pub(crate) fn is_named(&self, symbol: &str) -> bool {
        self.kernel.as_ref().is_none_or(|kernel| names::is_named(symbol, kernel))
    }

    /// True if kernels are asked for by their name.
    pub(crate) fn has_name(&self) -> bool {
        self.kernel.is_some()
    }

    /// The dispatch that a part of a region is to end with, if one is asked for.
    ///
    /// # Errors
    /// When several are asked for, or kernels by their name: steps of a region depend on those before them.
    pub(crate) fn last_of_region(&self) -> Result<Option<u64>> {
        match &self.kernel {
            Some(kernel) => Err(CapturedError::Usage {
                what: "--region".to_owned(),
                expected: "no --kernel: a region is replayed as a whole, or up to a --dispatch".to_owned(),
                found: kernel.to_string(),
            }
            .into()),
            None => self.last(),
        }
    }

    /// The same where names of kernels say something else.
    ///
    /// # Errors
    /// When several are asked for.
    pub(crate) fn last(&self) -> Result<Option<u64>> {
        match self.dispatch.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(*one)),
            several => Err(CapturedError::Usage {
                what: "--region".to_owned(),
                expected: "one --dispatch at most".to_owned(),
                found: several.len().to_string(),
            }
            .into()),
        }
    }

    /// What is asked for, as the end of a sentence.
    fn asked(&self) -> String {
        let kernel =
            self.kernel.as_ref().map_or_else(String::new, |kernel| format!(" of a kernel named like {kernel}"));
        let numbers: Vec<String> = self.dispatch.iter().map(ToString::to_string).collect();
        if numbers.is_empty() { kernel } else { format!("{kernel} with the number {}", numbers.join(" or ")) }
    }

    /// The dispatches that are asked for.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn dispatches<'r>(&self, reader: &'r Reader) -> Result<Vec<&'r Placed<Dispatch>>> {
        let wanted = |d: &&Placed<Dispatch>| self.wants(symbol(reader, d), Some(d.id));
        let found: Vec<_> = reader.dispatches().iter().filter(wanted).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let what = self.file.display().to_string();
        let expected = format!("a dispatch{}", self.asked());
        // What is asked for may be what is damaged, or was cut off.
        Err(match (damage(reader), reader.dispatches().is_empty()) {
            (None, true) if !reader.records().regions.is_empty() => CapturedError::Usage {
                what,
                expected: "a dispatch that was captured alone".to_owned(),
                found: "a region, which takes --region".to_owned(),
            }
            .into(),
            (None | Some(Exit::Incomplete), true) => CapturedError::Empty { file: what, end: end_of(reader) }.into(),
            (Some(exit), _) => {
                let text = format!("{what}: expected {expected}, found none among those that are whole");
                Failure { exit, text }.into()
            }
            (None, false) => {
                CapturedError::Usage { what, expected, found: format!("others:{}", kernels_of(reader)) }.into()
            }
        })
    }

    /// The status that says that a capture is not whole; `None` of one that is, and if all that is asked for are dispatches that are
    /// whole, by their numbers.
    pub(crate) fn damage(&self, reader: &Reader) -> Option<Exit> {
        let is_whole = |id: &u64| reader.dispatches().iter().any(|dispatch| dispatch.id == *id);
        let is_asked = !self.dispatch.is_empty() && self.dispatch.iter().all(is_whole);
        damage(reader).filter(|_| !is_asked)
    }

    /// The status of a tool that has ended with another one: a failure stays.
    pub(crate) fn status(&self, reader: &Reader, ended: Exit) -> Exit {
        let is_failure = ![Exit::Success, Exit::Inconclusive, Exit::NothingToCompare].contains(&ended);
        self.damage(reader).filter(|_| !is_failure).unwrap_or(ended)
    }

    /// The one dispatch that is asked for. If a name finds several, this takes the first and says which others there are.
    ///
    /// # Errors
    /// When there is none, or there are several and no name is asked for.
    pub(crate) fn one<'r>(&self, reader: &'r Reader) -> Result<&'r Placed<Dispatch>> {
        let found = self.dispatches(reader)?;
        let shown = |d: &&Placed<Dispatch>| format!("{} ({})", d.id, demangled(symbol(reader, d)));
        let list = |dispatches: &[&Placed<Dispatch>]| dispatches.iter().map(shown).collect::<Vec<_>>().join(", ");
        let what = self.file.display().to_string();
        match found.as_slice() {
            [one] => Ok(one),
            [first, others @ ..] if self.kernel.is_some() && self.dispatch.is_empty() => {
                let (first_shown, others) = (shown(first), list(others));
                tell(format_args!(
                    "{what}: takes dispatch {first_shown}; --dispatch chooses among others of the name: {others}"
                ));
                Ok(first)
            }
            several => {
                let (expected, found) = ("one dispatch, by --dispatch N or -k NAME".to_owned(), list(several));
                Err(CapturedError::Usage { what, expected, found }.into())
            }
        }
    }
}

/// The kernels of a capture with the numbers of their dispatches, a line each.
fn kernels_of(reader: &Reader) -> String {
    const SHOWN: usize = 8;
    let mut kernels = BTreeMap::<String, Vec<u64>>::new();
    for dispatch in reader.dispatches() {
        kernels.entry(demangled(symbol(reader, dispatch))).or_default().push(dispatch.id);
    }
    let line = |(name, ids): (&String, &Vec<u64>)| {
        let shown: Vec<String> = ids.iter().take(SHOWN).map(ToString::to_string).collect();
        let more = if ids.len() > SHOWN { format!(", … ({} in all)", ids.len()) } else { String::new() };
        format!("\n  {name}: {}{more}", shown.join(", "))
    };
    kernels.iter().map(line).collect()
}

/// How a capture ends, where it is not as its writer wanted to end it.
fn end_of(reader: &Reader) -> String {
    match reader.end() {
        End::Finished => String::new(),
        End::Unfinished { cut, .. } => format!("; it was not finished, and {cut} bytes at its end are not whole"),
    }
}

/// Takes a dispatch out of a capture. What a damaged capture lacks is damage.
///
/// # Errors
/// When the capture lacks what is needed, or is damaged where it is.
pub(crate) fn taken<'r>(reader: &'r Reader, dispatch: &'r Placed<Dispatch>) -> Result<CapturedDispatch<'r>> {
    CapturedDispatch::of(reader, dispatch).map_err(|error| match (Exit::from(&error), damage(reader)) {
        (Exit::Incomplete, Some(exit)) => {
            let text = format!("{:#}", anyhow::Error::from(error));
            Failure { exit, text }.into()
        }
        _ => error.into(),
    })
}

/// The status that says that a capture is not whole; `None` of one that is.
pub(crate) fn damage(reader: &Reader) -> Option<Exit> {
    match reader.end() {
        _ if !reader.problems().is_empty() => Some(Exit::Corrupt),
        End::Unfinished { .. } => Some(Exit::Incomplete),
        End::Finished => None,
    }
}

/// How a capture ends.
pub(crate) fn ending(end: &End) -> String {
    match end {
        End::Finished => "finished".to_owned(),
        End::Unfinished { whole, cut, .. } => {
            format!("not finished: {whole} bytes are whole, {cut} behind them are not")
        }
    }
}

/// A number of seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let refuse = || format!("expected a number of seconds, found {text:?}");
    text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()).ok_or_else(refuse)
}

/// A part of a whole: of an option.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let (number, by) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.parse::<f64>().ok().map(|number| number / by).filter(|share| *share > 0.0 && share.is_finite());
    share.ok_or_else(|| format!("expected a part like 1% or 0.01, found {text:?}"))
}

/// A part of a whole that may be none or all of it: of an option.
pub(crate) fn part(text: &str) -> Result<f64, String> {
    let (number, by) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let part = number.parse::<f64>().ok().map(|number| number / by).filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| format!("expected a part from 0% to 100%, like 1% or 0.01, found {text:?}"))
}

/// Opens a capture.
///
/// # Errors
/// When it cannot be read: which file, and why.
pub(crate) fn opened(file: &Path) -> Result<Reader> {
    Reader::open(file).map_err(|error| match error {
        // It says which.
        CaptureError::File { .. } => CapturedError::from(error).into(),
        error => anyhow::Error::from(CapturedError::from(error)).context(kind::named(file, Kind::Capture)),
    })
}

/// Opens a capture; what is wrong with it is said on stderr.
///
/// # Errors
/// As for [`opened`].
pub(crate) fn open(file: &Path) -> Result<Reader> {
    StoreArgs::default().open(file)
}

/// Says on stderr what is wrong with a capture, as far as its records and its end say it. `stays` when the user has the file.
pub(crate) fn tell_damage(name: &str, reader: &Reader, stays: bool) {
    const SHOWN: usize = 8;
    let problems = reader.problems();
    for problem in problems.iter().take(SHOWN) {
        tell(format_args!("{name}: damaged: {problem}"));
    }
    if problems.len() > SHOWN {
        let more = problems.len() - SHOWN;
        tell(format_args!("{name}: damaged: {more} more places; `omniprobe fsck` lists all of them"));
    }
    if reader.lost_dispatches() > 0 {
        tell(format_args!("{name}: the records of {} dispatches cannot be read", reader.lost_dispatches()));
    }
    let has_unended = reader.dispatches().last().is_some_and(|last| reader.is_unended(last));
    match reader.end() {
        // Some runtimes give a fault to the application, which ends as ever.
        End::Finished if has_unended => tell(format_args!("{name}: {}", whole(reader, "ended", stays))),
        End::Finished => {}
        end => tell(format_args!("{name}: {}; {}", ending(end), whole(reader, "still runs, or ended", stays))),
    }
}

/// What a capture has whose process `ended_so` while it captured, and how to go on if the file `stays`.
fn whole(reader: &Reader, ended_so: &str, stays: bool) -> String {
    let name = |dispatch: &Placed<Dispatch>| format!("{} {}", dispatch.id, demangled(symbol(reader, dispatch)));
    let (unended, ended) = match reader.dispatches() {
        [ended @ .., last] if reader.is_unended(last) => (Some(last), ended),
        ended => (None, ended),
    };
    let has = match ended {
        [] if !reader.records().steps.is_empty() => {
            format!("{} steps of a region are whole", reader.records().steps.len())
        }
        [] => "no dispatch is whole".to_owned(),
        [one] => format!("only dispatch {} is whole", name(one)),
        [first, .., last] => format!("{} dispatches are whole, from {} to {}", ended.len(), name(first), name(last)),
    };
    let last = match unended {
        None => "the dispatch that ran then is not in the capture".to_owned(),
        Some(last) if !stays => format!("dispatch {} had not ended", name(last)),
        Some(last) => format!(
            "dispatch {} had not ended. What it began with is in the capture: `omniprobe analyze {} --dispatch {}` runs it again",
            name(last),
            shell_word(reader.path()),
            last.id
        ),
    };
    format!("{has}. Its process {ended_so} while it captured, as by a fault of the GPU: {last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_written_in_hundredths_or_as_they_are() {
        assert_eq!((share("1%"), share("0.05")), (Ok(0.01), Ok(0.05)));
        assert_eq!(share("0").unwrap_err(), "expected a part like 1% or 0.01, found \"0\"");
        assert_eq!((part("0"), part("1%"), part("100%")), (Ok(0.0), Ok(0.01), Ok(1.0)));
        assert!(part("101%").is_err() && part("-1%").is_err() && part("NaN").is_err());
        assert!(share("-1%").is_err() && share("one").is_err() && share("inf").is_err());
    }
}
