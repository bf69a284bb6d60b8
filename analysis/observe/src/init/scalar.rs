//! Definedness in scalar instructions: bit by bit for bitwise operations.

use amdgpu_emu::isa::action::{Action, Bitwise, Condition};
use amdgpu_emu::isa::op::Flags;
use amdgpu_emu::isa::operand::{Kind, Operand};

use super::{Defined, Look, bits};

/// An undefined value decides where a wave goes, or which of its lanes are active.
const BRANCH: &str = "a branch depends on a value that nothing has written";
const LANES: &str = "the active lanes depend on a value that nothing has written";

pub(super) fn execute(look: &mut Look<'_>, defined: &mut Defined) {
    let inst = look.inst;
    let op = inst.op;
    if let Action::Branch(condition) = op.action {
        return branch(look, defined, condition);
    }
    if inst.is_indirect() && defined.scalar(inst.src[0], op.src[0]) != u64::MAX {
        look.report(BRANCH, None, format!("the address in {}", register(inst.src[0])));
    }
    if op.action == Action::SetRegister || op.dst == Kind::None && op.src.iter().all(|kind| *kind == Kind::None) {
        return;
    }
    let sources = Sources::of(look, defined);
    if let Action::SaveExec(operation) = op.action {
        let exec = (look.step.wave.exec(), u64::MAX);
        lanes(look, bits::bitwise(operation, sources.pair(0), exec), inst.src[0]);
        defined.set_scalar(inst.dst, 2, u64::MAX);
        defined.scc = true;
        return;
    }
    if op.action == Action::Compare {
        let reads_dst = op.flags.has(Flags::READS_DST);
        defined.scc = if reads_dst { defined.scalar(inst.dst, op.dst) } else { sources.all() } == u64::MAX;
        return;
    }
    let result = result(look, defined, &sources);
    if inst.dst == Operand::EXEC {
        let undefined = (0..sources.count).find(|n| sources.bits[*n] != u64::MAX).unwrap_or(0);
        lanes(look, result, inst.src[undefined]);
    }
    let dwords = op.dst.dwords();
    defined.set_scalar(inst.dst, dwords, result);
    if op.flags.has(Flags::WRITES_SCC) {
        // Where one defined bit is set, a result is not zero whatever the others are.
        let mask = if dwords == 2 { u64::MAX } else { 0xffff_ffff };
        let is_set = op.action == Action::Bitwise(Bitwise::Or) && sources.ones() & mask != 0;
        defined.scc = result & mask == mask || is_set;
    }
}

/// What the sources of an instruction are, and which bits of them are defined. One that it does not have is zero.
struct Sources {
    bits: [u64; 2],
    values: [u64; 2],
    count: usize,
}

impl Sources {
    fn of(look: &Look<'_>, defined: &Defined) -> Sources {
        let (inst, op) = (look.inst, look.inst.op);
        let count = op.src.iter().filter(|kind| **kind != Kind::None).count();
        let bits = |n| if n < count { defined.scalar(inst.src[n], op.src[n]) } else { u64::MAX };
        let value = |n| if n < count { look.step.wave.scalar64(inst.src[n], inst.literal, op.src[n]) } else { 0 };
        Sources { bits: std::array::from_fn(bits), values: std::array::from_fn(value), count }
    }

    /// The value of a source and its defined bits.
    fn pair(&self, n: usize) -> (u64, u64) {
        (self.values[n], self.bits[n])
    }

    /// Bits that are defined in all sources.
    fn all(&self) -> u64 {
        self.bits[0] & self.bits[1]
    }

    /// Bits that are defined in a source, and set.
    fn ones(&self) -> u64 {
        self.values[0] & self.bits[0] | self.values[1] & self.bits[1]
    }
}

/// A jump under a condition.
fn branch(look: &mut Look<'_>, defined: &mut Defined, condition: Condition) {
    match condition {
        Condition::Scc => {
            if !defined.scc {
                look.report(BRANCH, None, "the scalar condition code".to_owned());
                defined.scc = true;
            }
        }
        Condition::Vcc => {
            let bits = defined.pair(Operand::VCC);
            if bits != u64::MAX && look.step.wave.vcc() & bits == 0 {
                look.report(BRANCH, Some((!bits).trailing_zeros() as u8), "vcc".to_owned());
                defined.set_scalar(Operand::VCC, 2, u64::MAX);
            }
        }
        // What EXEC is made of was looked at before.
        Condition::Exec => {}
    }
}

/// The defined bits of a result.
fn result(look: &Look<'_>, defined: &Defined, sources: &Sources) -> u64 {
    use Action::*;
    let (inst, scc) = (look.inst, look.step.wave.scc);
    let op = inst.op;
    let (a, b) = (sources.bits[0], sources.bits[1]);
    let (x, by) = (sources.values[0], sources.values[1] as u32);
    let old = || defined.scalar(inst.dst, op.dst);
    let size = 32 * op.dst.dwords();
    match op.action {
        Move | Not => a,
        Bitwise(operation) => bits::bitwise(operation, sources.pair(0), sources.pair(1)),
        ShiftLeft if b == u64::MAX => {
            let by = by & (size - 1);
            a << by | ((1 << by) - 1)
        }
        ShiftRight if b == u64::MAX => {
            let by = by & (size - 1);
            let upper = if size == 64 { a } else { a & 0xffff_ffff };
            upper >> by | u64::MAX.checked_shl(size - by).unwrap_or(0)
        }
        Select | ConditionalMove | AddCarry | Subtract if op.flags.has(Flags::READS_SCC) && !defined.scc => 0,
        Select | ConditionalMove if scc => a,
        Select => b,
        ConditionalMove => old(),
        SetBit if a == u64::MAX => old() | 1 << (x & 63),
        SetBit => 0,
        ShiftLeft | ShiftRight | AddCarry | Subtract | Other | SaveExec(_) | AndOr | Or3 | ShiftOr | InsertField
        | ExtractField | ShiftRightSigned | PermuteBytes | AlignBits | AlignBytes | Pack | ReverseBits | Add
        | MultiplyLow | Multiply24 | MultiplyHigh24 | ShiftAdd | AddShift | XorAdd | Compare | Equality
        | ByteToFloat(_) | Fma64 | DivFmas | Transcendental | Dot | MatrixProduct(_) | ReadLane | ReadFirstLane
        | WriteLane | Swap | SwapLanes(_) | PermuteLanes | LaneAddressed | LoadTransposed(_) | Branch(_) | GetPc
        | Call | End | Nop | Wait | GridBarrier | SendMessage | TraceData | GetRegister | SetRegister | SetIndex
        | EndIndex | WriteBack => {
            let read = if op.flags.has(Flags::READS_DST) { old() } else { u64::MAX };
            if sources.all() & read == u64::MAX { u64::MAX } else { 0 }
        }
    }
}

/// EXEC is made of these bits.
pub(super) fn lanes(look: &mut Look<'_>, bits: u64, source: Operand) {
    if bits != u64::MAX {
        look.report(LANES, Some((!bits).trailing_zeros() as u8), register(source));
    }
}

/// The name of a scalar operand.
pub(super) fn register(operand: Operand) -> String {
    match operand {
        Operand::VCC => "vcc".to_owned(),
        Operand::M0 => "m0".to_owned(),
        Operand::EXEC => "exec".to_owned(),
        Operand::FLAT_SCRATCH => "flat_scratch".to_owned(),
        Operand(code) => format!("s{code}"),
    }
}
