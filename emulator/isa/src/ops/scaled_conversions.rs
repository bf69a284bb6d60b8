//! Conversions with a scale between floats of eight, six and four bits and wider ones. The scale is a power of two, the exponent's field of a
//! single; one that is all ones makes NaN. Narrow numbers are multiplied by it when they are widened, wide ones are divided by it.
//!
//! Source: CDNA4 ISA manual, "Scaled conversions" and "VOP3 Instructions"; AMD's conversions on the host in `amd_hip_ocp_host.hpp`.

use super::brain::B2;
use super::kinds;
use super::packed::H2;
use crate::arch::ArchSet;
use crate::fp::F16;
use crate::fp::brain::Brain;
use crate::fp::scale::power;
use crate::fp::small::{E2M1, E2M3, E3M2, E4M3, E5M2, Format};
use crate::inst::Inst;
use crate::lanes::{Lane, blend, result, source};
use crate::mode::Rounding;
use crate::op::{Family, Flags, Flow, Levels, Op};
use crate::operand::Kind;
use crate::ops::vop1::next_random;
use crate::wave::{LANES, Vgpr, Wave};

/// A float that narrow ones are converted from and to.
trait Wide: Lane {
    /// Bits of the mantissa.
    const MANTISSA: u32;
    /// Two of them side by side.
    type Pair: Lane;
    /// The nearest one, ties to even.
    fn nearest(x: f64) -> Self;
    /// The same value.
    fn value(self) -> f32;
    fn pair(low: Self, high: Self) -> Self::Pair;
    fn parts(pair: Self::Pair) -> [Self; 2];
}

macro_rules! wide {
    ($type:ty, $mantissa:literal, $pair:ty: |$x:ident| $nearest:expr, |$value:ident| $single:expr, |$low:ident, $high:ident| $join:expr, |$both:ident| $parts:expr) => {
        impl Wide for $type {
            const MANTISSA: u32 = $mantissa;
            type Pair = $pair;
            #[inline(always)]
            fn nearest($x: f64) -> $type {
                $nearest
            }
            #[inline(always)]
            fn value(self) -> f32 {
                let $value = self;
                $single
            }
            #[inline(always)]
            fn pair($low: $type, $high: $type) -> $pair {
                $join
            }
            #[inline(always)]
            fn parts($both: $pair) -> [$type; 2] {
                $parts
            }
        }
    };
}

wide!(f32, 23, [f32; 2]: |x| x as f32, |x| x, |low, high| [low, high], |both| both);
wide!(F16, 10, H2: |x| F16::round(x, 0.0, Rounding::Nearest), |x| x.to_f32(), |low, high| H2(low, high), |both| [both.0, both.1]);
// A single holds every narrow number times any scale that matters.
wide!(Brain, 7, B2: |x| Brain::from_f32(x as f32), |x| x.to_f32(), |low, high| B2(low, high), |both| [both.0, both.1]);

/// A scale: the exponent's field of a single, of which 127 is one and 255 is NaN.
#[derive(Clone, Copy)]
struct Scale(u32);

impl Scale {
    /// Of all lanes, from source `s`.
    #[inline(always)]
    fn of(w: &Wave, i: &Inst, s: usize) -> [Scale; LANES] {
        source::<f32>(w, i, s).map(|x| Scale(x.to_bits() >> 23 & 0xff))
    }

    #[inline(always)]
    fn widen<F: Format, W: Wide>(self, code: u32) -> W {
        let value = f64::from(F::to_f32(code)) * power(self.0 as i32 - 127);
        W::nearest(if self.0 == 0xff { f64::NAN } else { value })
    }

    /// `x` divided by the scale. What a single cannot hold overflows or vanishes in every narrow format.
    #[inline(always)]
    fn divided(self, x: f32) -> f32 {
        let value = (f64::from(x) * power(127 - self.0 as i32)) as f32;
        if self.0 == 0xff { f32::NAN.copysign(x) } else { value }
    }

