//! The runtime's own tables, through which every call of an application goes.
//!
//! # Threads
//! The application's threads read an entry at any time; entries are only ever written whole.
//!
//! # Ordering
//! An entry is written with release, so that a caller of the new function sees what was prepared for it.

use std::mem::offset_of;
use std::sync::atomic::{AtomicUsize, Ordering};

use hsa_sys::raw::{AmdExtTable, ApiTableVersion, CoreApiTable, HsaApiTable, ImageExtTable};
use hsa_sys::table::AmdExtLayout;

use crate::Result;
use crate::api::not_null;

/// Bytes of an entry.
pub(crate) const SLOT_SIZE: usize = size_of::<usize>();

/// The live tables of a runtime.
#[derive(Clone, Copy)]
pub struct LiveTable {
    core: *mut CoreApiTable,
    core_size: u32,
    amd: *mut AmdExtTable,
    amd_size: u32,
    /// Null when the runtime has no images.
    image: *mut ImageExtTable,
    image_size: u32,
}

// SAFETY: the tables are static data of the runtime; entries are accessed as atomics only.
unsafe impl Send for LiveTable {}
// SAFETY: as above.
unsafe impl Sync for LiveTable {}

/// One entry of a live table.
#[derive(Clone, Copy)]
pub struct Slot<'a>(&'a AtomicUsize);

impl Slot<'_> {
    /// The function's address that is there now.
    pub fn load(self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// Puts a function's address there.
    ///
    /// # Safety
    /// It must be that of a function of the entry's type which lives as long as the process.
    pub unsafe fn store(self, function: usize) {
        self.0.store(function, Ordering::Release);
    }

    /// Puts `original` back if `ours` is still there; a later tool's function is left alone, since it may call `ours`.
    ///
    /// # Safety
    /// `original` must be the address of a function of the entry's type that may still be called.
    pub unsafe fn restore(self, ours: usize, original: usize) -> bool {
        self.0.compare_exchange(ours, original, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

impl LiveTable {
    /// The tables behind the root table.
    ///
    /// # Errors
    /// When the core or the extension table is null.
    ///
    /// # Safety
    /// `root` must be the table that `OnLoad` was called with.
    pub unsafe fn of(root: *const HsaApiTable) -> Result<LiveTable> {
        let root = not_null(root.cast_mut(), "API table")?;
        // SAFETY: every runtime's root table has this field; the caller promises that it is one.
        let core = unsafe { (*root).core_ };
        // SAFETY: as above.
        let amd = unsafe { (*root).amd_ext_ };
        let (core, amd) = (not_null(core, "core API table")?, not_null(amd, "AMD extension API table")?);
        // SAFETY: every table begins with its version, constant while the runtime is loaded.
        let core_size = unsafe { (*core).version.minor_id };
        // SAFETY: as above.
        let amd_size = unsafe { (*amd).version.minor_id };
        // SAFETY: every runtime's root table has this field.
        let image = unsafe { (*root).image_ext_ };
        // SAFETY: null, or a table that begins with its version, constant while the runtime is loaded.
        let image_size = unsafe { image.as_ref() }.map_or(0, |image| image.version.minor_id);
        Ok(LiveTable { core, core_size, amd, amd_size, image, image_size })
    }

    /// True when both are the tables of one runtime: it has one core table for as long as it is loaded.
    pub fn is_same(&self, other: &LiveTable) -> bool {
        self.core == other.core
    }

    /// Which layout the extension table has.
    pub(crate) fn amd_layout(&self) -> AmdExtLayout {
        AmdExtLayout::of_size(self.amd_size)
    }

    pub(crate) fn core_version(&self) -> ApiTableVersion {
        // SAFETY: the table begins with its version, constant while the runtime is loaded.
        unsafe { (*self.core).version }
    }

    pub(crate) fn amd_version(&self) -> ApiTableVersion {
        // SAFETY: as above.
        unsafe { (*self.amd).version }
    }

    /// The step of the extension table (`step_id`): each one has appended entries.
    pub fn amd_step(&self) -> u32 {
        self.amd_version().step_id
    }

    /// The entry of the core table at an offset of [`CoreApiTable`]; `None` past the runtime's table.
    pub fn core_at(&self, offset: usize) -> Option<Slot<'_>> {
        const FIRST: usize = offset_of!(CoreApiTable, hsa_init_fn);
        let inside =
            offset >= FIRST && offset.is_multiple_of(SLOT_SIZE) && offset + SLOT_SIZE <= self.core_size as usize;
        // SAFETY: the entry is inside the runtime's table by the size that the runtime states, and aligned.
        inside.then(|| unsafe { Slot::at(self.core.cast(), offset) })
    }

    /// The entry of the table of images at an offset of [`ImageExtTable`]; `None` past the runtime's table. Its layout has only been
    /// appended to (`hsa_api_trace.h`).
    pub fn image_at(&self, offset: usize) -> Option<Slot<'_>> {
        const FIRST: usize = offset_of!(ImageExtTable, hsa_ext_image_get_capability_fn);
        let inside =
            offset >= FIRST && offset.is_multiple_of(SLOT_SIZE) && offset + SLOT_SIZE <= self.image_size as usize;
        // SAFETY: the entry is inside the runtime's table by the size that the runtime states, and aligned.
        inside.then(|| unsafe { Slot::at(self.image.cast(), offset) })
    }

    /// The entry of the extension table that [`AmdExtTable`] has at an offset; `None` if this runtime lacks it.
    pub fn amd_at(&self, offset: usize) -> Option<Slot<'_>> {
        const FIRST: usize = offset_of!(AmdExtTable, hsa_amd_coherency_get_type_fn);
        if offset < FIRST || !offset.is_multiple_of(SLOT_SIZE) {
            return None;
        }
        let offset = self.amd_layout().offset(offset, self.amd_size)?;
        // SAFETY: `offset` gives offsets of entries inside a table of that size only.
        Some(unsafe { Slot::at(self.amd.cast(), offset) })
    }
}

