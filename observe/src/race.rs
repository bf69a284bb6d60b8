//! Races in LDS: two waves access the same bytes without a barrier between, and one of them writes.
//!
//! Exact for the order that was executed: between two barriers all waves of a workgroup are in one *epoch*. An access that its
//! wave has not waited for when it is at a barrier may be done behind it, so it counts for the next epoch, too.

use amdgpu_emu::isa::access::{Does, Part};
use amdgpu_emu::isa::op::{Access, Family};
use amdgpu_emu::observer::Step;

use crate::Check;
use crate::finding::{Finding, Findings, Key, Other, Place};
use crate::outstanding::Outstanding;

/// Bytes of LDS that are looked at together.
const DWORD: u64 = 4;
/// No wave.
const NONE: u16 = u16::MAX;

/// One access of a dword of LDS.
#[derive(Clone, Copy)]
struct Accessed {
    pc: u64,
    epoch: u32,
    wave: u16,
    lane: u8,
    /// The bytes of the dword, a bit for each.
    bytes: u8,
    atomic: bool,
    /// An atomic that writes only if nothing changed since a read, which is a plain one: loops of it are the atomics that a processor lacks.
    compares: bool,
    /// Its wave had not waited for it at the last barrier.
    late: bool,
}

const NOTHING: Accessed =
    Accessed { pc: 0, epoch: 0, wave: NONE, lane: 0, bytes: 0, atomic: false, compares: false, late: false };

impl Accessed {
    /// True for an access by another wave of this epoch.
    fn meets(&self, other: &Accessed) -> bool {
        self.wave != NONE && self.wave != other.wave && self.epoch == other.epoch && self.bytes & other.bytes != 0
    }
}

/// What is known of a dword: its last write, and its last reads by two waves.
#[derive(Clone, Copy)]
struct Cell {
    write: Accessed,
    reads: [Accessed; 2],
}

/// The LDS of a workgroup.
pub(crate) struct Race {
    cells: Vec<Cell>,
    epoch: u32,
}

impl Race {
    pub(crate) fn new(lds: usize) -> Race {
        Race { cells: vec![Cell { write: NOTHING, reads: [NOTHING; 2] }; lds.div_ceil(DWORD as usize)], epoch: 1 }
    }

