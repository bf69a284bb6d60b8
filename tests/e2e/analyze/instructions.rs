//! What instructions of captured dispatches do, against what their kernels are known to do.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use amdgpu_isa::Decoder;
use amdgpu_isa::inst::Inst;
use logdur_capture::Reader;
use object::{Object, ObjectSection, ObjectSymbol};
use serde_json::Value;

use crate::analyze::outstanding::early;
use crate::support::harness::{self, Outcome, Run, built};

/// A capture of all kernels of a program.
pub(crate) fn captured(program: &str, options: &str) -> (Outcome, PathBuf) {
    captured_on(&harness::arch(), program, options)
}

/// A capture of all kernels of a program on a processor.
pub(crate) fn captured_on(arch: &str, program: &str, options: &str) -> (Outcome, PathBuf) {
    captured_of(Run::new(harness::hip_optimized(program, options)).arch(arch))
}

/// A capture of all kernels of a run.
pub(crate) fn captured_of(run: Run) -> (Outcome, PathBuf) {
    let file = run.file("a.ldcap");
    let path = file.to_string_lossy().into_owned();
    let outcome = run.probed(&["--capture", &path, "-l", "/dev/null"]).passed();
    (outcome, file)
}

/// Analyses a capture: the status, an object for each dispatch, and what was said on stderr.
pub(crate) fn analyzed(file: &PathBuf, options: &[&str]) -> (i32, Vec<Value>, String) {
    let run = Run::new(built("omniprobe"));
    let mut command = Command::new(built("omniprobe"));
    command.arg("analyze").arg(file).arg("--json").args(options).stdin(Stdio::null()).env_remove("LD_PRELOAD");
    let outcome = run.finish(command);
    let objects = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (outcome.status.code().unwrap(), objects, outcome.stderr)
}

pub(crate) fn of<'o>(objects: &'o [Value], kernel: &str) -> &'o Value {
    let is = |o: &&Value| o["kernel"].as_str().unwrap().contains(kernel);
    objects.iter().find(is).unwrap_or_else(|| panic!("no {kernel}"))
}

/// The source line whose text contains a mark.
fn line<'o>(object: &'o Value, mark: &str) -> &'o Value {
    let is = |line: &&Value| line["source"]["text"].as_str().is_some_and(|text| text.contains(mark));
    object["lines"].as_array().unwrap().iter().find(is).unwrap_or_else(|| panic!("no {mark}: {}", object["lines"]))
}

/// What a check found: its words, and the texts of the source lines.
pub(crate) fn found(object: &Value, check: &str) -> Vec<(String, String)> {
    let findings = object["findings"].as_array().unwrap().iter().filter(|f| f["check"] == check);
    let text = |f: &Value| f["instruction"]["source"]["text"].as_str().unwrap_or_default().to_owned();
    findings.map(|f| (f["what"].as_str().unwrap().to_owned(), text(f))).collect()
}

#[test]
fn cache_lines_bank_conflicts_and_lanes_of_known_kernels_are_counted_by_source_line() {
    let (_kept, file) = captured("analyzed", "-O3 -g");
    let (status, all, said) = analyzed(&file, &[]);
    assert_eq!(status, 0, "{said}");

    // 1024 work-items, 16 waves: 64 words 16 bytes apart are in 16 lines of 64 bytes, and 256 bytes would fill 4.
    let strided = of(&all, "strided");
    let load = &line(strided, "strided load")["memory"];
    assert_eq!((&load["executions"], &load["bytes"]), (&16.into(), &(16 * 256).into()));
    assert_eq!((&load["l1_lines"], &load["l1_least"]), (&(16 * 16).into(), &(16 * 4).into()));
    let store = &line(strided, "row store")["memory"];
    assert_eq!((&store["l1_lines"], &store["l1_least"]), (&(16 * 4).into(), &(16 * 4).into()));

    // Four workgroups of 16 waves. A column of an unpadded tile is in one bank: each half of a wave needs 32 cycles. With
    // two rows of a tile in a wave, its lanes read two columns, the lower half one and the upper half the other.
    let conflicts = |kernel| line(of(&all, kernel), "column read")["lds"].clone();
    assert_eq!(
        (&conflicts("transposedP")["conflicts"], &conflicts("transposedP")["accesses"]),
        (&(64 * 62).into(), &64.into())
    );
    assert_eq!(conflicts("transposed_padded")["conflicts"], 0);
    assert_eq!(line(of(&all, "transposedP"), "row write")["lds"]["conflicts"], 0);

    // 16 waves, of which a quarter of the lanes do ten multiply-adds.
    let divergent = of(&all, "divergent");
    assert_eq!(divergent["totals"]["flops"]["f32"], 16 * 16 * 10 * 2);
    let is_fma =
        |i: &&Value| i["text"].as_str().unwrap().starts_with("v_f") || i["text"].as_str().unwrap().starts_with("v_mac");
    let (mut executions, mut lanes) = (0, 0);
    for inst in divergent["instructions"].as_array().unwrap().iter().filter(is_fma) {
        executions += inst["executions"].as_u64().unwrap();
        lanes += inst["lanes"].as_u64().unwrap();
    }
    assert_eq!((executions, lanes), (16 * 10, 16 * 16 * 10));
    let total: u64 =
        divergent["instructions"].as_array().unwrap().iter().map(|i| i["executions"].as_u64().unwrap()).sum();
    assert_eq!(divergent["totals"]["instructions"], total);
    let blocks = divergent["blocks"].as_array().unwrap();
    assert!(blocks.iter().any(|b| b["active"] == 0.25 && b["executions"].as_u64().unwrap() >= 16), "{blocks:?}");
}

