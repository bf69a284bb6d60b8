//! Finds the first dispatch of a part whose output is another one with other kernels, or which writes what is not a number.
//!
//! Both sides are replayed, and memory is looked at after each dispatch. A step after which no page differs is passed over; of the first one
//! after which some do, several replays of the application's own kernels are compared with one of the others, element by element. Where
//! that finds nothing, since all differences are masked or near enough, later steps are tried by halves: the step that is found begins
//! with memory that compares as equal, and ends with memory that does not.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use logdur_captured::region::{CapturedPart, Part, PartStep, Work};
use logdur_captured::verify::{Buffer, BufferReport, Judged, Type};

use super::run::{LoadedPart, Side};
use super::{Launched, Options, Replaced};
use crate::device::Description;
use crate::error::{ReplayError, Result};
use crate::loaded::{COMPARED, LoadedDispatch, Variant};
use crate::placed::Pages;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Output of other kernels that is not that of the application's own.
    Difference,
    /// A value that is not a number, where one was before.
    NotANumber,
}

/// An element that a dispatch has left otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The argument of the dispatch that leads to it, else the name of its buffer.
    pub argument: String,
    /// Its number, from what the argument points to.
    pub index: u64,
    /// Its address, as the application had it.
    pub address: u64,
    /// What the application's own kernel leaves there; of a value that is no number, what was there before.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// What was found in a part.
#[derive(Clone, Debug)]
pub struct Bisection {
    /// The region.
    pub region: u64,
    /// The part.
    pub part: Part,
    /// What was looked for.
    pub wanted: Wanted,
    /// The device.
    pub device: Description,
    /// Why that nothing was found says less than it could, one line each.
    pub qualified: Vec<String>,
    /// The kernels that others took the place of.
    pub replaced: Vec<Replaced>,
    /// How many dispatches were looked at.
    pub dispatches: u64,
    /// The dispatch, and the first element by address.
    pub found: Option<(Launched, Element)>,
}

/// Looks for a dispatch in this process, which has not started the runtime yet.
///
/// # Errors
/// As for [`replay`](super::replay); when there is no other kernel, or no buffer of floats.
pub fn bisect(part: &CapturedPart<'_>, options: &Options, wanted: Wanted) -> Result<Bisection> {
    let mut loaded = LoadedPart::set(part, &options.setup)?;
    let own = loaded.side(&Variant::default())?;
    let side = loaded.side(&options.variant)?;
    let found = match wanted {
        Wanted::Difference => {
            loaded.loaded.by_replay = true;
            difference(&mut loaded, &own, &side)?
        }
        Wanted::NotANumber => not_a_number(&mut loaded, &side)?,
    };
    let is_dispatch = |step: &&PartStep<'_>| matches!(step.work, Work::Dispatch { .. });
    Ok(Bisection {
        region: part.region.record.id,
        part: part.part,
        wanted,
        device: loaded.loaded.device().description().clone(),
        qualified: [part.qualified.clone(), loaded.loaded.qualified.clone()].concat(),
        replaced: side.replaced,
        dispatches: part.steps.iter().filter(is_dispatch).count() as u64,
        found,
    })
}

/// The pages that are not as at the beginning of the part. Of much memory, only those that whole replays were seen to change.
fn pages(loaded: &mut LoadedDispatch<'_>) -> Result<Pages> {
    loaded.pages(&mut { COMPARED })
}

/// What is in each page after each dispatch, by its number among the steps: those pages whose hash is another than after the one before.
type Trace = BTreeMap<usize, BTreeMap<u64, Option<u64>>>;

/// Replays a side once, and looks at memory after each dispatch.
fn trace(loaded: &mut LoadedPart<'_>, side: &Side) -> Result<Trace> {
    let count = loaded.part.steps.len();
    // What it changes is known afterwards.
    loaded.after(side, count)?;
    loaded.restore()?;
    let (mut trace, mut last) = (Trace::new(), BTreeMap::new());
    loaded.run(side, count, &mut |loaded, number, took| {
        if took.is_none() {
            return Ok(());
        }
        let hash = |(page, bytes): (&u64, &std::sync::Arc<[u8]>)| {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            (*page, hasher.finish())
        };
        let now: BTreeMap<u64, u64> = pages(loaded)?.iter().map(hash).collect();
        let all: BTreeSet<u64> = now.keys().chain(last.keys()).copied().collect();
        let changed = all.into_iter().filter(|page| now.get(page) != last.get(page));
        trace.insert(number, changed.map(|page| (page, now.get(&page).copied())).collect());
        last = now;
        Ok(())
    })?;
    Ok(trace)
}

