//! Kernels that are instrumented by hand or by the compiler's pass: what they send, against what they do.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use logdur_messages::{Header, Kind, Messages, file_hash};
use serde_json::{Value, json};

use crate::emulator::triton;
use crate::instrument::accesses::{self, Accesses};
use crate::instrument::mode::{is_instrumented, lister};
use crate::support::harness::{self, Outcome, Run};
use crate::support::launch::{self, Arg, Launch};
use crate::support::versions;

/// Compiles without warnings.
const STRICT: &str = "-O3 -Wall -Wextra -Werror";

/// The plugin for the compiler of HIP programs: `cargo xtask test` builds it.
fn plugin() -> PathBuf {
    let output = harness::hipcc().arg("--version").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let version = text.split("clang version ").nth(1).and_then(|rest| rest.split('.').next());
    harness::built(&format!("liblogdur-instrument-{}.so", version.unwrap_or_else(|| panic!("no version in {text}"))))
}

/// Compiles a program of `tests/programs` with the pass, and variables for it.
fn compile(run: &Run, program: &str, arch: &str, options: &str, variables: &[(&str, &str)]) -> (PathBuf, Command) {
    let object = run.file("clones.hsaco");
    let mut command = harness::hipcc();
    command.args(["--cuda-device-only", "--no-gpu-bundle-output", "-std=c++17", "-g", "-c"]);
    command.args(options.split_whitespace()).arg(format!("--offload-arch={arch}"));
    command.arg(format!("-fpass-plugin={}", plugin().display()));
    command.arg("-I").arg(harness::root().join("instrument/include"));
    command.arg(harness::root().join("tests/programs").join(program)).arg("-o").arg(&object);
    command.envs(variables.iter().copied());
    (object, command)
}

/// Runs `clones` with a code object that the pass has made; its kernels are captured.
fn cloned(arch: &str, options: &str, variables: &[(&str, &str)]) -> Outcome {
    let program = if harness::archs().iter().any(|other| other == arch) {
        harness::hip_optimized("clones", STRICT)
    } else {
        harness::hip_targets("clones", &[arch])
    };
    let run = Run::new(program).arch(arch);
    let (object, mut command) = compile(&run, "clones.hip", arch, options, variables);
    let compiled = command.output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let folder = run.file("messages");
    fs::create_dir(&folder).unwrap();
    let capture = run.file("a.ldcap");
    let run = run.args([&object, &folder]).env("LOGDUR_CAPTURE", capture).env("LOGDUR_CAPTURE_KERNELS", "^k_");
    run.watched().passed()
}

/// The arrays that the program names.
fn arrays(outcome: &Outcome) -> Vec<Range<u64>> {
    let lines = outcome.stdout.lines().filter_map(|line| line.strip_prefix("array "));
    let number = |word| u64::from_str_radix(word, 16).unwrap();
    lines.map(|line| line.split_once(' ').map(|(start, end)| number(start)..number(end)).unwrap()).collect()
}

#[test]
fn a_kernel_instrumented_by_hand_sends_what_its_lanes_do_also_when_buffers_are_full() {
    for arch in harness::archs() {
        Run::new(harness::hip_optimized("by_hand", STRICT)).arch(&arch).bare().passed();
    }
}

#[test]
fn a_kernel_instrumented_by_hand_sends_every_byte_that_the_emulator_sees_the_plain_kernel_access() {
    for arch in harness::archs() {
        let run = Run::new(harness::hip_optimized("by_hand", STRICT)).arch(&arch);
        let [messages, capture] = ["messages", "a.ldcap"].map(|name| run.file(name));
        let run = run.args([&messages]).env("LOGDUR_CAPTURE", &capture).env("LOGDUR_CAPTURE_KERNELS", "^k_accesses$");
        let outcome = run.watched().passed();
        let arrays = arrays(&outcome);
        let observed = accesses::of_capture(&capture, &arrays);
        assert_eq!((arrays.len(), observed.len()), (3, 1));
        let sent = Accesses::of_messages(&fs::read(&messages).unwrap(), &arrays);
        observed["k_accesses"].expect_sent(&sent, &arch);
    }
}

