//! Definedness bit by bit, where bits are moved, masked and shifted: structures with padding, bit fields and packed bytes are copied so.

use amdgpu_emu::isa::action::{Action, Bitwise};
use amdgpu_emu::isa::inst::Inst;
use amdgpu_emu::isa::op::{Family, Flags};
use amdgpu_emu::isa::operand::Kind;
use amdgpu_emu::isa::wave::Wave;

use super::Defined;

/// A source of a lane: its value, and which bits of it are defined.
pub(super) type Source = (u32, u32);

/// What comes of an instruction in a lane.
pub(super) struct Result {
    /// The defined bits.
    pub(super) bits: u32,
    /// It computes with its sources, it does not only move them.
    pub(super) computes: bool,
}

/// The bits of a part of a word, extended.
fn part(word: u32, selection: u8, sign: bool) -> u32 {
    let (shift, width) = match selection {
        0..=3 => (8 * u32::from(selection), 8),
        4 | 5 => (16 * (u32::from(selection) - 4), 16),
        _ => return word,
    };
    let up = 32 - width;
    let placed = word >> shift << up;
    if sign { (placed.cast_signed() >> up).cast_unsigned() } else { placed >> up }
}

/// The source `n` of a lane. `from` is the lane that it is read of.
pub(super) fn source(inst: &Inst, wave: &Wave, defined: &Defined, n: usize, from: u32) -> Source {
    let operand = inst.src[n];
    let (value, bits) = match operand.is_vector() {
        true => (wave.vector(operand, 0)[from as usize % 64], defined.lane(wave, operand, from)),
        false => (wave.scalar32(operand, inst.literal, inst.op.src[n]), defined.scalar(operand, Kind::B32) as u32),
    };
    match inst.sdwa().filter(|_| n < 2) {
        Some(sdwa) => {
            let (selection, sign) = (sdwa.src_sel[n], sdwa.sext[n]);
            // What is not selected is zero or the sign.
            (part(value, selection, sign), !part(!bits, selection, sign))
        }
        None => (value, bits),
    }
}

/// One half of a register.
fn half(is_high: bool) -> u32 {
    if is_high { 0xffff_0000 } else { 0xffff }
}

/// The bits of a source that an operation reads. What SDWA chooses is at the beginning of the word.
fn read(inst: &Inst, n: usize) -> u32 {
    let has = |flag| inst.op.flags.has(flag);
    let chosen = |halves: u8| halves >> n & 1 == 1;
    if let Action::ByteToFloat(byte) = inst.op.action {
        return 0xff << (8 * byte);
    }
    if n < 2 && [Action::Multiply24, Action::MultiplyHigh24].contains(&inst.op.action) {
        return 0xff_ffff;
    }
    match inst.op.src[n] {
        Kind::I16 | Kind::U16 | Kind::F16 => half(has(Flags::OP_SEL) && chosen(inst.mods.op_sel)),
        Kind::Mix if chosen(inst.mods.op_sel_hi) => half(chosen(inst.mods.op_sel)),
        // One small float, or two.
        _ if has(Flags::PART_SRC) && inst.op.src[n] == Kind::U32 => {
            if inst.op.dst.dwords() == 1 {
                0xff
            } else {
                0xffff
            }
        }
        _ => u32::MAX,
    }
}

/// Where in its register a result of fewer than 32 bits goes, if the rest of the register stays: the first bit, and the bits of it.
fn part_of_register(inst: &Inst) -> Option<(u32, u32)> {
    let has = |flag| inst.op.flags.has(flag);
    let is_short = inst.op.dst.is_16_bit() && !inst.op.dst.is_packed();
    match inst.sdwa() {
        Some(_) => None,
        None if has(Flags::BYTE_DST) => Some((8 * u32::from(inst.mods.op_sel >> 2), 0xff)),
        None if has(Flags::HALF_DST) => Some((16 * u32::from(inst.mods.op_sel >> 3), 0xffff)),
        None if has(Flags::HIGH_DST) => Some((16, 0xffff)),
        None if is_short && has(Flags::OP_SEL) && inst.mods.op_sel & 8 != 0 => Some((16, 0xffff)),
        None if is_short && has(Flags::KEEP_HIGH) => Some((0, 0xffff)),
        None => None,
    }
}

/// True if a part of the register keeps what it was.
pub(super) fn keeps_old(inst: &Inst) -> bool {
    part_of_register(inst).is_some() || inst.sdwa().is_some_and(|sdwa| sdwa.dst_sel < 6 && sdwa.dst_unused == 2)
}

/// The bits of its destination that an operation reads, which is also its third source.
pub(super) fn accumulated(inst: &Inst) -> u32 {
    if inst.op.dst.is_16_bit() && !inst.op.dst.is_packed() && inst.sdwa().is_none() { 0xffff } else { u32::MAX }
}

