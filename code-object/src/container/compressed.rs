//! Compressed offload bundles.
//!
//! Source: clang's "Offload Bundler" page, "Compressed Bundle", with three versions of the header: the magic, version and
//! method in 16 bits each, the size of the file from version 2 on, the size of what it holds, and a hash.

use std::io::Read as _;
use std::ops::Range;

use super::bundle::{self, BundleTable};
use super::stream::{Method, Unpacked};
use super::{Entry, Kind};
use crate::error::{Result, Unreadable};
use crate::source::{self, Source};

pub(super) const MAGIC: &[u8] = b"CCOB";
const WHAT: &str = "header of a compressed bundle";
/// The most that compressed bytes may hold for each of theirs, but for a first mebibyte: deflate makes 1032 at most, and
/// real bundles of forty alike processors some hundred.
const MAX_RATIO: u64 = 2048;
const SLACK: u64 = 1 << 20;

/// What is decompressed at most, unless so many packed bytes are worth more work: a decompression bomb costs the process
/// that looks at it as much time as its contents, not as its size.
const MAX_UNPACKED: u64 = 256 << 20;
/// The ratio up to which contents may be larger than that.
const WORTHWHILE_RATIO: u64 = 64;

/// Refuses a size that so many packed bytes cannot have, or that is not worth decompressing.
fn is_believed(what: &'static str, at: u64, packed: u64, unpacked: u64) -> Result<()> {
    let possible = packed.saturating_mul(MAX_RATIO).saturating_add(SLACK);
    let limit = possible.min(packed.saturating_mul(WORTHWHILE_RATIO).max(MAX_UNPACKED));
    if unpacked > limit { Err(Unreadable::TooLarge { what, at, limit, found: unpacked }) } else { Ok(()) }
}

/// Decompresses a part of a source that holds so many bytes.
///
/// # Errors
/// When it cannot be decompressed, holds another number of bytes, or claims what it cannot hold.
pub(crate) fn unpacked(source: &dyn Source, method: Method, part: Range<u64>, size: u64) -> Result<Vec<u8>> {
    let (what, at) = ("compressed section", part.start);
    is_believed(what, at, part.end.saturating_sub(part.start), size)?;
    let mut bytes = Vec::new();
    let mut stream = Unpacked::open(source, method, part.start, part.end, size)?;
    let read = stream.by_ref().take(size).read_to_end(&mut bytes);
    read.map_err(|e| Unreadable::unexpected(what, at, "data that can be decompressed", e.to_string()))?;
    let found = bytes.len() as u64;
    if found == size { Ok(bytes) } else { Err(Unreadable::Short { what, at, expected: size, found }) }
}

/// The header of a compressed bundle.
pub(super) struct Header {
    at: u64,
    /// Bytes of the header itself.
    size: u64,
    /// Bytes of all, the header's too.
    length: u64,
    /// Bytes of what it holds.
    unpacked: u64,
    method: Method,
}

impl Header {
    /// Reads the header at a place. `there` is how many bytes there are at most; version 1 does not say it.
    ///
    /// # Errors
    /// When it is damaged, or claims what it cannot hold.
    pub(super) fn read(source: &dyn Source, at: u64, there: u64) -> Result<Header> {
        let number = |offset: u64, size: u64| {
            if offset + size > there {
                return Err(Unreadable::Short { what: WHAT, at, expected: offset + size, found: there });
            }
            let bytes = source::read(source, WHAT, at.saturating_add(offset), size)?;
            Ok(bytes.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte)))
        };
        let (version, method) = (number(4, 2)?, number(6, 2)?);
        let (size, length, unpacked) = match version {
            1 => (20, there, number(8, 4)?),
            2 => (24, number(8, 4)?, number(12, 4)?),
            3 => (32, number(8, 8)?, number(16, 8)?),
            other => return Err(Unreadable::unexpected(WHAT, at + 4, "version 1, 2 or 3", other.to_string())),
        };
        let method = match method {
            0 => Method::Zlib,
            1 => Method::Zstd,
            other => return Err(Unreadable::unexpected(WHAT, at + 6, "method 0, zlib, or 1, zstd", other.to_string())),
        };
        if length > there {
            return Err(Unreadable::Short { what: "compressed bundle", at, expected: length, found: there });
        }
        let Some(packed) = length.checked_sub(size) else {
            return Err(Unreadable::Short { what: "compressed bundle", at, expected: size, found: length });
        };
        is_believed("contents of a compressed bundle", at, packed, unpacked)?;
        Ok(Header { at, size, length, unpacked, method })
    }

    /// What it holds, as a stream.
    ///
    /// # Errors
    /// When the beginning is damaged.
    pub(super) fn open<'a>(&self, source: &'a dyn Source) -> Result<Unpacked<'a>> {
        let (start, end) = (self.at.saturating_add(self.size), self.at.saturating_add(self.length));
        Unpacked::open(source, self.method, start, end, self.unpacked)
    }

    /// The first bytes of what it holds, at least so many, or all.
    fn first(&self, source: &dyn Source, wanted: u64) -> Result<Vec<u8>> {
        let (start, end) = (self.at.saturating_add(self.size), self.at.saturating_add(self.length));
        let mut stream = Unpacked::open_first(source, self.method, start, end, wanted.min(self.unpacked))?;
        let mut bytes = Vec::new();
        stream.by_ref().take(wanted.min(self.unpacked)).read_to_end(&mut bytes).map_err(|e| {
            Unreadable::unexpected("compressed bundle", self.at, "data that can be decompressed", e.to_string())
        })?;
        Ok(bytes)
    }
}

/// The entries of the compressed bundle at a place of the source.
pub(super) fn entries(source: &dyn Source, at: u64, end: u64) -> BundleTable {
    let kind = Kind::CompressedBundle;
    let there = end.saturating_sub(at);
    let broken =
        |length, problem| BundleTable { entries: vec![Entry::broken(kind, at, length, problem)], length: None };
    let mut header = match Header::read(source, at, there) {
        Ok(header) => header,
        Err(problem) => return broken(0, problem),
    };
    // Version 1 does not say how long it is.
    if header.size == 20 {
        match super::next_bundle(source, at, end) {
            Ok(next) => header.length = next.unwrap_or(end) - at,
            Err(problem) => return broken(0, problem),
        }
    }
    let length = Some(header.length);
    let (rows, _) = match bundle::table(0, &mut |wanted| header.first(source, wanted)) {
        Ok(table) => table,
        Err(problem) => return BundleTable { length, ..broken(header.length, problem) },
    };
    let entry = |row: bundle::Row| {
        let mut entry = Entry::of(kind, at, header.length).named(row.id);
        (entry.offset, entry.length) = (row.offset, row.size);
        if row.offset.checked_add(row.size).is_none_or(|end| end > header.unpacked) {
            let (what, found) = ("entry of a compressed bundle", header.unpacked.saturating_sub(row.offset));
            entry.problem = Some(Unreadable::Short { what, at: row.offset, expected: row.size, found });
        }
        entry
    };
    BundleTable { entries: rows.into_iter().map(entry).collect(), length }
}
