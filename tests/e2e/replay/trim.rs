//! `omniprobe trim`: some dispatches of a capture as a capture of their own, which is replayed as others are.

use std::fs;
use std::path::{Path, PathBuf};

use logdur_capture::{Reader, StepKind};

use super::region::{A, B, C, Story, memory, text};
use super::region_of_a_program::{STRETCH, rewritten};
use super::verify::{ended, on_file};
use crate::support::harness::{self, Outcome, Run, built};

fn tool(name: &str, file: &Path, options: &[&str]) -> Outcome {
    on_file(Run::new(built("omniprobe")), name, file, &harness::arch(), options)
}

/// Verifies a region without a runtime.
fn verify(file: &Path, options: &[&str]) -> Outcome {
    tool("verify", file, &[&["--region", "--backend", "emu"], options].concat())
}

/// Trims a capture; the file.
fn trimmed(run: &Run, file: &Path, options: &[&str]) -> PathBuf {
    let small = run.file(&format!("small-{}.ldcap", fs::read_dir(run.file("")).map_or(0, Iterator::count)));
    let outcome = tool("trim", file, &[options, &["-o", small.to_str().unwrap()]].concat());
    assert!(outcome.status.success(), "{}", text(&outcome));
    assert!(outcome.stderr.contains("bytes of memory"), "{}", text(&outcome));
    small
}

/// The numbers of the dispatches of the region of a capture.
fn dispatches(file: &Path) -> Vec<u64> {
    let reader = Reader::open(file).unwrap();
    let report = reader.check();
    assert!(report.is_clean(), "{report:?}");
    reader.records().steps.iter().filter_map(|step| Some(step.dispatch.as_ref()?.id)).collect()
}

#[test]
fn kept_dispatches_of_a_region_begin_with_what_the_others_left_and_are_verified() {
    let run = Run::new(built("omniprobe"));
    for has_checkpoint in [true, false] {
        let mut story = Story::new();
        if !has_checkpoint {
            story.checkpoints.clear();
        }
        let file = story.write(&run.file("a.ldcap"));
        // What is between the two, and what is before them, is content.
        let small = trimmed(&run, &file, &["--backend", "emu", "--keep", "dispatches:14", "--keep", "dispatches:16+"]);
        assert_eq!(dispatches(&small), [14, 17]);
        let outcome = verify(&small, &[]);
        ended(&outcome, "PASS (qualified)", 0);
        assert!(outcome.stdout.contains("2 of increment"), "{}", text(&outcome));
        // The application's memory at the end is there, as far as the two reach it.
        let reader = Reader::open(&small).unwrap();
        let end = &reader.records().region_ends[0];
        let found = memory(&reader, end.after.unwrap());
        let after = story.after.as_ref().unwrap();
        let expected: Vec<_> = after.iter().filter(|(at, _)| [A, B].contains(at)).cloned().collect();
        assert_eq!(found, expected);
        assert!(end.is_complete);
        // It is a proof: with a byte of what the others left changed, it fails.
        let other = rewritten(&reader, &run.file("other.ldcap"), |step, delta| {
            let first = delta.iter_mut().find(|(at, _)| step.sequence == 1 && *at == B);
            first.into_iter().for_each(|(_, bytes)| bytes[17] ^= 1);
        });
        let outcome = verify(&other, &[]);
        assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
    }
}

#[test]
fn a_trimmed_region_has_only_the_memory_that_its_dispatches_reach() {
    let run = Run::new(built("omniprobe"));
    let mut story = Story::new();
    story.checkpoints.clear();
    let file = story.write(&run.file("a.ldcap"));
    let small = trimmed(&run, &file, &["--backend", "emu", "--keep", "kernel:^tally$"]);
    assert_eq!(dispatches(&small), [15]);
    let reader = Reader::open(&small).unwrap();
    let step = &reader.records().steps[0];
    assert_eq!((step.sequence, step.kind), (1, StepKind::Dispatch));
    let words = |words: [u32; 2]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(memory(&reader, step.delta.unwrap()), [(C, words([41, 5]))]);
    assert_eq!(memory(&reader, reader.records().region_ends[0].after.unwrap()), [(C, words([42, 5]))]);
    assert!(reader.notes().iter().any(|note| note.text.contains("is that of a replay of region 1, steps 1 to 5")));
    ended(&verify(&small, &[]), "PASS (qualified)", 0);
    // It can be trimmed again.
    let again = trimmed(&run, &small, &["--backend", "emu", "--keep", "dispatches:15"]);
    ended(&verify(&again, &[]), "PASS (qualified)", 0);
    // What the host writes into memory that is reached stays.
    let both = trimmed(&run, &file, &["--backend", "emu", "--keep", "dispatches:11-14"]);
    assert_eq!(dispatches(&both), [11, 14]);
    ended(&verify(&both, &[]), "PASS (qualified)", 0);
}

