//! Accesses outside of all memory that the dispatch was given, of LDS and of scratch.
//!
//! Exact for what the capture knows: the runtime's allocations, variables and code. Memory that an application divides itself is one
//! allocation here.

use std::ops::Range;

use amdgpu_emu::isa::access::{Does, Part, Space};
use amdgpu_emu::observer::{SCRATCH_WINDOW, Step};

use crate::Check;
use crate::finding::{Finding, Findings, Key, Place};
use crate::heat::Region;

/// Lanes of a wave.
const LANES: u64 = 64;

/// What a dispatch may access.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// Memory, sorted, joined where it touches.
    allowed: Vec<Range<u64>>,
    lds: u64,
    /// Bytes of scratch of a lane, and of a wave with all its lanes.
    scratch: u64,
    scratch_of_wave: u64,
}

impl Bounds {
    /// Of regions, and ranges that belong to the dispatch itself.
    pub(crate) fn new(regions: &[Region], more: &[Range<u64>], lds: u64, scratch: u64, scratch_of_wave: u64) -> Bounds {
        let mut all: Vec<Range<u64>> = regions.iter().map(|r| r.range.clone()).chain(more.iter().cloned()).collect();
        all.sort_by_key(|range| range.start);
        let mut allowed: Vec<Range<u64>> = Vec::new();
        for range in all {
            match allowed.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => allowed.push(range),
            }
        }
        Bounds { allowed, lds, scratch, scratch_of_wave }
    }

    /// A wave accesses memory or LDS.
    pub(crate) fn access(&self, step: &Step<'_>, part: &Part, place: &Place, findings: &mut Findings) {
        let mut first = None;
        let mut last: &Range<u64> = &(0..0);
        for lane in part.active() {
            for (at, length) in part.pieces(lane) {
                let end = at.saturating_add(length.into());
                if last.start <= at && end <= last.end && part.space == Space::Memory {
                    continue;
                }
                let what = match part.space {
                    Space::Lds if end <= self.lds => continue,
                    Space::Lds => "LDS is accessed outside of the workgroup's",
                    Space::Memory if at >= SCRATCH_WINDOW => match self.is_in_scratch(at - SCRATCH_WINDOW, place) {
                        true => continue,
                        false => "scratch is accessed outside of the lane's",
                    },
                    Space::Memory => {
                        let range = self.allowed.get(self.allowed.partition_point(|range| range.end <= at));
                        match range.filter(|range| range.start <= at && end <= range.end) {
                            Some(range) => {
                                last = range;
                                continue;
                            }
                            None if part.does == Does::Read => "memory is read outside of all buffers",
                            None => "memory is written outside of all buffers",
                        }
                    }
                };
                first.get_or_insert((lane, at, what));
            }
        }
        if let Some((lane, at, what)) = first {
            self.report(step, part, place, findings, (lane, at, what));
        }
    }

    /// True for a byte of the wave's own scratch, where the lane has so much.
    fn is_in_scratch(&self, offset: u64, place: &Place) -> bool {
        let own = u64::from(place.wave) * self.scratch_of_wave;
        let Some(inside) = offset.checked_sub(own).filter(|inside| *inside < self.scratch_of_wave) else {
            return false;
        };
        // Dwords of all lanes lie beside each other.
        inside / (4 * LANES) * 4 < self.scratch.next_multiple_of(4)
    }

    #[cold]
    fn report(
        &self,
        step: &Step<'_>,
        part: &Part,
        place: &Place,
        findings: &mut Findings,
        (lane, at, what): (usize, u64, &'static str),
    ) {
        let place = Place { lane: Some(lane as u8), ..*place };
        let nearest =
            self.allowed.iter().min_by_key(|range| range.start.saturating_sub(at).max(at.saturating_sub(range.end)));
        let detail = match part.space {
            Space::Lds => format!("byte {} of {}", at as i64, self.lds),
            Space::Memory if at >= SCRATCH_WINDOW => format!("a lane has {} bytes of scratch", self.scratch),
            Space::Memory => match nearest {
                Some(range) if at >= range.end => format!("{} bytes behind the end of a buffer", at - range.end),
                Some(range) if at < range.start => {
                    format!("{} bytes before the beginning of a buffer", range.start - at)
                }
                Some(_) => "over the end of a buffer".to_owned(),
                None => String::new(),
            },
        };
        let address = (part.space == Space::Memory).then_some(at);
        let key = Key { check: Check::Memory, pc: step.pc, what, other: None };
        findings.add(key, place, || Finding { place, other: None, address, detail, count: 1 });
    }
}
