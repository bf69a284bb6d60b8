//! Prints results of replays, for people and for programs.

use std::path::PathBuf;

use logdur_replay::verify::{BufferReport, Overall, Verdict};
use logdur_replay::{Description, Exit, ReplayError, Report, Whose};
use serde_json::{Value, json};

use crate::cmd::output::demangled;

/// How the memory was placed.
pub(in crate::cmd) fn placed(attempt: u32, relocated: bool) -> String {
    match attempt {
        _ if relocated => "relocated".to_owned(),
        0 => "exact".to_owned(),
        retries => format!("exact after {retries} retries"),
    }
}

/// The last word: what was found, and whether that says less than it could.
pub(in crate::cmd) fn word(overall: Overall, weaknesses: &[String]) -> String {
    match overall {
        Overall::Pass if !weaknesses.is_empty() => "PASS (qualified)".to_owned(),
        overall => overall.to_string(),
    }
}

/// The word of a report.
fn word_of(report: &Report) -> String {
    let skipped = || "verification skipped".to_owned();
    report.overall.map_or_else(skipped, |overall| word(overall, &report.weaknesses))
}

/// What ran on what.
pub(in crate::cmd) fn heading(dispatch: u64, kernel: &str, device: &Description, placed: &str) -> String {
    format!(
        "dispatch {dispatch}: {} on {} {} ({}), placed: {placed}",
        demangled(kernel),
        device.isa,
        device.product,
        device.runtime,
    )
}

/// Lines for people. `folders` are those in which another kernel was looked for.
pub(super) fn text(report: &Report, attempt: u32, folders: &[PathBuf]) -> Vec<String> {
    let heading = heading(report.dispatch, &report.kernel, &report.device, &placed(attempt, report.relocated));
    let mut all = vec![format!("{heading}, scope: {}", report.scope)];
    all.push(format!("  code {}", report.code));
    if let Some((id, place)) = &report.replaced {
        all.push(format!("  replaced by {id}, {place}"));
    }
    if report.replaced.is_none() && !folders.is_empty() {
        let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        all.push(format!("  not replaced: no other code for this kernel in {}", folders.join(", ")));
    }
    all.extend(whose(report).map(|text| format!("  {text}")));
    for (number, repetition) in report.repetitions.iter().enumerate().take(report.asked) {
        let verified = if repetition.verified { "verified" } else { "verification skipped" };
        let times = repetition.times;
        all.push(format!(
            "  repetition {number}: GPU {} ns, launch and wait {} ns, {verified}",
            times.gpu_ns, times.host_ns
        ));
    }
    let more = report.repetitions.len().saturating_sub(report.asked);
    if more > 0 {
        all.push(format!("  and {more} more repetitions to decide"));
    }
    if report.own_replays > 0 {
        all.push(format!("  alternated with {} replays of the application's own kernel", report.own_replays));
    }
    if let Some(recorded) = report.recorded_ns {
        all.push(format!("  recorded: GPU {recorded} ns"));
    }
    // Of memory that nothing names, only what was changed.
    let told = |b: &&BufferReport| b.verdict != Verdict::Untouched || b.buffer.is_named();
    all.extend(report.buffers.iter().filter(told).flat_map(buffer));
    all.extend(report.weaknesses.iter().map(|text| format!("  qualified: {text}")));
    all.push(word_of(report));
    all
}

/// Which of the kernels of a dispatch was replayed, if another one than the application's ran.
fn whose(report: &Report) -> Option<String> {
    let ran = report.ran_instead?;
    let which = match report.whose() {
        Whose::Captured => return Some("this is the kernel that ran in the place of the application's own".to_owned()),
        Whose::Original => "this is the application's own kernel",
        Whose::Applications | Whose::Other => "this is neither of the two kernels of the dispatch",
    };
    Some(format!("{which}; the reference is {ran}, which ran in the place of the application's own"))
}

