//! Files of regions from which something was taken: they never pass as if nothing were missing.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use logdur_capture::{Freed, Placed, Reader, Step, StepKind};
use logdur_captured::CapturedError;
use logdur_captured::region::Region;

use super::region::{Bytes, Story, memory, text};
use super::region_of_a_program::{captured, tampered, verified};
use super::verify::on_file;
use crate::support::harness::{self, Run, built};

/// A capture of a random program, whose seed has each kind of record.
fn random() -> (Run, std::path::PathBuf) {
    let program = Run::hip("sequences").args(["4", "40"]);
    captured(program, "dispatches:3+", &["--capture-checkpoints", "25"])
}

/// Why a file is refused as a region; `None` if it is not. A check of the file finds the same, if digests tell it.
fn refused(file: &Path) -> Option<String> {
    let reader = Reader::open(file).unwrap();
    assert_eq!(reader.problems(), [], "the file itself is whole");
    let found: Vec<String> = reader.check().findings.iter().map(ToString::to_string).collect();
    match Region::of(&reader, None) {
        Err(error @ CapturedError::Region { .. }) => {
            let said = error.to_string();
            let (_, why) = said.split_once("region 1: ").unwrap();
            if why.contains("its digest is not") {
                assert!(matches!(&found[..], [one] if one.contains(&format!("region 1: {why}"))), "{why}: {found:?}");
            } else {
                assert!(!found.is_empty(), "{why}");
            }
            Some(said)
        }
        Err(other) => panic!("{other}"),
        Ok(_) => {
            assert_eq!(found, Vec::<String>::new());
            None
        }
    }
}

/// Takes out of a file each record, each packet that a step waited for, and ranges of each delta, one at a time: each is told at the step
/// where it was. The kinds of what was taken out.
fn taken_out(file: &Path, to: &Path) -> BTreeSet<String> {
    let reader = Reader::open(file).unwrap();
    let records = reader.records();
    let mut kinds = BTreeSet::new();
    let nothing = |_: &mut Step, _: &mut Bytes| ();
    assert_eq!(refused(&tampered(&reader, to, None, false, nothing)), None, "nothing was taken out");
    let whole = verified(to, &["--backend", "emu"]);
    assert!(whole.status.success(), "{}", text(&whole));
    // The step whose digest is the first with the record in it; that of the end, if it is none.
    let first = |place: u64| {
        let at = records.steps.iter().find(|step| step.place.sequence >= place);
        at.map_or("the end: its digest".to_owned(), |step| format!("step {}: its digest", step.sequence))
    };
    let end = records.region_ends[0].place.sequence;
    let told = |what: &str, said: Option<String>, expected: &str| {
        let said = said.unwrap_or_else(|| panic!("{what}: it is as if nothing were missing"));
        assert!(said.contains(expected), "{what}: {said}, not {expected}");
    };
    // Each frame of these kinds: what there is and ran, memory that is allocated and freed, checkpoints, what a reader has to be told.
    let mut frames: Vec<(&str, u64)> = Vec::new();
    frames.extend(records.allocations.iter().map(|one| ("allocation", one.place.sequence)));
    frames.extend(records.freed.iter().map(|one: &Placed<Freed>| ("free", one.place.sequence)));
    frames.extend(records.checkpoints.iter().map(|one| ("checkpoint", one.place.sequence)));
    frames.extend(records.notes.iter().map(|one| ("note", one.place.sequence)));
    frames.extend(records.agents.iter().map(|one| ("agent", one.place.sequence)));
    frames.extend(records.loaded.iter().map(|one| ("load", one.place.sequence)));
    frames.extend(records.queues.iter().map(|one| ("queue", one.place.sequence)));
    frames.extend(records.globals.iter().map(|one| ("variable", one.place.sequence)));
    frames.retain(|(_, place)| *place < end);
    for (kind, place) in frames {
        kinds.insert(kind.to_owned());
        told(kind, refused(&tampered(&reader, to, Some(place), false, nothing)), &first(place));
    }
    // Each step, with the numbers behind it moved up.
    for step in &records.steps {
        kinds.insert(format!("{:?}", step.kind));
        let said = refused(&tampered(&reader, to, Some(step.place.sequence), false, nothing));
        let is_last = step.sequence == records.steps.len() as u64;
        let expected =
            if is_last { "the end: its digest".to_owned() } else { format!("step {}: its digest", step.sequence) };
        told(&format!("step {} {:?}", step.sequence, step.kind), said, &expected);
    }
    // Ranges that are written before a step (of some hundred, four), each packet that a step waited for, and how far that was.
    for step in &records.steps {
        let sequence = step.sequence;
        let expected = format!("step {sequence}: its digest");
        let ranges = step.delta.map_or_else(Vec::new, |id| memory(&reader, id));
        for (at, _) in ranges.iter().step_by(harness::count(ranges.len().div_ceil(4).max(1), 1)) {
            let lost = tampered(&reader, to, None, false, |changed, delta| {
                delta.retain(|(start, _)| changed.sequence != sequence || start != at);
            });
            told("a write of the host", refused(&lost), &expected);
            kinds.insert("write".to_owned());
        }
        for number in 0..step.waited.len() {
            let lost = tampered(&reader, to, None, false, |changed, _| {
                if changed.sequence == sequence {
                    changed.waited.remove(number);
                }
            });
            told("a dependency", refused(&lost), &expected);
            let earlier = tampered(&reader, to, None, false, |changed, _| {
                if changed.sequence == sequence {
                    changed.waited[number].index -= 1;
                }
            });
            told("an earlier dependency", refused(&earlier), &expected);
            kinds.insert("dependency".to_owned());
        }
        let moved = tampered(&reader, to, None, false, |changed, _| {
            changed.region += u64::from(changed.sequence == sequence);
        });
        told("a step of another region", refused(&moved), "steps");
    }
    kinds
}

