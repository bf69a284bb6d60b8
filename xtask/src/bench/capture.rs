//! `cargo xtask bench capture` and `capture-format`: what captures cost, and writing and opening their files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use super::{Variant, emulated, parsed, table, variant, watched};
use crate::{demo, dist, setup, shell};

/// Repeats of each variant, interleaved.
const REPEATS: usize = 5;
/// Mebibytes that the process holds, and dispatches: much memory, and as little as most captured dispatches reach.
const PROCESSES: [(u32, u32); 2] = [(2048, 8), (16, 40)];

/// Where the capture is. In memory, as the log: a disk that is still busy with the last one would be measured.
fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { shell::cache() }
}

fn file() -> PathBuf {
    folder().join(format!("logdur-bench.{}.ldcap", std::process::id()))
}

fn captured(command: &mut Command, scope: &str) {
    watched(command);
    command.env("LOGDUR_CAPTURE", file()).env("LOGDUR_CAPTURE_DISPATCHES", "every:1");
    command.env("LOGDUR_CAPTURE_SCOPE", scope).env("LOGDUR_CAPTURE_MAX_SECONDS", "3600");
}

/// With a small aperture, the host has no access to the GPU's memory, so that less of it has to be read.
const VARIANTS: [Variant; 4] = [
    variant("without", emulated),
    variant("captured: all", |command| captured(command, "all")),
    variant("all, small aperture", |command| {
        captured(command, "all");
        command.env("KFDEMU_BAR", "small");
    }),
    variant("reachable", |command| {
        captured(command, "reachable");
        command.arg("apart");
    }),
];

/// What a captured dispatch costs a process.
pub(super) fn process() -> Result<()> {
    measure(&folder(), &["rates"])?;
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let program = demo::compile(&rocm, &shell::root().join("tests/programs/captured_costs.hip"))?;
    for (mebibytes, dispatches) in PROCESSES {
        let title = format!("a process with {mebibytes} MiB, of which each of {dispatches} kernels changes 1 MiB");
        let columns = ["ms the first", "ms a dispatch", "largest MiB", "ms of dd", "of dd's rate"];
        table(&title, columns, &VARIANTS, REPEATS, |variant| {
            let mut command = Command::new(&program);
            (variant.command)(command.args([mebibytes.to_string(), dispatches.to_string()]));
            let [first, each, largest] = parsed(&shell::output(&mut command)?)?;
            let has_captured = file().exists();
            let _ = std::fs::remove_file(file());
            let written = dd(mebibytes)?;
            Ok([first, each, largest, written, if has_captured { written / first } else { 0.0 }])
        })?;
    }
    Ok(())
}

/// Milliseconds in which `dd` appends so many mebibytes to a new file in the capture's place, in as large pieces as captures are written.
fn dd(mebibytes: u32) -> Result<f64> {
    let path = file();
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "bs=1M", "oflag=append", "conv=notrunc", "status=none"]);
    command.arg(format!("count={mebibytes}")).arg(format!("of={}", path.display()));
    let start = Instant::now();
    let written = shell::run(&mut command);
    let took = start.elapsed();
    let _ = std::fs::remove_file(path);
    written.map(|()| took.as_secs_f64() * 1e3)
}

/// What writing and opening files costs.
pub(super) fn format() -> Result<()> {
    measure(&shell::cache(), &[])
}

/// The figures of `capture/file/examples/capture_rates.rs`, with files in a folder.
fn measure(folder: &Path, arguments: &[&str]) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut command = Command::new(shell::cargo());
    command.args(["run", "--quiet", "--release", "-p", "logdur-capture", "--example", "capture_rates", "--"]);
    shell::run(command.arg(folder).args(arguments).current_dir(shell::root()))
}
