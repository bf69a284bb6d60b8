//! Which of the application's signals this library is decrementing at the moment.
//!
//! The runtime's function changes the value and then looks whether a thread sleeps on the signal. A thread that sees the new
//! value may destroy the signal before that second step. So the hook of `hsa_signal_destroy` waits for the function's return.
//!
//! # Threads
//! Those that decrement take a place each; any number of threads destroy signals.
//!
//! # Ordering
//! The place is taken before the value is released. A thread that has acquired the value sees the place, or that it is free
//! again.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::pause;

/// The reaper, the capture thread and an exiting thread decrement signals.
const PLACES: usize = 4;
const FREE: u64 = 0;

/// The signals that are being decremented, at most one for each thread that does so.
pub(crate) struct Decrements([AtomicU64; PLACES]);

impl Decrements {
    pub(crate) fn new() -> Decrements {
        Decrements(std::array::from_fn(|_| AtomicU64::new(FREE)))
    }

    /// Decrements a signal by `decrement`. Until that has returned, [`wait_for`](Self::wait_for) waits.
    pub(crate) fn run(&self, signal: u64, decrement: impl FnOnce()) {
        let take =
            |place: &&AtomicU64| place.compare_exchange(FREE, signal, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let place = loop {
            match self.0.iter().find(take) {
                Some(place) => break place,
                None => pause(),
            }
        };
        decrement();
        place.store(FREE, Ordering::Release);
    }

    /// Returns when no thread is inside the decrement of a signal whose result the caller has seen.
    pub(crate) fn wait_for(&self, signal: u64) {
        while self.0.iter().any(|place| place.load(Ordering::Acquire) == signal) {
            pause();
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicI64;
    use loom::thread;

    /// A signal as the runtime has it: a value, and what the function uses after it has changed the value.
    struct Signal {
        value: AtomicI64,
        sleepers: UnsafeCell<u64>,
    }

    #[test]
    fn a_signal_is_destroyed_only_when_no_thread_is_inside_its_decrement() {
        loom::model(|| {
            let shared =
                Arc::new((Decrements::new(), Signal { value: AtomicI64::new(1), sleepers: UnsafeCell::new(0) }));
            let other = Arc::clone(&shared);
            let teller = thread::spawn(move || {
                let (decrements, signal) = &*other;
                decrements.run(7, || {
                    signal.value.fetch_sub(1, Ordering::Release);
                    // SAFETY: nothing is written while a thread is inside, which loom checks.
                    signal.sleepers.with(|sleepers| unsafe { *sleepers });
                });
            });
            let (decrements, signal) = &*shared;
            if signal.value.load(Ordering::Acquire) == 0 {
                decrements.wait_for(7);
                // SAFETY: no thread reads any more, which loom checks.
                signal.sleepers.with_mut(|sleepers| unsafe { *sleepers = 1 });
            }
            teller.join().unwrap();
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicI64;

    #[test]
    fn more_threads_than_there_are_places_decrement_each_once() {
        let (decrements, value) = (Decrements::new(), AtomicI64::new(0));
        std::thread::scope(|scope| {
            for thread in 0..2 * PLACES as u64 {
                let (decrements, value) = (&decrements, &value);
                scope.spawn(move || {
                    for _ in 0..200 {
                        decrements.run(64 + thread, || _ = value.fetch_sub(1, Ordering::Relaxed));
                        decrements.wait_for(64 + thread);
                    }
                });
            }
        });
        assert_eq!(value.load(Ordering::Relaxed), -400 * PLACES as i64);
    }
}
