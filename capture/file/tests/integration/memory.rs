//! Memory is read as it was, whatever was captured in whatever order.

use std::collections::BTreeMap;

use logdur_capture::{CaptureError, Change, Compress, Difference, Options, PAGE, Reader, SnapshotId, Writer};
use proptest::prelude::*;

use crate::harness::{self, Numbers};

/// What can happen between two snapshots.
#[derive(Clone, Debug)]
enum Event {
    /// At which 4 KiB page, how far into it, how much.
    Allocate(u8, u16, u32),
    Free(u8),
    /// Somewhere in an allocation: noise, a pattern, zeros, or what another allocation has.
    Write(u8, u32, u32, u8),
    /// Goes on from the newest snapshot or not; how each range is given.
    Snapshot(bool, u8),
    /// Begins one that is not finished.
    Abandon,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => (0..40_u8, 0..5000_u16, 1..300_000_u32).prop_map(|(at, off, length)| Event::Allocate(at, off, length)),
        1 => any::<u8>().prop_map(Event::Free),
        6 => (any::<u8>(), any::<u32>(), 1..100_000_u32, 0..4_u8).prop_map(|(which, at, length, how)| Event::Write(which, at, length, how)),
        5 => (any::<bool>(), any::<u8>()).prop_map(|(on, how)| Event::Snapshot(on, how)),
        1 => Just(Event::Abandon),
    ];
    prop::collection::vec(event, 1..40)
}

type Memory = BTreeMap<u64, Vec<u8>>;

fn apply(event: &Event, memory: &mut Memory, numbers: &mut Numbers) {
    match *event {
        Event::Allocate(at, off, length) => {
            let base = 0x7f00_0000_0000 + u64::from(at) * 0x1_0000 + u64::from(off);
            let end = base + u64::from(length);
            let free = memory.iter().all(|(from, bytes)| *from >= end || from + bytes.len() as u64 <= base);
            if free {
                memory.insert(base, vec![0; length as usize]);
            }
        }
        Event::Free(which) => {
            if let Some(base) = memory.keys().nth(usize::from(which) % memory.len().max(1)).copied() {
                memory.remove(&base);
            }
        }
        Event::Write(which, at, length, how) => {
            let other = memory.values().next().cloned().unwrap_or_default();
            let which = usize::from(which) % memory.len().max(1);
            let Some(bytes) = memory.values_mut().nth(which) else { return };
            let at = at as usize % bytes.len();
            let end = bytes.len().min(at + length as usize);
            match how {
                0 => bytes[at..end].copy_from_slice(&numbers.bytes(end - at)),
                1 => bytes[at..end].fill_with(|| 0x5a),
                2 => bytes[at..end].fill(0),
                _ => bytes[at..end].iter_mut().zip(other).for_each(|(to, from)| *to = from),
            }
        }
        Event::Snapshot(..) | Event::Abandon => {}
    }
}

/// Captures memory, the ranges by one of three ways.
fn snapshot(
    writer: &mut Writer<Vec<u8>>,
    parent: Option<SnapshotId>,
    how: u8,
    memory: &Memory,
    before: Option<&Memory>,
) -> SnapshotId {
    let mut snapshot = writer.snapshot(parent);
    let mut ranges: Vec<_> = memory.iter().collect();
    // The order does not matter.
    let middle = usize::from(how) % ranges.len().max(1);
    ranges.rotate_left(middle);
    for (i, (&base, bytes)) in ranges.into_iter().enumerate() {
        match (usize::from(how) + i) % 4 {
            0 => {
                let mut read = |offset: u64, to: &mut [u8]| {
                    to.copy_from_slice(&bytes[offset as usize..][..to.len()]);
                    Ok(())
                };
                snapshot.range(base, bytes.len() as u64, &mut read).unwrap();
            }
            1 if before.is_some_and(|before| before.get(&base) == Some(bytes)) => {
                snapshot.unchanged(base, bytes.len() as u64).unwrap();
            }
            2 => {
                // In pieces of any size.
                let mut at = base;
                for piece in bytes.chunks(70_001) {
                    snapshot.bytes(at, piece).unwrap();
                    at += piece.len() as u64;
                }
            }
            _ => snapshot.bytes(base, bytes).unwrap(),
        }
    }
    snapshot.finish().unwrap()
}

