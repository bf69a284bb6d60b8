//! PM4: the commands of indirect buffers in AQL queues, and of queues that have nothing else.
//!
//! Sources: AMD's published PM4 definitions of gfx9 (`soc15d.h` and `kfd_pm4_headers_ai.h` of the kernel) and its register lists.
//!
//! On hardware each die of a GPU executes the commands of its queue. Here one executor does it for all of them: `PRED_EXEC` leaves out
//! what is for none of the GPU's dies. Registers have the value that was set last, also where each die would have one of its own: that of
//! scratch, which workgroups get from the machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hsa_sys::abi::aql::Packet;
use hsa_sys::abi::kernel_descriptor::KernelDescriptor;

use super::{Progress, Queue, RingInfo};
use crate::dispatch::{Dispatch, Moment};
use crate::driver::{MemoryFault, PacketError, QueueError};
use crate::engine::{Job, Worker};
use crate::gpu::Gpu;
use crate::launch::{Launch, MAX_WORKGROUP, USER_DATA};
use crate::memory::{Refused, View};
use crate::units::Units;

/// Opcodes of commands.
mod opcode {
    pub(super) const NOP: u32 = 0x10;
    pub(super) const DISPATCH_DIRECT: u32 = 0x15;
    pub(super) const PRED_EXEC: u32 = 0x23;
    pub(super) const WRITE_DATA: u32 = 0x37;
    pub(super) const WAIT_REG_MEM: u32 = 0x3c;
    pub(super) const INDIRECT_BUFFER: u32 = 0x3f;
    pub(super) const EVENT_WRITE: u32 = 0x46;
    pub(super) const RELEASE_MEM: u32 = 0x49;
    pub(super) const ACQUIRE_MEM: u32 = 0x58;
    pub(super) const SET_SH_REG: u32 = 0x76;
}

/// Registers, by the addresses that commands name them by.
mod register {
    /// Where those of `SET_SH_REG` begin.
    pub(super) const SH: u32 = 0x2c00;
    pub(super) const START: u32 = 0x2e04;
    pub(super) const NUM_THREAD: u32 = 0x2e07;
    pub(super) const PGM: u32 = 0x2e0c;
    pub(super) const PGM_RSRC1: u32 = 0x2e12;
    pub(super) const PGM_RSRC2: u32 = 0x2e13;
    pub(super) const PGM_RSRC3: u32 = 0x2e2d;
    pub(super) const TMPRING_SIZE: u32 = 0x2e18;
    pub(super) const USER_DATA: u32 = 0x2e40;
    /// `BIF_BX_PF0_GPU_HDP_FLUSH_REQ` and `_DONE`: the host's writes are visible at once here.
    pub(super) const FLUSH: [u64; 2] = [0xe26, 0xe27];
    /// Those that have an effect here, or can have none: start, threads, program, scratch, limits, restart, user data. Masks of units and
    /// everything of tracing is not among them, and counters only where they are switched off.
    pub(super) fn is_known(address: u32, value: u32) -> bool {
        match address {
            0x2e04..=0x2e09 | 0x2e0c..=0x2e0d | 0x2e10..=0x2e13 | 0x2e15 | 0x2e18 | 0x2e1b..=0x2e1d | 0x2e2d => true,
            0x2e40..=0x2e4f => true,
            0x2e0a | 0x2e0b => value == 0,
            _ => false,
        }
    }
}

/// Commands that follow each other in memory.
#[derive(Clone, Debug)]
struct Frame {
    address: u64,
    /// The next command, in dwords from the beginning.
    at: u64,
    end: u64,
    /// Dwords after which the memory begins again: those of a ring.
    ring: u64,
}

impl Frame {
    fn word(&self, view: &mut View, n: u64) -> Result<u32, Refused> {
        let place = self.address.wrapping_add((self.at + n) % self.ring * 4);
        Ok(view.word32(place, false)?.load(Ordering::Acquire))
    }

    fn word64(&self, view: &mut View, n: u64) -> Result<u64, Refused> {
        Ok(u64::from(self.word(view, n)?) | u64::from(self.word(view, n + 1)?) << 32)
    }
}

