//! `cargo xtask bench capture-format`: the figures of `capture/examples/measure.rs`.

use std::process::Command;

use anyhow::Result;

use crate::shell;

pub(super) fn run() -> Result<()> {
    let folder = shell::cache();
    std::fs::create_dir_all(&folder)?;
    let mut command = Command::new(shell::cargo());
    command.args(["run", "--quiet", "--release", "-p", "logdur-capture", "--example", "measure", "--"]);
    shell::run(command.arg(folder).current_dir(shell::root()))
}
