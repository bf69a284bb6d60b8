//! The capture's file. The application may close any descriptor, and open another file under its number: each write checks for that.

use std::io;
use std::path::{Path, PathBuf};

use logdur_capture::{FileStorage, Storage, size_limit};

use crate::guarded::Guarded;

/// A new file. Before each write, its descriptor is checked to still refer to it.
#[derive(Debug)]
pub(super) struct GuardedStorage {
    path: PathBuf,
    file: Guarded,
    length: u64,
}

impl GuardedStorage {
    /// Creates a file with the permissions `mode`.
    ///
    /// # Errors
    /// When the file exists ([`io::ErrorKind::AlreadyExists`]), or cannot be created.
    pub(super) fn create_new(path: &Path, mode: u32) -> io::Result<GuardedStorage> {
        let file = Guarded::of(FileStorage::create_new(path, mode)?.file())?;
        // The application may change its working directory.
        Ok(GuardedStorage { path: std::path::absolute(path)?, file, length: 0 })
    }

    fn file(&mut self) -> io::Result<&Guarded> {
        self.file.reopen(&self.path)?;
        if self.file.is_deleted() {
            return Err(io::Error::other("the file was deleted while it was written"));
        }
        Ok(&self.file)
    }
}

impl Storage for GuardedStorage {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let after = self.length.saturating_add(bytes.len() as u64);
        size_limit(after)?;
        self.file()?.write_all(bytes)?;
        self.length = after;
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        self.file()?.truncate(length)?;
        self.length = length;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file()?.sync()
    }
}
