//! The private progress of a dispatch: its state, and the signals that it completes on. The process acts only upon these values.
//!
//! A record is in a file mapping. Another process of the same user can overwrite it at any time, so values read from it go into a row
//! and nowhere else. The values that decide about signals, memory and waits are here, in private memory. The record has a copy of the
//! state and the flags for readers of the file.
//!
//! # Threads
//! As for records: see `logdur_journal`.
//!
//! # Ordering
//! The record's copy is stored first. The state here is stored with release and loaded with acquire.

use crate::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use logdur_journal::State;

/// The progress of one dispatch. All zeros are the progress of a free record.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Progress {
    /// Handle of the signal on which the times appear.
    pub signal: AtomicU64,
    /// Of a dispatch with arguments in a ring: tells it from the one that has the record next.
    pub kernargs: AtomicU32,
    reserved: AtomicU16,
    state: AtomicU8,
    flags: AtomicU8,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Progress>() == 16);

/// What is remembered of an application's signal. Zeros are a value.
#[derive(Debug, Default)]
#[repr(C)]
pub struct AppSignal {
    /// `flag::FORWARDED`: the signal to decrement.
    pub forward_to: AtomicU64,
    /// `flag::APP_SIGNAL`: the end time that it carried before, so that a new one can be told.
    pub end_before: AtomicU64,
}

impl AppSignal {
    /// `flag::APP_SIGNAL`: the value that it had before. A record has either flag, so the word is free.
    pub fn value_before(&self) -> &AtomicU64 {
        &self.forward_to
    }
}

impl Progress {
    /// How far the dispatch has come.
    #[inline]
    pub fn state(&self) -> State {
        State::of(self.state.load(Ordering::Acquire))
    }

    /// The dispatch has come so far: what was written before is seen by a thread that loads the state.
    #[inline]
    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Bits of `logdur_journal::flag`.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Replaces the flags.
    #[inline]
    pub fn set_flags(&self, flags: u8) {
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// Sets more flags.
    #[inline]
    pub fn add_flags(&self, flags: u8) {
        self.flags.fetch_or(flags, Ordering::Relaxed);
    }
}
