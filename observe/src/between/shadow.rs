//! What is known of memory that workgroups share: of each piece of it, the first and the last workgroup that wrote it and that read
//! it.
//!
//! Workgroups are first and last by their numbers, not by time: what is kept of all accesses does not depend on their order.
//!
//! # Threads
//! All workers share the pages. Each page has a lock, and a worker holds one lock at a time. The first access of a page makes it. If
//! the pages take more than the limit, those are kept whose hashes end with enough zeros. The number of zeros depends on which pages
//! are touched, not on the order.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::heat::Region;

/// The logarithm of a page's bytes.
const PAGE: u32 = 12;
/// The logarithm of the largest unit's bytes: pages whose accesses are all of whole dwords have cells of a dword.
const DWORD: u8 = 2;
/// In the place of a unit's logarithm: nothing touched the page.
const UNTOUCHED: u8 = DWORD + 1;
/// The most zeros that a kept page's hash has to end with.
const LEVELS: usize = 32;
/// No workgroup.
const NO_GROUP: u32 = u32::MAX;
/// Bits of [`By::how`] for the instruction; behind them are four for the wave and six for the lane.
const PC_BITS: u32 = 22;

/// A workgroup, and one of its accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct By {
    /// The number of the workgroup. Those with very large numbers count as one.
    pub(super) group: u32,
    how: u32,
}

impl By {
    /// Of lane 0 of a wave.
    pub(super) fn new(group: u64, pc: u64, wave: u32) -> By {
        let group = u32::try_from(group).unwrap_or(NO_GROUP).min(NO_GROUP - 1);
        let pc = (pc >> 2) as u32 & ((1 << PC_BITS) - 1);
        By { group, how: pc << 10 | (wave & 15) << 6 }
    }

    fn lane(self, lane: usize) -> By {
        By { how: self.how | lane as u32 & 63, ..self }
    }

    /// The address of the instruction: the nearest to the kernel's first instruction of those that it may be.
    pub(super) fn pc(self, entry: u64) -> u64 {
        let unused = 64 - PC_BITS;
        let ahead = (u64::from(self.how >> 10).wrapping_sub(entry >> 2) << unused).cast_signed() >> unused;
        (entry >> 2).wrapping_add_signed(ahead) << 2
    }

    pub(super) fn wave(self) -> u32 {
        self.how >> 6 & 15
    }

    pub(super) fn its_lane(self) -> u8 {
        (self.how & 63) as u8
    }
}

/// The workgroups with the least and the greatest number that did something; of each its first access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) least: By,
    pub(super) most: By,
}

impl Ends {
    const NONE: Ends = Ends { least: By { group: NO_GROUP, how: 0 }, most: By { group: NO_GROUP, how: 0 } };

    pub(super) fn is_none(&self) -> bool {
        self.least.group == NO_GROUP
    }

    #[inline]
    fn add(&mut self, by: By) {
        if self.is_none() {
            *self = Ends { least: by, most: by };
        } else if by.group < self.least.group {
            self.least = by;
        } else if by.group > self.most.group {
            self.most = by;
        }
    }
}

/// What was written to a unit of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) by: Ends,
    /// What was written first.
    value: u32,
    /// Something else was written, too.
    pub(super) differs: bool,
    /// Atomics or coherent accesses go here, too.
    pub(super) coherent: bool,
}

impl Written {
    const NOTHING: Written = Written { by: Ends::NONE, value: 0, differs: false, coherent: false };
}

/// What an access does.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Reads,
    /// Writes the words; `None` for what is not known.
    Writes(Option<[u32; 4]>),
    /// Is an atomic, or coherent.
    Orders,
}

/// A page of memory.
#[derive(Debug)]
struct Slot {
    /// The logarithm of a unit's bytes.
    unit: u8,
    /// The readers of each unit; `None` before the first read, and for a page that is not kept.
    reads: Option<Box<[Ends]>>,
    /// What was written to each unit, likewise.
    writes: Option<Box<[Written]>>,
}

/// The units of a page.
fn units(unit: u8) -> usize {
    1 << (PAGE - u32::from(unit))
}

/// The same for smaller units, so many of each.
fn divided<T: Copy>(all: &[T], parts: usize, part: impl Fn(T, usize) -> T) -> Box<[T]> {
    all.iter().flat_map(|one| (0..parts).map(|n| part(*one, n))).collect()
}

