//! One GPU: its processor, its memory, its compute units, and what its queues share.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use amdgpu_isa::Arch;
use amdgpu_isa::decode::Decoder;

use crate::clock::Clock;
use crate::code::CodeCache;
use crate::driver::Driver;
use crate::gws::Gws;
use crate::launch::{LDS_BYTES, Launch};
use crate::memory::AddressSpace;
use crate::observer::Observe;
use crate::shape::Shape;

/// Waves that a compute unit holds at a time: four SIMDs of eight (MI200) or ten.
pub(crate) const fn waves_per_compute_unit(arch: Arch) -> u32 {
    match arch {
        Arch::Gfx90a | Arch::Gfx942 => 32,
        _ => 40,
    }
}

/// One GPU.
pub struct Gpu {
    /// Distinguishes the GPUs of a machine.
    pub index: usize,
    /// What it is made of.
    pub shape: Shape,
    /// Its virtual memory.
    pub space: Arc<AddressSpace>,
    pub(crate) code: Arc<CodeCache>,
    pub(crate) gws: Gws,
    /// See [`Gpu::fill_from`].
    pub(crate) fill: OnceLock<u32>,
    /// See [`Gpu::observe`].
    pub(crate) observe: OnceLock<Arc<dyn Observe>>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) driver: Arc<dyn Driver>,
    /// How often an AQL queue was mapped or unmapped.
    pub(crate) remaps: AtomicU64,
}

impl Gpu {
    /// A GPU with nothing mapped. The GPUs of a machine share its clock.
    pub fn new(index: usize, shape: Shape, clock: Arc<Clock>, driver: Arc<dyn Driver>) -> Gpu {
        Gpu {
            index,
            shape,
            space: Arc::new(AddressSpace::default()),
            code: Arc::new(CodeCache::new(Decoder::new(shape.arch))),
            gws: Gws::default(),
            fill: OnceLock::new(),
            observe: OnceLock::new(),
            clock,
            driver,
            remaps: AtomicU64::new(0),
        }
    }

    /// Sets how many waves meet at the barrier of global wave sync: one of each workgroup. The runtime's own kernel does this before a
    /// cooperative dispatch.
    pub fn meet(&self, waves: u32) {
        self.gws.init(0, waves.saturating_sub(1));
    }

    /// Sets the seed. With it, each dispatch draws the contents of unwritten LDS, scratch and registers, and the order of workgroups and
    /// waves. Without it, they have the data of the last workgroup, and the order is by number. Only the first call has an effect.
    pub fn fill_from(&self, seed: u32) {
        self.fill.get_or_init(|| seed);
    }

    /// Sets the observer of dispatches. Only the first call has an effect.
    pub fn observe(&self, observe: Arc<dyn Observe>) {
        self.observe.get_or_init(|| observe);
    }

    /// How many workgroups of a dispatch can be resident at a time.
    pub(crate) fn capacity(&self, launch: &Launch) -> u64 {
        let items: u32 = launch.workgroup.iter().product();
        let by_waves = waves_per_compute_unit(self.shape.arch) / items.div_ceil(64).max(1);
        let by_lds = LDS_BYTES.checked_div(launch.lds).unwrap_or(u32::MAX);
        u64::from(by_waves.min(by_lds).max(1)) * u64::from(self.shape.compute_units)
    }
}
