//! AMD's GPU processors: one row for each.
//!
//! A *target* is what code can be for: a name, the number in an ELF, the settings of its target ID. A *processor* is a target whose
//! instructions are known in full; its row has the target, and what differs between processors. What differs between boards with the
//! same processor is not here.
//!
//! A processor has exactly one row: that of [`Processor`] if it has one, a [`Target`] of [`targets`] otherwise.
//!
//! The crate has data only, and no dependency. Sources: LLVM's AMDGPUUsage ("Processors", "Target ID", "AMDGPU EF_AMDGPU_MACH Values",
//! "Initial Kernel Execution State"), its `AMDGPU.td` and `AMDGPUBaseInfo.cpp`, and AMD's ISA manuals. Others are named beside the fact.

#![no_std]
#![forbid(unsafe_code)]

mod arch;
mod feature;
mod target;

pub use arch::{Arch, Processor, UnknownArch};
pub use feature::{Feature, Features};
pub use target::{Messages, Target, targets};

/// Processors whose encodings are one: a number in an opcode field means one operation in all of them, if they have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Generation {
    /// Vega and CDNA.
    Gfx9,
}

impl Generation {
    /// How many there are.
    pub const COUNT: usize = 1;
}

/// How many lanes a wave has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaveSize {
    /// 64 lanes.
    W64,
}

impl WaveSize {
    /// Lanes of a wave.
    pub const fn lanes(self) -> u32 {
        match self {
            WaveSize::W64 => 64,
        }
    }

    /// Scalar registers that hold one bit for each lane.
    pub const fn mask_dwords(self) -> u32 {
        self.lanes() / 32
    }
}

/// The memory of workgroups of a compute unit. A workgroup can have all of it: `Target::lds` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lds {
    /// It is given in multiples of so many bytes.
    pub granule: u32,
    /// Banks, each a dword wide.
    pub banks: u32,
}

/// A file of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Registers of a SIMD; of vector registers, those of one lane.
    pub count: u32,
    /// They are given in multiples of this.
    pub granule: u32,
}
