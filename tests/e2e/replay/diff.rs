//! Dispatches of two captures, compared: what is said to be different is what was made different, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use logdur_capture::{AllocationKind, Id};
use serde_json::{Value, json};

use crate::support::captures::{Buffer, Captured};
use crate::support::harness::{self, Outcome, Run, built};

const WORDS: u64 = 0x7f31_0020_3000;
/// Where another process might have had the same.
const ELSEWHERE: u64 = 0x7f44_0070_1000;

/// A dispatch of `increment` on so many words.
fn increment(base: u64, count: u32) -> Captured {
    let before: Vec<u32> = (0..count).map(|n| n.wrapping_mul(0x9e37_79b9)).collect();
    let mut after = before.clone();
    after[..256].iter_mut().for_each(|w| *w = w.wrapping_add(1));
    Captured::of("increment", &harness::arch(), base, vec![Buffer::words(base, &before, &after)])
}

fn diff_files(a: &Path, b: &Path, options: &[&str]) -> Outcome {
    let mut command = Command::new(built("omniprobe"));
    command.arg("diff").arg(a).arg(b).args(options).stdin(Stdio::null());
    Run::new(built("omniprobe")).finish(command)
}

fn diff(a: &Captured, b: &Captured, options: &[&str]) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = [("a.ldcap", a), ("b.ldcap", b)].map(|(name, captured)| captured.write(&folder.path().join(name)));
    diff_files(&a, &b, options)
}

/// The objects, after a look at the status.
#[track_caller]
fn objects(outcome: &Outcome, status: i32) -> Vec<Value> {
    let all = format!("{}{}", outcome.stdout, outcome.stderr);
    assert_eq!(outcome.status.code(), Some(status), "{all}");
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {all}"))).collect()
}

