//! Accesses outside of all memory that the dispatch was given, of LDS and of scratch.
//!
//! Exact for what the capture knows: the runtime's allocations, variables and code. Memory that an application divides itself is one
//! allocation, unless its parts are given.
//!
//! Compilers make atomics of one or two bytes of atomics of the dword that they are in: of those that change single bits, or of loops of
//! a load and a compare-and-swap. Bytes of that dword that are outside are not changed, so these accesses are none of what is wrong.

use std::ops::Range;
use std::sync::Arc;

use amdgpu_emu::isa::access::{Does, LaneAccess, Parts, Space};
use amdgpu_emu::isa::atomic::AtomicOp;
use amdgpu_emu::isa::op::Access;
use amdgpu_emu::observer::{Group, SCRATCH_WINDOW, Step};

use crate::Check;
use crate::allowed::{Divided, implicit};
use crate::check::{Checker, Dispatch, Look};
use crate::finding::{Finding, Findings, Key, Position};

/// Lanes of a wave.
const LANES: u64 = 64;

/// The check.
#[derive(Clone, Debug)]
pub(crate) struct Memory(Arc<Bounds>);

impl Checker for Memory {
    /// Reads over the end of an allocation that may be parts of atomics.
    type Group = Vec<Partly>;

    fn new(dispatch: &Dispatch<'_>) -> Memory {
        let launch = dispatch.launch;
        let mut memory: Vec<Range<u64>> = dispatch.regions.iter().map(|region| region.range.clone()).collect();
        memory.extend(dispatch.more.iter().cloned().chain(implicit(launch)));
        let scratch = (launch.scratch.into(), u64::from(launch.scratch_of_wave()));
        Memory(Arc::new(Bounds::new(&memory, dispatch.divided, launch.lds.into(), scratch.0, scratch.1)))
    }

    fn begin(&mut self, _: &Group<'_>) -> Vec<Partly> {
        Vec::new()
    }

    #[inline]
    fn before(&mut self, partly: &mut Vec<Partly>, look: &mut Look<'_>) {
        for part in look.parts.into_iter().flat_map(Parts::iter) {
            self.0.access(look.step, part, look.place, partly, look.findings);
        }
    }

    fn end(&mut self, partly: Vec<Partly>, findings: &mut Findings) {
        self.0.end(partly, findings);
    }
}

/// Dwords that a wave has read over the end of an allocation: a compare-and-swap of the same dword may follow.
#[derive(Debug)]
pub(crate) struct Partly {
    place: Position,
    key: Key,
    detail: String,
    /// Addresses of dwords, each with its lane.
    dwords: Vec<(u64, u8)>,
}

/// What a dispatch may access.
#[derive(Debug)]
struct Bounds {
    /// Memory, sorted, joined where it touches, but for parts of divided allocations.
    allowed: Vec<Range<u64>>,
    lds: u64,
    /// Bytes of scratch of a lane, and of a wave with all its lanes.
    scratch: u64,
    scratch_of_wave: u64,
}

impl Bounds {
    /// Of memory that a dispatch may access.
    fn new(memory: &[Range<u64>], divided: &Divided, lds: u64, scratch: u64, scratch_of_wave: u64) -> Bounds {
        let mut allowed = joined(memory.to_vec(), true);
        for allocation in &divided.allocations {
            let outside = |range: Range<u64>| {
                [range.start..range.end.min(allocation.start), range.start.max(allocation.end)..range.end]
            };
            allowed = allowed.into_iter().flat_map(outside).filter(|range| range.start < range.end).collect();
        }
        allowed.extend(joined(divided.parts.clone(), false));
        allowed.sort_by_key(|range| range.start);
        Bounds { allowed, lds, scratch, scratch_of_wave }
    }

    /// A wave accesses memory or LDS. What compilers make of an atomic may be seen later on: such reads are added to `partly`.
    fn access(
        &self,
        step: &Step<'_>,
        part: &LaneAccess,
        place: &Position,
        partly: &mut Vec<Partly>,
        findings: &mut Findings,
    ) {
        if self.is_inside(part) {
            return;
        }
        let mut first = None;
        let mut dwords = Vec::new();
        if !partly.is_empty() && changes_bits(step) {
            let is_changed = |at: u64| part.active().any(|lane| part.at[lane] == at);
            partly
                .iter_mut()
                .filter(|read| read.place.wave == place.wave)
                .for_each(|read| read.dwords.retain(|(at, _)| !is_changed(*at)));
            partly.retain(|read| !read.dwords.is_empty());
        }
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
                            None if self.has_byte_of_dword(range, at, length) && changes_bits(step) => continue,
                            None if self.has_byte_of_dword(range, at, length) && part.does == Does::Read => {
                                dwords.push((at, lane as u8));
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
            let (key, place, finding) = self.finding(step.pc, part.space, place, (lane, at, what));
            findings.add(key, place, || finding);
        } else if let Some((at, lane)) = dwords.first().copied() {
            let what = "memory is read outside of all buffers";
            let (key, _, finding) = self.finding(step.pc, part.space, place, (lane.into(), at, what));
            partly.push(Partly { place: *place, key, detail: finding.detail, dwords });
        }
    }

