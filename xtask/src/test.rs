//! `cargo xtask test`: every test, on the emulated GPU or a real one, or the end-to-end tests on other ROCms.

use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::dist::{self, wheel};
use crate::rocm::{self, Generation, Part, Unpacked};
use crate::{fuzz, instrument, sanitize, setup, shell, vectors};

const USAGE: &str = "test takes --device real|emulated, --full, and --rocm VERSION|all [NAME ...]";

/// How many tests run at once, as Rust's test harness has it.
const THREADS: &str = "RUST_TEST_THREADS";

/// What the command line asks for.
#[derive(Default)]
struct Options {
    full: bool,
    device: Option<String>,
    /// The ROCms to test on, instead of the machine's own.
    rocm: Option<Vec<&'static Generation>>,
    /// Parts of the names of the end-to-end tests to run; none means all.
    names: Vec<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Options> {
        let mut options = Options::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--full" => options.full = true,
                "--device" => match args.next() {
                    Some(device) if device == "real" || device == "emulated" => options.device = Some(device.clone()),
                    other => bail!("--device takes real or emulated, found {other:?}"),
                },
                "--rocm" => match args.next() {
                    Some(text) => options.rocm = Some(rocm::named(text)?),
                    None => bail!("--rocm takes a version or all"),
                },
                name if !name.starts_with('-') && options.rocm.is_some() => options.names.push(name.to_owned()),
                other => bail!("{USAGE}, found {other:?}"),
            }
        }
        Ok(options)
    }

    /// `cargo test`, of the whole workspace or of one target, on a ROCm; `None` is the distribution's own.
    fn cargo_test(&self, what: &[&str], root: Option<&Path>, hipcc: &Path) -> Result<Command> {
        let mut command = Command::new(shell::cargo());
        command.args(["test", "--quiet"]).args(what).env("LOGDUR_TEST_HIPCC", hipcc);
        match root {
            Some(root) => command.env("LOGDUR_TEST_ROCM", root),
            None => command.env_remove("LOGDUR_TEST_ROCM"),
        };
        if self.full {
            command.env("LOGDUR_TEST_FULL", "1").env("LOGDUR_TEST_LLVM_VECTORS", vectors::fetch()?);
        }
        if let Some(device) = &self.device {
            command.env("LOGDUR_TEST_DEVICE", device);
        }
        if std::env::var_os(THREADS).is_none() {
            // End-to-end tests wait for processes and watchdogs half of their time.
            let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
            command.env(THREADS, (2 * processors).to_string());
        }
        Ok(command)
    }

    /// The end-to-end tests on an unpacked ROCm. Where two differ in behaviour, the test says which does what.
    fn end_to_end(&self, unpacked: &Unpacked, names: &[&str]) -> Result<()> {
        let Unpacked { folder, .. } = unpacked;
        let hipcc = folder.join("bin/hipcc");
        // A suite that moves may have a newer compiler.
        if let Err(error) = instrument::of_compiler(&hipcc).and_then(instrument::build) {
            println!("the pass that instruments kernels: not built: {error:#}");
        }
        let mut command = self.cargo_test(&["--test", "e2e"], Some(folder), &hipcc)?;
        shell::run(command.arg("--").args(names).args(skipped()))
    }
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args)?;
    let rocm = setup::for_tests()?;
    dist::for_this_machine()?;
    if options.full {
        instrument::all()?;
    }
    let Some(generations) = &options.rocm else {
        let mut all = options.cargo_test(&["--workspace"], rocm.root.as_deref(), &rocm.hipcc)?;
        shell::run(all.arg("--").args(skipped()))?;
        models()?;
        wheel::test(&rocm.hipcc, options.device.as_deref())?;
        if options.full {
            sanitize::run(&["--full".to_owned()])?;
            fuzz::run(&["--seconds".to_owned(), fuzz::FULL_SECONDS.to_string()])?;
            dist::run(&["--full".to_owned()])?;
        }
        return Ok(());
    };
    let names: Vec<&str> = options.names.iter().map(String::as_str).collect();
    let mut failed = Vec::new();
    for generation in generations {
        let start = Instant::now();
        // One that fails does not keep the others from being tested.
        let outcome = rocm::unpack(generation).and_then(|unpacked| {
            options.end_to_end(&unpacked, &names)?;
            Ok(unpacked.version)
        });
        match outcome {
            Ok(version) => println!("ROCm {version}: passed, {:.0} s", start.elapsed().as_secs_f64()),
            Err(error) => {
                println!("ROCm {}: failed: {error:#}", generation.version);
                failed.push(generation.version);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed on ROCm {}", failed.join(", ")) }
}

/// Tests that need what a machine or a suite that moves may not have.
struct Optional {
    what: &'static str,
    /// Sees to it that it is there.
    prepare: fn() -> Result<()>,
    /// A part of the names of the tests.
    names: &'static str,
}

const OPTIONAL: &[Optional] = &[
    Optional { what: "tests of reports in a browser", prepare: setup::browser, names: "browser::" },
    Optional {
        what: "tests of clones by the machine's compiler",
        prepare: || instrument::build(instrument::of_compiler(&setup::rocm()?.hipcc)?).map(drop),
        names: "instrumented_kernels::",
    },
    Optional {
        what: "tests of clones by LLVM 19",
        prepare: || instrument::build(instrument::version("19")?).map(drop),
        names: "by_llvm_19",
    },
    Optional {
        what: "tests of clones of Triton's kernels",
        prepare: instrument::for_triton,
        names: "of_tritons_kernel",
    },
];

/// Options that leave out the tests that cannot be run, with the reasons.
fn skipped() -> Vec<&'static str> {
    let missing = OPTIONAL.iter().filter(|optional| match (optional.prepare)() {
        Ok(()) => false,
        Err(error) => {
            println!("{}: not run: {error:#}", optional.what);
            true
        }
    });
    missing.flat_map(|optional| ["--skip", optional.names]).collect()
}

/// Every interleaving of the threads that share a queue or a signal: loom's atomics instead of the processor's,
/// so that all is compiled apart.
fn models() -> Result<()> {
    let mut command = Command::new(shell::cargo());
    command.args(["test", "--quiet", "-p", "logdur-intercept", "--lib", "model"]);
    shell::run(command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", shell::root().join("target/models")))
}

/// Tests in which another ROCm changes little: of the command line, logs, searches, replays, hostile users and
/// full disks. They ran on the machine's own.
const OF_THE_TOOLS: &[&str] = &[
    "alone::",
    "analyze::",
    "bench::",
    "browser::",
    "columns::",
    "crash::",
    "diff::",
    "escapes::",
    "formats::",
    "hostile::",
    "launcher::",
    "listing::",
    "load::",
    "mutants::",
    "mutations::",
    "names::",
    "opencl::",
    "openmp::",
    "oracles::",
    "output::",
    "ranks::",
    "replay::",
    "self_test::",
    "summary::",
    "trace::",
    "triton::",
    "tune::",
    "unwritable::",
];

/// What a change has to pass on the ROCms that are not the machine's own: see [`Part`].
///
/// # Errors
/// When a test fails, or when one cannot be fetched whose packages no longer change.
pub(crate) fn generations() -> Result<()> {
    let options = Options::default();
    setup::for_tests()?;
    dist::for_this_machine()?;
    for generation in rocm::GENERATIONS {
        let names: Vec<&str> = match generation.part {
            // The tests before these were run on it.
            Part::Machine => continue,
            Part::OfTheRocm => OF_THE_TOOLS.iter().flat_map(|name| ["--skip", name]).collect(),
            Part::Names(names) => names.to_vec(),
        };
        let Generation { version, suite, .. } = generation;
        let start = Instant::now();
        let unpacked = match rocm::unpack(generation) {
            Ok(unpacked) => unpacked,
            Err(error) if generation.moving => {
                println!("ROCm {version} ({suite}): not run: {error:#}");
                continue;
            }
            Err(error) => return Err(error),
        };
        options.end_to_end(&unpacked, &names)?;
        let part = names.join(" ");
        println!("ROCm {} ({suite}): tests {part}: {:.0} s", unpacked.version, start.elapsed().as_secs_f64());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn names_of_tests_are_for_a_rocm_that_was_chosen() {
        let options = parse("--full --rocm trixie queues:: hip::").expect("an order that is right");
        assert_eq!(options.rocm.map(|g| g[0].version), Some("6.1.2"));
        assert_eq!((options.full, options.names), (true, vec!["queues::".to_owned(), "hip::".to_owned()]));
        for wrong in ["queues::", "--rocm", "--rocm 4.0", "--device blue", "--rocm 6.1.2 --fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
