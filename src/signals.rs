//! Completion signals of our own, for packets that have none.
//!
//! # Threads
//! Publishers take them in batches, the reaper gives them back in batches.
//!
//! # Ordering
//! A signal is reset before the packet that carries it is published, with the release that publishes the packet.

use std::sync::Mutex;
use std::sync::atomic::Ordering;

use hsa::{Api, OwnSignal};

use crate::session::lock;

/// How many signals are made at once.
const BATCH: usize = 64;

/// The signals that wait for use.
#[derive(Default)]
pub(crate) struct SignalPool(Mutex<Pool>);

#[derive(Default)]
struct Pool {
    free: Vec<OwnSignal>,
    /// Made in this life of the runtime.
    made: usize,
}

impl SignalPool {
    /// Moves a batch of signals into `stash`, making them if there are none.
    ///
    /// # Errors
    /// When there are none and the runtime makes none.
    pub(crate) fn take(&self, api: &Api, stash: &mut Vec<OwnSignal>) -> hsa::Result<()> {
        let mut pool = lock(&self.0);
        let kept = pool.free.len().saturating_sub(BATCH);
        stash.extend(pool.free.drain(kept..));
        drop(pool);
        if !stash.is_empty() {
            return Ok(());
        }
        for _ in 0..BATCH {
            match api.own_signal(1) {
                Ok(signal) => stash.push(signal),
                Err(error) if stash.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        lock(&self.0).made += stash.len();
        Ok(())
    }

    /// Takes signals back that no packet carries any more.
    pub(crate) fn give_back(&self, signals: &mut Vec<OwnSignal>) {
        if !signals.is_empty() {
            lock(&self.0).free.append(signals);
        }
    }

    /// Destroys the signals that no packet carries; says how many are left behind.
    pub(crate) fn destroy(&self, api: &Api) -> usize {
        let mut pool = std::mem::take(&mut *lock(&self.0));
        for signal in pool.free.drain(..) {
            // SAFETY: the signal was in the free list: no packet carries it, and nobody else has it.
            if unsafe { api.destroy_own_signal(signal) }.is_ok() {
                pool.made -= 1;
            }
        }
        pool.made
    }
}

/// Makes a signal ready for another packet.
pub(crate) fn reset(signal: OwnSignal) {
    let memory = signal.memory();
    memory.start_ts.store(0, Ordering::Relaxed);
    memory.end_ts.store(0, Ordering::Relaxed);
    memory.value.store(1, Ordering::Relaxed);
}
