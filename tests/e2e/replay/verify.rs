//! Captured dispatches that are run again, alone, in fresh processes, and compared with what the application got.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use logdur_capture::{AllocationKind, Scope};
use serde_json::Value;

use crate::support::captures::{ARGUMENTS, Buffer, Captured};
use crate::support::harness::{self, Outcome, Run, built};

/// A buffer's address: a page somewhere, as the runtime's pools give them out.
pub(crate) const WORDS: u64 = 0x7f31_0020_3000;

/// Some words, and what `increment` makes of the first 256.
pub(crate) fn incremented() -> Buffer {
    let before: Vec<u32> = (0..3000u32).map(|n| n.wrapping_mul(0x9e37_79b9)).collect();
    let mut after = before.clone();
    after[..256].iter_mut().for_each(|w| *w = w.wrapping_add(1));
    Buffer::words(WORDS, &before, &after)
}

pub(crate) fn increment(arch: &str) -> Captured {
    Captured::of("increment", arch, WORDS, vec![incremented()])
}

/// Runs a tool of `omniprobe` on a capture.
pub(crate) fn tool(name: &str, captured: &Captured, options: &[&str]) -> Outcome {
    let run = Run::new(built("omniprobe"));
    let file = captured.write(&run.file("a.ldcap"));
    on_file(run, name, &file, &captured.arch, options)
}

/// Runs a tool on a file; `run` is of any program.
pub(crate) fn on_file(run: Run, name: &str, file: &Path, arch: &str, options: &[&str]) -> Outcome {
    let mut command = run.omniprobe();
    command.arg(name).arg(file).args(options);
    let runs = ["replay", "verify", "bench", "tune", "trim", "minimize"].contains(&name);
    if runs && !options.contains(&"--backend") {
        command.args(harness::rocm_option());
        if !harness::on_hardware() {
            command.args(["--emulate", arch]);
        }
    }
    run.finish(command)
}

/// The last line, and the status.
#[track_caller]
pub(crate) fn ended(outcome: &Outcome, word: &str, status: i32) {
    let last = outcome.stdout.lines().last().unwrap_or_default();
    let all = format!("{}\n{}{}", outcome.status, outcome.stdout, outcome.stderr);
    assert_eq!((last, outcome.status.code()), (word, Some(status)), "{all}");
}

pub(crate) fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|e| panic!("{e}: {}{}", outcome.stdout, outcome.stderr))
}

#[test]
fn a_kernel_that_works_in_place_computes_the_same_in_a_fresh_process_at_the_captured_addresses() {
    for arch in harness::archs() {
        let outcome = tool("verify", &increment(&arch), &["--json"]);
        let said = json(&outcome);
        assert_eq!((&said["result"], &said["status"]), (&"PASS".into(), &0.into()), "{said:#}{}", outcome.stderr);
        assert_eq!(said["qualified"], Value::Array(Vec::new()), "{said:#}");
        assert_eq!(said["emulated"], !harness::on_hardware());
        let buffer = said["buffers"].as_array().unwrap().iter().find(|b| b["start"] == WORDS).unwrap();
        assert_eq!((&buffer["verdict"], &buffer["mismatches"]), (&"MATCH".into(), &0.into()), "{said:#}");
        // The oracle for how much was written is the arithmetic of one: carries.
        let written = buffer["written"].as_u64().unwrap();
        assert!((256..300).contains(&written) && buffer["replayed"] == written, "{said:#}");
        let repetitions = said["repetitions"].as_array().unwrap();
        assert!(repetitions.len() == 3 && repetitions.iter().all(|r| r["verified"] == true), "{said:#}");
    }
}

#[test]
fn a_flipped_byte_of_the_input_fails_and_names_the_element() {
    let mut captured = increment(&harness::arch());
    captured.buffers[0].before[4 * 77 + 1] ^= 0x40;
    let outcome = tool("verify", &captured, &["--tol", "arg0=u32"]);
    let after = captured.buffers[0].after[4 * 77..][..4].try_into().map(u32::from_le_bytes).unwrap();
    ended(&outcome, "FAIL", 6);
    let found = after ^ 0x4000;
    let text = format!("[77] at {:#x}: expected {after}, found {found}", WORDS + 4 * 77);
    assert!(outcome.stdout.contains(&text) && outcome.stdout.contains("1 elements differ"), "{}", outcome.stdout);
}

