//! What changed in memory of the host while a dispatch ran in the application that may have written it: the dispatch did it, or the host.
//!
//! A replay of the application's own kernel decides. What it changes the dispatch has written, whatever it leaves there. What it leaves
//! alone and what has changed in the application is the host's, and is written behind the dispatch from then on, also where another kernel
//! takes the place of its own. A result that rests on that says so.

use std::mem;
use std::ops::Range;

use logdur_captured::region::{CapturedPart, Work};

use super::run::{LoadedPart, Side};
use crate::error::Result;
use crate::placed::PlacedRange;

/// Bytes of the largest value that kernels store at once as one: a value is the dispatch's or the host's as a whole.
const VALUE: u64 = 8;
/// Bytes between two ranges that are read together.
const NEAR: u64 = 256;
/// The most bytes that are read together.
const MOST: u64 = 1 << 20;

/// Memory before a dispatch: addresses, and the bytes from each on.
pub(super) type Before = Vec<(u64, Vec<u8>)>;

/// Takes what is to be decided out of what is written before each step.
pub(super) fn undecided(part: &CapturedPart<'_>, changed: &mut [Vec<PlacedRange>]) -> Vec<Vec<PlacedRange>> {
    let mut is_behind_dispatch = false;
    let take = |(step, changed): (&logdur_captured::region::PartStep<'_>, &mut Vec<PlacedRange>)| {
        let is_open = mem::replace(&mut is_behind_dispatch, matches!(step.work, Work::Dispatch { .. }));
        if is_open && step.is_meanwhile() { mem::take(changed) } else { Vec::new() }
    };
    part.steps.iter().zip(changed).map(take).collect()
}

/// Ranges of whole values that have all of some ranges, which are sorted: those near each other are one.
fn joined(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let (start, end) = (range.start / VALUE * VALUE, range.end.next_multiple_of(VALUE));
        match all.last_mut() {
            Some(last) if start <= last.end.saturating_add(NEAR) && end - last.start <= MOST => {
                last.end = last.end.max(end);
            }
            _ => all.push(start..end),
        }
    }
    all
}

/// What memory that begins at `base` has of an interval of addresses.
fn between(bytes: &[u8], base: u64, from: u64, to: u64) -> Option<&[u8]> {
    let [from, to] = [from, to].map(|at| at.saturating_sub(base).min(bytes.len() as u64) as usize);
    bytes.get(from..to)
}

/// The parts of a range that a dispatch has left as they were, and that are others than in the application. Values are at multiples of
/// [`VALUE`]. `before` and `after` begin at `start`, and have as much of the values of the range as there is.
fn of_host(range: &Range<u64>, in_app: &[u8], start: u64, before: &[u8], after: &[u8]) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let value = at / VALUE * VALUE;
        let end = (value + VALUE).min(range.end);
        let whole = |bytes| between(bytes, start, value, value + VALUE);
        let is_left_alone = whole(before) == whole(after);
        if is_left_alone && between(after, start, at, end) != between(in_app, range.start, at, end) {
            match all.last_mut() {
                Some(last) if last.end == at => last.end = end,
                _ => all.push(at..end),
            }
        }
        at = end;
    }
    all
}

