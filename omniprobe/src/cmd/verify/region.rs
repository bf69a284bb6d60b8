//! Replays of regions, for people and for programs.

use anyhow::Result;
use logdur_captured::region::{CapturedPart, Region};
use logdur_captured::verify::{BufferReport, Overall, Verdict};
use logdur_replay::Setup;
use logdur_replay::region::{self, Launched, Reference, Report};
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use super::Options;
use crate::output::{demangled, lines};
use crate::region::{Parts, beside, beside_json, brought_json, decided, name};
use crate::results::{buffer, buffer_json, placed, reshaped, reshaped_json, word};

/// Replays the parts of a region, and compares so many repetitions of each.
///
/// # Errors
/// When the capture cannot be read, or this program not be started again.
pub(super) fn run(options: &Options, verified: u32) -> Result<Exit> {
    let all = |region: &Region<'_>| if verified > 0 { region.parts() } else { vec![region.whole()] };
    Parts::of(&options.target, &options.region, &options.variant).each(all, |part| replay(options, verified, part))
}

fn replay(options: &Options, verified: u32, part: &CapturedPart<'_>) -> Result<Exit> {
    let how = region::Options {
        repetitions: options.repetitions,
        verified: verified > 0,
        setup: Setup { concurrent: options.order.concurrent, ..options.target.setup() },
        variant: options.variant.of_part(&options.target.captured, part),
    };
    let report = region::replay(part, &how)?;
    let status = match report.overall {
        Some(Overall::Pass) if options.strict && !report.qualified.is_empty() => Exit::Incomplete,
        overall => overall.map_or(Exit::Success, Exit::from),
    };
    let attempt = options.target.device.attempt;
    let of_part = |(step, _): &(u64, u64)| (part.part.first..=part.part.last).contains(step);
    let brought: Vec<(u64, u64)> = part.region.brought().into_iter().filter(of_part).collect();
    if options.target.json {
        lines([as_json(&report, &brought, attempt, status).to_string()])?;
    } else {
        lines(text(&report, &brought, attempt))?;
    }
    Ok(status)
}

fn word_of(report: &Report) -> String {
    report.overall.map_or_else(|| "verification skipped".to_owned(), |overall| word(overall, &report.qualified))
}

/// A launch by its step, number and kernel.
fn launched(launched: &Launched) -> String {
    format!("step {}, dispatch {}, {}", launched.step, launched.dispatch, demangled(&launched.kernel))
}

fn text(report: &Report, brought: &[(u64, u64)], attempt: u32) -> Vec<String> {
    let device = &report.device;
    let mut all = vec![format!(
        "{} on {} {} ({}), placed: {}",
        name(report.region, &report.part),
        device.isa,
        device.product,
        device.runtime,
        placed(attempt, report.relocated)
    )];
    let from = match report.part.start {
        Some(_) => format!("the checkpoint after step {}", report.part.first.saturating_sub(1)),
        None => "the beginning of the region".to_owned(),
    };
    let with = match report.part.reference {
        Some(_) => format!("the application's memory after step {}", report.part.last),
        None => "no memory of the application: the capture has none after the last step".to_owned(),
    };
    all.push(format!("  from {from}, compared with {with}"));
    let dispatches = report.dispatches.iter().map(|(kernel, count)| format!("{count} of {}", demangled(kernel)));
    all.push(format!("  dispatches: {}", dispatches.collect::<Vec<_>>().join(", ")));
    all.extend(
        report.replaced.iter().map(|of| format!("  {} replaced by {}, {}", demangled(&of.kernel), of.id, of.place)),
    );
    all.extend(report.reshaped.iter().map(reshaped));
    let steps = (1 + report.part.last).saturating_sub(report.part.first);
    all.extend(report.together.iter().map(|together| beside(together, steps)));
    for (number, times) in report.repetitions.iter().enumerate().take(report.asked) {
        all.push(format!("  repetition {number}: GPU {} ns, all steps {} ns", times.gpu_ns, times.host_ns));
    }
    let more = report.repetitions.len().saturating_sub(report.asked);
    if more > 0 {
        all.push(format!("  and {more} more repetitions to decide"));
    }
    if report.own_replays > 0 {
        all.push(format!("  alternated with {} replays of the application's own kernels", report.own_replays));
    }
    let told = |b: &&BufferReport| b.verdict != Verdict::Untouched || b.buffer.is_named();
    all.extend(report.buffers.iter().filter(told).flat_map(buffer));
    if let Some(hashes) = &report.hashes {
        all.push(match &hashes.differs {
            None => {
                format!("  each of {} dispatches left what it left in the application, by hashes", hashes.dispatches)
            }
            Some((first, bases)) => {
                let bases: Vec<String> = bases.iter().map(|base| format!("{base:#x}")).collect();
                format!(
                    "  the first that left something else is {}: the memory at {}",
                    launched(first),
                    bases.join(", ")
                )
            }
        });
    }
    all.extend(report.mask_begins.iter().map(|begins| format!("  the mask begins at {}", launched(begins))));
    all.extend(decided(brought).map(|text| format!("  {text}")));
    all.extend(report.qualified.iter().map(|text| format!("  qualified: {text}")));
    all.push(word_of(report));
    all
}

fn as_json(report: &Report, brought: &[(u64, u64)], attempt: u32, status: Exit) -> Value {
    let begins = report.mask_begins.as_ref();
    let repetitions =
        report.repetitions.iter().map(|times| json!({ "gpu_ns": times.gpu_ns, "host_ns": times.host_ns }));
    let replaced = report
        .replaced
        .iter()
        .map(|of| json!({ "kernel": of.kernel, "replaced_by": of.id.to_string(), "replaced_from": of.place }));
    json!({
        "region": report.region,
        "first_step": report.part.first,
        "last_step": report.part.last,
        "from_checkpoint": report.part.start.is_some(),
        "has_reference": report.part.reference.is_some(),
        "result": word_of(report),
        "status": status as u8,
        "placed": placed(attempt, report.relocated),
        "qualified": report.qualified,
        "dispatches": report.dispatches,
        "replaced": replaced.collect::<Vec<_>>(),
        "reshaped": report.reshaped.iter().map(reshaped_json).collect::<Vec<_>>(),
        "isa": report.device.isa,
        "product": report.device.product,
        "emulated": report.device.emulated,
        "runtime": report.device.runtime,
        "repetitions": repetitions.collect::<Vec<_>>(),
        "own_replays": report.own_replays,
        "reference": report.reference.map(Reference::word),
        "hashes": report.hashes.as_ref().map(|hashes| json!({
            "dispatches": hashes.dispatches,
            "left_out": hashes.left_out,
            "differs": hashes.differs.as_ref().map(|(at, bases)| json!({
                "step": at.step, "dispatch": at.dispatch, "kernel": at.kernel, "allocations": bases,
            })),
        })),
        "brought_to_host": brought_json(brought),
        "concurrent": report.together.map(beside_json),
        "mask_begins": begins.map(|at| json!({ "step": at.step, "dispatch": at.dispatch, "kernel": at.kernel })),
        "buffers": report.buffers.iter().map(buffer_json).collect::<Vec<_>>(),
    })
}
