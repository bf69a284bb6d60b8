//! Looks at every byte of a file, and writes what is whole of a damaged one to another.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::chunk;
use crate::error::Error;
use crate::extent::{Extent, What};
use crate::frame::{HEAD, Head, MAX_BODY, flag, kind, padding};
use crate::id::Id;
use crate::index::{self, Entry};
use crate::pack::Pack;
use crate::reader::Reader;
use crate::records::{Note, Place, Severity, SnapshotId};
use crate::scan::{self, Finding, Walk};
use crate::storage::{FileStorage, Storage};
use crate::writer::{Options, Writer};

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Frames that are whole.
    pub frames: u64,
    /// Chunks of memory and code objects whose bytes are those that their ids name.
    pub chunks: u64,
    /// What is wrong. None: every byte of the file is as it was written.
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

/// A part of a file: a frame, or what is none.
pub(crate) enum Part {
    /// A frame whose checksums are right, and its decoded body.
    Whole(Place, Head, Vec<u8>),
    /// Bytes from an offset to another that are no frame, and why.
    Lost(u64, u64, Finding),
}

impl Reader {
    /// Looks at the checksums of every frame: whether any byte of the file changed since it was written. What the frames
    /// say is not looked at.
    pub fn check_frames(&self) -> Report {
        let mut report = Report::default();
        self.parts(&mut |part| match part {
            Part::Whole(..) => report.frames += 1,
            Part::Lost(_, _, why) => report.findings.push(why),
        });
        report
    }

    /// Looks at everything: checksums, ids, references, the index.
    pub fn check(&self) -> Report {
        let mut check = Check::default();
        self.parts(&mut |part| check.take(part));
        check.ends(self);
        let mut report = check.report;
        for finding in self.problems() {
            if !report.findings.contains(finding) {
                report.findings.push(finding.clone());
            }
        }
        report
    }

    /// Goes over the whole file.
    pub(crate) fn parts(&self, each: &mut dyn FnMut(Part)) {
        let mut walk = Walk::new(&self.frames);
        loop {
            let from = walk.offset;
            let error = match walk.next() {
                None => break,
                Some(Ok((place, head))) => match self.frames.body(place.offset, &head) {
                    Ok(body) => {
                        each(Part::Whole(place, head, body));
                        continue;
                    }
                    Err(error) => {
                        each(Part::Lost(place.offset, walk.offset, Finding::from(&error)));
                        continue;
                    }
                },
                Some(Err(error)) => error,
            };
            // What lies in between is lost; a padding that takes its place needs room for a head.
            let next = self.frames.resume(from + HEAD as u64, walk.last());
            let to = next.map_or(self.frames.length, |(offset, _)| offset);
            each(Part::Lost(from, to, Finding::from(&error)));
            walk.jump(to);
        }
    }

    /// Writes a file with everything that is whole of this one: damaged frames are taken out, what was cut off is left
    /// out, a note says what was lost, and an index ends it. What it says that was lost is returned.
    ///
    /// # Errors
    /// When the other file cannot be written.
    pub fn repair(&self, to: &Path) -> Result<Vec<Finding>, Error> {
        let mut storage = FileStorage::create(to).map_err(|source| Error::File { path: to.to_owned(), source })?;
        let mut lost = Vec::new();
        let mut repair = Repair {
            reader: self,
            storage: &mut storage,
            end: 0,
            sequence: None,
            entries: Vec::new(),
            held: 0,
            error: None,
        };
        repair.copy(0, self.frames.first());
        self.parts(&mut |part| match part {
            // They are written anew.
            Part::Whole(place, head, _) if head.kind == kind::INDEX || head.kind == kind::FOOTER => {
                repair.pad(place.offset, place.offset + head.frame_bytes())
            }
            Part::Whole(place, head, _) => repair.keep(place, &head),
            Part::Lost(from, to, why) => {
                if to < self.frames.length {
                    repair.pad(from, to);
                }
                lost.push(why);
            }
        });
        let Repair { end, sequence, entries, error, .. } = repair;
        if let Some(error) = error {
            return Err(error);
        }
        let options = Options {
            uuid: Some(self.header().uuid),
            created_ns: Some(self.header().created_ns),
            ..Options::default()
        };
        let mut writer = Writer::resume(storage, &options, end, sequence.map_or(0, |last| last + 1), entries);
        if !lost.is_empty() {
            let list: Vec<String> = lost.iter().map(ToString::to_string).collect();
            let text = format!("repaired; lost: {}", list.join("; "));
            writer.note(&Note { severity: Severity::Loss, code: "repaired".to_owned(), text, ..Note::default() })?;
        }
        writer.finish()?;
        Ok(lost)
    }
}

