//! What MODE, and fields of encodings that compilers hardly use, make of operations. Expected values are those of AMD's manuals and
//! pseudocode, or exact arithmetic.

use amdgpu_isa::Arch;
use amdgpu_isa::mode::Mode;
use amdgpu_isa::operand::Operand;
use amdgpu_isa::wave::LANES;

use crate::machine::{COMPUTE, Machine};

const UP: u32 = 1;
const ZERO: u32 = 3;

/// The compute mode with a rounding of singles, and of halves and doubles.
fn rounding(single: u32, other: u32) -> Mode {
    Mode(COMPUTE.0 | single | other << 2)
}

/// The first lane of `registers` behind an instruction, in a mode.
fn after<const N: usize>(arch: Arch, mode: Mode, text: &str, set: &[(u32, u32)], registers: [u32; N]) -> [u32; N] {
    let mut m = Machine::new(arch, text);
    m.wave.mode = mode;
    for &(register, value) in set {
        *m.v(register) = [value; LANES];
    }
    m.run();
    registers.map(|register| m.v(register)[0])
}

#[test]
fn scaling_and_fractions_round_as_the_mode_says() {
    let of = |mode, text: &str, a: u32, b: u32| after(Arch::Gfx90a, mode, text, &[(0, a), (1, b)], [4])[0];
    // (1 + 2^-23) * 2^-130 is no denormal; twice the largest number is none either.
    let ldexp = "v_ldexp_f32 v4, v0, v1";
    let small = (0x3f80_0001, 0u32.wrapping_sub(130));
    assert_eq!(
        [0, UP, 2, ZERO].map(|r| of(rounding(r, 0), ldexp, small.0, small.1)),
        [0x0008_0000, 0x0008_0001, 0x0008_0000, 0x0008_0000]
    );
    assert_eq!(
        [0, UP, ZERO].map(|r| of(rounding(r, 0), ldexp, 0x7f7f_ffff, 1)),
        [0x7f80_0000, 0x7f80_0000, 0x7f7f_ffff]
    );
    assert_eq!([0x7f80_0000, 0x8000_0000].map(|a| of(rounding(UP, 0), ldexp, a, 5)), [0x7f80_0000, 0x8000_0000]);
    let halves = "v_ldexp_f16 v4, v0, v1";
    assert_eq!([0, UP].map(|r| of(rounding(0, r), halves, 0x3c01, 0xfff1)), [0x0200, 0x0201]);
    assert_eq!([0, UP, ZERO].map(|r| of(rounding(0, r), halves, 0x7bff, 0x7fff)), [0x7c00, 0x7c00, 0x7bff]);
    // -2^-30 less its floor, -1.
    assert_eq!([0, ZERO].map(|r| of(rounding(r, 0), "v_fract_f32 v4, v0", 0xb080_0000, 0)), [0x3f7f_ffff; 2]);
    assert_eq!(
        [0, UP, ZERO].map(|r| of(rounding(r, 0), "v_fract_f32 v4, v0", 0xb3a0_0000, 0)),
        [0x3f7f_ffff, 0x3f7f_ffff, 0x3f7f_fffe]
    );
    assert_eq!([0, UP, ZERO].map(|r| of(rounding(0, r), "v_fract_f16 v4, v0", 0x8a00, 0)), [0x3bff, 0x3bff, 0x3bff]);
    let doubles = |r| {
        let set = [(0, 1), (1, 0x3ff0_0000), (2, 0u32.wrapping_sub(1024))];
        after(Arch::Gfx90a, rounding(0, r), "v_ldexp_f64 v[4:5], v[0:1], v2", &set, [4, 5])
    };
    assert_eq!([0, UP].map(doubles), [[0, 0x0004_0000], [1, 0x0004_0000]]);
}

#[test]
fn packed_multiply_adds_of_the_short_form_round_and_flush_as_the_mode_says() {
    let of = |mode, a: u32, b: u32, c: u32| {
        after(Arch::Gfx90a, mode, "v_pk_fmac_f16 v4, v0, v1", &[(0, a), (1, b), (4, c)], [4])[0]
    };
    let ones = 0x3c01_3c01;
    assert_eq!([0, UP].map(|r| of(rounding(0, r), ones, ones, 0)), [0x3c02_3c02, 0x3c03_3c03]);
    assert_eq!(of(Mode(0x330), 0x3c00_0001, 0x3c00_3c00, 0), 0x3c00_0000);
    assert_eq!(of(COMPUTE, 0x3c00_0001, 0x3c00_3c00, 0), 0x3c00_0001);
}