    #[inline(always)]
    fn narrow<F: Format, W: Wide>(self, x: W, random: Option<u32>, saturates: bool) -> u32 {
        let x = self.divided(x.value());
        match random {
            Some(random) => F::stochastic(x, W::MANTISSA, random, saturates),
            None => F::nearest(x, saturates),
        }
    }
}

/// Writes as many bits of each lane's register as `bits` says, from bit `shift` on.
#[inline(always)]
fn put(w: &mut Wave, i: &Inst, shift: u32, bits: u32, values: impl Fn(usize) -> u32) -> Flow {
    let field = ((1 << bits) - 1) << shift;
    let old = w.vector(i.dst, 0);
    let word = std::array::from_fn(|l| old[l] & !field | values(l) << shift & field);
    let exec = w.exec();
    blend(w.vector_mut(i.dst, 0), &word, exec);
    Flow::Next
}

/// The byte, half or nibbles of a source that `op_sel` chooses: where it begins.
#[inline(always)]
fn chosen<F: Format>(i: &Inst, count: u32) -> u32 {
    let size = (F::BITS * count).max(8);
    if size == 8 { 8 * u32::from(i.mods.op_sel & 3) } else { size * u32::from(i.mods.op_sel & 1) }
}

#[inline(always)]
fn widen_one<F: Format, W: Wide>(w: &mut Wave, i: &Inst) -> Flow {
    let (codes, scales, from) = (source::<u32>(w, i, 0), Scale::of(w, i, 1), chosen::<F>(i, 1));
    let values: [W; LANES] = std::array::from_fn(|l| scales[l].widen::<F, W>(codes[l] >> from));
    result(w, i, &values);
    Flow::Next
}

#[inline(always)]
fn widen_two<F: Format, W: Wide>(w: &mut Wave, i: &Inst) -> Flow {
    let (codes, scales, from) = (source::<u32>(w, i, 0), Scale::of(w, i, 1), chosen::<F>(i, 2));
    let values: [W::Pair; LANES] = std::array::from_fn(|l| {
        let [low, high] = [0, F::BITS].map(|bit| scales[l].widen::<F, W>(codes[l] >> (from + bit)));
        W::pair(low, high)
    });
    result(w, i, &values);
    Flow::Next
}

/// Two values side by side, or those of two sources; with random bits for the first, and the next ones for the second.
#[inline(always)]
fn narrow_two<F: Format, W: Wide>(
    w: &mut Wave,
    i: &Inst,
    values: &[[W; 2]; LANES],
    scale: usize,
    random: Option<&[u32; LANES]>,
) -> Flow {
    let (scales, saturates) = (Scale::of(w, i, scale), w.mode.saturates_small());
    let bits = 2 * F::BITS;
    let shift = if bits == 8 { 8 * u32::from(i.mods.op_sel >> 2) } else { 16 * u32::from(i.mods.op_sel >> 3) };
    put(w, i, shift, bits, |l| {
        let random = random.map(|random| random[l]);
        let low = scales[l].narrow::<F, W>(values[l][0], random, saturates);
        let high = scales[l].narrow::<F, W>(values[l][1], random.map(next_random), saturates);
        low | high << F::BITS
    })
}

/// Of two sources.
#[inline(always)]
fn narrow_sources<F: Format>(w: &mut Wave, i: &Inst) -> Flow {
    let (a, b) = (source::<f32>(w, i, 0), source::<f32>(w, i, 1));
    narrow_two::<F, f32>(w, i, &std::array::from_fn(|l| [a[l], b[l]]), 2, None)
}

/// Of the two parts of a source.
#[inline(always)]
fn narrow_parts<F: Format, W: Wide>(w: &mut Wave, i: &Inst) -> Flow {
    let values = source::<W::Pair>(w, i, 0).map(W::parts);
    narrow_two::<F, W>(w, i, &values, 1, None)
}

#[inline(always)]
fn narrow_parts_random<F: Format, W: Wide>(w: &mut Wave, i: &Inst) -> Flow {
    let mut values = source::<W::Pair>(w, i, 0).map(W::parts);
    // The modifiers of a pair of registers are those of both.
    if W::Pair::WORDS == 2 && (i.mods.neg | i.mods.abs) & 1 == 1 {
        let (neg, abs) = (u64::from(i.mods.neg & 1) << 31, u64::from(i.mods.abs & 1) << 31);
        values = values.map(|parts| parts.map(|x| W::from_bits(x.to_bits() & !abs ^ neg)));
    }
    let random = source::<u32>(w, i, 1);
    narrow_two::<F, W>(w, i, &values, 2, Some(&random))
}

