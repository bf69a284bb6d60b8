//! Copies, also from files. A kernel of the runtime may do a copy, and then overwrites the times in the completion signal. So the times of
//! a dispatch that completed on that signal are read first. No copy begins while memory is captured.

use std::ffi::c_void;
use std::mem::offset_of;

use hsa_sys::raw::{
    HSA_AMD_SDMA_ENGINE_0, HSA_AMD_SDMA_ENGINE_1, HSA_STATUS_ERROR_NOT_INITIALIZED, HSA_STATUS_SUCCESS, hsa_agent_t,
    hsa_amd_copy_direction_t, hsa_amd_sdma_engine_id_t, hsa_dim3_t, hsa_pitched_ptr_t, hsa_signal_t, hsa_status_t,
    hsaDeviceToHost, hsaHostToDevice, hsaHostToHost,
};
use logdur_intercept::{Interceptor, guard};

use super::{later, original};
use crate::capture::{AsyncCopy, Content, Destination, Engine, Giving, Inside, Moved, Path, copied_by_a_kernel};
use crate::copies::Started;
use crate::session;

/// The arguments of one call that starts copies.
struct Asked {
    /// How many signals must reach 0 before the copy begins.
    count: u32,
    dependency: *const hsa_signal_t,
    /// Of a copy of rows: how many bytes of a GPU it brings to the host.
    rows_to_host: u64,
}

impl Asked {
    /// A copy is about to be asked for, by a call that lasts until the result is dropped.
    ///
    /// # Safety
    /// As for [`all_before`](Asked::all_before).
    unsafe fn before(
        &self,
        completion: hsa_signal_t,
        destination: Destination,
        engine: impl Fn(&Interceptor) -> Option<Engine>,
    ) -> Option<Giving<'static>> {
        // SAFETY: the caller's promise.
        unsafe { self.all_before(|interceptor| vec![(completion, destination, engine(interceptor))]) }
    }

    /// Copies are about to be asked for: their completion signals, what they write, and their engines.
    ///
    /// # Safety
    /// The application's promise: so many signals are there.
    unsafe fn all_before(
        &self,
        copies: impl Fn(&Interceptor) -> Vec<(hsa_signal_t, Destination, Option<Engine>)>,
    ) -> Option<Giving<'static>> {
        guard(None, || {
            let session = session::current()?;
            let mut copies = copies(&session.interceptor);
            if let Some(capture) = session.capture.as_ref().filter(|_| copies.iter().any(|(c, ..)| c.handle == 0)) {
                capture.copies.never_end();
            }
            copies.retain(|(completion, ..)| completion.handle != 0);
            for (completion, ..) in &copies {
                session.interceptor.signal_reused(completion.handle);
            }
            let capture = session.capture.as_ref().filter(|_| !copies.is_empty())?;
            let count = if self.dependency.is_null() { 0 } else { self.count as usize };
            // SAFETY: the caller's promise.
            let dependencies = (0..count).map(|n| unsafe { self.dependency.wrapping_add(n).read() }.handle);
            let dependencies: Vec<u64> = dependencies.filter(|&handle| handle != 0).collect();
            let copy = |(completion, destination, engine): (hsa_signal_t, Destination, _)| AsyncCopy {
                to_host: self.rows_to_host.max(capture.brings(&destination)),
                destination,
                completion: completion.handle,
                dependencies: dependencies.clone(),
                engine,
            };
            Some(capture.copies.start(copies.into_iter().map(copy).collect()))
        })
    }
}

/// Calls the runtime for copies that have rows, if copies do.
fn with_rows(copies: impl IntoIterator<Item = Started>, call: impl FnOnce() -> hsa_status_t) -> hsa_status_t {
    let started = guard(Vec::new(), || {
        let Some((session, rows)) = session::current().and_then(|session| Some((session, session.copies?))) else {
            return Vec::new();
        };
        if session.interceptor.is_outside() {
            return Vec::new();
        }
        let started: Vec<Started> = copies.into_iter().filter(|copy| copy.signal != 0).collect();
        started.iter().for_each(|copy| rows.starts(&session.interceptor, copy));
        started
    });
    let status = call();
    guard((), || {
        let Some(session) = session::current().filter(|_| !started.is_empty()) else { return };
        if let Some(rows) = &session.copies {
            match status {
                // The log thread checks them until they are complete.
                HSA_STATUS_SUCCESS => session.log.wake(),
                _ => rows.refused(&started),
            }
        }
    });
    status
}

