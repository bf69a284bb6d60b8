//! Completion: times into records, signals back to where they came from.
//!
//! # Threads
//! One thread for the process, started with the first queue; the exiting thread lends a hand at the end. Queues are
//! taken one at a time, each under its own lock, which publishers never take.
//!
//! An application waits for the reaper only if a pool signal stands in for its own. Then the reaper polls at first. It polls every
//! `SHORT_NAP` if the dispatch takes longer, or if enough is in flight to keep the GPU busy. Otherwise it naps for up to 10 ms. With
//! nothing in flight, it sleeps until a publisher wakes it, at most once in `LINGER`.
//!
//! While no application waits for it, its wake-ups preempt no thread: a thread that is preempted while it launches kernels falls behind
//! all others that share its processor, for a time slice of each.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa::OwnSignal;
use hsa_sys::abi::signal::Signal;
use logdur_journal::{Records, State, flag};
use logdur_settings::QueueMode;
use logdur_system::lock;

use crate::address_map::AddressMap;
use crate::blocks::{Cursor, RecordRef};
use crate::cache_line::prefetch_for_write;
use crate::interceptor::Interceptor;
use crate::interceptor::ports::Ports;
use crate::interceptor::reaper::Reaper;
use crate::lifetime::{self, Access};
use crate::queue::{Forward, Queue, Ring};
use crate::signals;
use crate::thread::{Preempts, sleep_exactly};
use crate::watch::{self, inplace};

/// How long kernels in flight are waited for when the runtime or the process ends.
const DRAIN: Duration = Duration::from_millis(500);
/// How many dispatches that are not complete are looked at in each queue, past the first one.
const WINDOW: usize = 64;
/// How many records ahead a signal's cache line is prefetched.
const AHEAD: usize = 8;
/// How long it looks without a nap for what an application waits for: most kernels take less.
const LOOK_ALL_THE_TIME: Duration = Duration::from_micros(200);
const SHORT_NAP: Duration = Duration::from_micros(50);
/// With so many dispatches that applications wait for it does not look without a nap: it tells of more of them at once, and the
/// GPU is busy for longer than a nap.
const BACKLOG: u32 = 64;
const SHORTEST_NAP: Duration = Duration::from_millis(1);
const LONGEST_NAP: Duration = Duration::from_millis(10);
/// How long it stays awake with nothing in flight.
const LINGER: Duration = Duration::from_millis(10);

/// A process that ends earlier does not have to wait until its threads' fence is the reaper's.
const FENCE_AFTER: Duration = Duration::from_millis(250);

/// What a look at the queues found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Dispatches that are complete.
    pub completed: usize,
    /// Dispatches that are not.
    pub in_flight: usize,
    /// Packets were reserved that are not published.
    pub unpublished: bool,
    /// A doorbell was rung for packets that are not published.
    pub rung: bool,
    /// There is a queue whose packets come to the GPU by us alone, although no function of the runtime may be called for them.
    pub only_by_us: bool,
}

impl Interceptor {
    /// An interceptor that no runtime has been attached to. `records_max` is the most bytes of records that wait for their
    /// rows. `None` if the system has no memory left.
    pub fn new(
        records: &'static Records,
        records_max: u64,
        kernel_numbers: &'static AddressMap,
        queue_mode: QueueMode,
        ports: Ports,
    ) -> Option<Interceptor> {
        Interceptor::with_reaper(Reaper::new(run), records, records_max, kernel_numbers, queue_mode, ports)
    }

