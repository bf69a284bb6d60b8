//! Which registers a decoded instruction reads and writes.
//!
//! The scalar condition code, MODE and the program counter are no registers here.

use crate::action::{Action, Condition};
use crate::inst::{Form, Inst, control};
use crate::op::{Access, Family, Flags};
use crate::operand::{Kind, Operand};

/// Registers that follow each other: the first, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// The first: scalar, vector or accumulation register.
    pub first: Operand,
    /// How many.
    pub count: u32,
}

/// The most operands of one direction.
const MOST: usize = 8;

/// The registers of one direction.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    ranges: [Registers; MOST],
    count: usize,
}

impl Default for Set {
    fn default() -> Set {
        Set { ranges: [Registers { first: Operand::NONE, count: 0 }; MOST], count: 0 }
    }
}

impl Set {
    /// The ranges; some may overlap.
    pub fn ranges(&self) -> &[Registers] {
        &self.ranges[..self.count]
    }

    fn push(&mut self, first: Operand, count: u32) {
        if count != 0 && (first.is_vector() || first.is_scalar_register()) && self.count < MOST {
            self.ranges[self.count] = Registers { first, count };
            self.count += 1;
        }
    }
}

/// What an instruction reads and writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uses {
    /// Read.
    pub reads: Set,
    /// Written, all or some lanes or bits of them.
    pub writes: Set,
    /// The scalar condition code is read.
    pub reads_scc: bool,
}

impl Uses {
    /// Of an instruction outside of index mode.
    pub fn of(inst: &Inst) -> Uses {
        let mut uses = Uses::default();
        match inst.op.family {
            Family::Sop1 | Family::Sop2 | Family::Sopc | Family::Sopk | Family::Sopp => uses.scalar(inst),
            Family::Vop1 | Family::Vop2 | Family::Vopc | Family::Vop3 | Family::Vop3p | Family::Vop3px2 => {
                uses.vector(inst);
            }
            Family::Smem => uses.scalar_memory(inst),
            Family::Ds => uses.lds(inst),
            Family::Flat | Family::Global | Family::Scratch => uses.flat(inst),
            Family::Mubuf => uses.buffer(inst),
        }
        uses
    }

    fn read(&mut self, operand: Operand, count: u32) {
        match operand {
            Operand::VCCZ => self.reads.push(Operand::VCC, 2),
            Operand::EXECZ => self.reads.push(Operand::EXEC, 2),
            Operand::SCC => self.reads_scc = true,
            other => self.reads.push(other, count),
        }
    }

    fn write(&mut self, operand: Operand, count: u32) {
        self.writes.push(operand, count);
    }

    fn scalar(&mut self, inst: &Inst) {
        let op = inst.op;
        for (operand, kind) in inst.src.iter().zip(op.src) {
            self.read(*operand, kind.dwords());
        }
        let dst = op.dst.dwords();
        if op.flags.has(Flags::READS_DST) {
            // A row of the tables reads a pair for any destination that it changes.
            self.read(inst.dst, if op.family == Family::Sop1 { 2 } else { dst });
        }
        if op.action != Action::Compare && op.action != Action::SetRegister {
            self.write(inst.dst, dst);
        }
        self.named(op.action);
        self.reads_scc |= op.flags.has(Flags::READS_SCC);
    }

    /// The registers that a scalar operation names by what it does.
    fn named(&mut self, action: Action) {
        use Action::*;
        match action {
            SaveExec(_) => {
                self.read(Operand::EXEC, 2);
                self.write(Operand::EXEC, 2);
            }
            Branch(Condition::Vcc) => self.read(Operand::VCC, 2),
            Branch(Condition::Exec) => self.read(Operand::EXEC, 2),
            SetIndex => {
                self.read(Operand::M0, 1);
                self.write(Operand::M0, 1);
            }
            SendMessage => self.read(Operand::M0, 1),
            GetRegister => {
                self.read(Operand::EXEC, 2);
                self.read(Operand::VCC, 2);
            }
            Branch(Condition::Scc) => {}
            Other | Move | Not | Bitwise(_) | AndOr | Or3 | ShiftOr | InsertField | ExtractField | ShiftLeft
            | ShiftRight | ShiftRightSigned | PermuteBytes | AlignBits | AlignBytes | Pack | ReverseBits | Add
            | AddCarry | Subtract | MultiplyLow | Multiply24 | MultiplyHigh24 | ShiftAdd | AddShift | XorAdd
            | Select | ConditionalMove | SetBit | Compare | Equality | ByteToFloat(_) | Fma64 | DivFmas
            | Transcendental | Dot | MatrixProduct(_) | ReadLane | ReadFirstLane | WriteLane | Swap | SwapLanes(_)
            | PermuteLanes | LaneAddressed | LoadTransposed(_) | GetPc | Call | End | Nop | Wait | GridBarrier
            | TraceData | SetRegister | EndIndex | WriteBack => {}
        }
    }

