//! The writer's memory of the newest snapshot: a key for each chunk of each range.
//!
//! A range that is captured again takes the old keys and changes them in place: a large process never has two copies of its keys.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::chunk::{self, Key};
use crate::header::CHUNK;

/// A range of addresses.
#[derive(Debug)]
struct KeyedRange {
    end: u64,
    /// Of each chunk; none when they are not remembered.
    keys: Vec<Key>,
}

/// Ranges by their first address. They do not overlap.
#[derive(Debug, Default)]
pub(crate) struct State {
    ranges: BTreeMap<u64, KeyedRange>,
}

/// A range that is being captured, and the known keys of its beginning.
#[derive(Debug)]
pub(crate) struct Visit {
    start: u64,
    at: u64,
    chunk: usize,
    /// The end of the known keys.
    old_end: u64,
    keys: Vec<Key>,
    remember: bool,
}

impl State {
    /// The addresses of every range. Adjacent ranges are one.
    pub(crate) fn addresses(&self) -> Vec<Range<u64>> {
        joined(self.ranges.iter().map(|(start, range)| *start..range.end))
    }

    /// Keys that are held, and room for them.
    pub(crate) fn keys(&self) -> usize {
        self.ranges.values().map(|r| r.keys.capacity()).sum()
    }

    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.ranges.range(..end).next_back().is_some_and(|(_, range)| range.end > start)
    }

    /// True when every address of a range is there.
    pub(crate) fn covers(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            match self.ranges.range(..=at).next_back() {
                Some((_, range)) if range.end > at => at = range.end,
                _ => return false,
            }
        }
        true
    }

    /// Removes and returns the keys from an address on, and their end address. Keys before the address stay.
    fn take(&mut self, start: u64) -> Option<(u64, Vec<Key>)> {
        let (&first, range) = self.ranges.range(..=start).next_back()?;
        if range.end <= start {
            return None;
        }
        let KeyedRange { end, mut keys } = self.ranges.remove(&first)?;
        if first < start {
            let whole = start.is_multiple_of(CHUNK);
            let before = (start / CHUNK - first / CHUNK) as usize;
            let tail = if whole && before <= keys.len() { keys.split_off(before) } else { Vec::new() };
            if !whole {
                keys = Vec::new();
            }
            self.ranges.insert(first, KeyedRange { end: start, keys });
            return Some((end, tail));
        }
        Some((end, keys))
    }

    /// Begins a range of chunks, with `room` for so many keys; how many of them it took.
    pub(crate) fn begin(&mut self, start: u64, end: u64, room: usize) -> (Visit, usize) {
        let (old_end, mut keys) = self.take(start).unwrap_or((start, Vec::new()));
        let count = chunk::count(start, end);
        let more = count.saturating_sub(keys.len());
        let remember = more <= room;
        if remember {
            keys.reserve_exact(more);
        }
        (Visit { start, at: start, chunk: 0, old_end, keys, remember }, if remember { more } else { 0 })
    }

    /// Ends a range: its keys move to `new`, and known keys behind it stay. False if they are not remembered.
    pub(crate) fn end(&mut self, visit: Visit, new: &mut State) -> bool {
        let Visit { start, at, chunk, old_end, mut keys, remember } = visit;
        if old_end > at {
            let tail = if at % CHUNK == 0 && chunk <= keys.len() { keys.split_off(chunk) } else { Vec::new() };
            self.ranges.insert(at, KeyedRange { end: old_end, keys: tail });
        }
        keys.truncate(chunk);
        if !remember {
            keys = Vec::new();
        }
        if at > start {
            new.ranges.insert(start, KeyedRange { end: at, keys });
        }
        remember
    }

    /// Moves a range to another state as it is. The range has to be covered.
    pub(crate) fn carry(&mut self, start: u64, end: u64, new: &mut State) {
        let mut at = start;
        while at < end
            && let Some((old_end, mut keys)) = self.take(at)
        {
            let stop = old_end.min(end);
            if old_end > end {
                let count = chunk::count(at, end);
                let whole = end.is_multiple_of(CHUNK) && count <= keys.len();
                let tail = if whole { keys.split_off(count) } else { Vec::new() };
                if !whole {
                    keys = Vec::new();
                }
                self.ranges.insert(end, KeyedRange { end: old_end, keys: tail });
            }
            new.ranges.insert(at, KeyedRange { end: stop, keys });
            at = stop;
        }
    }
}

impl Visit {
    /// The key of a chunk that is as long as that of the parent at an address from here on, if it is remembered.
    pub(crate) fn expected(&self, address: u64, length: u64) -> Option<Key> {
        let is_as_long = chunk::boundary(address).min(self.old_end) == address + length;
        self.keys.get(chunk::count(self.start, address)).copied().filter(|_| is_as_long)
    }

