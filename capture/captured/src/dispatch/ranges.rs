//! Which memory a captured dispatch needs, and where.

use std::ops::Range;

use logdur_capture::{Allocation, AllocationKind, Placed};

use super::CapturedDispatch;
use crate::regions::{MemoryRequest, PAGE, SharedPart};

/// What of a range is not in another.
pub fn without(range: Range<u64>, other: &Range<u64>) -> [Range<u64>; 2] {
    let before = range.start..range.end.min(other.start);
    let behind = range.start.max(other.end)..range.end;
    if other.start >= range.end || other.end <= range.start { [range.clone(), 0..0] } else { [before, behind] }
}

impl CapturedDispatch<'_> {
    /// The captured memory but for the code, which is loaded.
    pub fn data(&self) -> Vec<Range<u64>> {
        self.code().fold(self.before.ranges(), |ranges, code| {
            ranges.into_iter().flat_map(|range| without(range, &code)).filter(|r| r.start < r.end).collect()
        })
    }

    /// What memory has to be where. What is in no allocation is taken for the GPU's, and so is what changes its kind.
    pub fn wanted(&self) -> Vec<MemoryRequest> {
        let mut wanted = Vec::new();
        for range in self.data() {
            let mut at = range.start;
            while at < range.end {
                let around = |a: &&&Placed<Allocation>| a.base <= at && at < a.base.saturating_add(a.size);
                let mut shared = None;
                let (end, kind) = match self.allocations.iter().find(around) {
                    Some(a) if a.kind == AllocationKind::Virtual => {
                        let part = SharedPart { memory: a.handle, offset: a.offset.saturating_add(at - a.base) };
                        shared = self.is_elsewhere_too(a).then_some(part);
                        (a.base.saturating_add(a.size), a.backing)
                    }
                    Some(a) => (a.base.saturating_add(a.size), a.kind),
                    None => {
                        let next = self.allocations.iter().map(|a| a.base).find(|base| *base > at);
                        (next.unwrap_or(range.end), AllocationKind::DeviceCoarse)
                    }
                };
                let end = end.min(range.end);
                let page = at / PAGE * PAGE..end.next_multiple_of(PAGE);
                let changes = self.of_two_kinds.iter().any(|of| of.start < page.end && page.start < of.end);
                let (kind, shared) = if changes { (AllocationKind::DeviceCoarse, None) } else { (kind, shared) };
                wanted.push(MemoryRequest { range: at..end, kind, shared });
                at = end;
            }
        }
        wanted
    }

    /// True if some of an allocation's memory is mapped at other addresses, too.
    fn is_elsewhere_too(&self, of: &Allocation) -> bool {
        let part = |a: &Allocation| (a.offset, a.offset.saturating_add(a.size));
        let (start, end) = part(of);
        let is_same = |a: &Placed<Allocation>| {
            let (from, to) = part(a);
            a.handle == of.handle && a.base != of.base && from < end && start < to
        };
        of.handle != 0 && self.allocations.iter().any(|a| is_same(a))
    }
}
