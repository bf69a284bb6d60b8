//! The two sides of a rule: which instructions they are, and which of their registers count.

use amdgpu_isa::action::Action;
use amdgpu_isa::arch::{Arch, Feature};
use amdgpu_isa::arithmetic::{Arithmetic, Number};
use amdgpu_isa::inst::{Form, Inst, Sdwa, control};
use amdgpu_isa::op::{Access, Family, Flags, Op};
use amdgpu_isa::operand::Operand;
use amdgpu_isa::uses::{Registers, Uses};

use super::About;

/// The earlier instruction of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Vector arithmetic: scalar registers that it writes.
    ValuScalar,
    /// Vector arithmetic of every kind: vector registers that it writes.
    ValuVector,
    /// Vector arithmetic but for matrix instructions and dot products: vector registers that it writes.
    PlainVector,
    /// Vector arithmetic, but for matrix instructions and moves of accumulation registers: vector registers that it writes.
    OtherVector,
    /// Scalar arithmetic that writes M0.
    SaluM0,
    /// `s_setreg`: the hardware register.
    Setreg,
    /// A store of more than two dwords, whose data hardware reads late.
    WideStore,
    /// A transcendental operation: its result.
    Transcendental,
    /// Vector arithmetic that writes a part of a register.
    PartOfRegister,
    /// A dot product: its result.
    Dot,
    /// A matrix instruction: its result.
    Matrix(Multiplier),
    /// A matrix instruction: what it adds to.
    MatrixAddend(Multiplier),
    /// `v_accvgpr_write`: the accumulation register.
    AccumulatorWrite,
    /// `v_accvgpr_read`: the vector register.
    AccumulatorRead,
    /// `v_accvgpr_read` or `v_accvgpr_write`, as what lies between.
    AccumulatorMove,
    /// A matrix instruction, as what comes before in time.
    MatrixItself(Multiplier),
}

/// The later instruction of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Second {
    /// A vector memory access: scalar registers that it reads.
    MemoryScalar,
    /// Vector arithmetic with a data-parallel control word: vector registers that it reads.
    DppVector,
    /// Vector arithmetic with a data-parallel control word: EXEC.
    DppExec,
    /// `v_div_fmas`: VCC.
    DivFmas,
    /// `v_readlane` and `v_writelane`: the register with the lane's number.
    LaneSelect,
    /// `v_readlane` and `v_readfirstlane`: the vector register.
    LaneSource,
    /// `v_readlane`, `v_readfirstlane` and `v_writelane`: EXEC.
    LaneExec,
    /// Vector arithmetic that reads VCCZ or EXECZ as a value: VCC or EXEC.
    ZeroFlag,
    /// `s_getreg`: the hardware register.
    Getreg,
    /// `s_setreg`: the hardware register.
    Setreg,
    /// Messages, GDS, loads into LDS, LDS at the lane's number: M0.
    ReadsM0,
    /// Vector arithmetic: scalar registers that it reads.
    ValuScalar,
    /// Vector arithmetic but for matrix instructions: vector registers that it reads.
    ValuVector,
    /// As [`Second::ValuVector`], but for transcendental operations.
    NotTranscendental,
    /// Vector arithmetic but for matrix instructions: vector registers that it writes.
    ValuWrites,
    /// Vector arithmetic of every kind: vector registers that it writes.
    EveryValuWrites,
    /// Memory and LDS: vector registers that it reads.
    MemoryVector,
    /// Memory and LDS: vector registers that it will write.
    MemoryWrites,
    /// A matrix instruction: its factors.
    Factors(Multiplier),
    /// A matrix instruction: what it adds to.
    Addend(Multiplier),
    /// A matrix instruction: every vector register that it reads.
    MatrixVector,
    /// A matrix instruction: EXEC.
    MatrixExec,
    /// A matrix instruction or `v_accvgpr_write`: EXEC.
    MatrixOrWriteExec,
    /// A matrix instruction or `v_accvgpr_write`: vector registers that it reads, which are no accumulation registers.
    MatrixOrWriteVector,
    /// `v_accvgpr_read`: the accumulation register.
    AccumulatorRead,
    /// `v_accvgpr_write`: the accumulation register.
    AccumulatorWrite,
    /// A dot product: its factors.
    DotFactors,
    /// A fused multiply-add of doubles.
    Fma64,
    /// An exchange of rows of lanes: both of its registers.
    LaneRows,
    /// An exchange of rows of lanes: EXEC.
    LaneRowsExec,
}

