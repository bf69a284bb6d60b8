//! Blocks compute what their instructions compute one by one.

use std::collections::BTreeSet;

use amdgpu_isa::block::Block;
use amdgpu_isa::disasm::Disassembly;
use amdgpu_isa::inst::Inst;
use amdgpu_isa::op::Op;
use amdgpu_isa::{Arch, Decoder, step};

use crate::memory::Memory;
use crate::random_execution::{bits, copy, wave};
use crate::seeded::{Seeded, words};

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
            let (whole, _) = block.execute(&mut one, u64::MAX);
            (one.sgpr, one.scc) = (other.sgpr, other.scc);
            // To its end, or as far as a slice goes.
            let most = if random.below(2) == 0 { u64::MAX } else { 1 + random.below(chain.len()) as u64 };
            let (executed, bytes) = block.execute(&mut one, most);
            assert_eq!(executed, whole.min(most));
            let chain = &chain[..executed as usize];
            for inst in chain {
                step::execute(&mut other, inst, &mut Memory::new(0));
                met.insert(inst.op.name);
            }
            let text: Vec<_> = chain.iter().map(|inst| Disassembly { inst, arch }.to_string()).collect();
            assert_eq!((one.pc.wrapping_add_signed(bytes), one.scc), (other.pc, other.scc), "{arch}: {text:#?}");
            assert_eq!(one.sgpr, other.sgpr, "{arch}: {text:#?}");
        }
        let rows = amdgpu_isa::rows().filter(|op| is_of_blocks(op) && op.archs.contains(arch));
        assert_eq!(rows.map(|op| op.name).collect::<BTreeSet<_>>(), met, "{arch}: operations of blocks");
    }
}

#[test]
fn a_block_ends_with_a_jump_or_before_what_is_not_of_the_scalar_alu_or_reads_what_is_in_no_register() {
    // The words and the texts are llvm-mc's.
    let program = [
        ([0x8100_8100, 0], "s_add_i32 s0, s0, 1"),
        ([0x8601_ff00, 0x8000_0000], "s_and_b32 s1, s0, 0x80000000"),
        ([0x8582_80c1, 0], "s_cselect_b64 s[2:3], -1, 0"),
        ([0xbf84_fffe, 0], "s_cbranch_scc0 65534"),
        ([0xbe84_01f2, 0], "s_mov_b64 s[4:5], 1.0"),
        ([0xbe84_01ff, 0x8000_0000], "s_mov_b64 s[4:5], 0x80000000"),
        ([0xbe84_01eb, 0], "s_mov_b64 s[4:5], src_shared_base"),
        ([0x8004_fd00, 0], "s_add_u32 s4, s0, src_scc"),
        ([0xc002_0000, 0], "s_load_dword s0, s[0:1], 0x0"),
        ([0x7e00_0300, 0], "v_mov_b32_e32 v0, v0"),
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
    let mut execute = |first: usize| {
        wave.sgpr[0] = 7;
        Block::new(program[first..].iter()).execute(&mut wave, u64::MAX)
    };
    // The sum does not overflow: without the conjunction behind it, the jump is taken.
    assert_eq!([0, 1, 2, 3].map(&mut execute), [(4, 16 - 4), (3, 16 - 4 - 4), (2, 0), (1, -4)]);
    assert_eq!([4, 5, 6, 7, 8, 9].map(&mut execute), [(0, 0); 6]);
}
