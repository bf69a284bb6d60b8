//! Races in LDS: two waves access the same bytes without a barrier between, and one of them writes.
//!
//! Exact for the order that was executed: between two barriers all waves of a workgroup are in one *epoch*. An access that its
//! wave has not waited for when it is at a barrier may be done behind it, so it counts for the next epoch, too.

use amdgpu_emu::isa::access::{Does, Part};
use amdgpu_emu::isa::op::{Access, Family, Fill};
use amdgpu_emu::observer::Step;

use crate::Check;
use crate::finding::{Finding, Findings, Key, Other, Place};
use crate::outstanding::Outstanding;

/// Bytes of LDS that are looked at together.
const DWORD: u64 = 4;
/// No wave.
const NONE: u8 = u8::MAX;

/// An atomic.
const ATOMIC: u8 = 1;
/// An atomic that writes only if nothing changed since a read, which is a plain one: loops of it are the atomics that a processor lacks.
const COMPARES: u8 = 1 << 1;
/// Its wave had not waited for it at the last barrier.
const LATE: u8 = 1 << 2;

/// One access of a dword of LDS.
#[derive(Clone, Copy)]
struct Accessed {
    /// The lower half of the instruction's address.
    pc: u32,
    epoch: u32,
    wave: u8,
    /// The bytes of the dword, a bit for each.
    bytes: u8,
    /// [`ATOMIC`] and so on.
    flags: u8,
    /// The lane that accessed each byte.
    lanes: [u8; DWORD as usize],
}

const NOTHING: Accessed = Accessed { pc: 0, epoch: 0, wave: NONE, bytes: 0, flags: 0, lanes: [0; DWORD as usize] };

impl Accessed {
    /// True for an access by another wave of this epoch.
    fn meets(&self, other: &Accessed) -> bool {
        self.epoch == other.epoch && self.wave != other.wave && self.bytes & other.bytes != 0
    }

    /// True for an access by the same wave in the same epoch.
    fn is_of(&self, other: &Accessed) -> bool {
        self.epoch == other.epoch && self.wave == other.wave
    }

    /// The lane that accessed the first of some bytes.
    fn lane(&self, bytes: u8) -> u8 {
        self.lanes[(bytes & self.bytes).trailing_zeros() as usize % self.lanes.len()]
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The address of its instruction, which is near another one.
    fn pc(&self, near: u64) -> u64 {
        near.wrapping_add_signed(self.pc.wrapping_sub(near as u32).cast_signed().into())
    }
}

/// What is known of a dword: the last writes and reads of two waves, the last one first.
#[derive(Clone, Copy)]
struct Cell {
    writes: [Accessed; 2],
    reads: [Accessed; 2],
}

/// The LDS of a workgroup.
pub(crate) struct Race {
    cells: Vec<Cell>,
    /// Of each dword, the last read, if it was of the whole dword and none has written since: see [`Race::now`]. The same again is
    /// nothing new.
    last: Vec<u64>,
    epoch: u32,
}

/// No read.
const UNREAD: u64 = 0;

impl Race {
    pub(crate) fn new(lds: usize) -> Race {
        let cell = Cell { writes: [NOTHING; 2], reads: [NOTHING; 2] };
        let dwords = lds.div_ceil(DWORD as usize);
        Race { cells: vec![cell; dwords], last: vec![UNREAD; dwords], epoch: 1 }
    }

    /// For the next workgroup, which has as much LDS: what is known is of earlier epochs.
    pub(crate) fn again(mut self) -> Race {
        self.epoch += 1;
        self
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
            if accessed.pc == pc as u32 && usize::from(accessed.wave) == wave {
                accessed.epoch = epoch;
                accessed.flags |= LATE;
            }
        };
        for lane in part.active() {
            let (at, end) = (part.at[lane], part.at[lane].saturating_add(part.bytes.into()));
            for dword in at / DWORD..end.div_ceil(DWORD) {
                let Some(cell) = usize::try_from(dword).ok().and_then(|dword| self.cells.get_mut(dword)) else { break };
                let both = if part.does == Does::Read { &mut cell.reads } else { &mut cell.writes };
                both.iter_mut().for_each(carry);
            }
        }
    }

