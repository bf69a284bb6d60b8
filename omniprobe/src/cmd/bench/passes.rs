//! Replays under rocprofv3. A pass is a process of this program that launches the kernel on restored memory, for a set of counters that
//! the hardware counts at a time. What rocprofv3 refuses as one set is divided.
//!
//! Sources: "Using rocprofv3" of rocprofiler-sdk for its options, and `rocprofv3.py` for what it does with them (rocm-systems, 2025). A set
//! that does not fit ends it with an error or with SIGABRT, before or after the application has started, or makes it wait for ever
//! (rocm-systems, pull request 8331); some versions leave out the counters that do not fit.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use logdur_captured::CapturedDispatch;
use logdur_replay::bench::{self, Options};
use logdur_rocprof::counters::{self, FILE};
use logdur_system::group::run_in_group;
use omniprobe_exit::Exit;

use super::pmc::{Counted, Counters, Row};
use crate::exit::{self, Failure};
use crate::find;
use crate::output::demangled;
use crate::private_folder::PrivateFolder;
use crate::worker::TargetArgs;

/// What a pass may need besides its launches: to start the profiler, and to put the captured memory on the device.
const SLACK: Duration = Duration::from_secs(180);
/// How long a launch takes where no limit is given.
const LAUNCH: Duration = Duration::from_secs(10);
/// Bytes of the last line that a profiler said, at most.
const LAST: usize = 400;
/// Folders below that of a pass in which tables are looked for.
const DEPTH: usize = 4;

/// Runs one pass in this process, and says in a file how it has ended.
///
/// # Errors
/// When the file cannot be written.
pub(super) fn run_one(captured: &CapturedDispatch<'_>, how: &Options, pass: &[PathBuf]) -> Result<Exit> {
    let [said, side] = pass else { bail!("--pass: expected a file and the number of a kernel") };
    let side = side.to_str().and_then(|side| side.parse::<usize>().ok());
    let variant = side.and_then(|side| how.variants.get(side)).context("--pass: expected the number of a kernel")?;
    let ended = bench::counted(captured, how, variant).map_err(anyhow::Error::from);
    let (status, text) = match &ended {
        Ok(()) => (Exit::Success, String::new()),
        Err(error) => (exit::of(error), format!("{error:#}")),
    };
    fs::write(said, format!("{}\n{text}", status as u8)).with_context(|| format!("writing {}", said.display()))?;
    if status == Exit::Success {
        // The profiler writes its tables when the process ends in order.
        std::process::exit(0);
    }
    Ok(status)
}

/// How a pass has ended.
enum Pass {
    /// The kernel ran: what was counted of each launch that counts, by counter.
    Ran(BTreeMap<String, Vec<f64>>),
    /// The profiler did not run it, and why.
    Refused(String),
    /// It did not end.
    Hung(String),
}

/// What is known of a set of counters after all its passes.
struct Collector<'a> {
    profiler: &'a Path,
    rocm: Option<&'a Path>,
    captured: &'a CapturedDispatch<'a>,
    how: &'a Options,
    limit: Duration,
    passes: usize,
}

/// Counts with the counters of the hardware.
///
/// # Errors
/// When there is no profiler, or what keeps the dispatch from being replayed.
pub(super) fn count(
    captured: &CapturedDispatch<'_>,
    target: &TargetArgs,
    how: &Options,
    names: &[String],
) -> Result<Counters> {
    let profiler = find::profiler(target.device.rocm())?;
    let launches = bench::before_counted(how) + how.repetitions;
    let limit = SLACK + how.setup.limit.unwrap_or(LAUNCH) * launches;
    let mut collector = Collector { profiler: &profiler, rocm: target.device.rocm(), captured, how, limit, passes: 0 };
    let sides = (0..how.variants.len()).map(|side| collector.side(side, names)).collect::<Result<_>>()?;
    Ok(Counters { sides, passes: Some(collector.passes), qualified: Vec::new() })
}

