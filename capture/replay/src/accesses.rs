//! Which memory a launch stores, and which of that it had not read before: as the emulated GPU sees it.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use amdgpu_emu::isa::access::{Does, Space};
use amdgpu_emu::isa::atomic::AtomicOp;
use amdgpu_emu::isa::op::{Access, Flow};
use amdgpu_emu::launch::Launch;
use amdgpu_emu::observer::{Group, Notes, Observe, Observer, SCRATCH_WINDOW, Step};
use logdur_captured::regions::PAGE;
use logdur_system::lock;

use crate::placed::Placed;

/// Bytes that a word of bits stands for.
const BITS: u64 = 64;
/// Words of bits of a page.
const WORDS: usize = (PAGE / BITS) as usize;
/// Dwords of a page.
const DWORDS: usize = (PAGE / 4) as usize;

/// A bit for each byte of a page.
type Bits = [u64; WORDS];

/// The accesses of a launch, by page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses(BTreeMap<u64, Page>);

/// Those to a page.
#[derive(Clone, Debug)]
struct Page {
    stored: Bits,
    /// The address of the instruction that stored each dword last; none where that was not recorded.
    instructions: Vec<u64>,
    /// Read and not stored before, or stored by another workgroup: in another order of these, the read may come first.
    read: Bits,
}

fn has(bits: &Bits, at: u64) -> bool {
    bits.get((at % PAGE / BITS) as usize).is_some_and(|word| word >> (at % BITS) & 1 == 1)
}

impl Accesses {
    /// For each byte from an address on, whether it was stored.
    pub(crate) fn stored(&self, range: Range<Placed>) -> Vec<bool> {
        (range.start.0..range.end.0)
            .map(|at| self.0.get(&(at / PAGE * PAGE)).is_some_and(|page| has(&page.stored, at)))
            .collect()
    }

    /// The address of the instruction that stored to the dword at an address last, where that was recorded.
    pub(crate) fn instruction(&self, Placed(at): Placed) -> Option<Placed> {
        let page = self.0.get(&(at / PAGE * PAGE))?;
        page.instructions.get((at % PAGE / 4) as usize).copied().filter(|pc| *pc != 0).map(Placed)
    }

    /// The bytes of a range that were stored and not read before, in pieces by address.
    pub(crate) fn overwritten(&self, range: Range<Placed>) -> Vec<Range<Placed>> {
        let range = range.start.0..range.end.0;
        let mut all: Vec<Range<Placed>> = Vec::new();
        let mut add = |start: u64, end: u64| match all.last_mut() {
            Some(last) if last.end.0 == start => last.end = Placed(end),
            _ => all.push(Placed(start)..Placed(end)),
        };
        for (page, Page { stored, read, .. }) in self.0.range(range.start / PAGE * PAGE..range.end) {
            for (word, (stored, read)) in (0..).zip(stored.iter().zip(read)) {
                let (mut bits, start) = (stored & !read, page + word * BITS);
                while bits != 0 {
                    let first = u64::from(bits.trailing_zeros());
                    let count = u64::from((bits >> first).trailing_ones());
                    let (from, to) = ((start + first).max(range.start), (start + first + count).min(range.end));
                    if from < to {
                        add(from, to);
                    }
                    bits &= !(ones(count) << first);
                }
            }
        }
        all
    }
}

/// So many bits, at most all.
fn ones(count: u64) -> u64 {
    u64::MAX >> (BITS - count.clamp(1, BITS))
}

/// A page while it is recorded.
#[derive(Debug)]
struct Recorded {
    stored: [AtomicU64; WORDS],
    read: [AtomicU64; WORDS],
    /// Of each dword, who stored it: a number of the workgroup from 1 on, or [`MANY`].
    owners: [AtomicU32; DWORDS],
    /// Of each dword, the address of the instruction that stored it last, where that is asked for.
    instructions: Vec<AtomicU64>,
}

/// Several workgroups.
const MANY: u32 = u32::MAX;

