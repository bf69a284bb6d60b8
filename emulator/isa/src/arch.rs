//! The processors whose instructions the tables describe, and the sets of them that rows name.

pub use amdgpu_processor::{Arch, Feature, Generation, UnknownArch, WaveSize};

/// What every wave is. For a processor with waves of two sizes, this becomes a field of [`Wave`](crate::wave::Wave): lanes beyond it
/// are inactive then, and masks take as many registers as [`Kind::dwords`](crate::operand::Kind::dwords) finds.
pub const WAVE: WaveSize = WaveSize::W64;

/// A set of processors: the column of the tables that says where an opcode has its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchSet(u32);

const _: () = assert!(Arch::COUNT <= u32::BITS as usize, "ArchSet has a bit for each processor");

/// The named sets derive from the table of processors. `cargo xtask masks` compares them with LLVM.
impl ArchSet {
    /// Every processor.
    pub const ALL: ArchSet = ArchSet(u32::MAX >> (u32::BITS as usize - Arch::COUNT));
    /// Before the unified register file.
    pub const UNTIL_908: ArchSet = ArchSet::until(Arch::Gfx908);
    /// Up to MI200.
    pub const UNTIL_90A: ArchSet = ArchSet::until(Arch::Gfx90a);
    /// Vega 20 and later.
    pub const SINCE_906: ArchSet = ArchSet::since(Arch::Gfx906);
    /// MI100 and later.
    pub const SINCE_908: ArchSet = ArchSet::since(Arch::Gfx908);
    /// MI200 and later.
    pub const SINCE_90A: ArchSet = ArchSet::since(Arch::Gfx90a);
    /// MI300 and later.
    pub const SINCE_942: ArchSet = ArchSet::since(Arch::Gfx942);
    /// MI100 and MI200.
    pub const FROM_908_TO_90A: ArchSet = ArchSet::since(Arch::Gfx908).and(ArchSet::until(Arch::Gfx90a));
    /// MI350 and later.
    pub const SINCE_950: ArchSet = ArchSet::with(Feature::Gfx950Insts);
    /// MI200 only.
    pub const ONLY_90A: ArchSet = ArchSet::only(Arch::Gfx90a);
    /// See [`Feature::MadMixInsts`].
    pub const MAD_MIX: ArchSet = ArchSet::with(Feature::MadMixInsts);
    /// See [`Feature::FmaMixInsts`].
    pub const FMA_MIX: ArchSet = ArchSet::with(Feature::FmaMixInsts);
    /// See [`Feature::MadMacF32Insts`].
    pub const MAD_MAC: ArchSet = ArchSet::with(Feature::MadMacF32Insts);
    /// See [`Feature::Fp8Insts`]; of MI300's formats.
    pub const FP8_FNUZ: ArchSet = ArchSet::with(Feature::Fp8Insts).without(ArchSet::with(Feature::OcpFp8));
    /// See [`Feature::Fp8Insts`]; of the OCP's formats.
    pub const FP8_OCP: ArchSet = ArchSet::with(Feature::Fp8Insts).and(ArchSet::with(Feature::OcpFp8));
    /// See [`Feature::Fp8ConversionInsts`]; of MI300's formats.
    pub const FP8_CVT_FNUZ: ArchSet =
        ArchSet::with(Feature::Fp8ConversionInsts).without(ArchSet::with(Feature::OcpFp8));
    /// See [`Feature::Fp8ConversionInsts`]; of the OCP's formats.
    pub const FP8_CVT_OCP: ArchSet = ArchSet::with(Feature::Fp8ConversionInsts).and(ArchSet::with(Feature::OcpFp8));
    /// See [`Feature::Xf32Insts`].
    pub const XF32: ArchSet = ArchSet::with(Feature::Xf32Insts);
    /// See [`Feature::ImageInsts`].
    pub const IMAGE: ArchSet = ArchSet::with(Feature::ImageInsts);
    /// See [`Feature::ExtendedImageInsts`].
    pub const EXTENDED_IMAGE: ArchSet = ArchSet::with(Feature::ExtendedImageInsts);

    /// This processor, and later ones of its generation.
    pub const fn since(first: Arch) -> ArchSet {
        ArchSet::generation(first.row().generation).and(ArchSet(u32::MAX << first as u32))
    }

    /// This processor, and earlier ones of its generation.
    pub const fn until(last: Arch) -> ArchSet {
        ArchSet::generation(last.row().generation).and(ArchSet(u32::MAX >> (u32::BITS - 1 - last as u32)))
    }

    /// This processor.
    pub const fn only(arch: Arch) -> ArchSet {
        ArchSet(1 << arch as u32)
    }

    /// Those that have the feature.
    pub const fn with(feature: Feature) -> ArchSet {
        let (mut set, mut n) = (0, 0);
        while n < Arch::COUNT {
            set |= (Arch::ALL[n].has(feature) as u32) << n;
            n += 1;
        }
        ArchSet(set)
    }

    /// Those of a generation.
    pub const fn generation(generation: Generation) -> ArchSet {
        let (mut set, mut n) = (0, 0);
        while n < Arch::COUNT {
            set |= ((Arch::ALL[n].row().generation as u32 == generation as u32) as u32) << n;
            n += 1;
        }
        ArchSet(set)
    }

    /// Those that are in both sets.
    pub const fn and(self, other: ArchSet) -> ArchSet {
        ArchSet(self.0 & other.0)
    }

    /// Those of this set that are not in the other.
    pub const fn without(self, other: ArchSet) -> ArchSet {
        ArchSet(self.0 & !other.0)
    }

    /// True when `arch` is in the set.
    pub const fn contains(self, arch: Arch) -> bool {
        self.0 >> arch as u32 & 1 == 1
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
    fn sets_are_of_the_processors_that_their_rule_names() {
        let names =
            |set: ArchSet| Arch::ALL.into_iter().filter(|&a| set.contains(a)).map(Arch::name).collect::<Vec<_>>();
        assert_eq!(names(ArchSet::ALL), Arch::ALL.map(Arch::name));
        assert_eq!(names(ArchSet::until(Arch::Gfx906)), ["gfx900", "gfx906"]);
        assert_eq!(names(ArchSet::FROM_908_TO_90A), ["gfx908", "gfx90a"]);
        assert_eq!(names(ArchSet::MAD_MIX), ["gfx900"]);
        assert_eq!(names(ArchSet::XF32), ["gfx942"]);
        assert_eq!(names(ArchSet::SINCE_942), ["gfx942", "gfx950"]);
        assert_eq!(names(ArchSet::SINCE_950), ["gfx950"]);
        assert!(!names(ArchSet::MAD_MAC).contains(&"gfx942"));
    }
}
