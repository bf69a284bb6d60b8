//! Threads that work at the same time work on different processors.
//!
//! Linux wakes a thread on the processor of the one that wakes it if no other is idle in that moment, and may leave both there for longer
//! than most kernels take, while another processor has nothing to do.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

/// A thread that has worked for so long looks where the others are: until then moving it would cost more than it gains.
const WORTH: Duration = Duration::from_micros(200);
/// Between two moves of a thread, at least: the system may have reasons of its own to put it back.
const REST: Duration = Duration::from_millis(2);
/// No processor: the thread does not work.
const NOWHERE: i32 = -1;

/// Where each thread works.
pub(crate) struct Places(Box<[AtomicI32]>);

impl Places {
    /// For so many threads.
    pub(crate) fn new(threads: usize) -> Places {
        Places((0..threads).map(|_| AtomicI32::new(NOWHERE)).collect())
    }
}

/// What a thread knows of its own place.
pub(crate) struct Place {
    thread: usize,
    /// Since when it has worked without a pause.
    since: Option<Instant>,
    moved: Option<Instant>,
}

impl Place {
    /// That of a thread, by its number.
    pub(crate) fn new(thread: usize) -> Place {
        Place { thread, since: None, moved: None }
    }

    /// The thread has nothing to do.
    pub(crate) fn pause(&mut self, all: &Places) {
        if self.since.take().is_some()
            && let Some(own) = all.0.get(self.thread)
        {
            own.store(NOWHERE, Ordering::Relaxed);
        }
    }

    /// The thread works. If it does so on the processor of a thread with a lower number, it goes to one where none of them works.
    pub(crate) fn work(&mut self, all: &Places) {
        let Some(own) = all.0.get(self.thread) else { return };
        // SAFETY: it only asks.
        let here = unsafe { libc::sched_getcpu() };
        own.store(here, Ordering::Relaxed);
        let since = *self.since.get_or_insert_with(Instant::now);
        let lower = all.0.get(..self.thread).unwrap_or_default();
        if lower.iter().all(|other| other.load(Ordering::Relaxed) != here) {
            return;
        }
        let now = Instant::now();
        let is_rested = self.moved.is_none_or(|moved| now.duration_since(moved) >= REST);
        if is_rested && now.duration_since(since) >= WORTH {
            self.moved = Some(now);
            leave(lower.iter().map(|other| other.load(Ordering::Relaxed)));
        }
    }
}

/// Moves this thread to another processor than these, of those that it may use; stays where there is none.
fn leave(taken: impl Iterator<Item = i32>) {
    let Some(allowed) = allowed() else { return };
    let mut others = allowed;
    for processor in taken.filter_map(|processor| usize::try_from(processor).ok()) {
        if processor < libc::CPU_SETSIZE as usize {
            // SAFETY: the set has a bit of this number.
            unsafe { libc::CPU_CLR(processor, &mut others) };
        }
    }
    // SAFETY: it reads the set.
    if unsafe { libc::CPU_COUNT(&others) } == 0 {
        return;
    }
    // It stays where it is put when it may use the others again.
    bind(&others);
    bind(&allowed);
}

/// The processors that this thread may use; `None` on a machine with more than the set has.
fn allowed() -> Option<libc::cpu_set_t> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the kernel writes at most as many bytes as the set has.
    let failed = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) };
    // SAFETY: zeros are a set, and so is what the kernel has written.
    (failed == 0).then(|| unsafe { set.assume_init() })
}

/// Lets this thread use some processors only. If that is refused, it stays as it was.
fn bind(set: &libc::cpu_set_t) {
    // SAFETY: the kernel reads as many bytes as the set has.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn processors(set: &libc::cpu_set_t) -> Vec<i32> {
        // SAFETY: the set has a bit of each number.
        (0..libc::CPU_SETSIZE).filter(|n| unsafe { libc::CPU_ISSET(*n as usize, set) }).collect()
    }

    #[test]
    fn a_thread_that_leaves_may_use_what_it_might_before_and_stays_where_it_has_no_other() {
        // A thread of its own: others are not to be bound.
        std::thread::spawn(|| {
            let before = allowed().unwrap();
            let all = processors(&before);
            // Each one that it may use but the last, then all of them.
            for taken in [&all[..all.len() - 1], &all[..]] {
                leave(taken.iter().copied().chain([NOWHERE, i32::MAX]));
                assert_eq!(processors(&allowed().unwrap()), all);
            }
            let mut one = before;
            // SAFETY: zeros are a set.
            unsafe { libc::CPU_ZERO(&mut one) };
            // SAFETY: the set has a bit of this number.
            unsafe { libc::CPU_SET(all[0] as usize, &mut one) };
            bind(&one);
            leave([all[0]].into_iter());
            assert_eq!(processors(&allowed().unwrap()), all[..1]);
            // SAFETY: it only asks.
            assert_eq!(unsafe { libc::sched_getcpu() }, all[0]);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_moves_once_it_has_worked_for_a_while_beside_another_and_not_again_at_once() {
        std::thread::spawn(|| {
            let (all, mut place) = (Places::new(2), Place::new(1));
            let mut meet = || {
                // SAFETY: it only asks.
                all.0[0].store(unsafe { libc::sched_getcpu() }, Ordering::Relaxed);
                place.work(&all);
                place.moved
            };
            assert_eq!(meet(), None, "it has just begun");
            let end = Instant::now() + Duration::from_secs(20);
            let mut first = None;
            while first.is_none() && Instant::now() < end {
                first = meet();
            }
            let moved = first.unwrap();
            while moved.elapsed() < REST / 2 {
                let again = meet();
                assert!(again == first || moved.elapsed() >= REST);
            }
            place.pause(&all);
            assert_eq!(all.0[1].load(Ordering::Relaxed), NOWHERE);
        })
        .join()
        .unwrap();
    }
}
