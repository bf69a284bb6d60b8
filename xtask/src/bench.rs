//! `cargo xtask bench NAME`: our figure beside the alternative's, from interleaved runs.

mod start;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{demo, setup, shell};

/// A benchmark: name, what it measures, code.
struct Bench {
    name: &'static str,
    help: &'static str,
    run: fn() -> Result<()>,
}

const BENCHES: &[Bench] = &[
    Bench { name: "dispatch", help: "host time of a launch, with and without the library", run: dispatch },
    Bench { name: "start", help: "what a process, a queue and an idle GPU cost, with and without", run: start::run },
    Bench { name: "waves", help: "wave-instructions a second of the emulated GPU", run: waves },
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let names = || BENCHES.iter().map(|b| format!("\n  {:<10} {}", b.name, b.help)).collect::<String>();
    let [name] = args else { bail!("expected one name:{}", names()) };
    let bench =
        BENCHES.iter().find(|b| b.name == name).with_context(|| format!("no benchmark {name:?}:{}", names()))?;
    (bench.run)()
}

/// Repeats of each variant, interleaved.
const REPEATS: usize = 20;

/// One variant of a benchmark and its samples: host nanoseconds of a launch, and of a launch and its completion.
struct Variant {
    name: &'static str,
    library: bool,
    samples: Vec<[f64; 2]>,
}

fn dispatch() -> Result<()> {
    let rocm = setup::rocm()?;
    shell::build()?;
    let program = demo::compile(&rocm, &shell::root().join("tests/programs/launch.hip"))?;
    let variant = |name, library| Variant { name, library, samples: Vec::new() };
    // The second series without the library says how much of a difference is noise.
    let mut variants = [variant("without", false), variant("with liblogdur", true), variant("without, again", false)];
    for repeat in 0..REPEATS {
        for turn in 0..variants.len() {
            let variant = &mut variants[(repeat + turn) % 3];
            variant.samples.push(launch(&program, variant.library)?);
        }
    }
    let of = |variant: &Variant| [0, 1].map(|column| median(variant.samples.iter().map(|s| s[column])));
    let base = of(&variants[0]);
    println!("{:<16} {:>12} {:>8} {:>12} {:>8}", "2000 launches", "launch ns", "ratio", "+ sync ns", "ratio");
    for variant in &variants {
        let [launch, sync] = of(variant);
        println!("{:<16} {launch:>12.0} {:>8.3} {sync:>12.0} {:>8.3}", variant.name, launch / base[0], sync / base[1]);
    }
    Ok(())
}

fn launch(program: &Path, library: bool) -> Result<[f64; 2]> {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", shell::built("libkfdemu.so")).arg("2000");
    if library {
        command.env("HSA_TOOLS_LIB", shell::built("liblogdur.so"));
        command.env("LOGDUR_LOG_LOCATION", shell::cache().join("bench.csv"));
    }
    let text = shell::output(&mut command)?;
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    let mut next = || numbers.next().context("too few numbers")?.context("no number");
    Ok([next()?, next()?])
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// From the emulator's own packet trace: wave instructions of each kernel, over the time that it ran.
fn waves() -> Result<()> {
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
