//! Queues as the driver knows them: numbers, doorbells, and how errors reach the runtime.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use amdgpu_emu::driver::{PacketError, QueueError, WaveError};
use amdgpu_emu::memory::{Refused, View};
use amdgpu_emu::queue::Doorbell;
use hsa_sys::abi::queue::Queue as AbiQueue;
use hsa_sys::abi::signal::Signal;

use crate::Errno;
use crate::device::Device;
use crate::event::Events;
use crate::lock;
use crate::memfile::{Mapping, MemFile};

/// Bytes of the doorbell page of a process on one GPU.
pub(crate) const DOORBELL_PAGE: u64 = 8192;

/// Where a GPU's doorbells are in the file of `/dev/kfd`. Multiples of 4 GiB, because the thunk of ROCr 5.2 takes the
/// low 32 bits of the first queue's offset for the place within the page.
pub(crate) fn doorbell_offset(device: usize) -> u64 {
    (device as u64 + 1) << 36
}

/// Where a GPU's remapped registers are in the file of `/dev/kfd`.
pub(crate) fn register_offset(device: usize) -> u64 {
    doorbell_offset(device) + (1 << 33)
}

/// A queue that exists.
pub(crate) struct Entry {
    pub(crate) device: usize,
    pub(crate) slot: u64,
    /// Address of the `amd_queue_t`, 0 for copy queues.
    pub(crate) queue: u64,
    /// Address of the header of the context-save area.
    pub(crate) save_area: u64,
}

/// The queues of a process.
#[derive(Default)]
pub(crate) struct Queues {
    last: AtomicU32,
    table: Mutex<HashMap<u32, Entry>>,
    /// Doorbells that are taken: device and slot. Those of queues that are being made are not in the table yet.
    taken: Mutex<HashSet<(usize, u64)>>,
    pages: Mutex<HashMap<usize, Arc<Mapping>>>,
}

