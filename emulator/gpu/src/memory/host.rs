//! Accesses to host memory that other threads read and write at the same time: waves, copy engines, the application.
//!
//! # Ordering
//! All accesses are relaxed. What they promise is that an aligned access is *single-copy atomic*: a reader finds all of
//! the bytes that one writer wrote together, or none of them.
//!
//! # What a GPU guarantees
//! * Naturally aligned accesses of 1, 2, 4 and 8 bytes by one lane are single-copy atomic: LLVM's AMDGPUUsage, "Memory
//!   Model", maps atomic loads and stores of these widths to plain `buffer`, `global`, `flat` and `ds` instructions.
//! * So are those of 16 bytes on every gfx9: the look-back of rocPRIM (`rocprim/intrinsics/atomic.hpp`, GCN5 to CDNA3)
//!   publishes a value beside its flag with one `global_store_dwordx4` and polls it with one `global_load_dwordx4`.
//! * 12 bytes, and what is not naturally aligned, may be torn at any byte.
//! * LDS instructions of a workgroup are wave-wide operations in one global order (AMDGPUUsage, "Memory Model GFX90A").
//!
//! # How this host gives it
//! Up to 8 bytes by the atomics of the language. 16 bytes by `VMOVDQA`, which is atomic on processors that have AVX:
//! Intel SDM volume 3A, 9.1.1 "Guaranteed Atomic Operations"; AMD64 APM volume 2, 7.3.2 "Access Atomicity". A processor
//! without AVX, or another architecture, gives 8 bytes at most.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Bytes of the widest access that is single-copy atomic.
pub(crate) const WIDEST: usize = 16;

/// A load or store of a function below: of a piece of the caller's bytes, at an address that is aligned to its width.
macro_rules! access {
    ($access:ident($($argument:expr),*)) => {
        // SAFETY: the caller's bytes have all of the piece, and the width of a piece is one to which its address is aligned.
        unsafe { $access($($argument),*) }
    };
}

/// Sixteen bytes at an address that is a multiple of sixteen.
///
/// # Safety
/// The bytes must be mapped and readable.
#[inline(always)]
pub(crate) unsafe fn load16(at: *const u8) -> [u32; 4] {
    debug_assert!(at.addr().is_multiple_of(WIDEST));
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        use std::arch::x86_64::__m128i;
        let value: __m128i;
        // SAFETY: readable by the caller's promise and aligned; the host has AVX. It is no access of the language, so that
        // it may not be split.
        unsafe {
            std::arch::asm!("vmovdqa {}, [{}]", out(xmm_reg) value, in(reg) at, options(nostack, readonly, preserves_flags));
        }
        // SAFETY: both are sixteen bytes without invalid values.
        return unsafe { std::mem::transmute::<__m128i, [u32; 4]>(value) };
    }
    let [low, high] = [access!(load8(at)), access!(load8(at.wrapping_add(8)))];
    [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]
}

/// Writes sixteen bytes at an address that is a multiple of sixteen.
///
/// # Safety
/// The bytes must be mapped and writable.
#[inline(always)]
pub(crate) unsafe fn store16(at: *mut u8, value: [u32; 4]) {
    debug_assert!(at.addr().is_multiple_of(WIDEST));
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        use std::arch::x86_64::__m128i;
        // SAFETY: both are sixteen bytes without invalid values.
        let value = unsafe { std::mem::transmute::<[u32; 4], __m128i>(value) };
        // SAFETY: writable by the caller's promise and aligned; the host has AVX.
        unsafe {
            std::arch::asm!("vmovdqa [{}], {}", in(reg) at, in(xmm_reg) value, options(nostack, preserves_flags));
        }
        return;
    }
    access!(store8(at, pair(value[0], value[1])));
    access!(store8(at.wrapping_add(8), pair(value[2], value[3])));
}

