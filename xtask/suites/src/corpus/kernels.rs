//! The kernels of a code object and what the emulator's tables lack of their instructions.

use std::collections::{BTreeMap, HashMap};

use amdgpu_isa::action::Action;
use amdgpu_isa::decode::length;
use amdgpu_isa::{Arch, Decoder};
use anyhow::{Context, Result};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SymbolKind};

pub(super) type Elf<'a> = ElfFile64<'a, Endianness>;

/// One kernel, or one function.
#[derive(Default)]
pub(super) struct Code {
    pub(super) instructions: u64,
    /// One example of each reason.
    pub(super) refused: BTreeMap<String, [u32; 2]>,
    /// It calls functions: what is called counts too.
    calls: bool,
}

/// The processor that a code object is for, if the tables know it.
pub(super) fn arch(file: &Elf<'_>) -> Option<Arch> {
    Arch::of_machine(file.elf_header().e_flags.get(file.endian()).0 as u8)
}

/// Reads every kernel of a code object.
///
/// # Errors
/// When its symbols lead outside of it.
pub(super) fn read(file: &Elf<'_>, decoder: &Decoder) -> Result<Vec<Code>> {
    let (mut entries, mut functions) = (Vec::new(), HashMap::new());
    for symbol in file.symbols().chain(file.dynamic_symbols()).filter(|s| !s.is_undefined()) {
        let name = symbol.name().unwrap_or_default();
        if symbol.kind() == SymbolKind::Text {
            functions.insert(symbol.address(), symbol.size());
        } else if name.ends_with(".kd") && symbol.size() == 64 {
            // From the descriptor to the first instruction. Source: AMDGPUUsage, "Kernel Descriptor".
            let bytes = data(file, symbol.address() + 16, Some(8)).with_context(|| format!("the descriptor {name}"))?;
            let distance = u64::from_le_bytes(bytes.try_into().context("eight bytes")?);
            entries.push(symbol.address().wrapping_add(distance));
        }
    }
    // Both tables of symbols have them.
    entries.sort_unstable();
    entries.dedup();
    // Labels within hand-written kernels are symbols as well, of no kind.
    let mut starts: Vec<u64> = functions.keys().chain(&entries).copied().collect();
    starts.sort_unstable();
    let code = |start: u64| {
        // Hand-written assembly may not say how long it is: it ends where the next symbol begins.
        let size = functions.get(&start).copied().filter(|&size| size != 0);
        let next = starts.get(starts.partition_point(|&other| other <= start)).map(|next| next - start);
        let bytes = data(file, start, size.or(next)).with_context(|| format!("code at {start:#x}"))?;
        Ok::<_, anyhow::Error>(decode(bytes, decoder))
    };
    let mut kernels = entries.iter().map(|&e| code(e)).collect::<Result<Vec<_>>>()?;
    if kernels.iter().any(|k| k.calls) {
        let mut called = Code::default();
        for &function in functions.keys().filter(|f| !entries.contains(f)) {
            called.refused.extend(code(function)?.refused);
        }
        for kernel in kernels.iter_mut().filter(|k| k.calls) {
            kernel.refused.extend(called.refused.clone());
        }
    }
    Ok(kernels)
}

/// Bytes from an address on: so many, or to the end of the section.
fn data<'a>(file: &Elf<'a>, address: u64, size: Option<u64>) -> Result<&'a [u8]> {
    let within = |s: &object::read::elf::ElfSection64<'_, '_, object::Endianness>| {
        (s.address()..s.address() + s.size()).contains(&address) && s.address() != 0
    };
    let section = file.sections().find(within).with_context(|| format!("no section has address {address:#x}"))?;
    let rest = section.address() + section.size() - address;
    let found = section.data_range(address, size.unwrap_or(rest).min(rest))?;
    found.with_context(|| format!("address {address:#x} is not in the file"))
}

fn decode(bytes: &[u8], decoder: &Decoder) -> Code {
    let words: Vec<u32> = bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    let (mut code, mut at) = (Code::default(), 0);
    while at < words.len() {
        code.instructions += 1;
        at += match decoder.decode(&words[at..]) {
            Ok(inst) => {
                code.calls |= inst.op.action == Action::Call;
                usize::from(inst.size) / 4
            }
            Err(why) => {
                let pair = [words[at], words.get(at + 1).copied().unwrap_or_default()];
                code.refused.entry(why.to_string()).or_insert(pair);
                length(pair[0])
            }
        };
    }
    code
}
