//! A code object: the bytes of an ELF for the GPU.

use std::collections::HashMap;

use crate::descriptor::Descriptor;
use crate::document::{self, Document};
use crate::elf::{Image, Note, STT_AMDGPU_HSA_KERNEL, STT_OBJECT, Symbol};
use crate::error::{Result, Unreadable};
use crate::global::{self, AddressTaken, Global};
use crate::kernel::Kernel;
use crate::metadata::{self, Form};
use crate::target::{Setting, Target};
use crate::value::Value;

/// Version of the code object's ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Abi {
    /// Version 2: YAML metadata, `amd_kernel_code_t`.
    V2,
    /// Version 3.
    V3,
    /// Version 4: `xnack` and `sramecc` may be "any".
    V4,
    /// Version 5: more hidden arguments.
    V5,
    /// Version 6: code for families of processors.
    V6,
    /// A later one, by its number; it is read like version 6.
    Later(u16),
}

impl Abi {
    /// Source: AMDGPUUsage, "AMDGPU ELF Header", `EI_ABIVERSION`.
    fn from_ident(version: u8) -> Abi {
        match version {
            0 => Abi::V2,
            1 => Abi::V3,
            2 => Abi::V4,
            3 => Abi::V5,
            4 => Abi::V6,
            later => Abi::Later(u16::from(later) + 2),
        }
    }
}

/// What is in a code object.
#[derive(Clone, Debug, PartialEq)]
pub struct CodeObject {
    /// Version of the ABI.
    pub abi: Abi,
    /// What it was compiled for.
    pub target: Target,
    /// Kernels, in the order of the metadata.
    pub kernels: Vec<Kernel>,
    /// Variables, by address.
    pub globals: Vec<Global>,
    /// Functions whose address is stored in memory, by where it is.
    pub address_taken: Vec<AddressTaken>,
    /// Formats of printf.
    pub printf: Vec<String>,
    /// Version of the metadata, like 1 and 2.
    pub metadata_version: Vec<u32>,
    /// Keys of the whole metadata that are not known, with their values, in the order of the alphabet.
    pub unknown: Vec<(String, Value<'static>)>,
    /// What was left out because it could not be understood: kernels, notes. The rest is as it should be.
    pub problems: Vec<Unreadable>,
}

impl CodeObject {
    /// Reads a code object.
    ///
    /// # Errors
    /// When it is no ELF for AMD's GPUs under HSA, or is damaged. What is wrong with single kernels and notes is in
    /// [`problems`](CodeObject::problems).
    pub fn parse(bytes: &[u8]) -> Result<CodeObject> {
        CodeObject::of(&Image::parse(bytes)?)
    }

    /// Reads a code object whose file was parsed.
    ///
    /// # Errors
    /// As for [`CodeObject::parse`], but for the file's header.
    pub fn of(image: &Image<'_>) -> Result<CodeObject> {
        let abi = Abi::from_ident(image.abi_version());
        let mut notes = image.notes(false)?;
        let mut problems = Vec::new();
        let mut document = document::merged(&notes, &mut problems)?;
        if document.is_none() {
            let in_sections = image.notes(true)?;
            document = document::merged(&in_sections, &mut problems)?;
            notes.extend(in_sections);
        }
        let document = document.unwrap_or_default();
        let symbols = image.symbols()?;
        let target = target(abi, image.flags(), &document, &notes);
        let kernels = kernels(image, &document, &symbols, &mut problems);
        Ok(CodeObject {
            abi,
            target,
            globals: global::globals(image, &symbols, &kernels)?,
            address_taken: global::address_taken(image, &symbols)?,
            kernels,
            printf: document.printf.unwrap_or_default(),
            metadata_version: document.version,
            unknown: document.unknown.into_iter().map(|(key, value)| (key, value.into_owned())).collect(),
            problems,
        })
    }

    /// The metadata as it is written, all notes of it merged; `None` when there is none.
    ///
    /// # Errors
    /// Like [`parse`](CodeObject::parse).
    pub fn metadata(bytes: &[u8]) -> Result<Option<Value<'_>>> {
        let image = Image::parse(bytes)?;
        let mut problems = Vec::new();
        for in_sections in [false, true] {
            if let Some(document) = document::merged(&image.notes(in_sections)?, &mut problems)? {
                return Ok(Some(document.into_value()));
            }
        }
        Ok(None)
    }

    /// A kernel that has a descriptor and no metadata: what the packet processor reads of it, and no arguments.
    ///
    /// # Errors
    /// When the bytes are no code object.
    pub fn described(bytes: &[u8], name: &str) -> Result<Option<Kernel>> {
        let image = Image::parse(bytes)?;
        let symbol = format!("{name}.kd");
        let symbols = image.symbols()?;
        let found = symbols.iter().find(|s| !s.undefined && s.kind == STT_OBJECT && s.name == symbol);
        let descriptor = found.and_then(|s| Descriptor::read(&image, s.address));
        Ok(descriptor.map(|descriptor| Kernel::of_descriptor(name, symbol, descriptor)))
    }

    /// The kernel of a name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.kernels.iter().find(|k| k.name == name)
    }
}

