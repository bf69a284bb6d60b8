//! What is known of memory that workgroups share, and of LDS: of each piece of it, who wrote and read it.
//!
//! A new access is compared with what is known. What is found does not depend on the order in which two accesses that nothing orders
//! are executed.
//!
//! # Threads
//! All workers share the pages. Each page has a lock, and a worker holds one lock at a time. The first access of a page makes it. If
//! the pages take more than the limit, those are kept whose hashes end with enough zeros. The number of zeros depends on which pages
//! are touched, not on the order.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use logdur_system::lock;

use super::cell::{By, Collision, Lists, Reads, Write, Written, most};
use super::clocks::Me;
use super::kinds::Kind;
use super::order::{Order, Record};
use crate::heat::Region;

/// The logarithm of a page's bytes.
pub(super) const PAGE: u32 = 12;
/// The logarithm of the largest unit's bytes: pages whose accesses are all of whole dwords have cells of a dword.
const DWORD: u8 = 2;
/// In the place of a unit's logarithm: nothing touched the page.
const UNTOUCHED: u8 = DWORD + 1;
/// The most zeros that a kept page's hash has to end with.
const LEVELS: usize = 32;

/// What an access does.
#[derive(Clone, Copy, Debug)]
pub(super) enum What<'w> {
    Reads,
    /// Reads what other workgroups wrote.
    ReadsCoherently,
    /// Writes the words; `None` for what is not known. The value of the write is theirs.
    Writes(Option<[u32; 4]>, &'w Write),
    /// What an atomic that was kept before did: it changed what was there.
    Settles(bool),
}

/// An access of a lane.
pub(super) struct Access<'a> {
    pub(super) me: &'a Me<'a>,
    pub(super) by: By,
    pub(super) what: What<'a>,
    pub(super) order: &'a Order,
    /// Every wave is kept.
    pub(super) small: bool,
}

/// A page of memory.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// The logarithm of a unit's bytes.
    unit: u8,
    /// The readers of each unit; `None` before the first read, and for a page that is not kept.
    reads: Option<Box<[Reads]>>,
    /// What was written to each unit, likewise.
    writes: Option<Box<[Written]>>,
    lists: Lists,
    /// Races by dword and kind: the accesses of the waves with the least numbers.
    races: BTreeMap<(u16, Kind), (By, By)>,
}

/// The units of a page.
fn units(unit: u8) -> usize {
    1 << (PAGE - u32::from(unit))
}

impl Slot {
    pub(super) fn new() -> Slot {
        Slot { unit: UNTOUCHED, reads: None, writes: None, lists: Lists::default(), races: BTreeMap::new() }
    }

    /// Bytes that its units take.
    fn bytes(&self) -> usize {
        self.reads.as_deref().map_or(0, size_of_val) + self.writes.as_deref().map_or(0, size_of_val)
    }

    /// Makes room for an access by units that are small enough. Returns the bytes that are taken in addition.
    #[cold]
    fn extend(&mut self, unit: u8, reads: bool, writes: bool) -> usize {
        let before = self.bytes();
        if unit < self.unit {
            self.divide(1 << (self.unit.min(DWORD) - unit), unit);
        }
        if writes && self.writes.is_none() {
            self.writes = Some(vec![Written::NONE; units(self.unit)].into_boxed_slice());
        }
        if reads && self.reads.is_none() {
            self.reads = Some(vec![Reads::NONE; units(self.unit)].into_boxed_slice());
        }
        self.bytes() - before
    }

    /// Each unit becomes so many.
    fn divide(&mut self, parts: usize, unit: u8) {
        let lists = &mut self.lists;
        if let Some(all) = self.reads.take() {
            let part = |reads: &Reads| (0..parts).map(|_| lists.part_of_reads(*reads)).collect::<Vec<_>>();
            self.reads = Some(all.iter().flat_map(part).collect());
        }
        if let Some(all) = self.writes.take() {
            let mut part = |written: &Written| {
                let value = |n: usize| move |value: u32| masked(value >> (n << (3 + unit)), unit);
                (0..parts).map(|n| lists.part_of_writes(*written, value(n))).collect::<Vec<_>>()
            };
            self.writes = Some(all.iter().flat_map(&mut part).collect());
        }
        self.unit = unit;
    }

