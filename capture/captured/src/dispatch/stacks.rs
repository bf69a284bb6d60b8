//! Memory for the stacks of threads, where the compiler has them in memory of the GPU instead of in scratch.

use std::ops::Range;

use amdgpu_code_object::Image;

use super::CapturedDispatch;

/// Of GCC's kernel arguments, the first byte of the address of the stacks and of the size of one: `stack_ptr` and
/// `stack_size_per_thread`. Source: `struct kernargs_abi` of `libgomp/config/gcn/libgomp-gcn.h`, GCC 13 and later.
const STACKS: (usize, usize) = (40, 52);
/// Work-items of a thread of OpenMP: a wave.
const LANES: u64 = 64;
/// How the compiler signs in the section `.comment`.
const SIGNED: &[u8] = b"GCC: (";

impl CapturedDispatch<'_> {
    /// The stacks of a kernel's threads, if GCC compiled it: dead memory once the kernel has ended.
    ///
    /// GCC has no stacks in scratch. The host's library allocates one for each wave and passes their address. A thread saves registers
    /// there, also those that nothing has been written to.
    pub fn stacks(&self) -> Option<Range<u64>> {
        let kernel = &self.original.kernel;
        if kernel.told_kernarg_bytes().is_some() || !is_signed(&self.original.bytes) {
            return None;
        }
        let bytes = |at: usize| self.dispatch.kernarg.get(at..);
        let start = u64::from_le_bytes(*bytes(STACKS.0)?.first_chunk()?);
        let size = u32::from_le_bytes(*bytes(STACKS.1)?.first_chunk()?);
        let packet = self.packet();
        let groups = packet.grid_size().into_iter().zip(packet.workgroup_size());
        let groups = groups.map(|(grid, group)| u64::from(grid.div_ceil(u32::from(group).max(1))));
        let items: u64 = packet.workgroup_size().into_iter().map(u64::from).product();
        let threads = groups.product::<u64>().checked_mul(items.div_ceil(LANES))?;
        let end = start.checked_add(threads.checked_mul(size.into())?)?;
        let holds = |base: u64, size: u64| base <= start && start < end && end <= base.saturating_add(size);
        self.allocations.iter().any(|a| holds(a.base, a.size)).then_some(start..end)
    }
}

/// True for a code object with code that GCC made.
fn is_signed(bytes: &[u8]) -> bool {
    let Ok(image) = Image::parse(bytes) else { return false };
    image.section(".comment").is_ok_and(|comment| comment.windows(SIGNED.len()).any(|part| part == SIGNED))
}
