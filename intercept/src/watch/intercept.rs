//! The way through the runtime's own intercept queue (`hsa_amd_queue_intercept_*`).
//!
//! # Threads
//! The runtime calls the handler on the thread that rings the doorbell, one at a time for each queue.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering;

use hsa::{Api, HsaError};
use hsa_sys::abi::aql::{Packet, Slot};
use hsa_sys::raw::{self, hsa_amd_queue_intercept_packet_writer, hsa_queue_t, hsa_status_t};

use super::Request;
use crate::guard::guard;
use crate::interceptor::{self, Interceptor};
use crate::queue::{Asker, Queue};

/// Packets that are handled at once: room on the stack of the application's thread.
const CHUNK: usize = 16;

/// What the error callback needs, for as long as the process lives: the runtime may call it at any time.
struct Errors {
    callback: unsafe extern "C" fn(hsa_status_t, *mut hsa_queue_t, *mut c_void),
    data: *mut c_void,
    queue: &'static Queue,
}

/// Creates a queue whose packets pass through [`handle_packets`].
///
/// # Errors
/// What the runtime says of the queue.
///
/// # Safety
/// The request must be that of a caller of `hsa_queue_create`.
pub(crate) unsafe fn create(
    interceptor: &'static Interceptor,
    api: &Api,
    agent: usize,
    request: Request,
) -> Result<*mut hsa_queue_t, HsaError> {
    let no_memory = || HsaError::Status {
        call: "hsa_amd_queue_intercept_create_fn",
        status: raw::HSA_STATUS_ERROR_OUT_OF_RESOURCES.0,
    };
    let queue = interceptor.queues.enter(&interceptor.blocks, agent, None).ok_or_else(no_memory)?;
    // The runtime reports errors for the queue below the one that the application has.
    let errors = request.callback.map(|callback| Box::leak(Box::new(Errors { callback, data: request.data, queue })));
    let (callback, data): (hsa::QueueErrorCallback, *mut c_void) = match errors {
        Some(errors) => (Some(report), ptr::from_mut(errors).cast()),
        None => (None, request.data),
    };
    let Request { agent, size, kind, private_segment_size, group_segment_size, .. } = request;
    // SAFETY: the arguments are the caller's but for the callback, whose data is leaked.
    let made = unsafe {
        api.intercept_queue(agent.handle, size, kind, callback, data, private_segment_size, group_segment_size)
    };
    let handle = made.inspect_err(|_| interceptor.queues.remove(queue))?;
    // SAFETY: the queue was just created; no other thread knows it yet.
    let id = unsafe { (*handle).id };
    queue.numbered(id);
    queue.handle.store(handle, Ordering::Release);
    let data = ptr::from_ref(queue).cast_mut().cast();
    // SAFETY: the queue comes from `intercept_queue`, and `data` is what `handle` expects, leaked.
    let registered = unsafe { api.register_intercept(handle, Some(handle_packets), data) };
    // SAFETY: the queue is alive.
    let profiled = registered.and_then(|()| unsafe { api.enable_profiling(handle) });
    if let Err(error) = profiled {
        interceptor.queues.remove(queue);
        // SAFETY: no other thread has seen the queue.
        unsafe { api.destroy_queue(handle) }?;
        return Err(error);
    }
    if let Some(feature) = interceptor.ports.hold {
        feature.cannot_hold(interceptor, id);
    }
    if interceptor.ports.sites.is_some() {
        interceptor.notice_once("no-sites", "dispatches on intercept queues have no call sites");
    }
    Ok(handle)
}

/// Passes an error on to the application, for the queue that it knows.
unsafe extern "C" fn report(status: hsa_status_t, _below: *mut hsa_queue_t, data: *mut c_void) {
    // SAFETY: `data` is the leaked `Errors` of `create`.
    let errors = unsafe { &*data.cast::<Errors>() };
    let queue = errors.queue.handle.load(Ordering::Acquire);
    // SAFETY: the application's callback with the application's data.
    unsafe { (errors.callback)(status, queue, errors.data) };
}

/// The runtime's handler of packets: writes as many packets as it is given, in one call of the writer for each chunk.
unsafe extern "C" fn handle_packets(
    packets: *const c_void,
    count: u64,
    _first: u64,
    data: *mut c_void,
    writer: hsa_amd_queue_intercept_packet_writer,
) {
    let Some(writer) = writer else { return };
    // SAFETY: `data` is the leaked queue of `create`.
    let queue = unsafe { &*data.cast::<Queue>() };
    let packets = packets.cast::<Slot>();
    let mut done = 0;
    while done < count as usize {
        let mut chunk = [const { Slot::new(Packet::INVALID) }; CHUNK];
        let length = CHUNK.min(count as usize - done);
        // SAFETY: the runtime passes `count` packets of 64 bytes, and `done` is less.
        let from = unsafe { packets.add(done) };
        // SAFETY: `length` packets are left there, which the runtime does not change during the call, and fit the chunk.
        unsafe { ptr::copy_nonoverlapping(from, chunk.as_mut_ptr(), length) };
        let is_dispatch = |slot: &&Slot| slot.is_dispatch(slot.load_header());
        let dispatches = chunk[..length].iter().filter(is_dispatch).count() as u64;
        if let Some(interceptor) = interceptor::current() {
            // The runtime may pass packets of several threads, on one of its own if the queue was full.
            let mut slots = Some(chunk[..length].iter().map(|slot| (slot, Asker::default())));
            queue.publisher.work(|publisher| {
                if let Some(slots) = slots.take() {
                    guard((), || publisher.observe(interceptor, queue, dispatches, &mut None, slots));
                }
            });
        }
        // SAFETY: the writer takes `length` packets and copies them.
        unsafe { writer(chunk.as_ptr().cast(), length as u64) };
        done += length;
    }
    guard((), || {
        if let Some(interceptor) = interceptor::current() {
            interceptor.reaper.wake();
        }
    });
}
