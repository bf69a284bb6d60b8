//! The thread that empties the sub-buffers of all dispatches, and gives their messages to the handlers.
//!
//! A wave with a full sub-buffer waits for this thread without a limit. So the thread runs until the process ends, and empties sub-buffers
//! even if no handler is left.
//!
//! # Threads
//! One, started with the first pool of sub-buffers. It sleeps while no instrumented dispatch is in flight.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use logdur_handler::abi;
use logdur_intercept::Interceptor as Core;
use logdur_intercept::clock::to_ns;
use logdur_intercept::wake::Sleeper;
use logdur_journal::flag;
use logdur_messages::check;
use logdur_system::lock;

use super::Instrument;
use super::buffers::{Pool, Use};
use super::handlers::Handlers;
use super::workgroups::Chosen;

/// Looks without news before the thread sleeps between two of them.
const LOOKS: u32 = 16;
/// Between two looks: at first, and at most. A wave with a full sub-buffer waits so long, once.
const PAUSES: [Duration; 2] = [Duration::from_micros(20), Duration::from_micros(200)];
/// How long the end of the runtime waits for a handler that does not return from one call: for a large report, not for ever.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the thread waits for.
#[derive(Default)]
pub(crate) struct Waiting {
    sleeper: Sleeper,
    /// Instrumented dispatches that the thread has not ended.
    dispatches: AtomicU64,
    /// The runtime or the process is about to end: handlers are closed.
    closing: AtomicBool,
    /// The handlers are closed.
    closed: AtomicBool,
    /// The process ends: handlers are not opened again.
    is_over: AtomicBool,
    /// A handler has not returned in time, which was told: it is waited for no more.
    given_up: AtomicBool,
    started: AtomicBool,
    /// What `pthread_self` is on the thread; 0 before it runs.
    thread: AtomicUsize,
    /// Changes while the thread makes progress.
    steps: AtomicU64,
    /// The position of the handler that is being called among those that the user wants, and one; 0 for none.
    calling: AtomicUsize,
}

/// Memory of the thread for messages.
#[derive(Default)]
struct Room {
    /// A sub-buffer's.
    buffer: Vec<u64>,
    chosen: Chosen,
}

/// What was received.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) messages: u64,
    /// Of whole messages.
    pub(super) bytes: u64,
    /// Of sub-buffers, as their sizes said.
    pub(super) sent: u64,
    /// `LOGDUR_ERROR_*`.
    pub(super) errors: u32,
}

impl Waiting {
    /// A dispatch has begun.
    pub(super) fn more(&self) {
        self.dispatches.fetch_add(1, Ordering::Relaxed);
    }

    /// A dispatch has ended.
    pub(super) fn less(&self) {
        self.dispatches.fetch_sub(1, Ordering::Relaxed);
    }

    /// There is work for the thread.
    pub(super) fn wake(&self) {
        self.sleeper.wake();
    }

    /// True when handlers are being closed, or closed, or given up: dispatches run uninstrumented.
    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed) || self.given_up.load(Ordering::Relaxed)
    }

    /// A handler is called from now on, or none.
    pub(super) fn call(&self, position: Option<usize>) {
        self.calling.store(position.map_or(0, |position| position + 1), Ordering::Relaxed);
        self.step();
    }

    fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }
}

impl Instrument {
    /// Starts the thread, once.
    pub(crate) fn start(&'static self, interceptor: &'static Core) -> bool {
        if self.waiting.started.swap(true, Ordering::AcqRel) {
            return true;
        }
        let without = "no kernel is instrumented";
        let body = move || self.drain_for_ever(interceptor);
        let started = interceptor.spawn_large("logdur-drain", without, body);
        self.waiting.started.store(started, Ordering::Release);
        started
    }

    /// Waits until the handlers have all messages of dispatches that have ended, and
    /// are closed. A handler that does not return is not waited for: it is named in the result.
    ///
    /// # Errors
    /// What there is to tell of such a handler.
    pub(super) fn close_handlers(&self) -> Result<(), String> {
        let waiting = &self.waiting;
        if !waiting.started.load(Ordering::Acquire)
            || waiting.given_up.load(Ordering::Relaxed)
            || self.is_drained_here()
        {
            return Ok(());
        }
        waiting.closing.store(true, Ordering::Release);
        let mut last = (0, Instant::now());
        while !waiting.closed.load(Ordering::Acquire) {
            waiting.wake();
            std::thread::sleep(PAUSES[1]);
            let steps = waiting.steps.load(Ordering::Relaxed);
            if steps != last.0 {
                last = (steps, Instant::now());
            } else if last.1.elapsed() > PATIENCE {
                waiting.given_up.store(true, Ordering::Relaxed);
                let called = waiting.calling.load(Ordering::Relaxed).checked_sub(1);
                let name =
                    called.and_then(|position| self.handlers.get(position)).map_or("".into(), |n| n.to_string_lossy());
                let seconds = PATIENCE.as_secs();
                return Err(format!(
                    "handler {name}: it did not return from a call within {seconds} s: the process ends without it, its report may be \
                     incomplete"
                ));
            }
        }
        Ok(())
    }

