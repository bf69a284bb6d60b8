//! The memory that a region has reached: each allocation is read once, when it is reached; later, only what the host or a copy has changed.
//!
//! # Threads
//! The capture thread.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::time::Instant;
use std::{io, mem};

use amdgpu_code_object::{Arguments, MayWrite};
use logdur_capture::{Buffer, Changed, Id, IdOfPieces, STEP, end_of_step, words, words_in};
use logdur_journal::pages;
use logdur_system::lock;

use super::shadow::Shadow;
use crate::capture::Capture;
use crate::capture::copies::{Content, Moved, Written};
use crate::capture::file::{Failed, Source, Write};
use crate::capture::hold::TooMuch;
use crate::capture::memory::{Allocation, Kind, Memory};
use crate::capture::read::Reader;
use crate::capture::take::Reading;

/// How much of the host's memory is kept to be compared. Of what is more, a hash is kept of each chunk.
const KEPT: u64 = 1 << 30;
/// Bytes of all that dispatches have changed in memory of the host that the region keeps: a kernel may have written all of it.
const KEPT_OF_DISPATCHES: u64 = 256 << 20;
/// Bytes of an address, less one: an address may begin so far before what has changed.
const BEFORE: usize = 7;

/// What a region has reached.
#[derive(Default)]
pub(in crate::capture) struct Reached {
    /// By address.
    all: BTreeMap<u64, One>,
    /// Bytes that shadows keep.
    kept: u64,
    /// Memory of the host is compared by hashes.
    pub(super) has_hashes: bool,
    /// Memory that a GPU has written the address of into memory of the host: it is read with the next step.
    pub(super) found: Vec<Allocation>,
    /// The file has the beginning.
    pub(super) has_begun: bool,
    /// What has been told once.
    pub(super) told_of_hashes: bool,
    pub(super) told_of_copies: bool,
    pub(super) told_of_vendor: bool,
    pub(super) told_of_aperture: bool,
    pub(super) told_of_changes: bool,
    pub(super) told_of_dispatches: bool,
    /// How many bytes that dispatches have changed in memory of the host the file has.
    of_dispatches: u64,
    /// How many steps the file has, and how many since the last checkpoint.
    pub(super) steps: u64,
    pub(super) since_checkpoint: u64,
}

/// Reached memory.
struct One {
    allocation: Allocation,
    /// The memory that its words lead to.
    links: Vec<Range<u64>>,
    /// Memory that they led to and that is gone: where there is memory again, they lead there.
    dangling: Vec<Range<u64>>,
    /// Of memory that the host can write.
    shadow: Option<Shadow>,
    /// What it was after the last dispatch, if hashes are kept.
    id: Option<Id>,
}

impl Reached {
    /// Everything that is reached.
    pub(super) fn allocations(&self) -> Vec<Allocation> {
        self.all.values().map(|one| one.allocation).collect()
    }

    /// Forgets memory that is gone, also if other memory has its address now.
    pub(super) fn forget_gone(&mut self, memory: &Memory) {
        self.all.retain(|_, one| memory.is_same(&one.allocation));
        let Reached { all, found, .. } = self;
        let there: HashSet<u64> = all.keys().copied().chain(found.iter().map(|found| found.base)).collect();
        for one in all.values_mut() {
            let (links, gone) = mem::take(&mut one.links).into_iter().partition(|link| there.contains(&link.start));
            one.links = links;
            one.dangling.extend::<Vec<_>>(gone);
        }
        self.kept = self.all.values().filter_map(|one| one.shadow.as_ref()).map(Shadow::kept).sum();
    }

