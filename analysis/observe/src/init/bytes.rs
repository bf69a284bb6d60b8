//! Which bits of LDS or scratch are defined.

use std::collections::HashMap;

/// Bytes, a bit for each that is defined as a whole.
pub(super) struct Bytes {
    whole: Vec<u64>,
    /// The defined bits of bytes of which some are.
    parts: HashMap<u64, u8>,
}

impl Bytes {
    pub(super) fn new(bytes: usize) -> Bytes {
        Bytes { whole: vec![0; bytes.div_ceil(64)], parts: HashMap::new() }
    }

    /// True where all bytes near one are defined.
    pub(super) fn is_whole(&self, at: u64) -> bool {
        usize::try_from(at / 64).ok().and_then(|n| self.whole.get(n)).is_some_and(|bits| *bits == u64::MAX)
    }

    /// The defined bits of up to four bytes; those outside read as zero.
    pub(super) fn get(&self, at: u64, bytes: u64) -> u32 {
        let of = |byte: u64| match usize::try_from(byte / 64).ok().and_then(|n| self.whole.get(n)) {
            Some(word) if word >> (byte % 64) & 1 == 0 => self.parts.get(&byte).copied().unwrap_or_default(),
            _ => u8::MAX,
        };
        (0..bytes).fold(0, |all, n| all | u32::from(of(at.wrapping_add(n))) << (8 * n))
    }

    /// Up to four bytes have these defined bits.
    pub(super) fn set(&mut self, at: u64, bytes: u64, bits: u32) {
        for n in 0..bytes {
            let byte = at.wrapping_add(n);
            let Some(word) = usize::try_from(byte / 64).ok().and_then(|n| self.whole.get_mut(n)) else { continue };
            let (bit, bits) = (1 << (byte % 64), (bits >> (8 * n)) as u8);
            *word = if bits == u8::MAX { *word | bit } else { *word & !bit };
            if !matches!(bits, 0 | u8::MAX) {
                self.parts.insert(byte, bits);
            } else if !self.parts.is_empty() {
                self.parts.remove(&byte);
            }
        }
    }
}
