//! The AQL packet processor, packet by packet. Source of what is expected: HSA Platform System Architecture
//! Specification 1.2, section 2.9; `hsa_ext_amd.h` for AMD's barrier.

use std::mem::offset_of;
use std::sync::atomic::Ordering;

use amdgpu_isa::Arch;
use amdgpu_isa::op::Flow;
use hsa_sys::abi::aql::{BARRIER_BIT, Packet};
use hsa_sys::abi::queue::{Queue as AbiQueue, properties};
use hsa_sys::abi::signal::Signal;

use super::*;
use crate::driver::PacketError;
use crate::launch::Launch;
use crate::observer::{Group, Notes, Observe, Observer, Step};
use crate::queue::aql::AqlQueueInfo;

const SLOTS: u64 = RING_BYTES / 64;
const READ_INDEX: u64 = QUEUE + offset_of!(AbiQueue, read_dispatch_id) as u64;
const WRITE_INDEX: u64 = QUEUE + offset_of!(AbiQueue, write_dispatch_id) as u64;
const PROPERTIES: u64 = QUEUE + offset_of!(AbiQueue, queue_properties) as u64;
const VALUE: u64 = offset_of!(Signal, value) as u64;
const START: u64 = offset_of!(Signal, start_ts) as u64;
const END: u64 = offset_of!(Signal, end_ts) as u64;

const VENDOR: u16 = 0;
const INVALID: u16 = 1;
const DISPATCH: u16 = 2;
const BARRIER_AND: u16 = 3;
const AGENT_DISPATCH: u16 = 4;
const BARRIER_OR: u16 = 5;

/// A kernel that waits until the word is not zero whose address is its only argument. Source of the code: `llvm-mc`.
const WAITING: &[u32] = &[
    0xc006_0080,
    0,           // s_load_dwordx2 s[2:3], s[0:1], 0x0
    0xbf8c_c07f, // s_waitcnt lgkmcnt(0)
    0xc003_0101,
    0,           // s_load_dword s4, s[2:3], 0x0 glc
    0xbf8c_c07f, // s_waitcnt lgkmcnt(0)
    0xbf06_8004, // s_cmp_eq_u32 s4, 0
    0xbf8e_0001, // s_sleep 1
    0xbf85_fffa, // s_cbranch_scc1, to the second load
    0xbf81_0000, // s_endpgm
];
const ENDING: &[u32] = &[0xbf81_0000];
/// Kernel objects: descriptor and, 64 bytes on, code.
const WAITING_KERNEL: u64 = CODE;
const ENDING_KERNEL: u64 = CODE + 256;

struct AqlRig {
    rig: Rig,
    next: u64,
}

/// A signal of [`SIGNALS`].
fn signal(n: u64) -> u64 {
    SIGNALS + 64 * n
}

/// A packet of a header, of setup or vendor format, and of pairs of dwords by their number.
fn packet(header: u16, setup: u16, pairs: &[(usize, u64)], completion: u64) -> Packet {
    let mut packet = Packet([0; 16]);
    packet.0[0] = u32::from(header) | u32::from(setup) << 16;
    for &(at, value) in pairs {
        (packet.0[at], packet.0[at + 1]) = (value as u32, (value >> 32) as u32);
    }
    packet.set_completion_signal(completion);
    packet
}

fn barrier(kind: u16, dependencies: &[u64], completion: u64) -> Packet {
    let pairs: Vec<_> = dependencies.iter().enumerate().map(|(n, &handle)| (2 + 2 * n, handle)).collect();
    packet(kind, 0, &pairs, completion)
}

/// A dispatch of one workgroup of one wave.
fn dispatch(header: u16, kernel: u64, completion: u64) -> Packet {
    let mut packet = packet(DISPATCH | header, 1, &[(8, kernel), (10, DATA)], completion);
    packet.0[1] = 64 | 1 << 16;
    packet.0[2] = 1;
    packet.0[3] = 64;
    packet
}

