//! Floating-point arithmetic as the hardware does it: rounding modes, NaN rules, halves.
//!
//! Sums and products in directed rounding are rounded from their exact values (`exact`). Conversions to narrower formats are made
//! from round-to-nearest and the sign of its error.

use crate::mode::Rounding;

pub mod brain;
mod exact;
mod min_max;
pub(crate) mod scale;
pub mod small;

use exact::Format;
pub use min_max::MinMax;

/// A half-precision number, kept as its bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct F16(pub u16);

impl F16 {
    /// Widens exactly. Signaling NaNs stay signaling in their payload but are quiet as `f32`.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        let bits = u32::from(self.0);
        let magnitude = (bits & 0x7fff) << 13;
        let sign = (bits & 0x8000) << 16;
        // Rescales the exponent; denormal halves become normal singles by the multiplication.
        let scaled = f32::from_bits(magnitude) * f32::from_bits((254 - 15) << 23);
        let value = if magnitude >= 0x7c00 << 13 { f32::from_bits(magnitude | 0x7f80_0000) } else { scaled };
        f32::from_bits(value.to_bits() | sign)
    }

    /// Rounds to nearest, ties to even.
    #[inline(always)]
    pub fn from_f32(x: f32) -> F16 {
        let bits = x.to_bits();
        let sign = (bits >> 16 & 0x8000) as u16;
        let magnitude = bits & 0x7fff_ffff;
        let rounded = if magnitude > 0x7f80_0000 {
            // A quiet NaN with the upper payload bits.
            0x7e00 | (magnitude >> 13 & 0x3ff)
        } else if magnitude >= 0x477f_f000 {
            0x7c00
        } else if magnitude < 0x3880_0000 {
            // Below the smallest normal half: adding 0.5 aligns the units and rounds.
            (f32::from_bits(magnitude) + 0.5).to_bits() - 0x3f00_0000
        } else {
            (magnitude + 0xfff + (magnitude >> 13 & 1) - (112 << 23)) >> 13
        };
        F16(sign | rounded as u16)
    }

    /// Rounds a double, given the sign of what was lost before (`residue`), in one of the four ways.
    pub fn round(x: f64, residue: f64, rounding: Rounding) -> F16 {
        let wide = to_odd(x, residue);
        if rounding == Rounding::Nearest {
            return F16::from_f32(wide);
        }
        let nearest = F16::from_f32(wide);
        let error = f64::from(wide) - f64::from(nearest.to_f32());
        F16(directed(nearest.0, 0x8000, 0x7c00, nearest.is_nan(), error, rounding))
    }

    /// True for NaN.
    #[inline(always)]
    pub fn is_nan(self) -> bool {
        self.0 & 0x7fff > 0x7c00
    }
}

/// A double and the sign of what it lost as a single that is odd unless it is exact: rounding it again to fewer bits sees
/// every discarded bit. Without branches, so that lanes are rounded together.
#[inline(always)]
fn to_odd(x: f64, residue: f64) -> f32 {
    let wide = x as f32;
    let lost = (x - f64::from(wide)) + residue;
    let inexact = lost != 0.0 && wide.abs() < f32::INFINITY;
    let away = (wide > 0.0 && lost < 0.0) || (wide < 0.0 && lost > 0.0);
    f32::from_bits((wide.to_bits() - u32::from(inexact && away)) | u32::from(inexact))
}

/// Moves a result that was rounded to nearest one step in the rounding direction, when `error` (exact minus rounded)
/// says that it is on the wrong side. `bits` has its sign at `sign` and infinity at `infinity`.
fn directed<B>(bits: B, sign: B, infinity: B, nan: bool, error: f64, rounding: Rounding) -> B
where
    B: Copy
        + PartialEq
        + std::ops::BitAnd<Output = B>
        + std::ops::BitXor<Output = B>
        + std::ops::Add<Output = B>
        + std::ops::Sub<Output = B>
        + From<u8>,
{
    if nan || error == 0.0 || error.is_nan() {
        return bits;
    }
    let zero = B::from(0);
    let one = B::from(1);
    let negative = bits & sign != zero;
    let up = error > 0.0;
    let move_up = match rounding {
        Rounding::Nearest => return bits,
        Rounding::Up => up,
        Rounding::Down => false,
        Rounding::Zero => up && negative,
    };
    let move_down = match rounding {
        Rounding::Down => !up,
        Rounding::Zero => !up && !negative,
        _ => false,
    };
    if !(move_up || move_down) {
        return bits;
    }
    let magnitude = bits & (sign ^ (sign - one) ^ sign);
    if magnitude == zero {
        // The exact value underflowed to zero: the smallest denormal of the direction.
        return if move_up { one } else { sign ^ one };
    }
    if bits & infinity == infinity && error.is_infinite() {
        return if move_up == negative { bits - one } else { bits };
    }
    if move_up == negative { bits - one } else { bits + one }
}

