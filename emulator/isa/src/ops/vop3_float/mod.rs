//! VOP3-only floating-point operations. Source: Vega ISA manual, "VOP3 Instructions".

use crate::action::Action;
use crate::arch::ArchSet;
use crate::arithmetic::Number;
use crate::fp::small::{Format, Special};
use crate::fp::{Arith, F16, MinMax, Moded, Nearest};
use crate::lanes::{Lane, map3_with_mask, moded, result, words};
use crate::mode::{Mode, Rounding};
use crate::op::{Family, Flags, Flow, Op};
use crate::operand::Kind;
use crate::ops::packed::H2;
use crate::ops::vop2::mad32;
use crate::wave::LANES;

mod cube;
mod division;
mod trig;

use division::{Unscale, fixup16, fixup32, fixup64, scale32, scale64, unscaled};

const SEL: Flags = Flags::OP_SEL;
const SEL_KEEP: Flags = Flags::OP_SEL.and(Flags::KEEP_HIGH);

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    row!(Vop3 v_mad_legacy_f32       0x1c0 MAD_MAC   fp |m, a: f32, b: f32, c: f32| -> f32 { if Lane::flush(a) == 0.0 || Lane::flush(b) == 0.0 { m.add(0.0, Lane::flush(c)) } else { mad32(m, a, b, c) } }).counts(Number::F32, 2),
    row!(Vop3 v_mad_f32              0x1c1 MAD_MAC   fp |m, a: f32, b: f32, c: f32| -> f32 { mad32(m, a, b, c) }).counts(Number::F32, 2),
    row!(Vop3 v_cubeid_f32           0x1c4 ALL       |x: f32, y: f32, z: f32| -> f32 { cube::face(x, y, z) }),
    row!(Vop3 v_cubesc_f32           0x1c5 ALL       |x: f32, y: f32, z: f32| -> f32 { cube::s(x, y, z) }),
    row!(Vop3 v_cubetc_f32           0x1c6 ALL       |x: f32, y: f32, z: f32| -> f32 { cube::t(x, y, z) }),
    row!(Vop3 v_cubema_f32           0x1c7 ALL       fp |m, x: f32, y: f32, z: f32| -> f32 { m.mul(cube::major(x, y, z), 2.0) }),
    row!(Vop3 v_fma_f32              0x1cb ALL       fp |m, a: f32, b: f32, c: f32| -> f32 { m.fma(a, b, c) }).counts(Number::F32, 2),
    row!(Vop3 v_fma_f64              0x1cc ALL       fp |m, a: f64, b: f64, c: f64| -> f64 { m.fma(a, b, c) }).counts(Number::F64, 2).is(Action::Fma64),
    row!(Vop3 v_min3_f32             0x1d0 ALL       mode |m, a: f32, b: f32, c: f32| -> f32 { a.smaller(b, m).smaller(c, m) }),
    row!(Vop3 v_max3_f32             0x1d3 ALL       mode |m, a: f32, b: f32, c: f32| -> f32 { a.larger(b, m).larger(c, m) }),
    row!(Vop3 v_med3_f32             0x1d6 ALL       mode |m, a: f32, b: f32, c: f32| -> f32 { median(a, b, c, m) }),
    row!(Vop3 v_cvt_pk_u8_f32        0x1dd ALL       |a: f32, b: u32, c: u32| -> u32 { insert_byte(a.round_ties_even() as u8, b, c) }),
    row!(Vop3 v_div_fixup_f32        0x1de ALL       |a: f32, b: f32, c: f32| -> f32 { fixup32(a, b, c) }),
    row!(Vop3 v_div_fixup_f64        0x1df ALL       |a: f64, b: f64, c: f64| -> f64 { fixup64(a, b, c) }),
    Op::new("v_div_scale_f32", Family::Vop3, 0x1e0, ArchSet::ALL, levels!(w, i, _e, map3_with_mask(w, i, scale32)))
        .operands(Kind::F32, [Kind::F32, Kind::F32, Kind::F32]).with(Flags::MASK_OUT),
    Op::new("v_div_scale_f64", Family::Vop3, 0x1e1, ArchSet::ALL, levels!(w, i, _e, map3_with_mask(w, i, scale64)))
        .operands(Kind::F64, [Kind::F64, Kind::F64, Kind::F64]).with(Flags::MASK_OUT),
    Op::new("v_div_fmas_f32", Family::Vop3, 0x1e2, ArchSet::ALL, levels!(w, i, _e, with_vcc::<f32>(w, i)))
        .operands(Kind::F32, [Kind::F32, Kind::F32, Kind::F32]).counts(Number::F32, 2).is(Action::DivFmas),
    Op::new("v_div_fmas_f64", Family::Vop3, 0x1e3, ArchSet::ALL, levels!(w, i, _e, with_vcc::<f64>(w, i)))
        .operands(Kind::F64, [Kind::F64, Kind::F64, Kind::F64]).counts(Number::F64, 2).is(Action::DivFmas),
    row!(Vop3 v_mad_legacy_f16       0x1ea ALL       fp |m, a: F16, b: F16, c: F16| -> F16 { m.mad(a, b, c) }).counts(Number::F16, 2),
    row!(Vop3 v_fma_legacy_f16       0x1ee ALL       fp |m, a: F16, b: F16, c: F16| -> F16 { m.fma(a, b, c) }).counts(Number::F16, 2),
    row!(Vop3 v_div_fixup_legacy_f16 0x1ef ALL       |a: F16, b: F16, c: F16| -> F16 { fixup16(a, b, c) }),
    row!(Vop3 v_cvt_pkaccum_u8_f32   0x1f0 ALL       |a: f32, b: u32, c: u32| -> u32 { insert_byte(a.round_ties_even() as u8, b, c) }).with(Flags::DST_IS_SRC2),
    row!(Vop3 v_min3_f16             0x1f4 ALL       mode |m, a: F16, b: F16, c: F16| -> F16 { a.smaller(b, m).smaller(c, m) }).with(SEL_KEEP),
    row!(Vop3 v_max3_f16             0x1f7 ALL       mode |m, a: F16, b: F16, c: F16| -> F16 { a.larger(b, m).larger(c, m) }).with(SEL_KEEP),
    row!(Vop3 v_med3_f16             0x1fa ALL       mode |m, a: F16, b: F16, c: F16| -> F16 { median(a, b, c, m) }).with(SEL_KEEP),
    row!(Vop3 v_mad_f16              0x203 ALL       fp |m, a: F16, b: F16, c: F16| -> F16 { m.mad(a, b, c) }).with(SEL_KEEP).counts(Number::F16, 2),
    row!(Vop3 v_fma_f16              0x206 ALL       fp |m, a: F16, b: F16, c: F16| -> F16 { m.fma(a, b, c) }).with(SEL_KEEP).counts(Number::F16, 2),
    row!(Vop3 v_div_fixup_f16        0x207 ALL       |a: F16, b: F16, c: F16| -> F16 { fixup16(a, b, c) }).with(SEL_KEEP),
    row!(Vop3 v_add_f64              0x280 ALL       fp |m, a: f64, b: f64| -> f64 { m.add(a, b) }).counts(Number::F64, 1),
    row!(Vop3 v_mul_f64              0x281 ALL       fp |m, a: f64, b: f64| -> f64 { m.mul(a, b) }).counts(Number::F64, 1),
    row!(Vop3 v_min_f64              0x282 ALL       mode |m, a: f64, b: f64| -> f64 { a.smaller(b, m) }),
    row!(Vop3 v_max_f64              0x283 ALL       mode |m, a: f64, b: f64| -> f64 { a.larger(b, m) }),
    row!(Vop3 v_ldexp_f64            0x284 ALL       fp |m, a: f64, b: i32| -> f64 { m.ldexp(a, b) }),
    row!(Vop3 v_ldexp_f32            0x288 ALL       fp |m, a: f32, b: i32| -> f32 { m.ldexp(a, b) }),
    row!(Vop3 v_trig_preop_f64       0x292 ALL       |a: f64, b: u32| -> f64 { trig::preop(a, b) }),
    row!(Vop3 v_cvt_pknorm_i16_f32   0x294 ALL       |a: f32, b: f32| -> u32 { signed_norm(a) | signed_norm(b) << 16 }),
    row!(Vop3 v_cvt_pknorm_u16_f32   0x295 ALL       |a: f32, b: f32| -> u32 { unsigned_norm(a) | unsigned_norm(b) << 16 }),
    row!(Vop3 v_cvt_pkrtz_f16_f32    0x296 ALL       |a: f32, b: f32| -> u32 { toward_zero(a) | toward_zero(b) << 16 }),
    row!(Vop3 v_cvt_pknorm_i16_f16   0x299 ALL       |a: F16, b: F16| -> u32 { signed_norm(a.to_f32()) | signed_norm(b.to_f32()) << 16 }).with(SEL),
    row!(Vop3 v_cvt_pknorm_u16_f16   0x29a ALL       |a: F16, b: F16| -> u32 { unsigned_norm(a.to_f32()) | unsigned_norm(b.to_f32()) << 16 }).with(SEL),
    row!(Vop3 v_pack_b32_f16         0x2a0 ALL       |a: F16, b: F16| -> u32 { u32::from(a.0) | u32::from(b.0) << 16 }).with(SEL).is(Action::Pack),
    row!(Vop3 v_cvt_pk_f16_f32       0x267 SINCE_950 mode |m, a: f32, b: f32| -> H2 { H2(nearest(m, a), nearest(m, b)) }),
    row!(Vop3 v_cvt_sr_f16_f32       0x2a6 SINCE_950 mode |m, a: f32, b: u32| -> u16 { stochastic(m, a, b) }).with(SEL_KEEP).with(Flags::NO_CLAMP),
    row!(Vop3 v_minimum3_f32         0x2a8 SINCE_950 |a: f32, b: f32, c: f32| -> f32 { a.least(b).least(c) }),
    row!(Vop3 v_maximum3_f32         0x2a9 SINCE_950 |a: f32, b: f32, c: f32| -> f32 { a.greatest(b).greatest(c) }),
    row!(Vop3 v_mul_legacy_f32       0x2a1 SINCE_90A fp |m, a: f32, b: f32| -> f32 { if a == 0.0 || b == 0.0 { 0.0 } else { m.mul(a, b) } }).counts(Number::F32, 1),
];

