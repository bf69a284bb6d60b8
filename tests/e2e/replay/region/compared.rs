//! What a replay of a region leaves is compared with what the application got.

use std::fs;
use std::path::Path;

use logdur_capture::{AllocationKind, Evidence};

use super::{A, AGAIN, B, C, Does, Story, bytes, incremented, objects, step, text};
use crate::replay::verify::ended;
use crate::support::captures::CODE;
use crate::support::harness::{Run, built};

#[test]
fn dispatches_copies_and_what_the_host_writes_between_them_are_replayed_in_their_order() {
    for options in [&["--backend", "emu"][..], &[]] {
        let outcome = Story::new().tool("verify", &[options, &["--json"]].concat());
        assert!(outcome.status.success(), "{}", text(&outcome));
        let parts = objects(&outcome);
        let of = |name: &str| parts.iter().map(|part| part[name].clone()).collect::<Vec<_>>();
        assert_eq!(of("result"), ["PASS", "PASS"], "{}", text(&outcome));
        assert_eq!((of("first_step"), of("last_step")), (vec![1.into(), 5.into()], vec![4.into(), 7.into()]));
        assert_eq!(parts[1]["dispatches"], serde_json::json!({ "increment": 1, "tally": 1 }));
        let buffer = parts[0]["buffers"].as_array().unwrap().iter().find(|b| b["start"] == B).unwrap();
        assert_eq!((&buffer["verdict"], &buffer["mismatches"]), (&"MATCH".into(), &0.into()), "{}", text(&outcome));
    }
}

#[test]
fn without_checkpoints_all_steps_are_one_part() {
    let mut story = Story::new();
    story.checkpoints.clear();
    let outcome = story.verify(&[]);
    ended(&outcome, "PASS", 0);
    assert!(outcome.stdout.contains("region 1, steps 1 to 7 on"), "{}", text(&outcome));
    assert!(outcome.stdout.contains("dispatches: 3 of increment, 1 of tally"), "{}", text(&outcome));
}

#[test]
fn a_write_or_a_copy_that_is_lost_or_a_flipped_byte_fails_and_names_the_element() {
    let fails = |change: fn(&mut Story), said: &str| {
        let mut story = Story::new();
        story.checkpoints.clear();
        change(&mut story);
        let outcome = story.verify(&["--tol", "arg0=u32"]);
        ended(&outcome, "FAIL", 6);
        assert!(outcome.stdout.contains(said), "{said}: {}", text(&outcome));
    };
    fails(|story| story.steps[3].delta.clear(), "[100] at");
    fails(|story| story.steps[3].delta[0].1[1] ^= 1, "[101] at");
    fails(|story| story.steps[0].delta[0].1[40] ^= 1, "[10] at");
    fails(|story| story.steps[4].delta[0].1[0] ^= 1, "expected 42, found 41");
    fails(|story| story.steps[2].does = Does::Barrier, "[1] at");
    fails(|story| story.steps[2].does = Does::Copy { to: B + 4, from: A + 4, bytes: 2048 }, "508 elements differ");
    fails(|story| story.steps[5].does = Does::Fill { to: B + 400, bytes: 15, value: 0x1234_5678 }, "[103] at");
    fails(|story| story.steps[6].does = Does::Kernel("increment", CODE, B), "elements");
    let loses_the_copy = |story: &mut Story| {
        let lost = story.steps.remove(2);
        story.steps[2].delta.extend(lost.delta);
    };
    fails(loses_the_copy, "elements differ");
    // With the memory that it reaches, what writes there later has nowhere to.
    let mut story = Story::new();
    story.checkpoints.clear();
    story.steps.remove(2);
    let outcome = story.verify(&[]);
    assert_eq!(outcome.status.code(), Some(2), "{}", text(&outcome));
    assert!(outcome.stderr.contains("step 5: it writes 16 bytes at"), "{}", text(&outcome));
}

#[test]
fn a_part_begins_with_its_checkpoint_whatever_was_before() {
    let mut story = Story::new();
    story.steps[0].delta[0].1[40] ^= 1;
    let parts = objects(&story.verify(&["--json"]));
    assert_eq!((&parts[0]["result"], &parts[1]["result"]), (&"FAIL".into(), &"PASS".into()), "{parts:#?}");
}

