//! Prints results of replays, for people and for programs.

use std::path::PathBuf;

use logdur_captured::verify::{BufferReport, Verdict};
use logdur_replay::{Report, Whose};
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use crate::output::demangled;
use crate::results::{ONE_PATTERN, buffer, buffer_json, heading, placed, word};

/// The word of a report.
fn word_of(report: &Report) -> String {
    let skipped = || "verification skipped".to_owned();
    report.overall.map_or_else(skipped, |overall| word(overall, &report.qualified))
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
    all.extend(report.qualified.iter().map(|text| format!("  qualified: {text}")));
    all.extend(report.one_pattern.then(|| format!("  {ONE_PATTERN}")));
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
        "qualified": report.qualified,
        "one_pattern": report.one_pattern,
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
