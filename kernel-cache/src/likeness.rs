//! How much two kernels of one name are alike: which of several in an application another one was made for.

use std::cell::OnceCell;
use std::collections::BTreeSet;

use amdgpu_code_object::{CodeObject, DataKind, Image};
use amdgpu_isa::Decoder;
use amdgpu_isa::flow::{WORD, first};
use amdgpu_isa::operand::Operand;

use crate::hash::Hash;
use crate::interface::Interface;
use crate::variables::arch;

/// The instructions of a kernel in its code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KernelCode {
    /// The beginning of their hash.
    pub hash: u64,
    /// Where they are in the file.
    pub offset: u64,
    /// Their bytes.
    pub size: u64,
    /// The beginning of the hash of the code object's constant data, if they make addresses; else 0.
    pub data: u64,
}

impl KernelCode {
    /// Of the kernels of a code object, in the order of its metadata; `None` where there is no code.
    pub fn of(object: &CodeObject, image: &Image<'_>) -> Vec<Option<KernelCode>> {
        let all = image.kernel_code(object).unwrap_or_default();
        let data = OnceCell::new();
        let of_one = |(offset, code): (u64, &[u8])| KernelCode {
            hash: beginning(code),
            offset,
            size: code.len() as u64,
            data: if makes_addresses(code) {
                *data.get_or_init(|| beginning(&constant_data(object, image)))
            } else {
                0
            },
        };
        all.into_iter().map(|code| code.map(of_one)).collect()
    }
}

