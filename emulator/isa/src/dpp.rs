//! Data-parallel control: which lane each lane reads from.
//!
//! Source: Vega ISA manual, "DPP_CTRL enumeration".

use crate::inst::Dpp;
use crate::wave::{LANES, Vgpr};

/// The lane that lane `l` reads from, when there is one.
fn source_lane(ctrl: u16, l: usize) -> Option<usize> {
    let row = l & !15;
    let n = usize::from(ctrl & 15);
    let in_row = l & 15;
    match ctrl {
        0..=0xff => Some(l & !3 | usize::from(ctrl >> (2 * (l & 3)) & 3)),
        0x101..=0x10f => (in_row + n < 16).then_some(l + n),
        0x111..=0x11f => in_row.checked_sub(n).map(|m| row | m),
        0x121..=0x12f => Some(row | (in_row + 16 - n) & 15),
        0x130 => (l + 1 < LANES).then_some(l + 1),
        0x134 => Some((l + 1) % LANES),
        0x138 => l.checked_sub(1),
        0x13c => Some((l + LANES - 1) % LANES),
        0x140 => Some(row | (15 - in_row)),
        0x141 => Some(l & !7 | (7 - (l & 7))),
        // Lane 15 of each row to the next row.
        0x142 => row.checked_sub(1),
        // Lane 31 to the upper two rows.
        0x143 => (l >= 32).then_some(31),
        // row_newbcast of gfx90a: one lane of each row to the row.
        0x150..=0x15f => Some(row | n),
        _ => None,
    }
}

/// True when the tables know what `ctrl` means.
pub(crate) fn is_known(ctrl: u16, newbcast: bool) -> bool {
    matches!(ctrl, 0..=0xff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x130 | 0x134 | 0x138 | 0x13c | 0x140..=0x143)
        || (newbcast && matches!(ctrl, 0x150..=0x15f))
}

/// The lane that lane `l` reads, if it exists and is on.
fn active_source(dpp: Dpp, l: usize, exec: u64) -> Option<usize> {
    source_lane(dpp.ctrl, l).filter(|&from| exec >> from & 1 == 1)
}

/// Every lane's value from its source lane; zero for lanes without one.
pub(crate) fn permute(word: &Vgpr, dpp: Dpp, exec: u64) -> Vgpr {
    std::array::from_fn(|l| active_source(dpp, l, exec).map_or(0, |from| word[from]))
}

/// The lanes that may be written: in a chosen row and bank, and with a source unless zero stands in for it.
pub(crate) fn write_mask(dpp: Dpp, exec: u64) -> u64 {
    (0..LANES)
        .filter(|&l| dpp.row_mask >> (l / 16) & 1 == 1 && dpp.bank_mask >> (l / 4 % 4) & 1 == 1)
        .filter(|&l| dpp.bound_ctrl || active_source(dpp, l, exec).is_some())
        .fold(0, |mask, l| mask | 1 << l)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(ctrl: u16) -> Vec<Option<usize>> {
        (0..LANES).map(|l| source_lane(ctrl, l)).collect()
    }

    #[test]
    fn shifts_and_rotations_stay_in_their_row() {
        assert_eq!(lanes(0x101)[14..17], [Some(15), None, Some(17)]);
        assert_eq!(lanes(0x111)[15..18], [Some(14), None, Some(16)]);
        assert_eq!(lanes(0x121)[15..18], [Some(14), Some(31), Some(16)]);
        assert_eq!(lanes(0x138)[..2], [None, Some(0)]);
        assert_eq!(lanes(0x134)[63], Some(0));
    }

    #[test]
    fn broadcasts_reach_later_rows_only() {
        assert_eq!(lanes(0x142)[15..17], [None, Some(15)]);
        assert_eq!(lanes(0x142)[63], Some(47));
        assert_eq!(lanes(0x143)[31..33], [None, Some(31)]);
        assert_eq!(lanes(0x153)[20], Some(19));
    }

    #[test]
    fn a_lane_whose_source_is_off_is_left_alone_unless_zero_stands_in() {
        let dpp = Dpp { ctrl: 0x111, bound_ctrl: false, bank_mask: 15, row_mask: 15 };
        let exec = !(1 << 4);
        assert_eq!(write_mask(dpp, exec) >> 4 & 3, 0b01);
        assert_eq!(write_mask(Dpp { bound_ctrl: true, ..dpp }, exec), u64::MAX);
        assert_eq!(write_mask(Dpp { bound_ctrl: true, row_mask: 2, bank_mask: 1, ..dpp }, exec), 0xf << 16);
    }
}
