//! Writes a snapshot: cuts each range into chunks, and records which of them changed.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::buffer::{Buffer, end_of_step};
use crate::chunk::{self, Content, Key};
use crate::error::CaptureError;
use crate::extent::{Extent, What};
use crate::fingerprint::{Fingerprints, Seen};
use crate::id::Id;
use crate::records::{Snapshot, SnapshotId};
use crate::state::{self, State};
use crate::storage::Storage;
use crate::tasks::Tasks;
use crate::writer::Writer;

/// Ranges up to this size are hashed by the thread that reads them: another one would take as long to wake up.
const SMALL: u64 = 256 << 10;
/// Extents in a frame.
const EXTENTS: usize = 2048;

/// A snapshot that is being written. If it is not finished, it is not in the file.
#[derive(Debug)]
pub struct SnapshotWriter<'w, S: Storage> {
    writer: &'w mut Writer<S>,
    id: SnapshotId,
    parent: Option<SnapshotId>,
    /// The part of the parent that was not captured again so far.
    old: State,
    /// The ranges of the parent.
    had: Vec<Range<u64>>,
    new: State,
    /// Keys that are remembered, and room for them.
    keys: usize,
    extents: Vec<Extent>,
    frames: u64,
    bytes: u64,
    unchanged: u64,
    incomplete: bool,
    forgets: bool,
}

/// Bytes of memory at an address.
#[derive(Debug)]
struct Step {
    address: u64,
    buffer: Buffer,
    /// What the parent has there, by chunks.
    expected: Vec<Option<Key>>,
    prints: Arc<Fingerprints>,
}

/// A step, and its chunks.
#[derive(Debug)]
struct Hashed {
    step: Step,
    seen: Vec<Seen>,
}

fn hash(step: Step) -> Hashed {
    let chunks = chunk::cut(step.buffer.bytes(), step.address).zip(&step.expected);
    let seen = chunks.map(|((at, chunk), expected)| Seen::of(&step.prints, chunk, at, *expected)).collect();
    Hashed { step, seen }
}

impl<S: Storage> Writer<S> {
    /// Begins a snapshot of memory. What is as in the parent costs nothing, if the parent is the newest snapshot; after
    /// another, or after one that was not finished, everything is looked at anew, and has no parent.
    pub fn snapshot(&mut self, parent: Option<SnapshotId>) -> SnapshotWriter<'_, S> {
        SnapshotWriter::new(self, parent)
    }
}

impl<'w, S: Storage> SnapshotWriter<'w, S> {
    fn new(writer: &'w mut Writer<S>, parent: Option<SnapshotId>) -> Self {
        let known = writer.state_of.take();
        let old = std::mem::take(&mut writer.state);
        // What is not known of a parent cannot be compared: the snapshot stands on its own.
        let parent = parent.filter(|parent| known == Some(*parent));
        let old = if parent.is_some() { old } else { State::default() };
        writer.snapshots += 1;
        SnapshotWriter {
            id: SnapshotId(writer.snapshots),
            parent,
            had: old.addresses(),
            keys: old.keys(),
            old,
            new: State::default(),
            extents: Vec::with_capacity(EXTENTS),
            frames: 0,
            bytes: 0,
            unchanged: 0,
            incomplete: false,
            forgets: false,
            writer,
        }
    }

    /// Its number.
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// Captures a range. `read` is given an offset from the address, and a buffer of at most [`STEP`](crate::STEP) bytes to fill with what is
    /// there; it is called in order.
    ///
    /// # Errors
    /// [`CaptureError::Memory`] when `read` fails: what was read before is in the snapshot, the rest is not, and the snapshot
    /// is marked incomplete; others can follow. When `read` says [`io::ErrorKind::NotFound`], the memory is no longer there, and
    /// the mark is left to the caller. Otherwise when the capture has stopped, or stops.
    pub fn range(
        &mut self,
        address: u64,
        length: u64,
        read: &mut dyn FnMut(u64, &mut [u8]) -> io::Result<()>,
    ) -> Result<(), CaptureError> {
        self.range_of(address, length, &mut |offset, buffer| read(offset, buffer.room()))
    }

