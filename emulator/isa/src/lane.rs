//! The types that lanes and the scalar unit compute with: their bits in registers, and what modifiers and modes do to their values.

use crate::fp::brain::Brain;
use crate::fp::{F16, Float};
use crate::mode::{Mode, Rounding};
use crate::operand::Kind;

/// 32 bits that are moved, not computed, but take the sign modifiers of a float.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct M32(pub(crate) u32);

/// 32 bits that take no modifiers and have no sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct B32(pub(crate) u32);

/// A type that lanes compute with, and the scalar unit with those that are integers.
pub(crate) trait Lane: Copy {
    /// What the operand is.
    const KIND: Kind;
    /// Registers it takes (1 or 2).
    const WORDS: u32 = Self::KIND.dwords();
    /// From the bits of its registers.
    fn from_bits(bits: u64) -> Self;
    /// To the bits of its registers; 16-bit types leave the upper half clear.
    fn to_bits(self) -> u64;
    /// Zero in place of a denormal.
    #[inline(always)]
    fn flush(self) -> Self {
        self
    }
    /// Times two to the power of `exponent`; what overflows is the largest number if it `saturates`.
    #[inline(always)]
    fn scale(self, _exponent: i32, _saturates: bool) -> Self {
        self
    }
    /// Plus zero in place of minus zero.
    #[inline(always)]
    fn without_minus_zero(self) -> Self {
        self
    }
    /// Between zero and one; NaN becomes zero if `dx10`.
    #[inline(always)]
    fn saturate(self, _dx10: bool) -> Self {
        self
    }
    /// True when sources of this type lose denormals in `mode`.
    #[inline(always)]
    fn flushes_in(_mode: Mode) -> bool {
        false
    }
    /// True when results of this type lose denormals in `mode`.
    #[inline(always)]
    fn flushes_out(_mode: Mode) -> bool {
        false
    }
    /// How results of this type are rounded.
    #[inline(always)]
    fn rounding(_mode: Mode) -> Rounding {
        Rounding::Nearest
    }
    /// True when results of this type that overflow are the largest number in `mode`.
    #[inline(always)]
    fn saturates(_mode: Mode) -> bool {
        false
    }
}

macro_rules! integer_lane {
    ($($type:ty: $kind:ident as $unsigned:ty;)*) => {$(
        impl Lane for $type {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn from_bits(bits: u64) -> $type {
                bits as $type
            }
            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from(self as $unsigned)
            }
        }
    )*};
}

integer_lane! {
    i16: I16 as u16;
    u16: U16 as u16;
    i32: I32 as u32;
    u32: U32 as u32;
    i64: I64 as u64;
    u64: U64 as u64;
}

macro_rules! wrapped_lane {
    ($($type:ident: $kind:ident;)*) => {$(
        impl Lane for $type {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn from_bits(bits: u64) -> $type {
                $type(bits as u32)
            }
            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from(self.0)
            }
        }
    )*};
}

wrapped_lane! { B32: B32; }

impl Lane for M32 {
    const KIND: Kind = Kind::M32;
    #[inline(always)]
    fn from_bits(bits: u64) -> M32 {
        M32(bits as u32)
    }
    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(self.0)
    }
}

macro_rules! float_lane {
    ($type:ident, $kind:ident, $in:ident, $out:ident, $round:ident) => {
        impl Lane for $type {
            const KIND: Kind = Kind::$kind;
            #[inline(always)]
            fn from_bits(bits: u64) -> $type {
                $type::from_bits(bits as _)
            }
            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from($type::to_bits(self))
            }
            #[inline(always)]
            fn flush(self) -> $type {
                if $type::abs(self) < $type::MIN_POSITIVE { (0.0 as $type).copysign(self) } else { self }
            }
            #[inline(always)]
            fn scale(self, exponent: i32, _saturates: bool) -> $type {
                self * (2.0 as $type).powi(exponent)
            }
            #[inline(always)]
            fn without_minus_zero(self) -> $type {
                self + 0.0
            }
            #[inline(always)]
            fn saturate(self, dx10: bool) -> $type {
                if self.is_nan() {
                    if dx10 { 0.0 } else { self }
                } else if self > 1.0 {
                    1.0
                } else if self > 0.0 {
                    self
                } else {
                    0.0
                }
            }
            #[inline(always)]
            fn flushes_in(mode: Mode) -> bool {
                mode.$in()
            }
            #[inline(always)]
            fn flushes_out(mode: Mode) -> bool {
                mode.$out()
            }
            #[inline(always)]
            fn rounding(mode: Mode) -> Rounding {
                mode.$round()
            }
        }
    };
}

