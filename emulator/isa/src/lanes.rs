//! The lane loop: how a vector operation reads its operands, applies modifiers, and writes its result.
//!
//! Everything here is inlined into the rows of the tables, so that one closure of scalar values becomes a loop over 64
//! lanes that the compiler vectorises. Operands are read whole before anything is written: the destination may be a
//! source. Lanes that are off are computed and thrown away.

mod types;

use crate::dpp;
use crate::inst::{Inst, Sdwa};
use crate::mode::Rounding;
use crate::op::{Flags, Flow};
use crate::operand::{Kind, Operand};
use crate::wave::{LANES, Vgpr, Wave};

pub(crate) use types::{B32, Lane, M32};

/// A source as one or two words a lane, modifiers applied: those of the register file where nothing changes them.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    low: &'a Vgpr,
    high: &'a Vgpr,
}

impl<'a> Words<'a> {
    /// The source in the register file, if that is what the instruction reads.
    #[inline(always)]
    pub(crate) fn in_place<T: Lane>(w: &'a Wave, i: &Inst, s: usize) -> Option<Words<'a>> {
        if !i.src[s].is_vector() || !i.plain_sources || T::flushes_in(w.mode) {
            return None;
        }
        let low = w.vector(i.src[s], 0);
        Some(Words { low, high: if T::WORDS == 2 { w.vector(i.src[s], 1) } else { low } })
    }

    /// A source whose words, with modifiers applied, are in registers of the host.
    #[inline(always)]
    pub(crate) fn of(made: &'a [Vgpr; 2]) -> Words<'a> {
        Words { low: &made[0], high: &made[1] }
    }

    /// The value of lane `l`.
    #[inline(always)]
    pub(crate) fn get<T: Lane>(&self, l: usize) -> T {
        let low = u64::from(self.low[l]);
        T::from_bits(if T::WORDS == 2 { low | u64::from(self.high[l]) << 32 } else { low })
    }
}

/// The words of source `s` of a type: from where they are, or made in `place`, which has no value yet. They are made there
/// and not in a function's result: compilers copy that once more.
macro_rules! words {
    ($w:ident, $i:ident, $s:expr, $type:ty, $place:ident) => {
        match crate::lanes::Words::in_place::<$type>($w, $i, $s) {
            Some(words) => words,
            None => {
                if !$i.plain_sources || <$type as crate::lanes::Lane>::flushes_in($w.mode) {
                    $place = crate::lanes::modified::<$type>($w, $i, $s);
                } else {
                    let value = crate::lanes::uniform::<$type>($w, $i, $s);
                    $place = [[value as u32; crate::wave::LANES], [(value >> 32) as u32; crate::wave::LANES]];
                }
                crate::lanes::Words::of(&$place)
            }
        }
    };
}

pub(crate) use words;

/// Word `n` of source `s`, before modifiers.
#[inline(always)]
fn word(w: &Wave, i: &Inst, s: usize, n: u32, kind: Kind) -> Vgpr {
    let operand = i.src[s];
    if operand.is_vector() {
        *w.vector(operand, n)
    } else if kind.dwords() == 2 {
        [(w.scalar64(operand, i.literal, kind) >> (32 * n)) as u32; LANES]
    } else {
        [w.scalar32(operand, i.literal, kind); LANES]
    }
}

/// The signs in the upper word of a value, which the modifiers of floats change.
const fn signs(kind: Kind) -> u32 {
    match kind {
        Kind::F16 => 0x8000,
        Kind::V2F16 => 0x8000_8000,
        Kind::F32 | Kind::F64 | Kind::M32 => 1 << 31,
        _ => 0,
    }
}

/// The value of a scalar source: each lane has the same.
#[inline(always)]
pub(crate) fn uniform<T: Lane>(w: &Wave, i: &Inst, s: usize) -> u64 {
    match T::WORDS {
        2 => w.scalar64(i.src[s], i.literal, T::KIND),
        _ => w.scalar32(i.src[s], i.literal, T::KIND).into(),
    }
}

/// Makes two functions of one body that rows call, once for each type: the second is for hosts with AVX2. In a row, which
/// is compiled for each level of the host, so rarely used code would be far larger than the lane loop.
macro_rules! out_of_line {
    ($(#[$doc:meta])* $visibility:vis fn $name:ident / $v3:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $body:ident;) => {
        $(#[$doc])*
        #[inline(never)]
        $visibility fn $name<T: Lane>($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the host has AVX2.
                return unsafe { $v3::<T>($($argument),*) };
            }
            $body::<T>($($argument),*)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        fn $v3<T: Lane>($($argument: $type),*) $(-> $result)? {
            $body::<T>($($argument),*)
        }
    };
}

out_of_line! {
    /// A source with its modifiers.
    pub(crate) fn modified / modified_v3(w: &Wave, i: &Inst, s: usize) -> [Vgpr; 2] = with_modifiers;
}

#[inline(always)]
fn with_modifiers<T: Lane>(w: &Wave, i: &Inst, s: usize) -> [Vgpr; 2] {
    let mut words = [word(w, i, s, 0, T::KIND), [0; LANES]];
    if T::WORDS == 2 {
        words[1] = word(w, i, s, 1, T::KIND);
    }
    if let (0, Some(dpp)) = (s, i.dpp()) {
        for word in words.iter_mut().take(T::WORDS as usize) {
            *word = dpp::permute(word, dpp, w.exec());
        }
    }
    if let (0 | 1, Some(sdwa)) = (s, i.sdwa()) {
        select(&mut words[0], sdwa.src_sel[s], sdwa.sext[s]);
    } else if T::KIND.is_16_bit() && i.mods.op_sel >> s & 1 == 1 && i.op.flags.has(Flags::OP_SEL) {
        words[0] = words[0].map(|x| x >> 16);
    }
    if signs(T::KIND) != 0 && !i.op.flags.has(Flags::NO_MODS) {
        let bit = |sources: u8| if sources >> s & 1 == 1 { signs(T::KIND) } else { 0 };
        let (kept, flipped) = (!bit(i.mods.abs), bit(i.mods.neg));
        if !kept | flipped != 0 {
            let upper = T::WORDS as usize - 1;
            words[upper] = words[upper].map(|x| x & kept ^ flipped);
        }
    }
    if T::flushes_in(w.mode) {
        let values: [T; LANES] = std::array::from_fn(|l| Words::of(&words).get::<T>(l).flush());
        words[0] = values.map(|v| v.to_bits() as u32);
        if T::WORDS == 2 {
            words[1] = values.map(|v| (v.to_bits() >> 32) as u32);
        }
    }
    words
}

/// Source `s` as values of a type, modifiers applied.
#[inline(always)]
pub(crate) fn source<T: Lane>(w: &Wave, i: &Inst, s: usize) -> [T; LANES] {
    let place;
    let words = words!(w, i, s, T, place);
    std::array::from_fn(|l| words.get(l))
}

/// Keeps the selected byte or half of each lane.
#[inline(always)]
fn select(word: &mut Vgpr, sel: u8, sign: bool) {
    let (shift, bits) = match sel {
        0..=3 => (8 * u32::from(sel), 8),
        4 | 5 => (16 * u32::from(sel - 4), 16),
        _ => return,
    };
    for x in word.iter_mut() {
        let raised = (*x >> shift) << (32 - bits);
        *x = if sign { (raised as i32 >> (32 - bits)) as u32 } else { raised >> (32 - bits) };
    }
}

/// The lanes that the instruction writes: EXEC, less what its data-parallel control leaves out.
#[inline(always)]
pub(crate) fn write_mask(w: &Wave, i: &Inst) -> u64 {
    match i.dpp() {
        None => w.exec(),
        Some(dpp) => w.exec() & dpp::write_mask(dpp, w.exec()),
    }
}

/// Writes `values` to the destination, output modifiers applied.
#[inline(always)]
pub(crate) fn result<T: Lane>(w: &mut Wave, i: &Inst, values: &[T; LANES]) {
    if i.plain_result && !T::flushes_out(w.mode) && !(T::KIND.is_16_bit() && i.op.flags.has(Flags::KEEP_HIGH)) {
        write_words(w, i, values);
    } else {
        modified_result(w, i, values);
    }
}

#[inline(always)]
fn write_words<T: Lane>(w: &mut Wave, i: &Inst, values: &[T; LANES]) {
    let mask = write_mask(w, i);
    for n in 0..T::WORDS {
        let word = std::array::from_fn(|l| (values[l].to_bits() >> (32 * n)) as u32);
        blend(w.vector_mut(i.dst, n), &word, mask);
    }
}

out_of_line! {
    /// Writes `values` as output modifiers change them.
    fn modified_result / modified_result_v3(w: &mut Wave, i: &Inst, values: &[T; LANES]) = write_modified;
}

#[inline(always)]
fn write_modified<T: Lane>(w: &mut Wave, i: &Inst, values: &[T; LANES]) {
    let mut values = *values;
    if T::flushes_out(w.mode) {
        values = values.map(T::flush);
    }
    // Output multipliers work only where IEEE mode and denormal results are off, and leave no minus zero.
    let exponent = match i.mods.omod {
        _ if w.mode.ieee() || !T::flushes_out(w.mode) => 0,
        1 => 1,
        2 => 2,
        3 => -1,
        _ => 0,
    };
    if exponent != 0 {
        values = values.map(|v| v.scale(exponent).flush().without_minus_zero());
    }
    if i.mods.clamp {
        let dx10 = w.mode.dx10_clamp();
        values = values.map(|v| v.saturate(dx10));
    }
    let old = *w.vector(i.dst, 0);
    let mut word: Vgpr = std::array::from_fn(|l| values[l].to_bits() as u32);
    if let Some(sdwa) = i.sdwa() {
        place(&mut word, &old, sdwa);
    } else if T::KIND.is_16_bit() {
        let high = i.mods.op_sel & 8 != 0 && i.op.flags.has(Flags::OP_SEL);
        if high {
            word = std::array::from_fn(|l| word[l] << 16 | old[l] & 0xffff);
        } else if i.op.flags.has(Flags::KEEP_HIGH) {
            word = std::array::from_fn(|l| word[l] & 0xffff | old[l] & 0xffff_0000);
        }
    }
    let mask = write_mask(w, i);
    blend(w.vector_mut(i.dst, 0), &word, mask);
    if T::WORDS == 2 {
        let high = std::array::from_fn(|l| (values[l].to_bits() >> 32) as u32);
        blend(w.vector_mut(i.dst, 1), &high, mask);
    }
}

/// Puts results into the selected part of the old register contents.
#[inline(always)]
fn place(word: &mut Vgpr, old: &Vgpr, sdwa: Sdwa) {
    let (shift, bits) = match sdwa.dst_sel {
        0..=3 => (8 * u32::from(sdwa.dst_sel), 8),
        4 | 5 => (16 * u32::from(sdwa.dst_sel - 4), 16),
        _ => return,
    };
    let field = ((1u64 << bits) - 1) as u32;
    for (x, &old) in word.iter_mut().zip(old) {
        let value = *x & field;
        *x = match sdwa.dst_unused {
            0 => value << shift,
            1 => (((value << (32 - bits)) as i32 >> (32 - bits)) << shift) as u32,
            _ => old & !(field << shift) | value << shift,
        };
    }
}

/// The bit of each lane in a lane mask: 0 or 1. Shifts of 32 bits are what compilers make vectors of.
#[inline(always)]
pub(crate) fn lane_bits(mask: u64) -> Vgpr {
    std::array::from_fn(|l| (mask >> (l & 32)) as u32 >> (l & 31) & 1)
}

/// All ones for each lane of a lane mask, zero for the others.
#[inline(always)]
pub(crate) fn lane_masks(mask: u64) -> Vgpr {
    lane_bits(mask).map(|bit| 0u32.wrapping_sub(bit))
}

/// Replaces the lanes of `mask`.
#[inline(always)]
pub(crate) fn blend(register: &mut Vgpr, values: &Vgpr, mask: u64) {
    if mask == u64::MAX {
        *register = *values;
        return;
    }
    let on = lane_masks(mask);
    for l in 0..LANES {
        register[l] = register[l] & !on[l] | values[l] & on[l];
    }
}

/// A lane mask made of one decision per lane.
#[inline(always)]
pub(crate) fn mask_of(f: impl Fn(usize) -> bool) -> u64 {
    let flags: [u8; LANES] = std::array::from_fn(|l| u8::from(f(l)));
    let (sixteens, _) = flags.as_chunks::<16>();
    sixteens.iter().enumerate().fold(0, |mask, (n, flags)| mask | u64::from(bits_of(*flags)) << (16 * n))
}

/// Bit 0 of each byte.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn bits_of(bytes: [u8; 16]) -> u16 {
    use std::arch::x86_64::{__m128i, _mm_movemask_epi8, _mm_slli_epi16};
    // SAFETY: both are sixteen bytes without invalid values.
    let bytes = unsafe { std::mem::transmute::<[u8; 16], __m128i>(bytes) };
    // SAFETY: every processor of this architecture has SSE2. Bit 0 becomes the highest of its byte.
    let raised = unsafe { _mm_slli_epi16::<7>(bytes) };
    // SAFETY: as above.
    unsafe { _mm_movemask_epi8(raised) as u16 }
}

/// As above, by a multiplication that gathers bit 0 of eight bytes into one byte.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn bits_of(bytes: [u8; 16]) -> u16 {
    let gather = |eight: u128| ((eight as u64).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u16;
    let all = u128::from_le_bytes(bytes);
    gather(all) | gather(all >> 64) << 8
}

/// The lane mask that source `s` names.
#[inline(always)]
pub(crate) fn mask_source(w: &Wave, i: &Inst, s: usize) -> u64 {
    w.scalar64(i.src[s], i.literal, Kind::Mask)
}

/// Writes the lane mask beside the result: only the bits of active lanes can be set.
#[inline(always)]
pub(crate) fn mask_result(w: &mut Wave, i: &Inst, mask: u64) {
    let mask = mask & write_mask(w, i);
    w.set_pair(i.sdst, mask);
}

/// One source.
#[inline(always)]
pub(crate) fn map1<A: Lane, D: Lane>(w: &mut Wave, i: &Inst, f: impl Fn(A) -> D) -> Flow {
    let place;
    let a = words!(w, i, 0, A, place);
    let d = std::array::from_fn(|l| f(a.get(l)));
    result(w, i, &d);
    Flow::Next
}

/// Two sources.
#[inline(always)]
pub(crate) fn map2<A: Lane, B: Lane, D: Lane>(w: &mut Wave, i: &Inst, f: impl Fn(A, B) -> D) -> Flow {
    let (place_a, place_b);
    let (a, b) = (words!(w, i, 0, A, place_a), words!(w, i, 1, B, place_b));
    let d = std::array::from_fn(|l| f(a.get(l), b.get(l)));
    result(w, i, &d);
    Flow::Next
}

/// Three sources.
#[inline(always)]
pub(crate) fn map3<A: Lane, B: Lane, C: Lane, D: Lane>(w: &mut Wave, i: &Inst, f: impl Fn(A, B, C) -> D) -> Flow {
    let (place_a, place_b, place_c);
    let a = words!(w, i, 0, A, place_a);
    let b = words!(w, i, 1, B, place_b);
    let c = words!(w, i, 2, C, place_c);
    let d = std::array::from_fn(|l| f(a.get(l), b.get(l), c.get(l)));
    result(w, i, &d);
    Flow::Next
}

/// Two sources and a lane mask, of which each lane gets its bit in all bits of a word: a choice by them is a vector
/// operation, one by a condition is not.
#[inline(always)]
pub(crate) fn map2_masked<A: Lane, B: Lane, D: Lane>(w: &mut Wave, i: &Inst, f: impl Fn(A, B, u32) -> D) -> Flow {
    let (place_a, place_b);
    let (a, b) = (words!(w, i, 0, A, place_a), words!(w, i, 1, B, place_b));
    let masks = lane_masks(mask_source(w, i, 2));
    let d = std::array::from_fn(|l| f(a.get(l), b.get(l), masks[l]));
    result(w, i, &d);
    Flow::Next
}

/// Two sources and a carry; the result and a carry out. With the clamp modifier a carry gives `saturated`.
#[inline(always)]
pub(crate) fn carry(w: &mut Wave, i: &Inst, saturated: u32, f: impl Fn(u32, u32, u32) -> (u32, bool)) -> Flow {
    let (place_a, place_b);
    let (a, b) = (words!(w, i, 0, u32, place_a), words!(w, i, 1, u32, place_b));
    let carried = lane_bits(if i.op.flags.has(Flags::MASK_IN) { mask_source(w, i, 2) } else { 0 });
    // Sums and carries apart: pairs of them would not be vectors.
    let (mut d, mut over) = ([0; LANES], [0; LANES]);
    for l in 0..LANES {
        let (sum, carry) = f(a.get(l), b.get(l), carried[l]);
        (d[l], over[l]) = (sum, 0u32.wrapping_sub(carry.into()));
    }
    if i.mods.clamp {
        d = std::array::from_fn(|l| if over[l] != 0 { saturated } else { d[l] });
    }
    let mask = mask_of(|l| over[l] != 0);
    result(w, i, &d);
    mask_result(w, i, mask);
    Flow::Next
}

/// Three sources; the result and a lane mask.
#[inline(always)]
pub(crate) fn map3_with_mask<A: Lane, B: Lane, C: Lane, D: Lane>(
    w: &mut Wave,
    i: &Inst,
    f: impl Fn(A, B, C) -> (D, bool),
) -> Flow {
    let (place_a, place_b, place_c);
    let a = words!(w, i, 0, A, place_a);
    let b = words!(w, i, 1, B, place_b);
    let c = words!(w, i, 2, C, place_c);
    let (mut d, mut over) = ([D::from_bits(0); LANES], [0; LANES]);
    for l in 0..LANES {
        let (value, bit) = f(a.get(l), b.get(l), c.get(l));
        (d[l], over[l]) = (value, u32::from(bit));
    }
    let mask = mask_of(|l| over[l] != 0);
    result(w, i, &d);
    mask_result(w, i, mask);
    Flow::Next
}

/// A comparison of two sources.
#[inline(always)]
pub(crate) fn compare<A: Lane, B: Lane>(w: &mut Wave, i: &Inst, f: impl Fn(A, B) -> bool) -> Flow {
    let (place_a, place_b);
    let (a, b) = (words!(w, i, 0, A, place_a), words!(w, i, 1, B, place_b));
    let mask = mask_of(|l| f(a.get(l), b.get(l))) & write_mask(w, i);
    w.set_pair(i.sdst, mask);
    if i.op.flags.has(Flags::WRITES_EXEC) {
        w.set_exec(mask);
    }
    Flow::Next
}

/// Rounding for a row of type `D`: nearest compiles to plain arithmetic.
#[inline(always)]
pub(crate) fn rounding<D: Lane>(w: &Wave) -> Rounding {
    D::rounding(w.mode)
}

/// The destination register of a scalar result.
#[inline(always)]
pub(crate) fn scalar_result(w: &mut Wave, operand: Operand, value: u32) {
    w.set_sgpr(operand, value);
}
