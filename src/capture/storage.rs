//! The capture's file, in a process whose application may close any descriptor, and open another file in its place.

use std::io;
use std::path::{Path, PathBuf};

use logdur_capture::{FileStorage, Storage, size_limit};
use logdur_journal::quiet::Quiet;

use crate::guarded::Guarded;

/// A new file, whose descriptor is compared with it before each write.
#[derive(Debug)]
pub(super) struct GuardedStorage {
    path: PathBuf,
    file: Guarded,
    length: u64,
}

impl GuardedStorage {
    /// Makes a file with the permissions of a mode.
    ///
    /// # Errors
    /// When there is a file ([`io::ErrorKind::AlreadyExists`]), or none can be made.
    pub(super) fn create_new(path: &Path, mode: u32) -> io::Result<GuardedStorage> {
        let file = Guarded::of(FileStorage::create_new(path, mode)?.file())?;
        // The application may go to another folder.
        Ok(GuardedStorage { path: std::path::absolute(path)?, file, length: 0 })
    }

    fn file(&mut self) -> io::Result<&Guarded> {
        self.file.reopen(&self.path)?;
        Ok(&self.file)
    }
}

impl Storage for GuardedStorage {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        // The limit may change between the look and the write.
        let _quiet = Quiet::new();
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