#[test]
fn each_check_finds_its_error_and_is_silent_on_the_other_kernels() {
    let (_kept, file) = captured("analyzed", "-O3 -g");
    let (status, all, said) = analyzed(&file, &["--check", "all"]);
    assert_eq!(status, 6, "{said}");
    let races = found(of(&all, "without_barrier"), "race");
    assert!(races.iter().any(|(_, text)| text.contains("words[255 - threadIdx.x]")), "{races:?}");
    let uninitialised = found(of(&all, "unwritten"), "init");
    assert!(uninitialised.iter().any(|(what, _)| what.contains("address")), "{uninitialised:?}");
    for kernel in ["strided", "transposedP", "transposed_padded", "divergent"] {
        assert_eq!(of(&all, kernel)["findings"], Value::Array(Vec::new()), "{kernel}");
    }
    assert_eq!(found(of(&all, "without_barrier"), "wait"), []);
}

/// The instructions of a kernel with their addresses and places in the file.
pub(crate) fn instructions(bytes: &[u8], kernel: &str, arch: &str) -> Vec<(u64, usize, u32, Inst)> {
    let file = object::File::parse(bytes).unwrap();
    let symbol = file.symbols().find(|s| s.name() == Ok(kernel)).unwrap();
    let section = file.section_by_index(symbol.section_index().unwrap()).unwrap();
    let start = (section.file_range().unwrap().0 + symbol.address() - section.address()) as usize;
    let decoder = Decoder::new(arch.parse().unwrap());
    let (mut all, mut at) = (Vec::new(), 0);
    while at < symbol.size() as usize {
        let words: Vec<u32> =
            bytes[start + at..].chunks_exact(4).take(2).map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect();
        let Ok(inst) = decoder.decode(&words) else { break };
        let size = usize::from(inst.size);
        all.push((symbol.address() + at as u64, start + at, words[0], inst));
        at += size;
    }
    all
}

/// A kernel of a capture, of which mutants are analysed.
pub(crate) struct Original<'c> {
    file: &'c PathBuf,
    folder: &'c Path,
    dispatch: u64,
    /// Its symbol.
    pub(crate) symbol: &'c str,
    /// Its code object.
    pub(crate) bytes: Vec<u8>,
    /// Its instructions.
    pub(crate) code: Vec<(u64, usize, u32, Inst)>,
    /// What the analysis says of it.
    pub(crate) analysed: &'c Value,
}

impl Original<'_> {
    /// The addresses of instructions at which a check finds something when other bytes run in the place of the code object.
    pub(crate) fn found_in(&self, mutant: &[u8], check: &str) -> BTreeSet<u64> {
        let path = self.folder.join("mutant.hsaco");
        std::fs::write(&path, mutant).unwrap();
        let (id, hsaco) = (self.dispatch.to_string(), format!("all={}", path.display()));
        let (_, objects, said) = analyzed(self.file, &["-d", &id, "--hsaco", &hsaco, "--check", check]);
        let findings = objects[0]["findings"].as_array().unwrap_or_else(|| panic!("{said}"));
        findings.iter().map(|f| f["instruction"]["address"].as_u64().unwrap()).collect()
    }
}

