//! The symbols and sections of an ELF, as another crate reads them. Where both accept an ELF they have to agree.

use std::collections::BTreeMap;
use std::fs;

use amdgpu_code_object::{CodeObject, GlobalKind};
use goblin::container::{Container, Ctx, Endian};
use goblin::elf::section_header::{SHF_ALLOC, SHF_WRITE, SHN_UNDEF, SHT_DYNSYM, SHT_NOBITS, SHT_SYMTAB};
use goblin::elf::sym::{STB_LOCAL, STT_NOTYPE, STT_OBJECT};
use goblin::elf::{Elf, SectionHeader, Symtab};
use goblin::strtab::Strtab;

use crate::compiled;

const CTX: Ctx = Ctx { container: Container::Big, le: Endian::Little };

/// A symbol of a variable: address and name, size, whether it is defined, whether it is exported.
type Symbols = BTreeMap<(u64, String), (u64, bool, bool)>;

/// The variables' symbols of both tables; `None` when the other reader does not take one of them.
fn symbols(bytes: &[u8], elf: &Elf<'_>) -> Option<Symbols> {
    let mut symbols = Symbols::new();
    for kind in [SHT_DYNSYM, SHT_SYMTAB] {
        let Some(table) = elf.section_headers.iter().find(|s| s.sh_type == kind) else { continue };
        let names: &SectionHeader = elf.section_headers.get(table.sh_link as usize)?;
        let count = (table.sh_size / 24) as usize;
        let parsed = Symtab::parse(bytes, usize::try_from(table.sh_offset).ok()?, count, CTX).ok()?;
        let (start, size) = (usize::try_from(names.sh_offset).ok()?, usize::try_from(names.sh_size).ok()?);
        let names = Strtab::parse(bytes, start, size, 0).ok()?;
        for symbol in parsed.iter().skip(1) {
            let undefined = symbol.st_shndx == SHN_UNDEF as usize;
            let exported = kind == SHT_DYNSYM && symbol.st_bind() != STB_LOCAL;
            let is_external = undefined && symbol.st_type() == STT_NOTYPE && exported;
            if symbol.st_type() == STT_OBJECT || is_external {
                let key = (symbol.st_value, names.get_at(symbol.st_name)?.to_owned());
                symbols.entry(key).or_insert((symbol.st_size, undefined, false)).2 |= exported;
            }
        }
    }
    Some(symbols)
}

/// Compares what this crate read with what the other reads; says whether there was something to compare.
pub(crate) fn agrees(bytes: &[u8], object: &CodeObject) -> bool {
    let Ok(elf) = Elf::parse(bytes) else { return false };
    let Some(theirs) = symbols(bytes, &elf) else { return false };
    let ours: Symbols = object
        .globals
        .iter()
        .map(|g| ((g.address, g.name.clone()), (g.size, g.kind == GlobalKind::External, g.exported)))
        .collect();
    assert_eq!(ours, theirs);
    true
}

#[test]
fn symbols_of_every_object_are_those_that_another_reader_finds() {
    for path in compiled::all() {
        let bytes = fs::read(&path).unwrap();
        let object = CodeObject::parse(&bytes).unwrap();
        assert!(agrees(&bytes, &object), "{} is read by both", path.display());
        // What can be written is in a section that can be, and in none that becomes read-only.
        let elf = Elf::parse(&bytes).unwrap();
        for global in &object.globals {
            let within = |start: u64, size: u64| (start..start + size).contains(&global.address);
            let section = elf
                .section_headers
                .iter()
                .find(|s| u64::from(SHF_ALLOC) & s.sh_flags != 0 && within(s.sh_addr, s.sh_size));
            let Some(section) = section else { continue };
            let relro = elf.program_headers.iter().filter(|p| p.p_type == goblin::elf::program_header::PT_GNU_RELRO);
            let writable = section.sh_flags & u64::from(SHF_WRITE) != 0
                && !relro.into_iter().any(|p| within(p.p_vaddr, p.p_memsz));
            match global.kind {
                GlobalKind::Variable => assert!(writable || global.exported, "{global:?}"),
                GlobalKind::Constant | GlobalKind::Descriptor => assert!(!writable, "{global:?}"),
                _ => {}
            }
        }
    }
}

#[test]
fn descriptors_lie_where_another_reader_finds_their_symbols() {
    for path in compiled::all() {
        let bytes = fs::read(&path).unwrap();
        let object = CodeObject::parse(&bytes).unwrap();
        let elf = Elf::parse(&bytes).unwrap();
        for kernel in &object.kernels {
            let descriptor = kernel.descriptor.unwrap_or_else(|| panic!("{} has a descriptor", kernel.name));
            let symbol = elf.syms.iter().find(|s| {
                let name = kernel.symbol.strip_suffix("@kd").unwrap_or(&kernel.symbol);
                elf.strtab.get_at(s.st_name) == Some(name)
            });
            let symbol = symbol.unwrap_or_else(|| panic!("a symbol {}", kernel.symbol));
            assert_eq!(descriptor.address, symbol.st_value, "{}", kernel.name);
            // The code is a function of the kernel's name; in version 2 it is behind its header.
            let code = elf.syms.iter().find(|s| elf.strtab.get_at(s.st_name) == Some(&kernel.name)).unwrap();
            let header = if kernel.symbol.ends_with("@kd") { 256 } else { 0 };
            assert_eq!(descriptor.entry, code.st_value + header, "{}", kernel.name);
            let text = elf.section_headers.iter().filter(|s| s.sh_type != SHT_NOBITS && s.sh_flags & 4 != 0);
            assert!(text.into_iter().any(|s| (s.sh_addr..s.sh_addr + s.sh_size).contains(&descriptor.entry)));
        }
    }
}
