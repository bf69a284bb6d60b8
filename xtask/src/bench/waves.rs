//! `cargo xtask bench waves`: how fast the emulated GPU is, from its own packet trace: wave instructions of kernels that each
//! keep one part of the machine busy, over the time that they ran.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{calibration, median};
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
    println!("{:<14} {:>14} {:>18} {:>18} {:>12}", "kind", "instructions", "one thread", "two threads", "two / one");
    let mut bounds = Vec::new();
    for kind in KINDS {
        let mut executed = 0;
        let mut rates = THREADS.map(|_| Vec::new());
        for _ in 0..RUNS {
            // What the machine gives in the same moments.
            let [one, two] = [1, 2].map(calibration::multiply_adds_of);
            bounds.extend(one.zip(two).map(|(one, two)| two / one));
            for (threads, rates) in THREADS.into_iter().zip(&mut rates) {
                let (instructions, seconds) = measure(&program, kind, ARCH, threads, LEAST_INSTRUCTIONS)?;
                executed = instructions;
                rates.push(instructions as f64 / seconds / 1e6);
            }
        }
        let ratios: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(one, two)| two / one).collect();
        let [one, two] = rates.map(shown);
        println!("{kind:<14} {executed:>14} {one:>18} {two:>18} {:>12}", format!("{:.2}", median(ratios.into_iter())));
    }
    if !bounds.is_empty() {
        let best = bounds.iter().copied().fold(0.0, f64::max);
        let shown = format!("{:.2} ({best:.2})", median(bounds.into_iter()));
        println!("{:<14} {:>14} {:>18} {:>18} {shown:>12}", "this machine", "", "", "");
        println!("\nThe last row is the bound: multiply-adds in registers, which share nothing but processors.");
    }
    Ok(())
}

/// The median of rates, and the best.
fn shown(rates: Vec<f64>) -> String {
    let best = rates.iter().copied().fold(0.0, f64::max);
    format!("{:.1} ({best:.1})", median(rates.into_iter()))
}
