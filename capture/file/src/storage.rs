//! Where a capture is written: to the end of a file.

use std::fmt::Display;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The name of a file beside a capture that is there: `NAME.NUMBER.EXTENSION`.
pub fn numbered(path: &Path, number: impl Display) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// The destination of a writer.
pub trait Storage {
    /// Appends all of the bytes.
    ///
    /// # Errors
    /// When not all of them were written; some may have been.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Truncates to the first `length` bytes.
    ///
    /// # Errors
    /// When that is not possible.
    fn truncate(&mut self, length: u64) -> io::Result<()>;

    /// Returns when everything is on the disk.
    ///
    /// # Errors
    /// When that is not known.
    fn sync(&mut self) -> io::Result<()>;
}

/// The mode of a file that its owner alone may read and write: captures hold memory of an application.
pub const PRIVATE: u32 = 0o600;

/// A file. What was appended is the operating system's: it outlives the process, however that ends.
#[derive(Debug)]
pub struct FileStorage {
    file: File,
    length: u64,
}

impl FileStorage {
    /// Creates a file that only its owner may read. An existing file is replaced, and keeps its mode.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(path: &Path) -> io::Result<FileStorage> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(PRIVATE).open(path)?;
        Ok(FileStorage { file, length: 0 })
    }

    /// A file that was opened for this, and is empty.
    pub fn of(file: File) -> FileStorage {
        FileStorage { file, length: 0 }
    }

    /// Makes a new file of a name that no file has, with the permissions of a `mode`, whatever the process's umask. Of several
    /// processes that try, one succeeds.
    ///
    /// # Errors
    /// When there is a file ([`io::ErrorKind::AlreadyExists`]), or none can be made.
    pub fn create_new(path: &Path, mode: u32) -> io::Result<FileStorage> {
        let file = OpenOptions::new().append(true).create_new(true).mode(mode & PRIVATE).open(path)?;
        if file.metadata()?.permissions().mode() & 0o777 != mode {
            file.set_permissions(Permissions::from_mode(mode)).inspect_err(|_| {
                // Nothing is in it yet. If it cannot be removed either, it is an empty file.
                let _ = std::fs::remove_file(path);
            })?;
        }
        Ok(FileStorage { file, length: 0 })
    }

    /// The open file. Each write appends to it if [`FileStorage::create_new`] made it.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Storage for FileStorage {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let after = self.length.saturating_add(bytes.len() as u64);
        size_limit(after)?;
        self.file.write_all(bytes)?;
        self.length = after;
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        use std::io::{Seek, SeekFrom};
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::Start(length))?;
        self.length = length;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Asks whether the process's files may have a length. Growing one further raises a signal, which kills by default
/// (setrlimit(2)): so it is asked before each write, not once, since the application may change it.
///
/// # Errors
/// When they may not, with the limit.
pub fn size_limit(length: u64) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is written during the call, to a struct of ours.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    if known && length > limit.rlim_cur {
        let text = format!("the process's limit of the size of files, {} bytes (RLIMIT_FSIZE)", limit.rlim_cur);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, text));
    }
    Ok(())
}

/// In memory.
impl Storage for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        Vec::truncate(self, length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_put_before_the_extension() {
        let name = |path: &str, number: &str| numbered(Path::new(path), number).display().to_string();
        assert_eq!(name("x/a.ldcap", "1"), "x/a.1.ldcap");
        assert_eq!(name("a", "%p"), "a.%p");
    }
}
