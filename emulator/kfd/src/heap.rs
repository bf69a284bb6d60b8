//! Memory of the driver's own.
//!
//! A driver does not allocate from the heap of the process. A runtime that touches what it has freed would find other
//! bytes there than on hardware: ROCr 6.1, when it shuts down, locks a mutex of an agent that it has destroyed, and waits
//! for ever if a process has written there.

use dlmalloc::GlobalDlmalloc;

#[global_allocator]
static HEAP: GlobalDlmalloc = GlobalDlmalloc;

// SAFETY: the loader calls what this section holds once, before the program begins.
#[unsafe(link_section = ".init_array")]
#[used]
static INIT: extern "C" fn() = survive_forks;

/// Another thread may hold the heap's lock while the process forks; the child still opens files.
extern "C" fn survive_forks() {
    // SAFETY: no other thread uses the heap yet, for the program has not begun.
    unsafe { dlmalloc::enable_alloc_after_fork() };
}
