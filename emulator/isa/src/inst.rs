//! A decoded instruction: a row of the tables and the operands it was written with.

use crate::arithmetic::{Arithmetic, Number};
use crate::op::{Family, Flags, Op, Run};
use crate::operand::{Kind, Operand};

/// How the instruction was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The only encoding of its family.
    Only,
    /// The 32-bit encoding of a vector operation (perhaps with a literal).
    E32,
    /// The 64-bit encoding of a vector operation.
    E64,
    /// The 32-bit encoding with a sub-dword control word.
    Sdwa,
    /// The 32-bit encoding with a data-parallel control word.
    Dpp,
}

/// Modifiers of the 64-bit vector encodings, by bit: bit `n` belongs to source `n`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mods {
    /// Sources to negate (VOP3P: their low halves).
    pub neg: u8,
    /// Sources to take the absolute value of (VOP3P: high halves to negate).
    pub abs: u8,
    /// Sources whose high half is used; bit 3 is the destination's.
    pub op_sel: u8,
    /// VOP3P: sources whose high half is used for the high result.
    pub op_sel_hi: u8,
    /// Clamp the result.
    pub clamp: bool,
    /// Multiply the result: 1 by 2, 2 by 4, 3 by 1/2.
    pub omod: u8,
}

impl Mods {
    /// True when a source needs more than being read.
    pub fn change_sources(&self) -> bool {
        self.neg | self.abs | (self.op_sel & 7) != 0
    }

    /// True when the result needs more than being written.
    pub fn change_result(&self) -> bool {
        self.clamp || self.omod != 0 || self.op_sel & 8 != 0
    }
}

/// A sub-dword control word. Source: Vega ISA manual, "SDWA" and "SDWAB".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sdwa {
    /// Part of the destination that is written: 0–3 bytes, 4–5 words, 6 the dword.
    pub dst_sel: u8,
    /// What happens to the rest: 0 zero, 1 sign extension, 2 kept.
    pub dst_unused: u8,
    /// Part of each source that is read.
    pub src_sel: [u8; 2],
    /// Sign extension of each source.
    pub sext: [bool; 2],
}

impl Sdwa {
    /// The selection of everything.
    pub const DWORD: u8 = 6;

    /// The fields of control word `w`, without those that go to operands and [`Mods`].
    pub fn new(w: u32) -> Sdwa {
        Sdwa {
            dst_sel: (w >> 8 & 7) as u8,
            dst_unused: (w >> 11 & 3) as u8,
            src_sel: [(w >> 16 & 7) as u8, (w >> 24 & 7) as u8],
            sext: [w >> 19 & 1 == 1, w >> 27 & 1 == 1],
        }
    }
}

/// A data-parallel control word. Source: Vega ISA manual, "DPP".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dpp {
    /// Which lane each lane reads src0 from.
    pub ctrl: u16,
    /// Lanes without a source read zero instead of being left out.
    pub bound_ctrl: bool,
    /// Banks of four lanes in a row that are written.
    pub bank_mask: u8,
    /// Rows of 16 lanes that are written.
    pub row_mask: u8,
}

impl Dpp {
    /// The fields of control word `w`, without those that go to operands and [`Mods`].
    pub fn new(w: u32) -> Dpp {
        Dpp {
            ctrl: (w >> 8 & 0x1ff) as u16,
            bound_ctrl: w >> 19 & 1 == 1,
            bank_mask: (w >> 24 & 15) as u8,
            row_mask: (w >> 28) as u8,
        }
    }
}

/// What the elements of a factor of a matrix product are, where the instruction says it. Source: CDNA4 ISA manual, section 7.1.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactorFormat {
    /// FP8, E4M3.
    Fp8,
    /// BF8, E5M2.
    Bf8,
    /// FP6, E2M3.
    Fp6,
    /// BF6, E3M2.
    Bf6,
    /// FP4, E2M1.
    Fp4,
}

impl FactorFormat {
    /// The format that a number in CBSZ or BLGP means.
    pub const fn new(code: u8) -> Option<FactorFormat> {
        Some(match code {
            0 => FactorFormat::Fp8,
            1 => FactorFormat::Bf8,
            2 => FactorFormat::Fp6,
            3 => FactorFormat::Bf6,
            4 => FactorFormat::Fp4,
            _ => return None,
        })
    }

    /// Bits of an element.
    pub const fn bits(self) -> u8 {
        match self {
            FactorFormat::Fp8 | FactorFormat::Bf8 => 8,
            FactorFormat::Fp6 | FactorFormat::Bf6 => 6,
            FactorFormat::Fp4 => 4,
        }
    }

    /// The registers of a factor: each lane has 32 elements.
    pub const fn kind(self) -> Kind {
        Kind::Dwords(self.bits())
    }
}

/// The scales of a matrix product's factors: each is a byte of a register. Source: CDNA4 ISA manual, section 7.2; LLVM's `VOP3PXe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scales {
    /// The registers.
    pub source: [Operand; 2],
    /// Which byte of them.
    pub byte: [u8; 2],
}

impl Scales {
    /// The second word of a prefix, with the two bits of `op_sel` in the place of unused ones.
    pub(crate) const fn control(first: u32, second: u32) -> u32 {
        second & !(7 << 29) | (first >> 11 & 3) << 29
    }

