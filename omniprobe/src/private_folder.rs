//! Files that pass between `omniprobe` and the applications that it starts.
//!
//! Other users of the machine are treated as hostile. The files are in a new folder with a random name, which no other
//! user may enter.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use logdur_system::trust::user;
use tempfile::TempDir;

/// Temporary files in memory.
const IN_MEMORY: &str = "/dev/shm";

/// A folder that is removed with everything in it when this is dropped.
#[derive(Debug)]
pub(crate) struct PrivateFolder(TempDir);

impl PrivateFolder {
    /// Makes it in `$XDG_RUNTIME_DIR` if that is this user's alone, else in the folder for temporary files. If that cannot be written,
    /// as in a container whose file systems are read-only, in memory.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn new() -> Result<PrivateFolder> {
        let runtime =
            std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute() && is_private(p));
        let runtime = runtime.and_then(|runtime| PrivateFolder::new_in(&runtime).ok());
        let temporary = || PrivateFolder::new_in(&std::env::temp_dir());
        let in_memory = |error| PrivateFolder::new_in(Path::new(IN_MEMORY)).map_err(|_| error);
        runtime.map_or_else(|| temporary().or_else(in_memory), Ok)
    }

    /// Makes it in some folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn new_in(parent: &Path) -> Result<PrivateFolder> {
        let mut builder = tempfile::Builder::new();
        // Made with this mode, and a random name that must not have been there.
        let folder = builder.prefix("omniprobe-").permissions(Permissions::from_mode(0o700)).tempdir_in(parent);
        let from = ["TMPDIR", "XDG_RUNTIME_DIR"]
            .into_iter()
            .find(|name| std::env::var_os(name).is_some_and(|value| Path::new(&value) == parent));
        let from = from.map(|name| format!(", which {name} names")).unwrap_or_default();
        let said = || format!("making a folder for this run in {}{from}", parent.display());
        Ok(PrivateFolder(folder.with_context(said)?))
    }

    /// Leaves it where it is, and says where.
    pub(crate) fn keep(self) -> PathBuf {
        self.0.keep()
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

fn is_private(folder: &Path) -> bool {
    folder.symlink_metadata().is_ok_and(|m| m.is_dir() && m.uid() == user() && m.mode() & 0o077 == 0)
}
