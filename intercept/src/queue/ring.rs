//! The ring of a queue that is watched in place: what producers reserve, and what the GPU is told of.
//!
//! Producers reserve packets by a *virtual* write index, kept here; the real one, which the packet processor may read at
//! any time, follows when a packet is final. Between the two, packets are ours to change.
//!
//! # Threads
//! Producers use the virtual index. Everything else is for the holder of the queue's combining lock.
//!
//! # Ordering
//! A packet's header is loaded with acquire, which makes the rest of the packet visible; the real index is stored with
//! release, before the doorbell.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hsa::Api;
use hsa_sys::abi::aql::{PacketType, Slot};
use hsa_sys::abi::queue::Queue as AmdQueue;
use hsa_sys::raw::{hsa_queue_t, hsa_signal_t};

use super::hold::Hold;
use crate::cache_line::OwnLine;

/// What waits in a queue because a feature holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeldBack {
    /// No packet.
    Nothing,
    /// Packets that run after all before them, by the barrier bit of the first one.
    Ordered,
    /// Packets that may run beside those before them.
    Unordered,
}

/// A ring and the index that producers see.
pub struct Ring {
    /// The index that producers reserve slots by.
    pub write_index: OwnLine<AtomicU64>,
    /// The first packet that the GPU has not been told of; written by the lock's holder.
    pub published: AtomicU64,
    /// The real index is written around the library: producers are left to themselves, for ever.
    pub bypassed: AtomicBool,
    /// The handle of the doorbell's signal.
    pub doorbell: u64,
    /// The index up to which packets are counted that passed unseen; written by the lock's holder.
    pub counted: AtomicU64,
    /// How often the runtime has handed the queue out.
    pub owners: AtomicU64,
    /// What was published at the reaper's last look.
    pub looked_at: AtomicU64,
    /// What is not published because a feature holds it.
    pub hold: Hold,
    /// `hsa_queue_type_t`.
    pub kind: u32,
    /// How many packets it holds.
    pub size: u32,
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
    /// `queue` must be a queue of AMD's runtime that no thread has used yet, and the queue's combining lock must be closed before
    /// the queue is destroyed.
    pub unsafe fn of(queue: *mut hsa_queue_t, direct: bool) -> Ring {
        // SAFETY: the caller's promise: a queue, whose first fields never change.
        let fields = unsafe { queue.read() };
        Ring {
            write_index: OwnLine(AtomicU64::new(0)),
            published: AtomicU64::new(0),
            bypassed: AtomicBool::new(false),
            doorbell: fields.doorbell_signal.handle,
            counted: AtomicU64::new(0),
            owners: AtomicU64::new(1),
            looked_at: AtomicU64::new(0),
            hold: Hold::default(),
            queue,
            kind: fields.type_,
            size: fields.size,
            slots: fields.base_address.cast(),
            direct,
        }
    }

    fn amd(&self) -> &AmdQueue {
        // SAFETY: every queue of AMD's runtime begins an `amd_queue_t`, which lives until the combining lock is closed.
        unsafe { AmdQueue::from_address(self.queue.expose_provenance() as u64) }
    }

    /// Producers go on from where the queue is.
    pub fn start(&self, api: &Api) {
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
        // In this order, with acquire: ours is never behind what we have stored to the other.
        self.direct && self.amd().write_dispatch_id.load(Ordering::Acquire) > self.write_index.0.load(Ordering::Relaxed)
    }

    /// How many packets the packet processor has taken.
    pub fn read_index(&self) -> u64 {
        self.amd().read_dispatch_id.load(Ordering::Acquire)
    }

    /// Where the first packet is that the packet processor has not taken, among those that were published. The read index may
    /// lag behind it; the header of a slot is invalid as soon as its packet was taken (HSA specification, section 2.9.1).
    pub(crate) fn first_not_taken(&self) -> u64 {
        let (read, end) = (self.read_index(), self.published.load(Ordering::Acquire));
        let is_taken = |index: &u64| PacketType::of(self.slot(*index).load_header()) == PacketType::Invalid;
        // No producer writes these slots again before the read index has passed them.
        read + (read..end).take_while(is_taken).count() as u64
    }

    /// Where packets end that may be published: the virtual index, the first slot that may still hold an old packet, or one that
    /// is held. `room` is the end of the slots known to be consumed, found anew when it is reached.
    pub fn limit(&self, room: &mut u64) -> u64 {
        let reserved = self.write_index.load(Ordering::Acquire);
        if reserved > *room {
            // Producers reserve first and wait for room afterwards: the index may be ahead of the slots.
            *room = self.read_index() + u64::from(self.size);
        }
        reserved.min(*room).min(self.hold.limit())
    }

