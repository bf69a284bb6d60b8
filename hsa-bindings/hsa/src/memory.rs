//! Memory of the host for a GPU's kernels.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use hsa_sys::raw::{self, hsa_agent_t, hsa_amd_memory_pool_info_t, hsa_amd_memory_pool_t, hsa_status_t};

use crate::error::call;
use crate::{AgentKind, Api, HsaError, OwnSignal, Result};

/// A pool of memory; regions of the standard's interface are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its handle.
    pub handle: u64,
    /// The agent whose memory it is.
    pub agent: u64,
    /// True for a GPU's.
    pub is_gpu: bool,
    /// Bits of `hsa_amd_memory_pool_global_flag_t`; `None` for memory that is not global.
    pub global_flags: Option<u32>,
}

impl Pool {
    /// True for memory of kernel arguments.
    pub fn is_for_kernargs(&self) -> bool {
        self.has(raw::HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT)
    }

    /// True when all agents see each other's writes while a kernel runs.
    pub fn is_fine_grained(&self) -> bool {
        self.has(raw::HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED)
            || self.has(raw::HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_EXTENDED_SCOPE_FINE_GRAINED)
    }

    /// True when other agents see a kernel's writes after its end only.
    pub fn is_coarse_grained(&self) -> bool {
        self.has(raw::HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED) && !self.is_fine_grained()
    }

    fn has(&self, flag: raw::hsa_amd_memory_pool_global_flag_s) -> bool {
        self.global_flags.is_some_and(|flags| flags & flag.0 != 0)
    }
}

/// A part of memory that is mapped at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPart {
    /// The address.
    pub address: u64,
    /// How many bytes.
    pub bytes: usize,
    /// Bytes of the memory before the part.
    pub offset: usize,
}

impl Api {
    /// Every pool of every agent.
    ///
    /// # Errors
    /// When the runtime is not initialised.
    pub fn pools(&self) -> Result<Vec<Pool>> {
        let mut all = Vec::new();
        for agent in self.agents()? {
            for pool in self.pools_of(agent.handle)? {
                let segment = self.pool_number(pool, raw::HSA_AMD_MEMORY_POOL_INFO_SEGMENT)?;
                let flags = || self.pool_number(pool, raw::HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS);
                let global_flags = (segment == raw::HSA_AMD_SEGMENT_GLOBAL.0).then(flags).transpose()?;
                let is_gpu = agent.kind == AgentKind::Gpu;
                all.push(Pool { handle: pool.handle, agent: agent.handle, is_gpu, global_flags });
            }
        }
        Ok(all)
    }

    /// The pool of memory that a handle of `hsa_amd_vmem_*` stands for; `None` if the runtime does not say.
    pub fn pool_of_handle(&self, handle: raw::hsa_amd_vmem_alloc_handle_t) -> Option<u64> {
        let mut pool = hsa_amd_memory_pool_t::default();
        let mut kind = raw::hsa_amd_memory_type_t(0);
        // SAFETY: the runtime looks the handle up, and writes a pool and a number.
        let asked =
            unsafe { call!(self.amd.hsa_amd_vmem_get_alloc_properties_from_handle_fn(handle, &mut pool, &mut kind)) };
        asked.ok().map(|()| pool.handle)
    }

    /// Maps memory of a pool at several addresses, for an agent to read and write. `parts` are addresses and bytes with the offset in
    /// the memory where each begins. What was mapped before an error stays.
    ///
    /// # Errors
    /// What the runtime says; [`HsaError::Missing`] of a runtime before 6.0. An address that the runtime does not give: the address
    /// that it gave.
    pub fn map_shared(&self, pool: &Pool, bytes: usize, agent: u64, parts: &[MappedPart]) -> Result<Option<u64>> {
        let mut handle = raw::hsa_amd_vmem_alloc_handle_t { handle: 0 };
        let pool = hsa_amd_memory_pool_t { handle: pool.handle };
        // SAFETY: the runtime writes a handle.
        unsafe { call!(self.amd.hsa_amd_vmem_handle_create_fn(pool, bytes, raw::MEMORY_TYPE_PINNED, 0, &mut handle)) }?;
        for part in parts {
            let mut at = ptr::null_mut::<c_void>();
            // SAFETY: the runtime writes an address of which no memory is mapped.
            unsafe { call!(self.amd.hsa_amd_vmem_address_reserve_fn(&mut at, part.bytes, part.address, 0)) }?;
            if at.addr() as u64 != part.address {
                return Ok(Some(at.addr() as u64));
            }
            // SAFETY: so many bytes were reserved there just now.
            unsafe { call!(self.amd.hsa_amd_vmem_map_fn(at, part.bytes, part.offset, handle, 0)) }?;
            let access = raw::hsa_amd_memory_access_desc_t {
                permissions: raw::HSA_ACCESS_PERMISSION_RW,
                agent_handle: hsa_agent_t { handle: agent },
            };
            // SAFETY: the memory was mapped above; the runtime reads one description.
            unsafe { call!(self.amd.hsa_amd_vmem_set_access_fn(at, part.bytes, &access, 1)) }?;
        }
        Ok(None)
    }

