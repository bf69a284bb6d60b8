//! Looks for the first dispatch of a region that computes something else, and prints it for people and for programs.

use anyhow::Result;
use clap::ValueEnum;
use logdur_captured::region::CapturedPart;
use logdur_replay::region::{self, Bisection, Element, Launched, Wanted};
use logdur_system::text::shell_word;
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use super::Options;
use crate::output::{demangled, lines};
use crate::region::{Parts, name};

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Bisect {
    /// The first dispatch whose output differs with the kernels of --hsaco or --cache.
    Difference,
    /// The first dispatch that writes a value that is not a number.
    Nan,
}

/// Looks in each part of a region.
///
/// # Errors
/// When the capture cannot be read, or this program not be started again.
pub(super) fn run(options: &Options, bisect: Bisect) -> Result<Exit> {
    Parts::of(&options.target, &options.region, &options.variant)
        .each(|region| region.parts(), |part| look(options, bisect, part))
}

fn look(options: &Options, bisect: Bisect, part: &CapturedPart<'_>) -> Result<Exit> {
    let how = region::Options {
        repetitions: 1,
        verified: false,
        setup: options.target.setup(),
        variant: options.variant.variant(),
    };
    let wanted = match bisect {
        Bisect::Difference => Wanted::Difference,
        Bisect::Nan => Wanted::NotANumber,
    };
    let found = region::bisect(part, &how, wanted)?;
    let status = if found.found.is_some() { Exit::Mismatch } else { Exit::Success };
    let commands = found.found.as_ref().map_or_else(Vec::new, |(launched, _)| commands(options, &found, launched));
    if options.target.json {
        lines([as_json(&found, &commands, status).to_string()])?;
    } else {
        lines(text(&found, &commands))?;
    }
    Ok(status)
}

/// The commands that show a dispatch alone.
fn commands(options: &Options, found: &Bisection, launched: &Launched) -> Vec<String> {
    let one = format!("dispatch-{}.ldcap", launched.dispatch);
    let place = options.target.device.place_words();
    let said = |words: Vec<String>| words.iter().map(shell_word).collect::<Vec<_>>().join(" ");
    let file = options.target.captured.file.display().to_string();
    let (region, dispatch) = (format!("--region={}", found.region), launched.dispatch.to_string());
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let extract = words(&["omniprobe", "extract", &file, &region, "--dispatch", &dispatch, "-o", &one]);
    let then = match found.wanted {
        Wanted::Difference => {
            [words(&["omniprobe", "verify", &one]), options.variant.words(), options.target.words()].concat()
        }
        Wanted::NotANumber => words(&["omniprobe", "analyze", &one]),
    };
    vec![said([extract, place].concat()), said(then)]
}

fn text(found: &Bisection, commands: &[String]) -> Vec<String> {
    let device = &found.device;
    let called = name(found.region, &found.part);
    let mut all = vec![format!("{called} on {} {} ({})", device.isa, device.product, device.runtime)];
    all.extend(
        found.replaced.iter().map(|of| format!("  {} replaced by {}, {}", demangled(&of.kernel), of.id, of.place)),
    );
    all.extend(found.qualified.iter().map(|text| format!("  qualified: {text}")));
    let Some((launched, element)) = &found.found else {
        let none = match found.wanted {
            Wanted::Difference => "leaves the memory as the application's own kernels do",
            Wanted::NotANumber => "writes no value that is not a number",
        };
        all.push(format!("each of {} dispatches {none}", found.dispatches));
        return all;
    };
    let Launched { step, dispatch, kernel } = launched;
    let Element { argument, index, address, expected, found: is } = element;
    let (first, before) = match found.wanted {
        Wanted::Difference => ("the first dispatch whose output differs", "expected"),
        Wanted::NotANumber => ("the first dispatch that writes a value that is not a number", "before"),
    };
    all.push(format!("{first}: step {step}, dispatch {dispatch}, {}", demangled(kernel)));
    all.push(format!("  {argument}[{index}] at {address:#x}: {before} {expected}, found {is}"));
    all.extend(commands.iter().map(|command| format!("  {command}")));
    all
}

fn as_json(found: &Bisection, commands: &[String], status: Exit) -> Value {
    let at = found.found.as_ref().map(|(launched, element)| {
        json!({
            "step": launched.step, "dispatch": launched.dispatch, "kernel": launched.kernel,
            "argument": element.argument, "index": element.index, "address": element.address,
            "expected": element.expected, "found": element.found, "commands": commands,
        })
    });
    json!({
        "region": found.region, "first_step": found.part.first, "last_step": found.part.last, "first": at,
        "dispatches": found.dispatches, "qualified": found.qualified, "status": status as u8,
        "isa": found.device.isa, "product": found.device.product, "emulated": found.device.emulated,
    })
}
