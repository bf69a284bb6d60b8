//! VOP3-only operations on integers and bits. Source: Vega ISA manual, "VOP3 Instructions".

use super::kinds;
use crate::action::Action;
use crate::arch::ArchSet;
use crate::inst::Inst;
use crate::lanes::{map3, map3_with_mask, scalar_result, source};
use crate::op::{Family, Flags, Flow, Op};
use crate::operand::Kind;
use crate::ops::vop2::{i24, u24};
use crate::wave::Wave;

const LANE_READ: Flags = Flags::SCALAR_DST.and(Flags::VECTOR_SRC).and(Flags::LANE_SRC);
const SEL: Flags = Flags::OP_SEL;
const SEL_KEEP: Flags = Flags::OP_SEL.and(Flags::KEEP_HIGH);

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    row!(Vop3 v_mad_i32_i24       0x1c2 ALL sat |a: i32, b: i32, c: i32| -> i32 { i24(a).wrapping_mul(i24(b)).wrapping_add(c) } else { saturate_i32(i64::from(i24(a)) * i64::from(i24(b)) + i64::from(c)) }).is(Action::Multiply24),
    row!(Vop3 v_mad_u32_u24       0x1c3 ALL sat |a: u32, b: u32, c: u32| -> u32 { u24(a).wrapping_mul(u24(b)).wrapping_add(c) } else { saturate_u32(u64::from(u24(a)) * u64::from(u24(b)) + u64::from(c)) }).is(Action::Multiply24),
    row!(Vop3 v_bfe_u32           0x1c8 ALL |a: u32, b: u32, c: u32| -> u32 { (a >> (b & 31)) & ((1u32 << (c & 31)) - 1) }).is(Action::ExtractField),
    row!(Vop3 v_bfe_i32           0x1c9 ALL |a: i32, b: u32, c: u32| -> i32 { bfe_i32(a, b, c) }).is(Action::ExtractField),
    row!(Vop3 v_bfi_b32           0x1ca ALL |a: u32, b: u32, c: u32| -> u32 { (a & b) | (!a & c) }).is(Action::InsertField),
    row!(Vop3 v_lerp_u8           0x1cd ALL |a: u32, b: u32, c: u32| -> u32 { bytes(|n| (byte(a, n) + byte(b, n) + (byte(c, n) & 1)) >> 1) }),
    row!(Vop3 v_alignbit_b32      0x1ce ALL |a: u32, b: u32, c: u32| -> u32 { ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32 }).is(Action::AlignBits),
    row!(Vop3 v_alignbyte_b32     0x1cf ALL |a: u32, b: u32, c: u32| -> u32 { ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32 }).is(Action::AlignBytes),
    row!(Vop3 v_min3_i32          0x1d1 ALL |a: i32, b: i32, c: i32| -> i32 { a.min(b).min(c) }),
    row!(Vop3 v_min3_u32          0x1d2 ALL |a: u32, b: u32, c: u32| -> u32 { a.min(b).min(c) }),
    row!(Vop3 v_max3_i32          0x1d4 ALL |a: i32, b: i32, c: i32| -> i32 { a.max(b).max(c) }),
    row!(Vop3 v_max3_u32          0x1d5 ALL |a: u32, b: u32, c: u32| -> u32 { a.max(b).max(c) }),
    row!(Vop3 v_med3_i32          0x1d7 ALL |a: i32, b: i32, c: i32| -> i32 { a.max(b).min(a.min(b).max(c)) }),
    row!(Vop3 v_med3_u32          0x1d8 ALL |a: u32, b: u32, c: u32| -> u32 { a.max(b).min(a.min(b).max(c)) }),
    row!(Vop3 v_sad_u8            0x1d9 ALL sat |a: u32, b: u32, c: u32| -> u32 { sad_u8(a, b).wrapping_add(c) } else { sad_u8(a, b).saturating_add(c) }),
    row!(Vop3 v_sad_hi_u8         0x1da ALL sat |a: u32, b: u32, c: u32| -> u32 { (sad_u8(a, b) << 16).wrapping_add(c) } else { (sad_u8(a, b) << 16).saturating_add(c) }),
    row!(Vop3 v_sad_u16           0x1db ALL sat |a: u32, b: u32, c: u32| -> u32 { sad_u16(a, b).wrapping_add(c) } else { sad_u16(a, b).saturating_add(c) }),
    row!(Vop3 v_sad_u32           0x1dc ALL sat |a: u32, b: u32, c: u32| -> u32 { a.abs_diff(b).wrapping_add(c) } else { a.abs_diff(b).saturating_add(c) }),
    row!(Vop3 v_msad_u8           0x1e4 ALL sat |a: u32, b: u32, c: u32| -> u32 { masked_sad(a, b).wrapping_add(c) } else { masked_sad(a, b).saturating_add(c) }),
    row!(Vop3 v_qsad_pk_u16_u8    0x1e5 ALL sat |a: u64, b: u32, c: u64| -> u64 { quad_sad16(a, b, c, false, sad_u8) } else { quad_sad16(a, b, c, true, sad_u8) }),
    row!(Vop3 v_mqsad_pk_u16_u8   0x1e6 ALL sat |a: u64, b: u32, c: u64| -> u64 { quad_sad16(a, b, c, false, masked_sad) } else { quad_sad16(a, b, c, true, masked_sad) }),
    Op::new("v_mqsad_u32_u8", Family::Vop3, 0x1e7, ArchSet::ALL, one_level!(w, i, _e, quad_sad32(w, i)))
        .operands(Kind::Dwords(4), [Kind::U64, Kind::U32, Kind::Dwords(4)]).with(Flags::CLAMP),
    Op::new("v_mad_u64_u32", Family::Vop3, 0x1e8, ArchSet::ALL, levels!(w, i, _e, map3_with_mask(w, i, |a: u32, b: u32, c: u64| wide_sum(u64::from(a) * u64::from(b), c, i.mods.clamp))))
        .operands(Kind::U64, [Kind::U32, Kind::U32, Kind::U64]).with(Flags::MASK_OUT).with(Flags::CLAMP),
    Op::new("v_mad_i64_i32", Family::Vop3, 0x1e9, ArchSet::ALL, levels!(w, i, _e, map3_with_mask(w, i, |a: i32, b: i32, c: i64| signed_wide_sum(i64::from(a) * i64::from(b), c, i.mods.clamp))))
        .operands(Kind::I64, [Kind::I32, Kind::I32, Kind::I64]).with(Flags::MASK_OUT).with(Flags::CLAMP),
    row!(Vop3 v_mad_legacy_u16    0x1eb ALL sat |a: u16, b: u16, c: u16| -> u16 { a.wrapping_mul(b).wrapping_add(c) } else { saturate_u16(a, b, c) }),
    row!(Vop3 v_mad_legacy_i16    0x1ec ALL sat |a: i16, b: i16, c: i16| -> i16 { a.wrapping_mul(b).wrapping_add(c) } else { saturate_i16(a, b, c) }),
    row!(Vop3 v_perm_b32          0x1ed ALL |a: u32, b: u32, c: u32| -> u32 { bytes(|n| permuted_byte(a, b, byte(c, n))) }).is(Action::PermuteBytes),
    row!(Vop3 v_mad_u32_u16       0x1f1 ALL sat |a: u16, b: u16, c: u32| -> u32 { (u32::from(a) * u32::from(b)).wrapping_add(c) } else { (u32::from(a) * u32::from(b)).saturating_add(c) }).with(SEL),
    row!(Vop3 v_mad_i32_i16       0x1f2 ALL sat |a: i16, b: i16, c: i32| -> i32 { (i32::from(a) * i32::from(b)).wrapping_add(c) } else { (i32::from(a) * i32::from(b)).saturating_add(c) }).with(SEL),
    row!(Vop3 v_xad_u32           0x1f3 ALL |a: u32, b: u32, c: u32| -> u32 { (a ^ b).wrapping_add(c) }).is(Action::XorAdd),
    row!(Vop3 v_min3_i16          0x1f5 ALL |a: i16, b: i16, c: i16| -> i16 { a.min(b).min(c) }).with(SEL_KEEP).with(Flags::CLAMP),
    row!(Vop3 v_min3_u16          0x1f6 ALL |a: u16, b: u16, c: u16| -> u16 { a.min(b).min(c) }).with(SEL_KEEP).with(Flags::CLAMP),
    row!(Vop3 v_max3_i16          0x1f8 ALL |a: i16, b: i16, c: i16| -> i16 { a.max(b).max(c) }).with(SEL_KEEP).with(Flags::CLAMP),
    row!(Vop3 v_max3_u16          0x1f9 ALL |a: u16, b: u16, c: u16| -> u16 { a.max(b).max(c) }).with(SEL_KEEP).with(Flags::CLAMP),
    row!(Vop3 v_med3_i16          0x1fb ALL |a: i16, b: i16, c: i16| -> i16 { a.max(b).min(a.min(b).max(c)) }).with(SEL_KEEP).with(Flags::CLAMP),
    row!(Vop3 v_med3_u16          0x1fc ALL |a: u16, b: u16, c: u16| -> u16 { a.max(b).min(a.min(b).max(c)) }).with(SEL_KEEP).with(Flags::CLAMP),
    row!(Vop3 v_lshl_add_u32      0x1fd ALL |a: u32, b: u32, c: u32| -> u32 { (a << (b & 31)).wrapping_add(c) }).is(Action::ShiftAdd),
    row!(Vop3 v_add_lshl_u32      0x1fe ALL |a: u32, b: u32, c: u32| -> u32 { a.wrapping_add(b) << (c & 31) }).is(Action::AddShift),
    row!(Vop3 v_add3_u32          0x1ff ALL |a: u32, b: u32, c: u32| -> u32 { a.wrapping_add(b).wrapping_add(c) }).is(Action::Add),
    row!(Vop3 v_lshl_or_b32       0x200 ALL |a: u32, b: u32, c: u32| -> u32 { (a << (b & 31)) | c }).is(Action::ShiftOr),
    row!(Vop3 v_and_or_b32        0x201 ALL |a: u32, b: u32, c: u32| -> u32 { (a & b) | c }).is(Action::AndOr),
    row!(Vop3 v_or3_b32           0x202 ALL |a: u32, b: u32, c: u32| -> u32 { a | b | c }).is(Action::Or3),
    row!(Vop3 v_mad_u16           0x204 ALL sat |a: u16, b: u16, c: u16| -> u16 { a.wrapping_mul(b).wrapping_add(c) } else { saturate_u16(a, b, c) }).with(SEL_KEEP),
    row!(Vop3 v_mad_i16           0x205 ALL sat |a: i16, b: i16, c: i16| -> i16 { a.wrapping_mul(b).wrapping_add(c) } else { saturate_i16(a, b, c) }).with(SEL_KEEP),
    row!(Vop3 v_lshl_add_u64      0x208 SINCE_942 |a: u64, b: u32, c: u64| -> u64 { (a << (b & 7)).wrapping_add(c) }),
    Op::new("v_bitop3_b16", Family::Vop3, 0x233, ArchSet::SINCE_950, levels!(w, i, _e, { let table = i.imm as u32; map3(w, i, |a: u16, b: u16, c: u16| looked_up(table, a.into(), b.into(), c.into()) as u16) }))
        .operands(Kind::U16, [Kind::U16; 3]).with(SEL_KEEP).with(Flags::TRUTH_TABLE),
    Op::new("v_bitop3_b32", Family::Vop3, 0x234, ArchSet::SINCE_950, levels!(w, i, _e, { let table = i.imm as u32; map3(w, i, |a: u32, b: u32, c: u32| looked_up(table, a, b, c)) }))
        .operands(Kind::U32, [Kind::U32; 3]).with(Flags::TRUTH_TABLE),
    row!(Vop3 v_ashr_pk_i8_i32    0x265 SINCE_950 |a: i32, b: i32, c: u32| -> u16 { byte_pair([a, b].map(|x| (x >> (c & 31)).clamp(-0x80, 0x7f))) }).with(SEL_KEEP),
    row!(Vop3 v_ashr_pk_u8_i32    0x266 SINCE_950 |a: i32, b: i32, c: u32| -> u16 { byte_pair([a, b].map(|x| (x >> (c & 31)).clamp(0, 0xff))) }).with(SEL_KEEP),
    row!(Vop3 v_mul_lo_u32        0x285 ALL |a: u32, b: u32| -> u32 { a.wrapping_mul(b) }).is(Action::MultiplyLow),
    row!(Vop3 v_mul_hi_u32        0x286 ALL |a: u32, b: u32| -> u32 { ((u64::from(a) * u64::from(b)) >> 32) as u32 }),
    row!(Vop3 v_mul_hi_i32        0x287 ALL |a: i32, b: i32| -> i32 { ((i64::from(a) * i64::from(b)) >> 32) as i32 }),
    Op::new("v_readlane_b32", Family::Vop3, 0x289, ArchSet::ALL, one_level!(w, i, _e, read_lane(w, i)))
        .operands(Kind::B32, kinds(&[Kind::B32, Kind::B32])).with(LANE_READ).is(Action::ReadLane),
    Op::new("v_writelane_b32", Family::Vop3, 0x28a, ArchSet::ALL, one_level!(w, i, _e, write_lane(w, i)))
        .operands(Kind::B32, kinds(&[Kind::B32, Kind::B32])).with(Flags::LANE_SRC).is(Action::WriteLane),
    row!(Vop3 v_bcnt_u32_b32      0x28b ALL |a: u32, b: u32| -> u32 { a.count_ones().wrapping_add(b) }),
    Op::new("v_mbcnt_lo_u32_b32", Family::Vop3, 0x28c, ArchSet::ALL, levels!(w, i, _e, count_below(w, i, 0)))
        .operands(Kind::U32, kinds(&[Kind::U32, Kind::U32])),
    Op::new("v_mbcnt_hi_u32_b32", Family::Vop3, 0x28d, ArchSet::ALL, levels!(w, i, _e, count_below(w, i, 32)))
        .operands(Kind::U32, kinds(&[Kind::U32, Kind::U32])),
    row!(Vop3 v_lshlrev_b64       0x28f ALL |a: u32, b: u64| -> u64 { b << (a & 63) }).is(Action::ShiftLeft),
    row!(Vop3 v_lshrrev_b64       0x290 ALL |a: u32, b: u64| -> u64 { b >> (a & 63) }).is(Action::ShiftRight),
    row!(Vop3 v_ashrrev_i64       0x291 ALL |a: u32, b: i64| -> i64 { b >> (a & 63) }).is(Action::ShiftRightSigned),
    row!(Vop3 v_bfm_b32           0x293 ALL |a: u32, b: u32| -> u32 { ((1u32 << (a & 31)) - 1) << (b & 31) }),
    row!(Vop3 v_cvt_pk_u16_u32    0x297 ALL |a: u32, b: u32| -> u32 { a.min(0xffff) | b.min(0xffff) << 16 }),
    row!(Vop3 v_cvt_pk_i16_i32    0x298 ALL |a: i32, b: i32| -> u32 { pack_i16(a) | pack_i16(b) << 16 }),
    row!(Vop3 v_add_i32           0x29c ALL sat |a: i32, b: i32| -> i32 { a.wrapping_add(b) } else { a.saturating_add(b) }).is(Action::Add),
    row!(Vop3 v_sub_i32           0x29d ALL sat |a: i32, b: i32| -> i32 { a.wrapping_sub(b) } else { a.saturating_sub(b) }).is(Action::Subtract),
    row!(Vop3 v_add_i16           0x29e ALL sat |a: i16, b: i16| -> i16 { a.wrapping_add(b) } else { a.saturating_add(b) }).with(SEL).is(Action::Add),
    row!(Vop3 v_sub_i16           0x29f ALL sat |a: i16, b: i16| -> i16 { a.wrapping_sub(b) } else { a.saturating_sub(b) }).with(SEL).is(Action::Subtract),
];