    /// Goes on by a chunk of some bytes: true when it is as it was.
    pub(crate) fn step(&mut self, length: u64, key: Key) -> bool {
        let end = self.at + length;
        let old_chunk_ends = chunk::boundary(self.at).min(self.old_end);
        let mut same = false;
        if let Some(slot) = self.keys.get_mut(self.chunk) {
            same = old_chunk_ends == end && *slot == key;
            *slot = key;
        } else if self.remember && self.keys.len() == self.chunk {
            self.keys.push(key);
        }
        self.chunk += 1;
        self.at = end;
        same
    }
}

/// Ranges in order, with adjacent ones merged.
pub(crate) fn joined(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range),
        }
    }
    all
}

/// The parts of `old` that `new` does not have, both in order.
pub(crate) fn without(old: &[Range<u64>], new: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut rest = Vec::new();
    let mut new = new.iter().peekable();
    for &Range { mut start, end } in old {
        while start < end {
            while new.next_if(|n| n.end <= start).is_some() {}
            match new.peek() {
                Some(next) if next.start < end => {
                    if next.start > start {
                        rest.push(start..next.start);
                    }
                    start = next.end;
                }
                _ => {
                    rest.push(start..end);
                    break;
                }
            }
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As one of a list: a list of one range looks like the list of its numbers.
    fn range(start: u64, end: u64) -> Range<u64> {
        start..end
    }

    fn key(n: u64) -> Key {
        Key::of_fill(n)
    }

    /// Captures a range whose chunks have the number of their 64 KiB, plus `change`; which were as before.
    fn capture(old: &mut State, new: &mut State, start: u64, end: u64, change: u64) -> Vec<bool> {
        let (mut visit, _) = old.begin(start, end, usize::MAX);
        let mut same = Vec::new();
        let mut at = start;
        while at < end {
            let stop = chunk::boundary(at).min(end);
            same.push(visit.step(stop - at, key(at / CHUNK + change)));
            at = stop;
        }
        assert!(old.end(visit, new));
        same
    }

    #[test]
    fn a_range_that_is_captured_again_is_the_same_where_nothing_changed() {
        let (mut old, mut first) = (State::default(), State::default());
        assert_eq!(capture(&mut old, &mut first, 100, 3 * CHUNK + 5, 0), [false; 4]);
        let mut second = State::default();
        assert_eq!(capture(&mut first, &mut second, 100, 3 * CHUNK + 5, 0), [true; 4]);
        assert_eq!(first.addresses(), []);
        // A chunk that is cut off elsewhere is another.
        let mut third = State::default();
        assert_eq!(capture(&mut second, &mut third, 100, 3 * CHUNK + 6, 0), [true, true, true, false]);
        let mut fourth = State::default();
        assert_eq!(capture(&mut third, &mut fourth, CHUNK, 2 * CHUNK, 0), [true]);
        assert_eq!(third.addresses(), [100..CHUNK, 2 * CHUNK..3 * CHUNK + 6]);
        assert_eq!(capture(&mut third, &mut fourth, 2 * CHUNK, 3 * CHUNK + 6, 0), [true, true]);
        assert_eq!(capture(&mut third, &mut fourth, 100, CHUNK, 1), [false]);
        assert_eq!(fourth.addresses(), [range(100, 3 * CHUNK + 6)]);
        assert!(fourth.overlaps(0, 101) && !fourth.overlaps(0, 100) && fourth.covers(100, 3 * CHUNK));
    }

    #[test]
    fn a_range_that_is_carried_over_keeps_what_is_known_of_whole_chunks() {
        let (mut old, mut new, mut none) = (State::default(), State::default(), State::default());
        capture(&mut none, &mut old, 0, 4 * CHUNK, 0);
        old.carry(CHUNK, 3 * CHUNK, &mut new);
        assert_eq!(old.addresses(), [0..CHUNK, 3 * CHUNK..4 * CHUNK]);
        let mut next = State::default();
        assert_eq!(capture(&mut new, &mut next, CHUNK, 3 * CHUNK, 0), [true, true]);
        assert_eq!(capture(&mut old, &mut next, 3 * CHUNK, 4 * CHUNK, 0), [true]);
    }

    #[test]
    fn what_is_left_of_ranges_without_others() {
        assert_eq!(without(&[0..10, 20..30], &[5..22, 25..26]), [0..5, 22..25, 26..30]);
        assert_eq!(without(&[range(0, 10)], &[]), [range(0, 10)]);
        assert_eq!(without(&[range(5, 10)], &[range(0, 20)]), []);
        assert_eq!(without(&[5..10, 12..14], &[0..6, 13..20]), [6..10, 12..13]);
    }
}
