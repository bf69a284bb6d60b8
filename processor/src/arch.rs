//! The processors whose instructions are known in full, and the row of each.

extern crate alloc;

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

use crate::feature::{Feature, Features};
use crate::target::{Messages, Target};
use crate::{Generation, Lds, Registers, WaveSize};

/// What differs between processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its names and numbers, and the settings of its target ID.
    pub target: Target,
    /// Whose encodings it has.
    pub generation: Generation,
    /// What a wave can be, the usual one first. Source: `AMDGPU.td`, `FeatureWavefrontSize64`.
    pub wave_sizes: &'static [WaveSize],
    /// What it has and others lack. Source: `AMDGPU.td`, the sets `FeatureISAVersion*`.
    pub features: Features,
    /// Source: AMDGPUUsage, "Kernel Descriptor", GRANULATED_LDS_SIZE, and `AMDGPU.td`, `FeatureLDSBankCount32`.
    pub lds: Lds,
    /// Source: `AMDGPUBaseInfo.cpp`, `getTotalNumVGPRs` and `getVGPRAllocGranule`.
    pub vgprs: Registers,
    /// Source: `AMDGPUBaseInfo.cpp`, `getTotalNumSGPRs` and `getSGPRAllocGranule`.
    pub sgprs: Registers,
    /// SIMDs of a compute unit. Source: `AMDGPUBaseInfo.cpp`, `getEUsPerCU`.
    pub simds: u32,
    /// Waves of a SIMD at most. Source: `AMDGPUBaseInfo.cpp`, `getMaxWavesPerEU`.
    pub waves: u32,
    /// Workgroups of a compute unit at most, of those with more than one wave. Source: `AMDGPUBaseInfo.cpp`, `getMaxWorkGroupsPerCU`.
    pub workgroups: u32,
    /// Bytes of a line of the vector L1 cache. Source: the Linux kernel's `kfd_crat.c`, and the documents of rocprof-compute.
    pub l1_line: u32,
    /// Bytes of a line of the L2 cache. Source: as `l1_line`.
    pub l2_line: u32,
}

