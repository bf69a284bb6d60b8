//! Lanes that access each page of memory.

use std::ops::Range;

use amdgpu_emu::isa::access::{LaneAccess, Space};
use amdgpu_emu::observer::SCRATCH_WINDOW;
use logdur_analysis::forms::heatmap::Heatmap;

/// One worker's pages.
#[derive(Debug)]
pub(crate) struct Pages {
    all: Heatmap,
    /// Memory that kernels read without an access in their source: arguments, packet, queue.
    implicit: Vec<Range<u64>>,
    /// The page of the last access, and its lanes that are not added yet.
    last: (u64, u64),
}

impl Pages {
    /// Pages of so many bytes, a power of two, without what kernels read unasked.
    pub(crate) fn new(page: u64, implicit: Vec<Range<u64>>) -> Pages {
        Pages { all: Heatmap::new(page), implicit, last: (0, 0) }
    }

    /// An access of a wave.
    #[inline]
    pub(crate) fn access(&mut self, part: &LaneAccess) {
        if part.space != Space::Memory {
            return;
        }
        for at in part.active().map(|lane| part.at[lane]) {
            if at >= SCRATCH_WINDOW || self.implicit.iter().any(|range| range.contains(&at)) {
                continue;
            }
            if (self.last.0 ^ at) >= self.all.page {
                self.flush(at & !(self.all.page - 1));
            }
            self.last.1 += 1;
        }
    }

    fn flush(&mut self, next: u64) {
        let (page, lanes) = std::mem::replace(&mut self.last, (next, 0));
        if lanes > 0 {
            self.all.add(page, lanes);
        }
    }

    /// Lanes by page.
    pub(crate) fn into_heatmap(mut self) -> Heatmap {
        self.flush(0);
        self.all
    }
}
