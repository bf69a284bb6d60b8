//! Instructions as text, in the syntax of LLVM's assembler.

use std::fmt::{self, Write};

use crate::action::Action;
use crate::arch::{Arch, Feature};
use crate::inst::{Form, Inst, Scales, control};
use crate::op::{Access, Family, Flags};
use crate::operand::{Kind, Operand};

mod control_fields;

/// An instruction of a processor, to be printed.
pub struct Disassembly<'a> {
    /// The instruction.
    pub inst: &'a Inst,
    /// The processor that it is for: some hints have other names on MI300.
    pub arch: Arch,
}

impl fmt::Display for Disassembly<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text { out: String::new(), i: self.inst, arch: self.arch };
        text.instruction()?;
        f.write_str(text.out.trim_end())
    }
}

struct Text<'a> {
    out: String,
    i: &'a Inst,
    arch: Arch,
}

/// The name of a special scalar operand of one or two registers.
fn special_name(code: u16, dwords: u32) -> Option<&'static str> {
    Some(match (code, dwords) {
        (102, 2) => "flat_scratch",
        (102, _) => "flat_scratch_lo",
        (103, _) => "flat_scratch_hi",
        (104, 2) => "xnack_mask",
        (104, _) => "xnack_mask_lo",
        (105, _) => "xnack_mask_hi",
        (106, 2) => "vcc",
        (106, _) => "vcc_lo",
        (107, _) => "vcc_hi",
        (124, _) => "m0",
        (126, 2) => "exec",
        (126, _) => "exec_lo",
        (127, _) => "exec_hi",
        (235, _) => "src_shared_base",
        (236, _) => "src_shared_limit",
        (237, _) => "src_private_base",
        (238, _) => "src_private_limit",
        (239, _) => "src_pops_exiting_wave_id",
        (251, _) => "src_vccz",
        (252, _) => "src_execz",
        (253, _) => "src_scc",
        _ => return None,
    })
}

fn registers(out: &mut String, letter: &str, first: u32, count: u32) -> fmt::Result {
    if count <= 1 { write!(out, "{letter}{first}") } else { write!(out, "{letter}[{first}:{}]", first + count - 1) }
}

/// The text of an operand of a kind, without modifiers; `wide_literal` prints all bits of a literal of 16 bits.
fn operand_text(out: &mut String, operand: Operand, kind: Kind, literal: u32, wide_literal: bool) -> fmt::Result {
    let dwords = kind.dwords();
    let code = u32::from(operand.0);
    if operand.is_agpr() {
        return registers(out, "a", code - 512, dwords);
    }
    if operand.is_vector() {
        return registers(out, "v", code - 256, dwords);
    }
    if let Some(name) = special_name(operand.0, dwords) {
        return out.write_str(name);
    }
    if let Some(value) = operand.inline_integer() {
        return write!(out, "{value}");
    }
    if let (Kind::I16 | Kind::U16, Some(bits)) = (kind, operand.inline_float_bits16()) {
        return write!(out, "{bits:#x}");
    }
    if let Some(value) = operand.inline_float() {
        return match (operand.0, dwords) {
            (248, 2) if kind != Kind::V2F32 && kind != Kind::V2B32 => out.write_str("0.15915494309189532"),
            (248, _) => out.write_str("0.15915494"),
            _ => write!(out, "{value:?}"),
        };
    }
    match code {
        0..=101 => registers(out, "s", code, dwords),
        108..=123 => registers(out, "ttmp", code - 108, dwords),
        255 if wide_literal => write!(out, "{literal:#x}"),
        255 => literal_text(out, literal, kind),
        other => write!(out, "<operand {other:#x}>"),
    }
}

