//! What an instruction is about to store, and what an atomic did.

use amdgpu_emu::isa::access::LaneAccess;
use amdgpu_emu::isa::atomic::AtomicOp;
use amdgpu_emu::isa::inst::Inst;
use amdgpu_emu::isa::op::{Access, Family, Fill};
use amdgpu_emu::isa::operand::Operand;
use amdgpu_emu::isa::wave::Vgpr;
use amdgpu_emu::observer::Step;

/// What an instruction is about to store.
pub(super) struct Stored<'w> {
    words: [Option<&'w Vgpr>; 4],
    high: bool,
}

impl<'w> Stored<'w> {
    /// The registers that part `n` of a vector store stores; `None` for what is not in vector registers.
    pub(super) fn of(step: &Step<'w>, n: usize, part: &LaneAccess) -> Option<Stored<'w>> {
        let inst = step.inst;
        let (data, bytes, fill) = match (inst.op.access, inst.op.family) {
            (Access::Store(bytes, fill), Family::Mubuf) => (inst.dst, bytes, fill),
            (Access::Store(bytes, fill), Family::Global | Family::Flat | Family::Ds) => (inst.src[1], bytes, fill),
            (Access::Store2(bytes, _), Family::Ds) => (inst.src[1 + n.min(1)], bytes, Fill::Zero),
            _ => return None,
        };
        // Across the end of a buffer, each dword is a part.
        let first = if part.bytes < bytes { n as u32 } else { 0 };
        let count = u32::from(part.bytes.div_ceil(4));
        let words = std::array::from_fn(|n| ((n as u32) < count).then(|| step.wave.vector(data, first + n as u32)));
        Some(Stored { words, high: fill == Fill::D16High })
    }

    /// The words of a lane, from a piece of its access on.
    pub(super) fn of_piece(&self, lane: usize, piece: usize) -> [u32; 4] {
        let word = |n: usize| {
            let word = self.words.get(piece + n).copied().flatten().map_or(0, |word| word[lane]);
            if self.high { word >> 16 } else { word }
        };
        std::array::from_fn(word)
    }
}

/// True for an atomic of which [`Operands`] tells what it did.
pub(super) fn is_plain_atomic(inst: &Inst) -> bool {
    matches!(inst.op.access, Access::Atomic(_, 4 | 8, _))
        && matches!(inst.op.family, Family::Global | Family::Flat | Family::Mubuf | Family::Ds)
}

/// The operands of an atomic that returns what was there.
pub(super) struct Operands {
    op: AtomicOp,
    bytes: u8,
    first: Vec<Vgpr>,
    second: Vec<Vgpr>,
    result: Operand,
}

impl Operands {
    /// Of an instruction that is about to be executed.
    pub(super) fn of(step: &Step<'_>) -> Option<Operands> {
        let inst = step.inst;
        let Access::Atomic(op, bytes, _) = inst.op.access else { return None };
        if !is_plain_atomic(inst) {
            return None;
        }
        let words = u32::from(bytes / 4);
        let of = |operand: Operand, from: u32| -> Vec<Vgpr> {
            (from..from + words).map(|n| *step.wave.vector(operand, n)).collect()
        };
        let compares = matches!(op, AtomicOp::CmpSwap | AtomicOp::FCmpSwap);
        let (first, second) = match inst.op.family {
            // LDS has what is compared before what is stored.
            Family::Ds if inst.src[2].is_vector() && compares => (of(inst.src[2], 0), of(inst.src[1], 0)),
            Family::Ds if inst.src[2].is_vector() => (of(inst.src[1], 0), of(inst.src[2], 0)),
            Family::Ds => (of(inst.src[1], 0), Vec::new()),
            family => {
                let data = if family == Family::Mubuf { inst.dst } else { inst.src[1] };
                (of(data, 0), if op == AtomicOp::CmpSwap { of(data, words) } else { Vec::new() })
            }
        };
        Some(Operands { op, bytes, first, second, result: inst.dst })
    }

    /// The lanes of a part that did change what was there, or did not. The instruction has been executed.
    pub(super) fn lanes_that(&self, step: &Step<'_>, part: &LaneAccess, change: bool) -> u64 {
        let value = |words: &[Vgpr], lane: usize| {
            let word = |n: usize| u64::from(words.get(n).map_or(0, |word| word[lane]));
            word(0) | word(1) << 32
        };
        let changes = |lane: usize| {
            let word = |n: u32| u64::from(step.wave.vector(self.result, n)[lane]);
            let (a, b) = (value(&self.first, lane), value(&self.second, lane));
            match self.bytes {
                4 => {
                    let old = word(0) as u32;
                    self.op.apply32(old, a as u32, b as u32) != old
                }
                _ => {
                    let old = word(0) | word(1) << 32;
                    self.op.apply64(old, a, b) != old
                }
            }
        };
        part.active().filter(|lane| changes(*lane) == change).fold(0, |all, lane| all | 1 << lane)
    }
}
