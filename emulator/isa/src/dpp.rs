//! Data-parallel control: which lane each lane reads from.
//!
//! Source: Vega ISA manual, "DPP_CTRL enumeration".

use crate::inst::Dpp;
use crate::lanes::{blend, lane_masks, mask_of};
use crate::wave::{Aligned, LANES, Vgpr};

/// The lane that lane `l` reads from, when there is one.
const fn source_lane(ctrl: u16, l: usize) -> Option<usize> {
    let row = l & !15;
    let n = ctrl as usize & 15;
    let in_row = l & 15;
    match ctrl {
        0..=0xff => Some(l & !3 | ctrl as usize >> (2 * (l & 3)) & 3),
        0x101..=0x10f if in_row + n < 16 => Some(l + n),
        0x111..=0x11f if in_row >= n => Some(l - n),
        0x121..=0x12f => Some(row | (in_row + 16 - n) & 15),
        0x130 if l + 1 < LANES => Some(l + 1),
        0x134 => Some((l + 1) % LANES),
        0x138 if l > 0 => Some(l - 1),
        0x13c => Some((l + LANES - 1) % LANES),
        0x140 => Some(row | (15 - in_row)),
        0x141 => Some(l & !7 | (7 - (l & 7))),
        // Lane 15 of each row to the next row, lane 31 to the upper two rows. The lanes before these keep their own value: of
        // the other controls the manual says what a lane without a source does, of these it says that only others are moved.
        0x142 => Some(if row > 0 { row - 1 } else { l }),
        0x143 => Some(if l >= 32 { 31 } else { l }),
        // row_newbcast of gfx90a: one lane of each row to the row.
        0x150..=0x15f => Some(row | n),
        _ => None,
    }
}

impl Dpp {
    /// The lane that a lane reads its first source from, whether that is active or not; `None` where there is none.
    pub fn source(self, lane: usize) -> Option<usize> {
        source_lane(self.ctrl, lane)
    }
}

/// Control codes.
const CODES: usize = 0x160;

/// For each control code the lane that each lane reads from, its own where there is none, and the lanes that have one.
static SOURCES: [([u8; LANES], u64); CODES] = {
    let mut table = [([0; LANES], 0); CODES];
    let mut ctrl = 0;
    while ctrl < CODES {
        let mut l = 0;
        while l < LANES {
            table[ctrl].0[l] = l as u8;
            if let Some(from) = source_lane(ctrl as u16, l) {
                table[ctrl].0[l] = from as u8;
                table[ctrl].1 |= 1 << l;
            }
            l += 1;
        }
        ctrl += 1;
    }
    table
};

/// For each lane the one that it reads from, and the lanes that have one.
fn sources(dpp: Dpp) -> &'static ([u8; LANES], u64) {
    &SOURCES[usize::from(dpp.ctrl) % CODES]
}

/// Every lane's value from its source lane.
#[inline(always)]
fn moved(word: &Vgpr, from: &[u8; LANES]) -> Aligned<Vgpr> {
    let mut values = Aligned([0; LANES]);
    for (value, &from) in values.iter_mut().zip(from) {
        *value = word[usize::from(from) % LANES];
    }
    values
}

/// True when the tables know what `ctrl` means.
pub(crate) fn is_known(ctrl: u16, newbcast: bool) -> bool {
    matches!(ctrl, 0..=0xff | 0x101..=0x10f | 0x111..=0x11f | 0x121..=0x12f | 0x130 | 0x134 | 0x138 | 0x13c | 0x140..=0x143)
        || (newbcast && matches!(ctrl, 0x150..=0x15f))
}

/// Every lane's value from its source lane; zero for lanes without one, or with one that is off.
#[inline(always)]
pub(crate) fn permute(word: &Vgpr, dpp: Dpp, exec: u64) -> Aligned<Vgpr> {
    let (from, exist) = sources(dpp);
    let mut values = Aligned(*word);
    blend(&mut values, &[0; LANES], !exec);
    let mut values = moved(&values, from);
    blend(&mut values, &[0; LANES], !exist);
    values
}

/// The lanes that may be written: in a chosen row and bank, and with a source unless zero stands in for it.
#[inline(always)]
pub(crate) fn write_mask(dpp: Dpp, exec: u64) -> u64 {
    let rows = (0..4).fold(0u64, |mask, row| mask | (u64::from(dpp.row_mask >> row & 1) * 0xffff) << (16 * row));
    let banks = (0..4).fold(0u64, |mask, bank| mask | (u64::from(dpp.bank_mask >> bank & 1) * 0xf) << (4 * bank));
    let there = match sources(dpp) {
        _ if dpp.bound_ctrl => u64::MAX,
        (_, exist) if exec == u64::MAX => *exist,
        (from, exist) => {
            let on = moved(&lane_masks(exec), from);
            exist & mask_of(|l| on[l] != 0)
        }
    };
    rows & (banks * 0x0001_0001_0001_0001) & there
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
    fn broadcasts_reach_later_rows_and_leave_the_value_of_earlier_ones() {
        assert_eq!(lanes(0x142)[14..17], [Some(14), Some(15), Some(15)]);
        assert_eq!(lanes(0x142)[63], Some(47));
        assert_eq!(lanes(0x143)[30..33], [Some(30), Some(31), Some(31)]);
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
