//! DS: the local data share, and exchanges between lanes. Source: Vega ISA manual, "Data Share Operations".
//!
//! Accesses need not be aligned (the runtime asks for that mode). What lies outside of the workgroup's allocation
//! reads as zero and is not written.

mod counters;
mod exchange;
pub(crate) mod transposed;
mod words;

pub(crate) use counters::counter_address;
use counters::{append, gws};
use exchange::{permute, permute_backward, swizzle};
use words::{get, load_words, pattern, put, put_word, store_words, word};

use super::kinds;
use crate::action::Action;
use crate::arch::ArchSet;
use crate::atomic::AtomicOp;
use crate::env::{Env, GwsOp};
use crate::inst::{Inst, control};
use crate::lanes::blend;
use crate::mode::Mode;
use crate::op::{Access, Family, Fill, Flags, Flow, Levels, Op};
use crate::operand::Kind;
use crate::ops::scalar_flow::stop;
use crate::ops::vector_memory::{NO_DATA, data_kind, fill, fill_part, gather, lanewise, m0_base, words_of};
use crate::wave::{Aligned, LANES, Trap, Vgpr, Wave, each_lane};

const fn op(
    name: &'static str,
    code: u16,
    archs: ArchSet,
    access: Access,
    dst: Kind,
    src: [Kind; 3],
    run: Levels,
) -> Op {
    Op::new(name, Family::Ds, code, archs, run).access(access).operands(dst, src)
}

const RUN: Levels = levels!(w, i, e, execute(w, i, e));

const fn load(name: &'static str, code: u16, bytes: u8, how: Fill) -> Op {
    op(name, code, ArchSet::ALL, Access::Load(bytes, how), data_kind(bytes), kinds(&[Kind::B32]), RUN)
}

const fn store(name: &'static str, code: u16, bytes: u8, how: Fill) -> Op {
    op(name, code, ArchSet::ALL, Access::Store(bytes, how), Kind::None, kinds(&[Kind::B32, data_kind(bytes)]), RUN)
}

const fn transposed(name: &'static str, code: u16, bytes: u8, bits: u8, run: Levels) -> Op {
    op(name, code, ArchSet::SINCE_950, Access::Load(bytes, Fill::Zero), data_kind(bytes), kinds(&[Kind::B32]), run)
        .is(Action::LoadTransposed(bits))
}

const fn load2(name: &'static str, code: u16, bytes: u8, stride: u8) -> Op {
    op(name, code, ArchSet::ALL, Access::Load2(bytes, stride), data_kind(2 * bytes), kinds(&[Kind::B32]), RUN)
}

const fn store2(name: &'static str, code: u16, bytes: u8, stride: u8) -> Op {
    let data = data_kind(bytes);
    op(name, code, ArchSet::ALL, Access::Store2(bytes, stride), Kind::None, [Kind::B32, data, data], RUN)
}

/// True for operations with two operands.
const fn has_two(op: AtomicOp) -> bool {
    matches!(op, AtomicOp::CmpSwap | AtomicOp::FCmpSwap | AtomicOp::MaskOr | AtomicOp::Wrap)
}

const fn atomic(name: &'static str, code: u16, archs: ArchSet, what: AtomicOp, bytes: u8, returns: bool) -> Op {
    let data = data_kind(bytes);
    let dst = if returns { data } else { Kind::None };
    let second = if has_two(what) { data } else { Kind::None };
    op(name, code, archs, Access::Atomic(what, bytes, returns), dst, [Kind::B32, data, second], RUN)
}

/// Plain and returning forms of 32 and 64 bits, which are 0x20 and 0x40 apart.
macro_rules! atomics {
    ($($name32:literal $rtn32:literal $name64:literal $rtn64:literal $code:literal $op:ident;)*) => {
        &[$(
            atomic($name32, $code, ArchSet::ALL, AtomicOp::$op, 4, false),
            atomic($rtn32, $code + 0x20, ArchSet::ALL, AtomicOp::$op, 4, true),
            atomic($name64, $code + 0x40, ArchSet::ALL, AtomicOp::$op, 8, false),
            atomic($rtn64, $code + 0x60, ArchSet::ALL, AtomicOp::$op, 8, true),
        )*]
    };
}

