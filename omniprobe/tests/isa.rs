//! `omniprobe isa` on what compilers make, against LLVM's disassembler of the same code.

mod harness;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use harness::{Harness, tool};

/// A kernel with a loop and a call, one without, and a function.
const SOURCE: &str = "\
__attribute__((noinline)) float twice(float x) {
    return x * 2.0f + 1.0f;
}
kernel void scale(global float* out, global const float* in, int n) {
    int i = (int)__builtin_amdgcn_workitem_id_x();
    for (int k = 0; k < n; ++k)
        out[i] += twice(in[i + k]);
}
kernel void zero(global float* out) {
    out[(int)__builtin_amdgcn_workitem_id_x()] = 0;
}
";

fn compiled(harness: &Harness, arch: &str, options: &[&str]) -> PathBuf {
    harness.compile(&format!("{arch}{}.co", options.concat()), arch, options)
}

fn isa(arguments: &[&dyn AsRef<OsStr>]) -> Output {
    harness::omniprobe("isa", arguments)
}

fn stdout(output: &Output) -> String {
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// The status, and what is said.
fn refused(output: &Output) -> (i32, String) {
    assert_eq!(output.stdout, b"");
    (output.status.code().expect("a status"), String::from_utf8_lossy(&output.stderr).trim_end().to_owned())
}

/// Address, words, text and source line of an instruction.
type Instruction = (u64, Vec<String>, String, Option<u64>);

fn one_space(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn ours(object: &Path, options: &[&str]) -> Vec<Instruction> {
    let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&object, &"--json"];
    arguments.extend(options.iter().map(|o| o as &dyn AsRef<std::ffi::OsStr>));
    let instruction = |line: &str| {
        let value: Value = serde_json::from_str(line).expect("an object a line");
        assert_eq!(value["error"], Value::Null, "{line}");
        let words = value["words"].as_array().expect("words").iter().map(|w| w.as_str().expect("text").to_owned());
        let text = one_space(value["text"].as_str().expect("text"));
        (value["address"].as_u64().expect("an address"), words.collect(), text, value["line"].as_u64())
    };
    stdout(&isa(&arguments)).lines().map(instruction).collect()
}

/// `\ts_nop 0 // 000000001234: BF800000 <symbol+0x3c>`, with `; FILE:LINE` before it where that is another one.
fn llvm(object: &Path) -> Vec<Instruction> {
    let text = tool(Command::new("llvm-objdump-19").args(["-d", "-l", "-z"]).arg(object));
    let (mut all, mut source) = (Vec::new(), None);
    for line in text.lines() {
        if let Some(comment) = line.strip_prefix("; ") {
            source = comment.rsplit_once(':').and_then(|(_, number)| number.parse().ok()).or(source);
        }
        let Some((text, comment)) = line.strip_prefix('\t').and_then(|l| l.split_once("//")) else { continue };
        let (address, words) = comment.trim().split_once(": ").expect("an address");
        let words = words.split_whitespace().take_while(|w| !w.starts_with('<')).map(str::to_lowercase).collect();
        all.push((u64::from_str_radix(address, 16).expect("an address"), words, one_space(text), source));
    }
    all
}

#[test]
fn all_code_reads_as_llvm_reads_it_with_the_same_source_lines() {
    let harness = Harness::of(SOURCE);
    for arch in ["gfx900", "gfx906", "gfx908", "gfx90a", "gfx942"] {
        for options in [&["-O0", "-g"], &["-O3", "-g"], &["-O2", "-gdwarf-4"]] {
            let object = compiled(&harness, arch, options);
            let (ours, theirs) = (ours(&object, &["--all"]), llvm(&object));
            // LLVM has no line for padding, but goes on with the last one.
            let known = |n: usize| ours[n].3.is_some();
            assert!((0..ours.len()).filter(|&n| known(n)).count() > 20, "{}", object.display());
            for (n, their) in theirs.iter().enumerate() {
                let line = if known(n) { their.3 } else { None };
                assert_eq!(ours[n], (their.0, their.1.clone(), their.2.clone(), line), "{}", object.display());
            }
            assert_eq!(ours.len(), theirs.len());
        }
    }
}

#[test]
fn code_for_a_family_of_processors_reads_as_that_for_its_members() {
    let harness = Harness::of(SOURCE);
    let object = compiled(&harness, "gfx9-generic", &["-O2", "-mcode-object-version=6"]);
    let (ours, theirs) = (ours(&object, &["--all"]), llvm(&object));
    let code =
        |all: Vec<Instruction>| all.into_iter().map(|(at, words, text, _)| (at, words, text)).collect::<Vec<_>>();
    assert!(ours.len() > 20);
    assert_eq!(code(ours), code(theirs));
}

#[test]
fn a_kernel_is_shown_with_its_source_its_labels_and_its_target() {
    let harness = Harness::of(SOURCE);
    let object = compiled(&harness, "gfx90a", &["-O1", "-g"]);
    let text = stdout(&isa(&[&object, &"scale"]));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "scale [gfx90a]:");
    let source = harness.path("source.cl");
    let at = lines.iter().position(|l| *l == format!("; {}:6", source.display())).expect("the loop's line");
    assert_eq!(lines[at + 1], ";     for (int k = 0; k < n; ++k)");
    // Every jump has a label, and every label a jump.
    let labels: Vec<&str> = lines.iter().filter_map(|l| l.strip_suffix(':').filter(|l| l.starts_with('L'))).collect();
    let jumps: Vec<&str> =
        lines.iter().filter(|l| l.contains("branch")).filter_map(|l| l.split("// ").nth(1)).collect();
    assert!(!jumps.is_empty() && jumps.iter().all(|j| labels.contains(j)), "{text}");
    assert!(labels.iter().all(|l| jumps.contains(l)), "{text}");
    assert!(!text.contains("zero"), "{text}");
    // Without the source there are its lines' numbers.
    fs::remove_file(&source).expect("the source can be removed");
    let without = stdout(&isa(&[&object, &"scale"]));
    assert!(without.contains("source.cl:6\n0000"), "{without}");
}

