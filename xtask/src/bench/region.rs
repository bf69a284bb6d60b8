//! `cargo xtask bench region`: what a captured region costs a program, and how fast it is replayed beside the program itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Variant, emulated, log, median, table, variant, watched};
use crate::{demo, dist, setup, shell};

/// Repeats of each variant, interleaved.
const REPEATS: usize = 7;
/// Dispatches of the region, by their numbers.
const FIRST: u64 = 100;
const LAST: u64 = 199;
/// Programs with arguments that give them so many dispatches.
const PROGRAMS: [(&str, &[&str]); 2] = [("sequences", &["7", "300"]), ("eight", &["40"])];

fn file() -> PathBuf {
    log().with_extension("ldcap")
}

fn captured(command: &mut Command) {
    watched(command);
    command
        .env("LOGDUR_CAPTURE", file())
        .env("LOGDUR_CAPTURE_REGION", format!("dispatches:{FIRST}..dispatches:{LAST}"));
    command.env("ROC_ENABLE_LARGE_BAR", "0");
}

const VARIANTS: [Variant; 4] = [
    variant("without", |command| {
        emulated(command);
        command.env("ROC_ENABLE_LARGE_BAR", "0");
    }),
    variant("logged", |command| {
        watched(command);
        command.env("ROC_ENABLE_LARGE_BAR", "0");
    }),
    variant("region", captured),
    variant("region, hashes", |command| {
        captured(command);
        command.env("LOGDUR_REGION_HASHES", "1");
    }),
];

pub(super) fn run() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    for (name, arguments) in PROGRAMS {
        let program = demo::compile(&rocm, &shell::root().join(format!("tests/programs/{name}.hip")))?;
        let title = format!("{name}, with a region of the dispatches {FIRST} to {LAST}");
        table(&title, ["seconds", "file KiB"], &VARIANTS, REPEATS, |variant| {
            let mut command = Command::new(&program);
            (variant.command)(command.args(arguments));
            let began = Instant::now();
            shell::output(&mut command)?;
            let seconds = began.elapsed().as_secs_f64();
            let bytes = std::fs::metadata(file()).map_or(0, |file| file.len());
            let _ = std::fs::remove_file(file());
            Ok([seconds, bytes as f64 / 1024.0])
        })?;
        rates(name, &program, arguments)?;
    }
    Ok(())
}

/// Nanoseconds from the start of the region's first dispatch to the end of its last one, where the program is only logged.
fn own(program: &Path, arguments: &[&str]) -> Result<f64> {
    let mut command = Command::new(program);
    watched(command.args(arguments));
    command.env("ROC_ENABLE_LARGE_BAR", "0");
    shell::output(&mut command)?;
    let text = std::fs::read_to_string(log())?;
    std::fs::remove_file(log())?;
    let mut rows = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(',').collect::<Vec<_>>());
    let heads = rows.next().context("expected a log with a header, found none")?;
    let column = |name: &str| {
        heads.iter().position(|head| head.trim_matches('"') == name).with_context(|| format!("no column {name}"))
    };
    // Names are quoted and may have commas: these columns are numbered from the end.
    let columns = [column("id")?, column("startNs")?, column("endNs")?].map(|at| heads.len() - at);
    let number = |row: &[&str], at: usize| row.len().checked_sub(at).and_then(|at| row.get(at)?.parse::<u64>().ok());
    let rows: Vec<[u64; 3]> = rows
        .filter_map(|row| Some([number(&row, columns[0])?, number(&row, columns[1])?, number(&row, columns[2])?]))
        .filter(|[id, ..]| (FIRST..=LAST).contains(id))
        .collect();
    let first = rows.iter().map(|row| row[1]).min().context("expected rows of the region, found none")?;
    let last = rows.iter().map(|row| row[2]).max().unwrap_or(first);
    Ok(last.saturating_sub(first) as f64)
}

/// Replays beside the program, in interleaved runs.
fn rates(name: &str, program: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    captured(command.args(arguments));
    shell::output(&mut command)?;
    let _ = std::fs::remove_file(log());
    let ways: [(&str, &[&str]); 4] = [
        ("HSA runtime", &["--emulate", "gfx90a"]),
        ("HSA runtime, concurrent", &["--emulate", "gfx90a", "--concurrent"]),
        ("emulated GPU alone", &["--backend", "emu"]),
        ("the same, concurrent", &["--backend", "emu", "--concurrent"]),
    ];
    let (mut of_program, mut of_ways) = (Vec::new(), [const { Vec::new() }; 4]);
    for _ in 0..REPEATS {
        of_program.push(own(program, arguments)?);
        for ((_, options), samples) in ways.iter().zip(&mut of_ways) {
            let mut command = Command::new(shell::built("omniprobe"));
            command.arg("bench").arg(file()).args(["--region", "--json", "--repetitions", "5"]).args(*options);
            let text = shell::output(&mut command)?;
            let said: Value = serde_json::from_str(text.trim()).with_context(|| text.clone())?;
            samples.push(said["host"]["median_ns"].as_f64().with_context(|| text.clone())?);
        }
    }
    std::fs::remove_file(file())?;
    let own = median(of_program.into_iter());
    println!("\n{name}: from the first start to the last end, and all steps of replays");
    println!("{:<26} {:>12} {:>18}", "", "ms", "application's rate");
    println!("{:<26} {:>12.3} {:>18.2}", "the application", own / 1e6, 1.0);
    for ((way, _), samples) in ways.iter().zip(of_ways) {
        let replay = median(samples.into_iter());
        println!("{way:<26} {:>12.3} {:>18.2}", replay / 1e6, own / replay);
    }
    Ok(())
}
