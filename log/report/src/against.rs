//! Two runs, kernel by kernel.

use std::collections::{BTreeMap, BTreeSet};

use logdur_journal::compare::{Ratio, Samples};

use crate::rows::{Kind, Row};
use crate::twins::Names;

/// Durations of a run by kernel.
#[derive(Debug, Default)]
pub struct Run {
    names: Names,
    /// By the number of the name.
    samples: Vec<Samples>,
}

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
        let number = self.names.number(&row.kernel, &row.code, row.process);
        if self.samples.len() <= number {
            self.samples.resize_with(number + 1, Samples::default);
        }
        self.samples[number].add(duration);
    }

    /// Every kernel of this run or of `second`, by name. Kernels that share a name in a process are compared each with that of the same
    /// code object, if both runs have the same ones; else they are one.
    pub fn against(&self, second: &Run) -> Vec<Change> {
        let [mut first, mut second] = [self, second].map(Run::by_name);
        let names: BTreeSet<String> = first.keys().chain(second.keys()).cloned().collect();
        let mut changes = Vec::new();
        for name in names {
            let [first, second] = [&mut first, &mut second].map(|run| run.remove(&name).unwrap_or_default());
            if first.keys().eq(second.keys()) {
                let pairs = first.iter().zip(second.values());
                changes.extend(pairs.map(|((shown, first), second)| Change::of(shown, first, second)));
            } else {
                let [first, second] = [first, second].map(|run| {
                    let mut all = Samples::default();
                    run.values().for_each(|samples| all.merge(samples));
                    all
                });
                changes.push(Change::of(&name, &first, &second));
            }
        }
        changes
    }

    /// Durations by name, and by what tells kernels of this name apart.
    fn by_name(&self) -> BTreeMap<String, BTreeMap<String, Samples>> {
        let mut all: BTreeMap<String, BTreeMap<String, Samples>> = BTreeMap::new();
        for (number, (shown, samples)) in self.names.shown().into_iter().zip(&self.samples).enumerate() {
            let of_name = all.entry(self.names.name(number).to_owned()).or_default();
            of_name.entry(shown.name).or_default().merge(samples);
        }
        all
    }
}

impl Change {
    fn of(kernel: &str, first: &Samples, second: &Samples) -> Change {
        let counts = [first.count(), second.count()];
        Change { kernel: kernel.to_owned(), counts, ratio: Ratio::of(first, second) }
    }

    /// True if the second run is slower by more than a part of the first (0.05 is 5 %), with a confidence of 95 %.
    pub fn exceeds(&self, part: f64) -> bool {
        self.ratio.and_then(|ratio| ratio.interval).is_some_and(|(low, _)| low > 1.0 + part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::{Line, Log};

    #[test]
    fn kernels_of_one_name_are_compared_with_those_of_the_same_library() {
        let run = |libraries: [&str; 2]| {
            let mut text = "kernel,startNs,endNs,pid,code\n".to_owned();
            for (library, duration) in libraries.into_iter().zip([100, 300]) {
                for _ in 0..40 {
                    text += &format!("\"k\",1,{},7,\"{library}\"\n", duration + 1);
                }
            }
            let (mut run, mut log) = (Run::default(), Log::new(text.as_bytes()));
            while let Some(line) = log.next_line().unwrap() {
                if let Line::Row(row) = line {
                    run.add(&row);
                }
            }
            run
        };
        let [first, rebuilt, other] = [["a.so#1", "b.so#2"], ["a.so#3", "b.so#4"], ["a.so#1", "c.so#2"]].map(run);
        let short = |changes: Vec<Change>| -> Vec<(String, [u64; 2], f64)> {
            changes.into_iter().map(|c| (c.kernel, c.counts, c.ratio.unwrap().ratio)).collect()
        };
        let each = ["k [a.so]", "k [b.so]"].map(|name| (name.to_owned(), [40, 40], 1.0));
        assert_eq!(short(first.against(&rebuilt)), each);
        assert_eq!(short(first.against(&other)), [("k".to_owned(), [80, 80], 1.0)]);
    }
}
