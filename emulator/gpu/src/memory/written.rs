//! Which pages of mapped memory are written.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page, as a power of two.
const SHIFT: u32 = 12;

/// A bit for each page of some memory.
///
/// # Ordering
/// Relaxed: what orders the bytes of a page for a reader orders its bit, too.
#[derive(Debug)]
pub(super) struct Written {
    /// The number of the first page.
    first: u64,
    bits: Box<[AtomicU64]>,
}

impl Written {
    /// Of memory, no page of which is written.
    pub(super) fn of(start: u64, bytes: u64) -> Written {
        let first = start >> SHIFT;
        let pages = (start.saturating_add(bytes.saturating_sub(1)) >> SHIFT) - first + 1;
        Written { first, bits: std::iter::repeat_with(AtomicU64::default).take(pages.div_ceil(64) as usize).collect() }
    }

    /// Notes that bytes are written; those elsewhere do not count.
    #[inline]
    pub(super) fn mark(&self, at: u64, bytes: u64) {
        let last = at.saturating_add(bytes.saturating_sub(1)) >> SHIFT;
        let end = (self.first + 64 * self.bits.len() as u64).min(last + 1);
        for page in (at >> SHIFT).max(self.first)..end {
            let (number, bit) = (page - self.first, 1 << ((page - self.first) % 64));
            if let Some(word) = self.bits.get((number / 64) as usize)
                && word.load(Ordering::Relaxed) & bit == 0
            {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    /// The pages that are written; from now on none is.
    pub(super) fn take(&self) -> Vec<Range<u64>> {
        let mut all: Vec<Range<u64>> = Vec::new();
        for (number, word) in (0..).zip(&self.bits) {
            let mut bits = if word.load(Ordering::Relaxed) == 0 { 0 } else { word.swap(0, Ordering::Relaxed) };
            while bits != 0 {
                let page = self.first + 64 * number + u64::from(bits.trailing_zeros());
                bits &= bits - 1;
                match all.last_mut() {
                    Some(last) if last.end == page << SHIFT => last.end += 1 << SHIFT,
                    _ => all.push(page << SHIFT..(page + 1) << SHIFT),
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_pages_are_taken_once_whatever_word_they_are_in() {
        let written = Written::of(0x1000, 200 << SHIFT);
        assert_eq!(written.take(), []);
        written.mark(0x1000 + (60 << SHIFT) + 5, 10 << SHIFT);
        written.mark(0x1000 + (199 << SHIFT), 1);
        written.mark(0, 1);
        let at = |page: u64| (page + 1) << SHIFT;
        assert_eq!(written.take(), [at(60)..at(71), at(199)..at(200)]);
        assert_eq!(written.take(), []);
    }
}