    /// Where the packets from `first` on end that are complete: the first slot that no packet has been written into, or `limit`.
    /// Also says how many dispatches there are.
    #[inline]
    pub fn ready(&self, first: u64, limit: u64) -> (u64, u64) {
        let (mut end, mut dispatches) = (first, 0);
        while end < limit {
            let slot = self.slot(end);
            let header = slot.load_header();
            if PacketType::of(header) == PacketType::Invalid {
                break;
            }
            dispatches += u64::from(slot.is_dispatch(header));
            end += 1;
        }
        (end, dispatches)
    }

    /// What waits in the queue because a feature holds it; for the lock's holder.
    pub(super) fn held_back(&self) -> HeldBack {
        let first = self.published.load(Ordering::Relaxed);
        // A slot that is not consumed yet still has an old packet: the new one is not written.
        let end = self.write_index.load(Ordering::Acquire).min(self.read_index() + u64::from(self.size));
        if self.hold.limit() > first || first >= end {
            return HeldBack::Nothing;
        }
        let slot = self.slot(first);
        match PacketType::of(slot.load_header()) {
            PacketType::Invalid => HeldBack::Nothing,
            _ if slot.read().has_barrier_bit() => HeldBack::Ordered,
            _ => HeldBack::Unordered,
        }
    }

    /// The slot of a packet.
    pub fn slot(&self, index: u64) -> &Slot {
        // SAFETY: the ring has a power of two of slots, so that the masked index is one of them.
        let slot = unsafe { self.slots.add((index & u64::from(self.size - 1)) as usize) };
        // SAFETY: slots are atomics, and live as long as the queue.
        unsafe { &*slot }
    }

    /// Tells the GPU of all packets before `end`.
    pub fn publish(&self, api: &Api, end: u64) {
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
    pub fn ring(&self, api: &Api, last: u64) {
        if let Some(store) = api.core.hsa_signal_store_screlease_fn {
            // SAFETY: the doorbell lives as long as its queue.
            unsafe { store(hsa_signal_t { handle: self.doorbell }, last as i64) };
        }
    }
}

/// A ring in memory of a test.
#[cfg(test)]
pub(super) mod fake {
    use super::*;
    use hsa_sys::abi::aql::Packet;

    pub(in crate::queue) struct FakeRing {
        pub(in crate::queue) ring: Ring,
        pub(in crate::queue) memory: Box<AmdQueue>,
        _slots: Box<[Slot; 4]>,
    }

    impl FakeRing {
        /// Of four packets.
        pub(in crate::queue) fn of(packets: [[u32; 16]; 4]) -> FakeRing {
            // SAFETY: the structure is of atomic integers only, of which zeros are a value.
            let memory: Box<AmdQueue> = Box::new(unsafe { std::mem::MaybeUninit::zeroed().assume_init() });
            let slots = Box::new(packets.map(|words| Slot::new(Packet(words))));
            let queue = std::ptr::from_ref(&*memory).cast_mut().cast::<hsa_queue_t>();
            let base_address = slots.as_ptr().cast_mut().cast();
            // SAFETY: the structure begins with these fields, and no other thread has it.
            unsafe { queue.write(hsa_queue_t { size: slots.len() as u32, base_address, ..Default::default() }) };
            // SAFETY: the memory looks as a queue does, and lives as long as the ring.
            let ring = unsafe { Ring::of(queue, true) };
            FakeRing { ring, memory, _slots: slots }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::FakeRing;
    use super::*;

    /// The first packet that is not taken, of three that were published, by the types of the slots and the read index.
    fn first_not_taken(types: [u32; 4], read: u64) -> u64 {
        let fake = FakeRing::of(types.map(|kind| {
            let mut words = [0; 16];
            words[0] = kind;
            words
        }));
        fake.ring.published.store(3, Ordering::Relaxed);
        fake.memory.read_dispatch_id.store(read, Ordering::Relaxed);
        fake.ring.first_not_taken()
    }

    #[test]
    fn packets_that_were_taken_are_known_by_their_headers_when_the_read_index_lags() {
        let (invalid, dispatch, barrier) = (1, 2, 3);
        assert_eq!(first_not_taken([dispatch; 4], 0), 0);
        assert_eq!(first_not_taken([invalid, dispatch, invalid, invalid], 0), 1);
        assert_eq!(first_not_taken([invalid, invalid, barrier, invalid], 1), 2);
        assert_eq!(first_not_taken([invalid; 4], 0), 3, "what is behind was not published");
        assert_eq!(first_not_taken([dispatch; 4], 3), 3);
    }
}
