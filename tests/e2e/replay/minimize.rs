//! `omniprobe minimize`: the fewest dispatches and bytes that still show a mismatch or a fault.

use std::fs;
use std::path::{Path, PathBuf};

use logdur_capture::Reader;

use super::region::{A, B, Does, Story, step, text};
use super::verify::on_file;
use crate::support::captures::CODE;
use crate::support::harness::{self, Outcome, Run, built};

fn tool(name: &str, file: &Path, options: &[&str]) -> Outcome {
    on_file(Run::new(built("omniprobe")), name, file, &harness::arch(), options)
}

/// A file with kernels of which one adds 2 instead of 1.
fn adds_two(run: &Run, story: &Story) -> PathBuf {
    let adds_one = |w: u32| w >> 25 == 52 && w & 0x1ff == 129;
    let at = story.code.as_chunks::<4>().0.iter().position(|w| adds_one(u32::from_le_bytes(*w))).unwrap();
    let mut code = story.code.clone();
    code[4 * at] += 1;
    let other = run.file("other.hsaco");
    fs::write(&other, &code).unwrap();
    other
}

fn dispatches(file: &Path) -> Vec<u64> {
    let reader = Reader::open(file).unwrap();
    assert!(reader.check().is_clean());
    reader.records().steps.iter().filter_map(|step| Some(step.dispatch.as_ref()?.id)).collect()
}

#[test]
fn a_region_with_a_wrong_kernel_is_made_as_small_as_one_dispatch_and_the_bytes_that_show_it() {
    let run = Run::new(built("omniprobe"));
    let mut story = Story::new();
    story.checkpoints.clear();
    // Twenty dispatches of another kernel around those of the wrong one.
    for _ in 0..10 {
        story.steps.insert(0, step(Does::Kernel("tally", CODE, super::region::C), Vec::new()));
    }
    story.steps[0].delta = std::mem::take(&mut story.steps[14].delta);
    story.after = None;
    let other = adds_two(&run, &story);
    let file = story.write(&run.file("a.ldcap"));
    let small = run.file("small.ldcap");
    let named = format!("increment={}", other.display());
    let options = ["--backend", "emu", "-o", small.to_str().unwrap(), "--", "--hsaco", &named];
    let outcome = tool("minimize", &file, &options);
    assert!(outcome.status.success(), "{}", text(&outcome));
    assert_eq!(dispatches(&small).len(), 1, "{}", text(&outcome));
    // It shows the same, and its memory is zeros where that does not matter.
    let verify = ["--region", "--backend", "emu", "--hsaco", &named];
    let shows = tool("verify", &small, &verify);
    assert_eq!(shows.status.code(), Some(6), "{}", text(&shows));
    let reader = Reader::open(&small).unwrap();
    let step = &reader.records().steps[0];
    let mut bytes = vec![0; 12000];
    reader.snapshot(step.delta.unwrap()).unwrap().read(A, &mut bytes).unwrap_or_default();
    assert!(bytes.iter().all(|byte| *byte == 0), "{}", text(&outcome));
    assert!(fs::metadata(&small).unwrap().len() < fs::metadata(&file).unwrap().len(), "{}", text(&outcome));
    assert!(outcome.stderr.contains("1 dispatches"), "{}", text(&outcome));
    // Nothing else is left beside it.
    let left = |name: &fs::DirEntry| name.file_name().to_string_lossy().starts_with("omniprobe-");
    assert!(!fs::read_dir(run.file("")).unwrap().map(Result::unwrap).any(|entry| left(&entry)));
}

#[test]
fn a_region_whose_kernel_faults_is_made_as_small_as_that_dispatch() {
    let run = Run::new(built("omniprobe"));
    let mut story = Story::new();
    story.checkpoints.clear();
    story.after = None;
    // Nothing is there.
    story.steps[6].does = Does::Kernel("increment", CODE, A - 0x40_0000);
    let file = story.write(&run.file("a.ldcap"));
    let small = run.file("small.ldcap");
    let outcome = tool("minimize", &file, &["--backend", "emu", "-o", small.to_str().unwrap()]);
    assert!(outcome.status.success(), "{}", text(&outcome));
    assert_eq!(dispatches(&small), [17], "{}", text(&outcome));
    let shows = tool("verify", &small, &["--region", "--backend", "emu"]);
    assert_eq!(shows.status.code(), Some(5), "{}", text(&shows));
    // The last workgroup is behind the end of B: what is in B does not matter.
    story.steps[6].does = Does::Kernel("increment", CODE, B + 4096 - 768);
    let file = story.write(&run.file("b.ldcap"));
    let outcome = tool("minimize", &file, &["--backend", "emu", "-o", small.to_str().unwrap()]);
    assert!(outcome.status.success(), "{}", text(&outcome));
    let reader = Reader::open(&small).unwrap();
    let [step] = reader.records().steps.as_slice() else { panic!("{}", text(&outcome)) };
    let mut bytes = vec![1; 4096];
    reader.snapshot(step.delta.unwrap()).unwrap().read(B, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0), "{}", text(&outcome));
    let shows = tool("verify", &small, &["--region", "--backend", "emu"]);
    let said = format!("{:#x}", B + 4096);
    assert!(shows.status.code() == Some(5) && shows.stderr.contains(&said), "{}", text(&shows));
}

#[test]
fn what_passes_is_not_made_smaller_and_what_takes_too_long_is_said() {
    let run = Run::new(built("omniprobe"));
    let story = Story::new();
    let file = story.write(&run.file("a.ldcap"));
    let small = run.file("small.ldcap");
    let outcome = tool("minimize", &file, &["--backend", "emu", "-o", small.to_str().unwrap()]);
    assert_eq!(outcome.status.code(), Some(11), "{}", text(&outcome));
    assert!(outcome.stderr.contains("expected a mismatch or a fault, found that all passes"), "{}", text(&outcome));
    assert!(!small.exists());
    // What the application's own kernels do not give is cut at checkpoints only.
    let mut story = Story::new();
    story.after.as_mut().unwrap()[0].1[4] ^= 1;
    let file = story.write(&run.file("b.ldcap"));
    let outcome = tool("minimize", &file, &["--backend", "emu", "-o", small.to_str().unwrap()]);
    assert!(outcome.status.success(), "{}", text(&outcome));
    assert!(outcome.stderr.contains("only whole parts between checkpoints"), "{}", text(&outcome));
    assert_eq!(dispatches(&small), [15, 17]);
    // Without any time, nothing smaller is known.
    let other = adds_two(&run, &story);
    let late = run.file("late.ldcap");
    let named = format!("increment={}", other.display());
    let options = ["--backend", "emu", "--time", "0", "-o", late.to_str().unwrap(), "--", "--hsaco", &named];
    let outcome = tool("minimize", &file, &options);
    assert!(outcome.stderr.contains("--time") || outcome.status.code() == Some(10), "{}", text(&outcome));
}
