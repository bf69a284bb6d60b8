//! The devices of this process: made when one is first opened, and made anew in a forked child that opens one.
//!
//! # Threads
//! The state is published through one atomic pointer and never freed: threads of the engine outlive `exit`, and so may
//! calls of the runtime.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use amdgpu_emu::clock::{Clock, Rate};
use amdgpu_emu::driver::{self, CompletedPacket, Driver, MemoryFault, QueueError};
use amdgpu_emu::{Engine, Gpu};
use logdur_settings::{Bar, ClockKind, Emulator, Faults, Fetch, Packets, ReadIndex, Scratch, Sdma, Times, Xnack};

use crate::board::{Node as GpuNode, gpu_id};
use crate::buffer::Buffers;
use crate::device::Device;
use crate::event::{Events, MemoryException};
use crate::lock;
use crate::memfile::{self, Identity, MemFile, identity};
use crate::plan::{plan, settings};
use crate::process_log::{self, ProcessLog};
use crate::progress;
use crate::queue::{self, Queues};
use crate::shared::Shared;
use crate::svm::SharedVirtual;
use crate::trace::Trace;
use crate::tree;
use crate::usage::{self, Account};

/// Everything behind the open devices.
pub(crate) struct State {
    pid: i32,
    pub(crate) settings: &'static Emulator,
    pub(crate) log: ProcessLog,
    /// The file behind `/dev/kfd`: doorbells and the remapped registers.
    pub(crate) kfd: MemFile,
    pub(crate) devices: Vec<Device>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) buffers: Buffers,
    pub(crate) svm: SharedVirtual,
    pub(crate) events: Arc<Events>,
    pub(crate) queues: Queues,
    engine: Mutex<Option<Arc<Engine>>>,
    /// The runtime handles exceptions itself (`RUNTIME_ENABLE`).
    pub(crate) exceptions: Arc<std::sync::atomic::AtomicBool>,
    pub(crate) shared: Shared,
}

/// Bytes of address space of the files; they are sparse.
const KFD_FILE: u64 = 1 << 43;
const MEMORY_FILE: u64 = 1 << 42;
/// Where a render node's file can be mapped and has nothing: who touches it gets SIGBUS. There is what hosts cannot see of
/// other processes' memory, the GPU's, which libraries map all the same.
pub(crate) const NOWHERE: u64 = MEMORY_FILE;

/// What the machine tells the driver, without the machine in it.
struct Callbacks {
    log: Arc<ProcessLog>,
    events: Arc<Events>,
    exceptions: Arc<std::sync::atomic::AtomicBool>,
    trace: Option<Arc<Trace>>,
    gpu_id: u32,
}

impl Driver for Callbacks {
    fn raise_event(&self, event_id: u32) {
        self.events.raise(event_id);
    }

    fn wave_interrupt(&self, partial_id: u32) {
        self.events.raise_partial(partial_id);
    }

    fn queue_error(&self, queue: u32, error: &QueueError) {
        self.log.line(format!("queue {queue} on gpu {:#x} stopped: {error}", self.gpu_id));
        let Some(state) = State::get() else { return };
        let exceptions = self.exceptions.load(Ordering::Acquire);
        if queue::report_error(&state.queues, &state.devices, &state.events, queue, error, exceptions).is_err() {
            state.log.line(format!("queue {queue}: its error could not be told to the runtime"));
        }
    }

    fn memory_fault(&self, fault: &MemoryFault) {
        let verb = if fault.write { "write to" } else { "read of" };
        let MemoryFault { address, queue, what, .. } = fault;
        let mut others = State::get().map(|state| state.others_with(self.gpu_id, *address)).unwrap_or_default();
        let small = |node: &GpuNode| node.board.bar(settings()) == Bar::Small;
        if !others.is_empty() && plan().nodes.iter().any(small) {
            others += &format!("; {}=small, so GPUs have no access to each other's memory", Emulator::bar);
        }
        self.log.line(format!(
            "memory fault on gpu {:#x}, queue {queue}: {verb} {address:#x}: {what}{others}",
            self.gpu_id
        ));
        if settings().faults == Faults::Silent {
            return;
        }
        self.events.memory_exception(MemoryException {
            gpu_id: self.gpu_id,
            address: *address,
            read_only: fault.read_only,
        });
    }

