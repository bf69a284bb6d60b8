//! The data of a code object, and what is known of the addresses in it and in its code.
//!
//! Source: AMDGPUUsage, "AMDGPU ELF Relocation Records"; the ELF specification.

use object::LittleEndian;
use object::elf;
use object::read::elf::{SectionHeader as _, Sym as _};

use crate::elf::{Image, Names, RELATIVE64, damaged};
use crate::error::{Result, Unreadable};
use crate::global::{Global, GlobalKind};

/// What memory of a code object is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataKind {
    /// Nothing writes it: `.rodata`.
    Constant,
    /// Nothing but the loader writes it: tables of addresses.
    Relocated,
    /// The global offset table: addresses that code loads.
    Got,
    /// Kernels may write it.
    Variable,
}

/// A range of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataRange<'a> {
    /// What it is used for.
    pub kind: DataKind,
    /// The section's name.
    pub name: String,
    /// Its first address before the code object is loaded.
    pub start: u64,
    /// Its bytes in memory.
    pub size: u64,
    /// Those that are in the file; the rest is zero.
    pub bytes: &'a [u8],
}

impl DataRange<'_> {
    /// The address behind it.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.size)
    }
}

/// A part of writable data that the runtime cannot find by a name: a variable that only its file knows, or what no symbol names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InnerData {
    /// The symbol of the variable; section and offset, as in `.bss+0x40`, where none is there.
    pub name: String,
    /// Its first address before the code object is loaded.
    pub start: u64,
    /// In bytes.
    pub size: u64,
}

/// How much of an address a relocation stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressBits {
    /// 64 bits.
    Whole,
    /// The low 32 bits.
    Low,
    /// The high 32 bits.
    High,
}

/// An address that the loader stores: a dynamic relocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAddress {
    /// Where it is stored, before the code object is loaded.
    pub at: u64,
    /// How much of it; `None` for a distance, and for kinds that are not known.
    pub part: Option<AddressBits>,
    /// The symbol that it is relative to, where the relocation names one.
    pub symbol: Option<String>,
    /// The symbol's address before the code object is loaded, or zero without one; `None` when it is defined elsewhere.
    pub base: Option<u64>,
    /// What is added.
    pub addend: i64,
}

/// A relocation that the linker has done and left in the file, as it does with `--emit-relocs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedAddress {
    /// Where it was done, before the code object is loaded.
    pub at: u64,
    /// The symbol; `None` for a section, which says nothing about what in it is meant.
    pub symbol: Option<String>,
    /// The symbol's address before the code object is loaded.
    pub base: u64,
    /// What is added.
    pub addend: i64,
}

/// `R_AMDGPU_ABS32_LO`, `ABS32_HI`, `ABS64`, `ABS32`.
const PARTS: &[(u32, AddressBits)] = &[
    (1, AddressBits::Low),
    (2, AddressBits::High),
    (3, AddressBits::Whole),
    (6, AddressBits::Low),
    (RELATIVE64, AddressBits::Whole),
];

/// `STT_SECTION`.
const SECTION: u8 = 3;

