//! The way in place: the application's packets stay where they are written, in the ring of the real queue.
//!
//! Producers reserve packets by a virtual index (see [`Ring`]). When one of them rings the doorbell, the packets that are
//! complete are made ready where they are, the real index follows, and the real doorbell is rung once.
//!
//! # Threads
//! The thread that rings the doorbell publishes, one thread at a time for each queue; no thread waits (see
//! [`CombiningLock`](crate::queue::combining_lock::CombiningLock)). The reaper publishes packets that were written after their doorbell was rung.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use hsa::{Api, Refusal, RingMemory};
use hsa_sys::abi::aql::Slot;
use hsa_sys::abi::queue::{FEATURE_KERNEL_DISPATCH, Queue as AmdQueue};
use hsa_sys::abi::signal::{Signal, kind};
use hsa_sys::raw::{hsa_queue_t, hsa_signal_t};
use hsa_sys::table::NEWEST_AMD_STEP;
use logdur_journal::account::Event;
use logdur_system::lock;

use crate::address_map::AddressMap;
use crate::backtrace::Stack;
use crate::calls;
use crate::guard::guard;
use crate::interceptor::{self, Interceptor};
use crate::library;
use crate::ports::NameSite;
use crate::queue::{Memory, Noted, Publisher, Queue, Ring};
use crate::stack::guard_large;

use super::nearest::Nearest;

/// Addresses of the queues that are watched in place, and of their [`Queue`]s.
static QUEUES: AddressMap = AddressMap::new();
/// Their doorbells.
static DOORBELLS: AddressMap = AddressMap::new();
/// Those of them that are found first.
static NEAREST_QUEUES: Nearest = Nearest::new();
static NEAREST_DOORBELLS: Nearest = Nearest::new();
/// Queues that are known, and are not watched here.
static LEFT: AddressMap = AddressMap::new();
/// Held while a queue of an unknown origin is looked at.
static ADOPTING: Mutex<()> = Mutex::new(());

/// Watches a queue that was just created.
///
/// # Errors
/// Why it cannot be watched; it is as it was.
///
/// # Safety
/// `handle` must be a queue of this runtime that no thread uses yet, of the agent at position `agent`; if it `is_new`, the
/// application does not have it yet.
pub unsafe fn watch(
    interceptor: &'static Interceptor,
    api: &Api,
    agent: usize,
    handle: *mut hsa_queue_t,
    is_new: bool,
) -> Result<(), Refusal> {
    // A queue for cooperative launches is one for the whole agent, handed out again and again.
    if let Some(ring) = of_queue(handle).and_then(|q| q.ring.as_ref()) {
        ring.owners.fetch_add(1, Ordering::Relaxed);
        return Ok(());
    }
    // SAFETY: the caller's promise.
    let fields = unsafe { handle.read() };
    // SAFETY: the caller's promise.
    let found = unsafe { api.watch_in_place(handle) }?;
    let direct = indices_are_the_runtimes(api);
    let memory = match found {
        RingMemory::Host => Memory::Host,
        // Another tool below us knows the ring by its address, and reads packets there.
        RingMemory::Device if is_new && direct => {
            let gpu = interceptor.agent(agent).map_or(0, |seen| seen.agent.handle);
            // Also for its kernels, which may write packets.
            let memory = api.kernarg_memory(&[gpu], fields.size as usize * size_of::<Slot>());
            Memory::Shadowed(memory.map_err(|_| Refusal::Memory)?)
        }
        RingMemory::Device => Memory::Device,
    };
    // SAFETY: the caller's promise; `close` is called before the queue is destroyed.
    let mut ring = unsafe { Ring::of(handle, direct, memory) };
    ring.note_in(Noted::new(interceptor.records));
    if interceptor.ports.sites.is_some() {
        ring.keep_sites();
    }
    ring.start(api);
    let Some(queue) = interceptor.queues.enter(&interceptor.blocks, agent, Some(ring)) else {
        return Err(Refusal::Memory);
    };
    queue.numbered(fields.id);
    queue.handle.store(handle, Ordering::Release);
    queue.ring.iter().for_each(Ring::enter);
    if memory == Memory::Device {
        let why = if direct { "a function that is not known has created it" } else { "another tool reads it there" };
        interceptor.notice(format!(
            "queue {}: its ring is in the memory of the GPU, and {why}: each packet is read over the bus; \
             DEBUG_CLR_AQL_DEV_QUEUE=0 and HSA_ALLOCATE_QUEUE_DEV_MEM=0 put rings into the host's memory",
            fields.id
        ));
    }
    enter(queue, handle, fields.doorbell_signal.handle);
    // For the reaper to make signals ready.
    interceptor.reaper.look_now();
    Ok(())
}

