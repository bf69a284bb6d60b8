//! Queues of PM4 commands, and their buffers in AQL queues.

use std::sync::atomic::Ordering;

use amdgpu_isa::Arch;

use super::*;
use crate::driver::PacketError;
use crate::queue::RingInfo;

/// Adds the word in `s2` to the number of the workgroup, and stores it at the address in `s[0:1]`. The words are llvm-mc's.
const KERNEL: &[u32] = &[
    0x7e00_0203, // v_mov_b32 v0, s3
    0x2402_0082, // v_lshlrev_b32 v1, 2, v0
    0x6800_0002, // v_add_u32 v0, s2, v0
    0xdc70_8000,
    0x0000_0001, // global_store_dword v1, v0, s[0:1]
    0xbf81_0000, // s_endpgm
];

/// A command with these words behind its header.
fn command(opcode: u32, words: &[u32]) -> Vec<u32> {
    let mut all = vec![3 << 30 | (words.len() as u32 - 1) << 16 | opcode << 8];
    all.extend(words);
    all
}

/// Sets registers that follow each other.
fn set(register: u32, values: &[u32]) -> Vec<u32> {
    let mut words = vec![register - 0x2c00];
    words.extend(values);
    command(0x76, &words)
}

/// Sets registers of the whole GPU that follow each other.
fn configure(register: u32, values: &[u32]) -> Vec<u32> {
    let mut words = vec![register - 0xc000];
    words.extend(values);
    command(0x79, &words)
}

/// Copies 32 bits of a source, or a register, to memory.
fn copy(source: u32, to: u64, from: u64) -> Vec<u32> {
    command(0x40, &[source | 2 << 8, from as u32, (from >> 32) as u32, to as u32, (to >> 32) as u32])
}

/// The same with 64 bits.
fn copy_wide(source: u32, to: u64, from: u64) -> Vec<u32> {
    let mut words = copy(source, to, from);
    words[1] |= 1 << 16;
    words
}

/// For dies whose bits are set.
fn only(dies: u32, commands: &[u32]) -> Vec<u32> {
    [command(0x23, &[dies << 24 | commands.len() as u32]), commands.to_vec()].concat()
}

/// Runs `KERNEL` in so many workgroups.
fn kernel(groups: u32, to: u64, base: u32) -> Vec<u32> {
    [program(to, base), command(0x15, &[groups, 1, 1, 1 | 1 << 2])].concat()
}

/// What `KERNEL` needs before it is dispatched.
fn program(to: u64, base: u32) -> Vec<u32> {
    [
        set(0x2e0c, &[(CODE >> 8) as u32, (CODE >> 40) as u32]),
        // Three user registers, and the workgroup's number.
        set(0x2e12, &[0, 3 << 1 | 1 << 7]),
        set(0x2e2d, &[1]),
        set(0x2e40, &[to as u32, (to >> 32) as u32, base]),
        set(0x2e04, &[0, 0, 0, 64, 1, 1, 0, 0]),
    ]
    .concat()
}

fn flush() -> Vec<u32> {
    command(0x46, &[7 | 4 << 8])
}

/// Stores 32 bits when everything before is done.
fn release(to: u64, value: u32) -> Vec<u32> {
    command(0x49, &[0, 1 << 29, to as u32, (to >> 32) as u32, value, 0, 0])
}

/// Waits until a word is at least a value.
fn wait(at: u64, value: u32) -> Vec<u32> {
    command(0x3c, &[5 | 1 << 4, at as u32, (at >> 32) as u32, value, u32::MAX, 4])
}

/// A GPU with a queue whose ring has these commands, all of them covered.
fn with_commands(commands: &[u32]) -> Rig {
    let mut rig = Rig::new(Arch::Gfx942);
    rig.put(CODE, KERNEL);
    rig.put(RING, commands);
    let doorbell = rig.doorbell(commands.len() as u64);
    let info = RingInfo { id: 7, ring: RING, bytes: RING_BYTES, read_pointer: QUEUE, doorbell };
    rig.engine.engine().add_pm4(info, rig.gpu.clone());
    rig
}

#[test]
fn kernels_run_with_the_registers_that_commands_have_set_and_what_follows_waits_for_them() {
    let commands = [kernel(5, DATA, 100), kernel(3, DATA + 64, 7), flush(), release(SIGNALS, 9)].concat();
    let mut rig = with_commands(&commands);
    rig.run_until_idle();
    let words = |rig: &mut Rig, at: u64| -> Vec<u32> { (0..6).map(|n| rig.word(at + 4 * n)).collect() };
    assert_eq!(words(&mut rig, DATA), [100, 101, 102, 103, 104, 0]);
    assert_eq!(words(&mut rig, DATA + 64), [7, 8, 9, 0, 0, 0]);
    assert_eq!((rig.word(SIGNALS), rig.word(QUEUE)), (9, commands.len() as u32));
    assert_eq!((rig.errors(), rig.faults()), (vec![], vec![]));
}

