//! Kernels of a cache that run in place of the application's: the data that a program computes says whose code ran.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use crate::emulator::triton;
use crate::support::compare::{Random, Type};
use crate::support::harness::{self, Outcome, Run, built};
use crate::support::launch::{self, Arg, Launch};
use crate::support::versions;

/// The launches of `swaps`, the kernel of each, and whether the replacement of the same source takes its place.
const LAUNCHES: &[(&str, &str, bool)] = &[
    ("plain", "plain", true),
    ("shaped<int>", "void shaped<int>(int*, int)", true),
    ("shaped<double>", "void shaped<double>(double*, double)", true),
    ("lambda", "void apply<", true),
    ("tiled", "tiled", true),
    ("scratch", "scratch", true),
    ("registers", "registers", true),
    ("placed", "placed", true),
    ("wider", "wider", false),
    ("longer", "longer", false),
    ("printing", "printing", false),
    ("bounded128", "bounded", false),
    ("bounded64", "bounded", true),
];

/// How long a running program has to notice a file.
const PATIENCE: Duration = Duration::from_secs(20);

/// The replacements for a processor, compiled with `-DOTHER` and some options.
fn others(arch: &str, options: &str) -> PathBuf {
    harness::hip_object("swaps", arch, &format!("-DOTHER {options}"))
}

/// A program that swaps kernels, with a cache of its own.
struct Swaps {
    run: Run,
    cache: PathBuf,
}

impl Swaps {
    fn new(program: PathBuf) -> Swaps {
        Swaps::from(Run::new(program))
    }

    fn from(run: Run) -> Swaps {
        let cache = run.file("cache");
        fs::create_dir(&cache).unwrap();
        let indexes = run.file("indexes");
        let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes);
        Swaps { run, cache }
    }

    fn program() -> Swaps {
        Swaps::new(harness::hip("swaps"))
    }

    /// Puts a file into the cache.
    fn with(self, file: &Path, name: &str) -> Swaps {
        let to = self.cache.join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(file, to).unwrap();
        self
    }

    fn map(self, change: impl FnOnce(Run) -> Run) -> Swaps {
        Swaps { run: change(self.run), ..self }
    }

    fn watched(self) -> Outcome {
        self.run.watched().passed()
    }
}

/// What a program says of its launches.
fn said(run: &Outcome) -> Vec<(&str, &str)> {
    run.stdout.lines().filter_map(|line| line.split_once(' ')).collect()
}

/// What it says when every launch that can be is swapped.
fn all() -> Vec<(&'static str, &'static str)> {
    LAUNCHES.iter().map(|&(launch, _, swapped)| (launch, if swapped { "other" } else { "original" })).collect()
}

/// The one notice that contains some text.
fn notice<'a>(log: &'a crate::support::log::Log, text: &str) -> &'a str {
    let mut found = log.notices.iter().filter(|n| n.contains(text));
    let (first, second) = (found.next(), found.next());
    assert!(second.is_none(), "{text}: {:#?}", log.notices);
    first.unwrap_or_else(|| panic!("{text}: {:#?}", log.notices))
}

#[test]
fn kernels_of_the_cache_run_where_they_fit_and_the_applications_own_where_not() {
    for (arch, ring) in
        harness::archs().into_iter().flat_map(|arch| rings().iter().map(move |ring| (arch.clone(), ring)))
    {
        let swaps = Swaps::program().with(&others(&arch, "-O3"), "others.hsaco");
        let run = swaps.map(|run| run.arch(&arch).env("HSA_ALLOCATE_QUEUE_DEV_MEM", ring)).watched();
        assert_eq!(said(&run), all(), "{arch}");
        let log = run.log();
        log.account();
        let rows = log.of_program();
        assert_eq!(rows.len(), LAUNCHES.len(), "{arch}");
        let hashes: BTreeSet<&str> =
            log.rows.iter().map(|row| row.text("replaced")).filter(|h| !h.is_empty()).collect();
        assert_eq!(hashes.len(), 1, "{arch}: {hashes:?}");
        let hash = hashes.first().unwrap();
        for (row, &(launch, kernel, swapped)) in rows.into_iter().zip(LAUNCHES) {
            assert!(row.kernel().starts_with(kernel), "{launch}: {row:?}");
            assert_eq!(row.text("replaced"), if swapped { hash } else { "" }, "{launch}");
        }
        // Every kernel that was not swapped is named once, with file and reason.
        let file = run.folder.path().join("cache/others.hsaco");
        let stays = |kernel: &str, reason: &str| {
            let text = notice(&log, &format!("cache: {kernel} on agent 0 stays as it is"));
            assert!(text.contains(file.to_str().unwrap()) && text.contains(reason), "{text}");
        };
        stays("wider", "argument");
        stays("longer", "argument count");
        stays("printing", "hidden_hostcall_buffer");
        assert!(notice(&log, "cache: bounded runs as it is").contains("at most 64, found 128"));
        for kernel in ["plain", "tiled", "void shaped<int>"] {
            let text = notice(&log, &format!("active: {kernel}"));
            assert!(text.starts_with(&format!("cache: {} active", file.display())) && text.ends_with(hash), "{text}");
        }
        // What is recorded is what ran: the static LDS of the other, and the dynamic LDS that the application added.
        assert_eq!(log.rows_of("tiled")[0].number("ldsBytes"), 96 * 4 + 128 * 4);
        assert!(log.rows_of("scratch")[0].number("scratchBytes") >= 64 * 4);
    }
}

