//! The fields of a dispatch packet that a swap checks or changes.

use crate::interface::Interface;
use crate::kernarg::Kernarg;
use crate::target;

/// The fields of a dispatch's packet and its queue. Sizes are in bytes, shapes in work-items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFacts {
    /// The grid.
    pub grid: [u32; 3],
    /// A complete workgroup.
    pub workgroup: [u16; 3],
    /// Dimensions of the grid.
    pub dimensions: u16,
    /// Scratch of a work-item.
    pub private: u32,
    /// LDS of a workgroup.
    pub group: u32,
    /// LDS that the original declares, in bytes: the packet's LDS beyond it is dynamic.
    pub original_group: u32,
    /// True on a queue whose workgroups all run at once: `HSA_QUEUE_TYPE_COOPERATIVE`.
    pub cooperative: bool,
    /// Address of the queue's structure, `amd_queue_t`.
    pub queue: u64,
    /// `private_segment_aperture_base_hi` of `amd_queue_t`.
    pub private_base_hi: u32,
    /// `group_segment_aperture_base_hi` of `amd_queue_t`.
    pub shared_base_hi: u32,
    /// The arguments that are offsets into dynamic LDS, if the swap moves them.
    pub pointers: LdsPointers,
}

/// The arguments of a dispatch that are offsets into dynamic LDS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LdsPointers {
    /// The least offset.
    pub least: u64,
    /// The greatest one.
    pub most: u64,
    /// True if one is not aligned as the candidate needs it.
    pub misaligned: bool,
}

impl Default for LdsPointers {
    fn default() -> LdsPointers {
        LdsPointers { least: u64::MAX, most: 0, misaligned: false }
    }
}

/// How Triton launches a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Dynamic LDS of a workgroup, in bytes.
    pub group: u32,
    /// Work-items of a workgroup.
    pub work_items: u32,
}

/// The conditions on a packet for a swap, and the changes of its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// LDS that the original was compiled for.
    pub original_group: u32,
    /// LDS that the candidate was compiled for; where offsets into dynamic LDS move, with what their alignment adds.
    pub candidate_group: u32,
    /// LDS that a workgroup of the processor can have.
    pub group_limit: u32,
    /// Scratch of a work-item that the original was compiled for.
    pub original_private: u32,
    /// Scratch of a work-item that the candidate was compiled for.
    pub candidate_private: u32,
    /// Scratch that a work-item can have.
    pub private_limit: u32,
    /// True when the packet's scratch has room for a dynamic stack.
    pub dynamic_stack: bool,
    /// Room for the candidate's own dynamic stack.
    pub added_stack: u32,
    /// The most work-items of a workgroup, where the original allows more.
    pub max_flat_workgroup_size: Option<u32>,
    /// The only shape of workgroups that is right, where the original takes others.
    pub required_workgroup_size: Option<[u32; 3]>,
    /// True when workgroups have to be complete, and the original's need not.
    pub complete_workgroups: bool,
    /// True when fewer workgroups might run at once than of the original.
    pub may_run_fewer: bool,
    /// How the candidate is launched, where that is given.
    pub launch: Option<Launch>,
}

/// Scratch that HIP's runtime gives to a work-item of a kernel with a dynamic stack, in bytes, unless the application sets
/// `hipLimitStackSize` or the kernel itself needs more. Here it is added to what the kernel itself needs. Source: ROCm's clr,
/// `StackSize()` in `rocvirtual.cpp`; LLVM's plugin for OpenMP has the same number.
const DYNAMIC_STACK: u32 = 1024;

impl Limits {
    pub(crate) fn of(original: &Interface, candidate: &Interface, kernarg: &Kernarg) -> Limits {
        let resources = |i: &Interface| [i.vgprs, i.agprs, i.sgprs, i.group_size, i.private_size];
        let more = |(c, o)| c > o;
        Limits {
            original_group: original.group_size,
            candidate_group: original.group_size.saturating_add_signed(kernarg.moved_by()).max(candidate.group_size),
            group_limit: target::group_limit(&original.target.processor),
            original_private: original.private_size,
            candidate_private: candidate.private_size,
            private_limit: target::private_limit(candidate.wavefront_size),
            dynamic_stack: original.uses_dynamic_stack,
            added_stack: 0,
            max_flat_workgroup_size: Some(candidate.max_flat_workgroup_size)
                .filter(|&most| most < original.max_flat_workgroup_size),
            required_workgroup_size: candidate
                .required_workgroup_size
                .filter(|_| original.required_workgroup_size.is_none()),
            complete_workgroups: candidate.uniform_workgroup_size && !original.uniform_workgroup_size,
            may_run_fewer: resources(candidate).into_iter().zip(resources(original)).any(more),
            launch: None,
        }
    }

    /// The candidate has a dynamic stack. A packet has room for it if the original has one too.
    pub(crate) fn add_stack(&mut self, original: &Interface) {
        self.added_stack = DYNAMIC_STACK;
        self.may_run_fewer |= !original.uses_dynamic_stack;
    }

    /// LDS of a swapped packet: what was added to the original's is added to the candidate's, and not less than it is
    /// launched with otherwise.
    pub(crate) fn group(&self, facts: &PacketFacts) -> u64 {
        let dynamic = facts.group.saturating_sub(self.original_group);
        u64::from(self.candidate_group) + u64::from(dynamic.max(self.launch.map_or(0, |launch| launch.group)))
    }

    /// Scratch of a swapped packet: never less than the packet's, and with the same room for a dynamic stack.
    pub(crate) fn private(&self, facts: &PacketFacts) -> u64 {
        let has_room = facts.private.saturating_sub(self.original_private);
        let room = self.added_stack.max(if self.dynamic_stack { has_room } else { 0 });
        u64::from(facts.private).max(u64::from(self.candidate_private) + u64::from(room))
    }
}
