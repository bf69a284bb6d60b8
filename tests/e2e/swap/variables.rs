//! Variables of the device when kernels are swapped or replayed: both sides read and write the application's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::replay::verify::{ended, on_file};
use crate::support::harness::{self, Outcome, Run, built};
use crate::support::versions;

/// The kernels of `variables`; the first two use none.
const KERNELS: [&str; 8] = ["none", "constants", "before", "behind", "structures", "passed", "counted", "indirect"];
/// Linkers leave behind what they were told of addresses. Some of the compilers' drivers say that they do not need it.
const RELOCATIONS: &str = "-Xoffload-linker --emit-relocs -Wno-unused-command-line-argument";

fn object(options: &str) -> PathBuf {
    harness::hip_object("variables", &harness::arch(), options)
}

/// Runs the program, which checks itself, with a file in its cache.
fn with(file: &Path, more: &[(&str, &str)]) -> Outcome {
    let run = Run::hip("variables");
    let cache = run.file("cache");
    fs::create_dir(&cache).unwrap();
    fs::copy(file, cache.join("o.hsaco")).unwrap();
    let indexes = run.file("indexes");
    let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes);
    more.iter().fold(run, |run, (name, value)| run.env(name, value)).watched()
}

/// How often each kernel ran, and how often another ran in its place.
fn swapped(run: &Outcome) -> BTreeMap<String, (usize, usize)> {
    let mut all = BTreeMap::new();
    for row in run.log().of_program() {
        let (ran, swapped) = all.entry(row.kernel().to_owned()).or_insert((0, 0));
        *ran += 1;
        *swapped += usize::from(!row.text("replaced").is_empty());
    }
    all
}

#[track_caller]
fn passed(run: &Outcome) {
    let notices = run.log().notices;
    assert!(run.status.success() && run.stdout.ends_with("PASS\n"), "{}{}{notices:#?}", run.stdout, run.stderr);
}

#[test]
fn kernels_of_the_same_file_read_and_write_the_applications_variables_as_the_host_does() {
    let run = with(&object("-O1"), &[]);
    passed(&run);
    assert_eq!(swapped(&run), KERNELS.map(|kernel| (kernel.to_owned(), (6, 6))).into());
    let notices = run.log().notices.join("\n");
    assert!(notices.contains("active: before on agent 0, variables: shared "), "{notices}");
    // Both sides see what the other has written.
    let run = with(&object("-O1"), &[("LOGDUR_KERNEL_CACHE_MODE", "alternate")]);
    passed(&run);
    assert_eq!(swapped(&run), KERNELS.map(|kernel| (kernel.to_owned(), (6, 3))).into());
}

/// The first clang that puts `__constant__` variables among constants: another order does not move the others then.
const CONSTANTS_APART: u32 = 18;

#[test]
fn variables_in_another_order_and_more_of_them_are_told_apart_by_relocations_and_refused_without() {
    let apart = versions::clang() >= CONSTANTS_APART;
    for options in ["-O3 -DORDER", "-O3 -DMORE"] {
        let run = with(&object(&format!("{options} {RELOCATIONS}")), &[("LOGDUR_KERNEL_CACHE_MODE", "alternate")]);
        passed(&run);
        let found = swapped(&run);
        for kernel in KERNELS {
            // The linker names no variable that only its own file can see: `hidden` is of some section.
            let expected = if kernel == "counted" { 0 } else { 3 };
            let is_certain = kernel != "counted" || !apart;
            assert!(!is_certain || found[kernel] == (6, expected), "{kernel}, {options}: {:#?}", run.log().notices);
        }
        let run = with(&object(options), &[]);
        passed(&run);
        let notices = run.log().notices;
        if apart {
            continue;
        }
        for (kernel, (ran, swapped)) in swapped(&run) {
            let uses_none = KERNELS[..2].contains(&&*kernel);
            assert_eq!((ran, swapped), (6, if uses_none { 6 } else { 0 }), "{kernel}, {options}: {notices:#?}");
            let said = notices.iter().find(|n| n.contains(&format!("cache: {kernel} on agent 0 stays as it is")));
            let named = said.is_some_and(|n| n.contains("--emit-relocs") || n.contains("addresses"));
            assert!(uses_none || named, "{kernel}: {notices:#?}");
        }
    }
}

#[test]
fn a_replayed_replacement_sees_the_captured_variables_and_what_it_does_to_them_has_their_name() {
    let run = Run::hip("variables");
    let file = run.file("a.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_DISPATCHES", "2").watched();
    passed(&run);
    let all = |object: PathBuf| format!("all={}", object.display());
    let right = all(object("-O1"));
    let wrong = all(object("-O1 -DWRONG"));
    for backend in [&[][..], &["--backend", "emu"]] {
        for kernel in ["before", "behind", "structures", "passed", "indirect"] {
            let verify = |other: &str| {
                let options = [&["--hsaco", other, "--kernel", kernel][..], backend].concat();
                on_file(Run::new(built("omniprobe")), "verify", &file, &harness::arch(), &options)
            };
            ended(&verify(&right), "PASS", 0);
            let outcome = verify(&wrong);
            assert_eq!(outcome.status.code(), Some(6), "{kernel}: {}{}", outcome.stdout, outcome.stderr);
            let named = match kernel {
                "structures" => "pairs",
                "indirect" => "samples",
                _ => "arg0",
            };
            assert!(outcome.stdout.contains(named), "{kernel}: {}", outcome.stdout);
        }
    }
}