#[test]
fn what_was_compiled_otherwise_is_swapped_unless_it_asks_for_what_the_original_has_not() {
    let unoptimized = versions::unoptimized();
    let mut cases = vec![(unoptimized, "-O3", None)];
    if versions::clang() == 15 {
        // Its unoptimised code, and that for version 5, ask for everything that the runtime can tell, calls of the host
        // among it; unoptimised HIP takes its calls for indirect ones, too.
        cases.extend([
            (unoptimized, unoptimized, Some("dynamic stack")),
            ("-O3", unoptimized, Some("hidden argument")),
            ("-O3", "-O3 -mcode-object-version=5", Some("hidden argument")),
        ]);
    }
    for (original, replacement, reason) in cases {
        let program = harness::hip_optimized("swaps", original);
        let names = ["plain", "shaped<int>", "tiled", "scratch", "placed"];
        let swaps = Swaps::new(program).with(&others(&harness::arch(), replacement), "others.hsaco");
        let run = swaps.map(|run| run.args(names)).watched();
        let log = run.log();
        let expected = if reason.is_none() { "other" } else { "original" };
        for (name, whose) in said(&run) {
            assert_eq!(whose, expected, "{name}, {original} by {replacement}: {:#?}", log.notices);
        }
        if let Some(reason) = reason {
            let stay = log.notices.iter().filter(|n| n.contains("stays as it is") && n.contains(reason));
            assert!(stay.count() >= names.len(), "{reason}: {:#?}", log.notices);
        }
    }
}

#[test]
fn arguments_that_only_the_replacement_asks_for_come_from_the_packet() {
    let source = harness::root().join("tests/programs/opencl/bare.cl");
    // Grids with an incomplete workgroup at their end, too.
    let launch = |size: u32, grid: u32| Launch {
        kernel: "neighbours".to_owned(),
        grid: vec![grid],
        workgroup: vec![size],
        lds: 0,
        args: vec![
            Arg::Buffer(Random::of("swapped").elements(Type::Int(4), 768)),
            Arg::Buffer(vec![0; 768 * 4]),
            Arg::Local(4 * size),
        ],
    };
    let launches = [launch(64, 768), launch(256, 768), launch(128, 384)];
    let expected = launch::on_cpu(&source, "-cl-std=CL3.0 -DADDED=5", &launches);
    // Version 4 finds the workgroup's size in the packet, version 5 in hidden arguments.
    let pairs =
        [((15, 3, 4), (19, 3, 5)), ((15, 0, 4), (19, 3, 5)), ((15, 3, 5), (19, 3, 4)), ((19, 0, 5), (19, 0, 5))];
    for (original, replacement) in pairs {
        let object = |(clang, level, abi): (u32, u32, u32), options: &str| {
            harness::opencl_object(&source, &harness::arch(), clang, level, abi, &format!("-nogpulib {options}"))
        };
        let swaps = Swaps::from(launch::launcher(&harness::arch())).with(&object(replacement, "-DADDED=5"), "o.hsaco");
        let run = launch::launched_by(swaps.run, &object(original, ""), &launches, true);
        let (got, run) = run.unwrap_or_else(|run| panic!("{}{}", run.stdout, run.stderr));
        let log = run.log();
        assert!(got == expected, "{original:?} by {replacement:?}: {:#?}", log.notices);
        assert!(log.rows.iter().all(|row| !row.text("replaced").is_empty()), "{:#?}", log.notices);
    }
}

