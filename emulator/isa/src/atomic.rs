//! Read-modify-write operations on memory and LDS.
//!
//! Source: Vega ISA manual, opcode tables of "FLAT", "MUBUF" and "DS"; CDNA2 and CDNA3 manuals for the float atomics.

use crate::arch::Arch;
use crate::fp::{F16, Float, MinMax};
use crate::lane::Lane;
use crate::mode::Mode;

/// What happens to the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// The operand replaces it.
    Swap,
    /// The operand replaces it if it equals the second operand.
    CmpSwap,
    /// Sum.
    Add,
    /// Memory minus operand.
    Sub,
    /// Operand minus memory.
    RSub,
    /// Smaller, signed.
    SMin,
    /// Smaller, unsigned.
    UMin,
    /// Larger, signed.
    SMax,
    /// Larger, unsigned.
    UMax,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// One more, or zero when not below the operand.
    Inc,
    /// One less, or the operand when zero or above the operand.
    Dec,
    /// The bits of the operand are cleared, those of the second operand set.
    MaskOr,
    /// The operand is subtracted when not larger, else the second operand added.
    Wrap,
    /// As [`AtomicOp::CmpSwap`], compared as floats.
    FCmpSwap,
    /// Sum of floats.
    FAdd,
    /// Sum of singles, of which denormal ones are zero.
    FAddFlushing,
    /// Smaller of floats.
    FMin,
    /// Larger of floats.
    FMax,
    /// Sums of two halves.
    PkAddF16,
    /// Sums of two bfloats.
    PkAddBf16,
}

/// Float atomics behave as in IEEE mode, and keep denormals.
const IEEE: Mode = Mode(0x3f0);
/// As [`IEEE`], without denormals.
const FLUSHING: Mode = Mode(0x300);

impl AtomicOp {
    /// The operation on so many bytes as the memory of a processor does it.
    #[must_use]
    pub fn in_memory_of(self, arch: Arch, bytes: u8) -> AtomicOp {
        let flushes = self == AtomicOp::FAdd && bytes == 4 && arch.flushes_float_atomics();
        if flushes { AtomicOp::FAddFlushing } else { self }
    }

    /// The new value of 32 bits, from the old one, the operand and the second operand.
    pub fn apply32(self, old: u32, a: u32, b: u32) -> u32 {
        self.apply32_in(IEEE, old, a, b)
    }

    /// As [`AtomicOp::apply32`], with the denormals that a mode keeps.
    #[inline]
    pub fn apply32_in(self, mode: Mode, old: u32, a: u32, b: u32) -> u32 {
        match self {
            AtomicOp::SMin => (old as i32).min(a as i32) as u32,
            AtomicOp::SMax => (old as i32).max(a as i32) as u32,
            AtomicOp::PkAddF16 => pairwise(old, a, |x, y| add(F16(x), F16(y), mode).0),
            AtomicOp::PkAddBf16 => pairwise(old, a, add_bfloats),
            // Memory has a width of its own only for singles.
            AtomicOp::FAddFlushing => add(f32::from_bits(old), f32::from_bits(a), FLUSHING).to_bits(),
            _ => match self.float([old, a, b].map(f32::from_bits), mode) {
                Some(new) => new.to_bits(),
                None => self.integer(old.into(), a.into(), b.into(), u32::MAX.into()) as u32,
            },
        }
    }

    /// The new value of 64 bits.
    pub fn apply64(self, old: u64, a: u64, b: u64) -> u64 {
        self.apply64_in(IEEE, old, a, b)
    }

    /// As [`AtomicOp::apply64`], with the denormals that a mode keeps.
    pub fn apply64_in(self, mode: Mode, old: u64, a: u64, b: u64) -> u64 {
        match self {
            AtomicOp::SMin => (old as i64).min(a as i64) as u64,
            AtomicOp::SMax => (old as i64).max(a as i64) as u64,
            _ => match self.float([old, a, b].map(f64::from_bits), mode) {
                Some(new) => new.to_bits(),
                None => self.integer(old, a, b, u64::MAX),
            },
        }
    }

    /// The operations on floats of either width; `None` for another operation.
    #[inline]
    fn float<T: Float + MinMax + Lane + PartialEq>(self, [old, a, b]: [T; 3], mode: Mode) -> Option<T> {
        Some(match self {
            AtomicOp::FCmpSwap if read(old, mode) == read(b, mode) => a,
            AtomicOp::FCmpSwap => old,
            AtomicOp::FAdd => add(old, a, mode),
            AtomicOp::FMin => written(read(a, mode).smaller(read(old, mode), IEEE), mode),
            AtomicOp::FMax => written(read(a, mode).larger(read(old, mode), IEEE), mode),
            _ => return None,
        })
    }

