//! Measures regions, and prints that for people and for programs.

use anyhow::Result;
use logdur_captured::region::CapturedPart;
use logdur_captured::verify::Overall;
use logdur_replay::Setup;
use logdur_replay::region::{self, Bench, Measured};
use logdur_replay::stats::Summary;
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use super::{Options, RUNS};
use crate::output::{demangled, lines};
use crate::region::{Parts, beside, beside_json};
use crate::results::{buffer, buffer_json, placed, reshaped, reshaped_json, word};

/// Measures a region from its beginning to its end, or up to a dispatch.
///
/// # Errors
/// When the capture cannot be read, or this program not be started again.
pub(super) fn run(options: &Options) -> Result<Exit> {
    let parts = Parts::of(&options.target, &options.region, &options.variant);
    parts.each(|region| vec![region.whole()], |part| measure(options, part))
}

fn measure(options: &Options, part: &CapturedPart<'_>) -> Result<Exit> {
    let how = region::Options {
        repetitions: options.repetitions.unwrap_or(RUNS),
        verified: !options.no_verify,
        setup: Setup { concurrent: options.order.concurrent, ..options.target.setup() },
        variant: options.variant.of_part(&options.target.captured, part),
    };
    let found = region::bench(part, &how, options.warm_up)?;
    let status = if options.no_verify { Exit::Success } else { found.overall.into() };
    let attempt = options.target.device.attempt;
    if options.target.json {
        lines([as_json(&found, attempt, status).to_string()])?;
    } else {
        lines(text(&found, attempt))?;
    }
    Ok(status)
}

/// A median with its spread, in seconds.
fn seconds(summary: &Summary) -> String {
    let s = |ns: f64| ns / 1e9;
    let sure = if summary.is_sure() { "95 % between" } else { "too few runs to be sure: between" };
    format!(
        "median {:.6} s, {sure} {:.6} and {:.6} s; {} runs, min {:.6}, MAD {:.6}, p95 {:.6} s",
        s(summary.median_ns),
        s(summary.low_ns),
        s(summary.high_ns),
        summary.runs,
        s(summary.min_ns as f64),
        s(summary.mad_ns),
        s(summary.p95_ns as f64)
    )
}

fn text(found: &Bench, attempt: u32) -> Vec<String> {
    let device = &found.device;
    let mut all = vec![format!(
        "region {}, {} steps on {} {} ({}), placed: {}",
        found.region,
        found.steps,
        device.isa,
        device.product,
        device.runtime,
        placed(attempt, found.relocated)
    )];
    all.extend(
        found.replaced.iter().map(|of| format!("  {} replaced by {}, {}", demangled(&of.kernel), of.id, of.place)),
    );
    all.extend(found.reshaped.iter().map(reshaped));
    all.push(format!("  {}", word(found.overall, &found.qualified)));
    if found.overall != Overall::Pass {
        all.extend(found.buffers.iter().filter(|b| b.verdict.is_failure()).flat_map(buffer));
    }
    all.extend(found.qualified.iter().map(|text| format!("  qualified: {text}")));
    all.extend(found.together.iter().map(|together| beside(together, found.steps)));
    if found.measured.host.is_none() {
        all.push("  not measured, since it did not pass; --no-verify measures it nevertheless".to_owned());
    }
    let [of_own, of_others] = if found.own.is_some() { ["the application's own: ", "others: "] } else { [""; 2] };
    all.extend(found.own.iter().flat_map(|own| measured(own, of_own)));
    all.extend(measured(&found.measured, of_others));
    if let Some(pairs) = found.ratio.filter(|_| found.measured.host.is_some()) {
        all.push(format!(
            "  others by the application's own, all steps: {:.4} (median of {} pairs, p {:.2})",
            pairs.ratio, pairs.count, pairs.p
        ));
    }
    if found.device.emulated {
        all.push("  emulated: these times say nothing about hardware".to_owned());
    }
    all
}

/// The times of one side.
fn measured(times: &Measured, of: &str) -> Vec<String> {
    let (Some(host), Some(gpu)) = (&times.host, &times.gpu) else { return Vec::new() };
    let mut all = vec![format!("  {of}all steps {}", seconds(host)), format!("  {of}on the GPU {}", seconds(gpu))];
    all.extend(times.gaps.iter().map(|gaps| format!("  {of}between launches {}", seconds(gaps))));
    for kernel in &times.kernels {
        all.push(format!(
            "  {of}{:5.1} % {}: {} launches, {:.0} ns",
            100.0 * kernel.share,
            demangled(&kernel.kernel),
            kernel.launches,
            kernel.gpu_ns
        ));
    }
    all
}

fn measured_json(times: &Measured) -> Value {
    let kernels = times.kernels.iter().map(|kernel| {
        json!({
            "kernel": kernel.kernel, "launches": kernel.launches, "gpu_ns": kernel.gpu_ns, "share": kernel.share,
        })
    });
    json!({ "host": times.host, "gpu": times.gpu, "gaps": times.gaps, "kernels": kernels.collect::<Vec<_>>() })
}

fn as_json(found: &Bench, attempt: u32, status: Exit) -> Value {
    let replaced = found
        .replaced
        .iter()
        .map(|of| json!({ "kernel": of.kernel, "replaced_by": of.id.to_string(), "replaced_from": of.place }));
    let mut all = json!({
        "region": found.region,
        "steps": found.steps,
        "result": word(found.overall, &found.qualified),
        "status": status as u8,
        "placed": placed(attempt, found.relocated),
        "qualified": found.qualified,
        "replaced": replaced.collect::<Vec<_>>(),
        "reshaped": found.reshaped.iter().map(reshaped_json).collect::<Vec<_>>(),
        "isa": found.device.isa,
        "product": found.device.product,
        "emulated": found.device.emulated,
        "runtime": found.device.runtime,
        "concurrent": found.together.map(beside_json),
        "own": found.own.as_ref().map(measured_json),
        "ratio": found.ratio.map(|pairs| json!({ "pairs": pairs.count, "median": pairs.ratio, "p": pairs.p })),
        "buffers": found.buffers.iter().map(buffer_json).collect::<Vec<_>>(),
    });
    if let (Value::Object(all), Value::Object(times)) = (&mut all, measured_json(&found.measured)) {
        all.extend(times);
    }
    all
}
