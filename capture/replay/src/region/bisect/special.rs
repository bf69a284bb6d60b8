//! The first dispatch that writes a value that is no ordinary number.

use logdur_captured::region::PartStep;
use logdur_captured::verify::{Buffer, Rule, Type};

use super::super::run::{LoadedPart, Side};
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

/// The buffers of each step in which such a value is looked for: those that rules or the metadata say to be of floats, and what the kernel
/// of a dispatch declares to be.
fn looked_at(loaded: &LoadedPart<'_>, rules: &[Rule]) -> Vec<Vec<Buffer>> {
    let all = loaded.loaded.buffers();
    let is_float = |buffer: &&Buffer| buffer.element_type.is_float();
    let named: Vec<Buffer> = all.iter().filter(is_float).cloned().collect();
    // What the user says of a buffer goes before what a kernel declares.
    let is_other = |buffer: &&Buffer| !is_float(buffer) && rules.iter().any(|rule| rule.buffer == buffer.name);
    let other: Vec<&Buffer> = all.iter().filter(is_other).collect();
    let own = |number: usize, step: &PartStep<'_>| {
        let typed = if is_dispatch(loaded.part, number) { typed::written(loaded.part, step) } else { Vec::new() };
        let is_wanted =
            |one: &Buffer| is_float(&one) && other.iter().all(|other| one.end <= other.start || other.end <= one.start);
        let mut buffers = named.clone();
        buffers.extend(typed.into_iter().filter(is_wanted));
        buffers
    };
    loaded.part.steps.iter().enumerate().map(|(number, step)| own(number, step)).collect()
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
    let buffers = looked_at(loaded, rules);
    if buffers.iter().all(Vec::is_empty) {
        let known: Vec<&str> = loaded.loaded.buffers().iter().map(|buffer| buffer.name.as_str()).collect();
        return Err(ReplayError::Usage {
            what: format!("--bisect {}", special.word()),
            expected: "a buffer of floats, by --tol NAME=f32, f64, f16 or bf16, or by what kernels declare".to_owned(),
            found: format!("none among {}", known.join(", ")),
        });
    }
    qualify(loaded);
    loaded.restore()?;
    loaded.loaded.put_own_variables()?;
    let mut look = loaded.loaded.look()?;
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
        if is_dispatch(loaded.part, number)
            && let Some((buffer, address, values)) =
                buffers.get(number).and_then(|buffers| new_one(buffers, &changed, special))
        {
            let part = loaded.part;
            let Some(step) = part.steps.get(number) else { break };
            let element = element(part, step, buffer, address, values);
            let launched = loaded.launched(step);
            let stored = stored_by(loaded, side, number, &state, address)?;
            return Ok(Some(Found { launched, element: Some(element), stored, fault: None }));
        }
        state.extend(changed.into_iter().map(|page| (page.at, page.is)));
    }
    Ok(None)
}

/// The first element by address that is such a value now, and was none: its buffer, its address, what it was and what it is.
fn new_one<'b>(
    buffers: &'b [Buffer],
    changed: &[ChangedPage],
    special: Special,
) -> Option<(&'b Buffer, u64, [String; 2])> {
    for ChangedPage { at, was, is } in changed {
        let end = at + is.len() as u64;
        for buffer in buffers.iter().filter(|buffer| buffer.start < end && *at < buffer.end) {
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
