//! Kernels that compute something else, put in the place of captured ones: none passes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use logdur_capture::{AllocationKind, Reader};
use serde_json::Value;

use crate::replay::verify;
use crate::support::captures::{Buffer, Captured};
use crate::support::harness::{self, Outcome, Run};

/// Work-items, and words of a buffer.
const N: u32 = 4096;
const IN: u64 = 0x7f31_0020_3000;
const OUT: u64 = 0x7f31_0120_3100;
const SUMS: u64 = 0x7f31_0220_3000;

/// Addresses as arguments.
fn arguments(addresses: &[u64]) -> Vec<u8> {
    addresses.iter().flat_map(|address| address.to_le_bytes()).collect()
}

fn words(f: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..N).map(f).collect()
}

/// A dispatch of a kernel of `mutants.hip`.
fn captured(kernel: &'static str, arch: &str, addresses: &[u64], buffers: Vec<Buffer>) -> Captured {
    let code = fs::read(harness::hip_object("mutants", arch, "-O3")).unwrap();
    Captured { code, grid: N, kernarg: arguments(addresses), ..Captured::of(kernel, arch, 0, buffers) }
}

fn doubled(arch: &str) -> Captured {
    let input = |i: u32| i.wrapping_mul(0x9e37_79b9);
    let in_ = Buffer::words(IN, &words(input), &words(input));
    // It begins and ends inside of pages.
    let out = Buffer::words(OUT, &words(|_| 0), &words(|i| input(i).wrapping_mul(2).wrapping_add(1)));
    captured("doubled", arch, &[IN, OUT], vec![in_, out])
}

/// Sums of numbers of different sizes.
fn summed(arch: &str) -> Captured {
    let term = |i: u32| (i % 89) as f32 * 1.1f32.powi((i % 61) as i32) + 0.1;
    let terms = words(|i| term(i).to_bits());
    let mut sums = [0f32; 8];
    (0..N).for_each(|i| sums[i as usize % 8] += term(i));
    let buffers = vec![
        Buffer::words(IN, &terms, &terms),
        Buffer::words(SUMS, &[0; 8], &sums.map(f32::to_bits)),
        Buffer::words(OUT, &words(|_| 7), &words(|i| 3 * i)),
    ];
    captured("summed", arch, &[IN, SUMS, OUT], buffers)
}

/// Verifies a mutant in the place of a kernel.
fn mutant(captured: &Captured, mutation: &str, options: &[&str]) -> Outcome {
    let object = harness::hip_object("mutants", &captured.arch, &format!("-O3 -D{mutation}"));
    let other = format!("all={}", object.display());
    verify::tool("verify", captured, &[&["--hsaco", &other], options].concat())
}

/// Under the runtime, and on the emulated GPU alone; the former for few if the tests are to be short.
fn backends(number: usize) -> Vec<&'static [&'static str]> {
    let alone: &[&str] = &["--backend", "emu"];
    if number < harness::count(2, usize::MAX) { vec![alone, &[]] } else { vec![alone] }
}

#[test]
fn no_kernel_that_computes_something_else_passes_for_another() {
    let captured = doubled(&harness::arch());
    verify::ended(&verify::tool("verify", &captured, &["--backend", "emu"]), "PASS", 0);
    let mutants = [
        ("CLOCK", "MISMATCH         arg1"),
        ("BEHIND", "TOUCHED_OUTSIDE  gap behind arg1"),
        ("CLOBBER", "TOUCHED_OUTSIDE  arg0"),
        ("RACE", "MISMATCH         arg1"),
        ("ELEMENT", "MISMATCH         arg1"),
        ("BEFORE", "TOUCHED_OUTSIDE  gap before arg1"),
        ("NOTHING", "NOTHING_WRITTEN  arg1"),
        ("LDS", "MISMATCH         arg1"),
        ("REGISTER", "MISMATCH         arg1"),
        ("SCRATCH", "MISMATCH         arg1"),
        ("CODE", "TOUCHED_OUTSIDE  code of doubled"),
        ("DESCRIPTOR", "TOUCHED_OUTSIDE  code of doubled"),
        ("ARGUMENTS", "TOUCHED_OUTSIDE  arguments"),
        ("LAST", "MISMATCH         arg1"),
        ("HALF", "MISMATCH         arg1"),
        ("VCC", "MISMATCH         arg1"),
        ("M0", "MISMATCH         arg1"),
        ("SCC", "MISMATCH         arg1"),
        ("SLOT", "MISMATCH         arg1"),
        ("LDS_BASE", "MISMATCH         arg1"),
    ];
    for (number, (mutation, said)) in mutants.into_iter().enumerate() {
        for options in backends(number) {
            if mutation == "LDS" && options.is_empty() && harness::on_hardware() {
                continue;
            }
            let outcome = mutant(&captured, mutation, options);
            let last = outcome.stdout.lines().last();
            let all = format!("{mutation} {options:?}: {}\n{}{}", outcome.status, outcome.stdout, outcome.stderr);
            assert_eq!((last, outcome.status.code()), (Some("FAIL"), Some(6)), "{all}");
            assert!(outcome.stdout.contains(said), "{said}: {all}");
        }
    }
}

