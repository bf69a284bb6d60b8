//! The hooks: functions that replace entries of the runtime's tables.
//!
//! A hook calls the original function exactly once, even if our own code panics, and informs the session before or after the call. To
//! add a hook, write a function in the file of its subject, and a line in one of the tables below.

mod copy;
mod executable;
mod image;
mod index;
mod later;
mod memory;
mod queue;
pub(crate) mod runtime;
mod signal;

use std::mem::offset_of;
use std::sync::Mutex;

use hsa::{Api, LiveTable, Slot};
use hsa_sys::raw::{AmdExtTable, CoreApiTable, ImageExtTable};
use logdur_intercept::library;
use logdur_system::lock;
use logdur_system::text::one_line;

/// A hook: where its entry is, and the function's address.
struct Hook {
    name: &'static str,
    slot: for<'a> fn(&'a LiveTable) -> Option<Slot<'a>>,
    ours: usize,
    original: fn(&Api) -> usize,
}

/// Makes a list of hooks. That a function has its entry's type is checked by putting it into a table.
macro_rules! hooks {
    ($list:ident: $( $table:ident.$entry:ident => $hook:path; )*) => {
        fn $list() -> Vec<Hook> {
            vec![$( Hook {
                name: stringify!($entry),
                slot: |live| hooks!(@at live $table $entry),
                ours: {
                    let typed = hooks!(@with $table $entry $hook);
                    typed.$entry.map_or(0, |f| f as usize)
                },
                original: |api| api.$table.$entry.map_or(0, |f| f as usize),
            }, )*]
        }
    };
    (@at $live:ident core $entry:ident) => { $live.core_at(offset_of!(CoreApiTable, $entry)) };
    (@at $live:ident image $entry:ident) => { $live.image_at(offset_of!(ImageExtTable, $entry)) };
    (@at $live:ident amd $entry:ident) => { $live.amd_at(offset_of!(AmdExtTable, $entry)) };
    (@with core $entry:ident $hook:path) => { CoreApiTable { $entry: Some($hook), ..Default::default() } };
    (@with image $entry:ident $hook:path) => { ImageExtTable { $entry: Some($hook), ..Default::default() } };
    (@with amd $entry:ident $hook:path) => { AmdExtTable { $entry: Some($hook), ..Default::default() } };
}

// Always there.
hooks! { watching:
    core.hsa_init_fn => runtime::init;
    core.hsa_shut_down_fn => runtime::shut_down;
    core.hsa_queue_create_fn => queue::create;
    core.hsa_queue_destroy_fn => queue::destroy;
    amd.hsa_amd_queue_intercept_create_fn => queue::intercept_create;
    amd.hsa_amd_profiling_set_profiler_enabled_fn => queue::set_profiler_enabled;
    core.hsa_executable_load_agent_code_object_fn => executable::load_agent_code_object;
    core.hsa_executable_load_program_code_object_fn => executable::load_program_code_object;
    core.hsa_executable_load_code_object_fn => executable::load_code_object;
    core.hsa_executable_freeze_fn => executable::freeze;
    core.hsa_executable_destroy_fn => executable::destroy;
    core.hsa_queue_load_write_index_relaxed_fn => index::load_relaxed;
    core.hsa_queue_load_write_index_scacquire_fn => index::load_scacquire;
    core.hsa_queue_store_write_index_relaxed_fn => index::store_relaxed;
    core.hsa_queue_store_write_index_screlease_fn => index::store_screlease;
    core.hsa_queue_cas_write_index_relaxed_fn => index::cas_relaxed;
    core.hsa_queue_cas_write_index_scacquire_fn => index::cas_scacquire;
    core.hsa_queue_cas_write_index_screlease_fn => index::cas_screlease;
    core.hsa_queue_cas_write_index_scacq_screl_fn => index::cas_scacq_screl;
    core.hsa_queue_add_write_index_relaxed_fn => index::add_relaxed;
    core.hsa_queue_add_write_index_scacquire_fn => index::add_scacquire;
    core.hsa_queue_add_write_index_screlease_fn => index::add_screlease;
    core.hsa_queue_add_write_index_scacq_screl_fn => index::add_scacq_screl;
    core.hsa_signal_store_relaxed_fn => signal::store_relaxed;
    core.hsa_signal_store_screlease_fn => signal::store_screlease;
    core.hsa_signal_silent_store_relaxed_fn => signal::silent_store_relaxed;
    core.hsa_signal_silent_store_screlease_fn => signal::silent_store_screlease;
    core.hsa_signal_destroy_fn => signal::destroy;
    amd.hsa_amd_ipc_signal_create_fn => signal::ipc_create;
    amd.hsa_amd_ipc_signal_attach_fn => signal::ipc_attach;
    amd.hsa_amd_profiling_async_copy_enable_fn => copy::profiling_async_copy_enable;
    amd.hsa_amd_memory_async_copy_fn => copy::memory_async_copy;
    amd.hsa_amd_memory_async_copy_on_engine_fn => copy::memory_async_copy_on_engine;
    amd.hsa_amd_memory_async_copy_rect_fn => copy::memory_async_copy_rect;
}

