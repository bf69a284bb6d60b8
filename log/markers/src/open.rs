//! Ranges that have not ended.

use std::collections::HashMap;

use logdur_journal::Operation;
use logdur_journal::markers::{Pass, Passage};

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
    /// What is told of ranges when they begin and end. It calls nothing of this library: locks may be held.
    watch: Option<Pass>,
}

/// Tells what watches ranges, if anything does.
pub(crate) fn passes(watch: Option<Pass>, passage: Passage, name: &str) {
    if let Some(watch) = watch {
        // SAFETY: the name lives during the call, and `liblogdur.so` is never unloaded.
        unsafe { watch(passage, name.as_ptr(), name.len()) };
    }
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
        passes(self.watch, Passage::Begins, &text);
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
        passes(self.watch, Passage::Begins, &text);
        self.started.insert(number, Open { thread, text, start });
        number
    }

    /// Ends a range; `None` if there is none with this number.
    pub(crate) fn stop(&mut self, number: u64, end: u64) -> Option<Ended> {
        self.started.remove(&number).map(|open| open.ended(end))
    }

    /// Something watches ranges from now on, or nothing. True if something did.
    pub(crate) fn watch(&mut self, watch: Option<Pass>) -> bool {
        std::mem::replace(&mut self.watch, watch).is_some()
    }

    /// What watches ranges.
    pub(crate) fn watching(&self) -> Option<Pass> {
        self.watch
    }

    /// The names of a thread's ranges and of those that any thread may end, in the order in which they began.
    pub(crate) fn open_in(&self, thread: u32) -> Vec<Box<str>> {
        let pushed = self.pushed.get(&thread).map(Vec::as_slice).unwrap_or_default();
        let mut all: Vec<&Open> = pushed.iter().chain(self.started.values()).collect();
        all.sort_by_key(|open| open.start);
        all.into_iter().map(|open| open.text.clone()).collect()
    }

    /// The names of ranges that have not ended.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.pushed.values().flatten().chain(self.started.values()).map(|open| &*open.text)
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
