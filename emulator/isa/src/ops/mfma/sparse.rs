//! The product of a sparse matrix and a dense one: of four elements in a row of the first factor two are given, and their places.
//!
//! Source: AMD's ISA manuals, "Sparse Matrices", and AMD's public matrix instruction calculator. Where a lane has eight registers of the
//! dense factor, from gfx950 on, kernels of hipSPARSELt 7.2.4 load the upper four from the second half of the row: those of all lanes
//! together are one half, then the other one. What is given of the sparse factor is in one piece.

use super::Layout;
use super::product::{self, Element, Product, Sum, run};
use crate::inst::Inst;
use crate::lanes::Lane;
use crate::op::Flow;
use crate::wave::{LANES, Registers, Vgpr, Wave};

/// Bits that say which of four elements a given one is.
const PLACE: u32 = 2;
/// Bits of a row of the dense factor that a lane has in one piece.
const PIECE: u32 = 128;

impl<V: Sum> Product<'_, V> {
    /// Of the elements of the second factor, each element of the first one chooses its own. `piece` is how many elements of a row of
    /// the second factor a lane has in one piece.
    #[inline(always)]
    fn chosen(&self, places: &Vgpr, registers: &mut Registers, piece: usize, many_rows: bool) {
        let shape = &self.layout.shape;
        let (steps, fours, of_lane) = (shape.steps(), piece / 4, self.b.len() / 4);
        // Of each lane of a row of the first factor, and each two given elements: the first of the four, and the lanes before theirs.
        let mut seats = [[(0, 0); 8]; 4];
        for (step, seats) in seats.iter_mut().enumerate().take(steps) {
            for (pair, seat) in seats.iter_mut().enumerate().take(of_lane) {
                let (half, nth) =
                    ((step * of_lane + pair) / (steps * fours), (step * of_lane + pair) % (steps * fours));
                *seat = (half * piece + 4 * (nth % fours), nth / fours * shape.n);
            }
        }
        let (rows, columns) = (shape.m.trailing_zeros(), shape.n - 1);
        let right = |at: usize, a_lane: usize, lane: usize| {
            let place = places[a_lane % LANES] >> (PLACE * at as u32) & 3;
            let (first, lanes) = seats[(a_lane >> rows) % 4][at / 2 % 8];
            run(&self.b[first + place as usize], lanes + (lane & columns))
        };
        match many_rows {
            true => self.tiles_of_16::<16>(registers, |block| block, right),
            false => self.tiles_of_4::<16>(registers, |block| block, right),
        }
    }
}

