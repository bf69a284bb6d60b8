//! FLAT, SCRATCH and GLOBAL. Source: Vega ISA manual, "Flat Memory Instructions"; LLVM's AMDGPUUsage, "Flat Scratch"
//! and "Apertures".

use super::kinds;
use crate::arch::ArchSet;
use crate::env::{Addresses, Env};
use crate::inst::{Inst, control};
use crate::op::{Access, Family, Fill, Flow, Levels, Op};
use crate::operand::{Kind, Operand};
use crate::ops::ds;
use crate::ops::scalar_flow::stop;
use crate::ops::vector_memory::{
    NO_DATA, access, atomic_operand_kind, data_kind, fill, gather, interleaved, lanewise, load_lds, vector_atomic_rows,
    vector_memory_rows,
};
use crate::wave::{Aligned, LANES, Trap, Wave};

const fn memory(name: &'static str, family: Family, code: u16, archs: ArchSet, what: Access, run: Levels) -> Op {
    let address = match family {
        Family::Scratch => Kind::B32,
        _ => Kind::B64,
    };
    let op = Op::new(name, family, code, archs, run).access(what);
    match what {
        Access::Load(bytes, _) => op.operands(data_kind(bytes), kinds(&[address])),
        Access::Store(bytes, _) => op.operands(Kind::None, kinds(&[address, data_kind(bytes)])),
        Access::Atomic(a, bytes, _) => op.operands(data_kind(bytes), kinds(&[address, atomic_operand_kind(a, bytes)])),
        _ => op.operands(Kind::None, kinds(&[address])),
    }
}

const FLAT_RUN: Levels = levels!(w, i, e, flat(w, i, e));
const SCRATCH_RUN: Levels = levels!(w, i, e, scratch(w, i, e));
const GLOBAL_RUN: Levels = levels!(w, i, e, global(w, i, e));

macro_rules! flat_row {
    ($name:literal $code:literal $archs:ident $kind:ident($bytes:literal, $fill:ident)) => {
        memory(
            concat!("flat_", $name),
            Family::Flat,
            $code,
            ArchSet::$archs,
            Access::$kind($bytes, Fill::$fill),
            FLAT_RUN,
        )
    };
}

macro_rules! scratch_row {
    ($name:literal $code:literal $archs:ident $kind:ident($bytes:literal, $fill:ident)) => {
        memory(
            concat!("scratch_", $name),
            Family::Scratch,
            $code,
            ArchSet::$archs,
            Access::$kind($bytes, Fill::$fill),
            SCRATCH_RUN,
        )
    };
}

macro_rules! global_row {
    ($name:literal $code:literal $archs:ident $kind:ident($bytes:literal, $fill:ident)) => {
        memory(
            concat!("global_", $name),
            Family::Global,
            $code,
            ArchSet::$archs,
            Access::$kind($bytes, Fill::$fill),
            GLOBAL_RUN,
        )
    };
}

macro_rules! flat_atomic {
    ($name:literal $code:literal F32_ARCHS $bytes:literal $op:ident) => { flat_atomic!($name $code SINCE_942 $bytes $op) };
    ($name:literal $code:literal $archs:ident $bytes:literal $op:ident) => {
        memory(concat!("flat_", $name), Family::Flat, $code, ArchSet::$archs, Access::Atomic(crate::atomic::AtomicOp::$op, $bytes, false), FLAT_RUN)
    };
}

macro_rules! global_atomic {
    ($name:literal $code:literal F32_ARCHS $bytes:literal $op:ident) => { global_atomic!($name $code SINCE_908 $bytes $op) };
    ($name:literal $code:literal $archs:ident $bytes:literal $op:ident) => {
        memory(concat!("global_", $name), Family::Global, $code, ArchSet::$archs, Access::Atomic(crate::atomic::AtomicOp::$op, $bytes, false), GLOBAL_RUN)
    };
}

pub(crate) static FLAT: &[Op] = vector_memory_rows!(flat_row);
pub(crate) static FLAT_ATOMICS: &[Op] = vector_atomic_rows!(flat_atomic);
pub(crate) static SCRATCH: &[Op] = vector_memory_rows!(scratch_row);
pub(crate) static GLOBAL: &[Op] = vector_memory_rows!(global_row);
pub(crate) static GLOBAL_ATOMICS: &[Op] = vector_atomic_rows!(global_atomic);

