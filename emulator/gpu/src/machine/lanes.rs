//! The lanes of a vector memory access whose bytes all lie in one piece of host memory.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use amdgpu_isa::atomic::AtomicOp;
use amdgpu_isa::env::Addresses;
use amdgpu_isa::wave::{LANES, Vgpr, each_lane};

use crate::memory::host;

/// Lanes that are loaded together: as many as there are words in a host vector that every host has, so that vectors move the words.
const FOUR: usize = 4;

/// Puts what all lanes load into registers, for each word one. Lanes are loaded in their order.
#[inline(always)]
fn by_words<const WORDS: usize>(mut out: [&mut Vgpr; WORDS], load: impl Fn(usize) -> [u32; 4]) {
    for first in (0..LANES).step_by(FOUR) {
        let lanes: [[u32; 4]; FOUR] = std::array::from_fn(|l| load(first + l));
        for (n, word) in out.iter_mut().enumerate() {
            let of_lanes: [u32; FOUR] = std::array::from_fn(|l| lanes[l][n % 4]);
            word[first..first + FOUR].copy_from_slice(&of_lanes);
        }
    }
}

/// Where the active lanes of an access are.
pub(super) struct Reach {
    /// The lowest address.
    pub(super) low: u64,
    /// Bytes from there to the end of the highest lane's.
    pub(super) span: u64,
    /// The low bits that any address has.
    bits: u64,
    /// Every lane is active and begins where the one before it ends.
    in_a_row: bool,
}

impl Reach {
    /// Of `bytes` for each lane of a mask that is not empty.
    #[inline]
    pub(super) fn of(at: &Addresses, mask: u64, bytes: u8) -> Reach {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                // SAFETY: the host has AVX-512 F.
                return unsafe { measure_v4(at, mask, bytes) };
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the host has AVX2.
                return unsafe { measure_v3(at, mask, bytes) };
            }
        }
        measure(at, mask, bytes)
    }
}

/// The smallest and the largest of 64-bit numbers are instructions here.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn measure_v4(at: &Addresses, mask: u64, bytes: u8) -> Reach {
    measure(at, mask, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn measure_v3(at: &Addresses, mask: u64, bytes: u8) -> Reach {
    measure(at, mask, bytes)
}

#[inline(always)]
fn measure(at: &Addresses, mask: u64, bytes: u8) -> Reach {
    let bytes = u64::from(bytes);
    let (first, last) = (at[0], at[LANES - 1]);
    if mask == u64::MAX && last.wrapping_sub(first) == (LANES as u64 - 1) * bytes {
        let mut differ = 0;
        for (l, a) in at.iter().enumerate() {
            differ |= a ^ first.wrapping_add(l as u64 * bytes);
        }
        if differ == 0 {
            return Reach { low: first, span: LANES as u64 * bytes, bits: first | bytes, in_a_row: true };
        }
    }
    // Signed, as vector instructions compare. Addresses with the highest bit are nowhere mapped: the lowest is one of them.
    let (mut low, mut high, mut bits) = (i64::MAX, 0, 0);
    for (l, &a) in at.iter().enumerate() {
        let on = (mask >> l & 1).wrapping_neg();
        low = low.min((a & on | !on & i64::MAX as u64) as i64);
        high = high.max((a & on) as i64);
        bits |= a & on;
    }
    Reach { low: low as u64, span: (high as u64).wrapping_sub(low as u64).wrapping_add(bytes), bits, in_a_row: false }
}

/// The memory that the lanes of an access reach: `reach` begins at the host address `base`.
pub(super) struct ReachedMemory<'a> {
    base: *mut u8,
    reach: &'a Reach,
    at: &'a Addresses,
    mask: u64,
    /// What all host addresses are multiples of, 16 at most.
    alignment: u64,
}

/// An access of an active lane to a part of its own bytes, as aligned as `ReachedMemory::alignment` was found to be.
macro_rules! access {
    ($access:ident($at:expr $(, $value:expr)?)) => {
        // SAFETY: `ReachedMemory::new` was promised the bytes of every active lane, and the match that chose the access has compared
        // its width with the alignment of all lanes.
        unsafe { host::$access($at $(, $value)?) }
    };
}

