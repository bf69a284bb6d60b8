//! Reads a capture file, whole or not.
//!
//! Records are read when the file is opened; memory when it is asked for. What cannot be read is told ([`Reader::problems`])
//! and does not keep the rest from being read.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use logdur_system::lock;

use crate::error::CaptureError;
use crate::extent::{EXTENT, Extent, What};
use crate::frame::{Codec, HEAD, flag, kind};
use crate::header::{CHUNK, Header};
use crate::id::Id;
use crate::index::Entry;
use crate::map::Map;
use crate::pack::{Chunk, Pack};
use crate::records::{
    Allocation, Dispatch, FramePosition, Note, Placed, Record, Records, Session, Snapshot, SnapshotId, StorePath,
    UNTAKEN,
};
use crate::scan::{self, End, Finding, Frames};
use crate::source::Source;
use crate::store::Stores;

/// Decoded packs that are kept: at most as many times [`crate::MAX_BODY`], mostly 1 MiB each.
const PACKS: usize = 16;
/// The most bytes that a code object has.
const MAX_CODE_OBJECT: u64 = 4 << 30;

/// A capture file.
#[derive(Debug)]
pub struct Reader {
    pub(crate) frames: Frames,
    /// The file; empty if it is none.
    path: PathBuf,
    records: Records,
    problems: Vec<Finding>,
    /// Records of dispatches among them.
    lost_dispatches: u64,
    /// All dispatches, if the last did not end; empty otherwise.
    with_unended: Vec<Placed<Dispatch>>,
    end: End,
    /// The frames that are no packs, as the index has them.
    indexed: Vec<Entry>,
    /// Where the extents of each snapshot may be: some can be of one that was not finished.
    extents: HashMap<SnapshotId, Vec<u64>>,
    /// Decoded packs by the offset of their frame, the one that was used last at the end.
    packs: Mutex<Vec<(u64, Arc<Pack>)>>,
    /// The folders that have the other contents.
    stores: Stores,
    /// The maps of the snapshots that were asked for last.
    maps: Mutex<Vec<(SnapshotId, Arc<Map>)>>,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be read, is no capture, or needs a newer reader. A file whose writer did not come to its end is
    /// read as far as it goes ([`Self::end`]).
    pub fn open(path: &Path) -> Result<Reader, CaptureError> {
        let failed = |source| CaptureError::File { path: path.to_owned(), source };
        // A pipe is not waited for.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(failed)?;
        let kind = file.metadata().map_err(failed)?.file_type();
        if !kind.is_file() && !kind.is_dir() {
            return Err(failed(io::Error::new(
                io::ErrorKind::InvalidInput,
                "expected a file, found a pipe or a device",
            )));
        }
        let reader = Reader { path: path.to_owned(), ..Reader::new(file)? };
        Ok(Reader { stores: Stores::named(reader.paths(), Some(path)), ..reader })
    }