    /// The memory whose words lead to memory that was allocated where other memory was before: its words are to be followed again.
    pub(super) fn led_anew(&mut self, memory: &Memory) -> Vec<Allocation> {
        let mut anew = Vec::new();
        for one in self.all.values_mut().filter(|one| !one.dangling.is_empty()) {
            let before = mem::take(&mut one.dangling);
            for there in memory.all().map(|there| there.base..there.end()) {
                let meets = |range: &Range<u64>| range.start < there.end && there.start < range.end;
                if before.iter().any(meets) && anew.last() != Some(&one.allocation) {
                    anew.push(one.allocation);
                }
            }
            one.dangling = memory.all().fold(before, |rest, there| {
                let parts = rest.into_iter().flat_map(|range| {
                    let (start, end) = (range.start.max(there.base), range.end.min(there.end()));
                    if start < end { [range.start..start, end..range.end] } else { [range, 0..0] }
                });
                parts.filter(|part| !part.is_empty()).collect()
            });
        }
        anew
    }

    fn enter(&mut self, allocation: Allocation) {
        let (base, size) = (allocation.base, allocation.size);
        let shadow = is_shared_with_host(&allocation).then(|| {
            let fits = self.kept.saturating_add(size) <= KEPT;
            let in_full = fits && usize::try_from(size).is_ok_and(pages::are_there);
            self.has_hashes |= !in_full;
            Shadow::new(base, size, in_full)
        });
        self.kept += shadow.as_ref().map_or(0, Shadow::kept);
        self.all.insert(base, One { allocation, links: Vec::new(), dangling: Vec::new(), shadow, id: None });
    }

    /// The memory that can be reached from some addresses of memory.
    fn closure(&self, roots: impl Iterator<Item = u64>) -> HashSet<u64> {
        let (mut found, mut next): (HashSet<u64>, Vec<u64>) = (HashSet::new(), roots.collect());
        while let Some(base) = next.pop() {
            if let Some(one) = self.all.get(&base)
                && found.insert(base)
            {
                next.extend(one.links.iter().map(|link| link.start).filter(|link| !found.contains(link)));
            }
        }
        found
    }