#[test]
fn what_is_written_behind_another_buffer_of_the_page_is_found() {
    let mut captured = doubled(&harness::arch());
    // Its input begins and ends inside of pages, too.
    let start = IN + 0x340;
    captured.buffers[0].base = start;
    captured.kernarg = arguments(&[start, OUT]);
    verify::ended(&verify::tool("verify", &captured, &["--backend", "emu"]), "PASS", 0);
    let outcome = mutant(&captured, "INPUTS_GAP", &["--backend", "emu"]);
    verify::ended(&outcome, "FAIL", 6);
    let text = format!("first: gap behind arg0[0] at {:#x}: expected 0x", start + 4 * u64::from(N));
    assert!(outcome.stdout.contains(&text), "{}", outcome.stdout);
}

#[test]
fn what_is_written_to_a_neighbour_that_was_not_captured_is_found() {
    let mut captured = doubled(&harness::arch());
    let neighbour = OUT + 4 * u64::from(N);
    captured.uncaptured.push(neighbour..neighbour + 0x100);
    verify::ended(&verify::tool("verify", &captured, &["--backend", "emu"]), "PASS", 0);
    for options in backends(0) {
        let outcome = mutant(&captured, "NEIGHBOUR", options);
        verify::ended(&outcome, "FAIL", 6);
        let text = format!("gap behind arg1[64] at {:#x}: expected 0x", neighbour + 0x40);
        assert!(outcome.stdout.contains(&text), "{}", outcome.stdout);
    }
}

#[test]
fn a_kernel_that_writes_to_its_queue_or_its_completion_signal_is_a_fault() {
    let captured = doubled(&harness::arch());
    let (queue, signal) = ("the kernel writes to its queue", "the kernel writes to its completion signal");
    for (mutation, said) in [("PACKET", queue), ("SIGNAL", signal), ("EVENT", signal), ("QUEUE", queue)] {
        // The runtime writes to a queue's structure itself.
        for options in backends(usize::from(mutation == "QUEUE") * usize::MAX) {
            let outcome = mutant(&captured, mutation, options);
            assert_eq!(outcome.status.code(), Some(5), "{mutation} {options:?}: {}", outcome.stdout);
            assert!(outcome.stderr.contains(said), "{mutation} {options:?}: {}", outcome.stderr);
        }
    }
}

#[test]
fn a_replacement_with_variables_of_its_own_passes_with_a_reason_why_that_proves_less() {
    let captured = doubled(&harness::arch());
    for options in backends(0) {
        let outcome = mutant(&captured, "LATER", options);
        verify::ended(&outcome, "PASS (qualified)", 0);
        assert!(outcome.stdout.contains("its own variables (runs)"), "{}", outcome.stdout);
        let strict = mutant(&captured, "LATER", &[options, &["--strict"]].concat());
        assert_eq!(strict.status.code(), Some(9), "{}", strict.stdout);
    }
}

