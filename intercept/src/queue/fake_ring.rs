//! A ring in memory of a test.

use std::ptr::NonNull;

use hsa_sys::abi::aql::{Packet, Slot};
use hsa_sys::abi::queue::Queue as AmdQueue;
use hsa_sys::raw::hsa_queue_t;

use super::{Memory, Ring};

pub(super) struct FakeRing {
    pub(super) ring: Ring,
    pub(super) memory: Box<AmdQueue>,
    _slots: Box<[Slot; 4]>,
    _shadow: Box<[Slot; 4]>,
}

impl FakeRing {
    /// Of four packets.
    pub(super) fn of(packets: [[u32; 16]; 4]) -> FakeRing {
        FakeRing::in_memory(packets, false)
    }

    /// Of four packets, in memory of the GPU or not.
    pub(super) fn in_memory(packets: [[u32; 16]; 4], of_gpu: bool) -> FakeRing {
        let shadow = Box::new([const { Slot::invalid() }; 4]);
        // SAFETY: the structure is of atomic integers only, of which zeros are a value.
        let memory: Box<AmdQueue> = Box::new(unsafe { std::mem::MaybeUninit::zeroed().assume_init() });
        let slots = Box::new(packets.map(|words| Slot::new(Packet(words))));
        let queue = std::ptr::from_ref(&*memory).cast_mut().cast::<hsa_queue_t>();
        let base_address = slots.as_ptr().cast_mut().cast();
        // SAFETY: the structure begins with these fields, and no other thread has it.
        unsafe { queue.write(hsa_queue_t { size: slots.len() as u32, base_address, ..Default::default() }) };
        let place = if of_gpu { Memory::Shadowed(NonNull::from(&*shadow).cast()) } else { Memory::Host };
        // SAFETY: the memory looks as a queue does, and lives as long as the ring.
        let ring = unsafe { Ring::of(queue, true, place) };
        FakeRing { ring, memory, _slots: slots, _shadow: shadow }
    }
}
