//! Taking one capture.

use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use logdur_intercept::queue::Ring;
use logdur_intercept::{Interceptor, lifetime, reaper};
use logdur_journal::State;
use logdur_settings as settings;
use logdur_settings::{CaptureScope, Quiesce};
use logdur_system::lock;

use super::file::{Failed, Taken};
use super::hold::{FAILURES, PATIENCE, Patience, TooMuch};
use super::kernarg::Kernarg;
use super::read::Reader;
use super::scope::Wanted;
use super::stall::{self, Stalled};
use super::unannounced;
use super::{Capture, Target};

/// Why a dispatch was not captured.
#[derive(Debug, thiserror::Error)]
pub(super) enum Untaken {
    /// What was before it.
    #[error(
        "earlier work had not ended, and made no progress for {} s, the limit of {name}: it may wait for work that was held for the \
         capture",
        .0.as_secs(), name = settings::Interceptor::capture_max_stall
    )]
    Busy(Duration),
    /// It was held for as long as it may be.
    #[error("it was held for {} s, the limit of {name}", .0.as_secs(), name = settings::Interceptor::capture_max_hold)]
    Held(Duration),
    /// More memory than the limits allow.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
    /// Itself.
    #[error(
        "it had not ended, and made no progress for {} s, the limit of {name}: it may wait for work that was held for the capture",
        .0.as_secs(), name = settings::Interceptor::capture_max_stall
    )]
    Endless(Duration),
    /// As after a fault that HIP gives to the application as an error.
    #[error("the dispatch had not ended when the application destroyed its queue, or ended")]
    Unended,
    /// As after a limit or an error of the file.
    #[error("nothing more is captured")]
    Stopped,
    /// Its queue was destroyed, or is not one that can be held.
    #[error("its queue could not be held")]
    Queue,
    /// What it needs of the runtime.
    #[error("memory cannot be read: {0}")]
    Unread(#[from] super::read::Unread),
    /// The file.
    #[error(transparent)]
    File(#[from] Failed),
}

/// A reader, and what keeps the application from freeing memory while a copy is under way.
pub(super) struct Reading<'a> {
    pub(super) reader: MutexGuard<'a, Option<Reader>>,
    pub(super) not_freed: Option<RwLockWriteGuard<'a, ()>>,
}

impl Reading<'_> {
    /// Waits for copies of ours that were late: they may be behind copies of the application's. Until they are complete,
    /// the memory that they read cannot be freed. Returns itself if `wanted` becomes true before they are complete. Otherwise
    /// the wait ends after [`PATIENCE`].
    pub(super) fn wait_for_late_copies(self, wanted: impl Fn() -> bool) -> Option<Self> {
        let has_no_late_copies = || self.reader.as_ref().is_none_or(Reader::has_no_late_copies);
        let deadline = Instant::now() + PATIENCE;
        while !has_no_late_copies() && Instant::now() < deadline {
            if wanted() {
                return Some(self);
            }
            std::thread::sleep(stall::LOOK);
        }
        None
    }
}

