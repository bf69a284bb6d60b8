//! What is known of a unit of memory or LDS: which waves wrote and read it, and how these accesses stand to a new one.
//!
//! Of each wave the last access of a kind is kept, which is behind all of its earlier ones: what races with one of these races with it,
//! or is behind it. Of its reads, the last one before it wrote what it reads now is kept, too. In large dispatches, of many waves only some are kept: those with the least and the greatest number, and the last.

use super::clocks::{Me, Relation};
use super::kinds::Kind;
use super::order::{NO_WAVE, Order, Record, Source};

/// Bits of [`By::how`] for the lane.
const LANE_BITS: u32 = 6;
/// Bits for the instruction.
const PC_BITS: u32 = 32 - LANE_BITS;

/// An access of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct By {
    /// The wave, by a number of the dispatch.
    pub(super) wave: u32,
    /// The number of the access among those of its wave.
    pub(super) number: u32,
    how: u32,
}

impl By {
    const NONE: By = By { wave: NO_WAVE, number: 0, how: 0 };

    /// Of lane 0.
    pub(super) fn new(wave: u32, number: u32, pc: u64) -> By {
        By { wave, number, how: ((pc >> 2) as u32) << LANE_BITS }
    }

    pub(super) fn of_lane(self, lane: usize) -> By {
        By { how: self.how | lane as u32 & ((1 << LANE_BITS) - 1), ..self }
    }

    /// The address of the instruction: the nearest to the kernel's first instruction of those that it may be.
    pub(super) fn pc(self, entry: u64) -> u64 {
        let unused = 64 - PC_BITS;
        let ahead = (u64::from(self.how >> LANE_BITS).wrapping_sub(entry >> 2) << unused).cast_signed() >> unused;
        (entry >> 2).wrapping_add_signed(ahead) << 2
    }

    pub(super) fn lane(self) -> u8 {
        (self.how & ((1 << LANE_BITS) - 1)) as u8
    }

    fn is_none(&self) -> bool {
        self.wave == NO_WAVE
    }

    /// The same wave accesses again: the first access since it last released or got something is the one that is told.
    fn again(self, new: By, me: &Me<'_>) -> By {
        if self.number > me.since { By { how: self.how, ..new } } else { new }
    }
}

/// What a write is.
pub(super) mod flag {
    /// An atomic, or a store that is coherent.
    pub(crate) const ATOMIC: u16 = 1;
    /// It reads what it replaces.
    pub(crate) const MODIFIES: u16 = 1 << 1;
    /// It writes only if nothing changed since a read, which is a plain one: loops of it are the atomics that a processor lacks.
    pub(crate) const COMPARES: u16 = 1 << 2;
    /// It leaves what was there, or it is not known yet what it does.
    pub(crate) const KEEPS: u16 = 1 << 3;
    /// It returns what was there.
    pub(crate) const RETURNS: u16 = 1 << 4;
    /// The wave had waited for all before: it may be an atomic store that releases.
    pub(crate) const RELEASES: u16 = 1 << 5;
    /// The wave wrote several values.
    pub(crate) const VARIES: u16 = 1 << 6;
    /// What is written is not known.
    pub(crate) const UNKNOWN: u16 = 1 << 7;
    /// It is a load into LDS.
    pub(crate) const LOADS: u16 = 1 << 8;
}
use flag::{ATOMIC, COMPARES, KEEPS, LOADS, MODIFIES, RELEASES, RETURNS, UNKNOWN, VARIES};

/// A write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) by: By,
    pub(super) value: u32,
    /// The number of the first write of its wave since which the wave has written this value only.
    pub(super) since: u32,
    /// What its wave knew, and what of it held for plain loads.
    pub(super) seen: Record,
    pub(super) fresh: Record,
    /// How many accesses before it, itself among them, its wave had not waited for: of memory and of LDS.
    pub(super) behind: [u8; 2],
    pub(super) flags: u16,
}

