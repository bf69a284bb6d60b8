use logdur_capture::{Completed, Id, Kernel, Options, Region as Begin, Writer};

use super::*;

/// A file with a region, which a function changes before it is read.
struct File {
    steps: Vec<Step>,
    checkpoints: Vec<Checkpoint>,
    end: Option<RegionEnd>,
    has_dependencies: bool,
}

/// Three dispatches with a barrier and a copy between them, and a checkpoint behind the copy.
fn file() -> File {
    let step = |sequence, kind, dispatch: Option<u64>| Step {
        region: 1,
        sequence,
        kind,
        delta: (sequence == 1).then_some(SnapshotId(1)),
        evidence: Evidence::Idle,
        dispatch: dispatch.map(|id| Dispatch { id, kernel: 1, queue: 1, index: sequence, ..Dispatch::default() }),
        queue: 1,
        index: sequence,
        ..Step::default()
    };
    let copy = Step { to: 0x2000, from: 0x1000, bytes: 8, queue: 0, index: 0, ..step(3, StepKind::Copy, None) };
    let steps = vec![
        step(1, StepKind::Dispatch, Some(11)),
        step(2, StepKind::Barrier, None),
        copy,
        step(4, StepKind::Dispatch, Some(12)),
        step(5, StepKind::Dispatch, Some(13)),
    ];
    let checkpoints = vec![Checkpoint { region: 1, sequence: 3, snapshot: SnapshotId(2) }];
    let end = RegionEnd { region: 1, steps: 5, after: Some(SnapshotId(2)), is_complete: true, ..RegionEnd::default() };
    File { steps, checkpoints, end: Some(end), has_dependencies: false }
}

fn written(file: &File) -> Reader {
    let mut writer = Writer::new(Vec::new(), &Options::default()).unwrap();
    writer.kernel(&Kernel { id: 1, symbol: "k".to_owned(), ..Kernel::default() }).unwrap();
    writer.region(&Begin { id: 1, has_dependencies: file.has_dependencies, ..Begin::default() }).unwrap();
    for _ in 0..2 {
        let mut snapshot = writer.snapshot(None);
        snapshot.bytes(0x1000, &[1; 0x100]).unwrap();
        snapshot.finish().unwrap();
    }
    file.steps.iter().for_each(|step| writer.step(step).unwrap());
    file.checkpoints.iter().for_each(|checkpoint| writer.checkpoint(checkpoint).unwrap());
    file.end.iter().for_each(|end| writer.region_end(end).unwrap());
    Reader::new(writer.finish().unwrap()).unwrap()
}

#[test]
fn a_region_is_cut_at_checkpoints_and_a_dispatch_is_replayed_from_the_nearest() {
    let reader = written(&file());
    let region = Region::of(&reader, None).unwrap();
    let ids: Vec<(u64, u64)> = region.dispatches().map(|(step, dispatch)| (step, dispatch.id)).collect();
    assert_eq!((ids, region.qualified()), (vec![(1, 11), (4, 12), (5, 13)], Vec::new()));
    let (at, end) = (Some(SnapshotId(2)), Some(SnapshotId(2)));
    let first = Part { first: 1, last: 3, start: None, reference: at };
    assert_eq!(region.parts(), [first, Part { first: 4, last: 5, start: at, reference: end }]);
    assert_eq!(region.until(11).unwrap(), Part { first: 1, last: 1, start: None, reference: None });
    assert_eq!(region.until(12).unwrap(), Part { first: 4, last: 4, start: at, reference: None });
    assert_eq!(region.until(13).unwrap().reference, end);
    assert!(region.until(14).unwrap_err().to_string().contains("a dispatch of it, from 11 to 13, found 14"));
    assert_eq!(Region::of(&reader, Some(1)).unwrap().count(), 5);
    let error = Region::of(&reader, Some(2)).unwrap_err().to_string();
    assert!(error.contains("expected a region with the number 2, found 1"), "{error}");
}

