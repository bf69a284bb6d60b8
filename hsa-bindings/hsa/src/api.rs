//! The private copy of a runtime's functions.

use std::mem::offset_of;
use std::ptr;

use hsa_sys::raw::{self, AmdExtTable, CoreApiTable, HsaApiTable, hsa_system_info_t};

use crate::error::call;
use crate::live::{LiveTable, SLOT_SIZE};
use crate::{Error, Result};

/// The functions of a runtime, in the newest layout whatever the runtime's version; entries that it lacks are `None`.
#[derive(Clone, Copy)]
pub struct Api {
    /// Functions of the HSA standard.
    pub core: CoreApiTable,
    /// AMD's extensions.
    pub amd: AmdExtTable,
}

impl Api {
    /// Copies the functions out of a runtime's live table.
    ///
    /// # Errors
    /// When the table is not one: a null core or extension table.
    ///
    /// # Safety
    /// `root` must be the table that `OnLoad` was called with (or one of the same layout and sizes).
    pub unsafe fn from_table(root: *const HsaApiTable) -> Result<Api> {
        // SAFETY: the caller's promise is this function's.
        let live = unsafe { LiveTable::of(root) }?;
        Ok(Api::copy(&live))
    }

    /// Copies the functions out of live tables.
    pub fn copy(live: &LiveTable) -> Api {
        let mut api = Api { core: CoreApiTable::default(), amd: AmdExtTable::default() };
        for at in (offset_of!(CoreApiTable, hsa_init_fn)..size_of::<CoreApiTable>()).step_by(SLOT_SIZE) {
            if let Some(slot) = live.core_at(at) {
                // SAFETY: `at` is a function entry of `api.core`, an `Option` of a function pointer, for which every
                // value that the runtime's entry of the same offset holds is valid.
                unsafe { ptr::from_mut(&mut api.core).cast::<usize>().byte_add(at).write(slot.load()) };
            }
        }
        for at in (offset_of!(AmdExtTable, hsa_amd_coherency_get_type_fn)..size_of::<AmdExtTable>()).step_by(SLOT_SIZE) {
            if let Some(slot) = live.amd_at(at) {
                // SAFETY: as above, `amd_at` having found where the runtime's layout has the entry of this offset.
                unsafe { ptr::from_mut(&mut api.amd).cast::<usize>().byte_add(at).write(slot.load()) };
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
        Ok((self.system_info(raw::HSA_SYSTEM_INFO_VERSION_MAJOR)?, self.system_info(raw::HSA_SYSTEM_INFO_VERSION_MINOR)?))
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

/// An error unless the pointer is one.
pub(crate) fn not_null<T>(pointer: *mut T, what: &'static str) -> Result<*mut T> {
    if pointer.is_null() { Err(Error::Missing { call: what }) } else { Ok(pointer) }
}
