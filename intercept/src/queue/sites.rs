//! Where packets of a ring are launched from, as far as a feature has said it before they were published.
//!
//! # Threads
//! A producer writes, for packets that it has reserved and that are not published. The holder of the queue's combining lock reads.
//!
//! # Ordering
//! None: a site is lost where a packet is published at the same moment, and one of an earlier lap shows.

use std::sync::atomic::{AtomicU64, Ordering};

/// For each slot, the number of a site, and above it the low half of the packet's index. Empty if no feature asks for sites.
#[derive(Default)]
pub(super) struct Sites(Box<[AtomicU64]>);

impl Sites {
    /// Of a ring with so many slots, a power of two.
    pub(super) fn of(slots: u32) -> Sites {
        Sites((0..slots).map(|_| AtomicU64::new(0)).collect())
    }

    fn at(&self, index: u64) -> Option<&AtomicU64> {
        self.0.get(index as usize & self.0.len().wrapping_sub(1))
    }

    /// A packet is launched from a site.
    pub(super) fn note(&self, index: u64, site: u32) {
        if let Some(slot) = self.at(index) {
            slot.store(index << 32 | u64::from(site), Ordering::Relaxed);
        }
    }

    /// The site of a packet; 0 if it is not known.
    #[inline]
    pub(super) fn of_packet(&self, index: u64) -> u32 {
        let Some(slot) = self.at(index) else { return 0 };
        let value = slot.load(Ordering::Relaxed);
        if value >> 32 == index & u64::from(u32::MAX) { value as u32 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_has_its_own_site_and_none_of_an_earlier_lap() {
        let sites = Sites::of(4);
        sites.note(1, 7);
        sites.note(4, u32::MAX);
        assert_eq!([0, 1, 2, 4, 5].map(|index| sites.of_packet(index)), [0, 7, 0, u32::MAX, 0]);
        let none = Sites::default();
        none.note(1, 7);
        assert_eq!(none.of_packet(1), 0);
    }
}
