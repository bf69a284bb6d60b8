//! A GPU under the HSA runtime of this process: an agent, a queue, and bytes into and out of memory.
//!
//! # Threads
//! One.

mod given;

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa::sys::abi::aql::Packet;
use hsa::{Agent, AgentKind, Api, OwnQueue, OwnSignal, Pool};
use logdur_capture::AllocationKind;
use logdur_captured::regions::{MemoryRequest, regions, shared};
use logdur_captured::{CapturedDispatch, processor};

use super::completion::{self, Completion};
use super::flight::Flight;
use super::staging::{STAGING, StagedCopy, batches};
use super::{CodePlace, Description, Device, Load, QueueFacts, Times, nanoseconds};
use crate::error::{Fault, ReplayError, Requested, Result};
use crate::place::Reserved;
use crate::placed::{Placed, PlacedRange};
use crate::setup::Setup;

/// The time limit of a copy of that size.
const COPY: Duration = Duration::from_secs(30);
/// For so long the times of a completed packet are waited for.
const TIMES: Duration = Duration::from_millis(100);
/// How long a wait polls without sleeping.
const SPIN: Duration = Duration::from_micros(200);
/// The sleep between two checks afterwards.
const LOOK: Duration = Duration::from_micros(50);
/// The least bytes that are streamed through the caches: more than any L2, if the runtime does not tell the sizes.
const CACHES: usize = 64 << 20;

/// A GPU under the runtime. The runtime is never shut down; it ends with the process.
pub(super) struct Rocm {
    api: Api,
    gpu: u64,
    cpu: u64,
    pools: Vec<Pool>,
    queue: OwnQueue,
    /// What the queues are for: `hsa_queue_type_t`.
    queue_kind: u32,
    /// More queues, for packets that run beside each other.
    more_queues: Vec<OwnQueue>,
    /// Signals of such packets, and those that are free.
    signals: Vec<OwnSignal>,
    free_signals: Vec<usize>,
    flights: Vec<Flight>,
    done: OwnSignal,
    copied: OwnSignal,
    staging: NonNull<u8>,
    ticks_per_second: u64,
    description: Description,
    /// The version of the runtime that the application had.
    captured_under: String,
    /// Addresses that are kept free until memory and code are where they should be.
    reserved: Reserved,
    /// Addresses that stay free: nothing of this process is where the application had memory that was not captured.
    _surroundings: Reserved,
    /// Memory may be elsewhere.
    relocate: bool,
    /// What tells of a kernel without progress, on an emulated GPU and where no time limit was asked for.
    stuck: Option<Stuck>,
    /// The runtime loads a tool, which may change packets.
    has_tool: bool,
    /// Memory of the host: its addresses are good for the processor as well.
    host: Vec<Range<u64>>,
    /// What is streamed through the caches.
    stream: Option<(NonNull<u8>, usize)>,
}

/// Where a wave of the first dispatch without progress is, or null.
type Stuck = unsafe extern "C" fn() -> *const c_char;

