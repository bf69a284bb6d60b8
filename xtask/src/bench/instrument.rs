//! `cargo xtask bench instrument`: how fast messages are received, and what instrumentation costs a program.

use std::process::Command;

use anyhow::Result;

use super::{Variant, emulated, parsed, table, variant, watched};
use crate::{demo, dist, setup, shell};

/// Repeats of each variant, interleaved.
const REPEATS: usize = 7;

fn instrumented(command: &mut Command) {
    watched(command);
    command.env("LOGDUR_INSTRUMENTED", "true");
}

const VARIANTS: [Variant; 3] =
    [variant("without", emulated), variant("with liblogdur", watched), variant("instrumented", instrumented)];

pub(super) fn run() -> Result<()> {
    let mut command = Command::new(shell::cargo());
    command.args(["run", "--quiet", "--release", "-p", "logdur-messages", "--example", "message_rates"]);
    shell::run(command.current_dir(shell::root()))?;
    let rocm = setup::rocm()?;
    dist::for_this_machine()?;
    let program = demo::compile_with_headers(&rocm, &shell::root().join("tests/programs/clone_costs.hip"))?;
    let columns = ["launch ns", "ns an address", "RSS KiB"];
    let title = "an empty kernel and its end; the drain thread's time for a lane's address; memory";
    table(title, columns, &VARIANTS, REPEATS, |variant| {
        let mut command = Command::new(&program);
        (variant.command)(&mut command);
        parsed(&shell::output(&mut command)?)
    })
}