#[inline(always)]
fn bfe_i32(a: i32, offset: u32, width: u32) -> i32 {
    let (offset, width) = (offset & 31, width & 31);
    if width == 0 {
        return 0;
    }
    // A field that reaches past bit 31 is filled with the sign.
    let field = a >> offset;
    if offset + width >= 32 { field } else { field << (32 - width) >> (32 - width) }
}

/// A sum and its carry; with the clamp modifier the sum stays in range.
#[inline(always)]
fn wide_sum(product: u64, addend: u64, clamp: bool) -> (u64, bool) {
    let (sum, over) = product.overflowing_add(addend);
    (if clamp && over { u64::MAX } else { sum }, over)
}

/// As [`wide_sum`], signed: what is beside the sum is its bit 64, its sign. Source: AMD's pseudocode of CDNA3 and CDNA4.
#[inline(always)]
fn signed_wide_sum(product: i64, addend: i64, clamp: bool) -> (i64, bool) {
    let (sum, over) = product.overflowing_add(addend);
    (if clamp && over { product.saturating_add(addend) } else { sum }, (sum < 0) != over)
}

fn saturate_u32(x: u64) -> u32 {
    u32::try_from(x).unwrap_or(u32::MAX)
}

fn saturate_i32(x: i64) -> i32 {
    x.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

fn saturate_u16(a: u16, b: u16, c: u16) -> u16 {
    (u64::from(a) * u64::from(b) + u64::from(c)).min(0xffff) as u16
}

fn saturate_i16(a: i16, b: i16, c: i16) -> i16 {
    (i64::from(a) * i64::from(b) + i64::from(c)).clamp(-0x8000, 0x7fff) as i16
}

fn pack_i16(a: i32) -> u32 {
    u32::from(a.clamp(-0x8000, 0x7fff) as i16 as u16)
}

#[inline(always)]
fn byte(word: u32, n: u32) -> u32 {
    word >> (8 * n) & 0xff
}

#[inline(always)]
fn bytes(f: impl Fn(u32) -> u32) -> u32 {
    (0..4).fold(0, |word, n| word | f(n) << (8 * n))
}

/// One byte of `v_perm_b32`: `a` holds bytes 4 to 7, `b` bytes 0 to 3; the other selectors are signs and constants.
fn permuted_byte(a: u32, b: u32, selector: u32) -> u32 {
    let sign = |word: u32, bit: u32| if word >> bit & 1 == 1 { 0xff } else { 0 };
    match selector {
        0..=3 => byte(b, selector),
        4..=7 => byte(a, selector - 4),
        8 => sign(b, 15),
        9 => sign(b, 31),
        10 => sign(a, 15),
        11 => sign(a, 31),
        12 => 0,
        _ => 0xff,
    }
}

fn sad_u8(a: u32, b: u32) -> u32 {
    (0..4).map(|n| byte(a, n).abs_diff(byte(b, n))).sum()
}

/// The bits of a truth table of eight entries, whose numbers are made of a bit of each source, that of the first one above.
#[inline(always)]
fn looked_up(table: u32, a: u32, b: u32, c: u32) -> u32 {
    let entry = |n: u32| {
        let matching = |x: u32, bit: u32| if n >> bit & 1 == 1 { x } else { !x };
        0u32.wrapping_sub(table >> n & 1) & matching(a, 2) & matching(b, 1) & matching(c, 0)
    };
    (0..8).fold(0, |bits, n| bits | entry(n))
}

/// The lower bytes of two numbers side by side.
#[inline(always)]
fn byte_pair([low, high]: [i32; 2]) -> u16 {
    (low & 0xff | (high & 0xff) << 8) as u16
}

fn sad_u16(a: u32, b: u32) -> u32 {
    (a & 0xffff).abs_diff(b & 0xffff) + (a >> 16).abs_diff(b >> 16)
}

/// Bytes of `b` that are zero do not count.
fn masked_sad(a: u32, b: u32) -> u32 {
    (0..4).filter(|&n| byte(b, n) != 0).map(|n| byte(a, n).abs_diff(byte(b, n))).sum()
}

/// Four sums over four bytes, at successive byte offsets of `a`, added to the halves of `c`.
fn quad_sad16(a: u64, b: u32, c: u64, clamp: bool, sad: fn(u32, u32) -> u32) -> u64 {
    (0..4).fold(0, |packed, n| {
        let sum = sad((a >> (8 * n)) as u32, b) + ((c >> (16 * n)) as u32 & 0xffff);
        packed | u64::from(if clamp { sum.min(0xffff) } else { sum & 0xffff }) << (16 * n)
    })
}

/// Like [`quad_sad16`] with masked sums added to four dwords.
fn quad_sad32(w: &mut Wave, i: &Inst) -> Flow {
    let (a, b) = (source::<u64>(w, i, 0), source::<u32>(w, i, 1));
    let exec = w.exec();
    for n in 0..4u32 {
        let c = if i.src[2].is_vector() {
            *w.vector(i.src[2], n)
        } else {
            [w.scalar32(i.src[2], i.literal, Kind::U32); 64]
        };
        let sums = std::array::from_fn(|l| {
            let sad = masked_sad((a[l] >> (8 * n)) as u32, b[l]);
            if i.mods.clamp { sad.saturating_add(c[l]) } else { sad.wrapping_add(c[l]) }
        });
        crate::lanes::blend(w.vector_mut(i.dst, n), &sums, exec);
    }
    Flow::Next
}

fn lane_number(w: &Wave, i: &Inst) -> usize {
    w.scalar32(i.src[1], i.literal, Kind::B32) as usize & 63
}

fn read_lane(w: &mut Wave, i: &Inst) -> Flow {
    let lane = lane_number(w, i);
    let value = w.vector(i.src[0], 0)[lane];
    scalar_result(w, i.dst, value);
    Flow::Next
}

fn write_lane(w: &mut Wave, i: &Inst) -> Flow {
    let lane = lane_number(w, i);
    let value = w.scalar32(i.src[0], i.literal, Kind::B32);
    w.vector_mut(i.dst, 0)[lane] = value;
    Flow::Next
}

/// Counts the bits of a mask that belong to lower lanes; `first` is the lane of bit 0.
#[inline(always)]
fn count_below(w: &mut Wave, i: &Inst, first: u32) -> Flow {
    let (mask, add) = (source::<u32>(w, i, 0), source::<u32>(w, i, 1));
    let counts = std::array::from_fn(|l| {
        let below = ((1u64 << (l as u32).saturating_sub(first).min(32)) - 1) as u32;
        (mask[l] & below).count_ones().wrapping_add(add[l])
    });
    crate::lanes::result::<u32>(w, i, &counts);
    Flow::Next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lanes::Lane;

    #[test]
    fn bytes_permute_as_the_manual_numbers_them() {
        let (a, b) = (0x7766_5544, 0x3322_1180);
        assert_eq!(bytes(|n| permuted_byte(a, b, [0, 7, 4, 3][n as usize])), 0x3344_7780);
        assert_eq!(bytes(|n| permuted_byte(a, b, [8, 9, 12, 13][n as usize])), 0xff00_0000);
    }

    #[test]
    fn bit_fields_stop_at_the_top() {
        assert_eq!(bfe_i32(0x80, 4, 4), -8);
        assert_eq!(bfe_i32(i32::MIN, 28, 8), -8);
        assert_eq!(bfe_i32(-1, 3, 0), 0);
    }

    #[test]
    fn lanes_compute_unsigned_and_signed_halves() {
        assert_eq!((pack_i16(40_000), pack_i16(-5)), (0x7fff, 0xfffb));
        assert_eq!(<i16 as Lane>::from_bits(0xffff_8000), i16::MIN);
    }
}
