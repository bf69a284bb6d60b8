//! Puts the library's own threads to sleep and wakes them, at no cost for the application's threads.
//!
//! # Threads
//! One sleeper; any number of threads that may wake it.
//!
//! # Ordering
//! A waker makes its work visible and then looks whether the sleeper sleeps; the sleeper says that it sleeps and then
//! looks for work. One of them must see the other, which needs a full fence on both sides. Where wakers are the
//! application's threads at every dispatch, their fence is moved to the sleeper: `membarrier` makes every running thread
//! of the process pass one. That interrupts them, so it is for sleepers that seldom fall asleep.

use std::sync::atomic::compiler_fence;
use std::time::Duration;

use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};

/// Source: `linux/membarrier.h`.
const MEMBARRIER_CMD_PRIVATE_EXPEDITED: i32 = 1 << 3;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

/// A place for one thread to sleep.
pub struct Sleeper {
    asleep: Futex,
    expedited: AtomicBool,
}

impl Default for Sleeper {
    fn default() -> Sleeper {
        Sleeper::new()
    }
}

impl Sleeper {
    /// A place whose wakers have the fence.
    pub fn new() -> Sleeper {
        Sleeper { asleep: Futex::new(), expedited: AtomicBool::new(false) }
    }

    /// For wakers that come all the time: from now on the fence is the sleeper's, who calls this, if the kernel can do
    /// that. It takes some 10 ms in a process of several threads.
    pub(crate) fn take_the_fence(&self) {
        // A waker that has not seen it yet makes its fence, too.
        self.expedited.store(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED), Ordering::SeqCst);
    }

    /// Wakes the sleeper if it sleeps. To be called after the work for it is visible.
    #[inline]
    pub fn wake(&self) {
        if self.expedited.load(Ordering::Relaxed) {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
        let asleep = &self.asleep.value;
        if asleep.load(Ordering::Relaxed) != 0 && asleep.swap(0, Ordering::AcqRel) != 0 {
            self.asleep.wake();
        }
    }

    /// Sleeps until woken or until the time is over, unless `has_work` says that there is work already.
    pub fn sleep(&self, timeout: Option<Duration>, has_work: impl FnOnce() -> bool) {
        self.asleep.value.store(1, Ordering::SeqCst);
        if self.expedited.load(Ordering::Relaxed) && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            self.expedited.store(false, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        if !has_work() {
            self.asleep.wait(timeout);
        }
        self.asleep.value.store(0, Ordering::Release);
    }
}

/// A number; a thread can sleep while it is 1.
struct Futex {
    value: AtomicU32,
    #[cfg(loom)]
    waiters: (loom::sync::Mutex<()>, loom::sync::Condvar),
}

#[cfg(not(loom))]
impl Futex {
    fn new() -> Futex {
        Futex { value: AtomicU32::new(0) }
    }

    /// Sleeps if the number is 1. A return says nothing.
    fn wait(&self, timeout: Option<Duration>) {
        self.call(libc::FUTEX_WAIT, timeout);
    }

    fn wake(&self) {
        self.call(libc::FUTEX_WAKE, None);
    }

    fn call(&self, operation: i32, timeout: Option<Duration>) {
        let time = timeout.map(|t| libc::timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
        let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let operation = operation | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the number and the time live during the call. 1 is the number to compare, or how many threads to wake.
        unsafe { libc::syscall(libc::SYS_futex, self.value.as_ptr(), operation, 1, time) };
    }
}

/// The kernel compares and enqueues under a lock of its own, and wakes under that lock. Time never passes.
#[cfg(loom)]
impl Futex {
    fn new() -> Futex {
        Futex { value: AtomicU32::new(0), waiters: Default::default() }
    }

    fn wait(&self, _timeout: Option<Duration>) {
        let (lock, woken) = &self.waiters;
        let guard = crate::sync::lock(lock);
        if self.value.load(Ordering::Relaxed) == 1 {
            drop(woken.wait(guard));
        }
    }

    fn wake(&self) {
        let (lock, woken) = &self.waiters;
        let _guard = crate::sync::lock(lock);
        woken.notify_one();
    }
}

/// Loom has no model of it: there, wakers always make their own fence.
#[cfg(loom)]
fn membarrier(_command: i32) -> bool {
    false
}

#[cfg(not(loom))]
fn membarrier(command: i32) -> bool {
    // SAFETY: the call takes two numbers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0) == 0 }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::atomic::AtomicU64;
    use crate::sync::explore;
    use loom::sync::Arc;
    use loom::thread;

    /// A sleeper that misses work sleeps for ever, which loom reports as a deadlock.
    fn sleeps_until_all_work_is_done(wakers: u64) {
        explore(3, move || {
            let shared = Arc::new((Sleeper::new(), AtomicU64::new(0)));
            let wakers: Vec<_> = (0..wakers)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let (sleeper, work) = &*shared;
                        work.fetch_add(1, Ordering::Relaxed);
                        sleeper.wake();
                    })
                })
                .collect();
            let (sleeper, work) = &*shared;
            let all = || work.load(Ordering::Relaxed) == wakers.len() as u64;
            while !all() {
                sleeper.sleep(None, all);
            }
            wakers.into_iter().for_each(|w| w.join().unwrap());
        });
    }

    #[test]
    fn work_that_is_announced_while_the_sleeper_falls_asleep_is_not_missed() {
        sleeps_until_all_work_is_done(1);
    }

    #[test]
    fn a_sleeper_that_was_woken_for_some_work_does_not_miss_that_of_another_thread() {
        sleeps_until_all_work_is_done(2);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn work_that_is_announced_while_the_sleeper_falls_asleep_is_not_missed() {
        for fence_of_sleeper in [false, true] {
            misses_no_work(fence_of_sleeper);
        }
    }

    fn misses_no_work(fence_of_sleeper: bool) {
        let shared = Arc::new((Sleeper::new(), AtomicU64::new(0)));
        let other = Arc::clone(&shared);
        let sleeper = std::thread::spawn(move || {
            let (sleeper, work) = &*other;
            if fence_of_sleeper {
                sleeper.take_the_fence();
            }
            for expected in 1..=2000 {
                while work.load(Ordering::Acquire) < expected {
                    // A missed wake would be seen as a test that takes minutes.
                    sleeper.sleep(Some(Duration::from_secs(5)), || work.load(Ordering::Acquire) >= expected);
                }
                work.fetch_add(1 << 32, Ordering::AcqRel);
                work.fetch_sub(1 << 32, Ordering::AcqRel);
            }
        });
        let start = std::time::Instant::now();
        let (waker, work) = &*shared;
        for _ in 0..2000 {
            work.fetch_add(1, Ordering::AcqRel);
            waker.wake();
            std::thread::yield_now();
        }
        assert!(sleeper.join().is_ok(), "the sleeper panicked");
        assert!(start.elapsed() < Duration::from_secs(5), "a wake was missed");
    }
}
