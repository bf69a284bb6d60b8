//! Looks for the first dispatch of a region that does what is looked for, and prints it for people and for programs.

mod against;
mod check;

use anyhow::Result;
use logdur_captured::region::{CapturedPart, Part};
use logdur_observe::Check;
use logdur_replay::Description;
use logdur_replay::region::{self, Bisection, Element, Found, Launched, Special, Wanted};
use logdur_system::text::shell_word;
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use super::Options;
use crate::output::{demangled, lines};
use crate::region::{Parts, name};
use crate::results::{reshaped, reshaped_json};

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bisect {
    /// What a replay shows.
    Replay(Wanted),
    /// What a check of `omniprobe analyze` finds.
    Check(Check),
}

/// The words of what a replay shows.
const REPLAYS: [(&str, Wanted); 4] = [
    ("difference", Wanted::Difference),
    (Special::NotANumber.word(), Wanted::Value(Special::NotANumber)),
    (Special::Infinity.word(), Wanted::Value(Special::Infinity)),
    ("fault", Wanted::Fault),
];

/// Reads the word of one.
pub(super) fn parse(text: &str) -> Result<Bisect, String> {
    let replay = REPLAYS.iter().find(|(word, _)| *word == text).map(|(_, wanted)| Bisect::Replay(*wanted));
    let check = || Check::ALL.iter().find(|check| check.word() == text).map(|check| Bisect::Check(*check));
    replay.or_else(check).ok_or_else(|| {
        let words = REPLAYS.iter().map(|(word, _)| *word).chain(Check::ALL.iter().map(|check| check.word()));
        format!("expected one of {}, found {text:?}", words.collect::<Vec<_>>().join(", "))
    })
}

/// Reads the name of a processor that is emulated, with its settings.
pub(super) fn processor(text: &str) -> Result<String, String> {
    let known: Vec<&str> = logdur_replay::emulated_processors().collect();
    let name = text.split(':').next().unwrap_or_default();
    if known.contains(&name) {
        return Ok(text.to_owned());
    }
    Err(format!("expected one that is emulated, {}, found {text:?}", known.join(", ")))
}

