//! The processors whose instructions the tables describe, and what differs between them outside of the tables.
//!
//! Source: LLVM's AMDGPUUsage ("Processors", "Initial Kernel Execution State") and the Vega and CDNA ISA manuals.

use std::fmt;
use std::str::FromStr;

/// One processor of the gfx9 family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arch {
    /// Vega 10.
    Gfx900,
    /// Vega 20 (MI50, MI60).
    Gfx906,
    /// MI100.
    Gfx908,
    /// MI200.
    Gfx90a,
    /// MI300.
    Gfx942,
}

impl Arch {
    /// All processors that the tables know, oldest first.
    pub const ALL: [Arch; 5] = [Arch::Gfx900, Arch::Gfx906, Arch::Gfx908, Arch::Gfx90a, Arch::Gfx942];

    /// The name that compilers and the runtime use.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::Gfx900 => "gfx900",
            Arch::Gfx906 => "gfx906",
            Arch::Gfx908 => "gfx908",
            Arch::Gfx90a => "gfx90a",
            Arch::Gfx942 => "gfx942",
        }
    }

    /// True when accumulation registers are the upper part of one register file (gfx90a and later).
    pub const fn unified_registers(self) -> bool {
        matches!(self, Arch::Gfx90a | Arch::Gfx942)
    }

    /// True when multi-register VGPR operands must start at an even register (gfx90a and later).
    pub const fn aligned_vgpr_tuples(self) -> bool {
        self.unified_registers()
    }

    /// True when x, y and z of the work-item id share v0, ten bits each.
    pub const fn packed_work_item_id(self) -> bool {
        self.unified_registers()
    }

    /// True when its static memories can have error correction, the feature `sramecc` of target IDs. Boards with these
    /// processors come with it on.
    pub const fn can_correct_sram(self) -> bool {
        !matches!(self, Arch::Gfx900)
    }

    /// True when the hardware, not the kernel's prologue, sets up flat scratch and workgroup ids.
    pub const fn architected_flat_scratch(self) -> bool {
        matches!(self, Arch::Gfx942)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not the name of a processor that is known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownArch(String);

impl fmt::Display for UnknownArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = Arch::ALL.iter().map(|a| a.name()).collect();
        write!(f, "unknown processor {:?}: expected one of {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownArch {}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Arch, UnknownArch> {
        Arch::ALL.into_iter().find(|a| a.name() == text).ok_or_else(|| UnknownArch(text.to_owned()))
    }
}

/// A set of processors: the column of the tables that says where an opcode has its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchSet(u8);

impl ArchSet {
    /// Every processor.
    pub const ALL: ArchSet = ArchSet(0b11111);
    /// Vega 10 only.
    pub const ONLY_900: ArchSet = ArchSet(0b00001);
    /// Before the unified register file.
    pub const UNTIL_908: ArchSet = ArchSet(0b00111);
    /// Everything but MI300.
    pub const UNTIL_90A: ArchSet = ArchSet(0b01111);
    /// Vega 20 and later.
    pub const SINCE_906: ArchSet = ArchSet(0b11110);
    /// MI100 and later.
    pub const SINCE_908: ArchSet = ArchSet(0b11100);
    /// MI100 and MI200.
    pub const FROM_908_TO_90A: ArchSet = ArchSet(0b01100);
    /// MI200 and later.
    pub const SINCE_90A: ArchSet = ArchSet(0b11000);
    /// MI200 only.
    pub const ONLY_90A: ArchSet = ArchSet(0b01000);
    /// MI300 only.
    pub const ONLY_942: ArchSet = ArchSet(0b10000);

    /// True when `arch` is in the set.
    pub const fn contains(self, arch: Arch) -> bool {
        self.0 >> arch as u8 & 1 == 1
    }

    /// True when some processor is in both sets.
    pub const fn meets(self, other: ArchSet) -> bool {
        self.0 & other.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back_and_unknown_ones_list_what_is_known() {
        for arch in Arch::ALL {
            assert_eq!(arch.name().parse(), Ok(arch));
        }
        let error = "gfx1100".parse::<Arch>().map_err(|e| e.to_string());
        assert_eq!(
            error,
            Err("unknown processor \"gfx1100\": expected one of gfx900, gfx906, gfx908, gfx90a, gfx942".into())
        );
    }
}
