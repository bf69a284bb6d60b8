//! Minimum and maximum as the hardware chooses them: the sign of zero, and NaN.

use super::F16;
use crate::mode::Mode;

/// Minimum, maximum and NaN quieting, for every float type.
pub trait MinMax: Copy {
    /// True for NaN.
    fn nan(self) -> bool;
    /// True for a signaling NaN.
    fn signals(self) -> bool;
    /// Never a signaling NaN, but the same one, quiet: what the host's rounding to integers leaves to its libraries.
    fn quiet(self) -> Self;
    /// `self < other`, with minus zero below plus zero.
    fn below(self, other: Self) -> bool;

    /// The smaller, or a NaN if one is. Source: IEEE 754-2019, `minimum`.
    #[inline(always)]
    fn least(self, other: Self) -> Self {
        unless_nan(self, other, self.below(other))
    }

    /// The larger, or a NaN if one is. Source: IEEE 754-2019, `maximum`.
    #[inline(always)]
    fn greatest(self, other: Self) -> Self {
        unless_nan(self, other, other.below(self))
    }

    /// The larger; a number wins over a NaN, except that in IEEE mode a signaling NaN wins as a quiet one.
    #[inline(always)]
    fn larger(self, other: Self, mode: Mode) -> Self {
        pick(self, other, mode, other.below(self))
    }

    /// The smaller; NaN as in [`MinMax::larger`].
    #[inline(always)]
    fn smaller(self, other: Self, mode: Mode) -> Self {
        pick(self, other, mode, self.below(other))
    }
}

#[inline(always)]
fn unless_nan<T: MinMax>(a: T, b: T, first: bool) -> T {
    match (a.nan(), b.nan()) {
        (true, _) => a.quiet(),
        (_, true) => b.quiet(),
        _ if first => a,
        _ => b,
    }
}

/// By choices between values alone, which lanes make together.
#[inline(always)]
fn pick<T: MinMax>(a: T, b: T, mode: Mode, first: bool) -> T {
    let number = if first | b.nan() { a } else { b };
    let number = if a.nan() { b } else { number };
    let quiet = if b.signals() { b.quiet() } else { number };
    let quiet = if a.signals() { a.quiet() } else { quiet };
    if mode.ieee() { quiet } else { number }
}

macro_rules! min_max {
    ($type:ty, $bits:ident, $quiet:expr) => {
        impl MinMax for $type {
            #[inline(always)]
            fn nan(self) -> bool {
                self.is_nan()
            }

            #[inline(always)]
            fn signals(self) -> bool {
                self.is_nan() & (self.$bits() & $quiet == 0)
            }

            #[inline(always)]
            fn quiet(self) -> Self {
                <$type>::from_bits(self.$bits() | if self.is_nan() { $quiet } else { 0 })
            }

            #[inline(always)]
            fn below(self, other: Self) -> bool {
                (self < other) | ((self == other) & self.is_sign_negative() & !other.is_sign_negative())
            }
        }
    };
}

min_max!(f32, to_bits, 1 << 22);
min_max!(f64, to_bits, 1 << 51);

impl MinMax for F16 {
    #[inline(always)]
    fn nan(self) -> bool {
        self.is_nan()
    }

    #[inline(always)]
    fn signals(self) -> bool {
        self.is_nan() & (self.0 & 0x200 == 0)
    }

    #[inline(always)]
    fn quiet(self) -> F16 {
        F16(self.0 | if self.is_nan() { 0x200 } else { 0 })
    }

    #[inline(always)]
    fn below(self, other: F16) -> bool {
        MinMax::below(self.to_f32(), other.to_f32())
    }
}
