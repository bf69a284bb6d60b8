//! The product of a sparse matrix and a dense one: of four elements in a row of the first factor two are given, and their places.
//!
//! Source: AMD's ISA manuals, "Sparse Matrices", and AMD's public matrix instruction calculator.

use super::Shape;
use super::product::{Element, Sum};
use crate::inst::Inst;
use crate::op::Flow;
use crate::wave::{LANES, Wave};

/// Bits that say which of four elements a given one is.
const PLACE: u32 = 2;

/// Multiplies `P` given elements a lane by `Q` dense ones, and adds them to `R` results a lane. The shape is that of what is given.
#[inline(always)]
pub(super) fn multiply<A: Element, B: Element<Value = A::Value>, const P: usize, const Q: usize, const R: usize>(
    w: &mut Wave,
    i: &Inst,
    shape: Shape,
) -> Flow {
    let (a, b) = (A::factor::<P>(w, i, 0, false), B::factor::<Q>(w, i, 1, false));
    // A register holds several sets of places. ABID chooses one, unless CBSZ chooses the first.
    let bits = PLACE * P as u32;
    let set = if i.mods.abs & 3 == 0 { u32::from(i.mods.op_sel) % (u32::BITS / bits) } else { 0 };
    let places = w.vector(i.src[2], 0).map(|word| word >> (set * bits));
    let mut sums: [[A::Value; LANES]; R] = std::array::from_fn(|r| A::Value::read(w, i, 2, r));
    for (r, results) in sums.iter_mut().enumerate() {
        for (l, result) in results.iter_mut().enumerate() {
            let (_, row, column) = shape.result(r, l);
            for k in 0..shape.k {
                let (a_lane, at) = shape.factor(shape.m, 0, row, k);
                let (b_lane, _) = shape.factor(shape.n, 0, column, k);
                let place = places[a_lane] >> (PLACE * at as u32) & 3;
                *result = result.plus(a[at][a_lane], b[at / 2 * 4 + place as usize][b_lane]);
            }
        }
    }
    for (r, values) in sums.iter().enumerate() {
        A::Value::write(w, i, r, values);
    }
    Flow::Next
}

#[cfg(test)]
mod tests {
    use crate::Decoder;
    use crate::arch::{Arch, Generation};
    use crate::fp::F16;
    use crate::fp::small::{Bf8, Fp8};
    use crate::op::Flags;
    use crate::step::Nothing;
    use crate::wave::{LANES, Vgpr, Wave, vgpr_file};

    /// Element `at` of a lane's registers, of a type.
    fn element(registers: &[Vgpr], lane: usize, at: usize, of: &str) -> f32 {
        let byte = || registers[at / 4][lane] >> (8 * (at % 4)) & 0xff;
        let half = || registers[at / 2][lane] >> (16 * (at % 2)) & 0xffff;
        match of {
            "f16" => F16(half() as u16).to_f32(),
            "bf16" => f32::from_bits(half() << 16),
            "fp8" => Fp8::new(byte()).to_f32(),
            "bf8" => Bf8::new(byte()).to_f32(),
            _ => f32::from(byte() as i8),
        }
    }

    /// A whole number between -3 and 3 in a type.
    fn code(number: i32, of: &str) -> u32 {
        match of {
            "f16" => F16::from_f32(number as f32).0.into(),
            "bf16" => (number as f32).to_bits() >> 16,
            "fp8" => Fp8::nearest(number as f32, false).0.into(),
            "bf8" => Bf8::nearest(number as f32, false).0.into(),
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
        let decoder = Decoder::new(Arch::Gfx942);
        let sparse: Vec<_> = super::super::TABLE.iter().filter(|op| op.flags.has(Flags::SPARSE)).collect();
        assert_eq!(sparse.len(), 14);
        // Every set of places, and the first one whatever ABID is; sums in vector and in accumulation registers.
        for (op, (cbsz, abid)) in sparse.iter().flat_map(|op| [(0, 0), (0, 1), (0, 3), (1, 1)].map(|set| (op, set))) {
            // v_smfmac_SUM_MxNxK_TYPE, or the types of both.
            let parts: Vec<&str> = op.name.split('_').collect();
            let (sum_type, types) = (parts[2], [parts[4], parts[parts.len() - 1]]);
            let sizes: Vec<usize> = parts[3].split('x').map(|n| n.parse().unwrap()).collect();
            let [m, n, k] = sizes[..] else { panic!("{}", op.name) };
            let bits = if types[0].ends_with("16") { 16 } else { 8 };
            let groups = LANES / m;
            // Of a lane: given elements, dense ones.
            let (given, dense) = (k / 2 / groups, k / groups);
            let mut w = Wave::new(Arch::Gfx942, 0, vgpr_file());
            w.accum_offset = 256;
            let mut fill = |first: usize, count: usize, of: &str, w: &mut Wave| {
                for l in 0..LANES {
                    for at in 0..count {
                        let bits_of = code(random(7) as i32 - 3, of) << (bits * (at % (32 / bits)));
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
                            element(&w.vgpr[8..10], l, at, types[0]);
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
                    let product = |c: usize| {
                        let at = c % dense;
                        matrix[row][c] * element(&before[12..16], l % n + n * (c / dense), at, types[1])
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
