//! Definedness in vector instructions: lane by lane.

use amdgpu_emu::isa::action::Action;
use amdgpu_emu::isa::inst::Inst;
use amdgpu_emu::isa::op::Flags;
use amdgpu_emu::isa::operand::{Kind, Operand};
use amdgpu_emu::isa::wave::{LANES, Wave};

use super::{Defined, Look, bits, scalar};

pub(super) fn execute(look: &mut Look<'_>, defined: &mut Defined) {
    use Action::*;
    let (inst, wave) = (look.inst, look.step.wave);
    let op = inst.op;
    let exec = wave.exec();
    match op.action {
        ReadFirstLane | ReadLane => return read_lane(inst, wave, defined, exec),
        WriteLane => {
            let lane = wave.scalar32(inst.src[1], inst.literal, Kind::B32) & 63;
            let from = defined.scalar(inst.src[0], Kind::B32) as u32;
            return defined.set_lane(wave, inst.dst, 0, lane, from, false);
        }
        Swap => {
            let (a, b) = (defined.lanes(wave, inst.dst, 0, Kind::B32), defined.lanes(wave, inst.src[0], 0, Kind::B32));
            defined.set_lanes(wave, inst.dst, 0, exec, b);
            return defined.set_lanes(wave, inst.src[0], 0, exec, a);
        }
        SwapLanes(size) => {
            let (a, b) = (defined.lanes(wave, inst.dst, 0, Kind::B32), defined.lanes(wave, inst.src[0], 0, Kind::B32));
            let lower = (0..LANES).filter(|l| l & usize::from(size) == 0).fold(0, |lanes, l| lanes | 1 << l);
            defined.set_lanes(wave, inst.dst, 0, exec & !lower, (b & lower) << size);
            return defined.set_lanes(wave, inst.src[0], 0, exec & lower, (a & !lower) >> size);
        }
        MatrixProduct(_) => return matrix(inst, wave, defined),
        Other | Move | Not | Bitwise(_) | SaveExec(_) | AndOr | Or3 | ShiftOr | InsertField | ExtractField
        | ShiftLeft | ShiftRight | ShiftRightSigned | PermuteBytes | AlignBits | AlignBytes | Pack | ReverseBits
        | Add | AddCarry | Subtract | MultiplyLow | Multiply24 | MultiplyHigh24 | ShiftAdd | AddShift | XorAdd
        | Select | ConditionalMove | SetBit | Compare | Equality | ByteToFloat(_) | Fma64 | DivFmas
        | Transcendental | Dot | PermuteLanes | LaneAddressed | LoadTransposed(_) | Branch(_) | GetPc | Call | End
        | Nop | Wait | GridBarrier | SendMessage | TraceData | GetRegister | SetRegister | SetIndex | EndIndex
        | WriteBack => {}
    }
    let (mut low, mut all, mut mask) = (u64::MAX, u64::MAX, exec);
    for n in 0..op.src.len() {
        let kind = op.src[n];
        if kind == Kind::None {
            continue;
        }
        let (mut first, mut whole) = source(inst, wave, defined, n);
        if let (0, Some(dpp)) = (n, inst.dpp()) {
            let moved = |lanes: u64| {
                let from = |l: usize| dpp.source(l).filter(|from| exec >> from & 1 == 1);
                // Where no lane is there, zero is read, or nothing written.
                (0..LANES).fold(0, |all, l| all | from(l).map_or(1, |from| lanes >> from & 1) << l)
            };
            (first, whole) = (moved(first), moved(whole));
            if !dpp.bound_ctrl {
                let there = |l: &usize| dpp.source(*l).is_some_and(|from| exec >> from & 1 == 1);
                mask &= (0..LANES).filter(there).fold(0, |all, l| all | 1 << l);
            }
        }
        (low, all) = (low & first, all & whole);
    }
    if op.flags.has(Flags::DST_IS_SRC2) {
        let old = words(wave, defined, inst.dst, op.dst);
        (low, all) = (low & old, all & old);
    }
    if op.action == DivFmas {
        (low, all) = (low & defined.pair(Operand::VCC), all & defined.pair(Operand::VCC));
    }
    if op.action == Select {
        // The other source may be anything.
        let chosen = wave.scalar64(inst.src[2], inst.literal, Kind::Mask);
        let (a, b) = (source(inst, wave, defined, 0).1, source(inst, wave, defined, 1).1);
        all = defined.lanes(wave, inst.src[2], 0, Kind::Mask) & (a & !chosen | b & chosen);
        low = all;
        if inst.dpp().is_some() {
            (low, all) = (u64::MAX, u64::MAX);
        }
    }
    if op.dst == Kind::Mask && op.src[0].dwords() == 1 && all & exec != exec {
        let open = (0..LANES as u32).filter(|lane| (exec & !all) >> lane & 1 == 1);
        let is_decided = |lane: &u32| bits::is_decided(inst, sources(inst, wave, defined, *lane));
        all |= open.filter(is_decided).fold(0, |all, lane| all | 1 << lane);
    }
    // What is chosen, or the carry that goes in: the one that goes out may take its place.
    let has_mask = op.src[2] == Kind::Mask;
    let is_chosen = if has_mask { defined.lanes(wave, inst.src[2], 0, Kind::Mask) } else { u64::MAX };
    if op.dst == Kind::Mask || op.flags.has(Flags::MASK_OUT) {
        // Inactive lanes' bits are zero.
        defined.set_scalar(inst.sdst, 2, all | !exec);
        if op.flags.has(Flags::WRITES_EXEC) || inst.sdst == Operand::EXEC {
            scalar::lanes(look, all | !exec, Operand::EXEC);
        }
    }
    if op.dst == Kind::Mask {
        return;
    }
    let is_word = op.dst.dwords() == 1 && (0..3).all(|n| op.src[n].dwords() <= 1 || op.src[n] == Kind::Mask);
    let stays = if bits::keeps_old(inst) { words(wave, defined, inst.dst, op.dst) } else { u64::MAX };
    if is_word && all & stays & mask != mask {
        return by_bits(inst, wave, defined, (mask, all & stays), is_chosen);
    }
    let integer = matches!(op.dst, Kind::B64 | Kind::I64 | Kind::U64);
    let shifted = shifted(inst, wave, defined, mask & !all);
    let moves = matches!(op.dst, Kind::V2B32 | Kind::B64);
    let computed = if moves { 0 } else { mask & !all };
    defined.set_lanes(wave, inst.dst, 0, mask, if integer { low } else { all });
    defined.compute(wave, inst.dst, 0, computed);
    for n in 1..op.dst.dwords() {
        defined.set_lanes(wave, inst.dst, n, mask, all);
        defined.compute(wave, inst.dst, n, computed);
    }
    for (lane, bits) in shifted {
        defined.set_lane(wave, inst.dst, 0, lane, bits as u32, false);
        defined.set_lane(wave, inst.dst, 1, lane, (bits >> 32) as u32, false);
    }
}

