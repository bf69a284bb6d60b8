//! A ring that is in the GPU's memory.
//!
//! The host writes that memory quickly, and reads it very slowly: each load goes over the bus. The application therefore gets a
//! *shadow*, a ring in the host's memory, as the queue's `base_address`. Packets are made ready there. Each is then written once to
//! the ring that the packet processor reads: all but the header first, the headers last.
//!
//! The packet processor invalidates the headers of its own ring only. In the shadow, a bit that the HSA specification reserves marks
//! what was passed on. The rest of the packet stays readable: if a kernel needs more scratch, the runtime looks for the first packet
//! from the read index on that needs some. As the read index may lag, headers of complete packets are invalidated here too.
//!
//! # Threads
//! Producers write slots of the shadow. The holder of the queue's combining lock does everything else; only the count of finished
//! records is the reaper's.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};

use hsa_sys::abi::aql::{PacketType, Slot, packet_is_passed_on};
use hsa_sys::raw::hsa_queue_t;

/// The two rings.
pub(super) struct Shadow {
    /// What producers write: a power of two of slots.
    slots: NonNull<Slot>,
    count: u32,
    /// What the packet processor reads.
    device: *const Slot,
    /// Where the application finds the address of the ring.
    base_address: *const AtomicPtr<c_void>,
    /// The address there is the shadow's.
    entered: AtomicBool,
    /// How many records the queue had used after the packet of a slot.
    records: Box<[AtomicU64]>,
    /// How many of them are finished, from the first on.
    finished: AtomicU64,
    /// The first packet whose header may have to be invalidated.
    complete: AtomicU64,
}

impl Shadow {
    /// The shadow of a queue's ring, in memory as large as the ring. The application is not given it yet.
    ///
    /// # Safety
    /// `queue` must be a queue of AMD's runtime. The queue and the memory, which is aligned and of this alone, must be there whenever
    /// a function of the shadow is called.
    pub(super) unsafe fn of(queue: *mut hsa_queue_t, memory: NonNull<u8>) -> Shadow {
        // SAFETY: the caller's promise: a queue, whose first fields no other thread changes.
        let fields = unsafe { queue.read() };
        // SAFETY: as above; the field is inside the queue.
        let base_address = unsafe { &raw mut (*queue).base_address };
        let slots = memory.cast::<Slot>();
        for index in 0..fields.size as usize {
            // SAFETY: the memory has as many slots, by the caller's promise.
            let slot = unsafe { slots.add(index) };
            // SAFETY: it is aligned, and no other thread uses it yet.
            unsafe { slot.write(Slot::invalid()) };
        }
        Shadow {
            slots,
            count: fields.size,
            device: fields.base_address.cast(),
            base_address: base_address.cast(),
            entered: AtomicBool::new(false),
            records: (0..fields.size).map(|_| AtomicU64::new(u64::MAX)).collect(),
            finished: AtomicU64::new(0),
            complete: AtomicU64::new(0),
        }
    }

    fn base_address(&self) -> &AtomicPtr<c_void> {
        // SAFETY: the field is an aligned pointer of a queue that is alive, by the promise of `of`.
        unsafe { &*self.base_address }
    }

    /// What producers write.
    pub(super) fn slots(&self) -> NonNull<Slot> {
        self.slots
    }

    /// Gives the shadow to the application, which does not have the queue yet.
    pub(super) fn enter(&self) {
        self.base_address().store(self.slots.as_ptr().cast(), Ordering::Release);
        self.entered.store(true, Ordering::Release);
    }

    /// Gives the ring itself back. Once: later, the queue may be destroyed.
    pub(super) fn leave(&self) {
        if self.entered.swap(false, Ordering::AcqRel) {
            self.base_address().store(self.device.cast_mut().cast(), Ordering::Release);
        }
    }

    fn at(&self, index: u64) -> usize {
        (index & u64::from(self.count - 1)) as usize
    }

    fn slot(&self, index: u64) -> &Slot {
        // SAFETY: there are as many slots.
        let slot = unsafe { self.slots.add(self.at(index)) };
        // SAFETY: slots are atomics, and are there by the promise of `of`.
        unsafe { slot.as_ref() }
    }

    /// The slot of a packet in the ring that the packet processor reads. It is not to be read but for captures.
    pub(super) fn device_slot(&self, index: u64) -> &Slot {
        // SAFETY: the ring has as many slots as the shadow.
        let slot = unsafe { self.device.add(self.at(index)) };
        // SAFETY: slots are atomics, and live as long as the queue.
        unsafe { &*slot }
    }

    /// A packet is about to be passed on, after which the queue has used so many records.
    pub(super) fn recorded(&self, packet: u64, records: u64) {
        self.records[self.at(packet)].store(records, Ordering::Relaxed);
    }

    /// So many more records are finished, in their order.
    pub(super) fn finished(&self, records: u64) {
        self.finished.fetch_add(records, Ordering::Relaxed);
    }

    /// Invalidates the headers of complete packets before `end`, where those end that were passed on.
    pub(super) fn invalidate_complete(&self, end: u64) {
        let finished = self.finished.load(Ordering::Relaxed);
        let mut packet = self.complete.load(Ordering::Relaxed);
        while packet < end && self.records[self.at(packet)].load(Ordering::Relaxed) <= finished {
            self.slot(packet).invalidate_if_passed_on();
            packet += 1;
        }
        self.complete.store(packet, Ordering::Relaxed);
    }

    /// Writes complete packets of the shadow to the ring that the packet processor reads.
    pub(super) fn pass_on(&self, packets: Range<u64>) {
        for index in packets.clone() {
            self.device_slot(index).take_body_of(self.slot(index));
        }
        written_to_device();
        for index in packets {
            let from = self.slot(index);
            self.device_slot(index).take_header_of(from);
            from.mark_as_passed_on();
        }
        written_to_device();
    }

    /// The same for those packets among some that producers have written since, whatever the order; true if there were any.
    #[cold]
    pub(super) fn pass_on_written(&self, packets: Range<u64>) -> bool {
        let is_written = |index: &u64| {
            let header = self.slot(*index).load_header();
            PacketType::of(header) != PacketType::Invalid && !packet_is_passed_on(header)
        };
        let written = packets.filter(is_written);
        written.map(|index| self.pass_on(index..index + 1)).count() > 0
    }
}

/// What was stored to the GPU's memory until now is there before what is stored after this: stores to memory of that kind are
/// combined, and otherwise leave the processor in any order.
pub(super) fn written_to_device() {
    fence(Ordering::Release);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this architecture has the instruction.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