    /// The waves go on behind a barrier.
    pub(crate) fn barrier<'o>(&mut self, waves: impl Iterator<Item = &'o Outstanding>) {
        self.epoch += 1;
        for (wave, outstanding) in waves.enumerate() {
            for operation in outstanding.operations() {
                for part in &operation.lds {
                    self.carry(operation.pc, wave, part);
                }
            }
        }
    }

    /// An access that was not waited for counts for the new epoch.
    fn carry(&mut self, pc: u64, wave: usize, part: &Part) {
        let epoch = self.epoch;
        let carry = |accessed: &mut Accessed| {
            if accessed.pc == pc && usize::from(accessed.wave) == wave {
                (accessed.epoch, accessed.late) = (epoch, true);
            }
        };
        for lane in part.active() {
            let (at, end) = (part.at[lane], part.at[lane].saturating_add(part.bytes.into()));
            for dword in at / DWORD..end.div_ceil(DWORD) {
                let Some(cell) = usize::try_from(dword).ok().and_then(|dword| self.cells.get_mut(dword)) else { break };
                if part.does == Does::Read {
                    cell.reads.iter_mut().for_each(carry);
                } else {
                    carry(&mut cell.write);
                }
            }
        }
    }

    /// A wave accesses LDS: part `n` of the instruction's accesses.
    pub(crate) fn access(&mut self, step: &Step<'_>, n: usize, part: &Part, place: &Place, findings: &mut Findings) {
        let mut own: Option<(u64, u8)> = None;
        for lane in part.active() {
            let (at, end) = (part.at[lane], part.at[lane].saturating_add(u64::from(part.bytes)));
            for dword in at / DWORD..end.div_ceil(DWORD) {
                let Some(cell) = usize::try_from(dword).ok().and_then(|dword| self.cells.get_mut(dword)) else { break };
                let first = at.max(dword * DWORD) - dword * DWORD;
                let last = end.min((dword + 1) * DWORD) - dword * DWORD;
                let bytes = ((1u16 << last) - (1 << first)) as u8;
                let accessed = Accessed {
                    pc: step.pc,
                    epoch: self.epoch,
                    wave: place.wave as u16,
                    lane: lane as u8,
                    bytes,
                    atomic: part.does == Does::Atomic,
                    compares: step.inst.op.name.starts_with("ds_cmpst"),
                    late: false,
                };
                let writes = part.does != Does::Read;
                // Read again, as most of what is read: nothing can be new.
                let again = &cell.reads[0];
                if !writes
                    && (again.wave, again.epoch, again.bytes) == (accessed.wave, accessed.epoch, bytes)
                    && (cell.write.epoch != accessed.epoch || cell.write.wave == accessed.wave)
                {
                    cell.reads[0] = accessed;
                    continue;
                }
                let value = || stored(step, n, lane, (dword - at / DWORD) as u32);
                if writes {
                    // Two lanes of one instruction.
                    let before = &cell.write;
                    let twice = !accessed.atomic
                        && before.wave == accessed.wave
                        && before.pc == accessed.pc
                        && own == Some((dword, before.lane))
                        && before.bytes & bytes != 0;
                    if twice
                        && bytes == 15
                        && stored(step, n, before.lane.into(), (dword - at / DWORD) as u32) != value()
                    {
                        report(
                            findings,
                            place,
                            &accessed,
                            before,
                            dword,
                            "two lanes of one instruction write different values",
                        );
                    }
                }
                let reads_compared = !writes && cell.write.compares && !cell.write.late;
                // Whichever of two waves writes the same value last, LDS holds it: compilers let several waves do a store.
                let is_plain = writes && !accessed.atomic && !cell.write.atomic && bytes == 15;
                let same = || is_plain && value().is_some_and(|value| Some(value) == current(step, dword));
                if cell.write.meets(&accessed) && !(cell.write.atomic && accessed.atomic || reads_compared || same()) {
                    let what = match (accessed.atomic || cell.write.atomic, writes, cell.write.late) {
                        (_, false, true) => {
                            "LDS is read that another wave writes; its write is not waited for before the barrier"
                        }
                        (_, false, false) => "LDS is read that another wave writes, without a barrier between",
                        (true, ..) => {
                            "LDS is written by an atomic and by an access that is none, without a barrier between"
                        }
                        (false, ..) => "LDS is written by two waves, without a barrier between",
                    };
                    report(findings, place, &accessed, &cell.write, dword, what);
                }
                if writes {
                    let counts = |read: &&Accessed| read.meets(&accessed) && (read.late || !accessed.compares);
                    for read in cell.reads.iter().filter(counts) {
                        let what = match read.late {
                            true => {
                                "LDS is written that another wave reads; its read is not waited for before the barrier"
                            }
                            false => "LDS is written that another wave reads, without a barrier between",
                        };
                        report(findings, place, &accessed, read, dword, what);
                    }
                    cell.write = accessed;
                    own = Some((dword, lane as u8));
                } else if cell.reads[0].wave == accessed.wave || cell.reads[0].epoch != accessed.epoch {
                    cell.reads[0] = accessed;
                } else {
                    cell.reads[1] = accessed;
                }
            }
        }
    }
}

#[cold]
fn report(findings: &mut Findings, place: &Place, now: &Accessed, before: &Accessed, dword: u64, what: &'static str) {
    let place = Place { lane: Some(now.lane), ..*place };
    let key = Key { check: Check::Race, pc: now.pc, what, other: Some(before.pc) };
    findings.add(key, place, || Finding {
        place,
        other: Some(Other { pc: before.pc, wave: before.wave.into(), lane: Some(before.lane) }),
        address: None,
        detail: format!("byte {} of LDS", dword * DWORD),
        count: 1,
    });
}

/// The dword that LDS holds.
fn current(step: &Step<'_>, dword: u64) -> Option<u32> {
    let at = usize::try_from(dword * DWORD).ok()?;
    Some(u32::from_le_bytes(step.lds.get(at..at + 4)?.try_into().ok()?))
}

/// Dword `word` that a lane of an LDS instruction is about to write; `None` for what is no plain store of dwords.
fn stored(step: &Step<'_>, part: usize, lane: usize, word: u32) -> Option<u32> {
    if step.inst.op.family != Family::Ds {
        return None;
    }
    match step.inst.op.access {
        Access::Store(4.., _) => Some(step.wave.vector(step.inst.src[1], word)[lane]),
        Access::Store2(4.., _) => Some(step.wave.vector(step.inst.src[1 + part.min(1)], word)[lane]),
        _ => None,
    }
}