#[test]
fn a_changed_instruction_fails_and_names_the_element() {
    let mut captured = increment("gfx90a");
    // `v_add_u32_e32 vD, 1, vS` becomes `v_add_u32_e32 vD, 2, vS`. Source: the Vega ISA manual, VOP2: opcode 52 from
    // bit 25 on, inline constants from 128 on.
    let adds_one = |w: u32| w >> 25 == 52 && w & 0x1ff == 129;
    let words = captured.code.as_chunks::<4>().0.iter().map(|w| u32::from_le_bytes(*w));
    let at = words.enumerate().find(|(_, w)| adds_one(*w)).expect("an addition of one").0;
    captured.code[4 * at] += 1;
    let outcome = tool("verify", &captured, &[]);
    ended(&outcome, "FAIL", 6);
    assert!(outcome.stdout.contains("256 elements differ"), "{}", outcome.stdout);
    let first = format!("[0] at {WORDS:#x}: expected 0x00000001, found 0x00000002, before 0x00000000");
    assert!(outcome.stdout.contains(&first), "{}", outcome.stdout);
}

#[test]
fn what_is_written_elsewhere_and_what_is_not_written_have_their_words() {
    let arch = harness::arch();
    let mut outside = increment(&arch);
    let untouched = outside.buffers[0].before[4 * 192..4 * 256].to_vec();
    outside.buffers[0].after[4 * 192..4 * 256].copy_from_slice(&untouched);
    let outcome = tool("verify", &outside, &[]);
    ended(&outcome, "FAIL", 6);
    assert!(outcome.stdout.contains("TOUCHED_OUTSIDE") && outcome.stdout.contains("[192] at"), "{}", outcome.stdout);

    let mut idle = increment(&arch);
    idle.kernel = "empty";
    let outcome = tool("verify", &idle, &[]);
    ended(&outcome, "FAIL", 6);
    assert!(outcome.stdout.contains("NOTHING_WRITTEN"), "{}", outcome.stdout);
    idle.buffers[0].after = idle.buffers[0].before.clone();
    ended(&tool("verify", &idle, &[]), "NOTHING_WRITTEN", 11);

    let mut unknown = increment(&arch);
    unknown.after = false;
    ended(&tool("verify", &unknown, &[]), "NO_REFERENCE", 9);
}

#[test]
fn tolerances_are_given_afterwards_and_a_smaller_scope_is_said() {
    let mut captured = increment(&harness::arch());
    captured.buffers[0].after[..1024].as_chunks_mut::<4>().0.iter_mut().for_each(|w| {
        *w = u32::from_le_bytes(*w).wrapping_add(3).to_le_bytes();
    });
    captured.scope = Scope::Args;
    let near = tool("verify", &captured, &["--tol", "arg0=i32:abs=3"]);
    ended(&near, "PASS (qualified)", 0);
    assert!(near.stdout.contains("WITHIN_TOL") && near.stdout.contains("max abs 3e0"), "{}", near.stdout);
    assert!(near.stdout.contains("scope Args"), "{}", near.stdout);
    ended(&tool("verify", &captured, &["--tol", "arg0=i32:abs=3", "--strict"]), "PASS (qualified)", 9);
    ended(&tool("verify", &captured, &["--tol", "arg0=i32:abs=2"]), "FAIL", 6);
    let unknown = tool("verify", &captured, &["--tol", "out=i32"]);
    assert!(
        unknown.stderr.contains("the buffer of --tol or --type: expected one of arg0, an address, found out"),
        "{}",
        unknown.stderr
    );
    assert_eq!(unknown.status.code(), Some(1));
    let misspelt = tool("verify", &captured, &["--tol", "arg0=f8"]);
    assert!(misspelt.stderr.contains("expected a type (b8, "), "{}", misspelt.stderr);
    assert_eq!(misspelt.status.code(), Some(1));
}