#[test]
fn variables_that_only_their_file_knows_are_captured_and_restored_and_named_where_symbols_are_there() {
    // Symbols that only the file knows are left out. Without any, old versions of HIP do not load a code object.
    let stripped = "-O3 -Xoffload-linker --discard-all";
    for (options, name) in [("-O3", "_ZL6hidden"), (stripped, ".bss+0x")] {
        let run = Run::new(harness::hip_optimized("variables", options));
        let file = run.file("a.ldcap");
        let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_DISPATCHES", "1-6");
        let run = run.env("LOGDUR_CAPTURE_KERNELS", "counted").watched();
        passed(&run);
        let verify = |more: &[&str]| on_file(Run::new(built("omniprobe")), "verify", &file, &harness::arch(), more);
        for backend in [&[][..], &["--backend", "emu"]] {
            // From the second launch on, what the file says it begins with is wrong.
            let outcome = verify(backend);
            assert!(outcome.status.success(), "{options}: {}{}", outcome.stdout, outcome.stderr);
            assert_eq!(outcome.stdout.lines().filter(|line| *line == "PASS").count(), 6, "{}", outcome.stdout);
            let matched = outcome.stdout.lines().filter(|l| l.contains("MATCH") && l.contains(name)).count();
            assert_eq!(matched, 6, "{options}: {}", outcome.stdout);
        }
        // A replacement that is known to use the same variable, and writes something else to it.
        if options != stripped {
            let wrong = format!("all={}", object("-O1 -DWRONG").display());
            let outcome = verify(&["--hsaco", &wrong, "--backend", "emu"]);
            assert_eq!(outcome.status.code(), Some(6), "{}{}", outcome.stdout, outcome.stderr);
            let named = outcome.stdout.lines().filter(|l| l.contains("MISMATCH") && l.contains(name)).count();
            assert_eq!(named, 6, "{}", outcome.stdout);
        }
    }
}

#[test]
fn variables_that_only_a_replacement_has_are_captured_and_each_of_its_dispatches_is_replayed() {
    let object =
        |options: &str| harness::hip_object("own_variables", &harness::arch(), &format!("{options} {RELOCATIONS}"));
    let (other, third) = (object("-O3 -DOTHER"), object("-O3 -DOTHER -DTHIRD"));
    for scope in ["all", "args"] {
        let run = Run::hip("own_variables");
        let (cache, indexes, file) = (run.file("cache"), run.file("indexes"), run.file("a.ldcap"));
        fs::create_dir(&cache).unwrap();
        fs::copy(&other, cache.join("o.hsaco")).unwrap();
        let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes).env("LOGDUR_CAPTURE", &file);
        let run = run.env("LOGDUR_CAPTURE_DISPATCHES", "1,3").env("LOGDUR_CAPTURE_SCOPE", scope).watched();
        passed(&run);
        assert!(
            run.stdout.contains("launch 0: 3\nlaunch 1: 4\nlaunch 2: 5\n"),
            "{}{:#?}",
            run.stdout,
            run.log().notices
        );
        let verify = |more: &[&str]| on_file(Run::new(built("omniprobe")), "verify", &file, &harness::arch(), more);
        for backend in [&[][..], &["--backend", "emu"]] {
            let outcome = verify(&[&["--kernel", "^step$"], backend].concat());
            assert!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
            assert_eq!(outcome.stdout.lines().filter(|line| line.starts_with("PASS")).count(), 2, "{}", outcome.stdout);
            for name in ["counts", "latest"] {
                let matched = outcome.stdout.lines().filter(|l| l.contains("MATCH") && l.contains(name)).count();
                assert_eq!(matched, 2, "{name}: {}", outcome.stdout);
            }
            assert!(!outcome.stdout.contains("as in its file"), "{}", outcome.stdout);
            // Other kernels have no such variables, or others: nothing is said of those that were captured.
            // The third begins with the values of its file, as the first dispatch did.
            for (other, results) in
                [("original", ["FAIL"; 2]), (&format!("all={}", third.display()), ["PASS (qualified)", "FAIL"])]
            {
                let outcome = verify(&[&["--hsaco", other, "--kernel", "^step$"], backend].concat());
                assert_eq!(outcome.status.code(), Some(6), "{other}: {}{}", outcome.stdout, outcome.stderr);
                let lines: Vec<&str> = outcome.stdout.lines().collect();
                let found: Vec<&str> =
                    lines.iter().copied().filter(|line| results.contains(line) || *line == "PASS").collect();
                assert_eq!(found, results, "{other}: {}", outcome.stdout);
                let is_own = |line: &&str| line.contains(" counts ") || line.contains(" latest ");
                assert!(!lines.iter().any(is_own), "{other}: {}", outcome.stdout);
            }
        }
    }
}
