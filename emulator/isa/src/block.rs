//! Blocks: operations of the scalar ALU that run one behind the other, in a form of their own.
//!
//! An instruction of the scalar ALU takes less time than finding it, and programs have long chains of them. A block is
//! found once for all of its operations. Each of them has what it needs in few bytes, and calls the next: a processor
//! predicts the calls of each operation apart. A block may end with a jump. Nothing in it can trap or wait, and no other
//! wave can see where in a block a wave is.

use crate::inst::Inst;
use crate::lanes::Lane;
use crate::operand::{Kind, Operand};
use crate::wave::{Sgprs, Wave, pair};

/// Operations of a block at most. A block may begin at each of its instructions, and has its own copy of what follows.
pub const LONGEST: usize = 32;

/// The code of an operation in a block: from the registers and the condition code to the condition code behind the last of
/// the operations, of which it is the first.
pub type Micro = fn(&mut Sgprs, bool, &[MicroOp]) -> bool;

/// The same by what the sources are: bit `n` is set where source `n` is a constant.
pub type Micros = [Micro; 4];

/// Whether a jump is taken, from the registers and the condition code.
pub type Taken = fn(&Sgprs, bool) -> bool;

/// An operation of a block.
pub struct MicroOp {
    run: Micro,
    /// Values of sources that are constants (operations on 64 bits extend the sign); the first is the immediate of SOPK.
    constants: [i32; 2],
    /// Codes of registers.
    dst: u8,
    src: [u8; 2],
}

impl MicroOp {
    /// The compact form; `None` if the operation has none, or reads what is neither in a register nor constant.
    fn new(i: &Inst) -> Option<MicroOp> {
        let (mut constants, mut src, mut shape) = ([i.imm, 0], [0; 2], 0);
        let micros = i.op.micros?;
        for n in 0..2 {
            match i.op.src[n] {
                Kind::None => {}
                _ if i.src[n].is_scalar_register() => src[n] = i.src[n].0 as u8,
                kind => {
                    constants[n] = constant(i.src[n], i.literal, kind)?;
                    shape |= 1 << n;
                }
            }
        }
        let dst = if i.dst.is_some() { i.dst.0 as u8 } else { 0 };
        Some(MicroOp { run: micros[shape], constants, dst, src })
    }
}

/// Executes operations. Each calls the next by this: [`LONGEST`] calls at most, and none where compilers make them jumps.
#[inline(always)]
pub(crate) fn proceed(sgprs: &mut Sgprs, scc: bool, ops: &[MicroOp]) -> bool {
    match ops {
        [op, ..] => (op.run)(sgprs, scc, ops),
        [] => scc,
    }
}

/// The value of a source that is always the same, if 32 bits are enough for it.
fn constant(operand: Operand, literal: u32, kind: Kind) -> Option<i32> {
    if let Some(value) = operand.inline_integer() {
        return Some(value);
    }
    match kind.dwords() {
        1 if operand == Operand::LITERAL => Some(literal as i32),
        1 => operand.inline_float_bits32().map(|bits| bits as i32),
        // Whether the sign is extended depends on the kind: positive ones are the same.
        _ if operand == Operand::LITERAL && kind != Kind::F64 => i32::try_from(literal).ok(),
        _ => None,
    }
}

/// Operations of the scalar ALU that run one behind the other, and perhaps a jump.
pub struct Block {
    ops: Box<[MicroOp]>,
    /// Of all instructions.
    bytes: i64,
    /// Whether the jump at the end is taken, and how far it is from the block's beginning.
    jump: Option<(Taken, i64)>,
}

impl Block {
    /// The block that begins with the first of `instructions`, which follow each other. It is empty if the first is of
    /// another kind.
    pub fn new<'i>(instructions: impl Iterator<Item = &'i Inst>) -> Block {
        let (mut ops, mut bytes, mut jump) = (Vec::new(), 0, None);
        for i in instructions.take(LONGEST) {
            let next = bytes + i64::from(i.size);
            match (i.op.taken, MicroOp::new(i)) {
                (Some(taken), _) => jump = Some((taken, next + i64::from(i.imm) * 4)),
                (None, Some(op)) => ops.push(op),
                (None, None) => break,
            }
            bytes = next;
            if jump.is_some() {
                break;
            }
        }
        Block { ops: ops.into(), bytes, jump }
    }

    /// True if it has no instruction.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Executes it. Returns how many instructions these were, and how many bytes the program counter moves.
    ///
    /// The wave's program counter and its count of instructions stay as they are.
    #[inline(always)]
    pub fn execute(&self, w: &mut Wave) -> (u64, i64) {
        w.scc = proceed(&mut w.sgpr, w.scc, &self.ops);
        let operations = self.ops.len() as u64;
        match self.jump {
            None => (operations, self.bytes),
            Some((taken, distance)) => (operations + 1, if taken(&w.sgpr, w.scc) { distance } else { self.bytes }),
        }
    }
}

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

/// Registers, the condition code, and an operation of a block whose sources are those of [`Micros`] at `SHAPE`.
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
