//! `cargo xtask bench start`: what the libraries cost before anything is dispatched, and what an idle emulated GPU holds.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::median;
use crate::{demo, setup, shell};

/// Repeats of each variant, interleaved.
const REPEATS: usize = 20;
/// Repeats of programs that take a millisecond.
const MANY_REPEATS: usize = 500;
/// Queues that a process makes one after the other.
const QUEUES: &str = "100";

/// A variant: its name and how its process is started.
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
    command.env("LOGDUR_LOG_LOCATION", shell::cache().join("bench.csv"));
}

/// The second series of the first variant says how much of a difference is noise.
const TRUE: [Variant; 3] =
    [variant("without", |_| {}), variant("with libkfdemu", emulated), variant("without, again", |_| {})];
const HIP: [Variant; 3] =
    [variant("without", emulated), variant("with liblogdur", watched), variant("without, again", emulated)];

pub(super) fn run() -> Result<()> {
    let rocm = setup::rocm()?;
    shell::build()?;
    let programs = shell::root().join("tests/programs");
    let first = demo::compile(&rocm, &programs.join("first.hip"))?;
    let queues = demo::compile_hsa(&rocm, &programs.join("queue_costs.c"))?;

    let taken = |program: &Path, argument: &'static str| {
        let program = program.to_owned();
        move |variant: &Variant| {
            let mut command = Command::new(&program);
            (variant.command)(command.arg(argument));
            Ok([wall(&mut command)? / 1e6])
        }
    };
    table("/bin/true", ["ms"], &TRUE, MANY_REPEATS, taken(Path::new("/bin/true"), ""))?;
    table("a HIP process to the end of its first kernel", ["ms"], &HIP, REPEATS, taken(&first, "_exit"))?;
    table("a HIP process with one kernel, to its end", ["ms"], &HIP, REPEATS, taken(&first, "return"))?;
    let columns = ["create us", "destroy us", "RSS MB", "library MB", "files MB"];
    table("a queue, and a process with an idle queue", columns, &HIP, REPEATS, |variant| {
        let mut command = Command::new(&queues);
        (variant.command)(command.arg(QUEUES));
        let text = shell::output(&mut command)?;
        let numbers = text.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let Ok([create, destroy, all, library, files]) = <[f64; 5]>::try_from(numbers) else {
            bail!("expected five numbers, found {text:?}")
        };
        Ok([create / 1e3, destroy / 1e3, all / 1024.0, library / 1024.0, files / 1024.0])
    })
}

/// Nanoseconds from a program's start to its end, as its parent sees them.
fn wall(command: &mut Command) -> Result<f64> {
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    let taken = began.elapsed().as_nanos() as f64;
    let status = status.with_context(|| format!("could not start {command:?}"))?;
    if status.success() { Ok(taken) } else { bail!("{command:?} failed: {status}") }
}

/// Takes samples of every variant, in turns, and prints the medians and how they compare with the first variant's.
fn table<const N: usize>(
    title: &str,
    columns: [&str; N],
    variants: &[Variant],
    repeats: usize,
    sample: impl Fn(&Variant) -> Result<[f64; N]>,
) -> Result<()> {
    let mut samples: Vec<Vec<[f64; N]>> = vec![Vec::new(); variants.len()];
    for repeat in 0..repeats {
        for turn in 0..variants.len() {
            let n = (repeat + turn) % variants.len();
            samples[n].push(sample(&variants[n])?);
        }
    }
    println!("\n{title}");
    let heads = columns.map(|column| format!("{column:>12} {:>8}", "ratio"));
    println!("{:<16} {}", "", heads.join(" "));
    for (variant, of_variant) in variants.iter().zip(&samples) {
        let cells: Vec<String> = (0..N)
            .map(|column| {
                let [value, base] = [of_variant, &samples[0]].map(|s| median(s.iter().map(|sample| sample[column])));
                format!("{value:>12.3} {:>8.3}", value / base)
            })
            .collect();
        println!("{:<16} {}", variant.name, cells.join(" "));
    }
    Ok(())
}
