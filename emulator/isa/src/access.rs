//! What a memory instruction is about to access: the addresses of its lanes, before it is executed.
//!
//! The families compute addresses with the functions that are used here, so that observers see what is executed.

use crate::env::Addresses;
use crate::inst::{Inst, control};
use crate::op::{Access, Family};
pub use crate::ops::ds::transposed::columns as transposed;
use crate::ops::vector_memory::{lanewise, m0_base};
use crate::ops::{ds, flat, mubuf, smem};
use crate::wave::{LANES, Wave};

/// Where accessed bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Space {
    /// Memory of the GPU, and scratch behind the machine's window: by address.
    Memory,
    /// LDS: by byte offset in the workgroup's allocation.
    Lds,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Does {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Reads and writes, in one step.
    Atomic,
}

/// One access of the lanes of a wave.
#[derive(Clone, Copy, Debug)]
pub struct LaneAccess {
    /// Where.
    pub space: Space,
    /// What it does.
    pub does: Does,
    /// The lanes that access; lane 0 for the scalar unit. Never empty.
    pub lanes: u64,
    /// The address of each lane's first byte.
    pub at: Addresses,
    /// Bytes of a lane: up to 16, up to 64 for the scalar unit.
    pub bytes: u8,
    /// Bytes from one dword of a lane to its next: 4, or more where lanes are interleaved.
    pub step: u32,
}

impl LaneAccess {
    /// A lane's accessed bytes, in pieces that lie together: address and length.
    pub fn pieces(&self, lane: usize) -> impl Iterator<Item = (u64, u8)> + use<> {
        let (at, bytes, step) = (self.at[lane], self.bytes, self.step);
        let apart = step != 4 && bytes > 4;
        let count = if apart { bytes.div_ceil(4) } else { 1 };
        let length = if apart { 4 } else { bytes };
        (0..count).map(move |n| (at.wrapping_add(u64::from(n) * u64::from(step)), length))
    }

    /// The lanes that access, lowest first.
    pub fn active(&self) -> impl Iterator<Item = usize> + use<> {
        let lanes = self.lanes;
        (0..LANES).filter(move |lane| lanes >> lane & 1 == 1)
    }
}

/// The most parts that an instruction has: a buffer access of four dwords across the end of the buffer.
const MOST: usize = 4;

/// All accesses of an instruction.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    parts: [Option<LaneAccess>; MOST],
    count: usize,
}

impl Parts {
    /// The accesses; none where no lane accesses anything.
    pub fn iter(&self) -> impl Iterator<Item = &LaneAccess> {
        self.parts[..self.count].iter().flatten()
    }

    fn push(&mut self, space: Space, does: Does, lanes: u64, at: Addresses, bytes: u8, step: u32) {
        if lanes != 0 && bytes != 0 && self.count < MOST {
            self.parts[self.count] = Some(LaneAccess { space, does, lanes, at, bytes, step });
            self.count += 1;
        }
    }

    /// The accesses that an instruction of a wave is about to do; `None` for one that accesses no memory.
    #[inline]
    pub fn of(wave: &Wave, inst: &Inst) -> Option<Parts> {
        if inst.op.access == Access::None {
            return None;
        }
        let mut parts = Parts::default();
        match inst.op.family {
            Family::Smem => parts.scalar(wave, inst),
            Family::Ds => parts.lds(wave, inst),
            Family::Global => parts.global(wave, inst, &flat::global_addresses(wave, inst), wave.exec()),
            Family::Flat => parts.flat(wave, inst),
            Family::Scratch => parts.private(wave, inst, &flat::scratch_offsets(wave, inst), wave.exec()),
            Family::Mubuf => parts.buffer(wave, inst),
            _ => return None,
        }
        Some(parts)
    }

    fn scalar(&mut self, wave: &Wave, inst: &Inst) {
        let Some((does, bytes)) = width(inst) else { return };
        let (at, inside) = smem::address(wave, inst);
        let inside = inside.map_or(u64::from(bytes), |dwords| dwords.saturating_mul(4).min(bytes.into()));
        self.push(Space::Memory, does, 1, [at; LANES], inside as u8, 4);
    }

