//! What was observed, in the forms of omniprobe's analyzers.

use std::collections::BTreeMap;

use logdur_analysis::forms::blocks::{self, Placed};
use logdur_analysis::forms::memory::{self, Access, UNKNOWN};
use logdur_analysis::forms::{About, Out, heatmap};

use crate::report::{Instruction, Report};
use crate::{Analysis, Analyzer};

impl Analyzer {
    /// What has to be analysed for it.
    pub const fn needs(self) -> &'static [Analysis] {
        match self {
            Analyzer::MemoryAnalysis => &[Analysis::Lines, Analysis::Lds],
            // It counts pages itself.
            Analyzer::Heatmap => &[],
            Analyzer::BasicBlockAnalysis => &[Analysis::Blocks],
        }
    }

    /// The header line of its comma-separated values.
    pub const fn columns(self) -> &'static str {
        match self {
            Analyzer::MemoryAnalysis => memory::COLUMNS,
            Analyzer::Heatmap => heatmap::COLUMNS,
            Analyzer::BasicBlockAnalysis => blocks::COLUMNS,
        }
    }

    /// Writes its report.
    pub fn write(self, report: &Report, about: &About<'_>, out: &mut Out) {
        match self {
            Analyzer::MemoryAnalysis => {
                let (lines, lds) = accesses(&report.instructions);
                memory::write(about, &lines, &lds, out);
            }
            Analyzer::Heatmap => report.pages.iter().for_each(|pages| pages.write(about, out)),
            // Emulated workgroups are on no compute unit.
            Analyzer::BasicBlockAnalysis => blocks::write(about, &executed(report), &Placed::new(), out),
        }
    }
}

/// What accesses of one place and kind have in common: file, line, column, bytes of a lane, and whether they read and write.
type Key<'r> = (Option<&'r str>, u64, u64, u32, bool, bool);

/// Accesses to memory and to LDS. Those of arguments and of scratch are not in the source.
fn accesses(instructions: &[Instruction]) -> (Vec<Access>, Vec<Access>) {
    let (mut memory, mut lds) = (BTreeMap::new(), BTreeMap::new());
    for inst in instructions {
        let Some(accessed) = inst.accessed else { continue };
        if let Some(lines) = inst.lines.filter(|lines| lines.executions > lines.scratch + lines.implicit) {
            let total = &mut entry(&mut memory, inst, accessed.bytes).total;
            total.executions += lines.executions;
            total.needed += lines.l2_least;
            total.used += lines.l2;
        }
        if let Some(of) = inst.lds {
            let total = &mut entry(&mut lds, inst, of.width.into()).total;
            total.executions += of.accesses;
            total.conflicts += of.conflicts;
        }
    }
    (memory.into_values().collect(), lds.into_values().collect())
}

fn entry<'a, 'r>(all: &'a mut BTreeMap<Key<'r>, Access>, inst: &'r Instruction, bytes: u32) -> &'a mut Access {
    let (reads, writes, isa) = inst.accessed.map_or((false, false, 0), |of| (of.reads, of.writes, of.bytes));
    let (file, line) = inst.source.as_ref().map_or((None, 0), |source| (Some(&*source.file), source.line));
    all.entry((file, line, inst.column, bytes, reads, writes)).or_insert_with(|| Access {
        file: file.unwrap_or(UNKNOWN).to_owned(),
        line,
        column: inst.column,
        text: inst.source.as_ref().and_then(|source| source.text.clone()).unwrap_or_default(),
        reads,
        writes,
        bytes,
        isa: Some((isa, inst.text.clone())),
        ..Access::default()
    })
}

/// Blocks that waves entered. There are no times: the emulated GPU is no model of them.
fn executed(report: &Report) -> Vec<blocks::Block> {
    let mut all = Vec::new();
    for (number, block) in (0..).zip(&report.blocks).filter(|(_, block)| block.executions > 0) {
        let inside = |inst: &&Instruction| (block.start..block.end).contains(&inst.address);
        let (mut operations, mut places) = (BTreeMap::new(), Vec::new());
        for inst in report.instructions.iter().filter(inside) {
            let name = inst.text.split_whitespace().next().unwrap_or_default();
            *operations.entry(name.to_owned()).or_default() += 1;
            places.extend(inst.source.as_ref());
        }
        // Inlined code has lines of other places: the block is in the file of its first instruction.
        let file = places.first().map(|place| place.file.clone()).unwrap_or_default();
        let lines = || places.iter().filter(|place| place.file == file).map(|place| place.line);
        all.push(blocks::Block {
            number,
            line: lines().min().unwrap_or_default(),
            last_line: lines().max().unwrap_or_default(),
            file,
            total: blocks::Total { count: block.executions, lanes: block.lanes, duration: 0, timed: 0 },
            operations,
        });
    }
    all
}
