//! Signals: times are read before a signal is gone.

use hsa_sys::raw::{hsa_signal_t, hsa_status_t};

use super::original;
use crate::entry::guard;
use crate::session;

pub(super) unsafe extern "C" fn destroy(signal: hsa_signal_t) -> hsa_status_t {
    guard((), || {
        if let Some(session) = session::current() {
            session.pending.before_destroy(signal.handle);
        }
    });
    original!(core.hsa_signal_destroy_fn(signal))
}
