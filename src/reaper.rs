//! Completion: times into records, signals back to where they came from.
//!
//! # Threads
//! One thread for the process, started with the first queue; the exiting thread lends a hand at the end. Queues are
//! taken one at a time, each under its own lock, which publishers never take.
//!
//! Only an application whose signal one of ours stands in for waits for the reaper; then it looks all the time at
//! first, and every [`SHORT_NAP`] when that takes longer. Otherwise it naps for up to 10 ms, and without anything in flight it sleeps until a publisher wakes it — which can
//! happen once in [`LINGER`] at most.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hsa::OwnSignal;
use hsa_sys::abi::signal::Signal;
use logdur_journal::{State, flag};

use crate::blocks::{Cursor, RecordRef};
use crate::cache_line::prefetch_for_write;
use crate::exit;
use crate::queue::{Queue, Ring, inplace};
use crate::session::{Session, lock};
use crate::signals;
use crate::wake::Sleeper;

/// How many dispatches that are not complete are looked at in each queue, past the first one.
const WINDOW: usize = 64;
/// How many records before its turn a signal's cache line is asked for.
const AHEAD: usize = 8;
/// How long it looks without a nap for what an application waits for: most kernels take less.
const LOOK_ALL_THE_TIME: Duration = Duration::from_micros(200);
const SHORT_NAP: Duration = Duration::from_micros(50);
/// How long the times of a dispatch may come after its completion. Only its row waits for them, and a busy machine
/// makes much of little.
pub(crate) const GRACE: Duration = Duration::from_millis(500);
const SHORTEST_NAP: Duration = Duration::from_millis(1);
const LONGEST_NAP: Duration = Duration::from_millis(10);
/// How long it stays awake with nothing in flight.
const LINGER: Duration = Duration::from_millis(10);

/// A process that ends earlier does not have to wait until its threads' fence is the reaper's.
const FENCE_AFTER: Duration = Duration::from_millis(250);

/// The thread's side that others see.
pub(crate) struct Reaper {
    started: AtomicBool,
    /// Asleep until the next dispatch.
    idle: Sleeper,
    /// Asleep for a nap, which dispatches do not interrupt.
    nap: Sleeper,
    look: AtomicBool,
    /// Dispatches in flight whose applications' signals wait for us.
    pub(crate) forwarding: AtomicU32,
    /// Dispatches that are complete but for their times, and since when.
    without_times: Mutex<Vec<(RecordRef, Instant)>>,
    /// The times of the last dispatch on a signal of ours did not come, however long they were waited for.
    times_never_come: AtomicBool,
}

/// What a look at the queues found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) completed: usize,
    pub(crate) in_flight: usize,
    /// Packets were reserved that are not published.
    pub(crate) unpublished: bool,
}

/// An application's signal that one of ours stood in for.
pub(crate) struct Forward {
    signal: u64,
    start: u64,
    end: u64,
}

impl Reaper {
    pub(crate) fn new() -> Reaper {
        Reaper {
            started: AtomicBool::new(false),
            idle: Sleeper::new(),
            nap: Sleeper::new(),
            look: AtomicBool::new(false),
            forwarding: AtomicU32::new(0),
            without_times: Mutex::default(),
            times_never_come: AtomicBool::new(false),
        }
    }

    /// True when the times of a dispatch, which is complete, have been waited for as long as they are.
    fn has_waited_for(&self, record: RecordRef) -> bool {
        let now = Instant::now();
        let mut waiting = lock(&self.without_times);
        // Of others, some had their times meanwhile.
        waiting.retain(|(other, since)| *other == record || now.duration_since(*since) < 2 * GRACE);
        match waiting.iter().position(|(other, _)| *other == record) {
            None => {
                waiting.push((record, now));
                false
            }
            Some(at) if now.duration_since(waiting[at].1) >= GRACE => {
                waiting.swap_remove(at);
                true
            }
            Some(_) => false,
        }
    }

