//! What a kernel may write, as far as the metadata of its arguments says.

use std::ops::Range;
use std::sync::Arc;

use crate::kernel::{Access, AddressSpace, Argument};
use crate::value_kind::ValueKind;

/// Bytes of an address.
const ADDRESS: usize = 8;

/// What of the memory that an argument leads to a kernel may write, as far as its metadata says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MayWrite {
    /// All of it.
    All,
    /// Not what the argument points to, but what addresses in that lead to.
    Behind,
    /// Nothing: what the argument points to is only read, and has no addresses in it.
    Nothing,
}

/// Element types of OpenCL C that hold no address, without the number of elements of a vector.
const WITHOUT_ADDRESSES: &[&str] =
    &["char", "uchar", "short", "ushort", "int", "uint", "half", "float", "double", "bool"];

impl Argument {
    /// What a kernel may write of the memory that this argument leads to.
    ///
    /// Nothing writes memory of the constant address space while a kernel runs (AMDGPUUsage, "Address Spaces"). The compiler says
    /// `read_only` of a pointer that it found no store through, and that is `noalias`. Of what is only room the kernel takes nothing.
    /// Grids of several GPUs meet by memory that is behind a constant, often among the arguments of other dispatches (ROCm's device libraries,
    /// `ockl/src/cg.c`).
    pub fn may_write(&self) -> MayWrite {
        match self.kind {
            ValueKind::HiddenNone => return MayWrite::Nothing,
            ValueKind::HiddenMultigridSyncArg => return MayWrite::Behind,
            _ => {}
        }
        let is_read = |access: &Option<Access>| *access == Some(Access::ReadOnly);
        let is_constant = self.address_space == Some(AddressSpace::Constant);
        let is_only_read = is_constant || is_read(&self.access) || is_read(&self.actual_access);
        if self.kind != ValueKind::GlobalBuffer || !is_only_read {
            return MayWrite::All;
        }
        let element = self.type_name.as_deref().and_then(|name| name.strip_suffix('*')).unwrap_or_default();
        let element = element.trim_end_matches(|c: char| c.is_ascii_digit());
        if WITHOUT_ADDRESSES.contains(&element) { MayWrite::Nothing } else { MayWrite::Behind }
    }
}

/// Where the arguments of a kernel are in its segment, and what of the memory that each leads to the kernel may write. None are known of a
/// kernel whose metadata lists none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments(Arc<[(Range<usize>, MayWrite)]>);

impl Arguments {
    /// Of these arguments.
    pub fn of(arguments: &[Argument]) -> Arguments {
        let place = |of: &Argument| of.offset as usize..(of.offset as usize).saturating_add(of.size as usize);
        Arguments(arguments.iter().map(|of| (place(of), of.may_write())).collect())
    }

    /// What the kernel may write of the memory that the word at an offset leads to. Two arguments may be an address together, but not with
    /// one through which the kernel only reads; and what is left of another launch in bytes that are no arguments is none.
    pub fn may_write(&self, offset: usize) -> MayWrite {
        let word = offset..offset.saturating_add(ADDRESS);
        if let Some((_, what)) = self.0.iter().find(|(place, _)| *place == word) {
            return *what;
        }
        let is_whole = |at: usize| self.0.iter().any(|(place, what)| *what == MayWrite::All && place.contains(&at));
        if self.0.is_empty() || word.clone().all(is_whole) { MayWrite::All } else { MayWrite::Nothing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pointer(type_name: &str) -> Argument {
        Argument {
            name: None,
            type_name: Some(type_name.to_owned()).filter(|name| !name.is_empty()),
            offset: 0,
            size: 8,
            kind: ValueKind::GlobalBuffer,
            align: None,
            value_type: None,
            pointee_align: None,
            address_space: Some(AddressSpace::Global),
            access: None,
            actual_access: None,
            is_const: true,
            is_restrict: true,
            is_volatile: false,
            is_pipe: false,
            unknown: Vec::new(),
        }
    }

    #[test]
    fn what_a_kernel_may_write_follows_from_what_is_proven_of_a_pointer_and_not_from_what_the_source_wishes() {
        assert_eq!(pointer("uchar*").may_write(), MayWrite::All, "const can be cast away");
        let constant = |name| Argument { address_space: Some(AddressSpace::Constant), ..pointer(name) };
        let read = |name| Argument { access: Some(Access::ReadOnly), ..pointer(name) };
        let actual = |name| Argument { actual_access: Some(Access::ReadOnly), ..pointer(name) };
        for only_read in [constant, read, actual] {
            for name in ["uchar*", "float4*", "double16*", "int*"] {
                assert_eq!(only_read(name).may_write(), MayWrite::Nothing, "{name}");
            }
            for name in ["", "ulong*", "struct table*", "uchar**", "uchar", "4*"] {
                assert_eq!(only_read(name).may_write(), MayWrite::Behind, "{name}");
            }
        }
        let written = Argument { actual_access: Some(Access::WriteOnly), ..pointer("uchar*") };
        assert_eq!(written.may_write(), MayWrite::All);
        let value = Argument { kind: ValueKind::ByValue, ..constant("uchar*") };
        assert_eq!(value.may_write(), MayWrite::All);
        let room = Argument { kind: ValueKind::HiddenNone, ..pointer("") };
        assert_eq!(room.may_write(), MayWrite::Nothing);
        let hidden = |kind| Argument { kind, address_space: None, ..pointer("") }.may_write();
        assert_eq!(hidden(ValueKind::HiddenMultigridSyncArg), MayWrite::Behind);
        assert_eq!(hidden(ValueKind::HiddenHostcallBuffer), MayWrite::All);
    }

    #[test]
    fn words_are_followed_where_arguments_are_and_not_where_another_launch_has_left_something() {
        let all = [(0..8, MayWrite::Nothing), (8..16, MayWrite::All), (16..20, MayWrite::All), (32..56, MayWrite::All)];
        let arguments = Arguments(all.into());
        // A structure may have an address anywhere.
        let followed: Vec<usize> = (0..60).filter(|at| arguments.may_write(*at) == MayWrite::All).collect();
        assert_eq!(followed, [(8..=12).collect(), (32..=48).collect::<Vec<usize>>()].concat());
        assert!((0..60).all(|at| Arguments::default().may_write(at) == MayWrite::All), "nothing is known");
    }
}
