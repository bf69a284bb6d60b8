//! Products of matrices whose instruction says what their elements are: floats of eight, six or four bits, for each factor apart; with a
//! scale for every 32 elements of a row of the first factor and of a column of the second, or without scales.
//!
//! Sources: CDNA4 ISA manual, sections 7.1.4 and 7.1.5 for factors, 7.2 for scales. In which lane the scale of an element is, AMD has
//! measured on MI350: `scale_mapping_16x16x128.txt` and `scale_mapping_32x32x64.txt` among the tests of its Composable Kernel library.

use super::product::{Sum, start};
use super::{Layout, Shape};
use crate::action::{self, Action};
use crate::arch::ArchSet;
use crate::arithmetic::Number;
use crate::fp::scale::power;
use crate::fp::small::{E2M1, E2M3, E3M2, E4M3, E5M2, Format};
use crate::inst::{FactorFormat, Inst};
use crate::op::{Family, Flags, Flow, Op};
use crate::operand::Kind;
use crate::wave::{LANES, Registers, VGPRS, Wave};

/// Elements that share a scale, and as many has a lane of each factor.
const BLOCK: usize = 32;
/// Elements of eight bits that follow each other in a lane and in the matrix.
const RUN: usize = 16;

/// The `k` of element `at` of the lanes of a group: those of eight bits are in two runs, others in one. `groups` share a row.
const fn depth(bits: u32, groups: usize, group: usize, at: usize) -> usize {
    if bits == 8 { at / RUN * RUN * groups + RUN * group + at % RUN } else { BLOCK * group + at }
}

/// A factor with so many rows or columns: of each `k`, one element of every row or column.
type Factor<V, const SIZE: usize, const DEPTH: usize> = [[V; SIZE]; DEPTH];

/// Columns of a tile. Their sums are one or two host vectors.
const COLUMNS: usize = 16;

/// A number that products are summed in: singles if both factors have six bits or less, else doubles.
///
/// Of a format, numbers are multiples of a power of two, and so are their products and each sum of these. A sum of 32 products is exact,
/// in whatever order, if the largest has no more bits above that power than the type's significand. By the powers and the largest numbers
/// of the formats (E2M1: -1, 6; E2M3: -3, 7.5; E3M2: -4, 28; E4M3: -9, 448; E5M2: -16, 57344):
///
/// * E3M2 by E3M2: multiples of 2^-8 below 32 * 28^2 < 2^15: 23 of a single's 24 bits. Other narrow pairs have fewer.
/// * E4M3 by E4M3: multiples of 2^-18 below 32 * 448^2 < 2^23: 41 of a double's 53 bits; by narrow ones fewer.
/// * E5M2 by a narrow one: at most 2^-20 to 32 * 57344 * 28 < 2^26: 46 bits.
/// * E5M2 by E4M3, and by E5M2: 2^-25 to 2^30, 2^-32 to 2^37: 55 and 69 bits. Where a sum has more than 53 bits, it is rounded whenever a
///   product is added, in the order of `k`.
trait Value: Sum + From<f32> + Into<f64> {
    /// Adds sums times moderate scales to results, each rounded once, if this type does so in one step. False if it does not.
    fn add_scaled(sums: &[Self; COLUMNS], of_row: f32, scales: &[f32; COLUMNS], results: &mut [u32; COLUMNS]) -> bool;
}

impl Value for f32 {
    #[inline(always)]
    fn add_scaled(sums: &[f32; COLUMNS], of_row: f32, scales: &[f32; COLUMNS], results: &mut [u32; COLUMNS]) -> bool {
        for (c, result) in results.iter_mut().enumerate() {
            *result = sums[c].mul_add(of_row * scales[c], f32::from_bits(*result)).to_bits();
        }
        true
    }
}

impl Value for f64 {
    #[inline(always)]
    fn add_scaled(_: &[f64; COLUMNS], _: f32, _: &[f32; COLUMNS], _: &mut [u32; COLUMNS]) -> bool {
        false
    }
}

/// The elements of a factor.
#[inline(always)]
fn elements<F: Format, V: Value, const SIZE: usize, const DEPTH: usize>(
    w: &Wave,
    i: &Inst,
    s: usize,
    out: &mut Factor<V, SIZE, DEPTH>,
) {
    let groups = LANES / SIZE;
    for at in 0..BLOCK {
        let first = at as u32 * F::BITS;
        let (word, shift) = (w.vector(i.src[s], first / 32), first % 32);
        let mut codes = *word;
        for code in &mut codes {
            *code >>= shift;
        }
        if shift + F::BITS > 32 {
            let next = w.vector(i.src[s], first / 32 + 1);
            for (code, next) in codes.iter_mut().zip(next) {
                *code |= next << (32 - shift);
            }
        }
        for (group, codes) in codes.as_chunks::<SIZE>().0.iter().enumerate() {
            let values = &mut out[depth(F::BITS, groups, group, at) % DEPTH];
            for (value, code) in values.iter_mut().zip(codes) {
                *value = V::from(F::to_f32(*code));
            }
        }
    }
}

