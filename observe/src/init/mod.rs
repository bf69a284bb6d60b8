//! Registers, LDS and scratch that are used before anything was written to them.
//!
//! Compilers keep scalar registers in lanes of vector registers (`v_writelane_b32`): their bits are followed there, too.
//!
//! A copy of what is not defined is not defined either; it is reported where it decides an address, a branch or active lanes, or is
//! stored to memory. Definedness is a bit for each lane of a vector register, for each bit of a scalar register, and for
//! each byte of LDS and scratch. All memory that the dispatch was given is defined.
//!
//! Where an operation's result depends on a part of its sources only, more is taken for defined, so that what is reported is an error:
//! halves of registers, factors of matrix instructions, lanes that are exchanged in patterns.

mod memory;
mod scalar;
mod vector;

use std::collections::BTreeMap;

use amdgpu_emu::isa::access::Parts;
use amdgpu_emu::isa::inst::Inst;
use amdgpu_emu::isa::op::Family;
use amdgpu_emu::isa::operand::{Kind, Operand};
use amdgpu_emu::isa::wave::{VGPRS, Wave};
use amdgpu_emu::observer::{Group, Step};

use crate::Check;
use crate::finding::{Finding, Findings, Key, Place};
use crate::registers::SCALARS;

/// The first operand code of registers that the hardware defines, behind VCC: of the trap handler.
const TRAP: usize = 108;

/// What of a wave is defined.
pub(super) struct Defined {
    /// Lanes of each vector register.
    vgprs: Vec<u64>,
    /// The defined bits of lanes that were written with a scalar register of which some are: by vector register and lane. These are not
    /// defined as a whole.
    kept: BTreeMap<(usize, u32), u32>,
    /// Bits of each scalar register.
    sgprs: [u32; SCALARS],
    scc: bool,
}

impl Defined {
    fn new(sgprs: u32, vgprs: u32, flat_scratch: bool) -> Defined {
        let mut defined = Defined { vgprs: vec![0; VGPRS], kept: BTreeMap::new(), sgprs: [0; SCALARS], scc: false };
        defined.vgprs.iter_mut().take(vgprs as usize).for_each(|lanes| *lanes = u64::MAX);
        defined.sgprs.iter_mut().take(sgprs as usize).for_each(|bits| *bits = u32::MAX);
        let m0 = usize::from(Operand::M0.0);
        for code in (TRAP..SCALARS).filter(|code| *code != m0) {
            defined.sgprs[code] = u32::MAX;
        }
        if flat_scratch {
            let first = usize::from(Operand::FLAT_SCRATCH.0);
            (defined.sgprs[first], defined.sgprs[first + 1]) = (u32::MAX, u32::MAX);
        }
        defined
    }

    /// Defined bits of a scalar source.
    fn scalar(&self, operand: Operand, kind: Kind) -> u64 {
        match operand {
            Operand::VCCZ if self.pair(Operand::VCC) != u64::MAX => 0,
            Operand::SCC if !self.scc => 0,
            other if !other.is_scalar_register() => u64::MAX,
            other if kind.dwords() >= 2 => self.pair(other),
            other => u64::from(self.sgprs[usize::from(other.0)]) | 0xffff_ffff << 32,
        }
    }

    fn pair(&self, first: Operand) -> u64 {
        let n = usize::from(first.0);
        u64::from(self.sgprs[n % SCALARS]) | u64::from(self.sgprs[(n + 1) % SCALARS]) << 32
    }

    fn set_scalar(&mut self, first: Operand, dwords: u32, bits: u64) {
        if !first.is_scalar_register() {
            return;
        }
        let n = usize::from(first.0);
        for word in 0..dwords as usize {
            let bits = if word < 2 { (bits >> (32 * word)) as u32 } else { u32::from(bits == u64::MAX).wrapping_neg() };
            let code = (n + word) % SCALARS;
            // EXEC is what it is: what is wrong with it was reported.
            if code != usize::from(Operand::EXEC.0) && code != usize::from(Operand::EXEC.0) + 1 {
                self.sgprs[code] = bits;
            }
        }
    }

    /// Lanes of word `n` of a vector source that are defined; of a scalar source all or none.
    fn lanes(&self, wave: &Wave, operand: Operand, n: u32, kind: Kind) -> u64 {
        if operand.is_vector() {
            return self.vgprs[wave.vgpr_index(operand, n)];
        }
        if kind == Kind::Mask {
            return self.scalar(operand, kind);
        }
        let bits = self.scalar(operand, kind);
        let whole = if kind.dwords() >= 2 { bits >> (32 * n.min(1)) } else { bits };
        if whole & 0xffff_ffff == 0xffff_ffff { u64::MAX } else { 0 }
    }

