//! Captures: what is in the file is what the program gave to the GPU and what the GPU made of it, and the program does not
//! notice.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use logdur_capture::{Dispatch, End, Id, Note, Placed, Reader, Scope, SnapshotId};

use crate::replay::verify::{ended, json, on_file};
use crate::support::captures;
use crate::support::harness::{self, Outcome, Run, built};

/// A run that is captured.
fn captured(run: Run) -> (Outcome, Reader) {
    let file = run.file("run.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).watched().passed();
    let reader = Reader::open(&file).unwrap_or_else(|e| panic!("{e}: {:?}", run.log().notices));
    let report = reader.check();
    assert!(report.is_clean(), "{report:?}");
    (run, reader)
}

/// The one dispatch of a kernel.
fn of<'a>(reader: &'a Reader, symbol: &str) -> &'a Placed<Dispatch> {
    let number = |d: &Placed<Dispatch>| d.replaced_kernel.unwrap_or(d.kernel);
    let named =
        |d: &&Placed<Dispatch>| reader.records().kernels.iter().any(|k| k.id == number(d) && k.symbol == symbol);
    let mut all = reader.dispatches().iter().filter(named);
    let (first, second) = (all.next(), all.next());
    assert!(second.is_none(), "{symbol} is there more than once");
    first.unwrap_or_else(|| panic!("{symbol} was not captured"))
}

