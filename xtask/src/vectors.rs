//! `cargo xtask vectors`: the instructions that LLVM tests its disassembler with, from Debian's LLVM source package. Only
//! those of the gfx9 family are kept, in the cache; the repository has none of them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::debian::Suite;
use crate::shell;

/// The stable suite that has it, and the LLVM that tests ask.
const SUITE: &str = "trixie";
const PACKAGE: &str = "llvm-toolchain-22";
/// The files in the archive.
const FILES: &str = "*/llvm/test/MC/Disassembler/AMDGPU/gfx9*.txt";

pub(crate) fn run(args: &[String]) -> Result<()> {
    if !args.is_empty() {
        bail!("vectors takes no arguments, found {args:?}");
    }
    println!("{}", fetch()?.display());
    Ok(())
}

/// The folder with the vectors, which are fetched if they are not there.
///
/// # Errors
/// When they cannot be downloaded or unpacked.
pub(crate) fn fetch() -> Result<PathBuf> {
    let folder = shell::cache().join("vectors").join(PACKAGE);
    if folder.is_dir() {
        return Ok(folder);
    }
    println!("fetching LLVM's disassembler tests (an archive of 200 MB, once)");
    let archive = Suite::open_sources(SUITE)?.upstream(PACKAGE)?;
    // Complete or not there at all.
    let partial = folder.with_extension("partial");
    fs::remove_dir_all(&partial).ok();
    fs::create_dir_all(&partial).with_context(|| format!("creating {}", partial.display()))?;
    let mut tar = Command::new("tar");
    tar.args(["--extract", "--wildcards", "--transform", "s|.*/||"]).arg("--file").arg(&archive).arg(FILES);
    shell::output(tar.current_dir(&partial)).with_context(|| format!("unpacking {}", archive.display()))?;
    if fs::read_dir(&partial)?.next().is_none() {
        bail!("{} has no {FILES}", archive.display());
    }
    fs::remove_file(&archive)?;
    fs::rename(&partial, &folder)?;
    Ok(folder)
}
