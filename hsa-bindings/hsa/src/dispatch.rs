//! Dispatches of our own, on a queue of our own.
//!
//! # Threads
//! One thread writes packets; the runtime's own tells of errors.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use hsa_sys::abi::aql::Packet;
use hsa_sys::abi::queue::Queue;
use hsa_sys::raw::{self, hsa_agent_t, hsa_queue_t, hsa_signal_t, hsa_status_t};

use crate::error::{HsaError, call};
use crate::{Api, OwnSignal, Result};

/// Packets that a queue of ours holds: one is in it at a time.
const PACKETS: u32 = 64;
/// The bits of a packet's first word that are its header.
const HEADER: u64 = 0xffff;
/// Words of a packet.
const WORDS: usize = 8;

/// A queue that this process made, with completion times.
#[derive(Debug)]
pub struct OwnQueue {
    queue: *mut hsa_queue_t,
    /// The status that the runtime stopped the queue with, or 0.
    error: &'static AtomicU32,
}

/// What only the host writes to a queue.
#[derive(Debug, PartialEq, Eq)]
pub struct Contents {
    /// Its type, ring, doorbell and size.
    pub structure: Vec<u64>,
    /// The packets without their headers, which the packet processor invalidates.
    pub packets: Vec<[u64; WORDS]>,
}

/// When a dispatch ran, in ticks of the system's clock ([`Api::timestamp_frequency`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DispatchTime {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

impl Api {
    /// Makes a queue of an agent. It lives as long as the runtime.
    ///
    /// # Errors
    /// What the runtime says.
    pub fn own_queue(&self, agent: u64, kind: u32) -> Result<OwnQueue> {
        unsafe extern "C" fn failed(status: hsa_status_t, _: *mut hsa_queue_t, data: *mut c_void) {
            // SAFETY: `data` is the number that is passed below, which is never freed.
            unsafe { &*data.cast::<AtomicU32>() }.store(status.0, Ordering::Release);
        }
        let error: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        let data = ptr::from_ref(error).cast_mut().cast();
        let (mut queue, agent) = (ptr::null_mut(), hsa_agent_t { handle: agent });
        // SAFETY: the callback gets the number that it expects; the runtime writes one pointer.
        unsafe {
            call!(self.core.hsa_queue_create_fn(
                agent,
                PACKETS,
                kind,
                Some(failed),
                data,
                u32::MAX,
                u32::MAX,
                &mut queue
            ))
        }?;
        // SAFETY: the queue was made above.
        unsafe { self.enable_profiling(queue) }?;
        Ok(OwnQueue { queue, error })
    }

    /// Publishes a packet of a queue of ours and rings its doorbell, by the runtime's functions: a tool may watch them.
    ///
    /// # Errors
    /// When the runtime has no such functions.
    ///
    /// # Safety
    /// What the packet refers to stays there until it is complete, and fewer packets than the ring has slots, which are 64, are not complete.
    pub unsafe fn submit(&self, queue: &OwnQueue, packet: &Packet) -> Result<()> {
        // SAFETY: the queue was made by `own_queue`, and queues begin with this structure.
        let fields = unsafe { &*queue.queue };
        let reserve = self
            .core
            .hsa_queue_add_write_index_screlease_fn
            .ok_or(HsaError::Missing { call: "hsa_queue_add_write_index" })?;
        // SAFETY: the queue lives.
        let index = unsafe { reserve(queue.queue, 1) };
        let slot = fields.base_address.cast::<[AtomicU64; 8]>().wrapping_add((index % u64::from(fields.size)) as usize);
        // SAFETY: the index is reduced to the ring's size; slots are 64 bytes.
        let slot = unsafe { &*slot };
        let words = words(packet);
        // Everything but the header, whose type keeps the slot closed until it is stored last.
        for (to, word) in slot.iter().zip(words).skip(1) {
            to.store(word, Ordering::Relaxed);
        }
        let halves = ptr::from_ref(slot).cast::<AtomicU16>();
        for (n, half) in [(3, words[0] >> 48), (2, words[0] >> 32), (1, words[0] >> 16), (0, words[0])] {
            // SAFETY: the first eight bytes of the slot are four half-words, aligned, accessed as atomics.
            unsafe { &*halves.wrapping_add(n) }.store(half as u16, Ordering::Release);
        }
        let ring = self.core.hsa_signal_store_screlease_fn.ok_or(HsaError::Missing { call: "hsa_signal_store" })?;
        // SAFETY: the doorbell of a queue that lives.
        unsafe { ring(fields.doorbell_signal, index as i64) };
        Ok(())
    }

