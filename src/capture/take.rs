//! Taking one capture.

use std::io;
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError, RwLockWriteGuard};
use std::time::{Duration, Instant};

use logdur_capture::SnapshotId;
use logdur_journal::State;
use logdur_settings::{CaptureScope, Quiesce};

use super::file::{Failed, Taken};
use super::kernarg::Kernarg;
use super::memory::{Allocation, Kind};
use super::read::{PIECE, Reader};
use super::stall::{self, Stalled};
use super::{Capture, Target};
use crate::queue::Ring;
use crate::reaper;
use crate::session::{Session, lock};

/// The time for one capture but for the reading of memory: earlier work and the dispatch itself have to end in it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// The time for reading: as many bytes as a slow bus copies meanwhile.
const BYTES_PER_SECOND: u64 = 256 << 20;

/// Why a dispatch was not captured.
#[derive(Debug, thiserror::Error)]
pub(super) enum Untaken {
    /// What was before it.
    #[error("earlier work had not ended in {} s", PATIENCE.as_secs())]
    Busy,
    /// Itself.
    #[error("it had not ended in {} s: it may wait for work that was held for the capture", PATIENCE.as_secs())]
    Endless,
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
struct Reading<'a> {
    reader: MutexGuard<'a, Option<Reader>>,
    not_freed: Option<RwLockWriteGuard<'a, ()>>,
}

impl Capture {
    /// Captures a dispatch, or says why not; the queues go on in any case.
    pub(super) fn take(&self, session: &'static Session, target: Target) {
        let start = Instant::now();
        let mut stalled = Stalled::with(session, target.queue);
        let mut reading = None;
        let result = self.try_take(session, target, &mut stalled, &mut reading);
        // Before the queues go on: what is behind is not to be seen before.
        reaper::tell_kept(session, target.queue);
        Self::go_on(stalled, reading);
        match result {
            Ok(()) => {
                let captured = self.taken.fetch_add(1, Ordering::Relaxed) + 1;
                if self.quit == Some(captured) {
                    self.quit(session, captured);
                }
            }
            Err(Untaken::File(error)) => self.check(session, Err(error)),
            Err(why) => {
                let what = format!("a dispatch of queue {}: {why}", target.queue.id.load(Ordering::Relaxed));
                session.notice(format!("capture: not captured: {what}"));
                let noted = lock(&self.file).untaken(&what);
                self.check(session, noted);
            }
        }
        let now = start.elapsed().as_nanos() as u64;
        let spent = self.spent.fetch_add(now, Ordering::Relaxed) + now;
        if spent >= self.seconds.saturating_mul(1_000_000_000) {
            self.stop(session, &format!("{} s were spent on it", self.seconds));
        }
        let full = lock(&self.file).is_full();
        if let Some(limit) = full {
            self.stop(session, &format!("the file has {limit} bytes"));
        }
    }

    /// Lets queues go on. A copy of ours that was late may wait behind one of the application's: until it is complete, nobody
    /// frees what it reads.
    fn go_on(stalled: Stalled, reading: Option<Reading<'_>>) {
        drop(stalled);
        if let Some(reader) = reading.as_ref().and_then(|reading| reading.reader.as_ref()) {
            reader.settle(Instant::now() + PATIENCE);
        }
    }