macro_rules! processors {
    ($($(#[doc = $doc:literal])+ $name:ident = $row:expr;)*) => {
        /// A processor whose instructions are known in full: the number of its row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Arch { $($(#[doc = $doc])+ $name,)* }

        impl Arch {
            /// How many there are.
            pub const COUNT: usize = [$(Arch::$name),*].len();
            /// All of them, those of a generation oldest first.
            pub const ALL: [Arch; Arch::COUNT] = [$(Arch::$name),*];
        }

        static ROWS: [Processor; Arch::COUNT] = [$($row),*];
    };
}

use Feature::*;

processors! {
    /// Vega 10.
    Gfx900 = Processor {
        target: Target::new(0x2c, "gfx900").family("gfx9-generic").xnack().messages(Messages::Unnumbered),
        features: Features::of(&[MadMixInsts, MadMacF32Insts, ImageInsts, ExtendedImageInsts]),
        ..VEGA
    };
    /// Vega 20 (MI50, MI60).
    Gfx906 = Processor {
        target: Target::new(0x2f, "gfx906").family("gfx9-generic").xnack().sramecc().messages(Messages::Number(1)),
        features: Features::of(&[FmaMixInsts, MadMacF32Insts, ImageInsts, ExtendedImageInsts]),
        ..VEGA
    };
    /// MI100.
    Gfx908 = Processor {
        target: Target::new(0x30, "gfx908").xnack().sramecc().messages(Messages::Number(2)),
        features: Features::of(&[FmaMixInsts, MadMacF32Insts, ImageInsts, ExtendedImageInsts, AtomicFaddNoRtnInsts]),
        ..VEGA
    };
    /// MI200.
    Gfx90a = Processor {
        target: Target::new(0x3f, "gfx90a").xnack().sramecc().messages(Messages::Number(3)),
        features: Features::of(&[
            FmaMixInsts, MadMacF32Insts, ImageInsts, AtomicFaddNoRtnInsts, AtomicFaddRtnInsts, Gfx90aInsts,
            RequiresAlignedVgprs, PackedTid, FlushesHalfProducts,
        ]),
        ..CDNA
    };
    /// MI300.
    Gfx942 = Processor {
        target: Target::new(0x4c, "gfx942").family("gfx9-4-generic").xnack().sramecc().messages(Messages::Number(6)),
        features: Features::of(&[
            FmaMixInsts, AtomicFaddNoRtnInsts, AtomicFaddRtnInsts, MemoryAtomicFAddF32DenormalSupport, Gfx90aInsts, Gfx940Insts,
            RequiresAlignedVgprs, PackedTid, ArchitectedFlatScratch, Fp8Insts, Fp8ConversionInsts, Xf32Insts,
        ]),
        l1_line: 128,
        ..CDNA
    };
    /// MI350.
    Gfx950 = Processor {
        target: Target::new(0x4f, "gfx950").family("gfx9-4-generic").lds(160 << 10).xnack().sramecc().messages(Messages::Unnumbered),
        features: Features::of(&[
            FmaMixInsts, AtomicFaddNoRtnInsts, AtomicFaddRtnInsts, MemoryAtomicFAddF32DenormalSupport, Gfx90aInsts, Gfx940Insts,
            Gfx950Insts, RequiresAlignedVgprs, PackedTid, ArchitectedFlatScratch, Fp8Insts, Fp8ConversionInsts, OcpFp8,
        ]),
        lds: Lds { granule: 1280, banks: 64 },
        l1_line: 128,
        ..CDNA
    };
}

/// What processors before the unified register file have in common, but for their target and features.
const VEGA: Processor = Processor {
    target: Target::new(0, ""),
    generation: Generation::Gfx9,
    wave_sizes: &[WaveSize::W64],
    features: Features::of(&[]),
    lds: Lds { granule: 512, banks: 32 },
    vgprs: Registers { count: 256, granule: 4 },
    sgprs: Registers { count: 800, granule: 16 },
    simds: 4,
    waves: 10,
    workgroups: 16,
    l1_line: 64,
    l2_line: 64,
};

/// What differs from [`VEGA`] in processors with the unified register file.
const CDNA: Processor = Processor { vgprs: Registers { count: 512, granule: 8 }, waves: 8, l2_line: 128, ..VEGA };

impl Processor {
    /// True when accumulation registers are the upper part of one register file.
    pub const fn unified_registers(&self) -> bool {
        self.features.has(Feature::Gfx90aInsts)
    }

    /// The usual size of a wave.
    pub const fn wave_size(&self) -> WaveSize {
        self.wave_sizes[0]
    }

    /// Waves that a compute unit holds at a time.
    pub const fn waves_of_compute_unit(&self) -> u32 {
        self.simds * self.waves
    }
}

impl Arch {
    /// Its row.
    pub const fn row(self) -> &'static Processor {
        &ROWS[self as usize]
    }

    /// The name that compilers and the runtime use.
    pub const fn name(self) -> &'static str {
        self.row().target.name
    }

    /// True when it has the feature.
    pub const fn has(self, feature: Feature) -> bool {
        self.row().features.has(feature)
    }

    /// That of a number in the lowest byte of an ELF's `e_flags`.
    pub fn of_machine(machine: u8) -> Option<Arch> {
        Arch::ALL.into_iter().find(|arch| arch.row().target.machine == machine)
    }

    /// True when accumulation registers are the upper part of one register file.
    pub const fn unified_registers(self) -> bool {
        self.row().unified_registers()
    }

    /// True when multi-register VGPR operands must start at an even register.
    pub const fn aligned_vgpr_tuples(self) -> bool {
        self.has(Feature::RequiresAlignedVgprs)
    }

    /// True when x, y and z of the work-item id share v0, ten bits each.
    pub const fn packed_work_item_id(self) -> bool {
        self.has(Feature::PackedTid)
    }

    /// True when its static memories can have error correction, the feature `sramecc` of target IDs. Boards with these
    /// processors come with it on.
    pub const fn can_correct_sram(self) -> bool {
        self.row().target.sramecc
    }

    /// True when memory makes zeros of denormals in sums of singles, whatever the mode.
    pub const fn flushes_float_atomics(self) -> bool {
        self.has(Feature::AtomicFaddNoRtnInsts) && !self.has(Feature::MemoryAtomicFAddF32DenormalSupport)
    }

    /// True when products of matrices and dot products read denormal halves and bfloats as zero, and take and give no denormal sums
    /// of them.
    pub const fn flushes_half_products(self) -> bool {
        self.has(Feature::FlushesHalfProducts)
    }

    /// True when floats of eight bits are those of the Open Compute Project: with minus zero, and one of the formats with infinities.
    pub const fn has_ocp_fp8(self) -> bool {
        self.has(Feature::OcpFp8)
    }

    /// True when the hardware, not the kernel's prologue, sets up flat scratch and workgroup ids.
    pub const fn architected_flat_scratch(self) -> bool {
        self.has(Feature::ArchitectedFlatScratch)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not the name of a processor that is known in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownArch(String);

impl fmt::Display for UnknownArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown processor {:?}: expected one of {}", self.0, Arch::ALL.map(Arch::name).join(", "))
    }
}

impl core::error::Error for UnknownArch {}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Arch, UnknownArch> {
        Arch::ALL.into_iter().find(|a| a.name() == text).ok_or_else(|| UnknownArch(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn names_parse_back_and_unknown_ones_list_what_is_known() {
        for arch in Arch::ALL {
            assert_eq!(arch.name().parse(), Ok(arch));
            assert_eq!(Arch::of_machine(arch.row().target.machine), Some(arch));
        }
        let error = "gfx1100".parse::<Arch>().map_err(|e| e.to_string());
        let known = Arch::ALL.map(Arch::name).join(", ");
        assert_eq!(error, Err(std::format!("unknown processor \"gfx1100\": expected one of {known}")));
        assert!(known.starts_with("gfx900, gfx906, gfx908, gfx90a, gfx942, gfx950"));
    }

    #[test]
    fn processors_of_a_generation_are_in_the_order_of_their_numbers() {
        let versions = Arch::ALL.map(|arch| (arch.row().generation as u32, arch.row().target.version()));
        assert!(versions.is_sorted(), "{versions:?}");
    }
}
