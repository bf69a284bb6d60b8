//! Conversions of MI350 with a scale, in both directions. LLVM assembles; values of codes, and the nearest code of a value, are searched here
//! among all the numbers of a format.

use amdgpu_isa::Arch;
use amdgpu_isa::mode::Mode;
use amdgpu_isa::wave::LANES;

use crate::cdna4::nearest;
use crate::machine::{COMPUTE, Machine};
use crate::seeded::Seeded;

const ARCH: Arch = Arch::Gfx950;
/// Overflowing results of conversions are the largest number.
const SATURATING: Mode = Mode(COMPUTE.0 | Mode::FP16_OVFL);
/// A scale that is one.
const ONE: u32 = 127;

/// A format of a few bits: fields of exponent and mantissa, and the number of positive codes that are finite.
pub(crate) struct Format {
    pub(crate) name: &'static str,
    exponent: u32,
    mantissa: u32,
    finite: u32,
}

pub(crate) const FORMATS: [Format; 5] = [
    Format { name: "fp8", exponent: 4, mantissa: 3, finite: 0x7f },
    Format { name: "bf8", exponent: 5, mantissa: 2, finite: 0x7c },
    Format { name: "fp6", exponent: 2, mantissa: 3, finite: 0x20 },
    Format { name: "bf6", exponent: 3, mantissa: 2, finite: 0x20 },
    Format { name: "fp4", exponent: 2, mantissa: 1, finite: 0x08 },
];

impl Format {
    pub(crate) fn bits(&self) -> u32 {
        1 + self.exponent + self.mantissa
    }

    /// What positive codes would be if all were numbers.
    fn number(&self, code: u32) -> f64 {
        let field = code >> self.mantissa;
        let digits = f64::from(code & ((1 << self.mantissa) - 1)) / f64::from(1 << self.mantissa);
        let bias = (1 << (self.exponent - 1)) - 1;
        (digits + if field == 0 { 0.0 } else { 1.0 }) * 2f64.powi(field.max(1) as i32 - bias)
    }

    pub(crate) fn value(&self, code: u32) -> f64 {
        let sign = 1 << (self.bits() - 1);
        let positive = code & (sign - 1);
        let value = match positive {
            // BF8 alone has an infinity.
            0x7c if self.exponent == 5 => f64::INFINITY,
            _ if positive >= self.finite => f64::NAN,
            _ => self.number(positive),
        };
        if code & sign == 0 { value } else { -value }
    }

    /// The codes that a conversion of `x` may give, to the nearest number.
    fn nearest(&self, x: f64, saturates: bool) -> Vec<u32> {
        let sign = if x.is_sign_negative() { 1 << (self.bits() - 1) } else { 0 };
        let (largest, x) = (self.finite - 1, x.abs());
        let (only, too_large) = match self.bits() {
            8 => ((self.finite..0x80).filter(|code| self.value(*code).is_nan()).collect(), self.finite),
            _ => (vec![largest], largest),
        };
        if x.is_nan() {
            return only.into_iter().flat_map(|code| [code, code | 1 << (self.bits() - 1)]).collect();
        }
        // One that is no number takes part: beyond half of the way to it, results are too large.
        let distance = |code: u32| (self.number(code) - x).abs();
        let best = (0..=self.finite).min_by(|a, b| distance(*a).total_cmp(&distance(*b)).then((a & 1).cmp(&(b & 1))));
        let best = if x > self.number(self.finite) { self.finite } else { best.expect("a code") };
        let limited = if best < self.finite {
            best
        } else if saturates {
            largest
        } else {
            too_large
        };
        vec![limited | sign]
    }

    /// The next smaller and the next larger number of the format, for a magnitude that it does not have.
    fn around(&self, x: f64) -> [u32; 2] {
        let low = (0..self.finite).rev().find(|code| self.number(*code) <= x).expect("zero is a number");
        [low, low + 1]
    }
}

