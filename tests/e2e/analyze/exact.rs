//! Exact analyses in the forms of omniprobe's analyzers, beside what instrumented clones send, and of whole applications.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use logdur_capture::Reader;
use serde_json::{Value, json};

use crate::analyze::instructions;
use crate::emulator::{opencl, triton};
use crate::instrument::kernels as clones;
use crate::support::harness::{self, Run, built};

/// Kernels of `analyzed.hip` that are without an error, by the beginning of their names.
const KERNELS: &[&str] = &["strided(", "transposed(", "transposed_padded(", "divergent("];

fn is_compared(name: &Value) -> bool {
    KERNELS.iter().any(|kernel| name.as_str().unwrap().starts_with(kernel))
}

/// Accesses of a report of `MemoryAnalysis`: by kernel, part, place and kind; what was counted.
fn accesses(reports: &[Value]) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for report in reports {
        let of = &report["kernel_analysis"];
        let name = &of["kernel_info"]["name"];
        if !is_compared(name) {
            continue;
        }
        for part in ["cache_analysis", "bank_conflicts"] {
            for access in of[part]["accesses"].as_array().unwrap() {
                let (at, info) = (&access["source_location"], &access["access_info"]);
                let key = json!([name, part, at, access["code_context"], info["type"], info["ir_bytes"]]).to_string();
                let counted = json!([info["execution_count"], info["cache_lines"], info["total_conflicts"]]);
                assert_eq!(all.insert(key, counted), None);
            }
        }
    }
    all
}

/// Lanes of each page that a kernel accesses, in the order of addresses, by kernel.
fn lanes(reports: &[Value]) -> BTreeMap<String, Vec<Value>> {
    let lanes = |report: &Value| -> Vec<Value> {
        report["pages"].as_array().unwrap().iter().map(|page| page["accesses"].clone()).collect()
    };
    let compared = reports.iter().filter(|report| is_compared(&report["kernel"]));
    compared.map(|report| (report["kernel"].as_str().unwrap().to_owned(), lanes(report))).collect()
}

#[test]
fn an_exact_analysis_reports_in_the_forms_of_instrumented_kernels_what_their_clones_send() {
    for arch in harness::archs() {
        let run = Run::new(clones::with_clones(&arch, "addresses")).arch(&arch);
        let (_kept, file) = instructions::captured_of(run);
        let exact = |options: &[&str]| {
            let (status, all, said) = instructions::analyzed(&file, options);
            assert_eq!(status, 0, "{said}");
            all
        };

        let sent = clones::analyzed(&arch, "MemoryAnalysis", "addresses", "");
        let observed = exact(&["-a", "MemoryAnalysis"]);
        let (of_clones, of_code) = (accesses(&sent), accesses(&observed));
        assert_eq!(of_clones, of_code);
        assert!(of_clones.len() >= 10, "{of_clones:?}");
        let fields = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(fields(&sent[0]), fields(&observed[0]));
        assert_eq!(sent[0]["metadata"]["gpu_info"], observed[0]["metadata"]["gpu_info"]);

        let pages = |reports: &[Value]| lanes(reports);
        let sent = pages(&clones::analyzed(&arch, "Heatmap", "addresses", "page=4096"));
        assert_eq!(sent, pages(&exact(&["-a", "Heatmap", "--analyzer-option", "page=4096"])));
        assert_eq!(sent.len(), KERNELS.len());
        assert!(sent.values().any(|pages| pages.len() > 4), "{sent:?}");

        // 16 waves go ten times through a loop with a quarter of their lanes.
        let looped = |report: &&Value| {
            report["kernel"].as_str().unwrap().starts_with("divergent(")
                && report["block_count"] == 160
                && report["block_branchiness"] == 0.75
        };
        let sent = clones::analyzed(&arch, "BasicBlockAnalysis", "blocks,intervals", "");
        let sent = sent.iter().find(looped).unwrap();
        let observed = exact(&["-a", "BasicBlockAnalysis"]);
        let observed = observed.iter().find(looped).unwrap();
        assert_eq!(fields(sent), fields(observed));
        assert_eq!(sent["kernel_file_name"], observed["kernel_file_name"]);
        // The emulated GPU is no model of time.
        assert_eq!(observed["block_timed"], 0);
    }
}

