//! The emulated GPU itself, without a runtime or a driver: its page tables, its loader and its queue are here.
//!
//! It must run a dispatch as the runtime would, at the captured addresses, or refuse with a reason. Its times say nothing about
//! hardware, whether its clock is the host's or counts executed instructions.
//!
//! # Threads
//! The engine has threads of its own. They touch memory only while [`Device::run`] waits for a packet.

mod memory;

use std::mem::offset_of;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use amdgpu_code_object::load::{self, Loaded};
use amdgpu_code_object::{Setting, Target};
use amdgpu_emu::clock::{Clock, TICKS_PER_SECOND};
use amdgpu_emu::driver::{CompletedPacket, Driver, MemoryFault, QueueError, WaveError};
use amdgpu_emu::observer::Observe;
use amdgpu_emu::queue::Doorbell;
use amdgpu_emu::queue::aql::AqlQueueInfo;
use amdgpu_emu::{Arch, Engine, Gpu, PRIVATE_APERTURE_HI, SHARED_APERTURE_HI, Shape, Trap};
use amdgpu_listing::missing;
use hsa::sys::abi::aql::Packet;
use hsa::sys::abi::queue::{Queue, properties};
use hsa::sys::abi::signal::{Signal, kind};
use logdur_captured::regions::{MemoryRequest, PAGE, regions, shared};
use logdur_captured::{CapturedDispatch, Code, processor};
use logdur_kernel_cache::runs_on;
use logdur_system::lock;

use self::memory::Memory;
use super::completion::{self, Completion};
use super::flight::Flight;
use super::{CodePlace, Description, Device, Load, QueueFacts, STUCK_SECONDS, Times, nanoseconds};
use crate::accesses::{Accesses, Recorder};
use crate::error::{Fault, ReplayError, Result};
use crate::placed::{LoadBias, Placed, PlacedRange};
use crate::setup::Setup;

/// Packets of the ring.
const SLOTS: u64 = 64;
/// Bytes of a packet.
const SLOT: u64 = 64;
/// The queue's number.
const QUEUE: u32 = 1;
/// Compute units: how many workgroups are resident at a time follows from that.
const COMPUTE_UNITS: u32 = 16;
/// More than any GPU has: all workgroups of a cooperative dispatch were resident at a time.
const COMPUTE_UNITS_COOPERATIVE: u32 = 512;
/// See [`STUCK_SECONDS`].
const STUCK_AFTER: Duration = Duration::from_secs(STUCK_SECONDS as u64);
/// How long a wait polls without sleeping.
const SPIN: Duration = Duration::from_micros(50);
/// The sleep between two checks afterwards.
const LOOK: Duration = Duration::from_micros(20);
/// The seed of the contents of unwritten LDS and registers.
const FILL: u32 = 1;
/// How many missing instructions are named.
const SHOWN: usize = 8;
/// Nanoseconds of a tick.
const TICK: u64 = 1_000_000_000 / TICKS_PER_SECOND;

/// The first thing that went wrong, as the machine tells its driver.
#[derive(Default)]
struct FirstError(Mutex<Option<ReplayError>>);

impl FirstError {
    fn fault(&self, what: String, address: Option<u64>) {
        self.put(ReplayError::Fault(Fault { what, address, nearest: None }));
    }

    fn put(&self, error: ReplayError) {
        lock(&self.0).get_or_insert(error);
    }

    fn take(&self) -> Option<ReplayError> {
        lock(&self.0).take()
    }
}

impl Driver for FirstError {
    // No thread waits for events here: signals are polled.
    fn raise_event(&self, _event: u32) {}
    fn wave_interrupt(&self, _event: u32) {}

    fn queue_error(&self, _queue: u32, error: &QueueError) {
        let address = match error {
            QueueError::Wave(WaveError { trap: Trap::Fetch, pc, .. }) => Some(*pc),
            _ => None,
        };
        self.fault(error.to_string(), address);
    }

    fn memory_fault(&self, fault: &MemoryFault) {
        self.fault(fault.what.clone(), Some(fault.address));
    }