/// What a region is compared with.
#[derive(Clone, Copy, Debug)]
enum Other<'a> {
    /// That of another capture.
    Capture(&'a std::path::Path),
    /// Itself on another processor.
    Processor(&'a str),
}

/// Looks in each part of a region.
///
/// # Errors
/// When the capture cannot be read, or this program not be started again.
pub(super) fn run(options: &Options, bisect: Bisect) -> Result<Exit> {
    let parts = Parts::of(&options.target, &options.region, &options.variant);
    if let Some(file) = &options.bisection.trace_to {
        return parts.each(|region| vec![region.whole()], |part| against::record(options, part, file));
    }
    let other = options.bisection.against.as_deref().map(Other::Capture);
    if let Some(other) = other.or(options.bisection.against_processor.as_deref().map(Other::Processor)) {
        return against::run(options, &parts, other, bisect);
    }
    match bisect {
        Bisect::Replay(wanted) => parts.each(|region| region.parts(), |part| look(options, wanted, part)),
        Bisect::Check(checked) => parts.each(|region| region.parts(), |part| check::look(options, checked, part)),
    }
}

/// How a part is replayed.
fn how(options: &Options, part: &CapturedPart<'_>) -> region::Options {
    region::Options {
        repetitions: 1,
        verified: false,
        setup: options.target.setup(),
        variant: options.variant.of_part(&options.target.captured, part),
    }
}

fn look(options: &Options, wanted: Wanted, part: &CapturedPart<'_>) -> Result<Exit> {
    let found = region::bisect(part, &how(options, part), wanted)?;
    let status = match (&found.found, &found.unproven) {
        (Some(found), _) if found.fault.is_some() => Exit::Fault,
        (Some(_), _) => Exit::Mismatch,
        (None, Some(_)) => Exit::Inconclusive,
        (None, None) => Exit::Success,
    };
    let then = match wanted {
        Wanted::Difference => Some("verify"),
        Wanted::Value(_) => Some("analyze"),
        Wanted::Fault => None,
    };
    let commands = found.found.as_ref().map_or_else(Vec::new, |at| commands(options, found.region, &at.launched, then));
    if options.target.json {
        lines([as_json(&found, &commands, status).to_string()])?;
    } else {
        lines(text(&found, &commands))?;
    }
    Ok(status)
}

/// The commands that show a dispatch alone: it is taken out of the region, and looked at. What faults is looked at as the end of the region.
fn commands(options: &Options, region: u64, launched: &Launched, then: Option<&str>) -> Vec<String> {
    let one = format!("dispatch-{}.ldcap", launched.dispatch);
    let place = options.target.device.place_words();
    let said = |words: Vec<String>| words.iter().map(shell_word).collect::<Vec<_>>().join(" ");
    let file = options.target.captured.file.display().to_string();
    let (region, dispatch) = (format!("--region={region}"), launched.dispatch.to_string());
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let store = options.target.captured.store.words().into_iter();
    let store: Vec<String> = store.map(|word| word.to_string_lossy().into_owned()).collect();
    let Some(then) = then else {
        let keep = format!("dispatches:{dispatch}");
        let trim = words(&["omniprobe", "trim", &file, &region, "--keep", &keep, "-o", &one]);
        let verify = words(&["omniprobe", "verify", &one, "--region"]);
        let others = options.variant.words();
        return vec![said([trim, store, place].concat()), said([verify, others, options.target.words()].concat())];
    };
    let extract = words(&["omniprobe", "extract", &file, &region, "--dispatch", &dispatch, "-o", &one]);
    let then = match then {
        "verify" => [words(&["omniprobe", then, &one]), options.variant.words(), options.target.words()].concat(),
        other => [words(&["omniprobe", other, &one]), options.variant.words()].concat(),
    };
    vec![said([extract, store, place].concat()), said(then)]
}

/// The first line, and what the result rests on.
fn heading(region: u64, part: &Part, device: &Description, qualified: &[String]) -> Vec<String> {
    let called = name(region, part);
    let mut all = vec![format!("{called} on {} {} ({})", device.isa, device.product, device.runtime)];
    all.extend(qualified.iter().map(|text| format!("  qualified: {text}")));
    all
}

/// A dispatch that was found.
fn found_text(found: &Found, first: &str, before: &str) -> Vec<String> {
    let Launched { step, dispatch, kernel } = &found.launched;
    let mut all = vec![format!("{first}: step {step}, dispatch {dispatch}, {}", demangled(kernel))];
    if let Some(Element { argument, index, address, expected, found }) = &found.element {
        all.push(format!("  {argument}[{index}] at {address:#x}: {before} {expected}, found {found}"));
    }
    all.extend(found.stored.iter().map(|by| format!("  stored by {} at {}", by.instruction, by.place)));
    all.extend(found.fault.iter().map(|fault| format!("  {fault}")));
    all
}

fn text(found: &Bisection, commands: &[String]) -> Vec<String> {
    let mut all = heading(found.region, &found.part, &found.device, &found.qualified);
    all.extend(
        found.replaced.iter().map(|of| format!("  {} replaced by {}, {}", demangled(&of.kernel), of.id, of.place)),
    );
    all.extend(found.reshaped.iter().map(reshaped));
    let (first, before, none) = match found.wanted {
        Wanted::Difference => (
            "the first dispatch whose output differs",
            "expected",
            "leaves the memory as the application's own kernels do",
        ),
        Wanted::Value(Special::NotANumber) => (
            "the first dispatch that writes a value that is not a number",
            "before",
            "writes no value that is not a number",
        ),
        Wanted::Value(Special::Infinity) => ("the first dispatch that writes infinity", "before", "writes no infinity"),
        Wanted::Fault => ("the first dispatch that does not end well", "before", "ends without a fault"),
    };
    match (&found.found, &found.unproven) {
        (Some(at), unproven) => {
            all.extend(unproven.iter().map(|text| format!("  before it: {text}")));
            all.extend(found_text(at, first, before));
            all.extend(commands.iter().map(|command| format!("  {command}")));
        }
        (None, Some(text)) => all.push(format!("no dispatch is proven to differ: {text}")),
        (None, None) => all.push(format!("each of {} dispatches {none}", found.dispatches)),
    }
    all
}

/// A dispatch that was found, as an object.
fn found_json(found: &Found, commands: &[String]) -> Value {
    let Launched { step, dispatch, kernel } = &found.launched;
    let element = found.element.as_ref();
    json!({
        "step": step, "dispatch": dispatch, "kernel": kernel,
        "argument": element.map(|at| &at.argument), "index": element.map(|at| at.index),
        "address": element.map(|at| at.address), "expected": element.map(|at| &at.expected),
        "found": element.map(|at| &at.found),
        "stored_by": found.stored.as_ref().map(|by| &by.instruction),
        "stored_at": found.stored.as_ref().map(|by| &by.place),
        "fault": found.fault, "commands": commands,
    })
}

fn as_json(found: &Bisection, commands: &[String], status: Exit) -> Value {
    json!({
        "region": found.region, "first_step": found.part.first, "last_step": found.part.last,
        "first": found.found.as_ref().map(|at| found_json(at, commands)), "unproven": found.unproven,
        "reshaped": found.reshaped.iter().map(reshaped_json).collect::<Vec<_>>(),
        "dispatches": found.dispatches, "qualified": found.qualified, "status": status as u8,
        "isa": found.device.isa, "product": found.device.product, "emulated": found.device.emulated,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_means_one_thing() {
        let words = REPLAYS.iter().map(|(word, _)| *word).chain(Check::ALL.iter().map(|check| check.word()));
        let words: Vec<&str> = words.collect();
        let unique: std::collections::BTreeSet<&&str> = words.iter().collect();
        assert_eq!(unique.len(), words.len());
        assert!(words.iter().all(|word| parse(word).is_ok()));
        assert!(parse("nann").unwrap_err().starts_with("expected one of difference, nan, inf, fault, memory"));
    }
}
