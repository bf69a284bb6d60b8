//! What `hsa_amd_queue_create` takes. Sources, which agree: `hsa_ext_amd.h` 1.31 (rocm-systems of August 2026, as
//! iree-org/hsa-runtime-headers has it), and a runtime of another author that exports the same function.

use core::ffi::c_void;
use core::mem::offset_of;

use crate::raw::{hsa_queue_t, hsa_queue_type32_t, hsa_status_t};

/// The version of [`QueueDescription`] whose layout is known.
pub const VERSION: u16 = 1;

/// `hsa_amd_queue_create_desc_t`: a queue to create, and the queue that was created.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QueueDescription {
    /// Version of the structure.
    pub version: u16,
    /// Where its memory is; 0 for the host's.
    pub flags: u16,
    /// One of [`engine`].
    pub engine: u8,
    reserved: [u8; 3],
    /// Bytes of the ring.
    pub size: u32,
    /// `hsa_amd_queue_priority_t`.
    pub priority: u32,
    /// What the runtime calls for errors of the queue.
    pub callback: Option<unsafe extern "C" fn(hsa_status_t, *mut hsa_queue_t, *mut c_void)>,
    /// What the callback is given.
    pub data: *mut c_void,
    /// Written by the runtime: the queue, or null if it could not be created.
    pub queue: *mut hsa_queue_t,
    /// Of engines other than [`engine::COMPUTE`], the bytes mean something else.
    pub compute: Compute,
    /// 0.
    pub traffic_class: u32,
    reserved_too: [u8; 20],
}

/// `hsa_amd_compute_queue_params_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Compute {
    /// Bits of compute units that may run its kernels; null for all.
    pub cu_mask: *const u32,
    /// `hsa_queue_type_t`.
    pub kind: hsa_queue_type32_t,
    /// Bytes of scratch memory a work-item, as a hint.
    pub private_segment_size: u32,
    /// How many bits the mask has.
    pub cu_mask_count: u32,
    reserved: [u32; 3],
}

/// Which hardware takes the packets of a queue: `hsa_amd_queue_engine_t`.
pub mod engine {
    /// Compute, by AQL.
    pub const COMPUTE: u8 = 0;
    /// Copies.
    pub const SDMA: u8 = 1;
}

const _: () = {
    assert!(size_of::<QueueDescription>() == 96 && size_of::<Compute>() == 32);
    assert!(offset_of!(QueueDescription, engine) == 4 && offset_of!(QueueDescription, size) == 8);
    assert!(offset_of!(QueueDescription, callback) == 16 && offset_of!(QueueDescription, queue) == 32);
    assert!(offset_of!(QueueDescription, compute) == 40 && offset_of!(QueueDescription, traffic_class) == 72);
    assert!(offset_of!(Compute, kind) == 8 && offset_of!(Compute, cu_mask_count) == 16);
};