#[test]
fn clones_of_the_pass_send_every_byte_that_the_emulator_sees_their_kernels_access() {
    for arch in harness::archs() {
        for options in ["-O3", "-O1"] {
            clones_send_what_kernels_access(&arch, options);
        }
    }
}

/// Each clone of `clones`, compiled with some options for a processor, sends what the emulated GPU sees its kernel access.
pub(crate) fn clones_send_what_kernels_access(arch: &str, options: &str) {
    let outcome = cloned(arch, options, &[]);
    let arrays = arrays(&outcome);
    let observed = accesses::of_capture(&outcome.folder.path().join("a.ldcap"), &arrays);
    assert_eq!(observed.len(), 8, "{:?}", observed.keys());
    for (kernel, accesses) in observed {
        let bytes = fs::read(outcome.folder.path().join("messages").join(&kernel)).unwrap();
        let what = format!("{arch} {options} {kernel}");
        accesses.expect_sent(&Accesses::of_messages(&bytes, &arrays), &what);
    }
}

/// The messages that a kernel sent, by some variables of the pass.
fn messages(variables: &[(&str, &str)], kernel: &str) -> Vec<u8> {
    let outcome = cloned(&harness::arch(), "-O3", variables);
    fs::read(outcome.folder.path().join("messages").join(kernel)).unwrap()
}

fn headers(bytes: &[u8]) -> Vec<Header> {
    Messages::new(bytes).map(|message| message.unwrap().header).collect()
}

#[test]
fn the_pass_sends_from_the_lines_of_its_scope_and_names_them() {
    let path = harness::root().join("tests/programs/clones.hip");
    let text = fs::read_to_string(&path).unwrap();
    let line = 1 + text.lines().position(|line| line.contains("value += in[")).unwrap() as u32;
    let scopes = [format!("programs/clones.hip:{line}"), format!("{}:1,{line}:{}", path.display(), line + 1)];
    for scope in scopes {
        let headers = headers(&messages(&[("INSTRUMENTATION_SCOPE", &scope)], "k_divergent"));
        assert!(headers.len() >= 6, "{}", headers.len());
        for header in headers {
            assert_eq!((header.line, header.kind), (line, Kind::Address));
            assert_eq!(header.file, file_hash(&path.to_string_lossy()));
        }
    }
    for scope in ["other.hip", "lones.hip", "clones.hip:1:10"] {
        assert!(messages(&[("INSTRUMENTATION_SCOPE", scope)], "k_divergent").is_empty(), "{scope}");
    }
}

#[test]
fn the_pass_sends_block_starts_and_times_and_only_of_wanted_workgroups() {
    // Each of three workgroups has a wave of 64 lanes and one of 32.
    let found = headers(&messages(&[("LOGDUR_INSTRUMENT", "blocks,intervals")], "k_divergent"));
    let of = |kind, lanes| found.iter().filter(|h| h.kind == kind && h.user_data == 0 && h.lanes == lanes).count();
    assert_eq!((of(Kind::BlockStart, 64), of(Kind::BlockStart, 32)), (3, 3));
    assert_eq!((of(Kind::TimeInterval, 64), of(Kind::TimeInterval, 32)), (3, 3));
    assert!(found.iter().any(|h| h.kind == Kind::BlockStart && h.user_data > 0 && h.lanes < 32), "{found:?}");
    assert!(found.iter().all(|h| h.kind != Kind::Address));

    let mut all = headers(&messages(&[], "k_grid"));
    let filter = [("DH_COMMS_GROUP_FILTER_X", "1:3"), ("DH_COMMS_GROUP_FILTER_Y", "1")];
    let mut some = headers(&messages(&filter, "k_grid"));
    all.retain(|h| (1..3).contains(&h.block[0]) && h.block[1] == 1);
    let key = |h: &Header| (h.block, h.wave, h.line, h.column, h.user_data, h.exec);
    all.sort_by_key(key);
    some.sort_by_key(key);
    assert!(!all.is_empty());
    assert_eq!(all.iter().map(key).collect::<Vec<_>>(), some.iter().map(key).collect::<Vec<_>>());
}

