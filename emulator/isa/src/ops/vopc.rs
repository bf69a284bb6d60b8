//! VOPC: comparisons that make a lane mask. Source: Vega ISA manual, "VOPC Instructions".

#![allow(
    clippy::neg_cmp_op_on_partial_ord,
    clippy::double_comparisons,
    reason = "with NaN, `nge` is not `lt` and `lg` is not `ne`"
)]

use crate::action::Action;
use crate::fp::F16;
use crate::op::{Flags, Op};

/// The sixteen conditions of a floating-point type, plain and with EXEC.
macro_rules! float_compares {
    ($type:ty, $flags:expr, |$a:ident, $b:ident| ($x:expr, $y:expr), $($name:ident $xname:ident $code:literal $xcode:literal $cond:expr $(=> $action:ident)?;)*) => {
        &[$(
            row!(Vopc $name $code ALL cmp |$a: $type, $b: $type| { let ($a, $b) = ($x, $y); $cond }).with($flags)$(.is(Action::$action))?,
            row!(Vopc $xname $xcode ALL cmp |$a: $type, $b: $type| { let ($a, $b) = ($x, $y); $cond }).with($flags).with(Flags::WRITES_EXEC)$(.is(Action::$action))?,
        )*]
    };
}

/// The eight conditions of an integer type, plain and with EXEC.
macro_rules! integer_compares {
    ($type:ty, $flags:expr, $($name:ident $xname:ident $code:literal $xcode:literal |$a:ident, $b:ident| $cond:expr $(=> $action:ident)?;)*) => {
        &[$(
            row!(Vopc $name $code ALL cmp |$a: $type, $b: $type| { $cond }).with($flags)$(.is(Action::$action))?,
            row!(Vopc $xname $xcode ALL cmp |$a: $type, $b: $type| { $cond }).with($flags).with(Flags::WRITES_EXEC)$(.is(Action::$action))?,
        )*]
    };
}

const WIDE: Flags = Flags::NO_SDWA;
/// A class is of the bits, not of what arithmetic reads. Source: LLVM's description of `llvm.is.fpclass`, which these implement.
const CLASS_FLAGS: Flags = Flags::NO_CLAMP.and(Flags::DENORMALS);
const WIDE_CLASS: Flags = WIDE.and(CLASS_FLAGS);

#[rustfmt::skip]
pub(crate) static CLASS: &[Op] = &[
    row!(Vopc v_cmp_class_f32  0x10 ALL cmp |a: f32, b: u32| { class32(a) & b != 0 }).with(CLASS_FLAGS),
    row!(Vopc v_cmpx_class_f32 0x11 ALL cmp |a: f32, b: u32| { class32(a) & b != 0 }).with(CLASS_FLAGS).with(Flags::WRITES_EXEC),
    row!(Vopc v_cmp_class_f64  0x12 ALL cmp |a: f64, b: u32| { class64(a) & b != 0 }).with(WIDE_CLASS),
    row!(Vopc v_cmpx_class_f64 0x13 ALL cmp |a: f64, b: u32| { class64(a) & b != 0 }).with(WIDE_CLASS).with(Flags::WRITES_EXEC),
    row!(Vopc v_cmp_class_f16  0x14 ALL cmp |a: F16, b: u32| { class16(a) & b != 0 }).with(CLASS_FLAGS),
    row!(Vopc v_cmpx_class_f16 0x15 ALL cmp |a: F16, b: u32| { class16(a) & b != 0 }).with(CLASS_FLAGS).with(Flags::WRITES_EXEC),
];

