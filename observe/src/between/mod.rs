//! Races between workgroups: one writes memory that another one writes or reads, and nothing orders the two.
//!
//! Judged are plain accesses, by the order that a program can rely on, not by the order that was executed: workgroups may run in any.
//! What orders an access behind another workgroup's is a value that its wave got by an atomic or a coherent load, or that another wave
//! of its workgroup got before a barrier. Which value does is not known, so later accesses of such waves are not judged, but counted.
//!
//! Stores of the same value by all workgroups are no race. Stores to memory that atomics or coherent loads access may be atomic stores,
//! which some processors have no other instruction for; they are not judged against each other.

mod shadow;

use amdgpu_emu::isa::access::{Does, Part, Parts, Space};
use amdgpu_emu::isa::inst::{Inst, control};
use amdgpu_emu::isa::op::{Access, Family, Fill, Flags};
use amdgpu_emu::isa::wave::Vgpr;
use amdgpu_emu::launch::Launch;
use amdgpu_emu::observer::{SCRATCH_WINDOW, Step};

use crate::Check;
use crate::finding::{Finding, Findings, Key, Other, Place};
use crate::heat::Region;
use shadow::{By, Ends, Shadow, What, Written};

/// Bytes that the shadow of memory takes at most.
const LIMIT: usize = 1 << 30;

const READ: &str = "memory is read that another workgroup writes, and nothing orders the two";
const WRITTEN: &str = "memory is written by two workgroups with different values, and nothing orders the two";

/// How far races between workgroups were looked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Accesses of waves that were not judged: they may be ordered by what an atomic or a coherent load returned.
    pub not_judged: u64,
    /// Of so many pages of memory, one was looked at.
    pub share: u64,
}

/// The memory of a dispatch.
#[derive(Debug)]
pub(crate) struct Between {
    shadow: Shadow,
    entry: u64,
}

/// What a workgroup's accesses may be ordered by.
#[derive(Debug)]
pub(crate) struct Ordered {
    /// The waves that got a value of other workgroups.
    waves: Vec<bool>,
}

impl Ordered {
    /// Of a workgroup that begins.
    pub(crate) fn new(waves: usize) -> Ordered {
        Ordered { waves: vec![false; waves] }
    }

    /// The waves go on behind a barrier.
    pub(crate) fn barrier(&mut self) {
        if self.waves.contains(&true) {
            self.waves.fill(true);
        }
    }

    /// A wave executes an instruction, the accesses of which were looked at.
    #[inline]
    pub(crate) fn executes(&mut self, step: &Step<'_>, parts: Option<&Parts>) {
        let Some(parts) = parts else {
            self.gets_value(step, step.inst.op.flags.has(Flags::GWS));
            return;
        };
        let returns = match step.inst.op.access {
            Access::Atomic(..) => step.inst.has(control::GLC),
            Access::Store(..) | Access::StoreFormat(..) => false,
            _ => true,
        };
        let coherent = returns && is_coherent(step.inst);
        self.gets_value(step, coherent && parts.iter().any(|part| part.space == Space::Memory));
    }

    fn gets_value(&mut self, step: &Step<'_>, does: bool) {
        if let Some(wave) = self.waves.get_mut(step.number).filter(|_| does) {
            *wave = true;
        }
    }
}

/// True for atomics, and for accesses that see what other workgroups did before: compilers make them of atomic and volatile ones.
/// With the hint that the data is used once only, they are plain.
///
/// Source: LLVM's AMDGPUUsage, "Memory Model"; `SIMemoryLegalizer`.
fn is_coherent(inst: &Inst) -> bool {
    matches!(inst.op.access, Access::Atomic(..))
        || inst.control & (control::GLC | control::SCC) != 0 && !inst.has(control::SLC)
}

impl Between {
    /// Of a dispatch whose memory is these regions.
    pub(crate) fn new(regions: &[Region], launch: &Launch) -> Between {
        Between { shadow: Shadow::new(regions, LIMIT), entry: launch.entry }
    }