    // Everything that matters comes as an error, too.
    fn log(&self, _text: &str) {}

    fn no_progress(&self, _what: &str, places: &[String]) {
        let place = places.first().cloned().unwrap_or_default();
        self.put(ReplayError::Stuck { seconds: STUCK_AFTER.as_secs_f64(), place });
    }

    fn wants_trace(&self) -> bool {
        false
    }

    fn trace(&self, _packet: &CompletedPacket) {}
}

/// Bytes of the ring.
const RING: usize = (SLOTS * SLOT) as usize;

/// What a kernel has no reason to write: packets, and the structure of a queue.
struct QueueContents {
    ring: [u8; RING],
    queue: [u8; size_of::<Queue>()],
}

/// A queue of the emulated GPU.
struct Lane {
    /// Its number.
    id: u32,
    rung: Arc<AtomicU64>,
    /// The number of its next packet.
    next: u64,
    /// Addresses of the ring and of the queue.
    ring: u64,
    queue: u64,
}

/// The emulated GPU.
pub(super) struct Emulated {
    arch: Arch,
    gpu: Arc<Gpu>,
    memory: Memory,
    engine: Engine,
    first_error: Arc<FirstError>,
    lane: Lane,
    /// More queues, for packets that run beside each other.
    more_lanes: Vec<Lane>,
    /// The address of the signal of packets that run alone.
    signal: u64,
    /// Those of the others, and which of them are free.
    signals: Vec<u64>,
    free_signals: Vec<usize>,
    flights: Vec<Flight>,
    /// Sees accesses; none where another observer does.
    recorder: Option<Arc<Recorder>>,
    description: Description,
}

impl Emulated {
    /// A GPU like the one of a capture.
    ///
    /// # Errors
    /// When that is none that is emulated, or the host has no threads or memory for it.
    pub(super) fn open(
        captured_isa: Option<&str>,
        captured: &CapturedDispatch<'_>,
        wanted: &[Range<u64>],
        setup: &Setup,
    ) -> Result<Emulated> {
        let target = &captured.original.object.target;
        let isa = captured_isa.map_or_else(|| target.to_string(), str::to_owned);
        let arch: Arch = processor(&isa).parse().map_err(|error| ReplayError::Unsupported(format!("{error}")))?;
        let first_error = Arc::new(FirstError::default());
        let clock = if setup.counted { Clock::deterministic() } else { Clock::real() };
        let compute_units = if captured.is_cooperative() { COMPUTE_UNITS_COOPERATIVE } else { COMPUTE_UNITS };
        let shape = Shape::new(arch, corrects_sram(&isa, arch), compute_units);
        let gpu = Arc::new(Gpu::new(0, shape, Arc::new(clock), first_error.clone()));
        // Unwritten memory differs in each replay: a kernel that reads it computes something else.
        gpu.fill_from(FILL);
        let recorder = setup.observe.is_none().then(|| Arc::new(Recorder::default()));
        let observe = recorder.clone().map(|recorder| recorder as Arc<dyn Observe>);
        observe.iter().chain(&setup.observe).for_each(|observe| gpu.observe(observe.clone()));
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let failed = |source: std::io::Error| ReplayError::Environment {
            what: "threads",
            expected: format!("{threads} for the emulated GPU"),
            found: source.to_string(),
        };
        let engine = Engine::start(threads, setup.limit.is_none().then_some(STUCK_AFTER)).map_err(failed)?;
        let mut memory = Memory::new(gpu.space.clone(), wanted);
        let lane = Lane::make(QUEUE, &mut memory, &engine, &gpu)?;
        let signal = memory.map_anywhere(size_of::<Signal>() as u64)?;
        let description = Description {
            isa,
            product: format!("{arch} (emulated)"),
            emulated: true,
            runtime: "no runtime".to_owned(),
        };
        let device = Emulated {
            arch,
            gpu,
            memory,
            engine,
            first_error,
            lane,
            more_lanes: Vec::new(),
            signal,
            signals: Vec::new(),
            free_signals: Vec::new(),
            flights: Vec::new(),
            recorder,
            description,
        };
        device.signal_memory(signal)?.kind.store(kind::USER, Ordering::Release);
        Ok(device)
    }

