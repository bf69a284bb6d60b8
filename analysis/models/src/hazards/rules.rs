//! The table of rules.

use amdgpu_isa::arch::{Arch, ArchSet, Feature};

use super::sides::{First, Meets, Multiplier, Second};

/// So many wait states must lie between the two instructions of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum States {
    /// A number.
    Are(u32),
    /// The passes of the matrix instruction that is first, and so many more or less.
    Passes(i32),
    /// The same, and one more where the passes are not two.
    LongPasses(i32),
}

impl States {
    /// How many, after an instruction with so many passes.
    pub(super) fn of(self, passes: u32) -> u32 {
        match self {
            States::Are(states) => states,
            States::Passes(more) => passes.saturating_add_signed(more),
            States::LongPasses(more) => passes.saturating_add_signed(more) + u32::from(passes != 2),
        }
    }
}

/// Two instructions that need wait states between them.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The processors with the rule.
    pub archs: ArchSet,
    /// The earlier instruction.
    pub first: First,
    /// The later instruction.
    pub second: Second,
    /// How their registers lie.
    pub meets: Meets,
    /// How many wait states.
    pub states: States,
    /// What must lie between them for the rule to hold.
    pub between: Option<First>,
    /// Of which operations, by their names.
    pub pairs: fn(&str, &str) -> bool,
    /// What is wrong, in words.
    pub says: &'static str,
}

fn all(_: &str, _: &str) -> bool {
    true
}

fn same(first: &str, second: &str) -> bool {
    first == second
}

fn different(first: &str, second: &str) -> bool {
    !same(first, second)
}

const fn rule(archs: ArchSet, first: First, second: Second, states: u32, says: &'static str) -> Rule {
    let (meets, states) = (Meets::Anywhere, States::Are(states));
    Rule { archs, first, second, meets, states, between: None, pairs: all, says }
}

impl Rule {
    const fn passes(mut self, more: i32) -> Rule {
        self.states = States::Passes(more);
        self
    }

    const fn long_passes(mut self, more: i32) -> Rule {
        self.states = States::LongPasses(more);
        self
    }

    const fn meets(mut self, meets: Meets) -> Rule {
        self.meets = meets;
        self
    }

    const fn between(mut self, between: First) -> Rule {
        self.between = Some(between);
        self
    }

    const fn pairs(mut self, pairs: fn(&str, &str) -> bool) -> Rule {
        self.pairs = pairs;
        self
    }
}

const ALL: ArchSet = ArchSet::ALL;
const UNTIL_90A: ArchSet = ArchSet::until(Arch::Gfx90a);
const GFX908: ArchSet = ArchSet::only(Arch::Gfx908);
const GFX90A: ArchSet = ArchSet::only(Arch::Gfx90a);
// LLVM asks for the instructions of MI300, which later processors have.
const GFX940: ArchSet = ArchSet::with(Feature::Gfx940Insts);
const UNIFIED: ArchSet = ArchSet::with(Feature::Gfx90aInsts);
const GFX950: ArchSet = ArchSet::with(Feature::Gfx950Insts);
const GFX942: ArchSet = GFX940.without(GFX950);
/// MI200 and MI300.
const UNTIL_942: ArchSet = UNIFIED.without(GFX950);

const MEMORY_SCALAR: &str = "vector memory reads a scalar register too early after vector arithmetic writes it";
const DPP: &str = "DPP reads a vector register too early after vector arithmetic writes it";
const DPP_EXEC: &str = "DPP follows too early after vector arithmetic writes EXEC";
const STORE: &str = "vector arithmetic writes a register too early after a store of it";
const DOT: &str = "a register is used too early after a dot product writes it";
const MATRIX_EXEC: &str = "a matrix instruction follows too early after vector arithmetic writes EXEC";
const MATRIX_READ: &str = "a matrix instruction reads a register too early after vector arithmetic writes it";
const FACTORS: &str = "a matrix instruction multiplies a register too early after a matrix instruction writes it";
const ADDEND: &str = "a matrix instruction adds to a register too early after a matrix instruction writes it";
const READ: &str = "a register is read too early after a matrix instruction writes it";
const WRITTEN: &str = "a register is written too early after a matrix instruction writes it";
const ADDED: &str = "a register is written too early after a matrix instruction adds to it";
const ACCUMULATOR: &str = "an accumulation register is used too early after v_accvgpr_write";
const MOVED: &str = "memory reads a register too early after v_accvgpr_read writes it";

