//! Matrix fused multiply-add on the accumulation registers, and moves to and from them.
//!
//! A row names the shape: `m` by `n` results of `k` products each, in `blocks` independent blocks. Where an element
//! lives follows from the shape alone. Source: CDNA and CDNA2 ISA manuals, "Matrix Arithmetic Instructions", and AMD's
//! public matrix instruction calculator.

use super::kinds;
use crate::arch::ArchSet;
use crate::fp::F16;
use crate::inst::Inst;
use crate::lanes::{Lane, blend};
use crate::op::{Family, Flags, Flow, Levels, Op};
use crate::operand::Kind;
use crate::wave::{LANES, Vgpr, Wave};

/// What the elements of the factors are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Element {
    F32,
    /// Denormals are read as zero on MI200.
    F16,
    Bf16,
    I8,
}

impl Element {
    const fn bits(self) -> u32 {
        match self {
            Element::F32 => 32,
            Element::F16 | Element::Bf16 => 16,
            Element::I8 => 8,
        }
    }
}

/// The shape of a matrix instruction.
#[derive(Clone, Copy)]
struct Shape {
    m: usize,
    n: usize,
    k: usize,
    blocks: usize,
}

impl Shape {
    /// Elements of a factor that one lane holds.
    const fn per_lane(self) -> usize {
        self.m * self.k * self.blocks / LANES
    }

    /// Results that one lane holds.
    const fn results(self) -> usize {
        self.m * self.n * self.blocks / LANES
    }

    /// Where element `(index, k)` of block `b` of a factor with `size` rows is: lane, and position in the lane.
    const fn factor(self, size: usize, b: usize, index: usize, k: usize) -> (usize, usize) {
        let per_lane = self.per_lane();
        (index + size * (b + self.blocks * (k / per_lane)), k % per_lane)
    }

    /// Which element result `r` of lane `l` is: block, row, column; `height` results of one lane are rows in sequence.
    const fn result(self, height: usize, r: usize, l: usize) -> (usize, usize, usize) {
        let tile = self.n * self.m / height;
        let blocks_at_once = if tile >= LANES { 1 } else { LANES / tile };
        let groups = LANES / blocks_at_once / self.n;
        let steps = self.m / (height * groups);
        let block = blocks_at_once * (r / (steps * height)) + (l / self.n) % blocks_at_once;
        let row = r % height + height * ((l / self.n) / blocks_at_once + groups * ((r / height) % steps));
        (block, row, l % self.n)
    }
}

const fn row(name: &'static str, code: u16, archs: ArchSet, factor_dwords: u8, acc_dwords: u8, run: Levels) -> Op {
    let factor = if factor_dwords == 1 { Kind::B32 } else { Kind::B64 };
    let acc = Kind::Dwords(acc_dwords);
    Op::new(name, Family::Vop3p, code, archs, run).operands(acc, [factor, factor, acc])
}

macro_rules! mfma {
    ($name:literal $code:literal $archs:ident $m:literal x $n:literal x $k:literal * $blocks:literal $element:ident) => {{
        const SHAPE: Shape = Shape { m: $m, n: $n, k: $k, blocks: $blocks };
        row(
            $name,
            $code,
            ArchSet::$archs,
            (SHAPE.per_lane() as u32 * Element::$element.bits() / 32) as u8,
            SHAPE.results() as u8,
            levels!(w, i, _e, multiply(w, i, SHAPE, Element::$element)),
        )
    }};
}

