//! Blocks: operations of the scalar ALU that run one behind the other, in a form of their own.
//!
//! An instruction of the scalar ALU takes less time than finding it, and programs have long chains of them. A block is
//! found once for all of its operations. Each of them has what it needs in few bytes, and calls the next: a processor
//! predicts the calls of each operation apart. A block may end with a jump. Nothing in it can trap or wait. It can be left
//! behind any of its instructions, where the wave's slice ends: waves run in the same slices as if there were no blocks.

use crate::inst::Inst;
use crate::micro::{MicroOp, Taken, proceed};
use crate::operand::{Kind, Operand};
use crate::wave::Wave;

/// Operations of a block at most. A block may begin at each of its instructions, and has its own copy of what follows.
pub const LONGEST: usize = 32;

/// Operations of the scalar ALU that run one behind the other, and perhaps a jump.
pub struct Block {
    ops: Box<[MicroOp]>,
    /// Where the instruction of each of them ends, in bytes from the block's beginning.
    ends: Box<[u16]>,
    /// Of all instructions.
    bytes: i64,
    /// Whether the jump at the end is taken, and how far it is from the block's beginning.
    jump: Option<(Taken, i64)>,
}

impl Block {
    /// The block that begins with the first of `instructions`, which follow each other. It is empty if the first is of
    /// another kind.
    pub fn new<'i>(instructions: impl Iterator<Item = &'i Inst>) -> Block {
        let (mut ops, mut ends, mut bytes) = (Vec::new(), Vec::new(), 0);
        for i in instructions.take(LONGEST) {
            let end = bytes + i64::from(i.size);
            if let Some(taken) = i.op.taken {
                let jump = Some((taken, end + i64::from(i.imm) * 4));
                return Block { ops: ops.into(), ends: ends.into(), bytes: end, jump };
            }
            let Some(op) = compact(i) else { break };
            ops.push(op);
            ends.push(end as u16);
            bytes = end;
        }
        Block { ops: ops.into(), ends: ends.into(), bytes, jump: None }
    }

    /// True if it has no instruction.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Executes it, or its first `most` instructions, at least one. Returns how many instructions these were, and how many bytes the
    /// program counter moves.
    ///
    /// The wave's program counter and its count of instructions stay as they are.
    #[inline(always)]
    pub fn execute(&self, w: &mut Wave, most: u64) -> (u64, i64) {
        let operations = self.ops.len() as u64;
        if most < operations + u64::from(self.jump.is_some()) {
            return self.begin(w, most);
        }
        w.scc = proceed(&mut w.sgpr, w.scc, &self.ops);
        match self.jump {
            None => (operations, self.bytes),
            Some((taken, distance)) => (operations + 1, if taken(&w.sgpr, w.scc) { distance } else { self.bytes }),
        }
    }

    /// Executes the first instructions, none of which is the jump.
    #[cold]
    fn begin(&self, w: &mut Wave, most: u64) -> (u64, i64) {
        let first = self.ops.get(..most as usize).unwrap_or(&self.ops);
        w.scc = proceed(&mut w.sgpr, w.scc, first);
        let bytes = first.len().checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or_default();
        (first.len() as u64, bytes.into())
    }
}

/// The compact form of an instruction; `None` if its operation has none, or reads what is neither in a register nor constant.
fn compact(i: &Inst) -> Option<MicroOp> {
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
