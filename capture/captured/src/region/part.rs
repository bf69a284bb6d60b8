//! Steps of a region with all that a replay of them needs.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use logdur_capture::{
    Allocation, AllocationKind, Dispatch, KERNARG_EXTENT, Loaded, Memory, Placed, Severity, SnapshotId, Step, StepKind,
    UNANNOUNCED,
};

use super::{Part, Region, is_meanwhile};
use crate::dispatch::{CapturedDispatch, Companion};
use crate::error::{CapturedError, Result};
use crate::regions::PAGE;

/// What a step does.
#[derive(Clone, Copy, Debug)]
pub enum Work<'r> {
    /// Runs a kernel: the one of that number among those of the part.
    Dispatch {
        /// The kernel.
        kernel: usize,
        /// The dispatch.
        dispatch: &'r Placed<Dispatch>,
    },
    /// Copies bytes.
    Copy {
        /// To an address.
        to: u64,
        /// From an address.
        from: u64,
        /// How many.
        bytes: u64,
    },
    /// Fills memory.
    Fill {
        /// From an address on.
        to: u64,
        /// How many bytes.
        bytes: u64,
        /// With a value of 4 bytes.
        value: u32,
    },
    /// Orders the steps around it. Here they run one after the other.
    Barrier,
}

/// A step of a part.
#[derive(Clone, Debug)]
pub struct PartStep<'r> {
    /// Its record.
    pub step: &'r Placed<Step>,
    /// Memory that is written before it.
    pub delta: Option<Memory<'r>>,
    /// What it does.
    pub work: Work<'r>,
}

impl PartStep<'_> {
    /// True if it only has what changed while the dispatch before it ran, in memory that the host and this dispatch may have written.
    pub fn is_meanwhile(&self) -> bool {
        is_meanwhile(self.step)
    }
}

/// Steps of a region, and their memory as if they were one dispatch.
#[derive(Debug)]
pub struct CapturedPart<'r> {
    /// The region.
    pub region: &'r Region<'r>,
    /// Which steps.
    pub part: Part,
    /// Its first dispatch, with the others as companions. The memory before is that which the part reaches, each byte as the part finds it
    /// first. The memory after is that after the last step.
    pub captured: CapturedDispatch<'r>,
    /// Each kernel, by the first dispatch of it.
    pub kernels: Vec<CapturedDispatch<'r>>,
    /// The steps.
    pub steps: Vec<PartStep<'r>>,
    /// Why results say less than they could, one line each.
    pub qualified: Vec<String>,
}

/// What makes two dispatches those of one kernel: its number, that of the application's in whose place it ran, and how it is launched.
type KernelKey = (u64, Option<u64>, u32);

/// AMD's packet of the vendor's format that waits for a value of a signal: `hsa_amd_barrier_value_packet_t` of ROCr's `hsa_ext_amd.h`.
const BARRIER_VALUE: u8 = 2;

/// The addresses at which allocations of different kinds are, one after the other: whole pages.
fn of_two_kinds(allocations: &[&Placed<Allocation>]) -> Vec<Range<u64>> {
    let end = |a: &Allocation| a.base.saturating_add(a.size);
    let kind = |a: &Allocation| if a.kind == AllocationKind::Virtual { (a.backing, a.handle) } else { (a.kind, 0) };
    let mut all: Vec<Range<u64>> = Vec::new();
    // Those behind the first one that overlap it; sorted by their first byte.
    let mut open: Vec<&Allocation> = Vec::new();
    for allocation in allocations {
        open.retain(|earlier| end(earlier) > allocation.base);
        for earlier in open.iter().filter(|earlier| kind(earlier) != kind(allocation)) {
            let start = earlier.base.min(allocation.base) / PAGE * PAGE;
            let until = end(earlier).max(end(allocation));
            all.push(start..until.checked_next_multiple_of(PAGE).unwrap_or(until));
        }
        open.push(allocation);
    }
    all.dedup();
    all
}

/// True if ranges, which are sorted and do not touch, have all of some bytes.
fn has_all(ranges: &[Range<u64>], start: u64, bytes: u64) -> bool {
    let behind = ranges.partition_point(|range| range.start <= start);
    let holds = |range: &Range<u64>| range.end.checked_sub(start).is_some_and(|rest| bytes <= rest);
    bytes == 0 || behind.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(holds)
}

