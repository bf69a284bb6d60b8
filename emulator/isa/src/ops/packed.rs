//! VOP3P: two 16-bit operations in one instruction, dot products, mixed precision, and packed singles.
//!
//! Source: Vega ISA manual, "VOP3P Instructions"; CDNA2 ISA manual for the packed singles, whose `op_sel` bits select
//! dwords.

use super::kinds;
use crate::action::Action;
use crate::arch::ArchSet;
use crate::arithmetic::Number;
use crate::fp::brain::Brain;
use crate::fp::{Arith, F16, MinMax, Moded, Nearest};
use crate::inst::Inst;
use crate::lanes::{Lane, blend, moded};
use crate::mode::{Mode, Rounding};
use crate::op::{Family, Flags, Flow, Levels, Op};
use crate::operand::Kind;
use crate::ops::vop2::mad32;
use crate::wave::{LANES, Vgpr, Wave};

/// Two halves in one register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct H2(pub(crate) F16, pub(crate) F16);

impl Lane for H2 {
    const KIND: Kind = Kind::V2F16;
    #[inline(always)]
    fn from_bits(bits: u64) -> H2 {
        H2(F16(bits as u16), F16((bits >> 16) as u16))
    }
    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(self.0.0) | u64::from(self.1.0) << 16
    }
    #[inline(always)]
    fn flush(self) -> H2 {
        H2(self.0.flush(), self.1.flush())
    }
    #[inline(always)]
    fn scale(self, exponent: i32, saturates: bool) -> H2 {
        H2(self.0.scale(exponent, saturates), self.1.scale(exponent, saturates))
    }
    #[inline(always)]
    fn without_minus_zero(self) -> H2 {
        H2(self.0.without_minus_zero(), self.1.without_minus_zero())
    }
    #[inline(always)]
    fn saturate(self, dx10: bool) -> H2 {
        H2(self.0.saturate(dx10), self.1.saturate(dx10))
    }
    #[inline(always)]
    fn flushes_in(mode: Mode) -> bool {
        F16::flushes_in(mode)
    }
    #[inline(always)]
    fn flushes_out(mode: Mode) -> bool {
        F16::flushes_out(mode)
    }
    #[inline(always)]
    fn rounding(mode: Mode) -> Rounding {
        F16::rounding(mode)
    }
    #[inline(always)]
    fn saturates(mode: Mode) -> bool {
        F16::saturates(mode)
    }
}

/// Dot products of halves, summed in singles. They round to nearest and know no denormal singles, whatever the mode is. Source:
/// CDNA3 ISA manual, "Floating point rounding and denormal modes".
#[derive(Clone, Copy)]
pub(crate) struct Dot2 {
    /// Denormal halves are read as zero.
    flushes: bool,
}

impl Dot2 {
    /// Of the processor of a wave.
    #[inline(always)]
    pub(crate) fn of(w: &Wave) -> Dot2 {
        Dot2 { flushes: w.arch.flushes_half_products() }
    }

    /// `a.0 * b.0 + a.1 * b.1 + c`; the products are exact.
    #[inline(always)]
    pub(crate) fn of_halves(self, a: H2, b: H2, c: f32) -> f32 {
        let [a, b] = if self.flushes { [a, b].map(Lane::flush) } else { [a, b] };
        Dot2::sum([a.0, a.1].map(F16::to_f32), [b.0, b.1].map(F16::to_f32), c)
    }

    /// As [`Dot2::of_halves`], of brain floats.
    #[inline(always)]
    pub(crate) fn of_brains(a: [Brain; 2], b: [Brain; 2], c: f32) -> f32 {
        Dot2::sum(a.map(Brain::to_f32), b.map(Brain::to_f32), c)
    }

    #[inline(always)]
    fn sum(a: [f32; 2], b: [f32; 2], c: f32) -> f32 {
        let [low, high] = [0, 1].map(|n| f64::from(a[n]) * f64::from(b[n]));
        Lane::flush((low + high + f64::from(Lane::flush(c))) as f32)
    }
}

/// The sum of products of signed fields of `bits` bits.
#[inline(always)]
pub(crate) fn dot_signed(a: u32, b: u32, c: i32, bits: u32) -> i32 {
    signed_dot(a, b, bits).wrapping_add(i64::from(c)) as i32
}

