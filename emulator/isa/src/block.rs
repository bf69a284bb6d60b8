//! Blocks: instructions that run one behind the other, found once for all of them.
//!
//! An instruction takes less time than finding it. There are two kinds of blocks:
//!
//! * **Chains** of the scalar ALU, perhaps with a jump at their end. Each operation has what it needs in few bytes, and calls the next: a
//!   processor predicts the calls of each operation apart. Nothing in a chain can trap or wait.
//! * **Stretches** of vector and memory instructions, with few scalar ones between them. They are executed as outside of blocks, but
//!   nothing is looked up between them. One that traps, waits or asks for something else ends the stretch.
//!
//! A block can be left behind any of its instructions, where the wave's slice ends: waves run in the same slices as if there were no
//! blocks.

use crate::action::Action;
use crate::env::Env;
use crate::inst::Inst;
use crate::micro::{MicroOp, Taken, proceed};
use crate::op::{Family, Flags, Flow, Op};
use crate::operand::{Kind, Operand};
use crate::step;
use crate::wave::Wave;

/// Instructions of a block at most. A block may begin at each of its instructions, and has its own copy of what follows.
pub const LONGEST: usize = 32;
/// Instructions of a chain that is not a part of a stretch.
const CHAIN: usize = 3;

/// Instructions that run one behind the other.
pub enum Block {
    /// Nothing: the first of the instructions is of another kind.
    Empty,
    /// Operations of the scalar ALU.
    Chain(Chain),
    /// Instructions that go on with the next.
    Stretch(Stretch),
}

/// Operations of the scalar ALU, and perhaps a jump.
pub struct Chain {
    ops: Box<[MicroOp]>,
    /// Where the instruction of each of them ends, in bytes from the block's beginning.
    ends: Box<[u16]>,
    /// Of all instructions.
    bytes: i64,
    /// Whether the jump at the end is taken, and how far it is from the block's beginning.
    jump: Option<(Taken, i64)>,
}

/// Instructions that go on with the next.
pub struct Stretch {
    instructions: Box<[Inst]>,
    /// Of all instructions.
    bytes: i64,
}

/// What was executed of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Instructions, that which ended it among them.
    pub instructions: u64,
    /// Bytes that the program counter moves. That which traps does not move it.
    pub bytes: i64,
    /// What the last instruction asks for.
    pub flow: Flow,
}

impl Block {
    /// The block that begins with the first of `instructions`, which follow each other.
    pub fn new<'i>(instructions: impl Iterator<Item = &'i Inst>) -> Block {
        let mut found: Vec<(&Inst, Option<MicroOp>)> = Vec::new();
        for i in instructions.take(LONGEST) {
            found.push((i, compact(i)));
            if i.op.taken.is_some() || !is_straight(i.op) {
                break;
            }
        }
        // From each instruction on, those of a chain.
        let mut chains = vec![0; found.len() + 1];
        for (n, (i, compact)) in found.iter().enumerate().rev() {
            chains[n] = match (i.op.taken, compact) {
                (Some(_), _) => CHAIN,
                (_, Some(_)) => chains[n + 1] + 1,
                _ => 0,
            };
        }
        let is_of_stretch = |n: &usize| chains[*n] < CHAIN && is_straight(found[*n].0.op);
        match (0..found.len()).take_while(is_of_stretch).count() {
            // What has no other instruction in it is a chain, too.
            length if length > chains[0] => Block::Stretch(Stretch::new(found[..length].iter().map(|(i, _)| *i))),
            _ => Chain::new(found.into_iter()).map_or(Block::Empty, Block::Chain),
        }
    }

    /// True if it has no instruction.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        matches!(self, Block::Empty)
    }

    /// Executes it, or its first `most` instructions, at least one. One that waits ([`Flow::Wait`]) ends it if the wave `stays`.
    ///
    /// The wave's program counter and its count of instructions stay as they are.
    #[inline(always)]
    pub fn execute(&self, w: &mut Wave, e: &mut dyn Env, most: u64, stays: bool) -> Executed {
        match self {
            Block::Empty => Executed { instructions: 0, bytes: 0, flow: Flow::Next },
            Block::Chain(chain) => {
                let (instructions, bytes) = chain.execute(w, most);
                Executed { instructions, bytes, flow: Flow::Next }
            }
            Block::Stretch(stretch) => stretch.execute(w, e, most, stays),
        }
    }
}

