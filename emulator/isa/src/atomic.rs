//! Read-modify-write operations on memory and LDS.
//!
//! Source: Vega ISA manual, opcode tables of "FLAT", "MUBUF" and "DS"; CDNA2 and CDNA3 manuals for the float atomics.

use crate::fp::{F16, Float, MinMax};
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
    /// Smaller of floats.
    FMin,
    /// Larger of floats.
    FMax,
    /// Sums of two halves.
    PkAddF16,
    /// Sums of two bfloats.
    PkAddBf16,
}

/// Float atomics behave as in IEEE mode.
const IEEE: Mode = Mode(0x3f0);

impl AtomicOp {
    /// The new value of 32 bits, from the old one, the operand and the second operand.
    pub fn apply32(self, old: u32, a: u32, b: u32) -> u32 {
        match self {
            AtomicOp::SMin => (old as i32).min(a as i32) as u32,
            AtomicOp::SMax => (old as i32).max(a as i32) as u32,
            AtomicOp::PkAddF16 => pairwise(old, a, |x, y| F16::add_nearest(F16(x), F16(y)).0),
            AtomicOp::PkAddBf16 => pairwise(old, a, add_bfloats),
            _ => match self.float([old, a, b].map(f32::from_bits)) {
                Some(new) => new.to_bits(),
                None => self.integer(old.into(), a.into(), b.into(), u32::MAX.into()) as u32,
            },
        }
    }

    /// The new value of 64 bits.
    pub fn apply64(self, old: u64, a: u64, b: u64) -> u64 {
        match self {
            AtomicOp::SMin => (old as i64).min(a as i64) as u64,
            AtomicOp::SMax => (old as i64).max(a as i64) as u64,
            _ => match self.float([old, a, b].map(f64::from_bits)) {
                Some(new) => new.to_bits(),
                None => self.integer(old, a, b, u64::MAX),
            },
        }
    }

    /// The operations on floats of either width; `None` for another operation.
    #[inline]
    fn float<T: Float + MinMax + PartialEq>(self, [old, a, b]: [T; 3]) -> Option<T> {
        Some(match self {
            AtomicOp::FCmpSwap if old == b => a,
            AtomicOp::FCmpSwap => old,
            AtomicOp::FAdd => T::add_nearest(old, a),
            AtomicOp::FMin => a.smaller(old, IEEE),
            AtomicOp::FMax => a.larger(old, IEEE),
            _ => return None,
        })
    }

    /// The operations that are the same for both widths; `mask` is the width.
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
}
