//! Captures of regions: what is in them, for readers that know regions and for those that do not, whole, cut off and damaged.

use logdur_capture::{Compress, End, Evidence, Options, Reader, RegionEnd, SnapshotId, Step, StepKind, Writer};

use crate::exercise::seal;
use crate::harness::{self, DEVICE, HOST};

fn options() -> Options {
    Options { compress: Compress::None, ..harness::options(20) }
}

/// Offsets and types of all frames, going from head to head.
fn frames(bytes: &[u8]) -> Vec<(usize, u16)> {
    let mut all = Vec::new();
    let mut at = 128;
    while at + 48 <= bytes.len() && bytes[at..].starts_with(b"LDFR") {
        all.push((at, u16::from_le_bytes([bytes[at + 4], bytes[at + 5]])));
        at += 48 + u64::from_le_bytes(bytes[at + 16..at + 24].try_into().unwrap()).next_multiple_of(8) as usize;
    }
    all
}

#[test]
fn a_region_says_its_steps_in_order_and_a_delta_has_only_the_bytes_that_changed() {
    let reader = Reader::new(harness::region(&options())).unwrap();
    assert_eq!(reader.check().findings, []);
    let records = reader.records();
    assert_eq!((records.regions.len(), records.region_ends.len(), records.dispatches.len()), (1, 1, 0));
    let kinds: Vec<StepKind> = records.steps.iter().map(|step| step.kind).collect();
    let [dispatch, barrier, copy, fill, vendor] =
        [StepKind::Dispatch, StepKind::Barrier, StepKind::Copy, StepKind::Fill, StepKind::Vendor];
    assert_eq!(kinds, [dispatch, barrier, copy, fill, dispatch, vendor]);
    assert!(records.steps.iter().map(|step| step.sequence).eq(1..=6));
    assert!(records.steps.iter().all(|step| step.evidence == Evidence::Idle));
    let [first, .., second, _] = &records.steps[..] else { unreachable!("there are six") };
    assert_eq!(first.dispatch.as_ref().unwrap().id, 3);
    assert_eq!((first.waited[0].queue, first.waited[0].index), (2, 7));
    let delta = reader.snapshot(second.delta.unwrap()).unwrap();
    assert_eq!(delta.ranges(), std::slice::from_ref(&(HOST + 13..HOST + 16)));
    let mut bytes = [0; 3];
    delta.read(HOST + 13, &mut bytes).unwrap();
    assert_eq!(bytes, [9, 8, 7]);
    let whole = reader.snapshot(records.checkpoints[0].snapshot).unwrap();
    assert_eq!(whole.ranges(), [HOST..HOST + 5000, DEVICE..DEVICE + 70_000]);
    assert_eq!((records.checkpoints[0].sequence, records.region_ends[0].steps), (3, 6));
}

#[test]
fn each_record_of_a_region_commits_and_the_prefix_of_a_file_is_readable() {
    let whole = harness::region(&options());
    let frames = frames(&whole);
    let steps: Vec<usize> = frames.iter().filter(|frame| frame.1 == 30).map(|frame| frame.0).collect();
    assert_eq!(steps.len(), 6);
    for (before, at) in steps.iter().enumerate() {
        let reader = Reader::new(whole[..at + 20].to_vec()).unwrap();
        assert!(matches!(reader.end(), End::Unfinished { .. }));
        assert_eq!(reader.check().findings, [], "cut off in step {}", before + 1);
        assert_eq!((reader.records().steps.len(), reader.records().region_ends.len()), (before, 0));
        for step in &reader.records().steps {
            step.delta.inspect(|id| assert!(reader.snapshot(*id).is_ok()));
        }
    }
}

#[test]
fn a_reader_that_knows_no_regions_skips_them() {
    let whole = harness::region(&options());
    for (at, kind) in frames(&whole) {
        // Flags: optional.
        assert_eq!(whole[at + 6] & 1 != 0, (28..=32).contains(&kind) || matches!(kind, 4 | 5), "type {kind}");
    }
    // To such a reader the types say nothing: others that no version has say as much.
    let mut bytes = whole.clone();
    for (at, kind) in frames(&whole).into_iter().filter(|(_, kind)| (29..=32).contains(kind)) {
        bytes[at + 4..at + 6].copy_from_slice(&(kind + 900).to_le_bytes());
    }
    // Without the index, which names types.
    bytes.truncate(frames(&whole).last().unwrap().0);
    seal(&mut bytes);
    let reader = Reader::new(bytes).unwrap();
    assert_eq!((reader.problems().len(), reader.records().steps.len()), (0, 0));
    assert_eq!((reader.records().snapshots.len(), reader.dispatches().len()), (4, 0));
    assert_eq!(reader.check().findings, []);
}

#[test]
fn a_step_whose_memory_is_lost_is_not_repaired_and_what_is_left_is_whole() {
    let whole = harness::region(&options());
    let all = frames(&whole);
    // The third snapshot is the delta of the second dispatch.
    let extents: Vec<usize> = all.iter().filter(|frame| frame.1 == 3).map(|frame| frame.0).collect();
    let mut bytes = whole.clone();
    bytes[extents[2] + 60] ^= 1;
    let reader = Reader::new(bytes).unwrap();
    let found: Vec<String> = reader.check().findings.iter().map(ToString::to_string).collect();
    assert!(!found.is_empty(), "the damage is found");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("repaired.ldcap");
    let lost = reader.repair(&path).unwrap();
    assert!(lost.iter().any(|finding| finding.text.contains("step 5 of region 1")), "{lost:?}");
    // It says itself that a step is gone.
    let repaired = Reader::open(&path).unwrap();
    let found: Vec<String> = repaired.check().findings.iter().map(ToString::to_string).collect();
    let said = "region 1: step 6: its digest is not that of the file's records";
    assert!(matches!(&found[..], [one] if one.contains(said)), "{found:?}");
    let left: Vec<u64> = repaired.records().steps.iter().map(|step| step.sequence).collect();
    assert_eq!(left, [1, 2, 3, 4, 6]);
    assert_eq!(repaired.records().region_ends.len(), 1);
}

#[test]
fn a_record_of_a_region_that_refers_to_nothing_is_found() {
    let mut writer = Writer::new(Vec::new(), &options()).unwrap();
    let step = Step { region: 4, sequence: 9, delta: Some(SnapshotId(7)), ..Step::default() };
    writer.step(&step).unwrap();
    writer.region_end(&RegionEnd { region: 5, ..RegionEnd::default() }).unwrap();
    let reader = Reader::new(writer.finish().unwrap()).unwrap();
    let found: Vec<String> = reader.check().findings.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    for (found, what) in found.iter().zip([
        "step 9 of region 4: region 4 is not in the file",
        "step 9 of region 4: snapshot 7 is not in the file",
        "the end of region 5: region 5 is not in the file",
    ]) {
        assert!(found.contains(what), "{found}");
    }
}
