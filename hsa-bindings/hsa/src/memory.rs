//! Memory of the host for a GPU's kernels.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use hsa_sys::raw::{self, hsa_agent_t, hsa_amd_memory_pool_info_t, hsa_amd_memory_pool_t, hsa_status_t};

use crate::error::call;
use crate::{AgentKind, Api, HsaError, Result};

impl Api {
    /// Memory for kernel arguments that a GPU can read, zeroed, for as long as the runtime lives.
    ///
    /// # Errors
    /// When the runtime has no such memory, or not enough.
    pub fn kernarg_memory(&self, gpu: u64, bytes: usize) -> Result<NonNull<u8>> {
        const MISSING: HsaError = HsaError::Missing { call: "memory for kernel arguments" };
        let hosts = self.agents()?.into_iter().filter(|a| a.kind == AgentKind::Cpu);
        let pool = hosts.filter_map(|host| self.kernarg_pool(host.handle).ok().flatten()).next().ok_or(MISSING)?;
        let mut memory: *mut c_void = ptr::null_mut();
        // SAFETY: the pool is one of an agent of this runtime, which writes one pointer.
        unsafe { call!(self.amd.hsa_amd_memory_pool_allocate_fn(pool, bytes, 0, &mut memory)) }?;
        let agents = [hsa_agent_t { handle: gpu }];
        // SAFETY: one agent, no flags, memory that was allocated above.
        unsafe { call!(self.amd.hsa_amd_agents_allow_access_fn(1, agents.as_ptr(), ptr::null(), memory)) }?;
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(MISSING)?;
        // SAFETY: the memory has so many bytes, and nobody else knows it.
        unsafe { memory.write_bytes(0, bytes) };
        Ok(memory)
    }

    /// An agent's pool of global memory for kernel arguments.
    fn kernarg_pool(&self, agent: u64) -> Result<Option<hsa_amd_memory_pool_t>> {
        unsafe extern "C" fn collect(pool: hsa_amd_memory_pool_t, data: *mut c_void) -> hsa_status_t {
            // SAFETY: `data` is the list that is passed below, which nothing else uses during the iteration.
            unsafe { (*data.cast::<Vec<hsa_amd_memory_pool_t>>()).push(pool) };
            raw::HSA_STATUS_SUCCESS
        }
        let (mut pools, agent) = (Vec::new(), hsa_agent_t { handle: agent });
        let to = ptr::from_mut(&mut pools).cast();
        // SAFETY: the callback takes the list and does not keep it.
        unsafe { call!(self.amd.hsa_amd_agent_iterate_memory_pools_fn(agent, Some(collect), to)) }?;
        let for_kernargs = |&pool: &hsa_amd_memory_pool_t| {
            let global = raw::HSA_AMD_SEGMENT_GLOBAL.0;
            let flag = raw::HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT.0;
            self.pool_number(pool, raw::HSA_AMD_MEMORY_POOL_INFO_SEGMENT).is_ok_and(|segment| segment == global)
                && self.pool_number(pool, raw::HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS).is_ok_and(|f| f & flag != 0)
        };
        Ok(pools.into_iter().find(for_kernargs))
    }

    fn pool_number(&self, pool: hsa_amd_memory_pool_t, attribute: hsa_amd_memory_pool_info_t) -> Result<u32> {
        let mut value = 0u32;
        let to = ptr::from_mut(&mut value).cast();
        // SAFETY: both attributes that are asked for above are numbers of 32 bits.
        unsafe { call!(self.amd.hsa_amd_memory_pool_get_info_fn(pool, attribute, to)) }?;
        Ok(value)
    }
}
