//! The machine around one wave, as the instructions see it.

use crate::atomic::AtomicOp;
use crate::wave::{LANES, Vgpr};

/// An address for each lane; only those of active lanes mean anything.
pub type Addresses = [u64; LANES];

/// An access that the machine refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first address that was refused.
    pub address: u64,
    /// The lane that asked for it; 0 for scalar accesses.
    pub lane: u8,
    /// How many bytes were asked for.
    pub bytes: u8,
    /// True for writes and atomics.
    pub write: bool,
}

/// What a wave needs from the machine it runs on. Every call serves a whole wave.
pub trait Env {
    /// Reads `bytes` (1, 2, 4, 8, 12 or 16) for each lane of `mask`, which is not empty; word `n` of a lane goes to `out[n]`.
    /// `out` has as many words as the width needs. Bytes beyond the width within a word are zero. Lanes outside of the mask
    /// are left alone. Naturally aligned accesses of 1, 2, 4, 8 and 16 bytes are single-copy atomic, those of stores too.
    ///
    /// # Errors
    /// When a lane's bytes are not mapped; other lanes may have been read.
    fn load(&mut self, at: &Addresses, mask: u64, bytes: u8, out: &mut [Vgpr]) -> Result<(), Fault>;

    /// Writes `bytes` for each lane of `mask`, which is not empty, lower lanes first. `data` has as many words as the width
    /// needs.
    ///
    /// # Errors
    /// When a lane's bytes are not mapped or not writable; other lanes may have been written.
    fn store(&mut self, at: &Addresses, mask: u64, bytes: u8, data: &[Vgpr]) -> Result<(), Fault>;

    /// Performs `op` on `bytes` (4 or 8) of memory for each lane of `mask`, lower lanes first, each one atomically.
    /// `data` holds the operand in words 0.. and the second operand, if there is one, after it. The old values go to `old`,
    /// which is empty when they are not wanted.
    ///
    /// # Errors
    /// When a lane's bytes are not mapped or not writable; lower lanes may have been done.
    fn atomic(
        &mut self,
        op: AtomicOp,
        at: &Addresses,
        mask: u64,
        bytes: u8,
        data: &[Vgpr],
        old: &mut [Vgpr],
    ) -> Result<(), Fault>;

    /// Reads consecutive dwords for the scalar unit.
    ///
    /// # Errors
    /// When they are not all mapped.
    fn scalar_load(&mut self, at: u64, out: &mut [u32]) -> Result<(), Fault>;

    /// Writes consecutive dwords for the scalar unit.
    ///
    /// # Errors
    /// When they are not all mapped and writable.
    fn scalar_store(&mut self, at: u64, data: &[u32]) -> Result<(), Fault>;

    /// The workgroup's local data share.
    fn lds(&mut self) -> &mut [u8];

    /// Sends message `id` with the contents of M0 (`s_sendmsg`).
    fn message(&mut self, id: u32, m0: u32);

    /// The shader core's cycle counter (`s_memtime`).
    fn cycles(&mut self) -> u64;

    /// The constant-frequency counter that also stamps signals (`s_memrealtime`).
    fn ticks(&mut self) -> u64;

    /// Orders this wave's accesses before and after with those of others.
    fn fence(&mut self);

    /// Global wave sync (`ds_gws_*`): initialise with a count, or arrive at a barrier. True when the wave may go on.
    fn gws(&mut self, op: GwsOp, resource: u32, value: u32) -> bool;
}

/// Operations on a global wave sync resource that cooperative kernels use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GwsOp {
    /// Set the number of arrivals that open the barrier, minus one.
    Init,
    /// Arrive, and wait for the others.
    Barrier,
}
