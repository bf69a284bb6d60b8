//! `cargo xtask soak [--minutes N]`: the story of the application that runs for long, for as long as is asked.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{dist, setup, shell};

/// What `cargo xtask test --full` takes, too.
const MINUTES: u64 = 30;
const STORY: &str = "an_application_that_runs_for_long_is_captured_swapped_and_logged_without_growing";

pub(crate) fn run(args: &[String]) -> Result<()> {
    let minutes = match args {
        [] => MINUTES,
        [name, number] if name == "--minutes" => {
            number.parse().with_context(|| format!("--minutes takes a number, found {number:?}"))?
        }
        other => bail!("soak takes --minutes N, found {other:?}"),
    };
    let rocm = setup::for_tests()?;
    dist::for_this_machine()?;
    let mut command = Command::new(shell::cargo());
    command.args(["test", "--quiet", "--test", "e2e", "--", STORY, "--nocapture"]);
    command.env("LOGDUR_TEST_HIPCC", &rocm.hipcc).env("LOGDUR_TEST_FULL", "1");
    if let Some(root) = &rocm.root {
        command.env("LOGDUR_TEST_ROCM", root);
    }
    shell::run(command.env("LOGDUR_TEST_SOAK_SECONDS", (minutes * 60).to_string()))
}
