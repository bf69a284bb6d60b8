//! Status codes as errors.

use hsa_sys::raw::{self, hsa_status_t};

/// A call of the runtime that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HsaError {
    /// The runtime refused.
    #[error("{} failed: {} ({status:#x})", function(.call), name(*.status))]
    Status {
        /// The function.
        call: &'static str,
        /// Its status.
        status: u32,
    },
    /// This version of the runtime has no such function.
    #[error("this version of the runtime has no {}", function(.call))]
    Missing {
        /// The function.
        call: &'static str,
    },
    /// The runtime could not be opened.
    #[error("{0}")]
    Open(String),
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, HsaError>;

/// Turns a status into a result. `HSA_STATUS_INFO_BREAK`, with which a callback ends an iteration, is success.
pub(crate) fn check(status: hsa_status_t, call: &'static str) -> Result<()> {
    match status {
        raw::HSA_STATUS_SUCCESS | raw::HSA_STATUS_INFO_BREAK => Ok(()),
        hsa_status_t(status) => Err(HsaError::Status { call, status }),
    }
}

/// Calls an entry of the table: `call!(api.core.hsa_x_fn(a, b))`. The caller writes the `unsafe` and its reason.
macro_rules! call {
    ($api:ident . $table:ident . $entry:ident ( $($argument:expr),* $(,)? )) => {
        match $api.$table.$entry {
            Some(function) => $crate::error::check(function($($argument),*), stringify!($entry)),
            None => Err($crate::HsaError::Missing { call: stringify!($entry) }),
        }
    };
}
pub(crate) use call;

/// The function of an entry of a table: the entries end in `_fn`.
fn function(call: &str) -> &str {
    call.strip_suffix("_fn").unwrap_or(call)
}

/// What a status is called in `hsa.h` and `hsa_ext_amd.h`.
fn name(status: u32) -> &'static str {
    match hsa_status_t(status) {
        raw::HSA_STATUS_ERROR_INVALID_ARGUMENT => "invalid argument",
        raw::HSA_STATUS_ERROR_INVALID_QUEUE_CREATION => "invalid queue creation",
        raw::HSA_STATUS_ERROR_INVALID_ALLOCATION => "invalid allocation",
        raw::HSA_STATUS_ERROR_INVALID_AGENT => "invalid agent",
        raw::HSA_STATUS_ERROR_INVALID_SIGNAL => "invalid signal",
        raw::HSA_STATUS_ERROR_INVALID_QUEUE => "invalid queue",
        raw::HSA_STATUS_ERROR_OUT_OF_RESOURCES => "out of resources",
        raw::HSA_STATUS_ERROR_NOT_INITIALIZED => "not initialised",
        raw::HSA_STATUS_ERROR_INVALID_CODE_OBJECT => "invalid code object",
        raw::HSA_STATUS_ERROR_INVALID_EXECUTABLE => "invalid executable",
        raw::HSA_STATUS_ERROR_FROZEN_EXECUTABLE => "frozen executable",
        raw::HSA_STATUS_ERROR_INVALID_SYMBOL_NAME => "no such symbol",
        raw::HSA_STATUS_ERROR_VARIABLE_UNDEFINED => "undefined variable",
        raw::HSA_STATUS_ERROR_EXCEPTION => "exception in a kernel",
        raw::HSA_STATUS_ERROR_INVALID_ISA => "invalid instruction set",
        raw::HSA_STATUS_ERROR_INVALID_ISA_NAME => "invalid instruction set name",
        _ => "status",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_call_the_reason_and_the_number() {
        let error = check(raw::HSA_STATUS_ERROR_INVALID_QUEUE, "hsa_queue_destroy_fn").unwrap_err();
        assert_eq!(error.to_string(), "hsa_queue_destroy failed: invalid queue (0x1007)");
        assert_eq!(check(raw::HSA_STATUS_INFO_BREAK, "hsa_iterate_agents"), Ok(()));
    }
}