/// What of a lane the sources are, of one word each.
fn sources(inst: &Inst, wave: &Wave, defined: &Defined, lane: u32) -> [bits::Source; 3] {
    std::array::from_fn(|n| match inst.op.src[n] {
        Kind::None | Kind::Mask => (0, u32::MAX),
        _ => match inst.dpp().filter(|_| n == 0) {
            // Where no lane is there, zero is read.
            Some(dpp) => dpp
                .source(lane as usize)
                .map_or((0, u32::MAX), |from| bits::source(inst, wave, defined, n, from as u32)),
            None => bits::source(inst, wave, defined, n, lane),
        },
    })
}

fn op_reads(inst: &Inst, n: usize) -> bool {
    !matches!(inst.op.src[n], Kind::None | Kind::Mask)
}

/// A result of one word: bit by bit in the lanes of a mask that are not among those that are known as a whole. `is_chosen` has the
/// lanes whose bit of a mask is known.
fn by_bits(inst: &Inst, wave: &Wave, defined: &mut Defined, (mask, all): (u64, u64), is_chosen: u64) {
    let chosen =
        if inst.op.action == Action::Select { wave.scalar64(inst.src[2], inst.literal, Kind::Mask) } else { 0 };
    let accumulates = inst.op.flags.has(Flags::DST_IS_SRC2);
    let of = |lane: u32| {
        let mut from = sources(inst, wave, defined, lane);
        let old = defined.lane(wave, inst.dst, lane);
        if accumulates {
            from[2] = (0, old);
        }
        let mut result = bits::result(inst, from, chosen >> lane & 1 == 1);
        // Which of two is chosen is not known, or the sum has what is not.
        let read = bits::accumulated(inst);
        if is_chosen >> lane & 1 == 0 || accumulates && !inst.op.dst.is_packed() && old & read != read {
            result = bits::Result { bits: 0, computes: true };
        }
        // What is moved stays what it was.
        let computed = (0..3).any(|n| op_reads(inst, n) && defined.is_computed(wave, inst.src[n], 0, lane as usize));
        (lane, bits::placed(inst, result.bits, old), result.computes || computed)
    };
    let open: Vec<_> = (0..LANES as u32).filter(|lane| (mask & !all) >> lane & 1 == 1).map(of).collect();
    defined.set_lanes(wave, inst.dst, 0, mask, all);
    for (lane, bits, computes) in open {
        defined.set_lane(wave, inst.dst, 0, lane, bits, computes);
    }
}