#[test]
fn halves_that_overflow_are_the_largest_ones_where_the_mode_wants_it() {
    let mode = Mode(COMPUTE.0 | Mode::FP16_OVFL);
    let of = |text: &str, a: u32, b: u32| {
        [COMPUTE, mode].map(|mode| after(Arch::Gfx942, mode, text, &[(0, a), (1, b), (2, 0)], [4])[0])
    };
    assert_eq!(of("v_add_f16 v4, v0, v1", 0x7bff, 0x7bff), [0x7c00, 0x7bff]);
    assert_eq!(of("v_mul_f16 v4, v0, v1", 0xfbff, 0x7bff), [0xfc00, 0xfbff]);
    assert_eq!(of("v_fma_f16 v4, v0, v1, v2", 0xfbff, 0x7bff), [0xfc00, 0xfbff]);
    assert_eq!(of("v_pk_mul_f16 v4, v0, v1", 0x7bff_3c00, 0x7bff_3c00), [0x7c00_3c00, 0x7bff_3c00]);
    assert_eq!(of("v_cvt_f16_f32 v4, v0", 0x4800_0000, 0), [0x7c00, 0x7bff]);
    assert_eq!(of("v_cvt_f16_u16 v4, v0", 0xffff, 0), [0x7c00, 0x7bff]);
    assert_eq!(of("v_ldexp_f16 v4, v0, v1", 0x3c00, 100), [0x7c00, 0x7bff]);
    assert_eq!(of("v_exp_f16 v4, v0", 0x4e00, 0), [0x7c00, 0x7bff]);
    assert_eq!(of("v_rcp_f16 v4, v0", 0x0001, 0), [0x7c00, 0x7bff]);
    assert_eq!(of("v_fma_mixlo_f16 v4, v0, v1, v2", 0x4800_0000, 0x4800_0000)[1] & 0xffff, 0x7bff);
    // Infinities that are no overflow.
    assert_eq!(of("v_add_f16 v4, v0, v1", 0x7c00, 0x3c00), [0x7c00; 2]);
    assert_eq!(of("v_rcp_f16 v4, v0", 0, 0), [0x7c00; 2]);
    assert_eq!(of("v_cvt_f16_f32 v4, v0", 0x7f80_0000, 0), [0x7c00; 2]);
    assert_eq!(of("v_add_f32 v4, v0, v1", 0x7f7f_ffff, 0x7f7f_ffff), [0x7f80_0000; 2]);
}

#[test]
fn dot_and_matrix_products_of_halves_flush_what_their_processor_flushes() {
    let dot = |arch, set: &[(u32, u32)]| {
        let long = after(arch, COMPUTE, "v_dot2_f32_f16 v4, v0, v1, v2", set, [4])[0];
        if arch != Arch::Gfx906 {
            let set: Vec<_> =
                set.iter().map(|&(register, value)| (if register == 2 { 4 } else { register }, value)).collect();
            let short = after(arch, COMPUTE, "v_dot2c_f32_f16 v4, v0, v1", &set, [4])[0];
            assert_eq!(short, long, "{arch}");
        }
        long
    };
    let processors = [Arch::Gfx906, Arch::Gfx908, Arch::Gfx90a, Arch::Gfx942];
    // A denormal single, and a sum that is one: whatever the mode says.
    assert_eq!(processors.map(|arch| dot(arch, &[(0, 0), (1, 0), (2, 1)])), [0; 4]);
    assert_eq!(processors.map(|arch| dot(arch, &[(0, 0), (1, 0), (2, 0x8000_0001)])), [0; 4]);
    // A denormal half.
    assert_eq!(
        processors.map(|arch| dot(arch, &[(0, 1), (1, 0x3c00), (2, 0)])),
        [0x3380_0000, 0x3380_0000, 0, 0x3380_0000]
    );
    let product = |text: &str, a: u32, b: u32, c: u32| {
        let set = [(0, a), (1, a), (2, b), (3, b), (8, c), (9, 0), (10, 0), (11, 0)];
        after(Arch::Gfx90a, COMPUTE, text, &set, [4])[0]
    };
    let (first, second) = (
        "v_mfma_f32_16x16x8bf16 v[4:7], v0, v2, v[8:11]",
        "v_mfma_f32_16x16x16bf16_1k v[4:7], v[0:1], v[2:3], v[8:11]",
    );
    for text in [first, second] {
        // Denormal factors, a denormal sum of normal ones, a denormal addend.
        assert_eq!(product(text, 0x0001_0001, 0x3f80_3f80, 0), 0, "{text}");
        assert_eq!(product(text, 0x1c80_1c80, 0x1c80_1c80, 0), 0, "{text}");
        assert_eq!(product(text, 0, 0, 5), 0, "{text}");
        assert_eq!(product(text, 0x2000_2000, 0x2000_2000, 0) >> 23, 4 + u32::from(text == second), "{text}");
    }
    assert_eq!(product("v_mfma_f32_16x16x4f32 v[4:7], v0, v2, v[8:11]", 0, 0, 5), 5);
}

