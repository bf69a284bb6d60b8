//! The ring of a queue that is watched in place: what producers reserve, and what the GPU is told of.
//!
//! Producers reserve packets by a *virtual* write index, kept here; the real one, which the packet processor may read at
//! any time, follows when a packet is final. Between the two, packets are ours to change.
//!
//! # Threads
//! Producers use the virtual index. Everything else is for the holder of the queue's turn.
//!
//! # Ordering
//! A packet's header is loaded with acquire, which makes the rest of the packet visible; the real index is stored with
//! release, before the doorbell.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hsa::Api;
use hsa_sys::abi::aql::{PacketType, Slot};
use hsa_sys::abi::queue::Queue as AmdQueue;
use hsa_sys::raw::{hsa_queue_t, hsa_signal_t};

use crate::cache_line::OwnLine;

/// No packet is held: none ever has this number.
pub(crate) const NO_HOLD: u64 = u64::MAX;

/// A ring and the index that producers see.
pub(crate) struct Ring {
    pub(crate) write_index: OwnLine<AtomicU64>,
    /// The first packet that the GPU has not been told of; written by the holder of the turn.
    pub(crate) published: AtomicU64,
    /// The real index is written around the library: producers are left to themselves, for ever.
    pub(crate) bypassed: AtomicBool,
    pub(crate) doorbell: u64,
    /// How often the runtime has handed the queue out.
    pub(crate) owners: AtomicU64,
    /// What was published at the reaper's last look.
    pub(crate) looked_at: AtomicU64,
    /// The packet that waits for a capture: it and those behind it are not published. [`NO_HOLD`] otherwise.
    pub(crate) hold: AtomicU64,
    /// A dispatch of another queue is being captured: nothing is published.
    pub(crate) paused: AtomicBool,
    /// The last packet that was held, and has not to be again.
    pub(crate) passed: AtomicU64,
    /// `hsa_queue_type_t`.
    pub(crate) kind: u32,
    /// How many packets it holds.
    pub(crate) size: u32,
    queue: *mut hsa_queue_t,
    slots: *const Slot,
    /// The runtime's own index is stored to directly: no other tool is below us.
    direct: bool,
}

// SAFETY: the pointers are to memory that is accessed through atomics; its life is the queue's, see `Ring::of`.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// The ring of a queue.
    ///
    /// # Safety
    /// `queue` must be a queue of AMD's runtime that nobody has used yet, and the turn of the ring must be closed before
    /// the queue is destroyed.
    pub(crate) unsafe fn of(queue: *mut hsa_queue_t, direct: bool) -> Ring {
        // SAFETY: the caller's promise: a queue, whose first fields never change.
        let fields = unsafe { queue.read() };
        Ring {
            write_index: OwnLine(AtomicU64::new(0)),
            published: AtomicU64::new(0),
            bypassed: AtomicBool::new(false),
            doorbell: fields.doorbell_signal.handle,
            owners: AtomicU64::new(1),
            looked_at: AtomicU64::new(0),
            hold: AtomicU64::new(NO_HOLD),
            paused: AtomicBool::new(false),
            passed: AtomicU64::new(NO_HOLD),
            queue,
            kind: fields.type_,
            size: fields.size,
            slots: fields.base_address.cast(),
            direct,
        }
    }

    fn amd(&self) -> &AmdQueue {
        // SAFETY: every queue of AMD's runtime begins an `amd_queue_t`, which lives until the turn is closed.
        unsafe { AmdQueue::from_address(self.queue.expose_provenance() as u64) }
    }

    /// Producers go on from where the queue is.
    pub(crate) fn start(&self, api: &Api) {
        let end = self.real_index(api);
        self.published.store(end, Ordering::Relaxed);
        self.write_index.store(end, Ordering::Release);
    }

    /// True when packets are reserved that the GPU has not been told of.
    pub(crate) fn has_unpublished(&self) -> bool {
        !self.bypassed.load(Ordering::Relaxed)
            && self.write_index.load(Ordering::Relaxed) != self.published.load(Ordering::Relaxed)
    }

    /// The write index that the packet processor sees.
    pub(crate) fn real_index(&self, api: &Api) -> u64 {
        match api.core.hsa_queue_load_write_index_relaxed_fn {
            // SAFETY: the queue is alive.
            Some(load) if !self.direct => unsafe { load(self.queue) },
            _ => self.amd().write_dispatch_id.load(Ordering::Relaxed),
        }
    }

    /// True when the index that the packet processor sees is beyond ours, which it never is by our own doing.
    #[inline]
    pub(crate) fn is_written_around(&self) -> bool {
        // In this order, with acquire: ours is ahead of whatever we have made of the other.
        self.direct && self.amd().write_dispatch_id.load(Ordering::Acquire) > self.write_index.0.load(Ordering::Relaxed)
    }

    /// How many packets the packet processor has taken.
    pub(crate) fn read_index(&self) -> u64 {
        self.amd().read_dispatch_id.load(Ordering::Acquire)
    }

    /// Where the packets end that can be published: the first slot that no packet has been written into, the first that
    /// may still hold an old one, or the virtual index. Also says how many dispatches there are.
    /// `room` is the end of the slots known to be consumed, found anew when it is reached.
    pub(crate) fn ready(&self, room: &mut u64) -> (u64, u64) {
        let reserved = self.write_index.load(Ordering::Acquire);
        if reserved > *room {
            // Producers reserve first and wait for room afterwards: the index may be ahead of the slots.
            *room = self.read_index() + u64::from(self.size);
        }
        let held = if self.paused.load(Ordering::Acquire) { 0 } else { self.hold.load(Ordering::Acquire) };
        let limit = reserved.min(*room).min(held);
        let (mut end, mut dispatches) = (self.published.load(Ordering::Relaxed), 0);
        while end < limit {
            match PacketType::of(self.slot(end).load_header()) {
                PacketType::Invalid => break,
                PacketType::KernelDispatch => dispatches += 1,
                _ => {}
            }
            end += 1;
        }
        (end, dispatches)
    }

    /// The slot of a packet.
    pub(crate) fn slot(&self, index: u64) -> &Slot {
        // SAFETY: the ring has a power of two of slots, so that the masked index is one of them.
        let slot = unsafe { self.slots.add((index & u64::from(self.size - 1)) as usize) };
        // SAFETY: slots are atomics, and live as long as the queue.
        unsafe { &*slot }
    }

    /// Tells the GPU of all packets before `end`.
    pub(crate) fn publish(&self, api: &Api, end: u64) {
        self.set_real_index(api, end);
        self.published.store(end, Ordering::Relaxed);
        self.ring(api, end - 1);
    }

    /// Makes packets visible to the packet processor.
    pub(crate) fn set_real_index(&self, api: &Api, end: u64) {
        match api.core.hsa_queue_store_write_index_screlease_fn {
            // SAFETY: the queue is alive.
            Some(store) if !self.direct => unsafe { store(self.queue, end) },
            _ => self.amd().write_dispatch_id.store(end, Ordering::Release),
        }
    }

    /// Rings the doorbell for the packet `last` and all before it.
    pub(crate) fn ring(&self, api: &Api, last: u64) {
        if let Some(store) = api.core.hsa_signal_store_screlease_fn {
            // SAFETY: the doorbell lives as long as its queue.
            unsafe { store(hsa_signal_t { handle: self.doorbell }, last as i64) };
        }
    }
}
