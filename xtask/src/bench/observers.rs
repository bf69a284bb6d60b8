//! `cargo xtask bench observers`: how much slower the emulated GPU runs captured dispatches while analyses and checks look at them.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::median;
use super::waves::KINDS;
use crate::{demo, dist, setup, shell};

/// Interleaved runs of each.
const RUNS: usize = 3;

/// What is observed: its name, and the options for it.
type Row = (String, Vec<String>);

fn rows() -> Result<Vec<Row>> {
    let row = |name: &str, options: &[&str]| (name.to_owned(), options.iter().map(|&one| one.to_owned()).collect());
    let page = shell::root().join("docs/analysis.md");
    let page = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
    // Workgroups that are not chosen run as without observers.
    let mut rows = vec![row("nothing", &["--what", "occupancy", "--workgroups", "1"])];
    rows.extend(words(&page, "analyses")?.into_iter().map(|word| row(word, &["--what", word])));
    rows.push(row("all analyses", &["--what", "all"]));
    rows.extend(words(&page, "checks")?.into_iter().map(|word| row(&format!("--check {word}"), &["--check", word])));
    rows.push(row("--check all", &["--check", "all"]));
    Ok(rows)
}

/// The words of a table that the page of analyses has, which is made from those of `logdur-observe`.
fn words<'p>(page: &'p str, table: &str) -> Result<Vec<&'p str>> {
    let (_, rest) = page.split_once(&format!("<!-- {table}:")).with_context(|| format!("no table of {table}"))?;
    let (rows, _) = rest.split_once(&format!("<!-- end of {table} -->")).context("a table without an end")?;
    Ok(rows.lines().filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0)).collect())
}

pub(super) fn run() -> Result<()> {
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let program = demo::compile(&rocm, &shell::root().join("tests/programs/throughput.hip"))?;
    println!("time of a dispatch on the emulated GPU over its time without observers: medians of {RUNS} runs\n");
    let file = shell::cache().join("observers.ldcap");
    let rows = rows()?;
    let mut columns = Vec::new();
    for kind in KINDS {
        // A file of an earlier run.
        let _ = fs::remove_file(&file);
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
