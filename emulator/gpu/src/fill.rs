//! Fills LDS, scratch and registers that no instruction has written, and draws where on the GPU workgroups run. On hardware they hold what the last workgroup left.
//!
//! On hardware, the results of a kernel that reads them vary. Without this module it would read the same each time, mostly zero, and the
//! error would not show. With a seed, every workgroup starts with numbers that differ for each dispatch.

use amdgpu_isa::Arch;
use amdgpu_isa::operand::Operand;
use amdgpu_isa::wave::Wave;
use hsa_sys::abi::kernel_descriptor::KernelDescriptor;

/// Scalar registers of a wave, with `flat_scratch`, `xnack_mask` and `vcc`. Those behind them are of trap handlers.
const SGPRS: usize = 108;
/// Slots for waves of a SIMD unit, and SIMD units of a compute unit, that a workgroup's waves are told apart by.
const SLOTS: (u32, u32) = (8, 4);

/// Numbers for one workgroup: SplitMix64 (Steele, Lea, Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct Fill(u64);

impl Fill {
    /// Of a seed, a dispatch and the workgroup's number in it.
    pub(crate) fn new(seed: u32, dispatch: u64, workgroup: u64) -> Fill {
        let mut fill = Fill(u64::from(seed));
        fill.0 = fill.next() ^ dispatch;
        fill.0 = fill.next() ^ workgroup;
        fill
    }

    /// Those for the place of a workgroup and the order of its waves: others than those that unwritten data is drawn from.
    pub(crate) fn of_place(seed: u32, dispatch: u64, workgroup: u64) -> Fill {
        Fill::new(!seed, dispatch, workgroup)
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Fills LDS or scratch.
    pub(crate) fn bytes(&mut self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let number = self.next().to_le_bytes();
            piece.iter_mut().zip(number).for_each(|(to, byte)| *to = byte);
        }
    }

    /// Where a workgroup runs, which has so many bytes of LDS.
    pub(crate) fn seat(&mut self, lds: u32, arch: Arch) -> Seat {
        let unit = arch.row().lds.granule;
        let (units, all) = (lds.div_ceil(unit), arch.row().target.lds / unit);
        let lds_base = self.next() as u32 % (all.saturating_sub(units) + 1);
        // Two units of `LDS_BASE` are one of `LDS_SIZE`.
        Seat { other: self.next(), lds_base: 2 * lds_base, gprs: self.next() as u32, first: self.next() as u32 }
    }

    /// Fills the registers that a kernel has, before those are set that it begins with.
    pub(crate) fn registers(&mut self, wave: &mut Wave, arch: Arch, descriptor: &KernelDescriptor) {
        wave.sgpr.iter_mut().take(SGPRS).for_each(|register| *register = self.next() as u32);
        if let Some(m0) = wave.sgpr.get_mut(usize::from(Operand::M0.0)) {
            *m0 = self.next() as u32;
        }
        wave.scc = self.next() & 1 == 1;
        let count = descriptor.vgpr_count(arch.unified_registers()) as usize;
        // Without a unified file, accumulation registers are behind the others, and as many.
        let ranges = if arch.unified_registers() { [0..count, 0..0] } else { [0..count, 256..256 + count] };
        for range in ranges {
            for [low, high] in wave.vgpr.get_mut(range).unwrap_or_default().iter_mut().flat_map(|r| r.as_chunks_mut().0)
            {
                let number = self.next();
                (*low, *high) = (number as u32, (number >> 32) as u32);
            }
        }
    }
}

/// Where on a compute unit a workgroup runs: hardware chooses it anew for each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seat {
    /// Which of the compute units, and bits for the fields of `HW_REG_HW_ID` that name queue and process.
    other: u64,
    /// `LDS_BASE` of `HW_REG_LDS_ALLOC`.
    lds_base: u32,
    /// Bits for the bases of `HW_REG_GPR_ALLOC`.
    gprs: u32,
    /// Where the slots of its waves begin.
    first: u32,
}

impl Seat {
    /// A number that chooses the compute unit.
    pub(crate) fn drawn(self) -> u32 {
        (self.other >> 32) as u32
    }

