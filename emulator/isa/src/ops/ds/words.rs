//! What the lanes of a wave read and write of the local data share: bytes, and dwords in the order of their addresses.

use std::ops::Range;

use crate::operand::Operand;
use crate::wave::{LANES, Vgpr, Wave, each_lane};

/// Reads up to eight bytes; zero outside of the allocation.
#[inline]
pub(super) fn get(lds: &[u8], at: u32, bytes: usize) -> u64 {
    let start = at as usize;
    match lds.get(start..start + bytes) {
        Some(source) => {
            let mut value = [0; 8];
            value[..bytes].copy_from_slice(source);
            u64::from_le_bytes(value)
        }
        None => 0,
    }
}

/// Writes up to eight bytes, if they are inside of the allocation.
#[inline]
pub(super) fn put(lds: &mut [u8], at: u32, bytes: usize, value: u64) {
    let start = at as usize;
    if let Some(place) = lds.get_mut(start..start + bytes) {
        place.copy_from_slice(&value.to_le_bytes()[..bytes]);
    }
}

/// Dword `n` of those from an address on; zero outside of the allocation. Of a constant size, unlike [`get`].
#[inline(always)]
pub(super) fn word(lds: &[u8], at: u32, n: u32) -> u32 {
    let start = place(at, n);
    match lds.get(start..start + 4) {
        Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]),
        _ => 0,
    }
}

/// Dwords that follow each other, each as [`word`] reads it.
#[inline(always)]
fn several_words<const N: usize>(lds: &[u8], at: u32) -> [u32; N] {
    let start = at as usize;
    let chunks = lds.get(start..start + 4 * N).map(|bytes| bytes.as_chunks().0);
    match chunks.and_then(|chunks| <&[[u8; 4]; N]>::try_from(chunks).ok()) {
        Some(chunks) => chunks.map(u32::from_le_bytes),
        None => std::array::from_fn(|n| word(lds, at, n as u32)),
    }
}

/// Where dword `n` of an access begins. Addresses have 32 bits; what an access has beyond their end is outside, not at the
/// beginning.
#[inline(always)]
fn place(at: u32, n: u32) -> usize {
    at as usize + 4 * n as usize
}

/// Writes dword `n` of those from an address on, if it is inside of the allocation.
#[inline(always)]
pub(super) fn put_word(lds: &mut [u8], at: u32, n: u32, value: u32) {
    let start = place(at, n);
    if let Some(place) = lds.get_mut(start..start + 4) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

/// Lanes that are looked at together: tiles of so many columns are what kernels of matrices read.
const GROUP: usize = 16;

/// How the addresses follow each other in every group of a wave whose lanes are all active.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Each lane has the dword after that of the lane before it.
    Row,
    /// All lanes have the address of the first.
    Same,
    /// Any other way.
    Other,
}

/// Bytes from the first lane of a group to each of its lanes, where they are in a row.
static STEPS: Vgpr = {
    let mut steps = [0; LANES];
    let mut l = 0;
    while l < LANES {
        steps[l] = 4 * (l % GROUP) as u32;
        l += 1;
    }
    steps
};

#[inline(always)]
pub(super) fn pattern(at: &[u32; LANES], mask: u64) -> Pattern {
    if mask != u64::MAX {
        return Pattern::Other;
    }
    // One loop over all lanes: of one over groups, compilers make gathers.
    let mut firsts = [0; LANES];
    for (firsts, group) in firsts.as_chunks_mut::<GROUP>().0.iter_mut().zip(at.as_chunks::<GROUP>().0) {
        *firsts = [group[0]; GROUP];
    }
    let (mut row, mut same) = (0, 0);
    for l in 0..LANES {
        let ahead = at[l].wrapping_sub(firsts[l]);
        row |= ahead ^ STEPS[l];
        same |= ahead;
    }
    match (row, same) {
        (0, _) => Pattern::Row,
        (_, 0) => Pattern::Same,
        _ => Pattern::Other,
    }
}

/// The bytes of a group in a row.
#[inline(always)]
fn row(start: usize) -> Range<usize> {
    start..start + 4 * GROUP
}

/// The addresses of an access, the lanes that are active, and how the addresses follow each other.
pub(super) type Places<'a> = (&'a [u32; LANES], u64, Pattern);

/// Reads dwords of each lane's address plus `offset` into the `words` of `dst`.
#[inline(always)]
pub(super) fn load_words(
    w: &mut Wave,
    lds: &[u8],
    (at, mask, pattern): Places<'_>,
    offset: u32,
    dst: Operand,
    words: Range<u32>,
) {
    let first = words.start;
    if pattern == Pattern::Other {
        let (from, count) = (|l: usize| at[l].wrapping_add(offset), words.len());
        match (count, w.vectors_mut(dst, words.end as usize)) {
            (2, [.., a, b]) => return each_lane(mask, |l| [a[l], b[l]] = several_words(lds, from(l))),
            (4, [.., a, b, c, d]) => {
                return each_lane(mask, |l| [a[l], b[l], c[l], d[l]] = several_words(lds, from(l)));
            }
            _ => {}
        }
    }
    for n in words {
        let register = w.vector_mut(dst, n);
        let nth = n - first;
        if pattern == Pattern::Other {
            each_lane(mask, |l| register[l] = word(lds, at[l].wrapping_add(offset), nth));
            continue;
        }
        for (lanes, at) in register.chunks_exact_mut(GROUP).zip(at.chunks_exact(GROUP)) {
            let start = at[0].wrapping_add(offset);
            if pattern == Pattern::Same {
                lanes.fill(word(lds, start, nth));
            } else if let Some(row) = lds.get(row(place(start, nth))) {
                for (word, chunk) in lanes.iter_mut().zip(row.as_chunks().0) {
                    *word = u32::from_le_bytes(*chunk);
                }
            } else {
                for (word, at) in lanes.iter_mut().zip(at) {
                    *word = self::word(lds, at.wrapping_add(offset), nth);
                }
            }
        }
    }
}

