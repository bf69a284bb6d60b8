//! SMEM, DS, FLAT and MUBUF.

use super::{
    Access, DecodeError, Decoder, Family, Fill, Flags, Form, Inst, Kind, Op, Operand, control, reserved,
    scalar_register, scalar_source,
};
use crate::arch::{Arch, ArchSet, Feature};
use crate::atomic::AtomicOp;

/// The control bit if the instruction's bit is set.
fn flag(word: u32, bit: u32, control: u32) -> u32 {
    if word >> bit & 1 == 1 { control } else { 0 }
}

fn sign_extend(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)) as i32 >> (32 - bits)
}

/// True for loads that can go to LDS: not into half of a register, and of at most a dword, on MI350 also of three and four.
fn loads_lds(op: &Op, arch: Arch) -> bool {
    match op.access {
        Access::Load(1..=4, Fill::Zero | Fill::Sign) => true,
        Access::Load(12 | 16, _) => arch.has(Feature::Gfx950Insts),
        _ => false,
    }
}

impl Decoder {
    pub(super) fn smem(&self, first: u32, high: u32) -> Result<Inst, DecodeError> {
        let op = self.find(Family::Smem, first >> 18 & 0xff)?;
        let mut i = self.inst(op, Form::Only, 8);
        i.control = flag(first, 16, control::GLC) | flag(first, 17, control::IMM) | flag(first, 14, control::SOFFSET);
        if op.dst != Kind::None {
            i.dst = scalar_register(op, first >> 6 & 0x7f, op.dst.dwords())?;
            // Neither M0 nor EXEC can be loaded.
            reserved(op, u32::from(i.dst == Operand::M0 || i.dst.0 & !1 == Operand::EXEC.0))?;
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
        // Later processors have no global data share, but its bit in the instructions for global wave sync.
        let gws = op.flags.has(Flags::GWS);
        let never = self.arch.unified_registers() || op.flags.has(Flags::NO_GDS);
        if gws != i.has(control::GDS) && (gws || never) {
            return Err(DecodeError::Form(op.name));
        }
        i.imm = (first & 0xffff) as i32;
        let acc = self.acc(op, first >> 25 & 1 == 1)?;
        if op.dst == Kind::None && op.src[1] == Kind::None && !gws {
            reserved(op, first & 1 << 25)?;
        }
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
        if gws {
            // The address field holds the value.
            i.src[0] = self.vgpr(op, op.src[0], high & 0xff, acc)?;
        }
        for (n, kind) in op.src.iter().chain([&op.dst]).enumerate() {
            let unused = if *kind == Kind::None { 0xff << (8 * n) } else { 0 };
            reserved(op, high & unused)?;
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
        let unified = self.arch.unified_registers();
        reserved(op, if unified { 0 } else { first & 1 << 25 | high & 1 << 23 })?;
        let acc = high >> 23 & 1 == 1;
        i.control |= flag(first, 25, control::SCC);
        if family == Family::Flat {
            // Offsets are not negative, and there is no scalar base.
            reserved(op, first & 1 << 12 | high >> 16 & 0x7f)?;
        }
        i.imm = if family == Family::Flat { (first & 0xfff) as i32 } else { sign_extend(first & 0x1fff, 13) };
        self.flat_address(&mut i, family, first, high)?;
        let data = match op.access {
            Access::Load(..) => Kind::None,
            _ => op.src[1],
        };
        if data != Kind::None {
            i.src[1] = self.vgpr(op, data, high >> 8 & 0xff, acc)?;
        }
        let new = self.arch.has(Feature::Gfx940Insts);
        if matches!(op.access, Access::LoadLds(..)) {
            reserved(op, u32::from(acc))?;
            i.control |= control::LDS;
        }
        if first >> 13 & 1 == 1 && !(new && family == Family::Scratch) {
            // Before MI300, which has opcodes of their own, loads into LDS are a bit of the ordinary ones.
            if new || acc || family == Family::Flat || !loads_lds(op, self.arch) {
                return Err(DecodeError::Form(op.name));
            }
            i.control |= control::LDS;
        }
        self.float_atomic(op, i.control)?;
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

    /// Floating-point atomics return nothing on MI100, and have no third cache hint on MI200.
    fn float_atomic(&self, op: &Op, control: u32) -> Result<(), DecodeError> {
        use AtomicOp::{FAdd, FMax, FMin, PkAddF16};
        if !matches!(op.access, Access::Atomic(FAdd | FMax | FMin | PkAddF16, ..)) {
            return Ok(());
        }
        let unused = if self.arch.has(Feature::AtomicFaddRtnInsts) { 0 } else { control::GLC }
            | if self.arch.has(Feature::Gfx940Insts) { 0 } else { control::SCC };
        reserved(op, control & unused)
    }

    fn flat_address(&self, i: &mut Inst, family: Family, first: u32, high: u32) -> Result<(), DecodeError> {
        let op = i.op;
        let (vaddr, saddr) = (high & 0xff, high >> 16 & 0x7f);
        let has_scalar = saddr != 0x7f;
        match family {
            Family::Global => {
                if has_scalar {
                    i.src[2] = scalar_register(op, saddr, 2)?;
                    // A base is any pair but EXEC.
                    reserved(op, u32::from(i.src[2] == Operand::EXEC))?;
                }
                i.src[0] = self.vgpr(op, if has_scalar { Kind::B32 } else { Kind::B64 }, vaddr, false)?;
            }
            Family::Scratch => {
                if has_scalar {
                    i.src[2] = scalar_register(op, saddr, 1)?;
                }
                // MI300 says with a bit of its own whether there is a vector address.
                let has_vector = if self.arch.has(Feature::Gfx940Insts) { first >> 13 & 1 == 1 } else { !has_scalar };
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
        reserved(op, first & 1 << 25 | if unified { 0 } else { first & 1 << 15 })?;
        i.control = flag(first, 12, control::OFFEN)
            | flag(first, 13, control::IDXEN)
            | flag(first, 14, control::GLC)
            | flag(first, 15, control::SCC)
            | flag(first, 16, control::LDS)
            | flag(first, 17, control::SLC);
        i.imm = (first & 0xfff) as i32;
        if op.access == Access::None {
            // Hints of scope are MI300's; compilers set their bits in MI200's write-back, too, and a hint that streams in all.
            let scopes = self.arch.has(Feature::Gfx940Insts) && !op.archs.meets(ArchSet::UNTIL_908);
            let hints = 1 << 17 | if scopes || op.flags.has(Flags::SCOPES) { 1 << 14 | 1 << 15 } else { 0 };
            reserved(op, first & 0x3_f000 & !hints | high & 1 << 23)?;
            i.control &= if scopes { control::GLC | control::SCC } else { 0 };
            return Ok(i);
        }
        self.float_atomic(op, i.control)?;
        let top = high >> 23 & 1 == 1;
        if top && !unified {
            // A texture-fault code would need a fifth register.
            return Err(DecodeError::Form(op.name));
        }
        if i.has(control::LDS) && (top || !loads_lds(op, self.arch)) {
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
