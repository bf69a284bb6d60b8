//! Counters of hardware that the emulated GPU has exactly, under the names of rocprofiler-sdk.
//!
//! A counter is a row of the table here. Sources of the meanings: `counter_defs.yaml` of rocprofiler-sdk, and AMD's "MI300 and MI200
//! Series performance counters and metrics". Where these texts do not say what belongs to a counter, a dispatch that has it gets no
//! number but the reason. No GPU was asked.

use std::collections::BTreeSet;

use amdgpu_emu::isa::arch::Feature;
use logdur_analysis::issue::{Direction, Issue, Path, Type};
use logdur_analysis::processor::row_of;

use crate::report::{Instruction, Report};

/// How far a number is to be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Each instruction, wave or workgroup was counted.
    Exact,
    /// A model of the hardware.
    Model,
}

impl Kind {
    /// The word of reports.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Exact => "exact",
            Kind::Model => "model",
        }
    }
}

/// A number, or why the dispatch has none.
type Counted = Result<f64, &'static str>;

/// A counter that the emulated GPU has.
#[derive(Debug)]
pub struct Counter {
    /// Its name in rocprofiler-sdk.
    pub name: &'static str,
    /// What it tells.
    pub meaning: &'static str,
    /// How it is counted here.
    pub how: &'static str,
    /// How far it is to be trusted.
    pub kind: Kind,
    count: fn(&Report) -> Counted,
}