#[rustfmt::skip]
pub(crate) static ATOMICS: &[Op] = atomics! {
    "ds_add_u32"   "ds_add_rtn_u32"   "ds_add_u64"   "ds_add_rtn_u64"   0x00 Add;
    "ds_sub_u32"   "ds_sub_rtn_u32"   "ds_sub_u64"   "ds_sub_rtn_u64"   0x01 Sub;
    "ds_rsub_u32"  "ds_rsub_rtn_u32"  "ds_rsub_u64"  "ds_rsub_rtn_u64"  0x02 RSub;
    "ds_inc_u32"   "ds_inc_rtn_u32"   "ds_inc_u64"   "ds_inc_rtn_u64"   0x03 Inc;
    "ds_dec_u32"   "ds_dec_rtn_u32"   "ds_dec_u64"   "ds_dec_rtn_u64"   0x04 Dec;
    "ds_min_i32"   "ds_min_rtn_i32"   "ds_min_i64"   "ds_min_rtn_i64"   0x05 SMin;
    "ds_max_i32"   "ds_max_rtn_i32"   "ds_max_i64"   "ds_max_rtn_i64"   0x06 SMax;
    "ds_min_u32"   "ds_min_rtn_u32"   "ds_min_u64"   "ds_min_rtn_u64"   0x07 UMin;
    "ds_max_u32"   "ds_max_rtn_u32"   "ds_max_u64"   "ds_max_rtn_u64"   0x08 UMax;
    "ds_and_b32"   "ds_and_rtn_b32"   "ds_and_b64"   "ds_and_rtn_b64"   0x09 And;
    "ds_or_b32"    "ds_or_rtn_b32"    "ds_or_b64"    "ds_or_rtn_b64"    0x0a Or;
    "ds_xor_b32"   "ds_xor_rtn_b32"   "ds_xor_b64"   "ds_xor_rtn_b64"   0x0b Xor;
    "ds_mskor_b32" "ds_mskor_rtn_b32" "ds_mskor_b64" "ds_mskor_rtn_b64" 0x0c MaskOr;
    "ds_cmpst_b32" "ds_cmpst_rtn_b32" "ds_cmpst_b64" "ds_cmpst_rtn_b64" 0x10 CmpSwap;
    "ds_cmpst_f32" "ds_cmpst_rtn_f32" "ds_cmpst_f64" "ds_cmpst_rtn_f64" 0x11 FCmpSwap;
    "ds_min_f32"   "ds_min_rtn_f32"   "ds_min_f64"   "ds_min_rtn_f64"   0x12 FMin;
    "ds_max_f32"   "ds_max_rtn_f32"   "ds_max_f64"   "ds_max_rtn_f64"   0x13 FMax;
};

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    store("ds_write_b32",        0x0d, 4, Fill::Zero),
    store2("ds_write2_b32",      0x0e, 4, 1),
    store2("ds_write2st64_b32",  0x0f, 4, 64),
    op("ds_nop",                 0x14, ArchSet::ALL, Access::None, Kind::None, [Kind::None; 3], one_level!(_w, _i, _e, Flow::Next)).is(Action::Nop),
    atomic("ds_add_f32",         0x15, ArchSet::ALL, AtomicOp::FAdd, 4, false),
    atomic("ds_pk_add_f16",      0x17, ArchSet::SINCE_942, AtomicOp::PkAddF16, 4, false),
    atomic("ds_pk_add_bf16",     0x18, ArchSet::SINCE_942, AtomicOp::PkAddBf16, 4, false),
    op("ds_write_addtid_b32",    0x1d, ArchSet::ALL, Access::Store(4, Fill::Zero), Kind::None, [Kind::None, Kind::B32, Kind::None], RUN).is(Action::LaneAddressed),
    store("ds_write_b8",         0x1e, 1, Fill::Zero),
    store("ds_write_b16",        0x1f, 2, Fill::Zero),
    atomic("ds_wrxchg_rtn_b32",  0x2d, ArchSet::ALL, AtomicOp::Swap, 4, true),
    op("ds_wrxchg2_rtn_b32",     0x2e, ArchSet::ALL, Access::Load2(4, 1),  Kind::B64, [Kind::B32, Kind::B32, Kind::B32], one_level!(w, i, e, exchange2(w, i, e))),
    op("ds_wrxchg2st64_rtn_b32", 0x2f, ArchSet::ALL, Access::Load2(4, 64), Kind::B64, [Kind::B32, Kind::B32, Kind::B32], one_level!(w, i, e, exchange2(w, i, e))),
    atomic("ds_wrap_rtn_b32",    0x34, ArchSet::ALL, AtomicOp::Wrap, 4, true),
    atomic("ds_add_rtn_f32",     0x35, ArchSet::ALL, AtomicOp::FAdd, 4, true),
    load("ds_read_b32",          0x36, 4, Fill::Zero),
    load2("ds_read2_b32",        0x37, 4, 1),
    load2("ds_read2st64_b32",    0x38, 4, 64),
    load("ds_read_i8",           0x39, 1, Fill::Sign),
    load("ds_read_u8",           0x3a, 1, Fill::Zero),
    load("ds_read_i16",          0x3b, 2, Fill::Sign),
    load("ds_read_u16",          0x3c, 2, Fill::Zero),
    op("ds_swizzle_b32",  0x3d, ArchSet::ALL, Access::None, Kind::B32, kinds(&[Kind::B32]), levels!(w, i, _e, swizzle(w, i))).with(Flags::SWIZZLE),
    op("ds_permute_b32",  0x3e, ArchSet::ALL, Access::None, Kind::B32, kinds(&[Kind::B32, Kind::B32]), one_level!(w, i, _e, permute(w, i))).with(Flags::NO_GDS),
    op("ds_bpermute_b32", 0x3f, ArchSet::ALL, Access::None, Kind::B32, kinds(&[Kind::B32, Kind::B32]), levels!(w, i, _e, permute_backward(w, i))).with(Flags::NO_GDS).is(Action::PermuteLanes),
    store("ds_write_b64",        0x4d, 8, Fill::Zero),
    store2("ds_write2_b64",      0x4e, 8, 1),
    store2("ds_write2st64_b64",  0x4f, 8, 64),
    store("ds_write_b8_d16_hi",  0x54, 1, Fill::D16High),
    store("ds_write_b16_d16_hi", 0x55, 2, Fill::D16High),
    load("ds_read_u8_d16",       0x56, 1, Fill::D16),
    load("ds_read_u8_d16_hi",    0x57, 1, Fill::D16High),
    load("ds_read_i8_d16",       0x58, 1, Fill::D16Sign),
    load("ds_read_i8_d16_hi",    0x59, 1, Fill::D16HighSign),
    load("ds_read_u16_d16",      0x5a, 2, Fill::D16),
    load("ds_read_u16_d16_hi",   0x5b, 2, Fill::D16High),
    atomic("ds_add_f64",         0x5c, ArchSet::SINCE_90A, AtomicOp::FAdd, 8, false),
    atomic("ds_wrxchg_rtn_b64",  0x6d, ArchSet::ALL, AtomicOp::Swap, 8, true),
    op("ds_wrxchg2_rtn_b64",     0x6e, ArchSet::ALL, Access::Load2(8, 1),  Kind::Dwords(4), [Kind::B32, Kind::B64, Kind::B64], one_level!(w, i, e, exchange2(w, i, e))),
    op("ds_wrxchg2st64_rtn_b64", 0x6f, ArchSet::ALL, Access::Load2(8, 64), Kind::Dwords(4), [Kind::B32, Kind::B64, Kind::B64], one_level!(w, i, e, exchange2(w, i, e))),
    load("ds_read_b64",          0x76, 8, Fill::Zero),
    load2("ds_read2_b64",        0x77, 8, 1),
    load2("ds_read2st64_b64",    0x78, 8, 64),
    atomic("ds_add_rtn_f64",     0x7c, ArchSet::SINCE_90A, AtomicOp::FAdd, 8, true),
    op("ds_gws_init",    0x99, ArchSet::ALL, Access::None, Kind::None, kinds(&[Kind::B32]), one_level!(w, i, e, gws(w, i, e, GwsOp::Init))).with(Flags::GWS),
    op("ds_gws_barrier", 0x9d, ArchSet::ALL, Access::None, Kind::None, kinds(&[Kind::B32]), one_level!(w, i, e, gws(w, i, e, GwsOp::Barrier))).with(Flags::GWS).is(Action::GridBarrier),
    op("ds_read_addtid_b32", 0xb6, ArchSet::ALL, Access::Load(4, Fill::Zero), Kind::B32, [Kind::None; 3], RUN).is(Action::LaneAddressed),
    atomic("ds_pk_add_rtn_f16",  0xb7, ArchSet::SINCE_942, AtomicOp::PkAddF16, 4, true),
    atomic("ds_pk_add_rtn_bf16", 0xb8, ArchSet::SINCE_942, AtomicOp::PkAddBf16, 4, true),
    op("ds_consume", 0xbd, ArchSet::ALL, Access::Atomic(AtomicOp::Sub, 4, true), Kind::B32, [Kind::None; 3], one_level!(w, i, e, append(w, i, e, false))),
    op("ds_append",  0xbe, ArchSet::ALL, Access::Atomic(AtomicOp::Add, 4, true), Kind::B32, [Kind::None; 3], one_level!(w, i, e, append(w, i, e, true))),
    store("ds_write_b96",        0xde, 12, Fill::Zero),
    store("ds_write_b128",       0xdf, 16, Fill::Zero),
    transposed("ds_read_b64_tr_b4",  0xe0, 8,  4,  levels!(w, i, e, transposed::load::<4>(w, i, e))),
    transposed("ds_read_b96_tr_b6",  0xe1, 12, 6,  levels!(w, i, e, transposed::load::<6>(w, i, e))).with(Flags::ANY_REGISTER),
    transposed("ds_read_b64_tr_b8",  0xe2, 8,  8,  levels!(w, i, e, transposed::load::<8>(w, i, e))),
    transposed("ds_read_b64_tr_b16", 0xe3, 8,  16, levels!(w, i, e, transposed::load::<16>(w, i, e))),
    load("ds_read_b96",          0xfe, 12, Fill::Zero),
    load("ds_read_b128",         0xff, 16, Fill::Zero),
];