/// The kernels of the metadata, with their descriptors.
fn kernels(
    image: &Image<'_>,
    document: &Document<'_>,
    symbols: &[Symbol<'_>],
    problems: &mut Vec<Unreadable>,
) -> Vec<Kernel> {
    // Others, like an assembler's labels, may be many.
    let defined = symbols.iter().filter(|s| !s.undefined && matches!(s.kind, STT_OBJECT | STT_AMDGPU_HSA_KERNEL));
    let by_name: HashMap<&str, &Symbol<'_>> = defined.map(|s| (s.name, s)).collect();
    let mut kernels = Vec::with_capacity(document.kernels.len());
    for (index, value) in document.kernels.iter().enumerate() {
        let mut kernel = match metadata::kernel(document.form, index, value) {
            Ok(kernel) => kernel,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        kernel.descriptor = match document.form {
            Form::New => by_name.get(&*kernel.symbol).and_then(|s| Descriptor::read(image, s.address)),
            // The symbol is the code's, before which the header is.
            Form::Old => by_name
                .get(kernel.symbol.strip_suffix("@kd").unwrap_or(&kernel.symbol))
                .filter(|s| s.kind == STT_AMDGPU_HSA_KERNEL)
                .and_then(|s| Descriptor::read_code_header(image, s.address)),
        };
        if kernel.descriptor.is_none() {
            problems.push(Unreadable::Metadata {
                kernel: kernel.name.clone(),
                key: document.form.of([".symbol", "SymbolName"]).to_owned(),
                expected: "the symbol of a descriptor that is in the file",
                found: format!("{:?}", kernel.symbol),
            });
        }
        kernels.push(kernel);
    }
    kernels
}

/// What the code was compiled for: the header says it, and where it has no name for the processor, the metadata.
///
/// Source: AMDGPUUsage, "AMDGPU ELF Header", `e_flags`.
fn target(abi: Abi, flags: u32, document: &Document<'_>, notes: &[Note<'_>]) -> Target {
    // Objects of before there were numbers of processors have other flags: only whether xnack is on.
    if abi == Abi::V2 && flags & 0xff <= 3 {
        return old_target(notes);
    }
    let mach = flags as u8;
    let known = amdgpu_processor::Target::of_machine(mach);
    let named = || document.target.as_deref().and_then(|text| Target::parse(text).ok()).map(|t| t.processor);
    let processor = match known {
        Some(known) => known.name.to_owned(),
        None => named().unwrap_or_else(|| format!("mach-{mach:#x}")),
    };
    let (xnack, sramecc) = known.map_or((false, false), |known| (known.xnack, known.sramecc));
    let bit = |bit: u32| flags >> bit & 1 == 1;
    match abi {
        Abi::V2 | Abi::V3 => Target {
            processor,
            xnack: Setting::from_bit(xnack, bit(8)),
            sramecc: Setting::from_bit(sramecc, bit(9)),
            generic_version: 0,
        },
        Abi::V4 | Abi::V5 | Abi::V6 | Abi::Later(_) => Target {
            processor,
            xnack: Setting::from_bits(flags >> 8),
            sramecc: Setting::from_bits(flags >> 10),
            generic_version: if abi >= Abi::V6 { (flags >> 24) as u8 } else { 0 },
        },
    }
}

/// `NT_AMD_HSA_ISA_VERSION`: two lengths of names, then three numbers, then the names.
const ISA_VERSION: u32 = 3;

/// The target of an object of version 2 by its note. Source: AMDGPUUsage, "AMDGPU Code Object V2 ELF Note Records".
fn old_target(notes: &[Note<'_>]) -> Target {
    let note = notes.iter().find(|n| n.owner == b"AMD" && n.kind == ISA_VERSION);
    let numbers = note.and_then(|n| n.bytes.get(4..16)).unwrap_or_default().chunks_exact(4);
    let numbers: Vec<u32> = numbers.map(|c| c.iter().rev().fold(0, |n, &b| n << 8 | u32::from(b))).collect();
    let [major, minor, stepping] = numbers[..] else {
        return Target {
            processor: "mach-0x0".to_owned(),
            xnack: Setting::Unsupported,
            sramecc: Setting::Unsupported,
            generic_version: 0,
        };
    };
    // An odd stepping of the ninth generation is the processor before it with xnack on; two others had it always.
    let odd = major == 9 && minor == 0 && stepping < 8 && stepping % 2 == 1;
    let stepping = match (major, minor, stepping) {
        (8, 0, 0) => 2,
        (8, 0, 4) => 3,
        (9, 0, 1 | 3 | 5 | 7) => stepping - 1,
        _ => stepping,
    };
    let name = format!("gfx{major}{minor}{stepping:x}");
    let known = Target::parse(&name).ok();
    let on = odd || (major == 8 && matches!((minor, stepping), (0, 1) | (1, 0)));
    let supported = |setting: fn(&Target) -> Setting| known.as_ref().is_some_and(|t| setting(t) == Setting::Any);
    Target {
        xnack: Setting::from_bit(supported(|t| t.xnack), on),
        sramecc: Setting::from_bit(supported(|t| t.sramecc), false),
        processor: name,
        generic_version: 0,
    }
}

#[cfg(test)]
mod tests;
