//! What an operation of the scalar ALU sees: a whole wave and its decoded instruction, or registers and its compact form.

use crate::inst::Inst;
use crate::lanes::Lane;
use crate::micro::MicroOp;
use crate::operand::Operand;
use crate::wave::{Sgprs, Wave, pair};

/// What an operation of the scalar ALU sees, in either form of its instruction.
pub(crate) trait Scalars {
    /// Source `n`.
    fn source<T: Lane>(&self, n: usize) -> T;
    /// The 16-bit constant of SOPK.
    fn immediate(&self) -> i32;
    /// Code of the destination.
    fn dst(&self) -> u16;
    fn sgprs(&mut self) -> &mut Sgprs;
    fn scc(&self) -> bool;
    fn set_scc(&mut self, scc: bool);

    /// What is in the destination.
    #[inline(always)]
    fn destination<T: Lane>(&mut self) -> T {
        let dst = self.dst();
        get(self.sgprs(), dst)
    }

    /// Writes the result.
    #[inline(always)]
    fn set<T: Lane>(&mut self, value: T) {
        let dst = self.dst();
        put(self.sgprs(), dst, value);
    }

    #[inline(always)]
    fn exec(&mut self) -> u64 {
        get(self.sgprs(), Operand::EXEC.0)
    }

    #[inline(always)]
    fn set_exec(&mut self, mask: u64) {
        put(self.sgprs(), Operand::EXEC.0, mask);
    }
}

/// A register, or a pair of them.
#[inline(always)]
fn get<T: Lane>(sgprs: &Sgprs, code: u16) -> T {
    T::from_bits(if T::WORDS == 2 { pair(sgprs, Operand(code)) } else { sgprs[usize::from(code) & 127].into() })
}

#[inline(always)]
fn put<T: Lane>(sgprs: &mut Sgprs, code: u16, value: T) {
    let (n, bits) = (usize::from(code), value.to_bits());
    sgprs[n & 127] = bits as u32;
    if T::WORDS == 2 {
        sgprs[(n + 1) & 127] = (bits >> 32) as u32;
    }
}

/// A wave and a decoded instruction.
pub(crate) struct Whole<'a>(pub(crate) &'a mut Wave, pub(crate) &'a Inst);

impl Scalars for Whole<'_> {
    #[inline(always)]
    fn source<T: Lane>(&self, n: usize) -> T {
        let Whole(w, i) = self;
        T::from_bits(match T::WORDS {
            2 => w.scalar64(i.src[n], i.literal, T::KIND),
            _ => u64::from(w.scalar32(i.src[n], i.literal, T::KIND)),
        })
    }

    #[inline(always)]
    fn immediate(&self) -> i32 {
        self.1.imm
    }

    #[inline(always)]
    fn dst(&self) -> u16 {
        self.1.dst.0
    }

    #[inline(always)]
    fn sgprs(&mut self) -> &mut Sgprs {
        &mut self.0.sgpr
    }

    #[inline(always)]
    fn scc(&self) -> bool {
        self.0.scc
    }

    #[inline(always)]
    fn set_scc(&mut self, scc: bool) {
        self.0.scc = scc;
    }
}

/// Registers, the condition code, and an operation of a block whose sources are those of [`Micros`](crate::micro::Micros) at `SHAPE`.
pub(crate) struct Compact<'a, const SHAPE: usize> {
    pub(crate) sgprs: &'a mut Sgprs,
    pub(crate) scc: bool,
    pub(crate) op: &'a MicroOp,
}

impl<const SHAPE: usize> Scalars for Compact<'_, SHAPE> {
    #[inline(always)]
    fn source<T: Lane>(&self, n: usize) -> T {
        match SHAPE >> n & 1 {
            0 => get(self.sgprs, self.op.src[n].into()),
            _ => T::from_bits(i64::from(self.op.constants[n]) as u64),
        }
    }

    #[inline(always)]
    fn immediate(&self) -> i32 {
        self.op.constants[0]
    }

    #[inline(always)]
    fn dst(&self) -> u16 {
        self.op.dst.into()
    }

    #[inline(always)]
    fn sgprs(&mut self) -> &mut Sgprs {
        self.sgprs
    }

    #[inline(always)]
    fn scc(&self) -> bool {
        self.scc
    }

    #[inline(always)]
    fn set_scc(&mut self, scc: bool) {
        self.scc = scc;
    }
}