#[test]
fn compressed_lines_are_read_like_others_and_code_without_any_has_none() {
    let harness = Harness::of(SOURCE);
    let expected = ours(&compiled(&harness, "gfx90a", &["-O2", "-g"]), &["--all"]);
    for method in ["-gz=zlib", "-gz=zstd"] {
        let packed = compiled(&harness, "gfx90a", &["-O2", "-g", method]);
        let sections = tool(Command::new("llvm-readelf-19").arg("-S").arg(&packed));
        let is_packed = |line: &str| line.contains(".debug_info") && line.split_whitespace().any(|word| word == "C");
        assert!(sections.lines().any(is_packed), "{sections}");
        assert_eq!(ours(&packed, &["--all"]), expected, "{method}");
    }
    let none = ours(&compiled(&harness, "gfx90a", &["-O2"]), &["--all"]);
    let without: Vec<Instruction> = expected.into_iter().map(|(at, words, text, _)| (at, words, text, None)).collect();
    assert_eq!(none, without);
}

#[test]
fn what_is_not_there_or_not_known_is_named_with_what_there_is() {
    let harness = Harness::of(SOURCE);
    let object = compiled(&harness, "gfx90a", &["-O2"]);
    let shown = object.display();
    let listed = "\n  scale\n  zero";
    let said =
        format!("omniprobe: {shown}: expected the name of one of its kernels, found 2 that may be meant:{listed}");
    assert_eq!(refused(&isa(&[&object])), (1, said));
    let said = format!("omniprobe: {shown}: expected a kernel nothing, found others:{listed}");
    assert_eq!(refused(&isa(&[&object, &"nothing"])), (1, said));
    let later = compiled(&harness, "gfx1100", &["-O2"]);
    let said = "omniprobe: unsupported: disassembling code for gfx1100: unknown processor \"gfx1100\": expected one of \
                gfx900, gfx906, gfx908, gfx90a, gfx942, gfx950";
    assert_eq!(refused(&isa(&[&later, &"zero"])), (7, said.to_owned()));
    let (status, said) = refused(&isa(&[&harness.path("source.cl")]));
    assert!(status == 1 && said.contains("expected code objects with kernels, found none"), "{said}");
    let (status, said) = refused(&isa(&[&harness.path("nowhere.co")]));
    assert!(status == 1 && said.contains("nowhere.co"), "{said}");
}

#[test]
fn of_a_file_with_code_for_several_targets_one_is_chosen() {
    let harness = Harness::of(SOURCE);
    let parts = ["gfx906", "gfx90a"].map(|arch| (arch, compiled(&harness, arch, &["-O2"])));
    let bundle = harness.path("bundle.o");
    let mut command = Command::new("clang-offload-bundler-19");
    command.args(["--type=o", "--compress", "--input=/dev/null"]);
    command.arg(
        "--targets=host-x86_64-unknown-linux-gnu-,hipv4-amdgcn-amd-amdhsa--gfx906,hipv4-amdgcn-amd-amdhsa--gfx90a",
    );
    command.args(parts.iter().map(|(_, part)| format!("--input={}", part.display())));
    tool(command.arg(format!("--output={}", bundle.display())));
    for (arch, part) in &parts {
        let of_bundle = ours(&bundle, &["zero", "--target", arch]);
        assert_eq!(of_bundle, ours(part, &["zero"]));
    }
    let said = "omniprobe: --target: expected one of gfx906, gfx90a, found none";
    assert_eq!(refused(&isa(&[&bundle, &"zero"])), (1, said.to_owned()));
    let said = "omniprobe: --target: expected one of gfx906, gfx90a, found gfx908";
    assert_eq!(refused(&isa(&[&bundle, &"zero", &"--target", &"gfx908"])), (1, said.to_owned()));
}
