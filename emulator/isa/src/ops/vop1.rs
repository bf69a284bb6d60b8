//! VOP1: one source. Source: Vega and CDNA2 ISA manuals, "VOP1 Instructions".

use crate::action::Action;
use crate::env::Env;
use crate::fp::{F16, MinMax};
use crate::inst::Inst;
use crate::lanes::{B32, scalar_result};
use crate::op::{Flags, Flow, Op};
use crate::operand::Kind;
use crate::wave::Wave;

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    row!(Vop1 v_nop                 0x00 ALL |_a: B32| -> B32 { B32(0) }).operands(Kind::None, [Kind::None; 3]).nop(),
    row!(Vop1 v_mov_b32             0x01 ALL |a: u32| -> u32 { a }).is(Action::Move),
    Op::new("v_readfirstlane_b32", crate::op::Family::Vop1, 0x02, crate::arch::ArchSet::ALL, one_level!(w, i, _e, read_first_lane(w, i)))
        .operands(Kind::B32, super::kinds(&[Kind::B32])).with(Flags::SCALAR_DST).with(Flags::VECTOR_SRC).with(Flags::E32_ONLY).with(Flags::NO_SDWA).with(Flags::NO_DPP).is(Action::ReadFirstLane),
    row!(Vop1 v_cvt_i32_f64         0x03 ALL |a: f64| -> i32 { a as i32 }).with(Flags::NO_SDWA),
    row!(Vop1 v_cvt_f64_i32         0x04 ALL |a: i32| -> f64 { f64::from(a) }).with(Flags::NO_SDWA),
    row!(Vop1 v_cvt_f32_i32         0x05 ALL fp |m, a: i32| -> f32 { m.narrow(f64::from(a)) }),
    row!(Vop1 v_cvt_f32_u32         0x06 ALL fp |m, a: u32| -> f32 { m.narrow(f64::from(a)) }),
    row!(Vop1 v_cvt_u32_f32         0x07 ALL |a: f32| -> u32 { a as u32 }),
    row!(Vop1 v_cvt_i32_f32         0x08 ALL |a: f32| -> i32 { a as i32 }),
    row!(Vop1 v_cvt_f16_f32         0x0a ALL fp |m, a: f32| -> F16 { m.half(a) }),
    row!(Vop1 v_cvt_f32_f16         0x0b ALL |a: F16| -> f32 { a.to_f32() }),
    row!(Vop1 v_cvt_rpi_i32_f32     0x0c ALL |a: f32| -> i32 { (a + 0.5).floor() as i32 }),
    row!(Vop1 v_cvt_flr_i32_f32     0x0d ALL |a: f32| -> i32 { a.floor() as i32 }),
    row!(Vop1 v_cvt_off_f32_i4      0x0e ALL |a: u32| -> f32 { (((a << 28) as i32) >> 28) as f32 / 16.0 }),
    row!(Vop1 v_cvt_f32_f64         0x0f ALL fp |m, a: f64| -> f32 { m.narrow(a) }).with(Flags::NO_SDWA),
    row!(Vop1 v_cvt_f64_f32         0x10 ALL |a: f32| -> f64 { f64::from(a) }).with(Flags::NO_SDWA),
    row!(Vop1 v_cvt_f32_ubyte0      0x11 ALL |a: u32| -> f32 { (a & 0xff) as f32 }).is(Action::ByteToFloat(0)),
    row!(Vop1 v_cvt_f32_ubyte1      0x12 ALL |a: u32| -> f32 { (a >> 8 & 0xff) as f32 }).is(Action::ByteToFloat(1)),
    row!(Vop1 v_cvt_f32_ubyte2      0x13 ALL |a: u32| -> f32 { (a >> 16 & 0xff) as f32 }).is(Action::ByteToFloat(2)),
    row!(Vop1 v_cvt_f32_ubyte3      0x14 ALL |a: u32| -> f32 { (a >> 24) as f32 }).is(Action::ByteToFloat(3)),
    row!(Vop1 v_cvt_u32_f64         0x15 ALL |a: f64| -> u32 { a as u32 }).with(Flags::NO_SDWA),
    row!(Vop1 v_cvt_f64_u32         0x16 ALL |a: u32| -> f64 { f64::from(a) }).with(Flags::NO_SDWA),
    row!(Vop1 v_trunc_f64           0x17 ALL |a: f64| -> f64 { a.trunc().quiet() }).with(Flags::NO_SDWA),
    row!(Vop1 v_ceil_f64            0x18 ALL |a: f64| -> f64 { a.ceil().quiet() }).with(Flags::NO_SDWA),
    row!(Vop1 v_rndne_f64           0x19 ALL |a: f64| -> f64 { a.round_ties_even().quiet() }).with(Flags::NO_SDWA),
    row!(Vop1 v_floor_f64           0x1a ALL |a: f64| -> f64 { a.floor().quiet() }).with(Flags::NO_SDWA),
    row!(Vop1 v_fract_f32           0x1b ALL fp |m, a: f32| -> f32 { below_one(m.sub(a, a.floor()), 0x3f7f_ffff) }),
    row!(Vop1 v_trunc_f32           0x1c ALL |a: f32| -> f32 { a.trunc().quiet() }),
    row!(Vop1 v_ceil_f32            0x1d ALL |a: f32| -> f32 { a.ceil().quiet() }),
    row!(Vop1 v_rndne_f32           0x1e ALL |a: f32| -> f32 { a.round_ties_even().quiet() }),
    row!(Vop1 v_floor_f32           0x1f ALL |a: f32| -> f32 { a.floor().quiet() }),
    row!(Vop1 v_not_b32             0x2b ALL |a: u32| -> u32 { !a }).is(Action::Not),
    row!(Vop1 v_bfrev_b32           0x2c ALL |a: u32| -> u32 { a.reverse_bits() }).is(Action::ReverseBits),
    row!(Vop1 v_ffbh_u32            0x2d ALL |a: u32| -> u32 { if a == 0 { u32::MAX } else { a.leading_zeros() } }),
    row!(Vop1 v_ffbl_b32            0x2e ALL |a: u32| -> u32 { if a == 0 { u32::MAX } else { a.trailing_zeros() } }),
    row!(Vop1 v_ffbh_i32            0x2f ALL |a: i32| -> u32 { sign_bits(a) }),
    row!(Vop1 v_frexp_exp_i32_f64   0x30 ALL |a: f64| -> i32 { exponent(a) }).with(Flags::NO_SDWA),
    row!(Vop1 v_frexp_mant_f64      0x31 ALL |a: f64| -> f64 { mantissa(a) }).with(Flags::NO_SDWA),
    row!(Vop1 v_fract_f64           0x32 ALL fp |m, a: f64| -> f64 { fraction64(m.sub(a, a.floor())) }).with(Flags::NO_SDWA),
    row!(Vop1 v_frexp_exp_i32_f32   0x33 ALL |a: f32| -> i32 { exponent(f64::from(a)) }),
    row!(Vop1 v_frexp_mant_f32      0x34 ALL |a: f32| -> f32 { mantissa(f64::from(a)) as f32 }),
    row!(Vop1 v_clrexcp             0x35 ALL |_a: B32| -> B32 { B32(0) }).operands(Kind::None, [Kind::None; 3]).nop(),
    row!(Vop1 v_mov_b64             0x38 SINCE_942 |a: u64| -> u64 { a }).with(Flags::NO_SDWA).is(Action::Move),
    row!(Vop1 v_cvt_f16_u16         0x39 ALL fp |m, a: u16| -> F16 { m.half(f32::from(a)) }),
    row!(Vop1 v_cvt_f16_i16         0x3a ALL fp |m, a: i16| -> F16 { m.half(f32::from(a)) }),
    row!(Vop1 v_cvt_u16_f16         0x3b ALL |a: F16| -> u16 { a.to_f32() as u16 }),
    row!(Vop1 v_cvt_i16_f16         0x3c ALL |a: F16| -> i16 { a.to_f32() as i16 }),
    row!(Vop1 v_frexp_mant_f16      0x42 ALL |a: F16| -> F16 { F16::from_f32(mantissa(f64::from(a.to_f32())) as f32) }),
    row!(Vop1 v_frexp_exp_i16_f16   0x43 ALL |a: F16| -> i16 { exponent(f64::from(a.to_f32())) as i16 }),
    row!(Vop1 v_floor_f16           0x44 ALL |a: F16| -> F16 { F16::from_f32(a.to_f32().floor().quiet()) }),
    row!(Vop1 v_ceil_f16            0x45 ALL |a: F16| -> F16 { F16::from_f32(a.to_f32().ceil().quiet()) }),
    row!(Vop1 v_trunc_f16           0x46 ALL |a: F16| -> F16 { F16::from_f32(a.to_f32().trunc().quiet()) }),
    row!(Vop1 v_rndne_f16           0x47 ALL |a: F16| -> F16 { F16::from_f32(a.to_f32().round_ties_even().quiet()) }),
    row!(Vop1 v_fract_f16           0x48 ALL fp |m, a: F16| -> F16 { fraction16(m.sub(a, F16::from_f32(a.to_f32().floor()))) }),
    row!(Vop1 v_cvt_norm_i16_f16    0x4d ALL |a: F16| -> i16 { (a.to_f32().clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16 }),
    row!(Vop1 v_cvt_norm_u16_f16    0x4e ALL |a: F16| -> u16 { (a.to_f32().clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16 }),
    row!(Vop1 v_sat_pk_u8_i16       0x4f ALL |a: u32| -> u16 { saturate_bytes(a) }),
    Op::new("v_swap_b32", crate::op::Family::Vop1, 0x51, crate::arch::ArchSet::ALL, levels!(w, i, _e, swap(w, i)))
        .operands(Kind::B32, super::kinds(&[Kind::B32])).with(Flags::VECTOR_SRC).with(Flags::E32_ONLY).with(Flags::NO_SDWA).with(Flags::NO_DPP).is(Action::Swap),
    row!(Vop1 v_prng_b32            0x58 SINCE_950 |a: u32| -> u32 { next_random(a) }),
    row!(Vop1 v_accvgpr_mov_b32     0x52 SINCE_90A |a: B32| -> B32 { a }).with(Flags::ACC_DST).with(Flags::ACC_SRC).with(Flags::E32_ONLY).with(Flags::NO_SDWA).with(Flags::NO_DPP).is(Action::Move),
];

impl Op {
    /// A vector instruction without operands and effect.
    const fn nop(mut self) -> Op {
        fn run(_: &mut Wave, _: &Inst, _: &mut dyn Env) -> Flow {
            Flow::Next
        }
        self.run = crate::op::Levels { base: run, v3: run, v4: run };
        self
    }
}

/// The next of a sequence of random words.
#[inline(always)]
pub(crate) fn next_random(word: u32) -> u32 {
    word << 1 ^ if word >> 31 == 1 { 0xc5 } else { 0 }
}

/// The lowest active lane's value; lane 0's when none is active.
fn read_first_lane(w: &mut Wave, i: &Inst) -> Flow {
    let lane = w.exec().trailing_zeros() as usize & 63;
    let value =
        if i.src[0].is_vector() { w.vector(i.src[0], 0)[lane] } else { w.scalar32(i.src[0], i.literal, Kind::B32) };
    scalar_result(w, i.dst, value);
    Flow::Next
}

fn swap(w: &mut Wave, i: &Inst) -> Flow {
    let (a, b) = (*w.vector(i.dst, 0), *w.vector(i.src[0], 0));
    let exec = w.exec();
    crate::lanes::blend(w.vector_mut(i.dst, 0), &b, exec);
    crate::lanes::blend(w.vector_mut(i.src[0], 0), &a, exec);
    Flow::Next
}

/// The position of the first bit from the top that differs from the sign.
pub(crate) fn sign_bits(a: i32) -> u32 {
    let same = (a ^ (a >> 31)) as u32;
    if same == 0 { u32::MAX } else { same.leading_zeros() }
}

/// A fraction is below one even when the subtraction rounds up.
fn below_one(fraction: f32, largest: u32) -> f32 {
    if fraction >= 1.0 { f32::from_bits(largest) } else { fraction }
}

fn fraction64(fraction: f64) -> f64 {
    if fraction >= 1.0 { f64::from_bits(0x3fef_ffff_ffff_ffff) } else { fraction }
}

fn fraction16(fraction: F16) -> F16 {
    if fraction.to_f32() >= 1.0 { F16(0x3bff) } else { fraction }
}

/// The exponent that makes the mantissa lie in [0.5, 1); zero for zero, infinity and NaN.
fn exponent(a: f64) -> i32 {
    if a == 0.0 || !a.is_finite() {
        return 0;
    }
    let (a, bias) = if a.abs() < f64::MIN_POSITIVE { (a * 2f64.powi(64), -64) } else { (a, 0) };
    (a.to_bits() >> 52 & 0x7ff) as i32 - 1022 + bias
}

/// The mantissa in [0.5, 1); zero, infinity and NaN are themselves.
fn mantissa(a: f64) -> f64 {
    if a == 0.0 || !a.is_finite() {
        return a;
    }
    let a = if a.abs() < f64::MIN_POSITIVE { a * 2f64.powi(64) } else { a };
    f64::from_bits(a.to_bits() & 0x800f_ffff_ffff_ffff | 1022 << 52)
}

fn saturate_bytes(a: u32) -> u16 {
    let byte = |half: u32| (half as u16 as i16).clamp(0, 255) as u16;
    byte(a) | byte(a >> 16) << 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponent_and_mantissa_multiply_back() {
        for a in [1.0, -3.5, 5e-324, f64::MIN_POSITIVE, 1e300, -1e-310] {
            assert_eq!(mantissa(a) * 2f64.powi(exponent(a) / 2) * 2f64.powi(exponent(a) - exponent(a) / 2), a);
            assert!((0.5..1.0).contains(&mantissa(a).abs()));
        }
        assert_eq!((exponent(0.0), exponent(f64::INFINITY), mantissa(f64::NEG_INFINITY)), (0, 0, f64::NEG_INFINITY));
    }

    #[test]
    fn sign_bits_count_from_the_top() {
        assert_eq!([0, -1, 1, -2, i32::MIN, i32::MAX].map(sign_bits), [u32::MAX, u32::MAX, 31, 31, 1, 1]);
    }
}