/// What is known of a name.
#[derive(Clone, Copy, Debug)]
pub enum Known {
    /// It is counted.
    Counted(&'static Counter),
    /// rocprofiler-sdk has it for processors of the family, and the emulated GPU has not.
    NotEmulated,
}

/// Names that rocprofiler-sdk has for processors of the family.
const NAMES: &str = include_str!("known.txt");

/// Jumps that are of one unit or another.
const JUMPS: &str =
    "the kernel jumps to addresses in registers, and AMD's text does not say which counter has these jumps";
/// Instructions on memory that are no reads and no writes.
const NEITHER: &str =
    "the kernel executes atomics or writes caches back, and AMD's text does not say whether these are reads or writes";
/// Matrix instructions whose operations can be counted in two ways.
const SPARSE: &str =
    "the kernel multiplies sparse matrices, and AMD's text does not say how their operations are counted";
/// Instructions without a place in the code.
const ELSEWHERE: &str = "the kernel executes code of no captured code object";
/// No wave to divide by.
const NO_WAVE: &str = "no wave was started";

/// The executions of the instructions that `is` says.
fn instructions(report: &Report, is: impl Fn(Issue) -> bool) -> Counted {
    if report.elsewhere > 0 {
        return Err(ELSEWHERE);
    }
    let executions = |inst: &Instruction| if is(inst.issue) { inst.count.executions } else { 0 };
    Ok(report.instructions.iter().map(executions).sum::<u64>() as f64)
}

/// The same, unless instructions were executed that make the number doubtful.
fn unless(report: &Report, doubtful: fn(Issue) -> bool, why: &'static str, is: fn(Issue) -> bool) -> Counted {
    match instructions(report, doubtful)? {
        0.0 => instructions(report, is),
        _ => Err(why),
    }
}

/// Waves with so many work-items.
fn waves(report: &Report, is: impl Fn(u32) -> bool) -> Counted {
    Ok(report.waves.iter().filter(|(items, _)| is(**items)).map(|(_, waves)| waves).sum::<u64>() as f64)
}

fn vector(issue: Issue) -> bool {
    matches!(issue, Issue::Vector | Issue::Matrix { .. })
}

fn indirect(issue: Issue) -> bool {
    issue == Issue::IndirectBranch
}

fn is_matrix(issue: Issue, wanted: Type) -> bool {
    matches!(issue, Issue::Matrix { of, .. } if of == wanted)
}

fn neither(issue: Issue) -> bool {
    matches!(issue, Issue::Memory(_, Direction::Atomic | Direction::Nothing))
}

fn memory(issue: Issue) -> bool {
    matches!(issue, Issue::Memory(..))
}

/// Matrix operations of a type, in units of 512.
fn operations(report: &Report, wanted: Type) -> Counted {
    let sparse = |issue| is_matrix(issue, wanted) && matches!(issue, Issue::Matrix { sparse: true, .. });
    if instructions(report, sparse)? > 0.0 {
        return Err(SPARSE);
    }
    let of = |inst: &Instruction| match inst.issue {
        Issue::Matrix { of, operations, .. } if of == wanted => inst.count.executions * u64::from(operations) / 512,
        _ => 0,
    };
    Ok(report.instructions.iter().map(of).sum::<u64>() as f64)
}

/// A count for each wave.
fn each_wave(report: &Report, count: Counted) -> Counted {
    let waves = waves(report, |_| true)?;
    if waves > 0.0 { Ok(count? / waves) } else { Err(NO_WAVE) }
}

/// Instructions of LDS. From MI300 on, flat ones are not among them.
fn lds(report: &Report) -> Counted {
    let flat = !row_of(&report.processor).features.has(Feature::Gfx940Insts);
    instructions(report, |issue| issue == Issue::Lds || flat && matches!(issue, Issue::Memory(Path::Flat, _)))
}

macro_rules! counters {
    ($($name:literal $kind:ident $meaning:literal $how:literal $count:expr;)*) => {
        /// The counters that the emulated GPU has, in the order of pages.
        pub static COUNTERS: &[Counter] = &[$(Counter {
            name: $name, meaning: $meaning, how: $how, kind: Kind::$kind, count: $count,
        }),*];
    };
}

counters! {
    "SQ_WAVES" Exact "waves" "waves that begin" |r| waves(r, |_| true);
    "SQ_WAVES_sum" Exact "waves" "as `SQ_WAVES`" |r| waves(r, |_| true);
    "Wavefronts" Exact "waves" "as `SQ_WAVES`" |r| waves(r, |_| true);
    "SPI_CSN_WAVE" Exact "waves" "as `SQ_WAVES`" |r| waves(r, |_| true);
    "SQ_WAVES_EQ_64" Exact "full waves" "waves that begin with 64 work-items" |r| waves(r, |items| items == 64);
    "SQ_WAVES_LT_64" Exact "partial waves" "waves that begin with fewer" |r| waves(r, |items| items < 64);
    "SQ_WAVES_LT_48" Exact "partial waves" "waves that begin with fewer than 48" |r| waves(r, |items| items < 48);
    "SQ_WAVES_LT_32" Exact "partial waves" "waves that begin with fewer than 32" |r| waves(r, |items| items < 32);
    "SQ_WAVES_LT_16" Exact "partial waves" "waves that begin with fewer than 16" |r| waves(r, |items| items < 16);
    "SQ_ITEMS" Exact "work-items" "work-items of all waves that begin"
        |r| Ok(r.waves.iter().map(|(items, waves)| u64::from(*items) * waves).sum::<u64>() as f64);
    "SPI_CSN_NUM_THREADGROUPS" Exact "workgroups" "workgroups of the dispatch" |r| Ok(r.workgroups.1 as f64);
    "SQ_INSTS" Exact "instructions" "all, with waits, barriers and wait states" |r| instructions(r, |_| true);
    "SQ_INSTS_VALU" Exact "vector ALU instructions" "VOP1, VOP2, VOP3, VOP3P and VOPC, with matrix instructions" |r| instructions(r, vector);
    "SQ_INSTS_MFMA" Exact "matrix instructions" "`v_mfma_*` and `v_smfmac_*`" |r| instructions(r, |issue| matches!(issue, Issue::Matrix { .. }));
    "SQ_INSTS_VALU_MFMA_I8" Exact "matrix instructions" "those on 8-bit integers" |r| instructions(r, |issue| is_matrix(issue, Type::I8));
    "SQ_INSTS_VALU_MFMA_F8" Exact "matrix instructions" "those on 8-bit floats" |r| instructions(r, |issue| is_matrix(issue, Type::F8));
    "SQ_INSTS_VALU_MFMA_F16" Exact "matrix instructions" "those on halves" |r| instructions(r, |issue| is_matrix(issue, Type::F16));
    "SQ_INSTS_VALU_MFMA_BF16" Exact "matrix instructions" "those on brain floats" |r| instructions(r, |issue| is_matrix(issue, Type::Bf16));
    "SQ_INSTS_VALU_MFMA_F32" Exact "matrix instructions" "those on singles, with `xf32`" |r| instructions(r, |issue| is_matrix(issue, Type::F32));
    "SQ_INSTS_VALU_MFMA_F64" Exact "matrix instructions" "those on doubles" |r| instructions(r, |issue| is_matrix(issue, Type::F64));
    "SQ_INSTS_VALU_MFMA_MOPS_I8" Exact "matrix operations by 512" "additions and multiplications of 8-bit integers" |r| operations(r, Type::I8);
    "SQ_INSTS_VALU_MFMA_MOPS_F8" Exact "matrix operations by 512" "those of 8-bit floats" |r| operations(r, Type::F8);
    "SQ_INSTS_VALU_MFMA_MOPS_F16" Exact "matrix operations by 512" "those of halves" |r| operations(r, Type::F16);
    "SQ_INSTS_VALU_MFMA_MOPS_BF16" Exact "matrix operations by 512" "those of brain floats" |r| operations(r, Type::Bf16);
    "SQ_INSTS_VALU_MFMA_MOPS_F32" Exact "matrix operations by 512" "those of singles, with `xf32`" |r| operations(r, Type::F32);
    "SQ_INSTS_VALU_MFMA_MOPS_F64" Exact "matrix operations by 512" "those of doubles" |r| operations(r, Type::F64);
    "SQ_INSTS_SALU" Exact "scalar ALU instructions" "SOP1, SOP2, SOPC and SOPK but for jumps; none if there are jumps to addresses in registers"
        |r| unless(r, indirect, JUMPS, |issue| issue == Issue::Scalar);
    "SQ_INSTS_SMEM" Exact "scalar memory instructions" "SMEM" |r| instructions(r, |issue| issue == Issue::ScalarMemory);
    "SQ_INSTS_BRANCH" Exact "branches" "`s_branch` and `s_cbranch_*`, taken or not; none if there are jumps to addresses in registers"
        |r| unless(r, indirect, JUMPS, |issue| issue == Issue::Branch);
    "SQ_INSTS_SENDMSG" Exact "messages" "`s_sendmsg` and `s_endpgm`" |r| instructions(r, |issue| issue == Issue::Message);
    "SQ_INSTS_VMEM" Exact "vector memory instructions" "MUBUF and FLAT, global and scratch among them" |r| instructions(r, memory);
    "SQ_INSTS_VMEM_RD" Exact "vector memory reads" "loads; none if there are atomics, or caches are written back"
        |r| unless(r, neither, NEITHER, |issue| matches!(issue, Issue::Memory(_, Direction::Read)));
    "SQ_INSTS_VMEM_WR" Exact "vector memory writes" "stores; none if there are atomics, or caches are written back"
        |r| unless(r, neither, NEITHER, |issue| matches!(issue, Issue::Memory(_, Direction::Write)));
    "SQ_INSTS_FLAT" Exact "FLAT instructions" "the FLAT encoding: `flat_*`, `global_*` and `scratch_*`"
        |r| instructions(r, |issue| matches!(issue, Issue::Memory(Path::Flat | Path::Global | Path::Scratch, _)));
    "SQ_INSTS_LDS" Exact "LDS instructions" "DS, with lane exchanges; `flat_*` as well, but not from gfx942 on" lds;
    "SQ_INSTS_GDS" Exact "GDS instructions" "`ds_gws_*`" |r| instructions(r, |issue| issue == Issue::GlobalData);
    "VALUInsts" Exact "vector ALU instructions of a wave" "`SQ_INSTS_VALU` by `SQ_WAVES`" |r| each_wave(r, instructions(r, vector));
    "SALUInsts" Exact "scalar ALU instructions of a wave" "`SQ_INSTS_SALU` by `SQ_WAVES`"
        |r| each_wave(r, unless(r, indirect, JUMPS, |issue| issue == Issue::Scalar));
    "SFetchInsts" Exact "scalar memory instructions of a wave" "`SQ_INSTS_SMEM` by `SQ_WAVES`"
        |r| each_wave(r, instructions(r, |issue| issue == Issue::ScalarMemory));
    "GDSInsts" Exact "GDS instructions of a wave" "`SQ_INSTS_GDS` by `SQ_WAVES`"
        |r| each_wave(r, instructions(r, |issue| issue == Issue::GlobalData));
    "SQ_LDS_BANK_CONFLICT" Model "cycles that LDS loses to bank conflicts" "the model of `omniprobe analyze`" |r| Ok(r.totals.lds.conflicts as f64);
}

impl Counter {
    /// Its number, or why a dispatch has none. What was seen has the analyses `mix` and `lds` of all workgroups.
    ///
    /// # Errors
    /// The reason.
    pub fn of(&self, report: &Report) -> Result<f64, &'static str> {
        (self.count)(report)
    }
}