impl Rocm {
    /// Starts the runtime and takes a GPU: that of a position, or the first that is like the captured one.
    ///
    /// # Errors
    /// When an address that is wanted is taken; when there is no such GPU, or the runtime cannot be used.
    pub(super) fn open(
        captured_isa: Option<&str>,
        setup: &Setup,
        captured: &CapturedDispatch<'_>,
        wanted: &[Range<u64>],
    ) -> Result<Rocm> {
        let position = setup.device;
        let reserved = if setup.relocate { Reserved::keep_free(wanted) } else { Reserved::keep(wanted)? };
        let surroundings = Reserved::keep_surroundings(wanted);
        let api = Api::open(None).requested(|| "opening the HSA runtime".to_owned())?;
        api.init().requested(|| {
            "starting the HSA runtime; is the driver loaded, and may this user open /dev/kfd? (or try --backend emu)".to_owned()
        })?;
        api.watch_faults().requested(|| "watching for faults".to_owned())?;
        let agents = api.agents().requested(|| "listing agents".to_owned())?;
        let gpus: Vec<&Agent> = agents.iter().filter(|a| a.kind == AgentKind::Gpu).collect();
        let isas = |gpu: &Agent| api.isa_names(gpu.handle).requested(|| "listing instruction sets".to_owned());
        let mut found = Vec::new();
        let mut chosen = None;
        for (number, gpu) in gpus.iter().enumerate() {
            let isa = isas(gpu)?.into_iter().next().unwrap_or_default();
            let like = captured_isa.is_none_or(|captured| processor(captured) == processor(&isa));
            if position.map_or(like, |position| position == number) && chosen.is_none() {
                if !like {
                    let expected = captured_isa.unwrap_or_default().to_owned();
                    return Err(ReplayError::Environment { what: "the GPU", expected, found: isa });
                }
                chosen = Some((*gpu, isa));
                continue;
            }
            found.push(format!("{number}: {isa}"));
        }
        let Some((gpu, isa)) = chosen else {
            let expected = position.map_or(captured_isa.unwrap_or("a GPU").to_owned(), |n| format!("GPU {n}"));
            let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
            return Err(ReplayError::Environment { what: "the GPU", expected, found });
        };
        let missing = |what| ReplayError::Environment { what, expected: "one".to_owned(), found: "none".to_owned() };
        let cpu = agents.iter().find(|a| a.kind == AgentKind::Cpu).ok_or_else(|| missing("the host's agent"))?.handle;
        let pools = api.pools().requested(|| "listing pools".to_owned())?;
        let host = pools.iter().find(|p| !p.is_gpu && p.is_fine_grained() && !p.is_for_kernargs());
        let host = host.or_else(|| pools.iter().find(|p| !p.is_gpu && p.global_flags.is_some()));
        let host = *host.ok_or_else(|| missing("the host's pool of memory"))?;
        let staging =
            api.allocate(&host, STAGING, &[gpu.handle]).requested(|| format!("{STAGING} bytes for copies"))?;
        let signal = || api.own_signal(0).requested(|| "making a signal".to_owned());
        let (done, copied) = (signal()?, signal()?);
        let queue = api.own_queue(gpu.handle, captured.queue_kind).requested(|| "making a queue".to_owned())?;
        let (major, minor) = api.version().requested(|| "asking for the version".to_owned())?;
        let ticks_per_second = api.timestamp_frequency().requested(|| "asking for the clock".to_owned())?.max(1);
        let description = Description {
            isa,
            product: gpu.product.clone(),
            emulated: gpu.is_emulated(),
            runtime: format!("HSA {major}.{minor} {}", api.build_version()).trim_end().to_owned(),
        };
        let gpu = gpu.handle;
        Ok(Rocm {
            api,
            gpu,
            cpu,
            pools,
            queue,
            queue_kind: captured.queue_kind,
            more_queues: Vec::new(),
            signals: Vec::new(),
            free_signals: Vec::new(),
            flights: Vec::new(),
            done,
            copied,
            staging,
            ticks_per_second,
            description,
            captured_under: captured.runtime.to_owned(),
            reserved,
            _surroundings: surroundings,
            relocate: setup.relocate,
            stuck: setup.limit.is_none().then(stuck).flatten(),
            has_tool: std::env::var_os("HSA_TOOLS_LIB").is_some_and(|tools| !tools.is_empty()),
            host: Vec::new(),
            stream: None,
        })
    }

    /// The address for the processor, if it has one.
    fn on_host(&self, address: u64, bytes: usize) -> Option<NonNull<u8>> {
        let end = address.checked_add(bytes as u64)?;
        let inside = self.host.iter().any(|range| range.start <= address && end <= range.end);
        NonNull::new(std::ptr::with_exposed_provenance_mut(address as usize)).filter(|_| inside)
    }

    /// A byte of the staging memory.
    fn staged(&self, at: usize) -> *mut u8 {
        self.staging.as_ptr().wrapping_add(at)
    }

    /// Copies parts between the staging memory and the GPU's, all at once.
    ///
    /// # Safety
    /// The parts are inside of the staging memory; their other addresses are of memory that the GPU can reach.
    unsafe fn copy(&self, parts: &[StagedCopy], to_gpu: bool) -> Result<()> {
        self.copied.memory().value.store(parts.len() as i64, Ordering::Release);
        for &StagedCopy { staged, address, bytes, .. } in parts {
            let staged = self.staged(staged);
            let there: *mut u8 = std::ptr::with_exposed_provenance_mut(address as usize);
            let [staged, there] = [(staged, self.cpu), (there, self.gpu)];
            let (to, from) = if to_gpu { (there, staged) } else { (staged, there) };
            // SAFETY: both sides have so many bytes, by the caller's promise; all copies are waited for.
            unsafe { self.api.start_copy(to, (from.0.cast_const(), from.1), bytes, self.copied) }
                .requested(|| format!("copying {bytes} bytes {} {address:#x}", if to_gpu { "to" } else { "from" }))?;
        }
        let done = || Ok(self.copied.memory().value.load(Ordering::Acquire) <= 0);
        self.wait(done, COPY).map_err(|error| match error {
            ReplayError::Timeout { seconds } => ReplayError::Copy { seconds },
            other => other,
        })
    }