#[test]
fn memory_of_every_kind_is_where_it_was() {
    // Pieces of blocks, a large one, neighbours of two kinds, the host's.
    let arch = harness::arch();
    let filled = |pages: usize, seed: u32| -> Vec<u32> { (0..1024 * pages as u32).map(|n| n ^ seed).collect() };
    let mut buffers = vec![incremented()];
    let more = [
        (WORDS + 0x3000, AllocationKind::HostPool, 1),
        (WORDS + 0x4000, AllocationKind::Kernarg, 2),
        (0x7f31_4000_0000, AllocationKind::DeviceCoarse, 1500),
        (0x7f31_5000_3000, AllocationKind::DeviceCoarse, 512),
        (0x7f31_6000_0000, AllocationKind::HostPool, 512),
        (0x7f31_8012_3000, AllocationKind::LockedHost, 7),
        (0x7f31_9012_3000, AllocationKind::Managed, 3),
        (0x2b00_0000_0000, AllocationKind::DeviceCoarse, 1),
    ];
    // The allocator of the replaying process grows now and then, and is not to take their place.
    let same = (0..12).map(|n| (0x7f31_a000_0000 + n * 0x40_0000, AllocationKind::HostPool, 257));
    for (seed, (base, kind, pages)) in more.into_iter().chain(same).enumerate() {
        let words = filled(pages, seed as u32);
        buffers.push(Buffer { kind, ..Buffer::words(base, &words, &words) });
    }
    let captured = Captured::of("increment", &arch, WORDS, buffers);
    let outcome = tool("verify", &captured, &["--place-retries", "0"]);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains("Managed memory is backed by memory of the host"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("placed: exact"), "{}", outcome.stdout);
}

#[test]
fn what_the_library_captures_of_programs_is_the_same_in_fresh_processes() {
    // In place, atomics, LDS, scratch, variables of the device, lambdas with what they hold.
    let names = ["plain", "placed", "tiled", "scratch"];
    // Of the atomics, those whose results do not depend on who comes first.
    for (name, run, options) in [
        ("swaps", Run::hip("swaps").args(names), &["--json"][..]),
        ("atomics", Run::hip("atomics"), &["--json", "--kernel", "crowd"][..]),
    ] {
        let file = run.file("run.ldcap");
        let captured = run.env("LOGDUR_CAPTURE", &file).watched().passed();
        let outcome = on_file(Run::new(built("omniprobe")), "verify", &file, &harness::arch(), options);
        let results: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(results.len() >= 4, "{name}: {}{}", outcome.stdout, outcome.stderr);
        for result in &results {
            // What fills memory with what is there already proves nothing, and says so.
            // What the host changed meanwhile qualifies it.
            let fine = ["PASS", "NOTHING_WRITTEN"].iter().any(|word| is(result, word));
            assert!(fine, "{name}: {result:#}");
        }
        assert_eq!(outcome.status.code(), Some(0), "{name}: {}", outcome.stderr);
        let passed = results.iter().filter(|r| is(r, "PASS")).count();
        assert!(passed * 10 >= results.len() * 8, "{name}: {passed} of {}", results.len());
        drop(captured);
    }
}

