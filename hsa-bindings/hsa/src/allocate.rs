//! Memory of pools, and bytes into and out of it.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use hsa_sys::raw::{hsa_agent_t, hsa_amd_memory_pool_t};

use crate::error::call;
use crate::{Api, HsaError, Pool, Result};

impl Api {
    /// Memory of a pool that some agents may use. Its contents are undefined.
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
            // SAFETY: it was allocated above, and no other code knows it. If it stays, no code uses it.
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
    /// The memory is not used any more.
    pub unsafe fn free(&self, memory: NonNull<u8>) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.amd.hsa_amd_memory_pool_free_fn(memory.as_ptr().cast())) }
    }

    /// Fills memory with a word of 32 bits; it is complete when this returns.
    ///
    /// # Errors
    /// What the runtime says.
    ///
    /// # Safety
    /// The memory has so many words, and no other code uses it meanwhile.
    pub unsafe fn fill(&self, memory: NonNull<u8>, word: u32, words: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.amd.hsa_amd_memory_fill_fn(memory.as_ptr().cast(), word, words)) }
    }

    /// Copies bytes between memories that the runtime knows, or from the host's own; they are there when this returns.
    ///
    /// # Errors
    /// What the runtime says.
    ///
    /// # Safety
    /// Both have so many bytes, and no other code uses them meanwhile.
    pub unsafe fn copy_bytes(&self, to: NonNull<u8>, from: NonNull<u8>, bytes: usize) -> Result<()> {
        let (to, from): (*mut c_void, *const c_void) = (to.as_ptr().cast(), from.as_ptr().cast());
        // SAFETY: the caller's promise.
        unsafe { call!(self.core.hsa_memory_copy_fn(to, from, bytes)) }
    }
}
