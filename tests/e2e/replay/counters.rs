//! `omniprobe bench --pmc`: counters that a profiler reads during replays, and those that the emulated GPU has exactly.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;

use crate::analyze::instructions::{analyzed, captured_on};
use crate::replay::verify::{increment, json, on_file, tool};
use crate::support::captures::{Captured, Demand};
use crate::support::harness::{self, Outcome, Run, built};

/// Launches before those that count: one that is looked at, and three to warm up.
const BEFORE: u64 = 4;

/// `omniprobe bench --pmc` on a device that is there as a GPU is, with a stand-in for rocprofv3 in `PATH`.
fn profiled(
    captured: &Captured,
    counters: &str,
    options: &[&str],
    stand_in: &[(&str, &str)],
) -> (Outcome, Vec<String>) {
    let mut run = Run::new(built("omniprobe")).arch(&captured.arch);
    let file = captured.write(&run.file("a.ldcap"));
    let bin = run.file("bin");
    fs::create_dir(&bin).unwrap();
    symlink(harness::root().join("tests/programs/rocprofv3.sh"), bin.join("rocprofv3")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let calls = run.file("calls");
    run = run.env("PATH", path).env("STAND_IN_LIBRARY", built("liblogdur.so")).env("STAND_IN_CALLS", &calls);
    for (name, value) in stand_in {
        run = run.env(name, value);
    }
    run = run.args(["bench".as_ref(), file.as_os_str(), "--pmc".as_ref(), counters.as_ref(), "--json".as_ref()]);
    let outcome = run.args(["-r", "3"]).args(options).args(harness::rocm_option()).bare();
    let calls = fs::read_to_string(outcome.folder.path().join("calls")).unwrap_or_default();
    (outcome, calls.lines().map(|line| line.trim().to_owned()).collect())
}

/// The counters of a kernel by their names.
fn counters(said: &Value, side: usize) -> BTreeMap<String, Value> {
    let all = said["sides"][side]["counters"].as_array().unwrap_or_else(|| panic!("no counters: {said:#}"));
    all.iter().map(|row| (row["name"].as_str().unwrap().to_owned(), row.clone())).collect()
}

/// What the stand-in says of the launches that count, by its own words.
fn of_stand_in(name: &str, runs: u64) -> Vec<u64> {
    (BEFORE + 1..=BEFORE + runs).map(|n| if name == "SQ_WAVES" { 4 } else { 1000 * name.len() as u64 + n }).collect()
}

#[test]
fn counters_of_hardware_are_joined_from_as_many_passes_as_they_need() {
    let names = ["SQ_WAVES", "GRBM_COUNT", "TCC_HIT[0]", "SQ_BUSY_CYCLES"];
    let captured = increment(&harness::arch());
    let passes = |excess: &str| {
        let (outcome, calls) =
            profiled(&captured, &names.join(","), &[], &[("STAND_IN_ROOM", "2"), ("STAND_IN_EXCESS", excess)]);
        let said = json(&outcome);
        assert_eq!(outcome.status.code(), Some(0), "{said:#}{}", outcome.stderr);
        assert_eq!(said["counter_passes"], calls.len(), "{calls:?}");
        let counted = counters(&said, 0);
        for name in names {
            let (row, expected) = (&counted[name], of_stand_in(name, 5));
            assert_eq!((&row["by"], &row["missing"]), (&"rocprofv3".into(), &Value::Null), "{row:#}");
            assert_eq!(row["runs"], serde_json::json!(expected), "{row:#}");
            assert_eq!(
                [&row["median"], &row["min"], &row["max"]],
                [&expected[2], &expected[0], &expected[4]].map(|n| n)
            );
        }
        calls
    };
    let divided = ["SQ_WAVES GRBM_COUNT TCC_HIT[0] SQ_BUSY_CYCLES", "SQ_WAVES GRBM_COUNT", "TCC_HIT[0] SQ_BUSY_CYCLES"];
    assert_eq!(passes("error"), divided);
    assert_eq!(passes("abort"), divided);
    // What is left out is asked for again, alone.
    assert_eq!(passes("skip"), [divided[0], divided[2]]);
}

#[test]
fn one_pass_is_enough_for_what_fits_and_both_kernels_are_counted() {
    let object = |level| harness::hip_object("kernels", &harness::arch(), level).display().to_string();
    let files = [object("-O3"), object("-O1")];
    let options = ["--pmc-runs", "2", "--warm-up", "3", "--compare", &files[0], &files[1]];
    let (outcome, calls) = profiled(&increment(&harness::arch()), "SQ_WAVES,GRBM_COUNT,SQ_WAVES", &options, &[]);
    let said = json(&outcome);
    assert_eq!((outcome.status.code(), calls), (Some(0), vec!["SQ_WAVES GRBM_COUNT".to_owned(); 2]), "{said:#}");
    for side in [0, 1] {
        let counted = counters(&said, side);
        assert_eq!(counted.len(), 2);
        assert_eq!(counted["SQ_WAVES"]["runs"], serde_json::json!([4, 4]));
        assert_eq!(counted["GRBM_COUNT"]["median"], serde_json::json!(10005.5));
    }
}

#[test]
fn a_counter_that_rocprofv3_lacks_does_not_keep_the_others_from_being_counted() {
    let (outcome, _) =
        profiled(&increment(&harness::arch()), "SQ_WAVES,NO_SUCH,GRBM_COUNT", &[], &[("STAND_IN_UNKNOWN", "NO_SUCH")]);
    let said = json(&outcome);
    assert_eq!(outcome.status.code(), Some(3), "{said:#}");
    let counted = counters(&said, 0);
    assert_eq!(
        (&counted["SQ_WAVES"]["median"], counted["GRBM_COUNT"]["runs"].as_array().unwrap().len()),
        (&4.into(), 5)
    );
    let why = "not counted: rocprofv3 ended with status 1: rocprofv3: Unable to find counter NO_SUCH";
    assert_eq!(counted["NO_SUCH"]["missing"], why);
    assert!(outcome.stderr.contains(&format!("omniprobe: dispatch 7: NO_SUCH: {why}")), "{}", outcome.stderr);
    // The times are there nevertheless.
    assert_eq!(said["sides"][0]["gpu"]["runs"], 3);
}

#[test]
fn what_the_profiler_writes_is_believed_only_if_it_is_of_every_launch() {
    let captured = increment(&harness::arch());
    for (writes, said) in [
        ("short", "rocprofv3: expected SQ_WAVES of 9 dispatches of increment, found it of 8"),
        ("other", "the table counter_collection.csv of rocprofv3: line 1: expected that column in Dispatch_Id"),
    ] {
        let (outcome, _) = profiled(&captured, "SQ_WAVES", &[], &[("STAND_IN_WRITES", writes)]);
        assert_eq!(outcome.status.code(), Some(3), "{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains(said), "{}", outcome.stderr);
    }
    let (outcome, _) = profiled(&captured, "SQ_WAVES", &[], &[("STAND_IN_WRITES", "none")]);
    assert_eq!(outcome.status.code(), Some(3), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("SQ_WAVES: not counted: rocprofv3 wrote no row of it"), "{}", outcome.stderr);
}

#[test]
fn what_keeps_a_replay_from_running_is_said_as_without_a_profiler() {
    let captured = Captured { without: Some(Demand::Buffers), ..increment(&harness::arch()) };
    let (outcome, calls) = profiled(&captured, "SQ_WAVES", &[], &[]);
    let bare = tool("bench", &captured, &[]);
    assert_eq!(outcome.status.code(), bare.status.code(), "{}{}", outcome.stderr, bare.stderr);
    assert_ne!(outcome.status.code(), Some(0));
    assert!(calls.len() <= 1, "{calls:?}");
}

#[test]
fn without_rocprofv3_it_is_said_where_it_was_looked_for() {
    let run = Run::new(built("omniprobe"));
    let file = increment(&run_arch()).write(&run.file("a.ldcap"));
    let run = run.env("PATH", "/nowhere").env("ROCM_PATH", "/nowhere");
    let run = run.args(["bench".as_ref(), file.as_os_str(), "--pmc".as_ref(), "SQ_WAVES".as_ref()]);
    if Path::new("/opt/rocm/bin/rocprofv3").exists() {
        return;
    }
    let outcome = run.bare();
    assert_eq!(outcome.status.code(), Some(3), "{}{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stderr.contains("--pmc needs rocprofv3 of rocprofiler-sdk"), "{}", outcome.stderr);
}

fn run_arch() -> String {
    harness::arch()
}

/// Counters of the first of the dispatches that are chosen.
fn counted(file: &Path, which: [&str; 2], names: &[&str]) -> BTreeMap<String, Value> {
    let device = ["--backend", "emu", "-r", "1", "--warm-up", "0", "--no-verify"];
    let names = names.join(",");
    let options = [&device as &[&str], &which, &["--json", "--pmc", &names]].concat();
    let outcome = on_file(Run::new(built("omniprobe")), "bench", file, "gfx90a", &options);
    let first = outcome.stdout.lines().next().unwrap_or_default();
    let said: Value = serde_json::from_str(first).unwrap_or_else(|e| panic!("{e}: {}", outcome.stderr));
    counters(&said, 0)
}

#[test]
fn waves_and_instructions_of_a_small_kernel_are_those_of_its_code() {
    // 256 work-items in four waves of 64: a load of the argument, a load and a store of the word, and the end.
    let each = [
        ("SQ_WAVES", 4),
        ("SQ_WAVES_EQ_64", 4),
        ("SQ_WAVES_LT_64", 0),
        ("SQ_ITEMS", 256),
        ("SPI_CSN_NUM_THREADGROUPS", 4),
        ("SQ_INSTS_SMEM", 4),
        ("SQ_INSTS_VMEM", 8),
        ("SQ_INSTS_VMEM_RD", 4),
        ("SQ_INSTS_VMEM_WR", 4),
        ("SQ_INSTS_FLAT", 8),
        ("SQ_INSTS_LDS", 0),
        ("SQ_INSTS_BRANCH", 0),
        ("SQ_INSTS_SENDMSG", 4),
        ("SQ_INSTS_MFMA", 0),
        ("SFetchInsts", 1),
        ("SQ_LDS_BANK_CONFLICT", 0),
    ];
    let names: Vec<&str> = each.iter().map(|(name, _)| *name).collect();
    for options in [&["--backend", "emu"] as &[&str], &[]] {
        let outcome = tool("bench", &increment("gfx90a"), &[options, &["--json", "--pmc", &names.join(",")]].concat());
        let said = json(&outcome);
        assert_eq!(outcome.status.code(), Some(0), "{said:#}{}", outcome.stderr);
        let found = counters(&said, 0);
        for (name, expected) in each {
            assert_eq!(found[name]["median"], expected, "{name}: {said:#}");
        }
        assert_eq!(
            (&found["SQ_WAVES"]["by"], &found["SQ_LDS_BANK_CONFLICT"]["by"]),
            (&"exact".into(), &"model".into())
        );
        if harness::on_hardware() {
            return;
        }
    }
    // 200 work-items: the last wave has eight.
    let mut fewer = increment("gfx90a");
    fewer.grid = 200;
    let untouched = fewer.buffers[0].before[800..1024].to_vec();
    fewer.buffers[0].after[800..1024].copy_from_slice(&untouched);
    let partial = ["SQ_WAVES", "SQ_WAVES_EQ_64", "SQ_WAVES_LT_64", "SQ_WAVES_LT_16", "SQ_ITEMS"];
    let outcome = tool("bench", &fewer, &["--backend", "emu", "--json", "--pmc", &partial.join(",")]);
    let found = counters(&json(&outcome), 0);
    assert_eq!(partial.map(|name| found[name]["median"].as_u64()), [4, 3, 1, 1, 200].map(Some));
}

/// The counter of an instruction, by how LLVM writes it.
fn of_text(text: &str) -> &'static str {
    let name = text.split_whitespace().next().unwrap();
    let internal = ["s_waitcnt", "s_nop", "s_barrier", "s_sleep", "s_setprio", "s_sethalt", "s_icache_inv"];
    match name {
        "s_endpgm" | "s_sendmsg" => "SQ_INSTS_SENDMSG",
        _ if internal.contains(&name) => "",
        _ if name.starts_with("s_branch") || name.starts_with("s_cbranch") => "SQ_INSTS_BRANCH",
        _ if ["s_load", "s_buffer", "s_dcache", "s_mem", "s_store"].iter().any(|of| name.starts_with(of)) => {
            "SQ_INSTS_SMEM"
        }
        _ if name.starts_with("s_") => "SQ_INSTS_SALU",
        _ if name.starts_with("v_") => "SQ_INSTS_VALU",
        _ if name.starts_with("ds_") => "SQ_INSTS_LDS",
        _ if ["flat_", "global_", "scratch_", "buffer_"].iter().any(|of| name.starts_with(of)) => "SQ_INSTS_VMEM",
        _ => panic!("{text}"),
    }
}

#[test]
fn the_counters_of_kinds_are_the_sums_of_what_analyze_lists() {
    let kinds = [
        "SQ_INSTS_SENDMSG",
        "SQ_INSTS_BRANCH",
        "SQ_INSTS_SMEM",
        "SQ_INSTS_SALU",
        "SQ_INSTS_VALU",
        "SQ_INSTS_LDS",
        "SQ_INSTS_VMEM",
    ];
    let (_kept, file) = captured_on("gfx90a", "analyzed", "-O3 -g");
    let (_, all, said) = analyzed(&file, &[]);
    let mut looked_at = 0;
    for object in &all {
        let kernel = object["kernel"].as_str().unwrap();
        // The one whose accesses are outside of its memory has other tests.
        if kernel.contains("behind_the_end") {
            continue;
        }
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for inst in object["instructions"].as_array().unwrap() {
            let text = inst["text"].as_str().unwrap();
            let executions = inst["executions"].as_u64().unwrap();
            if executions > 0 {
                *sums.entry(of_text(text)).or_default() += executions;
            }
        }
        let dispatch = object["dispatch"].to_string();
        let found = counted(&file, ["-d", &dispatch], &[&kinds as &[&str], &["SQ_INSTS"]].concat());
        for kind in kinds {
            assert_eq!(found[kind]["median"].as_u64(), Some(sums.get(kind).copied().unwrap_or(0)), "{kernel}: {kind}");
        }
        assert_eq!(found["SQ_INSTS"]["median"], object["totals"]["instructions"], "{kernel}");
        looked_at += 1;
    }
    assert!(looked_at >= 5, "{said}");
}

#[test]
fn conflicts_and_matrix_operations_of_known_kernels_are_counted() {
    // Four workgroups of 16 waves; each wave writes a row and reads a column: 62 cycles more.
    let (_kept, file) = captured_on("gfx90a", "analyzed", "-O3 -g");
    let found = counted(&file, ["-k", "^transposed\\("], &["SQ_LDS_BANK_CONFLICT", "SQ_INSTS_LDS"]);
    assert_eq!(
        (&found["SQ_LDS_BANK_CONFLICT"]["median"], &found["SQ_INSTS_LDS"]["median"]),
        (&(64 * 62).into(), &128.into())
    );

    // One wave multiplies twice: 2 * 32 * 32 * 8 operations each time.
    let (_kept, file) = captured_on("gfx90a", "matrices", "-O3");
    let names = ["SQ_INSTS_MFMA", "SQ_INSTS_VALU_MFMA_F16", "SQ_INSTS_VALU_MFMA_MOPS_F16", "SQ_INSTS_VALU_MFMA_F32"];
    let found = counted(&file, ["-k", "k_f32_32x32x8f16"], &names);
    assert_eq!(names.map(|name| found[name]["median"].as_u64()), [2, 2, 64, 0].map(Some));
    let names = ["SQ_INSTS_VALU_MFMA_I8", "SQ_INSTS_VALU_MFMA_MOPS_I8"];
    let found = counted(&file, ["-k", "k_i32_16x16x16i8"], &names);
    assert_eq!(names.map(|name| found[name]["median"].as_u64()), [2, 32].map(Some));
}

#[test]
fn what_is_not_emulated_is_said_and_an_unknown_name_lists_the_known() {
    let captured = increment("gfx90a");
    let emulated = |names: &str| tool("bench", &captured, &["--backend", "emu", "-r", "1", "--pmc", names]);
    let outcome = emulated("TCC_HIT_sum,SQ_WAVES");
    assert_eq!(outcome.status.code(), Some(0), "{}{}", outcome.stdout, outcome.stderr);
    let rows = [
        "counters, on the emulated GPU:",
        "TCC_HIT_sum              –  not emulated",
        "SQ_WAVES                 4  exact",
    ];
    assert!(rows.iter().all(|row| outcome.stdout.contains(row)), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("omniprobe: dispatch 7: TCC_HIT_sum: not emulated"), "{}", outcome.stderr);
    let outcome = emulated("TCC_HIT_sum");
    assert_eq!(outcome.status.code(), Some(7), "{}{}", outcome.stdout, outcome.stderr);
    let outcome = emulated("SQ_WAVES,SQ_WAVE");
    assert_eq!(outcome.status.code(), Some(1), "{}", outcome.stdout);
    let said = ["--pmc: expected a counter of rocprofiler-sdk for gfx9: SQ_WAVES, ", "SQ_INSTS_VALU", "found SQ_WAVE"];
    assert!(said.iter().all(|part| outcome.stderr.contains(part)), "{}", outcome.stderr);
    let outcome = emulated("-d");
    assert_eq!(outcome.status.code(), Some(1), "{}", outcome.stdout);
}

#[test]
fn a_number_that_amds_text_does_not_define_for_a_kernel_is_not_given() {
    let mut tally = increment("gfx90a");
    tally.kernel = "tally";
    let options = ["--backend", "emu", "--no-verify", "-r", "1", "--json", "--pmc", "SQ_INSTS_VMEM_RD,SQ_INSTS_VMEM"];
    let outcome = tool("bench", &tally, &options);
    let found = counters(&json(&outcome), 0);
    let missing = found["SQ_INSTS_VMEM_RD"]["missing"].as_str().unwrap();
    assert!(missing.starts_with("not emulated: the kernel executes atomics"), "{missing}");
    assert!(found["SQ_INSTS_VMEM"]["median"].as_u64().unwrap() >= 1);
    // Functions are called by addresses in registers.
    let (_kept, file) = captured_on("gfx90a", "calls", "-O3");
    let (_, all, _) = analyzed(&file, &["--what", "mix"]);
    let calls = |object: &&Value| {
        let jumps = |inst: &Value| {
            let text = inst["text"].as_str().unwrap();
            (text.starts_with("s_swappc") || text.starts_with("s_setpc")) && inst["executions"] != 0
        };
        object["instructions"].as_array().unwrap().iter().any(jumps)
    };
    let dispatch = all.iter().find(calls).expect("a kernel that calls")["dispatch"].to_string();
    let found = counted(&file, ["-d", &dispatch], &["SQ_INSTS_SALU", "SQ_INSTS_BRANCH", "SALUInsts", "SQ_INSTS_VALU"]);
    for name in ["SQ_INSTS_SALU", "SQ_INSTS_BRANCH", "SALUInsts"] {
        let missing = found[name]["missing"].as_str().unwrap_or_else(|| panic!("{name}: {found:#?}"));
        assert!(missing.starts_with("not emulated: the kernel jumps to addresses in registers"), "{missing}");
    }
    assert!(found["SQ_INSTS_VALU"]["median"].as_u64().unwrap() > 0);
}
