//! A code object as a loader puts it into memory.
//!
//! Source: AMDGPUUsage, "AMDGPU ELF Relocation Records"; the loader puts all segments at the distances that they have in the
//! file, so that code finds its data.

use std::ops::Range;

use crate::elf::{Image, RELATIVE64};
use crate::error::{Result, Unreadable};

/// A code object in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// The address in the file that is where the memory begins.
    pub first: u64,
    /// The memory.
    pub bytes: Vec<u8>,
}

/// More than any code object has: its variables are large at most.
const MOST: u64 = 4 << 30;

/// A kind of relocation: its number, of the value how many bits are left out, how many bytes are stored, and whether the value
/// is a distance.
type Kind = (u32, u32, usize, bool);

/// `R_AMDGPU_ABS32_LO`, `ABS32_HI`, `ABS64`, `REL32`, `REL64`, `ABS32`, `REL32_LO`, `REL32_HI`, `RELATIVE64`.
const KINDS: &[Kind] = &[
    (1, 0, 4, false),
    (2, 32, 4, false),
    (3, 0, 8, false),
    (4, 0, 4, true),
    (5, 0, 8, true),
    (6, 0, 4, false),
    (10, 0, 4, true),
    (11, 32, 4, true),
    (RELATIVE64, 0, 8, false),
];

/// `R_AMDGPU_NONE`.
const NONE: u32 = 0;

/// Lays out a code object for an address. `define` gives the addresses of what it does not define itself.
///
/// # Errors
/// When it is damaged, when it wants more than 4 GiB, when a relocation is of a kind that loaders do not do, and when it needs
/// a symbol that is not there.
pub fn load(bytes: &[u8], base: u64, define: impl Fn(&str) -> Option<u64>) -> Result<Loaded> {
    const WHAT: &str = "code object";
    let image = Image::parse(bytes)?;
    let Range { start: first, end } =
        image.extent().ok_or_else(|| Unreadable::unexpected(WHAT, 0, "segments to load", "none"))?;
    if end - first > MOST {
        return Err(Unreadable::TooLarge { what: "segments", at: first, limit: MOST, found: end - first });
    }
    let mut memory = vec![0; (end - first) as usize];
    for (address, segment) in image.loaded()? {
        if let Some(to) = memory.get_mut((address - first) as usize..).and_then(|m| m.get_mut(..segment.len())) {
            to.copy_from_slice(segment);
        }
    }
    let moved = base.wrapping_sub(first);
    for relocation in image.relocations()? {
        if relocation.kind == NONE {
            continue;
        }
        let at = relocation.at;
        let unknown =
            || Unreadable::unexpected("relocation", at, "a kind that loaders know", relocation.kind.to_string());
        let known = KINDS.iter().find(|(number, ..)| *number == relocation.kind);
        let &(_, shift, size, is_distance) = known.ok_or_else(unknown)?;
        let symbol = match relocation.symbol {
            _ if relocation.kind == RELATIVE64 => moved,
            0 => moved,
            _ => {
                let defined = image.dynamic_symbol(relocation.symbol).map(|address| address.wrapping_add(moved));
                let name = image.dynamic_symbol_name(relocation.symbol).unwrap_or_default();
                let name = String::from_utf8_lossy(name);
                let found = defined.or_else(|| define(&name));
                found
                    .ok_or_else(|| Unreadable::unexpected("relocation", at, format!("an address of {name}"), "none"))?
            }
        };
        let mut value = symbol.wrapping_add_signed(relocation.addend);
        if is_distance {
            value = value.wrapping_sub(at.wrapping_add(moved));
        }
        let stored = (value >> shift).to_le_bytes();
        let to = at.checked_sub(first).and_then(|at| memory.get_mut(at as usize..)?.get_mut(..size));
        let to = to.ok_or_else(|| Unreadable::unexpected("relocation", at, "an address of a segment", "none"))?;
        to.iter_mut().zip(stored).for_each(|(to, byte)| *to = byte);
    }
    Ok(Loaded { first, bytes: memory })
}