    fn log(&self, text: &str) {
        self.log.once(text);
    }

    fn no_progress(&self, what: &str, places: &[String]) {
        self.log(what);
        places.iter().for_each(|place| self.log(&format!("  {place}")));
        progress::tell(places.first().map_or(what, String::as_str));
    }

    fn wants_trace(&self) -> bool {
        self.trace.is_some()
    }

    fn trace(&self, packet: &CompletedPacket) {
        if let Some(trace) = &self.trace {
            trace.packet(self.gpu_id, packet);
        }
    }

    fn times(&self) -> driver::Times {
        match settings().times {
            Times::Written => driver::Times::Written,
            Times::Never => driver::Times::Never,
            Times::Late => driver::Times::Late,
            Times::EndFirst => driver::Times::EndFirst,
            Times::Swapped => driver::Times::Swapped,
            Times::Ahead => driver::Times::Ahead,
            Times::UntilRemap => driver::Times::UntilRemap,
        }
    }

    fn read_index(&self) -> driver::ReadIndex {
        match settings().read_index {
            ReadIndex::Prompt => driver::ReadIndex::Prompt,
            ReadIndex::Lazy => driver::ReadIndex::Lazy,
            ReadIndex::Valid => driver::ReadIndex::Valid,
        }
    }

    fn takes_extended_dispatches(&self) -> bool {
        settings().packets == Packets::Extended
    }

    fn halves_scratch(&self) -> bool {
        settings().scratch == Scratch::Half
    }

    fn loses_copies(&self) -> Option<u32> {
        match settings().sdma {
            Sdma::Complete => None,
            Sdma::Lose(every) => Some(every),
        }
    }

    fn fetches_ahead(&self) -> bool {
        settings().fetch == Fetch::Ahead
    }
}

static STATE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());