/// A literal as LLVM prints it: like the inline constant of the same value, if there is one.
fn literal_text(out: &mut String, literal: u32, kind: Kind) -> fmt::Result {
    let constant = |bits: fn(Operand) -> Option<u32>, value: u32| {
        (240..=248).map(Operand).find(|o| bits(*o) == Some(value)).and_then(Operand::inline_float)
    };
    let (half, brain) = (kind == Kind::F16, kind == Kind::Bf16);
    let signed = if half || brain { i32::from(literal as i16) } else { literal as i32 };
    let float = match half {
        true => constant(|o| o.inline_float_bits16().map(u32::from), literal & 0xffff),
        false if brain => constant(|o| o.inline_float_bits32().map(|bits| bits >> 16), literal & 0xffff),
        false => constant(Operand::inline_float_bits32, literal),
    };
    let digits =
        if matches!(kind, Kind::I16 | Kind::U16 | Kind::F16 | Kind::Bf16) { literal & 0xffff } else { literal };
    match float {
        _ if (-16..=64).contains(&signed) => write!(out, "{signed}"),
        Some(value) if literal & 0xffff == 0x3118 || literal == 0x3e22_f983 => write!(out, "{:?}", value as f32),
        Some(value) => write!(out, "{value:?}"),
        None => write!(out, "{digits:#x}"),
    }
}