/// Eight bytes at an address that is a multiple of eight, as the first of the dwords of a host vector: several lanes' are parted by vectors.
///
/// # Safety
/// The bytes must be mapped and readable, the address aligned.
#[inline(always)]
pub(crate) unsafe fn load8_to_vector(at: *const u8) -> [u32; 4] {
    debug_assert!(at.addr().is_multiple_of(8));
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__m128i;
        let value: __m128i;
        // SAFETY: readable by the caller's promise and aligned; every processor of this architecture has SSE2. It is no access of the
        // language, so that it may not be split.
        unsafe {
            std::arch::asm!("movq {}, [{}]", out(xmm_reg) value, in(reg) at, options(nostack, readonly, preserves_flags));
        }
        // SAFETY: both are sixteen bytes without invalid values.
        unsafe { std::mem::transmute::<__m128i, [u32; 4]>(value) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let value = access!(load8(at));
        [value as u32, (value >> 32) as u32, 0, 0]
    }
}

/// A load and a store of a width for which the language has an atomic.
macro_rules! width {
    ($load:ident, $store:ident, $atomic:ident, $value:ident) => {
        /// A load at an address that is a multiple of its width.
        ///
        /// # Safety
        /// The bytes must be mapped and readable, the address aligned.
        #[inline(always)]
        pub(crate) unsafe fn $load(at: *const u8) -> $value {
            // SAFETY: mapped and aligned by the caller's promise; a load writes nothing.
            unsafe { $atomic::from_ptr(at.cast_mut().cast()) }.load(Relaxed)
        }

        /// A store at an address that is a multiple of its width.
        ///
        /// # Safety
        /// The bytes must be mapped and writable, the address aligned.
        #[inline(always)]
        pub(crate) unsafe fn $store(at: *mut u8, value: $value) {
            // SAFETY: mapped and aligned by the caller's promise.
            unsafe { $atomic::from_ptr(at.cast()) }.store(value, Relaxed);
        }
    };
}

width!(load1, store1, AtomicU8, u8);
width!(load2, store2, AtomicU16, u16);
width!(load4, store4, AtomicU32, u32);
width!(load8, store8, AtomicU64, u64);

/// A qword of two dwords.
#[inline(always)]
pub(crate) fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Reads dwords from an address that is a multiple of four, in the widest pieces that its alignment allows.
///
/// # Safety
/// The bytes must be mapped and readable, the address aligned.
#[inline]
pub(crate) unsafe fn read_dwords(from: *const u8, out: &mut [u32]) {
    if from.addr().is_multiple_of(16) && out.len().is_multiple_of(4) {
        for (n, chunk) in out.chunks_exact_mut(4).enumerate() {
            chunk.copy_from_slice(&access!(load16(from.wrapping_add(16 * n))));
        }
    } else if from.addr().is_multiple_of(8) && out.len().is_multiple_of(2) {
        for (n, chunk) in out.chunks_exact_mut(2).enumerate() {
            let value = access!(load8(from.wrapping_add(8 * n)));
            chunk.copy_from_slice(&[value as u32, (value >> 32) as u32]);
        }
    } else {
        for (n, dword) in out.iter_mut().enumerate() {
            *dword = access!(load4(from.wrapping_add(4 * n)));
        }
    }
}

/// Writes dwords to an address that is a multiple of four, in the widest pieces that its alignment allows.
///
/// # Safety
/// The bytes must be mapped and writable, the address aligned.
#[inline]
pub(crate) unsafe fn write_dwords(to: *mut u8, data: &[u32]) {
    if to.addr().is_multiple_of(16) && data.len().is_multiple_of(4) {
        for (n, chunk) in data.chunks_exact(4).enumerate() {
            access!(store16(to.wrapping_add(16 * n), [chunk[0], chunk[1], chunk[2], chunk[3]]));
        }
    } else if to.addr().is_multiple_of(8) && data.len().is_multiple_of(2) {
        for (n, chunk) in data.chunks_exact(2).enumerate() {
            access!(store8(to.wrapping_add(8 * n), pair(chunk[0], chunk[1])));
        }
    } else {
        for (n, &dword) in data.iter().enumerate() {
            access!(store4(to.wrapping_add(4 * n), dword));
        }
    }
}

/// The width of the widest aligned access at `address` that stays within `left` bytes, at least one.
#[inline(always)]
fn piece(address: usize, left: usize) -> usize {
    let aligned = 1 << (address | WIDEST).trailing_zeros();
    // The largest power of two that is not more than what is left.
    let fits = 1 << left.ilog2();
    aligned.min(fits)
}