#[test]
fn what_the_host_writes_right_behind_a_checkpoint_is_there() {
    let mut story = Story::new();
    // The first step behind the checkpoint.
    story.steps[4].delta.push((A + 8000, vec![1, 2, 3]));
    let after = story.after.as_mut().unwrap();
    after[0].1[8000..8003].copy_from_slice(&[1, 2, 3]);
    ended(&story.verify(&[]), "PASS", 0);
    ended(&story.verify(&["--concurrent"]), "PASS", 0);
    story.steps[4].delta.pop();
    assert_eq!(story.verify(&[]).status.code(), Some(6), "the write is lost");
}

#[test]
fn a_step_that_writes_memory_before_the_capture_reached_it_does_not_pass() {
    let mut story = Story::new();
    story.checkpoints.clear();
    // Of two kernels on B, the capture knows of the second only that it reaches it: the memory is as the first has left it.
    let (a, b) = (vec![5; 3000], vec![7; 1024]);
    let once = incremented(&b);
    story.steps = vec![
        step(Does::Kernel("increment", CODE, A), vec![(A, bytes(&a))]),
        step(Does::Kernel("increment", CODE, B), Vec::new()),
        step(Does::Kernel("increment", CODE, B), vec![(B, bytes(&once))]),
    ];
    story.after = Some(vec![(A, bytes(&incremented(&a))), (B, bytes(&incremented(&once)))]);
    let outcome = story.verify(&[]);
    assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
}

#[test]
fn a_region_without_its_end_or_without_memory_to_compare_with_never_passes() {
    let mut story = Story::new();
    story.after = None;
    story.checkpoints.clear();
    let outcome = story.verify(&[]);
    ended(&outcome, "NO_REFERENCE", 9);
    story.end = None;
    let outcome = story.verify(&[]);
    ended(&outcome, "NO_REFERENCE", 9);
    assert!(outcome.stdout.contains("region 1 has no end: its process ended"), "{}", text(&outcome));
    let mut incomplete = Story::new();
    incomplete.end = Some(false);
    let outcome = incomplete.verify(&[]);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains("region 1 is not complete: the application ended"), "{}", text(&outcome));
    incomplete.steps[3].evidence = Evidence::Either;
    incomplete.end = Some(true);
    let outcome = incomplete.verify(&["--strict"]);
    ended(&outcome, "PASS (qualified)", 9);
    assert!(outcome.stdout.contains("may hold bytes that a GPU wrote"), "{}", text(&outcome));
}

#[test]
fn what_replays_differ_in_is_masked_up_to_a_limit_and_the_dispatch_is_named_where_that_begins() {
    let mut story = Story::new();
    story.checkpoints.clear();
    // The time of the application, which no replay has, goes from C to A.
    story.steps[4].does = Does::Kernel("tell_time", AGAIN, C);
    story.steps[5].does = Does::Copy { to: A + 2000, from: C, bytes: 4 };
    let after = story.after.as_mut().unwrap();
    after[2].1[..4].copy_from_slice(&77u32.to_le_bytes());
    after[0].1[2000..2004].copy_from_slice(&77u32.to_le_bytes());
    // That is behind what `increment` changes. B is not filled.
    after[1].1[400..416].copy_from_slice(&Story::unfilled()[400..416]);
    let outcome = story.verify(&[]);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains("the mask begins at step 5, dispatch 15, tell_time"), "{}", text(&outcome));
    assert!(outcome.stdout.contains("8 of "), "{}", text(&outcome));
    ended(&story.verify(&["--mask-limit", "0%"]), "INCONCLUSIVE", 10);
    // What is not masked is compared all the same: it does not pass, and where replays differ elsewhere it may be chance.
    story.after.as_mut().unwrap()[0].1[4] ^= 1;
    let outcome = story.verify(&[]);
    ended(&outcome, "INCONCLUSIVE", 10);
    assert!(outcome.stdout.contains("agree in 1 elements with each other and not with"), "{}", text(&outcome));
}

