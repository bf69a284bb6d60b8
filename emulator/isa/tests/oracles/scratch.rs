//! Scratch memory, whose dwords are interleaved by lane: what is not aligned is what its bytes are, one by one.

use amdgpu_isa::Arch;
use amdgpu_isa::wave::LANES;

use crate::machine::Machine;

/// Instructions of a family on scratch at the offset in v2, between the operands: name and what comes after.
const WAYS: [(&str, &str); 2] = [("scratch", ", off"), ("buffer", ", s[0:3], 0 offen")];

/// Bytes of each lane.
const BYTES: usize = 20;

#[test]
fn scratch_that_is_not_aligned_is_its_bytes_one_by_one() {
    for (family, space) in WAYS {
        // Stores of `scratch_` have the address first.
        let store = |size: &str, register: &str, offset: &str| match family {
            "scratch" => format!("{family}_store_{size} v2, {register}{space}{offset}\n"),
            _ => format!("{family}_store_{size} {register}, v2{space}{offset}\n"),
        };
        let load = |size: &str, register: &str| format!("{family}_load_{size} {register}, v2{space} offset:3\n");
        let mut fill = Machine::new(Arch::Gfx90a, &store("byte", "v1", ""));
        let loads = load("dword", "v3") + &load("dwordx2", "v[4:5]") + &load("ushort", "v7");
        let mut machine = Machine::new(Arch::Gfx90a, &(loads + &store("dword", "v6", " offset:1")));
        for machine in [&mut fill, &mut machine] {
            machine.wave.set_exec(u64::MAX);
            // The descriptor that the runtime makes: swizzled, the lane is added, 64 lanes of four bytes.
            machine.wave.sgpr[..4].copy_from_slice(&[0x1000, 1 << 31, u32::MAX, 3 << 21 | 1 << 23]);
            // The flat scratch base.
            machine.wave.sgpr[102..104].copy_from_slice(&[0x1000, 0]);
        }
        let mut bytes = [[0u8; BYTES]; LANES];
        for n in 0..BYTES {
            fill.v(2).fill(n as u32);
            for (l, lane) in bytes.iter_mut().enumerate() {
                lane[n] = (l * 37 + n * 11 + 1) as u8;
                fill.v(1)[l] = lane[n].into();
            }
            fill.run();
        }
        machine.memory = fill.memory;
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |word, &byte| word << 8 | u64::from(byte));
        for round in 0..4 {
            // Lanes at different places.
            let at: [usize; LANES] = std::array::from_fn(|l| (l + round) % 7);
            let stored = std::array::from_fn(|l| 0xa1b2_c3d4 ^ (l * round) as u32);
            *machine.v(2) = at.map(|at| at as u32);
            *machine.v(6) = stored;
            machine.run();
            let (dwords, pairs, shorts) = (*machine.v(3), machine.v64(4), *machine.v(7));
            for (l, lane) in bytes.iter_mut().enumerate() {
                let from = at[l] + 3;
                let expected = [word(&lane[from..from + 4]), word(&lane[from..from + 8]), word(&lane[from..from + 2])];
                let found = [dwords[l].into(), pairs[l], shorts[l].into()];
                assert_eq!(found, expected, "{family}, lane {l} at {from}");
                lane[at[l] + 1..at[l] + 5].copy_from_slice(&stored[l].to_le_bytes());
            }
        }
    }
}