/// Addresses that are different, from looking at every byte: from, to, in which way.
fn different(before: &Memory, after: &Memory) -> Vec<(u64, u64, Difference)> {
    let ends =
        |memory: &Memory| memory.iter().flat_map(|(at, bytes)| [*at, at + bytes.len() as u64]).collect::<Vec<_>>();
    let mut cuts = [ends(before), ends(after)].concat();
    cuts.sort_unstable();
    cuts.dedup();
    let mut all = Vec::new();
    for cut in cuts.windows(2) {
        let (from, to) = (cut[0], cut[1]);
        let of = |memory: &'_ Memory| -> Option<Vec<u8>> {
            let (base, bytes) = memory.range(..=from).next_back()?;
            let at = (from - base) as usize;
            Some(bytes.get(at..at + (to - from) as usize)?.to_vec())
        };
        match (of(before), of(after)) {
            (None, None) => {}
            (None, Some(_)) => all.push((from, to, Difference::Added)),
            (Some(_), None) => all.push((from, to, Difference::Removed)),
            (Some(old), Some(new)) => {
                for (at, _) in (from..).zip(old.iter().zip(&new)).filter(|(_, (old, new))| old != new) {
                    match all.last_mut() {
                        Some((_, end, Difference::Changed)) if *end == at => *end = at + 1,
                        _ => all.push((at, at + 1, Difference::Changed)),
                    }
                }
            }
        }
    }
    all
}

/// Every byte that is different has to be in a change, and every page of a change has to have one that is.
fn compare(changes: &[Change], expected: &[(u64, u64, Difference)]) {
    for &(from, to, what) in expected {
        let mut at = from;
        while at < to {
            let change = changes.iter().find(|c| c.what == what && c.address <= at && at < c.address + c.length);
            at = change.unwrap_or_else(|| panic!("{what:?} at {at:#x} is in no change")).address
                + change.unwrap().length;
        }
    }
    for change in changes {
        let mut at = change.address;
        let end = change.address + change.length;
        while at < end {
            let stop = (at / PAGE * PAGE + PAGE).min(end);
            let is = |e: &&(u64, u64, Difference)| e.2 == change.what && e.0 < stop && e.1 > at;
            let found: u64 = expected.iter().filter(is).map(|e| e.1.min(stop) - e.0.max(at)).sum();
            let all = change.what != Difference::Changed;
            assert!(if all { found == stop - at } else { found > 0 }, "{change:?}: nothing is different at {at:#x}");
            at = stop;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: harness::count(60, 5000) as u32, ..ProptestConfig::default() })]

    #[test]
    fn every_snapshot_is_read_as_memory_was(events in events(), seed in 1..u64::MAX, small in any::<bool>(), compress in 0..4_usize) {
        let compress = [Compress::None, Compress::Auto, Compress::Lz4, Compress::Zstd][compress];
        // Little memory forgets what is in the file, which makes it larger and nothing else.
        let options = Options { compress, memory: if small { 700 } else { 96 << 20 }, ..harness::options(1) };
        let mut writer = Writer::new(Vec::new(), &options).unwrap();
        let (mut memory, mut numbers, mut taken) = (Memory::new(), Numbers(seed), Vec::<(SnapshotId, Memory)>::new());
        let mut abandoned = false;
        for event in &events {
            match event {
                Event::Snapshot(goes_on, how) => {
                    let before = taken.last().filter(|_| *goes_on && !abandoned);
                    let id = snapshot(&mut writer, before.map(|b| b.0), *how, &memory, before.map(|b| &b.1));
                    abandoned = false;
                    taken.push((id, memory.clone()));
                }
                Event::Abandon => {
                    let mut snapshot = writer.snapshot(taken.last().map(|t| t.0));
                    for (&base, bytes) in &memory {
                        snapshot.bytes(base, bytes).unwrap();
                    }
                    abandoned = true;
                }
                other => apply(other, &mut memory, &mut numbers),
            }
        }
        let bytes = writer.finish().unwrap();
        let reader = Reader::new(bytes).unwrap();
        prop_assert_eq!(reader.check().findings, vec![]);
        for (id, expected) in taken.iter().rev() {
            let found = reader.snapshot(*id).unwrap();
            let sum: u64 = found.ranges().iter().map(|range| range.end - range.start).sum();
            prop_assert_eq!(sum, expected.values().map(|b| b.len() as u64).sum::<u64>());
            for (&base, bytes) in expected {
                let mut read = vec![1; bytes.len()];
                found.read(base, &mut read).unwrap();
                prop_assert!(&read == bytes, "snapshot {:?} at {:#x}", id, base);
                let middle = bytes.len() / 3;
                found.read(base + middle as u64, &mut read[middle..]).unwrap();
                prop_assert!(&read == bytes);
            }
        }
        for pair in taken.windows(2) {
            let [before, after] = pair else { unreachable!() };
            let changes = reader.snapshot(after.0).unwrap().changed_since(&reader.snapshot(before.0).unwrap()).unwrap();
            compare(&changes, &different(&before.1, &after.1));
        }
    }
}

