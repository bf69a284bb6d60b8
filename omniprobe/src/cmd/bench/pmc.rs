//! Counters of captured dispatches: on a GPU those of the hardware, which rocprofv3 reads; on the emulated GPU those that it has exactly.

use anyhow::Result;
use logdur_captured::{CapturedDispatch, CapturedError};
use logdur_observe::counters::{self, COUNTERS, Known};
use logdur_replay::bench::Options;
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use super::passes;
use crate::cmd::analyze;
use crate::exit::Failure;
use crate::output::tell;
use crate::worker::TargetArgs;

/// A name as rocprofv3 takes it.
pub(super) fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_[]:=".contains(c);
    if text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err(format!("expected the name of a counter, like SQ_WAVES, found {text:?}"))
}

/// Checks that the emulated GPU knows each name.
///
/// # Errors
/// When one is unknown.
pub(super) fn check(names: &[String]) -> Result<()> {
    let Some(unknown) = names.iter().find(|name| counters::find(name).is_none()) else { return Ok(()) };
    let known: Vec<&str> = COUNTERS.iter().map(|counter| counter.name).collect();
    let expected = format!(
        "a counter of rocprofiler-sdk for gfx9: {}, or one of {} that are not emulated",
        known.join(", "),
        counters::others()
    );
    Err(CapturedError::Usage { what: "--pmc".to_owned(), expected, found: unknown.clone() }.into())
}

/// What was counted in several runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counted {
    /// Of each run, in their order.
    pub(super) runs: Vec<f64>,
    /// How far it is to be trusted, or who has counted.
    pub(super) by: &'static str,
}

/// A counter of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) name: String,
    /// What was counted, or why there is no number.
    pub(super) counted: Result<Counted, String>,
}

/// The counters of a dispatch: of each kernel that is measured.
pub(super) struct Counters {
    pub(super) sides: Vec<Vec<Row>>,
    /// Runs under the profiler; none on the emulated GPU.
    pub(super) passes: Option<usize>,
    /// Why numbers say less than they could.
    pub(super) qualified: Vec<String>,
}

/// Counts.
///
/// # Errors
/// What keeps the dispatch from being replayed; when there is no profiler.
pub(super) fn count(
    captured: &CapturedDispatch<'_>,
    target: &TargetArgs,
    how: &Options,
    names: &[String],
) -> Result<Counters> {
    let mut wanted: Vec<String> = Vec::new();
    for name in names {
        if !wanted.contains(name) {
            wanted.push(name.clone());
        }
    }
    if wanted.is_empty() {
        return Ok(Counters { sides: vec![Vec::new(); how.variants.len()], passes: None, qualified: Vec::new() });
    }
    if !target.device.is_emulated() {
        return passes::count(captured, target, how, &wanted);
    }
    let (mut sides, mut qualified) = (Vec::new(), Vec::new());
    for variant in &how.variants {
        let (observed, report) = analyze::counted(captured, &how.setup, variant)?;
        if let Some(fault) = observed.fault {
            return Err(Failure { exit: Exit::Fault, text: format!("counting: {fault}") }.into());
        }
        for why in observed.qualified {
            if !qualified.contains(&why) {
                qualified.push(why);
            }
        }
        let counted = |name: &String| match counters::find(name) {
            Some(Known::Counted(counter)) => {
                let value = counter.of(&report).map_err(|why| format!("not emulated: {why}"))?;
                Ok(Counted { runs: vec![value], by: counter.kind.word() })
            }
            Some(Known::NotEmulated) | None => Err("not emulated".to_owned()),
        };
        sides.push(wanted.iter().map(|name| Row { name: name.clone(), counted: counted(name) }).collect());
    }
    Ok(Counters { sides, passes: None, qualified })
}

impl Counters {
    /// Says on stderr what was asked for and is missing. The status: what the profiler could not count is missing on the machine, and
    /// of what is not emulated nothing was counted.
    pub(super) fn told(&self, dispatch: u64) -> Exit {
        let missing = self.sides.iter().flatten().filter_map(|row| Some((&row.name, row.counted.as_ref().err()?)));
        let mut said: Vec<String> = Vec::new();
        for (name, why) in missing {
            let line = format!("dispatch {dispatch}: {name}: {why}");
            if !said.contains(&line) {
                tell(&line);
                said.push(line);
            }
        }
        let is_counted = self.sides.iter().flatten().any(|row| row.counted.is_ok());
        match (said.is_empty(), self.passes) {
            (true, _) => Exit::Success,
            (false, Some(_)) => Exit::Environment,
            (false, None) if is_counted => Exit::Success,
            (false, None) => Exit::Unsupported,
        }
    }
}

