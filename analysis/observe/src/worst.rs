//! The places that cost most, in words.

use std::collections::BTreeMap;

use logdur_analysis::occupancy::Limit;
use logdur_analysis::operations::Group;

use crate::counts::Count;
use crate::lds::Lds;
use crate::lines::Lines;
use crate::report::{Report, Totals, file_name};

/// Cycles that a SIMD is busy with a vector instruction of a wave.
const VECTOR_CYCLES: u64 = 4;

/// The least share of the whole that is told: what costs less is no hot spot.
const FLOOR: f64 = 0.01;

/// A place that costs more than it had to, or the resource that limits the waves.
#[derive(Clone, Debug, PartialEq)]
pub struct Worst {
    /// Which part of the whole it is, to sort by. Of a place, of rough cycles: four for each instruction of a wave, one for each line of
    /// the cache and access of LDS, and conflicts. Of a resource, of the slots for waves.
    pub share: f64,
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
    /// The places that cost most, and the resource that limits the waves of a SIMD, the worst first; none where nothing costs more than it
    /// had to.
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
        let Totals { executions, lines, lds, .. } = &self.totals;
        let whole = (executions * VECTOR_CYCLES + lines.l1 + lds.accesses + lds.conflicts).max(1) as f64;
        let of_place = |(cost, text): (u64, String)| {
            let share = cost as f64 / whole;
            Worst { share, text: format!("{text}; {:.0}% of all cycles, roughly", 100.0 * share) }
        };
        let mut worst: Vec<Worst> = sums.iter().flat_map(|(place, sums)| sums.worst(place)).map(of_place).collect();
        worst.extend(self.limit());
        worst.retain(|worst| worst.share >= FLOOR);
        worst.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.text.cmp(&b.text)));
        worst
    }

    /// The resource that limits the waves of a SIMD, if it is one that the kernel asks for.
    fn limit(&self) -> Option<Worst> {
        let occupancy = self.occupancy.as_ref()?;
        let asked = &occupancy.resources;
        let words = occupancy.limited_by().filter_map(|limit| match limit {
            Limit::Vgprs => Some(format!("{} {} of a wave", asked.vgprs, limit.word())),
            Limit::Sgprs => Some(format!("{} {} of a wave", asked.sgprs, limit.word())),
            Limit::Lds => Some(format!("{} bytes of {} of a workgroup", asked.lds, limit.word())),
            Limit::Waves | Limit::Workgroups => None,
        });
        let words: Vec<String> = words.collect();
        let share = 1.0 - f64::from(occupancy.waves) / f64::from(occupancy.most.max(1));
        (!words.is_empty()).then(|| Worst {
            share,
            text: format!(
                "{} leave {:.0}% of the slots for waves empty: {} of {} waves a SIMD",
                words.join(" and "),
                100.0 * share,
                occupancy.waves,
                occupancy.most
            ),
        })
    }
}

impl Sums {
    /// What each kind of waste costs, in rough cycles, and its words.
    fn worst(&self, place: &str) -> Vec<(u64, String)> {
        let shown = if self.text.is_empty() { String::new() } else { format!(" `{}`", self.text) };
        let mut all = Vec::new();
        if let Some(lines) = self.lines.filter(|lines| lines.l1 > lines.l1_least) {
            let times = lines.l1 as f64 / lines.l1_least.max(1) as f64;
            let used = 100.0 * lines.bytes as f64 / lines.l1_bytes as f64;
            let text = format!(
                "{place}{shown}: {times:.1}× more cache lines than its bytes need: {used:.0}% of the bytes of {} lines are used",
                lines.l1
            );
            all.push((lines.l1 - lines.l1_least, text));
        }
        if let Some(lds) = self.lds.filter(|lds| lds.conflicts > 0) {
            let text = format!(
                "{place}{shown}: LDS bank conflicts: {} extra cycles in {} accesses, up to {} in one",
                lds.conflicts, lds.accesses, lds.worst
            );
            all.push((lds.conflicts, text));
        }
        let idle = (64 * self.vector.executions).saturating_sub(self.vector.lanes);
        if 4 * idle > 64 * self.vector.executions {
            let active = self.vector.lanes as f64 / self.vector.executions.max(1) as f64;
            let text = format!(
                "{place}{shown}: {active:.1} of 64 lanes are active on average in {} vector instructions",
                self.vector.executions
            );
            all.push((idle * VECTOR_CYCLES / 64, text));
        }
        all
    }
}
