//! The library in an application's process: how it gets in, and what it leaves alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::harness::{self, Outcome, Run, built};
use crate::support::versions;

/// Runs with `HSA_TOOLS_LIB` set to some text.
fn with_tools_lib(run: Run, text: &str) -> crate::support::harness::Outcome {
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

#[test]
fn a_program_under_a_sanitizer_runs_and_is_watched_as_it_is_without() {
    let compiler = Command::new("cc").arg("-print-file-name=libasan.so").output().unwrap();
    let asan = String::from_utf8(compiler.stdout).unwrap();
    // The runtime itself leaks.
    let options = "detect_leaks=0";
    for sanitizer in ["address", "undefined"] {
        let signals = harness::hsa_sanitized("signals", sanitizer);
        let log = |run: Run| {
            let log = run.file("log.csv");
            run.env("ASAN_OPTIONS", options).probed(&["-l", log.to_str().unwrap()]).passed().log().account()["logged"]
        };
        let logged = log(Run::hsa("signals").args(["shared", "20"]));
        assert!(logged > 0);
        assert_eq!(log(Run::new(signals.clone()).args(["shared", "20"])), logged, "{sanitizer}");
        // A script that knows nothing of us.
        let script = format!("ASAN_OPTIONS={options} {} shared 20", signals.display());
        assert_eq!(log(Run::new("/bin/sh".into()).args(["-c", &script])), logged, "{sanitizer}");
        let unwatched = Run::new(harness::hsa_sanitized("unwatched", sanitizer)).env("ASAN_OPTIONS", options);
        let path = unwatched.file("log.csv");
        let run = unwatched.probed(&["-l", path.to_str().unwrap()]).passed();
        assert!(versions::hip() < (5, 3) || run.log().account()["logged"] == 1, "{sanitizer}");
    }
    // Preloaded by the user: it stays the first.
    let run = Run::hsa("signals").args(["shared", "20"]);
    let (log, mut command) = (run.file("log.csv"), run.omniprobe());
    command.args(["-l", log.to_str().unwrap(), "--emulate", &harness::arch(), "--", "/usr/bin/env"]);
    command.env("LD_PRELOAD", asan.trim()).env("ASAN_OPTIONS", options);
    let listed = run.finish(command).stdout;
    let preloads = listed.lines().find_map(|line| line.strip_prefix("LD_PRELOAD=")).unwrap();
    assert!(preloads.starts_with(asan.trim()) && preloads.ends_with("liblogdur.so"), "{preloads}");
}

#[test]
fn our_threads_have_their_stacks_beside_large_thread_local_storage_of_the_application() {
    let run = || Run::hip("static_tls");
    run().bare().passed();
    let watched = run();
    let capture = watched.file("one.ldcap");
    let watched = watched.env("LOGDUR_CAPTURE", &capture).watched().passed();
    assert!(capture.exists() && watched.log().rows_of("add_one").len() == 1);
}

#[test]
fn a_runtime_that_is_loaded_with_deepbind_has_the_emulated_gpu_and_one_in_its_own_namespace_is_named() {
    if harness::on_hardware() {
        return;
    }
    let run = |how: &str| Run::new(harness::loading("namespaces")).args([how]).bare().passed();
    for how in ["usual", "deep"] {
        assert!(run(how).stdout.contains("1 GPUs\n"), "{how}");
    }
    let own = run("own");
    assert!(own.stdout.contains("0 GPUs\n"), "{}", own.stdout);
    let said = own.read("kfdemu.log");
    assert!(said.contains("was loaded by dlmopen into a namespace of its own"), "{said}");
    let own = Run::new(harness::loading("namespaces")).args(["own"]).probed::<&str>(&[]).passed();
    assert!(
        own.stderr.contains(
            ", in a namespace of its own (dlmopen) that preloaded libraries are not in, did not load liblogdur.so"
        ),
        "{}",
        own.stderr
    );
}

/// Bytes of its stack that a call may need more than without the library.
const MORE_STACK: u64 = 1024;

#[test]
fn calls_from_a_thread_with_a_small_stack_need_hardly_more_of_it_than_without_the_library() {
    let used = |outcome: Outcome| -> Vec<(String, u64)> {
        let calls = outcome.stdout.lines().filter_map(|line| line.split_once(' '));
        calls.map(|(call, bytes)| (call.to_owned(), bytes.parse().unwrap())).collect()
    };
    let bare = used(Run::hsa("small_stacks").bare().passed());
    assert_eq!(bare.len(), 10);
    for features in [false, true] {
        let mut run = Run::hsa("small_stacks");
        if features {
            let (cache, capture, indexes) = (run.file("cache"), run.file("one.ldcap"), run.file("indexes"));
            fs::create_dir(&cache).unwrap();
            fs::copy(harness::hip_object("kernels", &harness::arch(), "-O1"), cache.join("kernels.hsaco")).unwrap();
            run = run.env("LOGDUR_KERNEL_CACHE", cache).env("LOGDUR_CAPTURE", capture).env("LOGDUR_COPIES", "1");
            run = run.env("XDG_CACHE_HOME", indexes);
        }
        for ((call, bytes), (_, before)) in used(run.watched().passed()).iter().zip(&bare) {
            assert!(*bytes <= before + MORE_STACK, "{call}: {bytes} bytes of stack, {before} without the library");
        }
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