/// What was found of a buffer, for people.
pub(in crate::cmd) fn buffer(report: &BufferReport) -> Vec<String> {
    let b = &report.buffer;
    let mut line = format!("  {:<16} {} {}", report.verdict.to_string(), b.name, b.element_type);
    if !b.tolerance.is_exact() {
        line += &format!(" ({})", b.tolerance);
    }
    line += &format!(": {} bytes written, {} replayed", report.written, report.replayed);
    let counts = [
        (report.mismatches, "elements differ"),
        (report.strange, "masked elements of values that the application's kernel does not compute"),
        (report.unreproduced, "elements that the application's kernel does not compute again"),
        (report.outside, "elements elsewhere changed"),
        (report.near, "elements near"),
        (report.nans, "other NaNs"),
        (report.masked, "bytes masked"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        line += &format!(", {count} {what}");
    }
    let largest = [
        ("abs", report.max_abs.map(|v| format!("{v:e}"))),
        ("rel", report.max_rel.map(|v| format!("{v:e}"))),
        ("ulp", report.max_ulp.map(|v| v.to_string())),
    ];
    for (name, value) in largest {
        if let Some(value) = value {
            line += &format!(", max {name} {value}");
        }
    }
    let mut all = vec![line];
    if let Some(first) = &report.first {
        all.push(format!(
            "    first: {}[{}] at {:#x}: expected {}, found {}, before {}",
            b.name, first.index, first.address, first.expected, first.found, first.before
        ));
    }
    all
}

/// An object for programs.
pub(super) fn json(report: &Report, attempt: u32, status: Exit) -> Value {
    let buffers: Vec<Value> = report.buffers.iter().map(buffer_json).collect();
    let repetitions: Vec<Value> = report
        .repetitions
        .iter()
        .map(|r| json!({ "gpu_ns": r.times.gpu_ns, "host_ns": r.times.host_ns, "verified": r.verified }))
        .collect();
    json!({
        "dispatch": report.dispatch,
        "kernel": report.kernel,
        "demangled": demangled(&report.kernel),
        "result": word_of(report),
        "status": status as u8,
        "placed": placed(attempt, report.relocated),
        "scope": report.scope.to_string(),
        "qualified": report.weaknesses,
        "code": report.code.to_string(),
        "replaced_by": report.replaced.as_ref().map(|(id, _)| id.to_string()),
        "replaced_from": report.replaced.as_ref().map(|(_, place)| place),
        "ran_instead": report.ran_instead.map(|id| id.to_string()),
        "replays": match report.whose() {
            Whose::Applications | Whose::Original => "original",
            Whose::Captured => "captured",
            Whose::Other => "other",
        },
        "isa": report.device.isa,
        "product": report.device.product,
        "emulated": report.device.emulated,
        "runtime": report.device.runtime,
        "recorded_ns": report.recorded_ns,
        "repetitions": repetitions,
        "own_replays": report.own_replays,
        "buffers": buffers,
    })
}

/// What was found of a buffer, for programs.
pub(in crate::cmd) fn buffer_json(report: &BufferReport) -> Value {
    let b = &report.buffer;
    let first = report.first.as_ref().map(|f| {
        json!({
            "index": f.index, "address": f.address, "before": f.before, "expected": f.expected, "found": f.found,
        })
    });
    // JSON has no infinities.
    let number = |value: Option<f64>| value.map(|v| if v.is_finite() { json!(v) } else { json!(v.to_string()) });
    json!({
        "name": b.name, "start": b.start, "end": b.end, "type": b.element_type.to_string(),
        "tolerance": (!b.tolerance.is_exact()).then(|| b.tolerance.to_string()),
        "verdict": report.verdict.to_string(),
        "written": report.written, "replayed": report.replayed, "mismatches": report.mismatches,
        "outside": report.outside, "strange": report.strange, "unreproduced": report.unreproduced,
        "near": report.near, "nans": report.nans, "masked": report.masked, "changed": report.changed,
        "max_abs": number(report.max_abs), "max_rel": number(report.max_rel), "max_ulp": report.max_ulp,
        "first": first,
    })
}

/// An error as an object for programs.
pub(in crate::cmd) fn error(dispatch: u64, error: &anyhow::Error, status: Exit) -> Value {
    let fault = match error.downcast_ref::<ReplayError>() {
        Some(ReplayError::Fault(fault)) => Some(json!({ "address": fault.address, "nearest": fault.nearest })),
        _ => None,
    };
    json!({ "dispatch": dispatch, "result": format!("{status:?}"), "status": status as u8, "error": format!("{error:#}"), "fault": fault })
}
