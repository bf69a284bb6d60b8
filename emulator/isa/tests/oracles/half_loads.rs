//! Loads into half of a register: the other half stays, or is cleared where static memories have error correction.

use amdgpu_isa::Arch;
use amdgpu_isa::op::{Access, Family, Fill, Op};
use amdgpu_isa::wave::LANES;

use crate::machine::Machine;

/// The operands behind the destination, by family: every one of them addresses byte 0x40.
fn operands(family: Family) -> &'static str {
    match family {
        Family::Ds => "v2",
        Family::Flat => "v[2:3]",
        Family::Global => "v[2:3], off",
        Family::Scratch => "v2, off",
        Family::Mubuf => "v2, s[0:3], 0 offen",
        _ => panic!("{family:?} has no loads"),
    }
}

/// Executes loads of the bytes 0xf1 0xf2 into registers that are all ones, and gives back what they then are.
fn loaded(machine: &mut Machine, loads: usize, sramecc: bool, records: u32) -> Vec<u32> {
    machine.wave.sramecc = sramecc;
    machine.wave.set_exec(!2);
    machine.wave.sgpr[..4].copy_from_slice(&[0, 0, records, 0]);
    // The base of scratch, and apertures where nothing is.
    machine.wave.sgpr[102..104].copy_from_slice(&[0, 0]);
    (machine.wave.apertures.shared, machine.wave.apertures.private) = (1, 2);
    // Scratch has the dword at 0x40 of lane 0 at 64 times that.
    for at in [0x40, 0x40 * LANES] {
        machine.memory.bytes[at..at + 2].copy_from_slice(&[0xf1, 0xf2]);
    }
    machine.memory.lds[0x40..0x42].copy_from_slice(&[0xf1, 0xf2]);
    (*machine.v(2), *machine.v(3)) = ([0x40; LANES], [0; LANES]);
    let registers = FIRST..FIRST + loads as u32;
    registers.clone().for_each(|n| *machine.v(n) = [u32::MAX; LANES]);
    machine.run();
    registers.clone().for_each(|n| assert_eq!(machine.v(n)[1], u32::MAX, "a lane that is off keeps what it has"));
    registers.map(|n| machine.v(n)[0]).collect()
}

/// The first destination.
const FIRST: u32 = 8;

#[test]
fn loads_into_half_of_a_register_clear_the_other_half_where_memories_have_error_correction() {
    for arch in Arch::ALL {
        let rows = amdgpu_isa::rows().filter(|op| op.archs.contains(arch));
        let loads: Vec<_> = rows.filter(|op| matches!(op.access, Access::Load(1 | 2, _))).collect();
        let line = |(n, op): (usize, &&Op)| format!("{} v{}, {}\n", op.name, FIRST as usize + n, operands(op.family));
        let program: String = loads.iter().enumerate().map(line).collect();
        let mut machine = Machine::new(arch, &program);
        let mut load = |sramecc, records| loaded(&mut machine, loads.len(), sramecc, records);
        let (kept, cleared) = (load(false, 0x1000), load(true, 0x1000));
        // What is beyond the end of a buffer is zero.
        let (kept_beyond, cleared_beyond) = (load(false, 0), load(true, 0));
        let mut halves = 0;
        for (n, op) in loads.iter().enumerate() {
            let value = match op.access {
                Access::Load(1, Fill::D16 | Fill::D16High) => 0x00f1,
                Access::Load(1, Fill::D16Sign | Fill::D16HighSign) => 0xfff1,
                Access::Load(2, Fill::D16 | Fill::D16High) => 0xf2f1,
                _ => {
                    assert!(!op.name.contains("d16"), "{}", op.name);
                    assert_eq!(kept[n], cleared[n], "{} of {arch} writes the whole register anyway", op.name);
                    continue;
                }
            };
            halves += 1;
            let (shift, rest) = if op.name.ends_with("_hi") { (16, 0xffff) } else { (0, 0xffff_0000) };
            assert_eq!(kept[n], value << shift | rest, "{} of {arch} without error correction", op.name);
            assert_eq!(cleared[n], value << shift, "{} of {arch} with error correction", op.name);
            if op.family == Family::Mubuf {
                assert_eq!([kept_beyond[n], cleared_beyond[n]], [rest, 0], "{} of {arch} beyond the end", op.name);
            }
        }
        assert_eq!(halves, 5 * 6, "bytes with and without sign and shorts, low and high, in five families of {arch}");
    }
}

#[test]
fn vector_operations_that_write_half_of_a_register_keep_the_other_half_whatever_the_memories_have() {
    for sramecc in [false, true] {
        let program =
            "v_add_f16_sdwa v1, v2, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:DWORD src1_sel:DWORD
             v_mad_u16 v3, v2, v2, v2 op_sel:[0,0,0,1]
             v_fma_mixhi_f16 v4, v2, v2, v2
             ds_read_u16_d16 v5, v6
             v_mad_u16 v5, v2, v2, v2 op_sel:[0,0,0,1]";
        let mut machine = Machine::new(Arch::Gfx908, program);
        machine.wave.sramecc = sramecc;
        for n in [1, 3, 4, 5] {
            *machine.v(n) = [0x1234_5678; LANES];
        }
        machine.memory.lds[..2].copy_from_slice(&[0xcd, 0xab]);
        machine.run();
        let halves = [1, 3, 4, 5].map(|n| machine.v(n)[0] & 0xffff);
        assert_eq!(halves, [0x5678, 0x5678, 0x5678, 0xabcd], "sramecc {sramecc}");
    }
}
