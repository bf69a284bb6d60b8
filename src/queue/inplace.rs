//! The way in place: the application's packets stay where they are written, in the ring of the real queue.
//!
//! Producers reserve packets by a virtual index (see [`Ring`]). When one of them rings the doorbell, the packets that are
//! complete are made ready where they are, the real index follows, and the real doorbell is rung once.
//!
//! # Threads
//! The thread that rings the doorbell does the work, one thread at a time for each queue; nobody waits (see
//! [`Turn`](super::turn::Turn)). The reaper does it for packets that were written after their doorbell was rung.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use hsa::Api;
use hsa_sys::abi::signal::{Signal, kind};
use hsa_sys::raw::{hsa_queue_t, hsa_signal_t};
use logdur_journal::account::Event;
use thiserror::Error;

use super::{Publisher, Queue, Ring};
use crate::address_map::AddressMap;
use crate::calls;
use crate::entry::guard;
use crate::session::{self, Session};

/// Addresses of the queues that are watched in place, and of their [`Queue`]s.
static QUEUES: AddressMap = AddressMap::new();
/// Their doorbells.
static DOORBELLS: AddressMap = AddressMap::new();

/// Why a queue cannot be watched in place.
#[derive(Debug, Error)]
pub(crate) enum Refusal {
    /// The runtime does not stamp its packets.
    #[error(transparent)]
    Runtime(#[from] hsa::HsaError),
    /// Hardware before gfx9.
    #[error("its doorbell is of a kind whose values are not packet numbers")]
    Doorbell,
    /// A ring in the GPU's memory would be read over the bus, packet by packet.
    #[error(
        "its ring is in the memory of the GPU; DEBUG_CLR_AQL_DEV_QUEUE=0 and HSA_ALLOCATE_QUEUE_DEV_MEM=0 put it into the host's"
    )]
    DeviceRing,
}

/// Watches a queue that was just created.
///
/// # Errors
/// Why it cannot be watched; it is as it was.
///
/// # Safety
/// `handle` must be a queue of this runtime that the application does not have yet, of the agent at position `agent`.
pub(crate) unsafe fn watch(
    session: &'static Session,
    api: &Api,
    agent: usize,
    handle: *mut hsa_queue_t,
) -> Result<(), Refusal> {
    // A queue for cooperative launches is one for the whole agent, handed out again and again.
    if let Some(ring) = of_queue(handle).and_then(|q| q.ring.as_ref()) {
        ring.owners.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let fields = unsafe { handle.read() };
    // SAFETY: a doorbell lives as long as its queue.
    let doorbell = unsafe { Signal::from_handle(fields.doorbell_signal.handle) };
    if doorbell.kind.load(Ordering::Relaxed) == kind::LEGACY_DOORBELL {
        return Err(Refusal::Doorbell);
    }
    if api.is_device_memory(fields.base_address.addr()) {
        return Err(Refusal::DeviceRing);
    }
    // SAFETY: the caller's promise.
    unsafe { api.enable_profiling(handle) }?;
    // SAFETY: the caller's promise; `close` is called before the queue is destroyed.
    let ring = unsafe { Ring::of(handle, indices_are_the_runtimes(api)) };
    ring.start(api);
    let queue = session.queues.enter(&session.blocks, agent, Some(ring));
    queue.numbered(fields.id);
    queue.handle.store(handle, Ordering::Release);
    let address = std::ptr::from_ref(queue).expose_provenance() as u64;
    QUEUES.set(handle.addr() as u64, address);
    DOORBELLS.set(fields.doorbell_signal.handle, address);
    // For the reaper to make signals ready.
    session.reaper.look_now();
    Ok(())
}

/// True when the functions on write indices are the runtime's own, not those of another tool below us, which may keep an
/// index of its own.
fn indices_are_the_runtimes(api: &Api) -> bool {
    let functions = [
        api.core.hsa_queue_load_write_index_relaxed_fn.map(|f| f as *const c_void),
        api.core.hsa_queue_store_write_index_screlease_fn.map(|f| f as *const c_void),
    ];
    functions.into_iter().all(|f| f.is_some_and(is_of_the_runtime))
}

/// True when a function is one of ROCr's library.
fn is_of_the_runtime(function: *const c_void) -> bool {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the function fills the structure if it returns anything but 0.
    if unsafe { libc::dladdr(function, info.as_mut_ptr()) } == 0 {
        return false;
    }
    // SAFETY: all zeros is a value of the structure, and so is what was filled in.
    let info = unsafe { info.assume_init() };
    if info.dli_fname.is_null() {
        return false;
    }
    // SAFETY: the name is a string of the loader's that lives as long as the library.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes();
    path.rsplit(|&b| b == b'/').next().is_some_and(|name| name.starts_with(b"libhsa-runtime64.so"))
}

fn entered(map: &AddressMap, address: u64) -> Option<&'static Queue> {
    let queue = std::ptr::with_exposed_provenance::<Queue>(map.get(address) as usize);
    // SAFETY: the maps hold addresses of queues, which are leaked, and 0.
    unsafe { queue.as_ref() }
}

fn of_queue(handle: *const hsa_queue_t) -> Option<&'static Queue> {
    entered(&QUEUES, handle.addr() as u64)
}

/// The ring whose index a producer is about to use; `None` if the runtime's own is meant.
#[inline]
pub(crate) fn ring_of(handle: *const hsa_queue_t) -> Option<&'static Ring> {
    let queue = of_queue(handle)?;
    let ring = queue.ring.as_ref().filter(|ring| !ring.bypassed.load(Ordering::Relaxed))?;
    if ring.is_written_around() {
        hand_over(queue, ring);
        return None;
    }
    Some(ring)
}

