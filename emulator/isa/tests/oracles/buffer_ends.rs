//! Accesses across the end of a buffer: limits are checked dword by dword.
//!
//! Source: the code that MLIR makes for masked loads of vectors relies on it (llvm/llvm-project pull request 135014: a
//! dword that crosses the end reads as zero, those before it do not).

use amdgpu_isa::Arch;
use amdgpu_isa::wave::LANES;

use crate::machine::Machine;

/// Where the buffer begins in memory, and how many bytes it has: the last dword is cut.
const BASE: usize = 0x40;
const RECORDS: usize = 38;

/// Runs a program on the buffer, lane l at byte l of it.
fn run(program: &str) -> Machine {
    let mut machine = Machine::new(Arch::Gfx90a, program);
    for (n, byte) in machine.memory.bytes.iter_mut().enumerate() {
        *byte = n as u8 | 1;
    }
    machine.wave.set_exec(u64::MAX);
    machine.wave.sgpr[..4].copy_from_slice(&[BASE as u32, 0, RECORDS as u32, 0]);
    *machine.v(2) = std::array::from_fn(|l| l as u32);
    for n in 4..8 {
        *machine.v(n) = [0xa5a5_a5a5; LANES];
    }
    machine.run();
    machine
}

fn is_inside(at: usize) -> bool {
    at + 4 <= RECORDS
}

#[test]
fn the_dwords_of_a_load_that_are_inside_of_a_buffer_are_read_and_the_others_are_zero() {
    for (name, dwords) in [("dwordx2", 2), ("dwordx3", 3), ("dwordx4", 4)] {
        let last = 4 + dwords - 1;
        let mut machine = run(&format!("buffer_load_{name} v[4:{last}], v2, s[0:3], 0 offen"));
        for n in 0..dwords {
            let found = *machine.v(4 + n as u32);
            for (l, found) in found.into_iter().enumerate() {
                let at = l + 4 * n;
                let byte = |k: usize| u32::from((BASE + at + k) as u8 | 1) << (8 * k);
                let expected = if is_inside(at) { (0..4).map(byte).sum() } else { 0 };
                assert_eq!(found, expected, "{name}, lane {l}, dword {n}");
            }
        }
    }
}

#[test]
fn the_dwords_of_a_store_that_are_inside_of_a_buffer_are_written_and_nothing_else_is() {
    let machine = run("buffer_store_dwordx4 v[4:7], v2, s[0:3], 0 offen");
    for (at, &found) in machine.memory.bytes.iter().enumerate() {
        // Lane l writes dwords from byte l on: every byte up to the last one of a whole dword.
        let written = (BASE..BASE + RECORDS).contains(&at);
        let expected = if written { 0xa5 } else { at as u8 | 1 };
        assert_eq!(found, expected, "byte {at}");
    }
}

#[test]
fn an_access_that_begins_near_the_end_of_the_offsets_never_comes_back_to_the_beginning_of_the_buffer() {
    // Lane 0 begins four bytes before the end of 32-bit offsets, by its register or with the immediate; the others are cut by the
    // end of the buffer, which is what makes accesses go dword by dword.
    for (offset, immediate) in [(-4, ""), (-1, ""), (-4, "offset:4"), (-20, "offset:32")] {
        for (how, index) in [("offen", false), ("idxen offen", true)] {
            let address = if index { "v[8:9]" } else { "v9" };
            let set = |machine: &mut Machine| {
                *machine.v(8) = [0; LANES];
                *machine.v(9) = [28; LANES];
                machine.v(9)[0] = offset as u32;
            };
            let text = format!("buffer_store_dwordx4 v[4:7], {address}, s[0:3], 0 {how} {immediate}");
            let mut machine = Machine::new(Arch::Gfx90a, &text);
            machine.wave.sgpr[..4].copy_from_slice(&[BASE as u32, 0, 38, 0]);
            set(&mut machine);
            (4..8).for_each(|n| *machine.v(n) = [0xa5a5_a5a5; LANES]);
            machine.run();
            let written: Vec<usize> =
                (0..machine.memory.bytes.len()).filter(|&at| machine.memory.bytes[at] != 0).collect();
            assert!(written.iter().all(|at| (BASE + 28..BASE + RECORDS).contains(at)), "{text}: {written:?}");
            let text = text.replace("store", "load");
            let mut machine = Machine::new(Arch::Gfx90a, &text);
            machine.wave.sgpr[..4].copy_from_slice(&[BASE as u32, 0, 38, 0]);
            machine.memory.bytes.fill(0xa5);
            set(&mut machine);
            machine.run();
            assert_eq!([4, 5, 6, 7].map(|n| machine.v(n)[0]), [0; 4], "{text}");
        }
    }
}
