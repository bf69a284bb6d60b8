//! Rows of copies that the runtime makes for the application.
//!
//! A copy completes on the application's own signal. Once it is complete, and before the signal is used again or destroyed, the library
//! asks the runtime for its times and records it. Copies in progress have no row if the process dies.
//!
//! # Threads
//! Threads that start copies or destroy signals, and the log thread. No thread calls the runtime while it holds the table's lock. A thread
//! that reuses or destroys a signal waits while the log thread asks for the times of its copy: for one call of the runtime.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use hsa_sys::abi::signal::Signal;
use logdur_intercept::Interceptor;
use logdur_intercept::clock::to_ns;
use logdur_intercept::thread;
use logdur_intercept::watch::Work;
use logdur_journal::columns::NO_GPU;
use logdur_journal::copies::{self, Side};
use logdur_journal::{Kernel, Operation, flag};
use logdur_system::lock;

use crate::kernels::Kernels;
use crate::ports::CollectRows;

/// How long the end of the process waits for the log thread to record a copy.
const GIVE_UP_AFTER: Duration = Duration::from_millis(100);

/// A copy that the application asks for.
pub(crate) struct Started {
    /// Its completion signal.
    pub(crate) signal: u64,
    /// The agents that it is from and to.
    pub(crate) agents: [u64; 2],
    /// How much is copied.
    pub(crate) bytes: u64,
}

/// A copy that was not complete at the last check.
#[derive(Clone, Copy)]
struct UnderWay {
    from: Side,
    to: Side,
    bytes: u64,
    /// The number of the thread that asked for it.
    thread: u32,
    /// In ticks of the host's counter.
    asked: u64,
    /// The value of its signal, which the copy decrements.
    value_before: i64,
    /// The end of the last copy on its signal; 0 if there was none.
    end_before: u64,
    /// The log thread asks for its times: the signal may not be destroyed.
    is_asked_for: bool,
}

/// While it lives, the log thread asks for the times of a signal's copy.
struct Asked<'a> {
    copies: &'a Copies,
    signal: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        lock(&self.copies.under_way).remove(&self.signal);
        self.copies.answered.notify_all();
    }
}

/// The application's copies.
pub(crate) struct Copies {
    kernels: &'static Kernels,
    /// By completion signal.
    under_way: Mutex<HashMap<u64, UnderWay>>,
    /// The log thread has the times of a copy.
    answered: Condvar,
    numbers: Mutex<BTreeMap<(Side, Side), u32>>,
}

impl CollectRows for Copies {
    fn collect(&self, interceptor: &Interceptor) -> bool {
        let signals: Vec<u64> = lock(&self.under_way).keys().copied().collect();
        for signal in signals {
            if let Some((copy, _asked)) = self.ask(signal) {
                self.record(interceptor, signal, &copy, flag::NO_TIMES);
            }
        }
        !lock(&self.under_way).is_empty()
    }
}

impl Copies {
    /// No copies so far.
    pub(crate) fn new(kernels: &'static Kernels) -> Copies {
        Copies { kernels, under_way: Mutex::default(), answered: Condvar::new(), numbers: Mutex::default() }
    }

    /// A copy is about to be started. An earlier one on its signal is recorded, complete or not.
    pub(crate) fn starts(&self, interceptor: &Interceptor, &Started { signal, agents, bytes }: &Started) {
        let [from, to] = agents.map(|agent| interceptor.agent_position(agent));
        let end_before = time(interceptor, signal).map_or(0, |(_, end)| end);
        if let Some(earlier) = self.take(signal) {
            self.record(interceptor, signal, &earlier, flag::SHARED_SIGNAL);
        }
        // SAFETY: the application has given the signal to a copy: it lives until that is complete.
        let value_before = unsafe { Signal::from_handle(signal) }.value.load(Ordering::Relaxed);
        let asked = interceptor.clock.ticks();
        let thread = thread::number();
        let copy = UnderWay { from, to, bytes, thread, asked, value_before, end_before, is_asked_for: false };
        lock(&self.under_way).insert(signal, copy);
    }

    /// The runtime has refused copies.
    pub(crate) fn refused(&self, copies: &[Started]) {
        let mut under_way = lock(&self.under_way);
        copies.iter().for_each(|copy| _ = under_way.remove(&copy.signal));
    }

