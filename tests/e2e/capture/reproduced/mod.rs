//! Captured dispatches as HIP programs of their own, compiled and run without any part of this project: on every ROCm.

mod cmake;
mod packets;
mod regions;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use logdur_capture::{AllocationKind, Reader, Scope};

use crate::replay::verify::{WORDS, increment, on_file};
use crate::support::captures::{Buffer, Captured};
use crate::support::harness::{self, Outcome, Run, built};
use crate::support::versions;

/// A program's capture, of the kernels whose names match.
fn of_program(program: &str, arch: &str, kernels: &str) -> (PathBuf, Outcome) {
    let run = Run::hip(program).arch(arch);
    let file = run.file("run.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_KERNELS", kernels);
    // Of each kernel, not only the first.
    let run = run.env("LOGDUR_CAPTURE_DISPATCHES", "1-9");
    (file, run.watched().passed())
}

/// What `omniprobe reproduce` says of a dispatch, and the folder that it was to write.
fn reproduce(file: &Path, dispatch: u64) -> (Outcome, PathBuf) {
    let run = Run::new(built("omniprobe"));
    let folder = run.file("program");
    let (output, number) = (folder.display().to_string(), dispatch.to_string());
    (on_file(run, "reproduce", file, "", &["--dispatch", &number, "-o", &output]), folder)
}

/// The folder of a dispatch's program.
#[track_caller]
fn written(file: &Path, dispatch: u64) -> (Outcome, PathBuf) {
    let (outcome, folder) = reproduce(file, dispatch);
    assert!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
    (outcome, folder)
}