#[test]
fn the_pass_refuses_variables_that_it_does_not_understand() {
    let wrong = [
        ("INSTRUMENTATION_SCOPE", "a.hip:x", "FILE:LINES"),
        ("INSTRUMENTATION_SCOPE", "a.hip:5:5", "FILE:LINES"),
        ("INSTRUMENTATION_SCOPE", "a.hip:1,;b.hip", "FILE:LINES"),
        ("INSTRUMENTATION_SCOPE", ":3", "FILE:LINES"),
        ("INSTRUMENTATION_SCOPE_FILE", "/nowhere", "a file that can be read"),
        ("LOGDUR_INSTRUMENT", "address", "addresses, blocks or intervals"),
        ("DH_COMMS_GROUP_FILTER_Z", "4:1", "N:M with N < M"),
        ("DH_COMMS_GROUP_FILTER_X", "-1", "N:M with N < M"),
    ];
    for (name, value, expected) in wrong {
        let run = Run::hip("by_hand");
        let (_, mut command) = compile(&run, "clones.hip", &harness::arch(), "-O1", &[(name, value)]);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        let said = text.contains(expected) && text.contains(value.split(';').next().unwrap());
        assert!(!output.status.success() && said, "{name}={value}: {text}");
    }
}

/// Makes a code object of what Triton left for LLVM, with clones, by Debian's newest LLVM.
fn instrumented(run: &Run, llir: &Path, arch: &str) -> PathBuf {
    let tools = harness::root().join("target/xtask/llvm/23-tools");
    assert!(tools.exists(), "no LLVM in {}: `cargo xtask test` fetches it", tools.display());
    // The machine's HIP has no code objects of ABI version 5.
    let text = fs::read_to_string(llir).unwrap();
    assert!(text.contains("\"amdhsa_code_object_version\", i32 500"));
    let source = run.file("in.ll");
    fs::write(&source, text.replace("code_object_version\", i32 500", "code_object_version\", i32 400")).unwrap();
    let [bitcode, object, linked] = ["in.bc", "in.o", "in.hsaco"].map(|name| run.file(name));
    let step = |program: &str, options: &[&str], input: &Path, output: &Path| {
        let mut command = Command::new(tools.join(program));
        let result = command.args(options).arg(input).arg("-o").arg(output).output().unwrap();
        assert!(result.status.success(), "{command:?}: {}", String::from_utf8_lossy(&result.stderr));
    };
    let plugin = harness::built("liblogdur-instrument-23.so");
    let cpu = format!("-mcpu={arch}");
    let load = format!("-load-pass-plugin={}", plugin.display());
    step("opt", &[&cpu, &load, "-passes=logdur"], &source, &bitcode);
    step("llc", &["-O3", &cpu, "-filetype=obj"], &bitcode, &object);
    step("lld", &["-flavor", "gnu", "-shared"], &object, &linked);
    linked
}

#[test]
fn clones_of_tritons_kernels_send_every_byte_that_the_emulator_sees_their_kernels_access() {
    for arch in harness::archs() {
        for case in ["vector_add", "layer_norm", "sort_rows", "transpose"] {
            let run = Run::new(harness::hip_optimized("clone_of", STRICT)).arch(&arch);
            let object = instrumented(&run, &harness::triton(&arch).join(format!("{case}.llir")), &arch);
            let [messages, capture] = ["messages", "a.ldcap"].map(|name| run.file(name));
            let words = triton::words(case, &arch);
            let filter = format!("^{}$", words[0]);
            let run = run.args([&object, &messages]).args(words);
            let outcome = run.env("LOGDUR_CAPTURE", &capture).env("LOGDUR_CAPTURE_KERNELS", filter).watched().passed();
            let arrays = arrays(&outcome);
            let observed = accesses::of_capture(&capture, &arrays);
            assert_eq!(observed.len(), 1);
            for accesses in observed.values() {
                let sent = Accesses::of_messages(&fs::read(&messages).unwrap(), &arrays);
                accesses.expect_sent(&sent, &format!("{arch} {case}"));
            }
        }
    }
}

