//! Plans which memory must be at which addresses.

use std::collections::BTreeMap;
use std::ops::Range;

use logdur_capture::AllocationKind;

use crate::error::{CapturedError, Result};

/// Bytes of a page of the host.
pub const PAGE: u64 = 4096;
/// Bytes of a huge page.
const HUGE: u64 = 2 << 20;

/// A piece of memory of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRequest {
    /// Its addresses, whole pages.
    pub range: Range<u64>,
    /// What memory it is.
    pub kind: AllocationKind,
    /// Of memory that is at several addresses: which, and where in it this begins.
    pub shared: Option<SharedPart>,
}

/// A part of memory that is mapped at several addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPart {
    /// The number of the memory in the capture.
    pub memory: u64,
    /// Bytes before the part.
    pub offset: u64,
}

/// How many bytes a memory has that is mapped at several addresses, and its regions with their offsets.
pub type SharedRegions<'r> = (u64, Vec<(&'r MemoryRequest, u64)>);

/// The memories that are mapped at several addresses, each with its bytes and its regions.
pub fn shared(regions: &[MemoryRequest]) -> BTreeMap<u64, SharedRegions<'_>> {
    let mut all = BTreeMap::<u64, SharedRegions<'_>>::new();
    for region in regions {
        let Some(part) = region.shared else { continue };
        let (bytes, parts) = all.entry(part.memory).or_default();
        *bytes = (*bytes).max(part.offset + (region.range.end - region.range.start));
        parts.push((region, part.offset));
    }
    all
}

/// Joins what allocations need into regions of whole pages, by address.
///
/// # Errors
/// When a page would have to be of two kinds, or a range leaves the address space.
pub fn regions(wanted: impl IntoIterator<Item = MemoryRequest>) -> Result<Vec<MemoryRequest>> {
    let mut wanted: Vec<MemoryRequest> = wanted.into_iter().filter(|r| r.range.start < r.range.end).collect();
    wanted.sort_by_key(|r| (r.range.start, r.range.end));
    let mut regions: Vec<MemoryRequest> = Vec::new();
    for MemoryRequest { range, kind, shared } in wanted {
        let length = range.end - range.start;
        let refused = |why: String| CapturedError::Pages { address: range.start, length, why };
        let end = range.end.checked_next_multiple_of(PAGE).ok_or_else(|| refused("not an address".to_owned()))?;
        let shared = shared.map(|part| SharedPart { offset: part.offset.saturating_sub(range.start % PAGE), ..part });
        let range = range.start / PAGE * PAGE..end;
        match regions.last_mut() {
            Some(last) if range.start < last.range.end && last.kind != kind => {
                let why = format!("expected memory of one kind in a page, found {} and {kind}", last.kind);
                return Err(refused(why));
            }
            Some(last) if range.start < last.range.end && last.shared != shared => {
                return Err(refused(
                    "expected a page of one memory, found one that is mapped at several addresses".to_owned(),
                ));
            }
            Some(last) if range.start <= last.range.end && last.kind == kind && last.shared.or(shared).is_none() => {
                last.range.end = last.range.end.max(range.end);
            }
            _ => regions.push(MemoryRequest { range, kind, shared }),
        }
    }
    Ok(regions)
}

/// Cuts whole pages into pieces that can be had at any page: with `HSA_MAX_VA_ALIGN=0` the driver's library aligns to pages,
/// but for sizes that are whole huge pages, which it aligns to those. Measured on ROCr 5.2.3, 6.1.2, 6.4.3 and 7.2.4.
pub fn blocks(range: &Range<u64>) -> Vec<Range<u64>> {
    if !(range.end - range.start).is_multiple_of(HUGE) {
        return vec![range.clone()];
    }
    let cut = range.start + PAGE;
    vec![range.start..cut, cut..range.end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use AllocationKind::{DeviceCoarse, HostPool};

    fn region(range: Range<u64>, kind: AllocationKind) -> MemoryRequest {
        MemoryRequest { range, kind, shared: None }
    }

    #[test]
    fn neighbours_of_a_kind_are_one_region_of_whole_pages() {
        let found = regions([
            region(0x5800..0x6000, DeviceCoarse),
            region(0x1010..0x1020, DeviceCoarse),
            region(0x2000..0x5801, DeviceCoarse),
            region(0x6000..0x6001, HostPool),
        ]);
        assert_eq!(found.unwrap(), [region(0x1000..0x6000, DeviceCoarse), region(0x6000..0x7000, HostPool)]);
        let apart = regions([region(0x1000..0x2000, HostPool), region(0x3000..0x4000, HostPool)]);
        assert_eq!(apart.unwrap().len(), 2);
    }

    #[test]
    fn memory_at_two_addresses_is_one_memory_and_joins_no_neighbour() {
        let at = |range: Range<u64>, offset| MemoryRequest {
            shared: Some(SharedPart { memory: 7, offset }),
            ..region(range, DeviceCoarse)
        };
        let wanted = [at(0x2000..0x4000, 0), at(0x4000..0x6000, 0), region(0x6000..0x7000, DeviceCoarse)];
        let regions = regions(wanted.clone()).unwrap();
        assert_eq!(regions, wanted);
        let found = shared(&regions);
        assert_eq!(found[&7], (0x2000, vec![(&wanted[0], 0), (&wanted[1], 0)]));
    }

    #[test]
    fn a_page_of_two_kinds_is_refused_with_both() {
        let error = regions([region(0x1000..0x1100, HostPool), region(0x1100..0x1200, DeviceCoarse)]).unwrap_err();
        let text = "256 bytes at 0x1100: expected memory of one kind in a page, found HostPool and DeviceCoarse";
        assert_eq!(error.to_string(), text);
        assert!(matches!(error, CapturedError::Pages { .. }));
        regions([region(u64::MAX - 5..u64::MAX, HostPool)]).unwrap_err();
    }

    #[test]
    fn no_block_has_the_size_of_huge_pages() {
        for range in [0x1000..0x2000, 0x1f_f000..0x80_3000, 0x20_0000..0x60_0000, 0x1000..0x20_1000] {
            let blocks = blocks(&range);
            assert_eq!((blocks[0].start, blocks[blocks.len() - 1].end), (range.start, range.end));
            assert!(blocks.windows(2).all(|pair| pair[0].end == pair[1].start), "{blocks:x?}");
            assert!(blocks.iter().all(|block| (block.end - block.start) % HUGE != 0), "{blocks:x?}");
        }
    }
}
