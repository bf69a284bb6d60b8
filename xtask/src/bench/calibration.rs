//! What one core of this machine can do at most: fused multiply-adds of singles in registers, which matrix products are compared with.

use std::hint::black_box;
use std::time::Instant;

/// Singles that are summed beside each other: more host vectors than are added to at a time.
const LANES: usize = 192;
/// Multiply-adds of each.
const ROUNDS: usize = 200_000;

/// Multiply-adds in a second, by the widest vectors that the host has.
pub(super) fn multiply_adds() -> f64 {
    let start = Instant::now();
    black_box(at_the_widest(black_box(0.5)));
    (LANES * ROUNDS) as f64 / start.elapsed().as_secs_f64()
}

fn at_the_widest(factor: f32) -> f32 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the host has AVX-512 F.
            return unsafe { sums_v4(factor) };
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: the host has AVX2 and FMA.
            return unsafe { sums_v3(factor) };
        }
    }
    sums(factor)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sums_v4(factor: f32) -> f32 {
    sums(factor)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn sums_v3(factor: f32) -> f32 {
    sums(factor)
}

#[inline(always)]
fn sums(factor: f32) -> f32 {
    let mut sums = [1.0f32; LANES];
    for _ in 0..ROUNDS {
        for sum in &mut sums {
            *sum = sum.mul_add(factor, 1.0);
        }
    }
    sums.iter().sum()
}