impl<'r> CapturedPart<'r> {
    /// Takes a part out of a region.
    ///
    /// # Errors
    /// When the capture lacks what a step needs, by the step; when it is damaged there.
    pub fn of(region: &'r Region<'r>, part: Part) -> Result<CapturedPart<'r>> {
        let reader = region.reader;
        let steps: Vec<&'r Placed<Step>> = region
            .steps
            .iter()
            .filter(|step| part.first <= step.sequence && step.sequence <= part.last)
            .copied()
            .collect();
        let deltas: Vec<SnapshotId> = steps.iter().filter_map(|step| step.delta).collect();
        let all: Vec<SnapshotId> = deltas.into_iter().rev().chain(part.start).collect();
        let before = reader.laid_over(&all)?;
        let after = part.reference.map(|after| reader.snapshot(after)).transpose()?;
        let ranges = before.ranges();
        let mut known = HashMap::<KernelKey, usize>::new();
        let mut taken = Taken { kernels: Vec::new(), steps: Vec::new(), qualified: region.qualified() };
        for step in &steps {
            let wrong = |what: &str, at: u64| CapturedError::Region {
                region: region.record.id,
                why: format!(
                    "step {}: {what} {} bytes at {at:#x}, not all of which the region has",
                    step.sequence, step.bytes
                ),
            };
            let Step { to, from, bytes, value, .. } = step.value;
            let work = match step.kind {
                StepKind::Dispatch => {
                    let dispatch = region.dispatch_of(step.sequence).ok_or_else(|| wrong("no dispatch for", 0))?;
                    Work::Dispatch { kernel: taken.kernel(region, dispatch, &before, &mut known)?, dispatch }
                }
                StepKind::Copy if !has_all(&ranges, from, bytes) => return Err(wrong("it copies", from)),
                StepKind::Copy | StepKind::Fill if !has_all(&ranges, to, bytes) => return Err(wrong("it writes", to)),
                StepKind::Copy => Work::Copy { to, from, bytes },
                StepKind::Fill => Work::Fill { to, bytes, value },
                StepKind::Vendor if step.packet.0.get(2) != Some(&BARRIER_VALUE) => {
                    let format = step.packet.0.get(2).copied().unwrap_or_default();
                    taken
                        .qualified
                        .push(format!("step {}: a packet of the vendor's format {format} is left out", step.sequence));
                    Work::Barrier
                }
                StepKind::Barrier | StepKind::Vendor | StepKind::Other(_) => Work::Barrier,
            };
            let delta = step.delta.map(|delta| reader.snapshot(delta)).transpose()?;
            taken.steps.push(PartStep { step, delta, work });
        }
        let Taken { kernels, steps: works, qualified } = taken;
        let captured = joined(region, &steps, &works, &kernels, before, after)?;
        let mut qualified = qualified;
        let two: u64 = captured.of_two_kinds.iter().map(|range| range.end - range.start).sum();
        if two > 0 {
            qualified.push(format!(
                "{two} bytes are memory of several kinds, one after the other: all of it is the GPU's in a replay"
            ));
        }
        let mut taken = CapturedPart { region, part, captured, kernels, steps: works, qualified };
        taken.qualified.extend(taken.uncompared());
        Ok(taken)
    }

    /// What of the memory that is there after the last step the reference lacks, in words.
    fn uncompared(&self) -> Option<String> {
        let held = self.captured.after.as_ref()?.ranges();
        let lacking = |range: Range<u64>| {
            let first = held.partition_point(|held| held.end <= range.start);
            let inside = held.iter().skip(first).take_while(|held| held.start < range.end);
            let there: u64 = inside.map(|held| held.end.min(range.end) - held.start.max(range.start)).sum();
            (range.end - range.start - there, range.start)
        };
        let all: Vec<(u64, u64)> = self.live().into_iter().map(lacking).filter(|(bytes, _)| *bytes > 0).collect();
        let (_, first) = all.first()?;
        let bytes: u64 = all.iter().map(|(bytes, _)| bytes).sum();
        Some(format!(
            "{bytes} bytes that are there after step {} are not in the memory after it, in the range at {first:#x} first: what was written there is \
             not compared",
            self.part.last
        ))
    }

    /// The last step, without what changed while it ran: its number among those of the part.
    pub fn last(&self) -> Option<usize> {
        self.steps.iter().rposition(|step| !step.is_meanwhile())
    }

    /// The symbol of the kernel of a step; empty for other steps.
    pub fn symbol(&self, step: &PartStep<'_>) -> &str {
        match step.work {
            Work::Dispatch { kernel, .. } => {
                self.kernels.get(kernel).map_or("", |captured| &captured.original.kernel.name)
            }
            Work::Copy { .. } | Work::Fill { .. } | Work::Barrier => "",
        }
    }

    /// The memory that is there after the last step, as far as the part reaches it: nothing that was freed until then.
    pub fn live(&self) -> Vec<Range<u64>> {
        let place = self.steps.last().map_or(self.region.record.place, |step| step.step.place);
        let live = self.region.reader.allocations_at(place);
        let is_live = |a: &&&Placed<Allocation>| live.iter().any(|live| live.place == a.place);
        let gone = self.captured.allocations.iter().filter(|a| !is_live(a));
        let gone = gone.map(|a| a.base..a.base.saturating_add(a.size));
        let mut ranges = self.captured.before.ranges();
        for gone in gone {
            // What is there now, where something else was before.
            let kept = live.iter().map(|a| a.base..a.base.saturating_add(a.size));
            let mut dropped = vec![gone];
            for kept in kept {
                dropped = dropped.into_iter().flat_map(|range| crate::dispatch::without(range, &kept)).collect();
                dropped.retain(|range| range.start < range.end);
            }
            for dropped in dropped {
                ranges = ranges.into_iter().flat_map(|range| crate::dispatch::without(range, &dropped)).collect();
                ranges.retain(|range| range.start < range.end);
            }
        }
        ranges
    }
}

