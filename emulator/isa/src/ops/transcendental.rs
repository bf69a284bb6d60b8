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
    row!(Vop1 v_exp_f32             0x20 ALL |a: f32| -> f32 { flushed(a, f32::exp2) }).counts(Number::F32, 1).is(Action::Transcendental),
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
    row!(Vop1 v_exp_f16             0x41 ALL fp |m, a: F16| -> F16 { m.limited(F16::from_f32(a.to_f32().exp2()), a.finite()) }).counts(Number::F16, 1).is(Action::Transcendental),
    row!(Vop1 v_sin_f16             0x49 ALL |a: F16| -> F16 { F16::from_f32(sine(a.to_f32())) }).counts(Number::F16, 1).is(Action::Transcendental),
    row!(Vop1 v_cos_f16             0x4a ALL |a: F16| -> F16 { F16::from_f32(cosine(a.to_f32())) }).counts(Number::F16, 1).is(Action::Transcendental),
    row!(Vop1 v_exp_legacy_f32      0x4b ALL |a: f32| -> f32 { flushed(a, f32::exp2) }).counts(Number::F32, 1).is(Action::Transcendental),
    row!(Vop1 v_log_legacy_f32      0x4c ALL |a: f32| -> f32 { flushed(a, f32::log2) }).counts(Number::F32, 1).is(Action::Transcendental),
];

#[inline(always)]
fn flushed(a: f32, f: impl Fn(f32) -> f32) -> f32 {
    Lane::flush(f(Lane::flush(a)))
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