    fn signal_memory(&self, signal: u64) -> Result<&Signal> {
        let (place, _) = self.memory.at(signal, size_of::<Signal>())?;
        // SAFETY: mapped for as long as `self`, aligned, and of atomics only; so many zeroes are a signal.
        Ok(unsafe { place.cast().as_ref() })
    }

    /// Writes a packet into the ring of a queue; its number.
    ///
    /// # Safety
    /// The packet processor has left the slot.
    unsafe fn write_packet(&self, lane: &Lane, packet: &Packet) -> Result<u64> {
        let slot = lane.ring + lane.next % SLOTS * SLOT;
        // SAFETY: the ring's memory; the caller's promise.
        unsafe { self.write(&[(Placed(slot), &packet.to_bytes())]) }?;
        lane.memory(&self.memory)?.write_dispatch_id.store(lane.next + 1, Ordering::Release);
        Ok(lane.next)
    }

    /// The device is of no use any more: its waves may run on.
    fn give_up(&self) {
        std::iter::once(&self.lane).chain(&self.more_lanes).for_each(|lane| self.engine.remove(lane.id));
    }

    /// The packets and the queue's structure; zeros where the packet processor writes.
    fn queue_contents(&self) -> Result<QueueContents> {
        let (mut ring, mut queue) = ([0; RING], [0; size_of::<Queue>()]);
        // SAFETY: no wave runs.
        unsafe { self.read(&mut [(Placed(self.lane.ring), &mut ring), (Placed(self.lane.queue), &mut queue)]) }?;
        ring.as_chunks_mut::<{ SLOT as usize }>().0.iter_mut().for_each(|[a, b, ..]| (*a, *b) = (0, 0));
        for id in [offset_of!(Queue, write_dispatch_id), offset_of!(Queue, read_dispatch_id)] {
            queue.iter_mut().skip(id).take(size_of::<u64>()).for_each(|byte| *byte = 0);
        }
        Ok(QueueContents { ring, queue })
    }

    /// The address of the first byte of the queue that is not as it was.
    fn queue_differs(&self, was: &QueueContents, is: &QueueContents) -> Option<u64> {
        let differs = |base: u64, was: &[u8], is: &[u8]| {
            let at = (was != is).then(|| was.iter().zip(is).position(|(was, is)| was != is)).flatten();
            at.map(|at| base + at as u64)
        };
        differs(self.lane.ring, &was.ring, &is.ring).or_else(|| differs(self.lane.queue, &was.queue, &is.queue))
    }

    /// Puts code into mapped memory; the address of its anchor.
    fn place(&self, code: Load<'_>, loaded: &Loaded, base: u64) -> Result<Placed> {
        // SAFETY: mapped by the caller, and nothing runs.
        unsafe { self.write(&[(Placed(base), &loaded.bytes)]) }?;
        let Load::Kernel(code) = code else { return Ok(Placed(base)) };
        let descriptor = code.object.globals.iter().find(|global| global.name == code.kernel.symbol);
        let missing = || ReplayError::Unsupported(format!("{}: the code object has no descriptor", code.kernel.symbol));
        Ok(LoadBias::of(Placed(base), loaded.first).placed(descriptor.ok_or_else(missing)?.address))
    }

    /// Lays code out for an address, if the GPU has all instructions that its kernel can reach. Which functions of called code a
    /// kernel uses is not known.
    fn lay_out(&self, code: Load<'_>, base: u64) -> Result<Loaded> {
        // Code for another processor is loaded for its data; it is not launched.
        if let Load::Kernel(code) = code {
            self.has_all(code)?;
        }
        let place = || format!("code object {}", code.id());
        load::load(code.bytes(), base, |_| None).map_err(|source| ReplayError::CodeObject { place: place(), source })
    }

