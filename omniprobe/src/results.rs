//! Parts of what is said of results of replays, for people and for programs.

use logdur_captured::verify::{BufferReport, Overall};
use logdur_replay::region::Reshaped;
use logdur_replay::stats::Pairs;
use logdur_replay::{Description, ReplayError};
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use super::output::demangled;

/// The probability of a chance that is taken for none.
const CHANCE: f64 = 0.05;

/// How the memory was placed.
pub(crate) fn placed(attempt: u32, relocated: bool) -> String {
    match attempt {
        _ if relocated => "relocated".to_owned(),
        0 => "exact".to_owned(),
        retries => format!("exact after {retries} retries"),
    }
}

/// The last word: what was found, and whether that says less than it could.
pub(crate) fn word(overall: Overall, qualified: &[String]) -> String {
    match overall {
        Overall::Pass if !qualified.is_empty() => "PASS (qualified)".to_owned(),
        overall => overall.to_string(),
    }
}

/// A kernel whose dispatches have another geometry, for people.
pub(crate) fn reshaped(of: &Reshaped) -> String {
    format!("  {} dispatches of {} have {}", of.dispatches, demangled(&of.kernel), of.geometry)
}

/// The same, for programs.
pub(crate) fn reshaped_json(of: &Reshaped) -> Value {
    let mut all = json!({ "kernel": of.kernel, "dispatches": of.dispatches });
    if let (Value::Object(all), Ok(Value::Object(geometry))) = (&mut all, serde_json::to_value(of.geometry)) {
        all.extend(geometry);
    }
    all
}

/// What is said of another kernel that passed on the captured bytes alone.
pub(crate) const ONE_PATTERN: &str = "one pattern of memory: verify --backend emu compares on a second one";

/// What ran on what.
pub(crate) fn heading(dispatch: u64, kernel: &str, device: &Description, placed: &str) -> String {
    format!(
        "dispatch {dispatch}: {} on {} {} ({}), placed: {placed}",
        demangled(kernel),
        device.isa,
        device.product,
        device.runtime,
    )
}

/// What was found of a buffer, for people.
pub(crate) fn buffer(report: &BufferReport) -> Vec<String> {
    let b = &report.buffer;
    let mut line = format!("  {:<16} {} {}", report.verdict.to_string(), b.name, b.element_type);
    if !b.tolerance.is_exact() {
        line += &format!(" ({})", b.tolerance);
    }
    line += &format!(": {} bytes changed, {} replayed", report.written, report.replayed);
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

/// What was found of a buffer, for programs.
pub(crate) fn buffer_json(report: &BufferReport) -> Value {
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
pub(crate) fn error(dispatch: u64, error: &anyhow::Error, status: Exit) -> Value {
    let fault = match error.downcast_ref::<ReplayError>() {
        Some(ReplayError::Fault(fault) | ReplayError::LeftOut { fault, .. }) => {
            Some(json!({ "address": fault.address, "nearest": fault.nearest }))
        }
        _ => None,
    };
    json!({ "dispatch": dispatch, "result": format!("{status:?}"), "status": status as u8, "error": format!("{error:#}"), "fault": fault })
}

/// Says which of two measured kernels is faster. It says so only if the difference is significant and the device is not emulated.
pub(crate) fn compared(pairs: &Pairs, emulated: bool, names: [&str; 2]) -> String {
    let numbers = format!("{:.4}, the median of {} pairs, p = {:.2e}", pairs.ratio, pairs.count, pairs.p);
    format!("{numbers}: {}", verdict(pairs, emulated, names))
}

/// The same for programs.
pub(crate) fn compared_json(pairs: &Pairs, emulated: bool, names: [&str; 2]) -> Value {
    let verdict = verdict(pairs, emulated, names);
    json!({ "ratio": pairs.ratio, "pairs": pairs.count, "p": pairs.p, "verdict": verdict })
}

fn verdict(pairs: &Pairs, emulated: bool, [first, second]: [&str; 2]) -> String {
    match pairs.ratio {
        _ if emulated => "no verdict, it is emulated".to_owned(),
        _ if pairs.p >= CHANCE => "no significant difference".to_owned(),
        ratio if ratio < 1.0 => format!("{second} is faster"),
        ratio if ratio > 1.0 => format!("{first} is faster"),
        _ => "as fast".to_owned(),
    }
}
