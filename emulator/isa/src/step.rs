//! Executing one decoded instruction.

use crate::env::Env;
use crate::inst::Inst;
use crate::op::{Family, Flags, Flow};
use crate::operand::Operand;
use crate::wave::Wave;

/// Executes `i`, whose address is the wave's program counter, and moves the program counter behind it.
#[inline(always)]
pub fn execute(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    w.pc = w.pc.wrapping_add(u64::from(i.size));
    w.executed += 1;
    perform(w, i, e)
}

/// Executes `i`, whatever the wave's program counter and its count of instructions are.
#[inline(always)]
pub(crate) fn perform(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    if w.mode.has_index() && is_valu(i) {
        return indexed(w, i, e);
    }
    perform_in_place(w, i, e)
}

/// As [`perform`], in a wave that is not in index mode.
#[inline(always)]
pub(crate) fn perform_in_place(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    // SAFETY: `run` is private to instructions that a `Decoder` made, and `Decoder::with_level` never exceeds the
    // level that `HostLevel::detect` found on this host.
    unsafe { (i.run)(w, i, e) }
}

fn is_valu(i: &Inst) -> bool {
    matches!(i.op.family, Family::Vop1 | Family::Vop2 | Family::Vopc | Family::Vop3 | Family::Vop3p | Family::Vop3px2)
}

/// The instruction as index mode changes it; `None` where that mode is off, or moves nothing of such an instruction.
pub fn moved(w: &Wave, i: &Inst) -> Option<Inst> {
    (w.mode.has_index() && is_valu(i)).then(|| with_index(w, i))
}

/// In index mode the vector registers of an instruction are moved by M0. Source: Vega ISA manual, "VGPR Indexing".
#[cold]
fn indexed(w: &mut Wave, i: &Inst, e: &mut dyn Env) -> Flow {
    let copy = with_index(w, i);
    // SAFETY: as in `execute`.
    unsafe { (copy.run)(w, &copy, e) }
}

fn with_index(w: &Wave, i: &Inst) -> Inst {
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
    if i.op.flags.has(Flags::DST_IS_SRC2) {
        // The destination and what it is added to are one register. Source: Vega ISA manual, "VGPR Indexing Details".
        copy.src[2] = copy.dst;
    }
    copy
}

/// A machine that registers alone do not need.
#[cfg(test)]
pub(crate) struct Nothing;

#[cfg(test)]
impl Env for Nothing {
    fn load(
        &mut self,
        _: &crate::env::Addresses,
        _: u64,
        _: u8,
        _: &mut [crate::wave::Vgpr],
    ) -> Result<(), crate::env::Fault> {
        unreachable!()
    }
    fn store(
        &mut self,
        _: &crate::env::Addresses,
        _: u64,
        _: u8,
        _: &[crate::wave::Vgpr],
    ) -> Result<(), crate::env::Fault> {
        unreachable!()
    }
    fn atomic(
        &mut self,
        _: crate::atomic::AtomicOp,
        _: &crate::env::Addresses,
        _: u64,
        _: u8,
        _: &[crate::wave::Vgpr],
        _: &mut [crate::wave::Vgpr],
    ) -> Result<(), crate::env::Fault> {
        unreachable!()
    }
    fn scalar_load(&mut self, _: u64, _: &mut [u32]) -> Result<(), crate::env::Fault> {
        unreachable!()
    }
    fn scalar_store(&mut self, _: u64, _: &[u32]) -> Result<(), crate::env::Fault> {
        unreachable!()
    }
    fn lds(&mut self) -> &mut [u8] {
        &mut []
    }
    fn message(&mut self, _: u32, _: u32) {}
    fn cycles(&mut self) -> u64 {
        0
    }
    fn ticks(&mut self) -> u64 {
        0
    }
    fn fence(&mut self) {}
    fn gws(&mut self, _: crate::env::GwsOp, _: u32, _: u32) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disasm::Disassembly;
    use crate::wave::vgpr_file;
    use crate::{Arch, Decoder};

    #[test]
    fn the_index_mode_moves_the_operands_that_it_names() {
        // The words and the texts are llvm-mc's.
        let program = [
            (0xbf11_0106, "s_set_gpr_idx_on s6, gpr_idx(SRC0)"),
            (0x7e00_0302, "v_mov_b32_e32 v0, v2"),
            (0xbf9d_0008, "s_set_gpr_idx_mode gpr_idx(DST)"),
            (0xbe80_3207, "s_set_gpr_idx_idx s7"),
            (0x7e00_0302, "v_mov_b32_e32 v0, v2"),
            (0xbf9c_0000, "s_set_gpr_idx_off "),
            (0x7e06_0302, "v_mov_b32_e32 v3, v2"),
        ];
        let mut w = Wave::new(Arch::Gfx90a, 0, vgpr_file());
        w.set_exec(u64::MAX);
        (w.sgpr[6], w.sgpr[7]) = (0xff03, 9);
        w.sgpr[usize::from(Operand::M0.0)] = 0xabcd_0123;
        for (n, register) in w.vgpr.iter_mut().enumerate() {
            register.fill(n as u32);
        }
        for (word, text) in program {
            let inst = Decoder::new(Arch::Gfx90a).decode(&[word]).unwrap();
            assert_eq!(Disassembly { inst: &inst, arch: Arch::Gfx90a }.to_string().trim(), text.trim());
            execute(&mut w, &inst, &mut Nothing);
        }
        assert_eq!(w.sgpr[usize::from(Operand::M0.0)], 0xabcd_8109, "other bits of M0 stay");
        assert_eq!([0, 2, 3, 5, 9].map(|n| w.vgpr[n][63]), [5, 2, 2, 5, 2]);
    }
}
