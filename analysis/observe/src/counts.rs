//! How often each instruction is executed, by how many lanes, and where waves go from there.

use amdgpu_emu::observer::Step;

use crate::by_pc::ByPc;

/// What is counted of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How often a wave executed it.
    pub executions: u64,
    /// Active lanes of all executions.
    pub lanes: u64,
    /// Executions without an active lane.
    pub empty: u64,
    /// Executions that went on elsewhere than behind it.
    pub taken: u64,
}

impl Count {
    /// Adds what another worker counted.
    pub(crate) fn add(&mut self, other: &Count) {
        self.executions += other.executions;
        self.lanes += other.lanes;
        self.empty += other.empty;
        self.taken += other.taken;
    }
}

/// One worker's counts.
#[derive(Default)]
pub(crate) struct Counts(ByPc<Count>);

impl Counts {
    #[inline]
    pub(crate) fn before(&mut self, step: &Step<'_>) {
        let exec = step.wave.exec();
        let count = self.0.at(step.pc);
        count.executions += 1;
        count.lanes += u64::from(exec.count_ones());
        count.empty += u64::from(exec == 0);
    }

    #[inline]
    pub(crate) fn after(&mut self, step: &Step<'_>) {
        if step.wave.pc != step.pc.wrapping_add(step.inst.size.into()) {
            self.0.at(step.pc).taken += 1;
        }
    }

    /// What was seen of each instruction.
    pub(crate) fn into_values(self) -> impl Iterator<Item = (u64, Count)> {
        self.0.into_values().filter(|(_, value)| value.executions > 0)
    }
}
