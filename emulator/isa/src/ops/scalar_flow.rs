//! Control flow, hardware registers, messages and waits: SOPP, and the jumps of SOP1 and SOPK.
//!
//! Source: Vega ISA manual, "Program Flow Control" and "Hardware Registers".

use super::kinds;
use crate::action::{Action, Condition};
use crate::arch::ArchSet;
use crate::env::Env;
use crate::inst::Inst;
use crate::mode::Mode;
use crate::op::{Family, Flags, Flow, Levels, Op};
use crate::operand::{Kind, Operand};
use crate::wave::{Sgprs, Trap, Wave, pair};

const fn op(name: &'static str, family: Family, code: u16, run: Levels) -> Op {
    Op::new(name, family, code, ArchSet::ALL, run)
}

/// A SOPP jump that is taken under a condition on the scalar registers and the condition code.
macro_rules! branch {
    ($name:literal $code:literal |$sgprs:ident, $scc:ident| $taken:expr) => {{
        fn taken($sgprs: &Sgprs, $scc: bool) -> bool {
            $taken
        }
        let run = one_level!(w, i, _e, {
            if taken(&w.sgpr, w.scc) {
                jump(w, i);
            }
            Flow::Next
        });
        op($name, Family::Sopp, $code, run).with(Flags::BRANCH).taken(taken)
    }};
}

