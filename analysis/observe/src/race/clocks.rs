//! What the waves of a workgroup have done and know, for the order of accesses.
//!
//! A barrier orders what its waves did before, but for accesses to LDS that their waves have not waited for. Accesses of waves of one
//! workgroup to memory go through one cache in the order in which they are issued. An atomic that another wave reads orders what its
//! wave had waited for; what the other wave gets, it knows once it has waited for the value itself. Its plain loads rely on accesses of
//! other workgroups only after the cache was invalidated.
//!
//! Source: LLVM's AMDGPUUsage, "Memory Model" of each processor.

use std::cell::Cell;
use std::collections::HashMap;

use amdgpu_emu::isa::access::Space;

use super::cell::{By, Write};
use super::order::{Known, Order, Record, Source};
use crate::outstanding::Outstanding;

/// Waves that a workgroup has at most.
const WAVES: u32 = 16;
/// Workgroups with larger numbers count as one.
const GROUPS: u64 = (1 << 28) - 1;

/// What a wave got by a value that may not have come back.
struct Pending {
    /// The number of the access.
    number: u32,
    /// What it brings, and what of it holds for plain loads.
    seen: Vec<Source>,
    fresh: Vec<Source>,
    /// A barrier of workgroups: what it brings is what they brought there.
    meets: bool,
    /// Its wave had nothing in its cache.
    clean: bool,
}

/// A wave.
#[derive(Default)]
struct WaveClock {
    /// The number of the last access before it last released or got something.
    since: u32,
    /// The number of the last access before it last waited for all accesses to memory, and to LDS.
    drained: [u32; 2],
    /// The number of the last access before it last invalidated its cache.
    invalidated: u32,
    seen: Record,
    /// What its plain loads can rely on.
    fresh: Record,
    pending: Vec<Pending>,
    /// What it got directly.
    known: HashMap<u32, Source>,
    /// It got a value that may order it behind workgroups that were not looked at.
    unknown: bool,
    /// It has waited for all its accesses to memory since the last barrier.
    waited: bool,
    /// What it knows has what it can tell of the last barrier: nothing yet; what waves had waited for; all.
    told: u8,
}

/// The waves of a workgroup.
pub(super) struct Clocks {
    /// The number of the first.
    first: u32,
    waves: Vec<WaveClock>,
    /// Of each, the last access to memory, and to LDS, that the last barrier ordered.
    barrier: [Vec<u32>; 2],
    /// Of each, the last access to memory before the last barrier that any wave can tell other workgroups of.
    told: Vec<u32>,
    /// What waves can tell of the barrier before they have waited, and behind: once one writes what another workgroup may read.
    records: [Option<Record>; 2],
}

/// How an access stands to an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// Ordered.
    Behind,
    /// Not ordered.
    Unordered,
    /// A barrier is between, but the earlier access may not have been done there.
    Late,
    /// Ordered, but a cache may have what was there before.
    Stale,
    /// It may be ordered by what was not looked at.
    Unknown,
}

/// The workgroup of a wave's number.
pub(super) fn group(wave: u32) -> u64 {
    (wave / WAVES).into()
}

/// The wave's number in its workgroup.
pub(super) fn in_group(wave: u32) -> u32 {
    wave % WAVES
}

impl Clocks {
    pub(super) fn new(group: u64, waves: usize) -> Clocks {
        let first = group.min(GROUPS - 1) as u32 * WAVES;
        let all = std::iter::repeat_with(WaveClock::default).take(waves).collect();
        Clocks {
            first,
            waves: all,
            barrier: [vec![0; waves], vec![0; waves]],
            told: vec![0; waves],
            records: [None; 2],
        }
    }

