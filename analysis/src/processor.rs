//! The properties of processors that the models need.

use amdgpu_isa::Arch;

/// Sizes of a processor that models need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Bytes of a line of the vector L1 cache.
    pub l1_line: u32,
    /// Bytes of a line of the L2 cache.
    pub l2_line: u32,
    /// Waves of a SIMD at most.
    pub waves: u32,
    /// Vector registers of a SIMD, of one lane.
    pub vgprs: u32,
    /// Vector registers are given in multiples of this.
    pub vgpr_granule: u32,
    /// Accumulation registers are in the same file.
    pub unified: bool,
    /// Scalar registers of a SIMD.
    pub sgprs: u32,
    /// Scalar registers are given in multiples of this.
    pub sgpr_granule: u32,
    /// Bytes of LDS of a compute unit.
    pub lds: u32,
    /// LDS is given in multiples of so many bytes.
    pub lds_granule: u32,
    /// Workgroups of a compute unit at most, of those with more than one wave.
    pub workgroups: u32,
}

/// SIMDs of a compute unit of every gfx9.
pub(crate) const SIMDS: u32 = 4;

/// The sizes of a processor.
///
/// Source of the lines: the Linux kernel's `kfd_crat.c`, and the documents of rocprof-compute. Of the rest: LLVM's AMDGPUUsage and
/// `AMDGPUBaseInfo.cpp`.
pub const fn processor(arch: Arch) -> Processor {
    let unified = arch.unified_registers();
    Processor {
        l1_line: if matches!(arch, Arch::Gfx942) { 128 } else { 64 },
        l2_line: if unified { 128 } else { 64 },
        waves: if unified { 8 } else { 10 },
        vgprs: if unified { 512 } else { 256 },
        vgpr_granule: if unified { 8 } else { 4 },
        unified,
        sgprs: 800,
        sgpr_granule: 16,
        lds: 64 << 10,
        lds_granule: 512,
        workgroups: 16,
    }
}

/// Bytes of a line of the L2 cache, by the name of a processor or a target ID; of one that is not known, those of the later ones.
pub fn l2_line_of(name: &str) -> u32 {
    let arch = name.split(':').next().unwrap_or_default().parse::<Arch>();
    arch.map_or(128, |arch| processor(arch).l2_line)
}
