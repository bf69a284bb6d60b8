//! What instructions are for, and what they access. What they compute is counted in their rows ([`amdgpu_isa::arithmetic`]).

use amdgpu_isa::action::Action;
pub use amdgpu_isa::arithmetic::Number as Type;
use amdgpu_isa::inst::Inst;
use amdgpu_isa::op::{Access, Family, Flags};

/// What an instruction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Scalar arithmetic.
    Scalar,
    /// Scalar memory.
    ScalarMemory,
    /// Jumps and ends.
    Branch,
    /// Waits, barriers, and other instructions that compute nothing.
    Wait,
    /// Vector arithmetic on integers, and moves.
    Vector,
    /// Vector arithmetic on floats.
    Float,
    /// Matrix instructions.
    Matrix,
    /// Exchanges between lanes.
    Lanes,
    /// Loads from memory.
    Load,
    /// Stores to memory.
    Store,
    /// Atomics on memory.
    Atomic,
    /// LDS.
    Lds,
}

impl Group {
    /// Every group, in the order of reports.
    pub const ALL: [Group; 12] = [
        Group::Float,
        Group::Matrix,
        Group::Vector,
        Group::Lanes,
        Group::Load,
        Group::Store,
        Group::Atomic,
        Group::Lds,
        Group::Scalar,
        Group::ScalarMemory,
        Group::Branch,
        Group::Wait,
    ];

    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Group::Scalar => "scalar",
            Group::ScalarMemory => "scalar memory",
            Group::Branch => "branch",
            Group::Wait => "wait",
            Group::Vector => "vector",
            Group::Float => "float",
            Group::Matrix => "matrix",
            Group::Lanes => "lane exchange",
            Group::Load => "load",
            Group::Store => "store",
            Group::Atomic => "atomic",
            Group::Lds => "LDS",
        }
    }

    /// The group of an instruction.
    pub fn of(inst: &Inst) -> Group {
        let op = inst.op;
        match op.family {
            Family::Smem => Group::ScalarMemory,
            Family::Sopp => match op.flags.has(Flags::BRANCH) || op.action == Action::End {
                true => Group::Branch,
                false => Group::Wait,
            },
            _ if inst.is_indirect() || op.flags.has(Flags::BRANCH) => Group::Branch,
            Family::Sop1 | Family::Sop2 | Family::Sopc | Family::Sopk => Group::Scalar,
            Family::Ds if op.access == Access::None => Group::Lanes,
            Family::Ds => Group::Lds,
            Family::Flat | Family::Global | Family::Scratch | Family::Mubuf => match op.access {
                Access::Load(..) | Access::Load2(..) | Access::LoadLds(..) | Access::LoadFormat(..) => Group::Load,
                Access::Store(..) | Access::Store2(..) | Access::StoreFormat(..) => Group::Store,
                Access::Atomic(..) => Group::Atomic,
                Access::None => Group::Wait,
            },
            _ if op.is_matrix() => Group::Matrix,
            _ if inst.dpp().is_some() || is_of_one_lane(op.action) => Group::Lanes,
            _ if op.dst.is_float() || op.src.iter().any(|kind| kind.is_float()) => Group::Float,
            _ => Group::Vector,
        }
    }
}

/// True for reads and writes of one lane.
fn is_of_one_lane(action: Action) -> bool {
    [Action::ReadLane, Action::ReadFirstLane, Action::WriteLane].contains(&action)
}

/// What an instruction accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accessed {
    /// It reads.
    pub reads: bool,
    /// It writes; an atomic does both.
    pub writes: bool,
    /// It is one that accesses LDS only.
    pub lds: bool,
    /// Bytes of a lane.
    pub bytes: u32,
    /// Bytes at one address of a lane: half of them where there are two addresses.
    pub part: u32,
}

