//! Buffer accesses with a format: what the programs of HIP do not reach.
//!
//! Source of formats: Vega ISA manual, "Buffer Resource Descriptor". Expected values are worked out by hand.

use amdgpu_isa::Arch;
use amdgpu_isa::wave::LANES;

use crate::machine::Machine;

/// Where the buffer begins in memory.
const BASE: usize = 0x40;
/// What registers hold before.
const OLD: u32 = 0xa5a5_a5a5;
/// The selection of all four components in their order.
const RGBA: u32 = 0o7654;

/// Formats of the components' numbers.
const UNORM: u32 = 0;
const SNORM: u32 = 1;
const USCALED: u32 = 2;
const SSCALED: u32 = 3;
const UINT: u32 = 4;
const SINT: u32 = 5;
const FLOAT: u32 = 7;

/// Lane l at element l of a buffer of 32 elements with these bytes, which begins with `memory`; v4 to v7 are data.
fn machine(program: &str, (data, number, select): (u32, u32, u32), bytes: u32, memory: &[u32]) -> Machine {
    let mut machine = Machine::new(Arch::Gfx90a, program);
    for (place, word) in machine.memory.bytes[BASE..].chunks_exact_mut(4).zip(memory) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    machine.wave.set_exec(u64::MAX);
    machine.wave.sgpr[..4].copy_from_slice(&[BASE as u32, bytes << 16, 32, data << 15 | number << 12 | select]);
    *machine.v(2) = std::array::from_fn(|l| l as u32);
    (4..8).for_each(|n| *machine.v(n) = [OLD; LANES]);
    machine
}

/// The first lane's registers v4 to v7 after a load of an element of so many bytes.
fn loaded(what: &str, format: (u32, u32, u32), bytes: u32, memory: &[u32]) -> [u32; 4] {
    let registers = if what.ends_with("xyzw") && !what.contains("d16") { "v[4:7]" } else { "v4" };
    let registers = if what.contains("d16_xyz") { "v[4:5]" } else { registers };
    let program = format!("buffer_load_format_{what} {registers}, v2, s[0:3], 0 idxen");
    let mut machine = machine(&program, format, bytes, memory);
    machine.run();
    std::array::from_fn(|n| machine.v(4 + n as u32)[0])
}

fn floats(values: [f32; 4]) -> [u32; 4] {
    values.map(f32::to_bits)
}

#[test]
fn components_are_taken_from_the_least_significant_bit_on() {
    // 10 bits of 1, 2, 3 and two of 1; the same with the two bits first.
    assert_eq!(loaded("xyzw", (9, UINT, RGBA), 4, &[1 | 2 << 10 | 3 << 20 | 1 << 30]), [1, 2, 3, 1]);
    assert_eq!(loaded("xyzw", (8, UINT, RGBA), 4, &[1 | 2 << 2 | 3 << 12 | 1 << 22]), [1, 2, 3, 1]);
    assert_eq!(
        loaded("xyzw", (9, SINT, RGBA), 4, &[0x3ff | 0x200 << 10 | 2 << 30]),
        [u32::MAX, -512i32 as u32, 0, -2i32 as u32]
    );
    // Floats without a sign of 11, 11 and 10 bits: 1, 2, 0.5; of 10, 11 and 11 bits: 1.5, infinity, the smallest one.
    let small = 1.0f32 / 1_048_576.0;
    assert_eq!(loaded("xyzw", (6, FLOAT, RGBA), 4, &[0x3c0 | 0x400 << 11 | 0x1c0 << 22]), floats([1.0, 2.0, 0.5, 1.0]));
    assert_eq!(
        loaded("xyzw", (7, FLOAT, RGBA), 4, &[0x1f0 | 0x7c0 << 10 | 1 << 21]),
        floats([1.5, f32::INFINITY, small, 1.0])
    );
    assert_eq!(loaded("xyzw", (14, UINT, RGBA), 16, &[5, 6, 7, 8]), [5, 6, 7, 8]);
    assert_eq!(loaded("xyzw", (13, UINT, RGBA), 12, &[5, 6, 7, 8]), [5, 6, 7, 1], "the fourth is one");
}

#[test]
fn numbers_of_components_are_converted() {
    let word = [0x80 | 0x7f << 8 | 0xff << 16 | 0x01 << 24];
    assert_eq!(loaded("xyzw", (10, UNORM, RGBA), 4, &word), floats([128.0 / 255.0, 127.0 / 255.0, 1.0, 1.0 / 255.0]));
    assert_eq!(loaded("xyzw", (10, SNORM, RGBA), 4, &word), floats([-1.0, 1.0, -1.0 / 127.0, 1.0 / 127.0]));
    assert_eq!(loaded("xyzw", (10, USCALED, RGBA), 4, &word), floats([128.0, 127.0, 255.0, 1.0]));
    assert_eq!(loaded("xyzw", (10, SSCALED, RGBA), 4, &word), floats([-128.0, 127.0, -1.0, 1.0]));
    assert_eq!(loaded("xyzw", (12, FLOAT, RGBA), 8, &[0xc000_3c00, 0x0001_7bff]), {
        floats([1.0, -2.0, 65504.0, 2f32.powi(-24)])
    });
}

