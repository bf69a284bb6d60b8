//! Opcodes that the processors have and the tables lack, by name.
//!
//! Source: the Vega and MI300 ISA manuals' lists of opcodes. That LLVM reads the same names is tested.

use super::is_absent;
use crate::arch::{Arch, ArchSet};
use crate::op::{Access, Family, Op};

/// The name of an operation that a processor has and the tables lack; `None` for opcodes that have no meaning there.
pub fn absent(family: Family, code: u16, arch: Arch) -> Option<&'static str> {
    let is = |(of, number): (Family, u16)| {
        // Operations of these families have numbers in the long encoding as well.
        let long = of.vop3_base(arch.row().generation).map(|base| base + number);
        (of, number) == (family, code) || family == Family::Vop3 && long == Some(code)
    };
    let mut rows = OPCODES.iter().filter(|(of, number, _)| is((*of, *number)));
    rows.find(|(.., name)| is_absent(name, arch)).map(|(.., name)| *name)
}

/// The name of an operation of the families that only graphics has, none of which is in the tables, by its first word;
/// `None` where the processor has no such operation.
pub(crate) fn graphics(first: u32, arch: Arch) -> Option<&'static str> {
    let (names, code) = match first >> 26 {
        0b111100 => (IMAGE, first >> 18 & 0x7f),
        0b111010 => (TYPED_BUFFER, first >> 15 & 0xf),
        0b110101 => (INTERPOLATION, first >> 16 & 3),
        0b110001 => (EXPORT, 0),
        _ => return None,
    };
    let has = |archs: &ArchSet| archs.contains(arch);
    names.iter().find(|(number, archs, _)| u32::from(*number) == code && has(archs)).map(|(.., name)| *name)
}

/// True for the name of an operation on memory of a format that a descriptor has, whether it is in the tables or absent.
pub fn is_formatted(name: &str) -> bool {
    let is_typed = |op: &Op| matches!(op.access, Access::LoadFormat(..) | Access::StoreFormat(..));
    IMAGE.iter().chain(TYPED_BUFFER).any(|(.., of)| *of == name)
        || crate::rows().any(|op| op.name == name && is_typed(op))
}

/// Opcodes of a family, the processors that have them, and their names.
type Names = &'static [(u8, ArchSet, &'static str)];

const EXPORT: Names = &[(0, ArchSet::UNTIL_908, "exp")];

const INTERPOLATION: Names = &[
    (0, ArchSet::UNTIL_908, "v_interp_p1_f32"),
    (1, ArchSet::UNTIL_908, "v_interp_p2_f32"),
    (2, ArchSet::UNTIL_908, "v_interp_mov_f32"),
];

