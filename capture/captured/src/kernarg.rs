//! The kernarg segment of a replay: the captured bytes, with hidden arguments of this process's runtime.

use amdgpu_code_object::ValueKind;
use logdur_kernel_cache::{Fill, Interface, PacketFacts, Parameter, What};

use crate::error::{CapturedError, Result};

/// The captured bytes with the hidden arguments of a replay. `new_geometry` says that grid or workgroup are not the
/// captured ones; `captured` says whether an address is in memory that the replay restores.
///
/// # Errors
/// When the kernel is told of something that a replay does not have: by its name.
pub fn restored(
    captured: &[u8],
    interface: &Interface,
    facts: &PacketFacts,
    new_geometry: bool,
    in_memory: impl Fn(u64) -> bool,
) -> Result<Vec<u8>> {
    let mut segment = captured.to_vec();
    if segment.len() < interface.kernarg_size as usize {
        segment.resize(interface.kernarg_size as usize, 0);
    }
    for argument in interface.hidden() {
        let (start, end) = (argument.offset as usize, argument.end() as usize);
        let Some(bytes) = segment.get_mut(start..end) else {
            return Err(CapturedError::Unsupported(format!("{}: outside of the kernarg segment", argument.kind)));
        };
        let value = bytes.iter().rev().fold(0u64, |all, byte| all << 8 | u64::from(*byte));
        if let Some(new) = hidden(argument, value, facts, new_geometry, &in_memory)? {
            let new = new.to_le_bytes();
            bytes.iter_mut().zip(new).for_each(|(to, byte)| *to = byte);
        }
    }
    Ok(segment)
}

/// What a hidden argument is in a replay; `None` when it stays as it was.
fn hidden(
    argument: &Parameter,
    captured: u64,
    facts: &PacketFacts,
    new_geometry: bool,
    in_memory: &impl Fn(u64) -> bool,
) -> Result<Option<u64>> {
    let fill = |what| Fill { to: argument.offset, size: argument.size, what };
    match What::of(&argument.kind) {
        Some(what @ (What::Queue | What::PrivateBase | What::SharedBase)) => Ok(Some(fill(what).value(facts))),
        // OpenCL's offset is the application's choice, as is the LDS that it added.
        Some(What::GlobalOffset | What::DynamicLdsSize) => Ok(None),
        Some(what) => Ok(new_geometry.then(|| fill(what).value(facts))),
        None if captured == 0 => Ok(None),
        // What HIP gives to a cooperative launch on one GPU: no address, but that there is one.
        None if captured == 1 && argument.kind == ValueKind::HiddenMultigridSyncArg => Ok(None),
        // Plain memory, which kernels read and write by themselves.
        None => match argument.kind {
            ValueKind::HiddenHeapV1
            | ValueKind::HiddenMultigridSyncArg
            | ValueKind::HiddenPrintfBuffer
            | ValueKind::HiddenHostcallBuffer
                if in_memory(captured) =>
            {
                Ok(None)
            }
            _ => Err(CapturedError::Unsupported(format!("{} {captured:#x}", argument.kind))),
        },
    }
}

#[cfg(test)]
mod tests {
    use amdgpu_code_object::Target;
    use logdur_kernel_cache::LdsPointers;

    use super::*;

    /// A kernel with hidden arguments behind eight bytes of its own.
    fn interface(hidden: &[(&str, u32)]) -> Interface {
        let mut kernel = Interface::plain("k", Target::parse("gfx90a").unwrap());
        kernel.kernarg_size = 8;
        for &(kind, size) in hidden {
            let (offset, kind) = (kernel.kernarg_size, ValueKind::from_name(kind));
            kernel.arguments.push(Parameter { offset, size, kind, address_space: None, pointee_align: None });
            kernel.kernarg_size += size;
        }
        kernel
    }

    const FACTS: PacketFacts = PacketFacts {
        grid: [1000, 1, 1],
        workgroup: [64, 1, 1],
        dimensions: 1,
        private: 0,
        group: 0,
        original_group: 0,
        cooperative: false,
        queue: 0x7f00_0000_4000,
        private_base_hi: 1,
        shared_base_hi: 2,
        pointers: LdsPointers { least: u64::MAX, most: 0, misaligned: false },
    };

    #[test]
    fn queues_are_made_anew_and_geometry_only_when_it_is_another() {
        let kernel = interface(&[("hidden_queue_ptr", 8), ("hidden_block_count_x", 4), ("hidden_remainder_x", 2)]);
        let captured = vec![0x11; 22];
        let same = restored(&captured, &kernel, &FACTS, false, |_| false).unwrap();
        assert_eq!((&same[..8], &same[8..16]), (&captured[..8], &0x7f00_0000_4000u64.to_le_bytes()[..]));
        assert_eq!(same[16..], captured[16..]);
        let other = restored(&captured, &kernel, &FACTS, true, |_| false).unwrap();
        assert_eq!((&other[16..20], &other[20..22]), (&15u32.to_le_bytes()[..], &40u16.to_le_bytes()[..]));
    }

    #[test]
    fn what_a_replay_does_not_have_is_refused_by_name_unless_the_kernel_was_not_given_it() {
        let kernel = interface(&[("hidden_hostcall_buffer", 8)]);
        let refused = restored(&[0x11; 16], &kernel, &FACTS, false, |_| false).unwrap_err();
        assert_eq!(refused.to_string(), "unsupported: hidden_hostcall_buffer 0x1111111111111111");
        restored(&[0; 16], &kernel, &FACTS, false, |_| false).unwrap();
        restored(&[0x11; 16], &kernel, &FACTS, false, |_| true).unwrap();
        let heap = interface(&[("hidden_heap_v1", 8)]);
        restored(&[0x11; 16], &heap, &FACTS, false, |_| true).unwrap();
        restored(&[0x11; 16], &heap, &FACTS, false, |_| false).unwrap_err();
        let mut given = [0; 16];
        given[8] = 1;
        let grid = interface(&[("hidden_multigrid_sync_arg", 8)]);
        restored(&given, &grid, &FACTS, false, |_| false).unwrap();
        restored(&[0x11; 16], &grid, &FACTS, false, |_| false).unwrap_err();
        restored(&[0x11; 16], &interface(&[("hidden_unheard_of", 8)]), &FACTS, false, |_| true).unwrap_err();
    }
}
