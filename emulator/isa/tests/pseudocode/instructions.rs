//! Random instructions of an operation on random state, executed and compared with what the model expects.

use amdgpu_isa::arch::Generation;
use amdgpu_isa::block::Block;
use amdgpu_isa::decode::HostLevel;
use amdgpu_isa::disasm::Disassembly;
use amdgpu_isa::inst::{Inst, control};
use amdgpu_isa::mode::Mode;
use amdgpu_isa::op::{Access, Family, Op};
use amdgpu_isa::operand::{Kind, Operand};
use amdgpu_isa::wave::{LANES, Wave, vgpr_file};
use amdgpu_isa::{Arch, Decoder, step};

use crate::accesses;
use crate::evaluate::Bodies;
use crate::memory::Memory;
use crate::model;
use crate::modes::Modes;
use crate::parse::Body;

/// A generator (SplitMix64, by Vigna).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn word(&mut self) -> u32 {
        self.next() as u32
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

const HALVES: &[u32] = &[
    0, 1, 0x3ff, 0x400, 0x401, 0x3800, 0x3c00, 0x3c01, 0x3bff, 0x4248, 0x63ff, 0x7bff, 0x7c00, 0x7c01, 0x7e00, 0x8000,
    0x8001, 0xbc00, 0xfbff, 0xfc00, 0xfe01, 0x7fff, 0xffff,
];
const SINGLES: &[u32] = &[
    0,
    1,
    0x7f_ffff,
    0x80_0000,
    0x80_0001,
    0x3f00_0000,
    0x3f80_0000,
    0x3f80_0001,
    0x3f7f_ffff,
    0x3380_0000,
    0x3880_0000,
    0x477f_e000,
    0x477f_f000,
    0x4b00_0001,
    0x4eff_ffff,
    0x4f00_0000,
    0x4f7f_ffff,
    0x4f80_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0x7f80_0001,
    0x7fc0_0000,
    0x8000_0000,
    0x8000_0001,
    0xbf80_0000,
    0xcf00_0000,
    0xff7f_ffff,
    0xff80_0000,
    0xffc0_0001,
    0x7fff_ffff,
    u32::MAX,
    0x4020_0000,
    0xc020_0000,
];
const DOUBLES: &[u64] = &[
    0,
    1,
    0xf_ffff_ffff_ffff,
    0x10_0000_0000_0000,
    0x3fe0_0000_0000_0000,
    0x3ff0_0000_0000_0000,
    0x3ff0_0000_0000_0001,
    0x3fef_ffff_ffff_ffff,
    0x4004_0000_0000_0000,
    0x41df_ffff_ffc0_0000,
    0x41e0_0000_0000_0000,
    0x41ef_ffff_ffe0_0000,
    0x36a0_0000_0000_0000,
    0x47ef_ffff_e000_0000,
    0x47ef_ffff_f000_0000,
    0x7fef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0x7ff0_0000_0000_0001,
    0x7ff8_0000_0000_0000,
    0x8000_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0xffef_ffff_ffff_ffff,
    0xfff0_0000_0000_0000,
    u64::MAX,
    0x4330_0000_0000_0001,
];

/// Bits that an operand of a kind may have.
fn bits(random: &mut Random, kind: Kind) -> u64 {
    let any = random.next();
    let half = |random: &mut Random| if random.below(3) == 0 { random.word() & 0xffff } else { random.one_of(HALVES) };
    match (kind, random.below(4)) {
        (_, 0) => any,
        (Kind::F64, 1 | 2) => random.one_of(DOUBLES),
        // Near one.
        (Kind::F64, _) => any & 0x803f_ffff_ffff_ffff | 0x3fc0_0000_0000_0000,
        (Kind::F32 | Kind::V2F32 | Kind::M32, 3) => {
            let near = |random: &mut Random| u64::from(random.word() & 0x83ff_ffff | 0x3c00_0000);
            near(random) | near(random) << 32
        }
        (Kind::F16 | Kind::V2F16 | Kind::U16 | Kind::I16 | Kind::V2I16, _) => {
            u64::from(half(random)) | u64::from(half(random)) << 16
        }
        (Kind::I64 | Kind::U64 | Kind::B64, 1) => {
            random.one_of(&[0, 1, u64::MAX, 1 << 63, i64::MAX as u64, 1 << 32, 0xffff_ffff])
        }
        (_, 1) => u64::from(random.word() % 80),
        (_, 2) if random.below(2) == 0 => u64::from(half(random)) | u64::from(half(random)) << 16,
        _ => u64::from(random.one_of(SINGLES)) | u64::from(random.one_of(SINGLES)) << 32,
    }
}