    /// Where a wave is that makes no progress.
    fn stuck_at(&self) -> Option<String> {
        // SAFETY: a function of the emulated driver, which stays loaded: it takes nothing.
        let place = unsafe { self.stuck?() };
        if place.is_null() {
            return None;
        }
        // SAFETY: not null: text of the driver that ends with a zero and stays.
        Some(unsafe { CStr::from_ptr(place) }.to_string_lossy().into_owned())
    }

    /// How long the packet ran that a signal was completed by, in nanoseconds.
    fn time_of(&self, signal: OwnSignal) -> Result<u64> {
        let time = self.api.dispatch_time(self.gpu, signal).requested(|| "asking when the kernel ran".to_owned())?;
        let ticks = u128::from(time.end.saturating_sub(time.start));
        Ok(u64::try_from(ticks * 1_000_000_000 / u128::from(self.ticks_per_second)).unwrap_or(u64::MAX))
    }

    fn wait(&self, is_complete: impl Fn() -> Result<bool>, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while !is_complete()? {
            let fault = hsa::fault();
            let error = self.queue.error();
            if fault.is_some() || error.is_some() {
                let what = match error {
                    Some(error) => error.to_string(),
                    None => "memory that must not be accessed".to_owned(),
                };
                // Of a fault of memory the runtime may tell after it has stopped the queue.
                let address = fault.or_else(|| later(Duration::from_millis(100), hsa::fault)).map(|f| f.address);
                return Err(ReplayError::Fault(Fault { what, address, nearest: None }));
            }
            if let Some(place) = self.stuck_at() {
                return Err(ReplayError::Stuck { seconds: start.elapsed().as_secs() as f64, place });
            }
            if start.elapsed() > limit {
                return Err(ReplayError::Timeout { seconds: limit.as_secs_f64() });
            }
            if start.elapsed() > SPIN {
                std::thread::sleep(LOOK);
            }
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl Device for Rocm {
    fn description(&self) -> &Description {
        &self.description
    }

    fn queue(&self) -> QueueFacts {
        let memory = self.queue.memory();
        QueueFacts {
            address: self.queue.address(),
            private_base_hi: memory.private_segment_aperture_base_hi.load(Ordering::Relaxed),
            shared_base_hi: memory.group_segment_aperture_base_hi.load(Ordering::Relaxed),
        }
    }

    fn allocate(&mut self, wanted: &[MemoryRequest], qualified: &mut Vec<String>) -> Result<Vec<PlacedRange>> {
        let (mut weaker, mut relocations) = (BTreeSet::new(), Vec::new());
        let regions = regions(wanted.iter().cloned())?;
        for (bytes, parts) in shared(&regions).into_values() {
            self.allocate_shared(bytes, &parts)?;
        }
        for region in regions.into_iter().filter(|region| region.shared.is_none()) {
            let (pool, same) = self.pool(region.kind)?;
            if !same {
                let what = if pool.is_gpu { "memory of the GPU" } else { "memory of the host" };
                weaker.insert(format!("{} memory is backed by {what}", region.kind));
            }
            let placed = match self.allocate_at(&pool, &region.range) {
                Err(ReplayError::Placement { .. }) if self.relocate => self.allocate_anywhere(&pool, &region.range)?,
                placed => placed.map(|()| region.range.start)?,
            };
            let bytes = region.range.end - region.range.start;
            if !pool.is_gpu {
                self.host.push(placed..placed + bytes);
            }
            relocations.push(PlacedRange { captured: region.range, placed: Placed(placed) });
        }
        qualified.extend(weaker);
        if self.has_tool {
            qualified.push("packets of the queue are not compared: a tool of the runtime may change them".to_owned());
        }
        Ok(relocations)
    }

    fn load_at(&mut self, code: Load<'_>, place: &CodePlace) -> Result<Placed> {
        // What it keeps free is not to be borrowed together with the runtime.
        let mut reserved = std::mem::take(&mut self.reserved);
        let start = place.pages.start;
        let allocate = || {
            let (anchor, executable) = self.load_code(code)?;
            Ok((start.wrapping_add(anchor.wrapping_sub(place.anchor)), (anchor, executable)))
        };
        let free = |(_, executable)| {
            // Where it stays it is only in the way.
            let _ = self.api.unload_code(executable);
        };
        let loaded = reserved.steer(&place.pages, allocate, free);
        self.reserved = reserved;
        loaded.map(|(anchor, _)| Placed(anchor))
    }

    fn load(&mut self, code: Load<'_>) -> Result<Placed> {
        self.load_code(code).map(|(anchor, _)| Placed(anchor))
    }

    fn release_reservations(&mut self) {
        self.reserved = Reserved::default();
    }

    fn kernarg(&mut self, bytes: usize) -> Result<Placed> {
        let bytes = bytes.max(1);
        let memory = self.api.kernarg_memory(&[self.gpu], bytes);
        let memory = memory.requested(|| format!("{bytes} bytes for kernel arguments"))?;
        let address = memory.as_ptr().expose_provenance() as u64;
        self.host.push(address..address + bytes as u64);
        Ok(Placed(address))
    }

    unsafe fn write(&self, pieces: &[(Placed, &[u8])]) -> Result<()> {
        let mut far = Vec::new();
        for &(Placed(address), bytes) in pieces {
            match self.on_host(address, bytes.len()) {
                // SAFETY: memory of the host with so many bytes, which no kernel uses: the caller's promise.
                Some(to) => unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) },
                None => far.push((address, bytes)),
            }
        }
        for parts in batches(far.iter().map(|(address, bytes)| (*address, bytes.len()))) {
            for &StagedCopy { piece, at, staged, bytes: length, .. } in &parts {
                let Some(from) = far.get(piece).and_then(|(_, bytes)| bytes.get(at..at + length)) else { continue };
                // SAFETY: `times` cuts parts that are inside of the staging memory, which no copy uses now.
                unsafe { self.staged(staged).copy_from_nonoverlapping(from.as_ptr(), length) };
            }
            // SAFETY: parts of `times`, of memory of this device: the caller's promise.
            unsafe { self.copy(&parts, true) }?;
        }
        Ok(())
    }

    unsafe fn read(&self, pieces: &mut [(Placed, &mut [u8])]) -> Result<()> {
        let mut far = Vec::new();
        for (Placed(address), bytes) in pieces {
            match self.on_host(*address, bytes.len()) {
                // SAFETY: memory of the host with so many bytes, which no kernel uses: the caller's promise.
                Some(from) => unsafe { from.copy_to_nonoverlapping(NonNull::from(&mut **bytes).cast(), bytes.len()) },
                None => far.push((*address, &mut **bytes)),
            }
        }
        for parts in batches(far.iter().map(|(address, bytes)| (*address, bytes.len()))) {
            // SAFETY: parts of `times`, of memory of this device: the caller's promise.
            unsafe { self.copy(&parts, false) }?;
            for &StagedCopy { piece, at, staged, bytes: length, .. } in &parts {
                let Some(to) = far.get_mut(piece).and_then(|(_, bytes)| bytes.get_mut(at..at + length)) else {
                    continue;
                };
                // SAFETY: inside of the staging memory, and the copy is complete.
                unsafe { self.staged(staged).copy_to_nonoverlapping(to.as_mut_ptr(), length) };
            }
        }
        Ok(())
    }

    fn flush_caches(&mut self) -> Result<()> {
        let (memory, bytes) = match self.stream {
            Some(stream) => stream,
            None => {
                let caches: usize = self.api.cache_sizes(self.gpu).into_iter().map(|bytes| bytes as usize).sum();
                let bytes = CACHES.max(2 * caches).next_multiple_of(1 << 20);
                let (pool, _) = self.pool(AllocationKind::DeviceCoarse)?;
                let memory = self.api.allocate(&pool, bytes, &[self.gpu]);
                let memory = memory.requested(|| format!("allocating {bytes} bytes to stream through the caches"))?;
                *self.stream.insert((memory, bytes))
            }
        };
        // SAFETY: it was allocated with so many bytes, and no other code uses it.
        unsafe { self.api.fill(memory, 0, bytes / size_of::<u32>()) }.requested(|| "filling memory".to_owned())
    }

    fn meet(&self, _workgroups: u32) -> Result<()> {
        Err(ReplayError::Unsupported(
            "ds_gws_barrier: a barrier of the whole grid. How many meet there the application's HIP has told the GPU by a kernel of \
             its own, which is no part of the dispatch; --backend emu does without"
                .to_owned(),
        ))
    }

    unsafe fn run(&mut self, mut packet: Packet, limit: Duration) -> Result<Times> {
        packet.set_completion_signal(self.done.handle());
        // The host writes and reads the memory between dispatches, whatever the application's packet said.
        packet.set_system_fences();
        let completion = Completion::new(self.done.memory());
        let contents = self.queue.contents_with(&packet);
        let start = Instant::now();
        // SAFETY: the caller's promise; one packet is waited for before the next.
        unsafe { self.api.submit(&self.queue, &packet) }.requested(|| "submitting the packet".to_owned())?;
        self.wait(|| completion.is_complete(), limit)?;
        let host_ns = nanoseconds(start.elapsed());
        // A value that the kernel decremented is decremented again when the packet is complete: then, there are times.
        later(TIMES, || (self.done.memory().ticks().1 != 0).then_some(()));
        completion.check()?;
        let found = self.queue.contents();
        if found.structure != contents.structure || !self.has_tool && found.packets != contents.packets {
            return Err(completion::queue_written("its structure or a packet"));
        }
        Ok(Times { gpu_ns: self.time_of(self.done)?, host_ns })
    }

    fn make_queues(&mut self, count: usize) -> Result<()> {
        while self.more_queues.len() + 1 < count {
            let queue = self.api.own_queue(self.gpu, self.queue_kind);
            self.more_queues
                .push(queue.requested(|| format!("making queue {} of {count}", self.more_queues.len() + 2))?);
        }
        Ok(())
    }

    unsafe fn submit(&mut self, queue: usize, mut packet: Packet, ticket: usize) -> Result<()> {
        let number = match self.free_signals.pop() {
            Some(number) => number,
            None => {
                self.signals.push(self.api.own_signal(0).requested(|| "making a signal".to_owned())?);
                self.signals.len() - 1
            }
        };
        let queues = || std::iter::once(&self.queue).chain(&self.more_queues);
        let (Some(signal), Some(queue)) = (self.signals.get(number).copied(), queues().nth(queue)) else {
            let (expected, found) = (format!("{} queues", queues().count()), format!("queue {queue}"));
            return Err(ReplayError::Environment { what: "the queues", expected, found });
        };
        packet.set_completion_signal(signal.handle());
        packet.set_system_fences();
        let flight = Flight::begin(ticket, number, signal.memory());
        // SAFETY: the caller's promise; a ring has more packets than are in flight.
        unsafe { self.api.submit(queue, &packet) }.requested(|| "submitting a packet".to_owned())?;
        self.flights.push(flight);
        Ok(())
    }

    fn completed(&mut self, limit: Duration) -> Result<Vec<(usize, u64)>> {
        let flights = std::mem::take(&mut self.flights);
        let mut over = vec![false; flights.len()];
        let look = |over: &mut Vec<bool>| -> Result<bool> {
            for (flight, over) in flights.iter().zip(over.iter_mut()) {
                if let Some(signal) = self.signals.get(flight.signal) {
                    *over = flight.is_complete(signal.memory())?;
                }
            }
            Ok(over.contains(&true) || flights.is_empty())
        };
        let found = std::cell::RefCell::new(&mut over);
        self.wait(|| look(&mut found.borrow_mut()), limit)?;
        let mut all = Vec::new();
        for (flight, over) in flights.into_iter().zip(over) {
            match self.signals.get(flight.signal).copied().filter(|_| over) {
                Some(signal) => {
                    later(TIMES, || (signal.memory().ticks().1 != 0).then_some(()));
                    all.push((flight.ticket, self.time_of(signal)?));
                    self.free_signals.push(flight.signal);
                }
                None => self.flights.push(flight),
            }
        }
        Ok(all)
    }
}

/// `kfdemu_no_progress` of the emulated driver, if that is in this process.
fn stuck() -> Option<Stuck> {
    // SAFETY: the name ends with a zero.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"kfdemu_no_progress".as_ptr()) };
    // SAFETY: null, or the function of this type that the emulated driver exports.
    unsafe { std::mem::transmute::<*mut libc::c_void, Option<Stuck>>(address) }
}

/// What comes within some time.
fn later<T>(limit: Duration, look: impl Fn() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let found = look();
        if found.is_some() || start.elapsed() > limit {
            return found;
        }
        std::thread::sleep(LOOK);
    }
}
