//! Writes memory ranges into the file, and lists the parts that cannot be read.
//!
//! # Threads
//! The capture thread.

use std::io;
use std::time::Instant;

use logdur_capture::{Buffer, CaptureError, FREED, Severity, SnapshotId, SnapshotWriter};
use logdur_intercept::Interceptor;

use super::{Failed, File, GuardedStorage};
use crate::capture::hold::{TooMuch, has_room};
use crate::capture::memory::Allocation;

/// Bytes of memory between two checks of the limits.
const BETWEEN_LIMITS: u64 = 64 << 20;
/// The unit in which the application maps and unmaps memory of its own.
const PAGE: u64 = 4096;

/// A snapshot that was written.
pub(in crate::capture) struct Read {
    /// `None` of one that has nothing, and was not to be kept then.
    pub(in crate::capture) id: Option<SnapshotId>,
    /// What could not be read, as text.
    pub(in crate::capture) unread: Vec<String>,
    /// Why it ended early.
    pub(in crate::capture) over: Option<Over>,
    /// Bytes of memory that were read, not known to be unchanged.
    pub(in crate::capture) bytes: u64,
    /// True if no part of the memory is missing.
    pub(in crate::capture) is_whole: bool,
}

/// Takes bytes at an address.
pub(in crate::capture) type Write<'w> = dyn FnMut(u64, &[u8]) -> Result<(), Failed> + 'w;

/// The memory ranges of a snapshot.
pub(in crate::capture) trait Source {
    /// True if a snapshot without memory is written.
    fn is_kept_empty(&self) -> bool {
        true
    }

    /// Passes on bytes at addresses that are in none of the ranges.
    ///
    /// # Errors
    /// Those of `write`.
    fn changes(&mut self, write: &mut Write<'_>) -> Result<(), Failed> {
        let _ = write;
        Ok(())
    }

    /// The next range, and whether it is unchanged since the parent snapshot; `None` at the end.
    ///
    /// # Errors
    /// When the ranges found so far exceed the limits.
    fn next(&mut self) -> Result<Option<(Allocation, bool)>, TooMuch>;

    /// Fills a buffer from an offset of a range.
    ///
    /// # Errors
    /// Why it cannot be read; [`io::ErrorKind::NotFound`] when it was freed.
    fn read(&mut self, range: &Allocation, offset: u64, to: &mut Buffer) -> io::Result<()>;

    /// All ranges found so far.
    fn all(&self) -> &[Allocation];
}

/// The limit that ended a snapshot early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::capture) enum Over {
    /// The file has reached its largest size.
    Bytes,
    /// The dispatch was held for the longest time allowed.
    Time,
    /// The memory found exceeds the limits.
    TooMuch(TooMuch),
}

/// Memory missing from a snapshot: address, bytes, cause. Adjacent pieces with the same cause are merged.
#[derive(Default)]
struct Pieces(Vec<(u64, u64, String)>);

impl Pieces {
    fn add(&mut self, address: u64, length: u64, why: &io::Error) {
        let why = why.to_string();
        match self.0.last_mut() {
            Some(last) if last.0 + last.1 == address && last.2 == why => last.1 += length,
            _ => self.0.push((address, length, why)),
        }
    }
}

/// When a snapshot ends early.
struct Limits {
    /// The largest size of the file in bytes.
    bytes: u64,
    deadline: Instant,
    /// Bytes of memory that may be read before it is looked again whether there is room for the capture itself.
    until_room: u64,
}

impl Limits {
    /// The limit that is reached before so many bytes are read.
    fn over(&mut self, snapshot: &SnapshotWriter<'_, GuardedStorage>, bytes: u64) -> Option<Over> {
        let looks = self.until_room < bytes;
        self.until_room = if looks { BETWEEN_LIMITS } else { self.until_room - bytes };
        if snapshot.file_bytes() >= self.bytes {
            Some(Over::Bytes)
        } else if Instant::now() >= self.deadline {
            Some(Over::Time)
        } else if looks && !has_room() {
            Some(Over::TooMuch(TooMuch::Room))
        } else {
            None
        }
    }
}

/// What a snapshot lacks.
#[derive(Default)]
struct Missing {
    /// Memory that could not be read.
    losses: Pieces,
    /// Memory that the application has freed.
    freed: Pieces,
    /// Ranges that the file cannot have, as text.
    refused: Vec<String>,
}

impl Missing {
    fn is_empty(&self) -> bool {
        self.refused.is_empty() && self.losses.0.is_empty() && self.freed.0.is_empty()
    }