    /// A signal gets another value or is destroyed: its copy is recorded, complete or not.
    pub(crate) fn leaves(&self, interceptor: &Interceptor, signal: u64) {
        if let Some(copy) = self.take(signal) {
            self.record(interceptor, signal, &copy, flag::INCOMPLETE);
        }
    }

    /// Takes a signal's copy out of the table, unless the log thread records it now: then the caller waits for that.
    fn take(&self, signal: u64) -> Option<UnderWay> {
        let under_way = lock(&self.under_way);
        let is_asked_for =
            |under_way: &mut HashMap<u64, UnderWay>| under_way.get(&signal).is_some_and(|copy| copy.is_asked_for);
        let mut under_way = self.answered.wait_while(under_way, is_asked_for).unwrap_or_else(PoisonError::into_inner);
        under_way.remove(&signal)
    }

    /// The copy of a signal, if it is complete: until the second value is dropped, the signal is not destroyed.
    fn ask(&self, signal: u64) -> Option<(UnderWay, Asked<'_>)> {
        let mut under_way = lock(&self.under_way);
        let copy = under_way.get_mut(&signal).filter(|copy| !copy.is_asked_for)?;
        // SAFETY: the signal is removed from the table before it is destroyed.
        let value = unsafe { Signal::from_handle(signal) }.value.load(Ordering::Acquire);
        copy.is_asked_for = value < copy.value_before;
        copy.is_asked_for.then(|| (*copy, Asked { copies: self, signal }))
    }

    /// The runtime shuts down: an incomplete copy never completes.
    pub(crate) fn leave(&self, interceptor: &Interceptor) {
        self.collect(interceptor);
        self.give_up(interceptor);
    }

    /// The process ends: an incomplete copy never completes. No function of the runtime is called.
    pub(crate) fn give_up(&self, interceptor: &Interceptor) {
        let any_is_asked_for =
            |under_way: &mut HashMap<u64, UnderWay>| under_way.values().any(|copy| copy.is_asked_for);
        // The log thread may have ended in the middle.
        let waited = self.answered.wait_timeout_while(lock(&self.under_way), GIVE_UP_AFTER, any_is_asked_for);
        let (mut under_way, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let left = std::mem::take(&mut *under_way);
        drop(under_way);
        for copy in left.values() {
            self.record_with(interceptor, copy, None, flag::INCOMPLETE);
        }
    }

    /// Records a copy with its times, or with flags that say why it has none.
    fn record(&self, interceptor: &Interceptor, signal: u64, copy: &UnderWay, flags: u8) {
        let times = time(interceptor, signal).filter(|(start, end)| *start != 0 && *end != copy.end_before);
        self.record_with(interceptor, copy, times, flags);
    }

    fn record_with(&self, interceptor: &Interceptor, copy: &UnderWay, times: Option<(u64, u64)>, flags: u8) {
        let flags = match (times, flags) {
            (Some(_), _) => 0,
            (None, flag::SHARED_SIGNAL) => flag::SHARED_SIGNAL | flag::NO_TIMES,
            (None, flags) => flags,
        };
        interceptor.record_completed(Work {
            agent: copy.to.or(copy.from).unwrap_or(NO_GPU),
            kernel: self.number((copy.from, copy.to)),
            bytes: copy.bytes,
            thread: copy.thread,
            asked: copy.asked,
            times: times.unwrap_or_default(),
            flags,
        });
    }

    /// The number of copies from somewhere to somewhere.
    fn number(&self, (from, to): (Side, Side)) -> u32 {
        let name = || Kernel { operation: Operation::Copy, symbol: copies::name(from, to), ..Kernel::default() };
        *lock(&self.numbers).entry((from, to)).or_insert_with(|| self.kernels.named(name()))
    }
}

/// Start and end of the last copy on a signal, in nanoseconds of the system clock; `None` if there was none.
fn time(interceptor: &Interceptor, signal: u64) -> Option<(u64, u64)> {
    let api = interceptor.api();
    let frequency = api.timestamp_frequency().ok()?;
    // SAFETY: the signal is about to be given to a copy, or in the table, from which it is removed before it is destroyed.
    let time = unsafe { api.copy_time(signal) }.ok()?;
    Some((to_ns(time.start, frequency), to_ns(time.end, frequency)))
}