/// The defined halves of a result of two: each is computed of one half of each source.
fn halves(inst: &Inst, sources: [Source; 3]) -> u32 {
    let accumulates = inst.op.flags.has(Flags::DST_IS_SRC2);
    let of = |high: bool, n: usize| match inst.op.family {
        Family::Vop3p => half([inst.mods.op_sel, inst.mods.op_sel_hi][usize::from(high)] >> n & 1 == 1),
        _ => half(high),
    };
    let is_known = |high: bool| {
        let reads = |n: &usize| inst.op.src[*n] != Kind::None || accumulates && *n == 2;
        (0..3).filter(reads).all(|n| sources[n].1 & of(high, n) == of(high, n))
    };
    [false, true].into_iter().filter(|high| is_known(*high)).map(half).sum()
}

fn and((x, a): Source, (y, b): Source) -> Source {
    (x & y, a & b | a & !x | b & !y)
}

fn or((x, a): Source, (y, b): Source) -> Source {
    (x | y, a & b | a & x | b & y)
}

/// The defined bits of an operation on each bit of two values, each with its defined bits.
pub(super) fn bitwise(operation: Bitwise, (x, a): (u64, u64), (y, b): (u64, u64)) -> u64 {
    let and = |x: u64, y: u64| a & b | a & !x | b & !y;
    match operation {
        Bitwise::And | Bitwise::Nand => and(x, y),
        Bitwise::AndN1 => and(!x, y),
        Bitwise::AndN2 => and(x, !y),
        // An inverted "and" of what is inverted.
        Bitwise::Or | Bitwise::Nor => and(!x, !y),
        Bitwise::OrN1 => and(x, !y),
        Bitwise::OrN2 => and(!x, y),
        Bitwise::Xor | Bitwise::Xnor => a & b,
    }
}

fn shifted((x, a): Source, (by, known): Source) -> Source {
    match known & 31 {
        31 => (x << (by & 31), a << (by & 31) | ((1 << (by & 31)) - 1)),
        _ => (0, 0),
    }
}

/// The bytes of two words by a selector. Source: the Vega ISA manual, V_PERM_B32.
fn permuted(a: u32, b: u32, selector: Source) -> u32 {
    let of = |n: u32| -> u32 {
        let at = 8 * n;
        if selector.1 >> at & 0xff != 0xff {
            return 0;
        }
        let all = u64::from(a) << 32 | u64::from(b);
        match selector.0 >> at & 0xff {
            byte @ 0..=7 => (all >> (8 * byte)) as u32 & 0xff,
            // Signs of words.
            sign @ 8..=11 => 0xff * ((all >> (16 * (sign - 8) + 15)) as u32 & 1),
            _ => 0xff,
        }
    };
    (0..4).fold(0, |all, n| all | of(n) << (8 * n))
}

/// The defined bits of a result of 32 bits, from those of its sources. `chosen` is a lane of a mask.
pub(super) fn result(inst: &Inst, sources: [Source; 3], chosen: bool) -> Result {
    use Action::*;
    let [s0, s1, s2] = sources;
    let (a, b) = (s0.1, s1.1);
    let wide = |(value, bits): Source| (value.into(), bits.into());
    let is_short = inst.op.dst.is_16_bit();
    // Of sums and products, lower bits do not depend on higher ones.
    let low = |all: u32| u32::MAX.checked_shl(all.trailing_ones()).map_or(u32::MAX, |rest| !rest);
    if inst.op.dst.is_packed() {
        return Result { bits: halves(inst, sources), computes: true };
    }
    let moves = match inst.op.action {
        Move | Not => a,
        ReverseBits => a.reverse_bits(),
        Bitwise(operation) => bitwise(operation, wide(s0), wide(s1)) as u32,
        AndOr => or(and(s0, s1), s2).1,
        Or3 => or(or(s0, s1), s2).1,
        ShiftOr => or(shifted(s0, s1), s2).1,
        ShiftLeft if !is_short => shifted(s1, s0).1,
        ShiftRight if !is_short && a & 31 == 31 => !(!b >> (s0.0 & 31)),
        ShiftRightSigned if !is_short && a & 31 == 31 => (b.cast_signed() >> (s0.0 & 31)).cast_unsigned(),
        ShiftLeft if a & 15 == 15 => b << (s0.0 & 15) | ones(s0.0 & 15) | 0xffff_0000,
        ShiftRight if is_short && a & 15 == 15 => !((!b & 0xffff) >> (s0.0 & 15)),
        ExtractField if b & s2.1 & 31 == 31 && (inst.op.dst != Kind::I32 || s2.0 & 31 != 0) => {
            field(inst, a, s1.0, s2.0)
        }
        InsertField => a & (s0.0 & b | !s0.0 & s2.1) | b & s2.1 & !(s1.0 ^ s2.0),
        PermuteBytes => permuted(a, b, s2),
        AlignBits if s2.1 & 31 == 31 => aligned(a, b, s2.0 & 31),
        AlignBytes if s2.1 & 31 == 31 => aligned(a, b, 8 * (s2.0 & 3)),
        Pack if inst.plain_sources => a & 0xffff | b << 16,
        Select if chosen => b,
        Select => a,
        ShiftAdd => return computed(inst, sources, low(shifted(s0, s1).1 & s2.1)),
        AddShift => return computed(inst, sources, shifted((0, low(a & b)), s2).1),
        Add | AddCarry | Subtract | MultiplyLow | Multiply24 | XorAdd => {
            let all = known(inst, sources).fold(u32::MAX, |all, (_, bits)| all & bits);
            let is_aligned = known(inst, sources).all(|(read, _)| read & 1 == 1);
            return computed(inst, sources, if is_aligned { low(all) } else { 0 });
        }
        ShiftLeft | ShiftRight | ShiftRightSigned | ExtractField | AlignBits | AlignBytes | Pack | Other
        | SaveExec(_) | MultiplyHigh24 | ConditionalMove | SetBit | Compare | Equality | ByteToFloat(_) | Fma64
        | DivFmas | Transcendental | Dot | MatrixProduct(_) | ReadLane | ReadFirstLane | WriteLane | Swap
        | SwapLanes(_) | PermuteLanes | LaneAddressed | LoadTransposed(_) | Branch(_) | GetPc | Call | End | Nop
        | Wait | GridBarrier | SendMessage | TraceData | GetRegister | SetRegister | SetIndex | EndIndex
        | WriteBack => return computed(inst, sources, 0),
    };
    Result { bits: moves, computes: false }
}