/// A fused multiply-add that also reads VCC: lanes with their bit set are scaled.
#[inline(always)]
fn with_vcc<T: Unscale>(w: &mut crate::wave::Wave, i: &crate::inst::Inst) -> Flow {
    match moded::<T>(w) {
        None => with_vcc_in::<T>(w, i, Nearest),
        Some(moded) => with_vcc_in::<T>(w, i, moded),
    }
}

#[inline(always)]
fn with_vcc_in<T: Unscale>(w: &mut crate::wave::Wave, i: &crate::inst::Inst, m: impl Arith) -> Flow {
    words!(w, i, 0, T => a);
    words!(w, i, 1, T => b);
    words!(w, i, 2, T => c);
    let vcc = w.vcc();
    // Hardly any division needs it.
    let mut d: [T; LANES] = std::array::from_fn(|l| m.fma(a.get(l), b.get(l), c.get(l)));
    for l in (0..LANES).filter(|l| vcc >> l & 1 == 1) {
        d[l] = unscaled(m, a.get(l), b.get(l), c.get(l));
    }
    result(w, i, &d);
    Flow::Next
}

/// The one in the middle; with a NaN among them, the smallest number.
#[inline(always)]
fn median<T: MinMax>(a: T, b: T, c: T, mode: Mode) -> T {
    if a.nan() || b.nan() || c.nan() {
        return a.smaller(b, mode).smaller(c, mode);
    }
    a.larger(b, mode).smaller(a.smaller(b, mode).larger(c, mode), mode)
}