/// True when the functions on write indices are the runtime's own, not those of another tool below us, which may keep an
/// index of its own.
fn indices_are_the_runtimes(api: &Api) -> bool {
    let functions = [
        api.core.hsa_queue_load_write_index_relaxed_fn.map(|f| f as *const c_void),
        api.core.hsa_queue_store_write_index_screlease_fn.map(|f| f as *const c_void),
    ];
    functions.into_iter().all(|f| f.is_some_and(|f| library::is_of_the_runtime(f.addr())))
}

/// A queue is found by its address and its doorbell from now on.
fn enter(queue: &'static Queue, handle: *const hsa_queue_t, doorbell: u64) {
    let address = std::ptr::from_ref(queue).expose_provenance() as u64;
    for (map, nearest, of) in
        [(&QUEUES, &NEAREST_QUEUES, handle.addr() as u64), (&DOORBELLS, &NEAREST_DOORBELLS, doorbell)]
    {
        map.set(of, address);
        nearest.enter(of, queue);
    }
}

/// It is not found any more.
fn leave_maps(queue: &Queue, handle: *const hsa_queue_t, doorbell: u64) {
    for (map, nearest, of) in
        [(&QUEUES, &NEAREST_QUEUES, handle.addr() as u64), (&DOORBELLS, &NEAREST_DOORBELLS, doorbell)]
    {
        map.set(of, 0);
        nearest.leave(of, queue);
    }
}

#[inline]
fn of_doorbell(signal: hsa_signal_t) -> Option<&'static Queue> {
    let doorbell_of = |queue: &Queue| queue.ring.as_ref().map(|ring| ring.doorbell);
    NEAREST_DOORBELLS.get(signal.handle, doorbell_of).or_else(|| entered(&DOORBELLS, signal.handle))
}

#[cold]
fn entered(map: &AddressMap, address: u64) -> Option<&'static Queue> {
    let queue = std::ptr::with_exposed_provenance::<Queue>(map.get(address) as usize);
    // SAFETY: the maps hold addresses of queues, and 0. A queue leaves them when it is destroyed, and is freed long after that.
    unsafe { queue.as_ref() }
}

#[inline]
fn of_queue(handle: *const hsa_queue_t) -> Option<&'static Queue> {
    let handle_of = |queue: &Queue| Some(queue.handle.load(Ordering::Relaxed).addr() as u64);
    let address = handle.addr() as u64;
    NEAREST_QUEUES.get(address, handle_of).or_else(|| entered(&QUEUES, address))
}

/// The ring whose index a producer is about to use; `None` if the runtime's own is meant.
#[inline]
pub fn ring_of(handle: *const hsa_queue_t) -> Option<&'static Ring> {
    let queue = of_queue(handle).or_else(|| adopt(handle))?;
    let ring = queue.ring.as_ref().filter(|ring| !ring.bypassed.load(Ordering::Relaxed))?;
    if ring.is_written_around() {
        hand_over(queue, ring);
        return None;
    }
    Some(ring)
}

/// A queue is never watched here: its packets are counted only.
///
/// # Safety
/// `handle` must be a queue of the runtime, and [`forget`] be called before it is destroyed.
pub unsafe fn leave_alone(interceptor: &Interceptor, handle: *mut hsa_queue_t, why: String) {
    LEFT.set(handle.addr() as u64, 1);
    // SAFETY: the caller's promise.
    unsafe { interceptor.unseen.enter(handle, why) };
}

/// A queue whose packets are no dispatches, as that of a copy engine: it is known, and neither watched nor counted.
pub fn not_of_dispatches(handle: *const hsa_queue_t) {
    LEFT.set(handle.addr() as u64, 1);
}

/// A queue is about to be destroyed: another one may get its address.
pub fn forget(interceptor: &Interceptor, handle: *const hsa_queue_t) {
    if LEFT.get(handle.addr() as u64) != 0 {
        LEFT.set(handle.addr() as u64, 0);
        interceptor.unseen.close(interceptor, handle);
    }
}

