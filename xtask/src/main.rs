//! The project's own commands, run as `cargo xtask NAME`.

use std::process::ExitCode;

use anyhow::{Result, bail};

mod bindings;
mod debian;
mod shell;

/// A command: name, what it does, arguments that it takes, code.
struct Command {
    name: &'static str,
    help: &'static str,
    run: fn(&[String]) -> Result<()>,
}

const COMMANDS: &[Command] = &[Command {
    name: "bindings",
    help: "regenerate the bindings to the runtime's and the kernel's headers (--check: only compare)",
    run: bindings::run,
}];

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask COMMAND [OPTION ...]\n");
    for command in COMMANDS {
        text += &format!("\n  {:<10} {}", command.name, command.help);
    }
    text
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = args.split_first() else { bail!("{}", usage()) };
    match COMMANDS.iter().find(|c| c.name == name) {
        Some(command) => (command.run)(rest),
        None => bail!("unknown command {name:?}\n{}", usage()),
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