/// Compiles a program by its own Makefile, for the ROCm to test on.
fn compile(folder: &Path, compiler: &str) {
    let rocm = harness::rocm().unwrap_or_else(|| "/usr".into());
    let options: Vec<String> =
        harness::link_options().into_iter().map(|option| option.into_string().unwrap()).collect();
    let mut command = Command::new("make");
    command.arg("-C").arg(folder).arg(format!("ROCM={}", rocm.display())).arg(format!("CXX={compiler}"));
    command.arg(format!("LDFLAGS={}", options.join(" "))).arg("CXXFLAGS=-O1 -Wall -Wextra");
    let made = command.output().unwrap();
    assert!(made.status.success(), "{command:?}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Runs a compiled program on the device.
fn run(folder: &Path, arch: &str) -> Outcome {
    Run::new(folder.join("reproduce")).arch(arch).args([folder]).bare()
}

#[track_caller]
fn passes(file: &Path, dispatch: u64, arch: &str) -> Outcome {
    let (outcome, folder) = written(file, dispatch);
    compile(&folder, "c++");
    run(&folder, arch).passed();
    outcome
}

/// The first line of a run that failed as it is to fail.
#[track_caller]
fn failed(outcome: &Outcome) -> String {
    let all = format!("{}\n{}{}", outcome.status, outcome.stdout, outcome.stderr);
    assert!(outcome.status.code() == Some(1) && outcome.stdout.ends_with("\nFAIL\n"), "{all}");
    outcome.stdout.lines().find(|line| line.contains("expected")).unwrap_or_else(|| panic!("{all}")).to_owned()
}

#[test]
fn a_dispatch_of_every_way_to_memory_passes_as_a_program_of_its_own() {
    let programs = [
        // In place, atomics, LDS, pointers in memory and in structures that are arguments, pieces of an allocation.
        ("reached", "^(in_place|counted|linked|viewed|pooled)$", 5),
        // Variables, one that holds a pointer, one that is managed where HIP has that; pinned, registered, managed memory and that of a pool.
        ("memory", "^(polynomial|count|follow|scale|square_managed)", 9),
        // LDS that the launch adds.
        ("local_memory", "^(void )?dynamic", 1),
    ];
    for arch in harness::archs().iter().take(harness::count(1, 2)) {
        for (program, kernels, least) in programs {
            let (file, _run) = of_program(program, arch, kernels);
            let reader = Reader::open(&file).unwrap();
            let ids: Vec<u64> = reader.dispatches().iter().map(|dispatch| dispatch.id).collect();
            assert!(ids.len() >= least, "{program} on {arch}: {ids:?}");
            ids.into_iter().for_each(|id| drop(passes(&file, id, arch)));
        }
    }
}

#[test]
fn a_program_compiled_as_hip_rewrites_addresses_and_says_where() {
    let arch = harness::arch();
    let (file, _run) = of_program("reached", &arch, "^linked$");
    let dispatch = Reader::open(&file).unwrap().dispatches()[0].id;
    let (_outcome, folder) = written(&file, dispatch);
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let lines = |name: &str| read(name).lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
    let (before, after): (Vec<String>, Vec<String>) = (lines("fixups-before.txt"), lines("fixups-after.txt"));
    // An argument, and the pointers of two links: the second has no next one.
    assert!(before[0].starts_with("k0 0 a") && before[0].ends_with(" 0 pointer"), "{before:?}");
    assert_eq!(before[1..].iter().filter(|line| line.starts_with('a')).count(), 5, "{before:?}");
    assert_eq!(before[1..], after, "memory holds the same addresses after the kernel");
    let program = read("reproduce.cpp");
    assert!(program.contains("// kernel:    linked"), "{program}");
    assert!(program.contains("1024x1x1 work-items in workgroups of 128x1x1"), "{program}");
    assert!(read("README.md").contains("No word before the kernel is ambiguous."), "{}", read("README.md"));
    compile(&folder, &harness::hipcc().get_program().display().to_string());
    let outcome = run(&folder, &arch).passed();
    assert!(!outcome.stdout.contains("\n0 of ") && !outcome.stdout.starts_with("0 of "), "{}", outcome.stdout);
}

#[test]
fn a_flipped_byte_of_the_input_or_of_the_result_fails_and_names_the_element() {
    let arch = harness::arch();
    let run_of = Run::new(built("omniprobe"));
    let file = increment(&arch).write(&run_of.file("a.ldcap"));
    let (_outcome, folder) = written(&file, 7);
    compile(&folder, "c++");
    run(&folder, &arch).passed();
    let captured = increment(&arch);
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes[4 * 77..][..4].try_into().unwrap());
    let after = word(&captured.buffers[0].after);
    let flip = |name: &str| {
        let path = folder.join(name);
        let mut bytes = fs::read(&path).unwrap();
        bytes[4 * 77 + 1] ^= 0x40;
        fs::write(&path, bytes).unwrap();
    };
    let expected = |expected: u32, found: u32| {
        format!("allocation 0, arg0[77], offset 308: expected {expected:#010x}, found {found:#010x}")
    };
    flip("allocation-0-0.after.bin");
    assert_eq!(failed(&run(&folder, &arch)), expected(after ^ 0x4000, after));
    flip("allocation-0-0.after.bin");
    flip("allocation-0-0.before.bin");
    assert_eq!(failed(&run(&folder, &arch)), expected(after, after ^ 0x4000));
    flip("allocation-0-0.before.bin");
    run(&folder, &arch).passed();
    // What is not there, or is not whole, is no result.
    fs::write(folder.join("allocation-0-0.after.bin"), "short").unwrap();
    let outcome = run(&folder, &arch);
    let text = format!("allocation-0-0.after.bin: expected {} bytes, found 5\n", captured.buffers[0].after.len());
    assert!(outcome.status.code() == Some(2) && outcome.stderr.contains(&text), "{}", outcome.stderr);
    fs::remove_file(folder.join("fixups-before.txt")).unwrap();
    let outcome = run(&folder, &arch);
    assert!(outcome.status.code() == Some(2) && outcome.stderr.contains("fixups-before.txt: "), "{}", outcome.stderr);
}

#[test]
fn workgroups_that_are_not_complete_are_launched_as_they_were() {
    let arch = harness::arch();
    let mut captured = increment(&arch);
    captured.grid = 200;
    let untouched = captured.buffers[0].before[4 * 200..4 * 256].to_vec();
    captured.buffers[0].after[4 * 200..4 * 256].copy_from_slice(&untouched);
    let run_of = Run::new(built("omniprobe"));
    let file = captured.write(&run_of.file("a.ldcap"));
    let (outcome, folder) = written(&file, 7);
    compile(&folder, "c++");
    let ran = run(&folder, &arch);
    if versions::launches_incomplete_workgroups() {
        ran.passed();
    } else {
        assert!(outcome.stderr.contains("the last workgroups are not complete"), "{}", outcome.stderr);
        assert!(ran.status.code() == Some(2) && ran.stderr.contains(": invalid argument"), "{}", ran.stderr);
    }
}

#[test]
fn words_that_may_be_no_addresses_are_told() {
    let arch = harness::arch();
    let mut captured = increment(&arch);
    let length = captured.buffers[0].before.len() as u64;
    // The end of the allocation, in memory that the kernel leaves alone.
    let Buffer { before, after, .. } = &mut captured.buffers[0];
    for bytes in [before, after] {
        bytes[2400..2408].copy_from_slice(&(WORDS + length).to_le_bytes());
    }
    let run_of = Run::new(built("omniprobe"));
    let file = captured.write(&run_of.file("a.ldcap"));
    let (_outcome, folder) = written(&file, 7);
    let readme = fs::read_to_string(folder.join("README.md")).unwrap();
    let text = format!("byte 2400 of allocation 0, as byte {length} of allocation 0: it is the end of an allocation");
    assert!(readme.contains("1 words before the kernel are ambiguous") && readme.contains(&text), "{readme}");
    compile(&folder, "c++");
    run(&folder, &arch).passed();
}

#[test]
fn what_hip_cannot_recreate_is_refused_by_name_and_leaves_nothing() {
    let arch = harness::arch();
    let base = || increment(&arch);
    let with = |kind: AllocationKind| {
        let words = base().buffers.remove(0);
        Captured { buffers: vec![Buffer { kind, ..words }], ..base() }
    };
    for (captured, status, text) in [
        (Captured { scope: Scope::Kernarg, ..base() }, 9, "its scope is kernarg"),
        (Captured { after: false, ..base() }, 9, "the memory after the kernel"),
        (with(AllocationKind::Ipc), 7, "memory of another process: 12000 bytes at 0x7f3100203000"),
        (with(AllocationKind::Foreign), 7, "memory of another device or library: 12000 bytes"),
        (with(AllocationKind::DeviceExtended), 7, "memory of extended scope: 12000 bytes"),
        (
            Captured { buffers: Vec::new(), uncaptured: std::iter::once(WORDS..WORDS + 12000).collect(), ..base() },
            9,
            "that arg0 points to",
        ),
    ] {
        let run_of = Run::new(built("omniprobe"));
        let file = captured.write(&run_of.file("a.ldcap"));
        let (outcome, folder) = reproduce(&file, 7);
        assert_eq!(outcome.status.code(), Some(status), "{text}: {}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains(text) && !folder.exists(), "{text}: {}", outcome.stderr);
    }
    let (file, _run) = of_program("textures", &arch, "^sampled$");
    let dispatch = Reader::open(&file).unwrap().dispatches()[0].id;
    let (outcome, folder) = reproduce(&file, dispatch);
    let text = " finds memory by a descriptor, as of a texture";
    assert!(outcome.status.code() == Some(7) && outcome.stderr.contains(text), "{}", outcome.stderr);
    assert!(!folder.exists());
}

#[test]
fn a_folder_with_something_in_it_is_left_as_it_is() {
    let run_of = Run::new(built("omniprobe"));
    let file = increment(&harness::arch()).write(&run_of.file("a.ldcap"));
    let taken = run_of.file("taken");
    fs::create_dir(&taken).unwrap();
    fs::write(taken.join("mine"), "mine").unwrap();
    let into = |folder: &Path| {
        let output = folder.display().to_string();
        on_file(Run::new(built("omniprobe")), "reproduce", &file, "", &["-o", &output])
    };
    let outcome = into(&taken);
    assert_eq!(outcome.status.code(), Some(1), "{}", outcome.stdout);
    assert!(
        outcome.stderr.ends_with("taken: expected a new or an empty folder, found 1 files in it\n"),
        "{}",
        outcome.stderr
    );
    assert_eq!(fs::read_dir(&taken).unwrap().count(), 1);
    let outcome = into(&taken.join("mine"));
    assert!(outcome.stderr.ends_with("expected a new or an empty folder, found a file\n"), "{}", outcome.stderr);
    let empty = run_of.file("empty");
    fs::create_dir(&empty).unwrap();
    let outcome = into(&empty);
    assert!(outcome.status.success() && empty.join("reproduce.cpp").exists(), "{}", outcome.stderr);
}
