//! Operations on brain floats. Source: CDNA4 ISA manual, "VOP1", "VOP2", "VOP3" and "VOP3P Instructions".

use super::kinds;
use super::packed::{Dot2, dot2};
use crate::action::Action;
use crate::arch::ArchSet;
use crate::arithmetic::Number;
use crate::fp::brain::Brain;
use crate::lanes::{Lane, map3};
use crate::mode::Mode;
use crate::op::{Family, Flags, Op};
use crate::operand::Kind;

/// Two brain floats in one register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct B2(pub(crate) Brain, pub(crate) Brain);

impl Lane for B2 {
    const KIND: Kind = Kind::V2Bf16;
    #[inline(always)]
    fn from_bits(bits: u64) -> B2 {
        B2(Brain(bits as u16), Brain((bits >> 16) as u16))
    }
    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(self.0.0) | u64::from(self.1.0) << 16
    }
    #[inline(always)]
    fn saturate(self, dx10: bool) -> B2 {
        B2(self.0.saturate(dx10), self.1.saturate(dx10))
    }
}

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    row!(Vop1 v_cvt_f32_bf16    0x5b  SINCE_950 |a: Brain| -> f32 { a.to_f32() }),
    Op::new("v_dot2c_f32_bf16", Family::Vop2, 0x16, ArchSet::SINCE_950, levels!(w, i, _e, map3(w, i, |a: B2, b: B2, c: f32| Dot2::of_brains([a.0, a.1], [b.0, b.1], c))))
        .operands(Kind::F32, [Kind::V2Bf16, Kind::V2Bf16, Kind::F32]).with(Flags::DST_IS_SRC2).with(Flags::NO_SDWA).counts(Number::Bf16, 4).is(Action::Dot),
    row!(Vop3 v_cvt_pk_bf16_f32 0x268 SINCE_950 mode |m, a: f32, b: f32| -> B2 { B2(nearest(m, a), nearest(m, b)) }),
    row!(Vop3 v_cvt_sr_bf16_f32 0x2a7 SINCE_950 mode |m, a: f32, b: u32| -> u16 { limited(m, a, Brain::stochastic(a, b)).0 }).with(Flags::OP_SEL).with(Flags::KEEP_HIGH).with(Flags::NO_CLAMP),
    Op::new("v_dot2_f32_bf16", Family::Vop3p, 0x1a, ArchSet::SINCE_950, levels!(w, i, _e, dot2(w, i, Dot2::of_brains)))
        .operands(Kind::F32, kinds(&[Kind::V2Bf16, Kind::V2Bf16, Kind::F32])).with(Flags::CLAMP).with(Flags::DOT).counts(Number::Bf16, 4).is(Action::Dot),
];

#[inline(always)]
fn nearest(mode: Mode, x: f32) -> Brain {
    limited(mode, x, Brain::from_f32(x))
}

/// Numbers that overflow are the largest one if the mode says so; infinity stays.
#[inline(always)]
fn limited(mode: Mode, x: f32, result: Brain) -> Brain {
    if mode.saturates_small() && x.is_finite() { result.limited() } else { result }
}