#[inline(always)]
fn narrow_one_random<F: Format, W: Wide>(w: &mut Wave, i: &Inst) -> Flow {
    let (values, random, scales) = (source::<W>(w, i, 0), source::<u32>(w, i, 1), Scale::of(w, i, 2));
    let saturates = w.mode.saturates_small();
    put(w, i, 8 * u32::from(i.mods.op_sel >> 2), 8, |l| scales[l].narrow::<F, W>(values[l], Some(random[l]), saturates))
}

/// Numbers of a conversion of many.
const MANY: usize = 32;
/// Registers of as many codes of six bits.
const CODES: usize = 6;

/// Writes registers, which may be those that were read.
#[inline(always)]
fn put_many<const N: usize>(w: &mut Wave, i: &Inst, words: &[Vgpr; N]) -> Flow {
    let exec = w.exec();
    for (n, word) in words.iter().enumerate() {
        blend(w.vector_mut(i.dst, n as u32), word, exec);
    }
    Flow::Next
}

/// Thirty-two codes of six bits, into `N` registers.
#[inline(always)]
fn widen_many<F: Format, W: Wide, const N: usize>(w: &mut Wave, i: &Inst) -> Flow {
    let scales = Scale::of(w, i, 1);
    let mut words = [[0; LANES]; N];
    let flushes = W::flushes_out(w.mode);
    for n in 0..MANY {
        let (at, shift) = (n as u32 * F::BITS / 32, n as u32 * F::BITS % 32);
        let low = w.vector(i.src[0], at);
        let high = w.vector(i.src[0], (at + 1).min(CODES as u32 - 1));
        let (to, place) = (n * N / MANY, n % (MANY / N) * 16);
        for l in 0..LANES {
            let code = ((u64::from(low[l]) | u64::from(high[l]) << 32) >> shift) as u32;
            let value = scales[l].widen::<F, W>(code);
            let value = if flushes { value.flush() } else { value };
            words[to][l] |= (value.to_bits() as u32) << place;
        }
    }
    put_many(w, i, &words)
}

/// Thirty-two numbers that `value` gives of each lane, to codes of six bits.
#[inline(always)]
fn narrow_many<F: Format, W: Wide>(
    w: &mut Wave,
    i: &Inst,
    scale: usize,
    mut random: Option<[u32; LANES]>,
    value: impl Fn(&Wave, usize, usize) -> W,
) -> Flow {
    let scales = Scale::of(w, i, scale);
    let mut words = [[0; LANES]; CODES];
    let flushes = W::flushes_in(w.mode);
    for n in 0..MANY {
        let (at, shift) = (n * F::BITS as usize / 32, n as u32 * F::BITS % 32);
        for l in 0..LANES {
            let x = value(w, n, l);
            let x = if flushes { x.flush() } else { x };
            let code = scales[l].narrow::<F, W>(x, random.map(|random| random[l]), true);
            let code = u64::from(code) << shift;
            words[at][l] |= code as u32;
            if shift + F::BITS > 32 {
                words[at + 1][l] |= (code >> 32) as u32;
            }
        }
        random = random.map(|random| random.map(next_random));
    }
    put_many(w, i, &words)
}

/// Number `n` of a source whose numbers follow each other.
#[inline(always)]
fn nth<W: Wide>(w: &Wave, i: &Inst, n: usize, l: usize) -> W {
    let each = if W::WORDS == 1 && W::MANTISSA == 23 { 1 } else { 2 };
    W::from_bits(u64::from(w.vector(i.src[0], (n / each) as u32)[l] >> (16 * (n % each))))
}

#[inline(always)]
fn narrow_packed<F: Format, W: Wide>(w: &mut Wave, i: &Inst) -> Flow {
    narrow_many::<F, W>(w, i, 1, None, |w, n, l| nth(w, i, n, l))
}