/// What random instructions are executed on.
pub(crate) struct Machine {
    arch: Arch,
    decoders: Vec<Decoder>,
    pub(crate) random: Random,
    before: Wave,
    after: Wave,
    memory: Memory,
    /// What was compared.
    pub(crate) modes: Modes,
}

impl Machine {
    pub(crate) fn new(arch: Arch) -> Machine {
        let levels = HostLevel::ALL.into_iter().filter(|level| *level <= HostLevel::detect());
        let decoders = levels.map(|level| Decoder::with_level(arch, level)).collect();
        let mut random = Random(0x700 + arch as u64);
        let mut before = Wave::new(arch, 0x1000, vgpr_file());
        for register in before.vgpr.iter_mut() {
            register.fill_with(|| bits(&mut random, Kind::F32) as u32);
        }
        let after = Wave::new(arch, 0x1000, vgpr_file());
        Machine { arch, decoders, random, before, after, memory: Memory::new(1 << 13), modes: Modes::default() }
    }

    /// Words of an operation with anything in their other fields.
    fn words(&mut self, op: &Op) -> [u32; 2] {
        let random = &mut self.random;
        let code = u32::from(op.code(Generation::Gfx9).expect("a number"));
        let any = match random.below(3) {
            0 => [random.word(), random.word() & random.word() & random.word()],
            1 => [random.word() & random.word(), random.word() & random.word()],
            _ => [random.word(), random.word()],
        };
        // Modifiers are often none.
        let second = if random.below(3) == 0 { any[1] & 0x07ff_ffff } else { any[1] };
        let vectors = second & !(1 << 8 | 1 << 17 | 1 << 26)
            | (random.word() & random.word() | random.word()) & (1 << 8 | 1 << 17 | 1 << 26);
        let long = |prefix: u32, code: u32| {
            let fields = [0xff, 0x1ff | 0x7 << 8, 0xffff][(vectors >> 20) as usize % 3];
            [prefix | code << 16 | any[0] & fields, vectors]
        };
        // A register, a scalar operand, the sub-dword and the data-parallel form.
        let source = random.one_of(&[256 | any[0] & 0xff, 256 | any[0] & 0xff, any[0] & 0x1ff, 0xf9, 0xfa, 0xf9, 0xfa]);
        let control = match source {
            0xfa => {
                second & 0xff
                    | random.one_of(&CONTROLS) << 8
                    | any[1] & 0xf8_0000 & random.word()
                    | (random.word() | random.word()) & 0xff00_0000
            }
            0xf9 => second & 0x3f3f_3fff & !(u32::from(random.below(2) == 0) * 0x3838_e000),
            _ => second,
        };
        let form = random.below(3);
        match op.family {
            Family::Vop2 if form > 0 => [code << 25 | any[0] & 0x01ff_fe00 | source, control],
            Family::Vop1 if form > 0 => [0x7e00_0000 | code << 9 | any[0] & 0x01fe_0000 | source, control],
            Family::Vopc if form > 0 => [0x7c00_0000 | code << 17 | any[0] & 0x0001_fe00 | source, control],
            Family::Vop2 | Family::Vop1 | Family::Vopc | Family::Vop3 => {
                long(0xd000_0000, code + u32::from(op.family.vop3_base(Generation::Gfx9).unwrap_or(0)))
            }
            Family::Vop3p => [0xd380_0000 | code << 16 | any[0] & random.one_of(&[0xff, 0x7fff, 0xffff]), vectors],
            Family::Ds => {
                // Fields of registers that the operation does not have are zero.
                let field = |kind: Kind, shift: u32| if kind == Kind::None { 0 } else { 0xff << shift };
                let fields = field(op.src[0], 0) | field(op.src[1], 8) | field(op.src[2], 16) | field(op.dst, 24);
                [0xd800_0000 | code << 17 | any[0] & random.one_of(&[0x3f, 0x3f3f, 0xffff]), random.word() & fields]
            }
            Family::Flat => [
                0xdc00_0000 | code << 18 | any[0] & 0x1_0fff,
                0x007f_0000 & random.one_of(&[0, u32::MAX]) | random.word() & 0xff00_ffff,
            ],
            Family::Global => {
                let scalar = random.one_of(&[0x7f, 0x7f, 0x10]) << 16;
                [0xdc00_8000 | code << 18 | any[0] & 0x1_1fff, scalar | random.word() & 0xff00_ffff]
            }
            Family::Mubuf => {
                let registers = random.word() & 0x000f_ffff | random.one_of(&[0x80, 0x88, 0x20, 0x31]) << 24;
                [0xe000_0000 | code << 18 | any[0] & 0x7fff, registers]
            }
            Family::Smem => {
                let offset = random.one_of(&[0, any[1], any[1] & 0xfff, any[1] | 1 << 20]) & 0x001f_ffff;
                [
                    0xc000_0000 | code << 18 | any[0] & random.one_of(&[0x1ff7, 0x1_5ff7, 0x3_5ff7, 0x3_1ff7]),
                    offset | 0x31 << 25,
                ]
            }
            Family::Sop2 => [0x8000_0000 | code << 23 | any[0] & 0x007f_ffff, any[1]],
            Family::Sopk => [0xb000_0000 | code << 23 | any[0] & 0x007f_ffff, any[1]],
            Family::Sop1 => [0xbe80_0000 | code << 8 | any[0] & 0x007f_00ff, any[1]],
            _ => [0xbf00_0000 | code << 16 | any[0] & 0xffff, any[1]],
        }
    }

