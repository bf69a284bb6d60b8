//! Bank conflicts of each LDS instruction.

use amdgpu_emu::isa::access::{Does, LaneAccess, Space};
use amdgpu_emu::observer::Step;
use logdur_analysis::banks::{Direction, conflicts};

use crate::by_pc::ByPc;

/// What the LDS accesses of an instruction cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lds {
    /// Accesses: an instruction with two offsets does two at a time.
    pub accesses: u64,
    /// Lanes of all accesses.
    pub lanes: u64,
    /// Bytes of all lanes.
    pub bytes: u64,
    /// Conflict cycles.
    pub conflicts: u64,
    /// The most conflict cycles of one access.
    pub worst: u64,
    /// Bytes of a lane.
    pub width: u8,
    /// True for writes and atomics.
    pub writes: bool,
}

impl Lds {
    /// Adds what another worker saw.
    pub(crate) fn add(&mut self, other: &Lds) {
        self.accesses += other.accesses;
        self.lanes += other.lanes;
        self.bytes += other.bytes;
        self.conflicts += other.conflicts;
        self.worst = self.worst.max(other.worst);
        self.width = self.width.max(other.width);
        self.writes |= other.writes;
    }
}

/// One worker's LDS accesses.
pub(crate) struct LdsConflicts {
    banks: u32,
    by_pc: ByPc<Lds>,
}

impl LdsConflicts {
    /// For LDS with so many banks.
    pub(crate) fn new(banks: u32) -> LdsConflicts {
        LdsConflicts { banks, by_pc: ByPc::default() }
    }

    #[inline]
    pub(crate) fn access(&mut self, step: &Step<'_>, part: &LaneAccess) {
        if part.space != Space::Lds {
            return;
        }
        let writes = part.does != Does::Read;
        let direction = if writes { Direction::Write } else { Direction::Read };
        let cost = u64::from(conflicts(self.banks, &part.at, part.lanes, part.bytes, direction));
        let lanes = u64::from(part.lanes.count_ones());
        self.by_pc.at(step.pc).add(&Lds {
            accesses: 1,
            lanes,
            bytes: lanes * u64::from(part.bytes),
            conflicts: cost,
            worst: cost,
            width: part.bytes,
            writes,
        });
    }

    /// What was seen of each instruction.
    pub(crate) fn into_values(self) -> impl Iterator<Item = (u64, Lds)> {
        self.by_pc.into_values().filter(|(_, value)| value.accesses > 0)
    }
}
