//! `cargo xtask exports`: what `liblogdur.so` shows to the processes that it is loaded into.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Result, bail};

use crate::shell;

/// Everything that may be exported: what ROCr looks up in a tool. A name more could stand in for one of the
/// application's.
const EXPORTS: &[&str] = &["HSA_AMD_TOOL_PRIORITY", "OnLoad", "OnUnload"];

/// The newest version of the C library that it may ask for: that of the oldest distribution that it is built on.
const NEWEST_GLIBC: (u32, u32) = (2, 36);

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("exports takes no arguments, found {args:?}");
    }
    let library = shell::built("liblogdur.so");
    let text = shell::output(Command::new("nm").args(["--dynamic", "--defined-only", "--format=posix"]).arg(&library))?;
    let found: BTreeSet<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let expected: BTreeSet<&str> = EXPORTS.iter().copied().collect();
    if found != expected {
        bail!("{} exports {found:?}, expected {expected:?}", library.display());
    }
    let text = shell::output(Command::new("objdump").arg("-T").arg(&library))?;
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    let newest = versions.max().unwrap_or_default();
    if newest > NEWEST_GLIBC {
        bail!("{} needs glibc {newest:?}, expected at most {NEWEST_GLIBC:?}", library.display());
    }
    println!("{} exports, needs glibc {}.{}", found.len(), newest.0, newest.1);
    Ok(())
}