macro_rules! products {
    ($level:ident $bits:literal $(#[$attribute:meta])*) => {
        /// What is compiled for a level of the host's vector instructions.
        pub(super) mod $level {
            use super::*;

            $(#[$attribute])*
            #[inline(never)]
            fn chosen<V: Sum>(w: &mut Wave, places: &Vgpr, product: &Product<'_, V>, piece: usize) {
                product.chosen(places, &mut w.vgpr, piece, $bits == 512);
            }

            /// Multiplies `P` given elements a lane by `Q` dense ones. The layout is that of what is given.
            $(#[$attribute])*
            #[inline]
            pub(in super::super) fn multiply<A: Element, B: Element<Value = A::Value>, const P: usize, const Q: usize>(
                w: &mut Wave,
                i: &Inst,
                layout: &Layout,
            ) -> Flow {
                let (mut a, mut b) = ([[A::Value::from_bits(0); LANES]; P], [[A::Value::from_bits(0); LANES]; Q]);
                product::$level::factor::<A>(w, i, 0, false, &mut a);
                product::$level::factor::<B>(w, i, 1, false, &mut b);
                // A register holds several sets of places. ABID chooses one, unless CBSZ chooses the first.
                let bits = PLACE * P as u32;
                let set = if i.mods.abs & 3 == 0 { u32::from(i.mods.op_sel) % (u32::BITS / bits) } else { 0 };
                let places = w.vector(i.src[2], 0).map(|word| word >> (set * bits));
                let to = w.vgpr_index(i.dst, 0);
                let piece = (PIECE / B::BITS) as usize;
                chosen(w, &places, &Product { layout, a: &a, b: &b, to, flush: false }, piece);
                Flow::Next
            }
        }
    };
}

at_each_level!(products);

#[cfg(test)]
mod tests {
    use crate::Decoder;
    use crate::arch::{Arch, Generation};
    use crate::fp::F16;
    use crate::fp::small::{E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, Format};
    use crate::op::Flags;
    use crate::step::Nothing;
    use crate::wave::{LANES, Vgpr, Wave, vgpr_file};

    /// Element `at` of a lane's registers, of a type.
    fn element(registers: &[Vgpr], lane: usize, at: usize, of: &str, ocp: bool) -> f32 {
        let byte = || registers[at / 4][lane] >> (8 * (at % 4)) & 0xff;
        let half = || registers[at / 2][lane] >> (16 * (at % 2)) & 0xffff;
        match of {
            "f16" => F16(half() as u16).to_f32(),
            "bf16" => f32::from_bits(half() << 16),
            "fp8" if ocp => E4M3::to_f32(byte()),
            "fp8" => E4M3Fnuz::to_f32(byte()),
            "bf8" if ocp => E5M2::to_f32(byte()),
            "bf8" => E5M2Fnuz::to_f32(byte()),
            _ => f32::from(byte() as i8),
        }
    }

    /// A whole number between -3 and 3 in a type.
    fn code(number: i32, of: &str, ocp: bool) -> u32 {
        match of {
            "f16" => F16::from_f32(number as f32).0.into(),
            "bf16" => (number as f32).to_bits() >> 16,
            "fp8" if ocp => E4M3::nearest(number as f32, false),
            "fp8" => E4M3Fnuz::nearest(number as f32, false),
            "bf8" if ocp => E5M2::nearest(number as f32, false),
            "bf8" => E5M2Fnuz::nearest(number as f32, false),
            _ => (number as u32) & 0xff,
        }
    }

    #[test]
    fn sparse_products_are_those_of_the_matrix_with_its_zeros() {
        let mut state = 7u64;
        let mut random = |below: u32| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32 % below
        };
        let sparse =
            |arch| super::super::TABLE.iter().filter(move |op| op.flags.has(Flags::SPARSE) && op.archs.contains(arch));
        let archs = [Arch::Gfx942, Arch::Gfx950];
        assert_eq!(archs.map(|arch| sparse(arch).count()), [14, 28]);
        // Every set of places, and the first one whatever ABID is; sums in vector and in accumulation registers.
        let sets = [(0, 0), (0, 1), (0, 3), (1, 1)];
        let all = archs.into_iter().flat_map(|arch| sparse(arch).flat_map(move |op| sets.map(|set| (arch, op, set))));
        for (arch, op, (cbsz, abid)) in all {
            let (decoder, ocp) = (Decoder::new(arch), arch.has_ocp_fp8());
            // v_smfmac_SUM_MxNxK_TYPE, or the types of both.
            let parts: Vec<&str> = op.name.split('_').collect();
            let (sum_type, types) = (parts[2], [parts[4], parts[parts.len() - 1]]);
            let sizes: Vec<usize> = parts[3].split('x').map(|n| n.parse().unwrap()).collect();
            let [m, n, k] = sizes[..] else { panic!("{}", op.name) };
            let bits = if types[0].ends_with("16") { 16 } else { 8 };
            let groups = LANES / m;
            // Of a lane: given elements, dense ones.
            let (given, dense) = (k / 2 / groups, k / groups);
            let mut w = Wave::new(arch, 0, vgpr_file());
            w.accum_offset = 256;
            let mut fill = |first: usize, count: usize, of: &str, w: &mut Wave| {
                for l in 0..LANES {
                    for at in 0..count {
                        let bits_of = code(random(7) as i32 - 3, of, ocp) << (bits * (at % (32 / bits)));
                        w.vgpr[first + at * bits / 32][l] |= bits_of;
                    }
                }
            };
            fill(8, given, types[0], &mut w);
            fill(12, dense, types[1], &mut w);
            let first = if cbsz == 0 { 64 } else { 256 + 64 };
            for r in 0..m * n / LANES {
                w.vgpr[first + r] = std::array::from_fn(|_| {
                    let number = random(100) as i32;
                    if sum_type == "i32" { number as u32 } else { (number as f32).to_bits() }
                });
            }
            let set = if cbsz != 0 { 0 } else { abid % (32 / (2 * given)) };
            // Other sets of places are not zero.
            w.vgpr[20] = std::array::from_fn(|_| random(u32::MAX));
            let mut matrix = vec![vec![0f32; k]; m];
            for l in 0..LANES {
                for pair in 0..given / 2 {
                    let (low, high) = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)][random(6) as usize];
                    let shift = 2 * given * set + 4 * pair;
                    w.vgpr[20][l] = w.vgpr[20][l] & !(15 << shift) | (low | high << 2) << shift;
                    for (at, place) in [(2 * pair, low), (2 * pair + 1, high)] {
                        matrix[l % m][l / m * dense + 4 * pair + place as usize] =
                            element(&w.vgpr[8..12], l, at, types[0], ocp);
                    }
                }
            }
            let acc = u32::from(cbsz != 0) << 15;
            let word = 0b1_1010_0111 << 23
                | u32::from(op.code(Generation::Gfx9).unwrap()) << 16
                | acc
                | (abid as u32) << 11
                | cbsz << 8
                | 64;
            let i = decoder.decode(&[word, (256 + 8) | (256 + 12) << 9 | (256 + 20) << 18]).unwrap();
            let before = w.vgpr.to_vec();
            crate::step::execute(&mut w, &i, &mut Nothing);
            for r in 0..m * n / LANES {
                for l in 0..LANES {
                    let row = 8 * (r / 4) + 4 * (l / n) + r % 4;
                    // A lane has 16 bytes of each half of a row, or of the row.
                    let piece = 128 / bits;
                    let half = k * piece / dense;
                    let product = |c: usize| {
                        let (lane, at) = (l % n + n * (c % half / piece), c / half * piece + c % piece);
                        matrix[row][c] * element(&before[12..20], lane, at, types[1], ocp)
                    };
                    let sum: f32 = (0..k).map(product).sum();
                    let old = before[first + r][l];
                    let (got, expected) = match sum_type {
                        "i32" => (w.vgpr[first + r][l], old.wrapping_add(sum as i32 as u32)),
                        _ => (w.vgpr[first + r][l], (f32::from_bits(old) + sum).to_bits()),
                    };
                    assert_eq!(got, expected, "{} cbsz {cbsz} abid {abid}: register {r}, lane {l}", op.name);
                }
            }
        }
    }
}
