//! Where a program or library for the host has its bundles.
//!
//! Sources: the ELF specification; clang's HIP support for the section `.hip_fatbin`, and for `.hipFatBinSegment`, whose
//! records say where bundles are when the section has another name; clang's "Offloading Design" page for `.llvm.offloading`.

use std::collections::HashMap;
use std::ops::Range;

use object::LittleEndian;
use object::elf::{self, FileHeader64, ProgramHeader64, Rela64, SectionHeader64};
use object::pod::{self, Pod};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};

use crate::error::{Result, Unreadable};
use crate::source::{self, Source};

const BUNDLES: &[u8] = b".hip_fatbin";
/// Where LLVM's linker wrapper puts the images of a program that is linked.
const PACKAGES: &[u8] = b".llvm.offloading";
const RECORDS: &[u8] = b".hipFatBinSegment";
/// Bytes of a record: a magic, a version, the address of a bundle, and a word that is not used.
const RECORD: u64 = 24;
const RECORD_MAGIC: &[u8] = b"FPIH";
const E: LittleEndian = LittleEndian;

/// What an ELF is.
pub(super) enum ElfContents {
    /// Code for the GPU.
    CodeObject,
    /// Another: the ranges of the file that have bundles.
    Host(Vec<Range<u64>>),
}

/// Looks for bundles in an ELF.
///
/// # Errors
/// When it cannot be read or its headers are damaged.
pub(super) fn bundles(source: &dyn Source) -> Result<ElfContents> {
    let host = ElfContents::Host(Vec::new());
    let size = size_of::<FileHeader64<LittleEndian>>() as u64;
    if source.len() < size {
        return Ok(host);
    }
    let bytes = source::read(source, "ELF header", 0, size)?;
    let Ok((header, _)) = pod::from_bytes::<FileHeader64<LittleEndian>>(&bytes) else { return Ok(host) };
    // Other sizes and byte orders are no programs that load code objects.
    if !header.is_supported() || header.e_ident().data != elf::ELFDATA2LSB {
        return Ok(host);
    }
    if header.e_machine(E) == elf::EM_AMDGPU {
        return Ok(ElfContents::CodeObject);
    }
    let sections = sections(source, header)?;
    let mut ranges = named(source, header, &sections, BUNDLES)?;
    if ranges.is_empty() {
        let records = named(source, header, &sections, RECORDS)?;
        if !records.is_empty() {
            ranges = of_records(source, header, &sections, &records)?;
        }
    }
    ranges.extend(named(source, header, &sections, PACKAGES)?);
    Ok(ElfContents::Host(ranges))
}

/// The table of sections, of programs and of relocations are read whole, but no more of any than this.
const MAX_TABLE: u64 = 16 << 20;
/// A program has a dozen segments, and a record for each of its compilation units.
const MAX_SEGMENTS: u64 = 1024;
const MAX_RECORDS: u64 = 1 << 16;

/// Reads a table of structures.
fn table<T: Pod + Copy>(source: &dyn Source, what: &'static str, at: u64, count: u64) -> Result<Vec<T>> {
    let size = count.saturating_mul(size_of::<T>() as u64);
    if size > MAX_TABLE {
        return Err(Unreadable::TooLarge { what, at, limit: MAX_TABLE, found: size });
    }
    let bytes = source::read(source, what, at, size)?;
    Ok(pod::slice_from_all_bytes(&bytes).unwrap_or_default().to_vec())
}

fn sections(source: &dyn Source, header: &FileHeader64<LittleEndian>) -> Result<Vec<SectionHeader64<LittleEndian>>> {
    const WHAT: &str = "table of sections";
    let at = header.e_shoff(E);
    let size = size_of::<SectionHeader64<LittleEndian>>() as u16;
    match (at, header.e_shentsize(E), u64::from(header.e_shnum(E))) {
        (0, ..) => Ok(Vec::new()),
        (_, found, _) if found != size => {
            Err(Unreadable::unexpected(WHAT, at, format!("rows of {size} bytes"), found.to_string()))
        }
        // The number is in the first row when the header has no room for it.
        (_, _, 0) => {
            let first = table::<SectionHeader64<LittleEndian>>(source, WHAT, at, 1)?;
            table(source, WHAT, at, first.first().map_or(0, |first| first.sh_size(E)))
        }
        (_, _, count) => table(source, WHAT, at, count),
    }
}

