//! How instructions are shown, for people and for programs.

use amdgpu_listing::{Frame, Line, Listing, Routine};
use logdur_journal::names;
use serde_json::{Value, json};

use super::output::demangled;

/// Columns of an instruction's words, most of which have two.
const WORDS: usize = 17;
/// Columns of its text.
const TEXT: usize = 48;

/// Lines for people: the name, then the instructions with what they come from above them.
pub(crate) fn text<'l>(listing: &'l Listing<'_>, part: &'l Routine<'_>) -> impl Iterator<Item = String> {
    let name = part.name.as_deref().map_or_else(|| "between functions".to_owned(), demangled);
    let mut last = None;
    let lines = listing.lines(part).flat_map(move |line| {
        let mut all = Vec::new();
        if let Some(label) = line.label {
            all.push(format!("L{label}:"));
        }
        let frames = if line.source.is_some() { listing.frames(line.address) } else { Vec::new() };
        let source = line.source.map(|source| (source.file, source.line, calls(&frames)));
        if let Some(place) = line.source.filter(|_| source != last) {
            all.push(format!("; {}:{}", place.file, place.line));
            all.extend(place.text.map(|text| format!("; {}", text.trim_end())));
            all.extend(calls(&frames).map(|calls| format!("; {calls}")));
            last = source;
        }
        all.push(instruction(&line));
        all
    });
    std::iter::once(format!("{name} [{}]:", listing.target)).chain(lines)
}

/// The places of inlined code: that of each call, the innermost first. `None` for code that is not inlined.
pub(crate) fn calls(frames: &[Frame]) -> Option<String> {
    (frames.len() > 1).then(|| frames.iter().map(frame).collect::<Vec<_>>().join(", inlined into "))
}

/// A function, without the types of its arguments, and the place in it.
fn frame(frame: &Frame) -> String {
    // The mangled one, that with arguments, that without.
    let name = frame.function.as_deref().map(names::names).and_then(|all| all.get(2).or(all.last()).cloned());
    let name = name.unwrap_or_else(|| "a function".to_owned());
    format!("{name} at {}:{}", frame.file.rsplit('/').next().unwrap_or(&frame.file), frame.line)
}

/// The functions that an instruction is in, the innermost first: each was inlined into the next.
pub(crate) fn frames(frames: &[Frame]) -> Vec<Value> {
    let frame = |of: &Frame| json!({ "function": of.function, "file": of.file, "line": of.line, "column": of.column });
    frames.iter().map(frame).collect()
}

fn instruction(line: &Line<'_>) -> String {
    let words: Vec<String> = line.words.iter().map(|word| format!("{word:08x}")).collect();
    let comment = match (&line.text, &line.jump) {
        (Err(why), _) => Some(why.to_string()),
        (Ok(_), Some(jump)) => Some(jump.name.as_deref().map_or_else(|| format!("{:#x}", jump.address), demangled)),
        (Ok(_), None) => None,
    };
    let (words, shown) = (words.join(" "), line.shown());
    match comment {
        Some(comment) => format!("{:012x}: {words:<WORDS$}  {shown:<TEXT$} // {comment}", line.address),
        None => format!("{:012x}: {words:<WORDS$}  {shown}", line.address),
    }
}

/// An object for each instruction.
pub(crate) fn json<'l>(listing: &'l Listing<'_>, part: &'l Routine<'_>) -> impl Iterator<Item = Value> {
    listing.lines(part).map(move |line| {
        let words: Vec<String> = line.words.iter().map(|word| format!("{word:08x}")).collect();
        json!({
            "function": part.name,
            "target": listing.target.to_string(),
            "address": line.address,
            "words": words,
            "text": line.shown(),
            "error": line.text.as_ref().err().map(ToString::to_string),
            "label": line.label.map(|label| format!("L{label}")),
            "jump": line.jump.as_ref().map(|jump| json!({ "address": jump.address, "name": jump.name })),
            "file": line.source.map(|source| source.file),
            "line": line.source.map(|source| source.line),
            "source": line.source.and_then(|source| source.text),
            "frames": line.source.map(|_| frames(&listing.frames(line.address))).unwrap_or_default(),
        })
    })
}
