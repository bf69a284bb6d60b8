//! The registers that instructions are said to read and write, against what executing them reads and writes: random
//! instructions run twice, with other values in all registers that they are said not to read.

use amdgpu_isa::disasm::Disassembly;
use amdgpu_isa::inst::Inst;
use amdgpu_isa::mode::Mode;
use amdgpu_isa::op::Family;
use amdgpu_isa::operand::Operand;
use amdgpu_isa::uses::{Set, Uses};
use amdgpu_isa::wave::{Wave, vgpr_file};
use amdgpu_isa::{Arch, Decoder, step};

use crate::memory::Memory;
use crate::seeded::{Seeded, instruction};

/// Instructions executed for each processor.
fn count() -> usize {
    if std::env::var_os("LOGDUR_TEST_FULL").is_some() { 200_000 } else { 10_000 }
}

/// A wave with small numbers in its registers: addresses of the memory, and no NaN.
fn wave(arch: Arch, random: &mut Seeded) -> Wave {
    let mut w = Wave::new(arch, 0x1000, vgpr_file());
    for register in w.vgpr.iter_mut() {
        register.fill_with(|| random.word() & 0xff);
    }
    w.sgpr.fill_with(|| random.word() & 0xff);
    w.set_exec(random.next());
    w.scc = random.below(2) == 0;
    w.mode = Mode(0xf0);
    w.apertures.shared = 0x0001_0000;
    w.apertures.private = 0x0002_0000;
    w
}

/// Numbers of vector registers and codes of scalar registers.
fn members(w: &Wave, set: &Set) -> (Vec<usize>, Vec<usize>) {
    let (mut vectors, mut scalars) = (Vec::new(), Vec::new());
    for range in set.ranges() {
        for n in 0..range.count {
            if range.first.is_vector() {
                vectors.push(w.vgpr_index(range.first, n));
            } else {
                scalars.push((usize::from(range.first.0) + n as usize) & 127);
            }
        }
    }
    (vectors, scalars)
}

/// A copy in which every register that is neither read nor EXEC has another value.
fn twin(w: &Wave, reads: &Set, random: &mut Seeded) -> Wave {
    let mut file = vgpr_file();
    file.copy_from_slice(&w.vgpr[..]);
    let mut other = Wave::new(w.arch, w.pc, file);
    (other.sgpr, other.scc, other.mode, other.apertures) = (w.sgpr, w.scc, w.mode, w.apertures);
    let (vectors, scalars) = members(w, reads);
    for register in (0..w.vgpr.len()).filter(|r| !vectors.contains(r)) {
        other.vgpr[register].fill_with(|| random.word());
    }
    let exec = usize::from(Operand::EXEC.0);
    for code in (0..128).filter(|code| !scalars.contains(code) && *code != exec && *code != exec + 1) {
        other.sgpr[code] = random.word();
    }
    other
}

fn text(inst: &Inst, arch: Arch) -> String {
    Disassembly { inst, arch }.to_string()
}

#[test]
fn an_instruction_depends_on_no_register_but_those_it_is_said_to_read_and_changes_only_those_it_is_said_to_write() {
    for arch in Arch::ALL {
        let decoder = Decoder::new(arch);
        let mut random = Seeded(0x300 + arch as u64);
        let mut executed = 0;
        let mut w = wave(arch, &mut random);
        while executed < count() {
            let Ok(inst) = decoder.decode(&instruction(&mut random)) else { continue };
            // What these read is in the machine, not in registers.
            if matches!(inst.op.name, "s_memtime" | "s_memrealtime") || inst.op.family == Family::Sopp {
                continue;
            }
            executed += 1;
            if executed % 16 == 1 {
                w = wave(arch, &mut random);
            }
            let uses = Uses::of(&inst);
            let mut other = twin(&w, &uses.reads, &mut random);
            let before = (w.sgpr, other.sgpr);
            let mut files = (vgpr_file(), vgpr_file());
            files.0.copy_from_slice(&w.vgpr[..]);
            files.1.copy_from_slice(&other.vgpr[..]);
            let (mut a, mut b) = (Memory::new(4096), Memory::new(4096));
            let flows = (step::execute(&mut w, &inst, &mut a), step::execute(&mut other, &inst, &mut b));
            let shown = text(&inst, arch);
            assert_eq!((flows.0, w.pc), (flows.1, other.pc), "{shown}");
            w.mode = Mode(0xf0);
            if w.trap.take().is_some() {
                w = wave(arch, &mut random);
                continue;
            }
            assert!(a.bytes == b.bytes && a.lds == b.lds, "{shown}: memory differs");
            let (vectors, scalars) = members(&w, &uses.writes);
            for register in 0..w.vgpr.len() {
                let same = (w.vgpr[register] == files.0[register], other.vgpr[register] == files.1[register]);
                assert!(vectors.contains(&register) || same == (true, true), "{shown}: writes register {register}");
                if !vectors.contains(&register) {
                    continue;
                }
                for lane in 0..64 {
                    // Lanes that stay keep what the twins had.
                    let stays = w.vgpr[register][lane] == files.0[register][lane]
                        && other.vgpr[register][lane] == files.1[register][lane];
                    let alike = w.vgpr[register][lane] == other.vgpr[register][lane];
                    assert!(stays || alike, "{shown}: register {register}, lane {lane} depends on others");
                }
            }
            for code in 0..128 {
                let stays = w.sgpr[code] == before.0[code] && other.sgpr[code] == before.1[code];
                let alike = scalars.contains(&code) && w.sgpr[code] == other.sgpr[code];
                assert!(stays || alike, "{shown}: scalar register {code}");
            }
        }
    }
}