    /// True when the times of a dispatch on a signal of ours are not waited for any longer. Once they have not come at all, the
    /// next ones are not waited for either.
    fn has_waited_in_vain(&self, record: RecordRef) -> bool {
        if self.times_never_come.load(Ordering::Relaxed) {
            return true;
        }
        let waited = self.has_waited_for(record);
        if waited {
            self.times_never_come.store(true, Ordering::Relaxed);
        }
        waited
    }

    /// A dispatch on a signal of ours has its times.
    fn times_come(&self, has_times: bool) {
        if has_times && self.times_never_come.load(Ordering::Relaxed) {
            self.times_never_come.store(false, Ordering::Relaxed);
        }
    }

    /// Starts the thread if it does not run yet.
    pub(crate) fn start(&self, session: &'static Session) {
        if !self.started.swap(true, Ordering::AcqRel) {
            session.spawn("logdur-reaper", move || session.reaper.run(session));
        }
    }

    /// A publisher has published.
    pub(crate) fn wake(&self) {
        self.idle.wake();
        if self.forwarding.load(Ordering::Relaxed) > 0 {
            self.nap.wake();
        }
    }

    /// Something other than a dispatch asks for a look.
    pub(crate) fn look_now(&self) {
        self.look.store(true, Ordering::Release);
        self.idle.wake();
        self.nap.wake();
    }

    fn run(&self, session: &'static Session) {
        let start = Instant::now();
        let (mut nap, mut busy, mut has_fence, mut moved) = (SHORTEST_NAP, start, false, start);
        loop {
            if !has_fence && start.elapsed() >= FENCE_AFTER {
                self.idle.take_the_fence();
                has_fence = true;
            }
            self.look.store(false, Ordering::Release);
            let seen = {
                let may = session.may_use_runtime();
                let access = exit::access();
                if *may { round(session, access) } else { Seen::default() }
            };
            let forwarding = self.forwarding.load(Ordering::Acquire) > 0;
            if seen.completed > 0 || !forwarding {
                moved = Instant::now();
            }
            if seen.completed > 0 {
                session.log.wake();
            }
            if seen.completed > 0 || seen.in_flight > 0 || seen.unpublished {
                busy = Instant::now();
            }
            nap = if seen.completed > 0 { SHORTEST_NAP } else { (nap * 2).min(LONGEST_NAP) };
            let asked = || self.look.load(Ordering::Acquire);
            if forwarding && moved.elapsed() < LOOK_ALL_THE_TIME {
                std::thread::yield_now();
            } else if forwarding {
                // No publisher wakes the reaper here: each dispatch would cost it a system call, for at most 50 µs.
                std::thread::sleep(SHORT_NAP);
            } else if seen.in_flight > 0 || seen.unpublished || busy.elapsed() < LINGER {
                self.nap.sleep(Some(nap), || asked() || self.forwarding.load(Ordering::Acquire) > 0);
            } else {
                self.idle.sleep(None, || asked() || has_news(session));
            }
        }
    }
}

/// Looks at every queue, and makes ready what publishers are going to need.
fn round(session: &'static Session, access: Access) -> Seen {
    let seen = look(session, access);
    let queues = session.queues.all();
    if access == Access::Full && !queues.is_empty() {
        session.signals.make_reserve(session.api());
        session.blocks.prepare();
        for queue in queues {
            session.blocks.put_aside(&queue.spare);
            if queue.gone.load(Ordering::Acquire) {
                session.blocks.take_back(&queue.spare);
            }
        }
    }
    seen
}

/// True when a publisher has published what no look has seen yet.
fn has_news(session: &Session) -> bool {
    session.queues.all().into_iter().any(|queue| {
        if queue.ring.as_ref().is_some_and(Ring::has_unpublished) {
            return true;
        }
        let record = lock(&queue.reaped).record();
        record.is_some_and(|r| r.state() != State::Free)
    })
}

