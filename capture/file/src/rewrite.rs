//! Copies a capture to one with the same records, whose contents are elsewhere: in the file, or in a store.
//!
//! Frames keep their order; packs keep their chunks, so that extents only need the new offsets of their packs.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::check::{FilePart, snapshot_of};
use crate::error::CaptureError;
use crate::extent::{EXTENT, Extent, What};
use crate::frame::{MAX_BODY, kind};
use crate::id::Id;
use crate::pack::Pack;
use crate::reader::Reader;
use crate::records::{CodeObject, Record, StorePath};
use crate::scan::{End, Walk};
use crate::storage::Storage;
use crate::store::Store;
use crate::value;
use crate::writer::{Options, Writer};

/// Where the contents of a copy are.
#[derive(Clone, Debug)]
pub enum Contents {
    /// In the copy.
    Embedded,
    /// In a store, which gets those that it does not have. The copy names it so.
    Shared(Arc<Store>, StorePath),
    /// Where they are. The copy names the store so.
    Renamed(StorePath),
}

impl Reader {
    /// Copies what is committed of this file to an empty storage. Each content that is read is compared with its id. A file that was
    /// not finished stays so. Numbers and times of frames and of the file are others, records are the same but for the store's path.
    /// `progress` gets the number of read bytes, of [`Self::bytes`], at times.
    ///
    /// # Errors
    /// When the file is damaged, a chunk is in no store, or the copy cannot be written.
    pub fn rewrite<S: Storage>(
        &self,
        storage: S,
        contents: &Contents,
        options: &Options,
        progress: &mut dyn FnMut(u64),
    ) -> Result<S, CaptureError> {
        if let Some(damage) = self.problems().first() {
            return Err(CaptureError::damaged(damage.offset, "a capture without damage", damage.text.clone()));
        }
        let options = &Options { created_ns: Some(self.header().created_ns), ..*options };
        let writer = match contents {
            Contents::Embedded => Writer::new(storage, options)?,
            Contents::Shared(store, path) => Writer::sharing(storage, options, Arc::clone(store), path)?,
            Contents::Renamed(path) => Writer::naming(storage, options, path)?,
        };
        let mut copy = Copy { reader: self, contents, writer, packs: HashMap::new() };
        let mut outcome = Ok(());
        self.parts(progress, &mut |part| {
            outcome = copy.take(part);
            if outcome.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        outcome?;
        copy.writer.close(*self.end() == End::Finished)
    }

    /// The ids of all chunks that stores should have for this file, committed or not.
    ///
    /// # Errors
    /// When what is committed is damaged: then it is not known.
    pub fn shared(&self, into: &mut HashSet<Id>) -> Result<(), CaptureError> {
        let mut walk = Walk::new(&self.frames);
        let committed = self.committed();
        loop {
            let at = walk.offset;
            let Some(step) = walk.next() else { return Ok(()) };
            let pack = step.and_then(|(place, head)| match head.kind {
                kind::SHARED => Pack::parse(self.frames.body(place.offset, &head)?, place.offset, head.kind).map(Some),
                _ => Ok(None),
            });
            match pack {
                Ok(pack) => {
                    let chunks = pack.iter().flat_map(|pack| pack.chunks());
                    into.extend(chunks.filter(|chunk| chunk.is_stored()).map(|chunk| chunk.id));
                }
                // The writer may be in the middle of it: what it has put into a store since is young.
                Err(_) if at >= committed => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

/// A copy that is being written.
struct Copy<'r, S: Storage> {
    reader: &'r Reader,
    contents: &'r Contents,
    writer: Writer<S>,
    /// Where packs are in the copy, by where they were.
    packs: HashMap<u64, u64>,
}

impl<S: Storage> Copy<'_, S> {
    fn take(&mut self, part: FilePart) -> Result<(), CaptureError> {
        let (place, head, body) = match part {
            FilePart::Whole(place, head, body) => (place, head, body),
            FilePart::Lost(offset, _, why) => {
                return Err(CaptureError::damaged(offset, "a capture without damage", why.text));
            }
        };
        match head.kind {
            kind::PADDING | kind::INDEX | kind::FOOTER | StorePath::TYPE => Ok(()),
            pack if kind::is_pack(pack) => self.pack(place.offset, body, pack),
            kind::EXTENTS => {
                let (id, extents) = snapshot_of(&body, place.offset)?;
                let moved = self.moved(extents, place.offset)?;
                self.writer.copied(kind::EXTENTS, head.flags, &[&id.0.to_le_bytes(), &moved]).map(drop)
            }
            CodeObject::TYPE => {
                let object: CodeObject = value::read(&body)
                    .map_err(|why| CaptureError::damaged(place.offset, "a code object", why.to_string()))?;
                let moved = self.moved(&object.extents, place.offset)?;
                let mut body = body;
                let row = <CodeObject as value::Fields>::ROWS.iter().find(|row| row.name == "extents");
                value::replace(&mut body, row.map_or(0, |row| row.tag), &moved);
                self.writer.copied(head.kind, head.flags, &[&body]).map(drop)
            }
            other => self.writer.copied(other, head.flags, &[&body]).map(drop),
        }
    }

    fn pack(&mut self, offset: u64, body: Vec<u8>, kind: u16) -> Result<(), CaptureError> {
        let is_renamed = matches!(self.contents, Contents::Renamed(_));
        let at = if is_renamed && kind == kind::SHARED {
            self.writer.copied(kind, 0, &[&body])?
        } else {
            let pack = Pack::parse(body, offset, kind)?;
            let bytes = pack.body_bytes();
            if bytes > MAX_BODY {
                let expected = format!("a pack of at most {MAX_BODY} bytes with all of its chunks");
                return Err(CaptureError::damaged(offset, expected, bytes.to_string()));
            }
            for chunk in pack.chunks() {
                let bytes = self.reader.chunk(&pack, chunk, offset)?;
                let is = Id::of(bytes);
                if is != chunk.id {
                    return Err(CaptureError::damaged(offset, format!("a chunk named {}", chunk.id), is.to_string()));
                }
                self.writer.push(bytes, &chunk.id);
            }
            self.writer.pushed()?
        };
        self.packs.insert(offset, at);
        Ok(())
    }

    /// Extents with the packs where they are in the copy.
    fn moved(&self, extents: &[u8], offset: u64) -> Result<Vec<u8>, CaptureError> {
        let mut moved = Vec::with_capacity(extents.len().next_multiple_of(EXTENT));
        for mut extent in Extent::parse(extents, offset)? {
            if let What::Chunks { pack, .. } = &mut extent.what {
                let at = self.packs.get(pack);
                let missing = || CaptureError::damaged(offset, format!("a pack before it at {pack}"), "none");
                *pack = *at.ok_or_else(missing)?;
            }
            extent.put(&mut moved);
        }
        Ok(moved)
    }
}
