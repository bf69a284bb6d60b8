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
    /// Up to MI300.
    pub const UNTIL_942: ArchSet = ArchSet::until(Arch::Gfx942);
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
    /// MI200 only.
    pub const ONLY_90A: ArchSet = ArchSet::only(Arch::Gfx90a);
    /// See [`Feature::MadMixInsts`].
    pub const MAD_MIX: ArchSet = ArchSet::with(Feature::MadMixInsts);
    /// See [`Feature::FmaMixInsts`].
    pub const FMA_MIX: ArchSet = ArchSet::with(Feature::FmaMixInsts);
    /// See [`Feature::MadMacF32Insts`].
    pub const MAD_MAC: ArchSet = ArchSet::with(Feature::MadMacF32Insts);
    /// See [`Feature::Fp8Insts`].
    pub const FP8: ArchSet = ArchSet::with(Feature::Fp8Insts);
    /// See [`Feature::Fp8ConversionInsts`].
    pub const FP8_CVT: ArchSet = ArchSet::with(Feature::Fp8ConversionInsts);
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

    /// See `one_more_processor` in `xtask/src/test.rs`.
    #[cfg(gfx950)]
    #[test]
    fn one_more_processor_decodes_its_rows_and_has_a_column() {
        use crate::decode::{DecodeError, Decoder};
        let decoder = Decoder::new(Arch::Gfx950);
        let name = |words: [u32; 2]| decoder.decode(&words).map(|inst| inst.op.name);
        // v_mov_b64 v[0:1], v[2:3] and v_mfma_f32_16x16x32_fp8_fp8, which LLVM reads on both; then a product that gfx942 alone has.
        assert_eq!(name([0x7e00_7102, 0]), Ok("v_mov_b64"));
        assert_eq!(name([0xd3f3_0000, 0x0402_0100]), Ok("v_mfma_f32_16x16x32_fp8_fp8"));
        assert!(matches!(name([0xd3be_0000, 0x0402_0100]), Err(DecodeError::Opcode(..))));
        let of = |arch| crate::rows().filter(|op| op.archs.contains(arch)).map(|op| op.name).collect::<Vec<_>>();
        let (before, rows) = (of(Arch::Gfx942), of(Arch::Gfx950));
        let lost: Vec<_> = before.iter().filter(|name| !rows.contains(name)).copied().collect();
        let expected = ["v_mfma_f32_16x16x8_xf32", "v_mfma_f32_32x32x4_xf32", "buffer_wbinvl1", "buffer_wbinvl1_vol"];
        assert_eq!(lost, expected);
        let page = crate::coverage::page();
        assert!(page.contains("| gfx942 | gfx950 |\n|---|---|---|---|---|---|---|\n"), "{page}");
        assert!(page.contains(&format!("| **{}** | **{}** |\n", before.len(), rows.len())), "{page}");
    }

    #[test]
    fn sets_are_of_the_processors_that_their_rule_names() {
        let names =
            |set: ArchSet| Arch::ALL.into_iter().filter(|&a| set.contains(a)).map(Arch::name).collect::<Vec<_>>();
        assert_eq!(names(ArchSet::ALL), Arch::ALL.map(Arch::name));
        assert_eq!(names(ArchSet::until(Arch::Gfx906)), ["gfx900", "gfx906"]);
        assert_eq!(names(ArchSet::FROM_908_TO_90A), ["gfx908", "gfx90a"]);
        assert_eq!(names(ArchSet::MAD_MIX), ["gfx900"]);
        assert_eq!(names(ArchSet::XF32), ["gfx942"]);
        assert!(names(ArchSet::SINCE_942).starts_with(&["gfx942"]) && !names(ArchSet::MAD_MAC).contains(&"gfx942"));
    }
}
