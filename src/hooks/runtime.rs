//! The runtime's start and end. Work that needs the runtime's functions is done before its last user shuts it down.
//!
//! ROCr 7.2 counts its users down before it calls `OnUnload`, so that it refuses every function there; older ones do it
//! afterwards. Source: ROCr's `Runtime::Release`.
//!
//! # Threads
//! Any. The count here mirrors the runtime's own. If two threads make their first call at the same time, one may be missed: then the
//! library gives up its queues too early, and a notice says so.

use std::sync::atomic::{AtomicU32, Ordering};

use hsa_sys::raw::{HSA_STATUS_SUCCESS, hsa_status_t};
use logdur_intercept::guard_large;
use logdur_intercept::lifetime;

use super::original;
use crate::session;

/// Calls of `hsa_init` that no `hsa_shut_down` has followed.
static USERS: AtomicU32 = AtomicU32::new(0);

/// Other runtimes of the process, which are not watched.
static OTHERS: AtomicU32 = AtomicU32::new(0);

/// The runtime is being started: `OnLoad` is called inside of the first `hsa_init`.
pub(crate) fn started() {
    USERS.store(1, Ordering::Release);
}

/// Another runtime of the process has called `OnLoad`, and will call `OnUnload`.
pub(crate) fn another_started() {
    lifetime::another_runtime_started();
    OTHERS.fetch_add(1, Ordering::AcqRel);
}

/// True when `OnUnload` is called by another runtime: ours has users, which it has not when it calls it.
pub(crate) fn another_ends() -> bool {
    let has_users = USERS.load(Ordering::Acquire) > 0;
    has_users && OTHERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, |others| others.checked_sub(1)).is_ok()
}

pub(super) unsafe extern "C" fn init() -> hsa_status_t {
    let status = original!(core.hsa_init_fn());
    if status == HSA_STATUS_SUCCESS {
        USERS.fetch_add(1, Ordering::AcqRel);
    }
    status
}

pub(super) unsafe extern "C" fn shut_down() -> hsa_status_t {
    let before = USERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, |users| users.checked_sub(1));
    let last = before == Ok(1);
    if last {
        guard_large((), session::leave_runtime);
    }
    let status = original!(core.hsa_shut_down_fn());
    if last && lifetime::is_runtime_up() {
        guard_large((), session::runtime_used_again);
    }
    status
}