/// The work-items of a workgroup of `cloned.cl`, and those of its grid.
const GROUP: u32 = 96;
const ITEMS: u32 = 5 * GROUP;

fn cloned_cl() -> PathBuf {
    harness::root().join("tests/programs/opencl/cloned.cl")
}

/// The code object of `cloned.cl`, whose kernel has a clone by the plugin for LLVM 19, or a newer one that knows the processor.
pub(crate) fn by_llvm_19(run: &Run, arch: &str) -> PathBuf {
    let (source, object, clang) = (cloned_cl(), run.file("cloned.hsaco"), versions::clang_for(arch));
    let mut command = Command::new(format!("clang-{clang}"));
    command.args(["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-O3", "-mcode-object-version=4"]);
    command.arg(harness::device_libraries(clang)).arg(format!("-mcpu={arch}"));
    let plugin = harness::built(&format!("liblogdur-instrument-{clang}.so"));
    command.arg(format!("-fpass-plugin={}", plugin.display()));
    let output = command.arg(source).arg("-o").arg(&object).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    object
}

/// The numbers that `scattered` reads.
fn numbers() -> Vec<u8> {
    (0..ITEMS).flat_map(|i| (i * 7919 % 1000).to_le_bytes()).collect()
}

/// A launch of `scattered`.
pub(crate) fn scattered() -> Launch {
    Launch {
        kernel: "scattered".to_owned(),
        grid: vec![ITEMS],
        workgroup: vec![GROUP],
        lds: 0,
        args: vec![
            Arg::Buffer(numbers()),
            Arg::Buffer(vec![0; numbers().len()]),
            Arg::Buffer(vec![0; 32]),
            Arg::Value(ITEMS.to_le_bytes().to_vec()),
        ],
    }
}

#[test]
fn a_clone_of_opencl_by_llvm_19_sends_every_byte_that_the_emulator_sees_the_kernel_access() {
    for arch in harness::archs() {
        let run = Run::new(harness::hip_optimized("clone_of", STRICT)).arch(&arch);
        let object = by_llvm_19(&run, &arch);
        let [numbers_file, zeros, messages, capture] =
            ["numbers", "zeros", "messages", "a.ldcap"].map(|name| run.file(name));
        fs::write(&numbers_file, numbers()).unwrap();
        fs::write(&zeros, vec![0; numbers().len()]).unwrap();
        let [from, to] = [&numbers_file, &zeros].map(|file| format!("buffer:{}", file.display()));
        let count = ITEMS.to_le_bytes().iter().fold("value:".to_owned(), |hex, byte| format!("{hex}{byte:02x}"));
        let run = run.args([&object, &messages]).args(["scattered", "5", "1", "1", "96", "0"]);
        let run = run.args([&from, &to, &to, &count]).env("LOGDUR_CAPTURE", &capture);
        let outcome = run.env("LOGDUR_CAPTURE_KERNELS", "^scattered$").watched().passed();
        let arrays = arrays(&outcome);
        let observed = accesses::of_capture(&capture, &arrays);
        let sent = Accesses::of_messages(&fs::read(&messages).unwrap(), &arrays);
        observed["scattered"].expect_sent(&sent, &arch);
    }
}