#[test]
fn what_is_wrong_with_a_region_is_told_by_its_step() {
    let refused = |change: fn(&mut File), expected: &str| {
        let mut file = file();
        change(&mut file);
        let error = Region::of(&written(&file), None).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}, not {expected}");
        error
    };
    let lost = refused(|file| drop(file.steps.remove(2)), "expected step 3, found step 4: steps are lost");
    assert!(matches!(lost, CapturedError::Region { region: 1, .. }));
    refused(|file| file.steps.swap(3, 4), "expected step 4, found step 5");
    refused(|file| file.steps[4].sequence = 4, "expected step 5, found step 4");
    refused(|file| drop(file.steps.pop()), "expected 5 steps, found 4");
    refused(|file| file.steps[3].delta = Some(SnapshotId(7)), "step 4: snapshot 7 is not in the capture");
    refused(|file| file.steps[3].dispatch = None, "step 4: expected its dispatch, found none");
    let kernel = |file: &mut File| file.steps[0].dispatch.as_mut().unwrap().kernel = 9;
    refused(kernel, "step 1: kernel 9 is not in the capture");
    refused(|file| file.steps[2].to = u64::MAX, "step 3: 8 bytes at 0xffffffffffffffff have no end");
    let waits = |file: &mut File| file.steps[2].waited = vec![Completed { queue: 1, index: 5 }];
    refused(waits, "step 3 has waited for step 4, which is not before it");
    refused(|file| file.steps[3].index = 1, "step 4 is packet 1 of queue 1, and step 2 before it packet 2");
    refused(|file| file.steps[1].kind = StepKind::Other(77), "unsupported: region 1: step 2 is of kind 77");
    refused(|file| file.checkpoints[0].sequence = 6, "the checkpoint after step 6: expected a step from 1 to 5");
    refused(|file| file.checkpoints[0].snapshot = SnapshotId(9), "snapshot 9 is not in the capture");
    refused(|file| file.end.as_mut().unwrap().after = Some(SnapshotId(9)), "the end: snapshot 9 is not in");
    refused(|file| file.steps.retain(|step| step.kind != StepKind::Dispatch), "expected step 1, found step 2");
}

#[test]
fn a_region_whose_process_ended_is_what_there_is_of_it() {
    let mut file = file();
    file.end = None;
    file.steps.pop();
    let reader = written(&file);
    let region = Region::of(&reader, None).unwrap();
    let tail = region.parts()[1];
    assert_eq!((tail.first, tail.last, tail.reference), (4, 4, None));
    assert_eq!(region.qualified(), ["region 1 has no end: its process ended, or still runs"]);
}

#[test]
fn packets_that_are_no_steps_and_what_was_taken_out_are_told() {
    let mut lacking = file();
    lacking.steps[1].index = 3;
    lacking.steps[3].waited = vec![Completed { queue: 1, index: 4 }];
    // No step is packet 2 of the queue.
    let reader = written(&lacking);
    let told = Region::of(&reader, None).unwrap().qualified();
    assert_eq!(told.len(), 0, "{told:?}: this capture does not say what its steps depended on");
    lacking.has_dependencies = true;
    let reader = written(&lacking);
    let told = Region::of(&reader, None).unwrap().qualified();
    assert!(
        matches!(told.as_slice(), [said] if said.starts_with("1 packets of queue 1, the first of them 2, are no")),
        "{told:?}"
    );
    // One that was waited for and never came.
    let mut never = file();
    never.has_dependencies = true;
    never.steps[4].queue = 2;
    never.steps[4].dispatch.as_mut().unwrap().queue = 2;
    never.steps[4].waited = vec![Completed { queue: 1, index: 9 }];
    let reader = written(&never);
    let told = Region::of(&reader, None).unwrap().qualified();
    assert!(told.iter().any(|said| said.starts_with("5 packets of queue 1, the first of them 3, are no")), "{told:?}");
    // A digest that is of something else, of a step and of the end.
    let mut changed = file();
    changed.steps[2].digest = Id::of(b"something else");
    let error = Region::of(&written(&changed), None).unwrap_err().to_string();
    assert!(error.contains("step 3: its digest") && error.contains("since step 2, was"), "{error}");
    let mut changed = file();
    changed.end.as_mut().unwrap().digest = Id::of(b"something else");
    let error = Region::of(&written(&changed), None).unwrap_err().to_string();
    assert!(error.contains("the end: its digest") && error.contains("since the last step, was"), "{error}");
}
