//! Asynchronous copies of the application's that may be under way.
//!
//! # Threads
//! Any that start copies or destroy signals; the capture thread waits for what is there.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa_sys::abi::signal::Signal;

use crate::session::lock;

/// How long to sleep between two looks.
const LOOK: Duration = Duration::from_micros(100);

/// The completion signals of copies that were not complete when they were last looked at.
#[derive(Default)]
pub(crate) struct Copies(Mutex<HashSet<u64>>);

fn is_under_way(signal: u64) -> bool {
    // SAFETY: the application has given the signal to a copy, and not destroyed it: then it would not be in the list.
    unsafe { Signal::from_handle(signal) }.value.load(Ordering::Acquire) > 0
}

impl Copies {
    /// A copy is about to be started.
    pub(crate) fn starts(&self, signal: u64) {
        let mut all = lock(&self.0);
        // Of those that are complete nobody wants to know.
        if all.len().is_power_of_two() {
            all.retain(|&s| is_under_way(s));
        }
        all.insert(signal);
    }

    /// A signal is about to be destroyed.
    pub(crate) fn destroyed(&self, signal: u64) {
        lock(&self.0).remove(&signal);
    }

    /// Waits until all are complete; false when the time is over.
    pub(super) fn drain(&self, deadline: Instant) -> bool {
        loop {
            let mut all = lock(&self.0);
            all.retain(|&s| is_under_way(s));
            if all.is_empty() {
                return true;
            }
            drop(all);
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }
}
