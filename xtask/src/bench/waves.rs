//! `cargo xtask bench waves`: how fast the emulated GPU is, from its own packet trace: wave instructions of each kernel,
//! over the time that it ran.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::median;
use crate::{demo, setup, shell};

pub(super) fn run() -> Result<()> {
    /// Ticks of the emulated clock in a second.
    const TICKS: f64 = 1e8;
    let rocm = setup::rocm()?;
    shell::build()?;
    let program = demo::compile(&rocm, &shell::root().join("tests/programs/throughput.hip"))?;
    let trace = shell::cache().join("waves.json");
    println!("{:<10} {:>14} {:>24}", "threads", "instructions", "million in a second");
    for threads in ["1", "2"] {
        let mut rates: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for _ in 0..5 {
            fs::write(&trace, "")?;
            let mut command = Command::new(&program);
            command.env("LD_PRELOAD", shell::built("libkfdemu.so"));
            shell::output(command.env("KFDEMU_THREADS", threads).env("KFDEMU_TRACE", &trace))?;
            for line in fs::read_to_string(&trace)?.lines() {
                let packet: Value = serde_json::from_str(line).with_context(|| format!("in {}", trace.display()))?;
                let number = |name: &str| packet[name].as_u64().unwrap_or_default();
                // The runtime's own kernels are too small to say anything.
                if number("instructions") > 1_000_000 {
                    let seconds = (number("endTicks") - number("startTicks")) as f64 / TICKS;
                    rates
                        .entry(number("instructions"))
                        .or_default()
                        .push(number("instructions") as f64 / seconds / 1e6);
                }
            }
        }
        for (instructions, rates) in rates {
            println!("{threads:<10} {instructions:>14} {:>24.1}", median(rates.into_iter()));
        }
    }
    Ok(())
}
