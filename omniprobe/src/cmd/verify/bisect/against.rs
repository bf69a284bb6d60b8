//! The first dispatch of a region that computes something else than that of another capture, or than on another processor.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use logdur_captured::region::{CapturedPart, Region};
use logdur_captured::{CapturedError, processor};
use logdur_replay::region::{self, Wanted};
use omniprobe_exit::Exit;
use serde_json::json;

use super::super::Options;
use super::{Bisect, Other, commands, found_json, found_text, heading, how};
use crate::captured::{open, opened};
use crate::exit::Failure;
use crate::output::{demangled, file, lines};
use crate::private_folder::PrivateFolder;
use crate::region::Parts;

/// Writes what each step of a region changes into a file.
pub(super) fn record(options: &Options, part: &CapturedPart<'_>, path: &Path) -> Result<Exit> {
    let mut how = how(options, part);
    how.setup.processor.clone_from(&options.bisection.against_processor);
    region::record(part, &how, path)?;
    Ok(Exit::Success)
}

/// Replays the other side, then this one, and compares.
pub(super) fn run(options: &Options, parts: &Parts<'_>, other: Other<'_>, bisect: Bisect) -> Result<Exit> {
    let refused = |expected: &str, found: &str| {
        let (what, expected, found) = (option(other).to_owned(), expected.to_owned(), found.to_owned());
        Err(CapturedError::Usage { what, expected, found }.into())
    };
    if bisect != Bisect::Replay(Wanted::Difference) {
        return refused("--bisect alone, or --bisect difference", "another --bisect");
    }
    if let Some(trace) = &options.bisection.trace_of {
        return parts.each(|region| vec![region.whole()], |part| compare(options, part, other, trace));
    }
    let program = std::env::current_exe().context("where this program is")?;
    let folder = PrivateFolder::new()?;
    let trace = folder.path().join("steps");
    let mut replay = Command::new(&program);
    let what = match other {
        Other::Capture(path) => {
            // What is wrong with it is told once.
            Region::of(&open(path)?, None)?;
            replay.args(["verify", "--quiet"]).arg(path).args(["--region", "--bisect"]);
            replay.args(options.target.device.place_words());
            file(path)
        }
        Other::Processor(name) => {
            if !options.target.device.is_without_runtime() {
                return refused("--backend emu: both processors are emulated", "a runtime");
            }
            replay.args(std::env::args_os().skip(1));
            format!("{} on {name}", file(&options.target.captured.file))
        }
    };
    replay.arg("--trace-to").arg(&trace).stdin(Stdio::null());
    let ended = replay.status().context("starting the replay of the other side")?;
    if !ended.success() {
        let exit = ended.code().and_then(|code| Exit::ALL.iter().copied().find(|exit| *exit as i32 == code));
        let text = format!("{what}: it was not replayed");
        return Err(Failure { exit: exit.unwrap_or(Exit::Environment), text }.into());
    }
    let mut compare = Command::new(&program);
    compare.args(std::env::args_os().skip(1)).arg("--trace-of").arg(&trace).stdin(Stdio::null());
    let ended = compare.status().context("starting the comparison")?;
    let exit = ended.code().and_then(|code| Exit::ALL.iter().copied().find(|exit| *exit as i32 == code));
    Ok(exit.unwrap_or(Exit::Fault))
}

/// The option that asks for a side.
fn option(other: Other<'_>) -> &'static str {
    match other {
        Other::Capture(_) => "--against",
        Other::Processor(_) => "--against-processor",
    }
}

fn compare(options: &Options, part: &CapturedPart<'_>, other: Other<'_>, trace: &Path) -> Result<Exit> {
    let mut how = how(options, part);
    let id = part.region.record.id;
    let (found, place, of_partner) = match other {
        Other::Capture(path) => {
            let reader = opened(path)?;
            let other_region = Region::of(&reader, None)?;
            let other_part = CapturedPart::of(&other_region, other_region.whole())?;
            let found = region::against(part, &how, region::Other::Part(&other_part), trace)?;
            (found, file(path), Some((path, other_region.record.id)))
        }
        Other::Processor(name) => {
            let captured = part.captured.agent.map_or("", |agent| processor(&agent.isa));
            if name.split(':').next() == Some(captured) {
                let (what, expected) = (option(other).to_owned(), format!("another processor than {captured}"));
                return Err(CapturedError::Usage { what, expected, found: name.to_owned() }.into());
            }
            // Other code is for the other processor.
            how.variant = logdur_replay::Variant::default();
            (region::against(part, &how, region::Other::Processor, trace)?, name.to_owned(), None)
        }
    };
    let status = match (&found.found, &found.unproven) {
        (Some(_), _) => Exit::Mismatch,
        _ if found.aligned == 0 => Exit::NothingToCompare,
        (None, Some(_)) => Exit::Inconclusive,
        (None, None) => Exit::Success,
    };
    let shown = found.found.as_ref().map_or_else(Vec::new, |(at, partner)| {
        let Some((path, of)) = of_partner else {
            let mut commands = commands(options, id, &at.launched, None);
            commands
                .iter_mut()
                .skip(1)
                .for_each(|verify| *verify = format!("{verify} --bisect --against-processor {place}"));
            return commands;
        };
        let mut ours = commands(options, id, &at.launched, Some("analyze"));
        ours.truncate(1);
        let their = format!("--region={of} --dispatch {}", partner.dispatch);
        ours.push(format!("omniprobe extract {} {their} -o other.ldcap", file(path)));
        ours
    });
    if options.target.json {
        let first = found.found.as_ref().map(|(at, partner)| {
            let mut object = found_json(at, &shown);
            object["partner"] = json!({ "step": partner.step, "dispatch": partner.dispatch, "kernel": partner.kernel });
            object
        });
        let all = json!({
            "region": id, "first_step": part.part.first, "last_step": part.part.last, "first": first,
            "unproven": found.unproven, "aligned": found.aligned, "by_ranges": found.by_ranges, "dispatches": found.dispatches,
            "other_dispatches": found.others, "other": place, "qualified": found.qualified, "status": status as u8,
            "isa": found.device.isa, "product": found.device.product, "emulated": found.device.emulated,
        });
        lines([all.to_string()])?;
        return Ok(status);
    }
    let mut all = heading(id, &part.part, &found.device, &found.qualified);
    let (aligned, ours, theirs) = (found.aligned, found.dispatches, found.others);
    let and_ranges = if found.by_ranges { " and their ranges" } else { "" };
    all.push(match of_partner {
        Some(_) => format!(
            "  {aligned} dispatches have a partner by the names of their kernels{and_ranges}, of {ours} here and {theirs} in {place}"
        ),
        None => format!("  {aligned} dispatches are compared with themselves on {place}"),
    });
    match (&found.found, &found.unproven) {
        (Some((at, partner)), unproven) => {
            all.extend(unproven.iter().map(|text| format!("  before it: {text}")));
            all.extend(found_text(at, "the first dispatch that computes something else from the same", "there"));
            if of_partner.is_some() {
                let kernel = demangled(&partner.kernel);
                all.push(format!("  its partner is step {}, dispatch {}, {kernel}", partner.step, partner.dispatch));
            }
            all.extend(shown.iter().map(|command| format!("  {command}")));
        }
        (None, Some(text)) => all.push(format!("no dispatch is proven to differ: {text}")),
        (None, None) => all.push(format!("each of {aligned} dispatches leaves the same as its partner")),
    }
    lines(all)?;
    Ok(status)
}
