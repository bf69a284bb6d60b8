//! Cache lines and distinct bytes of each access to memory, and where in the buffers accesses go.

use std::ops::Range;

use amdgpu_emu::isa::access::{Does, LaneAccess, Space};
use amdgpu_emu::isa::op::Family;
use amdgpu_emu::observer::{SCRATCH_WINDOW, Step};
use logdur_analysis::lines::Bytes;
use logdur_analysis::processor::Processor;

use crate::by_pc::ByPc;
use crate::heat::{Heat, Region};

/// Bytes of a line of the scalar cache.
const SCALAR_LINE: u64 = 64;

/// What the accesses of an instruction touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// How often a wave accessed memory with it.
    pub executions: u64,
    /// Of these, accesses of scratch.
    pub scratch: u64,
    /// Accesses of what the packet leads to: arguments, the packet, the queue.
    pub implicit: u64,
    /// Lanes of all accesses.
    pub lanes: u64,
    /// Bytes of all lanes.
    pub asked: u64,
    /// Distinct bytes of each access, added up.
    pub bytes: u64,
    /// Lines of the L1 cache that each access touched, added up; of scalar loads those of the scalar cache.
    pub l1: u64,
    /// Bytes of these lines.
    pub l1_bytes: u64,
    /// The fewest lines that could have held its distinct bytes.
    pub l1_least: u64,
    /// Lines of the L2 cache.
    pub l2: u64,
    /// The fewest.
    pub l2_least: u64,
}

impl Lines {
    /// Adds what another worker saw.
    pub(crate) fn add(&mut self, other: &Lines) {
        self.executions += other.executions;
        self.scratch += other.scratch;
        self.implicit += other.implicit;
        self.lanes += other.lanes;
        self.asked += other.asked;
        self.bytes += other.bytes;
        self.l1 += other.l1;
        self.l1_bytes += other.l1_bytes;
        self.l1_least += other.l1_least;
        self.l2 += other.l2;
        self.l2_least += other.l2_least;
    }
}

/// One worker's accesses.
pub(crate) struct MemoryLines {
    processor: &'static Processor,
    by_pc: ByPc<Lines>,
    heat: Heat,
    bytes: Bytes,
    implicit: [Range<u64>; 3],
}

impl MemoryLines {
    pub(crate) fn new(processor: &'static Processor, regions: &[Region], implicit: [Range<u64>; 3]) -> MemoryLines {
        let heat = Heat::new(regions, u64::from(processor.l2_line));
        MemoryLines { processor, by_pc: ByPc::default(), heat, bytes: Bytes::default(), implicit }
    }

    /// An access of a wave of workgroup `group`.
    #[inline]
    pub(crate) fn access(&mut self, step: &Step<'_>, group: u64, part: &LaneAccess) {
        if part.space != Space::Memory {
            return;
        }
        self.bytes.clear();
        if part.step == 4 || part.bytes <= 4 {
            let length = u64::from(part.bytes);
            for lane in part.active() {
                self.bytes.push(part.at[lane], length);
            }
        } else {
            for lane in part.active() {
                part.pieces(lane).for_each(|(at, length)| self.bytes.push(at, length.into()));
            }
        }
        let first = part.at[part.lanes.trailing_zeros() as usize & 63];
        let scratch = first >= SCRATCH_WINDOW;
        self.bytes.join();
        let scalar = step.inst.op.family == Family::Smem;
        let l1_line = if scalar { SCALAR_LINE } else { self.processor.l1_line.into() };
        let l1 = self.bytes.touched(l1_line);
        let l2_line = u64::from(self.processor.l2_line);
        let l2 = if l1_line == l2_line { l1 } else { self.bytes.touched(l2_line) };
        let lanes = u64::from(part.lanes.count_ones());
        let count = self.by_pc.at(step.pc);
        count.executions += 1;
        count.scratch += u64::from(scratch);
        count.implicit += u64::from(scalar && self.implicit.iter().any(|range| range.contains(&first)));
        count.lanes += lanes;
        count.asked += lanes * u64::from(part.bytes);
        count.bytes += l1.bytes;
        count.l1 += l1.lines;
        count.l1_bytes += l1.lines * l1_line;
        count.l1_least += l1.least;
        count.l2 += l2.lines;
        count.l2_least += l2.least;
        if !scratch {
            let writes = part.does != Does::Read;
            let heat = &mut self.heat;
            self.bytes.each_line(l2_line, |line| heat.touch(line, group, writes));
        }
    }

    /// What was seen of each instruction, and of each part of the regions.
    pub(crate) fn into_values(self) -> (impl Iterator<Item = (u64, Lines)>, Heat) {
        (self.by_pc.into_values().filter(|(_, lines)| lines.executions > 0), self.heat)
    }
}
