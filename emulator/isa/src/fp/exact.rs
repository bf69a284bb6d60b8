//! Sums and products in every rounding mode, from their exact values.
//!
//! An exact value is an integer of 126 bits and an exponent. What is shifted out of it sets its lowest bit: the value stays
//! inexact, and on its side of every number that a result can have. Source: IEEE 754-2019, sections 4.3 and 6.3.

use crate::mode::Rounding;

/// A binary format of IEEE 754, narrower than or as wide as a double.
#[derive(Clone, Copy)]
pub(super) struct Format {
    /// Stored bits of the significand.
    fraction: u32,
    /// The exponent of the smallest normal number.
    smallest: i32,
}

impl Format {
    pub(super) const HALF: Format = Format { fraction: 10, smallest: -14 };
    pub(super) const SINGLE: Format = Format { fraction: 23, smallest: -126 };
    pub(super) const DOUBLE: Format = Format { fraction: 52, smallest: -1022 };

    const fn infinity(self) -> u64 {
        // The largest exponent of a number is the smallest one's opposite, plus one; infinity's field is one more.
        ((2 - 2 * self.smallest) as u64 + 1) << self.fraction
    }

    const fn sign(self) -> u32 {
        // The exponent's field has as many bits as one below infinity's needs.
        63 - (self.infinity() + (1 << self.fraction)).leading_zeros()
    }
}

/// The position of the highest bit of an exact value that is not zero.
const TOP: u32 = 125;

/// A value of which nothing is lost but what the lowest bit stands for: `significand * 2^exponent`.
#[derive(Clone, Copy)]
struct Exact {
    negative: bool,
    significand: u128,
    exponent: i32,
}

impl Exact {
    /// With the highest bit in its place.
    fn new(negative: bool, significand: u128, exponent: i32) -> Exact {
        if significand == 0 {
            return Exact { negative, significand, exponent: 0 };
        }
        let shift = significand.leading_zeros() as i32 - (127 - TOP as i32);
        let significand = if shift >= 0 { significand << shift } else { shifted(significand, -shift as u32) };
        Exact { negative, significand, exponent: exponent - shift }
    }

    /// A finite number.
    fn of(x: f64) -> Exact {
        let (field, fraction) = (x.to_bits() >> 52 & 0x7ff, x.to_bits() & ((1 << 52) - 1));
        let significand = if field == 0 { fraction } else { fraction | 1 << 52 };
        Exact::new(x.is_sign_negative(), significand.into(), field.max(1) as i32 - 1075)
    }

    fn product(a: f64, b: f64) -> Exact {
        let (a, b) = (Exact::of(a), Exact::of(b));
        // A number has 53 bits: the lower ones of its significand are zero.
        const ZEROS: u32 = TOP - 52;
        let significand = (a.significand >> ZEROS) * (b.significand >> ZEROS);
        Exact::new(a.negative != b.negative, significand, a.exponent + b.exponent + 2 * ZEROS as i32)
    }

    fn plus(self, other: Exact, rounding: Rounding) -> Exact {
        if self.significand == 0 && other.significand == 0 {
            let negative = if self.negative == other.negative { self.negative } else { rounding == Rounding::Down };
            return Exact { negative, ..self };
        }
        if other.significand == 0 {
            return self;
        }
        if self.significand == 0 || other.exponent > self.exponent {
            return other.plus(self, rounding);
        }
        let right = shifted(other.significand, (self.exponent - other.exponent).min(127) as u32);
        if self.negative == other.negative {
            return Exact::new(self.negative, self.significand + right, self.exponent);
        }
        match self.significand.abs_diff(right) {
            // Equal numbers leave plus zero, unless minus infinity attracts it.
            0 => Exact { negative: rounding == Rounding::Down, significand: 0, exponent: 0 },
            rest => Exact::new(self.negative == (self.significand > right), rest, self.exponent),
        }
    }

    /// The bits of the number of a format that `rounding` chooses.
    fn round(self, format: Format, rounding: Rounding) -> u64 {
        let sign = u64::from(self.negative) << format.sign();
        if self.significand == 0 {
            return sign;
        }
        let exponent = self.exponent + TOP as i32;
        // Twice the range is infinite enough.
        let field = (exponent.max(format.smallest) - format.smallest).min(-4 * format.smallest);
        let lost = (TOP - format.fraction + (format.smallest - exponent).max(0) as u32).min(127);
        let (kept, rest) = (self.significand >> lost, self.significand & ((1 << lost) - 1));
        let outward = match rounding {
            Rounding::Up => !self.negative,
            Rounding::Down => self.negative,
            Rounding::Nearest => true,
            Rounding::Zero => false,
        };
        let half = 1 << (lost - 1);
        let away = match rounding {
            Rounding::Nearest => rest > half || rest == half && kept & 1 == 1,
            _ => outward && rest != 0,
        };
        // The highest bit of a normal number counts as one in the exponent's field, and so does a carry into it.
        let magnitude = ((field as u64) << format.fraction) + kept as u64 + u64::from(away);
        // Inward, the largest number is the last.
        let most = format.infinity() - u64::from(!outward);
        sign | magnitude.min(most)
    }
}

/// A significand shifted to the right; the lowest bit of the result says whether something was lost.
fn shifted(significand: u128, by: u32) -> u128 {
    significand >> by | u128::from(significand & ((1 << by) - 1) != 0)
}

/// `a * b + c` of finite numbers with one rounding.
pub(super) fn fused(a: f64, b: f64, c: f64, format: Format, rounding: Rounding) -> u64 {
    Exact::product(a, b).plus(Exact::of(c), rounding).round(format, rounding)
}

/// `(a * b + c) * 2^exponent` of finite numbers with one rounding.
pub(super) fn scaled(a: f64, b: f64, c: f64, exponent: i32, format: Format, rounding: Rounding) -> u64 {
    let sum = Exact::product(a, b).plus(Exact::of(c), rounding);
    // Beyond the range of every format lies nothing but what the range's ends round to.
    Exact { exponent: sum.exponent + exponent.clamp(-10_000, 10_000), ..sum }.round(format, rounding)
}

/// `a * b`, as [`fused`].
pub(super) fn product(a: f64, b: f64, format: Format, rounding: Rounding) -> u64 {
    Exact::product(a, b).round(format, rounding)
}
