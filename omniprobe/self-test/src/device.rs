//! The GPU that is checked, as a plain HSA program uses it: queues, packets, signals, memory, kernels.
//!
//! # Threads
//! One thread. The GPU writes signals, read indices and slots meanwhile, which are read as atomics.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use amdgpu_code_object::Target;
use hsa::sys::abi::aql::{BARRIER_BIT, INVALID_HEADER, PacketType};
use hsa::sys::abi::queue::Queue as AmdQueue;
use hsa::sys::abi::signal::Signal;
use hsa::sys::raw::{self, hsa_agent_t, hsa_queue_t, hsa_signal_t, hsa_status_t};
use hsa::{Agent, AgentKind, Api, HsaError, KernelSymbol, OwnSignal, Pool};

use crate::code::code_object;

/// Bytes for the arguments of all dispatches of a check.
const KERNARG_BYTES: usize = 1 << 20;
/// Work-items of a workgroup: one wave.
pub(crate) const WORKGROUP: u32 = 64;

/// `HSA_STATUS_CU_MASK_REDUCED` of `hsa_ext_amd.h`.
const CU_MASK_REDUCED: u32 = 44;

/// `HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED` of `hsa_ext_amd.h`.
const NEVER_ALLOWED: u32 = 0;

/// After this time a copy is taken for lost.
const COPIED_WITHIN: Duration = Duration::from_secs(10);

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The runtime.
    #[error(transparent)]
    Hsa(#[from] HsaError),
    /// There is none.
    #[error("the HSA runtime has no GPU")]
    NoGpu,
    /// One that the kernels of the checks are not written for.
    #[error(
        "the kernels of the checks run on gfx900, gfx906, gfx908, gfx90a and gfx940 to gfx950, and this GPU is {0}"
    )]
    Processor(String),
    /// The runtime has stopped a queue.
    #[error("the runtime stopped a queue with status {0:#x}")]
    Stopped(u32),
    /// A copy engine has lost a completion.
    #[error("a copy did not end in {COPIED_WITHIN:?}: the copy engine lost its completion")]
    Copy,
    /// What the checks' own code lacks.
    #[error("no {0}")]
    Missing(&'static str),
}

type Result<T> = std::result::Result<T, DeviceError>;

/// A started runtime and its first GPU.
pub(crate) struct Device {
    pub(crate) api: Api,
    pub(crate) gpu: Agent,
    cpu: u64,
    pools: Vec<Pool>,
    kernels: Vec<KernelSymbol>,
    kernargs: NonNull<u8>,
    kernargs_used: Cell<usize>,
}

/// A queue of this process; it lives until the process ends or it is destroyed.
pub(crate) struct Queue<'a> {
    device: &'a Device,
    queue: *mut hsa_queue_t,
    /// The status that the runtime stopped it with, or 0.
    stopped: &'static AtomicU32,
}

/// A dispatch to come.
#[derive(Clone, Copy)]
pub(crate) struct Dispatch<'a> {
    pub(crate) kernel: &'a KernelSymbol,
    pub(crate) workgroups: u32,
    /// Of [`Device::arguments`].
    pub(crate) kernarg: u64,
    /// 0 for none.
    pub(crate) signal: u64,
}

impl Device {
    /// Starts the runtime, and loads the checks' kernels on the first GPU.
    pub(crate) fn start() -> Result<Device> {
        let api = Api::open(None)?;
        api.init()?;
        let agents = api.agents()?;
        let gpu = agents.iter().find(|a| a.kind == AgentKind::Gpu).cloned().ok_or(DeviceError::NoGpu)?;
        let cpu = agents.iter().find(|a| a.kind == AgentKind::Cpu).ok_or(DeviceError::Missing("agent of the host"))?;
        let code = Self::code(&api, &gpu)?;
        let executable = api.load_code(gpu.handle, code, |_| ())?;
        let kernels = api.kernels(executable, gpu.handle)?;
        let kernargs = api.kernarg_memory(&[gpu.handle], KERNARG_BYTES)?;
        let pools = api.pools()?;
        Ok(Device { cpu: cpu.handle, api, gpu, pools, kernels, kernargs, kernargs_used: Cell::new(0) })
    }

