//! Rings of anything, on a GPU with a little memory: packets are taken or refused, and nothing may panic.
//!
//! The first byte chooses the kind of the queue and the processor; the rest is what is in memory, the ring first.

#![no_main]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use amdgpu_emu::clock::Clock;
use amdgpu_emu::driver::{CompletedPacket, Driver, MemoryFault, QueueError};
use amdgpu_emu::engine::Stepped;
use amdgpu_emu::memory::{Backing, View};
use amdgpu_emu::queue::aql::AqlQueueInfo;
use amdgpu_emu::queue::{Doorbell, RingInfo};
use amdgpu_emu::{Arch, Gpu, Shape};
use libfuzzer_sys::fuzz_target;

/// Everything that is mapped: the ring in its first page, the queue in its second.
const MEMORY: u64 = 0x10_0000;
const PAGE: u64 = 4096;
const PAGES: u64 = 8;
/// Kinds of queues: AQL, SDMA and PM4.
const KINDS: u8 = 3;
/// A kernel of anything may run for ever.
const STEPS: usize = 20;

struct Deaf;

impl Driver for Deaf {
    fn raise_event(&self, _id: u32) {}
    fn wave_interrupt(&self, _id: u32) {}
    fn queue_error(&self, _queue: u32, error: &QueueError) {
        assert!(!error.to_string().is_empty());
    }
    fn memory_fault(&self, fault: &MemoryFault) {
        assert!(!fault.what.is_empty());
    }
    fn log(&self, _text: &str) {}
    fn wants_trace(&self) -> bool {
        false
    }
    fn trace(&self, _packet: &CompletedPacket) {}
}

fuzz_target!(|data: &[u8]| {
    let Some((&kind, content)) = data.split_first() else { return };
    let arch = Arch::ALL[usize::from(kind / KINDS) % Arch::ALL.len()];
    let shape = Shape::new(arch, arch.can_correct_sram(), 1);
    let gpu = Arc::new(Gpu::new(0, shape, Arc::new(Clock::real()), Arc::new(Deaf)));
    // One more page, so that the mapping can begin at a page as those of hosts do.
    let words: Arc<Vec<AtomicU64>> = Arc::new((0..(PAGES + 1) * PAGE / 8).map(|_| AtomicU64::new(0)).collect());
    let start = words.as_ptr().cast_mut().cast::<u8>();
    let base = start.wrapping_add(start.align_offset(PAGE as usize));
    // SAFETY: within the vector, which is the owner; atomics may be written through a shared pointer.
    let backing = unsafe { Backing::new(base, PAGES * PAGE, words.clone()) };
    gpu.space.map(MEMORY, backing, true);
    let mut view = View::new(gpu.space.clone());
    let length = content.len().min((PAGES * PAGE) as usize);
    view.write(MEMORY, &content[..length]).expect("mapped");

    let rung = Arc::new(AtomicU64::new(u64::MAX));
    // SAFETY: the atomic lives as long as its Arc, which the doorbell keeps.
    let doorbell = unsafe { Doorbell::new(Arc::as_ptr(&rung), rung.clone()) };
    let mut engine = Stepped::default();
    // The doorbell's unit is the queue's own: a packet of AQL, a dword of PM4, a byte of SDMA.
    if kind % KINDS == 0 {
        let (slots, queue) = (PAGE / 64, MEMORY + PAGE);
        rung.store(slots - 1, Ordering::Release);
        let info = AqlQueueInfo { id: 1, ring: MEMORY, slots, queue, doorbell, injections: Vec::new() };
        engine.engine().add_aql(info, gpu);
    } else {
        let info = RingInfo { id: 1, ring: MEMORY, bytes: PAGE, read_pointer: MEMORY + PAGE, doorbell };
        if kind % KINDS == 1 {
            rung.store(PAGE, Ordering::Release);
            engine.engine().add_sdma(info, gpu);
        } else {
            rung.store(PAGE / 4, Ordering::Release);
            engine.engine().add_pm4(info, gpu);
        }
    }
    for _ in 0..STEPS {
        if !engine.step() {
            break;
        }
    }
    engine.engine().remove(1);
});
