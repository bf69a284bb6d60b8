//! Definedness in memory instructions: undefined data, and undefined addresses.

use amdgpu_emu::isa::access::{self, Does, LaneAccess, Parts, Space};
use amdgpu_emu::isa::action::Action;
use amdgpu_emu::isa::inst::{Inst, control};
use amdgpu_emu::isa::op::{Access, Family, Fill, Flags};
use amdgpu_emu::isa::operand::{Kind, Operand};
use amdgpu_emu::isa::uses::Uses;
use amdgpu_emu::isa::wave::LANES;
use amdgpu_emu::observer::SCRATCH_WINDOW;

use super::bytes::Bytes;
use super::{Defined, Look};

/// What is wrong.
const ADDRESS: &str = "an address depends on a value that nothing has written";
const STORED: &str = "a value that nothing has written is stored to memory";

pub(super) fn execute(look: &mut Look<'_>, defined: &mut Defined, lds: &mut Bytes, scratch: &mut Bytes) {
    let (inst, wave) = (look.inst, look.step.wave);
    let op = inst.op;
    let exec = wave.exec();
    addresses(look, defined);
    if op.family == Family::Smem {
        // What scalar loads read is memory, all of which is defined.
        if op.dst != Kind::None && !matches!(op.access, Access::Store(..)) {
            defined.set_scalar(inst.dst, op.dst.dwords(), u64::MAX);
        }
        return;
    }
    if op.family == Family::Ds && op.access == Access::None {
        return exchange(look, defined, exec);
    }
    // Loads into LDS write no register.
    let into_lds = inst.has(control::LDS) && op.family != Family::Ds;
    let results = results(look, exec);
    for (register, dwords) in results.iter().filter(|_| !into_lds) {
        (0..*dwords).for_each(|n| defined.set_lanes(wave, *register, n, exec, u64::MAX));
    }
    for (n, part) in look.parts.into_iter().flat_map(Parts::iter).enumerate() {
        if into_lds && part.space == Space::Memory {
            continue;
        }
        match part.does {
            Does::Write => store(look, defined, n, part, into_lds, lds, scratch),
            // What an atomic leaves is as defined as what it found.
            Does::Read | Does::Atomic => load(look, defined, n, part, &results, lds, scratch),
        }
    }
}

/// The shadow of a part, and where in it a byte is; `None` for ordinary memory.
fn shadow<'s>(part: &LaneAccess, at: u64, lds: &'s mut Bytes, scratch: &'s mut Bytes) -> Option<(&'s mut Bytes, u64)> {
    match part.space {
        Space::Lds => Some((lds, at)),
        Space::Memory if at >= SCRATCH_WINDOW => Some((scratch, at - SCRATCH_WINDOW)),
        Space::Memory => None,
    }
}

/// True where all accessed bytes are defined: ordinary memory is, and LDS where all bytes near them are.
#[inline]
fn is_known(part: &LaneAccess, lds: &Bytes) -> bool {
    let whole = |at: u64| lds.is_whole(at);
    match part.space {
        Space::Memory => part.at[part.lanes.trailing_zeros() as usize % LANES] < SCRATCH_WINDOW,
        Space::Lds => {
            part.active().map(|lane| part.at[lane]).all(|at| whole(at) && whole(at + u64::from(part.bytes) - 1))
        }
    }
}

/// The registers that loads and returning atomics write.
fn results(look: &Look<'_>, exec: u64) -> Vec<(Operand, u32)> {
    let writes = Uses::of(look.inst).writes;
    let vectors = writes.ranges().iter().filter(|range| range.first.is_vector() && exec != 0);
    vectors.map(|range| (range.first, range.count)).collect()
}

