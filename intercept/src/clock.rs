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
use logdur_system::lock;

/// Between two calibrations of a clock that is in use: the runtime itself corrects for drift at most 16 times a second.
const CALIBRATION: Duration = Duration::from_millis(500);

/// How far apart the two ticks of a calibration are: one second of a 100 MHz counter, long enough that the rounding of
/// the runtime's answers does not show in the slope.
const BASELINE: u64 = 100_000_000;

/// After a calibration that is doubted. The runtime reads both clocks anew after a sixteenth of a second.
const AGAIN: Duration = Duration::from_millis(100);
/// The error of two readings of both clocks: a calibration may differ from the one before by so many nanoseconds.
const READING_NS: f64 = 50_000.0;
/// The largest drift, in nanoseconds for each nanosecond between two calibrations.
const DRIFT: f64 = 500e-6;
/// So many calibrations that agree with each other show that a clock was set.
const AGREE: u32 = 3;

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
    state: Mutex<Calibrations>,
}

#[derive(Debug, Default)]
struct Calibrations {
    /// When the runtime is to be asked again.
    due: Option<Instant>,
    /// The last calibrations were so many nanoseconds from the line in force, and how many of them agree.
    doubted: Option<(i64, u32)>,
}

/// What a calibration says that is far from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// So many nanoseconds; the line of before stays in force.
    Doubted(i64),
    /// So many nanoseconds, several times; its line is in force now.
    Believed(i64),
}

impl AgentClock {
    /// The clock of the agent at a position.
    pub fn new(records: &Records, position: usize) -> AgentClock {
        AgentClock { line: records.header().clock(position), state: Mutex::default() }
    }

    /// True when the runtime should be asked again.
    pub fn is_old(&self) -> bool {
        lock(&self.state).due.is_none_or(|due| Instant::now() >= due)
    }

    /// Asks the runtime. `tick` is a recent tick of the agent. A driver that is interrupted between its two clocks makes the
    /// runtime's answer wrong by milliseconds, until it reads them again: such an answer is not used.
    ///
    /// # Errors
    /// When the runtime does not convert the tick.
    pub fn calibrate(&self, api: &Api, agent: u64, tick: u64) -> hsa::Result<Option<Jump>> {
        let Some(to) = self.line else { return Ok(None) };
        let earlier = tick.saturating_sub(BASELINE);
        let frequency = api.timestamp_frequency()?;
        let ns = to_ns(api.system_tick(agent, tick)?, frequency);
        let ns_earlier = to_ns(api.system_tick(agent, earlier)?, frequency);
        if tick <= earlier || ns <= ns_earlier {
            return Ok(None);
        }
        let ns_per_tick = (ns - ns_earlier) as f64 / (tick - earlier) as f64;
        let new = Line { tick, ns, ns_per_tick };
        let mut state = lock(&self.state);
        let jump = Line::load(to).and_then(|old| jump(old, new, &mut state.doubted));
        let doubted = matches!(jump, Some(Jump::Doubted(_)));
        if !doubted {
            new.store(to);
        }
        state.due = Some(Instant::now() + if doubted { AGAIN } else { CALIBRATION });
        Ok(jump)
    }

    /// The line that is in force; `None` before the first calibration.
    pub fn line(&self) -> Option<Line> {
        Line::load(self.line?)
    }
}

/// Whether a line is farther from the one in force than clocks drift.
fn jump(old: Line, new: Line, doubted: &mut Option<(i64, u32)>) -> Option<Jump> {
    let since = new.tick.abs_diff(old.tick) as f64 * old.ns_per_tick;
    let allowed = READING_NS + DRIFT * since;
    let off = new.ns as i64 - old.to_ns(new.tick) as i64;
    if off.unsigned_abs() as f64 <= allowed {
        *doubted = None;
        return None;
    }
    let times = match *doubted {
        Some((before, times)) if before.abs_diff(off) as f64 <= allowed => times + 1,
        _ => 1,
    };
    *doubted = Some((off, times)).filter(|_| times < AGREE);
    Some(if times < AGREE { Jump::Doubted(off) } else { Jump::Believed(off) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of a 100 MHz clock at a time, which is off by some nanoseconds.
    fn at(ms: u64, off: i64) -> Line {
        Line { tick: ms * 100_000, ns: (ms * 1_000_000).saturating_add_signed(off), ns_per_tick: 10.0 }
    }

    #[test]
    fn a_reading_that_is_off_by_more_than_clocks_drift_is_doubted_and_the_next_right_one_is_used() {
        let mut doubted = None;
        assert_eq!(jump(at(1000, 0), at(1500, 200_000), &mut doubted), None);
        assert_eq!(jump(at(1000, 0), at(1500, 2_000_000), &mut doubted), Some(Jump::Doubted(2_000_000)));
        assert_eq!(jump(at(1000, 0), at(1600, -3_000_000), &mut doubted), Some(Jump::Doubted(-3_000_000)));
        assert_eq!(jump(at(1000, 0), at(1700, 10_000), &mut doubted), None);
        assert_eq!(doubted, None);
    }

    #[test]
    fn a_clock_that_was_set_is_believed_after_readings_that_agree() {
        let mut doubted = None;
        let jumps: Vec<_> = [1500, 1600, 1700].map(|ms| jump(at(1000, 0), at(ms, 9_000_000), &mut doubted)).into();
        let off = 9_000_000;
        assert_eq!(jumps, [Some(Jump::Doubted(off)), Some(Jump::Doubted(off)), Some(Jump::Believed(off))]);
    }

    #[test]
    fn ticks_of_other_frequencies_become_nanoseconds() {
        assert_eq!(to_ns(u64::MAX / 2, 1_000_000_000), u64::MAX / 2);
        assert_eq!(to_ns(25_000_000, 25_000_000), 1_000_000_000);
    }
}
