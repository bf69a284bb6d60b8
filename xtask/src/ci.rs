//! `cargo xtask ci`: everything that has to be right before a change is taken.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{arrows, bindings, docs, exports, release, sanitize, shell, test};

/// A step: its name, and what it does.
type Step = (&'static str, fn() -> Result<()>);

const STEPS: &[Step] = &[
    ("format", || cargo(&["fmt", "--all", "--", "--check"])),
    ("clippy", || cargo(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    ("fuzz targets", || {
        let mut command = Command::new(shell::cargo());
        // What both workspaces have is checked once.
        command.env("CARGO_TARGET_DIR", shell::root().join("target"));
        shell::run(command.args(["clippy", "--quiet", "--", "-D", "warnings"]).current_dir(shell::root().join("fuzz")))
    }),
    ("arrows", || arrows::run(&[])),
    ("kinds", || crate::of_suites("kinds", &[])),
    ("generated files", || {
        docs::run(&["--check".to_owned()])?;
        bindings::run(&["--check".to_owned()])
    }),
    ("documentation", || {
        let mut command = Command::new(shell::cargo());
        command.args(["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]);
        shell::run(command.env("RUSTDOCFLAGS", "-D warnings"))
    }),
    ("tests", || test::run(&[])),
    ("sanitizers", || sanitize::run(&[])),
    ("commands of the documents", docs::commands),
    ("other ROCms", test::generations),
    ("packaged programs", || crate::of_suites("suites", &[])),
    ("exports", || exports::run(&[])),
    ("oldest compiler", release::oldest_compiler),
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("ci takes no arguments, found {args:?}");
    }
    for (name, step) in STEPS {
        let start = Instant::now();
        println!("== {name}");
        step().with_context(|| format!("ci: {name}"))?;
        println!("== {name}: {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

fn cargo(args: &[&str]) -> Result<()> {
    shell::run(Command::new(shell::cargo()).args(args))
}
