//! Queues and the clock of their agents.

use hsa_sys::raw::{self, hsa_agent_t, hsa_queue_t, hsa_queue_type32_t, hsa_status_t};
use std::ffi::c_void;
use std::ptr;

use crate::error::call;
use crate::{Api, Result};

/// The application's function that is told of a queue's errors.
pub type QueueErrorCallback =
    Option<unsafe extern "C" fn(status: hsa_status_t, queue: *mut hsa_queue_t, data: *mut c_void)>;

impl Api {
    /// Makes completed packets of a queue carry start and end times. To be called before its first packet.
    ///
    /// # Errors
    /// When the runtime refuses the queue.
    ///
    /// # Safety
    /// `queue` must be a queue of this runtime that is not destroyed.
    pub unsafe fn enable_profiling(&self, queue: *mut hsa_queue_t) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.amd.hsa_amd_profiling_set_profiler_enabled_fn(queue, 1)) }
    }

    /// True when the runtime's intercept queues are not known to fail when their ring is full: ROCr 6.0 to 6.4. Before,
    /// packets overtook each other or never came; since 7.0 what overflows is stored past the end of a buffer.
    pub fn intercept_queues_work(&self) -> bool {
        // Sizes of the extension table: 552 bytes in 6.0, 608 in 7.0.
        (552..608).contains(&self.amd.version.minor_id)
    }

    /// True when memory is a GPU's.
    pub(crate) fn is_device_memory(&self, address: usize) -> bool {
        let address = ptr::without_provenance(address);
        let mut info =
            raw::hsa_amd_pointer_info_t { size: size_of::<raw::hsa_amd_pointer_info_t>() as u32, ..Default::default() };
        // SAFETY: the address is only looked up, the structure states its size, and no list of agents is asked for.
        let known = unsafe {
            call!(self.amd.hsa_amd_pointer_info_fn(address, &mut info, None, ptr::null_mut(), ptr::null_mut()))
        };
        let is_gpu = |a: crate::Agent| a.kind == crate::AgentKind::Gpu && a.handle == info.agentOwner.handle;
        known.is_ok()
            && info.type_ != raw::HSA_EXT_POINTER_TYPE_UNKNOWN
            && self.agents().is_ok_and(|agents| agents.into_iter().any(is_gpu))
    }

    /// The agent of a queue; `None` if the runtime does not say, as before ROCm 6.1.
    ///
    /// # Safety
    /// The queue must be alive.
    pub unsafe fn queue_agent(&self, queue: *mut hsa_queue_t) -> Option<u64> {
        let mut agent = raw::hsa_agent_t::default();
        let to = ptr::from_mut(&mut agent).cast();
        // SAFETY: the caller's promise; the runtime writes an agent for this attribute.
        let asked = unsafe { call!(self.amd.hsa_amd_queue_get_info_fn(queue, raw::HSA_AMD_QUEUE_INFO_AGENT, to)) };
        asked.ok().map(|()| agent.handle)
    }

    /// Creates a queue whose packets pass through a handler.
    ///
    /// # Errors
    /// What the runtime says of the queue.
    ///
    /// # Safety
    /// The arguments are those of `hsa_queue_create`; `callback` may be called with `data` while the queue lives.
    #[allow(clippy::too_many_arguments, reason = "the arguments of hsa_queue_create")]
    pub unsafe fn intercept_queue(
        &self,
        agent: u64,
        size: u32,
        kind: hsa_queue_type32_t,
        callback: QueueErrorCallback,
        data: *mut c_void,
        private_segment_size: u32,
        group_segment_size: u32,
    ) -> Result<*mut hsa_queue_t> {
        let mut queue = ptr::null_mut();
        let agent = hsa_agent_t { handle: agent };
        // SAFETY: the caller's promise; the runtime writes one pointer.
        unsafe {
            call!(self.amd.hsa_amd_queue_intercept_create_fn(
                agent,
                size,
                kind,
                callback,
                data,
                private_segment_size,
                group_segment_size,
                &mut queue
            ))
        }?;
        Ok(queue)
    }

    /// Lets packets of an intercepted queue pass through `handler`.
    ///
    /// # Errors
    /// When the queue is not an intercepted one.
    ///
    /// # Safety
    /// `queue` must come from [`Api::intercept_queue`]; `data` must be what `handler` expects while the queue lives.
    pub unsafe fn register_intercept(
        &self,
        queue: *mut hsa_queue_t,
        handler: raw::hsa_amd_queue_intercept_handler,
        data: *mut c_void,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.amd.hsa_amd_queue_intercept_register_fn(queue, handler, data)) }
    }

    /// Destroys a queue.
    ///
    /// # Errors
    /// When the runtime does not know the queue.
    ///
    /// # Safety
    /// The queue must not be used again.
    pub unsafe fn destroy_queue(&self, queue: *mut hsa_queue_t) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { call!(self.core.hsa_queue_destroy_fn(queue)) }
    }

    /// A tick of an agent's clock as a tick of the system's.
    ///
    /// # Errors
    /// When the runtime does not know the agent.
    pub fn system_tick(&self, agent: u64, tick: u64) -> Result<u64> {
        let mut system = 0;
        let agent = hsa_agent_t { handle: agent };
        // SAFETY: the runtime checks the handle and writes one number.
        unsafe { call!(self.amd.hsa_amd_profiling_convert_tick_to_system_domain_fn(agent, tick, &mut system)) }?;
        Ok(system)
    }
}
