//! Products of matrices, and where their elements are.

use super::*;
use crate::Decoder;
use crate::arch::{Arch, Generation};
use crate::decode::HostLevel;
use crate::fp::F16;
use crate::fp::small::{E4M3, E4M3Fnuz, E5M2, E5M2Fnuz, Format};
use crate::inst::Inst;
use crate::lanes::Lane;
use crate::op::{Flags, Op};
use crate::operand::Kind;
use crate::step::Nothing;
use crate::wave::{Vgpr, Wave, vgpr_file};

fn every_shape() -> Vec<Shape> {
    let shape = |m, n, k, blocks, height| Shape { m, n, k, blocks, height };
    vec![
        shape(32, 32, 1, 2, 4),
        shape(16, 16, 1, 4, 4),
        shape(4, 4, 1, 16, 4),
        shape(32, 32, 8, 1, 4),
        shape(16, 16, 16, 1, 4),
        shape(16, 16, 4, 1, 1),
        shape(4, 4, 4, 4, 1),
    ]
}

#[test]
fn every_result_has_exactly_one_place() {
    for shape in every_shape() {
        let mut seen = std::collections::HashSet::new();
        for r in 0..shape.results() {
            for l in 0..LANES {
                let (b, row, column) = shape.result(r, l);
                assert!(b < shape.blocks && row < shape.m && column < shape.n);
                assert!(seen.insert((b, row, column)));
            }
        }
        assert_eq!(seen.len(), shape.m * shape.n * shape.blocks);
    }
}

