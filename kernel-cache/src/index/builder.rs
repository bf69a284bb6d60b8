//! Makes a block: file by file, in the order of their paths.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::block::{Block, CHECKSUM, FILE_ROW, HEADER, KernelRow, MAGIC, checksum};
use super::record::{Shared, fingerprint, write_shape};
use super::wire::Writer;
use super::{first_word, name_hash};
use crate::candidate::Stamp;
use crate::interface::Interface;

/// More than a block can point at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("names and arguments of its kernels: expected at most 4 GiB, found more")]
pub(crate) struct TooLarge;

/// A block in the making.
pub(crate) struct Builder {
    files: Vec<u8>,
    objects: Vec<u8>,
    object_count: u32,
    kernels: Vec<KernelRow>,
    heap: Vec<u8>,
    root_length: u32,
    /// Positions of values in the heap, by hash.
    known: HashMap<u64, (u32, u32)>,
    too_large: bool,
}

/// The first of `count` for which a sorted property does not hold.
pub(super) fn partition(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

impl Builder {
    /// For files of a root.
    pub(crate) fn new(root: &Path) -> Builder {
        let mut builder = Builder {
            files: Vec::new(),
            objects: Vec::new(),
            object_count: 0,
            kernels: Vec::new(),
            heap: Vec::new(),
            root_length: 0,
            known: HashMap::new(),
            too_large: false,
        };
        builder.root_length = builder.put(root.as_os_str().as_bytes()).1;
        builder
    }

    /// Begins a file.
    pub(crate) fn file<'a>(&'a mut self, path: &'a Path, stamp: Stamp, settled: bool) -> FileBuilder<'a> {
        let first = self.object_count;
        FileBuilder { builder: self, path, stamp, settled, problems: Vec::new(), first }
    }

    fn number_of_files(&self) -> u32 {
        u32::try_from(self.files.len() / FILE_ROW).unwrap_or(u32::MAX)
    }

    fn put(&mut self, bytes: &[u8]) -> (u32, u32) {
        let (Ok(at), Ok(length)) = (u32::try_from(self.heap.len()), u32::try_from(bytes.len())) else {
            self.too_large = true;
            return (0, 0);
        };
        self.heap.extend_from_slice(bytes);
        (at, length)
    }

    /// Puts something that others may have as well.
    fn put_once(&mut self, bytes: &[u8], hash: u64) -> (u32, u32) {
        if let Some(&(at, length)) = self.known.get(&hash) {
            let there = self.heap.get(at as usize..).and_then(|heap| heap.get(..length as usize));
            if there == Some(bytes) {
                return (at, length);
            }
        }
        let place = self.put(bytes);
        self.known.insert(hash, place);
        place
    }

    fn put_shape(&mut self, bytes: &[u8]) -> (u32, u32) {
        self.put_once(bytes, first_word(&blake3::hash(bytes)))
    }

    fn object(&mut self, description: &[u8]) -> u32 {
        let (at, length) = self.put(description);
        let n = self.object_count;
        for word in [self.number_of_files(), at, length] {
            self.objects.extend_from_slice(&word.to_le_bytes());
        }
        self.object_count += 1;
        n
    }

    /// Adds unchanged files of another block. They must be in order with files that are added otherwise.
    pub(crate) fn carry(&mut self, carried: &Carried<'_>, n: usize) {
        let Some(file) = carried.block.file(n) else { return };
        let mut to = self.file(file.path, file.stamp, file.settled);
        to.problems.clone_from(&file.problems);
        for object in file.objects.clone() {
            to.carry_object(carried, object);
        }
        to.end();
    }

    /// The block.
    ///
    /// # Errors
    /// When there is more than it can point at.
    pub(crate) fn finish(mut self) -> Result<Block, TooLarge> {
        self.kernels.sort_unstable_by_key(|row| (row.hash, row.object));
        let count = u32::try_from(self.kernels.len()).map_err(|_| TooLarge)?;
        if self.too_large {
            return Err(TooLarge);
        }
        let mut bytes = Vec::with_capacity(HEADER + self.files.len() + self.objects.len() + self.heap.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&fingerprint().to_le_bytes());
        bytes.extend_from_slice(&[0; 8]);
        for word in [self.number_of_files(), self.object_count, count, self.root_length] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&[0; 32]);
        bytes.extend_from_slice(&self.files);
        bytes.extend_from_slice(&self.objects);
        for row in &self.kernels {
            bytes.extend_from_slice(&row.hash.to_le_bytes());
            for word in [row.name.0, row.name.1, row.shape.0, row.shape.1, row.object] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        bytes.extend_from_slice(&self.heap);
        seal(&mut bytes);
        Block::of(bytes).map_err(|_| TooLarge)
    }
}

/// Puts the length and the checksum into the header.
pub(super) fn seal(bytes: &mut [u8]) {
    let length = (bytes.len() as u64).to_le_bytes();
    replace(bytes, 16, &length);
    let sum = checksum(bytes);
    replace(bytes, CHECKSUM.start, sum.as_bytes());
}

fn replace(bytes: &mut [u8], at: usize, with: &[u8]) {
    let place = bytes.iter_mut().skip(at).zip(with);
    place.for_each(|(to, from)| *to = *from);
}

/// A file in the making.
pub(crate) struct FileBuilder<'a> {
    builder: &'a mut Builder,
    path: &'a Path,
    stamp: Stamp,
    /// False when another change could look the same.
    pub(crate) settled: bool,
    /// What could not be read in it.
    pub(crate) problems: Vec<String>,
    first: u32,
}