/// A producer uses a queue that no hook has seen being created: it is watched from now on if it has never been used.
fn adopt(handle: *const hsa_queue_t) -> Option<&'static Queue> {
    if handle.is_null() || LEFT.get(handle.addr() as u64) != 0 {
        return None;
    }
    guard_large(None, || {
        let (interceptor, api) = (interceptor::active()?, calls::get()?);
        let _one_at_a_time = lock(&ADOPTING);
        if let Some(known) = of_queue(handle) {
            return Some(known);
        }
        // Whatever comes of it, it is looked at once.
        LEFT.set(handle.addr() as u64, 1);
        let Unknown { id, agent } = unknown(interceptor, api, handle)?;
        let count = |why: String| {
            // SAFETY: it is a hardware queue of AMD's runtime; the hook of its destruction calls `forget` first.
            unsafe { interceptor.unseen.enter(handle.cast_mut(), why) };
        };
        let position = match agent {
            Ok(position) => position,
            Err(why) => {
                let what = "created by a function that is not known; its dispatches pass unseen";
                interceptor.notice(format!("queue {id}: {what}: {why}"));
                count(format!("{what}: {why}"));
                return None;
            }
        };
        if !interceptor.start() {
            return None;
        }
        // SAFETY: it is a hardware queue of AMD's runtime that has no packets, and other producers wait above.
        match unsafe { watch(interceptor, api, position, handle.cast_mut(), false) } {
            Ok(()) => {
                LEFT.set(handle.addr() as u64, 0);
                created_by_unknown(interceptor, api.amd.version.step_id, id);
                of_queue(handle)
            }
            Err(why) => {
                interceptor.notice(format!("queue {id}: its dispatches pass unseen: {why}"));
                count(why.to_string());
                None
            }
        }
    })
}

/// Tells of a queue that no hook has seen being created, and that is watched.
fn created_by_unknown(interceptor: &Interceptor, step: u32, id: u64) {
    ::log::info!("queue {id}: created by a function that is not known; it is watched from its first packet on");
    if step > NEWEST_AMD_STEP {
        interceptor.notice_once(
            "later-step",
            format!(
                "the runtime has functions that are not known here, up to step {step:#x} of its extension table (known: \
                 {NEWEST_AMD_STEP:#x}); one of them has made queue {id}: such queues are watched from their first packet on"
            ),
        );
    }
}

/// A queue that no hook has seen being created.
struct Unknown {
    /// The runtime's number of it.
    id: u64,
    /// The position of its agent, or why it cannot be watched.
    agent: Result<usize, &'static str>,
}

/// What is to be known of such a queue; `None` for one that is not a GPU's, or is known to another way of seeing packets.
fn unknown(interceptor: &Interceptor, api: &Api, handle: *const hsa_queue_t) -> Option<Unknown> {
    if interceptor.queues.find(handle.cast_mut()).is_some() {
        return None;
    }
    // SAFETY: the caller of the hook passes a queue, whose first fields never change.
    let fields = unsafe { handle.read() };
    // Those of copy engines have other packets.
    if fields.features & FEATURE_KERNEL_DISPATCH == 0 {
        return None;
    }
    // SAFETY: a doorbell lives as long as its queue.
    let doorbell = unsafe { Signal::from_handle(fields.doorbell_signal.handle) };
    // Queues of software, and those of another tool, have signals for doorbells.
    if doorbell.kind.load(Ordering::Relaxed) != kind::DOORBELL {
        return None;
    }
    let refused = |why| Some(Unknown { id: fields.id, agent: Err(why) });
    let shares = |queue: &&'static Queue| {
        let ring = queue.ring.as_ref().filter(|_| !queue.gone.load(Ordering::Acquire));
        ring.is_some_and(|ring| ring.doorbell == fields.doorbell_signal.handle)
    };
    if interceptor.queues.all().iter().any(shares) {
        return refused("it shares a queue that is watched");
    }
    // SAFETY: every queue of AMD's runtime begins an `amd_queue_t`, which lives as long as the queue.
    let amd = unsafe { AmdQueue::from_address(handle.expose_provenance() as u64) };
    if amd.write_dispatch_id.load(Ordering::Acquire) != 0 || amd.read_dispatch_id.load(Ordering::Acquire) != 0 {
        return refused("it was used before");
    }
    // SAFETY: the caller of the hook uses the queue.
    let position = match unsafe { api.queue_agent(handle.cast_mut()) } {
        Some(agent) => interceptor.agent_position(agent),
        // The only one there is.
        None => interceptor.agent(0).filter(|_| interceptor.agent(1).is_none()).map(|_| 0),
    };
    Some(Unknown { id: fields.id, agent: position.ok_or("the runtime does not say of which agent it is") })
}

