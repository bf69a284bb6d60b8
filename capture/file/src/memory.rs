//! The memory of a snapshot.

use std::ops::Range;
use std::sync::Arc;

use crate::chunk;
use crate::error::CaptureError;
use crate::extent::{Extent, What};
use crate::header::{CHUNK, PAGE};
use crate::map::Map;
use crate::reader::Reader;
use crate::records::SnapshotId;

/// Memory at a moment.
#[derive(Clone, Debug)]
pub struct Memory<'r> {
    reader: &'r Reader,
    id: SnapshotId,
    /// Snapshots that lie below it.
    below: Arc<[SnapshotId]>,
    map: Arc<Map>,
}

/// How some addresses changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Difference {
    /// Some bytes of these pages are others now.
    Changed,
    /// They were not there.
    Added,
    /// They are no longer there.
    Removed,
}

/// Addresses that are different.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    /// The first.
    pub address: u64,
    /// How many.
    pub length: u64,
    /// In which way.
    pub what: Difference,
}

impl Reader {
    /// The memory of a snapshot.
    ///
    /// # Errors
    /// When it is not in the file, or one of its parents or where its contents are is damaged.
    pub fn snapshot(&self, id: SnapshotId) -> Result<Memory<'_>, CaptureError> {
        Ok(Memory { reader: self, id, below: Arc::default(), map: self.map_of(id)? })
    }

    /// The memory of several snapshots, each laid over those before it. Of none, no memory.
    ///
    /// # Errors
    /// As for [`Reader::snapshot`].
    pub fn laid_over(&self, snapshots: &[SnapshotId]) -> Result<Memory<'_>, CaptureError> {
        let Some((id, below)) = snapshots.split_last() else {
            return Ok(Memory { reader: self, id: SnapshotId::default(), below: Arc::default(), map: Arc::default() });
        };
        let mut map = Map::default();
        for snapshot in snapshots {
            self.map_of(*snapshot)?.pieces().for_each(|piece| map.put(*piece));
        }
        Ok(Memory { reader: self, id: *id, below: below.into(), map: Arc::new(map) })
    }
}

