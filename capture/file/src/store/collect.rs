//! Removes chunks that no capture needs.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::time::Duration;

use super::{PART, Store, opened};
use crate::error::CaptureError;
use crate::id::Id;

/// What a store had, and what was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Chunks that a capture needs, and their bytes.
    pub needed: (u64, u64),
    /// Chunks that none needs, younger than the limit: a capture that is being written may.
    pub young: (u64, u64),
    /// Chunks that none needs: they were removed, or would be.
    pub removed: (u64, u64),
    /// Files of killed writers: they were removed, or would be.
    pub parts: (u64, u64),
    /// Chunks that a capture needs and the store does not have.
    pub missing: u64,
}

impl Store {
    /// Removes what is older than a limit and is not needed: chunks, and files of killed writers. Files with other names stay.
    /// Without `removes`, only says what that would be.
    ///
    /// A writer that finds a chunk gives it the present time. A chunk is renamed before it is removed, and its time is asked for
    /// then: the writer has either been in time, or does not find the chunk and writes it again.
    ///
    /// # Errors
    /// When a folder cannot be read, or a file not be removed.
    pub fn collect(&self, needed: &HashSet<Id>, limit: Duration, removes: bool) -> Result<Collected, CaptureError> {
        let mut all = Collected::default();
        let failed = |path: &Path, source| CaptureError::File { path: path.to_owned(), source };
        for folder in entries(self.folder()).map_err(|error| failed(self.folder(), error))? {
            let path = folder.path();
            if is_part(&folder.file_name()) {
                remove(&folder, limit, removes, &mut all.parts).map_err(|error| failed(&path, error))?;
            }
            if !is_folder_of_chunks(&folder) {
                continue;
            }
            for entry in entries(&path).map_err(|error| failed(&path, error))? {
                let name = entry.file_name();
                let outcome = if is_part(&name) {
                    remove(&entry, limit, removes, &mut all.parts).map(|_| ())
                } else if let Some(id) = id_of(&name) {
                    self.chunk(&entry, needed.contains(&id), (limit, removes), &mut all)
                } else {
                    Ok(())
                };
                outcome.map_err(|error| failed(&entry.path(), error))?;
            }
        }
        all.missing = (needed.len() as u64).saturating_sub(all.needed.0);
        Ok(all)
    }

    fn chunk(
        &self,
        entry: &DirEntry,
        is_needed: bool,
        (limit, removes): (Duration, bool),
        all: &mut Collected,
    ) -> io::Result<()> {
        let bytes = entry.metadata()?.len();
        let count = |to: &mut (u64, u64)| *to = (to.0 + 1, to.1 + bytes);
        if is_needed {
            count(&mut all.needed);
        } else if age(&entry.path())? < limit {
            count(&mut all.young);
        } else if removes {
            let (path, part) = (entry.path(), self.part(entry.path().parent().unwrap_or(self.folder())));
            fs::rename(&path, &part)?;
            if age(&part)? < limit {
                fs::rename(&part, &path)?;
                count(&mut all.young);
            } else {
                fs::remove_file(&part)?;
                count(&mut all.removed);
            }
        } else {
            count(&mut all.removed);
        }
        Ok(())
    }
}

/// Removes a file that is older than a limit.
fn remove(entry: &DirEntry, limit: Duration, removes: bool, count: &mut (u64, u64)) -> io::Result<()> {
    match age(&entry.path()) {
        Ok(age) if age >= limit => {
            *count = (count.0 + 1, count.1 + entry.metadata().map_or(0, |file| file.len()));
            if removes { fs::remove_file(entry.path()) } else { Ok(()) }
        }
        Ok(_) => Ok(()),
        // Its writer has renamed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// How old a file is, as its server says: it is opened, so that no older answer is taken.
fn age(path: &Path) -> io::Result<Duration> {
    Ok(opened(path)?.metadata()?.modified()?.elapsed().unwrap_or_default())
}

fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    fs::read_dir(folder)?.collect()
}

fn is_part(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with('.') && name.ends_with(PART))
}

fn is_folder_of_chunks(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    name.len() == 2 && is_hex(&name) && entry.file_type().is_ok_and(|kind| kind.is_dir())
}

fn is_hex(name: &OsStr) -> bool {
    name.as_encoded_bytes().iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The id that a name is.
fn id_of(name: &OsStr) -> Option<Id> {
    let digits = name.to_str().filter(|name| name.len() == 64 && is_hex(OsStr::new(name)))?;
    let mut id = Id::default();
    for (at, byte) in id.0.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_an_id_or_is_left_alone() {
        let id = Id::of(b"abc");
        assert_eq!(id_of(OsStr::new(&id.to_string())), Some(id));
        for other in ["", "ab", ".0-1.part", "README", &id.to_string().to_uppercase(), &format!("{id}0")] {
            assert_eq!(id_of(OsStr::new(other)), None, "{other}");
        }
    }
}
