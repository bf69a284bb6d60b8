//! The project's own commands, run as `cargo xtask NAME`. What needs the project's libraries is a package of its own, which these
//! commands run: `cargo xtask demo` need not wait until it is compiled.

use std::process::Command as Process;

use anyhow::{Result, bail};

mod arrows;
mod bench;
mod bindings;
mod ci;
pub mod corpora;
pub mod debian;
pub mod demo;
pub mod dist;
mod docs;
mod exports;
mod fuzz;
mod install;
pub mod instrument;
mod release;
pub mod rocm;
mod sanitize;
pub mod setup;
pub mod shell;
mod soak;
mod test;
mod vectors;

/// A command: name, what it does, arguments that it takes, code.
struct Command {
    name: &'static str,
    help: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "demo",
        help: "run a HIP program on the emulated GPU and show its kernels' durations",
        run: demo::run,
    },
    Command {
        name: "install",
        help: "build what people install for this machine, and put it into a folder (--prefix DIR)",
        run: install::run,
    },
    Command {
        name: "rocm",
        help: "unpack a ROCm from Debian's packages into a folder: a version like 6.1.2, or all",
        run: rocm::run,
    },
    Command {
        name: "test",
        help: "run every test (--device real, --full), or end-to-end tests: by NAME ..., on other versions (--rocm VERSION|all)",
        run: test::run,
    },
    Command { name: "ci", help: "everything that a change has to pass (--from STEP: go on from a step)", run: ci::run },
    Command {
        name: "bench",
        help: "measure: dispatch, producer, shared, start, cache, capture, capture-format, replay, instrument, waves",
        run: bench::run,
    },
    Command {
        name: "bindings",
        help: "regenerate the bindings to the runtime's and the kernel's headers (--check: only compare)",
        run: bindings::run,
    },
    Command {
        name: "instrument-pass",
        help: "build the compiler's plugin that instruments kernels: for hipcc's LLVM, or --llvm VERSION|all",
        run: instrument::run,
    },
    Command { name: "vectors", help: "fetch the tests of LLVM's disassembler, for test --full", run: vectors::run },
    Command {
        name: "docs",
        help: "print the pages that come from tables, check links (--check: only compare; --examples: run their commands; --full: build the book)",
        run: docs::run,
    },
    Command {
        name: "corpus",
        help: "share of the kernels of code objects whose every instruction there is: hip, triton, bitsandbytes, rocblas",
        run: |args| of_suites("corpus", args),
    },
    Command {
        name: "masks",
        help: "ask LLVM which rows of the instruction tables a processor has: PROCESSOR (--llvm VERSION)",
        run: |args| of_suites("masks", args),
    },
    Command {
        name: "suites",
        help: "run a sample of packaged programs' own tests, captured and verified too (--full, --list, --write-docs)",
        run: |args| of_suites("suites", args),
    },
    Command {
        name: "fuzz",
        help: "fuzz what reads files, with checks of overflows: NAME ..., --seconds N for each",
        run: fuzz::run,
    },
    Command {
        name: "soak",
        help: "an application that runs for long: captured, swapped, its log rotated (--minutes N)",
        run: soak::run,
    },
    Command {
        name: "sanitize",
        help: "run Miri and the sanitizers: miri, program (--full: also address, thread)",
        run: sanitize::run,
    },
    Command {
        name: "dist",
        help: "build what people install, for old systems, then install and use it (--full: also build twice and compare)",
        run: dist::run,
    },
    Command { name: "wheel", help: "make the wheel of the Python package and run its tests", run: dist::wheel::run },
    Command { name: "release", help: "do all of a release but its publication (--dry-run)", run: release::run },
    Command {
        name: "deny",
        help: "check licences, sources and known weaknesses of dependencies",
        run: dist::licenses::deny,
    },
    Command { name: "arrows", help: "compare the workspace's dependencies with those that may be", run: arrows::run },
    Command {
        name: "kinds",
        help: "refuse mnemonics that are compared outside of the instruction tables",
        run: |args| of_suites("kinds", args),
    },
    Command { name: "exports", help: "check what liblogdur.so shows to other code", run: exports::run },
];

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask COMMAND [OPTION ...]\n");
    for command in COMMANDS {
        text += &format!("\n  {:<15} {}", command.name, command.help);
    }
    text
}

/// Runs a command of the package `xtask-suites`.
fn of_suites(name: &str, args: &[String]) -> Result<()> {
    let mut command = Process::new(shell::cargo());
    command.args(["run", "--quiet", "--package", "xtask-suites", "--", name]).args(args);
    shell::run(&mut command)
}

/// Runs the command that this process was started with.
///
/// # Errors
/// Those of the command, and one for a command that is unknown.
pub fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = args.split_first() else { bail!("{}", usage()) };
    match COMMANDS.iter().find(|c| c.name == name) {
        Some(command) => (command.run)(rest),
        None => bail!("unknown command {name:?}\n{}", usage()),
    }
}
