//! The ELF of a code object: headers, notes, symbols, and bytes by address. [`crate::code`] is what others see of it.
//!
//! Source: the ELF specification, and AMDGPUUsage, "Code Object", for what is AMD's.

use std::ops::Range;

use object::elf;
use object::read::elf::{
    ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable, Sym as _, SymbolTable,
};
use object::{LittleEndian, ReadRef as _};

use crate::error::{Result, Unreadable};

/// `ELFOSABI_AMDGPU_HSA`.
const OSABI_HSA: u8 = 64;
/// Types of symbols; the last is AMD's for version 2's kernels.
pub(crate) const STT_NOTYPE: u8 = 0;
pub(crate) const STT_OBJECT: u8 = 1;
pub(crate) const STT_FUNC: u8 = 2;
pub(crate) const STT_AMDGPU_HSA_KERNEL: u8 = 10;

/// `R_AMDGPU_RELATIVE64`: the address where the code object is loaded, and the addend.
pub(crate) const RELATIVE64: u32 = 13;

/// An ELF for the GPU: its code and its sections.
pub struct Image<'a> {
    bytes: &'a [u8],
    file: ElfFile64<'a, LittleEndian>,
    sections: Vec<FileRange>,
    segments: Vec<FileRange>,
    /// Memory that is only read once relocations are done.
    relro: Vec<FileRange>,
}

/// A note: who defines its type, the type, its bytes and where they are in the file.
pub(crate) struct Note<'a> {
    pub(crate) owner: &'a [u8],
    pub(crate) kind: u32,
    pub(crate) bytes: &'a [u8],
    pub(crate) at: u64,
}

/// A symbol of one of the two tables.
pub(crate) struct Symbol<'a> {
    pub(crate) name: &'a str,
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// `STT_…`.
    pub(crate) kind: u8,
    pub(crate) undefined: bool,
    /// In the table that is there at run time, and not local.
    pub(crate) exported: bool,
}

/// A relocation that is done when the code object is loaded.
pub(crate) struct Relocation {
    /// The address that is written.
    pub(crate) at: u64,
    /// `R_AMDGPU_…`.
    pub(crate) kind: u32,
    /// Number in the table of dynamic symbols; 0 for none.
    pub(crate) symbol: usize,
    pub(crate) addend: i64,
}

/// The bytes of names that were taken: many symbols may have the same one.
pub(crate) struct Names {
    total: u64,
    limit: u64,
}

impl Names {
    /// Real files have names that are there once for each of the two tables, and once more for what refers to them.
    pub(crate) fn of(image: &Image<'_>) -> Names {
        Names { total: 0, limit: (16 << 20) + 4 * image.bytes.len() as u64 }
    }

    /// Counts one.
    ///
    /// # Errors
    /// When it is too much.
    pub(crate) fn count(&mut self, name: &[u8]) -> Result<()> {
        self.total += name.len() as u64;
        if self.total > self.limit {
            let (what, limit, found) = ("names of symbols", self.limit, self.total);
            return Err(Unreadable::TooLarge { what, at: 0, limit, found });
        }
        Ok(())
    }
}

/// Bytes of a note's header.
const NOTE_HEADER: u64 = 12;

/// What is at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    /// The global offset table.
    pub(crate) got: bool,
}

pub(crate) fn damaged(what: &'static str, at: u64, error: object::read::Error) -> Unreadable {
    Unreadable::unexpected(what, at, "a table that is whole", error.to_string())
}

