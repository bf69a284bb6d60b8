//! Finds the first dispatch of a part that does what is looked for: it computes something else with other kernels, writes what is not a
//! number, faults.
//!
//! Memory is looked at after each step, so that what a later step overwrites is seen, too. A dispatch is named only if a replay of it shows
//! what is looked for, on memory on which all before it does not.

mod against;
mod difference;
mod fault;
mod special;
mod stored;
mod typed;

use logdur_captured::region::{CapturedPart, Part, PartStep, Work};
use logdur_captured::verify::Buffer;

use super::run::LoadedPart;
use super::{Launched, Options, Replaced, Reshaped};
use crate::device::Description;
use crate::error::Result;
use crate::loaded::Variant;

pub use against::{Against, Other, against, record};
pub use special::Special;
pub use stored::StoredBy;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Output of other kernels that is not that of the application's own.
    Difference,
    /// A value that is no ordinary number, where one was before.
    Value(Special),
    /// A launch that ends with a fault, or does not end.
    Fault,
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

/// A dispatch that does what is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The dispatch.
    pub launched: Launched,
    /// The first element by address; of a fault, none.
    pub element: Option<Element>,
    /// What stored it, where the device sees that.
    pub stored: Option<StoredBy>,
    /// Of a fault: what it is.
    pub fault: Option<String>,
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
    /// Those whose dispatches had another geometry.
    pub reshaped: Vec<Reshaped>,
    /// How many dispatches were looked at.
    pub dispatches: u64,
    /// The dispatch.
    pub found: Option<Found>,
    /// What was seen and is no proof against one dispatch.
    pub unproven: Option<String>,
}

/// Looks for a dispatch in this process, which has not started the runtime yet.
///
/// # Errors
/// As for [`replay`](super::replay); when there is no other kernel, or no buffer of floats.
pub fn bisect(part: &CapturedPart<'_>, options: &Options, wanted: Wanted) -> Result<Bisection> {
    let mut loaded = LoadedPart::set(part, &options.setup)?;
    let own = loaded.side(&Variant::default())?;
    let side = loaded.side_with_memory(&options.variant)?;
    let (found, unproven) = match wanted {
        Wanted::Difference => {
            loaded.loaded.by_replay = true;
            difference::difference(&mut loaded, &own, &side)?
        }
        Wanted::Value(special) => (special::first(&mut loaded, &side, special, &options.setup.rules)?, None),
        Wanted::Fault => (fault::first(&mut loaded, &side)?, None),
    };
    let is_dispatch = |step: &&PartStep<'_>| matches!(step.work, Work::Dispatch { .. });
    Ok(Bisection {
        region: part.region.record.id,
        part: part.part,
        wanted,
        device: loaded.loaded.device().description().clone(),
        qualified: loaded.qualified(),
        replaced: side.replaced,
        reshaped: side.reshaped,
        dispatches: part.steps.iter().filter(is_dispatch).count() as u64,
        found,
        unproven,
    })
}

/// True for a step that launches a kernel.
fn is_dispatch(part: &CapturedPart<'_>, number: usize) -> bool {
    part.steps.get(number).is_some_and(|step| matches!(step.work, Work::Dispatch { .. }))
}

/// The argument of a dispatch that leads to an address of a buffer, and what it points to.
fn argument(part: &CapturedPart<'_>, step: &PartStep<'_>, buffer: &Buffer, address: u64) -> Option<(String, u64)> {
    let Work::Dispatch { kernel, dispatch } = step.work else { return None };
    let code = &part.kernels.get(kernel)?.original;
    let pointers = code.arguments(&dispatch.kernarg).into_iter();
    let pointers = pointers.filter_map(|argument| Some((argument.name.clone(), argument.address()?)));
    pointers.filter(|(_, at)| (buffer.start..=address).contains(at)).max_by_key(|(_, at)| *at)
}

/// An element of a buffer, as a dispatch calls it.
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
