//! The constant-frequency counter that stamps signals.

use std::time::Duration;

/// Counts per second, as on the hardware.
pub const TICKS_PER_SECOND: u64 = 100_000_000;

/// Nanoseconds since boot, suspended time included: the runtime's system clock domain.
pub fn system_nanoseconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to fill; CLOCK_BOOTTIME exists on every supported kernel.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The GPU's counter now. It runs on the system clock, so that the two never drift.
pub fn ticks() -> u64 {
    system_nanoseconds() / (1_000_000_000 / TICKS_PER_SECOND)
}

/// A length of time in ticks.
pub fn duration_in_ticks(duration: Duration) -> u64 {
    (duration.as_nanos() * u128::from(TICKS_PER_SECOND) / 1_000_000_000) as u64
}