    /// Refuses a kernel that can reach instructions that the GPU lacks. One for other processors is refused where it is launched: what takes
    /// its place may run here.
    fn has_all(&self, code: &Code) -> Result<()> {
        if !runs_on(&code.object.target.processor, self.arch.name()) {
            return Ok(());
        }
        let missing = missing(&code.bytes, self.arch, &code.kernel.name)?;
        if !missing.is_empty() {
            let (all, arch) = (missing.len(), self.arch);
            let shown: Vec<String> = missing.iter().take(SHOWN).map(ToString::to_string).collect();
            let more = if all > SHOWN { format!(" and {} more", all - SHOWN) } else { String::new() };
            let kernel = &code.kernel.name;
            return Err(ReplayError::Unsupported(format!(
                "{kernel}: {all} instructions that the emulated {arch} does not have: {}{more}",
                shown.join(", ")
            )));
        }
        Ok(())
    }
}

impl Device for Emulated {
    fn description(&self) -> &Description {
        &self.description
    }

    fn queue(&self) -> QueueFacts {
        QueueFacts {
            address: self.lane.queue,
            private_base_hi: PRIVATE_APERTURE_HI,
            shared_base_hi: SHARED_APERTURE_HI,
        }
    }

    fn allocate(&mut self, wanted: &[MemoryRequest], _qualified: &mut Vec<String>) -> Result<Vec<PlacedRange>> {
        for (bytes, parts) in shared(&regions(wanted.iter().cloned())?).into_values() {
            self.memory.map_shared(bytes, parts.iter().map(|(region, offset)| (&region.range, *offset)))?;
        }
        // Of whatever kind: all of it is the host's.
        let mut pages: Vec<Range<u64>> = Vec::new();
        let mut sorted: Vec<&Range<u64>> = wanted.iter().map(|region| &region.range).collect();
        sorted.sort_by_key(|range| range.start);
        for range in sorted {
            let (start, end) = (range.start / PAGE * PAGE, range.end.div_ceil(PAGE) * PAGE);
            match pages.last_mut() {
                Some(last) if start <= last.end => last.end = last.end.max(end),
                _ => pages.push(start..end),
            }
        }
        // Code may be in one of them.
        pages.iter().try_for_each(|range| self.memory.map_rest(range))?;
        Ok(Vec::new())
    }

    fn load_at(&mut self, code: Load<'_>, place: &CodePlace) -> Result<Placed> {
        self.memory.map(&place.pages)?;
        let loaded = self.lay_out(code, place.base)?;
        self.place(code, &loaded, place.base)
    }

    fn load(&mut self, code: Load<'_>) -> Result<Placed> {
        // Where it is decides what is in it, and how much it is decides where it can be.
        let bytes = self.lay_out(code, 0)?.bytes.len();
        let base = self.memory.map_anywhere(bytes as u64)?;
        let loaded = self.lay_out(code, base)?;
        self.place(code, &loaded, base)
    }

    fn has_instructions(&self, code: &Code) -> Result<()> {
        self.has_all(code)
    }

    fn release_reservations(&mut self) {}

    fn kernarg(&mut self, bytes: usize) -> Result<Placed> {
        self.memory.map_anywhere(bytes as u64).map(Placed)
    }

    unsafe fn write(&self, pieces: &[(Placed, &[u8])]) -> Result<()> {
        for &(Placed(mut address), mut bytes) in pieces {
            while !bytes.is_empty() {
                let (to, length) = self.memory.at(address, bytes.len())?;
                let (now, rest) = bytes.split_at_checked(length).unwrap_or((bytes, &[]));
                self.memory.mark(address, now.len() as u64);
                // SAFETY: so many bytes are mapped there, and no wave runs: the caller's promise.
                unsafe { to.copy_from_nonoverlapping(NonNull::from(now).cast(), now.len()) };
                (address, bytes) = (address + now.len() as u64, rest);
            }
        }
        Ok(())
    }

