//! Memory of pools, and bytes into and out of it.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use hsa_sys::raw::{self, hsa_agent_t, hsa_amd_memory_pool_t};

use crate::error::call;
use crate::{Api, HsaError, Pool, Result};

impl Api {
    /// Memory of a pool that some agents may use. Its contents are whatever they are.
    ///
    /// # Errors
    /// When the pool has not so much, or an agent cannot reach it; nothing stays allocated then.
    pub fn allocate(&self, pool: &Pool, bytes: usize, agents: &[u64]) -> Result<NonNull<u8>> {
        let mut memory: *mut c_void = ptr::null_mut();
        let handle = hsa_amd_memory_pool_t { handle: pool.handle };
        // SAFETY: the pool is one of this runtime, which writes one pointer.
        unsafe { call!(self.amd.hsa_amd_memory_pool_allocate_fn(handle, bytes, 0, &mut memory)) }?;
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(HsaError::Missing { call: "memory of a pool" })?;
        if let Err(error) = self.allow_access(memory, agents) {
            // SAFETY: it was allocated above, and nobody else knows it. If it stays, it is of no use to anybody.
            let _ = unsafe { self.free(memory) };
            return Err(error);
        }
        Ok(memory)
    }

    fn allow_access(&self, memory: NonNull<u8>, agents: &[u64]) -> Result<()> {
        let agents: Vec<hsa_agent_t> = agents.iter().map(|&handle| hsa_agent_t { handle }).collect();
        let (count, memory) = (u32::try_from(agents.len()).unwrap_or(u32::MAX), memory.as_ptr().cast());
        // SAFETY: as many agents as the number says, no flags, memory of this runtime.
        unsafe { call!(self.amd.hsa_amd_agents_allow_access_fn(count, agents.as_ptr(), ptr::null(), memory)) }
    }

    /// Gives memory of [`Api::allocate`] back.
    ///
    /// # Errors
    /// When the runtime does not know it.
    ///
    /// # Safety
    /// Nobody uses it any more.
    pub unsafe fn free(&self, memory: NonNull<u8>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.amd.hsa_amd_memory_pool_free_fn(memory.as_ptr().cast())) }
    }

    /// Address and bytes of a variable that was loaded for an agent; `None` when there is none of this name.
    ///
    /// # Errors
    /// When the runtime knows the symbol but not what it is.
    pub fn variable(&self, executable: crate::Executable, agent: u64, name: &str) -> Result<Option<(u64, u64)>> {
        let Ok(name) = std::ffi::CString::new(name) else { return Ok(None) };
        let (executable, agent) = (raw::hsa_executable_t { handle: executable.0 }, hsa_agent_t { handle: agent });
        let mut symbol = raw::hsa_executable_symbol_t::default();
        // SAFETY: the name ends with a zero, and agent and symbol are read and written during the call.
        let found = unsafe {
            call!(self.core.hsa_executable_get_symbol_by_name_fn(executable, name.as_ptr(), &agent, &mut symbol))
        };
        match found {
            Err(HsaError::Status { status, .. }) if status == raw::HSA_STATUS_ERROR_INVALID_SYMBOL_NAME.0 => {
                return Ok(None);
            }
            found => found?,
        }
        let number = |attribute, to: *mut c_void| {
            // SAFETY: room for what is asked for is given below: 64 bits for an address, 32 for a kind or a size.
            unsafe { call!(self.core.hsa_executable_symbol_get_info_fn(symbol, attribute, to)) }
        };
        let (mut kind, mut size, mut address) = (0u32, 0u32, 0u64);
        number(raw::HSA_EXECUTABLE_SYMBOL_INFO_TYPE, ptr::from_mut(&mut kind).cast())?;
        if kind != raw::HSA_SYMBOL_KIND_VARIABLE.0 {
            return Ok(None);
        }
        number(raw::HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS, ptr::from_mut(&mut address).cast())?;
        number(raw::HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE, ptr::from_mut(&mut size).cast())?;
        Ok(Some((address, size.into())))
    }
}