/// As [`dot_signed`], within the range of the result.
pub(crate) fn saturated_dot_signed(a: u32, b: u32, c: i32, bits: u32) -> i32 {
    (signed_dot(a, b, bits) + i64::from(c)).clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

#[inline(always)]
fn signed_dot(a: u32, b: u32, bits: u32) -> i64 {
    let field = |word: u32, n: u32| i64::from(((word >> (n * bits)) << (32 - bits)) as i32 >> (32 - bits));
    (0..32 / bits).map(|n| field(a, n) * field(b, n)).sum()
}

#[inline(always)]
fn unsigned_dot(a: u32, b: u32, bits: u32) -> u64 {
    let field = |word: u32, n: u32| u64::from((word >> (n * bits)) << (32 - bits) >> (32 - bits));
    (0..32 / bits).map(|n| field(a, n) * field(b, n)).sum()
}

/// A 16-bit type of packed operations.
pub(crate) trait Half: Lane {
    const PACKED: Kind;
}

impl Half for F16 {
    const PACKED: Kind = Kind::V2F16;
}

impl Half for Brain {
    const PACKED: Kind = Kind::V2Bf16;
}

impl Half for u16 {
    const PACKED: Kind = Kind::V2I16;
}

impl Half for i16 {
    const PACKED: Kind = Kind::V2I16;
}

/// Word `n` of source `s`.
#[inline(always)]
fn word(w: &Wave, i: &Inst, s: usize, n: u32, kind: Kind) -> Vgpr {
    let operand = i.src[s];
    if operand.is_vector() {
        *w.vector(operand, n)
    } else if kind.dwords() == 2 && operand.is_scalar_register() {
        [(w.pair(operand) >> (32 * n)) as u32; LANES]
    } else {
        // A constant is the same in both dwords.
        [w.scalar32(operand, i.literal, if kind.dwords() == 2 { Kind::F32 } else { kind }); LANES]
    }
}

/// What of source `s` goes into the low (0) or the high (1) result: the number of its half, and whether it is negated.
#[inline(always)]
fn chosen(i: &Inst, s: usize, h: usize) -> (u32, bool) {
    let (sel, neg) = [(i.mods.op_sel, i.mods.neg), (i.mods.op_sel_hi, i.mods.abs)][h];
    (u32::from(sel >> s & 1), neg >> s & 1 == 1)
}

/// Word `n` of source `s`: in the register file, or made in a place that is declared here.
macro_rules! word {
    ($w:ident, $i:ident, $s:expr, $n:expr, $kind:expr => $word:ident) => {
        let made;
        let $word: &Vgpr = match $i.src[$s].is_vector() {
            true => $w.vector($i.src[$s], $n),
            false => {
                made = word($w, $i, $s, $n, $kind);
                &made
            }
        };
    };
}

/// True where values are read and written as they are: no denormals are flushed, and nothing is clamped.
#[inline(always)]
fn is_plain<T: Lane>(w: &Wave, i: &Inst) -> bool {
    !(T::flushes_in(w.mode) || T::flushes_out(w.mode) || i.mods.clamp)
}

/// The halves of source `s` that result `h` uses.
#[inline(always)]
fn half<T: Half, const PLAIN: bool>(w: &Wave, i: &Inst, s: usize, h: usize) -> [T; LANES] {
    word!(w, i, s, 0, T::PACKED => raw);
    let (sel, neg) = chosen(i, s, h);
    let sign = if neg && T::PACKED.is_float() { 0x8000 } else { 0 };
    let flush = !PLAIN && T::flushes_in(w.mode);
    std::array::from_fn(|l| {
        let value = T::from_bits(u64::from(raw[l] >> (16 * sel) & 0xffff ^ sign));
        if flush { value.flush() } else { value }
    })
}

#[inline(always)]
fn put<T: Half, const PLAIN: bool>(w: &mut Wave, i: &Inst, low: [T; LANES], high: [T; LANES]) -> Flow {
    let (flush, clamp, dx10) = (T::flushes_out(w.mode), i.mods.clamp, w.mode.dx10_clamp());
    let finish = |value: T| {
        let value = if !PLAIN && flush { value.flush() } else { value };
        let value = if !PLAIN && clamp { value.saturate(dx10) } else { value };
        value.to_bits() as u32 & 0xffff
    };
    let packed = std::array::from_fn(|l| finish(low[l]) | finish(high[l]) << 16);
    let exec = w.exec();
    blend(w.vector_mut(i.dst, 0), &packed, exec);
    Flow::Next
}

/// Two or three sources of halves.
#[inline(always)]
fn packed<T: Half>(w: &mut Wave, i: &Inst, sources: usize, f: impl Fn(T, T, T) -> T) -> Flow {
    if is_plain::<T>(w, i) { packed_as::<T, true>(w, i, sources, f) } else { packed_as::<T, false>(w, i, sources, f) }
}

#[inline(always)]
fn packed_as<T: Half, const PLAIN: bool>(w: &mut Wave, i: &Inst, sources: usize, f: impl Fn(T, T, T) -> T) -> Flow {
    let result = |h: usize| {
        let [a, b] = [0, 1].map(|s| half::<T, PLAIN>(w, i, s, h));
        let c = if sources == 3 { half::<T, PLAIN>(w, i, 2, h) } else { [T::from_bits(0); LANES] };
        std::array::from_fn(|l| f(a[l], b[l], c[l]))
    };
    let (low, high) = (result(0), result(1));
    put::<T, PLAIN>(w, i, low, high)
}

/// A row of packed 16-bit operations: with `fp`, `m` rounds as the wave wants; with `mode`, `m` is the MODE register; with
/// `sat`, the second body is for the clamp modifier.
macro_rules! packed {
    ($name:ident $code:literal |$a:ident: $T:ty, $b:ident| $body:expr) => {
        op(
            stringify!($name),
            $code,
            ArchSet::ALL,
            <$T as Half>::PACKED,
            2,
            levels!(w, i, _e, packed(w, i, 2, |$a: $T, $b: $T, _| -> $T { $body })),
        )
    };
    ($name:ident $code:literal mode |$m:ident, $a:ident: $T:ty, $b:ident| $body:expr) => {
        op(
            stringify!($name),
            $code,
            ArchSet::ALL,
            <$T as Half>::PACKED,
            2,
            levels!(w, i, _e, {
                let $m = w.mode;
                packed(w, i, 2, |$a: $T, $b: $T, _| -> $T { $body })
            }),
        )
    };
    ($name:ident $code:literal sat |$a:ident: $T:ty, $b:ident| $body:expr, $sat:expr) => {
        op(
            stringify!($name),
            $code,
            ArchSet::ALL,
            <$T as Half>::PACKED,
            2,
            levels!(
                w,
                i,
                _e,
                if i.mods.clamp {
                    packed(w, i, 2, |$a: $T, $b: $T, _| -> $T { $sat })
                } else {
                    packed(w, i, 2, |$a: $T, $b: $T, _| -> $T { $body })
                }
            ),
        )
    };
    ($name:ident $code:literal sat |$a:ident: $T:ty, $b:ident, $c:ident| $body:expr, $sat:expr) => {
        op(
            stringify!($name),
            $code,
            ArchSet::ALL,
            <$T as Half>::PACKED,
            3,
            levels!(
                w,
                i,
                _e,
                if i.mods.clamp {
                    packed(w, i, 3, |$a: $T, $b: $T, $c: $T| -> $T { $sat })
                } else {
                    packed(w, i, 3, |$a: $T, $b: $T, $c: $T| -> $T { $body })
                }
            ),
        )
    };
    ($name:ident $code:literal fp $sources:literal |$m:ident, $a:ident: $T:ty, $b:ident, $c:ident| $body:expr) => {{
        #[inline(always)]
        fn f<M: Arith>($m: M, $a: $T, $b: $T, $c: $T) -> $T {
            $body
        }
        let run = levels!(
            w,
            i,
            _e,
            match moded::<$T>(w) {
                None => packed(w, i, $sources, |a, b, c| f(Nearest, a, b, c)),
                Some(moded) => packed(w, i, $sources, |a, b, c| f(moded, a, b, c)),
            }
        );
        op(stringify!($name), $code, ArchSet::ALL, <$T as Half>::PACKED, $sources, run)
    }};
}

/// A row of operations on two singles: name, opcode, number of sources, and what one lane does with `m`'s rounding.
macro_rules! singles {
    ($name:ident $code:literal $sources:literal |$m:ident, $a:ident, $b:ident, $c:ident| $body:expr) => {{
        #[inline(always)]
        fn f<M: Arith>($m: M, $a: f32, $b: f32, $c: f32) -> f32 {
            $body
        }
        let run = levels!(
            w,
            i,
            _e,
            match moded::<f32>(w) {
                None => packed_singles(w, i, $sources, |a, b, c| f(Nearest, a, b, c)),
                Some(moded) => packed_singles(w, i, $sources, |a, b, c| f(moded, a, b, c)),
            }
        );
        op(stringify!($name), $code, ArchSet::SINCE_90A, Kind::V2F32, $sources, run)
    }};
}

const fn op(name: &'static str, code: u16, archs: ArchSet, kind: Kind, sources: usize, run: Levels) -> Op {
    let src = if sources == 3 { [kind, kind, kind] } else { [kind, kind, Kind::None] };
    let op = Op::new(name, Family::Vop3p, code, archs, run).operands(kind, src);
    if matches!(kind, Kind::V2I16) { op.with(Flags::CLAMP) } else { op }
}

const fn dot(name: &'static str, code: u16, kind: Kind, acc: Kind, run: Levels) -> Op {
    Op::new(name, Family::Vop3p, code, ArchSet::SINCE_906, run)
        .operands(acc, [kind, kind, acc])
        .with(Flags::CLAMP)
        .with(Flags::DOT)
        .is(Action::Dot)
}

const fn mix(name: &'static str, code: u16, archs: ArchSet, dst: Kind, run: Levels) -> Op {
    Op::new(name, Family::Vop3p, code, archs, run).operands(dst, [Kind::Mix, Kind::Mix, Kind::Mix])
}

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    packed!(v_pk_mad_i16     0x00 sat |a: i16, b, c| a.wrapping_mul(b).wrapping_add(c), (i64::from(a) * i64::from(b) + i64::from(c)).clamp(-0x8000, 0x7fff) as i16),
    packed!(v_pk_mul_lo_u16  0x01 sat |a: u16, b| a.wrapping_mul(b), a.saturating_mul(b)),
    packed!(v_pk_add_i16     0x02 sat |a: i16, b| a.wrapping_add(b), a.saturating_add(b)),
    packed!(v_pk_sub_i16     0x03 sat |a: i16, b| a.wrapping_sub(b), a.saturating_sub(b)),
    packed!(v_pk_lshlrev_b16 0x04 |a: u16, b| b << (a & 15)),
    packed!(v_pk_lshrrev_b16 0x05 |a: u16, b| b >> (a & 15)),
    packed!(v_pk_ashrrev_i16 0x06 |a: i16, b| b >> (a & 15)),
    packed!(v_pk_max_i16     0x07 |a: i16, b| a.max(b)),
    packed!(v_pk_min_i16     0x08 |a: i16, b| a.min(b)),
    packed!(v_pk_mad_u16     0x09 sat |a: u16, b, c| a.wrapping_mul(b).wrapping_add(c), (u64::from(a) * u64::from(b) + u64::from(c)).min(0xffff) as u16),
    packed!(v_pk_add_u16     0x0a sat |a: u16, b| a.wrapping_add(b), a.saturating_add(b)),
    packed!(v_pk_sub_u16     0x0b sat |a: u16, b| a.wrapping_sub(b), a.saturating_sub(b)),
    packed!(v_pk_max_u16     0x0c |a: u16, b| a.max(b)),
    packed!(v_pk_min_u16     0x0d |a: u16, b| a.min(b)),
    packed!(v_pk_fma_f16     0x0e fp 3 |m, a: F16, b, c| m.fma(a, b, c)).counts(Number::F16, 4),
    packed!(v_pk_add_f16     0x0f fp 2 |m, a: F16, b, _c| m.add(a, b)).counts(Number::F16, 2),
    packed!(v_pk_mul_f16     0x10 fp 2 |m, a: F16, b, _c| m.mul(a, b)).counts(Number::F16, 2),
    packed!(v_pk_min_f16     0x11 mode |m, a: F16, b| a.smaller(b, m)),
    packed!(v_pk_max_f16     0x12 mode |m, a: F16, b| a.larger(b, m)),
    op("v_pk_minimum3_f16", 0x1b, ArchSet::SINCE_950, Kind::V2F16, 3, levels!(w, i, _e, packed(w, i, 3, |a: F16, b: F16, c: F16| a.least(b).least(c)))),
    op("v_pk_maximum3_f16", 0x1c, ArchSet::SINCE_950, Kind::V2F16, 3, levels!(w, i, _e, packed(w, i, 3, |a: F16, b: F16, c: F16| a.greatest(b).greatest(c)))),
    mix("v_mad_mix_f32",    0x20, ArchSet::MAD_MIX,   Kind::F32, levels!(w, i, _e, mixed(w, i, false))).counts(Number::F32, 2),
    mix("v_fma_mix_f32",    0x20, ArchSet::FMA_MIX,   Kind::F32, levels!(w, i, _e, mixed(w, i, true))).counts(Number::F32, 2),
    mix("v_mad_mixlo_f16",  0x21, ArchSet::MAD_MIX,   Kind::F16, levels!(w, i, _e, mixed(w, i, false))).with(Flags::KEEP_HIGH).counts(Number::F32, 2),
    mix("v_fma_mixlo_f16",  0x21, ArchSet::FMA_MIX,   Kind::F16, levels!(w, i, _e, mixed(w, i, true))).with(Flags::KEEP_HIGH).counts(Number::F32, 2),
    mix("v_mad_mixhi_f16",  0x22, ArchSet::MAD_MIX,   Kind::F16, levels!(w, i, _e, mixed(w, i, false))).with(Flags::HIGH_DST).counts(Number::F32, 2),
    mix("v_fma_mixhi_f16",  0x22, ArchSet::FMA_MIX,   Kind::F16, levels!(w, i, _e, mixed(w, i, true))).with(Flags::HIGH_DST).counts(Number::F32, 2),
    dot("v_dot2_f32_f16",   0x23, Kind::V2F16, Kind::F32, levels!(w, i, _e, { let dot = Dot2::of(w); dot2(w, i, |a: [F16; 2], b: [F16; 2], c| dot.of_halves(H2(a[0], a[1]), H2(b[0], b[1]), c)) })).counts(Number::F16, 4),
    dot("v_dot2_i32_i16",   0x26, Kind::V2I16, Kind::I32, levels!(w, i, _e, dot_integers(w, i, |a, b| signed_dot(a, b, 16), i32::MIN.into(), i32::MAX.into()))).counts(Number::I16, 4),
    dot("v_dot2_u32_u16",   0x27, Kind::V2I16, Kind::U32, levels!(w, i, _e, dot_integers(w, i, |a, b| unsigned_dot(a, b, 16) as i64, 0, u32::MAX.into()))).counts(Number::I16, 4),
    dot("v_dot4_i32_i8",    0x28, Kind::B32,   Kind::I32, levels!(w, i, _e, dot_integers(w, i, |a, b| signed_dot(a, b, 8), i32::MIN.into(), i32::MAX.into()))).counts(Number::I8, 8),
    dot("v_dot4_u32_u8",    0x29, Kind::B32,   Kind::U32, levels!(w, i, _e, dot_integers(w, i, |a, b| unsigned_dot(a, b, 8) as i64, 0, u32::MAX.into()))).counts(Number::I8, 8),
    dot("v_dot8_i32_i4",    0x2a, Kind::B32,   Kind::I32, levels!(w, i, _e, dot_integers(w, i, |a, b| signed_dot(a, b, 4), i32::MIN.into(), i32::MAX.into()))).counts(Number::I4, 16),
    dot("v_dot8_u32_u4",    0x2b, Kind::B32,   Kind::U32, levels!(w, i, _e, dot_integers(w, i, |a, b| unsigned_dot(a, b, 4) as i64, 0, u32::MAX.into()))).counts(Number::I4, 16),
    singles!(v_pk_fma_f32    0x30 3 |m, a, b, c| m.fma(a, b, c)).counts(Number::F32, 4),
    singles!(v_pk_mul_f32    0x31 2 |m, a, b, _c| m.mul(a, b)).counts(Number::F32, 2),
    singles!(v_pk_add_f32    0x32 2 |m, a, b, _c| m.add(a, b)).counts(Number::F32, 2),
    Op::new("v_pk_mov_b32", Family::Vop3p, 0x33, ArchSet::SINCE_90A, levels!(w, i, _e, packed_move(w, i)))
        .operands(Kind::V2B32, kinds(&[Kind::V2B32, Kind::V2B32])),
];