impl AqlRig {
    fn new() -> AqlRig {
        let mut rig = Rig::new(Arch::Gfx90a);
        rig.put(RING, &Packet::INVALID.0.repeat(SLOTS as usize));
        for (kernel, code) in [(WAITING_KERNEL, WAITING), (ENDING_KERNEL, ENDING)] {
            let mut descriptor = [0; 16];
            descriptor[4] = 64;
            // Two user SGPRs, which hold the address of the kernel's arguments.
            descriptor[13] = 2 << 1;
            descriptor[14] = 1 << 3;
            rig.put(kernel, &descriptor);
            rig.put(kernel + 64, code);
        }
        // The argument of the waiting kernel: the word after it.
        rig.put64(DATA, DATA + 8);
        let doorbell = rig.doorbell(u64::MAX);
        let info = AqlQueueInfo { id: 1, ring: RING, slots: SLOTS, queue: QUEUE, doorbell, injections: Vec::new() };
        rig.engine.engine().add_aql(info, rig.gpu.clone());
        AqlRig { rig, next: 0 }
    }

    /// Writes packets into the ring without ringing.
    fn write(&mut self, packets: &[Packet]) {
        for packet in packets {
            self.rig.put(RING + self.next % SLOTS * 64, &packet.0);
            self.next += 1;
        }
        self.rig.put64(WRITE_INDEX, self.next);
    }

    fn ring(&mut self, index: u64) {
        self.rig.rung.store(index, Ordering::Release);
        self.rig.run_until_idle();
    }

    fn submit(&mut self, packets: &[Packet]) {
        self.write(packets);
        self.ring(self.next - 1);
    }

    fn read_index(&mut self) -> u64 {
        self.rig.word64(READ_INDEX)
    }

    fn set_signal(&mut self, n: u64, value: i64) {
        self.rig.put64(signal(n) + VALUE, value as u64);
    }

    fn signal_value(&mut self, n: u64) -> i64 {
        self.rig.word64(signal(n) + VALUE) as i64
    }
}

#[test]
fn a_packet_is_taken_when_its_doorbell_has_rung_and_its_header_is_valid() {
    let mut rig = AqlRig::new();
    rig.write(&[barrier(BARRIER_AND, &[], 0), barrier(INVALID, &[], 0), barrier(BARRIER_AND, &[], 0)]);
    rig.rig.run_until_idle();
    assert_eq!(rig.read_index(), 0, "nothing has rung");
    rig.ring(2);
    assert_eq!(rig.read_index(), 1, "the second packet is not valid yet");
    rig.rig.put(RING + 64, &[BARRIER_AND.into()]);
    rig.rig.run_until_idle();
    assert_eq!(rig.read_index(), 3);
}

#[test]
fn producers_may_ring_in_either_order() {
    let mut rig = AqlRig::new();
    rig.write(&[barrier(BARRIER_AND, &[], 0); 3]);
    for index in [2, 0, 1] {
        rig.ring(index);
    }
    assert_eq!(rig.read_index(), 3);
}

#[test]
fn the_ring_is_gone_round_and_every_slot_is_given_back_empty() {
    let mut rig = AqlRig::new();
    rig.set_signal(0, 1000);
    for _ in 0..5 {
        rig.submit(&[packet(BARRIER_AND, 0xabcd, &[], signal(0)); SLOTS as usize / 2 + 1]);
    }
    let count = 5 * (SLOTS / 2 + 1);
    assert_eq!((rig.read_index(), rig.signal_value(0)), (count, 1000 - count as i64));
    for slot in 0..SLOTS {
        assert_eq!(rig.rig.word(RING + 64 * slot), u32::from(INVALID) | 0xabcd << 16, "slot {slot}");
    }
}

#[test]
fn fences_of_every_scope_are_taken() {
    let mut rig = AqlRig::new();
    for scopes in 0..16 {
        rig.submit(&[barrier(BARRIER_AND | scopes << 9, &[], 0), dispatch(scopes << 9, ENDING_KERNEL, 0)]);
        assert_eq!(rig.read_index(), 2 * u64::from(scopes + 1), "acquire {}, release {}", scopes & 3, scopes >> 2);
    }
}

#[test]
fn a_barrier_and_waits_for_each_of_its_signals_and_a_barrier_or_for_one() {
    for place in 0..5 {
        let handles: Vec<u64> = (0..5).map(signal).collect();
        let mut rig = AqlRig::new();
        rig.set_signal(place, -3);
        rig.submit(&[barrier(BARRIER_AND, &handles, 0)]);
        assert_eq!(rig.read_index(), 0, "dependency {place} is not zero");
        rig.set_signal(place, 0);
        rig.rig.run_until_idle();
        assert_eq!(rig.read_index(), 1);

        let mut rig = AqlRig::new();
        (0..5).for_each(|n| rig.set_signal(n, 7));
        rig.submit(&[barrier(BARRIER_OR, &handles, 0)]);
        assert_eq!(rig.read_index(), 0, "no dependency is zero");
        rig.set_signal(place, 0);
        rig.rig.run_until_idle();
        assert_eq!(rig.read_index(), 1);
    }
    let mut rig = AqlRig::new();
    rig.set_signal(0, 1);
    rig.submit(&[barrier(BARRIER_OR, &[0, signal(0), 0], 0)]);
    assert_eq!(rig.read_index(), 0, "a place without a signal is no dependency");
}