impl<'a> Image<'a> {
    /// Reads the headers.
    ///
    /// # Errors
    /// When it is no ELF for AMD's GPUs under HSA.
    pub fn parse(bytes: &'a [u8]) -> Result<Image<'a>> {
        const WHAT: &str = "code object";
        let size = size_of::<elf::FileHeader64<LittleEndian>>();
        let Some(ident) = bytes.get(..size) else {
            return Err(Unreadable::Short { what: WHAT, at: 0, expected: size as u64, found: bytes.len() as u64 });
        };
        let field = |at: usize| ident.get(at).copied().unwrap_or_default();
        let half = |at: usize| u16::from_le_bytes([field(at), field(at + 1)]);
        let wrong = |at, expected: &str, found: String| Err(Unreadable::unexpected(WHAT, at, expected, found));
        // Offsets of `e_ident`'s parts and of `e_machine`.
        if !ident.starts_with(&elf::ELFMAG) {
            return wrong(0, "an ELF", format!("\"{}\"", ident.get(..4).unwrap_or_default().escape_ascii()));
        }
        if [field(4), field(5)] != [2, 1] {
            return wrong(4, "64 bits, little-endian", format!("class {} and byte order {}", field(4), field(5)));
        }
        if half(18) != elf::EM_AMDGPU.0 {
            return wrong(18, "machine 224, AMD GPU", half(18).to_string());
        }
        if field(7) != OSABI_HSA {
            return wrong(7, "OS ABI 64, HSA", field(7).to_string());
        }
        let file = ElfFile64::parse(bytes).map_err(|e| damaged("ELF", 0, e))?;
        Ok(Image {
            bytes,
            sections: sections(&file),
            segments: segments(&file, elf::PT_LOAD),
            relro: segments(&file, elf::PT_GNU_RELRO),
            file,
        })
    }

    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn abi_version(&self) -> u8 {
        self.file.elf_header().e_ident().abi_version
    }

    pub(crate) fn flags(&self) -> u32 {
        self.file.elf_header().e_flags(LittleEndian).0
    }

    fn offset_of(&self, part: &[u8]) -> u64 {
        (part.as_ptr() as usize).wrapping_sub(self.bytes.as_ptr() as usize) as u64
    }

    /// The notes of all segments of notes, or of all sections.
    ///
    /// # Errors
    /// When one leads outside of its segment or section, or when they lie over each other.
    pub(crate) fn notes(&self, in_sections: bool) -> Result<Vec<Note<'a>>> {
        let mut notes = Vec::new();
        let (mut total, limit) = (0, self.bytes.len() as u64);
        let mut add = |found: object::read::Result<_>, at| -> Result<()> {
            let damaged = |e| damaged("notes", at, e);
            let iterator: Option<object::read::elf::NoteIterator<'a, elf::FileHeader64<LittleEndian>>> =
                found.map_err(damaged)?;
            for note in iterator.into_iter().flatten() {
                let note = note.map_err(damaged)?;
                let (owner, kind) = (note.name(), note.n_type(LittleEndian).0);
                // Headers of the same bytes, again and again, would make much of little.
                total += NOTE_HEADER + note.desc().len() as u64;
                if total > limit {
                    return Err(Unreadable::TooLarge { what: "notes", at, limit, found: total });
                }
                notes.push(Note { owner, kind, bytes: note.desc(), at: self.offset_of(note.desc()) });
            }
            Ok(())
        };
        if in_sections {
            for section in self.file.elf_section_table().iter() {
                add(section.notes(LittleEndian, self.bytes), section.sh_offset(LittleEndian))?;
            }
        } else {
            for segment in self.file.elf_program_headers() {
                add(segment.notes(LittleEndian, self.bytes), segment.p_offset(LittleEndian))?;
            }
        }
        Ok(notes)
    }