/// A report without what differs from run to run: the time, and the numbers of dispatches.
fn steady(mut report: Value) -> Value {
    report["metadata"]["timestamp"] = Value::Null;
    report["kernel_analysis"]["kernel_info"]["dispatch_id"] = Value::Null;
    report
}

#[test]
fn an_application_on_the_emulated_gpu_is_analysed_exactly_without_clones() {
    let program = harness::hip_optimized("analyzed", "-O3 -g");
    let (_kept, file) = instructions::captured_of(Run::new(program.clone()));
    let (_, expected, _) = instructions::analyzed(&file, &["-a", "MemoryAnalysis"]);
    let run = Run::new(program.clone());
    let report = run.file("report.json").to_string_lossy().into_owned();
    let options = ["-a", "MemoryAnalysis", "--analyzer-format", "json", "--analyzer-output", &report];
    let outcome = run.probed(&[&options[..], &["-l", "/dev/null"]].concat()).passed();
    let text = outcome.read("report.json");
    let found: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let steady = |all: Vec<Value>| all.into_iter().map(steady).collect::<Vec<_>>();
    assert_eq!(steady(found), steady(expected));

    // Words of `omniprobe analyze` are analyses too; a check that finds something makes the status, as the application's is 0.
    let options = ["-a", "lines,race", "-k", "without_barrier|strided", "-l", "/dev/null"];
    let outcome = Run::new(program.clone()).probed(&options);
    assert_eq!(outcome.status.code(), Some(6), "{}", outcome.stderr);
    let said = &outcome.stdout;
    assert!(said.contains("PASS\n") && said.contains("analyzed.hip:40: ds_read_b32"), "{said}");
    assert!(said.contains("more cache lines than its bytes need") && !said.contains("transposed"), "{said}");

    // The status of an application that failed is its own.
    let failing = Run::new("/bin/sh".into()).args(["-c", &format!("{}; exit 9", program.display())]);
    assert_eq!(failing.probed(&["-a", "race", "-l", "/dev/null"]).status.code(), Some(9));
}

#[test]
fn analyzers_that_need_clones_or_a_device_are_refused_before_the_application_starts() {
    let refused = |emulate: &[&str], options: &[&str], expected: &str| {
        let run = Run::new(built("omniprobe"));
        let mut command = Command::new(built("omniprobe"));
        command.args(emulate).args(options).args(["--", "/bin/echo", "started"]).stdin(Stdio::null());
        command.env_remove("LOGDUR_INSTRUMENTED");
        let outcome = run.finish(command);
        assert!(
            outcome.status.code() == Some(1) && outcome.stderr.contains(expected),
            "{options:?}: {}",
            outcome.stderr
        );
        assert_eq!(outcome.stdout, "");
    };
    let emulated = ["--emulate", &harness::arch()];
    refused(&emulated, &["-a", "AddressLogger"], "which instrumented clones send: -i runs those");
    refused(&emulated, &["-a", "./count.so"], "which instrumented clones send: -i runs those");
    refused(&emulated, &["-a", "Heat"], "An exact analysis has MemoryAnalysis, Heatmap, BasicBlockAnalysis, mix");
    refused(&emulated, &["-a", "lines", "--analyzer-format", "csv"], "--analyzer-format csv");
    refused(&emulated, &["-a", "Heatmap", "--analyzer-option", "page=5"], "expected a power of two");
    refused(&emulated, &["-a", "Heatmap", "--analyzer-option", "size=5"], "has the option page=BYTES");
    refused(&emulated, &["-a", "Heatmap", "--capture", "a.ldcap"], "then `omniprobe analyze FILE`");
    refused(&emulated, &["-a", "Heatmap", "--analyzer-output", "%p.json"], "without %p");
    refused(&[], &["-a", "Heatmap"], "--emulate ARCH, which analyses exactly on the emulated GPU");
}

