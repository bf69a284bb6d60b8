//! The copy engines: SDMA rings of variable-sized packets. Source: `sdma_registers.h` of the runtime (public), which
//! describes the packets that it sends.
//!
//! Ring indices are 64-bit byte counts that only grow; the doorbell carries the write index.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Progress, Queue, RingInfo, meets};
use crate::dispatch::Dispatch;
use crate::driver::{MemoryFault, PacketError, QueueError};
use crate::engine::Worker;
use crate::gpu::Gpu;
use crate::memory::{Refused, View};

/// Bytes that a long copy moves before other queues are served.
const CHUNK: u64 = 1 << 20;

/// An SDMA queue.
pub(crate) struct SdmaQueue {
    info: RingInfo,
    gpu: Arc<Gpu>,
    view: View,
    read: u64,
    /// Bytes of the packet at the read index that are copied already.
    copied: u64,
    /// Decrements of signals so far.
    completions: u32,
    active: bool,
    failed: bool,
}

/// What became of a packet.
enum Step {
    /// It is done; it took so many dwords.
    Done(u64),
    /// It cannot be done yet.
    Wait,
    /// Part of it is done; look again soon.
    Part,
}

/// Why a packet cannot be done.
enum Failure {
    Refused(Refused),
    Unknown,
}

impl From<Refused> for Failure {
    fn from(at: Refused) -> Failure {
        Failure::Refused(at)
    }
}

/// Opcodes, the low byte of the first dword.
mod op {
    pub(super) const NOP: u32 = 0;
    pub(super) const COPY: u32 = 1;
    pub(super) const WRITE: u32 = 2;
    pub(super) const FENCE: u32 = 5;
    pub(super) const TRAP: u32 = 6;
    pub(super) const POLL_REGMEM: u32 = 8;
    pub(super) const ATOMIC: u32 = 10;
    pub(super) const CONST_FILL: u32 = 11;
    pub(super) const TIMESTAMP: u32 = 13;
    pub(super) const GCR: u32 = 17;
}

impl SdmaQueue {
    /// A queue of a GPU.
    pub(crate) fn new(info: RingInfo, gpu: Arc<Gpu>) -> SdmaQueue {
        let view = View::new(gpu.space.clone());
        SdmaQueue { info, gpu, view, read: 0, copied: 0, completions: 0, active: true, failed: false }
    }

    /// Dword `n` of the packet at the read index.
    fn dword(&mut self, n: u64) -> Result<u32, Refused> {
        let at = self.info.ring + (self.read + 4 * n) % self.info.bytes;
        Ok(self.view.word32(at, false)?.load(Ordering::Relaxed))
    }

    fn address(&mut self, n: u64) -> Result<u64, Refused> {
        Ok(u64::from(self.dword(n)?) | u64::from(self.dword(n + 1)?) << 32)
    }

    /// Executes (a part of) the packet at the read index.
    fn step(&mut self) -> Result<Step, Failure> {
        let header = self.dword(0)?;
        let sub_op = header >> 8 & 0xff;
        match header & 0xff {
            op::NOP => Ok(Step::Done(1 + u64::from(header >> 16 & 0x3fff))),
            op::COPY if sub_op == 0 => self.copy_linear(),
            op::COPY if sub_op == 4 => self.copy_rectangle(header >> 29),
            op::WRITE if sub_op == 0 => {
                let (to, count) = (self.address(1)?, u64::from(self.dword(3)? & 0xf_ffff) + 1);
                for n in 0..count {
                    let value = self.dword(4 + n)?;
                    self.view.write(to.wrapping_add(4 * n), &value.to_le_bytes())?;
                }
                Ok(Step::Done(4 + count))
            }
            op::FENCE => {
                let (to, data) = (self.address(1)?, self.dword(3)?);
                self.view.word32(to, true)?.store(data, Ordering::Release);
                Ok(Step::Done(4))
            }
            op::TRAP => {
                let event = self.dword(1)?;
                self.gpu.driver.raise_event(event & 0xfff_ffff);
                Ok(Step::Done(2))
            }
            op::POLL_REGMEM => self.poll(header),
            op::ATOMIC => {
                /// The only atomic that the runtime sends: a 64-bit addition that returns nothing.
                const ADD64: u32 = 47;
                if header >> 25 != ADD64 {
                    return Err(Failure::Unknown);
                }
                let (at, data) = (self.address(1)?, self.address(3)?);
                self.completions += 1;
                if self.gpu.driver.loses_copies().is_some_and(|every| self.completions.is_multiple_of(every)) {
                    self.gpu.driver.log(&format!("queue {}: the completion of a copy is lost", self.info.id));
                    return Ok(Step::Done(8));
                }
                self.view.word64(at, true)?.fetch_add(data, Ordering::AcqRel);
                Ok(Step::Done(8))
            }
            op::CONST_FILL => {
                let (to, value, bytes) =
                    (self.address(1)?, self.dword(3)?, u64::from(self.dword(4)? & 0x3fff_ffff) + 4);
                if header >> 30 != 2 {
                    return Err(Failure::Unknown);
                }
                let part = (bytes - self.copied).min(CHUNK);
                self.view.fill(to.wrapping_add(self.copied), value, part)?;
                self.gpu.clock.copied(part);
                Ok(self.part(part, bytes, 5))
            }
            op::TIMESTAMP if sub_op == 2 => {
                let to = self.address(1)?;
                self.view.word64(to, true)?.store(self.gpu.clock.ticks(), Ordering::Release);
                Ok(Step::Done(3))
            }
            op::GCR => Ok(Step::Done(5)),
            _ => Err(Failure::Unknown),
        }
    }

