//! Writes a capture file, frame after frame, only ever at its end.
//!
//! The writer never panics, and its memory is bounded ([`Options::memory`]). When a method returns, the operating system has its data,
//! which outlives the process. If a write fails, the writer cuts the file back to its last whole frame, adds a note with the reason, and
//! writes nothing more: that call returns [`CaptureError::Write`], every later one [`CaptureError::Stopped`].
//!
//! # Threads
//! One thread at a time, which may change.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::chunk::Key;
use crate::compress::Compress;
use crate::digest::Chain;
use crate::error::CaptureError;
use crate::extent::{Extent, What};
use crate::fingerprint::Fingerprints;
use crate::frame::{Codec, HEAD, Head, MAX_BODY, Seal, flag, kind};
use crate::header::{HEADER_BYTES, Header, SHARES};
use crate::id::{Id, random};
use crate::index::{self, Entry};
use crate::known::{Known, Spot};
use crate::pack::{self, Filled, Stored};
use crate::records::{
    Agent, Allocation, Begun, Checkpoint, CodeObject, Dispatch, Freed, Global, Kernel, Loaded, Note, Queue, Record,
    Region, RegionEnd, Session, Severity, SnapshotId, Step, StorePath,
};
use crate::state::State;
use crate::storage::{FileStorage, Storage};
use crate::store::Store;
use crate::tasks::{Task, Tasks, Threads};

/// When a write is waited for until the disk has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Never: written data outlives the process, but not a crash of the machine.
    #[default]
    Never,
    /// At every commit.
    Commit,
}

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How contents are stored.
    pub compress: Compress,
    /// When to wait for the disk.
    pub durability: Durability,
    /// Bytes for what is remembered of earlier contents, at most. A third is the table of contents that are in the file
    /// (32 bytes for each chunk of 64 KiB), the rest the keys of the newest snapshot's chunks (16 bytes each): with the
    /// default, 96 MiB, 64 GiB of different contents and 256 GiB of memory. What does not fit is written again.
    /// Beside it, the writer has buffers of 4 MiB, and of 6 MiB for each thread.
    pub memory: usize,
    /// Threads that hash and compress; `None`: the one that writes does.
    pub threads: Option<Threads>,
    /// The file's number; `None` takes a random one.
    pub uuid: Option<[u8; 16]>,
    /// When the file was made, in ns since 1970; `None` takes the clock's time. Notes of the writer itself have it too.
    pub created_ns: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            compress: Compress::Auto,
            durability: Durability::Never,
            memory: 96 << 20,
            threads: None,
            uuid: None,
            created_ns: None,
        }
    }
}

/// A capture file that is being written.
#[derive(Debug)]
pub struct Writer<S: Storage = FileStorage> {
    storage: S,
    options: Options,
    tag: u32,
    /// Bytes of the file: whole frames.
    end: u64,
    /// Frames so far.
    sequence: u64,
    stopped: bool,
    pub(crate) tasks: Tasks,
    /// Where the larger chunks go, if not into the file.
    store: Option<Arc<Store>>,
    pack: pack::Builder,
    /// Those before it that are not written yet.
    packs: VecDeque<Arc<Task<Filled, io::Result<Stored>>>>,
    /// The offsets of written packs; the first one has the number 1.
    offsets: Vec<u64>,
    known: Known,
    /// What memory is compared by with the newest snapshot.
    pub(crate) prints: Arc<Fingerprints>,
    index: index::Builder,
    /// Room for a head, then the body of a frame.
    frame: Vec<u8>,
    /// Buffers that memory is read into.
    pub(crate) staging: Vec<Vec<u8>>,
    code_objects: HashSet<Id>,
    pub(crate) state: State,
    pub(crate) state_of: Option<SnapshotId>,
    pub(crate) snapshots: u64,
    /// The digests of the records.
    pub(crate) chain: Chain,
    told_of_memory: bool,
}