    /// The operations that are the same for both widths; `mask` is the width.
    #[inline]
    fn integer(self, old: u64, a: u64, b: u64, mask: u64) -> u64 {
        match self {
            AtomicOp::CmpSwap => {
                if old == b {
                    a
                } else {
                    old
                }
            }
            AtomicOp::Add => old.wrapping_add(a) & mask,
            AtomicOp::Sub => old.wrapping_sub(a) & mask,
            AtomicOp::RSub => a.wrapping_sub(old) & mask,
            AtomicOp::UMin => old.min(a),
            AtomicOp::UMax => old.max(a),
            AtomicOp::And => old & a,
            AtomicOp::Or => old | a,
            AtomicOp::Xor => old ^ a,
            AtomicOp::Inc => {
                if old >= a {
                    0
                } else {
                    old + 1
                }
            }
            AtomicOp::Dec => {
                if old == 0 || old > a {
                    a
                } else {
                    old - 1
                }
            }
            AtomicOp::MaskOr => old & !a | b,
            AtomicOp::Wrap => {
                if old >= a {
                    old - a
                } else {
                    old.wrapping_add(b) & mask
                }
            }
            // The others are answered before.
            _ => a,
        }
    }
}

/// What a mode makes of a source.
#[inline]
fn read<T: Lane>(x: T, mode: Mode) -> T {
    if T::flushes_in(mode) { x.flush() } else { x }
}

/// What a mode makes of a result.
#[inline]
fn written<T: Lane>(x: T, mode: Mode) -> T {
    if T::flushes_out(mode) { x.flush() } else { x }
}

/// The sum, rounded to nearest even.
#[inline]
fn add<T: Float + Lane>(x: T, y: T, mode: Mode) -> T {
    written(T::add_nearest(read(x, mode), read(y, mode)), mode)
}

fn pairwise(old: u32, a: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f(old as u16, a as u16)) | u32::from(f((old >> 16) as u16, (a >> 16) as u16)) << 16
}

/// The sum, rounded to nearest even.
fn add_bfloats(x: u16, y: u16) -> u16 {
    let wide = |h: u16| f32::from_bits(u32::from(h) << 16);
    let sum = wide(x) + wide(y);
    let bits = sum.to_bits();
    if sum.is_nan() { (bits >> 16) as u16 | 0x40 } else { (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_wrap_at_their_operand() {
        assert_eq!([0, 3, 4, 9].map(|old| AtomicOp::Inc.apply32(old, 4, 0)), [1, 4, 0, 0]);
        assert_eq!([0, 3, 4, 9].map(|old| AtomicOp::Dec.apply32(old, 4, 0)), [4, 2, 3, 4]);
        assert_eq!(AtomicOp::Wrap.apply32(2, 5, 7), 9);
    }

    #[test]
    fn widths_do_not_leak_into_each_other() {
        assert_eq!(AtomicOp::Add.apply32(u32::MAX, 1, 0), 0);
        assert_eq!(AtomicOp::Add.apply64(u32::MAX.into(), 1, 0), 1 << 32);
        assert_eq!(AtomicOp::SMin.apply32(1, u32::MAX, 0), u32::MAX);
        assert_eq!(AtomicOp::UMin.apply64(1, u64::MAX, 0), 1);
    }

    #[test]
    fn packed_sums_stay_in_their_halves() {
        let one = F16::from_f32(1.0).0;
        assert_eq!(AtomicOp::PkAddF16.apply32(u32::from(one), u32::from(one), 0), u32::from(F16::from_f32(2.0).0));
        assert_eq!(AtomicOp::PkAddBf16.apply32(0x3f80_0000, 0x3f80_3f80, 0), 0x4000_3f80);
        assert_eq!(AtomicOp::FAdd.apply32(1, 1, 0), 2, "denormals are kept");
    }

    #[test]
    fn sums_of_floats_keep_the_denormals_that_their_memory_or_the_mode_keeps() {
        let of = |arch| AtomicOp::FAdd.in_memory_of(arch, 4).apply32(1, 0x8000_0003, 0);
        assert_eq!([Arch::Gfx908, Arch::Gfx90a, Arch::Gfx942].map(of), [0, 0, 0x8000_0002]);
        assert_eq!(AtomicOp::FAdd.in_memory_of(Arch::Gfx90a, 8).apply64(1, 2, 0), 3, "doubles keep them");
        // A normal sum of a denormal one, and a denormal difference of normal ones.
        let small = f32::MIN_POSITIVE.to_bits();
        assert_eq!(AtomicOp::FAddFlushing.apply32(small, 5, 0), small);
        assert_eq!(AtomicOp::FAddFlushing.apply32(small + 5, small | 1 << 31, 0), 0);
        // Modes: all, sources only, results only.
        let modes = [Mode(0x3c0), Mode(0x3e0), Mode(0x3d0)];
        assert_eq!(modes.map(|mode| AtomicOp::FAdd.apply32_in(mode, small + 5, small | 1 << 31, 0)), [0, 5, 0]);
        assert_eq!(modes.map(|mode| AtomicOp::FMin.apply32_in(mode, small, 5, 0)), [0, 0, 0]);
        assert_eq!(AtomicOp::FAdd.apply64_in(Mode(0x330), 5, 0, 0), 0);
        assert_eq!(AtomicOp::PkAddF16.apply32_in(Mode(0x330), 0x0001_0001, 0x3c00_0000, 0), 0x3c00_0000);
    }
}