/// The dispatches after which a page of one trace differs from that of all others.
fn candidates(own: &[Trace], other: &Trace) -> Vec<usize> {
    let mut now = vec![BTreeMap::<u64, Option<u64>>::new(); own.len() + 1];
    let mut differing = BTreeSet::new();
    let mut all = Vec::new();
    for (number, changed) in other {
        let mut looked_at: BTreeSet<u64> = changed.keys().copied().collect();
        for (now, trace) in now.iter_mut().zip(own.iter().chain([other])) {
            let changed = trace.get(number).into_iter().flatten();
            now.extend(changed.clone().map(|(page, hash)| (*page, *hash)));
            looked_at.extend(changed.map(|(page, _)| *page));
        }
        let Some((of_other, of_own)) = now.split_last() else { break };
        for page in looked_at {
            let hash = |of: &BTreeMap<u64, Option<u64>>| of.get(&page).copied().flatten();
            if of_own.iter().any(|own| hash(own) == hash(of_other)) {
                differing.remove(&page);
            } else {
                differing.insert(page);
            }
        }
        if !differing.is_empty() {
            all.push(*number);
        }
    }
    all
}

/// The first dispatch whose output differs, and where.
fn difference(loaded: &mut LoadedPart<'_>, own: &Side, side: &Side) -> Result<Option<(Launched, Element)>> {
    if side.is_like(own) {
        return Err(ReplayError::Usage {
            what: "--bisect".to_owned(),
            expected: "other kernels to compare with (--hsaco, --cache)".to_owned(),
            found: "the application's own alone".to_owned(),
        });
    }
    let of_own = [trace(loaded, own)?, trace(loaded, own)?];
    let of_other = trace(loaded, side)?;
    let all = candidates(&of_own, &of_other);
    let Some(first) = all.first() else { return Ok(None) };
    if let Some(report) = compared(loaded, own, side, *first)? {
        return Ok(Some(named(loaded, *first, &report)));
    }
    let (mut from, mut to, mut found) = (1, all.len(), None);
    // At the last one it is known whether there is any difference.
    while from < to {
        let middle = if found.is_none() { to - 1 } else { from + (to - from) / 2 };
        let Some(number) = all.get(middle) else { break };
        match compared(loaded, own, side, *number)? {
            Some(report) => (to, found) = (middle, Some((*number, report))),
            None if found.is_none() => break,
            None => from = middle + 1,
        }
    }
    Ok(found.map(|(number, report)| named(loaded, number, &report)))
}

/// A buffer that differs after a step, compared element by element; one of the dispatch's own arguments, if there is one.
fn compared(loaded: &mut LoadedPart<'_>, own: &Side, side: &Side, number: usize) -> Result<Option<BufferReport>> {
    let mut runs = Vec::new();
    for _ in 0..COMPARED {
        runs.push(loaded.after(own, number + 1)?);
    }
    let others = [loaded.after(side, number + 1)?];
    let reports = loaded.loaded.compare(&runs, &others, Judged::Other)?;
    let failing = || reports.iter().filter(|report| report.verdict.is_failure() && report.first.is_some());
    let step = loaded.part.steps.get(number);
    let is_argument = |report: &&BufferReport| {
        let address = report.first.as_ref().map_or(0, |first| first.address);
        step.is_some_and(|step| argument(loaded.part, step, &report.buffer, address).is_some())
    };
    Ok(failing().find(is_argument).or_else(|| failing().next()).cloned())
}

/// The argument of a dispatch that leads to an address of a buffer, and what it points to.
fn argument(part: &CapturedPart<'_>, step: &PartStep<'_>, buffer: &Buffer, address: u64) -> Option<(String, u64)> {
    let Work::Dispatch { kernel, dispatch } = step.work else { return None };
    let code = &part.kernels.get(kernel)?.original;
    let pointers = code.arguments(&dispatch.kernarg).into_iter();
    let pointers = pointers.filter_map(|argument| Some((argument.name.clone(), argument.address()?)));
    pointers.filter(|(_, at)| (buffer.start..=address).contains(at)).max_by_key(|(_, at)| *at)
}

/// The step and the element of a report.
fn named(loaded: &LoadedPart<'_>, number: usize, report: &BufferReport) -> (Launched, Element) {
    let part = loaded.part;
    let (address, expected, found) =
        report.first.as_ref().map_or((report.buffer.start, String::new(), String::new()), |f| {
            (f.address, f.expected.clone(), f.found.clone())
        });
    let launched = part.steps.get(number).map(|step| loaded.launched(step));
    let launched = launched.unwrap_or(Launched { step: 0, dispatch: 0, kernel: String::new() });
    let element = part.steps.get(number).map(|step| element(part, step, &report.buffer, address, [expected, found]));
    let none = || Element { argument: String::new(), index: 0, address, expected: String::new(), found: String::new() };
    (launched, element.unwrap_or_else(none))
}

