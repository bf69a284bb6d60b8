//! The rows of matrix instructions.

use super::product::{self, Bf16, Xf32};
use super::{Layout, Shape, sparse};
use crate::action::{self, Action};
use crate::arch::ArchSet;
use crate::fp::F16;
use crate::fp::small::{E4M3, E4M3Fnuz, E5M2, E5M2Fnuz};
use crate::lanes::{B32, map1};
use crate::op::{Family, Flags, Levels, Op};
use crate::operand::Kind;
use crate::ops::kinds;

/// A factor of so many registers.
const fn factor_kind(dwords: u8) -> Kind {
    match dwords {
        1 => Kind::B32,
        2 => Kind::B64,
        dwords => Kind::Dwords(dwords),
    }
}

const fn row(name: &'static str, code: u16, archs: ArchSet, factor_dwords: u8, acc_dwords: u8, run: Levels) -> Op {
    let factor = factor_kind(factor_dwords);
    let acc = Kind::Dwords(acc_dwords);
    Op::new(name, Family::Vop3p, code, archs, run).operands(acc, [factor, factor, acc])
}

/// A matrix instruction: what the elements of its factors are, and how many registers one of its results takes.
macro_rules! matrix {
    ($name:literal $code:literal $archs:ident $m:literal x $n:literal x $k:literal * $blocks:literal $element:ty, $second:ty, $height:literal, $dwords:literal) => {{
        const SHAPE: Shape = Shape { m: $m, n: $n, k: $k, blocks: $blocks, height: $height };
        const LAYOUT: &Layout = &Layout::new(SHAPE);
        const PER_LANE: usize = SHAPE.per_lane();
        const RESULTS: usize = SHAPE.results();
        row(
            $name,
            $code,
            ArchSet::$archs,
            (PER_LANE as u32 * <$element as product::Element>::BITS / 32) as u8,
            ($dwords * RESULTS) as u8,
            levels!(
                w,
                i,
                _e,
                product::base::multiply::<$element, $second, PER_LANE>(w, i, LAYOUT),
                product::v3::multiply::<$element, $second, PER_LANE>(w, i, LAYOUT),
                product::v4::multiply::<$element, $second, PER_LANE>(w, i, LAYOUT)
            ),
        )
        .counts_of_wave(<$element as product::Element>::NUMBER, 2 * $m * $n * $k * $blocks)
        .is(Action::MatrixProduct(action::Shape {
            rows: $m,
            columns: $n,
            depth: $k,
            blocks: $blocks,
            is_shortened: <$element as product::Element>::IS_SHORTENED,
        }))
    }};
}

macro_rules! mfma {
    ($name:literal $code:literal $archs:ident $m:literal x $n:literal x $k:literal * $blocks:literal $element:ty) => {
        matrix!($name $code $archs $m x $n x $k * $blocks $element, $element, 4, 1)
    };
    ($name:literal $code:literal $archs:ident $m:literal x $n:literal x $k:literal * $blocks:literal $element:ty, $second:ty) => {
        matrix!($name $code $archs $m x $n x $k * $blocks $element, $second, 4, 1)
    };
}

/// A product of a sparse first factor, of whose `k` elements in a row half are given.
macro_rules! smfmac {
    ($name:literal $code:literal $archs:ident $m:literal x $n:literal x $k:literal $element:ty, $second:ty) => {{
        const SHAPE: Shape = Shape { m: $m, n: $n, k: $k / 2, blocks: 1, height: 4 };
        const LAYOUT: &Layout = &Layout::new(SHAPE);
        const PER_LANE: usize = SHAPE.per_lane();
        const RESULTS: usize = SHAPE.results();
        const GIVEN: u8 = (PER_LANE as u32 * <$element as product::Element>::BITS / 32) as u8;
        let run = levels!(
            w,
            i,
            _e,
            sparse::base::multiply::<$element, $second, PER_LANE, { 2 * PER_LANE }>(w, i, LAYOUT),
            sparse::v3::multiply::<$element, $second, PER_LANE, { 2 * PER_LANE }>(w, i, LAYOUT),
            sparse::v4::multiply::<$element, $second, PER_LANE, { 2 * PER_LANE }>(w, i, LAYOUT)
        );
        Op::new($name, Family::Vop3p, $code, ArchSet::$archs, run)
            .operands(Kind::Dwords(RESULTS as u8), [factor_kind(GIVEN), factor_kind(2 * GIVEN), Kind::B32])
            .with(Flags::SPARSE)
            // The zeros count.
            .counts_of_wave(<$element as product::Element>::NUMBER, 2 * $m * $n * $k)
            .is(Action::MatrixProduct(action::Shape {
                rows: $m,
                columns: $n,
                depth: $k,
                blocks: 1,
                is_shortened: false,
            }))
    }};
}

