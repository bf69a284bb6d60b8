//! What commands do.

use std::sync::atomic::Ordering;

use hsa_sys::abi::aql::Packet;
use hsa_sys::abi::kernel_descriptor::KernelDescriptor;

use super::super::meets;
use super::registers::{self, Registers};
use crate::driver::PacketError;
use crate::gpu::Gpu;
use crate::launch::{Launch, MAX_WORKGROUP, USER_DATA};
use crate::memory::{Refused, View};

/// So many commands are executed at most while the other queues wait. Buffers that call each other can have a million times as many.
const SLICE: u32 = 1 << 14;

/// Opcodes of commands.
mod opcode {
    pub(super) const NOP: u32 = 0x10;
    pub(super) const DISPATCH_DIRECT: u32 = 0x15;
    pub(super) const DISPATCH_INDIRECT: u32 = 0x16;
    pub(super) const PRED_EXEC: u32 = 0x23;
    pub(super) const WRITE_DATA: u32 = 0x37;
    pub(super) const WAIT_REG_MEM: u32 = 0x3c;
    pub(super) const INDIRECT_BUFFER: u32 = 0x3f;
    pub(super) const COPY_DATA: u32 = 0x40;
    pub(super) const EVENT_WRITE: u32 = 0x46;
    pub(super) const RELEASE_MEM: u32 = 0x49;
    pub(super) const ACQUIRE_MEM: u32 = 0x58;
    pub(super) const SET_SH_REG: u32 = 0x76;
    pub(super) const SET_UCONFIG_REG: u32 = 0x79;
}

/// Commands that follow each other in memory.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    address: u64,
    /// The next command, in dwords from the beginning.
    pub(super) at: u64,
    pub(super) end: u64,
    /// Dwords after which the memory begins again: those of a ring.
    ring: u64,
    /// Which dies execute the commands, a bit each, and those before a place. `PRED_EXEC` says the latter.
    dies: u32,
    some: (u64, u32),
}

impl Frame {
    fn new(address: u64, end: u64, ring: u64, dies: u32) -> Frame {
        Frame { address, at: 0, end, ring, dies, some: (0, 0) }
    }

    /// A ring of so many dwords.
    pub(super) fn ring(address: u64, dwords: u64) -> Frame {
        Frame::new(address, 0, dwords.max(1), u32::MAX)
    }

    /// The dies that execute the next command, of so many.
    fn dies(&self, count: u32) -> u32 {
        let there = 1u32.checked_shl(count).map_or(u32::MAX, |bit| bit - 1);
        there & if self.at < self.some.0 { self.some.1 } else { self.dies }
    }

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
    /// There are more, but others have been kept waiting.
    Slice,
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
    /// The first one is the ring, of queues that have one.
    pub(super) frames: Vec<Frame>,
    registers: Registers,
    /// How many kernels have been launched.
    number: u64,
}

impl Commands {
    /// Those of a queue that has nothing else.
    pub(super) fn of_ring(ring: Frame) -> Commands {
        Commands { frames: vec![ring], ..Commands::default() }
    }

    /// True when there is nothing to go on with.
    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Begins with a buffer.
    pub(crate) fn begin(&mut self, address: u64, dwords: u32) {
        self.frames = vec![Frame::new(address, dwords.into(), u64::MAX, u32::MAX)];
    }

    /// True when counters count the queue's dispatches.
    pub(crate) fn counts(&self) -> bool {
        self.registers.counts()
    }

