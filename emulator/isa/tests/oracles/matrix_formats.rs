//! Products of matrices of floats of eight, six and four bits, with scales and without. LLVM assembles; results are computed here from
//! exact integers. Where an element is in its registers is written down here as AMD's Composable Kernel library loads it.

use amdgpu_isa::coverage::is_absent;
use amdgpu_isa::wave::LANES;
use amdgpu_isa::{Arch, Decoder};
use num_bigint::BigInt;

use crate::llvm_mc::{assemble, bytes, disassemble, ours};
use crate::machine::Machine;
use crate::random_words::{is_beyond_the_tables, llvm_lacks, operation};
use crate::scaled::{FORMATS, Format};
use crate::seeded::{Seeded, crashes_llvm, scaled_product};

const ARCH: Arch = Arch::Gfx950;
/// Elements that share a scale.
const BLOCK: usize = 32;
/// The first registers of the sums, of both factors and of both scales.
const SUMS: u32 = 0;
const FACTORS: [u32; 2] = [16, 24];
const SCALES: [u32; 2] = [40, 41];

/// Rows of the first factor and columns of the second, and how many products a result has.
#[derive(Clone, Copy)]
struct Shape(usize, usize);

const SHAPES: [Shape; 2] = [Shape(16, 128), Shape(32, 64)];

impl Shape {
    /// Lanes that share a row of a factor.
    fn groups(self) -> usize {
        LANES / self.0
    }

    /// The lane and the place in it of an element of a row or column.
    fn element(self, format: &Format, index: usize, k: usize) -> (usize, usize) {
        let (group, at) = match format.bits() {
            // Each group has sixteen in turn.
            8 => (k / 16 % self.groups(), k / (16 * self.groups()) * 16 + k % 16),
            _ => (k / 32, k % 32),
        };
        (group * self.0 + index, at)
    }

    /// The row of register `r` of a lane.
    fn row(self, r: usize, lane: usize) -> usize {
        if self.0 == 16 { 4 * (lane / 16) + r } else { r / 4 * 8 + 4 * (lane / 32) + r % 4 }
    }

    fn results(self) -> usize {
        self.0 * self.0 / LANES
    }
}

/// Codes of a factor by row or column and `k`, and its scales by row or column and block.
struct Factor<'f> {
    format: &'f Format,
    codes: Vec<Vec<u32>>,
    scales: Vec<Vec<u32>>,
}

