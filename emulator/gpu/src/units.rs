//! The compute units of a GPU, those that a queue may use, and on which of them a workgroup runs.
//!
//! Each die (XCC) takes every n-th workgroup of a dispatch, in the order of their numbers. On a die, workgroups go to shader engines in
//! turn. A queue's mask switches compute units off: its workgroups run on the others. A die without any never runs its workgroups.

use crate::shape::Dies;

/// A compute unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Unit {
    /// Its die, as `HW_REG_XCC_ID` names it.
    pub(crate) die: u32,
    /// Its shader engine on the die.
    pub(crate) engine: u32,
    /// Its number in the shader engine.
    pub(crate) number: u32,
    /// How many workgroups of the dispatch the unit had before.
    pub(crate) turn: u32,
}

impl Unit {
    /// `TG_ID` (bits 19 to 16), `SE_ID` (from bit 13) and `CU_ID` (bits 11 to 8) of `HW_REG_HW_ID`. Source: Vega ISA manual, "Hardware
    /// Register Values"; `SE_ID` has a third bit on gfx908 and gfx90a, says HIP's `amd_device_functions.h`.
    pub(crate) fn hw_id(self) -> u32 {
        (self.turn & 15) << 16 | (self.engine & 7) << 13 | (self.number & 15) << 8
    }
}

/// The compute units that the workgroups of a queue may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Units {
    first: u32,
    engines: u32,
    /// Of each die, the units that are on: numbers over all engines, which get consecutive ones in turn.
    on: Vec<Vec<u32>>,
}

impl Units {
    /// All of them.
    pub(crate) fn all(dies: Dies) -> Units {
        Units::chosen(dies, |_| true)
    }

    /// Those whose bits are set. Bit `n` is of die `n` modulo the number of dies, and there of the next unit in the order of the engines.
    /// Bits that are missing are of units that are off. Source: the kernel's `mqd_symmetrically_map_cu_mask`.
    pub(crate) fn masked(dies: Dies, mask: &[u32]) -> Units {
        Units::chosen(dies, |bit| mask.get(bit as usize / 32).is_some_and(|word| word >> (bit % 32) & 1 == 1))
    }

    fn chosen(dies: Dies, on: impl Fn(u32) -> bool) -> Units {
        let Dies { first, count, engines, units } = dies;
        let of_die = |die| (0..units.max(1)).filter(|unit| on(die + unit * count)).collect();
        Units { first, engines: engines.max(1), on: (0..count.max(1)).map(of_die).collect() }
    }

    /// How many units there are.
    pub(crate) fn count(&self) -> u32 {
        self.on.iter().map(|die| die.len() as u32).sum()
    }

    /// The first die that has a workgroup of a dispatch of so many, but no unit that is on.
    pub(crate) fn without_unit(&self, workgroups: u64) -> Option<u32> {
        let mut used = self.on.iter().zip(0u32..).take_while(|(_, n)| u64::from(*n) < workgroups);
        used.find(|(die, _)| die.is_empty()).map(|(_, n)| self.first + n)
    }

    /// The unit that runs a workgroup. Within its die, `drawn` chooses; without, units get workgroups in turn.
    pub(crate) fn of_workgroup(&self, workgroup: u64, drawn: Option<u32>) -> Unit {
        let dies = self.on.len() as u64;
        let (die, turn) = ((workgroup % dies) as usize, workgroup / dies);
        let on = self.on.get(die).map_or(&[][..], Vec::as_slice);
        let length = on.len().max(1) as u64;
        let place = drawn.map_or(turn, u64::from) % length;
        // A die without units runs nothing: `without_unit` holds the dispatch.
        let unit = on.get(place as usize).copied().unwrap_or_default();
        let (engine, number) = (unit % self.engines, unit / self.engines);
        Unit { die: self.first + die as u32, engine, number, turn: (turn / length) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const MI300X: Dies = Dies { first: 0, count: 8, engines: 4, units: 38 };

    #[test]
    fn workgroups_go_to_dies_in_turn_and_there_to_engines_in_turn() {
        let units = Units::all(MI300X);
        assert_eq!(units.count(), 304);
        let seats: Vec<Unit> = (0..304).map(|n| units.of_workgroup(n, None)).collect();
        assert_eq!(seats.iter().collect::<BTreeSet<_>>().len(), 304, "each unit has one");
        for (n, seat) in seats.iter().enumerate() {
            assert_eq!((seat.die as usize, seat.engine as usize), (n % 8, n / 8 % 4));
        }
        let again = units.of_workgroup(304, None);
        assert_eq!(Unit { turn: 0, ..again }, seats[0]);
        assert_eq!((again.turn, again.hw_id()), (1, 1 << 16));
        assert_eq!(seats[303].hw_id(), 1 << 13 | 9 << 8, "the last unit of the second engine");
        let drawn: BTreeSet<Unit> = (0..64).map(|n| units.of_workgroup(8 * n + 3, Some(17 * n as u32))).collect();
        assert!(drawn.len() > 30 && drawn.iter().all(|unit| unit.die == 3));
    }

    #[test]
    fn a_mask_leaves_the_units_of_its_bits_and_dies_without_one_run_nothing() {
        // Bits 0 to 7 are the first unit of each die, bit 8 + 3 the second of the fourth one.
        let units = Units::masked(MI300X, &[0x8ff]);
        assert_eq!((units.count(), units.without_unit(1 << 20)), (9, None));
        let of_die = |die: u64| -> BTreeSet<(u32, u32)> {
            (0..40).map(|n| units.of_workgroup(8 * n + die, None)).map(|unit| (unit.engine, unit.number)).collect()
        };
        assert_eq!(of_die(0), [(0, 0)].into());
        assert_eq!(of_die(3), [(0, 0), (1, 0)].into());
        let some = Units::masked(MI300X, &[0b1011]);
        assert_eq!([1, 2, 3, 9].map(|workgroups| some.without_unit(workgroups)), [None, None, Some(2), Some(2)]);
        let partition = Units::masked(Dies { first: 5, count: 1, ..MI300X }, &[u32::MAX, 0]);
        assert_eq!((partition.count(), partition.of_workgroup(33, None).die), (32, 5));
        assert_eq!(Units::masked(MI300X, &[]).without_unit(1), Some(0));
    }
}
