//! A lock that nobody waits for: whoever finds it taken leaves word, and the holder does the work once more.
//!
//! # Threads
//! Any.
//!
//! # Ordering
//! What was done before word was left is visible to the work that answers it: leaving word releases, and the holder
//! acquires it before it works again.

use std::cell::UnsafeCell;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU32, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU32, Ordering};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
/// Taken, and somebody has left word.
const WORD: u32 = 2;
/// Taken for ever.
const CLOSED: u32 = 3;

/// Something that one thread works on at a time.
pub(crate) struct Turn<T> {
    state: AtomicU32,
    inner: UnsafeCell<T>,
}

// SAFETY: `inner` is only accessed by whoever has moved `state` from `FREE`.
unsafe impl<T: Send> Sync for Turn<T> {}

impl<T> Turn<T> {
    pub(crate) fn new(inner: T) -> Turn<T> {
        Turn { state: AtomicU32::new(FREE), inner: UnsafeCell::new(inner) }
    }

    /// Does the work, again and again until nobody has left word meanwhile. If another thread is at it, that one does
    /// it once more instead. The work must not panic: the turn would stay taken.
    #[inline]
    pub(crate) fn work(&self, mut work: impl FnMut(&mut T)) {
        if !self.take() {
            return;
        }
        loop {
            // SAFETY: this thread has taken the turn.
            work(unsafe { &mut *self.inner.get() });
            if self.state.compare_exchange(TAKEN, FREE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return;
            }
            // Somebody has left word: nobody else changes the state from there but to the same.
            self.state.swap(TAKEN, Ordering::AcqRel);
        }
    }

    /// Takes the turn or leaves word; true if it was taken.
    #[inline]
    fn take(&self) -> bool {
        if self.state.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            return true;
        }
        let mut state = TAKEN;
        loop {
            let next = match state {
                FREE => TAKEN,
                CLOSED => return false,
                _ => WORD,
            };
            match self.state.compare_exchange(state, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return state == FREE,
                Err(now) => state = now,
            }
        }
    }

    /// Waits for the turn and keeps it for ever: whoever comes later does nothing.
    pub(crate) fn close<R>(&self, last: impl FnOnce(&mut T) -> R) -> Option<R> {
        loop {
            match self.state.compare_exchange(FREE, CLOSED, Ordering::AcqRel, Ordering::Relaxed) {
                // SAFETY: this thread has closed the turn, which was free.
                Ok(_) => return Some(last(unsafe { &mut *self.inner.get() })),
                Err(CLOSED) => return None,
                Err(_) => pause(),
            }
        }
    }
}

#[cfg(not(loom))]
fn pause() {
    std::thread::yield_now();
}
#[cfg(loom)]
use loom::thread::yield_now as pause;
