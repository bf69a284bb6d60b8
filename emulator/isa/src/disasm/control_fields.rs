//! Immediates and control words that have a syntax of their own.

use std::fmt::{self, Write};

use crate::arch::{Arch, Feature};
use crate::inst::{Dpp, Inst};
use crate::op::{Family, Flags};
use crate::operand::Kind;

/// `hwreg(name, offset, width)`; the last two only when they are not the whole register.
pub(super) fn hwreg(out: &mut String, imm: u16, arch: Arch) -> fmt::Result {
    let (id, offset, width) = (imm & 63, imm >> 6 & 31, (imm >> 11) + 1);
    let name = match id {
        1 => "HW_REG_MODE",
        2 => "HW_REG_STATUS",
        3 => "HW_REG_TRAPSTS",
        4 => "HW_REG_HW_ID",
        5 => "HW_REG_GPR_ALLOC",
        6 => "HW_REG_LDS_ALLOC",
        7 => "HW_REG_IB_STS",
        15 => "HW_REG_SH_MEM_BASES",
        16 => "HW_REG_TBA_LO",
        17 => "HW_REG_TBA_HI",
        18 => "HW_REG_TMA_LO",
        19 => "HW_REG_TMA_HI",
        20 if arch.has(Feature::Gfx940Insts) => "HW_REG_XCC_ID",
        21 if arch.has(Feature::Gfx940Insts) => "HW_REG_SQ_PERF_SNAPSHOT_DATA",
        22 if arch.has(Feature::Gfx940Insts) => "HW_REG_SQ_PERF_SNAPSHOT_DATA1",
        23 if arch.has(Feature::Gfx940Insts) => "HW_REG_SQ_PERF_SNAPSHOT_PC_LO",
        24 if arch.has(Feature::Gfx940Insts) => "HW_REG_SQ_PERF_SNAPSHOT_PC_HI",
        _ => "",
    };
    if name.is_empty() {
        write!(out, "hwreg({id}")?
    } else {
        write!(out, "hwreg({name}")?
    }
    if (offset, width) != (0, 32) {
        write!(out, ", {offset}, {width}")?;
    }
    out.write_char(')')
}

/// The counters that are waited for; those at their maximum are not waited for.
pub(super) fn waitcnt(out: &mut String, imm: u16) -> fmt::Result {
    let (vm, exp, lgkm) = (imm & 15 | imm >> 10 & 0x30, imm >> 4 & 7, imm >> 8 & 15);
    let mut parts = Vec::new();
    let nothing = (vm, exp, lgkm) == (63, 7, 15);
    if vm != 63 || nothing {
        parts.push(format!("vmcnt({vm})"));
    }
    if exp != 7 || nothing {
        parts.push(format!("expcnt({exp})"));
    }
    if lgkm != 15 || nothing {
        parts.push(format!("lgkmcnt({lgkm})"));
    }
    out.write_str(&parts.join(" "))
}

/// The operands that the index mode moves.
pub(super) fn index_mode(out: &mut String, imm: u16) -> fmt::Result {
    if imm > 15 {
        return write!(out, "{imm:#x}");
    }
    let names = ["SRC0", "SRC1", "SRC2", "DST"].into_iter().enumerate();
    let names: Vec<&str> = names.filter(|(bit, _)| imm >> bit & 1 == 1).map(|(_, name)| name).collect();
    write!(out, "gpr_idx({})", names.join(","))
}

/// `sendmsg(name, operation, stream)`.
pub(super) fn sendmsg(out: &mut String, imm: u16) -> fmt::Result {
    let (id, op, stream) = (imm & 15, imm >> 4 & 7, imm >> 8 & 3);
    let operation = match (id, op) {
        (2 | 3, 0..=3) => ["GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT"][usize::from(op)],
        (15, 1) => "SYSMSG_OP_ECC_ERR_INTERRUPT",
        (15, 2) => "SYSMSG_OP_REG_RD",
        (15, 4) => "SYSMSG_OP_TTRACE_PC",
        _ => "",
    };
    // Bits above the stream do not matter where the message has a name.
    match (id, operation) {
        (3, "GS_OP_NOP") if stream == 0 => return out.write_str("sendmsg(MSG_GS_DONE, GS_OP_NOP)"),
        (2 | 3, name) if !name.is_empty() && name != "GS_OP_NOP" => {
            return write!(out, "sendmsg({}, {name}, {stream})", if id == 2 { "MSG_GS" } else { "MSG_GS_DONE" });
        }
        (15, name) if !name.is_empty() && stream == 0 => return write!(out, "sendmsg(MSG_SYSMSG, {name})"),
        _ => {}
    }
    let name = match id {
        1 => "MSG_INTERRUPT",
        4 => "MSG_SAVEWAVE",
        5 => "MSG_STALL_WAVE_GEN",
        6 => "MSG_HALT_WAVES",
        7 => "MSG_ORDERED_PS_DONE",
        8 => "MSG_EARLY_PRIM_DEALLOC",
        9 => "MSG_GS_ALLOC_REQ",
        10 => "MSG_GET_DOORBELL",
        _ => "",
    };
    if !name.is_empty() && op == 0 && stream == 0 {
        write!(out, "sendmsg({name})")
    } else if imm >> 10 == 0 && imm & 0x80 == 0 {
        write!(out, "sendmsg({id}, {op}, {stream})")
    } else {
        write!(out, "{imm}")
    }
}

