//! What the tests of the command line have in common.

use std::ffi::OsStr;
use std::process::{Command, Output};

/// Runs a tool that has to succeed; what it printed.
pub(crate) fn tool(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a subcommand of `omniprobe`.
pub(crate) fn omniprobe(subcommand: &str, arguments: &[&dyn AsRef<OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_omniprobe"));
    command.arg(subcommand).args(arguments.iter().map(|a| a.as_ref()));
    command.output().expect("omniprobe was built")
}
