//! Floats by their exact values: what the evaluator computes with is a whole number times a power of two, and is rounded once.
//! Nothing here is of the emulator.

use num_bigint::{BigInt, Sign};

/// Rounding, by the field of MODE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    Nearest,
    Up,
    Down,
    Zero,
}

impl Round {
    pub(crate) fn of(field: u32) -> Round {
        [Round::Nearest, Round::Up, Round::Down, Round::Zero][field as usize & 3]
    }
}

/// A binary format: stored bits of the significand, bits of the exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    fraction: u32,
    exponent: u32,
}

impl Format {
    /// The upper half of a single.
    pub(crate) const BRAIN: Format = Format { fraction: 7, exponent: 8 };

    pub(crate) fn of(width: u32) -> Format {
        match width {
            16 => Format { fraction: 10, exponent: 5 },
            32 => Format { fraction: 23, exponent: 8 },
            _ => Format { fraction: 52, exponent: 11 },
        }
    }

    fn width(self) -> u32 {
        1 + self.fraction + self.exponent
    }

    fn bias(self) -> i64 {
        (1 << (self.exponent - 1)) - 1
    }

    pub(crate) fn infinity(self) -> u64 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    pub(crate) fn sign(self) -> u64 {
        1 << (self.width() - 1)
    }

    pub(crate) fn nan(self) -> u64 {
        self.infinity() | 1 << (self.fraction - 1)
    }

    pub(crate) fn is_nan(self, bits: u64) -> bool {
        bits & (self.sign() - 1) > self.infinity()
    }

    pub(crate) fn is_signaling(self, bits: u64) -> bool {
        self.is_nan(bits) && bits >> (self.fraction - 1) & 1 == 0
    }

    pub(crate) fn is_infinite(self, bits: u64) -> bool {
        bits & (self.sign() - 1) == self.infinity()
    }

    pub(crate) fn is_denormal(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign() - 1);
        magnitude != 0 && magnitude >> self.fraction == 0
    }

    /// The field of the exponent.
    pub(crate) fn exponent(self, bits: u64) -> u64 {
        (bits & (self.sign() - 1)) >> self.fraction
    }

    pub(crate) fn flushed(self, bits: u64) -> u64 {
        if self.is_denormal(bits) { bits & self.sign() } else { bits }
    }
}

/// A float.
#[derive(Clone, Debug)]
pub(crate) enum Real {
    Nan,
    Infinite(bool),
    /// Zero keeps its sign.
    Zero(bool),
    /// A number that is not zero, and its exponent.
    Finite(BigInt, i64),
}

use Real::{Finite, Infinite, Nan, Zero};

impl Real {
    pub(crate) fn of(bits: u64, format: Format) -> Real {
        let negative = bits & format.sign() != 0;
        if format.is_nan(bits) {
            return Nan;
        }
        if format.is_infinite(bits) {
            return Infinite(negative);
        }
        let (field, fraction) = (format.exponent(bits) as i64, bits & ((1 << format.fraction) - 1));
        let significand = if field == 0 { fraction } else { fraction | 1 << format.fraction };
        if significand == 0 {
            return Zero(negative);
        }
        let sign = if negative { Sign::Minus } else { Sign::Plus };
        let exponent = field.max(1) - format.bias() - i64::from(format.fraction);
        Finite(BigInt::from_biguint(sign, significand.into()), exponent)
    }

    pub(crate) fn of_integer(value: i128) -> Real {
        if value == 0 { Zero(false) } else { Finite(value.into(), 0) }
    }

    pub(crate) fn is_negative(&self) -> bool {
        match self {
            Nan => false,
            Infinite(negative) | Zero(negative) => *negative,
            Finite(value, _) => value.sign() == Sign::Minus,
        }
    }

    pub(crate) fn is_nan(&self) -> bool {
        matches!(self, Nan)
    }

    pub(crate) fn negated(self) -> Real {
        match self {
            Nan => Nan,
            Infinite(negative) => Infinite(!negative),
            Zero(negative) => Zero(!negative),
            Finite(value, exponent) => Finite(-value, exponent),
        }
    }

