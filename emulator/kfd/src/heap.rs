//! Memory of the driver's own.
//!
//! A driver does not allocate from the heap of the process. A runtime that touches what it has freed would find other
//! bytes there than on hardware: ROCr 6.1, when it shuts down, locks a mutex of an agent that it has destroyed, and waits
//! for ever if a process has written there.

use std::alloc::{GlobalAlloc, Layout};

use dlmalloc::GlobalDlmalloc;

use crate::process_log;

/// The heap. That there is no memory left is told: most of who asks for it ends the process.
struct Heap;

#[global_allocator]
static HEAP: Heap = Heap;

fn told(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        process_log::tell_no_memory(bytes);
    }
    memory
}

// SAFETY: all calls are passed on to an allocator.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        told(unsafe { GlobalDlmalloc.alloc(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { GlobalDlmalloc.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        told(unsafe { GlobalDlmalloc.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        told(unsafe { GlobalDlmalloc.realloc(memory, layout, bytes) }, bytes)
    }
}

// SAFETY: the loader calls what this section holds once, before the program begins.
#[unsafe(link_section = ".init_array")]
#[used]
static INIT: extern "C" fn() = survive_forks;

/// Another thread may hold the heap's lock while the process forks; the child still opens files.
extern "C" fn survive_forks() {
    // SAFETY: no other thread uses the heap yet, for the program has not begun.
    unsafe { dlmalloc::enable_alloc_after_fork() };
}
