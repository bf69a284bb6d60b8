//! VOP1, VOP2, VOPC with their sub-dword and data-parallel forms; VOP3 and VOP3P.

use super::{
    DecodeError, Decoder, Family, Flags, Form, Inst, Kind, Mods, Op, Operand, reserved, scalar_register, scalar_source,
    second,
};
use crate::dpp;
use crate::inst::{Scales, Sdwa};

/// The upper bits of the first word of VOP3P.
pub(super) const VOP3P: u32 = 0b1_1010_0111;
/// The upper half of the words that load scales: `v_mfma_ld_scale_b32`.
const LD_SCALE: u32 = VOP3P << 7 | 0x2c;

impl Decoder {
    /// VOP2, VOP1 and VOPC: bit 31 is clear.
    pub(super) fn vop(&self, first: u32, words: &[u32]) -> Result<Inst, DecodeError> {
        let (op, vdst, vsrc1) = match first >> 25 {
            0b0111111 => (self.find(Family::Vop1, first >> 9 & 0xff)?, first >> 17 & 0xff, None),
            0b0111110 => (self.find(Family::Vopc, first >> 17 & 0xff)?, 0, Some(first >> 9 & 0xff)),
            code => (self.find(Family::Vop2, code & 0x3f)?, first >> 17 & 0xff, Some(first >> 9 & 0xff)),
        };
        let mut i = self.inst(op, Form::E32, 4);
        self.short_destination(&mut i, vdst)?;
        match Operand::sgpr(first & 0x1ff) {
            Operand::SDWA => {
                i.control = second(words)?;
                self.sdwa(&mut i, vsrc1)?;
            }
            Operand::DPP => {
                i.control = second(words)?;
                self.dpp(&mut i, vsrc1)?;
            }
            source => self.short_sources(&mut i, source, vsrc1, words)?,
        }
        if op.flags.has(Flags::DST_IS_SRC2) {
            i.src[2] = i.dst;
        }
        if op.flags.has(Flags::MASK_IN) {
            i.src[2] = Operand::VCC;
        }
        Ok(i)
    }

    fn short_destination(&self, i: &mut Inst, vdst: u32) -> Result<(), DecodeError> {
        let op = i.op;
        match op.dst {
            Kind::None => {
                // v_nop and v_clrexcp.
                if vdst != 0 {
                    return Err(DecodeError::Operand(op.name, vdst as u16));
                }
            }
            Kind::Mask => i.sdst = Operand::VCC,
            _ if op.flags.has(Flags::SCALAR_DST) => i.dst = scalar_register(op, vdst, 1)?,
            kind => i.dst = self.vgpr(op, kind, vdst, op.flags.has(Flags::ACC_DST))?,
        }
        if op.flags.has(Flags::MASK_OUT) {
            i.sdst = Operand::VCC;
        }
        Ok(())
    }

    fn short_sources(
        &self,
        i: &mut Inst,
        source: Operand,
        vsrc1: Option<u32>,
        words: &[u32],
    ) -> Result<(), DecodeError> {
        let op = i.op;
        if op.src[0] == Kind::None {
            return if source == Operand::sgpr(0) { Ok(()) } else { Err(DecodeError::Operand(op.name, source.0)) };
        }
        i.src[0] = self.vector_source(op, op.src[0], source)?;
        let k = op.flags.has(Flags::K_SECOND) || op.flags.has(Flags::K_THIRD);
        if source == Operand::LITERAL || k {
            i.literal = second(words)?;
            i.size = 8;
        }
        if op.flags.has(Flags::ACC_SRC) {
            i.src[0] = if source.is_vector() {
                Operand(source.0 + 256)
            } else {
                return Err(DecodeError::Operand(op.name, source.0));
            };
        }
        if op.flags.has(Flags::VECTOR_SRC) && !source.is_vector() {
            return Err(DecodeError::Operand(op.name, source.0));
        }
        if let Some(vsrc1) = vsrc1 {
            let second_place = if op.flags.has(Flags::K_SECOND) { 2 } else { 1 };
            i.src[second_place] = self.vgpr(op, op.src[second_place], vsrc1, false)?;
            if k {
                i.src[3 - second_place] = Operand::LITERAL;
            }
        }
        Ok(())
    }