#[rustfmt::skip]
pub(crate) static F16S: &[Op] = float_compares! { F16, Flags::NONE, |a, b| (a.to_f32(), b.to_f32()),
    v_cmp_f_f16   v_cmpx_f_f16   0x20 0x30 { let _ = (a, b); false };
    v_cmp_lt_f16  v_cmpx_lt_f16  0x21 0x31 a < b;
    v_cmp_eq_f16  v_cmpx_eq_f16  0x22 0x32 a == b => Equality;
    v_cmp_le_f16  v_cmpx_le_f16  0x23 0x33 a <= b;
    v_cmp_gt_f16  v_cmpx_gt_f16  0x24 0x34 a > b;
    v_cmp_lg_f16  v_cmpx_lg_f16  0x25 0x35 a < b || a > b;
    v_cmp_ge_f16  v_cmpx_ge_f16  0x26 0x36 a >= b;
    v_cmp_o_f16   v_cmpx_o_f16   0x27 0x37 !(a.is_nan() || b.is_nan());
    v_cmp_u_f16   v_cmpx_u_f16   0x28 0x38 a.is_nan() || b.is_nan();
    v_cmp_nge_f16 v_cmpx_nge_f16 0x29 0x39 !(a >= b);
    v_cmp_nlg_f16 v_cmpx_nlg_f16 0x2a 0x3a !(a < b || a > b);
    v_cmp_ngt_f16 v_cmpx_ngt_f16 0x2b 0x3b !(a > b);
    v_cmp_nle_f16 v_cmpx_nle_f16 0x2c 0x3c !(a <= b);
    v_cmp_neq_f16 v_cmpx_neq_f16 0x2d 0x3d a != b;
    v_cmp_nlt_f16 v_cmpx_nlt_f16 0x2e 0x3e !(a < b);
    v_cmp_tru_f16 v_cmpx_tru_f16 0x2f 0x3f { let _ = (a, b); true };
};

#[rustfmt::skip]
pub(crate) static F32S: &[Op] = float_compares! { f32, Flags::NONE, |a, b| (a, b),
    v_cmp_f_f32   v_cmpx_f_f32   0x40 0x50 { let _ = (a, b); false };
    v_cmp_lt_f32  v_cmpx_lt_f32  0x41 0x51 a < b;
    v_cmp_eq_f32  v_cmpx_eq_f32  0x42 0x52 a == b => Equality;
    v_cmp_le_f32  v_cmpx_le_f32  0x43 0x53 a <= b;
    v_cmp_gt_f32  v_cmpx_gt_f32  0x44 0x54 a > b;
    v_cmp_lg_f32  v_cmpx_lg_f32  0x45 0x55 a < b || a > b;
    v_cmp_ge_f32  v_cmpx_ge_f32  0x46 0x56 a >= b;
    v_cmp_o_f32   v_cmpx_o_f32   0x47 0x57 !(a.is_nan() || b.is_nan());
    v_cmp_u_f32   v_cmpx_u_f32   0x48 0x58 a.is_nan() || b.is_nan();
    v_cmp_nge_f32 v_cmpx_nge_f32 0x49 0x59 !(a >= b);
    v_cmp_nlg_f32 v_cmpx_nlg_f32 0x4a 0x5a !(a < b || a > b);
    v_cmp_ngt_f32 v_cmpx_ngt_f32 0x4b 0x5b !(a > b);
    v_cmp_nle_f32 v_cmpx_nle_f32 0x4c 0x5c !(a <= b);
    v_cmp_neq_f32 v_cmpx_neq_f32 0x4d 0x5d a != b;
    v_cmp_nlt_f32 v_cmpx_nlt_f32 0x4e 0x5e !(a < b);
    v_cmp_tru_f32 v_cmpx_tru_f32 0x4f 0x5f { let _ = (a, b); true };
};

#[rustfmt::skip]
pub(crate) static F64S: &[Op] = float_compares! { f64, WIDE, |a, b| (a, b),
    v_cmp_f_f64   v_cmpx_f_f64   0x60 0x70 { let _ = (a, b); false };
    v_cmp_lt_f64  v_cmpx_lt_f64  0x61 0x71 a < b;
    v_cmp_eq_f64  v_cmpx_eq_f64  0x62 0x72 a == b => Equality;
    v_cmp_le_f64  v_cmpx_le_f64  0x63 0x73 a <= b;
    v_cmp_gt_f64  v_cmpx_gt_f64  0x64 0x74 a > b;
    v_cmp_lg_f64  v_cmpx_lg_f64  0x65 0x75 a < b || a > b;
    v_cmp_ge_f64  v_cmpx_ge_f64  0x66 0x76 a >= b;
    v_cmp_o_f64   v_cmpx_o_f64   0x67 0x77 !(a.is_nan() || b.is_nan());
    v_cmp_u_f64   v_cmpx_u_f64   0x68 0x78 a.is_nan() || b.is_nan();
    v_cmp_nge_f64 v_cmpx_nge_f64 0x69 0x79 !(a >= b);
    v_cmp_nlg_f64 v_cmpx_nlg_f64 0x6a 0x7a !(a < b || a > b);
    v_cmp_ngt_f64 v_cmpx_ngt_f64 0x6b 0x7b !(a > b);
    v_cmp_nle_f64 v_cmpx_nle_f64 0x6c 0x7c !(a <= b);
    v_cmp_neq_f64 v_cmpx_neq_f64 0x6d 0x7d a != b;
    v_cmp_nlt_f64 v_cmpx_nlt_f64 0x6e 0x7e !(a < b);
    v_cmp_tru_f64 v_cmpx_tru_f64 0x6f 0x7f { let _ = (a, b); true };
};

