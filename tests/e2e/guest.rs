//! The library in an application's process: how it gets in, and what it leaves alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::{self, Outcome, Run, built};
use crate::versions;

/// Runs with `HSA_TOOLS_LIB` set to some text.
fn with_tools_lib(run: Run, text: &str) -> crate::harness::Outcome {
    let mut command = run.command();
    command.env("HSA_TOOLS_LIB", text).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
    command.env("LOGDUR_LOG_LOCATION", run.file("log.csv"));
    run.finish(command).passed()
}

#[test]
fn it_loads_by_bare_name_from_the_loaders_path() {
    let folder = built("liblogdur.so");
    let run = Run::hip("vectors").env("LD_LIBRARY_PATH", folder.parent().unwrap());
    assert_eq!(with_tools_lib(run, "liblogdur.so").log().account()["logged"], versions::kernels_of_vectors());
}

#[test]
fn it_loads_from_a_path_with_a_space() {
    let run = Run::hip("vectors");
    let folder = run.file("two words");
    fs::create_dir(&folder).unwrap();
    let library = folder.join("liblogdur.so");
    fs::copy(built("liblogdur.so"), &library).unwrap();
    let run = with_tools_lib(run, &format!("\"{}\"", library.display()));
    assert_eq!(run.log().account()["logged"], versions::kernels_of_vectors());
}

#[test]
fn it_works_with_a_rocm_that_is_unpacked_somewhere() {
    if harness::on_hardware() {
        return;
    }
    // A copy of the distribution's libraries in a folder of its own, as `dpkg-deb -x` makes it.
    let run = Run::hip("vectors");
    let lib = run.file("rocm/usr/lib/x86_64-linux-gnu");
    fs::create_dir_all(&lib).unwrap();
    let output =
        Command::new("ldconfig").arg("-p").output().or_else(|_| Command::new("/sbin/ldconfig").arg("-p").output());
    let cache = String::from_utf8(output.unwrap().stdout).unwrap();
    for name in ["libhsa-runtime64.so.1", "libhsakmt.so.1", "libamdhip64.so.5"] {
        let Some(path) = cache.lines().find(|l| l.trim().starts_with(name)).and_then(|l| l.split(" => ").nth(1)) else {
            continue;
        };
        fs::copy(path, lib.join(name)).unwrap();
    }
    let rocm = run.file("rocm");
    let log = run.file("log.csv");
    let run = run.probed(&["--rocm", rocm.to_str().unwrap(), "-l", log.to_str().unwrap()]).passed();
    assert_eq!(run.log().account()["logged"], versions::kernels_of_vectors());
}

#[test]
fn a_process_that_uses_no_gpu_pays_nothing_for_the_emulator() {
    if harness::on_hardware() {
        return;
    }
    let run = Run::new("/bin/cat".into()).args(["/proc/self/status"]);
    let tree = run.file("tree");
    let run = run.env("KFDEMU_TREE", &tree).bare();
    assert!(run.stdout.contains("Threads:\t1\n"), "{}", run.stdout);
    assert!(!tree.exists(), "the device tree was made for a process that never looked at it");
}

#[test]
fn the_runtime_can_be_started_and_shut_down_again_and_again() {
    let rounds = harness::count(20, 100);
    let run = || Run::hsa("restart").args([rounds.to_string()]);
    let (bare, watched) = (run().bare().passed(), run().watched().passed());
    let log = watched.log();
    assert_eq!((log.account()["logged"], log.rows_of("increment").len()), (rounds as u64, rounds));
    // ROCr 7.2 warns of signals of its own.
    assert_eq!(watched.stderr, bare.stderr);
}

#[test]
fn the_hip_runtime_can_be_loaded_and_unloaded_again_and_again() {
    let run = || {
        let run = Run::hsa("reloaded").args(["3"]);
        let kernels = harness::kernels(&harness::arch());
        run.env("TEST_KERNELS", kernels)
    };
    let (bare, watched) = (run().bare().passed(), run().watched().passed());
    assert_eq!(watched.stderr, bare.stderr);
    assert_eq!(watched.log().rows_of("increment").len(), 3);
}

#[test]
fn a_forks_child_goes_on_unwatched_and_the_parent_is_logged() {
    for mode in ["exit", "_exit", "exec"] {
        let run = || Run::hsa("forks").args([mode]);
        let (bare, watched) = (run().bare().passed(), run().watched().passed());
        assert_eq!(watched.log().account()["logged"], 2, "{mode}");
        assert_eq!(watched.stderr, bare.stderr, "{mode}");
    }
}

