//! Kernels that call functions of other code objects, by pointers that the application gave them: a replay loads the code object of
//! the kernel alone.

use logdur_capture::Loaded;

use crate::captured::CapturedDispatch;
use crate::error::ReplayError;

/// Says of a fault that it comes of such a call, if it does.
pub(crate) fn explained(captured: &CapturedDispatch<'_>, error: ReplayError) -> ReplayError {
    let ReplayError::Fault(fault) = &error else { return error };
    let Some(address) = fault.address else { return error };
    let is_in = |loaded: &&&Loaded| (loaded.base..loaded.base.saturating_add(loaded.size)).contains(&address);
    let is_own = captured.code().any(|code| code.contains(&address));
    let Some(other) = captured.all_loaded.iter().find(is_in).filter(|_| !is_own) else { return error };
    ReplayError::Unsupported(format!(
        "a call of another code object, {} at +{:#x}: expected a kernel that runs code of its own code object only, which is all that a \
         replay loads",
        if other.uri.is_empty() { other.code_object.to_string() } else { other.uri.clone() },
        address - other.base,
    ))
}