/// What of the runtime may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everything.
    Full,
    /// The process is ending: functions on signals only.
    Signals,
    /// The runtime's destructors have run: only its memory is still there.
    Memory,
}

/// Looks at every queue once.
pub(crate) fn look(session: &'static Session, access: Access) -> Seen {
    let mut seen = Seen::default();
    for queue in session.queues.all() {
        if access != Access::Memory {
            seen.unpublished |= inplace::rescue(session, queue);
        }
        let mut found = Found::default();
        let of_queue = found.look(session, queue);
        seen.completed += of_queue.completed;
        seen.in_flight += of_queue.in_flight;
        if !found.keep(session, queue) {
            found.forward(session, queue, access);
        }
        give_signals(session, queue, &mut found.signals, access);
    }
    seen
}

/// Gives signals back to a queue, and new ones if it is short of them; a queue that is gone leaves them to others.
fn give_signals(session: &Session, queue: &Queue, signals: &mut Vec<OwnSignal>, access: Access) {
    if access == Access::Full && !queue.gone.load(Ordering::Acquire) {
        let there = lock(&queue.returned).len();
        session.signals.make_ready(session, there, signals);
    }
    let mut returned = lock(&queue.returned);
    returned.append(signals);
    // The thread that destroys the queue says that it is gone before it looks for what was returned.
    if queue.gone.load(Ordering::Acquire) {
        session.signals.give_back(&mut returned);
    }
}

/// Tells the application what was kept from it while a dispatch of the queue was captured.
pub(crate) fn tell_kept(session: &Session, queue: &Queue) {
    let mut kept = lock(&queue.kept);
    // A look that finds more from now on tells it itself: none may come between.
    queue.keeps.store(false, Ordering::Release);
    let mut found = Found { signals: Vec::new(), forwards: std::mem::take(&mut *kept) };
    drop(kept);
    session.reaper.forwarding.fetch_add(found.forwards.len() as u32, Ordering::AcqRel);
    found.forward(session, queue, exit::access());
}

/// Moves on from records that are done: afterwards no look touches the blocks before them.
pub(crate) fn settle(queue: &Queue) {
    let mut head = lock(&queue.reaped);
    while let Some(record) = head.record() {
        if !matches!(record.state(), State::Done | State::Logged) {
            break;
        }
        head.advance();
    }
}

/// Gives up on whatever is in flight: rows will say that they are incomplete.
pub(crate) fn give_up(session: &Session, queue: &Queue) {
    let mut head = lock(&queue.reaped);
    while let Some(record) = head.record() {
        match record.state() {
            State::Free => break,
            State::InFlight => abandon(session, queue, record),
            State::Done | State::Logged => {}
        }
        head.advance();
    }
}