    /// A wave that accesses something.
    pub(super) fn me<'a>(
        &'a self,
        wave: usize,
        space: Space,
        outstanding: &'a Outstanding,
        order: &'a Order,
    ) -> Option<Me<'a>> {
        let clock = self.waves.get(wave)?;
        let number = outstanding.issued();
        Some(Me {
            id: self.first + wave as u32,
            number,
            since: clock.since,
            clock,
            clocks: self,
            space,
            outstanding,
            order,
            skipped: Cell::new(false),
        })
    }

    fn is_mate(&self, wave: u32) -> bool {
        (wave.wrapping_sub(self.first) as usize) < self.waves.len()
    }

    /// The wave writes what another workgroup may read, and with it what the last barrier ordered: what other waves had waited for there,
    /// and all of theirs if the wave has waited since.
    pub(super) fn tells_barrier(&mut self, wave: usize, order: &Order) {
        let Clocks { first, waves, barrier: [memory, lds], told, records } = self;
        let Some(clock) = waves.get_mut(wave).filter(|_| memory.len() > 1) else { return };
        let (level, memory) = if clock.waited { (2, memory) } else { (1, told) };
        if clock.told >= level {
            return;
        }
        clock.told = level;
        let Some(record) = records.get_mut(usize::from(level - 1)) else { return };
        let known = *record.get_or_insert_with(|| {
            let wave = |(n, (memory, lds)): (u32, (&u32, &u32))| Source {
                wave: *first + n,
                memory: *memory,
                lds: *lds,
                record: 0,
            };
            order.join((0..).zip(memory.iter().zip(lds.iter())).map(wave).collect())
        });
        clock.seen = order.join(vec![Source::of(clock.seen), Source::of(known)]);
    }

    /// The wave has released something with its access.
    pub(super) fn released(&mut self, wave: usize, outstanding: &Outstanding) {
        if let Some(clock) = self.waves.get_mut(wave) {
            clock.since = outstanding.issued();
        }
    }

    /// What other workgroups were not looked at may order the wave.
    pub(super) fn loses(&mut self, wave: usize) {
        if let Some(clock) = self.waves.get_mut(wave) {
            clock.unknown = true;
        }
    }

    /// The wave's last access has got a value that these writes left: it is behind them once it has waited.
    pub(super) fn gets(&mut self, wave: usize, number: u32, writes: &[Write], folded: &[Record]) {
        let (first, count) = (self.first, self.waves.len() as u32);
        let me = first + wave as u32;
        let Some(clock) = self.waves.get_mut(wave) else { return };
        let (mut seen, mut fresh) = (Vec::new(), Vec::new());
        for write in writes.iter().filter(|write| write.by.wave != me) {
            let is_mate = write.by.wave.wrapping_sub(first) < count;
            let source = write.source(is_mate);
            if clock.known.get(&source.wave) == Some(&source) {
                continue;
            }
            clock.known.insert(source.wave, source);
            seen.push(source);
            if is_mate {
                fresh.push(Source { record: write.fresh, ..source });
            }
        }
        seen.extend(folded.iter().filter(|record| **record != 0).map(|record| Source::of(*record)));
        if !seen.is_empty() {
            clock.pending.push(Pending { number, seen, fresh, meets: false, clean: false });
        }
    }

    /// The wave meets other workgroups. With a cache that has nothing, its plain loads rely on what they bring: HIP's `grid.sync` of
    /// ROCm 5 invalidates before the barrier of the grid, not behind.
    pub(super) fn meets(&mut self, wave: usize, number: u32) {
        if let Some(clock) = self.waves.get_mut(wave)
            && !clock.pending.iter().any(|pending| pending.meets && pending.number == number)
        {
            let clean = clock.invalidated + 1 == number;
            clock.pending.push(Pending { number, seen: Vec::new(), fresh: Vec::new(), meets: true, clean });
        }
    }

    /// What the wave brings to a meeting of workgroups.
    pub(super) fn brings(&self, wave: usize) -> Option<Source> {
        let clock = self.waves.get(wave)?;
        Some(Source {
            wave: self.first + wave as u32,
            memory: clock.drained[0],
            lds: clock.drained[1],
            record: clock.seen,
        })
    }

    /// The wave has waited: for all accesses to memory or to LDS, perhaps.
    pub(super) fn waits(
        &mut self,
        wave: usize,
        outstanding: &Outstanding,
        drained: [bool; 2],
        order: &Order,
        met: impl Fn() -> Vec<Source>,
    ) {
        let Some(clock) = self.waves.get_mut(wave) else { return };
        for (at, _) in clock.drained.iter_mut().zip(drained).filter(|(_, drained)| *drained) {
            *at = outstanding.issued();
        }
        clock.waited |= drained[0];
        if clock.pending.is_empty() {
            return;
        }
        let (mut seen, mut fresh) = (vec![Source::of(clock.seen)], vec![Source::of(clock.fresh)]);
        clock.pending.retain_mut(|pending| {
            let stays = outstanding.is_pending(pending.number);
            if !stays {
                seen.append(&mut pending.seen);
                fresh.append(&mut pending.fresh);
                if pending.meets {
                    let met = met();
                    fresh.extend(met.iter().filter(|_| pending.clean).copied());
                    seen.extend(met);
                }
            }
            stays
        });
        if seen.len() > 1 {
            clock.seen = order.join(seen);
            clock.fresh = order.join(fresh);
            clock.since = outstanding.issued();
        }
    }

    /// The wave invalidates its cache: plain loads see what it knows of.
    pub(super) fn invalidates(&mut self, wave: usize, outstanding: &Outstanding) {
        if let Some(clock) = self.waves.get_mut(wave) {
            clock.fresh = clock.seen;
            clock.invalidated = outstanding.issued();
        }
    }

    /// The waves go on behind a barrier.
    pub(super) fn barrier(&mut self, all: &[Outstanding], order: &Order) {
        let waited = self.waves.iter().any(|wave| wave.waited);
        for (n, outstanding) in all.iter().enumerate() {
            let [memory, lds] = &mut self.barrier;
            if let (Some(memory), Some(lds), Some(told)) = (memory.get_mut(n), lds.get_mut(n), self.told.get_mut(n)) {
                *told = (*told).max(outstanding.done(Space::Memory)).max(if waited { *memory } else { 0 });
                (*memory, *lds) = (outstanding.issued(), outstanding.done(Space::Lds));
            }
        }
        let of = |record: fn(&WaveClock) -> Record, waves: &[WaveClock]| {
            order.join(waves.iter().map(|wave| Source::of(record(wave))).collect())
        };
        let (seen, fresh) = (of(|wave| wave.seen, &self.waves), of(|wave| wave.fresh, &self.waves));
        let unknown = self.waves.iter().any(|wave| wave.unknown);
        for (clock, outstanding) in self.waves.iter_mut().zip(all) {
            (clock.seen, clock.fresh, clock.unknown) = (seen, fresh, unknown);
            (clock.since, clock.waited, clock.told) = (outstanding.issued(), false, 0);
        }
        self.records = [None; 2];
    }
}