    /// True where an access needs [`Slot::extend`].
    #[inline]
    fn is_short(&self, unit: u8, reads: bool, writes: bool) -> bool {
        unit < self.unit || writes && self.writes.is_none() || reads && self.reads.is_none()
    }

    /// Bytes from `first` of an access are bytes of the page. Returns the bytes that are taken in addition.
    #[inline]
    pub(super) fn touch(&mut self, offset: usize, bytes: usize, first: usize, access: &Access<'_>) -> usize {
        let unit = ((offset | (offset + bytes)).trailing_zeros() as u8).min(DWORD);
        let (reads, writes) = (matches!(access.what, What::Reads), !matches!(access.what, What::Reads));
        let mut taken = 0;
        if self.is_short(unit, reads, writes) {
            taken += self.extend(unit, reads, writes);
        }
        let unit = self.unit;
        let Access { me, by, what, order, small } = access;
        let Slot { reads, writes, lists, races, .. } = self;
        let mut found: Vec<Collision> = Vec::new();
        for (n, byte) in (offset >> unit..(offset + bytes) >> unit).zip((first..).step_by(1 << unit)) {
            let cell = writes.as_deref_mut().and_then(|writes| writes.get_mut(n));
            match what {
                What::Reads => {
                    let all = *small || cell.is_some();
                    let written = cell.as_deref();
                    if let Some(written) = written {
                        lists.read(written, *by, me, &mut found);
                    }
                    if let Some(reads) = reads.as_deref_mut().and_then(|reads| reads.get_mut(n)) {
                        taken += lists.keep_read(reads, written, *by, me, (all, most(*small)));
                    }
                }
                What::ReadsCoherently => cell.into_iter().for_each(Written::set_coherent),
                What::Writes(words, write) => {
                    let Some(written) = cell else { continue };
                    let value = words.map(|words| masked(words[(byte / 4) & 3] >> (8 * (byte & 3)), unit));
                    let flags = write.flags | if value.is_none() { super::cell::flag::UNKNOWN } else { 0 };
                    let new = Write { by: *by, value: value.unwrap_or_default(), flags, ..**write };
                    lists.write(written, reads.as_deref().and_then(|reads| reads.get(n)), &new, me, &mut found);
                    taken += lists.keep(written, new, me, (most(*small), unit), order);
                }
                What::Settles(changed) => {
                    let Some(written) = cell else { continue };
                    let reads = reads.as_deref().and_then(|reads| reads.get(n));
                    lists.settle(written, reads, *changed, me, &mut found);
                }
            }
            for (kind, a, b) in found.drain(..) {
                let dword = (n << unit >> DWORD) as u16;
                let of = |(a, b): &(By, By)| (a.wave, b.wave, *a, *b);
                let known = races.entry((dword, kind)).or_insert((a, b));
                if of(&(a, b)) < of(known) {
                    *known = (a, b);
                }
            }
        }
        taken
    }

    /// What the value comes from that a coherent read of bytes gets.
    pub(super) fn sources(&self, offset: usize, bytes: usize, writes: &mut Vec<Write>, folded: &mut Vec<Record>) {
        let Some(all) = &self.writes else { return };
        for cell in all.get(offset >> self.unit..(offset + bytes).div_ceil(1 << self.unit)).unwrap_or_default() {
            let (of_cell, record) = self.lists.sources(cell);
            for write in of_cell {
                // Units of one access have mostly the same.
                if writes.last().is_none_or(|last| last.by != write.by) {
                    writes.push(write);
                }
            }
            folded.push(record);
        }
    }