macro_rules! dgemm {
    ($name:literal $code:literal $archs:ident $m:literal x $n:literal x $k:literal * $blocks:literal) => {{
        const SHAPE: Shape = Shape { m: $m, n: $n, k: $k, blocks: $blocks };
        row(
            $name,
            $code,
            ArchSet::$archs,
            2,
            2 * SHAPE.results() as u8,
            levels!(w, i, _e, multiply_doubles(w, i, SHAPE)),
        )
    }};
}

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    mfma!("v_mfma_f32_32x32x1f32"       0x40 FROM_908_TO_90A 32 x 32 x 1 * 2 F32),
    mfma!("v_mfma_f32_32x32x1_2b_f32"   0x40 ONLY_942        32 x 32 x 1 * 2 F32),
    mfma!("v_mfma_f32_16x16x1f32"       0x41 FROM_908_TO_90A 16 x 16 x 1 * 4 F32),
    mfma!("v_mfma_f32_16x16x1_4b_f32"   0x41 ONLY_942        16 x 16 x 1 * 4 F32),
    mfma!("v_mfma_f32_4x4x1f32"         0x42 FROM_908_TO_90A 4 x 4 x 1 * 16 F32),
    mfma!("v_mfma_f32_4x4x1_16b_f32"    0x42 ONLY_942        4 x 4 x 1 * 16 F32),
    mfma!("v_mfma_f32_32x32x2f32"       0x44 FROM_908_TO_90A 32 x 32 x 2 * 1 F32),
    mfma!("v_mfma_f32_32x32x2_f32"      0x44 ONLY_942        32 x 32 x 2 * 1 F32),
    mfma!("v_mfma_f32_16x16x4f32"       0x45 FROM_908_TO_90A 16 x 16 x 4 * 1 F32),
    mfma!("v_mfma_f32_16x16x4_f32"      0x45 ONLY_942        16 x 16 x 4 * 1 F32),
    mfma!("v_mfma_f32_32x32x4f16"       0x48 FROM_908_TO_90A 32 x 32 x 4 * 2 F16),
    mfma!("v_mfma_f32_32x32x4_2b_f16"   0x48 ONLY_942        32 x 32 x 4 * 2 F16),
    mfma!("v_mfma_f32_16x16x4f16"       0x49 FROM_908_TO_90A 16 x 16 x 4 * 4 F16),
    mfma!("v_mfma_f32_16x16x4_4b_f16"   0x49 ONLY_942        16 x 16 x 4 * 4 F16),
    mfma!("v_mfma_f32_4x4x4f16"         0x4a FROM_908_TO_90A 4 x 4 x 4 * 16 F16),
    mfma!("v_mfma_f32_4x4x4_16b_f16"    0x4a ONLY_942        4 x 4 x 4 * 16 F16),
    mfma!("v_mfma_f32_32x32x8f16"       0x4c FROM_908_TO_90A 32 x 32 x 8 * 1 F16),
    mfma!("v_mfma_f32_32x32x8_f16"      0x4c ONLY_942        32 x 32 x 8 * 1 F16),
    mfma!("v_mfma_f32_16x16x16f16"      0x4d FROM_908_TO_90A 16 x 16 x 16 * 1 F16),
    mfma!("v_mfma_f32_16x16x16_f16"     0x4d ONLY_942        16 x 16 x 16 * 1 F16),
    mfma!("v_mfma_i32_32x32x4i8"        0x50 FROM_908_TO_90A 32 x 32 x 4 * 2 I8),
    mfma!("v_mfma_i32_32x32x4_2b_i8"    0x50 ONLY_942        32 x 32 x 4 * 2 I8),
    mfma!("v_mfma_i32_16x16x4i8"        0x51 FROM_908_TO_90A 16 x 16 x 4 * 4 I8),
    mfma!("v_mfma_i32_16x16x4_4b_i8"    0x51 ONLY_942        16 x 16 x 4 * 4 I8),
    mfma!("v_mfma_i32_4x4x4i8"          0x52 FROM_908_TO_90A 4 x 4 x 4 * 16 I8),
    mfma!("v_mfma_i32_4x4x4_16b_i8"     0x52 ONLY_942        4 x 4 x 4 * 16 I8),
    mfma!("v_mfma_i32_32x32x8i8"        0x54 FROM_908_TO_90A 32 x 32 x 8 * 1 I8),
    mfma!("v_mfma_i32_16x16x16i8"       0x55 FROM_908_TO_90A 16 x 16 x 16 * 1 I8),
    mfma!("v_mfma_i32_32x32x16_i8"      0x56 ONLY_942        32 x 32 x 16 * 1 I8),
    mfma!("v_mfma_i32_16x16x32_i8"      0x57 ONLY_942        16 x 16 x 32 * 1 I8),
    Op::new("v_accvgpr_read_b32", Family::Vop3p, 0x58, ArchSet::SINCE_908, one_level!(w, i, _e, accvgpr_move(w, i)))
        .operands(Kind::B32, kinds(&[Kind::B32])).with(Flags::NO_MODS),
    Op::new("v_accvgpr_write_b32", Family::Vop3p, 0x59, ArchSet::SINCE_908, one_level!(w, i, _e, accvgpr_move(w, i)))
        .operands(Kind::B32, kinds(&[Kind::B32])).with(Flags::NO_MODS),
    mfma!("v_mfma_f32_32x32x4_2b_bf16"  0x5d ONLY_942        32 x 32 x 4 * 2 Bf16),
    mfma!("v_mfma_f32_16x16x4_4b_bf16"  0x5e ONLY_942        16 x 16 x 4 * 4 Bf16),
    mfma!("v_mfma_f32_4x4x4_16b_bf16"   0x5f ONLY_942        4 x 4 x 4 * 16 Bf16),
    mfma!("v_mfma_f32_32x32x8_bf16"     0x60 ONLY_942        32 x 32 x 8 * 1 Bf16),
    mfma!("v_mfma_f32_16x16x16_bf16"    0x61 ONLY_942        16 x 16 x 16 * 1 Bf16),
    mfma!("v_mfma_f32_32x32x4bf16_1k"   0x63 ONLY_90A        32 x 32 x 4 * 2 Bf16),
    mfma!("v_mfma_f32_16x16x4bf16_1k"   0x64 ONLY_90A        16 x 16 x 4 * 4 Bf16),
    mfma!("v_mfma_f32_4x4x4bf16_1k"     0x65 ONLY_90A        4 x 4 x 4 * 16 Bf16),
    mfma!("v_mfma_f32_32x32x8bf16_1k"   0x66 ONLY_90A        32 x 32 x 8 * 1 Bf16),
    mfma!("v_mfma_f32_16x16x16bf16_1k"  0x67 ONLY_90A        16 x 16 x 16 * 1 Bf16),
    mfma!("v_mfma_f32_32x32x2bf16"      0x68 FROM_908_TO_90A 32 x 32 x 2 * 2 Bf16),
    mfma!("v_mfma_f32_16x16x2bf16"      0x69 FROM_908_TO_90A 16 x 16 x 2 * 4 Bf16),
    mfma!("v_mfma_f32_4x4x2bf16"        0x6b FROM_908_TO_90A 4 x 4 x 2 * 16 Bf16),
    mfma!("v_mfma_f32_32x32x4bf16"      0x6c FROM_908_TO_90A 32 x 32 x 4 * 1 Bf16),
    mfma!("v_mfma_f32_16x16x8bf16"      0x6d FROM_908_TO_90A 16 x 16 x 8 * 1 Bf16),
    dgemm!("v_mfma_f64_16x16x4f64"      0x6e ONLY_90A        16 x 16 x 4 * 1),
    dgemm!("v_mfma_f64_16x16x4_f64"     0x6e ONLY_942        16 x 16 x 4 * 1),
    dgemm!("v_mfma_f64_4x4x4f64"        0x6f ONLY_90A        4 x 4 x 4 * 4),
    dgemm!("v_mfma_f64_4x4x4_4b_f64"    0x6f ONLY_942        4 x 4 x 4 * 4),
];

