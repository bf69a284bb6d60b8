//! Floats of eight bits, in MI300's formats: a sign, exponent and mantissa without infinities, and one NaN in the place of minus zero.
//!
//! Source: AMD Instinct MI300 ISA manual, "BF8 / FP8 Conversions". Its two formats are known as E4M3FNUZ and E5M2FNUZ elsewhere.

/// A float of eight bits, `MANTISSA` of which are the mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Small<const MANTISSA: u32>(pub u8);

/// Four bits of exponent, three of mantissa.
pub type Fp8 = Small<3>;
/// Five bits of exponent, two of mantissa.
pub type Bf8 = Small<2>;

/// Mantissa bits of a single.
const SINGLE: u32 = f32::MANTISSA_DIGITS - 1;

impl<const MANTISSA: u32> Small<MANTISSA> {
    /// What an exponent of zero is written as.
    const BIAS: u32 = 1 << (6 - MANTISSA);
    /// Mantissa bits of a single that have no place.
    const LOST: u32 = SINGLE - MANTISSA;
    /// The largest number.
    const MAX: u8 = 0x7f;
    /// NaN, which has one code.
    pub const NAN: Small<MANTISSA> = Small(0x80);

    /// The one in the lowest byte.
    #[inline(always)]
    pub fn new(word: u32) -> Small<MANTISSA> {
        Small(word as u8)
    }

    /// The same value; every one is a single.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        let magnitude = u32::from(self.0 & 0x7f);
        // As if there were no denormals: of theirs, the leading one that they lack is taken off.
        let rebased = (magnitude << Self::LOST) + ((127 - Self::BIAS) << SINGLE);
        let leading = f32::from_bits((127 - Self::BIAS) << SINGLE);
        let normal = f32::from_bits(rebased);
        let value = if magnitude >> MANTISSA == 0 { (normal - leading) * 2.0 } else { normal };
        let signed = f32::from_bits(value.to_bits() | u32::from(self.0 >> 7) << 31);
        if self == Self::NAN { f32::NAN } else { signed }
    }

    /// The nearest number, the even one of two. What is too large is the largest if `saturates`, otherwise NaN.
    #[inline(always)]
    pub fn nearest(x: f32, saturates: bool) -> Small<MANTISSA> {
        let (exponent, significand) = Self::split(x);
        // Bits that are lost, more of them of denormals: beyond the first of these, nothing is left of a significand.
        let lost = Self::LOST + (1 - exponent).clamp(0, 8) as u32;
        let (kept, rest, half) = (significand >> lost, significand & ((1 << lost) - 1), 1 << (lost - 1));
        let up = rest > half || rest == half && kept & 1 == 1;
        Self::join(x, exponent, kept + u32::from(up), saturates)
    }

    /// One of the two numbers around `x`: the upper bits of `random` are added to what is lost, and a carry counts.
    ///
    /// Bits that a denormal result has no place for are lost before. Source: AMD's conversion in `amd_hip_fp8.h`, which takes lower bits.
    #[inline(always)]
    pub fn stochastic(x: f32, random: u32, saturates: bool) -> Small<MANTISSA> {
        let (exponent, significand) = Self::split(x);
        let aligned = significand >> (1 - exponent).clamp(0, 31);
        Self::join(x, exponent, (aligned + (random >> (32 - Self::LOST))) >> Self::LOST, saturates)
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
    fn join(x: f32, exponent: i32, significand: u32, saturates: bool) -> Small<MANTISSA> {
        // The leading one of a normal number is one in the exponent.
        let magnitude = ((exponent - 1).max(0) << MANTISSA) as u32 + significand;
        let sign = (x.to_bits() >> 24 & 0x80) as u8;
        match magnitude {
            _ if x.is_nan() => Self::NAN,
            // There is no minus zero.
            0 => Small(0),
            0x80.. if saturates => Small(Self::MAX | sign),
            0x80.. => Self::NAN,
            magnitude => Small(magnitude as u8 | sign),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value of a format but NaN, by what the format's name says.
    fn values<const MANTISSA: u32>() -> Vec<(u8, f64)> {
        let codes = (0..=u8::MAX).filter(|code| *code != 0x80);
        let value = |code: u8| {
            let (exponent, mantissa) = (code >> MANTISSA & (0x7f >> MANTISSA), f64::from(code & ((1 << MANTISSA) - 1)));
            let bias = if MANTISSA == 3 { 8 } else { 16 };
            let digits = mantissa / f64::from(1 << MANTISSA) + if exponent == 0 { 0.0 } else { 1.0 };
            let magnitude = digits * 2f64.powi(i32::from(exponent.max(1)) - bias);
            if code & 0x80 == 0 { magnitude } else { -magnitude }
        };
        codes.map(|code| (code, value(code))).collect()
    }

    fn every_value_and_every_boundary<const MANTISSA: u32>(largest: f64) {
        let mut values = values::<MANTISSA>();
        for &(code, value) in &values {
            assert_eq!(f64::from(Small::<MANTISSA>(code).to_f32()), value, "{code:#x}");
            assert_eq!(Small::<MANTISSA>::nearest(value as f32, false).0, code, "{value}");
            assert_eq!(Small::<MANTISSA>::stochastic(value as f32, u32::MAX, false).0, code, "{value}");
        }
        assert!(Small::<MANTISSA>::NAN.to_f32().is_nan());
        values.sort_by(|a, b| a.1.total_cmp(&b.1));
        assert_eq!(values.last(), Some(&(0x7f, largest)));
        for pair in values.windows(2) {
            let [(below, low), (above, high)] = [pair[0], pair[1]];
            let middle = ((low + high) / 2.0) as f32;
            let even = if below & 1 == 0 { below } else { above };
            let codes = [middle.next_down(), middle, middle.next_up()].map(|x| Small::<MANTISSA>::nearest(x, false).0);
            assert_eq!(codes, [below, even, above], "around {middle}");
            // As many of a thousand are rounded away from zero as there are thousandths between.
            let quarter = (low + (high - low) / 4.0) as f32;
            let up = (0..1000u32).filter(|n| Small::<MANTISSA>::stochastic(quarter, n * 4_294_967, false).0 == above);
            let up = up.count();
            assert!((240..=260).contains(&up), "{up} of 1000 between {low} and {high}");
        }
    }

    #[test]
    fn every_value_is_a_single_and_every_single_between_two_goes_to_the_nearer_one() {
        every_value_and_every_boundary::<3>(240.0);
        every_value_and_every_boundary::<2>(57344.0);
    }

    #[test]
    fn what_is_too_large_after_rounding_saturates_or_is_no_number() {
        let both = |x: f32| [false, true].map(|saturates| Fp8::nearest(x, saturates).0);
        assert_eq!(
            [247.99f32, 248.0, -248.0, 1e30].map(both),
            [[0x7f, 0x7f], [0x80, 0x7f], [0x80, 0xff], [0x80, 0x7f]]
        );
        assert_eq!([f32::INFINITY, f32::NEG_INFINITY, f32::NAN].map(both), [[0x80, 0x7f], [0x80, 0xff], [0x80, 0x80]]);
        let random = |x: f32, random: u32| [false, true].map(|saturates| Bf8::stochastic(x, random, saturates).0);
        assert_eq!([random(65535.0, 0), random(65535.0, u32::MAX)], [[0x7f, 0x7f], [0x80, 0x7f]]);
        assert_eq!([-0.0f32, -1e-30, f32::MIN_POSITIVE, 1e-45].map(|x| Bf8::nearest(x, false).0), [0; 4]);
    }
}
