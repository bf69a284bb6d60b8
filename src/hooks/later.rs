//! Entries of AMD's extension table that came after the headers of our bindings, by their offset.
//!
//! The table is only ever appended to; its size says which entries a runtime has. Source of the offsets: the order of the
//! entries in `hsa_api_trace.h` of rocm-systems (2026), behind `hsa_amd_portable_export_dmabuf_v2_fn` at 600.

use std::sync::atomic::{AtomicUsize, Ordering};

use hsa::LiveTable;

use super::{copy, queue};

/// An entry.
pub(super) struct Later {
    offset: usize,
    /// The function that was there; 0 before the hook is installed.
    original: AtomicUsize,
}

/// `hsa_amd_ais_file_read_fn`, since step 0x08.
pub(super) static FILE_READ: Later = Later::at(616);
/// `hsa_amd_counted_queue_acquire_fn`, since step 0x09.
pub(super) static COUNTED_ACQUIRE: Later = Later::at(624);
/// `hsa_amd_counted_queue_release_fn`, since step 0x09.
pub(super) static COUNTED_RELEASE: Later = Later::at(632);
/// `hsa_amd_memory_async_batch_copy_fn`, since step 0x0A.
pub(super) static BATCH_COPY: Later = Later::at(640);

/// The hooks: entries and our functions.
fn hooks() -> [(&'static Later, usize); 4] {
    [
        (&FILE_READ, copy::file_read as *const () as usize),
        (&COUNTED_ACQUIRE, queue::counted_acquire as *const () as usize),
        (&COUNTED_RELEASE, queue::counted_release as *const () as usize),
        (&BATCH_COPY, copy::memory_async_batch_copy as *const () as usize),
    ]
}

impl Later {
    const fn at(offset: usize) -> Later {
        Later { offset, original: AtomicUsize::new(0) }
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
        let Some(slot) = live.amd_at(later.offset).filter(|slot| slot.load() != 0) else { continue };
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