impl Chain {
    /// The chain that begins with the first of the instructions.
    fn new<'i>(instructions: impl Iterator<Item = (&'i Inst, Option<MicroOp>)>) -> Option<Chain> {
        let (mut ops, mut ends, mut bytes, mut jump) = (Vec::new(), Vec::new(), 0, None);
        for (i, compact) in instructions {
            let end = bytes + i64::from(i.size);
            if let Some(taken) = i.op.taken {
                (bytes, jump) = (end, Some((taken, end + i64::from(i.imm) * 4)));
                break;
            }
            let Some(op) = compact else { break };
            ops.push(op);
            ends.push(end as u16);
            bytes = end;
        }
        (bytes > 0).then(|| Chain { ops: ops.into(), ends: ends.into(), bytes, jump })
    }

    /// How many instructions were executed, and how many bytes the program counter moves.
    #[inline(always)]
    fn execute(&self, w: &mut Wave, most: u64) -> (u64, i64) {
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

impl Stretch {
    fn new<'i>(instructions: impl Iterator<Item = &'i Inst>) -> Stretch {
        let instructions: Box<[Inst]> = instructions.cloned().collect();
        Stretch { bytes: bytes(&instructions), instructions }
    }

    #[inline(always)]
    fn execute(&self, w: &mut Wave, e: &mut dyn Env, most: u64, stays: bool) -> Executed {
        // No instruction of a stretch turns it on or off.
        if w.mode.has_index() {
            return self.through(w, e, most, stays, step::perform);
        }
        self.through(w, e, most, stays, step::perform_in_place)
    }

    #[inline(always)]
    fn through(
        &self,
        w: &mut Wave,
        e: &mut dyn Env,
        most: u64,
        stays: bool,
        perform: impl Fn(&mut Wave, &Inst, &mut dyn Env) -> Flow,
    ) -> Executed {
        let part = usize::try_from(most).ok().and_then(|most| self.instructions.get(..most));
        let instructions = part.unwrap_or(&self.instructions);
        for (n, i) in instructions.iter().enumerate() {
            let flow = perform(w, i, e);
            if flow != Flow::Next && (stays || flow != Flow::Wait) {
                return ended(&instructions[..=n], flow);
            }
        }
        match part {
            None => Executed { instructions: instructions.len() as u64, bytes: self.bytes, flow: Flow::Next },
            Some(part) => ended(part, Flow::Next),
        }
    }
}

/// What is said of a stretch that ended before its end.
#[cold]
fn ended(instructions: &[Inst], flow: Flow) -> Executed {
    let moved = match (flow, instructions) {
        (Flow::Trap, [before @ .., _]) => before,
        _ => instructions,
    };
    Executed { instructions: instructions.len() as u64, bytes: bytes(moved), flow }
}

/// Bytes of instructions.
fn bytes(instructions: &[Inst]) -> i64 {
    instructions.iter().map(|i| i64::from(i.size)).sum()
}

/// True for an operation that goes on with the next instruction unless it traps or waits, and for which it does not matter where it is
/// nor how many were executed.
fn is_straight(op: &Op) -> bool {
    match op.family {
        Family::Vop1 | Family::Vop2 | Family::Vopc | Family::Vop3 | Family::Vop3p | Family::Vop3px2 => true,
        Family::Smem | Family::Flat | Family::Scratch | Family::Global | Family::Mubuf => true,
        // Those that wait for the grid are executed again.
        Family::Ds => !op.flags.has(Flags::GWS),
        Family::Sopp => matches!(op.action, Action::Wait | Action::Nop),
        Family::Sop1 | Family::Sop2 | Family::Sopc | Family::Sopk => op.micros.is_some(),
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
