//! Floats of eight bits and less: those of MI300, and those of the Open Compute Project (OCP) that MI350 has.
//!
//! A value is `1.mantissa * 2^(exponent - BIAS)`, and `0.mantissa * 2^(1 - BIAS)` where the exponent's field is zero. Formats differ in
//! the widths of their fields and in the codes that are no numbers. Source: AMD Instinct MI300 ISA manual, "BF8 / FP8 Conversions"; the
//! OCP's "8-bit Floating Point Specification" and "Microscaling Formats Specification", as LLVM's `APFloat.h` has them.

/// Which codes of a format are no numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// The code that would be minus zero is NaN, which has no sign; there is no minus zero.
    MinusZero,
    /// The largest code is NaN.
    Largest,
    /// Codes with the largest exponent are infinity, or NaN if their mantissa is not zero.
    LargestExponent,
    /// None.
    None,
}

/// Mantissa bits of a single.
const SINGLE: u32 = f32::MANTISSA_DIGITS - 1;

/// A format of fewer bits than a single. Codes are in the lower bits of what is passed; bits above do not matter.
pub trait Format {
    /// Bits of the exponent.
    const EXPONENT: u32;
    /// Bits of the mantissa.
    const MANTISSA: u32;
    /// What is added to an exponent when it is written.
    const BIAS: u32;
    /// The codes that are no numbers.
    const SPECIAL: Special;

    /// Bits of a code.
    const BITS: u32 = 1 + Self::EXPONENT + Self::MANTISSA;
    /// The bits of a code but its sign.
    const MAGNITUDE: u32 = (1 << (Self::BITS - 1)) - 1;
    /// The largest number.
    const MAX: u32 = match Self::SPECIAL {
        Special::MinusZero | Special::None => Self::MAGNITUDE,
        Special::Largest => Self::MAGNITUDE - 1,
        Special::LargestExponent => Self::MAGNITUDE - (1 << Self::MANTISSA),
    };
    /// Mantissa bits of a single that have no place.
    const LOST: u32 = SINGLE - Self::MANTISSA;

    /// The same value; every one is a single.
    #[inline(always)]
    fn to_f32(code: u32) -> f32 {
        let (magnitude, sign) = (code & Self::MAGNITUDE, code >> (Self::BITS - 1) & 1);
        // As if there were no denormals: of theirs, the leading one that they lack is taken off.
        let leading = f32::from_bits((127 - Self::BIAS) << SINGLE);
        let normal = f32::from_bits((magnitude << Self::LOST) + ((127 - Self::BIAS) << SINGLE));
        let value = if magnitude >> Self::MANTISSA == 0 { (normal - leading) * 2.0 } else { normal };
        let value = match Self::SPECIAL {
            Special::MinusZero if magnitude == 0 && sign == 1 => f32::NAN,
            Special::Largest if magnitude > Self::MAX => f32::NAN,
            Special::LargestExponent if magnitude > Self::MAX + 1 => f32::NAN,
            Special::LargestExponent if magnitude > Self::MAX => f32::INFINITY,
            _ => value,
        };
        f32::from_bits(value.to_bits() | sign << 31)
    }

    /// The nearest number, the even one of two. What is too large is the largest if `saturates`, otherwise infinity or NaN, where the
    /// format has them. NaN is the largest number where it has none.
    #[inline(always)]
    fn nearest(x: f32, saturates: bool) -> u32 {
        let (exponent, significand) = Self::split(x);
        // Bits that are lost, more of them of denormals: beyond the first of these, nothing is left of a significand.
        let lost = Self::LOST + (1 - exponent).clamp(0, Self::MANTISSA as i32 + 2) as u32;
        let (kept, rest, half) = (significand >> lost, significand & ((1 << lost) - 1), 1 << (lost - 1));
        let up = rest > half || rest == half && kept & 1 == 1;
        Self::join(x, exponent, kept + u32::from(up), saturates)
    }

    /// One of the two numbers around `x`, which has so many mantissa bits: as many upper bits of `random` as are lost of them are added to
    /// these, and a carry counts.
    ///
    /// Bits that a denormal result has no place for are lost before. Source: AMD's conversions in `amd_hip_fp8.h`, which take lower bits,
    /// and in `amd_hip_ocp_host.hpp`.
    #[inline(always)]
    fn stochastic(x: f32, mantissa: u32, random: u32, saturates: bool) -> u32 {
        let (exponent, significand) = Self::split(x);
        let aligned = significand >> (SINGLE - mantissa) >> (1 - exponent).clamp(0, 31);
        let lost = mantissa - Self::MANTISSA;
        Self::join(x, exponent, (aligned + (random >> (32 - lost))) >> lost, saturates)
    }

    /// The exponent as it is written in this format, and the mantissa with its leading one.
    #[inline(always)]
    fn split(x: f32) -> (i32, u32) {
        let magnitude = x.to_bits() & 0x7fff_ffff;
        // Singles that are denormal are too small to count.
        ((magnitude >> SINGLE) as i32 - 127 + Self::BIAS as i32, magnitude & ((1 << SINGLE) - 1) | 1 << SINGLE)
    }