/// Which matrix instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Multiplier {
    /// All.
    Any,
    /// Of doubles, 4×4.
    Double4,
    /// Of doubles, 16×16.
    Double16,
    /// Of doubles.
    Double,
    /// All but those of doubles.
    NotDouble,
    /// Of the matrix unit: all but those of doubles, and since MI300 of singles.
    Unit,
    /// Of singles, outside of the matrix unit.
    Single,
    /// All outside of the matrix unit.
    NotUnit,
}

/// How the registers of both sides must lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meets {
    /// Some are the same.
    Anywhere,
    /// Exactly the same.
    Exactly,
    /// Some are the same, but not all.
    Partly,
}

impl Multiplier {
    fn has(self, op: &Op, arch: Arch) -> bool {
        let Action::MatrixProduct(shape) = op.action else { return false };
        let double = op.flags.has(Flags::F64_MATRIX);
        // Source: LLVM's `is_gfx940_xdl`.
        let of_singles = matches!(op.arithmetic, Arithmetic::Wave(Number::F32, _)) && !shape.is_shortened;
        let single = arch.has(Feature::Gfx940Insts) && of_singles;
        let small = shape.rows == 4;
        match self {
            Multiplier::Any => true,
            Multiplier::Double4 => double && small,
            Multiplier::Double16 => double && !small,
            Multiplier::Double => double,
            Multiplier::NotDouble => !double,
            Multiplier::Unit => !double && !single,
            Multiplier::Single => single,
            Multiplier::NotUnit => double || single,
        }
    }
}

/// Passes of four cycles that a matrix instruction takes; `None` for another one. Source: LLVM's `SISchedule.td`.
pub fn passes(arch: Arch, inst: &Inst) -> Option<u32> {
    // In formats that the instruction names, factors of eight bits take twice as long as narrower ones.
    let wide = (0..2).any(|n| inst.factor_format(n).is_some_and(|format| format.bits() == 8));
    Some(passes_of_shape(arch, inst.op)? * if wide { 2 } else { 1 })
}

fn passes_of_shape(arch: Arch, op: &Op) -> Option<u32> {
    let Action::MatrixProduct(shape) = op.action else { return None };
    // Shortened singles are as fast as the halves of twice their depth.
    let depth = if shape.is_shortened { 2 * shape.depth } else { shape.depth };
    let passes = match (op.flags.has(Flags::F64_MATRIX), shape.rows) {
        (true, 4) => 4,
        (true, _) if arch.has(Feature::Gfx950Insts) => 16,
        (true, _) => 8,
        (false, 4) => 2,
        (false, 16) if arch.has(Feature::Gfx940Insts) && depth >= 8 => 4,
        (false, 16) => 8,
        (false, _) if arch.has(Feature::Gfx940Insts) && depth >= 8 => 8,
        (false, _) => 16,
    };
    Some(passes)
}

fn is_valu(inst: &Inst) -> bool {
    matches!(
        inst.op.family,
        Family::Vop1 | Family::Vop2 | Family::Vopc | Family::Vop3 | Family::Vop3p | Family::Vop3px2
    )
}

fn is_salu(inst: &Inst) -> bool {
    matches!(inst.op.family, Family::Sop1 | Family::Sop2 | Family::Sopc | Family::Sopk | Family::Sopp)
}

fn is_vector_memory(inst: &Inst) -> bool {
    matches!(inst.op.family, Family::Mubuf | Family::Flat | Family::Global | Family::Scratch)
}

fn is_memory(inst: &Inst) -> bool {
    is_vector_memory(inst) || inst.op.family == Family::Ds
}

fn is_dot(inst: &Inst) -> bool {
    inst.op.action == Action::Dot
}