#[test]
fn a_barrier_with_a_condition_compares_what_its_mask_leaves() {
    const EVERY: u64 = u64::MAX;
    for (condition, value, mask, reference, holds) in [
        (0, 5, EVERY, 5, true),
        (0, 5, EVERY, 4, false),
        (0, 0x75, 0x0f, 5, true),
        (1, 5, EVERY, 5, false),
        (1, 5, EVERY, 6, true),
        (2, -1, EVERY, 0, true),
        (2, 0, EVERY, 0, false),
        (3, 0, EVERY, 0, true),
        (3, -1, EVERY, 0, false),
        (3, -1, 0xff, 0, true),
    ] {
        let mut rig = AqlRig::new();
        rig.set_signal(0, value);
        let words = [(2, signal(0)), (4, reference), (6, mask), (8, condition)];
        rig.submit(&[packet(VENDOR, 2, &words, signal(1))]);
        assert_eq!(rig.read_index() == 1, holds, "{value} {condition} {reference} mask {mask:#x}");
        assert_eq!(rig.signal_value(1), -i64::from(holds));
    }
    let mut rig = AqlRig::new();
    rig.submit(&[packet(VENDOR, 2, &[(4, 1), (6, u64::MAX)], signal(1))]);
    assert_eq!(rig.signal_value(1), -1, "without a signal there is nothing to wait for");
}

#[test]
fn a_queue_stops_at_a_packet_that_is_none() {
    for (header, setup) in [(AGENT_DISPATCH, 0), (6, 0), (255, 0), (VENDOR, 0), (VENDOR, 3), (VENDOR, 0xff)] {
        let mut rig = AqlRig::new();
        rig.submit(&[
            barrier(BARRIER_AND, &[], 0),
            packet(header, setup, &[], signal(0)),
            barrier(BARRIER_AND, &[], 0),
        ]);
        assert_eq!(rig.rig.errors(), [QueueError::Packet(PacketError::Type)], "type {header}, format {setup}");
        assert_eq!((rig.read_index(), rig.signal_value(0)), (1, 0), "nothing after it is taken");
    }
}

#[test]
fn commands_for_caches_are_taken_and_other_commands_are_refused() {
    const fn command(opcode: u32, dwords: u32) -> u32 {
        3 << 30 | (dwords - 2) << 16 | opcode << 8
    }
    let indirect = |at: u64, dwords: u32| {
        let mut packet = packet(VENDOR, 1, &[(2, at)], signal(0));
        packet.0[4] = dwords;
        packet
    };
    let mut rig = AqlRig::new();
    let commands = [command(0x58, 7), 0, 0, 0, 0, 0, 0, command(0x10, 2), 0];
    rig.rig.put(DATA, &commands);
    rig.submit(&[indirect(DATA, commands.len() as u32)]);
    assert_eq!((rig.signal_value(0), rig.rig.errors()), (-1, vec![]));
    rig.rig.put(DATA, &[command(0x37, 5), 0, 0, 0, 0]);
    rig.submit(&[indirect(DATA, 5)]);
    assert_eq!((rig.signal_value(0), rig.rig.errors()), (-1, vec![QueueError::Packet(PacketError::Type)]));

    let mut rig = AqlRig::new();
    rig.submit(&[indirect(NOWHERE, 5)]);
    assert_eq!(rig.rig.faults(), [(NOWHERE, false)]);
}