    /// A wave accesses memory: part `n` of the instruction's accesses. Returns how many accesses were not judged.
    pub(crate) fn access(&self, step: &Step<'_>, n: usize, part: &Part, place: &Place, ordered: &Ordered) -> u64 {
        let first = part.at[part.lanes.trailing_zeros() as usize & 63];
        if part.space != Space::Memory || first >= SCRATCH_WINDOW {
            return 0;
        }
        let coherent = is_coherent(step.inst);
        if !coherent && ordered.waves.get(step.number).copied().unwrap_or_default() {
            return u64::from(self.shadow.has(first));
        }
        let by = By::new(place.group, step.pc, place.wave);
        let data = if part.does == Does::Write { stored(step, n, part) } else { None };
        let mut touches = self.shadow.touches();
        for lane in part.active() {
            for (piece, (at, length)) in part.pieces(lane).enumerate() {
                let what = match part.does {
                    _ if coherent => What::Orders,
                    Does::Read => What::Reads,
                    Does::Write | Does::Atomic => What::Writes(data.as_ref().map(|data| data.of(lane, piece))),
                };
                touches.touch(at, length.into(), by, lane, what);
            }
        }
        0
    }

    /// What came of all accesses. Returns of how many pages one was looked at.
    pub(crate) fn judge(&self, launch: &Launch, findings: &mut Findings) -> u64 {
        self.shadow.each(|page, unit, writes, reads| {
            let in_dword = 4usize >> unit;
            for ((dword, cells), first) in (page..).step_by(4).zip(writes.chunks(in_dword)).zip((0..).step_by(in_dword))
            {
                let mut known: Vec<Key> = Vec::new();
                for (n, cell) in cells.iter().enumerate() {
                    for (what, late, early) in races(cell, reads.and_then(|reads| reads.get(first + n))) {
                        let other = early.pc(self.entry);
                        let key = Key { check: Check::Race, pc: late.pc(self.entry), what, other: Some(other) };
                        if known.contains(&key) {
                            continue;
                        }
                        known.push(key.clone());
                        let place = self.place(launch, late);
                        let address = dword + ((n as u64) << unit);
                        findings.add(key, place, || Finding {
                            place,
                            other: Some(Other {
                                pc: other,
                                workgroup: Some(launch.coordinates(early.group.into())),
                                wave: early.wave(),
                                lane: Some(early.its_lane()),
                            }),
                            address: Some(address),
                            detail: String::new(),
                            count: 1,
                        });
                    }
                }
            }
        });
        self.shadow.share()
    }

    fn place(&self, launch: &Launch, by: By) -> Place {
        let group = u64::from(by.group);
        Place { group, workgroup: launch.coordinates(group), wave: by.wave(), lane: Some(by.its_lane()) }
    }
}

/// The races of a unit of memory: what is wrong, and two accesses of two workgroups.
fn races(cell: &Written, reads: Option<&Ends>) -> impl Iterator<Item = (&'static str, By, By)> {
    let writes = cell.by;
    let read = |reads: &Ends| {
        // Where the least writer is the greatest reader, no writer is less than a reader: one of the others differs, or all are one.
        let pairs = [(reads.most, writes.least), (reads.least, writes.most)];
        let (read, write) = pairs.into_iter().find(|(read, write)| read.group != write.group)?;
        Some((READ, read, write))
    };
    let read = reads.filter(|reads| !writes.is_none() && !reads.is_none()).and_then(read);
    let twice = !writes.is_none() && writes.least.group != writes.most.group && cell.differs && !cell.coherent;
    read.into_iter().chain(twice.then_some((WRITTEN, writes.most, writes.least)))
}

/// What an instruction is about to store.
struct Stored<'w> {
    words: [Option<&'w Vgpr>; 4],
    high: bool,
}

impl Stored<'_> {
    /// The words of a lane, from a piece of its access on.
    fn of(&self, lane: usize, piece: usize) -> [u32; 4] {
        let word = |n: usize| {
            let word = self.words.get(piece + n).copied().flatten().map_or(0, |word| word[lane]);
            if self.high { word >> 16 } else { word }
        };
        std::array::from_fn(word)
    }
}

/// The registers that part `n` of a vector store stores; `None` for stores of the scalar unit.
fn stored<'w>(step: &Step<'w>, n: usize, part: &Part) -> Option<Stored<'w>> {
    let inst = step.inst;
    let Access::Store(bytes, fill) = inst.op.access else { return None };
    let data = match inst.op.family {
        Family::Mubuf => inst.dst,
        Family::Global | Family::Flat => inst.src[1],
        _ => return None,
    };
    // Across the end of a buffer, each dword is a part.
    let first = if part.bytes < bytes { n as u32 } else { 0 };
    let count = u32::from(part.bytes.div_ceil(4));
    let words = std::array::from_fn(|n| ((n as u32) < count).then(|| step.wave.vector(data, first + n as u32)));
    Some(Stored { words, high: fill == Fill::D16High })
}