impl Queues {
    /// A number that no queue has had.
    pub(crate) fn new_id(&self) -> u32 {
        self.last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Takes a doorbell of a device and sets it to a value.
    ///
    /// # Errors
    /// ENOSPC when all are taken, ENOMEM when the page cannot be mapped.
    pub(crate) fn doorbell(&self, kfd: &MemFile, device: usize, value: u64) -> Result<(u64, Doorbell), Errno> {
        let page = {
            let mut pages = lock(&self.pages);
            match pages.get(&device) {
                Some(page) => page.clone(),
                None => {
                    let page = kfd.map(doorbell_offset(device), DOORBELL_PAGE).map_err(|_| libc::ENOMEM)?;
                    pages.insert(device, page.clone());
                    page
                }
            }
        };
        let slot = self.take_slot(device)?;
        let place: *const AtomicU64 = page.base().wrapping_add(8 * slot as usize).cast();
        // SAFETY: inside of the mapped page, aligned to eight bytes; the mapping is alive.
        unsafe { &*place }.store(value, Ordering::Release);
        // SAFETY: as above, and the mapping is the owner.
        Ok((slot, unsafe { Doorbell::new(place, page) }))
    }

    /// Takes the first free doorbell of a device; [`Queues::remove`] gives it back.
    fn take_slot(&self, device: usize) -> Result<u64, Errno> {
        let mut taken = lock(&self.taken);
        let slot = (0..DOORBELL_PAGE / 8).find(|&s| !taken.contains(&(device, s))).ok_or(libc::ENOSPC)?;
        taken.insert((device, slot));
        Ok(slot)
    }

    /// Records a queue.
    pub(crate) fn insert(&self, id: u32, entry: Entry) {
        lock(&self.table).insert(id, entry);
    }

    /// Forgets a queue; its doorbell is free again.
    ///
    /// # Errors
    /// EINVAL for a number that is none.
    pub(crate) fn remove(&self, id: u32) -> Result<Entry, Errno> {
        let entry = lock(&self.table).remove(&id).ok_or(libc::EINVAL)?;
        lock(&self.taken).remove(&(entry.device, entry.slot));
        Ok(entry)
    }

    /// True when there is such a queue.
    pub(crate) fn contains(&self, id: u32) -> bool {
        lock(&self.table).contains_key(&id)
    }

    fn addresses(&self, id: u32) -> Option<(usize, u64, u64)> {
        lock(&self.table).get(&id).map(|e| (e.device, e.queue, e.save_area))
    }
}

/// Codes that the packet processor stores in `queue_inactive_signal`. Source: ROCr's `DynamicQueueEventsHandler`.
mod inactive {
    pub(super) const DIMENSIONS: i64 = 2;
    pub(super) const GROUP_SEGMENT: i64 = 4;
    pub(super) const CODE_OBJECT: i64 = 8;
    pub(super) const PACKET: i64 = 32;
    pub(super) const RESOURCES: i64 = 64;
    pub(super) const APERTURE: i64 = 0x2000_0000;
    pub(super) const ILLEGAL_INSTRUCTION: i64 = 0x4000_0000;
    pub(super) const TRAP: i64 = 0x8000_0000;
}

/// Exception codes of queues. Source: `kfd_dbg_trap_exception_code` in `kfd_ioctl.h`.
mod exception {
    pub(super) const WAVE_ABORT: u32 = 1;
    pub(super) const WAVE_TRAP: u32 = 2;
    pub(super) const WAVE_ILLEGAL_INSTRUCTION: u32 = 4;
    pub(super) const WAVE_APERTURE_VIOLATION: u32 = 6;
    pub(super) const DIM_INVALID: u32 = 16;
    pub(super) const GROUP_SEGMENT_SIZE_INVALID: u32 = 17;
    pub(super) const CODE_INVALID: u32 = 18;
    pub(super) const PACKET_UNSUPPORTED: u32 = 20;
    pub(super) const WORK_GROUP_SIZE_INVALID: u32 = 21;
}

/// The two codes of an error.
fn codes(error: &QueueError) -> (i64, u32) {
    use amdgpu_emu::Trap;
    match error {
        QueueError::Packet(PacketError::Dimensions) => (inactive::DIMENSIONS, exception::DIM_INVALID),
        QueueError::Packet(PacketError::GroupSegment) => {
            (inactive::GROUP_SEGMENT, exception::GROUP_SEGMENT_SIZE_INVALID)
        }
        QueueError::Packet(PacketError::CodeObject) => (inactive::CODE_OBJECT, exception::CODE_INVALID),
        QueueError::Packet(PacketError::Type) => (inactive::PACKET, exception::PACKET_UNSUPPORTED),
        QueueError::Packet(PacketError::Resources) => (inactive::RESOURCES, exception::WORK_GROUP_SIZE_INVALID),
        QueueError::Wave(WaveError { trap, .. }) | QueueError::Injected(trap) => match trap {
            Trap::Illegal | Trap::Vskip => (inactive::ILLEGAL_INSTRUCTION, exception::WAVE_ILLEGAL_INSTRUCTION),
            // What page tables refuse is a memory fault and does not come here. Of the rest the trap handler says that it
            // is no memory violation (ROCr's `trap_handler.s`), which the runtime would leave to the memory fault's event.
            Trap::Aperture { .. } | Trap::Fetch | Trap::Memory(_) => {
                (inactive::APERTURE, exception::WAVE_APERTURE_VIOLATION)
            }
            // `s_trap 2` is how a kernel aborts.
            Trap::Trap(2) => (inactive::TRAP, exception::WAVE_ABORT),
            Trap::Trap(_) | Trap::Halt => (inactive::TRAP, exception::WAVE_TRAP),
        },
    }
}

/// Tells the runtime that a queue stopped: through the header of its save area when it handles exceptions, else
/// through the queue's own signal.
///
/// # Errors
/// When the memory of the queue cannot be accessed.
pub(crate) fn report_error(
    queues: &Queues,
    devices: &[Device],
    events: &Events,
    id: u32,
    error: &QueueError,
    exceptions: bool,
) -> Result<(), Refused> {
    let Some((device, queue, save_area)) = queues.addresses(id) else { return Ok(()) };
    let mut view = View::new(devices[device].gpu.space.clone());
    let (code, exception) = codes(error);
    if exceptions && save_area != 0 {
        raise_exception(events, &mut view, save_area, exception)
    } else {
        store_inactive(events, &mut view, queue, code)
    }
}

/// Source: `HsaUserContextSaveAreaHeader` of the thunk library: the address of the error reason and the event.
fn raise_exception(events: &Events, view: &mut View, save_area: u64, exception: u32) -> Result<(), Refused> {
    let reason = view.word64(save_area + 24, false)?.load(Ordering::Acquire);
    let event = view.word32(save_area + 32, false)?.load(Ordering::Acquire);
    if reason != 0 {
        view.word64(reason, true)?.fetch_or(1 << (exception - 1), Ordering::AcqRel);
    }
    events.raise(event);
    Ok(())
}

fn store_inactive(events: &Events, view: &mut View, queue: u64, code: i64) -> Result<(), Refused> {
    if queue == 0 {
        return Ok(());
    }
    let handle = view
        .word64(queue + std::mem::offset_of!(AbiQueue, queue_inactive_signal) as u64, false)?
        .load(Ordering::Acquire);
    if handle == 0 {
        return Ok(());
    }
    view.word64(handle + std::mem::offset_of!(Signal, value) as u64, true)?.store(code as u64, Ordering::Release);
    let mailbox =
        view.word64(handle + std::mem::offset_of!(Signal, event_mailbox_ptr) as u64, false)?.load(Ordering::Relaxed);
    let event = view.word32(handle + std::mem::offset_of!(Signal, event_id) as u64, false)?.load(Ordering::Relaxed);
    if mailbox != 0 {
        view.word64(mailbox, true)?.store(event.into(), Ordering::Release);
        events.raise(event);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_that_are_made_at_the_same_time_have_doorbells_of_their_own() {
        let queues = Queues::default();
        let slots: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| [(); 200].map(|()| queues.take_slot(0).expect("room")))).collect();
            threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect()
        });
        assert_eq!(slots.iter().collect::<HashSet<_>>().len(), slots.len());
        assert_eq!(queues.take_slot(1), Ok(0), "another device has its own");
        queues.insert(7, Entry { device: 0, slot: 5, queue: 0, save_area: 0 });
        queues.remove(7).expect("there");
        assert_eq!(queues.take_slot(0), Ok(5), "a doorbell is used again");
        while queues.take_slot(0).is_ok() {}
        assert_eq!(queues.take_slot(0), Err(libc::ENOSPC));
    }
}