/// The only object.
#[track_caller]
fn one(a: &Captured, b: &Captured, options: &[&str], status: i32) -> Value {
    let mut all = objects(&diff(a, b, &[options, &["--json"]].concat()), status);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[test]
fn the_same_at_other_addresses_is_the_same() {
    let (a, b) = (increment(WORDS, 3000), increment(ELSEWHERE, 3000));
    let said = one(&a, &b, &[], 0);
    assert_eq!((&said["result"], &said["status"]), (&"SAME".into(), &0.into()), "{said:#}");
    assert_eq!((&said["arguments"], &said["geometry"], &said["code"]), (&json!([]), &json!([]), &Value::Null));
    let text = diff(&a, &b, &[]);
    assert_eq!(text.stdout.lines().last(), Some("1 same, 0 different or alone, 0 incomplete, 0 not compared"));
}

#[test]
fn elements_that_differ_are_counted_before_and_after_and_the_first_is_shown() {
    let (a, mut b) = (increment(WORDS, 3000), increment(ELSEWHERE, 3000));
    for (at, add) in [(300, 1u32), (77, 5), (2999, 2)] {
        let buffer = &mut b.buffers[0];
        for bytes in [&mut buffer.before, &mut buffer.after] {
            let place = &mut bytes[4 * at..4 * at + 4];
            let word = u32::from_le_bytes((*place).try_into().unwrap()).wrapping_add(add);
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
    b.buffers[0].after[..4].copy_from_slice(&9u32.to_le_bytes());
    let name = "arg0=u32";
    let said = one(&a, &b, &["--tol", name], 6);
    let buffer = said["buffers"].as_array().unwrap().iter().find(|b| b["start_a"] == WORDS).unwrap();
    let (before, after) = (&buffer["before"], &buffer["after"]);
    assert_eq!((&before["differing"], &after["differing"]), (&3.into(), &4.into()), "{said:#}");
    let word = 77u32.wrapping_mul(0x9e37_79b9);
    assert_eq!(before["first"], json!({ "index": 77, "a": word.to_string(), "b": (word + 5).to_string() }));
    assert_eq!(after["first"], json!({ "index": 0, "a": "1", "b": "9" }));
    assert_eq!((&before["max_abs"], &after["max_abs"]), (&5.0.into(), &8.0.into()));
    // Near enough, they are not different; and it is said how far they are apart.
    let near = one(&a, &b, &["--tol", "arg0=u32:abs=8"], 0);
    assert_eq!(near["buffers"][0]["after"]["near"], 4, "{near:#}");
}

#[test]
fn memory_that_cannot_be_another_is_not_read() {
    let count = 2 << 20;
    let (a, mut b) = (increment(WORDS, count), increment(ELSEWHERE, count));
    let said = one(&a, &b, &[], 0);
    let buffer = &said["buffers"][0];
    assert_eq!(buffer["before"]["read"], 4 * count, "{said:#}");
    // The page that both kernels wrote.
    assert_eq!(buffer["after"]["read"], 4096, "{said:#}");
    b.buffers[0].after[4 * 1_000_000] ^= 1;
    let said = one(&a, &b, &[], 6);
    assert_eq!(said["buffers"][0]["after"]["read"], 8192, "{said:#}");
    assert_eq!(said["buffers"][0]["after"]["first"]["index"], 1_000_000, "{said:#}");
    // Of one file nothing is: contents have names.
    let folder = tempfile::tempdir().unwrap();
    let file = a.write(&folder.path().join("a.ldcap"));
    let same = objects(&diff_files(&file, &file, &["--json"]), 0);
    let read = &same[0]["buffers"][0];
    assert_eq!((&read["before"]["read"], &read["after"]["read"]), (&0.into(), &0.into()), "{same:?}");
}

#[test]
fn pointers_are_told_apart_by_what_they_point_to_and_sizes_are_said() {
    let a = increment(WORDS, 3000);
    let mut b = increment(ELSEWHERE, 3000);
    b.kernarg = (ELSEWHERE + 64).to_le_bytes().to_vec();
    let said = one(&a, &b, &[], 6);
    let argument = &said["arguments"][0];
    assert_eq!(
        argument["a"],
        json!({ "value": "0x7f3100203000", "points_to": "byte 0 of allocation 0 (12000 bytes)" })
    );
    assert_eq!(
        argument["b"],
        json!({ "value": "0x7f4400701040", "points_to": "byte 64 of allocation 0 (12000 bytes)" })
    );
    let buffer = &said["buffers"][0];
    assert_eq!((&buffer["size_a"], &buffer["size_b"]), (&12000.into(), &11936.into()), "{said:#}");
    // The same bytes in a larger buffer.
    let text = diff(&a, &increment(ELSEWHERE, 4000), &[]);
    assert_eq!(text.status.code(), Some(6));
    assert!(text.stdout.contains("sizes: A 12000 bytes, B 16000 bytes\n    before: same\n"), "{}", text.stdout);
}

#[test]
fn values_and_elements_are_read_by_the_types_of_the_source() {
    let arch = harness::arch();
    let source = harness::root().join("tests/programs/opencl/convert.cl");
    let code = fs::read(harness::opencl_object(&source, &arch, 19, 3, 5, "-cl-kernel-arg-info")).unwrap();
    let captured = |base: u64, count: u32, first: f32| {
        let buffer = |number: u64, bytes: Vec<u8>| Buffer {
            base: base + number * 0x1_0000,
            kind: AllocationKind::DeviceCoarse,
            before: bytes.clone(),
            after: bytes,
        };
        let longs: Vec<u8> = (-8i64..8).flat_map(i64::to_le_bytes).collect();
        let floats: Vec<u8> = [first, 2.0, 3.0].iter().flat_map(|f| f.to_le_bytes()).collect();
        // `as` and `bs` are the same buffer.
        let numbers = [0, 0, 1, 2].map(|number| base + number * 0x1_0000);
        let mut kernarg: Vec<u8> = numbers.iter().flat_map(|address| address.to_le_bytes()).collect();
        kernarg.extend(count.to_le_bytes());
        let buffers = vec![buffer(0, longs.clone()), buffer(1, longs), buffer(2, floats)];
        Captured { code: code.clone(), kernarg, ..Captured::of("to_float", &arch, 0, buffers) }
    };
    let a = captured(WORDS, 16, 1.0);
    one(&a, &captured(ELSEWHERE, 16, 1.0), &["--all"], 0);
    let mut b = captured(ELSEWHERE, 15, 1.5);
    // `bs` is now what `cs` is.
    b.kernarg[8..16].copy_from_slice(&(ELSEWHERE + 0x1_0000).to_le_bytes());
    let said = one(&a, &b, &[], 6);
    let expected = json!([
        {
            "name": "bs", "type": "long*",
            "a": { "value": "0x7f3100203000", "points_to": "byte 0 of allocation 0 (128 bytes)" },
            "b": { "value": "0x7f4400711000", "points_to": "byte 0 of allocation 1 (128 bytes)" },
        },
        { "name": "n", "type": "uint", "a": { "value": "16", "points_to": null }, "b": { "value": "15", "points_to": null } },
    ]);
    assert_eq!(said["arguments"], expected, "{said:#}");
    let buffers = said["buffers"].as_array().unwrap();
    let types: Vec<_> = buffers.iter().map(|b| (b["name"].as_str().unwrap(), b["type"].as_str().unwrap())).collect();
    assert!(types.contains(&("as", "i64")) && types.contains(&("out", "f32")), "{said:#}");
    let out = buffers.iter().find(|b| b["name"] == "out").unwrap();
    assert_eq!(out["before"]["first"], json!({ "index": 0, "a": "1.0", "b": "1.5" }));
    // In the order of the arguments; each with what the other's argument of that name points to.
    let names: Vec<_> = types.iter().map(|(name, _)| *name).collect();
    assert_eq!((names, &said["alone"]), (vec!["as", "bs", "cs", "out"], &json!([])), "{said:#}");
}

#[test]
fn geometry_and_code_are_compared_and_metadata_say_what_changed() {
    let a = increment(WORDS, 3000);
    let mut b = increment(ELSEWHERE, 3000);
    (b.grid, b.lds) = (128, 512);
    let said = one(&a, &b, &[], 6);
    let expected = json!([
        { "name": "grid", "a": "256x1x1", "b": "128x1x1" },
        { "name": "LDS", "a": "0 bytes", "b": "512 bytes" },
    ]);
    assert_eq!(said["geometry"], expected);

    let arch = harness::arch();
    b = Captured {
        code: fs::read(harness::hip_object("kernels", &arch, "-O0")).unwrap(),
        ..increment(ELSEWHERE, 3000)
    };
    let said = one(&a, &b, &[], 6);
    let ids = [&a, &b].map(|captured| Id::of(&captured.code).to_string());
    assert_eq!([&said["code"]["a"], &said["code"]["b"]], ids.each_ref());
    // What the compiler's notes have, read by another program.
    let vgprs = |code: &[u8]| {
        let file = harness::programs().join(format!("diff-{}.co", Id::of(code)));
        fs::write(&file, code).unwrap();
        let text = harness::notes(&file);
        let kernel = text.split("- .a").find(|part| part.contains(".name:           increment\n")).map(str::to_owned);
        let kernel = kernel.unwrap_or_else(|| panic!("{text}"));
        kernel.split(".vgpr_count:").nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
    };
    let kernels = said["code"]["kernels"].as_array().unwrap();
    let of = kernels.iter().find(|k| k["kernel"] == "increment").unwrap_or_else(|| panic!("{said:#}"));
    let differs = of["differences"].as_array().unwrap().iter().find(|d| d["name"] == "vgprs").unwrap();
    assert_eq!((&differs["a"], &differs["b"]), (&vgprs(&a.code).into(), &vgprs(&b.code).into()));
}

#[test]
fn what_a_capture_lacks_is_said_and_is_no_success() {
    let a = increment(WORDS, 3000);
    let b = Captured { after: false, ..increment(ELSEWHERE, 3000) };
    let said = one(&a, &b, &[], 9);
    assert_eq!((&said["result"], &said["buffers"][0]["after"]), (&"INCOMPLETE".into(), &Value::Null));
    assert_eq!(said["not_compared"], json!(["the second: no memory after the kernel"]));
    let outcome = diff(&a, &a, &["--dispatch-b", "8"]);
    assert_eq!(outcome.status.code(), Some(1));
    assert_eq!(outcome.stderr, "omniprobe: --dispatch-b: expected one of 7, found 8\n");
    let outcome = diff(&a, &a, &["--tol", "other=f32"]);
    assert!(outcome.status.code() == Some(1) && outcome.stderr.contains("--tol"), "{}", outcome.stderr);
}

/// Captures every dispatch of some kernels of `swaps`.
fn captured(kernels: &[&str], options: &str) -> (PathBuf, Outcome) {
    let run = Run::new(harness::hip_optimized("swaps", options)).args(kernels);
    let file = run.file("run.ldcap");
    let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_DISPATCHES", "1-9");
    (file, run.env("LOGDUR_CAPTURE_KERNELS", "^[a-z]").watched().passed())
}

#[test]
fn dispatches_of_two_runs_are_matched_and_two_runs_of_the_same_are_the_same() {
    let (first, _one) = captured(&["plain", "placed", "plain", "scratch"], "-O3");
    let (again, _two) = captured(&["plain", "placed", "plain", "scratch"], "-O3");
    let same = objects(&diff_files(&first, &again, &["--json", "--kernel", "plain|placed|scratch"]), 0);
    let kernels: Vec<&str> = same.iter().map(|pair| pair["kernel"].as_str().unwrap()).collect();
    assert_eq!(kernels, ["plain", "placed", "plain", "scratch"]);
    for pair in &same {
        let compared = pair["buffers"].as_array().unwrap();
        assert!(!compared.is_empty() && compared.iter().all(|b| b["after"]["differing"] == 0), "{pair:#}");
    }

    let (other, _three) = captured(&["plain", "tiled"], "-DOTHER");
    let pairs = objects(&diff_files(&first, &other, &["--json", "--kernel", "^(plain|tiled)$"]), 6);
    let shown: Vec<_> =
        pairs.iter().map(|pair| (pair["kernel"].as_str().unwrap(), pair["result"].as_str().unwrap())).collect();
    assert_eq!(shown, [("plain", "DIFFERENT"), ("plain", "NO_PARTNER"), ("tiled", "NO_PARTNER")]);
    // It adds 1000 to each of 256.
    let after = &pairs[0]["buffers"][0]["after"];
    assert_eq!((&after["differing"], &after["first"]["index"]), (&256.into(), &0.into()), "{}", pairs[0]);
    assert_eq!(pairs[0]["buffers"][0]["before"]["differing"], 0);

    // Two dispatches of one file: what is different is that one of them has been told another argument.
    let numbers: Vec<String> = same.iter().map(|pair| pair["dispatch_a"].to_string()).collect();
    let outcome = diff_files(&first, &first, &["--json", "--dispatch", &numbers[0], "--dispatch-b", &numbers[1]]);
    let pair = &objects(&outcome, 6)[0];
    assert_eq!(pair["geometry"][0], json!({ "name": "kernel", "a": "plain", "b": "placed" }));
}
