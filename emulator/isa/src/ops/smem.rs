//! SMEM: scalar memory. Source: Vega ISA manual, "Scalar Memory Operations".

use super::kinds;
use crate::arch::ArchSet;
use crate::atomic::AtomicOp;
use crate::env::Env;
use crate::inst::{Inst, control};
use crate::op::{Access, Family, Flow, Levels, Op};
use crate::operand::Kind;
use crate::ops::scalar_flow::stop;
use crate::wave::{LANES, Trap, Wave};

const fn kind(dwords: u8) -> Kind {
    match dwords {
        1 => Kind::B32,
        2 => Kind::B64,
        n => Kind::Dwords(n),
    }
}

const fn op(name: &'static str, code: u16, access: Access, run: Levels) -> Op {
    Op::new(name, Family::Smem, code, ArchSet::ALL, run).access(access)
}

const fn load(name: &'static str, code: u16, base: Kind, dwords: u8) -> Op {
    op(name, code, Access::Load(dwords * 4, crate::op::Fill::Zero), one_level!(w, i, e, read(w, i, e)))
        .operands(kind(dwords), kinds(&[base]))
}

const fn store(name: &'static str, code: u16, base: Kind, dwords: u8) -> Op {
    op(name, code, Access::Store(dwords * 4, crate::op::Fill::Zero), one_level!(w, i, e, write(w, i, e)))
        .operands(kind(dwords), kinds(&[base]))
}

const POINTER: Kind = Kind::B64;
const BUFFER: Kind = Kind::Dwords(4);

/// The thirteen scalar atomics on 32 or 64 bits.
macro_rules! atomics {
    ($base:expr, $($name:literal $code:literal $bytes:literal $op:ident;)*) => {
        &[$(op($name, $code, Access::Atomic(AtomicOp::$op, $bytes, false), one_level!(w, i, e, atomic(w, i, e)))
            .operands(kind(if matches!(AtomicOp::$op, AtomicOp::CmpSwap) { $bytes / 2 } else { $bytes / 4 }), kinds(&[$base])),)*]
    };
}

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    load("s_load_dword",            0x00, POINTER, 1),
    load("s_load_dwordx2",          0x01, POINTER, 2),
    load("s_load_dwordx4",          0x02, POINTER, 4),
    load("s_load_dwordx8",          0x03, POINTER, 8),
    load("s_load_dwordx16",         0x04, POINTER, 16),
    load("s_buffer_load_dword",     0x08, BUFFER, 1),
    load("s_buffer_load_dwordx2",   0x09, BUFFER, 2),
    load("s_buffer_load_dwordx4",   0x0a, BUFFER, 4),
    load("s_buffer_load_dwordx8",   0x0b, BUFFER, 8),
    load("s_buffer_load_dwordx16",  0x0c, BUFFER, 16),
    store("s_store_dword",          0x10, POINTER, 1),
    store("s_store_dwordx2",        0x11, POINTER, 2),
    store("s_store_dwordx4",        0x12, POINTER, 4),
    store("s_buffer_store_dword",   0x18, BUFFER, 1),
    store("s_buffer_store_dwordx2", 0x19, BUFFER, 2),
    store("s_buffer_store_dwordx4", 0x1a, BUFFER, 4),
    op("s_dcache_inv",     0x20, Access::None, one_level!(_w, _i, e, { e.fence(); Flow::Next })),
    op("s_dcache_wb",      0x21, Access::None, one_level!(_w, _i, e, { e.fence(); Flow::Next })),
    op("s_dcache_inv_vol", 0x22, Access::None, one_level!(_w, _i, e, { e.fence(); Flow::Next })),
    op("s_dcache_wb_vol",  0x23, Access::None, one_level!(_w, _i, e, { e.fence(); Flow::Next })),
    op("s_memtime",        0x24, Access::None, one_level!(w, i, e, { let t = e.cycles(); w.set_pair(i.dst, t); Flow::Next })).operands(Kind::B64, [Kind::None; 3]),
    op("s_memrealtime",    0x25, Access::None, one_level!(w, i, e, { let t = e.ticks(); w.set_pair(i.dst, t); Flow::Next })).operands(Kind::B64, [Kind::None; 3]),
];

#[rustfmt::skip]
pub(crate) static ATOMICS: &[Op] = atomics! { POINTER,
    "s_atomic_swap"       0x80 4 Swap;
    "s_atomic_cmpswap"    0x81 4 CmpSwap;
    "s_atomic_add"        0x82 4 Add;
    "s_atomic_sub"        0x83 4 Sub;
    "s_atomic_smin"       0x84 4 SMin;
    "s_atomic_umin"       0x85 4 UMin;
    "s_atomic_smax"       0x86 4 SMax;
    "s_atomic_umax"       0x87 4 UMax;
    "s_atomic_and"        0x88 4 And;
    "s_atomic_or"         0x89 4 Or;
    "s_atomic_xor"        0x8a 4 Xor;
    "s_atomic_inc"        0x8b 4 Inc;
    "s_atomic_dec"        0x8c 4 Dec;
    "s_atomic_swap_x2"    0xa0 8 Swap;
    "s_atomic_cmpswap_x2" 0xa1 8 CmpSwap;
    "s_atomic_add_x2"     0xa2 8 Add;
    "s_atomic_sub_x2"     0xa3 8 Sub;
    "s_atomic_smin_x2"    0xa4 8 SMin;
    "s_atomic_umin_x2"    0xa5 8 UMin;
    "s_atomic_smax_x2"    0xa6 8 SMax;
    "s_atomic_umax_x2"    0xa7 8 UMax;
    "s_atomic_and_x2"     0xa8 8 And;
    "s_atomic_or_x2"      0xa9 8 Or;
    "s_atomic_xor_x2"     0xaa 8 Xor;
    "s_atomic_inc_x2"     0xab 8 Inc;
    "s_atomic_dec_x2"     0xac 8 Dec;
};

