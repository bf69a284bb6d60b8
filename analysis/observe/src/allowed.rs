//! Memory that a dispatch may access beside its regions.

use std::ops::Range;

use amdgpu_emu::launch::Launch;

/// The page of arguments that a replay gives to a dispatch.
const KERNARG: u32 = 4096;
/// Bytes of the queue's structure, which kernels may read. Source: `amd_queue.h`.
const QUEUE: u64 = 256;

/// Allocations that the application divides itself, and the parts of them that the dispatch may access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divided {
    /// The allocations.
    pub allocations: Vec<Range<u64>>,
    /// The parts. One access is in one of them, also where they touch.
    pub parts: Vec<Range<u64>>,
}

/// What the packet of a dispatch leads to: arguments, the packet itself, the queue.
pub(crate) fn implicit(launch: &Launch) -> [Range<u64>; 3] {
    let own = |at: u64, bytes: u64| at..at.saturating_add(bytes);
    [
        own(launch.kernarg_address, launch.descriptor.kernarg_size.max(KERNARG).into()),
        own(launch.packet_address, 64),
        own(launch.queue_address, QUEUE),
    ]
}