/// Writes dwords of registers to each lane's address plus `offset`, lower lanes first.
#[inline(always)]
pub(super) fn store_words(
    w: &Wave,
    lds: &mut [u8],
    (at, mask, pattern): Places<'_>,
    offset: u32,
    from: Operand,
    dwords: u32,
) {
    if dwords == 1 {
        let register = w.vector(from, 0);
        if pattern != Pattern::Row {
            return each_lane(mask, |l| put_word(lds, at[l].wrapping_add(offset), 0, register[l]));
        }
        for (lanes, at) in register.chunks_exact(GROUP).zip(at.chunks_exact(GROUP)) {
            if let Some(row) = lds.get_mut(row(place(at[0].wrapping_add(offset), 0))) {
                for (word, chunk) in lanes.iter().zip(row.as_chunks_mut().0) {
                    *chunk = word.to_le_bytes();
                }
            } else {
                for (&word, at) in lanes.iter().zip(at) {
                    put_word(lds, at.wrapping_add(offset), 0, word);
                }
            }
        }
        return;
    }
    let registers = w.vectors(from, dwords as usize);
    if let [low, high] = registers {
        return each_lane(mask, |l| {
            let start = at[l].wrapping_add(offset);
            match lds.get_mut(start as usize..start as usize + 8).and_then(|bytes| bytes.as_chunks_mut().0.first_mut())
            {
                Some(place) => *place = (u64::from(low[l]) | u64::from(high[l]) << 32).to_le_bytes(),
                None => {
                    put_word(lds, start, 0, low[l]);
                    put_word(lds, start, 1, high[l]);
                }
            }
        });
    }
    each_lane(mask, |l| {
        for (n, register) in registers.iter().enumerate() {
            put_word(lds, at[l].wrapping_add(offset), n as u32, register[l]);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_lanes_read_and_write_what_each_lane_alone_would() {
        const BYTES: usize = 1024;
        let memory: Vec<u8> = (0..BYTES).map(|n| (n * 37 % 251) as u8).collect();
        let tile = |group: usize| [700, 12, 956, 12][group];
        let in_a_row: Vgpr = std::array::from_fn(|l| tile(l / GROUP) + 4 * (l % GROUP) as u32);
        // Beyond the end in the middle of a group, and unaligned.
        let behind_the_end = in_a_row.map(|at| at + 29);
        let one_each: Vgpr = std::array::from_fn(|l| tile(l / GROUP) + 1);
        let mut scattered = in_a_row;
        scattered.swap(5, 40);
        let (place, data) = (Operand::vgpr(8), Operand::vgpr(4));
        for at in [
            in_a_row,
            behind_the_end,
            one_each,
            scattered,
            [2000; LANES],
            [u32::MAX - 3; LANES],
            [u32::MAX - 11; LANES],
        ] {
            for (mask, words) in [(u64::MAX, 1), (u64::MAX, 2), (u64::MAX, 4), (0x00ff_f0f0_1234_ffff, 1)] {
                let mut w = Wave::new(crate::Arch::Gfx90a, 0, crate::wave::vgpr_file());
                load_words(&mut w, &memory, (&at, mask, pattern(&at, mask)), 8, place, 0..words);
                for (n, l) in (0..words).flat_map(|n| (0..LANES).map(move |l| (n, l))) {
                    let alone = word(&memory, at[l].wrapping_add(8), n);
                    let expected = if mask >> l & 1 == 1 { alone } else { 0 };
                    assert_eq!(w.vector(place, n)[l], expected, "lane {l}, word {n} of {:?}", at[l]);
                }
                for n in 0..words {
                    *w.vector_mut(data, n) = std::array::from_fn(|l| 0x0101_0101 * (l as u32 + 64 * n));
                }
                let (mut written, mut expected) = (memory.clone(), memory.clone());
                store_words(&w, &mut written, (&at, mask, pattern(&at, mask)), 8, data, words);
                each_lane(mask, |l| {
                    for n in 0..words {
                        put_word(&mut expected, at[l].wrapping_add(8), n, w.vector(data, n)[l]);
                    }
                });
                assert!(written == expected, "{words} words at {at:?}");
            }
        }
    }

    #[test]
    fn accesses_outside_of_the_allocation_read_zero_and_write_nothing() {
        let mut lds = vec![0xff; 8];
        put(&mut lds, 6, 4, 0);
        put(&mut lds, u32::MAX, 4, 0);
        assert_eq!(lds, [0xff; 8]);
        assert_eq!((get(&lds, 5, 4), get(&lds, 4, 4)), (0, 0xffff_ffff));
    }
}