    fn new(control: u32) -> Scales {
        let byte = |n: u32| (control >> (29 + n) & 1 | (control >> (27 + n) & 1) << 1) as u8;
        Scales {
            source: [Operand::sgpr(control & 0x1ff), Operand::sgpr(control >> 9 & 0x1ff)],
            byte: [byte(0), byte(1)],
        }
    }
}

/// Bits of [`Inst::control`] of memory instructions.
pub mod control {
    /// Return the old value of an atomic; otherwise a cache hint (`glc`, `sc0`).
    pub const GLC: u32 = 1;
    /// Cache hint (`slc`, `nt`).
    pub const SLC: u32 = 1 << 1;
    /// Cache hint of gfx90a and later (`scc`, `sc1`).
    pub const SCC: u32 = 1 << 2;
    /// Load into LDS.
    pub const LDS: u32 = 1 << 3;
    /// MUBUF: an offset comes from a register.
    pub const OFFEN: u32 = 1 << 4;
    /// MUBUF: an index comes from a register.
    pub const IDXEN: u32 = 1 << 5;
    /// DS: the global data share instead of LDS.
    pub const GDS: u32 = 1 << 6;
    /// SMEM: there is an immediate offset.
    pub const IMM: u32 = 1 << 7;
    /// SMEM: there is an offset register.
    pub const SOFFSET: u32 = 1 << 8;
}

/// One decoded instruction.
#[derive(Clone)]
pub struct Inst {
    /// The row of the tables.
    pub op: &'static Op,
    /// The row's code for this host; only a [`Decoder`](crate::Decoder) chooses it.
    pub(crate) run: Run,
    /// How it was written.
    pub form: Form,
    /// Its length in bytes.
    pub size: u8,
    /// True when sources are read as they are: no modifiers, no SDWA, no DPP.
    pub plain_sources: bool,
    /// True when the result is written as it is.
    pub plain_result: bool,
    /// Modifiers; for MFMA `abs` is CBSZ, `op_sel` ABID and `neg` BLGP.
    pub mods: Mods,
    /// Where the result goes; for MUBUF stores, where the data comes from.
    pub dst: Operand,
    /// Second (scalar) result: carry, compare mask.
    pub sdst: Operand,
    /// Sources. Memory: address, data (or descriptor), second data (or scalar offset).
    pub src: [Operand; 3],
    /// The literal that follows the instruction.
    pub literal: u32,
    /// Immediate: a 16-bit constant, a jump distance or a memory offset; DS keeps two 8-bit offsets.
    pub imm: i32,
    /// SDWA or DPP control word, what says where [`Scales`] are, or bits of [`control`].
    pub control: u32,
}

impl Inst {
    /// The sub-dword control, when that is the form.
    #[inline]
    pub fn sdwa(&self) -> Option<Sdwa> {
        (self.form == Form::Sdwa).then(|| Sdwa::new(self.control))
    }

    /// The data-parallel control, when that is the form.
    #[inline]
    pub fn dpp(&self) -> Option<Dpp> {
        (self.form == Form::Dpp).then(|| Dpp::new(self.control))
    }

    /// What a factor of a matrix product is, where the instruction says it.
    #[inline]
    pub fn factor_format(&self, factor: usize) -> Option<FactorFormat> {
        let code = match factor {
            0 => self.mods.abs,
            1 => self.mods.neg,
            _ => return None,
        };
        if self.op.flags.has(Flags::FORMATS) { FactorFormat::new(code) } else { None }
    }

    /// The operations of one execution that are counted: what the row says, and of factors whose elements the instruction names those of
    /// the wider of the two.
    pub fn arithmetic(&self) -> Arithmetic {
        let bits = [0, 1].map(|factor| self.factor_format(factor).map(FactorFormat::bits));
        match (self.op.arithmetic, bits) {
            (Arithmetic::Wave(_, each), [Some(first), Some(second)]) => {
                let of = match first.max(second) {
                    ..=4 => Number::F4,
                    5..=6 => Number::F6,
                    _ => Number::F8,
                };
                Arithmetic::Wave(of, each)
            }
            (of_row, _) => of_row,
        }
    }

    /// What source `n` is: what the row says, or the registers of a factor in the format that the instruction names.
    #[inline]
    pub fn source_kind(&self, n: usize) -> Kind {
        self.factor_format(n).map_or(self.op.src[n], FactorFormat::kind)
    }

    /// The scales of a matrix product, if it has any.
    #[inline]
    pub fn scales(&self) -> Option<Scales> {
        (self.op.family == Family::Vop3px2).then(|| Scales::new(self.control))
    }

    /// Where a jump that the instruction itself gives goes, when it is at an address.
    pub fn target(&self, address: u64) -> Option<u64> {
        let next = address.wrapping_add(self.size.into());
        self.op.flags.has(Flags::BRANCH).then(|| next.wrapping_add_signed(i64::from(self.imm) * 4))
    }

    /// False when what is behind the instruction is never what runs next: jumps that are always taken, ends, traps.
    pub fn falls_through(&self) -> bool {
        !self.op.flags.has(Flags::NO_NEXT)
    }

    /// True when it jumps to an address in registers.
    pub fn is_indirect(&self) -> bool {
        self.op.flags.has(Flags::INDIRECT)
    }

    /// What a matrix instruction adds to: the first register or the constant.
    pub fn addend(&self) -> Operand {
        if self.op.flags.has(Flags::SPARSE) { self.dst } else { self.src[2] }
    }

    /// True when a bit of [`control`] is set.
    #[inline]
    pub fn has(&self, bit: u32) -> bool {
        self.control & bit != 0
    }
}
