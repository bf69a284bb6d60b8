//! Checks every byte of a capture file.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;

use crate::chunk;
use crate::digest::Digests;
use crate::error::CaptureError;
use crate::extent::{Extent, What};
use crate::frame::{HEAD, Head, flag, kind};
use crate::header::CHUNK;
use crate::id::Id;
use crate::index::{self, Entry};
use crate::pack::Pack;
use crate::reader::Reader;
use crate::records::{CodeObject, Dispatch, FramePosition, Placed, Snapshot, SnapshotId};
use crate::region;
use crate::scan::{self, End, Finding, Walk};

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Frames that are whole.
    pub frames: u64,
    /// Chunks of memory and code objects whose bytes are those that their ids name.
    pub chunks: u64,
    /// The damage found. If empty, every committed byte of the file is as it was written.
    pub findings: Vec<Finding>,
}

impl Report {
    /// True when nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    fn add(&mut self, offset: u64, text: impl Into<String>) {
        self.findings.push(Finding { offset, text: text.into() });
    }
}

/// A part of a file: a frame, or bytes that are no frame.
pub(crate) enum FilePart {
    /// A frame whose checksums are right, and its decoded body.
    Whole(FramePosition, Head, Vec<u8>),
    /// Bytes from an offset to another that are no frame, and why.
    Lost(u64, u64, Finding),
}

impl Reader {
    /// Looks at the checksums of every frame, up to the first that is wrong: whether any byte of the file changed since it
    /// was written. What the frames say is not looked at.
    ///
    /// # Errors
    /// What changed.
    pub fn verify(&self) -> Result<(), Finding> {
        if let Some(damage) = &self.frames.header_damage {
            return Err(damage.clone());
        }
        let mut walk = Walk::new(&self.frames);
        let mut buffer = Vec::new();
        while let Some(step) = walk.next() {
            let whole = step.and_then(|(place, head)| self.frames.verify(place.offset, &head, &mut buffer));
            whole.map_err(|error| Finding::from(&error))?;
        }
        Ok(())
    }

    /// Looks at everything that is committed: checksums, ids, references, the index. That a file was not finished is no damage.
    pub fn check(&self) -> Report {
        self.check_with(&mut |_| ())
    }

    /// The same. `progress` gets the number of checked bytes, of [`Self::bytes`], at times.
    pub fn check_with(&self, progress: &mut dyn FnMut(u64)) -> Report {
        let mut check = Check::default();
        self.parts(progress, &mut |part| {
            check.take(self, part);
            ControlFlow::Continue(())
        });
        check.ends(self);
        let mut report = check.report;
        for finding in self.problems() {
            if !report.findings.contains(finding) {
                report.findings.push(finding.clone());
            }
        }
        report
    }

    /// How far the file is committed: what is behind that is no damage of a file that was not finished.
    pub(crate) fn committed(&self) -> u64 {
        match self.end() {
            End::Finished => self.frames.length,
            End::Unfinished { whole, .. } => *whole,
        }
    }

    /// Goes over the whole file as far as it is committed, as long as that is wanted. `progress` is told how far that is.
    pub(crate) fn parts(&self, progress: &mut dyn FnMut(u64), each: &mut dyn FnMut(FilePart) -> ControlFlow<()>) {
        let mut walk = Walk::new(&self.frames);
        let committed = self.committed();
        loop {
            let from = walk.offset;
            progress(from);
            if from >= committed {
                break;
            }
            let (part, jump) = match walk.next() {
                None => break,
                Some(Ok((place, head))) => match self.frames.body(place.offset, &head) {
                    Ok(body) => (FilePart::Whole(place, head, body), None),
                    Err(error) => (FilePart::Lost(place.offset, walk.offset, Finding::from(&error)), None),
                },
                Some(Err(error)) => {
                    // What lies in between is lost; a padding that takes its place needs room for a head.
                    let next = self.frames.resume(from + HEAD as u64, walk.last());
                    let to = next.map_or(self.frames.length, |(offset, _)| offset);
                    (FilePart::Lost(from, to, Finding::from(&error)), Some(to))
                }
            };
            if each(part).is_break() {
                break;
            }
            if let Some(to) = jump {
                walk.jump(to);
            }
        }
    }
}