fn element(
    part: &CapturedPart<'_>,
    step: &PartStep<'_>,
    buffer: &Buffer,
    address: u64,
    [expected, found]: [String; 2],
) -> Element {
    let (argument, start) =
        argument(part, step, buffer, address).unwrap_or_else(|| (buffer.name.clone(), buffer.start));
    let index = (address - start) / buffer.element_type.size() as u64;
    Element { argument, index, address, expected, found }
}

/// The first dispatch that writes what is not a number, and where.
fn not_a_number(loaded: &mut LoadedPart<'_>, side: &Side) -> Result<Option<(Launched, Element)>> {
    let buffers: Vec<Buffer> =
        loaded.loaded.buffers().iter().filter(|buffer| buffer.element_type.is_float()).cloned().collect();
    if buffers.is_empty() {
        let known: Vec<&str> = loaded.loaded.buffers().iter().map(|buffer| buffer.name.as_str()).collect();
        return Err(ReplayError::Usage {
            what: "--bisect nan".to_owned(),
            expected: "a buffer of floats, by --tol NAME=f32, f64, f16 or bf16".to_owned(),
            found: format!("none among {}", known.join(", ")),
        });
    }
    let count = loaded.part.steps.len();
    loaded.after(side, count)?;
    loaded.restore()?;
    loaded.loaded.put_own_variables()?;
    let mut last = Pages::new();
    for number in 0..count {
        loaded.prepare(number)?;
        if loaded.part.steps.get(number).is_some_and(|step| step.delta.is_some()) {
            last = pages(&mut loaded.loaded)?;
        }
        let ran = loaded.step(side, number)?.is_some();
        let now = pages(&mut loaded.loaded)?;
        if ran && let Some((buffer, address, values)) = new_one(&loaded.loaded, &buffers, &last, &now)? {
            let part = loaded.part;
            let Some(step) = part.steps.get(number) else { break };
            return Ok(Some((loaded.launched(step), element(part, step, buffer, address, values))));
        }
        last = now;
    }
    Ok(None)
}

/// The first element that is not a number now, and was one: its buffer, its address, what it was and what it is.
fn new_one<'b>(
    loaded: &LoadedDispatch<'_>,
    buffers: &'b [Buffer],
    last: &Pages,
    now: &Pages,
) -> Result<Option<(&'b Buffer, u64, [String; 2])>> {
    for (page, bytes) in now.iter().filter(|(page, bytes)| last.get(page) != Some(bytes)) {
        let end = page + bytes.len() as u64;
        for buffer in buffers.iter().filter(|buffer| buffer.start < end && *page < buffer.end) {
            let (start, end) = (buffer.start.max(*page), buffer.end.min(end));
            let mut was = vec![0; (end - start) as usize];
            let range = (start - page) as usize..(end - page) as usize;
            match last.get(page).and_then(|bytes| bytes.get(range.clone())) {
                Some(bytes) => was.copy_from_slice(bytes),
                None => loaded.before().read(start, &mut was)?,
            }
            let is = bytes.get(range).unwrap_or_default();
            let of: Type = buffer.element_type;
            let elements = was.chunks_exact(of.size()).zip(is.chunks_exact(of.size()));
            let new = elements.enumerate().find(|(_, (was, is))| of.is_nan(is) && !of.is_nan(was));
            if let Some((number, (was, is))) = new {
                let address = start + (number * of.size()) as u64;
                return Ok(Some((buffer, address, [of.show(was), of.show(is)])));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use logdur_captured::regions::PAGE;

    use super::*;

    #[test]
    fn a_dispatch_is_a_candidate_while_a_page_is_as_no_replay_of_the_own_kernels_left_it() {
        let step = |number: usize, pages: &[(u64, u64)]| {
            (number, pages.iter().map(|(page, hash)| (page * PAGE, Some(*hash))).collect::<BTreeMap<_, _>>())
        };
        let own = Trace::from([step(0, &[(1, 5)]), step(2, &[(2, 6)]), step(3, &[(1, 7)]), step(5, &[(3, 1)])]);
        let differs = Trace::from([step(0, &[(1, 5)]), step(2, &[(2, 8)]), step(3, &[(1, 7)]), step(5, &[(3, 1)])]);
        assert_eq!(candidates(&[own.clone(), own.clone()], &own), Vec::<usize>::new());
        assert_eq!(candidates(&[own.clone(), own.clone()], &differs), [2, 3, 5]);
        // As one of two replays left it.
        assert_eq!(candidates(&[own.clone(), differs.clone()], &differs), Vec::<usize>::new());
        let healed = Trace::from([step(0, &[(1, 4)]), step(2, &[(2, 6)]), step(3, &[(1, 7)]), step(5, &[(3, 1)])]);
        assert_eq!(candidates(&[own], &healed), [0, 2]);
    }
}
