//! The lane loop: how a vector operation reads its operands, applies modifiers, and writes its result.
//!
//! Everything here is inlined into the rows of the tables, so that one closure of scalar values becomes a loop over 64
//! lanes that the compiler vectorises. Operands are read whole before anything is written: the destination may be a
//! source. Lanes that are off are computed and thrown away.

use crate::dpp;
use crate::fp::Moded;
use crate::inst::{Form, Inst, Sdwa};
use crate::mode::Rounding;
use crate::op::{Flags, Flow};
use crate::operand::{Kind, Operand};
use crate::wave::{Aligned, LANES, Vgpr, Wave};

pub(crate) use crate::lane::{B32, Lane, M32};

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

    /// A source whose words, with modifiers applied, are somewhere else.
    #[inline(always)]
    pub(crate) fn of(low: &'a Vgpr, high: &'a Vgpr) -> Words<'a> {
        Words { low, high }
    }

    /// The value of lane `l`.
    #[inline(always)]
    pub(crate) fn get<T: Lane>(&self, l: usize) -> T {
        let low = u64::from(self.low[l]);
        T::from_bits(if T::WORDS == 2 { low | u64::from(self.high[l]) << 32 } else { low })
    }
}

/// The words of source `s` of a type: from where they are, or made in a place that is declared here and has no value yet.
/// They are made there and not in a function's result: compilers copy that once more. A place has one writer, for the same
/// reason, and a word that the type does not have is not made.
macro_rules! words {
    ($w:ident, $i:ident, $s:expr, $type:ty => $words:ident) => {
        let (low, high, made);
        let $words = match crate::lanes::Words::in_place::<$type>($w, $i, $s) {
            Some(words) => words,
            None if !$i.plain_sources || <$type as crate::lanes::Lane>::flushes_in($w.mode) => {
                made = crate::lanes::modified::<$type>($w, $i, $s);
                crate::lanes::Words::of(&made[0], &made[1])
            }
            None => {
                let value = crate::lanes::uniform::<$type>($w, $i, $s);
                low = crate::wave::Aligned([value as u32; crate::wave::LANES]);
                if <$type as crate::lanes::Lane>::WORDS == 2 {
                    high = crate::wave::Aligned([(value >> 32) as u32; crate::wave::LANES]);
                    crate::lanes::Words::of(&low, &high)
                } else {
                    crate::lanes::Words::of(&low, &low)
                }
            }
        };
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
        Kind::F16 | Kind::Bf16 => 0x8000,
        Kind::V2F16 | Kind::V2Bf16 => 0x8000_8000,
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

/// Makes functions of one body that rows call, once for each type: the others are for hosts with AVX2 and with AVX-512. In a
/// row, which is compiled for each level of the host, so rarely used code would be far larger than the lane loop.
macro_rules! out_of_line {
    ($(#[$doc:meta])* $visibility:vis fn $name:ident / $v3:ident / $v4:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $body:ident;) => {
        $(#[$doc])*
        #[inline(never)]
        $visibility fn $name<T: Lane>($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                if std::arch::is_x86_feature_detected!("avx512f") {
                    // SAFETY: the host has AVX-512 F.
                    return unsafe { $v4::<T>($($argument),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the host has AVX2.
                    return unsafe { $v3::<T>($($argument),*) };
                }
            }
            $body::<T>($($argument),*)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2")]
        fn $v3<T: Lane>($($argument: $type),*) $(-> $result)? {
            $body::<T>($($argument),*)
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f")]
        fn $v4<T: Lane>($($argument: $type),*) $(-> $result)? {
            $body::<T>($($argument),*)
        }
    };
}

out_of_line! {
    /// A source with its modifiers.
    pub(crate) fn modified / modified_v3 / modified_v4(w: &Wave, i: &Inst, s: usize) -> Aligned<[Vgpr; 2]> = with_modifiers;
}

#[inline(always)]
fn with_modifiers<T: Lane>(w: &Wave, i: &Inst, s: usize) -> Aligned<[Vgpr; 2]> {
    let mut words = Aligned([word(w, i, s, 0, T::KIND), [0; LANES]]);
    if T::WORDS == 2 {
        words[1] = word(w, i, s, 1, T::KIND);
    }
    if let (0, Some(dpp)) = (s, i.dpp()) {
        for word in words.iter_mut().take(T::WORDS as usize) {
            *word = *dpp::permute(word, dpp, w.exec());
        }
    }
    if let (0 | 1, Some(sdwa)) = (s, i.sdwa()) {
        select(&mut words[0], sdwa.src_sel[s], sdwa.sext[s]);
    } else if T::KIND.is_16_bit()
        && !T::KIND.is_packed()
        && i.mods.op_sel >> s & 1 == 1
        && i.op.flags.has(Flags::OP_SEL)
    {
        words[0].iter_mut().for_each(|x| *x >>= 16);
    }
    if signs(T::KIND) != 0 && !i.op.flags.has(Flags::NO_MODS) {
        let bit = |sources: u8| if sources >> s & 1 == 1 { signs(T::KIND) } else { 0 };
        let (kept, flipped) = (!bit(i.mods.abs), bit(i.mods.neg));
        if !kept | flipped != 0 {
            let upper = T::WORDS as usize - 1;
            words[upper].iter_mut().for_each(|x| *x = *x & kept ^ flipped);
        }
    }
    if T::flushes_in(w.mode) && !i.op.flags.has(Flags::DENORMALS) {
        let values = each(|l| Words::of(&words[0], &words[1]).get::<T>(l).flush());
        words[0] = *each(|l| values[l].to_bits() as u32);
        if T::WORDS == 2 {
            words[1] = *each(|l| (values[l].to_bits() >> 32) as u32);
        }
    }
    words
}

/// Source `s` as values of a type, modifiers applied.
#[inline(always)]
pub(crate) fn source<T: Lane>(w: &Wave, i: &Inst, s: usize) -> [T; LANES] {
    words!(w, i, s, T => words);
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
    match i.form {
        Form::Dpp => moved_mask(w, i),
        _ => w.exec(),
    }
}

/// As [`write_mask`], of an instruction with data-parallel control. Apart: every row has this.
#[inline(never)]
fn moved_mask(w: &Wave, i: &Inst) -> u64 {
    let exec = w.exec();
    i.dpp().map_or(exec, |dpp| exec & dpp::write_mask(dpp, exec))
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
        replace(w.vector_mut(i.dst, n), mask, |l| (values[l].to_bits() >> (32 * n)) as u32);
    }
}

out_of_line! {
    /// Writes `values` as output modifiers change them.
    fn modified_result / modified_result_v3 / modified_result_v4(w: &mut Wave, i: &Inst, values: &[T; LANES]) = write_modified;
}

#[inline(always)]
fn write_modified<T: Lane>(w: &mut Wave, i: &Inst, values: &[T; LANES]) {
    let mut values = Aligned(*values);
    if T::flushes_out(w.mode) {
        change(&mut values, T::flush);
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
        let saturates = T::saturates(w.mode);
        change(&mut values, |v| v.scale(exponent, saturates).flush().without_minus_zero());
    }
    if i.mods.clamp {
        let dx10 = w.mode.dx10_clamp();
        change(&mut values, |v| v.saturate(dx10));
    }
    let old = w.vector(i.dst, 0);
    let mut word = each(|l| values[l].to_bits() as u32);
    if let Some(sdwa) = i.sdwa() {
        place(&mut word, old, sdwa);
    } else if T::KIND.is_16_bit() && !T::KIND.is_packed() {
        let high = i.mods.op_sel & 8 != 0 && i.op.flags.has(Flags::OP_SEL);
        if high {
            word = each(|l| word[l] << 16 | old[l] & 0xffff);
        } else if i.op.flags.has(Flags::KEEP_HIGH) {
            word = each(|l| word[l] & 0xffff | old[l] & 0xffff_0000);
        }
    }
    let mask = write_mask(w, i);
    blend(w.vector_mut(i.dst, 0), &word, mask);
    if T::WORDS == 2 {
        let high = each(|l| (values[l].to_bits() >> 32) as u32);
        blend(w.vector_mut(i.dst, 1), &high, mask);
    }
}

/// Changes the value of each lane.
#[inline(always)]
fn change<T: Lane>(values: &mut [T; LANES], f: impl Fn(T) -> T) {
    for value in values {
        *value = f(*value);
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

/// Eight lanes of a register.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Eight([u32; 8]);

/// All ones or zero for each of eight lanes, by their byte of a lane mask. A table: of tests of bits, compilers make masked
/// stores, of which some hosts with AVX2 alone (AMD's Zen 2 and 3) do one in eighteen cycles.
static ON: [Eight; 256] = {
    let mut table = [Eight([0; 8]); 256];
    let mut byte = 0;
    while byte < 256 {
        let mut l = 0;
        while l < 8 {
            table[byte].0[l] = if byte >> l & 1 == 1 { u32::MAX } else { 0 };
            l += 1;
        }
        byte += 1;
    }
    table
};

/// The bit of each lane in a lane mask: 0 or 1.
#[inline(always)]
pub(crate) fn lane_bits(mask: u64) -> Aligned<Vgpr> {
    let mut bits = lane_masks(mask);
    bits.iter_mut().for_each(|word| *word &= 1);
    bits
}

/// All ones for each lane of a lane mask, zero for the others.
#[inline(always)]
pub(crate) fn lane_masks(mask: u64) -> Aligned<Vgpr> {
    let mut masks = Aligned([0; LANES]);
    let (eights, _) = masks.as_chunks_mut::<8>();
    for (eight, byte) in eights.iter_mut().zip(mask.to_le_bytes()) {
        *eight = ON[usize::from(byte)].0;
    }
    masks
}

/// Replaces the lanes of `mask`.
#[inline(always)]
pub(crate) fn blend(register: &mut Vgpr, values: &Vgpr, mask: u64) {
    replace(register, mask, |l| values[l]);
}

/// Replaces the lanes of `mask` by what is computed for them.
#[inline(always)]
fn replace(register: &mut Vgpr, mask: u64, value: impl Fn(usize) -> u32) {
    if mask == u64::MAX {
        for (l, word) in register.iter_mut().enumerate() {
            *word = value(l);
        }
        return;
    }
    // By bits: of a choice between two places, compilers make one of addresses, which is no vector operation.
    let on = lane_masks(mask);
    for (l, word) in register.iter_mut().enumerate() {
        *word = *word & !on[l] | value(l) & on[l];
    }
}

/// A lane mask made of one decision per lane.
#[inline(always)]
pub(crate) fn mask_of(f: impl Fn(usize) -> bool) -> u64 {
    // As wide as what is compared mostly.
    let mut words: Aligned<Vgpr> = Aligned([0; LANES]);
    for (l, word) in words.iter_mut().enumerate() {
        *word = 0u32.wrapping_sub(f(l).into());
    }
    mask_of_words(&words)
}

/// A lane mask made of a word for each lane, all ones or zero.
#[inline(always)]
fn mask_of_words(words: &Vgpr) -> u64 {
    let (sixteens, _) = words.as_chunks::<16>();
    sixteens.iter().enumerate().fold(0, |mask, (n, words)| mask | u64::from(signs_of(words)) << (16 * n))
}

/// The highest bit of each word; a word is all ones or zero.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn signs_of(words: &[u32; 16]) -> u16 {
    use std::arch::x86_64::{__m128i, _mm_movemask_epi8, _mm_packs_epi16, _mm_packs_epi32};
    // SAFETY: both are sixty-four bytes without invalid values.
    let [a, b, c, d] = unsafe { std::mem::transmute::<[u32; 16], [__m128i; 4]>(*words) };
    // SAFETY: every processor of this architecture has SSE2.
    let low = unsafe { _mm_packs_epi32(a, b) };
    // SAFETY: as above.
    let high = unsafe { _mm_packs_epi32(c, d) };
    // SAFETY: as above.
    let bytes = unsafe { _mm_packs_epi16(low, high) };
    // SAFETY: as above.
    unsafe { _mm_movemask_epi8(bytes) as u16 }
}

/// As above.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn signs_of(words: &[u32; 16]) -> u16 {
    words.iter().enumerate().fold(0, |bits, (n, word)| bits | ((word & 1) as u16) << n)
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

/// A value for each lane. A loop in place: arrays of the standard library are made somewhere else, and copied.
#[inline(always)]
fn each<D: Lane>(value: impl Fn(usize) -> D) -> Aligned<[D; LANES]> {
    let mut values = Aligned([D::from_bits(0); LANES]);
    for l in 0..LANES {
        values[l] = value(l);
    }
    values
}

/// One source.
#[inline(always)]
pub(crate) fn map1<A: Lane, D: Lane>(w: &mut Wave, i: &Inst, f: impl Fn(A) -> D) -> Flow {
    words!(w, i, 0, A => a);
    let d = each(|l| f(a.get(l)));
    result(w, i, &d);
    Flow::Next
}

/// Two sources.
#[inline(always)]
pub(crate) fn map2<A: Lane, B: Lane, D: Lane>(w: &mut Wave, i: &Inst, f: impl Fn(A, B) -> D) -> Flow {
    words!(w, i, 0, A => a);
    words!(w, i, 1, B => b);
    let d = each(|l| f(a.get(l), b.get(l)));
    result(w, i, &d);
    Flow::Next
}

/// Three sources.
#[inline(always)]
pub(crate) fn map3<A: Lane, B: Lane, C: Lane, D: Lane>(w: &mut Wave, i: &Inst, f: impl Fn(A, B, C) -> D) -> Flow {
    words!(w, i, 0, A => a);
    words!(w, i, 1, B => b);
    words!(w, i, 2, C => c);
    let d = each(|l| f(a.get(l), b.get(l), c.get(l)));
    result(w, i, &d);
    Flow::Next
}

/// Two sources and a lane mask, of which each lane gets its bit in all bits of a word: a choice by them is a vector
/// operation, one by a condition is not.
#[inline(always)]
pub(crate) fn map2_masked<A: Lane, B: Lane, D: Lane>(w: &mut Wave, i: &Inst, f: impl Fn(A, B, u32) -> D) -> Flow {
    words!(w, i, 0, A => a);
    words!(w, i, 1, B => b);
    let masks = lane_masks(mask_source(w, i, 2));
    let d = each(|l| f(a.get(l), b.get(l), masks[l]));
    result(w, i, &d);
    Flow::Next
}

/// Two sources and a carry; the result and a carry out. With the clamp modifier a carry gives `saturated`.
#[inline(always)]
pub(crate) fn carry(w: &mut Wave, i: &Inst, saturated: u32, f: impl Fn(u32, u32, u32) -> (u32, bool)) -> Flow {
    words!(w, i, 0, u32 => a);
    words!(w, i, 1, u32 => b);
    let carried = lane_bits(if i.op.flags.has(Flags::MASK_IN) { mask_source(w, i, 2) } else { 0 });
    // By lanes that one host register has: what is between them is in no memory. Sums and carries apart: pairs of them would not
    // be vectors.
    const GROUP: usize = 16;
    let (mut d, mut mask) = (Aligned([0; LANES]), 0);
    for (g, d) in d.as_chunks_mut::<GROUP>().0.iter_mut().enumerate() {
        let (mut sums, mut over) = ([0; GROUP], [0; GROUP]);
        for l in 0..GROUP {
            let lane = GROUP * g + l;
            let (sum, carry) = f(a.get(lane), b.get(lane), carried[lane]);
            (sums[l], over[l]) = (sum, 0u32.wrapping_sub(carry.into()));
        }
        *d = sums;
        mask |= u64::from(signs_of(&over)) << (GROUP * g);
    }
    if i.mods.clamp {
        replace(&mut d, mask, |_| saturated);
    }
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
    words!(w, i, 0, A => a);
    words!(w, i, 1, B => b);
    words!(w, i, 2, C => c);
    let (mut d, mut over) = (Aligned([D::from_bits(0); LANES]), Aligned([0; LANES]));
    for l in 0..LANES {
        let (value, bit) = f(a.get(l), b.get(l), c.get(l));
        (d[l], over[l]) = (value, 0u32.wrapping_sub(bit.into()));
    }
    let mask = mask_of_words(&over);
    result(w, i, &d);
    mask_result(w, i, mask);
    Flow::Next
}

/// A comparison of two sources.
#[inline(always)]
pub(crate) fn compare<A: Lane, B: Lane>(w: &mut Wave, i: &Inst, f: impl Fn(A, B) -> bool) -> Flow {
    words!(w, i, 0, A => a);
    words!(w, i, 1, B => b);
    let mask = mask_of(|l| f(a.get(l), b.get(l))) & write_mask(w, i);
    w.set_pair(i.sdst, mask);
    if i.op.flags.has(Flags::WRITES_EXEC) {
        w.set_exec(mask);
    }
    Flow::Next
}

/// Arithmetic for a row of type `D`; `None` where it rounds to nearest and overflows to infinity, which compiles to plain
/// arithmetic.
#[inline(always)]
pub(crate) fn moded<D: Lane>(w: &Wave) -> Option<Moded> {
    let (rounding, saturates) = (D::rounding(w.mode), D::saturates(w.mode));
    (rounding != Rounding::Nearest || saturates).then_some(Moded { rounding, saturates })
}

/// The destination register of a scalar result.
#[inline(always)]
pub(crate) fn scalar_result(w: &mut Wave, operand: Operand, value: u32) {
    w.set_sgpr(operand, value);
}