#[test]
fn float_atomics_of_lds_keep_the_denormals_that_the_mode_keeps() {
    let sum = |mode: u32| {
        let mut m = Machine::new(Arch::Gfx942, "ds_add_f32 v0, v1");
        m.wave.mode = Mode(mode);
        m.wave.set_exec(1);
        m.memory.lds[..4].copy_from_slice(&1u32.to_le_bytes());
        (*m.v(0), *m.v(1)) = ([0; LANES], [1; LANES]);
        m.run();
        u32::from_le_bytes(std::array::from_fn(|n| m.memory.lds[n]))
    };
    assert_eq!([0x3f0, 0x3c0, 0x3e0].map(sum), [2, 0, 0]);
}

#[test]
fn counters_of_lds_are_at_the_low_half_of_m0_and_two_writes_of_one_place_are_the_first_one() {
    let mut m = Machine::new(
        Arch::Gfx90a,
        "ds_append v4 offset:4
         ds_consume v5
         ds_write2_b32 v0, v1, v2 offset0:3 offset1:3
         ds_write2_b32 v0, v1, v2 offset0:8 offset1:9",
    );
    m.wave.set_exec(0xff);
    m.wave.sgpr[usize::from(Operand::M0.0)] = 0x0100_0010;
    for n in 0..16u32 {
        m.memory.lds[4 * n as usize..][..4].copy_from_slice(&(1000 * n).to_le_bytes());
    }
    (*m.v(0), *m.v(1), *m.v(2)) = ([0; LANES], [0x11; LANES], [0x22; LANES]);
    m.run();
    let word = |n: usize| u32::from_le_bytes(std::array::from_fn(|byte| m.memory.lds[4 * n + byte]));
    assert_eq!([0, 3, 4, 5, 6, 8, 9].map(word), [0, 0x11, 3992, 5008, 6000, 0x11, 0x22]);
    assert_eq!((m.v(4)[7], m.v(5)[7]), (5000, 4000));
}

#[test]
fn a_wide_signed_sum_gives_its_sign_and_a_quotient_that_must_underflow_is_zero() {
    let mut m = Machine::new(Arch::Gfx90a, "v_mad_i64_i32 v[4:5], s[20:21], v0, v1, v[8:9]");
    // -5, 5, and sums of more than 64 bits.
    *m.v(0) = std::array::from_fn(|l| [5, 5, 5, 5][l % 4]);
    *m.v(1) = std::array::from_fn(|l| [u32::MAX, 1, 1, u32::MAX][l % 4]);
    m.set_v64(8, std::array::from_fn(|l| [0, 0, i64::MAX as u64, i64::MIN as u64][l % 4]));
    m.run();
    assert_eq!(m.wave.sgpr[20], 0x9999_9999);
    assert_eq!(m.v64(4)[..4], [-5i64 as u64, 5, i64::MIN as u64 + 4, i64::MAX as u64 - 4]);
    let fixup = |quotient: u32, denominator: u32, numerator: u32| {
        let set = [(0, quotient), (1, denominator), (2, numerator)];
        after(Arch::Gfx90a, COMPUTE, "v_div_fixup_f32 v4, v0, v1, v2", &set, [4])[0]
    };
    assert_eq!(fixup(0x3f80_0000, 0x7f00_0000, 0x0080_0000), 0);
    assert_eq!(fixup(0x3f80_0000, 0xff00_0000, 0x0080_0000), 0x8000_0000);
    assert_eq!(fixup(0x3f80_0000, 0x4b80_0000, 0x0080_0000), 0x3f80_0000);
}

