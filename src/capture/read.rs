//! Reads memory of hosts and GPUs, piece by piece.
//!
//! The copy engines of a GPU read its memory into buffers, which are lent to the writer of the file: nothing is copied twice. Each
//! engine copies in order: if a copy of the application waits for the held dispatch, a later copy of ours on that engine does not
//! begin. The reader first asks an engine that is not known to wait. If that copy is late, it asks the next engine, and then an SDMA
//! engine that the runtime reports as free. Then it reads through the GPU's aperture, if the host has the memory mapped. Engines that
//! are known to wait come last. The reader does not ask a late engine again until its copies are complete.
//!
//! # Threads
//! The capture thread.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use hsa::{AgentKind, Api, OwnSignal, Pool};
use logdur_capture::STEP;

use super::copies::{Copies, Engine, Path, copied_by_a_kernel};
use super::memory::{Allocation, Kind};
use crate::own_memory::{self, DeviceMappings};

/// The most bytes of a piece. All but the last of an allocation have a mebibyte at least, of which the runtime's kernels copy them: see
/// [`copied_by_a_kernel`]. A few pieces are in the caches together, where what a copy engine of an emulated GPU has written is read.
const PIECE: u64 = 3 * STEP;
/// Pieces that are copied ahead of the one that is processed: while one is finished and noticed, the engine copies the next.
const AHEAD: usize = 2;
/// Buffers of an engine, at most: those of the pieces that the writer's threads have (`hash_threads`), and those that are copied ahead.
const MOST: usize = 8;
/// Sleep between two checks of a copy.
const LOOK: Duration = Duration::from_micros(20);
/// After this time the reader asks another engine as well. Even a slow bus copies a piece in a hundredth of it.
const LATE: Duration = Duration::from_millis(100);

/// Why memory could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    /// The runtime refuses the copy.
    #[error(transparent)]
    Runtime(#[from] hsa::HsaError),
    /// Another number of bytes was read than was asked for.
    #[error(transparent)]
    Size(io::Error),
    /// The copy is not complete.
    #[error("no copy engine of its GPU had copied it in time: {0}")]
    Expired(String),
    /// The application has unmapped its own memory, locked or managed.
    #[error("it is not mapped: {0}")]
    Unmapped(io::Error),
    /// The memory belongs to another process.
    #[error("it is memory of another process, and no GPU is known that can read it")]
    Foreign,
    /// The machine has no processor.
    #[error("the runtime has no agent for the host")]
    NoHost,
}

impl Unread {
    /// True if the error means that the application has freed the memory. Managed memory is freed by unmapping it. Locked memory is not: a
    /// GPU may still read it after the host has unmapped it.
    pub(super) fn is_freed(&self, memory: &Allocation) -> bool {
        matches!(self, Unread::Unmapped(_)) && memory.kind == Kind::Managed
    }
}

/// A buffer that a GPU can write, and a signal that is above 0 while it does.
struct Buffer {
    memory: NonNull<u8>,
    copied: OwnSignal,
    /// The address and size of the memory that it has a copy of, or will have once the copy is complete.
    of: Option<(u64, usize)>,
    /// How many parts of it are lent.
    lent: Arc<AtomicUsize>,
}

/// A part of a buffer, which keeps its bytes until this is dropped.
#[derive(Debug)]
struct Part {
    from: NonNull<u8>,
    bytes: usize,
    lent: Arc<AtomicUsize>,
}

// SAFETY: the bytes belong to no thread, and nobody writes them.
unsafe impl Send for Part {}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `Buffer::lend` found so many bytes whose copy is complete. No copy is started into a buffer while a part of it is
        // lent, and its memory is not freed.
        unsafe { std::slice::from_raw_parts(self.from.as_ptr(), self.bytes) }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // What was read of it is read before a copy is started into it.
        self.lent.fetch_sub(1, Ordering::Release);
    }
}