fn abandon(session: &Session, queue: &Queue, record: RecordRef) {
    let signal = record.progress().signal.load(Ordering::Relaxed);
    if record.flags() & flag::APP_SIGNAL != 0 {
        session.pending.give_up(signal, record);
    } else {
        if record.flags() & flag::FORWARDED != 0 {
            queue.forwarding.fetch_sub(1, Ordering::Relaxed);
            session.reaper.forwarding.fetch_sub(1, Ordering::Relaxed);
        }
        // SAFETY: the record was in flight on a signal of ours, which nobody has destroyed.
        let own = unsafe { OwnSignal::from_handle(signal) };
        let has_ended = own.memory().value.load(Ordering::Acquire) <= 0;
        // Otherwise the signal is not used again: the GPU may still write it.
        if queue.gone.load(Ordering::Acquire) {
            session.signals.retire(own);
        } else if has_ended {
            session.signals.rest(own);
        }
        record.add_flags(if has_ended { flag::NO_TIMES } else { flag::INCOMPLETE });
        record.set_state(State::Done);
    }
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
struct Found {
    signals: Vec<OwnSignal>,
    forwards: Vec<Forward>,
}

impl Found {
    fn look(&mut self, session: &Session, queue: &Queue) -> Seen {
        let gone = queue.gone.load(Ordering::Acquire);
        let mut head = lock(&queue.reaped);
        let mut at = *head;
        let mut seen = Seen::default();
        while let Some(record) = at.record() {
            ask_ahead(record);
            match record.state() {
                State::Free => break,
                State::InFlight if self.is_complete(session, record) => {
                    seen.completed += 1;
                    if seen.in_flight > 0 && record.flags() & flag::BARRIER != 0 {
                        // Everything before it is complete, whatever its signals say.
                        seen.completed += self.catch_up(session, queue, *head, record);
                        seen.in_flight = 0;
                    }
                }
                State::InFlight if gone => {
                    abandon(session, queue, record);
                    seen.completed += 1;
                }
                State::InFlight => seen.in_flight += 1,
                State::Done | State::Logged => {}
            }
            at.advance();
            if seen.in_flight == 0 {
                *head = at;
            } else if seen.in_flight > WINDOW {
                break;
            }
        }
        seen
    }

    /// Completes what lies before a packet with the barrier bit that is complete; says how many.
    fn catch_up(&mut self, session: &Session, queue: &Queue, mut from: Cursor, to: RecordRef) -> usize {
        let mut completed = 0;
        while let Some(record) = from.record().filter(|&r| r != to) {
            if record.state() == State::InFlight {
                if !self.is_complete(session, record) {
                    record.add_flags(flag::NO_TIMES);
                    abandon(session, queue, record);
                }
                completed += 1;
            }
            from.advance();
        }
        completed
    }

    /// Harvests a dispatch if it is complete.
    fn is_complete(&mut self, session: &Session, record: RecordRef) -> bool {
        let (flags, signal) = (record.flags(), record.progress().signal.load(Ordering::Relaxed));
        if flags & flag::APP_SIGNAL != 0 {
            if session.pending.harvest_if_complete(signal, record) && session.reaper.has_waited_for(record) {
                session.pending.harvest_without_times(signal, record);
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
        session.reaper.times_come(has_times);
        // An application that waits for its signal does not wait for times.
        if !has_times && flags & flag::FORWARDED == 0 && !session.reaper.has_waited_in_vain(record) {
            return false;
        }
        record.times().start.store(start, Ordering::Relaxed);
        record.times().end.store(end, Ordering::Relaxed);
        if !has_times {
            record.add_flags(flag::NO_TIMES);
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
            session.signals.rest(own);
        }
        record.set_state(State::Done);
        true
    }

    /// Puts away what the application is to be told later, if it is: nobody looks for it meanwhile.
    fn keep(&mut self, session: &Session, queue: &Queue) -> bool {
        if self.forwards.is_empty() || !queue.keeps.load(Ordering::Acquire) {
            return false;
        }
        let mut kept = lock(&queue.kept);
        let keeps = queue.keeps.load(Ordering::Acquire);
        if keeps {
            session.reaper.forwarding.fetch_sub(self.forwards.len() as u32, Ordering::AcqRel);
            kept.append(&mut self.forwards);
        }
        keeps
    }

    /// Gives applications' signals the times and the decrement that the GPU gave to ours.
    fn forward(&mut self, session: &Session, queue: &Queue, access: Access) {
        // In the order of completion, whatever the order in which it was noticed.
        self.forwards.sort_by_key(|f| f.end);
        for forward in &self.forwards {
            // SAFETY: the application's packet carried the signal and has not completed for it: it must keep it alive.
            let memory = unsafe { Signal::from_handle(forward.signal) };
            session.pending.stamp(forward.signal, forward.start, forward.end);
            if access == Access::Memory {
                memory.value.fetch_sub(1, Ordering::Release);
            } else {
                // SAFETY: as above.
                unsafe { session.api().subtract(forward.signal, 1) };
            }
            queue.forwarding.fetch_sub(1, Ordering::AcqRel);
            session.reaper.forwarding.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