#[rustfmt::skip]
const TYPED_BUFFER: Names = &[
    (0x00, ArchSet::ALL, "tbuffer_load_format_x"),
    (0x01, ArchSet::ALL, "tbuffer_load_format_xy"),
    (0x02, ArchSet::ALL, "tbuffer_load_format_xyz"),
    (0x03, ArchSet::ALL, "tbuffer_load_format_xyzw"),
    (0x04, ArchSet::ALL, "tbuffer_store_format_x"),
    (0x05, ArchSet::ALL, "tbuffer_store_format_xy"),
    (0x06, ArchSet::ALL, "tbuffer_store_format_xyz"),
    (0x07, ArchSet::ALL, "tbuffer_store_format_xyzw"),
    (0x08, ArchSet::ALL, "tbuffer_load_format_d16_x"),
    (0x09, ArchSet::ALL, "tbuffer_load_format_d16_xy"),
    (0x0a, ArchSet::ALL, "tbuffer_load_format_d16_xyz"),
    (0x0b, ArchSet::ALL, "tbuffer_load_format_d16_xyzw"),
    (0x0c, ArchSet::ALL, "tbuffer_store_format_d16_x"),
    (0x0d, ArchSet::ALL, "tbuffer_store_format_d16_xy"),
    (0x0e, ArchSet::ALL, "tbuffer_store_format_d16_xyz"),
    (0x0f, ArchSet::ALL, "tbuffer_store_format_d16_xyzw"),
];
#[rustfmt::skip]
const IMAGE: Names = &[
    (0x00, ArchSet::IMAGE, "image_load"),
    (0x01, ArchSet::IMAGE, "image_load_mip"),
    (0x02, ArchSet::IMAGE, "image_load_pck"),
    (0x03, ArchSet::IMAGE, "image_load_pck_sgn"),
    (0x04, ArchSet::IMAGE, "image_load_mip_pck"),
    (0x05, ArchSet::IMAGE, "image_load_mip_pck_sgn"),
    (0x08, ArchSet::IMAGE, "image_store"),
    (0x09, ArchSet::IMAGE, "image_store_mip"),
    (0x0a, ArchSet::IMAGE, "image_store_pck"),
    (0x0b, ArchSet::IMAGE, "image_store_mip_pck"),
    (0x0e, ArchSet::IMAGE, "image_get_resinfo"),
    (0x10, ArchSet::IMAGE, "image_atomic_swap"),
    (0x11, ArchSet::IMAGE, "image_atomic_cmpswap"),
    (0x12, ArchSet::IMAGE, "image_atomic_add"),
    (0x13, ArchSet::IMAGE, "image_atomic_sub"),
    (0x14, ArchSet::IMAGE, "image_atomic_smin"),
    (0x15, ArchSet::IMAGE, "image_atomic_umin"),
    (0x16, ArchSet::IMAGE, "image_atomic_smax"),
    (0x17, ArchSet::IMAGE, "image_atomic_umax"),
    (0x18, ArchSet::IMAGE, "image_atomic_and"),
    (0x19, ArchSet::IMAGE, "image_atomic_or"),
    (0x1a, ArchSet::IMAGE, "image_atomic_xor"),
    (0x1b, ArchSet::IMAGE, "image_atomic_inc"),
    (0x1c, ArchSet::IMAGE, "image_atomic_dec"),
    (0x20, ArchSet::IMAGE, "image_sample"),
    (0x21, ArchSet::EXTENDED_IMAGE, "image_sample_cl"),
    (0x22, ArchSet::EXTENDED_IMAGE, "image_sample_d"),
    (0x23, ArchSet::EXTENDED_IMAGE, "image_sample_d_cl"),
    (0x24, ArchSet::EXTENDED_IMAGE, "image_sample_l"),
    (0x25, ArchSet::EXTENDED_IMAGE, "image_sample_b"),
    (0x26, ArchSet::EXTENDED_IMAGE, "image_sample_b_cl"),
    (0x27, ArchSet::EXTENDED_IMAGE, "image_sample_lz"),
    (0x28, ArchSet::EXTENDED_IMAGE, "image_sample_c"),
    (0x29, ArchSet::EXTENDED_IMAGE, "image_sample_c_cl"),
    (0x2a, ArchSet::EXTENDED_IMAGE, "image_sample_c_d"),
    (0x2b, ArchSet::EXTENDED_IMAGE, "image_sample_c_d_cl"),
    (0x2c, ArchSet::EXTENDED_IMAGE, "image_sample_c_l"),
    (0x2d, ArchSet::EXTENDED_IMAGE, "image_sample_c_b"),
    (0x2e, ArchSet::EXTENDED_IMAGE, "image_sample_c_b_cl"),
    (0x2f, ArchSet::EXTENDED_IMAGE, "image_sample_c_lz"),
    (0x30, ArchSet::EXTENDED_IMAGE, "image_sample_o"),
    (0x31, ArchSet::EXTENDED_IMAGE, "image_sample_cl_o"),
    (0x32, ArchSet::EXTENDED_IMAGE, "image_sample_d_o"),
    (0x33, ArchSet::EXTENDED_IMAGE, "image_sample_d_cl_o"),
    (0x34, ArchSet::EXTENDED_IMAGE, "image_sample_l_o"),
    (0x35, ArchSet::EXTENDED_IMAGE, "image_sample_b_o"),
    (0x36, ArchSet::EXTENDED_IMAGE, "image_sample_b_cl_o"),
    (0x37, ArchSet::EXTENDED_IMAGE, "image_sample_lz_o"),
    (0x38, ArchSet::EXTENDED_IMAGE, "image_sample_c_o"),
    (0x39, ArchSet::EXTENDED_IMAGE, "image_sample_c_cl_o"),
    (0x3a, ArchSet::EXTENDED_IMAGE, "image_sample_c_d_o"),
    (0x3b, ArchSet::EXTENDED_IMAGE, "image_sample_c_d_cl_o"),
    (0x3c, ArchSet::EXTENDED_IMAGE, "image_sample_c_l_o"),
    (0x3d, ArchSet::EXTENDED_IMAGE, "image_sample_c_b_o"),
    (0x3e, ArchSet::EXTENDED_IMAGE, "image_sample_c_b_cl_o"),
    (0x3f, ArchSet::EXTENDED_IMAGE, "image_sample_c_lz_o"),
    (0x40, ArchSet::EXTENDED_IMAGE, "image_gather4"),
    (0x41, ArchSet::EXTENDED_IMAGE, "image_gather4_cl"),
    (0x42, ArchSet::EXTENDED_IMAGE, "image_gather4h"),
    (0x44, ArchSet::EXTENDED_IMAGE, "image_gather4_l"),
    (0x45, ArchSet::EXTENDED_IMAGE, "image_gather4_b"),
    (0x46, ArchSet::EXTENDED_IMAGE, "image_gather4_b_cl"),
    (0x47, ArchSet::EXTENDED_IMAGE, "image_gather4_lz"),
    (0x48, ArchSet::EXTENDED_IMAGE, "image_gather4_c"),
    (0x49, ArchSet::EXTENDED_IMAGE, "image_gather4_c_cl"),
    (0x4c, ArchSet::EXTENDED_IMAGE, "image_gather4_c_l"),
    (0x4d, ArchSet::EXTENDED_IMAGE, "image_gather4_c_b"),
    (0x4e, ArchSet::EXTENDED_IMAGE, "image_gather4_c_b_cl"),
    (0x4f, ArchSet::EXTENDED_IMAGE, "image_gather4_c_lz"),
    (0x50, ArchSet::EXTENDED_IMAGE, "image_gather4_o"),
    (0x51, ArchSet::EXTENDED_IMAGE, "image_gather4_cl_o"),
    (0x54, ArchSet::EXTENDED_IMAGE, "image_gather4_l_o"),
    (0x55, ArchSet::EXTENDED_IMAGE, "image_gather4_b_o"),
    (0x56, ArchSet::EXTENDED_IMAGE, "image_gather4_b_cl_o"),
    (0x57, ArchSet::EXTENDED_IMAGE, "image_gather4_lz_o"),
    (0x58, ArchSet::EXTENDED_IMAGE, "image_gather4_c_o"),
    (0x59, ArchSet::EXTENDED_IMAGE, "image_gather4_c_cl_o"),
    (0x5c, ArchSet::EXTENDED_IMAGE, "image_gather4_c_l_o"),
    (0x5d, ArchSet::EXTENDED_IMAGE, "image_gather4_c_b_o"),
    (0x5e, ArchSet::EXTENDED_IMAGE, "image_gather4_c_b_cl_o"),
    (0x5f, ArchSet::EXTENDED_IMAGE, "image_gather4_c_lz_o"),
    (0x60, ArchSet::EXTENDED_IMAGE, "image_get_lod"),
    (0x68, ArchSet::EXTENDED_IMAGE, "image_sample_cd"),
    (0x69, ArchSet::EXTENDED_IMAGE, "image_sample_cd_cl"),
    (0x6a, ArchSet::EXTENDED_IMAGE, "image_sample_c_cd"),
    (0x6b, ArchSet::EXTENDED_IMAGE, "image_sample_c_cd_cl"),
    (0x6c, ArchSet::EXTENDED_IMAGE, "image_sample_cd_o"),
    (0x6d, ArchSet::EXTENDED_IMAGE, "image_sample_cd_cl_o"),
    (0x6e, ArchSet::EXTENDED_IMAGE, "image_sample_c_cd_o"),
    (0x6f, ArchSet::EXTENDED_IMAGE, "image_sample_c_cd_cl_o"),
];