macro_rules! dgemm {
    ($name:literal $code:literal $archs:ident $m:literal x $n:literal x $k:literal * $blocks:literal) => {
        matrix!($name $code $archs $m x $n x $k * $blocks f64, f64, 1, 2).with(Flags::F64_MATRIX)
    };
}

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    mfma!("v_mfma_f32_16x16x32_bf16"    0x35 SINCE_950        16 x 16 x 32 * 1 Bf16),
    mfma!("v_mfma_i32_16x16x64_i8"      0x36 SINCE_950        16 x 16 x 64 * 1 i8),
    mfma!("v_mfma_f32_32x32x16_bf16"    0x37 SINCE_950        32 x 32 x 16 * 1 Bf16),
    mfma!("v_mfma_i32_32x32x32_i8"      0x38 SINCE_950        32 x 32 x 32 * 1 i8),
    mfma!("v_mfma_f32_16x16x8_xf32"     0x3e XF32            16 x 16 x 8 * 1 Xf32),
    mfma!("v_mfma_f32_32x32x4_xf32"     0x3f XF32            32 x 32 x 4 * 1 Xf32),
    mfma!("v_mfma_f32_32x32x1f32"       0x40 FROM_908_TO_90A 32 x 32 x 1 * 2 f32),
    mfma!("v_mfma_f32_32x32x1_2b_f32"   0x40 SINCE_942       32 x 32 x 1 * 2 f32),
    mfma!("v_mfma_f32_16x16x1f32"       0x41 FROM_908_TO_90A 16 x 16 x 1 * 4 f32),
    mfma!("v_mfma_f32_16x16x1_4b_f32"   0x41 SINCE_942       16 x 16 x 1 * 4 f32),
    mfma!("v_mfma_f32_4x4x1f32"         0x42 FROM_908_TO_90A 4 x 4 x 1 * 16 f32),
    mfma!("v_mfma_f32_4x4x1_16b_f32"    0x42 SINCE_942       4 x 4 x 1 * 16 f32),
    mfma!("v_mfma_f32_32x32x2f32"       0x44 FROM_908_TO_90A 32 x 32 x 2 * 1 f32),
    mfma!("v_mfma_f32_32x32x2_f32"      0x44 SINCE_942       32 x 32 x 2 * 1 f32),
    mfma!("v_mfma_f32_16x16x4f32"       0x45 FROM_908_TO_90A 16 x 16 x 4 * 1 f32),
    mfma!("v_mfma_f32_16x16x4_f32"      0x45 SINCE_942       16 x 16 x 4 * 1 f32),
    mfma!("v_mfma_f32_32x32x4f16"       0x48 FROM_908_TO_90A 32 x 32 x 4 * 2 F16),
    mfma!("v_mfma_f32_32x32x4_2b_f16"   0x48 SINCE_942       32 x 32 x 4 * 2 F16),
    mfma!("v_mfma_f32_16x16x4f16"       0x49 FROM_908_TO_90A 16 x 16 x 4 * 4 F16),
    mfma!("v_mfma_f32_16x16x4_4b_f16"   0x49 SINCE_942       16 x 16 x 4 * 4 F16),
    mfma!("v_mfma_f32_4x4x4f16"         0x4a FROM_908_TO_90A 4 x 4 x 4 * 16 F16),
    mfma!("v_mfma_f32_4x4x4_16b_f16"    0x4a SINCE_942       4 x 4 x 4 * 16 F16),
    mfma!("v_mfma_f32_32x32x8f16"       0x4c FROM_908_TO_90A 32 x 32 x 8 * 1 F16),
    mfma!("v_mfma_f32_32x32x8_f16"      0x4c SINCE_942       32 x 32 x 8 * 1 F16),
    mfma!("v_mfma_f32_16x16x16f16"      0x4d FROM_908_TO_90A 16 x 16 x 16 * 1 F16),
    mfma!("v_mfma_f32_16x16x16_f16"     0x4d SINCE_942       16 x 16 x 16 * 1 F16),
    mfma!("v_mfma_i32_32x32x4i8"        0x50 FROM_908_TO_90A 32 x 32 x 4 * 2 i8),
    mfma!("v_mfma_i32_32x32x4_2b_i8"    0x50 SINCE_942       32 x 32 x 4 * 2 i8),
    mfma!("v_mfma_i32_16x16x4i8"        0x51 FROM_908_TO_90A 16 x 16 x 4 * 4 i8),
    mfma!("v_mfma_i32_16x16x4_4b_i8"    0x51 SINCE_942       16 x 16 x 4 * 4 i8),
    mfma!("v_mfma_i32_4x4x4i8"          0x52 FROM_908_TO_90A 4 x 4 x 4 * 16 i8),
    mfma!("v_mfma_i32_4x4x4_16b_i8"     0x52 SINCE_942       4 x 4 x 4 * 16 i8),
    mfma!("v_mfma_f32_16x16x32_f16"     0x54 SINCE_950        16 x 16 x 32 * 1 F16),
    mfma!("v_mfma_f32_32x32x16_f16"     0x55 SINCE_950        32 x 32 x 16 * 1 F16),
    mfma!("v_mfma_i32_32x32x8i8"        0x54 FROM_908_TO_90A 32 x 32 x 8 * 1 i8),
    mfma!("v_mfma_i32_16x16x16i8"       0x55 FROM_908_TO_90A 16 x 16 x 16 * 1 i8),
    mfma!("v_mfma_i32_32x32x16_i8"      0x56 SINCE_942       32 x 32 x 16 * 1 i8),
    mfma!("v_mfma_i32_16x16x32_i8"      0x57 SINCE_942       16 x 16 x 32 * 1 i8),
    Op::new("v_accvgpr_read_b32", Family::Vop3p, 0x58, ArchSet::SINCE_908, levels!(w, i, _e, map1(w, i, |a: B32| -> B32 { a })))
        .operands(Kind::B32, kinds(&[Kind::B32])).with(Flags::NO_MODS).with(Flags::ACC_SRC).is(Action::Move),
    Op::new("v_accvgpr_write_b32", Family::Vop3p, 0x59, ArchSet::SINCE_908, levels!(w, i, _e, map1(w, i, |a: B32| -> B32 { a })))
        .operands(Kind::B32, kinds(&[Kind::B32])).with(Flags::NO_MODS).with(Flags::ACC_DST).is(Action::Move),
    mfma!("v_mfma_f32_32x32x4_2b_bf16"  0x5d SINCE_942       32 x 32 x 4 * 2 Bf16),
    mfma!("v_mfma_f32_16x16x4_4b_bf16"  0x5e SINCE_942       16 x 16 x 4 * 4 Bf16),
    mfma!("v_mfma_f32_4x4x4_16b_bf16"   0x5f SINCE_942       4 x 4 x 4 * 16 Bf16),
    mfma!("v_mfma_f32_32x32x8_bf16"     0x60 SINCE_942       32 x 32 x 8 * 1 Bf16),
    mfma!("v_mfma_f32_16x16x16_bf16"    0x61 SINCE_942       16 x 16 x 16 * 1 Bf16),
    mfma!("v_mfma_f32_32x32x4bf16_1k"   0x63 ONLY_90A        32 x 32 x 4 * 2 Bf16),
    mfma!("v_mfma_f32_16x16x4bf16_1k"   0x64 ONLY_90A        16 x 16 x 4 * 4 Bf16),
    mfma!("v_mfma_f32_4x4x4bf16_1k"     0x65 ONLY_90A        4 x 4 x 4 * 16 Bf16),
    mfma!("v_mfma_f32_32x32x8bf16_1k"   0x66 ONLY_90A        32 x 32 x 8 * 1 Bf16),
    mfma!("v_mfma_f32_16x16x16bf16_1k"  0x67 ONLY_90A        16 x 16 x 16 * 1 Bf16),
    mfma!("v_mfma_f32_32x32x2bf16"      0x68 FROM_908_TO_90A 32 x 32 x 2 * 2 Bf16),
    mfma!("v_mfma_f32_16x16x2bf16"      0x69 FROM_908_TO_90A 16 x 16 x 2 * 4 Bf16),
    mfma!("v_mfma_f32_4x4x2bf16"        0x6b FROM_908_TO_90A 4 x 4 x 2 * 16 Bf16),
    mfma!("v_mfma_f32_32x32x4bf16"      0x6c FROM_908_TO_90A 32 x 32 x 4 * 1 Bf16),
    mfma!("v_mfma_f32_16x16x8bf16"      0x6d FROM_908_TO_90A 16 x 16 x 8 * 1 Bf16),
    dgemm!("v_mfma_f64_16x16x4f64"      0x6e ONLY_90A        16 x 16 x 4 * 1),
    dgemm!("v_mfma_f64_16x16x4_f64"     0x6e SINCE_942       16 x 16 x 4 * 1),
    dgemm!("v_mfma_f64_4x4x4f64"        0x6f ONLY_90A        4 x 4 x 4 * 4),
    dgemm!("v_mfma_f64_4x4x4_4b_f64"    0x6f SINCE_942       4 x 4 x 4 * 4),
    mfma!("v_mfma_f32_16x16x32_bf8_bf8" 0x70 FP8_FNUZ 16 x 16 x 32 * 1 E5M2Fnuz, E5M2Fnuz),
    mfma!("v_mfma_f32_16x16x32_bf8_bf8" 0x70 FP8_OCP  16 x 16 x 32 * 1 E5M2, E5M2),
    mfma!("v_mfma_f32_16x16x32_bf8_fp8" 0x71 FP8_FNUZ 16 x 16 x 32 * 1 E5M2Fnuz, E4M3Fnuz),
    mfma!("v_mfma_f32_16x16x32_bf8_fp8" 0x71 FP8_OCP  16 x 16 x 32 * 1 E5M2, E4M3),
    mfma!("v_mfma_f32_16x16x32_fp8_bf8" 0x72 FP8_FNUZ 16 x 16 x 32 * 1 E4M3Fnuz, E5M2Fnuz),
    mfma!("v_mfma_f32_16x16x32_fp8_bf8" 0x72 FP8_OCP  16 x 16 x 32 * 1 E4M3, E5M2),
    mfma!("v_mfma_f32_16x16x32_fp8_fp8" 0x73 FP8_FNUZ 16 x 16 x 32 * 1 E4M3Fnuz, E4M3Fnuz),
    mfma!("v_mfma_f32_16x16x32_fp8_fp8" 0x73 FP8_OCP  16 x 16 x 32 * 1 E4M3, E4M3),
    mfma!("v_mfma_f32_32x32x16_bf8_bf8" 0x74 FP8_FNUZ 32 x 32 x 16 * 1 E5M2Fnuz, E5M2Fnuz),
    mfma!("v_mfma_f32_32x32x16_bf8_bf8" 0x74 FP8_OCP  32 x 32 x 16 * 1 E5M2, E5M2),
    mfma!("v_mfma_f32_32x32x16_bf8_fp8" 0x75 FP8_FNUZ 32 x 32 x 16 * 1 E5M2Fnuz, E4M3Fnuz),
    mfma!("v_mfma_f32_32x32x16_bf8_fp8" 0x75 FP8_OCP  32 x 32 x 16 * 1 E5M2, E4M3),
    mfma!("v_mfma_f32_32x32x16_fp8_bf8" 0x76 FP8_FNUZ 32 x 32 x 16 * 1 E4M3Fnuz, E5M2Fnuz),
    mfma!("v_mfma_f32_32x32x16_fp8_bf8" 0x76 FP8_OCP  32 x 32 x 16 * 1 E4M3, E5M2),
    mfma!("v_mfma_f32_32x32x16_fp8_fp8" 0x77 FP8_FNUZ 32 x 32 x 16 * 1 E4M3Fnuz, E4M3Fnuz),
    mfma!("v_mfma_f32_32x32x16_fp8_fp8" 0x77 FP8_OCP  32 x 32 x 16 * 1 E4M3, E4M3),
    smfmac!("v_smfmac_f32_16x16x64_bf16"     0x39 SINCE_950 16 x 16 x 64 Bf16, Bf16),
    smfmac!("v_smfmac_i32_16x16x128_i8"      0x3a SINCE_950 16 x 16 x 128 i8, i8),
    smfmac!("v_smfmac_f32_16x16x128_bf8_bf8" 0x3b SINCE_950 16 x 16 x 128 E5M2, E5M2),
    smfmac!("v_smfmac_f32_16x16x128_bf8_fp8" 0x3c SINCE_950 16 x 16 x 128 E5M2, E4M3),
    smfmac!("v_smfmac_f32_16x16x128_fp8_bf8" 0x3d SINCE_950 16 x 16 x 128 E4M3, E5M2),
    smfmac!("v_smfmac_f32_16x16x128_fp8_fp8" 0x43 SINCE_950 16 x 16 x 128 E4M3, E4M3),
    smfmac!("v_smfmac_f32_32x32x32_bf16"     0x46 SINCE_950 32 x 32 x 32 Bf16, Bf16),
    smfmac!("v_smfmac_i32_32x32x64_i8"       0x47 SINCE_950 32 x 32 x 64 i8, i8),
    smfmac!("v_smfmac_f32_32x32x64_bf8_bf8"  0x4b SINCE_950 32 x 32 x 64 E5M2, E5M2),
    smfmac!("v_smfmac_f32_32x32x64_bf8_fp8"  0x4e SINCE_950 32 x 32 x 64 E5M2, E4M3),
    smfmac!("v_smfmac_f32_32x32x64_fp8_bf8"  0x4f SINCE_950 32 x 32 x 64 E4M3, E5M2),
    smfmac!("v_smfmac_f32_32x32x64_fp8_fp8"  0x53 SINCE_950 32 x 32 x 64 E4M3, E4M3),
    smfmac!("v_smfmac_f32_16x16x64_f16"      0x5a SINCE_950 16 x 16 x 64 F16, F16),
    smfmac!("v_smfmac_f32_32x32x32_f16"      0x5b SINCE_950 32 x 32 x 32 F16, F16),
    smfmac!("v_smfmac_f32_16x16x32_f16"     0x62 SINCE_942 16 x 16 x 32 F16, F16),
    smfmac!("v_smfmac_f32_32x32x16_f16"     0x64 SINCE_942 32 x 32 x 16 F16, F16),
    smfmac!("v_smfmac_f32_16x16x32_bf16"    0x66 SINCE_942 16 x 16 x 32 Bf16, Bf16),
    smfmac!("v_smfmac_f32_32x32x16_bf16"    0x68 SINCE_942 32 x 32 x 16 Bf16, Bf16),
    smfmac!("v_smfmac_i32_16x16x64_i8"      0x6a SINCE_942 16 x 16 x 64 i8, i8),
    smfmac!("v_smfmac_i32_32x32x32_i8"      0x6c SINCE_942 32 x 32 x 32 i8, i8),
    smfmac!("v_smfmac_f32_16x16x64_bf8_bf8" 0x78 FP8_FNUZ  16 x 16 x 64 E5M2Fnuz, E5M2Fnuz),
    smfmac!("v_smfmac_f32_16x16x64_bf8_bf8" 0x78 FP8_OCP   16 x 16 x 64 E5M2, E5M2),
    smfmac!("v_smfmac_f32_16x16x64_bf8_fp8" 0x79 FP8_FNUZ  16 x 16 x 64 E5M2Fnuz, E4M3Fnuz),
    smfmac!("v_smfmac_f32_16x16x64_bf8_fp8" 0x79 FP8_OCP   16 x 16 x 64 E5M2, E4M3),
    smfmac!("v_smfmac_f32_16x16x64_fp8_bf8" 0x7a FP8_FNUZ  16 x 16 x 64 E4M3Fnuz, E5M2Fnuz),
    smfmac!("v_smfmac_f32_16x16x64_fp8_bf8" 0x7a FP8_OCP   16 x 16 x 64 E4M3, E5M2),
    smfmac!("v_smfmac_f32_16x16x64_fp8_fp8" 0x7b FP8_FNUZ  16 x 16 x 64 E4M3Fnuz, E4M3Fnuz),
    smfmac!("v_smfmac_f32_16x16x64_fp8_fp8" 0x7b FP8_OCP   16 x 16 x 64 E4M3, E4M3),
    smfmac!("v_smfmac_f32_32x32x32_bf8_bf8" 0x7c FP8_FNUZ  32 x 32 x 32 E5M2Fnuz, E5M2Fnuz),
    smfmac!("v_smfmac_f32_32x32x32_bf8_bf8" 0x7c FP8_OCP   32 x 32 x 32 E5M2, E5M2),
    smfmac!("v_smfmac_f32_32x32x32_bf8_fp8" 0x7d FP8_FNUZ  32 x 32 x 32 E5M2Fnuz, E4M3Fnuz),
    smfmac!("v_smfmac_f32_32x32x32_bf8_fp8" 0x7d FP8_OCP   32 x 32 x 32 E5M2, E4M3),
    smfmac!("v_smfmac_f32_32x32x32_fp8_bf8" 0x7e FP8_FNUZ  32 x 32 x 32 E4M3Fnuz, E5M2Fnuz),
    smfmac!("v_smfmac_f32_32x32x32_fp8_bf8" 0x7e FP8_OCP   32 x 32 x 32 E4M3, E5M2),
    smfmac!("v_smfmac_f32_32x32x32_fp8_fp8" 0x7f FP8_FNUZ  32 x 32 x 32 E4M3Fnuz, E4M3Fnuz),
    smfmac!("v_smfmac_f32_32x32x32_fp8_fp8" 0x7f FP8_OCP   32 x 32 x 32 E4M3, E4M3),
];
