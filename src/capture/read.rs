//! Reading memory of hosts and GPUs, a piece at a time.
//!
//! A GPU's memory is copied by one of its engines, each of which copies in order: behind a copy of the application's that
//! waits for what the capture holds, a copy of ours does not begin. The reader asks an engine that is not known to wait. If
//! that copy is late, it asks the next one, and then an SDMA engine that the runtime calls free. Then it reads the memory
//! through the GPU's aperture, if the host has it mapped. Engines that are known to wait come last. An engine that was late
//! is not asked again until its copies are complete.
//!
//! # Threads
//! The capture thread.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa::{AgentKind, Api, OwnSignal, Pool};

use super::copies::{Copies, Engine, Path, copied_by_a_kernel};
use super::memory::{Allocation, Kind};
use crate::own_memory::{self, DeviceMappings};

/// Bytes that are read at once.
pub(super) const PIECE: usize = 4 << 20;
/// How long to sleep between two looks at a copy.
const LOOK: Duration = Duration::from_micros(20);
/// After which time another engine is asked as well. A slow bus copies a piece in a hundredth of it.
const LATE: Duration = Duration::from_millis(100);

/// Why memory could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    /// The runtime does not copy it.
    #[error(transparent)]
    Runtime(#[from] hsa::HsaError),
    /// The copy is not complete.
    #[error("no copy engine of its GPU had copied it in time: {0}")]
    Expired(String),
    /// The application has unmapped what it had locked, or what moves by itself.
    #[error("it is not mapped: {0}")]
    Unmapped(io::Error),
    /// It belongs to another owner.
    #[error("it is memory of another process, and no GPU is known that can read it")]
    Foreign,
    /// The machine has no processor.
    #[error("the runtime has no agent for the host")]
    NoHost,
}

impl Unread {
    /// True when it says that the application has freed the memory: it frees what moves by itself by unmapping it. A GPU may
    /// still read locked memory that the host has unmapped.
    pub(super) fn is_freed(&self, memory: &Allocation) -> bool {
        matches!(self, Unread::Unmapped(_)) && memory.kind == Kind::Managed
    }
}

/// Room that a GPU can write, and a signal that is above 0 while it does.
struct Room {
    memory: NonNull<u8>,
    copied: OwnSignal,
    /// The first address that it has a copy of, or will when it is free, and how many bytes.
    of: Option<(u64, usize)>,
}

/// An engine, and room for what is read and for what is read ahead.
struct Lane {
    engine: Engine,
    rooms: [Room; 2],
    /// A copy of it took longer than [`LATE`], and its copies were not all complete since.
    late: bool,
}

/// Which room: the lane's number, and its own there.
type Spot = (usize, usize);

/// What memory is read with. It is read ahead: while a piece is looked at, the next one is copied.
pub(super) struct Reader {
    api: &'static Api,
    host: u64,
    gpus: Vec<u64>,
    lanes: Vec<Lane>,
    /// `None` when the process has no descriptor for it.
    aperture: Option<DeviceMappings>,
}

// SAFETY: the rooms are the reader's own.
unsafe impl Send for Reader {}

impl Room {
    /// True when no copy into it is under way.
    fn is_free(&self) -> bool {
        self.copied.memory().value.load(Ordering::Acquire) <= 0
    }

    /// Where it has so many bytes from an address on, counted from its own first.
    fn offset_of(&self, address: u64, bytes: usize) -> Option<usize> {
        let (start, length) = self.of?;
        let offset = usize::try_from(address.checked_sub(start)?).ok()?;
        (offset.checked_add(bytes)? <= length).then_some(offset)
    }
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

    /// Fills `to`, at most [`PIECE`], with what is in memory from an address on. A thread that reads some memory reads it from its
    /// first address on, which begins anew.
    ///
    /// # Errors
    /// Why that could not be done.
    ///
    /// # Safety
    /// The memory must be there with all of its bytes, and stay until [`Reader::has_no_late_copies`].
    pub(super) unsafe fn read(
        &mut self,
        memory: &Allocation,
        address: u64,
        to: &mut [u8],
        copies: &Copies,
        deadline: Instant,
    ) -> Result<(), Unread> {
        let skipped = address - memory.base;
        // Memory that the application may have unmapped without a word. That of pools is not read with the kernel's help:
        // of a driver's mappings it gives nothing.
        if let Some(host) = memory.own() {
            return own_memory::read(host + skipped, to).map_err(Unread::Unmapped);
        }
        if let Some(host) = memory.host() {
            let from = ptr::with_exposed_provenance((host + skipped) as usize);
            // SAFETY: the caller's promise. The application may write there: what is read then is neither old nor new.
            unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
            return Ok(());
        }
        let (Kind::Pool(Pool { agent, .. }) | Kind::Variable { agent, .. } | Kind::Foreign { agent: Some(agent) }) =
            memory.kind
        else {
            return Err(Unread::Foreign);
        };
        if skipped == 0 {
            // What was copied before a kernel ran is not what is there now.
            self.lanes.iter_mut().flat_map(|lane| &mut lane.rooms).for_each(|room| room.of = None);
        }
        // SAFETY: the caller's promise.
        let Some((lane, room)) = (unsafe { self.copied(agent, memory.end(), address, to, copies, deadline) })? else {
            return Ok(());
        };
        let found = self.room((lane, room)).and_then(|room| Some((room.memory, room.offset_of(address, to.len())?)));
        let Some((from, offset)) = found else { return Err(Unread::Expired(String::new())) };
        // SAFETY: the room has so many bytes behind the offset.
        let from = unsafe { from.add(offset) };
        // SAFETY: as above; the copy into the room is complete.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) };
        let next = self.room((lane, room)).and_then(|room| room.of).map(|(start, length)| start + length as u64);
        if let Some(next) = next.filter(|next| *next < memory.end()) {
            let other = (lane, 1 - room);
            if self.room(other).is_some_and(|room| room.is_free() && room.of.is_none_or(|of| of.0 != next)) {
                // SAFETY: the caller's promise. If it is refused here, it is when it is asked for, too.
                let _ = unsafe { self.start(other, next, memory.end()) };
            }
        }
        Ok(())
    }