#[test]
fn memory_that_cannot_be_read_makes_the_snapshot_incomplete_and_the_rest_is_captured() {
    let mut writer = Writer::new(Vec::new(), &harness::options(1)).unwrap();
    let mut snapshot = writer.snapshot(None);
    let failed = snapshot.range(0x10_0000, 3 << 20, &mut |offset, to| {
        to.fill(9);
        if offset < 1 << 20 { Ok(()) } else { Err(std::io::Error::other("the GPU is gone")) }
    });
    assert!(matches!(failed, Err(CaptureError::Memory { address: 0x20_0000, .. })), "{failed:?}");
    snapshot.bytes(0x90_0000, b"still here").unwrap();
    let id = snapshot.finish().unwrap();
    let reader = Reader::new(writer.finish().unwrap()).unwrap();
    let memory = reader.snapshot(id).unwrap();
    assert!(!memory.is_complete());
    assert_eq!(memory.ranges(), [0x10_0000..0x20_0000, 0x90_0000..0x90_000a]);
    let missing = memory.read(0x1f_fffc, &mut [0; 8]).unwrap_err();
    assert!(matches!(missing, CaptureError::NotCaptured { address: 0x20_0000, length: 4, .. }), "{missing:?}");
}

#[test]
fn what_is_said_twice_or_is_not_in_the_parent_is_refused_and_the_snapshot_goes_on() {
    let mut writer = Writer::new(Vec::new(), &harness::options(1)).unwrap();
    let mut snapshot = writer.snapshot(None);
    snapshot.bytes(100, &[1; 50]).unwrap();
    assert!(matches!(snapshot.bytes(149, &[2; 2]), Err(CaptureError::Range { .. })));
    assert!(matches!(snapshot.unchanged(500, 5), Err(CaptureError::Range { .. })));
    assert!(matches!(snapshot.bytes(u64::MAX, &[1; 2]), Err(CaptureError::Range { .. })));
    let first = snapshot.finish().unwrap();
    let mut snapshot = writer.snapshot(Some(first));
    assert!(matches!(snapshot.unchanged(90, 20), Err(CaptureError::Range { .. })));
    snapshot.unchanged(110, 20).unwrap();
    let second = snapshot.finish().unwrap();
    let reader = Reader::new(writer.finish().unwrap()).unwrap();
    assert_eq!(reader.snapshot(second).unwrap().ranges(), vec![110..130]);
    let changes = reader.snapshot(second).unwrap().changed_since(&reader.snapshot(first).unwrap()).unwrap();
    let removed = |address, length| Change { address, length, what: Difference::Removed };
    assert_eq!(changes, [removed(100, 10), removed(130, 20)]);
    assert_eq!(reader.check().findings, []);
}

#[test]
fn records_are_read_as_they_were_written() {
    let mut writer = Writer::new(Vec::new(), &harness::options(1)).unwrap();
    let code = Numbers(5).bytes(200_000);
    let id = harness::introduce(&mut writer, &code);
    assert_eq!(harness::introduce(&mut writer, &code), id);
    let (a, b) = (harness::allocation(0x1000, 10), harness::allocation(0x1000, 20));
    writer.allocation(&a).unwrap();
    let first = writer.snapshot(None).finish().unwrap();
    let second = writer.snapshot(Some(first)).finish().unwrap();
    let before = harness::dispatch(1, id, first, second);
    writer.dispatch(&before).unwrap();
    writer.freed(0x1000).unwrap();
    writer.allocation(&b).unwrap();
    writer.dispatch(&harness::dispatch(2, id, second, second)).unwrap();
    let reader = Reader::new(writer.finish().unwrap()).unwrap();
    let records = reader.records();
    assert_eq!((records.code_objects.len(), records.loaded.len()), (1, 2));
    assert_eq!(records.sessions[0].arguments, ["app", "", "-n", "3"]);
    assert_eq!(records.sessions[0].rank, Some(0));
    assert_eq!(records.sessions[0].environment[1].value, "");
    assert!(records.agents[0].emulated);
    assert_eq!(reader.code_object(id).unwrap(), code);
    let [one, two] = reader.dispatches() else { panic!("{:?}", reader.dispatches()) };
    assert_eq!(one.value, before);
    let sizes = |place| reader.allocations_at(place).iter().map(|a| a.size).collect::<Vec<_>>();
    assert_eq!((sizes(one.place), sizes(two.place)), (vec![10], vec![20]));
    assert!(matches!(reader.snapshot(SnapshotId(9)), Err(CaptureError::NoSnapshot(_))));
    assert!(matches!(reader.code_object(logdur_capture::Id::of(b"other")), Err(CaptureError::NoCodeObject(_))));
    assert_eq!(reader.check().findings, []);
}