impl Slot {
    /// Bytes that it takes.
    fn bytes(&self) -> usize {
        self.reads.as_deref().map_or(0, size_of_val) + self.writes.as_deref().map_or(0, size_of_val)
    }

    /// Makes room for an access by units that are small enough. Returns the bytes that are taken in addition.
    #[cold]
    fn extend(&mut self, unit: u8, writes: bool) -> usize {
        let before = self.bytes();
        if unit < self.unit {
            let parts = 1 << (self.unit.min(DWORD) - unit);
            let part = |written: Written, n: usize| Written {
                value: masked(written.value >> (n << (3 + unit)), unit),
                ..written
            };
            self.reads = self.reads.take().map(|all| divided(&all, parts, |one, _| one));
            self.writes = self.writes.take().map(|all| divided(&all, parts, part));
            self.unit = unit;
        }
        if writes && self.writes.is_none() {
            self.writes = Some(vec![Written::NOTHING; units(self.unit)].into_boxed_slice());
        } else if !writes && self.reads.is_none() {
            self.reads = Some(vec![Ends::NONE; units(self.unit)].into_boxed_slice());
        }
        self.bytes() - before
    }

    /// True where an access needs [`Slot::extend`].
    #[inline]
    fn is_short(&self, unit: u8, writes: bool) -> bool {
        unit < self.unit || if writes { self.writes.is_none() } else { self.reads.is_none() }
    }

    /// Bytes from `first` of an access are bytes of the page.
    #[inline]
    fn touch(&mut self, offset: usize, bytes: usize, first: usize, by: By, what: What) {
        let unit = self.unit;
        let range = offset >> unit..(offset + bytes) >> unit;
        if let What::Reads = what {
            if let Some(reads) = &mut self.reads {
                reads[range].iter_mut().for_each(|ends| ends.add(by));
            }
            return;
        }
        let Some(writes) = &mut self.writes else { return };
        let cells = &mut writes[range];
        match what {
            What::Reads | What::Orders => cells.iter_mut().for_each(|cell| cell.coherent = true),
            What::Writes(words) => {
                for (cell, byte) in cells.iter_mut().zip((first..).step_by(1 << unit)) {
                    let value = words.map(|words| masked(words[(byte / 4) & 3] >> (8 * (byte & 3)), unit));
                    if cell.by.is_none() {
                        cell.value = value.unwrap_or_default();
                    }
                    cell.differs |= value != Some(cell.value);
                    cell.by.add(by);
                }
            }
        }
    }
}

/// The lowest bytes of a value, two to the power of `unit`.
fn masked(value: u32, unit: u8) -> u32 {
    value & (u32::MAX >> (32 - (8 << unit)))
}

/// A region's pages.
#[derive(Debug)]
struct Map {
    range: Range<u64>,
    /// The number of the first page.
    first: u64,
    slots: Vec<Mutex<Slot>>,
}

/// All regions.
#[derive(Debug)]
pub(super) struct Shadow {
    maps: Vec<Map>,
    /// Zeros that the hash of a kept page ends with, at least.
    level: AtomicU32,
    /// Bytes that pages take, by the zeros of their hashes.
    taken: Mutex<[usize; LEVELS]>,
    limit: usize,
}

