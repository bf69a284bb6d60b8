//! Blocks compute what their instructions compute one by one.

use std::collections::BTreeSet;

use amdgpu_isa::block::{Block, Executed, LONGEST};
use amdgpu_isa::disasm::Disassembly;
use amdgpu_isa::inst::{Inst, control};
use amdgpu_isa::op::{Family, Flow, Op};
use amdgpu_isa::{Arch, Decoder, step};

use crate::memory::Memory;
use crate::random_execution::{bits, copy, renew, wave};
use crate::seeded::{Seeded, instruction, words};

/// Random instructions of the scalar ALU, and perhaps a jump behind them.
fn chain(decoder: &Decoder, random: &mut Seeded) -> Vec<Inst> {
    let mut chain: Vec<Inst> = Vec::new();
    let length = 1 + random.below(40);
    while chain.len() < length && chain.last().is_none_or(|i| i.op.taken.is_none()) {
        chain.extend(decoder.decode(&words(random)).ok().filter(|i| is_of_blocks(i.op)));
    }
    chain
}

fn is_of_blocks(op: &Op) -> bool {
    op.micros.is_some() || op.taken.is_some()
}

#[test]
fn blocks_of_random_scalar_instructions_compute_what_these_compute_one_by_one() {
    for arch in Arch::ALL {
        let decoder = Decoder::new(arch);
        let mut random = Seeded(0x300 + arch as u64);
        let mut met = BTreeSet::new();
        let mut one = wave(arch, &mut random);
        let mut other = copy(&one);
        for _ in 0..4_000 {
            let chain = chain(&decoder, &mut random);
            one.sgpr.fill_with(|| bits(&mut random));
            (other.pc, other.sgpr) = (one.pc, one.sgpr);
            let block = Block::new(chain.iter());
            let whole = block.execute(&mut one, &mut Memory::new(0), u64::MAX, false).instructions;
            (one.sgpr, one.scc) = (other.sgpr, other.scc);
            // To its end, or as far as a slice goes.
            let most = if random.below(2) == 0 { u64::MAX } else { 1 + random.below(chain.len()) as u64 };
            let done = block.execute(&mut one, &mut Memory::new(0), most, false);
            assert_eq!((done.instructions, done.flow), (whole.min(most), Flow::Next));
            let chain = &chain[..done.instructions as usize];
            for inst in chain {
                step::execute(&mut other, inst, &mut Memory::new(0));
                met.insert(inst.op.name);
            }
            let text: Vec<_> = chain.iter().map(|inst| Disassembly { inst, arch }.to_string()).collect();
            assert_eq!((one.pc.wrapping_add_signed(done.bytes), one.scc), (other.pc, other.scc), "{arch}: {text:#?}");
            assert_eq!(one.sgpr, other.sgpr, "{arch}: {text:#?}");
        }
        let rows = amdgpu_isa::rows().filter(|op| is_of_blocks(op) && op.archs.contains(arch));
        assert_eq!(rows.map(|op| op.name).collect::<BTreeSet<_>>(), met, "{arch}: operations of blocks");
    }
}

/// Random instructions of every kind. Those that nearly always trap on random registers are few, and so are those that end blocks.
fn program(decoder: &Decoder, random: &mut Seeded) -> Vec<Inst> {
    let mut program: Vec<Inst> = Vec::new();
    let length = 1 + random.below(40);
    while program.len() < length {
        let Ok(inst) = decoder.decode(&instruction(random)) else { continue };
        let is_rare = match inst.op.family {
            Family::Smem | Family::Flat | Family::Scratch | Family::Global | Family::Mubuf => true,
            Family::Sopp | Family::Sopk | Family::Sop1 | Family::Sop2 | Family::Sopc => !is_of_blocks(inst.op),
            _ => inst.has(control::GDS),
        };
        if !is_rare || random.below(8) == 0 {
            program.push(inst);
        }
    }
    program
}

