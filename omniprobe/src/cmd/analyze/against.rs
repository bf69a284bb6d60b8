//! Two analyses side by side: a dispatch, perhaps with another kernel or geometry, and the same dispatch as an application ran it.

use std::path::Path;

use anyhow::{Context, Result};
use logdur_capture::{Dispatch, Placed, Reader};
use logdur_captured::symbol;
use logdur_replay::Variant;
use omniprobe_exit::Exit;
use serde_json::{Map, Value, json};

use super::request::{Analysed, Request};
use crate::captured;
use crate::output::file;

/// What is compared: its name, and its value where it was analysed.
type Row = (&'static str, fn(&Analysed) -> Option<u64>);

/// Numbers of which less is better, but for the last two.
const ROWS: &[Row] = &[
    ("wave instructions", |of| nonzero(of.report.totals.executions)),
    ("idle lanes of vector instructions", |of| {
        let (lanes, executions) = of.report.totals.vector;
        (executions > 0).then(|| (64 * executions).saturating_sub(lanes))
    }),
    ("accesses to memory", |of| nonzero(of.report.totals.lines.executions)),
    ("L1 lines", |of| nonzero(of.report.totals.lines.l1)),
    ("L2 lines", |of| nonzero(of.report.totals.lines.l2)),
    ("bytes of memory that is touched", |of| of.report.totals.footprint),
    ("accesses to LDS", |of| nonzero(of.report.totals.lds.accesses)),
    ("LDS conflict cycles", |of| (of.report.totals.lds.accesses > 0).then_some(of.report.totals.lds.conflicts)),
    ("findings", |of| (!of.wanted.checks.is_empty()).then_some(of.report.findings.len() as u64)),
    ("floating-point operations", |of| {
        nonzero(of.report.totals.flops.iter().filter(|(of, _)| of.is_float()).map(|(_, count)| count).sum())
    }),
    ("waves of a SIMD", |of| of.report.occupancy.as_ref().map(|occupancy| occupancy.waves.into())),
];

fn nonzero(value: u64) -> Option<u64> {
    Some(value).filter(|value| *value > 0)
}

/// A capture whose dispatches are compared with.
pub(super) struct Against {
    reader: Reader,
}

impl Against {
    /// Opens it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn open(path: &Path) -> Result<Against> {
        Ok(Against { reader: captured::open(path)? })
    }

    /// The status of damage of it.
    pub(super) fn damage(&self) -> Option<Exit> {
        captured::damage(&self.reader)
    }

    /// Analyses the partner of a dispatch, as its application ran it: the n-th dispatch of a kernel is compared with the n-th.
    ///
    /// # Errors
    /// When there is none, or it cannot be replayed.
    pub(super) fn analyse(&self, request: &Request, reader: &Reader, of: &Placed<Dispatch>) -> Result<Analysed> {
        let name = symbol(reader, of);
        let is_same = |reader: &Reader, dispatch: &Placed<Dispatch>| symbol(reader, dispatch) == name;
        let before = reader.dispatches().iter().take_while(|dispatch| dispatch.id != of.id);
        let nth = before.filter(|dispatch| is_same(reader, dispatch)).count();
        let partner = self.reader.dispatches().iter().filter(|dispatch| is_same(&self.reader, dispatch)).nth(nth);
        let partner =
            partner.with_context(|| format!("--against: expected dispatch {} of {name}, found fewer", nth + 1))?;
        request.analyse_as(&captured::taken(&self.reader, partner)?, &Variant::default())
    }
}

/// The values of both, of what was analysed of either.
fn values(this: &Analysed, other: &Analysed) -> Vec<(&'static str, Option<u64>, Option<u64>)> {
    let both = ROWS.iter().map(|(name, of)| (*name, of(this), of(other)));
    both.filter(|(_, this, other)| this.is_some() || other.is_some()).collect()
}

/// Lines for people: the numbers of both, and what is less and more in words.
pub(super) fn text(this: &Analysed, other: &Analysed, path: &Path) -> Vec<String> {
    let mut all = vec![format!("against dispatch {} of {}:", other.dispatch, file(path))];
    all.push(format!("  {:<36} {:>14} {:>14}", "", "this", "against"));
    let (mut fewer, mut more) = (Vec::new(), Vec::new());
    for (name, this, other) in values(this, other) {
        let shown = |value: Option<u64>| value.map_or_else(|| "0".to_owned(), |value| value.to_string());
        let (this_value, other_value) = (this.unwrap_or(0), other.unwrap_or(0));
        let change = if this_value == other_value {
            String::new()
        } else if other_value == 0 {
            "new".to_owned()
        } else {
            format!("{:+.1}%", 100.0 * (this_value as f64 / other_value as f64 - 1.0))
        };
        all.push(format!("  {name:<36} {:>14} {:>14} {change:>9}", shown(this), shown(other)).trim_end().to_owned());
        if this_value < other_value {
            fewer.push(name);
        } else if this_value > other_value {
            more.push(name);
        }
    }
    let list = |word: &str, names: &[&str]| (!names.is_empty()).then(|| format!("{word} {}", names.join(", ")));
    let words: Vec<String> = [list("fewer", &fewer), list("more", &more)].into_iter().flatten().collect();
    all.push(if words.is_empty() { "  the same".to_owned() } else { format!("  {}", words.join("; ")) });
    all
}

/// An object for programs: both values by name.
pub(super) fn json(this: &Analysed, other: &Analysed) -> Value {
    let value = |(name, this, other): (&str, Option<u64>, Option<u64>)| {
        (name.to_owned(), json!({ "this": this.unwrap_or(0), "against": other.unwrap_or(0) }))
    };
    let values: Map<String, Value> = values(this, other).into_iter().map(value).collect();
    json!({ "dispatch": this.dispatch, "against": other.dispatch, "compared": values })
}