/// Zeros that the hash of a page ends with.
fn zeros(page: u64) -> usize {
    let hash = page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (hash.trailing_zeros() as usize).min(LEVELS - 1)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shadow {
    /// Of regions that are sorted and do not overlap. Pages take no more than so many bytes.
    pub(super) fn new(regions: &[Region], limit: usize) -> Shadow {
        let map = |region: &Region| {
            let first = region.range.start >> PAGE;
            let count = ((region.range.end - 1) >> PAGE) - first + 1;
            let slot = || Mutex::new(Slot { unit: UNTOUCHED, reads: None, writes: None });
            Map {
                range: region.range.clone(),
                first,
                slots: std::iter::repeat_with(slot).take(count as usize).collect(),
            }
        };
        let maps = regions.iter().filter(|region| !region.range.is_empty()).map(map).collect();
        Shadow { maps, level: AtomicU32::new(0), taken: Mutex::new([0; LEVELS]), limit }
    }

    /// True for memory of a region.
    pub(super) fn has(&self, at: u64) -> bool {
        self.map(at).is_some()
    }

    fn map(&self, at: u64) -> Option<&Map> {
        self.maps.get(self.maps.partition_point(|map| map.range.end <= at)).filter(|map| map.range.start <= at)
    }

    /// For the accesses of an instruction.
    pub(super) fn touches(&self) -> Touches<'_> {
        Touches { shadow: self, range: 0..0, held: None, owed: 0 }
    }

    /// A page takes more bytes. The caller holds no page.
    #[cold]
    fn charge(&self, page: u64, bytes: usize) {
        let mut taken = lock(&self.taken);
        taken[zeros(page)] += bytes;
        let mut level = self.level.load(Ordering::Relaxed) as usize;
        let before = level;
        while level + 1 < LEVELS && taken[level..].iter().sum::<usize>() > self.limit {
            level += 1;
        }
        if level == before {
            return;
        }
        self.level.store(level as u32, Ordering::Release);
        for map in &self.maps {
            for (slot, _) in map.slots.iter().zip(map.first..).filter(|(_, page)| zeros(*page) < level) {
                let mut slot = lock(slot);
                (slot.reads, slot.writes) = (None, None);
            }
        }
    }

    /// One of so many pages is looked at.
    pub(super) fn share(&self) -> u64 {
        1 << self.level.load(Ordering::Relaxed)
    }

    /// Each page that was written: its address, the logarithm of a unit's bytes, what was written, and the readers, if there are any.
    pub(super) fn each(&self, mut look: impl FnMut(u64, u8, &[Written], Option<&[Ends]>)) {
        let level = self.level.load(Ordering::Relaxed) as usize;
        for map in &self.maps {
            for (slot, page) in map.slots.iter().zip(map.first..).filter(|(_, page)| zeros(*page) >= level) {
                let slot = lock(slot);
                if let Some(writes) = &slot.writes {
                    look(page << PAGE, slot.unit, writes, slot.reads.as_deref());
                }
            }
        }
    }
}

/// The accesses of an instruction: the page that was touched last is held.
pub(super) struct Touches<'s> {
    shadow: &'s Shadow,
    /// What of a region is in the page.
    range: Range<u64>,
    held: Option<MutexGuard<'s, Slot>>,
    /// Bytes that the page takes in addition.
    owed: usize,
}

impl Touches<'_> {
    /// A lane of a wave accesses bytes.
    #[inline]
    pub(super) fn touch(&mut self, at: u64, bytes: u64, by: By, lane: usize, what: What) {
        let end = at.saturating_add(bytes);
        let mut from = at;
        while from < end {
            if !self.range.contains(&from) {
                self.take(from);
            }
            let to = end.min(self.range.end);
            if let Some(slot) = &mut self.held {
                let unit = ((from | to).trailing_zeros() as u8).min(DWORD);
                let writes = !matches!(what, What::Reads);
                if slot.is_short(unit, writes) {
                    self.owed += slot.extend(unit, writes);
                }
                let offset = (from & ((1 << PAGE) - 1)) as usize;
                slot.touch(offset, (to - from) as usize, (from - at) as usize, by.lane(lane), what);
            }
            from = to;
        }
    }

    /// Holds the page of an address, if it is kept.
    fn take(&mut self, at: u64) {
        self.let_go();
        let (page, shadow) = (at >> PAGE, self.shadow);
        let ends = page << PAGE..(page + 1) << PAGE;
        let Some(map) = shadow.map(at) else {
            // Outside of all regions, up to the page's end or the next region.
            let next = shadow.maps.iter().map(|map| map.range.start).find(|start| *start > at);
            self.range = at..ends.end.min(next.unwrap_or(u64::MAX));
            return;
        };
        self.range = ends.start.max(map.range.start)..ends.end.min(map.range.end);
        let held = map.slots.get((page - map.first) as usize).map(lock);
        // The level rises before pages are freed: with the lock, what is kept stays until it is let go.
        self.held = held.filter(|_| zeros(page) >= shadow.level.load(Ordering::Acquire) as usize);
    }

    fn let_go(&mut self) {
        self.held = None;
        if self.owed > 0 {
            self.shadow.charge(self.range.start >> PAGE, std::mem::take(&mut self.owed));
        }
    }
}

