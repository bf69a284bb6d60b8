//! `omniprobe -a NAME --emulate ARCH -- APP`: an exact analysis of an application on the emulated GPU, without instrumented clones.
//!
//! The dispatches are captured into a folder that is removed afterwards, and analysed when the application has ended: the emulated GPU
//! of its process and the one that observes never know of each other.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use logdur_analysis::forms::Form;
use logdur_capture::Reader;
use logdur_journal::appended;
use logdur_observe::{Analysis, Analyzer, Check, Sample, Wanted};
use logdur_replay::Variant;
use logdur_settings::{Interceptor, LogLocation, Value};
use omniprobe_exit::Exit;

use super::request::{NO_LIMIT, Request};
use super::{chosen, page};
use crate::captured::{damage, opened, taken, tell_damage};
use crate::cmd::run::RunOptions;
use crate::environment::Environment;
use crate::exit;
use crate::input::has_marks;
use crate::output::{file, printable, tell};
use crate::progress;

/// Analysers that need messages, which clones send.
const MESSAGES: &[&str] = &["AddressLogger", "BasicBlockLogger", "MessageLogger"];

/// An exact analysis of an application.
pub(crate) struct Exact {
    request: Request,
    /// Where captures are until they are analysed.
    folder: PathBuf,
    output: LogLocation,
}

impl Exact {
    /// The analysis that the options ask for, if they ask for one, with what it needs in the environment.
    ///
    /// # Errors
    /// When analyzers are asked for that need clones, or that there are not; when the options contradict each other.
    pub(crate) fn of(options: &RunOptions, environment: &mut Environment) -> Result<Option<Exact>> {
        if options.is_instrumented() {
            check_names(&options.analyzers)?;
            return Ok(None);
        }
        if options.analyzers.is_empty() {
            return Ok(None);
        }
        if options.place.emulate.is_none() {
            bail!(
                "--analyzers: expected -i, which runs instrumented clones, or --emulate ARCH, which analyses exactly on the emulated GPU"
            );
        }
        if options.capture.capture.is_some() {
            bail!("--analyzers and --capture: run `omniprobe --capture FILE`, then `omniprobe analyze FILE`");
        }
        let asked: Vec<String> = options.analyzers.iter().map(|name| known(name)).collect::<Result<_>>()?;
        let wanted = Wanted {
            analyses: chosen(&asked, Analysis::ALL, Analysis::word),
            checks: chosen(&asked, Check::ALL, Check::word),
            page: None,
        };
        let form = match options.analyzer_format.as_deref() {
            Some("json") => Form::Json,
            Some("csv") => Form::Csv,
            _ => Form::Text,
        };
        if form == Form::Csv && (!wanted.analyses.is_empty() || !wanted.checks.is_empty()) {
            bail!("--analyzer-format csv: expected only analyzers of {}", all(Analyzer::ALL, Analyzer::word));
        }
        let request = Request {
            wanted,
            analyzers: chosen(&asked, Analyzer::ALL, Analyzer::word),
            page: page(&options.analyzer_option)?,
            bounds: Vec::new(),
            sample: Sample::All,
            limit: NO_LIMIT,
            variant: Variant::default(),
            form,
            annotate: false,
        };
        let location = options.analyzer_output.clone().unwrap_or_else(|| "console".into());
        let output = LogLocation::parse(&location).map_err(anyhow::Error::msg)?;
        if let LogLocation::File(path) = &output
            && has_marks(path)
        {
            bail!("--analyzer-output {}: an exact analysis writes one file, without %p, %r or %h", path.display());
        }
        let folder = environment.large_folder()?.join("captures");
        fs::create_dir(&folder).with_context(|| format!("making {}", folder.display()))?;
        environment.set(Interceptor::capture, &folder);
        environment.set(Interceptor::capture_after, "0");
        if let Some(kernels) = &options.kernels {
            environment.set(Interceptor::capture_kernels, kernels);
        }
        if let Some(kernels) = &options.kernels_exclude {
            environment.set(Interceptor::capture_exclude, kernels);
        }
        if let Some(dispatches) = &options.dispatches {
            environment.set(Interceptor::capture_dispatches, occurrences(dispatches));
        }
        Ok(Some(Exact { request, folder, output }))
    }