/// Byte addresses of the lanes: the address register, or M0 plus the lane for the `addtid` forms.
#[inline(always)]
pub(crate) fn base_addresses(w: &Wave, i: &Inst) -> Aligned<[u32; LANES]> {
    if i.src[0].is_some() {
        Aligned(*w.vector(i.src[0], 0))
    } else {
        let base = m0_base(w);
        lanewise(|l| base + 4 * l as u32)
    }
}

/// The two 8-bit offsets.
pub(crate) fn offsets(i: &Inst) -> (u32, u32) {
    (i.imm as u32 & 0xff, i.imm as u32 >> 8 & 0xff)
}

#[inline(always)]
fn execute(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    if i.has(control::GDS) {
        // There is no global data share for compute queues.
        return stop(w, Trap::Illegal);
    }
    let base = base_addresses(w, i);
    let exec = w.exec();
    match i.op.access {
        Access::Load2(bytes, stride) => {
            let (o0, o1) = offsets(i);
            let unit = u32::from(bytes) * u32::from(stride);
            let (lds, dwords) = (e.lds(), u32::from(bytes) / 4);
            let places = (&*base, exec, pattern(&base, exec));
            load_words(w, lds, places, o0 * unit, i.dst, 0..dwords);
            load_words(w, lds, places, o1 * unit, i.dst, dwords..2 * dwords);
            Flow::Next
        }
        Access::Store2(bytes, stride) => {
            let (o0, o1) = offsets(i);
            let unit = u32::from(bytes) * u32::from(stride);
            let (lds, dwords) = (e.lds(), u32::from(bytes) / 4);
            let places = (&*base, exec, pattern(&base, exec));
            store_words(w, lds, places, o0 * unit, i.src[1], dwords);
            // Of one place there is one write, of the first data. Source: CDNA3 ISA manual, "LDS Instruction Details".
            if o0 != o1 {
                store_words(w, lds, places, o1 * unit, i.src[2], dwords);
            }
            Flow::Next
        }
        _ => {
            let at = lanewise(|l| base[l].wrapping_add(i.imm as u32));
            single(w, i, e, &at, exec)
        }
    }
}