#[test]
fn a_completion_signal_is_decremented_and_raises_its_event_if_it_has_one() {
    let mut rig = AqlRig::new();
    let (mailbox, with_event) = (DATA + 256, signal(1));
    rig.rig.put64(with_event + offset_of!(Signal, event_mailbox_ptr) as u64, mailbox);
    rig.rig.put(with_event + offset_of!(Signal, event_id) as u64, &[77]);
    rig.set_signal(0, 5);
    rig.set_signal(1, i64::MIN + 1);
    for packet in [barrier(BARRIER_AND, &[], signal(0)), dispatch(0, ENDING_KERNEL, signal(0))] {
        rig.submit(&[packet]);
    }
    assert_eq!((rig.signal_value(0), rig.rig.events()), (3, vec![]), "a signal without an event");
    rig.submit(&[dispatch(0, ENDING_KERNEL, signal(1))]);
    assert_eq!((rig.signal_value(1), rig.rig.events(), rig.rig.word64(mailbox)), (i64::MIN, vec![77], 77));
}

#[test]
fn a_signal_that_is_not_mapped_is_a_fault() {
    for (packet, address) in [
        (barrier(BARRIER_AND, &[], NOWHERE), NOWHERE),
        (barrier(BARRIER_AND, &[NOWHERE], 0), NOWHERE),
        (barrier(BARRIER_OR, &[NOWHERE], 0), NOWHERE),
        (dispatch(0, ENDING_KERNEL, NOWHERE), NOWHERE),
        (barrier(BARRIER_AND, &[u64::MAX - 7], 0), 0),
        (dispatch(0, ENDING_KERNEL, u64::MAX - 63), u64::MAX - 63),
    ] {
        let mut rig = AqlRig::new();
        rig.submit(&[packet]);
        let faults = rig.rig.faults();
        assert_eq!(faults.len(), 1, "{packet:x?}");
        assert!(faults[0].0.wrapping_sub(address) < 64, "{faults:x?}");
    }
}

#[test]
fn times_are_written_if_they_were_asked_for_before_the_first_packet() {
    let mut rig = AqlRig::new();
    rig.submit(&[dispatch(0, ENDING_KERNEL, signal(0))]);
    rig.rig.put(PROPERTIES, &[properties::ENABLE_PROFILING]);
    rig.submit(&[dispatch(0, ENDING_KERNEL, signal(0))]);
    assert_eq!((rig.rig.word64(signal(0) + START), rig.rig.word64(signal(0) + END)), (0, 0));

    let mut rig = AqlRig::new();
    rig.rig.put(PROPERTIES, &[properties::ENABLE_PROFILING]);
    for packet in [dispatch(0, ENDING_KERNEL, signal(0)), barrier(BARRIER_AND, &[], signal(1))] {
        rig.submit(&[packet]);
    }
    for n in 0..2 {
        let (start, end) = (rig.rig.word64(signal(n) + START), rig.rig.word64(signal(n) + END));
        assert!(start > 0 && start <= end, "signal {n}: {start} {end}");
    }
}

#[test]
fn the_barrier_bit_waits_for_earlier_kernels_and_slots_are_given_back_in_order() {
    for bit in [0, BARRIER_BIT] {
        let mut rig = AqlRig::new();
        let second = dispatch(bit, ENDING_KERNEL, signal(1));
        rig.submit(&[dispatch(0, WAITING_KERNEL, signal(0)), second, barrier(BARRIER_AND | bit, &[], signal(2))]);
        let others = if bit == 0 { -1 } else { 0 };
        assert_eq!([0, 1, 2].map(|n| rig.signal_value(n)), [0, others, others], "barrier bit {bit:#x}");
        assert_eq!(rig.read_index(), 0, "the first packet is still under way");
        rig.rig.put(DATA + 8, &[1]);
        rig.rig.run_until_idle();
        assert_eq!(([0, 1, 2].map(|n| rig.signal_value(n)), rig.read_index()), ([-1; 3], 3));
    }
}

