//! What kernels of running processes take, as the processes tell it.

use std::collections::{BTreeMap, HashMap};

use anyhow::Result;
use logdur_settings::{Answer, Request};
use serde_json::{Value, json};

use crate::attached::{Attached, ask_each};
use crate::cmd::summary::{Title, aligned, time};

/// The kernels that a table shows.
const SHOWN: usize = 10;

/// What one kernel took, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    count: u64,
    total: u64,
    longest: u64,
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.count += other.count;
        self.total += other.total;
        self.longest = self.longest.max(other.longest);
    }
}

/// What one process has told last.
#[derive(Clone, Debug, Default)]
struct Told {
    elapsed: u64,
    busy: u64,
    gpus: u64,
    /// Of all kernels: one that is not among those that are named counts, too.
    count: u64,
    total: u64,
    kernels: HashMap<String, Sum>,
}

impl Told {
    fn of(answers: Vec<Answer>) -> Told {
        let mut told = Told::default();
        for answer in answers {
            match answer {
                Answer::Totals { count, total, elapsed, busy, gpus } => {
                    told = Told { elapsed, busy, gpus, count, total, ..told };
                }
                Answer::Kernel { count, total, longest, name } => {
                    told.kernels.entry(name).or_default().add(Sum { count, total, longest });
                }
                _ => {}
            }
        }
        told
    }
}

/// The totals of some processes since they were asked first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals(BTreeMap<u32, Told>);

impl Totals {
    /// Asks all processes, as [`ask_each`] does; what those told that have ended stays.
    ///
    /// # Errors
    /// When the only one does not answer.
    pub(crate) fn refresh(&mut self, processes: &mut Vec<Attached>) -> Result<()> {
        ask_each(processes, &Request::Totals, |pid, answers| {
            self.0.insert(pid, Told::of(answers));
            Ok(())
        })
    }

    /// What came since an earlier answer.
    pub(crate) fn since(&self, before: &Totals) -> Totals {
        let of = |(pid, now): (&u32, &Told)| {
            let Some(then) = before.0.get(pid) else { return (*pid, now.clone()) };
            let kernels = now.kernels.iter().filter_map(|(name, sum)| {
                let then = then.kernels.get(name).copied().unwrap_or_default();
                let (count, total) = (sum.count - then.count.min(sum.count), sum.total - then.total.min(sum.total));
                (count > 0).then(|| (name.clone(), Sum { count, total, longest: sum.longest }))
            });
            let told = Told {
                elapsed: now.elapsed.saturating_sub(then.elapsed),
                busy: now.busy.saturating_sub(then.busy),
                gpus: now.gpus,
                count: now.count - then.count.min(now.count),
                total: now.total - then.total.min(now.total),
                kernels: kernels.collect(),
            };
            (*pid, told)
        };
        Totals(self.0.iter().map(of).collect())
    }

    /// As a table in so many columns of text, or as one object.
    pub(crate) fn shown(&self, json: bool, width: usize) -> Vec<String> {
        if json { vec![self.summed().json().to_string()] } else { self.summed().table(width) }
    }

    fn summed(&self) -> Summed {
        let Totals(told) = self;
        let mut kernels: BTreeMap<&str, Sum> = BTreeMap::new();
        for (name, sum) in told.values().flat_map(|told| &told.kernels) {
            kernels.entry(name).or_default().add(*sum);
        }
        let mut kernels: Vec<(String, Sum)> = kernels.into_iter().map(|(name, sum)| (name.to_owned(), sum)).collect();
        kernels.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.total));
        let elapsed = told.values().map(|told| told.elapsed).max().unwrap_or(0) as f64 / 1e9;
        let busy: u64 = told.values().map(|told| told.busy).sum();
        let time: f64 = told.values().map(|told| (told.elapsed * told.gpus) as f64).sum();
        let count: u64 = told.values().map(|told| told.count).sum();
        Summed {
            elapsed,
            count,
            total: told.values().map(|told| told.total).sum(),
            rate: if elapsed == 0.0 { 0.0 } else { count as f64 / elapsed },
            busy: if time == 0.0 { 0.0 } else { busy as f64 / time },
            kernels,
        }
    }
}

