//! `omniprobe diff`: what is different between dispatches of two captures.

mod show;

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use logdur_capture::Reader;
use logdur_captured::diff::{self, Pair};
use logdur_captured::verify::Rule;
use logdur_captured::{CapturedError, symbol};
use omniprobe_exit::Exit;

use crate::alone;
use crate::captured::{self, Captured};
use crate::headings;
use crate::output::{lines, tell};
use crate::region::RegionArgs;

/// What is compared with what, and how.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    captured: Captured,
    #[command(flatten)]
    region: RegionArgs,
    /// The capture to compare with. The same file compares dispatches of one capture.
    #[arg(value_name = "OTHER")]
    other: PathBuf,
    /// The dispatch of the other capture, to compare with the one of --dispatch or --kernel [default: the n-th dispatch of a
    /// kernel is compared with the n-th of that kernel].
    #[arg(long, value_name = "N", help_heading = headings::DISPATCHES)]
    dispatch_b: Option<u64>,
    /// Element type and tolerance of a buffer, like `out=f16:rel=1e-2,abs=1e-6,ulp=4`. Repeat it for more buffers.
    #[arg(long, value_name = "NAME=TYPE[:LIMITS]", help_heading = headings::COMPARISON)]
    tol: Vec<Rule>,
    /// Also compare hidden arguments, which the runtime adds after the application's.
    #[arg(long, help_heading = headings::COMPARISON)]
    all: bool,
    /// Print one JSON object for each pair of dispatches, one a line.
    #[arg(long, help_heading = headings::GENERAL)]
    json: bool,
}

/// Compares dispatches. The status is 6 when something is different, or a dispatch has no partner.
///
/// # Errors
/// When a capture cannot be read, or has no such dispatch.
pub(crate) fn run(options: &Options) -> Result<Exit> {
    let a = alone::reader(&options.captured, &options.region)?;
    // Of one file, what has the same name is not read to be compared.
    let is_same = fs::canonicalize(&options.captured.file).ok() == fs::canonicalize(&options.other).ok();
    let of_region = options.region.asked().is_some();
    let number = options.dispatch_b.or(options.captured.last_of_region().ok().flatten().filter(|_| of_region));
    let other = if is_same && !of_region {
        None
    } else {
        Some(alone::other(&options.captured.store, &options.other, &options.region, number)?)
    };
    let b = other.as_ref().unwrap_or(&a);
    let how = diff::Options { rules: options.tol.clone(), hidden: options.all };
    let (mut told, mut ends) = (HashSet::new(), Vec::new());
    for pair in pairs(options, &a, b)? {
        let (shown, end) = match (pair.a, pair.b) {
            (Some(of_a), Some(of_b)) => match diff::compare((&a, of_a), (b, of_b), &how) {
                Ok(diff) if options.json => (vec![show::json(&diff).to_string()], Exit::from(&diff)),
                Ok(diff) => (show::text(&diff, &mut told), Exit::from(&diff)),
                Err(error) => {
                    let status = Exit::from(&error);
                    let error = anyhow::Error::from(error);
                    tell(format_args!("dispatches {} and {}: {error:#}", of_a.id, of_b.id));
                    let object = show::error([of_a.id, of_b.id], &error, status);
                    (options.json.then(|| object.to_string()).into_iter().collect(), status)
                }
            },
            (of_a, of_b) => {
                let kernel = of_a.map(|d| symbol(&a, d)).or_else(|| of_b.map(|d| symbol(b, d))).unwrap_or_default();
                let numbers = [of_a.map(|d| d.id), of_b.map(|d| d.id)];
                let json = || show::alone_json(kernel, numbers).to_string();
                (vec![if options.json { json() } else { show::alone(kernel, numbers) }], Exit::Mismatch)
            }
        };
        lines(shown)?;
        ends.push(end);
    }
    if !options.json {
        lines([show::summary(&ends)])?;
    }
    // What could not be compared at all says more than a difference, and that more than what is missing.
    let is = |end: &Exit| ![Exit::Success, Exit::Mismatch, Exit::Incomplete].contains(end);
    let other = ends.iter().copied().find(is);
    let of = |wanted: Exit| ends.contains(&wanted).then_some(wanted);
    let damaged = options.captured.damage(&a).or_else(|| options.damage_of_other(b));
    let all = [other, of(Exit::Mismatch), damaged, of(Exit::Incomplete)];
    Ok(all.into_iter().flatten().next().unwrap_or(Exit::Success))
}

impl Options {
    /// The status of damage of the other capture, unless the compared dispatch of it is chosen by its number.
    fn damage_of_other(&self, other: &Reader) -> Option<Exit> {
        let is_whole = |id: u64| other.dispatches().iter().any(|dispatch| dispatch.id == id);
        captured::damage(other).filter(|_| !self.dispatch_b.is_some_and(is_whole))
    }
}

/// The pairs that are asked for.
fn pairs<'r>(options: &Options, a: &'r Reader, b: &'r Reader) -> Result<Vec<Pair<'r>>> {
    let chosen = options.captured.dispatches(a)?;
    let Some(number) = options.dispatch_b else {
        return Ok(diff::pairs(a, b, |symbol, dispatch| options.captured.wants(symbol, dispatch)));
    };
    let refuse =
        |expected: String, found: String| CapturedError::Usage { what: "--dispatch-b".to_owned(), expected, found };
    let [of_a] = chosen[..] else {
        let expected = "one dispatch of the first capture, chosen by --dispatch or --kernel".to_owned();
        return Err(refuse(expected, chosen.len().to_string()).into());
    };
    let of_b = b.dispatches().iter().find(|d| d.id == number);
    let all = || b.dispatches().iter().map(|d| d.id.to_string()).collect::<Vec<_>>().join(", ");
    let of_b = of_b.ok_or_else(|| refuse(format!("one of {}", all()), number.to_string()))?;
    Ok(vec![Pair { a: Some(of_a), b: Some(of_b) }])
}
