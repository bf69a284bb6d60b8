//! Signals: a store to a doorbell publishes packets; times are read before a signal is gone.

use hsa_sys::raw::{hsa_signal_t, hsa_signal_value_t, hsa_status_t};

use super::original;
use crate::entry::guard;
use crate::queue::inplace;
use crate::session;

pub(super) unsafe extern "C" fn store_relaxed(signal: hsa_signal_t, value: hsa_signal_value_t) {
    if !inplace::rang(signal) {
        original!(core.hsa_signal_store_relaxed_fn(signal, value) else ());
    }
}

pub(super) unsafe extern "C" fn store_screlease(signal: hsa_signal_t, value: hsa_signal_value_t) {
    if !inplace::rang(signal) {
        original!(core.hsa_signal_store_screlease_fn(signal, value) else ());
    }
}

pub(super) unsafe extern "C" fn destroy(signal: hsa_signal_t) -> hsa_status_t {
    guard((), || {
        if let Some(session) = session::current() {
            session.pending.before_destroy(signal.handle);
        }
    });
    original!(core.hsa_signal_destroy_fn(signal))
}