    /// The control word of a sub-dword form holds the first source, and may make either source scalar.
    fn sdwa(&self, i: &mut Inst, vsrc1: Option<u32>) -> Result<(), DecodeError> {
        let (op, w) = (i.op, i.control);
        let wide = [op.dst, op.src[0], op.src[1]].iter().any(|k| *k != Kind::Mask && k.dwords() > 1);
        // Operations that accumulate lost this form with gfx9.
        let never = op.flags.has(Flags::SCALAR_DST) || op.flags.has(Flags::DST_IS_SRC2);
        let part = op.flags.has(Flags::PART_SRC);
        if op.flags.has(Flags::NO_SDWA) || wide && !part || never {
            return Err(DecodeError::Form(op.name));
        }
        if op.src[0] == Kind::None {
            return Err(DecodeError::Form(op.name));
        }
        i.form = Form::Sdwa;
        i.size = 8;
        i.plain_sources = false;
        i.plain_result = false;
        let source = |code: u32, scalar: bool, kind: Kind| {
            if scalar {
                scalar_source(op, kind, Operand::sgpr(code)).and_then(no_literal(op))
            } else {
                Ok(Operand::vgpr(code))
            }
        };
        i.src[0] = source(w & 0xff, w >> 23 & 1 == 1, op.src[0])?;
        // Sign extension is for integers, negation and absolute value for floats.
        let modifiers = |s: usize| match op.src[s] {
            Kind::None | Kind::Mask => 0,
            _ if part => 0,
            _ if op.takes_modifiers(s) => 6,
            _ => 1,
        };
        reserved(op, w >> 16 & 0x7f & !(7 | modifiers(0) << 3))?;
        reserved(op, w >> 24 & if vsrc1.is_some() { 0x7f & !(7 | modifiers(1) << 3) } else { 0xff })?;
        let (sel0, sel1, dst_sel) = (w >> 16 & 7, w >> 24 & 7, w >> 8 & 7);
        if sel0 == 7 {
            return Err(DecodeError::Form(op.name));
        }
        i.mods.neg = (w >> 20 & 1) as u8;
        i.mods.abs = (w >> 21 & 1) as u8;
        if let Some(vsrc1) = vsrc1 {
            if sel1 == 7 {
                return Err(DecodeError::Form(op.name));
            }
            i.src[1] = source(vsrc1, w >> 31 == 1, op.src[1])?;
            i.mods.neg |= (w >> 27 & 2) as u8;
            i.mods.abs |= (w >> 28 & 2) as u8;
        }
        if op.family == Family::Vopc {
            if w >> 15 & 1 == 1 {
                i.sdst = scalar_register(op, w >> 8 & 0x7f, 2)?;
            }
        } else {
            if dst_sel == 7 || w >> 11 & 3 == 3 {
                return Err(DecodeError::Form(op.name));
            }
            if part {
                reserved(op, (w >> 8 & 0x1f) ^ u32::from(Sdwa::DWORD))?;
            }
            reserved(op, w & (u32::from(!op.has_clamp()) << 13 | if op.has_omod() { 0 } else { 3 << 14 }))?;
            i.mods.clamp = w >> 13 & 1 == 1;
            i.mods.omod = (w >> 14 & 3) as u8;
        }
        Ok(())
    }

    /// The control word of a data-parallel form holds the first source.
    fn dpp(&self, i: &mut Inst, vsrc1: Option<u32>) -> Result<(), DecodeError> {
        let (op, w) = (i.op, i.control);
        let newbcast = self.arch.unified_registers();
        // Before MI200 a source moves, whatever the result is.
        let moved: &[Kind] = if newbcast { &[op.dst, op.src[0], op.src[1]] } else { &[op.src[0], op.src[1]] };
        let wide = moved.iter().any(|k| *k != Kind::Mask && k.dwords() > 1);
        let ctrl = (w >> 8 & 0x1ff) as u16;
        // Doubles move only within the new broadcast (gfx90a).
        let allowed = if wide { newbcast && matches!(ctrl, 0x150..=0x15f) } else { dpp::is_known(ctrl, newbcast) };
        let never = op.flags.has(Flags::NO_DPP) || op.family == Family::Vopc;
        if never || op.flags.has(Flags::SCALAR_DST) || op.src[0] == Kind::None || !allowed {
            return Err(DecodeError::Form(op.name));
        }
        i.form = Form::Dpp;
        i.size = 8;
        for s in 0..2 {
            reserved(op, w >> (20 + 2 * s) & if op.takes_modifiers(s) { 0 } else { 3 })?;
        }
        i.plain_sources = false;
        i.src[0] = self.vgpr(op, op.src[0], w & 0xff, false)?;
        i.mods.neg = (w >> 20 & 1) as u8;
        i.mods.abs = (w >> 21 & 1) as u8;
        if let Some(vsrc1) = vsrc1 {
            i.src[1] = self.vgpr(op, op.src[1], vsrc1, false)?;
            i.mods.neg |= (w >> 21 & 2) as u8;
            i.mods.abs |= (w >> 22 & 2) as u8;
        }
        Ok(())
    }