    /// Another state, of which the instruction's sources are interesting.
    fn renew(&mut self, inst: &Inst) {
        let (w, random) = (&mut self.before, &mut self.random);
        w.sgpr.fill_with(|| bits(random, Kind::F32) as u32);
        let sparse = random.next() & random.next() & random.next() & random.next();
        w.set_exec(random.one_of(&[sparse, sparse, sparse | 0xf, 1 << 63 | sparse, random.0 & 0xf000_ff00_0ff0_000f]));
        if random.below(40) == 0 {
            w.set_exec(random.one_of(&[0, u64::MAX]));
        }
        w.scc = random.below(2) == 0;
        let modes = [0x3f0, 0x3f0, 0x300, 0x3f0 | random.word() & 15, random.word() & 0x3ff, random.word() & 0x1ff];
        w.mode = Mode(random.one_of(&modes) | if random.below(4) == 0 { Mode::FP16_OVFL } else { 0 });
        for s in 0..3 {
            let (kind, operand) = (inst.op.src[s], inst.src[s]);
            if !operand.is_some() || kind == Kind::None {
                continue;
            }
            let kind = if kind == Kind::Mix { random.one_of(&[Kind::F16, Kind::F32]) } else { kind };
            let shared = bits(random, kind);
            let all_same = random.below(4) == 0;
            for lane in 0..LANES {
                let value = if all_same { shared } else { bits(random, kind) };
                if operand.is_vector() {
                    w.vector_mut(operand, 0)[lane] = value as u32;
                    if kind.dwords() == 2 {
                        w.vector_mut(operand, 1)[lane] = (value >> 32) as u32;
                    }
                }
            }
            let is_special = operand == Operand::EXEC || operand.0 == Operand::EXEC.0 + 1;
            if operand.is_scalar_register() && !is_special && operand.0 + 1 < Operand::EXEC.0 {
                if kind.dwords() == 2 { w.set_pair(operand, shared) } else { w.set_sgpr(operand, shared as u32) }
            }
        }
    }