/// Why commands are not executed on.
pub(crate) enum Pause {
    /// There are none.
    Done,
    /// Something has to happen first.
    Wait,
    /// A kernel is to be run, and commands behind it may be executed meanwhile.
    Launch(Box<Launch>),
    /// A command, in words.
    NotImplemented(String),
    /// What a dispatch asks for makes no sense.
    Refused(PacketError),
}

/// What a command did.
enum Step {
    /// Go on behind so many dwords.
    Next(u64),
    /// Go on in a buffer that the command, of so many dwords, names.
    Call(u64, Frame),
    Launch(u64, Box<Launch>),
    Stop(Pause),
}

/// The executor of a queue's commands, and its registers.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    frames: Vec<Frame>,
    registers: BTreeMap<u32, u32>,
    /// How many kernels have been launched.
    number: u64,
}

impl Commands {
    /// True when there is nothing to go on with.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Begins with a buffer.
    pub(crate) fn begin(&mut self, address: u64, dwords: u32) {
        self.frames = vec![Frame { address, at: 0, end: dwords.into(), ring: u64::MAX }];
    }

    /// Executes until there is a reason not to. `idle` says that no kernel of the queue runs.
    pub(crate) fn run(&mut self, view: &mut View, gpu: &Gpu, idle: bool) -> Result<Pause, Refused> {
        loop {
            let Some(frame) = self.frames.last().cloned() else { return Ok(Pause::Done) };
            if frame.at >= frame.end {
                if self.frames.len() == 1 && frame.ring != u64::MAX {
                    return Ok(Pause::Done);
                }
                self.frames.pop();
                continue;
            }
            let step = self.step(&frame, view, gpu, idle)?;
            let (length, called, launch) = match step {
                Step::Stop(pause) => return Ok(pause),
                Step::Next(length) => (length, None, None),
                Step::Call(length, frame) => (length, Some(frame), None),
                Step::Launch(length, launch) => (length, None, Some(launch)),
            };
            if let Some(frame) = self.frames.last_mut() {
                frame.at += length;
            }
            self.frames.extend(called);
            if let Some(launch) = launch {
                return Ok(Pause::Launch(launch));
            }
        }
    }

    fn step(&mut self, frame: &Frame, view: &mut View, gpu: &Gpu, idle: bool) -> Result<Step, Refused> {
        let header = frame.word(view, 0)?;
        let (kind, opcode, count) = (header >> 30, header >> 8 & 0xff, u64::from(header >> 16 & 0x3fff));
        let length = match (kind, opcode) {
            // Padding of one dword.
            (2, _) => return Ok(Step::Next(1)),
            (3, opcode::NOP) if count == 0x3fff => return Ok(Step::Next(1)),
            (3, _) => count + 2,
            _ => return Ok(not_implemented(header, "no command")),
        };
        if frame.at + length > frame.end {
            return Ok(not_implemented(header, "longer than its buffer"));
        }
        let next = Ok(Step::Next(length));
        match opcode {
            // Waits for caches; there are none here, and code is compared with memory at every dispatch.
            opcode::NOP | opcode::ACQUIRE_MEM => next,
            opcode::INDIRECT_BUFFER if length == 4 => {
                let (address, control) = (frame.word64(view, 1)?, frame.word(view, 3)?);
                let called = Frame { address: address & !3, at: 0, end: u64::from(control & 0xf_ffff), ring: u64::MAX };
                if self.frames.len() > 2 {
                    Ok(not_implemented(header, "buffers in buffers in buffers"))
                } else {
                    Ok(Step::Call(length, called))
                }
            }
            opcode::PRED_EXEC if length == 2 => {
                let word = frame.word(view, 1)?;
                let dies = 1u32.checked_shl(gpu.shape.dies.count).map_or(u32::MAX, |bit| bit - 1);
                let skipped = if word >> 24 & dies == 0 { u64::from(word & 0x3fff) } else { 0 };
                Ok(Step::Next(length + skipped))
            }
            opcode::SET_SH_REG => {
                let first = register::SH + (frame.word(view, 1)? & 0xffff);
                for n in 0..count {
                    let address = first + n as u32;
                    let value = frame.word(view, 2 + n)?;
                    if !register::is_known(address, value) {
                        return Ok(not_implemented(header, &format!("register {address:#x} with {value:#x}")));
                    }
                    self.registers.insert(address, value);
                }
                next
            }
            opcode::WAIT_REG_MEM if length == 7 => self.wait(frame, header, view, length),
            opcode::EVENT_WRITE => {
                /// Waits until kernels have ended.
                const CS_PARTIAL_FLUSH: u32 = 7;
                match frame.word(view, 1)? & 0x3f {
                    CS_PARTIAL_FLUSH if idle => next,
                    CS_PARTIAL_FLUSH => Ok(Step::Stop(Pause::Wait)),
                    event => Ok(not_implemented(header, &format!("event {event}"))),
                }
            }
            opcode::RELEASE_MEM if length >= 7 => {
                if !idle {
                    return Ok(Step::Stop(Pause::Wait));
                }
                release(frame, header, view, gpu, length)
            }
            opcode::WRITE_DATA if length > 4 => {
                /// Memory, directly or by its cache; addresses count on.
                const MEMORY: [u32; 2] = [2, 5];
                let control = frame.word(view, 1)?;
                if !MEMORY.contains(&(control >> 8 & 15)) || control >> 16 & 1 == 1 {
                    return Ok(not_implemented(header, &format!("control {control:#x}")));
                }
                let to = frame.word64(view, 2)?;
                for n in 0..length - 4 {
                    let word = frame.word(view, 4 + n)?;
                    view.word32(to.wrapping_add(4 * n), true)?.store(word, Ordering::Release);
                }
                next
            }
            opcode::DISPATCH_DIRECT if length == 5 => {
                let groups = [frame.word(view, 1)?, frame.word(view, 2)?, frame.word(view, 3)?];
                let initiator = frame.word(view, 4)?;
                self.number += 1;
                Ok(match self.launch(groups, initiator, view, gpu)? {
                    Ok(launch) => Step::Launch(length, Box::new(launch)),
                    Err(pause) => Step::Stop(pause),
                })
            }
            _ => Ok(not_implemented(header, "command")),
        }
    }

