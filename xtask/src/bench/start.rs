//! `cargo xtask bench start`: what the libraries cost before anything is dispatched, and what an idle emulated GPU holds.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{LIBRARY, Variant, emulated, table, variant};
use crate::{demo, dist, setup, shell};

/// Repeats of each variant, interleaved.
const REPEATS: usize = 20;
/// Repeats of programs that take a millisecond.
const MANY_REPEATS: usize = 500;
/// Queues that a process makes one after the other.
const QUEUES: &str = "100";

/// The second series of the first variant says how much of a difference is noise.
const TRUE: [Variant; 3] =
    [variant("without", |_| {}), variant("with libkfdemu", emulated), variant("without, again", |_| {})];
pub(super) fn run() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
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
    table("a HIP process to the end of its first kernel", ["ms"], &LIBRARY, REPEATS, taken(&first, "_exit"))?;
    table("a HIP process with one kernel, to its end", ["ms"], &LIBRARY, REPEATS, taken(&first, "return"))?;
    let columns = ["create us", "destroy us", "RSS MB", "written MB", "library MB", "files MB"];
    table("a queue, and a process with an idle queue", columns, &LIBRARY, REPEATS, |variant| {
        let mut command = Command::new(&queues);
        (variant.command)(command.arg(QUEUES));
        let text = shell::output(&mut command)?;
        let numbers = text.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let Ok([create, destroy, memory @ ..]) = <[f64; 6]>::try_from(numbers) else {
            bail!("expected six numbers, found {text:?}")
        };
        let [all, written, library, files] = memory.map(|kilobytes| kilobytes / 1024.0);
        Ok([create / 1e3, destroy / 1e3, all, written, library, files])
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