/// A producer must not be given a slot that another one has reserved around us: the queue is turned over first.
#[cold]
fn hand_over(queue: &'static Queue, ring: &'static Ring) {
    let Some(api) = calls::get() else { return };
    while !ring.bypassed.load(Ordering::Acquire) && !queue.gone.load(Ordering::Acquire) {
        queue.publisher.work(|publisher| publish(publisher, queue, ring, api, interceptor::current()));
        std::thread::yield_now();
    }
}

/// A store of a value to a signal: true if it was a doorbell's, and is dealt with.
#[inline]
pub fn rang(signal: hsa_signal_t, value: i64) -> bool {
    let Some(queue) = of_doorbell(signal) else { return false };
    let (Some(ring), Some(api)) = (&queue.ring, calls::get()) else { return false };
    if ring.bypassed.load(Ordering::Relaxed) {
        queue.publisher.work(|_| ring.pass_on_written(api));
        return false;
    }
    let interceptor = interceptor::current();
    if let Some(feature) = interceptor.and_then(|interceptor| interceptor.ports.sites) {
        note_sites(interceptor, ring, feature);
    }
    queue.publisher.work(|publisher| publish(publisher, queue, ring, api, interceptor));
    if ring.published.load(Ordering::Relaxed) <= value.cast_unsigned() {
        ring.rang(value);
    }
    if let Some(interceptor) = interceptor {
        interceptor.reaper.wake();
    }
    !ring.bypassed.load(Ordering::Relaxed)
}

/// Notes where the calling thread launches its packets from, which it is about to publish or to leave to another thread.
#[cold]
#[inline(never)]
fn note_sites(interceptor: Option<&Interceptor>, ring: &Ring, feature: &dyn NameSite) {
    if interceptor.is_none_or(Interceptor::is_outside) {
        return;
    }
    // A first walk takes long: the reaper leaves the packets to this thread.
    ring.noting.fetch_add(1, Ordering::AcqRel);
    guard((), || {
        let mut stack = None;
        ring.note_sites(|object| match feature.wants(object) {
            true => feature.site(object, stack.get_or_insert_with(Stack::here)),
            false => 0,
        });
    });
    ring.noting.fetch_sub(1, Ordering::AcqRel);
}

/// Publishes what is complete. Whatever becomes of our own work on the packets, they go to the GPU.
fn publish(
    publisher: &mut Publisher,
    queue: &'static Queue,
    ring: &'static Ring,
    api: &Api,
    interceptor: Option<&'static Interceptor>,
) {
    let first = ring.published.load(Ordering::Relaxed);
    if ring.bypassed.load(Ordering::Relaxed) {
        return;
    }
    if ring.real_index(api) != first {
        bypass(ring, api, interceptor, queue);
        return;
    }
    let mut limit = ring.limit(&mut publisher.room);
    if let Some((interceptor, feature)) = interceptor.and_then(|i| Some((i, i.ports.hold?))) {
        if feature.sees_written() {
            let written = ring.newly_written(&mut publisher.room);
            if !written.is_empty() {
                guard((), || feature.written(queue, ring, written));
            }
        }
        // No packet is published that the feature has not seen, also if one is completed meanwhile.
        let (end, _) = ring.ready(first, limit);
        let held = guard(None, || feature.hold(interceptor, queue, ring, first..end));
        // What is before the held packet is published now, also if the queue is paused meanwhile: the feature has seen it. It itself and
        // what is behind it follow by and by.
        limit = held.unwrap_or(end);
    }
    let (mut end, mut now) = (first, None);
    loop {
        // Few at a time: what is read here is in the nearest cache when it is observed.
        let (start, end_of_pass) = (end, ring.end_of_pass(end));
        let dispatches;
        (end, dispatches) = ring.ready(start, limit.min(end_of_pass));
        // First: a process that dies meanwhile has numbers for dispatches without a record.
        ring.recorded(end);
        if let Some(interceptor) = interceptor.filter(|_| end > start) {
            // By reference: a closure that is moved is read by larger pieces than it was written by, which stalls the processor.
            guard((), &mut || publisher.observe(interceptor, queue, dispatches, &mut now, ring.packets(start..end)));
        }
        if end > start {
            ring.observed(end, publisher.records);
        }
        if end < end_of_pass {
            break;
        }
    }
    if end > first {
        ring.publish(api, end);
    } else if ring.read_index() > first {
        // The packet processor goes where the doorbell says, not where the index is; what it has taken is invalid then.
        bypass(ring, api, interceptor, queue);
    }
}