#[test]
fn an_opencl_program_is_instrumented_by_clones_in_its_own_code_and_in_the_cache() {
    let arch = harness::arch();
    let launch = scattered();
    let expected = launch::on_cpu(&cloned_cl(), "-cl-std=CL2.0", std::slice::from_ref(&launch));
    for in_cache in [false, true] {
        let run = launch::launcher(&arch);
        let mut object = by_llvm_19(&run, &arch);
        let [report, cache, indexes] = ["report.json", "clones", "indexes"].map(|name| run.file(name));
        fs::create_dir(&cache).unwrap();
        if in_cache {
            fs::rename(object, cache.join("cloned.hsaco")).unwrap();
            // An older compiler's, where one knows the processor.
            let clang = if versions::clang_for(&arch) == 19 { 15 } else { versions::clang_for(&arch) };
            object = harness::opencl_object(&cloned_cl(), &arch, clang, 2, 4, "");
        }
        let run = run.env("LOGDUR_INSTRUMENTED", "true").env("LOGDUR_HANDLERS", "AddressLogger");
        let run = run.env("LOGDUR_HANDLER_FORMAT", "json").env("LOGDUR_HANDLER_OUTPUT", report);
        let run = run.env("LOGDUR_KERNEL_CACHE", cache).env("XDG_CACHE_HOME", indexes);
        let launched = launch::launched_by(run, &object, std::slice::from_ref(&launch), true);
        let (got, outcome) = launched.unwrap_or_else(|outcome| panic!("{}", outcome.stderr));
        assert_eq!(got, expected, "the clone computes what the processor does");
        let text = outcome.read("report.json");
        let messages: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let lanes = |does: &str| -> usize {
            let of = messages.iter().filter(|message| message["op_type"] == does);
            of.map(|message| message["addresses"].as_array().unwrap().len()).sum()
        };
        // Each work-item reads OpenCL's offset of the grid, its number, a word of LDS and up to four more numbers; writes a word
        // and a result; a third adds to a sum.
        let looped: u32 = (0..ITEMS).map(|i| i % 5).sum();
        let added = (0..ITEMS).filter(|i| i % 3 == 1).count();
        let all = ((3 * ITEMS + looped) as usize, 2 * ITEMS as usize, added);
        assert_eq!((lanes("read"), lanes("write"), lanes("read/write")), all, "in the cache: {in_cache}");
    }
}

#[test]
fn a_clone_with_a_stack_of_unknown_size_gets_scratch_for_it_beside_a_kernel_with_and_without_one() {
    let arch = harness::arch();
    let source = harness::root().join("tests/programs/stacked.c");
    let numbers: Vec<u32> = (0..56).map(|i| i * 7919 % 1000).collect();
    // The outermost call is the last to mix, the innermost the first.
    let sum =
        (0..7).fold(0_u32, |sum, level| numbers[8 * level..][..8].iter().fold(sum, |sum, n| sum.wrapping_mul(3) ^ n));
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    for options in [&[][..], &["-DBOTH"]] {
        let run = launch::launcher(&arch);
        let object = run.file("stacked.hsaco");
        let mut command = Command::new(format!("clang-{}", versions::clang_for(&arch)));
        command.args(["-target", "amdgcn-amd-amdhsa", "-O3", "-mcode-object-version=5", "-nogpulib"]).args(options);
        let output = command.arg(format!("-mcpu={arch}")).arg(&source).arg("-o").arg(&object).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        let stacks = harness::notes(&object).matches(".uses_dynamic_stack: true").count();
        assert_eq!(stacks, 1 + options.len(), "{options:?}: the compiler knows the stack");
        let launch = Launch {
            kernel: "summed".to_owned(),
            grid: vec![128],
            workgroup: vec![64],
            lds: 0,
            args: vec![
                Arg::Buffer(bytes(&numbers)),
                Arg::Buffer(vec![0; 512]),
                Arg::Value(6_u32.to_le_bytes().to_vec()),
            ],
        };
        let run = run.env("LOGDUR_INSTRUMENTED", "true").env("LOGDUR_HANDLERS", lister());
        let run = run.env("LOGDUR_HANDLER_OUTPUT", "/dev/null");
        let launched = launch::launched_by(run, &object, std::slice::from_ref(&launch), true);
        let (got, outcome) =
            launched.unwrap_or_else(|outcome| panic!("{options:?}: {}{}", outcome.stdout, outcome.stderr));
        let log = outcome.log();
        let found = log.rows_of("summed");
        let instrumented = found.iter().filter(is_instrumented).count();
        assert_eq!((instrumented, found.len()), (1, 1), "{options:?}: {:?}", log.notices);
        let expected: Vec<u32> = (0..128).map(|item| sum.wrapping_add(item)).collect();
        assert_eq!(got[0][1], bytes(&expected), "{options:?}");
    }
}

/// A program with clones of its kernels, which send some messages.
pub(crate) fn with_clones(arch: &str, sends: &str) -> PathBuf {
    compiled_with_clones("analyzed", arch, sends)
}

