//! What processors have and others lack.

macro_rules! features {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// What a processor has. Names are LLVM's, of `AMDGPU.td`, unless the line says otherwise.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Feature { $($(#[doc = $doc])+ $name,)* }

        impl Feature {
            /// Every feature.
            pub const ALL: &'static [Feature] = &[$(Feature::$name),*];
        }
    };
}

features! {
    /// `v_mad_mix_f32` and its halves.
    MadMixInsts,
    /// `v_fma_mix_f32` and its halves.
    FmaMixInsts,
    /// `v_mad_f32`, `v_mac_f32`, `v_madmk_f32`, `v_madak_f32`.
    MadMacF32Insts,
    /// Image instructions.
    ImageInsts,
    /// Image instructions with levels of detail, and gathering ones.
    ExtendedImageInsts,
    /// Those of MI200. The register file is one: accumulation registers are its upper part.
    Gfx90aInsts,
    /// Those of MI300, with its names of instructions and of cache hints.
    Gfx940Insts,
    /// Those of MI350.
    Gfx950Insts,
    /// Products of matrices of 8-bit floats.
    Fp8Insts,
    /// Conversions of 8-bit floats.
    Fp8ConversionInsts,
    /// Products of matrices of singles that are cut to 19 bits.
    Xf32Insts,
    /// Vector operands of several registers begin at an even one.
    RequiresAlignedVgprs,
    /// x, y and z of the work-item id share v0, ten bits each.
    PackedTid,
    /// The hardware, not the kernel's prologue, sets up flat scratch and workgroup ids.
    ArchitectedFlatScratch,
    /// Memory keeps denormals in sums of singles. MI100 and MI200 have such sums and make zeros of denormals, whatever the mode.
    MemoryAtomicFAddF32DenormalSupport,
    /// Sums of singles in memory.
    AtomicFaddNoRtnInsts,
    /// Sums of singles in memory, which return what was there.
    AtomicFaddRtnInsts,
    /// Not LLVM's: products of matrices and dot products read denormal halves and bfloats as zero, and take and give no denormal
    /// sums of them. Source: PyTorch's and MIOpen's pages on MI200.
    FlushesHalfProducts,
    /// Not LLVM's: floats of eight bits are those of the Open Compute Project (E4M3FN and E5M2), not those without minus zero (E4M3FNUZ
    /// and E5M2FNUZ). Source: AMD's `amd_hip_fp8.h`, `HIP_FP8_TYPE_OCP`.
    OcpFp8,
}

/// A set of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features(u32);

impl Features {
    /// Those of a list.
    pub(crate) const fn of(list: &[Feature]) -> Features {
        let (mut bits, mut n) = (0, 0);
        while n < list.len() {
            bits |= 1 << list[n] as u32;
            n += 1;
        }
        Features(bits)
    }

    /// True when the feature is in the set.
    pub const fn has(self, feature: Feature) -> bool {
        self.0 >> feature as u32 & 1 == 1
    }
}