    /// Sets the hardware registers that say where a wave is. Source: Vega ISA manual, "Hardware Register Values". Waves of a workgroup
    /// have different slots, as on hardware.
    pub(crate) fn put(self, wave: &mut Wave, number: u32) {
        /// `PIPE_ID`, `TG_ID`, `VM_ID`, `QUEUE_ID`, `STATE_ID`, `ME_ID`.
        const OTHER: u32 = 0xffff_00c0;
        /// `CU_ID`, `SH_ID`, `SE_ID`, which the compute unit has set.
        const UNIT: u32 = 0xff00;
        /// `VGPR_BASE` and `SGPR_BASE`.
        const BASES: u32 = 0x3f | 0x3f << 16;
        let (slots, simds) = SLOTS;
        let simd = number.wrapping_add(self.first) % simds;
        let slot = (number / simds).wrapping_add(self.first >> 8) % slots;
        let registers = &mut wave.hw_regs;
        registers.hw_id = slot | simd << 4 | registers.hw_id & UNIT | self.other as u32 & OTHER;
        registers.lds_alloc |= self.lds_base;
        registers.gpr_alloc = registers.gpr_alloc & !BASES | self.gprs.wrapping_add(number) & BASES;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Dies;
    use crate::units::Units;

    #[test]
    fn waves_of_a_workgroup_have_slots_of_their_own_and_workgroups_are_somewhere_else() {
        let units = Units::all(Dies::of(Arch::Gfx942));
        let at = |dispatch, number| {
            let mut wave = Wave::new(Arch::Gfx942, 0, amdgpu_isa::wave::vgpr_file());
            wave.hw_regs.lds_alloc = 3 << 12;
            let seat = Fill::new(1, dispatch, 0).seat(3 * 512, Arch::Gfx942);
            wave.hw_regs.hw_id = units.of_workgroup(0, Some(seat.drawn())).hw_id();
            seat.put(&mut wave, number);
            wave.hw_regs
        };
        let slots: std::collections::BTreeSet<u32> = (0..16).map(|number| at(1, number).hw_id & 0x3f).collect();
        assert_eq!(slots.len(), 16);
        assert!((0..16).all(|number| at(1, number).hw_id & !0x3f == at(1, 0).hw_id & !0x3f));
        let of = |field: fn(&amdgpu_isa::wave::HwRegs) -> u32| {
            let all: std::collections::BTreeSet<u32> = (0..32).map(|dispatch| field(&at(dispatch, 0))).collect();
            all.len()
        };
        assert!(of(|r| r.hw_id) > 30 && of(|r| r.hw_id & 0x3f) > 8 && of(|r| r.lds_alloc & 0xff) > 15);
        assert!(of(|r| r.gpr_alloc & 0x3f) > 8 && of(|r| r.lds_alloc >> 12) == 1);
    }

    #[test]
    fn every_register_that_hardware_does_not_define_begins_with_other_bits_in_each_dispatch() {
        let filled = |dispatch| {
            let mut wave = Wave::new(Arch::Gfx90a, 0, amdgpu_isa::wave::vgpr_file());
            let descriptor = KernelDescriptor::parse(&[0; hsa_sys::abi::kernel_descriptor::SIZE]);
            Fill::new(1, dispatch, 0).registers(&mut wave, Arch::Gfx90a, &descriptor);
            wave
        };
        let waves: Vec<Wave> = (0..16).map(filled).collect();
        for register in (0..SGPRS).chain([usize::from(Operand::M0.0)]) {
            let values: std::collections::BTreeSet<u32> = waves.iter().map(|wave| wave.sgpr[register]).collect();
            assert!(values.len() > 14, "s{register}");
        }
        assert!(waves.iter().any(|wave| wave.scc) && waves.iter().any(|wave| !wave.scc));
        assert!(waves.iter().all(|wave| wave.exec() == u64::MAX));
    }

    #[test]
    fn workgroups_and_dispatches_start_with_other_numbers_and_the_same_ones_again() {
        let filled = |seed, dispatch, workgroup| {
            let mut bytes = [0; 13];
            Fill::new(seed, dispatch, workgroup).bytes(&mut bytes);
            bytes
        };
        assert_eq!(filled(1, 2, 3), filled(1, 2, 3));
        let all = [filled(1, 2, 3), filled(2, 2, 3), filled(1, 3, 3), filled(1, 2, 4), [0; 13]];
        assert!(all.iter().enumerate().all(|(n, one)| !all[..n].contains(one)), "{all:?}");
    }
}
