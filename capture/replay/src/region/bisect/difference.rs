//! The first dispatch whose output is another one with other kernels.
//!
//! The application's own kernels are replayed for some steps, and what each step changes is kept. The others follow step by step, from the
//! memory that they had left before. Where memory differs after a dispatch by more than the tolerance, that dispatch is launched again with
//! the application's own kernel, on the memory before it: what it does not leave the same itself is masked. If the others began with other
//! memory, they are launched again as well, on the same memory. A difference that is not shown so is not the dispatch's: the replay goes on
//! with the memory of the application's own kernels.

use std::collections::BTreeSet;

use logdur_captured::verify::{BufferReport, Judged, Type};

use super::super::run::{LoadedPart, Side};
use super::stored::stored_by;
use super::{Found, argument, element, is_dispatch, typed};
use crate::error::{ReplayError, Result};
use crate::loaded::{COMPARED, Look};
use crate::placed::Pages;

/// The most steps that the application's own kernels are ahead: those behind the dispatch that is found were replayed for nothing.
const AHEAD: usize = 64;
/// Bytes that steps change of which no more are kept than what the last one adds.
const KEPT: usize = 256 << 20;

/// What is changed by each step: what is written before it, and what it does.
type Trace = Vec<Pages>;

/// The dispatch that is found, and what was seen and proves nothing.
type Outcome = (Option<Found>, Option<String>);

/// Restores memory, and begins to look at it. Where not all can be seen, whole replays of the sides say what they change.
pub(super) fn begin(loaded: &mut LoadedPart<'_>, sides: &[&Side]) -> Result<Look> {
    if loaded.loaded.unseen().is_some() {
        for side in sides {
            loaded.after(side, loaded.part.steps.len())?;
        }
    }
    loaded.restore()?;
    loaded.loaded.put_own_variables()?;
    loaded.loaded.look()
}

/// What a step changes.
pub(super) fn after(loaded: &mut LoadedPart<'_>, side: &Side, number: usize, look: &mut Look) -> Result<Pages> {
    loaded.prepare(number)?;
    loaded.step(side, number)?;
    Ok(loaded.loaded.changed_since(look)?.into_iter().map(|page| (page.at, page.is)).collect())
}

/// Replays the application's own kernels from a step on, as far as they go ahead.
fn ahead(loaded: &mut LoadedPart<'_>, own: &Side, first: usize, look: &mut Look) -> Result<Trace> {
    let (mut trace, mut kept) = (Trace::new(), 0);
    for number in (first..loaded.part.steps.len()).take(AHEAD) {
        let changes = after(loaded, own, number, look)?;
        kept += changes.values().map(|page| page.len()).sum::<usize>();
        trace.push(changes);
        if kept > KEPT {
            break;
        }
    }
    Ok(trace)
}

/// Memory of both sides, as far as it has changed since the beginning.
#[derive(Default)]
struct Both {
    own: Pages,
    other: Pages,
    /// Pages that differ.
    differing: BTreeSet<u64>,
}

impl Both {
    fn step(&mut self, loaded: &LoadedPart<'_>, own: &Pages, other: Pages) -> Result<()> {
        let looked_at: BTreeSet<u64> = own.keys().chain(other.keys()).copied().collect();
        self.own.extend(own.iter().map(|(at, bytes)| (*at, bytes.clone())));
        self.other.extend(other);
        for page in looked_at {
            let is_same = match (self.own.get(&page), self.other.get(&page)) {
                (Some(own), Some(other)) => own == other,
                (None, None) => true,
                (Some(changed), None) | (None, Some(changed)) => {
                    let mut before = vec![0; changed.len()];
                    loaded.loaded.before().read(page, &mut before)?;
                    **changed == *before
                }
            };
            if is_same {
                self.differing.remove(&page)
            } else {
                self.differing.insert(page)
            };
        }
        Ok(())
    }
}

/// Pages as they were before some of them changed.
struct Before {
    pages: Vec<u64>,
    was: Pages,
}

impl Before {
    fn of(state: &Pages, changes: &Pages) -> Before {
        let pages: Vec<u64> = changes.keys().copied().collect();
        let was = pages.iter().filter_map(|page| Some((*page, state.get(page)?.clone()))).collect();
        Before { pages, was }
    }

    fn put(self, state: &Pages) -> Pages {
        let mut state = state.clone();
        self.pages.iter().for_each(|page| _ = state.remove(page));
        state.extend(self.was);
        state
    }
}

