//! The functions that are replaced: the C library's that open, examine and control files by path or descriptor, and the HSA
//! runtime's that wait (`wait`).
//!
//! `dup`, `close`, `fcntl` and the like are not: devices are real files. `mmap` is, for memory of another process only, and
//! `dlopen` for libraries that would not find these functions. Everything that is not about an
//! emulated device goes to the next definition of the function, another preloaded library's or the C library's own.

pub mod asan;
#[cfg(target_arch = "x86_64")]
mod bind;
pub mod files;
#[cfg(target_arch = "x86_64")]
pub mod load;
pub mod map;
mod next;
pub mod stat;
pub mod wait;

// SAFETY: the loader calls what this section holds once, before the program begins.
#[unsafe(link_section = ".init_array")]
#[used]
static INIT: extern "C" fn() = prepare;

/// Looks up what cannot be looked up when it is called.
extern "C" fn prepare() {
    map::prepare();
    #[cfg(target_arch = "x86_64")]
    load::prepare();
}

/// Sets the C library's error number.
fn set_errno(error: i32) {
    // SAFETY: always gives the place of this thread's error number.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: only this thread uses its error number.
    unsafe { *place = error };
}

/// Runs code that must not let a panic reach C; a panic gives `fallback`.
fn guard<T>(fallback: T, f: impl FnOnce() -> T) -> T {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(fallback)
}