/// What the system refuses the library, a part of what is said of it, and whether dispatches are seen all the same.
const REFUSED: [(&str, &str, bool); 6] = [
    ("threads", "the thread logdur-reaper could not be started", false),
    ("mappings", "rows that are not yet written would not survive a crash", true),
    ("room", "rows that are not yet written would not survive a crash", true),
    ("watches", "cache: later changes are not seen", true),
    ("process", "", true),
    ("files", "rows are lost", false),
];

#[test]
fn what_the_system_refuses_the_library_is_a_notice_and_the_application_runs_as_without_it() {
    let preload = harness::library("refusing.c");
    for (kind, notice, seen) in REFUSED {
        // Signals of its own, one for several dispatches, and a runtime that waits for its own.
        for run in [|| Run::hsa("signals").args(["shared", "200"]), || Run::hip("vectors")] {
            let bare = run().bare().passed();
            let run = run();
            let (cache, capture, indexes) = (run.file("cache"), run.file("one.ldcap"), run.file("indexes"));
            fs::create_dir(&cache).unwrap();
            fs::copy(harness::hip_object("kernels", &harness::arch(), "-O1"), cache.join("kernels.hsaco")).unwrap();
            let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("LOGDUR_CAPTURE", &capture).env("REFUSED", kind);
            let preloads = [Some(preload.clone()), (!harness::on_hardware()).then(|| built("libkfdemu.so"))];
            let preloads: Vec<String> = preloads.iter().flatten().map(|p| p.display().to_string()).collect();
            let log = run.file("log.csv");
            let run = run.env("XDG_CACHE_HOME", indexes).env("LD_PRELOAD", preloads.join(":")).watched().passed();
            assert_eq!(run.stdout, bare.stdout, "{kind}");
            let log = fs::read_to_string(log).unwrap_or_default();
            let rows = log.lines().filter(|line| line.starts_with('"')).count();
            assert_eq!(rows > 0, seen, "{kind}: {log}");
            assert!(log.contains(notice) || run.stderr.contains(notice), "{kind}: {log}{}", run.stderr);
        }
    }
}

/// The outcome of a program with a limit of descriptors, and of the same with the library, which is asked for much.
fn with_descriptors(limit: u32, program: &Path, arguments: &str) -> (Outcome, Option<Outcome>) {
    let run = || {
        let script = format!("ulimit -n {limit}; exec {} {arguments}", program.display());
        Run::new("/bin/sh".into()).args(["-c", &script])
    };
    let bare = run().bare();
    if !bare.status.success() {
        return (bare, None);
    }
    let run = run();
    let (cache, capture, indexes) = (run.file("cache"), run.file("one.ldcap"), run.file("indexes"));
    fs::create_dir(&cache).unwrap();
    fs::copy(harness::hip_object("kernels", &harness::arch(), "-O1"), cache.join("kernels.hsaco")).unwrap();
    let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("LOGDUR_CAPTURE", &capture).env("LOGDUR_LOG", "info");
    (bare, Some(run.env("XDG_CACHE_HOME", indexes).watched()))
}

#[test]
fn a_program_that_runs_with_few_descriptors_runs_so_with_the_library_and_features_are_off_by_name() {
    let rows = versions::kernels_of_vectors() as usize;
    for (program, arguments, rows) in [(harness::hsa("signals"), "none 20", 20), (harness::hip("vectors"), "", rows)] {
        let mut enough = None;
        for limit in 6..=40 {
            // The first ones that suffice are the narrow ones.
            if harness::count(0, 1) == 0 && enough.is_some_and(|enough| limit > enough + 3 && limit % 7 != 0) {
                continue;
            }
            let (bare, watched) = with_descriptors(limit, &program, arguments);
            let Some(watched) = watched else { continue };
            enough.get_or_insert(limit);
            assert_eq!(
                (watched.status, &watched.stdout, &watched.stderr),
                (bare.status, &bare.stdout, &bare.stderr),
                "{} with {limit} descriptors",
                program.display()
            );
            let log = watched.log();
            assert_eq!(log.rows.len(), rows, "{limit} descriptors");
            let off = log.notices.iter().any(|notice| {
                notice.starts_with("LOGDUR_CAPTURE, LOGDUR_KERNEL_CACHE, LOGDUR_LOG: off")
                    && notice.contains("ulimit -n")
            });
            assert_eq!(off, !watched.folder.path().join("one.ldcap").exists(), "{limit}: {:?}", log.notices);
            assert!(off || limit > 20, "{limit} descriptors: {:?}", log.notices);
        }
        assert!(enough.is_some(), "{} never ran", program.display());
    }
}