    /// A number of an exponent and a significand in units of its last place.
    #[inline(always)]
    fn join(x: f32, exponent: i32, significand: u32, saturates: bool) -> u32 {
        // The leading one of a normal number is one in the exponent.
        let magnitude = ((exponent - 1).max(0) << Self::MANTISSA) as u32 + significand;
        let sign = (x.to_bits() >> 31) << (Self::BITS - 1);
        let minus_zero = 1 << (Self::BITS - 1);
        match Self::SPECIAL {
            Special::MinusZero if x.is_nan() || magnitude > Self::MAX && !saturates => minus_zero,
            Special::MinusZero if magnitude == 0 => 0,
            _ if x.is_nan() => sign | Self::MAGNITUDE,
            Special::Largest | Special::LargestExponent if magnitude > Self::MAX && !saturates => {
                sign | (Self::MAX + 1)
            }
            _ => sign | magnitude.min(Self::MAX),
        }
    }
}

macro_rules! formats {
    ($($(#[doc = $doc:literal])+ $name:ident = $exponent:literal, $mantissa:literal, $bias:literal, $special:ident;)*) => {$(
        $(#[doc = $doc])+
        pub enum $name {}

        impl Format for $name {
            const EXPONENT: u32 = $exponent;
            const MANTISSA: u32 = $mantissa;
            const BIAS: u32 = $bias;
            const SPECIAL: Special = Special::$special;
        }
    )*};
}

formats! {
    /// FP8 of MI300.
    E4M3Fnuz = 4, 3, 8, MinusZero;
    /// BF8 of MI300.
    E5M2Fnuz = 5, 2, 16, MinusZero;
    /// FP8 of the OCP, E4M3FN elsewhere.
    E4M3 = 4, 3, 7, Largest;
    /// BF8 of the OCP.
    E5M2 = 5, 2, 15, LargestExponent;
    /// FP6.
    E2M3 = 2, 3, 1, None;
    /// BF6.
    E3M2 = 3, 2, 3, None;
    /// FP4.
    E2M1 = 2, 1, 1, None;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every number of a format, by what its name says: bits of exponent and mantissa, and the codes that are none.
    fn numbers(exponent: u32, mantissa: u32, bias: i32, is_number: impl Fn(u32) -> bool) -> Vec<(u32, f64)> {
        let value = |code: u32| {
            let field = code >> mantissa & ((1 << exponent) - 1);
            let digits = f64::from(code & ((1 << mantissa) - 1)) / f64::from(1 << mantissa);
            let digits = digits + if field == 0 { 0.0 } else { 1.0 };
            let magnitude = digits * 2f64.powi(field.max(1) as i32 - bias);
            if code >> (exponent + mantissa) == 0 { magnitude } else { -magnitude }
        };
        let codes = (0..1 << (1 + exponent + mantissa)).filter(|code| is_number(*code));
        codes.map(|code| (code, value(code))).collect()
    }

    fn every_number_and_every_boundary<F: Format>(mut numbers: Vec<(u32, f64)>, largest: f64) {
        for &(code, value) in &numbers {
            let single = F::to_f32(code);
            assert_eq!((f64::from(single), single.is_sign_negative()), (value, value.is_sign_negative()), "{code:#x}");
            assert_eq!(F::to_f32(code | u32::MAX << F::BITS).to_bits(), single.to_bits(), "{code:#x}");
            assert_eq!(F::nearest(value as f32, false), code, "{value}");
            assert_eq!(F::stochastic(value as f32, SINGLE, u32::MAX, false), code, "{value}");
        }
        numbers.sort_by(|a, b| a.1.total_cmp(&b.1));
        assert_eq!(numbers.last().map(|(_, value)| *value), Some(largest));
        for pair in numbers.windows(2).filter(|pair| pair[0].1 < pair[1].1) {
            let [(below, low), (above, high)] = [pair[0], pair[1]];
            let middle = ((low + high) / 2.0) as f32;
            let even = if below & 1 == 0 { below } else { above };
            let codes = [middle.next_down(), middle, middle.next_up()].map(|x| F::nearest(x, false));
            assert_eq!(codes, [below, even, above], "around {middle}");
            // As many of a thousand are rounded away from zero as there are thousandths between.
            let quarter = (low + (high - low) / 4.0) as f32;
            let up = (0..1000u32).filter(|n| F::stochastic(quarter, SINGLE, n * 4_294_967, false) == above);
            let up = up.count();
            assert!((240..=260).contains(&up), "{up} of 1000 between {low} and {high}");
        }
    }

    #[test]
    fn every_number_is_a_single_and_every_single_between_two_goes_to_the_nearer_one() {
        every_number_and_every_boundary::<E4M3Fnuz>(numbers(4, 3, 8, |code| code != 0x80), 240.0);
        every_number_and_every_boundary::<E5M2Fnuz>(numbers(5, 2, 16, |code| code != 0x80), 57344.0);
        every_number_and_every_boundary::<E4M3>(numbers(4, 3, 7, |code| code & 0x7f != 0x7f), 448.0);
        every_number_and_every_boundary::<E5M2>(numbers(5, 2, 15, |code| code & 0x7f < 0x7c), 57344.0);
        every_number_and_every_boundary::<E2M3>(numbers(2, 3, 1, |_| true), 7.5);
        every_number_and_every_boundary::<E3M2>(numbers(3, 2, 3, |_| true), 28.0);
        every_number_and_every_boundary::<E2M1>(numbers(2, 1, 1, |_| true), 6.0);
    }

    #[test]
    fn codes_that_are_no_numbers_are_what_their_formats_say() {
        assert!(E4M3Fnuz::to_f32(0x80).is_nan() && E5M2Fnuz::to_f32(0x80).is_nan());
        assert!([0x7f, 0xff].into_iter().map(E4M3::to_f32).all(f32::is_nan));
        assert!([0x7d, 0x7e, 0x7f, 0xfd, 0xfe, 0xff].into_iter().map(E5M2::to_f32).all(f32::is_nan));
        assert_eq!([0x7c, 0xfc].map(E5M2::to_f32), [f32::INFINITY, f32::NEG_INFINITY]);
    }

    #[test]
    fn what_is_too_large_after_rounding_saturates_or_is_no_number() {
        fn both<F: Format>(x: f32) -> [u32; 2] {
            [false, true].map(|saturates| F::nearest(x, saturates))
        }
        let values = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN];
        assert_eq!(
            [247.99f32, 248.0, -248.0, 1e30].map(both::<E4M3Fnuz>),
            [[0x7f, 0x7f], [0x80, 0x7f], [0x80, 0xff], [0x80, 0x7f]]
        );
        assert_eq!(values.map(both::<E4M3Fnuz>), [[0x80, 0x7f], [0x80, 0xff], [0x80, 0x80], [0x80, 0x80]]);
        // Half of the way to the number that NaN has the place of; the even one is the largest.
        assert_eq!(
            [464f32, 464f32.next_up(), -465.0, 1e30].map(both::<E4M3>),
            [[0x7e, 0x7e], [0x7f, 0x7e], [0xff, 0xfe], [0x7f, 0x7e]]
        );
        assert_eq!(values.map(both::<E4M3>), [[0x7f, 0x7e], [0xff, 0xfe], [0x7f, 0x7f], [0xff, 0xff]]);
        assert_eq!(
            [61440f32.next_down(), 61440.0, -1e30].map(both::<E5M2>),
            [[0x7b, 0x7b], [0x7c, 0x7b], [0xfc, 0xfb]]
        );
        assert_eq!(values.map(both::<E5M2>), [[0x7c, 0x7b], [0xfc, 0xfb], [0x7f, 0x7f], [0xff, 0xff]]);
        assert_eq!(values.map(both::<E2M3>), [[0x1f; 2], [0x3f; 2], [0x1f; 2], [0x3f; 2]]);
        assert_eq!([29f32, -29.0, 1e30].map(both::<E3M2>), [[0x1f; 2], [0x3f; 2], [0x1f; 2]]);
        assert_eq!([6.9f32, -7.1, 1e30].map(both::<E2M1>), [[0x7; 2], [0xf; 2], [0x7; 2]]);
        let random =
            |x: f32, random: u32| [false, true].map(|saturates| E5M2Fnuz::stochastic(x, SINGLE, random, saturates));
        assert_eq!([random(65535.0, 0), random(65535.0, u32::MAX)], [[0x7f, 0x7f], [0x80, 0x7f]]);
        let small = [-0.0f32, -1e-30, f32::MIN_POSITIVE, 1e-45];
        assert_eq!(small.map(|x| E5M2Fnuz::nearest(x, false)), [0; 4]);
        assert_eq!(small.map(|x| E5M2::nearest(x, false)), [0x80, 0x80, 0, 0]);
        assert_eq!(small.map(|x| E2M1::stochastic(x, SINGLE, u32::MAX, false)), [0x8, 0x8, 0, 0]);
    }

    #[test]
    fn of_sources_with_fewer_bits_as_many_random_bits_count_as_they_lose() {
        // A brain float between 1 and 1.125: its last bit is a sixteenth of that, and so is the last random bit that counts.
        let x = f32::from_bits(0x3f81_0000);
        let up = |random: u32| E4M3::stochastic(x, 7, random, false) == 0x39;
        assert_eq!([0, 0xe000_0000, 0xefff_ffff, 0xf000_0000].map(up), [false, false, false, true]);
        // A single has bits below that.
        let x = f32::from_bits(0x3f81_8000);
        let up = |random: u32| E4M3::stochastic(x, SINGLE, random, false) == 0x39;
        assert_eq!([0xe7ff_ffff, 0xe800_0000].map(up), [false, true]);
        // A denormal result: of a half's 10 bits the lowest is lost before, that of a single is not.
        let x = 2f32.powi(-7) * (1.0 + 2f32.powi(-10));
        let up = |mantissa| E4M3::stochastic(x, mantissa, u32::MAX, false) == 0x05;
        assert_eq!([10, SINGLE].map(up), [false, true]);
    }
}