    /// What could not be read, as text.
    fn unread(self) -> Vec<String> {
        let lost = |(address, length, why): &(u64, u64, String)| {
            format!("{length} bytes at {address:#x} could not be read: the snapshot is incomplete: {why}")
        };
        let lost: Vec<String> = self.losses.0.iter().map(lost).collect();
        self.refused.into_iter().chain(lost).collect()
    }
}

impl File {
    /// Writes memory. Ends early at the file's size limit or at a deadline. Of the application's own memory, every mapped page is read.
    pub(in crate::capture) fn snapshot(
        &mut self,
        interceptor: &Interceptor,
        parent: Option<SnapshotId>,
        source: &mut dyn Source,
        deadline: Instant,
    ) -> Result<Read, Failed> {
        self.begin(interceptor)?;
        let mut limits = Limits { bytes: self.limit, deadline, until_room: 0 };
        let writer = self.writer.as_mut().ok_or(CaptureError::Stopped)?;
        let mut snapshot = writer.snapshot(parent);
        let (mut missing, mut bytes) = (Missing::default(), 0);
        source.changes(&mut |address, changed| {
            bytes += changed.len() as u64;
            match snapshot.bytes(address, changed) {
                Err(error @ CaptureError::Range { .. }) => {
                    snapshot.incomplete();
                    missing.refused.push(format!("{error}: the snapshot is incomplete"));
                    Ok(())
                }
                written => written,
            }
        })?;
        let over = loop {
            let (range, is_same) = match source.next() {
                Ok(Some(range)) => range,
                Ok(None) => break None,
                Err(why) => break Some(Over::TooMuch(why)),
            };
            if is_same && snapshot.unchanged(range.base, range.size).is_ok() {
                continue;
            }
            bytes += range.size;
            if let Some(over) = write_range(&mut snapshot, source, &range, &mut limits, &mut missing)? {
                break Some(over);
            }
        };
        if over.is_some() {
            snapshot.incomplete();
        }
        let is_kept = source.is_kept_empty() || bytes > 0 || over.is_some();
        let id = if is_kept { Some(snapshot.finish()?) } else { None };
        self.latest = id.or(self.latest);
        self.allocations(interceptor, source.all())?;
        for (address, length, why) in &missing.freed.0 {
            self.note(Severity::Info, FREED, &format!("{length} bytes at {address:#x}: {why}"))?;
        }
        let is_whole = over.is_none() && missing.is_empty();
        Ok(Read { id, unread: missing.unread(), over, bytes, is_whole })
    }
}

/// Writes a range, and enters what of it is missing. Returns the limit that it has reached.
fn write_range(
    snapshot: &mut SnapshotWriter<'_, GuardedStorage>,
    source: &mut dyn Source,
    range: &Allocation,
    limits: &mut Limits,
    missing: &mut Missing,
) -> Result<Option<Over>, Failed> {
    let mut at = range.base;
    // A page below this address could not be read: memory up to it is read page by page.
    let mut in_pages_to = range.base;
    while at < range.end() {
        let unit = if at < in_pages_to { PAGE } else { BETWEEN_LIMITS };
        let stop = (at | (unit - 1)).saturating_add(1).min(range.end());
        if let Some(over) = limits.over(snapshot, stop - at) {
            return Ok(Some(over));
        }
        let (from, mut piece) = (at, 0);
        let written = snapshot.range_of(from, stop - from, &mut |offset, to| {
            piece = to.length() as u64;
            source.read(range, from - range.base + offset, to)
        });
        at = match written {
            Ok(()) => stop,
            Err(CaptureError::Memory { address, .. }) if range.own().is_some() && piece > PAGE => {
                in_pages_to = address + piece;
                address
            }
            // The application freed the range while the dispatch is held: the kernel does not use it.
            Err(CaptureError::Memory { address, source, .. })
                if source.kind() == io::ErrorKind::NotFound && range.own().is_some() =>
            {
                missing.freed.add(address, piece, &source);
                stop
            }
            Err(CaptureError::Memory { address, source, .. })
                if source.kind() == io::ErrorKind::NotFound && address == range.base =>
            {
                missing.freed.add(address, range.size, &source);
                range.end()
            }
            Err(CaptureError::Memory { address, source, .. }) => {
                snapshot.incomplete();
                missing.losses.add(address, piece, &source);
                // The next page may be readable.
                address + piece.max(1)
            }
            Err(error @ CaptureError::Range { .. }) => {
                snapshot.incomplete();
                missing.refused.push(format!("{error}: the snapshot is incomplete"));
                stop
            }
            Err(error) => return Err(error),
        };
    }
    Ok(None)
}
