//! Conversions from and to floats of eight bits. Source: AMD Instinct MI300 and CDNA4 ISA manuals, "BF8 / FP8 Conversions", and their VOP1
//! and VOP3 instructions. An opcode has a row for each of the two pairs of formats that processors have.

use crate::arch::ArchSet;
use crate::fp::small::{E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, Format};
use crate::inst::Inst;
use crate::lanes::{blend, source};
use crate::mode::Mode;
use crate::op::{Family, Flags, Flow, Levels, Op};
use crate::operand::Kind;
use crate::wave::Wave;

/// Of a conversion of two singles into half of a register.
const PAIR: Flags = Flags::OP_SEL.and(Flags::KEEP_HIGH).and(Flags::NO_CLAMP);
/// Of a conversion of one single into a byte of a register.
const BYTE: Flags = Flags::BYTE_DST.and(Flags::NO_CLAMP);

const fn to_byte(name: &'static str, code: u16, archs: ArchSet, run: Levels) -> Op {
    Op::new(name, Family::Vop3, code, archs, run).operands(Kind::B32, super::kinds(&[Kind::F32, Kind::U32])).with(BYTE)
}

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    row!(Vop1 v_cvt_f32_fp8    0x54  FP8_CVT_FNUZ |a: u32| -> f32 { E4M3Fnuz::to_f32(a) }).with(Flags::PART_SRC),
    row!(Vop1 v_cvt_f32_fp8    0x54  FP8_CVT_OCP  |a: u32| -> f32 { E4M3::to_f32(a) }).with(Flags::PART_SRC),
    row!(Vop1 v_cvt_f32_bf8    0x55  FP8_CVT_FNUZ |a: u32| -> f32 { E5M2Fnuz::to_f32(a) }).with(Flags::PART_SRC),
    row!(Vop1 v_cvt_f32_bf8    0x55  FP8_CVT_OCP  |a: u32| -> f32 { E5M2::to_f32(a) }).with(Flags::PART_SRC),
    row!(Vop1 v_cvt_pk_f32_fp8 0x56  FP8_CVT_FNUZ |a: u32| -> [f32; 2] { both::<E4M3Fnuz>(a) }).with(Flags::PART_SRC),
    row!(Vop1 v_cvt_pk_f32_fp8 0x56  FP8_CVT_OCP  |a: u32| -> [f32; 2] { both::<E4M3>(a) }).with(Flags::PART_SRC),
    row!(Vop1 v_cvt_pk_f32_bf8 0x57  FP8_CVT_FNUZ |a: u32| -> [f32; 2] { both::<E5M2Fnuz>(a) }).with(Flags::PART_SRC),
    row!(Vop1 v_cvt_pk_f32_bf8 0x57  FP8_CVT_OCP  |a: u32| -> [f32; 2] { both::<E5M2>(a) }).with(Flags::PART_SRC),
    row!(Vop3 v_cvt_pk_fp8_f32 0x2a2 FP8_CVT_FNUZ mode |m, a: f32, b: f32| -> u16 { pack::<E4M3Fnuz>(m, a, b) }).with(PAIR),
    row!(Vop3 v_cvt_pk_fp8_f32 0x2a2 FP8_CVT_OCP  mode |m, a: f32, b: f32| -> u16 { pack::<E4M3>(m, a, b) }).with(PAIR),
    row!(Vop3 v_cvt_pk_bf8_f32 0x2a3 FP8_CVT_FNUZ mode |m, a: f32, b: f32| -> u16 { pack::<E5M2Fnuz>(m, a, b) }).with(PAIR),
    row!(Vop3 v_cvt_pk_bf8_f32 0x2a3 FP8_CVT_OCP  mode |m, a: f32, b: f32| -> u16 { pack::<E5M2>(m, a, b) }).with(PAIR),
    to_byte("v_cvt_sr_fp8_f32", 0x2a4, ArchSet::FP8_CVT_FNUZ, levels!(w, i, _e, into_byte::<E4M3Fnuz>(w, i))),
    to_byte("v_cvt_sr_fp8_f32", 0x2a4, ArchSet::FP8_CVT_OCP,  levels!(w, i, _e, into_byte::<E4M3>(w, i))),
    to_byte("v_cvt_sr_bf8_f32", 0x2a5, ArchSet::FP8_CVT_FNUZ, levels!(w, i, _e, into_byte::<E5M2Fnuz>(w, i))),
    to_byte("v_cvt_sr_bf8_f32", 0x2a5, ArchSet::FP8_CVT_OCP,  levels!(w, i, _e, into_byte::<E5M2>(w, i))),
];

/// Mantissa bits of a single.
const SINGLE: u32 = f32::MANTISSA_DIGITS - 1;

/// The lower two bytes.
#[inline(always)]
fn both<F: Format>(a: u32) -> [f32; 2] {
    [a, a >> 8].map(F::to_f32)
}

/// Two bytes, the first one below.
#[inline(always)]
fn pack<F: Format>(mode: Mode, a: f32, b: f32) -> u16 {
    let byte = |x: f32| F::nearest(x, mode.saturates_small()) as u16;
    byte(a) | byte(b) << 8
}

/// Writes the byte that `op_sel` chooses.
#[inline(always)]
fn into_byte<F: Format>(w: &mut Wave, i: &Inst) -> Flow {
    let (x, random) = (source::<f32>(w, i, 0), source::<u32>(w, i, 1));
    let saturates = w.mode.saturates_small();
    let shift = 8 * u32::from(i.mods.op_sel >> 2);
    let old = w.vector(i.dst, 0);
    let word =
        std::array::from_fn(|l| old[l] & !(0xff << shift) | F::stochastic(x[l], SINGLE, random[l], saturates) << shift);
    let exec = w.exec();
    blend(w.vector_mut(i.dst, 0), &word, exec);
    Flow::Next
}
