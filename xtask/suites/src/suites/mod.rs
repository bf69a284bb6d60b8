//! `cargo xtask suites`: the own tests of packaged programs, a seeded sample of them, under the emulated GPU: with a log,
//! then captured and verified. [`table`] lists them.

use std::time::Instant;

use anyhow::{Result, bail, ensure};

use xtask::dist;

mod emulated;
mod forms;
mod hashcat;
mod openmp;
mod page;
mod place;
mod regions;
mod results;
mod rocblas;
mod sample;
mod table;

use emulated::{Limits, Outcome};
use place::InstalledSuite;
use regions::Stretch;
use results::Results;
use table::{SUITES, Suite};

const USAGE: &str = "suites takes names of suites, --full, --regions, --list, --fetch, --write-docs, --seed N, --tests N, \
                     --only PART-OF-A-TEST'S-NAME, --captures N and --limit SECONDS";

/// Another seed is another sample.
const SEED: u64 = 1;
/// Of a test in the short list, so many dispatches are captured and verified, and in the long one.
const CAPTURES: (u32, u32) = (2, 6);
/// Seconds that a process may take, in the short list and in the long one.
const LIMITS: (u64, u64) = (300, 600);

/// Of a suite's sample, stretches of so many tests are captured as regions.
const REGIONS: usize = 6;

/// What the command line asks for.
#[derive(Debug, Default)]
struct Options {
    names: Vec<String>,
    full: bool,
    regions: bool,
    list: bool,
    fetch: bool,
    write_docs: bool,
    seed: Option<u64>,
    tests: Option<usize>,
    only: Option<String>,
    captures: Option<u32>,
    limit: Option<u64>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || match args.next() {
                Some(value) => Ok(value.clone()),
                None => bail!("{arg} takes a value"),
            };
            match arg.as_str() {
                "--full" => options.full = true,
                "--regions" => options.regions = true,
                "--list" => options.list = true,
                "--fetch" => options.fetch = true,
                "--write-docs" => options.write_docs = true,
                "--seed" => options.seed = Some(number(arg, &value()?)?),
                "--tests" => options.tests = Some(number(arg, &value()?)?),
                "--captures" => options.captures = Some(number(arg, &value()?)?),
                "--limit" => options.limit = Some(number(arg, &value()?)?),
                "--only" => options.only = Some(value()?),
                name if SUITES.iter().any(|suite| suite.name == name) => options.names.push(name.to_owned()),
                other => bail!("{USAGE}; found {other:?}. The suites are {}", names()),
            }
        }
        Ok(options)
    }

    /// The suites that are asked for: those that are named, else those of the list.
    fn chosen(&self) -> Vec<&'static Suite> {
        let is_chosen = |suite: &&Suite| match self.names.as_slice() {
            [] => self.full || suite.short > 0,
            names => names.iter().any(|name| name == suite.name),
        };
        SUITES.iter().filter(is_chosen).collect()
    }

    fn limits(&self) -> Limits {
        let pick = |(short, full): (u64, u64)| if self.full { full } else { short };
        Limits {
            seconds: self.limit.unwrap_or_else(|| pick(LIMITS)),
            captures: self.captures.unwrap_or(if self.full { CAPTURES.1 } else { CAPTURES.0 }),
            stretch: Stretch::None,
        }
    }
}

fn number<T: std::str::FromStr>(option: &str, text: &str) -> Result<T> {
    text.parse().or_else(|_| bail!("{option} takes a number, found {text:?}"))
}

fn names() -> String {
    SUITES.iter().map(|suite| suite.name).collect::<Vec<_>>().join(", ")
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args)?;
    if options.write_docs {
        return page::write(&options.names);
    }
    dist::for_this_machine()?;
    let mut wrong = Vec::new();
    for suite in options.chosen() {
        let place = match InstalledSuite::of(suite.place(), &suite.source, suite.versions, options.fetch) {
            Ok(place) => place,
            Err(error) if suite.source.is_moving() => {
                let text = format!("{error:#}");
                let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
                println!("{}: not run, its packages cannot be had today: {last}", suite.name);
                Results { not_run: last, ..Results::default() }.write(suite.name)?;
                continue;
            }
            Err(error) => return Err(error.context(format!("suite {}", suite.name))),
        };
        match one(suite, &place, &options) {
            Ok(lines) => wrong.extend(lines),
            // The other suites are worth running all the same.
            Err(error) => wrong.push(format!("{}: {error:#}", suite.name)),
        }
    }
    if wrong.is_empty() { Ok(()) } else { bail!("{} tests are not as expected:\n{}", wrong.len(), wrong.join("\n")) }
}