/// The offset of `ds_swizzle_b32` as the operation that it is.
pub(super) fn swizzle(out: &mut String, imm: u16) -> fmt::Result {
    if imm >= 0xe000 {
        return write!(out, " offset:swizzle(FFT,{})", imm & 31);
    }
    if imm >= 0xc000 {
        return write!(out, " offset:swizzle(ROTATE,{},{})", imm >> 10 & 1, imm >> 5 & 31);
    }
    if imm & 0xff00 == 0x8000 {
        let lane = |n: u16| imm >> (2 * n) & 3;
        return write!(out, " offset:swizzle(QUAD_PERM,{},{},{},{})", lane(0), lane(1), lane(2), lane(3));
    }
    if imm & 0x8000 != 0 {
        return write!(out, " offset:{imm}");
    }
    let (and, or, xor) = (imm & 31, imm >> 5 & 31, imm >> 10 & 31);
    if and == 31 && or == 0 && xor.is_power_of_two() {
        return write!(out, " offset:swizzle(SWAP,{xor})");
    }
    if and == 31 && or == 0 && xor > 0 && (xor + 1).is_power_of_two() {
        return write!(out, " offset:swizzle(REVERSE,{})", xor + 1);
    }
    let group = 32 - and;
    if group > 1 && group.is_power_of_two() && or < group && xor == 0 {
        return write!(out, " offset:swizzle(BROADCAST,{group},{or})");
    }
    // Bit by bit: 0, 1, preserved or inverted.
    let bits: String = (0..5)
        .rev()
        .map(|n| {
            let (and, or, xor) = (and >> n & 1, or >> n & 1, xor >> n & 1);
            // What becomes of a zero, and of a one.
            match (or ^ xor, (and | or) ^ xor) {
                (0, 0) => '0',
                (1, 1) => '1',
                (0, _) => 'p',
                _ => 'i',
            }
        })
        .collect();
    write!(out, " offset:swizzle(BITMASK_PERM,\"{bits}\")")
}

fn selection(sel: u8) -> &'static str {
    ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"][usize::from(sel.min(6))]
}

/// The selections of a sub-dword form.
pub(super) fn sdwa(out: &mut String, i: &Inst) {
    let Some(sdwa) = i.sdwa() else { return };
    if i.op.family != Family::Vopc && i.op.dst != Kind::None && !i.op.flags.has(Flags::PART_SRC) {
        out.push_str(" dst_sel:");
        out.push_str(selection(sdwa.dst_sel));
        out.push_str(" dst_unused:");
        out.push_str(["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"][usize::from(sdwa.dst_unused.min(2))]);
    }
    for (n, name) in [" src0_sel:", " src1_sel:"].into_iter().enumerate() {
        let exists = i.op.src[n] != Kind::None && i.op.src[n] != Kind::Mask;
        if exists {
            out.push_str(name);
            out.push_str(selection(sdwa.src_sel[n]));
        }
    }
}

/// The lane pattern and masks of a data-parallel form.
pub(super) fn dpp(out: &mut String, i: &Inst) -> fmt::Result {
    let Some(Dpp { ctrl, bound_ctrl, bank_mask, row_mask }) = i.dpp() else { return Ok(()) };
    match ctrl {
        0..=0xff => write!(out, " quad_perm:[{},{},{},{}]", ctrl & 3, ctrl >> 2 & 3, ctrl >> 4 & 3, ctrl >> 6 & 3)?,
        0x101..=0x10f => write!(out, " row_shl:{}", ctrl & 15)?,
        0x111..=0x11f => write!(out, " row_shr:{}", ctrl & 15)?,
        0x121..=0x12f => write!(out, " row_ror:{}", ctrl & 15)?,
        0x130 => out.push_str(" wave_shl:1"),
        0x134 => out.push_str(" wave_rol:1"),
        0x138 => out.push_str(" wave_shr:1"),
        0x13c => out.push_str(" wave_ror:1"),
        0x140 => out.push_str(" row_mirror"),
        0x141 => out.push_str(" row_half_mirror"),
        0x142 => out.push_str(" row_bcast:15"),
        0x143 => out.push_str(" row_bcast:31"),
        _ => write!(out, " row_newbcast:{}", ctrl & 15)?,
    }
    write!(out, " row_mask:{row_mask:#x} bank_mask:{bank_mask:#x}")?;
    if bound_ctrl {
        out.push_str(" bound_ctrl:1");
    }
    debug_assert!(!i.op.flags.has(Flags::NO_DPP));
    Ok(())
}
