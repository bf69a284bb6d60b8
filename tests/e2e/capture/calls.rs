//! Kernels that call functions of other code objects, captured and run again: their callees are loaded, too.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use logdur_capture::{Id, Reader};

use crate::replay::mutations::{Bit, Changes, copy};
use crate::replay::verify::{ended, on_file};
use crate::support::harness::{self, Outcome, Run, built};

/// The code object of `called.hip` of a number, compiled with some more options.
fn object(callee: u32, options: &str) -> PathBuf {
    harness::hip_object("called", &harness::arch(), &format!("-DCALLEE={callee} {options}"))
}

/// Captures the program's dispatches of `apply`, with the code objects of some numbers; what it said.
fn captured(way: &str, callees: &[u32]) -> (PathBuf, Outcome) {
    let objects = callees.iter().map(|callee| object(*callee, "-O2").into_os_string());
    let run = Run::hip("called").args([way]).args(objects);
    let run = run.env("LOGDUR_CAPTURE_KERNELS", "apply").env("LOGDUR_CAPTURE_DISPATCHES", "every:1");
    let file = run.file("run.ldcap");
    let outcome = run.env("LOGDUR_CAPTURE", &file).watched().passed();
    (file, outcome)
}

/// What replays run on.
const BACKENDS: [&[&str]; 2] = [&["--backend", "emu"], &[]];

fn omniprobe(tool: &str, file: &Path, options: &[&str]) -> Outcome {
    on_file(Run::new(built("omniprobe")), tool, file, &harness::arch(), options)
}

#[test]
fn functions_of_other_code_objects_are_called_in_replays_as_well() {
    for (way, callees) in [("plain", &[0, 1][..]), ("gone", &[0, 1]), ("chain", &[0, 3, 1]), ("own", &[0])] {
        let (file, _kept) = captured(way, callees);
        for options in BACKENDS {
            let outcome = omniprobe("verify", &file, options);
            ended(&outcome, "PASS", 0);
            assert!(!outcome.stdout.contains("another address"), "{way} {options:?}: {}", outcome.stdout);
        }
    }
}

#[test]
fn each_of_two_code_objects_that_were_loaded_at_one_address_is_called_in_its_time() {
    let (file, said) = captured("again", &[0, 1, 2]);
    // The runtime gives freed addresses again.
    assert!(said.stdout.contains("the same address"), "{}", said.stdout);
    for options in BACKENDS {
        let outcome = omniprobe("verify", &file, options);
        assert_eq!(outcome.status.code(), Some(0), "{options:?}: {}{}", outcome.stdout, outcome.stderr);
        let dispatches = said.stdout.matches("apply: 64 values correct").count();
        assert!(dispatches > 1 && outcome.stdout.matches("\nPASS\n").count() == dispatches, "{}", outcome.stdout);
    }
}

/// A copy of a capture with its one dispatch that is changed.
fn changed(file: &Path, change: impl FnOnce(&Reader) -> Changes) -> PathBuf {
    let reader = Reader::open(file).unwrap();
    let mut changes = change(&reader);
    let own = changes.dispatches.values().flatten().next().copied();
    changes.dispatches = reader.dispatches().iter().map(|dispatch| (dispatch.id, own)).collect();
    let to = file.with_extension("changed.ldcap");
    copy(&reader, &changes, &to);
    to
}

fn id_of(callee: u32) -> Id {
    Id::of(&fs::read(object(callee, "-O2")).unwrap())
}

#[test]
fn what_is_changed_in_a_called_code_object_or_in_its_variables_fails() {
    let (file, _kept) = captured("chain", &[0, 3, 1]);
    let other = fs::read(object(2, "-O2")).unwrap();
    let code = changed(&file, |_| Changes { code: HashMap::from([(id_of(1), other)]), ..Changes::default() });
    for options in BACKENDS {
        let outcome = omniprobe("verify", &code, options);
        ended(&outcome, "FAIL", 6);
        assert!(outcome.stdout.contains("arg0"), "{}", outcome.stdout);
    }
    let variable = changed(&file, |reader| {
        let calls = reader.records().globals.iter().find(|global| global.symbol == "calls").unwrap();
        let bit = Bit { address: calls.address, mask: 1 };
        Changes { dispatches: [(0, Some(bit))].into(), ..Changes::default() }
    });
    for options in BACKENDS {
        let outcome = omniprobe("verify", &variable, options);
        ended(&outcome, "FAIL", 6);
        assert!(
            outcome.stdout.contains("calls b32: 1 bytes changed, 1 replayed, 1 elements differ"),
            "{}",
            outcome.stdout
        );
    }
}

