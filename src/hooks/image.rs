//! Functions that write the memory of images. They run kernels on a queue of the runtime that no other hook sees, and return when the
//! write is complete. No write begins while memory is captured.

use std::ffi::c_void;

use hsa_sys::raw::{hsa_agent_t, hsa_dim3_t, hsa_ext_image_region_t, hsa_ext_image_t, hsa_status_t};

use super::copy::copying;
use super::original;
use crate::capture::Destination;

/// Hooks that wait while memory is captured, and are copies until they return.
macro_rules! image_hooks {
    ($($hook:ident $image_fn:ident($($argument:ident: $type:ty),*);)*) => {
        $(pub(super) unsafe extern "C" fn $hook($($argument: $type),*) -> hsa_status_t {
            let _copying = copying(Destination::Unknown);
            original!(image.$image_fn($($argument),*))
        })*
    };
}

image_hooks! {
    import hsa_ext_image_import_fn(
        agent: hsa_agent_t, from: *const c_void, row_pitch: usize, slice_pitch: usize, to: hsa_ext_image_t,
        region: *const hsa_ext_image_region_t
    );
    export hsa_ext_image_export_fn(
        agent: hsa_agent_t, from: hsa_ext_image_t, to: *mut c_void, row_pitch: usize, slice_pitch: usize,
        region: *const hsa_ext_image_region_t
    );
    copy hsa_ext_image_copy_fn(
        agent: hsa_agent_t, from: hsa_ext_image_t, from_offset: *const hsa_dim3_t, to: hsa_ext_image_t,
        to_offset: *const hsa_dim3_t, range: *const hsa_dim3_t
    );
    clear hsa_ext_image_clear_fn(
        agent: hsa_agent_t, image: hsa_ext_image_t, value: *const c_void, region: *const hsa_ext_image_region_t
    );
}