    /// Takes the races: the byte in the page, the kind, and two accesses.
    pub(super) fn take_races(&mut self) -> Vec<(u64, Kind, By, By)> {
        let is_coherent = |dword: u16| {
            let first = usize::from(dword) << DWORD >> self.unit;
            let cells =
                self.writes.as_deref().and_then(|writes| writes.get(first..first + (4 >> self.unit.min(DWORD))));
            cells.is_some_and(|cells| cells.iter().any(Written::is_coherent))
        };
        let all = std::mem::take(&mut self.races);
        let counts = |(at, _): &(&(u16, Kind), &(By, By))| !(at.1.may_be_atomic() && is_coherent(at.0));
        all.iter().filter(counts).map(|((dword, kind), (a, b))| (u64::from(*dword) << DWORD, *kind, *a, *b)).collect()
    }

    /// Nothing is known of it any more, but its room is kept.
    pub(super) fn forget_lists(&mut self) {
        if !self.lists.reads.is_empty() || !self.lists.writes.is_empty() {
            self.reads.iter_mut().for_each(|reads| reads.fill(Reads::NONE));
            self.writes.iter_mut().for_each(|writes| writes.fill(Written::NONE));
            self.lists = Lists::default();
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

impl Shadow {
    /// Of regions that are sorted and do not overlap. Pages take no more than so many bytes.
    pub(super) fn new(regions: &[Region], limit: usize) -> Shadow {
        let map = |region: &Region| {
            let first = region.range.start >> PAGE;
            let count = ((region.range.end - 1) >> PAGE) - first + 1;
            let slot = || Mutex::new(Slot::new());
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
                *slot = Slot::new();
            }
        }
    }

    /// One of so many pages is looked at.
    pub(super) fn share(&self) -> u64 {
        1 << self.level.load(Ordering::Relaxed)
    }

    /// The races of all pages: the address, the kind, and two accesses.
    pub(super) fn each_race(&self, mut look: impl FnMut(u64, Kind, By, By)) {
        let level = self.level.load(Ordering::Relaxed) as usize;
        for map in &self.maps {
            for (slot, page) in map.slots.iter().zip(map.first..).filter(|(_, page)| zeros(*page) >= level) {
                let races = lock(slot).take_races();
                races.into_iter().for_each(|(byte, kind, a, b)| look((page << PAGE) + byte, kind, a, b));
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
    pub(super) fn touch(&mut self, at: u64, bytes: u64, access: &Access<'_>) {
        self.each_page(at, bytes, |slot, offset, bytes, first| slot.touch(offset, bytes, first, access));
    }

    /// What the value comes from that a coherent read of bytes gets. False where that is not known.
    pub(super) fn sources(&mut self, at: u64, bytes: u64, writes: &mut Vec<Write>, folded: &mut Vec<Record>) -> bool {
        let mut kept = 0;
        self.each_page(at, bytes, |slot, offset, bytes, _| {
            slot.sources(offset, bytes, writes, folded);
            kept += bytes as u64;
            0
        });
        kept == bytes || !self.shadow.has(at)
    }

    /// The kept pages of an access: the offset there, the bytes there, the number of the first of these bytes. `look` returns the
    /// bytes that a page takes in addition.
    #[inline]
    fn each_page(&mut self, at: u64, bytes: u64, mut look: impl FnMut(&mut Slot, usize, usize, usize) -> usize) {
        let end = at.saturating_add(bytes);
        let mut from = at;
        while from < end {
            if !self.range.contains(&from) {
                self.take(from);
            }
            let to = end.min(self.range.end);
            if let Some(slot) = &mut self.held {
                let offset = (from & ((1 << PAGE) - 1)) as usize;
                self.owed += look(slot, offset, (to - from) as usize, (from - at) as usize);
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
    use crate::outstanding::Outstanding;
    use crate::race::clocks::Clocks;
    use amdgpu_emu::isa::access::Space;

    fn region(start: u64, bytes: u64) -> Region {
        Region { name: String::new(), range: start..start + bytes }
    }

    /// A store of workgroup `group`, or a read.
    fn touch(shadow: &Shadow, group: u64, at: u64, bytes: u64, words: Option<[u32; 4]>) {
        let (mut outstanding, order, clocks) = (Outstanding::default(), Order::default(), Clocks::new(group, 1));
        outstanding.issue(0, crate::registers::Class::Memory, Default::default());
        let me = clocks.me(0, Space::Memory, &outstanding, &order).unwrap();
        let by = By::new(me.id, me.number, 0x1000 + 8 * group);
        let what = words.map_or(What::Reads, |words| What::Writes(Some(words), &Write::NONE));
        shadow.touches().touch(at, bytes, &Access { me: &me, by, what, order: &order, small: false });
    }

    fn races(shadow: &Shadow) -> Vec<(u64, Kind, u64, u64)> {
        let mut all = Vec::new();
        shadow.each_race(|at, kind, a, b| all.push((at, kind, a.pc(0x1000), b.pc(0x1000))));
        all
    }

    #[test]
    fn what_is_found_does_not_depend_on_the_order_of_accesses() {
        let accesses: Vec<(u64, u64, u64, Option<[u32; 4]>)> = vec![
            (5, 0x1000, 16, Some([1, 2, 3, 4])),
            (2, 0x1004, 4, Some([2, 0, 0, 0])),
            (9, 0x100e, 2, Some([0; 4])),
            (7, 0x1ffc, 8, None),
            (1, 0x1008, 4, None),
            (8, 0x1008, 4, Some([0x10003, 0, 0, 0])),
            (6, 0x1ffe, 1, Some([0; 4])),
        ];
        let run = |order: &[usize]| {
            let shadow = Shadow::new(&[region(0x1000, 0x1800)], 1 << 20);
            for n in order {
                let (group, at, bytes, words) = accesses[*n];
                touch(&shadow, group, at, bytes, words);
            }
            races(&shadow)
        };
        let forward = run(&[0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(forward, run(&[6, 5, 4, 3, 2, 1, 0]));
        assert_eq!(forward, run(&[2, 6, 3, 0, 5, 1, 4]));
        let pc = |group: u64| 0x1000 + 8 * group;
        assert_eq!(
            forward,
            [
                (0x1008, Kind::Read, pc(1), pc(5)),
                (0x1008, Kind::Written, pc(8), pc(5)),
                // The upper half of 4 is 0, as what is stored again.
                (0x1ffc, Kind::Read, pc(7), pc(6)),
            ]
        );
    }

    #[test]
    fn an_access_is_named_by_the_instruction_that_did_it() {
        let entry = 0x7f12_3456_7000;
        for pc in [entry, entry - 4096, entry + 0x12344] {
            let by = By::new(3, 9, pc).of_lane(63);
            assert_eq!((by.pc(entry), by.lane(), by.wave), (pc, 63, 3));
        }
    }

    #[test]
    fn pages_beyond_the_limit_are_chosen_whatever_the_order_is() {
        let run = |pages: &mut dyn Iterator<Item = u64>| {
            let limit = 64 * units(DWORD) * (size_of::<Written>() + size_of::<Reads>());
            let shadow = Shadow::new(&[region(0x10_0000, 1 << 20)], limit);
            for page in pages {
                touch(&shadow, page, 0x10_0000 + (page << PAGE), 4, Some([1; 4]));
                touch(&shadow, page + 1, 0x10_0000 + (page << PAGE), 4, None);
            }
            (races(&shadow).len(), shadow.share())
        };
        let (all, share) = run(&mut (0..256));
        assert!(share >= 4 && all <= 64 && all > 256 / (2 * share as usize), "{share} {all}");
        assert_eq!((all, share), run(&mut (0..256).rev()));
        assert_eq!(run(&mut (0..60)), (60, 1));
    }
}
