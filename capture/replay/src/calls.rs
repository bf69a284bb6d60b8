//! Explains faults outside of the kernel's own code object: in called code objects that a replay has loaded, or has not.

use logdur_captured::{CapturedDispatch, extent, name};

use crate::error::ReplayError;

/// Adds the reason to a fault if it happened because code or constants of another code object were not loaded.
pub(crate) fn explained(captured: &CapturedDispatch<'_>, error: ReplayError) -> ReplayError {
    let ReplayError::Fault(fault) = &error else { return error };
    let Some(address) = fault.address else { return without_address(captured, error) };
    if captured.code().any(|code| code.contains(&address)) {
        return error;
    }
    let Some(other) = captured.all_loaded.iter().find(|loaded| extent(loaded).contains(&address)) else { return error };
    let unavailable = captured.unavailable().iter();
    let why = unavailable.filter(|(loaded, _)| loaded == *other).map(|(_, why)| why.as_str()).next();
    ReplayError::Unsupported(format!(
        "use of another code object, {} at +{:#x}: {}",
        name(other),
        address - other.base,
        why.unwrap_or(
            "expected code that an argument or captured memory of the dispatch has the address of, which a replay loads, too"
        ),
    ))
}

/// The same for a fault without an address: ROCm 6.4 sometimes reports only that the queue failed.
fn without_address(captured: &CapturedDispatch<'_>, error: ReplayError) -> ReplayError {
    let Some((other, why)) = captured.unavailable().first() else { return error };
    ReplayError::Unsupported(format!(
        "probably the use of another code object, {}: {why}. The runtime does not say where the fault was ({error})",
        name(other)
    ))
}
