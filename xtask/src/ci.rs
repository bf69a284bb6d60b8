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
    for (name, step) in steps(args)? {
        let start = Instant::now();
        println!("== {name}");
        step().with_context(|| format!("ci: {name}"))?;
        println!("== {name}: {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// All steps, or those from the one on that `--from` names: for whoever has mended what a gate stopped at.
fn steps(args: &[String]) -> Result<&'static [Step]> {
    let [option, from] = args else {
        return if args.is_empty() { Ok(STEPS) } else { bail!("ci takes --from STEP, found {args:?}") };
    };
    let names = || STEPS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    match STEPS.iter().position(|(name, _)| name == from) {
        Some(first) if option == "--from" => Ok(&STEPS[first..]),
        _ => bail!("ci takes --from STEP, found {option} {from:?}; the steps are: {}", names()),
    }
}

fn cargo(args: &[&str]) -> Result<()> {
    shell::run(Command::new(shell::cargo()).args(args))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_goes_on_from_a_step_and_names_the_steps_when_there_is_no_such() {
        let from = |words: &[&str]| steps(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(from(&[]).unwrap().len(), STEPS.len());
        assert_eq!(from(&["--from", "exports"]).unwrap()[0].0, "exports");
        assert!(from(&["--from", "export"]).is_err_and(|error| error.to_string().contains("exports, oldest compiler")));
        assert!(from(&["exports"]).is_err());
    }
}