impl<'a> ReachedMemory<'a> {
    /// # Safety
    /// `reach.span` bytes from `base` must be mapped for `'a`, readable, and writable if anything is stored.
    pub(super) unsafe fn new(base: *mut u8, reach: &'a Reach, at: &'a Addresses, mask: u64) -> ReachedMemory<'a> {
        // Host and GPU pages are aligned alike, so that the addresses agree in their low bits.
        let bits = reach.bits | base.addr() as u64 ^ reach.low;
        ReachedMemory { base, reach, at, mask, alignment: 1 << (bits | host::WIDEST as u64).trailing_zeros() }
    }

    #[inline(always)]
    fn lane(&self, l: usize) -> *mut u8 {
        self.base.wrapping_add((self.at[l] - self.reach.low) as usize)
    }

    /// Reads `bytes` of each lane; word `n` goes to `out[n]`.
    #[inline]
    pub(super) fn load(&self, bytes: u8, out: &mut [Vgpr]) {
        let (mask, alignment) = (self.mask, self.alignment);
        match (bytes, out) {
            (4, [word]) if alignment >= 4 => {
                if self.reach.in_a_row {
                    access!(read_dwords(self.base, word));
                } else {
                    each_lane(mask, |l| word[l] = access!(load4(self.lane(l))));
                }
            }
            (8, [low, high]) if alignment >= 8 && mask == u64::MAX => {
                by_words([low, high], |l| access!(load8_to_vector(self.lane(l))));
            }
            (8, [low, high]) if alignment >= 8 => each_lane(mask, |l| {
                let value = access!(load8(self.lane(l)));
                (low[l], high[l]) = (value as u32, (value >> 32) as u32);
            }),
            (16, [a, b, c, d]) if alignment >= 16 && mask == u64::MAX => {
                by_words([a, b, c, d], |l| access!(load16(self.lane(l))));
            }
            (16, [a, b, c, d]) if alignment >= 16 => each_lane(mask, |l| {
                [a[l], b[l], c[l], d[l]] = access!(load16(self.lane(l)));
            }),
            (1, [word]) => each_lane(mask, |l| word[l] = access!(load1(self.lane(l))).into()),
            (2, [word]) if alignment >= 2 => each_lane(mask, |l| word[l] = access!(load2(self.lane(l))).into()),
            (12, [a, b, c]) if alignment >= 4 => each_lane(mask, |l| {
                let lane = self.lane(l);
                [a[l], b[l], c[l]] = [0, 4, 8].map(|n| access!(load4(lane.wrapping_add(n))));
            }),
            // Lanes that are aligned beside others that are not: each one in pieces as wide as its own address allows.
            (_, out) => each_lane(mask, |l| {
                let mut buffer = [0; 16];
                access!(read(self.lane(l), &mut buffer[..usize::from(bytes)]));
                put_words(out, l, &buffer);
            }),
        }
    }

    /// Writes `bytes` of each lane, lower lanes first.
    #[inline]
    pub(super) fn store(&self, bytes: u8, data: &[Vgpr]) {
        let (mask, alignment) = (self.mask, self.alignment);
        match (bytes, data) {
            (4, [word]) if alignment >= 4 => {
                if self.reach.in_a_row {
                    access!(write_dwords(self.base, word));
                } else {
                    each_lane(mask, |l| access!(store4(self.lane(l), word[l])));
                }
            }
            (8, [low, high]) if alignment >= 8 => {
                each_lane(mask, |l| access!(store8(self.lane(l), host::pair(low[l], high[l]))));
            }
            (16, [a, b, c, d]) if alignment >= 16 => {
                each_lane(mask, |l| access!(store16(self.lane(l), [a[l], b[l], c[l], d[l]])));
            }
            (1, [word]) => each_lane(mask, |l| access!(store1(self.lane(l), word[l] as u8))),
            (2, [word]) if alignment >= 2 => each_lane(mask, |l| access!(store2(self.lane(l), word[l] as u16))),
            (12, [a, b, c]) if alignment >= 4 => each_lane(mask, |l| {
                let lane = self.lane(l);
                for (n, word) in [a[l], b[l], c[l]].into_iter().enumerate() {
                    access!(store4(lane.wrapping_add(4 * n), word));
                }
            }),
            (_, data) => each_lane(mask, |l| {
                let buffer = words(data, l);
                access!(write(self.lane(l), &buffer[..usize::from(bytes)]));
            }),
        }
    }
}

