//! Kernels that Triton compiled, against NumPy: `tests/programs/triton`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use crate::replay::verify;
use crate::support::compare::{Near, Type};
use crate::support::harness;
use crate::support::launch::{self, Arg, Launch};

/// A case, as `prepare.py` describes it.
#[derive(Deserialize)]
struct Case {
    name: String,
    kernel: String,
    /// In workgroups.
    grid: Vec<u32>,
    threads: u32,
    /// LDS, bytes.
    shared: u32,
    args: Vec<Argument>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Argument {
    Value { value: Vec<u8> },
    Buffer { buffer: usize, float: bool, size: usize, near: (f64, f64) },
}

impl Argument {
    fn arg(&self, folder: &Path, case: &str) -> Arg {
        match self {
            Argument::Value { value } => Arg::Value(value.clone()),
            Argument::Buffer { buffer, .. } => {
                Arg::Buffer(fs::read(folder.join(format!("{case}.{buffer}.before"))).unwrap())
            }
        }
    }
}

impl Case {
    fn launch(&self, folder: &Path) -> Launch {
        let mut grid = self.grid.clone();
        grid[0] *= self.threads;
        let args = self.args.iter().map(|a| a.arg(folder, &self.name)).collect();
        Launch { kernel: self.kernel.clone(), grid, workgroup: vec![self.threads], lds: self.shared, args }
    }

    /// Runs it captured.
    fn captured(&self, folder: &Path, arch: &str) -> (PathBuf, harness::Outcome) {
        let run = launch::launcher(arch);
        let file = run.file("run.ldcap");
        let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_KERNELS", format!("^{}$", self.kernel));
        let object = folder.join(format!("{}.hsaco", self.name));
        let launched = launch::launched_by(run, &object, &[self.launch(folder)], true);
        let (_, run) = launched.unwrap_or_else(|run| panic!("{}: {}{}", self.name, run.stdout, run.stderr));
        (file, run)
    }

    /// What is wrong with the buffers after the launch.
    fn wrong(&self, folder: &Path, got: &[Vec<u8>]) -> Vec<String> {
        let buffers = self.args.iter().filter_map(|a| match a {
            Argument::Buffer { buffer, float, size, near } => Some((*buffer, *float, *size, *near)),
            Argument::Value { .. } => None,
        });
        let mut wrong = Vec::new();
        for ((number, float, size, near), got) in buffers.zip(got) {
            let of = match (float, size) {
                (true, 2) => Type::F16,
                (true, 4) => Type::F32,
                (true, _) => Type::F64,
                (false, size) => Type::Int(size),
            };
            let near = if near == (0.0, 0.0) { Near::Same } else { Near::Within(near.0, near.1) };
            let expected = fs::read(folder.join(format!("{}.{number}.after", self.name))).unwrap();
            if let Some((index, what)) = near.differs(of, got, &expected, of) {
                wrong.push(format!("{}: argument {number}[{index}] is {what}", self.name));
            }
        }
        wrong
    }
}

fn cases(folder: &Path) -> Vec<Case> {
    serde_json::from_slice(&fs::read(folder.join("cases.json")).unwrap()).unwrap()
}

fn case(folder: &Path, name: &str) -> Case {
    cases(folder).into_iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}"))
}

/// What `clone_of` takes of a case: kernel, grid, work-items, LDS and arguments.
pub(crate) fn words(name: &str, arch: &str) -> Vec<String> {
    let folder = harness::triton(arch);
    let case = case(&folder, name);
    let mut grid = case.grid.clone();
    grid.resize(3, 1);
    let mut words = vec![case.kernel.clone()];
    words.extend(grid.iter().chain([&case.threads, &case.shared]).map(u32::to_string));
    words.extend(case.args.iter().map(|argument| match argument {
        Argument::Value { value } => value.iter().fold("value:".to_owned(), |hex, byte| format!("{hex}{byte:02x}")),
        Argument::Buffer { buffer, .. } => {
            format!("buffer:{}", folder.join(format!("{name}.{buffer}.before")).display())
        }
    }));
    words
}

/// The names of all cases.
pub(crate) fn names(arch: &str) -> Vec<String> {
    cases(&harness::triton(arch)).into_iter().map(|case| case.name).collect()
}

/// A capture of a case, and the run that it is of.
pub(crate) fn captured(name: &str, arch: &str) -> (PathBuf, harness::Outcome) {
    let folder = harness::triton(arch);
    case(&folder, name).captured(&folder, arch)
}