/// An operation of `hsa_amd_memory_async_batch_copy`. Source of the layout: `hsa_amd_memory_copy_op_t` in `hsa_ext_amd.h` of
/// rocm-systems (2026).
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct CopyOperation {
    version: u16,
    /// 0 for one copy of one range.
    kind: u16,
    /// How many entries the lists have that stand in the place of values; 0 if there are none.
    entries: u16,
    traffic_class: u16,
    completion: hsa_signal_t,
    from: u64,
    from_agent: hsa_agent_t,
    /// Or the address of a list.
    to_agent: hsa_agent_t,
    to: u64,
    size: usize,
    second_size: usize,
    /// What is waited for in memory, and what is written there at the end.
    wait_and_signal: [u64; 7],
    reserved: u64,
}

const _: () = {
    assert!(size_of::<CopyOperation>() == 128);
    assert!(offset_of!(CopyOperation, completion) == 8 && offset_of!(CopyOperation, size) == 48);
};

impl CopyOperation {
    /// The copy, if the operation is one of one range.
    fn started(&self) -> Option<Started> {
        let agents = [self.from_agent.handle, self.to_agent.handle];
        let is_one = self.kind == 0 && self.entries == 0;
        is_one.then_some(Started { signal: self.completion.handle, agents, bytes: self.size as u64 })
    }

    fn destination(&self) -> Destination {
        let is_one = self.kind == 0 && self.entries == 0;
        let (to, bytes, content) = (self.to, self.size as u64, Content::From(self.from));
        if is_one { Destination::Moved(Moved { to, bytes, content }) } else { Destination::Unknown }
    }

    /// The engine that the runtime chooses, if the operation is one copy of one range.
    fn engine(&self, interceptor: &Interceptor) -> Option<Engine> {
        let is_one = self.kind == 0 && self.entries == 0;
        is_one.then(|| by_agents(interceptor, self.to_agent, self.from_agent, self.size))?
    }
}

/// The engine that the runtime chooses by the agents of the two sides.
fn by_agents(interceptor: &Interceptor, to: hsa_agent_t, from: hsa_agent_t, size: usize) -> Option<Engine> {
    let is_gpu = |agent: &hsa_agent_t| interceptor.agent_position(agent.handle).is_some();
    let (gpu, path) = match (is_gpu(&to), is_gpu(&from)) {
        (true, true) if to.handle == from.handle && copied_by_a_kernel(size) => (to, Path::Within),
        (true, true) if to.handle == from.handle => (to, Path::ToHost),
        // Between GPUs there are others.
        (true, true) | (false, false) => return None,
        (true, false) => (to, Path::ToGpu),
        (false, true) => (from, Path::ToHost),
    };
    Some(Engine::of(gpu.handle, path))
}

/// Says that this thread copies until it is dropped.
pub(super) fn copying(destination: Destination) -> Option<Inside<'static>> {
    guard(None, || {
        let capture = session::current()?.capture?;
        Some(capture.copies.inside(destination, capture.brings(&destination)))
    })
}

/// So many bytes from one address to another.
fn copied<T, F>(to: *const T, from: *const F, bytes: usize) -> Destination {
    let content = Content::From(from.addr() as u64);
    Destination::Moved(Moved { to: to.addr() as u64, bytes: bytes as u64, content })
}

pub(super) unsafe extern "C" fn memory_copy(to: *mut c_void, from: *const c_void, size: usize) -> hsa_status_t {
    let _copying = copying(copied(to, from, size));
    original!(core.hsa_memory_copy_fn(to, from, size))
}

pub(super) unsafe extern "C" fn memory_fill(to: *mut c_void, value: u32, count: usize) -> hsa_status_t {
    let bytes = count.saturating_mul(size_of::<u32>()) as u64;
    let moved = Moved { to: to.addr() as u64, bytes, content: Content::Word(value) };
    let _copying = copying(Destination::Moved(moved));
    original!(amd.hsa_amd_memory_fill_fn(to, value, count))
}

