//! What the binaries need, show and weigh.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::binaries::{BINARIES, Binary};
use super::build::{Built, GLIBC};
use crate::{exports, shell};

/// The libraries that may be needed: those of glibc 2.28, and its loader.
const NEEDED: &[&str] = &["ld-linux-x86-64.so.2", "libc.so.6", "libdl.so.2", "libm.so.6", "libpthread.so.0"];

/// Checks each binary and prints a line about it.
///
/// # Errors
/// What a binary has that it may not have.
pub(crate) fn run(built: &Built) -> Result<()> {
    for binary in BINARIES {
        check(binary, &built.path(binary.file)).with_context(|| binary.file)?;
    }
    Ok(())
}

fn check(binary: &Binary, path: &Path) -> Result<()> {
    let size = path.metadata()?.len();
    if size > binary.budget {
        bail!("expected at most {} bytes, found {size}", binary.budget);
    }
    let differ = binary.exports.differ(&exports::exported(path)?)?;
    if !differ.is_empty() {
        bail!("exports that are missing or too many: {}", differ.join(", "));
    }
    let (glibc, needed) = (exports::newest_glibc(path)?, entries(path, "NEEDED")?);
    if glibc > GLIBC {
        bail!("needs glibc {glibc:?}, expected at most {GLIBC:?}");
    }
    if let Some(library) = needed.iter().find(|library| !NEEDED.contains(&library.as_str())) {
        bail!("needs {library}, expected nothing but {}", NEEDED.join(", "));
    }
    for tag in ["RPATH", "RUNPATH"] {
        if let Some(path) = entries(path, tag)?.first() {
            bail!("expected no {tag}, found {path}");
        }
    }
    println!(
        "{}: {size} bytes of {}, glibc {}.{}, needs {}",
        binary.file,
        binary.budget,
        glibc.0,
        glibc.1,
        needed.join(" ")
    );
    Ok(())
}

/// The values of a tag of the dynamic section.
fn entries(path: &Path, tag: &str) -> Result<Vec<String>> {
    let text = shell::output(Command::new("readelf").args(["--wide", "--dynamic"]).arg(path))?;
    let of_tag = text.lines().filter(|line| line.contains(&format!("({tag})")));
    Ok(of_tag.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned())).collect())
}