    /// The same, where `read` may lend bytes instead: those of one step at a time, and of two more for each thread of the writer. None are
    /// lent when this returns.
    ///
    /// # Errors
    /// As of [`SnapshotWriter::range`].
    pub fn range_of(
        &mut self,
        address: u64,
        length: u64,
        read: &mut dyn FnMut(u64, &mut Buffer) -> io::Result<()>,
    ) -> Result<(), CaptureError> {
        let end = self.free(address, length)?;
        let mut visit = self.begin(address, end);
        let ahead = if length <= SMALL { 1 } else { 1 + 2 * self.writer.tasks.threads() };
        let (mut at, mut steps, mut outcome) = (address, VecDeque::new(), Ok(()));
        loop {
            while at < end && outcome.is_ok() && steps.len() < ahead {
                // Whole chunks, but for the first and the last.
                let stop = end_of_step(at, end);
                let mut buffer = Buffer::new((stop - at) as usize, self.writer.staging.pop().unwrap_or_default());
                if let Err(source) = read(at - address, &mut buffer).and_then(|()| buffer.check()) {
                    self.incomplete |= source.kind() != io::ErrorKind::NotFound;
                    outcome = Err(CaptureError::Memory { address: at, length: end - at, source });
                    self.writer.staging.push(buffer.into_own());
                    break;
                }
                let expected = chunk::cut(buffer.bytes(), at);
                let expected = expected.map(|(at, chunk)| visit.expected(at, chunk.len() as u64)).collect();
                let step = Step { address: at, buffer, expected, prints: Arc::clone(&self.writer.prints) };
                steps.push_back(if ahead > 1 { self.writer.tasks.share(hash, step) } else { Tasks::keep(hash, step) });
                at = stop;
            }
            let Some(step) = steps.pop_front() else { break };
            let hashed = self.writer.tasks.take(&step).ok_or_else(|| self.writer.panicked());
            if let Err(error) = hashed.and_then(|hashed| self.hashed(&mut visit, hashed)) {
                // Nothing is written any more. Other threads may still have what was lent.
                steps.iter().for_each(|step| drop(self.writer.tasks.take(step)));
                outcome = Err(error);
                break;
            }
        }
        self.forgets |= !self.old.end(visit, &mut self.new);
        outcome
    }

    /// Captures a range whose bytes are at hand. An allocation may come in pieces; those that end where an address is a
    /// multiple of 64 KiB do not cut chunks in two, and those that are always cut alike cost nothing unchanged.
    ///
    /// # Errors
    /// When the capture has stopped, or stops.
    pub fn bytes(&mut self, address: u64, bytes: &[u8]) -> Result<(), CaptureError> {
        let end = self.free(address, bytes.len() as u64)?;
        let mut visit = self.begin(address, end);
        let prints = Arc::clone(&self.writer.prints);
        let expected: Vec<_> =
            chunk::cut(bytes, address).map(|(at, chunk)| visit.expected(at, chunk.len() as u64)).collect();
        let chunks = chunk::cut(bytes, address).zip(expected);
        let chunks = chunks.map(|((at, chunk), expected)| (at, chunk, Seen::of(&prints, chunk, at, expected)));
        let outcome = self.chunks(&mut visit, chunks);
        self.forgets |= !self.old.end(visit, &mut self.new);
        outcome
    }

    /// Takes a range from the parent as it is there, without looking at memory.
    ///
    /// # Errors
    /// [`CaptureError::Range`] when the parent does not have all of it. The snapshot can go on; [`Self::range`] captures it.
    pub fn unchanged(&mut self, address: u64, length: u64) -> Result<(), CaptureError> {
        let end = self.free(address, length)?;
        if !self.old.covers(address, end) {
            return Err(CaptureError::Range { address, length, expected: "memory that the parent has" });
        }
        self.old.carry(address, end, &mut self.new);
        self.bytes += length;
        Ok(())
    }