    /// True when all lanes access LDS of the workgroup, or the same memory that they may access.
    #[inline]
    fn is_inside(&self, part: &LaneAccess) -> bool {
        if part.step != 4 && part.bytes > 4 {
            return false;
        }
        let (mut least, mut most) = (u64::MAX, 0);
        for (lane, at) in part.at.iter().enumerate() {
            let off = (part.lanes >> lane & 1).wrapping_sub(1);
            (least, most) = (least.min(at | off), most.max(at & !off));
        }
        let end = most.saturating_add(part.bytes.into());
        match part.space {
            Space::Lds => end <= self.lds,
            Space::Memory if most >= SCRATCH_WINDOW => false,
            Space::Memory => {
                let range = self.allowed.get(self.allowed.partition_point(|range| range.end <= least));
                range.is_some_and(|range| range.start <= least && end <= range.end)
            }
        }
    }

    /// A workgroup has ended: what no compare-and-swap followed is an access like others.
    fn end(&self, partly: Vec<Partly>, findings: &mut Findings) {
        for Partly { place, key, detail, dwords } in partly {
            let Some((at, lane)) = dwords.first().copied() else { continue };
            let place = Position { lane: Some(lane), ..place };
            findings.add(key, place, || Finding { place, other: None, address: Some(at), detail, count: 1 });
        }
    }

    /// True for an aligned dword of which some byte is in a range.
    fn has_byte_of_dword(&self, range: Option<&Range<u64>>, at: u64, length: u8) -> bool {
        length == 4 && at.is_multiple_of(4) && range.is_some_and(|range| range.start < at.saturating_add(4))
    }

    /// True for a byte of the wave's own scratch, where the lane has so much.
    fn is_in_scratch(&self, offset: u64, place: &Position) -> bool {
        let own = u64::from(place.wave) * self.scratch_of_wave;
        let Some(inside) = offset.checked_sub(own).filter(|inside| *inside < self.scratch_of_wave) else {
            return false;
        };
        // Dwords of all lanes lie beside each other.
        inside / (4 * LANES) * 4 < self.scratch.next_multiple_of(4)
    }

    /// What is wrong with a lane's access.
    #[cold]
    fn finding(
        &self,
        pc: u64,
        space: Space,
        place: &Position,
        (lane, at, what): (usize, u64, &'static str),
    ) -> (Key, Position, Finding) {
        let place = Position { lane: Some(lane as u8), ..*place };
        let nearest =
            self.allowed.iter().min_by_key(|range| range.start.saturating_sub(at).max(at.saturating_sub(range.end)));
        let detail = match space {
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
        let address = (space == Space::Memory).then_some(at);
        let key = Key { check: Check::Memory, pc, what, other: None };
        (key, place, Finding { place, other: None, address, detail, count: 1 })
    }
}

/// True for an atomic of a dword that can leave some of its bytes as they are.
fn changes_bits(step: &Step<'_>) -> bool {
    use AtomicOp::{And, CmpSwap, Or, Xor};
    matches!(step.inst.op.access, Access::Atomic(And | CmpSwap | Or | Xor, 4, _))
}

/// Ranges, sorted, one where they overlap, and perhaps also where they touch.
fn joined(mut all: Vec<Range<u64>>, touching: bool) -> Vec<Range<u64>> {
    all.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in all {
        match joined.last_mut() {
            Some(last) if range.start < last.end || touching && range.start == last.end => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_divided_allocation_is_allowed_only_where_it_has_parts() {
        let (code, first, second) = (0..100, 1000..2000, 2000..3000);
        let memory = [code.clone(), first.clone(), second];
        let allowed = |divided: &Divided| Bounds::new(&memory, divided, 0, 0, 0).allowed;
        assert_eq!(allowed(&Divided::default()), [code.clone(), 1000..3000]);
        let divided = Divided { allocations: vec![first], parts: vec![1100..1200, 1200..1300, 1150..1160] };
        assert_eq!(allowed(&divided), [code, 1100..1200, 1200..1300, 2000..3000]);
    }
}