    /// Some lanes of a vector register get other definedness.
    fn set_lanes(&mut self, wave: &Wave, operand: Operand, n: u32, mask: u64, lanes: u64) {
        if operand.is_vector() {
            let number = wave.vgpr_index(operand, n);
            let register = &mut self.vgprs[number];
            *register = *register & !mask | lanes & mask;
            if !self.kept.is_empty() {
                self.kept.retain(|(register, lane), _| *register != number || mask >> lane & 1 == 0);
            }
        }
    }

    /// A lane of a vector register gets the bits of a scalar one.
    fn set_lane(&mut self, wave: &Wave, operand: Operand, lane: u32, bits: u32) {
        self.set_lanes(wave, operand, 0, 1 << lane, if bits == u32::MAX { u64::MAX } else { 0 });
        if operand.is_vector() && !matches!(bits, 0 | u32::MAX) {
            self.kept.insert((wave.vgpr_index(operand, 0), lane), bits);
        }
    }

    /// Lanes of a vector register are those of another one, which [`Defined::set_lanes`] was told.
    fn copy_bits(&mut self, wave: &Wave, from: Operand, to: Operand, mask: u64) {
        if self.kept.is_empty() || !from.is_vector() || !to.is_vector() {
            return;
        }
        let (from, to) = (wave.vgpr_index(from, 0), wave.vgpr_index(to, 0));
        let copied = |((number, lane), bits): (&(usize, u32), &u32)| {
            (*number == from && mask >> lane & 1 == 1).then_some(((to, *lane), *bits))
        };
        let copied: Vec<_> = self.kept.iter().filter_map(copied).collect();
        self.kept.extend(copied);
    }

    /// The defined bits of a lane of a vector register.
    fn lane(&self, wave: &Wave, operand: Operand, lane: u32) -> u32 {
        if self.lanes(wave, operand, 0, Kind::B32) >> lane & 1 == 1 {
            return u32::MAX;
        }
        let kept = operand.is_vector().then(|| self.kept.get(&(wave.vgpr_index(operand, 0), lane)));
        kept.flatten().copied().unwrap_or_default()
    }
}

/// What of a workgroup is defined.
pub(crate) struct Init {
    waves: Vec<Defined>,
    /// Bytes of LDS, a bit for each.
    lds: Vec<u64>,
    /// Bytes of scratch.
    scratch: Vec<u64>,
}

/// One instruction being looked at.
pub(super) struct Look<'a> {
    pub(super) step: &'a Step<'a>,
    pub(super) inst: &'a Inst,
    pub(super) place: &'a Place,
    pub(super) findings: &'a mut Findings,
}

impl Look<'_> {
    /// Something undefined decides what happens. `what` says what it is.
    #[cold]
    pub(super) fn report(&mut self, what: &'static str, lane: Option<u8>, detail: String) {
        let place = Place { lane, ..*self.place };
        let key = Key { check: Check::Init, pc: self.step.pc, what, other: None };
        self.findings.add(key, place, || Finding { place, other: None, address: None, detail, count: 1 });
    }
}

impl Init {
    /// Of a workgroup that begins.
    pub(crate) fn new(group: &Group<'_>) -> Init {
        let (sgprs, vgprs) = group.initial_registers();
        let flat_scratch = group.waves.first().is_some_and(|wave| wave.arch.architected_flat_scratch());
        let waves: Vec<Defined> = group.waves.iter().map(|_| Defined::new(sgprs, vgprs, flat_scratch)).collect();
        let scratch = group.scratch_of_wave() as usize * waves.len();
        Init { waves, lds: vec![0; group.lds.div_ceil(64)], scratch: vec![0; scratch.div_ceil(64)] }
    }

    /// A wave is about to execute an instruction. `inst` is with index mode applied.
    pub(crate) fn before(
        &mut self,
        step: &Step<'_>,
        inst: &Inst,
        parts: Option<&Parts>,
        place: &Place,
        findings: &mut Findings,
    ) {
        let Init { waves, lds, scratch } = self;
        let Some(defined) = waves.get_mut(step.number) else { return };
        let mut look = Look { step, inst, place, findings };
        match inst.op.family {
            Family::Sop1 | Family::Sop2 | Family::Sopc | Family::Sopk | Family::Sopp => {
                scalar::execute(&mut look, defined)
            }
            Family::Vop1 | Family::Vop2 | Family::Vopc | Family::Vop3 | Family::Vop3p => {
                vector::execute(&mut look, defined)
            }
            _ => memory::execute(&mut look, defined, parts, lds, scratch),
        }
    }
}