/// Copies that have rows need the runtime to take their times.
pub(super) unsafe extern "C" fn profiling_async_copy_enable(enable: bool) -> hsa_status_t {
    let wanted = guard(false, || session::current().is_some_and(|session| session.copies.is_some()));
    original!(amd.hsa_amd_profiling_async_copy_enable_fn(enable || wanted))
}

pub(super) unsafe extern "C" fn memory_async_copy(
    to: *mut c_void,
    to_agent: hsa_agent_t,
    from: *const c_void,
    from_agent: hsa_agent_t,
    size: usize,
    dependencies: u32,
    dependency: *const hsa_signal_t,
    completion: hsa_signal_t,
) -> hsa_status_t {
    let asked = Asked { count: dependencies, dependency, rows_to_host: 0 };
    // SAFETY: the application's promise to the runtime.
    let _giving = unsafe {
        asked.before(completion, copied(to, from, size), |interceptor| {
            by_agents(interceptor, to_agent, from_agent, size)
        })
    };
    let agents = [from_agent.handle, to_agent.handle];
    with_rows([Started { signal: completion.handle, agents, bytes: size as u64 }], || {
        original!(amd.hsa_amd_memory_async_copy_fn(
            to,
            to_agent,
            from,
            from_agent,
            size,
            dependencies,
            dependency,
            completion
        ))
    })
}

pub(super) unsafe extern "C" fn memory_async_copy_on_engine(
    to: *mut c_void,
    to_agent: hsa_agent_t,
    from: *const c_void,
    from_agent: hsa_agent_t,
    size: usize,
    dependencies: u32,
    dependency: *const hsa_signal_t,
    completion: hsa_signal_t,
    engine: hsa_amd_sdma_engine_id_t,
    force: bool,
) -> hsa_status_t {
    let asked = Asked { count: dependencies, dependency, rows_to_host: 0 };
    // SAFETY: the application's promise to the runtime.
    let _giving = unsafe {
        asked.before(completion, copied(to, from, size), |interceptor| {
            let gpu = by_agents(interceptor, to_agent, from_agent, size)?.gpu;
            // As the runtime numbers them.
            let path = match engine {
                HSA_AMD_SDMA_ENGINE_0 => Path::ToGpu,
                HSA_AMD_SDMA_ENGINE_1 => Path::ToHost,
                other => Path::Sdma(other.0),
            };
            Some(Engine::of(gpu, path))
        })
    };
    let agents = [from_agent.handle, to_agent.handle];
    with_rows([Started { signal: completion.handle, agents, bytes: size as u64 }], || {
        original!(amd.hsa_amd_memory_async_copy_on_engine_fn(
            to,
            to_agent,
            from,
            from_agent,
            size,
            dependencies,
            dependency,
            completion,
            engine,
            force
        ))
    })
}

pub(super) unsafe extern "C" fn memory_async_copy_rect(
    to: *const hsa_pitched_ptr_t,
    to_offset: *const hsa_dim3_t,
    from: *const hsa_pitched_ptr_t,
    from_offset: *const hsa_dim3_t,
    range: *const hsa_dim3_t,
    agent: hsa_agent_t,
    direction: hsa_amd_copy_direction_t,
    dependencies: u32,
    dependency: *const hsa_signal_t,
    completion: hsa_signal_t,
) -> hsa_status_t {
    let path = if direction == hsaHostToDevice { Path::ToGpu } else { Path::ToHost };
    let engine = Engine::of(agent.handle, path);
    // SAFETY: the application's promise to the runtime.
    let range_copied = unsafe { range.as_ref() };
    let bytes = range_copied.map_or(0, |range| [range.x, range.y, range.z].map(u64::from).iter().product());
    let rows_to_host = if direction == hsaDeviceToHost { bytes } else { 0 };
    let asked = Asked { count: dependencies, dependency, rows_to_host };
    // SAFETY: as above.
    let to_copied = unsafe { to.as_ref() };
    // SAFETY: as above.
    let offset_copied = unsafe { to_offset.as_ref() };
    let destination = rows_of(to_copied, offset_copied, range_copied);
    // SAFETY: as above.
    let _giving = unsafe { asked.before(completion, destination, |_| Some(engine)) };
    // The agent is the GPU that copies; the direction says which side it is.
    let agents = match direction {
        direction if direction == hsaHostToDevice => [0, agent.handle],
        direction if direction == hsaDeviceToHost => [agent.handle, 0],
        direction if direction == hsaHostToHost => [0, 0],
        _ => [agent.handle; 2],
    };
    with_rows([Started { signal: completion.handle, agents, bytes }], || {
        original!(amd.hsa_amd_memory_async_copy_rect_fn(
            to,
            to_offset,
            from,
            from_offset,
            range,
            agent,
            direction,
            dependencies,
            dependency,
            completion
        ))
    })
}