/// The functions and lines of an address, the innermost first, as LLVM finds them.
fn symbolized(object: &std::path::Path, addresses: &[u64]) -> Vec<Value> {
    let mut command = Command::new("llvm-symbolizer");
    command.args(["--inlining", "--no-demangle", "--output-style=JSON"]).arg(format!("--obj={}", object.display()));
    let output = command.args(addresses.iter().map(|at| format!("{at:#x}"))).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    all.into_iter().map(|object| object["Symbol"].clone()).collect()
}

#[test]
fn places_of_inlined_code_name_each_call_as_llvm_does() {
    let (kept, file) = instructions::captured_of(Run::new(harness::hip_optimized("analyzed", "-O3 -g")));
    let (status, all, said) = instructions::analyzed(&file, &["--what", "mix"]);
    assert_eq!(status, 0, "{said}");
    let reader = Reader::open(&file).unwrap();
    let (mut compared, mut inlined) = (0, 0);
    for analysed in all.iter().filter(|object| !object["kernel"].as_str().unwrap().starts_with("__amd_rocclr")) {
        let dispatch = reader.dispatches().iter().find(|d| analysed["dispatch"] == d.id).unwrap();
        let kernel = reader.records().kernels.iter().find(|k| k.id == dispatch.kernel).unwrap();
        let object = kept.folder.path().join("code.hsaco");
        std::fs::write(&object, reader.code_object(kernel.code_object).unwrap()).unwrap();
        let known = |inst: &&Value| !inst["source"].is_null();
        let instructions: Vec<&Value> = analysed["instructions"].as_array().unwrap().iter().filter(known).collect();
        let addresses: Vec<u64> = instructions.iter().map(|inst| inst["address"].as_u64().unwrap()).collect();
        for (inst, expected) in instructions.iter().zip(symbolized(&object, &addresses)) {
            let place = |frame: &Value, names: [&str; 4]| names.map(|name| frame[name].clone());
            let frames =
                |all: &Value, names| all.as_array().unwrap().iter().map(|f| place(f, names)).collect::<Vec<_>>();
            let found = frames(&inst["frames"], ["function", "file", "line", "column"]);
            assert_eq!(found, frames(&expected, ["FunctionName", "FileName", "Line", "Column"]), "{inst}");
            compared += 1;
            inlined += usize::from(found.len() > 1);
        }
    }
    assert!(compared > 100 && inlined > 30, "{compared} {inlined}");

    let run = Run::new(built("omniprobe"));
    let mut command = Command::new(built("omniprobe"));
    command.arg("analyze").arg(&file).args(["-k", "transposed_padded", "--annotate"]).env_remove("LD_PRELOAD");
    let text = run.finish(command).stdout;
    let source = std::fs::read_to_string(harness::root().join("tests/programs/analyzed.hip")).unwrap();
    let line = |mark: &str| 1 + source.lines().position(|line| line.contains(mark)).unwrap();
    let expected = format!(
        "transpose_tile<1> at analyzed.hip:{}, inlined into transposed_padded at analyzed.hip:{}",
        line("column read"),
        line("void transposed_padded")
    );
    assert!(text.contains(&expected), "{expected}\n{text}");
}

/// Fails if a check finds something in a capture. Returns the number of dispatches.
fn is_silent(name: &str, file: &std::path::PathBuf) -> usize {
    let (status, all, said) = instructions::analyzed(file, &["--check", "memory,init,race,wait,barrier"]);
    let findings: Vec<&Value> = all.iter().flat_map(|o| o["findings"].as_array().unwrap()).collect();
    assert!(status == 0 && findings.is_empty(), "{name}: {status} {said} {findings:#?}");
    all.len()
}