impl LoadedPart<'_> {
    /// The memory before a dispatch that is to be decided by it: where this is the application's own.
    ///
    /// # Errors
    /// When the device cannot be read.
    pub(super) fn before_dispatch(&self, side: &Side, number: usize) -> Result<Before> {
        match self.undecided.get(number + 1) {
            Some(areas) if side.is_own => self.read_all(&joined(areas.iter().map(|area| area.captured.clone()))),
            _ => Ok(Vec::new()),
        }
    }

    /// What of ranges is restored memory.
    fn read_all(&self, ranges: &[Range<u64>]) -> Result<Before> {
        let mut all = Vec::new();
        for range in ranges.iter().flat_map(|range| self.loaded.restored_of(range)) {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            self.loaded.read_captured(range.start, &mut bytes)?;
            all.push((range.start, bytes));
        }
        Ok(all)
    }

    /// Decides what the host has written while a dispatch ran.
    ///
    /// # Errors
    /// When the device or the capture cannot be read.
    pub(super) fn decide(&mut self, number: usize, before: Before) -> Result<()> {
        if before.is_empty() {
            return Ok(());
        }
        let areas = self.undecided.get_mut(number + 1).map(mem::take).unwrap_or_default();
        let Some(delta) = self.part.steps.get(number + 1).and_then(|step| step.delta.as_ref()) else { return Ok(()) };
        let mut of_hosts = Vec::new();
        let mut areas = areas.into_iter().peekable();
        for (start, before) in before {
            let end = start + before.len() as u64;
            let mut after = vec![0; before.len()];
            self.loaded.read_captured(start, &mut after)?;
            while let Some(area) = areas.next_if(|area| area.captured.start < end) {
                let mut in_app = vec![0; (area.captured.end - area.captured.start) as usize];
                delta.read(area.captured.start, &mut in_app)?;
                let parts = of_host(&area.captured, &in_app, start, &before, &after);
                of_hosts.extend(parts.into_iter().map(|captured| PlacedRange {
                    placed: area.placed.plus(captured.start - area.captured.start),
                    captured,
                }));
            }
        }
        if let Some(changed) = self.changed.get_mut(number + 1) {
            *changed = of_hosts;
        }
        Ok(())
    }

    /// True if what changed while dispatches ran is not decided yet.
    pub(super) fn is_undecided(&self) -> bool {
        self.undecided.iter().any(|areas| !areas.is_empty())
    }

    /// Replays the application's own kernels where something is to be decided.
    ///
    /// # Errors
    /// As for [`LoadedPart::run`].
    pub(super) fn decide_all(&mut self, own: &Side) -> Result<()> {
        if !self.is_undecided() {
            return Ok(());
        }
        // All memory is looked at: what they have changed is put back.
        self.after(own, self.part.steps.len()).map(drop)
    }

    /// Why results say less than they could, one line each.
    pub(super) fn qualified(&self) -> Vec<String> {
        let mut all = [self.part.qualified.clone(), self.loaded.qualified.clone()].concat();
        let steps = self.part.steps.iter().zip(&self.changed).filter(|(step, _)| step.is_meanwhile());
        let with_host: Vec<_> = steps.filter(|(_, changed)| !changed.is_empty()).collect();
        if let Some((first, changed)) = with_host.first() {
            let length = |range: &PlacedRange| range.captured.end - range.captured.start;
            let bytes: u64 = with_host.iter().flat_map(|(_, changed)| *changed).map(length).sum();
            let at = changed.first().map_or(0, |range| range.captured.start);
            all.push(format!(
                "{bytes} bytes changed while kernels ran that may have written them, and count as the host's: replays leave them alone. That was in \
                 {} steps, the first is {}, at {at:#x}",
                with_host.len(),
                first.step.sequence - 1
            ));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_near_each_other_are_read_together_and_as_whole_values() {
        let all = [0x1003..0x1004, 0x1010..0x1011, 0x2000..0x2001];
        assert_eq!(joined(all.into_iter()), [0x1000..0x1018, 0x2000..0x2008]);
        let far = [0..8, MOST - 8..MOST + 1];
        assert_eq!(joined(far.into_iter()), [0..8, MOST - 8..MOST + 8]);
    }

    /// Which of 16 bytes at address 16 are the host's, as the first and the last of each range: the application changed those in `range`, a
    /// dispatch those in `by_dispatch` to `to`.
    fn hosts(range: Range<u64>, by_dispatch: Range<usize>, to: u8) -> Vec<(u64, u64)> {
        let mut after = [0; 16];
        after[by_dispatch].fill(to);
        let in_app = vec![7; (range.end - range.start) as usize];
        let found = of_host(&range, &in_app, 16, &[0; 16], &after);
        found.into_iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn what_a_dispatch_leaves_alone_is_the_hosts_and_what_it_changes_is_its_own_by_whole_values() {
        assert_eq!(hosts(16..32, 0..16, 7), []);
        assert_eq!(hosts(16..32, 0..0, 0), [(16, 32)]);
        assert_eq!(hosts(17..30, 8..16, 7), [(17, 24)]);
        // It changed one byte of a value: all of it is the dispatch's, and wrong.
        assert_eq!(hosts(16..24, 3..4, 7), []);
        assert_eq!(hosts(16..32, 3..4, 9), [(24, 32)]);
        // Of a value that is restored in part, that part decides.
        assert_eq!(of_host(&(16..20), &[7; 4], 16, &[0; 4], &[0; 4]).first(), Some(&(16..20)));
    }

    #[test]
    fn every_way_to_divide_two_values_among_the_host_and_a_dispatch_is_decided_by_values() {
        for from in 16..32 {
            for to in from + 1..=32 {
                for at in 0..16 {
                    let expected: u64 = (from..to).filter(|byte| byte / 8 != (16 + at as u64) / 8).count() as u64;
                    let found: u64 = hosts(from..to, at..at + 1, 9).iter().map(|(start, end)| end - start).sum();
                    assert_eq!(found, expected, "{from}..{to} {at}");
                }
            }
        }
    }
}
