//! Records of a region in any order and with any numbers: they are taken together, or refused with a reason, and nothing may panic.
//!
//! Each four bytes change a region that is whole: which record, which of its fields, and two bytes of what it becomes. With an odd number of
//! bytes behind them, bytes of the file are changed too, and its checksums made right.

#![no_main]

use libfuzzer_sys::fuzz_target;
use logdur_capture::{
    Allocation, AllocationKind, Changed, Checkpoint, Completed, Compress, Dispatch, Evidence, Id, Kernel, Options,
    Packet, Reader, Region as Begin, RegionEnd, SnapshotId, Step, StepKind, Writer,
};
use logdur_captured::region::{CapturedPart, Part, Region};

#[path = "../../capture/file/tests/integration/exercise.rs"]
#[allow(dead_code, reason = "this target needs one function of it")]
mod exercise;

const KINDS: [StepKind; 7] = [
    StepKind::Dispatch,
    StepKind::Barrier,
    StepKind::Vendor,
    StepKind::Copy,
    StepKind::Fill,
    StepKind::Other(0),
    StepKind::Other(77),
];

fn steps() -> Vec<Step> {
    let dispatch = |sequence, queue| Step {
        region: 1,
        sequence,
        kind: StepKind::Dispatch,
        evidence: Evidence::Idle,
        queue,
        index: sequence,
        dispatch: Some(Dispatch { id: 10 + sequence, kernel: 1, queue, index: sequence, ..Dispatch::default() }),
        changed: vec![Changed { base: 0x1000, bytes: 0x100, id: Id::of(&[1]) }],
        has_changed: true,
        ..Step::default()
    };
    let bare = |sequence, kind| Step { kind, dispatch: None, ..dispatch(sequence, 2) };
    vec![
        Step { delta: Some(SnapshotId(1)), ..dispatch(1, 1) },
        Step { queue: 0, to: 0x1080, from: 0x1000, bytes: 0x40, ..bare(2, StepKind::Copy) },
        Step { packet: Packet([3; 64]), waited: vec![Completed { queue: 1, index: 2 }], ..bare(3, StepKind::Barrier) },
        dispatch(4, 2),
        Step { queue: 0, to: 0x1000, bytes: 0x10, value: 7, ..bare(5, StepKind::Fill) },
        Step { packet: Packet([0; 64]), delta: Some(SnapshotId(2)), ..bare(6, StepKind::Vendor) },
        Step { waited: vec![Completed { queue: 2, index: 5 }], ..dispatch(7, 1) },
    ]
}

/// What the two bytes stand for: small numbers, and those at the ends.
fn number(bytes: u16) -> u64 {
    match bytes >> 12 {
        15 => u64::MAX - u64::from(bytes & 0xff),
        14 => i64::MAX as u64 + u64::from(bytes & 0xff),
        _ => u64::from(bytes),
    }
}

fn change(steps: &mut Vec<Step>, which: u8, field: u8, to: u64) {
    let (at, count) = (usize::from(which) % steps.len(), steps.len());
    let step = &mut steps[at];
    match field % 16 {
        0 => step.sequence = to,
        1 => step.kind = KINDS[to as usize % KINDS.len()],
        2 => step.delta = (to > 0).then_some(SnapshotId(to)),
        3 => step.queue = to,
        4 => step.index = to,
        5 => step.to = to,
        6 => step.from = to,
        7 => step.bytes = to,
        8 => step.waited.push(Completed { queue: to % 4, index: to / 4 }),
        9 => step.dispatch = None,
        10 => step.dispatch.iter_mut().for_each(|dispatch| dispatch.kernel = to),
        11 => step.region = to,
        12 => steps.swap(at, to as usize % count),
        13 if count > 1 => drop(steps.remove(at)),
        14 => step.dispatch.iter_mut().for_each(|dispatch| dispatch.id = to),
        _ => step.packet.0[2] = to as u8,
    }
}

fuzz_target!(|data: &[u8]| {
    let (changes, rest) = data.as_chunks::<4>();
    let mut steps = steps();
    let mut end =
        RegionEnd { region: 1, steps: 7, after: Some(SnapshotId(2)), is_complete: true, ..RegionEnd::default() };
    let mut checkpoint = Checkpoint { region: 1, sequence: 4, snapshot: SnapshotId(2) };
    for &[which, field, a, b] in changes {
        let to = number(u16::from_le_bytes([a, b]));
        match which {
            255 => end.steps = to,
            254 => end.after = (to > 0).then_some(SnapshotId(to)),
            253 => checkpoint.sequence = to,
            252 => checkpoint.snapshot = SnapshotId(to),
            _ => change(&mut steps, which, field, to),
        }
    }
    let options = Options { compress: Compress::None, ..Options::default() };
    let mut writer = Writer::new(Vec::new(), &options).expect("memory");
    let kernel = Kernel { id: 1, symbol: "k".to_owned(), ..Kernel::default() };
    writer.kernel(&kernel).expect("memory");
    let kind = AllocationKind::DeviceCoarse;
    let allocation = Allocation { base: 0x1000, size: 0x100, kind, ..Allocation::default() };
    writer.allocation(&allocation).expect("memory");
    writer.region(&Begin { id: 1, has_dependencies: true, ..Begin::default() }).expect("memory");
    for _ in 0..2 {
        let mut snapshot = writer.snapshot(None);
        snapshot.bytes(0x1000, &[1; 0x100]).expect("memory");
        snapshot.finish().expect("memory");
    }
    steps.iter().for_each(|step| writer.step(step).expect("memory"));
    writer.checkpoint(&checkpoint).expect("memory");
    writer.region_end(&end).expect("memory");
    let mut bytes = writer.finish().expect("memory");
    if let [at, more @ ..] = rest
        && let Some(to) = more.first()
    {
        let at = usize::from(*at) * bytes.len() / 256;
        bytes[at] = *to;
        exercise::seal(&mut bytes);
    }
    let Ok(reader) = Reader::new(bytes) else { return };
    let Ok(region) = Region::of(&reader, None) else { return };
    // What is taken is in order.
    assert!(region.steps.iter().map(|step| step.sequence).eq(1..=region.count()));
    let parts = region.parts();
    assert_eq!((parts[0].first, parts[parts.len() - 1].last), (1, region.count()));
    assert!(parts.windows(2).all(|pair| pair[0].last + 1 == pair[1].first));
    let until = region.dispatches().filter_map(|(_, dispatch)| region.until(dispatch.id).ok());
    let all: Vec<Part> = parts.iter().copied().chain(until).chain([region.whole()]).collect();
    for part in all {
        let _ = CapturedPart::of(&region, part);
    }
});