    /// Has the runtime take the times of copies.
    ///
    /// # Errors
    /// When the runtime refuses.
    pub fn take_times_of_copies(&self) -> Result<()> {
        // SAFETY: the call takes no memory.
        unsafe { call!(self.amd.hsa_amd_profiling_async_copy_enable_fn(true)) }
    }

    /// When the last copy that completed on a signal ran, in ticks of the system clock.
    ///
    /// # Safety
    /// The signal must not be destroyed before this returns.
    ///
    /// # Errors
    /// When none has.
    pub unsafe fn copy_time(&self, signal: u64) -> Result<DispatchTime> {
        let mut time = raw::hsa_amd_profiling_async_copy_time_t::default();
        let signal = hsa_signal_t { handle: signal };
        // SAFETY: the caller's promise; the runtime writes two numbers.
        unsafe { call!(self.amd.hsa_amd_profiling_get_async_copy_time_fn(signal, &mut time)) }?;
        Ok(DispatchTime { start: time.start, end: time.end })
    }

    /// When the last packet that completed on a signal ran.
    ///
    /// # Errors
    /// When it was none of this agent.
    pub fn dispatch_time(&self, agent: u64, signal: OwnSignal) -> Result<DispatchTime> {
        let mut time = raw::hsa_amd_profiling_dispatch_time_t::default();
        let (agent, signal) = (hsa_agent_t { handle: agent }, hsa_signal_t { handle: signal.handle() });
        // SAFETY: a signal of ours; the runtime writes two numbers.
        unsafe { call!(self.amd.hsa_amd_profiling_get_dispatch_time_fn(agent, signal, &mut time)) }?;
        Ok(DispatchTime { start: time.start, end: time.end })
    }
}

/// A packet's words.
fn words(packet: &Packet) -> [u64; WORDS] {
    std::array::from_fn(|n| {
        let word = |at: usize| u64::from(packet.0.get(at).copied().unwrap_or(0));
        word(2 * n) | word(2 * n + 1) << 32
    })
}

fn without_header(mut packet: [u64; WORDS]) -> [u64; WORDS] {
    packet[0] &= !HEADER;
    packet
}

impl OwnQueue {
    /// The address of its structure, `amd_queue_t`.
    pub fn address(&self) -> u64 {
        self.queue as u64
    }

    /// Its structure.
    pub fn memory(&self) -> &Queue {
        // SAFETY: the queue was made by `own_queue` and lives as long as the runtime.
        unsafe { Queue::from_address(self.address()) }
    }

    /// What only the host writes.
    pub fn contents(&self) -> Contents {
        // SAFETY: the queue was made by `own_queue`, and queues begin with this structure.
        let fields = unsafe { &*self.queue };
        let structure = self.memory().hsa_queue.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let words = fields.base_address.cast::<AtomicU64>();
        let word = |at: usize| {
            // SAFETY: the ring has so many packets of eight words, and lives as long as the runtime.
            unsafe { &*words.wrapping_add(at) }.load(Ordering::Relaxed)
        };
        let packet = |n: usize| without_header(std::array::from_fn(|at| word(WORDS * n + at)));
        Contents { structure, packets: (0..PACKETS as usize).map(packet).collect() }
    }

    /// What [`contents`](OwnQueue::contents) are once a packet is published.
    pub fn contents_with(&self, packet: &Packet) -> Contents {
        let mut all = self.contents();
        let index = self.memory().write_dispatch_id.load(Ordering::Relaxed) % u64::from(PACKETS);
        if let Some(slot) = all.packets.get_mut(index as usize) {
            *slot = without_header(words(packet));
        }
        all
    }

    /// Why the runtime has stopped it, if it has.
    pub fn error(&self) -> Option<HsaError> {
        match self.error.load(Ordering::Acquire) {
            0 => None,
            status => Some(HsaError::Status { call: "the queue", status }),
        }
    }
}
