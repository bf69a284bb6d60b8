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

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hsa::Api;
use hsa_sys::abi::aql::{PacketType, Slot, packet_is_passed_on};
use hsa_sys::abi::queue::Queue as AmdQueue;
use hsa_sys::raw::{hsa_queue_t, hsa_signal_t};
use logdur_journal::layout::Doorbell;

use super::Asker;
use super::hold::Hold;
use super::noted::Noted;
use super::reservers::Reservers;
use super::shadow::{Shadow, written_to_device};
use super::sites::Sites;
use crate::cache_line::OwnLine;
use crate::thread;

/// Packets that are looked at together: 4 KiB of the ring.
const PASS: u64 = 64;

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

/// Which memory a ring is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// The host's.
    Host,
    /// The GPU's; producers get this memory instead, which has the ring's size.
    Shadowed(NonNull<u8>),
    /// The GPU's; producers may have its address.
    Device,
}

/// Where a ring is.
enum RingMemory {
    /// In the host's memory.
    Host,
    /// In the GPU's; producers write another one.
    Shadowed(Shadow),
    /// In the GPU's; producers write it, since they had its address before the queue was known.
    Device,
}

/// A ring and the index that producers see.
pub struct Ring {
    /// The index that producers reserve slots by.
    pub write_index: OwnLine<AtomicU64>,
    /// The first packet that the GPU has not been told of; written by the lock's holder.
    pub published: OwnLine<AtomicU64>,
    /// The real index is written around the library: producers are left to themselves, for ever.
    pub bypassed: AtomicBool,
    /// The handle of the doorbell's signal.
    pub doorbell: u64,
    /// The index up to which packets are counted that passed unseen; written by the lock's holder.
    pub counted: AtomicU64,
    /// The end of the packets that a feature has seen; written by the lock's holder.
    seen: AtomicU64,
    /// How often the runtime has handed the queue out.
    pub owners: AtomicU64,
    /// How far its packets have come, for readers of the records.
    noted: Option<Noted>,
    /// The same for a queue that readers do not see.
    unnoted: OwnLine<Doorbell>,
    reservers: Reservers,
    sites: Sites,
    /// Threads that are about to say where packets are launched from.
    pub(crate) noting: AtomicU64,
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
    place: RingMemory,
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
    /// the queue is destroyed, and the memory of a shadow after that.
    pub unsafe fn of(queue: *mut hsa_queue_t, direct: bool, memory: Memory) -> Ring {
        // SAFETY: the caller's promise: a queue, whose first fields never change.
        let fields = unsafe { queue.read() };
        let place = match memory {
            Memory::Host => RingMemory::Host,
            // SAFETY: the caller's promise.
            Memory::Shadowed(memory) => RingMemory::Shadowed(unsafe { Shadow::of(queue, memory) }),
            Memory::Device => RingMemory::Device,
        };
        let slots = if let RingMemory::Shadowed(shadow) = &place {
            shadow.slots().as_ptr()
        } else {
            fields.base_address.cast()
        };
        Ring {
            write_index: OwnLine(AtomicU64::new(0)),
            published: OwnLine(AtomicU64::new(0)),
            bypassed: AtomicBool::new(false),
            doorbell: fields.doorbell_signal.handle,
            counted: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            owners: AtomicU64::new(1),
            noted: None,
            unnoted: OwnLine::default(),
            reservers: Reservers::of(fields.size),
            sites: Sites::default(),
            noting: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
            hold: Hold::default(),
            queue,
            kind: fields.type_,
            size: fields.size,
            slots,
            place,
            direct,
        }
    }

    fn amd(&self) -> &AmdQueue {
        // SAFETY: every queue of AMD's runtime begins an `amd_queue_t`, which lives until the combining lock is closed.
        unsafe { AmdQueue::from_address(self.queue.expose_provenance() as u64) }
    }

    /// The calling thread reserves packets behind all others; the first of them.
    #[inline]
    pub fn reserve(&self, packets: u64) -> u64 {
        let first = self.write_index.fetch_add(packets, Ordering::AcqRel);
        self.reservers.reserved(first, packets, thread::number());
        first
    }

    /// The same up to `end`, if `expected` is the first one; which packet would have been the first.
    #[inline]
    pub fn reserve_from(&self, expected: u64, end: u64) -> u64 {
        match self.write_index.compare_exchange(expected, end, Ordering::AcqRel, Ordering::Acquire) {
            Ok(first) => {
                self.reservers.reserved(first, end.saturating_sub(first), thread::number());
                first
            }
            Err(found) => found,
        }
    }

