//! The product of two matrices: factors are converted once, and tiles of results are summed in host vectors.
//!
//! Lanes that hold one row of results hold neighbouring columns, and so do lanes of the second factor; neighbouring lanes of the
//! first factor hold neighbouring rows. A step of a tile is therefore a run of rows times a run of columns. The order of each
//! sum is that of `k`.
//!
//! What is converted and summed is compiled once for each type and level of the host, not for each shape.

use super::Layout;
use crate::arithmetic::Number;
use crate::fp::F16;
use crate::fp::small::{E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, Format};
use crate::inst::Inst;
use crate::lanes::Lane;
use crate::op::Flow;
use crate::wave::{LANES, Registers, VGPRS, Wave};

/// A number that products are summed in.
pub(super) trait Sum: Lane {
    /// `a * b + self`, rounded once.
    fn plus(self, a: Self, b: Self) -> Self;
}

macro_rules! sum {
    ($type:ident, |$sum:ident, $a:ident, $b:ident| $plus:expr) => {
        impl Sum for $type {
            #[inline(always)]
            fn plus(self, $a: $type, $b: $type) -> $type {
                let $sum = self;
                $plus
            }
        }
    };
}

sum!(f32, |sum, a, b| a.mul_add(b, sum));
sum!(f64, |sum, a, b| a.mul_add(b, sum));
sum!(i32, |sum, a, b| sum.wrapping_add(a * b));

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
    /// The elements of each lane of source `s`. `flush` reads denormals as zero.
    fn factor(w: &Wave, i: &Inst, s: usize, flush: bool, out: &mut [[Self::Value; LANES]]);
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
            fn factor(w: &Wave, i: &Inst, s: usize, $flush: bool, out: &mut [[$value; LANES]]) {
                for (p, values) in (0u32..).zip(out) {
                    let (word, shift) = (w.vector(i.src[s], p * $bits / 32), p * $bits % 32);
                    for (value, bits) in values.iter_mut().zip(word) {
                        let $x = bits >> shift;
                        *value = $convert;
                    }
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
element!(E4M3Fnuz, F8: 8 bits as f32, |x, _flush| E4M3Fnuz::to_f32(x));
element!(E5M2Fnuz, F8: 8 bits as f32, |x, _flush| E5M2Fnuz::to_f32(x));
element!(E4M3, F8: 8 bits as f32, |x, _flush| E4M3::to_f32(x));
element!(E5M2, F8: 8 bits as f32, |x, _flush| E5M2::to_f32(x));
element!(i8, I8: 8 bits as i32, |x, _flush| i32::from(x as u8 as i8));

impl Element for f64 {
    const BITS: u32 = 64;
    const NUMBER: Number = Number::F64;
    type Value = f64;
    #[inline(always)]
    fn factor(w: &Wave, i: &Inst, s: usize, _flush: bool, out: &mut [[f64; LANES]]) {
        // The fields of NEG are modifiers of doubles.
        let sign = u64::from(i.mods.neg >> s & 1) << 63;
        for (p, values) in (0u32..).zip(out) {
            let (low, high) = (w.vector(i.src[s], 2 * p), w.vector(i.src[s], 2 * p + 1));
            for ((value, &low), &high) in values.iter_mut().zip(low).zip(high) {
                *value = f64::from_bits((u64::from(low) | u64::from(high) << 32) ^ sign);
            }
        }
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

/// Moves lanes of the second factor as BLGP says.
#[cold]
#[inline(never)]
fn permute<V: Copy>(factor: &mut [[V; LANES]], blgp: u8) {
    for values in factor {
        *values = std::array::from_fn(|l| values[permuted_lane(blgp, l)]);
    }
}

/// Puts what is added to into the registers of the results: by then factors are read, and registers may overlap.
#[inline(always)]
pub(super) fn start<V: Sum>(w: &mut Wave, i: &Inst, results: usize) {
    let words = results as u32 * V::WORDS;
    let source = i.addend();
    if source.is_vector() {
        let ahead = w.vgpr_index(i.dst, 0).wrapping_sub(w.vgpr_index(source, 0)) % VGPRS;
        for n in 0..if ahead == 0 { 0 } else { words } {
            // Nothing is overwritten that is still to be read.
            let n = if ahead < words as usize { words - 1 - n } else { n };
            let register = *w.vector(source, n);
            *w.vector_mut(i.dst, n) = register;
        }
    } else {
        let value = match V::WORDS {
            2 => w.scalar64(source, i.literal, V::KIND),
            _ => w.scalar32(source, i.literal, V::KIND).into(),
        };
        for n in 0..words {
            *w.vector_mut(i.dst, n) = [(value >> (32 * (n % V::WORDS))) as u32; LANES];
        }
    }
    if V::WORDS == 2 && i.mods.neg & 4 != 0 {
        for n in (1..words).step_by(2) {
            *w.vector_mut(i.dst, n) = w.vector(i.dst, n).map(|high| high ^ 1 << 31);
        }
    }
}

/// Converted factors, and where products of them are added to.
pub(super) struct Product<'a, V> {
    pub(super) layout: &'a Layout,
    /// Elements of each lane of the first factor.
    pub(super) a: &'a [[V; LANES]],
    /// The same of the second factor.
    pub(super) b: &'a [[V; LANES]],
    /// The register of the first result.
    pub(super) to: usize,
    /// Denormal sums are zero, before and after.
    pub(super) flush: bool,
}

/// A run of a factor's lanes, which begins at a multiple of its length.
#[inline(always)]
pub(super) fn run<V, const LENGTH: usize>(values: &[V; LANES], lane: usize) -> &[V; LENGTH] {
    &values.as_chunks::<LENGTH>().0[lane / LENGTH % (LANES / LENGTH)]
}

/// A row of a tile with one more product each.
#[inline(always)]
fn added<V: Sum, const COLUMNS: usize>(sums: [V; COLUMNS], a: V, b: &[V; COLUMNS]) -> [V; COLUMNS] {
    std::array::from_fn(|c| sums[c].plus(a, b[c]))
}

/// A row of a tile without denormals.
#[inline(always)]
fn flushed<V: Sum, const COLUMNS: usize>(sums: [V; COLUMNS]) -> [V; COLUMNS] {
    std::array::from_fn(|c| sums[c].flush())
}

impl<V: Sum> Product<'_, V> {
    /// Which run of the register file, and of the registers behind, a run of results is in, which begins at a multiple of its length.
    #[inline(always)]
    fn place<const COLUMNS: usize>(&self, block: usize, row: usize, column: usize) -> usize {
        let words = usize::from(self.layout.place(block, row)) + column;
        // Where results take two registers, those of the upper words are between.
        let registers = if V::WORDS == 2 { words / LANES * 2 * LANES + words % LANES } else { words };
        (self.to * LANES + registers) / COLUMNS
    }

    #[inline(always)]
    fn read<const COLUMNS: usize>(&self, registers: &Registers, place: usize) -> [V; COLUMNS] {
        let runs = registers.as_flattened().as_chunks::<COLUMNS>().0;
        let word = |n: usize| &runs[(place + n * LANES / COLUMNS) % (VGPRS * LANES / COLUMNS)];
        let (low, high) = (word(0), word(V::WORDS as usize - 1));
        let value =
            |c: usize| V::from_bits(u64::from(low[c]) | if V::WORDS == 2 { u64::from(high[c]) << 32 } else { 0 });
        std::array::from_fn(value)
    }

    #[inline(always)]
    fn write<const COLUMNS: usize>(&self, registers: &mut Registers, place: usize, sums: [V; COLUMNS]) {
        let runs = registers.as_flattened_mut().as_chunks_mut::<COLUMNS>().0;
        for n in 0..V::WORDS as usize {
            let run = &mut runs[(place + n * LANES / COLUMNS) % (VGPRS * LANES / COLUMNS)];
            for (word, sum) in run.iter_mut().zip(sums) {
                *word = (sum.to_bits() >> (32 * n)) as u32;
            }
        }
    }

    #[inline(always)]
    fn dense(&self, i: &Inst, registers: &mut Registers, many_rows: bool) {
        let blocks = self.layout.shape.blocks;
        let from = |block: usize| broadcast_block(i, block, blocks);
        match self.layout.shape.n {
            4 => self.tiles_of_4::<4>(registers, from, |at, _, lane| run(&self.b[at], lane)),
            _ if many_rows => self.tiles_of_16::<16>(registers, from, |at, _, lane| run(&self.b[at], lane)),
            _ => self.tiles_of_4::<16>(registers, from, |at, _, lane| run(&self.b[at], lane)),
        }
    }
}

/// Sums tiles of so many rows. Each row is a variable of its own: of an array of rows, compilers make memory.
macro_rules! tiles {
    ($name:ident $rows:literal: $($row:ident $n:literal),*) => {
        impl<V: Sum> Product<'_, V> {
            /// Adds products to all results, a tile at a time. `from` is the block of the first factor that a block uses. `right` is what
            /// an element of the first factor is multiplied with, by its place in its lane, its lane, and the lane of the tile's first
            /// column in the second factor.
            #[inline(always)]
            pub(super) fn $name<'b, const COLUMNS: usize>(
                &self,
                registers: &mut Registers,
                from: impl Fn(usize) -> usize,
                right: impl Fn(usize, usize, usize) -> &'b [V; COLUMNS],
            ) where
                V: 'b,
            {
                let shape = &self.layout.shape;
                // From one step to the next.
                let lanes = [shape.m * shape.blocks, shape.n * shape.blocks];
                for block in 0..shape.blocks {
                    let from = from(block);
                    for column in (0..shape.n).step_by(COLUMNS) {
                        for first in (0..shape.m).step_by($rows) {
                            let places: [usize; $rows] = std::array::from_fn(|n| self.place::<COLUMNS>(block, first + n, column));
                            $(let mut $row = self.read::<COLUMNS>(registers, places[$n]);)*
                            if self.flush {
                                $($row = flushed($row);)*
                            }
                            let (mut a_lane, mut b_lane) = (shape.lane(shape.m, from, first, 0), shape.lane(shape.n, block, column, 0));
                            for _ in 0..shape.steps() {
                                for (at, a) in self.a.iter().enumerate() {
                                    // Elements one after the other: of sums of integers, compilers would make several.
                                    let a: &[V; $rows] = run(std::hint::black_box(a), a_lane);
                                    $($row = added($row, a[$n], right(at, a_lane + $n, b_lane));)*
                                }
                                a_lane += lanes[0];
                                b_lane += lanes[1];
                            }
                            if self.flush {
                                $($row = flushed($row);)*
                            }
                            $(self.write(registers, places[$n], $row);)*
                        }
                    }
                }
            }
        }
    };
}