/// Halves of numbers: small ones, zeros, a subnormal one, a NaN, the largest.
fn halved(arch: &str) -> Captured {
    let input = |i: u32| match i % 64 {
        7 => 0.0,
        9 => f32::from_bits(2 * i),
        11 => f32::NAN,
        13 => f32::MAX,
        n => n as f32 / 1000.0,
    };
    let of = |f: &dyn Fn(u32) -> f32| words(|i| f(i).to_bits());
    let in_ = of(&input);
    let buffers = vec![Buffer::words(IN, &in_, &in_), Buffer::words(OUT, &words(|_| 0), &of(&|i| 0.5 * input(i)))];
    captured("halved", arch, &[IN, OUT], buffers)
}

#[test]
fn no_tolerance_takes_a_kernel_that_writes_nothing_and_bits_are_compared_without_one() {
    let captured = halved(&harness::arch());
    let wide = &["--tol", "arg1=f32:abs=1e38,rel=1e30,ulp=4000000000"][..];
    let exact = &["--tol", "arg1=f32"][..];
    let attempts: [(&str, &[&[&str]]); 5] = [
        ("NOTHING", &[&[], exact, wide]),
        // With a type, two NaNs are equal.
        ("PAYLOAD", &[&[]]),
        ("ZERO", &[&[], exact]),
        ("FLUSHED", &[&[], exact]),
        ("INFINITE", &[&[], exact, wide]),
    ];
    for tolerance in [&[], exact, wide] {
        verify::ended(&verify::tool("verify", &captured, &[&["--backend", "emu"], tolerance].concat()), "PASS", 0);
    }
    for (mutation, tolerances) in attempts {
        for (tolerance, backend) in
            tolerances.iter().flat_map(|tolerance| backends(0).into_iter().map(move |b| (tolerance, b)))
        {
            let outcome = mutant(&captured, mutation, &[backend, tolerance].concat());
            verify::ended(&outcome, "FAIL", 6);
            let nothing = outcome.stdout.contains("NOTHING_WRITTEN  arg1");
            assert_eq!(nothing, mutation == "NOTHING", "{mutation} {tolerance:?}: {}", outcome.stdout);
        }
    }
}

#[test]
fn no_tolerance_is_for_what_the_applications_kernel_leaves_alone_and_a_small_error_is_no_write_elsewhere() {
    let input = |i: u32| (i % 64) as f32;
    let of = |f: &dyn Fn(u32) -> f32| words(|i| f(i).to_bits());
    let out = |i: u32| if i % 4 == 3 { 1e-4 } else { 2.0 * input(i) };
    // Every eighth result was there before.
    let before = |i: u32| if i.is_multiple_of(8) { out(i) } else { 1e-4 };
    let buffers = vec![Buffer::words(IN, &of(&input), &of(&input)), Buffer::words(OUT, &of(&before), &of(&out))];
    let captured = captured("partly", &harness::arch(), &[IN, OUT], buffers);
    let near = &["--tol", "arg1=f32:abs=1e-3"][..];
    for options in backends(0) {
        for tolerance in [&[][..], &["--tol", "arg1=f32"], near] {
            let outcome = mutant(&captured, "TAIL", &[options, tolerance].concat());
            verify::ended(&outcome, "FAIL", 6);
            assert!(outcome.stdout.contains("TOUCHED_OUTSIDE  arg1"), "{tolerance:?}: {}", outcome.stdout);
            assert!(outcome.stdout.contains("1024 elements elsewhere changed"), "{tolerance:?}: {}", outcome.stdout);
        }
        // Most of its bits are in the upper bytes of words, the error is in the lowest.
        let outcome = mutant(&captured, "ROUGH", options);
        verify::ended(&outcome, "FAIL", 6);
        assert!(outcome.stdout.contains("MISMATCH         arg1 b32: "), "{}", outcome.stdout);
    }
    // The emulated GPU knows that what was there before is stored again: of that, a small error is within the tolerance.
    let outcome = mutant(&captured, "ROUGH", &[&["--backend", "emu"], near].concat());
    verify::ended(&outcome, "PASS", 0);
    assert!(outcome.stdout.contains("WITHIN_TOL       arg1"), "{}", outcome.stdout);
}