/// A SOPP instruction without effect on what the program computes.
macro_rules! hint {
    ($name:literal $code:literal) => {
        op($name, Family::Sopp, $code, one_level!(_w, _i, _e, Flow::Next))
    };
}

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    hint!("s_nop" 0x00).is(Action::Nop),
    op("s_endpgm", Family::Sopp, 0x01, one_level!(_w, _i, _e, Flow::End)).with(Flags::NO_NEXT).is(Action::End),
    branch!("s_branch"         0x02 |_s, _scc| true).with(Flags::NO_NEXT),
    hint!("s_wakeup" 0x03).with(Flags::NO_IMMEDIATE),
    branch!("s_cbranch_scc0"   0x04 |_s, scc| !scc).is(Action::Branch(Condition::Scc)).with(Flags::READS_SCC),
    branch!("s_cbranch_scc1"   0x05 |_s, scc| scc).is(Action::Branch(Condition::Scc)).with(Flags::READS_SCC),
    branch!("s_cbranch_vccz"   0x06 |s, _scc| pair(s, Operand::VCC) == 0).is(Action::Branch(Condition::Vcc)),
    branch!("s_cbranch_vccnz"  0x07 |s, _scc| pair(s, Operand::VCC) != 0).is(Action::Branch(Condition::Vcc)),
    branch!("s_cbranch_execz"  0x08 |s, _scc| pair(s, Operand::EXEC) == 0).is(Action::Branch(Condition::Exec)),
    branch!("s_cbranch_execnz" 0x09 |s, _scc| pair(s, Operand::EXEC) != 0).is(Action::Branch(Condition::Exec)),
    op("s_barrier", Family::Sopp, 0x0a, one_level!(_w, _i, _e, Flow::Barrier)).with(Flags::NO_IMMEDIATE.and(Flags::BARRIER)),
    op("s_waitcnt", Family::Sopp, 0x0c, one_level!(_w, _i, _e, Flow::Wait)).is(Action::Wait),
    op("s_sethalt", Family::Sopp, 0x0d, one_level!(w, i, _e, if i.imm & 1 == 1 { stop(w, Trap::Halt) } else { Flow::Next })),
    op("s_sleep", Family::Sopp, 0x0e, one_level!(_w, _i, _e, Flow::Yield)),
    hint!("s_setprio" 0x0f),
    op("s_sendmsg", Family::Sopp, 0x10, one_level!(w, i, e, { e.message(i.imm as u32, w.sgpr[usize::from(Operand::M0.0)]); Flow::Next })).is(Action::SendMessage),
    op("s_trap", Family::Sopp, 0x12, one_level!(w, i, _e, stop(w, Trap::Trap(i.imm as u8)))).with(Flags::NO_NEXT),
    op("s_icache_inv", Family::Sopp, 0x13, one_level!(_w, _i, e, { e.fence(); Flow::Next })).with(Flags::NO_IMMEDIATE),
    hint!("s_incperflevel" 0x14),
    hint!("s_decperflevel" 0x15),
    hint!("s_ttracedata" 0x16).with(Flags::NO_IMMEDIATE).is(Action::TraceData),
    // No debugger is attached.
    branch!("s_cbranch_cdbgsys"          0x17 |_s, _scc| false),
    branch!("s_cbranch_cdbguser"         0x18 |_s, _scc| false),
    branch!("s_cbranch_cdbgsys_or_user"  0x19 |_s, _scc| false),
    branch!("s_cbranch_cdbgsys_and_user" 0x1a |_s, _scc| false),
    op("s_endpgm_saved", Family::Sopp, 0x1b, one_level!(_w, _i, _e, Flow::End)).with(Flags::NO_IMMEDIATE).with(Flags::NO_NEXT).is(Action::End),
    op("s_set_gpr_idx_on", Family::Sopc, 0x11, one_level!(w, i, _e, { w.mode.0 |= Mode::GPR_IDX_EN; set_index(w, i); set_index_mode(w, i) }))
        .operands(Kind::None, kinds(&[Kind::B32])).with(Flags::INDEX_MODE).is(Action::SetIndex),
    op("s_set_gpr_idx_idx", Family::Sop1, 0x32, one_level!(w, i, _e, set_index(w, i))).operands(Kind::None, kinds(&[Kind::B32])).is(Action::SetIndex),
    op("s_set_gpr_idx_mode", Family::Sopp, 0x1d, one_level!(w, i, _e, set_index_mode(w, i))).is(Action::SetIndex).with(Flags::INDEX_MODE),
    op("s_set_gpr_idx_off", Family::Sopp, 0x1c, one_level!(w, _i, _e, { w.mode.0 &= !Mode::GPR_IDX_EN; Flow::Next })).with(Flags::NO_IMMEDIATE).is(Action::EndIndex),
    op("s_getpc_b64", Family::Sop1, 0x1c, one_level!(w, i, _e, { w.set_pair(i.dst, w.pc); Flow::Next }))
        .operands(Kind::B64, [Kind::None; 3]).is(Action::GetPc),
    op("s_setpc_b64", Family::Sop1, 0x1d, one_level!(w, i, _e, { w.pc = target(w, i); Flow::Next }))
        .operands(Kind::None, kinds(&[Kind::B64])).with(Flags::INDIRECT).with(Flags::NO_NEXT),
    op("s_swappc_b64", Family::Sop1, 0x1e, one_level!(w, i, _e, { let to = target(w, i); w.set_pair(i.dst, w.pc); w.pc = to; Flow::Next }))
        .operands(Kind::B64, kinds(&[Kind::B64])).with(Flags::INDIRECT).is(Action::Call),
    op("s_getreg_b32", Family::Sopk, 0x11, one_level!(w, i, e, get_register(w, i, e))).operands(Kind::B32, [Kind::None; 3]).is(Action::GetRegister).with(Flags::READS_SCC),
    op("s_setreg_b32", Family::Sopk, 0x12, one_level!(w, i, _e, { let value = w.scalar32(i.dst, 0, Kind::B32); set_register(w, i, value) }))
        .operands(Kind::B32, [Kind::None; 3]).is(Action::SetRegister).with(Flags::READS_DST),
    op("s_setreg_imm32_b32", Family::Sopk, 0x14, one_level!(w, i, _e, set_register(w, i, i.literal))).with(Flags::LITERAL).is(Action::SetRegister),
    op("s_call_b64", Family::Sopk, 0x15, one_level!(w, i, _e, { w.set_pair(i.dst, w.pc); jump(w, i); Flow::Next }))
        .operands(Kind::B64, [Kind::None; 3]).with(Flags::BRANCH).is(Action::Call),
];

