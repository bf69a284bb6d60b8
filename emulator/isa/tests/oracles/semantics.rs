//! What instructions compute, against the host's arithmetic and what AMD's manuals say.

#![allow(clippy::needless_range_loop, reason = "a lane is an index into several arrays at once")]

use amdgpu_isa::Arch;
use amdgpu_isa::fp::F16;
use amdgpu_isa::mode::Mode;
use amdgpu_isa::wave::LANES;

use crate::machine::{COMPUTE, FLUSHING, Machine};
use crate::seeded::Seeded;

const ARCH: Arch = Arch::Gfx90a;

/// Floats of every exponent, and the special ones.
fn singles(random: &mut Seeded) -> [f32; LANES] {
    let special = [0.0, -0.0, 1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-40];
    std::array::from_fn(|l| if l < special.len() { special[l] } else { f32::from_bits(random.word()) })
}

fn same(got: f32, expected: f32) -> bool {
    got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan()
}

#[test]
fn a_division_as_compilers_write_it_is_the_host_s_division() {
    // LLVM's expansion of an IEEE single-precision division.
    let mut m = Machine::new(
        ARCH,
        "v_div_scale_f32 v2, s[0:1], v1, v1, v0
         v_div_scale_f32 v3, vcc, v0, v1, v0
         v_rcp_f32 v4, v2
         v_fma_f32 v5, -v2, v4, 1.0
         v_fma_f32 v4, v5, v4, v4
         v_mul_f32 v5, v3, v4
         v_fma_f32 v6, -v2, v5, v3
         v_fma_f32 v5, v6, v4, v5
         v_fma_f32 v2, -v2, v5, v3
         v_div_fmas_f32 v2, v2, v4, v5
         v_div_fixup_f32 v2, v2, v1, v0",
    );
    let mut random = Seeded(1);
    for _ in 0..1000 {
        let (n, d) = (singles(&mut random), singles(&mut random));
        // Every special value meets every other one.
        let d: [f32; LANES] = std::array::from_fn(|l| d[(l + random.below(9)) % LANES]);
        (*m.v(0), *m.v(1)) = (n.map(f32::to_bits), d.map(f32::to_bits));
        m.run();
        for l in 0..LANES {
            let got = f32::from_bits(m.v(2)[l]);
            assert!(same(got, n[l] / d[l]), "{:e} / {:e} is {got:e}, not {:e}", n[l], d[l], n[l] / d[l]);
        }
    }
}

