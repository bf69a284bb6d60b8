//! Which instruction of a dispatch stored an element.

use amdgpu_listing::{Listing, Which};
use logdur_captured::region::Work;

use super::super::run::{LoadedPart, Side};
use crate::error::Result;
use crate::loaded::Look;
use crate::placed::{LoadBias, Pages};

/// What stored an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBy {
    /// The instruction, in the syntax of LLVM's assembler.
    pub instruction: String,
    /// Where it is: the distance from the beginning of its kernel, and the source line where the code object has one.
    pub place: String,
}

/// Runs a dispatch once more, on memory as it was before it, and sees what stores to an address last. `None` where the device does not see
/// it, or other code than the kernel's own did it.
///
/// # Errors
/// As for [`LoadedPart::run`].
pub(super) fn stored_by(
    loaded: &mut LoadedPart<'_>,
    look: &mut Look,
    side: &Side,
    number: usize,
    before: &Pages,
    address: u64,
) -> Result<Option<StoredBy>> {
    let part = loaded.part;
    let Some(Work::Dispatch { kernel, .. }) = part.steps.get(number).map(|step| step.work) else { return Ok(None) };
    loaded.loaded.put_state(look, before)?;
    loaded.prepare(number)?;
    loaded.loaded.record_instructions();
    loaded.step(side, number)?;
    let Some(accesses) = loaded.loaded.recorded() else { return Ok(None) };
    let Some(pc) = accesses.instruction(loaded.loaded.placed(address)) else { return Ok(None) };
    let Some(Some(launch)) = side.launches.get(number) else { return Ok(None) };
    let own = part.kernels.get(kernel).map(|captured| &*captured.original);
    let Some(code) = launch.other.as_deref().or(own) else { return Ok(None) };
    let Some(descriptor) = &code.kernel.descriptor else { return Ok(None) };
    let bias = LoadBias::of(launch.kernel_object(), descriptor.address);
    let listing = Listing::of("the code of a dispatch", &code.bytes, Which::All)?;
    let found = listing.instruction(bias.elf(pc));
    Ok(found.map(|(instruction, place)| StoredBy { instruction, place }))
}
