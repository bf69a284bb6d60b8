//! Where our libraries, a ROCm and a program are.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use logdur_replay::{Exit, ReplayError};

use crate::{foreign, help};

/// Where a library may be, from the folder of this program: a build, an installation.
const PLACES: &[&str] = &[".", "../lib", "../lib/logdur", "../lib64"];

/// Where ROCm keeps libraries: its own packages, Debian's, and Debian's unpacked somewhere.
const ROCM_LIBRARIES: &[&str] = &["lib", "lib64", "lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"];

/// The runtime's library, the same in all versions.
pub(crate) const RUNTIME: &str = "libhsa-runtime64.so.1";

/// A library of ours, by its file name.
///
/// # Errors
/// When it is in none of the places.
pub(crate) fn library(name: &str) -> Result<PathBuf> {
    let program = std::env::current_exe().context("where this program is")?;
    let folder = program.parent().context("the program has no folder")?;
    for place in PLACES {
        let path = folder.join(place).join(name);
        if let Ok(path) = path.canonicalize() {
            return Ok(path);
        }
    }
    let text = format!("there is no {name} beside {} nor in {}", program.display(), PLACES[1..].join(", "));
    Err(ReplayError::Told { exit: Exit::Environment, text }.into())
}

/// The folders of a ROCm that hold libraries, the one with the runtime first.
///
/// # Errors
/// When none of them has the runtime.
pub(crate) fn rocm_libraries(rocm: &Path) -> Result<Vec<PathBuf>> {
    let rocm = rocm.canonicalize().with_context(|| format!("--rocm {}", rocm.display()))?;
    let folders: Vec<PathBuf> = ROCM_LIBRARIES.iter().map(|f| rocm.join(f)).filter(|f| f.is_dir()).collect();
    if !folders.iter().any(|f| f.join(RUNTIME).exists()) {
        bail!("--rocm {}: expected {RUNTIME} in one of {}, found none", rocm.display(), ROCM_LIBRARIES.join(", "));
    }
    Ok(folders)
}

/// The dynamic loader of a ROCm that has a C library of its own, and the folders of its libraries as that takes them.
///
/// # Errors
/// When the folder is no ROCm.
pub(crate) fn loader(rocm: &Path) -> Result<Option<(PathBuf, OsString)>> {
    let folders = rocm_libraries(rocm)?;
    let found = folders.iter().map(|folder| folder.join("ld-linux-x86-64.so.2")).find(|loader| loader.exists());
    let joined = std::env::join_paths(&folders).context("--rocm: a folder's name has a colon")?;
    Ok(found.map(|loader| (loader, joined)))
}

/// A command that runs this program with the C library of a ROCm, where that has one of its own.
///
/// # Errors
/// When the folder is no ROCm, or this program is not found.
pub(crate) fn this_program(rocm: Option<&Path>) -> Result<Command> {
    let program = std::env::current_exe().context("where this program is")?;
    Ok(match rocm.map(loader).transpose()?.flatten() {
        Some((loader, libraries)) => {
            let mut command = Command::new(loader);
            command.arg("--library-path").arg(libraries).arg(program);
            command
        }
        None => Command::new(program),
    })
}

/// The program that a shell would run for a name.
///
/// # Errors
/// When there is none, or it cannot be executed.
pub(crate) fn program(name: &OsStr) -> Result<PathBuf> {
    let shown = name.to_string_lossy();
    if shown.contains('/') {
        let path = PathBuf::from(name);
        let data = path.metadata().with_context(|| format!("the application {shown}"))?;
        if !data.is_file() || !is_executable(&path) {
            bail!("the application {shown} is not an executable file");
        }
        return Ok(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|p| p.is_file() && is_executable(p));
    found.with_context(|| {
        let command = help::command();
        let near = foreign::near(&shown, command.get_subcommands().map(clap::Command::get_name));
        let near = near.map(|near| format!("; there is `omniprobe {near}`")).unwrap_or_default();
        format!("the application {shown}: no such program in the folders of PATH, and no subcommand of omniprobe{near}")
    })
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path ends with a zero.
    unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
}
