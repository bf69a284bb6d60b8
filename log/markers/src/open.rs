//! Ranges that have not ended.

use std::collections::HashMap;

use logdur_journal::Operation;

use crate::receiver::Ended;

/// Ranges that have begun.
#[derive(Default)]
pub(crate) struct Ranges {
    /// Of each thread, innermost last.
    pushed: HashMap<u32, Vec<Open>>,
    /// By their numbers.
    started: HashMap<u64, Open>,
    /// The last number that was given to a range.
    last: u64,
}

struct Open {
    thread: u32,
    text: Box<str>,
    start: u64,
}

/// `CLOCK_BOOTTIME` in nanoseconds: the HSA runtime's system clock is made of it.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local variable; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The system's number of this thread.
pub(crate) fn thread() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() }.unsigned_abs()
}

impl Ranges {
    /// Begins a range of a thread, within its last one. Returns how many contain it.
    pub(crate) fn push(&mut self, thread: u32, text: Box<str>, start: u64) -> usize {
        let pushed = self.pushed.entry(thread).or_default();
        pushed.push(Open { thread, text, start });
        pushed.len() - 1
    }

    /// Ends a thread's last range. Returns how many contained it; `None` if there is no range.
    pub(crate) fn pop(&mut self, thread: u32, end: u64) -> Option<(usize, Ended)> {
        let pushed = self.pushed.get_mut(&thread)?;
        let open = pushed.pop()?;
        let level = pushed.len();
        if level == 0 {
            self.pushed.remove(&thread);
        }
        Some((level, open.ended(end)))
    }

    /// Begins a range that any thread may end. Returns its number: that of another library, if it has one.
    pub(crate) fn start(&mut self, number: Option<u64>, thread: u32, text: Box<str>, start: u64) -> u64 {
        let number = number.unwrap_or_else(|| {
            self.last += 1;
            self.last
        });
        self.started.insert(number, Open { thread, text, start });
        number
    }

    /// Ends a range; `None` if there is none with this number.
    pub(crate) fn stop(&mut self, number: u64, end: u64) -> Option<Ended> {
        self.started.remove(&number).map(|open| open.ended(end))
    }

    /// Every range, without an end.
    pub(crate) fn take_all(&mut self) -> Vec<Ended> {
        let pushed = std::mem::take(&mut self.pushed).into_values().flatten();
        let started = std::mem::take(&mut self.started).into_values();
        pushed.chain(started).map(|open| open.ended(0)).collect()
    }
}

impl Open {
    fn ended(self, end: u64) -> Ended {
        Ended { operation: Operation::Range, thread: self.thread, text: self.text, times: (self.start, end) }
    }
}
