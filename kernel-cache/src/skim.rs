//! Reads a code object without its instructions, which are most of its bytes and of no use to an index.

use amdgpu_code_object::{NO_MEMORY, Source, Unreadable, zeroed};

/// A code object that is no larger is read whole: that is faster than several reads.
const SMALL: u64 = 64 << 10;
/// A larger one is no code object that anybody has seen, and its memory might not be there.
const LARGEST: u64 = 1 << 30;
/// Pieces with so little between them are read as one.
const GAP: u64 = 4 << 10;

// Of the ELF specification: sizes of headers, `sh_type`, `sh_flags`, `p_type`.
const EHDR: usize = 64;
const SHDR: usize = 64;
const PHDR: usize = 56;
const SHT_NULL: u32 = 0;
const SHT_PROGBITS: u32 = 1;
const SHT_NOBITS: u32 = 8;
const SHF_ALLOC: u64 = 2;
const SHF_EXECINSTR: u64 = 4;
const PT_DYNAMIC: u32 = 2;
const PT_NOTE: u32 = 4;
/// Version 2 of the ABI has its kernels' headers among the instructions. Source: AMDGPUUsage, `EI_ABIVERSION`.
const ABI_VERSION_2: u8 = 0;

/// Reads the code object at a place of a source. Instructions and parts that are not loaded are zeros. An unexpected ELF is read whole, so
/// that its parser can report the problem.
///
/// # Errors
/// When the source cannot be read, or it is too large.
pub fn skim(source: &dyn Source, at: u64, length: u64) -> Result<Vec<u8>, Unreadable> {
    const WHAT: &str = "code object";
    let there = source.len().saturating_sub(at);
    if length > there {
        return Err(Unreadable::Short { what: WHAT, at, expected: length, found: there });
    }
    let size = usize::try_from(length).ok().filter(|_| length <= LARGEST);
    let size = size.ok_or(Unreadable::TooLarge { what: WHAT, at, limit: LARGEST, found: length })?;
    let no_memory = || Unreadable::Read { at, length, reason: NO_MEMORY.to_owned() };
    let mut bytes = zeroed(size).ok_or_else(no_memory)?;
    let pieces = if length <= SMALL { None } else { pieces(source, at, length) };
    let whole = (0, length);
    for &(start, end) in pieces.as_deref().unwrap_or(&[whole]) {
        let buffer = bytes.get_mut(start as usize..end as usize).unwrap_or_default();
        source.read_at(at + start, buffer).map_err(|e| Unreadable::Read {
            at: at + start,
            length: end - start,
            reason: e.to_string(),
        })?;
    }
    Ok(bytes)
}

/// What of a code object is worth reading. `None` when that cannot be told.
fn pieces(source: &dyn Source, at: u64, length: u64) -> Option<Vec<(u64, u64)>> {
    let mut header = [0; EHDR];
    source.read_at(at, &mut header).ok()?;
    let is_elf = header.starts_with(b"\x7fELF\x02\x01");
    if !is_elf || header.get(8) == Some(&ABI_VERSION_2) {
        return None;
    }
    let segments = table(source, at, length, long(&header, 32)?, half(&header, 54)?, half(&header, 56)?, PHDR)?;
    let sections = table(source, at, length, long(&header, 40)?, half(&header, 58)?, half(&header, 60)?, SHDR)?;
    if sections.rows == 0 {
        return None;
    }
    let mut pieces = vec![(0, EHDR as u64), segments.place, sections.place];
    for row in segments.bytes.chunks_exact(PHDR) {
        if matches!(word(row, 0)?, PT_DYNAMIC | PT_NOTE) {
            pieces.push(range(long(row, 8)?, long(row, 32)?, length)?);
        }
    }
    for row in sections.bytes.chunks_exact(SHDR) {
        let (kind, flags) = (word(row, 4)?, long(row, 8)?);
        let code = flags & SHF_EXECINSTR != 0;
        let not_loaded = kind == SHT_PROGBITS && flags & SHF_ALLOC == 0;
        if !code && !not_loaded && kind != SHT_NULL && kind != SHT_NOBITS {
            pieces.push(range(long(row, 24)?, long(row, 32)?, length)?);
        }
    }
    Some(merged(pieces))
}

/// Rows of a table of headers.
struct Table {
    bytes: Vec<u8>,
    rows: u16,
    place: (u64, u64),
}

fn table(
    source: &dyn Source,
    at: u64,
    length: u64,
    offset: u64,
    size: u16,
    rows: u16,
    expected: usize,
) -> Option<Table> {
    if rows == 0 {
        return Some(Table { bytes: Vec::new(), rows, place: (0, 0) });
    }
    let bytes = usize::from(rows) * expected;
    let place = range(offset, bytes as u64, length).filter(|_| usize::from(size) == expected)?;
    let mut table = vec![0; bytes];
    source.read_at(at + place.0, &mut table).ok()?;
    Some(Table { bytes: table, rows, place })
}

/// Where a piece begins and ends, if that is inside.
fn range(offset: u64, size: u64, length: u64) -> Option<(u64, u64)> {
    let end = offset.checked_add(size)?;
    (end <= length).then_some((offset, end))
}

fn merged(mut pieces: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    pieces.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in pieces.into_iter().filter(|(start, end)| start < end) {
        match merged.last_mut() {
            Some(last) if start <= last.1.saturating_add(GAP) => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