/// The number of a frame's snapshot, and its extents, from the body of the frame at an offset.
pub(crate) fn snapshot_of(body: &[u8], offset: u64) -> Result<(SnapshotId, &[u8]), CaptureError> {
    let split = body.split_first_chunk::<8>();
    let bad = || CaptureError::damaged(offset, "a snapshot's number", format!("{} bytes", body.len()));
    split.map(|(id, extents)| (SnapshotId(u64::from_le_bytes(*id)), extents)).ok_or_else(bad)
}

/// The packs that are whole: lengths of the chunks of each, by the offset of its frame.
#[derive(Debug, Default)]
pub(crate) struct Packs(HashMap<u64, Vec<u32>>);

impl Packs {
    /// Takes in a pack whose chunks are what their ids name, where they are. The numbers of those that a store should have and has
    /// not, and why.
    fn take(
        &mut self,
        reader: &Reader,
        offset: u64,
        (body, kind): (Vec<u8>, u16),
    ) -> Result<Vec<(u32, CaptureError)>, CaptureError> {
        let pack = Pack::parse(body, offset, kind)?;
        let (mut lengths, mut missing) = (Vec::with_capacity(pack.count() as usize), Vec::new());
        for (number, chunk) in (0..).zip(pack.chunks()) {
            match reader.chunk(&pack, chunk, offset) {
                // It was compared when it was read from a store.
                Ok(bytes) if !chunk.is_stored() => {
                    let is = Id::of(bytes);
                    if is != chunk.id {
                        let expected = format!("chunk {number} of bytes named {}", chunk.id);
                        return Err(CaptureError::damaged(offset, expected, is.to_string()));
                    }
                }
                Ok(_) => {}
                Err(error) => missing.push((number, error)),
            }
            lengths.push(chunk.length);
        }
        self.0.insert(offset, lengths);
        Ok(missing)
    }

    /// Takes in a pack of which a store has all that it should have.
    pub(crate) fn whole(&mut self, reader: &Reader, offset: u64, body: Vec<u8>, kind: u16) -> Result<(), CaptureError> {
        let missing = self.take(reader, offset, (body, kind))?;
        missing.into_iter().next().map_or(Ok(()), |(_, error)| {
            self.0.remove(&offset);
            Err(error)
        })
    }

    /// How many chunks the pack at an offset has.
    fn chunks(&self, offset: u64) -> u64 {
        self.0.get(&offset).map_or(0, |lengths| lengths.len() as u64)
    }

    /// Every chunk that an extent names has to be there, and as long as its place. `offset` is that of the extent's frame.
    pub(crate) fn has(&self, offset: u64, extent: &Extent) -> Result<(), CaptureError> {
        let What::Chunks { pack, first, start } = extent.what else { return Ok(()) };
        let wrong = |found: String| {
            CaptureError::damaged(offset, format!("an extent {extent:x?} of chunks that are there"), found)
        };
        let lengths = self.0.get(&pack).ok_or_else(|| wrong(format!("no whole pack before it at {pack}")))?;
        let chunks = lengths.get(first as usize..).unwrap_or_default();
        let count = chunk::count(start, extent.end());
        if chunks.len() < count {
            return Err(wrong(format!("{} chunks from there on", chunks.len())));
        }
        let mut at = start;
        for length in chunks.iter().take(count) {
            let stop = chunk::boundary(at).min(extent.end());
            if u64::from(*length) != stop - at {
                return Err(wrong(format!("one of {length} bytes for {:#x}", at)));
            }
            at = stop;
        }
        Ok(())
    }
}

/// The state of a check.
#[derive(Default)]
struct Check {
    report: Report,
    packs: Packs,
    /// True if there are bytes that are no frames.
    lost: bool,
    entries: Vec<Entry>,
    frames: u64,
    snapshots: HashSet<SnapshotId>,
    /// Chunks that no store has: offset of the pack, number.
    missing: HashSet<(u64, u64)>,
    /// True once it was said that there is no store.
    has_no_store: bool,
}