fn compiled_with_clones(name: &str, arch: &str, sends: &str) -> PathBuf {
    let program = harness::programs().join(format!("{name}.{arch}.{sends}"));
    let mut command = harness::hipcc();
    command.args(["-std=c++17", "-O3", "-g"]).arg(format!("--offload-arch={arch}"));
    command.arg(format!("-fpass-plugin={}", plugin().display())).env("LOGDUR_INSTRUMENT", sends);
    command.arg(harness::root().join("tests/programs").join(name).with_extension("hip")).arg("-o").arg(&program);
    let compiled = command.output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

/// What the kernels of this program send to an analyzer with some options, as JSON.
pub(crate) fn analyzed(arch: &str, analyzer: &str, sends: &str, options: &str) -> Vec<Value> {
    analyzed_in(&with_clones(arch, sends), arch, analyzer, options)
}

fn analyzed_in(program: &Path, arch: &str, analyzer: &str, options: &str) -> Vec<Value> {
    let run = Run::new(program.to_owned()).arch(arch);
    let report = run.file("report.json");
    let run = run.env("LOGDUR_INSTRUMENTED", "true").env("LOGDUR_HANDLERS", analyzer);
    let run = run.env("LOGDUR_HANDLER_FORMAT", "json").env("LOGDUR_HANDLER_OUTPUT", report);
    let run = run.env("LOGDUR_HANDLER_OPTIONS", options);
    let outcome = run.watched().passed();
    let text = outcome.read("report.json");
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn the_analyzers_report_what_lines_of_a_program_are_known_to_do() {
    for arch in harness::archs() {
        let reports = analyzed(&arch, "MemoryAnalysis", "addresses", "");
        // The only access whose line has a mark.
        let access = |kernel: &str, part: &str, mark: &str| {
            let of = |r: &&Value| r["kernel_analysis"]["kernel_info"]["name"].as_str().unwrap().starts_with(kernel);
            let report = reports.iter().find(of).unwrap_or_else(|| panic!("no {kernel}"));
            let all = report["kernel_analysis"][part]["accesses"].as_array().unwrap();
            let marked = |a: &&Value| a["code_context"].as_str().unwrap().contains(mark);
            let found: Vec<_> = all.iter().filter(marked).collect();
            assert_eq!(found.len(), 1, "{kernel} {mark}: {all:?}");
            found[0]["access_info"].clone()
        };
        // 16 waves whose 64 lanes are 16 bytes apart.
        let line = if arch == "gfx906" { 64 } else { 128 };
        let strided = access("strided(", "cache_analysis", "strided load");
        assert_eq!((&strided["execution_count"], &strided["isa_bytes"]), (&16.into(), &4.into()));
        assert_eq!(strided["cache_lines"], json!({"needed": 16 * 256 / line, "used": 16 * 1024 / line}));
        let row = access("strided(", "cache_analysis", "row store");
        assert_eq!(row["cache_lines"], json!({"needed": 16 * 256 / line, "used": 16 * 256 / line}));
        // 64 waves; each half reads a column of a tile, which is in one bank unless rows are padded. 64 banks serve both halves at once:
        // there, 16 rows of a column are in a bank, and the first and the last lane of padded rows are.
        let conflicts = if arch == "gfx950" { [15, 1] } else { [62, 0] };
        for (kernel, of_wave) in ["transposed(", "transposed_padded("].into_iter().zip(conflicts) {
            assert_eq!(access(kernel, "bank_conflicts", "column read")["total_conflicts"], 64 * of_wave, "{arch}");
        }
    }
    let reports = analyzed(&harness::arch(), "BasicBlockAnalysis", "blocks,intervals", "");
    // 16 waves go ten times through a loop with a quarter of their lanes.
    let looped = |r: &&Value| {
        r["kernel"].as_str().unwrap().starts_with("divergent(")
            && r["block_count"] == 160
            && r["block_branchiness"] == 0.75
    };
    let looped = reports.iter().find(looped).unwrap_or_else(|| panic!("{reports:?}"));
    // MI300 and MI350 have a multiply-add with a constant in the instruction.
    let multiply_adds =
        ["v_fmac_f32_e32", "v_fmamk_f32"].map(|name| looped["instructions"][name].as_u64().unwrap_or(0));
    assert_eq!((&looped["block_timed"], multiply_adds.iter().sum()), (&160.into(), 1_u64));
}

#[test]
fn an_exit_block_that_only_returns_is_timed_and_so_is_the_one_before() {
    let program = compiled_with_clones("bounded", &harness::arch(), "blocks,intervals");
    let reports = analyzed_in(&program, &harness::arch(), "BasicBlockAnalysis", "");
    let blocks: Vec<_> = reports
        .iter()
        .filter(|report| report.get("block").is_some())
        .map(|block| (&block["block_count"], &block["block_timed"]))
        .collect();
    // Four waves go through the entry, the body and the exit.
    assert!(blocks.len() == 3 && blocks.iter().all(|(count, timed)| **count == 4 && count == timed), "{reports:#?}");
}

#[test]
fn a_block_of_an_inlined_function_is_at_a_line_of_its_header_also_where_no_instruction_has_the_line() {
    let program = compiled_with_clones("inlined", &harness::arch(), "blocks");
    let reports = analyzed_in(&program, &harness::arch(), "BasicBlockAnalysis", "");
    let mut of_header = 0;
    for block in reports.iter().filter(|report| report.get("block").is_some()) {
        let (file, line) = (block["kernel_file_name"].as_str().unwrap(), block["block_start_line"].as_u64().unwrap());
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{error}: {block}"));
        let line = text.lines().nth(line as usize - 1).unwrap_or_else(|| panic!("{block}"));
        of_header += u32::from(file.ends_with("/inlined.h") && line.contains('i'));
        assert!(!line.trim().is_empty() && !line.starts_with("//"), "{line}: {block}");
    }
    // The loop's head, its condition and its body.
    assert!(of_header >= 3, "{reports:#?}");
}

#[test]
fn a_clone_of_tritons_kernel_runs_in_its_place_and_sends_what_the_kernel_accesses() {
    let arch = harness::arch();
    let (wrong, outcome) = triton::swapped("vector_add", |folder| {
        let run = launch::launcher(&arch);
        let clones = run.file("clones");
        fs::create_dir(&clones).unwrap();
        let object = instrumented(&run, &folder.join("vector_add.llir"), &arch);
        fs::rename(object, clones.join("vector_add.hsaco")).unwrap();
        let report = run.file("report.json");
        let run = run.env("LOGDUR_INSTRUMENTED", "true").env("LOGDUR_KERNEL_CACHE", &clones);
        let run = run.env("LOGDUR_HANDLERS", "AddressLogger").env("LOGDUR_HANDLER_FORMAT", "json");
        run.env("LOGDUR_HANDLER_OUTPUT", report)
    });
    assert_eq!(wrong, Vec::<String>::new());
    let messages: Vec<Value> = outcome.read("report.json").lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let lanes = |does: &str| -> usize {
        let of = messages.iter().filter(|message| message["op_type"] == does);
        of.map(|message| message["addresses"].as_array().unwrap().len()).sum()
    };
    // Two reads and a write of each number: lanes behind their end send nothing.
    let numbers = fs::metadata(harness::triton(&arch).join("vector_add.0.before")).unwrap().len() as usize / 4;
    assert_eq!((lanes("read"), lanes("write")), (2 * numbers, numbers));
}

#[test]
fn the_header_names_the_processors_that_it_supports() {
    let run = Run::hip("by_hand");
    let file = run.file("empty.hip");
    fs::write(&file, "#include \"logdur_device.h\"\n").unwrap();
    let mut command = harness::hipcc();
    command.args(["-std=c++14", "-nogpuinc", "--cuda-device-only", "--offload-arch=gfx1030", "-c"]).arg(&file);
    command.arg("-I").arg(harness::root().join("instrument/include"));
    let outcome = run.finish(command);
    assert!(!outcome.status.success() && outcome.stderr.contains("supports gfx900, gfx906"), "{}", outcome.stderr);
}
