//! The places that cost most, in words.

use std::collections::BTreeMap;

use logdur_analysis::operations::Group;

use crate::counts::Count;
use crate::lds::Lds;
use crate::lines::Lines;
use crate::report::{Report, file_name};

/// Cycles that a SIMD is busy with a vector instruction of a wave.
const VECTOR_CYCLES: u64 = 4;

/// A place that costs more than it had to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worst {
    /// A rough cost, to sort by: cycles of the unit that has more to do.
    pub cost: u64,
    /// What is wrong, for people.
    pub text: String,
}

/// What is added up for a source line, or for an instruction that has none.
#[derive(Default)]
struct Sums {
    text: String,
    vector: Count,
    lines: Option<Lines>,
    lds: Option<Lds>,
}

impl Report {
    /// The places that cost most, the worst first; none where nothing costs more than it had to.
    pub fn worst(&self) -> Vec<Worst> {
        let mut sums: BTreeMap<String, Sums> = BTreeMap::new();
        for inst in &self.instructions {
            let (place, text) = match &inst.source {
                Some(of) => (format!("{}:{}", file_name(&of.file), of.line), of.shown().to_owned()),
                None => (format!("{:#x}", inst.address), inst.text.clone()),
            };
            let sums = sums.entry(place).or_default();
            sums.text = text;
            if matches!(inst.group, Group::Float | Group::Vector) {
                sums.vector.add(&inst.count);
            }
            inst.lines.iter().for_each(|lines| sums.lines.get_or_insert_default().add(lines));
            inst.lds.iter().for_each(|lds| sums.lds.get_or_insert_default().add(lds));
        }
        let mut worst: Vec<Worst> = sums.iter().flat_map(|(place, sums)| sums.worst(place)).collect();
        worst.sort_by(|a, b| (b.cost, &a.text).cmp(&(a.cost, &b.text)));
        worst
    }
}

impl Sums {
    fn worst(&self, place: &str) -> Vec<Worst> {
        let shown = if self.text.is_empty() { String::new() } else { format!(" `{}`", self.text) };
        let mut all = Vec::new();
        if let Some(lines) = self.lines.filter(|lines| lines.l1 > lines.l1_least) {
            let times = lines.l1 as f64 / lines.l1_least.max(1) as f64;
            let used = 100.0 * lines.bytes as f64 / lines.l1_bytes as f64;
            all.push(Worst {
                cost: lines.l1 - lines.l1_least,
                text: format!(
                    "{place}{shown}: {times:.1}× more cache lines than its bytes need: {used:.0}% of the bytes of {} lines are used",
                    lines.l1
                ),
            });
        }
        if let Some(lds) = self.lds.filter(|lds| lds.conflicts > 0) {
            all.push(Worst {
                cost: lds.conflicts,
                text: format!(
                    "{place}{shown}: LDS bank conflicts: {} extra cycles in {} accesses, up to {} in one",
                    lds.conflicts, lds.accesses, lds.worst
                ),
            });
        }
        let idle = (64 * self.vector.executions).saturating_sub(self.vector.lanes);
        if 4 * idle > 64 * self.vector.executions {
            let active = self.vector.lanes as f64 / self.vector.executions.max(1) as f64;
            all.push(Worst {
                cost: idle * VECTOR_CYCLES / 64,
                text: format!(
                    "{place}{shown}: {active:.1} of 64 lanes are active on average in {} vector instructions",
                    self.vector.executions
                ),
            });
        }
        all
    }
}
