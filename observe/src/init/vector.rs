//! Definedness in vector instructions: lane by lane.

use amdgpu_emu::isa::inst::Inst;
use amdgpu_emu::isa::op::Flags;
use amdgpu_emu::isa::operand::{Kind, Operand};
use amdgpu_emu::isa::wave::{LANES, Wave};

use super::{Defined, Look, scalar};

pub(super) fn execute(look: &mut Look<'_>, defined: &mut Defined) {
    let (inst, wave) = (look.inst, look.step.wave);
    let op = inst.op;
    let exec = wave.exec();
    match op.name {
        "v_nop" => return,
        "v_readfirstlane_b32" | "v_readlane_b32" => return read_lane(inst, wave, defined, exec),
        "v_writelane_b32" => {
            let lane = wave.scalar32(inst.src[1], inst.literal, Kind::B32) & 63;
            let from = defined.scalar(inst.src[0], Kind::B32) as u32;
            return defined.set_lane(wave, inst.dst, lane, from);
        }
        "v_swap_b32" => {
            let (a, b) = (defined.lanes(wave, inst.dst, 0, Kind::B32), defined.lanes(wave, inst.src[0], 0, Kind::B32));
            defined.set_lanes(wave, inst.dst, 0, exec, b);
            return defined.set_lanes(wave, inst.src[0], 0, exec, a);
        }
        _ if op.is_matrix() => return matrix(inst, wave, defined),
        _ => {}
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
    if op.name.starts_with("v_div_fmas") {
        (low, all) = (low & defined.pair(Operand::VCC), all & defined.pair(Operand::VCC));
    }
    if op.name.starts_with("v_cndmask") {
        // The other source may be anything.
        let chosen = wave.scalar64(inst.src[2], inst.literal, Kind::Mask);
        let (a, b) = (source(inst, wave, defined, 0).1, source(inst, wave, defined, 1).1);
        all = defined.lanes(wave, inst.src[2], 0, Kind::Mask) & (a & !chosen | b & chosen);
        low = all;
        if inst.dpp().is_some() {
            (low, all) = (u64::MAX, u64::MAX);
        }
    }
    if op.dst == Kind::Mask || op.flags.has(Flags::MASK_OUT) {
        // Inactive lanes' bits are zero.
        defined.set_scalar(inst.sdst, 2, all | !exec);
        if op.flags.has(Flags::WRITES_EXEC) || inst.sdst == Operand::EXEC {
            scalar::lanes(look, all | !exec, Operand::EXEC);
        }
    }
    if op.dst != Kind::Mask {
        let integer = matches!(op.dst, Kind::B64 | Kind::I64 | Kind::U64);
        defined.set_lanes(wave, inst.dst, 0, mask, if integer { low } else { all });
        if is_move(inst) {
            defined.copy_bits(wave, inst.src[0], inst.dst, mask);
        }
        for n in 1..op.dst.dwords() {
            defined.set_lanes(wave, inst.dst, n, mask, all);
        }
    }
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

/// True for an instruction that moves whole registers.
fn is_move(inst: &Inst) -> bool {
    let names = ["v_mov_b32", "v_accvgpr_read_b32", "v_accvgpr_write_b32", "v_accvgpr_mov_b32"];
    inst.plain_sources && inst.plain_result && names.contains(&inst.op.name)
}

fn read_lane(inst: &Inst, wave: &Wave, defined: &mut Defined, exec: u64) {
    let lane = match inst.op.name {
        "v_readfirstlane_b32" => exec.trailing_zeros() & 63,
        _ => wave.scalar32(inst.src[1], inst.literal, Kind::B32) & 63,
    };
    let bits = defined.lane(wave, inst.src[0], lane);
    defined.set_scalar(inst.dst, 1, u64::from(bits) | 0xffff_ffff << 32);
}

/// A result depends on a row and a column of the factors. Only factors without any defined lane make it undefined.
fn matrix(inst: &Inst, wave: &Wave, defined: &mut Defined) {
    let factor = |n: usize| words(wave, defined, inst.src[n], inst.op.src[n]);
    let factors = if factor(0) == 0 || factor(1) == 0 { 0 } else { u64::MAX };
    let results: Vec<u64> =
        (0..inst.op.dst.dwords()).map(|n| factors & defined.lanes(wave, inst.addend(), n, Kind::B32)).collect();
    for (n, lanes) in (0..).zip(results) {
        defined.set_lanes(wave, inst.dst, n, u64::MAX, lanes);
    }
}