/// Reads bytes in the widest aligned pieces, ascending.
///
/// # Safety
/// The bytes must be mapped and readable.
pub(crate) unsafe fn read(from: *const u8, out: &mut [u8]) {
    let mut done = 0;
    while done < out.len() {
        let at = from.wrapping_add(done);
        let n = piece(at.addr(), out.len() - done);
        let to = &mut out[done..done + n];
        match n {
            16 => {
                for (to, dword) in to.chunks_exact_mut(4).zip(access!(load16(at))) {
                    to.copy_from_slice(&dword.to_le_bytes());
                }
            }
            8 => to.copy_from_slice(&access!(load8(at)).to_le_bytes()),
            4 => to.copy_from_slice(&access!(load4(at)).to_le_bytes()),
            2 => to.copy_from_slice(&access!(load2(at)).to_le_bytes()),
            _ => to[0] = access!(load1(at)),
        }
        done += n;
    }
}

/// Writes bytes in the widest aligned pieces, ascending.
///
/// # Safety
/// The bytes must be mapped and writable.
pub(crate) unsafe fn write(to: *mut u8, data: &[u8]) {
    let mut left = data;
    let mut at = to;
    while !left.is_empty() {
        let n = piece(at.addr(), left.len());
        match (n, left) {
            (16, &[a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..]) => {
                let dwords = [[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]];
                access!(store16(at, dwords.map(u32::from_le_bytes)));
            }
            (8, &[a, b, c, d, e, f, g, h, ..]) => access!(store8(at, u64::from_le_bytes([a, b, c, d, e, f, g, h]))),
            (4, &[a, b, c, d, ..]) => access!(store4(at, u32::from_le_bytes([a, b, c, d]))),
            (2, &[a, b, ..]) => access!(store2(at, u16::from_le_bytes([a, b]))),
            (_, rest) => access!(store1(at, rest[0])),
        }
        left = &left[n..];
        at = at.wrapping_add(n);
    }
}

/// Bytes of a row, which [`copy_rows`] copies by four accesses.
const ROW: usize = 4 * WIDEST;

/// Copies the whole rows of `n` bytes, ascending, one access of sixteen bytes after the other; how many bytes those are. None on a
/// host without AVX.
///
/// # Safety
/// `n` bytes must be mapped on both sides, readable there and writable here, both addresses multiples of sixteen.
unsafe fn copy_rows(from: *const u8, to: *mut u8, n: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    if n >= ROW && std::arch::is_x86_feature_detected!("avx") {
        let bytes = n - n % ROW;
        // SAFETY: the rows are readable and writable by the caller's promise, and aligned; the host has AVX. They are no accesses of
        // the language, so that none may be split, joined or moved.
        unsafe {
            std::arch::asm!(
                "2:",
                "vmovdqa {a}, [{from} + {at}]",
                "vmovdqa [{to} + {at}], {a}",
                "vmovdqa {b}, [{from} + {at} + 16]",
                "vmovdqa [{to} + {at} + 16], {b}",
                "vmovdqa {c}, [{from} + {at} + 32]",
                "vmovdqa [{to} + {at} + 32], {c}",
                "vmovdqa {d}, [{from} + {at} + 48]",
                "vmovdqa [{to} + {at} + 48], {d}",
                "add {at}, 64",
                "cmp {at}, {bytes}",
                "jb 2b",
                at = inout(reg) 0_usize => _,
                from = in(reg) from,
                to = in(reg) to,
                bytes = in(reg) bytes,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack),
            );
        }
        return bytes;
    }
    let _ = (from, to, n);
    0
}

