//! A code object of the checks' own kernels for a target, made in memory.
//!
//! Sources: AMDGPUUsage, "Code Object" (ELF header, note records, V4 metadata, kernel descriptor); the ELF specification.

use object::elf::{self, FileHeader64, NoteHeader32, ProgramHeader64, SectionHeader64, Sym64};
use object::endian::{I64, LittleEndian as LE, U16, U32, U64};
use object::pod::{bytes_of, bytes_of_slice};
use rmpv::Value;

use amdgpu_code_object::Target;

use crate::kernels::{Family, KERNELS, Kernel};

type Bytes = Vec<u8>;

/// `EI_OSABI` and `EI_ABIVERSION` of version 4 of the ABI: the oldest whose settings of a target can be "any".
const ABI: (u8, u8) = (64, 2);
/// The type of the note that holds metadata.
const NT_AMDGPU_METADATA: elf::NoteType = elf::NoteType(32);
/// Where the page of the code begins must differ from that of the read-only data.
const PAGE: u64 = 0x1000;
/// Alignment of a kernel's first instruction.
const KERNEL_ALIGNMENT: u64 = 256;

/// Bits of a kernel descriptor. Source: AMDGPUUsage, "Kernel Descriptor".
mod descriptor {
    /// GRANULATED_WORKITEM_VGPR_COUNT: 16 registers in granules of 8, at least as many in granules of 4.
    pub(super) const VGPRS: u32 = 3;
    /// GRANULATED_WAVEFRONT_SGPR_COUNT: 32 registers.
    pub(super) const SGPRS: u32 = 2 << 6;
    /// FLOAT_MODE: denormal numbers are kept.
    pub(super) const FLOAT_MODE: u32 = 0xf0 << 12;
    /// ENABLE_DX10_CLAMP and ENABLE_IEEE_MODE, which compilers set.
    pub(super) const CLAMP_AND_IEEE: u32 = 1 << 21 | 1 << 23;
    /// ENABLE_PRIVATE_SEGMENT.
    pub(super) const SCRATCH: u32 = 1;
    /// USER_SGPR_COUNT begins here.
    pub(super) const USER_SGPRS: u32 = 1;
    /// ENABLE_SGPR_WORKGROUP_ID_X.
    pub(super) const WORKGROUP_ID_X: u32 = 1 << 7;
}