/// A repaired file that is being written. Frames stay at their offsets, which others refer to.
struct Repair<'a> {
    reader: &'a Reader,
    storage: &'a mut FileStorage,
    end: u64,
    sequence: Option<u64>,
    entries: Vec<Entry>,
    /// Bytes that are to become padding, if something follows.
    held: u64,
    error: Option<Error>,
}

impl Repair<'_> {
    fn keep(&mut self, place: Place, head: &Head) {
        self.fill();
        if !matches!(head.kind, kind::PACK | kind::PADDING) {
            self.entries.push(Entry { offset: place.offset, kind: head.kind });
        }
        self.copy(place.offset, place.offset + head.frame_bytes());
        self.sequence = Some(place.sequence);
    }

    fn pad(&mut self, from: u64, to: u64) {
        self.held += to - from;
    }

    /// Writes the padding that is held. Its number is that of the first frame that it takes the place of.
    fn fill(&mut self) {
        while self.held > 0 {
            let most = MAX_BODY + HEAD as u64;
            // Not so much that too little for a head is left.
            let bytes = if self.held > most { self.held.min(most) - 4096 } else { self.held };
            let sequence = self.sequence.map_or(0, |last| last + 1);
            let body = vec![0; (bytes.saturating_sub(HEAD as u64)) as usize];
            let stored = body.len() as u64 - padding(body.len() as u64);
            let head = Head {
                kind: kind::PADDING,
                flags: flag::OPTIONAL,
                sequence,
                stored,
                raw: stored,
                codec: crate::frame::Codec::Raw,
                crc: crc32fast::hash(&body),
            };
            self.append(&head.to_bytes(self.reader.header().tag()));
            self.append(&body);
            self.sequence = Some(sequence);
            self.held -= bytes;
        }
    }

    fn copy(&mut self, from: u64, to: u64) {
        let mut at = from;
        let mut block = Vec::new();
        while at < to && self.error.is_none() {
            block.resize((to - at).min(1 << 20) as usize, 0);
            match self.reader.frames.read(at, &mut block) {
                Ok(()) => self.append(&block),
                Err(error) => self.error = Some(error),
            }
            at += block.len() as u64;
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        if self.error.is_some() {
            return;
        }
        match self.storage.append(bytes) {
            Ok(()) => self.end += bytes.len() as u64,
            Err(source) => self.error = Some(Error::Write { end: self.end, bytes: bytes.len() as u64, source }),
        }
    }
}

/// What a check has seen.
#[derive(Default)]
struct Check {
    report: Report,
    /// Lengths of the chunks of each pack.
    packs: HashMap<u64, Vec<u32>>,
    entries: Vec<Entry>,
    frames: u64,
    snapshots: HashSet<SnapshotId>,
    finished: bool,
}

impl Check {
    fn take(&mut self, part: Part) {
        let (place, head, body) = match part {
            Part::Lost(_, _, why) => return self.report.findings.push(why),
            Part::Whole(place, head, body) => (place, head, body),
        };
        let offset = place.offset;
        self.report.frames += 1;
        self.frames = place.sequence + 1;
        let outcome = match head.kind {
            kind::PACK => self.pack(offset, body),
            kind::EXTENTS => body
                .split_first_chunk::<8>()
                .ok_or_else(|| Error::damaged(offset, "a snapshot's number", format!("{} bytes", body.len())))
                .and_then(|(_, extents)| self.extents(offset, extents)),
            kind::INDEX => index::parse(&body, offset).map(|_| ()),
            kind::FOOTER => self.footer(offset, &body),
            kind::PADDING if body.iter().all(|byte| *byte == 0) => Ok(()),
            kind::PADDING => Err(Error::damaged(offset, "padding of zeros", "other bytes")),
            other if !scan::known(other) && head.flags & flag::OPTIONAL == 0 => Err(scan::unknown(offset, other)),
            _ => Ok(()),
        };
        if !matches!(head.kind, kind::PACK | kind::PADDING | kind::INDEX | kind::FOOTER) {
            self.entries.push(Entry { offset, kind: head.kind });
        }
        if let Err(error) = outcome {
            self.report.findings.push(Finding::from(&error));
        }
    }