impl Capture {
    /// Captures a dispatch, or says why not; the queues go on in any case. Returns what it read with if copies are under way.
    pub(super) fn take<'a>(
        &'a self,
        interceptor: &'static Interceptor,
        target: Target,
        mut reading: Option<Reading<'a>>,
    ) -> Option<Reading<'a>> {
        let start = Instant::now();
        let mut stalled = Stalled::with(interceptor, target.queue);
        let result = self.try_take(interceptor, &target, &mut stalled, &mut reading);
        // It was chosen, and counted, once.
        if let Some(ring) = &target.queue.ring {
            ring.hold.pass(target.index);
        }
        // Before the queues go on: what is behind is not to be seen before.
        reaper::complete_deferred(interceptor, target.queue);
        drop(stalled);
        match result {
            Ok(()) => {
                self.failures.store(0, Ordering::Relaxed);
                let captured = self.taken.fetch_add(1, Ordering::Relaxed) + 1;
                if self.quit == Some(captured) {
                    self.quit(interceptor, captured);
                }
            }
            // The file ended with the process, and says that it had not ended.
            Err(_) if lock(&self.file).is_finished() => {}
            Err(Untaken::File(error)) => self.check(interceptor, Err(error)),
            Err(why) => {
                let what = format!("a dispatch of queue {}: {why}", target.queue.id.load(Ordering::Relaxed));
                interceptor.notice(format!("capture: not captured: {what}"));
                let noted = lock(&self.file).untaken(&what);
                self.check(interceptor, noted);
                let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
                if failures == FAILURES {
                    self.stop(
                        interceptor,
                        &format!("{failures} dispatches in a row were not captured; the last: {why}"),
                    );
                }
            }
        }
        self.spent_on(interceptor, start.elapsed());
        // Others may use the reader when the last copy is complete: also a thread that ends the process, which waits for the note.
        reading.and_then(|reading| reading.wait_for_late_copies(|| true))
    }

    /// Time was spent on capturing: nothing more is captured once that was too much, or the file is full.
    pub(super) fn spent_on(&self, interceptor: &Interceptor, time: Duration) {
        let now = time.as_nanos() as u64;
        let spent = self.spent.fetch_add(now, Ordering::Relaxed) + now;
        if spent >= self.seconds.saturating_mul(1_000_000_000) {
            self.stop(interceptor, &format!("{} s were spent on it", self.seconds));
        }
        let full = lock(&self.file).is_full();
        if let Some(limit) = full {
            self.stop(interceptor, &format!("the file has {limit} bytes"));
        }
    }

    fn try_take<'a>(
        &'a self,
        interceptor: &'static Interceptor,
        target: &Target,
        stalled: &mut Stalled,
        reading: &mut Option<Reading<'a>>,
    ) -> Result<(), Untaken> {
        let queue = target.queue;
        let ring = queue.ring.as_ref().ok_or(Untaken::Queue)?;
        let end = target.since + self.limits.hold;
        // Of two reasons, the limit is the one that the user can change.
        let or_held = |why: Untaken| if Instant::now() >= end { Untaken::Held(self.limits.hold) } else { why };
        if !target.reached {
            return Err(or_held(Untaken::Busy(self.limits.stall)));
        }
        let scope = self.allowed_scope(interceptor, queue.agent);
        // The lease of the target keeps them longer than this list does.
        let all = interceptor.queues.all();
        let others = all.iter().copied().filter(|q| !ptr::eq(*q, queue));
        match self.quiesce {
            Quiesce::Queue => {}
            Quiesce::Device => stalled.pause(others.filter(|q| q.agent == queue.agent)),
            Quiesce::Process => stalled.pause(others),
        }
        let _held = self.copies.hold();
        let patience = Patience::until(end, self.limits.stall);
        stalled.drain(&self.copies, patience).map_err(|_| or_held(Untaken::Busy(self.limits.stall)))?;
        let mut taken = self.held(interceptor, target, ring, scope);
        let reading = self.reading(interceptor, reading)?;
        let latest = lock(&self.file).latest();
        let replacement = self.variables.and_then(|of| of.with_own_variables(taken.packet.kernel_object()));
        let kernarg = &taken.kernarg.bytes;
        let wanted = Wanted { scope, agent: queue.agent, kernarg, replacement, is_after: false, end };
        let before = self.snapshot(interceptor, reading, &wanted, latest)?;
        taken.before = before;
        // What is known of it stays in the file, if it brings the process down.
        taken.id = interceptor.records.header().next_id().load(Ordering::Relaxed);
        lock(&self.file).begun(interceptor, &taken)?;
        self.run_alone(interceptor, stalled, ring, &mut taken, end).map_err(or_held)?;
        if self.after {
            let kernarg = &taken.kernarg.bytes;
            let wanted = Wanted { scope, agent: queue.agent, kernarg, replacement, is_after: true, end };
            taken.after = self.snapshot(interceptor, reading, &wanted, before)?;
        }
        taken.held = target.since.elapsed();
        for what in lock(&self.file).dispatch(interceptor, self.kernels, &taken)? {
            interceptor.notice(format!("capture: {what}"));
        }
        Ok(())
    }

    /// What is known of a dispatch that is held, with everything at rest.
    pub(super) fn held(
        &self,
        interceptor: &'static Interceptor,
        target: &Target,
        ring: &Ring,
        scope: CaptureScope,
    ) -> Taken {
        let packet = ring.slot(target.index).read();
        let kernel = self.kernels.by_number(self.kernels.number(packet.kernel_object()));
        let kernarg = Kernarg::of(&packet, kernel.and_then(|k| k.kernel.kernarg_size), &lock(&self.memory));
        let agent = interceptor.agent(target.queue.agent).map_or(0, |agent| agent.agent.handle);
        let unannounced = if interceptor.api().retries_faults(agent) {
            unannounced::enter(&mut lock(&self.memory), &kernarg.bytes)
        } else {
            Vec::new()
        };
        Taken {
            target: (target.queue, target.index, target.occurrence),
            packet,
            kernarg,
            before: None,
            after: None,
            scope,
            ran: packet.kernel_object(),
            id: 0,
            ticks: None,
            held: Duration::ZERO,
            unannounced,
        }
    }

    /// The reader, which is made if there is none.
    pub(super) fn reading<'a, 'r>(
        &'a self,
        interceptor: &'static Interceptor,
        reading: &'r mut Option<Reading<'a>>,
    ) -> Result<&'r mut Reading<'a>, Untaken> {
        let reading = reading.get_or_insert_with(|| Reading { reader: lock(&self.reader), not_freed: None });
        if reading.reader.is_none() {
            *reading.reader = Some(Reader::new(interceptor.api())?);
        }
        Ok(reading)
    }

    /// Lets the one dispatch run, and waits for its end.
    pub(super) fn run_alone(
        &self,
        interceptor: &'static Interceptor,
        stalled: &Stalled,
        ring: &Ring,
        taken: &mut Taken,
        end: Instant,
    ) -> Result<(), Untaken> {
        let (queue, deadline) = (taken.target.0, end.min(Instant::now() + PATIENCE));
        let record = stall::next_record(interceptor, queue, deadline).map_err(|_| Untaken::Queue)?;
        ring.hold.pass(taken.target.1);
        queue.defers_completions.store(true, Ordering::Release);
        self.runs_one.store(true, Ordering::Release);
        let published = stall::publish_one(interceptor, queue, ring, deadline);
        self.runs_one.store(false, Ordering::Release);
        published.map_err(|_| Untaken::Queue)?;
        taken.id = record.record().id.load(Ordering::Acquire);
        taken.ran = record.record().kernel_object().load(Ordering::Acquire);
        let (patience, endless) = (Patience::until(end, self.limits.stall), Untaken::Endless(self.limits.stall));
        let drained = stalled.drain(&self.copies, patience);
        taken.ticks = stall::times(record.record(), record.times(), taken.id);
        // In flight at rest, it waits: memory is as it was before.
        let is_over = drained.is_ok() && record.state() != State::InFlight;
        match (queue.is_destroyed() && taken.ticks.is_none(), is_over) {
            (false, true) => Ok(()),
            (false, false) if !lifetime::is_ending() => Err(endless),
            _ => Err(Untaken::Unended),
        }
    }

    /// The scope of captures for an agent: the wanted one, or a smaller one when all memory is more than the limits allow.
    fn allowed_scope(&self, interceptor: &Interceptor, agent: usize) -> CaptureScope {
        if self.scope != CaptureScope::All {
            return self.scope;
        }
        let agent = interceptor.agent(agent).map_or(0, |agent| agent.agent.handle);
        let bytes = lock(&self.memory).of_agent(agent).map(|range| range.size).sum();
        let Err(why) = self.allow(bytes) else { return CaptureScope::All };
        if !self.reduced.swap(true, Ordering::Relaxed) {
            interceptor.notice(format!("capture: {why}: captures have the scope `reachable`"));
        }
        CaptureScope::Reachable
    }

    /// Whether so much memory may be read.
    fn allow(&self, bytes: u64) -> Result<(), TooMuch> {
        self.limits.allow(bytes, self.readings(), lock(&self.file).left())
    }
}