#[test]
fn scalar_loads_ignore_the_lowest_bits_of_each_part_of_an_address() {
    let mut m = Machine::new(
        Arch::Gfx90a,
        "s_load_dword s24, s[20:21], 0x2
         s_load_dword s25, s[20:21], 0x7
         s_load_dword s26, s[20:21], s3",
    );
    for n in 0..4 {
        m.memory.bytes[4 * n] = n as u8 + 10;
    }
    (m.wave.sgpr[20], m.wave.sgpr[21], m.wave.sgpr[3]) = (2, 0, 10);
    m.run();
    assert_eq!(m.wave.sgpr[24..27], [10, 11, 12]);
}

#[test]
fn index_mode_moves_the_destination_and_what_it_is_added_to() {
    let mut m = Machine::new(
        Arch::Gfx908,
        "s_set_gpr_idx_on s10, gpr_idx(DST)
         v_mac_f32_e32 v2, v0, v1
         v_dot4c_i32_i8 v3, v0, v0
         s_set_gpr_idx_off",
    );
    m.wave.sgpr[10] = 4;
    for (register, value) in [(0, 2f32), (1, 3.0), (2, 10.0), (6, 100.0)] {
        *m.v(register) = [value.to_bits(); LANES];
    }
    (*m.v(3), *m.v(7)) = ([7; LANES], [9; LANES]);
    m.run();
    assert_eq!([2, 6].map(|n| f32::from_bits(m.v(n)[0])), [10.0, 106.0]);
    // 2.0 has one byte that is not zero: 0x40.
    assert_eq!([3, 7].map(|n| m.v(n)[0]), [7, 0x40 * 0x40 + 9]);
}

#[test]
fn a_wave_that_turns_skipping_of_vector_instructions_on_is_told_that_this_is_not_emulated() {
    use amdgpu_isa::op::Flow;
    use amdgpu_isa::wave::{Trap, Wave, vgpr_file};
    let decoder = amdgpu_isa::Decoder::new(Arch::Gfx90a);
    // s_setreg_imm32_b32 hwreg(HW_REG_MODE, 28, 1), 1
    let inst = decoder.decode(&[0xba00_0701, 1]).expect("an instruction");
    let mut wave = Wave::new(Arch::Gfx90a, 0, vgpr_file());
    let mut memory = crate::memory::Memory::new(16);
    assert_eq!(amdgpu_isa::step::execute(&mut wave, &inst, &mut memory), Flow::Trap);
    assert_eq!(wave.trap, Some(Trap::Vskip));
}

#[test]
fn float_atomics_of_memory_flush_denormals_on_the_processors_whose_memory_does() {
    let sum = |arch, text: &str| {
        let mut m = Machine::new(arch, text);
        m.wave.set_exec(1);
        m.wave.sgpr[..4].copy_from_slice(&[0, 0, 64, 0]);
        m.memory.bytes[0] = 1;
        (*m.v(0), *m.v(1), *m.v(2), *m.v(3)) = ([0; LANES], [0; LANES], [1; LANES], [0; LANES]);
        m.run();
        m.memory.bytes[0]
    };
    let processors = [Arch::Gfx908, Arch::Gfx90a, Arch::Gfx942];
    assert_eq!(processors.map(|arch| sum(arch, "global_atomic_add_f32 v[0:1], v2, off")), [0, 0, 2]);
    assert_eq!(sum(Arch::Gfx90a, "global_atomic_add_f64 v[0:1], v[2:3], off"), 2, "doubles keep them");
    assert_eq!(processors.map(|arch| sum(arch, "buffer_atomic_add_f32 v2, off, s[0:3], 0")), [0, 0, 2]);
}
