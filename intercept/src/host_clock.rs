//! When doorbells are rung: a counter that costs little to read, and how it becomes nanoseconds.
//!
//! The counter is the processor's time stamp counter where the kernel itself keeps time by it, else the system clock.
//! The writer of the log reads both clocks every time, so that what was counted meanwhile lies between two readings.
//!
//! # Threads
//! Any reads the counter; one at a time reads both clocks.

use std::convert::Infallible;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

use hsa::Api;
use logdur_journal::Records;
use logdur_journal::clock::Line;
use logdur_journal::layout::Pair;
use logdur_system::lock;

use crate::clock::to_ns;

/// Nanoseconds between two readings that the length of a tick is told from, at least, once there are such.
const BASELINE: u64 = 1_000_000_000;
/// Two readings of a clock around one of another; the nearest of so many are taken.
const TRIES: usize = 5;
/// Where none of them is as near as this, in nanoseconds, the thread was interrupted in each: there are more, up to `MOST_TRIES`.
const NEAR: u64 = 1000;
const MOST_TRIES: usize = 20;

/// The runtime's system clock without a call of the runtime.
#[derive(Debug)]
pub struct HostClock {
    counter: Counter,
    line: &'static Pair<3>,
    readings: Mutex<Readings>,
}

/// What is read when a doorbell is rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counter {
    #[cfg(target_arch = "x86_64")]
    TimeStamp,
    /// `CLOCK_BOOTTIME`.
    System,
}

/// Both clocks at a moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    ticks: u64,
    ns: u64,
}

#[derive(Debug)]
struct Readings {
    /// What `CLOCK_BOOTTIME` lacks to the runtime's clock, 0 as a rule.
    offset: i64,
    /// The length of a tick is told from the first of these and the newest reading.
    base: [Reading; 2],
}

/// The runtime's system clock and the time of day at one moment: what times of a log or a capture are as wall time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockPair {
    /// `HSA_SYSTEM_INFO_TIMESTAMP`, in nanoseconds.
    pub system_ns: u64,
    /// Nanoseconds since 1970.
    pub wall_ns: u64,
}

impl ClockPair {
    /// Both clocks now.
    ///
    /// # Errors
    /// When the runtime is not initialised.
    pub fn now(api: &Api) -> hsa::Result<ClockPair> {
        let frequency = api.timestamp_frequency()?;
        let pair = nearest(|| {
            let before = boottime();
            let system_ns = to_ns(api.timestamp()?, frequency);
            let wall_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
            Ok((boottime() - before, ClockPair { system_ns, wall_ns }))
        })?;
        Ok(pair.1)
    }
}

impl HostClock {
    /// The best counter that the machine has; its line to nanoseconds goes into the header of the records.
    pub fn new(records: &'static Records) -> HostClock {
        let counter = Counter::best();
        let first = counter.reading().1;
        let readings = Mutex::new(Readings { offset: 0, base: [first; 2] });
        HostClock { counter, line: records.header().host_clock(), readings }
    }

    /// Compares the host's clock with the runtime's; what that says counts from the next calibration on.
    pub fn compare(&self, api: &Api) -> hsa::Result<()> {
        let frequency = api.timestamp_frequency()?;
        let (width, offset) = nearest(|| {
            let before = boottime();
            let runtime = to_ns(api.timestamp()?, frequency);
            let width = boottime() - before;
            Ok((width, runtime as i64 - (before + width / 2) as i64))
        })?;
        // Within what the two readings can tell it is the same clock.
        let same = offset.unsigned_abs() <= width;
        lock(&self.readings).offset = if same { 0 } else { offset };
        Ok(())
    }

    /// A reading of `CLOCK_BOOTTIME` in nanoseconds of the runtime's clock.
    pub fn of_boot_time(&self, ns: u64) -> u64 {
        ns.saturating_add_signed(lock(&self.readings).offset)
    }

    /// The counter now.
    #[inline]
    pub fn ticks(&self) -> u64 {
        self.counter.ticks()
    }

    /// Reads both clocks: from now on ticks are converted by what they say. Only for the writer of the log, when no row is
    /// being written: recovery makes the same rows again.
    pub fn calibrate(&self) {
        let mut readings = lock(&self.readings);
        let now = self.counter.reading().1;
        if let Some(line) = readings.line_to(now) {
            line.store(self.line);
        }
    }

    /// The line that is in force; `None` before the first calibration.
    pub fn line(&self) -> Option<Line> {
        Line::load(self.line)
    }
}

