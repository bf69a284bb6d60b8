//! Sparse matrix multiply-add of MI300: of four neighbours in a row of the first factor at most two are not zero, and only these are
//! in registers. Indices say where they are. The destination is the addend.
//!
//! Source: MI300 ISA manual, "Sparse Matrix Arithmetic"; the description of `amdgpu.sparse_mfma` of MLIR.

use super::product::{Bf8, Bf16, Element, Fp8, Sum};
use super::{Shape, vgprs};
use crate::arch::ArchSet;
use crate::fp::F16;
use crate::inst::Inst;
use crate::op::{Family, Flags, Flow, Levels, Op};
use crate::operand::Kind;
use crate::wave::{LANES, Wave};

/// Of a group of so many neighbours, [`PRESENT`] are in registers.
const GROUP: usize = 4;
const PRESENT: usize = 2;

macro_rules! smfmac {
    ($name:literal $code:literal $m:literal x $n:literal x $k:literal $a:ty, $b:ty) => {{
        const SHAPE: Shape = Shape { m: $m, n: $n, k: $k, blocks: 1, height: 4 };
        const DENSE: usize = SHAPE.per_lane();
        const RESULTS: usize = SHAPE.results();
        row(
            $name,
            $code,
            RESULTS as u8,
            levels!(w, i, _e, multiply::<$a, $b, { DENSE / GROUP * PRESENT }, DENSE, RESULTS>(w, i, SHAPE)),
        )
    }};
}

const fn row(name: &'static str, code: u16, results: u8, run: Levels) -> Op {
    Op::new(name, Family::Vop3p, code, ArchSet::ONLY_942, run)
        .operands(Kind::Dwords(results), [Kind::B64, Kind::Dwords(4), Kind::B32])
        .with(Flags::SPARSE)
}

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    smfmac!("v_smfmac_f32_16x16x32_f16"     0x62 16 x 16 x 32 F16, F16),
    smfmac!("v_smfmac_f32_32x32x16_f16"     0x64 32 x 32 x 16 F16, F16),
    smfmac!("v_smfmac_f32_16x16x32_bf16"    0x66 16 x 16 x 32 Bf16, Bf16),
    smfmac!("v_smfmac_f32_32x32x16_bf16"    0x68 32 x 32 x 16 Bf16, Bf16),
    smfmac!("v_smfmac_i32_16x16x64_i8"      0x6a 16 x 16 x 64 i8, i8),
    smfmac!("v_smfmac_i32_32x32x32_i8"      0x6c 32 x 32 x 32 i8, i8),
    smfmac!("v_smfmac_f32_16x16x64_bf8_bf8" 0x78 16 x 16 x 64 Bf8, Bf8),
    smfmac!("v_smfmac_f32_16x16x64_bf8_fp8" 0x79 16 x 16 x 64 Bf8, Fp8),
    smfmac!("v_smfmac_f32_16x16x64_fp8_bf8" 0x7a 16 x 16 x 64 Fp8, Bf8),
    smfmac!("v_smfmac_f32_16x16x64_fp8_fp8" 0x7b 16 x 16 x 64 Fp8, Fp8),
    smfmac!("v_smfmac_f32_32x32x32_bf8_bf8" 0x7c 32 x 32 x 32 Bf8, Bf8),
    smfmac!("v_smfmac_f32_32x32x32_bf8_fp8" 0x7d 32 x 32 x 32 Bf8, Fp8),
    smfmac!("v_smfmac_f32_32x32x32_fp8_bf8" 0x7e 32 x 32 x 32 Fp8, Bf8),
    smfmac!("v_smfmac_f32_32x32x32_fp8_fp8" 0x7f 32 x 32 x 32 Fp8, Fp8),
];