#[rustfmt::skip]
pub(crate) static BUFFER_ATOMICS: &[Op] = atomics! { BUFFER,
    "s_buffer_atomic_swap"       0x40 4 Swap;
    "s_buffer_atomic_cmpswap"    0x41 4 CmpSwap;
    "s_buffer_atomic_add"        0x42 4 Add;
    "s_buffer_atomic_sub"        0x43 4 Sub;
    "s_buffer_atomic_smin"       0x44 4 SMin;
    "s_buffer_atomic_umin"       0x45 4 UMin;
    "s_buffer_atomic_smax"       0x46 4 SMax;
    "s_buffer_atomic_umax"       0x47 4 UMax;
    "s_buffer_atomic_and"        0x48 4 And;
    "s_buffer_atomic_or"         0x49 4 Or;
    "s_buffer_atomic_xor"        0x4a 4 Xor;
    "s_buffer_atomic_inc"        0x4b 4 Inc;
    "s_buffer_atomic_dec"        0x4c 4 Dec;
    "s_buffer_atomic_swap_x2"    0x60 8 Swap;
    "s_buffer_atomic_cmpswap_x2" 0x61 8 CmpSwap;
    "s_buffer_atomic_add_x2"     0x62 8 Add;
    "s_buffer_atomic_sub_x2"     0x63 8 Sub;
    "s_buffer_atomic_smin_x2"    0x64 8 SMin;
    "s_buffer_atomic_umin_x2"    0x65 8 UMin;
    "s_buffer_atomic_smax_x2"    0x66 8 SMax;
    "s_buffer_atomic_umax_x2"    0x67 8 UMax;
    "s_buffer_atomic_and_x2"     0x68 8 And;
    "s_buffer_atomic_or_x2"      0x69 8 Or;
    "s_buffer_atomic_xor_x2"     0x6a 8 Xor;
    "s_buffer_atomic_inc_x2"     0x6b 8 Inc;
    "s_buffer_atomic_dec_x2"     0x6c 8 Dec;
};

/// The immediate and register offsets together. Of each the lowest two bits are ignored, as of the base.
fn offset(w: &Wave, i: &Inst) -> u64 {
    let register = if i.has(control::SOFFSET) { u64::from(w.scalar32(i.src[1], 0, Kind::B32)) } else { 0 };
    (i64::from(i.imm) as u64 & !3).wrapping_add(register & !3)
}

/// Where the access begins and, for buffers, how many dwords are inside.
pub(crate) fn address(w: &Wave, i: &Inst) -> (u64, Option<u64>) {
    let base = w.pair(i.src[0]);
    if i.op.src[0] != BUFFER {
        return ((base & !3).wrapping_add(offset(w, i)), None);
    }
    // A constant buffer: base, stride and number of records.
    let first = usize::from(i.src[0].0) & 127;
    let stride = base >> 48 & 0x3fff;
    let records = u64::from(w.sgpr[(first + 2) & 127]);
    let size = if stride == 0 { records } else { stride * records };
    let offset = offset(w, i);
    let inside = size.saturating_sub(offset) / 4;
    ((base & 0xffff_ffff_fffc).wrapping_add(offset), Some(inside))
}

fn read(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    let (at, inside) = address(w, i);
    let n = i.op.dst.dwords() as usize;
    let present = inside.map_or(n, |inside| n.min(inside as usize));
    // Dwords outside of the buffer read as zero.
    let mut data = [0; 16];
    if present > 0
        && let Err(fault) = e.scalar_load(at, &mut data[..present])
    {
        return stop(w, Trap::Memory(fault));
    }
    let first = usize::from(i.dst.0);
    for (k, &dword) in data[..n].iter().enumerate() {
        w.sgpr[(first + k) & 127] = dword;
    }
    Flow::Next
}

fn write(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    let (at, inside) = address(w, i);
    let n = i.op.dst.dwords() as usize;
    let present = inside.map_or(n, |inside| n.min(inside as usize));
    let first = usize::from(i.dst.0);
    let mut data = [0; 4];
    for (k, dword) in data[..n].iter_mut().enumerate() {
        *dword = w.sgpr[(first + k) & 127];
    }
    match e.scalar_store(at, &data[..present]) {
        Ok(()) => Flow::Next,
        Err(fault) => stop(w, Trap::Memory(fault)),
    }
}

/// A scalar atomic is a vector atomic of lane 0.
fn atomic(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    let Access::Atomic(op, bytes, _) = i.op.access else { return stop(w, Trap::Illegal) };
    let (at, inside) = address(w, i);
    let first = usize::from(i.dst.0);
    let mut data = [[0; LANES]; 4];
    for (k, word) in data.iter_mut().enumerate() {
        word[0] = w.sgpr[(first + k) & 127];
    }
    let mut old = [[0; LANES]; 2];
    let old = &mut old[..usize::from(bytes) / 4];
    // Outside of the buffer nothing is done, and zero returned.
    let is_inside = inside.is_none_or(|dwords| dwords >= u64::from(bytes) / 4);
    if is_inside && let Err(fault) = e.atomic(op, &[at; LANES], 1, bytes, &data, old) {
        return stop(w, Trap::Memory(fault));
    }
    if i.has(control::GLC) {
        for (k, word) in old.iter().enumerate() {
            w.sgpr[(first + k) & 127] = word[0];
        }
    }
    Flow::Next
}
