//! Captured regions as HIP programs of their own.

use std::fs;
use std::path::{Path, PathBuf};

use logdur_capture::{Reader, StepKind};

use super::{compile, failed, run};
use crate::replay::region::{A, B, Does, Story, text};
use crate::replay::region_of_a_program::STRETCH;
use crate::replay::verify::on_file;
use crate::support::harness::{self, Outcome, Run, built};

/// What `omniprobe reproduce` says of a region, and the folder that it was to write.
pub(super) fn reproduce(file: &Path, options: &[&str]) -> (Outcome, PathBuf) {
    let run = Run::new(built("omniprobe"));
    let folder = run.file("program");
    let output = folder.display().to_string();
    (on_file(run, "reproduce", file, "", &[&["--region", "-o", &output], options].concat()), folder)
}

/// The folder of a region's program, compiled.
#[track_caller]
pub(super) fn compiled(file: &Path, options: &[&str]) -> (Outcome, PathBuf) {
    let (outcome, folder) = reproduce(file, options);
    assert!(outcome.status.success(), "{}", text(&outcome));
    compile(&folder, "c++");
    (outcome, folder)
}

fn captured(program: Run, trigger: &str) -> (Run, PathBuf) {
    let keep = Run::new(built("omniprobe"));
    let file = keep.file("run.ldcap");
    let options = ["--capture", file.to_str().unwrap(), "--capture-region", trigger, "-l", "/dev/null"];
    program.probed(&options).passed();
    (keep, file)
}

/// A line of the program's tables left out.
pub(super) fn without(folder: &Path, line: impl Fn(&str) -> bool) {
    let path = folder.join("reproduce.cpp");
    let all = fs::read_to_string(&path).unwrap();
    let at = all.lines().position(line).unwrap_or_else(|| panic!("{all}"));
    let kept: Vec<&str> = all.lines().enumerate().filter(|(number, _)| *number != at).map(|(_, of)| of).collect();
    fs::write(&path, kept.join("\n") + "\n").unwrap();
    fs::remove_file(folder.join("reproduce")).unwrap();
    compile(folder, "c++");
}

#[test]
fn steps_of_a_region_pass_as_a_program_of_their_own_and_fail_without_one_of_them() {
    let arch = harness::arch();
    let keep = Run::new(built("omniprobe"));
    let file = Story::new().write(&keep.file("a.ldcap"));
    let (outcome, folder) = compiled(&file, &[]);
    assert_eq!(outcome.stderr, "");
    let program = fs::read_to_string(folder.join("reproduce.cpp")).unwrap();
    let said = "// Does what an application did in a stretch of its run, and compares all memory that this reaches with what the application \
                got: 4 launches of";
    assert!(
        program.starts_with(said) && program.contains("// kernel:    3 of increment , symbol increment ."),
        "{program}"
    );
    run(&folder, &arch).passed();
    // What the host wrote is three bytes.
    let written = folder.join("writes.bin");
    assert_eq!(fs::read(&written).unwrap(), [0xaa, 0xbb, 0xcc]);
    fs::write(&written, [0xaa, 0xbb, 0xcd]).unwrap();
    assert!(failed(&run(&folder, &arch)).contains("expected 0x"));
    fs::write(&written, [0xaa]).unwrap();
    let broken = run(&folder, &arch);
    assert!(
        broken.status.code() == Some(2) && broken.stderr.contains("writes.bin: expected 3 bytes, found 1"),
        "{}",
        text(&broken)
    );
    fs::write(&written, [0xaa, 0xbb, 0xcc]).unwrap();
    for step in ["1, LAUNCH,", "3, COPY,", "4, WRITE,", "5, LAUNCH,", "6, FILL,"] {
        let (_outcome, folder) = compiled(&file, &[]);
        without(&folder, |line| line.trim_start().starts_with(&format!("{{{step}")));
        failed(&run(&folder, &arch));
    }
}

#[test]
fn regions_of_programs_pass_with_what_they_copy_free_and_lead_to_by_addresses_that_the_host_writes() {
    let arch = harness::arch();
    // Streams, copies, fills, graphs, pinned and managed memory, memory that is freed, tables of addresses that the host changes.
    let random = (1..=harness::count(3, 40)).map(|seed| {
        let program = Run::hip("sequences").args([seed.to_string(), "40".to_owned()]);
        (format!("sequences {seed}"), captured(program, "dispatches:3+"))
    });
    let (mut copies, mut writes, mut addresses, mut packets) = (0, 0, 0, 0);
    let rewrites = |line: &str| line.contains("value = moved(value, false);");
    for (what, (_keep, file)) in random.chain([
        ("stretch".to_owned(), captured(Run::hip("stretch"), STRETCH)),
        ("rocPRIM".to_owned(), captured(Run::hip("primitives"), "dispatches:4..dispatches:12")),
    ]) {
        let (outcome, folder) = compiled(&file, &[]);
        packets += usize::from(outcome.stderr.contains("so that the program gives the packet to the GPU"));
        let ran = run(&folder, &arch);
        assert!(ran.status.success(), "{what}: {}{}", text(&outcome), text(&ran));
        let steps =
            Reader::open(&file).unwrap().records().steps.iter().map(|step| step.value.clone()).collect::<Vec<_>>();
        copies += steps.iter().filter(|step| matches!(step.kind, StepKind::Copy | StepKind::Fill)).count();
        writes += usize::from(folder.join("writes.bin").exists());
        // Bytes of an address that the host changes are no address of now: a program that does not rewrite it goes wrong.
        if what.starts_with("sequences") {
            without(&folder, rewrites);
            addresses += usize::from(!run(&folder, &arch).status.success());
        }
    }
    // HIP 7 copies by a kernel, in workgroups of more work-items than that declares.
    assert!(
        copies + packets > 0 && writes > 0 && addresses > 0,
        "{copies} copies, {packets} with packets, {writes} with writes, {addresses} addresses"
    );
}

#[test]
fn what_hip_cannot_do_as_a_step_is_refused_by_name_and_leaves_nothing() {
    let keep = Run::new(built("omniprobe"));
    let copy = |to, from, bytes| Does::Copy { to, from, bytes };
    let with = |at: usize, does: Does| {
        let mut story = Story::new();
        story.checkpoints.clear();
        story.steps[at].does = does;
        story
    };
    let mut no_end = Story::new();
    no_end.after = None;
    let odd = with(5, Does::Fill { to: B + 400, bytes: 15, value: 0x1234_5678 });
    for (story, status, said) in [
        (no_end, 9, "region 1: the capture has not the memory after step 7, the last one"),
        (odd, 7, "step 6: a fill of 15 bytes at 0x7f3100400190, which are no whole words of 4 bytes"),
        (with(2, copy(A + 4, A, 2048)), 7, "step 3: a copy to 2048 bytes at 0x7f3100203004, which are read, too"),
    ] {
        let file = story.write(&keep.file("a.ldcap"));
        let (outcome, folder) = reproduce(&file, &[]);
        assert!(outcome.status.code() == Some(status) && outcome.stderr.contains(said), "{said}: {}", text(&outcome));
        assert!(!folder.exists());
    }
    // A part that ends where the capture has memory is a program.
    let file = Story::new().write(&keep.file("a.ldcap"));
    let (_outcome, folder) = compiled(&file, &["--dispatch", "14"]);
    run(&folder, &harness::arch()).passed();
}
