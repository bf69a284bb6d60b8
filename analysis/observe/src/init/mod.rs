//! Registers, LDS and scratch that are used before anything was written to them.
//!
//! Compilers keep scalar registers in lanes of vector registers (`v_writelane_b32`): their bits are followed there, too.
//!
//! A copy of what is not defined is not defined either; it is reported where it decides an address, a branch or active lanes, or is
//! stored to memory. Definedness is known for each bit of registers, LDS and scratch, where bits are moved, masked and shifted
//! ([`bits`]). All memory that the dispatch was given is defined.
//!
//! Structures have padding, which is copied with them. So of a store, bytes that were only moved are reported if all bytes of the lane's
//! access are undefined; what was computed of something undefined is reported always.
//!
//! Arithmetic on parts of registers (halves that `op_sel` chooses, factors of 24 bits, small floats) needs these parts alone, and writes
//! the part of the register that it writes. Where else a result depends on a part of the sources only, more is taken for defined, so that
//! what is reported is an error: factors of matrix instructions, lanes that are exchanged in patterns.

mod bits;
mod bytes;
mod memory;
mod scalar;
mod vector;

use std::collections::BTreeMap;

use amdgpu_emu::isa::op::Family;
use amdgpu_emu::isa::operand::{Kind, Operand};
use amdgpu_emu::isa::wave::{VGPRS, Wave};
use amdgpu_emu::observer::Group;

use bytes::Bytes;

use crate::Check;
use crate::check::{Checker, Dispatch, Look};
use crate::finding::{Finding, Key, Position};
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
    /// Lanes of each vector register that were computed of something undefined, not only moved. It matters where they are not defined.
    computed: Vec<u64>,
    /// Bits of each scalar register.
    sgprs: [u32; SCALARS],
    scc: bool,
}

impl Defined {
    fn new(sgprs: u32, vgprs: u32, flat_scratch: bool) -> Defined {
        let mut defined = Defined {
            vgprs: vec![0; VGPRS],
            kept: BTreeMap::new(),
            computed: vec![0; VGPRS],
            sgprs: [0; SCALARS],
            scc: false,
        };
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
            if lanes & mask != mask {
                self.computed[number] &= !mask;
            }
            if !self.kept.is_empty() {
                let of_register = self.kept.range((number, 0)..(number + 1, 0)).map(|(key, _)| *key);
                let gone: Vec<_> = of_register.filter(|(_, lane)| mask >> lane & 1 == 1).collect();
                gone.iter().for_each(|key| {
                    self.kept.remove(key);
                });
            }
        }
    }

    /// A lane of a vector register has these defined bits. `computed` says that they are not only moved.
    fn set_lane(&mut self, wave: &Wave, operand: Operand, n: u32, lane: u32, bits: u32, computed: bool) {
        self.set_lanes(wave, operand, n, 1 << lane, if bits == u32::MAX { u64::MAX } else { 0 });
        if operand.is_vector() {
            let number = wave.vgpr_index(operand, n);
            self.computed[number] |= u64::from(computed) << lane;
            if !matches!(bits, 0 | u32::MAX) {
                self.kept.insert((number, lane), bits);
            }
        }
    }

    /// Lanes of word `n` of a vector register were computed of something undefined.
    fn compute(&mut self, wave: &Wave, operand: Operand, n: u32, lanes: u64) {
        if operand.is_vector() {
            self.computed[wave.vgpr_index(operand, n)] |= lanes;
        }
    }

    /// True for a lane of word `n` of a vector register that was computed of something undefined.
    fn is_computed(&self, wave: &Wave, operand: Operand, n: u32, lane: usize) -> bool {
        operand.is_vector() && self.computed[wave.vgpr_index(operand, n)] >> lane & 1 == 1
    }

    /// The defined bits of a lane of a vector register.
    fn lane(&self, wave: &Wave, operand: Operand, lane: u32) -> u32 {
        self.word(wave, operand, 0, lane)
    }

    /// The same of word `n`.
    fn word(&self, wave: &Wave, operand: Operand, n: u32, lane: u32) -> u32 {
        if self.lanes(wave, operand, n, Kind::B32) >> lane & 1 == 1 {
            return u32::MAX;
        }
        let kept = operand.is_vector().then(|| self.kept.get(&(wave.vgpr_index(operand, n), lane)));
        kept.flatten().copied().unwrap_or_default()
    }
}

/// What of a workgroup is defined.
pub(crate) struct Shadow {
    waves: Vec<Defined>,
    lds: Bytes,
    scratch: Bytes,
}

impl Look<'_> {
    /// Something undefined decides what happens. `what` says what it is.
    #[cold]
    pub(super) fn report(&mut self, what: &'static str, lane: Option<u8>, detail: String) {
        let place = Position { lane, ..*self.place };
        let key = Key { check: Check::Init, pc: self.step.pc, what, other: None };
        self.findings.add(key, place, || Finding { place, other: None, address: None, detail, count: 1 });
    }
}

/// The check.
#[derive(Clone, Debug)]
pub(crate) struct Init;

impl Checker for Init {
    type Group = Shadow;

    fn new(_: &Dispatch<'_>) -> Init {
        Init
    }

    fn begin(&mut self, group: &Group<'_>) -> Shadow {
        let (sgprs, vgprs) = group.initial_registers();
        let flat_scratch = group.waves.first().is_some_and(|wave| wave.arch.architected_flat_scratch());
        let waves: Vec<Defined> = group.waves.iter().map(|_| Defined::new(sgprs, vgprs, flat_scratch)).collect();
        let scratch = group.scratch_of_wave() as usize * waves.len();
        Shadow { waves, lds: Bytes::new(group.lds), scratch: Bytes::new(scratch) }
    }

    fn before(&mut self, shadow: &mut Shadow, look: &mut Look<'_>) {
        let Shadow { waves, lds, scratch } = shadow;
        let Some(defined) = waves.get_mut(look.step.number) else { return };
        match look.inst.op.family {
            Family::Sop1 | Family::Sop2 | Family::Sopc | Family::Sopk | Family::Sopp => scalar::execute(look, defined),
            Family::Vop1 | Family::Vop2 | Family::Vopc | Family::Vop3 | Family::Vop3p | Family::Vop3px2 => {
                vector::execute(look, defined);
            }
            _ => memory::execute(look, defined, lds, scratch),
        }
    }
}