/// The ranges of the sections of a name.
fn named(
    source: &dyn Source,
    header: &FileHeader64<LittleEndian>,
    sections: &[SectionHeader64<LittleEndian>],
    name: &[u8],
) -> Result<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    let index = match header.e_shstrndx(E) {
        // The number is in the first row when the header has no room for it.
        elf::SHN_XINDEX => sections.first().map_or(0, |first| first.sh_link(E) as usize),
        index => usize::from(index.0),
    };
    let Some(names) = sections.get(index).filter(|_| index != 0) else { return Ok(ranges) };
    let names_end = names.sh_offset(E).saturating_add(names.sh_size(E));
    for section in sections.iter().filter(|s| s.sh_type(E) != elf::SHT_NOBITS) {
        let at = names.sh_offset(E).saturating_add(section.sh_name(E).into());
        // The name and the zero behind it.
        let length = name.len() as u64 + 1;
        if at.saturating_add(length) > names_end {
            continue;
        }
        let found = source::read(source, "section's name", at, length)?;
        if found.strip_suffix(&[0]) == Some(name) {
            let (start, size) = (section.sh_offset(E), section.sh_size(E));
            let there = source.len().saturating_sub(start);
            if size > there {
                return Err(Unreadable::Short { what: "section of bundles", at: start, expected: size, found: there });
            }
            ranges.push(start..start + size);
        }
    }
    // What is there twice is one.
    ranges.sort_by_key(|range| range.start);
    let mut end = 0;
    ranges.retain(|range| {
        let apart = range.start >= end;
        end = end.max(range.end);
        apart
    });
    Ok(ranges)
}

/// The ranges of the bundles that records point at.
fn of_records(
    source: &dyn Source,
    header: &FileHeader64<LittleEndian>,
    sections: &[SectionHeader64<LittleEndian>],
    records: &[Range<u64>],
) -> Result<Vec<Range<u64>>> {
    let programs: Vec<ProgramHeader64<LittleEndian>> =
        table(source, "table of segments", header.e_phoff(E), u64::from(header.e_phnum(E)).min(MAX_SEGMENTS))?;
    let loaded = |p: &&ProgramHeader64<LittleEndian>| p.p_type(E) == elf::PT_LOAD;
    let offset_of = |address: u64| {
        programs.iter().filter(loaded).find_map(|p| {
            let distance = address.checked_sub(p.p_vaddr(E)).filter(|&distance| distance < p.p_filesz(E))?;
            p.p_offset(E).checked_add(distance)
        })
    };
    let mut in_file: Vec<(u64, u64)> = sections
        .iter()
        .filter(|s| s.sh_type(E) != elf::SHT_NOBITS && s.sh_size(E) != 0)
        .map(|s| (s.sh_offset(E), s.sh_offset(E).saturating_add(s.sh_size(E))))
        .collect();
    in_file.sort_unstable();
    let relocated = relocated(source, sections)?;
    let mut starts = Vec::new();
    for range in records {
        let section = sections.iter().find(|s| s.sh_offset(E) == range.start && s.sh_size(E) != 0);
        let address = section.map_or(0, |s| s.sh_addr(E));
        for index in 0..((range.end - range.start) / RECORD).min(MAX_RECORDS) {
            let record = source::read(source, "record of a bundle", range.start + index * RECORD, RECORD)?;
            let (Some(magic), Some(pointer)) = (record.get(..4), record.get(8..16)) else { continue };
            if magic != RECORD_MAGIC {
                continue;
            }
            let pointer = pointer.iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
            // What the loader would store there counts more than what is there.
            let at = address.saturating_add(index * RECORD + 8);
            starts.extend(offset_of(relocated.get(&at).copied().unwrap_or(pointer)));
        }
    }
    starts.sort_unstable();
    starts.dedup();
    let section_end = |start: u64| {
        let before = in_file.get(..in_file.partition_point(|&(offset, _)| offset <= start)).unwrap_or_default();
        before.last().map(|&(_, end)| end).filter(|&end| end > start).unwrap_or(source.len()).min(source.len())
    };
    let ends = starts.iter().skip(1).copied().chain([u64::MAX]);
    Ok(starts.iter().zip(ends).map(|(&start, next)| start..section_end(start).min(next)).collect())
}

/// The relocations that need no symbol: where, and the address that is stored.
fn relocated(source: &dyn Source, sections: &[SectionHeader64<LittleEndian>]) -> Result<HashMap<u64, u64>> {
    let mut relocated = HashMap::new();
    let size = size_of::<Rela64<LittleEndian>>() as u64;
    for section in sections.iter().filter(|s| s.sh_type(E) == elf::SHT_RELA && s.sh_size(E) <= MAX_TABLE) {
        let rows =
            table::<Rela64<LittleEndian>>(source, "relocations", section.sh_offset(E), section.sh_size(E) / size)?;
        let without_symbol = rows.iter().filter(|r| r.r_sym(E, false) == 0);
        relocated.extend(without_symbol.map(|r| (r.r_offset.get(E), r.r_addend.get(E) as u64)));
    }
    Ok(relocated)
}