#[rustfmt::skip]
pub(crate) static I16S: &[Op] = integer_compares! { i16, Flags::NONE,
    v_cmp_f_i16   v_cmpx_f_i16   0xa0 0xb0 |a, b| { let _ = (a, b); false };
    v_cmp_lt_i16  v_cmpx_lt_i16  0xa1 0xb1 |a, b| a < b;
    v_cmp_eq_i16  v_cmpx_eq_i16  0xa2 0xb2 |a, b| a == b => Equality;
    v_cmp_le_i16  v_cmpx_le_i16  0xa3 0xb3 |a, b| a <= b;
    v_cmp_gt_i16  v_cmpx_gt_i16  0xa4 0xb4 |a, b| a > b;
    v_cmp_ne_i16  v_cmpx_ne_i16  0xa5 0xb5 |a, b| a != b => Equality;
    v_cmp_ge_i16  v_cmpx_ge_i16  0xa6 0xb6 |a, b| a >= b;
    v_cmp_t_i16   v_cmpx_t_i16   0xa7 0xb7 |a, b| { let _ = (a, b); true };
};

#[rustfmt::skip]
pub(crate) static U16S: &[Op] = integer_compares! { u16, Flags::NONE,
    v_cmp_f_u16   v_cmpx_f_u16   0xa8 0xb8 |a, b| { let _ = (a, b); false };
    v_cmp_lt_u16  v_cmpx_lt_u16  0xa9 0xb9 |a, b| a < b;
    v_cmp_eq_u16  v_cmpx_eq_u16  0xaa 0xba |a, b| a == b => Equality;
    v_cmp_le_u16  v_cmpx_le_u16  0xab 0xbb |a, b| a <= b;
    v_cmp_gt_u16  v_cmpx_gt_u16  0xac 0xbc |a, b| a > b;
    v_cmp_ne_u16  v_cmpx_ne_u16  0xad 0xbd |a, b| a != b => Equality;
    v_cmp_ge_u16  v_cmpx_ge_u16  0xae 0xbe |a, b| a >= b;
    v_cmp_t_u16   v_cmpx_t_u16   0xaf 0xbf |a, b| { let _ = (a, b); true };
};

#[rustfmt::skip]
pub(crate) static I32S: &[Op] = integer_compares! { i32, Flags::NONE,
    v_cmp_f_i32   v_cmpx_f_i32   0xc0 0xd0 |a, b| { let _ = (a, b); false };
    v_cmp_lt_i32  v_cmpx_lt_i32  0xc1 0xd1 |a, b| a < b;
    v_cmp_eq_i32  v_cmpx_eq_i32  0xc2 0xd2 |a, b| a == b => Equality;
    v_cmp_le_i32  v_cmpx_le_i32  0xc3 0xd3 |a, b| a <= b;
    v_cmp_gt_i32  v_cmpx_gt_i32  0xc4 0xd4 |a, b| a > b;
    v_cmp_ne_i32  v_cmpx_ne_i32  0xc5 0xd5 |a, b| a != b => Equality;
    v_cmp_ge_i32  v_cmpx_ge_i32  0xc6 0xd6 |a, b| a >= b;
    v_cmp_t_i32   v_cmpx_t_i32   0xc7 0xd7 |a, b| { let _ = (a, b); true };
};

#[rustfmt::skip]
pub(crate) static U32S: &[Op] = integer_compares! { u32, Flags::NONE,
    v_cmp_f_u32   v_cmpx_f_u32   0xc8 0xd8 |a, b| { let _ = (a, b); false };
    v_cmp_lt_u32  v_cmpx_lt_u32  0xc9 0xd9 |a, b| a < b;
    v_cmp_eq_u32  v_cmpx_eq_u32  0xca 0xda |a, b| a == b => Equality;
    v_cmp_le_u32  v_cmpx_le_u32  0xcb 0xdb |a, b| a <= b;
    v_cmp_gt_u32  v_cmpx_gt_u32  0xcc 0xdc |a, b| a > b;
    v_cmp_ne_u32  v_cmpx_ne_u32  0xcd 0xdd |a, b| a != b => Equality;
    v_cmp_ge_u32  v_cmpx_ge_u32  0xce 0xde |a, b| a >= b;
    v_cmp_t_u32   v_cmpx_t_u32   0xcf 0xdf |a, b| { let _ = (a, b); true };
};