    /// The code object of the kernels for a GPU. It lives as long as the process, as the loader's debuggers want it.
    fn code(api: &Api, gpu: &Agent) -> Result<&'static [u8]> {
        let names = api.isa_names(gpu.handle)?;
        // The settings of the code are "any": the same runs whatever the GPU's are.
        let target = names.iter().find_map(|name| Target::parse(name).ok()).map(|target| target.processor);
        let bytes = target.and_then(|processor| code_object(&Target::parse(&processor).ok()?));
        bytes.map(|bytes| &*bytes.leak()).ok_or_else(|| DeviceError::Processor(gpu.name.clone()))
    }

    /// Loads the code once more; the kernels of that.
    pub(crate) fn load_again(&self) -> Result<Vec<KernelSymbol>> {
        let executable = self.api.load_code(self.gpu.handle, Self::code(&self.api, &self.gpu)?, |_| ())?;
        Ok(self.api.kernels(executable, self.gpu.handle)?)
    }

    /// A kernel of [`crate::kernels::KERNELS`].
    pub(crate) fn kernel(&self, name: &'static str) -> Result<&KernelSymbol> {
        Self::named(&self.kernels, name)
    }

    /// A kernel of a list.
    pub(crate) fn named<'k>(kernels: &'k [KernelSymbol], name: &'static str) -> Result<&'k KernelSymbol> {
        kernels.iter().find(|k| k.name.strip_suffix(".kd") == Some(name)).ok_or(DeviceError::Missing(name))
    }

    /// Arguments for a dispatch, for as long as the process lives; their address.
    pub(crate) fn arguments(&self, addresses: &[u64]) -> Result<u64> {
        let at = self.kernargs_used.get();
        let end = at + (8 * addresses.len()).next_multiple_of(64);
        if end > KERNARG_BYTES {
            return Err(DeviceError::Missing("more memory for arguments"));
        }
        self.kernargs_used.set(end);
        let to = self.kernargs.as_ptr().wrapping_add(at).cast::<u64>();
        for (n, address) in addresses.iter().enumerate() {
            // SAFETY: inside of the memory by the test above, aligned to 64 bytes, and no dispatch has these bytes yet.
            unsafe { to.wrapping_add(n).write(*address) };
        }
        Ok(to as u64)
    }

    /// Memory of the host that the GPU sees, as words.
    pub(crate) fn host(&self, words: usize) -> Result<&'static [AtomicU32]> {
        let pool = |fine: bool| {
            self.pools.iter().find(|p| !p.is_gpu && p.global_flags.is_some() && p.is_fine_grained() == fine)
        };
        let pool = pool(true).or(pool(false)).ok_or(DeviceError::Missing("pool of the host's memory"))?;
        let memory = self.api.allocate(pool, 4 * words, &[self.gpu.handle])?;
        // SAFETY: the memory has so many words, is aligned to a page, and is never given back.
        let words = unsafe { std::slice::from_raw_parts(memory.as_ptr().cast::<AtomicU32>(), words) };
        words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        Ok(words)
    }

    /// Memory of the GPU.
    pub(crate) fn vram(&self, bytes: usize) -> Result<NonNull<u8>> {
        Ok(self.api.allocate(self.vram_pool()?, bytes, &[self.gpu.handle])?)
    }

    fn vram_pool(&self) -> Result<&Pool> {
        let mine = |p: &&Pool| p.agent == self.gpu.handle && p.global_flags.is_some() && !p.is_fine_grained();
        self.pools.iter().find(mine).ok_or(DeviceError::Missing("pool of the GPU's memory"))
    }

    /// Whether the runtime lets the host at the GPU's memory. It gives access without a word where it does not.
    fn host_may_access_vram(&self) -> bool {
        let mut access = NEVER_ALLOWED;
        let (Some(ask), Ok(pool)) = (self.api.amd.hsa_amd_agent_memory_pool_get_info_fn, self.vram_pool()) else {
            return false;
        };
        let (agent, pool) = (hsa_agent_t { handle: self.cpu }, raw::hsa_amd_memory_pool_t { handle: pool.handle });
        let attribute = raw::HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS;
        // SAFETY: the attribute is a number of 32 bits (`hsa_ext_amd.h`).
        let status = unsafe { ask(agent, pool, attribute, ptr::from_mut(&mut access).cast()) };
        status == raw::HSA_STATUS_SUCCESS && access != NEVER_ALLOWED
    }

    /// The first agent of the host.
    pub(crate) fn host_agent(&self) -> u64 {
        self.cpu
    }

    /// Gives the host access to memory of [`Device::vram`]; false where it cannot have it.
    pub(crate) fn share_with_host(&self, memory: NonNull<u8>) -> bool {
        if !self.host_may_access_vram() {
            return false;
        }
        let agents = [hsa_agent_t { handle: self.cpu }, hsa_agent_t { handle: self.gpu.handle }];
        let allow = self.api.amd.hsa_amd_agents_allow_access_fn;
        // SAFETY: as many agents as the number says, no flags, memory of this runtime.
        allow.is_some_and(|allow| unsafe { allow(2, agents.as_ptr(), ptr::null(), memory.as_ptr().cast()) }.0 == 0)
    }

    /// Starts a copy of words between the host and the GPU.
    ///
    /// # Safety
    /// Both places have so many bytes until the signal is 0.
    pub(crate) unsafe fn copy(
        &self,
        to: (*mut u8, bool),
        from: (*const u8, bool),
        bytes: usize,
        signal: OwnSignal,
    ) -> Result<()> {
        let agent = |is_gpu: bool| if is_gpu { self.gpu.handle } else { self.cpu };
        // SAFETY: the caller's promise.
        unsafe { self.api.start_copy((to.0, agent(to.1)), (from.0, agent(from.1)), bytes, signal) }?;
        Ok(())
    }

    /// Waits for a copy.
    ///
    /// # Errors
    /// [`DeviceError::Copy`] when it does not end.
    pub(crate) fn wait_for_copy(&self, signal: OwnSignal) -> Result<()> {
        let start = Instant::now();
        while signal.memory().value.load(Ordering::Acquire) > 0 {
            if start.elapsed() > COPIED_WITHIN {
                return Err(DeviceError::Copy);
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// A queue for `packets` packets, of the kind that HIP uses.
    pub(crate) fn queue(&self, packets: u32) -> Result<Queue<'_>> {
        self.queue_of(packets, raw::HSA_QUEUE_TYPE_MULTI.0)
    }

    /// A queue of a kind.
    pub(crate) fn queue_of(&self, packets: u32, kind: u32) -> Result<Queue<'_>> {
        unsafe extern "C" fn stopped(status: hsa_status_t, _: *mut hsa_queue_t, data: *mut c_void) {
            // SAFETY: `data` is the number that is passed below, which is never freed.
            unsafe { &*data.cast::<AtomicU32>() }.store(status.0, Ordering::Release);
        }
        let status: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        let data = ptr::from_ref(status).cast_mut().cast();
        let create = self.api.core.hsa_queue_create_fn.ok_or(DeviceError::Missing("hsa_queue_create"))?;
        let (mut queue, agent) = (ptr::null_mut(), hsa_agent_t { handle: self.gpu.handle });
        // SAFETY: the callback gets the number that it expects; the runtime writes one pointer.
        let made = unsafe { create(agent, packets, kind, Some(stopped), data, u32::MAX, u32::MAX, &mut queue) };
        succeeded(made, "hsa_queue_create")?;
        Ok(Queue { device: self, queue, stopped: status })
    }

    /// A signal that only the GPU changes, without an event.
    pub(crate) fn signal(&self, value: i64) -> Result<OwnSignal> {
        Ok(self.api.own_signal(value)?)
    }

    /// A signal as applications have them, with an event where the runtime uses interrupts.
    pub(crate) fn application_signal(&self, value: i64) -> Result<OwnSignal> {
        let create = self.api.core.hsa_signal_create_fn.ok_or(DeviceError::Missing("hsa_signal_create"))?;
        let mut signal = hsa_signal_t { handle: 0 };
        // SAFETY: no consumers are passed, and the runtime writes one handle.
        let made = unsafe { create(value, 0, ptr::null(), &mut signal) };
        succeeded(made, "hsa_signal_create")?;
        // SAFETY: the signal was made above and is never destroyed.
        Ok(unsafe { OwnSignal::from_handle(signal.handle) })
    }

    /// The system's clock now, in nanoseconds.
    pub(crate) fn now_ns(&self) -> Result<u64> {
        let (ticks, rate) = (self.api.timestamp()?, self.api.timestamp_frequency()?);
        Ok(nanoseconds(ticks, rate))
    }

    /// When the last packet on a signal ran, in nanoseconds of the system's clock.
    pub(crate) fn dispatch_ns(&self, signal: OwnSignal) -> Result<(u64, u64)> {
        let (time, rate) = (self.api.dispatch_time(self.gpu.handle, signal)?, self.api.timestamp_frequency()?);
        Ok((nanoseconds(time.start, rate), nanoseconds(time.end, rate)))
    }
}

