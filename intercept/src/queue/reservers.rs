//! Which thread has reserved each packet of a ring.
//!
//! The thread that rings a doorbell may publish packets of others, and the doorbell says nothing of earlier packets. A thread that has
//! reserved a packet by a function of the runtime is the one that asks for it.
//!
//! # Threads
//! Producers write, each for the packets that it has reserved. The holder of the queue's combining lock reads.
//!
//! # Ordering
//! A thread writes the header of a packet, with release, after it has reserved the packet: who sees the packet sees its reserver. Where a
//! producer writes its packet first, or an index that it was not given, the tag may be missing or of an earlier lap, which shows.

use std::sync::atomic::{AtomicU32, Ordering};

/// Bits of a thread's number. Source: `PID_MAX_LIMIT` in Linux, `include/linux/threads.h`, 4 Mi.
const THREAD_BITS: u32 = 22;
const THREAD: u32 = (1 << THREAD_BITS) - 1;

/// For each slot, a thread's number, and above it the low bits of the lap; 0 where no thread is known.
pub(super) struct Reservers {
    /// A power of two of them, or none if there is no memory.
    tags: Box<[AtomicU32]>,
    /// An index shifted by so many bits is its lap.
    lap: u32,
}

impl Reservers {
    /// Of a ring with so many slots, a power of two, of which no thread has reserved any.
    pub(super) fn of(slots: u32) -> Reservers {
        let mut tags = Vec::new();
        if slots.is_power_of_two() && tags.try_reserve_exact(slots as usize).is_ok() {
            tags.resize_with(slots as usize, AtomicU32::default);
        }
        Reservers { tags: tags.into_boxed_slice(), lap: slots.max(1).ilog2() }
    }

    /// Where the tag of a packet is, and the lap in it.
    #[inline]
    fn place(&self, index: u64) -> (usize, u32) {
        (index as usize & self.tags.len().wrapping_sub(1), ((index >> self.lap) as u32) << THREAD_BITS)
    }

    #[inline]
    fn tag(&self, index: u64) -> Option<(&AtomicU32, u32)> {
        let (place, lap) = self.place(index);
        Some((self.tags.get(place)?, lap))
    }

    /// A thread has reserved so many packets from `first` on. A thread whose number is too large is none.
    #[inline]
    pub(super) fn reserved(&self, first: u64, count: u64, thread: u32) {
        let thread = if thread <= THREAD { thread } else { 0 };
        // Of more packets than there are slots, the last ones count.
        let end = first.wrapping_add(count);
        let first = end.wrapping_sub(count.min(self.tags.len() as u64));
        for index in (0..end.wrapping_sub(first)).map(|behind| first.wrapping_add(behind)) {
            if let Some((tag, lap)) = self.tag(index) {
                tag.store(lap | thread, Ordering::Relaxed);
            }
        }
    }

    /// The thread that has reserved a packet; 0 if it is not known.
    #[inline]
    pub(super) fn of_packet(&self, index: u64) -> u32 {
        self.tag(index).map_or(0, |(tag, lap)| thread_of(tag, lap))
    }

    /// The same for so many packets of one lap from `first` on.
    #[inline]
    pub(super) fn of_packets(&self, first: u64, count: usize) -> impl Fn(usize) -> u32 {
        let (start, lap) = self.place(first);
        let tags = self.tags.get(start..).and_then(|tags| tags.get(..count)).unwrap_or_default();
        move |n| tags.get(n).map_or(0, |tag| thread_of(tag, lap))
    }
}

#[inline]
fn thread_of(tag: &AtomicU32, lap: u32) -> u32 {
    let tag = tag.load(Ordering::Relaxed);
    if tag & !THREAD == lap { tag & THREAD } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_the_thread_that_reserved_it_and_no_thread_of_an_earlier_lap() {
        let reservers = Reservers::of(64);
        assert_eq!(reservers.of_packet(0), 0);
        reservers.reserved(0, 3, 17);
        reservers.reserved(3, 1, THREAD);
        assert_eq!([0, 1, 2, 3, 4].map(|index| reservers.of_packet(index)), [17, 17, 17, THREAD, 0]);
        // The same slots, a lap later, where nobody has reserved them by a function that is seen.
        assert_eq!([64, 65, 67].map(|index| reservers.of_packet(index)), [0; 3]);
        reservers.reserved(65, 1, 18);
        assert_eq!([64, 65, 66].map(|index| reservers.of_packet(index)), [0, 18, 0]);
        assert_eq!(reservers.of_packet(1), 0, "it is not asked for again, and would be wrong");
    }

    #[test]
    fn whatever_is_reserved_the_threads_are_those_of_the_last_packets_that_fit() {
        let reservers = Reservers::of(4);
        reservers.reserved(10, 100, 5);
        assert_eq!([105, 106, 109, 110].map(|index| reservers.of_packet(index)), [0, 5, 5, 0]);
        // A caller's mistakes: nothing, everything, and past the end of what an index can be.
        reservers.reserved(110, 0, 6);
        reservers.reserved(110, u64::MAX, 7);
        reservers.reserved(u64::MAX - 1, 4, 8);
        assert_eq!([u64::MAX, 0, 1, 2].map(|index| reservers.of_packet(index)), [8, 8, 8, 0]);
        reservers.reserved(3, 1, THREAD + 1);
        assert_eq!(reservers.of_packet(3), 0, "no number of a thread");
        // A pass ends with its lap; what is behind that has no thread.
        reservers.reserved(21, 3, 9);
        let of = reservers.of_packets(21, 3);
        assert_eq!([0, 1, 2, 3].map(of), [9, 9, 9, 0]);
        assert_eq!([0, 3].map(reservers.of_packets(22, 3)), [0, 0], "of two laps");
        for slots in [0, 3] {
            let none = Reservers::of(slots);
            none.reserved(0, 9, 5);
            assert_eq!(none.of_packet(0), 0);
        }
    }
}