/// A number that is neither NaN nor infinite was turned into infinity: the error that directed rounding must undo.
fn overflow_error(finite_inputs: bool, result: f64) -> Option<f64> {
    (finite_inputs && result.is_infinite()).then_some(-result)
}

/// The floating-point types that arithmetic works on.
pub trait Float: Copy {
    /// `a + b` in the given rounding.
    fn add(a: Self, b: Self, rounding: Rounding) -> Self;
    /// `a * b` in the given rounding.
    fn mul(a: Self, b: Self, rounding: Rounding) -> Self;
    /// `a * b + c` with one rounding.
    fn fma(a: Self, b: Self, c: Self, rounding: Rounding) -> Self;
    /// `a + b` to nearest.
    fn add_nearest(a: Self, b: Self) -> Self;
    /// `a * b` to nearest.
    fn mul_nearest(a: Self, b: Self) -> Self;
    /// `a * b + c` with one rounding, to nearest.
    fn fma_nearest(a: Self, b: Self, c: Self) -> Self;
    /// `(a * b + c) * 2^exponent` with one rounding, in the given rounding.
    fn scaled(a: Self, b: Self, c: Self, exponent: i32, rounding: Rounding) -> Self;
    /// `a * 2^exponent` to nearest.
    fn ldexp_nearest(a: Self, exponent: i32) -> Self;
    /// One.
    const ONE: Self;
    /// Plus zero.
    const ZERO: Self;
    /// `-a`.
    fn negate(self) -> Self;
    /// False for infinities and NaN.
    fn finite(self) -> bool;
    /// The largest number in the place of infinity, if the type is one of those that [`Mode::saturates_small`](crate::mode::Mode::saturates_small) is about.
    #[inline(always)]
    fn limited(self) -> Self {
        self
    }
}

/// The error of `a + b`, exact unless something overflows (Knuth's two-sum).
#[inline(always)]
pub(crate) fn two_sum_error(a: f64, b: f64, sum: f64) -> f64 {
    let b_part = sum - a;
    let a_part = sum - b_part;
    (a - a_part) + (b - b_part)
}

impl Float for f32 {
    fn add(a: f32, b: f32, rounding: Rounding) -> f32 {
        f32::fma(a, 1.0, b, rounding)
    }

    fn mul(a: f32, b: f32, rounding: Rounding) -> f32 {
        if !(a.is_finite() && b.is_finite()) {
            return a * b;
        }
        f32::from_bits(exact::product(a.into(), b.into(), Format::SINGLE, rounding) as u32)
    }

    fn fma(a: f32, b: f32, c: f32, rounding: Rounding) -> f32 {
        if !(a.is_finite() && b.is_finite() && c.is_finite()) {
            return a.mul_add(b, c);
        }
        f32::from_bits(exact::fused(a.into(), b.into(), c.into(), Format::SINGLE, rounding) as u32)
    }

    #[inline(always)]
    fn add_nearest(a: f32, b: f32) -> f32 {
        a + b
    }

    #[inline(always)]
    fn mul_nearest(a: f32, b: f32) -> f32 {
        a * b
    }

    #[inline(always)]
    fn fma_nearest(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }

    const ONE: f32 = 1.0;
    const ZERO: f32 = 0.0;

    fn scaled(a: f32, b: f32, c: f32, exponent: i32, rounding: Rounding) -> f32 {
        if !(a.is_finite() && b.is_finite() && c.is_finite()) {
            return a.mul_add(b, c);
        }
        f32::from_bits(exact::scaled(a.into(), b.into(), c.into(), exponent, Format::SINGLE, rounding) as u32)
    }

    #[inline(always)]
    fn ldexp_nearest(a: f32, exponent: i32) -> f32 {
        scale::ldexp32(a, exponent)
    }

    #[inline(always)]
    fn negate(self) -> f32 {
        -self
    }

    #[inline(always)]
    fn finite(self) -> bool {
        self.is_finite()
    }
}

impl Float for f64 {
    fn add(a: f64, b: f64, rounding: Rounding) -> f64 {
        f64::fma(a, 1.0, b, rounding)
    }

    fn mul(a: f64, b: f64, rounding: Rounding) -> f64 {
        if !(a.is_finite() && b.is_finite()) {
            return a * b;
        }
        f64::from_bits(exact::product(a, b, Format::DOUBLE, rounding))
    }

