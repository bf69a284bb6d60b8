//! The three helpers of correctly rounded division: scale the operands, fuse with an unscale, patch the specials.
//!
//! Compilers divide by scaling numerator and denominator (`v_div_scale`), refining a reciprocal, fusing the last step
//! with the unscaling (`v_div_fmas`) and patching special operands (`v_div_fixup`). Where the manual's text does not
//! fit together — the factor of `v_div_fmas` must undo either direction of scaling — the direction follows from the
//! size of the quotient, as public hardware tests of the RDNA descendants show.

use crate::fp::{Arith, F16, Float, MinMax};
use crate::lanes::Lane;

macro_rules! scale {
    (
        $(#[$doc:meta])* $name:ident($float:ident as $uint:ident, $int:ident), fraction: $fraction:literal bits,
        large ratio: $large:literal, tiny: $tiny:literal, step: $step:literal
    ) => {
        $(#[$doc])*
        ///
        /// Decisions are made of all numbers in the same way, so that lanes need not part.
        #[inline(always)]
        pub(super) fn $name(s0: $float, s1: $float, s2: $float) -> ($float, bool) {
            const BIAS: $int = $float::MAX_EXP as $int - 1;
            const MIN_EXPONENT: $int = 1 - BIAS;
            // Lifts every denormal to the normal numbers.
            const LIFT: $int = 64;
            let power = |exponent: $int| $float::from_bits(((exponent + BIAS) as $uint) << $fraction);
            // Exponent and fraction of a finite number that is not zero.
            let split = |x: $float| {
                let denormal = x.abs() < $float::MIN_POSITIVE;
                let bits = (if denormal { x * power(LIFT) } else { x }).abs().to_bits();
                let exponent = (bits >> $fraction) as $int - BIAS - if denormal { LIFT } else { 0 };
                (exponent, bits & ((1 << $fraction) - 1))
            };
            let ((d, d_fraction), (n, n_fraction)) = (split(s1), split(s2));
            let (up, down) = (s0 * power($step), s0 * power(-$step));
            // Near overflow, only the denominator is scaled.
            let near_overflow = n - d >= $large;
            let tiny_denominator = d < MIN_EXPONENT;
            let reciprocal_denormal = -d - $int::from(d_fraction > 0) < MIN_EXPONENT;
            let quotient_denormal = n - d - $int::from(n_fraction < d_fraction) < MIN_EXPONENT;
            let value = if near_overflow {
                if s0 == s1 { up } else { s0 }
            } else if tiny_denominator {
                up
            } else if reciprocal_denormal && quotient_denormal {
                if s0 == s1 { down } else { s0 }
            } else if reciprocal_denormal {
                down
            } else if quotient_denormal {
                if s0 == s2 { up } else { s0 }
            } else if n <= $tiny {
                up
            } else {
                s0
            };
            let unscaled = near_overflow || !tiny_denominator && quotient_denormal;
            let zero = s1 == 0.0 || s2 == 0.0;
            let finite = s1.abs() < $float::INFINITY && s2.abs() < $float::INFINITY;
            let value = if finite { value } else { s0 };
            (if zero { $float::NAN } else { value.quiet() }, finite && !zero && unscaled)
        }
    };
}

scale! {
    /// `v_div_scale_f32`: `s0` is the numerator `s2` or the denominator `s1`; the mask asks for unscaling.
    scale32(f32 as u32, i32), fraction: 23 bits, large ratio: 96, tiny: -104, step: 64
}
scale! {
    /// `v_div_scale_f64`: as [`scale32`].
    scale64(f64 as u64, i64), fraction: 52 bits, large ratio: 768, tiny: -970, step: 128
}

/// The types that are divided.
pub(super) trait Unscale: Float + Lane {
    /// The exponent by which `v_div_scale` scales.
    const STEP: i32;
    /// At least two.
    fn is_large(self) -> bool;
}

impl Unscale for f32 {
    const STEP: i32 = 64;
    #[inline(always)]
    fn is_large(self) -> bool {
        self.abs() >= 2.0
    }
}

impl Unscale for f64 {
    const STEP: i32 = 128;
    #[inline(always)]
    fn is_large(self) -> bool {
        self.abs() >= 2.0
    }
}

/// `v_div_fmas`: `a * b + c` where one of the operands was scaled.
#[inline(never)]
pub(super) fn unscaled<T: Unscale>(m: impl Arith, a: T, b: T, c: T) -> T {
    m.scaled(a, b, c, if c.is_large() { T::STEP } else { -T::STEP })
}

macro_rules! fixup {
    ($name:ident, $type:ty, underflow: $underflow:literal) => {
        /// `v_div_fixup`: the quotient `s0` of `s2` by `s1`, or what special operands give.
        #[inline(always)]
        pub(super) fn $name(s0: $type, s1: $type, s2: $type) -> $type {
            let negative = s1.is_sign_negative() != s2.is_sign_negative();
            let signed = |magnitude: $type| if negative { -magnitude } else { magnitude };
            if s2.is_nan() {
                s2 + s2
            } else if s1.is_nan() {
                s1 + s1
            } else if (s1 == 0.0 && s2 == 0.0) || (s1.is_infinite() && s2.is_infinite()) {
                // The default NaN has its sign set.
                -<$type>::NAN.abs()
            } else if s1 == 0.0 || s2.is_infinite() {
                signed(<$type>::INFINITY)
            } else if s1.is_infinite() || s2 == 0.0 {
                signed(0.0)
            } else if written_exponent::<{ <$type>::MANTISSA_DIGITS }>(s2.to_bits().into())
                - written_exponent::<{ <$type>::MANTISSA_DIGITS }>(s1.to_bits().into())
                < $underflow
            {
                // Whatever the quotient is. Source: AMD's pseudocode of CDNA3 and CDNA4.
                signed(0.0)
            } else if s0.is_nan() {
                // Scaling overflowed on the way.
                signed(<$type>::INFINITY)
            } else {
                signed(s0.abs())
            }
        }
    };
}

fixup!(fixup32, f32, underflow: -150);
fixup!(fixup64, f64, underflow: -1075);

/// The field of the exponent of a float with so many digits.
#[inline(always)]
fn written_exponent<const DIGITS: u32>(bits: u64) -> i32 {
    let exponents = if DIGITS == f64::MANTISSA_DIGITS { 0x7ff } else { 0xff };
    (bits >> (DIGITS - 1) & exponents) as i32
}

/// `v_div_fixup_f16`
pub(super) fn fixup16(s0: F16, s1: F16, s2: F16) -> F16 {
    F16::from_f32(fixup32(s0.to_f32(), s1.to_f32(), s2.to_f32()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fp::Nearest;
    use crate::fp::scale::ldexp64;

    fn fmas<T: Unscale>(a: T, b: T, c: T, vcc: bool) -> T {
        if vcc { unscaled(Nearest, a, b, c) } else { Nearest.fma(a, b, c) }
    }

    /// Exponent of a number that is neither zero, infinite nor NaN, denormals normalised.
    fn exponent(a: f64) -> i32 {
        let (a, bias) = if a.abs() < f64::MIN_POSITIVE { (a * 2f64.powi(64), -64) } else { (a, 0) };
        (a.to_bits() >> 52 & 0x7ff) as i32 - 1023 + bias
    }

    /// The sequence that LLVM emits for a single-precision division with denormals.
    fn divide32(n: f32, d: f32) -> f32 {
        let (ds, _) = scale32(d, d, n);
        let (ns, vcc) = scale32(n, d, n);
        let rcp = 1.0 / ds;
        let f0 = (-ds).mul_add(rcp, 1.0);
        let f1 = f0.mul_add(rcp, rcp);
        let q = ns * f1;
        let f2 = (-ds).mul_add(q, ns);
        let f3 = f2.mul_add(f1, q);
        let f4 = (-ds).mul_add(f3, ns);
        fixup32(fmas(f4, f1, f3, vcc), d, n)
    }

    /// The sequence that LLVM emits for a double-precision division.
    fn divide64(n: f64, d: f64) -> f64 {
        let (ds, _) = scale64(d, d, n);
        let (ns, vcc) = scale64(n, d, n);
        let rcp = 1.0 / ds;
        let f0 = (-ds).mul_add(rcp, 1.0);
        let f1 = rcp.mul_add(f0, rcp);
        let f2 = (-ds).mul_add(f1, 1.0);
        let f3 = f1.mul_add(f2, f1);
        let q = ns * f3;
        let f4 = (-ds).mul_add(q, ns);
        fixup64(fmas(f4, f3, q, vcc), d, n)
    }

    /// What the manual's text says, of exponents and of ratios, one case after the other. In doubles, which hold every
    /// single; `exponents` are those of the smallest normal number, of a large ratio, of a tiny numerator and of the step.
    fn scale_by_cases([s0, s1, s2]: [f64; 3], [smallest, large, tiny, step]: [i32; 4]) -> (f64, bool) {
        if s1 == 0.0 || s2 == 0.0 {
            return (f64::NAN, false);
        }
        if !(s1.is_finite() && s2.is_finite()) {
            return (s0, false);
        }
        let below_normal = |n: f64, d: f64| {
            let ratio = ldexp64(n, -exponent(n)).abs() / ldexp64(d, -exponent(d)).abs();
            exponent(n) - exponent(d) - i32::from(ratio < 1.0) < smallest
        };
        let (d, n) = (exponent(s1), exponent(s2));
        let (up, down) = (ldexp64(s0, step), ldexp64(s0, -step));
        match (below_normal(1.0, s1), below_normal(s2, s1)) {
            _ if n - d >= large => (if s0 == s1 { up } else { s0 }, true),
            _ if d < smallest => (up, false),
            (true, true) => (if s0 == s1 { down } else { s0 }, true),
            (true, false) => (down, false),
            (false, true) => (if s0 == s2 { up } else { s0 }, true),
            (false, false) => (if n <= tiny { up } else { s0 }, false),
        }
    }

    #[test]
    fn scaling_decides_of_all_numbers_as_case_by_case() {
        let mut random = Random(3);
        let same32 = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        let same64 = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        let corners = [0, 1, 0x7f_ffff, 0x80_0000, 0x3f80_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000, 0xbf80_0000u32];
        for n in 0..400_000 {
            let mut pick = || {
                let bits = random.next();
                if bits >> 60 == 0 { corners[(bits % 9) as usize] } else { (bits >> 8) as u32 }
            };
            let (d, m) = (pick(), pick());
            let s0 = [d, m, pick()][n % 3];
            let [s0, d, m] = [s0, d, m].map(f32::from_bits);
            let (expected, mask) = scale_by_cases([s0.into(), d.into(), m.into()], [-126, 96, 23 - 127, 64]);
            let got = scale32(s0, d, m);
            assert!(same32(got.0, expected as f32) && got.1 == mask, "{s0:e} of {m:e} / {d:e}: {got:?}, {expected:e}");
            let mut wide = || f64::from_bits(random.next() ^ random.next() << 32);
            let (d, m) = (wide(), if n % 5 == 0 { f64::from_bits(random.next() >> 12) } else { wide() });
            let s0 = [d, m, 1.5][n % 3];
            let (expected, mask) = scale_by_cases([s0, d, m], [-1022, 768, 53 - 1023, 128]);
            let got = scale64(s0, d, m);
            assert!(same64(got.0, expected) && got.1 == mask, "{s0:e} of {m:e} / {d:e}: {got:?}, {expected:e}");
        }
    }

    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            self.0 ^ self.0 >> 29
        }
    }

    #[test]
    fn compiled_single_divisions_are_correctly_rounded_over_the_whole_range() {
        let mut random = Random(1);
        let corners = [0u32, 1, 0x7f_ffff, 0x80_0000, 0x3f80_0000, 0x7f7f_ffff, 0x7f80_0000, 0x7f00_0000, 0x0b80_0000];
        let pairs = corners.iter().flat_map(|&a| corners.iter().map(move |&b| (a, b)));
        let random_pairs = (0..400_000).map(|_| (random.next() as u32, random.next() as u32));
        for (a, b) in pairs.collect::<Vec<_>>().into_iter().chain(random_pairs) {
            let (n, d) = (f32::from_bits(a), f32::from_bits(b));
            let (got, expected) = (divide32(n, d), n / d);
            assert!(
                got == expected && (got != 0.0 || got.to_bits() == expected.to_bits())
                    || (got.is_nan() && expected.is_nan()),
                "{n:e} / {d:e}: {got:e}, expected {expected:e}"
            );
        }
    }

    #[test]
    fn compiled_double_divisions_are_correctly_rounded_over_the_whole_range() {
        let mut random = Random(2);
        for _ in 0..400_000 {
            let (n, d) =
                (f64::from_bits(random.next()), f64::from_bits(random.next() & !(3 << 61) | random.next() & (3 << 61)));
            let (got, expected) = (divide64(n, d), n / d);
            assert!(
                got == expected || (got.is_nan() && expected.is_nan()),
                "{n:e} / {d:e}: {got:e}, expected {expected:e}"
            );
        }
        // Quotients around the smallest normal number.
        for _ in 0..400_000 {
            let n = f64::from_bits(random.next() & 0x000f_ffff_ffff_ffff | (random.next() % 60 + 1) << 52);
            let d = f64::from_bits(random.next() & 0x000f_ffff_ffff_ffff | (random.next() % 60 + 1000) << 52);
            assert_eq!(divide64(n, d), n / d, "{n:e} / {d:e}");
        }
    }
}