    /// The reads of an instruction of a wave in this epoch.
    fn now(&self, pc: u64, wave: u32) -> u64 {
        u64::from(self.epoch) << 36 | u64::from(wave & 15) << 32 | pc & 0xffff_ffff
    }

    /// A wave accesses LDS: part `n` of the instruction's accesses.
    pub(crate) fn access(&mut self, step: &Step<'_>, n: usize, part: &Part, place: &Place, findings: &mut Findings) {
        let writes = part.does != Does::Read;
        let atomic = if part.does == Does::Atomic { ATOMIC } else { 0 };
        let compares = if step.inst.op.name.starts_with("ds_cmpst") { COMPARES } else { 0 };
        let (pc, epoch, wave) = (step.pc as u32, self.epoch, place.wave as u8);
        let reads = if writes || part.bytes < DWORD as u8 { UNREAD } else { self.now(step.pc, place.wave) };
        let dwords = usize::from(part.bytes) / DWORD as usize;
        let mut own = None;
        for lane in part.active() {
            let (at, end) = (part.at[lane], part.at[lane].saturating_add(u64::from(part.bytes)));
            let mut reads = reads;
            if reads != UNREAD {
                let slot = (at / DWORD) as usize;
                match self.last.get(slot..slot.saturating_add(dwords)) {
                    Some(last) if at.is_multiple_of(DWORD) => {
                        if last.iter().all(|last| *last == reads) {
                            continue;
                        }
                    }
                    _ => reads = UNREAD,
                }
            }
            for dword in at / DWORD..end.div_ceil(DWORD) {
                let slot = usize::try_from(dword).unwrap_or(usize::MAX);
                let (Some(cell), Some(last)) = (self.cells.get_mut(slot), self.last.get_mut(slot)) else { break };
                *last = reads;
                let first = at.max(dword * DWORD) - dword * DWORD;
                let past = end.min((dword + 1) * DWORD) - dword * DWORD;
                let bytes = ((1u16 << past) - (1 << first)) as u8;
                let now =
                    Accessed { pc, epoch, wave, bytes, flags: atomic | compares, lanes: [lane as u8; DWORD as usize] };
                // Read again, as most of what is read: nothing can be new.
                let is_others = |write: &Accessed| write.epoch == epoch && write.wave != wave;
                if !writes
                    && cell.reads[0].is_of(&now)
                    && cell.reads[0].bytes == bytes
                    && !cell.writes.iter().any(is_others)
                {
                    cell.reads[0] = now;
                    continue;
                }
                let access = OfLane { step, n, part, lane, dword, place };
                if writes {
                    access.write(cell, now, own, findings);
                    own = Some((dword, lane as u8, bytes));
                } else {
                    access.read(cell, now, findings);
                }
            }
        }
    }
}

/// One lane's access of one dword.
struct OfLane<'a> {
    step: &'a Step<'a>,
    /// The number of the part among the instruction's accesses.
    n: usize,
    part: &'a Part,
    lane: usize,
    dword: u64,
    place: &'a Place,
}

