//! Copies the intact part of a damaged file to another file, in which nothing refers to what is lost.
//!
//! Frames stay at their offsets, which others refer to. What is lost becomes padding; so does a snapshot that is no longer known.
//! Memory whose contents are lost is dropped from its snapshot. A dispatch stays, without what it refers to, and a note says what
//! it lacks. A step of a region does not stay without what it refers to.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::Path;

use crate::check::{FilePart, Packs, snapshot_of};
use crate::error::CaptureError;
use crate::extent::{Extent, What};
use crate::frame::{Codec, HEAD, Head, MAX_BODY, flag, kind, padding};
use crate::header::SHARES;
use crate::id::Id;
use crate::index::Entry;
use crate::reader::Reader;
use crate::records::{CodeObject, Dispatch, FramePosition, Note, Placed, Records, Severity, Snapshot, SnapshotId};
use crate::region::{self, Reference};
use crate::scan::{self, Finding};
use crate::storage::{FileStorage, Storage};
use crate::value;
use crate::writer::{Options, Writer};

/// Losses that the note about all of them names; of more only how many they are.
const NAMED: usize = 32;

impl Reader {
    /// Copies the intact part of this file to another one: without damaged frames, what refers to them, and bytes after the last commit,
    /// with notes on the losses, and with an index. [`Reader::check`] finds nothing in the other file. Returns the losses. A pack with a
    /// chunk that no store has is lost.
    ///
    /// # Errors
    /// When the other file cannot be written.
    pub fn repair(&self, to: &Path) -> Result<Vec<Finding>, CaptureError> {
        self.repair_with(to, &mut |_| ())
    }

    /// The same. `progress` gets the number of read bytes, of [`Self::bytes`], at times.
    ///
    /// # Errors
    /// When the other file cannot be written.
    pub fn repair_with(&self, to: &Path, progress: &mut dyn FnMut(u64)) -> Result<Vec<Finding>, CaptureError> {
        let storage = FileStorage::create(to).map_err(|source| CaptureError::File { path: to.to_owned(), source })?;
        self.repair_into(storage, progress)
    }

