//! One clock for everything that is logged: the runtime's system clock, in nanoseconds.
//!
//! # Threads
//! Any reads; whoever writes the log calibrates.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use hsa::Api;
use logdur_journal::Records;
use logdur_journal::clock::Line;
use logdur_journal::layout::Pair;

use crate::session::lock;

/// Between two calibrations of a clock that is in use: the runtime itself corrects for drift at most 16 times a second.
const CALIBRATION: Duration = Duration::from_millis(500);

/// How far apart the two ticks of a calibration are: one second of a 100 MHz counter, long enough that the rounding of
/// the runtime's answers does not show in the slope.
const BASELINE: u64 = 100_000_000;

/// The system clock without a call of the runtime.
#[derive(Debug, Default)]
pub(crate) struct HostClock {
    /// What `CLOCK_BOOTTIME` lacks to the runtime's clock, 0 as a rule.
    offset: AtomicI64,
}

impl HostClock {
    /// Compares the host's clock with the runtime's.
    pub(crate) fn calibrate(&self, api: &Api) -> hsa::Result<()> {
        let frequency = api.timestamp_frequency()?;
        let mut best = (i64::MAX, 0);
        for _ in 0..5 {
            let before = boottime();
            let runtime = to_ns(api.timestamp()?, frequency);
            let after = boottime();
            let width = (after - before) as i64;
            if width < best.0 {
                best = (width, runtime as i64 - ((before / 2) + (after / 2)) as i64);
            }
        }
        // Within what the two readings can tell it is the same clock.
        let same = best.1.abs() <= best.0;
        self.offset.store(if same { 0 } else { best.1 }, Ordering::Relaxed);
        Ok(())
    }

    /// The runtime's system clock now, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        boottime().wrapping_add_signed(self.offset.load(Ordering::Relaxed))
    }
}

/// `CLOCK_BOOTTIME` in nanoseconds: what the kernel driver calls the system clock.
fn boottime() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn to_ns(ticks: u64, frequency: u64) -> u64 {
    if frequency == 1_000_000_000 {
        ticks
    } else {
        (u128::from(ticks) * 1_000_000_000 / u128::from(frequency.max(1))) as u64
    }
}

/// How an agent's ticks become nanoseconds of the system clock.
#[derive(Debug)]
pub(crate) struct AgentClock {
    /// In the header of the records; `None` for more agents than have room there.
    line: Option<&'static Pair<3>>,
    at: Mutex<Option<Instant>>,
}

impl AgentClock {
    /// The clock of the agent at a position.
    pub(crate) fn new(records: &Records, position: usize) -> AgentClock {
        AgentClock { line: records.header().clock(position), at: Mutex::default() }
    }

    /// True when the runtime should be asked again.
    pub(crate) fn is_old(&self) -> bool {
        lock(&self.at).is_none_or(|at| at.elapsed() >= CALIBRATION)
    }

    /// Asks the runtime. `tick` is a recent tick of the agent.
    pub(crate) fn calibrate(&self, api: &Api, agent: u64, tick: u64) -> hsa::Result<()> {
        let Some(to) = self.line else { return Ok(()) };
        let earlier = tick.saturating_sub(BASELINE);
        let frequency = api.timestamp_frequency()?;
        let ns = to_ns(api.system_tick(agent, tick)?, frequency);
        let ns_earlier = to_ns(api.system_tick(agent, earlier)?, frequency);
        if tick > earlier && ns > ns_earlier {
            let ns_per_tick = (ns - ns_earlier) as f64 / (tick - earlier) as f64;
            Line { tick, ns, ns_per_tick }.store(to);
            *lock(&self.at) = Some(Instant::now());
        }
        Ok(())
    }

    /// The line that is in force; `None` before the first calibration.
    pub(crate) fn line(&self) -> Option<Line> {
        Line::load(self.line?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_other_frequencies_become_nanoseconds() {
        assert_eq!(to_ns(u64::MAX / 2, 1_000_000_000), u64::MAX / 2);
        assert_eq!(to_ns(25_000_000, 25_000_000), 1_000_000_000);
    }
}