#[test]
fn a_dispatch_that_makes_no_sense_stops_the_queue_with_the_reason() {
    let change = |f: fn(&mut Packet)| {
        let mut packet = dispatch(0, ENDING_KERNEL, signal(0));
        f(&mut packet);
        packet
    };
    for (what, packet, error) in [
        ("no dimensions", change(|p| p.0[0] &= 0xffff), PacketError::Dimensions),
        ("no work-items in the grid", change(|p| p.0[3] = 0), PacketError::Dimensions),
        ("no work-items in a workgroup", change(|p| p.0[1] &= !0xffff), PacketError::Dimensions),
        ("a second dimension of nothing", change(|p| p.0[0] = DISPATCH as u32 | 2 << 16), PacketError::Dimensions),
        ("1025 work-items", change(|p| p.0[1] = 1025), PacketError::Dimensions),
        ("too much LDS", change(|p| p.0[7] = (64 << 10) + 1), PacketError::GroupSegment),
        ("more scratch than a wave can have", change(|p| p.0[6] = (8191 << 10) / 64 + 1), PacketError::Resources),
        ("scratch whose bytes of a wave are 2^32", change(|p| p.0[6] = 1 << 26), PacketError::Resources),
        ("no kernel", dispatch(0, 0, 0), PacketError::CodeObject),
        ("a kernel that is not there", dispatch(0, NOWHERE, 0), PacketError::CodeObject),
        ("a kernel at the end of all addresses", dispatch(0, u64::MAX - 3, 0), PacketError::CodeObject),
        ("a kernel without code", dispatch(0, DATA + 4096 - 64, 0), PacketError::CodeObject),
    ] {
        let mut rig = AqlRig::new();
        // A descriptor whose code would be just behind the page.
        rig.rig.put(DATA + 4096 - 64 + 16, &[64, 0]);
        rig.submit(&[packet, barrier(BARRIER_AND, &[], signal(0))]);
        assert_eq!(rig.rig.errors(), [QueueError::Packet(error)], "{what}");
        assert_eq!((rig.read_index(), rig.signal_value(0)), (0, 0), "{what}");
    }
}

/// What one observer saw: begins, instructions before and after, ends.
type Seen = (u64, u64, u64, u64);

/// Counts what it sees, and keeps the number of its workgroup's instructions in the notes.
#[derive(Debug, Default)]
struct Counting {
    all: Mutex<Vec<Seen>>,
}

struct Counter(Seen);

impl Observe for Counting {
    fn observer(&self, _: &Launch) -> Box<dyn Observer> {
        Box::new(Counter((0, 0, 0, 0)))
    }
    fn ended(&self, launch: &Launch, observers: Vec<Box<dyn Observer>>) {
        assert_eq!(launch.kernel_object, WAITING_KERNEL);
        for observer in observers {
            let any: Box<dyn std::any::Any> = observer;
            lock(&self.all).push(any.downcast::<Counter>().expect("the observer that was made").0);
        }
    }
}

impl Observer for Counter {
    fn begin(&mut self, group: &Group<'_>) -> Option<Notes> {
        self.0.0 += 1;
        assert_eq!((group.number, group.waves.len(), group.initial_registers()), (0, 1, (2, 1)));
        Some(Box::new(0u64))
    }
    fn before(&mut self, notes: &mut Notes, step: &Step<'_>) {
        self.0.1 += 1;
        let executed = notes.downcast_mut::<u64>().expect("its own notes");
        assert_eq!((step.wave.executed, step.pc), (*executed, step.wave.pc), "no instruction is left out");
        // The loads of the argument and of the word that it points to.
        if let Some(parts) = step.accesses() {
            let at: Vec<u64> = parts.iter().map(|part| part.at[0]).collect();
            assert!([[DATA], [DATA + 8]].contains(&[at[0]]) && at.len() == 1, "{at:x?}");
        }
        *executed += 1;
    }
    fn after(&mut self, _: &mut Notes, step: &Step<'_>, flow: Flow) {
        self.0.2 += 1;
        assert_eq!(flow == Flow::End, step.inst.op.name == "s_endpgm");
    }
    fn barrier(&mut self, _: &mut Notes) {}
    fn end(&mut self, _: Notes) {
        self.0.3 += 1;
    }
}

#[test]
fn an_observer_sees_every_instruction_of_a_workgroup_that_is_put_back_and_taken_up_again() {
    let mut rig = AqlRig::new();
    let counting = Arc::new(Counting::default());
    rig.rig.gpu.observe(counting.clone());
    rig.set_signal(0, 1);
    rig.submit(&[dispatch(0, WAITING_KERNEL, signal(0))]);
    assert!(lock(&counting.all).is_empty(), "the kernel waits");
    rig.rig.put(DATA + 8, &[1]);
    rig.rig.run_until_idle();
    assert_eq!(rig.signal_value(0), 0);
    let all = lock(&counting.all).clone();
    let (begun, before, after, ended) =
        all.iter().fold((0, 0, 0, 0), |s, o| (s.0 + o.0, s.1 + o.1, s.2 + o.2, s.3 + o.3));
    assert_eq!((begun, ended), (1, 1));
    assert!(before == after && before > 20, "{before} {after}");
}