    /// Waits until the handler that is being called returns, if there is one: not for ever.
    pub(super) fn await_call(&self) {
        let waiting = &self.waiting;
        let at = || (waiting.calling.load(Ordering::Relaxed), waiting.steps.load(Ordering::Relaxed));
        let (start, call) = (Instant::now(), at());
        if waiting.given_up.load(Ordering::Relaxed) || self.is_drained_here() {
            return;
        }
        while call.0 != 0 && at() == call && start.elapsed() < PATIENCE {
            std::thread::sleep(PAUSES[1]);
        }
    }

    /// True on the drain thread.
    pub(super) fn is_drained_here(&self) -> bool {
        self.waiting.thread.load(Ordering::Acquire) == this_thread()
    }

    /// The process ends: handlers stay closed, because what their libraries have made will be destroyed.
    pub(super) fn never_again(&self) {
        self.waiting.is_over.store(true, Ordering::Release);
    }

    /// The runtime is gone, with the memory of the pools.
    pub(crate) fn forget(&self) {
        lock(&self.pools).clear();
        self.waiting.dispatches.store(0, Ordering::Relaxed);
        if self.waiting.is_over.load(Ordering::Acquire) {
            return;
        }
        self.waiting.closed.store(false, Ordering::Release);
        self.waiting.closing.store(false, Ordering::Release);
    }

    fn drain_for_ever(&'static self, interceptor: &'static Core) {
        self.waiting.thread.store(this_thread(), Ordering::Release);
        let waiting = &self.waiting;
        let mut handlers = Some(Handlers::open(self, interceptor));
        let mut room = Room::default();
        let mut idle = 0;
        let has_dispatches = || waiting.dispatches.load(Ordering::Relaxed) > 0;
        loop {
            let closing = waiting.closing.load(Ordering::Acquire);
            if !closing && handlers.is_none() && has_dispatches() {
                // The runtime has been started again.
                handlers = Some(Handlers::open(self, interceptor));
            }
            // A dispatch that has just begun finds handlers open, or is left for the next time.
            let are_ready = closing || handlers.is_some();
            let news = are_ready && {
                let may = interceptor.may_use_runtime();
                *may && self.look(interceptor, &mut handlers, &mut room)
            };
            let is_to_close = || waiting.closing.load(Ordering::Acquire) && !waiting.closed.load(Ordering::Relaxed);
            if closing && is_to_close() {
                if let Some(mut last) = handlers.take() {
                    self.end_all(&mut last);
                    last.close();
                }
                waiting.closed.store(true, Ordering::Release);
            }
            idle = if news { 0 } else { idle + 1 };
            let has_work = || has_dispatches() || is_to_close();
            if !has_work() {
                waiting.sleeper.sleep(None, has_work);
                idle = 0;
            } else if idle > LOOKS {
                let doubled = PAUSES[0].saturating_mul(1 << (idle - LOOKS).min(8));
                waiting.sleeper.sleep(Some(doubled.min(PAUSES[1])), || false);
            } else if idle > 0 {
                std::thread::yield_now();
            }
        }
    }

    /// Looks at all dispatches once; true if there was anything to do.
    fn look(&self, interceptor: &'static Core, handlers: &mut Option<Handlers>, room: &mut Room) -> bool {
        let pools: Vec<&'static Pool> = lock(&self.pools).values().copied().collect();
        let mut news = false;
        for pool in pools {
            for first in pool.units.running() {
                let Some(mut dispatch) = pool.units.dispatch(first) else { continue };
                // Before its messages are read: all of them are there then.
                let has_ended = dispatch.has_ended();
                if !dispatch.begun {
                    dispatch.begun = true;
                    handlers.iter_mut().for_each(|handlers| handlers.begin(&dispatch));
                    news = true;
                }
                for n in first..first + dispatch.count {
                    if has_ended || pool.is_full(n) {
                        news |= self.empty(interceptor, pool, n, &mut dispatch, handlers, room);
                    }
                }
                if has_ended {
                    self.end_dispatch(interceptor, pool, first, dispatch, handlers.as_mut());
                    news = true;
                } else {
                    pool.units.keep(first, dispatch);
                }
            }
        }
        if news {
            self.waiting.step();
        }
        news
    }

