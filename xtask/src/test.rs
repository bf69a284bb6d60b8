//! `cargo xtask test`: every test, on the emulated GPU or a real one.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{setup, shell, vectors};

pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut command = Command::new(shell::cargo());
    command.args(["test", "--quiet", "--workspace"]);
    let mut args = args.iter().map(String::as_str);
    while let Some(arg) = args.next() {
        match arg {
            "--full" => {
                command.env("LOGDUR_TEST_FULL", "1");
                command.env("LOGDUR_TEST_LLVM_VECTORS", vectors::fetch()?);
            }
            "--device" => match args.next() {
                Some(device @ ("real" | "emulated")) => _ = command.env("LOGDUR_TEST_DEVICE", device),
                other => bail!("--device takes real or emulated, found {other:?}"),
            },
            other => bail!("test takes --device real|emulated and --full, found {other:?}"),
        }
    }
    let rocm = setup::for_tests()?;
    shell::build()?;
    command.env("LOGDUR_TEST_HIPCC", &rocm.hipcc);
    if let Some(root) = &rocm.root {
        command.env("LOGDUR_TEST_ROCM", root);
    }
    shell::run(&mut command)
}
