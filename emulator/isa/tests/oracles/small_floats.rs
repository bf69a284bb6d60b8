//! Floats of eight bits, which MI300 converts.

use amdgpu_isa::Arch;
use amdgpu_isa::mode::Mode;
use amdgpu_isa::wave::LANES;

use crate::machine::{COMPUTE, FLUSHING, Machine};

const ARCH: Arch = Arch::Gfx942;

#[test]
fn singles_become_bytes_in_the_half_that_op_sel_names_and_come_back_from_any_byte() {
    let mut m = Machine::new(
        ARCH,
        "v_cvt_pk_fp8_f32 v2, v0, v1
         v_cvt_pk_fp8_f32 v2, -v0, |v1| op_sel:[0,0,1]
         v_cvt_pk_bf8_f32 v3, v0, v1 op_sel:[0,0,1]
         v_cvt_f32_fp8_sdwa v4, v2 src0_sel:BYTE_2
         v_cvt_pk_f32_fp8_sdwa v[6:7], v2 src0_sel:WORD_1
         v_cvt_f32_bf8_sdwa v5, v3 mul:2 src0_sel:BYTE_3
         v_cvt_pk_f32_bf8_e64 v[8:9], v3 clamp",
    );
    // Output multipliers need modes without denormals and IEEE.
    m.wave.mode = FLUSHING;
    (*m.v(0), *m.v(1), *m.v(3)) = ([1.5f32.to_bits(); LANES], [(-20.0f32).to_bits(); LANES], [0x4238; LANES]);
    m.run();
    // 1.5 is 0 1000 100, 20 is 0 1100 010 in FP8; 1.5 is 0 10000 10 and -20 is 1 10100 01 in BF8.
    assert_eq!((m.v(2)[5], m.v(3)[5]), (0x62c4_e244, 0xd142_4238));
    assert_eq!(f32::from_bits(m.v(4)[5]), -1.5);
    assert_eq!([6, 7].map(|v| f32::from_bits(m.v(v)[5])), [-1.5, 20.0]);
    assert_eq!(f32::from_bits(m.v(5)[5]), -40.0);
    // 0x38 is 0 01110 00, a quarter; 0x42 is 1.5.
    assert_eq!([8, 9].map(|v| f32::from_bits(m.v(v)[5])), [0.25, 1.0]);
}

#[test]
fn bytes_that_are_too_large_are_nan_or_limited_as_the_mode_says() {
    for (mode, expected) in [(COMPUTE, 0x8080), (Mode(COMPUTE.0 | Mode::FP16_OVFL), 0xff7f)] {
        let mut m = Machine::new(ARCH, "v_cvt_pk_fp8_f32 v2, v0, v1");
        m.wave.mode = mode;
        (*m.v(0), *m.v(1)) = ([300f32.to_bits(); LANES], [(-1e30f32).to_bits(); LANES]);
        m.run();
        assert_eq!(m.v(2)[0] & 0xffff, expected);
    }
}
