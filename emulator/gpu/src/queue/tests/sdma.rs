//! The copy engines, packet by packet. Source of what is expected: `sdma_registers.h` of the runtime.

use std::sync::atomic::Ordering;

use amdgpu_isa::Arch;

use super::*;
use crate::driver::PacketError;
use crate::queue::RingInfo;

const READ_POINTER: u64 = QUEUE;

struct SdmaRig {
    rig: Rig,
    written: u64,
}

const fn low(address: u64) -> u32 {
    address as u32
}

const fn high(address: u64) -> u32 {
    (address >> 32) as u32
}

fn copy(from: u64, to: u64, bytes: u32) -> Vec<u32> {
    vec![1, bytes - 1, 0, low(from), high(from), low(to), high(to)]
}

impl SdmaRig {
    fn new() -> SdmaRig {
        let mut rig = Rig::new(Arch::Gfx90a);
        let doorbell = rig.doorbell(0);
        let info = RingInfo { id: 1, ring: RING, bytes: RING_BYTES, read_pointer: READ_POINTER, doorbell };
        rig.engine.engine().add_sdma(info, rig.gpu.clone());
        let pattern: Vec<u32> = (0..1024u32).map(|n| n.wrapping_mul(0x9e37_79b1)).collect();
        rig.put(LARGE, &pattern);
        SdmaRig { rig, written: 0 }
    }

    /// Gives a packet to the engine; true when it took it.
    fn submit(&mut self, words: &[u32]) -> bool {
        for word in words {
            self.rig.put(RING + self.written % RING_BYTES, &[*word]);
            self.written += 4;
        }
        self.rig.rung.store(self.written, Ordering::Release);
        self.rig.run_until_idle();
        self.rig.word64(READ_POINTER) == self.written
    }
}

#[test]
fn bytes_of_any_number_are_copied_from_and_to_any_place() {
    let mut rig = SdmaRig::new();
    for (offset, place, bytes) in [(0, 0, 1), (1, 3, 63), (8, 8, 256), (5, 2, 1021), (0, 7, 4000)] {
        rig.rig.put(DATA, &[0; 1024]);
        assert!(rig.submit(&copy(LARGE + offset, DATA + place, bytes)));
        let expected = rig.rig.bytes(LARGE + offset, bytes as usize);
        let got = rig.rig.bytes(DATA, 4096);
        let end = place as usize + bytes as usize;
        assert_eq!(got[place as usize..end], expected, "{bytes} bytes");
        assert!(got[..place as usize].iter().chain(&got[end..]).all(|&b| b == 0), "{bytes} bytes and no more");
    }
}

#[test]
fn a_large_copy_leaves_room_for_other_queues_and_is_whole() {
    let mut rig = SdmaRig::new();
    let half = LARGE_BYTES as u32 / 2;
    rig.rig.view.fill(LARGE, 0x0102_0304, half.into()).expect("mapped");
    rig.rig.put(LARGE + u64::from(half) - 4, &[99]);
    assert!(rig.submit(&copy(LARGE, LARGE + u64::from(half), half)));
    assert_eq!((rig.rig.word(LARGE + u64::from(half)), rig.rig.word(LARGE + LARGE_BYTES - 4)), (0x0102_0304, 99));
}

#[test]
fn a_rectangle_is_cut_out_of_one_pitch_into_another() {
    // Elements of four bytes: 5 x 3 x 2 from (1, 2, 1) of a source with 16 x 8 in a slice, to (2, 1, 0) of 8 x 4.
    let (x, y, z) = ([1, 2], [2, 1], [1, 0]);
    let (pitch, slice) = ([16, 8], [128, 32]);
    let side =
        |s: usize, base: u64| [low(base), high(base), x[s] | y[s] << 16, z[s] | (pitch[s] - 1) << 13, slice[s] - 1];
    let mut words = vec![1 | 4 << 8 | 2 << 29];
    words.extend(side(0, LARGE));
    words.extend(side(1, DATA));
    words.extend([4 | 2 << 16, 1]);
    let mut rig = SdmaRig::new();
    assert!(rig.submit(&words));
    let at =
        |s: usize, i: u32, j: u32, k: u32| u64::from((x[s] + i) + (y[s] + j) * pitch[s] + (z[s] + k) * slice[s]) * 4;
    let mut expected = vec![0u32; 1024];
    for (i, j, k) in (0..30).map(|n| (n % 5, n / 5 % 3, n / 15)) {
        expected[at(1, i, j, k) as usize / 4] = rig.rig.word(LARGE + at(0, i, j, k));
    }
    let expected: Vec<u8> = expected.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert_eq!(rig.rig.bytes(DATA, 4096), expected);
}

#[test]
fn words_fences_atomics_and_times_are_written() {
    let mut rig = SdmaRig::new();
    assert!(rig.submit(&[2, low(DATA), high(DATA), 2, 11, 22, 33]));
    assert_eq!([0, 4, 8, 12].map(|n| rig.rig.word(DATA + n)), [11, 22, 33, 0]);
    assert!(rig.submit(&[5, low(DATA + 64), high(DATA), 44]));
    assert_eq!(rig.rig.word(DATA + 64), 44);
    rig.rig.put64(DATA + 128, 5);
    let minus_one = [10 | 47 << 25, low(DATA + 128), high(DATA), u32::MAX, u32::MAX, 0, 0, 0];
    assert!(rig.submit(&minus_one));
    assert_eq!(rig.rig.word64(DATA + 128), 4);
    let before = rig.rig.gpu.clock.ticks();
    assert!(rig.submit(&[13 | 2 << 8, low(DATA + 192), high(DATA)]));
    assert!((before..=rig.rig.gpu.clock.ticks()).contains(&rig.rig.word64(DATA + 192)));
}

