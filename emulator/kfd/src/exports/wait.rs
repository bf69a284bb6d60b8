//! Waits of the HSA runtime for signals: they sleep.
//!
//! The emulated GPU runs on the processors that the application has. HIP asks the runtime to wait actively by default: the
//! waiting thread would take a share of these processors from the kernel that it waits for. How to wait is a hint (HSA
//! Runtime Programmer's Reference 1.2, `hsa_wait_state_t`); the runtime first spins for a while also without it.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use hsa_sys::raw::{HSA_WAIT_STATE_BLOCKED, hsa_signal_condition_t, hsa_signal_t, hsa_wait_state_t};

use super::guard;
use crate::runtime;

/// A wait: signal, condition, value to compare with, ticks at most, how to wait; gives the signal's value.
type Wait = unsafe extern "C" fn(hsa_signal_t, hsa_signal_condition_t, i64, u64, hsa_wait_state_t) -> i64;

/// The function of the runtime in this process.
fn of_runtime(name: &CStr) -> Option<Wait> {
    let path = CString::new(runtime::path()?.as_os_str().as_bytes()).ok()?;
    // SAFETY: a C string; the library is not loaded by this, since it is there.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        return None;
    }
    // SAFETY: a library that stays open, and a C string.
    let function = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: the runtime's functions of these names have this type, and null is `None`.
    unsafe { std::mem::transmute::<*mut libc::c_void, Option<Wait>>(function) }
}

macro_rules! wait_functions {
    ($($name:ident $c_name:literal;)*) => {$(
        /// As in the runtime.
        ///
        /// # Safety
        /// As in the runtime.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            signal: hsa_signal_t,
            condition: hsa_signal_condition_t,
            value: i64,
            ticks: u64,
            _how: hsa_wait_state_t,
        ) -> i64 {
            static WAIT: OnceLock<Option<Wait>> = OnceLock::new();
            match guard(None, || *WAIT.get_or_init(|| of_runtime($c_name))) {
                // SAFETY: the arguments are passed on as they came, but for the hint.
                Some(wait) => unsafe { wait(signal, condition, value, ticks, HSA_WAIT_STATE_BLOCKED) },
                // A process without the runtime has no signals.
                None => 0,
            }
        }
    )*};
}

wait_functions! {
    hsa_signal_wait_scacquire c"hsa_signal_wait_scacquire";
    hsa_signal_wait_relaxed c"hsa_signal_wait_relaxed";
}