/// The first dispatch whose output differs, and where.
pub(super) fn difference(loaded: &mut LoadedPart<'_>, own: &Side, side: &Side) -> Result<Outcome> {
    if side.is_like(own) {
        return Err(ReplayError::Usage {
            what: "--bisect".to_owned(),
            expected: "other kernels to compare with (--hsaco, --cache), or another geometry".to_owned(),
            found: "the application's own alone".to_owned(),
        });
    }
    let mut look = begin(loaded, &[own, side])?;
    let (mut both, mut near, mut unproven) = (Both::default(), None, None);
    let mut first = 0;
    while first < loaded.part.steps.len() {
        let of_own = ahead(loaded, own, first, &mut look)?;
        loaded.loaded.put_state(&mut look, &both.other)?;
        for (number, changes) in (first..).zip(&of_own) {
            let before = Before::of(&both.own, changes);
            let began_the_same = both.differing.is_empty();
            let changed = after(loaded, side, number, &mut look)?;
            both.step(loaded, changes, changed)?;
            if both.differing.is_empty() || !is_dispatch(loaded.part, number) {
                continue;
            }
            let launched = loaded.part.steps.get(number).map(|step| loaded.launched(step));
            let said = launched
                .map_or_else(String::new, |at| format!("step {}, dispatch {}, {}", at.step, at.dispatch, at.kernel));
            if failing(loaded, number, std::slice::from_ref(&both.own), std::slice::from_ref(&both.other))?.is_none() {
                near.get_or_insert(said);
                continue;
            }
            let before = before.put(&both.own);
            let ours = began_the_same.then(|| both.other.clone());
            if let Some(proof) = proven(loaded, &mut look, [own, side], number, before, ours)? {
                let proof = match loaded.loaded.unseen() {
                    None => proof,
                    Some(_) => match proven_by_whole_replays(loaded, [own, side], number)? {
                        Ok(proof) => proof,
                        // What is looked at from here on may follow from it, too.
                        Err(why) => {
                            return Ok((
                                None,
                                Some(unproven.unwrap_or(format!("after {said}, memory differs; {why}"))),
                            ));
                        }
                    },
                };
                return Ok((Some(named(loaded, &mut look, side, number, &proof)?), unproven));
            }
            let began = near.as_ref().map_or_else(String::new, |near| {
                format!("; memory differed within the tolerance, or where replays of the application's own kernels differ, since {near}")
            });
            unproven.get_or_insert_with(|| {
                format!("after {said}, memory differs, which that dispatch alone does not show{began}")
            });
            // On with the same memory.
            loaded.loaded.put_state(&mut look, &both.own)?;
            both.other = both.own.clone();
            both.differing.clear();
        }
        first += of_own.len();
        loaded.loaded.put_state(&mut look, &both.own)?;
    }
    Ok((None, unproven))
}

/// A dispatch that leaves something else.
struct Proof {
    /// The buffer that differs.
    report: BufferReport,
    /// Memory before it, behind the application's own kernel, and behind the other one.
    before: Pages,
    own: Pages,
    other: Pages,
}

/// Launches a dispatch on the memory before it, as often as it takes to know what the application's own kernel leaves. `ours` is what the
/// other kernel has left of it, if it began with that memory.
fn proven(
    loaded: &mut LoadedPart<'_>,
    look: &mut Look,
    [own, side]: [&Side; 2],
    number: usize,
    before: Pages,
    ours: Option<Pages>,
) -> Result<Option<Proof>> {
    let mut runs = Vec::new();
    for _ in 0..COMPARED {
        runs.push(alone(loaded, look, own, number, &before)?);
    }
    let other = match ours {
        Some(ours) => ours,
        None => alone(loaded, look, side, number, &before)?,
    };
    let report = failing(loaded, number, &runs, std::slice::from_ref(&other))?;
    let own = runs.pop().unwrap_or_default();
    Ok(report.map(|report| Proof { report, before, own, other }))
}