    fn fma(a: f64, b: f64, c: f64, rounding: Rounding) -> f64 {
        if !(a.is_finite() && b.is_finite() && c.is_finite()) {
            return a.mul_add(b, c);
        }
        f64::from_bits(exact::fused(a, b, c, Format::DOUBLE, rounding))
    }

    #[inline(always)]
    fn add_nearest(a: f64, b: f64) -> f64 {
        a + b
    }

    #[inline(always)]
    fn mul_nearest(a: f64, b: f64) -> f64 {
        a * b
    }

    #[inline(always)]
    fn fma_nearest(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }

    const ONE: f64 = 1.0;
    const ZERO: f64 = 0.0;

    fn scaled(a: f64, b: f64, c: f64, exponent: i32, rounding: Rounding) -> f64 {
        if !(a.is_finite() && b.is_finite() && c.is_finite()) {
            return a.mul_add(b, c);
        }
        f64::from_bits(exact::scaled(a, b, c, exponent, Format::DOUBLE, rounding))
    }

    #[inline(always)]
    fn ldexp_nearest(a: f64, exponent: i32) -> f64 {
        scale::ldexp64(a, exponent)
    }

    #[inline(always)]
    fn negate(self) -> f64 {
        -self
    }

    #[inline(always)]
    fn finite(self) -> bool {
        self.is_finite()
    }
}

impl Float for F16 {
    fn add(a: F16, b: F16, rounding: Rounding) -> F16 {
        F16::fma(a, F16(0x3c00), b, rounding)
    }

    fn mul(a: F16, b: F16, rounding: Rounding) -> F16 {
        let (a, b) = (a.to_f32(), b.to_f32());
        if !(a.is_finite() && b.is_finite()) {
            return F16::from_f32(a * b);
        }
        F16(exact::product(a.into(), b.into(), Format::HALF, rounding) as u16)
    }

    fn fma(a: F16, b: F16, c: F16, rounding: Rounding) -> F16 {
        let (a, b, c) = (a.to_f32(), b.to_f32(), c.to_f32());
        if !(a.is_finite() && b.is_finite() && c.is_finite()) {
            return F16::from_f32(a.mul_add(b, c));
        }
        F16(exact::fused(a.into(), b.into(), c.into(), Format::HALF, rounding) as u16)
    }

    #[inline(always)]
    fn add_nearest(a: F16, b: F16) -> F16 {
        // A single holds enough bits that rounding twice does no harm.
        F16::from_f32(a.to_f32() + b.to_f32())
    }

    #[inline(always)]
    fn mul_nearest(a: F16, b: F16) -> F16 {
        F16::from_f32(a.to_f32() * b.to_f32())
    }

    #[inline(always)]
    fn fma_nearest(a: F16, b: F16, c: F16) -> F16 {
        // The product of two halves is exact.
        let (product, c) = (f64::from(a.to_f32()) * f64::from(b.to_f32()), f64::from(c.to_f32()));
        let sum = product + c;
        let residue = if sum.abs() < f64::INFINITY { two_sum_error(product, c, sum) } else { 0.0 };
        F16::from_f32(to_odd(sum, residue))
    }

    const ONE: F16 = F16(0x3c00);
    const ZERO: F16 = F16(0);

    fn scaled(a: F16, b: F16, c: F16, exponent: i32, rounding: Rounding) -> F16 {
        let (a, b, c) = (a.to_f32(), b.to_f32(), c.to_f32());
        if !(a.is_finite() && b.is_finite() && c.is_finite()) {
            return F16::from_f32(a.mul_add(b, c));
        }
        F16(exact::scaled(a.into(), b.into(), c.into(), exponent, Format::HALF, rounding) as u16)
    }

    #[inline(always)]
    fn ldexp_nearest(a: F16, exponent: i32) -> F16 {
        scale::ldexp16(a, exponent)
    }

    #[inline(always)]
    fn negate(self) -> F16 {
        F16(self.0 ^ 0x8000)
    }

    #[inline(always)]
    fn finite(self) -> bool {
        self.0 & 0x7c00 != 0x7c00
    }

    #[inline(always)]
    fn limited(self) -> F16 {
        if self.0 & 0x7fff == 0x7c00 { F16(self.0 - 1) } else { self }
    }
}

