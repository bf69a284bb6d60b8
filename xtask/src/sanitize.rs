//! `cargo xtask sanitize [NAME ...] [--full]`: tools that see wrong accesses and data races which no test asserts.
//!
//! Interleavings of threads without locks are models of loom, which `cargo xtask test` runs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::{demo, dist, setup, shell};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// A fixed one: another may have a lint or a check more.
const NIGHTLY: &str = "nightly-2026-05-20";

/// What came of a tool.
enum Ran {
    Passed,
    /// This machine lacks something that the tool needs.
    Lacks(String),
}

struct Tool {
    name: &'static str,
    help: &'static str,
    /// Runs with `--full`, or by its name.
    is_long: bool,
    run: fn() -> Result<Ran>,
}

const TOOLS: &[Tool] = &[
    Tool { name: "miri", help: "undefined behaviour in views of packets and in records", is_long: false, run: miri },
    Tool {
        name: "program",
        help: "wrong accesses of the library to memory, under a HIP program that is logged, captured and swapped",
        is_long: false,
        run: program,
    },
    Tool { name: "address", help: "the same in unit tests", is_long: true, run: address },
    Tool { name: "thread", help: "data races in unit tests", is_long: true, run: thread },
];

/// Packages whose unit tests Miri runs: it has no mapped files, no `dlopen` and no device.
const MIRI: &[&str] = &["-p", "hsa-sys", "-p", "logdur-journal"];
/// Modules and tests that Miri is not given: it cannot start processes, open files without waiting, or take pages out of files, and
/// those without unsafe code take it minutes.
const NOT_BY_MIRI: &[&str] =
    &["process::", "appended::", "pages::", "compare::", "names::", "rows::", "a_block_at_rest_takes_no_room"];
/// Packages with unsafe code, or that read what others wrote.
const ADDRESS: &[&str] = &[
    "-p",
    "logdur",
    "-p",
    "logdur-intercept",
    "-p",
    "logdur-journal",
    "-p",
    "logdur-system",
    "-p",
    "logdur-capture",
    "-p",
    "logdur-kernel-cache",
];
/// Packages whose threads share memory.
const THREAD: &[&str] = &["-p", "logdur", "-p", "logdur-intercept", "-p", "logdur-journal"];

/// The runtimes of AddressSanitizer of GCC and of LLVM: both have the interface of version 8, which the compiler uses.
const RUNTIMES: &[&str] = &["libasan.so.8", "libasan.so.6"];

fn folder(tool: &str) -> PathBuf {
    shell::root().join("target/sanitize").join(tool)
}