/// Ticks of a clock as nanoseconds.
fn nanoseconds(ticks: u64, rate: u64) -> u64 {
    u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(rate.max(1))).unwrap_or(u64::MAX)
}

fn succeeded(status: hsa_status_t, call: &'static str) -> Result<()> {
    match status {
        raw::HSA_STATUS_SUCCESS => Ok(()),
        hsa_status_t(status) => Err(HsaError::Status { call, status }.into()),
    }
}

impl Queue<'_> {
    /// Completed packets have times from now on.
    pub(crate) fn profile(&self) -> Result<()> {
        // SAFETY: the queue was made by this process and is not destroyed: that takes it.
        unsafe { self.device.api.enable_profiling(self.queue) }?;
        Ok(())
    }

    /// Prepares it as the library prepares a queue, or says why that is not possible.
    pub(crate) fn watch_in_place(&self) -> std::result::Result<hsa::RingMemory, hsa::Refusal> {
        // SAFETY: the queue was made by this process and is not destroyed: that takes it. No packet was written yet.
        unsafe { self.device.api.watch_in_place(self.queue) }
    }

    /// The structure that the packet processor reads.
    pub(crate) fn memory(&self) -> &AmdQueue {
        // SAFETY: every queue of AMD's runtime begins an `amd_queue_t`, and the queue is not destroyed.
        unsafe { AmdQueue::from_address(self.queue.expose_provenance() as u64) }
    }

    fn fields(&self) -> hsa_queue_t {
        // SAFETY: the fields never change after the queue was created.
        unsafe { self.queue.read() }
    }

    /// How many packets it holds.
    pub(crate) fn size(&self) -> u64 {
        self.fields().size.into()
    }

    /// The slot of a packet, as words.
    fn slot(&self, index: u64) -> &[AtomicU32; 16] {
        let fields = self.fields();
        let slots = fields.base_address.cast::<[AtomicU32; 16]>();
        // SAFETY: the index is reduced to the ring's size; the ring lives as long as the queue, in words that are atomics here.
        unsafe { &*slots.wrapping_add((index & u64::from(fields.size - 1)) as usize) }
    }

    /// The header of a slot.
    pub(crate) fn header(&self, index: u64) -> u16 {
        self.slot(index)[0].load(Ordering::Acquire) as u16
    }

    /// Reserves packets by the runtime's function; the first one's number.
    pub(crate) fn reserve(&self, packets: u64) -> Result<u64> {
        let add = self.device.api.core.hsa_queue_add_write_index_screlease_fn;
        let add = add.ok_or(DeviceError::Missing("hsa_queue_add_write_index_screlease"))?;
        // SAFETY: the queue is not destroyed.
        Ok(unsafe { add(self.queue, packets) })
    }

    /// How many packets the packet processor has consumed.
    pub(crate) fn read_index(&self) -> u64 {
        self.memory().read_dispatch_id.load(Ordering::Acquire)
    }

    /// Writes a dispatch into the slot of a number, when that is free.
    pub(crate) fn write(&self, index: u64, dispatch: &Dispatch<'_>) -> Result<()> {
        let Dispatch { kernel, workgroups, kernarg, signal } = *dispatch;
        let object = kernel.kernel_object;
        let words: [u32; 15] = [
            WORKGROUP | 1 << 16,
            1,
            workgroups * WORKGROUP,
            1,
            1,
            kernel.private_segment_size,
            kernel.group_segment_size,
            object as u32,
            (object >> 32) as u32,
            kernarg as u32,
            (kernarg >> 32) as u32,
            0,
            0,
            signal as u32,
            (signal >> 32) as u32,
        ];
        // One dimension.
        self.fill(index, PacketType::KernelDispatch, 1, words)
    }

    /// Writes a packet that completes when all before it have.
    pub(crate) fn write_barrier(&self, index: u64, signal: OwnSignal) -> Result<()> {
        let mut words = [0; 15];
        words[13] = signal.handle() as u32;
        words[14] = (signal.handle() >> 32) as u32;
        self.fill(index, PacketType::BarrierAnd, 0, words)
    }

    fn fill(&self, index: u64, kind: PacketType, setup: u16, words: [u32; 15]) -> Result<()> {
        while index >= self.read_index() + self.size() {
            self.check()?;
            std::thread::yield_now();
        }
        let number: u16 = match kind {
            PacketType::KernelDispatch => 2,
            PacketType::BarrierAnd => 3,
            _ => INVALID_HEADER,
        };
        // Acquire and release of the whole system: bits 9-10 and 11-12 (HSA 1.2, 2.9.1).
        let header = number | BARRIER_BIT | 2 << 9 | 2 << 11;
        let slot = self.slot(index);
        for (to, word) in slot.iter().skip(1).zip(words) {
            to.store(word, Ordering::Relaxed);
        }
        // Last, so that the packet processor reads no half packet.
        slot[0].store(u32::from(header) | u32::from(setup) << 16, Ordering::Release);
        Ok(())
    }

    /// Rings the doorbell for a packet and all before it.
    pub(crate) fn ring(&self, index: u64) -> Result<()> {
        let ring = self.device.api.core.hsa_signal_store_screlease_fn;
        let ring = ring.ok_or(DeviceError::Missing("hsa_signal_store_screlease"))?;
        // SAFETY: the doorbell lives as long as its queue.
        unsafe { ring(self.fields().doorbell_signal, index as i64) };
        Ok(())
    }

    /// Writes a dispatch and rings for it; its number.
    pub(crate) fn dispatch(&self, dispatch: &Dispatch<'_>) -> Result<u64> {
        let index = self.reserve(1)?;
        self.write(index, dispatch)?;
        self.ring(index)?;
        Ok(index)
    }

    /// Waits until the value of a signal is 0, or the runtime has stopped the queue.
    pub(crate) fn wait(&self, signal: OwnSignal) -> Result<()> {
        let mut looks = 0u32;
        while signal.memory().value.load(Ordering::Acquire) > 0 {
            looks += 1;
            if looks > 10_000 {
                self.check()?;
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// The same for at most `limit`; false if the value is not 0 then.
    pub(crate) fn wait_for(&self, signal: OwnSignal, limit: Duration) -> Result<bool> {
        let start = Instant::now();
        while signal.memory().value.load(Ordering::Acquire) > 0 {
            self.check()?;
            if start.elapsed() > limit {
                return Ok(false);
            }
            std::thread::yield_now();
        }
        Ok(true)
    }

    /// Waits until everything in it is complete.
    pub(crate) fn drain(&self) -> Result<()> {
        let done = self.device.signal(1)?;
        let index = self.reserve(1)?;
        self.write_barrier(index, done)?;
        self.ring(index)?;
        self.wait(done)
    }

    /// An error if the runtime has stopped the queue.
    pub(crate) fn check(&self) -> Result<()> {
        match self.stopped.load(Ordering::Acquire) {
            0 => Ok(()),
            status => Err(DeviceError::Stopped(status)),
        }
    }

    /// Gives it a priority: 0 low, 1 normal, 2 high (`hsa_amd_queue_priority_t`).
    pub(crate) fn set_priority(&self, priority: u32) -> Result<()> {
        let set = self.device.api.amd.hsa_amd_queue_set_priority_fn;
        let set = set.ok_or(DeviceError::Missing("hsa_amd_queue_set_priority"))?;
        // SAFETY: the queue is not destroyed; the number is one of the enumeration's.
        let status = unsafe { set(self.queue, raw::hsa_amd_queue_priority_s(priority)) };
        succeeded(status, "hsa_amd_queue_set_priority")
    }

    /// Lets it use the first compute unit of each group of two only.
    pub(crate) fn set_mask(&self) -> Result<()> {
        let set = self.device.api.amd.hsa_amd_queue_cu_set_mask_fn;
        let set = set.ok_or(DeviceError::Missing("hsa_amd_queue_cu_set_mask"))?;
        let mask = [0x5555_5555u32];
        // SAFETY: the queue is not destroyed; the mask has as many bits as the number says.
        let status = unsafe { set(self.queue, 32, mask.as_ptr()) };
        // What was asked for, less what the device has not.
        if status.0 == CU_MASK_REDUCED { Ok(()) } else { succeeded(status, "hsa_amd_queue_cu_set_mask") }
    }

    /// Destroys it. Everything in it is complete.
    pub(crate) fn destroy(self) -> Result<()> {
        // SAFETY: the queue is given up with this, and what was in it is complete.
        unsafe { self.device.api.destroy_queue(self.queue) }?;
        Ok(())
    }
}

/// The times that a signal carries, in ticks of the GPU.
pub(crate) fn ticks(signal: OwnSignal) -> (u64, u64) {
    signal.memory().ticks()
}

/// Makes a signal ready for another packet: value 1, no times.
pub(crate) fn rearm(signal: OwnSignal) {
    let memory: &Signal = signal.memory();
    memory.start_ts.store(0, Ordering::Relaxed);
    memory.end_ts.store(0, Ordering::Relaxed);
    memory.value.store(1, Ordering::Release);
}