#[test]
fn a_wait_holds_the_commands_behind_it_and_buffers_are_called() {
    let called = [wait(SIGNALS, 3), release(DATA, 1)].concat();
    let commands = [
        command(0x3f, &[LARGE as u32, (LARGE >> 32) as u32, called.len() as u32 | 1 << 23]),
        // For the eighth die, which is there.
        command(0x23, &[1 << 31 | 8]),
        release(DATA + 4, 2),
        release(DATA + 8, 3),
    ];
    let mut commands = commands.concat();
    // Round the end of the ring.
    let mut rig = with_commands(&[]);
    rig.put(LARGE, &called);
    let before = (RING_BYTES / 4) as u32 - 6;
    let mut ring = vec![2 << 30; before as usize];
    ring.append(&mut commands);
    let (first, rest) = ring.split_at((RING_BYTES / 4) as usize);
    rig.put(RING, first);
    rig.rung.store(u64::from(before), Ordering::Release);
    rig.run_until_idle();
    assert_eq!(rig.word(QUEUE), before);
    rig.put(RING, rest);
    rig.rung.store(ring.len() as u64, Ordering::Release);
    rig.run_until_idle();
    assert_eq!([0, 4, 8].map(|at| rig.word(DATA + at)), [0, 0, 0], "the signal has not come");
    rig.put(SIGNALS, &[3]);
    rig.run_until_idle();
    assert_eq!([0, 4, 8].map(|at| rig.word(DATA + at)), [1, 2, 3]);
    assert_eq!(rig.word(QUEUE), rest.len() as u32);
    assert_eq!((rig.errors(), rig.faults()), (vec![], vec![]));
}

#[test]
fn buffers_that_call_each_other_a_million_times_leave_the_other_queues_their_turns() {
    // A buffer of calls of a buffer of calls of padding.
    let call = |at: u64, dwords: u32| command(0x3f, &[at as u32, (at >> 32) as u32, dwords | 1 << 23]);
    let (inner, outer) = (LARGE + 0x8000, LARGE);
    let calls = |at, dwords| std::iter::repeat_n(call(at, dwords), 1000).flatten().collect::<Vec<u32>>();
    let mut rig = with_commands(&[call(outer, 4000), release(SIGNALS, 9)].concat());
    rig.put(outer, &calls(inner, 1000));
    rig.put(inner, &vec![2 << 30; 1000]);
    // The same doorbell's: as many words.
    let (ring, rung) = (LARGE + 0x10000, rig.rung.load(Ordering::Acquire));
    let mut words = release(DATA, 5);
    words.resize(rung as usize, 2 << 30);
    rig.put(ring, &words);
    let doorbell = rig.doorbell(rung);
    let info = RingInfo { id: 8, ring, bytes: RING_BYTES, read_pointer: QUEUE + 64, doorbell };
    rig.engine.engine().add_pm4(info, rig.gpu.clone());
    for _ in 0..4 {
        rig.engine.step();
    }
    assert_eq!((rig.word(DATA), rig.word(SIGNALS)), (5, 0));
}

#[test]
fn a_command_for_other_dies_is_left_out() {
    let mut skipped = command(0x23, &[0]);
    // The mask of dies is in the highest eight bits: none of this GPU's.
    skipped[1] = release(0, 0).len() as u32;
    let commands = [skipped, release(DATA, 1), release(DATA + 4, 2)].concat();
    let mut rig = with_commands(&commands);
    rig.run_until_idle();
    assert_eq!([0, 4].map(|at| rig.word(DATA + at)), [0, 2]);
}

#[test]
fn a_dispatch_reads_its_workgroups_from_memory_when_it_is_reached() {
    let indirect = |at: u64| command(0x16, &[at as u32, (at >> 32) as u32, 1 | 1 << 2]);
    let commands = [
        program(DATA, 40),
        // Of what the commands before have written there.
        command(0x37, &[2 << 8 | 1 << 20, LARGE as u32, (LARGE >> 32) as u32, 3, 1, 1, 2, 0, 1]),
        indirect(LARGE),
        // None.
        program(DATA + 64, 50),
        indirect(LARGE + 12),
        flush(),
        release(SIGNALS, 9),
    ];
    let mut rig = with_commands(&commands.concat());
    rig.run_until_idle();
    let words = [0, 4, 8, 12, 64].map(|at| rig.word(DATA + at));
    assert_eq!((words, rig.word(SIGNALS)), ([40, 41, 42, 0, 0], 9));
    assert_eq!((rig.errors(), rig.faults()), (vec![], vec![]));
    let mut rig = with_commands(&[program(DATA, 0), indirect(NOWHERE)].concat());
    rig.run_until_idle();
    assert_eq!(rig.faults(), [(NOWHERE, false)]);
}