#[test]
fn a_rule_that_selects_nothing_or_that_a_capture_cannot_answer_is_refused_and_no_file_is_left() {
    let run = Run::new(built("omniprobe"));
    let file = Story::new().write(&run.file("a.ldcap"));
    let small = run.file("small.ldcap");
    let refused = |keep: &str, said: &str| {
        let options = ["--backend", "emu", "--keep", keep, "-o", small.to_str().unwrap()];
        let outcome = tool("trim", &file, &options);
        assert_eq!(outcome.status.code(), Some(1), "{}", text(&outcome));
        assert!(outcome.stderr.contains(said), "{said}: {}", text(&outcome));
        assert!(!small.exists());
    };
    refused("dispatches:12", "expected a rule that a dispatch meets, found none among 4 dispatches, from 11 to 17");
    refused("kernel:^other$", "expected a rule that a dispatch meets");
    refused("seconds:1-2", "of which a capture says nothing");
    refused("12..14", "expected dispatches:N-M, kernel:REGEX");
    // The capture itself is not written over.
    let itself = ["--backend", "emu", "--keep", "dispatches:11", "-o", file.to_str().unwrap()];
    let before = fs::read(&file).unwrap();
    let outcome = tool("trim", &file, &itself);
    assert!(!outcome.status.success(), "{}", text(&outcome));
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_stretch_of_a_program_is_trimmed_to_some_of_its_dispatches_which_pass() {
    let run = Run::hip("stretch");
    let keep = Run::new(built("omniprobe"));
    let file = keep.file("run.ldcap");
    let options = ["--capture", file.to_str().unwrap(), "--capture-region", STRETCH];
    run.probed(&[&options[..], &["-l", "/dev/null"]].concat()).passed();
    let all = dispatches(&file);
    for options in [&["--backend", "emu"][..], &[]] {
        for keeps in ["kernel:^step$@2-4", "kernel:^last$"] {
            let small = trimmed(&keep, &file, &[options, &["--keep", keeps]].concat());
            let left = dispatches(&small);
            assert!(!left.is_empty() && left.len() < all.len(), "{left:?} of {all:?}");
            let outcome = tool("verify", &small, &[&["--region"], options].concat());
            ended(&outcome, "PASS (qualified)", 0);
        }
    }
}

#[test]
fn single_dispatches_are_kept_with_their_memory() {
    let run = Run::hip("stretch");
    let keep = Run::new(built("omniprobe"));
    let file = keep.file("run.ldcap");
    let options = ["--capture", file.to_str().unwrap(), "--capture-dispatches", "1-9"];
    run.probed(&[&options[..], &["-l", "/dev/null"]].concat()).passed();
    let small = keep.file("small.ldcap");
    let outcome = tool("trim", &file, &["--keep", "kernel:^step$@2-3", "-o", small.to_str().unwrap()]);
    assert!(outcome.status.success(), "{}", text(&outcome));
    let (all, reader) = (Reader::open(&file).unwrap(), Reader::open(&small).unwrap());
    assert!(reader.check().is_clean());
    assert_eq!(reader.dispatches().len(), 2);
    for dispatch in reader.dispatches() {
        let same = all.dispatches().iter().find(|other| other.id == dispatch.id).unwrap();
        for (ours, theirs) in [(dispatch.before, same.before), (dispatch.after, same.after)] {
            assert_eq!(memory(&reader, ours.unwrap()), memory(&all, theirs.unwrap()));
        }
    }
    let outcome = tool("verify", &small, &["--backend", "emu"]);
    assert_eq!(outcome.stdout.matches("\nPASS").count(), 2, "{}", text(&outcome));
}