/// A wide float: its name, and the fields of exponent and mantissa.
#[derive(Clone, Copy)]
struct Wide(&'static str, u32, u32);

const WIDES: [Wide; 3] = [Wide("f32", 8, 23), Wide("f16", 5, 10), Wide("bf16", 8, 7)];

impl Wide {
    fn is_single(self) -> bool {
        self.2 == 23
    }

    /// The bits of one of these, as a value.
    fn value(self, bits: u32) -> f64 {
        match self.0 {
            "f32" => f64::from(f32::from_bits(bits)),
            "bf16" => f64::from(f32::from_bits(bits << 16)),
            _ => {
                let (field, digits) = (bits >> 10 & 0x1f, f64::from(bits & 0x3ff));
                let magnitude = match field {
                    0 => digits * 2f64.powi(-24),
                    0x1f if bits & 0x3ff == 0 => f64::INFINITY,
                    0x1f => f64::NAN,
                    _ => (digits + 1024.0) * 2f64.powi(field as i32 - 25),
                };
                if bits & 0x8000 == 0 { magnitude } else { -magnitude }
            }
        }
    }

    /// Whether bits are what a value rounds to.
    #[track_caller]
    fn is(self, bits: u32, value: f64, what: &str) {
        if value.is_nan() {
            return assert!(self.value(bits).is_nan(), "{what}: {bits:#x} is no NaN");
        }
        // No product of a narrow number and a scale has more digits than a single, but for the largest.
        let single = value as f32;
        let expected = if self.is_single() { single.to_bits() } else { nearest(single, self.1, self.2) };
        assert_eq!(bits, expected, "{what}: {value}");
    }

    /// Number `n` of those that follow each other from register `first` on.
    fn nth(self, m: &mut Machine, first: u32, n: u32, l: usize) -> u32 {
        if self.is_single() { m.v(first + n)[l] } else { m.v(first + n / 2)[l] >> (16 * (n % 2)) & 0xffff }
    }

    fn set_nth(self, m: &mut Machine, first: u32, n: u32, values: [u32; LANES]) {
        if self.is_single() {
            *m.v(first + n) = values;
        } else {
            let (field, shift) = (0xffff << (16 * (n % 2)), 16 * (n % 2));
            let old = *m.v(first + n / 2);
            *m.v(first + n / 2) = std::array::from_fn(|l| old[l] & !field | values[l] << shift);
        }
    }

    /// Floats around the numbers of a format times `scale`, halfway ones, and any.
    fn samples(self, random: &mut Seeded, format: &Format, scale: u32) -> [u32; LANES] {
        std::array::from_fn(|l| {
            let bits = match (l % 4, self.is_single()) {
                (0, true) => random.word(),
                (0, false) => random.word() & 0xffff,
                (near, _) => {
                    let code = random.below(format.finite as usize) as u32;
                    let (low, high) = (format.number(code), format.number(code + 1));
                    let value = if near == 1 { low } else { f64::midpoint(low, high) };
                    let single = (value * 2f64.powi(scale as i32 - 127)) as f32;
                    let bits = if self.is_single() { single.to_bits() } else { nearest(single, self.1, self.2) };
                    let sign = (random.word() & 1) << (self.1 + self.2);
                    bits.wrapping_add(random.below(3) as u32).wrapping_sub(u32::from(near == 3)) ^ sign
                }
            };
            bits & u32::MAX >> (31 - self.1 - self.2)
        })
    }
}

/// All scales, one a lane, of round `n` of four.
fn scales(n: u32) -> [u32; LANES] {
    std::array::from_fn(|l| 64 * n + l as u32)
}

/// Singles whose exponent is a scale, whatever else they have.
fn singles(scales: [u32; LANES]) -> [u32; LANES] {
    scales.map(|scale| scale << 23 | scale << 31 | scale << 5)
}

fn times(scale: u32, value: f64) -> f64 {
    if scale == 0xff { f64::NAN } else { value * 2f64.powi(scale as i32 - 127) }
}

fn divided(value: f64, scale: u32) -> f64 {
    if scale == 0xff { f64::NAN } else { value * 2f64.powi(127 - scale as i32) }
}

#[test]
fn every_byte_and_nibble_times_every_scale_is_the_nearest_wide_float() {
    for format in FORMATS.iter().filter(|format| format.bits() != 6) {
        for wide in WIDES {
            let mut program = String::new();
            // Results of one number in registers 2 to 5, of two from 8 on.
            let (count, each) = if format.bits() == 8 { (2, 16) } else { (4, 8) };
            for part in 0..count {
                let (first, last) = if wide.is_single() { (8 + 2 * part, 9 + 2 * part) } else { (8 + part, 8 + part) };
                let dst = if first == last { format!("v{first}") } else { format!("v[{first}:{last}]") };
                let select = format!("[{},{},0]", part & 1, part >> 1);
                program += &format!("v_cvt_scalef32_pk_{}_{} {dst}, v0, v1 op_sel:{select}\n", wide.0, format.name);
            }
            let alone = format.bits() == 8 && wide.0 != "bf16";
            for byte in 0..if alone { 4 } else { 0 } {
                let half = if wide.is_single() { String::new() } else { format!(",{}", byte & 1) };
                let select = format!("[{},{}{}]", byte & 1, byte >> 1, if half.is_empty() { ",0" } else { &half });
                program +=
                    &format!("v_cvt_scalef32_{}_{} v{}, v0, v1 op_sel:{select}\n", wide.0, format.name, 2 + byte);
            }
            let mut m = Machine::new(ARCH, &program);
            for (codes, round) in (0..256).flat_map(|codes| (0..4).map(move |round| (codes, round))) {
                let word = codes | (codes ^ 0x5a) << 8 | (codes ^ 0xa5) << 16 | (codes ^ 0xff) << 24;
                (*m.v(0), *m.v(1)) = ([word; LANES], singles(scales(round)));
                for register in 2..6 {
                    *m.v(register) = [0x1234_1234; LANES];
                }
                m.run();
                for (l, scale) in scales(round).into_iter().enumerate() {
                    for n in 0..2 * count {
                        let code = word >> (each * (n / 2) + format.bits() * (n % 2)) & ((1 << format.bits()) - 1);
                        let value = times(scale, format.value(code));
                        // Negative zero stays one.
                        let got = wide.nth(&mut m, 8, n, l);
                        wide.is(got, value, &format!("{} {code:#x} to {} by {scale}", format.name, wide.0));
                        if alone {
                            let register = m.v(2 + n)[l];
                            let shift = if wide.is_single() { 0 } else { 16 * (n & 1) };
                            assert_eq!(register >> shift & u32::MAX >> (31 - wide.1 - wide.2), got);
                            assert!(wide.is_single() || register >> (16 - shift) & 0xffff == 0x1234);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn every_code_of_six_bits_times_every_scale_is_the_nearest_wide_float() {
    for format in FORMATS.iter().filter(|format| format.bits() == 6) {
        for wide in WIDES {
            // Codes are in registers that results overwrite.
            let last = if wide.is_single() { 39 } else { 23 };
            let program = format!("v_cvt_scalef32_pk32_{}_{} v[8:{last}], v[8:13], v1", wide.0, format.name);
            let mut m = Machine::new(ARCH, &program);
            for (half, round) in (0..2u32).flat_map(|half| (0..4).map(move |round| (half, round))) {
                let code = |n: u32| 32 * half + (n * 5 + 3) % 32;
                for word in 0..6 {
                    let bit = |bit: u32| code((32 * word + bit) / 6) >> ((32 * word + bit) % 6) & 1;
                    *m.v(8 + word) = [(0..32).fold(0, |word, n| word | bit(n) << n); LANES];
                }
                *m.v(1) = singles(scales(round));
                m.run();
                for (l, scale) in scales(round).into_iter().enumerate() {
                    for n in 0..32 {
                        let got = wide.nth(&mut m, 8, n, l);
                        let value = times(scale, format.value(code(n)));
                        wide.is(got, value, &format!("{} {:#x} to {} by {scale}", format.name, code(n), wide.0));
                    }
                }
            }
        }
    }
}

#[test]
fn wide_floats_divided_by_every_scale_are_the_nearest_bytes_and_nibbles() {
    let mut random = Seeded(3);
    for format in FORMATS.iter().filter(|format| format.bits() != 6) {
        for wide in WIDES {
            // Two numbers are two registers of singles, and the halves of one of others.
            let source = if wide.is_single() { "-v4, |v5|" } else { "v4" };
            let byte = format.bits() == 4;
            let op = format!("v_cvt_scalef32_pk_{}_{}", format.name, wide.0);
            let program = if byte {
                format!("{op} v2, {source}, v1 op_sel:[0,0,0,1]")
            } else {
                let select = if wide.is_single() { "[0,0,0,1]" } else { "[0,0,1]" };
                format!("{op} v2, {source}, v1 op_sel:{select}")
            };
            let mut m = Machine::new(ARCH, &program);
            for (mode, round) in [COMPUTE, SATURATING].into_iter().flat_map(|mode| (0..256).map(move |n| (mode, n))) {
                m.wave.mode = mode;
                let pair = [(); 2].map(|()| wide.samples(&mut random, format, round));
                for (n, values) in pair.iter().enumerate() {
                    wide.set_nth(&mut m, 4, n as u32, *values);
                }
                (*m.v(1), *m.v(2)) = (singles([round; LANES]), [0x89ab_cdef; LANES]);
                m.run();
                for l in 0..LANES {
                    for (n, values) in pair.iter().enumerate() {
                        let x = wide.value(values[l]);
                        let x = if !wide.is_single() {
                            x
                        } else if n == 0 {
                            -x
                        } else {
                            x.abs()
                        };
                        let expected = format.nearest(divided(x, round), mode.0 == SATURATING.0);
                        let got = m.v(2)[l] >> 16 >> (format.bits() * n as u32) & ((1 << format.bits()) - 1);
                        assert!(expected.contains(&got), "{program}: {x:e} by {round}: {got:#x}, not {expected:x?}");
                    }
                    let kept = if byte { 0xff00_ffff } else { 0xffff };
                    assert_eq!(m.v(2)[l] & kept, 0x89ab_cdef & kept, "{program}");
                }
            }
        }
    }
}

#[test]
fn wide_floats_divided_by_every_scale_are_the_nearest_codes_of_six_bits() {
    let mut random = Seeded(4);
    for format in FORMATS.iter().filter(|format| format.bits() == 6) {
        for wide in WIDES {
            let program = if wide.is_single() {
                format!("v_cvt_scalef32_2xpk16_{}_f32 v[8:13], v[8:23], v[24:39], v1", format.name)
            } else {
                format!("v_cvt_scalef32_pk32_{}_{} v[8:13], v[8:23], v1", format.name, wide.0)
            };
            let mut m = Machine::new(ARCH, &program);
            for scale in 0..256 {
                let values: [_; 32] = std::array::from_fn(|_| wide.samples(&mut random, format, scale));
                for (n, values) in (0..).zip(&values) {
                    // Of two sources of singles, numbers take turns.
                    wide.set_nth(&mut m, 8, if wide.is_single() { n % 2 * 16 + n / 2 } else { n }, *values);
                }
                *m.v(1) = singles([scale; LANES]);
                m.run();
                for l in 0..LANES {
                    let bit = |m: &mut Machine, bit: u32| m.v(8 + bit / 32)[l] >> (bit % 32) & 1;
                    for (n, values) in (0..).zip(&values) {
                        let got = (0..6).fold(0, |code, place| code | bit(&mut m, 6 * n + place) << place);
                        let x = wide.value(values[l]);
                        let expected = format.nearest(divided(x, scale), true);
                        assert!(expected.contains(&got), "{program}: {x:e} by {scale}: {got:#x}, not {expected:x?}");
                    }
                }
            }
        }
    }
}

/// The sequence of random words: a register that is shifted, with feedback.
fn sequence(mut word: u32, n: u32) -> u32 {
    for _ in 0..n {
        let out = word >> 31;
        word = word.wrapping_mul(2);
        for tap in [0, 2, 6, 7] {
            word ^= out << tap;
        }
    }
    word
}

#[test]
fn random_bits_round_each_number_up_as_often_as_it_is_nearer_to_the_one_above() {
    let mut random = Seeded(5);
    for format in &FORMATS {
        for wide in WIDES {
            let single = wide.is_single();
            let (op, count, source) = match (format.bits(), single) {
                (8, _) => ("sr", 1, "v8"),
                (4, true) => ("sr_pk", 2, "v[8:9]"),
                (4, false) => ("sr_pk", 2, "v8"),
                (_, true) => ("sr_pk32", 32, "v[8:39]"),
                (_, false) => ("sr_pk32", 32, "v[8:23]"),
            };
            let (dst, select) = if count == 32 { ("v[2:7]", "") } else { ("v2", " op_sel:[0,0,1,1]") };
            let program = format!("v_cvt_scalef32_{op}_{}_{} {dst}, {source}, v40, v41{select}", format.name, wide.0);
            let mut m = Machine::new(ARCH, &program);
            for round in 0..16u32 {
                let words: [u32; LANES] = std::array::from_fn(|_| random.word());
                // All of BF8's numbers are halves only as they are.
                let scale = if wide.1 == format.exponent { ONE } else { ONE - 2 + round % 5 };
                // Two random digits beyond those that are kept: exact in every wide format, of normal numbers.
                let normal = 1 << format.mantissa;
                let codes: Vec<u32> =
                    (0..count).map(|_| normal + random.below((format.finite - normal - 1) as usize) as u32).collect();
                for (n, code) in (0..).zip(&codes) {
                    let quarter = f64::from(1 + (n + round) % 3) / 4.0;
                    let [low, high] = [*code, code + 1].map(|code| format.number(code));
                    let x = times(scale, low + (high - low) * quarter) as f32;
                    let bits = if single { x.to_bits() } else { nearest(x, wide.1, wide.2) };
                    wide.set_nth(&mut m, 8, n, [bits; LANES]);
                }
                (*m.v(40), *m.v(41), *m.v(2)) = (words, singles([scale; LANES]), [0x89ab_cdef; LANES]);
                m.run();
                for (l, word) in words.into_iter().enumerate() {
                    let place = if count == 32 { 0 } else { 24 };
                    for (n, code) in (0..).zip(&codes) {
                        let bit = |m: &mut Machine, bit: u32| m.v(2 + bit / 32)[l] >> (bit % 32) & 1;
                        let first = place + format.bits() * n;
                        let got = (0..format.bits()).fold(0, |code, place| code | bit(&mut m, first + place) << place);
                        // The upper two bits of the number's random word: so many quarters of all words carry.
                        let up = sequence(word, n) >> 30 >= 4 - (1 + (n + round) % 3);
                        assert_eq!(got, code + u32::from(up), "{program}: number {n} with {word:#x}");
                    }
                    assert!(count == 32 || m.v(2)[l] & 0xff_ffff == 0xab_cdef, "{program}");
                }
            }
            // What lies between any two, normal or not, becomes one of them.
            if count == 1 {
                for scale in [1, 60, ONE, 200, 254] {
                    let (words, values) =
                        (std::array::from_fn(|_| random.word()), wide.samples(&mut random, format, scale));
                    (*m.v(8), *m.v(40), *m.v(41)) = (values, words, singles([scale; LANES]));
                    m.run();
                    for (l, value) in values.into_iter().enumerate() {
                        let x = divided(wide.value(value), scale);
                        if x.is_nan() || x.abs() >= format.number(format.finite - 1) {
                            continue;
                        }
                        let got = m.v(2)[l] >> 24;
                        let sign = u32::from(x.is_sign_negative()) << 7;
                        let [low, high] = format.around(x.abs());
                        let is_number = format.number(low) == x.abs();
                        let may = got == low | sign || !is_number && got == high | sign;
                        assert!(may, "{program}: {x:e} is {got:#x}, not one of {low:#x} and {high:#x}");
                    }
                }
            }
        }
    }
}