    /// Bytes that the file has now.
    pub fn file_bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Something that should be in the snapshot is not: a note is expected to say what.
    pub fn incomplete(&mut self) {
        self.incomplete = true;
    }

    /// Ends the snapshot. It is in the file once a record after it is, like the dispatch that it belongs to.
    ///
    /// # Errors
    /// When the capture has stopped, or stops.
    pub fn finish(mut self) -> Result<SnapshotId, CaptureError> {
        for Range { start, end } in state::without(&self.had, &self.new.addresses()) {
            self.say(Extent { address: start, length: end - start, what: What::Dropped })?;
        }
        self.flush()?;
        let SnapshotWriter { writer, id, parent, incomplete, frames, bytes, unchanged, new, forgets, .. } = self;
        writer.snapshot_record(&Snapshot { id, parent, incomplete, frames, bytes, unchanged })?;
        writer.chain.has(id, &new.addresses());
        writer.state = new;
        writer.state_of = Some(id);
        if forgets {
            writer.tell_of_memory()?;
        }
        Ok(id)
    }

    /// The end of a range, if nothing of it was captured yet.
    fn free(&self, address: u64, length: u64) -> Result<u64, CaptureError> {
        self.writer.running()?;
        let wrong = |expected| CaptureError::Range { address, length, expected };
        let end = address.checked_add(length).ok_or_else(|| wrong("an end that is an address"))?;
        if self.new.overlaps(address, end) {
            return Err(wrong("addresses that are not in the snapshot yet"));
        }
        Ok(end)
    }

    fn begin(&mut self, address: u64, end: u64) -> state::Visit {
        let room = self.writer.most_keys().saturating_sub(self.keys);
        let (visit, more) = self.old.begin(address, end, room);
        self.keys += more;
        visit
    }

    /// Captures the next step of a range.
    fn hashed(&mut self, visit: &mut state::Visit, hashed: Hashed) -> Result<(), CaptureError> {
        let Hashed { step: Step { address, buffer, .. }, seen } = hashed;
        let chunks = chunk::cut(buffer.bytes(), address).zip(seen).map(|((at, chunk), seen)| (at, chunk, seen));
        let outcome = self.chunks(visit, chunks);
        self.writer.staging.push(buffer.into_own());
        outcome
    }

    /// Captures the next chunks of a range: addresses, bytes, and what was seen of them.
    fn chunks<'b>(
        &mut self,
        visit: &mut state::Visit,
        chunks: impl Iterator<Item = (u64, &'b [u8], Seen)>,
    ) -> Result<(), CaptureError> {
        for (address, chunk, Seen { key, content }) in chunks {
            let length = chunk.len() as u64;
            self.bytes += length;
            if visit.step(length, key) {
                self.unchanged += length;
                continue;
            }
            let what = match content.unwrap_or_else(|| Content::Bytes(Id::of(chunk))) {
                Content::Fill(pattern) => What::Fill(pattern),
                Content::Bytes(id) => {
                    let spot = self.writer.place(chunk, &id, Key::of_id(&id))?;
                    What::Chunks { pack: spot.pack, first: spot.chunk, start: address }
                }
            };
            self.say(Extent { address, length, what })?;
        }
        Ok(())
    }

    fn say(&mut self, extent: Extent) -> Result<(), CaptureError> {
        if self.extents.last_mut().is_some_and(|last| last.join(&extent)) {
            return Ok(());
        }
        if self.extents.len() == EXTENTS {
            self.flush()?;
        }
        self.extents.push(extent);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), CaptureError> {
        if self.extents.is_empty() {
            return Ok(());
        }
        self.writer.extents(self.id, &mut self.extents)?;
        self.extents.clear();
        self.frames += 1;
        Ok(())
    }
}
