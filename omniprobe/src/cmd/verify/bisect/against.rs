//! The first dispatch of a region that computes something else than that of another capture.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use logdur_captured::CapturedError;
use logdur_captured::region::{CapturedPart, Region};
use logdur_replay::region::{self, Wanted};
use omniprobe_exit::Exit;
use serde_json::json;

use super::super::Options;
use super::{Bisect, commands, found_json, found_text, heading, how};
use crate::captured::{open, opened};
use crate::exit::Failure;
use crate::output::{demangled, file, lines};
use crate::private_folder::PrivateFolder;
use crate::region::Parts;

/// Writes what each step of a region changes into a file.
pub(super) fn record(options: &Options, part: &CapturedPart<'_>, path: &Path) -> Result<Exit> {
    region::record(part, &how(options), path)?;
    Ok(Exit::Success)
}

/// Replays the other capture, then this one, and compares.
pub(super) fn run(options: &Options, parts: &Parts<'_>, other: &Path, bisect: Bisect) -> Result<Exit> {
    if bisect != Bisect::Replay(Wanted::Difference) {
        let (what, expected) = ("--against".to_owned(), "--bisect alone, or --bisect difference".to_owned());
        return Err(CapturedError::Usage { what, expected, found: "another --bisect".to_owned() }.into());
    }
    if let Some(trace) = &options.bisection.trace_of {
        return parts.each(|region| vec![region.whole()], |part| compare(options, part, other, trace));
    }
    // What is wrong with it is told once.
    Region::of(&open(other)?, None)?;
    let folder = PrivateFolder::new()?;
    let trace = folder.path().join("steps");
    let program = std::env::current_exe().context("where this program is")?;
    let mut replay = Command::new(&program);
    replay.args(["verify", "--quiet"]).arg(other).args(["--region", "--bisect"]).arg("--trace-to").arg(&trace);
    replay.args(options.target.device.place_words()).stdin(Stdio::null());
    let ended = replay.status().context("starting the replay of the other capture")?;
    if !ended.success() {
        let exit = ended.code().and_then(|code| Exit::ALL.iter().copied().find(|exit| *exit as i32 == code));
        let text = format!("{}: it was not replayed", file(other));
        return Err(Failure { exit: exit.unwrap_or(Exit::Environment), text }.into());
    }
    let mut compare = Command::new(&program);
    compare.args(std::env::args_os().skip(1)).arg("--trace-of").arg(&trace).stdin(Stdio::null());
    let ended = compare.status().context("starting the comparison")?;
    let exit = ended.code().and_then(|code| Exit::ALL.iter().copied().find(|exit| *exit as i32 == code));
    Ok(exit.unwrap_or(Exit::Fault))
}

fn compare(options: &Options, part: &CapturedPart<'_>, other: &Path, trace: &Path) -> Result<Exit> {
    let reader = opened(other)?;
    let other_region = Region::of(&reader, None)?;
    let other_part = CapturedPart::of(&other_region, other_region.whole())?;
    let found = region::against(part, &how(options), &other_part, trace)?;
    let status = match (&found.found, &found.unproven) {
        (Some(_), _) => Exit::Mismatch,
        _ if found.aligned == 0 => Exit::NothingToCompare,
        (None, Some(_)) => Exit::Inconclusive,
        (None, None) => Exit::Success,
    };
    let id = part.region.record.id;
    let shown = found.found.as_ref().map_or_else(Vec::new, |(at, partner)| {
        let mut ours = commands(options, id, &at.launched, Some("analyze"));
        let their = format!("--region={} --dispatch {}", other_region.record.id, partner.dispatch);
        ours.truncate(1);
        ours.push(format!("omniprobe extract {} {their} -o other.ldcap", file(other)));
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
            "unproven": found.unproven, "aligned": found.aligned, "dispatches": found.dispatches,
            "other_dispatches": found.others, "qualified": found.qualified, "status": status as u8,
            "isa": found.device.isa, "product": found.device.product, "emulated": found.device.emulated,
        });
        lines([all.to_string()])?;
        return Ok(status);
    }
    let mut all = heading(id, &part.part, &found.device, &found.qualified);
    let (aligned, ours, theirs) = (found.aligned, found.dispatches, found.others);
    all.push(format!(
        "  {aligned} dispatches have a partner by the names of their kernels, of {ours} here and {theirs} in {}",
        file(other)
    ));
    match (&found.found, &found.unproven) {
        (Some((at, partner)), unproven) => {
            all.extend(unproven.iter().map(|text| format!("  before it: {text}")));
            all.extend(found_text(at, "the first dispatch that computes something else from the same", "there"));
            let kernel = demangled(&partner.kernel);
            all.push(format!("  its partner is step {}, dispatch {}, {kernel}", partner.step, partner.dispatch));
            all.extend(shown.iter().map(|command| format!("  {command}")));
        }
        (None, Some(text)) => all.push(format!("no dispatch is proven to differ: {text}")),
        (None, None) => all.push(format!("each of {aligned} dispatches leaves the same as its partner")),
    }
    lines(all)?;
    Ok(status)
}