#[rustfmt::skip]
pub(crate) static I64S: &[Op] = integer_compares! { i64, WIDE,
    v_cmp_f_i64   v_cmpx_f_i64   0xe0 0xf0 |a, b| { let _ = (a, b); false };
    v_cmp_lt_i64  v_cmpx_lt_i64  0xe1 0xf1 |a, b| a < b;
    v_cmp_eq_i64  v_cmpx_eq_i64  0xe2 0xf2 |a, b| a == b => Equality;
    v_cmp_le_i64  v_cmpx_le_i64  0xe3 0xf3 |a, b| a <= b;
    v_cmp_gt_i64  v_cmpx_gt_i64  0xe4 0xf4 |a, b| a > b;
    v_cmp_ne_i64  v_cmpx_ne_i64  0xe5 0xf5 |a, b| a != b => Equality;
    v_cmp_ge_i64  v_cmpx_ge_i64  0xe6 0xf6 |a, b| a >= b;
    v_cmp_t_i64   v_cmpx_t_i64   0xe7 0xf7 |a, b| { let _ = (a, b); true };
};

#[rustfmt::skip]
pub(crate) static U64S: &[Op] = integer_compares! { u64, WIDE,
    v_cmp_f_u64   v_cmpx_f_u64   0xe8 0xf8 |a, b| { let _ = (a, b); false };
    v_cmp_lt_u64  v_cmpx_lt_u64  0xe9 0xf9 |a, b| a < b;
    v_cmp_eq_u64  v_cmpx_eq_u64  0xea 0xfa |a, b| a == b => Equality;
    v_cmp_le_u64  v_cmpx_le_u64  0xeb 0xfb |a, b| a <= b;
    v_cmp_gt_u64  v_cmpx_gt_u64  0xec 0xfc |a, b| a > b;
    v_cmp_ne_u64  v_cmpx_ne_u64  0xed 0xfd |a, b| a != b => Equality;
    v_cmp_ge_u64  v_cmpx_ge_u64  0xee 0xfe |a, b| a >= b;
    v_cmp_t_u64   v_cmpx_t_u64   0xef 0xff |a, b| { let _ = (a, b); true };
};

/// The class bit of a number: signaling NaN, quiet NaN, then from minus infinity up to plus infinity.
fn class(nan: bool, quiet: bool, negative: bool, infinite: bool, zero: bool, denormal: bool) -> u32 {
    let magnitude = match (infinite, zero, denormal) {
        (true, ..) => 0,
        (_, true, _) => 3,
        (_, _, true) => 2,
        _ => 1,
    };
    1 << match (nan, quiet, negative) {
        (true, false, _) => 0,
        (true, true, _) => 1,
        (_, _, true) => 2 + magnitude,
        (_, _, false) => 9 - magnitude,
    }
}

fn class32(a: f32) -> u32 {
    class(a.is_nan(), a.to_bits() & 1 << 22 != 0, a.is_sign_negative(), a.is_infinite(), a == 0.0, a.is_subnormal())
}

fn class64(a: f64) -> u32 {
    class(a.is_nan(), a.to_bits() & 1 << 51 != 0, a.is_sign_negative(), a.is_infinite(), a == 0.0, a.is_subnormal())
}

fn class16(a: F16) -> u32 {
    let magnitude = a.0 & 0x7fff;
    class(a.is_nan(), a.0 & 0x200 != 0, a.0 >> 15 == 1, magnitude == 0x7c00, magnitude == 0, magnitude < 0x400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_the_class_bit_of_the_manual() {
        let numbers = [
            f32::from_bits(0x7f80_0001),
            f32::NAN,
            f32::NEG_INFINITY,
            -1.0,
            -1e-40,
            -0.0,
            0.0,
            1e-40,
            1.0,
            f32::INFINITY,
        ];
        for (bit, number) in numbers.into_iter().enumerate() {
            assert_eq!(class32(number), 1 << bit, "{number:?}");
            if bit != 0 {
                assert_eq!(
                    class64(if bit == 4 {
                        -1e-310
                    } else if bit == 7 {
                        1e-310
                    } else {
                        f64::from(number)
                    }),
                    1 << bit
                );
            }
        }
        assert_eq!(class16(F16(0x8001)), 1 << 4);
        assert_eq!(class16(F16(0x7c00)), 1 << 9);
    }
}
