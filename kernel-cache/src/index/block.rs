//! A block of the index: a header, three tables of rows of fixed size, and a heap that they point into.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 8 | `ldkernel` |
//! | 8 | 8 | how it is to be read: the format, and the words that it has by number |
//! | 16 | 8 | bytes of all |
//! | 24 | 4, 4, 4, 4 | rows of files, of objects, of kernels; bytes of the root's path, which the heap begins with |
//! | 40 | 32 | checksum of everything before and behind it: BLAKE3 |
//!
//! Then the rows of files (sorted by path), of objects (by file) and of kernels (by the hash of their name). Numbers are
//! little-endian; what is in the heap is told by where it begins there and how many bytes it has.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use logdur_system::lock;

use super::record::{self, Shared, fingerprint};
use super::wire::Reader;
use super::{builder, name_hash};
use crate::candidate::{Candidate, Stamp};

pub(super) const MAGIC: [u8; 8] = *b"ldkernel";
pub(super) const HEADER: usize = 72;
pub(super) const CHECKSUM: Range<usize> = 40..72;
pub(super) const FILE_ROW: usize = 56;
pub(super) const OBJECT_ROW: usize = 12;
pub(super) const KERNEL_ROW: usize = 28;

/// Why bytes are not taken for an index.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: expected {expected}, found {found}")]
pub(crate) struct Damage {
    what: &'static str,
    expected: String,
    found: String,
}

impl Damage {
    pub(super) fn new(what: &'static str, expected: impl ToString, found: impl ToString) -> Damage {
        Damage { what, expected: expected.to_string(), found: found.to_string() }
    }
}

/// A piece of the index.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    files: Table,
    objects: Table,
    kernels: Table,
    heap: usize,
    /// False for files that have changed.
    live: Vec<bool>,
    /// The object whose kernel was asked for last: mostly it has the next one as well.
    last: Mutex<Option<(u32, Arc<Decoded>)>>,
}

/// A code object, with what its kernels share.
#[derive(Debug)]
struct Decoded {
    path: PathBuf,
    stamp: Stamp,
    shared: Shared,
}

#[derive(Clone, Copy, Debug)]
struct Table {
    start: usize,
    rows: usize,
}

/// A file of a block.
#[derive(Clone, Debug)]
pub(crate) struct FileRow<'a> {
    pub(crate) path: &'a Path,
    pub(crate) stamp: Stamp,
    /// False when it was read so soon after it was changed that another change could look the same.
    pub(crate) settled: bool,
    pub(crate) problems: Vec<String>,
    pub(super) objects: Range<usize>,
}

/// A kernel of a block: where its parts are.
#[derive(Clone, Copy)]
pub(super) struct KernelRow {
    pub(super) hash: u64,
    pub(super) name: (u32, u32),
    pub(super) shape: (u32, u32),
    pub(super) object: u32,
}