impl FileBuilder<'_> {
    /// Adds a code object and its kernels. One without kernels is nothing to find.
    pub(crate) fn object(&mut self, shared: &Shared, kernels: &[Interface]) {
        if kernels.is_empty() {
            return;
        }
        let mut description = Writer::default();
        shared.write(&mut description);
        let object = self.builder.object(&description.0);
        for kernel in kernels {
            let mut shape = Writer::default();
            write_shape(&mut shape, kernel);
            let hash = name_hash(&kernel.name);
            let name = self.builder.put_once(kernel.name.as_bytes(), hash);
            let shape = self.builder.put_shape(&shape.0);
            self.builder.kernels.push(KernelRow { hash, name, shape, object });
        }
    }

    fn carry_object(&mut self, carried: &Carried<'_>, n: usize) {
        let block = carried.block;
        let Some((_, description)) = block.object(n) else { return };
        let object = self.builder.object(description);
        for row in carried.kernels_of(n) {
            let (Some(name), Some(shape)) = (block.name(row), block.shape(row)) else { continue };
            let name = self.builder.put_once(name.as_bytes(), row.hash);
            let shape = self.builder.put_shape(shape);
            self.builder.kernels.push(KernelRow { hash: row.hash, name, shape, object });
        }
    }

    /// Ends the file.
    pub(crate) fn end(self) {
        let FileBuilder { builder, path, stamp, settled, problems, first } = self;
        let (path, path_length) = builder.put(path.as_os_str().as_bytes());
        let mut texts = Writer::default();
        texts.texts(&problems);
        let (problems, _) = builder.put_shape(&texts.0);
        let mut row = Vec::with_capacity(FILE_ROW);
        for word in [path, path_length] {
            row.extend_from_slice(&word.to_le_bytes());
        }
        for long in [stamp.modified as u64, stamp.changed as u64, stamp.size, stamp.inode] {
            row.extend_from_slice(&long.to_le_bytes());
        }
        for word in [u32::from(settled), problems, first, builder.object_count - first] {
            row.extend_from_slice(&word.to_le_bytes());
        }
        builder.files.extend_from_slice(&row);
    }
}

/// A block that files are taken from, with its kernels by object.
pub(crate) struct Carried<'a> {
    block: &'a Block,
    by_object: Vec<KernelRow>,
}

impl<'a> Carried<'a> {
    /// For a block of which files are taken.
    pub(crate) fn new(block: &'a Block) -> Carried<'a> {
        let mut by_object: Vec<KernelRow> = block.kernels().collect();
        by_object.sort_by_key(|row| row.object);
        Carried { block, by_object }
    }

    fn kernels_of(&self, object: usize) -> impl Iterator<Item = KernelRow> {
        let first = self.by_object.partition_point(|row| (row.object as usize) < object);
        self.by_object.iter().skip(first).take_while(move |row| row.object as usize == object).copied()
    }

    /// Its unchanged files, with their paths.
    pub(crate) fn live(&self) -> impl Iterator<Item = (usize, PathBuf)> {
        self.block.live().filter_map(|n| Some((n, self.block.file(n)?.path.to_path_buf())))
    }
}