/// Runs a suite's sample and keeps the results. Returns a line for each test that is not as the table expects.
fn one(suite: &Suite, place: &InstalledSuite, options: &Options) -> Result<Vec<String>> {
    let listed = (suite.form.list)(place, &suite.programs)?;
    let number = options.tests.unwrap_or(match (options.full, suite.short) {
        (false, short) if short > 0 => short,
        _ => suite.full,
    });
    let seed = options.seed.unwrap_or(SEED);
    let all = listed.len();
    ensure!(all > 0, "{} lists no test", suite.title);
    let wanted = |name: &str| options.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let is_left_out = |name: &str| suite.left_out.iter().any(|l| name.contains(l.test));
    let candidates = listed.into_iter().filter(|test| wanted(&test.name) && !is_left_out(&test.name)).collect();
    let sample = sample::of(candidates, seed, number);
    println!("{}: {} of {all} tests, seed {seed}; {}", suite.name, sample.len(), place.made_of);
    let mut limits = options.limits();
    if !suite.captured {
        limits.captures = 0;
    }
    let mut results = Results { made_of: place.made_of.clone(), seed, tests: all, ..Results::default() };
    let mut wrong = Vec::new();
    for (number, test) in sample.into_iter().enumerate() {
        let has_region = (options.full || options.regions) && number < REGIONS;
        limits.stretch = if has_region { suite.stretch } else { Stretch::None };
        if options.list {
            println!("  {}", test.name);
            continue;
        }
        let start = Instant::now();
        let outcome =
            emulated::test(suite.name, place, (suite.arch, suite.variables), &test, suite.form.judge, &limits)?;
        println!("  {}", line(&outcome, start.elapsed().as_secs_f64()));
        wrong.extend(
            unexpected(suite, &outcome, options.full).map(|reason| format!("{} {}: {reason}", suite.name, test.name)),
        );
        results.outcomes.push(outcome);
    }
    if !options.list {
        results.write(suite.name)?;
    }
    Ok(wrong)
}

/// What the table did not expect of a test. The long list has to agree with the table in both directions.
fn unexpected(suite: &Suite, outcome: &Outcome, full: bool) -> Option<String> {
    let known = suite.known.iter().find(|known| outcome.test.contains(known.test));
    let complaint = outcome.judged.failed.first().or(outcome.complaints.first());
    match (complaint, known) {
        (Some(reason), None) => Some(reason.clone()),
        (None, Some(known)) if full && !known.sometimes => {
            Some(format!("is a known failure ({}), but nothing is wrong now", known.reason))
        }
        _ => None,
    }
}

fn line(outcome: &Outcome, seconds: f64) -> String {
    let Outcome { test, judged, dispatches, captured, verified, complaints, .. } = outcome;
    let words: Vec<String> = verified.iter().map(|(word, count)| format!("{count} {word}")).collect();
    let mut text = format!(
        "{test}: {} passed, {} failed, {} skipped; {dispatches} dispatches, {:.1} s, {:.1} s of processors; {captured} captured ({}); {seconds:.1} s in all",
        judged.passed,
        judged.failed.len(),
        judged.skipped,
        outcome.seconds,
        outcome.processor,
        words.join(", "),
    );
    if let Some(stretched) = &outcome.stretched {
        let said: Vec<String> = stretched.said.iter().map(|(way, said)| format!("{way}: {said}")).collect();
        text += &format!("\n    region of {} to {}: {}", stretched.first, stretched.last, said.join("; "));
    }
    for reason in judged.failed.iter().chain(complaints) {
        text += &format!("\n    {reason}");
    }
    text
}