impl Collector<'_> {
    /// The counters of one kernel.
    fn side(&mut self, side: usize, names: &[String]) -> Result<Vec<Row>> {
        let mut found: BTreeMap<String, Result<Counted, String>> = BTreeMap::new();
        let mut sets = vec![names.to_vec()];
        while let Some(set) = sets.pop() {
            let (left, why) = match self.pass(side, &set)? {
                Pass::Ran(mut counted) => {
                    let mut left = Vec::new();
                    for name in &set {
                        match counted.remove(name) {
                            Some(runs) => _ = found.insert(name.clone(), judged(runs)),
                            None => left.push(name.clone()),
                        }
                    }
                    (left, "rocprofv3 wrote no row of it".to_owned())
                }
                Pass::Refused(why) => (set.clone(), why),
                Pass::Hung(why) if set.len() == 1 => {
                    // Each further pass would be waited for as long.
                    for name in set.iter().chain(sets.iter().flatten()) {
                        found.insert(name.clone(), Err(format!("not counted: {why}")));
                    }
                    break;
                }
                Pass::Hung(why) => (set.clone(), why),
            };
            match left.as_slice() {
                [] => {}
                [name] if set.len() == 1 => _ = found.insert(name.clone(), Err(format!("not counted: {why}"))),
                // Those that were left out of a set may fit without the others.
                left if left.len() < set.len() => sets.push(left.to_vec()),
                left => {
                    let (first, second) = left.split_at(left.len().div_ceil(2));
                    sets.extend([second.to_vec(), first.to_vec()]);
                }
            }
        }
        let row = |name: &String| {
            let counted = found.remove(name).unwrap_or_else(|| Err("not counted".to_owned()));
            Row { name: name.clone(), counted }
        };
        Ok(names.iter().map(row).collect())
    }

    /// Runs the launches under the profiler.
    fn pass(&mut self, side: usize, set: &[String]) -> Result<Pass> {
        self.passes += 1;
        let folder = PrivateFolder::new_in(&std::env::temp_dir())?;
        let (tables, said, log) =
            (folder.path().join("tables"), folder.path().join("ended"), folder.path().join("output"));
        let mut command = self.command(side, set, &tables, &said)?;
        let ended = fs::File::create_new(&log).and_then(|output| run_in_group(&mut command, output, self.limit));
        let Some(status) = ended.context("starting rocprofv3")? else {
            let limit = self.limit.as_secs();
            return Ok(Pass::Hung(format!("rocprofv3 did not end within {limit} s{}", last_line(&log))));
        };
        let Ok(ended) = fs::read_to_string(&said) else { return Ok(Pass::Refused(refusal(status, &log))) };
        let (number, text) = ended.split_once('\n').unwrap_or((&ended, ""));
        let exit = Exit::ALL.iter().copied().find(|exit| (*exit as u8).to_string() == number);
        match exit {
            Some(Exit::Success) => Ok(Pass::Ran(self.read(&tables)?)),
            exit => {
                let text = format!("under rocprofv3: {text}");
                Err(Failure { exit: exit.unwrap_or(Exit::Environment), text }.into())
            }
        }
    }

    /// The profiler, and this process's own command behind it.
    fn command(&self, side: usize, set: &[String], tables: &Path, said: &Path) -> Result<Command> {
        let mut words = std::env::args_os();
        // The path of the program is whole: `omniprobe` has started it, perhaps by the loader of another C library.
        let program = words.next().context("this process has no name")?;
        let loader = self.rocm.map(find::loader).transpose()?.flatten();
        let loader = loader.map(|(loader, libraries)| [loader.into(), "--library-path".into(), libraries]);
        let mut command = Command::new(self.profiler);
        // The option with any number of values first: another one ends them.
        command.arg("--pmc").args(set).args(["--output-format", "csv", "--mangled-kernels", "-d"]).arg(tables);
        command.arg("--").args(loader.into_iter().flatten()).arg(program).args(words);
        command.arg("--pass").args([said.as_os_str().to_owned(), OsString::from(side.to_string())]);
        Ok(command)
    }

    /// What was counted of the launches that count, from all tables of a pass.
    fn read(&self, tables: &Path) -> Result<BTreeMap<String, Vec<f64>>> {
        let mut files = Vec::new();
        find_tables(tables, DEPTH, &mut files);
        // Rows of a counter by dispatch; several rows of one dispatch are of parts of the GPU.
        let mut all: BTreeMap<String, BTreeMap<u64, f64>> = BTreeMap::new();
        let symbol = &self.captured.original.kernel.name;
        for file in files {
            let rows = counters::read(&file).with_context(|| format!("the table {FILE} of rocprofv3"));
            let rows = rows.map_err(|error| Failure { exit: Exit::Environment, text: format!("{error:#}") })?;
            for row in rows.into_iter().filter(|row| is_kernel(symbol, &row.kernel)) {
                *all.entry(row.counter).or_default().entry(row.dispatch).or_insert(0.0) += row.value;
            }
        }
        let before = bench::before_counted(self.how) as usize;
        let launches = before + self.how.repetitions as usize;
        let mut counted = BTreeMap::new();
        for (counter, dispatches) in all {
            if dispatches.len() != launches {
                let found = dispatches.len();
                let text = format!(
                    "rocprofv3: expected {counter} of {launches} dispatches of {}, found it of {found}",
                    demangled(symbol)
                );
                return Err(Failure { exit: Exit::Environment, text }.into());
            }
            counted.insert(counter, dispatches.into_values().skip(before).collect());
        }
        Ok(counted)
    }
}