/// The same where not all that steps write is seen: both sides are replayed to the dispatch from the beginning, and all memory is looked at
/// before it and behind it. Else why it is no proof.
fn proven_by_whole_replays(
    loaded: &mut LoadedPart<'_>,
    [own, side]: [&Side; 2],
    number: usize,
) -> Result<std::result::Result<Proof, String>> {
    loaded.loaded.restore_all()?;
    let [before, others] = [loaded.after(own, number)?, loaded.after(side, number)?];
    if before != others {
        let pages = before.keys().chain(others.keys()).copied();
        let at = pages.filter(|page| before.get(page) != others.get(page)).min().unwrap_or(0);
        return Ok(Err(format!(
            "but it has differed before that dispatch, at {at:#x} or behind, where not each dispatch is looked at"
        )));
    }
    let mut runs = Vec::new();
    for _ in 0..COMPARED {
        runs.push(loaded.after(own, number + 1)?);
    }
    let other = loaded.after(side, number + 1)?;
    let report = failing(loaded, number, &runs, std::slice::from_ref(&other))?;
    let own = runs.pop().unwrap_or_default();
    let proof = report.map(|report| Proof { report, before, own, other });
    Ok(proof.ok_or_else(|| "replays from the beginning, which look at all memory, do not show that".to_owned()))
}

/// The memory after a dispatch that is launched on memory as it was before it.
fn alone(loaded: &mut LoadedPart<'_>, look: &mut Look, side: &Side, number: usize, before: &Pages) -> Result<Pages> {
    loaded.loaded.put_state(look, before)?;
    let mut left = before.clone();
    left.extend(after(loaded, side, number, look)?);
    Ok(left)
}

/// A buffer that differs after a step, compared element by element; one of the dispatch's own arguments, if there is one.
fn failing(loaded: &LoadedPart<'_>, number: usize, own: &[Pages], others: &[Pages]) -> Result<Option<BufferReport>> {
    let reports = loaded.loaded.compare(own, others, Judged::Other)?;
    let failing = || reports.iter().filter(|report| report.verdict.is_failure() && report.first.is_some());
    let step = loaded.part.steps.get(number);
    let is_argument = |report: &&BufferReport| {
        let address = report.first.as_ref().map_or(0, |first| first.address);
        step.is_some_and(|step| argument(loaded.part, step, &report.buffer, address).is_some())
    };
    Ok(failing().find(is_argument).or_else(|| failing().next()).cloned())
}

/// The step and the element of a report.
fn named(loaded: &mut LoadedPart<'_>, look: &mut Look, side: &Side, number: usize, proof: &Proof) -> Result<Found> {
    let (part, report) = (loaded.part, &proof.report);
    let step = part.steps.get(number).ok_or_else(|| ReplayError::Unsupported("a step that is not there".to_owned()))?;
    let (address, values) =
        report.first.as_ref().map_or((report.buffer.start, [String::new(), String::new()]), |first| {
            (first.address, [first.expected.clone(), first.found.clone()])
        });
    let sides = |address: u64, of: Type| -> Result<[Vec<u8>; 2]> {
        let mut bytes = vec![0; of.size()];
        loaded.loaded.before().read(address, &mut bytes)?;
        let mut sides = [bytes.clone(), bytes];
        sides.iter_mut().zip([&proof.own, &proof.other]).for_each(|(bytes, pages)| over(pages, address, bytes));
        Ok(sides)
    };
    // The element may be several of those that the dispatch writes.
    let [own, other] = sides(address, report.buffer.element_type)?;
    let differs = own.iter().zip(&other).position(|(own, other)| own != other).unwrap_or(0);
    let address = address + differs as u64;
    let declared = typed::written(part, step);
    let element = match typed::element_at(&declared, address) {
        // By the name and the type that the dispatch itself has for it, unless the user has given one.
        Some((buffer, address, of)) if report.buffer.tolerance.is_exact() => {
            let [own, other] = sides(address, of)?;
            element(part, step, buffer, address, [of.show(&own), of.show(&other)])
        }
        _ => element(part, step, &report.buffer, address - differs as u64, values),
    };
    let launched = loaded.launched(step);
    let stored = stored_by(loaded, look, side, number, &proof.before, address)?;
    Ok(Found { launched, element: Some(element), stored, fault: None })
}

/// Puts what pages have over bytes at an address.
fn over(pages: &Pages, at: u64, bytes: &mut [u8]) {
    let end = at + bytes.len() as u64;
    let first = pages.range(..=at).next_back().map_or(at, |(page, _)| *page);
    for (page, content) in pages.range(first..end) {
        let (from, until) = (at.max(*page), end.min(page + content.len() as u64));
        if from < until {
            let content = content.get((from - page) as usize..(until - page) as usize).unwrap_or_default();
            let to = bytes.get_mut((from - at) as usize..(until - at) as usize).unwrap_or_default();
            to.copy_from_slice(content);
        }
    }
}