impl Write {
    pub(super) const NONE: Write =
        Write { by: By::NONE, value: 0, since: 0, seen: 0, fresh: 0, behind: [0; 2], flags: 0 };

    pub(super) fn has(&self, flags: u16) -> bool {
        self.flags & flags == flags
    }

    /// What who reads the value gets with it. `is_mate` says that it is a wave of the same workgroup.
    pub(super) fn source(&self, is_mate: bool) -> Source {
        let upto = |behind: u8| match behind {
            0 => self.by.number,
            u8::MAX => 0,
            behind => self.by.number.saturating_sub(behind.into()),
        };
        let memory = if is_mate { self.by.number } else { upto(self.behind[0]) };
        Source { wave: self.by.wave, memory, lds: upto(self.behind[1]), record: self.seen }
    }

    /// True for plain writes that leave one known value.
    fn is_same(&self, other: &Write) -> bool {
        (self.flags | other.flags) & (ATOMIC | VARIES | UNKNOWN) == 0 && self.value == other.value
    }

    /// True for what may be an atomic store that ends what a compare-and-swap began: a lock's. The two have one form in machine code.
    fn unlocks(&self, other: &Write) -> bool {
        !self.has(ATOMIC) && self.has(RELEASES) && other.has(ATOMIC | COMPARES)
    }

    /// The same of a byte, at least: what is kept of units may be divided into their bytes.
    fn is_same_in_part(&self, other: &Write, unit: u8) -> bool {
        let differs = self.value ^ other.value;
        (self.flags | other.flags) & (ATOMIC | VARIES | UNKNOWN) == 0
            && (0..1 << unit).any(|byte| differs >> (8 * byte) & 0xff == 0)
    }

    fn is_like(&self, other: &Write) -> bool {
        self.by.wave == other.by.wave && (self.flags ^ other.flags) & (ATOMIC | KEEPS | RETURNS) == 0
    }

    /// The same wave writes again.
    fn again(&self, mut new: Write, me: &Me<'_>) -> Write {
        if self.by.number > me.since && (self.value != new.value || self.has(VARIES) || new.by.number == self.by.number)
        {
            new.flags |= if self.is_same(&new) { 0 } else { VARIES };
        }
        if self.is_same(&new) {
            new.since = self.since;
        }
        new.by = self.by.again(new.by, me);
        new
    }
}

/// The waves that read a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reads {
    by: [By; 2],
    /// One more than the number of a list of others.
    more: u32,
}

impl Reads {
    pub(super) const NONE: Reads = Reads { by: [By::NONE; 2], more: 0 };
}

/// The writes of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    /// The last one.
    last: Write,
    /// One more than the number of a list of others; [`COHERENT`].
    more: u32,
}

/// Coherent loads read the unit.
const COHERENT: u32 = 1 << 31;

impl Written {
    pub(super) const NONE: Written = Written { last: Write::NONE, more: 0 };

    pub(super) fn is_coherent(&self) -> bool {
        self.more & COHERENT != 0
    }

    pub(super) fn set_coherent(&mut self) {
        self.more |= COHERENT;
    }

    fn list(&self) -> Option<usize> {
        ((self.more & !COHERENT) as usize).checked_sub(1)
    }
}

/// Writes before the last one, in the order in which they were executed.
#[derive(Clone, Debug, Default)]
pub(super) struct More {
    pub(super) writes: Vec<Write>,
    /// What atomics that are not kept released.
    folded: Record,
}

/// Lists of accesses beside those that units have room for.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) reads: Vec<Vec<By>>,
    pub(super) writes: Vec<More>,
}

/// The accesses that are kept in a list: all in a small dispatch.
const MOST: usize = 256;
const MOST_OF_LARGE: usize = 24;
const LEFT_OF_LARGE: usize = 8;

/// What of accesses collides: what is wrong, and the accesses, that of the instruction that is told first.
pub(super) type Collision = (Kind, By, By);

