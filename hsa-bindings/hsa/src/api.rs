//! The private copy of a runtime's functions.

use std::ffi::{CStr, c_char};
use std::mem::offset_of;
use std::ptr;

use hsa_sys::raw::{self, AmdExtTable, CoreApiTable, ImageExtTable, hsa_system_info_t};

use crate::error::call;
use crate::live::{LiveTable, SLOT_SIZE, Slot};
use crate::{HsaError, Result};

/// The functions of a runtime, in the newest layout whatever the runtime's version; entries that it lacks are `None`.
#[derive(Clone, Copy)]
pub struct Api {
    /// Functions of the HSA standard.
    pub core: CoreApiTable,
    /// AMD's extensions.
    pub amd: AmdExtTable,
    /// Images.
    pub image: ImageExtTable,
}

impl Api {
    /// Copies the functions out of live tables.
    pub fn copy(live: &LiveTable) -> Api {
        let mut api =
            Api { core: CoreApiTable::default(), amd: AmdExtTable::default(), image: ImageExtTable::default() };
        for at in (offset_of!(CoreApiTable, hsa_init_fn)..size_of::<CoreApiTable>()).step_by(SLOT_SIZE) {
            if let Some(slot) = live.core_at(at) {
                // SAFETY: `at` is a function entry of `api.core`, and the slot is the runtime's of the same entry.
                unsafe { write_entry(&mut api.core, at, slot) };
            }
        }
        for at in (offset_of!(AmdExtTable, hsa_amd_coherency_get_type_fn)..size_of::<AmdExtTable>()).step_by(SLOT_SIZE)
        {
            if let Some(slot) = live.amd_at(at) {
                // SAFETY: as above, `amd_at` having found where the runtime's layout has the entry of this offset.
                unsafe { write_entry(&mut api.amd, at, slot) };
            }
        }
        const IMAGES: usize = offset_of!(ImageExtTable, hsa_ext_image_get_capability_fn);
        for at in (IMAGES..size_of::<ImageExtTable>()).step_by(SLOT_SIZE) {
            if let Some(slot) = live.image_at(at) {
                // SAFETY: `at` is a function entry of `api.image`, and the slot is the runtime's of the same entry.
                unsafe { write_entry(&mut api.image, at, slot) };
            }
        }
        api.core.version = live.core_version();
        api.amd.version = live.amd_version();
        api
    }

    fn system_info<T: Default>(&self, attribute: hsa_system_info_t) -> Result<T> {
        let mut value = T::default();
        // SAFETY: every attribute that is asked for below is a plain number of the size of `T`.
        unsafe { call!(self.core.hsa_system_get_info_fn(attribute, ptr::from_mut(&mut value).cast())) }?;
        Ok(value)
    }

    /// True where faults of an agent's kernels are retried (XNACK): they use all memory of the process.
    pub fn retries_faults(&self, agent: u64) -> bool {
        // The runtime writes one byte (`hsa_ext_amd.h`). Before ROCm 5.3 only the name of the ISA tells.
        let told = self.system_info::<[u8; 8]>(raw::HSA_AMD_SYSTEM_INFO_XNACK_ENABLED);
        let by_name = || self.isa_names(agent).is_ok_and(|names| names.iter().any(|name| name.contains(":xnack+")));
        told.map_or_else(|_| by_name(), |value| value[0] != 0)
    }

    /// Ticks of the system clock in a second.
    ///
    /// # Errors
    /// When the runtime is not initialised.
    pub fn timestamp_frequency(&self) -> Result<u64> {
        self.system_info(raw::HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY)
    }

    /// The system clock now, in ticks.
    ///
    /// # Errors
    /// When the runtime is not initialised.
    pub fn timestamp(&self) -> Result<u64> {
        self.system_info(raw::HSA_SYSTEM_INFO_TIMESTAMP)
    }

    /// Version of the HSA interface: major, minor.
    ///
    /// # Errors
    /// When the runtime is not initialised.
    pub fn version(&self) -> Result<(u16, u16)> {
        Ok((
            self.system_info(raw::HSA_SYSTEM_INFO_VERSION_MAJOR)?,
            self.system_info(raw::HSA_SYSTEM_INFO_VERSION_MINOR)?,
        ))
    }

    /// The runtime's own description of its build, for example `1.13.60102`; empty if it has none.
    pub fn build_version(&self) -> String {
        let mut text: *const c_char = ptr::null();
        let attribute = raw::HSA_AMD_SYSTEM_INFO_BUILD_VERSION;
        // SAFETY: the attribute is a pointer to a text that lives as long as the runtime.
        let known = unsafe { call!(self.core.hsa_system_get_info_fn(attribute, ptr::from_mut(&mut text).cast())) };
        if known.is_err() || text.is_null() {
            return String::new();
        }
        // SAFETY: the runtime's text ends with a zero.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().trim_matches('"').to_owned()
    }

    /// Starts the runtime, or adds a reference to it.
    ///
    /// # Errors
    /// What the runtime says, for example that there is no device.
    pub fn init(&self) -> Result<()> {
        // SAFETY: no preconditions.
        unsafe { call!(self.core.hsa_init_fn()) }
    }

    /// Gives back a reference of [`Api::init`].
    ///
    /// # Errors
    /// When the runtime is not initialised.
    pub fn shut_down(&self) -> Result<()> {
        // SAFETY: no preconditions beyond those of every call: nothing of this runtime is used afterwards.
        unsafe { call!(self.core.hsa_shut_down_fn()) }
    }
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Api {{ core: {} bytes, amd: {} bytes }}", self.core.version.minor_id, self.amd.version.minor_id)
    }
}

/// Writes what is in a slot into the entry at an offset of a table.
///
/// # Safety
/// The table must have a function entry at the offset, of the type of the slot's.
unsafe fn write_entry<T>(table: &mut T, at: usize, slot: Slot<'_>) {
    let entries = ptr::from_mut(table).cast::<usize>();
    // SAFETY: the entry is inside the table, by the caller's promise.
    let entry = unsafe { entries.byte_add(at) };
    // SAFETY: an entry is an `Option` of a function pointer, for which whatever the runtime's entry holds is a value.
    unsafe { entry.write(slot.load()) };
}

/// An error unless the pointer is one.
pub(crate) fn not_null<T>(pointer: *mut T, what: &'static str) -> Result<*mut T> {
    if pointer.is_null() { Err(HsaError::Missing { call: what }) } else { Ok(pointer) }
}
