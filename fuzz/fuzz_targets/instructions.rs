//! Random words as a program: what decodes is disassembled and executed, and nothing may panic.
//!
//! The first byte chooses the processor, the next eight seed the registers, the rest is code.

#![no_main]

use amdgpu_isa::disasm::Disassembly;
use amdgpu_isa::mode::Mode;
use amdgpu_isa::op::Flow;
use amdgpu_isa::wave::{Wave, vgpr_file};
use amdgpu_isa::{Arch, Decoder, step};
use libfuzzer_sys::fuzz_target;

#[path = "../../emulator/isa/tests/oracles/memory.rs"]
mod memory;

fuzz_target!(|data: &[u8]| {
    let Some((head, code)) = data.split_first_chunk::<9>() else { return };
    let arch = Arch::ALL[usize::from(head[0]) % Arch::ALL.len()];
    let decoder = Decoder::new(arch);
    let mut seed = u64::from_le_bytes([head[1], head[2], head[3], head[4], head[5], head[6], head[7], head[8]]);
    let mut next = || {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 32) as u32
    };
    let mut wave = Wave::new(arch, 0, vgpr_file());
    wave.sgpr.fill_with(&mut next);
    wave.mode = Mode(next());
    for register in wave.vgpr.iter_mut() {
        register.fill_with(&mut next);
    }
    let mut machine = memory::Memory::new(4096);
    let mut words: &[u32] =
        &code.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect::<Vec<_>>();
    // Jumps are executed, but the code is read in sequence: every instruction is reached.
    while let Some(rest) = words.get(1..) {
        let Ok(inst) = decoder.decode(words) else {
            words = rest;
            continue;
        };
        let text = Disassembly { inst: &inst, arch }.to_string();
        assert!(!text.is_empty());
        if step::execute(&mut wave, &inst, &mut machine) == Flow::Trap {
            assert!(wave.trap.take().is_some(), "{text} gave no reason");
        }
        words = &words[usize::from(inst.size) / 4..];
    }
});