#[test]
fn a_program_or_a_bundle_is_a_cache_too() {
    let program = harness::hip_optimized("swaps", "-DOTHER -O3");
    for name in ["deep/below/program", "bundle.co"] {
        assert_eq!(said(&Swaps::program().with(&program, name).watched()), all(), "{name}");
    }
}

#[test]
fn only_kernels_that_the_filter_names_are_swapped() {
    let swaps = Swaps::program().with(&others(&harness::arch(), "-O3"), "o.hsaco");
    let run =
        swaps.map(|run| run.env("LOGDUR_FILTER", "^(plain|void shaped<int>)").args(["plain", "shaped<int>", "placed"]));
    let expected = [("plain", "other"), ("shaped<int>", "other"), ("placed", "original")];
    assert_eq!(said(&run.watched()), expected);
    let launches = ["plain", "shaped<int>", "placed"];
    for (filter, exclude, whose) in [
        ("", "^plain$|^placed$", ["original", "other", "original"]),
        ("^p", "^placed$", ["other", "original", "original"]),
        ("^p", ".", ["original"; 3]),
    ] {
        let swaps = Swaps::program().with(&others(&harness::arch(), "-O3"), "o.hsaco");
        let run = swaps.map(|run| {
            let run = run.args(launches).env("LOGDUR_FILTER_EXCLUDE", exclude);
            if filter.is_empty() { run } else { run.env("LOGDUR_FILTER", filter) }
        });
        let expected: Vec<_> = launches.into_iter().zip(whose).collect();
        assert_eq!(said(&run.watched()), expected, "{filter} {exclude}");
    }
}

#[test]
fn settings_that_are_not_understood_and_caches_that_are_not_there_are_said_and_swap_nothing() {
    let other = others(&harness::arch(), "-O3");
    let notices = |change: &dyn Fn(Run) -> Run| {
        let run = Swaps::program().with(&other, "o.hsaco").map(|run| change(run.args(["plain"]))).watched();
        assert_eq!(said(&run), [("plain", "original")], "{:#?}", run.log().notices);
        run.log().notices.join("\n")
    };
    let filter = notices(&|run| run.env("LOGDUR_FILTER", "("));
    assert!(filter.contains("LOGDUR_FILTER: expected a regular expression, no kernel is swapped"), "{filter}");
    let missing = notices(&|run| run.env("LOGDUR_KERNEL_CACHE", "/nonexistent"));
    assert!(missing.contains("cache: /nonexistent: No such file"), "{missing}");
    let broken = notices(&|run| {
        let folder = run.file("broken");
        fs::create_dir(&folder).unwrap();
        let bytes = fs::read(&other).unwrap();
        fs::write(folder.join("cut.hsaco"), &bytes[..3000]).unwrap();
        run.env("LOGDUR_KERNEL_CACHE", folder)
    });
    assert!(broken.contains("cut.hsaco: code object at 0x0"), "{broken}");
}

#[test]
fn kernels_of_a_shared_library_that_is_loaded_late_are_swapped() {
    let swaps = Swaps::new(harness::hsa("in_library")).with(&others(&harness::arch(), "-O3"), "o.hsaco");
    assert_eq!(said(&swaps.map(|run| run.args([harness::hip_library("swaps")])).watched()), all());
}

#[test]
fn each_gpu_has_replacements_of_its_own() {
    let gpus = ["gfx90a", "gfx906"];
    let of = |arch: &str, device: &str| {
        let swaps = Swaps::new(harness::hip_targets("swaps", &gpus)).with(&others(arch, "-O3"), "o.hsaco");
        let run = swaps.map(|run| run.env("KFDEMU_GPUS", gpus.join(",")).args(["-d", device, "plain", "tiled"]));
        let run = run.watched();
        let whose: Vec<String> = said(&run).into_iter().map(|(_, whose)| whose.to_owned()).collect();
        (whose.join(" "), run.log().notices.join("\n"))
    };
    if harness::on_hardware() {
        return;
    }
    assert_eq!(of("gfx90a", "0").0, "other other");
    assert_eq!(of("gfx906", "1").0, "other other");
    let (whose, notices) = of("gfx906", "0");
    assert_eq!(whose, "original original");
    assert!(notices.contains("plain on agent 0 stays as it is") && notices.contains("processor"), "{notices}");
}