#[test]
fn a_called_code_object_that_the_capture_lacks_is_named() {
    let (file, _kept) = captured("plain", &[0, 1]);
    let lost = changed(&file, |_| Changes { lost: Some(id_of(1)), ..Changes::default() });
    for options in BACKENDS {
        let outcome = omniprobe("verify", &lost, options);
        assert_eq!(outcome.status.code(), Some(7), "{options:?}: {}{}", outcome.stdout, outcome.stderr);
        let said = &outcome.stderr;
        assert!(said.contains("use of another code object, ") && said.contains(&id_of(1).to_string()), "{said}");
    }
}

#[test]
fn a_called_code_object_that_cannot_be_where_it_was_is_elsewhere_with_that_word() {
    let (file, _kept) = captured("plain", &[0, 1]);
    let low = changed(&file, |_| Changes { moved: Some((id_of(1), 0x1000)), ..Changes::default() });
    ended(&omniprobe("verify", &low, &["--backend", "emu"]), "PASS", 0);
    let outcome = omniprobe("verify", &low, &["--place-retries", "0"]);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains(" at another address: "), "{}", outcome.stdout);
}

#[test]
fn a_kernel_that_calls_nothing_takes_the_place_of_one_that_does_and_others_are_refused_by_name() {
    let (file, _kept) = captured("plain", &[0, 1]);
    for options in BACKENDS {
        let with = |object: &Path| {
            let hsaco = format!("all={}", object.display());
            omniprobe("verify", &file, &[options, &["--hsaco", &hsaco]].concat())
        };
        let outcome = with(&object(4, "-O3"));
        ended(&outcome, "PASS", 0);
        assert!(outcome.stdout.contains("replaced by"), "{}", outcome.stdout);
        let refuses = |object: &Path, why: &str| {
            let refused = with(object);
            assert!(refused.stderr.contains(why), "{}{}", refused.stdout, refused.stderr);
            assert!([Some(1), Some(7)].contains(&refused.status.code()), "{}", refused.status);
        };
        let caller = object(0, "-O1 -g");
        if harness::notes(&caller).contains(".uses_dynamic_stack: true") {
            // How much of the stack a callee needs, no rule can know.
            refuses(&caller, "dynamic stack");
        } else {
            ended(&with(&caller), "PASS", 0);
        }
        // A called code object has no kernel that is replaced.
        refuses(&object(1, "-O2"), "no kernel of this name");
    }
}

#[test]
fn kernels_that_call_other_code_objects_are_measured_and_tuned() {
    let (file, _kept) = captured("plain", &[0, 1]);
    for options in BACKENDS {
        let bench = omniprobe("bench", &file, &[options, &["--json", "-r", "6"]].concat());
        assert_eq!(bench.status.code(), Some(0), "{}{}", bench.stdout, bench.stderr);
    }
    let (hipcc, source) = (harness::hipcc(), harness::root().join("tests/programs/called.hip"));
    let compile = format!(
        "{} --cuda-device-only --no-gpu-bundle-output -std=c++17 -O{{level}} -c --offload-arch={} -DCALLEE=4 {} -o {{out}}",
        hipcc.get_program().display(),
        harness::arch(),
        source.display()
    );
    let folder = file.with_extension("found");
    let options = ["--compile", &compile, "--param", "level=1,3", "-r", "6", "-o", folder.to_str().unwrap(), "--json"];
    let tuned = omniprobe("tune", &file, &options);
    assert_eq!(tuned.status.code(), Some(0), "{}{}", tuned.stdout, tuned.stderr);
    let trials = fs::read_to_string(folder.join("trials.csv")).unwrap();
    assert_eq!(trials.matches(",measured,").count(), 3, "{trials}");
}

#[test]
fn analyses_see_the_code_that_is_called() {
    let (file, _kept) = captured("chain", &[0, 3, 1]);
    let outcome = omniprobe("analyze", &file, &["--annotate"]);
    assert_eq!(outcome.status.code(), Some(0), "{}{}", outcome.stdout, outcome.stderr);
    for part in ["  apply:", "  counted(int):", "  thrice_and_7(int):", "  added: "] {
        assert!(outcome.stdout.contains(part), "{part}: {}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains("other code objects"), "{}", outcome.stdout);
    let checked = omniprobe("analyze", &file, &["--check", "all"]);
    assert!(checked.stdout.contains("nothing found"), "{}{}", checked.stdout, checked.stderr);
}