    /// The parts of what copies have written that were reached, without those that the host can write: these are compared.
    fn parts_of(&self, written: &Written) -> Vec<(Allocation, Range<u64>)> {
        let of_gpus = || self.all.values().filter(|one| one.shadow.is_none()).map(|one| one.allocation);
        if written.elsewhere {
            return of_gpus().map(|allocation| (allocation, allocation.base..allocation.end())).collect();
        }
        let mut ranges: Vec<Range<u64>> =
            written.ranges.iter().map(|(at, bytes)| *at..at.saturating_add(*bytes)).collect();
        ranges.sort_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in ranges.into_iter().filter(|range| !range.is_empty()) {
            match joined.last_mut() {
                Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        let parts = of_gpus().flat_map(|allocation| {
            let inside = move |range: &Range<u64>| range.start.max(allocation.base)..range.end.min(allocation.end());
            joined.iter().map(inside).filter(|part| !part.is_empty()).map(move |part| (allocation, part))
        });
        parts.collect()
    }
}

/// True for memory that is meant to be written by the host while kernels use it.
fn is_shared_with_host(allocation: &Allocation) -> bool {
    allocation.host().is_some() || matches!(allocation.kind, Kind::Pool(pool) if pool.is_fine_grained())
}

/// The memory that words of some bytes lead to, at any byte.
fn led_to(capture: &Capture, span: (u64, u64), bytes: &[u8]) -> Vec<Allocation> {
    let mut found: Vec<Allocation> = Vec::new();
    let mut addresses = words_in(bytes, span).peekable();
    if addresses.peek().is_none() {
        return found;
    }
    lock(&capture.memory).each_led_to(addresses, |inside| {
        if !found.contains(&inside) {
            found.push(inside);
        }
    });
    found
}

/// The memory of a delta.
pub(super) struct Delta<'a, 'r> {
    pub(super) capture: &'a Capture,
    pub(super) reading: &'r mut Reading<'a>,
    pub(super) reached: &'r mut Reached,
    pub(super) written: Written,
    pub(super) end: Instant,
    /// How many bytes the file may still grow.
    pub(super) left: u64,
    /// Memory that the dispatch itself leads to.
    pub(super) roots: Vec<Allocation>,
    /// Reached memory whose words are followed again.
    pub(super) anew: Vec<Allocation>,
    /// Memory that is reached with this step, and how much of it was read.
    pub(super) new: Vec<Allocation>,
    pub(super) next: usize,
    /// The range of all memory: a word outside of it is no address.
    pub(super) span: (u64, u64),
    /// The last bytes that were looked at, and the address behind them.
    pub(super) last: (Vec<u8>, u64),
    /// What could not be read, as text.
    pub(super) unread: Vec<String>,
    /// All that is reached, for the records of allocations.
    pub(super) all: Vec<Allocation>,
    /// What is reached now is for the next step.
    pub(super) defers: bool,
    /// Copies and fills that do in a replay what they did here: they are steps.
    pub(super) exact: Vec<Moved>,
}

impl Delta<'_, '_> {
    /// Reaches memory, if it is not reached.
    fn reach(&mut self, allocation: Allocation) {
        if self.reached.all.contains_key(&allocation.base) {
            return;
        }
        if self.defers {
            self.reached.found.push(allocation);
            return;
        }
        self.reached.enter(allocation);
        self.new.push(allocation);
    }

    /// Follows each word of a piece of memory that looks like an address, at any byte.
    fn follow(&mut self, base: u64, bytes: &[u8]) {
        let found = led_to(self.capture, self.span, bytes);
        if let Some(one) = self.reached.all.get_mut(&base) {
            for inside in &found {
                let link = inside.base..inside.end();
                if !one.links.contains(&link) {
                    one.links.push(link);
                }
            }
        }
        found.into_iter().for_each(|inside| self.reach(inside));
    }

    /// Compares memory that the host can write with what it was, and passes on what differs.
    fn compare_one(&mut self, range: &Allocation, write: &mut Write<'_>) -> Result<(), Failed> {
        let (mut at, mut bytes) = (range.base, Vec::new());
        while at < range.end() {
            let stop = end_of_step(at, range.end());
            bytes.resize((stop - at) as usize, 0);
            match self.capture.piece(self.reading, range, at, &mut bytes, self.end) {
                Ok(()) => {
                    let one = self.reached.all.get_mut(&range.base);
                    let shadow = one.and_then(|one| one.shadow.as_mut());
                    for part in shadow.map(|shadow| shadow.renew(at, &bytes)).unwrap_or_default() {
                        let (from, to) = (part.start.saturating_sub(BEFORE), (part.end + BEFORE).min(bytes.len()));
                        self.follow(range.base, bytes.get(from..to).unwrap_or_default());
                        write(at + part.start as u64, bytes.get(part).unwrap_or_default())?;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) => self.unread.push(format!(
                    "{} bytes at {at:#x} could not be compared with what the host has written: {error}",
                    stop - at
                )),
            }
            at = stop;
        }
        Ok(())
    }

    fn compare(&mut self, write: &mut Write<'_>) -> Result<(), Failed> {
        let shadowed: Vec<Allocation> =
            self.reached.all.values().filter(|one| one.shadow.is_some()).map(|one| one.allocation).collect();
        shadowed.iter().try_for_each(|range| self.compare_one(range, write))
    }

    /// Fills a buffer with reached memory as the file has it before this step. False if it is not reached, or only hashes of it are known.
    fn known(&mut self, at: u64, to: &mut [u8]) -> bool {
        let end = at.saturating_add(to.len() as u64);
        let one =
            self.reached.all.range(..=at).next_back().map(|(_, one)| one).filter(|one| end <= one.allocation.end());
        match one.map(|one| (one.allocation, one.shadow.as_ref().map(|shadow| shadow.read(at, to)))) {
            None | Some((_, Some(false))) => false,
            Some((_, Some(true))) => true,
            Some((allocation, None)) => {
                // What was read ahead before is stale, and what is behind is not read ahead.
                self.reading.reader.iter_mut().for_each(Reader::discard);
                let read = Allocation { size: end - allocation.base, ..allocation };
                self.capture.piece(self.reading, &read, at, to, self.end).is_ok()
            }
        }
    }

    /// True if a copy or a fill into memory of GPUs has written what it would write now.
    fn is_exact(&mut self, moved: &Moved) -> bool {
        let of_gpu = self.reached.all.range(..=moved.to).next_back().is_some_and(|(_, one)| one.shadow.is_none());
        let (mut at, mut expected, mut found) = (0, Vec::new(), Vec::new());
        while of_gpu && at < moved.bytes {
            let length = STEP.min(moved.bytes - at) as usize;
            expected.resize(length, 0);
            found.resize(length, 0);
            let is_known = match moved.content {
                Content::From(from) => self.known(from.saturating_add(at), &mut expected),
                Content::Word(word) => {
                    expected.iter_mut().zip(word.to_le_bytes().into_iter().cycle()).for_each(|(to, byte)| *to = byte);
                    true
                }
            };
            if !is_known || !self.known(moved.to.saturating_add(at), &mut found) || expected != found {
                return false;
            }
            at += length as u64;
        }
        of_gpu
    }

    /// Takes out of what copies have written what is to be steps: no other copy has to do with their memory, and they have written what is
    /// there now.
    fn take_exact(&mut self) {
        let moved = mem::take(&mut self.written.moved);
        let range = |at: u64, bytes: u64| at..at.saturating_add(bytes);
        let to = |moved: &Moved| range(moved.to, moved.bytes);
        let from = |moved: &Moved| match moved.content {
            Content::From(at) => range(at, moved.bytes),
            Content::Word(_) => 0..0,
        };
        let meet = |a: &Range<u64>, b: &Range<u64>| a.start < b.end && b.start < a.end;
        let others: Vec<Range<u64>> = self.written.ranges.iter().map(|&(at, bytes)| range(at, bytes)).collect();
        for (n, one) in moved.iter().enumerate() {
            let (writes, reads) = (to(one), from(one));
            let beside = moved.iter().enumerate().filter(|(other, _)| *other != n).map(|(_, other)| other);
            let is_apart = !meet(&writes, &reads)
                && others.iter().all(|other| !meet(&writes, other) && !meet(&reads, other))
                && beside.clone().all(|other| {
                    let (other_writes, other_reads) = (to(other), from(other));
                    !meet(&writes, &other_writes) && !meet(&writes, &other_reads) && !meet(&reads, &other_writes)
                });
            if one.bytes > 0 && !self.written.elsewhere && is_apart && self.is_exact(one) {
                self.exact.push(*one);
            } else {
                self.written.ranges.push((one.to, one.bytes));
            }
        }
    }

    /// Follows the addresses in what exact copies have written.
    fn follow_exact(&mut self) {
        let mut bytes = Vec::new();
        for moved in self.exact.clone() {
            let Content::From(_) = moved.content else { continue };
            let mut at = 0;
            while at < moved.bytes {
                bytes.resize(STEP.min(moved.bytes - at) as usize, 0);
                if self.known(moved.to + at, &mut bytes) {
                    let base = self.reached.all.range(..=moved.to).next_back().map_or(0, |(base, _)| *base);
                    let found = mem::take(&mut bytes);
                    self.follow(base, &found);
                    bytes = found;
                }
                at += bytes.len() as u64;
            }
        }
    }

    /// Follows words that lead to other memory than before.
    fn follow_anew(&mut self) {
        let mut bytes = Vec::new();
        for range in mem::take(&mut self.anew) {
            let mut at = range.base;
            while at < range.end() {
                // An address across two pieces is in the second one, too.
                let from = at.saturating_sub(BEFORE as u64).max(range.base);
                let stop = end_of_step(at, range.end());
                bytes.resize((stop - from) as usize, 0);
                let read = |delta: &mut Self, to: &mut [u8]| {
                    delta.known(from, to) || delta.capture.piece(delta.reading, &range, from, to, delta.end).is_ok()
                };
                if read(self, &mut bytes) {
                    self.follow(range.base, &bytes);
                } else {
                    self.unread.push(format!("{} bytes at {from:#x} could not be searched for addresses", stop - from));
                }
                at = stop;
            }
        }
    }

    /// Reads again what copies have written.
    fn copied(&mut self, write: &mut Write<'_>) -> Result<(), Failed> {
        let mut bytes = Vec::new();
        for (range, part) in self.reached.parts_of(&self.written) {
            // What was read ahead before is stale, and what is behind is not read ahead.
            self.reading.reader.iter_mut().for_each(Reader::discard);
            let read = Allocation { size: part.end - range.base, ..range };
            let mut at = part.start;
            while at < part.end {
                let stop = end_of_step(at, part.end);
                bytes.resize((stop - at) as usize, 0);
                match self.capture.piece(self.reading, &read, at, &mut bytes, self.end) {
                    Ok(()) => {
                        self.follow(range.base, &bytes);
                        write(at, &bytes)?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                    Err(error) => self.unread.push(format!(
                        "{} bytes at {at:#x}, which a copy has written, could not be read: the snapshot is incomplete: {error}",
                        stop - at
                    )),
                }
                at = stop;
            }
        }
        Ok(())
    }

    /// After a dispatch, and after [`Delta::after_dispatch`]: the allocations that are not as they were after the last one. `None` if one of
    /// them cannot be read.
    pub(super) fn changed(&mut self) -> Option<Vec<Changed>> {
        let mut changed = Vec::new();
        let mut bytes = Vec::new();
        for range in self.reached.allocations() {
            // What was read ahead before is stale.
            self.reading.reader.iter_mut().for_each(Reader::discard);
            let (mut at, mut pieces) = (range.base, IdOfPieces::default());
            while at < range.end() {
                let stop = end_of_step(at, range.end());
                bytes.resize((stop - at) as usize, 0);
                // The host may have written since.
                let shadow = self.reached.all.get(&range.base).and_then(|one| one.shadow.as_ref());
                if !shadow.is_some_and(|shadow| shadow.read(at, &mut bytes)) {
                    self.capture.piece(self.reading, &range, at, &mut bytes, self.end).ok()?;
                }
                pieces.add(&bytes);
                at = stop;
            }
            let id = pieces.id();
            if let Some(one) = self.reached.all.get_mut(&range.base).filter(|one| one.id != Some(id)) {
                one.id = Some(id);
                changed.push(Changed { base: range.base, bytes: range.size, id });
            }
        }
        Some(changed)
    }

    /// After a dispatch: takes in what memory of the host is that the dispatch may have written, and passes on what of it has changed: the
    /// host may have written a part of that. False if that is more than the file keeps. What the dispatch cannot write the host has
    /// written, and the next delta has it.
    pub(super) fn after_dispatch(
        &mut self,
        kernarg: &[u8],
        arguments: &Arguments,
        write: &mut Write<'_>,
    ) -> Result<bool, Failed> {
        self.defers = true;
        let memory = lock(&self.capture.memory);
        let mut from_arguments: Vec<u64> = Vec::new();
        for (offset, word) in words(kernarg).enumerate() {
            let bases = memory.led_to(word).into_iter().map(|allocation| allocation.base);
            match arguments.may_write(offset) {
                MayWrite::All => from_arguments.extend(bases),
                MayWrite::Behind => {
                    let ones = bases.filter_map(|base| self.reached.all.get(&base));
                    from_arguments.extend(ones.flat_map(|one| one.links.iter().map(|link| link.start)));
                }
                MayWrite::Nothing => {}
            }
        }
        drop(memory);
        let is_variable = |one: &&One| matches!(one.allocation.kind, Kind::Variable { .. });
        let variables = self.reached.all.values().filter(is_variable).map(|one| one.allocation.base);
        let closure = self.reached.closure(from_arguments.into_iter().chain(variables));
        let ones = self.reached.all.values().filter(|one| one.shadow.is_some());
        let written: Vec<Allocation> =
            ones.map(|one| one.allocation).filter(|allocation| closure.contains(&allocation.base)).collect();
        let (mut bytes, mut behind) = (self.reached.of_dispatches, 0);
        let most = KEPT_OF_DISPATCHES.min(bytes.saturating_add(self.left));
        for range in &written {
            self.compare_one(range, &mut |at, changed| {
                bytes += changed.len() as u64;
                // Memory that is in two allocations is there once.
                if bytes > most || at < behind {
                    return Ok(());
                }
                behind = at + changed.len() as u64;
                write(at, changed)
            })?;
        }
        self.reached.of_dispatches = bytes;
        Ok(bytes <= most)
    }
}

impl Source for Delta<'_, '_> {
    fn is_kept_empty(&self) -> bool {
        false
    }

    fn changes(&mut self, write: &mut Write<'_>) -> Result<(), Failed> {
        // What is found meanwhile is new, and read as a whole.
        self.defers = true;
        self.compare(write)?;
        self.take_exact();
        self.follow_exact();
        self.copied(write)?;
        self.follow_anew();
        self.defers = false;
        let found = mem::take(&mut self.reached.found);
        let roots = mem::take(&mut self.roots);
        roots.into_iter().chain(found).for_each(|allocation| self.reach(allocation));
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Allocation, bool)>, TooMuch> {
        let Some(range) = self.new.get(self.next).copied() else {
            self.all = self.reached.allocations();
            return Ok(None);
        };
        self.next += 1;
        let bytes = self.new.iter().map(|allocation| allocation.size).sum();
        self.capture.limits.allow(bytes, 1, self.left)?;
        Ok(Some((range, false)))
    }

    fn read(&mut self, range: &Allocation, offset: u64, to: &mut Buffer) -> io::Result<()> {
        let at = range.base + offset;
        self.capture.piece(self.reading, range, at, &mut *to, self.end)?;
        let bytes = to.bytes();
        if let Some(shadow) = self.reached.all.get_mut(&range.base).and_then(|one| one.shadow.as_mut()) {
            shadow.renew(at, bytes);
        }
        // An address may lie across two pieces.
        let (mut across, behind) = mem::take(&mut self.last);
        if behind == at {
            across.extend(bytes.iter().take(BEFORE));
            self.follow(range.base, &across);
        }
        self.follow(range.base, bytes);
        let tail = bytes.get(bytes.len().saturating_sub(BEFORE)..).unwrap_or_default();
        self.last = (tail.to_vec(), at + bytes.len() as u64);
        Ok(())
    }

    fn all(&self) -> &[Allocation] {
        &self.all
    }
}

/// All memory that a region has reached, as the end of the last dispatch or of the last delta has left it.
pub(super) struct Whole<'a, 'r> {
    pub(super) capture: &'a Capture,
    pub(super) reading: &'r mut Reading<'a>,
    pub(super) reached: &'r Reached,
    pub(super) all: Vec<Allocation>,
    pub(super) next: usize,
    pub(super) end: Instant,
    pub(super) span: (u64, u64),
    /// Memory that was not reached and that kernels have written the address of.
    pub(super) found: Vec<Allocation>,
}

impl Source for Whole<'_, '_> {
    fn next(&mut self) -> Result<Option<(Allocation, bool)>, TooMuch> {
        let range = self.all.get(self.next).copied();
        self.next += 1;
        Ok(range.map(|range| (range, false)))
    }

    fn read(&mut self, range: &Allocation, offset: u64, to: &mut Buffer) -> io::Result<()> {
        let at = range.base + offset;
        // The host may have written since.
        let shadow = self.reached.all.get(&range.base).and_then(|one| one.shadow.as_ref());
        if shadow.is_some_and(|shadow| shadow.read(at, to.room())) {
            return Ok(());
        }
        self.capture.piece(self.reading, range, at, &mut *to, self.end)?;
        let is_new = |one: &Allocation| !self.reached.all.contains_key(&one.base) && !self.found.contains(one);
        let found: Vec<Allocation> = led_to(self.capture, self.span, to.bytes()).into_iter().filter(is_new).collect();
        self.found.extend(found);
        Ok(())
    }

    fn all(&self) -> &[Allocation] {
        &self.all
    }
}
