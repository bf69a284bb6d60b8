//! `cargo xtask fuzz [NAME ...] [--seconds N]`: the fuzz targets, with checks of overflows.
//!
//! The coverage that libFuzzer needs is instrumentation of LLVM, which the stable compiler has, too: no nightly is needed. What
//! a target has found stays in `fuzz/corpus`, which the next run goes on with; it is made by the target, so it is not committed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::shell;

/// How long a target runs if nothing else is said.
const SECONDS: u64 = 60;
/// How long each runs in `cargo xtask test --full`.
pub(crate) const FULL_SECONDS: u64 = 600;
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Coverage of edges and compared values; and what a release build leaves out: assertions and checks of overflows.
const FLAGS: &[&str] = &[
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "-Coverflow-checks=on",
    "-Cdebug-assertions=on",
];

/// Names and time that were asked for.
fn parse(args: &[String], all: &[String]) -> Result<(Vec<String>, u64)> {
    let (mut names, mut seconds) = (Vec::new(), SECONDS);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => {
                let text = args.next().context("--seconds takes a number")?;
                seconds = text.parse().with_context(|| format!("--seconds takes a number, found {text:?}"))?;
            }
            name if all.iter().any(|known| known == name) => names.push(name.to_owned()),
            other => bail!("expected --seconds N or names of {}, found {other:?}", all.join(", ")),
        }
    }
    Ok((if names.is_empty() { all.to_vec() } else { names }, seconds))
}

/// The names of the targets: those of their files.
fn targets() -> Result<Vec<String>> {
    let folder = folder().join("fuzz_targets");
    let files = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let stems = files.filter_map(|file| Some(file.ok()?.path().file_stem()?.to_string_lossy().into_owned()));
    let mut names: Vec<String> = stems.collect();
    names.sort();
    Ok(names)
}

fn folder() -> PathBuf {
    shell::root().join("fuzz")
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let (names, seconds) = parse(args, &targets()?)?;
    let mut build = Command::new(shell::cargo());
    build.args(["build", "--quiet", "--release", "--target", TARGET]).current_dir(folder());
    for name in &names {
        build.args(["--bin", name]);
    }
    build.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\u{1f}")).env("CARGO_TARGET_DIR", folder().join("target"));
    shell::run(&mut build)?;
    let mut failed = Vec::new();
    for name in &names {
        let start = Instant::now();
        let [corpus, artifacts] = ["corpus", "artifacts"].map(|kind| folder().join(kind).join(name));
        for folder in [&corpus, &artifacts] {
            fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        let mut command = Command::new(folder().join("target").join(TARGET).join("release").join(name));
        command.args([format!("-max_total_time={seconds}"), format!("-artifact_prefix={}/", artifacts.display())]);
        // A hang, and an input that takes much memory, are failures.
        command.args(["-timeout=60", "-rss_limit_mb=4096", "-print_final_stats=1", "-verbosity=0"]).arg(&corpus);
        let output = command.output().with_context(|| format!("could not start {command:?}"))?;
        let text = String::from_utf8_lossy(&output.stderr);
        let runs = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:")).unwrap_or("?");
        println!("{name}: {} inputs, {:.0} s: {}", runs.trim(), start.elapsed().as_secs_f64(), output.status);
        if !output.status.success() {
            println!("{text}");
            failed.push(name.as_str());
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("inputs in fuzz/artifacts fail: {}", failed.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_is_fuzzed_unless_some_are_named() {
        let all = targets().expect("the targets");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(parse(&[], &all).expect("no arguments"), (all.clone(), SECONDS));
        let (names, seconds) = parse(&words("records --seconds 5 capture"), &all).expect("names and a time");
        assert_eq!((names, seconds), (words("records capture"), 5));
        assert!(parse(&words("nothing"), &all).is_err() && parse(&words("--seconds"), &all).is_err());
        let manifest = fs::read_to_string(folder().join("Cargo.toml")).expect("the manifest");
        for name in &all {
            assert!(manifest.contains(&format!("name = \"{name}\"")), "fuzz/Cargo.toml has no {name}");
        }
    }
}