    /// A room that has as many bytes of a GPU's memory from an address on as `to`; `None` when `to` was filled.
    ///
    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn copied(
        &mut self,
        gpu: u64,
        end: u64,
        address: u64,
        to: &mut [u8],
        copies: &Copies,
        deadline: Instant,
    ) -> Result<Option<Spot>, Unread> {
        for lane in &mut self.lanes {
            lane.late &= !lane.rooms.iter().all(Room::is_free);
        }
        let mut asked: Vec<Spot> = Vec::new();
        for (n, lane) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.engine.gpu == gpu) {
            let having = lane.rooms.iter().enumerate().filter(|(_, room)| room.offset_of(address, to.len()).is_some());
            asked.extend(having.map(|(room, _)| (n, room)));
        }
        let prompt: Vec<Spot> = asked.iter().copied().filter(|spot| !self.is_late(spot.0)).collect();
        if let Some(spot) = self.soon(&prompt) {
            return Ok(Some(spot));
        }
        let waiting = copies.blocked(gpu);
        let mut paths = vec![Path::ToHost, Path::ToGpu];
        if copied_by_a_kernel((end - address).min(PIECE as u64) as usize) {
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
        if self.aperture.as_ref().is_some_and(|aperture| aperture.read(address, to).is_ok()) {
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

    /// Asks an engine for what is from an address on, unless it is late or has been asked for it; the room that has it soon.
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
        let lane = self.lane(engine)?;
        if self.is_late(lane) || asked.iter().any(|spot| spot.0 == lane) {
            return Ok(None);
        }
        let free = (0..2).map(|room| (lane, room)).find(|spot| self.room(*spot).is_some_and(Room::is_free));
        let Some(spot) = free else { return Ok(None) };
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

    /// The first of some rooms that has what it was asked for, or has it soon. The engines of the others are late.
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

    fn room(&self, (lane, room): Spot) -> Option<&Room> {
        self.lanes.get(lane)?.rooms.get(room)
    }

    /// The first of some rooms that has what it was asked for.
    fn first_of(&self, spots: &[Spot], deadline: Instant) -> Option<Spot> {
        loop {
            let free = spots.iter().find(|spot| self.room(**spot).is_some_and(Room::is_free));
            match free {
                Some(spot) => return Some(*spot),
                None if spots.is_empty() || Instant::now() >= deadline => return None,
                None => std::thread::sleep(LOOK),
            }
        }
    }

    /// The lane of an engine.
    fn lane(&mut self, engine: Engine) -> Result<usize, Unread> {
        if let Some(known) = self.lanes.iter().position(|lane| lane.engine == engine) {
            return Ok(known);
        }
        let room = || -> Result<Room, Unread> {
            let memory = self.api.kernarg_memory(&self.gpus, PIECE)?;
            Ok(Room { memory, copied: self.api.own_signal(0)?, of: None })
        };
        let rooms = [room()?, room()?];
        self.lanes.push(Lane { engine, rooms, late: false });
        Ok(self.lanes.len() - 1)
    }

    /// Has an engine copy what is from an address on, as much as there is and fits, into a room that is free.
    ///
    /// # Safety
    /// As for [`Reader::read`].
    unsafe fn start(&mut self, (lane, room): Spot, address: u64, end: u64) -> Result<(), hsa::HsaError> {
        let Some(lane) = self.lanes.get_mut(lane) else { return Ok(()) };
        let (engine, Some(room)) = (lane.engine, lane.rooms.get_mut(room)) else { return Ok(()) };
        let bytes = (end - address).min(PIECE as u64) as usize;
        room.copied.memory().value.store(1, Ordering::Release);
        // ROCr chooses the engine by the agents that it is told.
        let (to_agent, from_agent) = match engine.path {
            Path::ToHost | Path::Sdma(_) => (self.host, engine.gpu),
            Path::ToGpu => (engine.gpu, self.host),
            Path::Within => (engine.gpu, engine.gpu),
        };
        let from = (ptr::with_exposed_provenance(address as usize), from_agent);
        let to = (room.memory.as_ptr(), to_agent);
        let started = match engine.path {
            // SAFETY: the caller's promise, and the room's size. The GPU can access both.
            Path::Sdma(engine) => unsafe { self.api.start_copy_on(to, from, bytes, room.copied, engine) },
            // SAFETY: as above.
            _ => unsafe { self.api.start_copy(to, from, bytes, room.copied) },
        };
        room.of = Some((address, bytes)).filter(|_| started.is_ok());
        if started.is_err() {
            room.copied.memory().value.store(0, Ordering::Release);
        }
        started
    }

    /// True when no copy is under way.
    pub(super) fn has_no_late_copies(&self) -> bool {
        self.lanes.iter().flat_map(|lane| &lane.rooms).all(Room::is_free)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // Into the others, copies may still write.
        for room in self.lanes.iter().flat_map(|lane| &lane.rooms).filter(|room| room.is_free()) {
            // SAFETY: no copy is under way that would end it, and no other thread knows it.
            let signal = unsafe { self.api.destroy_own_signal(room.copied) };
            // SAFETY: no copy is under way that would write there, and no other thread knows it.
            let memory = unsafe { self.api.free(room.memory) };
            // What the runtime keeps is of no harm.
            drop((signal, memory));
        }
    }
}
