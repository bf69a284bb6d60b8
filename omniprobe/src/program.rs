//! The application: which program its name stands for.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{foreign, help};

/// The program that a shell would run for a name.
///
/// # Errors
/// When there is none, or it cannot be executed.
pub(crate) fn find(name: &OsStr) -> Result<PathBuf> {
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
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path ends with a zero.
    unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
}
