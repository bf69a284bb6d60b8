//! Queues: rings of packets that an application writes and the machine consumes.

pub mod aql;
pub mod pm4;
pub mod sdma;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dispatch::Dispatch;
use crate::engine::Worker;

/// A doorbell: eight bytes of memory that the application stores to.
#[derive(Clone)]
pub struct Doorbell {
    place: *const AtomicU64,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the place is an atomic that the owner, which is Send and Sync, keeps mapped.
unsafe impl Send for Doorbell {}
// SAFETY: as above.
unsafe impl Sync for Doorbell {}

impl Doorbell {
    /// The doorbell at `place`, which stays mapped for as long as `owner` lives.
    ///
    /// # Safety
    /// `place` must be valid for atomic access for the life of `owner`.
    pub unsafe fn new(place: *const AtomicU64, owner: Arc<dyn Any + Send + Sync>) -> Doorbell {
        Doorbell { place, _owner: owner }
    }

    /// What was stored last.
    pub fn read(&self) -> u64 {
        // SAFETY: valid by the promise of `new`, kept by the owner.
        unsafe { &*self.place }.load(Ordering::Acquire)
    }
}

/// What the driver tells about a new queue of PM4 commands or of SDMA packets.
pub struct RingInfo {
    /// The queue's number.
    pub id: u32,
    /// Address of the ring.
    pub ring: u64,
    /// Bytes of the ring; a power of two.
    pub bytes: u64,
    /// Address of the position of the next packet: of PM4 in dwords from the ring's beginning, of SDMA in bytes.
    pub read_pointer: u64,
    /// Where the application rings with what it has written, in the same unit, all rounds of the ring counted.
    pub doorbell: Doorbell,
}

/// Whether a value meets a reference, by the function that a command waits with; `None` for one that there is not. PM4 and SDMA have the
/// same numbers. Source: `WAIT_REG_MEM` and `SDMA_PKT_POLL_REGMEM` of the kernel's `soc15d.h` and `vega10_sdma_pkt_open.h`.
pub(crate) fn meets(function: u32, value: u32, reference: u32) -> Option<bool> {
    Some(match function {
        0 => true,
        1 => value < reference,
        2 => value <= reference,
        3 => value == reference,
        4 => value != reference,
        5 => value >= reference,
        6 => value > reference,
        _ => return None,
    })
}

/// How much came of looking after a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// There is nothing to do until the doorbell rings.
    Idle,
    /// Something is under way that ends without the doorbell.
    Waiting,
    /// A packet was taken or completed.
    Done,
}

/// A queue of any kind, looked after by the engine.
pub(crate) trait Queue: Send {
    /// The queue's number.
    fn id(&self) -> u32;

    /// Takes and completes what can be, without waiting for anything.
    fn pump(&mut self, worker: &mut Worker) -> Progress;

    /// Stops taking packets, or goes on.
    fn set_active(&mut self, active: bool);

    /// Lets workgroups of the next dispatches run only on compute units whose bits are set. Copy queues have none.
    fn set_compute_units(&mut self, _mask: &[u32]) {}

    /// Ends everything under way; nothing is completed any more. The dispatches of which workgroups may still run.
    fn abandon(&mut self) -> Vec<Arc<Dispatch>>;
}
