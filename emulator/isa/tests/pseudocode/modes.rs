//! Modes in which instructions were compared: of their encodings, and of the state that they run in.

use std::collections::BTreeMap;

use amdgpu_isa::inst::{Form, Inst, control};
use amdgpu_isa::mode::{Mode, Rounding};
use amdgpu_isa::op::Family;
use amdgpu_isa::wave::Wave;

/// A mode, and whether an instruction on a state is in it.
type Row = (&'static str, fn(&Inst, &Wave) -> bool);

fn has(inst: &Inst, bit: u32) -> bool {
    inst.control & bit != 0
}

const MODES: &[Row] = &[
    ("form of 32 bits", |i, _| i.form == Form::E32),
    ("form of 64 bits", |i, _| i.form == Form::E64),
    ("SDWA", |i, _| i.form == Form::Sdwa),
    ("SDWA: a part of a source", |i, _| i.sdwa().is_some_and(|sdwa| sdwa.src_sel.iter().any(|part| *part < 6))),
    ("SDWA: with its sign", |i, _| i.sdwa().is_some_and(|sdwa| sdwa.sext.contains(&true))),
    ("SDWA: a part of the result", |i, _| i.sdwa().is_some_and(|sdwa| sdwa.dst_sel < 6)),
    ("DPP", |i, _| i.form == Form::Dpp),
    ("DPP: some rows or banks", |i, _| i.dpp().is_some_and(|dpp| dpp.bank_mask & dpp.row_mask != 15)),
    ("a negated source", |i, _| !is_access(i) && i.mods.neg != 0),
    ("an absolute value", |i, _| i.op.family != Family::Vop3p && i.mods.abs != 0),
    ("op_sel", |i, _| !is_access(i) && i.mods.op_sel != 0),
    ("clamp", |i, _| i.mods.clamp),
    ("an output multiplier", |i, _| i.mods.omod != 0),
    ("a constant or scalar source", |i, _| !is_access(i) && i.src.iter().any(|s| s.is_some() && !s.is_vector())),
    ("GLC", |i, _| is_access(i) && has(i, control::GLC)),
    ("an offset", |i, _| is_access(i) && i.imm != 0),
    ("buffers: an offset in a register", |i, _| i.op.family == Family::Mubuf && has(i, control::OFFEN)),
    ("buffers: an index", |i, _| i.op.family == Family::Mubuf && has(i, control::IDXEN)),
    ("all lanes", |i, w| !is_scalar(i) && w.exec() == u64::MAX),
    ("some lanes", |i, w| !is_scalar(i) && !matches!(w.exec(), 0 | u64::MAX)),
    ("no lane", |i, w| !is_scalar(i) && w.exec() == 0),
    ("MODE: singles not rounded to nearest", |_, w| w.mode.round32() != Rounding::Nearest),
    ("MODE: halves and doubles not rounded to nearest", |_, w| w.mode.round16_64() != Rounding::Nearest),
    ("MODE: denormal singles are zero", |_, w| w.mode.flush_in32() || w.mode.flush_out32()),
    ("MODE: denormal halves and doubles are zero", |_, w| w.mode.flush_in16_64() || w.mode.flush_out16_64()),
    ("MODE: halves saturate", |_, w| w.mode.0 & Mode::FP16_OVFL != 0),
    ("MODE: clamped NaN is kept", |i, w| i.mods.clamp && !w.mode.dx10_clamp()),
];

fn is_access(inst: &Inst) -> bool {
    match inst.op.family {
        Family::Ds | Family::Flat | Family::Global | Family::Scratch | Family::Mubuf | Family::Smem => true,
        Family::Sop2 | Family::Sopk | Family::Sop1 | Family::Sopc | Family::Sopp => false,
        Family::Vop2 | Family::Vop1 | Family::Vopc | Family::Vop3 | Family::Vop3p | Family::Vop3px2 => false,
    }
}

fn is_scalar(inst: &Inst) -> bool {
    matches!(inst.op.family, Family::Sop2 | Family::Sopk | Family::Sop1 | Family::Sopc | Family::Sopp | Family::Smem)
}

/// How many instructions were compared in each mode.
#[derive(Debug, Default)]
pub(crate) struct Modes(BTreeMap<usize, u64>);

impl Modes {
    /// Counts an instruction that was compared on a state.
    pub(crate) fn count(&mut self, inst: &Inst, before: &Wave) {
        for (n, _) in MODES.iter().enumerate().filter(|(_, (_, is_in))| is_in(inst, before)) {
            *self.0.entry(n).or_default() += 1;
        }
    }

    /// Adds what was compared elsewhere.
    pub(crate) fn add(&mut self, other: &Modes) {
        other.0.iter().for_each(|(n, count)| *self.0.entry(*n).or_default() += count);
    }

    /// A line for each mode in which some were.
    pub(crate) fn print(&self) {
        for (n, count) in &self.0 {
            println!("{count:>9} {}", MODES[*n].0);
        }
    }
}