/// True when a table calls a kernel so: by its symbol, with or without the end of a descriptor's, or by its name in the source.
fn is_kernel(symbol: &str, name: &str) -> bool {
    let name = name.strip_suffix(".kd").unwrap_or(name);
    name == symbol || name == demangled(symbol)
}

fn judged(runs: Vec<f64>) -> Result<Counted, String> {
    match runs.iter().find(|run| !run.is_finite()) {
        Some(none) => Err(format!("not counted: rocprofv3 says {none}")),
        None => Ok(Counted { runs, by: "rocprofv3" }),
    }
}

/// The tables below a folder: rocprofv3 makes folders for machines, passes and processes.
fn find_tables(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.as_ref().is_ok_and(fs::FileType::is_dir) && depth > 0 {
            find_tables(&path, depth - 1, files);
        } else if kind.is_ok_and(|kind| kind.is_file()) && entry.file_name().to_string_lossy().ends_with(FILE) {
            files.push(path);
        }
    }
    files.sort();
}

/// Why the profiler did not run the kernel.
fn refusal(status: ExitStatus, log: &Path) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(0), _) => "rocprofv3 ended without running the replay".to_owned(),
        (Some(code), _) => format!("rocprofv3 ended with status {code}"),
        (None, Some(signal)) => format!("rocprofv3 was ended by signal {signal}"),
        (None, None) => format!("rocprofv3: {status}"),
    };
    how + &last_line(log)
}

/// The last line of a log, behind a colon.
fn last_line(log: &Path) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    if line.is_empty() { String::new() } else { format!(": {}", line.chars().take(LAST).collect::<String>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_why_and_is_cut() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        fs::write(&log, format!("first\n{}\n \n", "x".repeat(1000))).unwrap();
        assert_eq!(last_line(&log), format!(": {}", "x".repeat(LAST)));
        assert_eq!(last_line(&folder.path().join("absent")), "");
    }

    #[test]
    fn a_kernel_is_called_by_its_symbol_or_as_in_the_source() {
        for name in ["_Z3addPfi", "_Z3addPfi.kd", "add(float*, int)"] {
            assert!(is_kernel("_Z3addPfi", name), "{name}");
        }
        for name in ["_Z3addPf", "add", "__amd_rocclr_copyBuffer", ""] {
            assert!(!is_kernel("_Z3addPfi", name), "{name}");
        }
    }
}