#[test]
fn the_descriptor_selects_components_and_constants() {
    // Blue, one, zero, red.
    assert_eq!(loaded("xyzw", (14, UINT, 0o4016), 16, &[5, 6, 7, 8]), [7, 1, 0, 5]);
    assert_eq!(loaded("xyzw", (14, FLOAT, 0o4016), 16, &[5, 6, 7, 8]), [7, 1f32.to_bits(), 0, 5]);
    assert_eq!(loaded("x", (3, UINT, 0o0005), 2, &[0x0201]), [2, OLD, OLD, OLD], "green alone");
}

#[test]
fn elements_outside_of_a_buffer_and_of_reserved_formats_are_zeros() {
    let program = "buffer_load_format_xyzw v[4:7], v2, s[0:3], 0 idxen";
    let mut machine = machine(program, (4, UINT, 0o1764), 4, &[7; 40]);
    machine.run();
    // Red, blue, alpha, one: alpha of the format is missing, so that it is one inside.
    for (lane, expected) in [(0, [7, 0, 1, 1]), (31, [7, 0, 1, 1]), (32, [0, 0, 0, 1])] {
        assert_eq!(std::array::from_fn(|n| machine.v(4 + n as u32)[lane]), expected, "lane {lane}");
    }
    assert_eq!(loaded("x", (15, UINT, RGBA), 4, &[7]), [0, OLD, OLD, OLD]);
}

#[test]
fn halves_of_registers_are_filled_two_by_two() {
    assert_eq!(loaded("d16_xyzw", (10, UINT, RGBA), 4, &[0x0403_0201]), [0x0002_0001, 0x0004_0003, OLD, OLD]);
    assert_eq!(
        loaded("d16_xyz", (10, SSCALED, RGBA), 4, &[0x04ff_0201])[..2],
        [0x4000_3c00, OLD & 0xffff_0000 | 0xbc00]
    );
    assert_eq!(loaded("d16_x", (4, FLOAT, RGBA), 4, &[0.5f32.to_bits()])[0], OLD & 0xffff_0000 | 0x3800);
    assert_eq!(loaded("d16_hi_x", (2, UINT, RGBA), 2, &[0x1234])[0], OLD & 0xffff | 0x1234 << 16);
}

/// Memory of the first element after a store of v4 to v7.
fn stored(what: &str, format: (u32, u32), bytes: u32, data: [u32; 4]) -> [u32; 4] {
    let registers = match what {
        "xyzw" => "v[4:7]",
        "d16_xyzw" => "v[4:5]",
        _ => "v4",
    };
    let program = format!("buffer_store_format_{what} {registers}, v2, s[0:3], 0 idxen");
    let mut machine = machine(&program, (format.0, format.1, 0), bytes, &[0; 4]);
    machine.wave.set_exec(1);
    (4..8).zip(data).for_each(|(n, word)| *machine.v(n) = [word; LANES]);
    machine.run();
    let word = |n: usize| machine.memory.bytes[BASE + 4 * n..][..4].try_into().map(u32::from_le_bytes);
    std::array::from_fn(|n| word(n).expect("four bytes"))
}

#[test]
fn stores_convert_and_saturate() {
    let some = floats([-1.0, 0.5, 2.0, 1.0]);
    assert_eq!(stored("xyzw", (10, UNORM), 4, some)[0], 0xffff_8000);
    assert_eq!(stored("xyzw", (10, SNORM), 4, some)[0], 0x7f7f_4081);
    assert_eq!(stored("xyzw", (10, UINT), 4, [1, 255, 256, 7])[0], 0x07ff_ff01);
    assert_eq!(stored("xyzw", (10, SINT), 4, [-200i32 as u32, 200, 5, u32::MAX])[0], 0xff05_7f80);
    assert_eq!(stored("xyzw", (12, FLOAT), 8, some)[..2], [0x3800_bc00, 0x3c00_4000]);
    assert_eq!(stored("xyzw", (14, FLOAT), 16, some), some);
    assert_eq!(stored("d16_xyzw", (10, UINT), 4, [0x0002_0001, 0x0004_0003, 0, 0])[0], 0x0403_0201);
    assert_eq!(stored("d16_hi_x", (4, FLOAT), 4, [0x3c00_0000, 0, 0, 0])[0], 1f32.to_bits());
}

#[test]
fn a_limit_is_in_bytes_where_an_access_has_no_index() {
    let program = "buffer_load_format_x v4, v2, s[0:3], 0 offen\nbuffer_load_dword v5, v2, s[0:3], 0 offen";
    let mut machine = machine(program, (4, UINT, RGBA), 4, &[7; 40]);
    *machine.v(2) = std::array::from_fn(|l| 4 * l as u32);
    machine.run();
    for n in [4, 5] {
        assert_eq!((machine.v(n)[7], machine.v(n)[8]), (7, 0), "32 bytes are inside");
    }
}