/// Arithmetic in the wave's rounding mode. Rows of the tables are written once with it and compiled twice: for
/// rounding to nearest, which vectorises, and for the others.
pub trait Arith: Copy {
    /// `a + b`
    fn add<T: Float>(self, a: T, b: T) -> T;
    /// `a * b`
    fn mul<T: Float>(self, a: T, b: T) -> T;
    /// `a * b + c`, rounded once
    fn fma<T: Float>(self, a: T, b: T, c: T) -> T;
    /// Double to single.
    fn narrow(self, x: f64) -> f32;
    /// Single to half.
    fn half(self, x: f32) -> F16;
    /// `a * 2^exponent`
    fn ldexp<T: Float>(self, a: T, exponent: i32) -> T;
    /// `(a * b + c) * 2^exponent`, rounded once
    fn scaled<T: Float>(self, a: T, b: T, c: T, exponent: i32) -> T;
    /// A result that is rounded already; infinite by overflow or not.
    fn limited<T: Float>(self, result: T, overflows: bool) -> T;
    /// `a * b + c`, rounded twice
    #[inline(always)]
    fn mad<T: Float>(self, a: T, b: T, c: T) -> T {
        self.add(self.mul(a, b), c)
    }
    /// `a - b`
    #[inline(always)]
    fn sub<T: Float>(self, a: T, b: T) -> T {
        self.add(a, b.negate())
    }
}

/// Rounding to nearest, ties to even.
#[derive(Clone, Copy)]
pub struct Nearest;

impl Arith for Nearest {
    #[inline(always)]
    fn add<T: Float>(self, a: T, b: T) -> T {
        T::add_nearest(a, b)
    }

    #[inline(always)]
    fn mul<T: Float>(self, a: T, b: T) -> T {
        T::mul_nearest(a, b)
    }

    #[inline(always)]
    fn fma<T: Float>(self, a: T, b: T, c: T) -> T {
        T::fma_nearest(a, b, c)
    }

    #[inline(always)]
    fn narrow(self, x: f64) -> f32 {
        x as f32
    }

    #[inline(always)]
    fn half(self, x: f32) -> F16 {
        F16::from_f32(x)
    }

    #[inline(always)]
    fn ldexp<T: Float>(self, a: T, exponent: i32) -> T {
        T::ldexp_nearest(a, exponent)
    }

    #[inline(always)]
    fn scaled<T: Float>(self, a: T, b: T, c: T, exponent: i32) -> T {
        T::scaled(a, b, c, exponent, Rounding::Nearest)
    }

    #[inline(always)]
    fn limited<T: Float>(self, result: T, _overflows: bool) -> T {
        result
    }
}

/// Any mode, decided at each operation.
#[derive(Clone, Copy)]
pub struct Moded {
    /// How results are rounded.
    pub rounding: Rounding,
    /// Halves that overflow are the largest ones.
    pub saturates: bool,
}

impl Arith for Moded {
    #[inline(always)]
    fn add<T: Float>(self, a: T, b: T) -> T {
        let sum = if self.rounding == Rounding::Nearest { T::add_nearest(a, b) } else { T::add(a, b, self.rounding) };
        self.limited(sum, a.finite() && b.finite())
    }

    #[inline(always)]
    fn mul<T: Float>(self, a: T, b: T) -> T {
        let product =
            if self.rounding == Rounding::Nearest { T::mul_nearest(a, b) } else { T::mul(a, b, self.rounding) };
        self.limited(product, a.finite() && b.finite())
    }

    #[inline(always)]
    fn fma<T: Float>(self, a: T, b: T, c: T) -> T {
        let sum =
            if self.rounding == Rounding::Nearest { T::fma_nearest(a, b, c) } else { T::fma(a, b, c, self.rounding) };
        self.limited(sum, a.finite() && b.finite() && c.finite())
    }

    fn narrow(self, x: f64) -> f32 {
        let nearest = x as f32;
        let error = overflow_error(x.is_finite(), f64::from(nearest)).unwrap_or(x - f64::from(nearest));
        f32::from_bits(directed(nearest.to_bits(), 1 << 31, 0x7f80_0000, nearest.is_nan(), error, self.rounding))
    }

    fn half(self, x: f32) -> F16 {
        self.limited(F16::round(f64::from(x), 0.0, self.rounding), x.is_finite())
    }

    fn ldexp<T: Float>(self, a: T, exponent: i32) -> T {
        if !a.finite() {
            return T::mul_nearest(a, T::ONE);
        }
        // Zero of either sign stays zero of this sign when a zero of this sign is added.
        self.scaled(a, T::ONE, T::mul_nearest(a, T::ZERO), exponent)
    }

    fn scaled<T: Float>(self, a: T, b: T, c: T, exponent: i32) -> T {
        self.limited(T::scaled(a, b, c, exponent, self.rounding), a.finite() && b.finite() && c.finite())
    }

    #[inline(always)]
    fn limited<T: Float>(self, result: T, overflows: bool) -> T {
        if self.saturates && overflows { result.limited() } else { result }
    }
}

#[cfg(test)]
mod tests;
