//! `cargo xtask bench observers`: how much slower the emulated GPU runs captured dispatches while analyses and checks look at them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use logdur_observe::{Analysis, Check};
use serde_json::Value;

use super::median;
use super::waves::KINDS;
use crate::{demo, dist, setup, shell};

/// Interleaved runs of each.
const RUNS: usize = 3;

/// What is observed: its name, and the options for it.
type Row = (String, Vec<&'static str>);

fn rows() -> Vec<Row> {
    let row = |name: &str, options: &[&'static str]| (name.to_owned(), options.to_vec());
    // Workgroups that are not chosen run as without observers.
    let mut rows = vec![row("nothing", &["--what", "occupancy", "--workgroups", "1"])];
    rows.extend(Analysis::ALL.iter().map(|one| row(one.word(), &["--what", one.word()])));
    rows.push(row("all analyses", &["--what", "all"]));
    rows.extend(Check::ALL.iter().map(|one| row(&format!("--check {}", one.word()), &["--check", one.word()])));
    rows.push(row("--check all", &["--check", "all"]));
    rows
}

pub(super) fn run() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let program = demo::compile(&rocm, &shell::root().join("tests/programs/throughput.hip"))?;
    println!("time of a dispatch on the emulated GPU over its time without observers: medians of {RUNS} runs\n");
    let file = shell::cache().join("observers.ldcap");
    let rows = rows();
    let mut columns = Vec::new();
    for kind in KINDS {
        // A file of an earlier run.
        let _ = std::fs::remove_file(&file);
        let mut command = Command::new(shell::built("omniprobe"));
        command.args(["--emulate", "gfx90a", "-l", "/dev/null", "--capture-kernels", kind, "--capture"]);
        shell::output(command.arg(&file).arg("--").arg(&program).arg(kind))?;
        columns.push(seconds(&file, &rows).with_context(|| kind.to_owned())?);
    }
    let heads: Vec<String> = KINDS.iter().map(|kind| format!("{kind:>12}")).collect();
    println!("{:<16}{}", "", heads.concat());
    for (n, (name, ..)) in rows.iter().enumerate() {
        let cell = |column: &Vec<f64>| match n {
            0 => format!("{:>10.2} s", column[0]),
            n => format!("{:>11.2}×", column[n] / column[0]),
        };
        println!("{name:<16}{}", columns.iter().map(cell).collect::<String>());
    }
    Ok(())
}

/// Seconds that the dispatch of a capture takes, by row.
fn seconds(file: &Path, rows: &[Row]) -> Result<Vec<f64>> {
    let mut samples: Vec<Vec<f64>> = vec![Vec::new(); rows.len()];
    for _ in 0..RUNS {
        for ((_, options), samples) in rows.iter().zip(&mut samples) {
            let mut command = Command::new(shell::built("omniprobe"));
            let output = command.arg("analyze").arg(file).arg("--json").args(options).output()?;
            // The status is another one if a check finds something.
            let said: Value = serde_json::from_slice(&output.stdout)
                .with_context(|| format!("what omniprobe analyze says: {}", String::from_utf8_lossy(&output.stderr)))?;
            samples.push(said["host_ns"].as_f64().context("no host_ns")? / 1e9);
        }
    }
    Ok(samples.into_iter().map(|samples| median(samples.into_iter())).collect())
}
