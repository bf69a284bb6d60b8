//! Digests of steps: each has one of all records of the file up to it. Where records were taken out, added or changed, the digest of the next
//! step is another one.
//!
//! The digest of a record is the BLAKE3 hash of the digest before (zeros at first), the
//! type, the body without what names snapshots and without the digest, and the addresses of the memory of its snapshot: each range by its
//! first address and the one behind it. Contents need none: their ids are in the file. Frames that name places in the file are left out.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::CaptureError;
use crate::frame::kind;
use crate::id::{Id, IdOfPieces};
use crate::index::Entry;
use crate::reader::Reader;
use crate::records::{Checkpoint, CodeObject, Record, RegionEnd, Snapshot, SnapshotId, Step, StorePath};
use crate::value::{self, Fields, Kind};

/// Snapshots whose addresses the writer remembers: a record refers to one of the last.
const REMEMBERED: usize = 64;

/// What the digests of a region say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digests {
    /// Each record is as it was written, and none is missing.
    Whole,
    /// There are none from this step on, or at the end: an older writer wrote it.
    None(Option<u64>),
    /// The records between the step before and this one, or the end, are not those that were written.
    Broken(Option<u64>),
}

impl Digests {
    /// What is wrong, in words, if the records are not those that were written.
    pub fn broken(&self) -> Option<String> {
        let (at, since) = match self {
            Digests::Whole | Digests::None(_) => return None,
            Digests::Broken(Some(1)) => ("step 1".to_owned(), "the beginning of the file".to_owned()),
            Digests::Broken(Some(step)) => (format!("step {step}"), format!("step {}", step.saturating_sub(1))),
            Digests::Broken(None) => ("the end".to_owned(), "the last step".to_owned()),
        };
        Some(format!(
            "{at}: its digest is not that of the file's records: one of them, since {since}, was taken out, added or changed"
        ))
    }
}

/// The tags of fields of a record that are no part of its digest: the snapshot that it names, and the digest itself.
fn left_out(kind: u16) -> (Option<u16>, Option<u16>) {
    fn tag<T: Fields>(name: &str) -> Option<u16> {
        T::ROWS.iter().find(|row| row.name == name).map(|row| row.tag)
    }
    match kind {
        Step::TYPE => (tag::<Step>("delta"), tag::<Step>("digest")),
        Checkpoint::TYPE => (tag::<Checkpoint>("snapshot"), None),
        RegionEnd::TYPE => (tag::<RegionEnd>("after"), tag::<RegionEnd>("digest")),
        _ => (None, None),
    }
}

/// True for frames that digests are of.
fn counts(kind: u16) -> bool {
    kind::is_indexed(kind)
        && ![kind::EXTENTS, kind::CHUNK, Snapshot::TYPE, CodeObject::TYPE, StorePath::TYPE].contains(&kind)
}

/// The id of the addresses of a snapshot.
fn of_addresses(ranges: &[Range<u64>]) -> Id {
    let mut pieces = IdOfPieces::default();
    ranges.iter().flat_map(|range| [range.start, range.end]).for_each(|word| pieces.add(&word.to_le_bytes()));
    pieces.id()
}

/// The snapshot that a record names, and the digest that it has.
fn said(kind: u16, body: &[u8]) -> (Option<SnapshotId>, Option<Id>) {
    let (snapshot, digest) = left_out(kind);
    let (mut named, mut has) = (None, None);
    value::fields(body).for_each(|(tag, _, field)| {
        if Some(tag) == snapshot {
            named = value::number(field).ok().filter(|id| *id != 0).map(SnapshotId);
        } else if Some(tag) == digest {
            has = field.try_into().ok().map(Id).filter(|id| !id.is_none());
        }
    });
    (named, has)
}

/// The digest of a record behind another one, whose snapshot has these addresses.
fn next(before: &Id, kind: u16, body: &[u8], addresses: Option<Id>) -> Id {
    let (snapshot, digest) = left_out(kind);
    let mut pieces = IdOfPieces::default();
    pieces.add(&before.0);
    pieces.add(&kind.to_le_bytes());
    for (tag, whole, _) in value::fields(body) {
        if Some(tag) != snapshot && Some(tag) != digest {
            pieces.add(whole);
        }
    }
    addresses.iter().for_each(|id| pieces.add(&id.0));
    pieces.id()
}

/// What a writer knows of the records that it has written.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The digest of the last record; `None` when it is not known any more.
    last: Option<Id>,
    addresses: BTreeMap<SnapshotId, Id>,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain { last: Some(Id::default()), addresses: BTreeMap::new() }
    }
}

impl Chain {
    /// True for records whose bodies have to be known.
    pub(crate) fn wants(&self, kind: u16) -> bool {
        self.last.is_some() && counts(kind)
    }

    /// A snapshot is in the file.
    pub(crate) fn has(&mut self, id: SnapshotId, ranges: &[Range<u64>]) {
        self.addresses.insert(id, of_addresses(ranges));
        if self.addresses.len() > REMEMBERED {
            self.addresses.pop_first();
        }
    }

    /// Puts its digest into a record that is to have one and has none; what the last digest is once it is written.
    pub(crate) fn put(&self, kind: u16, body: &mut Vec<u8>) -> Option<Id> {
        let (snapshot, has) = said(kind, body);
        let addresses = match snapshot {
            // Of one that is not known any more there is no digest, and of nothing behind it.
            Some(id) => Some(*self.addresses.get(&id)?),
            None => None,
        };
        let digest = next(self.last.as_ref()?, kind, body, addresses);
        if let (None, (_, Some(tag))) = (has, left_out(kind)) {
            value::put(tag, Kind::Bytes, &digest.0, body);
        }
        Some(digest)
    }

    /// The record is written.
    pub(crate) fn wrote(&mut self, last: Option<Id>) {
        self.last = last;
    }
}

impl Reader {
    /// Compares the digests of a region with what the file has.
    pub fn digests(&self, region: u64) -> Digests {
        let mut last = Id::default();
        for Entry { offset, kind } in self.indexed().iter().copied().filter(|entry| counts(entry.kind)) {
            // What is damaged is told elsewhere, and is missing here.
            let Ok(body) = self.body_at(offset) else { continue };
            let (snapshot, has) = said(kind, &body);
            let ranges = snapshot.map(|id| self.map_of(id).map(|map| map.ranges()).unwrap_or_default());
            last = next(&last, kind, &body, ranges.as_deref().map(of_addresses));
            let step = match kind {
                Step::TYPE => {
                    value::read::<Step>(&body).ok().filter(|step| step.region == region).map(|s| Some(s.sequence))
                }
                RegionEnd::TYPE => {
                    value::read::<RegionEnd>(&body).ok().filter(|end| end.region == region).map(|_| None)
                }
                _ => None,
            };
            let Some(step) = step else { continue };
            match has {
                None => return Digests::None(step),
                Some(has) if has != last => return Digests::Broken(step),
                Some(_) if step.is_none() => return Digests::Whole,
                Some(_) => {}
            }
        }
        Digests::Whole
    }

    /// The body of the frame at an offset.
    fn body_at(&self, offset: u64) -> Result<Vec<u8>, CaptureError> {
        self.frames.body(offset, &self.frames.head(offset)?)
    }
}