/// Source `s` of a mixed-precision operation: a single, or a half where `op_sel_hi` is set.
#[inline(always)]
fn mixed_source(w: &Wave, i: &Inst, s: usize) -> [f32; LANES] {
    let half = i.mods.op_sel_hi >> s & 1 == 1;
    let raw = word(w, i, s, 0, if half { Kind::F16 } else { Kind::F32 });
    let shift = if i.mods.op_sel >> s & 1 == 1 { 16 } else { 0 };
    let (abs, neg) = (i.mods.abs >> s & 1 == 1, i.mods.neg >> s & 1 == 1);
    std::array::from_fn(|l| {
        let mut value = if half { F16((raw[l] >> shift) as u16).to_f32() } else { f32::from_bits(raw[l]) };
        if half && w.mode.flush_in16_64() && value.abs() < 6.103_515_6e-5 || !half && w.mode.flush_in32() {
            value = if half { 0f32.copysign(value) } else { Lane::flush(value) };
        }
        if abs {
            value = value.abs();
        }
        if neg { -value } else { value }
    })
}

/// A multiply-add of mixed sources. The sum is single precision, and is rounded once more on its way to a half; clamping is last.
#[inline(always)]
fn mixed(w: &mut Wave, i: &Inst, fused: bool) -> Flow {
    let plain = Moded { rounding: Rounding::Nearest, saturates: false };
    match (moded::<f32>(w), moded::<F16>(w)) {
        (None, None) => mixed_in(w, i, fused, Nearest, Nearest),
        (single, half) => mixed_in(w, i, fused, single.unwrap_or(plain), half.unwrap_or(plain)),
    }
}