#[rustfmt::skip]
const OPCODES: &[(Family, u16, &str)] = &[
    (Family::Sop2, 0x29, "s_cbranch_g_fork"),
    (Family::Sop2, 0x2b, "s_rfe_restore_b64"),
    (Family::Sopk, 0x10, "s_cbranch_i_fork"),
    (Family::Sop1, 0x1f, "s_rfe_b64"),
    (Family::Sop1, 0x2a, "s_movrels_b32"),
    (Family::Sop1, 0x2b, "s_movrels_b64"),
    (Family::Sop1, 0x2c, "s_movreld_b32"),
    (Family::Sop1, 0x2d, "s_movreld_b64"),
    (Family::Sop1, 0x2e, "s_cbranch_join"),
    (Family::Sopc, 0x10, "s_setvskip"),
    (Family::Sopp, 0x0b, "s_setkill"),
    (Family::Sopp, 0x11, "s_sendmsghalt"),
    (Family::Sopp, 0x1e, "s_endpgm_ordered_ps_done"),
    (Family::Smem, 0x05, "s_scratch_load_dword"),
    (Family::Smem, 0x06, "s_scratch_load_dwordx2"),
    (Family::Smem, 0x07, "s_scratch_load_dwordx4"),
    (Family::Smem, 0x15, "s_scratch_store_dword"),
    (Family::Smem, 0x16, "s_scratch_store_dwordx2"),
    (Family::Smem, 0x17, "s_scratch_store_dwordx4"),
    (Family::Smem, 0x26, "s_atc_probe"),
    (Family::Smem, 0x27, "s_atc_probe_buffer"),
    (Family::Smem, 0x28, "s_dcache_discard"),
    (Family::Smem, 0x29, "s_dcache_discard_x2"),
    (Family::Vop1, 0x37, "v_screen_partition_4se_b32"),
    (Family::Vop3, 0x270, "v_interp_p1_f32"),
    (Family::Vop3, 0x271, "v_interp_p2_f32"),
    (Family::Vop3, 0x272, "v_interp_mov_f32"),
    (Family::Vop3, 0x274, "v_interp_p1ll_f16"),
    (Family::Vop3, 0x275, "v_interp_p1lv_f16"),
    (Family::Vop3, 0x276, "v_interp_p2_legacy_f16"),
    (Family::Vop3, 0x277, "v_interp_p2_f16"),
    (Family::Vop3p, 0x2c, "v_mfma_ld_scale_b32"),
    (Family::Ds, 0x7e, "ds_condxchg32_rtn_b64"),
    (Family::Ds, 0x80, "ds_add_src2_u32"),
    (Family::Ds, 0x81, "ds_sub_src2_u32"),
    (Family::Ds, 0x82, "ds_rsub_src2_u32"),
    (Family::Ds, 0x83, "ds_inc_src2_u32"),
    (Family::Ds, 0x84, "ds_dec_src2_u32"),
    (Family::Ds, 0x85, "ds_min_src2_i32"),
    (Family::Ds, 0x86, "ds_max_src2_i32"),
    (Family::Ds, 0x87, "ds_min_src2_u32"),
    (Family::Ds, 0x88, "ds_max_src2_u32"),
    (Family::Ds, 0x89, "ds_and_src2_b32"),
    (Family::Ds, 0x8a, "ds_or_src2_b32"),
    (Family::Ds, 0x8b, "ds_xor_src2_b32"),
    (Family::Ds, 0x8d, "ds_write_src2_b32"),
    (Family::Ds, 0x92, "ds_min_src2_f32"),
    (Family::Ds, 0x93, "ds_max_src2_f32"),
    (Family::Ds, 0x95, "ds_add_src2_f32"),
    (Family::Ds, 0x98, "ds_gws_sema_release_all"),
    (Family::Ds, 0x9a, "ds_gws_sema_v"),
    (Family::Ds, 0x9b, "ds_gws_sema_br"),
    (Family::Ds, 0x9c, "ds_gws_sema_p"),
    (Family::Ds, 0xbf, "ds_ordered_count"),
    (Family::Ds, 0xc0, "ds_add_src2_u64"),
    (Family::Ds, 0xc1, "ds_sub_src2_u64"),
    (Family::Ds, 0xc2, "ds_rsub_src2_u64"),
    (Family::Ds, 0xc3, "ds_inc_src2_u64"),
    (Family::Ds, 0xc4, "ds_dec_src2_u64"),
    (Family::Ds, 0xc5, "ds_min_src2_i64"),
    (Family::Ds, 0xc6, "ds_max_src2_i64"),
    (Family::Ds, 0xc7, "ds_min_src2_u64"),
    (Family::Ds, 0xc8, "ds_max_src2_u64"),
    (Family::Ds, 0xc9, "ds_and_src2_b64"),
    (Family::Ds, 0xca, "ds_or_src2_b64"),
    (Family::Ds, 0xcb, "ds_xor_src2_b64"),
    (Family::Ds, 0xcd, "ds_write_src2_b64"),
    (Family::Ds, 0xd2, "ds_min_src2_f64"),
    (Family::Ds, 0xd3, "ds_max_src2_f64"),
    (Family::Mubuf, 0x3d, "buffer_store_lds_dword"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decoder;
    use crate::op::Index;
    use crate::ops::TABLES;

    #[test]
    fn every_opcode_is_absent_where_the_page_says_so() {
        for (family, code, name) in OPCODES {
            let archs: Vec<Arch> = Arch::ALL.into_iter().filter(|arch| is_absent(name, *arch)).collect();
            assert!(!archs.is_empty(), "{name} is not on the page");
            for arch in archs {
                assert!(Index::new(*family, arch, TABLES).get((*code).into()).is_none(), "{name} of {arch}");
                assert_eq!(absent(*family, *code, arch), Some(*name), "{arch}");
            }
        }
        assert_eq!(absent(Family::Vop3, 0x177, Arch::Gfx942), Some("v_screen_partition_4se_b32"));
        assert_eq!(absent(Family::Vop3, 0x194, Arch::Gfx90a), None);
    }

    #[test]
    fn known_instructions_that_are_absent_are_refused_by_their_names() {
        let refused =
            |arch, words: [u32; 2]| Decoder::new(arch).decode(&words).map(|i| i.op.name).map_err(|e| e.to_string());
        // The words are llvm-mc's.
        let named = [
            (Arch::Gfx90a, [0xf000_0f00, 0x0001_0204], "image_load"),
            (Arch::Gfx906, [0xf080_0f00, 0x0041_0004], "image_sample"),
            (Arch::Gfx90a, [0xe0f4_0000, 0x8001_0204], "buffer_store_lds_dword"),
            (Arch::Gfx942, [0xe818_0000, 0x8001_0204], "tbuffer_load_format_x"),
        ];
        for (arch, words, name) in named {
            assert_eq!(refused(arch, words), Err(format!("{name} is not emulated")), "{arch}");
        }
        assert_eq!(refused(Arch::Gfx942, [0xf000_0f00, 0x0001_0204]), Err("unknown encoding".to_owned()));
    }
}
