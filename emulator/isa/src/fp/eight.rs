//! Floats of eight bits as MI300 has them: no infinities, no minus zero, and one NaN in the place of minus zero.
//!
//! Source: MI300 ISA manual, "Data Formats"; the formats `Float8E4M3FNUZ` and `Float8E5M2FNUZ` of LLVM's `APFloat`.

/// One of the two formats.
#[derive(Clone, Copy)]
pub(crate) struct Eight {
    /// Stored bits of the significand.
    fraction: u32,
    /// What is added to the exponent.
    bias: i32,
}

/// FP8: four bits of exponent, three of significand.
pub(crate) const FP8: Eight = Eight { fraction: 3, bias: 8 };
/// BF8: five bits of exponent, two of significand.
pub(crate) const BF8: Eight = Eight { fraction: 2, bias: 16 };

const NAN: u8 = 0x80;

impl Eight {
    /// Widens exactly.
    #[inline(always)]
    pub(crate) fn widen(self, byte: u8) -> f32 {
        let magnitude = u32::from(byte & 0x7f);
        // As a single with a tiny exponent; the multiplication makes it normal, and denormals as well.
        let scale = f32::from_bits(((254 - self.bias) as u32) << 23);
        let value = f32::from_bits(magnitude << (23 - self.fraction)) * scale;
        if byte == NAN { f32::NAN } else { f32::from_bits(value.to_bits() | u32::from(byte & 0x80) << 24) }
    }

    /// Rounds to nearest, ties to even. What is too large is NaN, or the largest number if `limited`; infinity and NaN are NaN.
    pub(crate) fn narrow(self, x: f32, limited: bool) -> u8 {
        if !x.is_finite() {
            return NAN;
        }
        let exponent = ((x.to_bits() >> 23 & 0xff) as i32 - 127).max(1 - self.bias);
        // In units of the last bit, which every single is a multiple of a power of two of.
        let units = f64::from(x.abs()) * 2f64.powi(self.fraction as i32 - exponent);
        let kept = units.round_ties_even() as u32;
        // The highest bit of a normal number counts as one in the exponent's field, and so does a carry into it.
        let magnitude = (((exponent + self.bias - 1) as u32) << self.fraction) + kept;
        match magnitude {
            0 => 0,
            128.. if !limited => NAN,
            _ => magnitude.min(127) as u8 | if x < 0.0 { 0x80 } else { 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value by its definition.
    fn by_definition(byte: u8, exponent_bits: u32, bias: i32) -> f64 {
        let fraction_bits = 7 - exponent_bits;
        let exponent = i32::from(byte & 0x7f) >> fraction_bits;
        let fraction = f64::from(u32::from(byte) & ((1 << fraction_bits) - 1)) / f64::from(1 << fraction_bits);
        let value = match exponent {
            0 => fraction * 2f64.powi(1 - bias),
            _ => (1.0 + fraction) * 2f64.powi(exponent - bias),
        };
        if byte & 0x80 == 0 { value } else { -value }
    }

    #[test]
    fn every_byte_has_the_value_of_its_format_and_comes_back() {
        for (format, bits, bias, largest) in [(FP8, 4, 8, 240.0), (BF8, 5, 16, 57344.0)] {
            for byte in 0..=255 {
                let value = format.widen(byte);
                if byte == NAN {
                    assert!(value.is_nan());
                    assert_eq!(format.narrow(value, true), NAN);
                    continue;
                }
                assert_eq!(f64::from(value), by_definition(byte, bits, bias), "{byte:#x}");
                assert_eq!(format.narrow(value, false), byte, "{byte:#x}");
            }
            assert_eq!(format.widen(0x7f), largest);
        }
    }

    #[test]
    fn what_lies_between_two_bytes_goes_to_the_nearest_even_one() {
        for format in [FP8, BF8] {
            for byte in 0..0x7f {
                let (low, high) = (format.widen(byte), format.widen(byte + 1));
                let middle = (low + high) / 2.0;
                for sign in [1.0, -1.0] {
                    // There is no minus zero.
                    let bits = if sign < 0.0 { 0x80 } else { 0 };
                    let signed = |byte: u8| if byte == 0 { 0 } else { byte | bits };
                    assert_eq!(format.narrow(sign * middle, false), signed(byte + (byte & 1)));
                    assert_eq!(format.narrow(sign * middle.next_down(), false), signed(byte));
                    assert_eq!(format.narrow(sign * middle.next_up(), false), signed(byte + 1));
                }
            }
            // Half a unit above the largest number is the first that is too large.
            let largest = format.widen(0x7f);
            let limit = largest + (largest - format.widen(0x7e)) / 2.0;
            assert_eq!([limit.next_down(), limit, f32::MAX].map(|x| format.narrow(x, false)), [0x7f, NAN, NAN]);
            assert_eq!([limit, -f32::MAX, f32::INFINITY].map(|x| format.narrow(x, true)), [0x7f, 0xff, NAN]);
        }
    }
}
