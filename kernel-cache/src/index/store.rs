//! Index files: one for each root, in a folder of the user's.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::block::{Block, Damage};
use crate::file::{self, Readers};
use crate::trust::{self, Trust};

/// Where indexes are kept: `$XDG_CACHE_HOME/logdur`, else `~/.cache/logdur`. `None` if neither variable is an absolute path.
pub fn index_folder() -> Option<PathBuf> {
    let absolute = |path: PathBuf| Some(path).filter(|p| p.is_absolute());
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || absolute(PathBuf::from(std::env::var_os("HOME")?)).map(|home| home.join(".cache"));
    Some(cache.or_else(home)?.join("logdur"))
}

/// A file of a root in the folder of indexes.
pub(super) fn file_of(folder: &Path, root: &Path, extension: &str) -> PathBuf {
    let hash = blake3::hash(root.as_os_str().as_bytes()).to_hex();
    folder.join(format!("kernels-{}.{extension}", hash.get(..16).unwrap_or_default()))
}

/// The index of a root.
fn index_file(folder: &Path, root: &Path) -> PathBuf {
    file_of(folder, root, "index")
}

/// Reads the index of a root. `None` when there is none.
///
/// # Errors
/// When there is one that cannot be taken.
pub(crate) fn load(folder: &Path, root: &Path, trust: Trust) -> Result<Option<Block>, Damage> {
    match file::trusted(&index_file(folder, root), trust) {
        Ok(bytes) => Block::parse(bytes, root).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Damage::new("file", "one that can be read", error)),
    }
}

/// Writes the index of a root: whole, or not at all.
///
/// # Errors
/// What the system says.
pub(crate) fn save(folder: &Path, root: &Path, block: &Block) -> io::Result<()> {
    keep(folder, &index_file(folder, root), block.bytes())
}

/// Writes a file into the folder of indexes, if no part of the folder's path is another user's.
///
/// # Errors
/// Whose a part is, or what the system says.
pub(super) fn keep(folder: &Path, file: &Path, bytes: &[u8]) -> io::Result<()> {
    // The process belongs to its user. Source: `proc(5)`.
    let user = fs::metadata("/proc/self")?.uid();
    match trust::refusal_to_write(user, folder) {
        Some(reason) => Err(io::Error::new(io::ErrorKind::PermissionDenied, reason)),
        None => file::replace(file, bytes, Readers::User),
    }
}