/// The code object of all kernels for a target ID, like `gfx90a:sramecc+:xnack-`; `None` where the kernels cannot run.
pub(crate) fn code_object(target: &Target) -> Option<Bytes> {
    let family = Family::of(&target.processor)?;
    let flags = target.elf_flags()?;
    let note = note(&target.processor);
    let mut names = vec![0u8];
    let name = |names: &mut Vec<u8>, text: &str| {
        let at = names.len() as u32;
        names.extend_from_slice(text.as_bytes());
        names.push(0);
        at
    };

    let headers = (size_of::<FileHeader64<LE>>() + 2 * size_of::<ProgramHeader64<LE>>()) as u64;
    let descriptors_at = headers.next_multiple_of(64);
    let descriptors_size = (KERNELS.len() * 64) as u64;
    let note_at = descriptors_at + descriptors_size;
    let symbols_at = (note_at + note.len() as u64).next_multiple_of(8);
    let symbols_size = ((1 + 2 * KERNELS.len()) * size_of::<Sym64<LE>>()) as u64;
    let names_at = symbols_at + symbols_size;

    // Code first, as addresses within its segment.
    let mut code = Bytes::new();
    let mut entries = Vec::new();
    for kernel in KERNELS {
        code.resize((code.len() as u64).next_multiple_of(KERNEL_ALIGNMENT) as usize, 0);
        let start = code.len() as u64;
        code.extend(kernel.lines(family).iter().flat_map(|(_, words)| *words).flat_map(|word| word.to_le_bytes()));
        entries.push((start, code.len() as u64 - start));
    }
    // The instruction fetch reads ahead of the last one.
    code.resize((code.len() as u64).next_multiple_of(KERNEL_ALIGNMENT) as usize + 256, 0);

    let mut symbols = vec![symbol(0, elf::STT_NOTYPE, 0, 0, 0)];
    let mut positions = Vec::new();
    for (at, kernel) in KERNELS.iter().enumerate() {
        let descriptor = name(&mut names, &format!("{}.kd", kernel.name));
        let function = name(&mut names, kernel.name);
        positions.push((descriptor, function, descriptors_at + 64 * at as u64));
    }
    let names_end = names_at + names.len() as u64;
    let code_at = names_end.next_multiple_of(PAGE);
    let mut descriptors = Bytes::new();
    for ((kernel, &(entry, size)), &(descriptor, function, at)) in KERNELS.iter().zip(&entries).zip(&positions) {
        let entry = code_at + entry;
        descriptors.extend(kernel_descriptor(kernel, family, entry - at));
        symbols.push(symbol(descriptor, elf::STT_OBJECT, 1, at, 64));
        symbols.push(symbol(function, elf::STT_FUNC, 5, entry, size));
    }

    let sections_names = b"\0.rodata\0.note\0.symtab\0.strtab\0.text\0.shstrtab\0";
    let sections_names_at = code_at + code.len() as u64;
    let sections_at = (sections_names_at + sections_names.len() as u64).next_multiple_of(8);
    let sections = [
        section(0, elf::SHT_NULL, 0, 0, 0, [0; 4]),
        section(1, elf::SHT_PROGBITS, 2, descriptors_at, descriptors_size, [0, 0, 64, 0]),
        section(9, elf::SHT_NOTE, 2, note_at, note.len() as u64, [0, 0, 4, 0]),
        // The runtime's loader looks for symbols here, and not among the dynamic ones.
        section(15, elf::SHT_SYMTAB, 2, symbols_at, symbols_size, [4, 1, 8, 24]),
        section(23, elf::SHT_STRTAB, 2, names_at, names.len() as u64, [0, 0, 1, 0]),
        section(31, elf::SHT_PROGBITS, 6, code_at, code.len() as u64, [0, 0, 256, 0]),
        SectionHeader64 {
            // Not in memory.
            sh_addr: U64::new(LE, 0),
            ..section(37, elf::SHT_STRTAB, 0, sections_names_at, sections_names.len() as u64, [0, 0, 1, 0])
        },
    ];
    let header = FileHeader64::<LE> {
        e_ident: elf::Ident {
            magic: elf::ELFMAG,
            class: elf::ELFCLASS64,
            data: elf::ELFDATA2LSB,
            version: elf::EV_CURRENT,
            os_abi: elf::OsAbi(ABI.0),
            abi_version: ABI.1,
            padding: [0; 7],
        },
        e_type: U16::new(LE, elf::ET_DYN),
        e_machine: U16::new(LE, elf::EM_AMDGPU),
        e_version: U32::new(LE, 1),
        e_entry: U64::new(LE, 0),
        e_phoff: U64::new(LE, size_of::<FileHeader64<LE>>() as u64),
        e_shoff: U64::new(LE, sections_at),
        e_flags: U32::new(LE, elf::FileFlags(flags)),
        e_ehsize: U16::new(LE, size_of::<FileHeader64<LE>>() as u16),
        e_phentsize: U16::new(LE, size_of::<ProgramHeader64<LE>>() as u16),
        e_phnum: U16::new(LE, 2),
        e_shentsize: U16::new(LE, size_of::<SectionHeader64<LE>>() as u16),
        e_shnum: U16::new(LE, sections.len() as u16),
        e_shstrndx: U16::new(LE, elf::SymbolSection(sections.len() as u16 - 1)),
    };
    let segments = [segment(elf::PF_R, 0, names_end), segment(elf::PF_R | elf::PF_X, code_at, code.len() as u64)];

    let mut file = Bytes::new();
    file.extend_from_slice(bytes_of(&header));
    file.extend_from_slice(bytes_of_slice(&segments));
    for (at, bytes) in [
        (descriptors_at, descriptors.as_slice()),
        (note_at, &note),
        (symbols_at, bytes_of_slice(&symbols)),
        (names_at, &names),
        (code_at, &code),
        (sections_names_at, sections_names),
        (sections_at, bytes_of_slice(&sections)),
    ] {
        file.resize(at as usize, 0);
        file.extend_from_slice(bytes);
    }
    Some(file)
}

fn symbol(name: u32, kind: elf::SymbolType, section: u16, at: u64, size: u64) -> Sym64<LE> {
    Sym64 {
        st_name: U32::new(LE, name),
        st_info: elf::SymbolInfo::new(if section == 0 { elf::STB_LOCAL } else { elf::STB_GLOBAL }, kind),
        // As compilers make kernels.
        st_other: elf::SymbolOther(if section == 0 { elf::STV_DEFAULT.0 } else { elf::STV_PROTECTED.0 }),
        st_shndx: U16::new(LE, elf::SymbolSection(section)),
        st_value: U64::new(LE, at),
        st_size: U64::new(LE, size),
    }
}

/// A section's header; its address is its place in the file. `rest` is link, info, alignment and size of an entry.
fn section(name: u32, kind: elf::SectionType, flags: u64, at: u64, size: u64, rest: [u32; 4]) -> SectionHeader64<LE> {
    let [link, info, alignment, entry] = rest;
    SectionHeader64 {
        sh_name: U32::new(LE, name),
        sh_type: U32::new(LE, kind),
        sh_flags: U64::new(LE, elf::SectionFlags(flags)),
        sh_addr: U64::new(LE, at),
        sh_offset: U64::new(LE, at),
        sh_size: U64::new(LE, size),
        sh_link: U32::new(LE, link),
        sh_info: U32::new(LE, info),
        sh_addralign: U64::new(LE, alignment.into()),
        sh_entsize: U64::new(LE, entry.into()),
    }
}

