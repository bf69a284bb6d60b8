//! Tools that take a dispatch out of a region, name the first one that is wrong, show its steps, and measure it.

use std::fs;
use std::process::Command;

use logdur_capture::Reader;

use super::{A, B, Does, Story, WORDS, text};
use crate::replay::verify::{ended, json, on_file};
use crate::support::captures::places;
use crate::support::harness::{self, Run, built};

#[test]
fn a_dispatch_of_a_region_is_written_as_a_capture_of_its_own_which_passes() {
    let story = Story::new();
    let run = Run::new(built("omniprobe"));
    let one = run.file("one.ldcap");
    let to = one.to_str().unwrap();
    let outcome = story.tool("extract", &["--dispatch", "17", "-o", to, "--backend", "emu"]);
    assert!(outcome.status.success(), "{}", text(&outcome));
    let reader = Reader::open(&one).unwrap();
    let [dispatch] = reader.dispatches() else { panic!("{:?}", reader.dispatches()) };
    assert_eq!(dispatch.id, 17);
    let after = reader.snapshot(dispatch.after.unwrap()).unwrap();
    for (at, expected) in story.after.as_ref().unwrap() {
        let mut found = vec![0; expected.len()];
        after.read(*at, &mut found).unwrap();
        assert_eq!(&found, expected, "{at:#x}");
    }
    let verified = on_file(run, "verify", &one, &harness::arch(), &["--backend", "emu"]);
    ended(&verified, "PASS", 0);
    assert!(reader.notes().iter().any(|note| note.text.contains("a replay of region 1, steps 5 to 7")));
}

#[test]
fn a_single_dispatch_is_replayed_from_the_nearest_checkpoint() {
    let outcome = Story::new().verify(&["--dispatch", "15"]);
    ended(&outcome, "NO_REFERENCE", 9);
    assert!(outcome.stdout.contains("region 1, step 5 on"), "{}", text(&outcome));
    // Another kernel has that of the application to be compared with.
    let run = Run::new(built("omniprobe"));
    let other = run.file("other.hsaco");
    let mut code = Story::new().code;
    let said = b"clang version";
    let comment = code.windows(said.len()).position(|window| window == said).unwrap();
    code[comment] = b'C';
    fs::write(&other, code).unwrap();
    let outcome = Story::new().verify(&["--dispatch", "15", "--hsaco", other.to_str().unwrap()]);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains("reference: replay"), "{}", text(&outcome));
    let last = Story::new().verify(&["--dispatch", "17"]);
    ended(&last, "PASS", 0);
    let none = Story::new().verify(&["--dispatch", "16"]);
    assert_eq!(none.status.code(), Some(1), "{}", text(&none));
    assert!(none.stderr.contains("expected a dispatch of it, from 11 to 17, found 16"), "{}", text(&none));
}