/// Source: LLVM's `TRANS`.
fn is_transcendental(inst: &Inst) -> bool {
    inst.op.action == Action::Transcendental
}

fn is_accumulator_move(inst: &Inst) -> bool {
    inst.op.flags.has(Flags::ACC_DST) || inst.op.flags.has(Flags::ACC_SRC)
}

/// True for `v_accvgpr_read`.
fn reads_accumulator(inst: &Inst) -> bool {
    inst.op.flags.has(Flags::ACC_SRC) && !inst.op.flags.has(Flags::ACC_DST)
}

/// True for `v_accvgpr_write`.
fn writes_accumulator(inst: &Inst) -> bool {
    inst.op.flags.has(Flags::ACC_DST) && !inst.op.flags.has(Flags::ACC_SRC)
}

fn lane_access(inst: &Inst) -> bool {
    inst.op.action == Action::ReadLane || inst.op.action == Action::WriteLane
}

fn swaps_rows(inst: &Inst) -> bool {
    matches!(inst.op.action, Action::SwapLanes(_))
}

/// True for a vector operation on a part of its result's register. Source: LLVM's `GCNHazardRecognizer`, `dst_sel` and `op_sel`.
fn writes_part(inst: &Inst) -> bool {
    inst.sdwa().is_some_and(|sdwa| inst.op.family != Family::Vopc && sdwa.dst_sel != Sdwa::DWORD)
        || inst.form == Form::E64 && inst.op.flags.has(Flags::OP_SEL) && inst.mods.op_sel & 8 != 0
        || inst.op.flags.has(Flags::BYTE_DST) && inst.mods.op_sel & 12 != 0
        || inst.op.flags.has(Flags::LATE_BYTE)
}

fn vectors(ranges: &[Registers]) -> Vec<Registers> {
    ranges.iter().filter(|range| range.first.is_vector() && range.count > 0).copied().collect()
}

fn scalars(ranges: &[Registers]) -> Vec<Registers> {
    ranges.iter().filter(|range| range.first.is_scalar_register() && range.count > 0).copied().collect()
}

/// What of the registers is a pair of a name.
fn pair(ranges: &[Registers], first: Operand) -> Vec<Registers> {
    let pair = Registers { first, count: 2 };
    let meets = |range: &Registers| {
        range.first.is_scalar_register()
            && range.first.0 < first.0 + 2
            && u32::from(first.0) < u32::from(range.first.0) + range.count
    };
    if ranges.iter().any(meets) { vec![pair] } else { Vec::new() }
}

/// The sources that vector arithmetic names: no lanes or halves of its result that stay.
fn sources(inst: &Inst) -> Vec<Registers> {
    let named = (0..inst.src.len()).map(|n| source(inst, n));
    let result = Registers { first: inst.dst, count: inst.op.dst.dwords() };
    let added = inst.op.flags.has(Flags::DST_IS_SRC2) || inst.op.flags.has(Flags::SPARSE);
    named.chain(added.then_some(result)).chain(scales(inst)).collect()
}

/// What a matrix instruction multiplies, with its scales and the places of a sparse factor's elements. Source: LLVM's `GCNHazardRecognizer`, for which they
/// are a source that is not added to.
fn factors(inst: &Inst) -> Vec<Registers> {
    let places = inst.op.flags.has(Flags::SPARSE).then(|| source(inst, 2));
    vectors(&[source(inst, 0), source(inst, 1)].into_iter().chain(places).chain(scales(inst)).collect::<Vec<_>>())
}

/// The scales of a matrix instruction's factors.
fn scales(inst: &Inst) -> impl Iterator<Item = Registers> {
    inst.scales().into_iter().flat_map(|scales| scales.source.map(|first| Registers { first, count: 1 }))
}

/// What a matrix instruction adds to.
fn addend(inst: &Inst) -> Vec<Registers> {
    vectors(&[Registers { first: inst.addend(), count: inst.op.dst.dwords() }])
}

fn source(inst: &Inst, n: usize) -> Registers {
    Registers { first: inst.src[n], count: inst.source_kind(n).dwords() }
}

