//! Numbers to try kernels with, and how near two results have to be.

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Type {
    /// An integer of so many bytes; the sign makes no difference to its bits.
    Int(usize),
    F16,
    F32,
    F64,
}

/// How near a result has to be to the expected one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Near {
    /// All bits, but one NaN is as good as another.
    Same,
    /// So many units in the last place of the expected number.
    Ulps(f64),
    /// Relative to the expected number, and absolute.
    Within(f64, f64),
}

impl Type {
    pub(crate) fn size(self) -> usize {
        match self {
            Type::Int(size) => size,
            Type::F16 => 2,
            Type::F32 => 4,
            Type::F64 => 8,
        }
    }

    /// Stored bits of the mantissa and the smallest exponent of a normal number.
    fn precision(self) -> (i32, i32) {
        match self {
            Type::Int(_) => (0, 0),
            Type::F16 => (10, -14),
            Type::F32 => (23, -126),
            Type::F64 => (52, -1022),
        }
    }

    /// The bits of an element.
    pub(crate) fn bits(self, bytes: &[u8]) -> u64 {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    /// The value of an element; an integer's is its bits'.
    pub(crate) fn value(self, bytes: &[u8]) -> f64 {
        let bits = self.bits(bytes);
        match self {
            Type::Int(_) => bits as f64,
            Type::F16 => half(bits as u16),
            Type::F32 => f64::from(f32::from_bits(bits as u32)),
            Type::F64 => f64::from_bits(bits),
        }
    }

    /// The distance of two values in units in the last place of the expected one.
    fn ulps(self, got: f64, expected: f64) -> f64 {
        let (mantissa, smallest) = self.precision();
        let limit = match self {
            Type::F32 => f64::from(f32::MAX),
            Type::F16 => 65504.0,
            _ => f64::MAX,
        };
        // What is too large for the type is infinite in it.
        let shown = |v: f64| if v.abs() > limit { f64::INFINITY.copysign(v) } else { v };
        if got.is_nan() && expected.is_nan() || got == expected || shown(got) == shown(expected) {
            return 0.0;
        }
        let (near, unit) =
            (if got.is_infinite() { limit.copysign(got) } else { got }, exponent(expected).max(smallest));
        if !near.is_finite() || !expected.is_finite() {
            return f64::INFINITY;
        }
        // In two steps: neither power of two leaves the range of a double.
        let half = (mantissa - unit) / 2;
        (near - expected).abs() * 2f64.powi(half) * 2f64.powi(mantissa - unit - half)
    }
}

/// The power of two of a number's first bit.
fn exponent(value: f64) -> i32 {
    match (value.to_bits() >> 52 & 0x7ff) as i32 {
        0 => -1022,
        stored => stored - 1023,
    }
}

fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
    sign * match exponent {
        0 => mantissa * 2f64.powi(-24),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + mantissa) * 2f64.powi(exponent - 25),
    }
}

impl Near {
    /// Of the first element that is too far off: its index, and what it is and should be.
    pub(crate) fn differs(self, of: Type, got: &[u8], expected: &[u8], expected_of: Type) -> Option<(usize, String)> {
        let elements = got.chunks_exact(of.size()).zip(expected.chunks_exact(expected_of.size()));
        assert_eq!(got.len() / of.size(), expected.len() / expected_of.size());
        for (index, (g, e)) in elements.enumerate() {
            if of == expected_of && g == e {
                continue;
            }
            let (got, expected) = (of.value(g), expected_of.value(e));
            let near = match (of, self) {
                (Type::Int(_), _) | (_, Near::Same) => got.is_nan() && expected.is_nan(),
                (_, Near::Ulps(most)) => of.ulps(got, expected) <= most,
                (_, Near::Within(relative, absolute)) => {
                    got.is_nan() && expected.is_nan()
                        || got == expected
                        || (got - expected).abs() <= relative * expected.abs() + absolute
                }
            };
            if !near {
                let (bits, wanted) = (of.bits(g), expected_of.bits(e));
                let ulps = of.ulps(got, expected);
                let text = format!("{got:e} ({bits:#x}), expected {expected:e} ({wanted:#x}): {ulps} ulps");
                return Some((index, text));
            }
        }
        None
    }
}

/// Pseudo-random numbers: Vigna's splitmix64.
pub(crate) struct Random(u64);

impl Random {
    /// Always the same numbers for a name.
    pub(crate) fn of(name: &str) -> Random {
        Random(name.bytes().fold(7, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Less than a limit.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// The bits of an element: often one of the values at which something changes.
    fn element(&mut self, of: Type) -> u64 {
        let bits = of.size() * 8;
        let random = self.next();
        let Type::Int(_) = of else {
            let (mantissa, smallest) = of.precision();
            let quiet = 1 << (mantissa - 1);
            let infinity = ((1u64 << (bits as i32 - 1 - mantissa)) - 1) << mantissa;
            let one = ((-smallest + 1) as u64) << mantissa;
            let sign = (random & 1) << (bits - 1);
            return sign
                | match self.below(8) {
                    0 => {
                        let corners = [0, infinity, infinity | quiet, one, one + 1, one - 1, 1, quiet, infinity - 1];
                        corners[self.below(corners.len())]
                    }
                    // Any exponent; a NaN a quiet one, as calculations make them.
                    1 | 2 => {
                        let any = random >> (64 - bits) & !(1 << (bits - 1));
                        if any > infinity { any | quiet } else { any }
                    }
                    // Small whole numbers and halves.
                    3 => of.of_small(self.below(64) as u64, self.below(2) as u64),
                    // Around one: exponents from -8 to 7.
                    _ => one - (8 << mantissa) + (random >> 8) % (16 << mantissa),
                };
        };
        match self.below(4) {
            0 => {
                let corners =
                    [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, 0x5555_5555_5555_5555];
                corners[self.below(corners.len())]
            }
            1 => 1u64.wrapping_shl(random as u32).wrapping_sub(random >> 63),
            2 => random,
            // Of fewer bits, of either sign.
            _ => ((random as i64) >> (self.below(bits) + 64 - bits)) as u64,
        }
    }

    /// An array of elements.
    pub(crate) fn elements(&mut self, of: Type, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| self.element(of).to_le_bytes().into_iter().take(of.size())).collect()
    }
}

impl Type {
    /// The bits of a small number plus a half or not.
    fn of_small(self, whole: u64, half: u64) -> u64 {
        let twice = whole * 2 + half;
        if twice == 0 {
            return 0;
        }
        let (mantissa, smallest) = self.precision();
        let top = 63 - twice.leading_zeros() as i32;
        let fraction = (twice << (mantissa - top)) & ((1 << mantissa) - 1);
        ((top - 1 - smallest + 1) as u64) << mantissa | fraction
    }
}