impl Lists {
    pub(super) fn of<'l>(&'l self, written: &'l Written) -> impl DoubleEndedIterator<Item = &'l Write> {
        let more = written.list().and_then(|n| self.writes.get(n)).map_or(&[][..], |more| &more.writes);
        more.iter().chain(Some(&written.last)).filter(|write| !write.by.is_none())
    }

    fn readers<'l>(&'l self, reads: &'l Reads) -> impl Iterator<Item = &'l By> {
        let more = (reads.more as usize).checked_sub(1).and_then(|n| self.reads.get(n)).map_or(&[][..], |more| more);
        reads.by.iter().chain(more).filter(|by| !by.is_none())
    }

    /// The writes that a value comes from that is read now: the last one, and before atomics those that they read.
    pub(super) fn sources(&self, written: &Written) -> (Vec<Write>, Record) {
        let mut all = Vec::new();
        for write in self.of(written).rev() {
            all.push(*write);
            if !write.has(MODIFIES) {
                return (all, 0);
            }
        }
        let folded = written.list().and_then(|n| self.writes.get(n)).map_or(0, |more| more.folded);
        (all, folded)
    }

    /// The reads of a part of a unit.
    pub(super) fn part_of_reads(&mut self, reads: Reads) -> Reads {
        match (reads.more as usize).checked_sub(1).and_then(|list| self.reads.get(list)).cloned() {
            Some(list) => {
                self.reads.push(list);
                Reads { more: self.reads.len() as u32, ..reads }
            }
            None => reads,
        }
    }

    /// The same for writes; `value` takes the part of a value.
    pub(super) fn part_of_writes(&mut self, written: Written, value: impl Fn(u32) -> u32) -> Written {
        let mut part = Written { last: Write { value: value(written.last.value), ..written.last }, ..written };
        if let Some(mut more) = written.list().and_then(|list| self.writes.get(list)).cloned() {
            more.writes.iter_mut().for_each(|write| write.value = value(write.value));
            self.writes.push(more);
            part.more = self.writes.len() as u32 | written.more & COHERENT;
        }
        part
    }

    /// A plain read: with what it collides.
    #[inline]
    pub(super) fn read(&self, written: &Written, by: By, me: &Me<'_>, found: &mut Vec<Collision>) {
        if written.last.by.is_none()
            || written.more & !COHERENT == 0 && written.last.by.wave == me.id && !written.last.has(LOADS)
        {
            return;
        }
        // What the wave wrote itself is what others wrote, or that was found.
        let own = self.of(written).rfind(|write| write.by.wave == me.id && !write.has(ATOMIC));
        for write in self.of(written) {
            if write.by.wave == me.id {
                if write.has(LOADS) && me.is_loading(write.by.number) {
                    found.push((Kind::LoadRead, by, write.by));
                }
                continue;
            }
            if write.flags & (KEEPS | COMPARES) != 0 || own.is_some_and(|own| own.is_same(write)) {
                continue;
            }
            if let Some(kind) = Kind::of_read(me.relation(&write.by, true), write, me) {
                found.push((kind, by, write.by));
            }
        }
    }