/// Numbers in a snapshot, from an address on.
fn numbers(reader: &Reader, snapshot: Option<SnapshotId>, address: u64, count: usize) -> Vec<i32> {
    let mut bytes = vec![0; 4 * count];
    reader.snapshot(snapshot.unwrap()).unwrap().read(address, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// The argument at an offset, an address.
fn pointer(dispatch: &Dispatch, at: usize) -> u64 {
    u64::from_le_bytes(dispatch.kernarg[at..at + 8].try_into().unwrap())
}

#[test]
fn memory_is_captured_as_it_was_before_the_kernel_and_as_the_kernel_left_it() {
    for arch in harness::archs() {
        let (run, reader) = captured(Run::hip("swaps").arch(&arch).args(["plain", "placed", "tiled"]));
        let log = run.log();
        assert_eq!(log.account()["logged"], log.rows.len() as u64);
        let start: Vec<i32> = (0..256).map(|i| i % 7).collect();
        type After = fn(i32) -> i32;
        let expected: [(&str, After); 3] =
            [("plain", |i| i / 128), ("placed", |i| 2_128_000 + i / 128 + 7), ("tiled", |i| 127 - i % 128 + 496)];
        for (kernel, after) in expected {
            let dispatch = of(&reader, kernel);
            let out = pointer(dispatch, 0);
            assert_eq!(numbers(&reader, dispatch.before, out, 256), start, "{kernel} on {arch}");
            let after: Vec<i32> = (0..256).map(after).collect();
            assert_eq!(numbers(&reader, dispatch.after, out, 256), after, "{kernel} on {arch}");
            assert_eq!((dispatch.scope, dispatch.occurrence), (Scope::All, 1));
            // The row has the same times, and the code that ran is there.
            let row = log.rows_of(kernel)[0];
            assert_eq!(row.number("id"), dispatch.id);
            // The relation of the clocks may have been measured anew between the two: a rounding apart.
            let [captured, logged] = [dispatch.end_ns - dispatch.start_ns, row.number("durationNs")];
            assert!(captured.abs_diff(logged) <= 1, "{kernel}: {captured} and {logged}");
            assert_eq!(Id::of(&reader.code_object(dispatch.code_object).unwrap()), dispatch.code_object);
        }
        let session = &reader.sessions()[0];
        assert!(
            session.exe.ends_with("/swaps") && session.arguments[1..] == ["plain", "placed", "tiled"],
            "{session:?}"
        );
        assert!(reader.records().agents[0].isa.contains(&arch), "{:?}", reader.records().agents[0]);
    }
}

#[test]
fn the_packet_is_the_one_that_the_gpu_took() {
    if harness::on_hardware() {
        return;
    }
    let (run, reader) = captured(Run::hip("swaps").args(["plain", "registers", "scratch"]));
    for kernel in ["plain", "registers", "scratch"] {
        let dispatch = of(&reader, kernel);
        let words: String = dispatch
            .packet
            .0
            .chunks_exact(4)
            .map(|w| format!("{:08x}", u32::from_le_bytes(w.try_into().unwrap())))
            .collect();
        // All but the completion signal: the program's kernels have none, and get one of ours.
        let same = |line: &serde_json::Value| line["words"].as_str().is_some_and(|w| w[..112] == words[..112]);
        assert_eq!(run.trace().iter().filter(|line| same(line)).count(), 1, "{kernel}: {words}");
    }
}

#[test]
fn programs_do_not_notice_that_their_dispatches_are_captured() {
    let programs = [
        "vectors",
        "atomics",
        "calls",
        "functions",
        "groups",
        "lanes",
        "local_memory",
        "matrices",
        "modules",
        "printing",
    ];
    for program in programs {
        let bare = Run::hip(program).bare().passed();
        let (run, reader) = captured(Run::hip(program));
        assert_eq!(run.stdout, bare.stdout, "{program}");
        let log = run.log();
        assert!(log.notices.iter().any(|n| n.ends_with(" 0 losses")), "{program}: {:?}", log.notices);
        let geometries: BTreeSet<[&str; 3]> =
            log.rows.iter().map(|r| ["kernel", "grid", "workgroup"].map(|c| r.text(c))).collect();
        assert_eq!(reader.dispatches().len(), geometries.len(), "{program}: the first of each kernel and geometry");
        assert!(
            reader.dispatches().iter().all(|d| d.before.is_some() && d.after.is_some() && d.end_ticks > d.start_ticks)
        );
    }
}

#[test]
fn signals_producers_and_queues_of_every_kind_lose_nothing_while_they_are_captured() {
    for (program, arguments, dispatches) in [
        ("producers", "packets=300 slots=64 threads=3 signal=mixed", 900),
        ("producers", "packets=200 slots=64 threads=2 batch=16 ring=late index=cas", 400),
        ("signals", "own 40", 40),
        ("signals", "shared 80", 80),
        ("packets", "all", 114),
    ] {
        let run = Run::hsa(program).args(arguments.split(' ')).env("LOGDUR_CAPTURE_DISPATCHES", "every:50");
        let (run, reader) = captured(run);
        assert_eq!(run.log().account()["logged"], dispatches, "{program} {arguments}");
        assert!(run.log().rows.iter().all(|r| r.flags().is_empty()), "{program} {arguments}");
        assert!(!reader.dispatches().is_empty(), "{program} {arguments}: {:?}", run.log().notices);
    }
}

#[test]
fn selectors_choose_kernels_geometries_and_occurrences() {
    let dispatches = |variables: &[(&str, &str)]| {
        let names = ["plain", "tiled", "plain", "bounded128", "bounded64", "plain"];
        let run = variables.iter().fold(Run::hip("swaps").args(names), |run, (name, value)| run.env(name, value));
        let (_, reader) = captured(run);
        let name =
            |d: &Placed<Dispatch>| reader.records().kernels.iter().find(|k| k.id == d.kernel).unwrap().symbol.clone();
        reader
            .dispatches()
            .iter()
            .map(|d| format!("{} {}", name(d), d.occurrence))
            .filter(|n| !n.starts_with("__amd"))
            .collect::<Vec<_>>()
    };
    assert_eq!(dispatches(&[]), ["plain 1", "tiled 1", "bounded 1", "bounded 1"]);
    let kernels = [("LOGDUR_CAPTURE_KERNELS", "^(plain|tiled)$"), ("LOGDUR_CAPTURE_DISPATCHES", "2-3")];
    assert_eq!(dispatches(&kernels), ["plain 2", "plain 3"]);
    assert_eq!(dispatches(&[("LOGDUR_CAPTURE_GRID", "128")]), ["bounded 1"]);
    assert_eq!(dispatches(&[("LOGDUR_CAPTURE_EXCLUDE", "^(bounded|tiled)$")]), ["plain 1"]);
    let odd = [("LOGDUR_CAPTURE_KERNELS", "plain"), ("LOGDUR_CAPTURE_DISPATCHES", "every:2")];
    assert_eq!(dispatches(&odd), ["plain 1", "plain 3"]);
    assert_eq!(dispatches(&[("LOGDUR_CAPTURE_DEVICE", "1")]), [] as [&str; 0]);
}

#[test]
fn the_scope_says_how_much_memory_is_captured() {
    let sizes = |scope: &str| {
        let run = Run::hip("swaps")
            .args(["scratch"])
            .env("LOGDUR_CAPTURE_SCOPE", scope)
            .env("LOGDUR_CAPTURE_KERNELS", "scratch");
        let (_, reader) = captured(run);
        let dispatch = of(&reader, "scratch");
        let ranges = dispatch.before.map(|id| reader.snapshot(id).unwrap().ranges()).unwrap_or_default();
        let holds = |at: u64| ranges.iter().any(|range| range.contains(&at));
        (ranges.len(), [0, 8].map(|at| holds(pointer(dispatch, at))))
    };
    assert_eq!(sizes("kernarg"), (0, [false, false]));
    assert_eq!(sizes("args").1, [true, true]);
    assert_eq!(sizes("reachable").1, [true, true]);
    let all = sizes("all");
    assert!(all.1 == [true, true] && all.0 >= sizes("args").0, "{all:?}");
}

#[test]
fn a_kernel_that_waits_for_what_is_held_runs_uncaptured_and_nothing_hangs() {
    let run = Run::hsa("overlap").args(["queues", "3"]);
    let file = run.file("run.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).watched().passed();
    let log = run.log();
    log.account();
    assert!(log.notices.iter().any(|n| n.contains("not captured: ")), "{:?}", log.notices);
    let reader = Reader::open(&file).unwrap();
    assert!(!reader.notes().is_empty());
    // Of one queue alone it can be told.
    let (_, reader) = captured(Run::hsa("overlap").args(["queues", "3"]).env("LOGDUR_CAPTURE_QUIESCE", "queue"));
    assert!(reader.notes().len() + reader.dispatches().len() > 0);
}

#[test]
fn a_kernel_that_waits_for_a_thread_of_the_program_is_captured() {
    let (run, reader) = captured(Run::hip("rough").args(["flag"]));
    assert!(run.log().notices.iter().any(|n| n.ends_with(" 0 not captured, 0 losses")), "{:?}", run.log().notices);
    let waited = of(&reader, "_Z15wait_then_writePKiPiS1_");
    assert_eq!(numbers(&reader, waited.after, pointer(waited, 8), 64), [1; 64]);
}

#[test]
fn a_kernel_that_runs_longer_than_the_limit_without_progress_is_captured_if_nothing_else_is_held() {
    // Every kernel is longer, and the second is behind the first.
    let run = Run::hip("rough").args(["flag", "flag"]).env("LOGDUR_CAPTURE_MAX_STALL", "0");
    let run = run.env("LOGDUR_CAPTURE_KERNELS", "wait_then_write").env("LOGDUR_CAPTURE_DISPATCHES", "1,2");
    let (run, reader) = captured(run);
    assert!(run.log().notices.iter().any(|n| n.ends_with(" 0 not captured, 0 losses")), "{:?}", run.log().notices);
    assert_eq!(reader.dispatches().iter().filter(|d| d.end_ticks > d.start_ticks).count(), 2);
}

#[test]
fn a_kernel_that_waits_for_one_of_another_queue_goes_on_after_the_time_limit() {
    let limit = "made no progress for 5 s, the limit of LOGDUR_CAPTURE_MAX_STALL";
    let (run, reader) = captured(Run::hip("rough").args(["other"]).env("LOGDUR_CAPTURE_KERNELS", "wait_then_write"));
    assert_eq!(reader.dispatches().len(), 0);
    assert!(reader.notes().iter().any(|n| n.code == "untaken" && n.text.contains(limit)), "{:?}", reader.notes());
    assert!(run.log().rows_of("wait_then_write(int const*, int*, int*)")[0].number("durationNs") > 4_000_000_000);
}

#[test]
fn a_kernel_behind_a_barrier_for_another_queues_held_kernel_is_captured_when_it_runs() {
    let run = Run::hip("rough").args(["chained"]).env("LOGDUR_CAPTURE_KERNELS", "add_one");
    let (run, reader) = captured(run.env("LOGDUR_CAPTURE_DISPATCHES", "1-12"));
    assert!(run.log().notices.iter().any(|n| n.ends_with(" 0 not captured, 0 losses")), "{:?}", run.log().notices);
    assert_eq!(reader.dispatches().len(), 12);
    for dispatch in reader.dispatches() {
        let [before, after] =
            [dispatch.before, dispatch.after].map(|memory| numbers(&reader, memory, pointer(dispatch, 0), 64));
        assert!(before.iter().zip(&after).all(|(before, after)| before + 1 == *after), "{}", dispatch.id);
        assert!(dispatch.end_ticks > dispatch.start_ticks, "{}", dispatch.id);
    }
}

#[test]
fn memory_that_was_unmapped_while_the_gpu_had_it_is_named_and_the_rest_is_captured() {
    let (run, reader) = captured(Run::hip("rough").args(["unmapped"]));
    let notes: Vec<_> = reader.notes().iter().filter(|n| n.text.contains("could not be read")).collect();
    // Of four pages, the first is there. Mappings of the runtime may have taken the places of others.
    let bytes = |note: &Placed<Note>| note.text.split_once(" bytes at 0x").unwrap().0.parse::<u64>().unwrap();
    assert!((4096..=3 * 4096).contains(&notes.iter().map(|note| bytes(note)).sum::<u64>()), "{notes:?}");
    let notices = run.log().notices;
    assert!(notes.iter().all(|note| notices.iter().any(|n| n.contains(&note.text))), "{notices:?}");
    let added = of(&reader, "_Z7add_onePi");
    assert!(!reader.snapshot(added.before.unwrap()).unwrap().is_complete());
    assert_eq!(numbers(&reader, added.after, pointer(added, 0), 64), [1; 64]);
}

#[test]
fn queues_whose_dispatches_cannot_be_captured_are_named() {
    let run = Run::hip("swaps").env("LOGDUR_QUEUE_MODE", "intercept");
    let (run, reader) = captured(run);
    let log = run.log();
    if log.notices.iter().any(|n| n.starts_with("LOGDUR_QUEUE_MODE=intercept: ")) {
        // This runtime's are known to fail, and are not used.
        return;
    }
    assert_eq!(reader.dispatches().len(), 0);
    assert!(log.notices.iter().any(|n| n.contains("its dispatches are not captured")), "{:?}", log.notices);
    assert_eq!(log.account()["logged"], log.rows.len() as u64);
}

#[test]
fn limits_stop_the_capture_and_the_program_goes_on() {
    let (run, reader) = captured(Run::hip("swaps").env("LOGDUR_CAPTURE_MAX_BYTES", "4K"));
    let notices = run.log().notices;
    for text in ["not captured: a dispatch of ", "nothing more is captured: the file has 4096 bytes"] {
        assert!(notices.iter().any(|n| n.contains(text)), "{notices:?}");
    }
    assert_eq!(reader.dispatches().len(), 0, "its code alone is larger");
    let run = Run::hip("swaps").env("LOGDUR_CAPTURE", "/nonexistent/run.ldcap").watched().passed();
    let said = "LOGDUR_CAPTURE: /nonexistent/run.ldcap: No such file or directory (os error 2); nothing is captured";
    assert!(run.log().notices.iter().any(|n| n == said), "{:?}", run.log().notices);
}

#[test]
fn a_swapped_kernel_is_captured_as_it_ran_and_the_applications_own_is_named() {
    let object = harness::hip_object("swaps", &harness::arch(), "-DOTHER -O3");
    let run = Run::hip("swaps").args(["plain", "wider"]);
    let cache = run.file("cache");
    std::fs::create_dir(&cache).unwrap();
    std::fs::copy(&object, cache.join("o.hsaco")).unwrap();
    let indexes = run.file("indexes");
    let (run, reader) = captured(run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes));
    assert!(run.stdout.starts_with("plain other\nwider original\n"), "{}", run.stdout);
    let (plain, wider) = (of(&reader, "plain"), of(&reader, "wider"));
    assert_eq!(plain.code_object, Id::of(&std::fs::read(&object).unwrap()));
    assert_eq!(plain.replaced, Some(wider.code_object));
    assert_eq!(wider.replaced, None);
    let expected: Vec<i32> = (0..256).map(|i| 1000 + i / 128).collect();
    assert_eq!(numbers(&reader, plain.after, pointer(plain, 0), 256), expected);
}

#[test]
fn what_did_not_change_costs_nothing() {
    let size = |dispatches: &str| {
        let run = Run::hip("swaps").args(["plain"; 12]).env("LOGDUR_CAPTURE_DISPATCHES", dispatches);
        let run = run.env("LOGDUR_CAPTURE_KERNELS", "^plain$");
        let (run, reader) = captured(run.env("LOGDUR_CAPTURE_COMPRESS", "none"));
        (run.folder.path().join("run.ldcap").metadata().unwrap().len(), reader.dispatches().len())
    };
    let ((one, first), (many, twelve)) = (size("1"), size("1-12"));
    assert_eq!((first, twelve), (1, 12));
    // A chunk of 64 KiB for each buffer that a launch fills, and the records.
    assert!(many - one < 11 * (3 << 16), "{one} bytes for one, {many} for twelve");
}

#[test]
fn a_second_capture_in_much_memory_costs_what_changed() {
    const CHANGED: u64 = 1 << 20;
    let mebibytes = harness::count(64, 2048) as u64;
    let size = |dispatches: &str, count: usize| {
        let run = Run::hip("rough").args([format!("large={mebibytes}")]).env("LOGDUR_CAPTURE_KERNELS", "add_one");
        let run = run.env("LOGDUR_CAPTURE_DISPATCHES", dispatches).env("LOGDUR_CAPTURE_COMPRESS", "none");
        let (run, reader) = captured(run);
        assert_eq!(reader.dispatches().len(), count, "{:?}", run.log().notices);
        run.folder.path().join("run.ldcap").metadata().unwrap().len()
    };
    let (one, both) = (size("1", 1), size("1-2", 2));
    assert!(one > mebibytes << 20, "{one} bytes");
    // The records, and the chunks of 64 KiB in which the runtime's own memory has changed.
    assert!(both - one <= CHANGED + CHANGED / 100 + (512 << 10), "{one} bytes for one, {both} for two");
}

#[test]
fn the_process_ends_when_enough_is_captured_and_the_file_and_the_log_are_whole() {
    let run = Run::hip("swaps");
    let (file, log) = (run.file("run.ldcap"), run.file("log.csv"));
    let (file_name, log_name) = (file.to_string_lossy(), log.to_string_lossy());
    let run = run.probed(&["--capture", &file_name, "--capture-quit", "2", "-l", &log_name]);
    assert_eq!(run.status.signal(), Some(libc::SIGTERM), "{}", run.stderr);
    let reader = Reader::open(&file).unwrap();
    assert!(reader.check().is_clean());
    assert_eq!(reader.end(), &End::Finished);
    assert_eq!(reader.dispatches().len(), 2);
    let log = run.log();
    let timed = log.rows.iter().filter(|row| !row.text("durationNs").is_empty()).count();
    assert!(timed >= 2, "{:?}", log.rows);
    assert!(log.notices.iter().any(|n| n.contains("LOGDUR_CAPTURE_QUIT=2")), "{:?}", log.notices);
}

/// The notices of a capture, and what is in it.
pub(crate) fn loads(ways: &[&str], object: Option<&Path>) -> (Outcome, Reader, PathBuf) {
    let (tool, ours) = (harness::library("tool_unseen.cpp"), built("liblogdur.so"));
    let run = Run::hsa("loads").args(ways).env("TEST_UNSEEN", &tool);
    let run = run.env("HSA_TOOLS_LIB", format!("{} {}", tool.display(), ours.display()));
    let run = run.env("TEST_OTHER", harness::hip_object("swaps", &harness::arch(), "-O2"));
    let run = if let Some(object) = object { run.env("TEST_KERNELS", object).env("TEST_STACKS", "1") } else { run };
    let run = run.env("LOGDUR_CAPTURE_DISPATCHES", "1-100");
    let file = run.file("run.ldcap");
    let (run, reader) = captured(run);
    (run, reader, file)
}

#[test]
fn code_is_captured_whatever_way_it_came_into_an_executable() {
    let ways = ["agent-memory", "agent-file", "program", "deserialized", "two", "unseen"];
    let (run, reader, file) = loads(&ways, None);
    let log = run.log();
    // A runtime may have no code for programs.
    let loaded = run.stdout.lines().filter(|line| line.ends_with(": run")).count();
    assert!(loaded >= ways.len() - 1, "{}", run.stdout);
    assert!(
        log.notices.iter().all(|n| !n.contains("cannot be replayed") || n.contains("not known")),
        "{:?}",
        log.notices
    );
    // What was loaded and frozen past the hooks is not known before the next executable is frozen.
    let code = fs::read(harness::kernels(&harness::arch())).unwrap();
    let seen: Vec<_> = reader.dispatches().iter().filter(|d| !d.code_object.is_none()).collect();
    assert_eq!(seen.len(), loaded - 1);
    for dispatch in &seen {
        assert_eq!(dispatch.code_object, Id::of(&code));
    }
    let passes: Vec<String> = seen.iter().flat_map(|d| ["-d".to_owned(), d.id.to_string()]).collect();
    let mut options: Vec<&str> = passes.iter().map(String::as_str).collect();
    options.extend(["--backend", "emu"]);
    let verified = on_file(Run::new(built("omniprobe")), "verify", &file, "", &options);
    assert_eq!(verified.status.code(), Some(0), "{}{}", verified.stdout, verified.stderr);
    assert_lacks_one(&run, &file, "is not known to the loader, or was loaded before its code could be seen");
}

/// One dispatch lacks something: the notice, `info` and `fsck` say so.
fn assert_lacks_one(run: &Outcome, file: &Path, what: &str) {
    let notices = run.log().notices;
    assert!(notices.iter().any(|n| n.contains("cannot be replayed: ") && n.contains(what)), "{notices:?}");
    assert!(notices.iter().any(|n| n.ends_with(" 0 not captured, 1 losses")), "{notices:?}");
    let looked = on_file(Run::new(built("omniprobe")), "fsck", file, "", &[]);
    assert_eq!(looked.status.code(), Some(9), "{}", looked.stdout);
    assert!(looked.stdout.contains(what) && looked.stdout.contains("1 of "), "{}", looked.stdout);
    let told = on_file(Run::new(built("omniprobe")), "info", file, "", &[]);
    let all = Reader::open(file).unwrap().dispatches().len();
    let complete = format!("{} of {all} dispatches have all that a replay needs", all - 1);
    assert!(told.stdout.contains(&complete) && told.stdout.contains("cannot be replayed"), "{}", told.stdout);
    assert!(told.stdout.contains(what), "{}", told.stdout);
}

#[test]
fn code_that_is_gone_before_it_could_be_seen_is_a_loss_that_has_a_name() {
    // If the program is interrupted between two of its calls, a thread of the library may look in time.
    let lacks = |(run, ..): &(Outcome, _, _)| run.log().notices.iter().any(|n| n.ends_with(" 2 losses"));
    let (run, reader, file) = (0..4).map(|_| loads(&["forgotten"], None)).find(lacks).expect("code that was not seen");
    assert_eq!(run.log().rows[0].text("kernel"), "increment");
    assert_eq!(reader.dispatches().len(), 1);
    let notices = run.log().notices;
    assert!(notices.iter().any(|n| n.ends_with(" 0 not captured, 2 losses")), "{notices:?}");
    let looked = on_file(Run::new(built("omniprobe")), "fsck", &file, "", &[]);
    assert_eq!(looked.status.code(), Some(9), "{}", looked.stdout);
    assert!(
        looked.stdout.contains("increment: its code object was loaded in a way that is not seen"),
        "{}",
        looked.stdout
    );
}

/// Code objects of `kernels.hip` whose descriptors say that kernels have no arguments, as Tensile's do; `name`, and whether
/// the metadata is there.
fn without_sizes(run: &Run, with_metadata: bool) -> PathBuf {
    let path = run.file("without.hsaco");
    fs::write(&path, sizeless(&harness::kernels(&harness::arch()), with_metadata)).unwrap();
    path
}

fn sizeless(object: &Path, with_metadata: bool) -> Vec<u8> {
    let mut code = fs::read(object).unwrap();
    for kernel in amdgpu_code_object::CodeObject::parse(&code).unwrap().kernels {
        let at = captures::offset_of(&code, &kernel.symbol);
        // AMDGPUUsage, "Kernel Descriptor": KERNARG_SIZE is at byte 8.
        assert_eq!(code[at + 8..at + 12], kernel.kernarg_size.to_le_bytes(), "{}", kernel.name);
        code[at + 8..at + 12].fill(0);
    }
    if !with_metadata {
        // NT_AMDGPU_METADATA is 32; of another type, no reader takes it.
        let at = code.windows(20).position(|w| w[8..12] == [32, 0, 0, 0] && &w[12..19] == b"AMDGPU\0").unwrap();
        code[at + 8] = 77;
    }
    code
}

#[test]
fn kernels_whose_descriptor_says_nothing_of_arguments_have_those_of_the_metadata() {
    let scratch = Run::hsa("loads");
    let object = without_sizes(&scratch, true);
    let code = amdgpu_code_object::CodeObject::parse(&fs::read(&object).unwrap()).unwrap();
    let expected = code.kernel("increment").unwrap().kernarg_size;
    assert!(expected >= 8);
    // Rows alone, too.
    let logged = Run::hsa("loads").args(["deserialized"]).env("TEST_KERNELS", &object).watched().passed();
    assert_eq!(logged.log().rows[0].number("kernargBytes"), u64::from(expected));
    let (run, reader, file) = loads(&["agent-memory"], Some(&object));
    assert_eq!(run.log().rows[0].number("kernargBytes"), u64::from(expected));
    assert_eq!(reader.dispatches()[0].kernarg.len(), expected as usize);
    for options in [&["--backend", "emu", "--json"][..], &["--json"]] {
        let verified = json(&on_file(Run::new(built("omniprobe")), "verify", &file, &harness::arch(), options));
        assert_eq!(
            (&verified["result"], &verified["qualified"]),
            (&"PASS".into(), &serde_json::json!([])),
            "{verified:#}"
        );
    }
}

#[test]
fn arguments_of_which_nothing_tells_the_size_are_captured_as_far_as_their_memory_goes_and_qualified() {
    let scratch = Run::hsa("loads");
    let object = without_sizes(&scratch, false);
    let (run, reader, _) = loads(&["agent-memory"], Some(&object));
    assert_eq!(run.log().rows[0].text("kernargBytes"), "");
    // The program has allocated so many bytes for them.
    assert_eq!(reader.dispatches()[0].kernarg.len(), 4096);
    assert!(run.log().notices.iter().any(|n| n.ends_with(" 0 not captured, 0 losses")), "{:?}", run.log().notices);
    let note = reader.notes().iter().find(|note| note.code == logdur_capture::KERNARG_EXTENT).unwrap();
    assert_eq!(note.dispatch, Some(reader.dispatches()[0].id));
    assert!(note.text.contains("neither metadata nor descriptor says how many bytes of arguments"), "{}", note.text);
}

/// A code object whose kernels read more arguments than metadata and descriptors say, as GCC's do: the metadata lists none, and has a size
/// that is too small.
pub(crate) fn with_few_arguments(object: &Path) -> Vec<u8> {
    let mut code = sizeless(object, true);
    let ends_of = |code: &[u8], text: &[u8]| -> Vec<usize> {
        code.windows(text.len()).enumerate().filter(|(_, w)| *w == text).map(|(at, _)| at + text.len()).collect()
    };
    for end in ends_of(&code, b"\xa5.args") {
        code[end - 1] = b'_';
    }
    for value in ends_of(&code, b".kernarg_segment_size") {
        // MessagePack: a number below 128 is itself, 0xcd precedes two bytes.
        match code[value] {
            0xcd => code[value + 1..value + 3].fill(0),
            _ => code[value] = 8,
        }
    }
    code
}

#[test]
fn arguments_are_captured_as_far_as_their_memory_goes_where_metadata_lists_none_of_them() {
    let scratch = Run::hsa("loads");
    let object = scratch.file("few.hsaco");
    fs::write(&object, with_few_arguments(&harness::kernels(&harness::arch()))).unwrap();
    let code = amdgpu_code_object::CodeObject::parse(&fs::read(&object).unwrap()).unwrap();
    let kernel = code.kernel("increment").unwrap();
    assert!(kernel.kernarg_bytes() <= 8 && kernel.arguments.is_empty(), "{kernel:?}");
    let (run, reader, file) = loads(&["agent-memory"], Some(&object));
    assert_eq!(run.log().rows[0].text("kernargBytes"), "");
    assert_eq!(reader.dispatches()[0].kernarg.len(), 4096);
    let verified = json(&on_file(
        Run::new(built("omniprobe")),
        "verify",
        &file,
        &harness::arch(),
        &["--backend", "emu", "--json"],
    ));
    assert_eq!(verified["result"], "PASS (qualified)", "{verified:#}");
    let why = verified["qualified"].to_string();
    assert!(why.contains("neither metadata nor descriptor says how many bytes of arguments"), "{why}");
}

#[test]
fn a_kernel_that_reaches_no_memory_is_captured_whole_and_has_nothing_to_compare() {
    let run = Run::hsa("idle").args(["1"]);
    let file = run.file("run.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).watched().passed();
    let notices = run.log().notices;
    assert!(notices.iter().any(|n| n.ends_with(" 0 not captured, 0 losses")), "{notices:?}");
    let reader = Reader::open(&file).unwrap();
    let dispatch = &reader.dispatches()[0];
    for snapshot in [dispatch.before.unwrap(), dispatch.after.unwrap()] {
        // Compilers put a variable of one byte into each code object since LLVM 18: `__hip_cuid_` and a hash.
        let bytes: u64 = reader.snapshot(snapshot).unwrap().ranges().iter().map(|range| range.end - range.start).sum();
        assert!(bytes <= 1, "{bytes}");
    }
    let tool =
        |name: &str, options: &[&str]| on_file(Run::new(built("omniprobe")), name, &file, &harness::arch(), options);
    assert_eq!(json(&tool("fsck", &["--json"]))["lacks"].as_array().map(Vec::len), Some(0));
    ended(&tool("verify", &["--backend", "emu"]), "NOTHING_WRITTEN", 11);
    ended(&tool("verify", &[]), "NOTHING_WRITTEN", 11);
}

#[test]
fn how_much_is_captured_is_shown_on_a_terminal_unless_it_is_unwanted_and_nowhere_else() {
    // `script` gives the command a terminal, and writes what comes there to its own standard output.
    let on_terminal = |quiet: &str| {
        let run = Run::hip("vectors");
        let program = run.command();
        let device = if harness::on_hardware() { String::new() } else { format!("--emulate {}", harness::arch()) };
        let line = format!(
            "'{}' {quiet} {device} -l /dev/null --capture a.ldcap -- '{}'",
            built("omniprobe").display(),
            program.get_program().display()
        );
        let mut command = Command::new("script");
        command.args(["-q", "-e", "-f", "-c", &line, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null());
        run.finish(command).passed().stdout
    };
    let shown = on_terminal("");
    let is_rate = |text: &str| text.contains("iB captured, ") && text.contains("B/s");
    assert!(is_rate(&shown), "{shown}");
    let quiet = on_terminal("-q");
    assert!(!is_rate(&quiet) && quiet.contains("a.ldcap: "), "{quiet}");
    let run = Run::hip("vectors");
    let capture = run.file("a.ldcap");
    let outcome = run.probed(&["-l", "/dev/null", "--capture", capture.to_str().unwrap()]).passed();
    assert!(!is_rate(&outcome.stderr) && outcome.stderr.contains("a.ldcap: "), "{}", outcome.stderr);
}