/// From the first byte of a copy of rows to its last one.
fn rows_of(to: Option<&hsa_pitched_ptr_t>, offset: Option<&hsa_dim3_t>, range: Option<&hsa_dim3_t>) -> Destination {
    let (Some(to), Some(offset), Some(range)) = (to, offset, range) else { return Destination::Unknown };
    let at = |x: u32, y: u32, z: u32| {
        let (row, slice) = (to.pitch as u64 * u64::from(y), to.slice as u64 * u64::from(z));
        to.base.addr() as u64 + u64::from(x) + row + slice
    };
    let first = at(offset.x, offset.y, offset.z);
    let most = |size: u32| size.checked_sub(1);
    let (Some(x), Some(y), Some(z)) = (most(range.x), most(range.y), most(range.z)) else {
        return Destination::Range(first, 0);
    };
    let last = at(offset.x.saturating_add(x), offset.y.saturating_add(y), offset.z.saturating_add(z));
    Destination::Range(first, (last - first).saturating_add(1))
}

pub(super) unsafe extern "C" fn memory_async_batch_copy(
    operations: *const CopyOperation,
    count: u32,
    dependencies: u32,
    dependency: *const hsa_signal_t,
) -> hsa_status_t {
    let asked = Asked { count: dependencies, dependency, rows_to_host: 0 };
    let listed = if operations.is_null() { 0 } else { count as usize };
    let each = |interceptor: &Interceptor| {
        // SAFETY: the application's promise to the runtime.
        let operations = (0..listed).map(|n| unsafe { operations.wrapping_add(n).read() });
        let parts = |of: CopyOperation| (of.completion, of.destination(), of.engine(interceptor));
        operations.map(parts).collect()
    };
    // SAFETY: the application's promise to the runtime.
    let _giving = unsafe { asked.all_before(each) };
    type Original = unsafe extern "C" fn(*const CopyOperation, u32, u32, *const hsa_signal_t) -> hsa_status_t;
    let Some(original) = later::BATCH_COPY.original() else { return HSA_STATUS_ERROR_NOT_INITIALIZED };
    // SAFETY: it is the function of the entry for which `Original` is the type.
    let original = unsafe { std::mem::transmute::<*const (), Original>(original) };
    // SAFETY: the application's promise to the runtime.
    let operations_asked = (0..listed).map(|n| unsafe { operations.wrapping_add(n).read() });
    with_rows(operations_asked.filter_map(|operation| operation.started()), || {
        // SAFETY: the arguments are the caller's own, passed on.
        unsafe { original(operations, count, dependencies, dependency) }
    })
}

/// `hsa_amd_ais_file_read`: copies from a file into memory, and returns when that is done. The file is a union of 8 bytes.
type FileRead = unsafe extern "C" fn(u64, *mut c_void, u64, i64, *mut u64, *mut i32) -> hsa_status_t;

pub(super) unsafe extern "C" fn file_read(
    file: u64,
    memory: *mut c_void,
    size: u64,
    offset: i64,
    copied: *mut u64,
    result: *mut i32,
) -> hsa_status_t {
    let _copying = copying(Destination::Range(memory.addr() as u64, size));
    let Some(original) = later::FILE_READ.original() else { return HSA_STATUS_ERROR_NOT_INITIALIZED };
    // SAFETY: it is the function of the entry for which `FileRead` is the type.
    let original = unsafe { std::mem::transmute::<*const (), FileRead>(original) };
    // SAFETY: the arguments are the caller's own, passed on.
    unsafe { original(file, memory, size, offset, copied, result) }
}