/// What is taken out of a region so far.
struct Taken<'r> {
    kernels: Vec<CapturedDispatch<'r>>,
    steps: Vec<PartStep<'r>>,
    qualified: Vec<String>,
}

impl<'r> Taken<'r> {
    /// The number of the kernel of a dispatch.
    fn kernel(
        &mut self,
        region: &Region<'r>,
        dispatch: &'r Placed<Dispatch>,
        before: &Memory<'r>,
        known: &mut HashMap<KernelKey, usize>,
    ) -> Result<usize> {
        let queues = &region.reader.records().queues;
        let queue_kind = queues.iter().find(|queue| queue.id == dispatch.queue).map_or(0, |queue| queue.kind);
        let key = (dispatch.kernel, dispatch.replaced_kernel, queue_kind);
        if let Some(number) = known.get(&key) {
            return Ok(*number);
        }
        self.kernels.push(CapturedDispatch::with_memory(region.reader, dispatch, before.clone(), None)?);
        let number = self.kernels.len() - 1;
        known.insert(key, number);
        Ok(number)
    }
}

/// The first dispatch of a part, with the memory and the other dispatches of it.
fn joined<'r>(
    region: &'r Region<'r>,
    steps: &[&'r Placed<Step>],
    works: &[PartStep<'r>],
    kernels: &[CapturedDispatch<'r>],
    before: Memory<'r>,
    after: Option<Memory<'r>>,
) -> Result<CapturedDispatch<'r>> {
    let dispatches = works.iter().filter_map(|step| match step.work {
        Work::Dispatch { kernel, dispatch } => Some((kernels.get(kernel)?, dispatch)),
        Work::Copy { .. } | Work::Fill { .. } | Work::Barrier => None,
    });
    let Some((_, first)) = dispatches.clone().next() else {
        return Err(CapturedError::Unsupported(format!("region {}: steps without a dispatch", region.record.id)));
    };
    let mut captured = CapturedDispatch::with_memory(region.reader, first, before, after)?;
    captured.companions = dispatches
        .clone()
        .skip(1)
        .map(|(kernel, dispatch)| Companion { dispatch, original: Arc::clone(&kernel.original), loaded: kernel.loaded })
        .collect();
    captured.allocations = region.allocations(steps);
    captured.of_two_kinds = of_two_kinds(&captured.allocations);
    let mut loaded: Vec<&'r Loaded> = captured.all_loaded.clone();
    for other in kernels.iter().flat_map(|kernel| &kernel.all_loaded) {
        if !loaded.iter().any(|known| std::ptr::eq(*known, *other)) {
            loaded.push(other);
        }
    }
    captured.all_loaded = loaded;
    if let Some(cooperative) = kernels.iter().find(|kernel| kernel.is_cooperative()) {
        captured.queue_kind = cooperative.queue_kind;
    }
    let ids: std::collections::HashSet<u64> = dispatches.map(|(_, dispatch)| dispatch.id).collect();
    let notes = region.reader.notes().iter().filter(|note| {
        let matters = note.severity == Severity::Loss || [KERNARG_EXTENT, UNANNOUNCED].contains(&&*note.code);
        matters && note.dispatch.is_none_or(|about| ids.contains(&about))
    });
    captured.doubts = notes.map(|note| &note.value).collect();
    Ok(captured)
}

#[cfg(test)]
mod tests {
    use logdur_capture::FramePosition;

    use super::*;

    #[test]
    fn memory_of_another_kind_where_some_was_before_is_told_in_whole_pages() {
        let placed = |base, size, kind, sequence| Placed {
            place: FramePosition { sequence, offset: 0 },
            value: Allocation { base, size, kind, ..Allocation::default() },
        };
        let (coarse, pool) = (AllocationKind::DeviceCoarse, AllocationKind::HostPool);
        let all = [
            placed(0x1000, 0x2000, coarse, 1),
            placed(0x2100, 0x100, pool, 2),
            placed(0x8000, 0x1000, coarse, 1),
            placed(0x8000, 0x2000, coarse, 2),
        ];
        let all: Vec<&Placed<Allocation>> = all.iter().collect();
        let both = 0x1000..0x3000;
        assert_eq!(of_two_kinds(&all), [both]);
        assert_eq!(of_two_kinds(&all[2..]), []);
    }

    #[test]
    fn a_copy_is_inside_of_memory_or_it_is_not() {
        let ranges = [0x1000..0x2000, 0x3000..0x4000];
        let inside = |start, bytes| has_all(&ranges, start, bytes);
        assert!(inside(0x1000, 0x1000) && inside(0x1fff, 1) && inside(0x3001, 2) && inside(0x9000, 0));
        assert!(!inside(0x1001, 0x1000) && !inside(0xfff, 1) && !inside(0x2000, 1) && !inside(0x1000, u64::MAX));
    }
}