/// The number of the hardware register of `s_setreg` and `s_getreg`. Source: LLVM's AMDGPU operand syntax, `hwreg`.
fn hardware_register(inst: &Inst) -> About {
    About::Hardware(inst.imm as u32 & 63)
}

/// The data of a store whose registers may not be written too early. Source: LLVM's `GCNHazardRecognizer`, `createsVALUHazard`; with an
/// offset in a scalar register, buffer stores are no such ones.
fn wide_data(inst: &Inst) -> Option<Vec<Registers>> {
    let wide = |bytes: u8| (bytes > 8).then_some(u32::from(bytes).div_ceil(4));
    let count = match inst.op.access {
        Access::Store(bytes, _) => wide(bytes)?,
        Access::StoreFormat(components, packing) => wide(4 * packing.dwords(components))?,
        Access::Atomic(..) => {
            let data = if inst.op.family == Family::Mubuf { inst.op.dst } else { inst.op.src[1] };
            Some(data.dwords()).filter(|dwords| *dwords > 2)?
        }
        _ => return None,
    };
    match inst.op.family {
        Family::Mubuf if inst.src[2].is_scalar_register() => None,
        Family::Mubuf => Some(vec![Registers { first: inst.dst, count }]),
        Family::Flat | Family::Global | Family::Scratch => Some(vec![Registers { first: inst.src[1], count }]),
        _ => None,
    }
}

impl First {
    /// What of an instruction is this side; `None` if it is none.
    pub(super) fn about(self, inst: &Inst, arch: Arch) -> Option<About> {
        let op = inst.op;
        let written = |is: bool| is.then(|| About::Registers(vectors(Uses::of(inst).writes.ranges())));
        match self {
            First::ValuScalar => is_valu(inst).then(|| About::Registers(scalars(Uses::of(inst).writes.ranges()))),
            First::ValuVector => written(is_valu(inst)),
            First::PlainVector => written(is_valu(inst) && !op.is_matrix() && !is_dot(inst)),
            First::OtherVector => written(is_valu(inst) && !op.is_matrix() && !is_accumulator_move(inst)),
            First::SaluM0 => {
                let writes = || pair(Uses::of(inst).writes.ranges(), Operand::M0);
                is_salu(inst)
                    .then(|| About::Registers(writes().into_iter().map(|m0| Registers { count: 1, ..m0 }).collect()))
            }
            First::Setreg => (op.action == Action::SetRegister).then(|| hardware_register(inst)),
            First::WideStore => wide_data(inst).map(About::Registers),
            First::Transcendental => written(is_valu(inst) && is_transcendental(inst)),
            First::PartOfRegister => written(is_valu(inst) && writes_part(inst)),
            First::Dot => written(is_dot(inst)),
            First::Matrix(of) => written(of.has(op, arch)),
            First::MatrixAddend(of) => of.has(op, arch).then(|| About::Registers(addend(inst))),
            First::AccumulatorWrite => written(writes_accumulator(inst)),
            First::AccumulatorRead => written(reads_accumulator(inst)),
            First::AccumulatorMove => is_accumulator_move(inst).then_some(About::Itself),
            First::MatrixItself(of) => of.has(op, arch).then_some(About::Itself),
        }
    }
}