/// As [`mixed`]; sums are rounded by `single`, halves by `half`.
#[inline(always)]
fn mixed_in(w: &mut Wave, i: &Inst, fused: bool, single: impl Arith, half: impl Arith) -> Flow {
    let (a, b, c) = (mixed_source(w, i, 0), mixed_source(w, i, 1), mixed_source(w, i, 2));
    let sums: [f32; LANES] = std::array::from_fn(|l| match fused {
        true => single.fma(a[l], b[l], c[l]),
        false => mad32(single, a[l], b[l], c[l]),
    });
    let old = *w.vector(i.dst, 0);
    let words = match i.op.dst {
        Kind::F16 => {
            let shift = if i.op.flags.has(Flags::HIGH_DST) { 16 } else { 0 };
            let halves = finished(w, i, sums.map(|sum| half.half(sum)));
            std::array::from_fn(|l| old[l] & !(0xffff << shift) | u32::from(halves[l].0) << shift)
        }
        _ => finished(w, i, sums).map(f32::to_bits),
    };
    let exec = w.exec();
    blend(w.vector_mut(i.dst, 0), &words, exec);
    Flow::Next
}

/// Results without the denormals that the mode does not want, clamped if the instruction says so.
#[inline(always)]
fn finished<T: Lane>(w: &Wave, i: &Inst, mut values: [T; LANES]) -> [T; LANES] {
    if T::flushes_out(w.mode) {
        values = values.map(T::flush);
    }
    if i.mods.clamp {
        let dx10 = w.mode.dx10_clamp();
        values = values.map(|v| v.saturate(dx10));
    }
    values
}