impl<'f> Factor<'f> {
    /// With numbers that are infinite or none, and with scales of every size, if `any`.
    fn new(random: &mut Seeded, shape: Shape, format: &'f Format, any: bool) -> Factor<'f> {
        let mut code = |rare: usize| loop {
            let code = random.word() & ((1 << format.bits()) - 1);
            if format.value(code).is_finite() || any && rare == 0 {
                return code;
            }
        };
        let codes = (0..shape.0).map(|row| (0..shape.1).map(|_| code(row % 5)).collect()).collect();
        let mut scale = || match random.below(16) {
            0 if any => 0xff,
            1 | 2 if any => random.word() & 0xff,
            _ => 117 + random.below(20) as u32,
        };
        let scales = (0..shape.0).map(|_| (0..shape.1 / BLOCK).map(|_| scale()).collect()).collect();
        Factor { format, codes, scales }
    }

    /// Writes the codes into a lane's registers, and the scales into a byte of one.
    fn load(&self, m: &mut Machine, shape: Shape, factor: usize, byte: u32) {
        for (index, codes) in self.codes.iter().enumerate() {
            for (k, code) in codes.iter().enumerate() {
                let (lane, at) = shape.element(self.format, index, k);
                for bit in 0..self.format.bits() {
                    let place = at as u32 * self.format.bits() + bit;
                    let word = &mut m.v(FACTORS[factor] + place / 32)[lane];
                    *word = *word & !(1 << (place % 32)) | (code >> bit & 1) << (place % 32);
                }
            }
            for (block, scale) in self.scales[index].iter().enumerate() {
                let word = &mut m.v(SCALES[factor])[block * shape.0 + index];
                *word = *word & !(0xff << (8 * byte)) | scale << (8 * byte);
            }
        }
    }
}

/// The single that is nearest to `value * 2^exponent`, of two the even one.
fn single(value: &BigInt, exponent: i32) -> f32 {
    let magnitude = value.magnitude();
    let last = (exponent + magnitude.bits() as i32 - 24).max(-149);
    let lost = (last - exponent).max(0) as u32;
    let mut kept = magnitude >> lost;
    let rest = (magnitude - (&kept << lost)) << 1u32;
    let half = num_bigint::BigUint::from(1u32) << lost;
    if rest > half || rest == half && lost > 0 && kept.bit(0) {
        kept += 1u32;
    }
    let digits: u64 = (&kept << (exponent - last).max(0) as u32).try_into().expect("24 bits");
    let positive = (digits as f64 * 2f64.powi(last)) as f32;
    if value.sign() == num_bigint::Sign::Minus { -positive } else { positive }
}

/// A finite single as an integer times a power of two.
fn parts(x: f32) -> (BigInt, i32) {
    let (field, digits) = (x.to_bits() >> 23 & 0xff, x.to_bits() & 0x7f_ffff);
    let digits = BigInt::from(if field == 0 { digits } else { digits | 1 << 23 });
    (if x.is_sign_negative() { -digits } else { digits }, field.max(1) as i32 - 150)
}

/// A sum, and the products of a block with their scales.
fn with_block(sum: f32, products: &[(f64, f64)], scales: [u32; 2]) -> f32 {
    let special: f64 = products.iter().map(|(a, b)| a * b).filter(|x| !x.is_finite()).sum();
    if scales.contains(&0xff) || special.is_nan() || !sum.is_finite() || special.is_infinite() {
        let scale = if scales.contains(&0xff) { f32::NAN } else { 0.0 };
        return sum + special as f32 + scale;
    }
    // Every number is a multiple of 2^-16.
    let whole = |x: f64| (x * 65536.0) as i128;
    let total: i128 = products.iter().map(|(a, b)| whole(*a) * whole(*b)).sum();
    let exponent = scales[0] as i32 + scales[1] as i32 - 254 - 32;
    let (digits, sum_exponent) = parts(sum);
    let least = exponent.min(sum_exponent);
    let all = (BigInt::from(total) << (exponent - least) as u32) + (digits << (sum_exponent - least) as u32);
    single(&all, least)
}

fn text(shape: Shape, formats: [usize; 2], bytes: Option<[u32; 2]>, sums: &str) -> String {
    let registers =
        |factor: usize| format!("v[{}:{}]", FACTORS[factor], FACTORS[factor] + FORMATS[formats[factor]].bits() - 1);
    let results = format!("v[{SUMS}:{}]", SUMS as usize + shape.results() - 1);
    let (scaled, scales, selects) = match bytes {
        Some([a, b]) => {
            let selects = format!(" op_sel:[{},{},0] op_sel_hi:[{},{},0]", a & 1, b & 1, a >> 1, b >> 1);
            ("_scale", format!(", v{}, v{}", SCALES[0], SCALES[1]), selects)
        }
        None => ("", String::new(), String::new()),
    };
    format!(
        "v_mfma{scaled}_f32_{0}x{0}x{1}_f8f6f4 {results}, {2}, {3}, {4}{scales}{selects} cbsz:{5} blgp:{6}",
        shape.0,
        shape.1,
        registers(0),
        registers(1),
        if sums.is_empty() { &results } else { sums },
        formats[0],
        formats[1]
    )
}

#[test]
fn products_in_every_pair_of_formats_are_exact_sums_of_blocks_times_their_scales_rounded_once_for_each() {
    let mut random = Seeded(11);
    let pairs = (0..FORMATS.len()).flat_map(|a| (0..FORMATS.len()).map(move |b| [a, b]));
    let all = SHAPES.into_iter().flat_map(|shape| pairs.clone().map(move |pair| (shape, pair)));
    for (number, (shape, formats)) in all.enumerate() {
        for (scaled, any) in [(true, false), (true, true), (false, true)] {
            let bytes = scaled.then_some([number as u32 % 4, number as u32 / 4 % 4]);
            let sums = if number % 3 == 2 { "0.5" } else { "" };
            let program = text(shape, formats, bytes, sums);
            let mut m = Machine::new(ARCH, &program);
            m.wave.vgpr.iter_mut().flatten().for_each(|word| *word = random.word());
            m.wave.set_exec(random.next());
            let factors = formats.map(|format| Factor::new(&mut random, shape, &FORMATS[format], any));
            for (n, factor) in factors.iter().enumerate() {
                factor.load(&mut m, shape, n, bytes.map_or(0, |bytes| bytes[n]));
            }
            let before: Vec<[u32; LANES]> = (0..shape.results() as u32)
                .map(|r| {
                    let mut start = |l: usize| match l % 7 {
                        0 if any => f32::from_bits(random.word()),
                        1 => -0.0,
                        2 => 1e-40,
                        _ => random.below(2000) as f32 - 1000.5,
                    };
                    *m.v(SUMS + r) = std::array::from_fn(|l| start(l).to_bits());
                    if sums.is_empty() { *m.v(SUMS + r) } else { [0.5f32.to_bits(); LANES] }
                })
                .collect();
            m.run();
            for (r, before) in before.iter().enumerate() {
                for (lane, before) in before.iter().enumerate() {
                    let (row, column) = (shape.row(r, lane), lane % shape.0);
                    let expected = (0..shape.1 / BLOCK).fold(f32::from_bits(*before), |sum, block| {
                        let value =
                            |n: usize, index: usize, k: usize| factors[n].format.value(factors[n].codes[index][k]);
                        let ks = BLOCK * block..BLOCK * (block + 1);
                        let products: Vec<_> = ks.map(|k| (value(0, row, k), value(1, column, k))).collect();
                        let scale = |n: usize, index: usize| if scaled { factors[n].scales[index][block] } else { 127 };
                        with_block(sum, &products, [scale(0, row), scale(1, column)])
                    });
                    let got = f32::from_bits(m.v(SUMS + r as u32)[lane]);
                    let same = got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
                    assert!(same, "{program}: row {row}, column {column} is {got:e}, not {expected:e}");
                }
            }
        }
    }
}

#[test]
fn an_element_alone_is_multiplied_with_the_one_of_its_own_depth_and_both_of_their_scales() {
    // Ones at one place of each factor, in formats whose lanes are unlike each other: the scales say which block it was.
    for shape in SHAPES {
        let program = text(shape, [0, 4], Some([0, 3]), "0");
        let mut m = Machine::new(ARCH, &program);
        const FP8: &Format = &FORMATS[0];
        const FP4: &Format = &FORMATS[4];
        for k in 0..shape.1 {
            let one = |format: &'static Format, index: usize| Factor {
                format,
                codes: (0..shape.0)
                    .map(|n| {
                        let code = (0..1 << (format.bits() - 1)).find(|code| format.value(*code) == 1.0).expect("one");
                        (0..shape.1).map(|other| if (n, other) == (index, k) { code } else { 0 }).collect()
                    })
                    .collect(),
                scales: (0..shape.0)
                    .map(|n| (0..shape.1 / BLOCK).map(|b| (100 + n + 3 * b) as u32).collect())
                    .collect(),
            };
            let (row, column) = (k % shape.0, (k * 7 + 3) % shape.0);
            one(FP8, row).load(&mut m, shape, 0, 0);
            one(FP4, column).load(&mut m, shape, 1, 3);
            m.run();
            for r in 0..shape.results() {
                for lane in 0..LANES {
                    let is_it = (shape.row(r, lane), lane % shape.0) == (row, column);
                    let exponent = (row + column + 6 * (k / BLOCK)) as i32 - 54;
                    let expected = if is_it { 2f32.powi(exponent) } else { 0.0 };
                    assert_eq!(f32::from_bits(m.v(SUMS + r as u32)[lane]), expected, "{program}: {k}");
                }
            }
        }
    }
}