    /// The same, into an empty storage.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn repair_into(
        &self,
        storage: FileStorage,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Vec<Finding>, CaptureError> {
        let mut lost: Vec<Finding> = self.frames.header_damage.iter().cloned().collect();
        let mut whole = Whole::of(self);
        let mut repaired = RepairedFile { reader: self, storage, end: 0, sequence: None, entries: Vec::new(), held: 0 };
        repaired.header()?;
        let mut written = Ok(());
        self.parts(progress, &mut |part| {
            let kept = match part {
                FilePart::Lost(from, to, why) => {
                    lost.push(why);
                    repaired.held += to - from;
                    Ok(())
                }
                FilePart::Whole(place, head, body) => match whole.take(place, &head, body) {
                    Ok(Kept::Written) => repaired.keep(place, &head, None),
                    Ok(Kept::Changed(body)) if head.codec == Codec::Raw => repaired.keep(place, &head, Some(&body)),
                    Ok(Kept::Anew | Kept::Changed(_)) => {
                        repaired.held += head.frame_bytes();
                        Ok(())
                    }
                    Err(error) => {
                        lost.push(Finding::from(&error));
                        repaired.held += head.frame_bytes();
                        Ok(())
                    }
                },
            };
            written = kept;
            if written.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        written?;
        let (committed, length) = (self.committed(), self.bytes());
        if committed < length {
            let text = format!("offset {committed}: {} bytes that are not committed", length - committed);
            lost.push(Finding { offset: committed, text });
        }
        let options = Options {
            uuid: Some(self.header().uuid),
            created_ns: Some(self.header().created_ns),
            ..Options::default()
        };
        let RepairedFile { storage, end, sequence, entries, .. } = repaired;
        let mut writer = Writer::resume(storage, &options, end, sequence.map_or(0, |last| last + 1), entries);
        let note = |text: String, dispatch| Note {
            severity: Severity::Loss,
            code: "repaired".to_owned(),
            text,
            dispatch,
            time_ns: 0,
        };
        for (dispatch, what) in whole.lacking {
            writer.note(&note(format!("lost with damage that was repaired: {what}"), Some(dispatch)))?;
        }
        if !lost.is_empty() {
            let mut list: Vec<String> = lost.iter().take(NAMED).map(ToString::to_string).collect();
            if lost.len() > NAMED {
                list.push(format!("and {} more", lost.len() - NAMED));
            }
            writer.note(&note(format!("repaired; lost: {}", list.join("; ")), None))?;
        }
        writer.finish()?;
        Ok(lost)
    }
}

/// What becomes of a frame that is whole.
enum Kept {
    /// It is copied.
    Written,
    /// It is written with another body, as long as its own.
    Changed(Vec<u8>),
    /// The new file gets its own.
    Anew,
}

/// What is still there, as far as frames were looked at.
struct Whole<'r> {
    reader: &'r Reader,
    packs: Packs,
    kernels: HashSet<u64>,
    regions: HashSet<u64>,
    objects: HashSet<Id>,
    /// The frames of extents since the last snapshot, and whether contents of them are lost.
    extents: HashMap<SnapshotId, (u64, bool)>,
    /// The snapshots, and whether contents of them or of their parents are lost.
    snapshots: HashMap<SnapshotId, bool>,
    /// What dispatches lack.
    lacking: BTreeMap<u64, String>,
}

impl<'r> Whole<'r> {
    fn of(reader: &'r Reader) -> Whole<'r> {
        Whole {
            reader,
            packs: Packs::default(),
            kernels: reader.records().kernels.iter().map(|kernel| kernel.id).collect(),
            regions: reader.records().regions.iter().map(|region| region.id).collect(),
            objects: HashSet::new(),
            extents: HashMap::new(),
            snapshots: HashMap::new(),
            lacking: BTreeMap::new(),
        }
    }

    /// What becomes of a frame; an error for one that is lost with others.
    fn take(&mut self, place: FramePosition, head: &Head, body: Vec<u8>) -> Result<Kept, CaptureError> {
        let offset = place.offset;
        match head.kind {
            pack if kind::is_pack(pack) => self.packs.whole(self.reader, offset, body, pack).map(|()| Kept::Written),
            kind::EXTENTS => self.extents(offset, body),
            kind::INDEX | kind::FOOTER => Ok(Kept::Anew),
            kind::PADDING if body.iter().all(|byte| *byte == 0) => Ok(Kept::Written),
            kind::PADDING => Err(CaptureError::damaged(offset, "padding of zeros", "other bytes")),
            other if !scan::known(other) => Ok(Kept::Written),
            _ => self.record(place, head.kind, body),
        }
    }

    /// Extents of contents that are lost are dropped.
    fn extents(&mut self, offset: u64, body: Vec<u8>) -> Result<Kept, CaptureError> {
        let (id, extents) = snapshot_of(&body, offset)?;
        let mut changed = id.0.to_le_bytes().to_vec();
        let mut is_lost = false;
        for mut extent in Extent::parse(extents, offset)? {
            if self.packs.has(offset, &extent).is_err() {
                extent.what = What::Dropped;
                is_lost = true;
            }
            extent.put(&mut changed);
        }
        let of = self.extents.entry(id).or_default();
        *of = (of.0 + 1, of.1 | is_lost);
        Ok(if is_lost { Kept::Changed(changed) } else { Kept::Written })
    }

    fn record(&mut self, place: FramePosition, kind: u16, body: Vec<u8>) -> Result<Kept, CaptureError> {
        let offset = place.offset;
        let mut one = Records::default();
        if let Some(Err(why)) = one.take(place, kind, &body) {
            return Err(CaptureError::damaged(offset, "a record", why.to_string()));
        }
        if let Some(snapshot) = one.snapshots.first() {
            return self.snapshot(snapshot).map(|()| Kept::Written);
        }
        if let Some(object) = one.code_objects.first() {
            return self.code_object(object).map(|()| Kept::Written);
        }
        if let Some(begun) = one.begun.first() {
            // It says nothing without the memory before.
            let is_there = |id: SnapshotId| self.snapshots.get(&id).is_some_and(|is_lost| !is_lost);
            return match begun.dispatch.before {
                Some(id) if !is_there(id) => Err(CaptureError::damaged(
                    offset,
                    format!("a beginning with snapshot {}", id.0),
                    "none: it is lost",
                )),
                _ => Ok(Kept::Written),
            };
        }
        if let Some((_, about)) = region::references(&one).next() {
            return self.of_region(offset, &about).map(|()| Kept::Written);
        }
        let Some(dispatch) = one.dispatches.first() else { return Ok(Kept::Written) };
        let blanks = self.dispatch(dispatch);
        if blanks.is_empty() {
            return Ok(Kept::Written);
        }
        let mut body = body;
        value::blank(&mut body, &blanks);
        Ok(Kept::Changed(body))
    }

    /// A record of a region that lacks something is lost: what follows from it would be wrong, and a step that is not there is seen.
    fn of_region(&self, offset: u64, about: &Reference<'_>) -> Result<(), CaptureError> {
        let has = |id: SnapshotId| self.snapshots.get(&id).is_some_and(|is_lost| !is_lost);
        let lacks = about.lacks(&self.regions, &has, &self.kernels, &self.objects);
        if lacks.is_empty() {
            return Ok(());
        }
        Err(CaptureError::damaged(offset, format!("{about} with {}", lacks.join(", ")), "none: it is lost"))
    }

    fn snapshot(&mut self, snapshot: &Placed<Snapshot>) -> Result<(), CaptureError> {
        let (frames, mut is_lost) = std::mem::take(&mut self.extents).remove(&snapshot.id).unwrap_or_default();
        let wrong = |expected: String, found: String| {
            let expected = format!("snapshot {} with {expected}", snapshot.id.0);
            Err(CaptureError::damaged(snapshot.place.offset, expected, found))
        };
        if frames != snapshot.frames {
            return wrong(format!("{} frames of extents", snapshot.frames), frames.to_string());
        }
        if let Some(parent) = snapshot.parent {
            let Some(of_parent) = self.snapshots.get(&parent).filter(|_| parent < snapshot.id) else {
                return wrong(format!("its parent {}", parent.0), "none: it is lost".to_owned());
            };
            is_lost |= of_parent;
        }
        if self.snapshots.contains_key(&snapshot.id) {
            return wrong("a number of its own".to_owned(), "a second one".to_owned());
        }
        self.snapshots.insert(snapshot.id, is_lost);
        Ok(())
    }

    fn code_object(&mut self, object: &Placed<CodeObject>) -> Result<(), CaptureError> {
        let offset = object.place.offset;
        Extent::parse(&object.extents, offset)?.iter().try_for_each(|extent| self.packs.has(offset, extent))?;
        self.reader.is_whole(object)?;
        self.objects.insert(object.id);
        Ok(())
    }

    /// The fields of a dispatch that refer to what is lost. What it lacks then is noted.
    fn dispatch(&mut self, dispatch: &Dispatch) -> Vec<u16> {
        let (mut blanks, mut lacks) = (Vec::new(), Vec::new());
        for (field, id) in [("before", dispatch.before), ("after", dispatch.after)] {
            match id.map(|id| self.snapshots.get(&id)) {
                Some(None) => {
                    blanks.push(field);
                    lacks.push(format!("the memory {field} the kernel"));
                }
                Some(Some(true)) => lacks.push(format!("contents of the memory {field} the kernel")),
                Some(Some(false)) | None => {}
            }
        }
        if dispatch.kernel != 0 && !self.kernels.contains(&dispatch.kernel) {
            blanks.push("kernel");
            lacks.push(format!("the record of kernel {}", dispatch.kernel));
        }
        if !dispatch.code_object.is_none() && !self.objects.contains(&dispatch.code_object) {
            blanks.push("code_object");
            lacks.push(format!("code object {}", dispatch.code_object));
        }
        if !lacks.is_empty() {
            self.lacking.insert(dispatch.id, lacks.join(", "));
        }
        let rows = <Dispatch as value::Fields>::ROWS.iter();
        rows.filter(|row| blanks.contains(&row.name)).map(|row| row.tag).collect()
    }
}

/// A repaired file that is being written.
struct RepairedFile<'a> {
    reader: &'a Reader,
    storage: FileStorage,
    end: u64,
    sequence: Option<u64>,
    entries: Vec<Entry>,
    /// Bytes that are to become padding, if something follows.
    held: u64,
}

impl RepairedFile<'_> {
    /// Writes the header; one that is damaged as it was read.
    fn header(&mut self) -> Result<(), CaptureError> {
        let frames = &self.reader.frames;
        match frames.header_damage {
            None => self.copy(0, frames.first()),
            Some(_) => {
                let mut header = frames.header;
                header.required |= if self.reader.records().stores.is_empty() { 0 } else { SHARES };
                let bytes = header.to_bytes();
                self.append(&bytes)?;
                self.copy(bytes.len() as u64, frames.first())
            }
        }
    }

