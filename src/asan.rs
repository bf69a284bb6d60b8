//! What AddressSanitizer asks of a process.

use std::ffi::{CStr, c_char};

/// The runtime of AddressSanitizer refuses to start if it is not the first library of the process. This library passes each call
/// on, so that it may be before it. Source: LLVM's `asan_flags.inc` and `asan_interface.h`.
const OPTIONS: &CStr = c"verify_asan_link_order=0";

/// The runtime calls it when it starts, before all else.
#[unsafe(no_mangle)]
pub extern "C" fn __asan_default_options() -> *const c_char {
    OPTIONS.as_ptr()
}
