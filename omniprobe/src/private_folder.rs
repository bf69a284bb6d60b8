//! Files that pass between `omniprobe` and the applications that it starts.
//!
//! Other users of the machine are treated as hostile. The files are in a new folder with a random name, which no other
//! user may enter.

use std::fs::{File, OpenOptions, Permissions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

/// A folder that is removed with everything in it when this is dropped.
#[derive(Debug)]
pub(crate) struct PrivateFolder(TempDir);

impl PrivateFolder {
    /// Makes it in `$XDG_RUNTIME_DIR` if that is this user's alone, else in the folder for temporary files.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn new() -> Result<PrivateFolder> {
        let runtime =
            std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|p| p.is_absolute() && is_private(p));
        PrivateFolder::new_in(&runtime.unwrap_or_else(std::env::temp_dir))
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

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// An empty file, to which the library in an application writes what it has to say.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn hello(&self) -> Result<PathBuf> {
        let path = self.path().join("hello");
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        options.open(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(path)
    }
}

fn is_private(folder: &Path) -> bool {
    // SAFETY: the call cannot fail and touches no memory.
    let user = unsafe { libc::geteuid() };
    folder.symlink_metadata().is_ok_and(|m| m.is_dir() && m.uid() == user && m.mode() & 0o077 == 0)
}

/// Reads a file that an application wrote into the folder.
///
/// # Errors
/// When it cannot be read, or is no longer the regular file of this user that was made.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let said = || path.display().to_string();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let mut file: File = options.open(path).with_context(said)?;
    if let Some(reason) = logdur_journal::trust::mistrust(&file.metadata()?) {
        bail!("{}: {reason}", path.display());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).with_context(said)?;
    Ok(bytes)
}
