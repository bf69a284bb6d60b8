//! Prints measurements, for people and for programs.

use logdur_captured::verify::Overall;
use logdur_replay::bench::{Options, Report, Restore, Side};
use logdur_replay::stats::Summary;
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use super::pmc::{self, Counters};
use crate::output::demangled;
use crate::results::{ONE_PATTERN, buffer, buffer_json, compared, compared_json, heading, placed, word};

/// Lines for people.
pub(super) fn text(report: &Report, how: &Options, counters: &Counters, attempt: u32) -> Vec<String> {
    let mut all = vec![heading(report.dispatch, &report.kernel, &report.device, &placed(attempt, report.relocated))];
    let restored = match how.restore {
        Restore::Dirty => "the changed memory",
        Restore::Full => "all memory",
        Restore::None => "nothing",
    };
    let took = report.restore_ns.map_or_else(String::new, |ns| format!(" in {ns} ns"));
    let caches = if how.cold { "cold" } else { "warm" };
    all.push(format!(
        "  restored before each run: {restored}, {} of {} bytes{took}; caches are {caches}",
        report.restored, report.bytes
    ));
    for ((side, name), rows) in report.sides.iter().zip(names(report)).zip(&counters.sides) {
        all.extend(self::side(side, name, report.recorded_ns));
        if is_measured(side) {
            all.extend(pmc::text(rows, counters.passes).into_iter().map(|line| format!("  {name}{line}")));
        }
    }
    all.extend(counters.qualified.iter().map(|why| format!("  counters: qualified: {why}")));
    if let Some(recorded) = report.recorded_ns {
        all.push(format!("  recorded: GPU {recorded} ns"));
    }
    all.extend(
        report.pairs.iter().map(|pairs| format!("  B/A: {}", compared(pairs, report.device.emulated, ["A", "B"]))),
    );
    if report.device.emulated {
        all.push("  emulated: these times say nothing about hardware".to_owned());
    }
    all
}

/// True of a kernel that was measured: others have no counters, either.
fn is_measured(side: &Side) -> bool {
    !side.gpu_ns.is_empty()
}

/// What kernels are called when there are two.
fn names(report: &Report) -> &'static [&'static str] {
    if report.sides.len() > 1 { &["A: ", "B: "] } else { &[""] }
}

fn side(side: &Side, name: &str, recorded: Option<u64>) -> Vec<String> {
    let mut all = Vec::new();
    if let Some((id, place)) = &side.replaced {
        all.push(format!("  {name}replaced by {id}, {place}"));
    }
    all.push(format!("  {name}{}", word(side.overall, &side.qualified)));
    if side.overall != Overall::Pass {
        all.extend(side.buffers.iter().filter(|b| b.verdict.is_failure()).flat_map(buffer));
    }
    all.extend(side.qualified.iter().map(|text| format!("  {name}qualified: {text}")));
    all.extend(side.one_pattern.then(|| format!("  {name}{}", ONE_PATTERN)));
    let Some(s) = &side.summary else {
        let why = match side.overall {
            Overall::Pass => "the other one did not pass",
            Overall::Fail => "it computes something else",
            Overall::NotReproduced => "replays of the application's own kernel do not reproduce its results",
            Overall::Inconclusive => "the application's own kernel is not deterministic",
            Overall::NothingWritten => "it writes nothing",
            Overall::NoReference => "the capture does not have the memory after the kernel",
        };
        all.push(format!("  {name}not measured: {why}; --no-verify measures it nevertheless"));
        return all;
    };
    let sure = if s.is_sure() { "95 % between" } else { "too few runs to be sure: between" };
    all.push(format!(
        "  {name}GPU median {} ns, {sure} {} and {} ns; {} runs, min {}, MAD {}, p95 {} ns",
        s.median_ns, s.low_ns, s.high_ns, s.runs, s.min_ns, s.mad_ns, s.p95_ns
    ));
    if s.bimodal {
        all.push(format!("  {name}bimodal: the runs form two groups, and the median is typical of neither"));
    }
    if let Some(host) = Summary::of(&side.host_ns) {
        all.push(format!("  {name}launch and wait median {} ns", host.median_ns));
    }
    all.extend(ratio(s, recorded).map(|ratio| format!("  {name}replayed/recorded {ratio:.3}")));
    all
}

/// Replayed by recorded.
fn ratio(summary: &Summary, recorded: Option<u64>) -> Option<f64> {
    recorded.map(|recorded| summary.median_ns / recorded as f64)
}

/// The status of the first kernel that did not pass, or success.
pub(super) fn status(report: &Report) -> Exit {
    let failed = report.sides.iter().find(|side| side.overall != Overall::Pass);
    failed.map_or(Exit::Success, |side| side.overall.into())
}

/// An object for programs.
pub(super) fn json(report: &Report, how: &Options, counters: &Counters, attempt: u32) -> Value {
    let sides: Vec<Value> = report
        .sides
        .iter()
        .zip(&counters.sides)
        .map(|(side, rows)| side_json(side, rows, report.recorded_ns))
        .collect();
    let compared = report.pairs.as_ref().map(|pairs| compared_json(pairs, report.device.emulated, ["A", "B"]));
    json!({
        "dispatch": report.dispatch,
        "kernel": report.kernel,
        "demangled": demangled(&report.kernel),
        "status": status(report) as u8,
        "placed": placed(attempt, report.relocated),
        "isa": report.device.isa,
        "product": report.device.product,
        "emulated": report.device.emulated,
        "runtime": report.device.runtime,
        "recorded_ns": report.recorded_ns,
        "restore": format!("{:?}", how.restore).to_lowercase(),
        "restored_bytes": report.restored,
        "restore_ns": report.restore_ns,
        "bytes": report.bytes,
        "cache_state": if how.cold { "cold" } else { "warm" },
        "sides": sides,
        "compared": compared,
        "counter_passes": counters.passes,
        "counters_qualified": counters.qualified,
    })
}

fn side_json(side: &Side, rows: &[pmc::Row], recorded: Option<u64>) -> Value {
    json!({
        "result": word(side.overall, &side.qualified),
        "qualified": side.qualified,
        "one_pattern": side.one_pattern,
        "replaced_by": side.replaced.as_ref().map(|(id, _)| id.to_string()),
        "replaced_from": side.replaced.as_ref().map(|(_, place)| place),
        "gpu": side.summary,
        "host": Summary::of(&side.host_ns),
        "replayed_by_recorded": side.summary.as_ref().and_then(|s| ratio(s, recorded)),
        "gpu_ns": side.gpu_ns,
        "host_ns": side.host_ns,
        "counters": if is_measured(side) { pmc::json(rows) } else { Vec::new() },
        "buffers": side.buffers.iter().map(buffer_json).collect::<Vec<_>>(),
    })
}
