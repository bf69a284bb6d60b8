//! `v_trig_preop_f64`: a window of the bits of two over pi, for the reduction of large angles.

use crate::fp::scale::ldexp64;

/// The first 1216 fractional bits of 2/pi, most significant first. Generated with integer arithmetic from Machin's
/// formula; the leading words are those of any table of the constant.
const TWO_OVER_PI: [u64; 19] = [
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];

/// Segment `segment` of 53 bits, moved further for large arguments, as a number of its own weight.
/// Source: Vega ISA manual, V_TRIG_PREOP_F64.
pub(super) fn preop(a: f64, segment: u32) -> f64 {
    let exponent = (a.to_bits() >> 52 & 0x7ff) as i32;
    let mut shift = (segment & 31) as i32 * 53;
    if exponent > 1077 {
        shift += exponent - 1077;
    }
    let mut scale = -53 - shift;
    if exponent >= 1968 {
        scale += 128;
    }
    ldexp64(window(shift) as f64, scale)
}

/// The 53 bits that a left shift by `shift` brings to the top of the 1201-bit fraction.
fn window(shift: i32) -> u64 {
    (0..53).fold(0, |bits, n| {
        let position = (shift + n) as usize;
        let bit = if position < 1201 { TWO_OVER_PI[position / 64] >> (63 - position % 64) & 1 } else { 0 };
        bits << 1 | bit
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_add_up_to_two_over_pi() {
        let sum = preop(1.0, 0) + preop(1.0, 1) + preop(1.0, 2);
        assert_eq!(sum, std::f64::consts::FRAC_2_PI);
        assert!(preop(1.0, 1) < 2f64.powi(-53) && preop(1.0, 1) > 0.0);
    }
}
