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
/// Elements of a factor.
const ELEMENTS: usize = BLOCK * LANES;
/// Elements of eight bits that follow each other in a lane and in the matrix.
const RUN: usize = 16;

/// A factor, where all elements of a `k` are one after the other.
type Factor<V> = [V; ELEMENTS];

/// The `k` of element `at` of the lanes of a group: those of eight bits are in two runs, others in one. `groups` share a row.
const fn depth(bits: u32, groups: usize, group: usize, at: usize) -> usize {
    if bits == 8 { at / RUN * RUN * groups + RUN * group + at % RUN } else { BLOCK * group + at }
}

/// A number that products are summed in.
trait Value: Sum + From<f32> + Into<f64> {
    /// How many of them a tile has in a row.
    const COLUMNS: usize;
}

impl Value for f32 {
    const COLUMNS: usize = 16;
}

impl Value for f64 {
    const COLUMNS: usize = 8;
}

/// The elements of a factor with rows of `size`.
#[inline(always)]
fn elements<F: Format, V: Value>(w: &Wave, i: &Inst, s: usize, size: usize, out: &mut Factor<V>) {
    let groups = LANES / size;
    for at in 0..BLOCK {
        let first = at as u32 * F::BITS;
        let (word, shift) = (w.vector(i.src[s], first / 32), first % 32);
        let mut codes = word.map(|bits| bits >> shift);
        if shift + F::BITS > 32 {
            let next = w.vector(i.src[s], first / 32 + 1);
            for (code, next) in codes.iter_mut().zip(next) {
                *code |= next << (32 - shift);
            }
        }
        let values = codes.map(|code| V::from(F::to_f32(code)));
        for (group, values) in values.chunks_exact(size).enumerate() {
            let k = depth(F::BITS, groups, group, at);
            out[k * size..][..size].copy_from_slice(values);
        }
    }
}

/// The scales of a factor as powers of two, or NaN: one for the rows of each lane's group, and for the block with its group's number.
#[inline(always)]
fn scales(w: &Wave, i: &Inst, s: usize) -> [f64; LANES] {
    let Some(scales) = i.scales() else { return [1.0; LANES] };
    let shift = 8 * u32::from(scales.byte[s]);
    w.vector(scales.source[s], 0).map(|word| match word >> shift & 0xff {
        0xff => f64::NAN,
        field => power(field as i32 - 127),
    })
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
struct Product<'a, V> {
    layout: &'a Layout,
    factors: [&'a Factor<V>; 2],
    scales: [[f64; LANES]; 2],
    /// The register of the first result.
    to: usize,
}

impl<V: Value> Product<'_, V> {
    /// Adds the sums of a tile's products of a block, times their scales, to results.
    #[inline(always)]
    fn add<const COLUMNS: usize>(
        &self,
        registers: &mut Registers,
        block: usize,
        row: usize,
        column: usize,
        sums: [V; COLUMNS],
    ) {
        let Shape { m, n, .. } = self.layout.shape;
        let words = registers.as_flattened_mut();
        let place = self.to * LANES + usize::from(self.layout.place(0, row)) + column;
        let scale = self.scales[0][(block * m + row) % LANES];
        for (c, sum) in sums.into_iter().enumerate() {
            let word = &mut words[(place + c) % (VGPRS * LANES)];
            let scaled: f64 = sum.into() * (scale * self.scales[1][(block * n + column + c) % LANES]);
            *word = sum_rounded_once(f32::from_bits(*word), scaled).to_bits();
        }
    }
}

/// Sums tiles of so many rows. Each row is a variable of its own: of an array of rows, compilers make memory.
macro_rules! tiles {
    ($name:ident $rows:literal: $($row:ident $n:literal),*) => {
        impl<V: Value> Product<'_, V> {
            /// Adds all products to the results, a block and a tile at a time.
            #[inline(always)]
            fn $name<const COLUMNS: usize>(&self, registers: &mut Registers) {
                let Shape { m, n, k, .. } = self.layout.shape;
                for block in 0..k / BLOCK {
                    for (column, first) in (0..n).step_by(COLUMNS).flat_map(|c| (0..m).step_by($rows).map(move |r| (c, r))) {
                        $(let mut $row = [V::from(0.0); COLUMNS];)*
                        for k in BLOCK * block..BLOCK * (block + 1) {
                            let a: &[V; $rows] = &self.factors[0].as_chunks().0[(k * m + first) / $rows % (ELEMENTS / $rows)];
                            let b: &[V; COLUMNS] = &self.factors[1].as_chunks().0[(k * n + column) / COLUMNS % (ELEMENTS / COLUMNS)];
                            $($row = std::array::from_fn(|c| $row[c].plus(a[$n], b[c]));)*
                        }
                        $(self.add(registers, block, first + $n, column, $row);)*
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
            fn factor<V: Value>(w: &Wave, i: &Inst, s: usize, size: usize, out: &mut Factor<V>) {
                match i.factor_format(s) {
                    Some(FactorFormat::Fp8) | None => elements::<E4M3, V>(w, i, s, size, out),
                    Some(FactorFormat::Bf8) => elements::<E5M2, V>(w, i, s, size, out),
                    Some(FactorFormat::Fp6) => elements::<E2M3, V>(w, i, s, size, out),
                    Some(FactorFormat::Bf6) => elements::<E3M2, V>(w, i, s, size, out),
                    Some(FactorFormat::Fp4) => elements::<E2M1, V>(w, i, s, size, out),
                }
            }

            $(#[$attribute])*
            #[inline(never)]
            fn sum<V: Value, const COLUMNS: usize>(w: &mut Wave, i: &Inst, layout: &Layout) {
                let Shape { m, n, .. } = layout.shape;
                let (mut a, mut b) = ([V::from(0.0); ELEMENTS], [V::from(0.0); ELEMENTS]);
                factor(w, i, 0, m, &mut a);
                factor(w, i, 1, n, &mut b);
                let scales = [scales(w, i, 0), scales(w, i, 1)];
                let product = Product { layout, factors: [&a, &b], scales, to: w.vgpr_index(i.dst, 0) };
                start::<f32>(w, i, layout.shape.results());
                match $bits {
                    512 => product.tiles_of_8::<COLUMNS>(&mut w.vgpr),
                    _ => product.tiles_of_4::<COLUMNS>(&mut w.vgpr),
                }
            }

            $(#[$attribute])*
            #[inline]
            pub(super) fn multiply(w: &mut Wave, i: &Inst, layout: &Layout) -> Flow {
                let is_narrow = |factor| i.factor_format(factor).is_some_and(|format| format.bits() < 8);
                // A single holds every sum of 32 products of numbers of six bits and less; of nearly all others, a double does.
                match is_narrow(0) && is_narrow(1) {
                    true => sum::<f32, { <f32 as Value>::COLUMNS }>(w, i, layout),
                    false => sum::<f64, { <f64 as Value>::COLUMNS }>(w, i, layout),
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
        let run =
            levels!(w, i, _e, base::multiply(w, i, LAYOUT), v3::multiply(w, i, LAYOUT), v4::multiply(w, i, LAYOUT));
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
