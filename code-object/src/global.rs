//! What a code object has besides kernels: variables, and functions whose address is known outside of the code.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::elf::{Image, Names, RELATIVE64, STT_FUNC, STT_NOTYPE, STT_OBJECT, Symbol};
use crate::error::Result;
use crate::kernel::Kernel;

/// A variable of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its symbol.
    pub name: String,
    /// Its address before the code object is loaded; 0 for one that is defined elsewhere.
    pub address: u64,
    /// In bytes.
    pub size: u64,
    /// What it is.
    pub kind: GlobalKind,
    /// True when the runtime can find it by its name.
    pub exported: bool,
    /// True when a relocation that is done at load time names it. Assemblers leave undefined symbols behind that nothing
    /// refers to, and no runtime asks for those.
    pub relocated: bool,
}

/// What a symbol of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GlobalKind {
    /// A variable in memory that can be written. HIP's `__constant__` variables, which the host writes, are here too.
    Variable,
    /// In memory that is constant once the code object is loaded: tables of constants, of virtual functions.
    Constant,
    /// The loader of the code object has to define it.
    External,
    /// A kernel's descriptor.
    Descriptor,
    /// Clang's mark of a compilation unit, `__hip_cuid_…`: no code reads it.
    CompilationUnitId,
    /// `threadIdx`, `blockIdx`, `blockDim` or `gridDim` of unoptimised HIP: an object without contents, which no code reads.
    Coordinates,
}

/// A function whose address is stored in memory when the code object is loaded.
///
/// Addresses that code computes relative to itself leave no relocation and are not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressTaken {
    /// Its symbol, if it has one.
    pub function: Option<String>,
    /// Where the address is stored, before the code object is loaded.
    pub at: u64,
    /// True in the global offset table, through which functions are called as well.
    pub in_got: bool,
}

/// The beginning of the mangled names of `__HIP_Coordinates<…>`'s parts. Source: HIP's `amd_hip_runtime.h`.
const HIP_COORDINATES: &str = "_ZN17__HIP_CoordinatesI";

/// The variables of a code object, each once, by address and name.
///
/// # Errors
/// When a table of relocations leads outside of the file.
pub(crate) fn globals(image: &Image<'_>, symbols: &[Symbol<'_>], kernels: &[Kernel]) -> Result<Vec<Global>> {
    let relocations = image.relocations()?;
    let relocated: HashSet<&[u8]> = relocations.iter().filter_map(|r| image.dynamic_symbol_name(r.symbol)).collect();
    let descriptors: HashSet<&str> = kernels.iter().map(|k| &*k.symbol).collect();
    let exported: HashSet<&str> = symbols.iter().filter(|s| s.exported && !s.undefined).map(|s| s.name).collect();
    let mut globals: BTreeMap<(u64, &str), Global> = BTreeMap::new();
    for symbol in symbols.iter().filter(|s| s.kind == STT_OBJECT || s.undefined && s.kind == STT_NOTYPE && s.exported) {
        let kind = match symbol.name {
            _ if symbol.undefined => GlobalKind::External,
            name if descriptors.contains(name) => GlobalKind::Descriptor,
            name if name.starts_with("__hip_cuid_") => GlobalKind::CompilationUnitId,
            name if name.starts_with(HIP_COORDINATES) => GlobalKind::Coordinates,
            _ if !exported.contains(symbol.name) && image.memory(symbol.address).is_some_and(|m| !m.writable) => {
                GlobalKind::Constant
            }
            _ => GlobalKind::Variable,
        };
        let global = globals.entry((symbol.address, symbol.name)).or_insert_with(|| Global {
            name: symbol.name.to_owned(),
            address: symbol.address,
            size: symbol.size,
            kind,
            exported: false,
            relocated: relocated.contains(symbol.name.as_bytes()),
        });
        global.exported |= symbol.exported;
    }
    Ok(globals.into_values().collect())
}

/// The kinds of relocations that store an address of 64 bits, or half of one. Source: AMDGPUUsage, "AMDGPU ELF
/// Relocation Records".
const ABSOLUTE: &[u32] = &[1, 2, 3, 6];

/// The functions whose address is stored when the code object is loaded.
///
/// # Errors
/// When a table of relocations leads outside of the file.
pub(crate) fn address_taken(image: &Image<'_>, symbols: &[Symbol<'_>]) -> Result<Vec<AddressTaken>> {
    let relocations = image.relocations()?;
    if relocations.is_empty() {
        return Ok(Vec::new());
    }
    let functions: HashMap<u64, &str> =
        symbols.iter().filter(|s| s.kind == STT_FUNC && !s.undefined).map(|s| (s.address, s.name)).collect();
    let (mut taken, mut names) = (Vec::new(), Names::of(image));
    for relocation in relocations {
        let base = match relocation.kind {
            RELATIVE64 => Some(0),
            kind if ABSOLUTE.contains(&kind) => image.dynamic_symbol(relocation.symbol),
            _ => None,
        };
        let Some(address) = base.map(|base| base.wrapping_add_signed(relocation.addend)) else { continue };
        if image.memory(address).is_some_and(|m| m.executable) {
            let function = functions.get(&address).copied();
            names.count(function.unwrap_or_default().as_bytes())?;
            taken.push(AddressTaken {
                function: function.map(str::to_owned),
                at: relocation.at,
                in_got: image.memory(relocation.at).is_some_and(|m| m.got),
            });
        }
    }
    taken.sort_by_key(|t| t.at);
    Ok(taken)
}