    /// Empties a sub-buffer; true if there was anything in it.
    fn empty(
        &self,
        interceptor: &'static Core,
        pool: &Pool,
        n: usize,
        dispatch: &mut Use,
        handlers: &mut Option<Handlers>,
        room: &mut Room,
    ) -> bool {
        let size = pool.empty(n, &mut room.buffer);
        if size == 0 {
            return false;
        }
        dispatch.total.sent = dispatch.total.sent.saturating_add(size);
        let length = usize::try_from(size).ok().filter(|length| *length <= pool.capacity);
        let bytes = bytes_of(&room.buffer, length.unwrap_or(0));
        let checked = check(bytes);
        let wrong = match (length, checked.corrupt) {
            (None, _) => Some(format!("expected a size of at most {} bytes, found {size}", pool.capacity)),
            (_, corrupt) => corrupt.map(|corrupt| corrupt.to_string()),
        };
        if let Some(wrong) = wrong {
            dispatch.total.errors |= abi::LOGDUR_ERROR_CORRUPT;
            let (kernel, id) = (&dispatch.probe.kernel, dispatch.id);
            let text = format!("instrumented: messages of {kernel} are lost, first in dispatch {id}: {wrong}");
            interceptor.notice_once("corrupt-messages", text);
        }
        let whole = bytes.get(..checked.bytes).unwrap_or(bytes);
        let (bytes, messages) = if self.workgroups.are_all() {
            (whole, checked.messages)
        } else {
            room.chosen.choose(whole, &self.workgroups);
            self.counts.others.fetch_add(room.chosen.others, Ordering::Relaxed);
            (bytes_of(room.chosen.words(), room.chosen.bytes), room.chosen.messages)
        };
        dispatch.total.messages += messages;
        dispatch.total.bytes += bytes.len() as u64;
        if let Some(handlers) = handlers.as_mut().filter(|_| messages > 0) {
            handlers.messages(dispatch.id, bytes, messages);
        }
        self.waiting.step();
        true
    }

    /// Ends a dispatch.
    fn end_dispatch(
        &self,
        interceptor: &'static Core,
        pool: &Pool,
        first: usize,
        mut dispatch: Use,
        handlers: Option<&mut Handlers>,
    ) {
        let given_up = dispatch.was_given_up();
        if pool.errors(first) & TOO_LARGE != 0 {
            dispatch.total.errors |= abi::LOGDUR_ERROR_TOO_LARGE;
            let (kernel, id, most) = (&dispatch.probe.kernel, dispatch.id, pool.capacity);
            let text = format!(
                "instrumented: messages of {kernel} are lost, first in dispatch {id}: they are larger than a buffer of {most} bytes"
            );
            interceptor.notice_once("large-messages", text);
        }
        if given_up {
            dispatch.total.errors |= abi::LOGDUR_ERROR_NOT_ENDED;
        }
        let duration = duration(interceptor, &dispatch).unwrap_or(0);
        self.counts.ended(&dispatch.total);
        if let Some(handlers) = handlers {
            handlers.end(dispatch.id, duration, &dispatch.total);
        }
        // Locks of waves that were killed stay locked.
        pool.end(first, dispatch.count, !given_up);
    }

    /// Ends dispatches for the handlers that have not ended: nothing of them is delivered any more.
    fn end_all(&self, handlers: &mut Handlers) {
        let pools: Vec<&'static Pool> = lock(&self.pools).values().copied().collect();
        for pool in pools {
            for first in pool.units.running() {
                let Some(mut dispatch) = pool.units.dispatch(first).filter(|dispatch| dispatch.begun) else { continue };
                dispatch.total.errors |= abi::LOGDUR_ERROR_NOT_ENDED;
                handlers.end(dispatch.id, 0, &dispatch.total);
                pool.units.keep(first, dispatch);
            }
        }
    }
}

/// Bit of a descriptor's error word: the kernel dropped a message. Source: dh_comms.
const TOO_LARGE: u32 = 1;

fn this_thread() -> usize {
    // SAFETY: the call cannot fail.
    unsafe { libc::pthread_self() as usize }
}

/// Nanoseconds that a dispatch took, if its record has its times still.
fn duration(interceptor: &'static Core, dispatch: &Use) -> Option<u64> {
    let record = dispatch.record?;
    let agent = interceptor.agent(dispatch.probe.agent)?;
    let is_its = || record.record().id.load(Ordering::Acquire) == dispatch.id;
    let ticks = [&record.times().start, &record.times().end].map(|tick| tick.load(Ordering::Relaxed));
    if record.progress().flags() & (flag::NO_TIMES | flag::INCOMPLETE) != 0 || ticks[1] == 0 || !is_its() {
        return None;
    }
    if let Some(line) = agent.clock.line() {
        return line.to_ns(ticks[1]).checked_sub(line.to_ns(ticks[0]));
    }
    // The log has not calibrated the clock yet.
    let (api, handle) = (interceptor.api(), agent.agent.handle);
    let [start, end] = ticks.map(|tick| api.system_tick(handle, tick).ok());
    Some(to_ns(end?.checked_sub(start?)?, api.timestamp_frequency().ok()?))
}

/// The first bytes of words.
fn bytes_of(words: &[u64], length: usize) -> &[u8] {
    let all = std::mem::size_of_val(words).min(length);
    // SAFETY: the words have so many bytes, and any bytes are a value.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), all) }
}
