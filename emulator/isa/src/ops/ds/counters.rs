//! Counters in LDS, and the barriers of the whole grid.

use super::{get, put};
use crate::env::{Env, GwsOp};
use crate::inst::{Inst, control};
use crate::lanes::blend;
use crate::op::Flow;
use crate::operand::Operand;
use crate::ops::scalar_flow::stop;
use crate::wave::{LANES, Trap, Wave};

/// The address of a counter in LDS: M0's low half plus the offset. M0's high half is the base of counters in the global data
/// share. Source: LLVM's `SelectDSAppendConsume`, which moves the address to M0.
pub(crate) fn counter_address(w: &Wave, i: &Inst) -> u32 {
    (w.sgpr[usize::from(Operand::M0.0)] & 0xffff) + i.imm as u32
}

/// Adds (or subtracts) the number of active lanes at the counter's address; every lane gets the old value.
pub(super) fn append(w: &mut Wave, i: &Inst, e: &mut dyn Env, up: bool) -> Flow {
    if i.has(control::GDS) {
        return stop(w, Trap::Illegal);
    }
    let at = counter_address(w, i);
    let exec = w.exec();
    let lds = e.lds();
    let old = get(lds, at, 4) as u32;
    let count = exec.count_ones();
    put(lds, at, 4, if up { old.wrapping_add(count) } else { old.wrapping_sub(count) }.into());
    blend(w.vector_mut(i.dst, 0), &[old; LANES], exec);
    Flow::Next
}

/// The resource number is M0's base plus the instruction's offset; the value is the first active lane's.
pub(super) fn gws(w: &mut Wave, i: &Inst, e: &mut dyn Env, op: GwsOp) -> Flow {
    let resource = (w.sgpr[usize::from(Operand::M0.0)] >> 16 & 0x3f).wrapping_add(i.imm as u32) & 0x3f;
    let lane = w.exec().trailing_zeros() as usize & 63;
    let value = w.vector(i.src[0], 0)[lane];
    if e.gws(op, resource, value) {
        return Flow::Next;
    }
    // Not all waves have arrived: try again when others have run.
    w.pc = w.pc.wrapping_sub(i.size.into());
    Flow::Yield
}