#[test]
fn scaled_products_are_read_where_llvm_reads_them_and_as_it_prints_them() {
    let decoder = Decoder::new(ARCH);
    let mut random = Seeded(12);
    let words: Vec<Vec<u32>> = (0..6000)
        .map(|n| {
            let words = scaled_product(&mut random);
            // Without the scales, or with a product that does not use them.
            match n % 8 {
                0 => vec![words[2] & !(15 << 11), words[3]],
                1 => vec![words[0], words[1], words[2] ^ 0x800 << (n / 8 % 4), words[3]],
                _ => words.to_vec(),
            }
        })
        .filter(|words: &Vec<u32>| !words.windows(2).any(|pair| crashes_llvm([pair[0], pair[1]])))
        .collect();
    let theirs = disassemble(ARCH, &words);
    let (mut read, mut wrong, mut others) = (0, Vec::new(), Vec::new());
    for (words, theirs) in words.iter().zip(theirs) {
        match (ours(&decoder, words), theirs) {
            (Some((own, text)), Some(theirs)) if own == *words && text == theirs => read += 1,
            (Some((own, text)), _) if own == *words && llvm_lacks(&text) => others.push((words, text, true)),
            (None, None) => {}
            (None, Some(text)) if is_beyond_the_tables(&text) || is_absent(operation(&text), ARCH) => {}
            (None, Some(text)) => others.push((words, text, false)),
            (ours, theirs) => wrong.push(format!("{words:08x?}: {ours:?}, LLVM reads {theirs:?}")),
        }
    }
    // What one of both does not read: the assembler makes the same words of what only we read, and others of what only LLVM reads.
    let texts: Vec<String> = others.iter().map(|(_, text, _)| text.clone()).collect();
    for ((words, text, is_ours), encoding) in others.into_iter().zip(assemble(ARCH, &texts)) {
        let mut plain = words.clone();
        plain[0] &= if words.len() == 4 { !0x4000 } else { !0 };
        if is_ours != (encoding == Some(bytes(&plain))) {
            wrong.push(format!("{words:08x?}: {text}, LLVM makes {encoding:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong: {}", wrong.len(), wrong[0]);
    assert!(read > 2000, "only {read} were instructions");
}

#[test]
fn formats_without_meaning_and_scales_that_no_product_uses_are_refused_by_name() {
    let decoder = Decoder::new(ARCH);
    let refused = |words: &[u32]| decoder.decode(words).err().map(|error| error.to_string());
    // The words are llvm-mc's, but for the formats.
    let (load, product) = ([0xd3ac_0000, 0x0002_2b14], [0xd3ad_8800, 0x0402_1100]);
    let scaled = |cbsz: u32, blgp: u32| [load[0], load[1], product[0] | cbsz << 8, product[1] | blgp << 29];
    for format in 5..8 {
        let expected = Some("v_mfma_scale_f32_16x16x128_f8f6f4 has no such form".to_owned());
        assert_eq!([refused(&scaled(format, 0)), refused(&scaled(0, format))], [expected.clone(), expected]);
    }
    assert_eq!(refused(&scaled(4, 4)), None);
    let alone = Some("v_mfma_ld_scale_b32 is not emulated".to_owned());
    // The end of the code, something else, and a product that uses no scales.
    for behind in [&[][..], &[0xbf80_0000, 0xbf81_0000], &[product[0] & !0x800, product[1]]] {
        assert_eq!(refused(&[&load[..], behind].concat()), alone);
    }
}