/// A flat access that fell into the LDS aperture.
pub(crate) fn flat(w: &mut Wave, i: &Inst, e: &mut dyn Env, at: &[u32; LANES], mask: u64) -> Flow {
    single(w, i, e, at, mask)
}

#[inline(always)]
fn single(w: &mut Wave, i: &Inst, e: &mut dyn Env, at: &[u32; LANES], mask: u64) -> Flow {
    match i.op.access {
        Access::Load(bytes @ 4.., _) => {
            load_words(w, e.lds(), (at, mask, pattern(at, mask)), 0, i.dst, 0..u32::from(bytes) / 4);
        }
        Access::Load(bytes, how) => {
            let mut part = Aligned([0; LANES]);
            let lds = e.lds();
            each_lane(mask, |l| part[l] = get(lds, at[l], usize::from(bytes)) as u32);
            fill_part(w, i.dst, bytes, how, &part, mask);
        }
        Access::Store(bytes @ 4.., _) => {
            store_words(w, e.lds(), (at, mask, pattern(at, mask)), 0, i.src[1], u32::from(bytes) / 4);
        }
        Access::Store(bytes, how) => {
            let shift = if how == Fill::D16High { 16 } else { 0 };
            let part = w.vector(i.src[1], 0);
            let lds = e.lds();
            each_lane(mask, |l| put(lds, at[l], usize::from(bytes), (part[l] >> shift).into()));
        }
        // By far the most frequent: nobody wants the old values.
        Access::Atomic(AtomicOp::Add, 4, false) if i.op.family == Family::Ds => {
            let (lds, mode, data) = (e.lds(), w.mode, w.vector(i.src[1], 0));
            modify_dwords(lds, at, mask, |l, old| AtomicOp::Add.apply32_in(mode, old, data[l], 0));
        }
        Access::Atomic(op, bytes, returns) => {
            let (first, second) = atomic_operands(w, i, op, bytes);
            let mut old = Aligned([[0; LANES]; 2]);
            modify(e.lds(), at, mask, (op, w.mode), bytes, first, second, &mut old);
            if returns || (i.op.family == Family::Flat && i.has(control::GLC)) {
                for (n, word) in old.iter().enumerate().take(words_of(bytes)) {
                    blend(w.vector_mut(i.dst, n as u32), word, mask);
                }
            }
        }
        _ => return stop(w, Trap::Illegal),
    }
    Flow::Next
}

