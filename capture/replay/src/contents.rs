//! The memory before a kernel: the captured bytes, and around them a pattern that detects stray writes.
//!
//! Allocations begin and end inside of pages. The rest of such a page belongs to no allocation, and the GPU lets every kernel write it. It
//! is filled with a pattern before each replay, and checked after it. Loaded code and the arguments are checked, too.

use std::collections::BTreeMap;
use std::ops::Range;

use logdur_capture::Memory;
use logdur_captured::CapturedDispatch;
use logdur_captured::regions::PAGE;
use logdur_captured::verify::{Buffer, Tolerance, Type};

use crate::error::Result;
use crate::filled::{Filled, OTHER};

/// What is where nothing was captured.
#[derive(Clone, Debug)]
enum What {
    /// Without an owner: a pattern.
    Gap,
    /// Known bytes: code and constants, as the loader put them there, and arguments.
    Fixed(Vec<u8>),
}

/// Parts of memory that were not captured and that no kernel has a reason to write to, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Around(BTreeMap<u64, (u64, What)>);

/// The memory of a time, and what is around it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contents<'a> {
    pub(crate) memory: &'a Memory<'a>,
    pub(crate) around: &'a Around,
    /// Bytes that are laid over the memory.
    pub(crate) filled: Option<&'a Filled>,
}

/// The pattern at an address. It is never zero, which is what stray writes write most.
pub(crate) fn pattern(address: u64) -> u8 {
    let mixed = (address ^ address >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8 | 1
}

/// Joins ranges that meet, by address.
fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by_key(|range| range.start);
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

/// The parts of the pages of captured memory that were not captured.
pub(crate) fn gaps(captured: &CapturedDispatch<'_>, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let pages =
        |range: &Range<u64>| range.start / PAGE * PAGE..range.end.checked_next_multiple_of(PAGE).unwrap_or(range.end);
    let code = captured.code().map(|code| pages(&code));
    // Of an allocation that was not captured, nothing is known: what is written there would be lost.
    let taken = joined(ranges.iter().cloned().chain(code).collect());
    let mut gaps = Vec::new();
    let mut taken = taken.iter().peekable();
    for range in joined(ranges.iter().map(pages).collect()) {
        let mut at = range.start;
        while let Some(next) = taken.next_if(|next| next.start < range.end) {
            if at < next.start {
                gaps.push(at..next.start);
            }
            at = at.max(next.end);
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
    }
    gaps
}

impl Around {
    /// With gaps.
    pub(crate) fn of_gaps(gaps: &[Range<u64>]) -> Around {
        Around(gaps.iter().map(|gap| (gap.start, (gap.end, What::Gap))).collect())
    }

    /// Adds a part with known bytes, or replaces it.
    pub(crate) fn fixed(&mut self, address: u64, bytes: Vec<u8>) {
        self.0.insert(address, (address.saturating_add(bytes.len() as u64), What::Fixed(bytes)));
    }

    /// Bytes of all parts.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.iter().map(|(start, (end, _))| end - start).sum()
    }

    /// True for an address of one of the parts.
    pub(crate) fn contains(&self, address: u64) -> bool {
        self.at(address).is_some()
    }

    /// The part that an address is in.
    fn at(&self, address: u64) -> Option<(Range<u64>, &What)> {
        let (start, (end, what)) = self.0.range(..=address).next_back()?;
        (address < *end).then_some((*start..*end, what))
    }

    /// Names for gaps, by the buffers that they are next to.
    pub(crate) fn buffers(&self, buffers: &[Buffer]) -> Vec<Buffer> {
        let name = |range: &Range<u64>| {
            let next = |at: fn(&Buffer) -> u64, to: u64| buffers.iter().find(|buffer| at(buffer) == to);
            let behind = next(|buffer| buffer.end, range.start).map(|buffer| format!("gap behind {}", buffer.name));
            let before = || next(|buffer| buffer.start, range.end).map(|buffer| format!("gap before {}", buffer.name));
            behind.or_else(before).unwrap_or_else(|| format!("gap at {:#x}", range.start))
        };
        let gaps =
            self.0.iter().filter(|(_, (_, what))| matches!(what, What::Gap)).map(|(start, (end, _))| *start..*end);
        gaps.map(|range| around(name(&range), &range)).collect()
    }
}

/// A buffer of what is around the captured memory.
pub(crate) fn around(name: String, range: &Range<u64>) -> Buffer {
    Buffer { name, start: range.start, end: range.end, element_type: Type::Bits(1), tolerance: Tolerance::default() }
}

impl Contents<'_> {
    /// Fills a buffer with the memory from an address on.
    ///
    /// # Errors
    /// When not all of it was captured or is around that, or the file is damaged.
    pub(crate) fn read(&self, address: u64, to: &mut [u8]) -> Result<()> {
        let end = address.saturating_add(to.len() as u64);
        let other = if self.filled.is_some() { OTHER } else { 0 };
        let (mut at, mut rest) = (address, &mut *to);
        while at < end {
            let part = self.around.at(at);
            let next = self.around.0.range(at..end).next().map_or(end, |(start, _)| *start);
            let stop = part.as_ref().map_or(next, |(range, _)| range.end.min(end));
            let (now, later) = std::mem::take(&mut rest).split_at_mut_checked((stop - at) as usize).unwrap_or_default();
            match part {
                None => self.memory.read(at, now)?,
                Some((_, What::Gap)) => now.iter_mut().zip(at..).for_each(|(byte, at)| *byte = pattern(at ^ other)),
                Some((range, What::Fixed(bytes))) => {
                    let from = bytes.get((at - range.start) as usize..).unwrap_or_default();
                    now.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
                }
            }
            (at, rest) = (stop, later);
        }
        self.filled.iter().for_each(|filled| filled.lay(address, to));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_meet_are_joined() {
        assert_eq!(joined(vec![5..9, 1..3, 3..4, 8..12, 20..20]), [1..4, 5..12]);
    }

    #[test]
    fn the_pattern_is_nowhere_zero_and_no_two_words_of_it_are_the_same() {
        let word = |at: u64| (at..at + 4).map(pattern).collect::<Vec<u8>>();
        let words: std::collections::BTreeSet<Vec<u8>> = (0..512).map(|n| word(0x7f31_0020_3000 + 4 * n)).collect();
        assert!(words.len() > 500 && words.iter().flatten().all(|byte| *byte != 0), "{}", words.len());
    }

    #[test]
    fn a_part_is_found_by_its_addresses_only() {
        let range = 0x1100..0x2000;
        let mut around = Around::of_gaps(std::slice::from_ref(&range));
        around.fixed(0x5000, vec![1, 2, 3]);
        let found = [0x10ff, 0x1100, 0x1fff, 0x2000, 0x5002, 0x5003].map(|at| around.contains(at));
        assert_eq!(found, [false, true, true, false, true, false]);
    }
}
