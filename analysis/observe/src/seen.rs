//! The merged counts of all workers of a dispatch: the same for any number of threads.

use std::collections::BTreeMap;

use logdur_analysis::forms::heatmap::Heatmap;
use logdur_analysis::occupancy::Resources;

use crate::counts::{Count, Counts};
use crate::finding::Findings;
use crate::heat::Cell;
use crate::lds::{Lds, LdsConflicts};
use crate::lines::{Lines, MemoryLines};
use crate::pages::Pages;

/// How far races between workgroups were looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Accesses of waves that were not judged: what was not looked at may order them.
    pub not_judged: u64,
    /// Of so many pages of memory, one was looked at.
    pub share: u64,
}

/// What was seen of a dispatch.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Workgroups that were observed.
    pub workgroups: u64,
    /// Workgroups of the dispatch.
    pub total: u64,
    /// Waves that were observed, by their work-items.
    pub waves: BTreeMap<u32, u64>,
    /// What its waves and workgroups take.
    pub resources: Option<Resources>,
    /// Counts by the address of the instruction.
    pub counts: BTreeMap<u64, Count>,
    /// Accesses to memory.
    pub lines: BTreeMap<u64, Lines>,
    /// Accesses to LDS.
    pub lds: BTreeMap<u64, Lds>,
    /// Accessed parts of the regions, by the region's number and the logarithm of the part's size, then by the part's number.
    pub heat: BTreeMap<(usize, u32), BTreeMap<u64, Cell>>,
    /// Lanes by page of memory, if they were asked for.
    pub pages: Option<Heatmap>,
    /// What checks found.
    pub findings: Findings,
    /// How far races between workgroups were looked for, if they were.
    pub between: Option<Looked>,
}

impl Seen {
    /// Adds a worker's counts.
    pub(crate) fn add_counts(&mut self, counts: Counts) {
        counts.into_values().for_each(|(pc, count)| self.counts.entry(pc).or_default().add(&count));
    }

    /// Adds a worker's accesses to memory.
    pub(crate) fn add_lines(&mut self, lines: MemoryLines) {
        let (lines, heat) = lines.into_values();
        lines.for_each(|(pc, lines)| self.lines.entry(pc).or_default().add(&lines));
        for (of, n, cell) in heat.into_cells() {
            self.heat.entry(of).or_default().entry(n).or_default().add(&cell);
        }
    }

    /// Adds a worker's pages.
    pub(crate) fn add_pages(&mut self, pages: Pages) {
        let heatmap = pages.into_heatmap();
        let all = self.pages.get_or_insert_with(|| Heatmap::new(heatmap.page));
        heatmap.pages.into_iter().for_each(|(address, lanes)| all.add(address, lanes));
    }

    /// Adds a worker's accesses to LDS.
    pub(crate) fn add_lds(&mut self, lds: LdsConflicts) {
        lds.into_values().for_each(|(pc, lds)| self.lds.entry(pc).or_default().add(&lds));
    }
}
