//! A combining lock: no thread waits for it. A thread that finds it taken is counted; the lock holder repeats the work.
//!
//! # Threads
//! Any.
//!
//! # Ordering
//! What a thread did before it was counted is visible to the work that repeats it: counting releases, and the holder
//! acquires before it works again.

use std::cell::UnsafeCell;
use std::mem;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::pause;

const FREE: u64 = 0;
/// Taken for ever. No count comes near it.
const CLOSED: u64 = 1 << 63;

/// Something that one thread works on at a time.
pub struct CombiningLock<T> {
    /// How many threads have come since the lock was free; the first one holds it.
    comers: AtomicU64,
    inner: UnsafeCell<T>,
}

// SAFETY: `inner` is only accessed by the thread that has moved `comers` from `FREE`.
unsafe impl<T: Send> Sync for CombiningLock<T> {}

impl<T> CombiningLock<T> {
    /// A lock that is free.
    pub fn new(inner: T) -> CombiningLock<T> {
        CombiningLock { comers: AtomicU64::new(FREE), inner: UnsafeCell::new(inner) }
    }

    /// Does the work, and repeats it while other threads come meanwhile. If another thread holds the lock, leaves the work to it,
    /// and returns false. Work that panics leaves the lock free.
    #[inline]
    pub fn work(&self, mut work: impl FnMut(&mut T)) -> bool {
        if self.comers.fetch_add(1, Ordering::AcqRel) != FREE {
            return false;
        }
        let mut seen = FREE + 1;
        loop {
            let panicking = FreeOnPanic(&self.comers);
            // SAFETY: this thread has taken the lock.
            work(unsafe { &mut *self.inner.get() });
            mem::forget(panicking);
            match self.comers.compare_exchange(seen, FREE, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }

    /// True when [`close`](CombiningLock::close) has kept the lock.
    pub fn is_closed(&self) -> bool {
        self.comers.load(Ordering::Acquire) >= CLOSED
    }

    /// Waits for the lock and keeps it for ever: later threads do nothing.
    pub fn close<R>(&self, last: impl FnOnce(&mut T) -> R) -> Option<R> {
        loop {
            match self.comers.compare_exchange(FREE, CLOSED, Ordering::AcqRel, Ordering::Relaxed) {
                // SAFETY: this thread has closed the lock, which was free.
                Ok(_) => return Some(last(unsafe { &mut *self.inner.get() })),
                Err(CLOSED..) => return None,
                Err(_) => pause(),
            }
        }
    }
}

/// Frees a lock whose holder's work panics: the next holder does what was left to this one.
struct FreeOnPanic<'a>(&'a AtomicU64);

impl Drop for FreeOnPanic<'_> {
    fn drop(&mut self) {
        self.0.store(FREE, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn work_that_panics_leaves_the_lock_to_the_next_thread() {
        let lock = CombiningLock::new(0);
        let panicked = catch_unwind(AssertUnwindSafe(|| lock.work(|_| panic!("as ordered"))));
        lock.work(|n| *n += 1);
        assert!(panicked.is_err() && !lock.is_closed());
        assert_eq!(lock.close(|n| *n), Some(1));
        lock.work(|n| *n += 1);
        assert!(lock.is_closed());
        assert_eq!(lock.close(|n| *n), None);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::explore;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, AtomicU64};
    use loom::thread;

    /// A queue in small: what producers reserve, whether slots are written, and what was published, by the holder of the
    /// lock.
    struct Queue {
        reserved: AtomicU64,
        written: [AtomicBool; 3],
        lock: CombiningLock<UnsafeCell<Vec<u64>>>,
    }

    impl Queue {
        fn new() -> Arc<Queue> {
            Arc::new(Queue {
                reserved: AtomicU64::new(0),
                written: std::array::from_fn(|_| AtomicBool::new(false)),
                lock: CombiningLock::new(UnsafeCell::default()),
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
            self.lock.work(|published| {
                // Loom sees it if two threads are here at a time.
                published.with_mut(|published| {
                    // SAFETY: the lock is this thread's, which loom checks.
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
            let published = self.lock.close(|published| {
                published.with(|p| {
                    // SAFETY: no other thread has the lock any more.
                    unsafe { &*p }.clone()
                })
            });
            assert_eq!(published.expect("not closed before"), (0..expected).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_packet_is_published_once_and_in_order_whichever_thread_rings_last() {
        explore(3, || {
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
        explore(3, || {
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
        explore(3, || {
            let queue = Queue::new();
            let other = Arc::clone(&queue);
            let producer = thread::spawn(move || {
                let slot = other.reserve();
                other.write(slot);
                other.ring();
            });
            let seen = queue.lock.close(|published| {
                published.with(|p| {
                    // SAFETY: the lock is this thread's for ever, which loom checks.
                    unsafe { &*p }.len()
                })
            });
            producer.join().unwrap();
            let after = queue.lock.inner.get();
            // SAFETY: the other thread has ended.
            let after = unsafe { &*after }.with(|p| {
                // SAFETY: as above.
                unsafe { &*p }.len()
            });
            assert_eq!(seen, Some(after));
        });
    }
}