#[test]
fn dwords_are_filled_in_any_number() {
    for bytes in [4u32, 64, 1000, 3 << 20] {
        let mut rig = SdmaRig::new();
        assert!(rig.submit(&[11 | 2 << 30, low(LARGE), high(LARGE), 0xdead_beef, bytes - 4]));
        let got = rig.rig.bytes(LARGE, bytes as usize);
        assert!(got.chunks(4).all(|word| word == 0xdead_beef_u32.to_le_bytes()), "{bytes} bytes");
        assert_ne!(rig.rig.word(LARGE + u64::from(bytes)), 0xdead_beef, "{bytes} bytes and no more");
    }
}

#[test]
fn a_trap_raises_its_event_and_what_is_for_caches_and_padding_does_nothing() {
    let mut rig = SdmaRig::new();
    assert!(rig.submit(&[6, 9]));
    assert_eq!(rig.rig.events(), [9]);
    for nothing in [vec![0], vec![3 << 16, 1, 2, 3], vec![17, 0, 0, 0, 0], vec![8, 0, 0, 0, 0, 0]] {
        assert!(rig.submit(&nothing), "{nothing:x?}");
    }
    assert_eq!((rig.rig.events().len(), rig.rig.errors().len(), rig.rig.faults().len()), (1, 0, 0));
}

#[test]
fn a_poll_waits_until_its_comparison_holds() {
    // The function, a value that does not satisfy it and one that does, compared with 5.
    for (function, not_yet, now) in [
        (0, None, 9),
        (1, Some(5), 4),
        (2, Some(6), 5),
        (3, Some(4), 5),
        (4, Some(5), 6),
        (5, Some(4), 5),
        (6, Some(5), 6),
    ] {
        let mut rig = SdmaRig::new();
        let poll = [8 | function << 28 | 1 << 31, low(DATA), high(DATA), 5, 0xffff, 0];
        // Bits outside of the mask do not count.
        rig.rig.put(DATA, &[0xabcd_0000 | not_yet.unwrap_or(now)]);
        assert_eq!(rig.submit(&poll), not_yet.is_none(), "function {function}");
        rig.rig.put(DATA, &[0xabcd_0000 | now]);
        rig.rig.run_until_idle();
        assert_eq!(rig.rig.word64(READ_POINTER), 24, "function {function}");
    }
}

#[test]
fn packets_reach_around_the_end_of_the_ring() {
    let mut rig = SdmaRig::new();
    for n in 0..400u32 {
        assert!(rig.submit(&copy(LARGE + 4 * u64::from(n), DATA, 4)));
        assert_eq!(rig.rig.word(DATA), n.wrapping_mul(0x9e37_79b1));
    }
    assert!(rig.written > 2 * RING_BYTES, "the ring was gone round");
}

#[test]
fn what_is_not_implemented_stops_the_queue_and_is_not_skipped() {
    for header in [
        3,
        4,
        7,
        9,
        12,
        14,
        15,
        16,
        18,
        0xff,
        1 | 1 << 8,
        1 | 3 << 8,
        1 | 5 << 8,
        1 | 16 << 8, // copies that are neither linear nor of rectangles
        2 | 1 << 8,
        13,
        13 | 1 << 8, // other writes and times
        10,
        10 | 15 << 25,
        10 | 46 << 25, // other atomics
        11,
        11 | 1 << 30,
        11 | 3 << 30,          // fills with bytes and half-words
        8 | 7 << 28 | 1 << 31, // no function of a poll
    ] {
        let mut rig = SdmaRig::new();
        let mut words = [0; 16];
        words[0] = header;
        (words[1], words[3]) = (low(DATA), low(DATA));
        assert!(!rig.submit(&words), "{header:#x}");
        assert_eq!(rig.rig.errors(), [QueueError::Packet(PacketError::Type)], "{header:#x}");
        assert_eq!(rig.rig.word64(READ_POINTER), 0, "{header:#x}");
        rig.submit(&[0]);
        assert_eq!(rig.rig.errors().len(), 1, "the queue is not looked at again");
    }
}

#[test]
fn what_is_not_mapped_is_a_fault_at_its_address() {
    let (to, page_end) = (low(NOWHERE), DATA + 4096);
    let up = high(NOWHERE);
    for (words, fault) in [
        (copy(NOWHERE, DATA, 8), (NOWHERE, false)),
        (copy(LARGE, NOWHERE, 8), (NOWHERE, true)),
        (copy(LARGE, DATA + 4090, 16), (page_end, true)),
        (copy(u64::MAX - 3, DATA, 16), (u64::MAX - 3, false)),
        (vec![2, to, up, 0, 1], (NOWHERE, true)),
        (vec![2, low(DATA + 4092), 0, 1, 1, 1], (page_end, true)),
        (vec![5, to, up, 1], (NOWHERE, true)),
        (vec![10 | 47 << 25, to, up, 1, 0, 0, 0, 0], (NOWHERE, true)),
        (vec![11 | 2 << 30, to, up, 1, 60], (NOWHERE, true)),
        (vec![13 | 2 << 8, to, up], (NOWHERE, true)),
        (vec![8 | 1 << 31, to, up, 0, 0, 0], (NOWHERE, false)),
        (vec![2, low(u64::MAX - 3), high(u64::MAX), 3, 1, 1, 1, 1], (u64::MAX - 3, true)),
    ] {
        let mut rig = SdmaRig::new();
        assert!(!rig.submit(&words));
        assert_eq!(rig.rig.faults(), [fault], "{words:x?}");
        assert_eq!(rig.rig.word64(READ_POINTER), 0);
    }
}