    /// Where captures are until they are analysed.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Analyses what was captured. The status is 6 if a check has found something.
    ///
    /// # Errors
    /// When the report cannot be written.
    pub(crate) fn finish(self) -> Result<u8> {
        let mut files: Vec<PathBuf> =
            fs::read_dir(&self.folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        files.sort();
        let mut output = Output::open(&self.output)?;
        if self.request.form == Form::Csv {
            output.write(self.request.analyzers.iter().map(|analyzer| analyzer.columns().to_owned()))?;
        }
        let (mut ends, mut count) = (Vec::new(), 0);
        for path in &files {
            // The end of a file that a killed process left is not whole; what is before it is analysed.
            match opened(path) {
                Ok(reader) => {
                    tell_damage("a capture for the analysis", &reader, false);
                    count += self.of_process(&reader, &mut output, &mut ends)?;
                    ends.extend(damage(&reader).map(|exit| exit as u8));
                }
                Err(error) => {
                    ends.push(exit::of(&error) as u8);
                    tell(format_args!("a capture for the analysis: {error:#}"));
                }
            }
        }
        if count == 0 {
            tell("no dispatch was captured: nothing is analysed");
        }
        Ok(Exit::of_all(ends))
    }

    /// Analyses the dispatches of a process; the result is their number.
    fn of_process(&self, reader: &Reader, output: &mut Output, ends: &mut Vec<u8>) -> Result<usize> {
        let dispatches = reader.dispatches();
        let bar = progress::bar("{pos} of {len} dispatches analysed", dispatches.len() as u64)?;
        for dispatch in dispatches {
            let analysed = taken(reader, dispatch).and_then(|captured| self.request.analyse(&captured));
            match analysed {
                Ok(analysed) => {
                    ends.push(analysed.exit() as u8);
                    bar.suspend(|| output.write(self.request.shown(&analysed)))?;
                }
                Err(error) => {
                    ends.push(exit::of(&error) as u8);
                    bar.suspend(|| tell(format_args!("dispatch {}: {error:#}", dispatch.id)));
                }
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        Ok(dispatches.len())
    }
}

/// Checks the names of analyzers that get messages: a name is one of `liblogdur_analyzers.so`, anything else a path.
///
/// # Errors
/// When a name is none of them.
fn check_names(analyzers: &[OsString]) -> Result<()> {
    let is_path = |name: &str| name.contains('/') || name.ends_with(".so");
    let is_known = |name: &str| MESSAGES.contains(&name) || Analyzer::ALL.iter().any(|known| known.word() == name);
    for name in analyzers.iter().map(|name| name.to_string_lossy()) {
        if !is_path(&name) && !is_known(&name) {
            let (shown, words) = (printable(&name), all(Analyzer::ALL, Analyzer::word));
            bail!("--analyzers {shown}: expected {words}, {}, or the path of a library", MESSAGES.join(", "));
        }
    }
    Ok(())
}

/// The words of a table.
fn all<T: Copy>(table: &[T], word: fn(T) -> &'static str) -> String {
    table.iter().map(|row| word(*row)).collect::<Vec<_>>().join(", ")
}

/// A word of `-a` that an exact analysis has.
fn known(name: &OsStr) -> Result<String> {
    let words = [all(Analyzer::ALL, Analyzer::word), all(Analysis::ALL, Analysis::word), all(Check::ALL, Check::word)];
    let words = words.join(", ");
    let shown = name.to_string_lossy();
    if words.split(", ").any(|word| word == shown) {
        return Ok(shown.into_owned());
    }
    let needs = shown.contains('/') || shown.ends_with(".so") || MESSAGES.contains(&&*shown);
    let why = if needs { "it gets messages, which instrumented clones send: -i runs those. " } else { "" };
    bail!("--analyzers {}: {why}An exact analysis has {words}", printable(&shown))
}

/// `--dispatches` as `LOGDUR_CAPTURE_DISPATCHES` takes it.
fn occurrences(dispatches: &str) -> String {
    match dispatches {
        "all" => "every:1".to_owned(),
        // One of each kernel.
        "random" => "1".to_owned(),
        part if part.ends_with('%') => format!("random:{part}"),
        range if range.contains('-') => range.to_owned(),
        first => format!("1-{first}"),
    }
}

/// Where reports go.
enum Output {
    Console,
    File(File, PathBuf),
    Nowhere,
}

impl Output {
    fn open(location: &LogLocation) -> Result<Output> {
        Ok(match location {
            LogLocation::Console => Output::Console,
            LogLocation::Nowhere => Output::Nowhere,
            LogLocation::File(path) => {
                let opened = appended::open(path, false, 0);
                Output::File(opened.with_context(|| failed(path))?, path.clone())
            }
        })
    }

    fn write(&mut self, lines: impl IntoIterator<Item = String>) -> Result<()> {
        match self {
            Output::Console => crate::output::lines(lines),
            Output::Nowhere => Ok(()),
            Output::File(out, path) => {
                let text: String = lines.into_iter().flat_map(|line| [line, "\n".to_owned()]).collect();
                out.write_all(text.as_bytes()).with_context(|| failed(path))
            }
        }
    }
}

fn failed(path: &Path) -> String {
    format!("--analyzer-output {}", file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_analyses_checks_and_analyzers_mean_one_thing_each() {
        let tables =
            [all(Analyzer::ALL, Analyzer::word), all(Analysis::ALL, Analysis::word), all(Check::ALL, Check::word)];
        let joined = tables.join(", ");
        let mut words: Vec<&str> = joined.split(", ").collect();
        let count = words.len();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), count, "{words:?}");
    }

    #[test]
    fn dispatches_are_chosen_for_a_capture_as_for_clones() {
        for (given, expected) in
            [("all", "every:1"), ("random", "1"), ("5%", "random:5%"), ("3", "1-3"), ("2-4", "2-4")]
        {
            assert_eq!(occurrences(given), expected);
        }
    }

    #[test]
    fn an_analyzer_of_clones_is_a_known_name_or_a_path() {
        let said = |name: &str| check_names(&[name.into()]).err().map(|error| error.to_string()).unwrap_or_default();
        for name in ["Heatmap", "AddressLogger", "./own", "own.so"] {
            assert_eq!(said(name), "");
        }
        let expected = "--analyzers Heat: expected MemoryAnalysis, Heatmap, BasicBlockAnalysis, AddressLogger, BasicBlockLogger, \
                        MessageLogger, or the path of a library";
        assert_eq!(said("Heat"), expected);
    }

    #[test]
    fn an_analyzer_that_needs_clones_is_refused_with_the_reason() {
        let said = |name: &str| known(OsStr::new(name)).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said("AddressLogger").contains("which instrumented clones send: -i runs those"));
        assert!(said("./count.so").contains("-i runs those"));
        assert!(said("Heat").starts_with("--analyzers Heat: An exact analysis has MemoryAnalysis, Heatmap"));
        assert_eq!((said("Heatmap"), said("lines"), said("race")), Default::default());
    }
}