    /// As [`Machine::compare`], of an operation that accesses LDS or memory.
    pub(crate) fn compare_access(&mut self, op: &'static Op, body: &Body, bodies: &Bodies) -> Result<(), String> {
        let found = (0..10_000).find_map(|_| {
            let words = self.words(op);
            let inst = self.decoders[0].decode(&words).ok()?;
            // Of one place there is one write, of the first data, by the manual: `modes` tests it.
            let is_one = matches!(op.access, Access::Store2(..)) && inst.imm & 0xff == inst.imm >> 8 & 0xff;
            (std::ptr::eq(inst.op, op) && accesses::is_modelled(&inst) && !is_one).then_some((inst, words))
        });
        let (inst, words) = found.ok_or("no random words are this operation")?;
        self.renew(&inst);
        self.address(&inst);
        let mut expected_memory = self.memory.clone();
        let expected = accesses::expected(&self.before, &inst, body, bodies, &mut expected_memory);
        let arch = self.arch;
        let text = || format!("{words:08x?} {}, mode {:#x}", Disassembly { inst: &inst, arch }, self.before.mode.0);
        let expected = expected.map_err(|error| format!("{}: {error}", text()))?;
        for decoder in &self.decoders {
            let inst = decoder.decode(&words).map_err(|error| error.to_string())?;
            self.after.clone_state(&self.before);
            let mut memory = self.memory.clone();
            step::execute(&mut self.after, &inst, &mut memory);
            differs(&self.before, &self.after, &inst, &expected).map_err(|error| format!("{}: {error}", text()))?;
            for (what, got, expected) in
                [("LDS", &memory.lds, &expected_memory.lds), ("memory", &memory.bytes, &expected_memory.bytes)]
            {
                if let Some(at) = (0..got.len()).find(|&n| got[n] != expected[n]) {
                    let around = at & !7..(at & !7) + 8;
                    return Err(format!(
                        "{}: {what} at {at:#x} is {:x?}, expected {:x?}",
                        text(),
                        &got[around.clone()],
                        &expected[around]
                    ));
                }
            }
        }
        self.modes.count(&inst, &self.before);
        Ok(())
    }