/// The scales of a factor: one for the rows of each lane's group, and for the block with its group's number.
struct Scales {
    /// As powers of two, or NaN.
    exact: [f64; LANES],
    /// The same, where they are moderate.
    single: [f32; LANES],
    /// A product of two of them is a normal single.
    are_moderate: bool,
}

impl Scales {
    /// Fields of the exponents of moderate scales: the powers from -63 to 63.
    const MODERATE: std::ops::RangeInclusive<u32> = 64..=190;

    #[inline(always)]
    fn new(w: &Wave, i: &Inst, s: usize) -> Scales {
        let mut new = Scales { exact: [1.0; LANES], single: [1.0; LANES], are_moderate: true };
        let Some(scales) = i.scales() else { return new };
        let shift = 8 * u32::from(scales.byte[s]);
        for (l, word) in w.vector(scales.source[s], 0).iter().enumerate() {
            let field = word >> shift & 0xff;
            new.are_moderate &= Scales::MODERATE.contains(&field);
            new.exact[l] = if field == 0xff { f64::NAN } else { power(field as i32 - 127) };
            new.single[l] = f32::from_bits(field << 23);
        }
        new
    }
}

/// `a + b`, as the nearest single. Of two roundings to nearest, the first may make a tie: the sum of doubles is rounded to odd instead.
#[inline(always)]
fn sum_rounded_once(a: f32, b: f64) -> f32 {
    let a = f64::from(a);
    let sum = a + b;
    // What the sum has lost, exactly. Source: Knuth, "The Art of Computer Programming", section 4.2.2.
    let of_b = sum - a;
    let lost = (a - (sum - of_b)) + (b - of_b);
    let bits = sum.to_bits();
    let away = (lost > 0.0) == (sum > 0.0);
    let odd = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    let is_even = lost != 0.0 && sum.is_finite() && bits & 1 == 0;
    f64::from_bits(if is_even { odd } else { bits }) as f32
}

/// Both factors and their scales.
struct Product<'a, V, const SIZE: usize, const DEPTH: usize> {
    layout: &'a Layout,
    factors: [&'a Factor<V, SIZE, DEPTH>; 2],
    scales: [Scales; 2],
    /// The register of the first result.
    to: usize,
}

impl<V: Value, const SIZE: usize, const DEPTH: usize> Product<'_, V, SIZE, DEPTH> {
    /// Adds the sums of a tile's products of a block, times their scales, to results: each one is rounded once.
    ///
    /// Where singles hold the sums and moderate scales, a fused multiply-add does that: it rounds once what is exact. Elsewhere doubles
    /// hold the sums times any scales, and [`sum_rounded_once`] adds.
    #[inline(always)]
    fn add(&self, registers: &mut Registers, block: usize, row: usize, column: usize, sums: &[V; COLUMNS]) {
        let place = self.to * LANES + usize::from(self.layout.place(0, row)) + column;
        let results =
            &mut registers.as_flattened_mut().as_chunks_mut::<COLUMNS>().0[place / COLUMNS % (VGPRS * LANES / COLUMNS)];
        let of_row = (block * SIZE + row) % LANES;
        let of_columns = (block * SIZE + column) / COLUMNS % (LANES / COLUMNS);
        let [rows, columns] = &self.scales;
        if rows.are_moderate
            && columns.are_moderate
            && V::add_scaled(sums, rows.single[of_row], &columns.single.as_chunks().0[of_columns], results)
        {
            return;
        }
        let scale = rows.exact[of_row];
        let scales = &columns.exact.as_chunks::<COLUMNS>().0[of_columns];
        for (c, result) in results.iter_mut().enumerate() {
            let scaled: f64 = sums[c].into() * (scale * scales[c]);
            *result = sum_rounded_once(f32::from_bits(*result), scaled).to_bits();
        }
    }
}

/// Sums tiles of so many rows. Each row is a variable of its own: of an array of rows, compilers make memory.
macro_rules! tiles {
    ($name:ident $rows:literal: $($row:ident $n:literal),*) => {
        impl<V: Value, const SIZE: usize, const DEPTH: usize> Product<'_, V, SIZE, DEPTH> {
            /// Adds all products to the results, a block and a tile at a time.
            #[inline(always)]
            fn $name(&self, registers: &mut Registers) {
                for block in 0..DEPTH / BLOCK {
                    let [a, b] = self.factors.map(|factor| &factor.as_chunks::<BLOCK>().0[block]);
                    for (column, first) in (0..SIZE / COLUMNS).flat_map(|c| (0..SIZE / $rows).map(move |r| (c, r))) {
                        $(let mut $row = [V::from(0.0); COLUMNS];)*
                        for (a, b) in a.iter().zip(b) {
                            let a: &[V; $rows] = &a.as_chunks().0[first];
                            let b: &[V; COLUMNS] = &b.as_chunks().0[column];
                            $($row = std::array::from_fn(|c| $row[c].plus(a[$n], b[c]));)*
                        }
                        // Through memory: what is done with a row's sums must not decide how they are kept before.
                        $(let $row = std::hint::black_box(&$row);)*
                        $(self.add(registers, block, first * $rows + $n, column * COLUMNS, $row);)*
                    }
                }
            }
        }
    };
}

