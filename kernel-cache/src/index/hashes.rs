//! Hashes of code objects, kept beside the index of their root: the index itself is made without reading instructions.
//!
//! A file is `ldhashes`, the format (8 bytes), rows of 64 bytes, and a checksum (BLAKE3) of everything before it. A row is the
//! BLAKE3 of where the contents are and what their file was like, and the hash of the contents.

use std::collections::HashMap;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::path::PathBuf;

use amdgpu_code_object::container::CodeLocation;

use super::store;
use crate::candidate::Stamp;
use crate::file;
use crate::hash::Hash;
use crate::trust::Trust;

const MAGIC: [u8; 8] = *b"ldhashes";
const FORMAT: [u8; 8] = 1_u64.to_le_bytes();
const HEAD: usize = 16;
const ROW: usize = 64;
const CHECKSUM: usize = 32;

/// The key of a hash: the place of the contents, and the state of their file.
pub(crate) type Key = [u8; 32];

/// Hashes by their keys.
pub(crate) type Hashes = HashMap<Key, Hash>;

/// The key of some contents.
pub(crate) fn key(path: &Path, stamp: &Stamp, place: &CodeLocation) -> Key {
    let mut hasher = blake3::Hasher::new();
    let Stamp { modified, changed, size, inode } = *stamp;
    let CodeLocation { kind, in_host_elf, id, container_offset, container_length, offset, length } = place;
    for text in [path.as_os_str().as_bytes(), id.as_bytes()] {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text);
    }
    for number in [modified, changed] {
        hasher.update(&number.to_le_bytes());
    }
    for number in [size, inode, *container_offset, *container_length, *offset, *length] {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(&[*kind as u8, u8::from(*in_host_elf)]);
    *hasher.finalize().as_bytes()
}

fn hashes_file(folder: &Path, root: &Path) -> PathBuf {
    store::file_of(folder, root, "hashes")
}

/// Reads the hashes of a root. Without a file, or with one that is damaged or of another version, there are none: that
/// costs time only.
pub(crate) fn load(folder: &Path, root: &Path, trust: Trust) -> Hashes {
    file::trusted(&hashes_file(folder, root), trust).ok().and_then(|bytes| parse(&bytes)).unwrap_or_default()
}

fn parse(bytes: &[u8]) -> Option<Hashes> {
    let (body, checksum) = bytes.split_at_checked(bytes.len().checked_sub(CHECKSUM)?)?;
    let (head, rows) = body.split_at_checked(HEAD)?;
    let is_right = head.strip_prefix(&MAGIC) == Some(&FORMAT) && rows.len() % ROW == 0;
    if !is_right || blake3::hash(body).as_bytes() != checksum {
        return None;
    }
    let row = |row: &[u8]| Some((*row.first_chunk()?, Hash::from_bytes(*row.last_chunk()?)));
    rows.chunks_exact(ROW).map(row).collect()
}

/// Writes the hashes of a root: whole, or not at all.
///
/// # Errors
/// What the system says.
pub(crate) fn save(folder: &Path, root: &Path, hashes: &Hashes) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(HEAD + hashes.len() * ROW + CHECKSUM);
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&FORMAT);
    for (key, hash) in hashes {
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(hash.bytes());
    }
    let checksum = blake3::hash(&bytes);
    bytes.extend_from_slice(checksum.as_bytes());
    store::keep(folder, &hashes_file(folder, root), &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn hashes_are_read_back_and_damaged_files_have_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Path::new("/kernels");
        let hashes: Hashes = (0..3_u8).map(|n| ([n; 32], Hash::of(&[n]))).collect();
        save(folder.path(), root, &hashes).expect("it can be written");
        assert_eq!(load(folder.path(), root, Trust::Everybody), hashes);
        assert_eq!(load(folder.path(), Path::new("/others"), Trust::Everybody), Hashes::new());
        let file = hashes_file(folder.path(), root);
        let whole = fs::read(&file).expect("it was written");
        for at in [0, 9, HEAD + 5, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&file, bytes).expect("it can be written");
            assert_eq!(load(folder.path(), root, Trust::Everybody), Hashes::new(), "byte {at}");
        }
        for length in [0, 31, 47, whole.len() - 64] {
            fs::write(&file, &whole[..length]).expect("it can be written");
            assert_eq!(load(folder.path(), root, Trust::Everybody), Hashes::new(), "{length} bytes");
        }
    }
}
