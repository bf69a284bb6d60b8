//! An emulated GPU that runs one dispatch of words of machine code, and is observed.

use std::alloc::{self, Layout};
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use amdgpu_emu::clock::Clock;
use amdgpu_emu::driver::{CompletedPacket, Driver, MemoryFault, QueueError};
use amdgpu_emu::launch::Launch;
use amdgpu_emu::memory::{Backing, View};
use amdgpu_emu::observer::{Group, Notes, Observe, Observer, Step};
use amdgpu_emu::queue::Doorbell;
use amdgpu_emu::queue::aql::AqlQueueInfo;
use amdgpu_emu::{Arch, Engine, Gpu, Shape, isa::op::Flow};

const RING: u64 = 0x10_0000;
const QUEUE: u64 = 0x11_0000;
const SIGNAL: u64 = 0x12_0000;
/// What dispatches access.
pub(crate) const DATA: u64 = 0x13_0000;
const CODE: u64 = 0x100_0000;
/// Bytes of code.
const CODE_BYTES: usize = 1 << 20;
/// The first instruction.
pub(crate) const ENTRY: u64 = CODE + 256;
const PAGE: usize = 4096;

struct Pages(*mut u8, Layout);

// SAFETY: only the address is shared; the memory is accessed through atomics.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated by `memory` with this layout.
        unsafe { alloc::dealloc(self.0, self.1) };
    }
}

fn memory(len: usize) -> Backing {
    let layout = Layout::from_size_align(len, PAGE).unwrap();
    // SAFETY: the layout is not empty.
    let base = unsafe { alloc::alloc_zeroed(layout) };
    assert!(!base.is_null());
    // SAFETY: the pages are the owner.
    unsafe { Backing::new(base, len as u64, Arc::new(Pages(base, layout))) }
}

struct Told(Mutex<Vec<String>>);

impl Driver for Told {
    fn raise_event(&self, _: u32) {}
    fn wave_interrupt(&self, _: u32) {}
    fn queue_error(&self, _: u32, error: &QueueError) {
        self.0.lock().unwrap().push(error.to_string());
    }
    fn memory_fault(&self, fault: &MemoryFault) {
        self.0.lock().unwrap().push(fault.what.clone());
    }
    fn log(&self, _: &str) {}
    fn wants_trace(&self) -> bool {
        false
    }
    fn trace(&self, _: &CompletedPacket) {}
}

/// What happens in a dispatch, in the order in which it does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A wave of a workgroup executes the instruction at an address.
    Executes(u64, usize, u64),
    /// The waves of a workgroup go on behind a barrier.
    Barrier(u64),
}

/// Observes as another one, and remembers what happens.
#[derive(Debug)]
pub(crate) struct Recorded<O> {
    pub(crate) inner: O,
    pub(crate) events: Arc<Mutex<Vec<Event>>>,
}

struct Recorder {
    inner: Box<dyn Observer>,
    events: Arc<Mutex<Vec<Event>>>,
}

impl<O: Observe> Observe for Recorded<O> {
    fn observer(&self, launch: &Launch) -> Box<dyn Observer> {
        Box::new(Recorder { inner: self.inner.observer(launch), events: self.events.clone() })
    }

    fn ended(&self, launch: &Launch, observers: Vec<Box<dyn Observer>>) {
        let inner = |observer: Box<dyn Observer>| {
            let any: Box<dyn Any> = observer;
            any.downcast::<Recorder>().ok().unwrap().inner
        };
        self.inner.ended(launch, observers.into_iter().map(inner).collect());
    }
}

impl Observer for Recorder {
    fn begin(&mut self, group: &Group<'_>) -> Option<Notes> {
        let notes = self.inner.begin(group)?;
        Some(Box::new((group.number, notes)))
    }

    fn before(&mut self, notes: &mut Notes, step: &Step<'_>) {
        let (group, notes) = notes.downcast_mut::<(u64, Notes)>().unwrap();
        self.events.lock().unwrap().push(Event::Executes(*group, step.number, step.pc));
        self.inner.before(notes, step);
    }

    fn after(&mut self, notes: &mut Notes, step: &Step<'_>, flow: Flow) {
        let (_, notes) = notes.downcast_mut::<(u64, Notes)>().unwrap();
        self.inner.after(notes, step, flow);
    }

    fn barrier(&mut self, notes: &mut Notes) {
        let (group, notes) = notes.downcast_mut::<(u64, Notes)>().unwrap();
        self.events.lock().unwrap().push(Event::Barrier(*group));
        self.inner.barrier(notes);
    }

    fn end(&mut self, notes: Notes) {
        let (_, notes) = *notes.downcast::<(u64, Notes)>().ok().unwrap();
        self.inner.end(notes);
    }
}

/// Runs `groups` workgroups of `waves` waves. Where they are interrupted follows from the seed.
pub(crate) fn run(code: &[u32], groups: u32, waves: u32, lds: u32, seed: u32, observe: Arc<dyn Observe>) {
    let told = Arc::new(Told(Mutex::default()));
    let shape = Shape::new(Arch::Gfx90a, false, 2);
    let gpu = Arc::new(Gpu::new(0, shape, Arc::new(Clock::deterministic()), told.clone()));
    gpu.fill_from(seed);
    gpu.observe(observe);
    [RING, QUEUE, SIGNAL, DATA].into_iter().for_each(|start| gpu.space.map(start, memory(PAGE), true));
    gpu.space.map(CODE, memory(CODE_BYTES), true);
    let mut view = View::new(gpu.space.clone());
    let mut put = |at: u64, words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        view.write(at, &bytes).unwrap();
    };
    // The descriptor: where the code is, 32 vector registers, 48 scalar ones, the number of the workgroup in the first.
    put(CODE + 16, &[(ENTRY - CODE) as u32, 0]);
    put(CODE + 44, &[7, 3 | 4 << 6, 1 << 7, 0]);
    put(ENTRY, code);
    // A signal that is waited for, with the value 1.
    put(SIGNAL, &[1, 0, 1, 0]);
    let size = 64 * waves;
    put(
        RING,
        &[2 | 1 << 16, size | 1 << 16, 1, size * groups, 1, 1, 0, lds, CODE as u32, 0, 0, 0, 0, 0, SIGNAL as u32, 0],
    );
    let rung = Arc::new(AtomicU64::new(u64::MAX));
    // SAFETY: the atomic lives as long as its owner, which the doorbell has.
    let doorbell = unsafe { Doorbell::new(Arc::as_ptr(&rung), rung.clone()) };
    let engine = Engine::start(1, None).unwrap();
    engine.add_aql(AqlQueueInfo { id: 1, ring: RING, slots: 64, queue: QUEUE, doorbell, injections: Vec::new() }, gpu);
    rung.store(0, Ordering::Release);
    engine.wake();
    let began = Instant::now();
    loop {
        let mut value = [0; 8];
        view.read(SIGNAL + 8, &mut value).unwrap();
        if i64::from_le_bytes(value) < 1 {
            break;
        }
        let told = told.0.lock().unwrap();
        assert!(told.is_empty() && began.elapsed() < Duration::from_secs(60), "seed {seed}: {told:?}");
        drop(told);
        std::thread::yield_now();
    }
}
