use super::*;
use crate::mode::Mode;

/// Every value of a small float grid, denormals, infinities and NaN included.
fn interesting_singles() -> Vec<f32> {
    let mut values: Vec<f32> =
        [0u32, 1, 2, 0x7f_ffff, 0x80_0000, 0x80_0001, 0x3f80_0000, 0x3f80_0001, 0x7f7f_ffff, 0x7f80_0000, 0x7fc0_0000]
            .iter()
            .flat_map(|&b| [f32::from_bits(b), f32::from_bits(b | 1 << 31)])
            .collect();
    let mut seed = 12345u32;
    for _ in 0..60 {
        seed = seed.wrapping_mul(1664525).wrapping_add(1013904223);
        values.push(f32::from_bits(seed));
    }
    values
}

#[test]
fn halves_widen_and_narrow_without_loss() {
    for bits in 0..=u16::MAX {
        let half = F16(bits);
        if half.is_nan() {
            assert!(half.to_f32().is_nan());
            assert!(F16::from_f32(half.to_f32()).is_nan());
        } else {
            assert_eq!(F16::from_f32(half.to_f32()), half, "{bits:#x}");
        }
    }
}

#[test]
fn halves_round_to_the_nearest_even_neighbour() {
    // Between every pair of neighbours: just below the middle, the middle, just above it.
    for bits in 0..0x7bffu16 {
        let (low, high) = (F16(bits).to_f32(), F16(bits + 1).to_f32());
        let middle = (low + high) / 2.0;
        let even = if bits & 1 == 0 { bits } else { bits + 1 };
        assert_eq!(F16::from_f32(middle).0, even, "{bits:#x}");
        assert_eq!(F16::from_f32(f32::from_bits(middle.to_bits() - 1)).0, bits);
        assert_eq!(F16::from_f32(f32::from_bits(middle.to_bits() + 1)).0, bits + 1);
    }
    assert_eq!(F16::from_f32(65520.0).0, 0x7c00);
    assert_eq!(F16::from_f32(65519.99).0, 0x7bff);
}