#[test]
fn another_kernel_in_the_place_of_the_applications_is_judged_in_all_its_dispatches() {
    let story = Story::new();
    let run = Run::new(built("omniprobe"));
    let same = run.file("same.hsaco");
    // `v_add_u32_e32 vD, 1, vS` becomes `v_add_u32_e32 vD, 2, vS`, as in the stories of single dispatches.
    let adds_one = |w: u32| w >> 25 == 52 && w & 0x1ff == 129;
    let at = story.code.as_chunks::<4>().0.iter().position(|w| adds_one(u32::from_le_bytes(*w))).unwrap();
    let mut code = story.code.clone();
    // Text that is loaded and that nothing reads: another file with the same kernels.
    let text = b"clang version";
    let comment = code.windows(text.len()).position(|window| window == text).unwrap();
    code[comment] = b'C';
    fs::write(&same, &code).unwrap();
    let hsaco = |path: &Path| ["--hsaco", path.to_str().unwrap()].map(str::to_owned);
    let verified = |path: &Path| {
        let options = hsaco(path);
        story.verify(&options.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let outcome = verified(&same);
    ended(&outcome, "PASS", 0);
    assert!(outcome.stdout.contains("increment replaced by"), "{}", self::text(&outcome));
    code[4 * at] += 1;
    let other = run.file("other.hsaco");
    fs::write(&other, &code).unwrap();
    let outcome = verified(&other);
    assert_eq!(outcome.status.code(), Some(6), "{}", self::text(&outcome));
    assert!(outcome.stdout.contains("FAIL") && outcome.stdout.contains("elements differ"), "{}", self::text(&outcome));
}

#[test]
fn memory_that_is_freed_and_allocated_again_as_another_kind_is_replayed() {
    let mut story = Story::new();
    story.checkpoints.clear();
    // What the application wrote to the old B is gone; what it finds in the new one is of the host.
    let new = vec![3; 1024];
    story.steps.insert(6, step(Does::Renewed(B, 4096, AllocationKind::HostPool), Vec::new()));
    story.steps.insert(7, step(Does::Kernel("increment", CODE, B), vec![(B, bytes(&new))]));
    story.after.as_mut().unwrap()[1] = (B, bytes(&incremented(&new)));
    let outcome = story.verify(&[]);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains("memory of several kinds, one after the other"), "{}", text(&outcome));
    story.after.as_mut().unwrap()[1].1[0] ^= 1;
    ended(&story.verify(&[]), "FAIL", 6);
}

#[test]
fn memory_that_steps_write_and_the_memory_after_them_lacks_is_told() {
    for lacks in [0, 1, 2] {
        let mut story = Story::new();
        story.checkpoints.clear();
        let after = story.after.as_mut().unwrap();
        let (start, _) = after.remove(lacks);
        let outcome = story.verify(&[]);
        let last = outcome.stdout.lines().last().unwrap_or_default();
        assert_ne!(last, "PASS", "{start:#x}: {}", text(&outcome));
        assert!(outcome.stdout.contains(&format!("{start:#x}")), "{start:#x}: {}", text(&outcome));
    }
}

#[test]
fn memory_that_is_gone_at_the_end_qualifies_a_pass_by_name() {
    let mut story = Story::new();
    story.after.iter_mut().for_each(|after| after.retain(|(at, _)| *at != C));
    let outcome = story.verify(&[]);
    ended(&outcome, "PASS (qualified)", 0);
    let said = "1 buffers are not compared, as the capture does not have them at the end: ";
    assert!(outcome.stdout.contains(said), "{}", text(&outcome));
}

#[test]
fn code_that_was_loaded_where_other_code_had_been_is_replayed_elsewhere() {
    let mut story = Story::new();
    // Other bytes, which mean the same.
    story.again = ([&story.code[..], &[0]].concat(), CODE);
    for options in [&["--backend", "emu"][..], &[]] {
        let outcome = story.tool("verify", options);
        ended(&outcome, "PASS (qualified)", 0);
        assert!(outcome.stdout.contains(" at another address: "), "{}", text(&outcome));
    }
}