    /// The symbols of both tables that have a type or are not defined; many are in both.
    ///
    /// # Errors
    /// When the name of one is not there, or when many have the same long one.
    pub(crate) fn symbols(&self) -> Result<Vec<Symbol<'a>>> {
        let mut symbols = Vec::new();
        let mut names = Names::of(self);
        for (dynamic, table) in [(true, self.file.elf_dynamic_symbol_table()), (false, self.file.elf_symbol_table())] {
            for symbol in table.iter().skip(1) {
                let kind = symbol.st_type().0;
                let undefined = symbol.is_undefined(LittleEndian);
                // Assemblers leave thousands of labels.
                if kind == STT_NOTYPE && !undefined {
                    continue;
                }
                let at = || table.section().0 as u64;
                let name = symbol.name(LittleEndian, table.strings()).map_err(|e| damaged("symbol's name", at(), e))?;
                names.count(name)?;
                symbols.push(Symbol {
                    name: std::str::from_utf8(name).unwrap_or_default(),
                    address: symbol.st_value(LittleEndian),
                    size: symbol.st_size(LittleEndian),
                    kind,
                    undefined,
                    exported: dynamic && !symbol.is_local(),
                });
            }
        }
        Ok(symbols)
    }

    /// The relocations that are done when the code object is loaded.
    ///
    /// # Errors
    /// When a table leads outside of the file, or when tables lie over each other.
    pub(crate) fn relocations(&self) -> Result<Vec<Relocation>> {
        let mut relocations = Vec::new();
        for section in self.file.elf_section_table().iter() {
            if section.sh_flags(LittleEndian).0 & elf::SHF_ALLOC.0 == 0 {
                continue;
            }
            let at = section.sh_offset(LittleEndian);
            let found = section.rela(LittleEndian, self.bytes).map_err(|e| damaged("relocations", at, e))?;
            let table = found.map(|(table, _)| table).unwrap_or_default();
            let total = (relocations.len() + table.len()) as u64 * size_of::<elf::Rela64<LittleEndian>>() as u64;
            if total > self.bytes.len() as u64 {
                let limit = self.bytes.len() as u64;
                return Err(Unreadable::TooLarge { what: "relocations", at, limit, found: total });
            }
            for relocation in table {
                relocations.push(Relocation {
                    at: relocation.r_offset.get(LittleEndian),
                    kind: relocation.r_type(LittleEndian, false).0,
                    symbol: relocation.r_sym(LittleEndian, false) as usize,
                    addend: relocation.r_addend.get(LittleEndian),
                });
            }
        }
        Ok(relocations)
    }

    /// The address of a dynamic symbol.
    pub(crate) fn dynamic_symbol(&self, index: usize) -> Option<u64> {
        let symbol = self.file.elf_dynamic_symbol_table().symbol(object::SymbolIndex(index)).ok()?;
        (!symbol.is_undefined(LittleEndian)).then(|| symbol.st_value(LittleEndian))
    }

    /// The name of a dynamic symbol; the first one is none.
    pub(crate) fn dynamic_symbol_name(&self, index: usize) -> Option<&'a [u8]> {
        let table = self.file.elf_dynamic_symbol_table();
        let symbol = table.symbol(object::SymbolIndex(index)).ok().filter(|_| index != 0)?;
        symbol.name(LittleEndian, table.strings()).ok()
    }

    /// What is at an address: its section says so, or its segment where there are no sections. What is only written
    /// by relocations is not writable.
    pub(crate) fn memory(&self, address: u64) -> Option<Memory> {
        let (_, found) = find(&self.sections, address).or_else(|| find(&self.segments, address))?;
        let writable = found.memory.writable && find(&self.relro, address).is_none();
        Some(Memory { writable, ..found.memory })
    }

    /// The addresses of what is loaded, from the first to the last; `None` when nothing is.
    pub(crate) fn extent(&self) -> Option<Range<u64>> {
        let first = self.segments.first()?.start;
        let end = self.segments.iter().filter_map(|s| s.start.checked_add(s.size)).max()?;
        (first < end).then_some(first..end)
    }

    /// The first address of what is loaded: what is where the loaded memory begins.
    pub fn first_address(&self) -> u64 {
        self.extent().map_or(0, |loaded| loaded.start)
    }

    /// What is loaded from the file: addresses and bytes.
    ///
    /// # Errors
    /// When a segment leads outside of the file, or is larger there than in memory.
    pub(crate) fn loaded(&self) -> Result<Vec<(u64, &'a [u8])>> {
        let bytes = |s: &FileRange| {
            let found = self.bytes.read_bytes_at(s.offset, s.in_file).ok().filter(|_| s.in_file <= s.size);
            let wrong = || {
                let found = format!("{} bytes at {:#x}", s.in_file, s.offset);
                Unreadable::unexpected("segment", s.start, "bytes of the file", found)
            };
            found.map(|bytes| (s.start, bytes)).ok_or_else(wrong)
        };
        self.segments.iter().map(bytes).collect()
    }

    /// The addresses of what is loaded and never written, in order: code, constants and kernel descriptors.
    pub fn read_only(&self) -> Vec<Range<u64>> {
        let read_only = self.segments.iter().filter(|s| !s.memory.writable);
        read_only.map(|s| s.start..s.start.saturating_add(s.size)).collect()
    }

    /// The addresses of what can be executed, in order.
    pub(crate) fn executable(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let ranges = if self.sections.is_empty() { &self.segments } else { &self.sections };
        ranges.iter().filter(|r| r.memory.executable).map(|r| r.start..r.start.saturating_add(r.in_file.min(r.size)))
    }

    pub(crate) fn section_table(&self) -> &SectionTable<'a, elf::FileHeader64<LittleEndian>> {
        self.file.elf_section_table()
    }

    pub(crate) fn symbol_table(&self) -> &SymbolTable<'a, elf::FileHeader64<LittleEndian>> {
        self.file.elf_symbol_table()
    }

    /// The section of a name.
    pub(crate) fn section_header(&self, name: &str) -> Option<&elf::SectionHeader64<LittleEndian>> {
        let table = self.file.elf_section_table();
        table.section_by_name(LittleEndian, name.as_bytes()).map(|(_, section)| section)
    }

    /// Where bytes at an address are in the file; `None` where that does not have them all.
    pub(crate) fn file_offset(&self, address: u64, size: u64) -> Option<u64> {
        self.at_address(address, size).map(|bytes| self.offset_of(bytes))
    }

    /// Bytes of the file by address.
    pub(crate) fn at_address(&self, address: u64, size: u64) -> Option<&'a [u8]> {
        let (offset, segment) = find(&self.segments, address)?;
        let in_file = offset.checked_add(size)? <= segment.in_file;
        in_file.then(|| self.bytes.read_bytes_at(segment.offset.checked_add(offset)?, size).ok())?
    }
}

