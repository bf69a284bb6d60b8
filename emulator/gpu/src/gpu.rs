//! One GPU: its processor, its memory, its compute units, and what its queues share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use amdgpu_isa::decode::Decoder;
use amdgpu_isa::wave::LANES;

use crate::clock::Clock;
use crate::code::CodeCache;
use crate::counters::Counters;
use crate::dispatch::Draw;
use crate::driver::Driver;
use crate::gws::Gws;
use crate::launch::Launch;
use crate::memory::AddressSpace;
use crate::observer::Observe;
use crate::shape::Shape;

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
    pub(crate) counters: Counters,
    /// See [`Gpu::fill_from`].
    pub(crate) fill: OnceLock<u32>,
    /// See [`Gpu::hold_contents`].
    held: AtomicBool,
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
            counters: Counters::new(shape.dies),
            fill: OnceLock::new(),
            held: AtomicBool::new(false),
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

    /// Holds the contents of unwritten LDS, scratch and registers: from now on they are the same in each dispatch, until this is taken
    /// back. The order of workgroups and waves is drawn all the same. What results still differ in is no matter of unwritten data then.
    pub fn hold_contents(&self, hold: bool) {
        self.held.store(hold, Ordering::SeqCst);
    }

    /// How the next dispatch draws what is open; `None` without a seed.
    pub(crate) fn draw(&self) -> Option<Draw> {
        self.fill.get().map(|seed| Draw { seed: *seed, held: self.held.load(Ordering::SeqCst) })
    }

    /// Sets the observer of dispatches. Only the first call has an effect.
    pub fn observe(&self, observe: Arc<dyn Observe>) {
        self.observe.get_or_init(|| observe);
    }

    /// How many workgroups of a dispatch can be resident at a time on so many compute units.
    pub(crate) fn capacity(&self, launch: &Launch, units: u32) -> u64 {
        let items: u32 = launch.workgroup.iter().product();
        let row = self.shape.arch.row();
        let by_waves = row.waves_of_compute_unit() / items.div_ceil(LANES as u32).max(1);
        let by_lds = row.target.lds.checked_div(launch.lds).unwrap_or(u32::MAX);
        u64::from(by_waves.min(by_lds).max(1)) * u64::from(units.min(self.shape.compute_units))
    }
}