fn load(
    look: &Look<'_>,
    defined: &mut Defined,
    n: usize,
    part: &LaneAccess,
    results: &[(Operand, u32)],
    lds: &mut Bytes,
    scratch: &mut Bytes,
) {
    let Some((register, dwords)) = results.first() else { return };
    if is_known(part, lds) {
        return;
    }
    let wave = look.step.wave;
    if let Action::LoadTransposed(bits) = look.inst.op.action {
        return transposed(look, defined, bits, part, *register, lds);
    }
    // The second half of a result is the second access's.
    let (first, count) = match look.inst.op.access {
        Access::Load2(bytes, _) => (n as u32 * u32::from(bytes) / 4, u32::from(bytes) / 4),
        _ => (0, *dwords),
    };
    for lane in part.active() {
        let mut pieces = part.pieces(lane);
        let (at, length) = pieces.next().unwrap_or_default();
        for word in 0..count {
            let from =
                if part.step == 4 { at + 4 * u64::from(word) } else { at + u64::from(word) * u64::from(part.step) };
            let bytes = u64::from(length).saturating_sub(if part.step == 4 { 4 * u64::from(word) } else { 0 }).min(4);
            let Some((shadow, at)) = shadow(part, from, lds, scratch) else { continue };
            let bits = extended(look.inst, shadow.get(at, bytes), bytes);
            if bits != u32::MAX {
                defined.set_lane(wave, *register, first + word, lane as u32, bits, false);
            }
        }
    }
}

/// A load after which a lane has elements that others read.
fn transposed(look: &Look<'_>, defined: &mut Defined, bits: u8, part: &LaneAccess, register: Operand, lds: &Bytes) {
    let mut read = [[u32::MAX; LANES]; 3];
    for lane in part.active() {
        for (n, words) in (0..u64::from(part.bytes) / 4).zip(&mut read) {
            words[lane] = lds.get(part.at[lane] + 4 * n, 4);
        }
    }
    let columns = access::transposed(part.bytes.into(), bits.into(), &read);
    for (n, words) in (0..u32::from(part.bytes) / 4).zip(&columns) {
        for lane in part.active().filter(|lane| words[*lane] != u32::MAX) {
            defined.set_lane(look.step.wave, register, n, lane as u32, words[lane], false);
        }
    }
}

/// The defined bits of a register that bytes are loaded into.
fn extended(inst: &Inst, bits: u32, bytes: u64) -> u32 {
    let width = 8 * bytes as u32;
    if width >= 32 {
        return bits;
    }
    let is_signed = bits >> (width.max(1) - 1) & 1 == 0;
    match inst.op.access {
        Access::Load(_, Fill::Sign) if is_signed => bits,
        // The other half is what it was.
        Access::Load(_, Fill::D16 | Fill::D16Sign) => {
            if is_signed && bytes == 1 {
                bits | 0xffff_0000
            } else {
                bits | u32::MAX << width
            }
        }
        Access::Load(_, Fill::D16High | Fill::D16HighSign) => {
            bits << 16 | 0xffff | if bytes == 1 { 0xff00_0000 } else { 0 }
        }
        _ => bits | u32::MAX << width,
    }
}

fn store(
    look: &mut Look<'_>,
    defined: &Defined,
    n: usize,
    part: &LaneAccess,
    into_lds: bool,
    lds: &mut Bytes,
    scratch: &mut Bytes,
) {
    let (inst, wave) = (look.inst, look.step.wave);
    let data = match inst.op.family {
        Family::Mubuf => inst.dst,
        Family::Ds if matches!(inst.op.access, Access::Store2(..)) => inst.src[1 + n.min(1)],
        _ => inst.src[1],
    };
    if let Access::StoreFormat(..) = inst.op.access {
        // Registers are not as memory is.
        let undefined = |n: &u32| part.lanes & !defined.lanes(wave, data, *n, Kind::B32);
        if let Some(word) = (0..inst.op.dst.dwords()).find(|n| undefined(n) != 0) {
            let register = crate::registers::name(wave, wave.vgpr_index(data, word));
            look.report(STORED, Some(undefined(&word).trailing_zeros() as u8), register);
        }
        return;
    }
    let words = u32::from(part.bytes).div_ceil(4);
    let is_defined = |word| into_lds || defined.lanes(wave, data, word, Kind::B32) & part.lanes == part.lanes;
    if is_known(part, lds) && (0..words).all(is_defined) {
        return;
    }
    let is_high = matches!(inst.op.access, Access::Store(_, Fill::D16High));
    for lane in part.active() {
        let (mut word, mut some, mut computed, mut undefined) = (0, false, None, None);
        for (at, length) in part.pieces(lane) {
            let mut done = 0;
            while done < u64::from(length) {
                let bytes = (u64::from(length) - done).min(4);
                let bits = if into_lds { u32::MAX } else { defined.word(wave, data, word, lane as u32) };
                let bits = if is_high { bits >> 16 } else { bits };
                match shadow(part, at + done, lds, scratch) {
                    Some((shadow, at)) => shadow.set(at, bytes, bits),
                    None => {
                        let stored = u32::MAX >> (32 - 8 * bytes as u32);
                        some |= bits & stored != 0;
                        if bits & stored != stored {
                            undefined = undefined.or(Some(word));
                            computed = computed.or(defined.is_computed(wave, data, word, lane).then_some(word));
                        }
                    }
                }
                done += bytes;
                word += 1;
            }
        }
        // Padding is copied with what is beside it.
        if let Some(word) = computed.or(undefined.filter(|_| !some)) {
            let register = crate::registers::name(wave, wave.vgpr_index(data, word));
            look.report(STORED, Some(lane as u8), register);
            return;
        }
    }
}

