//! Regions whose steps run beside each other, as far as what they depended on allows.

use super::region::{A, B, C, Does, Story, StoryStep, bytes, step, text};
use super::verify::ended;
use crate::support::captures::CODE;

/// A step of a queue, which waits for steps of other queues by their numbers.
fn on(queue: u64, does: Does, waited: &[(u64, u64)]) -> StoryStep {
    let waited = waited.iter().map(|&(queue, step)| (queue, step + 1)).collect();
    StoryStep { queue, waited, ..step(does, Vec::new()) }
}

fn kernel(name: &'static str, address: u64) -> Does {
    Does::Kernel(name, CODE, address)
}

/// Three queues. On the first, a kernel increments what one on the second has written, behind another that waits for a word of the third.
fn story() -> Story {
    let mut story = Story::new();
    story.checkpoints.clear();
    let words: Vec<u32> = (0..3000).map(|n: u32| n.wrapping_mul(0x9e37_79b9)).collect();
    let (mut after_a, mut after_b) = (words.clone(), vec![0; 1024]);
    (0..256).for_each(|n| (after_a[n], after_b[n]) = (n as u32 + 1, n as u32));
    story.steps = vec![
        on(3, kernel("write_to", B), &[]),
        on(2, kernel("wait_for", B + 4), &[]),
        on(2, Does::Barrier, &[]),
        on(2, kernel("write_to", A), &[]),
        on(1, kernel("increment", A), &[(2, 4)]),
    ];
    story.steps[0].delta = vec![(A, bytes(&words)), (B, vec![0; 4096])];
    story.after = Some(vec![(A, bytes(&after_a)), (B, bytes(&after_b))]);
    story
}

/// Two kernels, each of which ends when the other one has begun.
fn meeting() -> Story {
    let mut story = Story::new();
    story.checkpoints.clear();
    story.steps = vec![on(1, kernel("meet", C), &[]), on(2, kernel("meet", C), &[])];
    story.steps[0].delta = vec![(C, bytes(&[0, 2]))];
    story.after = Some(vec![(C, bytes(&[2, 2]))]);
    story
}

#[test]
fn steps_run_beside_each_other_and_behind_what_they_depended_on() {
    let mut story = story();
    ended(&story.verify(&[]), "PASS", 0);
    for backend in [&["--backend", "emu"][..], &[]] {
        let outcome = story.tool("verify", &[backend, &["--concurrent"]].concat());
        ended(&outcome, "PASS", 0);
        assert!(outcome.stdout.contains("concurrent: 3 queues"), "{}", text(&outcome));
        assert!(outcome.stdout.contains("0 of 5 steps alone"), "{}", text(&outcome));
        let bench = story.tool("bench", &[backend, &["--concurrent", "--repetitions", "3"]].concat());
        assert!(bench.stdout.contains("PASS") && bench.stdout.contains("concurrent: 3 queues"), "{}", text(&bench));
    }
    // Without the dependency, the increment comes first, and is overwritten; how the two meet may differ.
    story.steps[4].waited.clear();
    ended(&story.verify(&[]), "PASS", 0);
    let outcome = story.verify(&["--concurrent"]);
    assert!(matches!(outcome.status.code(), Some(6 | 10)) && outcome.stdout.contains("arg0@14"), "{}", text(&outcome));
}

#[test]
fn what_the_host_changes_between_steps_is_written_when_all_before_are_complete_and_none_behind() {
    let mut story = story();
    // A byte of the host's between the two kernels of the first buffer: written before the first, it is lost.
    story.steps[4].delta = vec![(A, vec![0x77]), (A + 11_000, vec![1, 2])];
    let after = story.after.as_mut().unwrap();
    after[0].1[0] = 0x78;
    after[0].1[11_000..11_002].copy_from_slice(&[1, 2]);
    story.steps[4].waited.clear();
    for options in [&[][..], &["--concurrent"]] {
        ended(&story.verify(options), "PASS", 0);
    }
    let outcome = story.verify(&["--concurrent"]);
    assert!(outcome.stdout.contains("1 of 5 steps alone"), "{}", text(&outcome));
    story.steps[4].delta[0].1[0] ^= 1;
    assert_eq!(story.verify(&["--concurrent"]).status.code(), Some(6));
}

#[test]
fn kernels_that_need_each_other_end_beside_each_other_and_are_named_where_they_wait_in_vain() {
    let mut story = meeting();
    let outcome = story.verify(&["--concurrent"]);
    ended(&outcome, "PASS", 0);
    assert!(outcome.stdout.contains("2 queues, up to 2 dispatches at a time"), "{}", text(&outcome));
    story.steps[1].waited = vec![(1, 2)];
    for options in [&["--concurrent"][..], &[]] {
        let outcome = story.verify(options);
        let said = "step 1, dispatch 11, meet";
        assert!(!outcome.status.success() && outcome.stderr.contains(said), "{}", text(&outcome));
    }
}

#[test]
fn a_capture_that_does_not_say_what_steps_depended_on_is_refused() {
    let mut story = story();
    story.has_dependencies = false;
    ended(&story.verify(&[]), "PASS", 0);
    let outcome = story.verify(&["--concurrent"]);
    let said = "the capture does not say what its steps depended on";
    assert!(!outcome.status.success() && outcome.stderr.contains(said), "{}", text(&outcome));
    // What waits for a step that is not before it is damaged.
    story.has_dependencies = true;
    story.steps[0].waited = vec![(1, 6)];
    let outcome = story.verify(&["--concurrent"]);
    assert_eq!(outcome.status.code(), Some(2), "{}", text(&outcome));
    assert!(outcome.stderr.contains("step 1 has waited for step 5, which is not before it"), "{}", text(&outcome));
}

#[test]
fn what_needs_the_order_of_steps_refuses_to_run_them_beside_each_other_and_says_why() {
    let story = story();
    for (tool, options, said) in [
        ("verify", &["--concurrent", "--bisect", "nan"][..], "found --bisect"),
        ("extract", &["--concurrent", "--dispatch", "15", "-o", "one.ldcap"], "found extract"),
    ] {
        let outcome = story.tool(tool, options);
        assert_eq!(outcome.status.code(), Some(1), "{}", text(&outcome));
        let reason = "--concurrent: expected steps one after the other: ";
        assert!(outcome.stderr.contains(reason) && outcome.stderr.contains(said), "{}", text(&outcome));
        assert!(outcome.stdout.is_empty(), "nothing ran: {}", text(&outcome));
    }
}