    unsafe fn read(&self, pieces: &mut [(Placed, &mut [u8])]) -> Result<()> {
        for (Placed(address), bytes) in pieces {
            let mut done = 0;
            while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
                let (from, length) = self.memory.at(*address + done as u64, rest.len())?;
                // SAFETY: as above; no more than the rest has.
                unsafe { from.copy_to_nonoverlapping(NonNull::from(rest).cast(), length) };
                done += length;
            }
        }
        Ok(())
    }

    fn flush_caches(&mut self) -> Result<()> {
        Err(ReplayError::Unsupported(format!("cold caches: {} has none", self.description.product)))
    }

    fn meet(&self, workgroups: u32) -> Result<()> {
        self.gpu.meet(workgroups);
        Ok(())
    }

    fn record(&mut self, instructions: bool) {
        self.recorder.iter().for_each(|recorder| recorder.start(instructions));
    }

    fn hold_contents(&mut self, hold: bool) -> bool {
        self.gpu.hold_contents(hold);
        true
    }

    fn watch_writes(&mut self) -> bool {
        self.memory.watch_writes();
        true
    }

    fn take_written(&self) -> Vec<Range<Placed>> {
        self.memory.take_written().into_iter().map(|range| Placed(range.start)..Placed(range.end)).collect()
    }

    fn recorded(&mut self) -> Option<Accesses> {
        self.recorder.as_ref().map(|recorder| recorder.stop())
    }

    unsafe fn run(&mut self, mut packet: Packet, limit: Duration) -> Result<Times> {
        packet.set_completion_signal(self.signal);
        // SAFETY: every packet is waited for.
        let number = unsafe { self.write_packet(&self.lane, &packet) }?;
        let contents = self.queue_contents()?;
        self.lane.next += 1;
        let signal = self.signal_memory(self.signal)?;
        let completion = Completion::new(signal);
        let start = Instant::now();
        self.lane.rung.store(number, Ordering::Release);
        self.engine.wake();
        let failed = |error| {
            self.give_up();
            Err(error)
        };
        loop {
            match completion.is_complete() {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => return failed(error),
            }
            if let Some(error) = self.first_error.take() {
                return failed(error);
            }
            if start.elapsed() > limit {
                return failed(ReplayError::Timeout { seconds: limit.as_secs_f64() });
            }
            if start.elapsed() > SPIN {
                std::thread::sleep(LOOK);
            }
            std::hint::spin_loop();
        }
        let host_ns = nanoseconds(start.elapsed());
        let (began, ended) = signal.ticks();
        if ended == 0 {
            // The packet processor writes the time first.
            return failed(completion::written("its value was decremented before the packet was complete"));
        }
        completion.check()?;
        let found = self.queue_contents()?;
        if let Some(address) = self.queue_differs(&contents, &found) {
            return Err(completion::queue_written(&format!("at {address:#x}")));
        }
        Ok(Times { gpu_ns: ended.saturating_sub(began) * TICK, host_ns })
    }

    fn make_queues(&mut self, count: usize) -> Result<()> {
        while self.more_lanes.len() + 1 < count {
            let id = self.more_lanes.last().map_or(QUEUE, |lane| lane.id) + 1;
            self.more_lanes.push(Lane::make(id, &mut self.memory, &self.engine, &self.gpu)?);
        }
        Ok(())
    }

    unsafe fn submit(&mut self, queue: usize, mut packet: Packet, ticket: usize) -> Result<()> {
        let signal = match self.free_signals.pop() {
            Some(signal) => signal,
            None => {
                let address = self.memory.map_anywhere(size_of::<Signal>() as u64)?;
                self.signal_memory(address)?.kind.store(kind::USER, Ordering::Release);
                self.signals.push(address);
                self.signals.len() - 1
            }
        };
        let address = self.signals.get(signal).copied().unwrap_or(self.signal);
        packet.set_completion_signal(address);
        let lane = match queue.checked_sub(1) {
            None => Some(&self.lane),
            Some(more) => self.more_lanes.get(more),
        };
        let lane = lane.ok_or_else(|| ReplayError::Environment {
            what: "the queues",
            expected: format!("{} queues", self.more_lanes.len() + 1),
            found: format!("queue {queue}"),
        })?;
        let flight = Flight::begin(ticket, signal, self.signal_memory(address)?);
        // SAFETY: a ring has more slots than packets are in flight: the caller's promise.
        let number = unsafe { self.write_packet(lane, &packet) }?;
        lane.rung.store(number, Ordering::Release);
        match queue.checked_sub(1).and_then(|more| self.more_lanes.get_mut(more)) {
            Some(lane) => lane.next += 1,
            None => self.lane.next += 1,
        }
        self.flights.push(flight);
        self.engine.wake();
        Ok(())
    }

    fn completed(&mut self, limit: Duration) -> Result<Vec<(usize, u64)>> {
        let (start, mut all) = (Instant::now(), Vec::new());
        while all.is_empty() && !self.flights.is_empty() {
            let mut left = Vec::new();
            for flight in std::mem::take(&mut self.flights) {
                let address = self.signals.get(flight.signal).copied().unwrap_or(self.signal);
                let signal = self.signal_memory(address)?;
                if flight.is_complete(signal).inspect_err(|_| self.give_up())? {
                    let (began, ended) = signal.ticks();
                    all.push((flight.ticket, ended.saturating_sub(began) * TICK));
                    self.free_signals.push(flight.signal);
                } else {
                    left.push(flight);
                }
            }
            self.flights = left;
            let failed = self.first_error.take().or_else(|| {
                let is_over = all.is_empty() && start.elapsed() > limit;
                is_over.then(|| ReplayError::Timeout { seconds: limit.as_secs_f64() })
            });
            if let Some(error) = failed {
                self.give_up();
                return Err(error);
            }
            if all.is_empty() && start.elapsed() > SPIN {
                std::thread::sleep(LOOK);
            }
            std::hint::spin_loop();
        }
        Ok(all)
    }
}

