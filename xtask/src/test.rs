//! `cargo xtask test`: every test, on the emulated GPU or a real one; end-to-end tests by their names; or those on other ROCms.

use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::dist::{self, wheel};
use crate::rocm::{self, Generation, StoryChoice, Unpacked};
use crate::setup::Rocm;
use crate::{fuzz, instrument, sanitize, setup, shell, vectors};

const USAGE: &str = "test takes --device real|emulated, --full, --rocm VERSION|all, and names of end-to-end tests";

/// How many tests run at once, as Rust's test harness has it.
const THREADS: &str = "RUST_TEST_THREADS";

/// Which processors tests run on that run on several.
const ARCHS: &str = "LOGDUR_TEST_ARCHS";

/// What the command line asks for.
#[derive(Default)]
struct Options {
    full: bool,
    device: Option<String>,
    /// The ROCms to test on, instead of the machine's own.
    rocm: Option<Vec<&'static Generation>>,
    /// Parts of the names of the end-to-end tests to run; none means all.
    names: Vec<String>,
    /// Tests that run on several processors run on one.
    one_processor: bool,
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
                name if !name.starts_with('-') => options.names.push(name.to_owned()),
                other => bail!("{USAGE}, found {other:?}"),
            }
        }
        Ok(options)
    }

    /// `cargo test`, of the whole workspace or of one target, on a ROCm; `None` is the distribution's own.
    fn cargo_test(&self, what: &[&str], root: Option<&Path>, hipcc: &Path) -> Result<Command> {
        let mut command = Command::new(shell::cargo());
        command.args(["test", "--quiet"]).args(what).env("LOGDUR_TEST_HIPCC", hipcc);
        command.env("LOGDUR_TEST_PSEUDOCODE", setup::pseudocode()?);
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
        if self.one_processor && std::env::var_os(ARCHS).is_none() {
            command.env(ARCHS, "gfx90a");
        }
        if std::env::var_os(THREADS).is_none() {
            // End-to-end tests wait for processes and watchdogs half of their time.
            let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
            command.env(THREADS, (2 * processors).to_string());
        }
        Ok(command)
    }

    /// The end-to-end tests with these in their names, on the machine's own ROCm.
    fn named(&self, rocm: &Rocm) -> Result<()> {
        let e2e = || self.cargo_test(&["--test", "e2e"], rocm.root.as_deref(), &rocm.hipcc);
        let list = shell::output(e2e()?.arg("--").arg("--list").args(&self.names))?;
        let found: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
        if found.is_empty() {
            let names = self.names.join(" or ");
            bail!("no end-to-end test has {names} in its name; `cargo test -p PACKAGE NAME` runs tests of a package");
        }
        let is_wanted = |optional: &&Optional| found.iter().any(|name| name.contains(optional.names));
        shell::run(e2e()?.arg("--").args(&self.names).args(skipped(is_wanted)))
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
        shell::run(command.arg("--").args(names).args(skipped(|_| true)))
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
        if !options.names.is_empty() {
            return options.named(&rocm);
        }
        let mut all = options.cargo_test(&["--workspace"], rocm.root.as_deref(), &rocm.hipcc)?;
        shell::run(all.arg("--").args(skipped(|_| true)))?;
        models()?;
        wheel::test(&rocm.hipcc, options.device.as_deref())?;
        if options.full {
            pseudocode()?;
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
    Optional { what: "tests of reports in a browser", prepare: setup::browser, names: "cli::browser::" },
    Optional { what: "tests of programs built by CMake", prepare: setup::cmake, names: "capture::reproduced::cmake::" },
    Optional {
        what: "tests of clones by the machine's compiler",
        prepare: || instrument::build(instrument::of_compiler(&setup::rocm()?.hipcc)?).map(drop),
        names: "instrument::kernels::",
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

/// Options that leave out the tests that are wanted and cannot be run, with the reasons.
fn skipped(is_wanted: impl Fn(&&Optional) -> bool) -> Vec<&'static str> {
    let missing = OPTIONAL.iter().filter(is_wanted).filter(|optional| match (optional.prepare)() {
        Ok(()) => false,
        Err(error) => {
            println!("{}: not run: {error:#}", optional.what);
            true
        }
    });
    missing.flat_map(|optional| ["--skip", optional.names]).collect()
}

/// Millions of instructions against AMD's pseudocode, with optimised code: the other tests compare a sample.
fn pseudocode() -> Result<()> {
    let mut command = Command::new(shell::cargo());
    command.args(["test", "--release", "--quiet", "-p", "amdgpu-isa", "--test", "pseudocode"]);
    shell::run(command.env("LOGDUR_TEST_PSEUDOCODE", setup::pseudocode()?).env("LOGDUR_TEST_PSEUDOCODE_COUNT", "500"))
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
    "analyze::instructions::",
    "cli::",
    "emulator::opencl::",
    "emulator::openmp::",
    "emulator::oracles::",
    "emulator::triton::",
    "log::attach::",
    "log::columns::",
    "log::crash::",
    "log::load::",
    "log::output::",
    "log::ranks::",
    "log::unwritable::",
    "log::when::",
    "replay::",
];

/// What a change has to pass on the ROCms that are not the machine's own: see [`StoryChoice`].
///
/// # Errors
/// When a test fails, or when one cannot be fetched whose packages no longer change.
pub(crate) fn generations() -> Result<()> {
    // The other processors were tested on the machine's own ROCm.
    let options = Options { one_processor: true, ..Options::default() };
    setup::for_tests()?;
    dist::for_this_machine()?;
    for generation in rocm::GENERATIONS {
        let names: Vec<&str> = match generation.part {
            // The tests before these were run on it.
            StoryChoice::Machine => continue,
            StoryChoice::OfTheRocm => OF_THE_TOOLS.iter().flat_map(|name| ["--skip", name]).collect(),
            StoryChoice::Names(names) => names.to_vec(),
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
    fn stories_that_are_chosen_or_left_out_by_their_module_are_there() {
        let parts = rocm::GENERATIONS.iter().filter_map(|generation| match generation.part {
            StoryChoice::Names(names) => Some(names),
            StoryChoice::Machine | StoryChoice::OfTheRocm => None,
        });
        let optional = OPTIONAL.iter().map(|optional| optional.names);
        let all = parts.flatten().chain(OF_THE_TOOLS).copied().chain(optional);
        for modules in all.filter_map(|name| name.strip_suffix("::")) {
            let place = shell::root().join("tests/e2e").join(modules.replace("::", "/"));
            assert!(place.is_dir() || place.with_extension("rs").is_file(), "{modules}");
        }
    }

    #[test]
    fn names_of_tests_are_taken_with_and_without_a_rocm() {
        let options = parse("--full --rocm trixie queues:: hip::").expect("an order that is right");
        assert_eq!(options.rocm.map(|g| g[0].version), Some("6.1.2"));
        assert_eq!((options.full, options.names), (true, vec!["queues::".to_owned(), "hip::".to_owned()]));
        let options = parse("replay::verify").expect("a name alone");
        assert!(options.rocm.is_none() && options.names == ["replay::verify"]);
        for wrong in ["--rocm", "--rocm 4.0", "--device blue", "--rocm 6.1.2 --fast"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
