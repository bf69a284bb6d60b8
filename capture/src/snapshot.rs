//! Writes a snapshot: range after range is cut into chunks, and what changed is said.

use std::io;
use std::ops::Range;

use crate::chunk::{self, Key};
use crate::error::CaptureError;
use crate::extent::{Extent, What};
use crate::id::Id;
use crate::records::{Snapshot, SnapshotId};
use crate::state::{self, State};
use crate::storage::Storage;
use crate::writer::Writer;

/// Bytes that are asked for at a time.
const STEP: u64 = 1 << 20;
/// Extents in a frame.
const EXTENTS: usize = 2048;

/// A snapshot that is being written. If it is not finished, it is not in the file.
#[derive(Debug)]
pub struct SnapshotWriter<'w, S: Storage> {
    writer: &'w mut Writer<S>,
    id: SnapshotId,
    parent: Option<SnapshotId>,
    /// Of the parent, what was not captured again so far.
    old: State,
    /// What the parent has.
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

impl<'w, S: Storage> SnapshotWriter<'w, S> {
    pub(crate) fn new(writer: &'w mut Writer<S>, parent: Option<SnapshotId>) -> Self {
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

    /// Captures a range. `read` is given an offset from the address, and a buffer of at most 1 MiB to fill with what is
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
        let end = self.free(address, length)?;
        let mut staging = std::mem::take(&mut self.writer.staging);
        let mut visit = self.begin(address, end);
        let mut outcome = Ok(());
        let mut at = address;
        while at < end && outcome.is_ok() {
            // Whole chunks, but for the first and the last.
            let stop = (at | (STEP - 1)).saturating_add(1).min(end);
            staging.resize((stop - at) as usize, 0);
            outcome = match read(at - address, &mut staging) {
                Ok(()) => self.chunks(&mut visit, at, &staging),
                Err(source) => {
                    self.incomplete |= source.kind() != io::ErrorKind::NotFound;
                    Err(CaptureError::Memory { address: at, length: end - at, source })
                }
            };
            at = stop;
        }
        self.writer.staging = staging;
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
        let outcome = self.chunks(&mut visit, address, bytes);
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

    /// Captures the next bytes of a range.
    fn chunks(&mut self, visit: &mut state::Visit, mut address: u64, mut bytes: &[u8]) -> Result<(), CaptureError> {
        while !bytes.is_empty() {
            let to_boundary = (chunk::boundary(address) - address).min(bytes.len() as u64);
            let (chunk, rest) = bytes.split_at_checked(to_boundary as usize).unwrap_or((bytes, &[]));
            let length = chunk.len() as u64;
            let (key, content) = match chunk::fill(chunk, address) {
                Some(pattern) => (Key::of_fill(pattern), Err(pattern)),
                None => {
                    let id = Id::of(chunk);
                    (Key::of_id(&id), Ok(id))
                }
            };
            self.bytes += length;
            if visit.step(length, key) {
                self.unchanged += length;
            } else {
                let what = match content {
                    Err(pattern) => What::Fill(pattern),
                    Ok(id) => {
                        let spot = self.writer.place(chunk, &id, key)?;
                        What::Chunks { pack: spot.pack, first: spot.chunk, start: address }
                    }
                };
                self.say(Extent { address, length, what })?;
            }
            address += length;
            bytes = rest;
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
        self.writer.extents(self.id, &self.extents)?;
        self.extents.clear();
        self.frames += 1;
        Ok(())
    }
}
