//! SMEM, DS, FLAT and MUBUF.

use super::{
    Access, DecodeError, Decoder, Family, Form, Inst, Kind, Op, Operand, control, scalar_register, scalar_source,
};
use crate::arch::Arch;

/// The control bit if the instruction's bit is set.
fn flag(word: u32, bit: u32, control: u32) -> u32 {
    if word >> bit & 1 == 1 { control } else { 0 }
}

fn sign_extend(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)) as i32 >> (32 - bits)
}

impl Decoder {
    pub(super) fn smem(&self, first: u32, high: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Smem, first >> 18 & 0xff)?;
        let mut i = self.inst(op, Form::Only, 8);
        i.control = flag(first, 16, control::GLC)
            | flag(first, 17, control::IMM)
            | flag(first, 14, control::SOFFSET)
            | flag(first, 15, control::NV);
        if op.dst != Kind::None {
            i.dst = scalar_register(op, first >> 6 & 0x7f, op.dst.dwords())?;
        }
        if op.src[0] == Kind::None {
            // Cache and clock instructions have nothing else.
            let used = if op.dst == Kind::None { 0 } else { 0x7f << 6 };
            return if first & 0x3ffff & !used == 0 && high == 0 { Ok(i) } else { Err(DecodeError::Form(op.name)) };
        }
        i.src[0] = scalar_register(op, (first & 0x3f) << 1, op.src[0].dwords())?;
        match (i.has(control::IMM), i.has(control::SOFFSET)) {
            (true, register) => {
                i.imm = sign_extend(high & 0x1f_ffff, 21);
                if register {
                    i.src[1] = scalar_register(op, high >> 25, 1)?;
                }
            }
            // Without an immediate, the offset field names a register.
            (false, false) => {
                i.control |= control::SOFFSET;
                i.src[1] = scalar_register(op, high & 0x7f, 1)?;
            }
            (false, true) => i.src[1] = scalar_register(op, high >> 25, 1)?,
        }
        Ok(i)
    }

    pub(super) fn ds(&self, first: u32, high: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Ds, first >> 17 & 0xff)?;
        let mut i = self.inst(op, Form::Only, 8);
        i.control = flag(first, 16, control::GDS);
        i.imm = (first & 0xffff) as i32;
        let acc = self.acc(op, first >> 25 & 1 == 1)?;
        if op.src[0] != Kind::None {
            i.src[0] = self.vgpr(op, op.src[0], high & 0xff, false)?;
        }
        for (n, shift) in [(1, 8), (2, 16)] {
            if op.src[n] != Kind::None {
                i.src[n] = self.vgpr(op, op.src[n], high >> shift & 0xff, acc)?;
            }
        }
        if op.dst != Kind::None {
            i.dst = self.vgpr(op, op.dst, high >> 24, acc)?;
        }
        if op.name.starts_with("ds_gws") {
            // The address field holds the value.
            i.src[0] = self.vgpr(op, op.src[0], high & 0xff, acc)?;
        }
        Ok(i)
    }

    /// Data may live in accumulation registers where the register file is one.
    fn acc(&self, op: &Op, set: bool) -> Result<bool, DecodeError> {
        if set && !self.arch.unified_registers() { Err(DecodeError::Form(op.name)) } else { Ok(set) }
    }

    pub(super) fn flat(&self, first: u32, high: u32) -> Result<Inst, DecodeError> {
        let family = match first >> 14 & 3 {
            0 => Family::Flat,
            1 => Family::Scratch,
            2 => Family::Global,
            _ => return Err(DecodeError::Encoding),
        };
        let op = self.find(family, first >> 18 & 0x7f)?;
        let mut i = self.inst(op, Form::Only, 8);
        i.control = flag(first, 16, control::GLC) | flag(first, 17, control::SLC);
        let top = high >> 23 & 1 == 1;
        let acc = top && self.arch.unified_registers();
        if top && !acc {
            i.control |= control::NV;
        }
        i.control |= flag(first, 25, if self.arch.unified_registers() { control::SCC } else { 0 });
        i.imm = if family == Family::Flat { (first & 0xfff) as i32 } else { sign_extend(first & 0x1fff, 13) };
        self.flat_address(&mut i, family, first, high)?;
        let data = match op.access {
            Access::Load(..) => Kind::None,
            _ => op.src[1],
        };
        if data != Kind::None {
            i.src[1] = self.vgpr(op, data, high >> 8 & 0xff, acc)?;
        }
        // Before MI300, which has opcodes of their own, loads into LDS are a bit of the ordinary ones.
        if first >> 13 & 1 == 1 && self.arch != Arch::Gfx942 {
            if family == Family::Flat || !matches!(op.access, Access::Load(1..=4, _)) {
                return Err(DecodeError::Form(op.name));
            }
            i.control |= control::LDS;
        }
        let returns = match op.access {
            _ if i.has(control::LDS) => false,
            Access::Load(..) => true,
            Access::Atomic(..) => i.has(control::GLC),
            _ => false,
        };
        if returns {
            i.dst = self.vgpr(op, op.dst, high >> 24, acc)?;
        }
        Ok(i)
    }

    fn flat_address(&self, i: &mut Inst, family: Family, first: u32, high: u32) -> Result<(), DecodeError> {
        let op = i.op;
        let (vaddr, saddr) = (high & 0xff, high >> 16 & 0x7f);
        let has_scalar = saddr != 0x7f;
        match family {
            Family::Global => {
                if has_scalar {
                    i.src[2] = scalar_register(op, saddr, 2)?;
                }
                i.src[0] = self.vgpr(op, if has_scalar { Kind::B32 } else { Kind::B64 }, vaddr, false)?;
            }
            Family::Scratch => {
                if has_scalar {
                    i.src[2] = scalar_register(op, saddr, 1)?;
                }
                // MI300 says with a bit of its own whether there is a vector address.
                let has_vector = if self.arch == Arch::Gfx942 { first >> 13 & 1 == 1 } else { !has_scalar };
                if has_vector {
                    i.src[0] = Operand::vgpr(vaddr);
                }
            }
            _ => i.src[0] = self.vgpr(op, Kind::B64, vaddr, false)?,
        }
        Ok(())
    }

    pub(super) fn mubuf(&self, first: u32, high: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Mubuf, first >> 18 & 0x7f)?;
        let mut i = self.inst(op, Form::Only, 8);
        let unified = self.arch.unified_registers();
        i.control = flag(first, 12, control::OFFEN)
            | flag(first, 13, control::IDXEN)
            | flag(first, 14, control::GLC)
            | flag(first, 15, if unified { control::SCC } else { 0 })
            | flag(first, 16, control::LDS)
            | flag(first, 17, control::SLC);
        i.imm = (first & 0xfff) as i32;
        if op.access == Access::None {
            return Ok(i);
        }
        let top = high >> 23 & 1 == 1;
        if top && !unified {
            // A texture-fault code would need a fifth register.
            return Err(DecodeError::Form(op.name));
        }
        if i.has(control::LDS) && !matches!(op.access, Access::Load(1..=4, _)) {
            return Err(DecodeError::Form(op.name));
        }
        if !i.has(control::LDS) {
            i.dst = self.vgpr(op, op.dst, high >> 8 & 0xff, top)?;
        }
        let address = match (i.has(control::OFFEN), i.has(control::IDXEN)) {
            (true, true) => Kind::B64,
            (false, false) => Kind::None,
            _ => Kind::B32,
        };
        if address != Kind::None {
            i.src[0] = self.vgpr(op, address, high & 0xff, false)?;
        }
        i.src[1] = scalar_register(op, (high >> 16 & 0x1f) << 2, 4)?;
        i.src[2] = scalar_source(op, Kind::B32, Operand::sgpr(high >> 24))?;
        if i.src[2] == Operand::LITERAL {
            return Err(DecodeError::Operand(op.name, Operand::LITERAL.0));
        }
        Ok(i)
    }
}
