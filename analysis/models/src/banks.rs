//! Bank conflicts of LDS accesses: the extra cycles that an instruction takes because its lanes need different dwords of a bank.
//!
//! A model. LDS serves lanes in phases; within a phase, a bank gives one dword, to as many lanes as want it. An instruction's
//! conflicts are, over its phases, the sum of the most distinct dwords of a bank, minus one. The counter
//! `SQ_LDS_BANK_CONFLICT` of the hardware counts such cycles.
//!
//! Sources of the phases: for reads on gfx942 the measurements of amd-shark-ai pull request 2919, which Triton (pull request
//! 11365) and Composable Kernel use as well; for writes of 16 bytes the documents of Composable Kernel. For gfx950 the measurements in
//! table 5 of "HipKittens" (arXiv 2511.08083), of reads of 8, 12 and 16 bytes and of writes of 8: not all accesses have its 64 banks.
//! There are no published measurements for the other processors, for writes of 12 bytes, or for other writes on gfx950.

/// Lanes of a wave.
const LANES: usize = 64;
/// Dwords of a lane at most.
const MOST: usize = 4;
/// Lanes of a phase at most.
const PHASE: usize = 64;

/// Whether data is read or written. An atomic is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// Read.
    Read,
    /// Written.
    Write,
}

/// Phases of consecutive lanes: all, 32, 16 or 8 of them.
const OF_64: [u64; 1] = [u64::MAX];
const OF_32: [u64; 2] = [0xffff_ffff, 0xffff_ffff << 32];
const OF_16: [u64; 4] = [0xffff, 0xffff << 16, 0xffff << 32, 0xffff << 48];
const OF_8: [u64; 8] = [0xff, 0xff << 8, 0xff << 16, 0xff << 24, 0xff << 32, 0xff << 40, 0xff << 48, 0xff << 56];
/// Phases of reads of 12 and 16 bytes: lanes 0-3 and 20-23, 4-7 and 16-19, 8-11 and 28-31, 12-15 and 24-27. The upper 32 lanes are
/// served alike.
const MIXED: [u64; 8] = {
    let lower = [0x00f0_000f, 0x000f_00f0, 0xf000_0f00, 0x0f00_f000];
    let [a, b, c, d] = lower;
    [a, b, c, d, a << 32, b << 32, c << 32, d << 32]
};

/// Phases of reads of 16 bytes from 64 banks: lanes 0-3, 12-15 and 20-27, and the others of the lower 32. The upper ones are served alike.
const HALVES: [u64; 4] = {
    let lower = [0x0ff0_f00f, 0xf00f_0ff0];
    let [a, b] = lower;
    [a, b, a << 32, b << 32]
};

/// For each phase of an access of so many bytes a lane, the lanes that are served together; and how many banks serve them.
fn phases(banks: u32, bytes: u8, direction: Direction) -> (&'static [u64], u32) {
    let phases: &[u64] = match (banks, bytes, direction) {
        (64, 0..=4, Direction::Read) => return (&OF_64, 64),
        (64, 5..=8, Direction::Read) => return (&OF_32, 64),
        (64, 13.., Direction::Read) => return (&HALVES, 64),
        (_, 0..=4, _) => &OF_32,
        (_, 5..=8, _) => &OF_16,
        (_, _, Direction::Write) => &OF_8,
        (_, _, Direction::Read) => &MIXED,
    };
    (phases, 32)
}

/// The conflict cycles of one access of the lanes of `mask`: how many banks there are, byte offsets in LDS, and bytes of a lane.
pub fn conflicts(banks: u32, at: &[u64; LANES], mask: u64, bytes: u8, direction: Direction) -> u32 {
    match phases(banks, bytes, direction) {
        (phases, 64) => of_banks::<64>(phases, at, mask, bytes),
        (phases, _) => of_banks::<32>(phases, at, mask, bytes),
    }
}