/// Ends the wave with a reason.
pub(crate) fn stop(w: &mut Wave, trap: Trap) -> Flow {
    w.trap = Some(trap);
    Flow::Trap
}

fn jump(w: &mut Wave, i: &Inst) {
    w.pc = w.pc.wrapping_add_signed(i64::from(i.imm) * 4);
}

/// M0's low byte is what the index mode adds to the numbers of vector registers.
fn set_index(w: &mut Wave, i: &Inst) -> Flow {
    let index = w.scalar32(i.src[0], i.literal, Kind::B32);
    let m0 = &mut w.sgpr[usize::from(Operand::M0.0)];
    *m0 = *m0 & !0xff | index & 0xff;
    Flow::Next
}

/// M0's bits 12 to 15 say for which operands.
fn set_index_mode(w: &mut Wave, i: &Inst) -> Flow {
    let m0 = &mut w.sgpr[usize::from(Operand::M0.0)];
    *m0 = *m0 & !0xf000 | (i.imm as u32 & 15) << 12;
    Flow::Next
}

fn target(w: &Wave, i: &Inst) -> u64 {
    w.scalar64(i.src[0], i.literal, Kind::B64) & !3
}

/// A field of a hardware register, as the immediate of `s_getreg` and `s_setreg` names it.
struct Field {
    register: u32,
    offset: u32,
    mask: u32,
}

impl Field {
    fn new(i: &Inst) -> Field {
        let imm = i.imm as u32;
        let width = (imm >> 11 & 31) + 1;
        Field { register: imm & 63, offset: imm >> 6 & 31, mask: if width == 32 { u32::MAX } else { (1 << width) - 1 } }
    }
}

/// Numbers of hardware registers. Source: Vega ISA manual, table "Hardware Register Values".
mod hw {
    pub(super) const MODE: u32 = 1;
    pub(super) const STATUS: u32 = 2;
    pub(super) const TRAPSTS: u32 = 3;
    pub(super) const HW_ID: u32 = 4;
    pub(super) const GPR_ALLOC: u32 = 5;
    pub(super) const LDS_ALLOC: u32 = 6;
    pub(super) const SH_MEM_BASES: u32 = 15;
    pub(super) const XCC_ID: u32 = 20;
}

fn get_register(w: &mut Wave, i: &Inst, _e: &mut dyn Env) -> Flow {
    let field = Field::new(i);
    let value = match field.register {
        hw::MODE => w.mode.0,
        hw::STATUS => u32::from(w.scc) | u32::from(w.exec() == 0) << 9 | u32::from(w.vcc() == 0) << 10 | 1 << 16,
        hw::TRAPSTS => w.hw_regs.trap_sts,
        hw::HW_ID => w.hw_regs.hw_id,
        hw::GPR_ALLOC => w.hw_regs.gpr_alloc,
        hw::LDS_ALLOC => w.hw_regs.lds_alloc,
        hw::SH_MEM_BASES => w.apertures.private >> 16 | w.apertures.shared & 0xffff_0000,
        hw::XCC_ID if w.arch.architected_flat_scratch() => w.hw_regs.xcc_id,
        // The others hold debugging state that is zero here: instruction buffer, shadow and trap registers.
        _ => 0,
    };
    w.set_sgpr(i.dst, value >> field.offset & field.mask);
    Flow::Next
}

fn set_register(w: &mut Wave, i: &Inst, value: u32) -> Flow {
    let field = Field::new(i);
    let merged = |old: u32| old & !(field.mask << field.offset) | (value & field.mask) << field.offset;
    match field.register {
        hw::MODE => {
            let old = w.mode.0;
            w.mode.0 = merged(old);
            if w.mode.0 & !old & Mode::VSKIP != 0 {
                return stop(w, Trap::Vskip);
            }
        }
        hw::TRAPSTS => w.hw_regs.trap_sts = merged(w.hw_regs.trap_sts),
        // Other registers are read-only for a user's wave.
        _ => {}
    }
    Flow::Next
}
