//! `cargo xtask exports`: what `liblogdur.so` shows to the processes that it is loaded into.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::shell;

/// Everything that may be exported: what ROCr looks up in a tool. A name more could stand in for one of the
/// application's.
pub(crate) const OF_A_TOOL: &[&str] = &["HSA_AMD_TOOL_PRIORITY", "OnLoad", "OnUnload", "__asan_default_options"];

/// What `liblogdur_markers.so` may export: the functions of ROCTx, and those that `liblogdur.so` calls.
pub(crate) const OF_MARKERS: &[&str] = &[
    "logdur_markers_connect",
    "logdur_markers_end",
    "logdur_markers_open",
    "logdur_markers_watch",
    "roctxMarkA",
    "roctxProfilerPause",
    "roctxProfilerResume",
    "roctxRangePop",
    "roctxRangePushA",
    "roctxRangeStartA",
    "roctxRangeStop",
    "roctx_version_major",
    "roctx_version_minor",
];

/// What `liblogdur_analyzers.so` may export: handlers, and source positions for those of other libraries.
pub(crate) const OF_ANALYZERS: &[&str] = &["logdur_handler", "logdur_sources"];

/// What `libkfdemu.so` may export beside functions of the C library: those of the HSA runtime that wait, what tells replays of a kernel
/// without progress, and what AddressSanitizer asks.
pub(crate) const OF_THE_DRIVER: &[&str] =
    &["__asan_default_options", "hsa_signal_wait_relaxed", "hsa_signal_wait_scacquire", "kfdemu_no_progress"];

/// The newest version of the C library that it may ask for: that of the oldest distribution that it is built on.
const NEWEST_GLIBC: (u32, u32) = (2, 36);

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("exports takes no arguments, found {args:?}");
    }
    let library = shell::built("liblogdur.so");
    let found = exported(&library)?;
    let expected: BTreeSet<String> = OF_A_TOOL.iter().map(|&name| name.to_owned()).collect();
    if found != expected {
        bail!("{} exports {found:?}, expected {expected:?}", library.display());
    }
    let newest = newest_glibc(&library)?;
    if newest > NEWEST_GLIBC {
        bail!("{} needs glibc {newest:?}, expected at most {NEWEST_GLIBC:?}", library.display());
    }
    println!("{} exports, needs glibc {}.{}", found.len(), newest.0, newest.1);
    Ok(())
}

/// The names that a binary exports, without their versions.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn exported(binary: &Path) -> Result<BTreeSet<String>> {
    let text = shell::output(Command::new("nm").args(["--dynamic", "--defined-only", "--format=posix"]).arg(binary))?;
    let names = text.lines().filter_map(|line| line.split([' ', '@']).next());
    Ok(names.map(str::to_owned).collect())
}

/// The newest version of the C library that a binary asks for; zeros when it asks for none.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn newest_glibc(binary: &Path) -> Result<(u32, u32)> {
    let text = shell::output(Command::new("objdump").arg("-T").arg(binary))?;
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    Ok(versions.max().unwrap_or_default())
}