#[test]
fn each_record_that_is_taken_out_of_a_region_is_told_where_it_was_and_nothing_passes() {
    let (keep, file) = random();
    let to = keep.file("lacking.ldcap");
    let mut kinds = taken_out(&file, &to);
    kinds.extend(taken_out(&Story::new().write(&keep.file("story.ldcap")), &to));
    let all = "allocation free checkpoint agent load queue write dependency Dispatch Barrier Copy Fill";
    let missing: Vec<&str> = all.split(' ').filter(|kind| !kinds.contains(*kind)).collect();
    assert!(missing.is_empty(), "no {missing:?} in {kinds:?}");
    // The command says the same in both orders.
    let reader = Reader::open(&file).unwrap();
    let copy = reader.records().steps.iter().find(|step| step.kind == StepKind::Copy).unwrap();
    tampered(&reader, &to, Some(copy.place.sequence), false, |_, _| ());
    for options in [&["--backend", "emu"][..], &["--backend", "emu", "--concurrent"], &[]] {
        let outcome = verified(&to, options);
        assert_eq!(outcome.status.code(), Some(2), "{}", text(&outcome));
        assert!(outcome.stderr.contains("was taken out, added or changed"), "{}", text(&outcome));
    }
    let outcome = on_file(Run::new(built("omniprobe")), "fsck", &to, &harness::arch(), &[]);
    assert_eq!(outcome.status.code(), Some(2), "{}", text(&outcome));
    let said = format!("region 1: step {}: its digest is not that of the file's records", copy.sequence);
    assert!(outcome.stdout.contains(&said), "{}", text(&outcome));
}

#[test]
fn a_region_that_is_cut_off_at_any_frame_says_that_it_has_no_end() {
    let (keep, file) = random();
    let whole = fs::read(&file).unwrap();
    let to = keep.file("cut.ldcap");
    // Frames follow each other from byte 128 on: a head of 48 bytes, whose third word is the length of what follows.
    let (mut at, mut ends) = (128, Vec::new());
    while at + 48 <= whole.len() {
        ends.push(at);
        at += 48 + u64::from_le_bytes(whole[at + 16..at + 24].try_into().unwrap()).next_multiple_of(8) as usize;
    }
    let (mut with_steps, mut replayed) = (0, 0);
    for (number, end) in ends.iter().enumerate() {
        fs::write(&to, &whole[..*end]).unwrap();
        let reader = Reader::open(&to).unwrap();
        if reader.records().steps.iter().all(|step| step.kind != StepKind::Dispatch) {
            continue;
        }
        with_steps += 1;
        let region = Region::of(&reader, None).unwrap_or_else(|error| panic!("frame {number}: {error}"));
        let has_end = !reader.records().region_ends.is_empty();
        assert_eq!(region.qualified().iter().any(|why| why.contains("has no end")), !has_end, "frame {number}");
        // Replays take longer: of every tenth prefix.
        if with_steps % harness::count(10, 1) == 0 {
            replayed += 1;
            let outcome = verified(&to, &["--backend", "emu"]);
            assert!(matches!(outcome.status.code(), Some(9 | 10)), "frame {number}: {}", text(&outcome));
            assert!(outcome.stderr.contains("not finished"), "frame {number}: {}", text(&outcome));
            assert!(has_end || outcome.stdout.contains("has no end"), "frame {number}: {}", text(&outcome));
        }
    }
    assert!(with_steps > 100 && replayed > 5, "{with_steps}, {replayed}");
}
