//! Captures on the emulated GPU alone: no ROCm, no runtime, any machine. It has to say what a GPU under the runtime says.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::replay::verify::{self, WORDS, all_passed, ended, increment, json, on_file};
use crate::support::captures::{Buffer, Captured};
use crate::support::harness::{self, Run, built};

/// A tool on the emulated GPU alone.
fn tool(name: &str, captured: &Captured, options: &[&str]) -> harness::Outcome {
    verify::tool(name, captured, &[options, &["--backend", "emu"]].concat())
}

#[test]
fn functions_scratch_and_lds_work_without_a_runtime() {
    for arch in harness::archs() {
        for program in ["local_memory", "functions"].into_iter().take(harness::count(1, 2)) {
            let run = Run::hip(program).arch(&arch);
            let file = run.file("run.ldcap");
            let run = run.env("LOGDUR_CAPTURE", &file).watched().passed();
            let kernels: BTreeSet<_> = run.log().rows.iter().map(|row| row.kernel().to_owned()).collect();
            let options = ["--json", "--backend", "emu"];
            let outcome = on_file(Run::new(built("omniprobe")), "verify", &file, &arch, &options);
            all_passed(&outcome, kernels.len(), &format!("{program} on {arch}"));
        }
    }
}

#[test]
fn no_rocm_is_needed_and_none_is_looked_for() {
    let run = Run::new(built("omniprobe"));
    let file = increment(&harness::arch()).write(&run.file("a.ldcap"));
    // Nothing of this process's environment: no path, no library.
    let mut command = Command::new(built("omniprobe"));
    command.arg("verify").arg(&file).args(["--backend", "emu", "--json"]).env_clear().stdin(Stdio::null());
    let outcome = run.finish(command);
    let said = json(&outcome);
    assert_eq!((&said["result"], &said["runtime"]), (&"PASS".into(), &"no runtime".into()), "{said:#}");
    assert_eq!((&said["emulated"], &said["placed"]), (&true.into(), &"exact".into()), "{said:#}");
    assert_eq!(said["product"], format!("{} (emulated)", harness::arch()));
}

#[test]
fn what_differs_is_named_as_on_a_gpu() {
    let arch = harness::arch();
    let mut flipped = increment(&arch);
    flipped.buffers[0].before[4 * 77 + 1] ^= 0x40;
    let outcome = tool("verify", &flipped, &["--tol", "arg0=u32"]);
    ended(&outcome, "FAIL", 6);
    assert!(outcome.stdout.contains(&format!("[77] at {:#x}: expected ", WORDS + 4 * 77)), "{}", outcome.stdout);
    ended(&tool("verify", &increment(&arch), &["--grid", "128"]), "FAIL", 6);
    let other = harness::hip_object("kernels", &arch, "-O1");
    ended(&tool("verify", &increment(&arch), &["--hsaco", &format!("all={}", other.display())]), "PASS", 0);
}

#[test]
fn every_address_can_be_had() {
    let arch = harness::arch();
    for base in [0x1000, 0x7fff_ffff_0000] {
        let words = verify::incremented();
        let captured = Captured::of("increment", &arch, base, vec![Buffer { base, ..words }]);
        ended(&tool("verify", &captured, &[]), "PASS", 0);
    }
}

#[test]
fn a_processor_that_is_not_emulated_is_refused_with_those_that_are() {
    let captured = Captured { arch: "gfx1100".to_owned(), ..increment("gfx90a") };
    let outcome = tool("verify", &captured, &[]);
    assert_eq!(outcome.status.code(), Some(7), "{}{}", outcome.stdout, outcome.stderr);
    let text = "unknown processor \"gfx1100\": expected one of gfx900, gfx906, gfx908, gfx90a, gfx942, gfx950";
    assert!(outcome.stderr.contains(text), "{}", outcome.stderr);
}

#[test]
fn there_is_one_gpu_and_another_number_is_refused() {
    ended(&tool("verify", &increment(&harness::arch()), &["--device", "0"]), "PASS", 0);
    let outcome = tool("verify", &increment(&harness::arch()), &["--device", "3"]);
    assert!(outcome.stderr.ends_with(": expected GPU 3, found 0: the emulated one alone\n"), "{}", outcome.stderr);
}

#[test]
fn an_instruction_that_is_not_emulated_is_refused_by_its_name_before_anything_runs() {
    let arch = harness::arch();
    let other = harness::hip_object("candidates", &arch, "-DWAY=7 -O3");
    let outcome = tool("verify", &increment(&arch), &["--hsaco", &format!("all={}", other.display())]);
    assert_eq!(outcome.status.code(), Some(7), "{}{}", outcome.stdout, outcome.stderr);
    let text = format!("increment: 1 instructions that the emulated {arch} does not have: s_setkill at 0x");
    assert!(outcome.stderr.contains(&text), "{}", outcome.stderr);
}