#[test]
fn of_several_that_fit_none_runs_until_one_is_chosen() {
    let (first, second) = (others(&harness::arch(), "-O3"), others(&harness::arch(), "-O2"));
    let plain = |pick: Option<&str>, same: bool| {
        let swaps = Swaps::program().with(&first, "a.hsaco").with(if same { &first } else { &second }, "b.hsaco");
        let run = swaps.map(|run| run.args(["plain"])).map(|run| match pick {
            Some(pick) => run.env("LOGDUR_KERNEL_CACHE_PICK", pick),
            None => run,
        });
        let run = run.watched();
        let log = run.log();
        (said(&run)[0].1.to_owned(), log.of_program()[0].text("replaced").to_owned(), log.notices.join("\n"))
    };
    // Equal files are one.
    let (whose, of_first, _) = plain(None, true);
    assert_eq!(whose, "other");
    let (whose, hash, notices) = plain(None, false);
    assert_eq!((whose.as_str(), hash.as_str()), ("original", ""));
    assert!(notices.contains("several fit") && notices.contains("LOGDUR_KERNEL_CACHE_PICK"), "{notices}");
    assert!(notices.contains("a.hsaco") && notices.contains("b.hsaco") && notices.contains(&of_first), "{notices}");
    assert_eq!(plain(Some(&of_first), false).1, of_first);
    let (whose, newest, _) = plain(Some("newest"), false);
    assert_eq!(whose, "other");
    assert_ne!(newest, of_first, "the file that was written last");
}

#[test]
fn the_code_object_that_already_runs_replaces_nothing_and_is_named() {
    // The program loads the file, and fails unless its kernels do what they say.
    let run = Swaps::new(harness::hip("modules")).with(&harness::kernels(&harness::arch()), "own.hsaco").watched();
    let log = run.log();
    assert!(notice(&log, "increment on agent 0 stays").contains("the code object that runs is among"));
    assert!(log.rows.iter().all(|row| row.text("replaced").is_empty()));
}

/// Runs a case of Triton's with a cache of its own making: the row of its kernel, and the notices. The results are right.
fn of_triton(case: &str, cache: &str) -> (crate::support::log::Row, String) {
    let launcher = |folder: &Path| {
        let run = launch::launcher(&harness::arch());
        let indexes = run.file("indexes");
        run.env("LOGDUR_KERNEL_CACHE", folder.join(cache)).env("XDG_CACHE_HOME", indexes)
    };
    let (wrong, run) = triton::swapped(case, launcher);
    let log = run.log();
    assert!(wrong.is_empty(), "{cache}: {wrong:?} {:#?}", log.notices);
    assert_eq!(log.rows.len(), 1, "{cache}");
    (log.rows[0].clone(), log.notices.join("\n"))
}

#[test]
fn kernels_of_tritons_cache_are_swapped_where_only_their_schedule_differs_and_get_the_lds_that_it_needs() {
    for (case, lds) in [("attention", 12288), ("matmul_fp32_40x36x50", 4096)] {
        let (row, notices) = of_triton(case, &format!("{case}.stages"));
        assert!(!row.text("replaced").is_empty(), "{case}: {notices}");
        // More stages need more than the application asks for; fewer do not take it away.
        assert_eq!(row.number("ldsBytes"), lds, "{case}");
    }
}

#[test]
fn kernels_of_triton_for_other_blocks_or_warps_do_not_run() {
    let (row, notices) = of_triton("vector_add", "vector_add.blocks");
    assert_eq!(row.text("replaced"), "", "{notices}");
    assert!(notices.contains("the code object that runs is among those that fit"), "{notices}");
    let (row, notices) = of_triton("vector_add", "vector_add.warps");
    assert_eq!(row.text("replaced"), "", "{notices}");
    assert!(notices.contains("workgroup size"), "{notices}");
}