#[inline(always)]
fn narrow_packed_random<F: Format, W: Wide>(w: &mut Wave, i: &Inst) -> Flow {
    let random = source::<u32>(w, i, 1);
    narrow_many::<F, W>(w, i, 2, Some(random), |w, n, l| nth(w, i, n, l))
}

/// Sixteen numbers of each of two sources, in turns.
#[inline(always)]
fn narrow_in_turns<F: Format>(w: &mut Wave, i: &Inst) -> Flow {
    narrow_many::<F, f32>(w, i, 2, None, |w, n, l| f32::from_bits(w.vector(i.src[n % 2], n as u32 / 2)[l]))
}

const fn op(name: &'static str, code: u16, dst: Kind, src: &[Kind], flags: Flags, run: Levels) -> Op {
    let flags = flags.and(Flags::NO_CLAMP).and(Flags::NO_OMOD);
    Op::new(name, Family::Vop3, code, ArchSet::SINCE_950, run).operands(dst, kinds(src)).with(flags)
}

/// A part of a source is chosen, or half of the destination.
const PART: Flags = Flags::OP_SEL;
/// Half of the destination is chosen, and the other one stays.
const HALF: Flags = Flags::OP_SEL.and(Flags::KEEP_HIGH);
/// Half of the destination is chosen, of two bytes.
const BYTES: Flags = Flags::OP_SEL.and(Flags::HALF_DST);
/// A byte of the destination is chosen.
const BYTE: Flags = Flags::BYTE_DST;
/// The same of two random numbers of four bits.
const LATE: Flags = Flags::BYTE_DST.and(Flags::LATE_BYTE);
/// The first source is in vector registers.
const VECTOR: Flags = LATE.and(Flags::VECTOR_SRC);
/// Of thirty-two numbers.
const ALL: Flags = Flags::NO_MODS.and(Flags::VECTOR_SRC);

const CODE: Kind = Kind::U32;
const SCALE: Kind = Kind::F32;
const RANDOM: Kind = Kind::U32;
/// Thirty-two codes of six bits, halves and singles; sixteen singles.
const MANY6: Kind = Kind::Dwords(6);
const MANY16: Kind = Kind::Dwords(16);
const MANY32: Kind = Kind::Dwords(32);