    /// Executes until there is a reason not to. `idle` says that no kernel of the queue runs.
    pub(crate) fn run(&mut self, view: &mut View, gpu: &Gpu, idle: bool) -> Result<Pause, Refused> {
        for _ in 0..SLICE {
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
        Ok(Pause::Slice)
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
                let dies = frame.dies(gpu.shape.dies.count);
                let called = Frame::new(address & !3, u64::from(control & 0xf_ffff), u64::MAX, dies);
                if self.frames.len() > 2 {
                    Ok(not_implemented(header, "buffers in buffers in buffers"))
                } else {
                    Ok(Step::Call(length, called))
                }
            }
            opcode::PRED_EXEC if length == 2 => {
                let word = frame.word(view, 1)?;
                let (some, covered) = (word >> 24 & frame.dies(gpu.shape.dies.count), u64::from(word & 0x3fff));
                if some == 0 {
                    return Ok(Step::Next(length + covered));
                }
                if let Some(frame) = self.frames.last_mut() {
                    frame.some = (frame.at + length + covered, some);
                }
                next
            }
            opcode::SET_SH_REG | opcode::SET_UCONFIG_REG => {
                let space = if opcode == opcode::SET_SH_REG { registers::SHADER } else { registers::CONFIGURATION };
                let first = space.start + (frame.word(view, 1)? & 0xffff);
                for n in 0..count {
                    let (address, value) = (first + n as u32, frame.word(view, 2 + n)?);
                    if !space.contains(&address) {
                        return Ok(not_implemented(header, &format!("register {address:#x}")));
                    }
                    if let Err(what) = self.registers.set(address, value, &gpu.counters) {
                        return Ok(not_implemented(header, &what));
                    }
                }
                next
            }
            opcode::COPY_DATA if length == 6 => self.copy(frame, header, view, gpu),
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
                self.dispatch(groups, frame.word(view, 4)?, length, view, gpu)
            }
            opcode::DISPATCH_INDIRECT if length == 4 => {
                let from = frame.word64(view, 1)? & !3;
                let mut groups = [0; 3];
                for (place, group) in (from..).step_by(4).zip(&mut groups) {
                    *group = view.word32(place, false)?.load(Ordering::Acquire);
                }
                if groups.contains(&0) {
                    // What decides so at run time runs nothing.
                    return next;
                }
                self.dispatch(groups, frame.word(view, 3)?, length, view, gpu)
            }
            _ => Ok(not_implemented(header, "command")),
        }
    }

    /// `WAIT_REG_MEM`: of memory, and of the pair of registers that makes the host's writes visible.
    fn wait(&mut self, frame: &Frame, header: u32, view: &mut View, length: u64) -> Result<Step, Refused> {
        let control = frame.word(view, 1)?;
        let (function, memory, operation) = (control & 7, control >> 4 & 3 == 1, control >> 6 & 3);
        if !memory {
            let registers = [frame.word(view, 2)?, frame.word(view, 3)?];
            return Ok(match (operation, registers) {
                (1, registers::FLUSH) => Step::Next(length),
                _ => not_implemented(header, &format!("registers {:#x} and {:#x}", registers[0], registers[1])),
            });
        }
        let address = frame.word64(view, 2)? & !3;
        let (reference, mask) = (frame.word(view, 4)?, frame.word(view, 5)?);
        let value = view.word32(address, false)?.load(Ordering::Acquire) & mask;
        let Some(is_met) = meets(function, value, reference) else {
            return Ok(not_implemented(header, &format!("comparison {function}")));
        };
        Ok(if is_met { Step::Next(length) } else { Step::Stop(Pause::Wait) })
    }

    /// `COPY_DATA`: 32 or 64 bits, from and to registers or memory.
    fn copy(&mut self, frame: &Frame, header: u32, view: &mut View, gpu: &Gpu) -> Result<Step, Refused> {
        const LENGTH: u64 = 6;
        let control = frame.word(view, 1)?;
        let (source, target, wide) = (control & 15, control >> 8 & 15, control >> 16 & 1 == 1);
        let (from, to) = (frame.word64(view, 2)?, frame.word64(view, 4)?);
        let refused = |what: &str| Ok(not_implemented(header, what));
        let value = match source {
            // A register, also one of counters: those of the shader engine and of the die that are selected.
            0 | 4 => {
                let dies = frame.dies(gpu.shape.dies.count);
                let read = |n: u32| self.registers.read((from as u32 & 0x3_ffff) + n, dies, &gpu.counters);
                match (read(0), if wide { read(1) } else { Ok(0) }) {
                    (Ok(low), Ok(high)) => u64::from(low) | u64::from(high) << 32,
                    (Err(what), _) | (_, Err(what)) => return refused(&what),
                }
            }
            // Memory, directly or by its cache.
            1 | 2 if wide => view.word64(from & !7, false)?.load(Ordering::Acquire),
            1 | 2 => view.word32(from & !3, false)?.load(Ordering::Acquire).into(),
            5 => from,
            9 => gpu.clock.ticks(),
            other => return refused(&format!("source {other}")),
        };
        match target {
            0 => {
                let address = to as u32 & 0x3_ffff;
                for (address, value) in
                    (address..).zip([value as u32, (value >> 32) as u32]).take(1 + usize::from(wide))
                {
                    if let Err(what) = self.registers.set(address, value, &gpu.counters) {
                        return refused(&what);
                    }
                }
            }
            // Memory, directly or by its cache.
            2 | 5 if wide => view.word64(to & !7, true)?.store(value, Ordering::Release),
            2 | 5 => view.word32(to & !3, true)?.store(value as u32, Ordering::Release),
            other => return refused(&format!("target {other}")),
        }
        Ok(Step::Next(LENGTH))
    }

    /// A dispatch of so many workgroups, by a command of `length` dwords.
    fn dispatch(
        &mut self,
        groups: [u32; 3],
        initiator: u32,
        length: u64,
        view: &mut View,
        gpu: &Gpu,
    ) -> Result<Step, Refused> {
        self.number += 1;
        Ok(match self.launch(groups, initiator, view, gpu)? {
            Ok(launch) => Step::Launch(length, Box::new(launch)),
            Err(pause) => Step::Stop(pause),
        })
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
        let threads: [u32; 3] = self.registers.several(&registers::NUM_THREAD);
        let start: [u32; 3] = self.registers.several(&registers::START);
        if initiator & !PLAIN != 0 || initiator & 1 == 0 || start != [0; 3] || threads.iter().any(|n| n >> 16 != 0) {
            return Ok(Err(Pause::NotImplemented(format!(
                "a dispatch with initiator {initiator:#x}, start {start:?}, threads {threads:x?}"
            ))));
        }
        let items: u64 = threads.iter().map(|&n| u64::from(n)).product();
        let grid: [Option<u32>; 3] = std::array::from_fn(|d| groups[d].checked_mul(threads[d]));
        let [Some(x), Some(y), Some(z)] = grid else { return Ok(Err(Pause::Refused(PacketError::Dimensions))) };
        if items == 0 || items > u64::from(MAX_WORKGROUP) || groups.contains(&0) {
            return Ok(Err(Pause::Refused(PacketError::Dimensions)));
        }
        let [rsrc1, rsrc2, rsrc3] =
            [registers::PGM_RSRC1, registers::PGM_RSRC2, registers::PGM_RSRC3].map(|row| self.registers.get(&row));
        // Source: AMDGPUUsage, `compute_pgm_rsrc2`, GRANULATED_LDS_SIZE: in units of 128 dwords.
        let lds = (rsrc2 >> 15 & 0x1ff) * 512;
        if lds > arch.row().target.lds {
            return Ok(Err(Pause::Refused(PacketError::GroupSegment)));
        }
        // WAVESIZE of `COMPUTE_TMPRING_SIZE`: 1024 bytes of a wave's scratch each.
        let scratch =
            if rsrc2 & 1 == 1 { (self.registers.get(&registers::TMPRING_SIZE) >> 12 & 0x1fff) * 1024 / 64 } else { 0 };
        let [low, high] = self.registers.several(&registers::PGM);
        let entry = u64::from(low) << 8 | u64::from(high & 0xff) << 40;
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
        let user_data: [u32; USER_DATA] = self.registers.several(&registers::USER_DATA);
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
