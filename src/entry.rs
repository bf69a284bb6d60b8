//! The C interface: what the runtime looks up in a tools library. Source: ROCr's `Runtime::LoadTools`.

use std::ffi::c_char;

use hsa_sys::raw::HsaApiTable;
use logdur_intercept::guard;

use crate::{not_loaded, session};

/// Makes ROCr 5.3 and later load the library when it is already in the process (`LD_PRELOAD`), without `HSA_TOOLS_LIB`.
/// The number orders several such tools.
#[unsafe(no_mangle)]
pub static HSA_AMD_TOOL_PRIORITY: u32 = 50;

/// Called by the runtime at the end of its start, once in every life of it.
///
/// Always returns true: ROCr 5.2 keeps a dangling handle of a library whose `OnLoad` returned false.
///
/// # Safety
/// `table` must be the runtime's table. `failed_tool_names` is not read: it may be wild when the count is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OnLoad(
    table: *mut HsaApiTable,
    runtime_version: u64,
    failed_tool_count: u64,
    failed_tool_names: *const *const c_char,
) -> bool {
    let _ = (runtime_version, failed_tool_count, failed_tool_names);
    not_loaded::loaded();
    // SAFETY: the caller's promise.
    guard((), || unsafe { session::load(table) });
    true
}

/// Called by the runtime when it is shut down, before it destroys queues and signals.
#[unsafe(no_mangle)]
pub extern "C" fn OnUnload() {
    guard((), session::unload);
}
