//! Finds memory that a kernel can write, as far as its arguments tell, and memory that the host wrote during the capture.
//!
//! Threads of the application continue during a capture: they write the arguments of the next dispatch, and fill buffers on the host.
//! A change is the host's work, not the kernel's, if the host can write the memory, no argument leads to it, and no replay changed it.

use std::collections::BTreeMap;
use std::ops::Range;

use amdgpu_code_object::{Arguments, MayWrite};
use logdur_capture::{Allocation, AllocationKind, WORD, words, words_in};
use logdur_captured::CapturedDispatch;
use logdur_captured::verify::{BufferReport, Verdict};

use crate::error::Result;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Gives buffers their verdict that the host changed while the kernel ran: no replay of the application's own kernel changed
/// anything in them.
///
/// # Errors
/// When the capture is damaged.
pub(crate) fn mark_host_writes(captured: &CapturedDispatch<'_>, reports: &mut [BufferReport]) -> Result<()> {
    let mut reach = None;
    let is_left_alone = |r: &&mut BufferReport| r.verdict.is_failure() && r.written > 0 && r.own_replayed == 0;
    for report in reports.iter_mut().filter(is_left_alone) {
        let buffer = &report.buffer;
        let of = captured.allocations.iter().find(|a| a.base <= buffer.start && buffer.start - a.base < a.size);
        let Some(allocation) = of.filter(|a| host_writes(captured, a)) else { continue };
        let reach = match &mut reach {
            Some(reach) => reach,
            none => none.insert(Reach::of(captured)?),
        };
        if !reach.writes(allocation.base) {
            (report.mismatches, report.unreproduced, report.changed) = (0, 0, 0);
            if report.outside > 0 {
                // The kernel that is judged wrote there.
                report.verdict = Verdict::TouchedOutside;
            } else {
                report.verdict = Verdict::ChangedByHost;
                report.first = None;
            }
        }
    }
    Ok(())
}

/// True for memory that the host writes: by its kind, or because it holds arguments.
fn host_writes(captured: &CapturedDispatch<'_>, allocation: &Allocation) -> bool {
    is_hosts(allocation.kind) || is_hosts(allocation.backing) || holds_arguments(captured, allocation)
}

/// True for memory that holds the arguments of dispatches: by its kind, because this dispatch's are in it, or because its
/// kind and size are those of the block with this dispatch's. HIP has one such block per stream, in the GPU's own memory
/// where the host can write that (`HIP_FORCE_DEV_KERNARG`).
fn holds_arguments(captured: &CapturedDispatch<'_>, allocation: &Allocation) -> bool {
    let arguments = captured.packet().kernarg_address();
    let of_this = captured.allocations.iter().find(|a| a.base <= arguments && arguments - a.base < a.size);
    allocation.kind == AllocationKind::Kernarg
        || of_this.is_some_and(|block| (block.kind, block.size) == (allocation.kind, allocation.size))
}

/// True for memory that the host writes as a matter of course.
fn is_hosts(kind: AllocationKind) -> bool {
    use AllocationKind::{HostPool, Kernarg, LockedHost, Managed};
    matches!(kind, HostPool | Kernarg | LockedHost | Managed)
}

/// How a kernel gets to an allocation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// Nothing leads there.
    None,
    /// Only through what nothing is written through.
    Read,
    /// Something leads there.
    Write,
}

/// An allocation, as far as reach goes.
struct Reached {
    end: u64,
    /// It holds the arguments of other dispatches: a kernel that only reads constants there follows no address in it.
    holds_arguments: bool,
    way: Way,
    /// Its words have been looked at, or will be.
    followed: bool,
}

/// The allocations, by their first address, and how a kernel gets to them. Everything in memory that looks like an address
/// is taken for one.
struct Reach {
    all: BTreeMap<u64, Reached>,
    /// Those whose words have not been looked at.
    next: Vec<Range<u64>>,
}

