//! Signals.

use std::ptr;

use hsa_sys::abi::signal::Signal;
use hsa_sys::raw::{self, hsa_signal_t};

use crate::error::call;
use crate::{Api, Result};

/// A signal that this process made and that only the GPU and direct reads of its memory use: no event behind it, no
/// interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OwnSignal(u64);

impl OwnSignal {
    /// Its handle, as it is written into packets.
    #[inline]
    pub fn handle(self) -> u64 {
        self.0
    }

    /// A signal that [`OwnSignal::handle`] came from.
    ///
    /// # Safety
    /// `handle` comes from a signal that is not destroyed while the result, or a copy of it, is used.
    pub unsafe fn from_handle(handle: u64) -> OwnSignal {
        OwnSignal(handle)
    }

    /// The memory behind it.
    #[inline]
    pub fn memory<'a>(self) -> &'a Signal {
        // SAFETY: the handle is of a signal made by `Api::own_signal`, or the caller of `from_handle` has promised so. The caller
        // of `destroy_own_signal` promises that neither the signal nor its memory is used afterwards. All fields are atomic.
        unsafe { Signal::from_handle(self.0) }
    }
}

impl Api {
    /// Makes a signal for the GPU alone, with value `initial`.
    ///
    /// # Errors
    /// When the runtime is out of memory for signals.
    pub fn own_signal(&self, initial: i64) -> Result<OwnSignal> {
        let mut signal = hsa_signal_t { handle: 0 };
        let attributes = u64::from(raw::HSA_AMD_SIGNAL_AMD_GPU_ONLY.0);
        // SAFETY: no consumers are passed, and the runtime writes one handle.
        unsafe { call!(self.amd.hsa_amd_signal_create_fn(initial, 0, ptr::null(), attributes, &mut signal)) }?;
        Ok(OwnSignal(signal.handle))
    }

    /// Destroys a signal of ours.
    ///
    /// # Errors
    /// When the runtime is shut down.
    ///
    /// # Safety
    /// No packet that the GPU may still process carries it. Neither it, nor a copy, nor its [memory](OwnSignal::memory) is used
    /// afterwards.
    pub unsafe fn destroy_own_signal(&self, signal: OwnSignal) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.core.hsa_signal_destroy_fn(hsa_signal_t { handle: signal.0 })) }
    }

    /// Subtracts from the value of an application's signal, waking the threads that wait for it.
    ///
    /// # Safety
    /// `handle` must be that of a signal that has not been destroyed.
    pub unsafe fn subtract(&self, handle: u64, value: i64) {
        if let Some(subtract) = self.core.hsa_signal_subtract_screlease_fn {
            // SAFETY: the caller's promise.
            unsafe { subtract(hsa_signal_t { handle }, value) };
        }
    }
}
