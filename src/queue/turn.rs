//! A combining lock: no thread waits for it. A thread that finds it taken sets a flag; the lock holder repeats the work.
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
/// Taken, and another thread has set the flag.
const WORD: u32 = 2;
/// Taken for ever.
const CLOSED: u32 = 3;

/// Something that one thread works on at a time.
pub(crate) struct Turn<T> {
    state: AtomicU32,
    inner: UnsafeCell<T>,
}

// SAFETY: `inner` is only accessed by the thread that has moved `state` from `FREE`.
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
            // Another thread has set the flag: from there the state changes to the same only.
            self.state.swap(TAKEN, Ordering::AcqRel);
        }
    }

    /// Takes the turn and gives it back: a later holder sees what this thread has done before. False if another
    /// thread is at it. Work that is left word of meanwhile is not done: this is for queues that are held, and go on later.
    pub(crate) fn pass(&self) -> bool {
        let mut passed = false;
        self.work(|_| passed = true);
        passed || self.state.load(Ordering::Acquire) == CLOSED
    }

    /// Takes the turn or sets the flag; true if it was taken.
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

    /// Waits for the turn and keeps it for ever: later threads do nothing.
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

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicU64};
    use loom::thread;

    /// A queue in small: what producers reserve, whether slots are written, and what was published, by the holder of the
    /// turn.
    struct Queue {
        reserved: AtomicU64,
        written: [AtomicBool; 3],
        turn: Turn<UnsafeCell<Vec<u64>>>,
    }

    impl Queue {
        fn new() -> Arc<Queue> {
            Arc::new(Queue {
                reserved: AtomicU64::new(0),
                written: std::array::from_fn(|_| AtomicBool::new(false)),
                turn: Turn::new(UnsafeCell::default()),
            })
        }

        fn reserve(&self) -> usize {
            self.reserved.fetch_add(1, Ordering::AcqRel) as usize
        }

        fn write(&self, slot: usize) {
            self.written[slot].store(true, Ordering::Release);
        }

        /// As `inplace::publish` does: up to the first slot that is not written.
        fn ring(&self) {
            self.turn.work(|published| {
                // Loom sees it if two threads are here at a time.
                published.with_mut(|published| {
                    // SAFETY: the turn is this thread's, which loom checks.
                    let published = unsafe { &mut *published };
                    let limit = self.reserved.load(Ordering::Acquire);
                    let mut end = published.len() as u64;
                    while end < limit && self.written[end as usize].load(Ordering::Acquire) {
                        published.push(end);
                        end += 1;
                    }
                });
            });
        }

        fn assert_published(&self, expected: u64) {
            let published = self.turn.close(|published| {
                published.with(|p| {
                    // SAFETY: nobody else has the turn any more.
                    unsafe { &*p }.clone()
                })
            });
            assert_eq!(published.expect("not closed before"), (0..expected).collect::<Vec<_>>());
        }
    }

    fn check(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    #[test]
    fn every_packet_is_published_once_and_in_order_whichever_thread_rings_last() {
        check(|| {
            let queue = Queue::new();
            let producers: Vec<_> = (0..2)
                .map(|_| {
                    let queue = Arc::clone(&queue);
                    thread::spawn(move || {
                        let slot = queue.reserve();
                        queue.write(slot);
                        queue.ring();
                    })
                })
                .collect();
            let slot = queue.reserve();
            queue.write(slot);
            queue.ring();
            producers.into_iter().for_each(|p| p.join().unwrap());
            queue.assert_published(3);
        });
    }

    #[test]
    fn a_slot_that_is_written_after_a_doorbell_is_published_by_the_next() {
        check(|| {
            let queue = Queue::new();
            let (early, late) = (queue.reserve(), queue.reserve());
            let other = Arc::clone(&queue);
            let hole = thread::spawn(move || {
                other.write(early);
                other.ring();
            });
            queue.ring();
            queue.write(late);
            queue.ring();
            hole.join().unwrap();
            queue.assert_published(2);
        });
    }

    #[test]
    fn nothing_is_published_once_the_queue_is_closed() {
        check(|| {
            let queue = Queue::new();
            let other = Arc::clone(&queue);
            let producer = thread::spawn(move || {
                let slot = other.reserve();
                other.write(slot);
                other.ring();
            });
            let seen = queue.turn.close(|published| {
                published.with(|p| {
                    // SAFETY: the turn is this thread's for ever, which loom checks.
                    unsafe { &*p }.len()
                })
            });
            producer.join().unwrap();
            let after = queue.turn.inner.get();
            // SAFETY: the other thread has ended.
            let after = unsafe { &*after }.with(|p| {
                // SAFETY: as above.
                unsafe { &*p }.len()
            });
            assert_eq!(seen, Some(after));
        });
    }
}
