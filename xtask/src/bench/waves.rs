//! `cargo xtask bench waves`: how fast the emulated GPU is, from its own packet trace: wave instructions of kernels that each
//! keep one part of the machine busy, over the time that they ran.

use std::fs;
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
/// Threads of the emulator.
const THREADS: [&str; 2] = ["1", "2"];
/// Runs of each kind.
const RUNS: usize = 5;
/// Ticks of the emulated clock in a second.
const TICKS: f64 = 1e8;
/// The runtime's own kernels have fewer instructions, and are too small to say anything.
const LEAST_INSTRUCTIONS: u64 = 200_000;

pub(super) fn run() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let program = demo::compile(&rocm, &shell::root().join("tests/programs/throughput.hip"))?;
    let trace = shell::cache().join("waves.json");
    println!("millions of wave instructions in a second: the median of {RUNS} runs (the best)\n");
    println!("{:<14} {:>14} {:>18} {:>18}", "kind", "instructions", "one thread", "two threads");
    for kind in KINDS {
        let mut executed = 0;
        let mut columns = Vec::new();
        for threads in THREADS {
            let mut rates = Vec::new();
            for _ in 0..RUNS {
                fs::write(&trace, "")?;
                let mut command = Command::new(&program);
                command.arg(kind).env("LD_PRELOAD", shell::built("libkfdemu.so"));
                shell::output(command.env("KFDEMU_THREADS", threads).env("KFDEMU_TRACE", &trace))?;
                let (mut instructions, mut ticks) = (0, 0);
                for line in fs::read_to_string(&trace)?.lines() {
                    let packet: Value =
                        serde_json::from_str(line).with_context(|| format!("in {}", trace.display()))?;
                    let number = |name: &str| packet[name].as_u64().unwrap_or_default();
                    if number("instructions") > LEAST_INSTRUCTIONS {
                        instructions += number("instructions");
                        ticks += number("endTicks") - number("startTicks");
                    }
                }
                ensure!(ticks > 0, "{kind}: no dispatch with more than {LEAST_INSTRUCTIONS} instructions in the trace");
                executed = instructions;
                rates.push(instructions as f64 * TICKS / ticks as f64 / 1e6);
            }
            let best = rates.iter().copied().fold(0.0, f64::max);
            columns.push(format!("{:.1} ({best:.1})", median(rates.into_iter())));
        }
        println!("{kind:<14} {executed:>14} {:>18} {:>18}", columns[0], columns[1]);
    }
    Ok(())
}