fn of_banks<const BANKS: usize>(phases: &[u64], at: &[u64; LANES], mask: u64, bytes: u8) -> u32 {
    let mut conflicts = 0;
    // The distinct dwords of each bank in a phase: no more than lanes, since the dwords of one lane are in different banks. Most
    // accesses have no conflict, and need no room for more than the first.
    let mut first_found = [0u32; BANKS];
    let mut more_found: Option<[[u32; PHASE]; BANKS]> = None;
    for phase in phases {
        let mut lanes = phase & mask;
        if lanes == 0 {
            continue;
        }
        let mut counts = [0u8; BANKS];
        let mut most = 0;
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            lanes &= lanes - 1;
            let (first, last) = (at[lane] / 4, at[lane].wrapping_add(u64::from(bytes.max(1)) - 1) / 4);
            for dword in (first..=last).take(MOST + 1) {
                let (bank, dword) = (dword as usize % BANKS, dword as u32);
                let count = usize::from(counts[bank]);
                if count == 0 {
                    first_found[bank] = dword;
                } else if first_found[bank] == dword {
                    continue;
                } else {
                    let more = &mut more_found.get_or_insert([[0; PHASE]; BANKS])[bank];
                    if more[..count - 1].contains(&dword) || count == PHASE {
                        continue;
                    }
                    more[count - 1] = dword;
                }
                counts[bank] += 1;
                most = most.max(u32::from(counts[bank]));
            }
        }
        conflicts += most.saturating_sub(1);
    }
    conflicts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strided(stride: u64, bytes: u8, direction: Direction) -> u32 {
        conflicts(32, &std::array::from_fn(|l| l as u64 * stride), u64::MAX, bytes, direction)
    }

    #[test]
    fn rows_and_broadcasts_have_none_and_columns_of_unpadded_tiles_have_all() {
        for direction in [Direction::Read, Direction::Write] {
            assert_eq!(strided(4, 4, direction), 0);
            assert_eq!(strided(0, 4, direction), 0);
            // A stride of 8 bytes: two dwords of each bank in both phases, as it was measured.
            assert_eq!(strided(8, 4, direction), 2);
            // A column of a tile of 32 floats, and the same with a padding of one.
            assert_eq!(strided(128, 4, direction), 2 * 31);
            assert_eq!(strided(132, 4, direction), 0);
            assert_eq!(strided(8, 8, direction), 0);
            assert_eq!(strided(16, 16, direction), 0);
        }
    }

    #[test]
    fn saturated_reads_cost_what_was_measured() {
        // 62, 60 and 56 cycles for reads of 4, 8 and 16 bytes: all lanes want another dword of one bank (of two, of four).
        assert_eq!([4, 8, 16].map(|bytes| strided(128, bytes, Direction::Read)), [62, 60, 56]);
    }

    #[test]
    fn lanes_that_are_off_need_nothing() {
        let at = std::array::from_fn(|l| 128 * l as u64);
        assert_eq!(conflicts(32, &at, 0, 4, Direction::Read), 0);
        assert_eq!(conflicts(32, &at, 0b11, 4, Direction::Read), 1);
        assert_eq!(conflicts(32, &at, 1 | 1 << 32, 4, Direction::Read), 0);
    }

    #[test]
    fn reads_have_64_banks_where_that_was_measured_and_writes_have_32() {
        use Direction::{Read, Write};
        let cost = |stride: u64, bytes, direction| {
            conflicts(64, &std::array::from_fn(|l| l as u64 * stride), u64::MAX, bytes, direction)
        };
        for (bytes, direction) in [(4, Read), (8, Read), (16, Read), (4, Write), (8, Write), (16, Write)] {
            assert_eq!(cost(bytes.into(), bytes, direction), 0, "rows of {bytes}, {direction:?}");
        }
        // All lanes of a phase want another dword of one bank: 64, 32 and 16 lanes; of 12 bytes eight.
        assert_eq!([4, 8, 16].map(|bytes| cost(256, bytes, Read)), [63, 2 * 31, 4 * 15]);
        assert_eq!(cost(128, 12, Read), 8 * 7);
        assert_eq!([4, 8].map(|bytes| cost(128, bytes, Write)), [2 * 31, 4 * 15]);
        // Two lanes that want two dwords of one bank: together only if one phase has both.
        let pair = |a: usize, b: usize| {
            let at = std::array::from_fn(|l| if l == a { 0 } else { 256 });
            conflicts(64, &at, 1 << a | 1 << b, 16, Read)
        };
        let together: Vec<usize> = (1..64).filter(|lane| pair(0, *lane) == 1).collect();
        assert_eq!(together, [1, 2, 3, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27]);
        let together: Vec<usize> = (0..64).filter(|lane| *lane != 36 && pair(36, *lane) == 1).collect();
        assert_eq!(together, [37, 38, 39, 40, 41, 42, 43, 48, 49, 50, 51, 60, 61, 62, 63]);
    }
}