#[test]
fn checks_are_silent_on_kernels_of_opencl_c_and_of_triton() {
    let opencl: usize = opencl::captured().iter().map(|(name, file, _run)| is_silent(name, file)).sum();
    assert!(opencl >= 30, "{opencl}");
    let arch = harness::arch();
    let mut triton = 0;
    for name in triton::names(&arch) {
        let (file, _run) = triton::captured(&name, &arch);
        triton += is_silent(&name, &file);
    }
    assert!(triton > 20, "{triton}");
}

#[test]
fn two_analyses_are_shown_side_by_side_with_what_is_less_and_more() {
    let (_kept, file) = instructions::captured_of(Run::new(harness::hip_optimized("analyzed", "-O3 -g")));
    // The kernel without padding in the place of that with padding, at another place of the same code object.
    let (_other, slow) = instructions::captured_of(Run::new(harness::hip_optimized("analyzed", "-O1 -g")));
    let path = slow.to_str().unwrap();
    let (status, all, said) = instructions::analyzed(&file, &["-k", "divergent", "--against", path]);
    assert_eq!((status, all.len()), (0, 2), "{said}");
    let (_, others, _) = instructions::analyzed(&slow, &["-k", "divergent"]);
    let compared = &all[1]["compared"]["wave instructions"];
    assert_eq!(compared["this"], all[0]["totals"]["instructions"]);
    assert_eq!(compared["against"], others[0]["totals"]["instructions"]);
    assert_eq!((&all[1]["dispatch"], &all[1]["against"]), (&all[0]["dispatch"], &others[0]["dispatch"]));

    let text = |options: &[&str]| {
        let run = Run::new(built("omniprobe"));
        let mut command = Command::new(built("omniprobe"));
        command.arg("analyze").arg(&file).args(options).env_remove("LD_PRELOAD");
        run.finish(command).stdout
    };
    let same = text(&["-k", "strided", "--against", file.to_str().unwrap()]);
    assert!(same.ends_with("  the same\n"), "{same}");
    // Two workgroups for four: each lane of the same kernel has other elements, and half of them none.
    let half = text(&["-k", "strided", "--grid", "512,1,1", "--against", file.to_str().unwrap()]);
    let lines = half.lines().find(|line| line.trim_start().starts_with("L1 lines")).unwrap();
    assert!(
        lines.ends_with("-50.0%") && half.lines().last().unwrap().starts_with("  fewer wave instructions"),
        "{half}"
    );
}

#[test]
fn a_kernel_is_placed_below_the_published_peaks_of_its_product() {
    let (kept, file) = instructions::captured_of(Run::new(harness::hip_optimized("analyzed", "-O3 -g")).arch("gfx90a"));
    let page = kept.folder.path().join("page.html");
    let (status, all, said) = instructions::analyzed(&file, &["-k", "divergent", "--html", page.to_str().unwrap()]);
    assert_eq!(status, 0, "{said}");
    let roofline = &all[0]["roofline"];
    assert_eq!(roofline["published_peaks_of"], "AMD Instinct MI210");
    // 256 lanes do 10 multiply-adds; 1024 words are read and as many written.
    let point = &roofline["points"][0];
    let expected: f64 = (16.0 * 16.0 * 10.0 * 2.0) / (2.0 * 4096.0);
    assert_eq!((&point["type"], &point["operations_per_byte"]), (&json!("f32"), &json!(expected)));
    // AMD's data sheet of MI210: 1.6384 TB/s.
    assert_eq!(point["roof"].as_f64().unwrap().round(), (expected * 1.6384e12).round());
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(
        text.contains("published peaks of AMD Instinct MI210")
            && text.contains("<polyline ")
            && text.contains("<circle ")
    );
}
