//! The findings of checks.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::Check;

/// Distinct findings that are kept; more are counted together.
const MOST: usize = 10_000;

/// A place of a dispatch: who did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The workgroup's number, x fastest.
    pub group: u64,
    /// Its coordinates.
    pub workgroup: [u32; 3],
    /// The wave's number in its workgroup.
    pub wave: u32,
    /// The lane, if it is one lane's doing.
    pub lane: Option<u8>,
}

/// Another access or instruction that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Other {
    /// The address of its instruction.
    pub pc: u64,
    /// Its workgroup, if it is another one.
    pub workgroup: Option<[u32; 3]>,
    /// Its wave.
    pub wave: u32,
    /// Its lane, if it is one lane's doing.
    pub lane: Option<u8>,
}

/// What is found in the same way at the same instruction is one finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The check.
    pub check: Check,
    /// The address of the instruction.
    pub pc: u64,
    /// What is wrong, in a few words that are the same for all findings of the kind.
    pub what: &'static str,
    /// The address of the other instruction.
    pub other: Option<u64>,
}

/// A finding: of the first place, in the order of workgroups and waves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: Position,
    /// What it collides with, or what should have been waited for.
    pub other: Option<Other>,
    /// An address of memory, or an offset in LDS.
    pub address: Option<u64>,
    /// What belongs to the first place: a register, a counter, a size.
    pub detail: String,
    /// How often.
    pub count: u64,
}

/// Findings, by what they are about.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The findings.
    pub all: BTreeMap<Key, Finding>,
    /// Findings that were too many to be kept.
    pub dropped: u64,
}

impl Findings {
    /// Adds a finding, or counts it if it is known. `finding` is asked for if it is the first, in the order of places.
    pub(crate) fn add(&mut self, key: Key, place: Position, finding: impl FnOnce() -> Finding) {
        let full = self.all.len() >= MOST;
        match self.all.entry(key) {
            Entry::Occupied(mut known) => {
                let count = known.get().count + 1;
                if place < known.get().place {
                    known.insert(finding());
                }
                known.get_mut().count = count;
            }
            Entry::Vacant(_) if full => self.dropped += 1,
            Entry::Vacant(new) => {
                new.insert(finding());
            }
        }
    }

    /// Adds another worker's findings.
    pub(crate) fn merge(&mut self, other: Findings) {
        self.dropped += other.dropped;
        for (key, finding) in other.all {
            match self.all.entry(key) {
                Entry::Vacant(new) => {
                    new.insert(finding);
                }
                Entry::Occupied(mut known) => {
                    let count = known.get().count + finding.count;
                    if finding.place < known.get().place {
                        known.insert(finding);
                    }
                    known.get_mut().count = count;
                }
            }
        }
    }
}