    fn try_take<'a>(
        &'a self,
        session: &'static Session,
        target: Target,
        stalled: &mut Stalled,
        reading: &mut Option<Reading<'a>>,
    ) -> Result<(), Untaken> {
        let queue = target.queue;
        let ring = queue.ring.as_ref().ok_or(Untaken::Queue)?;
        if !target.come {
            return Err(Untaken::Busy);
        }
        let deadline = Instant::now() + PATIENCE;
        let others = session.queues.all().into_iter().filter(|q| !ptr::eq(*q, queue));
        match self.quiesce {
            Quiesce::Queue => {}
            Quiesce::Device => stalled.pause(others.filter(|q| q.agent == queue.agent)),
            Quiesce::Process => stalled.pause(others),
        }
        let _held = self.copies.hold();
        stalled.drain(&self.copies, deadline).map_err(|_| Untaken::Busy)?;
        let packet = ring.slot(target.index).read();
        let kernel = session.kernels.by_number(session.kernels.number(packet.kernel_object()));
        let kernarg = Kernarg::of(&packet, kernel.and_then(|k| k.kernel.kernarg_size), &lock(&self.memory));
        let reading = reading.insert(Reading { reader: lock(&self.reader), not_freed: None });
        if reading.reader.is_none() {
            *reading.reader = Some(Reader::new(session.api())?);
        }
        let latest = lock(&self.file).latest();
        let before = self.snapshot(session, reading, &kernarg.bytes, latest)?;
        let mut taken = Taken {
            target: (queue, target.index, target.occurrence),
            packet,
            kernarg,
            before,
            after: None,
            scope: self.scope,
            ran: packet.kernel_object(),
            id: 0,
            ticks: None,
        };
        let after = self.run_alone(session, stalled, ring, &mut taken, queue)?;
        if after && self.after {
            taken.after = self.snapshot(session, reading, &taken.kernarg.bytes, before)?;
        }
        for what in lock(&self.file).dispatch(session, &taken)? {
            session.notice(format!("capture: {what}"));
        }
        Ok(())
    }

    /// Lets the one dispatch run. False when its memory afterwards would say nothing.
    fn run_alone(
        &self,
        session: &'static Session,
        stalled: &Stalled,
        ring: &Ring,
        taken: &mut Taken,
        queue: &'static crate::queue::Queue,
    ) -> Result<bool, Untaken> {
        let deadline = Instant::now() + PATIENCE;
        let record = stall::next_record(session, queue, deadline).map_err(|_| Untaken::Queue)?;
        ring.passed.store(taken.target.1, Ordering::Release);
        queue.keeps.store(true, Ordering::Release);
        stall::publish_one(session, queue, ring, deadline).map_err(|_| Untaken::Queue)?;
        taken.id = record.record().id.load(Ordering::Acquire);
        taken.ran = record.record().kernel_object.load(Ordering::Acquire);
        stalled.drain(&self.copies, deadline).map_err(|_| Untaken::Endless)?;
        if record.state() == State::InFlight {
            // It waits at rest: memory is as it was before.
            return Err(Untaken::Endless);
        }
        taken.ticks = stall::times(record.record(), record.times(), taken.id);
        Ok(true)
    }

    /// Reads memory into the file.
    fn snapshot<'a>(
        &'a self,
        session: &Session,
        reading: &mut Reading<'a>,
        kernarg: &[u8],
        parent: Option<SnapshotId>,
    ) -> Result<Option<SnapshotId>, Untaken> {
        let ranges = self.ranges(reading, kernarg);
        if ranges.is_empty() {
            return Ok(None);
        }
        let bytes: u64 = ranges.iter().map(|r| r.size).sum();
        let deadline = Instant::now() + PATIENCE + Duration::from_secs(bytes / BYTES_PER_SECOND);
        let mut file = lock(&self.file);
        let (id, unread) = file.snapshot(session, parent, &ranges, |range, offset, to| {
            self.piece(reading, range, range.base + offset, to, deadline)
        })?;
        for what in unread {
            if file.lost(&what)? {
                session.notice(format!("capture: {what}"));
            }
        }
        Ok(Some(id))
    }

    /// Reads a piece of memory, which is not freed meanwhile, nor while a copy of it is under way.
    fn piece<'a>(
        &'a self,
        reading: &mut Reading<'a>,
        range: &Allocation,
        at: u64,
        to: &mut [u8],
        deadline: Instant,
    ) -> io::Result<()> {
        let Reading { reader, not_freed } = reading;
        let Some(reader) = reader.as_mut() else { return Err(io::ErrorKind::Other.into()) };
        let held = not_freed.take().unwrap_or_else(|| self.reading.write().unwrap_or_else(PoisonError::into_inner));
        let known = lock(&self.memory).around(at).map(|a| a.base) == Some(range.base);
        let read = if known {
            // SAFETY: it is allocated, and nobody frees it while the lock is held: as long as a copy is under way.
            let read = unsafe { reader.read(range, at, to, &self.copies, deadline) };
            read.map_err(|e| io::Error::other(e.to_string()))
        } else {
            Err(io::Error::new(io::ErrorKind::NotFound, "it was freed meanwhile"))
        };
        *not_freed = Some(held).filter(|_| !reader.is_settled());
        read
    }

    /// The memory that is in the scope of a dispatch.
    fn ranges<'a>(&'a self, reading: &mut Reading<'a>, kernarg: &[u8]) -> Vec<Allocation> {
        let mut memory = lock(&self.memory);
        memory.forget_unmapped();
        let all: Vec<Allocation> = memory.all().copied().collect();
        let at = |words: &[u8]| -> Vec<Allocation> {
            let words = words.chunks_exact(8).filter_map(|w| w.try_into().ok()).map(u64::from_le_bytes);
            words.filter_map(|word| memory.around(word).copied()).collect()
        };
        let mut found = at(kernarg);
        // Code reaches its variables without an argument.
        found.extend(all.iter().filter(|a| matches!(a.kind, Kind::Variable { .. })));
        drop(memory);
        found.sort_by_key(|a| a.base);
        found.dedup();
        match self.scope {
            CaptureScope::Kernarg => Vec::new(),
            CaptureScope::Args => found,
            CaptureScope::Reachable => self.reachable(reading, found),
            CaptureScope::All => with_signals(all, found),
        }
    }

    /// What may be reached from some memory: everything in it that looks like an address is taken for one.
    fn reachable<'a>(&'a self, reading: &mut Reading<'a>, mut found: Vec<Allocation>) -> Vec<Allocation> {
        let (mut next, mut piece) = (0, vec![0; PIECE]);
        let deadline = Instant::now() + PATIENCE;
        while let Some(range) = found.get(next).copied() {
            next += 1;
            for offset in (0..range.size).step_by(PIECE) {
                let length = (range.size - offset).min(PIECE as u64) as usize;
                let Some(to) = piece.get_mut(..length) else { continue };
                // What cannot be read is told when it is to be written.
                if self.piece(reading, &range, range.base + offset, to, deadline).is_err() {
                    break;
                }
                let memory = lock(&self.memory);
                let words = to.chunks_exact(8).filter_map(|w| w.try_into().ok()).map(u64::from_le_bytes);
                for inside in words.filter_map(|word| memory.around(word)) {
                    if !found.iter().any(|known| known.base == inside.base) {
                        found.push(*inside);
                    }
                }
            }
        }
        found
    }
}

/// All memory, and the signals among what arguments point to.
fn with_signals(mut all: Vec<Allocation>, found: Vec<Allocation>) -> Vec<Allocation> {
    all.extend(found.into_iter().filter(|a| a.kind == Kind::Signal));
    all.sort_by_key(|a| a.base);
    all
}