    /// Gives the lanes addresses, operands and old values: some share a place, and some are unaligned or outside.
    fn address(&mut self, inst: &Inst) {
        let (w, random) = (&mut self.before, &mut self.random);
        // Both stores of an instruction with two are of one lane: which lane's is last is not in the text.
        if matches!(inst.op.access, Access::Store2(..)) || inst.op.name.contains("wrxchg2") {
            w.set_exec(1 << random.below(LANES));
        }
        // Denormals of sources and of results go together here.
        let keeps = random.one_of(&[0, 0x30, 0xc0, 0xf0]);
        w.mode = Mode(0x300 | random.word() & 15 | keeps);
        let unaligned = random.below(4) == 0 && !matches!(inst.op.access, Access::Atomic(..));
        // Atomics are aligned.
        let before = if matches!(inst.op.access, Access::Atomic(..)) { i64::from(inst.imm) } else { 0 };
        // Whether a sum of offset and M0 keeps its carry, the text leaves open.
        let most = if inst.src[0].is_some() { u32::MAX } else { 0xffff - (inst.imm as u32 & 0xffff) };
        w.set_sgpr(Operand::M0, (4 * (random.word() & 0x1ff)).min(most) & !3);
        for lane in 0..LANES {
            if !inst.src[0].is_vector() {
                break;
            }
            let at = random.one_of(&[8 * (random.0 as u32 % 256), 16, 8 * lane as u32])
                + u32::from(unaligned) * (random.word() & 3);
            // With a scalar base, the vector is an offset.
            let is_address =
                inst.op.src[0].dwords() == 2 && !(inst.op.family == Family::Global && inst.src[2].is_some());
            let base = if is_address { 0x10_0000_0000 | u64::from(at) } else { at.into() };
            let base = if is_address || inst.op.family == Family::Ds { base.wrapping_sub(before as u64) } else { base };
            w.vector_mut(inst.src[0], 0)[lane] = base as u32;
            if is_address {
                w.vector_mut(inst.src[0], 1)[lane] = (base >> 32) as u32;
            }
        }
        let small = 8 * (random.word() & 0xff);
        if inst.op.family == Family::Mubuf {
            // With an index, records are as far apart as they can be: offsets stay inside.
            let (stride, second) =
                if inst.has(control::IDXEN) { (0x3ff8, inst.has(control::OFFEN)) } else { (0, false) };
            let base = 0x20_0000_1000u64.wrapping_sub(before as u64);
            let first = inst.src[1].0;
            w.set_pair(Operand(first), base | stride << 48);
            w.set_pair(Operand(first + 2), u32::MAX.into());
            if inst.src[2].0 < 100 {
                w.set_sgpr(inst.src[2], small);
            }
            if second {
                w.vector_mut(inst.src[0], 1).fill_with(|| 8 * (random.word() & 0x7f));
            }
        } else if inst.op.family == Family::Smem {
            let base = 0x20_0000_1000u64.wrapping_sub(before as u64) + u64::from(unaligned);
            w.set_pair(inst.src[0], base);
            if accesses::is_scalar_buffer(inst) {
                w.set_pair(Operand(inst.src[0].0 + 2), u32::MAX.into());
            }
            if inst.has(control::SOFFSET) {
                w.set_sgpr(inst.src[1], small);
            }
        } else if inst.src[2].is_some() && !inst.src[2].is_vector() {
            w.set_pair(inst.src[2], 0x20_0000_1000u64.wrapping_sub(before as u64));
        }
        // Sums of floats have numbers below two of each width: which NaN a sum is, the text does not say.
        let numbers = if inst.op.name.contains("add") && inst.op.name.contains("f") {
            0xbfff_bfff_bfff_bfffu64
        } else {
            u64::MAX
        };
        let kind = if inst.op.name.contains("f64") { Kind::F64 } else { random.one_of(&[Kind::F32, Kind::F16]) };
        for bytes in [&mut self.memory.lds, &mut self.memory.bytes] {
            let many = bytes.len().min(1 << 13);
            for place in bytes[..many].chunks_exact_mut(8) {
                place.copy_from_slice(&(bits(random, kind) & numbers).to_le_bytes());
            }
        }
        let data = [1, 2].map(|s| (inst.src[s], inst.op.src[s])).into_iter().chain([(inst.dst, inst.op.dst)]);
        for (operand, kind) in data.filter(|(operand, _)| operand.is_some() && operand.is_vector()) {
            for n in 0..kind.dwords() {
                w.vector_mut(operand, n).iter_mut().for_each(|word| *word &= numbers as u32);
            }
        }
    }

    /// Makes an instruction of an operation, executes it, and says what differs.
    pub(crate) fn compare(&mut self, op: &'static Op, body: &Body, bodies: &Bodies) -> Result<(), String> {
        let (inst, words) = (0..10_000)
            .find_map(|_| {
                let words = self.words(op);
                let inst = self.decoders[0].decode(&words).ok()?;
                (std::ptr::eq(inst.op, op) && is_defined(&inst)).then_some((inst, words))
            })
            .ok_or("no random words are this operation")?;
        self.renew(&inst);
        let arch = self.arch;
        let expected = model::expected(&self.before, &inst, body, bodies);
        let text = || format!("{words:08x?} {}, mode {:#x}", Disassembly { inst: &inst, arch }, self.before.mode.0);
        let expected = expected.map_err(|error| format!("{}: {error}", text()))?;
        for decoder in &self.decoders {
            let inst = decoder.decode(&words).map_err(|error| error.to_string())?;
            self.after.clone_state(&self.before);
            step::execute(&mut self.after, &inst, &mut self.memory);
            differs(&self.before, &self.after, &inst, &expected).map_err(|error| format!("{}: {error}", text()))?;
        }
        let block = Block::new([&inst].into_iter());
        if inst.op.micros.is_some() && !block.is_empty() {
            self.after.clone_state(&self.before);
            block.execute(&mut self.after, &mut self.memory, u64::MAX, false);
            differs(&self.before, &self.after, &inst, &expected)
                .map_err(|error| format!("{} in a block: {error}", text()))?;
        }
        self.modes.count(&inst, &self.before);
        Ok(())
    }
}