impl Drop for Touches<'_> {
    fn drop(&mut self) {
        self.let_go();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, bytes: u64) -> Region {
        Region { name: String::new(), range: start..start + bytes }
    }

    fn by(group: u64) -> By {
        By::new(group, 0x7f00_0000_1000 + 8 * group, 1)
    }

    type Seen = Vec<(u64, u8, u32, u32, u32, u32, bool)>;

    /// Touched cells: address, unit, least and greatest writers and readers.
    fn seen(shadow: &Shadow) -> Seen {
        let mut all = Seen::new();
        shadow.each(|page, unit, writes, reads| {
            for (cell, n) in writes.iter().zip(0u64..) {
                let (w, r) = (cell.by, reads.map_or(Ends::NONE, |reads| reads[n as usize]));
                let ends = (w.least.group, w.most.group, r.least.group, r.most.group);
                if !w.is_none() || !r.is_none() {
                    all.push((page + (n << unit), unit, ends.0, ends.1, ends.2, ends.3, cell.differs));
                }
            }
        });
        all
    }

    #[test]
    fn what_is_kept_does_not_depend_on_the_order_of_accesses() {
        let accesses: Vec<(u64, u64, u64, What)> = vec![
            (5, 0x1000, 16, What::Writes(Some([1, 2, 3, 4]))),
            (2, 0x1004, 4, What::Writes(Some([2, 0, 0, 0]))),
            (9, 0x100e, 2, What::Writes(Some([0, 0, 0, 0]))),
            (7, 0x1ffc, 8, What::Reads),
            (1, 0x1008, 4, What::Reads),
            (8, 0x1008, 4, What::Writes(Some([0x10003, 0, 0, 0]))),
        ];
        let run = |order: &[usize]| {
            let shadow = Shadow::new(&[region(0x1000, 0x1800)], 1 << 20);
            for n in order {
                let (group, at, bytes, what) = accesses[*n];
                shadow.touches().touch(at, bytes, by(group), 3, what);
            }
            (seen(&shadow), shadow.share())
        };
        let forward = run(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(forward, run(&[5, 4, 3, 2, 1, 0]));
        assert_eq!(forward, run(&[2, 3, 0, 5, 1, 4]));
        let of = |at: u64| *forward.0.iter().find(|cell| cell.0 == at).unwrap();
        // An access of two bytes makes the page's cells halves.
        assert_eq!(of(0x1004), (0x1004, 1, 2, 5, NO_GROUP, NO_GROUP, false));
        assert_eq!(of(0x1008), (0x1008, 1, 5, 8, 1, 1, false));
        assert_eq!(of(0x100a), (0x100a, 1, 5, 8, 1, 1, true));
        assert_eq!(of(0x100c), (0x100c, 1, 5, 5, NO_GROUP, NO_GROUP, false));
        assert_eq!(of(0x100e), (0x100e, 1, 5, 9, NO_GROUP, NO_GROUP, false));
        // The next page was only read.
        assert_eq!((of(0x1ffc).5, forward.0.iter().any(|cell| cell.0 >= 0x2000)), (7, false));
    }

    #[test]
    fn an_access_is_named_by_the_instruction_that_did_it() {
        let entry = 0x7f12_3456_7000;
        for pc in [entry, entry - 4096, entry + 0x12344] {
            let by = By::new(3, pc, 15).lane(63);
            assert_eq!((by.pc(entry), by.wave(), by.its_lane(), by.group), (pc, 15, 63, 3));
        }
    }

    #[test]
    fn pages_beyond_the_limit_are_chosen_whatever_the_order_is() {
        let run = |pages: &mut dyn Iterator<Item = u64>| {
            let shadow = Shadow::new(&[region(0x10_0000, 1 << 20)], 64 * units(DWORD) * size_of::<Written>());
            let store = What::Writes(Some([1; 4]));
            pages.for_each(|page| shadow.touches().touch(0x10_0000 + (page << PAGE), 4, by(page), 0, store));
            (seen(&shadow), shadow.share())
        };
        let (all, share) = run(&mut (0..256));
        assert!(share >= 4 && all.len() <= 64 && all.len() > 256 / (2 * share as usize), "{share} {}", all.len());
        assert_eq!((all, share), run(&mut (0..256).rev()));
        assert_eq!(run(&mut (0..60)).1, 1);
    }
}
