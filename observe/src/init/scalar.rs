//! Definedness in scalar instructions: bit by bit for bitwise operations.

use amdgpu_emu::isa::operand::{Kind, Operand};

use super::{Defined, Look};

/// An undefined value decides where a wave goes, or which of its lanes are active.
const BRANCH: &str = "a branch depends on a value that nothing has written";
const LANES: &str = "the active lanes depend on a value that nothing has written";

pub(super) fn execute(look: &mut Look<'_>, defined: &mut Defined) {
    let (inst, wave) = (look.inst, look.step.wave);
    let op = inst.op;
    let name = op.name;
    let source = |defined: &Defined, n: usize| defined.scalar(inst.src[n], op.src[n]);
    let value = |n: usize| wave.scalar64(inst.src[n], inst.literal, op.src[n]);
    match name {
        "s_cbranch_scc0" | "s_cbranch_scc1" => {
            if !defined.scc {
                look.report(BRANCH, None, "the scalar condition code".to_owned());
                defined.scc = true;
            }
            return;
        }
        "s_cbranch_vccz" | "s_cbranch_vccnz" => {
            let bits = defined.pair(Operand::VCC);
            if bits != u64::MAX && wave.vcc() & bits == 0 {
                look.report(BRANCH, Some((!bits).trailing_zeros() as u8), "vcc".to_owned());
                defined.set_scalar(Operand::VCC, 2, u64::MAX);
            }
            return;
        }
        "s_setpc_b64" | "s_swappc_b64" if source(defined, 0) != u64::MAX => {
            look.report(BRANCH, None, format!("the address in {}", register(inst.src[0])));
        }
        _ => {}
    }
    if op.dst == Kind::None && !op.src.iter().any(|kind| *kind != Kind::None) {
        return;
    }
    let dwords = op.dst.dwords();
    let count = op.src.iter().filter(|kind| **kind != Kind::None).count();
    let all = (0..count).fold(u64::MAX, |all, n| all & source(defined, n));
    let whole = if all == u64::MAX { u64::MAX } else { 0 };
    let (a, b) = (source(defined, 0), if count > 1 { source(defined, 1) } else { u64::MAX });
    let base = name.rsplit_once('_').map_or(name, |(base, _)| base);
    let (x, y) = (if count > 0 { value(0) } else { 0 }, if count > 1 { value(1) } else { 0 });
    let and = |a: u64, x: u64, b: u64, y: u64| a & b | a & !x | b & !y;
    let or = |a: u64, x: u64, b: u64, y: u64| a & b | a & x | b & y;
    if let Some(operation) = base.strip_suffix("_saveexec").or_else(|| base.strip_suffix("_wrexec")) {
        let exec = wave.exec();
        let bits = match operation {
            "s_and" | "s_nand" => and(a, x, u64::MAX, exec),
            "s_andn1" => and(a, !x, u64::MAX, exec),
            "s_andn2" => and(a, x, u64::MAX, !exec),
            "s_or" | "s_nor" => or(a, x, u64::MAX, exec),
            "s_orn1" => or(a, !x, u64::MAX, exec),
            "s_orn2" => or(a, x, u64::MAX, !exec),
            _ => a,
        };
        lanes(look, bits, inst.src[0]);
        defined.set_scalar(inst.dst, 2, u64::MAX);
        defined.scc = true;
        return;
    }
    let result = match base {
        "s_mov" | "s_not" => a,
        "s_and" | "s_nand" => and(a, x, b, y),
        "s_andn2" => and(a, x, b, !y),
        "s_or" | "s_nor" => or(a, x, b, y),
        "s_orn2" => or(a, x, b, !y),
        "s_xor" | "s_xnor" => a & b,
        "s_lshl" if b == u64::MAX => {
            let by = y as u32 & (32 * dwords - 1);
            a << by | ((1 << by) - 1)
        }
        "s_lshr" if b == u64::MAX => {
            let by = y as u32 & (32 * dwords - 1);
            let upper = if dwords == 2 { a } else { a & 0xffff_ffff };
            let filled = (u64::MAX.checked_shl(32 * dwords - by)).unwrap_or(0);
            upper >> by | filled
        }
        "s_cselect" if !defined.scc => 0,
        "s_cselect" => {
            if wave.scc {
                a
            } else {
                b
            }
        }
        "s_cmov" if !defined.scc => 0,
        "s_cmov" if wave.scc => a,
        "s_cmov" | "s_cmovk" => defined.scalar(inst.dst, op.dst),
        "s_bitset0" | "s_bitset1" => match a {
            u64::MAX => defined.scalar(inst.dst, op.dst) | 1 << (x & 63),
            _ => 0,
        },
        "s_addc" | "s_subb" if !defined.scc => 0,
        "s_addk" | "s_mulk" if defined.scalar(inst.dst, op.dst) != u64::MAX => 0,
        _ => whole,
    };
    if name.starts_with("s_cmp") || name.starts_with("s_bitcmp") {
        let compared = if name.starts_with("s_cmpk") { defined.scalar(inst.dst, op.dst) } else { all };
        defined.scc = compared == u64::MAX;
        return;
    }
    if inst.dst == Operand::EXEC {
        lanes(look, result, inst.src[0]);
    }
    if dwords > 0 && name != "s_setreg_b32" {
        defined.set_scalar(inst.dst, dwords, result);
    }
    let keeps = matches!(
        base,
        "s_mov" | "s_movk" | "s_cmov" | "s_cmovk" | "s_cselect" | "s_mul" | "s_mulk" | "s_brev" | "s_ff1" | "s_ff0"
    );
    let keeps = keeps || name.starts_with("s_bitset") || name.starts_with("s_pack") || name.starts_with("s_sext");
    if !keeps
        && !matches!(
            name,
            "s_getpc_b64" | "s_setpc_b64" | "s_swappc_b64" | "s_call_b64" | "s_getreg_b32" | "s_setreg_b32"
        )
    {
        // Where one defined bit is set, a result is not zero whatever the others are.
        let mask = if dwords == 2 { u64::MAX } else { 0xffff_ffff };
        defined.scc = result & mask == mask || (matches!(base, "s_or") && (x & a | y & b) & mask != 0);
    }
}

/// EXEC is made of these bits.
pub(super) fn lanes(look: &mut Look<'_>, bits: u64, source: Operand) {
    if bits != u64::MAX {
        look.report(LANES, Some((!bits).trailing_zeros() as u8), register(source));
    }
}

/// The name of a scalar operand.
pub(super) fn register(operand: Operand) -> String {
    match operand {
        Operand::VCC => "vcc".to_owned(),
        Operand::M0 => "m0".to_owned(),
        Operand(code) => format!("s{code}"),
    }
}
