//! Where the processors of the tables are not what the text says, which describes CDNA4, and what the text leaves open.

/// The name that the text has for an operation.
pub(crate) fn text_of(name: &str) -> String {
    name.trim_end_matches("_e32").to_uppercase()
}

/// Operations that CDNA4 no longer has: what the Vega ISA manual says of them, in the words of the language.
pub(crate) const EARLIER: &[(&str, &str)] = &[
    ("V_MAC_F32", "D0.f32 = S0.f32 * S1.f32 + D0.f32"),
    ("V_MAD_F32", "D0.f32 = S0.f32 * S1.f32 + S2.f32"),
    (
        "V_MAD_LEGACY_F32",
        "if ((S0.f32 == 0.0F) || (S1.f32 == 0.0F)) then D0.f32 = 0.0F + S2.f32 else D0.f32 = S0.f32 * S1.f32 + S2.f32 endif",
    ),
    ("V_MADMK_F32", "D0.f32 = S0.f32 * SIMM32.f32 + S1.f32"),
    ("V_MADAK_F32", "D0.f32 = S0.f32 * S1.f32 + SIMM32.f32"),
    ("V_EXP_LEGACY_F32", "D0.f32 = pow(2.0F, S0.f32)"),
    ("V_LOG_LEGACY_F32", "D0.f32 = log2(S0.f32)"),
];

/// Operations of which RDNA3's text is that of these processors.
pub(crate) const OF_RDNA3: &[&str] = &["V_FMA_MIX_F32", "V_FMA_MIXLO_F16", "V_FMA_MIXHI_F16"];

const OF_LANES: &str = "its text is of one lane that the instruction chooses; `semantics` tests it";
const OF_ORDER: &str = "the text leaves NaN and the signs of zeros open; here they are those of the vector operation";
const OF_CONTROL: &str = "its text is of the program counter and hardware registers, which the evaluator lacks";
const OF_FORMATS: &str = "its text leaves the conversion to the format's; `formatted` tests it";
const OF_CACHES: &str = "it has no text of what is in registers and memory";
const OF_MATRICES: &str = "its text is a formula of matrices; the tests beside the rows compare each element";
const OF_BYTES: &str = "its text is of formats of bytes of CDNA4; `small_floats` tests it";
const OF_THREE: &str = "its text calls a function that has none; `cdna4` tests it";
const OF_BRAINS: &str = "its text has brain floats, which the evaluator lacks; `cdna4` tests it";
const OF_DIVISION: &str = "the text compares reciprocals in doubles with denormals, scales by another power, or keeps a NaN that scaling \
                           made; tests beside the row divide the whole range as compilers do, and compare with the host";