/// Where memory is read to.
pub(super) enum To<'t> {
    /// It is copied there.
    Bytes(&'t mut [u8]),
    /// A step of a snapshot, to which it is lent where it is in a buffer.
    Step(&'t mut logdur_capture::Buffer),
}

impl<'t> From<&'t mut [u8]> for To<'t> {
    fn from(bytes: &'t mut [u8]) -> To<'t> {
        To::Bytes(bytes)
    }
}

impl<'t> From<&'t mut Vec<u8>> for To<'t> {
    fn from(bytes: &'t mut Vec<u8>) -> To<'t> {
        To::Bytes(bytes)
    }
}

impl<'t> From<&'t mut logdur_capture::Buffer> for To<'t> {
    fn from(step: &'t mut logdur_capture::Buffer) -> To<'t> {
        To::Step(step)
    }
}

impl To<'_> {
    /// How many bytes are read.
    fn length(&self) -> usize {
        match self {
            To::Bytes(bytes) => bytes.len(),
            To::Step(step) => step.length(),
        }
    }

    /// Room for them.
    fn room(&mut self) -> &mut [u8] {
        match self {
            To::Bytes(bytes) => bytes,
            To::Step(step) => step.room(),
        }
    }

    /// Takes them from a buffer.
    fn take(&mut self, part: Part) -> io::Result<()> {
        match self {
            To::Bytes(bytes) => {
                bytes.copy_from_slice(part.as_ref());
                Ok(())
            }
            To::Step(step) => step.lend(Box::new(part)),
        }
    }
}

/// An engine with its buffers.
struct Lane {
    engine: Engine,
    buffers: Vec<Buffer>,
    /// One of its copies took longer than [`LATE`], and not all of its copies have completed since.
    late: bool,
}

/// A buffer, by the number of its lane and its own number there.
type Spot = (usize, usize);

/// The reader. It reads ahead: while one piece is processed, the next ones are copied.
pub(super) struct Reader {
    api: &'static Api,
    host: u64,
    gpus: Vec<u64>,
    lanes: Vec<Lane>,
    /// `None` when the process has no descriptor for it.
    aperture: Option<DeviceMappings>,
}

// SAFETY: the buffers are the reader's own.
unsafe impl Send for Reader {}

impl Buffer {
    /// True if no copy into it is in progress.
    fn is_copied(&self) -> bool {
        self.copied.memory().value.load(Ordering::Acquire) <= 0
    }

    /// True if it can have another copy.
    fn is_free(&self) -> bool {
        self.is_copied() && self.lent.load(Ordering::Acquire) == 0
    }

    /// True if it has, or will have, a part of some memory.
    fn has_of(&self, start: u64, end: u64) -> bool {
        self.of.is_some_and(|(first, length)| first < end && start < first + length as u64)
    }

    /// Where it has so many bytes from an address on, counted from its own first.
    fn offset_of(&self, address: u64, bytes: usize) -> Option<usize> {
        let (start, length) = self.of?;
        let offset = usize::try_from(address.checked_sub(start)?).ok()?;
        (offset.checked_add(bytes)? <= length).then_some(offset)
    }

    /// Lends so many bytes from an address on, if their copy is complete.
    fn lend(&self, address: u64, bytes: usize) -> Option<Part> {
        let offset = self.offset_of(address, bytes).filter(|_| self.is_copied())?;
        self.lent.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the buffer has so many bytes behind the offset.
        let from = unsafe { self.memory.add(offset) };
        Some(Part { from, bytes, lent: Arc::clone(&self.lent) })
    }
}

/// Where a piece ends that begins at an address: where a step of a snapshot does, so that each step is in one piece.
fn end_of_piece(address: u64, end: u64) -> u64 {
    (address.saturating_add(PIECE) & !(STEP - 1)).min(end)
}

impl Reader {
    /// For copies from every GPU.
    ///
    /// # Errors
    /// When the runtime has no agent for the host.
    pub(super) fn new(api: &'static Api) -> Result<Reader, Unread> {
        let agents = api.agents()?;
        let host = agents.iter().find(|a| a.kind == AgentKind::Cpu).ok_or(Unread::NoHost)?.handle;
        let gpus: Vec<u64> = agents.iter().filter(|a| a.kind == AgentKind::Gpu).map(|a| a.handle).collect();
        Ok(Reader { api, host, gpus, lanes: Vec::new(), aperture: DeviceMappings::new().ok() })
    }