/// A segment that is loaded where it is in the file.
fn segment(flags: elf::ProgramFlags, at: u64, size: u64) -> ProgramHeader64<LE> {
    ProgramHeader64 {
        p_type: U32::new(LE, elf::PT_LOAD),
        p_flags: U32::new(LE, flags),
        p_offset: U64::new(LE, at),
        p_vaddr: U64::new(LE, at),
        p_paddr: U64::new(LE, at),
        p_filesz: U64::new(LE, size),
        p_memsz: U64::new(LE, size),
        p_align: U64::new(LE, PAGE),
    }
}

fn kernel_descriptor(kernel: &Kernel, family: Family, entry_offset: u64) -> Bytes {
    use descriptor::{CLAMP_AND_IEEE, FLOAT_MODE, SCRATCH, SGPRS, USER_SGPRS, VGPRS, WORKGROUP_ID_X};
    use hsa::sys::abi::kernel_descriptor::properties;
    let uses_scratch = kernel.scratch > 0;
    // Scratch before gfx940 is addressed by a buffer descriptor in the first four registers.
    let buffer = uses_scratch && family == Family::Gfx9;
    let user_sgprs = if buffer { 6 } else { 2 };
    let set_up = properties::KERNARG_SEGMENT_PTR | if buffer { properties::PRIVATE_SEGMENT_BUFFER } else { 0 };
    let rsrc1 = VGPRS | SGPRS | FLOAT_MODE | CLAMP_AND_IEEE;
    let rsrc2 = (if uses_scratch { SCRATCH } else { 0 }) | user_sgprs << USER_SGPRS | WORKGROUP_ID_X;
    // ACCUM_OFFSET: accumulation registers begin behind 16 others. gfx90a and later have it, and the others ignore it.
    let rsrc3 = 3u32;
    let mut bytes = Bytes::new();
    for word in [0, kernel.scratch, 8 * kernel.arguments.len() as u32, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend_from_slice(bytes_of(&I64::new(LE, entry_offset as i64)));
    bytes.resize(44, 0);
    for word in [rsrc3, rsrc1, rsrc2, u32::from(set_up)] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.resize(64, 0);
    bytes
}

/// The note with the metadata.
fn note(processor: &str) -> Bytes {
    let text = |text: &str| Value::from(text);
    let map =
        |pairs: Vec<(&str, Value)>| Value::Map(pairs.into_iter().map(|(key, value)| (key.into(), value)).collect());
    let kernels = KERNELS.iter().map(|kernel| {
        let arguments = kernel.arguments.iter().enumerate().map(|(n, name)| {
            map(vec![
                (".address_space", text("global")),
                (".name", text(name)),
                (".offset", Value::from(8 * n)),
                (".size", Value::from(8)),
                (".value_kind", text("global_buffer")),
            ])
        });
        map(vec![
            (".args", Value::Array(arguments.collect())),
            (".group_segment_fixed_size", Value::from(0)),
            (".kernarg_segment_align", Value::from(8)),
            (".kernarg_segment_size", Value::from(8 * kernel.arguments.len())),
            (".max_flat_workgroup_size", Value::from(64)),
            (".name", text(kernel.name)),
            (".private_segment_fixed_size", Value::from(kernel.scratch)),
            (".sgpr_count", Value::from(32)),
            (".symbol", text(&format!("{}.kd", kernel.name))),
            (".vgpr_count", Value::from(4)),
            (".wavefront_size", Value::from(64)),
        ])
    });
    let metadata = map(vec![
        ("amdhsa.kernels", Value::Array(kernels.collect())),
        ("amdhsa.target", text(&format!("amdgcn-amd-amdhsa--{processor}"))),
        ("amdhsa.version", Value::Array(vec![Value::from(1), Value::from(1)])),
    ]);
    let mut packed = Bytes::new();
    // Writing to memory does not fail.
    let _ = rmpv::encode::write_value(&mut packed, &metadata);
    let header = NoteHeader32::<LE> {
        n_namesz: U32::new(LE, 7),
        n_descsz: U32::new(LE, packed.len() as u32),
        n_type: U32::new(LE, NT_AMDGPU_METADATA),
    };
    let mut note = bytes_of(&header).to_vec();
    note.extend_from_slice(b"AMDGPU\0\0");
    note.extend(packed);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_code_object::CodeObject;

    #[test]
    fn its_kernels_are_read_as_any_compilers() {
        for id in ["gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"] {
            let bytes = code_object(&Target::parse(id).unwrap()).unwrap();
            let object = CodeObject::parse(&bytes).unwrap();
            assert_eq!(object.target.to_string(), id);
            assert_eq!(object.kernels.len(), KERNELS.len());
            for kernel in KERNELS {
                let read = object.kernel(kernel.name).unwrap();
                let names: Vec<&str> = read.explicit().filter_map(|a| a.name.as_deref()).collect();
                assert_eq!(names, kernel.arguments, "{}", kernel.name);
            }
        }
    }

    #[test]
    fn a_processor_that_the_kernels_are_not_written_for_has_none() {
        assert_eq!(code_object(&Target::parse("gfx1100").unwrap()), None);
    }
}