    pub(crate) fn times(&self, other: &Real) -> Real {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Nan, _) | (_, Nan) | (Infinite(_), Zero(_)) | (Zero(_), Infinite(_)) => Nan,
            (Infinite(_), _) | (_, Infinite(_)) => Infinite(negative),
            (Zero(_), _) | (_, Zero(_)) => Zero(negative),
            (Finite(a, x), Finite(b, y)) => Finite(a * b, x + y),
        }
    }

    /// The exact sum; a zero that two numbers leave has the sign that `round` gives it.
    pub(crate) fn plus(&self, other: &Real, round: Round) -> Real {
        match (self, other) {
            (Nan, _) | (_, Nan) => Nan,
            (Infinite(a), Infinite(b)) => {
                if a == b {
                    Infinite(*a)
                } else {
                    Nan
                }
            }
            (Infinite(a), _) | (_, Infinite(a)) => Infinite(*a),
            (Zero(a), Zero(b)) => Zero(if a == b { *a } else { round == Round::Down }),
            (Zero(_), other) | (other, Zero(_)) => other.clone(),
            (Finite(a, x), Finite(b, y)) => {
                let least = *x.min(y);
                let sum = (a << (x - least) as usize) + (b << (y - least) as usize);
                if sum.sign() == Sign::NoSign { Zero(round == Round::Down) } else { Finite(sum, least) }
            }
        }
    }

    pub(crate) fn scaled(self, by: i64) -> Real {
        match self {
            Finite(value, exponent) => Finite(value, exponent + by),
            other => other,
        }
    }

    /// `None` if one is no number.
    pub(crate) fn compared(&self, other: &Real) -> Option<std::cmp::Ordering> {
        if self.is_nan() || other.is_nan() {
            return None;
        }
        if let (Infinite(a), Infinite(b)) = (self, other) {
            return Some(b.cmp(a));
        }
        Some(match self.plus(&other.clone().negated(), Round::Nearest) {
            Zero(_) => std::cmp::Ordering::Equal,
            difference if difference.is_negative() => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        })
    }

    /// A whole number in a direction; to nearest, ties go to even.
    pub(crate) fn whole(&self, round: Round) -> Real {
        let Finite(value, exponent) = self else { return self.clone() };
        if *exponent >= 0 {
            return self.clone();
        }
        let by = (-exponent) as usize;
        // Shifts of negative numbers round down.
        let down: BigInt = value >> by;
        let rest: BigInt = value - (&down << by);
        let up = match round {
            _ if rest.sign() == Sign::NoSign => false,
            Round::Down => false,
            Round::Up => true,
            Round::Zero => value.sign() == Sign::Minus,
            Round::Nearest => match (&rest << 1usize).cmp(&(BigInt::from(1) << by)) {
                std::cmp::Ordering::Equal => down.bit(0),
                order => order == std::cmp::Ordering::Greater,
            },
        };
        let whole = down + i32::from(up);
        if whole.sign() == Sign::NoSign { Zero(self.is_negative()) } else { Finite(whole, 0) }
    }

    /// The nearest integer within a range, NaN as zero. The number must be whole or is cut off.
    pub(crate) fn integer(&self, least: i128, most: i128) -> i128 {
        match self.whole(Round::Zero) {
            Nan | Zero(_) => 0,
            Infinite(negative) => {
                if negative {
                    least
                } else {
                    most
                }
            }
            Finite(value, exponent) => {
                if exponent > 127 {
                    return if value.sign() == Sign::Minus { least } else { most };
                }
                let whole = value << exponent.max(0) as usize;
                i128::try_from(&whole)
                    .unwrap_or(if whole.sign() == Sign::Minus { i128::MIN } else { i128::MAX })
                    .clamp(least, most)
            }
        }
    }

    /// The bits of the number of a format.
    pub(crate) fn bits(&self, format: Format, round: Round, saturates: bool) -> u64 {
        let sign = if self.is_negative() { format.sign() } else { 0 };
        let (value, exponent) = match self {
            Nan => return format.nan(),
            Infinite(_) => return sign | format.infinity(),
            Zero(_) => return sign,
            Finite(value, exponent) => (value.magnitude(), *exponent),
        };
        let outward = match round {
            Round::Nearest => None,
            Round::Up => Some(sign == 0),
            Round::Down => Some(sign != 0),
            Round::Zero => Some(false),
        };
        // The unit of the last place: of the number's own size, or of denormals.
        let top = exponent + value.bits() as i64 - 1;
        let unit = top.max(1 - format.bias()) - i64::from(format.fraction);
        let mut kept = if unit <= exponent {
            value << (exponent - unit) as usize
        } else {
            let by = (unit - exponent) as usize;
            let low = value >> by;
            let rest = value - (&low << by);
            let half = num_bigint::BigUint::from(1u32) << (by - 1);
            let up = match outward {
                Some(outward) => outward && rest.bits() != 0,
                None => rest > half || rest == half && low.bit(0),
            };
            low + u32::from(up)
        };
        let mut unit = unit;
        if kept.bits() > u64::from(format.fraction) + 1 {
            kept >>= 1usize;
            unit += 1;
        }
        let kept = u64::try_from(&kept).unwrap_or(u64::MAX);
        let field = unit + i64::from(format.fraction) + format.bias();
        if field >= (1 << format.exponent) - 1 {
            let inward = outward == Some(false) || saturates;
            return sign | (format.infinity() - u64::from(inward));
        }
        // The leading one of a normal number is one in the field of the exponent.
        sign | ((((field - 1) as u64) << format.fraction) + kept)
    }

    /// A double near it.
    pub(crate) fn near(&self) -> f64 {
        f64::from_bits(self.bits(Format::of(64), Round::Nearest, false))
    }
}

impl From<f64> for Real {
    fn from(value: f64) -> Real {
        Real::of(value.to_bits(), Format::of(64))
    }
}
