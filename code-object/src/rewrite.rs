//! A code object with other bytes at some addresses, and without some of the relocations that loaders do.
//!
//! Source: the ELF specification.

use std::collections::BTreeSet;

use crate::elf::Image;
use crate::error::{Result, Unreadable};

/// Bytes of a section's header, of a relocation, and of an entry of the dynamic section.
const SECTION_HEADER: usize = 64;
const RELA: usize = 24;
const DYNAMIC: usize = 16;
/// `sh_type` and `sh_flags` of relocations for loaders, `p_type` of the dynamic section.
const SHT_RELA: u64 = 4;
/// `sh_type` of bytes that mean nothing to loaders.
const SHT_PROGBITS: u32 = 1;
const SHF_ALLOC: u64 = 2;
const PT_DYNAMIC: u64 = 2;
/// `d_tag`s: bytes of the table of relocations, and how many of them are relative.
const DT_RELASZ: u64 = 8;
const DT_RELACOUNT: u64 = 0x6fff_fff9;

/// Puts bytes where an address is, and leaves out the relocations that store something at others. Those that the linker has done
/// and left are none any more: ROCr 5.2 refuses to load them. No byte of a rewritten code object is at another place.
///
/// # Errors
/// When an address has no bytes in the file, or the file is damaged.
pub fn rewrite(bytes: &[u8], words: &[(u64, Vec<u8>)], without: &BTreeSet<u64>) -> Result<Vec<u8>> {
    let image = Image::parse(bytes)?;
    let mut to = bytes.to_vec();
    for (address, word) in words {
        let missing = || Unreadable::unexpected("address", *address, "bytes of the file", "none");
        let at = image.file_offset(*address, word.len() as u64).ok_or_else(missing)?;
        put(&mut to, at, word);
    }
    drop_relocations(&mut to, without);
    Ok(to)
}

fn put(bytes: &mut [u8], at: u64, with: &[u8]) {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    let place = bytes.get_mut(at..).unwrap_or_default();
    place.iter_mut().zip(with).for_each(|(to, from)| *to = *from);
}

/// A number of some bytes; 0 where there are none.
fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    let field = bytes.get(at..at.saturating_add(size)).unwrap_or_default();
    field.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// Moves the relocations that stay to the beginning of their table, which becomes smaller.
fn drop_relocations(bytes: &mut [u8], without: &BTreeSet<u64>) {
    let (mut dropped, mut relative) = (0, 0);
    let (table, count) = (number(bytes, 40, 8) as usize, number(bytes, 60, 2) as usize);
    for header in (0..count).map(|n| table.saturating_add(n * SECTION_HEADER)) {
        let field = |at: usize| number(bytes, header.saturating_add(at), 8);
        if number(bytes, header.saturating_add(4), 4) != SHT_RELA {
            continue;
        }
        if field(8) & SHF_ALLOC == 0 {
            put(bytes, header as u64 + 4, &SHT_PROGBITS.to_le_bytes());
            continue;
        }
        let (start, size) = (field(24) as usize, field(32) as usize);
        let rows: Vec<Vec<u8>> = match bytes.get(start..start.saturating_add(size)) {
            Some(rows) => rows.chunks_exact(RELA).map(<[u8]>::to_vec).collect(),
            None => continue,
        };
        let (gone, kept): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| without.contains(&number(row, 0, 8)));
        dropped += (gone.len() * RELA) as u64;
        relative += gone.iter().filter(|row| number(row, 8, 4) == u64::from(crate::elf::RELATIVE64)).count() as u64;
        let mut table = kept.concat();
        put(bytes, header as u64 + 32, &(table.len() as u64).to_le_bytes());
        table.resize(size, 0);
        put(bytes, start as u64, &table);
    }
    let (segments, count) = (number(bytes, 32, 8) as usize, number(bytes, 56, 2) as usize);
    for header in (0..count).map(|n| segments.saturating_add(n * 56)) {
        if number(bytes, header, 4) != PT_DYNAMIC {
            continue;
        }
        let (start, size) = (number(bytes, header + 8, 8) as usize, number(bytes, header + 32, 8) as usize);
        let end = start.saturating_add(size).min(bytes.len());
        for at in (start..end).step_by(DYNAMIC) {
            let less = match number(bytes, at, 8) {
                DT_RELASZ => dropped,
                DT_RELACOUNT => relative,
                _ => continue,
            };
            let value = number(bytes, at + 8, 8).saturating_sub(less);
            put(bytes, at as u64 + 8, &value.to_le_bytes());
        }
    }
}
