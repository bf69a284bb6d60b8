//! Memory of the library's own.
//!
//! A guest does not allocate from the application's heap: an application may damage that when it ends, or count what is taken from it.
//! What C functions of the system allocate for the library is not covered: at the end of the process none is called that does. But if a
//! thread ends the process that has never run code of the library, the dynamic linker takes its thread-local storage from there.

/// AddressSanitizer sees only what its own allocator gives.
#[cfg(not(heap_of_the_process))]
#[global_allocator]
static HEAP: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

// SAFETY: the loader calls what this section holds once, before other code of the library runs.
#[cfg(not(heap_of_the_process))]
#[unsafe(link_section = ".init_array")]
#[used]
static INIT: extern "C" fn() = survive_forks;

/// Another thread may hold the heap's lock while the process forks; the child may start a runtime of its own.
#[cfg(not(heap_of_the_process))]
extern "C" fn survive_forks() {
    // SAFETY: nothing has been allocated, for no other code of the library has run.
    unsafe { dlmalloc::enable_alloc_after_fork() };
}