    fn lds(&mut self, wave: &Wave, inst: &Inst) {
        if inst.has(control::GDS) {
            return;
        }
        let (base, exec) = (ds::base_addresses(wave, inst), wave.exec());
        let at = |offset: u32| lanewise(|l| u64::from(base[l].wrapping_add(offset))).0;
        match inst.op.access {
            // One counter, which the first active lane stands for.
            Access::Atomic(_, bytes, _) if !inst.src[0].is_some() => {
                let counter = u64::from(ds::counter_address(wave, inst));
                self.push(Space::Lds, Does::Atomic, exec & exec.wrapping_neg(), [counter; LANES], bytes, 4);
            }
            // Of one place there is one write.
            Access::Store2(bytes, stride) if ds::offsets(inst).0 == ds::offsets(inst).1 => {
                let unit = u32::from(bytes) * u32::from(stride);
                self.push(Space::Lds, Does::Write, exec, at(ds::offsets(inst).0 * unit), bytes, 4);
            }
            Access::Load2(bytes, stride) | Access::Store2(bytes, stride) => {
                let unit = u32::from(bytes) * u32::from(stride);
                let (first, second) = ds::offsets(inst);
                // `ds_wrxchg2` has data, and reads what it replaces.
                let does = match inst.op.access {
                    Access::Load2(..) if inst.src[1].is_some() => Does::Atomic,
                    Access::Load2(..) => Does::Read,
                    _ => Does::Write,
                };
                for offset in [first, second] {
                    self.push(Space::Lds, does, exec, at(offset * unit), bytes, 4);
                }
            }
            _ => {
                if let Some((does, bytes)) = width(inst) {
                    self.push(Space::Lds, does, exec, at(inst.imm as u32), bytes, 4);
                }
            }
        }
    }

    /// An access of ordinary memory; of loads into LDS both halves.
    fn global(&mut self, wave: &Wave, inst: &Inst, at: &Addresses, lanes: u64) {
        let Some((does, bytes)) = width(inst) else { return };
        self.push(Space::Memory, does, lanes, *at, bytes, 4);
        self.lds_of_load(wave, inst);
    }

    /// What a load into LDS writes there.
    fn lds_of_load(&mut self, wave: &Wave, inst: &Inst) {
        if inst.has(control::LDS) {
            let bytes = 4 * width(inst).map_or(0, |(_, bytes)| bytes.div_ceil(4));
            let base = i64::from(m0_base(wave)) + i64::from(inst.imm);
            let to = lanewise(|l| base.wrapping_add(i64::from(bytes) * l as i64) as u64);
            self.push(Space::Lds, Does::Write, wave.exec(), *to, bytes, 4);
        }
    }

    fn flat(&mut self, wave: &Wave, inst: &Inst) {
        let Some((does, bytes)) = width(inst) else { return };
        let exec = wave.exec();
        let (shared, private) = flat::apertures(wave, inst);
        let (shared, private) = (shared & exec, private & exec);
        self.push(Space::Memory, does, exec & !(shared | private), *flat::addresses(wave, inst), bytes, 4);
        if shared | private == 0 {
            return;
        }
        let low = wave.vector(inst.src[0], 0);
        let offsets = lanewise(|l| low[l].wrapping_add(inst.imm as u32));
        self.push(Space::Lds, does, shared, offsets.map(u64::from), bytes, 4);
        self.private(wave, inst, &offsets, private);
    }

    fn private(&mut self, wave: &Wave, inst: &Inst, offsets: &[u32; LANES], lanes: u64) {
        let Some((does, bytes)) = width(inst) else { return };
        let at = lanewise(|l| flat::scratch_address(wave, offsets[l], l));
        self.push(Space::Memory, does, lanes, *at, bytes, 4 * LANES as u32);
        self.lds_of_load(wave, inst);
    }

    fn buffer(&mut self, wave: &Wave, inst: &Inst) {
        let format = || mubuf::formatted::Format::read(wave, inst);
        let (does, bytes) = match inst.op.access {
            Access::LoadFormat(..) => (Does::Read, format().bytes()),
            Access::StoreFormat(..) => (Does::Write, format().bytes()),
            _ => match width(inst) {
                Some(width) => width,
                None => return,
            },
        };
        let buffer = mubuf::Buffer::new(wave, inst);
        let (at, inside) = buffer.place(0, bytes.into());
        if inst.has(control::LDS) {
            return self.global(wave, inst, &at, inside);
        }
        let is_formatted = matches!(inst.op.access, Access::LoadFormat(..) | Access::StoreFormat(..));
        if !is_formatted && does != Does::Atomic && buffer.is_cut(bytes, inside) {
            for n in 0..u32::from(bytes.div_ceil(4)) {
                let (at, inside) = buffer.place(4 * n, 4);
                self.push(Space::Memory, does, inside, *at, 4, 4);
            }
            return;
        }
        self.push(Space::Memory, does, inside, *at, bytes, buffer.step());
    }
}

/// What an instruction does to how many bytes of a lane.
fn width(inst: &Inst) -> Option<(Does, u8)> {
    match inst.op.access {
        Access::Load(bytes, _) | Access::LoadLds(bytes, _) => Some((Does::Read, bytes)),
        Access::Store(bytes, _) => Some((Does::Write, bytes)),
        Access::Atomic(_, bytes, _) => Some((Does::Atomic, bytes)),
        _ => None,
    }
}
