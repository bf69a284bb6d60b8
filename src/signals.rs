//! Completion signals of our own, for packets that have none.
//!
//! # Threads
//! The reaper makes them and puts them where the publisher of a queue finds them; a publisher makes some only if it is
//! faster than that. The reaper gives them back in batches.
//!
//! # Ordering
//! A signal is reset before it is returned, under the lock of what was returned; the packet that carries it is published
//! after it was taken from there.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Instant;

use hsa::{Api, OwnSignal};

use crate::reaper::GRACE;
use crate::session::{Session, lock};

/// How many signals are made at once.
const BATCH: usize = 64;
/// How many the reaper keeps ready for each queue that has nothing in flight. What is in flight comes back to the queue,
/// so that a queue soon has as many as it uses.
const READY: usize = 256;
/// How many are kept for a producer that needs more at once: a burst has as many in flight as it has packets, and to make a signal
/// takes longer than all else of a dispatch.
const RESERVE: usize = 4096;

/// The signals that wait for use.
#[derive(Default)]
pub(crate) struct SignalPool(Mutex<Pool>);

#[derive(Default)]
struct Pool {
    free: Vec<OwnSignal>,
    /// Of packets that were in flight when their queue was destroyed: not used again.
    retired: Vec<OwnSignal>,
    /// Of dispatches whose times had not come, and since when: not used while they may.
    resting: VecDeque<(OwnSignal, Instant)>,
    /// Made in this life of the runtime.
    made: usize,
}

impl SignalPool {
    /// Moves a batch of signals into `stash`, making them if there are none.
    ///
    /// # Errors
    /// When there are none and the runtime makes none.
    pub(crate) fn take(&self, api: &Api, stash: &mut Vec<OwnSignal>) -> hsa::Result<()> {
        let had = stash.len();
        let mut pool = lock(&self.0);
        let kept = pool.free.len().saturating_sub(BATCH);
        stash.extend(pool.free.drain(kept..));
        drop(pool);
        if stash.len() > had {
            return Ok(());
        }
        self.make(api, stash)
    }

    /// Makes a batch.
    fn make(&self, api: &Api, to: &mut Vec<OwnSignal>) -> hsa::Result<()> {
        let had = to.len();
        for _ in 0..BATCH {
            match api.own_signal(1) {
                Ok(signal) => {
                    reset(signal);
                    to.push(signal);
                }
                Err(error) if to.len() == had => return Err(error),
                Err(_) => break,
            }
        }
        lock(&self.0).made += to.len() - had;
        Ok(())
    }

    /// Sees to it that there is a reserve, unless so many were made already that the queues have enough.
    pub(crate) fn make_reserve(&self, api: &Api) {
        self.end_rests();
        while lock(&self.0).made < RESERVE {
            let mut new = Vec::with_capacity(BATCH);
            if self.make(api, &mut new).is_err() {
                return;
            }
            self.give_back(&mut new);
        }
    }

    /// Adds signals to `more` for a queue that has `there`, until it has enough.
    pub(crate) fn make_ready(&self, session: &Session, there: usize, more: &mut Vec<OwnSignal>) {
        while there + more.len() < READY {
            if self.take(session.api(), more).is_err() {
                // The publisher will meet the same error, and say so.
                return;
            }
        }
    }

    /// Takes signals back that no packet carries any more, and leaves no memory behind for others.
    pub(crate) fn give_back(&self, signals: &mut Vec<OwnSignal>) {
        let mut signals = std::mem::take(signals);
        if !signals.is_empty() {
            lock(&self.0).free.append(&mut signals);
        }
    }

    /// Keeps a signal from use for as long as the times of its last dispatch may still be written.
    pub(crate) fn rest(&self, signal: OwnSignal) {
        self.rest_since(signal, Instant::now());
    }

    fn rest_since(&self, signal: OwnSignal, since: Instant) {
        lock(&self.0).resting.push_back((signal, since));
    }

    /// Takes back the signals that have rested.
    fn end_rests(&self) {
        let mut pool = lock(&self.0);
        while let Some((signal, _)) = pool.resting.pop_front_if(|(_, since)| since.elapsed() >= GRACE) {
            reset(signal);
            pool.free.push(signal);
        }
    }

    /// Keeps a signal, whose queue is destroyed, until the runtime goes: it warns of signals that are left to it.
    pub(crate) fn retire(&self, signal: OwnSignal) {
        lock(&self.0).retired.push(signal);
    }

    /// Destroys the signals that no packet carries; says how many are left behind.
    pub(crate) fn destroy(&self, api: &Api) -> usize {
        let mut pool = std::mem::take(&mut *lock(&self.0));
        let resting = pool.resting.drain(..).map(|(signal, _)| signal);
        for signal in pool.free.drain(..).chain(pool.retired.drain(..)).chain(resting) {
            // SAFETY: no packet of a queue that exists carries the signal, and nobody else has it.
            if unsafe { api.destroy_own_signal(signal) }.is_ok() {
                pool.made -= 1;
            }
        }
        pool.made
    }
}

/// Makes a signal ready for another packet. The thread that has just read it does so: for the publisher, its cache line would be
/// far away.
pub(crate) fn reset(signal: OwnSignal) {
    let memory = signal.memory();
    memory.start_ts.store(0, Ordering::Relaxed);
    memory.end_ts.store(0, Ordering::Relaxed);
    memory.value.store(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal() -> OwnSignal {
        #[repr(align(64))]
        struct Aligned([std::sync::atomic::AtomicU64; 8]);
        let words = [1, 0, 0, 0, 7, 9, 0, 0].map(std::sync::atomic::AtomicU64::new);
        let handle = std::ptr::from_ref(Box::leak(Box::new(Aligned(words))).0.as_slice()).expose_provenance() as u64;
        // SAFETY: the memory has the size and alignment of a signal, and is never freed.
        unsafe { OwnSignal::from_handle(handle) }
    }

    #[test]
    fn a_signal_whose_times_may_still_come_is_not_used_until_they_cannot() {
        let (pool, early, late) = (SignalPool::default(), signal(), signal());
        pool.rest_since(early, Instant::now().checked_sub(2 * GRACE).unwrap());
        pool.rest(late);
        pool.end_rests();
        let inside = lock(&pool.0);
        assert_eq!((inside.free.as_slice(), inside.resting.len()), ([early].as_slice(), 1));
        let value = early.memory().value.load(Ordering::Relaxed);
        // What came meanwhile is no later dispatch's.
        assert_eq!((early.memory().ticks(), value), ((0, 0), 1));
        assert_eq!(late.memory().ticks(), (7, 9));
    }
}
