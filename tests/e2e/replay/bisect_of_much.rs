//! `omniprobe verify --bisect` of regions with more than 1 GiB of memory: a difference there that a later dispatch overwrites.

use std::fs;
use std::path::{Path, PathBuf};

use super::bisect::adds_two;
use super::region::{A, Does, Story, step, text};
use super::verify::{json, on_file};
use crate::support::captures::CODE;
use crate::support::harness::{self, Outcome, Run, built};

/// Where the memory is, and its bytes: more than a bisection looks at after each dispatch, where the device does not tell what is written.
const MUCH: (u64, u64) = (0x7f40_0000_0000, (1 << 30) + (4 << 20));

fn bisect(file: &Path, options: &[&str]) -> Outcome {
    let words = ["--region", "--bisect", "--json"];
    on_file(Run::new(built("omniprobe")), "verify", file, &harness::arch(), &[&words, options].concat())
}

/// Increments words of much memory, which are 0 before it and after the next step, and then other words.
fn story(next: Does) -> Story {
    let mut story = Story::new();
    story.allocations.push(MUCH);
    story.steps = vec![
        step(Does::Kernel("increment", CODE, MUCH.0), vec![(MUCH.0, vec![0; MUCH.1 as usize])]),
        step(next, Vec::new()),
        step(Does::Kernel("increment", CODE, A), vec![(A, vec![0; 12000])]),
    ];
    story.checkpoints.clear();
    story.after = None;
    story
}

#[test]
fn a_dispatch_whose_error_in_much_memory_is_overwritten_later_is_named_or_none_is_and_what_was_not_seen_is_told() {
    let keep = Run::new(built("omniprobe"));
    let overwritten = story(Does::Fill { to: MUCH.0, bytes: 1024, value: 0 });
    let handed_on = story(Does::Kernel("hand_on", CODE, MUCH.0));
    let mut wrong = handed_on.clone();
    wrong.code = adds_two(wrong.code);
    let code = keep.file("wrong.hsaco");
    fs::write(&code, &wrong.code).unwrap();
    let code = format!("increment={}", code.display());
    let write = |name: &str, story: &Story| -> PathBuf { story.write(&keep.file(name)) };
    let (overwritten, handed_on, wrong) =
        (write("o.ldcap", &overwritten), write("h.ldcap", &handed_on), write("w.ldcap", &wrong));
    let other = handed_on.to_str().unwrap();
    let unseen = "only those are looked at after each dispatch that are others at the end";
    for (file, options) in
        [(&overwritten, ["--hsaco", &code]), (&handed_on, ["--hsaco", &code]), (&wrong, ["--against", other])]
    {
        // The emulated GPU tells what is written, and all of it is looked at.
        let outcome = bisect(file, &[&options[..], &["--backend", "emu"]].concat());
        assert_eq!(outcome.status.code(), Some(6), "{options:?}: {}", text(&outcome));
        let said = json(&outcome);
        assert_eq!((&said["first"]["dispatch"], &said["first"]["argument"]), (&11.into(), &"arg0".into()), "{said:#}");
        assert_eq!((&said["first"]["expected"], &said["first"]["found"]), (&"0x00000001".into(), &"0x00000002".into()));
        assert!(!said["qualified"].to_string().contains(unseen), "{said:#}");
    }
    // A runtime does not. What is handed on differs behind the second dispatch, which computes what it should.
    for (file, options, why) in [
        (&handed_on, ["--hsaco", &code], format!("but it has differed before that dispatch, at {:#x}", MUCH.0)),
        (&wrong, ["--against", other], "an earlier dispatch may have made the difference".to_owned()),
    ] {
        let outcome = bisect(file, &options);
        assert_eq!(outcome.status.code(), Some(10), "{options:?}: {}", text(&outcome));
        let said = json(&outcome);
        assert!(said["first"].is_null() && said["unproven"].as_str().unwrap().contains(&why), "{said:#}");
        assert!(said["qualified"].to_string().contains(unseen), "{said:#}");
    }
    // Nothing is left of the first dispatch's error. The third one's is proven, and that it is the first one is qualified.
    let outcome = bisect(&overwritten, &["--hsaco", &code]);
    assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
    let said = json(&outcome);
    assert_eq!((&said["first"]["dispatch"], &said["first"]["argument"]), (&13.into(), &"arg0".into()), "{said:#}");
    assert!(said["qualified"].to_string().contains(unseen), "{said:#}");
}