/// Read-modify-writes of each lane, lower lanes first; the operands have as many words as the width needs. Denormals of floats are
/// the mode's. Source: CDNA3 ISA manual, "LDS Instruction Details".
#[allow(clippy::too_many_arguments, reason = "an atomic operation has that many parts")]
#[inline(always)]
fn modify(
    lds: &mut [u8],
    at: &[u32; LANES],
    mask: u64,
    (op, mode): (AtomicOp, Mode),
    bytes: u8,
    first: &[Vgpr],
    second: &[Vgpr],
    old: &mut [Vgpr; 2],
) {
    if bytes == 4 {
        return modify_dwords(lds, at, mask, |l, value| {
            old[0][l] = value;
            op.apply32_in(mode, value, first[0][l], second[0][l])
        });
    }
    each_lane(mask, |l| {
        let value = get(lds, at[l], 8);
        let operand = |data: &[Vgpr]| u64::from(data[0][l]) | u64::from(data[1][l]) << 32;
        put(lds, at[l], 8, op.apply64_in(mode, value, operand(first), operand(second)));
        (old[0][l], old[1][l]) = (value as u32, (value >> 32) as u32);
    });
}

/// Those of dwords, by a function of the lane and the old value.
#[inline(always)]
fn modify_dwords(lds: &mut [u8], at: &[u32; LANES], mask: u64, mut new: impl FnMut(usize, u32) -> u32) {
    each_lane(mask, |l| {
        let start = at[l] as usize;
        // Outside of the allocation, zero is read and nothing written.
        let place = lds.get_mut(start..start + 4).and_then(|bytes| bytes.first_chunk_mut());
        let value = new(l, place.as_ref().map_or(0, |place| u32::from_le_bytes(**place)));
        if let Some(place) = place {
            *place = value.to_le_bytes();
        }
    });
}

/// Operand and second operand. DS compares with its first data operand and stores the second; FLAT has both in one
/// operand, the other way round.
fn atomic_operands<'w>(w: &'w Wave, i: &Inst, op: AtomicOp, bytes: u8) -> (&'w [Vgpr], &'w [Vgpr]) {
    static NOTHING: [Vgpr; 2] = [[0; LANES]; 2];
    let words = words_of(bytes);
    let two = matches!(op, AtomicOp::CmpSwap | AtomicOp::FCmpSwap);
    if i.op.family == Family::Flat {
        return match two {
            true => w.vectors(i.src[1], 2 * words).split_at(words),
            false => (w.vectors(i.src[1], words), &NOTHING[..words]),
        };
    }
    let first = w.vectors(i.src[1], words);
    let second = if i.src[2].is_some() { w.vectors(i.src[2], words) } else { &NOTHING[..words] };
    if two { (second, first) } else { (first, second) }
}

fn exchange2(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    let Access::Load2(bytes, stride) = i.op.access else { return stop(w, Trap::Illegal) };
    let (o0, o1) = offsets(i);
    let unit = u32::from(bytes) * u32::from(stride);
    let base = base_addresses(w, i);
    let exec = w.exec();
    let sources = [gather(w, i.src[1], bytes, Fill::Zero), gather(w, i.src[2], bytes, Fill::Zero)];
    let (mut data, dwords) = (NO_DATA, usize::from(bytes) / 4);
    let lds = e.lds();
    each_lane(exec, |l| {
        let places = [base[l].wrapping_add(o0 * unit), base[l].wrapping_add(o1 * unit)];
        for (n, at) in places.into_iter().enumerate() {
            for d in 0..dwords {
                data[n * dwords + d][l] = word(lds, at, d as u32);
            }
        }
        for (at, source) in places.into_iter().zip(&sources) {
            for d in 0..dwords {
                put_word(lds, at, d as u32, source[d][l]);
            }
        }
    });
    fill(w, i.dst, 2 * bytes, Fill::Zero, &data, exec);
    Flow::Next
}
