//! Multiplication by powers of two, with one rounding at every exponent.

use super::F16;

/// Two to a power between the smallest and the largest normal one.
#[inline(always)]
pub(crate) fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// `a * 2^exponent`, to nearest.
#[inline(always)]
pub(crate) fn ldexp64(a: f64, exponent: i32) -> f64 {
    let (mut x, mut left) = (a, exponent);
    for _ in 0..2 {
        if left > 1023 {
            x *= power(1023);
            left -= 1023;
        } else if left < -1022 {
            // What becomes denormal in a step of 2^-969 vanishes in the last step, which is smaller than 2^-53.
            x *= power(-969);
            left += 969;
        }
    }
    x * power(left.clamp(-1022, 1023))
}

/// As [`ldexp64`].
#[inline(always)]
pub(super) fn ldexp32(a: f32, exponent: i32) -> f32 {
    // A double holds every single times any power that matters.
    (f64::from(a) * power(exponent.clamp(-400, 400))) as f32
}

/// As [`ldexp64`].
#[inline(always)]
pub(super) fn ldexp16(a: F16, exponent: i32) -> F16 {
    // A single holds every half times any power that matters.
    F16::from_f32((f64::from(a.to_f32()) * power(exponent.clamp(-60, 60))) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_rounds_once_at_every_exponent() {
        for (a, e) in [
            (1.5, -1074i32),
            (3.0, -1075),
            (1.0, 1023),
            (5e-324, 2000),
            (1e308, -2000),
            (f64::MAX, -2098),
            (1.75, -1073),
        ] {
            let expected = if e.abs() <= 1000 {
                a * 2f64.powi(e)
            } else {
                // By integer mantissas, rounding to even.
                exact_scale(a, e)
            };
            assert_eq!(ldexp64(a, e).to_bits(), expected.to_bits(), "{a:e} * 2^{e}");
        }
    }

    /// `a * 2^e` computed on the integer mantissa.
    fn exact_scale(a: f64, e: i32) -> f64 {
        let bits = a.to_bits();
        let (mut m, mut x) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32);
        if x == 0 {
            x = 1
        } else {
            m |= 1 << 52
        }
        let mut exponent = x - 1075 + e;
        let shift = (-1074 - exponent).max(0);
        if shift > 0 {
            if shift > 60 {
                return 0.0;
            }
            let (kept, lost) = (m >> shift, m & ((1 << shift) - 1));
            let half = 1u64 << (shift - 1);
            m = kept + u64::from(lost > half || (lost == half && kept & 1 == 1));
            exponent += shift;
        }
        if exponent > 971 {
            return f64::INFINITY;
        }
        let (mut value, mut left) = (m as f64, exponent);
        while left < -1000 {
            value *= 2f64.powi(-60);
            left += 60;
        }
        while left > 900 {
            value *= 2f64.powi(60);
            left -= 60;
        }
        value * 2f64.powi(left)
    }
}
