//! What the process acts upon of a dispatch: how far it has come, and the signals that it completes on.
//!
//! A record is in a mapping of a file, which another process of the same user can overwrite at any time. What is read
//! back from there goes into a row, and nowhere else. What decides about signals, memory and waits is here, in private
//! memory; the record has a copy of the state and the flags for readers of the file.
//!
//! # Threads
//! As for records: see `logdur_journal`.
//!
//! # Ordering
//! The record's copy is stored first. The state here is stored with release and loaded with acquire.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use logdur_journal::State;

/// Of one dispatch. Two of them share a cache line.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub(crate) struct Progress {
    /// Handle of the signal on which the times appear.
    pub(crate) signal: AtomicU64,
    /// `flag::FORWARDED`: the application's signal, to be decremented. `flag::APP_SIGNAL`: the value that the signal had
    /// before.
    forward_or_value: AtomicU64,
    /// `flag::APP_SIGNAL`: the end time that the signal carried before, so that a new one can be told.
    pub(crate) end_before: AtomicU64,
    /// The low half of the dispatch's number: tells it from the one that has the record next.
    pub(crate) number: AtomicU32,
    state: AtomicU8,
    flags: AtomicU8,
}

const _: () = assert!(size_of::<Progress>() == 32);

impl Progress {
    /// `flag::FORWARDED`: the application's signal, to be decremented.
    pub(crate) fn forward_to(&self) -> &AtomicU64 {
        &self.forward_or_value
    }

    /// `flag::APP_SIGNAL`: the value that the signal had before.
    pub(crate) fn value_before(&self) -> &AtomicU64 {
        &self.forward_or_value
    }

    /// How far the dispatch has come.
    #[inline]
    pub(crate) fn state(&self) -> State {
        match self.state.load(Ordering::Acquire) {
            0 => State::Free,
            1 => State::InFlight,
            2 => State::Done,
            _ => State::Logged,
        }
    }

    #[inline]
    pub(crate) fn set_state(&self, state: State) {
        self.state.store(state as u8, Ordering::Release);
    }

    /// Bits of `logdur_journal::flag`.
    #[inline]
    pub(crate) fn flags(&self) -> u8 {
        self.flags.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_flags(&self, flags: u8) {
        self.flags.store(flags, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn add_flags(&self, flags: u8) {
        self.flags.fetch_or(flags, Ordering::Relaxed);
    }
}