    /// `WAIT_REG_MEM`: of memory, and of the pair of registers that makes the host's writes visible.
    fn wait(&mut self, frame: &Frame, header: u32, view: &mut View, length: u64) -> Result<Step, Refused> {
        let control = frame.word(view, 1)?;
        let (function, memory, operation) = (control & 7, control >> 4 & 3 == 1, control >> 6 & 3);
        if !memory {
            let registers = [frame.word(view, 2)?.into(), frame.word(view, 3)?.into()];
            return Ok(match (operation, registers) {
                (1, register::FLUSH) => Step::Next(length),
                _ => not_implemented(header, &format!("registers {:#x} and {:#x}", registers[0], registers[1])),
            });
        }
        let address = frame.word64(view, 2)? & !3;
        let (reference, mask) = (frame.word(view, 4)?, frame.word(view, 5)?);
        let value = view.word32(address, false)?.load(Ordering::Acquire) & mask;
        let holds = match function {
            0 => true,
            1 => value < reference,
            2 => value <= reference,
            3 => value == reference,
            4 => value != reference,
            5 => value >= reference,
            6 => value > reference,
            _ => return Ok(not_implemented(header, "comparison 7")),
        };
        Ok(if holds { Step::Next(length) } else { Step::Stop(Pause::Wait) })
    }

    fn register(&self, address: u32) -> u32 {
        self.registers.get(&address).copied().unwrap_or_default()
    }

    fn three(&self, first: u32) -> [u32; 3] {
        std::array::from_fn(|d| self.register(first + d as u32))
    }

