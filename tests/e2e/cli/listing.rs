//! Code as text: of HIP kernels in files, and of those that were captured. No runtime takes part.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::captures::{Buffer, Captured};
use crate::support::harness::{self, Outcome, Run, built};

fn probe(arguments: &[&str]) -> Outcome {
    let mut command = Command::new(built("omniprobe"));
    // Neither a runtime nor LLVM's programs can be found.
    command.args(arguments).stdin(Stdio::null()).env("PATH", "/nonexistent").env_remove("LD_LIBRARY_PATH");
    Run::new(built("omniprobe")).finish(command)
}

fn objects(outcome: &Outcome) -> Vec<Value> {
    assert!(outcome.status.success(), "{}{}", outcome.stdout, outcome.stderr);
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn instructions_of_a_hip_kernel_come_from_its_lines_of_the_source() {
    let source = harness::root().join("tests/programs/kernels.hip");
    let text = std::fs::read_to_string(&source).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for arch in harness::archs() {
        let object = harness::hip_object("kernels", &arch, "-O2 -g");
        let all = objects(&probe(&["isa", &object.to_string_lossy(), "use_lds", "--json"]));
        let of_source = |i: &&Value| i["file"].as_str().is_some_and(|file| file.ends_with("kernels.hip"));
        assert!(all.iter().filter(of_source).count() > 4, "{all:?}");
        for instruction in all.iter().filter(of_source) {
            let number = instruction["line"].as_u64().unwrap() as usize;
            assert_eq!(instruction["source"], lines[number - 1], "{instruction}");
        }
        let line_of = |text: &str| {
            let of = all.iter().find(|i| i["text"].as_str().unwrap().starts_with(text));
            of.unwrap_or_else(|| panic!("no {text}: {all:?}"))["source"].as_str().unwrap().trim().to_owned()
        };
        assert_eq!(line_of("ds_write_b32"), "words[lane] = lane;");
        assert_eq!(line_of("global_store_dword"), "out[INDEX] = words[63 - lane];");
    }
}

#[test]
fn inlined_code_is_listed_with_each_call_as_an_analysis_names_it() {
    let arch = harness::arch();
    let object = harness::hip_object("analyzed", &arch, "-O3 -g");
    let path = object.to_string_lossy();
    let source = std::fs::read_to_string(harness::root().join("tests/programs/analyzed.hip")).unwrap();
    let line = |mark: &str| 1 + source.lines().position(|line| line.contains(mark)).unwrap();
    let (inner, outer) = (line("column read"), line("void transposed_padded"));
    let text = probe(&["isa", &path, "transposed_padded"]).stdout;
    let calls = format!(
        "; transpose_tile<1> at analyzed.hip:{inner}, inlined into transposed_padded at analyzed.hip:{outer}\n"
    );
    assert!(text.contains(&calls), "{calls}{text}");
    let all = objects(&probe(&["isa", &path, "transposed_padded", "--json"]));
    let read = all.iter().find(|inst| inst["text"].as_str().unwrap().starts_with("ds_read_b32")).unwrap();
    let lines: Vec<&Value> = read["frames"].as_array().unwrap().iter().map(|frame| &frame["line"]).collect();
    assert_eq!(lines, [&Value::from(inner), &Value::from(outer)]);
    // A function without inlined code has one frame.
    let plain = objects(&probe(&["isa", &path, "unwritten", "--json"]));
    assert!(plain.iter().any(|inst| inst["frames"].as_array().is_some_and(|frames| frames.len() == 1)), "{plain:?}");
}

#[test]
fn a_dump_has_the_code_of_the_kernels_that_were_dispatched_behind_their_code_object() {
    const WORDS: u64 = 0x7f31_0020_3000;
    let arch = harness::arch();
    let captured = Captured::of("increment", &arch, WORDS, vec![Buffer::words(WORDS, &[0; 256], &[1; 256])]);
    let run = Run::new(built("omniprobe"));
    let file = captured.write(&run.file("a.ldcap"));
    let path = file.to_string_lossy();
    let isa = objects(&probe(&["isa", &harness::kernels(&arch).to_string_lossy(), "increment", "--json"]));
    for backend in ["rocm", "emu"] {
        let dump = objects(&probe(&["dump", &path, "--disassemble", "--backend", backend, "--format", "jsonl"]));
        let object = dump.iter().position(|record| record["record"] == "CodeObject").unwrap();
        let code: Vec<&Value> = dump[object + 1..].iter().take_while(|r| r["record"] == "instruction").collect();
        let shown = |all: &[&Value]| -> Vec<Value> { all.iter().map(|i| i["text"].clone()).collect() };
        assert_eq!(shown(&code), shown(&isa.iter().collect::<Vec<_>>()));
        assert!(code.iter().all(|i| i["function"] == "increment"), "{code:?}");
        assert_eq!(dump.iter().filter(|r| r["record"] == "instruction").count(), code.len());
    }
    let plain = probe(&["dump", &path]).stdout;
    let text = probe(&["dump", &path, "--disassemble"]).stdout;
    let (code, records): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("  "));
    assert_eq!(records, plain.lines().collect::<Vec<_>>());
    assert!(code[0].starts_with("  increment [") && code.last().unwrap().ends_with("s_endpgm"), "{code:?}");
}

#[test]
fn a_dump_goes_on_behind_code_that_cannot_be_shown_and_says_so() {
    let mut captured = Captured::of("increment", &harness::arch(), 0x7f31_0020_3000, Vec::new());
    // `e_flags`: the number of gfx1030. Source: AMDGPUUsage, "AMDGPU EF_AMDGPU_MACH Values".
    captured.code[48] = 0x36;
    let run = Run::new(built("omniprobe"));
    let file = captured.write(&run.file("a.ldcap"));
    let outcome = probe(&["dump", &file.to_string_lossy(), "--disassemble"]);
    assert_eq!(outcome.status.code(), Some(7), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("increment: unsupported") && outcome.stderr.contains("gfx1030"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stdout.contains(" Dispatch "), "{}", outcome.stdout);
}