/// A number, as an integer if it is one.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}

/// The median of runs, the least and the most.
fn summary(runs: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = runs.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let (low, high) = (*sorted.first()?, *sorted.last()?);
    let middle = sorted.len() / 2;
    let median = match sorted.len() % 2 {
        0 => f64::midpoint(*sorted.get(middle - 1)?, *sorted.get(middle)?),
        _ => *sorted.get(middle)?,
    };
    Some([median, low, high])
}

/// Lines for people, without a kernel's letter.
pub(super) fn text(rows: &[Row], passes: Option<usize>) -> Vec<String> {
    let Some(width) = rows.iter().map(|row| row.name.len()).max() else { return Vec::new() };
    let mut all = vec![match passes {
        Some(1) => "counters, by rocprofv3 in 1 pass:".to_owned(),
        Some(passes) => format!("counters, by rocprofv3 in {passes} passes:"),
        None => "counters, on the emulated GPU:".to_owned(),
    }];
    for Row { name, counted } in rows {
        let said = match counted.as_ref().map(|counted| (summary(&counted.runs), counted)) {
            Ok((Some([median, low, high]), counted)) if low < high => {
                let (by, runs) = (counted.by, counted.runs.len());
                format!("{:>14}  {by}, {runs} runs between {} and {}", number(median), number(low), number(high))
            }
            Ok((Some([median, ..]), counted)) => format!("{:>14}  {}", number(median), counted.by),
            Ok((None, _)) => format!("{:>14}", "–"),
            Err(why) => format!("{:>14}  {why}", "–"),
        };
        all.push(format!("  {name:<width$} {said}"));
    }
    all
}

/// Objects for programs.
pub(super) fn json(rows: &[Row]) -> Vec<Value> {
    let of = |row: &Row| match &row.counted {
        Ok(counted) => {
            let [median, min, max] = match summary(&counted.runs) {
                Some(of) => of.map(value),
                None => [const { Value::Null }; 3],
            };
            let runs: Vec<Value> = counted.runs.iter().map(|run| value(*run)).collect();
            json!({
                "name": row.name, "median": median, "min": min, "max": max, "runs": runs, "by": counted.by,
                "missing": Value::Null,
            })
        }
        Err(why) => json!({
            "name": row.name, "median": Value::Null, "min": Value::Null, "max": Value::Null, "runs": [],
            "by": Value::Null, "missing": why,
        }),
    };
    rows.iter().map(of).collect()
}

/// A number: an integer where it is one that floats have exactly.
fn value(value: f64) -> Value {
    const EXACT: f64 = (1u64 << 53) as f64;
    if value.fract() == 0.0 && value.abs() <= EXACT { json!(value as i64) } else { json!(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_one_of_the_runs_or_between_two() {
        assert_eq!(summary(&[]), None);
        assert_eq!(summary(&[3.0, 1.0, 9.0]), Some([3.0, 1.0, 9.0]));
        assert_eq!(summary(&[4.0, 1.0]), Some([2.5, 1.0, 4.0]));
    }

    #[test]
    fn integers_are_written_as_such() {
        assert_eq!((value(3.0).to_string(), value(0.5).to_string()), ("3".to_owned(), "0.5".to_owned()));
        assert_eq!(value(1e300).to_string(), "1e+300");
        assert_eq!((number(98304.0), number(24.6579)), ("98304".to_owned(), "24.658".to_owned()));
    }

    #[test]
    fn names_are_what_rocprofv3_takes_and_no_options() {
        for good in ["SQ_WAVES", "TCC_HIT[3]", "TCC_HIT:device=0", "sL1dCacheHitRate"] {
            assert!(name(good).is_ok(), "{good}");
        }
        for bad in ["", "-d", "--", "A B", "A\n", "1"] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