#[test]
fn directed_sums_and_products_bracket_the_exact_value() {
    let values = interesting_singles();
    for &a in &values {
        for &b in &values {
            let (wide_a, wide_b) = (f64::from(a), f64::from(b));
            let sum = wide_a + wide_b;
            let sum_is_exact = two_sum_error(wide_a, wide_b, sum) == 0.0;
            for (op, exact, is_exact) in
                [(f32::add as fn(f32, f32, Rounding) -> f32, sum, sum_is_exact), (f32::mul, wide_a * wide_b, true)]
            {
                let (up, down, zero) = (op(a, b, Rounding::Up), op(a, b, Rounding::Down), op(a, b, Rounding::Zero));
                let nearest = op(a, b, Rounding::Nearest);
                if nearest.is_nan() {
                    assert!(up.is_nan() && down.is_nan() && zero.is_nan());
                    continue;
                }
                assert!(f64::from(down) <= exact && exact <= f64::from(up), "{a:?} {b:?}: {down:?} {exact:?} {up:?}");
                assert!(zero.abs() <= up.abs().max(down.abs()) && (zero == up || zero == down), "{a:?} {b:?}");
                if f64::from(nearest) == exact && exact.is_finite() && exact != 0.0 && is_exact {
                    assert_eq!((up, down, zero), (nearest, nearest, nearest), "{a:e} {b:e}");
                }
                if up != down && up.is_finite() && down.is_finite() {
                    assert!(
                        up.to_bits().abs_diff(down.to_bits()) == 1
                            || (up.to_bits() | down.to_bits()) & 0x7fff_ffff <= 1,
                        "{a:?} {b:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn directed_fused_products_agree_with_exact_integer_arithmetic() {
    // Small integers scaled apart, so that i128 holds the exact value.
    let mut seed = 7u64;
    let mut next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 40) as i32 - (1 << 23)
    };
    for _ in 0..20_000 {
        let (a, b, c) = (next(), next(), next());
        let shift = (next() & 31) as u32;
        let exact = i128::from(a) * i128::from(b) + (i128::from(c) << shift);
        let (fa, fb, fc) = (a as f32, b as f32, c as f32 * 2f32.powi(shift as i32));
        let up = <f32 as Float>::fma(fa, fb, fc, Rounding::Up);
        let down = <f32 as Float>::fma(fa, fb, fc, Rounding::Down);
        assert!(down as i128 <= exact && exact <= up as i128, "{a} {b} {c}<<{shift}");
        assert!(up == down || up.to_bits().abs_diff(down.to_bits()) == 1);
        let (da, db, dc) = (f64::from(fa), f64::from(fb), f64::from(fc));
        let up = <f64 as Float>::fma(da, db, dc, Rounding::Up);
        let down = <f64 as Float>::fma(da, db, dc, Rounding::Down);
        assert!(down as i128 <= exact && exact <= up as i128);
    }
}

/// Bits of floats with exponents and significands of every kind.
fn any_bits(seed: &mut u64, exponents: u32, fraction: u32) -> u64 {
    let mut next = || {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *seed >> 20
    };
    let most = (1 << exponents) - 1;
    let exponent = match next() % 4 {
        0 => next() % 4,
        1 => most - 1 - next() % 3,
        2 => most / 2 - 4 + next() % 8,
        _ => next() % most,
    };
    // Few bits, so that sums and products are exact or halfway now and then.
    let significand = match next() % 3 {
        0 => (next() % 4) << (fraction - 2),
        1 => next() % 4,
        _ => next() | next() << 30,
    };
    (next() & 1) << (exponents + fraction) | exponent << fraction | significand & ((1 << fraction) - 1)
}

#[test]
fn exact_values_round_to_nearest_as_the_host_does() {
    let mut seed = 11;
    for _ in 0..200_000 {
        let [a, b, c] = std::array::from_fn(|_| any_bits(&mut seed, 11, 52));
        let (x, y, z) = (f64::from_bits(a), f64::from_bits(b), f64::from_bits(c));
        let got = <f64 as Float>::fma(x, y, z, Rounding::Nearest).to_bits();
        assert_eq!(got, x.mul_add(y, z).to_bits(), "{x:e} * {y:e} + {z:e}");
        assert_eq!(<f64 as Float>::add(x, z, Rounding::Nearest).to_bits(), (x + z).to_bits(), "{x:e} + {z:e}");
        assert_eq!(<f64 as Float>::mul(x, y, Rounding::Nearest).to_bits(), (x * y).to_bits(), "{x:e} * {y:e}");
        let [a, b, c] = std::array::from_fn(|_| f32::from_bits(any_bits(&mut seed, 8, 23) as u32));
        let got = <f32 as Float>::fma(a, b, c, Rounding::Nearest).to_bits();
        assert_eq!(got, a.mul_add(b, c).to_bits(), "{a:e} * {b:e} + {c:e}");
        let [a, b, c] = std::array::from_fn(|_| F16(any_bits(&mut seed, 5, 10) as u16));
        assert_eq!(<F16 as Float>::fma(a, b, c, Rounding::Nearest), F16::fma_nearest(a, b, c), "{a:?} {b:?} {c:?}");
    }
}

#[test]
fn directed_results_are_neighbours_of_the_nearest_one_also_at_the_ends_of_the_range() {
    let mut seed = 12;
    for _ in 0..200_000 {
        let [a, b, c] = std::array::from_fn(|_| f64::from_bits(any_bits(&mut seed, 11, 52)));
        let [near, up, down, zero] = [Rounding::Nearest, Rounding::Up, Rounding::Down, Rounding::Zero]
            .map(|rounding| <f64 as Float>::fma(a, b, c, rounding));
        assert!(down <= near && near <= up, "{a:e} * {b:e} + {c:e}");
        assert!(up.to_bits() == down.to_bits() || near == up || near == down, "{a:e} * {b:e} + {c:e}");
        let inward = if near.is_sign_negative() { up } else { down };
        assert_eq!(zero.abs(), inward.abs(), "{a:e} * {b:e} + {c:e}");
    }
    // What vanishes still says on which side of a number the exact value is.
    let tiny = f64::from_bits(1);
    assert_eq!(<f64 as Float>::fma(tiny, -tiny, 0.5, Rounding::Down), 0.5f64.next_down());
    assert_eq!(<f64 as Float>::mul(tiny, -tiny, Rounding::Down), -tiny);
    assert_eq!(<f64 as Float>::mul(tiny, -tiny, Rounding::Up).to_bits(), (-0f64).to_bits());
}

#[test]
fn an_exact_zero_is_negative_only_when_rounding_down() {
    fn check<T: Float>(zero: T, one: T, bits: impl Fn(T) -> bool) {
        for (rounding, negative) in [(Rounding::Up, false), (Rounding::Down, true), (Rounding::Zero, false)] {
            assert_eq!(bits(T::add(one, one.negate(), rounding)), negative);
            assert_eq!(bits(T::add(zero, zero.negate(), rounding)), negative);
            assert_eq!(bits(T::fma(one, one, one.negate(), rounding)), negative);
            assert_eq!(bits(T::fma(zero, one, zero.negate(), rounding)), negative);
            assert!(!bits(T::add(zero, zero, rounding)) && bits(T::add(zero.negate(), zero.negate(), rounding)));
            assert!(bits(T::mul(zero, one.negate(), rounding)));
        }
    }
    check(0f32, 1.0, |x| x.is_sign_negative());
    check(0f64, 1.0, |x| x.is_sign_negative());
    check(F16(0), F16(0x3c00), |x| x.0 == 0x8000);
}

#[test]
fn half_fused_products_round_once() {
    // 1 + 2^-10 squared is 1 + 2^-9 + 2^-20: with an addend of half an ulp the tail decides.
    let x = F16::from_f32(1.0 + 2f32.powi(-10));
    let c = F16::from_f32(2f32.powi(-11));
    let got = <F16 as Float>::fma_nearest(x, x, c).to_f32();
    assert_eq!(got, 1.0 + 2f32.powi(-9) + 2f32.powi(-10));
}

#[test]
fn minimum_and_maximum_order_zeros_and_prefer_numbers() {
    let ieee = Mode(1 << 9);
    let plain = Mode(0);
    let signaling = f32::from_bits(0x7f80_0001);
    for mode in [ieee, plain] {
        assert_eq!(0f32.larger(-0.0, mode).to_bits(), 0);
        assert_eq!((-0f32).larger(0.0, mode).to_bits(), 0);
        assert_eq!(0f32.smaller(-0.0, mode).to_bits(), 1 << 31);
        assert_eq!(f32::NAN.larger(1.0, mode), 1.0);
        assert_eq!(1f32.smaller(f32::NAN, mode), 1.0);
    }
    assert_eq!(signaling.larger(1.0, plain), 1.0);
    assert_eq!(signaling.larger(1.0, ieee).to_bits(), 0x7fc0_0001);
    assert_eq!(1f32.larger(signaling, ieee).to_bits(), 0x7fc0_0001);
}
