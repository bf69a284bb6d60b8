//! `cargo xtask bench waves`: how fast the emulated GPU is, from its own packet trace: wave instructions of kernels that each
//! keep one part of the machine busy, over the time that they ran.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::median;
use crate::{demo, dist, setup, shell};

/// The kinds of `tests/programs/throughput.hip`.
pub(super) const KINDS: [&str; 12] = [
    "saxpy",
    "sgemm",
    "fma_loop",
    "softmax",
    "histogram",
    "matmul",
    "jump_ahead",
    "scattered",
    "private_memory",
    "wide_indices",
    "lanes_off",
    "scalar_loop",
];
/// The processor.
const ARCH: &str = "gfx90a";
/// Threads of the emulator.
pub(super) const THREADS: [&str; 2] = ["1", "2"];
/// Runs of each kind.
pub(super) const RUNS: usize = 5;
/// Ticks of the emulated clock in a second.
const TICKS: f64 = 1e8;
/// The runtime's own kernels have fewer instructions, and are too small to say anything.
const LEAST_INSTRUCTIONS: u64 = 200_000;

/// Runs a kind of a program on a processor and so many threads: the instructions of its kernels, which have more than `least` of them, and
/// the seconds that these took.
pub(super) fn measure(program: &Path, kind: &str, arch: &str, threads: &str, least: u64) -> Result<(u64, f64)> {
    let trace = shell::cache().join("waves.json");
    fs::write(&trace, "")?;
    let mut command = Command::new(program);
    command.arg(kind).env("LD_PRELOAD", shell::built("libkfdemu.so")).env("KFDEMU_GPUS", arch);
    shell::output(command.env("KFDEMU_THREADS", threads).env("KFDEMU_TRACE", &trace))?;
    let (mut instructions, mut ticks) = (0, 0);
    for line in fs::read_to_string(&trace)?.lines() {
        let packet: Value = serde_json::from_str(line).with_context(|| format!("in {}", trace.display()))?;
        let number = |name: &str| packet[name].as_u64().unwrap_or_default();
        if number("instructions") > least {
            instructions += number("instructions");
            ticks += number("endTicks") - number("startTicks");
        }
    }
    ensure!(ticks > 0, "{kind}: no dispatch with more than {least} instructions in the trace");
    Ok((instructions, ticks as f64 / TICKS))
}

pub(super) fn run() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let program = demo::compile(&rocm, &shell::root().join("tests/programs/throughput.hip"))?;
    println!("millions of wave instructions in a second: the median of {RUNS} runs (the best)\n");
    println!("{:<14} {:>14} {:>18} {:>18}", "kind", "instructions", "one thread", "two threads");
    for kind in KINDS {
        let mut executed = 0;
        let mut columns = Vec::new();
        for threads in THREADS {
            let mut rates = Vec::new();
            for _ in 0..RUNS {
                let (instructions, seconds) = measure(&program, kind, ARCH, threads, LEAST_INSTRUCTIONS)?;
                executed = instructions;
                rates.push(instructions as f64 / seconds / 1e6);
            }
            let best = rates.iter().copied().fold(0.0, f64::max);
            columns.push(format!("{:.1} ({best:.1})", median(rates.into_iter())));
        }
        println!("{kind:<14} {executed:>14} {:>18} {:>18}", columns[0], columns[1]);
    }
    Ok(())
}
