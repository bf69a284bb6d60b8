//! What instructions compute: their kind, and the floating-point operations of a lane or of a matrix instruction.
//!
//! Exact, by this count: an addition, multiplication, comparison or conversion is one operation, a fused multiply-add two, a
//! transcendental function one. Integer arithmetic is no floating-point operation.

use amdgpu_isa::inst::Inst;
use amdgpu_isa::op::{Access, Family, Flags};
use amdgpu_isa::operand::Kind;

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
            Family::Sopp => match op.flags.has(Flags::BRANCH) || op.name.starts_with("s_endpgm") {
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
            _ if inst.dpp().is_some() || op.name.contains("lane") => Group::Lanes,
            _ if flops(inst).is_some() => Group::Float,
            _ => Group::Vector,
        }
    }
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
}

impl Accessed {
    /// Of an instruction; `None` if it accesses nothing.
    pub fn of(inst: &Inst) -> Option<Accessed> {
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
        Some(Accessed { reads, writes, lds: inst.op.family == Family::Ds, bytes: bytes.into() })
    }
}

/// The type of floating-point operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Type {
    /// Floats of eight bits, of matrix instructions.
    F8,
    /// Half precision.
    F16,
    /// Brain floats.
    Bf16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// Integers of matrix instructions.
    I8,
}

impl Type {
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Type::F8 => "fp8",
            Type::F16 => "f16",
            Type::Bf16 => "bf16",
            Type::F32 => "f32",
            Type::F64 => "f64",
            Type::I8 => "i8",
        }
    }
}

/// Floating-point operations of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flops {
    /// So many of each active lane.
    Lane(Type, u64),
    /// So many of the wave, whatever lanes are active.
    Wave(Type, u64),
}

impl Flops {
    /// How many an instruction does that was executed so often, by so many active lanes in all.
    pub fn total(self, executions: u64, lanes: u64) -> (Type, u64) {
        match self {
            Flops::Lane(of, each) => (of, each * lanes),
            Flops::Wave(of, each) => (of, each * executions),
        }
    }
}

/// The floating-point operations of an instruction; `None` for those that do none.
pub fn flops(inst: &Inst) -> Option<Flops> {
    let op = inst.op;
    if op.is_matrix() {
        return matrix(op.name);
    }
    if !matches!(op.family, Family::Vop1 | Family::Vop2 | Family::Vopc | Family::Vop3 | Family::Vop3p) {
        return None;
    }
    let float = |kind: Kind| match kind {
        Kind::F16 => Some((Type::F16, 1)),
        Kind::V2F16 => Some((Type::F16, 2)),
        Kind::F32 | Kind::Mix => Some((Type::F32, 1)),
        Kind::V2F32 => Some((Type::F32, 2)),
        Kind::F64 => Some((Type::F64, 1)),
        _ => None,
    };
    if is_dot(op.name) {
        return dot(op.name);
    }
    // The widest type: conversions and mixed operations compute in it.
    let kinds = op.src.iter().chain([&op.dst]);
    let (of, width) = kinds.filter_map(|kind| float(*kind)).max_by_key(|(of, _)| *of)?;
    let fused =
        ["_fma", "_mac", "_fmac", "_mad"].iter().any(|part| op.name.contains(part)) && !op.name.contains("_mad_u");
    let moves = ["_ldexp", "_frexp", "v_div_scale", "v_cndmask", "v_div_fixup", "v_class"];
    if moves.iter().any(|part| op.name.contains(part)) {
        return None;
    }
    Some(Flops::Lane(of, width * if fused { 2 } else { 1 }))
}

fn is_dot(name: &str) -> bool {
    name.starts_with("v_dot")
}

/// `v_dot2_f32_f16`: two products and two additions. Dots of integers are none.
fn dot(name: &str) -> Option<Flops> {
    name.contains("f16").then_some(Flops::Lane(Type::F16, 4))
}