    /// Keeps a read. With `all`, of every wave; else those of the least and the greatest.
    #[inline]
    pub(super) fn keep_read(
        &mut self,
        reads: &mut Reads,
        written: Option<&Written>,
        by: By,
        me: &Me<'_>,
        (all, most): (bool, usize),
    ) -> usize {
        // A read of what the wave wrote itself is no race with others that write the same. One before that write is.
        let own = written.and_then(|written| self.of(written).rfind(|write| write.by.wave == by.wave));
        let since = own.filter(|own| own.is_same(own)).map_or(0, |own| own.since);
        let list = (reads.more as usize).checked_sub(1).and_then(|list| self.reads.get_mut(list));
        let mut mine = reads.by.iter_mut().chain(list.into_iter().flatten()).filter(|read| read.wave == by.wave);
        match (mine.next(), mine.next()) {
            (Some(read), None) if read.number > since => {
                *read = read.again(by, me);
                return 0;
            }
            (Some(a), Some(b)) => {
                let (early, late) = if a.number < b.number { (a, b) } else { (b, a) };
                if late.number > since {
                    *late = late.again(by, me);
                } else {
                    (*early, *late) = (*late, by);
                }
                return 0;
            }
            _ => {}
        }
        if let Some(slot) = reads.by.iter_mut().find(|slot| slot.is_none() || me.is_over(slot)) {
            *slot = by;
            return 0;
        }
        if !all {
            let [least, greatest] = &mut reads.by;
            if least.wave > greatest.wave {
                std::mem::swap(least, greatest);
            }
            if by.wave < least.wave {
                *least = by;
            } else if by.wave > greatest.wave {
                *greatest = by;
            }
            return 0;
        }
        let mut taken = 0;
        if reads.more == 0 {
            self.reads.push(Vec::new());
            reads.more = self.reads.len() as u32;
            taken = size_of::<By>() * 4 + size_of::<Vec<By>>();
        }
        let Some(list) = self.reads.get_mut(reads.more as usize - 1) else { return taken };
        match list.iter_mut().find(|known| me.is_over(known)) {
            Some(over) => *over = by,
            None => {
                if list.len() >= most {
                    list.remove(0);
                }
                list.push(by);
            }
        }
        taken
    }

    /// With what a write collides.
    pub(super) fn write(
        &self,
        written: &Written,
        reads: Option<&Reads>,
        new: &Write,
        me: &Me<'_>,
        found: &mut Vec<Collision>,
    ) {
        let mut returned = false;
        for write in self.of(written).rev() {
            if write.by.wave == me.id {
                // What it returned is behind all atomics before.
                returned |= write.has(ATOMIC | MODIFIES | RETURNS);
                if write.has(LOADS) && !new.has(LOADS) && me.is_loading(write.by.number) {
                    found.push((Kind::LoadWritten, new.by, write.by));
                }
                continue;
            }
            let both = (write.flags & ATOMIC) + (new.flags & ATOMIC);
            if both == 2 || (write.flags | new.flags) & KEEPS != 0 || new.is_same(write) {
                continue;
            }
            if returned && write.has(ATOMIC) || new.unlocks(write) || write.unlocks(new) {
                continue;
            }
            if let Some(kind) = Kind::of_writes(me.relation(&write.by, false), both != 0, &write.by, me) {
                found.push((kind, new.by.max(write.by), new.by.min(write.by)));
            }
        }
        if new.flags & (KEEPS | COMPARES) == 0
            && let Some(reads) = reads
        {
            self.over_reads(written, reads, new, me, found);
        }
    }

    fn over_reads(&self, written: &Written, reads: &Reads, new: &Write, me: &Me<'_>, found: &mut Vec<Collision>) {
        for read in self.readers(reads).filter(|read| read.wave != me.id) {
            let relation = me.relation(read, false);
            if relation == Relation::Behind {
                continue;
            }
            let is_own = |write: &&Write| write.by.wave == read.wave && write.since < read.number;
            if self.of(written).filter(is_own).any(|write| write.is_same(new)) {
                continue;
            }
            if let Some(kind) = Kind::of_overwritten(relation, new, &read.clone(), me) {
                found.push((kind, *read, new.by));
            }
        }
    }

