//! What each lane of a captured dispatch accesses, byte by byte, as the emulated GPU executes it; and the same by messages.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex};

use amdgpu_emu::observer::{Group, Notes, Observe, Observer, SCRATCH_WINDOW, Step};
use amdgpu_isa::access::{Does, LaneAccess, Space};
use amdgpu_isa::op::{Family, Flow};
use logdur_capture::Reader;
use logdur_captured::CapturedDispatch;
use logdur_messages::{AddressSpace, Kind, Messages};
use logdur_replay::{Setup, Variant, observed};

/// A wave: its workgroup's coordinates, and its number there.
type Wave = ([u32; 3], usize);

/// A byte: in LDS or in memory, and its address.
type Byte = (bool, u64);

/// The bytes that a dispatch accesses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Accesses {
    /// How often each lane reads (1), writes (2) or does both at once (3) to a byte.
    lanes: BTreeMap<(Wave, usize, u8, Byte), u32>,
    /// What the scalar unit reads for a wave.
    scalar: BTreeSet<(Wave, Byte)>,
}

impl Accesses {
    fn add(&mut self, wave: Wave, lane: usize, does: u8, bytes: impl Iterator<Item = Byte>) {
        for byte in bytes {
            *self.lanes.entry((wave, lane, does, byte)).or_default() += 1;
        }
    }

    /// What messages say, of bytes in some arrays and in LDS.
    pub(crate) fn of_messages(bytes: &[u8], arrays: &[Range<u64>]) -> Accesses {
        let mut all = Accesses::default();
        for message in Messages::new(bytes) {
            let message = message.unwrap();
            let header = &message.header;
            let wave = (header.block.map(u32::from), usize::from(header.wave));
            if header.kind != Kind::Address {
                continue;
            }
            let access = header.access();
            let does = u8::from(access.reads) | u8::from(access.writes) << 1;
            for (lane, at) in message.lanes().zip(message.addresses()) {
                // LDS by flat addresses: the upper half is the aperture's.
                let lds = access.space == AddressSpace::Lds;
                let at = if lds { at & 0xffff_ffff } else { at };
                let bytes = (at..at + u64::from(access.bytes)).map(|at| (lds, at));
                all.add(wave, lane as usize, does, bytes.filter(|byte| wanted(*byte, arrays)));
            }
        }
        all
    }

    /// Fails unless messages say what was observed. Where the scalar unit reads for a wave, each lane sends its address.
    pub(crate) fn expect_sent(&self, sent: &Accesses, what: &str) {
        assert!(!self.lanes.is_empty(), "{what}: nothing was observed");
        let by_scalar =
            |(wave, _, does, byte): &(Wave, usize, u8, Byte)| *does == 1 && self.scalar.contains(&(*wave, *byte));
        for (access, count) in sent.lanes.iter().filter(|(access, _)| !by_scalar(access)) {
            assert_eq!(self.lanes.get(access), Some(count), "{what}: sent, observed: {access:x?}");
        }
        for (access, count) in self.lanes.iter().filter(|(access, _)| !by_scalar(access)) {
            assert_eq!(sent.lanes.get(access), Some(count), "{what}: observed, sent: {access:x?}");
        }
        let lanes: BTreeSet<(Wave, Byte)> =
            sent.lanes.keys().filter(|access| by_scalar(access)).map(|(wave, _, _, byte)| (*wave, *byte)).collect();
        assert_eq!(self.scalar, lanes, "{what}: reads of the scalar unit");
    }
}

/// True for LDS and for memory of an array.
fn wanted((lds, at): Byte, arrays: &[Range<u64>]) -> bool {
    lds || arrays.iter().any(|array| array.contains(&at))
}

/// Observes the accesses of LDS and some arrays.
#[derive(Debug)]
struct Watch {
    arrays: Vec<Range<u64>>,
    all: Arc<Mutex<Accesses>>,
}

impl Observe for Watch {
    fn observer(&self, _launch: &amdgpu_emu::launch::Launch) -> Box<dyn Observer> {
        Box::new(Watch { arrays: self.arrays.clone(), all: self.all.clone() })
    }

    fn ended(&self, _launch: &amdgpu_emu::launch::Launch, _observers: Vec<Box<dyn Observer>>) {}
}

impl Observer for Watch {
    fn begin(&mut self, group: &Group<'_>) -> Option<Notes> {
        Some(Box::new(group.at))
    }

    fn before(&mut self, notes: &mut Notes, step: &Step<'_>) {
        let wave = (*notes.downcast_ref::<[u32; 3]>().unwrap(), step.number);
        let Some(parts) = step.accesses() else { return };
        let mut all = self.all.lock().unwrap();
        for part in parts.iter() {
            let does = match part.does {
                Does::Read => 1,
                Does::Write => 2,
                Does::Atomic => 3,
            };
            for lane in part.active() {
                let bytes = bytes(part, lane).filter(|byte| wanted(*byte, &self.arrays));
                if step.inst.op.family == Family::Smem {
                    all.scalar.extend(bytes.map(|byte| (wave, byte)));
                } else {
                    all.add(wave, lane, does, bytes);
                }
            }
        }
    }

    fn after(&mut self, _notes: &mut Notes, _step: &Step<'_>, _flow: Flow) {}

    fn barrier(&mut self, _notes: &mut Notes) {}

    fn end(&mut self, _notes: Notes) {}
}

fn bytes(part: &LaneAccess, lane: usize) -> impl Iterator<Item = Byte> + use<> {
    let lds = part.space == Space::Lds;
    let pieces: Vec<_> = part.pieces(lane).collect();
    pieces.into_iter().flat_map(move |(at, length)| (at..at + u64::from(length)).map(move |at| (lds, at)))
}

/// The accesses of the dispatches of a capture, by the kernel's name.
pub(crate) fn of_capture(file: &Path, arrays: &[Range<u64>]) -> BTreeMap<String, Accesses> {
    assert!(arrays.iter().all(|array| array.end < SCRATCH_WINDOW || array.start > SCRATCH_WINDOW << 1));
    let reader = Reader::open(file).unwrap();
    let mut found = BTreeMap::new();
    for dispatch in reader.dispatches() {
        let captured = CapturedDispatch::of(&reader, dispatch).unwrap();
        let all = Arc::default();
        let watch = Watch { arrays: arrays.to_vec(), all: Arc::clone(&all) };
        let run = observed(&captured, &Setup::default(), &Variant::default(), Arc::new(watch)).unwrap();
        assert!(run.fault.is_none(), "{:?}", run.fault);
        let all = std::mem::take(&mut *all.lock().unwrap());
        found.insert(run.code.kernel.name.clone(), all);
    }
    found
}