#[test]
fn variables_of_the_device_are_as_they_were_and_are_compared() {
    let arch = harness::arch();
    // `count` of memory.hip: 4 workgroups of 128 add their number, from 1 on, to each of 64 counters, twice.
    let words = |add: i32| (0..64).flat_map(|n: i32| (n * n + add).to_le_bytes()).collect::<Vec<u8>>();
    let reals = |factor: f64| [0.1, -7.0, 1e-300, 3.0].iter().flat_map(|r| (r * factor).to_le_bytes()).collect();
    let mut captured = Captured {
        code: fs::read(harness::hip_object("memory", &arch, "-O3")).unwrap(),
        kernarg: vec![0; 256],
        grid: 4 * 128,
        workgroup: 128,
        variables: vec![("counters", words(0), words(2 * (1 + 2 + 3 + 4))), ("initialized", reals(1.0), reals(2.0))],
        ..Captured::of("_Z5countv", &arch, 0, Vec::new())
    };
    let outcome = tool("verify", &captured, &["--tol", "initialized=f64"]);
    ended(&outcome, "PASS", 0);
    assert!(outcome.stdout.contains("MATCH            counters b32"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("MATCH            initialized f64"), "{}", outcome.stdout);
    captured.variables[0].1[4 * 3] ^= 1;
    let outcome = tool("verify", &captured, &["--tol", "counters=i32"]);
    ended(&outcome, "FAIL", 6);
    assert!(
        outcome.stdout.contains("counters[3] at") && outcome.stdout.contains("expected 29, found 28"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn a_host_buffer_is_written_by_the_kernel_where_it_was() {
    let buffer = Buffer { kind: AllocationKind::HostPool, ..incremented() };
    let captured = Captured { buffers: vec![buffer], ..increment(&harness::arch()) };
    ended(&tool("verify", &captured, &[]), "PASS", 0);
}

#[test]
fn what_the_applications_threads_wrote_meanwhile_is_not_asked_of_the_kernel() {
    const NEXT: u64 = WORDS + 0x10_0000;
    let changed = Buffer { kind: AllocationKind::Kernarg, ..Buffer::words(NEXT, &[0; 64], &[7; 64]) };
    let captured = Captured { buffers: vec![incremented(), changed], ..increment(&harness::arch()) };
    let outcome = tool("verify", &captured, &[]);
    ended(&outcome, "PASS (qualified)", 0);
    let named = format!("  qualified: {NEXT:#x}: changed by the host meanwhile");
    assert!(outcome.stdout.contains("CHANGED_BY_HOST") && outcome.stdout.contains(&named), "{}", outcome.stdout);
    ended(&tool("verify", &captured, &["--strict"]), "PASS (qualified)", 9);

    // The arguments of two streams may be in the GPU's own memory: in one block is this dispatch's.
    let block = |base: u64, left: u32| Buffer {
        kind: AllocationKind::DeviceFine,
        ..Buffer::words(base, &[0; 512], &[left; 512])
    };
    let blocks =
        Captured { buffers: vec![incremented(), block(ARGUMENTS, 0), block(NEXT, 7)], ..increment(&harness::arch()) };
    let outcome = tool("verify", &blocks, &["--backend", "emu"]);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains(&named), "{}", outcome.stdout);

    // What the kernel may have got to is asked of it, and so is the GPU's own memory.
    let led = |at: usize| {
        let mut led = captured.clone();
        led.buffers[0].before[at..at + 8].copy_from_slice(&NEXT.to_le_bytes());
        led.buffers[0].after[at..at + 8].copy_from_slice(&NEXT.to_le_bytes());
        led
    };
    let mut of_gpu = captured.clone();
    of_gpu.buffers[1].kind = AllocationKind::DeviceCoarse;
    // Addresses may be anywhere in a packed structure.
    for failing in [led(4096), led(4101), of_gpu] {
        let outcome = tool("verify", &failing, &[]);
        ended(&outcome, "FAIL", 6);
        assert!(outcome.stdout.contains("NOTHING_WRITTEN"), "{}", outcome.stdout);
    }
}

#[test]
fn lds_that_the_application_added_is_there() {
    let after: Vec<u32> = (0..256).map(|n| 63 - n % 64).collect();
    let buffers = vec![Buffer::words(WORDS, &[0xffff_ffff; 256], &after)];
    let captured = Captured { lds: 256, ..Captured::of("use_lds", &harness::arch(), WORDS, buffers) };
    ended(&tool("verify", &captured, &[]), "PASS", 0);
}

#[test]
fn a_fault_names_the_nearest_buffer_and_a_kernel_that_does_not_end_is_left() {
    let arch = harness::arch();
    let far = WORDS + 0x100_0000;
    let buffers = vec![Buffer::words(WORDS, &[0; 1024], &[0; 1024])];
    let wild = Captured::of("write_to", &arch, far, buffers.clone());
    let endless = Captured { grid: 64, ..Captured::of("wait_for", &arch, WORDS, buffers) };
    // Under the runtime, and on the emulated GPU alone.
    for options in [&[][..], &["--backend", "emu"]] {
        let outcome = tool("verify", &wild, options);
        let all = format!("{}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.status.code(), Some(5), "{all}");
        assert!(
            outcome.stderr.contains("GPU fault") && outcome.stderr.contains("(4096 bytes at 0x7f3100203000)"),
            "{all}"
        );

        let outcome = tool("replay", &endless, &[options, &["--timeout", "0.5"]].concat());
        assert_eq!(outcome.status.code(), Some(8), "{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains("did not end within 0.5 s"), "{}", outcome.stderr);
        // Nothing is there that could make it end. Its recorded duration is no reason to wait for long.
        let outcome = tool("replay", &endless, options);
        assert_eq!(outcome.status.code(), Some(8), "{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains("the kernel makes no progress"), "{}", outcome.stderr);
    }
}

#[test]
fn an_address_that_cannot_be_had_is_another_with_that_word_or_a_failure_of_placement() {
    let arch = harness::arch();
    let low = Captured::of("increment", &arch, 0x1000, vec![Buffer { base: 0x1000, ..incremented() }]);
    let outcome = tool("verify", &low, &["--place-retries", "1", "--no-relocate"]);
    assert_eq!(outcome.status.code(), Some(4), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("at 0x1000"), "{}", outcome.stderr);

    let options = ["--place-retries", "1", "--tol", "arg0=u32"];
    let outcome = tool("verify", &low, &options);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains("placed: relocated") && outcome.stdout.contains("0 words"), "{}", outcome.stdout);
    // What is somewhere else is still compared, by the addresses that the application had.
    let mut flipped = low.clone();
    flipped.buffers[0].before[4 * 77 + 1] ^= 0x40;
    let outcome = tool("verify", &flipped, &options);
    ended(&outcome, "FAIL", 6);
    assert!(outcome.stdout.contains(&format!("[77] at {:#x}", 0x1000 + 4 * 77)), "{}", outcome.stdout);
    ended(&tool("verify", &low, &[&options[..], &["--strict"]].concat()), "PASS (qualified)", 9);
}

#[test]
fn addresses_in_memory_go_along_with_what_they_lead_to() {
    // A list in the memory of the device, whose elements are at an address that cannot be had: `chase` of kernels.hip adds
    // what it finds on its way.
    let (arch, base) = (harness::arch(), 0x1000);
    let words = |words: &[u64]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let next = |index: u64| base + 16 * index;
    let before = words(&[next(2), 5, 0, 11, next(1), 7]);
    let after = words(&[next(2), 23, 0, 11, next(1), 7]);
    let list = Buffer { base, kind: AllocationKind::DeviceCoarse, before, after };
    let captured = Captured { grid: 64, ..Captured::of("chase", &arch, base, vec![list]) };
    let outcome = tool("verify", &captured, &["--place-retries", "0"]);
    ended(&outcome, "PASS (qualified)", 0);
    assert!(outcome.stdout.contains("2 words"), "{}", outcome.stdout);
    ended(&tool("verify", &captured, &["--backend", "emu"]), "PASS", 0);
}

#[test]
fn another_kernel_takes_the_place_of_the_captured_one_by_the_rules_of_the_cache() {
    let arch = harness::arch();
    let captured = increment(&arch);
    let other = harness::hip_object("kernels", &arch, "-O1");
    let outcome = tool("verify", &captured, &["--hsaco", &format!("all={}", other.display())]);
    ended(&outcome, "PASS", 0);
    let hash = logdur_capture::Id::of(&fs::read(&other).unwrap()).to_string();
    assert!(outcome.stdout.contains(&format!("replaced by {hash}")), "{}", outcome.stdout);
    let own = logdur_capture::Id::of(&captured.code).to_string();
    assert!(outcome.stdout.contains(&format!("code {own}")), "{}", outcome.stdout);

    // A file without such a kernel is refused by its name.
    let without = harness::hip_object("swaps", &arch, "-DOTHER -O3");
    let refused = tool("verify", &captured, &["--hsaco", &format!("increment={}", without.display())]);
    assert_eq!(refused.status.code(), Some(7), "{}{}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("no kernel of this name"), "{}", refused.stderr);
    // A misspelt name would have the application's own kernel pass.
    let misspelt = tool("verify", &captured, &["--hsaco", &format!("increments={}", other.display())]);
    assert_eq!(misspelt.status.code(), Some(1), "{}{}", misspelt.stdout, misspelt.stderr);
    assert!(misspelt.stderr.contains("or a name: increment, found increments"), "{}", misspelt.stderr);
}

#[test]
fn another_geometry_is_run_within_the_limits_of_the_kernel() {
    let captured = increment(&harness::arch());
    let less = tool("verify", &captured, &["--grid", "128"]);
    ended(&less, "FAIL", 6);
    assert!(less.stdout.contains("128 elements differ") && less.stdout.contains("[128] at"), "{}", less.stdout);
    let large = tool("verify", &captured, &["--workgroup", "256"]);
    assert_eq!(large.status.code(), Some(1), "{}{}", large.stdout, large.stderr);
    assert!(large.stderr.contains("expected 1 to 64 work-items, found 256,1,1"), "{}", large.stderr);
}

#[test]
fn a_capture_is_described_checked_and_taken_apart() {
    let captured = increment(&harness::arch());
    let info = tool("info", &captured, &[]);
    assert!(info.stdout.contains("dispatch 7: increment, occurrence 1, grid 256x1x1 by 64x1x1"), "{}", info.stdout);
    let records = json(&tool("info", &captured, &["--llvm"]));
    let only = serde_json::json!({ "name": "dispatch-7", "kernel": "increment", "time_ns": null, "occurrences": 1 });
    assert_eq!(records, serde_json::json!({ "total_instances": 1, "instances": [only] }));
    let dump = tool("dump", &captured, &["--format", "jsonl"]);
    let records: Vec<Value> = dump.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = records.iter().map(|r| r["record"].as_str().unwrap()).collect();
    assert!(["Session", "CodeObject", "Dispatch"].iter().all(|n| names.contains(n)), "{names:?}");

    let extracted = tool("extract", &captured, &["--output", "out", "--type", "arg0=u32"]);
    let folder = extracted.folder.path().join("out");
    let code = fs::read(folder.join(format!("{}.hsaco", logdur_capture::Id::of(&captured.code)))).unwrap();
    assert!(code == captured.code);
    let array = fs::read(folder.join("dispatch-7/arg0.after.npy")).unwrap();
    assert!(array.starts_with(b"\x93NUMPY") && array.ends_with(&captured.buffers[0].after), "{}", extracted.stdout);

    let run = Run::new(built("omniprobe"));
    let file = captured.write(&run.file("b.ldcap"));
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = run.file("damaged.ldcap");
    fs::write(&damaged, &bytes).unwrap();
    let cut = run.file("cut.ldcap");
    fs::write(&cut, &bytes[..1000]).unwrap();
    let none = on_file(Run::new(built("omniprobe")), "verify", &cut, "", &["--backend", "emu"]);
    assert_eq!(none.status.code(), Some(9), "{}", none.stderr);
    assert!(none.stderr.contains("cut.ldcap: expected a captured dispatch, found none; it was not"), "{}", none.stderr);
    let clean = tool("fsck", &captured, &[]);
    let itself = tool("fsck", &captured, &["--repair", "a.ldcap"]);
    assert_eq!(itself.status.code(), Some(1), "{}", itself.stderr);
    assert_eq!(clean.status.code(), Some(0), "{}", clean.stdout);
    let found = on_file(run, "fsck", &damaged, "", &["--repair", "whole.ldcap"]);
    assert_eq!(found.status.code(), Some(2), "{}{}", found.stdout, found.stderr);
    assert!(found.stdout.contains("offset") && found.folder.path().join("whole.ldcap").exists(), "{}", found.stdout);
}

#[test]
fn a_report_of_records_has_a_row_for_each_kernel_and_geometry() {
    let run = Run::hip("memory");
    let file = run.file("run.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_KERNELS", "^(scale|count)");
    let captured = run.env("LOGDUR_CAPTURE_DISPATCHES", "1-9").watched().passed();
    let log = captured.log();
    let launches = |kernel: &str| log.of_program().into_iter().filter(|row| row.kernel().starts_with(kernel)).count();
    let said = json(&on_file(Run::new(built("omniprobe")), "info", &file, "", &["--llvm"]));
    assert_eq!(said["total_instances"], 2, "{said:#}");
    for (instance, kernel) in said["instances"].as_array().unwrap().iter().zip(["count", "scale"]) {
        assert!(instance["kernel"].as_str().unwrap().contains(kernel), "{said:#}");
        assert_eq!(instance["occurrences"], launches(kernel), "{said:#}");
        assert!(instance["time_ns"].as_u64().unwrap() > 0, "{said:#}");
    }
}

#[test]
fn tools_that_take_long_show_on_a_terminal_how_far_they_are_and_nothing_else_does() {
    let run = Run::new(built("omniprobe"));
    let file = increment(&harness::arch()).write(&run.file("a.ldcap"));
    let long = ["verify", "--backend", "emu", "--repetitions", "30000"];
    for (options, counted, is_long) in [
        (&long[..], " 0 of 1 dispatches", true),
        (&["fsck"], " left", false),
        (&["extract", "--output", "out"], " left", false),
    ] {
        let words: Vec<String> = [&[built("omniprobe").to_str().unwrap()], options, &[file.to_str().unwrap()]]
            .concat()
            .iter()
            .map(|word| format!("'{word}'"))
            .collect();
        // Both streams are the terminal's.
        let mut terminal = Command::new("script");
        terminal.args(["-qec", &words.join(" "), "/dev/null"]).current_dir(file.parent().unwrap());
        let shown = String::from_utf8(terminal.stdin(Stdio::null()).output().unwrap().stdout).unwrap();
        assert_eq!(shown.contains(counted), is_long, "{counted}: {shown}");
        let plain =
            Command::new(built("omniprobe")).args(options).arg(&file).current_dir(file.parent().unwrap()).output();
        let plain = plain.unwrap();
        assert!(plain.status.success() && plain.stderr.is_empty(), "{}", String::from_utf8_lossy(&plain.stderr));
        assert!(!String::from_utf8(plain.stdout).unwrap().contains(counted));
    }
}

/// A verdict without the buffers that are as they should be.
pub(crate) fn in_short(verdict: &Value) -> Value {
    let mut short = verdict.clone();
    if let Some(buffers) = short["buffers"].as_array_mut() {
        buffers.retain(|b| !["UNTOUCHED", "MATCH"].iter().any(|word| b["verdict"] == *word));
    }
    short
}

#[test]
fn the_worked_example_goes_as_its_page_says() {
    let arch = harness::arch();
    let run = Run::hip("example/app");
    let file = run.file("app.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_KERNELS", "smooth").arch(&arch).watched();
    assert!(run.status.success() && run.stdout.ends_with("0.333333 1 2.66667\n"), "{}{}", run.stdout, run.stderr);
    for (options, word, status, said) in
        [("-O3", "FAIL", 6, "[255] at 0x"), ("-O3 -DRIGHT", "PASS", 0, "MATCH            arg1 f32: ")]
    {
        let other = format!("all={}", harness::hip_object("example/new", &arch, options).display());
        let tool = Run::new(built("omniprobe"));
        let outcome = on_file(tool, "verify", &file, &arch, &["--hsaco", &other, "--tol", "arg1=f32"]);
        ended(&outcome, word, status);
        assert!(outcome.stdout.contains(said), "{}", outcome.stdout);
    }
}

#[test]
fn what_each_of_two_gpus_computed_is_computed_again_on_one() {
    if harness::on_hardware() {
        return;
    }
    let run = Run::hip("two_gpus").env("KFDEMU_GPUS", "gfx90a,gfx906");
    let file = run.file("run.ldcap");
    let _captured = run.env("LOGDUR_CAPTURE", &file).watched().passed();
    for (arch, option) in [("gfx90a", "gfx90a,gfx906"), ("gfx906", "gfx90a,gfx906")] {
        let outcome = on_file(Run::new(built("omniprobe")), "verify", &file, option, &["--json"]);
        let said: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of_arch: Vec<_> = said.iter().filter(|v| v["isa"].as_str().is_some_and(|isa| isa.contains(arch))).collect();
        assert!(!of_arch.is_empty(), "{arch}: {:#?}{}", said.iter().map(in_short).collect::<Vec<_>>(), outcome.stderr);
        assert!(of_arch.iter().all(|v| v["result"].as_str().is_some_and(|r| r.starts_with("PASS"))), "{arch}");
    }
}

#[test]
fn a_kernel_that_calls_the_host_is_refused_and_says_why() {
    for scope in ["all", "reachable"] {
        let run = Run::hip("printing").env("LOGDUR_CAPTURE_SCOPE", scope).env("LOGDUR_CAPTURE_DISPATCHES", "1");
        let file = run.file("run.ldcap");
        let _captured = run.env("LOGDUR_CAPTURE", &file).watched().passed();
        let outcome = on_file(Run::new(built("omniprobe")), "verify", &file, &harness::arch(), &[]);
        assert_eq!(outcome.status.code(), Some(7), "{scope}: {}{}", outcome.stdout, outcome.stderr);
        assert!(
            outcome.stderr.contains("hidden_hostcall_buffer") && outcome.stderr.contains("printf"),
            "{scope}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn a_grid_that_meets_is_computed_again_where_the_barrier_can_be_set_up_and_refused_by_name_elsewhere() {
    let run = Run::hip("grids");
    let file = run.file("run.ldcap");
    let _captured = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_KERNELS", "relay").watched().passed();
    let alone = on_file(Run::new(built("omniprobe")), "verify", &file, &harness::arch(), &["--backend", "emu"]);
    ended(&alone, "PASS", 0);
    let fewer = ["--backend", "emu", "--grid", "128,1,1"];
    ended(&on_file(Run::new(built("omniprobe")), "verify", &file, &harness::arch(), &fewer), "FAIL", 6);
    let runtime = on_file(Run::new(built("omniprobe")), "verify", &file, &harness::arch(), &[]);
    assert_eq!(runtime.status.code(), Some(7), "{}{}", runtime.stdout, runtime.stderr);
    assert!(runtime.stderr.contains("unsupported: ds_gws_barrier"), "{}", runtime.stderr);
}

#[test]
fn what_programs_computed_is_computed_again_in_fresh_processes() {
    for arch in harness::archs() {
        // Kernels that can call the host and do not are among them, those of graphs, and copies on several queues.
        let programs = ["swaps", "memory", "groups", "calls", "graphs", "copies"];
        for program in programs.into_iter().take(harness::count(5, 6)) {
            let run = Run::hip(program).arch(&arch);
            let file = run.file("run.ldcap");
            let run = run.env("LOGDUR_CAPTURE", &file).watched().passed();
            let kernels: BTreeSet<_> = run.log().rows.iter().map(|row| row.kernel().to_owned()).collect();
            // Under the runtime, and on the emulated GPU alone.
            for options in [&["--json"][..], &["--json", "--backend", "emu"]] {
                let outcome = on_file(Run::new(built("omniprobe")), "verify", &file, &arch, options);
                all_passed(&outcome, kernels.len(), &format!("{program} on {arch} {options:?}"));
            }
        }
    }
}

/// True when the result begins with a word.
pub(crate) fn is(verdict: &Value, start: &str) -> bool {
    verdict["result"].as_str().is_some_and(|word| word.starts_with(start))
}

/// Looks at what was verified of a program's dispatches, of which there are so many at least.
#[track_caller]
pub(crate) fn all_passed(outcome: &Outcome, least: usize, what: &str) {
    let verified: Vec<Value> = outcome.stdout.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(verified.len() >= least, "{what}: {}", outcome.stderr);
    // A kernel may leave memory as it was: that is said, and is no PASS.
    // The time of day that a kernel writes is another one: too much of what it writes is masked, or no replay repeats it.
    let tells_the_time = |v: &Value| v["demangled"].as_str().is_some_and(|name| name.starts_with("clocks("));
    let is_fine = |v: &Value| is(v, "PASS") || is(v, "NOTHING_WRITTEN") || is(v, "INCONCLUSIVE") && tells_the_time(v);
    let other = verified.iter().filter(|v| !is_fine(v));
    let other: Vec<_> = other.map(in_short).collect();
    assert!(other.is_empty(), "{what}: {other:#?}");
    let passed = verified.iter().filter(|v| is(v, "PASS")).count();
    assert!(passed * 2 >= verified.len(), "{what}: {passed} of {}", verified.len());
}
