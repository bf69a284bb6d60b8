//! The observer port: shows others what waves execute.
//!
//! A GPU without observers has no code for them in the loop that executes instructions.
//!
//! # Threads
//! A worker takes an [`Observer`] of the dispatch for each slice of a workgroup, and gives it back before the workgroup counts as
//! finished. So there are at most as many as there are workers, each with counts of its own, and all are given back when
//! the dispatch ends. What belongs to a workgroup is its [`Notes`], which move with it from worker to worker.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use amdgpu_isa::Arch;
use amdgpu_isa::access::Parts;
use amdgpu_isa::inst::Inst;
use amdgpu_isa::op::Flow;
use amdgpu_isa::wave::Wave;

use crate::launch::Launch;
use crate::memory::AddressSpace;
use crate::registers::initial_registers;

/// First address of scratch, as waves address it. See [`Group::scratch_of_wave`].
pub use crate::machine::SCRATCH_WINDOW;

/// What observers keep for a workgroup.
pub type Notes = Box<dyn Any + Send>;

/// Observes dispatches.
pub trait Observe: Debug + Send + Sync {
    /// An observer for a worker. It may see any part of the dispatch's workgroups.
    fn observer(&self, launch: &Launch) -> Box<dyn Observer>;

    /// The dispatch has ended, or failed: all observers that were made for it, but for those that are at work when it fails.
    fn ended(&self, launch: &Launch, observers: Vec<Box<dyn Observer>>);
}

/// Sees what the workgroups of a dispatch execute.
pub trait Observer: Any + Send {
    /// A workgroup begins. `None` runs it without being observed.
    fn begin(&mut self, group: &Group<'_>) -> Option<Notes>;

    /// A wave is about to execute an instruction.
    fn before(&mut self, notes: &mut Notes, step: &Step<'_>);

    /// It has executed the instruction: `step` has its registers afterwards.
    fn after(&mut self, notes: &mut Notes, step: &Step<'_>, flow: Flow);

    /// All waves of the workgroup that have not ended were at the barrier, and go on.
    fn barrier(&mut self, notes: &mut Notes);

    /// The workgroup has ended.
    fn end(&mut self, notes: Notes);
}

/// A workgroup that begins.
pub struct Group<'a> {
    /// Its number in the dispatch, x fastest.
    pub number: u64,
    /// Its coordinates.
    pub at: [u32; 3],
    /// Its waves as they begin.
    pub waves: Vec<&'a Wave>,
    /// Bytes of its LDS.
    pub lds: usize,
    /// The dispatch.
    pub launch: &'a Launch,
}

impl Group<'_> {
    /// Bytes of scratch of each wave. A wave's begin at [`SCRATCH_WINDOW`] plus its number times this. The dwords of 64 lanes lie
    /// beside each other, then their next dwords.
    pub fn scratch_of_wave(&self) -> u32 {
        self.launch.scratch_of_wave()
    }

    /// How many scalar and vector registers have values when a wave begins, from the first on.
    pub fn initial_registers(&self) -> (u32, u32) {
        let arch = self.waves.first().map_or(Arch::Gfx90a, |wave| wave.arch);
        initial_registers(&self.launch.descriptor, arch)
    }
}

/// A wave at an instruction.
pub struct Step<'a> {
    /// The wave's number in its workgroup.
    pub number: usize,
    /// Its registers. The program counter is that of the next instruction once it has executed this one.
    pub wave: &'a Wave,
    /// The instruction.
    pub inst: &'a Inst,
    /// The address of the instruction.
    pub pc: u64,
    /// The workgroup's LDS.
    pub lds: &'a [u8],
    /// The memory that it runs in.
    pub space: &'a Arc<AddressSpace>,
}

impl Step<'_> {
    /// What the instruction accesses with the registers as they are; `None` if it accesses no memory.
    #[inline]
    pub fn accesses(&self) -> Option<Parts> {
        Parts::of(self.wave, self.inst)
    }
}