impl OfLane<'_> {
    fn read(&self, cell: &mut Cell, now: Accessed, findings: &mut Findings) {
        // What the wave wrote itself is what others wrote, or that was found.
        let own = cell.writes.iter().filter(|write| write.is_of(&now)).fold(0, |own, write| own | write.bytes);
        for write in cell.writes.iter().filter(|write| write.meets(&now) && write.bytes & now.bytes & !own != 0) {
            let what = match (write.has(LATE), write.has(COMPARES)) {
                (true, _) => "LDS is read that another wave writes; its write is not waited for before the barrier",
                (false, true) => continue,
                (false, false) => "LDS is read that another wave writes, without a barrier between",
            };
            self.report(findings, &now, write, what);
        }
        let same_wave = cell.reads[0].wave == now.wave || cell.reads[0].epoch != now.epoch;
        cell.reads[usize::from(!same_wave)] = now;
    }

    /// `own` is the dword that the instruction has written last, the lane, and its bytes.
    fn write(&self, cell: &mut Cell, mut now: Accessed, own: Option<(u64, u8, u8)>, findings: &mut Findings) {
        if let Some((dword, lane, bytes)) = own.filter(|_| !now.has(ATOMIC))
            && dword == self.dword
            && self.differs(bytes & now.bytes, |byte| self.stored(lane.into(), byte))
        {
            let before = cell.writes[0];
            self.report(findings, &now, &before, "two lanes of one instruction write different values");
        }
        for write in cell.writes.iter().filter(|write| write.meets(&now)) {
            let atomics = u8::from(write.has(ATOMIC)) + u8::from(now.has(ATOMIC));
            // Whichever of two waves writes the same value last, LDS holds it: compilers let several waves do a store.
            if atomics == 2 || atomics == 0 && !self.differs(write.bytes & now.bytes, |byte| self.current(byte)) {
                continue;
            }
            let what = match atomics {
                0 => "LDS is written by two waves, without a barrier between",
                _ => "LDS is written by an atomic and by an access that is none, without a barrier between",
            };
            self.report(findings, &now, write, what);
        }
        let counts = |read: &&Accessed| read.meets(&now) && (read.has(LATE) || !now.has(COMPARES));
        for read in cell.reads.iter().filter(counts) {
            let what = match read.has(LATE) {
                true => "LDS is written that another wave reads; its read is not waited for before the barrier",
                false => "LDS is written that another wave reads, without a barrier between",
            };
            self.report(findings, &now, read, what);
        }
        match cell.writes.iter().position(|write| write.is_of(&now)) {
            Some(slot) => {
                let before = cell.writes[slot];
                cell.writes[slot] = cell.writes[0];
                let lanes = now.lanes.iter_mut().zip(before.lanes).enumerate();
                lanes.filter(|(n, _)| now.bytes >> n & 1 == 0).for_each(|(_, (lane, before))| *lane = before);
                now.bytes |= before.bytes;
            }
            None => cell.writes[1] = cell.writes[0],
        }
        cell.writes[0] = now;
    }

    /// True where the lane is about to store another value into some of the dword's bytes than there is, or one that is not known.
    fn differs(&self, bytes: u8, there: impl Fn(u64) -> Option<u8>) -> bool {
        (0..DWORD).filter(|byte| bytes >> byte & 1 == 1).any(|byte| {
            let stored = self.stored(self.lane, byte);
            stored.is_none() || stored != there(byte)
        })
    }

    /// A byte of the dword, as LDS holds it.
    fn current(&self, byte: u64) -> Option<u8> {
        self.step.lds.get(usize::try_from(self.dword * DWORD + byte).ok()?).copied()
    }

    /// A byte of the dword that a lane is about to write; `None` for what is no plain store.
    fn stored(&self, lane: usize, byte: u64) -> Option<u8> {
        let inst = self.step.inst;
        let (data, fill) = match (inst.op.family, inst.op.access) {
            (Family::Ds | Family::Flat, Access::Store(_, fill)) => (inst.src[1], fill),
            (Family::Ds, Access::Store2(..)) => (inst.src[1 + self.n.min(1)], Fill::Zero),
            _ => return None,
        };
        let n = (self.dword * DWORD + byte).checked_sub(self.part.at[lane])?;
        let word = self.step.wave.vector(data, (n / 4) as u32)[lane];
        let word = if fill == Fill::D16High { word >> 16 } else { word };
        Some((word >> (8 * (n % 4))) as u8)
    }

    #[cold]
    fn report(&self, findings: &mut Findings, now: &Accessed, before: &Accessed, what: &'static str) {
        let both = now.bytes & before.bytes;
        let place = Place { lane: Some(now.lane(both)), ..*self.place };
        let before_pc = before.pc(self.step.pc);
        let key = Key { check: Check::Race, pc: self.step.pc, what, other: Some(before_pc) };
        findings.add(key, place, || Finding {
            place,
            other: Some(Other {
                pc: before_pc,
                workgroup: None,
                wave: before.wave.into(),
                lane: Some(before.lane(both)),
            }),
            address: None,
            detail: format!("byte {} of LDS", self.dword * DWORD),
            count: 1,
        });
    }
}