#[test]
fn a_kernel_that_is_right_only_because_of_what_memory_held_fails_by_name() {
    let zeroed = doubled(&harness::arch());
    let mut held = zeroed.clone();
    let half = held.buffers[1].after.len() / 2;
    let Buffer { before, after, .. } = &mut held.buffers[1];
    before[half..].copy_from_slice(&after[half..]);
    for (mutation, captured, said) in [
        ("OMITTED", &held, "NOT_STORED       arg1"),
        ("ADDS", &zeroed, "READS_OLD        arg1"),
        ("BEYOND", &zeroed, "READS_OLD        arg1"),
    ] {
        let outcome = mutant(captured, mutation, &["--backend", "emu"]);
        verify::ended(&outcome, "FAIL", 6);
        assert!(outcome.stdout.contains(said), "{mutation}: {}", outcome.stdout);
    }
    // What looks first and stores then leaves the same on any memory.
    for captured in [&zeroed, &held] {
        verify::ended(&mutant(captured, "KEEPS", &["--backend", "emu"]), "PASS", 0);
    }
}

#[test]
fn a_sum_in_any_order_is_masked_and_said_and_garbage_in_its_place_fails() {
    let captured = summed(&harness::arch());
    // Few replays may happen to add in the same order.
    let own = verify::tool("verify", &captured, &["--backend", "emu", "--repetitions", "100"]);
    verify::ended(&own, "PASS (qualified)", 0);
    let masked = "16416 written bytes are masked (0.";
    assert!(own.stdout.contains("MATCH_MASKED     arg1") && own.stdout.contains(masked), "{}", own.stdout);
    // A single sum that differs is more than that.
    let options = ["--backend", "emu", "--strict", "--repetitions", "100", "--mask-limit", "0.01%"];
    let strict = verify::tool("verify", &captured, &options);
    verify::ended(&strict, "INCONCLUSIVE", 10);
    assert!(strict.stdout.contains("not deterministic: give a tolerance (--tol)"), "{}", strict.stdout);
    let near = verify::tool("verify", &captured, &["--backend", "emu", "--tol", "arg1=f32:rel=1e-4"]);
    verify::ended(&near, "PASS", 0);

    for (number, mutation) in ["GARBAGE", "ONE"].into_iter().enumerate() {
        for options in backends(number) {
            for tolerance in [&[][..], &["--tol", "arg1=f32"], &["--tol", "arg1=f32:rel=1e-4"]] {
                let outcome = mutant(&captured, mutation, &[options, tolerance].concat());
                verify::ended(&outcome, "FAIL", 6);
                assert!(outcome.stdout.contains("MISMATCH         arg1"), "{mutation}: {}", outcome.stdout);
            }
        }
    }
}

#[test]
fn the_upper_bits_of_a_clock_that_no_replay_repeats_are_inconclusive_and_garbage_in_its_place_fails() {
    let arch = harness::arch();
    let recorded: Vec<u32> = (0..16).map(|i| if i % 2 == 0 { 1000 + i } else { 0x1234 }).collect();
    let times = Buffer::words(SUMS, &[0xffff_ffff; 16], &recorded);
    let out = Buffer::words(OUT, &words(|_| 7), &words(|i| 3 * i));
    let captured = captured("clocked", &arch, &[SUMS, OUT], vec![times, out]);
    let inconclusive = |options: &[&str]| {
        let outcome = verify::tool("verify", &captured, options);
        verify::ended(&outcome, "INCONCLUSIVE", 10);
        assert!(outcome.stdout.contains("UNDECIDED        arg0"), "{}", outcome.stdout);
        assert!(outcome.stdout.contains("agree in 8 elements with each other and not with what"), "{}", outcome.stdout);
    };
    // The same kernel in its own place: other code, which computes the same.
    let same = format!("all={}", harness::hip_object("mutants", &arch, "-O1").display());
    for backend in backends(0) {
        inconclusive(backend);
        // However much may be masked: what no replay repeats is no PASS.
        inconclusive(&[backend, &["--hsaco", &same, "--mask-limit", "100%"]].concat());
        for (mutation, said) in [("GARBAGE", "MISMATCH         arg0"), ("ONE", "MISMATCH         arg1")] {
            let outcome = mutant(&captured, mutation, &[backend, &["--mask-limit", "100%"]].concat());
            verify::ended(&outcome, "FAIL", 6);
            assert!(outcome.stdout.contains(said), "{mutation}: {}", outcome.stdout);
        }
    }
}