impl Memory<'_> {
    /// Which snapshot it is; of several, the one that lies over the others.
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// False when something is missing that should have been captured.
    pub fn is_complete(&self) -> bool {
        let is_whole = |id: SnapshotId| self.reader.snapshot_record(id).is_some_and(|snapshot| !snapshot.incomplete);
        self.below.iter().all(|id| is_whole(*id)) && (self.id == SnapshotId::default() || is_whole(self.id))
    }

    /// The captured addresses, in order. Adjacent ranges are one.
    pub fn ranges(&self) -> Vec<Range<u64>> {
        self.map.ranges()
    }

    /// Fills a buffer with the memory from an address on.
    ///
    /// # Errors
    /// When not all of it was captured, or the file is damaged where it is.
    pub fn read(&self, address: u64, to: &mut [u8]) -> Result<(), CaptureError> {
        let length = to.len() as u64;
        let missing = |at: u64, length| CaptureError::NotCaptured { snapshot: self.id, address: at, length };
        let end = address.checked_add(length).ok_or(missing(address, length))?;
        let mut at = address;
        let mut rest = to;
        while at < end {
            let piece = self.map.at(at).ok_or(missing(at, end - at))?;
            let stop = self.copy(piece, at, piece.end().min(end), &mut rest)?;
            at = stop;
        }
        Ok(())
    }

    /// Where in the file the bytes of some addresses are, as they are and one after the other: who maps the file needs no copy of
    /// them. `None` if they are compressed, in several packs, or a pattern. Their checksum is compared here, not when they are used.
    ///
    /// # Errors
    /// When the file is damaged where the contents are.
    pub fn file_offset(&self, address: u64, length: u64) -> Result<Option<u64>, CaptureError> {
        let Some(piece) = self.map.at(address) else { return Ok(None) };
        let is_in_one = address.checked_add(length).is_some_and(|end| end <= piece.end());
        match spot(piece, address) {
            Some((pack, chunk, offset)) if is_in_one => self.reader.stored_chunk(pack, chunk, offset),
            _ => Ok(None),
        }
    }

    /// Writes the beginning of a piece's part to a buffer, and takes that much of the buffer away; where the part ends.
    fn copy(&self, piece: &Extent, from: u64, to: u64, rest: &mut &mut [u8]) -> Result<u64, CaptureError> {
        let mut put = |write: &mut dyn FnMut(&mut [u8]), length: usize| {
            if let Some((now, later)) = std::mem::take(rest).split_at_mut_checked(length) {
                write(now);
                *rest = later;
            }
        };
        if let What::Fill(pattern) = piece.what {
            put(&mut |now| chunk::write_fill(pattern, from, now), (to - from) as usize);
            return Ok(to);
        }
        self.reader.piece(piece, from, to, &mut |bytes| put(&mut |now| now.copy_from_slice(bytes), bytes.len()))
    }

    /// Differences from another snapshot, mostly the parent, in order of addresses. Where both have memory, in pages of 4 KiB.
    /// Contents are only read where they are not known to be the same.
    ///
    /// # Errors
    /// When the file is damaged where the contents are.
    pub fn changed_since(&self, earlier: &Memory<'_>) -> Result<Vec<Change>, CaptureError> {
        let mut changes = Changes::default();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut at = 0;
        loop {
            let (now, before) = (self.map.at(at), earlier.map.at(at));
            let ends = [(&self.map, now), (&earlier.map, before)].into_iter().filter_map(|(map, piece)| match piece {
                Some(piece) => Some(piece.end()),
                None => map.after(at).map(|next| next.address),
            });
            let Some(mut end) = ends.min() else { break };
            match (now, before) {
                (None, None) => {}
                (Some(_), None) => changes.add(at, end, Difference::Added),
                (None, Some(_)) => changes.add(at, end, Difference::Removed),
                (Some(a), Some(b)) if a.what == b.what => {}
                // Of fewer bytes than a pattern has, some of the pattern are not there.
                (Some(Extent { what: What::Fill(_), .. }), Some(Extent { what: What::Fill(_), .. }))
                    if end - at >= 8 =>
                {
                    changes.add(at, end, Difference::Changed);
                }
                (Some(a), Some(b)) => {
                    end = end.min(chunk::boundary(at));
                    if spot(a, at) != spot(b, at) || spot(a, at).is_none() {
                        for (memory, bytes) in [(self, &mut ours), (earlier, &mut theirs)] {
                            bytes.resize((end - at) as usize, 0);
                            memory.read(at, bytes)?;
                        }
                        changes.compare(at, &ours, &theirs);
                    }
                }
            }
            at = end;
        }
        Ok(changes.all)
    }
}

/// Which content is at an address, and where in it.
fn spot(piece: &Extent, at: u64) -> Option<(u64, u64, u64)> {
    let What::Chunks { pack, first, start } = piece.what else { return None };
    let number = at / CHUNK - start / CHUNK;
    let chunk_start = if number == 0 { start } else { at / CHUNK * CHUNK };
    Some((pack, u64::from(first) + number, at - chunk_start))
}

#[derive(Default)]
struct Changes {
    all: Vec<Change>,
}

impl Changes {
    fn add(&mut self, start: u64, end: u64, what: Difference) {
        match self.all.last_mut() {
            Some(last) if last.what == what && last.address + last.length == start => last.length += end - start,
            _ => self.all.push(Change { address: start, length: end - start, what }),
        }
    }

    /// Adds the pages that are different.
    fn compare(&mut self, mut at: u64, mut ours: &[u8], mut theirs: &[u8]) {
        while !ours.is_empty() {
            let page = (PAGE - at % PAGE) as usize;
            let (now, our_rest) = ours.split_at_checked(page).unwrap_or((ours, &[]));
            let (before, their_rest) = theirs.split_at_checked(page).unwrap_or((theirs, &[]));
            let end = at + now.len() as u64;
            if now != before {
                self.add(at, end, Difference::Changed);
            }
            (at, ours, theirs) = (end, our_rest, their_rest);
        }
    }
}