    /// The same by the only producer, which may have written the packets.
    #[inline]
    pub fn reserve_up_to(&self, end: u64) {
        let first = self.write_index.load(Ordering::Relaxed);
        // First: who sees the index may see a packet.
        self.reservers.reserved(first, end.saturating_sub(first), thread::number());
        self.write_index.store(end, Ordering::Release);
    }

    /// A feature wants to say where packets are launched from.
    pub(crate) fn keep_sites(&mut self) {
        self.sites = Sites::of(self.size);
    }

    /// Says where packets are launched from that the calling thread has reserved and written, and that are not published.
    /// `site` gives the number for the address of a kernel descriptor, 0 for none.
    pub(crate) fn note_sites(&self, mut site: impl FnMut(u64) -> u32) {
        let thread = thread::number();
        let (start, end) = (self.published.load(Ordering::Relaxed), self.write_index.load(Ordering::Relaxed));
        for index in end.saturating_sub(self.size.into()).max(start)..end {
            let slot = self.slot(index);
            let is_mine = self.reservers.of_packet(index) == thread && self.sites.of_packet(index) == 0;
            if is_mine && slot.is_dispatch(slot.load_header()) {
                self.sites.note(index, site(slot.read().kernel_object()));
            }
        }
    }

    /// Producers go on from where the queue is.
    pub fn start(&self, api: &Api) {
        let end = self.real_index(api);
        self.published.store(end, Ordering::Relaxed);
        self.write_index.store(end, Ordering::Release);
    }

    /// How far its packets have come. Another process may write there: it can make the end of this one wait, for as long as that waits at
    /// most.
    #[inline]
    fn progress(&self) -> &Doorbell {
        self.noted.as_deref().unwrap_or(&self.unnoted)
    }

    /// A doorbell was rung for a packet and all before it, and not all of them could be published.
    #[cold]
    pub(crate) fn rang(&self, packet: i64) {
        // Whatever the value is, no more packets are meant than were reserved.
        let end = packet.cast_unsigned().saturating_add(1).min(self.write_index.load(Ordering::Relaxed));
        self.progress().rang(end);
    }

    /// True when a doorbell was rung for packets that the GPU has not been told of.
    pub(crate) fn has_rung_unpublished(&self) -> bool {
        !self.bypassed.load(Ordering::Relaxed) && self.progress().rung() > self.published.load(Ordering::Relaxed)
    }

    /// The packets before `end` are about to be recorded.
    #[inline]
    pub(crate) fn recorded(&self, end: u64) {
        self.progress().recorded(end);
    }

    /// No packet is rung for any more. Once.
    pub(crate) fn closed(&self) {
        self.noted.iter().for_each(Noted::give_back);
    }

    /// Where readers of the records see what was rung for.
    pub(crate) fn note_in(&mut self, noted: Option<Noted>) {
        self.noted = noted;
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
        let is_taken = |index: &u64| PacketType::of(self.processors_slot(*index).load_header()) == PacketType::Invalid;
        // No producer writes these slots again before the read index has passed them.
        read + (read..end).take_while(is_taken).count() as u64
    }

    /// Where packets end that may be published: the virtual index, the first slot that may still hold an old packet, or one that
    /// is held. `room` is the end of the slots known to be consumed, found anew when it is reached.
    pub fn limit(&self, room: &mut u64) -> u64 {
        self.limit_of_written(room).min(self.hold.limit())
    }

    /// The same, whatever is held.
    fn limit_of_written(&self, room: &mut u64) -> u64 {
        let reserved = self.write_index.load(Ordering::Acquire);
        if reserved > *room {
            // Producers reserve first and wait for room afterwards: the index may be ahead of the slots.
            *room = self.read_index() + u64::from(self.size);
        }
        reserved.min(*room)
    }

    /// The packets that are complete and were not given out here before.
    pub(crate) fn newly_written(&self, room: &mut u64) -> Range<u64> {
        let first = self.seen.load(Ordering::Relaxed).max(self.published.load(Ordering::Relaxed));
        let (end, _) = self.ready(first, self.limit_of_written(room));
        self.seen.store(end, Ordering::Relaxed);
        first..end
    }

