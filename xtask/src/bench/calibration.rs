//! What one core of this machine can do at most: fused multiply-adds of singles in registers, which matrix products are compared with.
//!
//! They are written as instructions: what a compiler makes of a loop depends on the profile that this program is built with.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Registers that are added to beside each other: more than additions are under way at a time.
#[cfg(target_arch = "x86_64")]
const REGISTERS: u64 = 12;
/// Multiply-adds of each lane of each.
#[cfg(target_arch = "x86_64")]
const ROUNDS: u64 = 200_000;

/// Multiply-adds in a second, by the widest vectors that the host has; `None` where this program has none for them.
pub(super) fn multiply_adds() -> Option<f64> {
    let start = Instant::now();
    let count = at_the_widest()?;
    Some(count as f64 / start.elapsed().as_secs_f64())
}

/// How long threads work that are compared with one.
const LONG: Duration = Duration::from_millis(20);

/// The same of so many threads that work at the same time: more than one of them reaches by what the machine's processors share.
pub(super) fn multiply_adds_of(threads: usize) -> Option<f64> {
    let together = Barrier::new(threads);
    let work = || {
        together.wait();
        let (start, mut count) = (Instant::now(), 0);
        while start.elapsed() < LONG {
            count += at_the_widest()?;
        }
        Some(count as f64 / start.elapsed().as_secs_f64())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().ok().flatten()).sum()
    })
}

/// Executes multiply-adds, and says how many.
fn at_the_widest() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            // SAFETY: the host has AVX-512 F.
            unsafe { rounds_of_v4() };
            return Some(REGISTERS * ROUNDS * 16);
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            // SAFETY: the host has AVX2 and FMA.
            unsafe { rounds_of_v3() };
            return Some(REGISTERS * ROUNDS * 8);
        }
    }
    None
}

/// A function that multiplies and adds in the first twelve registers of a width; the two behind them have the factor and the summand.
#[cfg(target_arch = "x86_64")]
macro_rules! rounds {
    ($name:ident, $features:literal, $width:literal) => {
        #[target_feature(enable = $features)]
        fn $name() {
            let ones = [1.0f32; 16];
            // SAFETY: reads `ones`, and changes the registers that are named, and flags.
            unsafe {
                std::arch::asm!(
                    concat!("vmovups ", $width, "12, [{ones}]"),
                    concat!("vmovups ", $width, "13, [{ones}]"),
                    "2:",
                    concat!("vfmadd213ps ", $width, "0, ", $width, "12, ", $width, "13"),
                    concat!("vfmadd213ps ", $width, "1, ", $width, "12, ", $width, "13"),
                    concat!("vfmadd213ps ", $width, "2, ", $width, "12, ", $width, "13"),
                    concat!("vfmadd213ps ", $width, "3, ", $width, "12, ", $width, "13"),
                    concat!("vfmadd213ps ", $width, "4, ", $width, "12, ", $width, "13"),
                    concat!("vfmadd213ps ", $width, "5, ", $width, "12, ", $width, "13"),
                    concat!("vfmadd213ps ", $width, "6, ", $width, "12, ", $width, "13"),
                    concat!("vfmadd213ps ", $width, "7, ", $width, "12, ", $width, "13"),
                    concat!("vfmadd213ps ", $width, "8, ", $width, "12, ", $width, "13"),
                    concat!("vfmadd213ps ", $width, "9, ", $width, "12, ", $width, "13"),
                    concat!("vfmadd213ps ", $width, "10, ", $width, "12, ", $width, "13"),
                    concat!("vfmadd213ps ", $width, "11, ", $width, "12, ", $width, "13"),
                    "dec {rounds}",
                    "jnz 2b",
                    ones = in(reg) ones.as_ptr(),
                    rounds = inout(reg) ROUNDS => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _,
                    out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _, out("xmm12") _, out("xmm13") _,
                    options(nostack),
                );
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
rounds!(rounds_of_v4, "avx512f", "zmm");
#[cfg(target_arch = "x86_64")]
rounds!(rounds_of_v3, "avx2,fma", "ymm");
