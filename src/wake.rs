//! Sleeping and waking of the library's own threads, at no cost for the application's.
//!
//! # Threads
//! One sleeper; any number of threads that may wake it.
//!
//! # Ordering
//! A waker makes its work visible and then looks whether the sleeper sleeps; the sleeper says that it sleeps and then
//! looks for work. One of them must see the other, which needs a full fence on both sides. Where wakers are the
//! application's threads at every dispatch, their fence is moved to the sleeper: `membarrier` makes every running thread
//! of the process pass one. That interrupts them, so it is for sleepers that seldom fall asleep.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, compiler_fence, fence};
use std::time::Duration;

/// Source: `linux/membarrier.h`.
const MEMBARRIER_CMD_PRIVATE_EXPEDITED: i32 = 1 << 3;
const MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED: i32 = 1 << 4;

/// A place for one thread to sleep.
pub(crate) struct Sleeper {
    asleep: AtomicU32,
    expedited: AtomicBool,
}

impl Sleeper {
    /// A place whose wakers have the fence.
    pub(crate) fn new() -> Sleeper {
        Sleeper { asleep: AtomicU32::new(0), expedited: AtomicBool::new(false) }
    }

    /// For wakers that come all the time: from now on the fence is the sleeper's, who calls this, if the kernel can do
    /// that. It takes some 10 ms in a process of several threads.
    pub(crate) fn take_the_fence(&self) {
        // A waker that has not seen it yet makes its fence, too.
        self.expedited.store(membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED), Ordering::SeqCst);
    }

    /// Wakes the sleeper if it sleeps. To be called after the work for it is visible.
    pub(crate) fn wake(&self) {
        if self.expedited.load(Ordering::Relaxed) {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
        if self.asleep.load(Ordering::Relaxed) != 0 && self.asleep.swap(0, Ordering::AcqRel) != 0 {
            futex(&self.asleep, libc::FUTEX_WAKE, 1, None);
        }
    }

    /// Sleeps until woken or until the time is over, unless `has_work` says that there is work already.
    pub(crate) fn sleep(&self, timeout: Option<Duration>, has_work: impl FnOnce() -> bool) {
        self.asleep.store(1, Ordering::SeqCst);
        if self.expedited.load(Ordering::Relaxed) && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            self.expedited.store(false, Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        if !has_work() {
            futex(&self.asleep, libc::FUTEX_WAIT, 1, timeout);
        }
        self.asleep.store(0, Ordering::Release);
    }
}

fn membarrier(command: i32) -> bool {
    // SAFETY: the call takes two numbers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0) == 0 }
}

fn futex(word: &AtomicU32, operation: i32, value: u32, timeout: Option<Duration>) {
    let time = timeout.map(|t| libc::timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word and the time live during the call; a spurious return is allowed by both callers.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation | libc::FUTEX_PRIVATE_FLAG, value, time) };
}

#[cfg(test)]
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
        sleeper.join().unwrap();
        assert!(start.elapsed() < Duration::from_secs(5), "a wake was missed");
    }
}