impl Recorded {
    fn new(instructions: bool) -> Recorded {
        let none = || std::array::from_fn(|_| AtomicU64::new(0));
        let dwords = if instructions { DWORDS } else { 0 };
        Recorded {
            stored: none(),
            read: none(),
            owners: std::array::from_fn(|_| AtomicU32::new(0)),
            instructions: std::iter::repeat_with(AtomicU64::default).take(dwords).collect(),
        }
    }

    /// Takes the access of a workgroup to some bytes of one word of bits, from the first to the last.
    fn take(&self, [first, last]: [u64; 2], by: By) {
        let By { reads, stores, group, pc } = by;
        let word = (first / BITS) as usize;
        let (Some(stored), Some(read)) = (self.stored.get(word), self.read.get(word)) else { return };
        let owners = self.owners.get(first as usize / 4..=last as usize / 4).unwrap_or_default();
        let mask = ones(last - first + 1) << (first % BITS);
        if reads {
            let is_own = owners.iter().all(|owner| [0, group].contains(&owner.load(Ordering::Relaxed)));
            let new = if is_own { mask & !stored.load(Ordering::Relaxed) } else { mask };
            if new & !read.load(Ordering::Relaxed) != 0 {
                read.fetch_or(new, Ordering::Relaxed);
            }
        }
        if stores {
            for owner in owners {
                let before = owner.compare_exchange(0, group, Ordering::Relaxed, Ordering::Relaxed);
                if before.is_err_and(|other| other != group && other != MANY) {
                    owner.store(MANY, Ordering::Relaxed);
                }
            }
            if mask & !stored.load(Ordering::Relaxed) != 0 {
                stored.fetch_or(mask, Ordering::Relaxed);
            }
            let dwords = self.instructions.get(first as usize / 4..=last as usize / 4).unwrap_or_default();
            dwords.iter().for_each(|dword| dword.store(pc, Ordering::Relaxed));
        }
    }
}

/// Who accesses, and how.
#[derive(Clone, Copy, Debug)]
struct By {
    reads: bool,
    stores: bool,
    group: u32,
    /// The address of the instruction.
    pc: u64,
}

/// Pages by their first address.
type Known = HashMap<u64, Arc<Recorded>>;

/// Records the accesses of launches while it is on.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    on: AtomicBool,
    /// Which instructions store is recorded, too.
    instructions: AtomicBool,
    pages: Arc<Mutex<Known>>,
}

impl Recorder {
    /// Begins to record; also which instructions store, if that is asked for.
    pub(crate) fn start(&self, instructions: bool) {
        self.instructions.store(instructions, Ordering::SeqCst);
        self.on.store(true, Ordering::SeqCst);
    }

    /// Ends recording; what was accessed since its begin.
    pub(crate) fn stop(&self) -> Accesses {
        self.on.store(false, Ordering::SeqCst);
        let pages = std::mem::take(&mut *lock(&self.pages));
        let bits = |bits: &[AtomicU64; WORDS]| bits.each_ref().map(|word| word.load(Ordering::Relaxed));
        let page = |page: &Recorded| Page {
            stored: bits(&page.stored),
            read: bits(&page.read),
            instructions: page.instructions.iter().map(|pc| pc.load(Ordering::Relaxed)).collect(),
        };
        Accesses(pages.into_iter().map(|(at, recorded)| (at, page(&recorded))).collect())
    }
}

impl Observe for Recorder {
    fn observer(&self, _launch: &Launch) -> Box<dyn Observer> {
        let pages = self.on.load(Ordering::SeqCst).then(|| self.pages.clone());
        Box::new(Worker { pages, instructions: self.instructions.load(Ordering::SeqCst), known: HashMap::new() })
    }

    fn ended(&self, _launch: &Launch, _observers: Vec<Box<dyn Observer>>) {}
}

/// Records for one of the emulated GPU's threads.
struct Worker {
    /// None while nothing is recorded.
    pages: Option<Arc<Mutex<Known>>>,
    instructions: bool,
    /// Pages that were looked up before.
    known: Known,
}