macro_rules! runs {
    ($function:ident<$($type:tt),*>) => {
        levels!(w, i, _e, $function::<$($type),*>(w, i))
    };
}

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    op("v_cvt_scalef32_pk_fp8_f32",         0x235, Kind::B32,   &[Kind::F32, Kind::F32, SCALE], BYTES, runs!(narrow_sources<E4M3>)),
    op("v_cvt_scalef32_pk_bf8_f32",         0x236, Kind::B32,   &[Kind::F32, Kind::F32, SCALE], BYTES, runs!(narrow_sources<E5M2>)),
    op("v_cvt_scalef32_sr_fp8_f32",         0x237, Kind::B32,   &[Kind::F32, RANDOM, SCALE], BYTE, runs!(narrow_one_random<E4M3, f32>)),
    op("v_cvt_scalef32_sr_bf8_f32",         0x238, Kind::B32,   &[Kind::F32, RANDOM, SCALE], BYTE, runs!(narrow_one_random<E5M2, f32>)),
    op("v_cvt_scalef32_pk_f32_fp8",         0x239, Kind::V2F32, &[CODE, SCALE], PART, runs!(widen_two<E4M3, f32>)),
    op("v_cvt_scalef32_pk_f32_bf8",         0x23a, Kind::V2F32, &[CODE, SCALE], PART, runs!(widen_two<E5M2, f32>)),
    op("v_cvt_scalef32_f32_fp8",            0x23b, Kind::F32,   &[CODE, SCALE], PART, runs!(widen_one<E4M3, f32>)),
    op("v_cvt_scalef32_f32_bf8",            0x23c, Kind::F32,   &[CODE, SCALE], PART, runs!(widen_one<E5M2, f32>)),
    op("v_cvt_scalef32_pk_fp4_f32",         0x23d, Kind::B32,   &[Kind::F32, Kind::F32, SCALE], BYTE, runs!(narrow_sources<E2M1>)),
    op("v_cvt_scalef32_sr_pk_fp4_f32",      0x23e, Kind::B32,   &[Kind::V2F32, RANDOM, SCALE], VECTOR, runs!(narrow_parts_random<E2M1, f32>)),
    op("v_cvt_scalef32_pk_f32_fp4",         0x23f, Kind::V2F32, &[CODE, SCALE], PART, runs!(widen_two<E2M1, f32>)),
    op("v_cvt_scalef32_pk_fp8_f16",         0x240, Kind::B32,   &[Kind::V2F16, SCALE], BYTES, runs!(narrow_parts<E4M3, F16>)),
    op("v_cvt_scalef32_pk_bf8_f16",         0x241, Kind::B32,   &[Kind::V2F16, SCALE], BYTES, runs!(narrow_parts<E5M2, F16>)),
    op("v_cvt_scalef32_sr_fp8_f16",         0x242, Kind::B32,   &[Kind::F16, RANDOM, SCALE], BYTE, runs!(narrow_one_random<E4M3, F16>)),
    op("v_cvt_scalef32_sr_bf8_f16",         0x243, Kind::B32,   &[Kind::F16, RANDOM, SCALE], BYTE, runs!(narrow_one_random<E5M2, F16>)),
    op("v_cvt_scalef32_pk_fp8_bf16",        0x244, Kind::B32,   &[Kind::V2Bf16, SCALE], BYTES, runs!(narrow_parts<E4M3, Brain>)),
    op("v_cvt_scalef32_pk_bf8_bf16",        0x245, Kind::B32,   &[Kind::V2Bf16, SCALE], BYTES, runs!(narrow_parts<E5M2, Brain>)),
    op("v_cvt_scalef32_sr_fp8_bf16",        0x246, Kind::B32,   &[Kind::Bf16, RANDOM, SCALE], BYTE, runs!(narrow_one_random<E4M3, Brain>)),
    op("v_cvt_scalef32_sr_bf8_bf16",        0x247, Kind::B32,   &[Kind::Bf16, RANDOM, SCALE], BYTE, runs!(narrow_one_random<E5M2, Brain>)),
    op("v_cvt_scalef32_pk_f16_fp8",         0x248, Kind::V2F16, &[CODE, SCALE], PART, runs!(widen_two<E4M3, F16>)),
    op("v_cvt_scalef32_pk_f16_bf8",         0x249, Kind::V2F16, &[CODE, SCALE], PART, runs!(widen_two<E5M2, F16>)),
    op("v_cvt_scalef32_f16_fp8",            0x24a, Kind::F16,   &[CODE, SCALE], HALF, runs!(widen_one<E4M3, F16>)),
    op("v_cvt_scalef32_f16_bf8",            0x24b, Kind::F16,   &[CODE, SCALE], HALF, runs!(widen_one<E5M2, F16>)),
    op("v_cvt_scalef32_pk_fp4_f16",         0x24c, Kind::B32,   &[Kind::V2F16, SCALE], BYTE, runs!(narrow_parts<E2M1, F16>)),
    op("v_cvt_scalef32_pk_fp4_bf16",        0x24d, Kind::B32,   &[Kind::V2Bf16, SCALE], BYTE, runs!(narrow_parts<E2M1, Brain>)),
    op("v_cvt_scalef32_sr_pk_fp4_f16",      0x24e, Kind::B32,   &[Kind::V2F16, RANDOM, SCALE], LATE, runs!(narrow_parts_random<E2M1, F16>)),
    op("v_cvt_scalef32_sr_pk_fp4_bf16",     0x24f, Kind::B32,   &[Kind::V2Bf16, RANDOM, SCALE], LATE, runs!(narrow_parts_random<E2M1, Brain>)),
    op("v_cvt_scalef32_pk_f16_fp4",         0x250, Kind::V2F16, &[CODE, SCALE], PART, runs!(widen_two<E2M1, F16>)),
    op("v_cvt_scalef32_pk_bf16_fp4",        0x251, Kind::V2Bf16, &[CODE, SCALE], PART, runs!(widen_two<E2M1, Brain>)),
    op("v_cvt_scalef32_2xpk16_fp6_f32",     0x252, MANY6,       &[MANY16, MANY16, SCALE], ALL, runs!(narrow_in_turns<E2M3>)),
    op("v_cvt_scalef32_2xpk16_bf6_f32",     0x253, MANY6,       &[MANY16, MANY16, SCALE], ALL, runs!(narrow_in_turns<E3M2>)),
    op("v_cvt_scalef32_sr_pk32_fp6_f32",    0x254, MANY6,       &[MANY32, RANDOM, SCALE], ALL, runs!(narrow_packed_random<E2M3, f32>)),
    op("v_cvt_scalef32_sr_pk32_bf6_f32",    0x255, MANY6,       &[MANY32, RANDOM, SCALE], ALL, runs!(narrow_packed_random<E3M2, f32>)),
    op("v_cvt_scalef32_pk32_f32_fp6",       0x256, MANY32,      &[MANY6, SCALE], ALL, runs!(widen_many<E2M3, f32, 32>)),
    op("v_cvt_scalef32_pk32_f32_bf6",       0x257, MANY32,      &[MANY6, SCALE], ALL, runs!(widen_many<E3M2, f32, 32>)),
    op("v_cvt_scalef32_pk32_fp6_f16",       0x258, MANY6,       &[MANY16, SCALE], ALL, runs!(narrow_packed<E2M3, F16>)),
    op("v_cvt_scalef32_pk32_fp6_bf16",      0x259, MANY6,       &[MANY16, SCALE], ALL, runs!(narrow_packed<E2M3, Brain>)),
    op("v_cvt_scalef32_pk32_bf6_f16",       0x25a, MANY6,       &[MANY16, SCALE], ALL, runs!(narrow_packed<E3M2, F16>)),
    op("v_cvt_scalef32_pk32_bf6_bf16",      0x25b, MANY6,       &[MANY16, SCALE], ALL, runs!(narrow_packed<E3M2, Brain>)),
    op("v_cvt_scalef32_sr_pk32_fp6_f16",    0x25c, MANY6,       &[MANY16, RANDOM, SCALE], ALL, runs!(narrow_packed_random<E2M3, F16>)),
    op("v_cvt_scalef32_sr_pk32_fp6_bf16",   0x25d, MANY6,       &[MANY16, RANDOM, SCALE], ALL, runs!(narrow_packed_random<E2M3, Brain>)),
    op("v_cvt_scalef32_sr_pk32_bf6_f16",    0x25e, MANY6,       &[MANY16, RANDOM, SCALE], ALL, runs!(narrow_packed_random<E3M2, F16>)),
    op("v_cvt_scalef32_sr_pk32_bf6_bf16",   0x25f, MANY6,       &[MANY16, RANDOM, SCALE], ALL, runs!(narrow_packed_random<E3M2, Brain>)),
    op("v_cvt_scalef32_pk32_f16_fp6",       0x260, MANY16,      &[MANY6, SCALE], ALL, runs!(widen_many<E2M3, F16, 16>)),
    op("v_cvt_scalef32_pk32_bf16_fp6",      0x261, MANY16,      &[MANY6, SCALE], ALL, runs!(widen_many<E2M3, Brain, 16>)),
    op("v_cvt_scalef32_pk32_f16_bf6",       0x262, MANY16,      &[MANY6, SCALE], ALL, runs!(widen_many<E3M2, F16, 16>)),
    op("v_cvt_scalef32_pk32_bf16_bf6",      0x263, MANY16,      &[MANY6, SCALE], ALL, runs!(widen_many<E3M2, Brain, 16>)),
    op("v_cvt_scalef32_pk_bf16_fp8",        0x269, Kind::V2Bf16, &[CODE, SCALE], PART, runs!(widen_two<E4M3, Brain>)),
    op("v_cvt_scalef32_pk_bf16_bf8",        0x26a, Kind::V2Bf16, &[CODE, SCALE], PART, runs!(widen_two<E5M2, Brain>)),
];
