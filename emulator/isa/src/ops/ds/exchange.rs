//! Exchanges of data between lanes, which need no LDS.

use super::each;
use crate::inst::Inst;
use crate::lanes::blend;
use crate::op::Flow;
use crate::ops::vector_memory::lanewise;
use crate::wave::{LANES, Vgpr, Wave};

/// The values of the lanes of a mask, zero for the others.
#[inline(always)]
fn only(values: &Vgpr, mask: u64) -> Vgpr {
    let mut kept = *values;
    blend(&mut kept, &[0; LANES], !mask);
    kept
}

/// The lane that each lane reads, by the 16-bit pattern of the instruction.
#[inline(always)]
fn swizzle_source(pattern: u32, l: usize) -> usize {
    if pattern >> 15 == 1 {
        // A permutation of four lanes.
        return l & !3 | (pattern >> (2 * (l & 3)) & 3) as usize;
    }
    // Within 32 lanes: and, or, xor.
    let (and, or, xor) = (pattern & 31, pattern >> 5 & 31, pattern >> 10 & 31);
    l & 32 | (((l as u32 & 31 & and) | or) ^ xor) as usize
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
    each(exec, |l| moved[at[l].wrapping_add(i.imm as u32) as usize / 4 % LANES] = data[l]);
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
    }
}