/// A producer must not be given a slot that another one has reserved around us: the queue is turned over first.
#[cold]
fn hand_over(queue: &'static Queue, ring: &'static Ring) {
    let Some(api) = calls::get() else { return };
    while !ring.bypassed.load(Ordering::Acquire) && !queue.gone.load(Ordering::Acquire) {
        queue.publisher.work(|publisher| publish(publisher, queue, ring, api, session::current()));
        std::thread::yield_now();
    }
}

/// A store to a signal: true if it was a doorbell's, and is dealt with.
#[inline]
pub(crate) fn rang(signal: hsa_signal_t) -> bool {
    let Some(queue) = entered(&DOORBELLS, signal.handle) else { return false };
    let (Some(ring), Some(api)) = (&queue.ring, calls::get()) else { return false };
    if ring.bypassed.load(Ordering::Relaxed) {
        return false;
    }
    let session = session::current();
    queue.publisher.work(|publisher| publish(publisher, queue, ring, api, session));
    if let Some(session) = session {
        session.reaper.wake();
    }
    !ring.bypassed.load(Ordering::Relaxed)
}

/// Publishes what is complete. Whatever becomes of our own work on the packets, they go to the GPU.
fn publish(
    publisher: &mut Publisher,
    queue: &'static Queue,
    ring: &'static Ring,
    api: &Api,
    session: Option<&'static Session>,
) {
    let first = ring.published.load(Ordering::Relaxed);
    if ring.bypassed.load(Ordering::Relaxed) {
        return;
    }
    if ring.real_index(api) != first {
        bypass(ring, api, session, queue);
        return;
    }
    let (mut end, mut dispatches) = ring.ready(&mut publisher.room);
    if let Some((session, capture)) = session.and_then(|s| Some((s, s.capture.as_ref()?)))
        && let Some(target) = {
            let slots = (first..end).map(|index| (index, ring.slot(index)));
            // After a panic the turn would stay taken.
            guard(None, || capture.first_wanted(session, queue, slots))
        }
    {
        // What is before it is published now, it itself and what is behind it by and by.
        ring.hold.store(target, Ordering::Release);
        (end, dispatches) = ring.ready(&mut publisher.room);
    }
    if end == first {
        // The packet processor goes where the doorbell says, whatever the index; what it has taken is invalid then.
        if ring.read_index() > first {
            bypass(ring, api, session, queue);
        }
        return;
    }
    if let Some(session) = session.filter(|s| s.is_active()) {
        guard((), || publisher.observe(session, queue, dispatches, (first..end).map(|index| ring.slot(index))));
    }
    ring.publish(api, end);
}

/// A thread writes the queue's own index: from now on all do.
#[cold]
fn bypass(ring: &Ring, api: &Api, session: Option<&'static Session>, queue: &Queue) {
    ring.bypassed.store(true, Ordering::SeqCst);
    let (reserved, real) = (ring.write_index.load(Ordering::SeqCst), ring.real_index(api));
    if reserved > real {
        ring.set_real_index(api, reserved);
        ring.ring(api, reserved - 1);
    }
    guard((), || {
        if let Some(session) = session {
            session.records.header().count(Event::BypassedQueue, 1);
            session.notice(format!(
                "queue {}: its packets are written around the runtime's functions: those from number {} on pass unseen",
                queue.id.load(Ordering::Relaxed),
                ring.published.load(Ordering::Relaxed)
            ));
        }
    });
}

/// Publishes what may be published now: a hold has changed.
pub(crate) fn go_on(session: &'static Session, queue: &'static Queue) {
    let (Some(ring), Some(api)) = (&queue.ring, calls::get()) else { return };
    queue.publisher.work(|publisher| publish(publisher, queue, ring, api, Some(session)));
}

/// The reaper's look: publishes packets that were left behind because they were written after their doorbell was rung.
/// True if there are some left.
///
/// A queue on which something has happened since the last look is left to its producers: the turn is not taken from them.
pub(crate) fn rescue(session: &'static Session, queue: &'static Queue) -> bool {
    let (Some(ring), Some(api)) = (&queue.ring, calls::get()) else { return false };
    if queue.gone.load(Ordering::Acquire) {
        return false;
    }
    let published = ring.published.load(Ordering::Relaxed);
    if ring.looked_at.swap(published, Ordering::Relaxed) == published {
        queue.publisher.work(|publisher| publish(publisher, queue, ring, api, Some(session)));
    }
    ring.has_unpublished()
}

/// The hooks are about to go: producers go on with the runtime's own index.
pub(crate) fn leave(queue: &'static Queue) {
    let (Some(ring), Some(api)) = (&queue.ring, calls::get()) else { return };
    queue.publisher.work(|publisher| publish(publisher, queue, ring, api, session::current()));
    ring.bypassed.store(true, Ordering::SeqCst);
    QUEUES.set(queue.handle.load(Ordering::Acquire).addr() as u64, 0);
    DOORBELLS.set(ring.doorbell, 0);
}

/// A queue is about to be destroyed: true if this was its last owner. Afterwards nothing of it is touched.
pub(crate) fn close(queue: &Queue, handle: *const hsa_queue_t, session: &Session) -> bool {
    let Some(ring) = &queue.ring else { return true };
    if ring.owners.fetch_sub(1, Ordering::AcqRel) != 1 {
        return false;
    }
    QUEUES.set(handle.addr() as u64, 0);
    DOORBELLS.set(ring.doorbell, 0);
    queue.publisher.close(|publisher| {
        if ring.bypassed.load(Ordering::Relaxed) {
            let passed = ring.read_index() - ring.published.load(Ordering::Relaxed);
            session.records.header().count(Event::UnseenPacket, passed);
        }
        session.signals.give_back(&mut publisher.stash);
    });
    true
}