    /// Writes a frame, or one with another body of the same length.
    fn keep(&mut self, place: FramePosition, head: &Head, body: Option<&[u8]>) -> Result<(), CaptureError> {
        self.fill()?;
        if kind::is_indexed(head.kind) {
            self.entries.push(Entry { offset: place.offset, kind: head.kind });
        }
        match body {
            None => self.copy(place.offset, place.offset + head.frame_bytes())?,
            Some(body) => self.frame(*head, body)?,
        }
        self.sequence = Some(place.sequence);
        Ok(())
    }

    /// Writes the padding that is held. Its number is that of the first frame that it takes the place of.
    fn fill(&mut self) -> Result<(), CaptureError> {
        while self.held > 0 {
            let most = MAX_BODY + HEAD as u64;
            // Not so much that too little for a head is left.
            let bytes = if self.held > most { self.held.min(most) - 4096 } else { self.held };
            let sequence = self.sequence.map_or(0, |last| last + 1);
            let body = vec![0; (bytes.saturating_sub(HEAD as u64)) as usize];
            let head = Head {
                kind: kind::PADDING,
                flags: flag::OPTIONAL,
                sequence,
                stored: body.len() as u64,
                raw: body.len() as u64,
                codec: Codec::Raw,
                crc: 0,
            };
            self.frame(head, &body)?;
            self.sequence = Some(sequence);
            self.held -= bytes;
        }
        Ok(())
    }

    /// Writes a frame whose body is stored as it is.
    fn frame(&mut self, head: Head, body: &[u8]) -> Result<(), CaptureError> {
        let mut stored = body.to_vec();
        stored.resize(body.len() + padding(body.len() as u64) as usize, 0);
        let head = Head { crc: crc32fast::hash(&stored), ..head };
        self.append(&head.to_bytes(self.reader.header().tag()))?;
        self.append(&stored)
    }

    fn copy(&mut self, from: u64, to: u64) -> Result<(), CaptureError> {
        let mut at = from;
        let mut block = Vec::new();
        while at < to {
            block.resize((to - at).min(1 << 20) as usize, 0);
            self.reader.frames.read(at, &mut block)?;
            self.append(&block)?;
            at += block.len() as u64;
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        let written = self.storage.append(bytes);
        written.map_err(|source| CaptureError::Write { end: self.end, bytes: bytes.len() as u64, source })?;
        self.end += bytes.len() as u64;
        Ok(())
    }
}
