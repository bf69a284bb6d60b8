//! Functions that write the memory of images: by kernels on a queue of the runtime's own, which no other hook sees. They return when
//! that is done. While memory is captured, none begins.

use std::ffi::c_void;

use hsa_sys::raw::{hsa_agent_t, hsa_dim3_t, hsa_ext_image_region_t, hsa_ext_image_t, hsa_status_t};

use super::copy::copying;
use super::original;

pub(super) unsafe extern "C" fn import(
    agent: hsa_agent_t,
    from: *const c_void,
    row_pitch: usize,
    slice_pitch: usize,
    to: hsa_ext_image_t,
    region: *const hsa_ext_image_region_t,
) -> hsa_status_t {
    let _copying = copying();
    original!(image.hsa_ext_image_import_fn(agent, from, row_pitch, slice_pitch, to, region))
}

pub(super) unsafe extern "C" fn export(
    agent: hsa_agent_t,
    from: hsa_ext_image_t,
    to: *mut c_void,
    row_pitch: usize,
    slice_pitch: usize,
    region: *const hsa_ext_image_region_t,
) -> hsa_status_t {
    let _copying = copying();
    original!(image.hsa_ext_image_export_fn(agent, from, to, row_pitch, slice_pitch, region))
}

pub(super) unsafe extern "C" fn copy(
    agent: hsa_agent_t,
    from: hsa_ext_image_t,
    from_offset: *const hsa_dim3_t,
    to: hsa_ext_image_t,
    to_offset: *const hsa_dim3_t,
    range: *const hsa_dim3_t,
) -> hsa_status_t {
    let _copying = copying();
    original!(image.hsa_ext_image_copy_fn(agent, from, from_offset, to, to_offset, range))
}

pub(super) unsafe extern "C" fn clear(
    agent: hsa_agent_t,
    image: hsa_ext_image_t,
    value: *const c_void,
    region: *const hsa_ext_image_region_t,
) -> hsa_status_t {
    let _copying = copying();
    original!(image.hsa_ext_image_clear_fn(agent, image, value, region))
}
