//! Extracts code objects from their containers into a folder.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::cache::Cache;
use crate::candidate::Candidate;
use crate::error::Unavailable;
use crate::file::{self, Opened, Readers};
use crate::hash::Hash;

/// A code object in the folder that it was added to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Added {
    /// Its file: the first digits of its hash, and `.hsaco`.
    pub path: PathBuf,
    /// Of its bytes.
    pub hash: Hash,
    /// True when the folder had it already.
    pub was_there: bool,
    /// Those of its kernels that were asked for.
    pub kernels: Vec<Candidate>,
}

/// Puts the code objects of kernels into a folder, each once and in a file of its own, named by its contents. A file
/// appears there whole or not at all.
///
/// # Errors
/// When a code object cannot be read, or its file not written.
pub fn add(folder: &Path, cache: &Cache, kernels: Vec<Candidate>) -> Result<Vec<Added>, Unavailable> {
    let mut added: Vec<Added> = Vec::new();
    for kernel in kernels {
        let hash = cache.hash(&kernel)?;
        match added.iter_mut().find(|known| known.hash == hash) {
            Some(known) => known.kernels.push(kernel),
            None => {
                let bytes = cache.read(&kernel)?;
                let path = folder.join(format!("{}.hsaco", hash.short()));
                let failed = |source| Unavailable::File { path: path.clone(), source };
                let was_there = has(&path, &hash).map_err(failed)?;
                if !was_there {
                    file::replace(&path, &bytes, Readers::Everybody).map_err(failed)?;
                }
                added.push(Added { path, hash, was_there, kernels: vec![kernel] });
            }
        }
    }
    Ok(added)
}

/// True when a file has these contents, false when it is not there.
fn has(path: &Path, hash: &Hash) -> io::Result<bool> {
    match Opened::open(path) {
        Ok(_) if Hash::of(&fs::read(path)?) == *hash => Ok(true),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "expected the contents of its name, found others")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