/// Operations of `v_mfma_RESULT_MxNxKTYPE` or `v_mfma_RESULT_MxNxK[_Bb]_TYPE[_TYPE]`, or of `v_smfmac`, whose zeros count: twice the
/// product of the shape, in each of the blocks that 64 lanes hold. The first form has as many blocks as results need to fill the lanes'
/// registers; which those are follows from the shape.
fn matrix(name: &str) -> Option<Flops> {
    let rest = name.strip_prefix("v_mfma_").or(name.strip_prefix("v_smfmac_"))?.split_once('_')?.1;
    let mut numbers = rest.splitn(3, 'x');
    let (m, n): (u64, u64) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let last = numbers.next()?;
    let digits = last.find(|c: char| !c.is_ascii_digit()).unwrap_or(last.len());
    let k: u64 = last.get(..digits)?.parse().ok()?;
    let element = last.get(digits..)?.trim_start_matches('_');
    let of = match element {
        e if e.contains("fp8") || e.contains("bf8") => Type::F8,
        e if e.contains("bf16") => Type::Bf16,
        e if e.contains("f16") => Type::F16,
        e if e.contains("f32") => Type::F32,
        e if e.contains("f64") => Type::F64,
        e if e.contains("i8") => Type::I8,
        _ => return None,
    };
    let said = element.split('_').find_map(|part| part.strip_suffix('b')?.parse::<u64>().ok());
    let blocks = said.unwrap_or_else(|| blocks(m, k, element));
    Some(Flops::Wave(of, 2 * m * n * k * blocks))
}

/// Independent blocks of a shape whose name does not say them. Source: CDNA2 ISA manual, "Matrix Arithmetic Instructions".
fn blocks(m: u64, k: u64, element: &str) -> u64 {
    // Elements of a factor that a lane holds: as many as its one or two registers take.
    let per_lane = match element {
        e if e.contains("f64") || e.contains("f32") => 1,
        "bf16" => 2,
        _ => 4,
    };
    (64 * per_lane / (m * k)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_isa::Arch;

    #[test]
    fn matrix_instructions_do_what_their_tables_say() {
        // Operations of an instruction: AMD's matrix instruction calculator.
        let expected = [
            ("v_mfma_f32_32x32x1f32", 4096),
            ("v_mfma_f32_16x16x4f32", 2048),
            ("v_mfma_f32_16x16x8_xf32", 4096),
            ("v_mfma_f32_32x32x4_xf32", 8192),
            ("v_mfma_f32_4x4x1f32", 512),
            ("v_mfma_f32_32x32x8f16", 16384),
            ("v_mfma_f32_16x16x16f16", 8192),
            ("v_mfma_f32_4x4x4f16", 2048),
            ("v_mfma_f32_32x32x4f16", 16384),
            ("v_mfma_f32_32x32x8bf16_1k", 16384),
            ("v_mfma_f32_32x32x4bf16", 8192),
            ("v_mfma_f32_32x32x2bf16", 8192),
            ("v_mfma_f64_16x16x4f64", 2048),
            ("v_mfma_f64_4x4x4f64", 512),
            ("v_mfma_f32_32x32x1_2b_f32", 4096),
            ("v_mfma_i32_32x32x16_i8", 32768),
            ("v_mfma_i32_16x16x16i8", 8192),
            ("v_mfma_f32_16x16x32_fp8_bf8", 16384),
            ("v_mfma_f32_32x32x16_bf8_bf8", 32768),
            ("v_smfmac_f32_16x16x32_f16", 16384),
            ("v_smfmac_i32_32x32x32_i8", 65536),
            ("v_smfmac_f32_16x16x64_fp8_fp8", 32768),
        ];
        for (name, flops) in expected {
            let Some(Flops::Wave(_, found)) = matrix(name) else { panic!("{name}") };
            assert_eq!(found, flops, "{name}");
        }
    }

    #[test]
    fn every_matrix_instruction_has_a_count_and_no_integer_operation_has_one() {
        for op in amdgpu_isa::rows() {
            if op.is_matrix() {
                assert!(matrix(op.name).is_some(), "{}", op.name);
            }
        }
        let decode = |word: u32| amdgpu_isa::Decoder::new(Arch::Gfx90a).decode(&[word]).unwrap();
        // Words of llvm-mc: v_add_f32_e32 v0, v1, v2; v_mac_f32_e32 v0, v1, v2; v_add_u32_e32 v0, v1, v2.
        assert_eq!(flops(&decode(0x0200_0501)), Some(Flops::Lane(Type::F32, 1)));
        assert_eq!(flops(&decode(0x2c00_0501)), Some(Flops::Lane(Type::F32, 2)));
        assert_eq!(flops(&decode(0x6800_0501)), None);
    }
}