    /// Discards what was read ahead: memory has changed since.
    pub(super) fn discard(&mut self) {
        self.lanes.iter_mut().flat_map(|lane| &mut lane.buffers).for_each(|buffer| buffer.of = None);
    }

    /// Reads the memory at an address, a step of a snapshot at most. Memory is read in ascending order; reading its first address
    /// again discards earlier copies.
    ///
    /// # Errors
    /// When the memory cannot be read.
    ///
    /// # Safety
    /// All bytes must be allocated, and stay so until [`Reader::has_no_late_copies`].
    pub(super) unsafe fn read(
        &mut self,
        memory: &Allocation,
        address: u64,
        mut to: To<'_>,
        copies: &Copies,
        deadline: Instant,
    ) -> Result<(), Unread> {
        let skipped = address - memory.base;
        // The application may have unmapped this memory without a call. `process_vm_readv` refuses a driver's mappings: memory of
        // pools is read in other ways.
        if let Some(host) = memory.own() {
            return own_memory::read(host + skipped, to.room()).map_err(Unread::Unmapped);
        }
        if let Some(host) = memory.host() {
            let from = ptr::with_exposed_provenance((host + skipped) as usize);
            let room = to.room();
            // SAFETY: the caller's promise. The application may write there: what is read then is neither old nor new.
            unsafe { ptr::copy_nonoverlapping(from, room.as_mut_ptr(), room.len()) };
            return Ok(());
        }
        let (Kind::Pool(Pool { agent, .. }) | Kind::Variable { agent, .. } | Kind::Foreign { agent: Some(agent) }) =
            memory.kind
        else {
            return Err(Unread::Foreign);
        };
        if skipped == 0 {
            // A copy made before a kernel ran is stale.
            self.discard();
        }
        // SAFETY: the caller's promise.
        let Some(spot) = (unsafe { self.copied(agent, memory.end(), address, &mut to, copies, deadline) })? else {
            return Ok(());
        };
        let part = self.buffer(spot).and_then(|buffer| buffer.lend(address, to.length()));
        let Some(part) = part else { return Err(Unread::Expired(String::new())) };
        // SAFETY: the caller's promise.
        unsafe { self.read_ahead(spot, address + part.bytes as u64, memory.end()) };
        to.take(part).map_err(Unread::Size)
    }

    /// Starts the copies of the next pieces behind a buffer's, on the same engine, where memory is read from an address on next.
    ///
    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn read_ahead(&mut self, (lane, buffer): Spot, next: u64, end: u64) {
        let Some((start, length)) = self.buffer((lane, buffer)).and_then(|buffer| buffer.of) else { return };
        let mut at = start + length as u64;
        for _ in 0..AHEAD {
            if at >= end {
                return;
            }
            let stop = end_of_piece(at, end);
            let of = self.lanes.get(lane).map(|lane| lane.buffers.as_slice()).unwrap_or_default();
            if !of.iter().any(|buffer| buffer.of == Some((at, (stop - at) as usize))) {
                let unused = of.iter().position(|buffer| buffer.is_free() && !buffer.has_of(next, end));
                let unused = unused.map(|number| (lane, number)).or_else(|| self.add_buffer(lane).ok().flatten());
                // SAFETY: the caller's promise. If it is refused here, it is when it is asked for, too.
                let started = unused.is_some_and(|spot| unsafe { self.start(spot, at, end) }.is_ok());
                if !started {
                    return;
                }
            }
            at = stop;
        }
    }