/// Multiplies `P` elements of each lane with those of `D` that the indices choose, and adds them to `R` results a lane.
#[inline(always)]
fn multiply<A: Element, B: Element<Value = A::Value>, const P: usize, const D: usize, const R: usize>(
    w: &mut Wave,
    i: &Inst,
    shape: Shape,
) -> Flow {
    let (a, b) = (A::factor::<P>(w, i, 0, false), B::factor::<D>(w, i, 1, false));
    // A register has several sets of indices of two bits for each element. ABID chooses one, or CBSZ the first.
    let sets = 16 / P;
    let set = if i.mods.abs == 0 { usize::from(i.mods.op_sel) % sets } else { 0 };
    let indices = vgprs(w, i, 2, 0).map(|word| word >> (2 * P * set));
    let addend = Inst { src: [i.dst; 3], ..i.clone() };
    for r in 0..R {
        // A result needs no other result, and nothing else that is written.
        let mut sums = A::Value::read(w, &addend, 2, r);
        for (l, sum) in sums.iter_mut().enumerate() {
            let (_, row, column) = shape.result(r, l);
            for part in 0..LANES / shape.m {
                let (a_lane, b_lane) = (row + shape.m * part, column + shape.n * part);
                for (p, element) in a.iter().enumerate() {
                    let index = indices[a_lane] >> (2 * p) & 3;
                    let at = p / PRESENT * GROUP + index as usize;
                    *sum = sum.plus(element[a_lane], b[at][b_lane]);
                }
            }
        }
        A::Value::write(w, i, r, &sums);
    }
    Flow::Next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decoder;
    use crate::arch::Arch;
    use crate::step::Nothing;
    use crate::wave::vgpr_file;

    /// A small integer as an element of a type; all types have those up to three.
    fn coded(name: &str, value: i32) -> u32 {
        let sign = if value < 0 { 1 } else { 0 };
        let magnitude = value.unsigned_abs() as usize;
        match name {
            "f16" => sign << 15 | [0, 0x3c00, 0x4000, 0x4200][magnitude],
            "bf16" => sign << 15 | [0, 0x3f80, 0x4000, 0x4040][magnitude],
            "i8" => value as u8 as u32,
            // There is no minus zero.
            _ if value == 0 => 0,
            "fp8" => sign << 7 | [0, 0x40, 0x48, 0x4c][magnitude],
            "bf8" => sign << 7 | [0, 0x40, 0x44, 0x46][magnitude],
            _ => panic!("{name}"),
        }
    }

    #[test]
    fn a_sparse_product_is_that_of_the_whole_matrix_with_its_zeros() {
        let mut state = 3u64;
        let mut random = move |below: u32| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as u32 % below
        };
        let decoder = Decoder::new(Arch::Gfx942);
        for op in TABLE {
            let parts: Vec<&str> = op.name.split('_').collect();
            let (a_type, b_type) = (parts[4], parts[parts.len() - 1]);
            let sizes: Vec<usize> = parts[3].split('x').map(|size| size.parse().unwrap()).collect();
            let (m, k) = (sizes[0], sizes[2]);
            let bits = if a_type.ends_with("16") { 16 } else { 8 };
            let dense = m * k / LANES;
            for (cbsz, abid) in [(0, 0), (0, 1), (0, 3), (1, 1)] {
                let set = if cbsz == 0 { abid % (bits / 4) } else { 0 };
                let mut w = Wave::new(Arch::Gfx942, 0, vgpr_file());
                w.accum_offset = 256;
                w.set_exec(0);
                // The first factor as a whole, and its elements in v[8:9] and their places in v2.
                let mut a = vec![vec![0; k]; m];
                w.vgpr[2] = std::array::from_fn(|_| random(u32::MAX));
                for (row, elements) in a.iter_mut().enumerate() {
                    for group in 0..k / 4 {
                        let first = random(3);
                        let places = [first, first + 1 + random(3 - first)];
                        for (n, place) in places.into_iter().enumerate() {
                            let value = random(7) as i32 - 3;
                            elements[4 * group + place as usize] = value;
                            let lane = row + m * (4 * group / dense);
                            let p = 2 * (group % (dense / 4)) + n;
                            let (word, shift) = (8 + p * bits / 32, p * bits % 32);
                            w.vgpr[word][lane] |= coded(a_type, value) << shift;
                            let shift = 2 * p + set * dense;
                            w.vgpr[2][lane] = w.vgpr[2][lane] & !(3 << shift) | place << shift;
                        }
                    }
                }
                // The second factor in v[12:15].
                let mut b = vec![vec![0; m]; k];
                for (k, elements) in b.iter_mut().enumerate() {
                    for (column, element) in elements.iter_mut().enumerate() {
                        *element = random(7) as i32 - 3;
                        let (lane, at) = (column + m * (k / dense), k % dense);
                        w.vgpr[12 + at * bits / 32][lane] |= coded(b_type, *element) << (at * bits % 32);
                    }
                }
                let float = parts[2] == "f32";
                for r in 0..m * m / LANES {
                    w.vgpr[32 + r] = [if float { 5f32.to_bits() } else { 5 }; LANES];
                }
                let first = 0b1_1010_0111 << 23 | u32::from(op.code) << 16 | (abid as u32) << 11 | cbsz << 8 | 32;
                let i = decoder.decode(&[first, (256 + 8) | (256 + 12) << 9 | (256 + 2) << 18]).expect(op.name);
                crate::step::execute(&mut w, &i, &mut Nothing);
                for row in 0..m {
                    for column in 0..m {
                        let expected = 5 + (0..k).map(|k| a[row][k] * b[k][column]).sum::<i32>();
                        // Rows of four are in a lane, the next four in the next lanes, and so on.
                        let (four, step) = (row / 4, LANES / m);
                        let found = w.vgpr[32 + row % 4 + 4 * (four / step)][column + m * (four % step)];
                        let found = if float { f32::from_bits(found) as i32 } else { found as i32 };
                        assert_eq!(found, expected, "{}, abid {abid}, row {row}, column {column}", op.name);
                    }
                }
            }
        }
    }
}