#[test]
fn memory_that_a_hidden_pointer_leads_to_is_not_excused_as_the_hosts() {
    const BLOCK: u64 = IN;
    for key in [0u64, 0x5555_5555_5555_5555] {
        let pointer = OUT ^ key;
        let bytes = [&[0; 3][..], &pointer.to_le_bytes(), &[0; 5], &key.to_le_bytes(), &[0; 40]].concat();
        let block = Buffer { base: BLOCK, kind: AllocationKind::DeviceCoarse, before: bytes.clone(), after: bytes };
        let out = Buffer { kind: AllocationKind::HostPool, ..Buffer::words(OUT, &words(|_| 7), &words(|i| i)) };
        let captured = captured("hidden", &harness::arch(), &[BLOCK], vec![block, out]);
        for options in backends(0) {
            verify::ended(&verify::tool("verify", &captured, options), "PASS", 0);
            let outcome = mutant(&captured, "NOTHING", options);
            verify::ended(&outcome, "FAIL", 6);
            assert!(outcome.stdout.contains("NOTHING_WRITTEN"), "{}", outcome.stdout);
        }
        // A recording of a kernel that writes nothing there, in any replay: it may be the host's work, if no address leads there.
        let mut idle = captured.clone();
        idle.code = fs::read(harness::hip_object("mutants", &idle.arch, "-O3 -DNOTHING")).unwrap();
        let counted = Buffer::words(SUMS, &[1; 4], &[2; 4]);
        idle.buffers.push(counted);
        let outcome = verify::tool("verify", &idle, &["--backend", "emu"]);
        assert_eq!(outcome.status.code(), Some(6), "{}", outcome.stdout);
        let excused = outcome.stdout.contains("CHANGED_BY_HOST");
        assert_eq!(excused, key != 0, "{}", outcome.stdout);
    }
}

#[test]
fn bench_and_tune_do_not_time_what_computes_something_else() {
    let captured = doubled(&harness::arch());
    for (mutation, words) in [("CLOCK", "MISMATCH"), ("CLOBBER", "TOUCHED_OUTSIDE"), ("LDS", "MISMATCH")] {
        let object = harness::hip_object("mutants", &captured.arch, &format!("-O3 -D{mutation}"));
        let other = format!("all={}", object.display());
        let outcome = verify::tool("bench", &captured, &["--backend", "emu", "--hsaco", &other]);
        assert_eq!(outcome.status.code(), Some(6), "{}", outcome.stdout);
        assert!(outcome.stdout.contains("not measured") && outcome.stdout.contains(words), "{}", outcome.stdout);
        let run = Run::new(harness::built("omniprobe"));
        let folder = run.file("variants");
        fs::create_dir(&folder).unwrap();
        fs::copy(&object, folder.join("other.hsaco")).unwrap();
        let file = captured.write(&run.file("a.ldcap"));
        let options = ["--backend", "emu", "-o", "out", "--hsaco-dir", folder.to_str().unwrap(), "--json"];
        let outcome = verify::on_file(run, "tune", &file, &captured.arch, &options);
        let said = verify::json(&outcome);
        assert_eq!(said["results"]["mismatch"], 1, "{mutation}: {said:#}");
    }
}

