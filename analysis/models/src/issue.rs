//! Which unit of a compute unit gets an instruction, as counters of hardware tell instructions apart.
//!
//! Sources: the kinds are the issue categories of the scheduler in the documents of rocprof-compute ("Pipeline descriptions"), and the
//! counters `SQ_INSTS_*` in AMD's "MI300 and MI200 Series performance counters and metrics". An instruction's encoding decides.

use amdgpu_isa::action::Action;
use amdgpu_isa::arithmetic::Arithmetic;
pub use amdgpu_isa::arithmetic::Number as Type;
use amdgpu_isa::inst::Inst;
use amdgpu_isa::op::{Access, Family, Flags};

/// The encoding of an instruction on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// A buffer, by a descriptor.
    Buffer,
    /// Any address, which may be of memory, LDS or scratch.
    Flat,
    /// An address of memory.
    Global,
    /// Scratch.
    Scratch,
}

/// What an instruction does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// An atomic.
    Atomic,
    /// It moves no data: it writes caches back or invalidates them.
    Nothing,
}

/// Which unit gets an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issue {
    /// The vector ALU.
    Vector,
    /// The matrix unit, by way of the vector ALU.
    Matrix {
        /// The type of the factors.
        of: Type,
        /// Operations of an execution; those of dense factors, if one is sparse.
        operations: u32,
        /// One of the factors is sparse.
        sparse: bool,
    },
    /// The scalar ALU.
    Scalar,
    /// Scalar memory.
    ScalarMemory,
    /// Vector memory.
    Memory(Path, Direction),
    /// LDS; lane exchanges through it as well.
    Lds,
    /// The global data share; barriers of the whole grid as well.
    GlobalData,
    /// A jump to a distance.
    Branch,
    /// A jump to an address in registers.
    IndirectBranch,
    /// A message, or the end of the wave.
    Message,
    /// No unit: waits, barriers, wait states.
    Internal,
}

impl Issue {
    /// That of an instruction.
    pub fn of(inst: &Inst) -> Issue {
        let op = inst.op;
        let memory = |path| Issue::Memory(path, direction(op.access));
        match op.family {
            Family::Smem => Issue::ScalarMemory,
            _ if inst.is_indirect() => Issue::IndirectBranch,
            _ if op.flags.has(Flags::BRANCH) => Issue::Branch,
            Family::Sopp if matches!(op.action, Action::SendMessage | Action::End) => Issue::Message,
            Family::Sopp => Issue::Internal,
            Family::Sop1 | Family::Sop2 | Family::Sopc | Family::Sopk => Issue::Scalar,
            Family::Ds if op.flags.has(Flags::GWS) => Issue::GlobalData,
            Family::Ds => Issue::Lds,
            Family::Flat => memory(Path::Flat),
            Family::Global => memory(Path::Global),
            Family::Scratch => memory(Path::Scratch),
            Family::Mubuf => memory(Path::Buffer),
            Family::Vop1 | Family::Vop2 | Family::Vopc | Family::Vop3 | Family::Vop3p | Family::Vop3px2 => {
                match op.arithmetic {
                    Arithmetic::Wave(of, operations) if op.is_matrix() => {
                        Issue::Matrix { of, operations, sparse: op.flags.has(Flags::SPARSE) }
                    }
                    _ => Issue::Vector,
                }
            }
        }
    }
}

fn direction(access: Access) -> Direction {
    match access {
        Access::Load(..) | Access::Load2(..) | Access::LoadLds(..) | Access::LoadFormat(..) => Direction::Read,
        Access::Store(..) | Access::Store2(..) | Access::StoreFormat(..) => Direction::Write,
        Access::Atomic(..) => Direction::Atomic,
        Access::None => Direction::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use amdgpu_isa::{Arch, Decoder};

    #[test]
    fn instructions_of_each_encoding_go_where_amd_says() {
        // Words of llvm-mc for gfx90a.
        let cases: &[(&[u32], Issue)] = &[
            (&[0x0200_0501], Issue::Vector),          // v_add_f32_e32 v0, v1, v2
            (&[0x8000_0201], Issue::Scalar),          // s_add_u32 s0, s1, s2
            (&[0xbf8c_0070], Issue::Internal),        // s_waitcnt vmcnt(0) lgkmcnt(0)
            (&[0xbf8a_0000], Issue::Internal),        // s_barrier
            (&[0xbf81_0000], Issue::Message),         // s_endpgm
            (&[0xbf82_0003], Issue::Branch),          // s_branch 3
            (&[0xbf84_0003], Issue::Branch),          // s_cbranch_scc0 3
            (&[0xbe80_1d02], Issue::IndirectBranch),  // s_setpc_b64 s[2:3]
            (&[0xc002_0002, 0], Issue::ScalarMemory), // s_load_dword s0, s[4:5], 0x0
            (&[0xdc50_8000, 0x007f_0000], Issue::Memory(Path::Global, Direction::Read)), // global_load_dword v0, v[0:1], off
            (&[0xdc70_0000, 0x0000_0200], Issue::Memory(Path::Flat, Direction::Write)),  // flat_store_dword v[0:1], v2
            (&[0xd86c_0000, 0x0000_0000], Issue::Lds),                                   // ds_read_b32 v0, v0
        ];
        let decoder = Decoder::new(Arch::Gfx90a);
        for (words, expected) in cases {
            let inst = decoder.decode(words).unwrap_or_else(|error| panic!("{words:x?}: {error:?}"));
            assert_eq!(Issue::of(&inst), *expected, "{}", inst.op.name);
        }
    }

    #[test]
    fn every_matrix_instruction_does_a_multiple_of_512_operations() {
        let mut count = 0;
        for op in amdgpu_isa::rows().filter(|op| op.is_matrix()) {
            let Arithmetic::Wave(_, operations) = op.arithmetic else { panic!("{}", op.name) };
            assert!(operations > 0 && operations % 512 == 0, "{}: {operations}", op.name);
            count += 1;
        }
        assert!(count > 40, "{count}");
    }
}