/// The rules. Numbers of a rule are places in this table, at most 128.
#[rustfmt::skip]
pub const RULES: &[Rule] = &[
    // Every processor.
    rule(ALL, First::ValuScalar, Second::MemoryScalar, 5, MEMORY_SCALAR),
    rule(ALL, First::ValuVector, Second::DppVector,    2, DPP),
    rule(ALL, First::ValuScalar, Second::DppExec,      5, DPP_EXEC),
    rule(ALL, First::ValuScalar, Second::DivFmas,      4, "v_div_fmas follows too early after vector arithmetic writes VCC"),
    rule(ALL, First::ValuScalar, Second::LaneSelect,   4, "a lane is selected too early after vector arithmetic writes its number"),
    rule(ALL, First::ValuScalar, Second::ZeroFlag,     5, "VCCZ or EXECZ is read too early after vector arithmetic writes VCC or EXEC"),
    rule(ALL, First::Setreg,     Second::Getreg,       2, "s_getreg follows too early after s_setreg of the same register"),
    rule(ALL, First::Setreg,     Second::Setreg,       2, "s_setreg follows too early after s_setreg of the same register"),
    rule(ALL, First::SaluM0,     Second::ReadsM0,      1, "M0 is used too early after scalar arithmetic writes it"),
    rule(UNTIL_90A, First::WideStore, Second::EveryValuWrites, 1, STORE),
    rule(GFX940, First::WideStore, Second::EveryValuWrites, 2, STORE),

    // MI300 and later.
    rule(GFX940, First::Transcendental, Second::NotTranscendental, 1, "a register is read too early after a transcendental operation writes it"),
    rule(GFX940, First::PartOfRegister, Second::NotTranscendental, 1, "a register is read too early after a part of it is written"),
    rule(GFX940, First::ValuScalar,     Second::ValuScalar,        2, "vector arithmetic reads a scalar register too early after vector arithmetic writes it"),
    rule(GFX940, First::ValuScalar,     Second::LaneExec,          4, "a lane is read or written too early after vector arithmetic writes EXEC"),
    rule(GFX940, First::ValuVector,     Second::LaneSource,        1, "a lane is read too early after vector arithmetic writes its register"),

    // MI350.
    rule(GFX950, First::ValuVector, Second::LaneRows,     2, "rows of lanes are exchanged too early after vector arithmetic writes one of their registers"),
    rule(GFX950, First::ValuScalar, Second::LaneRowsExec, 4, "rows of lanes are exchanged too early after vector arithmetic writes EXEC"),

    // Matrix instructions with a register file of their own.
    rule(GFX908, First::ValuScalar,  Second::MatrixOrWriteExec,   4, MATRIX_EXEC),
    rule(GFX908, First::ValuVector,  Second::MatrixOrWriteVector, 2, MATRIX_READ),
    rule(GFX908, First::Matrix(Multiplier::Any), Second::Factors(Multiplier::Any), 4, FACTORS),
    rule(GFX908, First::Matrix(Multiplier::Any), Second::Addend(Multiplier::Any),  2, ADDEND).meets(Meets::Partly),
    rule(GFX908, First::Matrix(Multiplier::Any), Second::AccumulatorRead,  0, READ).passes(2),
    rule(GFX908, First::Matrix(Multiplier::Any), Second::AccumulatorWrite, 0, WRITTEN).passes(-1),
    rule(GFX908, First::MatrixAddend(Multiplier::Any), Second::AccumulatorWrite, 0, ADDED).passes(-3),
    rule(GFX908, First::AccumulatorWrite, Second::Factors(Multiplier::Any), 3, ACCUMULATOR),
    rule(GFX908, First::AccumulatorWrite, Second::Addend(Multiplier::Any),  1, ACCUMULATOR),
    rule(GFX908, First::AccumulatorWrite, Second::AccumulatorRead,          3, ACCUMULATOR),
    rule(GFX908, First::AccumulatorRead,  Second::MemoryVector,             2, MOVED),
    rule(GFX908, First::OtherVector,      Second::MemoryVector,             2, "memory reads a register too early after vector arithmetic and v_accvgpr")
        .between(First::AccumulatorMove),

    // Matrix instructions with one register file.
    rule(UNIFIED, First::ValuScalar,  Second::MatrixExec,   4, MATRIX_EXEC),
    rule(UNIFIED, First::PlainVector, Second::MatrixVector, 2, MATRIX_READ),
    rule(UNIFIED, First::Matrix(Multiplier::Double4),  Second::Factors(Multiplier::Any), 6,  FACTORS),
    rule(UNTIL_942, First::Matrix(Multiplier::Double16), Second::Factors(Multiplier::Any), 11, FACTORS),
    rule(GFX950,  First::Matrix(Multiplier::Double16), Second::Factors(Multiplier::Any), 19, FACTORS),
    rule(UNTIL_942, First::Matrix(Multiplier::Unit),     Second::Factors(Multiplier::Any), 0,  FACTORS).passes(3),
    rule(GFX950,  First::Matrix(Multiplier::Unit),     Second::Factors(Multiplier::Any), 0,  FACTORS).long_passes(3),
    rule(GFX940,  First::Matrix(Multiplier::Single),   Second::Factors(Multiplier::Any), 0,  FACTORS).passes(2),
    rule(UNIFIED, First::Matrix(Multiplier::Double4),  Second::Addend(Multiplier::Double4), 4, ADDEND).meets(Meets::Exactly),
    rule(UNIFIED, First::Matrix(Multiplier::Double4),  Second::Addend(Multiplier::NotUnit), 4, ADDEND).meets(Meets::Partly),
    rule(UNTIL_942, First::Matrix(Multiplier::Double16), Second::Addend(Multiplier::NotUnit), 9, ADDEND).meets(Meets::Partly),
    rule(GFX950,  First::Matrix(Multiplier::Double16), Second::Addend(Multiplier::NotUnit), 17, ADDEND).meets(Meets::Partly),
    rule(GFX90A,  First::Matrix(Multiplier::NotDouble), Second::Addend(Multiplier::NotDouble), 0, ADDEND).passes(0).meets(Meets::Partly),
    rule(GFX90A,  First::Matrix(Multiplier::NotDouble), Second::Addend(Multiplier::Double),    0, ADDEND).passes(1).meets(Meets::Partly),
    rule(GFX942,  First::Matrix(Multiplier::Unit),   Second::Addend(Multiplier::Any),     0, ADDEND).passes(1).meets(Meets::Partly),
    rule(GFX950,  First::Matrix(Multiplier::Unit),   Second::Addend(Multiplier::Unit),    0, ADDEND).passes(2).meets(Meets::Partly),
    rule(GFX950,  First::Matrix(Multiplier::Unit),   Second::Addend(Multiplier::NotUnit), 0, ADDEND).long_passes(1).meets(Meets::Partly),
    rule(GFX940,  First::Matrix(Multiplier::Single), Second::Addend(Multiplier::NotUnit), 0, ADDEND).passes(0).meets(Meets::Partly),
    rule(GFX940,  First::Matrix(Multiplier::NotDouble), Second::Addend(Multiplier::Any),  2, ADDEND).meets(Meets::Exactly)
        .pairs(|first, _| first.contains("_4x4x")),
    rule(UNIFIED, First::Matrix(Multiplier::Double4),  Second::ValuVector,   6,  READ),
    rule(UNTIL_942, First::Matrix(Multiplier::Double16), Second::ValuVector,   11, READ),
    rule(GFX950,  First::Matrix(Multiplier::Double16), Second::ValuVector,   19, READ),
    rule(UNIFIED, First::Matrix(Multiplier::Double4),  Second::MemoryVector, 9,  READ),
    rule(UNIFIED, First::Matrix(Multiplier::Double16), Second::MemoryVector, 18, READ),
    rule(UNTIL_942, First::Matrix(Multiplier::Unit),     Second::ValuVector,   0,  READ).passes(3),
    rule(GFX950,  First::Matrix(Multiplier::Unit),     Second::ValuVector,   0,  READ).long_passes(3),
    rule(UNTIL_942, First::Matrix(Multiplier::Unit),     Second::MemoryVector, 0,  READ).passes(3),
    rule(GFX950,  First::Matrix(Multiplier::Unit),     Second::MemoryVector, 0,  READ).long_passes(3),
    rule(GFX940,  First::Matrix(Multiplier::Single),   Second::ValuVector,   0,  READ).passes(2),
    rule(GFX940,  First::Matrix(Multiplier::Single),   Second::MemoryVector, 0,  READ).passes(2),
    rule(UNIFIED, First::Matrix(Multiplier::Double4),  Second::ValuWrites,   6,  WRITTEN),
    rule(UNIFIED, First::Matrix(Multiplier::Double16), Second::ValuWrites,   11, WRITTEN),
    rule(UNIFIED, First::Matrix(Multiplier::Double4),  Second::MemoryWrites, 6,  WRITTEN),
    rule(UNIFIED, First::Matrix(Multiplier::Double16), Second::MemoryWrites, 11, WRITTEN),
    rule(UNTIL_942, First::Matrix(Multiplier::Unit),     Second::ValuWrites,   0,  WRITTEN).passes(3),
    rule(GFX950,  First::Matrix(Multiplier::Unit),     Second::ValuWrites,   0,  WRITTEN).long_passes(3),
    rule(UNTIL_942, First::Matrix(Multiplier::Unit),     Second::MemoryWrites, 0,  WRITTEN).passes(3),
    rule(GFX950,  First::Matrix(Multiplier::Unit),     Second::MemoryWrites, 0,  WRITTEN).long_passes(3),
    rule(GFX940,  First::Matrix(Multiplier::Single),   Second::ValuWrites,   0,  WRITTEN).passes(2),
    rule(GFX940,  First::Matrix(Multiplier::Single),   Second::MemoryWrites, 0,  WRITTEN).passes(2),
    rule(UNIFIED, First::MatrixAddend(Multiplier::Unit), Second::ValuWrites, 0,  ADDED).passes(-1),
    rule(UNIFIED, First::MatrixAddend(Multiplier::Unit), Second::MemoryWrites, 0, ADDED).passes(-1),
    rule(UNIFIED, First::MatrixItself(Multiplier::Double), Second::Fma64,    2,  "a fused multiply-add of doubles follows too early after a matrix instruction of doubles"),
    rule(GFX90A,  First::ValuVector, Second::MemoryVector, 2, "memory reads a register too early after vector arithmetic, with a matrix instruction of doubles between")
        .between(First::MatrixItself(Multiplier::Double)),
    rule(UNIFIED, First::Dot, Second::ValuVector,   3, DOT).pairs(different),
    rule(UNIFIED, First::Dot, Second::DotFactors,   3, DOT).pairs(same),
    rule(UNIFIED, First::Dot, Second::MemoryVector, 3, DOT),
    rule(UNIFIED, First::Dot, Second::ValuWrites,   3, DOT).pairs(different),
    rule(UNIFIED, First::Dot, Second::MemoryWrites, 3, DOT),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_have_numbers_below_128_and_no_pair_has_two() {
        assert!(RULES.len() <= 128, "{}", RULES.len());
        for (n, rule) in RULES.iter().enumerate() {
            let same = |other: &&Rule| {
                other.archs.meets(rule.archs)
                    && (other.first, other.second, other.meets) == (rule.first, rule.second, rule.meets)
                    && other.between.is_none() == rule.between.is_none()
            };
            let others = RULES.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, other)| other);
            assert_eq!(others.filter(same).count(), 0, "{rule:?}");
        }
    }
}