impl Text<'_> {
    fn instruction(&mut self) -> fmt::Result {
        let i = self.i;
        self.out.push_str(i.op.name);
        if i.op.is_suffixed() && i.op.src[0] != Kind::None {
            self.out.push_str(match i.form {
                Form::E32 => "_e32",
                Form::E64 => "_e64",
                Form::Sdwa => "_sdwa",
                Form::Dpp => "_dpp",
                Form::Only => "",
            });
        }
        self.out.push(' ');
        match i.op.family {
            Family::Sop2 | Family::Sopc | Family::Sop1 => self.scalar(),
            Family::Sopk => self.sopk(),
            Family::Sopp => self.sopp(),
            Family::Smem => self.smem(),
            Family::Vop1 | Family::Vop2 | Family::Vopc | Family::Vop3 => self.vector(),
            Family::Vop3p if i.op.is_matrix() => self.matrix(),
            Family::Vop3px2 => self.matrix(),
            Family::Vop3p => self.packed(),
            Family::Ds => self.ds(),
            Family::Flat | Family::Scratch | Family::Global => self.flat(),
            Family::Mubuf => self.mubuf(),
        }
    }

    fn separator(&mut self) {
        if !self.out.ends_with(' ') {
            self.out.push_str(", ");
        }
    }

    fn operand(&mut self, operand: Operand, kind: Kind) -> fmt::Result {
        self.separator();
        operand_text(&mut self.out, operand, kind, self.i.literal, false)
    }

    fn word(&mut self, word: &str) {
        self.out.push(' ');
        self.out.push_str(word);
    }

    fn scalar(&mut self) -> fmt::Result {
        let i = self.i;
        if i.dst.is_some() {
            self.operand(i.dst, i.op.dst)?;
        }
        for (&source, &kind) in i.src.iter().zip(&i.op.src) {
            if kind != Kind::None {
                self.operand(source, kind)?;
            }
        }
        if i.op.flags.has(Flags::INDEX_MODE) {
            self.separator();
            control_fields::index_mode(&mut self.out, i.imm as u16)?;
        }
        Ok(())
    }

    fn sopk(&mut self) -> fmt::Result {
        let i = self.i;
        let unsigned = i.imm as u16;
        if i.op.action == Action::SetRegister {
            control_fields::hwreg(&mut self.out, unsigned, self.arch)?;
            if i.op.flags.has(Flags::LITERAL) {
                self.separator();
                return literal_text(&mut self.out, i.literal, Kind::B32);
            }
            return self.operand(i.dst, i.op.dst);
        }
        self.operand(i.dst, i.op.dst)?;
        self.separator();
        if i.op.action == Action::GetRegister {
            control_fields::hwreg(&mut self.out, unsigned, self.arch)
        } else if i.op.flags.has(Flags::BRANCH) {
            write!(self.out, "{unsigned}")
        } else {
            write!(self.out, "{unsigned:#x}")
        }
    }

    fn sopp(&mut self) -> fmt::Result {
        let (op, imm) = (self.i.op, self.i.imm as u16);
        let is_end = op.action == Action::End;
        if op.flags.has(Flags::NO_IMMEDIATE) || is_end && imm == 0 {
            Ok(())
        } else if op.action == Action::Wait {
            control_fields::waitcnt(&mut self.out, imm)
        } else if op.flags.has(Flags::INDEX_MODE) {
            control_fields::index_mode(&mut self.out, imm)
        } else if op.action == Action::SendMessage {
            control_fields::sendmsg(&mut self.out, imm)
        } else if op.flags.has(Flags::BRANCH) || is_end || imm <= 64 {
            write!(self.out, "{imm}")
        } else {
            write!(self.out, "{imm:#x}")
        }
    }

    fn smem(&mut self) -> fmt::Result {
        let i = self.i;
        if i.dst.is_some() {
            self.operand(i.dst, i.op.dst)?;
        }
        if !i.src[0].is_some() {
            return Ok(());
        }
        self.operand(i.src[0], i.op.src[0])?;
        if i.src[1].is_some() {
            self.operand(i.src[1], Kind::B32)?;
        }
        if i.has(control::IMM) {
            let sign = if i.imm < 0 { "-" } else { "" };
            self.out.push_str(if i.src[1].is_some() { " offset:" } else { ", " });
            write!(self.out, "{sign}{:#x}", i.imm.unsigned_abs())?;
        }
        if i.has(control::GLC) {
            self.word("glc");
        }
        Ok(())
    }

    /// A vector source with its modifiers.
    fn modified(&mut self, s: usize) -> fmt::Result {
        let i = self.i;
        let operand = i.src[s];
        // LLVM's one name for two types: the exponent of this operation is a half in the long form only.
        let exponent = i.op.flags.has(Flags::HALF_EXPONENT) && s == 1 && i.form == Form::E64;
        let kind = if exponent { Kind::F16 } else { i.op.src[s] };
        self.separator();
        let takes = (kind.takes_float_modifiers() || i.op.takes_modifiers(s)) && !i.op.flags.has(Flags::NO_MODS);
        let neg = takes && i.mods.neg >> s & 1 == 1;
        let abs = takes && i.mods.abs >> s & 1 == 1;
        let sext = s < 2 && !takes && i.sdwa().is_some_and(|sdwa| sdwa.sext[s]);
        let constant = !operand.is_vector() && !operand.is_scalar_register() && special_name(operand.0, 1).is_none();
        let (open, close) = match (neg, abs, sext) {
            (.., true) => ("sext(", ")"),
            (true, true, _) => ("-|", "|"),
            (false, true, _) => ("|", "|"),
            (true, false, _) if constant => ("neg(", ")"),
            (true, false, _) => ("-", ""),
            _ => ("", ""),
        };
        self.out.push_str(open);
        let (second, third) = (i.op.flags.has(Flags::K_SECOND), i.op.flags.has(Flags::K_THIRD));
        let wide_literal = s == 1 && second || s == 2 && third;
        operand_text(&mut self.out, operand, kind, i.literal, wide_literal)?;
        self.out.push_str(close);
        Ok(())
    }

    fn vector(&mut self) -> fmt::Result {
        let i = self.i;
        if i.dst.is_some() {
            let kind = if i.op.flags.has(Flags::SCALAR_DST) { Kind::B32 } else { i.op.dst };
            self.operand(i.dst, kind)?;
        }
        if i.sdst.is_some() {
            self.operand(i.sdst, Kind::Mask)?;
        }
        for s in 0..3 {
            if i.op.src[s] == Kind::None || (s == 2 && i.op.flags.has(Flags::DST_IS_SRC2)) {
                continue;
            }
            if i.op.src[s] == Kind::Mask { self.operand(i.src[s], Kind::Mask)? } else { self.modified(s)? }
        }
        match i.form {
            Form::E64 => self.vop3_suffix()?,
            Form::Sdwa => {
                self.clamp_and_omod();
                control_fields::sdwa(&mut self.out, i);
            }
            Form::Dpp => control_fields::dpp(&mut self.out, i)?,
            _ => {}
        }
        Ok(())
    }

    fn vop3_suffix(&mut self) -> fmt::Result {
        let i = self.i;
        if i.op.flags.has(Flags::TRUTH_TABLE) && i.imm != 0 {
            self.out.push_str(" bitop3:");
            if i.imm <= 10 { write!(self.out, "{}", i.imm)? } else { write!(self.out, "{:#x}", i.imm)? }
        }
        if i.op.flags.has(Flags::FETCHES) {
            for (bit, word) in [(2, "bound_ctrl:1"), (1, "fi:1")] {
                if i.mods.op_sel & bit != 0 {
                    self.word(word);
                }
            }
        }
        if i.op.flags.has(Flags::BYTE_DST) && i.mods.op_sel != 0 {
            self.bits("op_sel", i.mods.op_sel, 4)?;
        }
        if i.op.flags.has(Flags::OP_SEL) && i.mods.op_sel != 0 {
            let sources = i.op.src.iter().filter(|k| **k != Kind::None).count();
            self.bits("op_sel", i.mods.op_sel & ((1 << sources) - 1) | (i.mods.op_sel >> 3) << sources, sources + 1)?;
        }
        self.clamp_and_omod();
        Ok(())
    }

    fn clamp_and_omod(&mut self) {
        if self.i.mods.clamp {
            self.word("clamp");
        }
        match self.i.mods.omod {
            1 => self.word("mul:2"),
            2 => self.word("mul:4"),
            3 => self.word("div:2"),
            _ => {}
        }
    }

    fn bits(&mut self, name: &str, bits: u8, count: usize) -> fmt::Result {
        let list: Vec<_> = (0..count).map(|n| (bits >> n & 1).to_string()).collect();
        write!(self.out, " {name}:[{}]", list.join(","))
    }

    fn packed(&mut self) -> fmt::Result {
        let i = self.i;
        self.operand(i.dst, i.op.dst)?;
        let sources = i.op.src.iter().filter(|k| **k != Kind::None).count();
        let mix = i.op.src[0] == Kind::Mix;
        for s in 0..sources {
            if mix { self.modified(s)? } else { self.operand(i.src[s], i.op.src[s])? }
        }
        if i.op.flags.has(Flags::NO_MODS) {
            return Ok(());
        }
        let all = (1u8 << sources) - 1;
        let packed = i.op.src[0].is_packed() || i.op.flags.has(Flags::DOT);
        if i.mods.op_sel & all != 0 {
            self.bits("op_sel", i.mods.op_sel, sources)?;
        }
        if i.mods.op_sel_hi & all != if packed { all } else { 0 } {
            self.bits("op_sel_hi", i.mods.op_sel_hi, sources)?;
        }
        if !mix {
            if i.mods.neg & all != 0 {
                self.bits("neg_lo", i.mods.neg, sources)?;
            }
            if i.mods.abs & all != 0 {
                self.bits("neg_hi", i.mods.abs, sources)?;
            }
        }
        if i.mods.clamp {
            self.word("clamp");
        }
        Ok(())
    }

    fn matrix(&mut self) -> fmt::Result {
        let i = self.i;
        self.operand(i.dst, i.op.dst)?;
        for s in 0..3 {
            let kind = if s == 2 && !i.src[2].is_vector() { Kind::F32 } else { i.source_kind(s) };
            self.operand(i.src[s], kind)?;
        }
        if let Some(Scales { source, byte }) = i.scales() {
            for source in source {
                self.operand(source, Kind::B32)?;
            }
            let [low, high] = [0, 1].map(|bit| byte[0] >> bit & 1 | (byte[1] >> bit & 1) << 1);
            if low != 0 {
                self.bits("op_sel", low, 3)?;
            }
            self.bits("op_sel_hi", high, 3)?;
        }
        if i.mods.abs != 0 {
            write!(self.out, " cbsz:{}", i.mods.abs)?;
        }
        if i.mods.op_sel != 0 {
            write!(self.out, " abid:{}", i.mods.op_sel)?;
        }
        if i.mods.neg != 0 {
            // Double-precision operations on the unified register file negate instead of permuting.
            if i.op.flags.has(Flags::F64_MATRIX) && self.arch.has(Feature::Gfx940Insts) {
                self.bits("neg", i.mods.neg, 3)?;
            } else {
                write!(self.out, " blgp:{}", i.mods.neg)?;
            }
        }
        Ok(())
    }

    fn ds(&mut self) -> fmt::Result {
        let i = self.i;
        if i.dst.is_some() {
            self.operand(i.dst, i.op.dst)?;
        }
        for s in 0..3 {
            if i.src[s].is_some() {
                self.operand(i.src[s], i.op.src[s])?;
            }
        }
        let two = matches!(i.op.access, Access::Load2(..) | Access::Store2(..));
        if two {
            let (first, second) = (i.imm & 0xff, i.imm >> 8 & 0xff);
            if first != 0 {
                write!(self.out, " offset0:{first}")?;
            }
            if second != 0 {
                write!(self.out, " offset1:{second}")?;
            }
        } else if i.imm != 0 {
            if i.op.flags.has(Flags::SWIZZLE) {
                control_fields::swizzle(&mut self.out, i.imm as u16)?;
            } else {
                write!(self.out, " offset:{}", i.imm)?;
            }
        }
        if i.has(control::GDS) {
            self.word("gds");
        }
        Ok(())
    }

    fn flat(&mut self) -> fmt::Result {
        let i = self.i;
        if i.dst.is_some() {
            self.operand(i.dst, i.op.dst)?;
        }
        let address = match i.op.family {
            Family::Global if i.src[2].is_some() => Kind::B32,
            _ => i.op.src[0],
        };
        if i.src[0].is_some() {
            self.operand(i.src[0], address)?;
        } else {
            self.separator();
            self.out.push_str("off");
        }
        if i.src[1].is_some() {
            self.operand(i.src[1], i.op.src[1])?;
        }
        if i.op.family != Family::Flat {
            if i.src[2].is_some() {
                self.operand(i.src[2], if i.op.family == Family::Global { Kind::B64 } else { Kind::B32 })?;
            } else {
                self.separator();
                self.out.push_str("off");
            }
        }
        if i.imm != 0 {
            write!(self.out, " offset:{}", i.imm)?;
        }
        self.cache_hints();
        // Where it is no instruction of its own.
        if i.has(control::LDS) && !matches!(i.op.access, Access::LoadLds(..)) {
            self.word("lds");
        }
        Ok(())
    }

    fn cache_hints(&mut self) {
        let new_names = self.arch.has(Feature::Gfx940Insts);
        for (bit, name, new_name) in
            [(control::GLC, "glc", "sc0"), (control::SLC, "slc", "nt"), (control::SCC, "scc", "sc1")]
        {
            if self.i.has(bit) {
                self.word(if new_names { new_name } else { name });
            }
        }
    }

    fn mubuf(&mut self) -> fmt::Result {
        let i = self.i;
        if i.op.access == Access::None {
            self.cache_hints();
            return Ok(());
        }
        if i.dst.is_some() {
            self.operand(i.dst, i.op.dst)?;
        }
        let (offen, idxen) = (i.has(control::OFFEN), i.has(control::IDXEN));
        if i.src[0].is_some() {
            self.operand(i.src[0], if offen && idxen { Kind::B64 } else { Kind::B32 })?;
        } else {
            self.separator();
            self.out.push_str("off");
        }
        self.operand(i.src[1], Kind::Dwords(4))?;
        self.operand(i.src[2], Kind::B32)?;
        if idxen {
            self.word("idxen");
        }
        if offen {
            self.word("offen");
        }
        if i.imm != 0 {
            write!(self.out, " offset:{}", i.imm)?;
        }
        self.cache_hints();
        if i.has(control::LDS) {
            self.word("lds");
        }
        Ok(())
    }
}