/// Read-modify-writes of memory that lanes reach, dwords or qwords.
impl ReachedMemory<'_> {
    /// Does `op` on `bytes` of each lane, lower lanes first; `data` has the operand and, after it, the second operand, `old`
    /// gets the old values if they are wanted. False when an address is not aligned, in which case nothing is done.
    pub(super) fn modify(&self, op: AtomicOp, bytes: u8, data: &[Vgpr], old: &mut [Vgpr]) -> bool {
        if self.alignment < u64::from(bytes) {
            return false;
        }
        match (bytes, data) {
            (4, [a]) | (4, [a, _]) => {
                let b = data.get(1).unwrap_or(a);
                each_lane(self.mask, |l| {
                    // SAFETY: `new` was promised the lane's bytes, and all lanes are aligned.
                    let word = unsafe { AtomicU32::from_ptr(self.lane(l).cast()) };
                    let value = modify32(word, op, a[l], b[l]);
                    if let [old] = &mut *old {
                        old[l] = value;
                    }
                });
            }
            (8, [low, high]) | (8, [low, high, ..]) => {
                let (low2, high2) = (data.get(2).unwrap_or(low), data.get(3).unwrap_or(high));
                each_lane(self.mask, |l| {
                    // SAFETY: as above.
                    let word = unsafe { AtomicU64::from_ptr(self.lane(l).cast()) };
                    let value = modify64(word, op, host::pair(low[l], high[l]), host::pair(low2[l], high2[l]));
                    if let [low, high] = &mut *old {
                        (low[l], high[l]) = (value as u32, (value >> 32) as u32);
                    }
                });
            }
            _ => return false,
        }
        true
    }
}

/// The bytes that a lane stores.
pub(super) fn words(data: &[Vgpr], l: usize) -> [u8; 16] {
    let mut buffer = [0; 16];
    for (chunk, word) in buffer.chunks_exact_mut(4).zip(data) {
        chunk.copy_from_slice(&word[l].to_le_bytes());
    }
    buffer
}

/// Puts the bytes that a lane loaded into its words.
pub(super) fn put_words(out: &mut [Vgpr], l: usize, buffer: &[u8; 16]) {
    for (word, chunk) in out.iter_mut().zip(buffer.chunks_exact(4)) {
        word[l] = u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
    }
}

/// Makes one lane's read-modify-write of a word; it returns the old value. Integer operations that the host has are one instruction.
macro_rules! modify {
    ($(#[doc = $doc:literal] $name:ident $word:ty, $value:ty, $apply:ident;)*) => {
        $(#[doc = $doc]
        #[inline]
        pub(super) fn $name(word: &$word, op: AtomicOp, a: $value, b: $value) -> $value {
            match op {
                AtomicOp::Add => word.fetch_add(a, Ordering::SeqCst),
                AtomicOp::Swap => word.swap(a, Ordering::SeqCst),
                _ => {
                    let mut old = word.load(Ordering::Relaxed);
                    loop {
                        let new = op.$apply(old, a, b);
                        match word.compare_exchange_weak(old, new, Ordering::SeqCst, Ordering::Relaxed) {
                            Ok(_) => return old,
                            Err(now) => old = now,
                        }
                    }
                }
            }
        })*
    };
}

modify! {
    /// Of a dword.
    modify32 AtomicU32, u32, apply32;
    /// Of a qword.
    modify64 AtomicU64, u64, apply64;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `measure` must say, lane by lane.
    fn plainly(at: &Addresses, mask: u64, bytes: u8) -> (u64, u64) {
        let active: Vec<u64> = (0..LANES).filter(|l| mask >> l & 1 == 1).map(|l| at[l]).collect();
        let (low, high) = (active.iter().min().expect("one"), active.iter().max().expect("one"));
        (*low, high - low + u64::from(bytes))
    }

    #[test]
    fn inactive_lanes_do_not_count() {
        let mut at: Addresses = std::array::from_fn(|l| 0x7fff_0000_1000 + 4 * (l as u64 * 7 % 64));
        (at[3], at[9]) = (0xffff_ffff_ffff_fff1, 3);
        for mask in [1, 1 << 63, 0xf0f0, !(1 << 3 | 1 << 9)] {
            for reach in [measure(&at, mask, 4), Reach::of(&at, mask, 4)] {
                assert_eq!((reach.low, reach.span), plainly(&at, mask, 4), "{mask:#x}");
                assert!(!reach.in_a_row && reach.bits & 3 == 0, "{mask:#x}");
            }
        }
    }

    #[test]
    fn lanes_in_a_row_are_told_from_those_that_only_begin_and_end_so() {
        let row: Addresses = std::array::from_fn(|l| 0x1008 + 8 * l as u64);
        let reach = Reach::of(&row, u64::MAX, 8);
        assert!(reach.in_a_row && (reach.low, reach.span) == (0x1008, 512) && reach.bits & 7 == 0);
        let mut swapped = row;
        swapped.swap(20, 40);
        assert!(!Reach::of(&swapped, u64::MAX, 8).in_a_row);
        assert!(!Reach::of(&row, u64::MAX >> 1, 8).in_a_row);
        assert!(!Reach::of(&row, u64::MAX, 4).in_a_row);
    }
}