tiles!(tiles_of_4 4: row0 0, row1 1, row2 2, row3 3);
tiles!(tiles_of_8 8: row0 0, row1 1, row2 2, row3 3, row4 4, row5 5, row6 6, row7 7);

macro_rules! products {
    ($level:ident $bits:literal $(#[$attribute:meta])*) => {
        /// What is compiled for a level of the host's vector instructions.
        mod $level {
            use super::*;

            $(#[$attribute])*
            #[inline(never)]
            fn factor<V: Value, const SIZE: usize, const DEPTH: usize>(
                w: &Wave,
                i: &Inst,
                s: usize,
                out: &mut Factor<V, SIZE, DEPTH>,
            ) {
                match i.factor_format(s) {
                    Some(FactorFormat::Fp8) | None => elements::<E4M3, V, SIZE, DEPTH>(w, i, s, out),
                    Some(FactorFormat::Bf8) => elements::<E5M2, V, SIZE, DEPTH>(w, i, s, out),
                    Some(FactorFormat::Fp6) => elements::<E2M3, V, SIZE, DEPTH>(w, i, s, out),
                    Some(FactorFormat::Bf6) => elements::<E3M2, V, SIZE, DEPTH>(w, i, s, out),
                    Some(FactorFormat::Fp4) => elements::<E2M1, V, SIZE, DEPTH>(w, i, s, out),
                }
            }

            $(#[$attribute])*
            #[inline(never)]
            fn sum<V: Value, const SIZE: usize, const DEPTH: usize>(w: &mut Wave, i: &Inst, layout: &Layout) {
                let (mut a, mut b) = ([[V::from(0.0); SIZE]; DEPTH], [[V::from(0.0); SIZE]; DEPTH]);
                factor(w, i, 0, &mut a);
                factor(w, i, 1, &mut b);
                let scales = [Scales::new(w, i, 0), Scales::new(w, i, 1)];
                let product = Product { layout, factors: [&a, &b], scales, to: w.vgpr_index(i.dst, 0) };
                start::<f32>(w, i, layout.shape.results());
                match $bits {
                    512 => product.tiles_of_8(&mut w.vgpr),
                    _ => product.tiles_of_4(&mut w.vgpr),
                }
            }

            $(#[$attribute])*
            #[inline]
            pub(super) fn multiply<const SIZE: usize, const DEPTH: usize>(w: &mut Wave, i: &Inst, layout: &Layout) -> Flow {
                let is_narrow = |factor| i.factor_format(factor).is_some_and(|format| format.bits() < 8);
                match is_narrow(0) && is_narrow(1) {
                    true => sum::<f32, SIZE, DEPTH>(w, i, layout),
                    false => sum::<f64, SIZE, DEPTH>(w, i, layout),
                }
                Flow::Next
            }
        }
    };
}

at_each_level!(products);

macro_rules! product {
    ($name:literal $family:ident $code:literal $m:literal x $n:literal x $k:literal) => {{
        const LAYOUT: &Layout = &Layout::new(Shape { m: $m, n: $n, k: $k, blocks: 1, height: 4 });
        const RESULTS: Kind = Kind::Dwords(($m * $n / LANES) as u8);
        let run = levels!(
            w,
            i,
            _e,
            base::multiply::<$m, $k>(w, i, LAYOUT),
            v3::multiply::<$m, $k>(w, i, LAYOUT),
            v4::multiply::<$m, $k>(w, i, LAYOUT)
        );
        Op::new($name, Family::$family, $code, ArchSet::SINCE_950, run)
            .operands(RESULTS, [Kind::Dwords(8), Kind::Dwords(8), RESULTS])
            .with(Flags::FORMATS)
            .counts_of_wave(Number::F8, 2 * $m * $n * $k)
            .is(Action::MatrixProduct(action::Shape {
                rows: $m,
                columns: $n,
                depth: $k,
                blocks: 1,
                is_shortened: false,
            }))
    }};
}

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    product!("v_mfma_f32_16x16x128_f8f6f4"       Vop3p   0x2d 16 x 16 x 128),
    product!("v_mfma_f32_32x32x64_f8f6f4"        Vop3p   0x2e 32 x 32 x 64),
    product!("v_mfma_scale_f32_16x16x128_f8f6f4" Vop3px2 0x2d 16 x 16 x 128),
    product!("v_mfma_scale_f32_32x32x64_f8f6f4"  Vop3px2 0x2e 32 x 32 x 64),
];
