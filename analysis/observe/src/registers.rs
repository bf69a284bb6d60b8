//! Sets of registers, and those that an instruction reads and writes.

use amdgpu_emu::isa::action::Action;
use amdgpu_emu::isa::inst::Inst;
use amdgpu_emu::isa::op::{Access, Family, Fill};
use amdgpu_emu::isa::operand::Operand;
use amdgpu_emu::isa::uses::{Registers, Set, Uses};
use amdgpu_emu::isa::wave::{VGPRS, Wave};

/// Words of a mask: vector registers, then scalar ones.
const WORDS: usize = (VGPRS + SCALARS) / 64;
/// Scalar registers and named ones, by operand code.
pub(crate) const SCALARS: usize = 128;

/// A set of registers. Numbers of vector registers are those of the register file, as accumulation registers are in it; those
/// of scalar registers follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mask([u64; WORDS]);

impl Mask {
    /// The registers of a set.
    pub(crate) fn of(wave: &Wave, set: &Set) -> Mask {
        let mut mask = Mask::default();
        for range in set.ranges() {
            numbers(wave, range).for_each(|n| mask.insert(n));
        }
        mask
    }

    pub(crate) fn insert(&mut self, n: usize) {
        self.0[n / 64] |= 1 << (n % 64);
    }

    #[inline]
    pub(crate) fn meets(&self, other: &Mask) -> bool {
        self.0.iter().zip(&other.0).fold(0, |met, (a, b)| met | a & b) != 0
    }

    pub(crate) fn and(&self, other: &Mask) -> Mask {
        Mask(std::array::from_fn(|n| self.0[n] & other.0[n]))
    }

    pub(crate) fn or(&self, other: &Mask) -> Mask {
        Mask(std::array::from_fn(|n| self.0[n] | other.0[n]))
    }

    pub(crate) fn without(&self, other: &Mask) -> Mask {
        Mask(std::array::from_fn(|n| self.0[n] & !other.0[n]))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// The name of the first register.
    pub(crate) fn name(&self, wave: &Wave) -> String {
        let first = (0..WORDS * 64).find(|n| self.0[n / 64] >> (n % 64) & 1 == 1);
        first.map_or_else(String::new, |n| name(wave, n))
    }
}

/// The numbers of registers in a row.
pub(crate) fn numbers(wave: &Wave, range: &Registers) -> impl Iterator<Item = usize> {
    let first = range.first;
    let of = move |n: u32| match first.is_vector() {
        true => wave.vgpr_index(first, n),
        false => VGPRS + (usize::from(first.0) + n as usize) % SCALARS,
    };
    (0..range.count).map(of)
}

/// The name of a register by its number.
pub(crate) fn name(wave: &Wave, n: usize) -> String {
    let accum = wave.accum_offset as usize;
    match n.checked_sub(VGPRS) {
        None if n >= accum && accum < VGPRS => format!("a{}", n - accum),
        None => format!("v{n}"),
        Some(code) => match Operand(code as u16) {
            Operand::VCC => "vcc_lo".to_owned(),
            Operand(107) => "vcc_hi".to_owned(),
            Operand::M0 => "m0".to_owned(),
            Operand::EXEC => "exec_lo".to_owned(),
            Operand(127) => "exec_hi".to_owned(),
            Operand(code @ 102..) => format!("scalar register {code}"),
            Operand(code) => format!("s{code}"),
        },
    }
}

/// Where an instruction's results come back, which decides what `s_waitcnt` says of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// At once: arithmetic.
    Now,
    /// In order with others of `vmcnt`.
    Memory,
    /// In order with others of `lgkmcnt` that are LDS's.
    Lds,
    /// In `lgkmcnt`, in any order: scalar memory and messages.
    Scalar,
    /// In both counters, in any order.
    Flat,
}

/// What of an instruction does not depend on the wave's registers.
#[derive(Clone, Debug)]
pub(crate) struct Touch {
    pub(crate) reads: Mask,
    pub(crate) writes: Mask,
    pub(crate) class: Class,
}

impl Touch {
    /// Of an instruction of a wave: of all waves of its kernel.
    pub(crate) fn of(wave: &Wave, inst: &Inst) -> Touch {
        let uses = Uses::of(inst);
        let (mut reads, writes) = (Mask::of(wave, &uses.reads), Mask::of(wave, &uses.writes));
        // The half that a load keeps is no source: loads of two halves come back in order.
        let is_partial = match inst.op.access {
            Access::Load(_, fill) => matches!(fill, Fill::D16 | Fill::D16Sign | Fill::D16High | Fill::D16HighSign),
            Access::LoadFormat(components, packing) => packing.is_partial(components),
            _ => false,
        };
        if is_partial {
            let addresses: Vec<Registers> =
                uses.reads.ranges().iter().filter(|range| range.first != inst.dst).copied().collect();
            reads = Mask::default();
            addresses.iter().flat_map(|range| numbers(wave, range).collect::<Vec<_>>()).for_each(|n| reads.insert(n));
        }
        Touch { reads, writes, class: class(inst) }
    }

    /// True for an instruction that touches any of the registers.
    #[inline]
    pub(crate) fn touches(&self, registers: &Mask) -> bool {
        self.reads.meets(registers) || self.writes.meets(registers)
    }
}

/// Source: the Vega ISA manual, "Manually Inserted Wait States" and the table of counters; LLVM's `SIInsertWaitcnts`, for the cache
/// instructions: invalidations are not counted.
fn class(inst: &Inst) -> Class {
    match inst.op.family {
        Family::Global | Family::Scratch => Class::Memory,
        Family::Mubuf if inst.op.access == Access::None && inst.op.action != Action::WriteBack => Class::Now,
        Family::Mubuf => Class::Memory,
        Family::Flat => Class::Flat,
        Family::Ds => Class::Lds,
        Family::Smem => Class::Scalar,
        Family::Sopp if inst.op.action == Action::SendMessage => Class::Scalar,
        _ => Class::Now,
    }
}