/// What is known of a name; `None` of one that rocprofiler-sdk does not have for the family.
pub fn find(name: &str) -> Option<Known> {
    if let Some(counter) = COUNTERS.iter().find(|counter| counter.name == name) {
        return Some(Known::Counted(counter));
    }
    // One instance of a block is written `TCC_HIT[3]`.
    let base = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        Some((base, number)) if number.parse::<u32>().is_ok() => base,
        _ => name,
    };
    names().contains(base).then_some(Known::NotEmulated)
}

/// All names that are known.
fn names() -> BTreeSet<&'static str> {
    NAMES.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect()
}

/// How many names are known that are not counted.
pub fn others() -> usize {
    names().iter().filter(|name| COUNTERS.iter().all(|counter| counter.name != **name)).count()
}

/// The counters as a table of Markdown.
pub fn table() -> String {
    let row = |c: &Counter| format!("| `{}` | {} | {} | {} |\n", c.name, c.meaning, c.how, c.kind.word());
    let rows: String = COUNTERS.iter().map(row).collect();
    format!("| counter | what it tells | what is counted | |\n|---|---|---|---|\n{rows}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_one_of_rocprofiler_and_is_in_the_table_once() {
        let mut seen = BTreeSet::new();
        for counter in COUNTERS {
            assert!(names().contains(counter.name), "{}", counter.name);
            assert!(seen.insert(counter.name), "{}", counter.name);
        }
        assert_eq!(names().len(), seen.len() + others());
    }

    #[test]
    fn a_name_is_counted_known_or_an_error() {
        assert!(matches!(find("SQ_WAVES"), Some(Known::Counted(_))));
        assert!(matches!(find("TCC_HIT"), Some(Known::NotEmulated)));
        assert!(matches!(find("TCC_HIT[15]"), Some(Known::NotEmulated)));
        for unknown in ["SQ_WAVE", "sq_waves", "TCC_HIT[]", "TCC_HIT[x]", "#", ""] {
            assert!(find(unknown).is_none(), "{unknown}");
        }
    }
}