impl Second {
    /// What of an instruction is this side; `None` if it is none.
    pub(super) fn about(self, inst: &Inst, arch: Arch) -> Option<About> {
        let op = inst.op;
        let valu = is_valu(inst);
        let plain = valu && !op.is_matrix();
        let named = |is: bool| is.then(|| About::Registers(vectors(&sources(inst))));
        let written = |is: bool| is.then(|| About::Registers(vectors(Uses::of(inst).writes.ranges())));
        let exec = |is: bool| is.then(|| About::Registers(vec![Registers { first: Operand::EXEC, count: 2 }]));
        match self {
            Second::MemoryScalar => is_vector_memory(inst).then(|| {
                let named = |range: &Registers| !matches!(range.first, Operand::EXEC | Operand::FLAT_SCRATCH);
                let reads = scalars(Uses::of(inst).reads.ranges());
                About::Registers(reads.into_iter().filter(named).collect())
            }),
            Second::DppVector => named(valu && inst.dpp().is_some()),
            Second::DppExec => exec(valu && inst.dpp().is_some()),
            Second::DivFmas => (op.action == Action::DivFmas)
                .then(|| About::Registers(vec![Registers { first: Operand::VCC, count: 2 }])),
            Second::LaneSelect => lane_access(inst).then(|| About::Registers(scalars(&[source(inst, 1)]))),
            Second::LaneSource => {
                let reads = op.action == Action::ReadLane || op.action == Action::ReadFirstLane;
                reads.then(|| About::Registers(vectors(&[source(inst, 0)])))
            }
            Second::LaneExec => exec(lane_access(inst) || op.action == Action::ReadFirstLane),
            Second::ZeroFlag => valu.then(|| {
                let flag = |operand: &Operand| match *operand {
                    Operand::VCCZ => Some(Registers { first: Operand::VCC, count: 2 }),
                    Operand::EXECZ => Some(Registers { first: Operand::EXEC, count: 2 }),
                    _ => None,
                };
                About::Registers(inst.src.iter().filter_map(flag).collect())
            }),
            Second::Getreg => (op.action == Action::GetRegister).then(|| hardware_register(inst)),
            Second::Setreg => (op.action == Action::SetRegister).then(|| hardware_register(inst)),
            Second::ReadsM0 => {
                let reads = op.action == Action::SendMessage
                    || op.action == Action::TraceData
                    || op.action == Action::LaneAddressed
                    || op.family == Family::Ds && (op.flags.has(Flags::GWS) || inst.has(control::GDS))
                    || is_vector_memory(inst) && inst.has(control::LDS);
                reads.then(|| About::Registers(vec![Registers { first: Operand::M0, count: 1 }]))
            }
            Second::ValuScalar => valu.then(|| {
                let named = |range: &Registers| range.first != Operand::EXEC;
                let reads = scalars(Uses::of(inst).reads.ranges());
                About::Registers(reads.into_iter().filter(named).collect())
            }),
            Second::ValuVector => named(plain),
            Second::NotTranscendental => named(valu && !is_transcendental(inst)),
            Second::ValuWrites => written(plain),
            Second::EveryValuWrites => written(valu),
            Second::MemoryVector => is_memory(inst).then(|| About::Registers(vectors(Uses::of(inst).reads.ranges()))),
            Second::MemoryWrites => written(is_memory(inst)),
            Second::Factors(of) => of.has(op, arch).then(|| About::Registers(factors(inst))),
            Second::Addend(of) => of.has(op, arch).then(|| About::Registers(addend(inst))),
            Second::MatrixVector => named(op.is_matrix()),
            Second::MatrixExec => exec(op.is_matrix()),
            Second::MatrixOrWriteExec => exec(op.is_matrix() || writes_accumulator(inst)),
            Second::MatrixOrWriteVector => (op.is_matrix() || writes_accumulator(inst)).then(|| {
                let plain = |range: &Registers| !range.first.is_agpr();
                About::Registers(vectors(&sources(inst)).into_iter().filter(plain).collect())
            }),
            Second::AccumulatorRead => named(reads_accumulator(inst)),
            Second::AccumulatorWrite => written(writes_accumulator(inst)),
            Second::DotFactors => is_dot(inst).then(|| About::Registers(vectors(&[source(inst, 0), source(inst, 1)]))),
            Second::Fma64 => (op.action == Action::Fma64).then_some(About::Itself),
            Second::LaneRows => swaps_rows(inst).then(|| About::Registers(vectors(Uses::of(inst).reads.ranges()))),
            Second::LaneRowsExec => exec(swaps_rows(inst)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortened_singles_take_as_long_as_halves_of_twice_their_depth() {
        let passes =
            |name| amdgpu_isa::rows().find(|op| op.name == name).and_then(|op| passes_of_shape(Arch::Gfx942, op));
        // LLVM's `SISchedule.td`: Write4PassMAI and Write8PassMAI of gfx940.
        assert_eq!(passes("v_mfma_f32_16x16x8_xf32"), Some(4));
        assert_eq!(passes("v_mfma_f32_32x32x4_xf32"), Some(8));
        assert_eq!(passes("v_mfma_f32_32x32x4_2b_f16"), Some(16));
    }

    #[test]
    fn products_of_bytes_and_of_sparse_matrices_take_four_passes_or_eight() {
        // LLVM's `SISchedule.td`, as `llvm-mca -mcpu=gfx942` shows it.
        for op in amdgpu_isa::rows().filter(|op| op.name.starts_with("v_smfmac_") || op.name.ends_with("_fp8")) {
            let expected = op.is_matrix().then(|| if op.name.contains("_16x16x") { 4 } else { 8 });
            assert_eq!(passes_of_shape(Arch::Gfx942, op), expected, "{}", op.name);
        }
    }

    #[test]
    fn products_in_named_formats_take_twice_as_long_where_a_factor_has_eight_bits() {
        // LLVM's `SISchedule.td`, `WriteMFMAScale_16X16X128_F8F6F4` and its neighbour. The words are llvm-mc's.
        let decoder = amdgpu_isa::Decoder::new(Arch::Gfx950);
        let scales = [0xd3ac_0000, 0x0002_2b14];
        for (opcode, least) in [(0x2d, 4), (0x2e, 8)] {
            for (cbsz, blgp) in (0..5).flat_map(|cbsz| (0..5).map(move |blgp| (cbsz, blgp))) {
                let product = [0xd380_8000 | opcode << 16 | cbsz << 8, 0x0402_1100 | blgp << 29];
                let scaled = [scales[0], scales[1], product[0] | 0x800, product[1]];
                let expected = Some(if cbsz.min(blgp) < 2 { 2 * least } else { least });
                let passes = |words: &[u32]| passes(Arch::Gfx950, &decoder.decode(words).unwrap());
                assert_eq!([passes(&product), passes(&scaled)], [expected, expected], "{cbsz}, {blgp}");
            }
        }
    }

    #[test]
    fn a_long_product_of_mi350_is_awaited_a_state_longer_than_on_mi300() {
        use super::super::Sides;
        // LLVM's `GCNHazardRecognizer`, the tables of `GFX940_XDL_N_PassWritesVGPROverlapped…`. The words are llvm-mc's.
        let products = [
            ([0xd3ca_0000, 0x0402_1100], 2, [5, 5], [3, 4, 3]),
            ([0xd3cd_0000, 0x0402_1100], 4, [7, 8], [5, 6, 6]),
            ([0xd3cc_0000, 0x0402_1100], 8, [11, 12], [9, 10, 10]),
            ([0xd3c8_0000, 0x0402_1100], 16, [19, 20], [17, 18, 18]),
        ];
        for (words, expected, factors, addends) in products {
            let mut found = Vec::new();
            for arch in [Arch::Gfx942, Arch::Gfx950] {
                let inst = amdgpu_isa::Decoder::new(arch).decode(&words).unwrap();
                assert_eq!(passes(arch, &inst), Some(expected), "{}", inst.op.name);
                let sides = Sides::of(arch, &inst);
                let states = |second: Second, meets: Meets| {
                    let is_it = |rule: &super::super::Rule| rule.second == second && rule.meets == meets;
                    let of =
                        |offer: &super::super::Offer| is_it(&super::super::RULES[offer.rule]).then_some(offer.states);
                    sides.offers.iter().filter_map(of).max()
                };
                let of_addend = |of| states(Second::Addend(of), Meets::Partly);
                let any = of_addend(Multiplier::Any);
                found.push((
                    states(Second::Factors(Multiplier::Any), Meets::Anywhere),
                    any.or(of_addend(Multiplier::Unit)),
                    any.or(of_addend(Multiplier::NotUnit)),
                ));
            }
            let [on_mi300, unit, others] = addends;
            let on_mi300 = (Some(factors[0]), Some(on_mi300), Some(on_mi300));
            assert_eq!(found, [on_mi300, (Some(factors[1]), Some(unit), Some(others))], "{expected} passes");
        }
    }
}