/// True for matrix instructions, whose modifier fields are CBSZ, ABID and BLGP.
pub(crate) fn is_matrix(op: &Op) -> bool {
    op.family == Family::Vop3p && op.code >= 0x3e && !op.flags.has(Flags::NO_MODS)
}

fn accvgpr_move(w: &mut Wave, i: &Inst) -> Flow {
    let value = vgprs(w, i, 0, 0);
    let exec = w.exec();
    blend(w.vector_mut(i.dst, 0), &value, exec);
    Flow::Next
}

/// Word `n` of source `s`, which may be a constant.
fn vgprs(w: &Wave, i: &Inst, s: usize, n: u32) -> Vgpr {
    if i.src[s].is_vector() { *w.vector(i.src[s], n) } else { [w.scalar32(i.src[s], i.literal, Kind::F32); LANES] }
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

/// Element `position` of lane `l` of a factor.
fn element(words: &[Vgpr; 2], l: usize, position: usize, element: Element, flush: bool) -> f32 {
    match element {
        Element::F32 => f32::from_bits(words[position][l]),
        Element::F16 => {
            let half = F16((words[position / 2][l] >> (16 * (position % 2))) as u16);
            if flush { half.flush().to_f32() } else { half.to_f32() }
        }
        Element::Bf16 => {
            let value = f32::from_bits((words[position / 2][l] >> (16 * (position % 2))) << 16);
            if flush { Lane::flush(value) } else { value }
        }
        Element::I8 => f32::from(0u8),
    }
}

#[inline(always)]
fn multiply(w: &mut Wave, i: &Inst, shape: Shape, kind: Element) -> Flow {
    let dwords = i.op.src[0].dwords();
    let words = [0, 1].map(|s: usize| [vgprs(w, i, s, 0), if dwords == 2 { vgprs(w, i, s, 1) } else { [0; LANES] }]);
    let results = shape.results();
    let acc: Vec<Vgpr> = (0..results as u32).map(|n| vgprs(w, i, 2, n)).collect();
    let blgp = i.mods.neg;
    for r in 0..results {
        let row: Vgpr = std::array::from_fn(|l| {
            let (b, m, n) = shape.result(4, r, l);
            let a_block = broadcast_block(i, b, shape.blocks);
            let mut places = (0..shape.k).map(|k| {
                let (a_lane, a_at) = shape.factor(shape.m, a_block, m, k);
                let (b_lane, b_at) = shape.factor(shape.n, b, n, k);
                ((a_lane, a_at), (permuted_lane(blgp, b_lane), b_at))
            });
            if kind == Element::I8 {
                let byte = |words: &[Vgpr; 2], (lane, at): (usize, usize)| {
                    i32::from((words[at / 4][lane] >> (8 * (at % 4))) as u8 as i8)
                };
                return places
                    .fold(acc[r][l] as i32, |sum, (a, b)| sum.wrapping_add(byte(&words[0], a) * byte(&words[1], b)))
                    as u32;
            }
            let flush = w.arch == crate::arch::Arch::Gfx90a && !i.op.name.ends_with("_1k");
            let start = f32::from_bits(acc[r][l]);
            let sum = places.try_fold(start, |sum, (a, b)| {
                let (x, y) = (element(&words[0], a.0, a.1, kind, flush), element(&words[1], b.0, b.1, kind, flush));
                Some(x.mul_add(y, sum))
            });
            sum.unwrap_or(start).to_bits()
        });
        // Matrix instructions ignore EXEC.
        *w.vector_mut(i.dst, r as u32) = row;
    }
    Flow::Next
}

#[inline(always)]
fn multiply_doubles(w: &mut Wave, i: &Inst, shape: Shape) -> Flow {
    let double = |w: &Wave, s: usize, n: u32| -> [f64; LANES] {
        if i.src[s].is_vector() {
            let (low, high) = (w.vector(i.src[s], 2 * n), w.vector(i.src[s], 2 * n + 1));
            std::array::from_fn(|l| f64::from_bits(u64::from(low[l]) | u64::from(high[l]) << 32))
        } else {
            [f64::from_bits(w.scalar64(i.src[s], i.literal, Kind::F64)); LANES]
        }
    };
    let negate = |values: [f64; LANES], s: u8| if i.mods.neg >> s & 1 == 1 { values.map(|v| -v) } else { values };
    let (a, b) = (negate(double(w, 0, 0), 0), negate(double(w, 1, 0), 1));
    let results: Vec<[f64; LANES]> = (0..shape.results())
        .map(|r| {
            let acc = negate(double(w, 2, r as u32), 2);
            std::array::from_fn(|l| {
                let (block, m, n) = shape.result(1, r, l);
                (0..shape.k).fold(acc[l], |sum, k| {
                    let (a_lane, _) = shape.factor(shape.m, broadcast_block(i, block, shape.blocks), m, k);
                    let (b_lane, _) = shape.factor(shape.n, block, n, k);
                    a[a_lane].mul_add(b[b_lane], sum)
                })
            })
        })
        .collect();
    for (r, values) in results.iter().enumerate() {
        *w.vector_mut(i.dst, 2 * r as u32) = values.map(|v| v.to_bits() as u32);
        *w.vector_mut(i.dst, 2 * r as u32 + 1) = values.map(|v| (v.to_bits() >> 32) as u32);
    }
    Flow::Next
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_shape() -> Vec<(Shape, usize)> {
        let shape = |m, n, k, blocks| Shape { m, n, k, blocks };
        vec![
            (shape(32, 32, 1, 2), 4),
            (shape(16, 16, 1, 4), 4),
            (shape(4, 4, 1, 16), 4),
            (shape(32, 32, 8, 1), 4),
            (shape(16, 16, 16, 1), 4),
            (shape(16, 16, 4, 1), 1),
            (shape(4, 4, 4, 4), 1),
        ]
    }

    #[test]
    fn every_result_has_exactly_one_place() {
        for (shape, height) in every_shape() {
            let mut seen = std::collections::HashSet::new();
            for r in 0..shape.results() {
                for l in 0..LANES {
                    let (b, row, column) = shape.result(height, r, l);
                    assert!(b < shape.blocks && row < shape.m && column < shape.n);
                    assert!(seen.insert((b, row, column)));
                }
            }
            assert_eq!(seen.len(), shape.m * shape.n * shape.blocks);
        }
    }

    #[test]
    fn every_factor_element_has_exactly_one_place() {
        for (shape, _) in every_shape() {
            let mut seen = std::collections::HashSet::new();
            for b in 0..shape.blocks {
                for index in 0..shape.m {
                    for k in 0..shape.k {
                        let (lane, at) = shape.factor(shape.m, b, index, k);
                        assert!(lane < LANES && at < shape.per_lane());
                        assert!(seen.insert((lane, at)));
                    }
                }
            }
        }
    }

    #[test]
    fn the_widest_shape_is_laid_out_as_published() {
        let shape = Shape { m: 32, n: 32, k: 8, blocks: 1 };
        // Row 8*(r/4) + 4*(lane/32) + r%4, column lane%32.
        assert_eq!(shape.result(4, 5, 40), (0, 8 + 4 + 1, 8));
        assert_eq!(shape.factor(32, 0, 3, 6), (35, 2));
    }
}
