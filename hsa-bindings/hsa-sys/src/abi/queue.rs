//! The part of a queue that the GPU reads and writes. Source: `amd_hsa_queue.h`.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::raw;

/// `amd_queue_t`, the fields of use as atomics.
#[repr(C, align(64))]
pub struct Queue {
    /// `hsa_queue_t`: type, features, ring address, doorbell, size, id. Constant after creation.
    pub hsa_queue: [AtomicU64; 5],
    caps: [AtomicU32; 4],
    /// The next packet id that producers will allocate.
    pub write_dispatch_id: AtomicU64,
    /// High half of the LDS aperture.
    pub group_segment_aperture_base_hi: AtomicU32,
    /// High half of the scratch aperture.
    pub private_segment_aperture_base_hi: AtomicU32,
    max_ids: [AtomicU32; 2],
    legacy: [AtomicU64; 2],
    reserved2: [AtomicU64; 4],
    /// The next packet id that the packet processor will consume.
    pub read_dispatch_id: AtomicU64,
    read_dispatch_id_field_base_byte_offset: AtomicU32,
    compute_tmpring_size: AtomicU32,
    scratch_resource_descriptor: [AtomicU32; 4],
    scratch_backing: [AtomicU64; 2],
    scratch_wave64_lane_byte_size: AtomicU32,
    /// Bits of [`properties`].
    pub queue_properties: AtomicU32,
    reserved4: AtomicU64,
    /// The signal that carries an error code when the queue stops.
    pub queue_inactive_signal: AtomicU64,
    reserved5: [AtomicU64; 7],
}

/// Bit of `hsa_queue_t::features`: the queue takes kernel dispatch packets. Source: `hsa_queue_feature_t`.
pub const FEATURE_KERNEL_DISPATCH: u32 = 1;

/// Bits of [`Queue::queue_properties`].
pub mod properties {
    /// Completed packets get start and end times.
    pub const ENABLE_PROFILING: u32 = 1 << 3;
}

const _: () = {
    assert!(size_of::<Queue>() == size_of::<raw::amd_queue_s>());
    assert!(offset_of!(Queue, write_dispatch_id) == offset_of!(raw::amd_queue_s, write_dispatch_id));
    assert!(offset_of!(Queue, read_dispatch_id) == offset_of!(raw::amd_queue_s, read_dispatch_id));
    assert!(offset_of!(Queue, queue_properties) == offset_of!(raw::amd_queue_s, queue_properties));
    assert!(offset_of!(Queue, queue_inactive_signal) == offset_of!(raw::amd_queue_s, queue_inactive_signal));
    assert!(
        offset_of!(Queue, group_segment_aperture_base_hi)
            == offset_of!(raw::amd_queue_s, group_segment_aperture_base_hi)
    );
};

/// Where the read index is in [`Queue`]: the driver is given its address, not the queue's.
pub const READ_DISPATCH_ID_OFFSET: u64 = offset_of!(Queue, read_dispatch_id) as u64;

impl Queue {
    /// The queue at an address.
    ///
    /// # Safety
    /// `address` must be that of an `amd_queue_t` (every queue of AMD's runtime begins one) that stays mapped for `'a`.
    pub unsafe fn from_address<'a>(address: u64) -> &'a Queue {
        // SAFETY: the caller promises that an `amd_queue_t` is mapped there; every field is atomic.
        unsafe { &*core::ptr::with_exposed_provenance(address as usize) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering;

    #[repr(align(64))]
    struct Memory([AtomicU64; size_of::<Queue>() / 8]);

    #[test]
    fn the_queue_at_an_address_is_that_of_the_runtime() {
        let memory = Memory([const { AtomicU64::new(0) }; _]);
        let address = memory.0.as_ptr().expose_provenance() as u64;
        // SAFETY: the memory has the size of a queue, and lives to the end of the test.
        let queue = unsafe { Queue::from_address(address) };
        memory.0[offset_of!(Queue, write_dispatch_id) / 8].store(7, Ordering::Relaxed);
        memory.0[READ_DISPATCH_ID_OFFSET as usize / 8].store(3, Ordering::Relaxed);
        let indices = [&queue.write_dispatch_id, &queue.read_dispatch_id].map(|index| index.load(Ordering::Relaxed));
        assert_eq!(indices, [7, 3]);
    }
}