fn insert_byte(value: u8, place: u32, word: u32) -> u32 {
    let shift = 8 * (place & 3);
    word & !(0xff << shift) | u32::from(value) << shift
}

fn signed_norm(a: f32) -> u32 {
    u32::from((a.clamp(-1.0, 1.0) * 32767.0).round_ties_even() as i16 as u16)
}

fn unsigned_norm(a: f32) -> u32 {
    u32::from((a.clamp(0.0, 1.0) * 65535.0).round_ties_even() as u16)
}

/// The nearest half, whatever the mode's rounding is.
#[inline(always)]
fn nearest(mode: Mode, x: f32) -> F16 {
    Moded { rounding: Rounding::Nearest, saturates: mode.saturates_small() }.half(x)
}

/// Halves, of which random bits choose one of two.
enum Half {}

impl Format for Half {
    const EXPONENT: u32 = 5;
    const MANTISSA: u32 = 10;
    const BIAS: u32 = 15;
    const SPECIAL: Special = Special::LargestExponent;
}

#[inline(always)]
fn stochastic(mode: Mode, x: f32, random: u32) -> u16 {
    Half::stochastic(x, f32::MANTISSA_DIGITS - 1, random, mode.saturates_small() && x.is_finite()) as u16
}

fn toward_zero(a: f32) -> u32 {
    u32::from(F16::round(f64::from(a), 0.0, Rounding::Zero).0)
}
