//! What `cargo xtask suites`, `corpus`, `kinds` and `masks` run: the tests of packaged programs; the kernels of real code objects, and LLVM's
//! disassembler, against the emulator's tables; mnemonics outside
//! of these tables.

use std::process::ExitCode;

use anyhow::{Result, bail};

mod corpus;
mod kinds;
mod masks;
mod suites;

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        Some((name, rest)) if name == "suites" => suites::run(rest),
        Some((name, rest)) if name == "corpus" => corpus::run(rest),
        Some((name, rest)) if name == "kinds" => kinds::run(rest),
        Some((name, rest)) if name == "masks" => masks::run(rest),
        _ => bail!("expected suites, corpus, kinds or masks, found {args:?}"),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