    /// Reads a capture from anywhere.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn new(source: impl Source + 'static) -> Result<Reader, CaptureError> {
        let frames = Frames::new(Box::new(source))?;
        let mut problems = Vec::new();
        let found = frames.find(&mut problems)?;
        let mut reader = Reader {
            frames,
            path: PathBuf::new(),
            records: Records::default(),
            problems,
            lost_dispatches: 0,
            with_unended: Vec::new(),
            end: found.end,
            indexed: found.entries,
            extents: HashMap::new(),
            packs: Mutex::default(),
            stores: Stores::default(),
            maps: Mutex::default(),
        };
        let mut extents = Vec::new();
        for entry in reader.indexed.clone() {
            match entry.kind {
                kind::EXTENTS => extents.push(entry.offset),
                other if !kind::is_indexed(other) => {}
                _ => match reader.take(entry.offset) {
                    Err(error @ CaptureError::Newer { .. }) => return Err(error),
                    Err(error) => {
                        let finding = Finding::from(&error);
                        // Without an index, the frames have told it.
                        if !reader.problems.contains(&finding) {
                            reader.problems.push(finding);
                        }
                        reader.lost_dispatches += u64::from(entry.kind == Dispatch::TYPE);
                    }
                    Ok(Some(snapshot)) => {
                        reader.extents.insert(snapshot, std::mem::take(&mut extents));
                    }
                    Ok(None) => {}
                },
            }
        }
        reader.with_unended = with_unended(&reader.records);
        reader.stores = Stores::named(reader.paths(), None);
        Ok(reader)
    }

    /// Looks for contents in a store before it does in those that the file names.
    pub fn look_in(&mut self, store: &Path) {
        self.stores.first(store);
    }

    fn paths(&self) -> impl DoubleEndedIterator<Item = &StorePath> {
        self.records.stores.iter().map(|path| &path.value)
    }

    pub(crate) fn stores(&self) -> &Stores {
        &self.stores
    }

    /// Takes a record in; which snapshot it is, if it is one.
    fn take(&mut self, offset: u64) -> Result<Option<SnapshotId>, CaptureError> {
        let head = self.frames.head(offset)?;
        if !scan::known(head.kind) {
            return if head.flags & flag::OPTIONAL != 0 { Ok(None) } else { Err(scan::unknown(offset, head.kind)) };
        }
        let body = self.frames.body(offset, &head)?;
        let place = FramePosition { sequence: head.sequence, offset };
        match self.records.take(place, head.kind, &body) {
            Some(Err(why)) => Err(CaptureError::damaged(offset, "a record", why.to_string())),
            Some(Ok(())) if head.kind == Snapshot::TYPE => Ok(self.records.snapshots.last().map(|s| s.id)),
            _ => Ok(None),
        }
    }

    /// The file that was opened; empty if it is read from elsewhere.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn indexed(&self) -> &[Entry] {
        &self.indexed
    }

    /// The header of the file.
    pub fn header(&self) -> &Header {
        &self.frames.header
    }

    /// How many bytes the file has.
    pub fn bytes(&self) -> u64 {
        self.frames.length
    }

    /// Whether the file was finished, and what was cut off if it was not.
    pub fn end(&self) -> &End {
        &self.end
    }

    /// Problems found when the file was opened. [`Self::check`] checks everything.
    pub fn problems(&self) -> &[Finding] {
        &self.problems
    }

    /// How many records of dispatches are damaged, as far as that is known: those that no index names are not counted.
    pub fn lost_dispatches(&self) -> u64 {
        self.lost_dispatches
    }

    /// Everything that the file says, but for the contents of memory.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// The processes.
    pub fn sessions(&self) -> &[Placed<Session>] {
        &self.records.sessions
    }

    /// The dispatches that were captured. The last may be one that did not end: it has no memory after.
    pub fn dispatches(&self) -> &[Placed<Dispatch>] {
        if self.with_unended.is_empty() { &self.records.dispatches } else { &self.with_unended }
    }

    /// True for a dispatch that did not end while it was captured.
    pub fn is_unended(&self, dispatch: &Dispatch) -> bool {
        let packet = |dispatch: &Dispatch| (dispatch.queue, dispatch.index);
        self.with_unended.last().is_some_and(|unended| packet(unended) == packet(dispatch))
    }

    /// What a reader has to be told.
    pub fn notes(&self) -> &[Placed<Note>] {
        &self.records.notes
    }

    /// The allocations that there were at a place of the file, by address: for a dispatch, at its `place`.
    pub fn allocations_at(&self, place: FramePosition) -> Vec<&Placed<Allocation>> {
        let before = |at: &FramePosition| at.sequence < place.sequence;
        let made = self.records.allocations.iter().map(|a| (a.place, a.base, Some(a)));
        let gone = self.records.freed.iter().map(|f| (f.place, f.base, None));
        let mut events: Vec<_> = made.chain(gone).filter(|event| before(&event.0)).collect();
        events.sort_by_key(|event| event.0);
        let mut live = BTreeMap::new();
        for (_, base, allocation) in events {
            match allocation {
                Some(allocation) => live.insert(base, allocation),
                None => live.remove(&base),
            };
        }
        live.into_values().collect()
    }

    /// The bytes of a code object.
    ///
    /// # Errors
    /// When it is not in the file, or its bytes are not those that its id names.
    pub fn code_object(&self, id: Id) -> Result<Vec<u8>, CaptureError> {
        let record = self.records.code_objects.iter().find(|c| c.id == id).ok_or(CaptureError::NoCodeObject(id))?;
        let mut bytes = Vec::new();
        self.code_object_pieces(record.place.offset, &record.extents, &mut |piece| bytes.extend_from_slice(piece))?;
        let is = Id::of(&bytes);
        if is != id || bytes.len() as u64 != record.size {
            let found = format!("{} bytes named {is}", bytes.len());
            return Err(CaptureError::damaged(record.place.offset, format!("{} bytes named {id}", record.size), found));
        }
        Ok(bytes)
    }

    /// Goes over the bytes of a code object.
    pub(crate) fn code_object_pieces(
        &self,
        offset: u64,
        extents: &[u8],
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<(), CaptureError> {
        let mut at = 0;
        for extent in Extent::parse(extents, offset)? {
            if extent.address != at || extent.end() > MAX_CODE_OBJECT || !matches!(extent.what, What::Chunks { .. }) {
                let expected = format!("chunks of a code object of at most {MAX_CODE_OBJECT} bytes, from {at} on");
                return Err(CaptureError::damaged(offset, expected, format!("{extent:?}")));
            }
            while at < extent.end() {
                at = self.piece(&extent, at, extent.end(), each)?;
            }
        }
        Ok(())
    }

    /// Where the memory of a snapshot is in the file.
    ///
    /// # Errors
    /// When it is not in the file, or one of its parents or where its contents are is damaged.
    pub(crate) fn map_of(&self, id: SnapshotId) -> Result<Arc<Map>, CaptureError> {
        let mut chain = Vec::new();
        let mut map = Arc::new(Map::default());
        let mut next = Some(id);
        while let Some(id) = next {
            let kept = lock(&self.maps).iter().find(|m| m.0 == id).cloned();
            if let Some((_, kept)) = kept {
                map = kept;
                break;
            }
            let record = self.snapshot_record(id).ok_or(CaptureError::NoSnapshot(id))?;
            if record.parent.is_some_and(|parent| parent >= id) {
                return Err(CaptureError::damaged(
                    record.place.offset,
                    "a parent that was written before",
                    format!("{:?}", record.parent),
                ));
            }
            chain.push(record);
            next = record.parent;
        }
        for record in chain.into_iter().rev() {
            let to = Arc::make_mut(&mut map);
            for extent in self.extents_of(record)? {
                to.put(extent);
            }
        }
        let mut maps = lock(&self.maps);
        if !maps.iter().any(|m| m.0 == id) {
            maps.truncate(1);
            maps.insert(0, (id, map.clone()));
        }
        Ok(map)
    }

    pub(crate) fn snapshot_record(&self, id: SnapshotId) -> Option<&Placed<Snapshot>> {
        let all = &self.records.snapshots;
        // They are written in the order of their numbers.
        let at = all.binary_search_by_key(&id, |s| s.id).ok();
        at.and_then(|at| all.get(at)).or_else(|| all.iter().find(|s| s.id == id))
    }

    /// The extents of a snapshot on top of its parent's.
    pub(crate) fn extents_of(&self, snapshot: &Placed<Snapshot>) -> Result<Vec<Extent>, CaptureError> {
        let mut all = Vec::new();
        let mut frames = 0;
        for &offset in self.extents.get(&snapshot.id).into_iter().flatten() {
            let body = self.frames.body_of(offset, kind::EXTENTS)?;
            if let Some(extents) = extents_for(&body, snapshot.id) {
                all.extend(Extent::parse(extents, offset)?);
                frames += 1;
            }
        }
        if frames != snapshot.frames {
            let expected = format!("snapshot {} with {} frames of extents", snapshot.id.0, snapshot.frames);
            return Err(CaptureError::damaged(snapshot.place.offset, expected, frames.to_string()));
        }
        Ok(all)
    }

    /// The pack at an offset.
    pub(crate) fn pack(&self, offset: u64) -> Result<Arc<Pack>, CaptureError> {
        let mut packs = lock(&self.packs);
        if let Some(at) = packs.iter().position(|p| p.0 == offset) {
            let kept = packs.remove(at);
            let pack = kept.1.clone();
            packs.push(kept);
            return Ok(pack);
        }
        let head = self.frames.head(offset)?;
        if !kind::is_pack(head.kind) {
            return Err(CaptureError::damaged(offset, "a pack", format!("a frame of type {}", head.kind)));
        }
        let pack = Arc::new(Pack::parse(self.frames.body(offset, &head)?, offset, head.kind)?);
        if packs.len() >= PACKS {
            packs.remove(0);
        }
        packs.push((offset, pack.clone()));
        Ok(pack)
    }

    /// The bytes of a chunk of the pack at an offset.
    pub(crate) fn chunk<'p>(&self, pack: &'p Pack, chunk: &'p Chunk, offset: u64) -> Result<&'p [u8], CaptureError> {
        pack.read(chunk, || self.stores.get(&chunk.id, chunk.length, offset))
    }

    /// Where in the file a byte of a chunk is, and the chunks behind it; `None` if the pack is compressed, or the
    /// chunk in a store.
    pub(crate) fn stored_chunk(&self, pack: u64, chunk: u64, byte: u64) -> Result<Option<u64>, CaptureError> {
        if self.frames.head(pack)?.codec != Codec::Raw {
            return Ok(None);
        }
        let start = u32::try_from(chunk).ok().map(|chunk| self.pack(pack).map(|pack| pack.start(chunk)));
        let start = start.transpose()?.flatten();
        Ok(start.map(|start| pack + HEAD as u64 + start + byte))
    }

    /// Gives the bytes of one chunk's part of an extent, from an address to another at most; where they end.
    pub(crate) fn piece(
        &self,
        extent: &Extent,
        from: u64,
        to: u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> Result<u64, CaptureError> {
        let What::Chunks { pack: offset, first, start } = extent.what else { return Ok(to) };
        let number = from / CHUNK - start / CHUNK;
        let chunk_start = if number == 0 { start } else { from / CHUNK * CHUNK };
        let stop = crate::chunk::boundary(from).min(to);
        let pack = self.pack(offset)?;
        let chunk = u32::try_from(u64::from(first) + number).ok().and_then(|number| pack.chunk(number));
        let bytes = chunk.map(|chunk| self.chunk(&pack, chunk, offset)).transpose()?;
        let part = (from - chunk_start) as usize..(stop - chunk_start) as usize;
        match bytes.and_then(|bytes| bytes.get(part)) {
            Some(bytes) => each(bytes),
            None => {
                let expected =
                    format!("a pack whose chunk {} has {} bytes", u64::from(first) + number, stop - chunk_start);
                let found = bytes.map_or(format!("{} chunks", pack.count()), |bytes| format!("{} bytes", bytes.len()));
                return Err(CaptureError::damaged(offset, expected, found));
            }
        }
        Ok(stop)
    }
}

/// All dispatches, if the last did not end. Of that one there is only what was known at its beginning.
fn with_unended(records: &Records) -> Vec<Placed<Dispatch>> {
    let Some(begun) = records.begun.last() else { return Vec::new() };
    let ended = records.dispatches.last().map(|dispatch| dispatch.place);
    let given_up = records.notes.iter().rfind(|note| note.code == UNTAKEN).map(|note| note.place);
    if ended.max(given_up) > Some(begun.place) {
        return Vec::new();
    }
    let unended = Placed { place: begun.place, value: begun.dispatch.clone() };
    records.dispatches.iter().cloned().chain([unended]).collect()
}

/// The extents of a frame, if they are of a snapshot.
pub(crate) fn extents_for(body: &[u8], id: SnapshotId) -> Option<&[u8]> {
    let (said, extents) = body.split_first_chunk::<8>()?;
    (u64::from_le_bytes(*said) == id.0 && extents.len() % EXTENT == 0).then_some(extents)
}