impl<'a> Image<'a> {
    /// The data that is loaded, by address: what sections say of it. Notes, symbols and tables for unwinding are none.
    pub fn data(&self) -> Vec<DataRange<'a>> {
        let table = self.section_table();
        let mut ranges = Vec::new();
        for section in table.iter() {
            let (flags, kind) = (section.sh_flags(LittleEndian).0, section.sh_type(LittleEndian));
            let (start, size) = (section.sh_addr(LittleEndian), section.sh_size(LittleEndian));
            let is_content = matches!(kind, elf::SHT_PROGBITS | elf::SHT_NOBITS);
            let is_data = flags & elf::SHF_ALLOC.0 != 0 && flags & elf::SHF_EXECINSTR.0 == 0;
            let name = table.section_name(LittleEndian, section).unwrap_or_default();
            if !is_content
                || !is_data
                || size == 0
                || matches!(name, b".relro_padding" | b".eh_frame" | b".eh_frame_hdr")
            {
                continue;
            }
            let kind = match self.memory(start) {
                Some(memory) if memory.got => DataKind::Got,
                Some(memory) if memory.writable => DataKind::Variable,
                _ if flags & elf::SHF_WRITE.0 != 0 => DataKind::Relocated,
                _ => DataKind::Constant,
            };
            let bytes = section.data(LittleEndian, self.bytes()).unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            ranges.push(DataRange { kind, name, start, size, bytes });
        }
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    /// The writable data that no exported variable of `globals`, the code object's, covers, by address. What is only there to
    /// align variables is among it: where symbols are left out, it cannot be told from them.
    pub fn inner_data(&self, globals: &[Global]) -> Vec<InnerData> {
        let mut symbols: Vec<&Global> =
            globals.iter().filter(|g| g.size > 0 && g.kind != GlobalKind::External).collect();
        // Of two at one address the exported one, which is captured as such.
        symbols.sort_by_key(|global| (global.address, !global.exported));
        let mut inner = Vec::new();
        for section in self.data().iter().filter(|section| section.kind == DataKind::Variable) {
            let mut at = section.start;
            let unnamed = |from: u64, to: u64| {
                let size = to.saturating_sub(from);
                let name = format!("{}+{:#x}", section.name, from - section.start);
                (size > 0).then_some(InnerData { name, start: from, size })
            };
            for symbol in symbols.iter().filter(|s| section.start <= s.address && s.address < section.end()) {
                inner.extend(unnamed(at, symbol.address));
                let (start, end) =
                    (symbol.address.max(at), symbol.address.saturating_add(symbol.size).min(section.end()));
                if start < end && !symbol.exported && symbol.kind == GlobalKind::Variable {
                    inner.push(InnerData { name: symbol.name.clone(), start, size: end - start });
                }
                at = at.max(end);
            }
            inner.extend(unnamed(at, section.end()));
        }
        inner
    }

    /// True when the table of all symbols is there, which says also what is only used inside.
    pub fn has_all_names(&self) -> bool {
        self.symbol_table().len() > 1
    }

    /// The addresses that the loader stores.
    ///
    /// # Errors
    /// When a table of relocations leads outside of the file.
    pub fn stored_addresses(&self) -> Result<Vec<StoredAddress>> {
        let mut names = Names::of(self);
        let stored = self.relocations()?.into_iter().map(|relocation| {
            let part = PARTS.iter().find(|(kind, _)| *kind == relocation.kind).map(|(_, part)| *part);
            let name = if relocation.kind == RELATIVE64 { None } else { self.dynamic_symbol_name(relocation.symbol) };
            names.count(name.unwrap_or_default())?;
            Ok(StoredAddress {
                at: relocation.at,
                part,
                symbol: name.map(|name| String::from_utf8_lossy(name).into_owned()),
                base: if name.is_none() { Some(0) } else { self.dynamic_symbol(relocation.symbol) },
                addend: relocation.addend,
            })
        });
        stored.collect()
    }

    /// The relocations that the linker has done and left, by address.
    ///
    /// # Errors
    /// When a table of relocations leads outside of the file.
    pub fn linked_addresses(&self) -> Result<Vec<LinkedAddress>> {
        let (table, symbols) = (self.section_table(), self.symbol_table());
        let (mut found, mut names) = (Vec::new(), Names::of(self));
        let limit = self.bytes().len() as u64;
        for section in table.iter() {
            if section.sh_flags(LittleEndian).0 & elf::SHF_ALLOC.0 != 0 {
                continue;
            }
            let at = section.sh_offset(LittleEndian);
            let rela = section.rela(LittleEndian, self.bytes()).map_err(|e| damaged("relocations", at, e))?;
            let Some((rela, _)) = rela else { continue };
            let total = (found.len() + rela.len()) as u64 * size_of::<elf::Rela64<LittleEndian>>() as u64;
            if total > limit {
                return Err(Unreadable::TooLarge { what: "relocations", at, limit, found: total });
            }
            for relocation in rela {
                let symbol = symbols.symbol(object::SymbolIndex(relocation.r_sym(LittleEndian, false) as usize));
                let Ok(symbol) = symbol else { continue };
                let name = symbol.name(LittleEndian, symbols.strings()).unwrap_or_default();
                names.count(name)?;
                let is_named = symbol.st_type().0 != SECTION && !name.is_empty();
                found.push(LinkedAddress {
                    at: relocation.r_offset.get(LittleEndian),
                    symbol: is_named.then(|| String::from_utf8_lossy(name).into_owned()),
                    base: symbol.st_value(LittleEndian),
                    addend: relocation.r_addend.get(LittleEndian),
                });
            }
        }
        found.sort_by_key(|linked| linked.at);
        Ok(found)
    }
}