    /// VOP3: the forms with a lane mask beside the result have a register where others have modifiers.
    pub(super) fn vop3(&self, first: u32, high: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Vop3, first >> 16 & 0x3ff)?;
        let mut i = self.inst(op, Form::E64, 8);
        let vdst = first & 0xff;
        match op.dst {
            Kind::None => {}
            Kind::Mask => i.sdst = scalar_register(op, vdst, op.dst.dwords())?,
            _ if op.flags.has(Flags::SCALAR_DST) => i.dst = scalar_register(op, vdst, 1)?,
            kind => i.dst = self.vgpr(op, kind, vdst, false)?,
        }
        i.mods.clamp = first >> 15 & 1 == 1;
        i.mods.neg = (high >> 29) as u8;
        i.mods.omod = (high >> 27 & 3) as u8;
        if op.flags.has(Flags::MASK_OUT) {
            i.sdst = scalar_register(op, first >> 8 & 0x7f, 2)?;
        } else {
            i.mods.abs = (first >> 8 & 7) as u8;
            i.mods.op_sel = (first >> 11 & 15) as u8;
        }
        self.long_sources(&mut i, high)?;
        let mut fields = high;
        if op.flags.has(Flags::TRUTH_TABLE) {
            i.imm = i32::from(i.mods.omod) << 6 | i32::from(i.mods.abs) << 3 | i32::from(i.mods.neg);
            i.mods = Mods { op_sel: i.mods.op_sel, clamp: i.mods.clamp, ..Mods::default() };
            fields &= !(0x1f << 27);
        }
        self.long_reserved(&i, first, fields)?;
        if op.flags.has(Flags::DST_IS_SRC2) {
            i.src[2] = i.dst;
        }
        i.plain_sources = !i.mods.change_sources();
        i.plain_result = !i.mods.change_result();
        Ok(i)
    }

    /// Modifier bits and source fields that the operation does not use.
    fn long_reserved(&self, i: &Inst, first: u32, high: u32) -> Result<(), DecodeError> {
        let op = i.op;
        let (halves, byte) = (op.flags.has(Flags::OP_SEL), op.flags.has(Flags::BYTE_DST));
        let op_sel = u32::from(if op.flags.has(Flags::FETCHES) { i.mods.op_sel & !3 } else { i.mods.op_sel });
        let mut unused = 0;
        for s in 0..3 {
            let none = op.src[s] == Kind::None || (s == 2 && op.flags.has(Flags::DST_IS_SRC2));
            if none {
                unused |= 0x1ff << (9 * s);
            }
            if none || !op.takes_modifiers(s) {
                unused |= 1 << (29 + s);
                reserved(op, u32::from(i.mods.abs) >> s & 1)?;
            }
            if !byte && (none || !halves) {
                reserved(op, op_sel >> s & 1)?;
            }
        }
        if !op.has_omod() {
            unused |= 3 << 27;
        }
        reserved(op, op_sel >> 3 & u32::from(!halves && !byte))?;
        reserved(op, first >> 15 & u32::from(!op.has_clamp()))?;
        reserved(op, high & unused)
    }

    fn long_sources(&self, i: &mut Inst, high: u32) -> Result<(), DecodeError> {
        let op = i.op;
        for (n, &kind) in op.src.iter().enumerate() {
            if kind == Kind::None || (n == 2 && op.flags.has(Flags::DST_IS_SRC2)) {
                continue;
            }
            let source = Operand::sgpr(high >> (9 * n) & 0x1ff);
            let lane_number = op.flags.has(Flags::LANE_SRC) && n < 2 && !(n == 0 && op.flags.has(Flags::VECTOR_SRC));
            i.src[n] = if kind == Kind::Mask {
                scalar_register(op, u32::from(source.0), kind.dwords())?
            } else if lane_number {
                scalar_source(op, kind, source)?
            } else {
                self.vector_source(op, kind, source)?
            };
            i.src[n] = no_literal(op)(i.src[n])?;
            if op.flags.has(Flags::VECTOR_SRC) && (n == 0 || kind.dwords() > 2) && !source.is_vector() {
                return Err(DecodeError::Operand(op.name, source.0));
            }
        }
        Ok(())
    }

    /// VOP3P: packed and mixed operations, and matrix operations whose modifier fields mean other things.
    pub(super) fn vop3p(&self, first: u32, words: &[u32]) -> Result<Inst, DecodeError> {
        let high = second(words)?;
        if let Some(op) = self.scaled_product(words) {
            return self.scaled(op, first, words);
        }
        let op = self.find(Family::Vop3p, first >> 16 & 0x7f)?;
        let mut i = self.inst(op, Form::E64, 8);
        i.mods = Mods {
            neg: (high >> 29) as u8,
            abs: (first >> 8 & 7) as u8,
            op_sel: (first >> 11 & 7) as u8,
            op_sel_hi: (high >> 27 & 3) as u8 | (first >> 12 & 4) as u8,
            clamp: first >> 15 & 1 == 1,
            omod: 0,
        };
        if op.is_matrix() {
            return self.matrix(i, first, high);
        }
        // Dot products of bytes and less have no halves to choose.
        if op.flags.has(Flags::DOT) && !op.src[0].is_packed() {
            reserved(op, u32::from(i.mods.op_sel) | u32::from(!i.mods.op_sel_hi & 3))?;
            i.mods.op_sel_hi = 7;
        }
        // Source fields and modifiers that the operation does not use; the unused bits of `op_sel_hi` are free.
        for s in 0..3 {
            if op.src[s] == Kind::None || op.flags.has(Flags::NO_MODS) {
                // Moves of accumulation registers ignore the fields.
                let is_move = op.flags.has(Flags::ACC_DST) || op.flags.has(Flags::ACC_SRC);
                let field = if op.src[s] == Kind::None && !is_move { 0x1ff } else { 0 };
                let bits = i.mods.neg | i.mods.abs | i.mods.op_sel;
                reserved(op, high >> (9 * s) & field | u32::from(bits) >> s & 1)?;
            }
        }
        reserved(op, first >> 15 & u32::from(!op.has_clamp()))?;
        let (write, read) = (op.flags.has(Flags::ACC_DST), op.flags.has(Flags::ACC_SRC));
        i.dst = self.vgpr(op, op.dst, first & 0xff, write)?;
        for (n, &kind) in op.src.iter().enumerate().filter(|(_, k)| **k != Kind::None) {
            let source = Operand::sgpr(high >> (9 * n) & 0x1ff);
            i.src[n] = if read && source.is_vector() {
                Operand(source.0 + 256)
            } else if read {
                return Err(DecodeError::Operand(op.name, source.0));
            } else {
                no_literal(op)(self.vector_source(op, kind, source)?)?
            };
        }
        Ok(i)
    }

    /// The product of matrices that uses the scales which the words before it load: its ABID is 1. Alone, what loads scales is no
    /// instruction of the tables.
    fn scaled_product(&self, words: &[u32]) -> Option<&'static Op> {
        let &[first, _, product, _, ..] = words else { return None };
        let uses_scales = product >> 23 == VOP3P && product >> 11 & 15 == 1;
        let op = self.row(Family::Vop3px2, product >> 16 & 0x7f);
        op.filter(|_| first >> 16 == LD_SCALE && uses_scales)
    }

    /// VOP3PX2: the words that load scales, and those of the product.
    fn scaled(&self, op: &'static Op, first: u32, words: &[u32]) -> Result<Inst, DecodeError> {
        let &[_, high, product, factors, ..] = words else { return Err(DecodeError::Truncated) };
        // Result, third source, negations and clamp; `op_sel` of the third source, but `op_sel_hi` of it is free.
        reserved(op, first & 0xa7ff | high & (7 << 29 | 0x1ff << 18))?;
        let mut i = self.inst(op, Form::Only, 16);
        i.control = Scales::control(first, high);
        for n in 0..2 {
            // LLVM knows no constants here: of these, hardware takes the exponent's field of a single, whatever byte is chosen.
            let source = high >> (9 * n) & 0x1ff;
            self.vgpr(
                op,
                Kind::B32,
                source.checked_sub(256).ok_or(DecodeError::Operand(op.name, source as u16))?,
                false,
            )?;
        }
        self.matrix(i, product & !(15 << 11), factors)
    }

    fn matrix(&self, mut i: Inst, first: u32, high: u32) -> Result<Inst, DecodeError> {
        let op = i.op;
        i.mods = Mods {
            neg: (high >> 29) as u8,
            abs: (first >> 8 & 7) as u8,
            op_sel: (first >> 11 & 15) as u8,
            ..Mods::default()
        };
        if op.flags.has(Flags::FORMATS) {
            reserved(op, u32::from(i.mods.op_sel))?;
            if (0..2).any(|factor| i.factor_format(factor).is_none()) {
                return Err(DecodeError::Form(op.name));
            }
        }
        // MI100 accumulates in accumulation registers only; later processors choose.
        let acc_result = !self.arch.unified_registers() || first >> 15 & 1 == 1;
        i.dst = self.vgpr(op, op.dst, first & 0xff, acc_result)?;
        for n in 0..2 {
            let source = Operand::sgpr(high >> (9 * n) & 0x1ff);
            if !source.is_vector() {
                return Err(DecodeError::Operand(op.name, source.0));
            }
            let acc = high >> (27 + n) & 1 == 1;
            i.src[n] = self.vgpr(op, i.source_kind(n), u32::from(source.0) - 256, acc)?;
        }
        let source = Operand::sgpr(high >> 18 & 0x1ff);
        if op.flags.has(Flags::SPARSE) {
            reserved(op, u32::from(i.mods.neg))?;
            // Places are in a vector register, whatever the sums are in.
            let places = u32::from(source.0).checked_sub(256).ok_or(DecodeError::Operand(op.name, source.0))?;
            i.src[2] = self.vgpr(op, op.src[2], places, false)?;
            return Ok(i);
        }
        i.src[2] = match source.is_vector() {
            true => self.vgpr(op, op.src[2], u32::from(source.0) - 256, acc_result)?,
            false if matches!(source.0, 128..=208 | 240..=248) => source,
            false => return Err(DecodeError::Operand(op.name, source.0)),
        };
        Ok(i)
    }

    /// A vector register operand: `acc` chooses the accumulation registers.
    pub(super) fn vgpr(&self, op: &Op, kind: Kind, n: u32, acc: bool) -> Result<Operand, DecodeError> {
        let dwords = kind.dwords();
        let any = !self.arch.aligned_vgpr_tuples() || op.flags.has(Flags::ANY_REGISTER);
        let aligned = dwords < 2 || any || n.is_multiple_of(2);
        if n + dwords.max(1) > 256 || !aligned {
            return Err(DecodeError::Operand(op.name, 256 + n as u16));
        }
        Ok(if acc { Operand::agpr(n) } else { Operand::vgpr(n) })
    }

    /// A source that may be a vector register, a scalar register or a constant.
    pub(super) fn vector_source(&self, op: &Op, kind: Kind, operand: Operand) -> Result<Operand, DecodeError> {
        if operand.is_vector() {
            self.vgpr(op, kind, u32::from(operand.0) - 256, false)
        } else {
            scalar_source(op, kind, operand)
        }
    }
}

/// The 64-bit encodings of gfx9 have no literals.
fn no_literal(op: &Op) -> impl Fn(Operand) -> Result<Operand, DecodeError> + '_ {
    move |operand| if operand == Operand::LITERAL { Err(DecodeError::Operand(op.name, operand.0)) } else { Ok(operand) }
}