tiles!(tiles_of_4 4: row0 0, row1 1, row2 2, row3 3);
tiles!(tiles_of_16 16: row0 0, row1 1, row2 2, row3 3, row4 4, row5 5, row6 6, row7 7, row8 8, row9 9, row10 10, row11 11, row12 12, row13 13, row14 14, row15 15);

macro_rules! products {
    ($level:ident $bits:literal $(#[$attribute:meta])*) => {
        /// What is compiled for a level of the host's vector instructions.
        pub(super) mod $level {
            use super::*;

            /// A tile has more host vectors of singles than are added to at a time.
            const MANY_ROWS: bool = $bits == 512;

            $(#[$attribute])*
            #[inline(never)]
            pub(in super::super) fn factor<E: Element>(w: &Wave, i: &Inst, s: usize, flush: bool, out: &mut [[E::Value; LANES]]) {
                E::factor(w, i, s, flush, out);
            }

            $(#[$attribute])*
            #[inline(never)]
            pub(in super::super) fn dense<V: Sum>(w: &mut Wave, i: &Inst, product: &Product<'_, V>) {
                start::<V>(w, i, product.layout.shape.results());
                product.dense(i, &mut w.vgpr, MANY_ROWS);
            }

            /// Multiplies factors of `P` elements a lane.
            $(#[$attribute])*
            #[inline]
            pub(in super::super) fn multiply<A: Element, B: Element<Value = A::Value>, const P: usize>(
                w: &mut Wave,
                i: &Inst,
                layout: &Layout,
            ) -> Flow {
                let flush = A::BITS == 16 && w.arch.flushes_half_products();
                let (mut a, mut b) = ([[A::Value::from_bits(0); LANES]; P], [[A::Value::from_bits(0); LANES]; P]);
                factor::<A>(w, i, 0, flush, &mut a);
                factor::<B>(w, i, 1, flush, &mut b);
                // For doubles, the field is NEG.
                if B::BITS < 64 && i.mods.neg != 0 {
                    permute(&mut b, i.mods.neg);
                }
                let to = w.vgpr_index(i.dst, 0);
                dense(w, i, &Product { layout, a: &a, b: &b, to, flush });
                Flow::Next
            }
        }
    };
}

at_each_level!(products);
