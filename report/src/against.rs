//! Two runs, kernel by kernel.

use std::collections::BTreeMap;

use logdur_journal::compare::{Ratio, Samples};

use crate::rows::{Kind, Row};

/// Durations of a run by kernel.
#[derive(Debug, Default)]
pub struct Run(BTreeMap<String, Samples>);

/// How the durations of a kernel compare.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its demangled name.
    pub kernel: String,
    /// Timed dispatches in the first run and in the second.
    pub counts: [u64; 2],
    /// The second run's median by the first's; `None` if it ran in one of them only.
    pub ratio: Option<Ratio>,
}

impl Run {
    /// Adds a dispatch, if it has times. Only dispatches are compared.
    pub fn add(&mut self, row: &Row<'_>) {
        if row.kind != Kind::Dispatch {
            return;
        }
        let Some(duration) = row.times.and_then(|(start, end)| end.checked_sub(start)) else { return };
        match self.0.get_mut(row.kernel.as_ref()) {
            Some(samples) => samples.add(duration),
            None => self.0.entry(row.kernel.clone().into_owned()).or_default().add(duration),
        }
    }

    /// Every kernel of this run or of `second`, by name.
    pub fn against(&self, second: &Run) -> Vec<Change> {
        let none = Samples::default();
        let mut kernels: Vec<&String> = self.0.keys().chain(second.0.keys()).collect();
        kernels.sort_unstable();
        kernels.dedup();
        let change = |kernel: &String| {
            let [first, second] = [self, second].map(|run| run.0.get(kernel).unwrap_or(&none));
            let counts = [first.count(), second.count()];
            Change { kernel: kernel.clone(), counts, ratio: Ratio::of(first, second) }
        };
        kernels.into_iter().map(change).collect()
    }
}

impl Change {
    /// True if the second run is slower by more than a part of the first (0.05 is 5 %), with a confidence of 95 %.
    pub fn exceeds(&self, part: f64) -> bool {
        self.ratio.and_then(|ratio| ratio.interval).is_some_and(|(low, _)| low > 1.0 + part)
    }
}
