//! Performance counters of the shader engines: what compute units have started while commands had the counters run.
//!
//! A counter is a row of the table here. Its number is that of `SQ_PERFCOUNTER*_SELECT`. Source: counter definitions of rocprofiler-sdk
//! (`counter_defs.yaml`), where these have the same numbers on all processors of the family.
//!
//! # Threads
//! Workers add, and the thread of the queues starts, resets and reads. A sum is complete when the dispatches that it counts have ended.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use amdgpu_isa::wave::LANES;

use crate::shape::Dies;
use crate::units::Unit;

/// A counter.
pub(crate) struct Counter {
    /// As it is selected.
    number: u32,
    /// What a wave that begins with so many work-items adds.
    adds: fn(u64) -> u64,
}

/// Those that are counted: `SQ_WAVES`, `_EQ_64`, `_LT_64`, `_LT_48`, `_LT_32`, `_LT_16`, and `SQ_ITEMS`.
const COUNTERS: [Counter; 7] = [
    Counter { number: 4, adds: |_| 1 },
    Counter { number: 6, adds: |items| u64::from(items == 64) },
    Counter { number: 7, adds: |items| u64::from(items < 64) },
    Counter { number: 8, adds: |items| u64::from(items < 48) },
    Counter { number: 9, adds: |items| u64::from(items < 32) },
    Counter { number: 10, adds: |items| u64::from(items < 16) },
    Counter { number: 14, adds: |items| items },
];

/// The counters of a GPU's shader engines.
#[derive(Debug)]
pub(crate) struct Counters {
    running: AtomicBool,
    dies: Dies,
    /// Of each shader engine of each die.
    sums: Vec<[AtomicU64; COUNTERS.len()]>,
}

impl Counters {
    /// Counters that are 0 and do not run.
    pub(crate) fn new(dies: Dies) -> Counters {
        let engines = dies.count.max(1) * dies.engines.max(1);
        Counters { running: AtomicBool::new(false), dies, sums: (0..engines).map(|_| Default::default()).collect() }
    }

    /// True for a number that is counted.
    pub(crate) fn has(number: u32) -> bool {
        COUNTERS.iter().any(|counter| counter.number == number)
    }

    /// Lets them run, or stops them.
    pub(crate) fn run(&self, on: bool) {
        self.running.store(on, Ordering::Relaxed);
    }

    /// Sets them to 0.
    pub(crate) fn reset(&self) {
        self.sums.iter().flatten().for_each(|sum| sum.store(0, Ordering::Relaxed));
    }

    /// The sum of a counter, of a shader engine of the GPU's `die`-th die; `None` if one of the three is none.
    pub(crate) fn read(&self, number: u32, die: u32, engine: u32) -> Option<u64> {
        let place = COUNTERS.iter().position(|counter| counter.number == number)?;
        let engines = self.dies.engines.max(1);
        let sums = self.sums.get((die * engines + engine) as usize).filter(|_| engine < engines)?;
        Some(sums.get(place)?.load(Ordering::Relaxed))
    }

    /// Counts the waves of a workgroup of so many work-items, which begins on a unit.
    pub(crate) fn started(&self, unit: Unit, items: u32) {
        if !self.running.load(Ordering::Relaxed) {
            return;
        }
        let place = (unit.die - self.dies.first) * self.dies.engines.max(1) + unit.engine;
        let Some(sums) = self.sums.get(place as usize) else { return };
        let (full, rest) = (u64::from(items) / LANES as u64, u64::from(items) % LANES as u64);
        for (sum, counter) in sums.iter().zip(&COUNTERS) {
            let partial = if rest > 0 { (counter.adds)(rest) } else { 0 };
            sum.fetch_add(full * (counter.adds)(LANES as u64) + partial, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_are_counted_by_size_and_place_while_counters_run() {
        let dies = Dies { first: 2, count: 3, engines: 4, units: 8 };
        let counters = Counters::new(dies);
        let unit = |die, engine| Unit { die, engine, number: 0, turn: 0 };
        counters.started(unit(2, 0), 64);
        counters.run(true);
        counters.started(unit(2, 0), 64 + 64 + 20);
        counters.started(unit(2, 0), 15);
        counters.started(unit(4, 3), 256);
        let all = |die, engine| [4, 6, 7, 8, 9, 10, 14].map(|number| counters.read(number, die, engine));
        assert_eq!(all(0, 0), [4, 2, 2, 2, 2, 1, 163].map(Some));
        assert_eq!(all(2, 3), [4, 4, 0, 0, 0, 0, 256].map(Some));
        assert_eq!(all(1, 2), [Some(0); 7]);
        assert_eq!((counters.read(4, 0, 4), counters.read(4, 3, 0), counters.read(26, 0, 0)), (None, None, None));
        counters.run(false);
        counters.started(unit(2, 0), 64);
        assert_eq!(counters.read(4, 0, 0), Some(4));
        counters.reset();
        assert_eq!(all(0, 0), [Some(0); 7]);
    }
}