/// A dot product of two elements, and of an accumulator.
#[inline(always)]
pub(crate) fn dot2<T: Half>(w: &mut Wave, i: &Inst, sum: impl Fn([T; 2], [T; 2], f32) -> f32) -> Flow {
    let [a, b] = [0, 1].map(|s| [0, 1].map(|h| half::<T, false>(w, i, s, h)));
    let c = word(w, i, 2, 0, Kind::F32);
    let negate = i.mods.neg >> 2 & 1 == 1;
    let dx10 = w.mode.dx10_clamp();
    let d: [f32; LANES] = std::array::from_fn(|l| {
        let c = f32::from_bits(c[l]);
        let sum = sum([a[0][l], a[1][l]], [b[0][l], b[1][l]], if negate { -c } else { c });
        if i.mods.clamp { Lane::saturate(sum, dx10) } else { sum }
    });
    let exec = w.exec();
    blend(w.vector_mut(i.dst, 0), &d.map(f32::to_bits), exec);
    Flow::Next
}

/// A factor of a dot product of integers: `op_sel` and `op_sel_hi` choose halves, where the fields are halves.
#[inline(always)]
fn factor(w: &Wave, i: &Inst, s: usize) -> Vgpr {
    let raw = word(w, i, s, 0, i.op.src[s]);
    if !i.op.src[s].is_packed() {
        return raw;
    }
    let [low, high] = [0, 1].map(|h| 16 * chosen(i, s, h).0);
    raw.map(|x| x >> low & 0xffff | (x >> high & 0xffff) << 16)
}

