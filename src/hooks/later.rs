//! Entries of AMD's extension table that came after the headers of our bindings, by their offset.
//!
//! The table is only ever appended to; its size and its step say which entries a runtime has. Source of the offsets: the order of
//! the entries in `hsa_api_trace.h` of rocm-systems (2026), behind `hsa_amd_portable_export_dmabuf_v2_fn` at 600. The ABI checks of
//! rocprofiler-sdk have the same order up to step 0x0F.
//!
//! Step 0x10 exists twice: with `hsa_amd_queue_create` (as released, and as rocprofiler-sdk takes it), and, on a branch, with
//! `hsa_amd_image_create_v2` in its place. What the runtime exports decides.

use std::ffi::CStr;
use std::mem::offset_of;
use std::sync::atomic::{AtomicUsize, Ordering};

use hsa::LiveTable;
use hsa_sys::raw::CoreApiTable;
use logdur_intercept::library;

use super::{copy, queue, signal};

/// An entry.
pub(super) struct Later {
    offset: usize,
    /// The step of the table since which it is there.
    since: u32,
    /// What the runtime exports if it has the entry, where the step alone does not tell.
    exported: Option<&'static CStr>,
    /// The function that was there; 0 before the hook is installed.
    original: AtomicUsize,
}

/// `hsa_amd_ais_file_read_fn`.
pub(super) static FILE_READ: Later = Later::at(616, 0x08);
/// `hsa_amd_counted_queue_acquire_fn`.
pub(super) static COUNTED_ACQUIRE: Later = Later::at(624, 0x09);
/// `hsa_amd_counted_queue_release_fn`.
pub(super) static COUNTED_RELEASE: Later = Later::at(632, 0x09);
/// `hsa_amd_memory_async_batch_copy_fn`.
pub(super) static BATCH_COPY: Later = Later::at(640, 0x0A);
/// `hsa_amd_signal_get_event_id_fn`, whose step is not known.
pub(super) static EVENT_ID: Later = Later { exported: Some(c"hsa_amd_signal_get_event_id"), ..Later::at(664, 0x0A) };
/// `hsa_amd_queue_create_fn`.
pub(super) static QUEUE_CREATE: Later = Later { exported: Some(c"hsa_amd_queue_create"), ..Later::at(704, 0x10) };

/// The hooks: entries and our functions.
fn hooks() -> [(&'static Later, usize); 6] {
    [
        (&FILE_READ, copy::file_read as *const () as usize),
        (&COUNTED_ACQUIRE, queue::counted_acquire as *const () as usize),
        (&COUNTED_RELEASE, queue::counted_release as *const () as usize),
        (&BATCH_COPY, copy::memory_async_batch_copy as *const () as usize),
        (&EVENT_ID, signal::get_event_id as *const () as usize),
        (&QUEUE_CREATE, queue::create_described as *const () as usize),
    ]
}

impl Later {
    const fn at(offset: usize, since: u32) -> Later {
        Later { offset, since, exported: None, original: AtomicUsize::new(0) }
    }

    /// The function that a runtime has in the entry; `None` if it does not have the entry.
    fn found<'a>(&self, live: &'a LiveTable) -> Option<hsa::Slot<'a>> {
        let slot = live.amd_at(self.offset).filter(|slot| slot.load() != 0 && live.amd_step() >= self.since)?;
        let Some(symbol) = self.exported else { return Some(slot) };
        // Another tool's function may be in either entry.
        let init = live.core_at(offset_of!(CoreApiTable, hsa_init_fn))?;
        [init, slot].iter().any(|slot| library::exports(slot.load(), symbol)).then_some(slot)
    }

    /// The function that was in the entry.
    pub(super) fn original(&self) -> Option<*const ()> {
        let address = self.original.load(Ordering::Acquire);
        (address != 0).then(|| std::ptr::with_exposed_provenance(address))
    }
}

/// Installs the hooks whose entries a runtime has.
pub(super) fn install(live: &LiveTable) {
    for (later, ours) in hooks() {
        let Some(slot) = later.found(live) else { continue };
        later.original.store(slot.load(), Ordering::Release);
        // SAFETY: the function has the entry's type, and the library is never unloaded.
        unsafe { slot.store(ours) };
    }
}

/// Removes each hook, unless another tool has replaced it since.
pub(super) fn restore(live: &LiveTable) {
    for (later, ours) in hooks() {
        if let (Some(slot), Some(original)) = (live.amd_at(later.offset), later.original()) {
            // SAFETY: the original was in this entry when the library was loaded.
            unsafe { slot.restore(ours, original.addr()) };
        }
    }
}
