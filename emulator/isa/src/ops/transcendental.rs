//! VOP1 operations that the hardware approximates. What is computed here is nearer to the exact value than the
//! manual asks for (1 ULP for singles and halves, 2^29 ULP for doubles); sources and results of the single-precision
//! ones lose denormals in every mode, as the hardware's do.
//!
//! Source: Vega ISA manual, "VOP1 Instructions"; LLVM's lowering of `log`, `exp` and `sqrt` for the denormal rules.

use crate::action::Action;
use crate::arithmetic::Number;
use crate::fp::{F16, Float};
use crate::lanes::Lane;
use crate::op::{Flags, Op};

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    row!(Vop1 v_exp_f32             0x20 ALL |a: f32| -> f32 { flushed(a, power_of_two) }).counts(Number::F32, 1).is(Action::Transcendental),
    row!(Vop1 v_log_f32             0x21 ALL |a: f32| -> f32 { flushed(a, f32::log2) }).counts(Number::F32, 1).is(Action::Transcendental),
    row!(Vop1 v_rcp_f32             0x22 ALL |a: f32| -> f32 { flushed(a, |a| 1.0 / a) }).counts(Number::F32, 1).is(Action::Transcendental),
    row!(Vop1 v_rcp_iflag_f32       0x23 ALL |a: f32| -> f32 { flushed(a, |a| 1.0 / a) }).counts(Number::F32, 1).is(Action::Transcendental),
    row!(Vop1 v_rsq_f32             0x24 ALL |a: f32| -> f32 { flushed(a, |a| (1.0 / f64::from(a).sqrt()) as f32) }).counts(Number::F32, 1).is(Action::Transcendental),
    row!(Vop1 v_rcp_f64             0x25 ALL |a: f64| -> f64 { 1.0 / a }).with(Flags::NO_SDWA).counts(Number::F64, 1).is(Action::Transcendental),
    row!(Vop1 v_rsq_f64             0x26 ALL |a: f64| -> f64 { 1.0 / a.sqrt() }).with(Flags::NO_SDWA).counts(Number::F64, 1).is(Action::Transcendental),
    row!(Vop1 v_sqrt_f32            0x27 ALL |a: f32| -> f32 { flushed(a, f32::sqrt) }).counts(Number::F32, 1).is(Action::Transcendental),
    row!(Vop1 v_sqrt_f64            0x28 ALL |a: f64| -> f64 { a.sqrt() }).with(Flags::NO_SDWA).counts(Number::F64, 1).is(Action::Transcendental),
    row!(Vop1 v_sin_f32             0x29 ALL |a: f32| -> f32 { sine(a) }).counts(Number::F32, 1).is(Action::Transcendental),
    row!(Vop1 v_cos_f32             0x2a ALL |a: f32| -> f32 { cosine(a) }).counts(Number::F32, 1).is(Action::Transcendental),
    row!(Vop1 v_rcp_f16             0x3d ALL fp |m, a: F16| -> F16 { m.limited(F16::from_f32(1.0 / a.to_f32()), a.to_f32() != 0.0) }).counts(Number::F16, 1).is(Action::Transcendental),
    row!(Vop1 v_sqrt_f16            0x3e ALL |a: F16| -> F16 { F16::from_f32(a.to_f32().sqrt()) }).counts(Number::F16, 1).is(Action::Transcendental),
    row!(Vop1 v_rsq_f16             0x3f ALL |a: F16| -> F16 { F16::from_f32(1.0 / a.to_f32().sqrt()) }).counts(Number::F16, 1).is(Action::Transcendental),
    row!(Vop1 v_log_f16             0x40 ALL |a: F16| -> F16 { F16::from_f32(a.to_f32().log2()) }).counts(Number::F16, 1).is(Action::Transcendental),
    row!(Vop1 v_exp_f16             0x41 ALL fp |m, a: F16| -> F16 { m.limited(F16::from_f32(power_of_two(a.to_f32())), a.finite()) }).counts(Number::F16, 1).is(Action::Transcendental),
    row!(Vop1 v_sin_f16             0x49 ALL |a: F16| -> F16 { F16::from_f32(sine(a.to_f32())) }).counts(Number::F16, 1).is(Action::Transcendental),
    row!(Vop1 v_cos_f16             0x4a ALL |a: F16| -> F16 { F16::from_f32(cosine(a.to_f32())) }).counts(Number::F16, 1).is(Action::Transcendental),
    row!(Vop1 v_exp_legacy_f32      0x4b ALL |a: f32| -> f32 { flushed(a, power_of_two) }).counts(Number::F32, 1).is(Action::Transcendental),
    row!(Vop1 v_log_legacy_f32      0x4c ALL |a: f32| -> f32 { flushed(a, f32::log2) }).counts(Number::F32, 1).is(Action::Transcendental),
];