/// Shifts of two words: the defined bits of lanes.
fn shifted(inst: &Inst, wave: &Wave, defined: &Defined, lanes: u64) -> Vec<(u32, u64)> {
    let is_left = inst.op.action == Action::ShiftLeft;
    if inst.op.dst.dwords() != 2 || !is_left && inst.op.action != Action::ShiftRight {
        return Vec::new();
    }
    let of = |lane: u32| {
        let (by, known) = bits::source(inst, wave, defined, 0, lane);
        let value = match inst.src[1].is_vector() {
            true => {
                u64::from(defined.word(wave, inst.src[1], 0, lane))
                    | u64::from(defined.word(wave, inst.src[1], 1, lane)) << 32
            }
            false => defined.scalar(inst.src[1], Kind::B64),
        };
        let by = by & 63;
        let bits = if is_left { value << by | ((1 << by) - 1) } else { !(!value >> by) };
        (lane, if known & 63 == 63 { bits } else { 0 })
    };
    (0..LANES as u32).filter(|lane| lanes >> lane & 1 == 1).map(of).collect()
}

/// Lanes whose first word of a source is defined, and lanes that are defined as a whole.
fn source(inst: &Inst, wave: &Wave, defined: &Defined, n: usize) -> (u64, u64) {
    let (operand, kind) = (inst.src[n], inst.op.src[n]);
    let first = defined.lanes(wave, operand, 0, kind);
    match kind {
        Kind::Mask => (first, first),
        // Each half of a pair is computed alone.
        Kind::V2F32 | Kind::V2B32 => {
            let both = first | defined.lanes(wave, operand, 1, kind);
            (both, both)
        }
        kind => (first, (1..kind.dwords()).fold(first, |all, n| all & defined.lanes(wave, operand, n, kind))),
    }
}

fn words(wave: &Wave, defined: &Defined, operand: Operand, kind: Kind) -> u64 {
    (0..kind.dwords()).fold(u64::MAX, |all, n| all & defined.lanes(wave, operand, n, kind))
}

fn read_lane(inst: &Inst, wave: &Wave, defined: &mut Defined, exec: u64) {
    let lane = match inst.op.action == Action::ReadFirstLane {
        true => exec.trailing_zeros() & 63,
        false => wave.scalar32(inst.src[1], inst.literal, Kind::B32) & 63,
    };
    let bits = defined.lane(wave, inst.src[0], lane);
    defined.set_scalar(inst.dst, 1, u64::from(bits) | 0xffff_ffff << 32);
}

/// A result depends on a row and a column of the factors. Only factors without any defined lane make it undefined.
fn matrix(inst: &Inst, wave: &Wave, defined: &mut Defined) {
    let factor = |n: usize| words(wave, defined, inst.src[n], inst.source_kind(n));
    let factors = if factor(0) == 0 || factor(1) == 0 { 0 } else { u64::MAX };
    let results: Vec<u64> =
        (0..inst.op.dst.dwords()).map(|n| factors & defined.lanes(wave, inst.addend(), n, Kind::B32)).collect();
    for (n, lanes) in (0..).zip(results) {
        defined.set_lanes(wave, inst.dst, n, u64::MAX, lanes);
    }
}