impl Check {
    fn take(&mut self, reader: &Reader, part: FilePart) {
        let (place, head, body) = match part {
            FilePart::Lost(_, _, why) => {
                self.lost = true;
                return self.report.findings.push(why);
            }
            FilePart::Whole(place, head, body) => (place, head, body),
        };
        let offset = place.offset;
        self.report.frames += 1;
        self.frames = place.sequence + 1;
        let outcome = match head.kind {
            pack if kind::is_pack(pack) => self.pack(reader, offset, body, pack),
            kind::EXTENTS => snapshot_of(&body, offset)
                .and_then(|(_, extents)| Extent::parse(extents, offset))
                .and_then(|all| all.iter().try_for_each(|extent| self.packs.has(offset, extent))),
            kind::INDEX => index::parse(&body, offset).map(|_| ()),
            kind::FOOTER => self.footer(offset, &body),
            kind::PADDING if body.iter().all(|byte| *byte == 0) => Ok(()),
            kind::PADDING => Err(CaptureError::damaged(offset, "padding of zeros", "other bytes")),
            other if !scan::known(other) && head.flags & flag::OPTIONAL == 0 => Err(scan::unknown(offset, other)),
            _ => Ok(()),
        };
        if kind::is_indexed(head.kind) {
            self.entries.push(Entry { offset, kind: head.kind });
        }
        if let Err(error) = outcome {
            self.report.findings.push(Finding::from(&error));
        }
    }

    fn pack(&mut self, reader: &Reader, offset: u64, body: Vec<u8>, kind: u16) -> Result<(), CaptureError> {
        let missing = self.packs.take(reader, offset, (body, kind))?;
        self.report.chunks += self.packs.chunks(offset) - missing.len() as u64;
        for (number, error) in missing {
            self.missing.insert((offset, number.into()));
            match reader.stores().missing() {
                Some(why) if !self.has_no_store => {
                    self.has_no_store = true;
                    self.found(offset, format_args!("the store of its chunks: {why}"));
                }
                Some(_) => {}
                None => self.report.findings.push(Finding::from(&error)),
            }
        }
        Ok(())
    }

    /// Says what a dispatch lacks of chunks that no store has.
    fn missing_of(&mut self, reader: &Reader, dispatch: &Placed<Dispatch>) {
        for (when, id) in [("before", dispatch.before), ("after", dispatch.after)] {
            // What is wrong with extents was said.
            let Some(map) = id.and_then(|id| reader.map_of(id).ok()) else { continue };
            let (mut chunks, mut first) = (0_u64, None);
            for piece in map.pieces() {
                let What::Chunks { pack, first: number, start } = piece.what else { continue };
                let all = (piece.address / CHUNK - start / CHUNK)..chunk::count(start, piece.end()) as u64;
                let lacks = all.filter(|n| self.missing.contains(&(pack, u64::from(number) + n))).count() as u64;
                chunks += lacks;
                first = first.or((lacks > 0).then_some(piece.address));
            }
            if let Some(address) = first {
                let (at, id) = (dispatch.place.offset, dispatch.id);
                let what = format_args!("{chunks} chunks of the memory {when} the kernel, the first at {address:#x}");
                self.found(at, format_args!("dispatch {id}: no store has {what}"));
            }
        }
    }

    fn footer(&mut self, offset: u64, body: &[u8]) -> Result<(), CaptureError> {
        let (frames, ..) = index::parse_footer(body, offset)?;
        if frames != self.frames {
            return Err(CaptureError::damaged(
                offset,
                format!("a footer that counts {} frames", self.frames),
                frames.to_string(),
            ));
        }
        Ok(())
    }