/// What all processes took together.
struct Summed {
    /// In seconds.
    elapsed: f64,
    count: u64,
    /// In nanoseconds.
    total: u64,
    /// Dispatches in a second.
    rate: f64,
    /// The share of the time in which a GPU ran a dispatch.
    busy: f64,
    /// The longest total first.
    kernels: Vec<(String, Sum)>,
}

impl Summed {
    fn json(&self) -> Value {
        let kernel = |(name, sum): &(String, Sum)| {
            let mean = sum.total as f64 / sum.count.max(1) as f64;
            json!({ "name": name, "calls": sum.count, "totalNs": sum.total, "meanNs": mean, "longestNs": sum.longest })
        };
        json!({
            "seconds": self.elapsed, "dispatches": self.count, "perSecond": self.rate, "busy": self.busy,
            "totalNs": self.total, "kernels": self.kernels.iter().map(kernel).collect::<Vec<_>>(),
        })
    }

    /// A line for all of it, and a table of the kernels that took longest.
    fn table(&self, width: usize) -> Vec<String> {
        let Summed { elapsed, count, total, rate, busy, kernels } = self;
        let mut lines = vec![format!("{count} dispatches in {elapsed:.1} s, {rate:.0}/s, busy {:.1}%", 100.0 * busy)];
        let sorted = kernels.get(..SHOWN).unwrap_or(kernels);
        if sorted.is_empty() {
            return lines;
        }
        let header = ["total", "share", "calls", "mean", "longest"].map(|title| Title(title, 0));
        let row = |(_, sum): &(String, Sum)| {
            vec![
                time(sum.total as f64),
                format!("{:.1}%", 100.0 * sum.total as f64 / (*total).max(1) as f64),
                sum.count.to_string(),
                time(sum.total as f64 / sum.count as f64),
                time(sum.longest as f64),
            ]
        };
        let rows: Vec<Vec<String>> = sorted.iter().map(row).collect();
        lines.extend(aligned(&header, &rows, "kernel", sorted.iter().map(|(name, _)| name.clone()), width));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(elapsed: u64, busy: u64, kernels: &[(&str, [u64; 3])]) -> Told {
        let sum =
            |&(name, [count, total, longest]): &(&str, [u64; 3])| (name.to_owned(), Sum { count, total, longest });
        let (count, total) = kernels.iter().fold((0, 0), |(a, b), (_, [count, total, _])| (a + count, b + total));
        Told { elapsed, busy, gpus: 1, count, total, kernels: kernels.iter().map(sum).collect() }
    }

    #[test]
    fn kernels_of_several_processes_are_added_up_and_the_longest_total_comes_first() {
        let first = Totals(BTreeMap::from([(1, told(1_000_000_000, 250_000_000, &[("a", [10, 100, 30])]))]));
        let mut second = first.clone();
        second.0.insert(1, told(3_000_000_000, 750_000_000, &[("a", [20, 400, 50]), ("b", [1, 900, 900])]));
        second.0.insert(2, told(2_000_000_000, 0, &[("a", [5, 1000, 500])]));
        let table = second.summed().table(usize::MAX);
        assert_eq!(table[0], "26 dispatches in 3.0 s, 9/s, busy 15.0%");
        assert_eq!(table[2], "1.40 µs  60.9%     25   56 ns   500 ns  a");
        assert_eq!(table[3], " 900 ns  39.1%      1  900 ns   900 ns  b");
        let since = second.since(&first);
        assert_eq!(since.summed().table(usize::MAX)[0], "16 dispatches in 2.0 s, 8/s, busy 12.5%");
        assert_eq!(Totals::default().summed().table(80), ["0 dispatches in 0.0 s, 0/s, busy 0.0%"]);
    }
}