/// Runs every case on a processor, and shows each run's outcome.
fn run(arch: &str, watched: bool, look: impl Fn(&Case, &harness::Outcome)) {
    let folder = harness::triton(arch);
    let cases = cases(&folder);
    let mut wrong = Vec::new();
    for case in &cases {
        let object = folder.join(format!("{}.hsaco", case.name));
        let (got, outcome) = launch::on_gpu(&object, arch, &[case.launch(&folder)], watched);
        wrong.extend(case.wrong(&folder, &got[0]));
        look(case, &outcome);
    }
    assert!(wrong.is_empty(), "{arch}\n{}", wrong.join("\n"));
    assert!(cases.len() > 20, "only {} cases", cases.len());
}

/// Runs a case, watched, by a launcher that may swap its kernel: what is wrong with its results, and the run. `look` is told
/// where the case is, to find what of it was compiled otherwise.
pub(crate) fn swapped(name: &str, look: impl FnOnce(&Path) -> harness::Run) -> (Vec<String>, harness::Outcome) {
    let folder = harness::triton(&harness::arch());
    let case = case(&folder, name);
    let object = folder.join(format!("{name}.hsaco"));
    let run = launch::launched_by(look(&folder), &object, &[case.launch(&folder)], true);
    let (got, run) = run.unwrap_or_else(|run| panic!("{name}: {}{}", run.stdout, run.stderr));
    (case.wrong(&folder, &got[0]), run)
}

/// Every case on a processor, where the ROCm to test on knows it.
pub(super) fn only_on(arch: &str, is_known: bool) {
    if is_known && (!harness::on_hardware() || harness::archs().iter().any(|other| other == arch)) {
        run(arch, false, |_, _| ());
    }
}

#[test]
fn kernels_of_triton_compute_what_numpy_computes() {
    for arch in harness::archs() {
        run(&arch, false, |_, _| ());
    }
}

#[test]
fn kernels_of_triton_compute_the_same_when_watched_and_are_in_the_log_by_name() {
    run(&harness::arch(), true, |case, outcome| {
        let log = outcome.log();
        let named = log.rows.iter().filter(|row| row.kernel() == case.kernel).count();
        assert_eq!(named, 1, "{} in {:?}", case.kernel, log.rows.iter().map(|row| row.kernel()).collect::<Vec<_>>());
    });
}

#[test]
fn kernels_of_triton_compute_the_same_again_from_captures() {
    let arch = harness::arch();
    let folder = harness::triton(&arch);
    let mut wrong = Vec::new();
    for case in cases(&folder).iter().take(harness::count(8, usize::MAX)) {
        let (file, _run) = case.captured(&folder, &arch);
        let verified = verify::on_file(harness::Run::new(harness::built("omniprobe")), "verify", &file, &arch, &[]);
        if !verified.stdout.lines().last().is_some_and(|word| word.starts_with("PASS")) {
            wrong.push(format!("{}: {}{}", case.name, verified.stdout, verified.stderr));
        }
    }
    assert!(wrong.is_empty(), "{arch}\n{}", wrong.join("\n"));
}

#[test]
fn kernels_of_triton_that_follow_each_other_are_replayed_as_a_region_in_both_orders() {
    let arch = harness::arch();
    let folder = harness::triton(&arch);
    for case in cases(&folder).iter().take(harness::count(3, usize::MAX)) {
        let run = launch::launcher(&arch);
        let file = run.file("run.ldcap");
        let run = run.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_REGION", "dispatches:0..dispatches:2");
        let launches = [0; 3].map(|_| case.launch(&folder));
        let launched = launch::launched_by(run, &folder.join(format!("{}.hsaco", case.name)), &launches, true);
        let (got, _run) = launched.unwrap_or_else(|run| panic!("{}: {}{}", case.name, run.stdout, run.stderr));
        assert_eq!(case.wrong(&folder, &got[2]), Vec::<String>::new());
        for options in [&["--backend", "emu"][..], &["--backend", "emu", "--concurrent"], &[], &["--concurrent"]] {
            let run = harness::Run::new(harness::built("omniprobe"));
            let verified = verify::on_file(run, "verify", &file, &arch, &[&["--region", "--json"], options].concat());
            let said: Value = serde_json::from_str(verified.stdout.lines().next().unwrap_or_default())
                .unwrap_or_else(|error| panic!("{} {options:?}: {error}: {}", case.name, verified.stderr));
            assert!(verified.status.success(), "{} {options:?}: {said:#}", case.name);
            assert_eq!(said["dispatches"][&case.kernel], 3, "{} {options:?}: {said:#}", case.name);
        }
    }
}