#[inline(always)]
fn flushed(a: f32, f: impl Fn(f32) -> f32) -> f32 {
    Lane::flush(f(Lane::flush(a)))
}

/// Two to a power, rounded from a value whose relative error is below 2^-41: unlike the host's library, this makes vectors of lanes.
#[inline(always)]
fn power_of_two(a: f32) -> f32 {
    /// Added to a double, it leaves the nearest integer in the lowest bits.
    const TO_INTEGER: f64 = 1.5 * (1u64 << 52) as f64;
    /// The powers of ln 2 over factorials, highest first: of the exponential series.
    const SERIES: [f64; 11] = {
        let mut series = [1.0; 11];
        let mut n = 1;
        while n < 11 {
            series[10 - n] = series[11 - n] * std::f64::consts::LN_2 / n as f64;
            n += 1;
        }
        series
    };
    let a = f64::from(a);
    // Beyond these the result is zero or infinite, as it is for them. NaN stays.
    let a = if a > 200.0 { 200.0 } else { a };
    let a = if a < -200.0 { -200.0 } else { a };
    let shifted = a + TO_INTEGER;
    let rest = a - (shifted - TO_INTEGER);
    let mut sum = SERIES[0];
    let mut n = 1;
    while n < 11 {
        sum = sum * rest + SERIES[n];
        n += 1;
    }
    // The integer goes to the exponent.
    f64::from_bits(sum.to_bits().wrapping_add(shifted.to_bits() << 52)) as f32
}

/// The part of a number of revolutions that matters, when it is in the hardware's domain.
fn revolution(a: f32) -> Option<f64> {
    (a.abs() <= 256.0).then(|| f64::from(a).fract() * std::f64::consts::TAU)
}

fn sine(a: f32) -> f32 {
    if !a.is_finite() {
        return f32::NAN;
    }
    revolution(a).map_or(0.0, |angle| angle.sin() as f32)
}

fn cosine(a: f32) -> f32 {
    if !a.is_finite() {
        return f32::NAN;
    }
    revolution(a).map_or(1.0, |angle| angle.cos() as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_those_of_the_hosts_doubles_but_where_these_are_next_to_a_tie() {
        for n in 0..=u32::MAX / 1021 {
            let a = f32::from_bits(n * 1021);
            let (got, exact) = (power_of_two(a), f64::from(a).exp2());
            if a.is_nan() {
                assert!(got.is_nan());
                continue;
            }
            let is_near = |factor: f64| (exact * factor) as f32 == got;
            assert!(is_near(1.0) || is_near(1.0 + 1e-12) || is_near(1.0 - 1e-12), "2^{a:e}: {got:e}, {exact:e}");
        }
        let exact =
            [(f32::INFINITY, f32::INFINITY), (f32::NEG_INFINITY, 0.0), (-126.0, f32::MIN_POSITIVE), (-0.0, 1.0)];
        for (a, expected) in exact {
            assert_eq!(power_of_two(a), expected, "{a}");
        }
    }
}
