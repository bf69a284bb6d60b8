//! Copies the intact frames of a damaged file to another file.

use std::ops::ControlFlow;
use std::path::Path;

use crate::check::Part;
use crate::error::CaptureError;
use crate::frame::{Codec, HEAD, Head, MAX_BODY, flag, kind, padding};
use crate::index::Entry;
use crate::reader::Reader;
use crate::records::{Note, Place, Severity};
use crate::scan::Finding;
use crate::storage::{FileStorage, Storage};
use crate::writer::{Options, Writer};

impl Reader {
    /// Copies the intact frames of this file to another one: without damaged frames and bytes after the last commit, with a note on the
    /// losses, and with an index. Returns the losses.
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
        let mut storage =
            FileStorage::create(to).map_err(|source| CaptureError::File { path: to.to_owned(), source })?;
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
        self.parts(progress, &mut |part| {
            match part {
                // They are written anew.
                Part::Whole(_, head, _) if head.kind == kind::INDEX || head.kind == kind::FOOTER => {
                    repair.held += head.frame_bytes();
                }
                Part::Whole(place, head, _) => repair.keep(place, &head),
                Part::Lost(from, to, why) => {
                    repair.held += to - from;
                    lost.push(why);
                }
            }
            if repair.error.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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
    error: Option<CaptureError>,
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
                codec: Codec::Raw,
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
            Err(source) => self.error = Some(CaptureError::Write { end: self.end, bytes: bytes.len() as u64, source }),
        }
    }
}