/// Operations whose text is not compared, by a part of their names, and why.
pub(crate) const OTHERS: &[(&str, &str)] = &[
    ("v_readlane_b32", OF_LANES),
    ("v_readfirstlane_b32", OF_LANES),
    ("v_writelane_b32", OF_LANES),
    ("v_swap_b32", "its text has two destinations; a swap is two moves"),
    ("s_call_b64", OF_CONTROL),
    ("s_getpc_b64", OF_CONTROL),
    ("s_setpc_b64", OF_CONTROL),
    ("s_swappc_b64", OF_CONTROL),
    ("s_getreg_b32", OF_CONTROL),
    ("s_setreg_", OF_CONTROL),
    ("s_set_gpr_idx_on", OF_CONTROL),
    ("ds_swizzle_b32", OF_LANES),
    ("ds_permute_b32", OF_LANES),
    ("ds_bpermute_b32", OF_LANES),
    ("ds_min_f", OF_ORDER),
    ("ds_max_f", OF_ORDER),
    ("ds_min_rtn_f", OF_ORDER),
    ("ds_max_rtn_f", OF_ORDER),
    ("flat_atomic_min_f64", OF_ORDER),
    ("flat_atomic_max_f64", OF_ORDER),
    ("global_atomic_min_f64", OF_ORDER),
    ("global_atomic_max_f64", OF_ORDER),
    ("ds_append", "it has no text; `modes` tests it"),
    ("ds_consume", "it has no text; `modes` tests it"),
    ("buffer_load_format_", OF_FORMATS),
    ("buffer_store_format_", OF_FORMATS),
    ("buffer_atomic_min_f64", OF_ORDER),
    ("buffer_atomic_max_f64", OF_ORDER),
    ("buffer_wb", OF_CACHES),
    ("buffer_inv", OF_CACHES),
    ("s_dcache_", OF_CACHES),
    ("s_memtime", "its text is of a clock"),
    ("s_memrealtime", "its text is of a clock"),
    ("ds_gws_", "its text is of what the machine around a wave does"),
    ("global_load_lds_", "it has no text; `lds_loads` tests it"),
    ("v_mfma_", OF_MATRICES),
    ("v_accvgpr_", OF_MATRICES),
    ("ds_nop", "it does nothing"),
    ("v_nop", "it does nothing"),
    ("v_clrexcp", "it does nothing"),
    ("v_smfmac_", OF_MATRICES),
    ("v_cvt_f32_fp8", OF_BYTES),
    ("v_cvt_f32_bf8", OF_BYTES),
    ("v_cvt_pk_f32_fp8", OF_BYTES),
    ("v_cvt_pk_f32_bf8", OF_BYTES),
    ("v_cvt_pk_fp8_f32", OF_BYTES),
    ("v_cvt_pk_bf8_f32", OF_BYTES),
    ("v_cvt_sr_", OF_BYTES),
    ("v_cvt_f32_bf16", OF_BRAINS),
    ("v_cvt_pk_bf16_f32", OF_BRAINS),
    ("v_dot2c_f32_bf16", OF_BRAINS),
    ("v_dot2_f32_bf16", OF_BRAINS),
    ("v_cvt_pk_f16_f32", "its text sets the mode that rounds, which the evaluator lacks; `cdna4` tests it"),
    ("v_bitop3_", "its text has fields of modifiers, which the evaluator lacks; `cdna4` tests it"),
    ("v_minimum3_", OF_THREE),
    ("v_maximum3_", OF_THREE),
    ("v_pk_minimum3_", OF_THREE),
    ("v_pk_maximum3_", OF_THREE),
    ("v_cvt_scalef32_", "its text calls functions that have none; `scaled` tests it"),
    ("v_permlane", OF_LANES),
    ("ds_read_b64_tr_", "it has no text; `cdna4` tests it"),
    ("ds_read_b96_tr_", "it has no text; `cdna4` tests it"),
    ("v_div_scale_", OF_DIVISION),
    ("v_div_fmas_", OF_DIVISION),
    ("v_cvt_off_f32_i4", "the text lacks its table: a sixteenth of a signed number of four bits"),
    ("v_cvt_pk_u8_f32", "the text does not say how `f32_to_u8` rounds; here it is to nearest"),
    ("v_cvt_pkaccum_u8_f32", "as `v_cvt_pk_u8_f32`"),
    (
        "v_frexp_exp_",
        "the text takes the field of the exponent, also of denormals; OCML's `frexp` relies on the exponent of the number",
    ),
    ("v_rndne_", "the text adds a half, a sum that itself rounds; LLVM makes it of `llvm.rint`, which is exact"),
    ("v_lerp_u8", "the text shifts sums of bytes within a byte"),
    ("v_sin_", "the text multiplies by a rounded number; hardware takes revolutions"),
    ("v_cos_", "as `v_sin_`"),
    ("v_trig_preop_f64", "its text has numbers of 1201 bits; tests beside the row have them"),
];

pub(crate) fn is_other(name: &str) -> bool {
    OTHERS.iter().any(|(other, _)| name.starts_with(other))
}

/// Operations whose texts are sentences or formulas, by a part of their names.
const PROSE: &[&str] = &[
    "MFMA",
    "SMFMAC",
    "WMMA",
    "SWMMAC",
    "DS_SWIZZLE",
    "S_TRAP",
    "S_WAITCNT",
    "_GS_REG_RTN",
    "DS_BVH_STACK",
    "IMAGE_GET_LOD",
    "LDS_DIRECT_LOAD",
    "S_CODE_END",
    "S_DELAY_ALU",
    "S_SETPRIO",
    "S_BARRIER_WAIT",
    "S_SLEEP",
];

pub(crate) fn is_prose(name: &str) -> bool {
    PROSE.iter().any(|part| name.contains(part))
}
