//! Fills LDS, scratch and registers that no instruction has written. On hardware they hold what the last workgroup left.
//!
//! On hardware, the results of a kernel that reads them vary. Without this module it would read the same each time, mostly zero, and the
//! error would not show. With a seed, every workgroup starts with numbers that differ for each dispatch.

use amdgpu_isa::Arch;
use amdgpu_isa::wave::Wave;
use hsa_sys::abi::kernel_descriptor::KernelDescriptor;

/// Scalar registers that are numbered: those behind them have names and values of their own.
const NUMBERED_SGPRS: usize = 102;

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

    /// Fills the registers that a kernel has, before those are set that it begins with.
    pub(crate) fn registers(&mut self, wave: &mut Wave, arch: Arch, descriptor: &KernelDescriptor) {
        wave.sgpr.iter_mut().take(NUMBERED_SGPRS).for_each(|register| *register = self.next() as u32);
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

#[cfg(test)]
mod tests {
    use super::*;

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