/// The checksum of an index.
pub(super) fn checksum(bytes: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(bytes.get(..CHECKSUM.start).unwrap_or_default());
    hasher.update(bytes.get(CHECKSUM.end..).unwrap_or_default());
    hasher.finalize()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Block {
    /// Takes the bytes of an index file.
    ///
    /// # Errors
    /// When they are no index of this root, or one of another version, or damaged.
    pub(crate) fn parse(bytes: Vec<u8>, root: &Path) -> Result<Block, Damage> {
        if bytes.len() < HEADER {
            return Err(Damage::new("header", format!("{HEADER} bytes"), bytes.len()));
        }
        let magic = bytes.get(..MAGIC.len()).unwrap_or_default();
        if magic != MAGIC {
            return Err(Damage::new("magic", MAGIC.escape_ascii(), magic.escape_ascii()));
        }
        let found = long(&bytes, 8).unwrap_or_default();
        if found != fingerprint() {
            return Err(Damage::new("format", format!("{:016x}", fingerprint()), format!("{found:016x}")));
        }
        let length = long(&bytes, 16).unwrap_or_default();
        if length != bytes.len() as u64 {
            return Err(Damage::new("length", length, bytes.len()));
        }
        let sum = checksum(&bytes);
        if bytes.get(CHECKSUM) != Some(sum.as_bytes()) {
            return Err(Damage::new("checksum", sum.to_hex(), "another"));
        }
        let block = Block::of(bytes)?;
        let path = block.heap(0, word(&block.bytes, 36).unwrap_or_default()).unwrap_or_default();
        if path != root.as_os_str().as_bytes() {
            return Err(Damage::new("root", root.display(), path.escape_ascii()));
        }
        Ok(block)
    }

    /// Finds the tables.
    pub(super) fn of(bytes: Vec<u8>) -> Result<Block, Damage> {
        let mut at = HEADER;
        let mut table = |field, size: usize| {
            let rows = word(&bytes, field).unwrap_or_default() as usize;
            let start = at;
            at = rows.checked_mul(size).and_then(|length| start.checked_add(length)).unwrap_or(usize::MAX);
            Table { start, rows }
        };
        let files = table(24, FILE_ROW);
        let objects = table(28, OBJECT_ROW);
        let kernels = table(32, KERNEL_ROW);
        if at > bytes.len() {
            return Err(Damage::new("tables", format!("at least {at} bytes"), bytes.len()));
        }
        let block =
            Block { files, objects, kernels, heap: at, live: vec![true; files.rows], bytes, last: Mutex::default() };
        // Files have their objects one behind the other, so that none is looked at twice.
        let mut next = 0;
        for n in 0..files.rows {
            let found = block.objects_of(n).unwrap_or_default();
            if found.start != next {
                return Err(Damage::new("first object of a file", next, found.start));
            }
            next = found.end;
        }
        Ok(block)
    }

    /// As it is written to a file.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many files it has, changed ones included.
    pub(crate) fn len(&self) -> usize {
        self.files.rows
    }

    pub(super) fn heap(&self, at: u32, length: u32) -> Option<&[u8]> {
        self.bytes.get(self.heap..)?.get(at as usize..)?.get(..length as usize)
    }

    /// Values in the heap from a place on.
    fn values(&self, at: u32) -> Option<Reader<'_>> {
        Some(Reader(self.bytes.get(self.heap..)?.get(at as usize..)?))
    }

    fn row(&self, table: Table, size: usize, n: usize) -> Option<&[u8]> {
        (n < table.rows).then(|| self.bytes.get(table.start + n * size..)?.get(..size))?
    }

    /// A file.
    pub(crate) fn file(&self, n: usize) -> Option<FileRow<'_>> {
        let row = self.row(self.files, FILE_ROW, n)?;
        Some(FileRow {
            path: Path::new(OsStr::from_bytes(self.path_bytes(n)?)),
            stamp: Stamp {
                modified: long(row, 8)? as i64,
                changed: long(row, 16)? as i64,
                size: long(row, 24)?,
                inode: long(row, 32)?,
            },
            settled: word(row, 40)? == 1,
            problems: self.values(word(row, 44)?)?.texts()?,
            objects: self.objects_of(n)?,
        })
    }

    /// The objects of a file; `None` when the table does not have them.
    fn objects_of(&self, n: usize) -> Option<Range<usize>> {
        let row = self.row(self.files, FILE_ROW, n)?;
        let first = word(row, 48)? as usize;
        Some(first..first.checked_add(word(row, 52)? as usize).filter(|&end| end <= self.objects.rows)?)
    }

    fn path_bytes(&self, n: usize) -> Option<&[u8]> {
        let row = self.row(self.files, FILE_ROW, n)?;
        self.heap(word(row, 0)?, word(row, 4)?)
    }

    /// The object's file, and its description.
    pub(super) fn object(&self, n: usize) -> Option<(usize, &[u8])> {
        let row = self.row(self.objects, OBJECT_ROW, n)?;
        Some((word(row, 0)? as usize, self.heap(word(row, 4)?, word(row, 8)?)?))
    }

    pub(super) fn kernel(&self, n: usize) -> Option<KernelRow> {
        let row = self.row(self.kernels, KERNEL_ROW, n)?;
        let (name, shape) = ((word(row, 8)?, word(row, 12)?), (word(row, 16)?, word(row, 20)?));
        Some(KernelRow { hash: long(row, 0)?, name, shape, object: word(row, 24)? })
    }

    pub(super) fn kernels(&self) -> impl Iterator<Item = KernelRow> {
        (0..self.kernels.rows).filter_map(|n| self.kernel(n))
    }

    pub(super) fn name(&self, row: KernelRow) -> Option<&str> {
        std::str::from_utf8(self.heap(row.name.0, row.name.1)?).ok()
    }

    /// A kernel's arguments and sizes as they are written.
    pub(super) fn shape(&self, row: KernelRow) -> Option<&[u8]> {
        self.heap(row.shape.0, row.shape.1)
    }

    /// The file of a kernel, if it is unchanged.
    fn file_of(&self, row: KernelRow) -> Option<usize> {
        let (file, _) = self.object(row.object as usize)?;
        self.is_live(file).then_some(file)
    }

    fn candidate(&self, row: KernelRow) -> Option<Candidate> {
        let file = self.file_of(row)?;
        let object = self.decoded(row.object, file)?;
        let Decoded { path, stamp, shared } = &*object;
        let interface = record::read_shape(&mut Reader(self.shape(row)?), self.name(row)?, shared.clone())?;
        Some(Candidate { path: path.clone(), stamp: *stamp, place: shared.place.clone(), interface })
    }

    /// An object of a file.
    fn decoded(&self, number: u32, file: usize) -> Option<Arc<Decoded>> {
        let mut last = lock(&self.last);
        if let Some((_, decoded)) = last.as_ref().filter(|(known, _)| *known == number) {
            return Some(decoded.clone());
        }
        let file = self.file(file)?;
        let (_, shared) = self.object(number as usize)?;
        let shared = Shared::read(&mut Reader(shared))?;
        let decoded = Arc::new(Decoded { path: file.path.to_path_buf(), stamp: file.stamp, shared });
        *last = Some((number, decoded.clone()));
        Some(decoded)
    }

    /// The kernels of a name in unchanged files.
    pub(crate) fn candidates_named(&self, name: &str) -> impl Iterator<Item = Candidate> {
        let hash = name_hash(name);
        let first = builder::partition(self.kernels.rows, |n| self.kernel(n).is_some_and(|row| row.hash < hash));
        let rows = (first..self.kernels.rows).map_while(move |n| self.kernel(n).filter(|row| row.hash == hash));
        rows.filter(move |row| self.name(*row) == Some(name)).filter_map(|row| self.candidate(row))
    }

    /// All kernels in unchanged files.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = Candidate> {
        self.kernels().filter_map(|row| self.candidate(row))
    }

    /// True for an unchanged file.
    pub(crate) fn is_live(&self, file: usize) -> bool {
        self.live.get(file).copied().unwrap_or(false)
    }

    /// Unchanged files.
    pub(crate) fn live(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(|&n| self.is_live(n))
    }

    /// The file of a path, and the files below it.
    pub(crate) fn below(&self, path: &Path) -> Vec<usize> {
        let mut folder = path.as_os_str().as_bytes().to_vec();
        let find = |bytes: &[u8]| builder::partition(self.len(), |n| self.path_bytes(n).is_some_and(|p| p < bytes));
        let exact = find(&folder);
        let mut found: Vec<usize> = (self.path_bytes(exact) == Some(&folder)).then_some(exact).into_iter().collect();
        folder.push(b'/');
        let inside = |n: &usize| self.path_bytes(*n).is_some_and(|p| p.starts_with(&folder));
        found.extend((find(&folder)..self.len()).take_while(inside));
        found.retain(|&n| self.is_live(n));
        found
    }

    /// The names of the kernels in some files.
    pub(crate) fn names_in(&self, files: &[usize]) -> Vec<String> {
        let inside = |row: &KernelRow| self.file_of(*row).is_some_and(|file| files.contains(&file));
        let rows = if files.is_empty() { Vec::new() } else { self.kernels().filter(inside).collect() };
        rows.into_iter().filter_map(|row| self.name(row).map(str::to_owned)).collect()
    }

    /// Marks files as changed, and returns their kernels.
    pub(crate) fn retire(&mut self, files: &[usize]) -> Vec<String> {
        let names = self.names_in(files);
        for &file in files {
            if let Some(live) = self.live.get_mut(file) {
                *live = false;
            }
        }
        names
    }

    /// Paths of all unchanged files, with their problems.
    pub(crate) fn problems(&self) -> impl Iterator<Item = (PathBuf, Vec<String>)> {
        self.live().filter_map(|n| self.file(n)).map(|f| (f.path.to_path_buf(), f.problems))
    }
}
