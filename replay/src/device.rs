//! The device of a replay: the runtime in this process, an agent, a queue, and bytes into and out of memory.
//!
//! # Threads
//! One.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hsa::sys::abi::aql::Packet;
use hsa::{Agent, AgentKind, Api, OwnQueue, OwnSignal, Pool};
use logdur_capture::AllocationKind;

use crate::error::{Doing, Fault, ReplayError, Result};

/// Bytes that are copied at once.
pub(crate) const STAGING: usize = 4 << 20;
/// A copy of that takes no longer.
const COPY: Duration = Duration::from_secs(60);
/// How long is looked without sleeping.
const SPIN: Duration = Duration::from_micros(200);
/// How long is slept between looks.
const LOOK: Duration = Duration::from_micros(50);

/// What a replay ran on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The agent's ISA.
    pub isa: String,
    /// Its product name.
    pub product: String,
    /// True when it is not hardware.
    pub emulated: bool,
    /// The runtime's version of the HSA interface, and its own.
    pub runtime: String,
}

/// The device of a replay. The runtime is not shut down: the process ends.
pub(crate) struct Device {
    pub(crate) api: Api,
    pub(crate) gpu: u64,
    cpu: u64,
    pools: Vec<Pool>,
    queue: OwnQueue,
    done: OwnSignal,
    copied: OwnSignal,
    staging: NonNull<u8>,
    ticks_per_second: u64,
    /// What it is.
    pub(crate) description: Description,
}

/// How long a dispatch took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// On the GPU, in nanoseconds, by the packet processor's time stamps.
    pub gpu_ns: u64,
    /// From before the packet was written until its end was seen, in nanoseconds.
    pub host_ns: u64,
}

impl Device {
    /// Starts the runtime and takes a GPU: that of a position, or the first that is like the captured one.
    ///
    /// # Errors
    /// When there is no such GPU, or the runtime cannot be used.
    pub(crate) fn open(captured_isa: Option<&str>, position: Option<usize>, queue_kind: u32) -> Result<Device> {
        let api = Api::open(None).doing(|| "opening the HSA runtime".to_owned())?;
        api.init().doing(|| "starting the HSA runtime".to_owned())?;
        api.watch_faults().doing(|| "watching for faults".to_owned())?;
        let agents = api.agents().doing(|| "listing agents".to_owned())?;
        let gpus: Vec<&Agent> = agents.iter().filter(|a| a.kind == AgentKind::Gpu).collect();
        let isas = |gpu: &Agent| api.isa_names(gpu.handle).doing(|| "listing instruction sets".to_owned());
        let mut found = Vec::new();
        let mut chosen = None;
        for (number, gpu) in gpus.iter().enumerate() {
            let isa = isas(gpu)?.into_iter().next().unwrap_or_default();
            let like = captured_isa.is_none_or(|captured| processor(captured) == processor(&isa));
            if position.map_or(like, |position| position == number) && chosen.is_none() {
                if !like {
                    let expected = captured_isa.unwrap_or_default().to_owned();
                    return Err(ReplayError::Environment { what: "the GPU", expected, found: isa });
                }
                chosen = Some((*gpu, isa));
                continue;
            }
            found.push(format!("{number}: {isa}"));
        }
        let Some((gpu, isa)) = chosen else {
            let expected = position.map_or(captured_isa.unwrap_or("a GPU").to_owned(), |n| format!("GPU {n}"));
            let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
            return Err(ReplayError::Environment { what: "the GPU", expected, found });
        };
        let missing = |what| ReplayError::Environment { what, expected: "one".to_owned(), found: "none".to_owned() };
        let cpu = agents.iter().find(|a| a.kind == AgentKind::Cpu).ok_or_else(|| missing("the host's agent"))?.handle;
        let pools = api.pools().doing(|| "listing pools".to_owned())?;
        let host = pools.iter().find(|p| !p.is_gpu && p.is_fine_grained() && !p.is_for_kernargs());
        let host = host.or_else(|| pools.iter().find(|p| !p.is_gpu && p.global_flags.is_some()));
        let host = *host.ok_or_else(|| missing("the host's pool of memory"))?;
        let staging = api.allocate(&host, STAGING, &[gpu.handle]).doing(|| format!("{STAGING} bytes for copies"))?;
        let signal = || api.own_signal(0).doing(|| "making a signal".to_owned());
        let (done, copied) = (signal()?, signal()?);
        let queue = api.own_queue(gpu.handle, queue_kind).doing(|| "making a queue".to_owned())?;
        let (major, minor) = api.version().doing(|| "asking for the version".to_owned())?;
        let ticks_per_second = api.timestamp_frequency().doing(|| "asking for the clock".to_owned())?.max(1);
        let description = Description {
            isa,
            product: gpu.product.clone(),
            emulated: gpu.is_emulated(),
            runtime: format!("{major}.{minor} {}", api.build_version()).trim_end().to_owned(),
        };
        let gpu = gpu.handle;
        Ok(Device { api, gpu, cpu, pools, queue, done, copied, staging, ticks_per_second, description })
    }

    /// The queue.
    pub(crate) fn queue(&self) -> &OwnQueue {
        &self.queue
    }