#[test]
fn approximations_are_within_one_unit_in_the_last_place() {
    /// Mnemonic, exact function, argument from random bits.
    type Function = (&'static str, fn(f64) -> f64, fn(u32) -> f32);
    let functions: [Function; 5] = [
        ("v_rcp_f32", |x| 1.0 / x, f32::from_bits),
        ("v_rsq_f32", |x| 1.0 / x.sqrt(), f32::from_bits),
        ("v_sqrt_f32", f64::sqrt, f32::from_bits),
        ("v_exp_f32", f64::exp2, |bits| bits as i32 as f32 / 2f32.powi(24)),
        ("v_log_f32", f64::log2, f32::from_bits),
    ];
    let mut random = Seeded(2);
    for (name, exact, domain) in functions {
        let mut m = Machine::new(ARCH, &format!("{name} v1, v0"));
        for _ in 0..300 {
            let x: [f32; LANES] = std::array::from_fn(|_| domain(random.word()));
            *m.v(0) = x.map(f32::to_bits);
            m.run();
            for l in (0..LANES).filter(|&l| x[l].is_normal()) {
                let (got, expected) = (f32::from_bits(m.v(1)[l]), exact(x[l].into()));
                if expected.is_nan() || expected.abs() > f32::MAX.into() || expected.abs() < f32::MIN_POSITIVE.into() {
                    continue;
                }
                let ulp =
                    f64::from(f32::from_bits((expected.abs() as f32).to_bits() + 1)) - expected.abs() as f32 as f64;
                // The logarithm's error is absolute near one.
                let allowed = ulp.abs().max(if name == "v_log_f32" { 2f64.powi(-24) } else { 0.0 });
                assert!((f64::from(got) - expected).abs() <= allowed, "{name} {:e} is {got:e}, not {expected:e}", x[l]);
            }
        }
    }
}

#[test]
fn sine_and_cosine_take_revolutions() {
    let mut m = Machine::new(ARCH, "v_sin_f32 v1, v0\nv_cos_f32 v2, v0");
    let x: [f32; LANES] = std::array::from_fn(|l| (l as f32 - 32.0) * 7.77);
    *m.v(0) = x.map(f32::to_bits);
    m.run();
    for l in 0..LANES {
        let angle = f64::from(x[l]) * std::f64::consts::TAU;
        assert!((f64::from(f32::from_bits(m.v(1)[l])) - angle.sin()).abs() < 2f64.powi(-20), "sin {}", x[l]);
        assert!((f64::from(f32::from_bits(m.v(2)[l])) - angle.cos()).abs() < 2f64.powi(-20), "cos {}", x[l]);
    }
}

#[test]
fn a_carry_chain_adds_and_subtracts_128_bits() {
    let mut m = Machine::new(
        ARCH,
        "v_add_co_u32 v8, vcc, v0, v4
         v_addc_co_u32 v9, vcc, v1, v5, vcc
         v_addc_co_u32 v10, s[4:5], v2, v6, vcc
         v_addc_co_u32 v11, vcc, v3, v7, s[4:5]
         v_sub_co_u32 v12, vcc, v0, v4
         v_subb_co_u32 v13, vcc, v1, v5, vcc
         v_subb_co_u32 v14, vcc, v2, v6, vcc
         v_subbrev_co_u32 v15, vcc, v7, v3, vcc",
    );
    let mut random = Seeded(3);
    let mut wide = || [u128::MAX, 0, 1 << 64][random.below(3)] ^ u128::from(random.next()) << (32 * random.below(4));
    let (a, b): ([u128; LANES], [u128; LANES]) = (std::array::from_fn(|_| wide()), std::array::from_fn(|_| wide()));
    for n in 0..4 {
        *m.v(n) = a.map(|x| (x >> (32 * n)) as u32);
        *m.v(4 + n) = b.map(|x| (x >> (32 * n)) as u32);
    }
    // Half of the lanes are off: they keep what they have, and their carries are zero.
    let exec = 0xffff_0000_ffff_0000u64;
    m.wave.set_exec(exec);
    m.run();
    for l in 0..LANES {
        let on = exec >> l & 1 == 1;
        let read =
            |m: &mut Machine, first: u32| (0..4).fold(0, |x: u128, n| x | u128::from(m.v(first + n)[l]) << (32 * n));
        assert_eq!(read(&mut m, 8), if on { a[l].wrapping_add(b[l]) } else { 0 });
        assert_eq!(read(&mut m, 12), if on { a[l].wrapping_sub(b[l]) } else { 0 });
        assert_eq!(m.wave.vcc() >> l & 1 == 1, on && b[l] > a[l]);
    }
}

#[test]
fn output_multipliers_work_only_without_ieee_mode_and_denormals_and_leave_no_minus_zero() {
    let mut m = Machine::new(
        ARCH,
        "v_add_f32 v1, v0, v0 mul:4\nv_mul_f32 v2, v0, v0 div:2\nv_add_f64 v[4:5], v[6:7], v[6:7] mul:2",
    );
    *m.v(0) = [1.5f32.to_bits(); LANES];
    m.v(0)[1] = (-0f32).to_bits();
    m.set_v64(6, [3f64.to_bits(); LANES]);
    let outcome = |m: &mut Machine, mode: Mode| {
        m.wave.mode = mode;
        m.run();
        (f32::from_bits(m.v(1)[0]), f32::from_bits(m.v(2)[0]), f64::from_bits(m.v64(4)[0]), m.v(1)[1])
    };
    let (on, off) = ((12.0, 1.125, 12.0, 0), (3.0, 2.25, 6.0, 1 << 31));
    assert_eq!(outcome(&mut m, FLUSHING), on);
    assert_eq!(outcome(&mut m, COMPUTE), off);
    assert_eq!(outcome(&mut m, Mode(FLUSHING.0 | 1 << 9)), off, "IEEE mode");
    // Denormals of singles and of doubles are separate.
    assert_eq!(outcome(&mut m, Mode(FLUSHING.0 | 0x30)), (3.0, 2.25, 12.0, 1 << 31));
}

#[test]
fn clamping_follows_the_type_of_the_result_in_every_form() {
    let mut m = Machine::new(
        ARCH,
        "v_add_f32_e64 v1, v0, v0 clamp
         v_add_f32_sdwa v2, v0, v0 clamp dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD
         v_add_u32_e64 v3, v0, v0 clamp
         v_add_i32 v4, v0, v0 clamp
         v_pk_add_u16 v5, v0, v0 clamp
         v_pk_add_i16 v6, v0, v0 clamp
         v_sub_u32_e64 v7, 1, v0 clamp",
    );
    let inputs = [1.5f32.to_bits(), (-1f32).to_bits(), f32::NAN.to_bits(), 0.25f32.to_bits(), 0x7fff_8001, 0x8000_7fff];
    for (l, bits) in inputs.into_iter().enumerate() {
        m.v(0)[l] = bits;
    }
    for mode in [COMPUTE, Mode(COMPUTE.0 & !(1 << 8))] {
        m.wave.mode = mode;
        m.run();
        for (l, x) in inputs.into_iter().enumerate() {
            let sum = f32::from_bits(x) * 2.0;
            let expected = if sum.is_nan() && mode.dx10_clamp() { 0.0 } else { sum.clamp(0.0, 1.0) };
            assert!(same(f32::from_bits(m.v(1)[l]), expected), "{sum}");
            assert!(same(f32::from_bits(m.v(2)[l]), expected), "{sum}");
            assert_eq!(m.v(3)[l], x.saturating_add(x));
            assert_eq!(m.v(4)[l] as i32, (x as i32).saturating_add(x as i32));
            let halves = [x as u16, (x >> 16) as u16];
            let pack = |f: fn(u16) -> u16| u32::from(f(halves[0])) | u32::from(f(halves[1])) << 16;
            assert_eq!(m.v(5)[l], pack(|h| h.saturating_add(h)));
            assert_eq!(m.v(6)[l], pack(|h| (h as i16).saturating_add(h as i16) as u16));
            assert_eq!(m.v(7)[l], 1u32.saturating_sub(x));
        }
    }
}

#[test]
fn mixed_precision_rounds_to_a_single_and_then_to_a_half() {
    let mut m = Machine::new(ARCH, "v_fma_mixlo_f16 v3, v0, v1, v2\nv_fma_mixhi_f16 v3, v0, -v1, v2");
    // The sum is just above the middle of two halves, by less than a single can say: rounding once would go up.
    let (a, b, c) = (1.0 + 2f32.powi(-11), 1.0, 2f32.powi(-40));
    let mut random = Seeded(4);
    let mut lanes = [[a, b, c]; LANES];
    for lane in lanes.iter_mut().skip(1) {
        *lane = std::array::from_fn(|_| f32::from_bits(random.word() & 0x87ff_ffff | 0x3800_0000));
    }
    for n in 0..3 {
        *m.v(n) = lanes.map(|lane| lane[n as usize].to_bits());
    }
    m.run();
    assert_eq!(m.v(3)[0] as u16, F16::from_f32(1.0).0);
    for (l, [a, b, c]) in lanes.into_iter().enumerate() {
        let halves = [a.mul_add(b, c), a.mul_add(-b, c)].map(|x| u32::from(F16::from_f32(x).0));
        assert_eq!(m.v(3)[l], halves[0] | halves[1] << 16, "{a} {b} {c}");
    }
}

#[test]
fn data_parallel_forms_leave_lanes_alone_whose_source_is_off_or_missing() {
    let exec = 0x0f0f_ffff_0000_f0f1u64;
    for (control, source) in [
        ("row_shr:1", |l: usize| (!l.is_multiple_of(16)).then(|| l - 1)),
        ("row_ror:3", |l: usize| Some(l & !15 | (l + 13) & 15)),
        ("quad_perm:[3,3,0,1]", |l: usize| Some(l & !3 | [3, 3, 0, 1][l & 3])),
        // The lanes before the first that get one keep their own value.
        ("row_bcast:15", |l: usize| Some(if l >= 16 { (l & !15) - 1 } else { l })),
        ("row_bcast:31", |l: usize| Some(if l >= 32 { 31 } else { l })),
        ("row_half_mirror", |l: usize| Some(l ^ 7)),
    ] as [(&str, fn(usize) -> Option<usize>); 6]
    {
        for (masks, rows, banks) in [("row_mask:0xf bank_mask:0xf", 15, 15), ("row_mask:0xa bank_mask:0x6", 10, 6)] {
            let text =
                format!("v_mov_b32_dpp v1, v0 {control} {masks}\nv_mov_b32_dpp v2, v0 {control} {masks} bound_ctrl:1");
            let mut m = Machine::new(ARCH, &text);
            *m.v(0) = std::array::from_fn(|l| 100 + l as u32);
            (*m.v(1), *m.v(2)) = ([7; LANES], [7; LANES]);
            m.wave.set_exec(exec);
            m.run();
            for l in 0..LANES {
                let written = exec >> l & 1 == 1 && rows >> (l / 16) & 1 == 1 && banks >> (l / 4 % 4) & 1 == 1;
                let from = source(l).filter(|&from| exec >> from & 1 == 1);
                let moved = from.map(|from| 100 + from as u32);
                assert_eq!(m.v(1)[l], moved.filter(|_| written).unwrap_or(7), "{text} lane {l}");
                assert_eq!(m.v(2)[l], if written { moved.unwrap_or(0) } else { 7 }, "{text} lane {l}");
            }
        }
    }
}

#[test]
fn lanes_that_are_off_send_nothing_and_read_as_zero() {
    let exec = 0xf0f0_1234_5678_9abcu64;
    let mut m = Machine::new(
        ARCH,
        "ds_permute_b32 v2, v1, v0
         ds_bpermute_b32 v3, v1, v0 offset:8
         ds_swizzle_b32 v4, v0 offset:swizzle(SWAP,4)
         v_readfirstlane_b32 s4, v0
         v_readlane_b32 s5, v0, 63
         v_readlane_b32 s6, v0, 0
         v_writelane_b32 v5, 37, 0",
    );
    let target = |l: usize| (l * 7 + 3) % LANES;
    *m.v(0) = std::array::from_fn(|l| 1000 + l as u32);
    *m.v(1) = std::array::from_fn(|l| 4 * target(l) as u32);
    for n in 2..6 {
        *m.v(n) = [7; LANES];
    }
    m.wave.set_exec(exec);
    m.run();
    let on = |l: usize| exec >> l & 1 == 1;
    for l in 0..LANES {
        let value = |from: usize| if on(from) { 1000 + from as u32 } else { 0 };
        let sender = (0..LANES).rev().find(|&from| on(from) && target(from) == l);
        let expected = [sender.map_or(0, value), value((target(l) + 2) % LANES), value(l ^ 4)];
        for (n, expected) in expected.into_iter().enumerate() {
            assert_eq!(m.v(2 + n as u32)[l], if on(l) { expected } else { 7 }, "register {} lane {l}", 2 + n);
        }
    }
    // The first active lane; any lane by number, active or not.
    assert_eq!(m.wave.sgpr[4..7], [1000 + exec.trailing_zeros(), 1063, 1000]);
    assert_eq!(m.v(5)[..2], [37, 7], "written although lane 0 is off");
    m.wave.set_exec(0);
    m.run();
    assert_eq!(m.wave.sgpr[4], 1000, "lane 0 when none is active");
}

#[test]
fn lds_accesses_need_not_be_aligned() {
    let mut m = Machine::new(
        ARCH,
        "ds_write_b32 v0, v1 offset:1
         ds_read_b64 v[2:3], v0 offset:3
         ds_read_u16 v4, v0 offset:2
         ds_read2_b32 v[6:7], v0 offset0:1 offset1:3",
    );
    for (n, byte) in m.memory.lds.iter_mut().enumerate() {
        *byte = n as u8;
    }
    *m.v(0) = std::array::from_fn(|l| 13 * l as u32);
    *m.v(1) = std::array::from_fn(|l| 0x0102_0304 * (l as u32 & 15));
    let mut lds = m.memory.lds.clone();
    m.run();
    for l in 0..LANES {
        lds[13 * l + 1..13 * l + 5].copy_from_slice(&(0x0102_0304 * (l as u32 & 15)).to_le_bytes());
    }
    let read = |at: usize, bytes: usize| (0..bytes).fold(0u64, |x, n| x | u64::from(lds[at + n]) << (8 * n));
    for l in 0..LANES {
        assert_eq!(m.v64(2)[l], read(13 * l + 3, 8));
        assert_eq!(u64::from(m.v(4)[l]), read(13 * l + 2, 2));
        assert_eq!(m.v64(6)[l], read(13 * l + 4, 4) | read(13 * l + 12, 4) << 32);
    }
}

#[test]
fn an_opcode_that_processors_read_differently_is_read_as_each_of_them_does() {
    // VOP2 4: a product where zero wins over infinity, and since MI200 a fused sum of doubles.
    let words = [0x0808_0902u32];
    let names: Vec<_> = Arch::ALL.map(|arch| amdgpu_isa::Decoder::new(arch).decode(&words).map(|i| i.op.name)).to_vec();
    let (old, new) = (Ok("v_mul_legacy_f32"), Ok("v_fmac_f64"));
    assert_eq!(names, [old, old, old, new, new, new]);
    let mut m = Machine::new(Arch::Gfx906, "v_mul_legacy_f32 v2, v0, v1\nv_mul_f32 v3, v0, v1");
    (*m.v(0), *m.v(1)) = ([0; LANES], [f32::INFINITY.to_bits(); LANES]);
    m.run();
    assert_eq!(m.v(2)[0], 0);
    assert!(f32::from_bits(m.v(3)[0]).is_nan());
}

#[test]
fn the_class_of_a_denormal_is_denormal_where_arithmetic_reads_zero() {
    // Positive and negative denormals.
    let classes = 1 << 4 | 1 << 7;
    let mut m = Machine::new(
        ARCH,
        "v_cmp_class_f32 s[0:1], v0, v4
         v_cmp_class_f32 s[2:3], -|v0|, v4
         v_cmp_class_f16_sdwa s[4:5], v1, v4 src0_sel:WORD_1 src1_sel:DWORD
         v_cmp_class_f64 s[6:7], v[2:3], v4
         v_cmp_eq_f32 vcc, 0, v0",
    );
    m.wave.mode = FLUSHING;
    (*m.v(0), *m.v(1), *m.v(4)) = ([1; LANES], [0x8003_0000; LANES], [classes; LANES]);
    m.set_v64(2, [1 << 63 | 1 << 40; LANES]);
    m.run();
    assert_eq!(m.wave.sgpr[..8], [u32::MAX; 8]);
    assert_eq!(m.wave.vcc(), u64::MAX);
}
