//! How many waves of a kernel a SIMD can hold at a time, and what limits them.
//!
//! Exact for what the kernel descriptor and the packet ask for. The hardware may place fewer workgroups, since it places whole ones.

use amdgpu_processor::Registers;

use crate::processor::Processor;

/// What a wave and a workgroup of a kernel take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Vector registers of a wave, accumulation registers included where the file is one.
    pub vgprs: u32,
    /// Scalar registers of a wave.
    pub sgprs: u32,
    /// Bytes of LDS of a workgroup.
    pub lds: u32,
    /// Waves of a workgroup.
    pub waves: u32,
}

/// What limits the waves of a SIMD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The slots for waves.
    Waves,
    /// Vector registers.
    Vgprs,
    /// Scalar registers.
    Sgprs,
    /// LDS.
    Lds,
    /// The slots for workgroups.
    Workgroups,
}

impl Limit {
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Limit::Waves => "wave slots",
            Limit::Vgprs => "vector registers",
            Limit::Sgprs => "scalar registers",
            Limit::Lds => "LDS",
            Limit::Workgroups => "workgroup slots",
        }
    }
}

/// Waves of a SIMD, and what each resource alone would allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Waves of a SIMD.
    pub waves: u32,
    /// Waves of a SIMD at most, of any kernel.
    pub most: u32,
    /// What the kernel takes.
    pub resources: Resources,
    /// What each resource allows.
    pub limits: Vec<(Limit, u32)>,
}

impl Occupancy {
    /// Of a kernel on a processor.
    pub fn of(processor: &Processor, resources: &Resources) -> Occupancy {
        let most = processor.waves;
        let by = |file: Registers, one: u32| match one.next_multiple_of(file.granule) {
            0 => most,
            one => (file.count / one).min(most),
        };
        let waves = resources.waves.max(1);
        // Waves of a compute unit that come with so many workgroups, spread over its SIMDs.
        let of_groups = |groups: u32| (groups * waves).div_ceil(processor.simds).min(most);
        let lds = match resources.lds.next_multiple_of(processor.lds.granule) {
            0 => most,
            one => of_groups(processor.target.lds / one),
        };
        let workgroups = if waves == 1 { most } else { of_groups(processor.workgroups) };
        let limits = vec![
            (Limit::Waves, most),
            (Limit::Vgprs, by(processor.vgprs, resources.vgprs)),
            (Limit::Sgprs, by(processor.sgprs, resources.sgprs)),
            (Limit::Lds, lds),
            (Limit::Workgroups, workgroups),
        ];
        let waves = limits.iter().map(|(_, waves)| *waves).min().unwrap_or(most);
        Occupancy { waves, most, resources: *resources, limits }
    }

    /// What limits it; none where all wave slots are used.
    pub fn limited_by(&self) -> impl Iterator<Item = Limit> {
        let binding = self.limits.iter().filter(|(_, waves)| *waves == self.waves && self.waves < self.most);
        binding.map(|(limit, _)| *limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_isa::Arch;

    fn waves(arch: Arch, vgprs: u32, lds: u32, waves: u32) -> (u32, Vec<Limit>) {
        let occupancy = Occupancy::of(arch.row(), &Resources { vgprs, sgprs: 32, lds, waves });
        (occupancy.waves, occupancy.limited_by().collect())
    }

    #[test]
    fn occupancy_is_what_llvm_prints_for_kernels_with_these_registers() {
        // `; TotalNumVgprs: N` (of gfx906 `; NumVgprs: N`) and `; Occupancy: N` in the assembly of clang 15, for kernels with arrays
        // of 8 to 160 floats.
        for (arch, printed) in [
            (Arch::Gfx90a, [(10, 8), (37, 8), (75, 6), (196, 2), (238, 2), (322, 1)]),
            (Arch::Gfx906, [(10, 10), (37, 6), (75, 3), (122, 2), (145, 1), (191, 1)]),
        ] {
            for (vgprs, occupancy) in printed {
                assert_eq!(waves(arch, vgprs, 0, 1).0, occupancy, "{vgprs} registers of {arch}");
            }
        }
        assert_eq!(waves(Arch::Gfx90a, 10, 0, 1).1, []);
        assert_eq!(waves(Arch::Gfx90a, 75, 0, 1).1, [Limit::Vgprs]);
    }

    #[test]
    fn lds_limits_whole_workgroups() {
        assert_eq!(waves(Arch::Gfx90a, 32, 32 << 10, 4), (2, vec![Limit::Lds]));
        assert_eq!(waves(Arch::Gfx90a, 32, (32 << 10) + 1, 4), (1, vec![Limit::Lds]));
    }
}
