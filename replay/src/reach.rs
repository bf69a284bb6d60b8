//! What a kernel can write to, as far as its arguments tell; and what the host wrote meanwhile.
//!
//! Threads of the application go on while a dispatch is captured: they lay the arguments of the next one, and fill buffers of
//! the host. What changed in memory that the host writes too, to which nothing leads that the kernel was given, and which no
//! replay changed, was not the kernel's work.

use std::collections::BTreeMap;
use std::ops::Range;

use amdgpu_code_object::{Access, AddressSpace, Argument};
use logdur_capture::AllocationKind;

use crate::case::Case;
use crate::error::Result;
use crate::verify::{BufferReport, Verdict};

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;
/// Bytes of an address.
const WORD: usize = 8;
/// Structs may be packed: addresses are looked for at every byte.
const STEP: usize = 1;

/// Gives buffers their verdict that the host changed while the kernel ran: no replay of the application's own kernel changed
/// anything in them.
///
/// # Errors
/// When the capture is damaged.
pub(crate) fn settle(case: &Case<'_>, reports: &mut [BufferReport]) -> Result<()> {
    let mut reach = None;
    let is_left_alone = |r: &&mut BufferReport| r.verdict.is_failure() && r.written > 0 && r.own_replayed == 0;
    for report in reports.iter_mut().filter(is_left_alone) {
        let buffer = &report.buffer;
        let of = case.allocations.iter().find(|a| a.base <= buffer.start && buffer.start - a.base < a.size);
        let Some(allocation) = of.filter(|a| is_hosts(a.kind) || is_hosts(a.backing)) else { continue };
        let reach = match &mut reach {
            Some(reach) => reach,
            none => none.insert(Reach::of(case)?),
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

/// True for memory that the host writes as a matter of course.
fn is_hosts(kind: AllocationKind) -> bool {
    use AllocationKind::{HostPool, Kernarg, LockedHost, Managed};
    matches!(kind, HostPool | Kernarg | LockedHost | Managed)
}

/// True for an argument of which the compiler says that nothing is written through it.
fn is_read_only(argument: &Argument) -> bool {
    argument.address_space == Some(AddressSpace::Constant) || argument.actual_access == Some(Access::ReadOnly)
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

/// The allocations, by their first address, and how a kernel gets to them. Everything in memory that looks like an address
/// is taken for one.
struct Reach {
    all: BTreeMap<u64, (u64, Way)>,
    /// Those whose words have not been looked at.
    next: Vec<Range<u64>>,
}

impl Reach {
    fn of(case: &Case<'_>) -> Result<Reach> {
        let all = case.allocations.iter().map(|a| (a.base, (a.base.saturating_add(a.size), Way::None)));
        let mut reach = Reach { all: all.collect(), next: Vec::new() };
        let mut writable = case.dispatch.kernarg.clone();
        for argument in case.original.kernel.arguments.iter().filter(|a| is_read_only(a)) {
            let at = argument.offset as usize;
            if let Some(word) = writable.get_mut(at..at + WORD) {
                reach.look(word, Way::Read);
                word.fill(0);
            }
        }
        reach.look(&writable, Way::Write);
        for global in &case.globals {
            reach.look(&global.address.to_le_bytes(), Way::Write);
            reach.next.push(global.address..global.address.saturating_add(global.size));
        }
        let captured = case.before.ranges();
        let mut piece = Vec::new();
        while let Some(range) = reach.next.pop() {
            for (start, length) in &captured {
                let (start, end) = (range.start.max(*start), range.end.min(start.saturating_add(*length)));
                for at in (start..end).step_by(PIECE) {
                    // With what follows: an address may lie across.
                    let length = (end - at).min((PIECE + WORD - STEP) as u64) as usize;
                    piece.resize(length, 0);
                    case.before.read(at, &mut piece)?;
                    reach.look(&piece, Way::Write);
                }
            }
        }
        Ok(reach)
    }

    /// Takes bytes for addresses.
    fn look(&mut self, bytes: &[u8], way: Way) {
        let (Some(lowest), Some(highest)) =
            (self.all.keys().next().copied(), self.all.values().map(|(end, _)| *end).max())
        else {
            return;
        };
        let words = bytes.windows(WORD).step_by(STEP).filter_map(|word| word.try_into().ok()).map(u64::from_le_bytes);
        for word in words.filter(|word| (lowest..highest).contains(word)) {
            let Some((base, (end, known))) = self.all.range_mut(..=word).next_back() else { continue };
            if word < *end && *known < way {
                if *known == Way::None {
                    self.next.push(*base..*end);
                }
                *known = way;
            }
        }
    }

    fn writes(&self, base: u64) -> bool {
        self.all.get(&base).is_some_and(|(_, way)| *way == Way::Write)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_constant_arguments_lead_to_is_read_and_what_it_points_to_is_written() {
        let all = [(0x1000, (0x2000, Way::None)), (0x4000, (0x5000, Way::None)), (0x8000, (0x8001, Way::None))];
        let mut reach = Reach { all: all.into(), next: Vec::new() };
        let words = |words: [u64; 2]| words.map(u64::to_le_bytes).concat();
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
}