#[test]
fn bench_and_tune_judge_masked_values_by_the_rule_of_verify() {
    let captured = summed(&harness::arch());
    let object = |options: &str| harness::hip_object("mutants", &captured.arch, options);
    let (same, garbage) = (object("-O1"), object("-O3 -DGARBAGE"));
    let bench = |options: &[&str]| {
        let options = [&["--backend", "emu", "--tol", "arg1=f32", "--repetitions", "10"], options].concat();
        verify::tool("bench", &captured, &options)
    };
    // Other code for the same sums: by chance, a sum may be outside of the others.
    let outcome = bench(&["--hsaco", &format!("all={}", same.display())]);
    assert!(matches!(outcome.status.code(), Some(0 | 10)), "{}{}", outcome.stdout, outcome.stderr);
    for text in ["written bytes are masked (0.", "rule: a masked value has to be one"] {
        assert!(outcome.stdout.contains(text), "{text}: {}", outcome.stdout);
    }
    let outcome = bench(&["--mask-limit", "0.01%"]);
    assert_eq!(outcome.status.code(), Some(10), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("not deterministic: give a tolerance (--tol)"), "{}", outcome.stdout);
    let outcome = bench(&["--hsaco", &format!("all={}", garbage.display())]);
    assert_eq!(outcome.status.code(), Some(6), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("not measured") && outcome.stdout.contains("MISMATCH"), "{}", outcome.stdout);

    let run = Run::new(harness::built("omniprobe"));
    let folder = run.file("variants");
    fs::create_dir(&folder).unwrap();
    for (name, object) in [("same", &same), ("garbage", &garbage)] {
        fs::copy(object, folder.join(format!("{name}.hsaco"))).unwrap();
    }
    let file = captured.write(&run.file("a.ldcap"));
    let folder = folder.to_str().unwrap();
    let options = ["--backend", "emu", "-o", "out", "--tol", "arg1=f32", "--hsaco-dir", folder, "--json"];
    let said = verify::json(&verify::on_file(run, "tune", &file, &captured.arch, &options));
    assert_eq!(said["results"]["mismatch"], 1, "{said:#}");
}

/// Puts every kernel of a capture in its own place: the same code with a byte more, so that it is another file's. What was said
/// of each dispatch.
fn in_their_own_place(file: &Path, arch: &str) -> Vec<Value> {
    let reader = Reader::open(file).unwrap();
    let mut options = vec!["--json".to_owned(), "--backend".to_owned(), "emu".to_owned()];
    let mut objects = BTreeMap::new();
    for dispatch in reader.dispatches() {
        objects.insert(dispatch.code_object.to_string(), dispatch.code_object);
    }
    for (hash, object) in objects {
        let path = file.with_extension(format!("{hash}.hsaco"));
        fs::write(&path, [reader.code_object(object).unwrap(), vec![0]].concat()).unwrap();
        options.extend(["--hsaco".to_owned(), format!("{hash}={}", path.display())]);
    }
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    let outcome = verify::on_file(Run::new(harness::built("omniprobe")), "verify", file, arch, &options);
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_kernel_passes_in_its_own_place_or_is_not_deterministic() {
    let arch = harness::arch();
    // With float atomics, locks, tickets; in place, LDS, scratch, graphs, calls, and kernels of libraries.
    let programs =
        ["atomics", "reached", "swaps", "graphs", "groups", "calls", "lanes", "copies", "functions", "primitives"];
    let (mut total, mut replaced) = (0, 0);
    for program in programs.into_iter().take(harness::count(2, usize::MAX)) {
        let run = Run::hip(program).arch(&arch);
        let file = run.file("run.ldcap");
        let run = run.env("LOGDUR_CAPTURE", &file).watched();
        assert!(run.status.success(), "{program}: {}{}", run.stdout, run.stderr);
        for _ in 0..harness::count(1, 5) {
            for said in in_their_own_place(&file, &arch) {
                total += 1;
                let refused = said["error"].as_str().is_some_and(|text| text.contains("is not replaced"));
                if refused {
                    continue;
                }
                replaced += 1;
                let result = said["result"].as_str().unwrap();
                let is_masked = |b: &Value| b["masked"].as_u64() > Some(0) || b["verdict"] == "UNDECIDED";
                let masked = said["buffers"].as_array().is_some_and(|buffers| buffers.iter().any(is_masked));
                let passes = result.starts_with("PASS") || result == "NOTHING_WRITTEN";
                let fine = passes || masked && result == "INCONCLUSIVE";
                assert!(fine, "{program}: {:#}", verify::in_short(&said));
            }
        }
    }
    assert!(replaced >= harness::count(10, 1000), "{replaced} of {total}");
}
