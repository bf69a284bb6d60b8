//! The constant-frequency counter that stamps signals, and the system clock that it is compared with.
//!
//! The real clock follows the system's clock at a rate of its own. On request it runs a little faster than that rate. The deterministic
//! clock counts executed work. A dispatch starts at the end of the last one that ended, and takes one tick for each wave instruction. A
//! packet without a kernel takes none, and a copy takes one for each `BYTES_PER_TICK`. System time is a linear function of its ticks, so
//! conversions are exact. With one busy queue, ticks are the same in every run. With several (the runtime has one of its own, to load
//! code), they depend on the order in which packets end.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts per second, as on MI200 and MI300.
pub const TICKS_PER_SECOND: u64 = 100_000_000;
const NANOSECONDS_PER_TICK: u64 = 1_000_000_000 / TICKS_PER_SECOND;

/// Bytes that a copy engine moves in a tick of the deterministic clock.
pub(crate) const BYTES_PER_TICK: u64 = 256;

/// Where the deterministic clock begins: a thousand seconds after boot.
const BEGINNING: u64 = 1000 * TICKS_PER_SECOND;

/// Nanoseconds since boot, suspended time included: the runtime's system clock domain.
pub(crate) fn system_nanoseconds() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid timespec to fill; CLOCK_BOOTTIME exists on every supported kernel.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The two counters at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// The GPU's.
    pub ticks: u64,
    /// The system's, in nanoseconds.
    pub system: u64,
}

/// How fast a real clock runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// What it says: counts per second.
    pub hertz: u64,
    /// How much faster it runs than it says, in parts per million.
    pub skew: i32,
    /// By how many microseconds the system's counter is late in every third reading of both.
    pub jump: u32,
}

impl Default for Rate {
    fn default() -> Rate {
        Rate { hertz: TICKS_PER_SECOND, skew: 0, jump: 0 }
    }
}

impl Rate {
    fn ticks(self, nanoseconds: u64) -> u64 {
        // Of 2^64 nanoseconds, the product stays below 2^128 for every rate.
        let per_million = (1_000_000 + i128::from(self.skew)) as u128;
        (u128::from(nanoseconds) * u128::from(self.hertz) * per_million / 1_000_000_000_000_000) as u64
    }
}

/// The clock of a machine, shared by its GPUs.
pub struct Clock(Kind);

enum Kind {
    /// With the number of readings of both counters.
    Real(Rate, AtomicU64),
    Deterministic(Executed),
}

/// The state of the deterministic clock.
struct Executed {
    /// The last end of a packet.
    now: AtomicU64,
    /// The last reading.
    read: AtomicU64,
    /// System time at [`BEGINNING`].
    system: u64,
}

impl Clock {
    /// The clock that runs on the system's, so that the two never drift.
    pub fn real() -> Clock {
        Clock::at(Rate::default())
    }

    /// A real clock of another rate.
    pub fn at(rate: Rate) -> Clock {
        Clock(Kind::Real(rate, AtomicU64::new(0)))
    }

    /// Counts per second, as the clock says.
    pub fn hertz(&self) -> u64 {
        match &self.0 {
            Kind::Real(rate, _) => rate.hertz,
            Kind::Deterministic(_) => TICKS_PER_SECOND,
        }
    }

    /// The clock that counts what is executed. Its system time begins at the system's, its ticks always at the same.
    pub fn deterministic() -> Clock {
        let [now, read] = [BEGINNING; 2].map(AtomicU64::new);
        Clock(Kind::Deterministic(Executed { now, read, system: system_nanoseconds() }))
    }

    /// True for the clock that counts what is executed.
    pub fn is_deterministic(&self) -> bool {
        matches!(self.0, Kind::Deterministic(_))
    }

    /// The GPU's counter now.
    pub fn ticks(&self) -> u64 {
        match &self.0 {
            Kind::Real(rate, _) => rate.ticks(system_nanoseconds()),
            Kind::Deterministic(executed) => executed.now.load(Ordering::Acquire),
        }
    }

