//! How an agent's ticks become nanoseconds of the system clock.

use crate::layout::Pair;

/// A line through two readings of both clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// A tick of the agent.
    pub tick: u64,
    /// The same moment in nanoseconds of the system clock.
    pub ns: u64,
    /// The length of a tick.
    pub ns_per_tick: f64,
}

impl Line {
    /// The line that is in force; `None` before there is one.
    pub fn load(from: &Pair<3>) -> Option<Line> {
        let [tick, ns, ns_per_tick] = from.get()?;
        Some(Line { tick, ns, ns_per_tick: f64::from_bits(ns_per_tick) })
    }

    /// Puts it in force. One thread at a time.
    pub fn store(self, to: &Pair<3>) {
        to.set([self.tick, self.ns, self.ns_per_tick.to_bits()]);
    }

    /// A tick in nanoseconds. Two ticks that are converted with one line differ by the number of ticks times the length
    /// of one.
    pub fn to_ns(self, tick: u64) -> u64 {
        let delta = tick.wrapping_sub(self.tick) as i64;
        let ns = delta as f64 * self.ns_per_tick;
        // Rounded by the conversion, which is one instruction; `f64::round` is a call on processors without SSE 4.1.
        self.ns.saturating_add_signed((ns + 0.5_f64.copysign(ns)) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_on_both_sides_of_the_calibration_are_converted() {
        let line = Line { tick: 1_000_000, ns: 50_000_000_000, ns_per_tick: 10.0 };
        assert_eq!((line.to_ns(999_999), line.to_ns(1_000_007)), (49_999_999_990, 50_000_000_070));
    }
}