    /// A dispatch by the registers.
    fn launch(
        &self,
        groups: [u32; 3],
        initiator: u32,
        view: &mut View,
        gpu: &Gpu,
    ) -> Result<Result<Launch, Pause>, Refused> {
        /// `COMPUTE_SHADER_EN`, and `FORCE_START_AT_000`.
        const PLAIN: u32 = 1 | 1 << 2;
        let arch = gpu.shape.arch;
        let threads = self.three(register::NUM_THREAD);
        if initiator & !PLAIN != 0
            || initiator & 1 == 0
            || self.three(register::START) != [0; 3]
            || threads.iter().any(|n| n >> 16 != 0)
        {
            return Ok(Err(Pause::NotImplemented(format!(
                "a dispatch with initiator {initiator:#x}, start {:?}, threads {threads:x?}",
                self.three(register::START)
            ))));
        }
        let items: u64 = threads.iter().map(|&n| u64::from(n)).product();
        let grid: [Option<u32>; 3] = std::array::from_fn(|d| groups[d].checked_mul(threads[d]));
        let [Some(x), Some(y), Some(z)] = grid else { return Ok(Err(Pause::Refused(PacketError::Dimensions))) };
        if items == 0 || items > u64::from(MAX_WORKGROUP) || groups.contains(&0) {
            return Ok(Err(Pause::Refused(PacketError::Dimensions)));
        }
        let [rsrc1, rsrc2, rsrc3] =
            [register::PGM_RSRC1, register::PGM_RSRC2, register::PGM_RSRC3].map(|name| self.register(name));
        // Source: AMDGPUUsage, `compute_pgm_rsrc2`, GRANULATED_LDS_SIZE: in units of 128 dwords.
        let lds = (rsrc2 >> 15 & 0x1ff) * 512;
        if lds > arch.row().target.lds {
            return Ok(Err(Pause::Refused(PacketError::GroupSegment)));
        }
        // WAVESIZE of `COMPUTE_TMPRING_SIZE`: 1024 bytes of a wave's scratch each.
        let scratch =
            if rsrc2 & 1 == 1 { (self.register(register::TMPRING_SIZE) >> 12 & 0x1fff) * 1024 / 64 } else { 0 };
        let entry =
            u64::from(self.register(register::PGM)) << 8 | u64::from(self.register(register::PGM + 1) & 0xff) << 40;
        if view.translate(entry, 4, false).is_none() {
            return Ok(Err(Pause::Refused(PacketError::CodeObject)));
        }
        let descriptor = KernelDescriptor {
            group_segment_fixed_size: lds,
            private_segment_fixed_size: scratch,
            kernarg_size: 0,
            entry_offset: 0,
            rsrc3,
            rsrc1,
            rsrc2,
            properties: 0,
            kernarg_preload: 0,
        };
        if arch.unified_registers() && descriptor.accum_offset() > 256 {
            return Ok(Err(Pause::Refused(PacketError::Resources)));
        }
        let user_data: [u32; USER_DATA] = std::array::from_fn(|n| self.register(register::USER_DATA + n as u32));
        let mut packet = Packet([0; 16]);
        // As an AQL packet would say it, for those who look at dispatches: three dimensions, and its sizes.
        packet.0[..8].copy_from_slice(&[2 | 3 << 16, threads[0] | threads[1] << 16, threads[2], x, y, z, scratch, lds]);
        Ok(Ok(Launch {
            packet,
            packet_id: self.number,
            packet_address: 0,
            queue_address: 0,
            kernel_object: 0,
            kernarg_address: 0,
            completion_signal: 0,
            descriptor,
            entry,
            grid: [x, y, z],
            workgroup: threads,
            workgroups: groups,
            lds,
            scratch,
            user_data: Some(Box::new(user_data)),
        }))
    }
}

fn not_implemented(header: u32, what: &str) -> Step {
    Step::Stop(Pause::NotImplemented(format!("PM4 command {header:#010x}: {what}")))
}

/// `RELEASE_MEM`: after everything before, writes a value or a time, and raises an interrupt if that is asked for.
fn release(frame: &Frame, header: u32, view: &mut View, gpu: &Gpu, length: u64) -> Result<Step, Refused> {
    let control = frame.word(view, 2)?;
    let (to, data) = (frame.word64(view, 3)?, frame.word64(view, 5)?);
    match control >> 29 {
        0 => {}
        1 => view.word32(to & !3, true)?.store(data as u32, Ordering::Release),
        2 => view.word64(to & !7, true)?.store(data, Ordering::Release),
        // The GPU's clock, and what is the same clock here.
        3 | 4 => view.word64(to & !7, true)?.store(gpu.clock.ticks(), Ordering::Release),
        other => return Ok(not_implemented(header, &format!("data {other}"))),
    }
    match control >> 24 & 7 {
        0 | 3 => {}
        1 | 2 => {
            let context = if length > 7 { frame.word(view, 7)? } else { 0 };
            gpu.driver.wave_interrupt(context);
        }
        other => return Ok(not_implemented(header, &format!("interrupt {other}"))),
    }
    Ok(Step::Next(length))
}

