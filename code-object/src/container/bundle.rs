//! The table of an offload bundle.
//!
//! Source: clang's "Offload Bundler" page, "Bundled Binary File Layout": the magic, the number of entries, and for each
//! its offset, its size, the length of its ID, and the ID.

use super::{Entry, Kind};
use crate::error::{Result, Unreadable};
use crate::source::{self, Source};

pub(super) const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
const WHAT: &str = "table of an offload bundle";
/// There are some fifty targets.
const MAX_ENTRIES: u64 = 4096;
/// The longest real one has some sixty bytes.
const MAX_ID: u64 = 1024;
/// Bytes that are read at first; most tables fit.
const FIRST: u64 = 4096;

/// What was found at a place.
pub(super) struct BundleTable {
    pub(super) entries: Vec<Entry>,
    /// How long it is; `None` when that is not known.
    pub(super) length: Option<u64>,
}

/// A row of the table: offset from the bundle's beginning, size, ID.
pub(super) struct Row {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) id: String,
}

/// The table at the beginning of some bytes, and its length. `more` gives that many bytes of the bundle, or all.
///
/// # Errors
/// When it is damaged, or ends before it is complete.
pub(super) fn table(at: u64, more: &mut dyn FnMut(u64) -> Result<Vec<u8>>) -> Result<(Vec<Row>, u64)> {
    let mut wanted = FIRST;
    loop {
        let bytes = more(wanted)?;
        match rows(at, &bytes) {
            // It may be complete with more bytes, if there are any.
            Err(Unreadable::Short { .. }) if bytes.len() as u64 >= wanted => wanted = wanted.saturating_mul(8),
            result => return result,
        }
    }
}

fn rows(at: u64, bytes: &[u8]) -> Result<(Vec<Row>, u64)> {
    let mut pos = 0_usize;
    let mut take = |length: u64| {
        let here = at + pos as u64;
        let end = usize::try_from(length).ok().and_then(|length| pos.checked_add(length));
        let Some((part, end)) = end.and_then(|end| Some((bytes.get(pos..end)?, end))) else {
            let found = (bytes.len() - pos) as u64;
            return Err(Unreadable::Short { what: WHAT, at: here, expected: length, found });
        };
        pos = end;
        Ok((part, here))
    };
    let number = |part: &[u8]| part.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
    let (magic, here) = take(MAGIC.len() as u64)?;
    if magic != MAGIC {
        return Err(Unreadable::unexpected(
            WHAT,
            here,
            "__CLANG_OFFLOAD_BUNDLE__",
            format!("\"{}\"", magic.escape_ascii()),
        ));
    }
    let limited = |(part, at): (&[u8], u64), limit| match number(part) {
        found if found > limit => Err(Unreadable::TooLarge { what: WHAT, at, limit, found }),
        found => Ok(found),
    };
    let count = limited(take(8)?, MAX_ENTRIES)?;
    let mut rows = Vec::new();
    for _ in 0..count {
        let [offset, size] = [number(take(8)?.0), number(take(8)?.0)];
        let length = limited(take(8)?, MAX_ID)?;
        let id = String::from_utf8_lossy(take(length)?.0).into_owned();
        rows.push(Row { offset, size, id });
    }
    Ok((rows, pos as u64))
}

/// The entries of the bundle at a place of the source.
pub(super) fn entries(source: &dyn Source, at: u64, end: u64) -> BundleTable {
    let there = end.saturating_sub(at);
    let mut more = |wanted: u64| source::read(source, WHAT, at, wanted.min(there));
    let (rows, mut length) = match table(at, &mut more) {
        Ok(table) => table,
        Err(problem) => {
            return BundleTable { entries: vec![Entry::broken(Kind::Bundle, at, 0, problem)], length: None };
        }
    };
    let mut entries = Vec::new();
    let mut known = true;
    for row in rows {
        let mut entry = Entry::of(Kind::Bundle, at, 0).named(row.id);
        (entry.offset, entry.length) = (at.saturating_add(row.offset), row.size);
        match row.offset.checked_add(row.size).filter(|&end| end <= there) {
            Some(end) => length = length.max(end),
            None => {
                let found = there.saturating_sub(row.offset);
                let (what, at) = ("entry of an offload bundle", entry.offset);
                entry.problem = Some(Unreadable::Short { what, at, expected: row.size, found });
                known = false;
            }
        }
        entries.push(entry);
    }
    for entry in &mut entries {
        entry.container_length = length;
    }
    BundleTable { entries, length: known.then_some(length) }
}