/// Makes the methods that write a record.
macro_rules! records {
    ($( $(#[doc = $doc:literal])+ $name:ident: $record:ident; )*) => {
        impl<S: Storage> Writer<S> {
            $(
                $(#[doc = $doc])+
                ///
                /// # Errors
                /// When the capture has stopped, or stops; when the record is larger than [`MAX_BODY`](crate::MAX_BODY).
                pub fn $name(&mut self, $name: &$record) -> Result<(), CaptureError> {
                    self.record($name)
                }
            )*
        }
    };
}

records! {
    /// Writes what the process is.
    session: Session;
    /// Writes what an agent is.
    agent: Agent;
    /// Writes that a code object was loaded.
    loaded: Loaded;
    /// Writes what a kernel is.
    kernel: Kernel;
    /// Writes that there is an allocation from now on.
    allocation: Allocation;
    /// Writes where a variable of a code object is.
    global: Global;
    /// Writes what a queue is.
    queue: Queue;
    /// Writes that a dispatch is about to run, and commits it with the memory before.
    begun: Begun;
    /// Writes a dispatch, and commits it: from here on it is in the file, whatever becomes of the process.
    dispatch: Dispatch;
    /// Writes that a region begins.
    region: Region;
    /// Writes a step of a region, and commits it with its delta. A digest that it has is kept; else it gets that of what this writer wrote.
    step: Step;
    /// Writes that a snapshot is the memory after a step, and commits it.
    checkpoint: Checkpoint;
    /// Writes that a region has ended, and commits it with the memory after. The digest is as that of steps.
    region_end: RegionEnd;
    /// Writes what a reader has to be told.
    note: Note;
}

/// The flags of a record's frame. Readers of version 1.0 know the types up to that of notes. They skip a later one if it is optional,
/// and refuse the file otherwise.
fn flags_of(kind: u16) -> u16 {
    if kind > Note::TYPE { flag::COMMIT | flag::OPTIONAL } else { flag::COMMIT }
}

impl Writer<FileStorage> {
    /// Creates a file; an existing one is replaced.
    ///
    /// # Errors
    /// When it cannot be made or not be written to.
    pub fn create(path: &Path, options: &Options) -> Result<Writer<FileStorage>, CaptureError> {
        let storage =
            FileStorage::create(path).map_err(|source| CaptureError::File { path: path.to_owned(), source })?;
        Writer::new(storage, options)
    }
}

impl<S: Storage> Writer<S> {
    /// Begins a file in a storage that is empty.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn new(storage: S, options: &Options) -> Result<Writer<S>, CaptureError> {
        Writer::begin(storage, options, 0)
    }

    /// Begins a file whose chunks of 4096 bytes and more go into a store. The file says where that is.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub fn sharing(
        storage: S,
        options: &Options,
        store: Arc<Store>,
        path: &StorePath,
    ) -> Result<Writer<S>, CaptureError> {
        let mut writer = Writer::naming(storage, options, path)?;
        writer.store = Some(store);
        Ok(writer)
    }

    /// Begins a file that names a store, and adds nothing to it.
    pub(crate) fn naming(storage: S, options: &Options, path: &StorePath) -> Result<Writer<S>, CaptureError> {
        let mut writer = Writer::begin(storage, options, SHARES)?;
        writer.record(path)?;
        Ok(writer)
    }

    fn begin(mut storage: S, options: &Options, required: u64) -> Result<Writer<S>, CaptureError> {
        let created_ns = options.created_ns.unwrap_or_else(now_ns);
        let options = &Options { uuid: options.uuid.or_else(|| Some(random())), ..*options };
        let header = Header { required, ..Header::new(options.uuid.unwrap_or_default(), created_ns) };
        let bytes = header.to_bytes();
        let length = bytes.len() as u64;
        storage.append(&bytes).map_err(|source| CaptureError::Write { end: 0, bytes: length, source })?;
        Ok(Writer::resume(storage, options, HEADER_BYTES as u64, 0, Vec::new()))
    }

    /// Continues a file with its contents so far: the number of frames, and which ones. The file's number is that of the options.
    pub(crate) fn resume(storage: S, options: &Options, end: u64, sequence: u64, entries: Vec<Entry>) -> Writer<S> {
        Writer {
            storage,
            options: *options,
            tag: Header::new(options.uuid.unwrap_or_default(), 0).tag(),
            end,
            sequence,
            stopped: false,
            store: None,
            tasks: Tasks::new(options.threads),
            pack: pack::Builder::new(),
            packs: VecDeque::new(),
            offsets: Vec::new(),
            known: Known::new(options.memory / 3),
            prints: Arc::new(Fingerprints::new()),
            index: index::Builder::new(entries),
            frame: Vec::new(),
            staging: Vec::new(),
            code_objects: HashSet::new(),
            state: State::default(),
            state_of: None,
            snapshots: 0,
            chain: Chain::default(),
            told_of_memory: false,
        }
    }

    /// Writes a code object's bytes, unless they are in the file; their id. `about` needs neither id, size nor extents.
    ///
    /// # Errors
    /// When the capture has stopped, or stops.
    pub fn code_object(&mut self, about: &CodeObject, bytes: &[u8]) -> Result<Id, CaptureError> {
        let id = Id::of(bytes);
        if self.code_objects.contains(&id) {
            return self.running().map(|()| id);
        }
        let mut extents: Vec<Extent> = Vec::new();
        let mut address = 0;
        for chunk in bytes.chunks(crate::CHUNK as usize) {
            let what = self.content(chunk, address)?;
            let next = Extent { address, length: chunk.len() as u64, what };
            if !extents.last_mut().is_some_and(|last| last.join(&next)) {
                extents.push(next);
            }
            address += chunk.len() as u64;
        }
        let mut record = CodeObject { id, size: address, extents: Vec::new(), ..about.clone() };
        self.flush()?;
        self.locate(&mut extents);
        extents.iter().for_each(|extent| extent.put(&mut record.extents));
        self.record(&record)?;
        self.code_objects.insert(id);
        Ok(id)
    }

    /// Writes that the allocation of that base is no more.
    ///
    /// # Errors
    /// When the capture has stopped, or stops.
    pub fn freed(&mut self, base: u64) -> Result<(), CaptureError> {
        self.record(&Freed { base })
    }

    /// Ends the file with an index, which makes opening fast. Returns the storage.
    ///
    /// # Errors
    /// When the capture has stopped, or stops.
    pub fn finish(self) -> Result<S, CaptureError> {
        self.close(true)
    }

    /// Bytes that were written so far: of the file, and of chunks that the store did not have. Contents that wait for others are not
    /// counted: at most 1 MiB, and 2 MiB for each thread.
    pub fn bytes(&self) -> u64 {
        self.end + self.store.as_ref().map_or(0, |store| store.written_bytes())
    }

    /// True when a write has failed.
    pub fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Bytes of memory for remembered contents; grows up to [`Options::memory`].
    pub fn remembered_bytes(&self) -> usize {
        self.known.bytes() + self.state.keys() * size_of::<Key>()
    }

    /// How many keys of chunks may be remembered.
    pub(crate) fn most_keys(&self) -> usize {
        (self.options.memory - self.options.memory / 3) / size_of::<Key>()
    }

    /// An error when nothing more is written.
    pub(crate) fn running(&self) -> Result<(), CaptureError> {
        if self.stopped { Err(CaptureError::Stopped) } else { Ok(()) }
    }

    /// Says once that the process has more memory than can be remembered.
    pub(crate) fn tell_of_memory(&mut self) -> Result<(), CaptureError> {
        if std::mem::replace(&mut self.told_of_memory, true) {
            return Ok(());
        }
        let most = (self.most_keys() as u64 * crate::CHUNK) >> 30;
        let text =
            format!("more than {most} GiB of memory: what does not fit is written in every snapshot, changed or not");
        self.note(&Note {
            severity: Severity::Info,
            code: "much-memory".to_owned(),
            text,
            dispatch: None,
            time_ns: self.now(),
        })
    }

    fn now(&self) -> u64 {
        self.options.created_ns.unwrap_or_else(now_ns)
    }

    /// Where the content of a chunk is: it is written if it is not in the file, and no fill.
    pub(crate) fn content(&mut self, bytes: &[u8], address: u64) -> Result<What, CaptureError> {
        let id = Id::of(bytes);
        let spot = self.place(bytes, &id, Key::of_id(&id))?;
        Ok(What::Chunks { pack: spot.pack, first: spot.chunk, start: address })
    }

    /// The place of a content, which is written if it is new. [`Writer::locate`] has the offset of its pack once that is written.
    pub(crate) fn place(&mut self, bytes: &[u8], id: &Id, key: Key) -> Result<Spot, CaptureError> {
        self.running()?;
        if let Some(spot) = self.known.find(&key) {
            return Ok(spot);
        }
        if self.pack.is_full_for(bytes.len()) {
            self.end_pack(2 * self.tasks.threads())?;
        }
        let pack = (self.offsets.len() + self.packs.len() + 1) as u64;
        let spot = Spot { pack, chunk: self.pack.push(bytes, id) };
        self.known.put(key, spot);
        Ok(spot)
    }

    /// Ends the current pack, and writes others until at most this number waits.
    fn end_pack(&mut self, waiting: usize) -> Result<(), CaptureError> {
        if !self.pack.is_empty() {
            let filled = self.pack.end(self.options.compress, self.store.clone());
            let task =
                if waiting > 0 { self.tasks.share(Filled::store, filled) } else { Tasks::keep(Filled::store, filled) };
            self.packs.push_back(task);
        }
        while self.packs.len() > waiting {
            let Some(pack) = self.packs.pop_front() else { break };
            let Some(stored) = self.tasks.take(&pack) else { return Err(self.panicked()) };
            let failed = |source| CaptureError::Write { end: self.end, bytes: pack::TARGET as u64, source };
            let mut stored = stored.map_err(failed).map_err(|error| self.stop(error))?;
            let Stored { kind, codec, raw, seal, .. } = stored;
            let frame = Head { kind, flags: 0, sequence: self.sequence, stored: 0, raw, codec, crc: 0 };
            let offset = self.end;
            let written = append(&mut self.storage, frame, self.tag, (&mut stored.frame, seal));
            self.pack.reuse(stored);
            self.wrote(kind, written)?;
            self.offsets.push(offset);
        }
        Ok(())
    }

    /// Writes the pack that is being filled, and those before it.
    fn flush(&mut self) -> Result<(), CaptureError> {
        self.end_pack(0)
    }

    /// Replaces numbers of packs, which are written, by their offsets.
    fn locate(&self, extents: &mut [Extent]) {
        for extent in extents {
            if let What::Chunks { pack, .. } = &mut extent.what {
                // Of a pack that is not written there is no extent in the file: writing has stopped.
                *pack = self.offsets.get((*pack as usize).wrapping_sub(1)).copied().unwrap_or_default();
            }
        }
    }

    /// A thread of ours has panicked: nothing more is written.
    pub(crate) fn panicked(&mut self) -> CaptureError {
        let source = io::Error::other("hashing or compressing has panicked");
        self.stop(CaptureError::Write { end: self.end, bytes: 0, source })
    }

    /// Adds a chunk of a copy to the next pack.
    pub(crate) fn push(&mut self, bytes: &[u8], id: &Id) {
        self.pack.push(bytes, id);
    }

    /// Writes the pack of these chunks; where it is.
    pub(crate) fn pushed(&mut self) -> Result<u64, CaptureError> {
        self.running()?;
        self.flush()?;
        Ok(self.offsets.last().copied().unwrap_or_default())
    }

    /// Writes a frame of a copy, from parts of its body; where it is.
    pub(crate) fn copied(&mut self, kind: u16, flags: u16, parts: &[&[u8]]) -> Result<u64, CaptureError> {
        let at = self.end;
        self.framed("frame", kind, flags, &mut |body| parts.iter().for_each(|part| body.extend_from_slice(part)))?;
        Ok(at)
    }

    /// Ends a copy, with an index or without one. Returns the storage.
    pub(crate) fn close(mut self, is_finished: bool) -> Result<S, CaptureError> {
        if is_finished {
            self.footer()?
        } else {
            self.flush()?
        }
        Ok(self.storage)
    }

    /// Writes a record; it commits what is before it.
    fn record<R: Record>(&mut self, record: &R) -> Result<(), CaptureError> {
        if self.chain.wants(R::TYPE) {
            let mut bytes = Vec::new();
            record.write(&mut bytes);
            let last = self.chain.put(R::TYPE, &mut bytes);
            self.framed(R::NAME, R::TYPE, flags_of(R::TYPE), &mut |body| body.extend_from_slice(&bytes))?;
            self.chain.wrote(last);
            return Ok(());
        }
        self.framed(R::NAME, R::TYPE, flags_of(R::TYPE), &mut |body| record.write(body))
    }

    /// Writes the record of a snapshot. The next frame commits it.
    pub(crate) fn snapshot_record(&mut self, record: &crate::records::Snapshot) -> Result<(), CaptureError> {
        self.framed("Snapshot", crate::records::Snapshot::TYPE, 0, &mut |body| {
            crate::value::Fields::write(record, body)
        })
    }

    /// Writes extents of a snapshot, whose packs have numbers.
    pub(crate) fn extents(&mut self, id: SnapshotId, extents: &mut [Extent]) -> Result<(), CaptureError> {
        self.flush()?;
        self.locate(extents);
        self.framed("frame of extents", kind::EXTENTS, 0, &mut |body| {
            body.extend_from_slice(&id.0.to_le_bytes());
            extents.iter().for_each(|extent| extent.put(body));
        })
    }

    fn footer(&mut self) -> Result<(), CaptureError> {
        self.flush()?;
        let (due, frames, end) = (self.index.due(), self.sequence + 1, self.end);
        let mut put = |body: &mut Vec<u8>| due.put_footer(frames, end, body);
        self.framed("footer", kind::FOOTER, flag::OPTIONAL | flag::COMMIT, &mut put)
    }

    /// Writes a frame that is no pack, behind the pack that is being filled.
    fn framed(
        &mut self,
        what: &'static str,
        kind: u16,
        flags: u16,
        fill: &mut dyn FnMut(&mut Vec<u8>),
    ) -> Result<(), CaptureError> {
        self.running()?;
        self.flush()?;
        self.frame.clear();
        self.frame.resize(HEAD, 0);
        fill(&mut self.frame);
        let bytes = (self.frame.len() - HEAD) as u64;
        if bytes > MAX_BODY {
            return Err(CaptureError::TooLarge { what, bytes, most: MAX_BODY });
        }
        let head = Head { kind, flags, sequence: self.sequence, stored: 0, raw: bytes, codec: Codec::Raw, crc: 0 };
        let seal = Seal::put(&mut self.frame);
        let written = append(&mut self.storage, head, self.tag, (&mut self.frame, seal));
        self.wrote(kind, written)?;
        if flags & flag::COMMIT != 0 && self.options.durability == Durability::Commit {
            let synced = self.storage.sync();
            synced.map_err(|source| self.stop(CaptureError::Write { end: self.end, bytes: 0, source }))?;
        }
        if self.index.is_full() && ![kind::INDEX, kind::FOOTER].contains(&kind) {
            let (due, at) = (self.index.due(), self.end);
            self.framed("index", kind::INDEX, flag::OPTIONAL, &mut |body| due.put(body))?;
            self.index.follow(at);
        }
        Ok(())
    }

    /// Counts a frame that was written, or stops.
    fn wrote(&mut self, kind: u16, (bytes, written): (u64, io::Result<()>)) -> Result<(), CaptureError> {
        match written {
            Ok(()) => {
                if kind::is_indexed(kind) {
                    self.index.push(self.end, kind);
                }
                self.end += bytes;
                self.sequence += 1;
                Ok(())
            }
            Err(source) => Err(self.stop(CaptureError::Write { end: self.end, bytes, source })),
        }
    }

    /// Cuts the file back to its last whole frame, and says in it why it ends there, if there is room for that.
    fn stop(&mut self, error: CaptureError) -> CaptureError {
        if std::mem::replace(&mut self.stopped, true) {
            return error;
        }
        if self.storage.truncate(self.end).is_err() {
            return error;
        }
        let why = std::error::Error::source(&error).map_or_else(String::new, |source| format!(": {source}"));
        let note = Note {
            severity: Severity::Stop,
            code: "write-failed".to_owned(),
            text: format!("{error}{why}"),
            dispatch: None,
            time_ns: self.now(),
        };
        let mut put_note = |body: &mut Vec<u8>| crate::value::Fields::write(&note, body);
        if self.last_words(Note::TYPE, flag::COMMIT, &mut put_note) {
            let (due, frames, end) = (self.index.due(), self.sequence + 1, self.end);
            let mut put_footer = |body: &mut Vec<u8>| due.put_footer(frames, end, body);
            self.last_words(kind::FOOTER, flag::OPTIONAL | flag::COMMIT, &mut put_footer);
        }
        error
    }
}

impl<S: Storage> Writer<S> {
    /// Writes a frame after a failure: whole, or not at all.
    fn last_words(&mut self, kind: u16, flags: u16, fill: &mut dyn FnMut(&mut Vec<u8>)) -> bool {
        self.frame.clear();
        self.frame.resize(HEAD, 0);
        fill(&mut self.frame);
        let raw = (self.frame.len() - HEAD) as u64;
        let head = Head { kind, flags, sequence: self.sequence, stored: 0, raw, codec: Codec::Raw, crc: 0 };
        let seal = Seal::put(&mut self.frame);
        match append(&mut self.storage, head, self.tag, (&mut self.frame, seal)) {
            (bytes, Ok(())) => {
                self.index.push(self.end, kind);
                self.end += bytes;
                self.sequence += 1;
                true
            }
            (_, Err(_)) => {
                // If that fails too, a reader cuts off what is no frame.
                let _ = self.storage.truncate(self.end);
                false
            }
        }
    }
}

/// Puts the head before a body, and appends the frame; how many bytes that are.
fn append(
    storage: &mut impl Storage,
    head: Head,
    tag: u32,
    (frame, Seal { stored, crc }): (&mut [u8], Seal),
) -> (u64, io::Result<()>) {
    if let Some(to) = frame.first_chunk_mut() {
        *to = Head { stored, crc, ..head }.to_bytes(tag);
    }
    (frame.len() as u64, storage.append(frame))
}

fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_the_first_version_skip_records_that_they_do_not_know() {
        assert_eq!(flags_of(Session::TYPE), flag::COMMIT);
        assert_eq!(flags_of(Note::TYPE), flag::COMMIT);
        assert_eq!(flags_of(Note::TYPE + 1), flag::COMMIT | flag::OPTIONAL);
    }
}
