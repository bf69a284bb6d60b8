//! Conversions from and to floats of eight bits. Source: AMD Instinct MI300 ISA manual, "BF8 / FP8 Conversions", and its VOP1 and VOP3
//! instructions.

use crate::arch::ArchSet;
use crate::fp::small::{Bf8, Fp8, Small};
use crate::inst::Inst;
use crate::lanes::{blend, source};
use crate::mode::Mode;
use crate::op::{Family, Flags, Flow, Op};
use crate::operand::Kind;
use crate::wave::Wave;

/// Of a conversion of two singles into half of a register.
const PAIR: Flags = Flags::OP_SEL.and(Flags::KEEP_HIGH).and(Flags::NO_CLAMP);
/// Of a conversion of one single into a byte of a register.
const BYTE: Flags = Flags::BYTE_DST.and(Flags::NO_CLAMP);

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    row!(Vop1 v_cvt_f32_fp8    0x54  FP8_CVT  |a: u32| -> f32 { Fp8::new(a).to_f32() }).with(Flags::PART_SRC),
    row!(Vop1 v_cvt_f32_bf8    0x55  FP8_CVT  |a: u32| -> f32 { Bf8::new(a).to_f32() }).with(Flags::PART_SRC),
    row!(Vop1 v_cvt_pk_f32_fp8 0x56  FP8_CVT  |a: u32| -> [f32; 2] { both::<3>(a) }).with(Flags::PART_SRC),
    row!(Vop1 v_cvt_pk_f32_bf8 0x57  FP8_CVT  |a: u32| -> [f32; 2] { both::<2>(a) }).with(Flags::PART_SRC),
    row!(Vop3 v_cvt_pk_fp8_f32 0x2a2 FP8_CVT  mode |m, a: f32, b: f32| -> u16 { pack::<3>(m, a, b) }).with(PAIR),
    row!(Vop3 v_cvt_pk_bf8_f32 0x2a3 FP8_CVT  mode |m, a: f32, b: f32| -> u16 { pack::<2>(m, a, b) }).with(PAIR),
    Op::new("v_cvt_sr_fp8_f32", Family::Vop3, 0x2a4, ArchSet::FP8_CVT, levels!(w, i, _e, into_byte(w, i, |x, random, saturates| Fp8::stochastic(x, random, saturates).0)))
        .operands(Kind::B32, super::kinds(&[Kind::F32, Kind::U32])).with(BYTE),
    Op::new("v_cvt_sr_bf8_f32", Family::Vop3, 0x2a5, ArchSet::FP8_CVT, levels!(w, i, _e, into_byte(w, i, |x, random, saturates| Bf8::stochastic(x, random, saturates).0)))
        .operands(Kind::B32, super::kinds(&[Kind::F32, Kind::U32])).with(BYTE),
];

/// The lower two bytes.
#[inline(always)]
fn both<const MANTISSA: u32>(a: u32) -> [f32; 2] {
    [a, a >> 8].map(|byte| Small::<MANTISSA>::new(byte).to_f32())
}

/// Two bytes, the first one below.
#[inline(always)]
fn pack<const MANTISSA: u32>(mode: Mode, a: f32, b: f32) -> u16 {
    let byte = |x: f32| u16::from(Small::<MANTISSA>::nearest(x, mode.saturates_small()).0);
    byte(a) | byte(b) << 8
}

/// Writes the byte that `op_sel` chooses.
#[inline(always)]
fn into_byte(w: &mut Wave, i: &Inst, convert: impl Fn(f32, u32, bool) -> u8) -> Flow {
    let (x, random) = (source::<f32>(w, i, 0), source::<u32>(w, i, 1));
    let saturates = w.mode.saturates_small();
    let shift = 8 * u32::from(i.mods.op_sel >> 2);
    let old = w.vector(i.dst, 0);
    let word =
        std::array::from_fn(|l| old[l] & !(0xff << shift) | u32::from(convert(x[l], random[l], saturates)) << shift);
    let exec = w.exec();
    blend(w.vector_mut(i.dst, 0), &word, exec);
    Flow::Next
}
