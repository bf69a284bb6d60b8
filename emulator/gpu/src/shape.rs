//! What a GPU is made of.

use amdgpu_isa::Arch;
use amdgpu_isa::arch::Feature;

/// What a GPU is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The processor.
    pub arch: Arch,
    /// Its static memories have error correction on, the feature `sramecc+` of its target ID.
    pub sramecc: bool,
    /// Compute units that workgroups are resident on.
    pub compute_units: u32,
    /// The dies with compute units.
    pub dies: Dies,
}

/// The dies with compute units (XCCs) of a GPU, or of a partition of one: all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dies {
    /// The number of the first one, as `HW_REG_XCC_ID` has it. Partitions of one board have other dies.
    pub first: u32,
    /// How many there are.
    pub count: u32,
    /// Shader engines of a die.
    pub engines: u32,
    /// Compute units of a die.
    pub units: u32,
}

impl Dies {
    /// Those of a board of that processor, where nothing says which: 32 compute units in four shader engines, on eight dies where
    /// waves can read their die's number.
    pub fn of(arch: Arch) -> Dies {
        let count = if arch.has(Feature::Gfx940Insts) { 8 } else { 1 };
        Dies { first: 0, count, engines: 4, units: 32 }
    }
}

impl Shape {
    /// A GPU on dies that are usual for its processor.
    pub fn new(arch: Arch, sramecc: bool, compute_units: u32) -> Shape {
        Shape { arch, sramecc, compute_units, dies: Dies::of(arch) }
    }
}