#[test]
fn dispatches_alternate_and_the_log_compares_them() {
    let times = |n: usize| std::iter::repeat_n("plain", n);
    let run = |mode: &str, n: usize| {
        let swaps = Swaps::program().with(&others(&harness::arch(), "-O3"), "o.hsaco");
        let run = swaps.map(|run| run.env("LOGDUR_KERNEL_CACHE_MODE", mode).args(times(n))).watched();
        let log = run.log();
        let told = notice(&log, "cache: mode ");
        let of_times = told.contains("; the log has durations, and nothing of results");
        assert!(
            told.starts_with(&format!("cache: mode {}", if mode == "alternate" { "alternate:1" } else { mode })),
            "{told}"
        );
        assert_eq!(of_times, mode != "swap", "{told}");
        let whose: String = said(&run).iter().map(|(_, whose)| &whose[..2]).collect::<Vec<_>>().join(" ");
        let lines: Vec<String> =
            run.read("log.csv").lines().filter_map(|l| l.strip_prefix("# compare: ")).map(str::to_owned).collect();
        (whose, lines)
    };
    let (whose, lines) = run("alternate", 40);
    assert_eq!(whose, ["or ot"; 20].join(" "));
    assert_eq!(lines.len(), 1, "{lines:?}");
    for part in ["kernel=\"plain\"", "grid=256x1x1", "workgroup=128x1x1", "n=20/20"] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
    if !harness::on_hardware() {
        assert!(lines[0].ends_with("verdict=emulated time, no verdict"), "{}", lines[0]);
    }
    assert_eq!(run("alternate:2", 6).0, "or or ot ot or or");
    assert_eq!(run("off-after:3", 5).0, "ot ot ot or or");
    assert_eq!(run("swap", 3), ("ot ot ot".to_owned(), Vec::new()));
}

#[test]
fn kernels_are_swapped_in_every_life_of_the_runtime_and_said_to_be_once() {
    let object = harness::hip_object("kernels", &harness::arch(), "-O1");
    let lives = 20;
    let run =
        Swaps::new(harness::hsa("restart")).with(&object, "k.hsaco").map(|run| run.args([lives.to_string()])).watched();
    let log = run.log();
    assert_eq!(log.rows.len(), lives);
    assert!(log.rows.iter().all(|row| !row.text("replaced").is_empty()), "{:#?}", log.notices);
    notice(&log, "active: tally on agent 0");
}

#[test]
fn producers_and_signals_of_every_kind_are_swapped_alike_and_lose_nothing() {
    let object = harness::hip_object("kernels", &harness::arch(), "-O1");
    for (program, arguments, dispatches) in [
        ("producers", "packets=1000 slots=64 threads=3 signal=mixed", 3000),
        ("producers", "packets=500 slots=64 threads=2 batch=16 ring=late index=cas", 1000),
        ("signals", "shared 80", 80),
        ("churn", "20 running", 0),
    ] {
        for ring in rings() {
            let swaps = Swaps::new(harness::hsa(program)).with(&object, "k.hsaco");
            let swaps = swaps.map(|run| run.args(arguments.split(' ')).env("HSA_ALLOCATE_QUEUE_DEV_MEM", ring));
            let log = swaps.watched().log();
            let account = log.account();
            assert!(dispatches == 0 || account["logged"] == dispatches, "{program} {arguments} {ring}: {account:?}");
            assert!(log.rows.iter().all(|row| !row.text("replaced").is_empty()), "{program} {arguments} {ring}");
        }
    }
}

/// Where rings can be, as the runtime's variable has it: in the host's memory and, from ROCm 7 on, in the GPU's.
fn rings() -> &'static [&'static str] {
    if versions::hip() >= (7, 0) { &["0", "1"] } else { &["0"] }
}

/// A program that waits for a line before each launch.
struct Waiting {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    log: PathBuf,
}

