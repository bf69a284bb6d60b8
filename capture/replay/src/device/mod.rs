//! A device for replays: memory at chosen addresses, code, and a queue.
//!
//! There are two kinds: a GPU under the HSA runtime ([`rocm`]), and the emulated GPU without a runtime ([`emu`]). The modules above
//! use the trait only.
//!
//! # Threads
//! One.

mod completion;
mod emu;
mod flight;
mod rocm;
mod staging;

use std::ops::Range;
use std::time::Duration;

use amdgpu_code_object::{Setting, Target};
use hsa::sys::abi::aql::Packet;
use logdur_capture::{Id, Loaded};
use logdur_captured::regions::{MemoryRequest, PAGE};
use logdur_captured::{Backend, Called, CapturedDispatch, Code, extent};

use crate::accesses::Accesses;
use crate::error::{ReplayError, Result};
use crate::placed::{Placed, PlacedRange};
use crate::setup::Setup;

pub(crate) use flight::IN_FLIGHT;

/// The processors that can be emulated, oldest first.
pub fn emulated_processors() -> impl Iterator<Item = &'static str> {
    amdgpu_emu::Arch::ALL.into_iter().map(amdgpu_emu::Arch::name)
}

/// On an emulated GPU, a kernel of which no wave has ended for so many seconds is looked at: nothing else can make it go on.
pub const STUCK_SECONDS: u32 = 5;

/// What a replay ran on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The agent's ISA.
    pub isa: String,
    /// Its product name.
    pub product: String,
    /// True when it is not hardware.
    pub emulated: bool,
    /// The runtime: `HSA` with the version of its interface and its own version, or `no runtime`.
    pub runtime: String,
}

/// How long a dispatch took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// On the GPU, in nanoseconds, by the packet processor's time stamps.
    pub gpu_ns: u64,
    /// Nanoseconds from before the packet was written until the host saw its completion.
    pub host_ns: u64,
}

/// What kernels are told of the queue that they run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueFacts {
    /// Its address.
    pub(crate) address: u64,
    /// High half of the scratch aperture.
    pub(crate) private_base_hi: u32,
    /// High half of the LDS aperture.
    pub(crate) shared_base_hi: u32,
}

/// Code that is loaded.
#[derive(Clone, Copy)]
pub(crate) enum Load<'c> {
    /// With a kernel, whose address for packets is the code's anchor.
    Kernel(&'c Code),
    /// What a kernel calls. The address of its first byte is its anchor.
    Called(&'c Called),
}

impl Load<'_> {
    /// Its hash.
    pub(crate) fn id(&self) -> Id {
        match self {
            Load::Kernel(code) => code.id,
            Load::Called(called) => called.id(),
        }
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Load::Kernel(code) => &code.bytes,
            Load::Called(called) => &called.bytes,
        }
    }
}

/// Where code is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CodePlace {
    /// Its pages.
    pub(crate) pages: Range<u64>,
    /// Where it begins.
    pub(crate) base: u64,
    /// The address of its anchor, when it is there.
    pub(crate) anchor: u64,
}

impl CodePlace {
    /// Where a code object was loaded, with its anchor at an address.
    pub(crate) fn of(loaded: &Loaded, anchor: u64) -> CodePlace {
        let Range { start: base, end } = extent(loaded);
        CodePlace { pages: base / PAGE * PAGE..end.next_multiple_of(PAGE), base, anchor }
    }
}

/// A device. What is allocated and loaded stays as long as the process.
pub(crate) trait Device {
    /// What it is.
    fn description(&self) -> &Description;

    /// Its queue.
    fn queue(&self) -> QueueFacts;

    /// Allocates memory at the wanted addresses, and returns the parts that are elsewhere, if that is allowed. Adds a line to
    /// `qualified` for each kind of memory that differs from the wanted one.
    ///
    /// # Errors
    /// When it cannot be had, or is elsewhere and that is not allowed.
    fn allocate(&mut self, wanted: &[MemoryRequest], qualified: &mut Vec<String>) -> Result<Vec<PlacedRange>>;