// Only where dispatches are captured.
hooks! { of_memory:
    amd.hsa_amd_memory_pool_allocate_fn => memory::pool_allocate;
    amd.hsa_amd_memory_pool_free_fn => memory::pool_free;
    core.hsa_memory_copy_fn => copy::memory_copy;
    amd.hsa_amd_memory_fill_fn => copy::memory_fill;
    core.hsa_memory_allocate_fn => memory::allocate;
    core.hsa_memory_free_fn => memory::free;
    amd.hsa_amd_agents_allow_access_fn => memory::agents_allow_access;
    amd.hsa_amd_vmem_set_access_fn => memory::vmem_set_access;
    amd.hsa_amd_memory_lock_fn => memory::lock;
    amd.hsa_amd_memory_lock_to_pool_fn => memory::lock_to_pool;
    amd.hsa_amd_memory_unlock_fn => memory::unlock;
    amd.hsa_amd_svm_attributes_set_fn => memory::svm_attributes_set;
    amd.hsa_amd_ipc_memory_attach_fn => memory::ipc_attach;
    amd.hsa_amd_ipc_memory_detach_fn => memory::ipc_detach;
    amd.hsa_amd_vmem_handle_create_fn => memory::vmem_handle_create;
    amd.hsa_amd_vmem_import_shareable_handle_fn => memory::vmem_import_shareable_handle;
    amd.hsa_amd_vmem_retain_alloc_handle_fn => memory::vmem_retain_alloc_handle;
    amd.hsa_amd_interop_map_buffer_fn => memory::interop_map_buffer;
    amd.hsa_amd_interop_unmap_buffer_fn => memory::interop_unmap_buffer;
    amd.hsa_amd_vmem_map_fn => memory::vmem_map;
    amd.hsa_amd_vmem_unmap_fn => memory::vmem_unmap;
    amd.hsa_amd_ipc_memory_create_fn => memory::ipc_create;
    amd.hsa_amd_portable_export_dmabuf_fn => memory::export_dmabuf;
    amd.hsa_amd_portable_export_dmabuf_v2_fn => memory::export_dmabuf_v2;
    image.hsa_ext_image_import_fn => image::import;
    image.hsa_ext_image_export_fn => image::export;
    image.hsa_ext_image_copy_fn => image::copy;
    image.hsa_ext_image_clear_fn => image::clear;
    core.hsa_signal_create_fn => memory::signal_create;
    amd.hsa_amd_signal_create_fn => memory::amd_signal_create;
}

/// The tables in which hooks are installed, and the path of their runtime.
static LIVE: Mutex<Option<(LiveTable, String)>> = Mutex::new(None);

/// True when the hooks are in these tables already.
pub(crate) fn installed(live: &LiveTable) -> bool {
    lock(&LIVE).as_ref().is_some_and(|(ours, _)| ours.is_same(live))
        || watching().iter().any(|hook| (hook.slot)(live).is_some_and(|slot| slot.load() == hook.ours))
}

/// The library whose tables have the hooks.
pub(crate) fn watched_library() -> String {
    lock(&LIVE).as_ref().map_or_else(String::new, |(_, library)| library.clone())
}

/// The library that a runtime's table is of.
pub(crate) fn library_of(live: &LiveTable) -> String {
    let function = live.core_at(offset_of!(CoreApiTable, hsa_init_fn)).map_or(0, |slot| slot.load());
    let path = library::path_of(function);
    path.map_or_else(|| "a library without a name".to_owned(), |path| one_line(&String::from_utf8_lossy(path)))
}

/// Installs the hooks, those of memory if dispatches are captured; entries that this runtime lacks are left out.
pub(crate) fn install(live: &LiveTable, captures: bool) {
    let library = library_of(live);
    let memory = captures.then(of_memory).into_iter().flatten();
    for hook in watching().into_iter().chain(memory) {
        let Some(slot) = (hook.slot)(live).filter(|slot| slot.load() != 0) else {
            ::log::debug!("this runtime has no {}", hook.name);
            continue;
        };
        // SAFETY: the function has the entry's type (checked in the table of hooks), and the library is never unloaded.
        unsafe { slot.store(hook.ours) };
    }
    later::install(live);
    *lock(&LIVE) = Some((*live, library));
}

/// Removes each hook, unless another tool has replaced it since.
pub(crate) fn restore(api: &Api) {
    let Some((live, _)) = lock(&LIVE).take() else { return };
    for hook in watching().into_iter().chain(of_memory()) {
        if let Some(slot) = (hook.slot)(&live) {
            // SAFETY: the original was in this entry when the library was loaded.
            unsafe { slot.restore(hook.ours, (hook.original)(api)) };
        }
    }
    later::restore(&live);
}

/// Calls the function that was in an entry before: `original!(core.hsa_x_fn(a, b))`, with the caller's arguments. If
/// there was none the hook would not have been installed; the status then says that the runtime is not started, or the
/// value after `else` is returned.
macro_rules! original {
    ($table:ident.$entry:ident($($argument:expr),* $(,)?)) => {
        original!($table.$entry($($argument),*) else hsa_sys::raw::HSA_STATUS_ERROR_NOT_INITIALIZED)
    };
    ($table:ident.$entry:ident($($argument:expr),* $(,)?) else $absent:expr) => {
        match logdur_intercept::calls::get().and_then(|api| api.$table.$entry) {
            // SAFETY: the arguments are the caller's own, passed on.
            Some(original) => unsafe { original($($argument),*) },
            None => $absent,
        }
    };
}
use original;