#[test]
fn blocks_of_random_instructions_of_every_kind_compute_what_these_compute_one_by_one() {
    for arch in Arch::ALL {
        let decoder = Decoder::new(arch);
        let mut random = Seeded(0x400 + arch as u64);
        let mut one = wave(arch, &mut random);
        let mut other = copy(&one);
        let (mut flows, mut families, mut longest) = (Vec::new(), BTreeSet::new(), 0);
        for _ in 0..1_500 {
            let program = program(&decoder, &mut random);
            renew(&mut one, &mut random);
            other.vgpr.copy_from_slice(&one.vgpr[..]);
            (other.pc, other.sgpr, other.scc, other.mode) = (one.pc, one.sgpr, one.scc, one.mode);
            (other.trap, other.coherent) = (one.trap, one.coherent);
            let mut memories = [Memory::new(4096), Memory::new(4096)];
            let most = if random.below(2) == 0 { u64::MAX } else { 1 + random.below(program.len()) as u64 };
            let stays = random.below(2) == 0;
            let done = Block::new(program.iter()).execute(&mut one, &mut memories[0], most, stays);
            let program = &program[..done.instructions as usize];
            let text: Vec<_> = program.iter().map(|inst| Disassembly { inst, arch }.to_string()).collect();
            assert!(done.instructions <= most.min(LONGEST as u64), "{arch}: {text:#?}");
            for (n, inst) in program.iter().enumerate() {
                let flow = step::execute(&mut other, inst, &mut memories[1]);
                families.insert(inst.op.family);
                if n + 1 < program.len() {
                    assert!(flow == Flow::Next || flow == Flow::Wait && !stays, "{arch}: {flow:?} within {text:#?}");
                } else if flow == Flow::Trap {
                    other.pc -= u64::from(inst.size);
                    assert_eq!(done.flow, flow, "{arch}: {text:#?}");
                } else if flow != Flow::Wait || stays {
                    assert_eq!(done.flow, flow, "{arch}: {text:#?}");
                }
            }
            if !flows.contains(&done.flow) {
                flows.push(done.flow);
            }
            longest = longest.max(program.len());
            one.pc = one.pc.wrapping_add_signed(done.bytes);
            assert_eq!((one.pc, one.scc, one.trap), (other.pc, other.scc, other.trap), "{arch}: {text:#?}");
            assert_eq!((one.mode, one.coherent), (other.mode, other.coherent), "{arch}: {text:#?}");
            assert_eq!(one.sgpr, other.sgpr, "{arch}: {text:#?}");
            assert!(one.vgpr == other.vgpr, "{arch}: vector registers of {text:#?}");
            assert!(memories[0].lds == memories[1].lds, "{arch}: LDS of {text:#?}");
            assert!(memories[0].bytes == memories[1].bytes, "{arch}: memory of {text:#?}");
        }
        assert!([Flow::Next, Flow::Wait, Flow::Trap].iter().all(|flow| flows.contains(flow)), "{arch}: {flows:?}");
        assert!(longest == LONGEST && families.len() >= 14, "{arch}: {longest} instructions, {families:?}");
    }
}

#[test]
fn a_block_is_a_chain_of_the_scalar_alu_or_a_stretch_that_has_few_of_its_instructions() {
    // The words and the texts are llvm-mc's.
    let program = [
        ([0x8100_8100, 0], "s_add_i32 s0, s0, 1"),
        ([0x8601_ff00, 0x8000_0000], "s_and_b32 s1, s0, 0x80000000"),
        ([0x8582_80c1, 0], "s_cselect_b64 s[2:3], -1, 0"),
        ([0xbf84_fffe, 0], "s_cbranch_scc0 65534"),
        ([0xbe84_01f2, 0], "s_mov_b64 s[4:5], 1.0"),
        ([0xbe84_01eb, 0], "s_mov_b64 s[4:5], src_shared_base"),
        ([0x7e00_0300, 0], "v_mov_b32_e32 v0, v0"),
        ([0xbf8c_0f70, 0], "s_waitcnt vmcnt(0)"),
        ([0x8100_8100, 0], "s_add_i32 s0, s0, 1"),
        ([0x7e00_0300, 0], "v_mov_b32_e32 v0, v0"),
        ([0x8100_8100, 0], "s_add_i32 s0, s0, 1"),
        ([0x8100_8100, 0], "s_add_i32 s0, s0, 1"),
        ([0x8100_8100, 0], "s_add_i32 s0, s0, 1"),
        ([0xbf8a_0000, 0], "s_barrier"),
    ];
    let arch = Arch::Gfx90a;
    let decoder = Decoder::new(arch);
    let program: Vec<_> = program
        .into_iter()
        .map(|(words, text)| {
            let inst = decoder.decode(&words).unwrap();
            assert_eq!(Disassembly { inst: &inst, arch }.to_string().trim(), text);
            inst
        })
        .collect();
    let mut wave = wave(arch, &mut Seeded(1));
    let mut execute = |first: usize, stays: bool| {
        wave.sgpr[0] = 7;
        let block = Block::new(program[first..].iter());
        let Executed { instructions, bytes, flow } = block.execute(&mut wave, &mut Memory::new(0), u64::MAX, stays);
        (instructions, bytes, flow)
    };
    // The sum does not overflow: without the conjunction behind it, the jump is taken.
    let chains = [(4, 16 - 4, Flow::Next), (3, 16 - 4 - 4, Flow::Next), (2, 0, Flow::Next), (1, -4, Flow::Next)];
    assert_eq!([0, 1, 2, 3].map(|first| execute(first, true)), chains);
    // Constants that have no compact form are those of a stretch, which ends before three that have one.
    assert_eq!(execute(4, false), (6, 24, Flow::Next));
    assert_eq!(execute(4, true), (4, 16, Flow::Wait));
    assert_eq!(execute(10, true), (3, 12, Flow::Next));
    assert_eq!(execute(13, true), (0, 0, Flow::Next));
}