    /// Where the packets from `first` on end that are complete: the first slot that no packet has been written into, or `limit`.
    /// Also says how many dispatches there are.
    #[inline]
    pub fn ready(&self, first: u64, limit: u64) -> (u64, u64) {
        let (mut end, mut dispatches) = (first, 0);
        // The packet processor does not invalidate headers of a shadow.
        let passed_on = self.shadow().is_some();
        while end < limit {
            let slot = self.slot(end);
            let header = slot.load_header();
            if PacketType::of(header) == PacketType::Invalid || (passed_on && packet_is_passed_on(header)) {
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
        if self.ready(first, first + 1).0 == first {
            return HeldBack::Nothing;
        }
        match PacketType::of(slot.load_header()) {
            _ if slot.read().has_barrier_bit() => HeldBack::Ordered,
            _ => HeldBack::Unordered,
        }
    }

    /// The slot of a packet.
    pub fn slot(&self, index: u64) -> &Slot {
        // SAFETY: slots are atomics, and live as long as the queue.
        unsafe { &*self.address_of(index) }
    }

    #[inline]
    fn address_of(&self, index: u64) -> *const Slot {
        // SAFETY: the ring has a power of two of slots, so that the masked index is one of them.
        unsafe { self.slots.add((index & u64::from(self.size - 1)) as usize) }
    }

    /// True of a queue that the GPU knows nothing of but by us, also if a producer calls no function of the runtime.
    pub(crate) fn passes_by_us(&self) -> bool {
        self.shadow().is_some()
    }

    #[inline]
    fn shadow(&self) -> Option<&Shadow> {
        if let RingMemory::Shadowed(shadow) = &self.place { Some(shadow) } else { None }
    }

    /// The slot of a packet that the packet processor reads. For a ring in the GPU's memory, only captures look at it.
    fn processors_slot(&self, index: u64) -> &Slot {
        self.shadow().map_or_else(|| self.slot(index), |shadow| shadow.device_slot(index))
    }

    /// The queue is watched from now on: producers are given the ring that is looked at.
    pub(crate) fn enter(&self) {
        self.shadow().iter().for_each(|shadow| shadow.enter());
    }

    /// Nothing is looked at any more: producers are given the queue's own ring.
    pub(crate) fn leave(&self) {
        self.shadow().iter().for_each(|shadow| shadow.leave());
    }

    /// Where packets from `first` on end that are looked at together: in one lap, and of a shadow one, since it keeps which records each
    /// packet has.
    #[inline]
    pub(crate) fn end_of_pass(&self, first: u64) -> u64 {
        first + if self.shadow().is_some() { 1 } else { PASS.min(self.left_of_lap(first)) }
    }

    /// How many slots there are from that of a packet to the end of the ring.
    #[inline]
    fn left_of_lap(&self, index: u64) -> u64 {
        let size = u64::from(self.size);
        size - (index & (size - 1))
    }

    /// The packets of a pass, and what is known of who asked for each.
    #[inline]
    pub(crate) fn packets(&self, pass: Range<u64>) -> impl Iterator<Item = (&Slot, Asker)> {
        let count = (pass.end - pass.start).min(self.left_of_lap(pass.start)) as usize;
        // SAFETY: the ring has these slots: they end with its lap. Slots are atomics, and live as long as the queue.
        let slots = unsafe { std::slice::from_raw_parts(self.address_of(pass.start), count) };
        let reserver = self.reservers.of_packets(pass.start, count);
        slots.iter().enumerate().map(move |(n, slot)| {
            (slot, Asker { thread: reserver(n), site: self.sites.of_packet(pass.start + n as u64) })
        })
    }

    /// Packets up to `end` are about to be published; the queue has used so many records by then.
    #[inline]
    pub(crate) fn observed(&self, end: u64, records: u64) {
        if let Some(shadow) = self.shadow() {
            shadow.recorded(end - 1, records);
        }
    }

    /// The reaper has finished with so many more records of the queue.
    pub(crate) fn finished(&self, records: u64) {
        if let Some(shadow) = self.shadow() {
            shadow.finished(records);
        }
    }

    /// For the lock's holder, now and then: what is complete need not be looked at by the runtime.
    pub(crate) fn invalidate_complete(&self) {
        if let Some(shadow) = self.shadow() {
            shadow.invalidate_complete(self.published.load(Ordering::Relaxed));
        }
    }

    /// The queue is destroyed: gives back what the ring has of the runtime's memory.
    pub(crate) fn destroyed(&self, api: &Api) {
        if let Some(shadow) = self.shadow() {
            // SAFETY: the memory was allocated for the shadow; no packet processor and, with the lock closed, no thread uses it.
            let _ = unsafe { api.free(shadow.slots().cast()) };
        }
    }

    /// Others write the index: their packets still come by this ring if it is a shadow.
    #[cold]
    pub(crate) fn pass_on_written(&self, api: &Api) {
        let Some(shadow) = self.shadow() else { return };
        let (read, end) = (self.read_index(), self.real_index(api));
        if shadow.pass_on_written(read..end.min(read + u64::from(self.size))) {
            self.ring(api, end - 1);
        }
    }

    /// Tells the GPU of all packets before `end`.
    pub fn publish(&self, api: &Api, end: u64) {
        match &self.place {
            RingMemory::Host => {}
            RingMemory::Shadowed(shadow) => shadow.pass_on(self.published.load(Ordering::Relaxed)..end),
            RingMemory::Device => written_to_device(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::fake_ring::FakeRing;
    use hsa_sys::abi::aql::Packet;
    use logdur_journal::Records;

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
    fn packets_that_a_doorbell_was_rung_for_and_that_are_not_published_are_counted_for_readers_of_the_records() {
        let records: &'static Records = Box::leak(Box::new(Records::private()));
        let mut fake = FakeRing::of([[0; 16]; 4]);
        let ring = &mut fake.ring;
        ring.note_in(Noted::new(records));
        ring.write_index.0.store(10, Ordering::Relaxed);
        let left = |ring: &Ring| (records.header().unsubmitted(), ring.has_rung_unpublished());
        assert_eq!(left(ring), (0, false));
        // The doorbells of two threads, the later one first, while a third one is at work.
        ring.rang(7);
        ring.rang(6);
        assert_eq!(left(ring), (8, true));
        ring.recorded(5);
        ring.published.store(5, Ordering::Relaxed);
        assert_eq!(left(ring), (3, true));
        // A value that is no packet's means those that were reserved.
        ring.rang(i64::MAX);
        assert_eq!(left(ring), (5, true));
        ring.recorded(10);
        ring.published.store(10, Ordering::Relaxed);
        assert_eq!(left(ring), (0, false));
        ring.closed();
    }

    #[test]
    fn packets_of_a_ring_in_the_gpus_memory_are_written_there_once_and_looked_at_in_the_shadow() {
        let [invalid, dispatch] = [1u32, 2].map(|kind| std::array::from_fn(|n| if n == 0 { kind } else { 0 }));
        let fake = FakeRing::in_memory([invalid; 4], true);
        let ring = &fake.ring;
        let base = |fake: &FakeRing| fake.memory.hsa_queue[1].load(Ordering::Relaxed);
        let device = base(&fake);
        ring.enter();
        assert_eq!(base(&fake), ring.slot(0) as *const Slot as u64, "what the application finds");
        let in_device = |index: u64| ring.processors_slot(index).read().0;
        let write = |index: u64, packet: [u32; 16]| {
            ring.slot(index).take_body_of(&Slot::new(Packet(packet)));
            ring.slot(index).take_header_of(&Slot::new(Packet(packet)));
        };
        // A producer has written the second of three packets that it has reserved.
        ring.write_index.0.store(3, Ordering::Relaxed);
        write(1, dispatch);
        assert_eq!(ring.ready(0, 3), (0, 0));
        let first: [u32; 16] = std::array::from_fn(|n| if n == 0 { 0x3_1502 } else { 100 + n as u32 });
        write(0, first);
        assert_eq!(ring.ready(0, 3), (2, 2));
        ring.slot(1).set_completion_signal(0x4000);
        ring.shadow().unwrap().pass_on(0..2);
        assert_eq!((in_device(0), in_device(2)), (first, invalid));
        assert_eq!(in_device(1)[14..], [0x4000, 0]);
        // What the runtime reads there stays, and is no packet of the next lap.
        assert_eq!(ring.slot(0).read().0[1..], first[1..]);
        assert_eq!(ring.ready(0, 2), (0, 0));
        assert_eq!(ring.ready(4, 6), (4, 0));
        write(4, dispatch);
        assert_eq!(ring.ready(4, 6), (5, 1));
        // Written around us, in any order: what is passed on is not passed on again.
        assert!(ring.shadow().unwrap().pass_on_written(1..5));
        assert_eq!(in_device(4), dispatch);
        assert!(!ring.shadow().unwrap().pass_on_written(1..5));
        // What is complete is invalid, as the packet processor makes it; what a producer has written since is not touched.
        let type_of = |index: u64| PacketType::of(ring.slot(index).load_header());
        let shadow = ring.shadow().unwrap();
        (0..3).for_each(|packet| shadow.recorded(packet, packet + 1));
        shadow.finished(1);
        shadow.invalidate_complete(2);
        assert_eq!([0, 1].map(type_of), [PacketType::Invalid, PacketType::KernelDispatch]);
        write(1, dispatch);
        shadow.finished(2);
        shadow.invalidate_complete(3);
        assert_eq!(ring.ready(1, 2), (2, 1));
        ring.leave();
        assert_eq!(base(&fake), device);
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