impl Readings {
    /// The line through the base and a new reading, which becomes part of the base in time. `None` if it cannot be told.
    fn line_to(&mut self, now: Reading) -> Option<Line> {
        let [base, next] = self.base;
        if now.ticks < base.ticks || now.ns < base.ns {
            // A counter that starts anew when the machine has slept.
            self.base = [now; 2];
            return None;
        }
        if now.ns - next.ns >= BASELINE {
            self.base = [next, now];
        }
        let ticks = now.ticks - base.ticks;
        (ticks > 0).then(|| Line {
            tick: now.ticks,
            ns: now.ns.saturating_add_signed(self.offset),
            ns_per_tick: (now.ns - base.ns) as f64 / ticks as f64,
        })
    }
}

impl Counter {
    /// The cheapest counter that all processors agree on.
    fn best() -> Counter {
        #[cfg(target_arch = "x86_64")]
        if keeps_time_by_the_time_stamp() {
            return Counter::TimeStamp;
        }
        Counter::System
    }

    #[inline]
    fn ticks(self) -> u64 {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 processor has the instruction.
            Counter::TimeStamp => unsafe { std::arch::x86_64::_rdtsc() },
            Counter::System => boottime(),
        }
    }

    /// Both clocks at one moment, behind how many nanoseconds that moment may have taken.
    fn reading(self) -> (u64, Reading) {
        let once = || {
            let (before, ticks, after) = (boottime(), self.ticks(), boottime());
            // The one clock is the other: the same number for both.
            let ns = if self == Counter::System { ticks } else { before + (after - before) / 2 };
            Ok::<_, Infallible>((after - before, Reading { ticks, ns }))
        };
        let Ok(reading) = nearest(once);
        reading
    }
}

/// The nearest of several readings of two clocks, each behind its width in nanoseconds.
fn nearest<R, E>(mut once: impl FnMut() -> Result<(u64, R), E>) -> Result<(u64, R), E> {
    let mut best = once()?;
    for n in 1..MOST_TRIES {
        if n >= TRIES && best.0 <= NEAR {
            break;
        }
        let other = once()?;
        if other.0 < best.0 {
            best = other;
        }
    }
    Ok(best)
}

/// True when the kernel has found the counters of all processors to go together, and does not stop watching them.
#[cfg(target_arch = "x86_64")]
fn keeps_time_by_the_time_stamp() -> bool {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .is_ok_and(|name| name.trim() == "tsc")
}

/// `CLOCK_BOOTTIME` in nanoseconds: what the kernel driver calls the system clock.
fn boottime() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ticks_of_either_counter_become_the_time_at_which_they_were_counted() {
        for counter in [Counter::best(), Counter::System] {
            let (_, first) = counter.reading();
            let mut readings = Readings { offset: 1000, base: [first; 2] };
            std::thread::sleep(Duration::from_millis(20));
            let (width, asked) = counter.reading();
            std::thread::sleep(Duration::from_millis(20));
            let (last_width, last) = counter.reading();
            let line = readings.line_to(last).expect("a line");
            let off = line.to_ns(asked.ticks).abs_diff(asked.ns + 1000);
            // A reading is as good as the time that it took; a thread may have been interrupted in each.
            assert!(off <= 1 + width + last_width, "{counter:?}: {off} ns off, readings took {width} and {last_width}");
        }
    }

    #[test]
    fn readings_that_were_interrupted_are_repeated_until_one_was_not() {
        let nearest_of = |mut width: Box<dyn FnMut(usize) -> u64>| {
            let mut taken = 0;
            let best = nearest(|| {
                taken += 1;
                Ok::<_, Infallible>((width(taken), taken))
            });
            (best, taken)
        };
        assert_eq!(nearest_of(Box::new(|n| 100 - n as u64)), (Ok((95, 5)), TRIES));
        assert_eq!(nearest_of(Box::new(|n| if n == 9 { 70 } else { 90_000 })), (Ok((70, 9)), 9));
        assert_eq!(nearest_of(Box::new(|n| 90_000 + n as u64)), (Ok((90_001, 1)), MOST_TRIES));
    }

    #[test]
    fn a_counter_that_starts_anew_is_not_converted_by_what_was_before() {
        let at = |ticks, ns| Reading { ticks, ns };
        let mut readings = Readings { offset: 0, base: [at(5000, 100); 2] };
        assert_eq!(readings.line_to(at(10, 200)), None);
        let line = readings.line_to(at(30, 240)).expect("a line");
        assert_eq!((line.ns_per_tick, line.to_ns(20)), (2.0, 220));
    }

    #[test]
    fn the_length_of_a_tick_is_told_from_readings_that_are_a_second_apart() {
        let at = |ms: u64| Reading { ticks: ms * 3_000_000, ns: ms * 1_000_000 };
        let mut readings = Readings { offset: 0, base: [at(0); 2] };
        for ms in (20..4000).step_by(20) {
            readings.line_to(at(ms));
        }
        let [base, next] = readings.base.map(|r| r.ns / 1_000_000);
        assert_eq!((base, next), (2000, 3000));
    }
}
