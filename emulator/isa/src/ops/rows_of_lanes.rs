//! Exchanges of rows of lanes between two registers. Source: CDNA4 ISA manual, "VOP1 Instructions".

use super::kinds;
use crate::action::Action;
use crate::arch::ArchSet;
use crate::inst::Inst;
use crate::lanes::blend;
use crate::op::{Family, Flags, Flow, Levels, Op};
use crate::operand::Kind;
use crate::wave::{LANES, Vgpr, Wave};

const fn exchange(name: &'static str, code: u16, size: u8, run: Levels) -> Op {
    Op::new(name, Family::Vop1, code, ArchSet::SINCE_950, run)
        .operands(Kind::B32, kinds(&[Kind::B32]))
        .with(Flags::VECTOR_SRC.and(Flags::NO_SDWA).and(Flags::NO_DPP).and(Flags::FETCHES))
        .is(Action::SwapLanes(size))
}

#[rustfmt::skip]
pub(crate) static TABLE: &[Op] = &[
    exchange("v_permlane16_swap_b32", 0x59, 16, levels!(w, i, _e, swap::<16>(w, i))),
    exchange("v_permlane32_swap_b32", 0x5a, 32, levels!(w, i, _e, swap::<32>(w, i))),
];

/// Of every two rows of `SIZE` lanes, the lower one of the source and the upper one of the destination change places.
///
/// A lane that is off is not written. What it would give is zero if `bound_ctrl` is set, and leaves the other lane alone otherwise, unless
/// `fi` says that lanes which are off are read, too. Source: LLVM's `llvm.amdgcn.permlane16.swap`, and its rules of `v_permlane16_b32`.
#[inline(always)]
fn swap<const SIZE: usize>(w: &mut Wave, i: &Inst) -> Flow {
    let (a, b) = (*w.vector(i.dst, 0), *w.vector(i.src[0], 0));
    let exec = w.exec();
    let (fetches, bounds) = (i.mods.op_sel & 1 == 1, i.mods.op_sel & 2 == 2);
    let lower: u64 = (0..LANES).filter(|l| l & SIZE == 0).fold(0, |mask, l| mask | 1 << l);
    let (readable, given) = if fetches { (u64::MAX, u64::MAX) } else { (exec, if bounds { u64::MAX } else { exec }) };
    let value = |register: &Vgpr, l: usize| if readable >> l & 1 == 1 { register[l] } else { 0 };
    let to_upper: Vgpr = std::array::from_fn(|l| value(&b, l ^ SIZE));
    let to_lower: Vgpr = std::array::from_fn(|l| value(&a, l ^ SIZE));
    blend(w.vector_mut(i.dst, 0), &to_upper, exec & !lower & (given & lower) << SIZE);
    blend(w.vector_mut(i.src[0], 0), &to_lower, exec & lower & (given & !lower) >> SIZE);
    Flow::Next
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decoder;
    use crate::arch::Arch;
    use crate::step::Nothing;
    use crate::wave::vgpr_file;

    /// v1 and v2 after an exchange of `words`, if lane `l` of them had `100 + l` and `200 + l`.
    fn exchanged(words: &[u32], exec: u64) -> [Vgpr; 2] {
        let i = Decoder::new(Arch::Gfx950).decode(words).unwrap();
        let mut w = Wave::new(Arch::Gfx950, 0, vgpr_file());
        w.vgpr[1] = std::array::from_fn(|l| 100 + l as u32);
        w.vgpr[2] = std::array::from_fn(|l| 200 + l as u32);
        w.set_exec(exec);
        crate::step::execute(&mut w, &i, &mut Nothing);
        [w.vgpr[1], w.vgpr[2]]
    }

    // The words are llvm-mc's: v_permlane16_swap_b32_e32 v1, v2, and v_permlane32_swap_b32_e32 v1, v2.
    const SWAP16: &[u32] = &[0x7e02_b302];
    const SWAP32: &[u32] = &[0x7e02_b502];

    #[test]
    fn rows_change_places_as_the_manual_draws_them() {
        for (words, size) in [(SWAP16, 16), (SWAP32, 32)] {
            let [dst, src] = exchanged(words, u64::MAX);
            for l in 0..LANES {
                let is_lower = l % (2 * size) < size;
                let expected = match is_lower {
                    true => [100 + l as u32, 100 + (l + size) as u32],
                    false => [200 + (l - size) as u32, 200 + l as u32],
                };
                assert_eq!([dst[l], src[l]], expected, "rows of {size}, lane {l}");
            }
        }
    }

    #[test]
    fn lanes_that_are_off_stay_and_give_what_the_instruction_says() {
        // Lane 0 alone is on: v2[0] and v1[16] would change places.
        let e64 = |bits: u32| [0xd199_0001 | bits << 11, 0x0000_0102];
        for (bits, expected) in [(0, 200), (2, 0), (1, 116), (3, 116)] {
            let [dst, src] = exchanged(&e64(bits), 1);
            let [mut before_dst, mut before_src] = [100, 200].map(|first| std::array::from_fn(|l| first + l as u32));
            before_src[0] = expected;
            assert_eq!([dst, src], [before_dst, before_src], "{bits}");
            // Lane 16 alone.
            let [dst, src] = exchanged(&e64(bits), 1 << 16);
            before_src[0] = 200;
            before_dst[16] = [116, 200, 0, 200][bits as usize];
            assert_eq!([dst, src], [before_dst, before_src], "{bits}");
        }
    }
}
