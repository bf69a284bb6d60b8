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
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa::{Api, OwnSignal};

use crate::sync::{Mutex, lock};

/// How long the times of a dispatch may come after its completion. Only its row waits for them, and a busy machine
/// makes much of little.
pub(crate) const GRACE: Duration = Duration::from_millis(500);
/// How many signals are made at once.
const BATCH: usize = if cfg!(loom) { 1 } else { 64 };
/// How many the reaper keeps ready for each queue that has nothing in flight. What is in flight comes back to the queue,
/// so that a queue soon has as many as it uses.
const READY: usize = 256;
/// How many are kept for a producer that needs more at once: a burst has as many in flight as it has packets, and to make a signal
/// takes longer than all else of a dispatch.
const RESERVE: usize = 4096;
/// Of so many dispatches a process is likely to have many more.
const FEW: u64 = 64;

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
        if self.take_free(stash) { Ok(()) } else { self.make(api, stash) }
    }

    /// Moves a batch of signals into `stash`; false if there are none.
    fn take_free(&self, stash: &mut Vec<OwnSignal>) -> bool {
        let had = stash.len();
        let mut pool = lock(&self.0);
        let kept = pool.free.len().saturating_sub(BATCH);
        stash.extend(pool.free.drain(kept..));
        stash.len() > had
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

    /// Sees to it that there is a reserve, unless so many were made already that the queues have enough. A process with few
    /// `dispatches` does without: a reserve is a megabyte of the runtime's memory.
    pub(crate) fn keep_reserve(&self, api: &Api, dispatches: u64) {
        self.end_rests();
        if dispatches < FEW {
            return;
        }
        while lock(&self.0).made < RESERVE {
            let mut new = Vec::with_capacity(BATCH);
            if self.make(api, &mut new).is_err() {
                return;
            }
            self.give_back(&mut new);
        }
    }

    /// Adds signals to `more` for a queue that has `there`, until it has enough.
    pub(crate) fn make_ready(&self, api: &Api, there: usize, more: &mut Vec<OwnSignal>) {
        while there + more.len() < READY {
            if self.take(api, more).is_err() {
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
            // SAFETY: no packet of a queue that exists carries the signal, and no thread has it.
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
fn signal() -> OwnSignal {
    #[repr(align(64))]
    struct Aligned([std::sync::atomic::AtomicU64; 8]);
    let words = [1, 0, 0, 0, 7, 9, 0, 0].map(std::sync::atomic::AtomicU64::new);
    let handle = std::ptr::from_ref(Box::leak(Box::new(Aligned(words))).0.as_slice()).expose_provenance() as u64;
    // SAFETY: the memory has the size and alignment of a signal, and is never freed.
    unsafe { OwnSignal::from_handle(handle) }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::explore;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    /// Signals, with loom watching over the memory of each: threads that use a signal at once are an error.
    struct Harness {
        pool: SignalPool,
        memory: Vec<(OwnSignal, UnsafeCell<()>)>,
    }

    impl Harness {
        /// A dispatch from its publication to the look that finds it complete. Its times may still come if the signal rests.
        fn dispatch(&self, rests: bool) {
            let mut stash = Vec::new();
            if !self.pool.take_free(&mut stash) {
                return;
            }
            for signal in &stash {
                let memory = self.memory.iter().find(|(s, _)| s == signal).map(|(_, memory)| memory);
                memory.unwrap().with_mut(|_| reset(*signal));
            }
            if rests {
                let long_ago = Instant::now().checked_sub(2 * GRACE).unwrap();
                stash.into_iter().for_each(|signal| self.pool.rest_since(signal, long_ago));
            } else {
                self.pool.give_back(&mut stash);
            }
        }
    }

    #[test]
    fn a_signal_is_in_one_packet_at_a_time_and_none_is_lost() {
        explore(3, || {
            let harness = Arc::new(Harness {
                pool: SignalPool::default(),
                memory: (0..2).map(|_| (signal(), UnsafeCell::new(()))).collect(),
            });
            harness.pool.give_back(&mut harness.memory.iter().map(|(signal, _)| *signal).collect());
            let publishers = [false, true].map(|rests| {
                let harness = Arc::clone(&harness);
                thread::spawn(move || (0..2).for_each(|_| harness.dispatch(rests)))
            });
            harness.pool.end_rests();
            harness.dispatch(false);
            publishers.into_iter().for_each(|p| p.join().unwrap());
            harness.pool.end_rests();
            let mut free: Vec<_> = lock(&harness.pool.0).free.iter().map(|signal| signal.handle()).collect();
            assert_eq!(free.len(), 2, "a signal is lost, or there twice");
            free.sort();
            free.dedup();
            assert_eq!(free.len(), 2, "a signal is there twice");
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

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