impl State {
    fn new() -> io::Result<State> {
        let plan = plan();
        let log = ProcessLog::open(plan.settings.log.as_deref());
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            process_log::tell_panics();
            plan.problems.iter().for_each(|problem| log.line(problem));
        });
        if plan.nodes.is_empty() {
            // As on a machine without a GPU, which has no device. Runtimes handle that; some crash if nodes have no GPU.
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        let shared_log = Arc::new(ProcessLog::open(plan.settings.log.as_deref()));
        let events = Arc::new(Events::default());
        let exceptions = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let trace = plan.settings.trace.as_deref().and_then(|path| {
            Trace::open(path)
                .inspect_err(|e| log.line(format!("the trace {} cannot be written: {e}", path.display())))
                .ok()
        });
        let trace = trace.map(Arc::new);
        let clock = Arc::new(match plan.settings.clock {
            ClockKind::Real { hertz, skew, jump } => Clock::at(Rate { hertz, skew, jump }),
            ClockKind::Deterministic => Clock::deterministic(),
        });
        let machine = tree::root().map_or(0, usage::machine);
        let mut devices = Vec::new();
        for (index, node) in plan.nodes.iter().enumerate() {
            let gpu_id = gpu_id(index);
            let callbacks = Callbacks {
                log: shared_log.clone(),
                events: events.clone(),
                exceptions: exceptions.clone(),
                trace: trace.clone(),
                gpu_id,
            };
            // The first page has the sums of what is allocated.
            let memory = MemFile::new(memfile::MEMORY, MEMORY_FILE, memfile::PAGE)?;
            let account = Account::new(memory.map(0, memfile::PAGE)?, machine, gpu_id);
            let gpu = Gpu::new(index, node.shape(&plan.settings), clock.clone(), Arc::new(callbacks));
            plan.settings.fill.into_iter().for_each(|seed| gpu.fill_from(seed));
            devices.push(Device { gpu_id, node, gpu: Arc::new(gpu), memory, account });
        }
        let svm = SharedVirtual::default();
        svm.set_retries(plan.settings.xnack == Xnack::On, &devices);
        Ok(State {
            pid: process_id(),
            settings: &plan.settings,
            log,
            kfd: MemFile::new(c"kfdemu-kfd", KFD_FILE, 0)?,
            queues: Queues::default(),
            buffers: Buffers::default(),
            svm,
            devices,
            clock,
            events,
            engine: Mutex::new(None),
            exceptions,
            shared: Shared::default(),
        })
    }

    /// The state of this process, if a device has been opened in it.
    pub(crate) fn get() -> Option<&'static State> {
        let state = STATE.load(Ordering::Acquire);
        // SAFETY: null, or a leaked State that was published below.
        let state = unsafe { state.as_ref() }?;
        (state.pid == process_id()).then_some(state)
    }

    /// The state of this process, made now if no device has been opened in it.
    ///
    /// # Errors
    /// When the files cannot be made.
    pub(crate) fn open() -> io::Result<&'static State> {
        if let Some(state) = State::get() {
            return Ok(state);
        }
        let old = STATE.load(Ordering::Acquire);
        let new = Box::into_raw(Box::new(State::new()?));
        match STATE.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: `new` was leaked just above and is never freed.
            Ok(_) => Ok(unsafe { &*new }),
            Err(_) => {
                // Another thread was faster.
                // SAFETY: `new` was not published; this is its only owner.
                drop(unsafe { Box::from_raw(new) });
                State::get().ok_or_else(|| io::Error::other("the device was made by another process"))
            }
        }
    }

    /// The engine, started now if it does not run yet.
    ///
    /// # Errors
    /// When its threads cannot be started.
    pub(crate) fn engine(&self) -> io::Result<Arc<Engine>> {
        let mut engine = lock(&self.engine);
        if let Some(engine) = &*engine {
            return Ok(engine.clone());
        }
        let threads = match self.settings.threads {
            // What several threads interleave is no function of what they execute.
            _ if self.clock.is_deterministic() => 1,
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            n => n as usize,
        };
        let stuck_after = Some(self.settings.stuck_seconds).filter(|&seconds| seconds > 0);
        let stuck_after = stuck_after.map(|seconds| Duration::from_secs(seconds.into()));
        let started = Arc::new(Engine::start(threads, stuck_after)?);
        *engine = Some(started.clone());
        Ok(started)
    }

    /// Makes the engine look at its queues: a thread is about to wait.
    pub(crate) fn wake_engine(&self) {
        if let Some(engine) = &*lock(&self.engine) {
            engine.wake();
        }
    }

    /// Which other GPUs an address is mapped into, for people.
    fn others_with(&self, gpu_id: u32, address: u64) -> String {
        let others = self.devices.iter().filter(|d| d.gpu_id != gpu_id);
        others
            .filter(|d| d.gpu.space.snapshot().find(address, 1).is_some())
            .fold(String::new(), |text, d| text + &format!("; gpu {:#x} has it mapped", d.gpu_id))
    }

    /// The device with a number.
    pub(crate) fn device(&self, gpu_id: u32) -> Option<&Device> {
        self.devices.iter().find(|d| d.gpu_id == gpu_id)
    }
}

fn process_id() -> i32 {
    // SAFETY: getpid cannot fail.
    unsafe { libc::getpid() }
}

/// Which device a descriptor is open on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// `/dev/kfd`
    Kfd,
    /// The render node of a GPU.
    Render(usize),
}

/// The device that a descriptor is open on, told by its inode.
pub(crate) fn node_of(fd: RawFd) -> Option<Node> {
    let state = State::get()?;
    let found: Identity = identity(fd)?;
    if found == state.kfd.identity() {
        return Some(Node::Kfd);
    }
    state.devices.iter().position(|d| d.memory.identity() == found).map(Node::Render)
}