    /// Checks what depends on the whole file.
    fn ends(&mut self, reader: &Reader) {
        let records = reader.records();
        for snapshot in &records.snapshots {
            self.snapshot(reader, snapshot);
        }
        let kernels: HashSet<u64> = records.kernels.iter().map(|k| k.id).collect();
        let objects: HashSet<Id> = records.code_objects.iter().map(|c| c.id).collect();
        for dispatch in reader.dispatches() {
            self.dispatch(dispatch, &kernels, &objects);
            if !self.missing.is_empty() {
                self.missing_of(reader, dispatch);
            }
        }
        let regions: HashSet<u64> = records.regions.iter().map(|region| region.id).collect();
        for (place, about) in region::references(records) {
            let has = |id: SnapshotId| self.snapshots.contains(&id);
            for what in about.lacks(&regions, &has, &kernels, &objects) {
                self.found(place.offset, format_args!("{about}: {what} is not in the file"));
            }
        }
        for object in &records.code_objects {
            self.code_object(reader, object);
        }
        self.digests(reader);
        self.end(reader);
    }

    /// Compares the digests of regions. Where frames are lost, those behind are others: that is said of the frames.
    fn digests(&mut self, reader: &Reader) {
        if self.lost {
            return;
        }
        let records = reader.records();
        for region in &records.regions {
            let digests = reader.digests(region.id);
            let Some(why) = digests.broken() else { continue };
            let step = match digests {
                Digests::Broken(Some(step)) => {
                    records.steps.iter().find(|found| found.region == region.id && found.sequence == step)
                }
                _ => None,
            };
            let end = || records.region_ends.iter().find(|end| end.region == region.id);
            let at = step.map(|step| step.place).or_else(|| Some(end()?.place)).unwrap_or(region.place).offset;
            self.found(at, format_args!("region {}: {why}", region.id));
        }
    }

    /// A finding about what is at an offset of the file.
    fn found(&mut self, at: u64, what: fmt::Arguments<'_>) {
        self.report.add(at, format!("offset {at}: {what}"));
    }

    fn snapshot(&mut self, reader: &Reader, snapshot: &Placed<Snapshot>) {
        let at = snapshot.place.offset;
        if let Some(parent) = snapshot.parent.filter(|parent| !self.snapshots.contains(parent)) {
            self.found(at, format_args!("snapshot {}: its parent {} is not before it", snapshot.id.0, parent.0));
        }
        if let Err(error) = reader.extents_of(snapshot) {
            self.report.findings.push(Finding::from(&error));
        }
        if !self.snapshots.insert(snapshot.id) {
            self.found(at, format_args!("a second snapshot {}", snapshot.id.0));
        }
    }

    fn dispatch(&mut self, dispatch: &Placed<Dispatch>, kernels: &HashSet<u64>, objects: &HashSet<Id>) {
        let snapshots = [dispatch.before, dispatch.after].into_iter().flatten();
        let mut lacks: Vec<String> =
            snapshots.filter(|id| !self.snapshots.contains(id)).map(|id| format!("snapshot {}", id.0)).collect();
        lacks.extend(region::code_lacks(dispatch, kernels, objects));
        for what in lacks {
            let at = dispatch.place.offset;
            self.found(at, format_args!("dispatch {}: {what} is not in the file", dispatch.id));
        }
    }

    fn code_object(&mut self, reader: &Reader, object: &Placed<CodeObject>) {
        if let Err(error) = reader.is_whole(object) {
            self.report.findings.push(Finding::from(&error));
        }
    }

    /// The index has what the file has, but for frames that are lost.
    fn end(&mut self, reader: &Reader) {
        let indexed = reader.indexed();
        if *reader.end() == End::Finished && !self.lost && indexed != self.entries {
            let (indexed, entries) = (indexed.len(), self.entries.len());
            self.report.add(0, format!("the index has {indexed} frames, the file {entries}, or others"));
        }
    }
}

impl Reader {
    /// Compares the bytes of a code object with its id and size, without holding them.
    pub(crate) fn is_whole(&self, object: &Placed<CodeObject>) -> Result<(), CaptureError> {
        let (mut hasher, mut size) = (blake3::Hasher::new(), 0);
        self.code_object_pieces(object.place.offset, &object.extents, &mut |piece| {
            hasher.update(piece);
            size += piece.len() as u64;
        })?;
        let is = Id(*hasher.finalize().as_bytes());
        if is == object.id && size == object.size {
            return Ok(());
        }
        let expected = format!("a code object of {} bytes named {}", object.size, object.id);
        Err(CaptureError::damaged(object.place.offset, expected, format!("{size} named {is}")))
    }
}