/// A queue of PM4 commands.
pub(crate) struct Pm4Queue {
    info: RingInfo,
    gpu: Arc<Gpu>,
    view: View,
    commands: Commands,
    running: Vec<Arc<Dispatch>>,
    units: Arc<Units>,
    active: bool,
    failed: bool,
}

impl Pm4Queue {
    /// A queue of a GPU.
    pub(crate) fn new(info: RingInfo, gpu: Arc<Gpu>) -> Pm4Queue {
        let view = View::new(gpu.space.clone());
        let units = Arc::new(Units::all(gpu.shape.dies));
        let ring = Frame { address: info.ring, at: 0, end: 0, ring: (info.bytes / 4).max(1) };
        let commands = Commands { frames: vec![ring], ..Commands::default() };
        Pm4Queue { info, gpu, view, commands, running: Vec::new(), units, active: true, failed: false }
    }

    /// Executes what the doorbell covers; what comes of it.
    fn advance(&mut self, worker: &mut Worker) -> Result<Progress, Refused> {
        let mut progress = Progress::Idle;
        let rung = self.info.doorbell.read();
        if let Some(ring) = self.commands.frames.first_mut() {
            ring.end = ring.end.max(rung);
        }
        loop {
            self.failed |= self.running.iter().any(|dispatch| dispatch.has_failed());
            self.running.retain(|dispatch| !dispatch.is_complete());
            let idle = self.running.is_empty();
            if self.failed {
                return Ok(Progress::Done);
            }
            let before = self.position();
            let pause = self.commands.run(&mut self.view, &self.gpu, idle)?;
            if self.position() != before {
                progress = Progress::Done;
                let place = self.position() % (self.info.bytes / 4);
                self.view.word32(self.info.read_pointer, true)?.store(place as u32, Ordering::Release);
            }
            match pause {
                Pause::Done if idle => return Ok(progress),
                Pause::Done | Pause::Wait => return Ok(progress.max(Progress::Waiting)),
                Pause::Launch(launch) => self.launch(*launch, worker),
                Pause::NotImplemented(what) => {
                    self.gpu.driver.log(&format!("queue {}: {what} is not implemented", self.info.id));
                    self.stop(PacketError::Type);
                }
                Pause::Refused(error) => self.stop(error),
            }
            progress = Progress::Done;
        }
    }

    /// How much of the ring has been executed.
    fn position(&self) -> u64 {
        self.commands.frames.first().map_or(0, |ring| ring.at)
    }

    fn launch(&mut self, launch: Launch, worker: &mut Worker) {
        let capacity = self.gpu.capacity(&launch, self.units.count());
        let start = self.gpu.clock.ticks();
        let dispatch = Dispatch::new(launch, self.units.clone(), start, capacity, Moment::now(), self.gpu.draw());
        let dispatch = Arc::new(dispatch);
        self.running.push(dispatch.clone());
        worker.begin(Job { gpu: self.gpu.clone(), queue: self.info.id, profiling: false, dispatch });
    }

    fn stop(&mut self, error: PacketError) {
        self.failed = true;
        self.gpu.driver.queue_error(self.info.id, &QueueError::Packet(error));
    }
}

impl Queue for Pm4Queue {
    fn id(&self) -> u32 {
        self.info.id
    }

    fn pump(&mut self, worker: &mut Worker) -> Progress {
        if self.failed || !self.active {
            return Progress::Idle;
        }
        self.view.refresh();
        match self.advance(worker) {
            Ok(progress) => progress,
            Err(refused) => {
                self.failed = true;
                let fault = MemoryFault::new(self.info.id, refused, "a PM4 command", &self.gpu.space);
                self.gpu.driver.memory_fault(&fault);
                Progress::Done
            }
        }
    }

    fn set_active(&mut self, active: bool) {
        self.active = active;
    }

    fn set_compute_units(&mut self, mask: &[u32]) {
        self.units = Arc::new(Units::masked(self.gpu.shape.dies, mask));
    }

    fn abandon(&mut self) -> Vec<Arc<Dispatch>> {
        self.failed = true;
        self.gpu.remaps.fetch_add(1, Ordering::Relaxed);
        let running = std::mem::take(&mut self.running);
        running.iter().for_each(|dispatch| dispatch.cancel());
        running
    }
}