#[test]
fn data_are_copied_between_registers_and_memory_and_from_commands_and_clocks() {
    let commands = [
        copy_wide(5, DATA, 0x1234_5678_9abc_def0),
        copy_wide(1, DATA + 8, DATA),
        copy(2, DATA + 16, DATA + 4),
        set(0x2e40, &[7, 8]),
        copy_wide(0, DATA + 24, 0x2e40),
        // From memory to a register, and back.
        command(0x40, &[1, DATA as u32, (DATA >> 32) as u32, 0x2e42, 0]),
        copy(0, DATA + 32, 0x2e42),
        copy_wide(9, DATA + 40, 0),
    ];
    let mut rig = with_commands(&commands.concat());
    rig.run_until_idle();
    let words: Vec<u32> = (0..10).map(|n| rig.word(DATA + 4 * n)).collect();
    let (low, high) = (0x9abc_def0, 0x1234_5678);
    assert_eq!(words, [low, high, low, high, high, 0, 7, 8, low, 0]);
    assert_ne!(rig.word(DATA + 40), 0);
    assert_eq!((rig.errors(), rig.faults()), (vec![], vec![]));
}

#[test]
fn counters_count_the_waves_of_dispatches_by_die_and_shader_engine_while_they_run() {
    let run = |state: u32| configure(0xd808, &[state]);
    // The first counter: waves, the second one: work-items.
    let select = configure(0xd9c0, &[4 | 15 << 24 | 0xff << 12, 14 | 15 << 24]);
    // The registers of the workgroup's size are followed by the one that has the queue counted.
    let kernel = |groups, counted| {
        let dispatch = command(0x15, &[groups, 1, 1, 1 | 1 << 2]);
        [program(DATA, 0), set(0x2e0b, &[counted]), dispatch, flush()].concat()
    };
    let mut commands = [
        configure(0xd9e0, &[1 << 6 | 0xffff << 16]),
        configure(0xd9e1, &[u32::MAX]),
        select,
        // Neither this one, since counters do not run, nor the next, since the queue is not counted.
        kernel(5, 1),
        run(1),
        kernel(6, 0),
        kernel(19, 1),
        run(2 | 1 << 10),
        kernel(7, 1),
    ]
    .concat();
    for (n, (die, engine)) in [(0, 0), (2, 0), (2, 2), (3, 1), (3, 2), (7, 1)].into_iter().enumerate() {
        commands.extend(configure(0xc200, &[1 << 30 | 1 << 29 | engine << 16]));
        let to = LARGE + 16 * n as u64;
        commands.extend(only(
            1 << die,
            &[copy(4, to, 0xd1c0), copy(4, to + 4, 0xd1c1), copy_wide(4, to + 8, 0xd1c2)].concat(),
        ));
    }
    let last = [run(0), only(1, &copy(4, LARGE + 96, 0xd1c0)), release(SIGNALS, 9)];
    commands.extend(last.concat());
    let mut rig = with_commands(&commands);
    rig.run_until_idle();
    assert_eq!((rig.errors(), rig.faults(), rig.word(SIGNALS)), (vec![], vec![], 9));
    // Each die has two or three of the 19 workgroups, in shader engines of their own.
    for (n, waves) in [1, 1, 1, 1, 0, 1].into_iter().enumerate() {
        let found = [0, 4, 8, 12].map(|at| rig.word(LARGE + 16 * n as u64 + at));
        assert_eq!(found, [waves, 0, 64 * waves, 0], "{n}");
    }
    assert_eq!(rig.word(LARGE + 96), 0, "after a reset");
}

#[test]
fn what_is_not_implemented_or_not_mapped_stops_the_queue_and_is_not_skipped() {
    for wrong in [
        // A register of traces, a counter that is not counted, a mask of units, a kind of counts, a dispatch without an address, a
        // comparison, another event, too long, no command.
        command(0x79, &[0x2330, 1]),
        configure(0xd9c0, &[26 | 15 << 24]),
        set(0x2e16, &[1]),
        set(0x2e0b, &[2]),
        command(0x16, &[0, 0]),
        command(0x3c, &[7 | 1 << 4, DATA as u32, 0, 0, 0, 0]),
        command(0x46, &[0x14]),
        vec![3 << 30 | 0x3ff << 16 | 0x37 << 8],
        vec![0],
        command(0x15, &[1, 1, 1, 1 | 1 << 5]),
        // Counters of all shader engines, of all dies, and where none is selected; other places.
        copy(4, DATA, 0xd1c0),
        [configure(0xc200, &[0]), copy(4, DATA, 0xd1c0)].concat(),
        copy(0, DATA, 0x2e1f),
        copy(3, DATA, 0),
        command(0x40, &[5 | 3 << 8, 0, 0, 0, 0]),
    ] {
        let mut rig = with_commands(&[wrong.clone(), release(DATA, 1)].concat());
        rig.run_until_idle();
        assert_eq!(rig.errors(), [QueueError::Packet(PacketError::Type)], "{wrong:x?}");
        assert_eq!(rig.word(DATA), 0, "{wrong:x?}");
    }
    let mut rig = with_commands(&[release(NOWHERE, 1), release(DATA, 1)].concat());
    rig.run_until_idle();
    assert_eq!((rig.faults(), rig.word(DATA)), (vec![(NOWHERE, true)], 0));
    let mut rig = with_commands(&command(0x15, &[1, 1, 1, 1]));
    rig.run_until_idle();
    assert_eq!(rig.errors(), [QueueError::Packet(PacketError::Dimensions)], "no work-items");
}