    /// Counts copied bytes; the packet of `dwords` is done when all are.
    fn part(&mut self, part: u64, total: u64, dwords: u64) -> Step {
        self.copied += part;
        if self.copied < total {
            return Step::Part;
        }
        self.copied = 0;
        Step::Done(dwords)
    }

    fn copy_linear(&mut self) -> Result<Step, Failure> {
        let bytes = u64::from(self.dword(1)? & 0x3fff_ffff) + 1;
        let (from, to) = (self.address(3)?, self.address(5)?);
        let part = (bytes - self.copied).min(CHUNK);
        self.view.copy(from.wrapping_add(self.copied), to.wrapping_add(self.copied), part)?;
        self.gpu.clock.copied(part);
        Ok(self.part(part, bytes, 7))
    }

    /// A box of elements out of one pitched buffer into another.
    fn copy_rectangle(&mut self, element_log2: u32) -> Result<Step, Failure> {
        let side = |base: u64, p1: u32, p2: u32, p3: u32| {
            let (x, y, z) = (p1 & 0x3fff, p1 >> 16 & 0x3fff, p2 & 0x7ff);
            let (pitch, slice) = (u64::from(p2 >> 13) + 1, u64::from(p3 & 0xfff_ffff) + 1);
            let offset = u64::from(x) + u64::from(y) * pitch + u64::from(z) * slice;
            (base.wrapping_add(offset << element_log2), pitch << element_log2, slice << element_log2)
        };
        let (source_base, target_base) = (self.address(1)?, self.address(6)?);
        let (from, from_pitch, from_slice) = side(source_base, self.dword(3)?, self.dword(4)?, self.dword(5)?);
        let (to, to_pitch, to_slice) = side(target_base, self.dword(8)?, self.dword(9)?, self.dword(10)?);
        let (p1, p2) = (self.dword(11)?, self.dword(12)?);
        let width = u64::from((p1 & 0x3fff) + 1) << element_log2;
        for z in 0..=u64::from(p2 & 0x7ff) {
            for y in 0..=u64::from(p1 >> 16 & 0x3fff) {
                let [from, to] =
                    [from.wrapping_add(y * from_pitch + z * from_slice), to.wrapping_add(y * to_pitch + z * to_slice)];
                self.view.copy(from, to, width)?;
                self.gpu.clock.copied(width);
            }
        }
        Ok(Step::Done(13))
    }

    fn poll(&mut self, header: u32) -> Result<Step, Failure> {
        // Without the memory bit it flushes the host data path, which is coherent here.
        if header >> 31 == 0 {
            return Ok(Step::Done(6));
        }
        let at = self.address(1)?;
        let (reference, mask) = (self.dword(3)?, self.dword(4)?);
        let value = self.view.word32(at, false)?.load(Ordering::Acquire) & mask;
        let is_met = meets(header >> 28 & 7, value, reference).ok_or(Failure::Unknown)?;
        Ok(if is_met { Step::Done(6) } else { Step::Wait })
    }

    fn fail(&mut self, failure: &Failure) {
        self.failed = true;
        match failure {
            Failure::Refused(at) => {
                let header = self.dword(0).unwrap_or(0);
                let doing = format!("SDMA packet {header:#010x}");
                self.gpu.driver.memory_fault(&MemoryFault::new(self.info.id, *at, &doing, &self.gpu.space));
            }
            Failure::Unknown => {
                let header = self.dword(0).unwrap_or(0);
                self.gpu.driver.log(&format!("queue {}: SDMA packet {header:#010x} is not implemented", self.info.id));
                self.gpu.driver.queue_error(self.info.id, &QueueError::Packet(PacketError::Type));
            }
        }
    }
}

impl Queue for SdmaQueue {
    fn id(&self) -> u32 {
        self.info.id
    }