impl Reach {
    fn of(captured: &CapturedDispatch<'_>) -> Result<Reach> {
        let all = captured.allocations.iter().map(|a| {
            let (end, holds_arguments) = (a.base.saturating_add(a.size), holds_arguments(captured, a));
            (a.base, Reached { end, holds_arguments, way: Way::None, followed: false })
        });
        let mut reach = Reach { all: all.collect(), next: Vec::new() };
        let arguments = Arguments::of(&captured.original.kernel.arguments);
        for (offset, word) in words(&captured.dispatch.kernarg).enumerate() {
            match arguments.may_write(offset) {
                MayWrite::All => reach.look(&word.to_le_bytes(), Way::Write),
                MayWrite::Behind => reach.look(&word.to_le_bytes(), Way::Read),
                MayWrite::Nothing => {}
            }
        }
        let own = captured.globals.iter().map(|global| global.address..global.address.saturating_add(global.size));
        for variables in own.chain(captured.called().iter().flat_map(|called| called.ranges.iter().cloned())) {
            reach.look(&variables.start.to_le_bytes(), Way::Write);
            reach.next.push(variables);
        }
        let ranges = captured.before.ranges();
        let mut piece = Vec::new();
        while let Some(range) = reach.next.pop() {
            for held in &ranges {
                let (start, end) = (range.start.max(held.start), range.end.min(held.end));
                for at in (start..end).step_by(PIECE) {
                    // With what follows: an address may lie across.
                    let length = (end - at).min((PIECE + WORD - 1) as u64) as usize;
                    piece.resize(length, 0);
                    captured.before.read(at, &mut piece)?;
                    reach.look(&piece, Way::Write);
                }
            }
        }
        Ok(reach)
    }

    /// Takes bytes for addresses.
    fn look(&mut self, bytes: &[u8], way: Way) {
        let (Some(lowest), Some(highest)) = (self.all.keys().next().copied(), self.all.values().map(|a| a.end).max())
        else {
            return;
        };
        for word in words_in(bytes, (lowest, highest)) {
            let Some((base, reached)) = self.all.range_mut(..=word).next_back() else { continue };
            if word >= reached.end {
                continue;
            }
            reached.way = reached.way.max(way);
            if !reached.followed && (way == Way::Write || !reached.holds_arguments) {
                reached.followed = true;
                self.next.push(*base..reached.end);
            }
        }
    }

    fn writes(&self, base: u64) -> bool {
        self.all.get(&base).is_some_and(|reached| reached.way == Way::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unreached(end: u64, holds_arguments: bool) -> Reached {
        Reached { end, holds_arguments, way: Way::None, followed: false }
    }

    fn words(words: [u64; 2]) -> Vec<u8> {
        words.map(u64::to_le_bytes).concat()
    }

    #[test]
    fn what_only_constant_arguments_lead_to_is_read_and_what_it_points_to_is_written() {
        let all =
            [(0x1000, 0x2000), (0x4000, 0x5000), (0x8000, 0x8001)].map(|(base, end)| (base, unreached(end, false)));
        let mut reach = Reach { all: all.into(), next: Vec::new() };
        reach.look(&words([0x1fff, 0x2000]), Way::Read);
        assert!(!reach.writes(0x1000) && reach.next.first() == Some(&(0x1000..0x2000)));
        // At any byte, as in a packed struct.
        let packed = [[0; 3].as_slice(), &0x4000u64.to_le_bytes(), &[0; 5]].concat();
        reach.look(&packed, Way::Write);
        assert!(reach.writes(0x4000) && !reach.writes(0x8000));
        reach.look(&words([0x1000, 0x8001]), Way::Write);
        assert!(reach.writes(0x1000) && !reach.writes(0x8000));
        assert_eq!(reach.next, [0x1000..0x2000, 0x4000..0x5000]);
    }

    #[test]
    fn constants_among_the_arguments_of_other_dispatches_lead_to_none_of_their_buffers() {
        let mut reach = Reach { all: [(0x1000, unreached(0x2000, true))].into(), next: Vec::new() };
        reach.look(&words([0x1800, 0]), Way::Read);
        assert!(!reach.writes(0x1000) && reach.next.is_empty());
        // An address that may be written through is followed.
        reach.look(&words([0x1800, 0]), Way::Write);
        assert!(reach.writes(0x1000));
        assert_eq!(reach.next.first(), Some(&(0x1000..0x2000)));
    }
}