    /// Both counters. Readings of the deterministic clock grow, for the runtime divides by their difference; that moves
    /// no packet's times.
    pub fn counters(&self) -> Counters {
        match &self.0 {
            Kind::Real(rate, readings) => {
                let system = system_nanoseconds();
                // The first two are what the runtime begins with.
                let is_wrong = readings.fetch_add(1, Ordering::Relaxed) % 3 == 2;
                let late = if is_wrong { 1000 * u64::from(rate.jump) } else { 0 };
                Counters { ticks: rate.ticks(system), system: system + late }
            }
            Kind::Deterministic(executed) => {
                let now = executed.now.load(Ordering::Acquire);
                let grow = |read: u64| Some((read + 1).max(now));
                // The closure always gives a value, so the update always succeeds.
                let before = executed.read.fetch_update(Ordering::AcqRel, Ordering::Acquire, grow);
                let ticks = (before.unwrap_or_else(|read| read) + 1).max(now);
                Counters { ticks, system: executed.system + (ticks - BEGINNING) * NANOSECONDS_PER_TICK }
            }
        }
    }

    /// The end of a packet that began at `start` and executed this many wave instructions (0 without a kernel), in ticks.
    pub(crate) fn end(&self, start: u64, instructions: u64) -> u64 {
        match &self.0 {
            Kind::Real(..) => self.ticks().max(start + 1),
            Kind::Deterministic(executed) => {
                let end = start + instructions;
                executed.now.fetch_max(end, Ordering::AcqRel);
                end
            }
        }
    }

    /// A copy engine has moved so many bytes.
    pub(crate) fn copied(&self, bytes: u64) {
        if let Kind::Deterministic(executed) = &self.0 {
            executed.now.fetch_add(bytes.div_ceil(BYTES_PER_TICK), Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deterministic_clock_moves_with_packets_and_nothing_else() {
        let clock = Clock::deterministic();
        let start = clock.ticks();
        assert_eq!(clock.end(start, 17), start + 17);
        for _ in 0..100 {
            clock.counters();
        }
        assert_eq!(clock.ticks(), start + 17);
        assert_eq!(clock.end(start + 17, 0), start + 17, "a barrier takes no time");
        clock.copied(BYTES_PER_TICK + 1);
        assert_eq!(clock.ticks(), start + 19);
    }

    #[test]
    fn readings_grow_and_lie_on_one_line() {
        let clock = Clock::deterministic();
        let a = clock.counters();
        clock.end(clock.ticks(), 1_000_000);
        let b = clock.counters();
        let c = clock.counters();
        assert!(a.ticks < b.ticks && b.ticks < c.ticks);
        assert_eq!((b.system - a.system, c.system - b.system), ((b.ticks - a.ticks) * 10, (c.ticks - b.ticks) * 10));
        assert!(b.ticks >= clock.ticks(), "a reading is never before a packet that has ended");
    }

    #[test]
    fn the_real_clock_ends_after_it_starts() {
        let clock = Clock::real();
        let start = clock.ticks();
        assert!(clock.end(start, 0) > start && clock.end(start + 1_000_000_000, 0) == start + 1_000_000_001);
        let Counters { ticks, system } = clock.counters();
        assert_eq!(ticks, system / 10);
    }

    #[test]
    fn a_clock_of_another_rate_counts_by_it_and_a_skewed_one_runs_ahead() {
        let Counters { ticks, system } = Clock::at(Rate { hertz: 25_000_000, skew: 0, jump: 0 }).counters();
        assert_eq!(ticks, system / 40);
        let rate = Rate { hertz: 25_000_000, skew: 200, jump: 0 };
        assert_eq!(rate.ticks(1_000_000_000), 25_005_000);
        assert_eq!(Rate { skew: -200, ..rate }.ticks(1_000_000_000), 24_995_000);
        assert!(rate.ticks(u64::MAX) > u64::MAX / 41);
    }

    #[test]
    fn every_third_reading_of_a_clock_that_jumps_is_late() {
        let clock = Clock::at(Rate { jump: 2000, ..Rate::default() });
        let late = (0..6).map(|_| clock.counters()).map(|c| c.system / 10 - c.ticks);
        assert_eq!(late.collect::<Vec<_>>(), [0, 0, 200_000, 0, 0, 200_000]);
    }
}
