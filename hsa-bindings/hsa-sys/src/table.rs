//! Which function is where in the API tables of each runtime version.
//!
//! The core table has kept its layout from ROCr 5.2 on. The AMD extension table had entries inserted in its middle by
//! 5.5 and 5.6 without a change of its major version, so the layout is chosen by its size (`minor_id`).

use core::mem::offset_of;

use crate::raw::AmdExtTable;

/// The newest step (`step_id`) of the AMD extension table whose entries are known here: that of `hsa_api_trace_version.h` in
/// rocm-systems of August 2026.
pub const NEWEST_AMD_STEP: u32 = 0x12;

/// The step of the newest runtime that this project is tested with: that of ROCm 7.2.4.
pub const NEWEST_TESTED_AMD_STEP: u32 = 8;

/// Entries of the newest layout that an older one lacks: from, and bytes.
type Gap = (usize, usize);

/// The entries that 5.6 inserted after `hsa_amd_memory_async_copy`.
const ON_ENGINE: Gap = (offset_of!(AmdExtTable, hsa_amd_memory_async_copy_on_engine_fn), 16);

/// The entries that 5.5 inserted before `hsa_amd_queue_cu_get_mask`.
const SPM: Gap = (offset_of!(AmdExtTable, hsa_amd_spm_acquire_fn), 24);

const _: () =
    assert!(ON_ENGINE.0 == 144 && SPM.0 == 408 && offset_of!(AmdExtTable, hsa_amd_queue_cu_get_mask_fn) == 432);

/// A layout of `AmdExtTable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmdExtLayout {
    /// ROCr 5.2 to 5.4: 400 bytes.
    Before5_5,
    /// ROCr 5.5: 424 bytes.
    Of5_5,
    /// ROCr 5.6 and later: 456 bytes and more, only ever appended to.
    Since5_6,
}

impl AmdExtLayout {
    /// The layout of a table of `size` bytes (its `minor_id`).
    pub const fn of_size(size: u32) -> AmdExtLayout {
        match size {
            0..424 => AmdExtLayout::Before5_5,
            424..456 => AmdExtLayout::Of5_5,
            _ => AmdExtLayout::Since5_6,
        }
    }

    const fn gaps(self) -> &'static [Gap] {
        match self {
            AmdExtLayout::Before5_5 => &[ON_ENGINE, SPM],
            AmdExtLayout::Of5_5 => &[ON_ENGINE],
            AmdExtLayout::Since5_6 => &[],
        }
    }

    /// Where the entry is that the newest layout has at `newest`, in a table of `size` bytes; `None` if it has none.
    pub fn offset(self, newest: usize, size: u32) -> Option<usize> {
        let mut missing = 0;
        for &(from, bytes) in self.gaps() {
            if (from..from + bytes).contains(&newest) {
                return None;
            }
            if newest >= from {
                missing += bytes;
            }
        }
        let offset = newest - missing;
        (offset + 8 <= size as usize).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(newest: usize) -> [Option<usize>; 3] {
        [400, 424, 456].map(|size| AmdExtLayout::of_size(size).offset(newest, size))
    }

    #[test]
    fn known_entries_are_where_each_generation_has_them() {
        assert_eq!(offsets(offset_of!(AmdExtTable, hsa_amd_memory_async_copy_fn)), [Some(136); 3]);
        assert_eq!(offsets(offset_of!(AmdExtTable, hsa_amd_agents_allow_access_fn)), [Some(152), Some(152), Some(168)]);
        assert_eq!(offsets(offset_of!(AmdExtTable, hsa_amd_signal_create_fn)), [Some(264), Some(264), Some(280)]);
        assert_eq!(
            offsets(offset_of!(AmdExtTable, hsa_amd_queue_intercept_create_fn)),
            [Some(296), Some(296), Some(312)]
        );
        assert_eq!(offsets(offset_of!(AmdExtTable, hsa_amd_svm_attributes_set_fn)), [Some(368), Some(368), Some(384)]);
        assert_eq!(offsets(offset_of!(AmdExtTable, hsa_amd_queue_cu_get_mask_fn)), [Some(392), Some(416), Some(432)]);
    }

    #[test]
    fn entries_that_a_generation_lacks_are_nowhere() {
        assert_eq!(offsets(offset_of!(AmdExtTable, hsa_amd_memory_async_copy_on_engine_fn)), [None, None, Some(144)]);
        assert_eq!(offsets(offset_of!(AmdExtTable, hsa_amd_spm_acquire_fn)), [None, Some(392), Some(408)]);
        assert_eq!(offsets(offset_of!(AmdExtTable, hsa_amd_vmem_address_reserve_fn)), [None; 3]);
    }
}