/// Cargo of the nightly toolchain, which has Miri and the source of the standard library. It is installed if it is not there.
///
/// # Errors
/// Why it is not there and cannot be installed.
fn nightly() -> std::result::Result<Command, String> {
    let rustup = |args: &[&str]| {
        let output = Command::new("rustup").args(args).output().map_err(|error| format!("rustup: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).trim().lines().last().unwrap_or_default().to_owned();
        if output.status.success() { Ok(()) } else { Err(format!("rustup {}: {said}", args.join(" "))) }
    };
    let there = || rustup(&["run", NIGHTLY, "cargo", "miri", "--version"]);
    let install = ["toolchain", "install", NIGHTLY, "--profile", "minimal", "--component", "miri,rust-src"];
    there().or_else(|_| rustup(&install).and_then(|()| there()))?;
    let mut command = Command::new("rustup");
    // The toolchain of this run would be the one of cargo's children, too.
    command.args(["run", NIGHTLY, "cargo"]).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    command.current_dir(shell::root());
    Ok(command)
}

fn miri() -> Result<Ran> {
    let mut command = match nightly() {
        Ok(command) => command,
        Err(reason) => return Ok(Ran::Lacks(reason)),
    };
    command.args(["miri", "test", "--quiet", "--lib"]).args(MIRI).arg("--");
    command.args(NOT_BY_MIRI.iter().flat_map(|module| ["--skip", module]));
    // Handles of signals and queues are addresses: provenance is exposed. Clocks and process numbers are read. Blocks live as
    // long as the process.
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-ignore-leaks");
    shell::run(command.env("CARGO_TARGET_DIR", folder("miri")))?;
    Ok(Ran::Passed)
}

/// Cargo of the stable toolchain, which has the sanitizer; only the option is hidden.
fn with_address_sanitizer(verb: &str) -> Command {
    let mut command = Command::new(shell::cargo());
    command.args([verb, "--quiet", "--target", TARGET]).current_dir(shell::root());
    command
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address -Copt-level=1 -Cdebuginfo=1 --cfg heap_of_the_process");
    command.env("CARGO_TARGET_DIR", folder("address"));
    command
}

/// The library in a process that is not instrumented: the sanitizer's runtime is loaded first. The HIP program, ROCm and the
/// emulated device are as they are, but their calls that allocate memory are the sanitizer's.
fn program() -> Result<Ran> {
    let Some(runtime) = RUNTIMES.iter().find_map(|name| found(name)) else {
        return Ok(Ran::Lacks(format!("none of {}, a part of the package gcc", RUNTIMES.join(", "))));
    };
    let rocm = setup::for_tests()?;
    dist::for_this_machine()?;
    // The library may have no undefined symbols: those of the runtime are found in it when it is linked, too.
    let mut build = with_address_sanitizer("rustc");
    build.args(["-p", "logdur", "--lib", "--"]).arg(format!("-Clink-arg={}", runtime.display()));
    shell::run(&mut build)?;
    let library = folder("address").join(TARGET).join("debug/liblogdur.so");
    let work = folder("program");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    let source = shell::root().join("tests/programs/vectors.hip");
    demo::code_object(&rocm, &source, "-O1", &work.join("cache"))?;
    let (log, capture) = (work.join("log.csv"), work.join("run.ldcap"));
    let mut command = Command::new(demo::compile(&rocm, &source)?);
    command.env("LD_PRELOAD", format!("{} {}", runtime.display(), shell::built("libkfdemu.so").display()));
    command.env("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=0:exitcode=99");
    command.env("KFDEMU_GPUS", "gfx90a").env("HSA_TOOLS_LIB", library).env("HSA_TOOLS_ROCPROFILER_V1_TOOLS", "1");
    command.env("LOGDUR_LOG_LOCATION", &log).env("LOGDUR_CAPTURE", &capture);
    command.env("LOGDUR_KERNEL_CACHE", work.join("cache")).env("XDG_CACHE_HOME", work.join("indexes"));
    shell::output(&mut command)?;
    // That the library took part is seen by what it left.
    let text = fs::read_to_string(&log).with_context(|| log.display().to_string())?;
    let swapped = text.lines().any(|line| line.starts_with("# notice: ") && line.contains(" active: "));
    ensure!(
        text.contains("# account: ") && swapped,
        "{}: expected an account and a swap, found\n{text}",
        log.display()
    );
    ensure!(capture.is_file(), "{} was not written", capture.display());
    Ok(Ran::Passed)
}

/// A library of the system, by its name.
fn found(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib/x86_64-linux-gnu"];
    folders.iter().map(|folder| PathBuf::from(folder).join(name)).find(|path| path.exists())
}

fn address() -> Result<Ran> {
    let mut command = with_address_sanitizer("test");
    // Queues, blocks and sessions live as long as the process.
    shell::run(command.arg("--lib").args(ADDRESS).env("ASAN_OPTIONS", "detect_leaks=0"))?;
    Ok(Ran::Passed)
}

/// The standard library is instrumented, too: its locks order what they protect.
fn thread() -> Result<Ran> {
    let mut command = match nightly() {
        Ok(command) => command,
        Err(reason) => return Ok(Ran::Lacks(reason)),
    };
    command.args(["test", "--quiet", "--lib", "-Zbuild-std", "--target", TARGET]).args(THREAD);
    command.env("RUSTFLAGS", "-Zsanitizer=thread -Copt-level=1 -Cunsafe-allow-abi-mismatch=sanitizer");
    shell::run(command.env("CARGO_TARGET_DIR", folder("thread")))?;
    Ok(Ran::Passed)
}

/// The tools that are asked for.
fn parse(args: &[String]) -> Result<Vec<&'static Tool>> {
    let listed = || TOOLS.iter().map(|tool| format!("\n  {:<8} {}", tool.name, tool.help)).collect::<String>();
    let is_full = args.iter().any(|arg| arg == "--full");
    let names = args.iter().filter(|arg| *arg != "--full");
    let named = names.map(|name| {
        let known = TOOLS.iter().find(|tool| tool.name == name);
        known.with_context(|| format!("expected --full or names, found {name:?}:{}", listed()))
    });
    let named = named.collect::<Result<Vec<&Tool>>>()?;
    let unnamed = || TOOLS.iter().filter(|tool| is_full || !tool.is_long).collect();
    Ok(if named.is_empty() { unnamed() } else { named })
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut failed = Vec::new();
    for Tool { name, run, .. } in parse(args)? {
        let start = Instant::now();
        match run() {
            Ok(Ran::Passed) => println!("{name}: passed, {:.0} s", start.elapsed().as_secs_f64()),
            Ok(Ran::Lacks(reason)) => println!("{name}: not run: {reason}"),
            Err(error) => {
                println!("{name}: {error:#}");
                failed.push(*name);
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_tools_are_run_unless_more_or_some_are_asked_for() {
        let names = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            parse(&words).map(|tools| tools.iter().map(|tool| tool.name).collect::<Vec<_>>())
        };
        assert_eq!(names("").expect("no arguments"), ["miri", "program"]);
        assert_eq!(names("--full").expect("an option"), ["miri", "program", "address", "thread"]);
        assert_eq!(names("thread miri").expect("names"), ["thread", "miri"]);
        assert!(names("memory").is_err_and(|error| error.to_string().contains("thread   data races")));
    }
}
