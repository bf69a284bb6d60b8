//! Memory faults of GPUs, which the runtime would end the process for.
//!
//! # Threads
//! The runtime's own thread tells of a fault; any thread may ask.
//!
//! # Ordering
//! The address is written before the flag, which is stored with release and loaded with acquire.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use hsa_sys::raw::{self, hsa_amd_event_t, hsa_status_t};

use crate::error::call;
use crate::{Api, Result};

/// An access of a GPU to memory that it must not touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryFault {
    /// The address, as exactly as the driver knows it: often that of the page.
    pub address: u64,
    /// Bits of `hsa_amd_memory_fault_reason_t`; 0 is not known.
    pub reason: u32,
}

static SEEN: AtomicBool = AtomicBool::new(false);
static ADDRESS: AtomicU64 = AtomicU64::new(0);
static REASON: AtomicU32 = AtomicU32::new(0);

/// The memory fault that there was, if [`Api::watch_faults`] was called before it.
pub fn fault() -> Option<MemoryFault> {
    SEEN.load(Ordering::Acquire)
        .then(|| MemoryFault { address: ADDRESS.load(Ordering::Relaxed), reason: REASON.load(Ordering::Relaxed) })
}

impl Api {
    /// Has [`fault`] told of memory faults from now on: the process goes on after one.
    ///
    /// # Errors
    /// When a handler is registered already.
    pub fn watch_faults(&self) -> Result<()> {
        unsafe extern "C" fn told(event: *const hsa_amd_event_t, _: *mut c_void) -> hsa_status_t {
            // SAFETY: the runtime passes an event that lives during the call.
            let Some(event) = (unsafe { event.as_ref() }) else { return raw::HSA_STATUS_ERROR };
            if event.event_type != raw::HSA_AMD_GPU_MEMORY_FAULT_EVENT {
                return raw::HSA_STATUS_ERROR;
            }
            // SAFETY: the type says which of the union's structs it is.
            let fault = unsafe { event.__bindgen_anon_1.memory_fault };
            ADDRESS.store(fault.virtual_address, Ordering::Relaxed);
            REASON.store(fault.fault_reason_mask, Ordering::Relaxed);
            SEEN.store(true, Ordering::Release);
            raw::HSA_STATUS_SUCCESS
        }
        // SAFETY: the function lives as long as the process and needs no data.
        unsafe { call!(self.amd.hsa_amd_register_system_event_handler_fn(Some(told), ptr::null_mut())) }
    }
}
