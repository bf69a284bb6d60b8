//! The functions that are replaced: the C library's that open, examine and control files by path or descriptor, and the HSA
//! runtime's that wait (`wait`).
//!
//! `dup`, `close`, `fcntl` and the like are not: devices are real files. `mmap` is, for memory of another process only. Everything that is not about an
//! emulated device goes to the next definition of the function, another preloaded library's or the C library's own.

pub mod files;
pub mod map;
mod next;
pub mod stat;
pub mod wait;

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