/// Copies bytes, ascending: in the widest pieces to which both addresses are aligned.
///
/// # Safety
/// `n` bytes must be mapped on both sides, readable there and writable here.
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, n: usize) {
    // Pieces of more than what the addresses differ by are aligned on one side only.
    let common = 1 << (from.addr() ^ to.addr() | WIDEST).trailing_zeros();
    let mut done = 0;
    while done < n {
        let (source, target) = (from.wrapping_add(done), to.wrapping_add(done));
        if common == WIDEST && source.addr().is_multiple_of(WIDEST) {
            // SAFETY: the caller's promise, and what was just found of the addresses.
            let rows = unsafe { copy_rows(source, target, n - done) };
            if rows > 0 {
                done += rows;
                continue;
            }
        }
        let width = piece(source.addr(), n - done).min(common);
        /// One piece, by the functions of its width.
        macro_rules! copied {
            ($load:ident, $store:ident) => {{
                let value = access!($load(source));
                access!($store(target, value));
            }};
        }
        match width {
            16 => copied!(load16, store16),
            8 => copied!(load8, store8),
            4 => copied!(load4, store4),
            2 => copied!(load2, store2),
            _ => copied!(load1, store1),
        }
        done += width;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use super::*;

    /// Memory for aligned accesses of any width, and for some rows of them.
    #[repr(align(16))]
    struct Place(std::cell::UnsafeCell<[u8; 256]>);
    // SAFETY: the tests use it by the functions of this module only.
    unsafe impl Sync for Place {}

    #[test]
    fn pieces_are_as_wide_as_alignment_and_length_allow() {
        assert_eq!(
            [(0, 64), (16, 15), (8, 64), (4, 3), (1, 64), (24, 8)].map(|(a, n)| piece(a, n)),
            [16, 8, 8, 2, 1, 8]
        );
    }

    #[test]
    fn bytes_arrive_whatever_the_alignment_of_both_sides() {
        let (from, to) = (Place([0; 256].into()), Place([0; 256].into()));
        let data: Vec<u8> = (0..=255).collect();
        let lengths = [0, 1, 15, 16, 47, 63, 64, 65, 128, 200, 239];
        let places = (0..17).flat_map(|a| (0..17).map(move |b| (a, b)));
        for (a, b, n) in places.flat_map(|(a, b)| lengths.map(|n| (a, b, n))) {
            let (source, target) = (from.0.get().cast::<u8>(), to.0.get().cast::<u8>());
            let mut back = [0; 256];
            // All are 256 bytes, used by this thread alone.
            access!(write(source, &data));
            access!(write(target, &[0; 256]));
            access!(copy(source.wrapping_add(a), target.wrapping_add(b), n));
            access!(read(target, &mut back));
            assert_eq!(&back[b..b + n], &data[a..a + n], "{n} from {a} to {b}");
            assert!(back[..b].iter().chain(&back[b + n..]).all(|&x| x == 0), "{n} from {a} to {b}: neighbours");
        }
    }

    #[test]
    fn a_copy_onto_its_own_source_finds_what_it_has_written_there() {
        let place = Place([0; 256].into());
        let data: Vec<u8> = (0..=255).collect();
        let start = place.0.get().cast::<u8>();
        let mut back = [0; 256];
        // 256 bytes, used by this thread alone: the first sixteen again and again.
        access!(write(start, &data));
        access!(copy(start, start.wrapping_add(16), 240));
        access!(read(start, &mut back));
        assert_eq!(back.as_slice(), data[..16].repeat(16));
    }

    /// A thread writes two patterns alternately by `store`, this one reads by `load`; every reading must be one of them.
    fn never_torn<T: Copy + Eq + Send + Sync + std::fmt::Debug>(
        patterns: [T; 2],
        load: unsafe fn(*const u8) -> T,
        store: unsafe fn(*mut u8, T),
    ) {
        let (place, ready) = (Place([0; 256].into()), Barrier::new(2));
        let (place, ready) = (&place, &ready);
        // SAFETY: 64 aligned bytes, which both threads use by functions of this module.
        unsafe { store(place.0.get().cast(), patterns[0]) };
        thread::scope(|scope| {
            let writer = scope.spawn(move || {
                ready.wait();
                for n in 0..400_000 {
                    // SAFETY: as above.
                    unsafe { store(place.0.get().cast(), patterns[n % 2]) };
                }
            });
            ready.wait();
            while !writer.is_finished() {
                // SAFETY: as above.
                let seen = unsafe { load(place.0.get().cast()) };
                assert!(patterns.contains(&seen), "{seen:x?} is torn");
            }
        });
    }

    #[test]
    fn an_aligned_access_is_seen_whole_by_other_threads() {
        never_torn([0x1111_1111, 0x2222_2222], load4, store4);
        never_torn([0x1111_1111_1111_1111, 0x2222_2222_2222_2222], load8, store8);
        never_torn([[1; 4], [2; 4]], load16, store16);
    }
}
