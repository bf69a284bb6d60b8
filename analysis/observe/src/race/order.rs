//! What waves know of each other's accesses: a graph of what was released and acquired.
//!
//! The accesses of a wave are numbered. A *record* says up to which numbers a wave may rely on accesses of others: directly, or by what
//! these knew themselves. Records are never changed, so that one stands for a point of time of a wave.
//!
//! # Threads
//! All workers add records. No other lock is taken under the lock.

use std::collections::HashSet;
use std::sync::Mutex;

use amdgpu_emu::isa::access::Space;
use logdur_system::lock;

/// The number of a record; 0 knows nothing.
pub(super) type Record = u32;

/// No wave: a source that is only a record.
pub(super) const NO_WAVE: u32 = u32::MAX;

/// Records that a question looks at, at most.
const MOST: usize = 1 << 16;

/// A part of what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// The wave, by a number of the dispatch.
    pub(super) wave: u32,
    /// Its accesses to memory up to this number.
    pub(super) memory: u32,
    /// Its accesses to LDS up to this number.
    pub(super) lds: u32,
    /// What it knew itself.
    pub(super) record: Record,
}

impl Source {
    /// What is known by a record.
    pub(super) fn of(record: Record) -> Source {
        Source { wave: NO_WAVE, memory: 0, lds: 0, record }
    }

    fn is_empty(&self) -> bool {
        self.memory == 0 && self.lds == 0 && self.record == 0
    }
}

/// An answer about two accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Yes,
    No,
    /// There is too much to look at.
    TooFar,
}

/// All records of a dispatch.
#[derive(Debug, Default)]
pub(super) struct Order {
    records: Mutex<Vec<Box<[Source]>>>,
}

impl Order {
    /// A record of some sources.
    pub(super) fn join(&self, mut sources: Vec<Source>) -> Record {
        sources.retain(|source| !source.is_empty());
        let Some(first) = sources.first().copied() else { return 0 };
        if sources.iter().all(|source| source.wave == NO_WAVE && source.record == first.record) {
            return first.record;
        }
        let mut records = lock(&self.records);
        records.push(sources.into());
        records.len() as Record
    }

    /// Does a record know the access of a wave with this number?
    pub(super) fn knows(&self, record: Record, wave: u32, number: u32, space: Space) -> Known {
        if record == 0 {
            return Known::No;
        }
        let records = lock(&self.records);
        let (mut open, mut seen) = (vec![record], HashSet::new());
        while let Some(record) = open.pop() {
            if !seen.insert(record) {
                continue;
            }
            if seen.len() > MOST {
                return Known::TooFar;
            }
            let sources = records.get(record as usize - 1).map_or(&[][..], |sources| sources);
            let reaches = |source: &Source| match space {
                Space::Memory => source.memory,
                Space::Lds => source.lds,
            };
            if sources.iter().any(|source| source.wave == wave && reaches(source) >= number) {
                return Known::Yes;
            }
            open.extend(sources.iter().map(|source| source.record).filter(|record| *record != 0));
        }
        Known::No
    }
}