impl Slot<'_> {
    /// # Safety
    /// There must be an entry, aligned, at that offset of the table, for as long as the process lives.
    unsafe fn at<'a>(table: *mut u8, offset: usize) -> Slot<'a> {
        // SAFETY: the entry is inside the table, by the caller's promise.
        let entry = unsafe { table.add(offset) };
        // SAFETY: it is aligned and there for ever, by the caller's promise; entries are accessed as atomics only.
        Slot(unsafe { AtomicUsize::from_ptr(entry.cast()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Api;

    /// A table as a runtime of some version has it: `size` bytes, entry at offset n = n, and poison after its end.
    fn table(size: u32) -> Vec<usize> {
        let mut words: Vec<usize> = (0..200).map(|i| i * 8).collect();
        let version = ApiTableVersion { major_id: 1, minor_id: size, step_id: 0, reserved: 0 };
        // SAFETY: the vector begins with room for a version, suitably aligned.
        unsafe { words.as_mut_ptr().cast::<ApiTableVersion>().write(version) };
        words[size as usize / 8..].fill(usize::MAX);
        words
    }

    #[test]
    fn nothing_past_the_size_that_each_generation_states_is_read_or_hooked() {
        for (size, intercept, reserve, last) in [
            (400, 296, 0, 392),
            (424, 296, 0, 416),
            (456, 312, 0, 448),
            (552, 312, 456, 544),
            (584, 312, 456, 576),
            (608, 312, 456, 600),
            (4096, 312, 456, 0),
        ] {
            let (mut core, mut amd) = (table(1016), table(size.min(1600)));
            amd[0] = (size as usize) << 32 | 1;
            let root = HsaApiTable {
                core_: core.as_mut_ptr().cast(),
                amd_ext_: amd.as_mut_ptr().cast(),
                ..Default::default()
            };
            // SAFETY: the root and its two tables are laid out like a runtime's and outlive the use.
            let live = unsafe { LiveTable::of(&root) }.unwrap();
            let api = Api::copy(&live);
            let found = |f: Option<usize>| f.unwrap_or(0);
            assert_eq!(
                found(api.amd.hsa_amd_queue_intercept_create_fn.map(|f| f as usize)),
                intercept,
                "table of {size} bytes"
            );
            assert_eq!(
                found(api.amd.hsa_amd_vmem_address_reserve_fn.map(|f| f as usize)),
                reserve,
                "table of {size} bytes"
            );
            let highest = (0..1600)
                .step_by(8)
                .filter_map(|at| live.amd_at(at))
                .map(Slot::load)
                .filter(|&f| f != usize::MAX)
                .max();
            assert!(last == 0 || highest == Some(last), "table of {size} bytes: {highest:?}");
            assert_eq!(found(api.core.hsa_queue_create_fn.map(|f| f as usize)), 72);
        }
    }

    #[test]
    fn a_null_table_is_refused_not_followed() {
        let root = HsaApiTable::default();
        // SAFETY: a root table whose sub-tables are null.
        let error = unsafe { LiveTable::of(&root) }.err().map(|e| e.to_string());
        assert_eq!(error.as_deref(), Some("this version of the runtime has no core API table"));
    }

    #[test]
    fn a_later_tools_hook_is_not_overwritten_at_unload() {
        let mut word = 3usize;
        // SAFETY: the word is an aligned entry that outlives the slot.
        let slot = unsafe { Slot::at((&raw mut word).cast(), 0) };
        // SAFETY: nothing calls the entry.
        assert!(!unsafe { slot.restore(1, 2) });
        // SAFETY: as above.
        assert!(unsafe { slot.restore(3, 2) });
        assert_eq!(slot.load(), 2);
    }
}