/// A wave that accesses something.
pub(super) struct Me<'a> {
    pub(super) id: u32,
    /// The number of its access.
    pub(super) number: u32,
    /// See [`WaveClock::since`].
    pub(super) since: u32,
    clock: &'a WaveClock,
    clocks: &'a Clocks,
    pub(super) space: Space,
    outstanding: &'a Outstanding,
    order: &'a Order,
    skipped: Cell<bool>,
}

impl Me<'_> {
    /// How this access stands to an earlier one. `loads` says that it is a plain load.
    #[inline]
    pub(super) fn relation(&self, by: &By, loads: bool) -> Relation {
        if by.wave == self.id {
            return Relation::Behind;
        }
        let mate = by.wave.wrapping_sub(self.clocks.first) as usize;
        let [memory, lds] = &self.clocks.barrier;
        match (memory.get(mate), lds.get(mate)) {
            (Some(memory), Some(lds)) => {
                let ordered = if self.space == Space::Lds { lds } else { memory };
                if by.number <= *ordered {
                    return Relation::Behind;
                }
                match self.knows(self.clock.seen, by) {
                    Known::Yes | Known::TooFar => Relation::Behind,
                    Known::No if by.number <= *memory => Relation::Late,
                    Known::No => Relation::Unordered,
                }
            }
            // Of an earlier workgroup, which had this LDS.
            _ if self.space == Space::Lds => Relation::Behind,
            _ => self.to_other_workgroup(by, loads),
        }
    }

    /// True for an access to LDS that nothing of this workgroup can race with any more.
    #[inline]
    pub(super) fn is_over(&self, by: &By) -> bool {
        let mate = by.wave.wrapping_sub(self.clocks.first) as usize;
        self.space == Space::Lds && self.clocks.barrier[1].get(mate).is_none_or(|lds| by.number <= *lds)
    }

    /// True for an access to LDS of a workgroup that had it before.
    #[inline]
    pub(super) fn is_of_another(&self, by: &By) -> bool {
        self.space == Space::Lds && !self.clocks.is_mate(by.wave)
    }

    fn to_other_workgroup(&self, by: &By, loads: bool) -> Relation {
        match self.knows(self.clock.seen, by) {
            Known::No if !self.clock.unknown => Relation::Unordered,
            Known::No | Known::TooFar => {
                self.skipped.set(true);
                Relation::Unknown
            }
            Known::Yes if loads && self.knows(self.clock.fresh, by) == Known::No && !self.clock.unknown => {
                Relation::Stale
            }
            Known::Yes => Relation::Behind,
        }
    }

    fn knows(&self, record: Record, by: &By) -> Known {
        if record == 0 { Known::No } else { self.order.knows(record, by.wave, by.number, self.space) }
    }

    /// True for an access that is a write, or that its wave knew of.
    pub(super) fn is_told(&self, by: &By, write: &Write) -> bool {
        by.wave == write.by.wave && by.number <= write.by.number || self.knows(write.seen, by) == Known::Yes
    }

    /// Something was not compared with its access.
    pub(super) fn has_skipped(&self) -> bool {
        self.skipped.get()
    }

    /// True for waves of the same workgroup.
    pub(super) fn is_mate(&self, wave: u32) -> bool {
        self.clocks.is_mate(wave)
    }

    /// The wave's own load into LDS with this number may not be done.
    pub(super) fn is_loading(&self, number: u32) -> bool {
        self.outstanding.is_pending(number)
    }

    /// What the wave releases with its access, as far as a write keeps it: records, and how far it has waited for its accesses to memory
    /// and to LDS before; and whether it has waited for all just before.
    pub(super) fn releases(&self) -> ([Record; 2], [u8; 2], bool) {
        let behind = |space: Space| match self.outstanding.done_before(space, self.number) {
            done if done + 1 == self.number => 0,
            done => u8::try_from(self.number - done).unwrap_or(u8::MAX),
        };
        let space = usize::from(self.space == Space::Lds);
        let drained = self.number > 1 && self.clock.drained[space] + 1 == self.number;
        ([self.clock.seen, self.clock.fresh], [behind(Space::Memory), behind(Space::Lds)], drained)
    }
}
