//! The product of two matrices: each factor is converted once, rows of results are summed in host vectors.
//!
//! The lanes that hold one row of results hold neighbouring columns, and so do the lanes of the second factor. A step is
//! therefore one element of the first factor times a run of lanes of the second one. The order of the sum is that of `k`.

use super::{Shape, vgprs};
use crate::arithmetic::Number;
use crate::fp::F16;
use crate::fp::small::{Bf8, Fp8};
use crate::inst::Inst;
use crate::lanes::Lane;
use crate::op::Flow;
use crate::operand::Kind;
use crate::wave::{LANES, Vgpr, Wave};

/// A number that products are summed in.
pub(super) trait Sum: Lane {
    /// `a * b + self`, rounded once.
    fn plus(self, a: Self, b: Self) -> Self;
    /// Result `r` of source `s`.
    fn read(w: &Wave, i: &Inst, s: usize, r: usize) -> [Self; LANES];
    /// Writes result `r`. Matrix instructions ignore EXEC.
    fn write(w: &mut Wave, i: &Inst, r: usize, values: &[Self; LANES]);
}

macro_rules! sum {
    ($type:ident, |$sum:ident, $a:ident, $b:ident| $plus:expr) => {
        impl Sum for $type {
            #[inline(always)]
            fn plus(self, $a: $type, $b: $type) -> $type {
                let $sum = self;
                $plus
            }
            #[inline(always)]
            fn read(w: &Wave, i: &Inst, s: usize, r: usize) -> [$type; LANES] {
                vgprs(w, i, s, r as u32).map(|x| <$type as Lane>::from_bits(x.into()))
            }
            #[inline(always)]
            fn write(w: &mut Wave, i: &Inst, r: usize, values: &[$type; LANES]) {
                *w.vector_mut(i.dst, r as u32) = values.map(|x| Lane::to_bits(x) as u32);
            }
        }
    };
}

sum!(f32, |sum, a, b| a.mul_add(b, sum));
sum!(i32, |sum, a, b| sum.wrapping_add(a * b));

impl Sum for f64 {
    #[inline(always)]
    fn plus(self, a: f64, b: f64) -> f64 {
        a.mul_add(b, self)
    }
    #[inline(always)]
    fn read(w: &Wave, i: &Inst, s: usize, r: usize) -> [f64; LANES] {
        // The fields of NEG are modifiers of doubles.
        let sign = u64::from(i.mods.neg >> s & 1) << 63;
        let bits: [u64; LANES] = if i.src[s].is_vector() {
            let (low, high) = (w.vector(i.src[s], 2 * r as u32), w.vector(i.src[s], 2 * r as u32 + 1));
            std::array::from_fn(|l| u64::from(low[l]) | u64::from(high[l]) << 32)
        } else {
            [w.scalar64(i.src[s], i.literal, Kind::F64); LANES]
        };
        bits.map(|x| f64::from_bits(x ^ sign))
    }
    #[inline(always)]
    fn write(w: &mut Wave, i: &Inst, r: usize, values: &[f64; LANES]) {
        *w.vector_mut(i.dst, 2 * r as u32) = values.map(|v| v.to_bits() as u32);
        *w.vector_mut(i.dst, 2 * r as u32 + 1) = values.map(|v| (v.to_bits() >> 32) as u32);
    }
}

/// What the elements of the factors are.
pub(super) trait Element {
    /// Bits of an element.
    const BITS: u32;
    /// What products of it are counted as.
    const NUMBER: Number;
    /// Of singles: of their mantissas ten bits count.
    const IS_SHORTENED: bool = false;
    /// What elements are multiplied as.
    type Value: Sum;
    /// The `P` elements of each lane of source `s`. `flush` reads denormals as zero.
    fn factor<const P: usize>(w: &Wave, i: &Inst, s: usize, flush: bool) -> [[Self::Value; LANES]; P];
}

/// The upper half of a single-precision number.
pub(super) struct Bf16;

/// A single-precision number of whose mantissa ten bits count: the other 13 are cut off. Source: the type `XFloat32` of Tensile, with
/// which AMD's tests compute what these instructions give.
pub(super) struct Xf32;

macro_rules! element {
    ($type:ty, $number:ident: $bits:literal bits as $value:ty, |$x:ident, $flush:ident| $convert:expr $(, IS_SHORTENED = $shortened:literal)?) => {
        impl Element for $type {
            const BITS: u32 = $bits;
            const NUMBER: Number = Number::$number;
            $(const IS_SHORTENED: bool = $shortened;)?
            type Value = $value;
            #[inline(always)]
            fn factor<const P: usize>(w: &Wave, i: &Inst, s: usize, flush: bool) -> [[$value; LANES]; P] {
                #[inline(always)]
                fn convert<const P: usize>(words: &[Vgpr], $flush: bool) -> [[$value; LANES]; P] {
                    std::array::from_fn(|p| {
                        let (word, shift) = (&words[p * $bits / 32], (p * $bits % 32) as u32);
                        word.map(|bits| {
                            let $x = bits >> shift;
                            $convert
                        })
                    })
                }
                let word = |n| vgprs(w, i, s, n);
                match P * $bits / 32 {
                    1 => convert(&[word(0)], flush),
                    2 => convert(&[word(0), word(1)], flush),
                    // The dense factor of a sparse one.
                    _ => convert(&[word(0), word(1), word(2), word(3)], flush),
                }
            }
        }
    };
}

