//! Loads into LDS of MI300, which are instructions of their own: a dword for each lane, one after the other.

use amdgpu_isa::Arch;
use amdgpu_isa::wave::LANES;

use crate::machine::Machine;

/// Sizes by their names: bytes, signed.
const SIZES: [(&str, usize, bool); 5] =
    [("ubyte", 1, false), ("sbyte", 1, true), ("ushort", 2, false), ("sshort", 2, true), ("dword", 4, false)];

/// A family, the operands, and where lane `l` then loads from.
type Way = (&'static str, &'static str, fn(usize) -> usize);

/// With v2 as 3 * l, and a scalar of 0x100.
const WAYS: [Way; 5] = [
    ("global", "v[2:3], off offset:8", |l| 3 * l + 8),
    ("global", "v2, s[4:5] offset:-4", |l| 0x100 + 3 * l - 4),
    // Dwords of lanes are interleaved.
    ("scratch", "v2, off offset:4", |l| scratch(3 * l + 4, l)),
    ("scratch", "off, s4 offset:4", |l| scratch(0x104, l)),
    ("scratch", "v2, s4", |l| scratch(0x100 + 3 * l, l)),
];

fn scratch(offset: usize, lane: usize) -> usize {
    offset / 4 * 4 * LANES + 4 * lane + offset % 4
}

#[test]
fn loads_into_lds_write_a_dword_for_each_active_lane() {
    for (family, operands, at) in WAYS {
        for (size, bytes, signed) in SIZES {
            let line = format!("{family}_load_lds_{size} {operands}");
            let mut m = Machine::new(Arch::Gfx942, &line);
            let active = 0xffff_0fff_1234_5677;
            m.wave.set_exec(active);
            for (n, byte) in m.memory.bytes.iter_mut().enumerate() {
                *byte = (n * 37 + n / 256 * 91) as u8;
            }
            m.memory.lds.fill(0xaa);
            *m.v(2) = std::array::from_fn(|l| 3 * l as u32);
            *m.v(3) = [0; LANES];
            m.wave.sgpr[4..6].copy_from_slice(&[0x100, 0]);
            m.wave.sgpr[102..104].copy_from_slice(&[0, 0]);
            // Above the offset, M0 has no meaning.
            m.wave.sgpr[124] = 0xffff_0040;
            m.run();
            let offset = operands.split_once("offset:").map_or(0, |(_, imm)| imm.parse::<i32>().expect("a number"));
            for l in 0..LANES {
                let from = &m.memory.bytes[at(l)..at(l) + bytes];
                let value = from.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
                let unused = 32 - 8 * bytes as u32;
                let extended = if signed { ((value << unused) as i32 >> unused) as u32 } else { value };
                let place = (0x40 + offset + 4 * l as i32) as usize;
                let found = u32::from_le_bytes(m.memory.lds[place..place + 4].try_into().expect("a dword"));
                let expected = if active >> l & 1 == 1 { extended } else { 0xaaaa_aaaa };
                assert_eq!(found, expected, "{line}, lane {l}");
            }
        }
    }
}
