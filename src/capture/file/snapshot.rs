//! Writes memory ranges into the file, and lists the parts that cannot be read.
//!
//! # Threads
//! The capture thread.

use std::io;
use std::time::Instant;

use logdur_capture::{CaptureError, FREED, Severity, SnapshotId};

use super::{Failed, File};
use crate::capture::hold::TooMuch;
use crate::capture::memory::Allocation;
use crate::session::Session;

/// Bytes of memory between two checks of the limits.
const BETWEEN_LIMITS: u64 = 64 << 20;
/// The unit in which the application maps and unmaps memory of its own.
const PAGE: u64 = 4096;

/// A snapshot that was written.
pub(in crate::capture) struct Read {
    pub(in crate::capture) id: SnapshotId,
    /// What could not be read, as text.
    pub(in crate::capture) unread: Vec<String>,
    /// Why it ended early.
    pub(in crate::capture) over: Option<Over>,
    /// Bytes of memory that were read, not known to be unchanged.
    pub(in crate::capture) bytes: u64,
    /// True if no part of the memory is missing.
    pub(in crate::capture) is_whole: bool,
}

/// The memory ranges of a snapshot.
pub(in crate::capture) trait Source {
    /// The next range, and whether it is unchanged since the parent snapshot; `None` at the end.
    ///
    /// # Errors
    /// When the ranges found so far exceed the limits.
    fn next(&mut self) -> Result<Option<(Allocation, bool)>, TooMuch>;

    /// Fills a buffer from an offset of a range.
    ///
    /// # Errors
    /// Why it cannot be read; [`io::ErrorKind::NotFound`] when it was freed.
    fn read(&mut self, range: &Allocation, offset: u64, to: &mut [u8]) -> io::Result<()>;

    /// The size of all ranges found so far, in bytes.
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

impl File {
    /// Writes memory. Ends early at the file's size limit or at a deadline. Of the application's own memory, every mapped page is read.
    pub(in crate::capture) fn snapshot(
        &mut self,
        session: &Session,
        parent: Option<SnapshotId>,
        source: &mut dyn Source,
        end: Instant,
    ) -> Result<Read, Failed> {
        self.begin(session)?;
        let limit = self.limit;
        let writer = self.writer.as_mut().ok_or(CaptureError::Stopped)?;
        let mut snapshot = writer.snapshot(parent);
        let (mut losses, mut freed, mut over) = (Pieces::default(), Pieces::default(), None);
        let (mut unread, mut bytes) = (Vec::new(), 0);
        'ranges: loop {
            let (range, is_same) = match source.next() {
                Ok(Some(range)) => range,
                Ok(None) => break,
                Err(why) => {
                    over = Some(Over::TooMuch(why));
                    snapshot.incomplete();
                    break;
                }
            };
            if is_same && snapshot.unchanged(range.base, range.size).is_ok() {
                continue;
            }
            let range = &range;
            bytes += range.size;
            let mut at = range.base;
            // A page below this address could not be read: memory up to it is read page by page.
            let mut in_pages_to = range.base;
            while at < range.end() {
                if snapshot.file_bytes() >= limit {
                    over = Some(Over::Bytes);
                } else if Instant::now() >= end {
                    over = Some(Over::Time);
                }
                if over.is_some() {
                    snapshot.incomplete();
                    break 'ranges;
                }
                let unit = if at < in_pages_to { PAGE } else { BETWEEN_LIMITS };
                let stop = (at | (unit - 1)).saturating_add(1).min(range.end());
                let (from, mut piece) = (at, 0);
                let written = snapshot.range(from, stop - from, &mut |offset, to| {
                    piece = to.len() as u64;
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
                        freed.add(address, piece, &source);
                        stop
                    }
                    Err(CaptureError::Memory { address, source, .. })
                        if source.kind() == io::ErrorKind::NotFound && address == range.base =>
                    {
                        freed.add(address, range.size, &source);
                        range.end()
                    }
                    Err(CaptureError::Memory { address, source, .. }) => {
                        snapshot.incomplete();
                        losses.add(address, piece, &source);
                        // The next page may be readable.
                        address + piece.max(1)
                    }
                    Err(error @ CaptureError::Range { .. }) => {
                        snapshot.incomplete();
                        unread.push(format!("{error}: the snapshot is incomplete"));
                        stop
                    }
                    Err(error) => return Err(error),
                };
            }
        }
        let id = snapshot.finish()?;
        self.latest = Some(id);
        self.allocations(session, source.all())?;
        for (address, length, why) in &freed.0 {
            self.note(Severity::Info, FREED, &format!("{length} bytes at {address:#x}: {why}"))?;
        }
        let is_whole = over.is_none() && unread.is_empty() && losses.0.is_empty() && freed.0.is_empty();
        unread.extend(losses.0.iter().map(|(address, length, why)| {
            format!("{length} bytes at {address:#x} could not be read: the snapshot is incomplete: {why}")
        }));
        Ok(Read { id, unread, over, bytes, is_whole })
    }
}
