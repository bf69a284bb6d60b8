//! VOP2: two sources. Source: Vega and CDNA2 ISA manuals, "VOP2 Instructions"; LLVM for the `dot2c` group.

use super::kinds;
use crate::action::{Action, Bitwise};
use crate::arch::ArchSet;
use crate::arithmetic::Number;
use crate::fp::{Arith, F16, MinMax};
use crate::lanes::{Lane, M32, carry, map2_masked, map3};
use crate::op::{Family, Flags, Levels, Op};
use crate::operand::Kind;
use crate::ops::packed::{Dot2, H2, dot_signed, saturated_dot_signed};

const MASK: Flags = Flags::MASK_OUT.and(Flags::CLAMP);
const MASK_THROUGH: Flags = MASK.and(Flags::MASK_IN);
const ACC: Flags = Flags::DST_IS_SRC2;
const K2: Flags = Flags::K_SECOND.and(Flags::E32_ONLY).and(Flags::NO_SDWA).and(Flags::NO_DPP);
const K3: Flags = Flags::K_THIRD.and(Flags::E32_ONLY).and(Flags::NO_SDWA).and(Flags::NO_DPP);

/// A 32-bit addition or subtraction that has a carry.
const fn carry_op(name: &'static str, code: u16, flags: Flags, run: Levels) -> Op {
    let third = if flags.has(Flags::MASK_IN) { Kind::Mask } else { Kind::None };
    Op::new(name, Family::Vop2, code, ArchSet::ALL, run).operands(Kind::U32, [Kind::U32, Kind::U32, third]).with(flags)
}

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    Op::new("v_cndmask_b32", Family::Vop2, 0x00, ArchSet::ALL, levels!(w, i, _e, map2_masked(w, i, |a: M32, b: M32, m| M32(b.0 & m | a.0 & !m))))
        .operands(Kind::M32, kinds(&[Kind::M32, Kind::M32, Kind::Mask])).with(Flags::MASK_IN).is(Action::Select),
    row!(Vop2 v_add_f32          0x01 ALL       fp |m, a: f32, b: f32| -> f32 { m.add(a, b) }).counts(Number::F32, 1),
    row!(Vop2 v_sub_f32          0x02 ALL       fp |m, a: f32, b: f32| -> f32 { m.sub(a, b) }).counts(Number::F32, 1),
    row!(Vop2 v_subrev_f32       0x03 ALL       fp |m, a: f32, b: f32| -> f32 { m.sub(b, a) }).counts(Number::F32, 1),
    row!(Vop2 v_mul_legacy_f32   0x04 UNTIL_908 fp |m, a: f32, b: f32| -> f32 { if a == 0.0 || b == 0.0 { 0.0 } else { m.mul(a, b) } }).counts(Number::F32, 1),
    row!(Vop2 v_fmac_f64         0x04 SINCE_90A fp |m, a: f64, b: f64, c: f64| -> f64 { m.fma(a, b, c) }).with(ACC).with(Flags::NO_SDWA).counts(Number::F64, 2).is(Action::Fma64),
    row!(Vop2 v_mul_f32          0x05 ALL       fp |m, a: f32, b: f32| -> f32 { m.mul(a, b) }).counts(Number::F32, 1),
    row!(Vop2 v_mul_i32_i24      0x06 ALL       |a: i32, b: i32| -> i32 { i24(a).wrapping_mul(i24(b)) }).is(Action::Multiply24),
    row!(Vop2 v_mul_hi_i32_i24   0x07 ALL       |a: i32, b: i32| -> i32 { ((i64::from(i24(a)) * i64::from(i24(b))) >> 32) as i32 }).is(Action::MultiplyHigh24),
    row!(Vop2 v_mul_u32_u24      0x08 ALL       |a: u32, b: u32| -> u32 { u24(a).wrapping_mul(u24(b)) }).is(Action::Multiply24),
    row!(Vop2 v_mul_hi_u32_u24   0x09 ALL       |a: u32, b: u32| -> u32 { ((u64::from(u24(a)) * u64::from(u24(b))) >> 32) as u32 }).is(Action::MultiplyHigh24),
    row!(Vop2 v_min_f32          0x0a ALL       mode |m, a: f32, b: f32| -> f32 { a.smaller(b, m) }),
    row!(Vop2 v_max_f32          0x0b ALL       mode |m, a: f32, b: f32| -> f32 { a.larger(b, m) }),
    row!(Vop2 v_min_i32          0x0c ALL       |a: i32, b: i32| -> i32 { a.min(b) }),
    row!(Vop2 v_max_i32          0x0d ALL       |a: i32, b: i32| -> i32 { a.max(b) }),
    row!(Vop2 v_min_u32          0x0e ALL       |a: u32, b: u32| -> u32 { a.min(b) }),
    row!(Vop2 v_max_u32          0x0f ALL       |a: u32, b: u32| -> u32 { a.max(b) }),
    row!(Vop2 v_lshrrev_b32      0x10 ALL       |a: u32, b: u32| -> u32 { b >> (a & 31) }).is(Action::ShiftRight),
    row!(Vop2 v_ashrrev_i32      0x11 ALL       |a: u32, b: i32| -> i32 { b >> (a & 31) }).is(Action::ShiftRightSigned),
    row!(Vop2 v_lshlrev_b32      0x12 ALL       |a: u32, b: u32| -> u32 { b << (a & 31) }).is(Action::ShiftLeft),
    row!(Vop2 v_and_b32          0x13 ALL       |a: u32, b: u32| -> u32 { a & b }).is(Action::Bitwise(Bitwise::And)),
    row!(Vop2 v_or_b32           0x14 ALL       |a: u32, b: u32| -> u32 { a | b }).is(Action::Bitwise(Bitwise::Or)),
    row!(Vop2 v_xor_b32          0x15 ALL       |a: u32, b: u32| -> u32 { a ^ b }).is(Action::Bitwise(Bitwise::Xor)),
    row!(Vop2 v_mac_f32          0x16 MAD_MAC   fp |m, a: f32, b: f32, c: f32| -> f32 { mad32(m, a, b, c) }).with(ACC).counts(Number::F32, 2),
    row!(Vop2 v_madmk_f32        0x17 MAD_MAC   fp |m, a: f32, k: f32, c: f32| -> f32 { mad32(m, a, k, c) }).with(K2).counts(Number::F32, 2),
    row!(Vop2 v_fmamk_f32        0x17 SINCE_942 fp |m, a: f32, k: f32, c: f32| -> f32 { m.fma(a, k, c) }).with(K2).counts(Number::F32, 2),
    row!(Vop2 v_madak_f32        0x18 MAD_MAC   fp |m, a: f32, b: f32, k: f32| -> f32 { mad32(m, a, b, k) }).with(K3).counts(Number::F32, 2),
    row!(Vop2 v_fmaak_f32        0x18 SINCE_942 fp |m, a: f32, b: f32, k: f32| -> f32 { m.fma(a, b, k) }).with(K3).counts(Number::F32, 2),
    carry_op("v_add_co_u32",     0x19, MASK,         levels!(w, i, _e, carry(w, i, u32::MAX, |a, b, _| a.overflowing_add(b)))).is(Action::Add),
    carry_op("v_sub_co_u32",     0x1a, MASK,         levels!(w, i, _e, carry(w, i, 0, |a, b, _| a.overflowing_sub(b)))).is(Action::Subtract),
    carry_op("v_subrev_co_u32",  0x1b, MASK,         levels!(w, i, _e, carry(w, i, 0, |a, b, _| b.overflowing_sub(a)))).is(Action::Subtract),
    carry_op("v_addc_co_u32",    0x1c, MASK_THROUGH, levels!(w, i, _e, carry(w, i, u32::MAX, add_with_carry))).is(Action::AddCarry),
    carry_op("v_subb_co_u32",    0x1d, MASK_THROUGH, levels!(w, i, _e, carry(w, i, 0, sub_with_borrow))).is(Action::Subtract),
    carry_op("v_subbrev_co_u32", 0x1e, MASK_THROUGH, levels!(w, i, _e, carry(w, i, 0, |a, b, c| sub_with_borrow(b, a, c)))).is(Action::Subtract),
    row!(Vop2 v_add_f16          0x1f ALL       fp |m, a: F16, b: F16| -> F16 { m.add(a, b) }).counts(Number::F16, 1),
    row!(Vop2 v_sub_f16          0x20 ALL       fp |m, a: F16, b: F16| -> F16 { m.sub(a, b) }).counts(Number::F16, 1),
    row!(Vop2 v_subrev_f16       0x21 ALL       fp |m, a: F16, b: F16| -> F16 { m.sub(b, a) }).counts(Number::F16, 1),
    row!(Vop2 v_mul_f16          0x22 ALL       fp |m, a: F16, b: F16| -> F16 { m.mul(a, b) }).counts(Number::F16, 1),
    row!(Vop2 v_mac_f16          0x23 ALL       fp |m, a: F16, b: F16, c: F16| -> F16 { m.mad(a, b, c) }).with(ACC).with(Flags::KEEP_HIGH).counts(Number::F16, 2),
    row!(Vop2 v_madmk_f16        0x24 ALL       fp |m, a: F16, k: F16, c: F16| -> F16 { m.mad(a, k, c) }).with(K2).with(Flags::KEEP_HIGH).counts(Number::F16, 2),
    row!(Vop2 v_madak_f16        0x25 ALL       fp |m, a: F16, b: F16, k: F16| -> F16 { m.mad(a, b, k) }).with(K3).with(Flags::KEEP_HIGH).counts(Number::F16, 2),
    row!(Vop2 v_add_u16          0x26 ALL       sat |a: u16, b: u16| -> u16 { a.wrapping_add(b) } else { a.saturating_add(b) }).is(Action::Add),
    row!(Vop2 v_sub_u16          0x27 ALL       sat |a: u16, b: u16| -> u16 { a.wrapping_sub(b) } else { a.saturating_sub(b) }).is(Action::Subtract),
    row!(Vop2 v_subrev_u16       0x28 ALL       sat |a: u16, b: u16| -> u16 { b.wrapping_sub(a) } else { b.saturating_sub(a) }).is(Action::Subtract),
    row!(Vop2 v_mul_lo_u16       0x29 ALL       |a: u16, b: u16| -> u16 { a.wrapping_mul(b) }).is(Action::MultiplyLow),
    row!(Vop2 v_lshlrev_b16      0x2a ALL       |a: u16, b: u16| -> u16 { b << (a & 15) }).is(Action::ShiftLeft),
    row!(Vop2 v_lshrrev_b16      0x2b ALL       |a: u16, b: u16| -> u16 { b >> (a & 15) }).is(Action::ShiftRight),
    row!(Vop2 v_ashrrev_i16      0x2c ALL       |a: u16, b: i16| -> i16 { b >> (a & 15) }).is(Action::ShiftRightSigned),
    row!(Vop2 v_max_f16          0x2d ALL       mode |m, a: F16, b: F16| -> F16 { a.larger(b, m) }),
    row!(Vop2 v_min_f16          0x2e ALL       mode |m, a: F16, b: F16| -> F16 { a.smaller(b, m) }),
    row!(Vop2 v_max_u16          0x2f ALL       |a: u16, b: u16| -> u16 { a.max(b) }),
    row!(Vop2 v_max_i16          0x30 ALL       |a: i16, b: i16| -> i16 { a.max(b) }),
    row!(Vop2 v_min_u16          0x31 ALL       |a: u16, b: u16| -> u16 { a.min(b) }),
    row!(Vop2 v_min_i16          0x32 ALL       |a: i16, b: i16| -> i16 { a.min(b) }),
    row!(Vop2 v_ldexp_f16        0x33 ALL       fp |m, a: F16, b: i16| -> F16 { m.ldexp(a, b.into()) }).with(Flags::HALF_EXPONENT),
    row!(Vop2 v_add_u32          0x34 ALL       sat |a: u32, b: u32| -> u32 { a.wrapping_add(b) } else { a.saturating_add(b) }).is(Action::Add),
    row!(Vop2 v_sub_u32          0x35 ALL       sat |a: u32, b: u32| -> u32 { a.wrapping_sub(b) } else { a.saturating_sub(b) }).is(Action::Subtract),
    row!(Vop2 v_subrev_u32       0x36 ALL       sat |a: u32, b: u32| -> u32 { b.wrapping_sub(a) } else { b.saturating_sub(a) }).is(Action::Subtract),
    Op::new("v_dot2c_f32_f16", Family::Vop2, 0x37, ArchSet::SINCE_908, levels!(w, i, _e, { let dot = Dot2::of(w); map3(w, i, |a: H2, b: H2, c: f32| dot.of_halves(a, b, c)) }))
        .operands(Kind::F32, [Kind::V2F16, Kind::V2F16, Kind::F32]).with(ACC).counts(Number::F16, 4).is(Action::Dot),
    row!(Vop2 v_dot2c_i32_i16    0x38 SINCE_908 sat |a: u32, b: u32, c: i32| -> i32 { dot_signed(a, b, c, 16) } else { saturated_dot_signed(a, b, c, 16) }).with(ACC).counts(Number::I16, 4).is(Action::Dot),
    row!(Vop2 v_dot4c_i32_i8     0x39 SINCE_908 sat |a: u32, b: u32, c: i32| -> i32 { dot_signed(a, b, c, 8) } else { saturated_dot_signed(a, b, c, 8) }).with(ACC).counts(Number::I8, 8).is(Action::Dot),
    row!(Vop2 v_dot8c_i32_i4     0x3a SINCE_908 sat |a: u32, b: u32, c: i32| -> i32 { dot_signed(a, b, c, 4) } else { saturated_dot_signed(a, b, c, 4) }).with(ACC).counts(Number::I4, 16).is(Action::Dot),
    row!(Vop2 v_fmac_f32         0x3b SINCE_906 fp |m, a: f32, b: f32, c: f32| -> f32 { m.fma(a, b, c) }).with(ACC).counts(Number::F32, 2),
    row!(Vop2 v_pk_fmac_f16      0x3c SINCE_908 fp |m, a: H2, b: H2, c: H2| -> H2 { H2(m.fma(a.0, b.0, c.0), m.fma(a.1, b.1, c.1)) }).with(ACC).with(Flags::E32_ONLY).counts(Number::F16, 4),
    row!(Vop2 v_xnor_b32         0x3d SINCE_906 |a: u32, b: u32| -> u32 { !(a ^ b) }).is(Action::Bitwise(Bitwise::Xnor)),
];

/// The low 24 bits as a signed number.
#[inline(always)]
pub(crate) fn i24(a: i32) -> i32 {
    a << 8 >> 8
}

/// The low 24 bits.
#[inline(always)]
pub(crate) fn u24(a: u32) -> u32 {
    a & 0xff_ffff
}

/// The unfused multiply-add, which never sees denormals.
#[inline(always)]
pub(crate) fn mad32(m: impl Arith, a: f32, b: f32, c: f32) -> f32 {
    let product = Lane::flush(m.mul(Lane::flush(a), Lane::flush(b)));
    Lane::flush(m.add(product, Lane::flush(c)))
}

#[inline(always)]
fn add_with_carry(a: u32, b: u32, c: u32) -> (u32, bool) {
    let (partial, first) = a.overflowing_add(b);
    let (sum, second) = partial.overflowing_add(c);
    (sum, first | second)
}

#[inline(always)]
fn sub_with_borrow(a: u32, b: u32, c: u32) -> (u32, bool) {
    let (partial, first) = a.overflowing_sub(b);
    let (difference, second) = partial.overflowing_sub(c);
    (difference, first | second)
}