    /// Loads code where it is wanted; the address of its anchor.
    ///
    /// # Errors
    /// [`Placement`](crate::error::ReplayError::Placement) when it can only be elsewhere.
    fn load_at(&mut self, code: Load<'_>, place: &CodePlace) -> Result<Placed>;

    /// Loads code anywhere; the address of its anchor.
    ///
    /// # Errors
    /// When it cannot be loaded.
    fn load(&mut self, code: Load<'_>) -> Result<Placed>;

    /// Refuses a kernel with instructions that the device is known to lack.
    ///
    /// # Errors
    /// When there are some: their names.
    fn has_instructions(&self, _code: &Code) -> Result<()> {
        Ok(())
    }

    /// Gives up reserved addresses: everything is placed.
    fn release_reservations(&mut self);

    /// Memory for kernel arguments.
    ///
    /// # Errors
    /// When there is none.
    fn kernarg(&mut self, bytes: usize) -> Result<Placed>;

    /// Writes to memory of the GPU.
    ///
    /// # Errors
    /// When it cannot be written.
    ///
    /// # Safety
    /// Addresses are of memory of [`allocate`](Device::allocate) or [`kernarg`](Device::kernarg), or of variables of loaded
    /// code, and no kernel runs.
    unsafe fn write(&self, pieces: &[(Placed, &[u8])]) -> Result<()>;

    /// Reads memory of the GPU.
    ///
    /// # Errors
    /// When it cannot be read.
    ///
    /// # Safety
    /// As for [`write`](Device::write).
    unsafe fn read(&self, pieces: &mut [(Placed, &mut [u8])]) -> Result<()>;

    /// Flushes the caches.
    ///
    /// # Errors
    /// When there is no memory for that.
    fn flush_caches(&mut self) -> Result<()>;

    /// Sets how many workgroups of the next packet meet at the barrier of the whole grid (global wave sync).
    ///
    /// # Errors
    /// When the device has no way to say that.
    fn meet(&self, workgroups: u32) -> Result<()>;

    /// Records the accesses of the next packet, if the device sees them: see [`Device::recorded`]. Also which instructions store, if that is
    /// asked for.
    fn record(&mut self, _instructions: bool) {}

    /// Has unwritten registers, LDS and scratch hold the same in each launch from now on, or no longer; false on a device that cannot.
    fn hold_contents(&mut self, _hold: bool) -> bool {
        false
    }

    /// What was accessed since [`Device::record`]; `None` on a device that does not see it.
    fn recorded(&mut self) -> Option<Accesses> {
        None
    }

    /// Watches from now on which memory is written, by kernels and by [`Device::write`]; false on a device that does not see it.
    fn watch_writes(&mut self) -> bool {
        false
    }

    /// The pages that were written since the last call, by address; nothing before [`Device::watch_writes`].
    fn take_written(&self) -> Vec<Range<Placed>> {
        Vec::new()
    }

    /// Runs a packet, with a completion signal of the device's.
    ///
    /// # Errors
    /// A fault, or a time-out. The device cannot be used afterwards.
    ///
    /// # Safety
    /// The packet is a dispatch whose kernel and kernarg segment are loaded and stay.
    unsafe fn run(&mut self, packet: Packet, limit: Duration) -> Result<Times>;

    /// Makes queues until there are so many, the first of which is the one that [`Device::run`] uses.
    ///
    /// # Errors
    /// When there cannot be so many.
    fn make_queues(&mut self, count: usize) -> Result<()>;

    /// Publishes a packet on one of the queues, with a completion signal of the device's, and does not wait for it.
    /// [`Device::completed`] calls it by its ticket. Its barrier bit stays.
    ///
    /// # Errors
    /// When there is no such queue.
    ///
    /// # Safety
    /// As for [`run`](Device::run), until it is complete. Fewer than [`IN_FLIGHT`] packets of the queue are not complete.
    unsafe fn submit(&mut self, queue: usize, packet: Packet, ticket: usize) -> Result<()>;

    /// Waits until packets are complete that were submitted: their tickets, and how long each ran on the GPU, in nanoseconds. At least one,
    /// if there is one.
    ///
    /// # Errors
    /// A fault, or none is complete for this long. The device cannot be used afterwards.
    fn completed(&mut self, limit: Duration) -> Result<Vec<(usize, u64)>>;
}

/// Opens a device: the one at a position, or the first that is like the captured one. Reserves the addresses that will be wanted.
///
/// # Errors
/// When there is no such device, or it cannot be used.
pub(crate) fn open(setup: &Setup, captured: &CapturedDispatch<'_>, wanted: &[Range<u64>]) -> Result<Box<dyn Device>> {
    let isa = captured.agent.map(|agent| agent.isa.as_str()).filter(|isa| !isa.is_empty());
    let other = setup.processor.as_deref().map(|processor| on_processor(isa, processor));
    match (setup.backend, setup.device) {
        (Backend::Rocm, _) if other.is_some() => Err(ReplayError::Usage {
            what: "another processor".to_owned(),
            expected: "the emulated GPU alone (--backend emu)".to_owned(),
            found: "a runtime".to_owned(),
        }),
        (Backend::Emulated, Some(number)) if number > 0 => Err(ReplayError::Environment {
            what: "the GPU",
            expected: format!("GPU {number}"),
            found: "0: the emulated one alone".to_owned(),
        }),
        (Backend::Rocm, _) => Ok(Box::new(rocm::Rocm::open(isa, setup, captured, wanted)?)),
        (Backend::Emulated, _) => Ok(Box::new(emu::Emulated::open(other.as_deref().or(isa), captured, wanted, setup)?)),
    }
}

/// The ISA of a processor with the settings of another one's, as far as it has them: `amdgcn-amd-amdhsa--gfx942:xnack-`.
fn on_processor(isa: Option<&str>, processor: &str) -> String {
    let captured = isa.and_then(|isa| Target::parse(isa).ok());
    let Ok(mut target) = Target::parse(processor) else { return processor.to_owned() };
    if let Some(captured) = captured {
        for (to, from) in [(&mut target.xnack, captured.xnack), (&mut target.sramecc, captured.sramecc)] {
            if *to == Setting::Any && from != Setting::Unsupported {
                *to = from;
            }
        }
    }
    format!("amdgcn-amd-amdhsa--{target}")
}

/// A weakness if the device and the captured one differ in SRAM ECC: loads into half of a register then differ.
pub(crate) fn other_loads(captured: &str, isa: &str) -> Option<String> {
    let sramecc = |isa: &str| Target::parse(isa).map(|target| target.sramecc);
    let differs = matches!(
        (sramecc(captured), sramecc(isa)),
        (Ok(Setting::On), Ok(Setting::Off)) | (Ok(Setting::Off), Ok(Setting::On))
    );
    differs
        .then(|| format!("captured on {captured}, replayed on {isa}: loads into half of a register do not do the same"))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_processor_has_the_settings_of_the_captured_one_that_it_has() {
        let captured = Some("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-");
        assert_eq!(on_processor(captured, "gfx942"), "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-");
        assert_eq!(on_processor(captured, "gfx942:xnack+"), "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack+");
        assert_eq!(on_processor(captured, "gfx1030"), "amdgcn-amd-amdhsa--gfx1030");
        assert_eq!(on_processor(None, "gfx950"), "amdgcn-amd-amdhsa--gfx950");
    }

    #[test]
    fn another_error_correction_is_told_and_other_settings_are_not() {
        let other = |captured, isa| other_loads(captured, isa).is_some();
        assert!(other("amdgcn-amd-amdhsa--gfx906:sramecc-:xnack-", "amdgcn-amd-amdhsa--gfx906:sramecc+:xnack-"));
        assert!(!other("gfx90a:sramecc+:xnack-", "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack+"));
        assert!(
            !other("", "gfx90a:sramecc+") && !other("gfx906", "gfx906:sramecc-") && !other("gfx900", "gfx900:xnack-")
        );
    }
}
