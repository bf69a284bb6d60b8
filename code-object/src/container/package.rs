//! The offload packages of LLVM's linker wrapper: one image each, with its target in a table of strings.
//!
//! Source: clang's "Offload Packager" page and "Binary Format" there: header (magic, version 1, size, offset and size of
//! the entry), entry (kinds of image and of offloading, flags, strings, image), strings (offsets of key and value).

use super::bundle::BundleTable;
use super::{ELF, Entry, Kind};
use crate::error::{Result, Unreadable};
use crate::source::{self, Source};

pub(super) const MAGIC: &[u8] = b"\x10\xff\x10\xad";
const WHAT: &str = "offload package";
const VERSION: u64 = 1;
const HEADER: u64 = 32;
const ENTRY: u64 = 40;
/// Two are usual: triple and architecture.
const MAX_STRINGS: u64 = 64;
/// The longest real one has some sixty bytes.
const MAX_STRING: u64 = 1024;

/// What offloading an image is for, by its number.
fn offloading(kind: u64) -> &'static str {
    match kind {
        1 => "openmp",
        2 => "cuda",
        3 => "hip",
        _ => "offload",
    }
}

/// The package at a place of the source.
pub(super) fn entries(source: &dyn Source, at: u64, end: u64) -> BundleTable {
    match entry(source, at, end) {
        Ok(entry) => BundleTable { length: Some(entry.container_length), entries: vec![entry] },
        Err(problem) => BundleTable { entries: vec![Entry::broken(Kind::Package, at, 0, problem)], length: None },
    }
}

fn entry(source: &dyn Source, at: u64, end: u64) -> Result<Entry> {
    let there = end.saturating_sub(at);
    let read = |offset: u64, length: u64| {
        let found = there.saturating_sub(offset);
        if length > found {
            let at = at.saturating_add(offset);
            return Err(Unreadable::Short { what: WHAT, at, expected: length, found });
        }
        source::read(source, WHAT, at + offset, length)
    };
    let header = read(0, HEADER)?;
    let version = number(&header, 4, 4);
    if version != VERSION {
        return Err(Unreadable::unexpected(WHAT, at + 4, "version 1", version.to_string()));
    }
    let size = number(&header, 8, 8);
    if size > there || size < HEADER {
        return Err(Unreadable::Short { what: WHAT, at, expected: size.max(HEADER), found: there });
    }
    let row = read(number(&header, 16, 8), ENTRY)?;
    let (image, kind, strings) = (number(&row, 0, 2), number(&row, 2, 2), number(&row, 8, 8));
    let count = number(&row, 16, 8);
    if count > MAX_STRINGS {
        return Err(Unreadable::TooLarge { what: WHAT, at, limit: MAX_STRINGS, found: count });
    }
    let text = |offset: u64| -> Result<String> {
        // A string has a zero at least.
        let bytes = read(offset, size.saturating_sub(offset).clamp(1, MAX_STRING))?;
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
        Ok(String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned())
    };
    let (mut triple, mut architecture) = (String::new(), String::new());
    for index in 0..count {
        let pair = read(strings.saturating_add(16 * index), 16)?;
        let value = text(number(&pair, 8, 8))?;
        match &*text(number(&pair, 0, 8))? {
            "triple" => triple = value,
            "arch" => architecture = value,
            _ => {}
        }
    }
    let (offset, length) = (number(&row, 24, 8), number(&row, 32, 8));
    let is_code = read(offset, ELF.len() as u64).is_ok_and(|start| start == ELF);
    // What is no ELF, like bitcode, has no target, so that it is not taken for code.
    let target = if is_code { architecture } else { format!("image-kind-{image}") };
    let id = format!("{}-{triple}--{target}", offloading(kind));
    let problem = offset.checked_add(length).is_none_or(|end| end > size).then(|| Unreadable::Short {
        what: "image of an offload package",
        at: at.saturating_add(offset),
        expected: length,
        found: size.saturating_sub(offset),
    });
    let mut entry = Entry { problem, ..Entry::of(Kind::Package, at, size).named(id) };
    (entry.offset, entry.length) = (at.saturating_add(offset), length);
    Ok(entry)
}

/// The number at an offset; what is not there is 0.
fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let part = bytes.get(at..at + length).unwrap_or_default();
    part.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte))
}