#[test]
fn every_factor_element_has_exactly_one_place() {
    for shape in every_shape() {
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
    let shape = Shape { m: 32, n: 32, k: 8, blocks: 1, height: 4 };
    // Row 8*(r/4) + 4*(lane/32) + r%4, column lane%32.
    assert_eq!(shape.result(5, 40), (0, 8 + 4 + 1, 8));
    assert_eq!(shape.factor(32, 0, 3, 6), (35, 2));
}

/// The type that a mnemonic names for a factor: a matrix instruction has one for both, or one for each.
fn type_of(name: &str, factor: usize) -> &str {
    let mut types = name.rsplit('_');
    let last = types.next().unwrap_or_default();
    let first = types.next().unwrap_or_default();
    let pair = first == "fp8" || first == "bf8";
    if factor == 0 && pair || last == "1k" { first } else { last }
}

/// Element `at` of a lane of a factor: halves, bfloats and shortened singles as singles, bytes as integers, all of them as doubles.
fn element(words: [u32; 4], at: usize, name: &str, flush: bool, ocp: bool) -> f64 {
    let half = || (words[at / 2] >> (16 * (at % 2))) as u16;
    let byte = || words[at / 4] >> (8 * (at % 4));
    if name.contains("bf16") {
        let value = f32::from_bits(u32::from(half()) << 16);
        (if flush { Lane::flush(value) } else { value }).into()
    } else if name.ends_with("f16") {
        (if flush { F16(half()).flush() } else { F16(half()) }).to_f32().into()
    } else if name.ends_with("xf32") {
        // What a number of eleven digits leaves of it.
        let value = f64::from(f32::from_bits(words[at]));
        let last_digit = 2f64.powi((words[at] >> 23 & 0xff).max(1) as i32 - 137);
        if value.is_finite() { value - value % last_digit } else { value }
    } else if name.ends_with("fp8") {
        if ocp { E4M3::to_f32(byte()) } else { E4M3Fnuz::to_f32(byte()) }.into()
    } else if name.ends_with("bf8") {
        if ocp { E5M2::to_f32(byte()) } else { E5M2Fnuz::to_f32(byte()) }.into()
    } else if name.ends_with("i8") {
        f64::from(byte() as u8 as i8)
    } else if name.ends_with("f64") {
        f64::from_bits(u64::from(words[0]) | u64::from(words[1]) << 32)
    } else {
        f32::from_bits(words[at]).into()
    }
}

/// The shape that a mnemonic names.
fn shape_of(op: &Op) -> Shape {
    let name = op.name;
    let bits = if name.contains("f16") {
        16
    } else if name.ends_with('8') {
        8
    } else if name.ends_with("f64") {
        64
    } else {
        32
    };
    let sizes = name.split('_').find(|part| part.contains('x')).expect("a shape");
    let sizes: Vec<usize> = sizes
        .split('x')
        .map(|size| size.chars().take_while(char::is_ascii_digit).collect::<String>().parse().expect("a size"))
        .collect();
    // What is behind the last size may be digits of the type: `4f16`, but never `16f16` as one number.
    let [m, n, k] = sizes[..] else { panic!("{name} has no shape") };
    let blocks = op.src[0].dwords() as usize * 32 / bits * LANES / (m * k);
    Shape { m, n, k, blocks, height: if bits == 64 { 1 } else { 4 } }
}

/// The result of an instruction, one element after the other.
fn by_elements(w: &Wave, i: &Inst, shape: Shape) -> Vec<Vgpr> {
    let name = i.op.name;
    let flush = w.arch == Arch::Gfx90a && name.contains("f16");
    let single = |x: f32| if flush { Lane::flush(x) } else { x };
    let wide = name.ends_with("f64");
    let (cbsz, abid, blgp) = (i.mods.abs, i.mods.op_sel, i.mods.neg);
    let word = |s: usize, n: usize, l: usize| match i.src[s].is_vector() {
        true => w.vector(i.src[s], n as u32)[l],
        false if wide => (w.scalar64(i.src[s], 0, Kind::F64) >> (32 * (n % 2))) as u32,
        false => w.scalar32(i.src[s], 0, Kind::F32),
    };
    let sign = |s: u8| if wide && blgp >> s & 1 == 1 { -1.0 } else { 1.0 };
    let mut registers = vec![[0; LANES]; i.op.dst.dwords() as usize];
    for r in 0..shape.results() {
        for l in 0..LANES {
            let (block, row, column) = shape.result(r, l);
            let group = (1 << cbsz).min(shape.blocks);
            let from = if group == 1 { block } else { block / group * group + usize::from(abid) % group };
            let factors = (0..shape.k).map(|k| {
                let (a_lane, a_at) = shape.factor(shape.m, from, row, k);
                let (b_lane, b_at) = shape.factor(shape.n, block, column, k);
                let b_lane = match blgp {
                    _ if wide => b_lane,
                    1 => b_lane % 32,
                    2 => b_lane % 32 + 32,
                    3 => (b_lane + 16) % LANES,
                    4..=7 => b_lane % 16 + 16 * usize::from(blgp - 4),
                    _ => b_lane,
                };
                let words = |s: usize, l| {
                    let dwords = i.op.src[s].dwords() as usize;
                    std::array::from_fn(|n| if n < dwords { word(s, n, l) } else { 0 })
                };
                let (x, y) = (words(0, a_lane), words(1, b_lane));
                let (a, b) = (type_of(name, 0), type_of(name, 1));
                let ocp = w.arch.has_ocp_fp8();
                (element(x, a_at, a, flush, ocp) * sign(0), element(y, b_at, b, flush, ocp) * sign(1))
            });
            if wide {
                let start = f64::from_bits(u64::from(word(2, 2 * r, l)) | u64::from(word(2, 2 * r + 1, l)) << 32);
                let sum = factors.fold(start * sign(2), |sum, (x, y)| x.mul_add(y, sum)).to_bits();
                (registers[2 * r][l], registers[2 * r + 1][l]) = (sum as u32, (sum >> 32) as u32);
            } else if name.ends_with("i8") {
                let products = factors.map(|(x, y)| x as i32 * y as i32);
                registers[r][l] = products.fold(word(2, r, l) as i32, i32::wrapping_add) as u32;
            } else {
                let start = single(f32::from_bits(word(2, r, l)));
                let sum = factors.fold(start, |sum, (x, y)| (x as f32).mul_add(y as f32, sum));
                registers[r][l] = single(sum).to_bits();
            }
        }
    }
    registers
}

#[test]
fn shortened_singles_are_cut_off_and_not_rounded() {
    let decoder = Decoder::with_level(Arch::Gfx942, HostLevel::Base);
    // v_mfma_f32_16x16x8_xf32 v[64:67], v[8:9], v[12:13], 0
    let i = decoder.decode(&[0b1_1010_0111 << 23 | 0x3e << 16 | 64, (256 + 8) | (256 + 12) << 9 | 128 << 18]).unwrap();
    let product = |factor: u32| {
        let mut w = Wave::new(Arch::Gfx942, 0, vgpr_file());
        w.accum_offset = 256;
        // One element of the first factor and as many ones as the second has.
        w.vgpr[8][0] = factor;
        (12..14).for_each(|r| w.vgpr[r] = [1f32.to_bits(); LANES]);
        crate::step::execute(&mut w, &i, &mut Nothing);
        w.vgpr[64][0]
    };
    assert_eq!(product(0x3f80_2000), 0x3f80_2000);
    assert_eq!(product(0x3f80_1fff), 0x3f80_0000);
    assert_eq!(product(0xbfff_ffff), 0xbfff_e000);
    assert_eq!(product(0x7f80_0000), 0x7f80_0000);
    assert!(f32::from_bits(product(0x7f80_0001)).is_nan());
}

/// Words in which a single, a half or a bfloat is zero, denormal, the least or the largest of its kind, infinite, or no number.
const SPECIAL: [u32; 14] = [
    0,
    0x8000_0000,
    1,
    0x807f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0xff80_0000,
    0x7f80_0001,
    0xffc0_1234,
    0x7ff0_0000,
    0x0001_83ff,
    0x0400_7bff,
    0x7c00_fc01,
    0x007f_8080,
];

#[test]
fn products_of_whole_matrices_are_those_of_their_elements_one_by_one() {
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 29) as u32
    };
    for arch in Arch::ALL {
        let decoders = HostLevel::ALL.map(|level| Decoder::with_level(arch, level));
        let dense = TABLE.iter().filter(|op| op.is_matrix() && !op.flags.has(Flags::SPARSE));
        for op in dense.filter(|op| op.archs.contains(arch)) {
            let shape = shape_of(op);
            for round in 0..12 {
                let mut w = Wave::new(arch, 0, vgpr_file());
                w.accum_offset = 256;
                // Numbers of moderate size, or any, or many that are treated in a way of their own.
                w.vgpr.iter_mut().flatten().for_each(|x| {
                    *x = match round / 4 {
                        0 => random() & 0xbfff_bfff | 0x3000_3000,
                        2 if random() % 2 == 0 => SPECIAL[random() as usize % SPECIAL.len()],
                        2 => random() & 0xbfff_bfff | 0x3000_3000,
                        _ => random(),
                    };
                });
                w.set_exec(random().into());
                // The sums may be elsewhere, in place, a constant, or overlap factors and results from either side.
                let (dst, addend) =
                    [(64, 256 + 96), (64, 256 + 64), (64, 242), (8, 256 + 16), (16, 256 + 8)][round % 5];
                let modifiers = if round % 2 == 0 { 0 } else { random() };
                let first = 0b1_1010_0111 << 23
                    | u32::from(op.code(Generation::Gfx9).unwrap()) << 16
                    | modifiers & 0x7f00
                    | dst;
                let second = (256 + 8) | (256 + 12) << 9 | addend << 18 | modifiers & 7 << 29;
                let Ok(i) = decoders[0].decode(&[first, second]) else {
                    assert_ne!(modifiers, 0, "{} of {arch}", op.name);
                    continue;
                };
                let expected = by_elements(&w, &i, shape);
                for decoder in &decoders {
                    let i = decoder.decode(&[first, second]).unwrap();
                    let mut got = Wave::new(arch, 0, vgpr_file());
                    got.accum_offset = 256;
                    got.vgpr.copy_from_slice(&w.vgpr[..]);
                    got.set_exec(w.exec());
                    crate::step::execute(&mut got, &i, &mut Nothing);
                    compare(
                        &got,
                        &i,
                        &expected,
                        &format!("{} of {arch}, {:?}, round {round}", op.name, decoder.level()),
                    );
                    // Nothing else is written.
                    for n in 0..expected.len() as u32 {
                        *got.vector_mut(i.dst, n) = *w.vector(i.dst, n);
                    }
                    assert!(got.vgpr == w.vgpr, "{} of {arch}, {:?}, round {round}", op.name, decoder.level());
                }
            }
        }
    }
}

/// Results are the same bits, or no number in both.
fn compare(w: &Wave, i: &Inst, expected: &[Vgpr], what: &str) {
    for (n, register) in expected.iter().enumerate() {
        for (l, (&got, &wanted)) in w.vector(i.dst, n as u32).iter().zip(register).enumerate() {
            let nan = if i.op.name.ends_with("f64") {
                let double = |low: u32, high: u32| f64::from_bits(u64::from(low) | u64::from(high) << 32).is_nan();
                double(w.vector(i.dst, n as u32 & !1)[l], w.vector(i.dst, n as u32 | 1)[l])
                    && double(expected[n & !1][l], expected[n | 1][l])
            } else {
                f32::from_bits(got).is_nan() && f32::from_bits(wanted).is_nan() && !i.op.name.ends_with("i8")
            };
            assert!(got == wanted || nan, "{what}: register {n}, lane {l} is {got:#x}, expected {wanted:#x}");
        }
    }
}
