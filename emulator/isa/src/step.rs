//! Executing one decoded instruction.

use crate::env::Env;
use crate::inst::Inst;
use crate::op::{Family, Flow};
use crate::operand::Operand;
use crate::wave::{Mode, Wave};

/// Executes `i`, whose address is the wave's program counter, and moves the program counter behind it.
#[inline(always)]
pub fn execute(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    w.pc = w.pc.wrapping_add(u64::from(i.size));
    w.executed += 1;
    if w.mode.0 & Mode::GPR_IDX_EN != 0 && is_valu(i) {
        return indexed(w, i, e);
    }
    // SAFETY: `run` is private to instructions that a `Decoder` made, and `Decoder::with_level` never exceeds the
    // level that `HostLevel::detect` found on this host.
    unsafe { (i.run)(w, i, e) }
}

fn is_valu(i: &Inst) -> bool {
    matches!(i.op.family, Family::Vop1 | Family::Vop2 | Family::Vopc | Family::Vop3 | Family::Vop3p)
}

/// In index mode the vector registers of an instruction are moved by M0. Source: Vega ISA manual, "VGPR Indexing".
#[cold]
fn indexed(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    let m0 = w.sgpr[usize::from(Operand::M0.0)];
    let (index, which) = (m0 & 0xff, m0 >> 12);
    let moved = |operand: Operand, bit: u32| match operand.is_vector() && !operand.is_agpr() && which >> bit & 1 == 1 {
        true => Operand(256 + ((u32::from(operand.0) - 256 + index) & 0xff) as u16),
        false => operand,
    };
    let mut copy = i.clone();
    for (n, source) in copy.src.iter_mut().enumerate() {
        *source = moved(*source, n as u32);
    }
    copy.dst = moved(copy.dst, 3);
    // SAFETY: as in `execute`.
    unsafe { (copy.run)(w, &copy, e) }
}
