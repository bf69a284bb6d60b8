//! `cargo xtask bench NAME`: our figure beside the alternative's, from interleaved runs.

mod bisect;
mod cache;
mod calibration;
mod capture;
mod dispatch;
mod instrument;
mod machine;
mod observers;
mod products;
mod region;
mod replay;
mod ring;
mod start;
mod waves;

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell;

use machine::Machine;

/// A benchmark: name, what it measures, code.
struct Bench {
    name: &'static str,
    help: &'static str,
    run: fn() -> Result<()>,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "dispatch",
        help: "what a dispatch costs a HIP program, with and without the library",
        run: dispatch::hip,
    },
    Bench {
        name: "producer",
        help: "what a packet costs its producer, with and without the library",
        run: dispatch::hsa,
    },
    Bench {
        name: "ring",
        help: "what a packet costs its producer with rings in the GPU's memory, with and without the library",
        run: ring::run,
    },
    Bench {
        name: "shared",
        help: "what a dispatch costs threads that share a completion signal, with and without the library",
        run: dispatch::shared,
    },
    Bench { name: "start", help: "what a process, a queue and an idle GPU cost, with and without", run: start::run },
    Bench {
        name: "cache",
        help: "what it takes to know the kernels of folders, with and without an index",
        run: cache::run,
    },
    Bench {
        name: "capture",
        help: "what a captured dispatch costs a process, beside copying and hashing as many bytes",
        run: capture::process,
    },
    Bench {
        name: "capture-format",
        help: "what writing and opening capture files costs, beside copying the same bytes",
        run: capture::format,
    },
    Bench {
        name: "replay",
        help: "what trials of a captured dispatch cost, and putting memory back beside putting all of it back",
        run: replay::run,
    },
    Bench {
        name: "region",
        help: "what a captured region costs a program, and how fast it is replayed beside the program itself",
        run: region::run,
    },
    Bench {
        name: "bisect",
        help: "what it takes to find an error that is planted into one of 1,000 dispatches, beside a plain replay",
        run: bisect::run,
    },
    Bench {
        name: "instrument",
        help: "how fast messages of instrumented kernels are received, and what they cost a program",
        run: instrument::run,
    },
    Bench {
        name: "observers",
        help: "how much slower the emulated GPU is while analyses and checks look at a dispatch",
        run: observers::run,
    },
    Bench {
        name: "products",
        help: "multiply-adds a second of the emulated GPU's matrix instructions",
        run: products::run,
    },
    Bench { name: "waves", help: "wave-instructions a second of the emulated GPU", run: waves::run },
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let names = || BENCHES.iter().map(|b| format!("\n  {:<14} {}", b.name, b.help)).collect::<String>();
    let [name] = args else { bail!("expected one name:{}", names()) };
    let bench =
        BENCHES.iter().find(|b| b.name == name).with_context(|| format!("no benchmark {name:?}:{}", names()))?;
    println!("{}", Machine::here());
    (bench.run)()
}

/// A variant: its name and how its process is started.
#[derive(Clone, Copy)]
struct Variant {
    name: &'static str,
    command: fn(&mut Command),
}

const fn variant(name: &'static str, command: fn(&mut Command)) -> Variant {
    Variant { name, command }
}

fn emulated(command: &mut Command) {
    command.env("LD_PRELOAD", shell::built("libkfdemu.so"));
}

fn watched(command: &mut Command) {
    emulated(command);
    command.env("HSA_TOOLS_LIB", shell::built("liblogdur.so"));
    command.env("LOGDUR_LOG_LOCATION", log());
}

/// The log, in memory where there is a folder for that: what is still to be written to a disk is paid for by the next process.
fn log() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { shell::cache() };
    folder.join(format!("logdur-bench.{}.csv", std::process::id()))
}

/// A program without the library and with it. The second series without says how much of a difference is noise.
const LIBRARY: [Variant; 3] =
    [variant("without", emulated), variant("with liblogdur", watched), variant("without, again", emulated)];

/// Takes samples of every variant, interleaved, and prints the medians and how they compare with the first variant's.
fn table<const N: usize>(
    title: &str,
    columns: [&str; N],
    variants: &[Variant],
    repeats: usize,
    sample: impl Fn(&Variant) -> Result<[f64; N]>,
) -> Result<()> {
    let mut samples: Vec<Vec<[f64; N]>> = vec![Vec::new(); variants.len()];
    for repeat in 0..repeats {
        for place in 0..variants.len() {
            let n = (repeat + place) % variants.len();
            // The name can be guessed: what is there already may be another user's link.
            let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(log());
            made.with_context(|| log().display().to_string())?;
            samples[n].push(sample(&variants[n])?);
            std::fs::remove_file(log())?;
        }
    }
    println!("\n{title}");
    let heads = columns.map(|column| format!("{column:>12} {:>8}", "ratio"));
    println!("{:<16} {}", "", heads.join(" "));
    for (variant, of_variant) in variants.iter().zip(&samples) {
        let cells: Vec<String> = (0..N)
            .map(|column| {
                let [value, base] = [of_variant, &samples[0]].map(|s| median(s.iter().map(|sample| sample[column])));
                let ratio = if base == 0.0 { "-".to_owned() } else { format!("{:.3}", value / base) };
                format!("{value:>12.3} {ratio:>8}")
            })
            .collect();
        println!("{:<16} {}", variant.name, cells.join(" "));
    }
    Ok(())
}

/// The numbers that a program prints.
fn parsed<const N: usize>(text: &str) -> Result<[f64; N]> {
    let numbers: Result<Vec<f64>, _> = text.split_whitespace().map(str::parse).collect();
    let numbers = numbers.with_context(|| format!("expected numbers, found {text:?}"))?;
    let Ok(numbers) = <[f64; N]>::try_from(numbers) else { bail!("expected {N} numbers, found {text:?}") };
    Ok(numbers)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