    fn pump(&mut self, _worker: &mut Worker) -> Progress {
        if self.failed || !self.active {
            return Progress::Idle;
        }
        let mut progress = Progress::Idle;
        while self.read < self.info.doorbell.read() {
            // Every packet: the application may map other memory at an address, or unmap its own, as soon as the packet
            // before is done.
            self.view.refresh();
            self.view.distrust();
            match self.step() {
                Ok(Step::Done(dwords)) => {
                    self.read += 4 * dwords;
                    match self.view.word64(self.info.read_pointer, true) {
                        Ok(pointer) => pointer.store(self.read, Ordering::Release),
                        Err(at) => self.fail(&Failure::Refused(at)),
                    }
                    progress = Progress::Done;
                }
                Ok(Step::Part) => return Progress::Done,
                Ok(Step::Wait) => return progress.max(Progress::Waiting),
                Err(failure) => {
                    self.fail(&failure);
                    return Progress::Done;
                }
            }
        }
        progress
    }

    fn set_active(&mut self, active: bool) {
        self.active = active;
    }

    fn abandon(&mut self) -> Vec<Arc<Dispatch>> {
        self.failed = true;
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicU64;
    use std::time::{Duration, Instant};

    use amdgpu_isa::Arch;

    use super::*;
    use crate::clock::Clock;
    use crate::driver::{CompletedPacket, Driver};
    use crate::engine::Engine;
    use crate::memory::tests::memory;
    use crate::memory::{AddressSpace, Backing};
    use crate::queue::Doorbell;
    use crate::shape::Shape;

    const RING: u64 = 0x10_0000;
    const SOURCE: u64 = 0x20_0000;
    const TARGETS: u64 = 0x30_0000;

    /// Maps other memory at `SOURCE` when an event is raised, as an application does that was waiting for it.
    struct Remapping {
        space: OnceLock<Arc<AddressSpace>>,
        other: Backing,
    }

    impl Driver for Remapping {
        fn raise_event(&self, _id: u32) {
            if let Some(space) = self.space.get() {
                space.map(SOURCE, self.other.clone(), true);
            }
        }
        fn wave_interrupt(&self, _id: u32) {}
        fn memory_fault(&self, fault: &MemoryFault) {
            panic!("{fault:?}");
        }
        fn queue_error(&self, _queue: u32, error: &QueueError) {
            panic!("{error:?}");
        }
        fn log(&self, _line: &str) {}
        fn wants_trace(&self) -> bool {
            false
        }
        fn trace(&self, _packet: &CompletedPacket) {}
    }

    #[test]
    fn a_packet_sees_what_was_mapped_when_the_packet_before_it_was_done() {
        let other = memory(4096);
        let driver = Arc::new(Remapping { space: OnceLock::new(), other: other.clone() });
        let gpu = Arc::new(Gpu::new(0, Shape::new(Arch::Gfx90a, true, 1), Arc::new(Clock::real()), driver.clone()));
        let space = gpu.space.clone();
        assert!(driver.space.set(space.clone()).is_ok());
        let mut view = View::new(space.clone());
        space.map(SOURCE, other, true);
        view.write(SOURCE, &[2; 8]).expect("mapped");
        space.map(SOURCE, memory(4096), true);
        space.map(RING, memory(8192), true);
        space.map(TARGETS, memory(4096), true);
        view.refresh();
        view.write(SOURCE, &[1; 8]).expect("mapped");

        let copy = |to: u64| [op::COPY, 7, 0, SOURCE as u32, 0, to as u32, 0];
        let mut words = copy(TARGETS).to_vec();
        words.extend([op::TRAP, 1]);
        words.extend(copy(TARGETS + 8));
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        view.write(RING, &bytes).expect("mapped");
        let rung = Arc::new(AtomicU64::new(bytes.len() as u64));
        // SAFETY: the atomic lives as long as its Arc, which the doorbell keeps.
        let doorbell = unsafe { Doorbell::new(Arc::as_ptr(&rung), rung.clone()) };
        let read_pointer = RING + 4096;
        let engine = Engine::start(1, None).expect("a thread");
        engine.add_sdma(RingInfo { id: 1, ring: RING, bytes: 4096, read_pointer, doorbell }, gpu);

        let began = Instant::now();
        let done = |view: &mut View| view.word64(read_pointer, false).expect("mapped").load(Ordering::Acquire);
        while done(&mut view) < bytes.len() as u64 {
            assert!(began.elapsed() < Duration::from_secs(60), "the engine does not get on");
            std::thread::yield_now();
        }
        let mut copied = [0; 16];
        view.read(TARGETS, &mut copied).expect("mapped");
        assert_eq!((&copied[..8], &copied[8..]), (&[1; 8][..], &[2; 8][..]));
    }
}
