//! The order in which workgroups of a dispatch start, and the slices in which waves of a workgroup share a thread.
//!
//! Hardware promises no order, and a kernel may compute something else in another one. Without a seed, the order here is by
//! number, so that runs are alike. With a seed ([`crate::Gpu::fill_from`]), each dispatch draws its order: a kernel whose result
//! depends on it shows that in a few runs.

use crate::fill::Fill;

/// Instructions that a wave executes at most while another wave of its workgroup can run.
///
/// Waves of a workgroup share one thread in slices. Hardware advances them nearly together, and programs rely on that,
/// rightly (a wave polls what another writes) or not (a word that is read behind a barrier, and written again without one).
/// Source: HSA Platform System Architecture Specification 1.2, section 2.13 promises the barrier only.
const WAVE_SLICE: u64 = 128;
/// The shortest slice that is drawn.
const SHORTEST_SLICE: u64 = 16;

/// The slices of the waves of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slices {
    /// The wave that is first in each round.
    first: usize,
    /// Instructions of a wave's slice.
    pub(crate) instructions: u64,
}

impl Default for Slices {
    fn default() -> Slices {
        Slices { first: 0, instructions: WAVE_SLICE }
    }
}

impl Slices {
    /// Draws the slices of so many waves.
    pub(crate) fn drawn(fill: &mut Fill, waves: u32) -> Slices {
        let first = fill.next() % u64::from(waves.max(1));
        let instructions = SHORTEST_SLICE + fill.next() % (WAVE_SLICE - SHORTEST_SLICE + 1);
        Slices { first: first as usize, instructions }
    }

    /// The waves of a round, each once.
    pub(crate) fn order(&self, waves: usize) -> impl Iterator<Item = usize> + use<> {
        let first = self.first;
        (first..waves).chain(0..first.min(waves))
    }
}

/// The order in which the workgroups of a dispatch start.
///
/// Only workgroups that can be resident together change places: a workgroup may wait for one with a lower number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    total: u64,
    /// Workgroups that change places with each other.
    window: u64,
    /// Numbers that make the places of a window's workgroups.
    step: u64,
    shift: u64,
}

impl Order {
    /// By number.
    pub(crate) fn by_number(total: u64) -> Order {
        Order { total, window: 1, step: 1, shift: 0 }
    }

    /// Draws the order of `total` workgroups, of which `capacity` can be resident together.
    pub(crate) fn drawn(fill: &mut Fill, total: u64, capacity: u64) -> Order {
        let window = capacity.clamp(1, total.max(1));
        Order { total, window, step: fill.next() % window, shift: fill.next() % window }
    }

    /// The `n`th workgroup that starts, below the total.
    pub(crate) fn nth(&self, n: u64) -> u64 {
        let first = n - n % self.window;
        // The last window may be smaller.
        let length = self.window.min(self.total.saturating_sub(first)).max(1);
        let mut step = self.step % length;
        // A step without a common divisor reaches each place once.
        while common_divisor(step, length) != 1 {
            step += 1;
        }
        let place = u128::from(n - first) * u128::from(step) + u128::from(self.shift);
        first + (place % u128::from(length)) as u64
    }
}

/// The greatest common divisor; that of 0 and 1 is 1.
fn common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_workgroup_starts_once_and_no_later_than_those_that_cannot_be_resident_with_it() {
        for seed in 0..50 {
            for (total, capacity) in [(1, 1), (7, 100), (100, 7), (64, 64), (65, 64), (1000, 36)] {
                let order = Order::drawn(&mut Fill::new(seed, 1, 2), total, capacity);
                let started: Vec<u64> = (0..total).map(|n| order.nth(n)).collect();
                assert_eq!(started.iter().copied().collect::<BTreeSet<_>>(), (0..total).collect(), "{order:?}");
                for (n, workgroup) in (0..).zip(started) {
                    assert_eq!(n / capacity, workgroup / capacity, "{order:?}");
                }
            }
        }
        assert!((0..100).all(|n| Order::by_number(100).nth(n) == n));
    }

    #[test]
    fn each_wave_has_a_slice_in_a_round_and_dispatches_draw_other_orders() {
        let mut drawn = BTreeSet::new();
        for dispatch in 0..100 {
            let slices = Slices::drawn(&mut Fill::new(1, dispatch, 0), 4);
            assert!((SHORTEST_SLICE..=WAVE_SLICE).contains(&slices.instructions));
            let round: Vec<usize> = slices.order(4).collect();
            assert_eq!(round.iter().copied().collect::<BTreeSet<_>>(), (0..4).collect());
            drawn.insert(round);
        }
        assert_eq!(drawn.len(), 4);
        assert_eq!(Slices::default().order(3).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
