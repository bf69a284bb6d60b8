//! Rewrites addresses of memory and code that could not be placed at their captured addresses.
//!
//! An aligned word of 64 bits counts as an address if its value is inside moved memory. A number that happens to have such a value is
//! rewritten, too. So every result of a relocated replay says so.

use std::ops::Range;

use crate::placed::{Placed, PlacedRange};

/// Bytes of an address.
const WORD: u64 = 8;

/// What is elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Relocations {
    parts: Vec<PlacedRange>,
    /// Captured addresses of bytes that are never rewritten.
    fixed: Vec<Range<u64>>,
}

fn now(part: &PlacedRange) -> Range<Placed> {
    part.placed..part.now(part.captured.end)
}

impl Relocations {
    /// Of parts; those that are where they were do not count.
    pub(crate) fn of(parts: impl IntoIterator<Item = PlacedRange>) -> Relocations {
        let parts = parts.into_iter().filter(|part| part.placed.0 != part.captured.start).collect();
        Relocations { parts, fixed: Vec::new() }
    }

    /// Leaves bytes as they are: code and arguments, which are loaded and laid out for where things are now.
    pub(crate) fn fix(&mut self, captured: Range<u64>) {
        self.fixed.push(captured);
    }

    /// True when everything is where it was.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// How many parts are elsewhere.
    pub(crate) fn count(&self) -> usize {
        self.parts.len()
    }

    /// Where a captured address is now.
    pub(crate) fn placed(&self, captured: u64) -> Placed {
        let part = self.parts.iter().find(|part| part.captured.contains(&captured));
        part.map_or(Placed(captured), |part| part.now(captured))
    }

    /// Which captured address is there now.
    pub(crate) fn captured(&self, placed: Placed) -> u64 {
        let part = self.parts.iter().find(|part| now(part).contains(&placed));
        part.map_or(placed.0, |part| part.then(placed))
    }

    /// Cuts captured memory where parts begin and end.
    pub(crate) fn areas(&self, range: Range<u64>) -> Vec<PlacedRange> {
        let inside = |at: &u64| range.start < *at && *at < range.end;
        let ends = self.parts.iter().flat_map(|part| [part.captured.start, part.captured.end]).filter(inside);
        let mut cuts: Vec<u64> = ends.chain([range.start, range.end]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let area = |pair: &[u64; 2]| PlacedRange { captured: pair[0]..pair[1], placed: self.placed(pair[0]) };
        cuts.array_windows().map(area).collect()
    }

    /// Rewrites captured bytes for where things are now; how many words that were. `at` is the captured address of the first.
    pub(crate) fn forward(&self, at: u64, bytes: &mut [u8]) -> usize {
        self.rewrite(at, bytes, |word| self.placed(word).0)
    }

    /// Rewrites bytes of now as they would have been captured.
    pub(crate) fn backward(&self, at: u64, bytes: &mut [u8]) {
        self.rewrite(at, bytes, |word| self.captured(Placed(word)));
    }

    fn rewrite(&self, at: u64, bytes: &mut [u8], with: impl Fn(u64) -> u64) -> usize {
        if self.is_empty() || self.fixed.iter().any(|range| range.contains(&at)) {
            return 0;
        }
        let skipped = (at.next_multiple_of(WORD) - at) as usize;
        let words = bytes.get_mut(skipped..).unwrap_or_default().as_chunks_mut().0;
        let mut count = 0;
        for word in words {
            let old = u64::from_le_bytes(*word);
            let new = with(old);
            if new != old {
                *word = new.to_le_bytes();
                count += 1;
            }
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relocations() -> Relocations {
        let part = |start, end, placed| PlacedRange { captured: start..end, placed: Placed(placed) };
        Relocations::of([part(0x1000, 0x2000, 0x9000), part(0x3000, 0x4000, 0x3000), part(0x4000, 0x5000, 0x1000)])
    }

    #[test]
    fn words_that_are_addresses_of_what_was_moved_go_there_and_back() {
        let words = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        let captured = words(&[0x1000, 0x1fff, 0x2000, 0x3008, 0x4800, 7]);
        let mut bytes = captured.clone();
        assert_eq!(relocations().forward(0x8000, &mut bytes), 3);
        assert_eq!(bytes, words(&[0x9000, 0x9fff, 0x2000, 0x3008, 0x1800, 7]));
        relocations().backward(0x8000, &mut bytes);
        assert_eq!(bytes, captured);
        // Only aligned words are addresses.
        let mut apart = [&[0; 4], &*words(&[0x1000])].concat();
        assert_eq!((relocations().forward(4, &mut apart.clone()), relocations().forward(0, &mut apart)), (1, 0));
    }

    #[test]
    fn memory_is_cut_where_parts_begin_and_end() {
        let area = |start, end, placed| PlacedRange { captured: start..end, placed: Placed(placed) };
        let expected = [area(0x800, 0x1000, 0x800), area(0x1000, 0x2000, 0x9000), area(0x2000, 0x2800, 0x2000)];
        assert_eq!(relocations().areas(0x800..0x2800), expected);
        assert_eq!(relocations().areas(0x1800..0x1900), [area(0x1800, 0x1900, 0x9800)]);
        assert_eq!((relocations().count(), Relocations::of([area(1, 2, 1)]).is_empty()), (2, true));
    }
}
