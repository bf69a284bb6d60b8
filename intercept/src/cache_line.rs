//! Padding and prefetching: the application's thread need not wait for cache lines that other threads write.

use std::ops::Deref;

/// A value with cache lines to itself: two, since hosts fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct OwnLine<T>(pub T);

impl<T> Deref for OwnLine<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Asks for a cache line that will be written soon. Where there is no memory nothing happens.
#[inline(always)]
pub(crate) fn prefetch_for_write<T>(line: *const T) {
    // The intrinsic's hint for writing is one for reading unless the whole library is compiled for newer processors.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction has no effect but on the cache; a processor without it takes it for no operation.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
