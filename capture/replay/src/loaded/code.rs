//! Code on a device: the captured kernel's, what ran in its place, and other code that shares its variables.

use amdgpu_code_object::{DataKind, DataRange, Image, load};
use logdur_captured::{CapturedDispatch, CapturedError, Code, name};

use crate::device::{CodePlace, Device, Load};
use crate::error::{ReplayError, Result};
use crate::placed::{LoadBias, Placed};
use crate::replacement::{self, Other, Replacement};

/// Loads the kernel that ran in the place of the application's, whose address is `own`; returns it with its own address.
pub(super) fn load_captured_other(
    captured: &CapturedDispatch<'_>,
    own: Placed,
    device: &mut dyn Device,
    (place, exact): (&CodePlace, bool),
    qualified: &mut Vec<String>,
) -> Result<(Other, Placed)> {
    let other = replacement::other(captured, &[Replacement::Captured], &device.description().isa)?;
    let other = other.ok_or_else(|| CapturedError::Incomplete {
        dispatch: captured.dispatch.id,
        what: "the kernel that ran in the place of the application's".to_owned(),
    })?;
    let bound = bound(captured, own, &other, true)?;
    let object = load_at(device, Load::Kernel(&bound), place, exact, qualified)?;
    Ok((other, object))
}

/// Loads code at its captured address, or elsewhere with a weakness if that is allowed; the address of its anchor.
pub(super) fn load_at(
    device: &mut dyn Device,
    code: Load<'_>,
    place: &CodePlace,
    exact: bool,
    qualified: &mut Vec<String>,
) -> Result<Placed> {
    match device.load_at(code, place) {
        Err(ReplayError::Placement { why, .. }) if !exact => {
            let of = match code {
                Load::Kernel(_) => String::new(),
                Load::Called(called) => format!(" of {}", name(&called.loaded)),
            };
            qualified.push(format!("code{of} at another address: {why}"));
            device.load(code)
        }
        loaded => loaded,
    }
}

/// Code that uses the variables of the application's code, whose kernel is at `own` for packets. `in_place` is true when all
/// captured memory is at its addresses.
pub(super) fn bound(captured: &CapturedDispatch<'_>, own: Placed, other: &Other, in_place: bool) -> Result<Code> {
    let descriptor = captured.original.kernel.descriptor.map(|descriptor| descriptor.address);
    // Other modules are captured memory: where something of that is elsewhere, parts of one may be apart.
    let moved_by = |module: usize| match module.checked_sub(1) {
        None => descriptor.map(|address| LoadBias::of(own, address).0),
        Some(n) => captured.others.get(n).map(|(_, by)| *by).filter(|_| in_place),
    };
    let bytes = other.swap.binding.apply(&other.code.bytes, moved_by);
    let bytes = bytes.map_err(|source| ReplayError::CodeObject { place: other.place.clone(), source })?;
    Ok(Code { bytes, ..Code::clone(&other.code) })
}

/// The variables of other code as they are when it is loaded.
pub(super) fn own_variables(other: &Other, bias: LoadBias) -> Result<Vec<(Placed, Vec<u8>)>> {
    let damaged = |source| ReplayError::CodeObject { place: other.place.clone(), source };
    let bytes = other.swap.binding.apply(&other.code.bytes, |_| Some(0)).map_err(damaged)?;
    let image = Image::parse(&bytes).map_err(damaged)?;
    let first = load::load(&bytes, 0, |_| None).map_err(damaged)?.first;
    let loaded = load::load(&bytes, bias.placed(first).0, |_| None).map_err(damaged)?;
    let variables = image.data().into_iter().filter(|range| range.kind == DataKind::Variable);
    let bytes = |range: DataRange<'_>| {
        let at = usize::try_from(range.start.wrapping_sub(first)).ok()?;
        let bytes = loaded.bytes.get(at..)?.get(..usize::try_from(range.size).ok()?)?;
        Some((bias.placed(range.start), bytes.to_vec()))
    };
    Ok(variables.filter_map(bytes).collect())
}