/// That many ones.
fn ones(count: u32) -> u32 {
    u32::MAX.checked_shl(count).map_or(u32::MAX, |rest| !rest)
}

/// A part of a word whose bits `a` are defined, with the sign or without.
fn field(inst: &Inst, a: u32, offset: u32, width: u32) -> u32 {
    let (offset, width) = (offset & 31, width & 31);
    match inst.op.dst {
        Kind::I32 => ((a >> offset << (32 - width)).cast_signed() >> (32 - width)).cast_unsigned(),
        _ => !(!a >> offset) | !ones(width),
    }
}

/// A word that begins at a bit of the second of two.
fn aligned(a: u32, b: u32, by: u32) -> u32 {
    ((u64::from(a) << 32 | u64::from(b)) >> by) as u32
}

/// The sources that an instruction has: the bits that it reads of each, and those that are defined.
fn known(inst: &Inst, sources: [Source; 3]) -> impl Iterator<Item = (u32, u32)> {
    let all = (0..).zip(sources).filter(|(n, _)| inst.op.src[*n] != Kind::None);
    all.map(|(n, (_, bits))| (read(inst, n), bits))
}

/// A result that is computed: all of it is defined where what is needed of the sources is, or else `part`.
fn computed(inst: &Inst, sources: [Source; 3], part: u32) -> Result {
    let bits = match known(inst, sources).all(|(read, bits)| bits & read == read) {
        true => u32::MAX,
        false if inst.mods.clamp => 0,
        false => part,
    };
    Result { bits, computes: true }
}

/// Where a result goes: the defined bits of the register afterwards. `old` are those before.
pub(super) fn placed(inst: &Inst, bits: u32, old: u32) -> u32 {
    let Some(sdwa) = inst.sdwa().filter(|sdwa| sdwa.dst_sel < 6) else {
        return match part_of_register(inst) {
            Some((at, part)) => old & !(part << at) | (bits & part) << at,
            // The upper half is zero.
            None if inst.op.dst.is_16_bit() && !inst.op.dst.is_packed() => bits | 0xffff_0000,
            None => bits,
        };
    };
    let (shift, width) = match sdwa.dst_sel {
        byte @ 0..=3 => (8 * u32::from(byte), 0xffu32),
        word => (16 * (u32::from(word) - 4), 0xffff),
    };
    let (bits, here) = ((bits & width) << shift, width << shift);
    match sdwa.dst_unused {
        2 => old & !here | bits,
        // The sign, which is not defined, is in all bits above.
        1 if bits >> (shift + width.count_ones() - 1) & 1 == 0 => bits | ((1u64 << shift) - 1) as u32,
        _ => bits | !here,
    }
}

/// True for a comparison whose result does not depend on what is undefined.
pub(super) fn is_decided(inst: &Inst, [s0, s1, _]: [Source; 3]) -> bool {
    let needed = read(inst, 0);
    let (known, differs) = (s0.1 & s1.1 & needed, s0.0 ^ s1.0);
    known == needed || inst.op.action == Action::Equality && differs & known != 0 && inst.plain_sources
}
