//! The first dispatch that writes a value that is no ordinary number.

use std::ops::Range;

use logdur_captured::region::{CapturedPart, PartStep};
use logdur_captured::verify::{Buffer, Rule, Type};

use super::super::run::{LoadedPart, Side};
use super::difference::begin;
use super::stored::stored_by;
use super::{Found, element, is_dispatch, typed};
use crate::error::{ReplayError, Result};
use crate::loaded::ChangedPage;
use crate::placed::Pages;

/// A value that is no ordinary number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Not a number.
    NotANumber,
    /// Infinity, of either sign.
    Infinity,
}

impl Special {
    fn is(self, of: Type, bytes: &[u8]) -> bool {
        match self {
            Special::NotANumber => of.is_nan(bytes),
            Special::Infinity => of.is_infinite(bytes),
        }
    }

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Special::NotANumber => "nan",
            Special::Infinity => "inf",
        }
    }
}

/// Where such a value is looked for.
struct LookedAt {
    /// Buffers that rules or the metadata say to be of floats.
    named: Vec<Buffer>,
    /// Buffers of which rules say something else, which goes before what a kernel declares.
    others: Vec<Range<u64>>,
}

impl LookedAt {
    fn of(loaded: &LoadedPart<'_>, rules: &[Rule]) -> LookedAt {
        let is_ruled = |buffer: &&Buffer| rules.iter().any(|rule| rule.buffer == buffer.name);
        let (named, others): (Vec<&Buffer>, Vec<&Buffer>) =
            loaded.loaded.buffers().iter().partition(|buffer| buffer.element_type.is_float());
        let others = others.into_iter().filter(is_ruled).map(|buffer| buffer.start..buffer.end).collect();
        LookedAt { named: named.into_iter().cloned().collect(), others }
    }

    /// What the kernel of a dispatch declares to be floats.
    fn declared(&self, part: &CapturedPart<'_>, step: &PartStep<'_>) -> Vec<Buffer> {
        let is_apart = |one: &Buffer| self.others.iter().all(|other| one.end <= other.start || other.end <= one.start);
        let mut declared = typed::written(part, step);
        declared.retain(|one| one.element_type.is_float() && is_apart(one));
        declared
    }
}

/// Says of how many dispatches it is not known where floats are.
fn qualify(loaded: &mut LoadedPart<'_>) {
    let part = loaded.part;
    let blind: Vec<&PartStep<'_>> = part.steps.iter().filter(|step| !typed::is_declared(part, step)).collect();
    let Some(first) = blind.first() else { return };
    let why = format!(
        "{} dispatches do not declare what they write: only buffers of other dispatches and of --tol were looked at there; the first is of {}",
        blind.len(),
        part.symbol(first)
    );
    loaded.loaded.qualify(why);
}

/// Runs the steps of a part, until one leaves such a value where none was.
pub(super) fn first(
    loaded: &mut LoadedPart<'_>,
    side: &Side,
    special: Special,
    rules: &[Rule],
) -> Result<Option<Found>> {
    let part = loaded.part;
    let looked_at = LookedAt::of(loaded, rules);
    if looked_at.named.is_empty() && part.steps.iter().all(|step| looked_at.declared(part, step).is_empty()) {
        let known: Vec<&str> = loaded.loaded.buffers().iter().map(|buffer| buffer.name.as_str()).collect();
        return Err(ReplayError::Usage {
            what: format!("--bisect {}", special.word()),
            expected: "a buffer of floats, by --tol NAME=f32, f64, f16 or bf16, or by what kernels declare".to_owned(),
            found: format!("none among {}", known.join(", ")),
        });
    }
    qualify(loaded);
    let mut look = begin(loaded, &[side])?;
    let mut state = Pages::new();
    for number in 0..loaded.part.steps.len() {
        let has_delta = loaded.part.steps.get(number).is_some_and(|step| step.delta.is_some());
        loaded.prepare(number)?;
        if has_delta && number > 0 {
            let written = loaded.loaded.changed_since(&mut look)?;
            state.extend(written.into_iter().map(|page| (page.at, page.is)));
        }
        loaded.step(side, number)?;
        let changed = loaded.loaded.changed_since(&mut look)?;
        if let Some(step) = part.steps.get(number).filter(|_| is_dispatch(part, number))
            && let declared = looked_at.declared(part, step)
            && let Some((buffer, address, values)) = new_one([&looked_at.named, &declared], &changed, special)
        {
            let element = element(part, step, buffer, address, values);
            let launched = loaded.launched(step);
            let stored = stored_by(loaded, &mut look, side, number, &state, address)?;
            return Ok(Some(Found { launched, element: Some(element), stored, fault: None }));
        }
        state.extend(changed.into_iter().map(|page| (page.at, page.is)));
    }
    Ok(None)
}

/// The first element by address that is such a value now, and was none: its buffer, its address, what it was and what it is.
fn new_one<'b>(
    buffers: [&'b [Buffer]; 2],
    changed: &[ChangedPage],
    special: Special,
) -> Option<(&'b Buffer, u64, [String; 2])> {
    for ChangedPage { at, was, is } in changed {
        let end = at + is.len() as u64;
        for buffer in buffers.into_iter().flatten().filter(|buffer| buffer.start < end && *at < buffer.end) {
            let of: Type = buffer.element_type;
            // Elements are whole, from the beginning of their buffer on.
            let size = of.size() as u64;
            let first = buffer.start + at.saturating_sub(buffer.start).next_multiple_of(size);
            let range = (first - at) as usize..(buffer.end.min(end).max(first) - at) as usize;
            let was = was.get(range.clone()).unwrap_or_default();
            let is = is.get(range).unwrap_or_default();
            let elements = was.chunks_exact(of.size()).zip(is.chunks_exact(of.size()));
            let new = elements.enumerate().find(|(_, (was, is))| special.is(of, is) && !special.is(of, was));
            if let Some((number, (was, is))) = new {
                return Some((buffer, first + number as u64 * size, [of.show(was), of.show(is)]));
            }
        }
    }
    None
}