fn beginning(bytes: &[u8]) -> u64 {
    Hash::of(bytes).as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// True if one of the words may be an `s_getpc_b64`. Source: the ISA manuals of Vega, RDNA 1 and RDNA 3, "SOP1".
fn makes_addresses(code: &[u8]) -> bool {
    let words =
        code.chunks_exact(WORD).map(|word| word.iter().rev().fold(0_u32, |all, byte| all << 8 | u32::from(*byte)));
    words.filter(|word| word & 0xff80_00ff == 0xbe80_0000).any(|word| matches!(word >> 8 & 0xff, 0x1c | 0x1f | 0x47))
}

/// The constant data of a code object without its descriptors, which depend on where code is, and on its other kernels.
fn constant_data(object: &CodeObject, image: &Image<'_>) -> Vec<u8> {
    let mut all = Vec::new();
    for range in image.data().iter().filter(|range| range.kind == DataKind::Constant) {
        let descriptors = object.kernels.iter().filter_map(|kernel| kernel.descriptor.as_ref());
        let offsets = descriptors.filter_map(|kernel| usize::try_from(kernel.address.checked_sub(range.start)?).ok());
        let offsets: BTreeSet<usize> = offsets.collect();
        let mut from = 0;
        for at in offsets {
            all.extend_from_slice(range.bytes.get(from..at).unwrap_or_default());
            from = at.saturating_add(DESCRIPTOR);
        }
        all.extend_from_slice(range.bytes.get(from..).unwrap_or_default());
    }
    all
}

/// Bytes of a kernel descriptor. Source: AMDGPUUsage, "Kernel Descriptor".
const DESCRIPTOR: usize = 64;

/// What two kernels of one name are compared by.
#[derive(Clone, Debug)]
pub struct Likeness {
    /// What a swap depends on.
    pub interface: Interface,
    /// Its instructions, where they are known.
    pub code: Option<KernelCode>,
    /// The constants in its instructions, in their order; `None` if its instructions are not known.
    pub constants: Option<Vec<u32>>,
}

impl Likeness {
    /// True for kernels that do the same: of equal instructions and descriptors.
    pub fn is_same(&self, other: &Likeness) -> bool {
        let code = |of: &Likeness| of.code.map(|code| (code.hash, code.size, code.data));
        code(self).is_some() && code(self) == code(other) && described(&self.interface) == described(&other.interface)
    }

    /// How much both agree, from 0 to 1: in equal parts by what descriptors say, by the sizes of code, by constant data, and by constants if
    /// `with_constants`.
    pub fn agreement(&self, other: &Likeness, with_constants: bool) -> f64 {
        let pairs = || described(&self.interface).into_iter().zip(described(&other.interface));
        let equal = pairs().filter(|(one, other)| one == other).count();
        let mut parts = vec![equal as f64 / pairs().count() as f64];
        if let (Some(one), Some(other)) = (self.code, other.code) {
            parts.push(one.size.min(other.size) as f64 / one.size.max(other.size).max(1) as f64);
            if one.data != 0 || other.data != 0 {
                parts.push(if one.data == other.data { 1.0 } else { 0.0 });
            }
        }
        if let (Some(one), Some(other)) = (self.constants.as_deref(), other.constants.as_deref())
            && with_constants
        {
            parts.push(in_common(one, other));
        }
        parts.iter().sum::<f64>() / parts.len() as f64
    }
}

/// What the descriptor and the metadata say of a kernel's needs.
fn described(of: &Interface) -> [u64; 13] {
    let [x, y, z] = of.required_workgroup_size.unwrap_or_default().map(u64::from);
    [
        of.kernarg_size.into(),
        of.group_size.into(),
        of.private_size.into(),
        of.max_flat_workgroup_size.into(),
        x << 42 | y << 21 | z,
        of.uniform_workgroup_size.into(),
        of.uses_dynamic_stack.into(),
        of.preload.0.into(),
        of.sgprs.into(),
        of.vgprs.into(),
        of.agprs.into(),
        of.float_mode.map_or(u64::MAX, u64::from),
        of.wavefront_size.into(),
    ]
}

/// The constants of a kernel's instructions, in their order; `None` for instructions that are not known here.
pub fn constants(interface: &Interface, code: &[u8]) -> Option<Vec<u32>> {
    let decoder = Decoder::new(arch(&interface.target)?);
    let (mut found, mut rest) = (Vec::new(), code);
    while !rest.is_empty() {
        let (words, inst) = first(&decoder, rest);
        rest = rest.get((words.words().len() * WORD).max(1)..).unwrap_or_default();
        let Ok(inst) = inst else { continue };
        // What says how the operands are used counts, too: 3 as a factor is not 3 as a distance.
        for source in inst.src {
            match source {
                Operand::LITERAL => found.push(inst.literal),
                Operand(inline) if INLINE.contains(&inline) => found.push(u32::from(inline)),
                _ => {}
            }
        }
        // A jump's distance depends on everything that is jumped over.
        if inst.imm != 0 && inst.target(0).is_none() {
            found.push(inst.imm as u32);
        }
    }
    found.sort_unstable();
    Some(found)
}

/// Operands that are constants. Source: Vega ISA manual, "Scalar Operands": integers from -16 to 64, and some floating-point numbers.
const INLINE: std::ops::RangeInclusive<u16> = 128..=248;

/// The share of two sorted lists that both have: of all in either.
fn in_common(one: &[u32], other: &[u32]) -> f64 {
    let count = |of: &[u32], value: &u32| of.partition_point(|v| v <= value) - of.partition_point(|v| v < value);
    let values: BTreeSet<&u32> = one.iter().chain(other).collect();
    let both: usize = values.iter().map(|value| count(one, value).min(count(other, value))).sum();
    let all = one.len() + other.len() - both;
    if all == 0 { 1.0 } else { both as f64 / all as f64 }
}

/// The number of the original that a candidate agrees with best; `None` if several do.
pub fn best(originals: &[Likeness], candidate: &Likeness) -> Option<usize> {
    // What is not known of one is no reason for or against another.
    let with_constants = candidate.constants.is_some() && originals.iter().all(|original| original.constants.is_some());
    let agreements: Vec<f64> = originals.iter().map(|original| original.agreement(candidate, with_constants)).collect();
    let most = agreements.iter().copied().fold(0.0, f64::max);
    let mut found = agreements.iter().enumerate().filter(|(_, agreement)| most - **agreement < 1e-9).map(|(n, _)| n);
    found.next().filter(|_| found.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_alike_by_what_both_have_each_as_often_as_it_is_there() {
        assert!((in_common(&[], &[]) - 1.0).abs() < 1e-9);
        assert!((in_common(&[1, 2, 2, 3], &[2, 2, 2, 3]) - 3.0 / 5.0).abs() < 1e-9);
        assert!(in_common(&[1], &[2]).abs() < 1e-9);
    }
}