    fn pack(&mut self, offset: u64, body: Vec<u8>) -> Result<(), Error> {
        let pack = Pack::parse(body, offset)?;
        let mut lengths = Vec::with_capacity(pack.count() as usize);
        for (bytes, id) in (0..pack.count()).filter_map(|number| pack.chunk(number)) {
            let is = Id::of(bytes);
            if is == id {
                self.report.chunks += 1;
            } else {
                self.report.add(
                    offset,
                    format!("offset {offset}: chunk {}: expected bytes named {id}, found {is}", lengths.len()),
                );
            }
            lengths.push(bytes.len() as u32);
        }
        self.packs.insert(offset, lengths);
        Ok(())
    }

    /// Every chunk that extents name has to be there, and as long as its place.
    fn extents(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        for extent in Extent::parse(bytes, offset)? {
            let What::Chunks { pack, first, start } = extent.what else { continue };
            let wrong = |found: String| {
                Error::damaged(offset, format!("an extent {extent:x?} of chunks that are there"), found)
            };
            let lengths = self.packs.get(&pack).ok_or_else(|| wrong(format!("no pack before it at {pack}")))?;
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
        }
        Ok(())
    }

    fn footer(&mut self, offset: u64, body: &[u8]) -> Result<(), Error> {
        let (frames, ..) = index::parse_footer(body, offset)?;
        self.finished = true;
        if frames != self.frames {
            return Err(Error::damaged(
                offset,
                format!("a footer that counts {} frames", self.frames),
                frames.to_string(),
            ));
        }
        Ok(())
    }

    /// What can only be said of all of it.
    fn ends(&mut self, reader: &Reader) {
        let records = reader.records();
        for snapshot in &records.snapshots {
            if let Some(parent) = snapshot.parent
                && !self.snapshots.contains(&parent)
            {
                let at = snapshot.place.offset;
                self.report.add(
                    at,
                    format!("offset {at}: snapshot {}: its parent {} is not before it", snapshot.id.0, parent.0),
                );
            }
            if let Err(error) = reader.extents_of(snapshot) {
                self.report.findings.push(Finding::from(&error));
            }
            if !self.snapshots.insert(snapshot.id) {
                let at = snapshot.place.offset;
                self.report.add(at, format!("offset {at}: a second snapshot {}", snapshot.id.0));
            }
        }
        let kernels: HashSet<u64> = records.kernels.iter().map(|k| k.id).collect();
        let objects: HashSet<Id> = records.code_objects.iter().map(|c| c.id).collect();
        for dispatch in &records.dispatches {
            let at = dispatch.place.offset;
            for id in [dispatch.before, dispatch.after].into_iter().flatten().filter(|id| !self.snapshots.contains(id))
            {
                self.report
                    .add(at, format!("offset {at}: dispatch {}: snapshot {} is not in the file", dispatch.id, id.0));
            }
            if dispatch.kernel != 0 && !kernels.contains(&dispatch.kernel) {
                self.report.add(
                    at,
                    format!("offset {at}: dispatch {}: kernel {} is not in the file", dispatch.id, dispatch.kernel),
                );
            }
            if !dispatch.code_object.is_none() && !objects.contains(&dispatch.code_object) {
                self.report.add(
                    at,
                    format!(
                        "offset {at}: dispatch {}: code object {} is not in the file",
                        dispatch.id, dispatch.code_object
                    ),
                );
            }
        }
        for object in &records.code_objects {
            let (mut hasher, mut size) = (blake3::Hasher::new(), 0);
            let pieces = reader.code_object_pieces(object.place.offset, &object.extents, &mut |piece| {
                hasher.update(piece);
                size += piece.len() as u64;
            });
            let is = Id(*hasher.finalize().as_bytes());
            if let Err(error) = pieces {
                self.report.findings.push(Finding::from(&error));
            } else if is != object.id || size != object.size {
                let at = object.place.offset;
                self.report.add(
                    at,
                    format!(
                        "offset {at}: a code object: expected {} bytes named {}, found {size} named {is}",
                        object.size, object.id
                    ),
                );
            }
        }
        match reader.end() {
            crate::scan::End::Finished => {
                let indexed = reader.indexed();
                if indexed != self.entries {
                    self.report.add(
                        0,
                        format!("the index has {} frames, the file {}, or others", indexed.len(), self.entries.len()),
                    );
                }
            }
            crate::scan::End::Unfinished { whole, cut, why } => {
                let why = why.as_ref().map_or_else(String::new, |why| format!(": {why}"));
                self.report.add(
                    *whole,
                    format!("the file was not finished: {cut} bytes after {whole} are not committed{why}"),
                );
            }
        }
    }
}
