//! What the application's thread does not have to wait for: cache lines that other threads write.

use std::ops::Deref;

/// A value with cache lines to itself: two, since hosts fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct OwnLine<T>(pub(crate) T);

impl<T> Deref for OwnLine<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Asks for a cache line that will be written soon. Where there is no memory nothing happens.
#[inline(always)]
pub(crate) fn prefetch_for_write<T>(line: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch has no effect but on the cache; every x86-64 processor takes the hint or ignores it.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
