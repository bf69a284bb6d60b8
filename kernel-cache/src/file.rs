//! Files as sources of code objects, and the state by which a change of a file is seen.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use amdgpu_code_object::Source;

use crate::candidate::Stamp;
use crate::trust::Trust;

/// Clocks of file systems are coarse: two seconds where they are coarsest (FAT). A file that was changed so little time
/// ago can be changed again and look the same.
const COARSE: Duration = Duration::from_secs(2);

impl Stamp {
    /// The state of a file.
    pub(crate) fn of(data: &Metadata) -> Stamp {
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Stamp {
            modified: ns(data.mtime(), data.mtime_nsec()),
            changed: ns(data.ctime(), data.ctime_nsec()),
            size: data.size(),
            inode: data.ino(),
        }
    }

    /// True when every later change will show.
    pub(crate) fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let before = now.saturating_sub(COARSE).as_nanos();
        i128::from(self.modified) < i128::try_from(before).unwrap_or(0)
    }
}

/// An open file, and how many bytes of it were read.
pub(crate) struct Opened {
    file: File,
    pub(crate) stamp: Stamp,
    pub(crate) read: AtomicU64,
}

impl Opened {
    /// Opens a file without blocking: opening a pipe may wait for ever.
    ///
    /// # Errors
    /// What the system says, or that it is no file.
    pub(crate) fn open(path: &Path) -> io::Result<Opened> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let data = file.metadata()?;
        if !data.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "expected a file, found something else"));
        }
        Ok(Opened { file, stamp: Stamp::of(&data), read: AtomicU64::new(0) })
    }

    /// Whose it is, and who may write it.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// The present state.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn stamp_now(&self) -> io::Result<Stamp> {
        Ok(Stamp::of(&self.metadata()?))
    }
}

impl Source for Opened {
    fn len(&self) -> u64 {
        self.stamp.size
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        self.file.read_exact_at(buffer, at)
    }
}

/// Who may read what is written. No other user may write it, whatever the umask: it would not be used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Readers {
    /// This user alone.
    User,
    /// Everybody, as far as the umask allows it.
    Everybody,
}

/// The beginning of a file.
///
/// # Errors
/// What the system says, or that it is no file.
pub(crate) fn beginning(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Opened::open(path)?.file.take(most).read_to_end(&mut bytes).map(|_| bytes)
}

/// A new file, in the place of one that a process with this number has left. A link in its place is removed,
/// not followed.
fn fresh(path: &Path, mode: u32) -> io::Result<File> {
    let create = || OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    match create() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => fs::remove_file(path).and_then(|()| create()),
        result => result,
    }
}

/// The contents of a file that only this user may have written.
///
/// # Errors
/// What the system says, or why it is not trusted.
pub(crate) fn trusted(path: &Path, trust: Trust) -> io::Result<Vec<u8>> {
    let mut file = Opened::open(path)?;
    match trust.refusal(&file.metadata()?, path) {
        Some(reason) => Err(io::Error::new(io::ErrorKind::PermissionDenied, reason)),
        None => {
            let mut bytes = Vec::new();
            file.file.read_to_end(&mut bytes).map(|_| bytes)
        }
    }
}

/// Writes a file, and its folder if that is not there: whole, or not at all.
///
/// # Errors
/// What the system says.
pub(crate) fn replace(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let (of_folder, mode) = match readers {
        Readers::User => (0o700, 0o600),
        Readers::Everybody => (0o755, 0o644),
    };
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(of_folder).create(folder)?;
    }
    // Of this process alone: others may write at the same time, and the last to rename wins.
    let unfinished = path.with_extension(format!("{}.unfinished", std::process::id()));
    let written = fresh(&unfinished, mode)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&unfinished, path));
    if written.is_err() {
        // Not there if it could not be made.
        let _ = fs::remove_file(&unfinished);
    }
    written
}