/// The rows that only MI300 has.
#[rustfmt::skip]
pub(crate) static BFLOAT: &[Op] = &[
    memory("flat_atomic_pk_add_bf16",   Family::Flat,   0x52, ArchSet::SINCE_942, Access::Atomic(crate::atomic::AtomicOp::PkAddBf16, 4, false), FLAT_RUN),
    memory("global_atomic_pk_add_bf16", Family::Global, 0x52, ArchSet::SINCE_942, Access::Atomic(crate::atomic::AtomicOp::PkAddBf16, 4, false), GLOBAL_RUN),
];

/// Loads into LDS of MI300; earlier processors have a bit of the ordinary loads.
#[rustfmt::skip]
pub(crate) static LOADS_TO_LDS: &[Op] = &[
    global_row!("load_lds_ubyte"   0x26 SINCE_942 LoadLds(1, Zero)),
    global_row!("load_lds_sbyte"   0x27 SINCE_942 LoadLds(1, Sign)),
    global_row!("load_lds_ushort"  0x28 SINCE_942 LoadLds(2, Zero)),
    global_row!("load_lds_sshort"  0x29 SINCE_942 LoadLds(2, Sign)),
    global_row!("load_lds_dword"   0x2a SINCE_942 LoadLds(4, Zero)),
    global_row!("load_lds_dwordx4" 0x7d SINCE_950 LoadLds(16, Zero)),
    global_row!("load_lds_dwordx3" 0x7e SINCE_950 LoadLds(12, Zero)),
    scratch_row!("load_lds_ubyte"  0x26 SINCE_942 LoadLds(1, Zero)),
    scratch_row!("load_lds_sbyte"  0x27 SINCE_942 LoadLds(1, Sign)),
    scratch_row!("load_lds_ushort" 0x28 SINCE_942 LoadLds(2, Zero)),
    scratch_row!("load_lds_sshort" 0x29 SINCE_942 LoadLds(2, Sign)),
    scratch_row!("load_lds_dword"  0x2a SINCE_942 LoadLds(4, Zero)),
];

/// A 64-bit address for each lane from a pair of vector registers, plus the immediate offset.
#[inline(always)]
pub(crate) fn addresses(w: &Wave, i: &Inst) -> Aligned<Addresses> {
    let (low, high) = (w.vector(i.src[0], 0), w.vector(i.src[0], 1));
    let offset = i64::from(i.imm) as u64;
    lanewise(|l| (u64::from(low[l]) | u64::from(high[l]) << 32).wrapping_add(offset))
}

/// The addresses of a global access.
#[inline(always)]
pub(crate) fn global_addresses(w: &Wave, i: &Inst) -> Aligned<Addresses> {
    if i.src[2].is_some() {
        // A scalar base and a 32-bit offset per lane.
        let base = w.pair(i.src[2]).wrapping_add(i64::from(i.imm) as u64);
        let offset = w.vector(i.src[0], 0);
        lanewise(|l| base.wrapping_add(u64::from(offset[l])))
    } else {
        addresses(w, i)
    }
}

#[inline(always)]
fn global(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    let at = global_addresses(w, i);
    let exec = w.exec();
    access(w, i, e, &at, exec, i.src[1], i.dst, i.has(control::GLC))
}

/// Where byte `offset` of lane `l`'s scratch lies: lanes are interleaved by dwords behind the flat scratch base.
#[inline(always)]
pub(crate) fn scratch_address(w: &Wave, offset: u32, l: usize) -> u64 {
    let base = w.pair(Operand::FLAT_SCRATCH);
    base.wrapping_add(u64::from(offset & !3) * LANES as u64).wrapping_add(4 * l as u64 + u64::from(offset & 3))
}

