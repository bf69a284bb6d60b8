//! What MI350 has and earlier processors lack. LLVM assembles; what is expected is computed here, from what the instructions' names and
//! formats say.

use amdgpu_isa::Arch;
use amdgpu_isa::mode::Mode;
use amdgpu_isa::wave::LANES;

use crate::machine::{COMPUTE, Machine};
use crate::seeded::Seeded;

const ARCH: Arch = Arch::Gfx950;
/// Overflowing results of conversions are the largest number.
const SATURATING: Mode = Mode(COMPUTE.0 | Mode::FP16_OVFL);

/// Singles of every kind, and halves and brain floats near each other.
fn singles(random: &mut Seeded) -> [u32; LANES] {
    const SPECIAL: [f32; 12] =
        [0.0, -0.0, 1.0, 65504.0, 65520.0, -65536.0, 3.4e38, 1e-40, 6e-8, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    std::array::from_fn(|l| match random.below(4) {
        0 => SPECIAL[l % SPECIAL.len()].to_bits(),
        1 => random.word() & 0xffff_e000 | 0x1000,
        2 => random.word() & 0xffff_0000 | 0x8000,
        _ => random.word(),
    })
}

/// The float of a format whose bits are nearest to those of a single, by all of its numbers: sign, exponent, mantissa, as IEEE 754 has them.
pub(crate) fn nearest(x: f32, exponent: u32, mantissa: u32) -> u32 {
    let (bits, bias) = (exponent + mantissa, (1 << (exponent - 1)) - 1);
    let infinity = ((1u32 << exponent) - 1) << mantissa;
    let value = |code: u32| match code >> mantissa {
        0 => f64::from(code) * 2f64.powi(1 - bias - mantissa as i32),
        field => {
            f64::from(code & ((1 << mantissa) - 1) | 1 << mantissa) * 2f64.powi(field as i32 - bias - mantissa as i32)
        }
    };
    let magnitude = f64::from(x.abs());
    let (mut low, mut high) = (0, infinity);
    while high - low > 1 {
        let middle = u32::midpoint(low, high);
        if value(middle) <= magnitude { low = middle } else { high = middle }
    }
    let (below, above) = (magnitude - value(low), value(high) - magnitude);
    let up = above < below || above == below && low & 1 == 1;
    (if up { high } else { low }) | u32::from(x.is_sign_negative()) << bits
}

#[test]
fn singles_become_the_nearest_halves_and_brain_floats_in_every_rounding_mode() {
    let mut random = Seeded(1);
    for mode in [COMPUTE, SATURATING, Mode(COMPUTE.0 | 0xf)] {
        for _ in 0..64 {
            let mut m =
                Machine::new(ARCH, "v_cvt_pk_f16_f32 v2, v0, v1\nv_cvt_pk_bf16_f32 v3, v0, -v1\nv_cvt_f32_bf16 v4, v3");
            m.wave.mode = mode;
            let (a, b) = (singles(&mut random), singles(&mut random));
            (*m.v(0), *m.v(1)) = (a, b);
            m.run();
            for l in 0..LANES {
                let signs = [[1.0, 1.0], [1.0, -1.0]];
                for (register, (exponent, mantissa), signs) in [(2, (5, 10), signs[0]), (3, (8, 7), signs[1])] {
                    let got = m.v(register)[l];
                    for (half, (x, sign)) in [a[l], b[l]].into_iter().zip(signs).enumerate() {
                        let (x, code) = (sign * f32::from_bits(x), got >> (16 * half) & 0xffff);
                        let infinity = ((1 << exponent) - 1) << mantissa;
                        if x.is_nan() {
                            assert!(code & 0x7fff > infinity, "{x} became {code:#x}");
                            continue;
                        }
                        let mut expected = if x.is_infinite() {
                            infinity | nearest(0f32.copysign(x), exponent, mantissa)
                        } else {
                            nearest(x, exponent, mantissa)
                        };
                        if mode == SATURATING && x.is_finite() && expected & 0x7fff == infinity {
                            expected -= 1;
                        }
                        assert_eq!(code, expected, "{x:e} in register {register}, {mode:?}");
                    }
                }
                let brain = f32::from_bits(m.v(3)[l] << 16);
                assert!(f32::from_bits(m.v(4)[l]) == brain || brain.is_nan());
            }
        }
    }
}

#[test]
fn as_many_random_bits_round_up_as_a_number_is_above_the_one_below() {
    let mut m = Machine::new(ARCH, "v_cvt_sr_f16_f32 v2, v0, v1 op_sel:[0,0,1]\nv_cvt_sr_bf16_f32 v2, -v0, v1");
    // A quarter of the way from 1 to the next half; of that to the next brain float it is a 32nd.
    (*m.v(0), *m.v(2)) = ([(1.0f32 + 2f32.powi(-12)).to_bits(); LANES], [0xaaaa_aaaa; LANES]);
    *m.v(1) = std::array::from_fn(|l| (l as u32) << 26 | 0x03ff_ffff);
    m.run();
    let (halves, brains) = (m.v(2).map(|x| x >> 16), m.v(2).map(|x| x & 0xffff));
    assert_eq!([0x3c00, 0x3c01].map(|code| halves.iter().filter(|x| **x == code).count()), [48, 16]);
    assert_eq!([0xbf80, 0xbf81].map(|code| brains.iter().filter(|x| **x == code).count()), [62, 2]);
}

#[test]
fn minimum_and_maximum_of_three_are_nan_if_one_is_and_order_zeros() {
    let mut random = Seeded(2);
    for _ in 0..32 {
        let program = "v_minimum3_f32 v4, v0, v1, v2
                       v_maximum3_f32 v5, v0, v1, v2
                       v_pk_minimum3_f16 v6, v0, v1, v2
                       v_pk_maximum3_f16 v7, v0, v1, v2";
        let mut m = Machine::new(ARCH, program);
        let sources = [singles(&mut random), singles(&mut random), singles(&mut random)];
        (*m.v(0), *m.v(1), *m.v(2)) = (sources[0], sources[1], sources[2]);
        m.run();
        for l in 0..LANES {
            let of = |words: [u32; 3], least: bool| {
                let mut values = words.map(f32::from_bits);
                values.sort_by(f32::total_cmp);
                let nan = values.iter().any(|x| x.is_nan());
                (!nan).then_some(if least { values[0] } else { values[2] }.to_bits())
            };
            let words = sources.map(|source| source[l]);
            for (register, least) in [(4, true), (5, false)] {
                let got = m.v(register)[l];
                assert_eq!((!f32::from_bits(got).is_nan()).then_some(got), of(words, least), "{words:x?}");
            }
            for (register, least) in [(6, true), (7, false)] {
                for shift in [0, 16] {
                    let got = m.v(register)[l] >> shift & 0xffff;
                    // In the order of singles that have the bits of halves above.
                    let halves = words.map(|x| x >> shift & 0xffff);
                    let nan = halves.iter().any(|x| x & 0x7fff > 0x7c00);
                    let key = |x: &u32| if x & 0x8000 == 0 { *x as i32 } else { -1 - (*x as i32 & 0x7fff) };
                    let chosen =
                        if least { halves.iter().min_by_key(|x| key(x)) } else { halves.iter().max_by_key(|x| key(x)) };
                    assert!(if nan { got & 0x7fff > 0x7c00 } else { Some(&got) == chosen }, "{halves:x?}: {got:x}");
                }
            }
        }
    }
}

#[test]
fn every_truth_table_gives_each_bit_what_its_entry_says() {
    // Each bit is one of the eight combinations, in both halves.
    let (a, b, c) = (0xf0f0_f0f0u32, 0xcccc_cccc, 0xaaaa_aaaa);
    for table in 0..=255u32 {
        let program = format!(
            "v_bitop3_b32 v3, v0, v1, v2 bitop3:{table:#x}\nv_bitop3_b16 v4, v0, v1, v2 bitop3:{table:#x} op_sel:[1,0,0,1]"
        );
        let mut m = Machine::new(ARCH, &program);
        (*m.v(0), *m.v(1), *m.v(2), *m.v(4)) = ([a; LANES], [b; LANES], [c; LANES], [0x1234; LANES]);
        m.run();
        let expected = (0..32).fold(0, |bits, n| {
            let entry = (a >> n & 1) << 2 | (b >> n & 1) << 1 | c >> n & 1;
            bits | (table >> entry & 1) << n
        });
        assert_eq!(m.v(3)[9], expected, "{table:#x}");
        assert_eq!(m.v(4)[9], expected << 16 | 0x1234, "{table:#x}");
    }
}

#[test]
fn dot_products_of_brain_floats_add_to_a_single() {
    let mut random = Seeded(3);
    let program = "v_dot2_f32_bf16 v3, v0, v1, v2 neg_lo:[1,0,0] neg_hi:[0,1,0]
                   v_dot2c_f32_bf16 v2, v0, v1";
    let mut m = Machine::new(ARCH, program);
    // Small integers, whose sums are exact.
    let mut brain = || (random.below(63) as f32 - 31.0).to_bits() >> 16;
    let mut pairs = || -> [u32; LANES] { std::array::from_fn(|_| brain() | brain() << 16) };
    let (a, b) = (pairs(), pairs());
    let c: [u32; LANES] = std::array::from_fn(|l| (l as f32 - 20.5).to_bits());
    (*m.v(0), *m.v(1), *m.v(2)) = (a, b, c);
    m.run();
    for l in 0..LANES {
        let part = |x: u32, h: u32| f32::from_bits(x >> (16 * h) << 16);
        let plain = part(a[l], 0) * part(b[l], 0) + part(a[l], 1) * part(b[l], 1) + f32::from_bits(c[l]);
        let chosen = -part(a[l], 0) * part(b[l], 0) - part(a[l], 1) * part(b[l], 1) + f32::from_bits(c[l]);
        assert_eq!([2, 3].map(|register| f32::from_bits(m.v(register)[l])), [plain, chosen]);
    }
}

#[test]
fn transposing_loads_give_sixteen_lanes_the_columns_of_the_rows_that_they_read() {
    for (name, bits, lane_bits) in
        [("b64_tr_b4", 4, 64), ("b96_tr_b6", 6, 96), ("b64_tr_b8", 8, 64), ("b64_tr_b16", 16, 64)]
    {
        let mut m = Machine::new(ARCH, &format!("ds_read_{name} v[2:{}], v0 offset:16", 1 + lane_bits / 32));
        let mut random = Seeded(bits as u64);
        m.memory.lds.resize(8192, 0);
        m.memory.lds.fill_with(|| random.word() as u8);
        // A matrix of sixteen columns for each group, whose rows are apart. So many lanes read a row.
        let rows = lane_bits / bits;
        let (beside, row_bytes) = (16 / rows, 2 * bits);
        let stride = 64;
        let start = |l: usize| 1024 * (l / 16) + l % 16 / beside * stride + l % beside * (lane_bits / 8);
        *m.v(0) = std::array::from_fn(|l| start(l) as u32);
        m.run();
        assert_eq!(row_bytes, beside * lane_bits / 8, "{name}");
        let lds = m.memory.lds.clone();
        let bit = |byte: usize, n: usize| lds[byte + n / 8] >> (n % 8) & 1;
        for l in 0..LANES {
            for row in 0..rows {
                for n in 0..bits {
                    let at = row * bits + n;
                    let got = m.v(2 + at as u32 / 32)[l] >> (at % 32) & 1;
                    let from = 16 + 1024 * (l / 16) + row * stride;
                    assert_eq!(got, u32::from(bit(from, l % 16 * bits + n)), "{name}: lane {l}, row {row}, bit {n}");
                }
            }
        }
    }
}

#[test]
fn three_and_four_dwords_of_each_lane_land_one_after_the_other_in_lds() {
    for (line, bytes) in [
        ("global_load_lds_dwordx3 v[2:3], off offset:8", 12),
        ("global_load_lds_dwordx4 v[2:3], off offset:8", 16),
        ("buffer_load_dwordx3 v2, s[4:7], 0 offen offset:8 lds", 12),
        ("buffer_load_dwordx4 v2, s[4:7], 0 offen offset:8 lds", 16),
    ] {
        let mut m = Machine::new(ARCH, line);
        let active = 0xffff_0fff_1234_5677;
        m.wave.set_exec(active);
        m.memory.bytes.resize(4096, 0);
        for (n, byte) in m.memory.bytes.iter_mut().enumerate() {
            *byte = (n * 37 + n / 256 * 91) as u8;
        }
        m.memory.lds.resize(2048, 0);
        m.memory.lds.fill(0xaa);
        m.wave.sgpr[124] = 32;
        (m.wave.sgpr[4], m.wave.sgpr[5], m.wave.sgpr[6], m.wave.sgpr[7]) = (0, 0, 4096, 0);
        m.set_v64(2, std::array::from_fn(|l| 20 * l as u64));
        m.run();
        for l in 0..LANES {
            let to = 32 + 8 + bytes * l;
            let expected =
                if active >> l & 1 == 1 { m.memory.bytes[20 * l + 8..][..bytes].to_vec() } else { vec![0xaa; bytes] };
            assert_eq!(m.memory.lds[to..to + bytes], expected, "{line}: lane {l}");
        }
        assert_eq!(m.memory.lds[39], 0xaa);
    }
}

#[test]
fn shifted_integers_saturate_to_bytes_side_by_side() {
    let mut m = Machine::new(ARCH, "v_ashr_pk_i8_i32 v3, v0, v1, v2\nv_ashr_pk_u8_i32 v3, v0, v1, v2 op_sel:[0,0,0,1]");
    let mut random = Seeded(4);
    let (a, b): ([u32; LANES], [u32; LANES]) =
        (std::array::from_fn(|_| random.word()), std::array::from_fn(|_| random.word()));
    (*m.v(0), *m.v(1), *m.v(2)) = (a, b, std::array::from_fn(|l| l as u32 + 16));
    m.run();
    for l in 0..LANES {
        let shifted = [a[l], b[l]].map(|x| (x as i32) >> ((l + 16) % 32));
        let signed = shifted.map(|x| i8::try_from(x).unwrap_or(if x < 0 { i8::MIN } else { i8::MAX }) as u8);
        let unsigned = shifted.map(|x| u8::try_from(x).unwrap_or(if x < 0 { 0 } else { u8::MAX }));
        assert_eq!(m.v(3)[l].to_le_bytes(), [signed[0], signed[1], unsigned[0], unsigned[1]]);
    }
}

#[test]
fn eight_bit_floats_are_those_of_the_open_compute_project() {
    // Values of the OCP's specification: the largest and the smallest of each format, and what is no number.
    let program = "v_cvt_pk_f32_fp8 v[2:3], v0
                   v_cvt_pk_f32_bf8 v[4:5], v0
                   v_cvt_pk_f32_fp8_sdwa v[6:7], v0 src0_sel:WORD_1
                   v_cvt_pk_f32_bf8_sdwa v[8:9], v0 src0_sel:WORD_1
                   v_cvt_pk_fp8_f32 v10, v1, 1.0
                   v_cvt_pk_bf8_f32 v11, v1, -1.0";
    for (mode, too_large) in [(COMPUTE, [0x387f, 0xbc7c]), (SATURATING, [0x387e, 0xbc7b])] {
        let mut m = Machine::new(ARCH, program);
        m.wave.mode = mode;
        (*m.v(0), *m.v(1)) = ([0x80fc_017e; LANES], [1e30f32.to_bits(); LANES]);
        m.run();
        let float = |m: &mut Machine, register: u32| f32::from_bits(m.v(register)[3]);
        let (fp8, bf8) = ([2, 3, 6, 7].map(|r| float(&mut m, r)), [4, 5, 8, 9].map(|r| float(&mut m, r)));
        assert_eq!(fp8, [448.0, 2f32.powi(-9), -384.0, -0.0]);
        assert!(bf8[0].is_nan() && bf8[1] == 2f32.powi(-16) && bf8[2] == f32::NEG_INFINITY && bf8[3] == 0.0);
        assert!(fp8[3].is_sign_negative() && bf8[3].is_sign_negative());
        assert_eq!([10, 11].map(|r| m.v(r)[3]), too_large);
    }
}
