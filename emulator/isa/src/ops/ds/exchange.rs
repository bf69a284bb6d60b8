//! Exchanges of data between lanes, which need no LDS.

use crate::inst::Inst;
use crate::lanes::blend;
use crate::op::Flow;
use crate::ops::vector_memory::lanewise;
use crate::wave::{Aligned, LANES, Vgpr, Wave, each_lane};

/// The values of the lanes of a mask, zero for the others.
#[inline(always)]
fn only(values: &Vgpr, mask: u64) -> Aligned<Vgpr> {
    let mut kept = Aligned(*values);
    blend(&mut kept, &[0; LANES], !mask);
    kept
}

/// The lane that each lane reads, by the 16-bit pattern of the instruction. Source: Vega ISA manual, `DS_SWIZZLE_B32`.
#[inline(always)]
fn swizzle_source(pattern: u32, l: usize) -> usize {
    // All but the permutations are within 32 lanes.
    let (half, lane) = (l & 32, l as u32 & 31);
    let fields = [pattern, pattern >> 5, pattern >> 10].map(|field| field & 31);
    let from = match pattern >> 13 {
        // The order of a fast Fourier transform: bits of the lane that are not masked are reversed.
        0b111 => {
            let mask = fields[0];
            lane.reverse_bits() >> 27 >> mask.count_ones() | lane & mask
        }
        // A rotation, left or right, of the bits of the lane that are not masked.
        0b110 => {
            let (mask, distance) = (fields[0], fields[1]);
            let to = if fields[2] & 1 == 1 { lane.wrapping_sub(distance) } else { lane + distance };
            lane & mask | to & 31 & !mask
        }
        // A permutation of four lanes.
        0b100 | 0b101 => lane & !3 | pattern >> (2 * (lane & 3)) & 3,
        // And, or, xor.
        _ => lane & fields[0] | fields[1],
    };
    half | (if pattern >> 15 == 1 { from } else { from ^ fields[2] }) as usize
}

#[inline(always)]
pub(super) fn swizzle(w: &mut Wave, i: &Inst) -> Flow {
    let exec = w.exec();
    let data = only(w.vector(i.src[0], 0), exec);
    let moved = lanewise(|l| data[swizzle_source(i.imm as u32 & 0xffff, l) % LANES]);
    blend(w.vector_mut(i.dst, 0), &moved, exec);
    Flow::Next
}

/// Each active lane sends its data to a lane; the highest sender wins.
pub(super) fn permute(w: &mut Wave, i: &Inst) -> Flow {
    let (at, data) = (*w.vector(i.src[0], 0), *w.vector(i.src[1], 0));
    let exec = w.exec();
    let mut moved: Vgpr = [0; LANES];
    each_lane(exec, |l| moved[at[l].wrapping_add(i.imm as u32) as usize / 4 % LANES] = data[l]);
    blend(w.vector_mut(i.dst, 0), &moved, exec);
    Flow::Next
}

/// Each lane fetches the data of a lane, zero from inactive ones.
#[inline(always)]
pub(super) fn permute_backward(w: &mut Wave, i: &Inst) -> Flow {
    let exec = w.exec();
    let (at, data) = (w.vector(i.src[0], 0), only(w.vector(i.src[1], 0), exec));
    let moved = lanewise(|l| data[at[l].wrapping_add(i.imm as u32) as usize / 4 % LANES]);
    blend(w.vector_mut(i.dst, 0), &moved, exec);
    Flow::Next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swizzle_patterns_read_as_the_manual_says() {
        // Swap neighbours (xor 1), broadcast lane 2 of each 32 (and 0, or 2), quad permutation 3,2,1,0.
        assert_eq!((0..4).map(|l| swizzle_source(0x041f, l)).collect::<Vec<_>>(), [1, 0, 3, 2]);
        assert_eq!(swizzle_source(0x0040, 37), 34);
        assert_eq!((4..8).map(|l| swizzle_source(0x801b, l)).collect::<Vec<_>>(), [7, 6, 5, 4]);
        // Bits between those of the kind and those of the permutation mean nothing.
        assert_eq!((36..40).map(|l| swizzle_source(0xbf1b, l)).collect::<Vec<_>>(), [39, 38, 37, 36]);
    }

    #[test]
    fn swizzles_rotate_and_reverse_within_half_of_a_wave() {
        let lanes = |pattern: u32| (0..LANES).map(|l| swizzle_source(pattern, l)).collect::<Vec<_>>();
        // By one to the left, by one to the right, by one within each eight.
        assert_eq!(lanes(0xc020)[30..34], [31, 0, 33, 34]);
        assert_eq!(lanes(0xc420)[31..34], [30, 63, 32]);
        assert_eq!(lanes(0xc038)[6..9], [7, 0, 9]);
        // The first entries of the manual's tables, which count from one, and no change.
        assert_eq!(lanes(0xe000)[..8], [0, 16, 8, 24, 4, 20, 12, 28]);
        assert_eq!(lanes(0xe010)[..18], [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15, 16, 24]);
        assert_eq!(lanes(0xe01f), (0..LANES).collect::<Vec<_>>());
    }
}
