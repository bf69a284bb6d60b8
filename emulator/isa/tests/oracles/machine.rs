//! Assembler text on a wave: LLVM makes the words, we execute them.

use amdgpu_isa::mode::Mode;
use amdgpu_isa::op::Flow;
use amdgpu_isa::operand::Operand;
use amdgpu_isa::wave::{LANES, Vgpr, Wave, vgpr_file};
use amdgpu_isa::{Arch, Decoder, step};

use crate::llvm_mc::assemble;
use crate::memory::Memory;

/// Denormals are kept, rounding is to nearest, IEEE and clamping of NaN are on: what compute kernels begin with.
pub(crate) const COMPUTE: Mode = Mode(0x3f0);
/// Denormals are flushed, IEEE mode is off.
pub(crate) const FLUSHING: Mode = Mode(0x100);

/// A program on one wave, and what is around it.
pub(crate) struct Machine {
    pub(crate) wave: Wave,
    pub(crate) memory: Memory,
    decoder: Decoder,
    program: Vec<Vec<u32>>,
}

impl Machine {
    /// Assembles a program, one instruction a line.
    pub(crate) fn new(arch: Arch, program: &str) -> Machine {
        let lines: Vec<String> = program.lines().map(|l| l.trim().to_owned()).filter(|l| !l.is_empty()).collect();
        let word = |bytes: &[u32]| bytes.iter().rev().fold(0, |word, byte| word << 8 | byte);
        let encodings = assemble(arch, &lines).into_iter().zip(&lines).map(|(encoding, line)| {
            let encoding = encoding.unwrap_or_else(|| panic!("LLVM does not assemble {line:?} for {arch}"));
            let bytes: Vec<u32> = encoding
                .trim_matches(['[', ']'])
                .split(',')
                .map(|b| u32::from_str_radix(b.trim_start_matches("0x"), 16).expect("a byte"))
                .collect();
            bytes.chunks_exact(4).map(word).collect()
        });
        let program = encodings.collect();
        let mut wave = Wave::new(arch, 0, vgpr_file());
        wave.mode = COMPUTE;
        Machine { wave, memory: Memory::new(1 << 10), decoder: Decoder::new(arch), program }
    }

    /// Executes the program from its beginning to its end.
    pub(crate) fn run(&mut self) {
        for words in &self.program {
            let inst = self.decoder.decode(words).expect("an instruction of the tables");
            assert_eq!(step::execute(&mut self.wave, &inst, &mut self.memory), Flow::Next, "{}", inst.op.name);
        }
    }

    pub(crate) fn v(&mut self, n: u32) -> &mut Vgpr {
        self.wave.vector_mut(Operand::vgpr(n), 0)
    }

    /// Sets a pair of vector registers.
    pub(crate) fn set_v64(&mut self, n: u32, values: [u64; LANES]) {
        *self.v(n) = values.map(|x| x as u32);
        *self.v(n + 1) = values.map(|x| (x >> 32) as u32);
    }

    pub(crate) fn v64(&mut self, n: u32) -> [u64; LANES] {
        let (low, high) = (*self.v(n), *self.v(n + 1));
        std::array::from_fn(|l| u64::from(low[l]) | u64::from(high[l]) << 32)
    }
}