/// Reports registers of addresses and descriptors that are not defined.
fn addresses(look: &mut Look<'_>, defined: &mut Defined) {
    let (inst, wave) = (look.inst, look.step.wave);
    let exec = wave.exec();
    let op = inst.op;
    let scalars: &[(Operand, u32)] = &match op.family {
        Family::Smem => [(inst.src[0], op.src[0].dwords()), (inst.src[1], u32::from(inst.has(control::SOFFSET)))],
        Family::Mubuf if op.access != Access::None => [(inst.src[1], 4), (inst.src[2], 1)],
        Family::Global => [(inst.src[2], 2), (Operand::NONE, 0)],
        Family::Scratch => [(inst.src[2], 1), (Operand::FLAT_SCRATCH, 2)],
        _ => [(Operand::NONE, 0); 2],
    };
    let used = op.family == Family::Smem || exec != 0;
    for (first, dwords) in scalars.iter().filter(|(first, _)| first.is_scalar_register() && used) {
        let mut undefined = (0..*dwords).map(|n| Operand(first.0 + n as u16));
        if let Some(register) = undefined.find(|register| defined.scalar(*register, Kind::B32) != u64::MAX) {
            look.report(ADDRESS, None, super::scalar::register(register));
            (0..*dwords).for_each(|n| defined.set_scalar(Operand(first.0 + n as u16), 1, u64::MAX));
        }
    }
    let dwords = match op.family {
        Family::Smem => 0,
        Family::Ds => u32::from(op.src[0] != Kind::None),
        Family::Global | Family::Flat => {
            if inst.src[2].is_some() {
                1
            } else {
                2
            }
        }
        Family::Mubuf => u32::from(inst.has(control::OFFEN)) + u32::from(inst.has(control::IDXEN)),
        _ => 1,
    };
    if op.flags.has(Flags::SWIZZLE) || !inst.src[0].is_vector() {
        return;
    }
    for n in 0..dwords {
        let undefined = exec & !defined.lanes(wave, inst.src[0], n, Kind::B32);
        if undefined != 0 {
            let register = crate::registers::name(wave, wave.vgpr_index(inst.src[0], n));
            look.report(ADDRESS, Some(undefined.trailing_zeros() as u8), register);
            defined.set_lanes(wave, inst.src[0], n, exec, u64::MAX);
        }
    }
}

/// Exchanges between lanes.
fn exchange(look: &Look<'_>, defined: &mut Defined, exec: u64) {
    let (inst, wave) = (look.inst, look.step.wave);
    if !inst.dst.is_vector() {
        return;
    }
    let lanes = if inst.op.action == Action::PermuteLanes {
        let (at, data) = (wave.vector(inst.src[0], 0), defined.lanes(wave, inst.src[1], 0, Kind::B32));
        let from = |l: usize| at[l].wrapping_add(inst.imm as u32) as usize / 4 % LANES;
        // Inactive lanes give zero.
        (0..LANES).fold(0, |all, l| all | ((data | !exec) >> from(l) & 1) << l)
    } else if inst.op.flags.has(Flags::SWIZZLE) {
        let data = defined.lanes(wave, inst.src[0], 0, Kind::B32);
        if data & exec == 0 && exec != 0 { 0 } else { u64::MAX }
    } else {
        u64::MAX
    };
    defined.set_lanes(wave, inst.dst, 0, exec, lanes);
}
