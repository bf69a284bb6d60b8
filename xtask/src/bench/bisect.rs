//! `cargo xtask bench bisect`: what it takes to find an error that is planted into one of 1,000 dispatches, beside a plain replay of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::dispatch::processor_time_of_children;
use super::{emulated, median};
use crate::{demo, dist, setup, shell};

/// Dispatches of the region.
const DISPATCHES: u32 = 1000;
/// Steps that go wrong, for each way: the more, the less the place matters.
const SEEDS: u64 = 20;

/// Ways to go wrong: what they are called, their number in `tests/programs/planted.hip`, what finds them, and its status.
const WAYS: [(&str, u32, &str, i32); 4] = [
    ("wrong once", 1, "difference", 6),
    ("overwritten later", 2, "difference", 6),
    ("NaN", 3, "nan", 6),
    ("race", 5, "race", 6),
];

/// The literals of two instructions of each kernel of the program: the step, and the way.
const LITERALS: [u32; 2] = [0x5eed_0001, 0x5eed_0002];

pub(super) fn run() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let program = demo::compile(&rocm, &shell::root().join("tests/programs/planted.hip"))?;
    let folder = shell::cache().join(format!("bench-bisect.{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let measured = measure(&program, &folder);
    fs::remove_dir_all(&folder)?;
    measured
}

fn measure(program: &Path, folder: &Path) -> Result<()> {
    let file = folder.join("run.ldcap");
    let mut command = Command::new(program);
    emulated(command.arg(DISPATCHES.to_string()));
    let region = format!("kernel:^relax$@1..kernel:^(mix|relax|blend)$@{DISPATCHES}");
    command.env("HSA_TOOLS_LIB", shell::built("liblogdur.so")).env("LOGDUR_LOG_LOCATION", "/dev/null");
    command.env("LOGDUR_CAPTURE", &file).env("LOGDUR_CAPTURE_REGION", region);
    shell::output(&mut command)?;
    let code = planted_code(&file, folder)?;
    let dispatches = dispatches(&file)?;
    ensure!(dispatches.len() == DISPATCHES as usize, "expected {DISPATCHES} dispatches, found {}", dispatches.len());
    println!(
        "\n{DISPATCHES} dispatches, {SEEDS} steps for each way: medians, and of what a plain replay takes right before"
    );
    println!("{:<20} {:>8} {:>10} {:>10} {:>14} {:>10}", "", "found", "seconds", "ratio", "processor s", "ratio");
    for (name, way, wanted, status) in WAYS {
        let (mut found, mut pairs) = (0, Vec::new());
        for seed in 0..SEEDS {
            let step = drawn(seed * 7 + u64::from(way), DISPATCHES) + 1;
            let other = folder.join("other.hsaco");
            fs::write(&other, wrong(&code, step, way)?)?;
            let other = other.display().to_string();
            let bisect = format!("--bisect={wanted}");
            let words = ["verify", &bisect, "--json", "--hsaco", &other, "--tol", "arg0=f32", "--tol", "arg1=f32"];
            let (replay, _) = timed(&file, &["replay", "--no-verify", "--repetitions", "1"], 0)?;
            let (bisection, text) = timed(&file, &words, status)?;
            let said: Value = serde_json::from_str(text.trim()).with_context(|| text.clone())?;
            found += u32::from(said["first"]["dispatch"].as_u64() == dispatches.get(step as usize - 1).copied());
            pairs.push((bisection, replay));
        }
        let column = |at: usize| median(pairs.iter().map(|(bisection, _)| bisection[at]));
        let ratio = |at: usize| median(pairs.iter().map(|(bisection, replay)| bisection[at] / replay[at]));
        let found = format!("{found}/{SEEDS}");
        println!("{name:<20} {found:>8} {:>10.2} {:>10.2} {:>14.2} {:>10.2}", column(0), ratio(0), column(1), ratio(1));
    }
    Ok(())
}

/// The numbers of the dispatches of the program's kernels, by their steps.
fn dispatches(file: &Path) -> Result<Vec<u64>> {
    let mut command = Command::new(shell::built("omniprobe"));
    let text = shell::output(command.arg("info").arg(file).args(["--region", "--json"]))?;
    let said: Value = serde_json::from_str(text.trim()).with_context(|| text.clone())?;
    let steps = said["steps"].as_array().context("expected steps, found none")?;
    let kernels = [" mix", " relax", " blend"];
    let is_ours =
        |step: &&Value| kernels.iter().any(|name| step["what"].as_str().is_some_and(|what| what.ends_with(name)));
    Ok(steps.iter().filter(is_ours).filter_map(|step| step["dispatch"].as_u64()).collect())
}

/// Seconds of a tool on the region and of its processors, and what it prints.
fn timed(file: &Path, words: &[&str], status: i32) -> Result<([f64; 2], String)> {
    let (tool, options) = words.split_first().context("no tool")?;
    let mut command = Command::new(shell::built("omniprobe"));
    command.arg(tool).arg(file).args(["--region", "--backend", "emu"]).args(options);
    let (start, used) = (Instant::now(), processor_time_of_children());
    let output = command.output()?;
    let seconds = [start.elapsed().as_secs_f64(), (processor_time_of_children() - used) / 1e9];
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.code() == Some(status),
        "{command:?}: expected status {status}, found {}: {said}",
        output.status
    );
    Ok((seconds, String::from_utf8(output.stdout)?))
}

/// The code object of the program's kernels.
fn planted_code(file: &Path, folder: &Path) -> Result<Vec<u8>> {
    let out = folder.join("code");
    let mut command = Command::new(shell::built("omniprobe"));
    shell::output(command.arg("extract").arg(file).args(["--code", "-o"]).arg(&out))?;
    let files: Vec<PathBuf> = fs::read_dir(&out)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    let read = files.iter().map(|path| Ok(fs::read(path)?)).collect::<Result<Vec<_>>>()?;
    read.into_iter().find(|code| !places(code, LITERALS[0]).is_empty()).context("no code object with planted kernels")
}

/// Where a literal is.
fn places(code: &[u8], literal: u32) -> Vec<usize> {
    code.windows(4).enumerate().filter(|(_, word)| *word == literal.to_le_bytes()).map(|(at, _)| at).collect()
}

/// The code object that goes wrong at a step, in a way.
fn wrong(code: &[u8], step: u32, way: u32) -> Result<Vec<u8>> {
    let mut code = code.to_vec();
    for (literal, value) in LITERALS.into_iter().zip([step, way]) {
        let all = places(&code, literal);
        ensure!(all.len() >= 3, "expected the literal {literal:#x} in three kernels, found it {} times", all.len());
        for at in all {
            code.get_mut(at..at + 4).context("a literal at the end")?.copy_from_slice(&value.to_le_bytes());
        }
    }
    Ok(code)
}

/// Numbers that a seed gives: Knuth's multiplicative generator (TAOCP 3.3.4, MMIX).
fn drawn(seed: u64, below: u32) -> u32 {
    let state = seed.wrapping_add(1).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((state >> 33) % u64::from(below)) as u32
}