/// Accesses scratch at a byte offset per lane, one dword at a time: neighbours in a lane are not neighbours in memory.
/// Offsets need not be aligned (LLVM's feature `unaligned-scratch-access`).
#[inline(always)]
fn private(w: &mut Wave, i: &Inst, e: &mut dyn Env, offsets: &[u32; LANES], mask: u64) -> Flow {
    if mask == 0 {
        return Flow::Next;
    }
    if i.has(control::LDS) {
        // Of a dword at most; one that crosses an interleaved dword is not known to exist.
        let at = lanewise(|l| scratch_address(w, offsets[l], l));
        return load_lds(w, i, e, &at, mask);
    }
    let (bytes, how, store) = match i.op.access {
        Access::Load(bytes, how) => (bytes, how, false),
        Access::Store(bytes, how) => (bytes, how, true),
        Access::Atomic(..) => {
            // Scratch atomics work on what is one address per lane, if they do not cross an interleaved dword.
            let at = lanewise(|l| scratch_address(w, offsets[l], l));
            return access(w, i, e, &at, mask, i.src[1], i.dst, i.has(control::GLC));
        }
        _ => return stop(w, Trap::Illegal),
    };
    let mut data = if store { gather(w, i.src[1], bytes, how) } else { NO_DATA };
    for (n, word) in data.iter_mut().enumerate().take(usize::from(bytes).div_ceil(4)) {
        let from = lanewise(|l| offsets[l].wrapping_add(4 * n as u32));
        let at = |byte: u32| lanewise(|l| scratch_address(w, from[l].wrapping_add(byte), l));
        if let Err(fault) = interleaved(e, store, bytes.min(4), mask, &from, word, at) {
            return stop(w, Trap::Memory(fault));
        }
    }
    if !store {
        fill(w, i.dst, bytes, how, &data, mask);
    }
    Flow::Next
}

/// The offsets in its lane's scratch of a scratch access.
#[inline(always)]
pub(crate) fn scratch_offsets(w: &Wave, i: &Inst) -> Aligned<[u32; LANES]> {
    let scalar = if i.src[2].is_some() { w.scalar32(i.src[2], 0, Kind::B32) } else { 0 };
    let base = scalar.wrapping_add(i.imm as u32);
    match i.src[0].is_some() {
        true => {
            let from = w.vector(i.src[0], 0);
            lanewise(|l| from[l].wrapping_add(base))
        }
        false => Aligned([base; LANES]),
    }
}

#[inline(always)]
fn scratch(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    let offsets = scratch_offsets(w, i);
    let exec = w.exec();
    private(w, i, e, &offsets, exec)
}

/// The part of a flat access that goes to one aperture: addresses, their low halves, lanes.
type ApertureAccess = fn(&mut Wave, &Inst, &mut dyn Env, &Addresses, &[u32; LANES], u64) -> Flow;

/// The lanes whose flat addresses are in the LDS aperture, and in the scratch aperture.
#[inline(always)]
pub(crate) fn apertures(w: &Wave, i: &Inst) -> (u64, u64) {
    let high = w.vector(i.src[0], 1);
    let (mut shared, mut scratch) = (0, 0);
    // The aperture is chosen by the address without the immediate offset.
    for l in 0..LANES {
        shared |= u64::from(high[l] == w.apertures.shared) << l;
        scratch |= u64::from(high[l] == w.apertures.private) << l;
    }
    (shared, scratch)
}

/// A flat access: each lane's address is global, in the LDS aperture or in the scratch aperture.
#[inline(always)]
fn flat(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    let at = addresses(w, i);
    let low = w.vector(i.src[0], 0);
    let (shared, scratch) = apertures(w, i);
    let exec = w.exec();
    let (shared, scratch) = (shared & exec, scratch & exec);
    if shared | scratch == 0 {
        return access(w, i, e, &at, exec, i.src[1], i.dst, i.has(control::GLC));
    }
    let offsets = lanewise(|l| low[l].wrapping_add(i.imm as u32));
    // The destination may be the address: every part works on what was read above.
    let parts: [(u64, ApertureAccess); 3] = [
        (exec & !(shared | scratch), |w, i, e, at, _, mask| {
            access(w, i, e, at, mask, i.src[1], i.dst, i.has(control::GLC))
        }),
        (shared, |w, i, e, _, offsets, mask| ds::flat(w, i, e, offsets, mask)),
        (scratch, |w, i, e, _, offsets, mask| private(w, i, e, offsets, mask)),
    ];
    for (mask, part) in parts {
        if mask != 0 {
            let flow = part(w, i, e, &at, &offsets, mask);
            if flow != Flow::Next {
                return flow;
            }
        }
    }
    Flow::Next
}
