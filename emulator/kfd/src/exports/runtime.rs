//! The one function of the runtime that is replaced: what an agent says of images.
//!
//! Whether a GPU has images the runtime concludes from the processor's version alone (ROCr, `GpuAgent::GetInfo`: all but
//! gfx94x have them), so no answer of a driver can deny them. The emulated machine has no image instructions; asked by
//! an application or by HIP, its agents say what those of gfx94x say: no extension, no handles, no extents. HIP before 7
//! then reports `hipDeviceAttributeImageSupport` 0. HIP 7 reports 1 all the same; textures are refused by both.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ops::RangeInclusive;
use std::sync::{Mutex, PoisonError};

use hsa_sys::raw::{
    HSA_AGENT_INFO_EXTENSIONS, HSA_STATUS_ERROR_INVALID_AGENT, HSA_STATUS_ERROR_NOT_INITIALIZED, HSA_STATUS_SUCCESS,
    hsa_status_t,
};

use super::guard;

/// `hsa_agent_get_info`, with attributes as numbers: there are more than the header of the core lists.
type GetInfo = unsafe extern "C" fn(agent: u64, attribute: u32, value: *mut c_void) -> hsa_status_t;

const NAME: &CStr = c"hsa_agent_get_info";

/// `HSA_EXT_AGENT_INFO_IMAGE_1D_MAX_ELEMENTS` to `HSA_EXT_AGENT_INFO_MAX_SAMPLER_HANDLERS`. Source: `hsa_ext_image.h`.
const IMAGES: RangeInclusive<u32> = 0x3000..=0x300b;

/// `HSA_EXTENSION_IMAGES`: a bit of what `HSA_AGENT_INFO_EXTENSIONS` gives. Source: `hsa.h`.
const IMAGE_EXTENSION: u8 = 1 << 1;

/// How many numbers of 32 bits an attribute of [`IMAGES`] has: an extent for each dimension, or one count.
fn numbers(attribute: u32) -> usize {
    match attribute {
        0x3003..=0x3006 => 2,
        0x3007 => 3,
        _ => 1,
    }
}

/// The functions of this name in the runtimes that are loaded: those that were found, or all that there are now.
fn originals(look_again: bool) -> Vec<GetInfo> {
    static KNOWN: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.is_empty() || look_again {
        for path in loaded_runtimes() {
            // SAFETY: a C string, of a library that is loaded: nothing is run, and its count grows so that it stays.
            let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            if handle.is_null() {
                continue;
            }
            // SAFETY: an open library and a C string.
            let address = unsafe { libc::dlsym(handle, NAME.as_ptr()) } as usize;
            if address != 0 && !known.contains(&address) {
                known.push(address);
            }
        }
    }
    let function = |&address: &usize| {
        // SAFETY: the runtime's function of this name has this type (`hsa.h`): a handle is a structure of one 64-bit number
        // and an attribute an enumeration, which are passed alike. Its library is never unloaded, as it is open here.
        unsafe { std::mem::transmute::<usize, GetInfo>(address) }
    };
    known.iter().map(function).collect()
}

/// The files of the loaded libraries that are a ROCr, bundled ones with a hash in their names too.
fn loaded_runtimes() -> Vec<CString> {
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the C library gives a valid structure, whose name is a C string or null.
        let name = unsafe { (*info).dlpi_name };
        if !name.is_null() {
            // SAFETY: as above.
            let name = unsafe { CStr::from_ptr(name) };
            let file = name.to_bytes().rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            if file.starts_with(b"libhsa-runtime64") {
                // SAFETY: what was given to `dl_iterate_phdr` below.
                unsafe { &mut *found.cast::<Vec<CString>>() }.push(name.to_owned());
            }
        }
        0
    }
    let mut found = Vec::new();
    // SAFETY: the function does not unwind, and takes the vector for what it is.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found
}

/// As in `hsa.h`, but for images.
///
/// # Safety
/// As in `hsa.h`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_agent_get_info(agent: u64, attribute: u32, value: *mut c_void) -> hsa_status_t {
    let unknown = |status| status == HSA_STATUS_ERROR_NOT_INITIALIZED || status == HSA_STATUS_ERROR_INVALID_AGENT;
    let mut status = HSA_STATUS_ERROR_NOT_INITIALIZED;
    // With several runtimes in the process, an agent is known to one of them, which may have been loaded since.
    for look_again in [false, true] {
        for original in guard(Vec::new(), || originals(look_again)) {
            if unknown(status) {
                // SAFETY: the arguments are passed on as they came.
                status = unsafe { original(agent, attribute, value) };
            }
        }
    }
    if status != HSA_STATUS_SUCCESS || value.is_null() {
        return status;
    }
    if IMAGES.contains(&attribute) {
        // SAFETY: the runtime has written as many numbers there.
        unsafe { value.cast::<u32>().write_bytes(0, numbers(attribute)) };
    } else if attribute == HSA_AGENT_INFO_EXTENSIONS.0 {
        let bits: *mut u8 = value.cast();
        // SAFETY: the runtime has written 128 bytes there, of which this is the first.
        let without = unsafe { bits.read() } & !IMAGE_EXTENSION;
        // SAFETY: as above.
        unsafe { bits.write(without) };
    }
    status
}