/// True for an instruction of which the manuals say what it does.
fn is_defined(inst: &Inst) -> bool {
    // A constant of four dwords is not known to be one thing or another.
    let is_wide = |(source, kind): (&Operand, Kind)| matches!(kind, Kind::Dwords(_)) && !source.is_vector();
    // Nor which of two results EXEC gets that is both saved and computed.
    let saves_exec = inst.op.name.contains("saveexec") || inst.op.name.contains("wrexec");
    let is_twice = saves_exec && inst.dst.0.abs_diff(Operand::EXEC.0) < 2;
    !is_twice && !inst.src.iter().zip(inst.op.src).any(is_wide)
}

const CONTROLS: [u32; 14] =
    [0x1b, 0xe4, 0x55, 0x101, 0x10f, 0x111, 0x124, 0x130, 0x134, 0x138, 0x140, 0x142, 0x143, 0x153];

trait CloneState {
    fn clone_state(&mut self, from: &Wave);
}

impl CloneState for Wave {
    fn clone_state(&mut self, from: &Wave) {
        self.vgpr.copy_from_slice(&from.vgpr[..]);
        (self.sgpr, self.scc, self.mode, self.trap, self.pc) = (from.sgpr, from.scc, from.mode, None, from.pc);
    }
}

/// What of a state is not as expected.
fn differs(before: &Wave, after: &Wave, inst: &Inst, expected: &model::Expected) -> Result<(), String> {
    if let Some(trap) = after.trap {
        return Err(format!("the wave stopped: {trap:?}"));
    }
    let dwords = inst.op.dst.dwords().max(1) as usize;
    for words in expected.vectors.chunks(dwords) {
        let got: Vec<u32> = words.iter().map(|&(register, lane, _)| after.vgpr[register][lane]).collect();
        let wanted: Vec<u32> = words.iter().map(|&(.., value)| value).collect();
        let is_free = expected.partial >> words[0].1 & 1 == 1;
        if !is_free && !model::alike(inst, expected.approximate, &got, &wanted) {
            let lane = words[0].1;
            let sources: Vec<String> = inst
                .src
                .iter()
                .filter(|source| source.is_some() && source.is_vector())
                .map(|&source| format!("{:#x}:{:#x}", before.vector(source, 1)[lane], before.vector(source, 0)[lane]))
                .collect();
            return Err(format!("lane {lane} is {got:x?}, expected {wanted:x?}, of {sources:?}"));
        }
    }
    for register in (0..before.vgpr.len()).filter(|&n| before.vgpr[n] != after.vgpr[n]) {
        let written = |lane: usize| expected.vectors.iter().any(|&(r, l, _)| (r, l) == (register, lane));
        if let Some(lane) = (0..LANES).find(|&l| before.vgpr[register][l] != after.vgpr[register][l] && !written(l)) {
            return Err(format!("register {register}, lane {lane} is written"));
        }
    }
    if let Some(n) = (0..128).find(|&n| expected.sgpr[n] != after.sgpr[n]) {
        return Err(format!("scalar register {n} is {:#x}, expected {:#x}", after.sgpr[n], expected.sgpr[n]));
    }
    if expected.scc != after.scc {
        return Err(format!(
            "SCC is {}, operands {:x?}",
            after.scc,
            inst.src.map(|s| if s.is_some() { before.pair(s) } else { 0 })
        ));
    }
    Ok(())
}
