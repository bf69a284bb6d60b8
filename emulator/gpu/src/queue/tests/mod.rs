//! Packets made by hand, given to queues of an engine without threads.

mod aql;
mod pm4;
mod random;
mod sdma;
mod slices;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use amdgpu_isa::Arch;

use super::Doorbell;
use crate::clock::Clock;
use crate::driver::{CompletedPacket, Driver, MemoryFault, QueueError};
use crate::engine::Stepped;
use crate::gpu::Gpu;
use crate::lock;
use crate::memory::View;
use crate::memory::tests::memory;
use crate::shape::Shape;

/// Where things are in the memory of the GPU.
const RING: u64 = 0x10_0000;
const RING_BYTES: u64 = 4096;
const QUEUE: u64 = 0x11_0000;
const SIGNALS: u64 = 0x12_0000;
const DATA: u64 = 0x13_0000;
const CODE: u64 = 0x14_0000;
const LARGE: u64 = 0x100_0000;
const LARGE_BYTES: u64 = 8 << 20;
/// Nothing is here.
const NOWHERE: u64 = 0x7fff_0000_0000;

/// What the driver was told.
#[derive(Default)]
struct Told {
    events: Mutex<Vec<u32>>,
    errors: Mutex<Vec<QueueError>>,
    faults: Mutex<Vec<MemoryFault>>,
}

impl Driver for Told {
    fn raise_event(&self, id: u32) {
        lock(&self.events).push(id);
    }
    fn wave_interrupt(&self, _id: u32) {}
    fn queue_error(&self, _queue: u32, error: &QueueError) {
        lock(&self.errors).push(error.clone());
    }
    fn memory_fault(&self, fault: &MemoryFault) {
        lock(&self.faults).push(fault.clone());
    }
    fn log(&self, _text: &str) {}
    fn wants_trace(&self) -> bool {
        false
    }
    fn trace(&self, _packet: &CompletedPacket) {}
}

/// A GPU with memory, and an engine for its queues.
struct Rig {
    gpu: Arc<Gpu>,
    told: Arc<Told>,
    view: View,
    engine: Stepped,
    rung: Arc<AtomicU64>,
}

impl Rig {
    fn new(arch: Arch) -> Rig {
        let told = Arc::new(Told::default());
        let shape = Shape::new(arch, false, 2);
        let gpu = Arc::new(Gpu::new(0, shape, Arc::new(Clock::real()), told.clone()));
        for start in [RING, QUEUE, SIGNALS, DATA, CODE] {
            gpu.space.map(start, memory(4096), true);
        }
        gpu.space.map(LARGE, memory(LARGE_BYTES as usize), true);
        let view = View::new(gpu.space.clone());
        Rig { gpu, told, view, engine: Stepped::default(), rung: Arc::new(AtomicU64::new(0)) }
    }

    fn doorbell(&self, value: u64) -> Doorbell {
        self.rung.store(value, std::sync::atomic::Ordering::Release);
        // SAFETY: the atomic lives as long as its Arc, which the doorbell keeps.
        unsafe { Doorbell::new(Arc::as_ptr(&self.rung), self.rung.clone()) }
    }

    /// Steps until nothing more happens. Kernels and stalls that wait for the host leave it at rest too.
    fn run_until_idle(&mut self) {
        let mut quiet = 0;
        while quiet < 3 {
            quiet = if self.engine.step() { 0 } else { quiet + 1 };
        }
    }

    fn put(&mut self, at: u64, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.view.write(at, &bytes).expect("mapped");
    }

    fn put64(&mut self, at: u64, value: u64) {
        self.view.write(at, &value.to_le_bytes()).expect("mapped");
    }

    fn bytes(&mut self, at: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.view.read(at, &mut bytes).expect("mapped");
        bytes
    }

    fn word(&mut self, at: u64) -> u32 {
        self.bytes(at, 4).try_into().map(u32::from_le_bytes).expect("four bytes")
    }

    fn word64(&mut self, at: u64) -> u64 {
        self.bytes(at, 8).try_into().map(u64::from_le_bytes).expect("eight bytes")
    }

    fn events(&self) -> Vec<u32> {
        lock(&self.told.events).clone()
    }

    fn errors(&self) -> Vec<QueueError> {
        lock(&self.told.errors).clone()
    }

    /// Addresses of faults, and whether they were writes.
    fn faults(&self) -> Vec<(u64, bool)> {
        lock(&self.told.faults).iter().map(|f| (f.address, f.write)).collect()
    }
}