    /// Starts a copy between two agents' memories; the signal is decremented when it is complete.
    ///
    /// # Errors
    /// What the runtime says; the signal is then left alone.
    ///
    /// # Safety
    /// Both sides must have so many bytes until the copy is complete, and be accessible to the agents.
    pub unsafe fn start_copy(
        &self,
        to: (*mut u8, u64),
        from: (*const u8, u64),
        bytes: usize,
        signal: OwnSignal,
    ) -> Result<()> {
        let [to_agent, from_agent] = [to.1, from.1].map(|handle| hsa_agent_t { handle });
        let signal = raw::hsa_signal_t { handle: signal.handle() };
        let (to, from) = (to.0.cast(), from.0.cast());
        // SAFETY: the caller's promise; there are no dependencies.
        unsafe {
            call!(self.amd.hsa_amd_memory_async_copy_fn(to, to_agent, from, from_agent, bytes, 0, ptr::null(), signal))
        }
    }

    /// The SDMA engines that the runtime calls free for copies from one agent's memory to another's: bits of
    /// `hsa_amd_sdma_engine_id_t`. 0 if none is, or if the runtime does not say (before ROCm 5.6).
    pub fn free_engines(&self, to_agent: u64, from_agent: u64) -> u32 {
        let [to_agent, from_agent] = [to_agent, from_agent].map(|handle| hsa_agent_t { handle });
        let mut engines = 0;
        // SAFETY: the runtime writes one number of 32 bits.
        let asked = unsafe { call!(self.amd.hsa_amd_memory_copy_engine_status_fn(to_agent, from_agent, &mut engines)) };
        if asked.is_ok() { engines } else { 0 }
    }

    /// Starts a copy as [`start_copy`](Api::start_copy) does, on one SDMA engine: a bit of `hsa_amd_sdma_engine_id_t`.
    ///
    /// # Errors
    /// What the runtime says; the signal is then left alone.
    ///
    /// # Safety
    /// As for [`start_copy`](Api::start_copy).
    pub unsafe fn start_copy_on(
        &self,
        to: (*mut u8, u64),
        from: (*const u8, u64),
        bytes: usize,
        signal: OwnSignal,
        engine: u32,
    ) -> Result<()> {
        let [to_agent, from_agent] = [to.1, from.1].map(|handle| hsa_agent_t { handle });
        let signal = raw::hsa_signal_t { handle: signal.handle() };
        let (to, from, engine) = (to.0.cast(), from.0.cast(), raw::hsa_amd_sdma_engine_id_t(engine));
        // SAFETY: the caller's promise; there are no dependencies.
        unsafe {
            call!(self.amd.hsa_amd_memory_async_copy_on_engine_fn(
                to,
                to_agent,
                from,
                from_agent,
                bytes,
                0,
                ptr::null(),
                signal,
                engine,
                true
            ))
        }
    }

    /// Memory for kernel arguments that some GPUs can read and write, zeroed, for as long as the runtime lives.
    ///
    /// # Errors
    /// When the runtime has no such memory, or not enough.
    pub fn kernarg_memory(&self, gpus: &[u64], bytes: usize) -> Result<NonNull<u8>> {
        const MISSING: HsaError = HsaError::Missing { call: "memory for kernel arguments" };
        let pool = self.pools()?.into_iter().find(|pool| !pool.is_gpu && pool.is_for_kernargs()).ok_or(MISSING)?;
        let pool = hsa_amd_memory_pool_t { handle: pool.handle };
        let mut memory: *mut c_void = ptr::null_mut();
        // SAFETY: the pool is one of an agent of this runtime, which writes one pointer.
        unsafe { call!(self.amd.hsa_amd_memory_pool_allocate_fn(pool, bytes, 0, &mut memory)) }?;
        let agents: Vec<hsa_agent_t> = gpus.iter().map(|&handle| hsa_agent_t { handle }).collect();
        let count = agents.len() as u32;
        // SAFETY: so many agents, no flags, memory that was allocated above.
        unsafe { call!(self.amd.hsa_amd_agents_allow_access_fn(count, agents.as_ptr(), ptr::null(), memory)) }?;
        let memory = NonNull::new(memory.cast::<u8>()).ok_or(MISSING)?;
        // SAFETY: the memory has so many bytes, and no other code knows it.
        unsafe { memory.write_bytes(0, bytes) };
        Ok(memory)
    }

    fn pools_of(&self, agent: u64) -> Result<Vec<hsa_amd_memory_pool_t>> {
        unsafe extern "C" fn collect(pool: hsa_amd_memory_pool_t, data: *mut c_void) -> hsa_status_t {
            // SAFETY: `data` is the list that is passed below, which nothing else uses during the iteration.
            unsafe { (*data.cast::<Vec<hsa_amd_memory_pool_t>>()).push(pool) };
            raw::HSA_STATUS_SUCCESS
        }
        let (mut pools, agent) = (Vec::new(), hsa_agent_t { handle: agent });
        let to = ptr::from_mut(&mut pools).cast();
        // SAFETY: the callback takes the list and does not keep it.
        unsafe { call!(self.amd.hsa_amd_agent_iterate_memory_pools_fn(agent, Some(collect), to)) }?;
        Ok(pools)
    }

    fn pool_number(&self, pool: hsa_amd_memory_pool_t, attribute: hsa_amd_memory_pool_info_t) -> Result<u32> {
        let mut value = 0u32;
        let to = ptr::from_mut(&mut value).cast();
        // SAFETY: both attributes that are asked for above are numbers of 32 bits.
        unsafe { call!(self.amd.hsa_amd_memory_pool_get_info_fn(pool, attribute, to)) }?;
        Ok(value)
    }
}