    /// Waits a little for what is in flight, and for what another thread was left to give to the GPU, and takes note of it.
    pub fn drain(&'static self, access: Access) {
        let start = Instant::now();
        loop {
            let seen = look(self, access);
            if (seen.in_flight == 0 && !seen.rung) || start.elapsed() >= DRAIN {
                return;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// The runtime shuts down: gives up its queues and our signals.
    pub fn leave_runtime(&'static self) {
        self.drain(Access::Full);
        self.count_unseen();
        self.queues.all().iter().for_each(|queue| inplace::leave(queue));
        // The reaper has returned its signals before they are destroyed.
        self.use_runtime(false);
        for queue in self.queues.all().iter() {
            give_up(self, queue);
            watch::destroyed(self, queue);
        }
        self.forget_completed();
    }
}

/// Completes dispatches for as long as the process lives: the body of the thread.
fn run(interceptor: &'static Interceptor) {
    let reaper = &interceptor.reaper;
    sleep_exactly();
    let start = Instant::now();
    let (mut nap, mut busy, mut has_fence, mut moved) = (SHORTEST_NAP, start, false, start);
    let (mut preempts, mut was_waited_for) = (Preempts::of_this_thread(), None);
    loop {
        if !has_fence && start.elapsed() >= FENCE_AFTER {
            reaper.idle.take_the_fence();
            has_fence = true;
        }
        reaper.look.store(false, Ordering::Release);
        let seen = {
            let may = interceptor.may_use_runtime();
            let access = lifetime::access();
            if *may { round(interceptor, access) } else { Seen::default() }
        };
        let waited_for = reaper.forwarding.load(Ordering::Acquire);
        let forwarding = waited_for > 0;
        if seen.completed > 0 || !forwarding {
            moved = Instant::now();
        }
        if forwarding {
            was_waited_for = Some(Instant::now());
        }
        preempts.set(was_waited_for.is_some_and(|since| since.elapsed() < LINGER));
        if seen.completed > 0 {
            interceptor.records_changed();
        }
        if seen.completed > 0 || seen.in_flight > 0 || seen.unpublished {
            busy = Instant::now();
        }
        nap = if seen.completed > 0 { SHORTEST_NAP } else { (nap * 2).min(LONGEST_NAP) };
        let asked = || reaper.look.load(Ordering::Acquire);
        if forwarding && waited_for < BACKLOG && moved.elapsed() < LOOK_ALL_THE_TIME {
            std::thread::yield_now();
        } else if forwarding {
            // No publisher wakes the reaper here: each dispatch would cost it a system call, for at most 50 µs.
            std::thread::sleep(SHORT_NAP);
        } else if seen.in_flight > 0 || seen.unpublished || seen.only_by_us || busy.elapsed() < LINGER {
            reaper.nap.sleep(Some(nap), || asked() || reaper.forwarding.load(Ordering::Acquire) > 0);
        } else {
            reaper.idle.sleep(None, || asked() || has_news(interceptor));
        }
    }
}

/// Looks at every queue, and makes ready what publishers are going to need.
fn round(interceptor: &'static Interceptor, access: Access) -> Seen {
    let seen = look(interceptor, access);
    let queues = interceptor.queues.all();
    if access == Access::Full && !queues.is_empty() && !lifetime::is_ending() {
        let dispatches = interceptor.records.header().next_id().load(Ordering::Relaxed);
        interceptor.signals.keep_reserve(interceptor.api(), dispatches);
        interceptor.blocks.prepare();
        for queue in queues.iter() {
            interceptor.blocks.put_aside(&queue.spare);
            if queue.gone.load(Ordering::Acquire) {
                interceptor.blocks.take_back(&queue.spare);
            }
        }
    }
    seen
}

/// True when a publisher has published what no look has seen yet.
fn has_news(interceptor: &Interceptor) -> bool {
    interceptor.queues.all().iter().any(|queue| {
        if queue.ring.as_ref().is_some_and(Ring::has_unpublished) {
            return true;
        }
        let record = lock(&queue.reaped).record();
        record.is_some_and(|r| r.state() != State::Free)
    })
}

/// Looks at every queue once.
pub fn look(interceptor: &'static Interceptor, access: Access) -> Seen {
    let mut seen = Seen::default();
    for queue in interceptor.queues.all().iter() {
        if access != Access::Memory {
            seen.unpublished |= inplace::rescue(interceptor, queue);
            seen.rung |= queue.ring.as_ref().is_some_and(Ring::has_rung_unpublished);
            let is_there = !queue.gone.load(Ordering::Acquire);
            seen.only_by_us |= is_there && queue.ring.as_ref().is_some_and(Ring::passes_by_us);
        }
        let mut completions = Completions::default();
        let of_queue = completions.look(interceptor, queue);
        seen.completed += of_queue.completed;
        seen.in_flight += of_queue.in_flight;
        if !completions.defer(interceptor, queue) {
            completions.forward(interceptor, queue, access);
        }
        give_signals(interceptor, queue, &mut completions.signals, access);
    }
    seen
}

/// Gives signals back to a queue, and new ones if it is short of them; a queue that is gone leaves them to others.
fn give_signals(interceptor: &Interceptor, queue: &Queue, signals: &mut Vec<OwnSignal>, access: Access) {
    if access == Access::Full && !queue.gone.load(Ordering::Acquire) && !lifetime::is_ending() {
        let there = lock(&queue.returned).len();
        interceptor.signals.make_ready(interceptor.api(), there, signals);
    }
    let mut returned = lock(&queue.returned);
    returned.append(signals);
    // The thread that destroys the queue says that it is gone before it looks for what was returned.
    if queue.gone.load(Ordering::Acquire) {
        interceptor.signals.give_back(&mut returned);
    }
}

/// Tells the application what was kept from it while a dispatch of the queue was captured.
pub fn complete_deferred(interceptor: &Interceptor, queue: &Queue) {
    let mut deferred = lock(&queue.deferred);
    // A look that finds more from now on tells it itself: none may come between.
    queue.defers_completions.store(false, Ordering::Release);
    let mut completions = Completions { signals: Vec::new(), forwards: std::mem::take(&mut *deferred) };
    drop(deferred);
    interceptor.reaper.forwarding.fetch_add(completions.forwards.len() as u32, Ordering::AcqRel);
    completions.forward(interceptor, queue, lifetime::access());
}

/// Moves on from records that are done: afterwards no look touches the blocks before them.
pub fn skip_done(queue: &Queue) {
    let mut head = lock(&queue.reaped);
    while let Some(record) = head.record() {
        if !matches!(record.state(), State::Done | State::Logged) {
            break;
        }
        head.advance();
    }
}

/// Gives up on what is in flight: rows will say that they are incomplete.
pub fn give_up(interceptor: &Interceptor, queue: &Queue) {
    let mut head = lock(&queue.reaped);
    while let Some(record) = head.record() {
        match record.state() {
            State::Free => break,
            State::InFlight => abandon(interceptor, queue, record),
            State::Done | State::Logged => {}
        }
        head.advance();
    }
}

fn abandon(interceptor: &Interceptor, queue: &Queue, record: RecordRef) {
    let signal = record.progress().signal.load(Ordering::Relaxed);
    if record.flags() & flag::APP_SIGNAL != 0 {
        interceptor.pending.give_up(signal, record);
    } else {
        if record.flags() & flag::FORWARDED != 0 {
            queue.forwarding.fetch_sub(1, Ordering::Relaxed);
            interceptor.reaper.forwarding.fetch_sub(1, Ordering::Relaxed);
        }
        // SAFETY: the record was in flight on a signal of ours, which is not destroyed.
        let own = unsafe { OwnSignal::from_handle(signal) };
        let has_ended = own.memory().value.load(Ordering::Acquire) <= 0;
        // Otherwise the signal is not used again: the GPU may still write it.
        if queue.gone.load(Ordering::Acquire) {
            interceptor.signals.retire(own);
        } else if has_ended {
            interceptor.signals.rest(own);
        }
        record.add_flags(if has_ended { flag::NO_TIMES } else { flag::INCOMPLETE });
        record.set_state(State::Done);
    }
}

/// True if a complete dispatch with these flags is proof that those before it are complete. That one on an application's signal
/// has ended is a guess if it has no times: any thread can change the value.
fn is_proof(flags: u8) -> bool {
    const GUESS: u8 = flag::APP_SIGNAL | flag::NO_TIMES;
    flags & flag::BARRIER != 0 && flags & GUESS != GUESS
}

/// Asks for the cache lines of records to come, and of their signals: the GPU and the publisher leave them elsewhere.
#[inline]
fn ask_ahead(record: RecordRef) {
    record.ask_ahead(2 * AHEAD);
    if let Some(soon) = record.block.progress(record.slot + AHEAD) {
        prefetch_for_write(std::ptr::with_exposed_provenance::<Signal>(soon.signal.load(Ordering::Relaxed) as usize));
    }
}

/// What a look at one queue found, to be dealt with when its lock is released.
#[derive(Default)]
struct Completions {
    signals: Vec<OwnSignal>,
    forwards: Vec<Forward>,
}

impl Completions {
    fn look(&mut self, interceptor: &Interceptor, queue: &Queue) -> Seen {
        let gone = queue.gone.load(Ordering::Acquire);
        let mut head = lock(&queue.reaped);
        let mut at = *head;
        let mut seen = Seen::default();
        let (mut passed, mut finished) = (0, 0);
        while let Some(record) = at.record() {
            ask_ahead(record);
            match record.state() {
                State::Free => break,
                State::InFlight if self.is_complete(interceptor, record) => {
                    seen.completed += 1;
                    if seen.in_flight > 0 && is_proof(record.flags()) {
                        // Everything before it is complete, even if its signals do not say so.
                        seen.completed += self.catch_up(interceptor, queue, *head, record);
                        seen.in_flight = 0;
                    }
                }
                State::InFlight if gone => {
                    abandon(interceptor, queue, record);
                    seen.completed += 1;
                }
                State::InFlight => seen.in_flight += 1,
                State::Done | State::Logged => {}
            }
            at.advance();
            passed += 1;
            if seen.in_flight == 0 {
                *head = at;
                finished = passed;
            } else if seen.in_flight > WINDOW {
                break;
            }
        }
        queue.ring.iter().for_each(|ring| ring.finished(finished));
        seen
    }

    /// Completes what lies before a packet with the barrier bit that is complete; says how many.
    fn catch_up(&mut self, interceptor: &Interceptor, queue: &Queue, mut from: Cursor, to: RecordRef) -> usize {
        let mut completed = 0;
        while let Some(record) = from.record().filter(|&r| r != to) {
            if record.state() == State::InFlight {
                if !self.is_complete(interceptor, record) {
                    record.add_flags(flag::NO_TIMES);
                    abandon(interceptor, queue, record);
                }
                completed += 1;
            }
            from.advance();
        }
        completed
    }

    /// Harvests a dispatch if it is complete.
    fn is_complete(&mut self, interceptor: &Interceptor, record: RecordRef) -> bool {
        let (flags, signal) = (record.flags(), record.progress().signal.load(Ordering::Relaxed));
        if flags & flag::APP_SIGNAL != 0 {
            if interceptor.pending.harvest_if_complete(signal, record) && interceptor.reaper.has_waited_for(record) {
                interceptor.pending.harvest_without_times(signal, record);
            }
            return record.state() != State::InFlight;
        }
        // SAFETY: the record is in flight on a signal of ours, which is destroyed only when its record is done.
        let own = unsafe { OwnSignal::from_handle(signal) };
        // Acquire, for the times that were written before the decrement.
        if own.memory().value.load(Ordering::Acquire) > 0 {
            return false;
        }
        let (start, end) = own.memory().ticks();
        // Some hardware writes them after the value, or one after the other.
        let has_times = start != 0 && end != 0;
        interceptor.reaper.times_come(has_times);
        // An application that waits for its signal does not wait for times.
        if !has_times && flags & flag::FORWARDED == 0 && !interceptor.reaper.has_waited_in_vain(record) {
            return false;
        }
        record.times().start.store(start, Ordering::Relaxed);
        record.times().end.store(end, Ordering::Relaxed);
        if !has_times {
            record.add_flags(flag::NO_TIMES);
        } else if let Some(why) = interceptor.self_check.refuses(start, end) {
            interceptor.turn_passive(format_args!("the runtime is newer than all that were tested, and {why}"));
        }
        if flags & flag::FORWARDED != 0 {
            let signal = record.app_signal().forward_to.load(Ordering::Relaxed);
            self.forwards.push(Forward { signal, start, end });
        }
        if has_times {
            signals::reset(own);
            self.signals.push(own);
        } else {
            // Its times may still come: into no other dispatch's row.
            interceptor.signals.rest(own);
        }
        record.set_state(State::Done);
        true
    }

    /// Puts away what the application is to be told later, if a capture defers it.
    fn defer(&mut self, interceptor: &Interceptor, queue: &Queue) -> bool {
        if self.forwards.is_empty() || !queue.defers_completions.load(Ordering::Acquire) {
            return false;
        }
        let mut deferred = lock(&queue.deferred);
        let defers_completions = queue.defers_completions.load(Ordering::Acquire);
        if defers_completions {
            interceptor.reaper.forwarding.fetch_sub(self.forwards.len() as u32, Ordering::AcqRel);
            deferred.append(&mut self.forwards);
        }
        defers_completions
    }

    /// Gives applications' signals the times and the decrement that the GPU gave to ours.
    fn forward(&mut self, interceptor: &Interceptor, queue: &Queue, access: Access) {
        for (last, count) in self.runs() {
            // SAFETY: the application's packet carried the signal and has not completed for it: it must keep it alive.
            let memory = unsafe { Signal::from_handle(last.signal) };
            interceptor.pending.stamp(last.signal, last.start, last.end, count);
            interceptor.decrements.run(last.signal, || {
                if access == Access::Memory {
                    memory.value.fetch_sub(count.into(), Ordering::Release);
                } else {
                    // SAFETY: as above; the hook of `hsa_signal_destroy` waits for the end of the call.
                    unsafe { interceptor.api().subtract(last.signal, count.into()) };
                    interceptor.events.raise(last.signal);
                }
            });
            queue.forwarding.fetch_sub(count, Ordering::AcqRel);
            interceptor.reaper.forwarding.fetch_sub(count, Ordering::AcqRel);
        }
    }

    /// Completed stand-ins in the order of completion, not in the order in which the reaper saw them: the last one of each run on the
    /// same signal, and the length of the run. One decrement tells the application of a whole run, since each decrement of a signal
    /// with a waiting thread is a call of the driver. The application sees the same as with a GPU that completes them before it looks.
    fn runs(&mut self) -> impl Iterator<Item = (&Forward, u32)> {
        self.forwards.sort_by_key(|f| f.end);
        let runs = self.forwards.chunk_by(|a, b| a.signal == b.signal);
        runs.filter_map(|run| Some((run.last()?, run.len() as u32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_application_is_told_together_of_what_follows_each_other_on_one_signal_and_in_order() {
        let forward = |signal, end| Forward { signal, start: 1, end };
        let forwards =
            vec![forward(1, 40), forward(1, 10), forward(2, 30), forward(1, 20), forward(2, 35), forward(1, 50)];
        let mut completions = Completions { signals: Vec::new(), forwards };
        let runs: Vec<_> = completions.runs().map(|(last, count)| (last.signal, last.end, count)).collect();
        assert_eq!(runs, [(1, 20, 2), (2, 35, 2), (1, 50, 2)]);
    }
}