    /// The pool for memory of a kind, and whether it is what the application had.
    ///
    /// # Errors
    /// When the device has no such pool.
    pub(crate) fn pool(&self, kind: AllocationKind) -> Result<(Pool, bool)> {
        let global = |pool: &&Pool| pool.global_flags.is_some();
        let of_gpu = |fine: bool| {
            let mut pools = self.pools.iter().filter(global);
            pools.find(|p| p.is_gpu && p.agent == self.gpu && p.is_fine_grained() == fine).copied()
        };
        let of_host = |kernarg: bool| {
            let mut pools = self.pools.iter().filter(global);
            pools.find(|p| !p.is_gpu && p.is_for_kernargs() == kernarg && p.is_fine_grained()).copied()
        };
        let (same, instead) = match kind {
            AllocationKind::DeviceCoarse => (of_gpu(false), None),
            AllocationKind::DeviceFine | AllocationKind::DeviceExtended => (of_gpu(true), of_gpu(false)),
            // What is locked is of the fine-grained pool, unless another was asked for (`hsa_amd_memory_lock`).
            AllocationKind::HostPool | AllocationKind::LockedHost => (of_host(false), of_host(true)),
            AllocationKind::Kernarg => (of_host(true), of_host(false)),
            AllocationKind::Managed => (None, of_host(false).or(of_host(true))),
            _ => (None, of_gpu(false)),
        };
        let found = same.map(|pool| (pool, true)).or(instead.map(|pool| (pool, false)));
        found.ok_or_else(|| ReplayError::Environment {
            what: "the pools of memory",
            expected: format!("one for {kind}"),
            found: "none".to_owned(),
        })
    }

    fn copy(&self, to: (*mut u8, u64), from: (*const u8, u64), bytes: usize) -> Result<()> {
        let doing = || format!("copying {bytes} bytes from {:p} to {:p}", from.0, to.0);
        self.copied.memory().value.store(1, Ordering::Release);
        // SAFETY: one side is the staging memory, which has so many bytes; the other was allocated for the GPU by this
        // process: the callers' promise. It is waited for.
        unsafe { self.api.start_copy(to, from, bytes, self.copied) }.doing(doing)?;
        self.wait(self.copied, COPY)
    }

    /// Writes to memory of the GPU.
    ///
    /// # Errors
    /// When the runtime cannot.
    ///
    /// # Safety
    /// The address is of memory that the GPU can reach, has so many bytes, and that no kernel uses.
    pub(crate) unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<()> {
        for (n, part) in bytes.chunks(STAGING).enumerate() {
            // SAFETY: the staging memory has at least so many bytes, and no copy uses it now.
            unsafe { self.staging.copy_from_nonoverlapping(NonNull::from(part).cast(), part.len()) };
            let to = std::ptr::with_exposed_provenance_mut(address as usize + n * STAGING);
            self.copy((to, self.gpu), (self.staging.as_ptr(), self.cpu), part.len())?;
        }
        Ok(())
    }

    /// Reads memory of the GPU.
    ///
    /// # Errors
    /// When the runtime cannot.
    ///
    /// # Safety
    /// As for [`Device::write`].
    pub(crate) unsafe fn read(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        for (n, part) in bytes.chunks_mut(STAGING).enumerate() {
            let from = std::ptr::with_exposed_provenance(address as usize + n * STAGING);
            self.copy((self.staging.as_ptr(), self.cpu), (from, self.gpu), part.len())?;
            // SAFETY: the copy is complete; the staging memory has at least so many bytes.
            unsafe { self.staging.copy_to_nonoverlapping(NonNull::from(&mut *part).cast(), part.len()) };
        }
        Ok(())
    }

    /// Runs a packet, with a completion signal of this device's.
    ///
    /// # Errors
    /// A fault, or that it does not end in time: the device is of no use then.
    ///
    /// # Safety
    /// The packet is a dispatch whose kernel and kernarg segment are loaded and stay.
    pub(crate) unsafe fn run(&self, mut packet: Packet, limit: Duration) -> Result<Times> {
        self.done.memory().value.store(1, Ordering::Release);
        packet.set_completion_signal(self.done.handle());
        let start = Instant::now();
        // SAFETY: the caller's promise; one packet is waited for before the next.
        unsafe { self.api.submit(&self.queue, &packet) }.doing(|| "submitting the packet".to_owned())?;
        self.wait(self.done, limit)?;
        let host_ns = nanoseconds(start.elapsed());
        let time = self.api.dispatch_time(self.gpu, self.done).doing(|| "asking when the kernel ran".to_owned())?;
        let ticks = u128::from(time.end.saturating_sub(time.start));
        let gpu_ns = u64::try_from(ticks * 1_000_000_000 / u128::from(self.ticks_per_second)).unwrap_or(u64::MAX);
        Ok(Times { gpu_ns, host_ns })
    }

    fn wait(&self, signal: OwnSignal, limit: Duration) -> Result<()> {
        let start = Instant::now();
        while signal.memory().value.load(Ordering::Acquire) > 0 {
            let fault = hsa::fault();
            let error = self.queue.error();
            if fault.is_some() || error.is_some() {
                let what = match error {
                    Some(error) => error.to_string(),
                    None => "memory that must not be accessed".to_owned(),
                };
                // Of a fault of memory the runtime may tell after it has stopped the queue.
                let address = fault.or_else(|| later(Duration::from_millis(100), hsa::fault)).map(|f| f.address);
                return Err(ReplayError::Fault(Fault { what, address, nearest: None }));
            }
            if start.elapsed() > limit {
                return Err(ReplayError::Timeout { seconds: limit.as_secs_f64() });
            }
            if start.elapsed() > SPIN {
                std::thread::sleep(LOOK);
            }
            std::hint::spin_loop();
        }
        Ok(())
    }
}

/// What comes within some time.
fn later<T>(limit: Duration, look: impl Fn() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let found = look();
        if found.is_some() || start.elapsed() > limit {
            return found;
        }
        std::thread::sleep(LOOK);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The processor of an ISA's name: `gfx90a` of `amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-`.
fn processor(isa: &str) -> &str {
    let id = isa.rsplit("--").next().unwrap_or(isa);
    id.split(':').next().unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_told_from_its_settings() {
        assert_eq!(processor("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"), "gfx90a");
        assert_eq!(processor("gfx906"), "gfx906");
    }
}
