//! `cargo xtask bench ring`: what a packet costs its producer where the ring is in the GPU's memory, which the newest ROCm can do.
//!
//! The emulated GPU's memory is the host's: the figures are of the library's own work, not of a bus.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::{Variant, emulated, parsed, table, variant, watched};
use crate::setup::Rocm;
use crate::{demo, dist, rocm, shell};

const REPEATS: usize = 12;

const VARIANTS: [Variant; 5] = [
    variant("host", emulated),
    variant("host, logged", watched),
    variant("GPU", |command| in_gpu_memory(command, emulated)),
    variant("GPU, logged", |command| in_gpu_memory(command, watched)),
    variant("host, again", emulated),
];

fn in_gpu_memory(command: &mut Command, how: fn(&mut Command)) {
    how(command);
    command.env("HSA_ALLOCATE_QUEUE_DEV_MEM", "1");
}

pub(super) fn run() -> Result<()> {
    let newest = rocm::GENERATIONS.last().context("no ROCm is known")?;
    let folder = rocm::unpack(newest)?.folder;
    dist::for_this_machine()?;
    let rocm = Rocm { hipcc: folder.join("bin/hipcc"), root: Some(folder) };
    let own = shell::cache().join("programs").join(newest.version);
    let source = |name: &str| shell::root().join("tests/programs").join(name);
    demo::code_object(&rocm, &source("kernels.hip"), "-O2", &own)?;
    let (program, kernels) = (compiled(&rocm, &source("rate.c"), &own)?, own.join("kernels.hsaco"));
    for (title, arguments) in [
        ("a held queue, one producer, packet by packet", ["held", "1", "1", "11"]),
        ("a held queue, eight producers, packet by packet", ["held", "8", "1", "11"]),
        ("a held queue, one producer, batches of 64", ["held", "1", "64", "11"]),
    ] {
        table(title, ["ns a packet", "p99 ns"], &VARIANTS, REPEATS, |variant| {
            let mut command = Command::new(&program);
            (variant.command)(command.args(arguments).env("TEST_KERNELS", &kernels));
            parsed(&shell::output(&mut command)?)
        })?;
    }
    Ok(())
}

/// A C program for a ROCm that was unpacked, in a folder: its compiler knows where that ROCm's libraries are.
fn compiled(rocm: &Rocm, source: &Path, folder: &Path) -> Result<PathBuf> {
    let program = folder.join("rate");
    let mut command = Command::new(&rocm.hipcc);
    command.args(["-std=gnu11", "-O2"]).arg(source).arg("-o").arg(&program).args(["-lhsa-runtime64", "-lpthread"]);
    shell::output(&mut command)?;
    Ok(program)
}