/// Looks at each kernel of a program once, but for those of the runtime. A check must be silent on all of them.
pub(crate) fn each_kernel(program: &str, options: &str, arch: &str, check: &str, mut look: impl FnMut(&Original<'_>)) {
    let (kept, file) = captured_on(arch, program, options);
    let reader = Reader::open(&file).unwrap();
    let (status, all, said) = analyzed(&file, &["--what", "mix", "--check", check]);
    assert_eq!(status, 0, "{said}");
    let mut seen = BTreeSet::new();
    for dispatch in reader.dispatches() {
        let kernel = reader.records().kernels.iter().find(|k| k.id == dispatch.kernel).unwrap();
        if !seen.insert(kernel.symbol.clone()) || kernel.symbol.contains("amd_rocclr") {
            continue;
        }
        let bytes = reader.code_object(kernel.code_object).unwrap();
        look(&Original {
            file: &file,
            folder: kept.folder.path(),
            dispatch: dispatch.id,
            symbol: &kernel.symbol,
            code: instructions(&bytes, &kernel.symbol, arch),
            bytes: bytes.to_vec(),
            analysed: all.iter().find(|o| o["dispatch"] == dispatch.id).unwrap(),
        });
    }
}

/// `s_nop 0`.
const NOTHING: u32 = 0xbf80_0000;

/// The words of a wait that wait for less: for nothing, or for one operation more of a counter that it waits for.
fn weaker(word: u32) -> Vec<(&'static str, u32)> {
    let (vm, lgkm) = (word & 15 | (word >> 14 & 3) << 4, word >> 8 & 15);
    let mut all = vec![("taken out", NOTHING)];
    if vm < 63 {
        all.push(("vmcnt + 1", word & !0xc00f | (vm + 1) & 15 | ((vm + 1) >> 4) << 14));
    }
    if lgkm < 15 {
        all.push(("lgkmcnt + 1", word & !0xf00 | (lgkm + 1) << 8));
    }
    all
}

#[test]
fn a_wait_that_is_taken_out_or_weakened_is_found_or_no_executed_path_needs_it() {
    let (mut removed, mut redundant, mut weakened, mut enough, mut barriers) = (0, 0, 0, 0, (0, 0));
    let arch = harness::arch();
    let decoder = Decoder::new(arch.parse().unwrap());
    for (program, options) in [("analyzed", "-O3 -g"), ("local_memory", "-O3")] {
        each_kernel(program, options, &arch, "wait", |kernel| {
            let plain: Vec<(u64, Inst)> = kernel.code.iter().map(|(at, .., inst)| (*at, inst.clone())).collect();
            assert_eq!(early(&plain, kernel.analysed), BTreeSet::new(), "{}", kernel.symbol);
            let found = |offset: usize, word: u32, check: &str| {
                let mut mutant = kernel.bytes.clone();
                mutant[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
                kernel.found_in(&mutant, check)
            };
            let waits = kernel.code.iter().enumerate().filter(|(_, c)| c.3.op.name == "s_waitcnt");
            for (n, (address, offset, word, _)) in waits {
                for (how, word) in weaker(*word) {
                    let mut changed = plain.clone();
                    changed[n].1 = decoder.decode(&[word]).unwrap();
                    let expected = early(&changed, kernel.analysed);
                    let (all, needless) =
                        if word == NOTHING { (&mut removed, &mut redundant) } else { (&mut weakened, &mut enough) };
                    *all += 1;
                    if expected.is_empty() {
                        *needless += 1;
                        continue;
                    }
                    let found = found(*offset, word, "wait");
                    let told = format!("{}, {address:#x} {how}: {expected:x?} {found:x?}", kernel.symbol);
                    assert!(!found.is_empty() && found.is_subset(&expected), "{told}");
                }
            }
            for (_, offset, ..) in kernel.code.iter().filter(|c| c.3.op.name == "s_barrier") {
                let found = found(*offset, NOTHING, "race");
                barriers.0 += 1;
                barriers.1 += usize::from(!found.is_empty());
                assert!(!found.is_empty() || !kernel.symbol.contains("transposed"), "{}", kernel.symbol);
            }
        });
    }
    println!(
        "{removed} waits taken out: {} found, {redundant} needed on no executed path; {weakened} weakened: {} found, {enough} still \
         enough; {} of {} barriers found",
        removed - redundant,
        weakened - enough,
        barriers.1,
        barriers.0
    );
    assert!(removed - redundant > 80 && weakened - enough > 40 && barriers.1 > 4, "{barriers:?}");
}

/// Programs without errors that checks know, of every kind that the tests have.
const CORRECT: &[&str] = &[
    "atomics",
    "buffered",
    "calls",
    "functions",
    "grids",
    "groups",
    "half_loads",
    "halves",
    "lanes",
    "local_memory",
    "matrices",
    "reached",
];

/// More of them, for the long list.
const MORE: &[&str] = &[
    "copies",
    "first",
    "graphs",
    "integers",
    "many_gpus",
    "markers",
    "memory",
    "modules",
    "own_variables",
    "pageable",
    "primitives",
    "signal_memory",
    "spins",
    "streams",
    "swaps",
    "timed",
    "together",
    "variables",
    "vectors",
];

#[test]
fn checks_find_nothing_in_programs_that_are_correct() {
    let mut dispatches = 0;
    for program in CORRECT.iter().chain(MORE).take(harness::count(CORRECT.len(), usize::MAX)) {
        let (_kept, file) = captured(program, "-O3");
        let (status, all, said) = analyzed(&file, &["--check", "all"]);
        let findings: Vec<&Value> = all.iter().flat_map(|o| o["findings"].as_array().unwrap()).collect();
        assert!(status == 0 && findings.is_empty(), "{program}: {status} {said} {findings:?}");
        dispatches += all.len();
    }
    assert!(dispatches > 200, "{dispatches}");
}

#[test]
fn totals_and_findings_do_not_depend_on_the_number_of_threads() {
    let (_kept, file) = captured("analyzed", "-O3 -g");
    let objects = |program: &str, more: &[&str]| {
        let run = Run::new(built("omniprobe"));
        let mut command = Command::new(program);
        command.args(more).arg("analyze").arg(&file).args(["--json", "--what", "all", "--check", "all"]);
        let outcome = run.finish(command);
        assert_eq!(outcome.status.code(), Some(6), "{}", outcome.stderr);
        let mut all: Vec<Value> = outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        all.iter_mut().for_each(|object| object["host_ns"] = Value::Null);
        all
    };
    let omniprobe = built("omniprobe");
    let omniprobe = omniprobe.to_str().unwrap();
    let (one, all) = (objects("taskset", &["-c", "0", omniprobe]), objects(omniprobe, &[]));
    assert!(one == all && !one.is_empty());
}

#[test]
fn a_part_of_the_workgroups_is_observed_and_the_whole_dispatch_runs() {
    let (_kept, file) = captured("analyzed", "-O3 -g");
    for (wanted, observed) in [("2", 2), ("25%", 1), ("100", 4)] {
        let (status, all, said) = analyzed(&file, &["-k", "strided", "--workgroups", wanted]);
        assert_eq!(status, 0, "{said}");
        let strided = of(&all, "strided");
        assert_eq!((&strided["workgroups"], &strided["workgroups_total"]), (&observed.into(), &4.into()));
        // Four waves of a workgroup execute it once each.
        assert_eq!(line(strided, "strided load")["memory"]["executions"], 4 * observed);
    }
    let (status, _, said) = analyzed(&file, &["--workgroups", "0"]);
    assert!(status == 1 && said.contains("expected a number of workgroups"), "{status} {said}");
}

#[test]
fn a_page_has_the_code_of_each_dispatch_and_needs_no_other_file() {
    let (kept, file) = captured("analyzed", "-O3 -g");
    let path = kept.folder.path().join("page.html");
    let page = path.to_str().unwrap();
    let (status, all, said) = analyzed(&file, &["-k", "transposed", "--html", page]);
    assert_eq!((status, all.len()), (0, 2), "{said}");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches("<h1>").count(), 2);
    assert!(text.contains("column read") && text.contains("ds_read_b32") && text.contains("<rect "));
    assert!(!text.contains("http") && !text.contains("src="));
    let (status, _, said) = analyzed(&file, &["-k", "transposed", "--html", "/nonexistent/page.html"]);
    assert!(status == 1 && said.contains("/nonexistent/page.html"), "{status} {said}");
}

/// What `analyze` says of a capture: status, standard output and standard error.
fn told(file: &Path) -> (i32, String, String) {
    let run = Run::new(built("omniprobe"));
    let mut command = Command::new(built("omniprobe"));
    command.arg("analyze").arg(file).stdin(Stdio::null()).env_remove("LD_PRELOAD");
    let outcome = run.finish(command);
    (outcome.status.code().unwrap(), outcome.stdout, outcome.stderr)
}

#[test]
fn places_that_cost_most_have_shares_and_a_floor_and_only_arithmetic_is_counted() {
    let (_kept, file) = captured("places", "-O3 -g");
    let (status, all, said) = analyzed(&file, &[]);
    assert_eq!(status, 0, "{said}");
    let sorted = of(&all, "sorted");
    let floats = sorted["instructions"].as_array().unwrap().iter().map(|i| i["text"].as_str().unwrap());
    assert!(
        floats.clone().any(|text| text.starts_with("v_cvt_f32_i32"))
            && floats.clone().any(|text| text.starts_with("v_m"))
    );
    assert_eq!(sorted["totals"]["flops"], serde_json::json!({}), "it converts and compares");
    assert_eq!(of(&all, "nearly_full")["totals"]["flops"]["f32"], 64 * 2 * 1000 + 1);

    let (_, text, _) = told(&file);
    let of_kernel = |name: &str| -> Vec<&str> {
        let is_its = |part: &&str| part.lines().next().is_some_and(|line| line.contains(name));
        text.split("dispatch ").find(is_its).unwrap_or_else(|| panic!("no {name}: {text}")).lines().collect()
    };
    let lines = of_kernel("sorted");
    assert!(!lines.iter().any(|line| line.contains("roofline")), "{lines:?}");
    let share = |line: &&str| -> Option<u32> {
        line.strip_suffix("% of all cycles, roughly")?.rsplit(' ').next()?.parse().ok()
    };
    let shares: Vec<u32> = lines.iter().filter_map(share).collect();
    assert!(
        !shares.is_empty() && shares.is_sorted_by(|a, b| a >= b) && shares.iter().all(|of| (1..=100).contains(of)),
        "{lines:?}"
    );
    // 40,000 bytes of LDS leave room for one workgroup of four waves on a compute unit with four SIMDs.
    let most = slots(harness::arch().as_str());
    let empty = if most == 8 { 88 } else { 90 };
    let limit = format!(
        "40000 bytes of LDS of a workgroup leave {empty}% of the slots for waves empty: 1 of {most} waves a SIMD"
    );
    assert!(
        of_kernel("with_much_lds").iter().any(|line| line.trim() == limit),
        "{limit}: {:?}",
        of_kernel("with_much_lds")
    );
    // The store of one lane is less than a hundredth of a thousand multiply-adds.
    let lines = of_kernel("nearly_full");
    assert!(!lines.iter().any(|line| line.contains("lanes are active on average")), "{lines:?}");
}

/// Slots for waves of a SIMD.
fn slots(arch: &str) -> u32 {
    if matches!(arch, "gfx90a" | "gfx942") { 8 } else { 10 }
}

#[test]
fn after_a_gpu_fault_it_is_said_what_is_whole_of_the_capture() {
    if harness::on_hardware() {
        return;
    }
    for (good, whole) in [
        ("0", ["no dispatch", " is whole. "]),
        ("1", ["only dispatch ", " sorted(int*) is whole. "]),
        ("2", ["2 dispatches are whole, from ", " with_much_lds(int*). "]),
    ] {
        let run = Run::new(harness::hip_optimized("places", "-O3 -g")).args([good]);
        let file = run.file("a.ldcap");
        let path = file.to_string_lossy().into_owned();
        // Not HIP's own kernels.
        let options =
            ["--capture", &path, "--capture-kernels", "sorted|with_much_lds|nearly_full|wild", "-l", "/dev/null"];
        let outcome = run.probed(&options);
        // From HIP 7 on, an application gets the error of a fault, and may end in order.
        let is_finished = outcome.stderr.contains(", one that had not ended, with what it began with");
        let says = is_finished || outcome.stderr.contains("a.ldcap: not finished, ");
        assert!(!outcome.status.success() && says, "{}", outcome.stderr);
        let (status, text, said) = told(&file);
        assert_eq!(status, 5, "{said}");
        assert!(
            text.contains("ended early: GPU fault: write to 4 bytes at 0x") && text.contains("\n  places.hip:"),
            "{text}"
        );
        assert!(
            whole.iter().all(|words| said.contains(words))
                && said.contains(" wild(int*) had not ended. What it began with is in the capture: "),
            "{said}"
        );
        let info = Command::new(built("omniprobe")).arg("info").arg(&file).output().unwrap();
        let info = String::from_utf8(info.stdout).unwrap();
        let unended = info.lines().find(|line| line.contains(", did not end while it was captured")).unwrap();
        assert!(unended.contains("wild(int*)") && unended.contains(", no times, scope "), "{unended}");
        let analysed = text.matches("qualified: the capture was not finished").count();
        assert_eq!(analysed, if is_finished { 0 } else { good.parse::<usize>().unwrap() + 1 }, "{text}");
        // An application that is analysed at once: its captures are removed.
        let run = Run::new(harness::hip_optimized("places", "-O3 -g")).args([good]);
        let outcome = run.probed(&["-a", "mix", "-k", "sorted|with_much_lds|nearly_full|wild", "-l", "/dev/null"]);
        assert!(
            whole.iter().all(|words| outcome.stderr.contains(words)) && !outcome.stderr.contains("`omniprobe "),
            "{}",
            outcome.stderr
        );
    }
}