element!(f32, F32: 32 bits as f32, |x, _flush| f32::from_bits(x));
element!(F16, F16: 16 bits as f32, |x, flush| {
    let half = F16(x as u16);
    if flush { half.flush().to_f32() } else { half.to_f32() }
});
element!(Bf16, Bf16: 16 bits as f32, |x, flush| {
    let value = f32::from_bits(x << 16);
    if flush { Lane::flush(value) } else { value }
});
element!(Xf32, F32: 32 bits as f32, |x, _flush| {
    let value = f32::from_bits(x);
    // A NaN may have only bits that are cut off.
    if value.is_nan() { value } else { f32::from_bits(x & !0x1fff) }
}, IS_SHORTENED = true);
element!(Fp8, F8: 8 bits as f32, |x, _flush| Fp8::new(x).to_f32());
element!(Bf8, F8: 8 bits as f32, |x, _flush| Bf8::new(x).to_f32());
element!(i8, I8: 8 bits as i32, |x, _flush| i32::from(x as u8 as i8));

impl Element for f64 {
    const BITS: u32 = 64;
    const NUMBER: Number = Number::F64;
    type Value = f64;
    #[inline(always)]
    fn factor<const P: usize>(w: &Wave, i: &Inst, s: usize, _flush: bool) -> [[f64; LANES]; P] {
        std::array::from_fn(|p| f64::read(w, i, s, p))
    }
}

/// The block of the first factor that block `b` uses: CBSZ makes groups that share block ABID. A group cannot be
/// larger than all `blocks`.
fn broadcast_block(i: &Inst, b: usize, blocks: usize) -> usize {
    let group = (1 << i.mods.abs).min(blocks);
    if group == 1 { b } else { b / group * group + usize::from(i.mods.op_sel) % group }
}

/// The lane that lane `l` of the second factor reads: BLGP moves groups of lanes.
fn permuted_lane(blgp: u8, l: usize) -> usize {
    match blgp {
        1 => l & 31,
        2 => l & 31 | 32,
        3 => (l + 16) % LANES,
        4..=7 => l & 15 | usize::from(blgp - 4) << 4,
        _ => l,
    }
}

/// Multiplies factors of `P` elements a lane and adds them to `R` results a lane.
#[inline(always)]
pub(super) fn multiply<A: Element, B: Element<Value = A::Value>, const P: usize, const R: usize>(
    w: &mut Wave,
    i: &Inst,
    shape: Shape,
) -> Flow {
    let flush = A::BITS == 16 && w.arch.flushes_half_products();
    let (a, mut b) = (A::factor::<P>(w, i, 0, flush), B::factor::<P>(w, i, 1, flush));
    // For doubles, the field is NEG.
    if B::BITS < 64 && i.mods.neg != 0 {
        b = b.map(|values| std::array::from_fn(|l| values[permuted_lane(i.mods.neg, l)]));
    }
    // Everything is read before anything is written: registers may overlap.
    let mut sums: [[A::Value; LANES]; R] = std::array::from_fn(|r| A::Value::read(w, i, 2, r));
    if flush {
        sums = sums.map(|lanes| lanes.map(Lane::flush));
    }
    match shape.n {
        4 => accumulate::<_, P, R, 4>(i, shape, &a, &b, &mut sums),
        _ => accumulate::<_, P, R, 16>(i, shape, &a, &b, &mut sums),
    }
    if flush {
        sums = sums.map(|lanes| lanes.map(Lane::flush));
    }
    for (r, values) in sums.iter().enumerate() {
        A::Value::write(w, i, r, values);
    }
    Flow::Next
}

/// Adds the products, `C` lanes at a time, which are neighbouring columns of one row.
#[inline(always)]
fn accumulate<V: Sum, const P: usize, const R: usize, const C: usize>(
    i: &Inst,
    shape: Shape,
    a: &[[V; LANES]; P],
    b: &[[V; LANES]; P],
    sums: &mut [[V; LANES]; R],
) {
    // Results that use the same elements of the second factor: they stay in the host's registers.
    const ROWS: usize = 4;
    for (first, results) in sums.chunks_mut(ROWS).enumerate() {
        for lane in (0..LANES).step_by(C) {
            let places: [_; ROWS] = std::array::from_fn(|n| shape.result((ROWS * first + n) % R, lane));
            let (block, _, column) = places[0];
            let from = broadcast_block(i, block, shape.blocks);
            let mut tile: [[V; C]; ROWS] =
                std::array::from_fn(|n| std::array::from_fn(|c| results[n % results.len()][lane + c]));
            for k in 0..shape.k {
                let (b_lane, b_at) = shape.factor(shape.n, block, column, k);
                let columns: [V; C] = std::array::from_fn(|c| b[b_at][(b_lane + c) % LANES]);
                for (sums, (_, row, _)) in tile.iter_mut().zip(places) {
                    let (a_lane, a_at) = shape.factor(shape.m, from, row, k);
                    let element = a[a_at][a_lane];
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = sum.plus(element, column);
                    }
                }
            }
            for (result, sums) in results.iter_mut().zip(tile) {
                result[lane..lane + C].copy_from_slice(&sums);
            }
        }
    }
}