impl Worker {
    fn take(&mut self, start: u64, bytes: u8, by: By) {
        let (Some(pages), instructions) = (&self.pages, self.instructions) else { return };
        let (mut at, end) = (start, start.saturating_add(bytes.into()));
        while at < end && at < SCRATCH_WINDOW {
            let page = self.known.entry(at / PAGE * PAGE).or_insert_with_key(|page| {
                let mut pages = lock(pages);
                pages.entry(*page).or_insert_with(|| Arc::new(Recorded::new(instructions))).clone()
            });
            let count = (end - at).min(BITS - at % BITS);
            page.take([at % PAGE, at % PAGE + count - 1], by);
            at += count;
        }
    }
}

impl Observer for Worker {
    fn begin(&mut self, group: &Group<'_>) -> Option<Notes> {
        // A number that wraps is shared by workgroups that are far apart.
        let number = (group.number % u64::from(MANY - 1)) as u32 + 1;
        self.pages.is_some().then(|| Box::new(number) as Notes)
    }

    fn before(&mut self, notes: &mut Notes, step: &Step<'_>) {
        let Some(parts) = step.accesses() else { return };
        let group = notes.downcast_ref().copied().unwrap_or(MANY);
        // It may store nothing.
        let is_conditional = matches!(step.inst.op.access, Access::Atomic(AtomicOp::CmpSwap, ..));
        for part in parts.iter().filter(|part| part.space == Space::Memory) {
            let (reads, stores) = (part.does != Does::Write, part.does != Does::Read && !is_conditional);
            let by = By { reads, stores, group, pc: step.pc };
            for lane in part.active() {
                for (at, bytes) in part.pieces(lane) {
                    self.take(at, bytes, by);
                }
            }
        }
    }

    fn after(&mut self, _notes: &mut Notes, _step: &Step<'_>, _flow: Flow) {}

    fn barrier(&mut self, _notes: &mut Notes) {}

    fn end(&mut self, _notes: Notes) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(range: Range<u64>) -> Range<Placed> {
        Placed(range.start)..Placed(range.end)
    }

    fn by(reads: bool, stores: bool, group: u32) -> By {
        By { reads, stores, group, pc: 0x10 * u64::from(group) }
    }

    #[test]
    fn bytes_that_are_read_first_are_not_overwritten_and_every_stored_byte_is_known() {
        let recorder = Recorder::default();
        recorder.start(true);
        let mut worker = Worker { pages: Some(recorder.pages.clone()), instructions: true, known: HashMap::new() };
        let start = PAGE - 8;
        worker.take(start, 16, by(false, true, 1));
        worker.take(start + 4, 4, by(true, false, 1));
        worker.take(start - 4, 4, by(true, false, 1));
        worker.take(start - 4, 4, by(true, true, 1));
        let accesses = recorder.stop();
        let stored = start - 4..start + 16;
        let found = accesses.stored(placed(start - 5..start + 17));
        assert_eq!((start - 5..start + 17).map(|at| stored.contains(&at)).collect::<Vec<_>>(), found);
        let all = placed(start..start + 16);
        assert_eq!(accesses.overwritten(placed(0..2 * PAGE)), std::slice::from_ref(&all));
        for part in [start + 2..PAGE, start + 2..start + 3].map(placed) {
            assert_eq!(accesses.overwritten(part.clone()), std::slice::from_ref(&part));
        }
        let by = [start, start + 12, start + 16].map(|at| accesses.instruction(Placed(at)));
        assert_eq!(by, [Some(Placed(0x10)), Some(Placed(0x10)), None]);
        assert!(recorder.stop().overwritten(placed(0..2 * PAGE)).is_empty());
    }

    #[test]
    fn what_another_workgroup_reads_later_might_have_been_read_first() {
        let recorder = Recorder::default();
        let mut worker = Worker { pages: Some(recorder.pages.clone()), instructions: true, known: HashMap::new() };
        worker.take(0, 16, by(false, true, 1));
        worker.take(4, 4, by(true, false, 1));
        worker.take(8, 4, by(true, false, 2));
        worker.take(16, 4, by(false, true, 2));
        worker.take(16, 4, by(false, true, 3));
        worker.take(16, 2, by(true, false, 3));
        assert_eq!(recorder.stop().overwritten(placed(0..PAGE)), [0..8, 12..16, 18..20].map(placed));
    }
}