/// A dot product of integer fields and an accumulator, saturated between `min` and `max` with the clamp modifier.
#[inline(always)]
fn dot_integers(w: &mut Wave, i: &Inst, f: impl Fn(u32, u32) -> i64, min: i64, max: i64) -> Flow {
    let c = word(w, i, 2, 0, Kind::I32);
    let [a, b] = [0, 1].map(|s| factor(w, i, s));
    let signed = min < 0;
    let words = std::array::from_fn(|l| {
        let c = if signed { i64::from(c[l] as i32) } else { i64::from(c[l]) };
        let sum = f(a[l], b[l]) + c;
        if i.mods.clamp { sum.clamp(min, max) as u32 } else { sum as u32 }
    });
    let exec = w.exec();
    blend(w.vector_mut(i.dst, 0), &words, exec);
    Flow::Next
}

/// Two or three sources of singles.
#[inline(always)]
fn packed_singles(w: &mut Wave, i: &Inst, sources: usize, f: impl Fn(f32, f32, f32) -> f32) -> Flow {
    if is_plain::<f32>(w, i) { singles_as::<true>(w, i, sources, f) } else { singles_as::<false>(w, i, sources, f) }
}

#[inline(always)]
fn singles_as<const PLAIN: bool>(w: &mut Wave, i: &Inst, sources: usize, f: impl Fn(f32, f32, f32) -> f32) -> Flow {
    let (flush_in, flush_out) = (w.mode.flush_in32(), w.mode.flush_out32());
    let (clamp, dx10) = (i.mods.clamp, w.mode.dx10_clamp());
    let mut results = [[0; LANES]; 2];
    for (h, words) in results.iter_mut().enumerate() {
        // Of operations with two sources, the third is not looked at.
        let third = sources - 1;
        let [a_of, b_of, c_of] = [0, 1, third].map(|s| chosen(i, s, h));
        word!(w, i, 0, a_of.0, Kind::V2F32 => a);
        word!(w, i, 1, b_of.0, Kind::V2F32 => b);
        word!(w, i, third, c_of.0, Kind::V2F32 => c);
        let value = |word: u32, negated: bool| {
            let value = f32::from_bits(word ^ u32::from(negated) << 31);
            if !PLAIN && flush_in { Lane::flush(value) } else { value }
        };
        for l in 0..LANES {
            let value = f(value(a[l], a_of.1), value(b[l], b_of.1), value(c[l], c_of.1));
            let value = if !PLAIN && flush_out { Lane::flush(value) } else { value };
            words[l] = if !PLAIN && clamp { Lane::saturate(value, dx10) } else { value }.to_bits();
        }
    }
    let exec = w.exec();
    for (n, words) in results.iter().enumerate() {
        blend(w.vector_mut(i.dst, n as u32), words, exec);
    }
    Flow::Next
}

/// Low dword from the first source, high dword from the second.
#[inline(always)]
fn packed_move(w: &mut Wave, i: &Inst) -> Flow {
    let low = word(w, i, 0, u32::from(i.mods.op_sel & 1), Kind::V2B32);
    let high = word(w, i, 1, u32::from(i.mods.op_sel >> 1 & 1), Kind::V2B32);
    let exec = w.exec();
    blend(w.vector_mut(i.dst, 0), &low, exec);
    blend(w.vector_mut(i.dst, 1), &high, exec);
    Flow::Next
}