impl Lane {
    /// Makes a queue.
    ///
    /// # Errors
    /// When the host has no memory for it.
    fn make(id: u32, memory: &mut Memory, engine: &Engine, gpu: &Arc<Gpu>) -> Result<Lane> {
        let ring = memory.map_anywhere(SLOTS * SLOT)?;
        let queue = memory.map_anywhere(size_of::<Queue>() as u64)?;
        let rung = Arc::new(AtomicU64::new(u64::MAX));
        // SAFETY: the atomic lives as long as its owner, which the doorbell has.
        let doorbell = unsafe { Doorbell::new(Arc::as_ptr(&rung), rung.clone()) };
        let lane = Lane { id, rung, next: 0, ring, queue };
        let header = lane.memory(memory)?;
        header.queue_properties.store(properties::ENABLE_PROFILING, Ordering::Relaxed);
        header.group_segment_aperture_base_hi.store(SHARED_APERTURE_HI, Ordering::Relaxed);
        header.private_segment_aperture_base_hi.store(PRIVATE_APERTURE_HI, Ordering::Relaxed);
        let info = AqlQueueInfo { id, ring, slots: SLOTS, queue, doorbell, injections: Vec::new() };
        engine.add_aql(info, gpu.clone());
        Ok(lane)
    }

    fn memory<'m>(&self, memory: &'m Memory) -> Result<&'m Queue> {
        let (place, _) = memory.at(self.queue, size_of::<Queue>())?;
        // SAFETY: mapped for as long as the memory, page-aligned, and of atomics only; so many zeroes are a queue.
        Ok(unsafe { place.cast().as_ref() })
    }
}

/// True when a device of this ISA has error correction of its static memories on: what the name says, else what boards
/// with the processor come with.
fn corrects_sram(isa: &str, arch: Arch) -> bool {
    match Target::parse(isa).map(|target| target.sramecc) {
        Ok(Setting::On) => true,
        Ok(Setting::Off) => false,
        Ok(Setting::Any | Setting::Unsupported) | Err(_) => arch.can_correct_sram(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_correction_is_as_the_captured_device_had_it() {
        let on = |isa| corrects_sram(isa, processor(isa).parse().unwrap());
        assert!(
            on("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-") && on("amdgcn-amd-amdhsa--gfx906") && on("gfx908:xnack-")
        );
        assert!(!on("amdgcn-amd-amdhsa--gfx906:sramecc-:xnack-") && !on("amdgcn-amd-amdhsa--gfx900:xnack-"));
    }
}