impl Waiting {
    fn start(swaps: &Swaps) -> Waiting {
        let log = swaps.run.file("log.csv");
        let mut command = swaps.run.command();
        command.env("HSA_TOOLS_LIB", built("liblogdur.so")).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
        command.env("LOGDUR_LOG_LOCATION", &log).arg("-w").args(["plain"; 8]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Waiting { child, input, output, log }
    }

    /// Whose code the next launch runs.
    fn next(&mut self) -> String {
        self.input.write_all(b"\n").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().strip_prefix("plain ").unwrap_or_else(|| panic!("{line:?}")).to_owned()
    }

    /// Waits until the log says something for the so-many-th time.
    fn until(&self, text: &str, times: usize) {
        let start = Instant::now();
        while fs::read_to_string(&self.log).unwrap_or_default().matches(text).count() < times {
            assert!(start.elapsed() < PATIENCE, "{text}: {}", fs::read_to_string(&self.log).unwrap_or_default());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn files_that_come_change_and_go_while_the_program_runs_count_from_the_next_dispatch_on() {
    let swaps = Swaps::program();
    let (first, second) = (others(&harness::arch(), "-O3"), others(&harness::arch(), "-O2"));
    let at = |name: &str| swaps.cache.join(name);
    let mut program = Waiting::start(&swaps);
    assert_eq!(program.next(), "original");
    fs::copy(&first, at("new.hsaco")).unwrap();
    program.until("new.hsaco active: plain", 1);
    assert_eq!(program.next(), "other");
    // Overwritten, as a compiler does it.
    fs::copy(&second, at("new.hsaco")).unwrap();
    program.until("new.hsaco active: plain", 2);
    assert_eq!(program.next(), "other");
    fs::remove_file(at("new.hsaco")).unwrap();
    program.until("plain on agent 0 is the application's own again", 1);
    assert_eq!(program.next(), "original");
    // Into a folder that is new, too, and from there by its name.
    fs::create_dir(at("below")).unwrap();
    fs::copy(&first, at("below/half")).unwrap();
    fs::rename(at("below/half"), at("below/whole.hsaco")).unwrap();
    program.until("whole.hsaco active: plain", 1);
    assert_eq!(program.next(), "other");
    drop(program.input);
    assert!(program.child.wait().unwrap().success());
    let log = crate::support::log::Log::parse(&fs::read_to_string(&program.log).unwrap());
    let hashes: Vec<&str> = log.of_program().into_iter().map(|row| row.text("replaced")).collect();
    assert_eq!(hashes.len(), 5);
    assert_eq!((hashes[0], hashes[3]), ("", ""));
    assert!(hashes[1] != hashes[2] && hashes[1] == hashes[4], "{hashes:?}");
}

#[test]
fn the_same_code_in_another_file_continues_with_its_counters() {
    let swaps = Swaps::program().with(&others(&harness::arch(), "-O3"), "first.hsaco");
    let swaps = swaps.map(|run| run.env("LOGDUR_KERNEL_CACHE_MODE", "off-after:3"));
    let mut program = Waiting::start(&swaps);
    assert_eq!([program.next(), program.next()], ["other"; 2]);
    fs::copy(swaps.cache.join("first.hsaco"), swaps.cache.join("second.hsaco")).unwrap();
    fs::remove_file(swaps.cache.join("first.hsaco")).unwrap();
    program.until("second.hsaco active: plain", 1);
    assert_eq!([program.next(), program.next()], ["other", "original"]);
    drop(program.input);
    assert!(program.child.wait().unwrap().success());
}

/// HIP programs that check what their kernels compute; the first few in every run.
const CHECKED: [&str; 16] = [
    "local_memory",
    "calls",
    "atomics",
    "streams",
    "functions",
    "graphs",
    "grids",
    "groups",
    "halves",
    "integers",
    "lanes",
    "matrices",
    "memory",
    "races",
    "reached",
    "whole",
];

#[test]
fn programs_compute_the_same_with_kernels_that_were_compiled_with_other_options_and_refusals_have_reasons() {
    let arch = harness::arch();
    for program in &CHECKED[..harness::count(2, CHECKED.len())] {
        let bare = Run::hip(program).bare().passed();
        for options in ["-O1", "-Os"] {
            let what = format!("{program} {options}");
            let object = harness::hip_object(program, &arch, options);
            let run = Run::hip(program);
            let (cache, indexes) = (run.file("cache"), run.file("indexes"));
            fs::create_dir(&cache).unwrap();
            fs::copy(&object, cache.join("o.hsaco")).unwrap();
            let run = run.env("LOGDUR_KERNEL_CACHE", &cache).env("XDG_CACHE_HOME", indexes).watched().passed();
            assert_eq!(run.stdout.lines().last(), bare.stdout.lines().last(), "{what}");
            let log = run.log();
            log.account();
            let (mut swapped, mut others) = (0, 0);
            for row in log.of_program() {
                if !row.text("replaced").is_empty() {
                    swapped += 1;
                    continue;
                }
                let reasons = ["on agent 0 stays as it is: ", "runs as it is where it has to: "];
                let kernel = format!("cache: {} ", row.text("kernel"));
                let said = log.notices.iter().find(|n| n.starts_with(&kernel) && reasons.iter().any(|r| n.contains(r)));
                let said = said.unwrap_or_else(|| panic!("{what}: {kernel}has no reason: {:#?}", log.notices));
                others += usize::from(!said.contains("the code object that runs is among those that fit"));
            }
            println!("{what}: {swapped} swapped, {others} refused");
            let is_same = log.notices.iter().any(|n| n.contains("the code object that runs is among those that fit"));
            assert!(swapped > 0 || is_same, "{what}: {:#?}", log.notices);
        }
    }
}
