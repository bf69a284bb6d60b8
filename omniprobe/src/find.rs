//! Where our libraries and a ROCm are.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use omniprobe_exit::Exit;

use super::exit::Failure;

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
    Err(Failure { exit: Exit::Environment, text }.into())
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

/// The profiler of ROCm.
const PROFILER: &str = "rocprofv3";

/// Where ROCm is if nothing says so.
const ROCM: &str = "/opt/rocm";

/// The profiler: that of the ROCm that is asked for, that of `PATH`, or that of the ROCm that is installed.
///
/// # Errors
/// When there is none.
pub(crate) fn profiler(rocm: Option<&Path>) -> Result<PathBuf> {
    let in_rocm = |folder: PathBuf| folder.join("bin").join(PROFILER);
    let asked = rocm.map(|folder| in_rocm(folder.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let of_path = std::env::split_paths(&path).filter(|f| f.is_absolute()).map(|folder| folder.join(PROFILER));
    let installed = std::env::var_os("ROCM_PATH").map(PathBuf::from).into_iter().chain([PathBuf::from(ROCM)]);
    let mut all = asked.into_iter().chain(of_path).chain(installed.map(in_rocm));
    all.find(|file| is_executable(file)).ok_or_else(|| {
        let text = format!(
            "--pmc needs {PROFILER} of rocprofiler-sdk: expected it in PATH, in bin of --rocm DIR or ROCM_PATH, or in {ROCM}/bin, found \
             none; --backend emu counts on the emulated GPU"
        );
        Failure { exit: Exit::Environment, text }.into()
    })
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn the_profiler_of_the_rocm_that_is_asked_for_is_taken_if_it_can_be_executed() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let file = bin.join(PROFILER);
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        assert_ne!(profiler(Some(folder.path())).ok(), Some(file.clone()));
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(profiler(Some(folder.path())).unwrap(), file);
    }
}