float_lane!(f32, F32, flush_in32, flush_out32, round32);
float_lane!(f64, F64, flush_in16_64, flush_out16_64, round16_64);

impl Lane for [f32; 2] {
    const KIND: Kind = Kind::V2F32;
    #[inline(always)]
    fn from_bits(bits: u64) -> [f32; 2] {
        [bits as u32, (bits >> 32) as u32].map(f32::from_bits)
    }
    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(self[0].to_bits()) | u64::from(self[1].to_bits()) << 32
    }
    #[inline(always)]
    fn flush(self) -> [f32; 2] {
        self.map(Lane::flush)
    }
    #[inline(always)]
    fn scale(self, exponent: i32, saturates: bool) -> [f32; 2] {
        self.map(|x| Lane::scale(x, exponent, saturates))
    }
    #[inline(always)]
    fn without_minus_zero(self) -> [f32; 2] {
        self.map(Lane::without_minus_zero)
    }
    #[inline(always)]
    fn saturate(self, dx10: bool) -> [f32; 2] {
        self.map(|x| Lane::saturate(x, dx10))
    }
    #[inline(always)]
    fn flushes_in(mode: Mode) -> bool {
        <f32 as Lane>::flushes_in(mode)
    }
    #[inline(always)]
    fn flushes_out(mode: Mode) -> bool {
        <f32 as Lane>::flushes_out(mode)
    }
    #[inline(always)]
    fn rounding(mode: Mode) -> Rounding {
        <f32 as Lane>::rounding(mode)
    }
}

impl Lane for F16 {
    const KIND: Kind = Kind::F16;
    #[inline(always)]
    fn from_bits(bits: u64) -> F16 {
        F16(bits as u16)
    }
    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(self.0)
    }
    #[inline(always)]
    fn flush(self) -> F16 {
        if self.0 & 0x7c00 == 0 { F16(self.0 & 0x8000) } else { self }
    }
    #[inline(always)]
    fn scale(self, exponent: i32, saturates: bool) -> F16 {
        let scaled = F16::from_f32(Lane::scale(self.to_f32(), exponent, saturates));
        if saturates && self.finite() { scaled.limited() } else { scaled }
    }
    #[inline(always)]
    fn without_minus_zero(self) -> F16 {
        if self.0 == 0x8000 { F16(0) } else { self }
    }
    #[inline(always)]
    fn saturate(self, dx10: bool) -> F16 {
        F16::from_f32(Lane::saturate(self.to_f32(), dx10))
    }
    #[inline(always)]
    fn flushes_in(mode: Mode) -> bool {
        mode.flush_in16_64()
    }
    #[inline(always)]
    fn flushes_out(mode: Mode) -> bool {
        mode.flush_out16_64()
    }
    #[inline(always)]
    fn rounding(mode: Mode) -> Rounding {
        mode.round16_64()
    }
    #[inline(always)]
    fn saturates(mode: Mode) -> bool {
        mode.saturates_small()
    }
}

impl Lane for Brain {
    const KIND: Kind = Kind::Bf16;
    #[inline(always)]
    fn from_bits(bits: u64) -> Brain {
        Brain(bits as u16)
    }
    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(self.0)
    }
    #[inline(always)]
    fn saturate(self, dx10: bool) -> Brain {
        Brain::from_f32(Lane::saturate(self.to_f32(), dx10))
    }
}