    fn vector(&mut self, inst: &Inst) {
        let op = inst.op;
        for (n, operand) in inst.src.iter().enumerate() {
            self.read(*operand, inst.source_kind(n).dwords());
        }
        for source in inst.scales().iter().flat_map(|scales| scales.source) {
            self.read(source, 1);
        }
        self.read(Operand::EXEC, 2);
        let dst = op.dst.dwords();
        let masks = op.dst == Kind::Mask || op.flags.has(Flags::MASK_OUT);
        if masks {
            self.write(inst.sdst, 2);
        }
        if op.dst != Kind::Mask {
            self.write(inst.dst, dst);
            // Lanes and parts that are not written stay, and become part of what is read later.
            let part = inst.form == Form::Sdwa && !op.flags.has(Flags::PART_SRC)
                || op.flags.has(Flags::BYTE_DST)
                || op.flags.has(Flags::HALF_DST);
            let added = op.flags.has(Flags::DST_IS_SRC2) || op.flags.has(Flags::SPARSE);
            let swaps = matches!(op.action, Action::Swap | Action::SwapLanes(_));
            let partial = part || added || swaps;
            if partial || op.flags.has(Flags::KEEP_HIGH) || op.dst.is_16_bit() {
                self.read(inst.dst, dst);
            }
        }
        if matches!(op.action, Action::Swap | Action::SwapLanes(_)) {
            self.write(inst.src[0], 1);
        }
        if op.action == Action::DivFmas {
            self.read(Operand::VCC, 2);
        }
        if op.flags.has(Flags::WRITES_EXEC) {
            self.write(Operand::EXEC, 2);
        }
    }

    fn scalar_memory(&mut self, inst: &Inst) {
        let op = inst.op;
        // Buffer descriptors have four dwords.
        self.read(inst.src[0], op.src[0].dwords());
        if inst.has(control::SOFFSET) {
            self.read(inst.src[1], 1);
        }
        let dst = op.dst.dwords();
        match op.access {
            Access::Store(..) => self.read(inst.dst, dst),
            Access::Atomic(_, bytes, _) => {
                self.read(inst.dst, dst);
                if inst.has(control::GLC) {
                    self.write(inst.dst, u32::from(bytes) / 4);
                }
            }
            _ => self.write(inst.dst, dst),
        }
    }

    fn lds(&mut self, inst: &Inst) {
        let op = inst.op;
        for (operand, kind) in inst.src.iter().zip(op.src) {
            self.read(*operand, kind.dwords());
        }
        self.read(Operand::EXEC, 2);
        if op.src[0] == Kind::None || op.flags.has(Flags::GWS) {
            self.read(Operand::M0, 1);
        }
        self.write(inst.dst, op.dst.dwords());
        self.keeps_part(inst);
    }

    fn flat(&mut self, inst: &Inst) {
        let op = inst.op;
        let pair = op.family != Family::Scratch && inst.src[2] == Operand::NONE;
        self.read(inst.src[0], if pair { 2 } else { 1 });
        self.read(inst.src[1], op.src[1].dwords());
        self.read(inst.src[2], if op.family == Family::Scratch { 1 } else { 2 });
        self.read(Operand::EXEC, 2);
        if op.family != Family::Global {
            self.read(Operand::FLAT_SCRATCH, 2);
        }
        if inst.has(control::LDS) {
            self.read(Operand::M0, 1);
        }
        self.write(inst.dst, written(inst));
        self.keeps_part(inst);
    }

    fn buffer(&mut self, inst: &Inst) {
        let op = inst.op;
        if op.access == Access::None {
            return;
        }
        let address = u32::from(inst.has(control::OFFEN)) + u32::from(inst.has(control::IDXEN));
        self.read(inst.src[0], address);
        self.read(inst.src[1], 4);
        self.read(inst.src[2], 1);
        self.read(Operand::EXEC, 2);
        if inst.has(control::LDS) {
            self.read(Operand::M0, 1);
            return;
        }
        match op.access {
            Access::Store(..) | Access::StoreFormat(..) => self.read(inst.dst, op.dst.dwords()),
            Access::Atomic(..) => {
                self.read(inst.dst, op.dst.dwords());
                if inst.has(control::GLC) {
                    self.write(inst.dst, written(inst));
                }
            }
            _ => {
                self.write(inst.dst, op.dst.dwords());
                self.keeps_part(inst);
            }
        }
    }

    /// A load into half of a register reads the other half.
    fn keeps_part(&mut self, inst: &Inst) {
        use crate::op::Fill::{D16, D16High, D16HighSign, D16Sign};
        match inst.op.access {
            Access::Load(_, D16 | D16Sign | D16High | D16HighSign) => self.read(inst.dst, 1),
            Access::LoadFormat(components, packing) if packing.is_partial(components) => {
                self.read(inst.dst, packing.dwords(components).into());
            }
            _ => {}
        }
    }
}

/// Registers that a load or a returning atomic writes.
fn written(inst: &Inst) -> u32 {
    match inst.op.access {
        Access::Atomic(_, bytes, _) => u32::from(bytes) / 4,
        _ => inst.op.dst.dwords(),
    }
}