impl Accessed {
    /// Of an instruction; `None` if it accesses nothing.
    pub fn of(inst: &Inst) -> Option<Accessed> {
        let addresses = if matches!(inst.op.access, Access::Load2(..) | Access::Store2(..)) { 2 } else { 1 };
        let (reads, writes, bytes) = match inst.op.access {
            Access::Load(bytes, _) | Access::LoadLds(bytes, _) => (true, false, bytes),
            Access::Store(bytes, _) => (false, true, bytes),
            Access::Load2(bytes, _) => (true, false, 2 * bytes),
            Access::Store2(bytes, _) => (false, true, 2 * bytes),
            // What a component has in memory is in the descriptor: at most a dword.
            Access::LoadFormat(components, _) => (true, false, 4 * components),
            Access::StoreFormat(components, _) => (false, true, 4 * components),
            Access::Atomic(_, bytes, _) => (true, true, bytes),
            Access::None => return None,
        };
        let bytes = u32::from(bytes);
        Some(Accessed { reads, writes, lds: inst.op.family == Family::Ds, bytes, part: bytes / addresses })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_isa::Arch;
    use amdgpu_isa::arithmetic::Arithmetic;

    /// The count of a mnemonic.
    fn counted(name: &str) -> Arithmetic {
        let op = amdgpu_isa::rows().find(|op| op.name == name).unwrap_or_else(|| panic!("{name}"));
        op.arithmetic
    }

    #[test]
    fn matrix_instructions_do_what_their_tables_say() {
        // Operations of an instruction: AMD's matrix instruction calculator.
        let expected = [
            ("v_mfma_f32_32x32x1f32", Type::F32, 4096),
            ("v_mfma_f32_16x16x4f32", Type::F32, 2048),
            ("v_mfma_f32_16x16x8_xf32", Type::F32, 4096),
            ("v_mfma_f32_32x32x4_xf32", Type::F32, 8192),
            ("v_mfma_f32_4x4x1f32", Type::F32, 512),
            ("v_mfma_f32_32x32x8f16", Type::F16, 16384),
            ("v_mfma_f32_16x16x16f16", Type::F16, 8192),
            ("v_mfma_f32_4x4x4f16", Type::F16, 2048),
            ("v_mfma_f32_32x32x4f16", Type::F16, 16384),
            ("v_mfma_f32_32x32x8bf16_1k", Type::Bf16, 16384),
            ("v_mfma_f32_32x32x4bf16", Type::Bf16, 8192),
            ("v_mfma_f32_32x32x2bf16", Type::Bf16, 8192),
            ("v_mfma_f64_16x16x4f64", Type::F64, 2048),
            ("v_mfma_f64_4x4x4f64", Type::F64, 512),
            ("v_mfma_f32_32x32x1_2b_f32", Type::F32, 4096),
            ("v_mfma_i32_32x32x16_i8", Type::I8, 32768),
            ("v_mfma_i32_16x16x16i8", Type::I8, 8192),
            ("v_mfma_f32_16x16x32_fp8_bf8", Type::F8, 16384),
            ("v_mfma_f32_32x32x16_bf8_bf8", Type::F8, 32768),
            ("v_smfmac_f32_16x16x32_f16", Type::F16, 16384),
            ("v_smfmac_i32_32x32x32_i8", Type::I8, 65536),
            ("v_smfmac_f32_16x16x64_fp8_fp8", Type::F8, 32768),
        ];
        for (name, of, count) in expected {
            assert_eq!(counted(name), Arithmetic::Wave(of, count), "{name}");
        }
    }

    #[test]
    fn operations_are_counted_as_the_field_does() {
        for (name, of, count) in [
            ("v_add_f32", Type::F32, 1),
            ("v_subrev_f16", Type::F16, 1),
            ("v_mul_f64", Type::F64, 1),
            ("v_mac_f32", Type::F32, 2),
            ("v_fmac_f64", Type::F64, 2),
            ("v_fma_mixlo_f16", Type::F32, 2),
            ("v_div_fmas_f32", Type::F32, 2),
            ("v_pk_fma_f32", Type::F32, 4),
            ("v_pk_mul_f16", Type::F16, 2),
            ("v_rsq_f32", Type::F32, 1),
            ("v_exp_f16", Type::F16, 1),
            ("v_sqrt_f64", Type::F64, 1),
            ("v_dot2_f32_f16", Type::F16, 4),
            ("v_dot2c_i32_i16", Type::I16, 4),
            ("v_dot4_i32_i8", Type::I8, 8),
            ("v_dot8_u32_u4", Type::I4, 16),
        ] {
            assert_eq!(counted(name), Arithmetic::Lane(of, count), "{name}");
        }
        let none = "v_cvt_f32_u32 v_cvt_f16_f32 v_cmp_lt_f32 v_cmp_class_f32 v_min_f32 v_max3_f32 v_med3_f32 v_pk_max_f16 v_floor_f32 \
            v_rndne_f64 v_fract_f32 v_pack_b32_f16 v_cvt_pkrtz_f16_f32 v_ldexp_f32 v_frexp_mant_f32 v_div_scale_f32 v_div_fixup_f64 \
            v_cndmask_b32 v_mad_u32_u24 v_mul_lo_u32 v_add_u32 v_pk_mad_i16 v_sad_u32 v_cubeid_f32";
        for name in none.split_whitespace() {
            assert_eq!(counted(name), Arithmetic::None, "{name}");
        }
    }

    #[test]
    fn what_a_mnemonic_says_of_its_arithmetic_is_in_its_row() {
        // The names of additions, multiplications and transcendental functions of floats, whatever encoding they have.
        let parts = [
            "_add_", "_sub_", "_subrev_", "_mul_", "_mac_", "_fmac_", "_fma_", "_mad_", "madmk", "madak", "fmamk",
            "fmaak",
        ];
        let functions = ["_rcp_", "_rsq_", "_sqrt_", "_exp_", "_log_", "_sin_", "_cos_"];
        let mut counts = [0; 2];
        for op in amdgpu_isa::rows().filter(|op| op.name.starts_with("v_") && !op.name.contains("_frexp_")) {
            let has_float = ["_f16", "_f32", "_f64"].iter().any(|of| op.name.contains(of));
            let computes = parts.iter().chain(&functions).any(|part| op.name.contains(part)) && has_float;
            let computes = computes
                || op.is_matrix()
                || op.name.starts_with("v_dot")
                || op.name.contains("div_fmas")
                || op.name.contains("_mix");
            assert_eq!(op.arithmetic != Arithmetic::None, computes, "{}", op.name);
            counts[usize::from(computes)] += 1;
        }
        assert!(counts[0] > 400 && counts[1] > 100, "{counts:?}");
    }

    #[test]
    fn instructions_on_floats_are_a_group_of_their_own() {
        let decode = |word: u32| amdgpu_isa::Decoder::new(Arch::Gfx90a).decode(&[word]).unwrap();
        // Words of llvm-mc: v_add_f32_e32 v0, v1, v2; v_cmp_lt_f32_e32 vcc, v1, v2; v_add_u32_e32 v0, v1, v2.
        assert_eq!(Group::of(&decode(0x0200_0501)), Group::Float);
        assert_eq!(Group::of(&decode(0x7c82_0501)), Group::Float);
        assert_eq!(Group::of(&decode(0x6800_0501)), Group::Vector);
    }
}