#[test]
fn a_damaged_region_is_told_by_its_step_and_bench_and_info_show_it() {
    let mut story = Story::new();
    story.steps[2].does = Does::Copy { to: B + 4, from: A + 10000, bytes: 2048 };
    let outcome = story.verify(&[]);
    assert_eq!(outcome.status.code(), Some(2), "{}", text(&outcome));
    assert!(outcome.stderr.contains("step 3: it copies 2048 bytes at"), "{}", text(&outcome));
    let info = Story::new().tool("info", &[]);
    assert!(info.status.success(), "{}", text(&info));
    let copy = format!("copy of 2048 bytes from {A:#x} to {:#x}", B + 4);
    for said in [&copy, "checkpoint", "dispatch 15 tally", "7 steps, 4 dispatches, 1 checkpoints, complete"] {
        assert!(info.stdout.contains(said), "{said}: {}", text(&info));
    }
    // Of the file, where nothing else was captured.
    let keep = Run::new(built("omniprobe"));
    let file = Story::new().write(&keep.file("a.ldcap"));
    let info = on_file(Run::new(built("omniprobe")), "info", &file, "", &[]);
    let said = "\nno dispatch was captured alone\nregion 1: ";
    assert!(info.status.success() && info.stdout.contains(said), "{}", text(&info));
    let bench = Story::new().tool("bench", &["--backend", "emu", "--json", "--repetitions", "6"]);
    let said = json(&bench);
    assert_eq!((&said["result"], &said["steps"]), (&"PASS".into(), &7.into()), "{said:#}");
    let shares: f64 = said["kernels"].as_array().unwrap().iter().map(|kernel| kernel["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9 && said["kernels"][0]["launches"] == 3, "{said:#}");
    assert_eq!(said["gpu"]["runs"], 6, "{said:#}");
}

#[test]
fn the_first_dispatch_whose_output_differs_is_named_with_its_argument_and_the_commands_that_show_it_alone() {
    let mut story = Story::new();
    story.checkpoints.clear();
    let run = Run::new(built("omniprobe"));
    let other = run.file("other.hsaco");
    let adds_one = |w: u32| w >> 25 == 52 && w & 0x1ff == 129;
    let at = story.code.as_chunks::<4>().0.iter().position(|w| adds_one(u32::from_le_bytes(*w))).unwrap();
    let mut code = story.code.clone();
    code[4 * at] += 1;
    fs::write(&other, &code).unwrap();
    let named = format!("increment={}", other.display());
    let file = story.write(&run.file("a.ldcap"));
    let options = ["--region", "--backend", "emu", "--bisect", "--hsaco", &named, "--json"];
    let outcome = on_file(Run::new(built("omniprobe")), "verify", &file, &harness::arch(), &options);
    assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
    let first = &json(&outcome)["first"];
    let word = u32::from_le_bytes(story.steps[0].delta[0].1[..4].try_into().unwrap());
    let expected: [(&str, serde_json::Value); 4] =
        [("step", 1.into()), ("dispatch", 11.into()), ("argument", "arg0".into()), ("index", 0.into())];
    expected.iter().for_each(|(name, value)| assert_eq!(first[*name], *value, "{}", text(&outcome)));
    assert_eq!((word, &first["found"], &first["expected"]), (0, &"0x00000002".into(), &"0x00000001".into()));
    // A kernel that changes only what it reads of B: the first dispatch on A computes the same.
    let count = places(&code, "tally.kd").0;
    assert_ne!(count, 0);
    let tally = format!("tally={}", other.display());
    let same = story.verify(&["--bisect", "--hsaco", &tally]);
    assert!(same.status.success(), "{}", text(&same));
    assert!(same.stdout.contains("each of 4 dispatches leaves the memory"), "{}", text(&same));
    // The commands run, and show the same element.
    let commands = first["commands"].as_array().unwrap();
    let folder = run.file("alone");
    fs::create_dir(&folder).unwrap();
    let path = built("omniprobe").parent().unwrap().to_owned();
    let path =
        std::env::join_paths([path].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())));
    let path = path.unwrap();
    let mut said = Vec::new();
    for command in commands {
        let mut shell = Command::new("sh");
        shell.args(["-c", command.as_str().unwrap()]).env("PATH", &path).current_dir(&folder);
        let ended = shell.output().unwrap();
        said.push((ended.status.code(), String::from_utf8(ended.stdout).unwrap()));
    }
    assert_eq!((said[0].0, said[1].0), (Some(0), Some(6)), "{said:?}");
    assert!(said[1].1.contains("arg0[0] at") && said[1].1.contains("found 0x00000002"), "{}", said[1].1);
    let none = story.verify(&["--bisect"]);
    assert!(none.status.code() == Some(1) && none.stderr.contains("other kernels to compare with"), "{}", text(&none));
}

#[test]
fn the_first_dispatch_that_writes_what_is_not_a_number_is_named() {
    let mut story = Story::new();
    story.checkpoints.clear();
    // The largest bits of infinity: one more is not a number.
    story.steps[3].delta = vec![(A + 40, f32::INFINITY.to_le_bytes().to_vec())];
    let outcome = story.verify(&["--bisect", "nan", "--tol", "arg0=f32", "--json"]);
    assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
    let first = &json(&outcome)["first"];
    assert_eq!(
        (&first["step"], &first["index"], &first["expected"]),
        (&7.into(), &10.into(), &"inf".into()),
        "{first}"
    );
    // One that the host writes is no kernel's.
    story.steps[3].delta = vec![(A + 8000, f32::NAN.to_le_bytes().to_vec())];
    let outcome = story.verify(&["--bisect", "nan", "--tol", "arg0=f32"]);
    let word = |at: usize| f32::from_le_bytes(story.steps[0].delta[0].1[4 * at..][..4].try_into().unwrap());
    let already = (0..WORDS).any(|at| !word(at).is_nan() && f32::from_bits(word(at).to_bits() + 1).is_nan());
    assert_eq!(outcome.status.success(), !already, "{}", text(&outcome));
    let none = story.verify(&["--bisect", "nan"]);
    assert!(none.stderr.contains("expected a buffer of floats"), "{}", text(&none));
}

#[test]
fn a_dispatch_of_a_region_is_analysed_and_compared_without_a_capture_of_its_own() {
    let run = Run::new(built("omniprobe"));
    let file = Story::new().write(&run.file("a.ldcap"));
    let path = file.to_str().unwrap();
    let tool = |name: &str, options: &[&str]| {
        let mut command = Command::new(built("omniprobe"));
        command.arg(name).args(options);
        Run::new(built("omniprobe")).finish(command)
    };
    let analysed = tool("analyze", &[path, "--region", "--dispatch", "17", "--json", "--what", "all"]);
    assert!(analysed.status.success(), "{}", text(&analysed));
    assert_eq!(json(&analysed)["dispatch"], 17, "{}", text(&analysed));
    // The first and the last increment work on the same words, after each other.
    let differ = tool("diff", &[path, path, "--region", "--dispatch", "11", "--dispatch-b", "17"]);
    assert_eq!(differ.status.code(), Some(6), "{}", text(&differ));
    let same = tool("diff", &[path, path, "--region", "--dispatch", "11", "--dispatch-b", "11"]);
    assert!(same.status.success(), "{}", text(&same));
    for (name, more) in [("analyze", vec![]), ("diff", vec![path])] {
        let none = tool(name, &[&[path], &more[..], &["--region"]].concat());
        assert!(none.status.code() == Some(1) && none.stderr.contains("by --dispatch N"), "{}", text(&none));
        let unknown = tool(name, &[&[path], &more[..], &["--region", "--dispatch", "16"]].concat());
        assert!(!unknown.status.success() && unknown.stderr.contains("found 16"), "{}", text(&unknown));
    }
}
