//! One clock for everything that is logged: the runtime's system clock, in nanoseconds. Here: the GPUs' ticks.
//!
//! # Threads
//! Any thread reads; the writer of the log calibrates.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use hsa::Api;
use logdur_journal::Records;
use logdur_journal::clock::Line;
use logdur_journal::layout::Pair;

use crate::lock::lock;

/// Between two calibrations of a clock that is in use: the runtime itself corrects for drift at most 16 times a second.
const CALIBRATION: Duration = Duration::from_millis(500);

/// How far apart the two ticks of a calibration are: one second of a 100 MHz counter, long enough that the rounding of
/// the runtime's answers does not show in the slope.
const BASELINE: u64 = 100_000_000;

/// Ticks of a frequency in nanoseconds.
pub fn to_ns(ticks: u64, frequency: u64) -> u64 {
    if frequency == 1_000_000_000 {
        ticks
    } else {
        (u128::from(ticks) * 1_000_000_000 / u128::from(frequency.max(1))) as u64
    }
}

/// How an agent's ticks become nanoseconds of the system clock.
#[derive(Debug)]
pub struct AgentClock {
    /// In the header of the records; `None` for more agents than have room there.
    line: Option<&'static Pair<3>>,
    at: Mutex<Option<Instant>>,
}

impl AgentClock {
    /// The clock of the agent at a position.
    pub fn new(records: &Records, position: usize) -> AgentClock {
        AgentClock { line: records.header().clock(position), at: Mutex::default() }
    }

    /// True when the runtime should be asked again.
    pub fn is_old(&self) -> bool {
        lock(&self.at).is_none_or(|at| at.elapsed() >= CALIBRATION)
    }

    /// Asks the runtime. `tick` is a recent tick of the agent.
    pub fn calibrate(&self, api: &Api, agent: u64, tick: u64) -> hsa::Result<()> {
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
    pub fn line(&self) -> Option<Line> {
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