    /// A buffer with a copy of a GPU's memory at an address, as long as `to`; `None` if `to` was filled directly.
    ///
    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn copied(
        &mut self,
        gpu: u64,
        end: u64,
        address: u64,
        to: &mut To<'_>,
        copies: &Copies,
        deadline: Instant,
    ) -> Result<Option<Spot>, Unread> {
        for lane in &mut self.lanes {
            lane.late &= !lane.buffers.iter().all(Buffer::is_copied);
        }
        let mut asked: Vec<Spot> = Vec::new();
        for (n, lane) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.engine.gpu == gpu) {
            let having =
                lane.buffers.iter().enumerate().filter(|(_, buffer)| buffer.offset_of(address, to.length()).is_some());
            asked.extend(having.map(|(buffer, _)| (n, buffer)));
        }
        let prompt: Vec<Spot> = asked.iter().copied().filter(|spot| !self.is_late(spot.0)).collect();
        if let Some(spot) = self.soon(&prompt) {
            return Ok(Some(spot));
        }
        let waiting = copies.blocked(gpu);
        let mut paths = vec![Path::ToHost, Path::ToGpu];
        if copied_by_a_kernel((end_of_piece(address, end) - address) as usize) {
            paths.push(Path::Within);
        }
        let (blocked, mut free): (Vec<Path>, Vec<Path>) =
            paths.into_iter().partition(|path| waiting.contains(&Engine::of(gpu, *path).path));
        // The first two are the paths above.
        let engines = self.api.free_engines(self.host, gpu) & !0b11;
        let engine = |bit: u32| Path::Sdma(1 << bit);
        let named = (0..u32::BITS).filter(|bit| engines & (1 << bit) != 0).map(engine);
        free.extend(named.filter(|path| !waiting.contains(path)).take(1));
        let mut refused = None;
        for path in free {
            // SAFETY: the caller's promise.
            if let Some(spot) = unsafe { self.ask(Engine::of(gpu, path), address, end, &mut asked, &mut refused) }? {
                return Ok(Some(spot));
            }
        }
        if self.aperture.as_ref().is_some_and(|aperture| aperture.read(address, to.room()).is_ok()) {
            return Ok(None);
        }
        for path in blocked {
            // SAFETY: the caller's promise.
            if let Some(spot) = unsafe { self.ask(Engine::of(gpu, path), address, end, &mut asked, &mut refused) }? {
                return Ok(Some(spot));
            }
        }
        match (self.first_of(&asked, deadline), refused) {
            (Some(spot), _) => Ok(Some(spot)),
            (None, Some(error)) if asked.is_empty() => Err(error.into()),
            (None, _) => Err(Unread::Expired(copies.describe_waits(gpu))),
        }
    }

    /// Asks an engine to copy from an address, unless it is late or already copies that. Returns the buffer that will have the copy.
    ///
    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn ask(
        &mut self,
        engine: Engine,
        address: u64,
        end: u64,
        asked: &mut Vec<Spot>,
        refused: &mut Option<hsa::HsaError>,
    ) -> Result<Option<Spot>, Unread> {
        let lane = self.lane(engine);
        if self.is_late(lane) || asked.iter().any(|spot| spot.0 == lane) {
            return Ok(None);
        }
        let buffers = self.lanes.get(lane).map(|lane| lane.buffers.as_slice()).unwrap_or_default();
        let free = buffers.iter().position(Buffer::is_free).map(|buffer| (lane, buffer));
        let added = if free.is_none() { self.add_buffer(lane)? } else { None };
        let Some(spot) = free.or(added) else { return Ok(None) };
        // SAFETY: the caller's promise.
        match unsafe { self.start(spot, address, end) } {
            Ok(()) => asked.push(spot),
            Err(error) => {
                *refused = Some(error);
                return Ok(None);
            }
        }
        Ok(self.soon(asked))
    }

    fn is_late(&self, lane: usize) -> bool {
        self.lanes.get(lane).is_some_and(|lane| lane.late)
    }

    /// The first of some buffers whose copy is complete, waiting up to [`LATE`]. The engines of the others are late.
    fn soon(&mut self, spots: &[Spot]) -> Option<Spot> {
        let found = self.first_of(spots, Instant::now() + LATE);
        if found.is_none() {
            for &(lane, _) in spots {
                if let Some(lane) = self.lanes.get_mut(lane) {
                    lane.late = true;
                }
            }
        }
        found
    }

    fn buffer(&self, (lane, buffer): Spot) -> Option<&Buffer> {
        self.lanes.get(lane)?.buffers.get(buffer)
    }

    /// The first of some buffers whose copy is complete.
    fn first_of(&self, spots: &[Spot], deadline: Instant) -> Option<Spot> {
        loop {
            let copied = spots.iter().find(|spot| self.buffer(**spot).is_some_and(Buffer::is_copied));
            match copied {
                Some(spot) => return Some(*spot),
                None if spots.is_empty() || Instant::now() >= deadline => return None,
                None => std::thread::sleep(LOOK),
            }
        }
    }

    /// The lane that uses an engine.
    fn lane(&mut self, engine: Engine) -> usize {
        if let Some(known) = self.lanes.iter().position(|lane| lane.engine == engine) {
            return known;
        }
        self.lanes.push(Lane { engine, buffers: Vec::new(), late: false });
        self.lanes.len() - 1
    }

    /// A new buffer of a lane, unless it has as many as it may have.
    fn add_buffer(&mut self, lane: usize) -> Result<Option<Spot>, Unread> {
        let Some(of) = self.lanes.get_mut(lane).filter(|lane| lane.buffers.len() < MOST) else { return Ok(None) };
        let memory = self.api.kernarg_memory(&self.gpus, PIECE as usize)?;
        let copied = self.api.own_signal(0)?;
        of.buffers.push(Buffer { memory, copied, of: None, lent: Arc::default() });
        Ok(Some((lane, of.buffers.len() - 1)))
    }

    /// Starts a copy from an address into a free buffer, as many bytes as exist and fit.
    ///
    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn start(&mut self, (lane, buffer): Spot, address: u64, end: u64) -> Result<(), hsa::HsaError> {
        let Some(lane) = self.lanes.get_mut(lane) else { return Ok(()) };
        let (engine, Some(buffer)) = (lane.engine, lane.buffers.get_mut(buffer)) else { return Ok(()) };
        let bytes = (end_of_piece(address, end) - address) as usize;
        buffer.copied.memory().value.store(1, Ordering::Release);
        // ROCr chooses the engine by the two agents of the call.
        let (to_agent, from_agent) = match engine.path {
            Path::ToHost | Path::Sdma(_) => (self.host, engine.gpu),
            Path::ToGpu => (engine.gpu, self.host),
            Path::Within => (engine.gpu, engine.gpu),
        };
        let from = (ptr::with_exposed_provenance(address as usize), from_agent);
        let to = (buffer.memory.as_ptr(), to_agent);
        let started = match engine.path {
            // SAFETY: the caller's promise, and the buffer's size. The GPU can access both.
            Path::Sdma(engine) => unsafe { self.api.start_copy_on(to, from, bytes, buffer.copied, engine) },
            // SAFETY: as above.
            _ => unsafe { self.api.start_copy(to, from, bytes, buffer.copied) },
        };
        buffer.of = Some((address, bytes)).filter(|_| started.is_ok());
        if started.is_err() {
            buffer.copied.memory().value.store(0, Ordering::Release);
        }
        started
    }

    /// True if no copy is in progress.
    pub(super) fn has_no_late_copies(&self) -> bool {
        self.lanes.iter().flat_map(|lane| &lane.buffers).all(Buffer::is_copied)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Late copies may still write the others, and what is lent is read.
        for buffer in self.lanes.iter().flat_map(|lane| &lane.buffers).filter(|buffer| buffer.is_free()) {
            // SAFETY: no copy is under way that would end it, and no other thread knows it.
            let signal = unsafe { self.api.destroy_own_signal(buffer.copied) };
            // SAFETY: no copy is under way that would write there, and no other thread knows it.
            let memory = unsafe { self.api.free(buffer.memory) };
            // If the runtime refuses, the memory stays allocated, which does no harm.
            drop((signal, memory));
        }
    }
}