/// A thread writes the queue's own index: from now on all do.
#[cold]
fn bypass(ring: &Ring, api: &Api, interceptor: Option<&Interceptor>, queue: &Queue) {
    ring.bypassed.store(true, Ordering::SeqCst);
    ring.recorded(u64::MAX);
    let (reserved, real) = (ring.write_index.load(Ordering::SeqCst), ring.real_index(api));
    if reserved > real {
        ring.set_real_index(api, reserved);
        ring.ring(api, reserved - 1);
    }
    ring.pass_on_written(api);
    guard_large((), || {
        if let Some(interceptor) = interceptor {
            interceptor.records.header().count(Event::BypassedQueue, 1);
            interceptor.notice(format!(
                "queue {}: its packets are written around the runtime's functions: those from number {} on pass unseen",
                queue.id.load(Ordering::Relaxed),
                ring.published.load(Ordering::Relaxed)
            ));
        }
    });
}

/// Publishes what may be published now: a hold has changed.
pub fn publish_ready(interceptor: &'static Interceptor, queue: &'static Queue) {
    let (Some(ring), Some(api)) = (&queue.ring, calls::get()) else { return };
    queue.publisher.work(|publisher| publish(publisher, queue, ring, api, Some(interceptor)));
}

/// The reaper's look: publishes packets that were left behind because they were written after their doorbell was rung.
/// True if there are some left.
///
/// A queue on which something has happened since the last look is left to its producers: the reaper does not take their lock.
pub(crate) fn rescue(interceptor: &'static Interceptor, queue: &'static Queue) -> bool {
    let (Some(ring), Some(api)) = (&queue.ring, calls::get()) else { return false };
    if queue.gone.load(Ordering::Acquire) {
        return false;
    }
    if ring.noting.load(Ordering::Acquire) > 0 {
        return true;
    }
    let published = ring.published.load(Ordering::Relaxed);
    if ring.bypassed.load(Ordering::Relaxed) {
        queue.publisher.work(|_| ring.pass_on_written(api));
    } else if ring.looked_at.swap(published, Ordering::Relaxed) == published {
        queue.publisher.work(|publisher| {
            ring.invalidate_complete();
            publish(publisher, queue, ring, api, Some(interceptor));
        });
    }
    ring.has_unpublished()
}

/// The hooks are about to go: producers go on with the runtime's own index.
pub fn leave(queue: &'static Queue) {
    let (Some(ring), Some(api)) = (&queue.ring, calls::get()) else { return };
    queue.publisher.work(|publisher| publish(publisher, queue, ring, api, interceptor::current()));
    ring.bypassed.store(true, Ordering::SeqCst);
    ring.leave();
    leave_maps(queue, queue.handle.load(Ordering::Acquire), ring.doorbell);
}

/// Counts what has passed unseen until now on a queue that is watched.
pub(crate) fn count_unseen(interceptor: &'static Interceptor, queue: &'static Queue) {
    let (Some(ring), Some(api)) = (&queue.ring, calls::get()) else { return };
    queue.publisher.work(|_| guard((), || count_written_around(interceptor, queue, ring, api)));
}

/// The same, for the lock's holder: packets behind those that were published, which others have written.
fn count_written_around(interceptor: &Interceptor, queue: &Queue, ring: &Ring, api: &Api) {
    let published = ring.published.load(Ordering::Relaxed);
    // The read index may lag; a producer may ring the doorbell alone.
    let written = ring.real_index(api).max(ring.read_index());
    if written <= published {
        return;
    }
    if !ring.bypassed.load(Ordering::Relaxed) {
        bypass(ring, api, Some(interceptor), queue);
    }
    let counted = ring.counted.swap(written, Ordering::Relaxed);
    interceptor.unseen.written_around(interceptor, written.saturating_sub(counted.max(published)), counted == 0);
}

/// A queue is about to be destroyed: true if this was its last owner. Afterwards nothing of it is touched.
pub fn close(queue: &Queue, handle: *const hsa_queue_t, interceptor: &Interceptor) -> bool {
    let Some(ring) = &queue.ring else { return true };
    if ring.owners.fetch_sub(1, Ordering::AcqRel) != 1 {
        return false;
    }
    leave_maps(queue, handle, ring.doorbell);
    queue.publisher.close(|publisher| {
        if let Some(api) = calls::get() {
            guard((), || count_written_around(interceptor, queue, ring, api));
        }
        interceptor.signals.give_back(&mut publisher.stash);
        ring.leave();
        ring.closed();
    });
    true
}
