//! Versions of the code object's ABI, and what the runtime makes of each.

use std::fs;

use crate::replay::verify::{ended, increment, tool};
use crate::support::compare::{Random, Type};
use crate::support::harness::{self, Run};
use crate::support::launch::{self, Arg, Launch};

/// Compiler, version of the ABI, optimisation, and whether the code is for the whole family of processors.
const BUILDS: &[(u32, u32, u32, bool)] = &[
    (15, 4, 0, false),
    (15, 5, 3, false),
    (19, 4, 3, false),
    (19, 5, 0, false),
    (19, 6, 0, false),
    (19, 6, 3, false),
    (19, 6, 3, true),
];

/// The processors that code for `gfx9-generic` runs on. Source: LLVM's `AMDGPUUsage`, "Generic Processors".
const GENERIC: &[&str] = &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"];

/// What is said of an object that the runtime does not load.
const REFUSED: [&str; 2] = ["FAIL hsa_executable_load_agent_code_object", "HSA_STATUS_ERROR_INVALID_CODE_OBJECT"];

/// The runtimes 5.2.3 and 6.1.2 know the versions up to 5 and refuse 6 when an object is loaded; 6.4.3 and 7.2.4 run
/// it, for a processor and for the family.
#[test]
fn each_version_of_the_code_object_is_run_as_on_the_cpu_or_refused_when_it_is_loaded() {
    let source = harness::root().join("tests/programs/opencl/bare.cl");
    let args = |size: u32| {
        let input = Random::of("neighbours").elements(Type::Int(4), 768);
        vec![Arg::Buffer(input), Arg::Buffer(vec![0; 768 * 4]), Arg::Local(4 * size)]
    };
    let launch = |size| Launch {
        kernel: "neighbours".to_owned(),
        grid: vec![768],
        workgroup: vec![size],
        lds: 0,
        args: args(size),
    };
    let launches = [launch(64), launch(256)];
    let expected = launch::on_cpu(&source, "-cl-std=CL3.0", &launches);
    let mut known = Vec::new();
    for arch in harness::archs() {
        for &(clang, abi, optimise, generic) in BUILDS {
            if generic && !GENERIC.contains(&&*arch) {
                continue;
            }
            let target = if generic { "gfx9-generic" } else { &arch };
            let object = harness::opencl_object(&source, target, clang, optimise, abi, "-nogpulib");
            match launch::try_on_gpu(&object, &arch, &launches, false) {
                Ok((got, _)) => {
                    assert!(got == expected, "{}: other results than on the CPU", object.display());
                    known.push((abi, true));
                }
                Err(outcome) if abi == 6 && REFUSED.iter().all(|said| outcome.stdout.contains(said)) => {
                    known.push((abi, false));
                }
                Err(outcome) => panic!("{}: {}{}", object.display(), outcome.stdout, outcome.stderr),
            }
        }
    }
    let mut sixth = known.iter().filter(|(abi, _)| *abi == 6).map(|(_, runs)| *runs);
    let first = sixth.next().expect("objects of version 6");
    assert!(sixth.all(|runs| runs == first), "a runtime knows a version or it does not: {known:?}");
}

/// A version that no runtime has.
const CAPTURED_UNDER: &str = "999.7.5-another";

#[test]
fn code_that_the_runtime_of_a_replay_refuses_names_the_runtime_of_the_capture_and_how_to_choose_another() {
    let source = harness::root().join("tests/programs/opencl/bare.cl");
    let arch = harness::arch();
    let object = harness::opencl_object(&source, &arch, 19, 3, 6, "-nogpulib");
    let launch = Launch {
        kernel: "increment".to_owned(),
        grid: vec![256],
        workgroup: vec![64],
        lds: 0,
        args: vec![Arg::Buffer(vec![0; 1024])],
    };
    let runs = launch::try_on_gpu(&object, &arch, &[launch], false).is_ok();

    let mut captured = increment(&arch);
    captured.code = std::fs::read(&object).unwrap();
    captured.runtime = CAPTURED_UNDER;
    ended(&tool("verify", &captured, &["--backend", "emu"]), "PASS", 0);
    let chooses = "--rocm DIR chooses another ROCm";
    for tried in ["replay", "verify", "bench"] {
        let outcome = tool(tried, &captured, &[]);
        let said = &outcome.stderr;
        let told = format!("a.ldcap: captured under runtime {CAPTURED_UNDER}, replayed under runtime ");
        assert!(said.contains(&told) && said.contains(chooses), "{tried}: {said}");
        let refused = format!("refuses it, the capture is from runtime {CAPTURED_UNDER}; {chooses}");
        if runs {
            assert_eq!((outcome.status.code(), said.contains("refuses it")), (Some(0), false), "{tried}: {said}");
        } else {
            let reason = said.contains("loading code object ") && said.contains(&refused) && said.contains("0x1010");
            assert!(outcome.status.code() == Some(3) && reason, "{tried}: {}: {said}", outcome.status);
        }
    }

    // Where the capture does not say the version, no other is proposed.
    captured.runtime = "";
    let outcome = tool("verify", &captured, &[]);
    assert!(!outcome.stderr.contains(chooses), "{}", outcome.stderr);
    assert_eq!(outcome.status.code(), Some(if runs { 0 } else { 3 }), "{}", outcome.stderr);
}

/// `loaders`, whose threads load a code object that another one takes the place of, launch its kernel and destroy it; all
/// launches are named and swapped.
#[test]
fn threads_that_destroy_executables_while_others_freeze_theirs_have_named_and_swapped_dispatches() {
    let (threads, rounds) = (8, harness::count(25, 1000));
    let run = Run::hsa("loaders").args([threads.to_string(), rounds.to_string()]);
    let run = run.env("TEST_OTHER", harness::hip_object("swaps", &harness::arch(), "-O2"));
    let cache = run.file("cache");
    fs::create_dir(&cache).unwrap();
    fs::copy(harness::hip_object("kernels", &harness::arch(), "-O1"), cache.join("kernels.hsaco")).unwrap();
    let indexes = run.file("indexes");
    let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes).watched().passed();
    let log = run.log();
    log.account();
    assert_eq!(log.rows.len(), threads * rounds + 1);
    for row in &log.rows {
        let (kernel, flags, replaced) = (row.text("kernel"), row.text("flags"), row.text("replaced"));
        assert_eq!((kernel, flags, replaced.is_empty()), ("increment", "", false), "{:#?}", log.notices);
    }
}