    /// Keeps a write to a unit of two to the power of `unit` bytes. Returns bytes that are taken in addition.
    #[inline]
    pub(super) fn keep(
        &mut self,
        written: &mut Written,
        new: Write,
        me: &Me<'_>,
        (most, unit): (usize, u8),
        order: &Order,
    ) -> usize {
        let last = written.last;
        if last.by.is_none() {
            written.last = new;
            return 0;
        }
        if last.is_like(&new) {
            written.last = last.again(new, me);
            return 0;
        }
        let is_plain = !new.has(ATOMIC);
        let goes = |write: &Write| {
            // What several waves store as one value is what each of them knows.
            me.is_of_another(&write.by)
                || !write.is_same_in_part(&new, unit)
                    && (me.is_over(&write.by)
                        || is_plain
                            && write.by.wave != me.id
                            && !write.has(ATOMIC)
                            && me.relation(&write.by, false) == Relation::Behind)
        };
        let Some(n) = written.list() else {
            if goes(&last) {
                written.last = new;
                return 0;
            }
            self.writes.push(More { writes: vec![last], folded: 0 });
            written.more |= self.writes.len() as u32;
            written.last = new;
            return size_of::<More>() + 4 * size_of::<Write>();
        };
        let Some(more) = self.writes.get_mut(n) else { return 0 };
        more.writes.push(last);
        let mut new = new;
        more.writes.retain(|write| {
            let is_like = write.is_like(&new);
            if is_like {
                new = write.again(new, me);
            }
            !is_like && !goes(write)
        });
        if is_plain {
            more.folded = 0;
        }
        written.last = new;
        if more.writes.len() > most {
            more.fold(order);
        }
        0
    }

    /// It is known what an atomic did that returned what was there.
    pub(super) fn settle(
        &mut self,
        written: &mut Written,
        reads: Option<&Reads>,
        changed: bool,
        me: &Me<'_>,
        found: &mut Vec<Collision>,
    ) {
        let is_it = |write: &Write| write.by.wave == me.id && write.has(ATOMIC | KEEPS) && write.by.number == me.number;
        let Some(own) = self.of(written).find(|write| is_it(write)).copied() else { return };
        if !changed && !own.has(COMPARES) {
            return;
        }
        let new = Write { flags: own.flags & !KEEPS, ..own };
        if changed {
            // Whoever stored the value that it got may have done so by an atomic store, and is before it. Such a store may have been noted
            // between this atomic and what it did.
            let before = self.of(written).rev().skip_while(|write| !is_it(write)).nth(1);
            let last = self.of(written).rfind(|write| !is_it(write));
            let stored: Vec<Write> = before
                .into_iter()
                .chain(last)
                .filter(|write| !write.has(ATOMIC) && write.has(RELEASES))
                .copied()
                .collect();
            let mut all = Vec::new();
            self.write(written, reads, &new, me, &mut all);
            let is_before = |by: &By| stored.iter().any(|stored| me.is_told(by, stored));
            found.extend(all.into_iter().filter(|(_, a, b)| !is_before(a) && !is_before(b)));
        }
        let list = written.list();
        let mut rest: Vec<Write> = self.of(written).copied().collect();
        rest.retain(|write| !(is_it(write) || changed && write.is_like(&new)));
        if changed {
            // Behind what was executed since, nothing is lost: only the order of atomics of other waves meanwhile.
            rest.push(new);
        }
        written.last = rest.pop().unwrap_or(Write::NONE);
        match list.and_then(|n| self.writes.get_mut(n)) {
            Some(more) => more.writes = rest,
            None if rest.is_empty() => {}
            None => {
                self.writes.push(More { writes: rest, folded: 0 });
                written.more |= self.writes.len() as u32;
            }
        }
    }
}

impl More {
    /// Keeps the writes of the first and the last wave, and the last ones.
    fn fold(&mut self, order: &Order) {
        let waves = || self.writes.iter().map(|write| write.by.wave);
        let (least, greatest) = (waves().min(), waves().max());
        let last = self.writes.len().saturating_sub(LEFT_OF_LARGE);
        let (mut sources, mut n) = (vec![Source::of(self.folded)], 0);
        self.writes.retain(|write| {
            let stays = n >= last || Some(write.by.wave) == least || Some(write.by.wave) == greatest;
            n += 1;
            if !stays && write.has(MODIFIES) {
                sources.push(write.source(false));
            }
            stays
        });
        self.folded = order.join(sources);
    }
}

/// The accesses that a list has at most.
pub(super) fn most(small: bool) -> usize {
    if small { MOST } else { MOST_OF_LARGE }
}