/// A range of addresses.
struct FileRange {
    start: u64,
    size: u64,
    /// Where it is in the file.
    offset: u64,
    /// How much of it is in the file.
    in_file: u64,
    memory: Memory,
}

/// The range that has an address, and how far behind its beginning that is. Ranges are sorted and do not overlap, but in
/// damaged files, where one of them is as good as the other.
fn find(ranges: &[FileRange], address: u64) -> Option<(u64, &FileRange)> {
    let before = ranges.get(..ranges.partition_point(|r| r.start <= address))?;
    before.last().map(|r| (address.wrapping_sub(r.start), r)).filter(|(offset, r)| *offset < r.size)
}

fn sections(file: &ElfFile64<'_, LittleEndian>) -> Vec<FileRange> {
    let table = file.elf_section_table();
    let mut ranges = Vec::new();
    for section in table.iter() {
        let flags = section.sh_flags(LittleEndian).0;
        let size = section.sh_size(LittleEndian);
        if flags & elf::SHF_ALLOC.0 == 0 || size == 0 {
            continue;
        }
        let memory = Memory {
            writable: flags & elf::SHF_WRITE.0 != 0,
            executable: flags & elf::SHF_EXECINSTR.0 != 0,
            got: table.section_name(LittleEndian, section).is_ok_and(|name| name.starts_with(b".got")),
        };
        let (start, offset) = (section.sh_addr(LittleEndian), section.sh_offset(LittleEndian));
        ranges.push(FileRange { start, size, offset, in_file: size, memory });
    }
    ranges.sort_by_key(|r| r.start);
    ranges
}

fn segments(file: &ElfFile64<'_, LittleEndian>, kind: elf::ProgramType) -> Vec<FileRange> {
    let loaded = file.elf_program_headers().iter().filter(|s| s.p_type(LittleEndian) == kind);
    let range = |s: &elf::ProgramHeader64<LittleEndian>| {
        let flags = s.p_flags(LittleEndian).0;
        FileRange {
            start: s.p_vaddr(LittleEndian),
            size: s.p_memsz(LittleEndian),
            offset: s.p_offset(LittleEndian),
            in_file: s.p_filesz(LittleEndian),
            memory: Memory { writable: flags & elf::PF_W.0 != 0, executable: flags & elf::PF_X.0 != 0, got: false },
        }
    };
    let mut ranges: Vec<FileRange> = loaded.map(range).collect();
    ranges.sort_by_key(|r| r.start);
    ranges
}
