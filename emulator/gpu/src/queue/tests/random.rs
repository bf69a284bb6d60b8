//! Rings of random bytes: the machine does not panic.

use std::sync::atomic::Ordering;

use amdgpu_isa::Arch;

use super::*;
use crate::queue::RingInfo;
use crate::queue::aql::AqlQueueInfo;

/// Numbers that are the same in every run: xorshift.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Bits, or an address that is likely to be mapped, or one at the end of all addresses.
    fn word64(&mut self) -> u64 {
        let bits = self.next();
        match bits >> 60 {
            0..5 => [RING, QUEUE, SIGNALS, DATA, CODE, LARGE][bits as usize % 6] + (bits >> 8) % 4096,
            5 => u64::MAX - (bits & 0xff),
            6..11 => bits & 0x100,
            _ => bits,
        }
    }

    /// A ring of words of which those in places that begin packets look like headers.
    fn ring(&mut self, header: impl Fn(u64) -> u32) -> Vec<u32> {
        let mut words: Vec<u32> = Vec::new();
        while (words.len() as u64) < RING_BYTES / 4 {
            let bits = self.next();
            words.extend([header(bits), (bits >> 32) as u32]);
            // Often a packet that is valid: with nothing in it.
            let empty = bits >> 40 & 3 != 0;
            for _ in 0..7 {
                let word = if empty { 0 } else { self.word64() };
                words.extend([word as u32, (word >> 32) as u32]);
            }
        }
        words
    }
}

#[test]
fn rings_of_anything_are_taken_or_refused() {
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let (mut refused, mut taken) = (0, 0);
    for round in 0..300 {
        let mut rig = Rig::new([Arch::Gfx90a, Arch::Gfx906][round % 2]);
        let aql = numbers.next() & 1 == 0;
        let words = numbers.ring(|bits| {
            if aql {
                (bits % 6) as u32 | (bits as u32 & 0x3_ff00)
            } else {
                (bits % 18) as u32 | (bits as u32 & 0xff00_0000)
            }
        });
        rig.put(RING, &words);
        let data: Vec<u32> = (0..1024).map(|_| numbers.next() as u32).collect();
        rig.put(DATA, &data);
        rig.put(CODE, &data);
        let doorbell = rig.doorbell(u64::MAX);
        if aql {
            let info = AqlQueueInfo {
                id: 1,
                ring: RING,
                slots: RING_BYTES / 64,
                queue: QUEUE,
                doorbell,
                injections: Vec::new(),
            };
            rig.engine.engine().add_aql(info, rig.gpu.clone());
            rig.rung.store(RING_BYTES / 64 - 1, Ordering::Release);
        } else {
            rig.rung.store(RING_BYTES, Ordering::Release);
            let info = RingInfo { id: 1, ring: RING, bytes: RING_BYTES, read_pointer: QUEUE, doorbell };
            rig.engine.engine().add_sdma(info, rig.gpu.clone());
        }
        // A kernel of anything may run for ever.
        for _ in 0..50 {
            if !rig.engine.step() {
                break;
            }
        }
        refused += usize::from(!rig.errors().is_empty() || !rig.faults().is_empty());
        taken += usize::from(rig.word64(if aql { QUEUE + 128 } else { QUEUE }) > 0);
        rig.engine.engine().remove(1);
    }
    assert!(refused > 100 && taken > 30, "{refused} refused, {taken} taken");
}
